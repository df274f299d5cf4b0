//! What platters are made of.

use std::fmt;

/// The medium of a platter. All platters of a set have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Medium {
    /// A file with the platter's bytes.
    #[default]
    Disk,
    /// Voxels in glass: a file with their symbols.
    Glass,
}

impl Medium {
    /// All media.
    pub const ALL: [Self; 2] = [Self::Disk, Self::Glass];

    /// Its name in headers and settings.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::Glass => "glass",
        }
    }

    /// The medium with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|medium| medium.name() == name)
    }
}

impl fmt::Display for Medium {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
