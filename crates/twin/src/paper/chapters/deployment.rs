//! Deployments of several libraries, with sets spread over them.

use super::*;

const LIBRARIES: [u16; 3] = [1, 10, 100];
/// Size of the files in the estimate of how many fit.
const FILE_BYTES: f64 = 20e6;
const UNAVAILABLE: [f64; 2] = [0.0, 0.05];

pub(super) fn plan(plan: &mut Plan) -> Report {
    let mut points: Vec<(f64, u16, Point)> = Vec::new();
    for share in UNAVAILABLE {
        for libraries in if plan.settings().quick { vec![1, 3] } else { LIBRARIES.to_vec() } {
            let mut scenario = interval(plan, WorkloadKind::Typical, PolicyName::Balanced);
            scenario.libraries = libraries;
            scenario.sets.unavailable = share;
            let factor = f64::from(libraries);
            scenario.workload.bursts.count = 0;
            scenario.workload.rate *= factor;
            if !plan.settings().quick {
                (scenario.run.warm_up, scenario.run.measured) = (Micros(Micros::HOUR.0 / 6), Micros(Micros::HOUR.0 / 2));
            }
            let seeds = if libraries > 10 { 1 } else { plan.settings().sweep_seeds };
            points.push((share, libraries, plan.point_with(&scenario, seeds)));
        }
    }
    Box::new(move |results| {
        let mut chapter = Chapter::new("deployments", "Several libraries");
        let most = points.iter().map(|point| point.1).max().unwrap_or(1);
        let scenario = results.scenario(points[0].2);
        let shape = scenario.sets.shape;
        let information = f64::from(scenario.platters) * f64::from(shape.information) / f64::from(shape.platters());
        let platter_bytes = f64::from(scenario.tracks) * scenario.mechanics.drive.track_bytes as f64;
        chapter.add_paragraph(format!(
            "Sets spread over 1, 10 and 100 libraries of {} platters each, with typical requests (without bursts) in proportion, with all platters available and with 5 % of them unavailable. A region keeps no state per file; it needs memory only for its platters and current work: {most} libraries have {} million platters of {} TB, room for {} billion files of 20 MB. \
             Half an hour is measured, after ten minutes of warm-up; 100 libraries have one seed.",
            scenario.platters,
            digits(f64::from(most) * f64::from(scenario.platters) / 1e6),
            digits(platter_bytes / 1e12),
            digits(f64::from(most) * information * platter_bytes / FILE_BYTES / 1e9),
        ));
        let of = |share: f64| points.iter().filter(move |point| point.0 == share);
        let mut panel = Panel::new(Axis::new("Libraries", "").log(), tails().from(0.0));
        for (share, name) in UNAVAILABLE.into_iter().zip(["all platters available", "5 % unavailable"]) {
            panel = panel.line(name, of(share).map(|point| tail_at(f64::from(point.1), results.sample(point.2))).collect::<Vec<_>>());
        }
        chapter.draw(
            "deployments",
            Figure::new("").panel(panel),
            "Tail of deployments of several libraries, 20 shuttles and 20 drives of 60 MB/s each.",
        );
        let rows = points.iter().map(|(share, libraries, point)| {
            let sample = results.sample(*point);
            vec![
                libraries.to_string(),
                percent(*share),
                digits(sample.mean(|run| run.requests as f64)),
                time_within(&sample.tail()),
                time_within(&sample.estimate(|run| run.median_s)),
                percent(sample.mean(|run| run.outcomes.recovered as f64 / run.outcomes.total().max(1) as f64)),
                format!("{:.0}", sample.mean(|run| run.outcomes.unavailable as f64)),
            ]
        });
        chapter.list(["libraries", "unavailable", "requests", "tail", "median", "recovered", "lost"], rows.collect());
        chapter.add_paragraph("A request that must be read from 16 platters waits for the last of them. In one library the fetches queue; spread over libraries, they run in parallel.");
        let columns = [
            Column::f64("unavailable", "", "Share of unavailable platters."),
            Column::i64("libraries", "", "Libraries over which sets are spread."),
        ];
        let rows = points.iter().map(|(share, libraries, point)| ([(*share).into(), (*libraries).into()], results.sample(*point)));
        chapter.runs("deployments", columns, rows)?;
        Ok(chapter)
    })
}
