//! The drives for glass: camera, decoder, and how much of both works at once.

use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use fulgurite_codec::SectorCode;

use super::head::GlassHead;
use super::writing::VoxelWriter;
use crate::GlassMedium;
use crate::decoder::{DecoderKind, VoxelDecoder};
use crate::emulator::ReadEffects;

/// How glass is read. One reader serves all platters of an archive.
pub struct GlassReader {
    pub(super) effects: ReadEffects,
    decoder: DecoderKind,
    pub(super) threads: usize,
    idle: Mutex<usize>,
    released: Condvar,
    codes: Mutex<Vec<Arc<SectorCode>>>,
}

impl GlassReader {
    /// A reader whose images have these effects. However many platters are read at once, `threads`
    /// sectors at most are decoded at once: each takes some megabytes.
    pub fn new(effects: ReadEffects, decoder: DecoderKind, threads: usize) -> Self {
        let threads = threads.max(1);
        Self { effects, decoder, threads, idle: Mutex::new(threads), released: Condvar::new(), codes: Mutex::default() }
    }

    /// Begins a platter: writes its bytes to the returned sink.
    ///
    /// # Errors
    /// Errors of `sink`.
    pub fn writer<W: Write>(&self, head: GlassHead, sink: W) -> io::Result<VoxelWriter<W>> {
        VoxelWriter::new(self.code(&head.medium), head, sink)
    }

    pub(super) fn decoder(&self, medium: &GlassMedium) -> Box<dyn VoxelDecoder + Send> {
        self.decoder.load(medium)
    }

    /// The code of a medium's sectors. Finding its matrix takes a while, so it is kept.
    pub(super) fn code(&self, medium: &GlassMedium) -> Arc<SectorCode> {
        let bits = medium.alphabet.bits_per_voxel() as usize;
        let mut codes = self.codes.lock().unwrap_or_else(PoisonError::into_inner);
        let is_this = |code: &&Arc<SectorCode>| {
            (code.symbols(), code.bits_per_symbol(), code.ldpc().parity_columns()) == (medium.voxels(), bits, medium.parity_columns)
        };
        if let Some(code) = codes.iter().find(is_this) {
            return code.clone();
        }
        let code = Arc::new(medium.sector_code());
        codes.push(code.clone());
        code
    }

    /// Waits until fewer than `threads` are at work, and counts the caller among them.
    pub(super) fn begin(&self) -> Working<'_> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let mut idle = self.released.wait_while(idle, |idle| *idle == 0).unwrap_or_else(PoisonError::into_inner);
        *idle -= 1;
        Working(self)
    }
}

/// A thread at work.
pub(super) struct Working<'a>(&'a GlassReader);

impl Drop for Working<'_> {
    fn drop(&mut self) {
        *self.0.idle.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.released.notify_one();
    }
}
