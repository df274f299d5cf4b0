//! The schedule of the decode service, which follows the drives: drives deliver images, and this
//! service turns them into bytes, when they are needed or when computing is cheap.
//!
//! ```text
//!   price     ____            ____
//!            |    |__        |    |__          a job that is due here ----.
//!          __|       |______|        |______                              v
//!   hour   0  1  2  3  4  5  6  7  8  9 ...    runs in the cheapest hours before, earliest
//!                   ^        ^                 deadline first; the plan is remade each hour,
//!                                              and jobs with no time to lose run at once
//! ```
//!
//! A [`Job`] has a class and a deadline. The schedule decides which jobs may run in this hour, and
//! in which order. Two services use it: [`DecodeService`] simulates workers for the digital twin,
//! and [`DecodeQueue`] hands out jobs to the threads of an archive. Neither knows a clock: the
//! caller passes the time (I8).
//!
//! The plan of least cost: for each deadline in order, take the cheapest hours before it that are
//! still free. Jobs are limited by deadlines alone, so each can use all hours that earlier
//! deadlines could use; the best choice for the earlier ones is then part of the best choice for
//! the later ones. Future work is unknown, so the plan leaves a reserve for it in every later hour.
//!
//! Elastic decoding with deadlines and prices comes from Project Silica (Anderson et al., SOSP '23,
//! section 3). The paper doesn't say how it decides; this policy is a proposal.

#![forbid(unsafe_code)]

mod queue;
mod schedule;
mod service;

pub use queue::DecodeQueue;
pub use service::{DecodeService, Decoded, Totals};

use fulgurite_domain::Micros;

/// When jobs run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// As soon as workers are free, whatever it costs.
    AtOnce,
    /// In the cheapest hours before the deadlines.
    #[default]
    Cheapest,
}

/// Settings of the service.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// When jobs run.
    pub policy: Policy,
    /// Available workers, by hour of the day.
    pub workers: [u32; 24],
    /// Price of a worker for an hour, by hour of the day. Only busy workers are paid for.
    pub prices: [f64; 24],
    /// How long before its deadline a job should be done: a quarter of an hour (proposed).
    pub margin: Micros,
    /// Share of every later hour that the plan leaves free: 0.25 (proposed).
    pub reserve: f64,
    /// Deadline of jobs without one, counted from when they are ready, so that they don't starve: a
    /// day (proposed).
    pub leisure: Micros,
    /// Most jobs that may wait: a million (proposed).
    pub jobs_max: usize,
}

impl Default for Settings {
    /// 100 workers, at half the day's price by night (proposed).
    fn default() -> Self {
        Self {
            policy: Policy::Cheapest,
            workers: [100; 24],
            prices: std::array::from_fn(|hour| if (7..23).contains(&hour) { 1.0 } else { 0.5 }),
            margin: Micros(Micros::HOUR.0 / 4),
            reserve: 0.25,
            leisure: Micros(24 * Micros::HOUR.0),
            jobs_max: 1_000_000,
        }
    }
}

/// What a job is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// A client waits for the bytes: runs before all jobs of the other class, at any price.
    Read,
    /// Verification, and reads whose clients come back for the bytes hours later: runs by its
    /// deadline.
    Deferrable,
}

/// Images to be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    /// Identifies the job when it is done.
    pub id: u64,
    /// What it is for.
    pub class: Class,
    /// When the images are available.
    pub ready: Micros,
    /// Time that one worker alone would take; more than 0.
    pub work: Micros,
    /// Most workers that can share it: its number of sectors, which are independent. At least 1.
    pub width: u32,
    /// When it must be done; [`Micros::NEVER`] if it can wait.
    pub deadline: Micros,
}

/// The queue is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{jobs_max} jobs already wait to be decoded: add workers or raise jobs_max")]
pub struct Full {
    /// The limit.
    pub jobs_max: usize,
}

#[cfg(test)]
mod tests;
