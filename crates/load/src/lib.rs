//! The load generator: plays workloads against S3 servers, several side by side, and measures them.
//!
//! ```text
//! Load -----> run: threads with clients -----> target: an S3 server, or files
//!   |           |  each has one connection       (content is made, and checked)
//! objects <-----'
//!   which object is next    `-----> figures: rates, percentiles, errors, by operation and over time
//! ```
//!
//! In a closed loop, each client has one open request and begins the next when it ends. In an open
//! loop, requests come at random instants at a given rate, whether or not the server keeps up, and
//! the time that a request waits for a free client counts.

#![forbid(unsafe_code)]

mod connection;
mod content;
mod drift;
mod figures;
mod files;
mod objects;
mod page;
mod process;
mod report;
mod run;
mod target;

pub use drift::{Drift, NoDrift};
pub use figures::{Brief, Figures, Window};
pub use objects::{Mix, NotAMix, Objects, Operation, Sizes};
pub use page::page;
pub use process::Usage;
pub use report::{COLUMNS, rows, table};
pub use run::{Length, Load, Pace, Progress, Run, play};
pub use target::{Place, Target, TargetError};
