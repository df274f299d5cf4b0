//! The lines of a journal: one fact per line, in this notation.
//!
//! | token | meaning |
//! | --- | --- |
//! | `12000000` | an instant in microseconds; `never` for [`Micros::NEVER`] |
//! | `L0` `S3` `D4` `D4.1` `slot17` `port` | a library, a shuttle, a drive, a bay of a drive, a slot, the port |
//! | `S3#89` | command 89, to shuttle 3 |
//! | `P45` `R17` | a platter, a request |
//! | `0+3` `P45:0+3` | three tracks, beginning with track 0; the same on platter 45 |
//! | `4@1200000` | a position: shelf 4, 1.2 m from the left, in micrometres |
//!
//! Inputs begin with their instant. Lines that begin with `>` are outputs of the input above them.

use std::fmt;

use fulgurite_domain::Micros;
use fulgurite_library::{
    Action, Actor, Bay, Berth, Command, CommandId, Event, Fault, Library, Outcome, Position, RegionOutcome, RequestId, Shard, Tracks,
};

/// One line of a journal after its header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact {
    /// Input: a request for shards arrived at the region.
    Requested {
        /// The instant.
        now: Micros,
        /// The request.
        request: RequestId,
        /// Deadline for the last byte.
        deadline: Micros,
        /// The shards.
        shards: Vec<Shard>,
    },
    /// Input: the controller of a library received an event.
    Happened {
        /// The instant.
        now: Micros,
        /// The library.
        library: Library,
        /// The event.
        event: Event,
    },
    /// Output: a command to a library.
    Commanded {
        /// The library.
        library: Library,
        /// The command.
        command: Command,
    },
    /// Output: a request to the region ended.
    Ended {
        /// The request.
        request: RequestId,
        /// The outcome.
        outcome: RegionOutcome,
    },
    /// A digest that replaces the outputs up to here.
    Digest {
        /// Number of outputs.
        count: u64,
        /// Digest of their lines.
        digest: u64,
    },
    /// The journal is complete.
    End {
        /// Number of inputs.
        inputs: u64,
        /// When it ended.
        now: Micros,
    },
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Requested { now, request, deadline, shards } => {
                write!(f, "{} R{} by {}", now.0, request.0, Instant(*deadline))?;
                shards.iter().try_for_each(|shard| write!(f, " P{}:{}", shard.platter.0, Range(shard.tracks)))
            }
            Self::Happened { now, library, event } => write!(f, "{} L{} {}", now.0, library.0, Told(event)),
            Self::Commanded { library, command: Command::Do { id, action } } => write!(f, "> L{} {} {}", library.0, Id(*id), Doing(action)),
            Self::Commanded { library, command: Command::Finish { request, outcome } } => {
                write!(f, "> L{} finish R{} {}", library.0, request.0, outcome_word(*outcome))
            }
            Self::Ended { request, outcome } => write!(f, "> R{} {}", request.0, region_word(*outcome)),
            Self::Digest { count, digest } => write!(f, "= {count} {digest:016x}"),
            Self::End { inputs, now } => write!(f, ". {inputs} {}", now.0),
        }
    }
}

pub(super) fn outcome_word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Read => "read",
        Outcome::Unavailable => "unavailable",
        Outcome::Refused => "refused",
    }
}

pub(super) fn region_word(outcome: RegionOutcome) -> &'static str {
    match outcome {
        RegionOutcome::Read => "read",
        RegionOutcome::Recovered => "recovered",
        RegionOutcome::Unavailable => "unavailable",
        RegionOutcome::Refused => "refused",
    }
}

struct Instant(Micros);

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == Micros::NEVER { f.write_str("never") } else { write!(f, "{}", self.0.0) }
    }
}

struct Range(Tracks);

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.0.first, self.0.count)
    }
}

struct Who(Actor);

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Actor::Shuttle(shuttle) => write!(f, "S{}", shuttle.0),
            Actor::Drive(drive) => write!(f, "D{}", drive.0),
        }
    }
}

struct Id(CommandId);

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", Who(self.0.actor), self.0.number)
    }
}

struct At(Berth);

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Berth::Slot(slot) => write!(f, "slot{}", slot.0),
            Berth::Bay(drive, Bay(bay)) => write!(f, "D{}.{bay}", drive.0),
            Berth::Port => f.write_str("port"),
        }
    }
}

struct Why(Fault);

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Fault::Stopped { x_um } => write!(f, "stopped {x_um}"),
            Fault::Collided { with, x_um } => write!(f, "collided S{} {x_um}", with.0),
            Fault::DriveDown => f.write_str("down"),
        }
    }
}

struct Told<'a>(&'a Event);

impl fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self.0 {
            Event::ReadRequested(asked) => {
                write!(f, "asked R{} by {} P{}:{}", asked.id.0, Instant(asked.deadline), asked.platter.0, Range(asked.tracks))
            }
            Event::PlatterWritten { platter } => write!(f, "written P{}", platter.0),
            Event::Done { command } => write!(f, "done {}", Id(command)),
            Event::Interrupted { command, verified } => write!(f, "interrupted {} {verified}", Id(command)),
            Event::Failed { command, fault } => write!(f, "failed {} {}", Id(command), Why(fault)),
            Event::Lost { actor, fault } => write!(f, "lost {} {}", Who(actor), Why(fault)),
            Event::Repaired { actor } => write!(f, "repaired {}", Who(actor)),
            Event::PlatterUnavailable { platter } => write!(f, "unavailable P{}", platter.0),
            Event::PlatterAvailable { platter } => write!(f, "available P{}", platter.0),
            Event::ChargeLow { shuttle } => write!(f, "low S{}", shuttle.0),
            Event::Woken => f.write_str("woken"),
        }
    }
}

struct Doing<'a>(&'a Action);

impl fmt::Display for Doing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self.0 {
            Action::Move { to: Position { shelf, x_um } } => write!(f, "move {shelf}@{x_um}"),
            Action::Pick { from, platter } => write!(f, "pick P{} {}", platter.0, At(from)),
            Action::Place { to, platter } => write!(f, "place P{} {}", platter.0, At(to)),
            Action::Charge => f.write_str("charge"),
            Action::Mount { bay, platter } => write!(f, "mount P{} {}", platter.0, bay.0),
            Action::Unmount { bay, platter } => write!(f, "unmount P{} {}", platter.0, bay.0),
            Action::Switch { to } => write!(f, "switch {}", to.0),
            Action::Read { platter, tracks, adjacent, request } => {
                let how = if adjacent { "adjacent" } else { "seek" };
                write!(f, "read P{}:{} {how} R{}", platter.0, Range(tracks), request.0)
            }
            Action::Verify { platter, tracks } => write!(f, "verify P{}:{}", platter.0, Range(tracks)),
        }
    }
}
