//! Events after which neither the policy nor housekeeping has anything new to do: most of those in
//! a busy library.
//!
//! A shuttle ends one leg of several, a drive reads the next request of its platter, a platter that
//! waits is requested once more. The handlers don't mark such events, since one could forget to.
//! Instead, what the policy sees of the machine or platter is compared before and after the event;
//! if that is the same, the policy says whether it may act nevertheless. All other events are
//! followed by every rule.

use fulgurite_domain::Micros;

use crate::panel::{Purpose, ShuttleOperation, Stage};
use crate::policy::{Progress, customer_work};
use crate::queue::Rank;
use crate::{Actor, Berth, Controller, Drive, Event, Job, Operation, Platter, Shuttle, Whereabouts};

/// What the policy and housekeeping see of the machine or platter that an event concerns.
#[derive(Debug, Clone, Copy)]
pub(super) enum Seen {
    /// The job of a shuttle on its way.
    Job(Shuttle, Job),
    /// A drive: why each platter is there and whether a shuttle may take it, and the work that is
    /// left.
    Drive(Drive, [Option<(Purpose, bool)>; 2], Micros),
    /// The place in its line of a platter for which requests wait.
    Waiting(Platter, Option<Rank>),
}

impl Controller {
    /// What is seen now of what an event concerns. `None` if the event can change more.
    pub(super) fn see(&self, event: &Event) -> Option<Seen> {
        match event {
            Event::ReadRequested(request) => self.see_platter(request.platter),
            Event::Done { command } => match command.actor {
                Actor::Shuttle(shuttle) => {
                    let state = &self.panel.shuttles[usize::from(shuttle.0)];
                    let is_leg = matches!(state.operation, Some((id, ShuttleOperation::Leg(_))) if id == *command);
                    (is_leg && state.job != Job::Idle).then_some(Seen::Job(shuttle, state.job))
                }
                Actor::Drive(drive) => {
                    let operation = self.panel.operation(drive);
                    (operation != Some(Operation::Verify)).then(|| self.see_drive(drive))
                }
            },
            _ => None,
        }
    }

    fn see_platter(&self, platter: Platter) -> Option<Seen> {
        let state = self.panel.platters.get(platter.0 as usize)?;
        if self.panel.queue.requests_for(platter) == 0 {
            return None;
        }
        Some(match state.whereabouts {
            Whereabouts::Berth(Berth::Bay(drive, _)) => self.see_drive(drive),
            _ => Seen::Waiting(platter, self.panel.queue.rank(platter)),
        })
    }

    fn see_drive(&self, drive: Drive) -> Seen {
        Seen::Drive(drive, self.see_held(drive), customer_work(&self.panel, drive))
    }

    fn see_held(&self, drive: Drive) -> [Option<(Purpose, bool)>; 2] {
        let bays = self.panel.bays(drive);
        [0, 1].map(|bay: usize| bays[bay].held.map(|held| (held.purpose, held.stage == Stage::Released)))
    }

    /// Whether the policy or housekeeping may have something to do.
    pub(super) fn has_changed(&self, before: Seen) -> bool {
        let may_act_on = |progress| self.policy.may_act_on(&self.panel, progress);
        // Platters that fit nowhere are rare. Their shuttles look at the work of drives, too.
        !self.stranded.is_empty()
            || match before {
                Seen::Job(shuttle, job) => self.panel.job(shuttle) != job || may_act_on(Progress::OfShuttle { shuttle }),
                Seen::Drive(drive, held, work) => {
                    held != self.see_held(drive) || may_act_on(Progress::OfDrive { drive, work_before: work })
                }
                Seen::Waiting(platter, rank) => self.panel.queue.rank(platter) != rank || may_act_on(Progress::OfQueue { platter }),
            }
    }
}
