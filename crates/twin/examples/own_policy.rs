//! A policy of one's own beside those that are there: `cargo run --release -p fulgurite-twin --example own_policy`.

use fulgurite_library::{Panel, Policy, Shuttle, Task};
use fulgurite_twin::scenario::{PolicyName, Scenario, Workload, WorkloadKind};
use fulgurite_twin::simulation::{Run, RunError, run, run_with_policy};
use fulgurite_twin::table::{Column, Table, Value};

/// Any shuttle brings the platter that most requests wait for to the drive that is nearest to it.
struct MostWanted;

impl Policy for MostWanted {
    fn assign(&mut self, panel: &Panel) -> Option<(Shuttle, Task)> {
        panel.idle_shuttles().find_map(|shuttle| {
            let way = |to| panel.pace().travel(panel.position(shuttle), to);
            let door = |drive| panel.layout().drive_position(drive);
            let drives = || panel.drives().filter(|drive| panel.is_reachable(*drive));
            // What was read goes home first: it is in the way of the next.
            let released = drives().filter_map(|drive| Some((way(door(drive)), drive, panel.released_bay(drive)?))).min();
            let collect = released.map(|(_, drive, bay)| Task::Collect { drive, bay });
            let fetch = || {
                // Ties go to the oldest request, then to the lower number.
                let waiting = panel.lanes().flat_map(|lane| panel.queue().line(lane));
                let platter = waiting.min_by_key(|platter| {
                    (std::cmp::Reverse(panel.queue().requests_for(*platter)), panel.queue().oldest(*platter), *platter)
                })?;
                let free = drives().filter(|drive| panel.empty_bay(*drive).is_some() && panel.customers(*drive) == 0);
                let drive = free.min_by_key(|drive| (panel.pace().travel(panel.place_of(platter), door(*drive)), *drive))?;
                Some(Task::Fetch { platter, drive })
            };
            Some((shuttle, collect.or_else(fetch)?))
        })
    }
}

fn main() -> Result<(), RunError> {
    let mut scenario = Scenario { workload: Workload::preset(WorkloadKind::Typical), ..Scenario::default() };
    let columns = [Column::text("policy", ""), Column::i64("seed", "", ""), Column::f64("median", "s", ""), Column::f64("tail", "s", "")];
    let mut table = Table::new(columns);
    let mut row = |policy: &str, seed: u64, mut run: Run| {
        let [median, tail] = [0.5, 0.999].map(|part| Value::F64(run.percentile_s(part)));
        table.push([policy.into(), Value::I64(seed as i64), median, tail]).expect("four values");
    };
    // The same seeds for all: the same requests for the same platters, at the same instants.
    for seed in 1..=3 {
        row("most wanted", seed, run_with_policy(&scenario, seed, |_| Box::new(MostWanted))?);
        for name in [PolicyName::Partitioned, PolicyName::Fulgurite] {
            scenario.policy.name = name;
            row(name.text(), seed, run(&scenario, seed)?);
        }
    }
    println!("{table}");
    Ok(())
}
