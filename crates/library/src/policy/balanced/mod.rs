//! The balanced policy: each shuttle works where platters would otherwise wait longest.
//!
//! A library is as fast as its shuttles: each platter costs one of them a pick, a carry to a drive,
//! a place, a pick, a carry home and a place. All other shuttle time is waste. It comes in four
//! kinds, and the policy has a technique against each:
//!
//! - **Shuttles in the wrong place.** The panel is cut into [sections](Section), one for each end
//!   of a shelf with drives, and no shuttle owns any. The *urgency* of a section is the age that
//!   its last platter will reach: the age of its most urgent request, plus the time that fetching
//!   all of its platters takes. A request that is due sooner than others counts as that much older.
//!   A shuttle stays in its section until one without a shuttle is much more urgent, so it rarely
//!   changes shelves. It also fetches platters from the other end of its shelf, if they would wait
//!   much longer there. ([`Techniques::moves_above`], [`Techniques::assists_above`])
//! - **Waiting for the drive.** A shuttle that brought a platter waits until it is read, or returns
//!   for it later. If the drive's second bay is free too, the shuttle leaves one platter, takes the
//!   one that was read meanwhile, and never waits. So while many platters are queued, platters
//!   under verification are set aside in a slot. ([`Techniques::exchanges`]) Where a drive serves
//!   several shelves, a second shuttle works on another of them while many platters wait, and
//!   brings its platter when the first one has taken one away.
//! - **Empty trips**, from where a shuttle left a platter to where it picks the next. The next
//!   platter can be anywhere; one of the next few is near. ([`Techniques::window`])
//! - **Drives taken for long.** A platter with hours of requests starts before the others, since
//!   the last of its requests ends hours later. While it is read, the other platters of its section
//!   go to other drives, if these have much less to do.

mod choice;
mod techniques;
mod verification;

use fulgurite_domain::Micros;

pub use techniques::Techniques;

use self::verification::Suspension;
use crate::rectangle::resting_places;
use crate::section::{Section, sections};
use crate::{Berth, Carry, Drive, Job, Lane, Layout, Pace, Panel, Platter, Policy, Position, Progress, Shuttle, Task};

/// A second shuttle joins in a section with as many waiting platters, and leaves when there are
/// fewer than `FEW_WAIT`.
const MANY_WAIT: u32 = 20;
const FEW_WAIT: u32 = 4;
/// A shuttle waits for a drive of its section that is free again within this time.
const WAIT_FOR_DRIVE: Micros = Micros(30_000_000);

/// Balances the waiting work over shuttles and drives.
#[derive(Debug, Clone)]
pub struct Balanced {
    techniques: Techniques,
    sections: Vec<Section>,
    /// Mean shuttle time for a platter of each section.
    handling: Vec<Micros>,
    /// The section at the other end of each one's shelf.
    opposite: Vec<Option<usize>>,
    section_of_drive: Vec<usize>,
    /// Shuttles that work in each section at once: one for each of its shelves. Two on one half of
    /// a shelf can't pass each other.
    workers_max: Vec<u32>,
    section_of_lane: Vec<usize>,
    drives_of_shelf: Vec<Vec<Drive>>,
    /// The section in which each shuttle works.
    section_of_shuttle: Vec<usize>,
    suspension: Suspension,
    /// Waiting platters and working shuttles of each section, counted for the current decision.
    waiting: Vec<u32>,
    workers: Vec<u32>,
    /// How many each section needs.
    workers_wanted: Vec<u32>,
    /// The platter of each section whose requests take longest to read, if that is long, and how
    /// long they will have waited if it is fetched now; for the current decision.
    long_reads: Vec<Option<(Micros, Platter)>>,
    /// Whether each shuttle is one of those that work in its section, and doesn't stand by; for
    /// the current decision.
    is_member: Vec<bool>,
    /// Scratch lists; kept for their allocation.
    candidates: Vec<Platter>,
    free: Vec<Shuttle>,
    standing_by: Vec<Shuttle>,
    unattended: Vec<(Micros, usize, Shuttle)>,
}

/// What a shuttle does next.
enum Next {
    Do(Task),
    /// Wait for a drive of its section.
    Wait,
    /// There is nothing to do in its section.
    Free,
    /// Its section has enough shuttles.
    StandBy,
}

impl Balanced {
    /// Creates the policy for a panel with this layout, whose shuttles have this pace.
    #[must_use]
    pub fn new(layout: &Layout, pace: &Pace, techniques: Techniques) -> Self {
        let sections = sections(layout);
        let nearest = |place: &Position| {
            let way = |section: &usize| (pace.travel(*place, sections[*section].door), *section);
            (0..sections.len()).min_by_key(way).expect("a panel has at least one section")
        };
        let middle_um = layout.middle_um();
        let handling = sections.iter().map(|section| {
            let middle = Position { x_um: (section.door.x_um + middle_um) / 2, ..section.door };
            pace.handling(middle, section.door) + pace.along(SEARCH_UM)
        });
        let opposite = |of: &Section| sections.iter().position(|other| other.door.shelf == of.door.shelf && other.door != of.door);
        let of_drive = |drive| sections.iter().position(|section| section.drives.contains(&drive)).expect("each drive is in one section");
        let of_lane = |lane| sections.iter().position(|section| section.lanes.contains(&lane)).expect("each lane is in one section");
        let on_shelf = |shelf| (0..layout.drive_count()).map(Drive).filter(|drive| layout.drive_shelf(*drive) == shelf).collect();
        Self {
            techniques,
            handling: handling.collect(),
            opposite: sections.iter().map(opposite).collect(),
            section_of_drive: (0..layout.drive_count()).map(|drive| of_drive(Drive(drive))).collect(),
            section_of_lane: (0..2 * u16::from(layout.shelves)).map(|lane| of_lane(Lane(lane))).collect(),
            drives_of_shelf: (0..layout.shelves).map(on_shelf).collect(),
            workers_max: sections.iter().map(|section| section.shelves() as u32).collect(),
            section_of_shuttle: resting_places(layout).iter().map(nearest).collect(),
            suspension: Suspension::new(layout, &sections),
            waiting: vec![0; sections.len()],
            workers: vec![0; sections.len()],
            workers_wanted: vec![1; sections.len()],
            long_reads: vec![None; sections.len()],
            is_member: Vec::new(),
            candidates: Vec::new(),
            free: Vec::new(),
            standing_by: Vec::new(),
            unattended: Vec::new(),
            sections,
        }
    }

    fn section_of(&self, shuttle: Shuttle) -> usize {
        self.section_of_shuttle[usize::from(shuttle.0)]
    }

    fn count_waiting(&mut self, panel: &Panel) {
        for (waiting, section) in self.waiting.iter_mut().zip(&self.sections) {
            *waiting = section.lanes.iter().map(|lane| panel.queue().platters_in(*lane)).sum();
        }
    }

    fn first(&self, panel: &Panel, section: usize) -> Option<Platter> {
        panel.first_in(self.sections[section].lanes.iter().copied())
    }

    fn count_workers(&mut self, panel: &Panel) {
        for section in 0..self.sections.len() {
            self.workers_wanted[section] = self.count_wanted(panel, section);
        }
        self.workers.fill(0);
        self.is_member.clear();
        for index in 0..self.section_of_shuttle.len() {
            let shuttle = Shuttle(index as u16);
            let workers = self.workers[self.section_of_shuttle[index]];
            // The others stand by.
            let is_member = workers < self.workers_wanted[self.section_of_shuttle[index]];
            self.is_member.push(is_member);
            if is_member && panel.is_working(shuttle) && !self.is_away(panel, shuttle) {
                self.workers[self.section_of_shuttle[index]] = workers + 1;
            }
        }
    }

    /// How many shuttles a section needs: more than one only while many platters wait that its
    /// drives read faster than one shuttle fetches them.
    fn count_wanted(&self, panel: &Panel, section: usize) -> u32 {
        let waiting = self.waiting[section];
        let least = if self.workers_wanted[section] > 1 { FEW_WAIT } else { MANY_WAIT };
        if self.workers_max[section] == 1 || waiting < least {
            return 1;
        }
        let tracks: u64 = self.sections[section].lanes.iter().map(|lane| panel.queue().tracks_in(*lane)).sum();
        let reading = u64::from(waiting) * panel.pace().visit.0 + tracks * panel.pace().track.0;
        let fetching = u64::from(waiting) * self.handling[section].0 * self.sections[section].drives.len() as u64;
        fetching.div_ceil(reading.max(1)).clamp(1, self.workers_max[section].into()) as u32
    }

    /// Whether a shuttle charges or has a task that doesn't concern its section.
    fn is_away(&self, panel: &Panel, shuttle: Shuttle) -> bool {
        let own = self.section_of(shuttle);
        let concerns_own = |berth: Berth| match berth {
            Berth::Bay(drive, _) => self.section_of_drive[usize::from(drive.0)] == own,
            berth => self.section_of_lane[usize::from(panel.lane_of(berth).0)] == own,
        };
        match panel.job(shuttle) {
            Job::Idle => panel.is_battery_low(shuttle),
            // The end at a drive is compared first: it costs less.
            Job::Carry(Carry { from: from @ Berth::Bay(..), to, .. }) => !concerns_own(from) && !concerns_own(to),
            Job::Carry(Carry { from, to, .. }) => !concerns_own(to) && !concerns_own(from),
            Job::Charge(_) => true,
        }
    }

    /// How long the last platter that waits in a section now will have waited, if `workers`
    /// shuttles work there; zero if none waits.
    fn urgency(&self, panel: &Panel, section: usize, workers: u32) -> Micros {
        let Some(first) = self.first(panel, section) else { return Micros::ZERO };
        let age = panel.queue().age(first, panel.now());
        let long = self.long_reads[section].map_or(Micros::ZERO, |(takes, _)| takes);
        (age + self.fetching(section, workers)).max(long)
    }

    /// The time in which so many shuttles fetch all platters of a section.
    fn fetching(&self, section: usize, workers: u32) -> Micros {
        Micros(u64::from(self.waiting[section]) * self.handling[section].0 / u64::from(workers.max(1)))
    }

    /// How much more urgent another section must be, because the urgency of this one is uncertain.
    fn hysteresis(&self, panel: &Panel, section: usize, urgency: Micros) -> Micros {
        let head_start = self.first(panel, section).map_or(Micros::ZERO, |first| panel.queue().head_start(first));
        Micros(urgency.since(head_start).0 / 16)
    }

    /// Finds the long reads. There can be as many as platters wait, and every shuttle compares all
    /// sections, so they are looked through once for each decision.
    fn find_long_reads(&mut self, panel: &Panel) {
        self.long_reads.fill(None);
        let queue = panel.queue();
        for platter in queue.long_reads() {
            let Some(lane) = queue.lane_of(*platter) else { continue };
            let takes = queue.age(*platter, panel.now()) + Micros(u64::from(queue.tracks_for(*platter)) * panel.pace().track.0);
            let longest = &mut self.long_reads[self.section_of_lane[usize::from(lane.0)]];
            *longest = (*longest).max(Some((takes, *platter)));
        }
    }

    /// What a shuttle does in its section, or in a more urgent one.
    fn next(&mut self, panel: &Panel, shuttle: Shuttle) -> Next {
        let (own, at) = (self.section_of(shuttle), panel.position(shuttle));
        if self.is_jammed(panel, own)
            && let Some(task) = self.collect(panel, own, at)
        {
            return Next::Do(task);
        }
        if !self.is_member[usize::from(shuttle.0)] {
            return Next::StandBy;
        }
        if let Some(task) = self.collect_here(panel, at) {
            return Next::Do(task);
        }
        let waits = self.waiting[own] > 0;
        if waits && self.has_usable_drive(panel, own) {
            let urgency = self.urgency(panel, own, self.workers[own]);
            let task = self.move_to_more_urgent(panel, shuttle, urgency);
            let task = task.or_else(|| self.assist(panel, own, at, Some(urgency)));
            return task.or_else(|| self.fetch(panel, own, at)).map_or(Next::Wait, Next::Do);
        }
        if let Some(task) = self.collect(panel, own, at) {
            return Next::Do(task);
        }
        if waits {
            if self.is_drive_free_soon(panel, own) {
                return Next::Wait;
            }
            if let Some(task) = self.fetch_abroad(panel, own, at) {
                return Next::Do(task);
            }
        }
        Next::Free
    }

    /// Moves a shuttle to the most urgent section without enough shuttles, if that is much more
    /// urgent than its own.
    fn move_to_more_urgent(&mut self, panel: &Panel, shuttle: Shuttle, own_urgency: Micros) -> Option<Task> {
        let (own, at) = (self.section_of(shuttle), panel.position(shuttle));
        let least = own_urgency + self.techniques.moves_above + self.hysteresis(panel, own, own_urgency);
        let mut best: Option<(Micros, usize)> = None;
        for other in (0..self.sections.len()).filter(|other| *other != own && self.workers[*other] < self.workers_wanted[*other]) {
            let Some(first) = self.first(panel, other) else { continue };
            let urgency = self.urgency(panel, other, self.workers[other] + 1);
            let urgency = Micros(urgency.0.saturating_sub(panel.pace().travel(at, panel.platter_position(first)).0));
            if urgency > least && best.is_none_or(|(most, _)| urgency > most) && self.has_work_for_another(panel, other) {
                best = Some((urgency, other));
            }
        }
        self.work_in(panel, shuttle, best?.1)
    }

    /// Gives a shuttle a task in another section, which becomes its own.
    fn work_in(&mut self, panel: &Panel, shuttle: Shuttle, section: usize) -> Option<Task> {
        let at = panel.position(shuttle);
        let task = self.fetch(panel, section, at).or_else(|| self.collect(panel, section, at));
        let task = task.or_else(|| self.fetch_abroad(panel, section, at));
        if task.is_some() {
            // A shuttle of that section that is away gets the other section instead.
            let own = std::mem::replace(&mut self.section_of_shuttle[usize::from(shuttle.0)], section);
            let is_absent = |other: &Shuttle| *other != shuttle && self.section_of(*other) == section && self.is_away(panel, *other);
            if let Some(other) = (0..self.section_of_shuttle.len()).map(|index| Shuttle(index as u16)).find(is_absent) {
                self.section_of_shuttle[usize::from(other.0)] = own;
            }
        }
        task
    }

    /// Whether a shuttle waits to place a platter until another one takes one away.
    fn is_jammed(&self, panel: &Panel, section: usize) -> bool {
        self.sections[section].drives.iter().any(|drive| panel.is_jammed(*drive))
    }

    /// Whether a shuttle of a section will be able to take a platter from its drives.
    fn has_empty_handed(&self, panel: &Panel, section: usize) -> bool {
        let mut shuttles = (0..panel.layout().shuttles).map(Shuttle).filter(|shuttle| self.section_of(*shuttle) == section);
        shuttles.any(|shuttle| {
            let is_full = matches!(panel.job(shuttle), Job::Carry(Carry { to: Berth::Bay(..), .. }) if panel.carried(shuttle).is_some());
            panel.is_working(shuttle) && !self.is_away(panel, shuttle) && !is_full
        })
    }

    fn has_work_for_another(&self, panel: &Panel, section: usize) -> bool {
        let waits = self.waiting[section] > 0;
        waits && (self.has_usable_drive(panel, section) || self.to_bring_abroad(panel, section).is_some())
            || self.has_released(panel, section)
    }

    /// Lists the sections with work and no shuttle, and for each the nearest shuttle without work,
    /// nearest first.
    fn list_unattended(&mut self, panel: &Panel) {
        let mut unattended = std::mem::take(&mut self.unattended);
        unattended.clear();
        for section in 0..self.sections.len() {
            let needs_one = self.workers[section] == 0 || self.is_jammed(panel, section) && !self.has_empty_handed(panel, section);
            if !needs_one || !self.has_work_for_another(panel, section) {
                continue;
            }
            let place = self.first(panel, section).map_or(self.sections[section].door, |first| panel.platter_position(first));
            let shuttles = self.free.iter().chain(&self.standing_by);
            let nearest = shuttles.map(|shuttle| (panel.pace().travel(panel.position(*shuttle), place), *shuttle)).min();
            unattended.extend(nearest.map(|(way, shuttle)| (way, section, shuttle)));
        }
        unattended.sort_unstable();
        self.unattended = unattended;
    }
}

/// The empty trip to the next platter that [`Balanced::urgency`] assumes.
const SEARCH_UM: i64 = 250_000;

impl Policy for Balanced {
    fn assign(&mut self, panel: &Panel) -> Option<(Shuttle, Task)> {
        panel.idle_shuttles().next()?;
        self.count_waiting(panel);
        self.suspension.update(panel, &self.sections, &self.waiting, &self.workers_wanted, &self.techniques);
        if panel.queue().platters() == 0 && !(0..self.sections.len()).any(|section| self.has_released(panel, section)) {
            return None;
        }
        self.count_workers(panel);
        self.find_long_reads(panel);
        self.free.clear();
        self.standing_by.clear();
        for shuttle in panel.idle_shuttles() {
            match self.next(panel, shuttle) {
                Next::Do(task) => return Some((shuttle, task)),
                Next::Wait => {}
                Next::Free => self.free.push(shuttle),
                Next::StandBy => self.standing_by.push(shuttle),
            }
        }
        self.list_unattended(panel);
        // There may be no drive with room for the platters of the nearest.
        for index in 0..self.unattended.len() {
            let (_, section, shuttle) = self.unattended[index];
            if let Some(task) = self.work_in(panel, shuttle, section) {
                return Some((shuttle, task));
            }
        }
        let free = std::mem::take(&mut self.free);
        let helps = |shuttle: &Shuttle| Some((*shuttle, self.help(panel, self.section_of(*shuttle))?));
        let assists = |shuttle: &Shuttle| Some((*shuttle, self.assist(panel, self.section_of(*shuttle), panel.position(*shuttle), None)?));
        let task = free.iter().find_map(assists).or_else(|| free.iter().find_map(helps));
        self.free = free;
        task
    }

    fn may_act_on(&self, panel: &Panel, progress: Progress) -> bool {
        match progress {
            Progress::OfDrive { drive, work_before } => self.crosses_limit(panel, drive, work_before),
            Progress::OfQueue { platter } => self.is_drive_taken(panel, platter),
            Progress::OfShuttle { .. } => false,
        }
    }

    fn customers_only(&self) -> &[bool] {
        self.suspension.customers_only()
    }

    fn stands_by(&self, shuttle: Shuttle) -> bool {
        self.is_member.get(usize::from(shuttle.0)).is_some_and(|is_member| !is_member)
    }

    fn deadline(&self, panel: &Panel) -> Option<Micros> {
        // Only an idle shuttle could bring verification back. While there is one, every change of
        // a line leads to `assign`, which updates the suspension.
        panel.idle_shuttles().next()?;
        self.suspension.deadline(&self.techniques)
    }

    fn reads_by_track(&self) -> bool {
        self.techniques.reads_by_track
    }
}
