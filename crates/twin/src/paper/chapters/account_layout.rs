//! Account layout: the benefit of storing files that are read together on one platter.

use super::*;
use fulgurite_workload::AccountLayout;

/// Files per second.
const RATES: [f64; 6] = [0.2, 0.4, 0.8, 1.6, 3.2, 6.4];
/// Files of an account.
const FILES: u32 = 16;
const LAYOUTS: [(AccountLayout, &str); 2] = [(AccountLayout::Together, "together"), (AccountLayout::Scattered, "scattered")];

pub(super) fn plan(plan: &mut Plan) -> Report {
    let mut points: Vec<(&'static str, f64, Point)> = Vec::new();
    for (layout, name) in LAYOUTS {
        for rate in plan.along(&RATES) {
            let mut scenario = interval(plan, WorkloadKind::Typical, PolicyName::Balanced);
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
        chapter.add_paragraph(format!(
            "The paper puts files that are likely to be read together on one platter, next to each other. Here the {FILES} files of an account, with a typical interval's sizes, are requested at one instant; accounts arrive as a Poisson process, without bursts. Their files are consecutive on one platter, or each on a randomly drawn platter. \
             Both layouts get requests for the same files at the same instants. `balanced`, 20 shuttles, 20 drives of 60 MB/s; 4 hours after one of warm-up."
        ));
        let of = |layout: &'static str| points.iter().filter(move |point| point.0 == layout);
        let x = || Axis::new("Files asked for", "1/s").log();
        let mut tail = Panel::new(x(), tails().log()).titled("(a) Completion times");
        let mut operations = Panel::new(x(), Axis::new("Platter operations per file", "").log()).titled("(b) Platter operations");
        for (_, layout) in LAYOUTS {
            tail = tail.line(layout, of(layout).map(|point| tail_at(point.1, results.sample(point.2))).collect::<Vec<_>>());
            // A quick look carries too few for a logarithmic axis.
            let carried = of(layout).map(|point| (point.1, results.sample(point.2).mean(Measured::operations_per_request)));
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
            let carried = |sample: &Sample| digits(sample.mean(Measured::operations_per_request));
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
        let highest = |layout: &'static str| of(layout).next_back().map(|point| results.sample(point.2)).expect("each layout has points");
        let (together, scattered) = (highest("together"), highest("scattered"));
        chapter.add_paragraph(format!(
            "With the layout *together* one drive reads what several could read in parallel, but a visit serves all files of an account. At {} files a second a file takes {} platter operations, and {} with the layout *scattered*; the tail is {} that with *scattered*.",
            rates[rates.len() - 1],
            digits(together.mean(Measured::operations_per_request)),
            digits(scattered.mean(Measured::operations_per_request)),
            compared(together.ratio_to(scattered, |run| run.tail_s).mean),
        ));
        let columns =
            [Column::text("layout", "The placement of an account's files."), Column::f64("rate", "1/s", "Files requested per second.")];
        let rows = points.iter().map(|(layout, rate, point)| ([(*layout).into(), (*rate).into()], results.sample(*point)));
        chapter.runs("accounts", columns, rows)?;
        Ok(chapter)
    })
}
