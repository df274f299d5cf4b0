//! What the controller wants done. Each command is answered exactly once, by an event with its identifier.

use crate::{Bay, Berth, Drive, Platter, Position, RequestId, Shuttle};

/// Who carries out commands, one at a time each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Actor {
    /// A shuttle.
    Shuttle(Shuttle),
    /// A read drive.
    Drive(Drive),
}

/// Names a command: whose it is, and its number among all of the controller's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandId {
    /// Who carries it out.
    pub actor: Actor,
    /// Counts up over all actors.
    pub number: u64,
}

/// Tracks that follow one another on a platter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tracks {
    /// The first one.
    pub first: u32,
    /// How many, 1 or more.
    pub count: u32,
}

impl Tracks {
    /// The track behind the last one.
    #[must_use]
    pub fn end(self) -> u32 {
        self.first.saturating_add(self.count)
    }
}

/// An imperative.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Command {
    /// To a shuttle or a drive; an answer follows.
    Do {
        /// To be named in the answer.
        id: CommandId,
        /// What to do.
        action: Action,
    },
    /// A request has ended; there is no answer to this.
    Finish {
        /// The request.
        request: RequestId,
        /// How it ended.
        outcome: Outcome,
    },
}

/// What a shuttle or drive does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Shuttle: along its shelf, or to the next shelf above or below at the same place.
    Move {
        /// Where to: the same shelf, or the same place on a neighbouring shelf.
        to: Position,
    },
    /// Shuttle: take the platter that is there.
    Pick {
        /// Where from; the shuttle stands before it.
        from: Berth,
        /// The platter expected there.
        platter: Platter,
    },
    /// Shuttle: leave the platter that it carries.
    Place {
        /// Where to; the shuttle stands before it, and it is empty.
        to: Berth,
        /// The platter it carries.
        platter: Platter,
    },
    /// Shuttle: charge, at a dock, until full.
    Charge,
    /// Drive: clamp the platter of a bay, ready to be read.
    Mount {
        /// The bay.
        bay: Bay,
        /// The platter expected in it.
        platter: Platter,
    },
    /// Drive: release the platter of a bay, ready to be taken.
    Unmount {
        /// The bay.
        bay: Bay,
        /// The platter in it.
        platter: Platter,
    },
    /// Drive: turn to the other bay, away from what is being verified, if anything is: that is answered by
    /// [`Event::Interrupted`](crate::Event::Interrupted) first.
    Switch {
        /// The bay to turn to.
        to: Bay,
    },
    /// Drive: seek, and read tracks of the mounted platter.
    Read {
        /// The platter.
        platter: Platter,
        /// The tracks.
        tracks: Tracks,
        /// Whether the head is there already, because these tracks follow those read last.
        adjacent: bool,
        /// The request they are for.
        request: RequestId,
    },
    /// Drive: read the mounted platter for verification, until all of the tracks are read or something else is commanded.
    Verify {
        /// The platter.
        platter: Platter,
        /// What is left to be verified.
        tracks: Tracks,
    },
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// All bytes were read.
    Read,
    /// The platter can't be reached; what it holds has to come from others of its set.
    Unavailable,
    /// The platter is not of this library, or has no such tracks.
    Refused,
}
