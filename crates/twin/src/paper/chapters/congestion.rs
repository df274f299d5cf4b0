//! Delays that shuttles cause each other, and the energy of a platter operation.

use super::*;

const SHUTTLES: [u16; 9] = [8, 12, 16, 20, 24, 28, 32, 36, 40];
const MOVING: [PolicyName; 3] = [PolicyName::Partitioned, PolicyName::Balanced, PolicyName::ShortestPaths];

pub(super) fn plan(plan: &mut Plan) -> Report {
    let mut points: Vec<(PolicyName, u16, Point)> = Vec::new();
    for policy in MOVING {
        for shuttles in plan.along(&SHUTTLES) {
            // The same points as the sweep over shuttles (`Varied::runs`), so the runs are shared.
            if policy != PolicyName::ShortestPaths || [8, 12, 20].contains(&shuttles) {
                let scenario = with_shuttles(interval(plan, WorkloadKind::Iops, policy), shuttles);
                points.push((policy, shuttles, point_of(plan, &scenario, shuttles == 20)));
            }
        }
    }
    Box::new(move |results| {
        let mut chapter = Chapter::new("congestion", "Congestion and energy");
        chapter.add_paragraph(
            "On IOPS, at 60 MB/s. Congestion overhead is the extra time of trips because of other shuttles, relative to their time without others. Energy is that of motion: kinetic energy of each start, drag, crabs, picks and places. Its settings are proposed, so only ratios are meaningful.",
        );
        let of = |policy: PolicyName| points.iter().filter(move |point| point.0 == policy);
        let panel = |title: &str, y: Axis, value: fn(&Measured) -> f64| {
            MOVING.into_iter().fold(Panel::new(Axis::new("Shuttles", ""), y).titled(title), |panel, policy| {
                let line = of(policy).map(|point| plot_point(f64::from(point.1), &results.sample(point.2).estimate(value)));
                panel.line(policy_label(policy), line.collect::<Vec<_>>())
            })
        };
        let congestion = panel("(a) Congestion", Axis::share("Congestion overhead"), |run| run.shuttles.congestion_overhead());
        let energy =
            panel("(b) Energy", Axis::new("Energy per platter operation", "J").from(0.0), |run| run.shuttles.joules_per_operation());
        chapter.draw(
            "congestion",
            Figure::new("").panel(congestion).panel(energy),
            "Congestion overhead and energy per platter operation against the number of shuttles, on IOPS with 20 drives of 60 MB/s.",
        );
        let rows = points.iter().map(|(policy, shuttles, point)| {
            let sample = results.sample(*point);
            vec![
                policy_label(*policy).to_owned(),
                shuttles.to_string(),
                percent(sample.mean(|run| run.shuttles.congestion_overhead())),
                digits(sample.mean(|run| run.shuttles.joules_per_operation())),
                digits(sample.mean(|run| run.shuttles.metres_per_operation())),
                digits(sample.mean(|run| run.shuttles.crabs as f64 / run.shuttles.operations.max(1) as f64)),
                percent(sample.mean(|run| run.shuttles.idle)),
            ]
        });
        chapter.list(["policy", "shuttles", "congestion", "J/operation", "m/operation", "crabs/operation", "idle"], rows.collect());
        let columns = [Column::text("policy", "The policy."), Column::i64("shuttles", "", "Shuttles in the library.")];
        let rows = points.iter().map(|(policy, shuttles, point)| ([policy.text().into(), (*shuttles).into()], results.sample(*point)));
        chapter.runs("congestion", columns, rows)?;
        Ok(chapter)
    })
}
