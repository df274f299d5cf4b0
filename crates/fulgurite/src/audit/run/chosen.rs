//! `audit run --file`: checks the copies of some files now.

use std::collections::HashSet;
use std::sync::Arc;

use anyhow::{Context, Result};
use fulgurite_audit::copy::State;
use fulgurite_audit::database::CopyHistory;
use fulgurite_audit::node::Node;
use fulgurite_audit::run::{Chosen, Stop, SystemClock, Target, run_files};
use fulgurite_places::Place;

use super::super::names::{each_file, no_copy_here};
use super::super::{Opened, place, status};
use super::{MOST_PRINTED, Reporter, Run, line, stop_on_signals, to_json};
use crate::{Outcome, Session, text};

pub(super) fn run(session: &Session, opened: &mut Opened, run: &Run, nodes: &[Node]) -> Result<Outcome> {
    let (names, chosen) = choose(opened, run, nodes).context("nothing was checked")?;
    let nodes: Vec<Node> = nodes.iter().filter(|node| chosen.contains_key(&node.id)).cloned().collect();
    let places: Vec<Box<dyn Place>> = nodes.iter().map(place).collect::<Result<_>>()?;
    let targets: Vec<Target<'_>> = nodes.iter().zip(&places).map(|(node, place)| Target { node: node.clone(), place: &**place }).collect();
    let stop = Arc::new(Stop::default());
    stop_on_signals(Arc::clone(&stop), run.time)?;
    let copies = chosen.values().map(|files| files.len() as u64).sum();
    let mut reporter = Reporter::new(session, &nodes, copies, run.log_json);
    let summaries = run_files(&mut *opened.database, &targets, &chosen, &stop, &SystemClock::default(), &mut reporter)?;
    reporter.finish();
    let mut outcome = Outcome::Good;
    for (node, summary) in nodes.iter().zip(&summaries) {
        session.say(&line(node, summary));
        session.answer(|| to_json(node, summary));
        let unchecked = (chosen[&node.id].len() as u64).saturating_sub(summary.checks());
        if unchecked > 0 {
            let why = if stop.is_stopped() || summary.given_up.is_some() { "" } else { ": another worker is checking them" };
            session.warn(&format!("{}: {} not checked{why}", node.name, text::phrase(unchecked, "copy was", "copies were")));
            outcome = outcome.worst(Outcome::Absent);
        }
    }
    Ok(outcome.worst(standing(session, opened, &names, &nodes)?))
}

/// The names of the files, each once, and their copies at these nodes.
fn choose(opened: &mut Opened, run: &Run, nodes: &[Node]) -> Result<(Vec<String>, Chosen)> {
    let (mut names, mut chosen, mut seen) = (Vec::new(), Chosen::new(), HashSet::new());
    each_file(opened, &run.files, &run.list, |_, name, file| {
        if !seen.insert(file.file) {
            return Ok(());
        }
        let mut has_copy = false;
        for copy in file.copies.iter().filter(|copy| nodes.iter().any(|node| node.id == copy.node)) {
            chosen.entry(copy.node).or_default().push(file.file);
            has_copy = true;
        }
        if !has_copy {
            return Err(no_copy_here(name));
        }
        names.push(name.to_owned());
        Ok(())
    })?;
    Ok((names, chosen))
}

/// The exit status of what is known of these copies now. Names those that were neither found right
/// nor printed before.
fn standing(session: &Session, opened: &mut Opened, names: &[String], nodes: &[Node]) -> Result<Outcome> {
    let (mut outcome, mut printed) = (Outcome::Good, 0);
    for name in names {
        let Some(file) = opened.database.history(name)? else { continue };
        for copy in &file.copies {
            let Some(node) = nodes.iter().find(|node| node.id == copy.node) else { continue };
            let found = status::outcome_of_copy(copy.state, node.rules.method);
            outcome = outcome.worst(found);
            if found != Outcome::Good && !copy.state.is_bad() && printed < MOST_PRINTED {
                printed += 1;
                session.warn(&format!("{}: {}: {}{}", node.name, text::one_line(name), copy.state, detail(copy)));
            }
        }
    }
    Ok(outcome)
}

/// Why a copy couldn't be read.
fn detail(copy: &CopyHistory) -> String {
    let last = copy.events.first().filter(|event| copy.state == State::Unavailable && !event.detail.is_empty());
    last.map_or_else(String::new, |event| format!(": {}", text::one_line(&event.detail)))
}
