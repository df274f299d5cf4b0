//! `migrate run`: carries a migration out.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use fulgurite_archive::watch::Unwatched;
use fulgurite_domain::Micros;
use fulgurite_migration::journal::JournalWriter;
use fulgurite_migration::layout::Stage;
use fulgurite_migration::run::certificate;
use fulgurite_migration::run::database::{State, Totals};
use fulgurite_migration::run::destination::Destination;
use fulgurite_migration::run::pace::Pace;
use fulgurite_migration::run::{self, Order, Progress, Setup, Watcher};
use fulgurite_migration::{Command, Event};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};

use super::folder::{Migration, now_s, write_json};
use super::lock::Holder;
use super::metrics::RunMetrics;
use super::progress::{self, RunProgress};
use crate::{Outcome, Session, diagnostics, signals, text};

/// How often the progress and the metrics are written.
const WRITTEN_EVERY: Duration = Duration::from_secs(1);
/// A place that can't be reached is named once in this time.
const NAMED_EVERY: Duration = Duration::from_secs(60);

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The migration's folder
    folder: PathBuf,
    /// Try failed files again
    #[arg(long)]
    retry_failed: bool,
    /// Leave what an archive has staged to a later `fulgurite flush`
    #[arg(long)]
    no_flush: bool,
}

pub(super) fn run(session: &Session, asked: &Run) -> Result<Outcome> {
    let mut migration = Migration::change(&asked.folder, Holder::Run)?;
    if !migration.has_inventory()? {
        let (files, _) = migration.take_inventory(&mut |_| {})?;
        session.say(&format!("The source has {}.", text::count(files, "file")));
    }
    if asked.retry_failed {
        let files = migration.database.retry_failed()?;
        session.say(&format!("{} to be tried again.", text::phrase(files, "failed file is", "failed files are")));
    }
    if migration.is_paused() {
        session.warn("The migration is paused, and the run waits: `fulgurite migrate resume` lets it go on.");
    }
    let before = migration.database.totals()?;
    if before.of(State::Waiting).0 + before.of(State::Written).0 > 0 {
        migration.remove_certificate()?;
    }
    let source = migration.source()?;
    let archive = migration.archive()?.map(Arc::new);
    let destination: Arc<dyn Destination> = match &archive {
        Some(archive) => archive.clone(),
        None => Arc::new(migration.destination()?),
    };
    let settings = &migration.settings;
    let setup = Setup {
        layout: settings.layout.clone(),
        volumes: settings.volumes.clone(),
        lot_files: settings.lot_files,
        lot_bytes: settings.lot_bytes,
        tries: settings.tries,
        retry_after: settings.retry_after,
        source,
        destination,
    };
    let is_stopped = Arc::new(AtomicBool::new(false));
    let stop = is_stopped.clone();
    signals::on_stop(None, move || stop.store(true, Ordering::Relaxed))?;
    let mut watching = Watching::new(session, &migration, before, is_stopped.clone())?;
    let result = run::run(&setup, &mut migration.database, &mut watching);
    watching.bar.finish_and_clear();
    let began = watching.began;
    let noted = watching.end(&migration);
    result.context("the run is incomplete; the next goes on from there")?;
    noted?;
    drop(setup);
    if let Some(archive) = archive.filter(|_| !asked.no_flush) {
        let flushed = archive.archive().flush(&Unwatched);
        flushed.context("all files are staged in the archive, and safe there, but not all of them are on platters")?;
    }
    conclude(session, &mut migration, before, began.elapsed(), is_stopped.load(Ordering::Relaxed))
}

/// Says what was done, and writes the certificate if nothing is left.
fn conclude(session: &Session, migration: &mut Migration, before: Totals, time: Duration, is_stopped: bool) -> Result<Outcome> {
    let totals = migration.database.totals()?;
    let (files, bytes) = totals.of(State::Migrated);
    let (files_before, bytes_before) = before.of(State::Migrated);
    let (files_now, bytes_now) = (files.saturating_sub(files_before), bytes.saturating_sub(bytes_before));
    let left = totals.of(State::Waiting).0 + totals.of(State::Written).0;
    let failed = totals.of(State::Failed).0;
    let certificate = if left == 0 { Some(certify(migration, totals)?) } else { None };
    session.answer(|| {
        json!({
            "migrated": files_now, "bytes": bytes_now, "seconds": time.as_secs_f64(), "stopped": is_stopped,
            "totals": totals_json(&totals), "certificate": certificate,
        })
    });
    let done = match files_now {
        0 => "Nothing was migrated.".to_owned(),
        _ => format!(
            "Migrated {}, {} in {:.1} s ({}); each was read back.",
            text::count(files_now, "file"),
            text::bytes(bytes_now),
            time.as_secs_f64(),
            text::rate(bytes_now, time)
        ),
    };
    session.say(&done);
    if left > 0 {
        session.warn(&format!("{} left: run it again.", text::phrase(left, "file is", "files are")));
    }
    if failed > 0 {
        session.warn(&format!("{} failed: `fulgurite migrate report` says why.", text::count(failed, "file")));
    }
    if certificate.is_some() {
        let path = text::path(&migration.path("certificate.json"));
        let (all, arrived) = (totals.all().0, files + totals.of(State::Released).0);
        session.say(&format!("{path} certifies {arrived} of {}; migrated.sha256 lists them.", text::count(all, "file")));
    }
    Ok(Outcome::troubled_if(left > 0 || failed > 0))
}

/// Writes the list of migrated files, and the certificate with its digest.
pub(super) fn certify(migration: &Migration, totals: Totals) -> Result<Value> {
    let list = migration.path("migrated.sha256");
    let certificate = certificate::write_list(&migration.database, &list)?;
    let place = |settings: &fulgurite_migration::run::settings::PlaceSettings| settings.place.clone();
    let value = json!({
        "program": format!("fulgurite {}", env!("CARGO_PKG_VERSION")),
        "made_at": format!("{} UTC", text::time(now_s().cast_signed())),
        "source": place(&migration.settings.source),
        "destination": place(&migration.settings.destination),
        "migrated": { "files": certificate.files, "bytes": certificate.bytes },
        "failed": { "files": totals.of(State::Failed).0, "bytes": totals.of(State::Failed).1 },
        "list": { "file": "migrated.sha256", "sha256": certificate.list_sha256.hex() },
    });
    write_json(&migration.path("certificate.json"), &value).context("certificate.json")?;
    Ok(value)
}

/// Totals by the names of states.
pub(super) fn totals_json(totals: &Totals) -> Value {
    let of = |state: State| (state.name().to_owned(), json!({ "files": totals.of(state).0, "bytes": totals.of(state).1 }));
    Value::Object(State::ALL.into_iter().map(of).collect())
}

/// Follows a run for people, and for `migrate status`.
struct Watching {
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
    /// What was written last.
    last: Option<RunProgress>,
    metrics: RunMetrics,
}

impl Watching {
    fn new(session: &Session, migration: &Migration, before: Totals, is_stopped: Arc<AtomicBool>) -> Result<Self> {
        let path = migration.path("journal");
        let journal = File::create(&path).and_then(|file| JournalWriter::begin(BufWriter::new(file), &migration.settings.layout));
        let journal = journal.with_context(|| text::path(&path))?;
        // A run that was killed couldn't say that it ended, and its end isn't that of this run.
        if let Some(killed) = RunProgress::read(migration).filter(|earlier| earlier.ended_at.is_none()) {
            let ended = RunProgress { ended_at: Some(killed.at), ..killed };
            write_json(&migration.path("progress.json"), &json!(ended)).context("progress.json")?;
        }
        // Last: if anything above fails, no run is going on.
        let metrics = RunMetrics::new(&migration.folder, &migration.settings.layout, before);
        metrics.write(true, migration.is_paused(), now_s()).context("metrics.prom")?;
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
            last: None,
            metrics,
        })
    }

    /// Notes that the run has ended.
    fn end(self, migration: &Migration) -> Result<()> {
        let Self { last, mut metrics, mut journal, .. } = self;
        metrics.end(migration.database.totals()?);
        metrics.write(false, migration.is_paused(), now_s()).context("metrics.prom")?;
        if let Some(last) = last {
            let last = RunProgress { ended_at: Some(now_s()), ..last };
            write_json(&migration.path("progress.json"), &json!(last)).context("progress.json")?;
        }
        journal.flush().context("journal")
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
        let has_moved = self.last.is_some() || run.figures.streams.iter().any(|stream| stream.files > 0);
        let is_first = has_moved && self.last.is_none();
        // No other event may follow an order for hours.
        let is_order = matches!(event, Event::Paused | Event::Resumed | Event::Stopped);
        let has_ended = commands.contains(&Command::End);
        if !(is_first || is_order || has_ended) && self.written.elapsed() < WRITTEN_EVERY {
            return Ok(());
        }
        self.written = Instant::now();
        let (waiting, written) = (run.totals.of(State::Waiting), run.totals.of(State::Written));
        let left = self.pace.left(waiting.1 + written.1);
        self.metrics.update(run, left);
        self.metrics.write(true, self.paused.exists(), now_s())?;
        if !has_moved {
            // Keep the earlier run's figures until a file has moved.
            return Ok(());
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
