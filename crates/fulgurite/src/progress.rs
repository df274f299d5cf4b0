//! Progress on a terminal: bars with rate and time left, and troubles as they come.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use fulgurite_archive::watch::{Trouble, Watcher};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};

use crate::list::name_json;
use crate::text;

/// Shows progress on standard error, if that is a terminal.
pub(crate) struct Progress {
    bar: Mutex<ProgressBar>,
    quiet: bool,
    when_lost: &'static str,
    objects: AtomicU64,
    troubles: AtomicU64,
    /// What was lost, as JSON, if anybody wants it.
    lost: Option<Mutex<Vec<Value>>>,
}

impl Progress {
    pub(crate) fn new(quiet: bool) -> Self {
        Self {
            bar: Mutex::new(ProgressBar::hidden()),
            quiet,
            when_lost: "lost",
            objects: AtomicU64::new(0),
            troubles: AtomicU64::new(0),
            lost: None,
        }
    }

    /// One that remembers what is lost, for an answer in JSON.
    pub(crate) fn keeping_lost(quiet: bool, json: bool) -> Self {
        Self { lost: json.then(Mutex::default), ..Self::new(quiet) }
    }

    /// What was lost, if that is remembered.
    pub(crate) fn lost(&self) -> Vec<Value> {
        self.lost.as_ref().map_or_else(Vec::new, |lost| std::mem::take(&mut *lost.lock().expect("no panic holds this lock")))
    }

    /// For a command that restores. What it can't give back need not be lost: there may be a file in the way.
    pub(crate) fn of_restore(quiet: bool) -> Self {
        Self { when_lost: "not restored", ..Self::new(quiet) }
    }

    /// Whether anybody sees it.
    pub(crate) fn is_shown(&self) -> bool {
        !self.quiet && std::io::IsTerminal::is_terminal(&std::io::stderr())
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        self.bar().finish_and_clear();
    }

    fn bar(&self) -> std::sync::MutexGuard<'_, ProgressBar> {
        self.bar.lock().expect("no panic holds this lock")
    }
}

impl Watcher for Progress {
    fn stage(&self, what: &str, bytes: Option<u64>) {
        if !self.is_shown() {
            return;
        }
        let mut bar = self.bar();
        bar.finish_and_clear();
        let target = ProgressDrawTarget::stderr_with_hz(8);
        let (fresh, template) = match bytes {
            Some(bytes) => (
                ProgressBar::with_draw_target(Some(bytes), target),
                "{msg:22} [{bar:30}] {binary_bytes:>11}/{binary_total_bytes} {binary_bytes_per_sec:>13}  {eta} left {prefix}",
            ),
            None => {
                (ProgressBar::with_draw_target(None, target), "{msg:22} {spinner} {binary_bytes:>11} {binary_bytes_per_sec:>13} {prefix}")
            }
        };
        let style = ProgressStyle::with_template(template).expect("a good template").progress_chars("=> ");
        *bar = fresh.with_style(style).with_message(what.to_owned());
    }

    fn expect(&self, _objects: u64, bytes: u64) {
        let bar = self.bar();
        bar.set_length(bar.length().unwrap_or(0) + bytes);
    }

    fn done(&self, objects: u64, bytes: u64) {
        if self.quiet {
            return;
        }
        let objects_now = self.objects.fetch_add(objects, Ordering::Relaxed) + objects;
        let bar = self.bar();
        if objects > 0 && !bar.is_hidden() {
            bar.set_prefix(format!("{objects_now} objects"));
        }
        bar.inc(bytes);
    }

    fn trouble(&self, trouble: Trouble<'_>) {
        self.troubles.fetch_add(1, Ordering::Relaxed);
        let text = match trouble {
            Trouble::Unreadable { path, why } => format!("not stored: {}: {why}", text::path(path)),
            Trouble::Changed { path } => format!("changed while it was read: {}", text::path(path)),
            Trouble::Lost { name, version, why } => {
                if let Some(lost) = &self.lost {
                    let mut value = json!({ "name": name_json(name), "version": version, "why": why });
                    if std::str::from_utf8(&name.0).is_err() {
                        value["name_bytes"] = json!(name.0);
                    }
                    lost.lock().expect("no panic holds this lock").push(value);
                }
                format!("{}: {} (version {version}): {}", self.when_lost, name.display(), text::harmless(why))
            }
            Trouble::Note { text } => format!("note: {}", text::harmless(text)),
        };
        self.bar().suspend(|| eprintln!("{text}"));
    }
}
