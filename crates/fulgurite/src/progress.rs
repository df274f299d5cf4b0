//! Shows progress bars on a terminal, prints problems as they occur, and collects items for JSON
//! answers.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use fulgurite_archive::PutOutcome;
use fulgurite_archive::catalogue::{Unlisted, UnlistedVersion};
use fulgurite_archive::watch::{Trouble, Watcher};
use fulgurite_domain::ObjectName;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};

use crate::diagnostics;
use crate::list::name_value;
use crate::premis::{Deed, Provenance, Subject};
use crate::text;

/// Said once by a command that waits for a cheap hour.
const WAITS: &str = "waiting for an hour in which decoding is cheap, or for clients' reads, as `prices` and `verification_wait_h` below [decode] \
     in fulgurite.toml demand; until then, other \
     commands can't change the archive; Ctrl-C ends this one";

/// Shows progress on standard error, if that is a terminal.
pub(crate) struct Progress {
    bar: Mutex<ProgressBar>,
    quiet: bool,
    /// The kind of message for a lost version.
    when_lost: &'static str,
    mutes_losses: AtomicBool,
    /// Whether it was said that the command waits.
    told_to_wait: AtomicBool,
    /// Objects done so far.
    objects: AtomicU64,
    /// Acknowledged versions, as JSON; at most [`PutOutcome::UNSTORED_MAX`], as in the next two
    /// lists.
    stored: Mutex<Vec<Value>>,
    /// Paths that could not be stored, with the reason.
    not_stored: Mutex<Vec<Value>>,
    /// All of these paths, if an import wants to know them.
    missed: Option<Mutex<Vec<PathBuf>>>,
    /// Objects restored under another name.
    renamed: Mutex<Vec<Value>>,
    /// Takes acknowledged versions, for a PREMIS document.
    provenance: Option<Arc<Provenance>>,
    /// Lost versions as JSON, if they are collected.
    lost: Option<Mutex<Vec<Value>>>,
}

impl Progress {
    pub(crate) fn new(quiet: bool) -> Self {
        Self {
            bar: Mutex::new(ProgressBar::hidden()),
            quiet,
            when_lost: "lost",
            mutes_losses: AtomicBool::new(false),
            told_to_wait: AtomicBool::new(false),
            objects: AtomicU64::new(0),
            stored: Mutex::default(),
            not_stored: Mutex::default(),
            missed: None,
            renamed: Mutex::default(),
            provenance: None,
            lost: None,
        }
    }

    /// For an import, which may describe what it does.
    pub(crate) fn of_import(quiet: bool, provenance: Option<Arc<Provenance>>) -> Self {
        Self { provenance, missed: Some(Mutex::default()), ..Self::new(quiet) }
    }

    /// Also collects lost versions, for a JSON answer.
    pub(crate) fn keeping_lost(quiet: bool, json: bool) -> Self {
        Self { lost: json.then(Mutex::default), ..Self::new(quiet) }
    }

    /// For commands that restore. An object that isn't restored need not be lost: a file may be in
    /// the way.
    pub(crate) fn of_restore(quiet: bool) -> Self {
        Self { when_lost: "not restored", ..Self::new(quiet) }
    }

    /// Stops or resumes printing and collecting versions that are lost or can't be read at present.
    pub(crate) fn mute_losses(&self, mute: bool) {
        self.mutes_losses.store(mute, Ordering::Relaxed);
    }

    pub(crate) fn take_stored(&self) -> Vec<Value> {
        std::mem::take(&mut lock(&self.stored))
    }

    pub(crate) fn take_not_stored(&self) -> Vec<Value> {
        std::mem::take(&mut lock(&self.not_stored))
    }

    /// The paths that an import could not store since the last call.
    pub(crate) fn take_missed(&self) -> Vec<PathBuf> {
        self.missed.as_ref().map_or_else(Vec::new, |missed| std::mem::take(&mut lock(missed)))
    }

    pub(crate) fn take_renamed(&self) -> Vec<Value> {
        std::mem::take(&mut lock(&self.renamed))
    }

    pub(crate) fn take_lost(&self) -> Vec<Value> {
        self.lost.as_ref().map_or_else(Vec::new, |lost| std::mem::take(&mut lock(lost)))
    }

    pub(crate) fn is_shown(&self) -> bool {
        !self.quiet && std::io::IsTerminal::is_terminal(&std::io::stderr())
    }

    pub(crate) fn finish(&self) {
        lock(&self.bar).finish_and_clear();
    }

    fn keep_lost(&self, value: &Value) {
        if let Some(lost) = &self.lost {
            lock(lost).push(value.clone());
        }
    }

    /// The message for a version that can't be listed: its kind, as text and as JSON.
    fn unlisted(&self, version: &UnlistedVersion, is_back: bool) -> (String, String, Value) {
        let why: Cow<'_, str> = match version.why {
            Unlisted::NoKey if is_back => "its key is back; `fulgurite catalogue rebuild` lists it again".into(),
            Unlisted::NoKey => "no key: `fulgurite keys import` brings keys back from a copy".into(),
            Unlisted::UnreadableRecord => "its record can't be opened with its key".into(),
            Unlisted::Incomplete if version.damaged_segment().is_some() => format!(
                "versions that no catalogue lists may be lost in its damaged places; puts that a crash cut short leave such places, too. It \
                 is kept until you run `fulgurite catalogue forget {}`",
                version.id
            )
            .into(),
            Unlisted::Incomplete => {
                format!("only some of its bytes are left; `fulgurite catalogue forget {}` gives it up", version.id).into()
            }
            Unlisted::Gone => "the catalogue knew it before it was rebuilt, and none of its bytes were found".into(),
            Unlisted::UnreadableTable if is_back => {
                "its file table can be read again; `fulgurite catalogue rebuild` lists what is on it".into()
            }
            Unlisted::UnreadableTable => "the file table of this platter can't be read, so what is on it is unknown".into(),
            Unlisted::OutOfSight => "the parts found of it can't be read, and not every place could be read".into(),
            Unlisted::UnseenStore => "this store was not read when the catalogue was rebuilt".into(),
        };
        let mut value = version.known_as.as_ref().map_or_else(|| json!({}), |(name, number)| version_value(name, *number));
        value["id"] = json!(version.id.to_string());
        value["stored_bytes"] = json!(version.stored_bytes);
        value["why"] = json!(why);
        let what = match &version.known_as {
            Some((name, number)) => format!("{} (version {number})", name.display()),
            None if version.why == Unlisted::UnreadableTable => format!("platter {}", version.id),
            None if let Some(segment) = version.damaged_segment() => format!("staging segment {segment:016x}"),
            None => format!("version {} ({})", version.id, text::bytes(version.stored_bytes)),
        };
        let kind = if version.why == Unlisted::OutOfSight {
            "absent"
        } else if is_back {
            "unlisted"
        } else {
            self.keep_lost(&value);
            self.when_lost
        };
        (kind.to_owned(), format!("{kind}: {what}: {why}"), value)
    }

    /// The message for a path that is not stored, which is also collected.
    fn missed(&self, kind: &str, path: &Path, why: &str) -> (String, String, Value) {
        if let Some(missed) = &self.missed {
            lock(missed).push(path.to_owned());
        }
        let path = text::path(path);
        let value = json!({ "path": path, "why": why });
        remember(&self.not_stored, &value);
        (kind.to_owned(), format!("not stored: {path}: {why}"), value)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nothing panics while it holds this lock")
}

fn remember(list: &Mutex<Vec<Value>>, value: &Value) {
    let mut list = lock(list);
    if list.len() < PutOutcome::UNSTORED_MAX {
        list.push(value.clone());
    }
}

fn version_value(name: &ObjectName, version: u64) -> Value {
    let mut value = name_value(name);
    value["version"] = json!(version);
    value
}

impl Watcher for Progress {
    fn stage(&self, what: &str, bytes: Option<u64>) {
        if !self.is_shown() {
            return;
        }
        let template = match bytes {
            Some(_) => "{msg:22} [{bar:30}] {binary_bytes:>11}/{binary_total_bytes} {binary_bytes_per_sec:>13}  {eta} left {prefix}",
            None => "{msg:22} {spinner} {binary_bytes:>11} {binary_bytes_per_sec:>13} {prefix}",
        };
        let style = ProgressStyle::with_template(template).expect("a good template").progress_chars("=> ");
        let mut bar = lock(&self.bar);
        bar.finish_and_clear();
        let fresh = ProgressBar::with_draw_target(bytes, ProgressDrawTarget::stderr_with_hz(8));
        *bar = fresh.with_style(style).with_message(what.to_owned());
    }

    fn expect(&self, _objects: u64, bytes: u64) {
        let bar = lock(&self.bar);
        bar.set_length(bar.length().unwrap_or(0) + bytes);
    }

    fn done(&self, objects: u64, bytes: u64) {
        if self.quiet {
            return;
        }
        let objects_now = self.objects.fetch_add(objects, Ordering::Relaxed) + objects;
        let bar = lock(&self.bar);
        if objects > 0 && !bar.is_hidden() {
            bar.set_prefix(text::count(objects_now, "object"));
        }
        bar.inc(bytes);
    }

    fn waits(&self) {
        if !self.told_to_wait.swap(true, Ordering::Relaxed) {
            self.trouble(Trouble::Note(WAITS));
        }
    }

    fn stored(&self, name: &ObjectName, version: u64) {
        remember(&self.stored, &version_value(name, version));
        if let Some(provenance) = &self.provenance {
            let subject = Subject::Stored { name: name.0.clone(), version };
            provenance.note(subject, Deed::Ingestion, true, "the archive has stored it, and computed its SHA-256");
        }
    }

    fn trouble(&self, trouble: Trouble<'_>) {
        let is_loss = matches!(trouble, Trouble::Lost { .. } | Trouble::Unreachable { .. });
        if is_loss && self.mutes_losses.load(Ordering::Relaxed) {
            return;
        }
        let (kind, text, mut value) = match trouble {
            Trouble::Unreadable { path, why } => self.missed("not stored", path, why),
            Trouble::Changed { path, attempts } => {
                self.missed("changed while it was read", path, &format!("it changed each of the {attempts} times it was read"))
            }
            Trouble::Renamed { name, version, path, why } => {
                let path = text::path(path);
                let mut value = version_value(name, version);
                value["path"] = json!(path);
                value["why"] = json!(why);
                remember(&self.renamed, &value);
                let text = format!("restored under another name: {} (version {version}) is {path}: {why}", name.display());
                ("renamed".to_owned(), text, value)
            }
            Trouble::Lost { name, version, why } | Trouble::Unreachable { name, version, why, .. } => {
                let mut value = version_value(name, version);
                value["why"] = json!(why);
                let kind = match trouble {
                    Trouble::Unreachable { hindrance, .. } => hindrance.to_string(),
                    _ => {
                        self.keep_lost(&value);
                        self.when_lost.to_owned()
                    }
                };
                let text = format!("{kind}: {} (version {version}): {}", name.display(), text::harmless(why));
                (kind, text, value)
            }
            Trouble::Unlisted { version, is_back } => self.unlisted(version, is_back),
            Trouble::Note(text) => ("note".to_owned(), format!("note: {}", text::harmless(text)), json!({ "text": text })),
        };
        value["kind"] = json!(kind);
        lock(&self.bar).suspend(|| diagnostics::write(&text, &value));
    }
}
