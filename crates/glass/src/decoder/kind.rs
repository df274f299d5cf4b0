//! Which decoder reads an archive's glass.

use super::{NearestSymbol, VoxelDecoder};
use crate::GlassMedium;

/// The decoders that settings can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DecoderKind {
    /// [`NearestSymbol`].
    #[default]
    Nearest,
}

impl DecoderKind {
    /// All decoders.
    pub const ALL: [Self; 1] = [Self::Nearest];

    /// Its name in settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nearest => "nearest",
        }
    }

    /// A decoder for sectors of this medium.
    pub fn load(self, medium: &GlassMedium) -> Box<dyn VoxelDecoder + Send> {
        match self {
            Self::Nearest => Box::new(NearestSymbol::new(medium.microscope, &medium.alphabet, medium.rows, medium.columns)),
        }
    }
}
