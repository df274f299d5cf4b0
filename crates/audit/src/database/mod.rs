//! What an audit knows: nodes, files, copies, and the history of checks.
//!
//! ```text
//! nodes   where copies are, and the rules for checking them
//! files   name, length, digests                          one row a file, kept when copies are removed
//! copies  (node, file): state, when due, last verified   one row a copy
//! events  what each check found; only ever appended      one row a check
//!           '-- each event names the one before it of the same copy, and the copy names the last:
//!               the history of a file is a walk along that chain and needs no index
//! totals, ages, hours                                     sums, kept up to date by each commit
//! benchmarks                                              known files, and what their readings took
//! ```
//!
//! A check is evidence only from the commit of its event on. What is claimed for checking is
//! remembered elsewhere: a claim never changes a date.

use std::time::Duration;

use crate::copy::{Dispute, Expected, FileId, Finding, Method, NodeId, State};
use crate::inventory::{Imported, InventoryError, Row};
use crate::node::{Medium, Node, Rules};
use crate::overdue::Overdue;
use crate::series::Series;

mod benchmarks;
#[cfg(test)]
mod conformance;
mod counts;
mod digests;
mod error;
mod event;
mod incident;
mod portion;
#[cfg(feature = "postgres")]
mod postgres;
mod removed;
mod sqlite;
mod unfinished;
mod witnesses;

pub use benchmarks::{Benchmark, BenchmarkDatabase, BenchmarkRecord, ExpectedTime};
pub use error::DatabaseError;
pub use event::{Event, EventKind, Subject};
pub use incident::{DetectorState, Incident, IncidentKind};
#[cfg(feature = "postgres")]
pub use postgres::{AddressProblem, Postgres};
pub use removed::{RemovedCopy, RemovedNode};
pub use sqlite::Sqlite;
pub use unfinished::{Source, UnfinishedImport};

/// The due time of copies whose bytes must be read, whatever the node's method: a benchmark found
/// them wrong. It is no date.
pub const DUE_TO_BE_READ: i64 = 3;

/// A copy to be checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The node.
    pub node: NodeId,
    /// The file.
    pub file: FileId,
    /// Where it is at the node.
    pub location: String,
    /// What it should contain.
    pub expected: Expected,
    /// Its state. Bytes that a reading found wrong are right again only by another reading.
    pub state: State,
    /// When it was due; a result is recorded only if this hasn't changed meanwhile.
    pub due_at: i64,
}

/// The result of a check, to be recorded.
#[derive(Debug)]
pub struct Checked {
    /// What was claimed.
    pub claim: Claim,
    /// When the check ended, in seconds since 1970.
    pub at: u64,
    /// How it was done.
    pub method: Method,
    /// What it found.
    pub finding: Finding,
    /// Bytes read by its first reading.
    pub bytes: u64,
    /// Time of the first reading: open, read and digest.
    pub stream: Duration,
}

/// True if the copy may have been looked at without a length to compare: it is due once its file's
/// length becomes known.
fn awaits_length(state: State) -> bool {
    // Earlier versions counted such a look as one that had compared the length.
    matches!(state, State::Unverified | State::HeaderChecked)
}

impl Checked {
    /// The state that the copy has now. A copy that is lost or wrong stays so while it can't be
    /// read: the failure is no news of its bytes, and a later look at its length would clear it.
    fn state_after(&self, before: State) -> State {
        match self.finding.state() {
            State::Unavailable if before.is_bad() => before,
            found => found,
        }
    }

    /// When the copy is due, in seconds since 1970, if its node has this interval. `state` is the
    /// copy's now, `before` what it was, and `was_verified` says whether it was ever verified.
    fn next_due(&self, interval: Duration, state: State, before: State, was_verified: bool) -> u64 {
        let rules = Rules { interval, ..Medium::Disk.rules() };
        let first = match state {
            State::HeaderChecked | State::ProviderAttested => before == State::Unverified,
            _ => !was_verified,
        };
        match self.finding {
            // Looking again sooner finds nothing new. A length that becomes known makes it due.
            Finding::LengthUnknown { .. } => rules.next_due(self.at, State::HeaderChecked, false),
            _ => rules.next_due(self.at, self.finding.state(), first),
        }
    }

    /// The file's length, if it wasn't known before and the check proves it.
    fn learned_bytes(&self) -> Option<u64> {
        match &self.finding {
            Finding::Recorded { bytes, .. } => Some(*bytes),
            // The bytes that were counted are those of the first reading.
            Finding::Verified { disputed: None | Some(Dispute::Stated { .. }) } if self.claim.expected.bytes.is_none() => Some(self.bytes),
            _ => None,
        }
    }
}

/// Copies of a node in one state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Total {
    /// The node.
    pub node: NodeId,
    /// The state.
    pub state: State,
    /// Copies.
    pub copies: u64,
    /// Their bytes, where their length is known.
    pub bytes: u64,
}

/// Copies of a node that were last verified on one day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Age {
    /// The node.
    pub node: NodeId,
    /// The day, counted from 1970 in UTC; `None` if never.
    pub day: Option<u64>,
    /// Copies.
    pub copies: u64,
    /// Their bytes, where their length is known.
    pub bytes: u64,
}

/// Checks of a node within one hour that found one state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hour {
    /// The node.
    pub node: NodeId,
    /// How they were done.
    pub method: Method,
    /// The hour, counted from 1970 in UTC.
    pub hour: u64,
    /// What they found.
    pub state: State,
    /// Checks.
    pub count: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Time of reading, all checks together.
    pub stream: Duration,
    /// Time from the start of a check to the commit of its result, all checks together.
    pub whole: Duration,
}

/// A copy that is known to be lost or wrong, or that couldn't be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The node.
    pub node: NodeId,
    /// The file.
    pub file: FileId,
    /// Its name.
    pub name: String,
    /// Its state.
    pub state: State,
    /// When its bytes were last read and found right, in seconds since 1970.
    pub verified_at: Option<u64>,
    /// What the last check found.
    pub last: Option<Event>,
}

/// A copy of a file, with its history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyHistory {
    /// The node.
    pub node: NodeId,
    /// Where it is at the node.
    pub location: String,
    /// Its state.
    pub state: State,
    /// When its bytes were last read and found right, in seconds since 1970.
    pub verified_at: Option<u64>,
    /// When it is due, in seconds since 1970.
    pub due_at: u64,
    /// What happened to it, newest first.
    pub events: Vec<Event>,
}

/// A file with the history of its copies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileHistory {
    /// Its number.
    pub file: FileId,
    /// What its copies should contain.
    pub expected: Expected,
    /// Its copies, by node.
    pub copies: Vec<CopyHistory>,
    /// Copies that were removed, by node.
    pub removed: Vec<RemovedCopy>,
}

/// Keeps the state of an audit. Each method that changes something does it in one durable
/// transaction, unless its doc says otherwise.
pub trait AuditDatabase: BenchmarkDatabase + Send {
    /// Returns all nodes, by number.
    ///
    /// # Errors
    /// If the database can't be read.
    fn nodes(&mut self) -> Result<Vec<Node>, DatabaseError>;

    /// Adds a node; its `id` is ignored and the new one returned.
    ///
    /// # Errors
    /// If its name is that of a node or of a removed one, or the database can't be changed.
    fn add_node(&mut self, node: &Node) -> Result<NodeId, DatabaseError>;

    /// Adds a node that was removed, under its name and number. It has no copies, and the history
    /// of those that an inventory lists again goes on.
    ///
    /// # Errors
    /// If no node of its name was removed, or the database can't be changed.
    fn add_node_again(&mut self, node: &Node) -> Result<NodeId, DatabaseError>;

    /// Returns the removed nodes, by number.
    ///
    /// # Errors
    /// If the database can't be read.
    fn removed_nodes(&mut self) -> Result<Vec<RemovedNode>, DatabaseError>;

    /// Removes a node and its copies, as [`remove_copies`](Self::remove_copies) does. Returns the
    /// number of copies. Its settings, expected times and detectors are forgotten.
    ///
    /// Commits in portions, with the node in the last one. An interrupted removal can be repeated.
    ///
    /// # Errors
    /// If the node doesn't exist, an unfinished import holds checks, or the database can't be
    /// changed.
    fn remove_node(&mut self, node: NodeId, at: u64, reason: &str) -> Result<u64, DatabaseError>;

    /// Removes copies: an event for each, and they are no longer checked, counted or listed. Their
    /// history stays, and checks that are under way are dropped. Copies that are unknown or were
    /// removed before are ignored. Returns the number of the others.
    ///
    /// Commits in portions. An interrupted removal can be repeated.
    ///
    /// # Errors
    /// If an unfinished import holds checks, or the database can't be changed.
    fn remove_copies(&mut self, copies: &[(NodeId, FileId)], at: u64, reason: &str) -> Result<u64, DatabaseError>;

    /// Stores new settings of a node. If its interval changed, copies that wait for their next
    /// regular check are due by the new one; that takes time in proportion to the node's copies.
    ///
    /// # Errors
    /// If the node doesn't exist, or the database can't be changed.
    fn change_node(&mut self, node: &Node) -> Result<(), DatabaseError>;

    /// Stores new settings of a node that lead to another place: an event for each of its copies,
    /// which are unverified and due at once. Checks that are under way are dropped. `until_then`
    /// says where the copies were. Returns the number of copies; takes time in proportion to it.
    ///
    /// # Errors
    /// As of [`change_node`](Self::change_node), or if another process that can't be told of the
    /// new place checks copies.
    fn move_node(&mut self, node: &Node, at: u64, until_then: &str) -> Result<u64, DatabaseError>;

    /// Adds files, each with copies at the nodes that its row names, or else at `nodes`. Files and
    /// copies that exist already are left as they are, but what wasn't known of them is added. If a
    /// row contradicts what is known, it is a conflict; with `replace`, or if all copies of the
    /// file were removed, the row is right, and the copies are unverified and due at once.
    ///
    /// Commits in portions. An interrupted import can be repeated. From its first portion to its
    /// last one, and after an error, it is among the
    /// [`unfinished_imports`](Self::unfinished_imports). If it had rows, earlier imports of the
    /// same repeatable `source` count as completed, too.
    ///
    /// # Errors
    /// If a row can't be read, a row names no node, another process imports into an empty audit, or
    /// the database can't be changed.
    fn import(
        &mut self,
        source: Source<'_>,
        nodes: &[NodeId],
        replace: bool,
        now: u64,
        rows: &mut dyn Iterator<Item = Result<Row, InventoryError>>,
    ) -> Result<Imported, InventoryError>;

    /// Returns the imports that were not completed, by number.
    ///
    /// # Errors
    /// If the database can't be read.
    fn unfinished_imports(&mut self) -> Result<Vec<UnfinishedImport>, DatabaseError>;

    /// Forgets that an import wasn't completed. Rows that it has added stay, unless it
    /// [`holds_checks`](UnfinishedImport::holds_checks). Returns false if it isn't unfinished.
    ///
    /// # Errors
    /// If the import is under way and holds checks, or the database can't be changed.
    fn dismiss_import(&mut self, number: u64) -> Result<bool, DatabaseError>;

    /// Claims up to `limit` copies of a node that are due, longest due first. A claimed copy isn't
    /// claimed again until its result is recorded or it is released; claims end with their worker.
    /// Claims nothing while an unfinished import holds checks.
    ///
    /// # Errors
    /// If the database can't be read, or another process checks copies.
    fn claim(&mut self, node: NodeId, now: u64, limit: usize) -> Result<Vec<Claim>, DatabaseError>;

    /// Claims copies of these files at a node, due or not, in any order. Files without a copy there
    /// and copies that are claimed already are left out.
    ///
    /// # Errors
    /// As of [`claim`](Self::claim), or if an unfinished import holds checks.
    fn claim_files(&mut self, node: NodeId, files: &[FileId]) -> Result<Vec<Claim>, DatabaseError>;

    /// Gives back claims whose copies were not checked.
    ///
    /// # Errors
    /// If the database can't be changed.
    fn release(&mut self, claims: &[Claim]) -> Result<(), DatabaseError>;

    /// Keeps claims alive while their copies are checked. A run calls it every second or so; where
    /// claims end only with their worker, there is nothing to do.
    ///
    /// # Errors
    /// If the database can't be changed.
    fn renew_claims(&mut self) -> Result<(), DatabaseError> {
        Ok(())
    }

    /// Records results: an event for each, the copy's state, and the date if it was verified. A
    /// result for a copy that changed since it was claimed is dropped. Detectors' states are stored
    /// with the results that they have seen.
    ///
    /// # Errors
    /// If an unfinished import holds checks, or the database can't be changed; then nothing was
    /// recorded.
    fn record(&mut self, results: &[Checked], detectors: &[DetectorState]) -> Result<(), DatabaseError>;

    /// Records that a copy was rewritten: an event, and the copy is due at once. Its state stays
    /// until a check.
    ///
    /// # Errors
    /// If an unfinished import holds checks, or the database can't be changed.
    fn record_repair(&mut self, node: NodeId, file: FileId, at: u64, detail: &str) -> Result<(), DatabaseError>;

    /// Appends an event to the history of a copy, and changes neither its state nor its dates. The
    /// event's number is ignored. Nothing happens if the copy is gone.
    ///
    /// # Errors
    /// If an unfinished import holds checks, or the database can't be changed.
    fn append_event(&mut self, event: &Event) -> Result<(), DatabaseError>;

    /// Appends what detectors reported.
    ///
    /// # Errors
    /// If the database can't be changed.
    fn record_incidents(&mut self, incidents: &[Incident]) -> Result<(), DatabaseError>;

    /// Returns what detectors reported, from a time on, in the order in which it was recorded.
    ///
    /// # Errors
    /// If the database can't be read.
    fn incidents(&mut self, from: u64) -> Result<Vec<Incident>, DatabaseError>;

    /// Adds the time from the start of checks to their commit, which is known only afterwards.
    ///
    /// # Errors
    /// If the database can't be changed.
    fn add_whole_times(&mut self, times: &[(NodeId, Method, u64, State, Duration)]) -> Result<(), DatabaseError>;

    /// Makes the copies of a node due now that would be due after a time. Returns their number.
    /// Takes time in proportion to it.
    ///
    /// # Errors
    /// If the database can't be changed.
    fn make_due(&mut self, node: NodeId, now: u64, after: u64) -> Result<u64, DatabaseError>;

    /// Makes a copy due now that would be due later.
    ///
    /// # Errors
    /// If the database can't be changed.
    fn make_copy_due(&mut self, node: NodeId, file: FileId, now: u64) -> Result<(), DatabaseError>;

    /// When the next copy of a node is due, in seconds since 1970.
    ///
    /// # Errors
    /// If the database can't be read.
    fn next_due(&mut self, node: NodeId) -> Result<Option<u64>, DatabaseError>;

    /// Counts the copies of a node that are due after a time, up to `most`.
    ///
    /// # Errors
    /// If the database can't be read.
    fn due_after(&mut self, node: NodeId, after: u64, most: u64) -> Result<u64, DatabaseError>;

    /// Counts the copies of a node that were last looked at before `looked_before`, among those
    /// that have been due since before `due_before`. Only copies whose last check found them there
    /// are counted. If more than `most` have been due for so long, returns that.
    ///
    /// # Errors
    /// If the database can't be read.
    fn overdue_looks(&mut self, node: NodeId, looked_before: u64, due_before: u64, most: u64) -> Result<Overdue, DatabaseError>;

    /// Returns up to `limit` copies that a node has shown, the best witnesses first: copies that
    /// were once verified, or looked at by its method, since what they should contain and where
    /// they are were last replaced. Those that couldn't be read at last come after the others, and
    /// those that are lost or wrong after them. Empty only if the node has shown none.
    ///
    /// # Errors
    /// If the database can't be read.
    fn witnesses(&mut self, node: NodeId, limit: usize) -> Result<Vec<crate::check::Witness>, DatabaseError>;

    /// Returns the state of the detector of a series.
    ///
    /// # Errors
    /// If the database can't be read.
    fn detector(&mut self, node: NodeId, series: Series) -> Result<Option<Vec<u8>>, DatabaseError>;

    /// Reads copies and their files at both ends of each node, up to 100,000 each, and compares
    /// their number with the sums, which all other answers about a node come from.
    ///
    /// # Errors
    /// If they differ, or the database can't be read.
    fn check_counts(&mut self) -> Result<(), DatabaseError>;

    /// Returns the copies by node and state.
    ///
    /// # Errors
    /// If the database can't be read.
    fn totals(&mut self) -> Result<Vec<Total>, DatabaseError>;

    /// Returns the copies by node and day of their last verification.
    ///
    /// # Errors
    /// If the database can't be read.
    fn ages(&mut self) -> Result<Vec<Age>, DatabaseError>;

    /// Returns the checks by node, method and hour, from an hour on.
    ///
    /// # Errors
    /// If the database can't be read.
    fn hours(&mut self, from: u64) -> Result<Vec<Hour>, DatabaseError>;

    /// Returns up to `limit` copies in one state, after a copy, by node and file.
    ///
    /// # Errors
    /// If the database can't be read.
    fn problems(&mut self, state: State, after: Option<(NodeId, FileId)>, limit: usize) -> Result<Vec<Problem>, DatabaseError>;

    /// Returns a file by its name, with all that happened to its copies.
    ///
    /// # Errors
    /// If the database can't be read.
    fn history(&mut self, name: &str) -> Result<Option<FileHistory>, DatabaseError>;

    /// Returns up to `limit` events after one, in the order in which they were recorded, with the
    /// names of their files.
    ///
    /// # Errors
    /// If the database can't be read.
    fn events(&mut self, after: u64, limit: usize) -> Result<Vec<(Event, String)>, DatabaseError>;

    /// Returns the number of the last event, or 0.
    ///
    /// # Errors
    /// If the database can't be read.
    fn last_event(&mut self) -> Result<u64, DatabaseError>;

    /// Returns up to `limit` copies that have events after `since`, each once, with the number of
    /// their first event after it, in the order of these numbers. Starts after the event `after`.
    /// One pass over the events, in constant memory.
    ///
    /// # Errors
    /// If the database can't be read.
    fn subjects(&mut self, since: u64, after: u64, limit: usize) -> Result<Vec<(u64, Subject)>, DatabaseError>;
}
