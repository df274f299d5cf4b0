//! The study behind the slowdown detector: false alarms in quiet years and delays of slowdowns, for
//! the detector and for simpler rules, a sweep of all parameters, the published incident, and
//! surroundings that are worse than assumed.
//!
//! ```sh
//! cargo run --release -p fulgurite-audit --example slowdown_study -- docs/audit
//! ```
//!
//! Writes CSV and figures into the folder, and prints all tables as Markdown; those of
//! `docs/audit/slowdown.md` are among them. A second argument sets the number of simulated years
//! for each setting. The default is 40; at 1,000 checks an hour, the comparison takes a third of
//! them, and the sweep and the incident a tenth. A third argument selects a part: compare, sweep,
//! incident or stress.

mod incident;
mod peers;
mod report;
mod stress;
mod sweep;
mod trials;
mod world;

use std::path::PathBuf;
use std::time::Instant;

use fulgurite_audit::slowdown::Parameters;
use fulgurite_plot::{Axis, Figure, Panel};
use peers::Kind;
use report::{Outcome, Table, draw, number, percent};
use trials::{Case, Summary, Watcher, settings, year, years_of};
use world::{DAY, Rate, World};

const FACTORS: [f64; 3] = [2.0, 1.5, 1.2];
const RAMPS: [(&str, f64); 4] = [("at once", 0.0), ("in a day", DAY), ("in a week", 7.0 * DAY), ("in 4 weeks", 28.0 * DAY)];
/// Days of a year on which slowdowns begin.
const STARTS: [f64; 4] = [3.4, 80.8, 163.1, 250.6];

fn main() -> Outcome {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().ok_or("usage: slowdown_study FOLDER [YEARS [PART]]")?);
    let years: u32 = arguments.next().map_or(Ok(40), |years| years.parse())?;
    let start = Instant::now();
    let only = arguments.next();
    type Part = fn(&std::path::Path, u32) -> Outcome;
    let parts: [(&str, Part); 4] = [("compare", compare), ("sweep", sweep::run), ("incident", incident::run), ("stress", stress::run)];
    for (name, run) in parts {
        if only.as_ref().is_none_or(|only| only == name) {
            run(&folder, years)?;
            eprintln!("{name}: done after {:.0} s", start.elapsed().as_secs_f64());
        }
    }
    Ok(())
}

/// The detector and its peers, at all rates and noise levels.
fn compare(folder: &std::path::Path, years: u32) -> Outcome {
    let cases: Vec<Case> = FACTORS.iter().flat_map(|factor| RAMPS.map(|(_, ramp)| (*factor, ramp))).collect();
    let names: Vec<&str> = std::iter::once("ours").chain(Kind::ALL.map(Kind::name)).collect();
    let mut alarms = Table::new(&["rate", "noise", "rule", "node-years", "false alarms", "a year"]);
    let mut delays = Table::new(&[
        "rate",
        "noise",
        "rule",
        "factor",
        "onset",
        "trials",
        "missed",
        "median checks",
        "p95 checks",
        "median hours",
        "p95 hours",
    ]);
    let mut figure = Figure::new("").one_scale().plot_height(140.0);
    for rate in Rate::ALL {
        let mut panel =
            Panel::new(Axis::new("Slower by", "times"), Axis::new("Hours until named", "").log().from(5.0).to(2_000.0)).titled(rate.name());
        for noise in settings().filter(|(other, _)| *other == rate).map(|(_, noise)| noise) {
            let years = if rate == Rate::ThousandAnHour { years.div_ceil(3) } else { years };
            let results = years_of(years, |seed| {
                let world = World::new(seed, 0, rate, noise);
                let ours = Watcher::ours(&world, Parameters::default());
                let watchers = std::iter::once(ours).chain(Kind::ALL.map(Watcher::peer)).collect();
                year(world, watchers, &cases, &STARTS)
            });
            for (index, name) in names.iter().enumerate() {
                let count: u32 = results.iter().map(|year| year.alarms[index]).sum();
                let a_year = f64::from(count) / f64::from(years);
                alarms.row(vec![
                    rate.name().into(),
                    format!("{noise}"),
                    (*name).into(),
                    years.to_string(),
                    count.to_string(),
                    format!("{a_year:.2}"),
                ]);
                let mut medians = Vec::new();
                for (case, (factor, ramp)) in cases.iter().enumerate() {
                    let all: Vec<_> = results.iter().flat_map(|year| year.delays[index][case].clone()).collect();
                    let summary = Summary::of(&all);
                    let onset = RAMPS.iter().find(|(_, other)| other == ramp).map_or("", |(name, _)| name);
                    delays.row(vec![
                        rate.name().into(),
                        format!("{noise}"),
                        (*name).into(),
                        format!("{factor}"),
                        onset.into(),
                        summary.trials.to_string(),
                        percent(summary.missed),
                        number(summary.checks.0),
                        number(summary.checks.1),
                        number(summary.hours.0),
                        number(summary.hours.1),
                    ]);
                    if *ramp == 0.0 && summary.hours.0.is_finite() {
                        medians.push((*factor, summary.hours.0));
                    }
                }
                if index == 0 {
                    panel = panel.line(&format!("noise {noise}"), medians);
                }
            }
        }
        figure = figure.panel(panel);
    }
    alarms.write(folder, "false-alarms")?;
    delays.write(folder, "delays")?;
    draw(&figure, folder, "delays")
}
