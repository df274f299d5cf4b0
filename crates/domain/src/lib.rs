//! What the archive talks about: identifiers, platter geometry and addresses, and the record of an object.
//!
//! Nothing here reads, writes, waits or draws chance. A [`Geometry`] says how many sectors, tracks and groups a platter has; an
//! address ([`TrackIndex`], [`SectorAddress`]) says which one is meant; identifiers name platters, sets and versions across all of them.
//! [`Micros`] is the time of the machines that decide and move.

mod attributes;
mod geometry;
mod identifiers;
mod object;
mod place;
mod time;

pub use attributes::{Attributes, AttributesError};
pub use geometry::{Geometry, GeometryError, Group, LABEL_BYTES, SECTOR_BYTES_MAX, SECTOR_BYTES_MIN};
pub use identifiers::{ArchiveId, IdentifierError, PlatterId, SetId, VersionId};
pub use object::{Digest, Kind, Modified, ObjectName, ObjectRecord};
pub use place::{PhysicalTrack, SectorAddress, SetShape, TrackIndex};
pub use time::Micros;
