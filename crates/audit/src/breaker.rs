//! When a node is left alone: a circuit breaker.
//!
//! After some failures in a row the breaker opens, and no copy of the node is tried for a while.
//! Then one is, as a probe: if it fails too, the pause doubles. A node that asks for fewer requests
//! is left alone at once, for as long as it asks, and longer after each probe that it refuses: one
//! that never grants a request must not hold up a run for ever. The breaker knows no clock: `now`
//! is any time that doesn't go back.

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

/// How a node failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// It didn't answer properly.
    Fault,
    /// It asked for fewer requests, and to wait for so long, if it said that.
    Throttled(Option<Duration>),
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

    /// Records that the node failed or didn't answer. Returns the pause, if the breaker opens.
    pub fn failed(&mut self, now: Duration, failure: Failure) -> Option<Duration> {
        self.failures += 1;
        let was_probe = std::mem::take(&mut self.probing);
        let asked = match failure {
            Failure::Fault => None,
            Failure::Throttled(wait) => wait.map(|wait| wait.clamp(Duration::from_secs(1), LONGEST_PAUSE)),
        };
        // Requests that were under way when the breaker opened are no further pause. They change
        // nothing, unless the node asks for a longer one.
        if let Some(until) = self.open_until.filter(|until| now < *until) {
            let longer = asked.filter(|wait| now + *wait > until)?;
            self.open_until = Some(now + longer);
            return Some(longer);
        }
        if failure == Failure::Fault && self.failures < FAILURES && !was_probe {
            return None;
        }
        let doubled = FIRST_PAUSE.saturating_mul(1 << self.pauses.min(16)).min(LONGEST_PAUSE);
        let pause = match asked {
            Some(wait) if self.pauses == 0 => wait,
            Some(wait) => wait.max(doubled),
            None => doubled,
        };
        self.pauses += 1;
        self.open_until = Some(now + pause);
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

    fn throttled(seconds: u32) -> Failure {
        Failure::Throttled(Some(SECOND * seconds))
    }

    fn opened(at: Duration) -> Breaker {
        let mut breaker = Breaker::default();
        for failure in 1..FAILURES {
            assert_eq!((failure, breaker.failed(at, Failure::Fault)), (failure, None));
        }
        assert_eq!(breaker.failed(at, Failure::Fault), Some(FIRST_PAUSE));
        breaker
    }

    #[test]
    fn failures_in_a_row_open_it_and_a_success_between_them_does_not() {
        let mut breaker = Breaker::default();
        for _ in 0..10 {
            for _ in 1..FAILURES {
                assert_eq!(breaker.failed(SECOND, Failure::Fault), None);
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
            assert_eq!(breaker.failed(now, Failure::Fault), Some(pause));
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
            assert_eq!(breaker.failed(SECOND * 2, Failure::Fault), None);
        }
        assert_eq!(breaker.ask(SECOND * 2), Permission::At(SECOND + FIRST_PAUSE));
    }

    #[test]
    fn a_node_that_asks_to_wait_is_left_alone_for_that_long() {
        let mut breaker = Breaker::default();
        assert_eq!(breaker.failed(SECOND, throttled(120)), Some(SECOND * 120));
        assert_eq!(breaker.ask(SECOND * 100), Permission::At(SECOND * 121));
        // A shorter wish doesn't shorten the pause, and an absurd one doesn't stop the audit.
        breaker.failed(SECOND * 2, throttled(1));
        assert_eq!(breaker.ask(SECOND * 100), Permission::At(SECOND * 121));
        // Requests that were under way are no further pauses.
        assert_eq!((breaker.failed(SECOND * 3, Failure::Throttled(None)), breaker.pauses()), (None, 1));
        breaker.failed(SECOND * 3, throttled(120));
        assert_eq!((breaker.ask(SECOND * 100), breaker.pauses()), (Permission::At(SECOND * 123), 1));
        assert_eq!(Breaker::default().failed(SECOND, throttled(1_000_000)), Some(LONGEST_PAUSE));
    }

    #[test]
    fn a_node_that_refuses_each_probe_is_left_alone_for_longer_whatever_it_asks() {
        for (asked, pauses) in [(None, [15, 30, 60, 120]), (Some(1), [1, 30, 60, 120]), (Some(100), [100, 100, 100, 120])] {
            let (mut breaker, mut now) = (Breaker::default(), SECOND);
            for (number, pause) in (1..).zip(pauses) {
                assert_eq!(breaker.ask(now), Permission::Granted);
                let failure = asked.map_or(Failure::Throttled(None), throttled);
                assert_eq!((breaker.failed(now, failure), breaker.pauses()), (Some(SECOND * pause), number));
                now += SECOND * pause;
            }
            // One request that it grants is enough.
            breaker.succeeded();
            assert_eq!(breaker.pauses(), 0);
        }
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
