//! Who may move where. Before a shuttle sets off, its whole path becomes its own: one stretch of a shelf, and the columns that lead there and
//! away. It is freed leg by leg. A shuttle that rests keeps its place. So no two can meet, however long their motions take, and who has set
//! off arrives.
//!
//! ```text
//! shelf 4        |   |  B                       B rests
//! shelf 3   A ===|===|=======> x                A has a stretch of shelf 3
//! shelf 2        C            |                 C may not cross it
//! shelf 1                     v goal            nor touch the column below x
//! ```
//!
//! Conflicts are settled where they arise: who finds its path taken waits; who rests in somebody's path without anything to do there is pushed
//! aside, and so is a lower number that waits itself. ("Conflicts at borders are settled locally, the higher shuttle number goes first": SOSP
//! '23, section 4. How a path is chosen and how room is made is ours.) Whoever has waited for long claims its path: nobody else may enter it.

use fulgurite_domain::Micros;

use crate::{Layout, Pace, Position, Shuttle};

/// After this long, somebody who waits looks for a way around.
const PATIENCE: Micros = Micros(6_000_000);
/// After this long, somebody who waits claims its path.
const CLAIM: Micros = Micros(10_000_000);
/// How often those who wait look again, if nothing happens meanwhile.
const GLANCE: Micros = Micros(2_000_000);

/// Whether a shuttle that stands can be asked to make room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stance {
    /// It has nothing to do here.
    Free,
    /// It works, here or where it is going.
    Working,
    /// It is out of order.
    Lost,
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
    /// How often a shuttle made room for another.
    pub evasions: u64,
}

/// A stretch of a shelf, or a column over shelves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Region {
    low_um: i64,
    high_um: i64,
    bottom: u8,
    top: u8,
}

impl Region {
    fn of(from: Position, to: Position) -> Self {
        Self {
            low_um: from.x_um.min(to.x_um),
            high_um: from.x_um.max(to.x_um),
            bottom: from.shelf.min(to.shelf),
            top: from.shelf.max(to.shelf),
        }
    }

    fn meets(&self, other: &Self, spacing_um: i64) -> bool {
        self.bottom <= other.top
            && other.bottom <= self.top
            && self.low_um - other.high_um < spacing_um
            && other.low_um - self.high_um < spacing_um
    }
}

/// Up or down at the first place, along a shelf, up or down at the last: what a shuttle sweeps on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Path {
    from: Position,
    via: u8,
    to: Position,
}

impl Path {
    fn standing(at: Position) -> Self {
        Self { from: at, via: at.shelf, to: at }
    }

    fn regions(&self) -> [Region; 3] {
        let (on, off) = (Position { shelf: self.via, ..self.from }, Position { shelf: self.via, ..self.to });
        [Region::of(self.from, on), Region::of(on, off), Region::of(off, self.to)]
    }

    fn meets(&self, other: &Self, spacing_um: i64) -> bool {
        // Most paths lie on one shelf, and most pairs on different ones.
        let (own, others) = (self.regions(), other.regions());
        own.iter().any(|region| others.iter().any(|other| region.meets(other, spacing_um)))
    }

    /// Where the next leg ends.
    fn next(&self) -> Option<Position> {
        let step = |shelf: u8| if shelf > self.from.shelf { self.from.shelf + 1 } else { self.from.shelf - 1 };
        if self.from.x_um == self.to.x_um {
            return (self.from.shelf != self.to.shelf).then(|| Position { shelf: step(self.to.shelf), ..self.from });
        }
        Some(if self.from.shelf == self.via {
            Position { x_um: self.to.x_um, ..self.from }
        } else {
            Position { shelf: step(self.via), ..self.from }
        })
    }

    /// What is left when the next leg has ended.
    fn rest(&self) -> Self {
        let from = self.next().unwrap_or(self.from);
        let via = if from.x_um == self.to.x_um { self.to.shelf } else { self.via };
        Self { from, via, to: self.to }
    }

    fn crabs(&self) -> u8 {
        self.from.shelf.abs_diff(self.via) + self.via.abs_diff(self.to.shelf)
    }
}

#[derive(Debug, Clone, Copy)]
struct Motion {
    /// What it has reserved, from where it stands or its leg began.
    path: Path,
    is_moving: bool,
    goal: Option<Position>,
    stance: Stance,
    /// It is stuck between its shelf and this one.
    between: Option<u8>,
    /// It waits for its path since then.
    waits_since: Option<Micros>,
    /// It made room for this one, and lets it set off first.
    yields_to: Option<Shuttle>,
    set_off: Micros,
    nominal: Micros,
}

/// Where all shuttles are and what they have reserved.
#[derive(Debug, Clone)]
pub(crate) struct Traffic {
    motions: Vec<Motion>,
    spacing_um: i64,
    width_um: i64,
    shelves: u8,
    pace: Pace,
    waiting: u32,
    lost: u32,
    claim: Option<(Shuttle, Path)>,
    congestion: Congestion,
    now: Micros,
}

impl Traffic {
    pub(crate) fn new(layout: &Layout, pace: Pace, at: impl Iterator<Item = Position>) -> Self {
        let motion = |at| Motion {
            path: Path::standing(at),
            is_moving: false,
            goal: None,
            stance: Stance::Free,
            between: None,
            waits_since: None,
            yields_to: None,
            set_off: Micros::ZERO,
            nominal: Micros::ZERO,
        };
        Self {
            motions: at.map(motion).collect(),
            spacing_um: layout.spacing_um,
            width_um: layout.width_um(),
            shelves: layout.shelves,
            pace,
            waiting: 0,
            lost: 0,
            claim: None,
            congestion: Congestion::default(),
            now: Micros::ZERO,
        }
    }

    /// Where it stands, or where the leg began that it is on.
    pub(crate) fn at(&self, shuttle: Shuttle) -> Position {
        self.motion(shuttle).path.from
    }

    /// Where it stands, or where it will when it ends what it is on.
    pub(crate) fn next_at(&self, shuttle: Shuttle) -> Position {
        let motion = self.motion(shuttle);
        if motion.is_moving { motion.path.to } else { motion.path.from }
    }

    pub(crate) fn is_moving(&self, shuttle: Shuttle) -> bool {
        self.motion(shuttle).is_moving
    }

    pub(crate) fn goal(&self, shuttle: Shuttle) -> Option<Position> {
        self.motion(shuttle).goal
    }

    pub(crate) fn congestion(&self) -> Congestion {
        self.congestion
    }

    pub(crate) fn set_now(&mut self, now: Micros) {
        self.now = now;
    }

    pub(crate) fn set_stance(&mut self, shuttle: Shuttle, stance: Stance) {
        self.motion_mut(shuttle).stance = stance;
    }

    /// The shuttle wants to be at `goal`. It sets off with the next [`Traffic::advance`].
    pub(crate) fn set_goal(&mut self, shuttle: Shuttle, goal: Position) {
        self.drop_goal(shuttle);
        let nominal = self.pace.travel(self.next_at(shuttle), goal);
        let now = self.now;
        let motion = self.motion_mut(shuttle);
        (motion.goal, motion.set_off, motion.nominal) = (Some(goal), now, nominal);
    }

    /// The shuttle gives its goal up. The path it is on it ends.
    pub(crate) fn drop_goal(&mut self, shuttle: Shuttle) {
        self.stop_waiting(shuttle);
        self.motion_mut(shuttle).goal = None;
    }

    /// A leg ended where it should. The next one of its path follows at once; without one, true.
    pub(crate) fn leg_ended(&mut self, shuttle: Shuttle, legs: &mut Vec<(Shuttle, Position)>) -> bool {
        let motion = self.motion_mut(shuttle);
        motion.path = motion.path.rest();
        if let Some(next) = motion.path.next() {
            legs.push((shuttle, next));
            return false;
        }
        motion.is_moving = false;
        if motion.goal == Some(motion.path.from) {
            let (set_off, nominal) = (motion.set_off, motion.nominal);
            self.congestion.trips += 1;
            self.congestion.taken += self.now.since(set_off);
            self.congestion.unhindered += nominal;
            self.drop_goal(shuttle);
        }
        true
    }

    /// The shuttle stopped for good where it is: between two shelves if it was on its way from one to the other.
    pub(crate) fn lose(&mut self, shuttle: Shuttle, x_um: i64) {
        self.drop_goal(shuttle);
        let motion = self.motion_mut(shuttle);
        let next = motion.path.next().filter(|_| motion.is_moving);
        motion.between = next.map(|to| to.shelf).filter(|shelf| *shelf != motion.path.from.shelf);
        let at = Position { x_um, ..motion.path.from };
        let other = Position { shelf: motion.between.unwrap_or(at.shelf), ..at };
        motion.path = Path { from: at, via: at.shelf, to: other };
        motion.is_moving = false;
        motion.stance = Stance::Lost;
        self.lost += 1;
    }

    /// The shuttle works again, where it was lost; from between two shelves it goes back to the one it came from.
    pub(crate) fn find(&mut self, shuttle: Shuttle) {
        let motion = self.motion_mut(shuttle);
        motion.stance = Stance::Free;
        motion.between = None;
        motion.path = Path::standing(motion.path.from);
        self.lost -= 1;
    }

    /// The other shelf that a lost shuttle blocks.
    pub(crate) fn between(&self, shuttle: Shuttle) -> Option<u8> {
        self.motion(shuttle).between
    }

    /// Sets the shuttle on its way to its goal if a path is free, and asks others to make room if that helps. Legs that begin are appended.
    pub(crate) fn advance(&mut self, shuttle: Shuttle, legs: &mut Vec<(Shuttle, Position)>) {
        let motion = *self.motion(shuttle);
        let Some(goal) = motion.goal.filter(|goal| *goal != motion.path.from) else { return };
        if motion.is_moving || motion.stance == Stance::Lost {
            return;
        }
        let waited = motion.waits_since.map_or(Micros::ZERO, |since| self.now.since(since));
        if motion.yields_to.is_none() {
            let direct = motion.path.from.shelf.abs_diff(goal.shelf);
            let detour = if waited >= PATIENCE || self.lost > 0 { self.shelves } else { 0 };
            for path in self.paths(motion.path.from, goal).take_while(|path| path.crabs() <= direct + 2 * detour) {
                if self.obstacle(shuttle, &path).is_none() && self.is_allowed(shuttle, &path) {
                    self.set_off(shuttle, path, legs);
                    return;
                }
            }
        }
        if motion.waits_since.is_none() {
            self.waiting += 1;
            self.motion_mut(shuttle).waits_since = Some(self.now);
        }
        let path = self.wanted(motion.path.from, goal);
        if waited >= CLAIM && self.claim.is_none() {
            self.claim = Some((shuttle, path));
        }
        if motion.yields_to.is_none() {
            self.ask_for_room(shuttle, &path, legs);
        }
    }

    /// Lets everybody try again who waits: who claims its path, then the highest number first.
    pub(crate) fn retry(&mut self, legs: &mut Vec<(Shuttle, Position)>) {
        if self.waiting == 0 {
            return;
        }
        if let Some((claimant, _)) = self.claim {
            self.advance(claimant, legs);
        }
        for index in (0..self.motions.len()).rev() {
            if self.motions[index].waits_since.is_some() {
                self.advance(Shuttle(index as u16), legs);
            }
        }
    }

    pub(crate) fn dump(&self) -> String {
        let mut o = format!("claim {:?}\n", self.claim);
        for (i, m) in self.motions.iter().enumerate() {
            o += &format!(
                "{i} at {:.2},{} {} goal {:?} {:?} waits {:?} yields {:?} path {:?}\n",
                m.path.from.x_um as f64 / 1e6,
                m.path.from.shelf,
                if m.is_moving { "moving" } else { "rest" },
                m.goal.map(|g| (g.x_um as f64 / 1e6, g.shelf)),
                m.stance,
                m.waits_since.map(|w| self.now.since(w).seconds()),
                m.yields_to,
                if m.is_moving { Some((m.path.via, m.path.to.x_um as f64 / 1e6, m.path.to.shelf)) } else { None }
            );
        }
        o
    }
    /// When somebody who waits should look again.
    pub(crate) fn deadline(&self) -> Option<Micros> {
        (self.waiting > 0).then(|| self.now + GLANCE)
    }

    fn motion(&self, shuttle: Shuttle) -> &Motion {
        &self.motions[usize::from(shuttle.0)]
    }

    fn motion_mut(&mut self, shuttle: Shuttle) -> &mut Motion {
        &mut self.motions[usize::from(shuttle.0)]
    }

    /// All ways from one place to another over one shelf, those with the fewest crabs first. Of those with equally many, the one that goes
    /// along the goal's shelf comes first.
    fn paths(&self, from: Position, to: Position) -> impl Iterator<Item = Path> + use<> {
        let (low, high, shelves) = (from.shelf.min(to.shelf), from.shelf.max(to.shelf), self.shelves);
        let is_column = from.x_um == to.x_um;
        let between = (0..=high - low).map(move |away| if to.shelf > from.shelf { to.shelf - away } else { to.shelf + away });
        let beyond =
            (1..shelves).flat_map(move |away| [low.checked_sub(away), high.checked_add(away).filter(|shelf| *shelf < shelves)]).flatten();
        // A column has only one way that needs no detour.
        between.take(if is_column { 1 } else { usize::MAX }).chain(beyond.filter(move |_| !is_column)).map(move |via| Path {
            from,
            via,
            to,
        })
    }

    /// The path that a shuttle would take if nobody but the lost were there.
    fn wanted(&self, from: Position, to: Position) -> Path {
        let is_open = |path: &Path| {
            let mut lost = self.motions.iter().filter(|motion| motion.stance == Stance::Lost);
            self.lost == 0 || lost.all(|motion| !motion.path.meets(path, self.spacing_um))
        };
        let shortest = Path { from, via: to.shelf, to };
        self.paths(from, to).find(is_open).unwrap_or(shortest)
    }

    /// Somebody else who stands in a path or has reserved some of it.
    fn obstacle(&self, shuttle: Shuttle, path: &Path) -> Option<Shuttle> {
        let others = self.motions.iter().enumerate().filter(|(index, _)| *index != usize::from(shuttle.0));
        let mut found = others.filter(|(_, other)| other.path.meets(path, self.spacing_um));
        found.next().map(|(index, _)| Shuttle(index as u16))
    }

    /// Whether a path leaves alone what somebody else claims: it may lead out of that, but not into it.
    fn is_allowed(&self, shuttle: Shuttle, path: &Path) -> bool {
        let Some((_, claimed)) = self.claim.filter(|(claimant, _)| *claimant != shuttle) else { return true };
        let ends_inside = Path::standing(path.to).meets(&claimed, self.spacing_um);
        let starts_inside = Path::standing(path.from).meets(&claimed, self.spacing_um);
        !ends_inside && (starts_inside || !path.meets(&claimed, self.spacing_um))
    }

    fn set_off(&mut self, shuttle: Shuttle, path: Path, legs: &mut Vec<(Shuttle, Position)>) {
        self.stop_waiting(shuttle);
        let motion = self.motion_mut(shuttle);
        (motion.path, motion.is_moving) = (path, true);
        legs.push((shuttle, path.next().expect("whoever sets off goes somewhere else")));
    }

    /// The shuttle waits no longer, and nobody makes room for it.
    fn stop_waiting(&mut self, shuttle: Shuttle) {
        let motion = self.motion_mut(shuttle);
        motion.yields_to = None;
        if motion.waits_since.take().is_some() {
            self.waiting -= 1;
            for motion in &mut self.motions {
                if motion.yields_to == Some(shuttle) {
                    motion.yields_to = None;
                }
            }
        }
        if self.claim.is_some_and(|(claimant, _)| claimant == shuttle) {
            self.claim = None;
        }
    }

    /// Asks everybody who rests in a path to leave it: whoever has nothing to do there, and lower numbers that wait themselves.
    fn ask_for_room(&mut self, shuttle: Shuttle, path: &Path, legs: &mut Vec<(Shuttle, Position)>) {
        let claims = self.claim.is_some_and(|(claimant, _)| claimant == shuttle);
        for index in 0..self.motions.len() {
            let other = Shuttle(index as u16);
            let motion = self.motions[index];
            let rests = !motion.is_moving && other != shuttle && motion.path.meets(path, self.spacing_um);
            let is_claimant = self.claim.is_some_and(|(claimant, _)| claimant == other);
            let waits = motion.goal.is_some() && !is_claimant && claims;
            if rests && motion.stance != Stance::Lost && (waits || motion.goal.is_none() && motion.stance == Stance::Free) {
                self.make_room(other, shuttle, path, legs);
            }
        }
    }

    /// Moves a shuttle that rests out of a path, to the place nearest by that is free.
    fn make_room(&mut self, shuttle: Shuttle, other: Shuttle, wanted: &Path, legs: &mut Vec<(Shuttle, Position)>) {
        let at = self.at(shuttle);
        let shelves = [Some(at.shelf), at.shelf.checked_sub(1), at.shelf.checked_add(1), at.shelf.checked_sub(2), at.shelf.checked_add(2)];
        let mut best: Option<(Micros, Path)> = None;
        for via in shelves.into_iter().flatten().filter(|shelf| *shelf < self.shelves) {
            for steps in (0..=24).flat_map(|steps| [-steps, steps]) {
                let to = Position { shelf: via, x_um: at.x_um + steps * self.spacing_um };
                let path = Path { from: at, via, to };
                let cost = self.pace.travel(at, to);
                let is_better = to != at && best.is_none_or(|(least, _)| cost < least) && (0..=self.width_um).contains(&to.x_um);
                if is_better && !Path::standing(to).meets(wanted, self.spacing_um) && self.obstacle(shuttle, &path).is_none() {
                    best = Some((cost, path));
                }
            }
        }
        if let Some((_, path)) = best {
            self.congestion.evasions += 1;
            let has_goal = self.motion(shuttle).goal.is_some();
            let waits_since = self.motion(shuttle).waits_since;
            let motion = self.motion_mut(shuttle);
            (motion.path, motion.is_moving) = (path, true);
            motion.yields_to = has_goal.then_some(other);
            debug_assert_eq!(waits_since.is_some(), motion.waits_since.is_some());
            legs.push((shuttle, path.next().expect("another place is somewhere else")));
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
            let has_ended = traffic.leg_ended(shuttle, &mut legs);
            traffic.retry(&mut legs);
            if has_ended {
                traffic.advance(shuttle, &mut legs);
            }
        }
        count
    }

    fn send(traffic: &mut Traffic, shuttle: u16, goal: Position) -> Vec<(Shuttle, Position)> {
        let mut legs = Vec::new();
        traffic.set_stance(Shuttle(shuttle), Stance::Working);
        traffic.set_goal(Shuttle(shuttle), goal);
        traffic.advance(Shuttle(shuttle), &mut legs);
        legs
    }

    #[test]
    fn a_stretch_that_is_taken_is_waited_for() {
        let mut traffic = traffic(&[at(3, 200), at(3, 600)]);
        let first = send(&mut traffic, 0, at(3, 400));
        assert_eq!(first, [(Shuttle(0), at(3, 400))]);
        assert_eq!(send(&mut traffic, 1, at(3, 430)), []);
        traffic.leg_ended(Shuttle(0), &mut Vec::new());
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
            traffic.set_goal(Shuttle(shuttle), goal);
        }
        traffic.advance(Shuttle(0), &mut legs);
        assert_eq!(legs, []);
        traffic.advance(Shuttle(1), &mut legs);
        assert_eq!(legs.iter().map(|(shuttle, _)| shuttle.0).collect::<Vec<_>>(), [0]);
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
