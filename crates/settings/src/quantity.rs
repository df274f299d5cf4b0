//! Quantities: a number with a unit, such as `60 MB/s`, parsed without guessing and printed so that
//! they read back the same.
//!
//! ```text
//!  "1.5 TiB" -> 1.5, TiB  -> 1.5 x 2^40 bytes     durations, lengths and bytes: exact integers
//!  "60 MB/s" -> 60,  MB/s -> 60e6 bytes a second   all others: the nearest double, or a neighbour
//! ```
//!
//! Units are never guessed. `5 m` is rejected as a time, because it could mean minutes; `10 KB` is
//! rejected as a size, because some mean 1000 and some 1024.

use super::decimal::Decimal;

/// Physical dimension of a quantity. Each has one base unit in which the program counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dimension {
    /// Length of time, in whole microseconds.
    Duration,
    /// Length of time, in seconds and fractions of them.
    Seconds,
    /// Length, in whole micrometres.
    Length,
    /// Length, in metres and fractions of them.
    Metres,
    /// Data, in whole bytes.
    Size,
    /// Data rate, in bytes per second.
    Rate,
    /// Events per second.
    Frequency,
    /// In metres per second.
    Speed,
    /// In metres per second, per second.
    Acceleration,
    /// In kilograms.
    Mass,
    /// In joules.
    Energy,
    /// In joules per metre.
    Drag,
    /// In watts.
    Power,
    /// Part of a whole: 1 is all of it.
    Share,
}

/// Why a text is not a quantity of the expected dimension. The message completes a sentence that
/// names the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// The text doesn't start with a valid number.
    #[error("it does not start with a number")]
    NotANumber,
    /// The unit is missing.
    #[error("the unit is missing")]
    NoUnit,
    /// The unit belongs to another dimension, is unknown, or is ambiguous.
    #[error("{0}")]
    Unit(String),
    /// The number is negative.
    #[error("it is negative")]
    Negative,
    /// The value overflows.
    #[error("it is too large")]
    TooLarge,
    /// The value is not a multiple of the smallest unit.
    #[error("it is not a whole number of {0}")]
    TooFine(&'static str),
}

/// The base unit times `numerator / denominator`.
#[derive(Debug, Clone, Copy)]
struct Ratio {
    numerator: u128,
    denominator: u128,
}

const SECOND_US: u128 = 1_000_000;
/// In microseconds.
const TIME_UNITS: [(&str, u128); 9] = [
    ("us", 1),
    ("µs", 1),
    ("ms", 1_000),
    ("s", SECOND_US),
    ("min", 60 * SECOND_US),
    ("h", 3_600 * SECOND_US),
    ("d", 86_400 * SECOND_US),
    ("week", 7 * 86_400 * SECOND_US),
    // The Julian year.
    ("year", 31_557_600 * SECOND_US),
];
/// In micrometres.
const LENGTH_UNITS: [(&str, u128); 6] = [("um", 1), ("µm", 1), ("mm", 1_000), ("cm", 10_000), ("m", 1_000_000), ("km", 1_000_000_000)];
const SIZE_UNITS: [(&str, u128); 13] = [
    ("B", 1),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("PB", 1_000_000_000_000_000),
    ("EB", 1_000_000_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("PiB", 1 << 50),
    ("EiB", 1 << 60),
];
/// In millijoules.
const ENERGY_UNITS: [(&str, u128); 9] = [
    ("mJ", 1),
    ("J", 1_000),
    ("kJ", 1_000_000),
    ("MJ", 1_000_000_000),
    ("Wh", 3_600_000),
    ("W h", 3_600_000),
    ("kWh", 3_600_000_000),
    ("kW h", 3_600_000_000),
    ("MWh", 3_600_000_000_000),
];

fn look_up(table: &[(&str, u128)], unit: &str) -> Option<u128> {
    table.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor)
}

impl Ratio {
    fn new(numerator: u128, denominator: u128) -> Self {
        let (mut a, mut b) = (numerator, denominator);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        Self { numerator: numerator / a, denominator: denominator / a }
    }

    /// `number` of this unit in whole base units, exactly.
    fn whole(self, number: Decimal, base: &'static str) -> Result<u64, QuantityError> {
        let number = number.shortened();
        let power = 10_u128.checked_pow(number.exponent.unsigned_abs());
        let (over, under) = if number.exponent < 0 {
            // 10^38 is the largest power that fits; more places are finer than any base unit.
            (Some(number.digits), power.and_then(|power| power.checked_mul(self.denominator)).ok_or(QuantityError::TooFine(base))?)
        } else {
            (power.and_then(|power| power.checked_mul(number.digits)), self.denominator)
        };
        let over = over.and_then(|over| over.checked_mul(self.numerator)).ok_or(QuantityError::TooLarge)?;
        if !over.is_multiple_of(under) {
            return Err(QuantityError::TooFine(base));
        }
        // The limit leaves room for signed numbers, and keeps the last instants free for "never".
        i64::try_from(over / under).map(i64::cast_unsigned).map_err(|_| QuantityError::TooLarge)
    }

    /// Splits off powers of ten: a decimal number is multiplied by them without rounding.
    fn split(self) -> (i32, f64, f64) {
        let (mut numerator, mut denominator, mut tens) = (self.numerator, self.denominator, 0);
        while numerator.is_multiple_of(10) {
            (numerator, tens) = (numerator / 10, tens + 1);
        }
        while denominator.is_multiple_of(10) {
            (denominator, tens) = (denominator / 10, tens - 1);
        }
        (tens, numerator as f64, denominator as f64)
    }

    /// `number` of this unit, in base units.
    fn real(self, number: Decimal) -> Result<f64, QuantityError> {
        let (tens, numerator, denominator) = self.split();
        let value = Decimal { exponent: number.exponent + tens, ..number }.to_f64() * numerator / denominator;
        if value.is_finite() { Ok(value) } else { Err(QuantityError::TooLarge) }
    }

    /// A whole `value` as a number of this unit; `None` if that takes more than nine places.
    fn count_whole(self, value: u64) -> Option<Decimal> {
        let over = u128::from(value) * self.denominator;
        (0..=9).find_map(|places| {
            let over = over.checked_mul(10_u128.pow(places))?;
            let exponent = -(places as i32);
            over.is_multiple_of(self.numerator).then(|| Decimal { negative: false, digits: over / self.numerator, exponent })
        })
    }

    /// `value` as a number of this unit; `None` if no short number reads back as exactly the same.
    fn count_real(self, value: f64) -> Option<Decimal> {
        let (tens, numerator, denominator) = self.split();
        let number = if numerator == 1.0 && denominator == 1.0 {
            Decimal::of(value)
        } else {
            Decimal::parse(&format!("{:.11e}", value * denominator / numerator))?
        };
        let number = Decimal { exponent: number.exponent - tens, ..number };
        (self.real(number) == Ok(value)).then_some(number)
    }
}

impl Dimension {
    /// Name of the dimension with its article, for "expected ...".
    #[must_use]
    pub fn noun(self) -> &'static str {
        match self {
            Self::Duration | Self::Seconds => "a length of time",
            Self::Length | Self::Metres => "a length",
            Self::Size => "a number of bytes",
            Self::Rate => "bytes per time",
            Self::Frequency => "a number per time",
            Self::Speed => "a speed",
            Self::Acceleration => "an acceleration",
            Self::Mass => "a mass",
            Self::Energy => "an energy",
            Self::Drag => "an energy per length",
            Self::Power => "a power",
            Self::Share => "a share",
        }
    }

    /// The units for printing, and further units for values without a short form in the first.
    #[must_use]
    pub fn units(self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
            Self::Duration | Self::Seconds => (&["s", "min", "h", "d", "ms", "us"], &["week", "year"]),
            Self::Length | Self::Metres => (&["m", "mm", "cm", "km", "um"], &[]),
            Self::Size => (&["B", "kB", "MB", "GB", "TB", "PB", "EB", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"], &[]),
            Self::Rate => (
                &["B/s", "kB/s", "MB/s", "GB/s", "TB/s"],
                &["KiB/s", "MiB/s", "GiB/s", "MB/h", "GB/h", "TB/h", "GB/d", "TB/d", "PB/d", "TB/week", "TB/year", "PB/year"],
            ),
            Self::Frequency => (&["/s"], &["/min", "/h", "/d", "/week", "/year"]),
            Self::Speed => (&["m/s", "mm/s"], &["m/min", "km/h"]),
            Self::Acceleration => (&["m/s2", "mm/s2"], &[]),
            Self::Mass => (&["kg", "g"], &[]),
            Self::Energy => (&["J", "mJ", "kJ", "MJ"], &["Wh", "kWh", "MWh"]),
            Self::Drag => (&["J/m", "kJ/m"], &[]),
            Self::Power => (&["W", "mW", "kW"], &[]),
            Self::Share => (&["%", "ppm"], &[]),
        }
    }

    /// The unit used in examples.
    #[must_use]
    pub fn usual_unit(self) -> &'static str {
        match self {
            Self::Size => "MB",
            Self::Rate => "MB/s",
            _ => self.units().0[0],
        }
    }

    /// The base unit, if fractions of it are rejected; `None` if they are allowed.
    fn smallest(self) -> Option<&'static str> {
        match self {
            Self::Duration => Some("microseconds"),
            Self::Length => Some("micrometres"),
            Self::Size => Some("bytes"),
            _ => None,
        }
    }

    fn ratio(self, unit: &str) -> Option<Ratio> {
        let over = |factor, base| Some(Ratio::new(factor, base));
        match self {
            Self::Duration => over(look_up(&TIME_UNITS, unit)?, 1),
            Self::Seconds => over(look_up(&TIME_UNITS, unit)?, SECOND_US),
            Self::Length => over(look_up(&LENGTH_UNITS, unit)?, 1),
            Self::Metres => over(look_up(&LENGTH_UNITS, unit)?, 1_000_000),
            Self::Size => over(look_up(&SIZE_UNITS, unit)?, 1),
            Self::Energy => over(look_up(&ENERGY_UNITS, unit)?, 1_000),
            Self::Frequency if unit == "Hz" => over(1, 1),
            Self::Frequency => over(SECOND_US, look_up(&TIME_UNITS, unit.strip_prefix('/')?.trim_start())?),
            Self::Rate => {
                let (size, time) = quotient(unit)?;
                over(look_up(&SIZE_UNITS, size)? * SECOND_US, look_up(&TIME_UNITS, time)?)
            }
            Self::Speed => {
                let (length, time) = quotient(unit)?;
                over(look_up(&LENGTH_UNITS, length)?, look_up(&TIME_UNITS, time)?)
            }
            Self::Acceleration => {
                let (length, time) = quotient(unit)?;
                if !["s²", "s2", "s^2"].contains(&time) {
                    return None;
                }
                over(look_up(&LENGTH_UNITS, length)?, 1_000_000)
            }
            Self::Drag => {
                let (energy, length) = quotient(unit)?;
                // Millijoules per micrometre are thousands of joules per metre.
                over(look_up(&ENERGY_UNITS, energy)? * 1_000, look_up(&LENGTH_UNITS, length)?)
            }
            Self::Mass => over(look_up(&[("g", 1), ("kg", 1_000), ("t", 1_000_000)], unit)?, 1_000),
            Self::Power => over(look_up(&[("mW", 1), ("W", 1_000), ("kW", 1_000_000), ("MW", 1_000_000_000)], unit)?, 1_000),
            Self::Share => over(look_up(&[("ppm", 1), ("‰", 1_000), ("%", 10_000)], unit)?, 1_000_000),
        }
    }

    /// The error for an invalid unit: what was probably meant, or the valid units.
    fn unit_error(self, unit: &str) -> QuantityError {
        let parts = match self {
            Self::Duration | Self::Seconds => [Some(unit), None],
            Self::Size => [None, Some(unit)],
            Self::Rate => quotient(unit).map_or([None, Some(unit)], |(size, time)| [Some(time), Some(size)]),
            Self::Frequency => [Some(unit.trim_start_matches(['1', '/', ' '])), None],
            Self::Speed => [quotient(unit).map(|(_, time)| time), None],
            _ => [None, None],
        };
        let hint = parts[0].and_then(time_hint).or_else(|| parts[1].and_then(size_hint));
        if let Some(hint) = hint {
            return QuantityError::Unit(hint.to_owned());
        }
        let (first, more) = self.units();
        let units: Vec<_> = first.iter().chain(more).map(|unit| format!("`{unit}`")).collect();
        QuantityError::Unit(format!("units are {}", units.join(", ")))
    }

    fn number_and_ratio(self, text: &str) -> Result<(Decimal, Ratio), QuantityError> {
        let (number, rest) = Decimal::prefix(text.trim()).ok_or(QuantityError::NotANumber)?;
        let unit = rest.trim_start();
        if unit.is_empty() {
            return Err(QuantityError::NoUnit);
        }
        // `1,5 s` or `1.2.3 s`.
        if unit.starts_with(|c: char| c == ',' || c == '.' || c.is_ascii_digit()) && !unit.starts_with("1/") {
            return Err(QuantityError::Unit(format!("expected a unit after the number {number}; found `{}`", head(unit))));
        }
        // The micro sign and the Greek letter look the same.
        let unit = unit.replace('μ', "µ");
        let ratio = self.ratio(&unit).ok_or_else(|| self.unit_error(&unit))?;
        if number.negative && number.digits != 0 { Err(QuantityError::Negative) } else { Ok((number, ratio)) }
    }

    /// Parses a whole number of base units (microseconds, micrometres or bytes), at most
    /// `i64::MAX`.
    ///
    /// # Errors
    /// Any [`QuantityError`].
    ///
    /// # Panics
    /// If this dimension allows fractions.
    pub fn parse_whole(self, text: &str) -> Result<u64, QuantityError> {
        let smallest = self.smallest().expect("only time, length and bytes are whole numbers");
        let (number, ratio) = self.number_and_ratio(text)?;
        ratio.whole(number, smallest)
    }

    /// Parses a number of base units; the result is finite and not negative.
    ///
    /// # Errors
    /// [`QuantityError`], but never [`QuantityError::TooFine`].
    pub fn parse_real(self, text: &str) -> Result<f64, QuantityError> {
        let (number, ratio) = self.number_and_ratio(text)?;
        ratio.real(number)
    }

    /// The shortest form that [`Dimension::parse_whole`] reads as `value`.
    ///
    /// # Panics
    /// If this dimension allows fractions.
    #[must_use]
    pub fn print_whole(self, value: u64) -> String {
        assert!(self.smallest().is_some(), "only time, length and bytes are whole numbers");
        self.print(|ratio| ratio.count_whole(value), value == 0)
    }

    /// A short form that [`Dimension::parse_real`] reads as `value`.
    ///
    /// # Panics
    /// If `value` is not finite.
    #[must_use]
    pub fn print_real(self, value: f64) -> String {
        assert!(value.is_finite(), "{value} is no quantity");
        self.print(|ratio| ratio.count_real(value), value == 0.0)
    }

    fn print(self, count: impl Fn(Ratio) -> Option<Decimal>, is_zero: bool) -> String {
        const SHORT_CHARS_MAX: usize = 12;
        let (first, more) = self.units();
        if is_zero {
            return format!("0 {}", first[0]);
        }
        let shortest = |units: &[&str]| {
            let ratio = |unit: &str| self.ratio(unit).expect("a unit that is listed is known");
            units.iter().filter_map(|unit| Some(format!("{} {unit}", count(ratio(unit))?))).min_by_key(|text| text.chars().count())
        };
        let plain = shortest(first).expect("each dimension lists a unit in which all its values can be written");
        if plain.chars().count() <= SHORT_CHARS_MAX {
            return plain;
        }
        shortest(more).filter(|text| text.len() < plain.len()).unwrap_or(plain)
    }
}

fn quotient(unit: &str) -> Option<(&str, &str)> {
    unit.split_once('/').map(|(over, under)| (over.trim_end(), under.trim_start()))
}

fn head(text: &str) -> String {
    text.chars().take(20).collect()
}

fn time_hint(unit: &str) -> Option<&'static str> {
    Some(match unit {
        "m" | "M" | "mins" | "minute" | "minutes" | "Min" => "minutes are `min`",
        "sec" | "secs" | "second" | "seconds" | "S" => "seconds are `s`",
        "hr" | "hrs" | "hour" | "hours" | "H" => "hours are `h`",
        "day" | "days" | "D" => "days are `d`",
        "w" | "weeks" => "weeks are `week`",
        "a" | "y" | "yr" | "years" => "years are `year`",
        "mo" | "month" | "months" => "months differ in length; use days, `d`",
        _ => return None,
    })
}

fn size_hint(unit: &str) -> Option<&'static str> {
    Some(match unit {
        "byte" | "bytes" => "bytes are `B`",
        "k" | "K" | "KB" | "Kb" | "KIB" | "kiB" | "kib" => "`kB` are 1000 bytes, `KiB` are 1024",
        "M" | "MIB" | "Mib" | "mib" | "mB" => "`MB` are 1000^2 bytes, `MiB` are 1024^2",
        "G" | "GIB" | "Gib" | "gib" | "gB" => "`GB` are 1000^3 bytes, `GiB` are 1024^3",
        "T" | "TIB" | "Tib" | "tib" | "tB" => "`TB` are 1000^4 bytes, `TiB` are 1024^4",
        "P" | "PIB" | "Pib" | "pib" | "pB" => "`PB` are 1000^5 bytes, `PiB` are 1024^5",
        "b" | "bit" | "kb" | "Mb" | "mb" | "Gb" | "gb" | "Tb" | "tb" | "kbit" | "Mbit" | "Gbit" | "Tbit" => {
            "sizes are in bytes (`B`), not bits"
        }
        "kBps" | "MBps" | "GBps" | "MBPS" => "per second is `/s`",
        "B" | "kB" | "MB" | "GB" | "TB" | "PB" | "EB" | "KiB" | "MiB" | "GiB" | "TiB" | "PiB" | "EiB" => {
            "the unit of time is missing, as in `MB/s`"
        }
        _ => return None,
    })
}
