//! Checks from outside: properties that every run must have, whatever the policy, verified from the
//! inputs and outputs of controllers and machines alone.
//!
//! ```text
//!              requests, events          commands, ends
//!   run ---------------+------------------------+-------------> Checks
//!                      |                        |                 every_command_is_answered_once
//!                      v                        v                 every_request_ends
//!               facts, as in a journal                            platters_are_conserved
//!                                                                 sets_stay_out_of_one_blast_zone
//!   controllers, inspected after each event -------------->    work_is_conserved
//!   machines, inspected at the end of the run ------------>    littles_law, utilization_law
//!   paths of shuttles ------------------------------------>    no_two_shuttles_meet
//! ```
//!
//! [`Checks`] contains all but the last, which is a motion log. It keeps the first violation, which
//! [`Checks::finish`] returns.

#![forbid(unsafe_code)]

mod every_command_is_answered_once;
mod every_request_ends;
mod littles_law;
mod no_two_shuttles_meet;
mod platters_are_conserved;
mod sets_stay_out_of_one_blast_zone;
mod utilization_law;
mod work_is_conserved;

use fulgurite_domain::Micros;
use fulgurite_library::placement::Zones;
use fulgurite_library::{Drive, Platter, Region, Shuttle};
use fulgurite_library_settings::PolicyName;
use fulgurite_mechanics::{DriveStatistics, Mechanics, MotionLog, ShuttleStatistics};

pub use every_command_is_answered_once::{AnsweredCommand, EveryCommandIsAnsweredOnce, WrongAnswer};
pub use every_request_ends::{EveryRequestEnds, WrongEnd};
use fulgurite_journal::Fact;
pub use littles_law::{Law, LittlesLaw, Station, Unequal};
pub use no_two_shuttles_meet::{Met, no_two_shuttles_met};
pub use platters_are_conserved::{Misplaced, PlattersAreConserved};
pub use sets_stay_out_of_one_blast_zone::{SetsStayOutOfOneBlastZone, SharedZone};
pub use utilization_law::{Busy, TimeMismatch, UtilizationLaw};
pub use work_is_conserved::{Idled, Promise, WorkIsConserved};

/// A violated property.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "each message says what happened")]
pub enum Violation {
    /// Of [`EveryCommandIsAnsweredOnce`].
    #[error("commands: {0}")]
    Answer(#[from] WrongAnswer),
    /// Of [`EveryRequestEnds`].
    #[error("requests: {0}")]
    End(#[from] WrongEnd),
    /// Of [`PlattersAreConserved`].
    #[error("platters: {0}")]
    Place(#[from] Misplaced),
    /// Of [`SetsStayOutOfOneBlastZone`].
    #[error("sets: {0}")]
    Zone(#[from] SharedZone),
    /// Of [`WorkIsConserved`].
    #[error("work: {0}")]
    Work(#[from] Idled),
    /// Of [`LittlesLaw`].
    #[error("Little's law: {0}")]
    Little(#[from] Unequal),
    /// Of [`UtilizationLaw`].
    #[error("utilization law: {0}")]
    Utilization(#[from] TimeMismatch),
}

/// The machines' own account of a library at the end of a run.
#[derive(Debug, Clone)]
pub struct Machines {
    /// Statistics of each shuttle.
    pub shuttles: Vec<ShuttleStatistics>,
    /// Statistics of each drive.
    pub drives: Vec<DriveStatistics>,
    /// Platters in the library.
    pub platters: usize,
    places: Vec<fulgurite_mechanics::Whereabouts>,
}

impl Machines {
    /// Their state at `now`, with the whereabouts of platters 0 to `platters`.
    pub fn of<L: MotionLog>(machines: &Mechanics<L>, platters: u32, now: Micros) -> Self {
        let layout = machines.layout();
        Self {
            shuttles: (0..layout.shuttles).map(|shuttle| machines.shuttle_statistics(Shuttle(shuttle), now)).collect(),
            drives: (0..layout.drive_count()).map(|drive| machines.drive_statistics(Drive(drive), now)).collect(),
            platters: machines.count_platters(),
            places: (0..platters).map(|platter| machines.whereabouts(Platter(platter))).collect(),
        }
    }

    /// Where a platter is.
    pub fn whereabouts(&self, platter: Platter) -> fulgurite_mechanics::Whereabouts {
        self.places.get(platter.0 as usize).copied().unwrap_or(fulgurite_mechanics::Whereabouts::Absent)
    }
}

/// What the checks covered in a run without violations.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// Commands that were answered.
    pub commands: u64,
    /// Requests that ended.
    pub requests: u64,
    /// How often a platter was placed in another slot than its home.
    pub guests: u64,
    /// Little's law, by station.
    pub stations: Vec<Law>,
}

/// All checks of one run.
#[derive(Debug, Clone)]
pub struct Checks {
    zones: Zones,
    tracks: u32,
    promise: Promise,
    now: Micros,
    state: Option<State>,
    violation: Option<Violation>,
}

#[derive(Debug, Clone)]
struct State {
    commands: EveryCommandIsAnsweredOnce,
    requests: EveryRequestEnds,
    platters: PlattersAreConserved,
    sets: SetsStayOutOfOneBlastZone,
    work: WorkIsConserved,
    little: LittlesLaw,
    utilization: UtilizationLaw,
}

impl Checks {
    /// The checks of a run under a policy, in which platters of one set must not share one of the
    /// `zones`, and platters have `tracks` tracks.
    #[must_use]
    pub fn new(zones: Zones, tracks: u32, policy: PolicyName) -> Self {
        Self { zones, tracks, promise: policy.into(), now: Micros::ZERO, state: None, violation: None }
    }

    /// Begins the run; the region must not have had any input yet.
    pub fn begin(&mut self, region: &Region) {
        match State::new(region, &self.zones, self.tracks, self.promise) {
            Ok(state) => self.state = Some(state),
            Err(violation) => self.violation = Some(violation),
        }
    }

    /// Checks one fact of the run.
    pub fn observe(&mut self, fact: &Fact) {
        if let (None, Some(state)) = (&self.violation, &mut self.state) {
            self.violation = state.observe(&mut self.now, fact).err();
        }
    }

    /// Checks the region after all consequences of a request or event were seen.
    pub fn settled(&mut self, region: &Region) {
        if let (None, Some(state)) = (&self.violation, &mut self.state) {
            state.little.settled(self.now, region);
            state.work.settled(self.now, region);
        }
    }

    /// The first violation so far.
    pub fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    /// Ends the checks of a journal whose last instant is `now`. What takes the machines' own
    /// account, or the region at the end, isn't checked.
    ///
    /// # Errors
    /// The first [`Violation`].
    ///
    /// # Panics
    /// If the run never began.
    pub fn finish_journal(mut self, now: Micros) -> Result<Checked, Violation> {
        if let Some(violation) = self.violation.take() {
            return Err(violation);
        }
        let mut state = self.state.expect("the run began");
        if now > self.now {
            state.work.time_passes(self.now, now, &state.commands)?;
        }
        let stations = state.little.finish(now)?;
        let (commands, requests) = (state.commands.answered(), state.requests.ended());
        Ok(Checked { commands, requests, guests: state.sets.guests(), stations })
    }

    /// Ends the run at `now`. `drained` is true if the run continued until all requests had ended.
    ///
    /// # Errors
    /// The first [`Violation`].
    ///
    /// # Panics
    /// If the run never began.
    pub fn finish(mut self, now: Micros, region: &Region, machines: &[Machines], drained: bool) -> Result<Checked, Violation> {
        if let Some(violation) = self.violation.take() {
            return Err(violation);
        }
        let mut state = self.state.expect("the run began");
        if now > self.now {
            state.work.time_passes(self.now, now, &state.commands)?;
        }
        state.requests.finish(now, region, drained)?;
        state.platters.finish(region, machines)?;
        let stations = state.little.finish(now)?;
        state.utilization.finish(now, &state.commands, machines)?;
        let (commands, requests) = (state.commands.answered(), state.requests.ended());
        Ok(Checked { commands, requests, guests: state.sets.guests(), stations })
    }
}

impl State {
    fn new(region: &Region, zones: &Zones, tracks: u32, promise: Promise) -> Result<Self, Violation> {
        let needs_no_shuttles = promise == Promise::DrivesFetch;
        let platters = PlattersAreConserved::new(region, needs_no_shuttles);
        Ok(Self {
            commands: EveryCommandIsAnsweredOnce::default(),
            requests: EveryRequestEnds::new(region, tracks),
            sets: SetsStayOutOfOneBlastZone::new(region, zones.clone())?,
            work: WorkIsConserved::new(region, promise),
            little: LittlesLaw::new(region, &platters, needs_no_shuttles),
            utilization: UtilizationLaw::default(),
            platters,
        })
    }

    fn observe(&mut self, last: &mut Micros, fact: &Fact) -> Result<(), Violation> {
        if let Some(now) = fact.instant() {
            if now > *last {
                self.work.time_passes(*last, now, &self.commands)?;
            }
            *last = now;
        }
        let now = *last;
        let answered = self.commands.observe(now, fact)?;
        let answered = answered.as_ref();
        self.platters.observe(now, fact, answered)?;
        self.requests.observe(now, fact, answered)?;
        self.sets.observe(now, answered)?;
        self.little.observe(now, fact, answered);
        self.utilization.observe(now, answered);
        self.work.observe(fact, answered);
        Ok(())
    }
}
