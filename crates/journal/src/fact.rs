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
    Action, Actor, Bay, Berth, Command, CommandId, Event, Fault, Library, Outcome, Position, RegionOutcome, RegionPlatter, RequestId,
    Shard, Tracks,
};

/// One line of a journal after its header.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields repeat their names")]
pub enum Fact {
    /// Input: a request for shards arrived at the region.
    Requested { now: Micros, request: RequestId, deadline: Micros, shards: Vec<Shard> },
    /// Input: an open request is due sooner than it was.
    Hastened { now: Micros, request: RequestId, deadline: Micros },
    /// Input: a request arrived to read a platter in full.
    VerificationRequested { now: Micros, request: RequestId, platter: RegionPlatter },
    /// Input: the controller of a library received an event.
    Happened { now: Micros, library: Library, event: Event },
    /// Output: a command to a library.
    Commanded { library: Library, command: Command },
    /// Output: a request to the region ended.
    Ended { request: RequestId, outcome: RegionOutcome },
    /// A digest that replaces the outputs up to here.
    Digest { count: u64, digest: u64 },
    /// The journal is complete.
    End { inputs: u64, now: Micros },
}

impl Fact {
    /// When an input arrived, or the journal ended. Outputs have the instant of their input.
    #[must_use]
    pub fn instant(&self) -> Option<Micros> {
        match self {
            Self::Requested { now, .. }
            | Self::Hastened { now, .. }
            | Self::VerificationRequested { now, .. }
            | Self::Happened { now, .. }
            | Self::End { now, .. } => Some(*now),
            Self::Commanded { .. } | Self::Ended { .. } | Self::Digest { .. } => None,
        }
    }

    /// Whether it is an input of the controllers.
    #[must_use]
    pub fn is_input(&self) -> bool {
        match self {
            Self::Requested { .. } | Self::Hastened { .. } | Self::VerificationRequested { .. } | Self::Happened { .. } => true,
            Self::Commanded { .. } | Self::Ended { .. } | Self::Digest { .. } | Self::End { .. } => false,
        }
    }
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Requested { now, request, deadline, shards } => {
                write!(f, "{} R{} by {}", now.0, request.0, instant(*deadline))?;
                shards.iter().try_for_each(|shard| write!(f, " P{}:{}", shard.platter.0, range(shard.tracks)))
            }
            Self::Hastened { now, request, deadline } => write!(f, "{} R{} sooner {}", now.0, request.0, instant(*deadline)),
            Self::VerificationRequested { now, request, platter } => write!(f, "{} R{} verify P{}", now.0, request.0, platter.0),
            Self::Happened { now, library, event } => write!(f, "{} L{} {}", now.0, library.0, event_words(*event)),
            Self::Commanded { library, command: Command::Do { id, action } } => {
                write!(f, "> L{} {} {}", library.0, self::id(*id), action_words(*action))
            }
            Self::Commanded { library, command: Command::Finish { request, outcome } } => {
                write!(f, "> L{} finish R{} {}", library.0, request.0, word(&OUTCOMES, outcome))
            }
            Self::Ended { request, outcome } => write!(f, "> R{} {}", request.0, word(&REGION_OUTCOMES, outcome)),
            Self::Digest { count, digest } => write!(f, "= {count} {digest:016x}"),
            Self::End { inputs, now } => write!(f, ". {inputs} {}", now.0),
        }
    }
}

/// The journal's word for each outcome of a read of a library.
pub(crate) const OUTCOMES: [(&str, Outcome); 3] =
    [("read", Outcome::Read), ("unavailable", Outcome::Unavailable), ("refused", Outcome::Refused)];

/// The journal's word for each outcome of a request to the region.
pub(crate) const REGION_OUTCOMES: [(&str, RegionOutcome); 4] = [
    ("read", RegionOutcome::Read),
    ("recovered", RegionOutcome::Recovered),
    ("unavailable", RegionOutcome::Unavailable),
    ("refused", RegionOutcome::Refused),
];

fn word<T: PartialEq>(words: &[(&'static str, T)], meaning: &T) -> &'static str {
    words.iter().find(|(_, known)| known == meaning).expect("each outcome has a word").0
}

fn instant(at: Micros) -> impl fmt::Display {
    fmt::from_fn(move |f| if at == Micros::NEVER { f.write_str("never") } else { write!(f, "{}", at.0) })
}

fn range(tracks: Tracks) -> impl fmt::Display {
    fmt::from_fn(move |f| write!(f, "{}+{}", tracks.first, tracks.count))
}

pub(crate) fn actor_words(actor: Actor) -> impl fmt::Display {
    fmt::from_fn(move |f| match actor {
        Actor::Shuttle(shuttle) => write!(f, "S{}", shuttle.0),
        Actor::Drive(drive) => write!(f, "D{}", drive.0),
    })
}

fn id(command: CommandId) -> impl fmt::Display {
    fmt::from_fn(move |f| write!(f, "{}#{}", actor_words(command.actor), command.number))
}

pub(crate) fn berth_words(berth: Berth) -> impl fmt::Display {
    fmt::from_fn(move |f| match berth {
        Berth::Slot(slot) => write!(f, "slot{}", slot.0),
        Berth::Bay(drive, Bay(bay)) => write!(f, "D{}.{bay}", drive.0),
        Berth::Port => f.write_str("port"),
    })
}

fn fault_words(fault: Fault) -> impl fmt::Display {
    fmt::from_fn(move |f| match fault {
        Fault::Stopped { x_um } => write!(f, "stopped {x_um}"),
        Fault::Collided { with, x_um } => write!(f, "collided S{} {x_um}", with.0),
        Fault::DriveDown => f.write_str("down"),
    })
}

fn event_words(event: Event) -> impl fmt::Display {
    fmt::from_fn(move |f| match event {
        Event::ReadRequested(request) => {
            write!(f, "asked R{} by {} P{}:{}", request.id.0, instant(request.deadline), request.platter.0, range(request.tracks))
        }
        Event::ReadHastened { request, platter, deadline } => {
            write!(f, "asked R{} sooner {} P{}", request.0, instant(deadline), platter.0)
        }
        Event::VerificationRequested { request, platter } => write!(f, "asked R{} verify P{}", request.0, platter.0),
        Event::PlatterWritten { platter } => write!(f, "written P{}", platter.0),
        Event::Done { command } => write!(f, "done {}", id(command)),
        Event::Interrupted { command, verified } => write!(f, "interrupted {} {verified}", id(command)),
        Event::Failed { command, fault } => write!(f, "failed {} {}", id(command), fault_words(fault)),
        Event::Lost { actor, fault } => write!(f, "lost {} {}", actor_words(actor), fault_words(fault)),
        Event::Repaired { actor } => write!(f, "repaired {}", actor_words(actor)),
        Event::PlatterUnavailable { platter } => write!(f, "unavailable P{}", platter.0),
        Event::PlatterAvailable { platter } => write!(f, "available P{}", platter.0),
        Event::ChargeLow { shuttle } => write!(f, "low S{}", shuttle.0),
        Event::Woken => f.write_str("woken"),
    })
}

fn action_words(action: Action) -> impl fmt::Display {
    fmt::from_fn(move |f| match action {
        Action::Move { to: Position { shelf, x_um } } => write!(f, "move {shelf}@{x_um}"),
        Action::Pick { from, platter } => write!(f, "pick P{} {}", platter.0, berth_words(from)),
        Action::Place { to, platter } => write!(f, "place P{} {}", platter.0, berth_words(to)),
        Action::Charge => f.write_str("charge"),
        Action::Mount { bay, platter } => write!(f, "mount P{} {}", platter.0, bay.0),
        Action::Unmount { bay, platter } => write!(f, "unmount P{} {}", platter.0, bay.0),
        Action::Switch { to } => write!(f, "switch {}", to.0),
        Action::Read { platter, tracks, adjacent, request } => {
            let seek_word = if adjacent { "adjacent" } else { "seek" };
            write!(f, "read P{}:{} {seek_word} R{}", platter.0, range(tracks), request.0)
        }
        Action::Verify { platter, tracks } => write!(f, "verify P{}:{}", platter.0, range(tracks)),
    })
}
