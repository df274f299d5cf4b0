//! The settings of a library: its panel, machines, blast zones and policy, read from TOML.
//!
//! ```text
//!   library.toml --> LibrarySettings::read ----.
//!   LibrarySettings { ..Default::default() } --+--> LibrarySettings --> layout, zones
//!                                                          |            machines(track_bytes)
//!         docs/library-settings.md <-- reference()         |            pace(track_bytes)
//!                                                          |            policy(track_bytes)
//!                                                          '--> canonical(): complete TOML
//!
//!   scenario of the twin --> sections::library, shuttles, ... --> the same settings, by the same code
//! ```
//!
//! The twin and the live service share these settings, so that what was simulated is what runs. The
//! size of a track is not among them: the platters decide it, so the functions that need it take it
//! as an argument.

#![forbid(unsafe_code)]

pub mod conflict;
mod library;
mod pace;
mod policy;
pub mod sections;

pub use conflict::Conflict;
pub use library::{LibrarySettings, reference};
pub use pace::{mean_seek_s, pace};
pub use policy::{PolicyChoice, PolicyName};
