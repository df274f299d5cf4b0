//! The medium: a blank platter goes into a write drive and comes out written; a read drive fetches tracks of it.
//!
//! A [`BlankPlatter`] is consumed by the [`WriteDrive`], which gives a [`WrittenPlatter`] back; no function takes that to a write drive
//! again (I2). A [`ReadDrive`] delivers [`Track`]s: sectors that are good, and sectors that are lost, which the track's own code and, behind
//! it, the code of the large group fill in. What is beyond them is a value, [`Lost`], for the platter-set to mend.
//!
//! Here is the `disk` medium, where a platter is a file; `docs/format.md` gives its bytes.

mod group;
mod label;
mod read;
mod track;
mod write;

pub use group::{GroupRepair, RebuiltSector};
pub use read::{Lost, PlatterSource, ReadDrive, Rebuilt, SectorRead};
pub use track::Track;
pub use write::{BlankPlatter, WriteDrive, WrittenPlatter};
