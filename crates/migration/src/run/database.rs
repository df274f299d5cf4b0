//! What a migration knows of each file, in an SQLite database that survives kills.
//!
//! ```text
//! waiting -> written -> migrated -> released
//!    ^  |       |
//!    |  '-------'---> failed
//!    '--- tried again later
//! ```
//!
//! What is on its way is not recorded: after a kill, such files are waiting or written, and go on
//! from there.

mod keys;
mod listed;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

pub use self::keys::NamedFile;
pub use self::listed::{Added, AddedDigests, InventoryRow, Recalled};
use super::destination::Stored;
use fulgurite_digest::{Algorithm, Digest};
use fulgurite_domain::Modified;

use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};

/// Identifies a file of a migration.
pub type FileId = i64;

/// Where a file is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// It is to be read, the first time or again.
    Waiting,
    /// The destination acknowledged it; it was not read back yet.
    Written,
    /// It was read back from the destination, and has the digest with which it was read.
    Migrated,
    /// It was given up, for the recorded reason.
    Failed,
    /// It was migrated, and removed from the source.
    Released,
}

impl State {
    /// All states, in the order of their stored numbers.
    pub const ALL: [Self; 5] = [Self::Waiting, Self::Written, Self::Migrated, Self::Failed, Self::Released];

    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Written => "written",
            Self::Migrated => "migrated",
            Self::Failed => "failed",
            Self::Released => "released",
        }
    }
}

/// A file as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileRow {
    /// Its identifier.
    pub id: FileId,
    /// Its location at the source, and at the destination.
    pub name: String,
    /// Its length, as the inventory states it.
    pub bytes: u64,
    /// Its family.
    pub family: u32,
    /// Its digest, as a list states it, or else the source.
    pub expected: Option<Digest>,
    /// The SHA-256 with which it was read last, kept while it waits to be read again.
    pub sha256: Option<Digest>,
    /// When it was last modified at the source, as of that reading, if the source says so.
    pub modified: Option<Modified>,
    /// What the last inventory stated of it until it is replaced: an ETag, or a time.
    pub listed: Option<String>,
    /// Attempts that failed.
    pub attempts: u32,
    /// Why it failed last.
    pub reason: Option<String>,
    /// True if the migration wrote it to the destination before, so that it may be replaced there.
    pub was_written: bool,
    /// True if it was removed from the source.
    pub was_released: bool,
    /// The volume that contains it; [`NO_VOLUME`] if the source has no volumes.
    pub volume: u32,
    /// Its first block on the volume.
    pub block: u64,
    /// True if a user asked for it to be migrated before others.
    pub is_recalled: bool,
}

/// The volume of files at a source without volumes.
pub const NO_VOLUME: u32 = 0;

/// Where a file is in the order in which the files of a volume are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct ReadingOrder {
    block: u64,
    family: u32,
    id: FileId,
}

impl ReadingOrder {
    /// That of a file.
    #[must_use]
    pub fn of(row: &FileRow) -> Self {
        Self { block: row.block, family: row.family, id: row.id }
    }
}

/// Something that happened to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The destination acknowledged it.
    Written {
        /// Its digest when it was read.
        sha256: Digest,
        /// When it was last modified at the source, if the source says so.
        modified: Option<Modified>,
        /// How it got there.
        stored: Stored,
    },
    /// It was read back.
    Migrated {
        /// When, in seconds since 1970.
        at: u64,
    },
    /// A stage failed; it is tried again.
    Retry {
        /// When, in seconds since 1970.
        at: u64,
        /// Why.
        reason: String,
    },
    /// It is given up.
    Failed {
        /// Why.
        reason: String,
    },
    /// It was removed from the source.
    Released,
}

/// Files and bytes in each of [`State::ALL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals([(u64, u64); State::ALL.len()]);

impl Totals {
    /// Files and bytes in a state.
    #[must_use]
    pub fn of(&self, state: State) -> (u64, u64) {
        self.0[state as usize]
    }

    /// Files and bytes in all.
    #[must_use]
    pub fn all(&self) -> (u64, u64) {
        self.0.iter().fold((0, 0), |(files, bytes): (u64, u64), (more_files, more_bytes)| {
            (files.saturating_add(*more_files), bytes.saturating_add(*more_bytes))
        })
    }
}

/// Files that failed and wait for their next attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retries {
    /// How many.
    pub files: u64,
    /// When the first may be tried again, in seconds since 1970.
    pub first: u64,
    /// When the last may.
    pub last: u64,
}

/// The database can't be used.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// SQLite failed.
    #[error("the migration's database failed")]
    Engine(#[from] rusqlite::Error),
    /// A newer program wrote it.
    #[error("a newer version of this program made the migration's database (version {found}, this program knows {known})")]
    Newer {
        /// Its version.
        found: i64,
        /// The version that this program writes.
        known: i64,
    },
    /// A volume of the source is another than before.
    #[error("the tape {name} is another one than in the earlier inventory: {found}, not {known}")]
    OtherVolume {
        /// Its name.
        name: String,
        /// What it is now.
        found: String,
        /// What it was.
        known: String,
    },
    /// A file is on another volume than before, or no longer on one.
    #[error("{file:?} was on the tape {known} in the earlier inventory, and isn't now: is another tape mounted?")]
    Moved {
        /// The file.
        file: String,
        /// The volume that had it.
        known: String,
    },
    /// A row can't be what this program wrote.
    #[error("the migration's database is damaged: {0}")]
    Damaged(&'static str),
}

/// The version of the schema.
const VERSION: i64 = 4;
/// Why a file failed that only a list of digests has.
pub(super) const NOT_AT_THE_SOURCE: &str = "the list of digests has it, and the source doesn't";
/// Why a file failed that was in the inventory, and isn't at the source any more.
pub(super) const VANISHED: &str = "it is in the inventory, and no longer at the source";
/// What the reason begins with if a file was read with other content than before.
pub(super) const READ_OTHERWISE: &str = "wrong at the source: it was read with SHA-256 ";
/// Files to be tried again of which [`Database::take_retry`] chooses one.
const RETRIES_LOOKED_AT: usize = 256;
/// How long a command waits for another that writes.
const BUSY: Duration = Duration::from_secs(30);

const SCHEMA: &str = "
CREATE TABLE family (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE file (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    bytes INTEGER NOT NULL,
    family INTEGER NOT NULL REFERENCES family(id),
    -- As ALGORITHM:HEX.
    expected TEXT,
    state INTEGER NOT NULL DEFAULT 0,
    sha256 BLOB,
    -- 1 once the migration has written it to the destination, so that it may replace it there.
    was_written INTEGER NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL DEFAULT 0,
    -- Seconds since 1970, of a waiting file that is tried again.
    retry_at INTEGER,
    reason TEXT,
    -- Seconds since 1970.
    migrated_at INTEGER,
    -- 1 once it was removed from the source: what the source has under its name is another file.
    was_released INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX file_waiting ON file(family, id) WHERE state = 0 AND retry_at IS NULL;
CREATE INDEX file_retry ON file(retry_at) WHERE state = 0 AND retry_at IS NOT NULL;
CREATE INDEX file_written ON file(id) WHERE state = 1;
CREATE INDEX file_migrated ON file(id) WHERE state = 2;
CREATE INDEX file_failed ON file(id) WHERE state = 3;
CREATE INDEX file_released ON file(id) WHERE state = 4;
CREATE TABLE total (state INTEGER PRIMARY KEY, files INTEGER NOT NULL, bytes INTEGER NOT NULL) STRICT;
INSERT INTO total VALUES (0, 0, 0), (1, 0, 0), (2, 0, 0), (3, 0, 0), (4, 0, 0);
CREATE TABLE fact (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
";

/// What version 2 adds: volumes of the source, and files that go before others.
const SCHEMA_2: &str = "
CREATE TABLE volume (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, medium TEXT) STRICT;
ALTER TABLE file ADD COLUMN volume INTEGER NOT NULL DEFAULT 0;
ALTER TABLE file ADD COLUMN block INTEGER NOT NULL DEFAULT 0;
ALTER TABLE file ADD COLUMN recalled INTEGER NOT NULL DEFAULT 0;
-- The digest that the source states, as ALGORITHM:HEX; that of a list is `expected`.
ALTER TABLE file ADD COLUMN stated TEXT;
DROP INDEX file_waiting;
CREATE INDEX file_waiting ON file(volume, block, family, id) WHERE state = 0 AND retry_at IS NULL;
CREATE INDEX file_recalled ON file(volume, block, family, id) WHERE state = 0 AND retry_at IS NULL AND recalled = 1;
CREATE INDEX file_recalled_retry ON file(retry_at) WHERE state = 0 AND retry_at IS NOT NULL AND recalled = 1;
";

/// What version 3 adds: the time of modification with which a file was read, as seconds and
/// nanoseconds since 1970.
const SCHEMA_3: &str = "ALTER TABLE file ADD COLUMN modified TEXT;";

/// What version 4 adds: what the last inventory stated of a file until it is replaced.
const SCHEMA_4: &str = "ALTER TABLE file ADD COLUMN listed TEXT;";

const COLUMNS: &str = "id, name, bytes, family, coalesce(expected, stated), sha256, attempts, reason, was_written, was_released, volume, \
                       block, recalled, modified, listed";

/// The database of a migration.
#[derive(Debug)]
pub struct Database {
    connection: Connection,
}

impl Database {
    /// Opens a database, creating it if needed.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn open(path: &Path) -> Result<Self, DatabaseError> {
        let mut connection = Connection::open(path)?;
        connection.busy_timeout(BUSY)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        // A commit survives a power failure.
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "foreign_keys", true)?;
        let version = |connection: &Connection| connection.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0));
        if version(&connection)? == VERSION {
            return Ok(Self { connection });
        }
        let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        let found = version(&transaction)?;
        if found > VERSION {
            return Err(DatabaseError::Newer { found, known: VERSION });
        }
        for (version, added) in (1..).zip([SCHEMA, SCHEMA_2, SCHEMA_3, SCHEMA_4]) {
            if found < version {
                transaction.execute_batch(added)?;
            }
        }
        transaction.pragma_update(None, "user_version", VERSION)?;
        transaction.commit()?;
        Ok(Self { connection })
    }

    /// A named fact about the migration.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn fact(&self, name: &str) -> Result<Option<String>, DatabaseError> {
        let found = self.connection.query_row("SELECT value FROM fact WHERE name = ?1", [name], |row| row.get(0));
        Ok(found.optional()?)
    }

    /// Stores a fact.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn set_fact(&mut self, name: &str, value: &str) -> Result<(), DatabaseError> {
        self.connection.execute("INSERT INTO fact VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = ?2", [name, value])?;
        Ok(())
    }

    /// Identifies the migration: random, and the same from now on.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn identity(&mut self) -> Result<String, DatabaseError> {
        self.connection.execute("INSERT OR IGNORE INTO fact VALUES ('identity', lower(hex(randomblob(16))))", [])?;
        self.fact("identity")?.ok_or(DatabaseError::Damaged("no identity"))
    }

    /// True once a run has begun to migrate files: it asks for the [`identity`](Self::identity).
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn has_run(&self) -> Result<bool, DatabaseError> {
        Ok(self.fact("identity")?.is_some())
    }

    /// True if the inventory has a file of this name that wasn't released.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn has_file(&self, name: &str) -> Result<bool, DatabaseError> {
        let sql = "SELECT EXISTS (SELECT 1 FROM file WHERE name = ?1 AND was_released = 0)";
        Ok(self.connection.prepare_cached(sql)?.query_row([name], |row| row.get(0))?)
    }

    /// The file, if it waits, and not to be tried again after a failure.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn waiting_file(&self, id: FileId) -> Result<Option<FileRow>, DatabaseError> {
        let sql = format!("SELECT {COLUMNS} FROM file WHERE id = ?1 AND state = 0 AND retry_at IS NULL");
        Ok(self.rows(&sql, [id])?.pop())
    }

    /// Waiting files of a volume that were not tried before, after one of them, in the order of
    /// reading: by block, family and identifier.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn waiting(&self, volume: u32, after: ReadingOrder, limit: usize) -> Result<Vec<FileRow>, DatabaseError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM file WHERE state = 0 AND retry_at IS NULL AND volume = ?1 AND (block, family, id) > (?2, ?3, ?4)
             ORDER BY block, family, id LIMIT ?5"
        );
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.rows(&sql, params![volume, after.block.cast_signed(), after.family, after.id, limit])
    }

    /// The next volume, in the order of identifiers, with waiting files that were not tried before.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn next_volume(&self, after: Option<u32>) -> Result<Option<u32>, DatabaseError> {
        let sql = "SELECT min(volume) FROM file WHERE state = 0 AND retry_at IS NULL AND volume > ?1";
        Ok(self.connection.prepare_cached(sql)?.query_row([after.map_or(-1, i64::from)], |row| row.get(0))?)
    }

    /// Waiting files of a volume that users asked for, in the order in which they are read.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn recalled(&self, volume: u32, limit: usize) -> Result<Vec<FileRow>, DatabaseError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM file WHERE state = 0 AND retry_at IS NULL AND recalled = 1 AND volume = ?1
             ORDER BY block, family, id LIMIT ?2"
        );
        self.rows(&sql, params![volume, limit.cast_signed() as i64])
    }

    /// The next volume, in the order of identifiers, with waiting files that users asked for.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn next_recalled_volume(&self, after: Option<u32>) -> Result<Option<u32>, DatabaseError> {
        let sql = "SELECT min(volume) FROM file WHERE state = 0 AND retry_at IS NULL AND recalled = 1 AND volume > ?1";
        Ok(self.connection.prepare_cached(sql)?.query_row([after.map_or(-1, i64::from)], |row| row.get(0))?)
    }

    /// Takes a file that may be tried again at `now`, seconds since 1970, and isn't of one of the
    /// volumes `without`: one of the volume `mounted`, if one has waited long for it, else the one
    /// that has waited longest. With `recalled_only`, only files that users asked for.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn take_retry(
        &mut self,
        now: u64,
        recalled_only: bool,
        mounted: Option<u32>,
        without: &BTreeSet<u32>,
    ) -> Result<Option<FileRow>, DatabaseError> {
        let which = if recalled_only { "AND recalled = 1" } else { "" };
        let sql = format!(
            "SELECT {COLUMNS} FROM file WHERE state = 0 AND retry_at IS NOT NULL AND retry_at <= ?1 {which}
             AND volume NOT IN ({}) ORDER BY retry_at, id LIMIT {RETRIES_LOOKED_AT}",
            listed(without)
        );
        let rows = self.rows(&sql, params![now.cast_signed()])?;
        let row = rows.into_iter().min_by_key(|row| Some(row.volume) != mounted);
        if let Some(row) = &row {
            self.connection.prepare_cached("UPDATE file SET retry_at = NULL WHERE id = ?1")?.execute([row.id])?;
        }
        Ok(row)
    }

    /// When the next file may be tried again, in seconds since 1970, but for files of some volumes.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn next_retry(&self, without: &BTreeSet<u32>) -> Result<Option<u64>, DatabaseError> {
        let sql =
            format!("SELECT min(retry_at) FROM file WHERE state = 0 AND retry_at IS NOT NULL AND volume NOT IN ({})", listed(without));
        let at: Option<i64> = self.connection.query_row(&sql, [], |row| row.get(0))?;
        Ok(at.map(i64::cast_unsigned))
    }

    /// Lets no file wait for its next attempt longer than until `latest`, in seconds since 1970:
    /// the clock may have been ahead when it failed.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn limit_retries(&mut self, latest: u64) -> Result<(), DatabaseError> {
        let sql = "UPDATE file SET retry_at = ?1 WHERE state = 0 AND retry_at IS NOT NULL AND retry_at > ?1";
        self.connection.execute(sql, [latest.cast_signed()])?;
        Ok(())
    }

    /// Files that failed and are not tried again before some instant after `now`: how many, the
    /// first instant and the last, in seconds since 1970.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn retries_after(&self, now: u64) -> Result<Option<Retries>, DatabaseError> {
        let sql = "SELECT count(*), min(retry_at), max(retry_at) FROM file WHERE state = 0 AND retry_at IS NOT NULL AND retry_at > ?1";
        let (files, first, last): (i64, Option<i64>, Option<i64>) =
            self.connection.query_row(sql, [now.cast_signed()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let retries =
            |(first, last): (i64, i64)| Retries { files: files.cast_unsigned(), first: first.cast_unsigned(), last: last.cast_unsigned() };
        Ok(first.zip(last).map(retries))
    }

    /// The name of a volume.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn volume_name(&self, volume: u32) -> Result<String, DatabaseError> {
        Ok(self.connection.query_row("SELECT name FROM volume WHERE id = ?1", [volume], |row| row.get(0))?)
    }

    /// Files in a state, in the order of their identifiers, after one of them.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn in_state(&self, state: State, after: FileId, limit: usize) -> Result<Vec<FileRow>, DatabaseError> {
        let sql = format!("SELECT {COLUMNS} FROM file WHERE state = {} AND id > ?1 ORDER BY id LIMIT ?2", state as i64);
        self.rows(&sql, params![after, limit.cast_signed() as i64])
    }

    /// Migrated files in the order of their names, after one of them.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn migrated_by_name(&self, after: &str, limit: usize) -> Result<Vec<FileRow>, DatabaseError> {
        let sql = format!("SELECT {COLUMNS} FROM file WHERE name > ?1 AND state IN (2, 4) ORDER BY name LIMIT ?2");
        self.rows(&sql, params![after, limit.cast_signed() as i64])
    }

    /// Files that were migrated at `until` or before, in the order of their identifiers.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn migrated_until(&self, until: u64, after: FileId, limit: usize) -> Result<Vec<FileRow>, DatabaseError> {
        let sql = format!("SELECT {COLUMNS} FROM file WHERE state = 2 AND migrated_at <= ?1 AND id > ?2 ORDER BY id LIMIT ?3");
        self.rows(&sql, params![until.cast_signed(), after, limit.cast_signed() as i64])
    }

    /// Records changes in one transaction. They survive a crash once this returns.
    ///
    /// # Errors
    /// [`DatabaseError`]; then nothing is recorded.
    pub fn record(&mut self, changes: &[(FileId, Change)]) -> Result<(), DatabaseError> {
        let transaction = self.connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        let mut moved = [(0_i64, 0_i64); State::ALL.len()];
        for (id, change) in changes {
            let (state, bytes): (i64, i64) = transaction
                .prepare_cached("SELECT state, bytes FROM file WHERE id = ?1")?
                .query_row([id], |row| Ok((row.get(0)?, row.get(1)?)))?;
            let to = match change {
                Change::Written { sha256, modified, stored } => {
                    let sql = "UPDATE file SET state = 1, sha256 = ?2, was_written = was_written OR ?3, modified = ?4, reason = NULL
                               WHERE id = ?1";
                    let modified = modified.map(time_text);
                    transaction.prepare_cached(sql)?.execute(params![id, sha256.value(), *stored == Stored::Written, modified])?;
                    State::Written
                }
                Change::Migrated { at } => {
                    let sql = "UPDATE file SET state = 2, migrated_at = ?2, attempts = 0, reason = NULL WHERE id = ?1";
                    transaction.prepare_cached(sql)?.execute(params![id, at.cast_signed()])?;
                    State::Migrated
                }
                Change::Retry { at, reason } => {
                    // The digest stays: what is read again is compared with it.
                    let sql = "UPDATE file SET state = 0, attempts = attempts + 1, retry_at = ?2, reason = ?3 WHERE id = ?1";
                    transaction.prepare_cached(sql)?.execute(params![id, at.cast_signed(), reason])?;
                    State::Waiting
                }
                Change::Failed { reason } => {
                    let sql = "UPDATE file SET state = 3, attempts = attempts + 1, retry_at = NULL, reason = ?2 WHERE id = ?1";
                    transaction.prepare_cached(sql)?.execute(params![id, reason])?;
                    State::Failed
                }
                Change::Released => {
                    transaction
                        .prepare_cached("UPDATE file SET state = 4, was_released = 1, reason = NULL WHERE id = ?1")?
                        .execute([id])?;
                    State::Released
                }
            };
            let from = slot(state)?;
            for (index, sign) in [(from, -1), (to as usize, 1)] {
                moved[index].0 += sign;
                moved[index].1 = moved[index].1.saturating_add(sign * bytes);
            }
        }
        for (state, (files, bytes)) in State::ALL.into_iter().zip(moved) {
            if (files, bytes) != (0, 0) {
                count(&transaction, state, files, bytes)?;
            }
        }
        transaction.commit()?;
        Ok(())
    }

    /// Records changes that survive a kill of this process, and a power failure only once later
    /// ones are [recorded](Self::record): it waits for no disk.
    ///
    /// # Errors
    /// As [`record`](Self::record).
    pub fn record_unsynced(&mut self, changes: &[(FileId, Change)]) -> Result<(), DatabaseError> {
        if changes.is_empty() {
            return Ok(());
        }
        self.connection.pragma_update(None, "synchronous", "NORMAL")?;
        let recorded = self.record(changes);
        self.connection.pragma_update(None, "synchronous", "FULL")?;
        recorded
    }

    /// Lets failed files be tried again, but for those that were released from the source. Returns
    /// their number. Files that wait for their next attempts may be tried at once.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn retry_failed(&mut self) -> Result<u64, DatabaseError> {
        let transaction = self.connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        let sql = "SELECT count(*), coalesce(sum(bytes), 0) FROM file WHERE state = 3 AND was_released = 0";
        let (files, bytes): (i64, i64) = transaction.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        transaction.execute("UPDATE file SET state = 0, attempts = 0, retry_at = NULL WHERE state = 3 AND was_released = 0", [])?;
        transaction.execute("UPDATE file SET retry_at = 0 WHERE state = 0 AND retry_at IS NOT NULL", [])?;
        count(&transaction, State::Failed, -files, -bytes)?;
        count(&transaction, State::Waiting, files, bytes)?;
        transaction.commit()?;
        Ok(files.cast_unsigned())
    }

    /// Number of combinations of a volume and a family that have files. Reads all rows.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn groups(&self) -> Result<u64, DatabaseError> {
        let sql = "SELECT count(*) FROM (SELECT DISTINCT volume, family FROM file)";
        Ok(self.connection.query_row(sql, [], |row| row.get::<_, i64>(0))?.cast_unsigned())
    }

    /// Shows the sizes of all files in the order of reading, or of those that are waiting and were
    /// not tried before.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn sizes_in_order(&self, only_waiting: bool, each: &mut dyn FnMut(u64)) -> Result<(), DatabaseError> {
        let of = if only_waiting { "WHERE state = 0 AND retry_at IS NULL" } else { "" };
        let mut statement = self.connection.prepare(&format!("SELECT bytes FROM file {of} ORDER BY volume, block, family, id"))?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            each(row.get::<_, i64>(0)?.cast_unsigned());
        }
        Ok(())
    }

    /// Files and bytes in each state.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn totals(&self) -> Result<Totals, DatabaseError> {
        let mut totals = Totals::default();
        let mut statement = self.connection.prepare_cached("SELECT state, files, bytes FROM total")?;
        let rows = statement.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?)))?;
        for row in rows {
            let (state, files, bytes) = row?;
            totals.0[slot(state)?] = (files.cast_unsigned(), bytes.cast_unsigned());
        }
        Ok(totals)
    }

    fn rows(&self, sql: &str, parameters: impl rusqlite::Params) -> Result<Vec<FileRow>, DatabaseError> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let rows = statement.query_map(parameters, |row| Ok(read_row(row)))?;
        rows.map(|row| row.map_err(DatabaseError::from)?).collect()
    }
}

/// Numbers as a list in SQL.
fn listed(numbers: &BTreeSet<u32>) -> String {
    numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

/// The index of a stored state.
fn slot(state: i64) -> Result<usize, DatabaseError> {
    usize::try_from(state).ok().filter(|&state| state < State::ALL.len()).ok_or(DatabaseError::Damaged("unknown state"))
}

fn count(transaction: &Transaction<'_>, state: State, files: i64, bytes: i64) -> Result<(), DatabaseError> {
    let sql = "UPDATE total SET files = files + ?2, bytes = bytes + ?3 WHERE state = ?1";
    transaction.prepare_cached(sql)?.execute(params![state as i64, files, bytes])?;
    Ok(())
}

fn read_row(row: &Row<'_>) -> Result<FileRow, DatabaseError> {
    let expected: Option<String> = row.get(4)?;
    let sha256: Option<Vec<u8>> = row.get(5)?;
    let modified: Option<String> = row.get(13)?;
    Ok(FileRow {
        id: row.get(0)?,
        name: row.get(1)?,
        bytes: row.get::<_, i64>(2)?.cast_unsigned(),
        family: row.get(3)?,
        expected: expected.map(|text| from_text(&text).ok_or(DatabaseError::Damaged("an expected digest"))).transpose()?,
        sha256: sha256.map(|value| Digest::new(Algorithm::Sha256, &value).ok_or(DatabaseError::Damaged("a digest"))).transpose()?,
        modified: modified.map(|text| time_from(&text).ok_or(DatabaseError::Damaged("a time of modification"))).transpose()?,
        listed: row.get(14)?,
        attempts: row.get(6)?,
        reason: row.get(7)?,
        was_written: row.get(8)?,
        was_released: row.get(9)?,
        volume: row.get(10)?,
        block: row.get::<_, i64>(11)?.cast_unsigned(),
        is_recalled: row.get(12)?,
    })
}

pub(super) fn time_text(time: Modified) -> String {
    format!("{} {}", time.seconds, time.nanoseconds)
}

fn time_from(text: &str) -> Option<Modified> {
    let (seconds, nanoseconds) = text.split_once(' ')?;
    Some(Modified { seconds: seconds.parse().ok()?, nanoseconds: nanoseconds.parse().ok()? })
}

pub(super) fn as_text(digest: &Digest) -> String {
    format!("{}:{}", digest.algorithm(), digest.hex())
}

pub(super) fn from_text(text: &str) -> Option<Digest> {
    let (algorithm, hex) = text.split_once(':')?;
    Digest::from_hex(algorithm.parse().ok()?, hex)
}

#[cfg(test)]
mod tests;
