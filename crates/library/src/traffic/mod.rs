//! Traffic control: which shuttle may move where, and when. A shuttle plans its path around the
//! plans of all others: up or down, along one shelf, up or down. A plan gives the start and end of
//! each part, and ends at a position that stays free. So plans never overlap in space and time.
//!
//! ```text
//! shelf 4        |   |  B                       B rests: no shuttle plans through it
//! shelf 3   A ===|===|=======> x                A holds this stretch from 10 s to 16 s
//! shelf 2        C            |                 C may cross it before or after that
//! shelf 1                     v goal            A holds this column from 16 s to 22 s, then the goal
//! ```
//!
//! Motions take longer or shorter than planned, so times only decide the *order*: a shuttle starts
//! the next part of its plan when every earlier part that touches it has ended. Later parts always
//! wait for earlier ones, so no cycle of waiting can form and every shuttle with a plan arrives.
//! (The idea is that of action dependency graphs: Hönig et al., "Persistent and robust execution of
//! multi-agent schedules in warehouses", RA-L 4 (2), 2019.)
//!
//! The remaining problem is shuttles that rest in each other's way. An idle shuttle makes room; of
//! two waiting shuttles, the lower number does. When all are busy, a long path is always blocked by
//! some resting shuttle. So a shuttle that has waited for half a minute claims a path: for a minute
//! no other shuttle plans through it, and shuttles resting in it leave first. ("Conflicts at
//! borders are settled locally, the higher shuttle number goes first": SOSP '23, section 4. The
//! paper doesn't say how.)

mod plan;
mod search;

use fulgurite_domain::Micros;

use self::plan::{Blocked, Path, Plan, Reservations, SearchRegion};
use crate::{Layout, Pace, Position, Shuttle};

/// After this wait, a shuttle also asks waiting shuttles of lower number to make room.
const ASK_WAITING_AFTER: Micros = Micros(1_500_000);
/// After this wait, a shuttle asks all waiting shuttles to make room, and claims a path.
const URGENT_AFTER: Micros = Micros(30_000_000);
/// How long an urgent shuttle claims one of its paths. After a pause of the same length it claims
/// the next.
const CLAIM_DURATION: Micros = Micros(60_000_000);
/// Interval at which waiting shuttles retry if nothing happens.
const RETRY_INTERVAL: Micros = Micros(1_000_000);
/// A shuttle that makes room goes at most this many spacings to either side.
const EVASION_SPACINGS_MAX: i64 = 24;
/// How often a plan is postponed before another path is tried.
const POSTPONEMENTS_MAX: usize = 16;
/// A stretch is free this far beyond the spacing behind the expected position of its shuttle.
const RIDE_CLEARANCE_UM: i64 = 100_000;
/// Time margin between plans.
const TIME_MARGIN: Micros = Micros(100_000);

/// Whether a resting shuttle can be asked to make room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stance {
    /// It has nothing to do here.
    Free,
    /// It works here, or at its goal.
    Working,
    Lost,
}

/// Time that trips took, compared with an empty panel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Congestion {
    /// Trips that ended.
    pub trips: u64,
    /// Time they took.
    pub taken: Micros,
    /// Time they would have taken on an empty panel: as the controller estimates it, but with the
    /// time that each leg really took, which varies.
    pub unhindered: Micros,
    /// Number of times a shuttle made room for another.
    pub evasions: u64,
}

#[derive(Debug, Clone, Copy)]
struct Motion {
    /// Its position, or the start of its current leg.
    at: Position,
    is_moving: bool,
    plan: Option<Plan>,
    goal: Option<Position>,
    stance: Stance,
    /// If stuck between two shelves: the other shelf.
    other_shelf: Option<u8>,
    /// When it began to wait for a plan.
    waits_since: Option<Micros>,
    /// It made room for this shuttle and lets it plan first.
    yields_to: Option<Shuttle>,
    /// The next part of its plan waits for a part of this shuttle's plan.
    held_up_by: Option<Shuttle>,
    /// When its trip to the goal began, and the time of that trip on an empty panel.
    trip_start: Micros,
    unhindered_time: Micros,
    /// When its current leg began, and by how much longer the legs of the trip took than estimated.
    leg_start: Micros,
    legs_late_us: i64,
}

impl Motion {
    /// The region that it may enter before its plan ends.
    fn bounds(&self) -> SearchRegion {
        self.plan.map_or_else(|| self.place(), |plan| plan.path.bounds())
    }

    /// The region that a resting or stuck shuttle occupies.
    fn place(&self) -> SearchRegion {
        SearchRegion::of(self.at, Position { shelf: self.other_shelf.unwrap_or(self.at.shelf), ..self.at })
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Traffic {
    motions: Vec<Motion>,
    /// [`Motion::bounds`] of each. Kept together because every search begins with them.
    bounds: Vec<SearchRegion>,
    spacing_um: i64,
    width_um: i64,
    shelves: u8,
    pace: Pace,
    /// Number of shuttles without a plan to their goal, and of those whose plan waits for others.
    waiting: u32,
    held_up: u32,
    lost: u32,
    /// Something changed since waiting shuttles last retried.
    is_changed: bool,
    last_retry: Micros,
    /// Shuttles that have ended a part of their plan since held-up shuttles last retried.
    part_ended: Vec<Shuttle>,
    congestion: Congestion,
    now: Micros,
    /// The last search of each shuttle, if it found no plan and what was in its way is still there.
    blocked: Vec<Option<Blocked>>,
    has_blocked: bool,
    /// [`Traffic::claim`], if it was asked for at this time and no shuttle's plan or wait has
    /// changed since.
    claim: Option<Option<(Shuttle, Path)>>,
    /// Shuttles that lost their plan before it began and have no goal.
    without_plan: Vec<Shuttle>,
    /// Scratch lists of other shuttles' reservations.
    reservations: Reservations,
}

impl Traffic {
    pub(crate) fn new(layout: &Layout, pace: Pace, at: impl Iterator<Item = Position>) -> Self {
        let motion = |at| Motion {
            at,
            is_moving: false,
            plan: None,
            goal: None,
            stance: Stance::Free,
            other_shelf: None,
            waits_since: None,
            yields_to: None,
            held_up_by: None,
            trip_start: Micros::ZERO,
            unhindered_time: Micros::ZERO,
            leg_start: Micros::ZERO,
            legs_late_us: 0,
        };
        let motions: Vec<Motion> = at.map(motion).collect();
        Self {
            bounds: motions.iter().map(Motion::bounds).collect(),
            blocked: vec![None; motions.len()],
            has_blocked: false,
            claim: None,
            motions,
            spacing_um: layout.spacing_um,
            width_um: layout.width_um(),
            shelves: layout.shelves,
            pace,
            waiting: 0,
            held_up: 0,
            lost: 0,
            is_changed: false,
            last_retry: Micros::ZERO,
            part_ended: Vec::new(),
            congestion: Congestion::default(),
            now: Micros::ZERO,
            without_plan: Vec::new(),
            reservations: Reservations::default(),
        }
    }

    /// Its position, or the start of its current leg.
    pub(crate) fn at(&self, shuttle: Shuttle) -> Position {
        self.motion(shuttle).at
    }

    /// Its position, or the end of its plan.
    pub(crate) fn planned_position(&self, shuttle: Shuttle) -> Position {
        let motion = self.motion(shuttle);
        motion.plan.map_or(motion.at, |plan| plan.path.to)
    }

    pub(crate) fn is_moving(&self, shuttle: Shuttle) -> bool {
        self.motion(shuttle).plan.is_some()
    }

    pub(crate) fn goal(&self, shuttle: Shuttle) -> Option<Position> {
        self.motion(shuttle).goal
    }

    pub(crate) fn has_lost(&self) -> bool {
        self.lost > 0
    }

    /// A shuttle that won't go on with its last plan, since that was dropped. If it has a job, that
    /// goes on from where it is.
    pub(crate) fn take_without_plan(&mut self) -> Option<Shuttle> {
        self.without_plan.pop()
    }

    pub(crate) fn congestion(&self) -> Congestion {
        self.congestion
    }

    pub(crate) fn set_now(&mut self, now: Micros) {
        if std::mem::replace(&mut self.now, now) != now {
            self.claim = None;
        }
    }

    pub(crate) fn set_stance(&mut self, shuttle: Shuttle, stance: Stance) {
        let motion = self.motion_mut(shuttle);
        if std::mem::replace(&mut motion.stance, stance) != stance {
            self.is_changed = true;
        }
    }

    /// Sets a shuttle's goal. It sets off with the next [`Traffic::advance`].
    pub(crate) fn set_goal(&mut self, shuttle: Shuttle, goal: Position) {
        self.drop_goal(shuttle);
        let unhindered_time = self.pace.travel(self.planned_position(shuttle), goal);
        let now = self.now;
        let motion = self.motion_mut(shuttle);
        (motion.goal, motion.trip_start, motion.unhindered_time, motion.legs_late_us) = (Some(goal), now, unhindered_time, 0);
    }

    /// Drops the shuttle's goal. A plan it already has is still carried out.
    pub(crate) fn drop_goal(&mut self, shuttle: Shuttle) {
        self.stop_waiting(shuttle);
        self.motion_mut(shuttle).goal = None;
    }

    /// Ends a leg at its planned position and starts the next one. Returns true if the plan is
    /// complete.
    pub(crate) fn leg_ended(&mut self, shuttle: Shuttle, to: Position, legs: &mut Vec<(Shuttle, Position)>) -> bool {
        if self.held_up > 0 {
            self.part_ended.push(shuttle);
        }
        let (now, pace) = (self.now, self.pace);
        let motion = self.motion_mut(shuttle);
        // A leg that began before the trip is no part of it.
        if motion.leg_start >= motion.trip_start {
            motion.legs_late_us += now.since(motion.leg_start).0 as i64 - pace.travel(motion.at, to).0 as i64;
        }
        (motion.at, motion.is_moving) = (to, false);
        if let Some(plan) = &mut motion.plan
            && plan.part + 1 < plan.parts
        {
            plan.part += 1;
            plan.is_under_way = false;
            self.start_next_leg(shuttle, legs);
            return false;
        }
        let had_plan = motion.plan.is_some();
        self.set_plan(shuttle, None);
        let motion = *self.motion(shuttle);
        if had_plan && motion.goal == Some(to) {
            let taken = self.now.since(motion.trip_start);
            let unhindered = Micros(motion.unhindered_time.0.saturating_add_signed(motion.legs_late_us));
            self.congestion.trips += 1;
            self.congestion.taken += taken;
            // Estimates are rounded to microseconds.
            self.congestion.unhindered += unhindered.min(taken);
            self.drop_goal(shuttle);
        }
        true
    }

    /// Puts a shuttle between its shelf and this one, where it is lost.
    pub(crate) fn put_between(&mut self, shuttle: Shuttle, other_shelf: u8) {
        self.motion_mut(shuttle).other_shelf = Some(other_shelf);
        self.bounds[usize::from(shuttle.0)] = self.motion(shuttle).bounds();
    }

    /// Marks a shuttle as lost at its current position: between two shelves if it was crabbing. All
    /// others replan once their current part ends.
    pub(crate) fn mark_lost(&mut self, shuttle: Shuttle, x_um: i64) {
        self.drop_goal(shuttle);
        let motion = self.motion_mut(shuttle);
        let leg = motion.plan.filter(|_| motion.is_moving).map(|plan| plan.path.corner(plan.part + 1));
        let crabs_to = leg.map(|to| to.shelf).filter(|shelf| *shelf != motion.at.shelf);
        motion.other_shelf = crabs_to.or(motion.other_shelf);
        motion.at.x_um = x_um;
        (motion.plan, motion.is_moving, motion.stance) = (None, false, Stance::Lost);
        self.lost += 1;
        self.is_changed = true;
        let now = self.now;
        for (index, motion) in self.motions.iter_mut().enumerate() {
            motion.held_up_by = None;
            let had_plan = motion.plan.is_some();
            motion.plan = motion.plan.filter(|plan| plan.is_under_way).map(Plan::only_this_part);
            // A shuttle that lost its plan and rests waits for a new one.
            if had_plan && motion.plan.is_none() {
                if motion.goal.is_none() {
                    self.without_plan.push(Shuttle(index as u16));
                } else if motion.waits_since.is_none() {
                    motion.waits_since = Some(now);
                    self.waiting += 1;
                }
            }
        }
        self.held_up = 0;
        self.forget_searches();
        self.bounds.clear();
        self.bounds.extend(self.motions.iter().map(Motion::bounds));
    }

    /// Returns a lost shuttle to work at its position. From between two shelves it first goes back
    /// to the one it came from.
    pub(crate) fn return_to_service(&mut self, shuttle: Shuttle, legs: &mut Vec<(Shuttle, Position)>) {
        let (now, pace) = (self.now, self.pace);
        let motion = self.motion_mut(shuttle);
        motion.stance = Stance::Free;
        if let Some(shelf) = motion.other_shelf.take() {
            let to = motion.at;
            let from = Position { shelf, ..to };
            let plan = Plan::new(Path { from, via: to.shelf, to }, now, &pace);
            (motion.at, motion.is_moving, motion.leg_start) = (from, true, now);
            self.set_plan(shuttle, Some(Plan { is_under_way: true, ..plan }));
            legs.push((shuttle, to));
        }
        self.lost -= 1;
        self.forget_searches();
        self.is_changed = true;
    }

    /// The other shelf that a lost shuttle blocks.
    pub(crate) fn other_shelf(&self, shuttle: Shuttle) -> Option<u8> {
        self.motion(shuttle).other_shelf
    }

    /// Plans a path to the shuttle's goal, or asks others to make room. Legs that start are
    /// appended.
    pub(crate) fn advance(&mut self, shuttle: Shuttle, legs: &mut Vec<(Shuttle, Position)>) {
        let motion = *self.motion(shuttle);
        if motion.plan.is_some() {
            self.start_next_leg(shuttle, legs);
            return;
        }
        let Some(goal) = motion.goal.filter(|_| motion.stance != Stance::Lost) else { return };
        if goal == motion.at {
            // It made room by way of its goal, and lost the rest of that plan.
            self.drop_goal(shuttle);
            self.without_plan.push(shuttle);
            return;
        }
        let goal = self.next_goal(motion.at, goal);
        let claim = self.claim();
        let is_claimer = claim.is_some_and(|(claimer, _)| claimer == shuttle);
        let claim = claim.filter(|_| !is_claimer);
        let is_yielding = motion.yields_to.is_some() && !is_claimer;
        if !is_yielding && let Some(plan) = self.best_plan(shuttle, goal, claim.map(|(_, path)| path).as_ref()) {
            self.start_plan(shuttle, plan, legs);
            return;
        }
        if motion.waits_since.is_none() {
            self.waiting += 1;
            self.motion_mut(shuttle).waits_since = Some(self.now);
            self.claim = None;
        }
        if let Some((claimer, path)) = claim
            && path.meets(&motion.place(), self.spacing_um)
        {
            self.make_room(shuttle, claimer, &path, legs);
        } else if !is_yielding {
            let waited = motion.waits_since.map_or(Micros::ZERO, |since| self.now.since(since));
            let path = self.preferred_path(motion.at, goal);
            self.ask_for_room(shuttle, &path, waited, legs);
        }
    }

    /// Lets every waiting shuttle try again, highest number first. Shuttles without a plan retry
    /// only after a change, such as another shuttle's new plan, because nothing else can help, or
    /// when it is time to ask for room again; those that are held up, after the shuttle that holds
    /// them up has ended a part of its plan.
    pub(crate) fn retry(&mut self, legs: &mut Vec<(Shuttle, Position)>) {
        let is_retry_due = self.waiting > 0 && (self.is_changed || self.now.since(self.last_retry) >= RETRY_INTERVAL);
        if !is_retry_due && self.part_ended.is_empty() {
            return;
        }
        let mut part_ended = std::mem::take(&mut self.part_ended);
        if is_retry_due {
            (self.is_changed, self.last_retry) = (false, self.now);
        }
        for index in (0..self.motions.len()).rev() {
            let motion = &self.motions[index];
            let may_go_on = motion.held_up_by.is_some_and(|other| part_ended.contains(&other));
            if may_go_on || is_retry_due && motion.waits_since.is_some() && motion.plan.is_none() {
                self.advance(Shuttle(index as u16), legs);
            }
        }
        part_ended.clear();
        self.part_ended = part_ended;
    }

    pub(crate) fn deadline(&self) -> Option<Micros> {
        (self.waiting > 0 || self.held_up > 0).then(|| self.now + RETRY_INTERVAL)
    }

    fn motion(&self, shuttle: Shuttle) -> &Motion {
        &self.motions[usize::from(shuttle.0)]
    }

    fn motion_mut(&mut self, shuttle: Shuttle) -> &mut Motion {
        &mut self.motions[usize::from(shuttle.0)]
    }

    fn set_plan(&mut self, shuttle: Shuttle, plan: Option<Plan>) {
        let left = self.motion(shuttle).place();
        self.motion_mut(shuttle).plan = plan;
        self.bounds[usize::from(shuttle.0)] = self.motion(shuttle).bounds();
        self.blocked[usize::from(shuttle.0)] = None;
        self.claim = None;
        if plan.is_none() || !self.has_blocked {
            return;
        }
        // It was in the way of those whose paths lead past the place that it leaves.
        self.has_blocked = false;
        for (motion, blocked) in self.motions.iter().zip(&mut self.blocked) {
            if let Some(search) = blocked {
                let between = SearchRegion { bottom: 0, top: u8::MAX, ..SearchRegion::of(motion.at, search.goal) };
                let is_near = between.meets(&left, self.spacing_um);
                self.has_blocked |= !is_near;
                blocked.take_if(|_| is_near);
            }
        }
    }

    /// Lost shuttles change which paths are open, and drop the plans of others.
    fn forget_searches(&mut self) {
        self.blocked.fill(None);
        (self.has_blocked, self.claim) = (false, None);
    }

    /// The other shuttles that may come within the spacing of a region before their plans end, the
    /// lowest number first.
    fn near(&self, region: SearchRegion, shuttle: Shuttle) -> impl Iterator<Item = (usize, &Motion)> {
        debug_assert!(self.motions.iter().zip(&self.bounds).all(|(motion, bounds)| motion.bounds() == *bounds));
        let near =
            move |(index, bounds): &(usize, &SearchRegion)| bounds.meets(&region, self.spacing_um) && *index != usize::from(shuttle.0);
        self.bounds.iter().enumerate().filter(near).map(|(index, _)| (index, &self.motions[index]))
    }

    /// Starts the next leg of a plan, unless an earlier part of another plan has to end first.
    fn start_next_leg(&mut self, shuttle: Shuttle, legs: &mut Vec<(Shuttle, Position)>) {
        let Motion { plan: Some(plan), is_moving: false, .. } = *self.motion(shuttle) else { return };
        let held_up_by = if plan.is_under_way { None } else { self.first_before_next_part(shuttle, &plan) };
        let was_held_up_by = std::mem::replace(&mut self.motion_mut(shuttle).held_up_by, held_up_by);
        self.held_up = self.held_up + u32::from(held_up_by.is_some()) - u32::from(was_held_up_by.is_some());
        if held_up_by.is_some() {
            return;
        }
        let (to, now) = (plan.path.corner(plan.part + 1), self.now);
        let motion = self.motion_mut(shuttle);
        (motion.is_moving, motion.leg_start) = (true, now);
        motion.plan.as_mut().expect("checked above").is_under_way = true;
        legs.push((shuttle, to));
    }

    /// The shuttle with the lowest number that has a part ahead which touches the next part of a
    /// plan and goes before it. It is enough to remember one: until that part has ended, the plan
    /// can't go on, whatever the others do.
    fn first_before_next_part(&self, shuttle: Shuttle, plan: &Plan) -> Option<Shuttle> {
        let (next_region, since) = (plan.path.part(plan.part), plan.time(plan.part));
        let goes_before = |index: usize, other: &Motion| {
            let Some(other_plan) = &other.plan else { return false };
            (other_plan.part..other_plan.parts).any(|part| {
                let goes_first =
                    part == other_plan.part && other_plan.is_under_way || (other_plan.time(part), index) < (since, usize::from(shuttle.0));
                // Compare the whole part, even the stretch that should be free by now: a shuttle
                // that has just stopped may not have been reported yet.
                goes_first && other_plan.path.part(part).meets(&next_region, self.spacing_um)
            })
        };
        self.near(next_region, shuttle).find(|(index, other)| goes_before(*index, other)).map(|(index, _)| Shuttle(index as u16))
    }

    fn start_plan(&mut self, shuttle: Shuttle, plan: Plan, legs: &mut Vec<(Shuttle, Position)>) {
        self.stop_waiting(shuttle);
        self.is_changed = true;
        self.set_plan(shuttle, Some(plan));
        self.start_next_leg(shuttle, legs);
    }

    /// The shuttle stops waiting for a plan, and others stop yielding to it.
    fn stop_waiting(&mut self, shuttle: Shuttle) {
        self.motion_mut(shuttle).yields_to = None;
        if self.motion_mut(shuttle).waits_since.take().is_some() {
            self.waiting -= 1;
            self.claim = None;
            for index in (0..self.motions.len()).filter(|index| *index != usize::from(shuttle.0)) {
                if self.motions[index].yields_to == Some(shuttle) {
                    self.motions[index].yields_to = None;
                }
            }
        }
    }

    /// Asks shuttles that rest in a path to leave it: idle ones and those that already yield at
    /// once, after a while lower numbers that wait too, in the end all that wait.
    fn ask_for_room(&mut self, shuttle: Shuttle, path: &Path, waited: Micros, legs: &mut Vec<(Shuttle, Position)>) {
        for index in 0..self.motions.len() {
            let other = Shuttle(index as u16);
            let motion = self.motions[index];
            let place = SearchRegion::of(motion.at, motion.at);
            if motion.plan.is_some() || other == shuttle || motion.stance == Stance::Lost || !path.meets(&place, self.spacing_um) {
                continue;
            }
            let waits = motion.goal.is_some()
                && (waited >= ASK_WAITING_AFTER && other < shuttle || waited >= URGENT_AFTER || motion.yields_to.is_some());
            let is_asked = waits || motion.goal.is_none() && motion.stance == Stance::Free;
            if is_asked && !self.make_room(other, shuttle, path, legs) {
                self.make_room_around(other, shuttle, legs);
            }
        }
    }

    /// Moves a resting shuttle out of a path, to the free place that it reaches soonest, at most
    /// two shelves away. Returns false if no such place is free.
    fn make_room(&mut self, shuttle: Shuttle, other: Shuttle, path_to_clear: &Path, legs: &mut Vec<(Shuttle, Position)>) -> bool {
        let at = self.at(shuttle);
        let shelves = [Some(at.shelf), at.shelf.checked_sub(1), at.shelf.checked_add(1), at.shelf.checked_sub(2), at.shelf.checked_add(2)];
        let mut best: Option<Plan> = None;
        let mut reservations = std::mem::take(&mut self.reservations);
        self.collect_reservations(shuttle, None, &mut reservations);
        for shelf in shelves.into_iter().flatten().filter(|shelf| *shelf < self.shelves) {
            let near = (0..=EVASION_SPACINGS_MAX).flat_map(|steps| [-steps, steps]).map(|steps| at.x_um + steps * self.spacing_um);
            // With no other shelf to go to, a long path may leave room only at an end.
            let ends = [0, self.width_um].into_iter().filter(|_| self.shelves == 1);
            for x_um in near.chain(ends) {
                let to = Position { shelf, x_um };
                let soonest = self.now + self.pace.travel(at, to);
                let is_better = to != at && best.is_none_or(|best| soonest < best.end()) && (0..=self.width_um).contains(&to.x_um);
                if !is_better || path_to_clear.meets(&SearchRegion::of(to, to), self.spacing_um) {
                    continue;
                }
                // Crab first, or ride first.
                for via in [shelf, at.shelf] {
                    let before = best.map_or(Micros::NEVER, |best| best.end());
                    best = self.earliest_plan(Path { from: at, via, to }, before, &mut reservations).ok().or(best);
                }
            }
        }
        self.reservations = reservations;
        if let Some(plan) = best {
            self.congestion.evasions += 1;
            let motion = self.motion_mut(shuttle);
            motion.yields_to = motion.goal.is_some().then_some(other);
            self.set_plan(shuttle, Some(plan));
            self.is_changed = true;
            self.start_next_leg(shuttle, legs);
        }
        best.is_some()
    }

    /// Moves idle shuttles away that rest above, below or beside a shuttle which can't make room.
    fn make_room_around(&mut self, boxed: Shuttle, other: Shuttle, legs: &mut Vec<(Shuttle, Position)>) {
        let at = self.at(boxed);
        let (bottom, top) = (at.shelf.saturating_sub(1), (at.shelf + 1).min(self.shelves - 1));
        let column = Path { from: Position { shelf: bottom, ..at }, via: top, to: Position { shelf: top, ..at } };
        for index in 0..self.motions.len() {
            let (neighbour, motion) = (Shuttle(index as u16), self.motions[index]);
            let is_idle = motion.plan.is_none() && motion.goal.is_none() && motion.stance == Stance::Free;
            if is_idle && neighbour != boxed && neighbour != other && column.meets(&motion.place(), self.spacing_um) {
                self.make_room(neighbour, other, &column, legs);
            }
        }
    }
}

#[cfg(test)]
mod tests;
