//! Zipf's law: the effect of a few popular platters, with and without work stealing.

use super::*;

const EXPONENTS: [f64; 6] = [0.0, 0.25, 0.5, 0.75, 1.0, 1.25];
const VARIANTS: [&str; 4] = ["no shuttles", "partitioned, no stealing", "partitioned", "balanced"];

pub(super) fn plan(plan: &mut Plan) -> Report {
    let mut points: Vec<(&'static str, f64, Point)> = Vec::new();
    for variant in VARIANTS {
        for exponent in plan.along(&EXPONENTS) {
            let policy = match variant {
                "no shuttles" => PolicyName::NoShuttles,
                "balanced" => PolicyName::Balanced,
                _ => PolicyName::Partitioned,
            };
            let mut scenario = interval(plan, WorkloadKind::Iops, policy);
            scenario.workload.zipf = exponent;
            if variant == "partitioned, no stealing" {
                scenario.policy.steals_above = None;
            }
            points.push((variant, exponent, plan.point(&scenario)));
        }
    }
    Box::new(move |results| {
        let mut chapter = Chapter::new("skew", "Skewed popularity");
        chapter.add_paragraph(
            "On IOPS with 20 shuttles and 20 drives of 60 MB/s. The platter of rank r gets a share of requests proportional to r^-s; ranks are assigned to platters at random. At s = 0 all platters are alike. `partitioned` helps the fullest rectangle when it has 1 GB more waiting than the emptiest (our threshold; the paper's isn't known here), or never.",
        );
        let of = |variant: &'static str| points.iter().filter(move |point| point.0 == variant);
        let mut panel = Panel::new(Axis::new("Exponent of Zipf's law", ""), tails().log());
        for variant in VARIANTS {
            panel = panel.line(variant, of(variant).map(|point| tail_at(point.1, results.sample(point.2))).collect::<Vec<_>>());
        }
        panel = with_bound(panel, of("balanced").map(|point| (point.1, results.sample(point.2))));
        chapter.draw("skew", Figure::new("").panel(panel), "Tail on IOPS against the exponent of Zipf's law.");
        let exponents: Vec<f64> = of("balanced").map(|point| point.1).collect();
        let find = |variant: &'static str, exponent: f64| {
            let point = of(variant).find(|point| point.1 == exponent).expect("every variant has every exponent");
            results.sample(point.2)
        };
        let rows = exponents.iter().map(|&exponent| {
            let tails = VARIANTS.map(|variant| time_within(&find(variant, exponent).tail()));
            let ratio = find("balanced", exponent).ratio_to(find("partitioned", exponent), |run| run.tail_s).mean;
            std::iter::once(exponent.to_string()).chain(tails).chain([compared(ratio)]).collect()
        });
        let head = ["exponent", VARIANTS[0], VARIANTS[1], VARIANTS[2], VARIANTS[3], "balanced to partitioned"];
        chapter.list(head, rows.collect());
        chapter.add_paragraph("With more skew, more requests share a visit, so the load on shuttles falls. The rest depends on the places of the popular platters.");
        let columns = [
            Column::text("variant", "The policy, and whether it steals."),
            Column::f64("exponent", "", "Exponent of Zipf's law; 0 is uniform."),
        ];
        let rows = points.iter().map(|(variant, exponent, point)| ([(*variant).into(), (*exponent).into()], results.sample(*point)));
        chapter.runs("skew", columns, rows)?;
        Ok(chapter)
    })
}
