//! `twin check-workload`: compares the statistics of a workload with the published ones.

use anyhow::Result;
use fulgurite_twin::simulation::workload_statistics;
use serde_json::{Map, Value, json};

use super::{Chosen, failed};
use crate::{Outcome, Session};

pub(super) fn check(session: &Session, chosen: &Chosen, seed: Option<u64>) -> Result<Outcome> {
    let scenario = chosen.read()?;
    let seed = seed.unwrap_or(scenario.run.seed);
    let statistics = workload_statistics(&scenario, seed).map_err(|error| failed(&chosen.scenario, error))?;
    session.answer(|| {
        let figures: Map<String, Value> = statistics.rows().iter().map(|row| (row.name.to_owned(), json!(row.generated))).collect();
        json!({ "scenario": scenario.name, "seed": seed, "figures": figures })
    });
    session.say(&format!("{}, seed {seed}", scenario.name));
    session.say(statistics.to_string().trim_end());
    Ok(Outcome::Good)
}
