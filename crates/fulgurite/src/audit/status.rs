//! `audit status` and `audit problems`.

use std::collections::BTreeMap;
use std::io::{BufWriter, Write};

use anyhow::Result;
use clap::Args;
use fulgurite_audit::copy::{Method, NodeId, State};
use fulgurite_audit::database::{Age, AuditDatabase, Hour, Incident, Total, UnfinishedImport};
use fulgurite_audit::node::{DAY_S, Node};
use fulgurite_audit::overdue::{Overdue, future_looks, overdue_looks};
use fulgurite_audit::report::{bytes, unfinished_import};
use serde_json::{Value, json};

use super::{Opened, date, now};
use crate::channel::one_of;
use crate::standard_output::standard_output;
use crate::{Outcome, Session, text};

#[derive(Debug, Args)]
pub(super) struct Problems {
    /// List only copies in this state
    #[arg(long, value_parser = one_of(TROUBLED, State::name))]
    state: Option<State>,
}

const TROUBLED: [State; 4] = [State::Missing, State::SizeMismatch, State::DigestMismatch, State::Unavailable];

/// What is known of a node's copies.
struct Standing<'a> {
    node: &'a Node,
    by_state: BTreeMap<State, (u64, u64)>,
    copies: u64,
    bytes: u64,
    /// Copies whose bytes were never read and found right.
    never: u64,
    /// Copies last verified longer ago than the node's interval, or last looked at, if the node's
    /// method reads no bytes.
    overdue: Overdue,
    /// Copies whose last verification or look is dated later than today.
    future: u64,
    /// The day of the oldest verification, in seconds since 1970.
    oldest: Option<u64>,
    /// Known files whose last reading got wrong bytes, or none.
    wrong_readings: u64,
    /// True if all copies are missing and no check ever found one.
    none_found: bool,
}

impl<'a> Standing<'a> {
    /// What is known of each of some nodes.
    fn of_each(database: &mut dyn AuditDatabase, nodes: &'a [Node], now: u64) -> Result<Vec<Self>> {
        let (totals, ages, benchmarks) = (database.totals()?, database.ages()?, database.benchmarks()?);
        let none_found = never_found(database, nodes)?;
        let mut standings = Vec::new();
        for node in nodes {
            let mut standing = Self::of(node, &totals, &ages, overdue_looks(database, node, now)?, now);
            // Both may be the same copies.
            standing.future = standing.future.max(future_looks(database, node, now)?);
            let wrong = benchmarks.iter().filter(|benchmark| benchmark.node == node.id && benchmark.is_wrong());
            standing.wrong_readings = wrong.count() as u64;
            standing.none_found = none_found.contains(&node.id);
            standings.push(standing);
        }
        Ok(standings)
    }

    fn of(node: &'a Node, totals: &[Total], ages: &[Age], looks: Overdue, now: u64) -> Self {
        let mut standing = Self {
            node,
            by_state: BTreeMap::new(),
            copies: 0,
            bytes: 0,
            never: 0,
            overdue: looks,
            future: 0,
            oldest: None,
            wrong_readings: 0,
            none_found: false,
        };
        let mut overdue = 0;
        for total in totals.iter().filter(|total| total.node == node.id) {
            standing.by_state.insert(total.state, (total.copies, total.bytes));
            standing.copies += total.copies;
            standing.bytes += total.bytes;
        }
        // The day on which a copy verified one interval ago was verified.
        let limit = now.saturating_sub(node.rules.interval.as_secs()) / DAY_S;
        for age in ages.iter().filter(|age| age.node == node.id) {
            match age.day {
                None => standing.never += age.copies,
                Some(day) if day > now / DAY_S => standing.future += age.copies,
                Some(day) => {
                    standing.oldest = standing.oldest.or(Some(day * DAY_S));
                    overdue += if day < limit { age.copies } else { 0 };
                }
            }
        }
        if standing.reads_bytes() {
            standing.overdue = Overdue::Copies(overdue);
        }
        standing
    }

    fn count(&self, state: State) -> u64 {
        self.by_state.get(&state).map_or(0, |(copies, _)| *copies)
    }

    fn reads_bytes(&self) -> bool {
        self.node.rules.method == Method::Stream
    }

    /// Copies that the node's method hasn't checked yet. Looks by an earlier method don't count
    /// where copies are to be read now.
    fn unknown(&self) -> u64 {
        let looks = if self.reads_bytes() { self.count(State::HeaderChecked) + self.count(State::ProviderAttested) } else { 0 };
        self.count(State::Unverified) + looks
    }

    /// Copies that may be due.
    fn due(&self) -> u64 {
        self.overdue.at_least() + if self.reads_bytes() { self.never } else { self.unknown() }
    }

    fn outcome(&self) -> Outcome {
        let bad: u64 = TROUBLED.into_iter().filter(|state| state.is_bad()).map(|state| self.count(state)).sum();
        if bad > 0 {
            return Outcome::Troubled;
        }
        if self.count(State::Unavailable) > 0 {
            return Outcome::Unreadable;
        }
        // Nothing is known of a node without an inventory.
        let is_late = self.unknown() > 0 || self.overdue != Overdue::Copies(0);
        let is_incomplete = self.copies == 0 || is_late || self.future > 0 || self.wrong_readings > 0;
        if is_incomplete { Outcome::Absent } else { Outcome::Good }
    }

    fn line(&self) -> String {
        let states: Vec<String> =
            self.by_state.iter().map(|(state, (copies, _))| text::phrase(*copies, state.name(), state.name())).collect();
        let mut line =
            format!("{}: {} ({}): {}", self.node.name, text::phrase(self.copies, "copy", "copies"), bytes(self.bytes), states.join(", "));
        if self.copies == 0 {
            return format!("{}: no copies are known; import an inventory", self.node.name);
        }
        match self.oldest {
            Some(oldest) => line += &format!("; oldest verification on {}", &date(oldest)[..10]),
            None if self.never == self.copies => line += "; none was ever verified",
            None => {}
        }
        if self.never > 0 && self.oldest.is_some() {
            line += &format!("; bytes of {} never read and found right", text::phrase(self.never, "copy", "copies"));
        }
        match self.overdue {
            Overdue::Copies(0) => {}
            Overdue::Copies(number) => line += &format!("; {} overdue", text::phrase(number, "copy is", "copies are")),
            Overdue::MoreThan(number) => line += &format!("; more than {number} copies have been due for over a day"),
        }
        if self.wrong_readings > 0 {
            let readings = text::phrase(self.wrong_readings, "reading of a known file", "readings of known files");
            line += &format!("; {readings} got wrong bytes (`audit matrix show`)");
        }
        if self.future > 0 {
            let copies = text::phrase(self.future, "copy is", "copies are");
            line += &format!("; {copies} dated in the future, so check the clock; `fulgurite audit run` checks them again");
        }
        line
    }

    /// The line about the node, and a hint if it has none of its copies.
    fn lines(&self) -> Vec<String> {
        let mut lines = vec![self.line()];
        if self.none_found {
            lines.push(never_found_hint(&self.node.name));
        }
        lines
    }

    fn to_json(&self) -> Value {
        let states: BTreeMap<&str, Value> =
            self.by_state.iter().map(|(state, (copies, bytes))| (state.name(), json!({ "copies": copies, "bytes": bytes }))).collect();
        json!({
            "node": self.node.name,
            "copies": self.copies,
            "bytes": self.bytes,
            "states": states,
            "never_verified": self.never,
            "overdue": self.overdue.at_least(),
            "future_dated": self.future,
            "more_overdue": self.overdue.is_more(),
            "wrong_readings": self.wrong_readings,
            "never_found_any": self.none_found,
            "oldest_verified_day": self.oldest.map(|oldest| date(oldest)[..10].to_owned()),
        })
    }
}

/// Nodes whose copies are all missing, where no check ever found one.
pub(super) fn never_found(database: &mut dyn AuditDatabase, nodes: &[Node]) -> Result<Vec<NodeId>> {
    let totals = database.totals()?;
    let is_all_missing = |node: &&Node| {
        let mut totals = totals.iter().filter(|total| total.node == node.id && total.copies > 0).peekable();
        totals.peek().is_some() && totals.all(|total| total.state == State::Missing)
    };
    let mut found: Vec<NodeId> = nodes.iter().filter(is_all_missing).map(|node| node.id).collect();
    if !found.is_empty() {
        let hours = database.hours(0)?;
        let was_found = |hour: &&Hour| !matches!(hour.state, State::Missing | State::Unavailable);
        found.retain(|node| !hours.iter().filter(was_found).any(|hour| hour.node == *node));
    }
    Ok(found)
}

/// What is probably wrong with a node of [`never_found`].
pub(super) fn never_found_hint(name: &str) -> String {
    format!("every copy at {name} is missing, and none was ever found: do the list's names match the node's?")
}

/// Copies that may be due: never checked, or overdue. An estimate.
pub(super) fn due(database: &mut dyn AuditDatabase, nodes: &[Node], now: u64) -> Result<u64> {
    Ok(Standing::of_each(database, nodes, now)?.iter().map(Standing::due).sum())
}

/// The exit status of what is known of a copy that its node checks by `method`.
pub(super) fn outcome_of_copy(state: State, method: Method) -> Outcome {
    match state {
        bad if bad.is_bad() => Outcome::Troubled,
        State::Unavailable => Outcome::Unreadable,
        State::Unverified => Outcome::Absent,
        // A look by an earlier method doesn't count where copies are to be read now.
        State::HeaderChecked | State::ProviderAttested if method == Method::Stream => Outcome::Absent,
        _ => Outcome::Good,
    }
}

/// All copies of some nodes.
pub(super) fn copies(database: &mut dyn AuditDatabase, nodes: &[Node]) -> Result<u64> {
    let totals = database.totals()?;
    Ok(totals.iter().filter(|total| nodes.iter().any(|node| node.id == total.node)).map(|total| total.copies).sum())
}

/// The exit status of what is known of some nodes.
pub(super) fn outcome(database: &mut dyn AuditDatabase, nodes: &[Node], now: u64) -> Result<Outcome> {
    Ok(Standing::of_each(database, nodes, now)?.iter().map(Standing::outcome).fold(Outcome::Good, Outcome::worst))
}

/// The exit status of what is known of some nodes, with a line for each node that isn't good.
pub(super) fn troubles(database: &mut dyn AuditDatabase, nodes: &[Node], now: u64) -> Result<(Outcome, Vec<String>)> {
    let standings = Standing::of_each(database, nodes, now)?;
    let troubled = standings.iter().filter(|standing| standing.outcome() != Outcome::Good);
    let lines = troubled.flat_map(|standing| {
        let mut lines = standing.lines();
        lines[0].insert_str(0, "Now ");
        lines
    });
    let lines = lines.collect();
    Ok((standings.iter().map(Standing::outcome).fold(Outcome::Good, Outcome::worst), lines))
}

/// What is wrong with an import that wasn't completed, as a line.
pub(super) fn unfinished_line(import: &UnfinishedImport) -> String {
    format!("Inventory: {}", unfinished_import(import))
}

/// Names imports that weren't completed. Returns their part of the exit status. They must have been
/// read before the copies: then an import that isn't among them has added its copies.
pub(super) fn unfinished(session: &Session, imports: &[UnfinishedImport]) -> Outcome {
    for import in imports {
        session.warn(&unfinished_line(import));
        session.answer(|| {
            json!({
                "unfinished_import": import.number,
                "source": import.source,
                "began_at": import.began_at,
                "holds_checks": import.holds_checks,
            })
        });
    }
    if imports.is_empty() { Outcome::Good } else { Outcome::Absent }
}

pub(super) fn status(session: &Session, opened: &mut Opened) -> Result<Outcome> {
    let mut outcome = Outcome::Good;
    let nodes = opened.chosen(&[])?;
    opened.database.check_counts()?;
    let imports = opened.database.unfinished_imports()?;
    for standing in Standing::of_each(&mut *opened.database, &nodes, now())? {
        standing.lines().iter().for_each(|line| session.warn(line));
        session.answer(|| standing.to_json());
        outcome = outcome.worst(standing.outcome());
    }
    outcome = outcome.worst(unfinished(session, &imports));
    let incidents = opened.database.incidents(0)?;
    for incident in open_slowdowns(&incidents).filter(|incident| opened.has(incident.node)) {
        session.warn(&super::run::describe_incident(opened.name(incident.node), incident));
        session.answer(|| json!({ "slow": opened.name(incident.node), "since": incident.since, "factor": incident.factor }));
        outcome = outcome.worst(Outcome::Absent);
    }
    Ok(outcome)
}

/// The last report on each node that is slow now.
pub(super) fn open_slowdowns(incidents: &[Incident]) -> impl Iterator<Item = &Incident> {
    let mut last = BTreeMap::new();
    for incident in incidents {
        last.insert((incident.node, incident.series), incident);
    }
    last.into_values().filter(|incident| super::run::is_alarm(incident))
}

pub(super) fn problems(session: &Session, opened: &mut Opened, problems: &Problems) -> Result<Outcome> {
    const PAGE: usize = 1_000;
    let states: Vec<State> = problems.state.map_or_else(|| TROUBLED.to_vec(), |state| vec![state]);
    let mut out = BufWriter::new(standard_output());
    let mut outcome = Outcome::Good;
    for state in states {
        let mut after = None;
        loop {
            let page = opened.database.problems(state, after, PAGE)?;
            let Some(last) = page.last() else { break };
            after = Some((last.node, last.file));
            outcome = outcome.worst(if state.is_bad() { Outcome::Troubled } else { Outcome::Unreadable });
            for problem in &page {
                let node = opened.name(problem.node);
                let (at, detail) = problem.last.as_ref().map_or((None, ""), |event| (Some(event.at), &*event.detail));
                if session.json {
                    let value = json!({
                        "node": node,
                        "name": problem.name,
                        "state": state.name(),
                        "found_at": at,
                        "detail": detail,
                        "verified_at": problem.verified_at,
                    });
                    writeln!(out, "{value}")?;
                } else {
                    let verified =
                        problem.verified_at.map_or_else(|| "never verified".to_owned(), |at| format!("last verified {}", date(at)));
                    let found = at.map_or_else(String::new, date);
                    writeln!(out, "{state}  {node}  {}  {found}  {}  ({verified})", text::one_line(&problem.name), text::one_line(detail))?;
                }
            }
        }
    }
    out.flush()?;
    if outcome == Outcome::Good {
        session.say(&match problems.state {
            None => "No copy is known to be lost, wrong or unreadable. `fulgurite audit status` tells what was checked.".to_owned(),
            Some(state) => format!("No copy is in state {state}. `fulgurite audit problems` lists those in other states."),
        });
    }
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fulgurite_audit::copy::{Expected, Finding};
    use fulgurite_audit::database::{Checked, Source, Sqlite};
    use fulgurite_audit::inventory::Row;
    use fulgurite_audit::node::Medium;

    use super::*;

    const NOW: u64 = 1_800_000_000;

    #[test]
    fn dates_in_the_future_are_told_and_end_with_3() {
        for (medium, ahead_days, finding) in
            [(Medium::Disk, 30, Finding::Verified { disputed: None }), (Medium::Cold, 3_650, Finding::HeaderChecked)]
        {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let mut database = Sqlite::create(&folder.path().join("audit.db")).expect("a database");
            let mut node = Node {
                id: NodeId(0),
                name: "n".into(),
                place: "/mnt".into(),
                options: Vec::new(),
                medium,
                rules: medium.rules(),
                expected_time: None,
            };
            node.id = database.add_node(&node).expect("the name is free");
            let row = Row { name: "f".into(), expected: Expected::default(), location: None, node: Some(node.id) };
            database.import(Source::list("list"), &[], false, NOW, &mut std::iter::once(Ok(row))).expect("imported");
            let claim = database.claim(node.id, NOW, 1).expect("claimed").remove(0);
            let (at, method) = (NOW + ahead_days * DAY_S, node.rules.method);
            database.record(&[Checked { claim, at, method, finding, bytes: 0, stream: Duration::ZERO }], &[]).expect("recorded");
            let nodes = [node];
            let standing = Standing::of_each(&mut database, &nodes, NOW).expect("readable").remove(0);
            assert_eq!(standing.outcome(), Outcome::Absent);
            assert!(standing.line().contains("1 copy is dated in the future"), "{}", standing.line());
            assert_eq!(outcome(&mut database, &nodes, NOW + (ahead_days + 1) * DAY_S).expect("readable"), Outcome::Good);
        }
    }
}
