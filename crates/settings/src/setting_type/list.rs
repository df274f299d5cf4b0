//! Lists of values of one type.

use std::fmt;
use std::ops::RangeInclusive;

use super::{InvalidValue, RawValue, SettingType};
use crate::place::SourceSpan;
use crate::tree::Value;

/// Several values of one type.
#[derive(Debug, Clone)]
pub struct List<K> {
    element: K,
    lengths: RangeInclusive<usize>,
}

/// A list whose length is within `lengths`.
pub fn list<K: SettingType>(element: K, lengths: RangeInclusive<usize>) -> List<K> {
    List { element, lengths }
}

impl<K: SettingType> SettingType for List<K> {
    type Value = Vec<K::Value>;

    fn read(&self, raw: RawValue<'_>) -> Result<Self::Value, InvalidValue> {
        let Value::List(values) = raw.value else {
            return Err(InvalidValue::new(self.expected(), raw, ""));
        };
        if !self.lengths.contains(&values.len()) {
            return Err(InvalidValue::new(self.expected(), raw, ""));
        }
        let element = |(index, (place, value)): (usize, &(SourceSpan, Value))| {
            let at_element = |invalid| InvalidValue { place: Some(place.clone()), index: Some(index), ..invalid };
            self.element.read(RawValue { value, place }).map_err(at_element)
        };
        values.iter().enumerate().map(element).collect()
    }

    fn print(&self, values: &Self::Value) -> String {
        let values: Vec<_> = values.iter().map(|value| self.element.print(value)).collect();
        format!("[{}]", values.join(", "))
    }

    fn expected(&self) -> String {
        let (low, high) = (self.lengths.start(), self.lengths.end());
        match high {
            high if low == high => format!("a list of {high}, each {}", self.element.expected()),
            &usize::MAX => format!("a list of at least {low}, each {}", self.element.expected()),
            high => format!("a list of {low} to {high}, each {}", self.element.expected()),
        }
    }

    fn unit(&self) -> String {
        format!("list of {}", self.element.unit())
    }

    fn range(&self) -> String {
        let each = self.element.range();
        let (low, high) = (self.lengths.start(), self.lengths.end());
        let length = match high {
            high if low == high => format!("{high} values"),
            &usize::MAX => format!("at least {low} values"),
            high => format!("{low} to {high} values"),
        };
        if each.is_empty() { length } else { format!("{length}, each {each}") }
    }

    fn sample(&self) -> Self::Value {
        (0..*self.lengths.start()).map(|_| self.element.sample()).collect()
    }
}

/// A value for each hour of the day.
#[derive(Debug, Clone)]
pub struct PerHour<K>(List<K>);

/// 24 values, starting at midnight.
pub fn per_hour<K: SettingType>(element: K) -> PerHour<K> {
    PerHour(list(element, 24..=24))
}

impl<K: SettingType<Value: Clone + fmt::Debug>> SettingType for PerHour<K> {
    type Value = [K::Value; 24];

    fn read(&self, raw: RawValue<'_>) -> Result<Self::Value, InvalidValue> {
        let values = self.0.read(raw).map_err(|invalid| match invalid.place {
            Some(_) => invalid,
            None => InvalidValue { expected: self.expected(), ..invalid },
        })?;
        Ok(values.try_into().expect("the list has 24 values"))
    }

    fn print(&self, values: &Self::Value) -> String {
        self.0.print(&values.to_vec())
    }

    fn expected(&self) -> String {
        format!("a list of 24, one for each hour, each {}", self.0.element.expected())
    }

    fn unit(&self) -> String {
        format!("24 of {}", self.0.element.unit())
    }

    fn range(&self) -> String {
        self.0.element.range()
    }

    fn sample(&self) -> Self::Value {
        std::array::from_fn(|_| self.0.element.sample())
    }
}
