//! How drives spend their time.

use super::*;

/// Read shares of drives without shuttles at 60 MB/s (SOSP '23, section 7.2), to which the workload
/// is calibrated.
const PUBLISHED: [f64; 3] = [0.06, 0.31, 0.26];
const WITHOUT_EXCHANGE: &str = "without exchange";

/// The library's drives, and twice as many: the paper has a figure of each.
const DRIVES: [u16; 2] = [20, 40];

struct Measurement {
    drives: u16,
    kind: WorkloadKind,
    policy: &'static str,
    point: Point,
}

pub(super) fn plan(plan: &mut Plan) -> Report {
    let mut measurements = Vec::new();
    for drives in DRIVES {
        for (kind, _) in INTERVALS {
            let mut measure = |policy, name, is_reference| {
                let mut scenario = interval(plan, kind, policy);
                scenario.layout.drives = [drives as u8 / 2; 2];
                scenario.policy.techniques.exchanges = name != WITHOUT_EXCHANGE;
                let point = point_of(plan, &scenario, is_reference && drives == DRIVES[0]);
                measurements.push(Measurement { drives, kind, policy: name, point });
            };
            for policy in POLICIES {
                measure(policy, policy_label(policy), true);
            }
            measure(PolicyName::Balanced, WITHOUT_EXCHANGE, false);
        }
    }
    Box::new(move |results| {
        let mut chapter = Chapter::new("drives", "How drives spend their time");
        chapter.add_paragraph(
            "Reading includes mounting, seeking and unmounting, as in the paper, which doesn't count switching between the bays as utilization. Every drive always has a platter to verify, except while `balanced` has set it aside: \
             while many requests wait, both bays serve customers. *Without exchange* is `balanced` with verification left in place.",
        );
        for (drives, name) in DRIVES.into_iter().zip(["drives", "drives-40"]) {
            let caption = format!(
                "Drives' time by interval and policy at 20 shuttles and {drives} drives of 60 MB/s. NS: no shuttles; P: partitioned; B: balanced; SP: shortest paths; B−: balanced without exchange.",
            );
            chapter.draw(name, figure(results, &measurements, drives), caption);
        }
        let rows = measurements.iter().map(|Measurement { drives, kind, policy, point }| {
            let sample = results.sample(*point);
            let (index, interval) =
                INTERVALS.into_iter().enumerate().find(|(_, (other, _))| other == kind).expect("every kind is an interval");
            let is_published = *policy == policy_label(PolicyName::NoShuttles) && *drives == DRIVES[0];
            vec![
                drives.to_string(),
                interval.1.to_owned(),
                (*policy).to_owned(),
                percent(sample.mean(|run| run.drives.reading)),
                if is_published { percent(PUBLISHED[index]) } else { String::new() },
                percent(sample.mean(|run| run.drives.verifying)),
                percent(sample.mean(|run| run.drives.switching)),
                percent(sample.mean(|run| run.drives.idle)),
                percent(sample.mean(|run| run.drives.utilization)),
                time_within(&sample.tail()),
            ]
        });
        let head = ["drives", "interval", "policy", "reading", "published", "verifying", "switching", "idle", "utilization", "tail"];
        chapter.list(head, rows.collect());
        chapter.add_paragraph(
            "The intervals are calibrated to the read shares of `no-shuttles`. A policy under which platters wait longer reads in fewer visits, since more requests for a platter have arrived by the time it is mounted.",
        );
        let columns = [
            Column::i64("drives", "", "Drives in the library."),
            Column::text("interval", "The interval."),
            Column::text("policy", "The policy."),
        ];
        let rows = measurements.iter().map(|Measurement { drives, kind, policy, point }| {
            ([(*drives).into(), kind.text().into(), (*policy).into()], results.sample(*point))
        });
        chapter.runs("drives", columns, rows)?;
        Ok(chapter)
    })
}

/// Stacked shares of the time of so many drives.
fn figure(results: &Results, measurements: &[Measurement], drives: u16) -> Figure {
    let mut figure = Figure::new("").one_scale();
    for ((kind, name), letter) in INTERVALS.into_iter().zip(["a", "b", "c"]) {
        let here = measurements.iter().filter(|one| (one.drives, one.kind) == (drives, kind));
        let here: Vec<_> = here.map(|one| (one.policy, results.sample(one.point))).collect();
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
    figure
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
