//! Types with a unit: a number and its unit in one string. Bounds are quantities too: `rate("1
//! MB/s"..="1 GB/s")`.
//!
//! Times and lengths come in two types. [`duration`] and [`length`] are exact integers, for the
//! clock and the positions of the simulation; [`seconds`] and [`metres`] are reals, for formulas.

use std::ops::RangeBounds;

use fulgurite_domain::Micros;

use super::{InvalidValue, Limits, RawValue, SettingType, with_range};
use crate::quantity::{Dimension, QuantityError};
use crate::tree::{Value, quoted};

/// The Rust type of a quantity: real, or a whole number of base units.
pub trait QuantityValue: Copy + PartialOrd {
    /// Parses a quantity of this dimension.
    ///
    /// # Errors
    /// [`QuantityError`] if `text` is not a quantity of this dimension.
    fn parse(dimension: Dimension, text: &str) -> Result<Self, QuantityError>;
    /// Prints the value so that it reads back the same.
    fn print(self, dimension: Dimension) -> String;
    /// The value 0.
    fn zero() -> Self;
}

impl QuantityValue for f64 {
    fn parse(dimension: Dimension, text: &str) -> Result<Self, QuantityError> {
        dimension.parse_real(text)
    }

    fn print(self, dimension: Dimension) -> String {
        dimension.print_real(self)
    }

    fn zero() -> Self {
        0.0
    }
}

impl QuantityValue for u64 {
    fn parse(dimension: Dimension, text: &str) -> Result<Self, QuantityError> {
        dimension.parse_whole(text)
    }

    fn print(self, dimension: Dimension) -> String {
        dimension.print_whole(self)
    }

    fn zero() -> Self {
        0
    }
}

impl QuantityValue for i64 {
    fn parse(dimension: Dimension, text: &str) -> Result<Self, QuantityError> {
        i64::try_from(dimension.parse_whole(text)?).map_err(|_| QuantityError::TooLarge)
    }

    fn print(self, dimension: Dimension) -> String {
        dimension.print_whole(u64::try_from(self).expect("a quantity is not negative"))
    }

    fn zero() -> Self {
        0
    }
}

impl QuantityValue for Micros {
    fn parse(dimension: Dimension, text: &str) -> Result<Self, QuantityError> {
        dimension.parse_whole(text).map(Self)
    }

    fn print(self, dimension: Dimension) -> String {
        dimension.print_whole(self.0)
    }

    fn zero() -> Self {
        Self::ZERO
    }
}

/// A number with a unit, as a string; see [`Dimension`].
#[derive(Debug, Clone, Copy)]
pub struct Quantity<T> {
    dimension: Dimension,
    limits: Limits<T>,
}

impl<T: QuantityValue> Quantity<T> {
    /// A type for this dimension and range.
    ///
    /// # Panics
    /// If a bound is not a quantity of this dimension: a programming error.
    fn new(dimension: Dimension, range: impl RangeBounds<&'static str>) -> Self {
        let bound = |text: &'static str| match T::parse(dimension, text) {
            Ok(value) => value,
            Err(error) => panic!("the bound {text:?} is not {}: {error}", dimension.noun()),
        };
        Self { dimension, limits: Limits::of(&range, bound) }
    }
}

impl<T: QuantityValue> SettingType for Quantity<T> {
    type Value = T;

    fn read(&self, raw: RawValue<'_>) -> Result<T, InvalidValue> {
        let unit = || {
            let unit = self.dimension.usual_unit();
            format!("it needs a unit and quotes, such as {}", quoted(&format!("{} {unit}", raw.value.found())))
        };
        let text = match raw.value {
            Value::Text(text) => text,
            Value::Whole(..) | Value::Real(..) => return Err(InvalidValue::new(self.expected(), raw, unit())),
            _ => return Err(InvalidValue::new(self.expected(), raw, "")),
        };
        let value = T::parse(self.dimension, text).map_err(|error| InvalidValue::new(self.expected(), raw, error.to_string()))?;
        if self.limits.contains(value) { Ok(value) } else { Err(InvalidValue::new(self.expected(), raw, "")) }
    }

    fn print(&self, value: &T) -> String {
        quoted(&value.print(self.dimension))
    }

    fn expected(&self) -> String {
        let range = self.range();
        let example = self.dimension.usual_unit();
        let example = if range.is_empty() { format!("such as \"1 {example}\"") } else { range };
        with_range(self.dimension.noun(), &example)
    }

    fn unit(&self) -> String {
        self.dimension.units().0.join(", ")
    }

    fn range(&self) -> String {
        self.limits.text(|bound| bound.print(self.dimension))
    }

    fn sample(&self) -> T {
        self.limits.sample(T::zero())
    }
}

/// A duration, in whole microseconds.
pub fn duration(range: impl RangeBounds<&'static str>) -> Quantity<Micros> {
    Quantity::new(Dimension::Duration, range)
}

/// A duration, in seconds and fractions of them.
pub fn seconds(range: impl RangeBounds<&'static str>) -> Quantity<f64> {
    Quantity::new(Dimension::Seconds, range)
}

/// A length, in whole micrometres.
pub fn length(range: impl RangeBounds<&'static str>) -> Quantity<i64> {
    Quantity::new(Dimension::Length, range)
}

/// A length, in metres and fractions of them.
pub fn metres(range: impl RangeBounds<&'static str>) -> Quantity<f64> {
    Quantity::new(Dimension::Metres, range)
}

/// An amount of data, in bytes.
pub fn bytes(range: impl RangeBounds<&'static str>) -> Quantity<u64> {
    Quantity::new(Dimension::Size, range)
}

/// A data rate, in bytes per second.
pub fn rate(range: impl RangeBounds<&'static str>) -> Quantity<f64> {
    Quantity::new(Dimension::Rate, range)
}

/// A frequency, in events per second.
pub fn frequency(range: impl RangeBounds<&'static str>) -> Quantity<f64> {
    Quantity::new(Dimension::Frequency, range)
}

/// A speed, in metres per second.
pub fn speed(range: impl RangeBounds<&'static str>) -> Quantity<f64> {
    Quantity::new(Dimension::Speed, range)
}

/// An acceleration, in metres per second squared.
pub fn acceleration(range: impl RangeBounds<&'static str>) -> Quantity<f64> {
    Quantity::new(Dimension::Acceleration, range)
}

/// A mass, in kilograms.
pub fn mass(range: impl RangeBounds<&'static str>) -> Quantity<f64> {
    Quantity::new(Dimension::Mass, range)
}

/// An energy, in joules.
pub fn energy(range: impl RangeBounds<&'static str>) -> Quantity<f64> {
    Quantity::new(Dimension::Energy, range)
}

/// An energy per length, in joules per metre.
pub fn drag(range: impl RangeBounds<&'static str>) -> Quantity<f64> {
    Quantity::new(Dimension::Drag, range)
}

/// A power, in watts.
pub fn power(range: impl RangeBounds<&'static str>) -> Quantity<f64> {
    Quantity::new(Dimension::Power, range)
}

/// A share of a whole, where 1 is all of it; written `15 %`.
pub fn share(range: impl RangeBounds<&'static str>) -> Quantity<f64> {
    Quantity::new(Dimension::Share, range)
}
