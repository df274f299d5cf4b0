//! How much each proposed setting moves the tails, and the comparison of policies.

use super::*;

const KINDS: [(WorkloadKind, &str); 2] = [(WorkloadKind::Iops, "IOPS"), (WorkloadKind::Volume, "Volume")];
const MOVING: [PolicyName; 2] = [PolicyName::Partitioned, PolicyName::Balanced];
/// A result that changes by more than this share is marked.
const MARKED_ABOVE: f64 = 0.1;

/// A setting, its value, and how to set it.
type Variant = (&'static str, &'static str, fn(&mut Scenario));

const VARIANTS: [Variant; 15] = [
    ("default", "", |_| ()),
    ("platters", "3,800", |scenario| scenario.platters = 3_800),
    ("platters", "14,000", |scenario| scenario.platters = 14_000),
    ("platters", "full", |scenario| scenario.platters = 0),
    ("rack width", "0.9 m", |scenario| scenario.layout.rack_width_um = 900_000),
    ("rack width", "1.5 m", |scenario| scenario.layout.rack_width_um = 1_500_000),
    ("speed", "0.75 m/s", |scenario| scenario.mechanics.motion.speed_m_s = 0.75),
    ("speed", "1.5 m/s", |scenario| scenario.mechanics.motion.speed_m_s = 1.5),
    ("acceleration", "0.25 m/s²", |scenario| scenario.mechanics.motion.acceleration_m_s2 = 0.25),
    ("acceleration", "1 m/s²", |scenario| scenario.mechanics.motion.acceleration_m_s2 = 1.0),
    ("pick and place", "half", |scenario| scale_handling(scenario, 0.5)),
    ("pick and place", "one and a half", |scenario| scale_handling(scenario, 1.5)),
    ("work stealing", "100 MB", |scenario| steal_above(scenario, 100_000_000)),
    ("work stealing", "10 GB", |scenario| steal_above(scenario, 10_000_000_000)),
    ("racks", "7", |scenario| scenario.layout.storage_racks = 7),
];

fn scale_handling(scenario: &mut Scenario, factor: f64) {
    scenario.mechanics.motion.pick_s *= factor;
    scenario.mechanics.motion.place_s *= factor;
}

/// Only `partitioned` has a threshold; other scenarios stay the default, so their run is shared.
fn steal_above(scenario: &mut Scenario, bytes: u64) {
    if scenario.policy.name == PolicyName::Partitioned {
        scenario.policy.steals_above = Some(bytes);
    }
}

pub(super) fn plan(plan: &mut Plan) -> Report {
    let point = |plan: &mut Plan, kind, policy, change: fn(&mut Scenario)| {
        let mut scenario = interval(plan, kind, policy);
        change(&mut scenario);
        plan.point(&scenario)
    };
    let mut row = |change| KINDS.map(|(kind, _)| MOVING.map(|policy| point(plan, kind, policy, change)));
    let rows = VARIANTS.map(|(.., change)| row(change));
    Box::new(move |results| {
        let mut chapter = Chapter::new("sensitivity", "Sensitivity to proposed settings");
        let tail = |run: &Measured| run.tail_s;
        let sample = |row: usize, kind: usize, policy: usize| results.sample(rows[row][kind][policy]);
        let change = |row, kind, policy| sample(row, kind, policy).ratio_to(sample(0, kind, policy), tail).mean;
        let ratio = |row, kind| sample(row, kind, 1).ratio_to(sample(row, kind, 0), tail).mean;
        // The tails of both policies on both intervals, and the two ratios of the policies.
        let moved = |row| {
            let results_of = |kind| [change(row, kind, 0), change(row, kind, 1), ratio(row, kind) / ratio(0, kind)];
            [results_of(0), results_of(1)].concat().into_iter().filter(|ratio| (ratio - 1.0).abs() > MARKED_ABOVE).count()
        };
        chapter.add_paragraph(format!(
            "Each row changes one proposed setting of the default library, with 20 shuttles and 20 drives of 60 MB/s. Next to a tail is its change from the default. The last column counts the results, out of four tails and two ratios of `balanced` to `partitioned`, that move by more than {}. \
             With few seeds, changes on Volume include chance.",
            percent(MARKED_ABOVE),
        ));
        let names = VARIANTS.iter().map(|(setting, value, _)| format!("{setting} {value}").trim().to_owned());
        let axis = Axis::categories("", names);
        let mut panel = Panel::new(axis, Axis::new("Tail of balanced / partitioned", "").from(0.0));
        for (index, (_, name)) in KINDS.into_iter().enumerate() {
            panel = panel.bars(name, (0..VARIANTS.len()).map(|row| ratio(row, index)).collect::<Vec<_>>());
        }
        chapter.draw(
            "sensitivity",
            Figure::new("").width(504.0).panel(panel),
            "Tail of `balanced` over that of `partitioned`, by setting.",
        );
        let listed = VARIANTS.iter().enumerate().map(|(row, (setting, value, _))| {
            let cell = |kind, policy| {
                let tail = time_within(&sample(row, kind, policy).tail());
                if row == 0 { tail } else { format!("{tail} ({:+.0} %)", ((change(row, kind, policy) - 1.0) * 100.0).round() + 0.0) }
            };
            let of_kind = |kind| [cell(kind, 0), cell(kind, 1), digits(ratio(row, kind))];
            let mark = match moved(row) {
                0 => String::new(),
                count => format!("**{count}**"),
            };
            let first = [(*setting).to_owned(), (*value).to_owned()];
            first.into_iter().chain(of_kind(0)).chain(of_kind(1)).chain([mark]).collect()
        });
        let head = ["setting", "value", "IOPS: partitioned", "balanced", "ratio", "Volume: partitioned", "balanced", "ratio", "moved"];
        chapter.list(head, listed.collect());
        for (kind, (_, name)) in KINDS.into_iter().enumerate() {
            let ratios: Vec<f64> = (0..VARIANTS.len()).map(|row| ratio(row, kind)).collect();
            let (low, high) = ratios.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), &ratio| (low.min(ratio), high.max(ratio)));
            chapter.add_paragraph(format!(
                "On {name} the tail of `balanced` is {} times that of `partitioned` by default, and {} to {} times over all rows.",
                digits(ratios[0]),
                digits(low),
                digits(high),
            ));
        }
        let columns = [
            Column::text("interval", "The interval."),
            Column::text("policy", "The policy."),
            Column::text("setting", "The changed setting."),
            Column::text("value", "Its value."),
        ];
        let mut runs = Vec::new();
        for ((setting, value, _), row) in VARIANTS.iter().zip(&rows) {
            for ((kind, _), points) in KINDS.iter().zip(row) {
                for (policy, point) in MOVING.iter().zip(points) {
                    let varied: [Value; 4] = [kind.text().into(), policy.text().into(), (*setting).into(), (*value).into()];
                    runs.push((varied, results.sample(*point)));
                }
            }
        }
        chapter.runs("sensitivity", columns, runs)?;
        Ok(chapter)
    })
}
