//! Repair: a copy that is lost or wrong is rewritten from one that verifies.
//!
//! ```text
//! check the copy      still bad? ----no---> recorded, left alone
//!   |
//! read another copy   into a spool file; its digest must be right ---> else try the next one
//!   |                   recorded at that copy, right or wrong
//!   |
//! write               recorded as rewritten, or as failed
//!   |
//! check the copy by a fresh connection ---> recorded: verified, or what was found
//! ```
//!
//! Nothing is locked: a run may check the same copies, and other repairs may write them. Places
//! replace files as a whole, each result counts only if its copy is as it was before, and what is
//! written is compared with what is expected once more, just before.
//!
//! Each step leaves an event once it has happened.
//!
//! A copy that verifies is never written to. Without a known digest nothing can verify, so nothing
//! is repaired. A digest that was only recorded from one copy is as good as that copy: unless
//! another copy has it too, it doesn't tell which copy is wrong.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};

use fulgurite_digest::{Digest, Digester};
use fulgurite_places::{Place, Refusal};

use crate::check::{Check, Checker, Witness};
use crate::copy::{Expected, Finding, Method, NodeId, State, Unavailability};
use crate::database::{AuditDatabase, Checked, Claim, CopyHistory, DatabaseError, Event, EventKind, FileHistory};
use crate::run::Clock;

/// What became of a copy.
#[derive(Debug)]
pub enum Outcome {
    /// It was rewritten from a copy at this node, and verified.
    Repaired {
        /// The node of the copy that was read.
        from: NodeId,
    },
    /// It verifies, so there is nothing to repair.
    AlreadyGood,
    /// It could be repaired from a copy at this node, which verifies. Nothing was written.
    Repairable {
        /// The node of the copy that was read.
        from: NodeId,
    },
    /// Nothing was written.
    Impossible(Obstacle),
    /// It was rewritten, but what can be read now is not what was written.
    NotVerified {
        /// The node of the copy that was read.
        from: NodeId,
        /// What the check found.
        finding: Finding,
    },
}

/// Why a copy wasn't repaired.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message says what happened, with its fields")]
pub enum Obstacle {
    #[error("no digest of the file is known, so no copy can be trusted")]
    NoDigest,
    #[error(
        "its digest is known only from a reading of the copy at {recorded_at}, which may be the wrong one, and no other copy has it. \
         Import a list with the right digests and --replace, or repeat the command with --trust-recorded"
    )]
    Unconfirmed { recorded_at: String },
    #[error("the inventory changed meanwhile; repeat the command")]
    Changed,
    #[error("its node can't be used now: {0}")]
    TargetUnavailable(Unavailability),
    #[error("no other copy verifies{}", tried.iter().map(|(node, why)| format!("; {node}: {why}")).collect::<String>())]
    NoSource { tried: Vec<(String, String)> },
    #[error("writing failed: {0}")]
    Write(Refusal),
    #[error("can't keep a copy in {}: {source}", folder.display())]
    Spool {
        folder: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// A node, as a repair uses it.
pub struct Site<'a> {
    /// Its number.
    pub node: NodeId,
    /// Its name.
    pub name: &'a str,
    /// Where its copies are.
    pub place: &'a dyn Place,
}

/// Repairs copies of files.
pub struct Repair<'a> {
    /// The nodes that may be read and written.
    pub sites: &'a [Site<'a>],
    /// Folder for the copy that is being moved.
    pub spool: &'a Path,
    /// Write, instead of only finding out what could be written.
    pub apply: bool,
    /// Take a digest for right that was recorded from one copy, although no other copy has it.
    pub trusts_recorded: bool,
    /// The time.
    pub clock: &'a dyn Clock,
}

impl Repair<'_> {
    /// Repairs the copy of a file at one node.
    ///
    /// # Errors
    /// If the database fails; then a rewritten copy may be recorded as bad until its next check.
    pub fn repair(
        &self,
        database: &mut dyn AuditDatabase,
        name: &str,
        file: &FileHistory,
        target: NodeId,
    ) -> Result<Outcome, DatabaseError> {
        let Some(strongest) = file.expected.digests.last() else { return Ok(Outcome::Impossible(Obstacle::NoDigest)) };
        let copy = |node: NodeId| file.copies.iter().find(|copy| copy.node == node);
        let site = |node: NodeId| self.sites.iter().find(|site| site.node == node);
        let (Some(copy_at), Some(at)) = (copy(target), site(target)) else {
            return Ok(Outcome::Impossible(Obstacle::NoSource { tried: Vec::new() }));
        };
        let witnesses = database.witnesses(target, 8)?;
        let before = check(at.place, copy_at, &file.expected, &witnesses);
        self.record(database, file, copy_at, &before)?;
        match before.finding {
            Finding::Verified { .. } => return Ok(Outcome::AlreadyGood),
            Finding::Unavailable(why) => return Ok(Outcome::Impossible(Obstacle::TargetUnavailable(why))),
            _ => {}
        }
        if let Some(recorder) = unconfirmed(file).filter(|_| !self.trusts_recorded) {
            let recorded_at = site(recorder).map_or_else(|| recorder.0.to_string(), |site| site.name.to_owned());
            return Ok(Outcome::Impossible(Obstacle::Unconfirmed { recorded_at }));
        }
        let (from, mut spooled, bytes) = match self.read_good(database, file, at, strongest)? {
            Ok(found) => found,
            Err(obstacle) => return Ok(Outcome::Impossible(obstacle)),
        };
        if !self.apply {
            return Ok(Outcome::Repairable { from: from.node });
        }
        // Other processes may check copies or import inventories meanwhile, and the copies were
        // read for long. What would be written must still be what is expected.
        let again = database.history(name)?;
        let now = again.as_ref().and_then(|file| file.copies.iter().find(|copy| copy.node == target));
        match (&again, now) {
            (Some(again), Some(now)) if again.expected == file.expected && now.location == copy_at.location => {
                if now.state == State::Verified {
                    return Ok(Outcome::AlreadyGood);
                }
            }
            _ => return Ok(Outcome::Impossible(Obstacle::Changed)),
        }
        let written = at.place.connect().and_then(|mut connection| connection.write(&copy_at.location, bytes, &mut spooled));
        if let Err(refusal) = written {
            self.append(database, file, target, EventKind::RepairFailed, 0, format!("from the copy at {}: {refusal}", from.name))?;
            return Ok(Outcome::Impossible(Obstacle::Write(refusal)));
        }
        database.record_repair(target, file.file, self.clock.wall(), &format!("from the copy at {}", from.name))?;
        let again = database.history(name)?;
        let Some(now) = again.as_ref().and_then(|file| file.copies.iter().find(|copy| copy.node == target)) else {
            return Ok(Outcome::Impossible(Obstacle::NoSource { tried: Vec::new() }));
        };
        let after = check(at.place, now, &file.expected, &witnesses);
        self.record(database, file, now, &after)?;
        let verified = matches!(after.finding, Finding::Verified { .. });
        let outcome = Outcome::NotVerified { from: from.node, finding: after.finding };
        Ok(if verified { Outcome::Repaired { from: from.node } } else { outcome })
    }

    /// Records a check that was part of the repair.
    fn record(&self, database: &mut dyn AuditDatabase, file: &FileHistory, copy: &CopyHistory, check: &Check) -> Result<(), DatabaseError> {
        if copy.state.is_bad()
            && let Finding::Unavailable(why) = &check.finding
        {
            // As a result it would replace the copy's state, and what is known would be forgotten.
            let kind = EventKind::Checked(State::Unavailable);
            return self.append(database, file, copy.node, kind, check.bytes, why.to_string());
        }
        let claim = Claim {
            node: copy.node,
            file: file.file,
            location: copy.location.clone(),
            expected: file.expected.clone(),
            state: copy.state,
            due_at: i64::try_from(copy.due_at).unwrap_or(i64::MAX),
        };
        let Check { finding, method, bytes, stream } = check.clone();
        let checked = Checked { claim, at: self.clock.wall(), method, finding, bytes, stream };
        database.record(&[checked], &[])
    }

    /// Records a step of the repair that is no check.
    fn append(
        &self,
        database: &mut dyn AuditDatabase,
        file: &FileHistory,
        node: NodeId,
        kind: EventKind,
        bytes: u64,
        detail: String,
    ) -> Result<(), DatabaseError> {
        let at = self.clock.wall();
        let stream = std::time::Duration::ZERO;
        database.append_event(&Event { event: 0, node, file: file.file, at, kind, method: Method::Stream, bytes, stream, detail })
    }

    /// Reads a copy that verifies into a spool file, and returns it from its beginning. Copies that
    /// were verified last are tried first. Each reading is recorded.
    fn read_good(
        &self,
        database: &mut dyn AuditDatabase,
        file: &FileHistory,
        target: &Site<'_>,
        strongest: &Digest,
    ) -> Result<Result<(&Site<'_>, File, u64), Obstacle>, DatabaseError> {
        let spool_failed = |source| Obstacle::Spool { folder: self.spool.into(), source };
        let mut candidates: Vec<&CopyHistory> =
            file.copies.iter().filter(|copy| copy.node != target.node && !copy.state.is_bad()).collect();
        candidates.sort_by_key(|copy| std::cmp::Reverse((copy.state == State::Verified, copy.verified_at)));
        let mut tried = Vec::new();
        for copy in candidates {
            let Some(site) = self.sites.iter().find(|site| site.node == copy.node) else { continue };
            let mut spool = match tempfile::tempfile_in(self.spool) {
                Ok(spool) => spool,
                Err(source) => return Ok(Err(spool_failed(source))),
            };
            let mut digester = Digester::new(&[strongest.algorithm()]);
            let mut failed = None;
            let read = site.place.connect().and_then(|mut connection| {
                connection.read(&copy.location, &mut |piece| {
                    digester.update(piece);
                    failed = spool.write_all(piece).err();
                    failed.is_none()
                })
            });
            if let Some(source) = failed {
                return Ok(Err(spool_failed(source)));
            }
            let bytes = digester.bytes();
            let right = |digests: Vec<Digest>| digests.contains(strongest) && file.expected.bytes.is_none_or(|known| known == bytes);
            let why = match read {
                Err(refusal) => refusal.to_string(),
                Ok(_) if !right(digester.finish()) => "what was read is not the expected content".into(),
                Ok(_) => {
                    let purpose = format!("for the copy at {}", target.name);
                    self.append(database, file, site.node, EventKind::SourceVerified, bytes, purpose)?;
                    return Ok(spool.rewind().map(|()| (site, spool, bytes)).map_err(spool_failed));
                }
            };
            let detail = format!("for the copy at {}: {why}", target.name);
            self.append(database, file, site.node, EventKind::SourceRejected, bytes, detail)?;
            tried.push((site.name.to_owned(), why));
            // One reading proves nothing against a copy, but its next check shouldn't wait.
            database.make_copy_due(site.node, file.file, self.clock.wall())?;
        }
        Ok(Err(Obstacle::NoSource { tried }))
    }
}

/// The node of the copy from which the file's digest was recorded, if no inventory has stated one
/// since and no other copy has it.
fn unconfirmed(file: &FileHistory) -> Option<NodeId> {
    let events = || file.copies.iter().flat_map(|copy| copy.events.iter().map(move |event| (event, copy.node)));
    let last = |kind: EventKind| events().filter(|(event, _)| event.kind == kind).max_by_key(|(event, _)| event.event);
    let (recorded, recorder) = last(EventKind::Checked(State::Unverified))?;
    let is_stated = last(EventKind::ExpectationReplaced).is_some_and(|(stated, _)| stated.event > recorded.event);
    let is_confirmed = file.copies.iter().any(|copy| copy.node != recorder && copy.state == State::Verified);
    (!is_stated && !is_confirmed).then_some(recorder)
}

fn check(place: &dyn Place, copy: &CopyHistory, expected: &Expected, witnesses: &[Witness]) -> Check {
    let mut checker = Checker::new(place, false);
    checker.check(Method::Stream, &copy.location, expected, &mut || witnesses.to_vec(), &mut ())
}

#[cfg(test)]
mod tests;
