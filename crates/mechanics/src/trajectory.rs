//! Exact positions of a shuttle over time: each leg is a [`Trajectory`] of at most three pieces of
//! constant acceleration.
//!
//! ```text
//!   speed                                   speed
//!     v |    ________________                 |
//!       |   /                \                |   /\          d < v²/a: no time to get to v
//!       |  /                  \               |  /  \
//!       | /                    \              | /    \
//!       '---------------------------> t       '------------> t
//!        ramp     cruise      ramp
//! ```

use fulgurite_domain::Micros;
use fulgurite_library::Position;

use crate::Motion;

/// What a shuttle occupies: a position along the shelves, on one shelf or between two, in which
/// case it blocks both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Footprint {
    /// Micrometres from the left end of the panel to the middle of the shuttle.
    pub x_um: i64,
    /// The shelf, or the lower one of the two.
    pub low: u8,
    /// The shelf, or the upper one of the two.
    pub high: u8,
}

impl Footprint {
    /// On one shelf.
    #[must_use]
    pub fn level(position: Position) -> Self {
        Self { x_um: position.x_um, low: position.shelf, high: position.shelf }
    }

    /// The position; `None` between two shelves.
    #[must_use]
    pub fn position(self) -> Option<Position> {
        (self.low == self.high).then_some(Position { shelf: self.low, x_um: self.x_um })
    }

    /// True if the two share a shelf, at least in part.
    #[must_use]
    pub fn shares_a_shelf_with(self, other: Self) -> bool {
        self.low <= other.high && other.low <= self.high
    }
}

/// Motion profile of a leg.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Profile {
    /// No motion.
    Stationary,
    /// Along a shelf: acceleration, constant speed, deceleration as long as the acceleration.
    Rail {
        /// Seconds of acceleration.
        ramp_s: f64,
        /// Seconds at constant speed.
        cruise_s: f64,
        /// In µm/s², negative to the left.
        acceleration_um_s2: f64,
    },
    /// To a neighbouring shelf, blocking both.
    Crab {
        /// Duration in seconds.
        seconds: f64,
    },
}

/// One leg of a shuttle; after its end, the shuttle stands at its target.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trajectory {
    /// Start of the leg.
    pub start: Micros,
    /// Start place.
    pub from: Footprint,
    /// Target place.
    pub to: Footprint,
    /// Motion profile.
    pub profile: Profile,
}

/// A stretch of constant acceleration: at `t` seconds after `from_s`, x is `x_um` + `speed` t +
/// `acceleration` t² / 2.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    /// Seconds since the trajectory's start.
    pub(crate) from_s: f64,
    /// Seconds since the trajectory's start.
    pub(crate) to_s: f64,
    pub(crate) x_um: f64,
    pub(crate) speed: f64,
    pub(crate) acceleration: f64,
}

impl Trajectory {
    /// Stands at a place from an instant on.
    #[must_use]
    pub fn stationary(start: Micros, at: Footprint) -> Self {
        Self { start, from: at, to: at, profile: Profile::Stationary }
    }

    /// Moves along a shelf.
    #[must_use]
    pub fn along(start: Micros, from: Footprint, to: Footprint, motion: &Motion) -> Self {
        let distance = (to.x_um - from.x_um).unsigned_abs() as f64 * 1e-6;
        let (speed, acceleration) = (motion.speed_m_s, motion.acceleration_m_s2);
        let (ramp_s, cruise_s) = if distance * acceleration >= speed * speed {
            (speed / acceleration, distance / speed - speed / acceleration)
        } else {
            ((distance / acceleration).sqrt(), 0.0)
        };
        let towards = if to.x_um < from.x_um { -1e6 } else { 1e6 };
        Self { start, from, to, profile: Profile::Rail { ramp_s, cruise_s, acceleration_um_s2: towards * acceleration } }
    }

    /// Changes to a neighbouring shelf.
    #[must_use]
    pub fn crab(start: Micros, from: Footprint, to: Footprint, seconds: f64) -> Self {
        Self { start, from, to, profile: Profile::Crab { seconds } }
    }

    /// Duration of the motion in seconds, without fine positioning.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        match self.profile {
            Profile::Stationary => 0.0,
            Profile::Rail { ramp_s, cruise_s, .. } => 2.0 * ramp_s + cruise_s,
            Profile::Crab { seconds } => seconds,
        }
    }

    /// End of the motion, rounded to the nearest microsecond.
    #[must_use]
    pub fn end(&self) -> Micros {
        self.start + Micros::from_seconds(self.seconds())
    }

    /// Peak speed along the shelf, in m/s.
    #[must_use]
    pub fn peak_m_s(&self) -> f64 {
        match self.profile {
            Profile::Rail { ramp_s, acceleration_um_s2, .. } => ramp_s * acceleration_um_s2.abs() * 1e-6,
            Profile::Stationary | Profile::Crab { .. } => 0.0,
        }
    }

    /// The place of the shuttle: its start before the leg begins, its target after the leg ends.
    #[must_use]
    pub fn position_at(&self, now: Micros) -> Footprint {
        if now >= self.end() {
            return self.to;
        }
        let at = now.since(self.start).seconds();
        match self.profile {
            Profile::Stationary => self.to,
            Profile::Crab { .. } if now <= self.start => self.from,
            Profile::Crab { .. } => self.blocks(),
            Profile::Rail { .. } => {
                let x = self.pieces().iter().find(|piece| at <= piece.to_s).map_or(self.to.x_um as f64, |piece| piece.x_at(at));
                // Positions are never negative, so truncation rounds to the nearest.
                Footprint { x_um: (x + 0.5) as i64, ..self.from }
            }
        }
    }

    /// The shelves of both ends, which are blocked during the motion.
    pub(crate) fn blocks(&self) -> Footprint {
        Footprint { x_um: self.from.x_um, low: self.from.low.min(self.to.low), high: self.from.high.max(self.to.high) }
    }

    /// The motion along the shelf, in order; some pieces may be empty.
    pub(crate) fn pieces(&self) -> [Piece; 3] {
        let still = |from_s, to_s, x_um| Piece { from_s, to_s, x_um, speed: 0.0, acceleration: 0.0 };
        let from = self.from.x_um as f64;
        match self.profile {
            Profile::Stationary | Profile::Crab { .. } => {
                let end = self.seconds();
                [still(0.0, end, from), still(end, end, from), still(end, end, from)]
            }
            Profile::Rail { ramp_s, cruise_s, acceleration_um_s2: acceleration } => {
                let peak = acceleration * ramp_s;
                let ramp_um = 0.5 * peak * ramp_s;
                let (cruise, brake) = (ramp_s, ramp_s + cruise_s);
                [
                    Piece { from_s: 0.0, to_s: cruise, x_um: from, speed: 0.0, acceleration },
                    Piece { from_s: cruise, to_s: brake, x_um: from + ramp_um, speed: peak, acceleration: 0.0 },
                    Piece {
                        from_s: brake,
                        to_s: brake + ramp_s,
                        x_um: from + ramp_um + peak * cruise_s,
                        speed: peak,
                        acceleration: -acceleration,
                    },
                ]
            }
        }
    }
}

impl Piece {
    /// Position at this many seconds since the trajectory's start.
    pub(crate) fn x_at(&self, seconds: f64) -> f64 {
        let t = seconds - self.from_s;
        self.x_um + t * (self.speed + 0.5 * self.acceleration * t)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(x_um: i64) -> Footprint {
        Footprint { x_um, low: 3, high: 3 }
    }

    #[test]
    fn a_long_leg_takes_its_distance_at_top_speed_plus_one_ramp() {
        let leg = Trajectory::along(Micros::SECOND, at(1_000_000), at(9_000_000), &Motion::default());
        assert_eq!(leg.end(), Micros(11_000_000));
        assert_eq!(leg.position_at(Micros(3_000_000)), at(2_000_000));
        assert_eq!(leg.position_at(Micros(6_000_000)), at(5_000_000));
        assert_eq!(leg.position_at(Micros(9_000_000)), at(8_000_000));
        assert_eq!(leg.position_at(Micros(20_000_000)), at(9_000_000));
        assert_eq!(leg.position_at(Micros::ZERO), at(1_000_000));
        assert!((leg.peak_m_s() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_short_leg_never_reaches_top_speed() {
        let leg = Trajectory::along(Micros::ZERO, at(500_000), at(0), &Motion::default());
        // 2 sqrt(0.5 / 0.5)
        assert_eq!(leg.end(), Micros(2_000_000));
        assert_eq!(leg.position_at(Micros(1_000_000)), at(250_000));
        assert!((leg.peak_m_s() - 0.5).abs() < 1e-12);
    }

    #[test]
    fn opposite_legs_are_mirror_images() {
        let (there, back) = (at(123_457), at(7_654_321));
        let out = Trajectory::along(Micros::ZERO, there, back, &Motion::default());
        let home = Trajectory::along(Micros::ZERO, back, there, &Motion::default());
        assert_eq!(out.end(), home.end());
        for step in 0..=100 {
            let time = Micros(out.end().0 * step / 100);
            let sum = out.position_at(time).x_um + home.position_at(time).x_um;
            assert!((sum - there.x_um - back.x_um).abs() <= 1, "at {time}: {sum}");
        }
    }

    #[test]
    fn crabbing_blocks_both_shelves_until_it_ends() {
        let leg = Trajectory::crab(Micros::ZERO, at(7), Footprint { x_um: 7, low: 4, high: 4 }, 3.0);
        assert_eq!(leg.position_at(Micros::ZERO), at(7));
        assert_eq!(leg.position_at(Micros(1)), Footprint { x_um: 7, low: 3, high: 4 });
        assert_eq!(leg.position_at(Micros(2_999_999)), Footprint { x_um: 7, low: 3, high: 4 });
        assert_eq!(leg.position_at(Micros(3_000_000)), Footprint { x_um: 7, low: 4, high: 4 });
    }
}
