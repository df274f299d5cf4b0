//! Creates and migrates the SQLite files, and identifies them by their schemas.
//!
//! The schema version is SQLite's own `user_version`, maintained here by hand: a migration library
//! would bring some fifty crates for these few lines.

use fulgurite_domain::ArchiveId;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};

/// The schema of a file. Its first migration creates the table `archive`, which names the archive
/// that the file belongs to.
#[derive(Debug)]
pub struct Schema {
    /// Application id in the file's header, where `file` and other programs look for it.
    pub application: i32,
    /// Each migration leads from the schema version of its index to the next. Released migrations
    /// never change; new ones are appended. They are translated with [`in_sqlite`].
    pub migrations: &'static [&'static str],
}

/// Whose file a SQLite file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileOwner {
    /// It has the application id of the schema, and this schema version.
    This(i64),
    /// It has no tables yet.
    Unowned,
    /// Another program's. Most programs set neither an application id nor a version, so their files
    /// differ from an empty one only by their tables.
    OtherProgram,
}

impl Schema {
    /// The schema version that the migrations lead to.
    #[must_use]
    pub const fn newest(&self) -> i64 {
        self.migrations.len() as i64
    }

    /// Tells whose file it is, without changing it.
    ///
    /// # Errors
    /// SQLite's.
    pub fn identify(&self, connection: &Connection) -> rusqlite::Result<FileOwner> {
        // In one transaction: another process may be creating the tables.
        let reading = connection.unchecked_transaction()?;
        let application: i32 = reading.pragma_query_value(None, "application_id", |row| row.get(0))?;
        let version = version(&reading)?;
        if application == self.application {
            return Ok(FileOwner::This(version));
        }
        let is_empty = (application, version) == (0, 0)
            && reading.query_row("SELECT NOT EXISTS (SELECT 1 FROM sqlite_schema)", [], |row| row.get(0))?;
        Ok(if is_empty { FileOwner::Unowned } else { FileOwner::OtherProgram })
    }

    /// Creates the tables of an empty file, which then belongs to `archive`, or migrates those of
    /// an older schema, in one transaction. For an empty file, `fill` adds rows in it.
    ///
    /// # Errors
    /// SQLite's, or the error of `fill`.
    pub fn bring_up_to_date<E: From<rusqlite::Error>>(
        &self,
        connection: &mut Connection,
        archive: ArchiveId,
        fill: impl FnOnce(&Transaction<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // Read here: another process may have migrated the file first.
        let found = version(&transaction)?.clamp(0, self.newest());
        for migration in &self.migrations[found as usize..] {
            transaction.execute_batch(&in_sqlite(migration))?;
        }
        if found == 0 {
            transaction.execute("INSERT INTO archive (one, id) VALUES (1, ?1)", [archive.0])?;
            fill(&transaction)?;
            transaction.pragma_update(None, "application_id", self.application)?;
        }
        transaction.pragma_update(None, "user_version", self.newest())?;
        Ok(transaction.commit()?)
    }
}

/// The schema version of a file; 0 if it is empty.
///
/// # Errors
/// SQLite's.
pub fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Switches the file to a write-ahead log. The header of the file records that, so its owner must
/// be known by then.
///
/// # Errors
/// SQLite's.
pub fn begin_writing(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "journal_mode", "wal")?;
    // FULL: a commit is on stable storage when it returns. NORMAL could lose the last commits in a
    // power failure, and violate I7.
    connection.pragma_update(None, "synchronous", "full")
}

/// The archive that a file belongs to.
///
/// # Errors
/// SQLite's.
pub fn archive_of(connection: &Connection) -> rusqlite::Result<Option<ArchiveId>> {
    let id: Option<[u8; 16]> = connection.query_row("SELECT id FROM archive WHERE one = 1", [], |row| row.get(0)).optional()?;
    Ok(id.map(ArchiveId))
}

/// Translates a migration for SQLite. The catalogue's are written in PostgreSQL's SQL and used
/// unchanged, except for two words that SQLite spells differently: only `INTEGER PRIMARY KEY` makes
/// a column the rowid, and only `WITHOUT ROWID` stores a table in the order of its key. BYTEA and
/// BIGINT need no change, because SQLite accepts any type name and stores blobs and integers as
/// they come.
#[must_use]
pub fn in_sqlite(migration: &str) -> String {
    migration.replace("BIGINT PRIMARY KEY", "INTEGER PRIMARY KEY").replace("/*sqlite WITHOUT ROWID*/", "WITHOUT ROWID")
}
