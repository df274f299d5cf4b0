//! Fixity audit: every copy of every file is read and compared with its digest, wherever it is, and
//! a node that gets slow is named.
//!
//! ```text
//!  inventory ---> database <--- run: a lane for each node ---> place (folder, bucket, server)
//!  (what should    |   ^         |  schedule: what is due       |
//!   be where)      |   |         |  breaker, pace               check: read, compare,
//!                  |   '---------'  evidence, times             read again, witness
//!                  v
//!               reports
//! ```
//!
//! The places are those of [`fulgurite_places`].
//!
//! | module | contents |
//! | --- | --- |
//! | [`copy`] | copies, their states, and what a check can find |
//! | [`check`] | the check of one copy, with its second reading and witnesses |
//! | [`node`] | where copies are, and the rules for checking them |
//! | [`breaker`], [`pace`] | when a node is left alone, and how fast it is read |
//! | [`database`] | what is known: nodes, files, copies, and the history of checks |
//! | [`inventory`] | lists of files that should be at nodes |
//! | [`run`] | checks what is due, with a lane for each node |
//! | [`expectation`], [`slowdown`] | how long checks should take, and the detection of slow nodes |
//! | [`series`] | what a detector watches |
//! | [`matrix`] | known files, read on schedule to see how long it takes |
//! | [`service_level`] | when a cycle ends, and whether a day was good enough |
//! | [`report`] | what an audit knows, for people, spreadsheets and monitoring |
//! | [`repair`] | rewrites bad copies from good ones |
#![forbid(unsafe_code)]

pub mod breaker;
pub mod check;
pub mod copy;
pub mod database;
pub mod expectation;
#[cfg(test)]
mod fake_place;
pub mod inventory;
pub mod matrix;
pub mod node;
pub mod overdue;
pub mod pace;
pub mod repair;
pub mod report;
pub mod run;
pub mod series;
pub mod service_level;
pub mod slowdown;
mod thinned;
