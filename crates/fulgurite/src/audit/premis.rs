//! `audit export --format premis-…`: the history as a PREMIS document.
//!
//! ```text
//! copies that have events, one pass ──> objects
//! events, a second pass             ──> events     up to the last event before the first pass
//! ```
//!
//! An identifier depends only on what is stored of the event or the copy, so two exports can be
//! merged.

use std::io::Write;

use anyhow::{Result, bail};
use fulgurite_audit::copy::{Method, State};
use fulgurite_audit::database::{Event, EventKind, Subject};
use fulgurite_digest::Digest;
use fulgurite_premis::{EventType, FileObject, Identifier, Link, ObjectRole, Outcome, Timestamp};

use super::Opened;
use crate::premis::{Document, Form, fixity, program, uuid};

const PAGE: usize = 10_000;
/// The last second of the year 9999, in seconds since 1970.
const END_OF_9999: i64 = 253_402_300_799;
/// The history doesn't store which version of the program did what.
const AGENT_NOTE: &str = "agentVersion is the version that wrote this document; earlier versions may have caused some of its events";

pub(super) fn export<W: Write>(opened: &mut Opened, form: Form, since: u64, out: W) -> Result<W> {
    let last = opened.database.last_event()?;
    // Events up to that one may be of nodes that were added since.
    opened.read_nodes()?;
    if last <= since && form == Form::Xml {
        bail!("no event comes after event {since}, and a PREMIS document in XML needs at least one object");
    }
    let mut document = Document::begin(form, out)?;
    let mut after = since;
    'objects: loop {
        let page = opened.database.subjects(since, after, PAGE)?;
        let Some((number, _)) = page.last() else { break };
        after = *number;
        for (number, subject) in &page {
            if *number > last {
                break 'objects;
            }
            document.object(&object(opened.name(subject.node), subject))?;
        }
    }
    let mut after = since;
    'events: loop {
        let page = opened.database.events(after, PAGE)?;
        let Some((event, _)) = page.last() else { break };
        after = event.event;
        for (event, name) in &page {
            if event.event > last {
                break 'events;
            }
            document.event(&described(opened.name(event.node), event, name))?;
        }
    }
    Ok(document.finish(Some(AGENT_NOTE))?)
}

/// A copy, by the names of its node and file.
fn identifier(node: &str, name: &str) -> Identifier {
    Identifier::new("copy", format!("{node}/{name}"))
}

fn object(node: &str, subject: &Subject) -> FileObject {
    FileObject {
        identifier: identifier(node, &subject.name),
        fixity: subject.expected.digests.iter().map(|digest| fixity(digest.algorithm(), Digest::hex(digest))).collect(),
        // The schema's numbers end there, and an inventory may state anything.
        bytes: subject.expected.bytes.filter(|bytes| i64::try_from(*bytes).is_ok()),
        format: None,
        original_name: Some(subject.name.clone()),
        location: Some(Identifier::new(format!("location at the node {node}"), subject.location.clone())),
    }
}

fn described(node: &str, event: &Event, name: &str) -> fulgurite_premis::Event {
    let (kind, outcome) = meaning(event);
    let [number, at, bytes] = [event.event, event.at, event.bytes].map(|number| number.to_string());
    let stream = event.stream.as_micros().to_string();
    let role = if kind == EventType::Recovery { ObjectRole::Outcome } else { ObjectRole::Source };
    let mut note = event.kind.name().to_owned();
    if !event.detail.is_empty() {
        note += &format!(": {}", event.detail);
    }
    fulgurite_premis::Event {
        identifier: uuid(&[&number, node, name, &at, event.kind.name(), event.method.name(), &bytes, &stream, &event.detail]),
        kind,
        // A clock may have been wrong by any time, and PREMIS has no later one.
        time: Timestamp { seconds: i64::try_from(event.at).unwrap_or(i64::MAX).min(END_OF_9999), nanos: 0 },
        detail: Some(format!("event {} of the audit: {}", event.event, how(event))),
        outcome,
        outcome_detail: Some(note),
        agents: vec![program()],
        objects: vec![Link { object: identifier(node, name), role }],
    }
}

/// The type of an event in PREMIS's vocabulary, and how it ended.
fn meaning(event: &Event) -> (EventType, Outcome) {
    match event.kind {
        EventKind::Checked(State::Verified) | EventKind::SourceVerified => (EventType::FixityCheck, Outcome::Success),
        EventKind::VerifiedAfterDispute => (EventType::FixityCheck, Outcome::Warning),
        EventKind::Checked(State::Unverified) => (EventType::MessageDigestCalculation, Outcome::Success),
        // No bytes were read, so no fixity was checked.
        EventKind::Checked(State::HeaderChecked | State::ProviderAttested) => (EventType::Validation, Outcome::Success),
        EventKind::LengthUnknown => (EventType::Validation, Outcome::Warning),
        EventKind::Checked(State::Missing | State::SizeMismatch | State::Unavailable) if event.method != Method::Stream => {
            (EventType::Validation, Outcome::Fail)
        }
        EventKind::Checked(State::Missing | State::SizeMismatch | State::DigestMismatch | State::Unavailable)
        | EventKind::SourceRejected => (EventType::FixityCheck, Outcome::Fail),
        EventKind::ExpectationReplaced => (EventType::MetadataModification, Outcome::Success),
        EventKind::Repaired => (EventType::Recovery, Outcome::Success),
        EventKind::RepairFailed => (EventType::Recovery, Outcome::Fail),
        EventKind::Removed => (EventType::Deaccession, Outcome::Success),
    }
}

fn how(event: &Event) -> String {
    match (event.kind, event.method) {
        (EventKind::Repaired, _) => "the copy is rewritten from a copy that was verified just before".into(),
        (EventKind::RepairFailed, _) => "the copy couldn't be rewritten from a copy that was verified just before".into(),
        (EventKind::Removed, _) => "the copy is removed from the inventory; nothing is deleted at the node".into(),
        (EventKind::ExpectationReplaced, _) => "an inventory replaces what the copy should contain".into(),
        (EventKind::Checked(State::Unavailable), _) => "the copy couldn't be read, so nothing is known about it".into(),
        (EventKind::SourceVerified | EventKind::SourceRejected, _) => "the copy is read for the repair of another one".into(),
        (EventKind::Checked(State::Missing), _) => "the node states that the copy doesn't exist, and shows other copies".into(),
        (EventKind::Checked(State::Unverified), _) => "the digest is computed from all bytes for the first time".into(),
        (EventKind::Checked(State::SizeMismatch), Method::Stream) => "all bytes are read, and their number isn't the expected one".into(),
        (_, Method::Stream) => "all bytes are read and compared with the expected digest".into(),
        (_, method) => format!("the bytes are not read; method {}", method.name()),
    }
}
