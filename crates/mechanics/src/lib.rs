//! How long motions take, what they cost and how they fail: the emulated shuttles and drives of a library.
//!
//! [`Mechanics`] is the mirror of the controller: commands go in, and events come out, each with the instant at which it falls due. It has
//! its own truth of where every platter and shuttle is, and stops the run at a command that can't be carried out.
//!
//! ```text
//!                 Command::Do                          (instant, Event)
//!   controller -----------------> Mechanics::begin ----------------------> queue of the driver
//!       ^                                                                      |
//!       '------------- told, if true ---------- Mechanics::due <---------------'
//!                                                   |
//!                           legs of all shuttles -> MotionLog, such as NoTwoShuttlesMeet
//! ```
//!
//! There is no clock here, and no thread; chance comes from the seed alone.

mod drive;
mod health;
mod inventory;
mod mechanics;
mod motion_log;
mod no_two_shuttles_meet;
mod settings;
mod shuttle;
mod site;
mod statistics;
mod trajectory;

pub use inventory::Whereabouts;
pub use mechanics::Mechanics;
pub use motion_log::MotionLog;
pub use no_two_shuttles_meet::{Meeting, NoTwoShuttlesMeet};
pub use settings::{Battery, Breakdown, DriveTimes, Faults, Motion, PlannedFault, Power, Service, Settings, SettingsError};
pub use statistics::{DriveState, DriveStatistics, Energy, ShuttleState, ShuttleStatistics};
pub use trajectory::{Place, Profile, Trajectory};
