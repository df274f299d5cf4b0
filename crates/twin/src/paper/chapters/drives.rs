//! How drives spend their time.

use super::*;

/// Read shares of drives without shuttles at 60 MB/s (SOSP '23, section 7.2), to which the workload
/// is calibrated.
const PUBLISHED: [f64; 3] = [0.06, 0.31, 0.26];

pub(super) fn plan(plan: &mut Plan) -> Report {
    let mut points: Vec<(WorkloadKind, &'static str, Point)> = Vec::new();
    for (kind, _) in INTERVALS {
        for policy in POLICIES {
            let scenario = interval(plan, kind, policy);
            points.push((kind, policy_label(policy), point_of(plan, &scenario, true)));
        }
        let mut scenario = interval(plan, kind, PolicyName::Balanced);
        scenario.policy.techniques.exchanges = false;
        points.push((kind, "without exchange", plan.point(&scenario)));
    }
    Box::new(move |results| {
        let mut chapter = Chapter::new("drives", "How drives spend their time");
        chapter.add_paragraph(
            "Reading includes mounting, seeking and unmounting, as in the paper, which doesn't count switching between the bays as utilization. Every drive always has a platter to verify, except while `balanced` has set it aside: \
             while many requests wait, both bays serve customers. *Without exchange* is `balanced` with verification left in place.",
        );
        let mut figure = Figure::new("").one_scale();
        for ((kind, name), letter) in INTERVALS.into_iter().zip(["a", "b", "c"]) {
            let here: Vec<_> = points.iter().filter(|point| point.0 == kind).map(|point| (point.1, results.sample(point.2))).collect();
            let axis = Axis::categories("", here.iter().map(|(name, _)| short(name)));
            let share = |of: fn(&Measured) -> f64| here.iter().map(|(_, sample)| sample.mean(of)).collect::<Vec<f64>>();
            let panel = Panel::new(axis, Axis::share("Share of the drives' time").from(0.0).to(1.0)).titled(&format!("({letter}) {name}"));
            figure = figure.panel(
                panel
                    .stack("reading", share(|run| run.drives.reading))
                    .stack("verifying", share(|run| run.drives.verifying))
                    .stack("switching", share(|run| run.drives.switching))
                    .stack("idle", share(|run| run.drives.idle.max(0.0))),
            );
        }
        chapter.draw(
            "drives",
            figure,
            "Drives' time by interval and policy at 20 shuttles and 20 drives of 60 MB/s. NS: no shuttles; P: partitioned; B: balanced; SP: shortest paths; B−: balanced without exchange.",
        );
        let mut rows = Vec::new();
        for (index, (kind, name)) in INTERVALS.into_iter().enumerate() {
            for (kind_here, policy, point) in &points {
                if *kind_here == kind {
                    let sample = results.sample(*point);
                    let published = if *policy == policy_label(PolicyName::NoShuttles) { percent(PUBLISHED[index]) } else { String::new() };
                    rows.push(vec![
                        name.to_owned(),
                        (*policy).to_owned(),
                        percent(sample.mean(|run| run.drives.reading)),
                        published,
                        percent(sample.mean(|run| run.drives.verifying)),
                        percent(sample.mean(|run| run.drives.switching)),
                        percent(sample.mean(|run| run.drives.idle)),
                        percent(sample.mean(|run| run.drives.utilization)),
                    ]);
                }
            }
        }
        chapter.list(["interval", "policy", "reading", "published", "verifying", "switching", "idle", "utilization"], rows);
        chapter.add_paragraph(
            "The intervals are calibrated to the read shares of `no-shuttles`. A policy under which platters wait longer reads in fewer visits, since more requests for a platter have arrived by the time it is mounted.",
        );
        let columns = [Column::text("interval", "The interval."), Column::text("policy", "The policy.")];
        let rows = points.iter().map(|(kind, policy, point)| ([kind.text().into(), (*policy).into()], results.sample(*point)));
        chapter.runs("drives", columns, rows)?;
        Ok(chapter)
    })
}

fn short(policy: &str) -> &'static str {
    match policy {
        "no shuttles" => "NS",
        "shortest paths" => "SP",
        "partitioned" => "P",
        "balanced" => "B",
        _ => "B−",
    }
}
