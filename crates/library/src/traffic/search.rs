//! The search for plans: the paths between two positions, and when each part is free of what other
//! shuttles hold.

use fulgurite_domain::Micros;

use super::plan::{Hold, Path, Plan, SearchRegion};
use super::{ATTEMPTS, CLAIM, CLEARANCE_UM, MARGIN, Motion, Stance, Traffic, URGENCY};
use crate::{Position, Shuttle};

impl Traffic {
    /// Adds the regions that another shuttle holds from now on, and until when.
    fn add_holds(&self, motion: &Motion, holds: &mut Vec<Hold>) {
        let (now, never, place) = (self.now, Micros::NEVER, motion.place());
        let Some(plan) = &motion.plan else {
            holds.push(Hold { region: place, since: Micros::ZERO, until: never, ride: None });
            return;
        };
        let (since, until) = (plan.time(plan.part), plan.time(plan.part + 1));
        // A late part ends later, and so do all that follow. Their start times stay, so that plans
        // made behind them keep their order.
        let soonest = if plan.is_under_way { now } else { now + (until - since) };
        let late = soonest.since(until);
        if !plan.is_under_way {
            // Until it moves on, it occupies its position.
            holds.push(Hold { region: place, since: Micros::ZERO, until: until.max(soonest) + MARGIN, ride: None });
        }
        holds.extend((plan.part..plan.parts).map(|part| Hold {
            region: plan.path.part(part),
            since: if part == plan.part && plan.is_under_way { Micros::ZERO } else { plan.time(part) },
            until: plan.time(part + 1) + late + MARGIN,
            ride: plan.path.ride(part),
        }));
        holds.push(Hold { region: SearchRegion::of(plan.path.to, plan.path.to), since: plan.end(), until: never, ride: None });
    }

    /// The shuttle that has waited longest, if that is too long, and the path that it claims at
    /// this time.
    pub(super) fn claim(&self) -> Option<(Shuttle, Path)> {
        if self.waiting == 0 {
            return None;
        }
        let waits = |(index, motion): (usize, &Motion)| {
            let since = motion.waits_since.filter(|_| motion.plan.is_none() && motion.stance != Stance::Lost)?;
            Some((since, Shuttle(index as u16), motion.at, motion.goal?))
        };
        let (since, shuttle, at, goal) =
            self.motions.iter().enumerate().filter_map(waits).min_by_key(|(since, shuttle, ..)| (*since, *shuttle))?;
        let claimed = self.now.since(since).0.checked_sub(URGENCY.0)?;
        let turn = claimed / CLAIM.0;
        let open = self.paths(at, goal).filter(|path| self.is_open(path)).count();
        let path = self.paths(at, goal).filter(|path| self.is_open(path)).nth((turn / 2) as usize % open.max(1))?;
        turn.is_multiple_of(2).then_some((shuttle, path))
    }

    /// The plan that reaches the goal soonest without touching the claimed path.
    pub(super) fn best_plan(&mut self, shuttle: Shuttle, goal: Position, claimed: Option<&Path>) -> Option<Plan> {
        let at = self.motion(shuttle).at;
        let paths = self.paths(at, goal);
        // The first path nearly always works, and few other shuttles are near it.
        let mut holds = std::mem::take(&mut self.holds);
        let (mut best, mut has_all): (Option<Plan>, bool) = (None, false);
        for (index, path) in paths.enumerate() {
            if claimed.is_some_and(|claimed| claimed.touches(&path, self.spacing_um)) {
                continue;
            }
            let fastest = Plan::new(path, self.now, &self.pace);
            if best.is_some_and(|best| best.end() <= fastest.end()) {
                // Paths are sorted by their least duration.
                break;
            }
            if index == 0 {
                self.find_holds(shuttle, Some(path.bounds()), &mut holds);
            } else if !has_all {
                self.find_holds(shuttle, None, &mut holds);
                has_all = true;
            }
            if let Some(plan) = self.fit(path, &holds)
                && best.is_none_or(|best| plan.end() < best.end())
            {
                best = Some(plan);
            }
        }
        self.holds = holds;
        best
    }

    /// Collects the holds of all other shuttles, or of those that meet `near`.
    pub(super) fn find_holds(&self, shuttle: Shuttle, near: Option<SearchRegion>, holds: &mut Vec<Hold>) {
        holds.clear();
        for (_, other) in self.motions.iter().enumerate().filter(|(index, _)| *index != usize::from(shuttle.0)) {
            let bounds = || other.plan.map_or(other.place(), |plan| plan.path.bounds());
            if near.is_none_or(|near| near.meets(&bounds(), self.spacing_um)) {
                self.add_holds(other, holds);
            }
        }
    }

    /// The earliest plan along a path that avoids all holds; `None` if another shuttle rests in the
    /// path indefinitely.
    pub(super) fn fit(&self, path: Path, holds: &[Hold]) -> Option<Plan> {
        let mut plan = Plan::new(path, self.now, &self.pace);
        'again: for _ in 0..ATTEMPTS {
            for hold in holds {
                let Some(part) = self.conflict(&plan, hold) else { continue };
                if hold.until == Micros::NEVER {
                    return None;
                }
                let until = if part < plan.parts { self.leaves(hold, &plan.path.part(part)) } else { hold.until };
                plan.start += until.since(plan.time(part)).max(Micros(1));
                continue 'again;
            }
            return Some(plan);
        }
        None
    }

    /// When a hold no longer touches a region: at its end, or when its ride has passed the region.
    fn leaves(&self, hold: &Hold, region: &SearchRegion) -> Micros {
        let Some((from, to)) = hold.ride else { return hold.until };
        // The far side of the region, seen from the start of the ride.
        let beyond = if to > from { region.high_um - from } else { from - region.low_um } + self.spacing_um + CLEARANCE_UM;
        let distance = to - from;
        if beyond >= distance.abs() {
            return hold.until;
        }
        let saved = self.pace.ride(distance).since(self.pace.passes(distance, beyond));
        // Fine positioning follows the ride.
        Micros(hold.until.0.saturating_sub(saved.0 + self.pace.positioning.0))
    }

    /// The first part of a plan that conflicts with a hold; `plan.parts` if only its resting place
    /// does.
    fn conflict(&self, plan: &Plan, hold: &Hold) -> Option<usize> {
        if plan.start >= hold.until || !plan.path.meets(&hold.region, self.spacing_um) {
            return None;
        }
        let touches = |part: &usize| {
            let overlaps = plan.time(*part) < hold.until && hold.since < plan.time(part + 1) + MARGIN;
            overlaps
                && plan.path.part(*part).meets(&hold.region, self.spacing_um)
                && plan.time(*part) < self.leaves(hold, &plan.path.part(*part))
        };
        // The goal has to stay free from then on.
        let ends_in_it = || plan.end() < hold.until && SearchRegion::of(plan.path.to, plan.path.to).meets(&hold.region, self.spacing_um);
        (0..plan.parts).find(touches).or_else(|| ends_in_it().then_some(plan.parts))
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

    /// The path that a shuttle would take if only lost shuttles were in the way.
    pub(super) fn wanted(&self, from: Position, to: Position) -> Path {
        let shortest = self.paths(from, to).next().expect("there is always at least one path");
        self.paths(from, to).find(|path| self.is_open(path)).unwrap_or(shortest)
    }

    pub(super) fn is_open(&self, path: &Path) -> bool {
        let mut lost = self.motions.iter().filter(|motion| motion.stance == Stance::Lost);
        self.lost == 0 || lost.all(|motion| !path.meets(&motion.place(), self.spacing_um))
    }
}
