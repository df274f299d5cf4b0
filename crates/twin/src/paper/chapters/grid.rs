//! Tails over the throughput of drives and another setting, under the policies that move platters.

use super::*;

const MOVING: [PolicyName; 2] = [PolicyName::Partitioned, PolicyName::Balanced];

pub(super) struct Grid {
    throughputs: Vec<f64>,
    /// By policy, throughput in MB/s, and the other setting.
    points: Vec<(PolicyName, f64, f64, Point)>,
}

impl Grid {
    /// Plans the points at these throughputs and values of the other setting.
    pub(super) fn plan(
        plan: &mut Plan,
        throughputs: &[f64],
        values: &[f64],
        scenario: impl Fn(&Plan, PolicyName, f64) -> Scenario,
    ) -> Self {
        let throughputs = plan.along(throughputs);
        let mut points = Vec::new();
        for &mb_s in &throughputs {
            for policy in MOVING {
                for x in plan.along(values) {
                    let scenario = at_throughput(scenario(plan, policy, x), mb_s);
                    points.push((policy, mb_s, x, plan.point(&scenario)));
                }
            }
        }
        Self { throughputs, points }
    }

    pub(super) fn first(&self) -> Point {
        self.points[0].3
    }

    fn of<'r>(&self, results: &'r Results, policy: PolicyName, mb_s: f64) -> impl Iterator<Item = (f64, &'r Sample)> {
        let here = self.points.iter().filter(move |point| (point.0, point.1) == (policy, mb_s));
        here.map(move |point| (point.2, results.sample(point.3)))
    }

    /// A panel for each throughput, or for the first two and the last if there are more than a
    /// figure can hold. `marks` adds to a panel; its second argument is the longest
    /// tail of the first line.
    pub(super) fn figure(&self, results: &Results, x: impl Fn() -> Axis, marks: impl Fn(Panel, f64) -> Panel) -> Figure {
        let shown = match self.throughputs[..] {
            [first, second, _, .., last] => vec![first, second, last],
            _ => self.throughputs.clone(),
        };
        let mut figure = Figure::new("").one_scale();
        for (&mb_s, letter) in shown.iter().zip(["a", "b", "c"]) {
            let mut panel = Panel::new(x(), tails().log()).titled(&format!("({letter}) {mb_s} MB/s"));
            for policy in MOVING {
                panel = panel.line(policy_label(policy), self.of(results, policy, mb_s).map(|(x, sample)| tail_at(x, sample)));
            }
            let longest = self.of(results, MOVING[0], mb_s).map(|(_, sample)| sample.tail().mean).fold(0.0, f64::max);
            figure = figure.panel(with_bound(marks(panel, longest), self.of(results, PolicyName::Balanced, mb_s)));
        }
        figure
    }

    /// Throughput, other setting, and the samples of `partitioned` and `balanced`.
    pub(super) fn pairs<'r>(&self, results: &'r Results) -> Vec<(f64, f64, [&'r Sample; 2])> {
        let both = |&mb_s: &f64| {
            let [theirs, ours] = MOVING.map(|policy| self.of(results, policy, mb_s));
            theirs.zip(ours).map(move |((x, theirs), (_, ours))| (mb_s, x, [theirs, ours]))
        };
        self.throughputs.iter().flat_map(both).collect()
    }

    pub(super) fn add_runs(&self, results: &Results, chapter: &mut Chapter, name: &str, column: Column) -> Result<(), PaperError> {
        let columns = [Column::text("policy", "The policy."), Column::f64("throughput", "MB/s", "Throughput of each drive."), column];
        let rows = self
            .points
            .iter()
            .map(|(policy, mb_s, x, point)| ([policy.text().into(), (*mb_s).into(), (*x).into()], results.sample(*point)));
        Ok(chapter.runs(name, columns, rows)?)
    }
}
