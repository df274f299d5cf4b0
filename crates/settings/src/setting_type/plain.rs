//! Types without a unit: numbers, flags, words and text.

use std::fmt::Display;
use std::ops::{RangeBounds, RangeInclusive};
use std::path::PathBuf;

use super::{InvalidValue, Limits, RawValue, SettingType, with_range};
use crate::document::beside;
use crate::suggest;
use crate::tree::{Value, quoted};

/// A number without a unit.
#[derive(Debug, Clone, Copy)]
pub struct Number(Limits<f64>);

/// A finite number without a unit.
pub fn number(range: impl RangeBounds<f64>) -> Number {
    Number(Limits::of(&range, |bound| bound))
}

impl SettingType for Number {
    type Value = f64;

    fn read(&self, raw: RawValue<'_>) -> Result<f64, InvalidValue> {
        let (value, hint) = match raw.value {
            Value::Real(value, _) => (*value, ""),
            Value::Whole(Some(value), _) => (*value as f64, ""),
            Value::Whole(None, _) => (f64::INFINITY, ""),
            Value::Text(text) if text.parse::<f64>().is_ok() => (f64::NAN, "numbers take no quotes"),
            Value::Text(_) => (f64::NAN, "this setting has no unit"),
            _ => (f64::NAN, ""),
        };
        if value.is_finite() && self.0.contains(value) { Ok(value) } else { Err(InvalidValue::new(self.expected(), raw, hint)) }
    }

    fn print(&self, value: &f64) -> String {
        format!("{value:?}")
    }

    fn expected(&self) -> String {
        with_range("a number", &self.range())
    }

    fn unit(&self) -> String {
        "number".to_owned()
    }

    fn range(&self) -> String {
        self.0.text(|bound| bound.to_string())
    }

    fn sample(&self) -> f64 {
        self.0.sample(0.0)
    }
}

/// Integers that fit 128 bits and are written without a fraction.
pub trait Whole: Copy + PartialOrd + Display + TryFrom<i128> {}

impl<T: Copy + PartialOrd + Display + TryFrom<i128>> Whole for T {}

/// A whole number without a unit.
#[derive(Debug, Clone)]
pub struct Count<T>(RangeInclusive<T>);

/// A whole number from a range, such as `1..=40_u16`.
pub fn count<T: Whole>(range: RangeInclusive<T>) -> Count<T> {
    Count(range)
}

impl<T: Whole> SettingType for Count<T> {
    type Value = T;

    fn read(&self, raw: RawValue<'_>) -> Result<T, InvalidValue> {
        let invalid = |hint| InvalidValue::new(self.expected(), raw, hint);
        match raw.value {
            Value::Whole(Some(value), _) => T::try_from(*value).ok().filter(|value| self.0.contains(value)).ok_or_else(|| invalid("")),
            Value::Text(text) if text.parse::<i128>().is_ok() => Err(invalid("numbers take no quotes")),
            _ => Err(invalid("")),
        }
    }

    fn print(&self, value: &T) -> String {
        value.to_string()
    }

    fn expected(&self) -> String {
        with_range("a whole number", &self.range())
    }

    fn unit(&self) -> String {
        "whole number".to_owned()
    }

    fn range(&self) -> String {
        format!("{} to {}", self.0.start(), self.0.end())
    }

    fn sample(&self) -> T {
        *self.0.start()
    }
}

/// Yes or no.
#[derive(Debug, Clone, Copy)]
pub struct Flag;

/// `true` or `false`.
#[must_use]
pub fn flag() -> Flag {
    Flag
}

impl SettingType for Flag {
    type Value = bool;

    fn read(&self, raw: RawValue<'_>) -> Result<bool, InvalidValue> {
        match raw.value {
            Value::Flag(value) => Ok(*value),
            _ => Err(InvalidValue::new(self.expected(), raw, "")),
        }
    }

    fn print(&self, value: &bool) -> String {
        value.to_string()
    }

    fn expected(&self) -> String {
        "true or false".to_owned()
    }

    fn unit(&self) -> String {
        "true or false".to_owned()
    }

    fn sample(&self) -> bool {
        false
    }
}

/// One of several words.
#[derive(Debug, Clone)]
pub struct Choice<'a, T>(&'a [(&'static str, T)]);

/// One of these words, each with the value it denotes.
///
/// # Panics
/// If the list is empty.
pub fn choice<'a, T: Clone + PartialEq>(words: &'a [(&'static str, T)]) -> Choice<'a, T> {
    assert!(!words.is_empty(), "a choice of nothing");
    Choice(words)
}

impl<T: Clone + PartialEq> SettingType for Choice<'_, T> {
    type Value = T;

    fn read(&self, raw: RawValue<'_>) -> Result<T, InvalidValue> {
        let Value::Text(text) = raw.value else {
            return Err(InvalidValue::new(self.expected(), raw, ""));
        };
        self.0.iter().find(|(word, _)| word == text).map(|(_, value)| value.clone()).ok_or_else(|| {
            let near = suggest::nearest(text, self.0.iter().map(|(word, _)| *word));
            InvalidValue::new(self.expected(), raw, near.map_or_else(String::new, |word| format!("did you mean \"{word}\"?")))
        })
    }

    fn print(&self, value: &T) -> String {
        let word = self.0.iter().find(|(_, known)| known == value).map(|(word, _)| word);
        quoted(word.expect("a setting with a choice has one of its values"))
    }

    fn expected(&self) -> String {
        let words: Vec<_> = self.0.iter().map(|(word, _)| format!("\"{word}\"")).collect();
        match words.split_last() {
            Some((last, first)) if !first.is_empty() => format!("{} or {last}", first.join(", ")),
            _ => words.concat(),
        }
    }

    fn unit(&self) -> String {
        "word".to_owned()
    }

    fn range(&self) -> String {
        self.expected()
    }

    fn sample(&self) -> T {
        self.0[0].1.clone()
    }
}

/// Any text.
#[derive(Debug, Clone, Copy)]
pub struct Text;

/// Any text, such as a title.
#[must_use]
pub fn text() -> Text {
    Text
}

impl SettingType for Text {
    type Value = String;

    fn read(&self, raw: RawValue<'_>) -> Result<String, InvalidValue> {
        match raw.value {
            Value::Text(text) => Ok(text.clone()),
            _ => Err(InvalidValue::new(self.expected(), raw, "")),
        }
    }

    fn print(&self, value: &String) -> String {
        quoted(value)
    }

    fn expected(&self) -> String {
        "a quoted string".to_owned()
    }

    fn unit(&self) -> String {
        "text".to_owned()
    }

    fn sample(&self) -> String {
        String::new()
    }
}

/// The path of a file.
#[derive(Debug, Clone, Copy)]
pub struct File;

/// The path of a file, relative to the folder of the file that names it, or to the current
/// folder on the command line.
#[must_use]
pub fn file() -> File {
    File
}

impl SettingType for File {
    type Value = PathBuf;

    fn read(&self, raw: RawValue<'_>) -> Result<PathBuf, InvalidValue> {
        match raw.value {
            Value::Text(text) if !text.is_empty() && raw.place.origin.is_file => Ok(beside(raw.place.name(), text).into()),
            Value::Text(text) if !text.is_empty() => Ok(text.into()),
            _ => Err(InvalidValue::new(self.expected(), raw, "")),
        }
    }

    fn print(&self, value: &PathBuf) -> String {
        quoted(&value.to_string_lossy())
    }

    fn expected(&self) -> String {
        "a quoted file path".to_owned()
    }

    fn unit(&self) -> String {
        "path".to_owned()
    }

    fn sample(&self) -> PathBuf {
        PathBuf::new()
    }
}
