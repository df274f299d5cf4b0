//! Emulated shuttles and drives of a library: the duration, cost and failures of their motions.
//!
//! [`Mechanics`] mirrors the controller: it takes commands and returns events, each with the
//! instant at which it is due. It has its own ground truth of every platter's and shuttle's place,
//! and panics on a command that can't be carried out.
//!
//! ```text
//!                 Command::Do                          (instant, Event)
//!   controller -----------------> Mechanics::begin ----------------------> queue of the driver
//!       ^                                                                      |
//!       '------------- if true ---------------- Mechanics::due <---------------'
//!                                                   |
//!                           legs of all shuttles -> MotionLog, such as NoTwoShuttlesMeet
//! ```
//!
//! [`Libraries`] is the driver: the controllers of a region with the machines of each library,
//! coupled by one [`EventQueue`]. The twin jumps from event to event; a service waits until each is
//! due.
//!
//! The crate has no clock and no threads; all randomness comes from the seed.

#![forbid(unsafe_code)]

mod drive;
mod event_queue;
mod health;
mod inventory;
mod libraries;
mod mechanics;
mod motion_log;
mod no_two_shuttles_meet;
mod settings;
mod shuttle;
mod site;
mod statistics;
mod trajectory;

pub use event_queue::EventQueue;
pub use inventory::Whereabouts;
pub use libraries::{Due, Libraries, Witness};
pub use mechanics::{Detection, Lasting, Mechanics, NotRepaired, Outage};
pub use motion_log::MotionLog;
pub use no_two_shuttles_meet::{Meeting, NoTwoShuttlesMeet};
pub use settings::{Battery, Breakdown, DriveTimes, Faults, Motion, PlannedFault, Power, Service, Settings, SettingsError};
pub use statistics::{DriveState, DriveStatistics, Energy, ShuttleState, ShuttleStatistics};
pub use trajectory::{Footprint, Profile, Trajectory};
