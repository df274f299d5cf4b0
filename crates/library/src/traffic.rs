//! Who may move where. Before a shuttle sets off, everything it will sweep is its own until it has arrived: a stretch of a shelf, or one
//! place on two neighbouring shelves. A shuttle that rests keeps its place. So no two can meet, however long their motions take.
//!
//! ```text
//! shelf 4        |   |  B                       B stands
//! shelf 3   A ===|===|=======> x                A has a stretch of shelf 3
//! shelf 2        C                              C may not crab up while A has it
//! ```
//!
//! Conflicts are settled where they arise. A shuttle whose way is taken waits; one that has nothing to do, or waits itself, is pushed aside;
//! of two that are in each other's way the lower number gives way, over the shelf above or below. (The paper's rule, SOSP '23 section 4:
//! "conflicts at borders are settled locally, the higher shuttle number goes first". How to give way is ours.)

use fulgurite_domain::Micros;

use crate::{Layout, Pace, Position, Shuttle};

/// Whether a shuttle that stands can be asked to make room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stance {
    /// It has nothing to do here.
    Free,
    /// It works here, and will go on.
    Working,
    /// It is out of order.
    Lost,
}

#[derive(Debug, Clone, Copy)]
struct Motion {
    at: Position,
    leg: Option<Position>,
    goal: Option<Position>,
    /// The shelf on which it goes along, instead of the one that it starts or ends on.
    via: Option<u8>,
    blocked_by: Option<Shuttle>,
    stance: Stance,
    /// It is stuck between its shelf and this one.
    between: Option<u8>,
    set_off: Micros,
    nominal: Micros,
}

/// Time that trips took, beside the time they would have taken on an empty panel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Congestion {
    /// Trips that ended.
    pub trips: u64,
    /// What they took.
    pub taken: Micros,
    /// What they would have taken, as the controller estimates it.
    pub unhindered: Micros,
    /// How often a shuttle gave way by leaving its path.
    pub evasions: u64,
}

/// Where all shuttles are and what they have reserved.
#[derive(Debug, Clone)]
pub(crate) struct Traffic {
    motions: Vec<Motion>,
    spacing_um: i64,
    width_um: i64,
    shelves: u8,
    pace: Pace,
    blocked: u32,
    congestion: Congestion,
}

/// A stretch of a shelf, or a place on two.
#[derive(Debug, Clone, Copy)]
struct Region {
    low_um: i64,
    high_um: i64,
    shelves: (u8, u8),
}

impl Region {
    fn of(from: Position, to: Position) -> Self {
        Self {
            low_um: from.x_um.min(to.x_um),
            high_um: from.x_um.max(to.x_um),
            shelves: (from.shelf.min(to.shelf), from.shelf.max(to.shelf)),
        }
    }

    fn meets(&self, other: &Self, spacing_um: i64) -> bool {
        self.shelves.0 <= other.shelves.1
            && other.shelves.0 <= self.shelves.1
            && self.low_um - other.high_um < spacing_um
            && other.low_um - self.high_um < spacing_um
    }
}

impl Traffic {
    pub(crate) fn new(layout: &Layout, pace: Pace, at: impl Iterator<Item = Position>) -> Self {
        let motion = |at| Motion {
            at,
            leg: None,
            goal: None,
            via: None,
            blocked_by: None,
            stance: Stance::Free,
            between: None,
            set_off: Micros::ZERO,
            nominal: Micros::ZERO,
        };
        Self {
            motions: at.map(motion).collect(),
            spacing_um: layout.spacing_um,
            width_um: layout.width_um(),
            shelves: layout.shelves,
            pace,
            blocked: 0,
            congestion: Congestion::default(),
        }
    }

    pub(crate) fn at(&self, shuttle: Shuttle) -> Position {
        self.motions[usize::from(shuttle.0)].at
    }

    /// Where it is going to be next: the end of what it is on, or where it stands.
    pub(crate) fn next_at(&self, shuttle: Shuttle) -> Position {
        let motion = &self.motions[usize::from(shuttle.0)];
        motion.leg.unwrap_or(motion.at)
    }

    pub(crate) fn is_moving(&self, shuttle: Shuttle) -> bool {
        self.motions[usize::from(shuttle.0)].leg.is_some()
    }

    pub(crate) fn goal(&self, shuttle: Shuttle) -> Option<Position> {
        self.motions[usize::from(shuttle.0)].goal
    }

    pub(crate) fn congestion(&self) -> Congestion {
        self.congestion
    }

    pub(crate) fn set_stance(&mut self, shuttle: Shuttle, stance: Stance) {
        self.motions[usize::from(shuttle.0)].stance = stance;
    }

    /// The shuttle wants to be at `goal`. It sets off with the next [`Traffic::advance`].
    pub(crate) fn set_goal(&mut self, shuttle: Shuttle, goal: Position, now: Micros) {
        let from = self.next_at(shuttle);
        let nominal = self.pace.travel(from, goal);
        self.unblock(shuttle);
        let motion = &mut self.motions[usize::from(shuttle.0)];
        (motion.goal, motion.via, motion.set_off, motion.nominal) = (Some(goal), None, now, nominal);
    }

    /// The shuttle gives its goal up. What it is on it ends.
    pub(crate) fn drop_goal(&mut self, shuttle: Shuttle) {
        self.unblock(shuttle);
        let motion = &mut self.motions[usize::from(shuttle.0)];
        (motion.goal, motion.via) = (None, None);
    }

    /// A leg ended where it should. True if the shuttle is at its goal, or has none.
    pub(crate) fn leg_ended(&mut self, shuttle: Shuttle, now: Micros) -> bool {
        let motion = &mut self.motions[usize::from(shuttle.0)];
        if let Some(to) = motion.leg.take() {
            motion.at = to;
        }
        self.reached(shuttle, now)
    }

    /// True if the shuttle stands at its goal, which it then has no longer, or has none.
    pub(crate) fn reached(&mut self, shuttle: Shuttle, now: Micros) -> bool {
        let motion = &mut self.motions[usize::from(shuttle.0)];
        if motion.leg.is_some() {
            return false;
        }
        let Some(goal) = motion.goal else { return true };
        if motion.at != goal {
            return false;
        }
        (motion.goal, motion.via) = (None, None);
        self.congestion.trips += 1;
        self.congestion.taken += now.since(motion.set_off);
        self.congestion.unhindered += motion.nominal;
        true
    }

    /// The shuttle stopped for good where it is: between two shelves if it was on its way from one to the other.
    pub(crate) fn lose(&mut self, shuttle: Shuttle, x_um: i64) {
        self.drop_goal(shuttle);
        let motion = &mut self.motions[usize::from(shuttle.0)];
        motion.stance = Stance::Lost;
        motion.between = motion.leg.map(|to| to.shelf).filter(|shelf| *shelf != motion.at.shelf);
        motion.at.x_um = x_um;
        motion.leg = None;
    }

    /// The shuttle is where it was lost, and works.
    pub(crate) fn find(&mut self, shuttle: Shuttle) {
        let motion = &mut self.motions[usize::from(shuttle.0)];
        motion.stance = Stance::Free;
        motion.between = None;
    }

    /// The other shelf that a lost shuttle blocks.
    pub(crate) fn between(&self, shuttle: Shuttle) -> Option<u8> {
        self.motions[usize::from(shuttle.0)].between
    }

    /// Sets the shuttle on its next leg if the way is free, and pushes others aside if that helps. Legs that begin are appended.
    pub(crate) fn advance(&mut self, shuttle: Shuttle, legs: &mut Vec<(Shuttle, Position)>) {
        let motion = self.motions[usize::from(shuttle.0)];
        if motion.leg.is_some() || motion.stance == Stance::Lost {
            return;
        }
        let Some(goal) = motion.goal.filter(|goal| *goal != motion.at) else { return };
        let ways = self.ways(&motion, goal);
        for to in ways.into_iter().flatten() {
            if self.conflict(shuttle, to).is_none() {
                self.begin(shuttle, to, legs);
                return;
            }
        }
        let preferred = ways[0].expect("a shuttle that is not at its goal has a way");
        let other = self.conflict(shuttle, preferred).expect("it was found not to be free");
        self.block(shuttle, other);
        self.resolve(shuttle, other, preferred, legs);
    }

    /// Lets everybody try again who waits, the highest number first.
    pub(crate) fn retry(&mut self, legs: &mut Vec<(Shuttle, Position)>) {
        if self.blocked == 0 {
            return;
        }
        for index in (0..self.motions.len()).rev() {
            if self.motions[index].blocked_by.is_some() {
                self.advance(Shuttle(index as u16), legs);
            }
        }
    }

    /// The next legs that lead to the goal, the best first.
    fn ways(&self, motion: &Motion, goal: Position) -> [Option<Position>; 2] {
        let at = motion.at;
        let towards = |shelf: u8| Position { shelf: if shelf > at.shelf { at.shelf + 1 } else { at.shelf - 1 }, x_um: at.x_um };
        let along = Position { shelf: at.shelf, x_um: goal.x_um };
        if at.x_um == goal.x_um {
            return [Some(towards(goal.shelf)), None];
        }
        match motion.via {
            Some(shelf) if shelf != at.shelf => [Some(towards(shelf)), None],
            Some(_) => [Some(along), None],
            None if at.shelf == goal.shelf => [Some(along), None],
            None => [Some(towards(goal.shelf)), Some(along)],
        }
    }

    /// Somebody whose place or reservation the way of this shuttle would touch.
    fn conflict(&self, shuttle: Shuttle, to: Position) -> Option<Shuttle> {
        let own = Region::of(self.motions[usize::from(shuttle.0)].at, to);
        let others = self.motions.iter().enumerate().filter(|(index, _)| *index != usize::from(shuttle.0));
        let mut found = others.filter(|(_, other)| self.region(other).meets(&own, self.spacing_um));
        found.next().map(|(index, _)| Shuttle(index as u16))
    }

    fn region(&self, motion: &Motion) -> Region {
        let to = motion.leg.unwrap_or(match motion.between {
            Some(shelf) => Position { shelf, ..motion.at },
            None => motion.at,
        });
        Region::of(motion.at, to)
    }

    fn begin(&mut self, shuttle: Shuttle, to: Position, legs: &mut Vec<(Shuttle, Position)>) {
        self.unblock(shuttle);
        self.motions[usize::from(shuttle.0)].leg = Some(to);
        legs.push((shuttle, to));
    }

    fn block(&mut self, shuttle: Shuttle, by: Shuttle) {
        self.blocked += u32::from(self.motions[usize::from(shuttle.0)].blocked_by.is_none());
        self.motions[usize::from(shuttle.0)].blocked_by = Some(by);
    }

    fn unblock(&mut self, shuttle: Shuttle) {
        self.blocked -= u32::from(self.motions[usize::from(shuttle.0)].blocked_by.take().is_some());
    }

    /// `shuttle` can't go `to`, because of `other`.
    fn resolve(&mut self, shuttle: Shuttle, other: Shuttle, to: Position, legs: &mut Vec<(Shuttle, Position)>) {
        let motion = self.motions[usize::from(other.0)];
        if motion.leg.is_some() {
            return;
        }
        match motion.stance {
            Stance::Lost => self.go_around(shuttle, legs),
            Stance::Free if motion.goal.is_none() => self.push_aside(other, shuttle, to, legs),
            Stance::Working if motion.goal.is_none() => {}
            _ => {
                if let Some(victim) = self.lowest_of_cycle(shuttle) {
                    self.give_way(victim, legs);
                }
            }
        }
    }

    /// If `shuttle` waits for itself in the end: the lowest number in the circle that has somewhere to go.
    fn lowest_of_cycle(&self, shuttle: Shuttle) -> Option<Shuttle> {
        let blocked_by = |one: Shuttle| self.motions[usize::from(one.0)].blocked_by;
        let mut members = [shuttle; 64];
        let mut count = 1;
        let mut next = blocked_by(shuttle)?;
        while next != shuttle {
            if count == members.len() || members[..count].contains(&next) {
                return None;
            }
            members[count] = next;
            count += 1;
            next = blocked_by(next)?;
        }
        let members = &mut members[..count];
        members.sort_unstable();
        members.iter().copied().find(|member| self.refuge(*member).is_some())
    }

    /// A neighbouring shelf that is free here.
    fn refuge(&self, shuttle: Shuttle) -> Option<Position> {
        let Motion { at, goal, .. } = self.motions[usize::from(shuttle.0)];
        let up = (at.shelf + 1 < self.shelves).then(|| Position { shelf: at.shelf + 1, ..at });
        let down = (at.shelf > 0).then(|| Position { shelf: at.shelf - 1, ..at });
        // Towards the goal's shelf first.
        let order = if goal.is_some_and(|goal| goal.shelf > at.shelf) { [up, down] } else { [down, up] };
        order.into_iter().flatten().find(|to| self.conflict(shuttle, *to).is_none())
    }

    /// Goes along another shelf than its own, one on which nothing lost is in the way.
    fn go_around(&mut self, shuttle: Shuttle, legs: &mut Vec<(Shuttle, Position)>) {
        let Motion { at, goal: Some(goal), .. } = self.motions[usize::from(shuttle.0)] else { return };
        let is_open = |shelf: u8| {
            let way = Region::of(Position { shelf, ..at }, Position { shelf, ..goal });
            let mut lost = self.motions.iter().filter(|motion| motion.stance == Stance::Lost);
            lost.all(|motion| !self.region(motion).meets(&way, self.spacing_um))
        };
        for away in 1..self.shelves {
            let shelves = [at.shelf.checked_sub(away), at.shelf.checked_add(away).filter(|shelf| *shelf < self.shelves)];
            for shelf in shelves.into_iter().flatten().filter(|shelf| is_open(*shelf)) {
                let next = Position { shelf: if shelf > at.shelf { at.shelf + 1 } else { at.shelf - 1 }, ..at };
                if self.conflict(shuttle, next).is_none() {
                    self.leave_path(shuttle, shelf, next, legs);
                    return;
                }
            }
        }
    }

    fn give_way(&mut self, shuttle: Shuttle, legs: &mut Vec<(Shuttle, Position)>) {
        if let Some(to) = self.refuge(shuttle) {
            self.leave_path(shuttle, to.shelf, to, legs);
        }
    }

    fn leave_path(&mut self, shuttle: Shuttle, via: u8, to: Position, legs: &mut Vec<(Shuttle, Position)>) {
        self.congestion.evasions += 1;
        self.motions[usize::from(shuttle.0)].via = Some(via);
        self.begin(shuttle, to, legs);
    }

    /// `idle` makes room for the way of `shuttle` to `to`: a little along its shelf, or to a neighbouring one, whatever is free.
    fn push_aside(&mut self, idle: Shuttle, shuttle: Shuttle, to: Position, legs: &mut Vec<(Shuttle, Position)>) {
        let from = self.motions[usize::from(shuttle.0)].at;
        let way = Region::of(from, to);
        let at = self.motions[usize::from(idle.0)].at;
        let along = |x_um: i64| ((0..=self.width_um).contains(&x_um)).then_some(Position { shelf: at.shelf, x_um });
        // Out of the way of where the other one ends, and away from where it comes from.
        let ahead = if from.x_um <= at.x_um { along(way.high_um + self.spacing_um) } else { along(way.low_um - self.spacing_um) };
        let near = ahead.filter(|place| (place.x_um - at.x_um).abs() <= 3 * self.spacing_um);
        let aside = self.refuge(idle);
        let behind = if from.x_um <= at.x_um { along(way.low_um - self.spacing_um) } else { along(way.high_um + self.spacing_um) };
        for place in [near, aside, ahead, behind].into_iter().flatten() {
            if place != at && self.conflict(idle, place).is_none() {
                self.congestion.evasions += 1;
                self.begin(idle, place, legs);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(shelf: u8, centimetres: i64) -> Position {
        Position { shelf, x_um: centimetres * 10_000 }
    }

    fn traffic(places: &[Position]) -> Traffic {
        Traffic::new(&Layout::default(), Pace::default(), places.iter().copied())
    }

    /// Ends the legs that were begun, in order, and lets everybody go on, until nobody moves.
    fn run(traffic: &mut Traffic, mut legs: Vec<(Shuttle, Position)>) -> u32 {
        let mut count = 0;
        while !legs.is_empty() {
            let (shuttle, _) = legs.remove(0);
            count += 1;
            assert!(count < 1_000, "nobody arrives");
            traffic.leg_ended(shuttle, Micros::ZERO);
            traffic.retry(&mut legs);
            traffic.advance(shuttle, &mut legs);
        }
        count
    }

    fn send(traffic: &mut Traffic, shuttle: u16, goal: Position) -> Vec<(Shuttle, Position)> {
        let mut legs = Vec::new();
        traffic.set_stance(Shuttle(shuttle), Stance::Working);
        traffic.set_goal(Shuttle(shuttle), goal, Micros::ZERO);
        traffic.advance(Shuttle(shuttle), &mut legs);
        legs
    }

    #[test]
    fn a_stretch_that_is_taken_is_waited_for() {
        let mut traffic = traffic(&[at(3, 200), at(3, 600)]);
        let first = send(&mut traffic, 0, at(3, 400));
        assert_eq!(first, [(Shuttle(0), at(3, 400))]);
        assert_eq!(send(&mut traffic, 1, at(3, 430)), []);
        traffic.leg_ended(Shuttle(0), Micros::SECOND);
        let legs = send(&mut traffic, 0, at(3, 300));
        run(&mut traffic, legs);
        assert_eq!((traffic.at(Shuttle(0)), traffic.at(Shuttle(1))), (at(3, 300), at(3, 430)));
    }

    #[test]
    fn who_has_nothing_to_do_makes_room() {
        let mut traffic = traffic(&[at(3, 200), at(3, 600)]);
        let legs = send(&mut traffic, 0, at(3, 800));
        assert_eq!(legs.len(), 1, "only the idle one moves at first");
        assert_eq!(legs[0].0, Shuttle(1));
        run(&mut traffic, legs);
        assert_eq!(traffic.at(Shuttle(0)), at(3, 800));
    }

    #[test]
    fn of_two_that_meet_head_on_the_lower_number_gives_way() {
        let mut traffic = traffic(&[at(3, 200), at(3, 600)]);
        let mut legs = Vec::new();
        for (shuttle, goal) in [(0, at(3, 800)), (1, at(3, 100))] {
            traffic.set_stance(Shuttle(shuttle), Stance::Working);
            traffic.set_goal(Shuttle(shuttle), goal, Micros::ZERO);
        }
        traffic.advance(Shuttle(0), &mut legs);
        assert_eq!(legs, []);
        traffic.advance(Shuttle(1), &mut legs);
        assert_eq!(legs, [(Shuttle(0), at(2, 200))]);
        run(&mut traffic, legs);
        assert_eq!((traffic.at(Shuttle(0)), traffic.at(Shuttle(1))), (at(3, 800), at(3, 100)));
        assert_eq!(traffic.congestion().evasions, 1);
    }

    #[test]
    fn a_lost_shuttle_is_passed_on_another_shelf() {
        let mut traffic = traffic(&[at(3, 200), at(3, 600)]);
        traffic.lose(Shuttle(1), 6_000_000);
        let legs = send(&mut traffic, 0, at(3, 900));
        assert_eq!(run(&mut traffic, legs), 3);
        assert_eq!(traffic.at(Shuttle(0)), at(3, 900));
    }

    #[test]
    fn one_that_is_stuck_between_two_shelves_blocks_both() {
        let mut traffic = traffic(&[at(3, 200), at(3, 600)]);
        let legs = send(&mut traffic, 1, at(2, 600));
        assert_eq!(legs.len(), 1);
        traffic.lose(Shuttle(1), 6_000_000);
        assert_eq!(traffic.between(Shuttle(1)), Some(2));
        let legs = send(&mut traffic, 0, at(3, 900));
        run(&mut traffic, legs);
        assert_eq!(traffic.at(Shuttle(0)), at(3, 900));
    }
}
