//! Runs with each setting of machines and policies at the ends of its range.

use fulgurite_domain::Micros;
use fulgurite_library::{Event, Library, Region};
use fulgurite_settings::Override;
use fulgurite_twin::scenario::{PolicyName, Scenario, reference};
use fulgurite_twin::simulation::{Observer, run_with};

use crate::support::{minutes, scenario};

/// The sections whose settings decide how a library of a given size moves.
const SECTIONS: [&str; 8] = ["shuttles", "shuttles.energy", "battery", "drives", "drives.seek", "policy", "policy.ideas", "faults"];
/// What a duration without a range may be.
const DURATIONS: [&str; 2] = ["0 s", "262980 h"];

/// The settings of these sections, each with the ends of its range, from their reference.
fn borders() -> Vec<(String, String)> {
    let (reference, mut section, mut borders) = (reference(), String::new(), Vec::new());
    for line in reference.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            section = heading.trim_matches(['`', '[', ']']).to_owned();
        }
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, name, unit, _, values, ..] = cells[..] else { continue };
        let Some(name) = name.strip_prefix('`').and_then(|name| name.strip_suffix('`')) else { continue };
        if !SECTIONS.contains(&section.as_str()) {
            continue;
        }
        let ends: Vec<&str> = match values {
            "" if unit.starts_with("true") => vec!["true", "false"],
            "" => DURATIONS.to_vec(),
            _ if values.starts_with('"') => values.split('"').skip(1).step_by(2).collect(),
            _ => values.trim_start_matches("at least ").split(" to ").collect(),
        };
        borders.extend(ends.into_iter().map(|end| (format!("{section}.{name}"), end.to_owned())));
    }
    borders
}

/// Panics if the time stands still, or the rules of the controller don't come to an end.
struct Progress<'n> {
    name: &'n str,
    at: Micros,
    events: u64,
}

impl Observer for Progress<'_> {
    fn event(&mut self, now: Micros, _: Library, event: &Event) {
        self.events = if now == self.at { self.events + 1 } else { 0 };
        self.at = now;
        assert!(self.events < 20_000, "{}: at {now}, {event:?} follows {} others", self.name, self.events);
    }

    fn settled(&mut self, now: Micros, region: &Region) {
        assert_eq!(region.controllers()[0].unsettled_events(), 0, "{}: at {now}", self.name);
    }
}

#[test]
fn every_setting_of_machines_and_policies_works_at_both_ends_of_its_range() {
    let mut base = scenario(PolicyName::Balanced, 20, 0.5);
    (base.run.warm_up, base.run.measured, base.run.cool_down) = (minutes(1), minutes(6), minutes(10));
    let (base, borders) = (base.canonical(), borders());
    let (mut ran, mut conflicts) = (0, Vec::new());
    for (setting, end) in &borders {
        let name = format!("{setting} = {end}");
        let mut with = vec![format!("{setting}={end}")];
        if setting.starts_with("battery") && setting != "battery.used" {
            with.push("battery.used=true".to_owned());
        }
        let overrides: Vec<Override> = with.iter().map(|with| Override::parse("--set", with).unwrap()).collect();
        match Scenario::parse("border", &base, &overrides) {
            Ok(scenario) => {
                let progress = Progress { name: &name, at: Micros::ZERO, events: 0 };
                run_with(&scenario, 1, progress, |_| ()).unwrap_or_else(|error| panic!("{name}: {error}"));
                ran += 1;
            }
            Err(_) => conflicts.push(name),
        }
    }
    let names = ["shuttles.spacing", "battery.low", "drives.mount", "policy.ideas.set_aside_above", "faults.repair"];
    assert!(names.iter().all(|name| borders.iter().any(|(setting, _)| setting == name)), "the reference has another form");
    assert!(ran > 80, "{ran} runs");
    assert!(conflicts.len() < 12, "some sizes don't fit the panel: {conflicts:?}");
}
