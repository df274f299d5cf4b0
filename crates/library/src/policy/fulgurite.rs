//! Our policy. It begins with the bound: a platter costs a shuttle a pick, a carry to a drive, a place, a pick, a carry home and a place.
//! Whatever else a shuttle does is waste, and there are three kinds of it.
//!
//! - **Waiting for the drive.** A shuttle that brought a platter waits until it is read, or comes again for it. If the drive's second bay is
//!   free too, it leaves one platter, takes the one that was read meanwhile, and waits for nothing. So while many platters are waited for,
//!   what is under verification is set aside in a slot, and brought back afterwards. ([`Ideas::exchanges`])
//! - **Empty ways.** From where a shuttle left a platter to where it takes the next. The oldest platter can be anywhere; one of the oldest
//!   few is near. ([`Ideas::window`])
//! - **Standing by** while others have too much. Who has nothing to do in its own rectangle helps where most is waiting, and a platter goes to
//!   the drive that will be done with it first, not always to its own. ([`Ideas::shares`])

use fulgurite_domain::Micros;

use crate::rectangle::{Rectangle, rectangles};
use crate::{Drive, Lane, Layout, Operation, Panel, Platter, Policy, Position, Purpose, Shuttle, Stage, Task};

/// What the policy makes use of; each can be left out to see what it contributes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ideas {
    /// Both bays of a drive serve customers while many wait.
    pub exchanges: bool,
    /// Among how many of the oldest platters of a lane the nearest is chosen; 1 is strictly by age.
    pub window: u32,
    /// Shuttles help outside their rectangle, and platters go to the drive that is done first.
    pub shares: bool,
    /// Requests for one platter are read in order of their tracks.
    pub reads_by_track: bool,
    /// Platters waiting in a rectangle, for each of its drives, above which verification is set aside.
    pub set_aside_above: u32,
}

impl Default for Ideas {
    fn default() -> Self {
        Self { exchanges: true, window: 8, shares: true, reads_by_track: true, set_aside_above: 6 }
    }
}

/// Brings what is near among what is old, exchanges platters at the drive, and helps where most is waiting.
#[derive(Debug, Clone)]
pub struct Fulgurite {
    ideas: Ideas,
    rectangles: Vec<Rectangle>,
    /// The rectangle of each shuttle.
    own: Vec<usize>,
    /// The drives that should have both bays for customers.
    clears: Vec<bool>,
}

impl Fulgurite {
    /// The policy for a panel of these measures.
    #[must_use]
    pub fn new(layout: &Layout, ideas: Ideas) -> Self {
        let rectangles = rectangles(layout);
        let mut own = vec![0; usize::from(layout.shuttles)];
        for (index, rectangle) in rectangles.iter().enumerate() {
            for shuttle in &rectangle.shuttles {
                own[usize::from(shuttle.0)] = index;
            }
        }
        Self { ideas, rectangles, own, clears: vec![false; usize::from(layout.drive_count())] }
    }

    fn task(&self, panel: &Panel, shuttle: Shuttle) -> Option<Task> {
        let own = self.own[usize::from(shuttle.0)];
        let at = panel.position(shuttle);
        self.collect(panel, own, at, true)
            .or_else(|| self.fetch(panel, own, at))
            .or_else(|| self.collect(panel, own, at, false))
            .or_else(|| self.help(panel, shuttle, own, at))
    }

    /// Takes home what a drive of the rectangle is done with: the nearest, or only one where the shuttle stands.
    fn collect(&self, panel: &Panel, own: usize, at: Position, only_here: bool) -> Option<Task> {
        let rectangle = &self.rectangles[own];
        let released = rectangle.drives.iter().filter(|drive| panel.is_reachable(**drive)).filter_map(|drive| {
            let place = panel.layout().drive_position(*drive);
            let bay = panel.released_bay(*drive)?;
            (!only_here || place == at).then(|| (panel.pace().travel(at, place), *drive, bay))
        });
        released.min().map(|(_, drive, bay)| Task::Collect { drive, bay })
    }

    fn waiting(&self, panel: &Panel, rectangle: &Rectangle) -> u32 {
        rectangle.lanes.iter().map(|lane| panel.queue().platters_in(*lane)).sum()
    }

    /// Decides where both bays are for customers: from when many wait in a rectangle until nobody does.
    fn clear(&mut self, panel: &Panel) {
        if !self.ideas.exchanges {
            return;
        }
        for rectangle in &self.rectangles {
            let waiting = self.waiting(panel, rectangle);
            let many = self.ideas.set_aside_above * rectangle.drives.len() as u32;
            for drive in &rectangle.drives {
                let clears = &mut self.clears[usize::from(drive.0)];
                // Without a spare slot there is nowhere to set anything aside.
                *clears = waiting > 0 && (*clears || waiting >= many && panel.spare_slot(panel.layout().drive_position(*drive)).is_some());
            }
        }
    }

    /// The next platter of the shuttle's own rectangle.
    fn fetch(&self, panel: &Panel, own: usize, at: Position) -> Option<Task> {
        let rectangle = &self.rectangles[own];
        let candidates = self.oldest(panel, &rectangle.lanes);
        self.best(panel, at, candidates, rectangle)
    }

    /// The oldest few of some lanes.
    fn oldest(&self, panel: &Panel, lanes: &[Lane]) -> Vec<Platter> {
        let window = self.ideas.window.max(1) as usize;
        if let [lane] = lanes {
            return panel.queue().line(*lane).take(window).collect();
        }
        let all = lanes.iter().flat_map(|lane| panel.queue().line(*lane).take(window));
        let mut all: Vec<Platter> = all.collect();
        all.sort_unstable_by_key(|platter| (panel.queue().oldest(*platter), *platter));
        all.truncate(window);
        all
    }

    /// The platter and drive that end soonest, the way home included.
    fn best(&self, panel: &Panel, at: Position, platters: Vec<Platter>, rectangle: &Rectangle) -> Option<Task> {
        let pace = panel.pace();
        let shares = rectangle.shuttles.len() > rectangle.drives.len();
        let room = |drive: Drive| {
            let bay = if shares { panel.coming_bay(drive) } else { panel.empty_bay(drive) };
            bay.is_some() && panel.customers(drive) <= u32::from(shares || self.is_cleared(panel, drive)) && panel.is_reachable(drive)
        };
        let drives: Vec<(Drive, Position, Micros)> = rectangle
            .drives
            .iter()
            .filter(|drive| room(**drive))
            .map(|drive| (*drive, panel.layout().drive_position(*drive), busy_for(panel, *drive)))
            .collect();
        let options = platters.into_iter().flat_map(|platter| {
            let place = panel.place_of(platter);
            let to_platter = pace.travel(at, place) + pace.pick;
            drives.iter().map(move |(drive, door, busy)| {
                let carry = pace.travel(place, *door) + pace.place;
                let begins = (to_platter + carry).max(*busy);
                (begins + carry, platter, *drive)
            })
        });
        options.min().map(|(_, platter, drive)| Task::Fetch { platter, drive })
    }

    /// Whether a drive has no verification in it, so that both bays serve customers.
    fn is_cleared(&self, panel: &Panel, drive: Drive) -> bool {
        self.ideas.exchanges && !has_verification(panel, drive)
    }

    /// Who has nothing to do at home fetches where most is waiting.
    fn help(&self, panel: &Panel, shuttle: Shuttle, own: usize, at: Position) -> Option<Task> {
        let _ = shuttle;
        if !self.ideas.shares {
            return None;
        }
        let rectangle = &self.rectangles[own];
        let fullest = self.rectangles.iter().enumerate().filter(|(index, _)| *index != own);
        let (waiting, index) = fullest.map(|(index, other)| (self.waiting(panel, other), index)).max()?;
        if waiting < 2 {
            return None;
        }
        let candidates = self.oldest(panel, &self.rectangles[index].lanes);
        self.best(panel, at, candidates, rectangle)
    }
}

impl Policy for Fulgurite {
    fn assign(&mut self, panel: &Panel) -> Option<(Shuttle, Task)> {
        self.clear(panel);
        panel.idle_shuttles().find_map(|shuttle| Some((shuttle, self.task(panel, shuttle)?)))
    }

    fn verifies(&self, _: &Panel, drive: Drive) -> bool {
        !self.clears[usize::from(drive.0)]
    }

    fn reads_by_track(&self) -> bool {
        self.ideas.reads_by_track
    }
}

/// Whether a drive has something to verify, now or soon.
fn has_verification(panel: &Panel, drive: Drive) -> bool {
    panel.bays(drive).iter().any(|bay| bay.held.is_some_and(|held| held.purpose == Purpose::Verification))
}

/// How long a drive will be at what customers want of it, roughly.
fn busy_for(panel: &Panel, drive: Drive) -> Micros {
    let bays = panel.bays(drive).iter();
    let customers = bays.filter_map(|bay| bay.held).filter(|held| held.purpose == Purpose::Customer && held.stage != Stage::Released);
    let waiting: u64 = customers.clone().map(|held| u64::from(panel.queue().tracks_for(held.platter))).sum();
    let reading = match panel.operation(drive) {
        Some(Operation::Read(_, tracks)) => u64::from(tracks.count),
        _ => 0,
    };
    Micros(customers.count() as u64 * panel.pace().visit.0 + (waiting + reading) * panel.pace().track.0)
}
