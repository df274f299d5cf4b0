//! Time averages of values that are constant between events: queue lengths, busy drives.

use fulgurite_domain::Micros;

/// A value that changes at instants, and its time average since the measurement began. Time never
/// goes back in a run: the methods panic if an instant is before the last change.
///
/// ```text
/// value  3 |      ____
///        1 |  ___|    |_______      average = area / time
///        0 |_|_______________|___
///            begin           now
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimeWeighted {
    begin: Micros,
    changed: Micros,
    value: f64,
    area: f64,
    largest: f64,
}

impl TimeWeighted {
    /// Begins measuring at this instant, with this value.
    #[must_use]
    pub fn new(begin: Micros, value: f64) -> Self {
        Self { begin, changed: begin, value, area: 0.0, largest: value }
    }

    /// Sets the value from this instant on.
    pub fn set(&mut self, at: Micros, value: f64) {
        self.area = self.area_until(at);
        self.changed = at;
        self.value = value;
        self.largest = self.largest.max(value);
    }

    /// Changes the value by `step`; see [`TimeWeighted::set`].
    pub fn change(&mut self, at: Micros, step: f64) {
        self.set(at, self.value + step);
    }

    /// Discards everything before this instant and keeps the value, as at the end of a warm-up.
    pub fn restart(&mut self, at: Micros) {
        assert!(at >= self.changed, "{at} is before the last change, at {}", self.changed);
        *self = Self::new(at, self.value);
    }

    /// The current value.
    #[must_use]
    pub fn value(&self) -> f64 {
        self.value
    }

    /// The largest value since the measurement began.
    #[must_use]
    pub fn largest(&self) -> f64 {
        self.largest
    }

    /// The integral of the value since the measurement began, in units of the value times seconds.
    #[must_use]
    pub fn integral(&self, until: Micros) -> f64 {
        self.area_until(until) / 1e6
    }

    /// The average from the beginning until this instant; `None` if no time has passed.
    #[must_use]
    pub fn average(&self, until: Micros) -> Option<f64> {
        let area = self.area_until(until);
        let time = until.since(self.begin).0;
        (time > 0).then(|| area / time as f64)
    }

    fn area_until(&self, at: Micros) -> f64 {
        assert!(at >= self.changed, "{at} is before the last change, at {}", self.changed);
        self.area + self.value * at.since(self.changed).0 as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_is_weighted_by_its_duration() {
        let mut queue = TimeWeighted::new(Micros(1_000_000), 0.0);
        queue.change(Micros(2_000_000), 1.0);
        queue.change(Micros(4_000_000), 2.0);
        queue.change(Micros(5_000_000), -3.0);
        assert_eq!(queue.average(Micros(6_000_000)), Some(1.0));
        assert_eq!(queue.integral(Micros(6_000_000)), 5.0);
        assert_eq!((queue.largest(), queue.value()), (3.0, 0.0));
    }

    #[test]
    fn a_restart_forgets_the_warm_up_and_keeps_the_value() {
        let mut busy = TimeWeighted::new(Micros::ZERO, 20.0);
        busy.set(Micros::SECOND, 5.0);
        busy.restart(Micros(3_000_000));
        assert_eq!((busy.average(Micros(3_000_000)), busy.largest()), (None, 5.0));
        assert_eq!(busy.average(Micros(4_000_000)), Some(5.0));
    }

    #[test]
    #[should_panic(expected = "before the last change")]
    fn time_never_goes_back() {
        let mut queue = TimeWeighted::new(Micros(2), 0.0);
        queue.set(Micros(1), 1.0);
    }
}
