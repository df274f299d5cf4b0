//! The utilization law: what an actor was busy with is the sum of its service times. The machines account for their time by state; commands
//! and answers tell when each service began and ended. Both are whole microseconds and have to be the same.
//!
//! ```text
//!   machines:   | idle | mounting | seeking | reading | idle |    time in each state
//!   commands:          ^mount     ^read               ^           sum of (answer - command), by kind
//! ```
//!
//! When an actor fails, nobody knows at first, and it stands still between the fault and the news of it: for those services there are bounds
//! instead, nothing and all of their time.

use std::collections::BTreeMap;

use fulgurite_domain::Micros;
use fulgurite_library::{Action, Actor, Drive, Event, Library, Shuttle};
use fulgurite_mechanics::{DriveState, ShuttleState};

use super::{Answered, EveryCommandIsAnsweredOnce, Machines};

/// What an actor can be busy with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Busy {
    /// A shuttle on its way, along a shelf or from one to the next.
    Moving,
    /// A shuttle that takes a platter.
    Picking,
    /// A shuttle that leaves one.
    Placing,
    /// A shuttle at a dock.
    Charging,
    /// A drive that clamps a platter.
    Mounting,
    /// A drive that releases one.
    Unmounting,
    /// A drive that turns to its other bay.
    Switching,
    /// A drive that seeks and reads for a customer.
    Reading,
    /// A drive that verifies.
    Verifying,
}

impl Busy {
    /// With what.
    #[must_use]
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

    const SHUTTLE: [Self; 4] = [Self::Moving, Self::Picking, Self::Placing, Self::Charging];
    const DRIVE: [Self; 5] = [Self::Mounting, Self::Unmounting, Self::Switching, Self::Reading, Self::Verifying];
}

/// The law is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "{actor:?} of library {} was {busy:?} for {accounted} by its own account, but for {least} to {most} by commands and answers", .library.0
)]
pub struct OtherTime {
    /// In which library.
    pub library: Library,
    /// Who.
    pub actor: Actor,
    /// With what.
    pub busy: Busy,
    /// By the machines' account.
    pub accounted: Micros,
    /// At least, by commands and answers.
    pub least: Micros,
    /// At most.
    pub most: Micros,
}

#[derive(Debug, Clone, Copy, Default)]
struct Spent {
    sure: Micros,
    /// Of services that failed: some of it.
    unsure: Micros,
}

/// Service times by actor and kind.
#[derive(Debug, Clone, Default)]
pub struct UtilizationLaw {
    spent: BTreeMap<(Library, Actor, Busy), Spent>,
    /// How long the last verification of a drive took that was interrupted. If the next thing is a failure, it may have come before.
    interrupted: BTreeMap<(Library, Actor), Micros>,
}

impl UtilizationLaw {
    /// Looks at a command that was answered.
    pub fn see(&mut self, now: Micros, answered: Option<&Answered>) {
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

    /// Compares with the machines' own account, up to `now`.
    ///
    /// # Errors
    /// [`OtherTime`] names the first actor with another.
    pub fn finish(&self, now: Micros, commands: &EveryCommandIsAnsweredOnce, machines: &[Machines]) -> Result<(), OtherTime> {
        for (index, machines) in machines.iter().enumerate() {
            let library = Library(index as u16);
            for (number, shuttle) in machines.shuttles.iter().enumerate() {
                let actor = Actor::Shuttle(Shuttle(number as u16));
                for busy in Busy::SHUTTLE {
                    let accounted = match busy {
                        Busy::Moving => shuttle.time_in(ShuttleState::Moving) + shuttle.time_in(ShuttleState::Crabbing),
                        Busy::Picking => shuttle.time_in(ShuttleState::Picking),
                        Busy::Placing => shuttle.time_in(ShuttleState::Placing),
                        _ => shuttle.time_in(ShuttleState::Charging),
                    };
                    self.compare(now, library, actor, busy, accounted, shuttle.losses == 0, commands)?;
                }
            }
            for (number, drive) in machines.drives.iter().enumerate() {
                let actor = Actor::Drive(Drive(number as u16));
                for busy in Busy::DRIVE {
                    let accounted = match busy {
                        Busy::Mounting => drive.time_in(DriveState::Mounting),
                        Busy::Unmounting => drive.time_in(DriveState::Unmounting),
                        Busy::Switching => drive.time_in(DriveState::Switching),
                        Busy::Reading => drive.time_in(DriveState::Seeking) + drive.time_in(DriveState::Reading),
                        _ => drive.time_in(DriveState::Verifying),
                    };
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
            // What is under way is going on.
            spent.sure += open;
        } else {
            spent.unsure += open;
            // A fault that nobody knows of yet may have come before the last interruption.
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
