//! What can be seen of a library at an instant.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fulgurite_domain::Micros;
use fulgurite_journal::Stock;
use fulgurite_library::{
    Actor, Bay, Berth, Drive, Operation, Panel, Platter, Position, RegionPlatter, RequestId, Shard, Shuttle, Whereabouts,
};
use fulgurite_mechanics::{Libraries, MotionLog, Outage};

use crate::plan::Plan;

/// An open request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestView {
    /// The request.
    pub request: RequestId,
    /// When it arrived.
    pub arrived: Micros,
    /// When its bytes are due.
    pub deadline: Micros,
    /// The shards that no drive has read yet.
    pub shards: Vec<Shard>,
}

/// What a platter that is wanted waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// For a shuttle: this many platters of its half of the shelf are more urgent.
    InSlot {
        /// The number of platters before it.
        before: u32,
    },
    /// A shuttle carries it.
    OnShuttle(Shuttle),
    /// It is in this drive.
    InDrive(Drive),
    /// A drive reads it.
    Reading,
    /// It waits at the write rack to be verified.
    AtPort {
        /// The number of platters that came there before it.
        before: u32,
    },
    /// A machine that is out of order keeps it, or blocks the way to it.
    OutOfReach,
    /// It is not in the library yet.
    NotWritten,
}

/// A shuttle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShuttleView {
    /// Where it is.
    pub at: Position,
    /// The platter that it carries.
    pub carries: Option<RegionPlatter>,
    /// Its fault.
    pub outage: Option<Outage>,
}

/// A read drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DriveView {
    /// What it does.
    pub operation: Option<Operation>,
    /// The platters in its bays.
    pub bays: [Option<RegionPlatter>; 2],
    /// Its fault.
    pub outage: Option<Outage>,
}

/// A library at an instant.
#[derive(Debug, Clone)]
pub struct View {
    /// What doesn't change.
    pub plan: Arc<Plan>,
    /// The instant.
    pub now: Micros,
    /// Where platters and shuttles are.
    pub stock: Stock,
    /// The open requests, in order of their numbers.
    pub requests: Vec<RequestView>,
    /// What each platter that is wanted by an open request waits for.
    pub waiting: BTreeMap<RegionPlatter, Waiting>,
    /// The shuttles.
    pub shuttles: Vec<ShuttleView>,
    /// The drives.
    pub drives: Vec<DriveView>,
    /// Platters that are written and not verified.
    pub unverified: u32,
    /// Platters that wait to be fetched.
    pub queued: u32,
    /// Reads that were replaced so far by reads of other platters of the set.
    pub recovered: u64,
}

impl View {
    pub(crate) fn new(
        plan: Arc<Plan>,
        now: Micros,
        stock: Stock,
        requests: Vec<RequestView>,
        reading: &BTreeSet<RegionPlatter>,
        libraries: &Libraries<impl MotionLog>,
    ) -> Self {
        let (panel, machines) = (libraries.region().controllers()[0].panel(), &libraries.mechanics()[0]);
        let layout = &plan.settings().layout;
        let places: BTreeMap<Platter, u32> = panel.lanes().flat_map(|lane| panel.queue().line(lane).zip(0..)).collect();
        let at_port: BTreeMap<Platter, u32> = panel.at_port().zip(0..).collect();
        let wanted = requests.iter().flat_map(|request| &request.shards).map(|shard| shard.platter);
        let waiting = wanted.map(|platter| match reading.contains(&platter) {
            true => (platter, Waiting::Reading),
            false => (platter, waiting(panel, Platter(platter.0), &places, &at_port)),
        });
        let waiting = waiting.collect();
        let shuttles = (0..layout.shuttles).map(Shuttle).map(|shuttle| ShuttleView {
            at: machines.resting_place(shuttle, now),
            carries: machines.carried(shuttle).map(|platter| RegionPlatter(platter.0)),
            outage: machines.outage(Actor::Shuttle(shuttle)),
        });
        let drives = panel.drives().map(|drive| DriveView {
            operation: panel.operation(drive),
            bays: [Bay(0), Bay(1)].map(|bay| {
                let held = panel.bays(drive)[usize::from(bay.0)].held;
                held.map(|held| RegionPlatter(held.platter.0))
            }),
            outage: machines.outage(Actor::Drive(drive)),
        });
        Self {
            shuttles: shuttles.collect(),
            drives: drives.collect(),
            unverified: panel.unverified(),
            queued: panel.queue().platters(),
            recovered: libraries.region().recovered(),
            plan: plan.clone(),
            now,
            stock,
            requests,
            waiting,
        }
    }
}

fn waiting(panel: &Panel, platter: Platter, places: &BTreeMap<Platter, u32>, at_port: &BTreeMap<Platter, u32>) -> Waiting {
    if !panel.is_available(platter) && panel.whereabouts(platter) != Whereabouts::Unwritten {
        return Waiting::OutOfReach;
    }
    match panel.whereabouts(platter) {
        Whereabouts::Berth(Berth::Slot(_)) => Waiting::InSlot { before: places.get(&platter).copied().unwrap_or(0) },
        Whereabouts::Berth(Berth::Bay(drive, _)) => Waiting::InDrive(drive),
        Whereabouts::Berth(Berth::Port) => Waiting::AtPort { before: at_port.get(&platter).copied().unwrap_or(0) },
        Whereabouts::Shuttle(shuttle) => Waiting::OnShuttle(shuttle),
        Whereabouts::Unwritten => Waiting::NotWritten,
    }
}
