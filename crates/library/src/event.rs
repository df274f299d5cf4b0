//! Events: facts in the past tense, given to the controller in order of time.

use fulgurite_domain::Micros;

use crate::{Actor, CommandId, Platter, ReadRequest, RequestId, Shuttle};

/// Something that happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "a field without a comment is what its name says")]
pub enum Event {
    /// A read was requested.
    ReadRequested(ReadRequest),
    /// A read that was requested is due sooner now. It keeps its age.
    ReadHastened {
        /// The read.
        request: RequestId,
        platter: Platter,
        deadline: Micros,
    },
    /// A request to read all tracks of a platter when drives have nothing else to do. It ends when
    /// all of them were read since, when the platter becomes unreachable, or at once if the library
    /// doesn't verify platters.
    VerificationRequested {
        /// Repeated when the request ends.
        request: RequestId,
        platter: Platter,
    },
    /// A platter was written and waits at the port of the write rack.
    PlatterWritten {
        /// The platter; all of its tracks are to be verified.
        platter: Platter,
    },
    /// A command was carried out.
    Done { command: CommandId },
    /// A verification was interrupted by another command for the same drive.
    Interrupted {
        command: CommandId,
        /// Tracks verified; the one under the head is read again next time.
        verified: u32,
    },
    /// A command failed. Its actor is out of order until it is repaired.
    Failed { command: CommandId, fault: Fault },
    /// An actor failed while it had no command.
    Lost { actor: Actor, fault: Fault },
    /// An actor works again. A shuttle is where it was lost, with the platter that it carried. A
    /// drive still holds its platters, both unmounted.
    Repaired { actor: Actor },
    /// A platter can't be used from now on, for whatever reason.
    PlatterUnavailable { platter: Platter },
    /// A platter can be used again.
    PlatterAvailable { platter: Platter },
    /// A shuttle's battery has fallen to the charge at which it should go to a dock.
    ChargeLow { shuttle: Shuttle },
    /// The controller's deadline has come, or the driver of the controller chose to wake it.
    Woken,
}

/// Why an actor failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "a field without a comment is what its name says")]
pub enum Fault {
    /// It stopped where it is and doesn't answer.
    Stopped {
        /// A shuttle's x along the shelf in micrometres, whether it moved or not. Between two
        /// shelves it blocks both.
        x_um: i64,
    },
    /// It collided with another shuttle; both are lost.
    Collided {
        with: Shuttle,
        /// As for `Stopped`.
        x_um: i64,
    },
    /// A drive stopped working, with the platters in it.
    DriveDown,
}
