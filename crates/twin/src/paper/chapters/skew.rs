//! Zipf's law: the effect of a few popular platters, with and without work stealing.

use super::*;

const EXPONENTS: [f64; 5] = [0.0, 0.5, 1.0, 1.2, 1.5];
/// The paper studies Volume; IOPS is ours.
const KINDS: [(WorkloadKind, &str); 2] = [(WorkloadKind::Volume, "Volume"), (WorkloadKind::Iops, "IOPS")];
const VARIANTS: [&str; 4] = ["no shuttles", "partitioned, no stealing", "partitioned", "balanced"];

/// Seeds of the two policies that are compared, on IOPS from s = 1 on. There, the places of the
/// most popular platters change the tail of `partitioned` by 10 to 20 % from seed to seed. On
/// Volume, the policies differ by more, and runs take longer.
const SEEDS_IF_SKEWED: u32 = 5;

/// Those that move shuttles.
const MOVING: [&str; 3] = [VARIANTS[1], VARIANTS[2], VARIANTS[3]];

fn trip_tail_s(run: &Measured) -> f64 {
    run.shuttles.trip_tail.seconds()
}

pub(super) fn plan(plan: &mut Plan) -> Report {
    let mut points: Vec<(WorkloadKind, &'static str, f64, Point)> = Vec::new();
    let sweep_seeds = plan.settings().sweep_seeds;
    let seeds_if_skewed = SEEDS_IF_SKEWED.min(plan.settings().seeds).max(sweep_seeds);
    for (kind, _) in KINDS {
        for variant in VARIANTS {
            for exponent in plan.along(&EXPONENTS) {
                let policy = match variant {
                    "no shuttles" => PolicyName::NoShuttles,
                    "balanced" => PolicyName::Balanced,
                    _ => PolicyName::Partitioned,
                };
                let mut scenario = interval(plan, kind, policy);
                scenario.workload.zipf = exponent;
                if variant == "partitioned, no stealing" {
                    scenario.policy.steals_above = None;
                }
                let is_compared = [VARIANTS[2], VARIANTS[3]].contains(&variant);
                let is_uncertain = kind == WorkloadKind::Iops && exponent >= 1.0 && is_compared;
                let seeds = if is_uncertain { seeds_if_skewed } else { sweep_seeds };
                points.push((kind, variant, exponent, plan.point_with(&scenario, seeds)));
            }
        }
    }
    Box::new(move |results| {
        let mut chapter = Chapter::new("skew", "Skewed popularity");
        chapter.add_paragraph(
            "On Volume, as in the paper, and on IOPS in addition, with 20 shuttles and 20 drives of 60 MB/s. The platter of rank r gets a share of requests proportional to r^-s; ranks are assigned to platters at random. At s = 0 all platters are alike. \
             The first platter is expected to get 2^s times the bytes of the second. In the paper the ratio is about ten, for which Zipf's law alone would need s = 3.3. \
             `partitioned` helps the fullest rectangle when it has 1 GB more waiting than the emptiest (our threshold; the paper's isn't known here), or never.",
        );
        let of = |kind: WorkloadKind, variant: &'static str| {
            let here = points.iter().filter(move |point| (point.0, point.1) == (kind, variant));
            here.map(|point| (point.2, results.sample(point.3)))
        };
        let mut figure = Figure::new("");
        for ((kind, name), letter) in KINDS.into_iter().zip(["a", "b"]) {
            let panel = Panel::new(Axis::new("Exponent of Zipf's law", ""), tails().log()).titled(&format!("({letter}) {name}"));
            let panel = VARIANTS.into_iter().fold(panel, |panel, variant| {
                panel.line(variant, of(kind, variant).map(|(exponent, sample)| tail_at(exponent, sample)).collect::<Vec<_>>())
            });
            figure = figure.panel(with_bound(panel, of(kind, "balanced")));
        }
        chapter.draw("skew", figure, "Tail against the exponent of Zipf's law.");
        let mut trips = Figure::new("");
        for ((kind, name), letter) in KINDS.into_iter().zip(["a", "b"]) {
            let panel = Panel::new(Axis::new("Exponent of Zipf's law", ""), Axis::seconds("99.9th percentile of travel times"));
            trips = trips.panel(MOVING.into_iter().fold(panel.titled(&format!("({letter}) {name}")), |panel, variant| {
                let tails = of(kind, variant).map(|(exponent, sample)| plot_point(exponent, &sample.estimate(trip_tail_s)));
                panel.line(variant, tails.collect::<Vec<_>>())
            }));
        }
        chapter.draw(
            "skew-trips",
            trips,
            "Tail of the shuttles' travel times against the exponent of Zipf's law, including waits for other shuttles.",
        );
        let mut rows = Vec::new();
        for (kind, name) in KINDS {
            for (index, (exponent, ours)) in of(kind, "balanced").enumerate() {
                let sample = |variant| of(kind, variant).nth(index).expect("every variant has every exponent").1;
                let ratio = ours.ratio_to(sample("partitioned"), |run| run.tail_s).mean;
                let tails = VARIANTS.map(|variant| time_within(&sample(variant).tail()));
                let first = [name.to_owned(), exponent.to_string(), digits(libm::exp2(exponent))];
                rows.push(
                    first
                        .into_iter()
                        .chain(tails)
                        .chain([compared(ratio), digits(ours.mean(|run| run.drives.reads_per_visit()))])
                        .collect(),
                );
            }
        }
        let head = [
            "interval",
            "exponent",
            "first to second platter",
            VARIANTS[0],
            VARIANTS[1],
            VARIANTS[2],
            VARIANTS[3],
            "balanced to partitioned",
            "reads per visit, balanced",
        ];
        chapter.list(head, rows);
        let trip_rows = KINDS.into_iter().flat_map(|(kind, name)| {
            let tails = MOVING.map(|variant| of(kind, variant).map(|(_, sample)| time(sample.mean(trip_tail_s))).collect::<Vec<_>>());
            let row = |(index, exponent): (usize, f64)| {
                let first = [name.to_owned(), exponent.to_string()];
                first.into_iter().chain(tails.iter().map(|tails| tails[index].clone())).collect::<Vec<_>>()
            };
            of(kind, MOVING[0]).map(|(exponent, _)| exponent).enumerate().map(row).collect::<Vec<_>>()
        });
        chapter.list(["travel time, tail", "exponent", MOVING[0], MOVING[1], MOVING[2]], trip_rows.collect());
        chapter.add_paragraph(format!(
            "Requests for one platter share a visit, so skew changes the load on shuttles, but they also share a drive. \
             The rest depends on where the popular platters are, which differs from seed to seed. \
             On IOPS, from s = 1 on, `partitioned` and `balanced` therefore have {seeds_if_skewed} seeds. \
             Where their intervals overlap, neither is known to be better."
        ));
        let columns = [
            Column::text("interval", "The interval."),
            Column::text("variant", "The policy, and whether it steals."),
            Column::f64("exponent", "", "Exponent of Zipf's law; 0 is uniform."),
        ];
        let rows = points
            .iter()
            .map(|(kind, variant, exponent, point)| ([kind.text().into(), (*variant).into(), (*exponent).into()], results.sample(*point)));
        chapter.runs("skew", columns, rows)?;
        Ok(chapter)
    })
}
