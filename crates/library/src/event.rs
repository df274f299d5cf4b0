//! What happened. Events are facts in the past tense; the controller is told them in order of time.

use fulgurite_domain::Micros;

use crate::{Actor, CommandId, Platter, Shuttle, Tracks};

/// Names a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// Somebody wants tracks of a platter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ReadRequest {
    /// To be named when it ends.
    pub id: RequestId,
    /// The platter.
    pub platter: Platter,
    /// The tracks; a drive reads whole tracks.
    pub tracks: Tracks,
    /// When the last byte is wanted, [`Micros::NEVER`] if at leisure.
    pub deadline: Micros,
}

/// A fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// A read was asked for.
    ReadRequested(ReadRequest),
    /// A platter was written and waits at the port of the write rack.
    PlatterWritten {
        /// The platter; its tracks are all to be verified.
        platter: Platter,
    },
    /// A command was carried out.
    Done {
        /// Which.
        command: CommandId,
    },
    /// A verification gave way to another command of the same drive.
    Interrupted {
        /// The verification.
        command: CommandId,
        /// The tracks that were verified; the one under the head is read again.
        verified: u32,
    },
    /// A command was not carried out, and its actor is out of order until it is repaired.
    Failed {
        /// Which.
        command: CommandId,
        /// Why.
        fault: Fault,
    },
    /// An actor failed while nothing was asked of it.
    Lost {
        /// Who.
        actor: Actor,
        /// Why.
        fault: Fault,
    },
    /// An actor works again. A shuttle is where it was lost, with what it carried; a drive is empty of nothing that was in it, and both its
    /// bays are unmounted.
    Repaired {
        /// Who.
        actor: Actor,
    },
    /// A platter can't be used from now on, whoever said so.
    PlatterUnavailable {
        /// Which.
        platter: Platter,
    },
    /// A platter can be used again.
    PlatterAvailable {
        /// Which.
        platter: Platter,
    },
    /// A shuttle's battery is down to what takes it to a dock and little more.
    ChargeLow {
        /// Which.
        shuttle: Shuttle,
    },
    /// The controller asked to be woken at this time, or somebody thought that it should be.
    Woken,
}

/// Why something failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// It stopped where it is and doesn't answer.
    Stopped {
        /// For a shuttle on its way: how far it got along the shelf, in micrometres; between two shelves it blocks both.
        x_um: i64,
    },
    /// It ran into this shuttle, or this shuttle into it; both are lost.
    Collided {
        /// The other one.
        with: Shuttle,
        /// How far it got along the shelf, in micrometres.
        x_um: i64,
    },
    /// A drive stopped working, with what is in it.
    DriveDown,
}
