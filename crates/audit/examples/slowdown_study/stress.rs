//! Surroundings that are worse than those the parameters were chosen for.

use std::path::Path;

use fulgurite_audit::slowdown::Parameters;

use super::report::{Outcome, Table, number};
use super::trials::{Summary, Watcher, year, years_of};
use super::world::{Climate, Rate, World};

pub(crate) fn run(folder: &Path, years: u32) -> Outcome {
    let usual = Climate::USUAL;
    let climates = [
        ("as in the study", usual),
        ("no cycles, weather or bursts", Climate { weather: 0.0, cycles: 0.0, days_between_bursts: 1e6, ..usual }),
        ("cycles three times as strong", Climate { cycles: 3.0, ..usual }),
        ("weather twice as strong", Climate { weather: 0.12, ..usual }),
        ("weather over a day", Climate { weather_hours: 24.0, ..usual }),
        ("weather over a week", Climate { weather_hours: 168.0, ..usual }),
        ("bursts three times as often", Climate { days_between_bursts: 1.0, ..usual }),
        ("bursts of up to 12 hours", Climate { longest_burst_hours: 12.0, ..usual }),
        ("bursts of up to 24 hours", Climate { longest_burst_hours: 24.0, ..usual }),
    ];
    let mut table = Table::new(&["surroundings", "rate", "false alarms a year", "2x: median hours", "2x: p95 hours", "1.5x: median hours"]);
    for (name, climate) in climates {
        for rate in [Rate::FourADay, Rate::FiveMinutes] {
            let results = years_of(years, |seed| {
                let world = World::in_climate(seed, 200, rate, 0.15, climate);
                let ours = Watcher::ours(&world, Parameters::default());
                year(world, vec![ours], &[(2.0, 0.0), (1.5, 0.0)], &[20.3, 110.8, 250.1])
            });
            let alarms: u32 = results.iter().map(|year| year.alarms[0]).sum();
            let of = |case: usize| Summary::of(&results.iter().flat_map(|year| year.delays[0][case].clone()).collect::<Vec<_>>());
            let (twice, half) = (of(0), of(1));
            let a_year = format!("{:.2}", f64::from(alarms) / f64::from(years));
            table.row(vec![name.into(), rate.name().into(), a_year, number(twice.hours.0), number(twice.hours.1), number(half.hours.0)]);
        }
    }
    table.write(folder, "stress")
}
