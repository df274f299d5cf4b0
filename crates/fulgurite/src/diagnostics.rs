//! Messages on standard error: notes, problems with single items, and why a command failed.
//!
//! With `--json`, each message is one line of JSON. If the exit status isn't 0, the last line is
//! `{"error": …, "status": N}`; every other line has a member `kind`.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::outcome::Outcome;
use crate::text::harmless;

/// Set once, from the command line, before anything is written.
static JSON: AtomicBool = AtomicBool::new(false);
/// True if the last line written reports a failure.
static LAST_IS_FAILURE: AtomicBool = AtomicBool::new(false);

/// Selects JSON or text for all messages.
pub(crate) fn write_as_json(json: bool) {
    JSON.store(json, Ordering::Relaxed);
}

pub(crate) fn is_json() -> bool {
    JSON.load(Ordering::Relaxed)
}

/// Writes a line: `text` for people, `value` for programs.
pub(crate) fn write(text: &str, value: &Value) {
    LAST_IS_FAILURE.store(false, Ordering::Relaxed);
    // If standard error is closed, this error can't be reported anywhere.
    let _ = if is_json() { writeln!(std::io::stderr(), "{value}") } else { writeln!(std::io::stderr(), "{text}") };
}

pub(crate) fn note(text: &str) {
    let text = harmless(text);
    write(&format!("note: {text}"), &json!({ "kind": "note", "text": text }));
}

/// Reports a problem. The command continues, and ends with a status other than 0.
pub(crate) fn trouble(text: &str) {
    let text = harmless(text);
    write(&text, &json!({ "kind": "trouble", "text": text }));
}

/// Reports why the command failed, with its exit status.
pub(crate) fn failure(text: &str, outcome: Outcome) {
    let text = harmless(text);
    write(&format!("fulgurite: {text}"), &json!({ "error": text, "status": outcome.status() }));
    LAST_IS_FAILURE.store(true, Ordering::Relaxed);
}

/// With `--json`, writes the outcome as the last line, unless it is good or the last line already
/// reports a failure.
pub(crate) fn conclude(outcome: Outcome) {
    if let Some(reason) = outcome.reason().filter(|_| is_json() && !LAST_IS_FAILURE.load(Ordering::Relaxed)) {
        failure(reason, outcome);
    }
}
