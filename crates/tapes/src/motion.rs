//! How long a drive takes to get from one position of a tape to another.
//!
//! ```text
//! beginning                                  end
//!   wrap 0  ------------------------------->
//!   wrap 1  <-------------------------------
//!   wrap 2  ------------------------------->
//! ```
//!
//! A tape is recorded in wraps, each in the opposite direction of the one before. So the distance
//! between two positions isn't the number of bytes between them: a position in the next wrap may be
//! right beside the head. A locate takes a fixed time, the time to wind the tape along, and more if
//! the head changes to another wrap, if the drive turns round, and if it must step back behind its
//! target because it reads in the other direction.
//!
//! Source of the terms: the cost heuristic of the CERN Tape Archive (`CTACostHeuristic`, fitted to
//! LTO-8), without its terms for bands and landing zones.

/// How a drive winds a tape.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Motion {
    /// Bytes of a full tape.
    pub capacity: u64,
    /// Number of wraps of a full tape.
    pub wraps: u64,
    /// Time of each locate, in seconds.
    pub locate_s: f64,
    /// Time to wind from the beginning to the end while locating.
    pub wind_s: f64,
    /// Time to change to another wrap.
    pub wrap_s: f64,
    /// Time to turn round.
    pub turn_s: f64,
    /// Time to step back behind a target.
    pub back_s: f64,
    /// Time to rewind from the end to the beginning.
    pub rewind_s: f64,
}

/// A position: bytes along all wraps, from the beginning of the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct TapePosition(pub u64);

impl Motion {
    /// Seconds from a position to another.
    #[must_use]
    pub fn locate(&self, from: TapePosition, to: TapePosition) -> f64 {
        if from == to {
            return 0.0;
        }
        let ((from_wrap, from_x), (to_wrap, to_x)) = (self.spot(from), self.spot(to));
        let (was_forward, reads_forward) = (from_wrap.is_multiple_of(2), to_wrap.is_multiple_of(2));
        let winds_forward = if to_x == from_x { reads_forward } else { to_x > from_x };
        let extra = |applies: bool, seconds: f64| if applies { seconds } else { 0.0 };
        self.locate_s
            + (to_x - from_x).abs() * self.wind_s
            + extra(to_wrap != from_wrap, self.wrap_s)
            + extra(winds_forward != was_forward, self.turn_s)
            + extra(winds_forward != reads_forward, self.back_s)
    }

    /// Seconds to rewind.
    #[must_use]
    pub fn rewind(&self, from: TapePosition) -> f64 {
        self.spot(from).1 * self.rewind_s
    }

    /// Bytes of a wrap.
    #[must_use]
    pub fn wrap_bytes(&self) -> u64 {
        (self.capacity / self.wraps).max(1)
    }

    /// The wrap, and the place along the tape from 0 to 1. A tape that is longer than its capacity
    /// has more wraps.
    fn spot(&self, position: TapePosition) -> (u64, f64) {
        let wrap = position.0 / self.wrap_bytes();
        let along = (position.0 % self.wrap_bytes()) as f64 / self.wrap_bytes() as f64;
        (wrap, if wrap.is_multiple_of(2) { along } else { 1.0 - along })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten wraps of 100 bytes.
    const MOTION: Motion =
        Motion { capacity: 1_000, wraps: 10, locate_s: 4.0, wind_s: 100.0, wrap_s: 7.0, turn_s: 5.0, back_s: 11.0, rewind_s: 80.0 };

    fn locate(from: u64, to: u64) -> f64 {
        MOTION.locate(TapePosition(from), TapePosition(to))
    }

    #[test]
    fn a_locate_costs_what_the_head_and_the_tape_have_to_do() {
        assert!(locate(30, 30).abs() < 1e-9);
        // Ahead in the same wrap.
        assert!((locate(30, 50) - (4.0 + 20.0)).abs() < 1e-9);
        // Behind: the drive turns round, and steps back.
        assert!((locate(50, 30) - (4.0 + 20.0 + 5.0 + 11.0)).abs() < 1e-9);
        // 170 is in the wrap that is read backwards, at 0.3 along the tape.
        assert!((locate(50, 170) - (4.0 + 20.0 + 7.0 + 5.0)).abs() < 1e-9);
        // At 0.7: it winds on, and reads in the other direction.
        assert!((locate(50, 130) - (4.0 + 20.0 + 7.0 + 11.0)).abs() < 1e-9);
        // From the backward wrap on, in its direction.
        assert!((locate(130, 170) - (4.0 + 40.0)).abs() < 1e-9);
    }

    #[test]
    fn rewinding_takes_as_long_as_the_place_is_away() {
        let rewind = |from| MOTION.rewind(TapePosition(from));
        assert!(rewind(0).abs() < 1e-9 && (rewind(50) - 40.0).abs() < 1e-9 && (rewind(190) - 8.0).abs() < 1e-9);
    }
}
