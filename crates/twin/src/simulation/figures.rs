//! The figures of a run.

use fulgurite_domain::Micros;
use fulgurite_library::{Congestion, RegionOutcome};
use fulgurite_mechanics::{DriveState, DriveStatistics, ShuttleState, ShuttleStatistics};

use super::decoding::DecodeFigures;
use super::error::Unfinished;
use crate::bound::Bound;
use crate::statistics::Recorder;

/// The results of a run. Requests are those that arrived in the measured interval; drives, shuttles
/// and the system are measured over that interval.
#[derive(Debug, Clone, Default)]
pub struct Run {
    /// The scenario's name.
    pub scenario: String,
    /// The seed.
    pub seed: u64,
    /// Number of measured requests.
    pub requests: u64,
    /// Measured requests that had not ended when the run stopped; `None` if all ended.
    pub unfinished: Option<Unfinished>,
    /// Number of their shards.
    pub reads: u64,
    /// Bytes of the files that they asked for, whatever their outcome.
    pub bytes: u64,
    /// Completion times in microseconds of the requests that got their bytes, from a request's
    /// arrival until the last of them left the library. If requests were unfinished, their times
    /// until the run stopped are among them, so all percentiles are lower bounds.
    pub completions: Recorder,
    /// Outcomes of the requests that ended.
    pub outcomes: Outcomes,
    /// Shards recovered from other platters of their set, over the whole run.
    pub recoveries: u64,
    /// Arrivals and due events over the whole run.
    pub events: u64,
    /// End of the last measured request, or of the run if some were unfinished.
    pub ended_at: Micros,
    /// Drives of all libraries.
    pub drives: DriveFigures,
    /// Shuttles of all libraries.
    pub shuttles: ShuttleFigures,
    /// Requests and platters in progress.
    pub system: SystemFigures,
    /// Lower bounds that no policy can beat; `None` if requests ended without their bytes, or there
    /// were more reads than the bound can keep.
    pub bound: Option<Bound>,
    /// Figures of the decode service, if the scenario has one.
    pub decode: Option<DecodeFigures>,
}

/// Requests by outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outcomes {
    /// Read from their own platters.
    pub read: u64,
    /// At least partly recovered from other platters of the set.
    pub recovered: u64,
    /// Ended without their bytes: too many platters of a set were unreachable.
    pub unavailable: u64,
    /// For tracks that don't exist.
    pub refused: u64,
}

impl Outcomes {
    pub(super) fn count(&mut self, outcome: RegionOutcome) {
        *match outcome {
            RegionOutcome::Read => &mut self.read,
            RegionOutcome::Recovered => &mut self.recovered,
            RegionOutcome::Unavailable => &mut self.unavailable,
            RegionOutcome::Refused => &mut self.refused,
        } += 1;
    }

    /// Total number of requests.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.read + self.recovered + self.unavailable + self.refused
    }

    /// Share of requests that ended without their bytes; 0 without requests.
    #[must_use]
    pub fn lost(&self) -> f64 {
        over(self.unavailable + self.refused, self.total())
    }
}

/// Activity of all drives in the measured interval. Shares are of the drives' total time.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct DriveFigures {
    /// Number of drives.
    pub drives: u32,
    /// Reading for customers, including mounting, seeking and unmounting. Mounting and unmounting
    /// for verification also count here, because drives don't distinguish them.
    pub reading: f64,
    /// Verifying.
    pub verifying: f64,
    /// Switching between bays.
    pub switching: f64,
    /// Idle.
    pub idle: f64,
    /// Out of order.
    pub failed: f64,
    /// Reading and verifying; Project Silica calls this utilization.
    pub utilization: f64,
    /// Platters mounted.
    pub visits: u64,
    /// Reads for customers.
    pub reads: u64,
    /// Tracks read for customers.
    pub tracks_read: u64,
    /// Tracks read for verification.
    pub tracks_verified: u64,
    /// Bytes read for verification.
    pub bytes_verified: u64,
}

impl DriveFigures {
    /// Reads for customers per platter mounted; 0 without any.
    #[must_use]
    pub fn reads_per_visit(&self) -> f64 {
        over(self.reads, self.visits)
    }

    pub(super) fn of(drives: &[DriveStatistics], track_bytes: u64) -> Self {
        let share = |states: &[DriveState]| {
            let in_states: u64 = drives.iter().flat_map(|drive| states.iter().map(|state| drive.time_in(*state).0)).sum();
            over(in_states, drives.iter().flat_map(|drive| drive.time.iter().map(|time| time.0)).sum())
        };
        let sum = |of: fn(&DriveStatistics) -> u64| drives.iter().map(of).sum::<u64>();
        let reading = share(&[DriveState::Mounting, DriveState::Seeking, DriveState::Reading, DriveState::Unmounting]);
        let verifying = share(&[DriveState::Verifying]);
        let tracks_verified = sum(|drive| drive.tracks_verified);
        Self {
            drives: drives.len() as u32,
            reading,
            verifying,
            switching: share(&[DriveState::Switching]),
            idle: share(&[DriveState::Idle]),
            failed: share(&[DriveState::Failed]),
            utilization: reading + verifying,
            visits: sum(|drive| drive.mounts),
            reads: sum(|drive| drive.reads),
            tracks_read: sum(|drive| drive.tracks_read),
            tracks_verified,
            bytes_verified: tracks_verified.saturating_mul(track_bytes),
        }
    }
}

/// Activity of all shuttles in the measured interval. Shares are of the shuttles' total time.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ShuttleFigures {
    /// Number of shuttles.
    pub shuttles: u32,
    /// Moving along shelves.
    pub moving: f64,
    /// Changing shelves.
    pub crabbing: f64,
    /// Picking and placing.
    pub handling: f64,
    /// Charging at a dock.
    pub charging: f64,
    /// Idle.
    pub idle: f64,
    /// Out of order.
    pub lost: f64,
    /// Platter operations: platters placed. Bringing a platter to a drive and taking it back are
    /// two operations.
    pub operations: u64,
    /// Metres along shelves.
    pub metres: f64,
    /// Changes of shelf.
    pub crabs: u64,
    /// Joules spent on motion, without the constant draw of the shuttles.
    pub joules: f64,
    /// Trips, with their actual time and their time without other shuttles.
    pub congestion: Congestion,
    /// 99.9th percentile of the travel times of trips, including waits for other shuttles; 0
    /// without trips.
    pub trip_tail: Micros,
}

impl ShuttleFigures {
    /// Metres along shelves per platter operation; 0 without any.
    #[must_use]
    pub fn metres_per_operation(&self) -> f64 {
        ratio(self.metres, self.operations as f64)
    }

    /// Joules of motion per platter operation; 0 without any.
    #[must_use]
    pub fn joules_per_operation(&self) -> f64 {
        ratio(self.joules, self.operations as f64)
    }

    /// Extra trip time caused by other shuttles, relative to the unhindered time: taken /
    /// unhindered - 1.
    #[must_use]
    pub fn congestion_overhead(&self) -> f64 {
        let unhindered = self.congestion.unhindered.0 as f64;
        ratio(self.congestion.taken.0 as f64 - unhindered, unhindered)
    }

    pub(super) fn of(shuttles: &[ShuttleStatistics], congestion: Congestion) -> Self {
        let share = |states: &[ShuttleState]| {
            let in_states: u64 = shuttles.iter().flat_map(|shuttle| states.iter().map(|state| shuttle.time_in(*state).0)).sum();
            over(in_states, shuttles.iter().flat_map(|shuttle| shuttle.time.iter().map(|time| time.0)).sum())
        };
        Self {
            shuttles: shuttles.len() as u32,
            moving: share(&[ShuttleState::Moving]),
            crabbing: share(&[ShuttleState::Crabbing]),
            handling: share(&[ShuttleState::Picking, ShuttleState::Placing]),
            charging: share(&[ShuttleState::Charging]),
            idle: share(&[ShuttleState::Idle]),
            lost: share(&[ShuttleState::Lost]),
            operations: shuttles.iter().map(|shuttle| shuttle.places).sum(),
            metres: shuttles.iter().map(|shuttle| shuttle.metres).sum(),
            crabs: shuttles.iter().map(|shuttle| shuttle.crabs).sum(),
            joules: shuttles.iter().map(ShuttleStatistics::motion_joules).sum(),
            congestion,
            trip_tail: Micros::ZERO,
        }
    }
}

/// Requests and platters in progress.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SystemFigures {
    /// Mean number of requests in progress over the measured interval, measured or not.
    pub requests: f64,
    /// Maximum number of requests in progress.
    pub requests_most: f64,
    /// Mean number of platters queued to be fetched, sampled once a minute.
    pub platters_waiting: f64,
    /// Maximum sampled number.
    pub platters_waiting_most: u64,
    /// Maximum sampled number of written platters that were not verified yet.
    pub unverified_most: u64,
    /// Request-seconds over the whole run, from the number present: the left side of Little's law.
    pub request_seconds_present: f64,
    /// Request-seconds over the whole run, from the time each request spent until it or the run
    /// ended: the right side.
    pub request_seconds_spent: f64,
}

impl Run {
    /// Number of requests whose completion times are lower bounds, because they had not ended when
    /// the run stopped.
    #[must_use]
    pub fn censored(&self) -> u64 {
        self.unfinished.map_or(0, |unfinished| unfinished.requests)
    }

    /// Share of all requests that ended without their bytes; 0 without requests. With censored
    /// requests, it is a lower bound.
    #[must_use]
    pub fn lost(&self) -> f64 {
        over(self.outcomes.unavailable + self.outcomes.refused, self.requests)
    }

    /// A percentile of the completion times in seconds, such as `part` = 0.999 for the tail; 0
    /// without requests.
    pub fn percentile_s(&mut self, part: f64) -> f64 {
        self.completions.percentile(part).unwrap_or(0) as f64 / 1e6
    }

    /// The mean completion time in seconds; 0 without requests.
    #[must_use]
    pub fn mean_s(&self) -> f64 {
        self.completions.mean().unwrap_or(0.0) / 1e6
    }

    /// The longest completion time in seconds; 0 without requests.
    #[must_use]
    pub fn longest_s(&self) -> f64 {
        self.completions.largest().unwrap_or(0) as f64 / 1e6
    }
}

fn over(part: u64, whole: u64) -> f64 {
    ratio(part as f64, whole as f64)
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}
