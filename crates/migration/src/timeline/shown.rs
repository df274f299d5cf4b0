//! The timeline as tables and figures.

use fulgurite_domain::Micros;
use fulgurite_plot::{Axis, Figure, Panel};
use fulgurite_table::{Column, Table, Value};

use super::{Interval, Timeline};
use crate::layout::Stage;

impl Timeline {
    /// The intervals with their beginnings and ends, since the run began. The last one is shorter.
    fn rows(&self) -> impl Iterator<Item = (Micros, Micros, &Interval)> {
        let elapsed = self.elapsed();
        let rows = self.intervals.iter().enumerate().map(move |(index, of)| {
            let from = Micros(self.width.0 * index as u64);
            (from, Micros(from.0.saturating_add(self.width.0)).min(elapsed), of)
        });
        // A step exactly at the end of an interval begins another one without any time.
        rows.filter(|(from, to, of)| from < to || of.bytes != [0; Stage::ALL.len()])
    }

    /// The rate of each stage in each interval.
    #[must_use]
    pub fn rates(&self) -> Table {
        let mut table = Table::new([
            Column::f64("from", "s", "beginning of the interval, since the run began"),
            Column::f64("to", "s", "its end"),
            Column::f64("input", "B/s", "rate of all inputs"),
            Column::f64("output", "B/s", "rate of all outputs"),
            Column::f64("scan", "B/s", "rate of all scans"),
            Column::i64("input_bytes", "B", "bytes that the inputs read"),
            Column::i64("output_bytes", "B", "bytes that the outputs wrote"),
            Column::i64("scan_bytes", "B", "bytes that the scans read back"),
        ]);
        for (from, to, of) in self.rows() {
            let rate = |bytes: u64| if from < to { Value::F64(bytes as f64 / to.since(from).seconds()) } else { Value::Missing };
            let times = [from, to].map(|at| Value::F64(at.seconds()));
            let counts = of.bytes.map(|bytes| Value::I64(bytes.cast_signed()));
            table.push(times.into_iter().chain(of.bytes.map(rate)).chain(counts)).expect("the row has the columns");
        }
        table.note("began_us", self.began.map_or(0, |began| began.0))
    }

    /// How full each spool volume was in each interval.
    #[must_use]
    pub fn spools(&self) -> Table {
        let mut table = Table::new([
            Column::i64("spool", "1", "number of the spool volume"),
            Column::f64("from", "s", "beginning of the interval, since the run began"),
            Column::f64("to", "s", "its end"),
            Column::f64("mean_bytes", "B", "bytes that lots took or had reserved, on average"),
            Column::i64("max_bytes", "B", "the most at once"),
            Column::i64("capacity_bytes", "B", "capacity of the spool volume"),
        ]);
        for (spool, capacity) in self.capacities.iter().enumerate() {
            for (from, to, of) in self.rows() {
                let row = [
                    Value::I64(spool as i64 + 1),
                    Value::F64(from.seconds()),
                    Value::F64(to.seconds()),
                    mean(of, spool, to.since(from)).map_or(Value::Missing, Value::F64),
                    Value::I64(of.max_bytes[spool].cast_signed()),
                    Value::I64(capacity.cast_signed()),
                ];
                table.push(row).expect("the row has the columns");
            }
        }
        table.note("began_us", self.began.map_or(0, |began| began.0))
    }

    /// The rate of each stage over time; `None` if nothing moved.
    #[must_use]
    pub fn rate_figure(&self) -> Option<Figure> {
        let mut panel = Panel::new(Axis::seconds("Time since the run began"), Axis::binary_bytes("Bytes per second").from(0.0));
        for stage in Stage::ALL {
            let with_time = self.rows().filter(|(from, to, _)| from < to);
            let points = with_time.map(|(from, to, of)| (middle(from, to), of.bytes[stage as usize] as f64 / to.since(from).seconds()));
            panel = panel.line(stage.name(), points);
        }
        let has_moved = Stage::ALL.into_iter().any(|stage| self.passed(stage) > 0);
        (has_moved && self.elapsed() > Micros::ZERO).then(|| Figure::new("Rate of each stage").width(504.0).panel(panel))
    }

    /// How full each of the first spool volumes was; none if the run took no time.
    #[must_use]
    pub fn spool_figures(&self, count: usize) -> Vec<Figure> {
        let figure = |(spool, capacity): (usize, &u64)| {
            let rows = || self.rows().filter(|(from, to, _)| from < to);
            let mean = rows().map(|(from, to, of)| (middle(from, to), mean(of, spool, to.since(from)).unwrap_or(0.0)));
            let max = rows().map(|(from, to, of)| (middle(from, to), of.max_bytes[spool] as f64));
            let panel = Panel::new(Axis::seconds("Time since the run began"), Axis::binary_bytes("Occupied").from(0.0));
            let panel = panel.line("mean", mean).steps("most at once", max).level(*capacity as f64, "capacity");
            Figure::new(&format!("Spool volume {}", spool + 1)).width(504.0).panel(panel)
        };
        let spools = self.capacities.iter().enumerate().take(if self.elapsed() > Micros::ZERO { count } else { 0 });
        spools.map(figure).collect()
    }
}

/// Mean bytes in a spool volume during an interval; `None` if it takes no time.
fn mean(of: &Interval, spool: usize, time: Micros) -> Option<f64> {
    (time > Micros::ZERO).then(|| of.filled[spool] as f64 / time.0 as f64)
}

fn middle(from: Micros, to: Micros) -> f64 {
    from.seconds() + to.since(from).seconds() / 2.0
}
