//! From the images of a sector to its payload: a decoder of voxels, then the code of the sector.

use std::sync::Arc;

use fulgurite_codec::{DecodedSector, SectorCode, SectorLoss};

use super::{DecoderKind, FramesError, VoxelDecoder};
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
    pub fn new(kind: DecoderKind, medium: &GlassMedium, code: Arc<SectorCode>) -> Self {
        Self { voxels: kind.load(medium), code }
    }

    /// Decodes the sector at `address`.
    ///
    /// # Errors
    /// [`ImageLoss`] if the sector is lost.
    pub fn decode(&mut self, address: &[u8], frames: &Frames) -> Result<DecodedSector, ImageLoss> {
        let ratios = self.voxels.decode(frames)?.ratios();
        Ok(self.code.decoder().decode(address, &ratios)?)
    }
}
