//! Where a shuttle is at any instant, exactly: each leg of its way is a [`Trajectory`] of at most three pieces, each of constant
//! acceleration.
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

/// Where a shuttle is: at a place along the shelves, on one of them, or between two, which it then both blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Micrometres from the left end of the panel to the middle of the shuttle.
    pub x_um: i64,
    /// The shelf, or the lower one of the two.
    pub low: u8,
    /// The shelf, or the upper one of the two.
    pub high: u8,
}

impl Place {
    /// On a shelf.
    #[must_use]
    pub fn level(position: Position) -> Self {
        Self { x_um: position.x_um, low: position.shelf, high: position.shelf }
    }

    /// The position, unless it is between two shelves.
    #[must_use]
    pub fn position(self) -> Option<Position> {
        (self.low == self.high).then_some(Position { shelf: self.low, x_um: self.x_um })
    }

    /// Whether a shuttle at one place and a shuttle at the other are on the same shelf, in part at least.
    #[must_use]
    pub fn shares_a_shelf_with(self, other: Self) -> bool {
        self.low <= other.high && other.low <= self.high
    }
}

/// How a leg goes on in time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Profile {
    /// It doesn't.
    Standing,
    /// Along a shelf: speeding up, at constant speed, slowing down as long as it sped up.
    Rail {
        /// Seconds of speeding up.
        ramp_s: f64,
        /// Seconds at constant speed.
        cruise_s: f64,
        /// In µm/s², negative towards the left.
        acceleration_um_s2: f64,
    },
    /// To a neighbouring shelf, blocking both.
    Crab {
        /// How long it takes.
        seconds: f64,
    },
}

/// One leg of a shuttle's way; when it is over, the shuttle stands at its end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trajectory {
    /// When it sets out.
    pub start: Micros,
    /// From where.
    pub from: Place,
    /// To where.
    pub to: Place,
    /// How.
    pub profile: Profile,
}

/// A stretch of constant acceleration: at `t` seconds after `from_s`, x is `x_um` + `speed` t + `acceleration` t² / 2.
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
    /// Standing at a place from an instant on.
    #[must_use]
    pub fn standing(start: Micros, at: Place) -> Self {
        Self { start, from: at, to: at, profile: Profile::Standing }
    }

    /// Along a shelf.
    #[must_use]
    pub fn along(start: Micros, from: Place, to: Place, motion: &Motion) -> Self {
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

    /// To a neighbouring shelf.
    #[must_use]
    pub fn crab(start: Micros, from: Place, to: Place, seconds: f64) -> Self {
        Self { start, from, to, profile: Profile::Crab { seconds } }
    }

    /// How long the shuttle moves, in seconds. Fine positioning is no part of it.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        match self.profile {
            Profile::Standing => 0.0,
            Profile::Rail { ramp_s, cruise_s, .. } => 2.0 * ramp_s + cruise_s,
            Profile::Crab { seconds } => seconds,
        }
    }

    /// When the shuttle stands again, to the nearest microsecond.
    #[must_use]
    pub fn end(&self) -> Micros {
        self.start + Micros::from_seconds(self.seconds())
    }

    /// The highest speed on the way along the shelf, in m/s.
    #[must_use]
    pub fn peak_m_s(&self) -> f64 {
        match self.profile {
            Profile::Rail { ramp_s, acceleration_um_s2, .. } => ramp_s * acceleration_um_s2.abs() * 1e-6,
            Profile::Standing | Profile::Crab { .. } => 0.0,
        }
    }

    /// Where the shuttle is: before the start at its beginning, after the end at its end.
    #[must_use]
    pub fn position_at(&self, now: Micros) -> Place {
        if now >= self.end() {
            return self.to;
        }
        let at = now.since(self.start).seconds();
        match self.profile {
            Profile::Standing => self.to,
            Profile::Crab { .. } if now <= self.start => self.from,
            Profile::Crab { .. } => self.blocks(),
            Profile::Rail { .. } => {
                let x = self.pieces().iter().find(|piece| at <= piece.to_s).map_or(self.to.x_um as f64, |piece| piece.x_at(at));
                // Places are never negative, so that cutting off rounds to the nearest.
                Place { x_um: (x + 0.5) as i64, ..self.from }
            }
        }
    }

    /// Everything between the two ends that is blocked on the way: the shelves of both.
    pub(crate) fn blocks(&self) -> Place {
        Place { x_um: self.from.x_um, low: self.from.low.min(self.to.low), high: self.from.high.max(self.to.high) }
    }

    /// The motion along the shelf, in order; empty pieces are among them.
    pub(crate) fn pieces(&self) -> [Piece; 3] {
        let still = |from_s, to_s, x_um| Piece { from_s, to_s, x_um, speed: 0.0, acceleration: 0.0 };
        let from = self.from.x_um as f64;
        match self.profile {
            Profile::Standing | Profile::Crab { .. } => {
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
    /// At this many seconds since the trajectory's start.
    pub(crate) fn x_at(&self, seconds: f64) -> f64 {
        let t = seconds - self.from_s;
        self.x_um + t * (self.speed + 0.5 * self.acceleration * t)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(x_um: i64) -> Place {
        Place { x_um, low: 3, high: 3 }
    }

    #[test]
    fn a_long_leg_takes_its_distance_at_top_speed_and_one_ramp() {
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
    fn a_short_leg_never_gets_to_top_speed() {
        let leg = Trajectory::along(Micros::ZERO, at(500_000), at(0), &Motion::default());
        // 2 sqrt(0.5 / 0.5)
        assert_eq!(leg.end(), Micros(2_000_000));
        assert_eq!(leg.position_at(Micros(1_000_000)), at(250_000));
        assert!((leg.peak_m_s() - 0.5).abs() < 1e-12);
    }

    #[test]
    fn there_and_back_are_mirror_images() {
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
    fn crabbing_blocks_both_shelves_until_it_is_over() {
        let leg = Trajectory::crab(Micros::ZERO, at(7), Place { x_um: 7, low: 4, high: 4 }, 3.0);
        assert_eq!(leg.position_at(Micros::ZERO), at(7));
        assert_eq!(leg.position_at(Micros(1)), Place { x_um: 7, low: 3, high: 4 });
        assert_eq!(leg.position_at(Micros(2_999_999)), Place { x_um: 7, low: 3, high: 4 });
        assert_eq!(leg.position_at(Micros(3_000_000)), Place { x_um: 7, low: 4, high: 4 });
    }
}
