//! Smart layout: what it is worth that files which are read together lie together.

use super::*;
use crate::paper::chapter::{Runs, digits, time_within};
use crate::plot::{Axis, Figure, Panel};
use crate::table::{Column, Kind};
use fulgurite_workload::AccountLayout;

/// Files a second.
const RATES: [f64; 6] = [0.2, 0.4, 0.8, 1.6, 3.2, 6.4];
const FILES: u32 = 16;
const LAYOUTS: [(AccountLayout, &str); 2] = [(AccountLayout::Together, "together"), (AccountLayout::Scattered, "scattered")];

pub(super) fn plan(plan: &mut Plan) -> Report {
    let mut points: Vec<(&'static str, f64, Point)> = Vec::new();
    for (layout, name) in LAYOUTS {
        for rate in plan.along(&RATES) {
            let mut scenario = interval(plan, WorkloadKind::Typical, PolicyName::Fulgurite);
            (scenario.workload.rate, scenario.workload.layout, scenario.workload.bursts.count) = (rate, layout, 0);
            scenario.workload.steady.account_files = FILES;
            if !plan.settings().quick {
                (scenario.run.warm_up, scenario.run.measured) = (Micros(Micros::HOUR.0), Micros(4 * Micros::HOUR.0));
            }
            points.push((name, rate, plan.point(&scenario)));
        }
    }
    Box::new(move |results| {
        let mut chapter = Chapter::new("accounts", "Files that are read together");
        chapter.say(format!(
            "The paper puts files that are likely to be read together on one platter, next to each other. Here the {FILES} files of an account, of a typical interval's sizes, are asked for at one instant; accounts come as a Poisson process, without bursts. Their files lie one behind the other on one platter, or each on a platter of its own drawing. \
             The same files are asked for at the same instants in both. `fulgurite`, 20 shuttles, 20 drives of 60 MB/s; 4 hours after one of warm-up."
        ));
        let of = |layout: &'static str| points.iter().filter(move |point| point.0 == layout);
        let x = || Axis::new("Files asked for", "1/s").log();
        let tails = Axis::seconds("99.9th percentile of completion times").log();
        let mut tail = Panel::new(x(), tails).titled("(a) Completion times");
        let mut operations = Panel::new(x(), Axis::new("Platter operations per file", "").log()).titled("(b) Platter operations");
        for (_, layout) in LAYOUTS {
            tail = tail.line(layout, of(layout).map(|point| tail_at(point.1, results.sample(point.2))).collect::<Vec<_>>());
            // Too few were carried in a quick look to have a place on a logarithmic axis.
            let carried = of(layout).map(|point| (point.1, results.sample(point.2).mean(crate::paper::Measured::operations_per_request)));
            operations = operations.line(layout, carried.filter(|point| point.1 > 0.0).collect::<Vec<_>>());
        }
        chapter.draw(
            "accounts",
            Figure::new("").panel(tail).panel(operations),
            "Tail and platter operations of files that are read together, by their layout.",
        );
        let rates: Vec<f64> = of(LAYOUTS[0].1).map(|point| point.1).collect();
        let rows = rates.iter().map(|&rate| {
            let find =
                |layout: &'static str| results.sample(of(layout).find(|point| point.1 == rate).expect("both layouts have every rate").2);
            let (together, scattered) = (find("together"), find("scattered"));
            let carried = |sample: &Sample| digits(sample.mean(crate::paper::Measured::operations_per_request));
            let median = |sample: &Sample| time_within(&sample.estimate(|run| run.median_s));
            vec![
                rate.to_string(),
                median(together),
                median(scattered),
                time_within(&together.tail()),
                time_within(&scattered.tail()),
                carried(together),
                carried(scattered),
            ]
        });
        let head = [
            "files a second",
            "median, together",
            "median, scattered",
            "tail, together",
            "tail, scattered",
            "operations per file, together",
            "scattered",
        ];
        chapter.list(head, rows.collect());
        chapter.say("Together costs a sixteenth of the fetches and lets one drive read what several could read side by side. So it is what a library carries that it changes most: scattered, the shuttles are at their limit long before.");
        let columns = [
            Column::new("layout", Kind::Text, "", "Where the files of an account lie."),
            Column::new("rate", Kind::F64, "1/s", "Files asked for in a second."),
        ];
        let mut runs = Runs::new(columns);
        for (layout, rate, point) in &points {
            runs.row([(*layout).into(), (*rate).into()], results.sample(*point))?;
        }
        chapter.sheet("accounts", runs.table());
        Ok(chapter)
    })
}
