//! A chapter: the text, figures and tables of one experiment.

use fulgurite_plot::Figure;
use fulgurite_table::{Column, Table, TableError, Value};

use super::aggregate::{Estimate, Measured, Sample};

/// A figure of a chapter.
#[derive(Debug, Clone, PartialEq)]
pub struct Drawing {
    /// Base name of its files.
    pub name: String,
    /// The figure.
    pub figure: Figure,
    /// The caption.
    pub caption: String,
}

/// A table of a chapter, as data.
#[derive(Debug, Clone, PartialEq)]
pub struct Sheet {
    /// Base name of its files.
    pub name: String,
    /// The table.
    pub table: Table,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Block {
    Paragraph(String),
    /// The heading and rows of a table on the page.
    Listing(Vec<String>, Vec<Vec<String>>),
    Drawing(usize),
}

/// One experiment, with its text, figures and tables.
#[derive(Debug, Clone, PartialEq)]
pub struct Chapter {
    /// Its name, one of [`super::NAMES`].
    pub name: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// Its figures.
    pub drawings: Vec<Drawing>,
    /// Its tables.
    pub sheets: Vec<Sheet>,
    pub(super) blocks: Vec<Block>,
}

impl Chapter {
    pub(super) fn new(name: &'static str, title: &'static str) -> Self {
        Self { name, title, drawings: Vec::new(), sheets: Vec::new(), blocks: Vec::new() }
    }

    pub(super) fn add_paragraph(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Paragraph(text.into()));
    }

    pub(super) fn list<'a>(&mut self, head: impl IntoIterator<Item = &'a str>, rows: Vec<Vec<String>>) {
        self.blocks.push(Block::Listing(head.into_iter().map(str::to_owned).collect(), rows));
    }

    pub(super) fn draw(&mut self, name: &str, figure: Figure, caption: impl Into<String>) {
        self.blocks.push(Block::Drawing(self.drawings.len()));
        self.drawings.push(Drawing { name: name.to_owned(), figure, caption: caption.into() });
    }

    pub(super) fn sheet(&mut self, name: &str, table: Table) {
        self.sheets.push(Sheet { name: name.to_owned(), table });
    }

    /// Adds the table of an experiment made of runs: the varied settings and all measurements, as
    /// means over seeds.
    pub(super) fn runs<'r, const N: usize>(
        &mut self,
        name: &str,
        varied: [Column; N],
        rows: impl IntoIterator<Item = ([Value; N], &'r Sample)>,
    ) -> Result<(), TableError> {
        let tail = [
            Column::i64("seeds", "", "Runs with different seeds, over which everything is averaged."),
            Column::f64("tail", "s", "99.9th percentile of completion times."),
            Column::f64("tail_low", "s", "Lower end of the 95 % confidence interval of the tail."),
            Column::f64("tail_high", "s", "Upper end of the 95 % confidence interval of the tail."),
            Column::f64("bound", "s", "Tail that no policy can beat on the same hardware."),
            Column::f64("bound_unforeseen", "s", "Tail that no policy without knowledge of future requests can expect to beat."),
        ];
        let measured = MEASURED.iter().map(|(name, unit, description, _)| Column::f64(name, unit, description));
        let mut table = Table::new(varied.into_iter().chain(tail).chain(measured));
        let mut is_censored = false;
        for (varied, sample) in rows {
            is_censored |= sample.is_censored();
            let tail = sample.tail();
            let fixed: [Value; 6] = [
                (sample.runs().len() as u32).into(),
                tail.mean.into(),
                tail.interval.map(|interval| interval.low()).into(),
                tail.interval.map(|interval| interval.high()).into(),
                sample.bound().into(),
                sample.unforeseen().into(),
            ];
            let measured = MEASURED.iter().map(|(.., of)| Value::from(sample.mean(of)));
            table.push(varied.into_iter().chain(fixed).chain(measured))?;
        }
        self.sheet(name, table);
        if is_censored {
            self.add_paragraph(CENSORED);
        }
        Ok(())
    }
}

/// Name, unit and description of a column, and its value for a run.
type Measurement = (&'static str, &'static str, &'static str, fn(&Measured) -> f64);

/// The measurements of every run, except the tail and its bounds, which have columns of their own.
const MEASURED: [Measurement; 30] = [
    ("requests", "", "Requests that arrived in the measured interval.", |run| run.requests as f64),
    ("censored", "", "Those that had not ended when the run stopped. If there are any, completion times are lower bounds.", |run| {
        run.censored as f64
    }),
    ("bytes", "B", "Bytes of the requested files.", |run| run.bytes as f64),
    ("p99", "s", "99th percentile of completion times.", |run| run.p99_s),
    ("median", "s", "Median of completion times.", |run| run.median_s),
    ("mean", "s", "Mean of completion times.", |run| run.mean_s),
    ("longest", "s", "Longest completion time.", |run| run.longest_s),
    ("recovered", "", "Share of the requests with a read from other platters of the set.", |run| {
        run.outcomes.recovered as f64 / run.outcomes.total().max(1) as f64
    }),
    ("lost", "", "Share of the requests that ended without their bytes.", |run| run.outcomes.lost()),
    ("recoveries", "", "Reads replaced by reads of other platters of the set, over the whole run.", |run| run.recoveries as f64),
    ("reading", "", "Share of the drives' time spent on reads, including mounting, seeking and unmounting.", |run| run.drives.reading),
    ("verifying", "", "Share of the drives' time spent on verification.", |run| run.drives.verifying),
    ("switching", "", "Share of the drives' time spent switching between bays.", |run| run.drives.switching),
    ("drives_idle", "", "Share of the drives' time without work.", |run| run.drives.idle),
    ("utilization", "", "Share of the drives' time spent reading or verifying.", |run| run.drives.utilization),
    ("visits", "", "Platters mounted.", |run| run.drives.visits as f64),
    ("reads_per_visit", "", "Reads for each platter mounted.", |run| run.drives.reads_per_visit()),
    ("verified", "B", "Bytes read for verification.", |run| run.drives.bytes_verified as f64),
    ("operations", "", "Platter operations: platters placed by shuttles.", |run| run.shuttles.operations as f64),
    ("operations_per_request", "", "Platter operations for each request.", Measured::operations_per_request),
    ("moving", "", "Share of the shuttles' time spent moving along shelves.", |run| run.shuttles.moving),
    ("crabbing", "", "Share of the shuttles' time spent changing shelves.", |run| run.shuttles.crabbing),
    ("handling", "", "Share of the shuttles' time spent picking and placing.", |run| run.shuttles.handling),
    ("shuttles_idle", "", "Share of the shuttles' time without work.", |run| run.shuttles.idle),
    ("congestion", "", "Extra time of trips because of other shuttles, relative to their time without others.", |run| {
        run.shuttles.congestion_overhead()
    }),
    ("trip_tail", "s", "99.9th percentile of the shuttles' travel times, including waits for other shuttles.", |run| {
        run.shuttles.trip_tail.seconds()
    }),
    ("energy", "J", "Energy of motion for each platter operation.", |run| run.shuttles.joules_per_operation()),
    ("way", "m", "Metres along shelves for each platter operation.", |run| run.shuttles.metres_per_operation()),
    ("platters_waiting", "", "Platters waiting to be fetched, averaged over the interval.", |run| run.system.platters_waiting),
    ("events", "", "Events of the run.", |run| run.events as f64),
];

/// The note under a chapter with censored runs.
const CENSORED: &str = "Runs with values above 0 in the column `censored` of the data stopped before all requests had ended: their tails, marked ≥, are lower bounds, and so are the points in figures; their ratios to other tails may be wrong in either direction.";

/// A duration in a suitable unit, with three digits.
pub(super) fn time(seconds: f64) -> String {
    let (value, unit) = scaled(seconds);
    format!("{} {unit}", digits(value))
}

/// Like [`time`], with half the width of its interval, or with ≥ before a lower bound.
pub(super) fn time_within(estimate: &Estimate) -> String {
    let (value, unit) = scaled(estimate.mean);
    let scale = if value > 0.0 { estimate.mean / value } else { 1.0 };
    match estimate.half_width() {
        _ if estimate.is_at_least => format!("≥ {} {unit}", digits(value)),
        Some(half) => format!("{} ± {} {unit}", digits(value), digits_like(half / scale, value)),
        None => format!("{} {unit}", digits(value)),
    }
}

fn scaled(seconds: f64) -> (f64, &'static str) {
    match seconds {
        s if s < 90.0 => (s, "s"),
        s if s < 5_400.0 => (s / 60.0, "min"),
        s => (s / 3_600.0, "h"),
    }
}

/// Three digits, or all those before the decimal point.
pub(super) fn digits(value: f64) -> String {
    digits_like(value, value)
}

/// With as many decimals as `like` has at three digits.
fn digits_like(value: f64, like: f64) -> String {
    let decimals = match like.abs() {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        size if size >= 0.9995 || size == 0.0 => 2,
        _ => 3,
    };
    format!("{value:.decimals$}")
}

/// A share in percent.
pub(super) fn percent(share: f64) -> String {
    let value = share * 100.0;
    let decimals = if value.abs() >= 9.995 || value == 0.0 { 0 } else { 1 };
    let text = format!("{value:.decimals$} %");
    // A negative value that rounds to 0 is shown as 0.
    if text == "-0.0 %" { "0.0 %".to_owned() } else { text }
}

/// A ratio in words: "31 % below", "4.0 % above", "4.00 times".
pub(super) fn compared(ratio: f64) -> String {
    match ratio {
        r if (r - 1.0).abs() < 0.005 => "equal to".to_owned(),
        r if r < 1.0 => format!("{} below", percent(1.0 - r)),
        r if r < 3.0 => format!("{} above", percent(r - 1.0)),
        r => format!("{} times", digits(r)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation::Run;

    #[test]
    fn times_are_formatted_in_a_suitable_unit() {
        let said: Vec<String> = [0.5, 59.0, 100.0, 1_332.0, 5_399.0, 16_560.0].iter().map(|&seconds| time(seconds)).collect();
        assert_eq!(said, ["0.500 s", "59.0 s", "1.67 min", "22.2 min", "90.0 min", "4.60 h"]);
        assert_eq!(time_within(&Estimate::of(&[1_200.0, 1_320.0])), "21.0 min", "two seeds are too few for an interval");
        assert_eq!(time_within(&Estimate::of(&[1_200.0, 1_260.0, 1_260.0, 1_260.0, 1_320.0])), "21.0 ± 0.9 min");
        assert_eq!(time_within(&Estimate::of(&[7_200.0])), "2.00 h");
        assert_eq!(time_within(&Estimate { is_at_least: true, ..Estimate::of(&[7_200.0]) }), "≥ 2.00 h");
    }

    #[test]
    fn censored_runs_are_marked_in_tables_and_data() {
        let sample = |censored: u64| {
            let run = |seed| Measured { seed, censored, tail_s: 7_200.0, ..Measured::of(Run::default()) };
            Sample::new((1..=5).map(run).collect())
        };
        assert_eq!(time_within(&sample(0).tail()), "2.00 ± 0.00 h");
        assert_eq!(time_within(&sample(3).tail()), "≥ 2.00 h");
        for (censored, notes) in [(0, 0), (3, 1)] {
            let mut chapter = Chapter::new("one", "One");
            let sample = sample(censored);
            chapter.runs("runs", [Column::f64("x", "", "")], [([1.0.into()], &sample)]).unwrap();
            assert_eq!(chapter.blocks.len(), notes);
            assert_eq!(chapter.sheets[0].table.value(0, "censored"), Some(&Value::F64(censored as f64)));
            assert_eq!(chapter.sheets[0].table.value(0, "tail_low") == Some(&Value::Missing), censored > 0);
        }
    }

    #[test]
    fn comparisons_are_formatted_in_words() {
        assert_eq!(
            [compared(0.69), compared(1.04), compared(1.001), compared(4.0)],
            ["31 % below", "4.0 % above", "equal to", "4.00 times"]
        );
    }
}
