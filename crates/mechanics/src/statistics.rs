//! Statistics of shuttles and drives: time in each state, and costs. All figures only grow, so
//! those of an interval are the difference between its end and its start; see
//! [`since`](ShuttleStatistics::since).

use fulgurite_domain::Micros;

/// State of a shuttle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "what has no comment is what its name says")]
pub enum ShuttleState {
    Idle,
    /// Moving along a shelf, including the fine positioning.
    Moving,
    /// Changing shelves.
    Crabbing,
    Picking,
    Placing,
    Charging,
    /// Out of order.
    Lost,
}

/// State of a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "what has no comment is what its name says")]
pub enum DriveState {
    Idle,
    /// Clamping a platter.
    Mounting,
    Seeking,
    Reading,
    /// Switching between bays.
    Switching,
    /// Reading for verification.
    Verifying,
    /// Releasing a platter.
    Unmounting,
    /// Out of order.
    Failed,
}

/// Use of energy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Energy {
    /// Acceleration.
    Kinetic,
    /// Drag along the rails.
    Drag,
    /// Changing shelves.
    Crab,
    /// Picking and placing.
    Handling,
    /// Idle power.
    Idle,
}

/// Statistics of a shuttle.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[allow(missing_docs, reason = "what has no comment is what its name says")]
pub struct ShuttleStatistics {
    /// Time in each [`ShuttleState`].
    pub time: [Micros; 7],
    /// Moves along a shelf.
    pub moves: u64,
    /// Changes of shelf.
    pub crabs: u64,
    pub picks: u64,
    pub places: u64,
    pub charges: u64,
    /// Times lost.
    pub losses: u64,
    /// Metres along shelves.
    pub metres: f64,
    /// Joules by [`Energy`].
    pub joules: [f64; 5],
}

/// Statistics of a drive.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[allow(missing_docs, reason = "what has no comment is what its name says")]
pub struct DriveStatistics {
    /// Time in each [`DriveState`].
    pub time: [Micros; 8],
    pub mounts: u64,
    pub unmounts: u64,
    /// Switches between bays.
    pub switches: u64,
    pub reads: u64,
    /// Reads without a seek, because they were adjacent to the one before.
    pub adjacent_reads: u64,
    pub tracks_read: u64,
    /// Tracks read for verification.
    pub tracks_verified: u64,
    /// Verifications interrupted by another command.
    pub interruptions: u64,
    pub failures: u64,
}

impl ShuttleStatistics {
    /// Time in a state.
    #[must_use]
    pub fn time_in(&self, state: ShuttleState) -> Micros {
        self.time[state as usize]
    }

    /// Joules spent on one use.
    #[must_use]
    pub fn joules_on(&self, energy: Energy) -> f64 {
        self.joules[energy as usize]
    }

    /// Joules spent on motion: all except idle power.
    #[must_use]
    pub fn motion_joules(&self) -> f64 {
        self.joules[..Energy::Idle as usize].iter().sum()
    }

    /// The difference from earlier figures of the same shuttle.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            time: std::array::from_fn(|state| self.time[state] - earlier.time[state]),
            moves: self.moves - earlier.moves,
            crabs: self.crabs - earlier.crabs,
            picks: self.picks - earlier.picks,
            places: self.places - earlier.places,
            charges: self.charges - earlier.charges,
            losses: self.losses - earlier.losses,
            metres: self.metres - earlier.metres,
            joules: std::array::from_fn(|energy| self.joules[energy] - earlier.joules[energy]),
        }
    }
}

impl DriveStatistics {
    /// Time in a state.
    #[must_use]
    pub fn time_in(&self, state: DriveState) -> Micros {
        self.time[state as usize]
    }

    /// Share of the time spent on reading or verifying, including mounting, unmounting and seeking
    /// but not switching, as in Project Silica (SOSP '23, section 7). 0 if no time has passed.
    #[must_use]
    pub fn utilization(&self) -> f64 {
        use DriveState::{Mounting, Reading, Seeking, Unmounting, Verifying};
        let useful = [Mounting, Seeking, Reading, Verifying, Unmounting].map(|state| self.time_in(state).seconds()).iter().sum::<f64>();
        let all = self.time.iter().map(|time| time.seconds()).sum::<f64>();
        if all > 0.0 { useful / all } else { 0.0 }
    }

    /// The difference from earlier figures of the same drive.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            time: std::array::from_fn(|state| self.time[state] - earlier.time[state]),
            mounts: self.mounts - earlier.mounts,
            unmounts: self.unmounts - earlier.unmounts,
            switches: self.switches - earlier.switches,
            reads: self.reads - earlier.reads,
            adjacent_reads: self.adjacent_reads - earlier.adjacent_reads,
            tracks_read: self.tracks_read - earlier.tracks_read,
            tracks_verified: self.tracks_verified - earlier.tracks_verified,
            interruptions: self.interruptions - earlier.interruptions,
            failures: self.failures - earlier.failures,
        }
    }
}
