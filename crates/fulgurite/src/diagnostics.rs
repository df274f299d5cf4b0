//! What goes to standard error: notes, troubles with single things, and why a command failed.
//!
//! With `--json` each is one line of JSON, so that a program can tell them apart: `{"error": …, "status": N}` is the last line of a command
//! that ends with another exit status than 0; every other line has a member `kind`.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::outcome::Outcome;
use crate::text::harmless;

/// Set once, from the command line, before anything is written.
static JSON: AtomicBool = AtomicBool::new(false);
/// Whether the last line was that of a failure.
static ENDED: AtomicBool = AtomicBool::new(false);

pub(crate) fn write_as_json(json: bool) {
    JSON.store(json, Ordering::Relaxed);
}

pub(crate) fn is_json() -> bool {
    JSON.load(Ordering::Relaxed)
}

/// Writes a line: `text` for people, `value` for programs.
pub(crate) fn write(text: &str, value: &Value) {
    ENDED.store(false, Ordering::Relaxed);
    // Where standard error is closed, there is nowhere left to say so.
    let _ = if is_json() { writeln!(std::io::stderr(), "{value}") } else { writeln!(std::io::stderr(), "{text}") };
}

/// Something that a person should know; nothing failed.
pub(crate) fn note(text: &str) {
    let text = harmless(text);
    write(&format!("note: {text}"), &json!({ "kind": "note", "text": text }));
}

/// Something went wrong; the command goes on, and ends with another status than 0.
pub(crate) fn trouble(text: &str) {
    let text = harmless(text);
    write(&text, &json!({ "kind": "trouble", "text": text }));
}

/// Why a command failed.
pub(crate) fn failure(text: &str, outcome: Outcome) {
    let text = harmless(text);
    write(&format!("fulgurite: {text}"), &json!({ "error": text, "status": outcome.status() }));
    ENDED.store(true, Ordering::Relaxed);
}

/// Ends what is told to a program with the outcome, if that isn't good and no failure was told.
pub(crate) fn conclude(outcome: Outcome) {
    if let Some(reason) = outcome.reason().filter(|_| is_json() && !ENDED.load(Ordering::Relaxed)) {
        failure(reason, outcome);
    }
}
