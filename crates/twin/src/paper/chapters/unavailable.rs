//! Unavailable platters: each read of them becomes 16 others.

use super::*;
use crate::paper::chapter::{Runs, percent, time_within};
use crate::plot::{Axis, Figure, Panel};
use crate::table::{Column, Kind};

const SHARES: [f64; 6] = [0.0, 0.02, 0.04, 0.06, 0.08, 0.1];
const THROUGHPUTS: [f64; 3] = [30.0, 60.0, 120.0];
const MOVING: [PolicyName; 2] = [PolicyName::Partitioned, PolicyName::LeastCost];

pub(super) fn plan(plan: &mut Plan) -> Report {
    let mut points: Vec<(PolicyName, f64, f64, Point)> = Vec::new();
    let throughputs = plan.along(&THROUGHPUTS);
    for &mb_s in &throughputs {
        for policy in MOVING {
            for share in plan.along(&SHARES) {
                let mut scenario = at_throughput(interval(plan, WorkloadKind::Typical, policy), mb_s);
                scenario.sets.unavailable = share;
                points.push((policy, mb_s, share, plan.point(&scenario)));
            }
        }
    }
    Box::new(move |results| {
        let mut chapter = Chapter::new("unavailable", "Unavailable platters");
        chapter.say(
            "On Typical with 20 shuttles and 20 drives. Up to 10 % of all platters, chosen at random, are unavailable, but never more of a set than its three redundancy platters. A read of one of them becomes reads of the matching tracks of 16 others, \
             and the request completes when all of these have arrived. At 10 % this makes two and a half times as many reads.",
        );
        let of = |policy: PolicyName, mb_s: f64| points.iter().filter(move |point| (point.0, point.1) == (policy, mb_s));
        let mut figure = Figure::new("");
        for (&mb_s, letter) in throughputs.iter().zip(["a", "b", "c"]) {
            let tails = Axis::seconds("99.9th percentile of completion times").log();
            let mut panel = Panel::new(Axis::share("Unavailable platters"), tails).titled(&format!("({letter}) {mb_s} MB/s"));
            for policy in MOVING {
                let line: Vec<plot::Point> = of(policy, mb_s).map(|point| tail_at(point.2, results.sample(point.3))).collect();
                let longest = line.iter().fold(0.0_f64, |longest, point| longest.max(point.y));
                panel = panel.line(said(policy), line);
                if shows_service_level(longest) && policy == MOVING[0] {
                    panel = panel.level(SERVICE_LEVEL_S, SERVICE_LEVEL);
                }
            }
            let bound = bound_along(of(PolicyName::LeastCost, mb_s).map(|point| (point.2, results.sample(point.3))));
            if !bound.is_empty() {
                panel = panel.bound(BOUND, bound);
            }
            figure = figure.panel(panel);
        }
        chapter.draw("unavailable", figure.one_scale(), "Tail on Typical against the share of unavailable platters.");
        let mut rows = Vec::new();
        for &mb_s in &throughputs {
            for point in of(PolicyName::LeastCost, mb_s) {
                let other = of(PolicyName::Partitioned, mb_s).find(|other| other.2 == point.2).expect("both policies have every share");
                let sample = results.sample(point.3);
                let recovered = sample.mean(|run| run.outcomes.recovered as f64 / run.outcomes.total().max(1) as f64);
                rows.push(vec![
                    format!("{mb_s} MB/s"),
                    percent(point.2),
                    percent(recovered),
                    sample.mean(|run| run.outcomes.unavailable as f64).to_string(),
                    time_within(&results.sample(other.3).tail()),
                    time_within(&sample.tail()),
                ]);
            }
        }
        chapter.list(["drives", "unavailable", "requests recovered", "requests lost", "partitioned", "fulgurite"], rows);
        let columns = [
            Column::new("policy", Kind::Text, "", "The policy."),
            Column::new("throughput", Kind::F64, "MB/s", "Throughput of each drive."),
            Column::new("unavailable", Kind::F64, "", "Share of unavailable platters."),
        ];
        let mut runs = Runs::new(columns);
        for (policy, mb_s, share, point) in &points {
            runs.row([policy.text().into(), (*mb_s).into(), (*share).into()], results.sample(*point))?;
        }
        chapter.sheet("unavailable", runs.table());
        Ok(chapter)
    })
}
