//! Lots: files that move together.

use serde::{Deserialize, Serialize};

/// Identifies a lot within a run. Numbers are never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LotId(pub u64);

/// A family: files that stay together on the output medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FamilyId(pub u32);

/// A volume of the source that only one stream can read at a time, such as a tape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SourceVolume(pub u32);

/// Files of one family, and of one volume of the source, that move together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lot {
    /// Its identifier.
    pub id: LotId,
    /// Number of files, at least 1.
    pub files: u32,
    /// Their bytes in all.
    pub bytes: u64,
    /// Their family.
    pub family: FamilyId,
    /// The volume that contains them, if the source consists of volumes.
    pub volume: Option<SourceVolume>,
    /// Lots with higher numbers are written first.
    pub priority: u8,
}
