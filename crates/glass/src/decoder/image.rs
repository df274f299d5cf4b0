//! From the images of a sector to its payload: a decoder of voxels, then the code of the sector.

use std::sync::Arc;

use fulgurite_codec::{DecodedSector, SectorCode, SectorLoss};

use super::{DecoderKind, Device, FramesError, Probabilities, VoxelDecoder};
use crate::GlassMedium;
use crate::emulator::Frames;

/// Decodes sectors of one medium, one after the other.
pub struct ImageDecoder {
    voxels: Box<dyn VoxelDecoder + Send>,
    code: Arc<SectorCode>,
}

/// Why images are not those of an intact sector. It is an erasure for the codes between sectors.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImageLoss {
    /// The images contain nothing to decode.
    #[error(transparent)]
    Frames(#[from] FramesError),
    /// The code of the sector can't correct what they say.
    #[error(transparent)]
    Sector(#[from] SectorLoss),
}

impl ImageDecoder {
    /// Loads a decoder for a medium; `code` is the code of its sectors.
    pub fn new(kind: DecoderKind, medium: &GlassMedium, code: Arc<SectorCode>, device: &Device) -> Self {
        Self { voxels: kind.load(medium, device), code }
    }

    /// Decodes the sector at `address`.
    ///
    /// # Errors
    /// [`ImageLoss`] if the sector is lost.
    pub fn decode(&mut self, address: &[u8], frames: &Frames) -> Result<DecodedSector, ImageLoss> {
        let probabilities = self.voxels.decode(frames);
        self.correct(address, probabilities)
    }

    /// Decodes several sectors, each with its address. Errors are those of
    /// [`decode`](Self::decode).
    pub fn decode_all<'a>(&mut self, sectors: &[(&'a [u8], &'a Frames)]) -> Vec<Result<DecodedSector, ImageLoss>> {
        let frames: Vec<&Frames> = sectors.iter().map(|(_, frames)| *frames).collect();
        let decoded = self.voxels.decode_all(&frames);
        sectors.iter().zip(decoded).map(|((address, _), probabilities)| self.correct(address, probabilities)).collect()
    }

    fn correct(&self, address: &[u8], probabilities: Result<Probabilities, FramesError>) -> Result<DecodedSector, ImageLoss> {
        Ok(self.code.decoder().decode(address, &probabilities?.ratios())?)
    }
}

/// The decoders of a thread. Loading one takes time, so the last of each kind is kept.
#[derive(Default)]
pub struct Decoders {
    device: Device,
    nearest: Option<(GlassMedium, ImageDecoder)>,
    unet: Option<(GlassMedium, ImageDecoder)>,
}

impl Decoders {
    /// For decoders whose networks run on `device`.
    pub fn on(device: Device) -> Self {
        Self { device, ..Self::default() }
    }

    /// A decoder for a medium with the sector code `code`.
    pub fn load(&mut self, kind: DecoderKind, medium: &GlassMedium, code: impl FnOnce() -> Arc<SectorCode>) -> &mut ImageDecoder {
        let last = match kind {
            DecoderKind::Nearest => &mut self.nearest,
            DecoderKind::UNet => &mut self.unet,
        };
        if last.as_ref().is_some_and(|(last_medium, _)| last_medium != medium) {
            *last = None;
        }
        &mut last.get_or_insert_with(|| (medium.clone(), ImageDecoder::new(kind, medium, code(), &self.device))).1
    }

    /// Forgets all decoders, for example because one panicked.
    pub fn forget(&mut self) {
        (self.nearest, self.unet) = (None, None);
    }
}
