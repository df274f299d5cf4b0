//! `metrics.prom`: a run as metrics, for the textfile collector of Prometheus's node_exporter.
//!
//! Labels are stages, numbers, states and reasons, and never names of files, so the number of
//! series is small and stays the same. Counters are those of the run, and begin again with the
//! next.

use std::fmt::{Display, Write};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fulgurite_migration::Layout;
use fulgurite_migration::figures::{Figures, StreamFigures};
use fulgurite_migration::pipeline::{Pipeline, Wait};
use fulgurite_migration::run::Progress;
use fulgurite_migration::run::database::{State, Totals};
use fulgurite_migration::run::pace::Left;

use super::folder::now_s;

/// The file's name. The collector reads files that end in `.prom`.
pub(super) const FILE: &str = "metrics.prom";

/// What is known of a run.
pub(super) struct RunMetrics {
    path: PathBuf,
    /// The migration's folder, which tells migrations on a machine apart.
    migration: String,
    totals: Totals,
    streams: Vec<StreamFigures>,
    /// Bytes in each spool volume, and its capacity.
    spools: Vec<(u64, u64)>,
    left: Option<Left>,
    /// Number of tapes that the run set aside.
    set_aside: usize,
}

impl RunMetrics {
    /// Those of a run that begins.
    pub(super) fn new(folder: &Path, layout: &Layout, totals: Totals) -> Self {
        // The same migration has the same label wherever the command is given.
        let absolute = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
        Self {
            path: folder.join(FILE),
            migration: absolute.to_string_lossy().into_owned(),
            totals,
            streams: Figures::new(&Pipeline::new(layout)).streams,
            spools: layout.spools().into_iter().map(|(_, spool)| (0, spool.bytes)).collect(),
            left: None,
            set_aside: 0,
        }
    }

    /// Takes over how far the run is.
    pub(super) fn update(&mut self, run: &Progress<'_>, left: Option<Left>, set_aside: usize) {
        self.totals = run.totals;
        self.streams.clone_from(&run.figures.streams);
        self.spools.iter_mut().zip(run.pipeline.spooled_bytes()).for_each(|(spool, bytes)| spool.0 = bytes);
        (self.left, self.set_aside) = (left, set_aside);
    }

    /// No more files move. If the run failed, lots may still be in spool volumes.
    pub(super) fn end(&mut self, totals: Totals) {
        self.totals = totals;
        self.left = None;
    }

    /// Writes the file, so that the collector reads the old or the new one.
    fn write(&self, is_running: bool, is_paused: bool, now_s: u64) -> io::Result<()> {
        let new = self.path.with_extension("prom.new");
        fs::write(&new, self.exposition(is_running, is_paused, now_s))?;
        fs::rename(&new, &self.path)
    }

    /// The metrics in the text format of Prometheus, version 0.0.4. An unknown value is left out.
    fn exposition(&self, is_running: bool, is_paused: bool, now_s: u64) -> String {
        let mut out = Exposition { text: String::new(), migration: label(&self.migration) };
        let by_state =
            |of: fn((u64, u64)) -> u64| State::ALL.map(|state| (format!(",state=\"{}\"", state.name()), of(self.totals.of(state))));
        out.family("files", "gauge", "Files by their state.", by_state(|(files, _)| files));
        out.family("bytes", "gauge", "Bytes of files by their state.", by_state(|(_, bytes)| bytes));
        out.family("run_files_total", "counter", "Files that passed a stream in this run.", self.by_stream(|of| of.files));
        out.family("run_bytes_total", "counter", "Bytes that passed a stream in this run.", self.by_stream(|of| of.bytes));
        let busy = self.by_stream(|of| of.busy.seconds());
        out.family("run_busy_seconds_total", "counter", "Time in which a stream handled lots in this run.", busy);
        let moving = self.by_stream(|of| of.moving.seconds());
        out.family("run_moving_seconds_total", "counter", "The part of the busy time in which bytes moved.", moving);
        let waits = self.streams.iter().flat_map(|of| {
            let waits = Wait::ALL.into_iter().zip(of.waits);
            waits.map(|(wait, time)| (format!("{},reason=\"{}\"", stream(of), wait.name()), time.seconds()))
        });
        out.family("run_waiting_seconds_total", "counter", "Time in which a stream waited in this run, by what it waited for.", waits);
        let spools = |of: fn(&(u64, u64)) -> u64| {
            (1..).zip(&self.spools).map(move |(number, spool): (u64, _)| (format!(",spool=\"{number}\""), of(spool)))
        };
        out.family("spool_bytes", "gauge", "Bytes that lots take or have reserved in a spool volume.", spools(|of| of.0));
        out.family("spool_capacity_bytes", "gauge", "Capacity of a spool volume.", spools(|of| of.1));
        out.single("set_aside_volumes", "Volumes of the source, such as tapes, that the run set aside.", Some(self.set_aside));
        // Nothing is known of the end of a pause.
        let left = self.left.filter(|_| !is_paused);
        let interval = left.and_then(|left| left.interval_s);
        let help = "Time until the run ends at its pace; absent if unknown, and during a pause.";
        out.single("left_seconds", help, left.map(|left| left.mean_s));
        let help = "Lower end of the 95 % confidence interval of the time left; absent if unknown.";
        out.single("left_low_seconds", help, interval.map(|(low, _)| low));
        let help = "Upper end of the 95 % confidence interval of the time left; absent if unknown.";
        out.single("left_high_seconds", help, interval.map(|(_, high)| high));
        let help = "1 if a run was going on when this was written; after a kill, the time of writing stays as it was.";
        out.single("running", help, Some(u8::from(is_running)));
        out.single("paused", "1 if the migration was paused when this was written.", Some(u8::from(is_paused)));
        out.single("updated_timestamp_seconds", "When this was written.", Some(now_s));
        out.text
    }

    fn by_stream<V>(&self, value: impl Fn(&StreamFigures) -> V) -> impl Iterator<Item = (String, V)> {
        self.streams.iter().map(move |of| (stream(of), value(of)))
    }
}

/// Writes the metrics of a run again and again, so that they are never old while it goes on: even
/// if one file moves for hours, a place can't be reached, or an archive writes its platters.
pub(super) struct MetricsWriter {
    metrics: Arc<Mutex<RunMetrics>>,
    paused: PathBuf,
    /// The thread ends when this is dropped.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl MetricsWriter {
    /// Writes them now, and then in this interval. `paused` exists while the migration is paused.
    pub(super) fn begin(metrics: RunMetrics, paused: PathBuf, every: Duration) -> io::Result<Self> {
        metrics.write(true, paused.exists(), now_s())?;
        let metrics = Arc::new(Mutex::new(metrics));
        let (stop, stopped) = channel();
        let (shared, is_paused) = (metrics.clone(), paused.clone());
        let thread = thread::Builder::new().name("metrics".to_owned()).spawn(move || {
            while stopped.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                // The next change tells the run, if they still can't be written.
                let _ = lock(&shared).write(true, is_paused.exists(), now_s());
            }
        })?;
        Ok(Self { metrics, paused, stop: Some(stop), thread: Some(thread) })
    }

    /// Changes the metrics, and writes them.
    pub(super) fn change(&self, change: impl FnOnce(&mut RunMetrics)) -> io::Result<()> {
        let mut metrics = lock(&self.metrics);
        change(&mut metrics);
        metrics.write(true, self.paused.exists(), now_s())
    }

    /// Writes that the run has ended.
    pub(super) fn end(mut self) -> io::Result<()> {
        self.stop();
        lock(&self.metrics).write(false, self.paused.exists(), now_s())
    }

    fn stop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It doesn't panic, and has nothing to return.
            let _ = thread.join();
        }
    }
}

impl Drop for MetricsWriter {
    fn drop(&mut self) {
        self.stop();
    }
}

fn lock(metrics: &Mutex<RunMetrics>) -> MutexGuard<'_, RunMetrics> {
    metrics.lock().expect("no thread panics with it")
}

/// The labels of a stream.
fn stream(of: &StreamFigures) -> String {
    let place = of.place;
    format!(",station=\"{}\",stage=\"{}\",stream=\"{}\"", u32::from(place.station) + 1, place.stage.name(), place.number)
}

/// The value of a label, between quotes.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Metrics as text.
struct Exposition {
    text: String,
    migration: String,
}

impl Exposition {
    fn family<V: Display>(&mut self, name: &str, kind: &str, help: &str, values: impl IntoIterator<Item = (String, V)>) {
        // Writing to a string can't fail.
        let _ = write!(self.text, "# HELP fulgurite_migration_{name} {help}\n# TYPE fulgurite_migration_{name} {kind}\n");
        for (labels, value) in values {
            let _ = writeln!(self.text, "fulgurite_migration_{name}{{migration=\"{}\"{labels}}} {value}", self.migration);
        }
    }

    fn single<V: Display>(&mut self, name: &str, help: &str, value: Option<V>) {
        self.family(name, "gauge", help, value.map(|value| (String::new(), value)));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use fulgurite_domain::Micros;
    use fulgurite_migration::layout::{Rules, Spool, Stage, Station};

    use super::*;

    fn station() -> Station {
        let spools = vec![Spool { bytes: 1_000, is_exclusive: false, is_reserve: false }];
        Station { name: "one".into(), inputs: 2, outputs: 1, scans: 1, spools }
    }

    #[test]
    fn a_run_has_the_metrics_of_its_streams_and_its_end() {
        let layout = Layout { stations: vec![station()], rules: Rules::default() };
        let mut metrics = RunMetrics::new(Path::new("nowhere/a\"b\\c"), &layout, Totals::default());
        let fresh = metrics.exposition(true, false, 7);
        let name = "migration=\"nowhere/a\\\"b\\\\c\"";
        assert!(fresh.contains(&format!("\nfulgurite_migration_running{{{name}}} 1\n")), "{fresh}");
        assert!(fresh.contains(&format!("\nfulgurite_migration_updated_timestamp_seconds{{{name}}} 7\n")), "{fresh}");
        // An unknown end is no metric.
        assert!(!fresh.contains("left_seconds{") && !fresh.contains("left_low_seconds{"));
        let input = &mut metrics.streams[1];
        (input.files, input.bytes, input.busy, input.moving) = (3, 500, Micros(2_500_000), Micros(2_000_000));
        input.waits[Wait::Room as usize] = Micros(250_000);
        metrics.spools[0].0 = 123;
        metrics.left = Some(Left { mean_s: 60.0, interval_s: Some((50.5, 90.0)) });
        metrics.set_aside = 2;
        let text = metrics.exposition(true, false, 8);
        let second = format!("{{{name},station=\"1\",stage=\"input\",stream=\"2\"");
        for line in [
            format!("run_files_total{second}}} 3"),
            format!("run_bytes_total{second}}} 500"),
            format!("run_busy_seconds_total{second}}} 2.5"),
            format!("run_moving_seconds_total{second}}} 2"),
            format!("run_waiting_seconds_total{second},reason=\"room\"}} 0.25"),
            format!("spool_bytes{{{name},spool=\"1\"}} 123"),
            format!("spool_capacity_bytes{{{name},spool=\"1\"}} 1000"),
            format!("left_seconds{{{name}}} 60"),
            format!("left_low_seconds{{{name}}} 50.5"),
            format!("left_high_seconds{{{name}}} 90"),
            format!("set_aside_volumes{{{name}}} 2"),
            format!("paused{{{name}}} 0"),
        ] {
            assert!(text.lines().any(|found| found.strip_prefix("fulgurite_migration_") == Some(&line)), "{line}: {text}");
        }
        // A pause may take any time.
        let paused = metrics.exposition(true, true, 8);
        assert!(
            paused.contains(&format!("paused{{{name}}} 1\n")) && !paused.contains("left_seconds{") && !paused.contains("left_low_seconds{"),
            "{paused}"
        );
        metrics.end(Totals::default());
        let ended = metrics.exposition(false, false, 9);
        assert!(ended.contains(&format!("running{{{name}}} 0\n")) && ended.contains("run_files_total") && !ended.contains("left_seconds{"));
    }

    #[test]
    fn metrics_are_written_again_until_the_run_ends() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (file, paused) = (folder.path().join(FILE), folder.path().join("paused"));
        let station = Station {
            name: "one".into(),
            inputs: 1,
            outputs: 1,
            scans: 1,
            spools: vec![Spool { bytes: 9, is_exclusive: false, is_reserve: false }],
        };
        let layout = Layout { stations: vec![station], rules: Rules::default() };
        let metrics = RunMetrics::new(folder.path(), &layout, Totals::default());
        let writer = MetricsWriter::begin(metrics, paused.clone(), Duration::from_millis(1)).expect("written");
        let value = |name: &str| {
            let text = fs::read_to_string(&file).ok()?;
            let line = text.lines().find(|line| line.starts_with(&format!("fulgurite_migration_{name}{{")))?;
            line.rsplit_once(' ').map(|(_, value)| value.to_owned())
        };
        assert_eq!(value("running").as_deref(), Some("1"));
        // No event follows.
        fs::write(&paused, b"").expect("written");
        while value("paused").as_deref() != Some("1") {
            thread::yield_now();
        }
        // After the last file, the archive still writes platters.
        writer.change(|metrics| metrics.end(Totals::default())).expect("written");
        fs::remove_file(&file).expect("removed");
        while value("running").is_none() {
            thread::yield_now();
        }
        assert_eq!(value("running").as_deref(), Some("1"));
        writer.end().expect("written");
        assert_eq!(value("running").as_deref(), Some("0"));
    }

    /// Names of metrics in a text, without their functions and labels.
    fn named(text: &str) -> BTreeSet<String> {
        let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        words.filter(|word| word.starts_with("fulgurite_migration_")).map(Into::into).collect()
    }

    /// Values that a text selects by a label.
    fn selected<'a>(text: &'a str, label: &str) -> BTreeSet<&'a str> {
        let label = format!("{label}=");
        let rests = text.split(label.as_str()).skip(1);
        rests.filter_map(|rest| rest.trim_start_matches('\\').strip_prefix('"')?.split(['"', '\\']).next()).collect()
    }

    #[test]
    fn rules_and_dashboard_use_only_metrics_that_runs_write() {
        let layout = Layout { stations: vec![station()], rules: Rules::default() };
        let written = named(&RunMetrics::new(Path::new("m"), &layout, Totals::default()).exposition(true, false, 0));
        let states: BTreeSet<&str> = State::ALL.map(State::name).into();
        let stages: BTreeSet<&str> = Stage::ALL.map(Stage::name).into();
        for (file, least, selects) in [
            (include_str!("../../../../deploy/prometheus/migration-rules.yml"), 6, 1),
            (include_str!("../../../../deploy/prometheus/migration-rules-test.yml"), 6, 2),
            (include_str!("../../../../deploy/grafana/migration.json"), 12, 0),
        ] {
            let used = named(file);
            assert!(used.len() >= least && used.is_subset(&written), "{:?}", used.difference(&written));
            let (of_states, of_stages) = (selected(file, "state"), selected(file, "stage"));
            assert!(of_states.is_subset(&states) && of_stages.is_subset(&stages), "{of_states:?} {of_stages:?}");
            assert!(!of_states.is_empty() && of_stages.len() >= selects, "{of_states:?} {of_stages:?}");
        }
        let dashboard: serde_json::Value = serde_json::from_str(include_str!("../../../../deploy/grafana/migration.json")).expect("JSON");
        let panels = dashboard["panels"].as_array().expect("panels");
        assert!(panels.len() >= 10 && panels.iter().all(|panel| panel["targets"].as_array().is_some_and(|targets| !targets.is_empty())));
    }
}
