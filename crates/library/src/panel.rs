//! The panel as the controller believes it to be: what policies look at to decide.

use fulgurite_domain::Micros;

use crate::placement::Zones;
use crate::traffic::Traffic;
use crate::{Bay, Berth, Cell, CommandId, Congestion, Drive, Lane, Layout, Pace, Platter, Position, Queue, Shuttle, Side, Slot, Tracks};

/// What a platter in a drive is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Somebody asked for its tracks.
    Customer,
    /// It was written and is being read back.
    Verification,
}

/// How far a platter in a drive is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// It lies in the bay.
    Arrived,
    /// It can be read.
    Mounted,
    /// Nothing is left to be done with it; a shuttle may take it.
    Released,
}

/// A platter in a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// Which.
    pub platter: Platter,
    /// What for.
    pub purpose: Purpose,
    /// How far.
    pub stage: Stage,
    /// The shuttle that comes for it.
    pub taker: Option<Shuttle>,
}

/// One of a drive's two places.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BayState {
    /// What lies there.
    pub held: Option<Held>,
    /// What a shuttle will bring.
    pub promised: Option<Platter>,
}

/// What a drive is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Clamping the platter of the active bay.
    Mount,
    /// Releasing it.
    Unmount,
    /// Turning to this bay.
    Switch(Bay),
    /// Reading for a request.
    Read(crate::RequestId, Tracks),
    /// Reading back.
    Verify,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct DriveState {
    pub(crate) bays: [BayState; 2],
    pub(crate) active: Bay,
    pub(crate) operation: Option<(CommandId, Operation)>,
    /// The track behind the last one read of the mounted platter.
    pub(crate) head: Option<u32>,
    pub(crate) down: bool,
    /// Whether it should hold something to verify.
    pub(crate) verifies: bool,
}

/// What a shuttle is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Job {
    /// Nothing.
    Idle,
    /// A platter is taken from one place to another.
    Carry(Carry),
    /// To a dock, to charge.
    Charge(Position),
}

/// A platter is taken from one place to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Carry {
    /// Which.
    pub platter: Platter,
    /// Where it is taken from.
    pub from: Berth,
    /// Where it goes.
    pub to: Berth,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doing {
    Leg(Position),
    Pick,
    Place,
    Charge,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct ShuttleState {
    pub(crate) job: Job,
    pub(crate) doing: Option<(CommandId, Doing)>,
    pub(crate) carrying: Option<Platter>,
    pub(crate) lost: bool,
    pub(crate) low: bool,
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
    pub(crate) at: Position,
    pub(crate) lane: Lane,
    pub(crate) tracks: u32,
    pub(crate) verified: u32,
    pub(crate) claimed: bool,
    pub(crate) unavailable: bool,
}

/// How much there is to verify.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Verification {
    /// Each drive always has a platter to verify, which never ends: the assumption of the paper's evaluation (SOSP '23, section 7.2).
    #[default]
    Endless,
    /// What is written is brought to the drives, verified, and stored.
    Written,
    /// Nothing.
    Off,
}

/// What a library holds when its controller starts.
#[derive(Debug, Clone, Default)]
pub struct Inventory {
    /// The slot of each platter, its home. It returns there after each read.
    pub homes: Vec<Slot>,
    /// The first so many are written and stored; the others will be, in order.
    pub written: u32,
    /// Tracks of a platter.
    pub tracks: u32,
    /// What there is to verify.
    pub verification: Verification,
    /// The set of each platter, whatever sets are called; empty if platters belong to none.
    pub sets: Vec<u32>,
    /// What one failure makes unreachable.
    pub zones: Zones,
}

/// The state of one panel. Policies read it; the controller alone changes it.
#[derive(Debug, Clone)]
pub struct Panel {
    pub(crate) now: Micros,
    pub(crate) layout: Layout,
    pub(crate) pace: Pace,
    pub(crate) queue: Queue,
    pub(crate) platters: Vec<PlatterState>,
    /// Who is at home in each slot, or a guest there.
    pub(crate) tenants: Vec<Option<Platter>>,
    /// Slots without one.
    spare: u32,
    pub(crate) shuttles: Vec<ShuttleState>,
    pub(crate) drives: Vec<DriveState>,
    pub(crate) traffic: Traffic,
    /// How many failures make each cell unreachable.
    pub(crate) blocked: Vec<u16>,
    /// Cells that some failure makes unreachable.
    pub(crate) blocked_cells: u32,
    pub(crate) verification: Verification,
    /// The set of each platter, if they belong to sets.
    pub(crate) sets: Vec<u32>,
    pub(crate) zones: Zones,
    /// Written platters that wait at the port, in order.
    pub(crate) port: std::collections::VecDeque<Platter>,
    /// Platters that are not in their own slot, and will go there.
    pub(crate) strays: Vec<Platter>,
    /// Platters whose verification waits until a drive has time for them.
    pub(crate) aside: Vec<Platter>,
}

impl Panel {
    pub(crate) fn new(layout: Layout, pace: Pace, inventory: &Inventory) -> Self {
        let lanes = 2 * usize::from(layout.shelves);
        let mut tenants = vec![None; layout.slot_count() as usize];
        let platters = inventory.homes.iter().enumerate().map(|(index, home)| {
            tenants[home.0 as usize] = Some(Platter(index as u32));
            let at = layout.slot_position(*home);
            let is_written = (index as u32) < inventory.written;
            PlatterState {
                home: Some(*home),
                whereabouts: if is_written { Whereabouts::Berth(Berth::Slot(*home)) } else { Whereabouts::Unwritten },
                at,
                lane: lane_at(&layout, at),
                tracks: inventory.tracks,
                verified: if is_written { inventory.tracks } else { 0 },
                claimed: false,
                unavailable: false,
            }
        });
        let platters: Vec<PlatterState> = platters.collect();
        let drive = DriveState { bays: [BayState::default(); 2], active: Bay(0), operation: None, head: None, down: false, verifies: true };
        let shuttle = ShuttleState { job: Job::Idle, doing: None, carrying: None, lost: false, low: false };
        let count = usize::from(layout.shuttles);
        let rests = crate::rectangle::resting_places(&layout);
        let mut panel = Self {
            now: Micros::ZERO,
            queue: Queue::new(platters.len(), lanes),
            traffic: Traffic::new(&layout, pace, rests.into_iter()),
            blocked_cells: 0,
            blocked: vec![0; usize::from(layout.racks()) * usize::from(layout.shelves)],
            platters,
            spare: tenants.iter().filter(|tenant| tenant.is_none()).count() as u32,
            tenants,
            shuttles: vec![shuttle; count],
            drives: vec![drive; usize::from(layout.drive_count())],
            verification: inventory.verification,
            sets: inventory.sets.clone(),
            zones: inventory.zones.clone(),
            port: std::collections::VecDeque::new(),
            strays: Vec::new(),
            aside: Vec::new(),
            layout,
            pace,
        };
        if inventory.verification == Verification::Endless {
            panel.fill_drives();
        }
        panel
    }

    /// A platter to verify in each drive, which has no slot of its own and never ends.
    fn fill_drives(&mut self) {
        for index in 0..self.drives.len() {
            let drive = Drive(index as u16);
            let platter = Platter(self.platters.len() as u32);
            let at = self.layout.drive_position(drive);
            let berth = Berth::Bay(drive, Bay(1));
            self.platters.push(PlatterState {
                home: None,
                whereabouts: Whereabouts::Berth(berth),
                at,
                lane: lane_at(&self.layout, at),
                tracks: u32::MAX,
                verified: 0,
                claimed: false,
                unavailable: false,
            });
            self.queue.add_platter();
            self.drives[index].bays[1].held = Some(Held { platter, purpose: Purpose::Verification, stage: Stage::Arrived, taker: None });
        }
    }

    /// The time of the event that is being settled.
    #[must_use]
    pub fn now(&self) -> Micros {
        self.now
    }

    /// The measures of the panel.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// How long motions take, as far as the controller knows.
    #[must_use]
    pub fn pace(&self) -> &Pace {
        &self.pace
    }

    /// Who waits for what.
    #[must_use]
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Platters, those that will be written and those under endless verification included.
    #[must_use]
    pub fn platter_count(&self) -> u32 {
        self.platters.len() as u32
    }

    /// All lanes: left and right half of the lowest shelf, of the next, and so on.
    pub fn lanes(&self) -> impl Iterator<Item = Lane> + use<> {
        (0..2 * u16::from(self.layout.shelves)).map(Lane)
    }

    /// The lane that a place is in.
    #[must_use]
    pub fn lane_at(&self, position: Position) -> Lane {
        lane_at(&self.layout, position)
    }

    /// Where a platter is, or last was in a berth.
    #[must_use]
    pub fn place_of(&self, platter: Platter) -> Position {
        self.platters[platter.0 as usize].at
    }

    /// Where a platter is.
    #[must_use]
    pub fn whereabouts(&self, platter: Platter) -> Whereabouts {
        self.platters[platter.0 as usize].whereabouts
    }

    /// The slot that a platter returns to. What is verified for ever has none.
    #[must_use]
    pub fn home(&self, platter: Platter) -> Option<Slot> {
        self.platters[platter.0 as usize].home
    }

    /// What a shuttle carries.
    #[must_use]
    pub fn carried(&self, shuttle: Shuttle) -> Option<Platter> {
        self.shuttles[usize::from(shuttle.0)].carrying
    }

    /// Shuttles that work and have nothing to do, low numbers first. They may still be on a way that they were pushed along.
    pub fn idle_shuttles(&self) -> impl Iterator<Item = Shuttle> + '_ {
        let idle = |state: &ShuttleState| state.job == Job::Idle && !state.lost && !state.low;
        self.shuttles.iter().enumerate().filter(move |(_, state)| idle(state)).map(|(index, _)| Shuttle(index as u16))
    }

    /// Whether a shuttle works.
    #[must_use]
    pub fn works(&self, shuttle: Shuttle) -> bool {
        !self.shuttles[usize::from(shuttle.0)].lost
    }

    /// What a shuttle is at.
    #[must_use]
    pub fn job(&self, shuttle: Shuttle) -> Job {
        self.shuttles[usize::from(shuttle.0)].job
    }

    /// Where a shuttle stands, or will when it ends what it is on.
    #[must_use]
    pub fn position(&self, shuttle: Shuttle) -> Position {
        self.traffic.next_at(shuttle)
    }

    /// All drives.
    pub fn drives(&self) -> impl Iterator<Item = Drive> + use<> {
        (0..self.layout.drive_count()).map(Drive)
    }

    /// The two bays of a drive.
    #[must_use]
    pub fn bays(&self, drive: Drive) -> &[BayState; 2] {
        &self.drives[usize::from(drive.0)].bays
    }

    /// Whether a drive works and can be reached.
    #[must_use]
    pub fn is_reachable(&self, drive: Drive) -> bool {
        // Where the drive is takes longer to find out than that nothing is blocked, which is so nearly always.
        let is_blocked = || self.is_blocked(self.layout.cell_at(self.layout.drive_position(drive)));
        !self.drives[usize::from(drive.0)].down && (self.blocked_cells == 0 || !is_blocked())
    }

    /// What a drive is doing.
    #[must_use]
    pub fn operation(&self, drive: Drive) -> Option<Operation> {
        self.drives[usize::from(drive.0)].operation.map(|(_, operation)| operation)
    }

    /// The command that a drive verifies with, if it does.
    #[must_use]
    pub fn verifies_with(&self, drive: Drive) -> Option<CommandId> {
        let (id, operation) = self.drives[usize::from(drive.0)].operation?;
        (operation == Operation::Verify).then_some(id)
    }

    /// Customers' platters in a drive or promised to it.
    #[must_use]
    pub fn customers(&self, drive: Drive) -> u32 {
        let is_customer = |bay: &&BayState| bay.held.is_some_and(|held| held.purpose == Purpose::Customer);
        let bays = self.bays(drive);
        let promised = bays.iter().filter(|bay| bay.promised.is_some()).count();
        (bays.iter().filter(is_customer).count() + promised) as u32
    }

    /// A bay that is empty and not promised to anybody.
    #[must_use]
    pub fn empty_bay(&self, drive: Drive) -> Option<Bay> {
        let is_empty = |bay: &BayState| bay.held.is_none() && bay.promised.is_none();
        self.bays(drive).iter().position(is_empty).map(|index| Bay(index as u8))
    }

    /// The bay of a drive whose platter can be taken away, and nobody comes for. What has no home can be taken away where there is a spare slot.
    #[must_use]
    pub fn released_bay(&self, drive: Drive) -> Option<Bay> {
        let has_room = |held: Held| self.home(held.platter).is_some() || self.spare_slot(self.layout.drive_position(drive)).is_some();
        let is_released =
            |bay: &BayState| bay.held.is_some_and(|held| held.stage == Stage::Released && held.taker.is_none() && has_room(held));
        self.bays(drive).iter().position(is_released).map(|index| Bay(index as u8))
    }

    /// Whether a failure keeps shuttles from a shelf of a rack.
    #[must_use]
    pub fn is_blocked(&self, cell: Cell) -> bool {
        self.blocked_cells > 0 && self.blocked[usize::from(cell.rack) * usize::from(self.layout.shelves) + usize::from(cell.shelf)] > 0
    }

    /// Whether a platter can be brought to a drive, or is in one.
    #[must_use]
    pub fn is_available(&self, platter: Platter) -> bool {
        let state = &self.platters[platter.0 as usize];
        !state.unavailable
            && match state.whereabouts {
                Whereabouts::Berth(Berth::Slot(slot)) => !self.is_blocked(self.layout.cell_of(slot)),
                Whereabouts::Berth(Berth::Bay(drive, _)) => !self.drives[usize::from(drive.0)].down,
                Whereabouts::Berth(Berth::Port) => true,
                Whereabouts::Shuttle(shuttle) => self.works(shuttle),
                Whereabouts::Unwritten => false,
            }
    }

    /// Whether a shuttle is out of order.
    #[must_use]
    pub fn has_lost(&self) -> bool {
        self.traffic.has_lost()
    }

    /// How trips went so far.
    #[must_use]
    pub fn congestion(&self) -> Congestion {
        self.traffic.congestion()
    }

    /// Slots that are nobody's home and hold nothing.
    #[must_use]
    pub fn spare_slots(&self) -> u32 {
        self.spare
    }

    /// A slot without a tenant gets one.
    pub(crate) fn move_in(&mut self, slot: Slot, platter: Platter) {
        self.tenants[slot.0 as usize] = Some(platter);
        self.spare -= 1;
    }

    /// A slot's tenant, who is a guest, leaves it.
    pub(crate) fn move_out(&mut self, slot: Slot) {
        self.tenants[slot.0 as usize] = None;
        self.spare += 1;
    }

    /// The nearest slot to a place on its shelf, or else on others, that is nobody's home, holds nothing, and can be reached.
    #[must_use]
    pub fn spare_slot(&self, near: Position) -> Option<Slot> {
        self.spare_slot_where(near, |_| true)
    }

    /// A spare slot for a platter that shares no blast zone with others of its set (I3).
    pub(crate) fn spare_slot_for(&self, platter: Platter) -> Option<Slot> {
        let set = self.sets.get(platter.0 as usize);
        let is_other = |index: &usize| *index != platter.0 as usize && set == self.sets.get(*index);
        let others = (0..self.sets.len()).filter(|index| set.is_some() && is_other(index));
        // Where they are, or will be again.
        let cells: Vec<Cell> = others
            .flat_map(|index| {
                let PlatterState { home, whereabouts, .. } = self.platters[index];
                let at = if let Whereabouts::Berth(Berth::Slot(slot)) = whereabouts { Some(slot) } else { None };
                [home, at].into_iter().flatten().map(|slot| self.layout.cell_of(slot))
            })
            .collect();
        let near = self.platters[platter.0 as usize].at;
        self.spare_slot_where(near, |cell| cells.iter().all(|other| !self.zones.share(cell, *other)))
    }

    fn spare_slot_where(&self, near: Position, is_allowed: impl Fn(Cell) -> bool) -> Option<Slot> {
        let (layout, slots) = (&self.layout, u32::from(self.layout.slots));
        if self.spare == 0 {
            return None;
        }
        let mut best = None;
        for row in 0..self.tenants.len() as u32 / slots {
            let cell = layout.cell_of(Slot(row * slots));
            if self.is_blocked(cell) || !is_allowed(cell) {
                continue;
            }
            let free = (row * slots..(row + 1) * slots).map(Slot).filter(|slot| self.tenants[slot.0 as usize].is_none());
            let nearest = free.map(|slot| (self.pace.travel(near, layout.slot_position(slot)), slot)).min();
            best = best.into_iter().chain(nearest).min();
        }
        best.map(|(_, slot)| slot)
    }

    pub(crate) fn dock_near(&self, position: Position) -> Position {
        self.layout.dock_position(position.shelf, self.layout.side_of(position.x_um))
    }
}

/// The lane that a place is in.
pub(crate) fn lane_at(layout: &Layout, position: Position) -> Lane {
    Lane(2 * u16::from(position.shelf) + u16::from(layout.side_of(position.x_um) == Side::Right))
}
