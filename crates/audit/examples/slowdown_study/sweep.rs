//! Each parameter varied alone, around the default.

use std::path::Path;

use fulgurite_audit::slowdown::Parameters;
use fulgurite_plot::{Axis, Figure, Panel};

use super::report::{Outcome, Table, draw, number, percent};
use super::trials::{Summary, Watcher, settings, year, years_of};
use super::world::{Rate, World};

struct Variant {
    parameter: &'static str,
    value: f64,
    parameters: Parameters,
}

fn variants() -> Vec<Variant> {
    let default = Parameters::default();
    let mut variants = Vec::new();
    let mut add = |parameter, value, parameters| variants.push(Variant { parameter, value, parameters });
    for value in [6.0, 8.0, 10.0, 11.0, 12.5, 14.0, 16.0, 20.0] {
        add("threshold", value, Parameters { threshold: value, ..default });
    }
    for value in [0.25, 0.4, 0.5, 0.6, 0.75, 1.0] {
        add("allowance", value, Parameters { allowance: value, ..default });
    }
    for value in [2.0, 2.5, 3.0, 3.5, 4.0, 6.0] {
        add("clip", value, Parameters { clip: value, ..default });
    }
    for value in [0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0] {
        add("bin in hours", value, Parameters { bin_s: (value * 3_600.0) as u64, ..default });
    }
    for value in [14.0, 21.0, 28.0, 35.0, 42.0] {
        add("learning in days", value, Parameters { learn_s: (value * 86_400.0) as u64, ..default });
    }
    for value in [0.03, 0.06, 0.1, 0.15, 0.2] {
        add("finest deviation", value, Parameters { finest: value, ..default });
    }
    variants
}

pub(crate) fn run(folder: &Path, years: u32) -> Outcome {
    let variants = variants();
    let mut table = Table::new(&[
        "parameter",
        "value",
        "rate",
        "noise",
        "false alarms a year",
        "2x: median checks",
        "2x: median hours",
        "2x: p95 hours",
        "1.5x: median hours",
        "1.5x missed",
    ]);
    // The worst setting of each variant: false alarms, and median hours at the high rates.
    let mut worst = vec![(0.0_f64, 0.0_f64); variants.len()];
    for (rate, noise) in settings() {
        let years = if rate == Rate::ThousandAnHour { years.div_ceil(10) } else { years };
        let results = years_of(years, |seed| {
            let world = World::new(seed, 100, rate, noise);
            let watchers = variants.iter().map(|variant| Watcher::ours(&world, variant.parameters)).collect();
            year(world, watchers, &[(2.0, 0.0), (1.5, 0.0)], &[20.3, 110.8, 250.1])
        });
        for (index, variant) in variants.iter().enumerate() {
            let alarms: u32 = results.iter().map(|year| year.alarms[index]).sum();
            let alarms = f64::from(alarms) / f64::from(years);
            let of = |case: usize| Summary::of(&results.iter().flat_map(|year| year.delays[index][case].clone()).collect::<Vec<_>>());
            let (twice, half) = (of(0), of(1));
            worst[index].0 = worst[index].0.max(alarms);
            if rate != Rate::FourADay {
                worst[index].1 = worst[index].1.max(twice.hours.0);
            }
            table.row(vec![
                variant.parameter.into(),
                format!("{}", variant.value),
                rate.name().into(),
                format!("{noise}"),
                format!("{alarms:.2}"),
                number(twice.checks.0),
                number(twice.hours.0),
                number(twice.hours.1),
                number(half.hours.0),
                percent(half.missed),
            ]);
        }
    }
    table.write(folder, "sweep")?;
    let mut summary = Table::new(&["parameter", "value", "worst false alarms a year", "worst median hours at 2x, high rates"]);
    for (variant, (alarms, hours)) in variants.iter().zip(&worst) {
        summary.row(vec![variant.parameter.into(), format!("{}", variant.value), format!("{alarms:.2}"), number(*hours)]);
    }
    summary.write(folder, "sweep-worst")?;
    draw(&figure(&variants, &worst, &["threshold", "allowance", "clip"]), folder, "plateau-test")?;
    draw(&figure(&variants, &worst, &["bin in hours", "learning in days", "finest deviation"]), folder, "plateau-data")
}

fn figure(variants: &[Variant], worst: &[(f64, f64)], names: &[&str]) -> Figure {
    let mut figure = Figure::new("").one_scale().plot_height(130.0);
    for name in names {
        // Zero has no place on a logarithmic axis: 0.05 is less than can be told from zero here.
        let axis = Axis::new("Worst setting", "").log().from(0.05).to(100.0);
        let of = |value: fn(&(f64, f64)) -> f64| {
            let points = variants.iter().zip(worst).filter(|(variant, _)| variant.parameter == *name);
            points.map(|(variant, worst)| (variant.value, value(worst).clamp(0.05, 100.0))).collect::<Vec<_>>()
        };
        let panel = Panel::new(Axis::new(name, ""), axis)
            .line("false alarms a year", of(|worst| worst.0))
            .line("hours to 2x", of(|worst| worst.1))
            .level(1.0, "");
        figure = figure.panel(panel);
    }
    figure
}
