//! Least-cost dispatch, `fulgurite` in scenario files: an idle shuttle gets the platter and drive
//! with the lowest cost, which is the travel to the platter, the wait for the drive and the extra
//! carry, less a credit for age.
//!
//! The policy starts from the bound: each platter costs a shuttle a pick, a carry to a drive, a
//! place, a pick, a carry home and a place. All other shuttle time is waste, and it comes in three
//! kinds, each with a technique against it.
//!
//! - **Waiting for the drive.** A shuttle that brought a platter waits until it is read, or returns
//!   for it later. If the drive's second bay is free too, the shuttle leaves one platter, takes the
//!   one that was read meanwhile, and never waits. So while many platters are queued, platters
//!   under verification are set aside in a slot and brought back afterwards. A setting keeps some
//!   drives at verification. ([`Techniques::exchanges`], [`Techniques::one_verifies_of`])
//! - **Empty trips**, from where a shuttle left a platter to where it picks the next. The oldest
//!   platter can be anywhere; one of the oldest few is near. ([`Techniques::window`])
//! - **Idling** while others have too much to do. A shuttle also fetches from the lanes next to its
//!   rectangle, if many platters wait there or it has platters of its own to choose from. It takes
//!   them to a drive of its own rectangle. ([`Techniques::shares`], [`Techniques::help_above`])

use fulgurite_domain::Micros;

use crate::policy::task_in_orphaned_rectangle;
use crate::rectangle::{Rectangle, indices_by_shuttle, rectangles};
use crate::{Drive, Lane, Layout, Operation, Panel, Platter, Policy, Position, Purpose, Shuttle, Stage, Task};

/// Weight of the extra carry time to a drive other than the platter's own: a crab takes as much
/// energy as 15 m of rail, and two shuttles on one half of a shelf hinder each other.
const EXTRA_CARRY_WEIGHT: u64 = 30;
/// Platters of each lane next to a rectangle among which its shuttles choose, the oldest first.
const ADJACENT_WINDOW: usize = 2;
/// The window is at most this part of the platters waiting in a rectangle: one in four.
const WINDOW_PART: u32 = 4;

/// The techniques that the policy applies. Each can be disabled to measure its contribution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Techniques {
    /// Both bays of a drive serve customers while many platters wait.
    pub exchanges: bool,
    /// The number of oldest platters of a rectangle among which the one with the lowest cost is
    /// chosen; 1 is strictly by age.
    pub window: u32,
    /// Seconds of travel that one second of age offsets, so that platters that were skipped get
    /// their turn.
    pub age_counts: f64,
    /// Shuttles also fetch from the lanes next to their rectangle, to their own drives.
    pub shares: bool,
    /// Requests for one platter are read in order of their tracks.
    pub reads_by_track: bool,
    /// A shuttle with nothing to do at home helps in a lane with at least this many waiting
    /// platters.
    pub help_above: u32,
    /// Waiting platters per drive of a rectangle from which verification is set aside.
    pub set_aside_above: u32,
    /// One in this many drives never stops verifying, whatever waits; 0 for none.
    pub one_verifies_of: u32,
    /// Verification returns after no platter has waited for this long.
    pub brought_back_after: Micros,
}

impl Default for Techniques {
    fn default() -> Self {
        Self {
            exchanges: true,
            window: 32,
            age_counts: 0.02,
            shares: true,
            reads_by_track: true,
            help_above: 16,
            set_aside_above: 12,
            one_verifies_of: 0,
            brought_back_after: Micros(120_000_000),
        }
    }
}

/// Dispatches at the least cost: fetches near platters among the oldest, exchanges platters at the
/// drive, and helps in neighbouring lanes.
#[derive(Debug, Clone)]
pub struct LeastCost {
    techniques: Techniques,
    rectangles: Vec<Rectangle>,
    /// The rectangle of each shuttle.
    rectangle_of_shuttle: Vec<usize>,
    /// The lanes next to each rectangle.
    adjacent_lanes: Vec<Vec<Lane>>,
    /// When each rectangle last had a waiting platter.
    last_waiting: Vec<Micros>,
    /// The drives that should use both bays for customers.
    customers_only: Vec<bool>,
    /// Scratch list of platters to choose from; kept for its allocation.
    candidates: Vec<Platter>,
}

impl LeastCost {
    /// Creates the policy for a panel with this layout.
    #[must_use]
    pub fn new(layout: &Layout, techniques: Techniques) -> Self {
        let rectangles = rectangles(layout);
        let rectangle_of_shuttle = indices_by_shuttle(&rectangles);
        let adjacent_lanes = rectangles.iter().map(|rectangle| adjacent_lanes(layout, rectangle)).collect();
        let last_waiting = vec![Micros::ZERO; rectangles.len()];
        Self {
            techniques,
            rectangles,
            rectangle_of_shuttle,
            adjacent_lanes,
            last_waiting,
            customers_only: vec![false; usize::from(layout.drive_count())],
            candidates: Vec::new(),
        }
    }

    fn task(&mut self, panel: &Panel, shuttle: Shuttle) -> Option<Task> {
        let own = self.rectangle_of_shuttle[usize::from(shuttle.0)];
        if !panel.working_in(&self.rectangles[own]).any(|other| other == shuttle) {
            return None;
        }
        let at = panel.position(shuttle);
        self.collect(panel, own, at, true)
            .or_else(|| self.fetch(panel, own, at))
            .or_else(|| self.collect(panel, own, at, false))
            .or_else(|| task_in_orphaned_rectangle(panel, &self.rectangles, &self.rectangles[own]))
    }

    /// Takes home a platter that a drive of the rectangle has released: the nearest one, or only
    /// one at the shuttle's own position.
    fn collect(&self, panel: &Panel, own: usize, at: Position, only_at_own_position: bool) -> Option<Task> {
        let rectangle = &self.rectangles[own];
        let released = rectangle.drives.iter().filter_map(|drive| {
            let bay = panel.released_bay(*drive).filter(|_| panel.is_reachable(*drive))?;
            let place = panel.layout().drive_position(*drive);
            (!only_at_own_position || place == at).then(|| (panel.pace().travel(at, place), *drive, bay))
        });
        released.min().map(|(_, drive, bay)| Task::Collect { drive, bay })
    }

    /// Decides which drives use both bays for customers: from when many platters wait in a
    /// rectangle until none has waited for a while.
    fn update_customers_only(&mut self, panel: &Panel) {
        if !self.techniques.exchanges {
            return;
        }
        // Drives that have yet to set their platter aside may take a spare slot each.
        let due =
            panel.drives().filter(|drive| self.customers_only[usize::from(drive.0)] && has_verification(panel, *drive)).count() as u32;
        let mut spare = panel.spare_slots().saturating_sub(due);
        for (rectangle, last_waiting) in self.rectangles.iter().zip(&mut self.last_waiting) {
            let waiting: u32 = rectangle.lanes.iter().map(|lane| panel.queue().platters_in(*lane)).sum();
            let many = self.techniques.set_aside_above * rectangle.drives.len() as u32;
            // With more drives than shuttles, a shuttle moves on to another drive and doesn't wait.
            let gains = rectangle.drives.len() <= rectangle.shuttles.len();
            if waiting > 0 {
                *last_waiting = panel.now();
            }
            let every = self.techniques.one_verifies_of;
            // The last drive of each group keeps verifying.
            let keeps = |drive: &Drive| every > 0 && u32::from(drive.0) % every == every - 1;
            for drive in rectangle.drives.iter().filter(|drive| !keeps(drive)) {
                let customers_only = &mut self.customers_only[usize::from(drive.0)];
                *customers_only = if *customers_only {
                    panel.now().since(*last_waiting) < self.techniques.brought_back_after
                } else {
                    // A platter without a home is set aside in a spare slot.
                    let begins = gains && waiting >= many && spare > 0;
                    spare -= u32::from(begins);
                    begins
                };
            }
        }
    }

    /// The next platter: from the shuttle's own rectangle, or from a lane next to it. If its own
    /// rectangle has none, it helps only in a lane with at least `help_above` waiting.
    fn fetch(&mut self, panel: &Panel, own: usize, at: Position) -> Option<Task> {
        if !self.rectangles[own].drives.iter().any(|drive| self.has_room(panel, *drive)) {
            return None;
        }
        let mut candidates = std::mem::take(&mut self.candidates);
        candidates.clear();
        let rectangle = &self.rectangles[own];
        self.add_oldest(panel, &rectangle.lanes, &mut candidates);
        if self.techniques.shares {
            let has_own = !candidates.is_empty();
            for lane in &self.adjacent_lanes[own] {
                if has_own || panel.queue().platters_in(*lane) >= self.techniques.help_above {
                    candidates.extend(panel.queue().line(*lane).take(ADJACENT_WINDOW));
                }
            }
        }
        let best = self.best(panel, at, &candidates, rectangle);
        self.candidates = candidates;
        best
    }

    /// Adds the oldest platters of some lanes.
    fn add_oldest(&self, panel: &Panel, lanes: &[Lane], candidates: &mut Vec<Platter>) {
        // Short queues are served strictly by age; otherwise the oldest would pay for what the
        // others gain.
        let waiting: u32 = lanes.iter().map(|lane| panel.queue().platters_in(*lane)).sum();
        let window = (waiting / WINDOW_PART).clamp(1, self.techniques.window.max(1)) as usize;
        candidates.extend(lanes.iter().flat_map(|lane| panel.queue().line(*lane).take(window)));
        if lanes.len() > 1 {
            candidates.sort_unstable_by_key(|platter| (panel.queue().oldest(*platter), *platter));
            candidates.truncate(window);
        }
    }

    /// The platter and drive with the lowest cost, as the module describes it.
    fn best(&self, panel: &Panel, at: Position, platters: &[Platter], rectangle: &Rectangle) -> Option<Task> {
        let (pace, layout, now) = (panel.pace(), panel.layout(), panel.now());
        let options = rectangle.drives.iter().copied().filter(|drive| self.has_room(panel, *drive)).flat_map(|drive| {
            let (door, busy) = (layout.drive_position(drive), customer_work(panel, drive));
            platters.iter().map(move |platter| {
                let place = panel.platter_position(*platter);
                let to_platter = pace.travel(at, place);
                // Every fetch of this platter pays for the ways to the drive and home. The
                // comparison counts only the extra cost, less a credit for age.
                let least = pace.along(place.x_um - layout.door_um(layout.side_of(place.x_um))).0;
                let age = panel.queue().oldest(*platter).map_or(Micros::ZERO, |oldest| now.since(oldest));
                let credit = (age.seconds() * self.techniques.age_counts * 1e6) as i64;
                let carry = pace.travel(place, door);
                let arrives = to_platter + pace.pick + carry + pace.place;
                let waits = busy.since(arrives);
                ((to_platter.0 + waits.0 + EXTRA_CARRY_WEIGHT * carry.0.saturating_sub(least)) as i64 - credit, *platter, drive)
            })
        });
        options.min().map(|(_, platter, drive)| Task::Fetch { platter, drive })
    }

    fn has_room(&self, panel: &Panel, drive: Drive) -> bool {
        panel.empty_bay(drive).is_some()
            && panel.customers(drive) <= u32::from(self.serves_customers_only(panel, drive))
            && panel.is_reachable(drive)
    }

    /// Whether a drive has no verification in its bays, so that both serve customers.
    fn serves_customers_only(&self, panel: &Panel, drive: Drive) -> bool {
        self.techniques.exchanges && !has_verification(panel, drive)
    }
}

impl Policy for LeastCost {
    fn assign(&mut self, panel: &Panel) -> Option<(Shuttle, Task)> {
        panel.idle_shuttles().next()?;
        self.update_customers_only(panel);
        panel.idle_shuttles().find_map(|shuttle| Some((shuttle, self.task(panel, shuttle)?)))
    }

    fn should_verify(&self, _: &Panel, drive: Drive) -> bool {
        !self.customers_only[usize::from(drive.0)]
    }

    fn pauses_verification(&self) -> bool {
        self.techniques.exchanges
    }

    fn deadline(&self, panel: &Panel) -> Option<Micros> {
        // Only an idle shuttle could bring verification back.
        panel.idle_shuttles().next()?;
        let quiet = self.rectangles.iter().zip(&self.last_waiting).filter(|(rectangle, _)| {
            let serves_customers_only = rectangle.drives.iter().any(|drive| self.customers_only[usize::from(drive.0)]);
            serves_customers_only && rectangle.lanes.iter().all(|lane| panel.queue().platters_in(*lane) == 0)
        });
        quiet.map(|(_, last_waiting)| *last_waiting + self.techniques.brought_back_after).min()
    }

    fn reads_by_track(&self) -> bool {
        self.techniques.reads_by_track
    }
}

/// The lanes next to a rectangle: the other half of its shelves, and the shelves above and below.
fn adjacent_lanes(layout: &Layout, rectangle: &Rectangle) -> Vec<Lane> {
    let lanes = (0..2 * u16::from(layout.shelves)).map(Lane).filter(|lane| !rectangle.lanes.contains(lane));
    let borders = |lane: &Lane| rectangle.lanes.iter().any(|own| lane.0 / 2 == own.0 / 2 || lane.0.abs_diff(own.0) == 2);
    lanes.filter(borders).collect()
}

fn has_verification(panel: &Panel, drive: Drive) -> bool {
    panel.bays(drive).iter().any(|bay| bay.held.is_some_and(|held| held.purpose == Purpose::Verification))
}

/// Rough estimate of the time that a drive needs for its customers.
fn customer_work(panel: &Panel, drive: Drive) -> Micros {
    let bays = panel.bays(drive).iter();
    let customers = bays.filter_map(|bay| bay.held).filter(|held| held.purpose == Purpose::Customer && held.stage != Stage::Released);
    let waiting: u64 = customers.clone().map(|held| u64::from(panel.queue().tracks_for(held.platter))).sum();
    let reading = match panel.operation(drive) {
        Some(Operation::Read(_, tracks)) => u64::from(tracks.count),
        _ => 0,
    };
    Micros(customers.count() as u64 * panel.pace().visit.0 + (waiting + reading) * panel.pace().track.0)
}
