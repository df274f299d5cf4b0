//! What an ingest prints: progress, problems, and what was done.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fulgurite_ingest::{Counts, Events, Pipeline};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;

use crate::{Outcome, Session, diagnostics, text};

/// How often the same reason for waiting is printed.
const WAITING_EVERY: Duration = Duration::from_secs(30);
/// How often any reason is printed.
const ANY_EVERY: Duration = Duration::from_secs(1);
/// How often progress is drawn.
const DRAW_EVERY: Duration = Duration::from_millis(250);

/// Prints problems, above the progress.
#[derive(Debug)]
pub(super) struct Reporter {
    bar: ProgressBar,
    waiting: Mutex<Option<(Instant, String)>>,
}

/// Draws progress until it is dropped.
pub(super) struct Showing {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Reporter {
    pub(super) fn new(session: &Session) -> Self {
        let is_hidden = session.quiet || session.json;
        let bar = ProgressBar::with_draw_target(None, if is_hidden { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() });
        bar.set_style(ProgressStyle::with_template("{elapsed}: {msg}").expect("the template is valid"));
        Self { bar, waiting: Mutex::default() }
    }

    /// Draws progress on a thread of its own.
    pub(super) fn show(&self, pipeline: &Arc<Pipeline>) -> Showing {
        let (end, ended) = channel();
        let (bar, pipeline) = (self.bar.clone(), Arc::clone(pipeline));
        let thread = std::thread::spawn(move || {
            while ended.recv_timeout(DRAW_EVERY) == Err(RecvTimeoutError::Timeout) {
                let found = Found::of(pipeline.counts());
                bar.set_message(format!(
                    "{}, {} stored ({})",
                    text::count(found.alerts, "alert"),
                    text::count(found.stored, "object"),
                    text::bytes(found.bytes)
                ));
            }
            bar.finish_and_clear();
        });
        Showing { end: Some(end), thread: Some(thread) }
    }

    fn print(&self, print: impl FnOnce()) {
        self.bar.suspend(print);
    }
}

impl Drop for Showing {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Events for Reporter {
    fn waiting(&self, why: &str) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = waiting.as_ref().is_none_or(|(at, what)| at.elapsed() >= if what == why { WAITING_EVERY } else { ANY_EVERY });
        if is_due {
            *waiting = Some((Instant::now(), why.to_owned()));
            drop(waiting);
            self.print(|| diagnostics::note(&format!("waiting: {why}")));
        }
    }

    fn rejected(&self, origin: &str, why: &str, key: &str) {
        self.print(|| diagnostics::trouble(&format!("{origin}: {why}; stored as {key}")));
    }

    fn failed(&self, origin: &str, why: &str) {
        self.print(|| diagnostics::trouble(&format!("{origin}: {why}")));
    }
}

/// Counts at one moment.
struct Found {
    alerts: u64,
    files: u64,
    stored: u64,
    bytes: u64,
    earlier: u64,
    absent: u64,
    rejected: u64,
    failed: u64,
}

impl Found {
    fn of(counts: &Counts) -> Self {
        let get = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        Self {
            alerts: get(&counts.alerts),
            files: get(&counts.files),
            stored: get(&counts.stored),
            bytes: get(&counts.bytes),
            earlier: get(&counts.earlier),
            absent: get(&counts.absent),
            rejected: get(&counts.rejected),
            failed: get(&counts.failed),
        }
    }
}

/// Prints what was done.
pub(super) fn report(session: &Session, pipeline: &Pipeline, time: Duration) -> Outcome {
    let Found { alerts, files, stored, bytes, earlier, absent, rejected, failed } = Found::of(pipeline.counts());
    let mut from = Vec::new();
    if alerts > 0 || files == 0 {
        from.push(text::count(alerts, "alert"));
    }
    if files > 0 {
        from.push(text::count(files, "file"));
    }
    let mut line = format!(
        "stored {} ({}) of {} in {:.1} s",
        text::count(stored, "object"),
        text::bytes(bytes),
        from.join(" and "),
        time.as_secs_f64()
    );
    if earlier > 0 {
        line += &format!("; {} already there", text::phrase(earlier, "object was", "objects were"));
    }
    if absent > 0 {
        line += &format!("; {} null", text::phrase(absent, "cutout was", "cutouts were"));
    }
    session.say(&line);
    if rejected > 0 {
        session.warn(&format!("{} below the prefix for dead letters, with the reasons as metadata", text::count(rejected, "object")));
    }
    if failed > 0 {
        session.warn(&format!("{failed} could not be read"));
    }
    session.answer(|| {
        json!({
            "alerts": alerts, "files": files, "stored": stored, "bytes": bytes, "already_stored": earlier, "null_cutouts": absent,
            "dead_letters": rejected, "failed": failed, "seconds": time.as_secs_f64(),
        })
    });
    Outcome::troubled_if(rejected > 0 || failed > 0)
}
