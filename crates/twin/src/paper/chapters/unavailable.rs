//! Unavailable platters: each read of them becomes 16 others.

use super::grid::Grid;
use super::*;

const THROUGHPUTS: [f64; 4] = [30.0, 60.0, 120.0, 210.0];
const SHARES: [f64; 3] = [0.0, 0.05, 0.1];

pub(super) fn plan(plan: &mut Plan) -> Report {
    let mut grid = |kind, throughputs: &[f64]| {
        Grid::plan(plan, throughputs, &SHARES, |plan, policy, share| {
            let mut scenario = interval(plan, kind, policy);
            scenario.sets.unavailable = share;
            scenario
        })
    };
    let grids = [
        ("IOPS", "unavailable-iops", grid(WorkloadKind::Iops, &THROUGHPUTS)),
        ("Volume", "unavailable-volume", grid(WorkloadKind::Volume, &THROUGHPUTS)),
        ("Typical", "unavailable-typical", grid(WorkloadKind::Typical, &[60.0])),
    ];
    Box::new(move |results| {
        let mut chapter = Chapter::new("unavailable", "Unavailable platters");
        chapter.add_paragraph(
            "With 20 shuttles and 20 drives, on IOPS and Volume as in the paper, and on Typical at 60 MB/s in addition; figures leave out 120 MB/s. Up to 10 % of all platters, chosen at random, are unavailable, but never more of a set than its three redundancy platters. A read of one of them becomes reads of the matching tracks of 16 others, \
             and the request completes when all of these have arrived. At 10 % this makes two and a half times as many reads.",
        );
        let level = |panel: Panel, longest| if shows_service_level(longest) { panel.level(SERVICE_LEVEL_S, SERVICE_LEVEL) } else { panel };
        let mut rows = Vec::new();
        for (interval, name, grid) in &grids {
            let figure = grid.figure(results, || Axis::share("Unavailable platters"), level);
            chapter.draw(name, figure, format!("Tail on {interval} against the share of unavailable platters."));
            let row = |(mb_s, share, [theirs, ours]): (f64, f64, [&Sample; 2])| {
                vec![
                    (*interval).to_owned(),
                    format!("{mb_s} MB/s"),
                    percent(share),
                    percent(ours.mean(|run| run.outcomes.recovered as f64 / run.outcomes.total().max(1) as f64)),
                    ours.mean(|run| run.outcomes.unavailable as f64).to_string(),
                    time_within(&theirs.tail()),
                    time_within(&ours.tail()),
                    compared(ours.ratio_to(theirs, |run| run.tail_s).mean),
                ]
            };
            rows.extend(grid.pairs(results).into_iter().map(row));
        }
        let head = [
            "interval",
            "drives",
            "unavailable",
            "requests recovered",
            "requests lost",
            "partitioned",
            "balanced",
            "balanced to partitioned",
        ];
        chapter.list(head, rows);
        for (_, name, grid) in &grids {
            grid.add_runs(results, &mut chapter, name, Column::f64("unavailable", "", "Share of unavailable platters."))?;
        }
        Ok(chapter)
    })
}
