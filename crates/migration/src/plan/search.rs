//! The cheapest configuration that ends in time.

use super::outcome::Outcome;
use super::scenario::{Scenario, Speed};
use super::simulation::simulate;

/// Hours that a sample of the migration should take at least, so that its rate says enough.
const SAMPLE_H: f64 = 6.0;
/// Files that such a sample has at least, of each part and for each stream.
const SAMPLE_FILES: u64 = 20;

/// A configuration that was considered.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// The whole scenario.
    pub scenario: Scenario,
    /// Its cost.
    pub cost: f64,
    /// Seconds that the whole migration takes, projected from a sample.
    pub projected_s: f64,
}

/// The outcome of a search.
#[derive(Debug, Clone)]
pub struct Found {
    /// The cheapest configuration that ends in time, simulated to its end. `None` if none does.
    pub cheapest: Option<(Candidate, Outcome)>,
    /// The fastest of those that were tried, if none ends in time.
    pub fastest: Option<Candidate>,
    /// Configurations that were simulated.
    pub tried: usize,
}

/// Searches the cheapest configuration that ends in time: numbers of stations, instances and
/// streams, up to those of the scenario's reach. Among equally cheap ones the fastest wins.
///
/// Configurations are tried in the order of their costs, each with a part of the files. One that
/// ends in time by projection is simulated to its end; if it is late after all, the search goes on.
/// Configurations whose input or output streams could not be fast enough even without any pause are
/// not tried.
#[must_use]
pub fn search(scenario: &Scenario) -> Found {
    let within_s = scenario.reach.within.seconds();
    let mut candidates: Vec<Scenario> = configurations(scenario).filter(|candidate| least_s(candidate) <= within_s).collect();
    candidates.sort_by(|a, b| a.cost().total_cmp(&b.cost()).then(least_s(a).total_cmp(&least_s(b))));
    let mut found = Found { cheapest: None, fastest: None, tried: 0 };
    for scenario in candidates {
        let cost = scenario.cost();
        if found.cheapest.as_ref().is_some_and(|(cheapest, _)| cost > cheapest.cost) {
            break;
        }
        found.tried += 1;
        let projected_s = projected_s(&scenario);
        let candidate = Candidate { scenario, cost, projected_s };
        if found.fastest.as_ref().is_none_or(|fastest| projected_s < fastest.projected_s) {
            found.fastest = Some(candidate.clone());
        }
        let is_better = found.cheapest.as_ref().is_none_or(|(cheapest, _)| projected_s < cheapest.projected_s);
        if projected_s <= within_s && is_better {
            let mut candidate = candidate;
            candidate.scenario.text = text_of(&candidate.scenario);
            let outcome = simulate(&candidate.scenario);
            if outcome.elapsed() <= candidate.scenario.reach.within {
                found.cheapest = Some((candidate, outcome));
            }
        }
    }
    found
}

fn configurations(scenario: &Scenario) -> impl Iterator<Item = Scenario> + '_ {
    let reach = scenario.reach;
    let scans = if scenario.stations.scans == 0 { 0..=0 } else { 1..=reach.scans };
    let numbers = (1..=reach.stations).flat_map(move |count| (1..=reach.instances).map(move |instances| (count, instances)));
    numbers.flat_map(move |(count, instances)| {
        let scans = scans.clone();
        (1..=reach.inputs).flat_map(move |inputs| {
            let scans = scans.clone();
            (1..=reach.outputs).flat_map(move |outputs| {
                scans.clone().map(move |scans| {
                    let mut candidate = scenario.clone();
                    let of = &mut candidate.stations;
                    (of.count, of.instances, of.inputs, of.outputs, of.scans) = (count, instances, inputs, outputs, scans);
                    // Observed shares belong to the stations of the scenario.
                    if of.fed.len() > 1 {
                        of.fed = vec![of.fed.iter().sum::<f64>() / of.fed.len() as f64];
                    }
                    candidate
                })
            })
        })
    })
}

/// The scenario's settings as TOML, with its numbers instead of those that were read.
fn text_of(scenario: &Scenario) -> String {
    let of = &scenario.stations;
    let fed: Vec<String> = of.fed.iter().map(|share| format!("\"{} %\"", share * 100.0)).collect();
    let numbers = [("count", of.count), ("instances", of.instances), ("inputs", of.inputs), ("outputs", of.outputs), ("scans", of.scans)];
    let mut settings: Vec<(&str, String)> = numbers.map(|(name, number)| (name, number.to_string())).into();
    settings.push(("fed", format!("[{}]", fed.join(", "))));
    let mut is_stations = false;
    let line = |line: &str| {
        if line.starts_with('[') {
            is_stations = line == "[stations]";
        }
        let found = line.split_once(" = ").and_then(|(name, _)| settings.iter().find(|setting| setting.0 == name));
        found.filter(|_| is_stations).map_or_else(|| format!("{line}\n"), |(name, value)| format!("{name} = {value}\n"))
    };
    scenario.text.lines().map(line).collect()
}

/// Seconds that the migration takes at least: each stage at the full rate of its streams, or of the
/// links that they share, with the shortest gaps.
fn least_s(scenario: &Scenario) -> f64 {
    let (of, files) = (&scenario.stations, &scenario.files);
    let stage = |streams: u16, speed: Speed, rate: f64, shared: f64| {
        if streams == 0 {
            return 0.0;
        }
        let instances = f64::from(of.count) * f64::from(of.instances);
        let stream = files.size as f64 / speed.shortest_s(files.size as f64, rate);
        let all = (instances * f64::from(streams) * stream).min(f64::from(of.count) * of.link).min(shared);
        files.bytes as f64 / all
    };
    let fed = of.fed.iter().sum::<f64>() / of.fed.len() as f64;
    let input = stage(of.inputs, scenario.input, scenario.input.rate.min(of.spool_write), of.source) / fed;
    let output = stage(of.outputs, scenario.output, scenario.output.rate.min(of.spool_read), of.destination);
    let scan = stage(of.scans, scenario.scan, scenario.scan.rate, of.destination);
    input.max(output).max(scan)
}

/// Seconds that the whole migration takes, by the rate of a sample of it.
fn projected_s(scenario: &Scenario) -> f64 {
    let (of, files) = (&scenario.stations, &scenario.files);
    let streams = u64::from(of.count) * u64::from(of.instances) * u64::from(of.inputs.max(of.outputs).max(of.scans));
    let by_time = files.bytes as f64 * (SAMPLE_H * 3_600.0 / least_s(scenario));
    // The sample has each part's share.
    let of_parts = files.parts.iter().filter(|part| part.share > 0.0).map(|part| part.size as f64 / part.share);
    let largest = of_parts.fold(files.volume_bytes as f64 / SAMPLE_FILES as f64, f64::max);
    let least = streams as f64 * SAMPLE_FILES as f64 * largest;
    let bytes = files.bytes.min(by_time.max(least) as u64).max(1);
    let mut sample = scenario.clone();
    sample.files.bytes = bytes;
    simulate(&sample).elapsed().seconds() * (files.bytes as f64 / bytes as f64)
}
