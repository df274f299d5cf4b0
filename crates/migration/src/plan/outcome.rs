//! What a plan says.

use fulgurite_domain::Micros;
use fulgurite_plot::{Axis, Figure, Panel};
use fulgurite_table::{Column, Table, Value};

use super::scenario::Scenario;
use crate::figures::Figures;
use crate::layout::Stage;
use crate::pipeline::Wait;

/// Days of a month, on average.
const MONTH_D: f64 = 365.25 / 12.0;
const DAY_S: f64 = 86_400.0;
/// A stage limits the rate if its streams are busy at least this share of the time.
const ALWAYS_BUSY: f64 = 0.9;

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
        self.figures.passed(Stage::Output).1 as f64 / self.elapsed().seconds()
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

    /// The sum of the duty factors of all streams of a stage. For inputs, it is the number of
    /// streams that would give the same rate if they never paused.
    #[must_use]
    pub fn duty(&self, stage: Stage) -> f64 {
        self.figures.streams.iter().filter(|stream| stream.place.stage == stage).map(|stream| self.figures.duty(stream)).sum()
    }

    /// The share of the time that streams of a stage spent busy, and with each of [`Wait::ALL`].
    #[must_use]
    pub fn shares(&self, stage: Stage) -> (f64, Vec<(Wait, f64)>) {
        let streams: Vec<_> = self.figures.streams.iter().filter(|stream| stream.place.stage == stage).collect();
        let whole = self.elapsed().seconds() * streams.len() as f64;
        let share = |time: f64| if whole > 0.0 { time / whole } else { 0.0 };
        let busy = share(streams.iter().map(|stream| stream.busy.seconds()).sum());
        let wait = |(index, wait): (usize, Wait)| (wait, share(streams.iter().map(|stream| stream.waits[index].seconds()).sum()));
        (busy, Wait::ALL.into_iter().enumerate().map(wait).filter(|(_, share)| *share > 0.0).collect())
    }

    /// The stage whose streams were busiest. It limits the rate, unless its streams waited for
    /// something else.
    #[must_use]
    pub fn limiting_stage(&self) -> Option<Stage> {
        let busy = Stage::ALL.into_iter().map(|stage| (self.shares(stage).0, stage)).filter(|(busy, _)| *busy > 0.0);
        busy.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, stage)| stage)
    }

    /// The outcome in a few sentences.
    #[must_use]
    pub fn statement(&self) -> String {
        let of = &self.scenario.stations;
        let (files, bytes) = self.figures.passed(Stage::Output);
        let mut text = format!(
            "{} in {} files take {}: {}, {:.1} s/GB, {:.1} months/PB.\n",
            size(bytes as f64),
            grouped(files),
            time(self.elapsed().seconds()),
            rate(self.rate()),
            self.seconds_per_gb(),
            self.months_per_pb(),
        );
        text += &format!(
            "Duty factor of the inputs: {:.2} of {}, each of {} while files move.\n",
            self.duty(Stage::Input),
            u32::from(of.count) * u32::from(of.instances) * u32::from(of.inputs),
            rate(self.scenario.input.rate),
        );
        for stage in Stage::ALL {
            let (busy, waits) = self.shares(stage);
            if busy > 0.0 {
                let waits: Vec<String> = waits
                    .iter()
                    .filter(|(_, share)| *share >= 0.005)
                    .map(|(wait, share)| format!("{} {}", waits_for(*wait), percent(*share)))
                    .collect();
                let name = stage.name();
                text += &format!("{}{}s: busy {}", name[..1].to_uppercase(), &name[1..], percent(busy));
                text += &if waits.is_empty() { ".\n".to_owned() } else { format!("; waiting {}.\n", waits.join(", ")) };
            }
        }
        if let Some(stage) = self.limiting_stage() {
            let (busy, waits) = self.shares(stage);
            let longest = waits.iter().max_by(|a, b| a.1.total_cmp(&b.1));
            text += &match longest {
                Some((wait, share)) if busy < ALWAYS_BUSY => {
                    format!(
                        "The {}s are busiest: {} of the time. They wait {} {} of it.\n",
                        stage.name(),
                        percent(busy),
                        waits_for(*wait),
                        percent(*share)
                    )
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
                let streams: Vec<_> =
                    self.figures.streams.iter().filter(|of| of.place.station == station && of.place.stage == stage).collect();
                if streams.is_empty() {
                    continue;
                }
                let sum = |of: &dyn Fn(&crate::figures::StreamFigures) -> f64| streams.iter().map(|stream| of(stream)).sum::<f64>();
                let (moving, busy) = (sum(&|of| of.moving.seconds()), sum(&|of| of.busy.seconds()));
                let (files, bytes) = (sum(&|of| of.files as f64), sum(&|of| of.bytes as f64));
                let whole = self.elapsed().seconds() * streams.len() as f64;
                let waits = Wait::ALL.into_iter().map(|wait| (sum(&|of| of.waits[wait as usize].seconds()), wait));
                let longest = waits.max_by(|a, b| a.0.total_cmp(&b.0)).filter(|(time, _)| *time > 0.0);
                let ratio = |of: f64, to: f64| if to > 0.0 { of / to } else { 0.0 };
                let row = [
                    Value::I64(i64::from(station) + 1),
                    Value::Text(stage.name().to_owned()),
                    Value::I64(streams.len() as i64),
                    Value::I64(files as i64),
                    Value::F64(ratio(bytes, moving) / 1e6),
                    Value::F64(ratio(busy - moving, files)),
                    Value::F64(ratio(moving, self.elapsed().seconds())),
                    Value::F64(ratio(busy, whole)),
                    Value::Text(longest.map_or("", |(_, wait)| wait.name()).to_owned()),
                    Value::F64(longest.map_or(0.0, |(time, _)| ratio(time, whole))),
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

/// What a wait means, after "waiting".
fn waits_for(wait: Wait) -> &'static str {
    match wait {
        Wait::Order => "for orders",
        Wait::Inventory => "for the inventory",
        Wait::Files => "for files",
        Wait::Limit => "for the limit of the hour",
        Wait::Room => "for room in spools",
        Wait::Volume => "for a spool volume in use",
        Wait::Input => "for inputs",
        Wait::Family => "for an output that writes the family",
        Wait::Scan => "for scans",
        Wait::Output => "for outputs",
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn rate(bytes_s: f64) -> String {
    format!("{}/s", size(bytes_s))
}

fn size(bytes: f64) -> String {
    const UNITS: [(&str, f64); 6] = [("EB", 1e18), ("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)];
    let unit = UNITS.into_iter().find(|(_, unit)| bytes >= *unit);
    let Some((name, unit)) = unit else { return format!("{bytes:.0} B") };
    let value = bytes / unit;
    let digits = if value >= 99.95 { 0 } else { 1 };
    format!("{value:.digits$} {name}").replace(".0 ", " ")
}

fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = digits.as_bytes().rchunks(3).rev().map(|group| std::str::from_utf8(group).expect("digits")).collect();
    groups.join(",")
}

fn time(seconds: f64) -> String {
    match seconds {
        s if s >= 2.0 * DAY_S => format!("{:.1} d", s / DAY_S),
        s if s >= 7_200.0 => format!("{:.1} h", s / 3_600.0),
        s if s >= 120.0 => format!("{:.1} min", s / 60.0),
        s => format!("{s:.1} s"),
    }
}
