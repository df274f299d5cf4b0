//! What a plan says.

use fulgurite_domain::Micros;
use fulgurite_plot::{Axis, Figure, Panel};
use fulgurite_table::{Column, Table, Value};

use super::scenario::Scenario;
use crate::figures::{Figures, StageFigures};
use crate::layout::Stage;
use crate::quantities::{grouped, percent, rate, size, time};
use crate::starvation::{self, ALWAYS_BUSY};

/// Days of a month, on average.
const MONTH_D: f64 = 365.25 / 12.0;
const DAY_S: f64 = 86_400.0;

/// The outcome of a simulated migration.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// What was simulated.
    pub scenario: Scenario,
    /// What each stream did.
    pub figures: Figures,
    /// For each hour, the bytes that ended passing each stage.
    hours: Vec<[u64; 3]>,
}

impl Outcome {
    pub(super) fn new(scenario: Scenario, figures: Figures, hours: Vec<[u64; 3]>) -> Self {
        Self { scenario, figures, hours }
    }

    /// Time from the beginning to the end.
    #[must_use]
    pub fn elapsed(&self) -> Micros {
        // Stations without work at the end would learn only later that nothing is left.
        self.figures.worked()
    }

    /// Bytes per second, from the beginning to the end.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.stage(Stage::Output).bytes as f64 / self.elapsed().seconds()
    }

    /// Seconds for each gigabyte.
    #[must_use]
    pub fn seconds_per_gb(&self) -> f64 {
        1e9 / self.rate()
    }

    /// Months for each petabyte.
    #[must_use]
    pub fn months_per_pb(&self) -> f64 {
        1e15 / self.rate() / DAY_S / MONTH_D
    }

    /// What the streams of a stage did. The duty factor of the inputs is the number of streams that
    /// would give the same rate if they never paused.
    #[must_use]
    pub fn stage(&self, stage: Stage) -> StageFigures {
        self.figures.stage(stage, self.elapsed())
    }

    /// The stage whose streams were busiest. It limits the rate, unless its streams waited for
    /// something else.
    #[must_use]
    pub fn limiting_stage(&self) -> Option<Stage> {
        starvation::busiest(&Stage::ALL.map(|stage| self.stage(stage))).map(|of| of.stage)
    }

    /// The outcome in a few sentences.
    #[must_use]
    pub fn statement(&self) -> String {
        let of = &self.scenario.stations;
        let passed = self.stage(Stage::Output);
        let mut text = format!(
            "{} in {} files take {}: {}, {:.1} s/GB, {:.1} months/PB.\n",
            size(passed.bytes as f64),
            grouped(passed.files),
            time(self.elapsed().seconds()),
            rate(self.rate()),
            self.seconds_per_gb(),
            self.months_per_pb(),
        );
        text += &format!(
            "Duty factor of the inputs: {:.2} of {}, each of {} while files move.\n",
            self.stage(Stage::Input).duty(),
            u32::from(of.count) * u32::from(of.instances) * u32::from(of.inputs),
            rate(self.stage(Stage::Input).rate()),
        );
        for stage in Stage::ALL {
            let figures = self.stage(stage);
            if figures.busy_share() > 0.0 {
                let waits = figures.wait_shares().into_iter().filter(|(_, share)| *share >= 0.005);
                let waits: Vec<String> = waits.map(|(wait, share)| format!("{} {}", wait.phrase(), percent(share))).collect();
                let name = stage.name();
                text += &format!("{}{}s: busy {}", name[..1].to_uppercase(), &name[1..], percent(figures.busy_share()));
                text += &if waits.is_empty() { ".\n".to_owned() } else { format!("; waiting {}.\n", waits.join(", ")) };
            }
        }
        if let Some(stage) = self.limiting_stage() {
            let figures = self.stage(stage);
            let busy = figures.busy_share();
            text += &match figures.wait_shares().first() {
                Some((wait, share)) if busy < ALWAYS_BUSY => {
                    let (name, busy, share) = (stage.name(), percent(busy), percent(*share));
                    format!("The {name}s are busiest: {busy} of the time. They wait {} {share} of it.\n", wait.phrase())
                }
                _ => format!("The {}s limit the rate.\n", stage.name()),
            };
        }
        text
    }

    /// A row for each stage of each station.
    #[must_use]
    pub fn table(&self) -> Table {
        let mut table = Table::new([
            Column::i64("station", "1", "number of the station"),
            Column::text("stage", "input, output or scan"),
            Column::i64("streams", "1", "number of streams"),
            Column::i64("files", "1", "files that passed"),
            Column::f64("rate", "MB/s", "rate of a stream while bytes moved"),
            Column::f64("gap", "s", "mean gap between files of a lot, with changes of volumes"),
            Column::f64("duty", "1", "sum of the streams' duty factors: shares of the time in which bytes moved"),
            Column::f64("busy", "1", "mean share of the time in which a stream handled lots"),
            Column::text("waits_for", "what the streams waited for longest"),
            Column::f64("waiting", "1", "share of the time of that wait"),
        ]);
        for station in 0..self.scenario.stations.count {
            for stage in Stage::ALL {
                let streams = self.figures.streams.iter().filter(|of| of.place.station == station);
                let figures = StageFigures::sum(stage, streams, self.elapsed());
                if figures.streams == 0 {
                    continue;
                }
                let longest = figures.wait_shares().first().copied();
                let row = [
                    Value::I64(i64::from(station) + 1),
                    Value::Text(stage.name().to_owned()),
                    Value::I64(figures.streams as i64),
                    Value::I64(figures.files.cast_signed()),
                    Value::F64(figures.rate() / 1e6),
                    Value::F64(figures.gap_s()),
                    Value::F64(figures.duty()),
                    Value::F64(figures.busy_share()),
                    Value::Text(longest.map_or("", |(wait, _)| wait.name()).to_owned()),
                    Value::F64(longest.map_or(0.0, |(_, share)| share)),
                ];
                table.push(row).expect("the row has the columns");
            }
        }
        table.note("scenario", &self.scenario.name).note("seed", self.scenario.seed).note("settings", &self.scenario.text)
    }

    /// The rate of each stage over time.
    #[must_use]
    pub fn figure(&self) -> Figure {
        let mut panel = Panel::new(Axis::new("Time", "h"), Axis::new("Rate", "MB/s"));
        // The last hour isn't whole.
        let whole = &self.hours[..self.hours.len().saturating_sub(1)];
        for stage in Stage::ALL {
            if self.scenario.stations.scans == 0 && stage == Stage::Scan {
                continue;
            }
            let points = whole.iter().enumerate().map(|(hour, bytes)| (hour as f64 + 0.5, bytes[stage as usize] as f64 / 3.6e9));
            panel = panel.line(stage.name(), points);
        }
        Figure::new("Rate of each stage, by hour").panel(panel)
    }
}
