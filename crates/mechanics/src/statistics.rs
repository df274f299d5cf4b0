//! What shuttles and drives did with their time, and what it cost. All of it only grows, so that the figures of an interval are those at
//! its end [`since`](ShuttleStatistics::since) those at its beginning.

use fulgurite_domain::Micros;

/// What a shuttle is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShuttleState {
    /// Nothing.
    Idle,
    /// Going along a shelf, with the fine positioning behind it.
    Moving,
    /// Changing shelves.
    Crabbing,
    /// Taking a platter.
    Picking,
    /// Leaving a platter.
    Placing,
    /// Standing at a dock.
    Charging,
    /// Out of order.
    Lost,
}

/// What a drive is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriveState {
    /// Nothing.
    Idle,
    /// Clamping a platter.
    Mounting,
    /// Looking for a track.
    Seeking,
    /// Reading for somebody.
    Reading,
    /// Turning from one bay to the other.
    Switching,
    /// Reading for verification.
    Verifying,
    /// Releasing a platter.
    Unmounting,
    /// Out of order.
    Failed,
}

/// What energy is spent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Energy {
    /// Speeding up.
    Kinetic,
    /// Drag along the rails.
    Drag,
    /// Changing shelves.
    Crab,
    /// Picking and placing.
    Handling,
    /// Being there.
    Idle,
}

/// What a shuttle did.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ShuttleStatistics {
    /// Time in each [`ShuttleState`].
    pub time: [Micros; 7],
    /// Moves along a shelf.
    pub moves: u64,
    /// Changes of shelf.
    pub crabs: u64,
    /// Platters picked.
    pub picks: u64,
    /// Platters placed.
    pub places: u64,
    /// Times charged.
    pub charges: u64,
    /// Times lost.
    pub losses: u64,
    /// Metres along shelves.
    pub metres: f64,
    /// Joules by [`Energy`].
    pub joules: [f64; 5],
}

/// What a drive did.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct DriveStatistics {
    /// Time in each [`DriveState`].
    pub time: [Micros; 8],
    /// Platters mounted.
    pub mounts: u64,
    /// Platters unmounted.
    pub unmounts: u64,
    /// Turns to another bay.
    pub switches: u64,
    /// Reads for somebody.
    pub reads: u64,
    /// Reads that needed no seek, because they were adjacent to the one before.
    pub adjacent_reads: u64,
    /// Tracks read for somebody.
    pub tracks_read: u64,
    /// Tracks read for verification.
    pub tracks_verified: u64,
    /// Verifications that gave way to something else.
    pub interruptions: u64,
    /// Times out of order.
    pub failures: u64,
}

impl ShuttleStatistics {
    /// Time in a state.
    #[must_use]
    pub fn time_in(&self, state: ShuttleState) -> Micros {
        self.time[state as usize]
    }

    /// Joules spent on something.
    #[must_use]
    pub fn joules_on(&self, energy: Energy) -> f64 {
        self.joules[energy as usize]
    }

    /// Joules spent on motion: all but what a shuttle draws by being there.
    #[must_use]
    pub fn motion_joules(&self) -> f64 {
        self.joules[..Energy::Idle as usize].iter().sum()
    }

    /// What was done since figures taken earlier of the same shuttle.
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

    /// Share of the time spent on reading or verifying, with mounting, unmounting and seeking, without switching: as Project Silica counts
    /// it (SOSP '23, section 7). 0 where no time has passed.
    #[must_use]
    pub fn utilization(&self) -> f64 {
        use DriveState::{Mounting, Reading, Seeking, Unmounting, Verifying};
        let useful = [Mounting, Seeking, Reading, Verifying, Unmounting].map(|state| self.time_in(state).seconds()).iter().sum::<f64>();
        let all = self.time.iter().map(|time| time.seconds()).sum::<f64>();
        if all > 0.0 { useful / all } else { 0.0 }
    }

    /// What was done since figures taken earlier of the same drive.
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
