//! Kinds of settings: quantities, numbers, words, lists. A kind parses a value, describes what it
//! accepts, and prints values back.

mod list;
mod measured;
mod plain;

use std::ops::{Bound, RangeBounds};

pub use list::{List, PerHour, list, per_hour};
pub use measured::{
    Counted, Quantity, acceleration, bytes, drag, duration, energy, frequency, length, mass, metres, power, rate, seconds, share, speed,
};
pub use plain::{Choice, Count, File, Flag, Number, Text, Whole, choice, count, file, flag, number, text};

use super::error::Problem;
use super::place::SourceSpan;
use super::tree::Value;

/// A kind of values, such as durations within a range. The functions of this module construct
/// kinds.
pub trait Kind {
    /// The type that the program uses.
    type Value;

    /// Reads a value.
    ///
    /// # Errors
    /// [`Refusal`] if the value is not of this kind.
    fn read(&self, written: Written<'_>) -> Result<Self::Value, Refusal>;

    /// Prints a value as TOML that [`Kind::read`] reads back as the same value.
    fn print(&self, value: &Self::Value) -> String;

    /// What the kind accepts, with article and range, for "expected ...".
    fn expected(&self) -> String;

    /// Unit or type, for the reference page.
    fn unit(&self) -> String;

    /// Allowed values, for the reference page; empty if all are.
    fn range(&self) -> String {
        String::new()
    }

    /// A valid value. It replaces an invalid one until all errors are reported.
    fn sample(&self) -> Self::Value;
}

/// A value as written in a scenario.
#[derive(Debug, Clone, Copy)]
pub struct Written<'a> {
    pub(super) value: &'a Value,
    pub(super) place: &'a SourceSpan,
}

/// Why a kind rejects a value.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// Position of the list element.
    place: Option<SourceSpan>,
    /// Index of the list element.
    index: Option<usize>,
    expected: String,
    found: String,
    hint: String,
}

impl Refusal {
    fn new(expected: String, written: Written<'_>, hint: impl Into<String>) -> Self {
        Self { place: None, index: None, expected, found: written.value.found(), hint: hint.into() }
    }

    pub(super) fn into_parts(self, setting: String, place: &SourceSpan) -> (SourceSpan, Problem) {
        let setting = self.index.map_or_else(|| setting.clone(), |index| format!("{setting}[{index}]"));
        let problem = Problem::Refused { setting, expected: self.expected, found: self.found, hint: self.hint };
        (self.place.unwrap_or_else(|| place.clone()), problem)
    }
}

#[derive(Debug, Clone, Copy)]
struct Limits<T> {
    low: Bound<T>,
    high: Bound<T>,
}

impl<T: PartialOrd + Copy> Limits<T> {
    fn of<S: Copy>(range: &impl RangeBounds<S>, read: impl Fn(S) -> T) -> Self {
        Self { low: range.start_bound().map(|bound| read(*bound)), high: range.end_bound().map(|bound| read(*bound)) }
    }

    fn admit(&self, value: T) -> bool {
        (self.low, self.high).contains(&value)
    }

    fn text(&self, print: impl Fn(T) -> String) -> String {
        use Bound::{Excluded, Included, Unbounded};
        match (self.low.map(&print), self.high.map(&print)) {
            (Unbounded, Unbounded) => String::new(),
            (Included(low), Unbounded) => format!("at least {low}"),
            (Excluded(low), Unbounded) => format!("above {low}"),
            (Unbounded, Included(high)) => format!("at most {high}"),
            (Unbounded, Excluded(high)) => format!("below {high}"),
            (Included(low), Included(high)) => format!("{low} to {high}"),
            (Included(low), Excluded(high)) => format!("at least {low} and below {high}"),
            (Excluded(low), Included(high)) => format!("above {low} and at most {high}"),
            (Excluded(low), Excluded(high)) => format!("above {low} and below {high}"),
        }
    }

    /// One of the bounds, or `otherwise` if the range is unbounded.
    fn sample(&self, otherwise: T) -> T {
        match (self.low, self.high) {
            (Bound::Included(value) | Bound::Excluded(value), _) | (Bound::Unbounded, Bound::Included(value) | Bound::Excluded(value)) => {
                value
            }
            (Bound::Unbounded, Bound::Unbounded) => otherwise,
        }
    }
}

fn with_range(noun: &str, range: &str) -> String {
    let comma = if range.is_empty() { "" } else { ", " };
    format!("{noun}{comma}{range}")
}
