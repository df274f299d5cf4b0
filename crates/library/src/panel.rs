//! The panel, as the controller believes it to be. Policies read it to decide what moves next.

mod custody;
mod found;
mod spare_slots;
mod state;

use fulgurite_domain::Micros;

pub use state::{BayState, Carry, Found, Held, Inventory, Job, Operation, Purpose, Stage, Verification, Whereabouts};
pub(crate) use state::{DriveState, PlatterState, ShuttleOperation, ShuttleState};

use crate::placement::Zones;
use crate::traffic::Traffic;
use crate::{Bay, Berth, Cell, CommandId, Congestion, Drive, Lane, Layout, Pace, Platter, Position, Queue, Rectangle, Shuttle, Side, Slot};

/// Reading a platter takes long from here on.
const LONG_READ: Micros = Micros(600_000_000);

/// The state of one panel. Policies read it; only the controller changes it.
#[derive(Debug, Clone)]
pub struct Panel {
    pub(crate) now: Micros,
    pub(crate) layout: Layout,
    pub(crate) pace: Pace,
    pub(crate) queue: Queue,
    pub(crate) platters: Vec<PlatterState>,
    /// Where shuttles reach each drive, and the lane of each slot: policies ask for them after
    /// every event, and the layout would compute them each time.
    doors: Vec<Position>,
    slot_lanes: Vec<Lane>,
    /// The platter of each slot: one whose home it is, or one that occupies it as a spare slot.
    pub(crate) slot_occupants: Vec<Option<Platter>>,
    spare_slots: u32,
    pub(crate) shuttles: Vec<ShuttleState>,
    pub(crate) drives: Vec<DriveState>,
    pub(crate) traffic: Traffic,
    /// Per cell, the number of failures that make it unreachable.
    pub(crate) blocked: Vec<u16>,
    pub(crate) blocked_cells: u32,
    pub(crate) verification: Verification,
    /// The set of each platter, if they belong to sets.
    pub(crate) sets: Vec<u32>,
    pub(crate) zones: Zones,
    /// Written platters that wait at the port, in order.
    pub(crate) port: std::collections::VecDeque<Platter>,
    /// Platters in a spare slot that have to return to their home slot.
    pub(crate) displaced_platters: Vec<Platter>,
    /// Platters in slots that are not verified and that no shuttle is to pick.
    pub(crate) paused_verifications: Vec<Platter>,
}

impl Panel {
    pub(crate) fn new(layout: Layout, pace: Pace, inventory: &Inventory) -> Self {
        let lanes = 2 * usize::from(layout.shelves);
        let mut slot_occupants = vec![None; layout.slot_count() as usize];
        let platters = inventory.homes.iter().enumerate().map(|(index, home)| {
            slot_occupants[home.0 as usize] = Some(Platter(index as u32));
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
        let drive = DriveState {
            bays: [BayState::default(); 2],
            active: Bay(0),
            operation: None,
            interrupted: None,
            mounted_at: [Micros::ZERO; 2],
            head: None,
            down: false,
            should_verify: true,
        };
        let shuttle = ShuttleState { job: Job::Idle, operation: None, carrying: None, lost: false, battery_low: false };
        let count = usize::from(layout.shuttles);
        let rests = if inventory.shuttles.is_empty() { crate::rectangle::resting_places(&layout) } else { inventory.shuttles.clone() };
        let doors = (0..layout.drive_count()).map(|drive| layout.drive_position(Drive(drive)));
        let slot_lanes = (0..layout.slot_count()).map(|slot| lane_at(&layout, layout.slot_position(Slot(slot))));
        let mut panel = Self {
            now: Micros::ZERO,
            doors: doors.collect(),
            slot_lanes: slot_lanes.collect(),
            queue: Queue::new(platters.len(), lanes, long_tracks(&pace)),
            traffic: Traffic::new(&layout, pace, rests.into_iter()),
            blocked_cells: 0,
            blocked: vec![0; usize::from(layout.racks()) * usize::from(layout.shelves)],
            platters,
            spare_slots: slot_occupants.iter().filter(|tenant| tenant.is_none()).count() as u32,
            slot_occupants,
            shuttles: vec![shuttle; count],
            drives: vec![drive; usize::from(layout.drive_count())],
            verification: inventory.verification,
            sets: inventory.sets.clone(),
            zones: inventory.zones.clone(),
            port: std::collections::VecDeque::new(),
            displaced_platters: Vec::new(),
            paused_verifications: Vec::new(),
            layout,
            pace,
        };
        for (shuttle, other_shelf) in &inventory.between {
            panel.traffic.put_between(*shuttle, *other_shelf);
        }
        for found in &inventory.found {
            panel.put_found(*found);
        }
        if inventory.verification == Verification::Endless {
            panel.fill_drives();
        }
        panel
    }

    /// Gives each drive a platter for endless verification, without a home slot. If both bays of a
    /// drive hold platters that were found there, it is set aside in a spare slot; if no slot is
    /// spare either, the drive starts without one.
    fn fill_drives(&mut self) {
        for drive in self.drives() {
            let platter = Platter(self.platters.len() as u32);
            let free = [Bay(1), Bay(0)].into_iter().find(|bay| self.bays(drive)[usize::from(bay.0)].held.is_none());
            let berth = match free {
                Some(bay) => Berth::Bay(drive, bay),
                None => {
                    let Some(slot) = self.slot_occupants.iter().position(Option::is_none) else { continue };
                    let slot = Slot(slot as u32);
                    self.occupy_spare_slot(slot, platter);
                    self.paused_verifications.push(platter);
                    Berth::Slot(slot)
                }
            };
            self.platters.push(PlatterState {
                home: None,
                whereabouts: Whereabouts::Berth(berth),
                at: self.layout.berth_position(berth),
                lane: self.lane_of(berth),
                tracks: u32::MAX,
                verified: 0,
                claimed: false,
                unavailable: false,
            });
            self.queue.add_platter();
            if let Some(bay) = free {
                self.drives[usize::from(drive.0)].bays[usize::from(bay.0)].held =
                    Some(Held { platter, purpose: Purpose::Verification, stage: Stage::Arrived, collector: None });
            }
        }
    }

    /// The time of the event that is being settled.
    #[must_use]
    pub fn now(&self) -> Micros {
        self.now
    }

    /// The layout of the panel.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The controller's estimates of motion times.
    #[must_use]
    pub fn pace(&self) -> &Pace {
        &self.pace
    }

    /// The requests that wait.
    #[must_use]
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// All platters, including those still to be written and those under endless verification.
    #[must_use]
    pub fn platter_count(&self) -> u32 {
        self.platters.len() as u32
    }

    /// All lanes: left and right half of the lowest shelf, then of the next, and so on.
    pub fn lanes(&self) -> impl Iterator<Item = Lane> + use<> {
        (0..2 * u16::from(self.layout.shelves)).map(Lane)
    }

    /// The lane of a position.
    #[must_use]
    pub fn lane_at(&self, position: Position) -> Lane {
        lane_at(&self.layout, position)
    }

    /// The lane of a berth.
    #[must_use]
    pub fn lane_of(&self, berth: Berth) -> Lane {
        match berth {
            Berth::Slot(slot) => self.slot_lanes[slot.0 as usize],
            Berth::Bay(drive, _) => self.lane_at(self.door(drive)),
            Berth::Port => self.lane_at(self.layout.port_position()),
        }
    }

    /// Where shuttles reach a drive.
    #[must_use]
    pub fn door(&self, drive: Drive) -> Position {
        self.doors[usize::from(drive.0)]
    }

    /// Position of a platter, or of the berth that it left last.
    #[must_use]
    pub fn platter_position(&self, platter: Platter) -> Position {
        self.platters[platter.0 as usize].at
    }

    /// Where a platter is.
    #[must_use]
    pub fn whereabouts(&self, platter: Platter) -> Whereabouts {
        self.platters[platter.0 as usize].whereabouts
    }

    /// The platters that wait at the port, in the order in which it hands them out.
    pub fn at_port(&self) -> impl Iterator<Item = Platter> + '_ {
        self.port.iter().copied()
    }

    /// Whether all tracks of a platter were read back.
    #[must_use]
    pub fn is_verified(&self, platter: Platter) -> bool {
        let state = &self.platters[platter.0 as usize];
        state.verified == state.tracks
    }

    /// The home slot of a platter; none for platters under endless verification.
    #[must_use]
    pub fn home(&self, platter: Platter) -> Option<Slot> {
        self.platters[platter.0 as usize].home
    }

    /// The platter that a shuttle carries.
    #[must_use]
    pub fn carried(&self, shuttle: Shuttle) -> Option<Platter> {
        self.shuttles[usize::from(shuttle.0)].carrying
    }

    /// Working shuttles without a job and not due for charging, low numbers first. They may still
    /// be moving because another shuttle asked for room.
    pub fn idle_shuttles(&self) -> impl Iterator<Item = Shuttle> + '_ {
        let idle = |state: &ShuttleState| state.job == Job::Idle && !state.lost && !state.battery_low;
        self.shuttles.iter().enumerate().filter(move |(_, state)| idle(state)).map(|(index, _)| Shuttle(index as u16))
    }

    /// Whether a shuttle is due for charging.
    #[must_use]
    pub fn is_battery_low(&self, shuttle: Shuttle) -> bool {
        self.shuttles[usize::from(shuttle.0)].battery_low
    }

    /// True unless the shuttle is lost.
    #[must_use]
    pub fn is_working(&self, shuttle: Shuttle) -> bool {
        !self.shuttles[usize::from(shuttle.0)].lost
    }

    /// The shuttles that work in a rectangle: its first ones that are not lost, one per drive. Two
    /// on one half of a shelf can't pass each other and hinder more than they help, so the rest
    /// stand by, initially at a dock, and only do chores.
    pub fn working_in<'a>(&'a self, rectangle: &'a Rectangle) -> impl Iterator<Item = Shuttle> + 'a {
        rectangle.shuttles.iter().copied().filter(|shuttle| self.is_working(*shuttle)).take(rectangle.drives.len())
    }

    /// A shuttle's job.
    #[must_use]
    pub fn job(&self, shuttle: Shuttle) -> Job {
        self.shuttles[usize::from(shuttle.0)].job
    }

    /// Position of a shuttle, or where its current plan ends.
    #[must_use]
    pub fn position(&self, shuttle: Shuttle) -> Position {
        self.traffic.planned_position(shuttle)
    }

    /// The other shelf, of a shuttle that is out of order between two.
    #[must_use]
    pub fn other_shelf(&self, shuttle: Shuttle) -> Option<u8> {
        self.traffic.other_shelf(shuttle)
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

    /// Whether a drive works and shuttles can reach it.
    #[must_use]
    #[inline]
    pub fn is_reachable(&self, drive: Drive) -> bool {
        // Testing for any blocked cell first is cheaper than locating the drive, and almost always
        // settles it.
        let is_blocked = || self.is_blocked(self.layout.cell_at(self.door(drive)));
        !self.drives[usize::from(drive.0)].down && (self.blocked_cells == 0 || !is_blocked())
    }

    /// Written platters that wait to be verified or are being verified. Endless verification
    /// doesn't count.
    #[must_use]
    pub fn unverified(&self) -> u32 {
        if self.verification != Verification::Written {
            return 0;
        }
        let is_unverified = |held: &Held| {
            let state = &self.platters[held.platter.0 as usize];
            held.purpose == Purpose::Verification && state.verified < state.tracks
        };
        let held = self.drives.iter().flat_map(|drive| drive.bays).filter_map(|bay| bay.held);
        (self.port.len() + self.paused_verifications.len() + held.filter(is_unverified).count()) as u32
    }

    /// What a drive is doing.
    #[must_use]
    pub fn operation(&self, drive: Drive) -> Option<Operation> {
        self.drives[usize::from(drive.0)].operation.map(|(_, operation)| operation)
    }

    /// The command of a drive's verification, if it is verifying.
    #[must_use]
    pub fn verification_command(&self, drive: Drive) -> Option<CommandId> {
        let (id, operation) = self.drives[usize::from(drive.0)].operation?;
        (operation == Operation::Verify).then_some(id)
    }

    /// Customers' platters in a drive, and any platter on the way to it.
    #[must_use]
    pub fn customers(&self, drive: Drive) -> u32 {
        let is_customer = |bay: &&BayState| bay.held.is_some_and(|held| held.purpose == Purpose::Customer);
        let bays = self.bays(drive);
        let incoming = bays.iter().filter(|bay| bay.incoming.is_some()).count();
        (bays.iter().filter(is_customer).count() + incoming) as u32
    }

    /// Whether a drive is reachable, has an empty bay, and neither has a customer nor expects a
    /// platter.
    #[must_use]
    pub fn is_free(&self, drive: Drive) -> bool {
        self.customers(drive) == 0 && self.empty_bay(drive).is_some() && self.is_reachable(drive)
    }

    /// The platter with the most urgent request in these lanes.
    pub(crate) fn first_in(&self, lanes: impl Iterator<Item = Lane>) -> Option<Platter> {
        let heads = lanes.filter_map(|lane| self.queue.line(lane).next());
        heads.min_by_key(|platter| (self.queue.rank(*platter), *platter))
    }

    /// A bay that is empty and expects no platter.
    #[must_use]
    pub fn empty_bay(&self, drive: Drive) -> Option<Bay> {
        let is_empty = |bay: &BayState| bay.held.is_none() && bay.incoming.is_none();
        self.bays(drive).iter().position(is_empty).map(|index| Bay(index as u8))
    }

    /// The bay for the next platter that is brought to a drive: an empty one, or else one whose
    /// platter can be taken away before. None if both bays expect a platter.
    #[must_use]
    pub fn bay_to_fill(&self, drive: Drive) -> Option<Bay> {
        let is_customers = |bay: &BayState| bay.incoming.is_none() && bay.held.is_some_and(|held| held.purpose == Purpose::Customer);
        self.empty_bay(drive).or_else(|| self.bays(drive).iter().position(is_customers).map(|index| Bay(index as u8)))
    }

    /// Whether a platter on its way to a drive can't be placed before another shuttle takes a
    /// released one away.
    #[must_use]
    pub fn is_jammed(&self, drive: Drive) -> bool {
        let bays = self.bays(drive);
        bays.iter().all(|bay| bay.held.is_some()) && bays.iter().any(|bay| bay.incoming.is_some()) && self.released_bay(drive).is_some()
    }

    /// The bay whose platter is released, not yet claimed by a shuttle and not requested again. A
    /// platter without a home counts only if there is a spare slot.
    #[must_use]
    pub fn released_bay(&self, drive: Drive) -> Option<Bay> {
        let has_room = |held: Held| self.home(held.platter).is_some() || self.has_reachable_spare_slot();
        let is_done = |held: Held| held.purpose == Purpose::Verification || self.queue.requests_for(held.platter) == 0;
        let is_released = |bay: &BayState| {
            bay.held.is_some_and(|held| held.stage == Stage::Released && held.collector.is_none() && is_done(held) && has_room(held))
        };
        self.bays(drive).iter().position(is_released).map(|index| Bay(index as u8))
    }

    /// Whether a failure makes a cell unreachable.
    #[must_use]
    pub fn is_blocked(&self, cell: Cell) -> bool {
        self.blocked_cells > 0 && self.blocked[usize::from(cell.rack) * usize::from(self.layout.shelves) + usize::from(cell.shelf)] > 0
    }

    /// Whether a failure makes a slot unreachable: its cell is, or it is so near to a lost shuttle
    /// that no other can stand before it.
    #[must_use]
    pub fn is_slot_blocked(&self, slot: Slot) -> bool {
        self.blocked_cells > 0
            && (self.is_blocked(self.layout.cell_of(slot)) || self.traffic.is_beside_lost(self.layout.slot_position(slot)))
    }

    /// Whether a platter is in a working drive or can be brought to one.
    #[must_use]
    pub fn is_available(&self, platter: Platter) -> bool {
        let state = &self.platters[platter.0 as usize];
        !state.unavailable
            && match state.whereabouts {
                Whereabouts::Berth(Berth::Slot(slot)) => !self.is_slot_blocked(slot),
                Whereabouts::Berth(Berth::Bay(drive, _)) => !self.drives[usize::from(drive.0)].down,
                Whereabouts::Berth(Berth::Port) => self.blocked_cells == 0 || !self.is_blocked(self.port_cell()),
                Whereabouts::Shuttle(shuttle) => self.is_working(shuttle),
                Whereabouts::Unwritten => false,
            }
    }

    /// The cell of the port.
    pub(crate) fn port_cell(&self) -> Cell {
        Cell { rack: 0, shelf: self.layout.port_shelf }
    }

    /// Whether any shuttle is lost.
    #[must_use]
    pub fn has_lost(&self) -> bool {
        self.traffic.has_lost()
    }

    /// Trip statistics so far.
    #[must_use]
    pub fn congestion(&self) -> Congestion {
        self.traffic.congestion()
    }

    /// The dock at which an idle shuttle charges.
    pub(crate) fn dock_of(&self, shuttle: Shuttle) -> Position {
        self.layout.dock_position(self.position(shuttle).shelf, self.dock_side(shuttle))
    }

    /// The side of an idle shuttle's docks: the half that it is in. The two shuttles of a panel
    /// with one shelf can't pass each other, so each has the end on its side of the other.
    pub(crate) fn dock_side(&self, shuttle: Shuttle) -> Side {
        let x_um = self.traffic.planned_position(shuttle).x_um;
        let mut others = (0..self.layout.shuttles).map(Shuttle).filter(|other| *other != shuttle && self.layout.shelves == 1);
        match others.next() {
            Some(other) if self.traffic.planned_position(other).x_um > x_um => Side::Left,
            Some(_) => Side::Right,
            None => self.layout.side_of(x_um),
        }
    }
}

fn long_tracks(pace: &Pace) -> u32 {
    LONG_READ.0.checked_div(pace.track.0).map_or(u32::MAX, |tracks| tracks.clamp(1, u64::from(u32::MAX)) as u32)
}

pub(crate) fn lane_at(layout: &Layout, position: Position) -> Lane {
    Lane(2 * u16::from(position.shelf) + u16::from(layout.side_of(position.x_um) == Side::Right))
}
