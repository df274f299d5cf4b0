//! Arrival processes: when requests arrive.
//!
//! ```text
//! constant   |   |   |   |   |   |   |        evenly spaced
//! Poisson    | ||    |  | |      || |         independent of each other
//! modulated  |           ||||||||||    |      Poisson, with a rate that is redrawn for each hour
//! bursts            |||||          |||||      a fixed number per period, at times that vary little between seeds
//! ```
//!
//! The published load is extremely bursty: within a data centre the 99.9th percentile of the hourly
//! read rate is up to 10^7 times its median (SOSP '23, section 2). *Modulated* arrivals reach such
//! a ratio in the long run, but within the 12 hours of an experiment they would make every seed a
//! different experiment. For experiments, use *bursts* on top of a Poisson source.

use fulgurite_chance::Stream;
use fulgurite_domain::Micros;

use crate::SpecError;
use crate::error::{check_count, check_positive, check_range};

/// The 99.9th percentile of the standard normal distribution.
const NORMAL_P999: f64 = 3.090_232_306_167_813_5;

/// When requests arrive. Rates are per second, durations in [`Micros`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Arrivals {
    /// Evenly spaced, the first one after one gap.
    Constant {
        /// Arrivals per second.
        per_second: f64,
    },
    /// A Poisson process.
    Poisson {
        /// Mean arrivals per second.
        per_second: f64,
    },
    /// A Poisson process whose rate is redrawn for each period from a lognormal distribution (a Cox
    /// process).
    Modulated {
        /// Median of the rate. The mean is e^(sigma²/2) times that, with sigma = ln(`spread`) /
        /// 3.0902.
        median_per_second: f64,
        /// 99.9th percentile of the rate over its median; up to 10^7 (SOSP '23).
        spread: f64,
        /// How long a rate lasts; one hour for comparison with the published ratio.
        period: Micros,
        /// Correlation of the logarithms of consecutive rates, from 0 to less than 1.
        persistence: f64,
        /// Upper limit of the rate: the most that clients and network can request.
        most_per_second: f64,
    },
    /// A fixed number of bursts in every period, and no arrivals between them. The period is
    /// divided into as many slots as bursts, with one burst each. A burst has an exact number of
    /// arrivals, spread uniformly over its length.
    Bursts {
        /// Period after which the bursts repeat.
        period: Micros,
        /// Bursts per period.
        count: u32,
        /// Arrivals per burst.
        arrivals: u32,
        /// Length of a burst.
        over: Micros,
        /// How late a burst may be, as a share of its slot's spare time: 0 is clockwork, 1 is
        /// anywhere in the slot.
        jitter: f64,
    },
}

/// Draws the arrival times one by one.
#[derive(Debug, Clone)]
pub(crate) struct Process {
    law: Law,
    clock: Clock,
    stream: Stream,
}

#[derive(Debug, Clone)]
enum Law {
    Constant { gap_us: f64 },
    Poisson { gap_us: f64 },
    Modulated(Box<Modulated>),
    Bursts(Bursts),
}

impl Process {
    pub(crate) fn new(arrivals: Arrivals, seed: u64, source: u32) -> Result<Self, SpecError> {
        let law = match arrivals {
            Arrivals::Constant { per_second } => Law::Constant { gap_us: 1e6 / check_positive("arrivals.per_second", per_second)? },
            Arrivals::Poisson { per_second } => Law::Poisson { gap_us: 1e6 / check_positive("arrivals.per_second", per_second)? },
            Arrivals::Modulated { median_per_second, spread, period, persistence, most_per_second } => {
                check_positive("arrivals.median_per_second", median_per_second)?;
                check_positive("arrivals.most_per_second", most_per_second)?;
                check_count("arrivals.period", period.0)?;
                check_range("arrivals.spread", spread, (1.0..=1e12).contains(&spread), "1 to 10^12")?;
                check_range("arrivals.persistence", persistence, (0.0..1.0).contains(&persistence), "0 to less than 1")?;
                Law::Modulated(Box::new(Modulated {
                    median_per_us: median_per_second / 1e6,
                    rate_max_per_us: most_per_second / 1e6,
                    sigma: libm::log(spread) / NORMAL_P999,
                    period,
                    persistence,
                    innovation_weight: (1.0 - persistence * persistence).sqrt(),
                    rates: Stream::numbered(seed, "rates", source),
                    state: None,
                    rate_per_us: 0.0,
                    until: Micros::ZERO,
                }))
            }
            Arrivals::Bursts { period, count, arrivals, over, jitter } => {
                check_count("arrivals.count", count.into())?;
                check_count("arrivals.arrivals", arrivals.into())?;
                if period.0 / u64::from(count) <= over.0 {
                    return Err(SpecError::Bursts { count, over_s: over.seconds(), period_s: period.seconds() });
                }
                check_range("arrivals.jitter", jitter, (0.0..=1.0).contains(&jitter), "0 to 1")?;
                Law::Bursts(Bursts { period, count, arrivals, over, jitter, next: 0, begin: Micros::ZERO, passed: 0.0, arrivals_left: 0 })
            }
        };
        Ok(Self { law, clock: Clock::default(), stream: Stream::numbered(seed, "arrivals", source) })
    }

    /// The next arrival, never earlier than the one before. Modulated arrivals are drawn only up to
    /// `limit`, then it is [`Micros::NEVER`]; those of other laws may come after `limit`.
    #[inline]
    pub(crate) fn next(&mut self, limit: Micros) -> Micros {
        match &mut self.law {
            Law::Constant { gap_us } => self.clock.wait(*gap_us),
            Law::Poisson { gap_us } => self.clock.wait(self.stream.exponential(*gap_us)),
            Law::Modulated(modulated) => modulated.next(&mut self.clock, &mut self.stream, limit),
            Law::Bursts(bursts) => bursts.next(&mut self.stream),
        }
    }
}

/// Whole microseconds plus a fraction, so that shorter gaps add up without drift.
#[derive(Debug, Clone, Copy, Default)]
struct Clock {
    now: Micros,
    fraction_us: f64,
}

impl Clock {
    #[inline]
    fn wait(&mut self, gap_us: f64) -> Micros {
        let gap = gap_us + self.fraction_us;
        let whole = gap as u64;
        self.fraction_us = gap - whole as f64;
        self.now += Micros(whole);
        self.now
    }
}

#[derive(Debug, Clone)]
struct Modulated {
    median_per_us: f64,
    rate_max_per_us: f64,
    sigma: f64,
    period: Micros,
    persistence: f64,
    /// Weight of the new value that keeps the variance of the state at 1.
    innovation_weight: f64,
    rates: Stream,
    /// Logarithm of rate over median, in units of sigma: a first-order autoregression. `None`
    /// before the first period.
    state: Option<f64>,
    rate_per_us: f64,
    /// End of the current period.
    until: Micros,
}

impl Modulated {
    /// Draws an exponential of mean 1 as the load until the next arrival. Each period consumes its
    /// rate times its remaining time of that load.
    fn next(&mut self, clock: &mut Clock, stream: &mut Stream, limit: Micros) -> Micros {
        let mut load = stream.exponential(1.0);
        loop {
            let left_us = self.until.since(clock.now).0 as f64 - clock.fraction_us;
            if left_us > 0.0 {
                let gap_us = load / self.rate_per_us;
                if gap_us < left_us {
                    return clock.wait(gap_us);
                }
                load -= left_us * self.rate_per_us;
            }
            if self.until >= limit {
                return Micros::NEVER;
            }
            *clock = Clock { now: self.until, fraction_us: 0.0 };
            self.until += self.period;
            self.rate_per_us = self.draw();
        }
    }

    fn draw(&mut self) -> f64 {
        let normal = self.rates.normal();
        let state = self.state.map_or(normal, |state| self.persistence * state + self.innovation_weight * normal);
        self.state = Some(state);
        (self.median_per_us * libm::exp(self.sigma * state)).min(self.rate_max_per_us)
    }
}

#[derive(Debug, Clone)]
struct Bursts {
    period: Micros,
    count: u32,
    arrivals: u32,
    over: Micros,
    jitter: f64,
    /// Number of the next burst, counted from the start.
    next: u64,
    begin: Micros,
    /// Share of the burst's length that has passed, and arrivals left in it.
    passed: f64,
    arrivals_left: u32,
}

impl Bursts {
    fn next(&mut self, stream: &mut Stream) -> Micros {
        if self.arrivals_left == 0 {
            let (period, slot) = (self.next / u64::from(self.count), self.next % u64::from(self.count));
            let slot_us = self.period.0 / u64::from(self.count);
            let spare_us = slot_us - self.over.0;
            let jitter_us = (self.jitter * stream.unit() * spare_us as f64) as u64;
            self.begin = Micros(self.period.0.saturating_mul(period)) + Micros(slot_us * slot + jitter_us);
            self.next += 1;
            self.passed = 0.0;
            self.arrivals_left = self.arrivals;
        }
        // The least of n uniform draws from the rest: 1 - u^(1/n). In sequence, these are n sorted
        // draws.
        let step = 1.0 - libm::exp(libm::log(1.0 - stream.unit()) / f64::from(self.arrivals_left));
        self.passed += (1.0 - self.passed) * step;
        self.arrivals_left -= 1;
        self.begin + Micros((self.passed * self.over.0 as f64) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instants(arrivals: Arrivals, seed: u64, until: Micros) -> Vec<Micros> {
        let mut process = Process::new(arrivals, seed, 0).unwrap();
        std::iter::from_fn(|| Some(process.next(until)).filter(|at| *at < until)).collect()
    }

    fn moments(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
        let count = values.clone().count() as f64;
        let mean = values.clone().sum::<f64>() / count;
        (mean, values.map(|value| (value - mean) * (value - mean)).sum::<f64>() / count)
    }

    fn assert_close(found: f64, expected: f64, tolerance: f64) {
        assert!((found - expected).abs() <= tolerance * expected, "{found} instead of {expected}");
    }

    #[test]
    fn poisson_gaps_are_exponential_and_the_variance_of_counts_equals_their_mean() {
        let found = instants(Arrivals::Poisson { per_second: 100.0 }, 3, Micros(4_000_000_000));
        assert!(found.is_sorted());
        let (mean, variance) = moments(found.windows(2).map(|pair| (pair[1] - pair[0]).seconds()));
        assert_close(mean, 0.01, 0.01);
        assert_close(variance, 1e-4, 0.02);
        let mut counts = vec![0_u32; 4000];
        found.iter().for_each(|at| counts[(at.0 / 1_000_000) as usize] += 1);
        let (mean, variance) = moments(counts.iter().map(|count| f64::from(*count)));
        assert_close(mean, 100.0, 0.01);
        assert_close(variance, 100.0, 0.08);
    }

    #[test]
    fn gaps_below_a_microsecond_do_not_drift() {
        let found = instants(Arrivals::Constant { per_second: 3e6 }, 0, Micros::SECOND);
        assert_eq!(found.len(), 2_999_999);
        let found = instants(Arrivals::Poisson { per_second: 5e6 }, 0, Micros(200_000));
        assert_close(found.len() as f64, 1e6, 0.004);
    }

    #[test]
    fn a_modulated_rate_has_its_median_spread_and_persistence() {
        let arrivals =
            Arrivals::Modulated { median_per_second: 2.0, spread: 1e7, period: Micros::HOUR, persistence: 0.7, most_per_second: 1e30 };
        let Law::Modulated(mut modulated) = Process::new(arrivals, 5, 0).unwrap().law else { unreachable!("the arrivals are modulated") };
        let rates: Vec<f64> = (0..400_000).map(|_| modulated.draw() * 1e6).collect();
        let mut sorted = rates.clone();
        sorted.sort_by(f64::total_cmp);
        assert_close(sorted[200_000], 2.0, 0.05);
        assert_close(libm::log10(sorted[399_600] / sorted[200_000]), 7.0, 0.03);
        let logarithms: Vec<f64> = rates.iter().map(|rate| libm::log(*rate / 2.0)).collect();
        let (_, variance) = moments(logarithms.iter().copied());
        let products = logarithms.windows(2).map(|pair| pair[0] * pair[1]);
        assert_close(moments(products).0 / variance, 0.7, 0.02);
    }

    #[test]
    fn modulated_arrivals_follow_their_rate() {
        let arrivals = Arrivals::Modulated {
            median_per_second: 1.0,
            spread: 100.0,
            period: Micros(60_000_000),
            persistence: 0.0,
            most_per_second: 1e3,
        };
        let found = instants(arrivals, 11, Micros(60_000_000 * 10_000));
        assert!(found.is_sorted());
        // The mean of a lognormal law, with sigma = ln(100) / 3.0902 = 1.4902: e^(1.1104) = 3.0355.
        assert_close(found.len() as f64 / (60.0 * 10_000.0), 3.0355, 0.06);
        let capped =
            Arrivals::Modulated { median_per_second: 10.0, spread: 1.0, period: Micros::SECOND, persistence: 0.5, most_per_second: 4.0 };
        assert_close(instants(capped, 11, Micros(10_000_000_000)).len() as f64, 40_000.0, 0.02);
    }

    #[test]
    fn every_period_has_its_bursts_for_any_seed() {
        let period = Micros(12 * 3_600_000_000);
        let arrivals = Arrivals::Bursts { period, count: 4, arrivals: 500, over: Micros(60_000_000), jitter: 0.5 };
        for seed in 0..20 {
            let found = instants(arrivals, seed, Micros(2 * period.0));
            assert_eq!(found.len(), 4000, "seed {seed}");
            assert!(found.is_sorted(), "seed {seed}");
            for (index, burst) in found.chunks(500).enumerate() {
                let slot = Micros(index as u64 * period.0 / 4);
                assert!(burst[0] >= slot && burst[499] - burst[0] <= Micros(60_000_000), "seed {seed}, burst {index}");
                assert!(burst[0].since(slot).0 <= period.0 / 8, "seed {seed}, burst {index} is later than the jitter allows");
            }
        }
    }

    #[test]
    fn a_burst_is_spread_evenly_over_its_length() {
        let arrivals = Arrivals::Bursts { period: Micros(20_000_000), count: 1, arrivals: 100_000, over: Micros(10_000_000), jitter: 0.0 };
        let (mean, variance) = moments(instants(arrivals, 2, Micros(20_000_000)).iter().map(|at| at.seconds()));
        assert_close(mean, 5.0, 0.01);
        assert_close(variance, 100.0 / 12.0, 0.02);
    }

    #[test]
    fn invalid_arrivals_are_rejected() {
        let modulated = |spread, persistence| Arrivals::Modulated {
            median_per_second: 1.0,
            spread,
            period: Micros::HOUR,
            persistence,
            most_per_second: 1.0,
        };
        let bursts = |count, over, jitter| Arrivals::Bursts { period: Micros::HOUR, count, arrivals: 1, over, jitter };
        for arrivals in [
            Arrivals::Poisson { per_second: 0.0 },
            Arrivals::Poisson { per_second: -1.0 },
            Arrivals::Poisson { per_second: f64::NAN },
            Arrivals::Constant { per_second: f64::INFINITY },
            modulated(0.5, 0.0),
            modulated(2.0, 1.0),
            bursts(0, Micros::ZERO, 0.0),
            bursts(2, Micros(1_800_000_000), 0.0),
            bursts(1, Micros::SECOND, 1.1),
        ] {
            assert!(Process::new(arrivals, 0, 0).is_err(), "{arrivals:?}");
        }
    }
}
