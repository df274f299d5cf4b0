//! What a plan predicted beside what a run measured.

use fulgurite_migration::figures::StageFigures;
use fulgurite_migration::layout::Stage;
use fulgurite_migration::plan::{self, Outcome as Planned};
use fulgurite_table::{Column, Table};
use serde_json::json;

use super::progress::RunProgress;
use crate::text;

/// Bytes in a MiB.
pub(super) const MIB: f64 = 1_048_576.0;
/// Bytes of a plan and of a run that differ by this share are different amounts.
const SAME_AMOUNT: f64 = 0.01;

/// A plan and a run, side by side.
pub(super) struct Compared {
    /// The scenario's name.
    pub(super) scenario: String,
    pub(super) pairs: Vec<Pair>,
    bytes: (u64, Option<u64>),
    /// How uncertain the plan is, if its rates were measured with other numbers of streams.
    range: Option<String>,
}

/// A figure of both.
pub(super) struct Pair {
    /// `None` for the whole run.
    pub(super) stage: Option<Stage>,
    pub(super) figure: &'static str,
    pub(super) unit: &'static str,
    pub(super) predicted: Option<f64>,
    pub(super) measured: Option<f64>,
}

/// A figure of a stage: its name, its unit, and its value.
type FigureOf = (&'static str, &'static str, fn(&StageFigures) -> f64);

const FIGURES: [FigureOf; 5] = [
    ("streams", "1", |of| of.streams as f64),
    ("rate", "MiB/s", |of| of.rate() / MIB),
    ("gap", "s", StageFigures::gap_s),
    ("duty", "1", StageFigures::duty),
    ("busy", "1", StageFigures::busy_share),
];

impl Compared {
    /// The run is `None` if none has moved anything yet.
    pub(super) fn new(planned: &Planned, run: Option<&RunProgress>) -> Self {
        let written = (planned.stage(Stage::Output), run.map(|run| run.stage(Stage::Output)));
        let whole = |figure, unit, predicted, measured| Pair { stage: None, figure, unit, predicted: Some(predicted), measured };
        let mut pairs = vec![
            whole("time", "s", planned.elapsed().seconds(), run.map(|run| run.elapsed_s)),
            whole("files", "1", written.0.files as f64, written.1.as_ref().map(|of| of.files as f64)),
            whole("bytes", "B", written.0.bytes as f64, written.1.as_ref().map(|of| of.bytes as f64)),
        ];
        for stage in Stage::ALL {
            let predicted = Some(planned.stage(stage)).filter(|of| of.streams > 0);
            let measured = run.map(|run| run.stage(stage)).filter(|of| of.streams > 0);
            let pair = |(figure, unit, value): FigureOf| {
                let (predicted, measured) = (predicted.as_ref().map(value), measured.as_ref().map(value));
                Pair { stage: Some(stage), figure, unit, predicted, measured }
            };
            pairs.extend(FIGURES.map(pair));
        }
        let bytes = (written.0.bytes, written.1.map(|of| of.bytes));
        let range = plan::range(&planned.scenario).map(|range| range.statement(&planned.scenario));
        Self { scenario: planned.scenario.name.clone(), pairs, bytes, range }
    }

    /// What keeps times from being compared, and how uncertain the plan is.
    pub(super) fn caution(&self) -> Option<String> {
        let (planned, Some(moved)) = self.bytes else {
            return Some("No run has moved anything yet, so only the prediction is known.".to_owned());
        };
        let is_same = (moved as f64 - planned as f64).abs() <= SAME_AMOUNT * planned as f64;
        let (planned, moved) = (text::bytes(planned), text::bytes(moved));
        let differs =
            format!("The scenario has {planned}, and the run moved {moved}: times can't be compared; rates, gaps and shares can.");
        let cautions: Vec<String> = (!is_same).then_some(differs).into_iter().chain(self.range.clone()).collect();
        (!cautions.is_empty()).then(|| cautions.join(" "))
    }

    pub(super) fn table(&self) -> Table {
        let mut table = Table::new([
            Column::text("stage", "input, output or scan; run for the whole run"),
            Column::text("figure", "what is compared"),
            Column::text("unit", "unit of the figure"),
            Column::f64("predicted", "", "by the plan"),
            Column::f64("measured", "", "by the run"),
            Column::f64("ratio", "1", "measured divided by predicted"),
        ]);
        for of in &self.pairs {
            let row = [
                of.stage.map_or("run", Stage::name).into(),
                of.figure.into(),
                of.unit.into(),
                of.predicted.into(),
                of.measured.into(),
                of.ratio().into(),
            ];
            table.push(row).expect("the row has the columns");
        }
        table.note("scenario", &self.scenario)
    }

    pub(super) fn json(&self) -> serde_json::Value {
        let pair = |of: &Pair| {
            json!({
                "stage": of.stage.map(Stage::name), "figure": of.figure, "unit": of.unit,
                "predicted": of.predicted, "measured": of.measured,
            })
        };
        let figures: Vec<_> = self.pairs.iter().map(pair).collect();
        json!({ "scenario": self.scenario, "caution": self.caution(), "figures": figures })
    }
}

impl Pair {
    /// Measured divided by predicted.
    pub(super) fn ratio(&self) -> Option<f64> {
        let (predicted, measured) = self.predicted.zip(self.measured)?;
        (predicted > 0.0).then(|| measured / predicted)
    }
}
