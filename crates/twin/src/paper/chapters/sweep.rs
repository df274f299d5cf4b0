//! Tails of the three intervals, over the throughput of drives and over the number of shuttles.

use super::*;

/// Drive throughputs in MB/s (SOSP '23, section 7).
const THROUGHPUTS: [f64; 7] = [30.0, 60.0, 90.0, 120.0, 150.0, 180.0, 210.0];
/// Numbers of shuttles (SOSP '23, section 7: 8 to 40).
const SHUTTLES: [f64; 9] = [8.0, 12.0, 16.0, 20.0, 24.0, 28.0, 32.0, 36.0, 40.0];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Varied {
    Throughput,
    Shuttles,
}

impl Varied {
    fn axis(self) -> Axis {
        match self {
            Self::Throughput => Axis::new("Drive throughput", "MB/s"),
            Self::Shuttles => Axis::new("Shuttles", ""),
        }
    }

    fn column(self) -> Column {
        match self {
            Self::Throughput => Column::f64("throughput", "MB/s", "Throughput of each of the 20 drives."),
            Self::Shuttles => Column::f64("shuttles", "", "Shuttles in the library."),
        }
    }

    fn set(self, scenario: Scenario, x: f64) -> Scenario {
        match self {
            Self::Throughput => at_throughput(scenario, x),
            // Without shuttles, their number changes nothing.
            Self::Shuttles if scenario.policy.name == PolicyName::NoShuttles => scenario,
            Self::Shuttles => with_shuttles(scenario, x as u16),
        }
    }

    /// The value of the default library, where the other sweep has the same points.
    fn reference(self) -> f64 {
        match self {
            Self::Throughput => 60.0,
            Self::Shuttles => 20.0,
        }
    }

    /// True if a policy is run at `x`. Shortest paths run at a few places only, since shuttles that
    /// wait for each other take long to simulate: minutes for more than 20 of them.
    fn runs(self, policy: PolicyName, x: f64) -> bool {
        match (self, policy) {
            (Self::Shuttles, PolicyName::ShortestPaths) => [8.0, 12.0, 20.0].contains(&x),
            (Self::Throughput, PolicyName::ShortestPaths) => [30.0, 60.0, 210.0].contains(&x),
            _ => true,
        }
    }
}

struct Sweep {
    varied: Varied,
    /// By interval, policy and place on the axis.
    points: Vec<(WorkloadKind, PolicyName, f64, Point)>,
    places: Vec<f64>,
}

impl Sweep {
    fn plan(plan: &mut Plan, varied: Varied, places: &[f64]) -> Self {
        let places = plan.along(places);
        let mut points = Vec::new();
        for (kind, _) in INTERVALS {
            for policy in POLICIES {
                for &x in places.iter().filter(|&&x| varied.runs(policy, x)) {
                    let scenario = varied.set(interval(plan, kind, policy), x);
                    points.push((kind, policy, x, point_of(plan, &scenario, x == varied.reference())));
                }
            }
        }
        Self { varied, points, places }
    }

    fn of(&self, kind: WorkloadKind, policy: PolicyName) -> impl Iterator<Item = (f64, Point)> + '_ {
        self.points.iter().filter(move |point| (point.0, point.1) == (kind, policy)).map(|point| (point.2, point.3))
    }

    fn at(&self, kind: WorkloadKind, policy: PolicyName, x: f64) -> Option<Point> {
        self.of(kind, policy).find(|point| point.0 == x).map(|point| point.1)
    }

    fn figure(&self, results: &Results) -> Figure {
        let mut figure = Figure::new("");
        for ((kind, name), letter) in INTERVALS.into_iter().zip(["a", "b", "c"]) {
            let mut panel = Panel::new(self.varied.axis(), tails().log()).titled(&format!("({letter}) {name}"));
            let mut longest = 0.0_f64;
            for policy in POLICIES {
                let points: Vec<plot::Point> = self.of(kind, policy).map(|(x, point)| tail_at(x, results.sample(point))).collect();
                longest = points.iter().fold(longest, |longest, point| longest.max(point.y));
                panel = panel.line(policy_label(policy), points);
            }
            panel = with_bound(panel, self.of(kind, PolicyName::Balanced).map(|(x, point)| (x, results.sample(point))));
            if shows_service_level(longest) {
                panel = panel.level(SERVICE_LEVEL_S, SERVICE_LEVEL);
            }
            figure = figure.panel(panel);
        }
        figure
    }

    fn add_runs(&self, results: &Results, name: &str, chapter: &mut Chapter) -> Result<(), PaperError> {
        let columns = [Column::text("interval", "The interval."), Column::text("policy", "The policy."), self.varied.column()];
        let varied = |kind: WorkloadKind, policy: PolicyName, x: f64| [kind.text().into(), policy.text().into(), x.into()];
        let rows = self.points.iter().map(|(kind, policy, x, point)| (varied(*kind, *policy, *x), results.sample(*point)));
        Ok(chapter.runs(name, columns, rows)?)
    }

    /// Tails at one place, by policy and interval.
    fn list(&self, results: &Results, x: f64, chapter: &mut Chapter) {
        let cell = |kind, policy| self.at(kind, policy, x).map_or("–".to_owned(), |point| time_within(&results.sample(point).tail()));
        let row = |policy: PolicyName| -> Vec<String> {
            std::iter::once(policy_label(policy).to_owned()).chain(INTERVALS.map(|(kind, _)| cell(kind, policy))).collect()
        };
        let mut rows: Vec<Vec<String>> = POLICIES.into_iter().map(row).collect();
        for (name, bound) in [(BOUND_NAME, Sample::bound as fn(&Sample) -> Option<f64>), ("bound, nothing foreseen", Sample::unforeseen)] {
            let bound = |kind| bound(results.sample(self.at(kind, PolicyName::Balanced, x)?)).map(time);
            let bounds = INTERVALS.map(|(kind, _)| bound(kind).unwrap_or("–".to_owned()));
            rows.push(std::iter::once(name.to_owned()).chain(bounds).collect());
        }
        chapter.list(["", "Typical", "IOPS", "Volume"], rows);
    }

    /// Compares the tail of `balanced` with that of `partitioned` over all places, in one sentence
    /// per interval.
    fn compare(&self, results: &Results) -> String {
        let mut sentences = Vec::new();
        for (kind, name) in INTERVALS {
            let ratio = |x: f64| {
                let ours = results.sample(self.at(kind, PolicyName::Balanced, x)?);
                let theirs = results.sample(self.at(kind, PolicyName::Partitioned, x)?);
                Some(ours.ratio_to(theirs, |run| run.tail_s).mean)
            };
            let ratios: Vec<f64> = self.places.iter().filter_map(|&x| ratio(x)).collect();
            let (low, high) = ratios.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), &ratio| (low.min(ratio), high.max(ratio)));
            let span = match (compared(low), compared(high)) {
                (low, high) if low == high => low,
                (low, high) => format!("from {low} to {high}"),
            };
            sentences.push(format!("On {name} the tail of `balanced` is {span} that of `partitioned`."));
        }
        sentences.join(" ")
    }
}

const SLOW: &str = "Shortest paths have fewer points: shuttles that wait for each other take long to simulate.";

pub(super) fn throughput(plan: &mut Plan) -> Report {
    let sweep = Sweep::plan(plan, Varied::Throughput, &THROUGHPUTS);
    Box::new(move |results| {
        let mut chapter = Chapter::new("throughput", "Tail against drive throughput");
        chapter.add_paragraph(
            "The 99.9th percentile of completion times with 20 shuttles and 20 drives, at throughputs of 30 to 210 MB/s. `no-shuttles` is the paper's lower bound: drives never wait for a platter. It reads the requests for a platter in order of arrival and keeps verifying, so a policy that does neither can be below it if drives are the limit. \
             The bound (dashed) is ours: no policy can beat it with these shuttles and drives, not even one that knows all future requests and so postpones, during a burst, platters that will be requested again before its end. \
             The tables also give the bound that policies without this knowledge can't expect to beat.",
        );
        chapter.draw("throughput", sweep.figure(results), "Tail against drive throughput. 20 shuttles, 20 drives.");
        let x = if sweep.places.contains(&Varied::Throughput.reference()) { Varied::Throughput.reference() } else { sweep.places[0] };
        chapter.add_paragraph(format!("At {x} MB/s:"));
        sweep.list(results, x, &mut chapter);
        chapter.add_paragraph(sweep.compare(results));
        if let Some(sample) = sweep.at(WorkloadKind::Iops, PolicyName::Balanced, x).map(|point| results.sample(point)) {
            let over = |bound: fn(&Measured) -> Option<f64>| {
                let ratio = sample.over(bound)?;
                let half = ratio.half_width().map_or(String::new(), |half| format!(" ± {}", percent(half)));
                Some(format!("{}{half} above", percent(ratio.mean - 1.0)))
            };
            let sample_text = over(|run| run.bound_s).map(|above| {
                let unforeseen = over(|run| run.unforeseen_s).map(|above| format!(", and {above} the one for those that don't"));
                format!(
                    " On IOPS, `balanced` is {above} the bound that holds even for policies that know the future{}.",
                    unforeseen.unwrap_or_default()
                )
            });
            chapter.add_paragraph(format!(
                "The tails and read shares of `no-shuttles` at 60 MB/s are calibrated; everything else is predicted.{} {SLOW}",
                sample_text.unwrap_or_default()
            ));
        }
        sweep.add_runs(results, "throughput", &mut chapter)?;
        Ok(chapter)
    })
}

pub(super) fn shuttles(plan: &mut Plan) -> Report {
    let sweep = Sweep::plan(plan, Varied::Shuttles, &SHUTTLES);
    Box::new(move |results| {
        let mut chapter = Chapter::new("shuttles", "Tail against the number of shuttles");
        chapter.add_paragraph(
            "20 drives of 60 MB/s, and 8 to 40 shuttles: at most two per drive, as in the paper. Under `partitioned`, each of 20 shuttles has half a shelf and one drive; with fewer, a rectangle has several shelves and its shuttle has to crab; with more than 20, the additional ones stand by. Under `balanced` no shuttle owns a part of the panel: shuttles move to the end of a shelf where platters would otherwise wait longest, and beyond 20 the additional ones stand by, too.",
        );
        chapter.draw("shuttles", sweep.figure(results), "Tail against the number of shuttles. 20 drives of 60 MB/s.");
        let last = sweep.places[sweep.places.len() - 1];
        for x in [sweep.places[0], last] {
            chapter.add_paragraph(format!("With {x} shuttles:"));
            sweep.list(results, x, &mut chapter);
        }
        chapter.add_paragraph(format!("{} {SLOW}", sweep.compare(results)));
        sweep.add_runs(results, "shuttles", &mut chapter)?;
        Ok(chapter)
    })
}
