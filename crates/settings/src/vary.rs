//! Sweeps: settings with several values each, and all their combinations.
//!
//! ```text
//!   --vary drives.throughput="30 MB/s,60 MB/s" --vary shuttles.count=8..16:4
//!
//!   30 MB/s, 8   30 MB/s, 12   30 MB/s, 16   60 MB/s, 8   60 MB/s, 12   60 MB/s, 16        the last varies fastest
//! ```

use super::decimal::Decimal;
use super::document::{Override, argument_error, argument_origin, split_argument};
use super::error::SettingErrors;

/// A setting and the values it takes.
#[derive(Debug, Clone)]
pub struct Axis {
    name: String,
    values: Vec<Override>,
}

/// All combinations of the values of several axes.
#[derive(Debug, Clone)]
pub struct Sweep(Vec<Axis>);

impl Axis {
    /// Maximum number of values of one setting.
    const VALUES_MAX: usize = 10_000;

    /// Parses `name=values`: comma-separated values and ranges `first..last:step` with both ends
    /// included, such as `8,10,20..40:5` or `30..210:30 MB/s`.
    ///
    /// # Errors
    /// If the name, a value or a range is invalid, or if values are missing, repeated or too many.
    pub fn parse(argument: &str) -> Result<Self, SettingErrors> {
        const OPTION: &str = "--vary";
        let (name, text) = split_argument(OPTION, argument)?;
        let fail = |expected: &str, hint: String| Err(argument_error(&argument_origin(format!("{OPTION} {argument}")), expected, hint));
        let mut values: Vec<Override> = Vec::new();
        for item in split_at_commas(text) {
            let item = item.trim();
            if item.is_empty() {
                return fail("values between commas, or a range such as `8..40:4`", "one value is empty".to_owned());
            }
            let texts = match range(item) {
                None => vec![item.to_owned()],
                Some(Ok(texts)) => texts,
                Some(Err(hint)) => return fail("a range such as `8..40:4` or `30..210:30 MB/s`", hint),
            };
            for text in texts {
                if values.iter().any(|known| known.text() == text) {
                    return fail("each value once", format!("{text} is given twice"));
                }
                values.push(Override::new(OPTION, name, &text)?);
            }
            if values.len() > Self::VALUES_MAX {
                return fail(&format!("at most {} values", Self::VALUES_MAX), String::new());
            }
        }
        Ok(Self { name: values[0].name(), values })
    }

    /// The name of the setting.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its values.
    #[must_use]
    pub fn values(&self) -> &[Override] {
        &self.values
    }
}

impl Sweep {
    /// Parses the arguments of all `--vary` options.
    ///
    /// # Errors
    /// Those of [`Axis::parse`], a setting varied twice, and more than `points_max` combinations.
    pub fn parse<'a>(arguments: impl IntoIterator<Item = &'a str>, points_max: usize) -> Result<Self, SettingErrors> {
        let mut axes: Vec<Axis> = Vec::new();
        let mut points = 1_usize;
        for argument in arguments {
            let axis = Axis::parse(argument)?;
            let origin = argument_origin(format!("--vary {argument}"));
            if axes.iter().any(|known| known.name == axis.name) {
                return Err(argument_error(&origin, "each setting in one `--vary`", format!("`{}` is already varied", axis.name)));
            }
            points = points.saturating_mul(axis.values.len());
            if points > points_max {
                let hint = format!("this one makes it {points}");
                return Err(argument_error(&origin, &format!("at most {points_max} combinations"), hint));
            }
            axes.push(axis);
        }
        Ok(Self(axes))
    }

    /// The varied settings.
    #[must_use]
    pub fn axes(&self) -> &[Axis] {
        &self.0
    }

    /// Number of combinations; one if nothing varies.
    #[must_use]
    pub fn point_count(&self) -> usize {
        self.0.iter().map(|axis| axis.values.len()).product()
    }

    /// Each combination, one value per axis; the last axis varies fastest.
    pub fn points(&self) -> impl Iterator<Item = Vec<&Override>> {
        (0..self.point_count()).map(|mut index| {
            let mut point: Vec<_> =
                self.0.iter().rev().map(|axis| (&axis.values[index % axis.values.len()], index /= axis.values.len()).0).collect();
            point.reverse();
            point
        })
    }
}

/// Splits at commas outside of quotes and brackets.
fn split_at_commas(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth, mut quote) = (Vec::new(), 0, 0_usize, None);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), c) if open == c => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth = depth.saturating_sub(1),
            (None, ',') if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// The members of `first..last:step` in exact decimals; `None` if the text is not a range.
fn range(text: &str) -> Option<Result<Vec<String>, String>> {
    let (first, rest) = text.split_once("..")?;
    // A path may contain `..` too.
    let (first, first_unit) = number_and_unit(first)?;
    Some(members(first, first_unit, rest))
}

fn members(first: Decimal, first_unit: &str, rest: &str) -> Result<Vec<String>, String> {
    let (last, step) = rest.split_once(':').ok_or("it has no step after a `:`")?;
    let (last, last_unit) = number_and_unit(last).ok_or("its end is not a number")?;
    let (step, unit) = number_and_unit(step).ok_or("its step is not a number")?;
    if [first_unit, last_unit].iter().any(|given| !given.is_empty() && *given != unit) {
        return Err("its numbers have different units".to_owned());
    }
    let exponent = first.exponent.min(last.exponent).min(step.exponent);
    let too_far = "its numbers are too far apart";
    let scaled = |number: Decimal| number.scaled_to(exponent).ok_or(too_far);
    let (from, to, by) = (scaled(first)?, scaled(last)?, scaled(step)?);
    if by <= 0 || from > to {
        return Err("ranges ascend by a step above 0".to_owned());
    }
    let steps = to.checked_sub(from).ok_or(too_far)? / by;
    if steps >= Axis::VALUES_MAX as i128 {
        // As a difference of two numbers, `steps` can be the greatest of its type.
        return Err(format!("it has {} values, and at most {} are allowed", steps.unsigned_abs() + 1, Axis::VALUES_MAX));
    }
    let space = if unit.is_empty() { "" } else { " " };
    let member = |index| {
        let value: i128 = from + index * by;
        format!("{}{space}{unit}", Decimal { negative: value < 0, digits: value.unsigned_abs(), exponent })
    };
    Ok((0..=steps).map(member).collect())
}

fn number_and_unit(text: &str) -> Option<(Decimal, &str)> {
    Decimal::prefix(text.trim()).map(|(number, unit)| (number, unit.trim_start()))
}
