//! `audit node remove` and `audit inventory remove`: what is gone on purpose.

use std::collections::HashSet;

use anyhow::{Context, Result};
use clap::Args;
use fulgurite_audit::copy::{FileId, NodeId};
use fulgurite_audit::database::CopyHistory;
use fulgurite_audit::report::bytes;
use serde_json::json;

use super::names::{List, each_file};
use super::{Opened, now, status};
use crate::{Outcome, Session, text};

/// Files that are printed; all are counted.
const MOST_PRINTED: usize = 100;

#[derive(Debug, Args)]
pub(super) struct Consent {
    /// Remove. Without this option, the command only tells what it would remove
    #[arg(long, requires = "reason")]
    apply: bool,
    /// Why, for the history
    #[arg(long, value_name = "TEXT", value_parser = parse_reason)]
    reason: Option<String>,
}

impl Consent {
    /// The reason, if something is to be removed.
    fn given(&self) -> Option<&str> {
        self.reason.as_deref().filter(|_| self.apply)
    }
}

const NOT_APPLIED: &str = "Nothing was removed. Repeat the command with --apply and --reason TEXT to remove this.";

#[derive(Debug, Args)]
pub(super) struct Copies {
    /// Names of files, as in the inventory
    #[arg(value_name = "NAME", required_unless_present = "files_from")]
    names: Vec<String>,
    #[command(flatten)]
    list: List,
    /// Remove only copies at this node; repeat the option for several. Default: all nodes
    #[arg(long = "node", value_name = "NAME")]
    nodes: Vec<String>,
    #[command(flatten)]
    consent: Consent,
}

fn parse_reason(text: &str) -> Result<String, &'static str> {
    let text = text.trim();
    if text.is_empty() { Err("the history needs a reason") } else { Ok(text.to_owned()) }
}

pub(super) fn node(session: &Session, opened: &mut Opened, name: &str, consent: &Consent) -> Result<Outcome> {
    let node = opened.node(name)?.clone();
    let copies = match consent.given() {
        Some(reason) => opened.database.remove_node(node.id, now(), reason)?,
        None => status::copies(&mut *opened.database, std::slice::from_ref(&node))?,
    };
    let would = if consent.apply { "Removed" } else { "Would remove" };
    let copies_text = text::phrase(copies, "copy", "copies");
    session.say(&format!(
        "{would} node {name} and its {copies_text} from the audit. Nothing is deleted at {}, and the history stays.",
        text::one_line(&node.place)
    ));
    if !consent.apply {
        session.say(NOT_APPLIED);
    }
    session.answer(|| json!({ "node": name, "copies": copies, "removed": consent.apply }));
    Ok(Outcome::Good)
}

pub(super) fn copies(session: &Session, opened: &mut Opened, asked: &Copies) -> Result<Outcome> {
    let nodes: Vec<NodeId> = opened.chosen(&asked.nodes)?.iter().map(|node| node.id).collect();
    let mut chosen: Vec<(NodeId, FileId)> = Vec::new();
    let mut lines = Vec::new();
    let mut seen = HashSet::new();
    let (mut files, mut last, mut absent, mut size) = (0, 0, 0, 0_u64);
    let selected = each_file(opened, &asked.names, &asked.list, |opened, name, file| {
        // A name may be given twice.
        if !seen.insert(file.file) {
            return Ok(());
        }
        let (gone, left): (Vec<_>, Vec<_>) = file.copies.iter().partition(|copy| nodes.contains(&copy.node));
        if gone.is_empty() {
            absent += 1;
            return Ok(());
        }
        files += 1;
        last += u64::from(left.is_empty());
        size = size.saturating_add(file.expected.bytes.unwrap_or(0).saturating_mul(gone.len() as u64));
        chosen.extend(gone.iter().map(|copy| (copy.node, file.file)));
        if lines.len() < MOST_PRINTED {
            let words = |copies: &[&CopyHistory]| {
                copies.iter().map(|copy| format!("{} ({})", opened.name(copy.node), copy.state)).collect::<Vec<_>>().join(", ")
            };
            let left = if left.is_empty() { "no copy is left".to_owned() } else { format!("left: {}", words(&left)) };
            lines.push(format!("{}: {}; {left}", text::one_line(name), words(&gone)));
        }
        Ok(())
    });
    selected.context("nothing was removed")?;
    lines.iter().for_each(|line| session.say(line));
    if files > MOST_PRINTED as u64 {
        session.say(&format!("and {}", text::count(files - MOST_PRINTED as u64, "more file")));
    }
    let copies = match asked.consent.given() {
        Some(reason) => opened.database.remove_copies(&chosen, now(), reason)?,
        None => chosen.len() as u64,
    };
    if chosen.is_empty() {
        session.say("None of these files has a copy there.");
    } else {
        let would = if asked.consent.apply { "Removed" } else { "Would remove" };
        let (copies, files) = (text::phrase(copies, "copy", "copies"), text::count(files, "file"));
        // Lengths may be unknown.
        let size = if size > 0 { format!(" ({})", bytes(size)) } else { String::new() };
        let left = if last > 0 { format!(" No copy is left of {}.", text::count(last, "file")) } else { String::new() };
        session.say(&format!("{would} {copies}{size} of {files} from the audit.{left}"));
        if !asked.consent.apply {
            session.say(NOT_APPLIED);
        }
    }
    session
        .answer(|| json!({ "copies": copies, "files": files, "without_copies": last, "absent": absent, "removed": asked.consent.apply }));
    Ok(Outcome::Good)
}
