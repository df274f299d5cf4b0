//! Motion control for a library of platters.
//!
//! A [`Controller`] owns the state of one library, consumes [`Event`]s and emits [`Command`]s,
//! which emulated or real mechanics carry out. A [`Policy`] chooses what moves next by looking at
//! the [`Panel`].
//!
//! ```text
//!           events                                commands
//!   +----------------------+              +----------------------+
//!   |      Controller      |------------->|      mechanics       |
//!   |  (same code, always) |<-------------|   emulated or real   |
//!   +----------------------+              +----------------------+
//! ```
//!
//! This crate reads no clock, uses no randomness and does no IO (I8).

#![forbid(unsafe_code)]

mod command;
mod controller;
mod event;
mod layout;
mod pace;
mod panel;
pub mod placement;
mod policy;
mod queue;
mod rectangle;
mod region;
mod request;
mod section;
mod traffic;

pub use command::{Action, Actor, Command, CommandId, Outcome};
pub use controller::Controller;
pub use event::{Event, Fault};
pub use layout::{Bay, Berth, Cell, Drive, Layout, LayoutError, Platter, Position, Shuttle, Side, Slot};
pub use pace::Pace;
pub use panel::{BayState, Carry, Found, Held, Inventory, Job, Operation, Panel, Purpose, Stage, Verification, Whereabouts};
pub use policy::{Balanced, NoShuttles, Partitioned, Policy, Progress, ShortestPaths, Task, Techniques};
pub use queue::{Lane, Queue, Rank, WaitingRequest};
pub use rectangle::{Rectangle, rectangles};
pub use region::{Library, ReadOrigin, Region, RegionOutcome, RegionPlatter, Sets, Shard};
pub use request::{ReadRequest, RequestId, Tracks};
pub use section::{Section, sections};
pub use traffic::Congestion;
