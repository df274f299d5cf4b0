//! The controller's estimates of how long motions take. Decisions use these estimates; real
//! durations come from events.

use fulgurite_domain::Micros;

use crate::Position;

/// Nominal speeds of shuttles.
///
/// Source: Project Silica (SOSP '23, section 7.1) describes a motion as acceleration, top speed,
/// deceleration, then always 0.5 s of fine positioning; one shelf takes at most 3.02 s, and a pick
/// 170 ms longer than a place. Top speed, acceleration and the time of a place are our proposals. A
/// track of 20 MB at 60 MB/s takes a third of a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// Top speed along a shelf in m/s.
    pub speed: f64,
    /// Acceleration and deceleration in m/s².
    pub acceleration: f64,
    /// Fine positioning at the end of each motion along a shelf.
    pub positioning: Micros,
    /// Crabbing one shelf up or down.
    pub crab: Micros,
    /// Picking a platter.
    pub pick: Micros,
    /// Placing a platter.
    pub place: Micros,
    /// Reading a track.
    pub track: Micros,
    /// Drive time per platter besides reading: switch, mount, seek, unmount.
    pub visit: Micros,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            speed: 1.0,
            acceleration: 0.5,
            positioning: Micros(500_000),
            crab: Micros(2_976_000),
            pick: Micros(2_170_000),
            place: Micros(2_000_000),
            track: Micros(333_333),
            visit: Micros(3_600_000),
        }
    }
}

impl Pace {
    /// Time for a distance along a shelf, fine positioning included; zero for no distance.
    #[must_use]
    pub fn along(&self, distance_um: i64) -> Micros {
        if distance_um == 0 {
            return Micros::ZERO;
        }
        self.positioning + self.ride(distance_um)
    }

    /// Time for a distance along a shelf without fine positioning: the speed profile is a
    /// trapezoid, or a triangle for short distances.
    #[must_use]
    pub fn ride(&self, distance_um: i64) -> Micros {
        let distance = distance_um.unsigned_abs() as f64 / 1e6;
        let (v, a) = (self.speed, self.acceleration);
        Micros::from_seconds(if distance >= v * v / a { distance / v + v / a } else { 2.0 * (distance / a).sqrt() })
    }

    /// Time after which a shuttle on a ride of `distance_um` has passed `part_um`, at these speeds.
    #[must_use]
    pub fn passes(&self, distance_um: i64, part_um: i64) -> Micros {
        let (distance, part) = (distance_um.unsigned_abs() as f64 / 1e6, part_um.unsigned_abs() as f64 / 1e6);
        if part >= distance {
            return self.ride(distance_um);
        }
        let peak = self.speed.min((distance * self.acceleration).sqrt());
        let (ramp, ramp_s) = (0.5 * peak * peak / self.acceleration, peak / self.acceleration);
        Micros::from_seconds(if part <= ramp {
            (2.0 * part / self.acceleration).sqrt()
        } else if part <= distance - ramp {
            ramp_s + (part - ramp) / peak
        } else {
            self.ride(distance_um).seconds() - (2.0 * (distance - part) / self.acceleration).sqrt()
        })
    }

    /// Time from one position to another: one ride along a shelf, plus a crab per shelf.
    #[must_use]
    pub fn travel(&self, from: Position, to: Position) -> Micros {
        let shelves = u64::from(from.shelf.abs_diff(to.shelf));
        Micros(self.along(to.x_um - from.x_um).0 + shelves * self.crab.0)
    }

    /// The least shuttle time for carrying a platter from `slot` to `door` and back: pick, carry,
    /// place, twice.
    #[must_use]
    pub fn handling(&self, slot: Position, door: Position) -> Micros {
        Micros(2 * (self.pick.0 + self.travel(slot, door).0 + self.place.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_rides_never_reach_top_speed() {
        let pace = Pace::default();
        // 0.5 m: 2 sqrt(0.5 / 0.5) = 2 s; 2 m: both formulas give 4 s; 5 m: 5 + 2 = 7 s; plus 0.5 s
        // each.
        assert_eq!(pace.along(500_000), Micros(2_500_000));
        assert_eq!(pace.along(-2_000_000), Micros(4_500_000));
        assert_eq!(pace.along(5_000_000), Micros(7_500_000));
        assert_eq!(pace.along(0), Micros::ZERO);
    }

    /// Distance covered after some time of a ride, in micrometres: the area below the speed
    /// profile.
    fn ridden(pace: &Pace, distance_um: i64, after: Micros) -> i64 {
        let (distance, t) = (distance_um.unsigned_abs() as f64 / 1e6, after.seconds());
        let peak = pace.speed.min((distance * pace.acceleration).sqrt());
        let ramp = peak / pace.acceleration;
        let ridden = if t < ramp { 0.5 * pace.acceleration * t * t } else { 0.5 * peak * ramp + peak * (t - ramp) };
        let left = (pace.ride(distance_um).seconds() - t).max(0.0).min(ramp);
        (ridden.min(distance - 0.5 * pace.acceleration * left * left) * 1e6) as i64
    }

    #[test]
    fn passing_times_match_the_integrated_speed() {
        let pace = Pace::default();
        // 5 m take 7 s: 1 m while speeding up for 2 s, 3 m at 1 m/s, 1 m while braking.
        let passed = [0, 1_000_000, 3_000_000, 4_750_000, 5_000_000].map(|part| pace.passes(5_000_000, part));
        assert_eq!(passed.map(|at| at.0), [0, 2_000_000, 4_000_000, 6_000_000, 7_000_000]);
        for part in [1_000, 400_000, 1_500_000, 4_200_000, 4_999_000] {
            let back = ridden(&pace, 5_000_000, pace.passes(5_000_000, part));
            assert!((back - part).abs() < 10, "{part} um should be passed, but {back} um are");
        }
    }

    #[test]
    fn a_platter_two_metres_off_costs_a_shuttle_17_seconds() {
        let at = |x_um| Position { shelf: 3, x_um };
        assert_eq!(Pace::default().handling(at(4_000_000), at(2_000_000)), Micros(2 * (2_170_000 + 4_500_000 + 2_000_000)));
    }
}
