//! Which decoder reads an archive's glass.

use super::{Device, NearestSymbol, UNet, VoxelDecoder};
use crate::GlassMedium;

/// The decoders that settings can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DecoderKind {
    /// [`NearestSymbol`].
    Nearest,
    /// [`UNet`], with the model that comes with the program; [`NearestSymbol`] for media that it
    /// wasn't trained for.
    #[default]
    UNet,
}

impl DecoderKind {
    /// All decoders.
    pub const ALL: [Self; 2] = [Self::Nearest, Self::UNet];

    /// Its name in settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nearest => "nearest",
            Self::UNet => "unet",
        }
    }

    /// The other decoder.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Nearest => Self::UNet,
            Self::UNet => Self::Nearest,
        }
    }

    /// A decoder for sectors of this medium, whose network runs on `device`.
    pub fn load(self, medium: &GlassMedium, device: &Device) -> Box<dyn VoxelDecoder + Send> {
        let nearest = || Box::new(NearestSymbol::new(medium.microscope, &medium.alphabet, medium.rows, medium.columns));
        match self {
            Self::Nearest => nearest(),
            // A platter of another medium is better read with less margin than not at all.
            Self::UNet => UNet::embedded(medium, device).map_or_else(|_| nearest() as Box<dyn VoxelDecoder + Send>, |unet| Box::new(unet)),
        }
    }
}
