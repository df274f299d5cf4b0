//! Unavailable platters: each read of them becomes 16 others.

use super::grid::Grid;
use super::*;

const SHARES: [f64; 6] = [0.0, 0.02, 0.04, 0.06, 0.08, 0.1];

pub(super) fn plan(plan: &mut Plan) -> Report {
    let grid = Grid::plan(plan, &SHARES, |plan, policy, share| {
        let mut scenario = interval(plan, WorkloadKind::Typical, policy);
        scenario.sets.unavailable = share;
        scenario
    });
    Box::new(move |results| {
        let mut chapter = Chapter::new("unavailable", "Unavailable platters");
        chapter.add_paragraph(
            "On Typical with 20 shuttles and 20 drives. Up to 10 % of all platters, chosen at random, are unavailable, but never more of a set than its three redundancy platters. A read of one of them becomes reads of the matching tracks of 16 others, \
             and the request completes when all of these have arrived. At 10 % this makes two and a half times as many reads.",
        );
        let level = |panel: Panel, longest| if shows_service_level(longest) { panel.level(SERVICE_LEVEL_S, SERVICE_LEVEL) } else { panel };
        let figure = grid.figure(results, || Axis::share("Unavailable platters"), level);
        chapter.draw("unavailable", figure, "Tail on Typical against the share of unavailable platters.");
        let row = |(mb_s, share, [theirs, ours]): (f64, f64, [&Sample; 2])| {
            vec![
                format!("{mb_s} MB/s"),
                percent(share),
                percent(ours.mean(|run| run.outcomes.recovered as f64 / run.outcomes.total().max(1) as f64)),
                ours.mean(|run| run.outcomes.unavailable as f64).to_string(),
                time_within(&theirs.tail()),
                time_within(&ours.tail()),
            ]
        };
        let rows = grid.pairs(results).into_iter().map(row).collect();
        chapter.list(["drives", "unavailable", "requests recovered", "requests lost", "partitioned", "balanced"], rows);
        grid.add_runs(results, &mut chapter, Column::f64("unavailable", "", "Share of unavailable platters."))?;
        Ok(chapter)
    })
}
