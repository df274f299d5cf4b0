//! The embedded key store: one SQLite file.
//!
//! Destroying a key means overwriting its bytes everywhere. `secure_delete` clears a row where it
//! is deleted, but SQLite also moves rows when it splits or merges pages, and does not promise to
//! clear the old places (with rows of unequal length, fragments of deleted ones could be found). So
//! rows that hold keys never move. They are appended in order, which adds pages without touching
//! earlier ones. All have the same size, and the row of a destroyed key is overwritten with zeros
//! in place and reused for another key.
//!
//! ```text
//! slot_of:   version identifier -> slot        may move, contains no keys
//! key_slot:  slot -> identifier, key, CRC-64   only appended or overwritten
//! ```
//!
//! The write-ahead log keeps old pages until it is emptied. [`KeyStore::destroy`] empties it before
//! it returns.

mod exports;

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::time::Duration;

use fulgurite_domain::{ArchiveId, VersionId};
use fulgurite_format::WrappedKey;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension, TransactionBehavior, params};

use super::{ExportMark, Exported, KeyStore, KeyStoreError};
use crate::catalogue::{is_damage, set_cache};
use crate::database::remove_database;
use crate::open_file::{InPlace, Keep, LogOfAnother, OpenFile, refuse_log_of_another};
use crate::pool::{self, Cache};
use crate::schema::{FileOwner, Schema, archive_of, begin_writing};
use crate::unwritable::explained;
use crate::volume::sync_folder_of;

/// The schema. The application id is "FuKe".
const SCHEMA: Schema = Schema { application: 0x4675_4b65, migrations: &[include_str!("keys.sql"), include_str!("keys_2.sql")] };

/// How long to wait for another process that is writing or reading.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes of a slot: version identifier, wrapped key and CRC-64.
pub(super) const SLOT_BYTES: usize = 64;

/// A key store in a SQLite file that only its owner may read.
#[derive(Debug)]
pub struct SqliteKeyStore {
    connection: Connection,
    /// `None` if nothing is to be stored in it for long.
    in_place: Option<Box<InPlace>>,
}

/// A failure, to which [`into_key_store_error`](Self::into_key_store_error) adds the operation.
enum EngineError {
    Sqlite(rusqlite::Error),
    Damaged(String),
    Refused(KeyStoreError),
}

impl From<LogOfAnother> for EngineError {
    fn from(error: LogOfAnother) -> Self {
        Self::Refused(error.into())
    }
}

impl From<rusqlite::Error> for EngineError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl EngineError {
    fn into_key_store_error(self, action: &'static str) -> KeyStoreError {
        match self {
            Self::Sqlite(error) if is_damage(&error) => KeyStoreError::Damaged(error.to_string()),
            Self::Sqlite(error) => KeyStoreError::Engine { action, source: explained(error) },
            Self::Damaged(found) => KeyStoreError::Damaged(found),
            Self::Refused(error) => error,
        }
    }
}

/// Cache of the connection that changes the key store, KiB.
const MAIN_KIB: u64 = 16_384;
/// Cache of a connection that only reads, KiB. Keys are looked up by version identifier, so most
/// pages are read once.
const READER_KIB: u64 = 1_024;

/// Memory of a connection in addition to its cache, KiB. Measured: 200 connections, each with a few
/// statements, took 150 each, including a small cache of 64.
const CONNECTION_KIB: u64 = 96;

/// Upper bound on the memory of all connections to a key store, KiB, if up to `reading` threads
/// read at once.
pub(crate) const fn memory_max_kib(reading: u64) -> u64 {
    pool::memory_max_kib(MAIN_KIB, READER_KIB, CONNECTION_KIB, reading)
}

impl SqliteKeyStore {
    /// Creates an empty key store.
    ///
    /// # Errors
    /// [`KeyStoreError::Engine`] if the file exists or can't be written; then no new file is left.
    pub fn create(path: &Path, archive: ArchiveId) -> Result<Self, KeyStoreError> {
        let action = "create its file";
        let io_error = |error: std::io::Error| KeyStoreError::Engine { action, source: Box::new(error) };
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        // SQLite gives its log the permissions of the file.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(path).map_err(io_error)?;

        let make = || {
            let mut connection = connect(path)?;
            begin_writing(&connection)?;
            SCHEMA.bring_up_to_date(&mut connection, archive, |_| Ok::<_, EngineError>(()))?;
            Ok(connection)
        };
        let made = make().map_err(|error: EngineError| error.into_key_store_error(action));
        let synced = made.and_then(|connection| sync_folder_of(path).map(|()| Self { connection, in_place: None }).map_err(io_error));
        synced.inspect_err(|_| _ = remove_database(path))
    }

    /// Opens a key store.
    ///
    /// # Errors
    /// [`KeyStoreError::Damaged`], [`KeyStoreError::Newer`], [`KeyStoreError::OtherArchive`], or
    /// [`KeyStoreError::Engine`] if the file does not exist.
    pub fn open(path: &Path, archive: ArchiveId) -> Result<Self, KeyStoreError> {
        let open = || {
            check_magic(path)?;
            refuse_log_of_another(path)?;
            let mut connection = connect(path)?;
            let found = admit(&connection, archive)?;
            begin_writing(&connection)?;
            if found < SCHEMA.newest() {
                SCHEMA.bring_up_to_date(&mut connection, archive, |_| Ok::<_, EngineError>(()))?;
            }
            // Completes a destruction that a crash interrupted between its two steps.
            empty_log(&connection, Duration::ZERO)?;
            Ok(connection)
        };
        let connection = open().map_err(|error: EngineError| error.into_key_store_error("open its file"))?;
        Ok(Self { connection, in_place: Some(Box::new(InPlace::of(path))) })
    }

    /// Saves the keys if the file is removed or replaced while it is open. The caller excludes
    /// other processes that may rightly do that.
    pub(crate) fn keep_in_place(&mut self) {
        if let Some(in_place) = &mut self.in_place {
            in_place.keep(Keep::Always);
        }
    }

    /// The open file, if it is watched.
    pub(crate) fn open_file(&self) -> Option<OpenFile> {
        self.in_place.as_ref().map(|in_place| in_place.file().clone())
    }

    /// Opens a key store for reading, while another connection may be writing.
    ///
    /// # Errors
    /// As [`SqliteKeyStore::open`].
    pub fn open_read_only(path: &Path, archive: ArchiveId) -> Result<Self, KeyStoreError> {
        refuse_log_of_another(path)?;
        Self::admit_reader(path, archive, || {
            Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)
        })
    }

    #[cfg(test)]
    pub(crate) fn cache_kib(&self) -> u64 {
        let size: i64 = self.connection.pragma_query_value(None, "cache_size", |row| row.get(0)).expect("a number");
        assert!(size < 0, "{size} pages");
        size.unsigned_abs()
    }

    /// Like [`open_read_only`](Self::open_read_only), but with the cache size of a pooled reader.
    pub(crate) fn open_reader(path: &Path, archive: ArchiveId, cache: Cache) -> Result<Self, KeyStoreError> {
        let reader = Self::open_read_only(path, archive)?;
        let set = set_cache(&reader.connection, cache.kib(READER_KIB));
        set.map_err(|error| EngineError::from(error).into_key_store_error("open its file"))?;
        Ok(reader)
    }

    /// Opens a key store for reading without writing anything. No process may change it while it is
    /// open.
    pub(crate) fn open_without_writing(path: &Path, archive: ArchiveId) -> Result<Self, KeyStoreError> {
        Self::admit_reader(path, archive, || crate::unwritable::connect(path))
    }

    fn admit_reader(
        path: &Path,
        archive: ArchiveId,
        connect: impl FnOnce() -> rusqlite::Result<Connection>,
    ) -> Result<Self, KeyStoreError> {
        let open = || {
            check_magic(path)?;
            let connection = connect()?;
            connection.busy_timeout(BUSY_TIMEOUT)?;
            connection.pragma_update(None, "trusted_schema", false)?;
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
            set_cache(&connection, READER_KIB)?;
            admit(&connection, archive)?;
            Ok(connection)
        };
        let connection = open().map_err(|error: EngineError| error.into_key_store_error("open its file"))?;
        Ok(Self { connection, in_place: None })
    }

    /// Changes something. What is committed to a file without a name is lost with the process, so
    /// this fails unless the file is in place after the commit.
    fn change<T>(&mut self, action: &'static str, work: impl FnOnce(&Connection) -> Result<T, EngineError>) -> Result<T, KeyStoreError> {
        // Also before, so that what is refused isn't there later.
        self.check_in_place()?;
        let changed = self.transaction(TransactionBehavior::Immediate, action, work)?;
        self.check_in_place()?;
        Ok(changed)
    }

    fn transaction<T>(
        &mut self,
        kind: TransactionBehavior,
        action: &'static str,
        work: impl FnOnce(&Connection) -> Result<T, EngineError>,
    ) -> Result<T, KeyStoreError> {
        let run = || {
            let transaction = self.connection.transaction_with_behavior(kind)?;
            let result = work(&transaction)?;
            transaction.commit()?;
            Ok(result)
        };
        run().map_err(|error: EngineError| error.into_key_store_error(action))
    }
}

fn connect(path: &Path) -> Result<Connection, EngineError> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "secure_delete", true)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    set_cache(&connection, MAIN_KIB)?;
    // Plans must not depend on bound values, or statements would be planned again.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // Keys must not spill into temporary files.
    connection.pragma_update(None, "temp_store", "memory")?;
    Ok(connection)
}

/// Rejects files that are not databases before SQLite opens them. SQLite removes the log of an
/// empty file, and that log may contain keys.
fn check_magic(path: &Path) -> Result<(), EngineError> {
    let mut beginning = [0; 16];
    // SQLite reports files that can't be opened or read.
    let Ok(mut file) = File::open(path) else { return Ok(()) };
    match std::io::Read::read_exact(&mut file, &mut beginning) {
        Ok(()) if beginning == *b"SQLite format 3\0" => Ok(()),
        Err(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => Ok(()),
        _ => Err(EngineError::Damaged("the file is not a key store".into())),
    }
}

/// Returns the schema version.
fn admit(connection: &Connection, archive: ArchiveId) -> Result<i64, EngineError> {
    let FileOwner::This(found) = SCHEMA.identify(connection)? else {
        return Err(EngineError::Damaged("the file is not a key store".into()));
    };
    let known = SCHEMA.newest();
    if found > known {
        return Err(EngineError::Refused(KeyStoreError::Newer { found, known }));
    }
    match archive_of(connection)? {
        None => Err(EngineError::Damaged("it does not name its archive".into())),
        Some(found) if found != archive => Err(EngineError::Refused(KeyStoreError::OtherArchive { found, expected: archive })),
        Some(_) => Ok(found),
    }
}

/// Checkpoints the log into the file and truncates it. `false` if another connection still reads
/// from it after `timeout`.
fn empty_log(connection: &Connection, timeout: Duration) -> Result<bool, EngineError> {
    connection.busy_timeout(timeout)?;
    let busy: rusqlite::Result<i64> = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0));
    connection.busy_timeout(BUSY_TIMEOUT)?;
    Ok(busy? == 0)
}

fn pack(slot: i64, id: VersionId, key: &WrappedKey) -> [u8; SLOT_BYTES] {
    let mut content = [0; SLOT_BYTES];
    content[..16].copy_from_slice(&id.0);
    content[16..56].copy_from_slice(&key.0);
    let check = slot_check(slot, &content);
    content[56..].copy_from_slice(&check);
    content
}

fn unpack(slot: i64, id: VersionId, content: &[u8; SLOT_BYTES]) -> Result<WrappedKey, EngineError> {
    if content[56..] != slot_check(slot, content) || content[..16] != id.0 {
        return Err(EngineError::Damaged(format!("the checksum of the key of version {id} is wrong")));
    }
    let mut key = [0; 40];
    key.copy_from_slice(&content[16..56]);
    Ok(WrappedKey(key))
}

fn slot_check(slot: i64, content: &[u8; SLOT_BYTES]) -> [u8; 8] {
    let mut checked = [0; 64];
    checked[..56].copy_from_slice(&content[..56]);
    checked[56..].copy_from_slice(&slot.to_le_bytes());
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, &checked).to_le_bytes()
}

fn find(connection: &Connection, id: VersionId) -> Result<Option<(i64, WrappedKey)>, EngineError> {
    let mut statement = connection.prepare_cached("SELECT slot, content FROM slot_of LEFT JOIN key_slot USING (slot) WHERE id = ?1")?;
    let found: Option<(i64, [u8; SLOT_BYTES])> = statement.query_row([id.0], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    found.map(|(slot, content)| Ok((slot, unpack(slot, id, &content)?))).transpose()
}

fn insert(connection: &Connection, keys: &[(VersionId, WrappedKey)]) -> Result<(), EngineError> {
    let mut inserted = 0;
    let (mut count, mut next): (i64, i64) =
        connection.query_row("SELECT keys, next_slot FROM counter WHERE one = 1", [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mut reuse = connection.prepare_cached("DELETE FROM free_slot WHERE slot = (SELECT min(slot) FROM free_slot) RETURNING slot")?;
    let mut overwrite = connection.prepare_cached("UPDATE key_slot SET content = ?2 WHERE slot = ?1")?;
    let mut append = connection.prepare_cached("INSERT INTO key_slot (slot, content) VALUES (?1, ?2)")?;
    let mut link = connection.prepare_cached("INSERT INTO slot_of (id, slot) VALUES (?1, ?2) ON CONFLICT DO NOTHING")?;
    let mut may_reuse = true;
    for &(id, key) in keys {
        let free: Option<i64> = if may_reuse { reuse.query_row([], |row| row.get(0)).optional()? } else { None };
        may_reuse = free.is_some();
        let slot = free.unwrap_or(next);
        if link.execute(params![id.0, slot])? == 0 {
            if let Some(free) = free {
                connection.prepare_cached("INSERT INTO free_slot (slot) VALUES (?1)")?.execute([free])?;
            }
            match find(connection, id)? {
                Some((_, known)) if known == key => continue,
                _ => return Err(EngineError::Refused(KeyStoreError::OtherKey(id))),
            }
        }
        let content = pack(slot, id, &key);
        if free.is_some() {
            if overwrite.execute(params![slot, content])? != 1 {
                return Err(EngineError::Damaged(format!("slot {slot} is missing")));
            }
        } else {
            append.execute(params![slot, content])?;
            next += 1;
        }
        count += 1;
        inserted += 1;
    }
    let update = "UPDATE counter SET keys = ?1, next_slot = ?2, inserted = inserted + ?3 WHERE one = 1";
    connection.execute(update, [count, next, inserted])?;
    Ok(())
}

fn destroy(connection: &Connection, ids: &[VersionId]) -> Result<(), EngineError> {
    let mut unlink = connection.prepare_cached("DELETE FROM slot_of WHERE id = ?1 RETURNING slot")?;
    let mut overwrite = connection.prepare_cached("UPDATE key_slot SET content = ?2 WHERE slot = ?1")?;
    let mut free = connection.prepare_cached("INSERT INTO free_slot (slot) VALUES (?1)")?;
    let mut destroyed = 0;
    for id in ids {
        let Some(slot): Option<i64> = unlink.query_row([id.0], |row| row.get(0)).optional()? else { continue };
        overwrite.execute(params![slot, [0u8; SLOT_BYTES]])?;
        free.execute([slot])?;
        destroyed += 1;
    }
    connection.execute("UPDATE counter SET keys = keys - ?1 WHERE one = 1", [destroyed])?;
    Ok(())
}

fn page(connection: &Connection, after: Option<VersionId>, limit: usize) -> Result<Vec<(VersionId, WrappedKey)>, EngineError> {
    let condition = if after.is_some() { ">" } else { ">=" };
    let mut statement = connection.prepare_cached(&format!(
        "SELECT id, slot, content FROM slot_of LEFT JOIN key_slot USING (slot) WHERE id {condition} ?1 ORDER BY id LIMIT ?2"
    ))?;
    let from = after.map_or(Vec::new(), |after| after.0.to_vec());
    let mut rows = statement.query(params![from, i64::try_from(limit).unwrap_or(i64::MAX)])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let (id, slot, content): ([u8; 16], i64, [u8; SLOT_BYTES]) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let id = VersionId(id);
        found.push((id, unpack(slot, id, &content)?));
    }
    Ok(found)
}

fn check(connection: &Connection) -> Result<(), EngineError> {
    let verdict: String = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if verdict != "ok" {
        return Err(EngineError::Damaged(verdict));
    }
    let mut keys = 0;
    let mut last = None;
    loop {
        let found = page(connection, last, 1_000)?;
        let Some(&(id, _)) = found.last() else { break };
        keys += found.len() as i64;
        last = Some(id);
    }
    let counted: (i64, i64, i64, i64) = connection.query_row(
        "SELECT keys, next_slot - 1, (SELECT count(*) FROM key_slot), (SELECT count(*) FROM free_slot) FROM counter WHERE one = 1",
        [],
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)),
    )?;
    let (expected, given, slots, free) = counted;
    if keys != expected || slots != given || slots - free != keys {
        return Err(EngineError::Damaged(format!("{keys} keys in {slots} slots, {free} of them free, but expected {expected} in {given}")));
    }
    Ok(())
}

impl KeyStore for SqliteKeyStore {
    fn insert(&mut self, keys: &[(VersionId, WrappedKey)]) -> Result<(), KeyStoreError> {
        self.change("store keys", |connection| insert(connection, keys))
    }

    fn get(&mut self, id: VersionId) -> Result<Option<WrappedKey>, KeyStoreError> {
        let found = find(&self.connection, id).map_err(|error| error.into_key_store_error("find a key"))?;
        Ok(found.map(|(_, key)| key))
    }

    fn get_many(&mut self, ids: &[VersionId]) -> Result<Vec<Option<WrappedKey>>, KeyStoreError> {
        self.transaction(TransactionBehavior::Deferred, "find keys", |connection| {
            ids.iter().map(|&id| Ok(find(connection, id)?.map(|(_, key)| key))).collect()
        })
    }

    fn destroy(&mut self, ids: &[VersionId]) -> Result<(), KeyStoreError> {
        let action = "destroy keys";
        self.change(action, |connection| destroy(connection, ids))?;
        match empty_log(&self.connection, BUSY_TIMEOUT).map_err(|error| error.into_key_store_error(action))? {
            true => Ok(()),
            false => Err(KeyStoreError::Engine { action, source: "another process is still reading the old keys; try again".into() }),
        }
    }

    fn page(&mut self, after: Option<VersionId>, limit: usize) -> Result<Vec<(VersionId, WrappedKey)>, KeyStoreError> {
        page(&self.connection, after, limit).map_err(|error| error.into_key_store_error("list keys"))
    }

    fn len(&mut self) -> Result<u64, KeyStoreError> {
        let keys: rusqlite::Result<i64> = self.connection.query_row("SELECT keys FROM counter WHERE one = 1", [], |row| row.get(0));
        let keys = keys.map_err(|error| EngineError::from(error).into_key_store_error("count keys"))?;
        u64::try_from(keys).map_err(|_| KeyStoreError::Damaged(format!("its key count is {keys}")))
    }

    fn export_mark(&mut self) -> Result<ExportMark, KeyStoreError> {
        exports::mark(&self.connection).map_err(|error| error.into_key_store_error("count keys"))
    }

    fn note_export(&mut self, mark: ExportMark, at_ms: u64) -> Result<(), KeyStoreError> {
        self.change("record an export", |connection| exports::note(connection, mark, at_ms))
    }

    fn exported(&mut self) -> Result<Option<Exported>, KeyStoreError> {
        exports::status(&self.connection).map_err(|error| error.into_key_store_error("look up the last export"))
    }

    fn check_in_place(&mut self) -> Result<(), KeyStoreError> {
        match &mut self.in_place {
            Some(in_place) => Ok(in_place.check(&self.connection)?),
            None => Ok(()),
        }
    }

    fn check(&mut self) -> Result<(), KeyStoreError> {
        self.transaction(TransactionBehavior::Deferred, "check itself", check)
    }
}

impl Drop for SqliteKeyStore {
    fn drop(&mut self) {
        // The last chance to save the keys of a file that lost its name.
        let _ = self.check_in_place();
    }
}

#[cfg(test)]
mod tests;
