//! Axes: the quantity, its scale, and the range that a panel shows.

use super::PlotError;
use super::ticks::Quantity;

/// Values above this part of the largest are far from zero.
pub(super) const FAR_FROM_ZERO: f64 = 0.4;

/// An axis of a panel. Its range follows the data unless set. A linear axis of non-negative values
/// begins at zero unless all values are far from it.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    pub(super) title: String,
    pub(super) quantity: Quantity,
    pub(super) log: bool,
    pub(super) low: Option<f64>,
    pub(super) high: Option<f64>,
}

impl Axis {
    /// An axis of plain numbers. The unit goes into the title, in brackets; it is empty for a
    /// count.
    #[must_use]
    pub fn new(title: &str, unit: &str) -> Self {
        let title = if unit.is_empty() { title.into() } else { format!("{title} ({unit})") };
        Self::of(title, Quantity::Number)
    }

    /// An axis of time: values in seconds, ticks in common units such as 15 min or 1 h.
    #[must_use]
    pub fn seconds(title: &str) -> Self {
        Self::of(title.into(), Quantity::Seconds)
    }

    /// An axis of shares: values 0.0 to 1.0, ticks in percent.
    #[must_use]
    pub fn share(title: &str) -> Self {
        Self::of(title.into(), Quantity::Share)
    }

    /// An axis of bytes, with ticks in kB, MB and so on, in steps of 1000.
    #[must_use]
    pub fn bytes(title: &str) -> Self {
        Self::of(title.into(), Quantity::Bytes)
    }

    /// An axis of bytes, with ticks in KiB, MiB and so on, in steps of 1024.
    #[must_use]
    pub fn binary_bytes(title: &str) -> Self {
        Self::of(title.into(), Quantity::BinaryBytes)
    }

    /// An axis of named categories, for bars and grids.
    #[must_use]
    pub fn categories(title: &str, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self::of(title.into(), Quantity::Categories(names.into_iter().map(Into::into).collect()))
    }

    fn of(title: String, quantity: Quantity) -> Self {
        Self { title, quantity, log: false, low: None, high: None }
    }

    /// Makes the scale logarithmic.
    #[must_use]
    pub fn log(mut self) -> Self {
        self.log = true;
        self
    }

    /// Sets the lower end.
    #[must_use]
    pub fn from(mut self, low: f64) -> Self {
        self.low = Some(low);
        self
    }

    /// Sets the upper end.
    #[must_use]
    pub fn to(mut self, high: f64) -> Self {
        self.high = Some(high);
        self
    }

    pub(super) fn names(&self) -> Option<&[String]> {
        match &self.quantity {
            Quantity::Categories(names) => Some(names),
            _ => None,
        }
    }

    /// The range to show for these values. `snug` leaves little room at the ends, as on the
    /// horizontal axis of lines; `grounded` always includes zero, as bars must.
    pub(super) fn range(&self, values: impl Iterator<Item = f64>, snug: bool, grounded: bool) -> Result<(f64, f64), PlotError> {
        if let Some(names) = self.names() {
            return Ok((-0.5, names.len() as f64 - 0.5));
        }
        let (mut low, mut high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        if low > high {
            (low, high) = (self.low.unwrap_or(1.0), self.high.unwrap_or(1.0));
        }
        let (low, high) = if self.log { log_range(low, high) } else { linear_range(low, high, snug, grounded) };
        let (low, high) = (self.low.unwrap_or(low), self.high.unwrap_or(high));
        let usable = low < high && low.is_finite() && high.is_finite() && (high - low).is_finite() && (!self.log || low > 0.0);
        if usable { Ok((low, high)) } else { Err(PlotError::Range { axis: self.title.clone(), low, high }) }
    }
}

fn log_range(low: f64, high: f64) -> (f64, f64) {
    if high / low < 1.0 + 1e-9 {
        return (low / 3.0, high * 3.0);
    }
    // 4 % of the axis at either end.
    let room = libm::exp(0.04 * (libm::log(high) - libm::log(low))).max(1.02);
    (low / room, high * room)
}

fn linear_range(low: f64, high: f64, snug: bool, grounded: bool) -> (f64, f64) {
    let (mut low, mut high) = (low, high);
    let from_zero = low >= 0.0 && (grounded || low == 0.0 || low < FAR_FROM_ZERO * high);
    let to_zero = high <= 0.0 && (grounded || high > FAR_FROM_ZERO * low) && low < 0.0;
    if from_zero {
        low = 0.0;
    }
    if to_zero {
        high = 0.0;
    }
    if high - low <= 1e-12 * high.abs().max(low.abs()) {
        let room = if high == 0.0 { 1.0 } else { 0.5 * high.abs() };
        return (low - if from_zero { 0.0 } else { room }, high + room);
    }
    let room = (high - low) * if snug { 0.025 } else { 0.06 };
    (if from_zero { 0.0 } else { low - room }, if to_zero { 0.0 } else { high + room })
}

/// An axis in place: maps values to positions on the picture.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) log: bool,
    pub(super) start: f64,
    pub(super) end: f64,
}

impl Scale {
    pub(super) fn place(&self, value: f64) -> f64 {
        let part = if self.log {
            (libm::log(value) - libm::log(self.low)) / (libm::log(self.high) - libm::log(self.low))
        } else {
            (value - self.low) / (self.high - self.low)
        };
        // Positions far outside are clipped anyway, and picture formats limit the size of numbers.
        self.start + part.clamp(-10.0, 10.0) * (self.end - self.start)
    }
}
