//! Domain types of the archive: identifiers, platter geometry and addresses, and object records.
//!
//! This crate does no IO, never waits and uses no randomness. A [`Geometry`] defines the sectors,
//! tracks and groups of a platter; addresses ([`TrackIndex`], [`SectorAddress`]) refer to them;
//! identifiers name platters, sets and versions. [`Micros`] is the time of the simulated and real
//! machines.

#![forbid(unsafe_code)]

mod attributes;
mod geometry;
mod identifiers;
mod medium;
mod object;
mod place;
mod time;

pub use attributes::{Attributes, AttributesError};
pub use geometry::{Geometry, GeometryError, Group, LABEL_BYTES, SECTOR_BYTES_MAX, SECTOR_BYTES_MIN};
pub use identifiers::{ArchiveId, IdentifierError, PlatterId, SetId, VersionId};
pub use medium::Medium;
pub use object::{Digest, Kind, Modified, ObjectName, ObjectRecord, is_hidden};
pub use place::{PhysicalTrack, SectorAddress, SetShape, TrackIndex};
pub use time::Micros;
