//! Types of settings: quantities, numbers, words, lists. A type parses a value, describes what it
//! accepts, and prints values back.

mod list;
mod plain;
mod quantities;

use std::ops::{Bound, RangeBounds};

pub use list::{List, PerHour, list, per_hour};
pub use plain::{Choice, Count, File, Flag, Number, Text, Whole, choice, count, file, flag, number, text};
pub use quantities::{
    Quantity, QuantityValue, acceleration, bytes, drag, duration, energy, frequency, length, mass, metres, power, rate, seconds, share,
    speed,
};

use super::error::Problem;
use super::place::SourceSpan;
use super::tree::Value;

/// The type of a setting, such as durations within a range. The functions of this module construct
/// types.
pub trait SettingType {
    /// The Rust type of its values.
    type Value;

    /// Reads a value.
    ///
    /// # Errors
    /// [`InvalidValue`] if the value is not of this type or not within its range.
    fn read(&self, raw: RawValue<'_>) -> Result<Self::Value, InvalidValue>;

    /// Prints a value as TOML that [`SettingType::read`] reads back as the same value; paths are
    /// relative to the current folder.
    fn print(&self, value: &Self::Value) -> String;

    /// What the type accepts, with article and range, for "expected ...".
    fn expected(&self) -> String;

    /// The unit, or what the type is called, for the reference page.
    fn unit(&self) -> String;

    /// Allowed values, for the reference page; empty if all are.
    fn range(&self) -> String {
        String::new()
    }

    /// A placeholder for an invalid or missing value until all errors are reported. It need not be
    /// within the range.
    fn sample(&self) -> Self::Value;
}

/// A value as the file has it, before it is parsed.
#[derive(Debug, Clone, Copy)]
pub struct RawValue<'a> {
    pub(super) value: &'a Value,
    pub(super) place: &'a SourceSpan,
}

/// Why a type rejects a value.
#[derive(Debug, Clone)]
pub struct InvalidValue {
    /// Position of the list element.
    place: Option<SourceSpan>,
    /// Index of the list element.
    index: Option<usize>,
    expected: String,
    found: String,
    hint: String,
}

impl InvalidValue {
    fn new(expected: String, raw: RawValue<'_>, hint: impl Into<String>) -> Self {
        Self { place: None, index: None, expected, found: raw.value.found(), hint: hint.into() }
    }

    pub(super) fn into_parts(self, setting: String, place: &SourceSpan) -> (SourceSpan, Problem) {
        let setting = self.index.map_or_else(|| setting.clone(), |index| format!("{setting}[{index}]"));
        let problem = Problem::Invalid { setting, expected: self.expected, found: self.found, hint: self.hint };
        (self.place.unwrap_or_else(|| place.clone()), problem)
    }
}

/// The range of accepted values.
#[derive(Debug, Clone, Copy)]
struct Limits<T> {
    low: Bound<T>,
    high: Bound<T>,
}

impl<T: PartialOrd + Copy> Limits<T> {
    fn of<S: Copy>(range: &impl RangeBounds<S>, read: impl Fn(S) -> T) -> Self {
        Self { low: range.start_bound().map(|bound| read(*bound)), high: range.end_bound().map(|bound| read(*bound)) }
    }

    fn contains(&self, value: T) -> bool {
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
