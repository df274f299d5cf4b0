//! Decisions on motion in a library of platters. A [`Controller`](https://en.wikipedia.org/wiki/Sans-IO) owns all state, is told *events*
//! and answers with *commands*; whoever carries them out, emulated mechanics or real ones, is elsewhere.

mod command;
mod event;
mod layout;
pub mod placement;

pub use command::{Action, Actor, Command, CommandId, Outcome, Tracks};
pub use event::{Event, Fault, ReadRequest, RequestId};
pub use layout::{Bay, Berth, Cell, Drive, Layout, LayoutError, Platter, Position, Shuttle, Side, Slot};
