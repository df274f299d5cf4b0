//! Decoders of images: from the frames of a sector to how likely each symbol is.

mod device;
mod evidence;
mod image;
mod kind;
mod nearest;
mod unet;

pub use device::Device;
pub use evidence::Evidence;
pub use image::{Decoders, ImageDecoder, ImageLoss};
pub use kind::DecoderKind;
pub use nearest::NearestSymbol;
pub use unet::{UNet, UNetError};

pub use fulgurite_unet::GpuError;

use fulgurite_codec::ldpc::LdpcDecoder;

use crate::emulator::Frames;

/// Estimates from the images of a sector which symbol each voxel carries.
pub trait VoxelDecoder {
    /// Probabilities of all symbols for each voxel, row by row.
    ///
    /// # Errors
    /// [`FramesError`] if the frames can't be those of a sector, or contain nothing to decode.
    fn decode(&mut self, frames: &Frames) -> Result<Probabilities, FramesError>;

    /// Decodes several sectors, which a graphics processor does at once.
    fn decode_all(&mut self, sectors: &[&Frames]) -> Vec<Result<Probabilities, FramesError>> {
        sectors.iter().map(|frames| self.decode(frames)).collect()
    }
}

impl<D: VoxelDecoder + ?Sized> VoxelDecoder for Box<D> {
    fn decode(&mut self, frames: &Frames) -> Result<Probabilities, FramesError> {
        (**self).decode(frames)
    }

    fn decode_all(&mut self, sectors: &[&Frames]) -> Vec<Result<Probabilities, FramesError>> {
        (**self).decode_all(sectors)
    }
}

/// Why frames can't be decoded. The sector is an erasure for the codes between sectors.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each message says what happened, with its fields")]
pub enum FramesError {
    #[error("frames of {rows} x {columns} voxels with {pixels} pixels don't fit a decoder for {expected_rows} x {expected_columns}")]
    Shape { rows: usize, columns: usize, pixels: usize, expected_rows: usize, expected_columns: usize },
    #[error("pixels of {bits} bits: they must have 1 to 16")]
    Bits { bits: u32 },
    #[error("frames have no contrast: black, saturated, or of glass without voxels")]
    Blank,
}

/// Probabilities of symbols, voxel by voxel.
#[derive(Debug, Clone, PartialEq)]
pub struct Probabilities {
    symbols: usize,
    values: Vec<f32>,
}

impl Probabilities {
    /// Creates probabilities from `symbols` values for each voxel.
    ///
    /// # Panics
    /// If the number of symbols isn't a power of two up to 256, or doesn't divide the number of
    /// values.
    pub fn new(symbols: usize, values: Vec<f32>) -> Self {
        assert!(symbols.is_power_of_two() && symbols <= 256, "{symbols} symbols: their number must be a power of two up to 256");
        assert!(values.len().is_multiple_of(symbols), "{} values aren't {symbols} for each voxel", values.len());
        Self { symbols, values }
    }

    /// The probabilities of each voxel's symbols.
    pub fn voxels(&self) -> impl ExactSizeIterator<Item = &[f32]> {
        self.values.chunks_exact(self.symbols)
    }

    /// The likeliest symbol of each voxel.
    pub fn likeliest(&self) -> Vec<u8> {
        self.voxels().map(|voxel| (0..voxel.len()).max_by(|&a, &b| voxel[a].total_cmp(&voxel[b])).unwrap_or(0) as u8).collect()
    }

    /// Ratios of the bits of all voxels, for the code of the sector: positive where 0 is more
    /// likely, in units of [`LdpcDecoder::RATIOS_PER_NAT`].
    pub fn ratios(&self) -> Vec<i8> {
        let bits = self.symbols.trailing_zeros();
        let mut ratios = Vec::with_capacity(self.values.len() / self.symbols * bits as usize);
        for voxel in self.voxels() {
            for bit in 0..bits {
                let (mut zero, mut one) = (0.0, 0.0);
                for (symbol, probability) in voxel.iter().enumerate() {
                    if symbol >> bit & 1 == 0 { zero += probability } else { one += probability }
                }
                // 0/0, for a voxel without any information, is NaN, which becomes a ratio of 0.
                ratios.push(LdpcDecoder::ratio((zero / one).ln()));
            }
        }
        ratios
    }
}
