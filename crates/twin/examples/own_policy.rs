//! A custom policy compared with the built-in ones:
//!
//! `cargo run --release -p fulgurite-twin --example own_policy`

use fulgurite_library::{Layout, Panel, Policy, Rectangle, Shuttle, Task, rectangles};
use fulgurite_table::{Column, Table, Value};
use fulgurite_twin::scenario::{PolicyName, Scenario};
use fulgurite_twin::simulation::{Run, RunError, run, run_with_policy};

/// Each shuttle fetches the platter with the most waiting requests in its part of the panel.
struct MostWanted(Vec<Rectangle>);

impl MostWanted {
    fn task(&self, panel: &Panel, shuttle: Shuttle) -> Option<Task> {
        let own = self.0.iter().find(|rectangle| panel.working_in(rectangle).any(|other| other == shuttle))?;
        let mut drives = own.drives.iter().copied().filter(|drive| panel.is_reachable(*drive));
        // A released platter goes home first: it blocks the next.
        if let Some((drive, bay)) = drives.clone().find_map(|drive| Some((drive, panel.released_bay(drive)?))) {
            return Some(Task::Collect { drive, bay });
        }
        let drive = drives.find(|drive| panel.empty_bay(*drive).is_some() && panel.customers(*drive) == 0)?;
        let waiting = own.lanes.iter().flat_map(|lane| panel.queue().line(*lane));
        let platter = waiting.max_by_key(|platter| (panel.queue().requests_for(*platter), std::cmp::Reverse(*platter)))?;
        Some(Task::Fetch { platter, drive })
    }
}

impl Policy for MostWanted {
    fn assign(&mut self, panel: &Panel) -> Option<(Shuttle, Task)> {
        panel.idle_shuttles().find_map(|shuttle| Some((shuttle, self.task(panel, shuttle)?)))
    }
}

fn main() -> Result<(), RunError> {
    let mut scenario = Scenario::default();
    let columns = [Column::text("policy", ""), Column::i64("seed", "", ""), Column::f64("median", "s", ""), Column::f64("tail", "s", "")];
    let mut table = Table::new(columns);
    let mut row = |policy: &str, seed: u64, mut run: Run| {
        let [median, tail] = [0.5, 0.999].map(|part| Value::F64(run.percentile_s(part)));
        table.push([policy.into(), Value::I64(seed as i64), median, tail]).expect("four values");
    };
    // All policies use the same seeds: the same requests for the same platters at the same
    // instants.
    for seed in 1..=3 {
        row("most wanted", seed, run_with_policy(&scenario, seed, |layout: &Layout| Box::new(MostWanted(rectangles(layout))))?);
        for name in [PolicyName::Partitioned, PolicyName::Balanced] {
            scenario.policy.name = name;
            row(name.text(), seed, run(&scenario, seed)?);
        }
    }
    println!("{table}");
    Ok(())
}
