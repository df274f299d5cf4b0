//! A full library under increasing steady load.

use super::*;
use crate::paper::chapter::{Runs, time_within};
use crate::plot::{Axis, Figure, Panel};
use crate::table::{Column, Kind};

const RATES: [f64; 8] = [0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 1.1, 1.6];
const THROUGHPUTS: [f64; 3] = [30.0, 60.0, 120.0];
const MOVING: [PolicyName; 2] = [PolicyName::Partitioned, PolicyName::LeastCost];
/// One more than the 7 that hold a set of 16+3: see docs/placement.md.
const RACKS: u8 = 8;

pub(super) fn plan(plan: &mut Plan) -> Report {
    let mut points: Vec<(PolicyName, f64, f64, Point)> = Vec::new();
    let throughputs = plan.along(&THROUGHPUTS);
    for &mb_s in &throughputs {
        for policy in MOVING {
            for rate in plan.along(&RATES) {
                let mut scenario = at_throughput(interval(plan, WorkloadKind::FullLibrary, policy), mb_s);
                scenario.workload.rate = rate;
                scenario.layout.storage_racks = RACKS;
                scenario.platters = 0;
                // Unlike in the intervals, nothing here has a period of 12 hours.
                if !plan.settings().quick {
                    (scenario.run.warm_up, scenario.run.measured) = (Micros(2 * Micros::HOUR.0), Micros(6 * Micros::HOUR.0));
                }
                points.push((policy, mb_s, rate, plan.point(&scenario)));
            }
        }
    }
    Box::new(move |results| {
        let mut chapter = Chapter::new("full-library", "A full library");
        let platters = results
            .scenario(points[0].3)
            .stock(0)
            .map_err(|error| Plan::failed("full-library", results.scenario(points[0].3), 0, error.into()))?;
        chapter.say(format!(
            "Poisson arrivals of files of 100 MB, on {} platters with 20 shuttles and 20 drives. In a single library, the rule on blast zones lets complete sets of 16+3 fill at most 54 % of 7 racks ([placement](placement.md)). This library therefore has {RACKS} storage racks, of which the sets fill 99.5 %. \
             The paper gives a mean of 0.3 reads a second for an early library and 1.6 nine ages later. Here 6 hours are measured, after 2 of warm-up. Beyond the capacity of the shuttles the queue grows as long as the load lasts, so tails there show only that the load is too high.",
            platters.written,
        ));
        let of = |policy: PolicyName, mb_s: f64| points.iter().filter(move |point| (point.0, point.1) == (policy, mb_s));
        let mut figure = Figure::new("");
        for (&mb_s, letter) in throughputs.iter().zip(["a", "b", "c"]) {
            let tails = Axis::seconds("99.9th percentile of completion times").log();
            let mut panel = Panel::new(Axis::new("Reads", "1/s").from(0.0), tails).titled(&format!("({letter}) {mb_s} MB/s"));
            for policy in MOVING {
                panel =
                    panel.line(said(policy), of(policy, mb_s).map(|point| tail_at(point.2, results.sample(point.3))).collect::<Vec<_>>());
            }
            let bound = bound_along(of(PolicyName::LeastCost, mb_s).map(|point| (point.2, results.sample(point.3))));
            if !bound.is_empty() {
                panel = panel.bound(BOUND, bound);
            }
            figure = figure.panel(panel);
        }
        chapter.draw("full-library", figure.one_scale(), "Tail of a full library against the rate of reads of 100 MB.");
        let mut rows = Vec::new();
        for &mb_s in &throughputs {
            for point in of(PolicyName::LeastCost, mb_s) {
                let other = of(PolicyName::Partitioned, mb_s).find(|other| other.2 == point.2).expect("both policies have every rate");
                rows.push(vec![
                    format!("{mb_s} MB/s"),
                    point.2.to_string(),
                    time_within(&results.sample(other.3).tail()),
                    time_within(&results.sample(point.3).tail()),
                ]);
            }
        }
        chapter.list(["drives", "reads a second", "partitioned", "fulgurite"], rows);
        let columns = [
            Column::new("policy", Kind::Text, "", "The policy."),
            Column::new("throughput", Kind::F64, "MB/s", "Throughput of each drive."),
            Column::new("rate", Kind::F64, "1/s", "Requests a second."),
        ];
        let mut runs = Runs::new(columns);
        for (policy, mb_s, rate, point) in &points {
            runs.row([policy.text().into(), (*mb_s).into(), (*rate).into()], results.sample(*point))?;
        }
        chapter.sheet("full-library", runs.table());
        Ok(chapter)
    })
}
