//! What a run tells while it goes on: to people, to `migrate status`, to Prometheus, and to its
//! journal.

use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use fulgurite_domain::Micros;
use fulgurite_migration::journal::JournalWriter;
use fulgurite_migration::layout::Stage;
use fulgurite_migration::run::database::{State, Totals};
use fulgurite_migration::run::pace::Pace;
use fulgurite_migration::run::{Order, Progress, Watcher};
use fulgurite_migration::{Command, Event};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;

use super::folder::{Migration, now_s, write_json};
use super::metrics::{MetricsWriter, RunMetrics};
use super::progress::{self, RunProgress, SetAside};
use super::run::totals_json;
use crate::{Session, diagnostics, text};

/// How often the progress is written, and the metrics while files move.
const WRITTEN_EVERY: Duration = Duration::from_secs(1);
/// How often the metrics are written, whatever happens.
const METRICS_EVERY: Duration = Duration::from_secs(15);
/// The journal of a run that has not moved anything yet. That of an earlier run, which did, stays.
const NEW_JOURNAL: &str = "journal.new";
/// A place that can't be reached is named once in this time.
const NAMED_EVERY: Duration = Duration::from_secs(60);

/// Follows a run for people, and for `migrate status`.
pub(super) struct Watching {
    bar: ProgressBar,
    is_stopped: Arc<AtomicBool>,
    paused: PathBuf,
    progress: PathBuf,
    began: Instant,
    /// Bytes that were migrated before.
    migrated: u64,
    pace: Pace,
    written: Instant,
    named: Option<Instant>,
    journal: JournalWriter<BufWriter<File>>,
    new_journal: PathBuf,
    /// True once a file passed a stage. The journal has its name since.
    has_moved: bool,
    /// What was written of this run last.
    last: Option<RunProgress>,
    /// What an earlier run did.
    earlier: Option<RunProgress>,
    set_aside: Vec<SetAside>,
    /// True if a tape was set aside since the progress was written.
    has_set_aside: bool,
    metrics: MetricsWriter,
}

impl Watching {
    /// `earlier` is what an earlier run did.
    pub(super) fn new(
        session: &Session,
        migration: &Migration,
        earlier: Option<RunProgress>,
        before: Totals,
        is_stopped: Arc<AtomicBool>,
    ) -> Result<Self> {
        let path = migration.path(NEW_JOURNAL);
        let journal = File::create(&path).and_then(|file| JournalWriter::begin(BufWriter::new(file), &migration.settings.layout));
        let journal = journal.with_context(|| text::path(&path))?;
        // Last: if anything above fails, no run is going on.
        let metrics = RunMetrics::new(&migration.folder, &migration.settings.layout, before);
        let metrics = MetricsWriter::begin(metrics, migration.path("paused"), METRICS_EVERY).context("metrics.prom")?;
        let is_hidden = session.quiet || session.json;
        let target = if is_hidden { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr_with_hz(4) };
        let bar = ProgressBar::with_draw_target(Some(before.all().1), target);
        let style =
            ProgressStyle::with_template("[{bar:30}] {bytes}/{total_bytes}, {binary_bytes_per_sec}, {msg}").expect("a good template");
        bar.set_style(style.progress_chars("=> "));
        Ok(Self {
            bar,
            is_stopped,
            paused: migration.path("paused"),
            progress: migration.path("progress.json"),
            began: Instant::now(),
            migrated: before.of(State::Migrated).1,
            pace: Pace::new(0.0),
            written: Instant::now(),
            named: None,
            journal,
            new_journal: path,
            has_moved: false,
            last: None,
            earlier,
            set_aside: Vec::new(),
            has_set_aside: false,
            metrics,
        })
    }

    /// Notes that no more files move. The metrics say that the run is going on until they are
    /// [ended](MetricsWriter::end).
    pub(super) fn end(self, migration: &Migration) -> (MetricsWriter, Result<()>) {
        let Self { bar, last, metrics, mut journal, has_moved, .. } = self;
        bar.finish_and_clear();
        let note = || -> Result<()> {
            let totals = migration.database.totals()?;
            metrics.change(|metrics| metrics.end(totals)).context("metrics.prom")?;
            if let Some(last) = last {
                let last = RunProgress { ended_at: Some(now_s()), ..last };
                write_json(&migration.path("progress.json"), &json!(last)).context("progress.json")?;
            }
            journal.flush().context("journal")?;
            if !has_moved {
                let (new, journal) = (migration.path(NEW_JOURNAL), migration.path("journal"));
                let kept = if journal.exists() { fs::remove_file(new) } else { fs::rename(new, journal) };
                kept.context("journal")?;
            }
            Ok(())
        };
        let noted = note();
        (metrics, noted)
    }
}

impl Watcher for Watching {
    fn order(&mut self) -> Order {
        if self.is_stopped.load(Ordering::Relaxed) {
            return Order::Stop;
        }
        if self.paused.exists() { Order::Pause } else { Order::Run }
    }

    fn stepped(&mut self, now: Micros, event: &Event, commands: &[Command], run: &Progress<'_>) -> io::Result<()> {
        self.journal.step(now, event, commands)?;
        if let Event::Scanned(done) = event {
            self.migrated += done.bytes;
            self.pace.add(self.began.elapsed().as_secs_f64(), done.bytes);
            self.bar.set_position(self.migrated);
        }
        if !self.has_moved && run.figures.streams.iter().any(|stream| stream.files > 0) {
            fs::rename(&self.new_journal, self.new_journal.with_file_name("journal"))?;
            self.has_moved = true;
        }
        let has_moved = self.has_moved || self.last.is_some();
        let has_set_aside = std::mem::take(&mut self.has_set_aside);
        let is_first = has_moved && self.last.is_none();
        // No other event may follow an order for hours.
        let is_order = matches!(event, Event::Paused | Event::Resumed | Event::Stopped);
        let has_ended = commands.contains(&Command::End);
        if !(is_first || is_order || has_ended || has_set_aside) && self.written.elapsed() < WRITTEN_EVERY {
            return Ok(());
        }
        self.written = Instant::now();
        let (waiting, written) = (run.totals.of(State::Waiting), run.totals.of(State::Written));
        let left = self.pace.left(waiting.1 + written.1);
        let set_aside = self.set_aside.len();
        self.metrics.change(|metrics| metrics.update(run, left, set_aside))?;
        match &self.earlier {
            // Keep the earlier run's figures until a file has moved.
            Some(earlier) if !has_moved && has_set_aside => {
                let noted = RunProgress { set_aside: self.set_aside.clone(), ..earlier.clone() };
                return write_json(&self.progress, &json!(noted));
            }
            Some(_) if !has_moved => return Ok(()),
            None if !has_moved && self.set_aside.is_empty() => return Ok(()),
            _ => {}
        }
        let progress = RunProgress {
            at: now_s(),
            ended_at: None,
            elapsed_s: self.began.elapsed().as_secs_f64(),
            totals: totals_json(&run.totals),
            lots: run.pipeline.lots(),
            left_s: left.map(|left| left.mean_s),
            left_interval_s: left.and_then(|left| left.interval_s),
            streams: run.figures.streams.clone(),
            spools: progress::spools(run.figures),
            set_aside: self.set_aside.clone(),
        };
        self.bar.set_message(format!("{} left", text::count(waiting.0 + written.0, "file")));
        self.journal.flush()?;
        write_json(&self.progress, &json!(progress))?;
        self.last = Some(progress);
        Ok(())
    }

    fn failed(&mut self, name: &str, stage: Stage, reason: &str, is_final: bool) {
        let (stage, next) = (stage.name(), if is_final { "given up" } else { "to be tried again" });
        let value = json!({ "kind": "failed", "name": name, "stage": stage, "reason": reason, "final": is_final });
        self.bar.suspend(|| diagnostics::write(&format!("{}: {stage}: {} ({next})", text::harmless(name), text::harmless(reason)), &value));
    }

    fn set_aside(&mut self, volume: &str, failed: u32, reason: &str) {
        let files = text::phrase(u64::from(failed), "file", "files");
        let told = format!(
            "tape {} is set aside: {files} in a row failed; the next run tries it again. The last: {}",
            text::harmless(volume),
            text::harmless(reason)
        );
        let value = json!({ "kind": "set-aside", "volume": volume, "failed": failed, "reason": reason });
        self.bar.suspend(|| diagnostics::write(&told, &value));
        self.set_aside.push(SetAside { volume: volume.to_owned(), failed, reason: reason.to_owned() });
        self.has_set_aside = true;
    }

    fn unreachable(&mut self, stage: Stage, reason: &str) {
        if self.named.is_none_or(|named| named.elapsed() >= NAMED_EVERY) {
            self.named = Some(Instant::now());
            let place = if stage == Stage::Input { "source" } else { "destination" };
            self.bar
                .suspend(|| diagnostics::note(&format!("the {place} can't be reached, and is tried again: {}", text::harmless(reason))));
        }
    }
}
