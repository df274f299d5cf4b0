//! Which platter a shuttle fetches, to which drive, and which it takes home.

use fulgurite_domain::Micros;

use super::verification::has_verification;
use super::{Balanced, WAIT_FOR_DRIVE};
use crate::policy::customer_work;
use crate::section::Section;
use crate::{Drive, Panel, Platter, Position, Task};

/// Weight of the extra carry time to a drive other than the platter's own: a crab takes as much
/// energy as 15 m of rail, and shuttles on one half of a shelf hinder each other.
const EXTRA_CARRY_WEIGHT: u64 = 30;
/// Two shuttles on one half of a shelf hinder each other by about as much.
const CROWDED: Micros = Micros(15_000_000);
/// A second shuttle brings platters to a drive that has less work than this, about what a shuttle
/// takes to bring one.
const SECOND_SHUTTLE_BELOW: Micros = Micros(15_000_000);
/// The window is at most this part of the platters waiting in a section: one in two.
const WINDOW_PART: u32 = 2;
/// Platters of a section are brought to drives of another one only if their own section takes half
/// as long again, and this much longer still. With less, each section whose drive reads for half a
/// minute brings platters to the others, whose drives are then taken too: all shuttles cross the
/// panel, and most of their time is lost (decision 0022 has the figures).
const ELSEWHERE_ABOVE: Micros = Micros(300_000_000);
/// Platters of the opposite section among which a shuttle chooses that helps there.
const ASSIST_WINDOW: usize = 16;
/// A shuttle that helps keeps this far from others.
const ASSIST_DISTANCE_UM: i64 = 1_000_000;

impl Balanced {
    /// Takes home a platter that a drive at the shuttle's own position has released.
    pub(super) fn collect_here(&self, panel: &Panel, at: Position) -> Option<Task> {
        let mut here = self.drives_of_shelf[usize::from(at.shelf)].iter().filter(|drive| panel.door(**drive) == at);
        here.find_map(|drive| {
            Some(Task::Collect { drive: *drive, bay: panel.released_bay(*drive).filter(|_| panel.is_reachable(*drive))? })
        })
    }

    /// Takes home the nearest platter that a drive of the section has released.
    pub(super) fn collect(&self, panel: &Panel, section: usize, at: Position) -> Option<Task> {
        let released = self.sections[section].drives.iter().filter_map(|drive| {
            let bay = panel.released_bay(*drive).filter(|_| panel.is_reachable(*drive))?;
            Some((panel.pace().travel(at, panel.door(*drive)), *drive, bay))
        });
        released.min().map(|(_, drive, bay)| Task::Collect { drive, bay })
    }

    pub(super) fn has_released(&self, panel: &Panel, section: usize) -> bool {
        self.sections[section].drives.iter().any(|drive| panel.released_bay(*drive).is_some() && panel.is_reachable(*drive))
    }

    /// Whether a drive can receive a platter and will read it soon.
    fn is_usable(&self, panel: &Panel, drive: Drive) -> bool {
        let is_exchange = self.techniques.exchanges && !has_verification(panel, drive);
        let has_room = match panel.customers(drive) {
            0 => panel.empty_bay(drive).is_some(),
            // One platter is brought while another is read.
            1 => is_exchange && panel.empty_bay(drive).is_some(),
            // A second shuttle brings one more, if the drive would otherwise wait for it.
            2 => {
                is_exchange
                    && self.workers[self.section_of_drive[usize::from(drive.0)]] > 1
                    && panel.bay_to_fill(drive).is_some()
                    && customer_work(panel, drive) + incoming_work(panel, drive) <= SECOND_SHUTTLE_BELOW
            }
            _ => false,
        };
        has_room && panel.is_reachable(drive) && customer_work(panel, drive) <= WAIT_FOR_DRIVE
    }

    /// Whether the work of a drive has crossed a limit that matters, since it was `work_before`:
    /// [`WAIT_FOR_DRIVE`] or, where two shuttles may work, [`SECOND_SHUTTLE_BELOW`].
    pub(super) fn crosses_limit(&self, panel: &Panel, drive: Drive, work_before: Micros) -> bool {
        let (work, incoming) = (customer_work(panel, drive), incoming_work(panel, drive));
        let crosses = |limit: Micros, more: Micros| (work_before + more <= limit) != (work + more <= limit);
        let is_shared = self.workers_max[self.section_of_drive[usize::from(drive.0)]] > 1;
        crosses(WAIT_FOR_DRIVE, Micros::ZERO) || is_shared && crosses(SECOND_SHUTTLE_BELOW, incoming)
    }

    pub(super) fn has_usable_drive(&self, panel: &Panel, section: usize) -> bool {
        self.sections[section].drives.iter().any(|drive| self.is_usable(panel, *drive))
    }

    /// The platter of a section that is brought to a drive of another one next, since its own are
    /// taken for long; `None` if one of them is free again soon, or nothing waits.
    pub(super) fn to_bring_abroad(&self, panel: &Panel, section: usize) -> Option<Platter> {
        if self.is_drive_free_soon(panel, section) {
            return None;
        }
        self.urgent_long_read(panel, section).or_else(|| self.first(panel, section))
    }

    /// For how long the drives of a section are taken.
    fn taken(&self, panel: &Panel, section: usize) -> Micros {
        let drives = self.sections[section].drives.iter().filter(|drive| panel.is_reachable(**drive));
        drives.map(|drive| customer_work(panel, *drive)).min().unwrap_or(Micros::NEVER)
    }

    pub(super) fn is_drive_free_soon(&self, panel: &Panel, section: usize) -> bool {
        self.taken(panel, section) <= WAIT_FOR_DRIVE
    }

    /// Whether a platter waits in a section whose drives are taken for long.
    pub(super) fn is_drive_taken(&self, panel: &Panel, platter: Platter) -> bool {
        let section = panel.queue().lane_of(platter).map(|lane| self.section_of_lane[usize::from(lane.0)]);
        section.is_some_and(|section| !self.is_drive_free_soon(panel, section))
    }

    /// When everything that waits in a section will have been read, from now: its drives read it,
    /// or shuttles fetch it, whichever takes longer.
    fn ends(&self, panel: &Panel, section: usize) -> Micros {
        let Section { drives, lanes, .. } = &self.sections[section];
        let reachable = drives.iter().filter(|drive| panel.is_reachable(**drive));
        let (count, work) = reachable.fold((0, 0), |(count, work), drive| (count + 1, work + customer_work(panel, *drive).0));
        let tracks: u64 = lanes.iter().map(|lane| panel.queue().tracks_in(*lane)).sum();
        let reading = work + u64::from(self.waiting[section]) * panel.pace().visit.0 + tracks * panel.pace().track.0;
        let reading = reading.checked_div(count).map_or(Micros::NEVER, Micros);
        reading.max(self.fetching(section, self.workers_max[section]))
    }

    /// Whether platters of a section that ends at `ends` should be read in another one.
    fn ends_sooner(&self, panel: &Panel, other: usize, ends: Micros) -> bool {
        let there = self.ends(panel, other);
        there + Micros(there.0 / 2) + ELSEWHERE_ABOVE < ends
    }

    /// Fetches a platter of a section to one of its drives.
    pub(super) fn fetch(&mut self, panel: &Panel, section: usize, at: Position) -> Option<Task> {
        if !self.has_usable_drive(panel, section) {
            return None;
        }
        let mut candidates = std::mem::take(&mut self.candidates);
        candidates.clear();
        match self.urgent_long_read(panel, section) {
            Some(platter) => candidates.push(platter),
            None => self.add_first(panel, section, &mut candidates),
        }
        let best = self.best(panel, at, &candidates, section);
        self.candidates = candidates;
        best
    }

    /// A platter that takes longer to read than the section takes to fetch all others.
    fn urgent_long_read(&self, panel: &Panel, section: usize) -> Option<Platter> {
        let (takes, platter) = self.long_reads[section]?;
        (takes >= self.urgency(panel, section, self.workers[section])).then_some(platter)
    }

    /// Adds the most urgent platters of a section.
    fn add_first(&self, panel: &Panel, section: usize, candidates: &mut Vec<Platter>) {
        // Short queues are served strictly in order; otherwise the first would pay for what the
        // others gain.
        let window = (self.waiting[section] / WINDOW_PART).clamp(1, self.techniques.window.max(1)) as usize;
        let lanes = &self.sections[section].lanes;
        candidates.extend(lanes.iter().flat_map(|lane| panel.queue().line(*lane).take(window)));
        if lanes.len() > 1 {
            candidates.sort_unstable_by_key(|platter| (panel.queue().rank(*platter), *platter));
            candidates.truncate(window);
        }
    }

    /// The platter and drive of a section with the lowest cost: the travel to the platter, the wait
    /// for the drive and the extra carry, less a credit for age.
    fn best(&self, panel: &Panel, at: Position, platters: &[Platter], section: usize) -> Option<Task> {
        let (pace, now) = (panel.pace(), panel.now());
        let in_use = self.lanes_in_use(panel, section);
        let mut best: Option<(i64, Platter, Drive)> = None;
        for drive in self.sections[section].drives.iter().copied().filter(|drive| self.is_usable(panel, *drive)) {
            let (door, busy) = (panel.door(drive), customer_work(panel, drive));
            for platter in platters {
                // Travel times are slow to compute, and the most urgent platters, which come first,
                // are nearly the best.
                let is_worse = |least: i64| best.is_some_and(|(cost, ..)| least > cost);
                let age = panel.queue().age(*platter, now);
                let credit = (age.seconds() * self.techniques.age_counts * 1e6) as i64;
                if is_worse(-credit) {
                    continue;
                }
                let place = panel.platter_position(*platter);
                let to_platter = pace.travel(at, place);
                if is_worse(to_platter.0 as i64 - credit) {
                    continue;
                }
                // Every fetch of this platter pays for the ways to the drive and home. The
                // comparison counts only the extra cost, less a credit for age.
                let ways = self.sections[section].drives.iter().map(|drive| pace.travel(place, panel.door(*drive)).0);
                let least = ways.min().unwrap_or(0);
                let crowded = if in_use.contains(&panel.lane_at(place)) { CROWDED.0 } else { 0 };
                let carry = pace.travel(place, door);
                let arrives = to_platter + pace.pick + carry + pace.place;
                let waits = busy.since(arrives);
                let cost = (to_platter.0 + waits.0 + crowded + EXTRA_CARRY_WEIGHT * carry.0.saturating_sub(least)) as i64 - credit;
                let option = (cost, *platter, drive);
                best = best.map_or(Some(option), |best| Some(best.min(option)));
            }
        }
        best.map(|(_, platter, drive)| Task::Fetch { platter, drive })
    }

    /// The lanes of a section that its busy shuttles come from or go to.
    fn lanes_in_use(&self, panel: &Panel, section: usize) -> Vec<crate::Lane> {
        if self.workers[section] < 2 {
            return Vec::new();
        }
        let shuttles = (0..panel.layout().shuttles).map(crate::Shuttle).filter(|shuttle| self.section_of(*shuttle) == section);
        let carries = shuttles.filter_map(|shuttle| match panel.job(shuttle) {
            crate::Job::Carry(carry) => Some([carry.from, carry.to]),
            _ => None,
        });
        let slots = carries.flatten().filter(|berth| matches!(berth, crate::Berth::Slot(_)));
        slots.map(|berth| panel.lane_at(panel.layout().berth_position(berth))).collect()
    }

    /// Fetches the first platter of a section whose own drives are taken for long, to the drive
    /// that it reaches soonest of those in sections that end much sooner.
    pub(super) fn fetch_abroad(&self, panel: &Panel, section: usize, at: Position) -> Option<Task> {
        let platter = self.to_bring_abroad(panel, section)?;
        let place = panel.platter_position(platter);
        let picked = panel.pace().travel(at, place) + panel.pace().pick;
        let ends = self.ends(panel, section);
        let gains = |drive: &Drive| self.ends_sooner(panel, self.section_of_drive[usize::from(drive.0)], ends);
        let drives = panel.drives().filter(|drive| self.is_usable(panel, *drive) && gains(drive)).map(|drive| {
            let arrives = picked + panel.pace().travel(place, panel.door(drive));
            (arrives.max(customer_work(panel, drive)), self.waiting[self.section_of_drive[usize::from(drive.0)]], drive)
        });
        drives.min().map(|(.., drive)| Task::Fetch { platter, drive })
    }

    /// Fetches the first platter of the section that ends last to a drive of the shuttle's own
    /// section, which has nothing to do, if it ends much sooner.
    pub(super) fn help(&self, panel: &Panel, own: usize) -> Option<Task> {
        let drive = *self.sections[own].drives.iter().find(|drive| self.is_usable(panel, **drive))?;
        let ends = (0..self.sections.len()).filter(|other| self.waiting[*other] > 1).map(|other| (self.ends(panel, other), other));
        let (_, other) = ends.max().filter(|(ends, _)| self.ends_sooner(panel, own, *ends))?;
        self.first(panel, other).map(|platter| Task::Fetch { platter, drive })
    }

    /// Fetches a platter from the other end of the shelf to a drive of the shuttle's own section,
    /// if that section is more urgent than its own, or its own has nothing to do.
    pub(super) fn assist(&self, panel: &Panel, own: usize, at: Position, urgency: Option<Micros>) -> Option<Task> {
        let above = self.techniques.assists_above;
        let other = self.opposite[own].filter(|_| above != Micros::NEVER)?;
        if self.waiting[other] < 2 || !self.has_usable_drive(panel, own) {
            return None;
        }
        let least = urgency.map_or(above, |urgency| urgency + above + self.hysteresis(panel, own, urgency));
        if self.urgency(panel, other, self.workers[other]) <= least {
            return None;
        }
        let door = self.sections[own].door;
        let lines = self.sections[other].lanes.iter().flat_map(|lane| panel.queue().line(*lane).take(ASSIST_WINDOW));
        let is_near = |one: Position, two: Position| one.shelf == two.shelf && (one.x_um - two.x_um).abs() < ASSIST_DISTANCE_UM;
        let shuttles = (0..panel.layout().shuttles).map(crate::Shuttle);
        let is_apart =
            |place: Position| shuttles.clone().all(|shuttle| panel.position(shuttle) == at || !is_near(panel.position(shuttle), place));
        let costs = lines.map(|platter| {
            let place = panel.platter_position(platter);
            (panel.pace().travel(at, place) + panel.pace().travel(place, door), platter, place)
        });
        let (_, platter, _) = costs.filter(|(.., place)| is_apart(*place)).min_by_key(|(cost, platter, _)| (*cost, *platter))?;
        let drive = *self.sections[own].drives.iter().find(|drive| self.is_usable(panel, **drive))?;
        Some(Task::Fetch { platter, drive })
    }
}

/// Rough estimate of the drive time for the platters on their way to a drive.
fn incoming_work(panel: &Panel, drive: Drive) -> Micros {
    let incoming = panel.bays(drive).iter().filter_map(|bay| bay.incoming);
    Micros(incoming.map(|platter| panel.pace().visit.0 + u64::from(panel.queue().tracks_for(platter)) * panel.pace().track.0).sum())
}

#[cfg(test)]
mod tests {
    use crate::{
        Balanced, Bay, Berth, Drive, Held, Inventory, Layout, Pace, Panel, Platter, Policy, Progress, Purpose, ReadRequest, RequestId,
        Slot, Stage, Task, Techniques, Tracks, Whereabouts,
    };
    use fulgurite_domain::Micros;

    #[test]
    fn the_work_of_a_drive_matters_when_it_crosses_a_limit() {
        let (layout, pace) = (Layout::default(), Pace::default());
        let policy = Balanced::new(&layout, &pace, Techniques::default());
        let inventory = Inventory { homes: vec![Slot(0)], tracks: 10_000, ..Inventory::default() };
        let mut panel = Panel::new(layout, pace, &inventory);
        let (drive, platter) = (Drive(0), Platter(0));
        panel.platters[0].whereabouts = Whereabouts::Berth(Berth::Bay(drive, Bay(0)));
        let held = Held { platter, purpose: Purpose::Customer, stage: Stage::Mounted, collector: None };
        panel.drives[0].bays[0].held = Some(held);
        let matters = |panel: &Panel, before_s: u64| {
            let work_before = Micros(before_s * 1_000_000);
            policy.may_act_on(panel, Progress::OfDrive { drive, work_before })
        };
        // Little is left: the next platter may be brought, unless that was so before.
        assert_eq!([10, 29, 31, 600].map(|before_s| matters(&panel, before_s)), [false, false, true, true]);
        // Reading takes minutes now: the other platters of the section go elsewhere.
        let tracks = Tracks { first: 0, count: 5_000 };
        panel.queue.push(Micros::ZERO, &ReadRequest { id: RequestId(0), platter, tracks, deadline: Micros::NEVER });
        assert_eq!([10, 29, 31, 600].map(|before_s| matters(&panel, before_s)), [true, true, false, false]);
        assert!(!policy.may_act_on(&panel, Progress::OfQueue { platter }));
    }

    #[test]
    fn the_long_read_of_each_section_is_found_as_by_looking_through_all() {
        let (layout, pace) = (Layout::default(), Pace::default());
        let mut policy = Balanced::new(&layout, &pace, Techniques::default());
        let inventory = Inventory { homes: (0..layout.slot_count()).map(Slot).collect(), tracks: 1_000_000, ..Inventory::default() };
        let mut panel = Panel::new(layout, pace, &inventory);
        // Some are long; some of these are due soon, and wait for hours, or for nothing yet.
        for number in 0..600_u32 {
            let platter = Platter(number * 37 % panel.layout().slot_count());
            let deadline = if number % 3 == 0 { Micros(u64::from(number) * 40_000_000) } else { Micros::NEVER };
            let tracks = Tracks { first: 0, count: 1 + number % 7 * 900 };
            panel.queue.push(Micros(u64::from(number) * 10_000_000), &ReadRequest { id: RequestId(0), platter, tracks, deadline });
            panel.queue.enqueue_platter(platter, panel.lane_of(Berth::Slot(Slot(platter.0))));
            panel.now = Micros(u64::from(number) * 10_000_000);
            if number % 50 != 49 {
                continue;
            }
            policy.find_long_reads(&panel);
            let queue = panel.queue();
            for (section, found) in policy.long_reads.iter().enumerate() {
                let lanes = &policy.sections[section].lanes;
                let long = queue.long_reads().iter().filter(|platter| queue.lane_of(**platter).is_some_and(|lane| lanes.contains(&lane)));
                let takes =
                    |platter: Platter| queue.age(platter, panel.now()) + Micros(u64::from(queue.tracks_for(platter)) * pace.track.0);
                assert_eq!(*found, long.map(|platter| (takes(*platter), *platter)).max(), "section {section}, {number} requests");
            }
        }
        assert!(policy.long_reads.iter().all(Option::is_some));
    }

    #[test]
    fn platters_go_to_other_drives_only_if_much_less_waits_there() {
        let (layout, pace) = (Layout::default(), Pace::default());
        let mut policy = Balanced::new(&layout, &pace, Techniques::default());
        let inventory = Inventory { homes: (0..layout.slot_count()).map(Slot).collect(), tracks: 1_000_000, ..Inventory::default() };
        let mut panel = Panel::new(layout, pace, &inventory);
        let tracks_for = |s: u64| (s * 1_000_000 / pace.track.0) as u32;
        let request = |platter, count| {
            let tracks = Tracks { first: 0, count };
            ReadRequest { id: RequestId(0), platter, tracks, deadline: Micros::NEVER }
        };
        let in_section = |policy: &Balanced, panel: &Panel, section: usize, skip: usize| {
            let lanes = policy.sections[section].lanes.clone();
            let is_there = |platter: &Platter| lanes.contains(&panel.lane_of(Berth::Slot(Slot(platter.0))));
            (0..panel.layout().slot_count()).map(Platter).filter(is_there).nth(skip).expect("the section has slots")
        };
        // One platter waits in each section, and the drive of the first one reads for a minute.
        let drive = policy.sections[0].drives[0];
        let reading = in_section(&policy, &panel, 0, 0);
        panel.platters[reading.0 as usize].whereabouts = Whereabouts::Berth(Berth::Bay(drive, Bay(0)));
        let held = Held { platter: reading, purpose: Purpose::Customer, stage: Stage::Mounted, collector: None };
        panel.drives[usize::from(drive.0)].bays[0].held = Some(held);
        panel.queue.push(Micros::ZERO, &request(reading, tracks_for(60)));
        for section in 0..policy.sections.len() {
            let waiting = in_section(&policy, &panel, section, 1);
            panel.queue.push(Micros::ZERO, &request(waiting, tracks_for(30)));
            panel.queue.enqueue_platter(waiting, panel.lane_of(Berth::Slot(Slot(waiting.0))));
        }
        policy.count_waiting(&panel);
        let at = policy.sections[0].door;
        assert!(policy.to_bring_abroad(&panel, 0).is_some(), "its drive is taken for more than half a minute");
        assert!(policy.fetch_abroad(&panel, 0, at).is_none(), "the others have nearly as much to do");
        assert!(policy.help(&panel, 1).is_none());
        // Ten minutes more to read.
        panel.queue.push(Micros::ZERO, &request(reading, tracks_for(600)));
        let Some(Task::Fetch { platter, drive }) = policy.fetch_abroad(&panel, 0, at) else { panic!("others are free much sooner") };
        assert_eq!(platter, in_section(&policy, &panel, 0, 1));
        assert_ne!(policy.section_of_drive[usize::from(drive.0)], 0);
        assert!(policy.help(&panel, 1).is_none(), "a section with one platter needs no help");
        let more = in_section(&policy, &panel, 0, 2);
        panel.queue.push(Micros::ZERO, &request(more, 1));
        panel.queue.enqueue_platter(more, panel.lane_of(Berth::Slot(Slot(more.0))));
        policy.count_waiting(&panel);
        let Some(Task::Fetch { platter, drive }) = policy.help(&panel, 1) else { panic!("it ends much later") };
        assert_eq!((platter, drive), (in_section(&policy, &panel, 0, 1), policy.sections[1].drives[0]));
    }
}
