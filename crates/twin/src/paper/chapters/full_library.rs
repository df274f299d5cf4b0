//! A full library under increasing steady load.

use super::grid::Grid;
use super::*;

const THROUGHPUTS: [f64; 3] = [30.0, 60.0, 120.0];
const RATES: [f64; 8] = [0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 1.1, 1.6];

pub(super) fn plan(plan: &mut Plan) -> Report {
    let grid = Grid::plan(plan, &THROUGHPUTS, &RATES, |plan, policy, rate| {
        let mut scenario = interval(plan, WorkloadKind::FullLibrary, policy);
        scenario.workload.rate = rate;
        scenario.platters = 0;
        // Unlike in the intervals, nothing here has a period of 12 hours.
        if !plan.settings().quick {
            (scenario.run.warm_up, scenario.run.measured) = (Micros(2 * Micros::HOUR.0), Micros(6 * Micros::HOUR.0));
        }
        scenario
    });
    Box::new(move |results| {
        let mut chapter = Chapter::new("full-library", "A full library");
        let scenario = results.scenario(grid.first());
        let platters = scenario.stock(0).map_err(|error| Plan::failed("full-library", scenario, 0, error.into()))?;
        let layout = &scenario.layout;
        chapter.add_paragraph(format!(
            "Poisson arrivals of files of 100 MB, on {} platters with 20 shuttles and 20 drives. Complete sets of 16+3 fill {} of the {} slots in its {} storage racks, as far as the rule on blast zones allows ([placement](placement.md)). \
             The paper gives a mean of 0.3 reads a second for an early library and 1.6 nine ages later. Here 6 hours are measured, after 2 of warm-up. Beyond the capacity of the shuttles the queue grows as long as the load lasts, so tails there show only that the load is too high.",
            platters.written,
            percent(f64::from(platters.written) / f64::from(layout.slot_count())),
            layout.slot_count(),
            layout.storage_racks,
        ));
        let figure = grid.figure(results, || Axis::new("Reads", "1/s").from(0.0), |panel, _| panel);
        chapter.draw("full-library", figure, "Tail of a full library against the rate of reads of 100 MB.");
        let row = |(mb_s, rate, [theirs, ours]): (f64, f64, [&Sample; 2])| {
            vec![format!("{mb_s} MB/s"), rate.to_string(), time_within(&theirs.tail()), time_within(&ours.tail())]
        };
        let rows = grid.pairs(results).into_iter().map(row).collect();
        chapter.list(["drives", "reads a second", "partitioned", "balanced"], rows);
        grid.add_runs(results, &mut chapter, "full-library", Column::f64("rate", "1/s", "Requests a second."))?;
        Ok(chapter)
    })
}
