//! Checks that every command is answered exactly once, and that an actor has one command at a time.
//! The only exception is a verification, which makes room for the next command of its drive and is
//! answered at the same instant.

use std::collections::{BTreeMap, BTreeSet};

use fulgurite_domain::Micros;
use fulgurite_journal::Fact;
use fulgurite_library::{Action, Actor, Command, CommandId, Event, Library};

/// A command under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Open {
    /// The command.
    pub id: CommandId,
    /// Its action.
    pub action: Action,
    /// When it began.
    pub begun: Micros,
}

/// The answer to a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnsweredCommand {
    /// The library.
    pub library: Library,
    /// The command.
    pub open: Open,
    /// The answer: done, interrupted or failed.
    pub outcome: Event,
}

/// A violation of the rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each message says what happened")]
pub enum WrongAnswer {
    #[error("at {now}, command {} to {:?} of library {} is answered, but it is not open", .id.number, .id.actor, .library.0)]
    NotOpen { now: Micros, library: Library, id: CommandId },
    #[error("at {now}, {:?} of library {} is given command {}, but command {} is open", .id.actor, .library.0, .id.number, .open.number)]
    Busy { now: Micros, library: Library, id: CommandId, open: CommandId },
    /// A command to an actor that its controller knows to be out of order.
    #[error("at {now}, {:?} of library {} is given command {}, but it is out of order", .id.actor, .library.0, .id.number)]
    Down { now: Micros, library: Library, id: CommandId },
    /// A verification made room, but no answer reported its progress.
    #[error("command {} to {:?} of library {} made room at {since}, but is not answered at {now}", .id.number, .id.actor, .library.0)]
    NotInterrupted { now: Micros, library: Library, id: CommandId, since: Micros },
}

/// The current command of each actor, from commands and answers.
#[derive(Debug, Clone, Default)]
pub struct EveryCommandIsAnsweredOnce {
    open: BTreeMap<(Library, Actor), Open>,
    /// Verifications that made room, with the instant.
    making_room: BTreeMap<(Library, Actor), (Open, Micros)>,
    down: BTreeSet<(Library, Actor)>,
    answered: u64,
}

impl EveryCommandIsAnsweredOnce {
    /// Checks one fact. Returns the command that it answers, if any.
    ///
    /// # Errors
    /// [`WrongAnswer`] if the fact breaks the rule.
    pub fn observe(&mut self, now: Micros, fact: &Fact) -> Result<Option<AnsweredCommand>, WrongAnswer> {
        match *fact {
            Fact::Commanded { library, command: Command::Do { id, action } } => self.commanded(now, library, id, action).map(|()| None),
            Fact::Happened { library, event, .. } => self.happened(now, library, event),
            _ => Ok(None),
        }
    }

    fn commanded(&mut self, now: Micros, library: Library, id: CommandId, action: Action) -> Result<(), WrongAnswer> {
        let actor_key = (library, id.actor);
        if self.down.contains(&actor_key) {
            return Err(WrongAnswer::Down { now, library, id });
        }
        if let Some(open) = self.open.insert(actor_key, Open { id, action, begun: now }) {
            let is_verification = matches!(open.action, Action::Verify { .. });
            if !is_verification || self.making_room.insert(actor_key, (open, now)).is_some() {
                return Err(WrongAnswer::Busy { now, library, id, open: open.id });
            }
        }
        Ok(())
    }

    fn happened(&mut self, now: Micros, library: Library, outcome: Event) -> Result<Option<AnsweredCommand>, WrongAnswer> {
        let overdue = self.making_room.iter().find(|(_, (_, since))| *since < now);
        if let Some(((library, _), (open, since))) = overdue {
            return Err(WrongAnswer::NotInterrupted { now, library: *library, id: open.id, since: *since });
        }
        let (id, open) = match outcome {
            Event::Done { command } | Event::Failed { command, .. } => (command, self.open.remove(&(library, command.actor))),
            Event::Interrupted { command, .. } => (command, self.making_room.remove(&(library, command.actor)).map(|(open, _)| open)),
            Event::Lost { actor, .. } => {
                self.down.insert((library, actor));
                return match self.open.get(&(library, actor)) {
                    // Its command fails with it; `Failed` should have reported that instead of
                    // `Lost`.
                    Some(open) => Err(WrongAnswer::Busy { now, library, id: open.id, open: open.id }),
                    None => Ok(None),
                };
            }
            Event::Repaired { actor } => {
                self.down.remove(&(library, actor));
                return Ok(None);
            }
            Event::ReadRequested(_)
            | Event::ReadHastened { .. }
            | Event::VerificationRequested { .. }
            | Event::PlatterWritten { .. }
            | Event::PlatterUnavailable { .. }
            | Event::PlatterAvailable { .. }
            | Event::ChargeLow { .. }
            | Event::Woken => return Ok(None),
        };
        if let Event::Failed { .. } = outcome {
            self.down.insert((library, id.actor));
        }
        match open.filter(|open| open.id == id) {
            Some(open) => {
                self.answered += 1;
                Ok(Some(AnsweredCommand { library, open, outcome }))
            }
            None => Err(WrongAnswer::NotOpen { now, library, id }),
        }
    }

    /// The current command of an actor, not counting a verification that makes room.
    pub fn open(&self, library: Library, actor: Actor) -> Option<&Open> {
        self.open.get(&(library, actor))
    }

    /// True if an actor is out of order and its controller knows it.
    pub fn is_down(&self, library: Library, actor: Actor) -> bool {
        self.down.contains(&(library, actor))
    }

    /// Commands that were answered.
    pub fn answered(&self) -> u64 {
        self.answered
    }
}
