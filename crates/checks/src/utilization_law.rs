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

use super::{AnsweredCommand, EveryCommandIsAnsweredOnce, Machines};

/// What keeps an actor busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Busy {
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
    /// What this action keeps its actor busy with.
    pub fn of(action: &Action) -> Self {
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
pub struct TimeMismatch {
    /// The library.
    pub library: Library,
    /// The actor.
    pub actor: Actor,
    /// What it was busy with.
    pub busy: Busy,
    /// By the machines' account.
    pub accounted: Micros,
    /// Least time, by commands and answers.
    pub least: Micros,
    /// Most time, by commands and answers.
    pub most: Micros,
}

#[derive(Debug, Clone, Copy, Default)]
struct ServiceTime {
    certain: Micros,
    /// Length of services that failed: how much of it the actor was busy is unknown.
    uncertain: Micros,
}

/// Service times by actor and kind.
#[derive(Debug, Clone, Default)]
pub struct UtilizationLaw {
    service_times: BTreeMap<(Library, Actor, Busy), ServiceTime>,
    /// Duration of a drive's last interrupted verification. If a failure follows, the fault may
    /// have come before the interruption.
    interrupted: BTreeMap<(Library, Actor), Micros>,
}

impl UtilizationLaw {
    /// Records an answered command.
    pub fn observe(&mut self, now: Micros, answered: Option<&AnsweredCommand>) {
        let Some(AnsweredCommand { library, open, outcome }) = answered else { return };
        let (actor, busy) = (open.id.actor, Busy::of(&open.action));
        let duration = now.since(open.begun);
        let service_time = self.service_times.entry((*library, actor, busy)).or_default();
        match outcome {
            Event::Failed { .. } => {
                service_time.uncertain += duration;
                if let Some(interrupted_for) = self.interrupted.remove(&(*library, actor)) {
                    let verifying = self.service_times.entry((*library, actor, Busy::Verifying)).or_default();
                    verifying.certain = verifying.certain - interrupted_for;
                    verifying.uncertain += interrupted_for;
                }
            }
            Event::Interrupted { .. } => {
                service_time.certain += duration;
                self.interrupted.insert((*library, actor), duration);
            }
            Event::Done { .. } => {
                service_time.certain += duration;
                self.interrupted.remove(&(*library, actor));
            }
            Event::ReadRequested(_)
            | Event::ReadHastened { .. }
            | Event::VerificationRequested { .. }
            | Event::PlatterWritten { .. }
            | Event::Lost { .. }
            | Event::Repaired { .. }
            | Event::PlatterUnavailable { .. }
            | Event::PlatterAvailable { .. }
            | Event::ChargeLow { .. }
            | Event::Woken => unreachable!("{outcome:?} answers no command"),
        }
    }

    /// Compares with the machines' own account up to `now`.
    ///
    /// # Errors
    /// [`TimeMismatch`] names the first actor whose times differ.
    pub fn finish(&self, now: Micros, commands: &EveryCommandIsAnsweredOnce, machines: &[Machines]) -> Result<(), TimeMismatch> {
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
    ) -> Result<(), TimeMismatch> {
        let mut service_time = self.service_times.get(&(library, actor, busy)).copied().unwrap_or_default();
        let open = commands.open(library, actor).filter(|open| Busy::of(&open.action) == busy);
        let open = open.map_or(Micros::ZERO, |open| now.since(open.begun));
        if never_failed {
            // The current service continues.
            service_time.certain += open;
        } else {
            service_time.uncertain += open;
            // A fault not yet reported may have come before the last interruption.
            if busy == Busy::Verifying
                && let Some(interrupted_for) = self.interrupted.get(&(library, actor))
            {
                service_time.certain = service_time.certain - *interrupted_for;
                service_time.uncertain += *interrupted_for;
            }
        }
        let (least, most) = (service_time.certain, service_time.certain + service_time.uncertain);
        if (least..=most).contains(&accounted) { Ok(()) } else { Err(TimeMismatch { library, actor, busy, accounted, least, most }) }
    }
}
