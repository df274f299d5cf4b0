//! `twin check-workload`: compares the statistics of a workload with the published ones.

use anyhow::Result;
use fulgurite_twin::simulation::workload_statistics;
use serde_json::{Map, Value, json};

use super::{CheckWorkload, failed, misused};
use crate::{Outcome, Session};

pub(super) fn check(session: &Session, check: &CheckWorkload) -> Result<Outcome> {
    let scenario = match check.chosen.read() {
        Ok(scenario) => scenario,
        Err(errors) => return Ok(misused(&errors)),
    };
    let seed = check.seed.unwrap_or(scenario.run.seed);
    let statistics = match workload_statistics(&scenario, seed) {
        Ok(statistics) => statistics,
        Err(error) => return failed(&check.chosen.scenario, error),
    };
    if session.json {
        let figures: Map<String, Value> = statistics.rows().iter().map(|row| (row.name.to_owned(), json!(row.generated))).collect();
        session.answer(&json!({ "scenario": scenario.name, "seed": seed, "figures": figures }));
    } else {
        session.say(&format!("{}, seed {seed}", scenario.name));
        session.say(statistics.to_string().trim_end());
    }
    Ok(Outcome::Good)
}
