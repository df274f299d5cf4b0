//! The search for plans: the paths between two positions, and when each part is free of other
//! shuttles' reservations.

use fulgurite_domain::Micros;

use super::plan::{Blocked, NoPlan, Obstacle, Path, Plan, Reservation, Reservations, SearchRegion};
use super::{CLAIM_DURATION, Motion, POSTPONEMENTS_MAX, RIDE_CLEARANCE_UM, Stance, TIME_MARGIN, Traffic, URGENT_AFTER};
use crate::{Position, Shuttle};

impl Traffic {
    /// Adds the reservations of another shuttle from now on.
    fn add_reservations(&self, motion: &Motion, reservations: &mut Vec<Reservation>) {
        let (now, never, place) = (self.now, Micros::NEVER, motion.place());
        let Some(plan) = &motion.plan else {
            reservations.push(Reservation { region: place, since: Micros::ZERO, until: never, ride: None });
            return;
        };
        let (since, until) = (plan.time(plan.part), plan.time(plan.part + 1));
        // A late part ends later, and so do all that follow. Their start times stay, so that plans
        // made behind them keep their order.
        let soonest = if plan.is_under_way { now } else { now + (until - since) };
        let late = soonest.since(until);
        if !plan.is_under_way {
            // Until it moves on, it occupies its position.
            reservations.push(Reservation { region: place, since: Micros::ZERO, until: until.max(soonest) + TIME_MARGIN, ride: None });
        }
        reservations.extend((plan.part..plan.parts).map(|part| Reservation {
            region: plan.path.part(part),
            since: if part == plan.part && plan.is_under_way { Micros::ZERO } else { plan.time(part) },
            until: plan.time(part + 1) + late + TIME_MARGIN,
            ride: plan.path.ride(part),
        }));
        reservations.push(Reservation {
            region: SearchRegion::of(plan.path.to, plan.path.to),
            since: plan.end(),
            until: never,
            ride: None,
        });
    }

    /// The shuttle that has waited longest, if that is too long, and the path that it claims at
    /// this time.
    pub(super) fn claim(&mut self) -> Option<(Shuttle, Path)> {
        if self.waiting == 0 {
            return None;
        }
        debug_assert!(self.claim.is_none_or(|known| known == self.find_claim()), "the known claim is out of date");
        let claim = self.claim.unwrap_or_else(|| self.find_claim());
        self.claim = Some(claim);
        claim
    }

    fn find_claim(&self) -> Option<(Shuttle, Path)> {
        let waits = |(index, motion): (usize, &Motion)| {
            let since = motion.waits_since.filter(|_| motion.plan.is_none() && motion.stance != Stance::Lost)?;
            Some((since, Shuttle(index as u16), motion.at, motion.goal?))
        };
        let (since, shuttle, at, goal) =
            self.motions.iter().enumerate().filter_map(waits).min_by_key(|(since, shuttle, ..)| (*since, *shuttle))?;
        let claimed = self.now.since(since).0.checked_sub(URGENT_AFTER.0)?;
        let goal = self.next_goal(at, goal);
        let turn = claimed / CLAIM_DURATION.0;
        let open = self.paths(at, goal).filter(|path| self.is_unobstructed(path)).count();
        let path = self.paths(at, goal).filter(|path| self.is_unobstructed(path)).nth((turn / 2) as usize % open.max(1))?;
        turn.is_multiple_of(2).then_some((shuttle, path))
    }

    /// The plan that reaches the goal soonest without touching the claimed path.
    pub(super) fn best_plan(&mut self, shuttle: Shuttle, goal: Position, claimed: Option<&Path>) -> Option<Plan> {
        let known = &self.blocked[usize::from(shuttle.0)];
        if known.as_ref().is_some_and(|known| known.goal == goal && known.claimed.as_ref() == claimed) {
            debug_assert!(self.search(shuttle, goal, claimed).is_err(), "what blocks shuttle {} has gone", shuttle.0);
            return None;
        }
        let found = self.search(shuttle, goal, claimed);
        let is_blocked = matches!(found, Err(NoPlan::Blocked));
        self.blocked[usize::from(shuttle.0)] = is_blocked.then_some(Blocked { goal, claimed: claimed.copied() });
        self.has_blocked |= is_blocked;
        found.ok()
    }

    fn search(&mut self, shuttle: Shuttle, goal: Position, claimed: Option<&Path>) -> Result<Plan, NoPlan> {
        // No path leads there, along whatever shelf.
        if self.is_taken(goal, shuttle) {
            return Err(NoPlan::Blocked);
        }
        let at = self.motion(shuttle).at;
        let paths = self.paths(at, goal);
        // The first path nearly always works, and few other shuttles are near it.
        let mut reservations = std::mem::take(&mut self.reservations);
        let (mut best, mut has_all_reservations): (Result<Plan, NoPlan>, bool) = (Err(NoPlan::Blocked), false);
        for (index, path) in paths.enumerate() {
            if claimed.is_some_and(|claimed| claimed.touches(&path, self.spacing_um)) {
                continue;
            }
            let fastest = Plan::new(path, self.now, &self.pace);
            if best.is_ok_and(|best| best.end() <= fastest.end()) {
                // Paths are sorted by their least duration.
                break;
            }
            if index == 0 {
                self.collect_reservations(shuttle, Some(path.bounds()), &mut reservations);
            } else if !has_all_reservations {
                // All paths lie between the two columns.
                let between = SearchRegion { bottom: 0, top: u8::MAX, ..path.bounds() };
                self.collect_reservations(shuttle, Some(between), &mut reservations);
                has_all_reservations = true;
            }
            let before = best.map_or(Micros::NEVER, |best| best.end());
            best = match (self.earliest_plan(path, before, &mut reservations), best) {
                (Ok(plan), _) | (Err(_), Ok(plan)) => Ok(plan),
                (Err(NoPlan::Blocked), Err(reason)) | (Err(reason), Err(_)) => Err(reason),
            };
        }
        self.reservations = reservations;
        best
    }

    /// Whether another shuttle rests within the spacing of a position, or will at the end of its
    /// plan.
    fn is_taken(&self, at: Position, by_others_than: Shuttle) -> bool {
        let goal = SearchRegion::of(at, at);
        self.near(goal, by_others_than).any(|(_, other)| {
            let rests_in = other.plan.map_or_else(|| other.place(), |plan| SearchRegion::of(plan.path.to, plan.path.to));
            rests_in.meets(&goal, self.spacing_um)
        })
    }

    /// Collects the reservations of all other shuttles, or of those that meet `near`.
    pub(super) fn collect_reservations(&self, shuttle: Shuttle, near: Option<SearchRegion>, reservations: &mut Reservations) {
        reservations.others.clear();
        for (_, other) in self.near(near.unwrap_or(SearchRegion::ANYWHERE), shuttle) {
            self.add_reservations(other, &mut reservations.others);
        }
    }

    /// The earliest plan along a path that avoids all reservations and ends before a given time.
    pub(super) fn earliest_plan(&self, path: Path, before: Micros, reservations: &mut Reservations) -> Result<Plan, NoPlan> {
        let mut plan = Plan::new(path, self.now, &self.pace);
        if plan.end() >= before {
            return Err(NoPlan::NotInTime);
        }
        if !self.list_obstacles(&plan, reservations) {
            return Err(NoPlan::Blocked);
        }
        let Reservations { others, parts, obstacles, .. } = reservations;
        'again: for _ in 0..POSTPONEMENTS_MAX {
            if plan.end() >= before {
                return Err(NoPlan::NotInTime);
            }
            for obstacle in obstacles.iter().filter(|obstacle| obstacle.is_met_from(plan.start)) {
                let begins = plan.start + obstacle.begins;
                let until = obstacle.part.map_or(obstacle.until, |part| self.release_time(&others[obstacle.reservation], &parts[part]));
                if begins < until {
                    if until == Micros::NEVER {
                        return Err(NoPlan::NotInTime);
                    }
                    plan.start += until.since(begins).max(Micros(1));
                    continue 'again;
                }
            }
            return Ok(plan);
        }
        Err(NoPlan::NotInTime)
    }

    /// Lists where the parts of a plan meet reservations in space. Returns false if one of those
    /// never ends and the plan, as it starts now, meets it in time as well: then no postponement
    /// helps.
    fn list_obstacles(&self, plan: &Plan, reservations: &mut Reservations) -> bool {
        let Reservations { others, near, parts, obstacles } = reservations;
        obstacles.clear();
        parts.clear();
        near.clear();
        let (path, bounds, spacing_um) = (&plan.path, plan.path.bounds(), self.spacing_um);
        let regions = path.regions();
        for (index, reservation) in others.iter().enumerate() {
            let met = &reservation.region;
            if bounds.meets(met, spacing_um) && regions.iter().any(|region| region.meets(met, spacing_um)) {
                if reservation.is_rest() {
                    return false;
                }
                near.push(index);
            }
        }
        if near.is_empty() {
            return true;
        }
        let place = SearchRegion::of(path.to, path.to);
        parts.extend((0..plan.parts).map(|part| path.part(part)));
        for index in near.iter().copied() {
            let reservation = &others[index];
            let meets = |region: &SearchRegion| region.meets(&reservation.region, self.spacing_um);
            let obstacle = |begins: Micros, ends: Micros, part: Option<usize>| {
                let (begins, ends) = (begins.since(plan.start), ends.since(plan.start));
                Obstacle { begins, ends, since: reservation.since, until: reservation.until, reservation: index, part }
            };
            let of_parts = parts.iter().enumerate().filter(|(_, region)| meets(region));
            let of_parts = of_parts.map(|(part, _)| obstacle(plan.time(part), plan.time(part + 1), Some(part)));
            if reservation.until == Micros::NEVER {
                // The end of another plan. What meets it now would do so later, too.
                let rests_in_it = meets(&place);
                if rests_in_it || of_parts.clone().any(|obstacle| obstacle.is_met_from(plan.start)) {
                    return false;
                }
                obstacles.extend(of_parts);
                continue;
            }
            obstacles.extend(of_parts);
            // The goal has to stay free from the end of the plan on, so any later time counts.
            if meets(&place) {
                obstacles.push(Obstacle { since: Micros::ZERO, ..obstacle(plan.end(), plan.end(), None) });
            }
        }
        true
    }

    /// When a reservation no longer touches a region: at its end, or when its ride has passed the
    /// region.
    fn release_time(&self, reservation: &Reservation, region: &SearchRegion) -> Micros {
        let Some((from, to)) = reservation.ride else { return reservation.until };
        // The far side of the region, seen from the start of the ride.
        let beyond = if to > from { region.high_um - from } else { from - region.low_um } + self.spacing_um + RIDE_CLEARANCE_UM;
        let distance = to - from;
        if beyond >= distance.abs() {
            return reservation.until;
        }
        let saved = self.pace.ride(distance).since(self.pace.passes(distance, beyond));
        // Fine positioning follows the ride.
        Micros(reservation.until.0.saturating_sub(saved.0 + self.pace.positioning.0))
    }

    /// All paths between two positions along one shelf, fewest crabs first. Among equals, the path
    /// comes first whose column is at the end nearer to the middle of the panel: the doors are
    /// always busy.
    pub(super) fn paths(&self, from: Position, to: Position) -> impl Iterator<Item = Path> + use<> {
        let (low, high, shelves) = (from.shelf.min(to.shelf), from.shelf.max(to.shelf), self.shelves);
        let is_column = from.x_um == to.x_um;
        let from_middle = |at: Position| (2 * at.x_um - self.width_um).abs();
        let first = if from_middle(from) < from_middle(to) { to.shelf } else { from.shelf };
        let between = (0..=high - low).map(move |away| if first == low { low + away } else { high - away });
        let beyond =
            (1..shelves).flat_map(move |away| [low.checked_sub(away), high.checked_add(away).filter(|shelf| *shelf < shelves)]).flatten();
        // A column has only one path without a detour.
        between.take(if is_column { 1 } else { usize::MAX }).chain(beyond.filter(move |_| !is_column)).map(move |via| Path {
            from,
            via,
            to,
        })
    }

    /// The goal, or if lost shuttles block every path there, the place from which the rest of the
    /// way is open: a path has one ride, and leads around them only with two.
    pub(super) fn next_goal(&self, from: Position, goal: Position) -> Position {
        let is_open = |from: Position, to: Position| self.paths(from, to).any(|path| self.is_unobstructed(&path));
        if self.lost == 0 || is_open(from, goal) {
            return goal;
        }
        let lost = self.motions.iter().filter(|motion| motion.stance == Stance::Lost);
        let beside = lost.flat_map(|motion| [motion.at.x_um - self.spacing_um, motion.at.x_um + self.spacing_um]);
        let beside: Vec<i64> = beside.filter(|x_um| (0..=self.width_um).contains(x_um)).collect();
        let places = (0..self.shelves).flat_map(|shelf| beside.iter().map(move |x_um| Position { shelf, x_um: *x_um }));
        let detours = places.filter(|place| *place != from && is_open(from, *place) && is_open(*place, goal));
        detours.min_by_key(|place| (self.pace.travel(from, *place) + self.pace.travel(*place, goal), *place)).unwrap_or(goal)
    }

    /// The path that a shuttle would take if only lost shuttles were in the way.
    pub(super) fn preferred_path(&self, from: Position, to: Position) -> Path {
        let shortest = self.paths(from, to).next().expect("there is always at least one path");
        self.paths(from, to).find(|path| self.is_unobstructed(path)).unwrap_or(shortest)
    }

    /// Whether a lost shuttle keeps others from standing at a position.
    pub(crate) fn is_beside_lost(&self, at: Position) -> bool {
        let mut lost = self.motions.iter().filter(|motion| motion.stance == Stance::Lost);
        self.lost > 0 && lost.any(|motion| motion.place().meets(&SearchRegion::of(at, at), self.spacing_um))
    }

    pub(super) fn is_unobstructed(&self, path: &Path) -> bool {
        let mut lost = self.motions.iter().filter(|motion| motion.stance == Stance::Lost);
        self.lost == 0 || lost.all(|motion| !path.meets(&motion.place(), self.spacing_um))
    }
}
