//! Effect of a fault on the running command, or on the next command if it comes before the fault is
//! detected.
//!
//! ```text
//!             fault                    detected                   repaired
//!   Healthy ---------> UndetectedFault ---------> Down ---------------------> Healthy
//!                        |          `Failed` for the command,    `Repaired`
//!                        |          `Lost` if there is none
//!                        '-- a command that arrives meanwhile fails when the fault is detected
//! ```

use fulgurite_domain::Micros;
use fulgurite_library::{Actor, CommandId, Event, Fault};

/// Condition of an actor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Health {
    Healthy,
    UndetectedFault(UndetectedFault),
    Down {
        /// When it will be repaired; [`Micros::NEVER`] if only a command repairs it.
        repaired_at: Micros,
    },
}

/// Out of order, but the fault is not yet detected.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct UndetectedFault {
    pub(crate) detected_at: Micros,
    pub(crate) repaired_at: Micros,
    /// The event that reports the fault to the controller.
    pub(crate) report: Event,
    /// If a verification was running: the tracks verified before the fault. The verification still
    /// gives way to another command.
    pub(crate) verified: Option<u32>,
}

impl UndetectedFault {
    pub(crate) fn fault(&self) -> Fault {
        match self.report {
            Event::Failed { fault, .. } | Event::Lost { fault, .. } => fault,
            _ => unreachable!("a fault is reported as a failed command or a lost actor"),
        }
    }

    pub(crate) fn failed_command(&self) -> Option<CommandId> {
        match self.report {
            Event::Failed { command, .. } => Some(command),
            _ => None,
        }
    }
}

impl Health {
    /// Returns true if this event, due now, reports the fault; the fault is then known.
    pub(crate) fn reports_fault(&mut self, now: Micros, event: &Event) -> bool {
        match *self {
            Self::UndetectedFault(UndetectedFault { detected_at, repaired_at, report, .. }) if detected_at == now && report == *event => {
                *self = Self::Down { repaired_at };
                true
            }
            _ => false,
        }
    }

    /// A fault strikes an actor, which may be running `command`.
    pub(crate) fn apply_fault(
        &mut self,
        actor: Actor,
        command: Option<CommandId>,
        fault: Fault,
        fault_times: FaultTimes,
        answers: &mut Vec<(Micros, Event)>,
    ) {
        let report = command.map_or(Event::Lost { actor, fault }, |command| Event::Failed { command, fault });
        answers.push((fault_times.detected_at, report));
        let FaultTimes { detected_at, repaired_at } = fault_times;
        if repaired_at != Micros::NEVER {
            answers.push((repaired_at, Event::Repaired { actor }));
        }
        *self = Self::UndetectedFault(UndetectedFault { detected_at, repaired_at, report, verified: None });
    }

    /// Fails a command that arrives before the fault is detected, at the detection.
    pub(crate) fn fail_command(undetected: &mut UndetectedFault, id: CommandId, verifying: bool, answers: &mut Vec<(Micros, Event)>) {
        undetected.report = Event::Failed { command: id, fault: undetected.fault() };
        undetected.verified = verifying.then_some(0);
        answers.push((undetected.detected_at, undetected.report));
    }
}

/// When a fault is detected and repaired.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FaultTimes {
    pub(crate) detected_at: Micros,
    pub(crate) repaired_at: Micros,
}
