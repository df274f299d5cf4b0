//! Progress bars on a terminal, with rate and time left, and problems as they occur.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use fulgurite_archive::catalogue::{Unlisted, UnlistedVersion};
use fulgurite_archive::watch::{Trouble, Watcher};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};

use crate::diagnostics;
use crate::list::name_value;
use crate::text;

/// Maximum number of changed names kept for JSON.
const REMEMBERED: usize = 100_000;

/// Shows progress on standard error, if that is a terminal.
pub(crate) struct Progress {
    bar: Mutex<ProgressBar>,
    quiet: bool,
    when_lost: &'static str,
    objects: AtomicU64,
    troubles: AtomicU64,
    /// Objects restored under another name, as JSON; at most [`REMEMBERED`].
    renamed: Mutex<Vec<Value>>,
    /// Lost versions as JSON, if they are collected.
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
            renamed: Mutex::default(),
            lost: None,
        }
    }

    /// Also collects lost versions, for a JSON answer.
    pub(crate) fn keeping_lost(quiet: bool, json: bool) -> Self {
        Self { lost: json.then(Mutex::default), ..Self::new(quiet) }
    }

    /// Takes the lost versions; empty if they are not collected.
    pub(crate) fn lost(&self) -> Vec<Value> {
        self.lost.as_ref().map_or_else(Vec::new, |lost| std::mem::take(&mut *lost.lock().expect("no panic holds this lock")))
    }

    /// Takes the objects restored under another name.
    pub(crate) fn renamed(&self) -> Vec<Value> {
        std::mem::take(&mut *self.renamed.lock().expect("no panic holds this lock"))
    }

    /// For commands that restore. An object that isn't restored need not be lost: a file may be in
    /// the way.
    pub(crate) fn of_restore(quiet: bool) -> Self {
        Self { when_lost: "not restored", ..Self::new(quiet) }
    }

    /// True if progress is visible.
    pub(crate) fn is_shown(&self) -> bool {
        !self.quiet && std::io::IsTerminal::is_terminal(&std::io::stderr())
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        self.bar().finish_and_clear();
    }

    /// The message for a version that can't be listed, as text and as JSON.
    fn unlisted(&self, version: &UnlistedVersion, key_is_back: bool) -> (String, Value) {
        let why = match version.why {
            Unlisted::NoKey if key_is_back => "its key is back; `fulgurite catalogue rebuild` lists it again",
            Unlisted::NoKey => "no key: `fulgurite keys import` brings keys back from a copy",
            Unlisted::UnreadableRecord => "its record can't be opened with its key",
            Unlisted::Incomplete => "only some of its bytes are left",
            Unlisted::Gone => "the catalogue knew it before it was rebuilt, and none of its bytes were found",
            Unlisted::UnreadableTable => "the file table of this platter can't be read, so what is on it is unknown",
            Unlisted::OutOfSight => "the parts found of it can't be read, and not every place could be read",
            Unlisted::UnseenStore => "this store was not read when the catalogue was rebuilt",
        };
        let mut value = match &version.known_as {
            Some((name, _)) => name_value(name),
            None => json!({}),
        };
        if let Some((_, number)) = &version.known_as {
            value["version"] = json!(number);
        }
        value["id"] = json!(version.id.to_string());
        value["stored_bytes"] = json!(version.stored_bytes);
        value["why"] = json!(why);
        let kind = if version.why == Unlisted::OutOfSight { "absent" } else { self.when_lost };
        if let Some(lost) = self.lost.as_ref().filter(|_| version.why != Unlisted::OutOfSight) {
            lost.lock().expect("no panic holds this lock").push(value.clone());
        }
        value["kind"] = json!(kind);
        let what = match &version.known_as {
            Some((name, number)) => format!("{} (version {number})", name.display()),
            None if version.why == Unlisted::UnreadableTable => format!("platter {}", version.id),
            None => format!("version {} ({})", version.id, text::bytes(version.stored_bytes)),
        };
        (format!("{kind}: {what}: {why}"), value)
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
            bar.set_prefix(text::count(objects_now, "object", "objects"));
        }
        bar.inc(bytes);
    }

    fn trouble(&self, trouble: Trouble<'_>) {
        self.troubles.fetch_add(1, Ordering::Relaxed);
        let (text, value) = match trouble {
            Trouble::Unreadable { path, why } => {
                let path = text::path(path);
                (format!("not stored: {path}: {why}"), json!({ "kind": "not stored", "path": path, "why": why }))
            }
            Trouble::Changed { path, attempts } => {
                let path = text::path(path);
                let why = format!("it changed each of the {attempts} times it was read");
                (format!("not stored: {path}: {why}"), json!({ "kind": "changed while it was read", "path": path, "why": why }))
            }
            Trouble::Renamed { name, version, path, why } => {
                let path = text::path(path);
                let mut value = name_value(name);
                value["version"] = json!(version);
                value["path"] = json!(path);
                value["why"] = json!(why);
                let mut renamed = self.renamed.lock().expect("no panic holds this lock");
                if renamed.len() < REMEMBERED {
                    renamed.push(value.clone());
                }
                drop(renamed);
                value["kind"] = json!("renamed");
                (format!("restored under another name: {} (version {version}) is {path}: {why}", name.display()), value)
            }
            Trouble::Unreachable { name, version, hindrance, why } => {
                let (kind, shown) = (hindrance.to_string(), name.display());
                let mut value = name_value(name);
                value["kind"] = json!(kind);
                value["version"] = json!(version);
                value["why"] = json!(why);
                (format!("{kind}: {shown} (version {version}): {}", text::harmless(why)), value)
            }
            Trouble::Lost { name, version, why } => {
                let mut value = name_value(name);
                value["version"] = json!(version);
                value["why"] = json!(why);
                if let Some(lost) = &self.lost {
                    lost.lock().expect("no panic holds this lock").push(value.clone());
                }
                value["kind"] = json!(self.when_lost);
                (format!("{}: {} (version {version}): {}", self.when_lost, name.display(), text::harmless(why)), value)
            }
            Trouble::Unlisted { version, key_is_back } => self.unlisted(version, key_is_back),
            Trouble::Note(text) => (format!("note: {}", text::harmless(text)), json!({ "kind": "note", "text": text })),
        };
        self.bar().suspend(|| diagnostics::write(&text, &value));
    }
}
