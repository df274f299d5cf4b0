//! Plans of shuttles: a path, part by part, with the start and end times of each; and the regions
//! that others have reserved meanwhile.

use fulgurite_domain::Micros;

use super::TIME_MARGIN;
use crate::{Pace, Position};

/// A stretch of a shelf, or a column over shelves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SearchRegion {
    pub(super) low_um: i64,
    pub(super) high_um: i64,
    pub(super) bottom: u8,
    pub(super) top: u8,
}

impl SearchRegion {
    /// Meets all others. (Half of the range, so that differences don't overflow.)
    pub(super) const ANYWHERE: Self = Self { low_um: i64::MIN / 2, high_um: i64::MAX / 2, bottom: 0, top: u8::MAX };

    pub(super) fn of(from: Position, to: Position) -> Self {
        Self {
            low_um: from.x_um.min(to.x_um),
            high_um: from.x_um.max(to.x_um),
            bottom: from.shelf.min(to.shelf),
            top: from.shelf.max(to.shelf),
        }
    }

    pub(super) fn meets(&self, other: &Self, spacing_um: i64) -> bool {
        self.bottom <= other.top
            && other.bottom <= self.top
            && self.low_um - other.high_um < spacing_um
            && other.low_um - self.high_um < spacing_um
    }
}

/// Crabs at the first x, a ride along one shelf, crabs at the last x. Each crab and the ride is one
/// *part*.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Path {
    pub(super) from: Position,
    /// The shelf of the ride.
    pub(super) via: u8,
    pub(super) to: Position,
}

impl Path {
    /// Parts before the ride, parts up to and including it, and parts in all.
    pub(super) fn counts(&self) -> (usize, usize, usize) {
        let before = usize::from(self.from.shelf.abs_diff(self.via));
        let along = before + usize::from(self.from.x_um != self.to.x_um);
        (before, along, along + usize::from(self.via.abs_diff(self.to.shelf)))
    }

    /// The position where a part begins; for `part` = count, where the path ends.
    pub(super) fn corner(&self, part: usize) -> Position {
        let (before, along, _) = self.counts();
        let step = |from: u8, to: u8, count: usize| if to > from { from + count as u8 } else { from - count as u8 };
        if part <= before {
            Position { shelf: step(self.from.shelf, self.via, part), ..self.from }
        } else {
            Position { shelf: step(self.via, self.to.shelf, part - along), ..self.to }
        }
    }

    pub(super) fn part(&self, part: usize) -> SearchRegion {
        SearchRegion::of(self.corner(part), self.corner(part + 1))
    }

    /// Start and end of the ride, if this part is one.
    pub(super) fn ride(&self, part: usize) -> Option<(i64, i64)> {
        let (before, along, _) = self.counts();
        (part == before && along > before).then_some((self.from.x_um, self.to.x_um))
    }

    pub(super) fn bounds(&self) -> SearchRegion {
        let all = SearchRegion::of(self.from, self.to);
        SearchRegion { bottom: all.bottom.min(self.via), top: all.top.max(self.via), ..all }
    }

    pub(super) fn regions(&self) -> [SearchRegion; 3] {
        let (on, off) = (Position { shelf: self.via, ..self.from }, Position { shelf: self.via, ..self.to });
        [SearchRegion::of(self.from, on), SearchRegion::of(on, off), SearchRegion::of(off, self.to)]
    }

    pub(super) fn meets(&self, region: &SearchRegion, spacing_um: i64) -> bool {
        self.regions().iter().any(|part| part.meets(region, spacing_um))
    }

    pub(super) fn touches(&self, other: &Self, spacing_um: i64) -> bool {
        other.regions().iter().any(|part| self.meets(part, spacing_um))
    }
}

/// A path with the times at which its parts begin and end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    pub(super) path: Path,
    pub(super) start: Micros,
    /// Duration of the ride, and of one crab.
    pub(super) along: Micros,
    pub(super) crab: Micros,
    /// Parts in all, and the one that is in progress or comes next.
    pub(super) parts: usize,
    pub(super) part: usize,
    pub(super) is_under_way: bool,
}

impl Plan {
    pub(super) fn new(path: Path, start: Micros, pace: &Pace) -> Self {
        let along = pace.along(path.to.x_um - path.from.x_um);
        Self { path, start, along, crab: pace.crab, parts: path.counts().2, part: 0, is_under_way: false }
    }

    /// When a part begins; for `part` = count, when the path ends.
    pub(super) fn time(&self, part: usize) -> Micros {
        let (before, along, _) = self.path.counts();
        let crabs = part - usize::from(part > before && along > before);
        let along = if part > before { self.along } else { Micros::ZERO };
        self.start + along + Micros(crabs as u64 * self.crab.0)
    }

    pub(super) fn end(&self) -> Micros {
        self.time(self.parts)
    }

    /// Cuts the plan off at the end of its current part.
    pub(super) fn only_this_part(self) -> Self {
        let (from, to) = (self.path.corner(self.part), self.path.corner(self.part + 1));
        let path = Path { from, via: to.shelf, to };
        Self { path, start: self.time(self.part), parts: 1, part: 0, ..self }
    }
}

/// Why there is no plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoPlan {
    /// Other shuttles rest, or will rest, in every path. That lasts until one of them sets off.
    Blocked,
    /// No plan ends early enough, or is free after a few postponements. A later search may find
    /// one.
    NotInTime,
}

/// A search that found no plan, and won't until a shuttle near sets off.
#[derive(Debug, Clone)]
pub(super) struct Blocked {
    pub(super) goal: Position,
    /// The path that it kept free for another shuttle.
    pub(super) claimed: Option<Path>,
}

/// A region that a shuttle has reserved for a time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reservation {
    pub(super) region: SearchRegion,
    pub(super) since: Micros,
    pub(super) until: Micros,
    /// Start and end of a ride along a shelf. The stretch that it has passed is free before
    /// `until`.
    pub(super) ride: Option<(i64, i64)>,
}

impl Reservation {
    /// Whether it is of a shuttle that rests, with no plan to move on.
    pub(super) fn is_rest(&self) -> bool {
        self.since == Micros::ZERO && self.until == Micros::NEVER
    }
}

/// The reservations of other shuttles; kept for their allocations.
#[derive(Debug, Clone, Default)]
pub(super) struct Reservations {
    pub(super) others: Vec<Reservation>,
    /// The indices of those that are near the plan in question.
    pub(super) near: Vec<usize>,
    /// The parts of the plan in question.
    pub(super) parts: Vec<SearchRegion>,
    /// Where it meets the reservations.
    pub(super) obstacles: Vec<Obstacle>,
}

/// A part of a plan that meets a reservation in space.
#[derive(Debug, Clone, Copy)]
pub(super) struct Obstacle {
    /// When the part begins and ends, from the start of the plan on.
    pub(super) begins: Micros,
    pub(super) ends: Micros,
    /// When the reservation begins and ends.
    pub(super) since: Micros,
    pub(super) until: Micros,
    /// The index of the reservation.
    pub(super) reservation: usize,
    /// `None` for the rest at the end of the plan.
    pub(super) part: Option<usize>,
}

impl Obstacle {
    /// Whether a plan that starts at this time meets the reservation before that ends. (A ride may
    /// have passed the part sooner.)
    pub(super) fn is_met_from(&self, start: Micros) -> bool {
        start + self.begins < self.until && self.since < start + self.ends + TIME_MARGIN
    }
}
