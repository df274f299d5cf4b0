//! Commands from the controller to shuttles and drives. Each [`Command::Do`] is answered exactly
//! once, by an event with its identifier.

use crate::{Bay, Berth, Drive, Platter, Position, RequestId, Shuttle, Tracks};

/// A shuttle or a drive. Each carries out one command at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Actor {
    /// A shuttle.
    Shuttle(Shuttle),
    /// A read drive.
    Drive(Drive),
}

/// Identifies a command: its actor, and a number that is unique across the controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandId {
    /// The actor that carries it out.
    pub actor: Actor,
    /// Counts up over all actors.
    pub number: u64,
}

/// A command to the mechanics, or the end of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "a field without a comment is what its name says")]
pub enum Command {
    /// Tells a shuttle or a drive to act; an event answers it.
    Do {
        /// Repeated in the answer.
        id: CommandId,
        action: Action,
    },
    /// A request has ended. No answer follows.
    Finish { request: RequestId, outcome: Outcome },
}

/// What a shuttle or drive does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "a field without a comment is what its name says")]
pub enum Action {
    /// Shuttle: move along its shelf, or to the next shelf above or below at the same x.
    Move {
        /// Target: on the same shelf, or at the same x on a neighbouring shelf.
        to: Position,
    },
    /// Shuttle: take the platter out of a berth.
    Pick {
        /// Source; the shuttle is at its position.
        from: Berth,
        /// The platter expected there.
        platter: Platter,
    },
    /// Shuttle: put the carried platter into a berth.
    Place {
        /// Destination; it is empty, and the shuttle is at its position.
        to: Berth,
        platter: Platter,
    },
    /// Shuttle: charge at a dock until full.
    Charge,
    /// Drive: clamp the platter of a bay, ready to be read.
    Mount {
        bay: Bay,
        /// The platter expected in it.
        platter: Platter,
    },
    /// Drive: release the platter of a bay, ready to be taken.
    Unmount { bay: Bay, platter: Platter },
    /// Drive: turn the head to the other bay. A verification in progress is answered first, by
    /// [`Event::Interrupted`](crate::Event::Interrupted).
    Switch {
        /// The bay to turn to.
        to: Bay,
    },
    /// Drive: seek, then read tracks of the mounted platter.
    Read {
        platter: Platter,
        tracks: Tracks,
        /// True if the head is already there because these tracks follow the last ones read.
        adjacent: bool,
        /// The request they are for.
        request: RequestId,
    },
    /// Drive: read the mounted platter for verification, until all tracks are read or another
    /// command arrives.
    Verify {
        platter: Platter,
        /// The tracks left to verify.
        tracks: Tracks,
    },
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// All that was requested was read.
    Read,
    /// The platter can't be reached; its data has to come from the rest of its set.
    Unavailable,
    /// The platter is unknown or not written yet, or it has no such tracks. Or the library doesn't
    /// verify platters.
    Refused,
}
