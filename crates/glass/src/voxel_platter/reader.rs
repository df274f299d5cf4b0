//! What reads of all glass platters of an archive share: effects of the camera, decoders, codes,
//! and a limit on the threads at work.

use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use fulgurite_codec::SectorCode;

use super::head::GlassHead;
use super::writing::VoxelWriter;
use crate::GlassMedium;
use crate::decoder::{DecoderKind, FramesError, Probabilities, VoxelDecoder};
use crate::emulator::{Frames, ReadEffects};

/// How glass is read. One reader serves all platters of an archive.
pub struct GlassReader {
    pub(super) effects: ReadEffects,
    decoder: DecoderKind,
    pub(super) threads: usize,
    /// Permits that no thread holds.
    permits: Mutex<usize>,
    returned: Condvar,
    codes: Mutex<Vec<Arc<SectorCode>>>,
    /// Idle decoders: loading a model takes time.
    decoders: Mutex<Vec<(GlassMedium, Box<dyn VoxelDecoder + Send>)>>,
}

impl GlassReader {
    /// A reader whose images have these effects. At most `threads` sectors are decoded at once,
    /// however many platters are being read: each takes some megabytes.
    pub fn new(effects: ReadEffects, decoder: DecoderKind, threads: usize) -> Self {
        let threads = threads.max(1);
        Self {
            effects,
            decoder,
            threads,
            permits: Mutex::new(threads),
            returned: Condvar::new(),
            codes: Mutex::default(),
            decoders: Mutex::default(),
        }
    }

    /// Begins a platter: the returned writer takes the platter's bytes, and writes its file to
    /// `sink`.
    ///
    /// # Errors
    /// Errors of `sink`.
    pub fn writer<W: Write>(&self, head: GlassHead, sink: W) -> io::Result<VoxelWriter<W>> {
        VoxelWriter::new(self.code(&head.medium), head, sink)
    }

    /// A decoder for sectors of this medium, for the caller alone.
    pub(super) fn decoder(&self, medium: &GlassMedium) -> BorrowedDecoder<'_> {
        let mut idle = self.decoders.lock().unwrap_or_else(PoisonError::into_inner);
        let found = idle.iter().position(|(of, _)| of == medium);
        let decoder = found.map(|index| idle.swap_remove(index).1);
        drop(idle);
        let decoder = decoder.unwrap_or_else(|| self.decoder.load(medium));
        BorrowedDecoder { reader: self, medium: medium.clone(), decoder: Some(decoder) }
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

    /// Waits for one of the `threads` permits to emulate and decode.
    pub(super) fn permit(&self) -> Permit<'_> {
        let permits = self.permits.lock().unwrap_or_else(PoisonError::into_inner);
        let mut permits = self.returned.wait_while(permits, |permits| *permits == 0).unwrap_or_else(PoisonError::into_inner);
        *permits -= 1;
        Permit(self)
    }
}

/// A decoder that goes back to its reader when it is dropped.
pub(super) struct BorrowedDecoder<'a> {
    reader: &'a GlassReader,
    medium: GlassMedium,
    /// Present until this is dropped.
    decoder: Option<Box<dyn VoxelDecoder + Send>>,
}

impl VoxelDecoder for BorrowedDecoder<'_> {
    fn decode(&mut self, frames: &Frames) -> Result<Probabilities, FramesError> {
        self.decoder.as_mut().expect("present until this is dropped").decode(frames)
    }
}

impl Drop for BorrowedDecoder<'_> {
    fn drop(&mut self) {
        let mut idle = self.reader.decoders.lock().unwrap_or_else(PoisonError::into_inner);
        // Keeps decoders of one medium only: few archives have several media.
        idle.retain(|(of, _)| *of == self.medium);
        if let Some(decoder) = self.decoder.take().filter(|_| idle.len() < self.reader.threads && !std::thread::panicking()) {
            idle.push((self.medium.clone(), decoder));
        }
    }
}

/// A permit to work, which is returned when it is dropped.
pub(super) struct Permit<'a>(&'a GlassReader);

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        *self.0.permits.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.returned.notify_one();
    }
}
