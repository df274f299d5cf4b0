//! Checks the utilization law: the time that an actor was busy equals the sum of its service times.
//! The machines account for their time by state; commands and answers give the begin and end of
//! each service. Both are whole microseconds and must be equal.
//!
//! ```text
//!   machines:   | idle | mounting | seeking | reading | idle |  time in each state
//!   commands:          ^mount     ^read               ^         sum of (answer - command), by kind
//! ```
//!
//! A fault goes unnoticed at first, and the actor stops between the fault and its report. The times
//! of such services are therefore only bounded, by 0 and their full length.

use std::collections::BTreeMap;

use fulgurite_domain::Micros;
use fulgurite_library::{Action, Actor, Drive, Event, Library, Shuttle};
use fulgurite_mechanics::{DriveState, ShuttleState};

use super::{Answered, EveryCommandIsAnsweredOnce, Machines};

/// What keeps an actor busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Busy {
    /// A shuttle moves along a shelf or to the next one.
    Moving,
    /// A shuttle picks a platter.
    Picking,
    /// A shuttle places a platter.
    Placing,
    /// A shuttle charges at a dock.
    Charging,
    /// A drive mounts a platter.
    Mounting,
    /// A drive unmounts a platter.
    Unmounting,
    /// A drive switches to its other bay.
    Switching,
    /// A drive seeks and reads for a customer.
    Reading,
    /// A drive verifies.
    Verifying,
}

impl Busy {
    /// The kind of this action.
    pub(crate) fn of(action: &Action) -> Self {
        match action {
            Action::Move { .. } => Self::Moving,
            Action::Pick { .. } => Self::Picking,
            Action::Place { .. } => Self::Placing,
            Action::Charge => Self::Charging,
            Action::Mount { .. } => Self::Mounting,
            Action::Unmount { .. } => Self::Unmounting,
            Action::Switch { .. } => Self::Switching,
            Action::Read { .. } => Self::Reading,
            Action::Verify { .. } => Self::Verifying,
        }
    }
}

/// The law is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "{actor:?} of library {} was {busy:?} for {accounted} by its own account, but for {least} to {most} by commands and answers", .library.0
)]
pub(crate) struct OtherTime {
    /// The library.
    pub(crate) library: Library,
    /// The actor.
    pub(crate) actor: Actor,
    /// What it was busy with.
    pub(crate) busy: Busy,
    /// By the machines' account.
    pub(crate) accounted: Micros,
    /// Least time, by commands and answers.
    pub(crate) least: Micros,
    /// Most time, by commands and answers.
    pub(crate) most: Micros,
}

#[derive(Debug, Clone, Copy, Default)]
struct Spent {
    sure: Micros,
    /// Length of services that failed; the part really spent is unknown.
    unsure: Micros,
}

/// Service times by actor and kind.
#[derive(Debug, Clone, Default)]
pub(crate) struct UtilizationLaw {
    spent: BTreeMap<(Library, Actor, Busy), Spent>,
    /// How long a drive's last interrupted verification took. If a failure follows, the fault may
    /// have come before the interruption.
    interrupted: BTreeMap<(Library, Actor), Micros>,
}

impl UtilizationLaw {
    /// Records an answered command.
    pub(crate) fn see(&mut self, now: Micros, answered: Option<&Answered>) {
        let Some(Answered { library, open, how }) = answered else { return };
        let (actor, busy) = (open.id.actor, Busy::of(&open.action));
        let took = now.since(open.begun);
        let spent = self.spent.entry((*library, actor, busy)).or_default();
        match how {
            Event::Failed { .. } => {
                spent.unsure += took;
                if let Some(before) = self.interrupted.remove(&(*library, actor)) {
                    let verifying = self.spent.entry((*library, actor, Busy::Verifying)).or_default();
                    verifying.sure = verifying.sure - before;
                    verifying.unsure += before;
                }
            }
            Event::Interrupted { .. } => {
                spent.sure += took;
                self.interrupted.insert((*library, actor), took);
            }
            _ => {
                spent.sure += took;
                self.interrupted.remove(&(*library, actor));
            }
        }
    }

    /// Compares with the machines' own account up to `now`.
    ///
    /// # Errors
    /// [`OtherTime`] names the first actor whose times differ.
    pub(crate) fn finish(&self, now: Micros, commands: &EveryCommandIsAnsweredOnce, machines: &[Machines]) -> Result<(), OtherTime> {
        for (index, machines) in machines.iter().enumerate() {
            let library = Library(index as u16);
            for (number, shuttle) in machines.shuttles.iter().enumerate() {
                let actor = Actor::Shuttle(Shuttle(number as u16));
                let time_in = |state| shuttle.time_in(state);
                for (busy, accounted) in [
                    (Busy::Moving, time_in(ShuttleState::Moving) + time_in(ShuttleState::Crabbing)),
                    (Busy::Picking, time_in(ShuttleState::Picking)),
                    (Busy::Placing, time_in(ShuttleState::Placing)),
                    (Busy::Charging, time_in(ShuttleState::Charging)),
                ] {
                    self.compare(now, library, actor, busy, accounted, shuttle.losses == 0, commands)?;
                }
            }
            for (number, drive) in machines.drives.iter().enumerate() {
                let actor = Actor::Drive(Drive(number as u16));
                let time_in = |state| drive.time_in(state);
                for (busy, accounted) in [
                    (Busy::Mounting, time_in(DriveState::Mounting)),
                    (Busy::Unmounting, time_in(DriveState::Unmounting)),
                    (Busy::Switching, time_in(DriveState::Switching)),
                    (Busy::Reading, time_in(DriveState::Seeking) + time_in(DriveState::Reading)),
                    (Busy::Verifying, time_in(DriveState::Verifying)),
                ] {
                    self.compare(now, library, actor, busy, accounted, drive.failures == 0, commands)?;
                }
            }
        }
        Ok(())
    }

    #[allow(clippy::too_many_arguments)]
    fn compare(
        &self,
        now: Micros,
        library: Library,
        actor: Actor,
        busy: Busy,
        accounted: Micros,
        never_failed: bool,
        commands: &EveryCommandIsAnsweredOnce,
    ) -> Result<(), OtherTime> {
        let mut spent = self.spent.get(&(library, actor, busy)).copied().unwrap_or_default();
        let open = commands.open(library, actor).filter(|open| Busy::of(&open.action) == busy);
        let open = open.map_or(Micros::ZERO, |open| now.since(open.begun));
        if never_failed {
            // The current service continues.
            spent.sure += open;
        } else {
            spent.unsure += open;
            // A fault not yet reported may have come before the last interruption.
            if busy == Busy::Verifying
                && let Some(before) = self.interrupted.get(&(library, actor))
            {
                spent.sure = spent.sure - *before;
                spent.unsure += *before;
            }
        }
        let (least, most) = (spent.sure, spent.sure + spent.unsure);
        if (least..=most).contains(&accounted) { Ok(()) } else { Err(OtherTime { library, actor, busy, accounted, least, most }) }
    }
}
