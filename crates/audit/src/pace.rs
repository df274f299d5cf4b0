//! How fast a node is read: a budget of bytes and of files a second.
//!
//! A budget is a debt that time pays off. Spending returns how long to wait until the debt is
//! at most one second's worth, so that a pause isn't caught up with a burst later. `now` is any
//! time that doesn't go back.

use std::time::Duration;

/// A rate that may not be exceeded for longer than a second.
#[derive(Debug, Clone)]
pub struct Pace {
    per_second: Option<f64>,
    /// When all that was spent so far will be paid off.
    paid_off_at: Duration,
}

impl Pace {
    /// A pace of `per_second` units, or none at all.
    #[must_use]
    pub fn new(per_second: Option<u64>) -> Self {
        Self { per_second: per_second.map(|rate| rate.max(1) as f64), paid_off_at: Duration::ZERO }
    }

    /// Spends `units`, and returns how long to wait before more are spent.
    pub fn spend(&mut self, now: Duration, units: u64) -> Duration {
        let Some(rate) = self.per_second else { return Duration::ZERO };
        let cost = Duration::try_from_secs_f64(units as f64 / rate).unwrap_or(Duration::MAX / 4);
        self.paid_off_at = self.paid_off_at.max(now).saturating_add(cost);
        self.paid_off_at.saturating_sub(now + Duration::from_secs(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_reading_keeps_its_rate_to_within_a_second() {
        let mut pace = Pace::new(Some(1_000_000));
        let mut now = Duration::from_secs(100);
        let begun = now;
        for _ in 0..1_000 {
            now += pace.spend(now, 100_000);
        }
        let seconds = (now - begun).as_secs_f64();
        assert!((98.9..=99.1).contains(&seconds), "{seconds}");
    }

    #[test]
    fn an_idle_hour_allows_no_burst_afterwards() {
        let mut pace = Pace::new(Some(10));
        pace.spend(Duration::ZERO, 1);
        let later = Duration::from_secs(3_600);
        assert_eq!(pace.spend(later, 10), Duration::ZERO);
        assert_eq!(pace.spend(later, 10), Duration::from_secs(1));
    }

    #[test]
    fn without_a_rate_there_is_no_wait() {
        assert_eq!(Pace::new(None).spend(Duration::ZERO, u64::MAX), Duration::ZERO);
        assert!(Pace::new(Some(0)).spend(Duration::ZERO, u64::MAX) > Duration::from_secs(1_000_000));
    }
}
