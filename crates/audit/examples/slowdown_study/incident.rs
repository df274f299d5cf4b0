//! The published incident: provider 1 is 36 times slower for nine weeks, and provider 2 slows down
//! five times for 2 to 7 days, 2 to 16 times, 6.6 times on average. The first time hides provider
//! 1's fault in numbers of all providers together.

use std::path::Path;

use fulgurite_audit::slowdown::{Detector, Direction, Event, Parameters, Timing};
use fulgurite_plot::{Axis, Figure, Panel};

use super::report::{Outcome, Table, draw, number, percent};
use super::trials::{settings, step, years_of};
use super::world::{DAY, HOUR, Rate, START, Slowdown, World};

/// Day on which the first slowdown begins.
const FIRST: f64 = 45.0;
/// Begin in days after the first, length in days, factor.
const OF_FIRST: [(f64, f64, f64); 1] = [(5.0, 63.0, 36.0)];
const OF_SECOND: [(f64, f64, f64); 5] = [(0.0, 7.0, 4.0), (30.0, 2.0, 2.0), (52.0, 4.0, 16.0), (85.0, 5.0, 6.0), (110.0, 3.0, 5.0)];
const DAYS: f64 = FIRST + 140.0;

fn slowdowns(plan: &[(f64, f64, f64)]) -> Vec<Slowdown> {
    let from = |day: f64| START + (FIRST + day) * DAY;
    plan.iter().map(|&(day, days, factor)| Slowdown { from: from(day), until: from(day + days), ramp: 0.0, factor }).collect()
}

/// What a detector said about its provider.
struct Heard {
    events: Vec<Event>,
    /// Median ratio of each day.
    daily: Vec<(f64, f64)>,
}

fn watch(mut world: World, plan: &[Slowdown]) -> Heard {
    let mut detector = Detector::new(world.expectation, Parameters::default()).expect("the default works");
    let mut heard = Heard { events: Vec::new(), daily: Vec::new() };
    let (mut day, mut ratios) = (0.0, Vec::new());
    while world.now() < START + DAYS * DAY {
        let check = world.check(plan);
        if let Timing::Answered(time) = check.timing {
            ratios.push(world.expectation.ratio(check.bytes, time));
        }
        heard.events.extend(step(&mut detector, check, world.now()));
        if world.now() >= START + (day + 1.0) * DAY {
            ratios.sort_unstable_by(f64::total_cmp);
            heard.daily.push((day - FIRST, ratios.get(ratios.len() / 2).copied().unwrap_or(1.0)));
            ratios.clear();
            day += 1.0;
        }
    }
    heard
}

/// One slowdown in one run: when it was named and when its end was, in hours after the fact.
struct Found {
    named: Option<f64>,
    factor: Option<f64>,
    ended: Option<f64>,
}

impl Heard {
    fn find(&self, slowdown: &Slowdown) -> Found {
        let mut found = Found { named: None, factor: None, ended: None };
        for event in &self.events {
            match event {
                Event::Began(episode) if episode.direction == Direction::Slower && found.named.is_none() => {
                    let named = episode.named_s as f64;
                    if (slowdown.from..slowdown.until + 2.0 * DAY).contains(&named) {
                        found.named = Some((named - slowdown.from) / HOUR);
                    }
                }
                // It hits during a false alarm or before the end of the last one was named.
                Event::Worsened { named_s, .. } if found.named.is_none() => {
                    let named = *named_s as f64;
                    if (slowdown.from..slowdown.until + 2.0 * DAY).contains(&named) {
                        found.named = Some((named - slowdown.from) / HOUR);
                    }
                }
                Event::Ended { episode, until_s } if found.named.is_some() && found.ended.is_none() => {
                    found.ended = Some((*until_s as f64 - slowdown.until) / HOUR);
                    found.factor = episode.factor;
                }
                _ => {}
            }
        }
        found
    }

    /// Reports of slowdowns that begin outside of all true ones.
    fn false_alarms(&self, plan: &[Slowdown]) -> usize {
        let is_true = |named: f64| plan.iter().any(|slowdown| (slowdown.from..slowdown.until + 2.0 * DAY).contains(&named));
        let began = self.events.iter().filter_map(|event| match event {
            Event::Began(episode) if episode.direction == Direction::Slower => Some(episode.named_s as f64),
            _ => None,
        });
        began.filter(|named| !is_true(*named)).count()
    }

    /// True slowdowns that were reported more than once, because their end was reported too early.
    fn repeated(&self, plan: &[Slowdown]) -> usize {
        let named = |slowdown: &Slowdown| {
            let within = |event: &&Event| matches!(event, Event::Began(episode) if (slowdown.from..slowdown.until).contains(&(episode.named_s as f64)));
            self.events.iter().filter(within).count()
        };
        plan.iter().map(|slowdown| named(slowdown).saturating_sub(1)).sum()
    }
}

pub(crate) fn run(folder: &Path, years: u32) -> Outcome {
    let plans = [slowdowns(&OF_FIRST), slowdowns(&OF_SECOND), Vec::new()];
    let mut table = Table::new(&[
        "rate",
        "noise",
        "provider",
        "factor",
        "days",
        "named",
        "median hours",
        "p95 hours",
        "median factor",
        "end dated within, median hours",
    ]);
    let mut quiet = Table::new(&["rate", "noise", "false alarms, provider 1", "provider 2", "provider 3", "repeated reports"]);
    for (rate, noise) in settings() {
        let runs = if rate == Rate::ThousandAnHour { years.div_ceil(10) } else { years };
        let heard = years_of(runs, |seed| [1, 2, 3].map(|node| watch(World::new(seed, node, rate, noise), &plans[node as usize - 1])));
        for (provider, plan) in plans.iter().enumerate() {
            for slowdown in plan {
                let found: Vec<Found> = heard.iter().map(|heard| heard[provider].find(slowdown)).collect();
                let quantile = |value: &dyn Fn(&Found) -> Option<f64>, share: f64| {
                    let mut values: Vec<f64> = found.iter().map(|found| value(found).unwrap_or(f64::INFINITY)).collect();
                    values.sort_unstable_by(f64::total_cmp);
                    values[((share * values.len() as f64).ceil() as usize).max(1) - 1]
                };
                let named = found.iter().filter(|found| found.named.is_some()).count() as f64 / found.len() as f64;
                table.row(vec![
                    rate.name().into(),
                    format!("{noise}"),
                    format!("{}", provider + 1),
                    format!("{}", slowdown.factor),
                    number((slowdown.until - slowdown.from) / DAY),
                    percent(named),
                    number(quantile(&|found| found.named, 0.5)),
                    number(quantile(&|found| found.named, 0.95)),
                    number(quantile(&|found| found.factor, 0.5)),
                    number(quantile(&|found| found.ended.map(f64::abs), 0.5)),
                ]);
            }
        }
        let sum = |of: &dyn Fn(&[Heard; 3]) -> usize| format!("{} in {runs} runs", heard.iter().map(of).sum::<usize>());
        let alarms = |provider: usize| sum(&|heard| heard[provider].false_alarms(&plans[provider]));
        let repeated = sum(&|heard| heard.iter().zip(&plans).map(|(heard, plan)| heard.repeated(plan)).sum());
        quiet.row(vec![rate.name().into(), format!("{noise}"), alarms(0), alarms(1), alarms(2), repeated]);
        if rate == Rate::FiveMinutes && noise > 0.3 {
            draw(&figure(&heard[0]), folder, "incident")?;
        }
    }
    table.write(folder, "incident")?;
    quiet.write(folder, "incident-quiet")
}

fn figure(heard: &[Heard; 3]) -> Figure {
    let mut figure = Figure::new("").one_scale().plot_height(150.0);
    for (provider, heard) in heard.iter().enumerate() {
        let axis = Axis::new("Median of measured / expected", "").log().from(0.7).to(100.0);
        let day = |seconds: u64| (seconds as f64 - START) / DAY - FIRST;
        let mut state = vec![(-FIRST, 0.8)];
        for event in &heard.events {
            match event {
                Event::Began(episode) if episode.direction == Direction::Slower => state.push((day(episode.named_s), 70.0)),
                Event::Ended { until_s, .. } => state.push((day(*until_s), 0.8)),
                _ => {}
            }
        }
        state.push((DAYS - FIRST, 0.8));
        let panel = Panel::new(Axis::new("Day", ""), axis)
            .titled(&format!("Provider {}", provider + 1))
            .steps("median of the day", heard.daily.clone())
            .steps("named as slow", state);
        figure = figure.panel(panel);
    }
    figure
}
