//! Effect of a fault on the running command, or on the next command if it comes before the fault is
//! noticed.
//!
//! ```text
//!          strikes            noticed                      repaired
//!   Well ----------> Struck ------------> Down -----------------------> Well
//!                      |        `Failed` to the command,   `Repaired`
//!                      |        `Lost` where there is none
//!                      '-- a command meanwhile: it is the one that fails, at the same instant
//! ```

use fulgurite_domain::Micros;
use fulgurite_library::{Actor, CommandId, Event, Fault};

/// Condition of an actor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Health {
    Well,
    Struck(Struck),
    Down,
}

/// Out of order, but the fault is not yet noticed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Struck {
    /// When the fault is noticed.
    pub(crate) noticed: Micros,
    pub(crate) news: Event,
    /// If a verification was running: the tracks verified before the fault. The verification still
    /// gives way to another command.
    pub(crate) verified: Option<u32>,
}

impl Struck {
    pub(crate) fn fault(&self) -> Fault {
        match self.news {
            Event::Failed { fault, .. } | Event::Lost { fault, .. } => fault,
            _ => unreachable!("a fault's news is that of a failed command or a lost actor"),
        }
    }

    pub(crate) fn command(&self) -> Option<CommandId> {
        match self.news {
            Event::Failed { command, .. } => Some(command),
            _ => None,
        }
    }
}

impl Health {
    /// Returns true if this event, due now, reports the fault; the fault is then known.
    pub(crate) fn tells(&mut self, now: Micros, event: &Event) -> bool {
        let told = matches!(self, Self::Struck(struck) if struck.noticed == now && struck.news == *event);
        if told {
            *self = Self::Down;
        }
        told
    }

    /// A fault strikes an actor, which may be running `command`.
    pub(crate) fn strike(
        &mut self,
        actor: Actor,
        command: Option<CommandId>,
        fault: Fault,
        trouble: Trouble,
        answers: &mut Vec<(Micros, Event)>,
    ) {
        let news = command.map_or(Event::Lost { actor, fault }, |command| Event::Failed { command, fault });
        answers.push((trouble.noticed, news));
        answers.push((trouble.repaired, Event::Repaired { actor }));
        *self = Self::Struck(Struck { noticed: trouble.noticed, news, verified: None });
    }

    /// A command arrives before the fault is noticed; it fails when the fault is noticed.
    pub(crate) fn take_down(struck: &mut Struck, id: CommandId, verifying: bool, answers: &mut Vec<(Micros, Event)>) {
        struck.news = Event::Failed { command: id, fault: struck.fault() };
        struck.verified = verifying.then_some(0);
        answers.push((struck.noticed, struck.news));
    }
}

/// When a fault is noticed and repaired.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Trouble {
    pub(crate) noticed: Micros,
    pub(crate) repaired: Micros,
}
