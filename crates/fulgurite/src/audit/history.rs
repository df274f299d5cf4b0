//! `audit history`: all copies of a file and everything that happened to them.

use anyhow::Result;
use fulgurite_audit::copy::State;
use fulgurite_audit::database::{CopyHistory, Event, RemovedCopy};
use fulgurite_audit::report::bytes;
use fulgurite_digest::Digest;
use serde_json::{Value, json};

use super::{Opened, date};
use crate::outcome::Incomplete;
use crate::{Outcome, Session, text};

pub(super) fn history(session: &Session, opened: &mut Opened, name: &str) -> Result<Outcome> {
    let Some(file) = opened.database.history(name)? else {
        return Err(Incomplete { text: format!("no inventory has listed {}", text::one_line(name)), outcome: Outcome::Troubled }.into());
    };
    let digests = file.expected.digests.iter().map(|digest| format!("{digest:?}")).collect::<Vec<_>>();
    let length = file.expected.bytes.map_or_else(|| "unknown length".to_owned(), |bytes| format!("{bytes} bytes"));
    session.say(&format!(
        "{}: {length}, {}",
        text::one_line(name),
        if digests.is_empty() { "no digest is known".to_owned() } else { digests.join(", ") }
    ));
    for copy in &file.copies {
        session.say(&header(opened.name(copy.node), name, copy));
        for event in &copy.events {
            session.say(&format!("    {}", line(event)));
        }
    }
    for copy in &file.removed {
        let location = located(name, &copy.location);
        session.say(&format!("  {}{location}: removed{}", opened.name(copy.node), removed_at(copy)));
        for event in &copy.events {
            session.say(&format!("    {}", line(event)));
        }
    }
    session.answer(|| {
        json!({
            "name": name,
            "bytes": file.expected.bytes,
            "digests": file.expected.digests.iter().map(|digest| (digest.algorithm().name(), Digest::hex(digest))).collect::<std::collections::BTreeMap<_, _>>(),
            "copies": file.copies.iter().map(|copy| copy_json(opened.name(copy.node), copy)).collect::<Vec<_>>(),
            "removed": file.removed.iter().map(|copy| removed_json(opened.name(copy.node), copy)).collect::<Vec<_>>(),
        })
    });
    let outcome = file.copies.iter().map(|copy| match copy.state {
        state if state.is_bad() => Outcome::Troubled,
        State::Unavailable => Outcome::Unreadable,
        State::Unverified => Outcome::Absent,
        _ => Outcome::Good,
    });
    Ok(outcome.fold(Outcome::Good, Outcome::worst))
}

fn header(node: &str, name: &str, copy: &CopyHistory) -> String {
    let verified = copy.verified_at.map_or_else(|| "never verified".to_owned(), |at| format!("last verified {}", date(at)));
    let location = located(name, &copy.location);
    let due = if copy.due_at < super::now() { "due now".to_owned() } else { format!("due {}", date(copy.due_at)) };
    format!("  {node}{location}: {}, {verified}, {due}", copy.state)
}

fn located(name: &str, location: &str) -> String {
    if location == name { String::new() } else { format!(" at {}", text::one_line(location)) }
}

fn removed_at(copy: &RemovedCopy) -> String {
    copy.events.first().map_or_else(String::new, |event| format!(" {}", date(event.at)))
}

fn line(event: &Event) -> String {
    let mut line = format!("{}  {}", date(event.at), event.kind.name());
    if event.bytes > 0 {
        line += &format!(", {} in {} ms", bytes(event.bytes), event.stream.as_millis());
    }
    if !event.detail.is_empty() {
        line += &format!(": {}", text::one_line(&event.detail));
    }
    line
}

fn copy_json(node: &str, copy: &CopyHistory) -> Value {
    json!({
        "node": node,
        "location": copy.location,
        "state": copy.state.name(),
        "verified_at": copy.verified_at,
        "due_at": copy.due_at,
        "events": copy.events.iter().map(event_json).collect::<Vec<_>>(),
    })
}

fn removed_json(node: &str, copy: &RemovedCopy) -> Value {
    json!({
        "node": node,
        "location": copy.location,
        "removed_at": copy.events.first().map(|event| event.at),
        "events": copy.events.iter().map(event_json).collect::<Vec<_>>(),
    })
}

pub(super) fn event_json(event: &Event) -> Value {
    json!({
        "event": event.event,
        "at": event.at,
        "kind": event.kind.name(),
        "method": event.method.name(),
        "bytes": event.bytes,
        "stream_us": event.stream.as_micros() as u64,
        "detail": event.detail,
    })
}
