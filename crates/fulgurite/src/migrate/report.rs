//! `migrate report`: what failed, what the last run did, and what a plan predicted of it.

use std::fs::{self, File};
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;
use fulgurite_migration::figures::StageFigures;
use fulgurite_migration::layout::Stage;
use fulgurite_migration::pipeline::Wait;
use fulgurite_migration::plan::{self, Scenario};
use fulgurite_migration::quantities::{percent, short_time, time};
use fulgurite_migration::run::database::{FileRow, State, Totals};
use fulgurite_migration::timeline::{self, Recorded};
use fulgurite_migration::{journal, starvation};
use fulgurite_settings::Override;
use fulgurite_table::{Column, Table, Value};
use serde_json::json;

use super::compared::{Compared, MIB};
use super::folder::{Migration, now_s, shown};
use super::lock::Holder;
use super::page::{self, MARK, SPOOLS_MAX};
use super::progress::RunProgress;
use super::run::totals_json;
use super::{scenario, status};
use crate::{Outcome, Session, tables, text};

/// Failed files that a report lists.
const FAILED_MAX: usize = 10_000;
/// The page of a report. The report in a folder that has one may be written again.
const PAGE: &str = "report.html";
/// The tables of a report.
const TABLES: [&str; 4] = ["streams", "rates", "spools", "compared"];

#[derive(Debug, Args)]
pub(crate) struct Report {
    /// The migration's folder
    folder: PathBuf,
    /// Write a scenario for `migrate plan` to this file: what is left, with the rates, the gaps and
    /// the time for each file that the last run had
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// Write a page with plots, tables and figures to this folder; an earlier report there is
    /// replaced
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Simulate a scenario file, and compare its figures with those of the last run
    #[arg(long, value_name = "SCENARIO")]
    plan: Option<PathBuf>,
    /// Change a setting of the scenario, such as stations.inputs=3; the option may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE", requires = "plan")]
    set: Vec<String>,
}

/// What a report shows.
pub(super) struct Known {
    pub(super) at: u64,
    pub(super) source: String,
    pub(super) destination: String,
    /// What is going on, in a sentence.
    pub(super) state: String,
    /// Says that no run has begun; `None` once one has.
    pub(super) not_begun: Option<String>,
    has_inventory: bool,
    /// When the run that is going on ends, if that is known.
    pub(super) end: Option<String>,
    pub(super) totals: Totals,
    pub(super) failed: Vec<FileRow>,
    pub(super) certificate: Option<serde_json::Value>,
    /// Why the certificate can't be read, in a sentence.
    pub(super) certificate_trouble: Option<String>,
    pub(super) progress: Option<RunProgress>,
    /// What the streams of each stage did in the last run.
    pub(super) stages: Vec<StageFigures>,
    pub(super) compared: Option<Compared>,
    /// What moved when, or why that isn't known.
    pub(super) recorded: Result<Recorded, String>,
    /// True if the figures of the last run are in a file that can't be read.
    is_unreadable: bool,
    /// The command that is changing the migration.
    holder: Option<Holder>,
    /// True if the figures are those of a run that is going on.
    is_current: bool,
}

pub(super) fn report(session: &Session, asked: &Report) -> Result<Outcome> {
    let migration = Migration::look(&asked.folder)?;
    // The scenario may be wrong, and simulating it takes time: both before anything is written.
    let overrides: Vec<Override> = asked.set.iter().map(|text| Override::parse("--set", text)).collect::<Result<_, _>>()?;
    let planned = asked.plan.as_ref().map(|path| Scenario::read(path, &overrides)).transpose()?.map(|scenario| plan::simulate(&scenario));
    let progress = RunProgress::read(&migration);
    let known = Known {
        recorded: if asked.out.is_some() { record(&migration) } else { Err("the journal was not read".to_owned()) },
        compared: planned.map(|planned| Compared::new(&planned, progress.as_ref())),
        ..Known::read(&migration, progress)?
    };
    if let Some(path) = &asked.scenario {
        let text = scenario::of(&migration, known.progress.as_ref(), &known.totals)?;
        fs::write(path, text).with_context(|| text::path(path))?;
    }
    if let Some(folder) = &asked.out {
        write(folder, &known)?;
    }
    session.answer(|| known.json());
    say(session, &known);
    if let Some(folder) = &asked.out {
        session.say(&format!("Written to {}.", text::path(folder)));
    }
    Ok(Outcome::troubled_if(known.totals.of(State::Failed).0 > 0))
}

impl Known {
    fn read(migration: &Migration, progress: Option<RunProgress>) -> Result<Self> {
        let (at, holder, is_paused) = (now_s(), migration.holder(), migration.is_paused());
        // Otherwise the figures are those of an earlier run.
        let is_current = holder == Some(Holder::Run) && progress.as_ref().is_none_or(|progress| progress.ended_at.is_none());
        let current = progress.as_ref().filter(|_| is_current);
        let left = current.filter(|_| !is_paused).and_then(|of| of.left_s.map(|left| (of, left)));
        let end = left.map(|(of, left_s)| {
            let then = |seconds: f64| text::time((of.at as f64 + seconds) as i64);
            let bounds = of.left_interval_s;
            let bounds = bounds.map_or_else(String::new, |(low, high)| format!(" (95 %: {} to {})", then(low), then(high)));
            format!("Projected end: {} UTC{bounds}.", then(left_s))
        });
        let (certificate, certificate_trouble) = match certificate(migration) {
            Ok(certificate) => (certificate, None),
            Err(error) => {
                (None, Some(format!("certificate.json can't be read: {error}. The next run that leaves nothing waiting writes it again.")))
            }
        };
        let totals = migration.database.totals()?;
        Ok(Self {
            at,
            not_begun: status::not_begun(migration, &totals, holder)?,
            has_inventory: migration.has_inventory()?,
            source: shown(&migration.settings.source)?,
            destination: shown(&migration.settings.destination)?,
            state: status::state(current, holder, is_paused),
            end,
            totals,
            failed: migration.database.in_state(State::Failed, 0, FAILED_MAX)?,
            certificate,
            certificate_trouble,
            is_unreadable: progress.is_none() && migration.path("progress.json").exists(),
            stages: progress.as_ref().map_or_else(Vec::new, |progress| Stage::ALL.map(|stage| progress.stage(stage)).to_vec()),
            progress,
            compared: None,
            recorded: Err(String::new()),
            holder,
            is_current,
        })
    }

    pub(super) fn is_running(&self) -> bool {
        self.holder == Some(Holder::Run)
    }

    /// Tapes that the last run set aside.
    pub(super) fn set_aside_lines(&self) -> Vec<String> {
        self.progress.as_ref().map_or_else(Vec::new, |progress| progress.set_aside_lines(self.is_running()))
    }

    pub(super) fn which_run(&self) -> &'static str {
        if self.is_current { "The last run so far" } else { "Last run that moved files" }
    }

    /// Why the figures of a run are missing.
    pub(super) fn no_figures(&self) -> &'static str {
        if self.is_unreadable { "Its figures are unknown: progress.json can't be read." } else { "No run has moved a file yet." }
    }

    /// Says that no file failed, and whether others may yet.
    pub(super) fn none_failed(&self) -> String {
        let left = self.totals.of(State::Waiting).0 + self.totals.of(State::Written).0;
        match (&self.not_begun, left) {
            (Some(_), _) => "No file was tried yet.".to_owned(),
            (None, 0) => "No file failed.".to_owned(),
            (None, left) => format!("No file has failed so far; {} left.", text::phrase(left, "file is", "files are")),
        }
    }

    /// What the journal says, and what it doesn't.
    pub(super) fn journal_sentence(&self, recorded: &Recorded) -> String {
        let steps = text::count(recorded.steps, "step");
        let Some(began) = recorded.timeline.began() else { return "The journal has no steps yet.".to_owned() };
        let began = text::time((began.0 / 1_000_000).cast_signed());
        let end = match &recorded.trouble {
            Some(trouble) => format!("the rest is left out: {}", with_causes(trouble)),
            None if recorded.has_ended => "the run ended".to_owned(),
            None if self.is_running() => "the run is going on".to_owned(),
            None => "the run was killed, or failed".to_owned(),
        };
        let moved = if Stage::ALL.into_iter().all(|stage| recorded.timeline.passed(stage) == 0) { ", in which nothing moved" } else { "" };
        format!(
            "From the journal of the run that began {began} UTC: {steps} in {}{moved}; {end}.",
            time(recorded.timeline.elapsed().seconds())
        )
    }

    fn json(&self) -> serde_json::Value {
        let failed =
            self.failed.iter().map(|row| json!({ "name": row.name, "bytes": row.bytes, "attempts": row.attempts, "reason": row.reason }));
        let failed: Vec<_> = failed.collect();
        let stage = |of: &StageFigures| {
            let waits: serde_json::Map<_, _> =
                of.wait_shares().into_iter().map(|(wait, share)| (wait.name().to_owned(), share.into())).collect();
            json!({
                "stage": of.stage.name(), "streams": of.streams, "files": of.files, "bytes": of.bytes, "bytes_per_second": of.rate(),
                "gap_s": of.gap_s(), "duty": of.duty(), "busy": of.busy_share(), "waits": waits,
            })
        };
        let stages: Vec<_> = self.stages.iter().map(stage).collect();
        json!({
            "totals": totals_json(&self.totals), "failed": failed, "last_run": self.progress,
            "running": self.is_running(), "command": self.holder.map(Holder::name),
            "has_inventory": self.has_inventory, "has_run": self.not_begun.is_none(),
            "set_aside": self.progress.as_ref().map_or(&[][..], |progress| &progress.set_aside),
            "stages": stages, "limit": starvation::sentence(&self.stages), "certificate": self.certificate,
            "certificate_error": self.certificate_trouble,
            "plan": self.compared.as_ref().map(Compared::json),
        })
    }
}

fn say(session: &Session, known: &Known) {
    if let Some(sentence) = &known.not_begun {
        session.say(sentence);
    }
    if let Some(progress) = &known.progress {
        session.say(&format!("{}, {}:", known.which_run(), time(progress.elapsed_s)));
        known.stages.iter().for_each(|of| session.say(&line(of)));
        if let Some(sentence) = starvation::sentence(&known.stages) {
            session.say(&sentence);
        }
        if let Some(end) = &known.end {
            session.say(end);
        }
    } else if known.is_unreadable {
        session.warn(&format!("{}: {}", known.which_run(), known.no_figures()));
    }
    if let Some(trouble) = &known.certificate_trouble {
        session.warn(trouble);
    }
    known.set_aside_lines().iter().for_each(|line| session.warn(line));
    if let Some(compared) = &known.compared {
        session.say(&format!("\nPredicted by {}, and measured:", compared.scenario));
        if let Some(caution) = compared.caution() {
            session.say(&caution);
        }
        session.say(&compared.table().to_string());
    }
    let (count, bytes) = known.totals.of(State::Failed);
    if count == 0 {
        session.say(&known.none_failed());
        return;
    }
    session.warn(&format!("{}, {}, failed:", text::count(count, "file"), text::bytes(bytes)));
    for row in &known.failed {
        let reason = row.reason.as_deref().unwrap_or("unknown");
        session.warn(&format!("  {}: {}", text::harmless(&row.name), text::harmless(reason)));
    }
    if count > known.failed.len() as u64 {
        session.warn(&format!("  and {} more", count - known.failed.len() as u64));
    }
}

/// A stage: rates, gaps, duty factors, and what its streams waited for.
fn line(of: &StageFigures) -> String {
    let waits = of.wait_shares().into_iter().filter(|(_, share)| *share >= 0.01);
    let waits: Vec<String> = waits.map(|(wait, share)| format!("{} {}", wait.name(), percent(share))).collect();
    format!(
        "  {} {}{}: {}, {}, {} each while moving, gap {}, duty {:.2} of {}, busy {}{}",
        of.streams,
        of.stage.name(),
        if of.streams == 1 { "" } else { "s" },
        text::count(of.files, "file"),
        text::bytes(of.bytes),
        text::per_second(of.rate()),
        short_time(of.gap_s()),
        of.duty(),
        of.streams,
        percent(of.busy_share()),
        if waits.is_empty() { String::new() } else { format!("; waiting for {}", waits.join(", ")) },
    )
}

/// The certificate; `None` if no run has written one.
fn certificate(migration: &Migration) -> io::Result<Option<serde_json::Value>> {
    match fs::read(migration.path("certificate.json")) {
        Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// What moved when, from the journal of the last run.
fn record(migration: &Migration) -> Result<Recorded, String> {
    let file = match File::open(migration.path("journal")) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err("no run has written a journal".to_owned()),
        Err(error) => return Err(format!("the journal can't be read: {error}")),
    };
    timeline::read(BufReader::new(file)).map_err(|error| with_causes(&error))
}

fn with_causes(error: &journal::ReplayError) -> String {
    let causes = std::iter::successors(std::error::Error::source(error), |error| error.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

fn write(folder: &Path, known: &Known) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| text::path(folder))?;
    let figures = || std::iter::once("rates".to_owned()).chain((1..=SPOOLS_MAX).map(|spool| format!("spool-{spool}")));
    let of_tables = TABLES.iter().flat_map(|name| ["csv", "parquet", "columns.csv"].map(|ending| format!("{name}.{ending}")));
    let of_figures = figures().flat_map(|name| ["svg", "png"].map(|ending| format!("{name}.{ending}")));
    let is_report = fs::read_to_string(folder.join(PAGE)).is_ok_and(|page| page.contains(MARK));
    for name in std::iter::once(PAGE.to_owned()).chain(of_tables).chain(of_figures) {
        let path = folder.join(name);
        ensure!(is_report || !path.exists(), "{} already exists, and isn't from a report: name another folder", text::path(&path));
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error).with_context(|| text::path(&path)),
            _ => {}
        }
    }
    // It comes first, so that a report that fails halfway may be written again.
    let path = folder.join(PAGE);
    fs::write(&path, page::page(known)?).with_context(|| text::path(&path))?;
    let table = |name: &str, table: &Table| -> Result<()> {
        tables::write_table(folder, name, table)?;
        tables::write_csv(&folder.join(format!("{name}.columns.csv")), &table.dictionary())
    };
    if let Some(progress) = &known.progress {
        table("streams", &streams(progress))?;
    }
    if let Some(compared) = &known.compared {
        table("compared", &compared.table())?;
    }
    if let Ok(recorded) = &known.recorded {
        let timeline = &recorded.timeline;
        table("rates", &timeline.rates())?;
        table("spools", &timeline.spools())?;
        let of_spools = timeline.spool_figures(SPOOLS_MAX);
        if let Some(figure) = timeline.rate_figure() {
            figure.write(folder, "rates")?;
        }
        for (name, figure) in figures().skip(1).zip(of_spools) {
            figure.write(folder, &name)?;
        }
    }
    Ok(())
}

/// A row for each stream of the last run.
fn streams(progress: &RunProgress) -> Table {
    let columns = [
        Column::i64("station", "1", "number of the station"),
        Column::text("stage", "input, output or scan"),
        Column::i64("stream", "1", "number of the stream in its stage"),
        Column::i64("files", "1", "files that passed"),
        Column::i64("bytes", "B", "their bytes"),
        Column::f64("rate", "MiB/s", "rate while bytes moved"),
        Column::f64("gap", "s", "mean gap between files of a lot"),
        Column::f64("duty", "1", "share of the time in which bytes moved"),
        Column::f64("busy", "1", "share of the time in which it handled lots"),
    ];
    let wait =
        |wait: Wait| Column::f64(&format!("wait_{}", wait.name()), "1", &format!("share of the time in which it waited {}", wait.phrase()));
    let mut table = Table::new(columns.into_iter().chain(Wait::ALL.map(wait)));
    for of in &progress.streams {
        let figures = StageFigures::sum(of.place.stage, [of], progress.elapsed());
        let shares = figures.wait_shares();
        let share = |wait: Wait| shares.iter().find(|(other, _)| *other == wait).map_or(0.0, |(_, share)| *share);
        let row = [
            Value::I64(i64::from(of.place.station) + 1),
            of.place.stage.name().into(),
            of.place.number.into(),
            Value::I64(of.files.cast_signed()),
            Value::I64(of.bytes.cast_signed()),
            (figures.rate() / MIB).into(),
            figures.gap_s().into(),
            figures.duty().into(),
            figures.busy_share().into(),
        ];
        table.push(row.into_iter().chain(Wait::ALL.map(|wait| Value::F64(share(wait))))).expect("the row has the columns");
    }
    table.note("elapsed_s", progress.elapsed_s)
}
