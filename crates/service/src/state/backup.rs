//! Backup of the service's state: an object in the archive, in a text format that needs no database
//! to read.
//!
//! ```text
//! {"head":{"what":"…","format":2,"archive":"…","written_ms":…}}
//! {"account":{"name":"main","id":"…","admin":true,"created_ms":…}}
//! {"bucket":{"name":"photos","owner":"main",…}}
//! {"version":{"id":"…","tags":"…","retention":{…},"legal_hold":true}}
//! {"end":{"accounts":1,"buckets":1,"versions":1}}
//! ```
//!
//! Each line is a JSON value, so writers and readers never hold more than a line. The specification
//! is docs/state-backup.md. Any addition makes another format: a reader knows all fields of the
//! formats it supports, and ignores none.
//!
//! Platters can't be erased, and an archive may be unencrypted. So a backup contains no secrets:
//! no keys of accounts, no keys of parts.

use std::io::{self, Write};

use fulgurite_archive::object::ReadError;
use fulgurite_archive::schema::version;
use fulgurite_domain::{ArchiveId, Attributes, IdentifierError, ObjectName, VersionId};
use rusqlite::{Connection, params};
use serde::{Deserialize, Deserializer, Serialize};

use super::{Bucket, Retention, State, StateError, VersionState, buckets, file, now_ms, versions};
use crate::lifecycle::Rules;

/// The name of the backup in the archive. No bucket can have the name of its folder.
pub const BACKUP_NAME: &str = ".fulgurite/service.jsonl";
/// The format that this program writes. It also reads earlier ones.
const FORMAT: u64 = 2;
/// Maximum length of a line. A bucket now has at most about 650 KiB: 20 KiB of policy and 64 KiB of
/// CORS rules, twice that in JSON, 256 KiB of lifecycle rules, and 50 URL-encoded tags. Earlier
/// versions did not limit CORS rules, which could be as long as an XML body.
const LINE_BYTES_MAX: usize = 16 << 20;
const PIECE_BYTES: usize = 1 << 20;
const WHAT: &str = "Backup of the state of this archive's S3 service: accounts (without keys), buckets, and changes to versions after \
                    they were put. One JSON value per line. Times are milliseconds since 1970-01-01 UTC, tags are URL-encoded.";

pub(crate) fn backup_name() -> ObjectName {
    ObjectName(BACKUP_NAME.into())
}

/// Why a backup can't be written or read.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("the database: {0}")]
    Engine(#[from] rusqlite::Error),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("line {line} is malformed: {found}")]
    Line { line: u64, found: Malformed },
    #[error("it has format {found}, but this program supports formats up to {FORMAT}; use a newer fulgurite")]
    Newer { found: u64 },
    /// An unreadable backup would replace a readable one.
    #[error("the line of {what} has {bytes} bytes, more than the {LINE_BYTES_MAX} that readers accept")]
    TooLong { what: String, bytes: usize },
    #[error("it belongs to archive {found}, but this is archive {expected}")]
    OtherArchive { found: ArchiveId, expected: ArchiveId },
    /// The counts in the last line don't match, or that line is missing.
    #[error("it is incomplete: its last line counts {expected:?}, but it contains {found:?}")]
    Counts { expected: Option<Counts>, found: Counts },
}

impl BackupError {
    /// True if the backup is only out of reach, not known to be lost or damaged.
    pub(crate) fn is_out_of_reach(&self) -> bool {
        matches!(self, Self::Read(error) if error.hindrance().is_some())
    }
}

/// What is wrong with a line of a backup.
#[derive(Debug, thiserror::Error)]
pub enum Malformed {
    #[error("longer than {LINE_BYTES_MAX} bytes")]
    TooLong,
    #[error("expected a head with a format")]
    NoHead,
    #[error("unexpected at this position")]
    Misplaced,
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Id(#[from] IdentifierError),
}

/// Number of entries in a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    pub accounts: u64,
    pub buckets: u64,
    /// Versions with mutable state.
    pub versions: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Line {
    Head(Head),
    Account(AccountLine),
    Bucket(Bucket),
    Version(VersionLine),
    End(Counts),
}

impl Line {
    fn what(&self) -> String {
        match self {
            Self::Head(_) => "the head".to_owned(),
            Self::Account(account) => format!("account {:?}", account.name),
            Self::Bucket(bucket) => format!("bucket {:?}", bucket.name),
            Self::Version(version) => format!("version {}", version.id),
            Self::End(_) => "the end".to_owned(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    what: String,
    format: u64,
    archive: String,
    written_ms: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AccountLine {
    name: String,
    id: String,
    admin: bool,
    created_ms: i64,
    /// Present if it differs from the settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    restore_quota: Option<QuotaLine>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct QuotaLine {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    open: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bytes_a_day: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct VersionLine {
    id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tags: Option<String>,
    /// `null` if it was removed, absent if it was never set.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    retention: Option<Option<Retention>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    legal_hold: Option<bool>,
}

/// Reads a field that is present, so that `null` becomes `Some(None)` and not `None`.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BackupStatus {
    /// Whether the state has changes that aren't in the newest backup.
    pub(crate) is_changed: bool,
    /// The newest backup of this state.
    pub(crate) version: Option<VersionId>,
    /// A backup that was begun and possibly put.
    pub(crate) begun: Option<VersionId>,
    /// A newer backup, of another state, which the operator decided not to use.
    pub(crate) set_aside: Option<VersionId>,
    /// The number of changes so far.
    pub(crate) changes: Changes,
}

impl BackupStatus {
    /// Reads the status, possibly from a file with an older schema.
    pub(super) fn read(connection: &Connection) -> rusqlite::Result<Self> {
        let columns = match version(connection)? {
            ..=1 => return Ok(Self { is_changed: true, version: None, begun: None, set_aside: None, changes: Changes(0) }),
            2..=7 => "changes <> copied, version, begun, NULL, changes",
            _ => "changes <> copied, version, begun, set_aside, changes",
        };
        connection.prepare_cached(&format!("SELECT {columns} FROM copy"))?.query_row([], |row| {
            let id = |column| Ok::<_, rusqlite::Error>(row.get::<_, Option<[u8; 16]>>(column)?.map(VersionId));
            let changes = Changes(row.get(4)?);
            Ok(Self { is_changed: row.get(0)?, version: id(1)?, begun: id(2)?, set_aside: id(3)?, changes })
        })
    }

    /// Whether a backup was put by a later state than this one: `newest`, the newest in the
    /// archive. A state knows the last two that it began. Older backups were replaced by it; a
    /// rebuilt catalogue may list them again.
    pub(super) fn is_older_than(&self, newest: VersionId) -> bool {
        [self.version, self.begun, self.set_aside].iter().all(|known| known.is_none_or(|known| known < newest))
    }

    /// Whether a backup with these attributes is of this state with no change since: the server put
    /// it after the file had been replaced, and couldn't record that.
    pub(super) fn is_of(&self, backup: &Attributes) -> bool {
        let is_parent = match backup.text(PARENT) {
            None => false,
            Some("") => self.version.is_none() && self.begun.is_none(),
            Some(parent) => [self.version, self.begun].into_iter().flatten().any(|known| known.to_string() == parent),
        };
        is_parent && backup.text(CHANGES) == Some(self.changes.0.to_string().as_str())
    }

    /// Sets the attributes of a backup that replaces those of this state and includes these
    /// changes.
    pub(crate) fn describe(&self, changes: Changes, is_begun_put: bool, backup: &mut Attributes) {
        let parent = if is_begun_put { self.begun } else { self.version };
        backup.set(CHANGES, changes.0.to_string());
        backup.set(PARENT, parent.map(|id| id.to_string()).unwrap_or_default());
    }
}

/// Attributes of a backup: how many changes its state had, and the backup before it, if any.
const CHANGES: &str = "state-changes";
const PARENT: &str = "state-parent";

/// The number of changes that a backup includes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Changes(pub(super) i64);

impl State {
    pub(crate) fn backup_status(&self) -> Result<BackupStatus, StateError> {
        self.query("read the backup status", BackupStatus::read)
    }

    /// Writes a backup of the state at one instant, and returns the number of changes in it. The
    /// state may change meanwhile. After an error, discard the bytes passed to `out`.
    pub(crate) fn write_backup(&self, out: &mut dyn FnMut(Vec<u8>) -> io::Result<()>) -> Result<Changes, BackupError> {
        let state_error = |error| BackupError::Io(io::Error::other::<StateError>(error));
        if self.check_file().is_none() {
            // Its own connection, so that requests don't wait.
            let connection = file::open_read_only(&self.path, self.archive.id());
            // If the file was replaced just now, that one can't be used.
            if self.check_file().is_none() {
                return self.write_from(&connection.map_err(state_error)?, out);
            }
        }
        // The path may lead to another file, or to none: only the open connection has the state.
        self.write_from(&*self.connection().map_err(state_error)?, out)
    }

    fn write_from(
        &self,
        connection: &rusqlite::Connection,
        out: &mut dyn FnMut(Vec<u8>) -> io::Result<()>,
    ) -> Result<Changes, BackupError> {
        // A transaction sees the state as of its first read.
        let reading = connection.unchecked_transaction()?;
        let changes = reading.query_row("SELECT changes FROM copy", [], |row| row.get(0))?;
        write(&reading, self.archive.id(), out)?;
        Ok(Changes(changes))
    }

    /// Records that a backup is about to be put, so that it is recognized as one of this state
    /// after a crash. If the one begun before was put (`is_begun_put`), it counts as confirmed.
    pub(crate) fn begin_backup(&self, version: VersionId, is_begun_put: bool) -> Result<(), StateError> {
        self.transact_even_if_displaced("begin a backup", |connection| {
            let update = "UPDATE copy SET version = iif(?2, begun, version), begun = ?1";
            connection.execute(update, params![version.0, is_begun_put]).map(drop)
        })
    }

    pub(crate) fn confirm_backup(&self, Changes(changes): Changes, version: VersionId) -> Result<(), StateError> {
        self.transact_even_if_displaced("record a backup", |connection| {
            connection.execute("UPDATE copy SET copied = ?1, version = ?2, begun = NULL", params![changes, version.0]).map(drop)
        })
    }
}

fn write(
    connection: &rusqlite::Connection,
    archive: ArchiveId,
    out: &mut dyn FnMut(Vec<u8>) -> io::Result<()>,
) -> Result<Counts, BackupError> {
    let mut lines = Lines { buffer: Vec::new(), out };
    let mut counts = Counts::default();
    lines.put(&Line::Head(Head { what: WHAT.to_owned(), format: FORMAT, archive: archive.to_string(), written_ms: now_ms() }))?;
    let mut accounts = connection.prepare(
        "SELECT name, id, admin, created, quota.account IS NOT NULL, open, bytes_a_day
         FROM account LEFT JOIN quota ON quota.account = name ORDER BY name",
    )?;
    let read = |row: &rusqlite::Row<'_>| {
        let quota = QuotaLine { open: row.get(5)?, bytes_a_day: row.get(6)? };
        Ok(AccountLine {
            name: row.get(0)?,
            id: row.get(1)?,
            admin: row.get(2)?,
            created_ms: row.get(3)?,
            restore_quota: row.get::<_, bool>(4)?.then_some(quota),
        })
    };
    for account in accounts.query_map([], read)? {
        lines.put(&Line::Account(account?))?;
        counts.accounts += 1;
    }
    buckets::each(connection, &mut |bucket| {
        counts.buckets += 1;
        lines.put(&Line::Bucket(bucket))
    })?;
    versions::for_each_state(connection, &mut |id, VersionState { tags, retention, legal_hold }| {
        counts.versions += 1;
        lines.put(&Line::Version(VersionLine { id: id.to_string(), tags, retention, legal_hold }))
    })?;
    lines.put(&Line::End(counts))?;
    lines.flush()?;
    Ok(counts)
}

struct Lines<'a> {
    buffer: Vec<u8>,
    out: &'a mut dyn FnMut(Vec<u8>) -> io::Result<()>,
}

impl Lines<'_> {
    fn put(&mut self, line: &Line) -> Result<(), BackupError> {
        let begin = self.buffer.len();
        serde_json::to_writer(&mut self.buffer, line).map_err(io::Error::from)?;
        let bytes = self.buffer.len() - begin;
        if bytes > LINE_BYTES_MAX {
            return Err(BackupError::TooLong { what: line.what(), bytes });
        }
        self.buffer.write_all(b"\n")?;
        if self.buffer.len() >= PIECE_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), BackupError> {
        Ok((self.out)(std::mem::take(&mut self.buffer))?)
    }
}

/// Reads a backup piece by piece into empty tables.
pub(super) struct Reader<'a> {
    connection: &'a rusqlite::Connection,
    archive: ArchiveId,
    /// The incomplete line at the end of the last piece.
    partial_line: Vec<u8>,
    line: u64,
    counts: Counts,
    end: Option<Counts>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(connection: &'a rusqlite::Connection, archive: ArchiveId) -> Self {
        Self { connection, archive, partial_line: Vec::new(), line: 0, counts: Counts::default(), end: None }
    }

    pub(super) fn read(&mut self, mut bytes: &[u8]) -> Result<(), BackupError> {
        while let Some(at) = bytes.iter().position(|&byte| byte == b'\n') {
            self.append_partial(&bytes[..at])?;
            bytes = &bytes[at + 1..];
            let line = std::mem::take(&mut self.partial_line);
            self.apply_line(&line)?;
        }
        self.append_partial(bytes)
    }

    fn append_partial(&mut self, bytes: &[u8]) -> Result<(), BackupError> {
        if self.partial_line.len() + bytes.len() > LINE_BYTES_MAX {
            self.line += 1;
            return Err(self.wrong(Malformed::TooLong));
        }
        self.partial_line.extend_from_slice(bytes);
        Ok(())
    }

    /// Checks that the backup is complete, and returns its counts.
    pub(super) fn end(self) -> Result<Counts, BackupError> {
        if self.partial_line.is_empty() && self.end == Some(self.counts) {
            return Ok(self.counts);
        }
        Err(BackupError::Counts { expected: self.end, found: self.counts })
    }

    fn wrong(&self, found: impl Into<Malformed>) -> BackupError {
        BackupError::Line { line: self.line, found: found.into() }
    }

    fn apply_line(&mut self, line: &[u8]) -> Result<(), BackupError> {
        self.line += 1;
        if self.line == 1 {
            // Only the format number of a newer format can be read.
            let head: serde_json::Value = serde_json::from_slice(line).map_err(|error| self.wrong(error))?;
            match head["head"]["format"].as_u64() {
                Some(1..=FORMAT) => {}
                Some(found) if found > FORMAT => return Err(BackupError::Newer { found }),
                _ => return Err(self.wrong(Malformed::NoHead)),
            }
        }
        let line: Line = serde_json::from_slice(line).map_err(|error| self.wrong(error))?;
        match line {
            Line::Head(head) if self.line == 1 => {
                let found: ArchiveId = head.archive.parse().map_err(|error| self.wrong(error))?;
                if found != self.archive {
                    return Err(BackupError::OtherArchive { found, expected: self.archive });
                }
            }
            Line::End(counts) if self.line > 1 && self.end.is_none() => self.end = Some(counts),
            line if self.line == 1 || self.end.is_some() || matches!(line, Line::Head(_)) => {
                return Err(self.wrong(Malformed::Misplaced));
            }
            Line::Account(AccountLine { name, id, admin, created_ms, restore_quota }) => {
                let statement = "INSERT INTO account (name, id, admin, created) VALUES (?1, ?2, ?3, ?4)";
                self.connection.prepare_cached(statement)?.execute(params![name, id, admin, created_ms])?;
                if let Some(QuotaLine { open, bytes_a_day }) = restore_quota {
                    let statement = "INSERT INTO quota (account, open, bytes_a_day) VALUES (?1, ?2, ?3)";
                    self.connection.prepare_cached(statement)?.execute(params![name, open, bytes_a_day])?;
                }
                self.counts.accounts += 1;
            }
            Line::Bucket(mut bucket) => {
                // Since the backup, a rule may have been withdrawn, or a version put under a legal
                // hold. An operator has to check that before a rule removes anything.
                bucket.lifecycle = bucket.lifecycle.map(Rules::disabled);
                buckets::insert(self.connection, &bucket)?;
                self.counts.buckets += 1;
            }
            Line::Version(VersionLine { id, tags, retention, legal_hold }) => {
                let id: VersionId = id.parse().map_err(|error| self.wrong(error))?;
                versions::set_version_state(self.connection, id, &VersionState { tags, retention, legal_hold })?;
                self.counts.versions += 1;
            }
            Line::Head(_) | Line::End(_) => unreachable!("handled above"),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
