//! The contribution of each technique of `balanced`.

use super::*;
use fulgurite_domain::Micros;
use fulgurite_library::Techniques;

/// The name of a technique, and how to disable it.
type Technique = (&'static str, fn(&mut Techniques));

/// Longer than any run, but far from overflow in sums.
const A_MILLION_HOURS: Micros = Micros(Micros::HOUR.0 * 1_000_000);

const TECHNIQUES: [Technique; 5] = [
    ("exchange", |techniques| techniques.exchanges = false),
    ("near among old", |techniques| techniques.window = 1),
    ("moves", |techniques| techniques.moves_above = A_MILLION_HOURS),
    ("assistance", |techniques| techniques.assists_above = Micros::NEVER),
    ("by track", |techniques| techniques.reads_by_track = false),
];

pub(super) fn plan(plan: &mut Plan) -> Report {
    let variants = plan_variants(plan);
    Box::new(move |results| {
        let mut chapter = Chapter::new("ablation", "The contribution of each technique");
        chapter.add_paragraph(
            "On IOPS with 20 shuttles and 20 drives of 60 MB/s. In `balanced` no shuttle owns a part of the panel: a shuttle works at one end of a shelf, its *section*, until that has no more work, and then goes where work waits without a shuttle. It adds five techniques. *Exchange*: while many requests wait, both bays of a drive serve customers, so a shuttle leaves one platter, takes another, and never waits; the platter under verification stays in a slot meanwhile. \
             *Near among old*: of the few oldest platters, take the one with the shortest path. *Moves*: a shuttle leaves its section while it still has work if platters would wait much longer in one without a shuttle. *Assistance*: a shuttle fetches platters from the other end of its shelf if they would wait much longer there. *By track*: requests for a mounted platter are read in track order. \
             *No technique* leaves out all five; it still differs from `partitioned` in that shuttles own no rectangles.",
        );
        let sample = |index: usize| results.sample(variants[index].1);
        let (theirs, all) = (sample(0), sample(variants.len() - 1));
        let names = variants.iter().map(|(name, _)| name.clone());
        let tails: Vec<f64> = (0..variants.len()).map(|index| sample(index).tail().mean / 60.0).collect();
        let mut panel = Panel::new(Axis::categories("", names), Axis::new("99.9th percentile", "min").from(0.0)).bars("tail", tails);
        if let Some(bound) = all.bound() {
            panel = panel.level(bound / 60.0, BOUND_NAME);
        }
        chapter.draw(
            "ablation",
            Figure::new("").width(504.0).panel(panel),
            "Tail on IOPS with each technique alone and with each left out.",
        );
        let rows = variants.iter().enumerate().map(|(index, (name, _))| {
            let sample = sample(index);
            vec![
                name.clone(),
                time_within(&sample.tail()),
                compared(sample.ratio_to(theirs, |run| run.tail_s).mean),
                sample.over(|run| run.bound_s).map_or("–".into(), |ratio| digits(ratio.mean)),
                sample.over(|run| run.unforeseen_s).map_or("–".into(), |ratio| digits(ratio.mean)),
                sample.over(|run| run.sweep_s).map_or("–".into(), |ratio| digits(ratio.mean)),
                digits(sample.mean(|run| run.shuttles.joules_per_operation())),
                sample.mean(|run| run.shuttles.operations as f64 / 1e3).round().to_string(),
                digits(sample.mean(|run| run.drives.bytes_verified as f64 / 1e12)),
                percent(sample.mean(|run| run.shuttles.congestion_overhead())),
            ]
        });
        let head = [
            "",
            "tail",
            "to partitioned",
            "/ bound",
            "/ bound, nothing foreseen",
            "/ one sweep",
            "J/operation",
            "operations, thousands",
            "verified, TB",
            "congestion",
        ];
        chapter.list(head, rows.collect());
        if let Some(bound) = all.bound() {
            chapter.add_paragraph(format!(
                "The bound is {}, and {} for policies without knowledge of future requests. One sweep, in which the shuttles fetch each requested platter once and lose no time, takes {}. Verification pays for the exchange: over the interval `balanced` verifies {} TB and `partitioned` {} TB.",
                time(bound),
                all.unforeseen().map_or("unknown".to_owned(), time),
                time(all.mean(|run| run.sweep_s.unwrap_or(0.0))),
                digits(all.mean(|run| run.drives.bytes_verified as f64 / 1e12)),
                digits(theirs.mean(|run| run.drives.bytes_verified as f64 / 1e12)),
            ));
        }
        let rows = variants.iter().map(|(name, point)| ([name.as_str().into()], results.sample(*point)));
        chapter.runs("ablation", [Column::text("variant", "The techniques in use.")], rows)?;
        Ok(chapter)
    })
}

/// Plans the variants, from `partitioned` to `balanced`.
fn plan_variants(plan: &mut Plan) -> Vec<(String, Point)> {
    let mut variants: Vec<(String, Point)> = Vec::new();
    let scenario = interval(plan, WorkloadKind::Iops, PolicyName::Partitioned);
    variants.push(("partitioned".into(), plan.headline(&scenario)));
    let mut ours = |plan: &mut Plan, name: String, techniques: Techniques| {
        let mut scenario = interval(plan, WorkloadKind::Iops, PolicyName::Balanced);
        scenario.policy.techniques = techniques;
        variants.push((name, plan.headline(&scenario)));
    };
    let mut none = Techniques::default();
    TECHNIQUES.iter().for_each(|(_, without)| without(&mut none));
    ours(plan, "no technique".into(), none);
    for (alone, (name, _)) in TECHNIQUES.iter().enumerate() {
        let mut techniques = Techniques::default();
        TECHNIQUES.iter().enumerate().filter(|(index, _)| *index != alone).for_each(|(_, (_, without))| without(&mut techniques));
        ours(plan, format!("{name} alone"), techniques);
    }
    for (name, without) in TECHNIQUES {
        let mut techniques = Techniques::default();
        without(&mut techniques);
        ours(plan, format!("all but {name}"), techniques);
    }
    ours(plan, "one drive of 20 verifies".into(), Techniques { one_verifies_of: 20, ..Techniques::default() });
    ours(plan, "balanced".into(), Techniques::default());
    variants
}
