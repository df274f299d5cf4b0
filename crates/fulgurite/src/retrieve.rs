//! `fulgurite retrieve`: retrieves the objects of a list from a server, with the crate `retrieval`.
//!
//! Exit status: 0 if all objects were retrieved; 1 if the server could not send some, or the
//! command was stopped or failed; 2 for wrong arguments, including missing credentials.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use clap::{Args, ValueEnum};
use fulgurite_retrieval::{Destination, ExchangeError, Format, Progress, Retrieval, RetrievalError, Settings, Summary};
use fulgurite_settings::Dimension;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;

use crate::outcome::Misuse;
use crate::{Outcome, Session, diagnostics, signals, text};

#[derive(Debug, Args)]
pub(crate) struct Retrieve {
    /// A file with a key on each line; in a file named .jsonl or .ndjson, a JSON string or an
    /// object with key, version_id and range on each line
    list: PathBuf,
    /// The folder for the parts. Another run with the same arguments resumes
    #[arg(long, value_name = "FOLDER")]
    to: PathBuf,
    /// Put complete parts into this bucket of the same server, under keys that begin with PREFIX,
    /// and remove them from the folder, which keeps the state. End PREFIX with a slash if it is a
    /// folder
    #[arg(long, value_name = "BUCKET[/PREFIX]")]
    into: Option<String>,
    #[command(flatten)]
    bucket: crate::bucket::BucketArgs,
    /// Format of the parts
    #[arg(long, value_enum, default_value_t = PartFormat::Tar)]
    format: PartFormat,
    /// Number of parts to retrieve at once
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    connections: u32,
    /// Maximum number of objects per part
    #[arg(long, default_value_t = 100_000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    part_objects: u64,
    /// Maximum size of a part, unless it has only one object
    #[arg(long, default_value = "1 GiB", value_name = "SIZE")]
    part_size: String,
}

/// The format of parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PartFormat {
    /// Tar archives with a file for each object
    Tar,
    /// Parquet files with a row for each object: key, version_id, etag, range, modified, content
    Parquet,
}

pub(crate) fn retrieve(session: &Session, asked: &Retrieve) -> Result<Outcome> {
    let part_bytes = Dimension::Size.parse_whole(&asked.part_size).map_err(|error| Misuse(format!("--part-size: {error}")))?;
    let server = asked.bucket.server()?;
    let settings = Settings {
        list: asked.list.clone(),
        folder: asked.to.clone(),
        format: match asked.format {
            PartFormat::Tar => Format::Tar,
            PartFormat::Parquet => Format::Parquet,
        },
        connections: asked.connections as usize,
        part_objects: asked.part_objects,
        part_bytes,
        destination: asked.into.as_deref().map(|into| destination(asked, into)).transpose()?,
    };
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    signals::on_stop(None, move || stopped.store(true, Ordering::Relaxed))?;
    let begun = std::time::Instant::now();
    let mut bar = Bar::new(session);
    let on_retry = |error: &ExchangeError, pause: Duration| {
        diagnostics::note(&format!("{error}; trying again in {} s", pause.as_secs()));
    };
    let result = Retrieval::new(&server, settings).run(&mut bar, &on_retry, &stop);
    // Before that, the list wasn't sorted, and another run starts over.
    let has_begun = bar.has_begun;
    drop(bar);
    let summary = match result {
        Ok(summary) => summary,
        Err(RetrievalError::Exchange(ExchangeError::Stopped)) => {
            session.warn(if has_begun { "stopped; the same command goes on from here" } else { "stopped" });
            return Ok(Outcome::Troubled);
        }
        Err(error) => {
            let goes_on = has_begun && may_pass(&error);
            let error = anyhow::Error::new(error);
            return Err(if goes_on { error.context("the retrieval is incomplete; the same command goes on from here") } else { error });
        }
    };
    report(session, asked, &summary, begun.elapsed());
    Ok(Outcome::troubled_if(summary.failed > 0))
}

/// Whether the same command may succeed later: the server answers again, or the disk has room.
fn may_pass(error: &RetrievalError) -> bool {
    match error {
        RetrievalError::Exchange(ExchangeError::File(error)) => {
            matches!(error.source.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
        }
        RetrievalError::Exchange(error) => error.is_transient(),
        _ => false,
    }
}

/// The bucket and the prefix that `--into` names.
fn destination(asked: &Retrieve, into: &str) -> Result<Destination, Misuse> {
    let into = into.strip_prefix("s3://").unwrap_or(into);
    let (bucket, prefix) = into.split_once('/').unwrap_or((into, ""));
    Ok(Destination { server: asked.bucket.server_with(bucket)?, prefix: prefix.to_owned() })
}

fn report(session: &Session, asked: &Retrieve, summary: &Summary, time: Duration) {
    let Summary { parts, earlier_parts, objects, failed, missing_lists, retrieved, bytes } = *summary;
    let folder = text::path(&asked.to);
    let to = asked.into.as_ref().map_or_else(|| folder.clone(), |into| format!("s3://{}", into.trim_start_matches("s3://")));
    let earlier = if earlier_parts > 0 {
        format!("; {} complete before", text::phrase(earlier_parts, "part was", "parts were"))
    } else {
        String::new()
    };
    session.say(&format!(
        "retrieved {} ({}) in {:.1} s, {} in {to}{earlier}",
        text::count(retrieved, "object"),
        text::bytes(bytes),
        time.as_secs_f64(),
        text::count(parts, "part")
    ));
    if failed > 0 {
        session.warn(&format!(
            "{} of {objects} could not be retrieved: {folder}/_part-*.failed.jsonl says why",
            text::count(failed, "object")
        ));
    }
    if missing_lists > 0 {
        session.warn(&format!(
            "{} no longer in {folder}; an earlier run wrote them",
            text::phrase(missing_lists, "of these lists is", "of these lists are")
        ));
    }
    session.answer(|| {
        json!({
            "objects": objects, "failed": failed, "parts": parts, "earlier_parts": earlier_parts,
            "retrieved": retrieved, "bytes": bytes, "seconds": time.as_secs_f64(),
        })
    });
}

/// Progress on the terminal.
struct Bar {
    bar: ProgressBar,
    earlier: u64,
    /// Whether the list was sorted.
    has_begun: bool,
}

impl Bar {
    fn new(session: &Session) -> Self {
        let is_hidden = session.quiet || session.json;
        let target = if is_hidden { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(None, target);
        bar.set_style(ProgressStyle::with_template("located {pos} objects, {elapsed}").expect("the template is valid"));
        Self { bar, earlier: 0, has_begun: false }
    }
}

impl Progress for Bar {
    fn placed(&mut self, objects: u64) {
        self.bar.set_position(objects);
    }

    fn begun(&mut self, objects: u64, earlier: u64) {
        (self.earlier, self.has_begun) = (earlier, true);
        self.bar.reset();
        self.bar.set_length(objects);
        self.bar.set_position(earlier);
        self.bar.reset_eta();
        let style =
            ProgressStyle::with_template("[{bar:30}] {pos}/{len} objects, {per_sec}, {msg}, {eta} left").expect("the template is valid");
        self.bar.set_style(style.progress_chars("=> "));
    }

    fn retrieved(&mut self, objects: u64, bytes: u64) {
        self.bar.set_position(self.earlier + objects);
        self.bar.set_message(text::bytes(bytes));
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
