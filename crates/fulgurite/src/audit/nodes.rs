//! `audit node`: the places where copies are.

use std::io::Write;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use fulgurite_audit::check::NO_FILE;
use fulgurite_audit::copy::{Method, NodeId};
use fulgurite_audit::database::{Incident, IncidentKind, RemovedNode};
use fulgurite_audit::node::{DAY_S, Medium, Node, check_name};
use fulgurite_places::Cause;
use serde_json::{Value, json};

use super::{Opened, identity, place};
use crate::channel::one_of;
use crate::outcome::Misuse;
use crate::standard_output::standard_output;
use crate::{Outcome, Session, diagnostics, places, text};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Add a node
    ///
    /// PLACE is a folder, or a URL: s3://BUCKET/PREFIX, azblob://CONTAINER/PREFIX,
    /// gcs://BUCKET/PREFIX, swift://CONTAINER/PREFIX, b2://BUCKET/PREFIX, sftp://USER@HOST/PATH,
    /// webdavs://HOST/PATH, https://HOST/PATH (read only), archive:FOLDER for an archive of this
    /// program, whose files are read by restoring them (read only). Further settings of a place are
    /// options such as `--option endpoint=https://s3.example.org`. Secrets are never stored: name
    /// the variable or the file that contains one, as in `--option secret_access_key=env:KEY`.
    Add {
        /// Name of the node: letters, digits, ".", "-" and "_"
        name: String,
        /// Where its copies are
        place: String,
        #[command(flatten)]
        settings: Settings,
        /// Add it even if it can't be reached now
        #[arg(long)]
        unreached: bool,
        /// Add a node again that was removed: the history of its copies goes on
        #[arg(long)]
        again: bool,
    },
    /// Change the settings of a node
    Set {
        /// Name of the node
        name: String,
        /// Where its copies are now
        #[arg(long)]
        place: Option<String>,
        #[command(flatten)]
        settings: Settings,
        /// Change the place even if it can't be reached now
        #[arg(long, requires = "place")]
        unreached: bool,
    },
    /// List nodes with their places and rules
    List {
        /// List the nodes that were removed, and why
        #[arg(long)]
        removed: bool,
    },
    /// Remove a node and its copies from the audit
    ///
    /// Nothing is deleted at the node. Its copies are no longer checked, counted or reported; what
    /// happened to them stays in the history.
    Remove {
        /// Name of the node
        name: String,
        #[command(flatten)]
        consent: super::removal::Consent,
    },
}

#[derive(Debug, Args)]
pub(super) struct Settings {
    /// A setting of the place; repeat the option for several
    #[arg(long = "option", value_name = "KEY=VALUE")]
    options: Vec<String>,
    /// What its copies are kept on, which decides the rules below. Default: disk for folders
    /// and archives, else cloud
    #[arg(long, value_parser = one_of(Medium::ALL, Medium::name))]
    medium: Option<Medium>,
    /// How copies are checked: `stream` reads all bytes, `provider` compares a digest that the
    /// place states, `header` compares the stated length. Default: header for medium cold, else
    /// stream
    ///
    /// With `provider`, a copy is read if the place states a digest other than the expected one,
    /// and only its length is compared if the place states none of a known algorithm.
    #[arg(long, value_parser = one_of(Method::ALL, Method::name))]
    method: Option<Method>,
    /// Days from one check of a copy to the next. Default: 90, or 730 for tape
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..=36_500))]
    interval_days: Option<u32>,
    /// Copies checked at a time. Default: 4 for disks, 8 for clouds, 1 for tape
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    workers: Option<u16>,
    /// Limit on bytes read, in MiB per second; 0 for no limit
    #[arg(long, value_name = "MIB")]
    mib_per_second: Option<u64>,
    /// Limit on checks begun per second; 0 for no limit
    #[arg(long, value_name = "N")]
    files_per_second: Option<u64>,
    /// Compare every digest that is known of a file, not only the strongest
    #[arg(long, value_name = "YES|NO", value_parser = parse_yes)]
    all_digests: Option<bool>,
    /// Expected time of a check: seconds, and nanoseconds for each byte, as in 0.6+24. Default:
    /// learned from the node's own checks
    #[arg(long, value_name = "S+NS", value_parser = parse_expected)]
    expect: Option<(f64, f64)>,
}

fn parse_yes(text: &str) -> Result<bool, &'static str> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("expected yes or no"),
    }
}

pub(super) fn parse_expected(text: &str) -> Result<(f64, f64), &'static str> {
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
    let numbers = text.split_once('+').and_then(|(base, slope)| number(base).zip(number(slope)));
    numbers.filter(|(base, slope)| base + slope > 0.0).ok_or("expected seconds + nanoseconds a byte, such as 0.6+24")
}

impl Settings {
    fn sets(&self, key: &str) -> bool {
        self.options.iter().any(|option| option.split_once('=').is_some_and(|(set, _)| set == key))
    }

    fn is_empty(&self) -> bool {
        let Self { options, medium, method, interval_days, workers, mib_per_second, files_per_second, all_digests, expect } = self;
        let has_limits = mib_per_second.is_some() || files_per_second.is_some();
        let has_rules = method.is_some() || interval_days.is_some() || workers.is_some() || all_digests.is_some() || expect.is_some();
        options.is_empty() && medium.is_none() && !has_limits && !has_rules
    }

    /// Applies what is given.
    fn apply(&self, node: &mut Node) -> Result<()> {
        for option in &self.options {
            let pair = option.split_once('=').filter(|(key, value)| !key.is_empty() && !value.contains('\n'));
            let (key, value) = pair.ok_or_else(|| Misuse(format!("--option {option:?}: expected KEY=VALUE")))?;
            node.options.retain(|(known, _)| known != key);
            if !value.is_empty() {
                node.options.push((key.to_owned(), value.to_owned()));
            }
        }
        if let Some(medium) = self.medium {
            node.medium = medium;
            node.rules = medium.rules();
        }
        let rules = &mut node.rules;
        if let Some(method) = self.method {
            rules.method = method;
        }
        if let Some(days) = self.interval_days {
            rules.interval = Duration::from_secs(u64::from(days) * DAY_S);
        }
        if let Some(workers) = self.workers {
            rules.workers = workers;
        }
        let limit = |number: u64| (number > 0).then_some(number);
        if let Some(mib) = self.mib_per_second {
            rules.bytes_per_second = limit(mib).map(|mib| mib.saturating_mul(1 << 20));
        }
        if let Some(files) = self.files_per_second {
            rules.files_per_second = limit(files);
        }
        if let Some(all) = self.all_digests {
            rules.all_digests = all;
        }
        if self.expect.is_some() {
            node.expected_time = self.expect;
        }
        Ok(())
    }
}

pub(super) fn node(session: &Session, opened: &mut Opened, command: &Command) -> Result<Outcome> {
    match command {
        Command::Add { name, place, settings, unreached, again } => add(session, opened, name, place, settings, *unreached, *again),
        Command::Set { name, place, settings, unreached } => set(session, opened, name, place.as_deref(), settings, *unreached),
        Command::List { removed: false } => list(session, opened),
        Command::List { removed: true } => list_removed(session, opened),
        Command::Remove { name, consent } => super::removal::node(session, opened, name, consent),
    }
}

fn add(
    session: &Session,
    opened: &mut Opened,
    name: &str,
    place_given: &str,
    settings: &Settings,
    unreached: bool,
    again: bool,
) -> Result<Outcome> {
    check_name(name).map_err(|error| Misuse(format!("invalid name {name:?}: {error}")))?;
    let is_folder = !place_given.contains("://");
    let medium = if is_folder { Medium::Disk } else { Medium::Cloud };
    let mut node = Node {
        id: NodeId(0),
        name: name.to_owned(),
        place: String::new(),
        options: Vec::new(),
        medium,
        rules: medium.rules(),
        expected_time: None,
    };
    settings.apply(&mut node)?;
    (node.place, node.options) = places::stored(place_given, &node.options, &|option| settings.sets(option), places::Use::Read)?;
    if !unreached {
        reach(session, &node).with_context(|| format!("node {name} was not added; --unreached adds it all the same"))?;
    }
    refuse_shared(opened, &node, !unreached)?;
    if again {
        node.id = opened.database.add_node_again(&node)?;
        end_slowdowns(opened, node.id)?;
    } else {
        node.id = opened.database.add_node(&node)?;
    }
    session.say(&format!("Added node {name}: {}", describe(&node)));
    session.answer(|| to_json(&node));
    Ok(Outcome::Good)
}

/// Refuses a node at the place of another: each of its copies would count as two.
fn refuse_shared(opened: &Opened, node: &Node, reads: bool) -> Result<()> {
    let shared = opened.nodes.iter().find(|other| other.name != node.name && identity::has_same_copies(node, other, reads));
    match shared {
        None => Ok(()),
        Some(other) => {
            let text = format!("node {} would be at the place of node {}, so each copy there would count as two", node.name, other.name);
            Err(Misuse(text).into())
        }
    }
}

/// Ends slowdowns that were open when the node was removed. Its usual times are learned anew.
fn end_slowdowns(opened: &mut Opened, node: NodeId) -> Result<()> {
    let incidents = opened.database.incidents(0)?;
    let open = super::status::open_slowdowns(&incidents).filter(|incident| incident.node == node);
    let at = super::now();
    let ended: Vec<Incident> = open.map(|open| Incident { at, kind: IncidentKind::Learned, factor: None, ..*open }).collect();
    Ok(opened.database.record_incidents(&ended)?)
}

/// Connects, and asks for the first file.
fn reach(session: &Session, node: &Node) -> Result<()> {
    let place = place(node)?;
    let mut connection = place.connect().with_context(|| place.describe())?;
    if node.place.starts_with("http://") || node.place.starts_with("https://") {
        return match connection.length(NO_FILE) {
            Err(refusal) if refusal.cause != Cause::Missing => Err(refusal).with_context(|| place.describe()),
            Err(_) => {
                session.say("The server answers. Whether it has the right files can't be told: web servers don't list them.");
                Ok(())
            }
            Ok(_) => {
                diagnostics::note("the server answers as if any file existed, even one of a made-up name: is it a login page?");
                Ok(())
            }
        };
    }
    let mut is_empty = true;
    let listed = connection.list(&mut |_| {
        is_empty = false;
        false
    });
    listed.with_context(|| place.describe())?;
    if is_empty {
        diagnostics::note(&format!("{} lists no files: is the name right?", place.describe()));
    }
    Ok(())
}

fn set(
    session: &Session,
    opened: &mut Opened,
    name: &str,
    new_place: Option<&str>,
    settings: &Settings,
    unreached: bool,
) -> Result<Outcome> {
    let earlier = opened.node(name)?.clone();
    let mut node = earlier.clone();
    if new_place.is_none() && settings.is_empty() {
        return Err(Misuse("nothing to change: give --place, --option or another setting".into()).into());
    }
    settings.apply(&mut node)?;
    let place = new_place.unwrap_or(&node.place).to_owned();
    (node.place, node.options) = places::stored(&place, &node.options, &|option| settings.sets(option), places::Use::Read)?;
    if new_place.is_some() && !unreached {
        reach(session, &node).with_context(|| format!("node {name} was not changed; --unreached changes it all the same"))?;
    }
    if !identity::is_same_place(&earlier, &node) {
        refuse_shared(opened, &node, !unreached)?;
    }
    let moved = if identity::is_same_place(&earlier, &node) {
        opened.database.change_node(&node)?;
        0
    } else {
        // What was found was found elsewhere.
        opened.database.move_node(&node, super::now(), &format!("until then at {}", identity::described(&earlier)))?
    };
    session.say(&format!("Changed node {name}: {}", describe(&node)));
    if moved > 0 {
        let copies = text::phrase(moved, "copy is", "copies are");
        session.say(&format!("It leads to another place now: {copies} unverified until `fulgurite audit run` has read them."));
    }
    session.answer(|| to_json(&node));
    Ok(Outcome::Good)
}

fn list(session: &Session, opened: &Opened) -> Result<Outcome> {
    let mut out = standard_output();
    for node in &opened.nodes {
        match session.json {
            true => writeln!(out, "{}", to_json(node))?,
            false => writeln!(out, "{}: {}", node.name, describe(node))?,
        }
    }
    if opened.nodes.is_empty() {
        session.say("The audit has no nodes. Add one with `fulgurite audit node add`.");
    }
    Ok(Outcome::Good)
}

fn list_removed(session: &Session, opened: &Opened) -> Result<Outcome> {
    let mut out = standard_output();
    for RemovedNode { name, place, at, reason, .. } in &opened.removed {
        match session.json {
            true => writeln!(out, "{}", json!({ "name": name, "place": place, "removed_at": at, "reason": reason }))?,
            false => writeln!(out, "{name}: {}, removed {}: {}", text::one_line(place), super::date(*at), text::one_line(reason))?,
        }
    }
    if opened.removed.is_empty() {
        session.say("No node was removed.");
    }
    Ok(Outcome::Good)
}

fn describe(node: &Node) -> String {
    let rules = &node.rules;
    let mut line = format!(
        "{}, {}, {} every {} days, {}",
        text::one_line(&node.place),
        node.medium.name(),
        rules.method,
        rules.interval.as_secs() / DAY_S,
        text::count(rules.workers.into(), "worker"),
    );
    if let Some(limit) = rules.bytes_per_second {
        line += &format!(", at most {}/s", text::bytes(limit));
    }
    if let Some(limit) = rules.files_per_second {
        line += &format!(", at most {limit} files/s");
    }
    if rules.all_digests {
        line += ", all digests";
    }
    for (key, value) in &node.options {
        line += &format!(", {key}={}", text::one_line(value));
    }
    if let Some((base, slope)) = node.expected_time {
        line += &format!(", expected in {base} s + {slope} ns/B");
    }
    line
}

fn to_json(node: &Node) -> Value {
    json!({
        "name": node.name,
        "place": node.place,
        "options": node.options.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
        "medium": node.medium.name(),
        "method": node.rules.method.name(),
        "interval_s": node.rules.interval.as_secs(),
        "workers": node.rules.workers,
        "bytes_per_second": node.rules.bytes_per_second,
        "files_per_second": node.rules.files_per_second,
        "all_digests": node.rules.all_digests,
        "expected": node.expected_time.map(|(base, slope)| json!({ "base_s": base, "ns_per_byte": slope })),
    })
}
