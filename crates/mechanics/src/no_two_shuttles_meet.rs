//! Checks that shuttles on one shelf keep their distance at every instant, from the legs alone.
//!
//! ```text
//!   shuttle 3   |--leg--|standing....|--leg--|...         two legs are compared over the time in which both were in force,
//!   shuttle 7      |------leg------|standing......        when the first of them is replaced: one leg a shuttle is kept
//!                  <- 3 and 7 ->|<- 3 and 7 ->|
//! ```
//!
//! The distance between two shuttles is piecewise quadratic in time, so its minimum is at the ends
//! of a piece or at its vertex. Nothing is sampled. A shuttle that changes shelves occupies both
//! for the whole time.

use std::fmt;

use fulgurite_domain::Micros;
use fulgurite_library::{Layout, Shuttle};

use crate::trajectory::Piece;
use crate::{Footprint, MotionLog, Trajectory};

/// Two shuttles came closer than the spacing allows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Meeting {
    /// The lower number of the two.
    pub first: Shuttle,
    /// The higher number.
    pub second: Shuttle,
    /// Start of the time during which both legs were in force.
    pub from: Micros,
    /// End of that time.
    pub until: Micros,
    /// The least distance during that time, in micrometres; negative if one shuttle passed through
    /// the other.
    pub distance_um: f64,
}

impl fmt::Display for Meeting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, second, millimetres) = (self.first.0, self.second.0, self.distance_um / 1e3);
        write!(f, "shuttles {first} and {second} came within {millimetres:.3} mm between {} and {}", self.from, self.until)
    }
}

/// A [`MotionLog`] that detects meetings of shuttles.
#[derive(Debug, Clone)]
pub struct NoTwoShuttlesMeet {
    spacing_um: f64,
    /// The leg in force, by shuttle; `None` before the first one.
    legs: Vec<Option<Trajectory>>,
    first: Option<Meeting>,
    count: u64,
}

/// Positions are whole micrometres, but the arithmetic of a piece is not; this much below the
/// spacing is not a meeting.
const TOLERANCE_UM: f64 = 1.0;

impl NoTwoShuttlesMeet {
    /// A checker for the shuttles of a library, with its spacing.
    #[must_use]
    pub fn new(layout: &Layout) -> Self {
        Self { spacing_um: layout.spacing_um as f64, legs: vec![None; layout.shuttles.into()], first: None, count: 0 }
    }

    /// Checks everything up to now.
    ///
    /// # Errors
    /// The first [`Meeting`], if any.
    pub fn check(&mut self, now: Micros) -> Result<(), Meeting> {
        for shuttle in 0..self.legs.len() {
            if let Some(leg) = self.legs[shuttle] {
                self.compare(shuttle, &leg, now, shuttle + 1);
            }
        }
        self.first.map_or(Ok(()), Err)
    }

    /// Number of pairs of legs found too close so far. A pair still in force at a
    /// [check](Self::check) counts again when it is compared again.
    #[must_use]
    pub fn meetings(&self) -> u64 {
        self.count
    }

    /// Compares the leg of one shuttle, which was in force until `until`, with the legs of the
    /// shuttles from `others` on.
    fn compare(&mut self, shuttle: usize, leg: &Trajectory, until: Micros, others: usize) {
        let swept = leg.blocks();
        for other in others..self.legs.len() {
            let Some(theirs) = self.legs[other].filter(|_| other != shuttle) else { continue };
            if !swept.shares_a_shelf_with(theirs.blocks()) || self.far_apart(leg, &theirs) {
                continue;
            }
            let from = leg.start.max(theirs.start);
            let distance_um = least_distance_um(leg, &theirs, from, until);
            if distance_um < self.spacing_um - TOLERANCE_UM {
                self.count += 1;
                let (first, second) = (shuttle.min(other) as u16, shuttle.max(other) as u16);
                let meeting = Meeting { first: Shuttle(first), second: Shuttle(second), from, until, distance_um };
                self.first.get_or_insert(meeting);
            }
        }
    }

    /// True if all places of the two legs are further apart than the spacing.
    fn far_apart(&self, a: &Trajectory, b: &Trajectory) -> bool {
        let gap_um = (a.from.x_um.min(a.to.x_um) - b.from.x_um.max(b.to.x_um)).max(b.from.x_um.min(b.to.x_um) - a.from.x_um.max(a.to.x_um));
        gap_um as f64 >= self.spacing_um
    }
}

impl MotionLog for NoTwoShuttlesMeet {
    fn leg(&mut self, shuttle: Shuttle, leg: &Trajectory) {
        let shuttle = usize::from(shuttle.0);
        if let Some(last) = self.legs[shuttle] {
            self.compare(shuttle, &last, leg.start, 0);
        }
        self.legs[shuttle] = Some(*leg);
    }
}

/// The least distance of two shuttles between two instants while both are on one shelf; infinite if
/// they never are, negative if they changed sides.
fn least_distance_um(a: &Trajectory, b: &Trajectory, from: Micros, until: Micros) -> f64 {
    let (mut least, mut side) = (f64::INFINITY, 0.0_f64);
    // Two legs share shelves during a single interval, so changing sides within it is a meeting.
    for (a_place, a_from, a_to) in phases(a) {
        for (b_place, b_from, b_to) in phases(b) {
            let (low, high) = (from.max(a_from).max(b_from), until.min(a_to).min(b_to));
            // If one phase ends as the other begins, one shuttle leaves the shelf as the other
            // arrives.
            if low >= high || !a_place.shares_a_shelf_with(b_place) {
                continue;
            }
            for a_piece in pieces_within(a, low, high) {
                for b_piece in pieces_within(b, low, high) {
                    least = least.min(least_in_pieces(&a_piece, &b_piece, &mut side));
                }
            }
        }
    }
    least
}

/// The phases of a leg, in motion and standing at its end: the blocked place with its start and
/// end.
fn phases(leg: &Trajectory) -> [(Footprint, Micros, Micros); 2] {
    let end = leg.end();
    [(leg.blocks(), leg.start, end), (leg.to, end, Micros::NEVER)]
}

/// The pieces of a leg between two instants, in seconds since the first; the last piece is standing
/// after the end.
fn pieces_within(leg: &Trajectory, low: Micros, high: Micros) -> impl Iterator<Item = Piece> {
    let begin_s = low.since(leg.start).seconds();
    let length_s = high.since(low).seconds();
    let moving = leg.pieces();
    let stands = Piece { from_s: leg.seconds(), to_s: f64::INFINITY, x_um: leg.to.x_um as f64, speed: 0.0, acceleration: 0.0 };
    moving.into_iter().chain([stands]).filter_map(move |piece| {
        let (from_s, to_s) = (piece.from_s.max(begin_s), piece.to_s.min(begin_s + length_s));
        (from_s <= to_s).then(|| Piece {
            from_s: from_s - begin_s,
            to_s: to_s - begin_s,
            x_um: piece.x_at(from_s),
            speed: piece.speed + piece.acceleration * (from_s - piece.from_s),
            acceleration: piece.acceleration,
        })
    })
}

/// The least distance while both pieces are in force. `side` records on which side of the other
/// shuttle the first one started.
fn least_in_pieces(a: &Piece, b: &Piece, side: &mut f64) -> f64 {
    let (from, to) = (a.from_s.max(b.from_s), a.to_s.min(b.to_s));
    if from > to {
        return f64::INFINITY;
    }
    // Distance at `from` + t: constant + speed t + half t².
    let constant = a.x_at(from) - b.x_at(from);
    let speed = (a.speed + a.acceleration * (from - a.from_s)) - (b.speed + b.acceleration * (from - b.from_s));
    let half = 0.5 * (a.acceleration - b.acceleration);
    let at = |t: f64| constant + t * (speed + half * t);
    if *side == 0.0 {
        *side = if constant < 0.0 { -1.0 } else { 1.0 };
    }
    let length = to - from;
    let mut least = (*side * constant).min(*side * at(length));
    if half != 0.0 {
        let vertex = -speed / (2.0 * half);
        if vertex > 0.0 && vertex < length {
            least = least.min(*side * at(vertex));
        }
    }
    least
}
