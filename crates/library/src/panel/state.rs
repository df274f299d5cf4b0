//! The states of shuttles, drives and platters, as the controller believes them to be.

use fulgurite_domain::Micros;

use crate::placement::Zones;
use crate::{Bay, Berth, CommandId, Lane, Platter, Position, RequestId, Shuttle, Slot, Tracks};

/// Why a platter is in a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Its tracks were requested.
    Customer,
    /// It was written and is being read back.
    Verification,
}

/// Progress of a platter in a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// In the bay, not mounted.
    Arrived,
    /// Mounted and readable.
    Mounted,
    /// Done; a shuttle may take it.
    Released,
}

/// A platter in a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "what has no comment is what its name says")]
pub struct Held {
    pub platter: Platter,
    /// Why it is here.
    pub purpose: Purpose,
    pub stage: Stage,
    /// The shuttle that comes to collect it.
    pub collector: Option<Shuttle>,
}

/// One of a drive's two bays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BayState {
    /// The platter in the bay.
    pub held: Option<Held>,
    /// The platter that a shuttle is bringing.
    pub incoming: Option<Platter>,
}

/// What a drive is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "what has no comment is what its name says")]
pub enum Operation {
    /// Clamping the platter of the active bay.
    Mount,
    Unmount,
    Switch(Bay),
    Read(RequestId, Tracks),
    Verify,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct DriveState {
    pub(crate) bays: [BayState; 2],
    /// The bay that the head faces.
    pub(crate) active: Bay,
    pub(crate) operation: Option<(CommandId, Operation)>,
    /// A verification that made way for another command, and its platter, until it is answered.
    pub(crate) interrupted: Option<(CommandId, Platter)>,
    /// When the platter of each bay was last mounted.
    pub(crate) mounted_at: [Micros; 2],
    /// The track after the last one read, if a platter is mounted.
    pub(crate) head: Option<u32>,
    pub(crate) down: bool,
    /// True if the policy lets it verify.
    pub(crate) should_verify: bool,
}

/// What a shuttle has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Job {
    /// Nothing.
    Idle,
    /// Carrying a platter from one berth to another.
    Carry(Carry),
    /// Going to a dock to charge.
    Charge(Position),
}

/// A platter's way from one berth to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "what has no comment is what its name says")]
pub struct Carry {
    pub platter: Platter,
    pub from: Berth,
    pub to: Berth,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShuttleOperation {
    Leg(Position),
    Pick,
    Place,
    Charge,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct ShuttleState {
    pub(crate) job: Job,
    pub(crate) operation: Option<(CommandId, ShuttleOperation)>,
    pub(crate) carrying: Option<Platter>,
    pub(crate) lost: bool,
    pub(crate) battery_low: bool,
}

/// Where a platter is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Whereabouts {
    /// In a slot, a drive, or at the port.
    Berth(Berth),
    /// On a shuttle.
    Shuttle(Shuttle),
    /// Not written yet.
    Unwritten,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct PlatterState {
    pub(crate) home: Option<Slot>,
    pub(crate) whereabouts: Whereabouts,
    /// Position of its berth, or of the one that it left last.
    pub(crate) at: Position,
    pub(crate) lane: Lane,
    pub(crate) tracks: u32,
    /// Tracks read back so far, from the first on.
    pub(crate) verified: u32,
    /// True while a job moves it from a slot or the port (without shuttles, while it is in a
    /// drive), so that no other job takes it.
    pub(super) claimed: bool,
    /// True between [`Event::PlatterUnavailable`](crate::Event::PlatterUnavailable) and
    /// [`Event::PlatterAvailable`](crate::Event::PlatterAvailable).
    pub(crate) unavailable: bool,
}

/// How much verification a library has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Verification {
    /// Each drive always has a platter to verify, which never ends: the assumption of the paper's
    /// evaluation (SOSP '23, section 7.2).
    #[default]
    Endless,
    /// Written platters are brought to drives, verified and stored.
    Written,
    /// No verification.
    Off,
}

/// Contents of a library when its controller starts.
#[derive(Debug, Clone, Default)]
pub struct Inventory {
    /// Each platter's home slot. The platter returns there after each read.
    pub homes: Vec<Slot>,
    /// Number of platters that are already written and stored; the rest will be written in order.
    pub written: u32,
    /// Tracks per platter.
    pub tracks: u32,
    /// The verification load.
    pub verification: Verification,
    /// The set of each platter, by any numbering; empty if platters belong to no sets.
    pub sets: Vec<u32>,
    /// The cells that one failure makes unreachable together.
    pub zones: Zones,
    /// Platters that are elsewhere or in another state than the fields above say: what a library
    /// finds when it takes up its work again. Each at most once; those at the port in the order in
    /// which it hands them out.
    pub found: Vec<Found>,
    /// Where each shuttle is; empty if each is at its resting place. A shuttle between two shelves
    /// has to be brought onto one of them first, unless it is out of order.
    pub shuttles: Vec<Position>,
    /// Shuttles that are out of order between two shelves, with the shelf that `shuttles` doesn't
    /// say. [`Event::Lost`](crate::Event::Lost) has to follow before [`Event::Woken`](crate::Event::Woken).
    pub between: Vec<(Shuttle, u8)>,
}

/// A platter that was found when a library takes up its work again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// The platter.
    pub platter: Platter,
    /// Where it is.
    pub at: Whereabouts,
    /// Tracks read back so far, from the first on.
    pub verified: u32,
}
