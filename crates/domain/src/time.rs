//! Time for the simulated and real machines: whole microseconds, supplied by the caller.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// An instant, in microseconds since the start of a run or the commissioning of a library; or a
/// duration. 64 bits last for 584,000 years, and integer sums are the same on every machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Micros(pub u64);

impl Micros {
    /// The first instant, and the zero duration.
    pub const ZERO: Self = Self(0);
    /// An instant that never comes.
    pub const NEVER: Self = Self(u64::MAX);
    /// One second.
    pub const SECOND: Self = Self(1_000_000);
    /// One hour.
    pub const HOUR: Self = Self(3_600_000_000);

    /// Rounds to the nearest microsecond; negative numbers and NaN become zero.
    #[must_use]
    pub fn from_seconds(seconds: f64) -> Self {
        Self((seconds * 1e6 + 0.5) as u64)
    }

    /// Converts to seconds, for reports.
    #[must_use]
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Time from `earlier` to this instant; zero if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Micros {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Micros {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Micros {
    type Output = Self;

    /// # Panics
    /// If `other` is later: durations are never negative.
    fn sub(self, other: Self) -> Self {
        Self(self.0.checked_sub(other.0).expect("subtracted a later instant from an earlier one"))
    }
}

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06} s", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_rounded_to_the_nearest_microsecond() {
        assert_eq!(Micros::from_seconds(1.234_567_4), Micros(1_234_567));
        assert_eq!(Micros::from_seconds(-1.0), Micros::ZERO);
        assert_eq!(Micros::from_seconds(f64::NAN), Micros::ZERO);
        assert_eq!(Micros(1_500_000).to_string(), "1.500000 s");
    }

    #[test]
    fn never_stays_never() {
        assert_eq!(Micros::NEVER + Micros::HOUR, Micros::NEVER);
    }
}
