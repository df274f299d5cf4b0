//! A simulated node: checks with the noise that real ones have, and slowdowns on order.
//!
//! The logarithm of measured / expected is the sum of a day's and a week's cycle, weather that
//! wanders over hours, bursts of congestion, Student's t noise of three degrees of freedom, rare
//! outliers, and an expectation that is wrong by different factors for small and large files.

use std::sync::OnceLock;
use std::time::Duration;

use fulgurite_audit::expectation::Expectation;
use fulgurite_audit::slowdown::{Check, Timing};
use fulgurite_chance::Stream;

pub(crate) const HOUR: f64 = 3_600.0;
pub(crate) const DAY: f64 = 24.0 * HOUR;
/// Wednesday, 1 January 2025, in Unix seconds.
pub(crate) const START: f64 = 1_735_689_600.0;
/// Weather is computed once a minute.
const WEATHER_STEP: f64 = 60.0;
const OUTLIERS: f64 = 0.001;
const TIMEOUTS: f64 = 0.0005;

/// How often a node is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rate {
    FourADay,
    FiveMinutes,
    ThousandAnHour,
}

impl Rate {
    pub(crate) const ALL: [Self; 3] = [Self::FourADay, Self::FiveMinutes, Self::ThousandAnHour];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::FourADay => "4 a day",
            Self::FiveMinutes => "1 in 5 minutes",
            Self::ThousandAnHour => "1,000 an hour",
        }
    }

    pub(crate) fn seconds(self) -> f64 {
        match self {
            Self::FourADay => 6.0 * HOUR,
            Self::FiveMinutes => 300.0,
            Self::ThousandAnHour => 3.6,
        }
    }
}

/// A slowdown: from its start, the factor grows over the ramp, and stays until the end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slowdown {
    pub(crate) from: f64,
    pub(crate) until: f64,
    pub(crate) ramp: f64,
    pub(crate) factor: f64,
}

impl Slowdown {
    pub(crate) fn at(&self, time: f64) -> f64 {
        if time < self.from || time >= self.until {
            return 1.0;
        }
        let share = if self.ramp > 0.0 { ((time - self.from) / self.ramp).min(1.0) } else { 1.0 };
        1.0 + share * (self.factor - 1.0)
    }
}

/// What a node's surroundings do to it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Climate {
    /// Deviation of the weather, as the logarithm of a ratio.
    pub(crate) weather: f64,
    /// Hours over which it forgets.
    pub(crate) weather_hours: f64,
    /// Strength of the cycles: 1.0 is 12 % up and down in a day, and 14 % less on weekends.
    pub(crate) cycles: f64,
    pub(crate) days_between_bursts: f64,
    pub(crate) longest_burst_hours: f64,
}

impl Climate {
    pub(crate) const USUAL: Self =
        Self { weather: 0.06, weather_hours: 6.0, cycles: 1.0, days_between_bursts: 3.0, longest_burst_hours: 6.0 };
}

#[derive(Clone)]
pub(crate) struct World {
    climate: Climate,
    pub(crate) expectation: Expectation,
    rate: Rate,
    noise: f64,
    stream: Stream,
    /// Planned time of the next check.
    next: f64,
    checks: u64,
    weather_at: f64,
    weather: f64,
    /// Cycles, weather and bursts together.
    level: f64,
    burst: (f64, f64, f64),
}

impl World {
    /// `noise` is the standard deviation of the logarithm of a check's time.
    pub(crate) fn new(seed: u64, node: u32, rate: Rate, noise: f64) -> Self {
        Self::in_climate(seed, node, rate, noise, Climate::USUAL)
    }

    pub(crate) fn in_climate(seed: u64, node: u32, rate: Rate, noise: f64, climate: Climate) -> Self {
        let stream = Stream::numbered(seed, "slowdown study", node);
        let mut world = Self {
            climate,
            expectation: Expectation::WASABI,
            rate,
            noise,
            stream,
            next: START,
            checks: 0,
            weather_at: START,
            weather: 0.0,
            level: 0.0,
            burst: (START, START, 0.0),
        };
        world.plan_burst();
        world
    }

    pub(crate) fn now(&self) -> f64 {
        self.next
    }

    fn plan_burst(&mut self) {
        let from = self.burst.1 + self.stream.exponential(self.climate.days_between_bursts * DAY);
        let seconds = self.stream.lognormal(40.0 * 60.0, 1.0).min(self.climate.longest_burst_hours * HOUR);
        self.burst = (from, from + seconds, libm::log(self.stream.log_uniform(1.5, 6.0)));
    }

    fn change_weather(&mut self, time: f64) {
        let kept = libm::exp(-(time - self.weather_at) / (self.climate.weather_hours * HOUR));
        self.weather = kept * self.weather + self.climate.weather * (1.0 - kept * kept).sqrt() * self.stream.normal();
        self.weather_at = time;
        let (hour, day) = (time / HOUR % 24.0, (time / DAY) as u64 % 7);
        // Thursday is 0, so Saturday and Sunday are 2 and 3.
        let week = if day == 2 || day == 3 { -0.10 } else { 0.04 };
        let cycle = 0.12 * libm::sin((hour - 9.0) * std::f64::consts::TAU / 24.0) + week;
        while time >= self.burst.1 {
            self.plan_burst();
        }
        let burst = if time >= self.burst.0 { self.burst.2 } else { 0.0 };
        self.level = self.weather + self.climate.cycles * cycle + burst;
    }

    /// The next check, while the node is slower by what the slowdowns say.
    pub(crate) fn check(&mut self, slowdowns: &[Slowdown]) -> Check {
        let bits = self.stream.bits();
        let period = self.rate.seconds();
        let jitter = if period > 60.0 { 0.05 * period * (bits >> 52) as f64 / 4_096.0 } else { 0.0 };
        let time = self.next + jitter;
        self.next += period;
        self.checks += 1;
        if time - self.weather_at >= WEATHER_STEP {
            self.change_weather(time);
        }
        let tables = tables();
        let bytes = match self.rate {
            Rate::FourADay if self.checks.is_multiple_of(2) => 20_000_000,
            Rate::FourADay => 104_857_600,
            _ => tables.sizes[(bits >> 16) as usize % tables.sizes.len()],
        };
        let chance = ((bits >> 28) & 0xff_ffff) as f64 / f64::from(1 << 24);
        let at_s = time as u64;
        if chance < TIMEOUTS {
            return Check { at_s, bytes, timing: Timing::Unanswered };
        }
        let outlier = if chance < TIMEOUTS + OUTLIERS { 36.0 } else { 1.0 };
        let slow: f64 = slowdowns.iter().map(|slowdown| slowdown.at(time)).product();
        let noise = self.noise * f64::from(tables.noise[bits as usize & 0xffff]);
        let usual = 1.3 * self.expectation.base_s() + 0.9e-9 * bytes as f64 * self.expectation.slope_ns();
        let seconds = usual * libm::exp(self.level + noise) * slow * outlier;
        Check { at_s, bytes, timing: Timing::Answered(Duration::from_secs_f64(seconds.min(1e6))) }
    }
}

/// Values drawn once, because nine million checks a year each need some.
struct Tables {
    /// Student's t with three degrees of freedom, scaled to a variance of 1.
    noise: Vec<f32>,
    sizes: Vec<u64>,
}

fn tables() -> &'static Tables {
    static TABLES: OnceLock<Tables> = OnceLock::new();
    TABLES.get_or_init(|| {
        let mut stream = Stream::new(1, "tables of the slowdown study");
        let mut student = || {
            let chi: f64 = (0..3).map(|_| stream.normal().powi(2)).sum();
            (stream.normal() / chi.sqrt()) as f32
        };
        let noise = (0..1 << 16).map(|_| student()).collect();
        let sizes = (0..4_096).map(|_| stream.log_uniform(1e3, 3e8) as u64).collect();
        Tables { noise, sizes }
    })
}
