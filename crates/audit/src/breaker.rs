//! When a node is left alone: a circuit breaker.
//!
//! After some failures in a row the breaker opens, and no copy of the node is tried for a while.
//! Then one is, as a probe: if it fails too, the pause doubles. A node that asks for fewer requests
//! is left alone at once, for as long as it asks. The breaker knows no clock: `now` is any time
//! that doesn't go back.

use std::time::Duration;

/// Failures in a row that open the breaker. A node that fails half of its requests at random
/// reaches five in a row about once in 62 requests.
pub const FAILURES: u32 = 5;
/// The first pause, which doubles with each failed probe.
pub const FIRST_PAUSE: Duration = Duration::from_secs(15);
/// The longest pause.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(900);

/// A circuit breaker.
#[derive(Debug, Clone, Default)]
pub struct Breaker {
    failures: u32,
    /// Pauses since the last success.
    pauses: u32,
    open_until: Option<Duration>,
    probing: bool,
}

/// Whether a request may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission {
    /// It may.
    Granted,
    /// Not before this time.
    At(Duration),
    /// Not before the outcome of the probe is known.
    AfterProbe,
}

impl Breaker {
    /// Asks to start a request. If the pause is over, the first request is the probe.
    pub fn ask(&mut self, now: Duration) -> Permission {
        match self.open_until {
            None => Permission::Granted,
            Some(until) if now < until => Permission::At(until),
            Some(_) if self.probing => Permission::AfterProbe,
            Some(_) => {
                self.probing = true;
                Permission::Granted
            }
        }
    }

    /// Records that the node answered properly, whatever the answer says of the copy.
    pub fn succeeded(&mut self) {
        *self = Self::default();
    }

    /// Records that the node failed or didn't answer. `retry_after` is how long it asks to wait.
    /// Returns the pause, if the breaker opens.
    pub fn failed(&mut self, now: Duration, retry_after: Option<Duration>) -> Option<Duration> {
        self.failures += 1;
        let was_probe = std::mem::take(&mut self.probing);
        // Requests that were under way when the breaker opened change nothing, unless the node asks
        // for a longer pause.
        let already_open = self.open_until.is_some_and(|until| now < until);
        if retry_after.is_none() && (already_open || (self.failures < FAILURES && !was_probe)) {
            return None;
        }
        let pause = match retry_after {
            Some(wait) => wait.clamp(Duration::from_secs(1), LONGEST_PAUSE),
            None => FIRST_PAUSE.saturating_mul(1 << self.pauses.min(16)).min(LONGEST_PAUSE),
        };
        if retry_after.is_none() {
            self.pauses += 1;
        }
        let until = now + pause;
        self.open_until = Some(self.open_until.map_or(until, |earlier| earlier.max(until)));
        Some(pause)
    }

    /// Gives back a permission whose request was never made.
    pub fn forgone(&mut self) {
        self.probing = false;
    }

    /// True while requests are refused or only a probe is let through.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.open_until.is_some()
    }

    /// Pauses since the node last answered properly.
    #[must_use]
    pub fn pauses(&self) -> u32 {
        self.pauses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn opened(at: Duration) -> Breaker {
        let mut breaker = Breaker::default();
        for failure in 1..FAILURES {
            assert_eq!((failure, breaker.failed(at, None)), (failure, None));
        }
        assert_eq!(breaker.failed(at, None), Some(FIRST_PAUSE));
        breaker
    }

    #[test]
    fn failures_in_a_row_open_it_and_a_success_between_them_does_not() {
        let mut breaker = Breaker::default();
        for _ in 0..10 {
            for _ in 1..FAILURES {
                assert_eq!(breaker.failed(SECOND, None), None);
            }
            breaker.succeeded();
        }
        assert_eq!(breaker.ask(SECOND), Permission::Granted);
        assert_eq!(opened(SECOND).ask(SECOND), Permission::At(SECOND + FIRST_PAUSE));
    }

    #[test]
    fn one_probe_decides_and_failed_probes_double_the_pause() {
        let mut breaker = opened(SECOND);
        let mut now = SECOND;
        let mut pause = FIRST_PAUSE;
        for _ in 0..10 {
            now += pause;
            assert_eq!(breaker.ask(now), Permission::Granted);
            assert_eq!(breaker.ask(now), Permission::AfterProbe);
            pause = (pause * 2).min(LONGEST_PAUSE);
            assert_eq!(breaker.failed(now, None), Some(pause));
            assert_eq!(breaker.ask(now), Permission::At(now + pause));
        }
        assert_eq!(pause, LONGEST_PAUSE);
        assert_eq!(breaker.ask(now + pause), Permission::Granted);
        breaker.succeeded();
        assert_eq!((breaker.ask(now + pause), breaker.pauses()), (Permission::Granted, 0));
    }

    #[test]
    fn failures_of_requests_already_under_way_do_not_lengthen_the_pause() {
        let mut breaker = opened(SECOND);
        for _ in 0..20 {
            assert_eq!(breaker.failed(SECOND * 2, None), None);
        }
        assert_eq!(breaker.ask(SECOND * 2), Permission::At(SECOND + FIRST_PAUSE));
    }

    #[test]
    fn a_node_that_asks_to_wait_is_left_alone_for_that_long() {
        let mut breaker = Breaker::default();
        assert_eq!(breaker.failed(SECOND, Some(SECOND * 120)), Some(SECOND * 120));
        assert_eq!(breaker.ask(SECOND * 100), Permission::At(SECOND * 121));
        // A shorter wish doesn't shorten the pause, and an absurd one doesn't stop the audit.
        breaker.failed(SECOND * 2, Some(SECOND));
        assert_eq!(breaker.ask(SECOND * 100), Permission::At(SECOND * 121));
        assert_eq!(Breaker::default().failed(SECOND, Some(SECOND * 1_000_000)), Some(LONGEST_PAUSE));
    }

    #[test]
    fn a_probe_that_was_never_made_can_be_made_by_another_request() {
        let mut breaker = opened(SECOND);
        let later = SECOND + FIRST_PAUSE;
        assert_eq!(breaker.ask(later), Permission::Granted);
        breaker.forgone();
        assert_eq!(breaker.ask(later), Permission::Granted);
    }
}
