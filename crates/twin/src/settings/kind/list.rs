//! Kinds that hold several values of another kind.

use std::fmt;
use std::ops::RangeInclusive;

use super::{Kind, Refusal, Written};
use crate::settings::place::SourceSpan;
use crate::settings::tree::Value;

/// Several values of one kind.
#[derive(Debug, Clone)]
pub struct List<K> {
    of: K,
    lengths: RangeInclusive<usize>,
}

/// A list whose length is within `lengths`.
pub fn list<K: Kind>(of: K, lengths: RangeInclusive<usize>) -> List<K> {
    List { of, lengths }
}

impl<K: Kind> Kind for List<K> {
    type Value = Vec<K::Value>;

    fn read(&self, written: Written<'_>) -> Result<Self::Value, Refusal> {
        let Value::List(values) = written.value else {
            return Err(Refusal::new(self.expected(), written, ""));
        };
        if !self.lengths.contains(&values.len()) {
            return Err(Refusal::new(self.expected(), written, ""));
        }
        let element = |(index, (place, value)): (usize, &(SourceSpan, Value))| {
            let refused = |refusal| Refusal { place: Some(place.clone()), index: Some(index), ..refusal };
            self.of.read(Written { value, place }).map_err(refused)
        };
        values.iter().enumerate().map(element).collect()
    }

    fn print(&self, values: &Self::Value) -> String {
        let values: Vec<_> = values.iter().map(|value| self.of.print(value)).collect();
        format!("[{}]", values.join(", "))
    }

    fn expected(&self) -> String {
        let (low, high) = (self.lengths.start(), self.lengths.end());
        match high {
            high if low == high => format!("a list of {high}, each {}", self.of.expected()),
            &usize::MAX => format!("a list of at least {low}, each {}", self.of.expected()),
            high => format!("a list of {low} to {high}, each {}", self.of.expected()),
        }
    }

    fn unit(&self) -> String {
        format!("list of {}", self.of.unit())
    }

    fn range(&self) -> String {
        let each = self.of.range();
        let (low, high) = (self.lengths.start(), self.lengths.end());
        let length = match high {
            high if low == high => format!("{high} values"),
            &usize::MAX => format!("at least {low} values"),
            high => format!("{low} to {high} values"),
        };
        if each.is_empty() { length } else { format!("{length}, each {each}") }
    }

    fn sample(&self) -> Self::Value {
        (0..*self.lengths.start()).map(|_| self.of.sample()).collect()
    }
}

/// A value for each hour of the day.
#[derive(Debug, Clone)]
pub struct PerHour<K>(List<K>);

/// 24 values, starting at midnight.
pub fn per_hour<K: Kind>(of: K) -> PerHour<K> {
    PerHour(list(of, 24..=24))
}

impl<K: Kind<Value: Clone + fmt::Debug>> Kind for PerHour<K> {
    type Value = [K::Value; 24];

    fn read(&self, written: Written<'_>) -> Result<Self::Value, Refusal> {
        let values = self.0.read(written).map_err(|refusal| match refusal.place {
            Some(_) => refusal,
            None => Refusal { expected: self.expected(), ..refusal },
        })?;
        Ok(values.try_into().expect("the list has 24 values"))
    }

    fn print(&self, values: &Self::Value) -> String {
        self.0.print(&values.to_vec())
    }

    fn expected(&self) -> String {
        format!("a list of 24, one for each hour, each {}", self.0.of.expected())
    }

    fn unit(&self) -> String {
        format!("24 of {}", self.0.of.unit())
    }

    fn range(&self) -> String {
        self.0.of.range()
    }

    fn sample(&self) -> Self::Value {
        std::array::from_fn(|_| self.0.of.sample())
    }
}
