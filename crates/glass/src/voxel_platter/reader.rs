//! The drives for glass: camera, decoder, and the service that decides when they work.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use fulgurite_codec::SectorCode;

use super::batch::{CallersThread, DecodeService};
use super::head::GlassHead;
use super::writing::VoxelWriter;
use crate::GlassMedium;
use crate::decoder::DecoderKind;
use crate::emulator::ReadEffects;

/// How glass is read. One reader serves all platters of an archive.
pub struct GlassReader {
    pub(super) effects: ReadEffects,
    pub(super) decoder: DecoderKind,
    pub(super) service: Arc<dyn DecodeService>,
    codes: Arc<Mutex<Vec<Arc<SectorCode>>>>,
}

impl GlassReader {
    /// A reader whose images have these effects. It decodes on the threads of its callers.
    pub fn new(effects: ReadEffects, decoder: DecoderKind) -> Self {
        Self { effects, decoder, service: Arc::new(CallersThread), codes: Arc::default() }
    }

    /// The same reader, with a service that decodes for it.
    #[must_use]
    pub fn with_service(&self, service: Arc<dyn DecodeService>) -> Self {
        Self { effects: self.effects, decoder: self.decoder, service, codes: self.codes.clone() }
    }

    /// Begins a platter: the returned writer takes the platter's bytes, and writes its file to
    /// `sink`.
    ///
    /// # Errors
    /// Errors of `sink`.
    pub fn writer<W: Write>(&self, head: GlassHead, sink: W) -> io::Result<VoxelWriter<W>> {
        VoxelWriter::new(self.code(&head.medium), head, sink)
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
}
