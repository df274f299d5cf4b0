//! How long a check should take, and what the measured time says.
//!
//! A node answers after a time that hardly depends on the size, and then delivers bytes at its
//! rate: expected = base + bytes x slope, for each node and method. Times are `f64` seconds, which
//! hold a year to within 4 ns, and slopes are nanoseconds for each byte, as operators quote them.
//! Measured times are [`Duration`]s, so that a time is never negative or not a number.
//!
//! Source: the benchmark matrix of the California Digital Library (2025), with its values for three
//! providers.

mod fit;

use std::time::Duration;

pub use fit::{Fit, FitError, Fitted, Identified};

/// The time a check should take, as a function of the file's size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Expectation {
    base_s: f64,
    slope_ns: f64,
}

/// These numbers can't be an expectation.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error(
    "unusable expectation of {base_s} s and {slope_ns} ns for each byte: the base must be at least 0.000001 s and at most a year, the slope 0 to 1e9 ns"
)]
pub struct ExpectationError {
    /// The base that was given, in seconds.
    pub base_s: f64,
    /// The slope that was given, in nanoseconds for each byte.
    pub slope_ns: f64,
}

impl Expectation {
    /// A node at the San Diego Supercomputer Center.
    pub const SDSC: Self = Self { base_s: 0.6, slope_ns: 24.0 };
    /// A node at Wasabi.
    pub const WASABI: Self = Self { base_s: 1.5, slope_ns: 55.0 };
    /// A node at Amazon S3.
    pub const S3: Self = Self { base_s: 0.2, slope_ns: 28.0 };

    /// An expectation of `base_s` seconds, and `slope_ns` nanoseconds for each byte.
    ///
    /// # Errors
    /// If a number is not finite or is out of range. The base must not be 0: a file without bytes
    /// takes some time too, and every ratio must be finite.
    pub fn new(base_s: f64, slope_ns: f64) -> Result<Self, ExpectationError> {
        let is_usable = (1e-6..=31_557_600.0).contains(&base_s) && (0.0..=1e9).contains(&slope_ns);
        if is_usable { Ok(Self { base_s, slope_ns }) } else { Err(ExpectationError { base_s, slope_ns }) }
    }

    /// Seconds until the first byte.
    #[must_use]
    pub fn base_s(&self) -> f64 {
        self.base_s
    }

    /// Nanoseconds for each byte.
    #[must_use]
    pub fn slope_ns(&self) -> f64 {
        self.slope_ns
    }

    /// Seconds that a check of a file of this size should take; never 0.
    #[must_use]
    pub fn seconds(&self, bytes: u64) -> f64 {
        self.base_s + bytes as f64 * self.slope_ns * 1e-9
    }

    /// Measured time divided by expected time: 2.0 is twice as slow as expected.
    #[must_use]
    pub fn ratio(&self, bytes: u64, measured: Duration) -> f64 {
        measured.as_secs_f64() / self.seconds(bytes)
    }

    /// The verdict on one check.
    #[must_use]
    pub fn judge(&self, bytes: u64, outcome: Outcome) -> Verdict {
        match outcome {
            Outcome::Right(measured) => Verdict::of_ratio(self.ratio(bytes, measured)),
            Outcome::WrongBytes => Verdict::Error,
            Outcome::Unanswered => Verdict::Unanswered,
        }
    }
}

/// What a check found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The right bytes, after this time.
    Right(Duration),
    /// Bytes of the wrong length or digest, or a node that states that there is no such file. How
    /// fast that came doesn't matter.
    WrongBytes,
    /// No complete answer: a timeout, a refused connection, a fault of the node.
    Unanswered,
}

/// The verdict on one check, for people. Alarms come from [`slowdown`](crate::slowdown), because
/// single slow checks are common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The expected time or less.
    Pass,
    /// More than the expected time.
    Info,
    /// More than twice the expected time.
    Warn,
    /// More than three times the expected time.
    Fail,
    /// Wrong bytes, or none.
    Error,
    /// No answer, so neither the bytes nor the time are known.
    Unanswered,
}

impl Verdict {
    /// All verdicts, in the order of their stored numbers.
    pub const ALL: [Self; 6] = [Self::Pass, Self::Info, Self::Warn, Self::Fail, Self::Error, Self::Unanswered];

    /// The verdict on a ratio of measured to expected time.
    #[must_use]
    pub fn of_ratio(ratio: f64) -> Self {
        match ratio {
            _ if ratio <= 1.0 => Self::Pass,
            _ if ratio <= 2.0 => Self::Info,
            _ if ratio <= 3.0 => Self::Warn,
            _ => Self::Fail,
        }
    }

    /// A short name for reports, as in the benchmark matrix.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pass => "PASS",
            Self::Info => "INFO",
            Self::Warn => "WARN",
            Self::Fail => "FAIL",
            Self::Error => "ERROR",
            Self::Unanswered => "UNANSWERED",
        }
    }

    /// The number that stands for it in databases.
    #[must_use]
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The verdict of a stored number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HUNDRED_MIB: u64 = 104_857_600;

    #[test]
    fn published_sizes_have_the_published_expectations() {
        for (expectation, seconds) in [(Expectation::SDSC, 3.116_582_4), (Expectation::WASABI, 7.267_168), (Expectation::S3, 3.136_012_8)] {
            let found = expectation.seconds(HUNDRED_MIB);
            assert!((found - seconds).abs() < 1e-12, "{found} instead of {seconds}");
        }
        // The published record: 113 s instead of 7 s, "16 times".
        assert_eq!(Expectation::WASABI.ratio(HUNDRED_MIB, Duration::from_secs(113)).round(), 16.0);
    }

    #[test]
    fn verdicts_change_just_above_one_two_and_three_times_the_expected_time() {
        let expectation = Expectation::new(0.5, 0.0).unwrap();
        for (micros, verdict) in [
            (0, Verdict::Pass),
            (500_000, Verdict::Pass),
            (500_001, Verdict::Info),
            (1_000_000, Verdict::Info),
            (1_000_001, Verdict::Warn),
            (1_500_000, Verdict::Warn),
            (1_500_001, Verdict::Fail),
        ] {
            let found = expectation.judge(HUNDRED_MIB, Outcome::Right(Duration::from_micros(micros)));
            assert_eq!(found, verdict, "{micros} us");
        }
        assert_eq!(expectation.judge(0, Outcome::WrongBytes).name(), "ERROR");
        assert_eq!(expectation.judge(0, Outcome::Unanswered).name(), "UNANSWERED");
        assert_eq!(expectation.judge(u64::MAX, Outcome::Right(Duration::MAX)), Verdict::Fail);
    }

    #[test]
    fn expectations_that_would_divide_by_zero_or_infinity_are_rejected() {
        for (base_s, slope_ns) in
            [(0.0, 24.0), (-1.0, 24.0), (f64::NAN, 24.0), (0.6, -1.0), (0.6, f64::NAN), (f64::INFINITY, 0.0), (0.6, 1e10)]
        {
            let error = Expectation::new(base_s, slope_ns).unwrap_err();
            assert!(error.to_string().contains("ns for each byte"), "{error}");
        }
        assert!(Expectation::new(1e-6, 0.0).is_ok());
    }
}
