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

use std::path::Path;
use std::time::Duration;

use super::destination::Stored;
use fulgurite_digest::{Algorithm, Digest};
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
    /// Its digest, as the inventory states it.
    pub expected: Option<Digest>,
    /// The SHA-256 with which it was read.
    pub sha256: Option<Digest>,
    /// Attempts that failed.
    pub attempts: u32,
    /// Why it failed last.
    pub reason: Option<String>,
    /// True if the migration wrote it to the destination before, so that it may be replaced there.
    pub was_written: bool,
    /// True if it was removed from the source.
    pub was_released: bool,
}

/// A file of an inventory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InventoryRow {
    /// Its location at the source.
    pub name: String,
    /// Its length.
    pub bytes: u64,
}

/// Counts of files that an inventory added or changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Added {
    /// Files that were not known.
    pub new: u64,
    /// Files whose length has changed.
    pub changed: u64,
    /// Released files that the source has again.
    pub reappeared: u64,
}

/// Counts of files that a list of digests has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AddedDigests {
    /// Files that the source has.
    pub known: u64,
    /// Files that only the list has.
    pub missing: u64,
    /// Files that were migrated with another SHA-256.
    pub wrong: u64,
}

impl std::ops::AddAssign for Added {
    fn add_assign(&mut self, more: Self) {
        self.new += more.new;
        self.changed += more.changed;
        self.reappeared += more.reappeared;
    }
}

/// Something that happened to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The destination acknowledged it.
    Written {
        /// Its digest when it was read.
        sha256: Digest,
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
        self.0.iter().fold((0, 0), |(files, bytes), (more_files, more_bytes)| (files + more_files, bytes + more_bytes))
    }
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
    /// A row can't be what this program wrote.
    #[error("the migration's database is damaged: {0}")]
    Damaged(&'static str),
}

/// The version of the schema.
const VERSION: i64 = 1;
/// Why a file failed that only a list of digests has.
const NOT_AT_THE_SOURCE: &str = "the list of digests has it, and the source doesn't";
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

const COLUMNS: &str = "id, name, bytes, family, expected, sha256, attempts, reason, was_written, was_released";

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
        match version(&transaction)? {
            0 => {
                transaction.execute_batch(SCHEMA)?;
                transaction.pragma_update(None, "user_version", VERSION)?;
            }
            VERSION => {}
            found => return Err(DatabaseError::Newer { found, known: VERSION }),
        }
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

    /// Adds files of an inventory. A file whose length has changed since an earlier inventory waits
    /// to be migrated, again if it was before; a digest that a list stated of it stays, and decides
    /// when it is read. A released file stays released. `family` names the family of a file.
    ///
    /// # Errors
    /// [`DatabaseError`]. Then nothing of these rows is added.
    pub fn add(&mut self, rows: &[InventoryRow], family: &dyn Fn(&str) -> String) -> Result<Added, DatabaseError> {
        let transaction = self.connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        let (mut added, mut moved) = (Added::default(), [(0_i64, 0_i64); State::ALL.len()]);
        for row in rows {
            let known: Option<(i64, i64, Option<String>, bool)> = transaction
                .prepare_cached("SELECT bytes, state, reason, was_released FROM file WHERE name = ?1")?
                .query_row([&row.name], |known| Ok((known.get(0)?, known.get(1)?, known.get(2)?, known.get(3)?)))
                .optional()?;
            let waiting = &mut moved[State::Waiting as usize];
            match known {
                None => {
                    let family = family_id(&transaction, &family(&row.name))?;
                    let sql = "INSERT INTO file (name, bytes, family) VALUES (?1, ?2, ?3)";
                    transaction.prepare_cached(sql)?.execute(params![row.name, row.bytes.cast_signed(), family])?;
                    *waiting = (waiting.0 + 1, waiting.1 + row.bytes.cast_signed());
                    added.new += 1;
                }
                // It is only at the destination, and what the source has now is another file.
                Some((.., true)) => added.reappeared += 1,
                Some((bytes, state, reason, false))
                    if bytes.cast_unsigned() != row.bytes || reason.as_deref() == Some(NOT_AT_THE_SOURCE) =>
                {
                    let sql = "UPDATE file SET bytes = ?2, state = 0, sha256 = NULL, attempts = 0, retry_at = NULL, reason = NULL WHERE name = ?1";
                    transaction.prepare_cached(sql)?.execute(params![row.name, row.bytes.cast_signed()])?;
                    *waiting = (waiting.0 + 1, waiting.1 + row.bytes.cast_signed());
                    let from = &mut moved[slot(state)?];
                    *from = (from.0 - 1, from.1 - bytes);
                    added.changed += 1;
                }
                Some(_) => {}
            }
        }
        for (state, (files, bytes)) in State::ALL.into_iter().zip(moved) {
            count(&transaction, state, files, bytes)?;
        }
        transaction.commit()?;
        Ok(added)
    }

    /// Adds digests that a list states; a later list overrides an earlier one. A file that was
    /// migrated is compared: by its SHA-256 at once, by another digest when it is migrated again.
    /// Files that no inventory had become failed ones, in the family that `family` names.
    ///
    /// # Errors
    /// [`DatabaseError`]. Then nothing of these rows is added.
    pub fn add_digests(&mut self, rows: &[(String, Digest)], family: &dyn Fn(&str) -> String) -> Result<AddedDigests, DatabaseError> {
        let transaction = self.connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        let (mut added, mut moved) = (AddedDigests::default(), [(0_i64, 0_i64); State::ALL.len()]);
        for (name, digest) in rows {
            let sql = "SELECT id, bytes, state, sha256, reason, expected FROM file WHERE name = ?1";
            let known = transaction.prepare_cached(sql)?.query_row([name], |row| {
                let (id, bytes, state): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
                let (sha256, reason, expected): (Option<Vec<u8>>, Option<String>, Option<String>) = (row.get(3)?, row.get(4)?, row.get(5)?);
                Ok((id, bytes, state, sha256, reason, expected))
            });
            let Some((id, bytes, state, sha256, reason, expected)) = known.optional()? else {
                let family = family_id(&transaction, &family(name))?;
                let sql = "INSERT INTO file (name, bytes, family, expected, state, reason) VALUES (?1, 0, ?2, ?3, 3, ?4)";
                transaction.prepare_cached(sql)?.execute(params![name, family, as_text(digest), NOT_AT_THE_SOURCE])?;
                moved[State::Failed as usize].0 += 1;
                added.missing += 1;
                continue;
            };
            if reason.as_deref() == Some(NOT_AT_THE_SOURCE) {
                added.missing += 1;
            } else {
                added.known += 1;
            }
            if expected.as_deref() == Some(&*as_text(digest)) {
                continue;
            }
            transaction.prepare_cached("UPDATE file SET expected = ?2 WHERE id = ?1")?.execute(params![id, as_text(digest)])?;
            let is_stored = [State::Written, State::Migrated, State::Released].into_iter().any(|of| of as i64 == state);
            if !is_stored || digest.algorithm() == Algorithm::Sha256 && sha256.as_deref() == Some(digest.value()) {
                continue;
            }
            let to = if digest.algorithm() == Algorithm::Sha256 {
                let reason = "it was migrated with another SHA-256 than the list of digests states";
                transaction.execute("UPDATE file SET state = 3, reason = ?2 WHERE id = ?1", params![id, reason])?;
                added.wrong += 1;
                State::Failed
            } else if state == State::Released as i64 {
                // The source doesn't have it any more.
                continue;
            } else {
                transaction.execute("UPDATE file SET state = 0, attempts = 0, retry_at = NULL WHERE id = ?1", [id])?;
                State::Waiting
            };
            for (index, sign) in [(slot(state)?, -1), (to as usize, 1)] {
                moved[index] = (moved[index].0 + sign, moved[index].1 + sign * bytes);
            }
        }
        for (state, (files, bytes)) in State::ALL.into_iter().zip(moved) {
            count(&transaction, state, files, bytes)?;
        }
        transaction.commit()?;
        Ok(added)
    }

    /// Waiting files that were not tried before, in the order of families and identifiers, after
    /// those up to `after`.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn waiting(&self, after: (u32, FileId), limit: usize) -> Result<Vec<FileRow>, DatabaseError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        // Two searches of the index: the rest of the family, and later families.
        let of_family = format!(
            "SELECT {COLUMNS} FROM file WHERE state = 0 AND retry_at IS NULL AND family = ?1 AND id > ?2 ORDER BY family, id LIMIT ?3"
        );
        let mut rows = self.rows(&of_family, params![after.0, after.1, limit])?;
        let later = format!("SELECT {COLUMNS} FROM file WHERE state = 0 AND retry_at IS NULL AND family > ?1 ORDER BY family, id LIMIT ?2");
        rows.extend(self.rows(&later, params![after.0, limit - rows.len() as i64])?);
        Ok(rows)
    }

    /// Takes files that may be tried again at `now`, seconds since 1970.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn take_retries(&mut self, now: u64, limit: usize) -> Result<Vec<FileRow>, DatabaseError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM file WHERE state = 0 AND retry_at IS NOT NULL AND retry_at <= ?1 ORDER BY retry_at, id LIMIT ?2"
        );
        let rows = self.rows(&sql, params![now.cast_signed(), limit.cast_signed() as i64])?;
        let transaction = self.connection.transaction()?;
        for row in &rows {
            transaction.prepare_cached("UPDATE file SET retry_at = NULL WHERE id = ?1")?.execute([row.id])?;
        }
        transaction.commit()?;
        Ok(rows)
    }

    /// When the next file may be tried again, in seconds since 1970.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn next_retry(&self) -> Result<Option<u64>, DatabaseError> {
        let sql = "SELECT min(retry_at) FROM file WHERE state = 0 AND retry_at IS NOT NULL";
        let at: Option<i64> = self.connection.query_row(sql, [], |row| row.get(0))?;
        Ok(at.map(i64::cast_unsigned))
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
                Change::Written { sha256, stored } => {
                    let sql = "UPDATE file SET state = 1, sha256 = ?2, was_written = was_written OR ?3, reason = NULL WHERE id = ?1";
                    transaction.prepare_cached(sql)?.execute(params![id, sha256.value(), *stored == Stored::Written])?;
                    State::Written
                }
                Change::Migrated { at } => {
                    let sql = "UPDATE file SET state = 2, migrated_at = ?2, attempts = 0, reason = NULL WHERE id = ?1";
                    transaction.prepare_cached(sql)?.execute(params![id, at.cast_signed()])?;
                    State::Migrated
                }
                Change::Retry { at, reason } => {
                    let sql = "UPDATE file SET state = 0, sha256 = NULL, attempts = attempts + 1, retry_at = ?2, reason = ?3 WHERE id = ?1";
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
                moved[index].1 += sign * bytes;
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

    /// Lets failed files be tried again, but for those that were released from the source. Returns
    /// their number.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn retry_failed(&mut self) -> Result<u64, DatabaseError> {
        let transaction = self.connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        let sql = "SELECT count(*), coalesce(sum(bytes), 0) FROM file WHERE state = 3 AND was_released = 0";
        let (files, bytes): (i64, i64) = transaction.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        transaction.execute("UPDATE file SET state = 0, attempts = 0, retry_at = NULL WHERE state = 3 AND was_released = 0", [])?;
        count(&transaction, State::Failed, -files, -bytes)?;
        count(&transaction, State::Waiting, files, bytes)?;
        transaction.commit()?;
        Ok(files.cast_unsigned())
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

/// The index of a stored state.
fn slot(state: i64) -> Result<usize, DatabaseError> {
    usize::try_from(state).ok().filter(|&state| state < State::ALL.len()).ok_or(DatabaseError::Damaged("unknown state"))
}

fn family_id(transaction: &Transaction<'_>, name: &str) -> Result<i64, DatabaseError> {
    let known = transaction.prepare_cached("SELECT id FROM family WHERE name = ?1")?.query_row([name], |row| row.get(0)).optional()?;
    if let Some(known) = known {
        return Ok(known);
    }
    transaction.prepare_cached("INSERT INTO family (name) VALUES (?1)")?.execute([name])?;
    Ok(transaction.last_insert_rowid())
}

fn count(transaction: &Transaction<'_>, state: State, files: i64, bytes: i64) -> Result<(), DatabaseError> {
    let sql = "UPDATE total SET files = files + ?2, bytes = bytes + ?3 WHERE state = ?1";
    transaction.prepare_cached(sql)?.execute(params![state as i64, files, bytes])?;
    Ok(())
}

fn read_row(row: &Row<'_>) -> Result<FileRow, DatabaseError> {
    let expected: Option<String> = row.get(4)?;
    let sha256: Option<Vec<u8>> = row.get(5)?;
    Ok(FileRow {
        id: row.get(0)?,
        name: row.get(1)?,
        bytes: row.get::<_, i64>(2)?.cast_unsigned(),
        family: row.get(3)?,
        expected: expected.map(|text| from_text(&text).ok_or(DatabaseError::Damaged("an expected digest"))).transpose()?,
        sha256: sha256.map(|value| Digest::new(Algorithm::Sha256, &value).ok_or(DatabaseError::Damaged("a digest"))).transpose()?,
        attempts: row.get(6)?,
        reason: row.get(7)?,
        was_written: row.get(8)?,
        was_released: row.get(9)?,
    })
}

fn as_text(digest: &Digest) -> String {
    format!("{}:{}", digest.algorithm(), digest.hex())
}

fn from_text(text: &str) -> Option<Digest> {
    let (algorithm, hex) = text.split_once(':')?;
    Digest::from_hex(algorithm.parse().ok()?, hex)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, bytes: u64) -> InventoryRow {
        InventoryRow { name: name.to_owned(), bytes }
    }

    fn sha256(byte: u8) -> Digest {
        Digest::new(Algorithm::Sha256, &[byte; 32]).expect("a digest")
    }

    fn opened() -> (tempfile::TempDir, Database) {
        let folder = tempfile::tempdir().expect("a folder");
        let database = Database::open(&folder.path().join("state.db")).expect("a database");
        (folder, database)
    }

    fn by_letter(name: &str) -> String {
        name[..1].to_owned()
    }

    #[test]
    fn files_are_offered_by_family_and_counted_by_state() {
        let (folder, mut database) = opened();
        database.add(&[row("b/1", 10), row("a/1", 20), row("b/2", 30)], &by_letter).expect("added");
        let names =
            |database: &Database| -> Vec<String> { database.waiting((0, 0), 10).expect("rows").into_iter().map(|row| row.name).collect() };
        assert_eq!(names(&database), ["b/1", "b/2", "a/1"]);
        assert_eq!(database.waiting((1, 3), 10).expect("rows").len(), 1);
        let changes = [
            (1, Change::Written { sha256: sha256(1), stored: Stored::Written }),
            (2, Change::Retry { at: 100, reason: "cut".into() }),
            (3, Change::Failed { reason: "gone".into() }),
        ];
        database.record(&changes).expect("recorded");
        drop(database);
        let mut database = Database::open(&folder.path().join("state.db")).expect("a database");
        let totals = database.totals().expect("totals");
        let of = |state| totals.of(state);
        assert_eq!((of(State::Waiting), of(State::Written), of(State::Failed), totals.all()), ((1, 20), (1, 10), (1, 30), (3, 60)));
        assert!(names(&database).is_empty() && database.next_retry().expect("a time") == Some(100));
        assert!(database.take_retries(99, 10).expect("rows").is_empty());
        let again = database.take_retries(100, 10).expect("rows");
        assert_eq!((again.len(), again[0].attempts, again[0].reason.as_deref()), (1, 1, Some("cut")));
        let written = database.in_state(State::Written, 0, 10).expect("rows");
        assert_eq!(written[0].sha256, Some(sha256(1)));
        database.record(&[(1, Change::Migrated { at: 50 })]).expect("recorded");
        assert_eq!(database.migrated_until(49, 0, 10).expect("rows").len(), 0);
        assert_eq!(database.migrated_until(50, 0, 10).expect("rows").len(), 1);
        assert_eq!(database.retry_failed().expect("retried"), 1);
        assert_eq!(database.totals().expect("totals").of(State::Waiting), (2, 50));
    }

    #[test]
    fn digests_agree_and_changed_files_wait() {
        let (_folder, mut database) = opened();
        let added = |new, changed, reappeared| Added { new, changed, reappeared };
        assert_eq!(database.add(&[row("a", 5), row("b", 6)], &by_letter).expect("added"), added(2, 0, 0));
        let md5 = |byte: u8| Digest::new(Algorithm::Md5, &[byte; 16]).expect("a digest");
        let digests = |database: &mut Database, name: &str, digest: Digest| {
            let added = database.add_digests(&[(name.into(), digest)], &by_letter).expect("added");
            (added.known, added.missing, added.wrong)
        };
        assert_eq!(digests(&mut database, "a", md5(1)), (1, 0, 0));
        assert_eq!(digests(&mut database, "a", sha256(1)), (1, 0, 0));
        assert_eq!(database.waiting((0, 0), 1).expect("a row")[0].expected, Some(sha256(1)));
        // Only the list has it, until the source has it too, even if it is empty.
        assert_eq!(digests(&mut database, "c", sha256(7)), (0, 1, 0));
        assert_eq!(digests(&mut database, "c", sha256(8)), (0, 1, 0));
        assert_eq!(database.totals().expect("totals").of(State::Failed), (1, 0));
        assert_eq!(database.add(&[row("c", 0), row("a", 5)], &by_letter).expect("added"), added(0, 1, 0));
        assert_eq!(database.totals().expect("totals").of(State::Failed), (0, 0));
        database.add(&[row("c", 9)], &by_letter).expect("it has grown");
        // A file that was migrated and changes is migrated again.
        database
            .record(&[(2, Change::Written { sha256: sha256(2), stored: Stored::Written }), (2, Change::Migrated { at: 1 })])
            .expect("recorded");
        assert_eq!(database.add(&[row("b", 8)], &by_letter).expect("added"), added(0, 1, 0));
        assert_eq!(database.totals().expect("totals").of(State::Waiting), (3, 22));
        assert!(database.waiting((0, 0), 9).expect("rows").iter().any(|row| row.name == "b" && row.was_written && row.sha256.is_none()));
        // A digest that comes late is compared with what was migrated.
        let migrate = |database: &mut Database| {
            let written = Change::Written { sha256: sha256(2), stored: Stored::Found };
            database.record(&[(2, written), (2, Change::Migrated { at: 1 })]).expect("recorded");
        };
        migrate(&mut database);
        assert_eq!(digests(&mut database, "b", sha256(2)), (1, 0, 0));
        assert_eq!(digests(&mut database, "b", md5(2)), (1, 0, 0));
        assert_eq!(database.totals().expect("totals").of(State::Waiting).0, 3, "it is read again");
        migrate(&mut database);
        assert_eq!(digests(&mut database, "b", sha256(3)), (1, 0, 1));
        assert_eq!(database.totals().expect("totals").of(State::Failed).0, 1);
        // What was released stays so.
        migrate(&mut database);
        database.record(&[(2, Change::Released)]).expect("recorded");
        assert_eq!(database.add(&[row("b", 99)], &by_letter).expect("added"), added(0, 0, 1));
        assert_eq!(database.totals().expect("totals").of(State::Released), (1, 8));
    }
}
