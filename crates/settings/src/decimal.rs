//! Decimal numbers as written: digits and a power of ten, without the rounding of binary fractions.
//!
//! `0.1 s` is exactly 100,000 µs, and the range `0.1..0.5:0.1` has the member `0.3` and not
//! `0.30000000000000004`.

use std::fmt;

/// `digits` times ten to the power of `exponent`, with a sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Decimal {
    pub(super) negative: bool,
    pub(super) digits: u128,
    pub(super) exponent: i32,
}

/// No setting needs larger exponents, and doubles end at 308.
const EXPONENT_MAX: i32 = 400;
/// Longer numbers are written with an exponent.
const PLAIN_DIGITS: i32 = 17;

impl Decimal {
    /// Parses the number at the start of `text` and returns it with the rest; `None` if the text
    /// doesn't start with a number, or its digits or its exponent are out of range.
    pub(super) fn prefix(text: &str) -> Option<(Self, &str)> {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let negative = text.starts_with('-');
        let (mut digits, mut exponent, mut seen, mut point) = (0_u128, 0_i32, false, false);
        let mut rest = unsigned;
        while let Some(&byte) = rest.as_bytes().first() {
            let next = rest.as_bytes().get(1);
            match byte {
                b'0'..=b'9' => {
                    digits = digits.checked_mul(10)?.checked_add(u128::from(byte - b'0'))?;
                    exponent -= i32::from(point);
                    seen = true;
                }
                // As in TOML, a point or an underscore must be between digits.
                b'.' if seen && !point && next.is_some_and(u8::is_ascii_digit) => point = true,
                b'_' if seen && next.is_some_and(u8::is_ascii_digit) => {}
                _ => break,
            }
            rest = &rest[1..];
        }
        if !seen {
            return None;
        }
        if let Some(power) = rest.strip_prefix(['e', 'E']) {
            let sign = usize::from(power.starts_with(['+', '-']));
            let length = sign + power[sign..].bytes().take_while(u8::is_ascii_digit).count();
            // An `e` without digits starts a unit, not an exponent: `5 EB`.
            if length > sign {
                exponent = exponent.checked_add(power[..length].parse().ok()?)?;
                rest = &power[length..];
            }
        }
        (exponent.abs() <= EXPONENT_MAX).then_some((Self { negative, digits, exponent }, rest))
    }

    /// Parses a text that is entirely a number, such as the start of a range.
    pub(super) fn parse(text: &str) -> Option<Self> {
        Self::prefix(text).filter(|(_, rest)| rest.is_empty()).map(|(decimal, _)| decimal)
    }

    /// The shortest decimal number that reads back as this double.
    ///
    /// # Panics
    /// If it is not finite.
    pub(super) fn of(value: f64) -> Self {
        Self::parse(&format!("{value:e}")).expect("a finite double has at most 17 digits and an exponent of three")
    }

    /// The nearest double; infinite if the number is too large.
    pub(super) fn to_f64(self) -> f64 {
        let sign = if self.negative { "-" } else { "" };
        format!("{sign}{}e{}", self.digits, self.exponent).parse().expect("digits and an exponent are a number")
    }

    /// The number as a multiple of ten to the power of `exponent`; `None` if the result overflows
    /// or has a fraction.
    pub(super) fn scaled_to(self, exponent: i32) -> Option<i128> {
        let shift = 10_i128.checked_pow(u32::try_from(self.exponent.checked_sub(exponent)?).ok()?)?;
        let value = i128::try_from(self.digits).ok()?.checked_mul(shift)?;
        Some(if self.negative { -value } else { value })
    }

    /// Removes trailing zeros from the digits.
    pub(super) fn shortened(mut self) -> Self {
        while self.digits != 0 && self.digits.is_multiple_of(10) {
            self.digits /= 10;
            self.exponent += 1;
        }
        if self.digits == 0 { Self { negative: false, digits: 0, exponent: 0 } } else { self }
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { negative, digits, exponent } = self.shortened();
        let mut text = digits.to_string();
        let whole_digits = text.len() as i32 + exponent;
        if exponent > 0 && whole_digits <= PLAIN_DIGITS {
            text.extend(std::iter::repeat_n('0', exponent as usize));
        } else if exponent < 0 && whole_digits > 0 {
            text.insert(whole_digits as usize, '.');
        } else if exponent < 0 && -exponent <= PLAIN_DIGITS {
            text = format!("0.{}{text}", "0".repeat(-whole_digits as usize));
        } else if exponent != 0 {
            text = format!("{text}e{exponent}");
        }
        write!(f, "{}{text}", if negative { "-" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn parsing_a_number_stops_at_its_unit() {
        let cases = [
            ("60 MB/s", Some(("60", " MB/s"))),
            ("1_000.50min", Some(("1000.5", "min"))),
            ("-2.5e-3", Some(("-0.0025", ""))),
            ("+5EB", Some(("5", "EB"))),
            ("5e", Some(("5", "e"))),
            ("5.", Some(("5", "."))),
            ("1,5 s", Some(("1", ",5 s"))),
            ("1e25", Some(("1e25", ""))),
            (".5", None),
            ("s", None),
            ("", None),
            ("NaN", None),
            ("1e999999999999", None),
            ("1e401", None),
            ("9999999999999999999999999999999999999999", None),
        ];
        for (text, expected) in cases {
            let found = Decimal::prefix(text).map(|(decimal, rest)| (decimal.to_string(), rest));
            assert_eq!(found, expected.map(|(number, rest)| (number.to_owned(), rest)), "{text}");
        }
    }

    proptest! {
        #[test]
        fn printed_decimals_read_back_the_same(negative: bool, digits in 0..u128::MAX / 10, exponent in -380..360_i32) {
            let decimal = Decimal { negative, digits, exponent }.shortened();
            prop_assert_eq!(Decimal::parse(&decimal.to_string()).map(Decimal::shortened), Some(decimal));
        }

        #[test]
        fn every_finite_double_round_trips_through_a_decimal(bits: u64) {
            let value = f64::from_bits(bits);
            prop_assume!(value.is_finite());
            prop_assert_eq!(Decimal::of(value).to_f64(), value);
            prop_assert_eq!(Decimal::parse(&Decimal::of(value).to_string()).unwrap().to_f64(), value);
        }
    }
}
