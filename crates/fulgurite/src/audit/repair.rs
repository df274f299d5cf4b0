//! `audit repair`: rewrites bad copies from good ones.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use fulgurite_audit::copy::{NodeId, State};
use fulgurite_audit::repair::{Outcome as Repaired, Repair as Engine, Site};
use fulgurite_audit::run::SystemClock;
use fulgurite_places::Place;
use serde_json::json;

use super::names::{List, each_file, no_copy_here};
use super::{Opened, place, status};
use crate::{Outcome, Session, text};

#[derive(Debug, Args)]
pub(super) struct Repair {
    /// Write. Without this option, the command only tells what it would do
    #[arg(long)]
    apply: bool,
    /// Take a digest for right that is known only from a reading of one copy. Without this option,
    /// such a file is repaired only if another copy has the same digest
    #[arg(long)]
    trust_recorded: bool,
    /// Repair only copies of this node; repeat the option for several
    #[arg(long = "node", value_name = "NAME")]
    nodes: Vec<String>,
    /// Repair only copies of this file; repeat the option for several
    #[arg(long = "file", value_name = "NAME")]
    files: Vec<String>,
    /// Folder for the copy that is being moved. Default: the system's temporary folder
    #[arg(long, value_name = "FOLDER")]
    spool: Option<PathBuf>,
}

pub(super) fn repair(session: &Session, opened: &mut Opened, repair: &Repair) -> Result<Outcome> {
    // Copies that no list has named yet may be lost or wrong.
    let imports = opened.database.unfinished_imports()?;
    let targets: Vec<NodeId> = opened.chosen(&repair.nodes)?.iter().map(|node| node.id).collect();
    check_files(opened, &repair.files, &targets).context("nothing was repaired")?;
    for node in status::never_found(&mut *opened.database, &opened.nodes)? {
        if targets.contains(&node) {
            session.warn(&status::never_found_hint(opened.name(node)));
        }
    }
    let places: Vec<(NodeId, String, Box<dyn Place>)> =
        opened.nodes.iter().map(|node| Ok((node.id, node.name.clone(), place(node)?))).collect::<Result<_>>()?;
    let sites: Vec<Site<'_>> = places.iter().map(|(node, name, place)| Site { node: *node, name, place: &**place }).collect();
    let spool = repair.spool.clone().unwrap_or_else(std::env::temp_dir);
    let clock = SystemClock::default();
    let engine = Engine { sites: &sites, spool: &spool, apply: repair.apply, trusts_recorded: repair.trust_recorded, clock: &clock };
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    let mut outcome = Outcome::Good;
    // A copy may become wrong in another way meanwhile, and be listed again.
    let mut tried = HashSet::new();
    for state in [State::Missing, State::SizeMismatch, State::DigestMismatch] {
        let mut after = None;
        // One page is read whole before its copies change state.
        loop {
            let page = opened.database.problems(state, after, 500)?;
            let Some(last) = page.last() else { break };
            after = Some((last.node, last.file));
            for problem in page {
                let is_named = repair.files.is_empty() || repair.files.contains(&problem.name);
                if !is_named || !targets.contains(&problem.node) || !tried.insert((problem.node, problem.file)) {
                    continue;
                }
                let file = opened.database.history(&problem.name)?.context("the file is gone from the database")?;
                let result = engine.repair(&mut *opened.database, &problem.name, &file, problem.node)?;
                let (word, detail) = words(opened, &result);
                *counts.entry(word).or_default() += 1;
                let is_good = matches!(result, Repaired::Repaired { .. } | Repaired::AlreadyGood);
                outcome = outcome.worst(Outcome::troubled_if(!is_good));
                session.warn(&format!("{}: {}: {word}{detail}", opened.name(problem.node), text::one_line(&problem.name)));
                session.answer(|| json!({ "node": opened.name(problem.node), "name": problem.name, "outcome": word, "detail": detail.trim_start_matches([':', ' ']) }));
            }
        }
    }
    let unreadable = unreadable(opened, &targets, &repair.files)?;
    if unreadable > 0 {
        let copies = text::phrase(unreadable, "copy", "copies");
        session.warn(&format!("{copies} could not be read, so that nothing is known of them: `fulgurite audit problems` says why."));
        session.answer(|| json!({ "unreadable": unreadable }));
        outcome = outcome.worst(Outcome::Unreadable);
    }
    outcome = outcome.worst(status::unfinished(session, &imports));
    if counts.is_empty() && unreadable == 0 && imports.is_empty() {
        session.say(&format!("Nothing to repair: no copy{} is known to be lost or wrong.", limits(repair)));
    } else if !repair.apply && counts.contains_key("repairable") {
        session.say("Nothing was written. Repeat the command with --apply to repair these copies.");
    }
    Ok(outcome)
}

/// Fails if a file is unknown or has no copy at these nodes.
fn check_files(opened: &mut Opened, files: &[String], nodes: &[NodeId]) -> Result<()> {
    if files.is_empty() {
        return Ok(());
    }
    each_file(opened, files, &List { files_from: None }, |_, name, file| match file.copies.iter().any(|copy| nodes.contains(&copy.node)) {
        true => Ok(()),
        false => Err(no_copy_here(name)),
    })
}

/// The files and nodes to which the command is limited, after the word "copy".
fn limits(repair: &Repair) -> String {
    let files = match &*repair.files {
        [] => String::new(),
        [file] => format!(" of {}", text::one_line(file)),
        _ => " of these files".into(),
    };
    let nodes = match &*repair.nodes {
        [] => String::new(),
        [node] => format!(" at {node}"),
        _ => " at these nodes".into(),
    };
    files + &nodes
}

/// Copies that couldn't be read at some nodes, of some files or of all.
fn unreadable(opened: &mut Opened, nodes: &[NodeId], files: &[String]) -> Result<u64> {
    let is_one = |state: State, node: NodeId| state == State::Unavailable && nodes.contains(&node);
    if files.is_empty() {
        let totals = opened.database.totals()?;
        return Ok(totals.iter().filter(|total| is_one(total.state, total.node)).map(|total| total.copies).sum());
    }
    let mut count = 0;
    for name in files {
        let Some(file) = opened.database.history(name)? else { continue };
        count += file.copies.iter().filter(|copy| is_one(copy.state, copy.node)).count() as u64;
    }
    Ok(count)
}

fn words(opened: &Opened, result: &Repaired) -> (&'static str, String) {
    match result {
        Repaired::Repaired { from } => ("repaired", format!(" from the copy at {}, and verified", opened.name(*from))),
        Repaired::AlreadyGood => ("good", ": it verifies now".into()),
        Repaired::Repairable { from } => ("repairable", format!(" from the copy at {}", opened.name(*from))),
        Repaired::Impossible(obstacle) => ("not repaired", format!(": {}", text::one_line(&obstacle.to_string()))),
        Repaired::NotVerified { from, finding } => {
            ("rewritten but not verified", format!(" from the copy at {}: {}", opened.name(*from), finding.state()))
        }
    }
}
