//! The embedded database: one SQLite file.
//!
//! Any number of processes may read it while one checks copies; a lock on the file beside it
//! (`.lock`) keeps a second one from checking. Claims are in memory and so end with the process.
//! Each commit is synced. Memory is bounded by the page cache.

use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};

use super::{
    Age, AuditDatabase, Checked, Claim, DatabaseError, DetectorState, Event, EventKind, FileHistory, Hour, Incident, Problem, RemovedNode,
    Source, Subject, Total, UnfinishedImport, digests,
};
use crate::check::Witness;
use crate::copy::{FileId, Method, NodeId, State};
use crate::inventory::{Imported, InventoryError, Row};
use crate::node::{Medium, Node, Rules};
use crate::overdue::Overdue;
use crate::series::Series;

mod benchmarks;
mod checks;
mod counts;
mod import;
mod moving;
mod questions;
mod removal;

/// "Fulg" and "audit", in `PRAGMA application_id`.
const APPLICATION: i64 = 0x4661_7564;
const VERSION: i64 = 2;
const SCHEMA: &str = include_str!("../schema.sql");
/// What version 2 added.
const SCHEMA_2: &str = include_str!("../schema_2.sql");
/// Pages that SQLite may keep in memory, in KiB.
const CACHE_KIB: i64 = 48 << 10;
const MOST_NODES: u16 = 10_000;

/// How a database is opened.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    ReadWrite,
    /// For reading only, without the index of the log, which can't be created on a read-only file
    /// system. No process may change the file meanwhile.
    Immutable,
}

/// An audit's database in one SQLite file.
pub struct Sqlite {
    connection: Connection,
    path: PathBuf,
    /// Copies that are being checked.
    claimed: HashMap<NodeId, HashSet<FileId>>,
    /// Held while this process checks copies.
    lock: Option<File>,
    /// Commits with verified copies, which choose the slot of the next witness.
    witnessed: u64,
}

impl Sqlite {
    /// Creates a database.
    ///
    /// # Errors
    /// If the file exists or can't be written.
    pub fn create(path: &Path) -> Result<Self, DatabaseError> {
        let file = OpenOptions::new().write(true).create_new(true).open(path).map_err(|source| match source.kind() {
            std::io::ErrorKind::AlreadyExists => DatabaseError::Exists { path: path.into() },
            _ => DatabaseError::File { doing: "create", path: path.into(), source },
        })?;
        drop(file);
        // What a full disk leaves would be no database, and would block the next attempt.
        Self::made(path).inspect_err(|_| remove_database(path))
    }

    /// Makes the tables in an empty file.
    fn made(path: &Path) -> Result<Self, DatabaseError> {
        let database = Self::connected(path, Mode::ReadWrite)?;
        database.tune(Mode::ReadWrite)?;
        let create = || {
            let transaction = database.connection.unchecked_transaction()?;
            transaction.execute_batch(SCHEMA)?;
            transaction.execute_batch(SCHEMA_2)?;
            transaction.pragma_update(None, "application_id", APPLICATION)?;
            transaction.pragma_update(None, "user_version", VERSION)?;
            transaction.commit()
        };
        create().map_err(engine("create the tables"))?;
        Ok(database)
    }

    /// Opens an existing database. On a read-only file system, it can only be read.
    ///
    /// # Errors
    /// If the file is absent, is something else, or was made by a newer version; or if a crash left
    /// a log next to it, on a read-only file system.
    pub fn open(path: &Path) -> Result<Self, DatabaseError> {
        match std::fs::metadata(path) {
            Ok(_) => {}
            Err(source) if source.kind() == std::io::ErrorKind::NotFound => return Err(DatabaseError::Absent { path: path.into() }),
            Err(source) => return Err(DatabaseError::File { doing: "open", path: path.into(), source }),
        }
        // With its log and index there, SQLite can read beside a process that writes elsewhere, as
        // through a read-only mount of a container.
        let is_in_use = ["-wal", "-shm"].iter().all(|suffix| with_suffix(path, suffix).exists());
        if on_read_only_file_system(path) && !is_in_use {
            if with_suffix(path, "-wal").metadata().is_ok_and(|log| log.len() > 0) {
                return Err(DatabaseError::UnmergedLog { path: path.into() });
            }
            return Self::opened(path, Mode::Immutable);
        }
        Self::opened(path, Mode::ReadWrite)
    }

    fn opened(path: &Path, mode: Mode) -> Result<Self, DatabaseError> {
        let database = Self::connected(path, mode)?;
        let number = |pragma: &str| database.connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
        let foreign = |error: rusqlite::Error| match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::NotADatabase) => DatabaseError::Foreign { path: path.into() },
            _ => engine("open the database")(error),
        };
        if number("application_id").map_err(foreign)? != APPLICATION {
            return Err(DatabaseError::Foreign { path: path.into() });
        }
        let version = number("user_version").map_err(foreign)?;
        if version > VERSION {
            return Err(DatabaseError::Newer { path: path.into(), found: version, known: VERSION });
        }
        database.tune(mode)?;
        if version < VERSION {
            database.migrate().map_err(engine("bring the tables up to date"))?;
        }
        Ok(database)
    }

    /// Brings the tables of version 1 up to date. Another process may do it at the same time.
    fn migrate(&self) -> rusqlite::Result<()> {
        self.connection.execute_batch("BEGIN IMMEDIATE")?;
        let version: i64 = self.connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        if version < VERSION {
            self.connection.execute_batch(SCHEMA_2)?;
            self.connection.pragma_update(None, "user_version", VERSION)?;
        }
        self.connection.execute_batch("COMMIT")
    }

    fn connected(path: &Path, mode: Mode) -> Result<Self, DatabaseError> {
        let connect = || {
            let connection = match mode {
                Mode::ReadWrite => Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?,
                Mode::Immutable => {
                    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
                    Connection::open_with_flags(immutable_address(path), flags)?
                }
            };
            connection.busy_timeout(Duration::from_secs(60))?;
            Ok(connection)
        };
        let connection = connect().map_err(engine("open the database"))?;
        connection.set_prepared_statement_cache_capacity(64);
        Ok(Self { connection, path: path.into(), claimed: HashMap::new(), lock: None, witnessed: 0 })
    }

    /// Sets how this process uses the database. The journal mode is written into the file, so it
    /// must be known to be an audit's.
    fn tune(&self, mode: Mode) -> Result<(), DatabaseError> {
        let tune = || {
            // Plans must not depend on bound values: SQLite would otherwise plan a statement again
            // whenever the values differ, which costs more than running it.
            self.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
            if mode == Mode::ReadWrite {
                self.connection.pragma_update(None, "journal_mode", "WAL")?;
                self.connection.pragma_update(None, "synchronous", "FULL")?;
            }
            self.connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
            self.connection.pragma_update(None, "temp_store", "FILE")?;
            self.connection.pragma_update(None, "foreign_keys", false)
        };
        tune().map_err(engine("open the database"))
    }

    /// Takes the lock of the process that checks copies, unless this one has it.
    fn lock(&mut self) -> Result<(), DatabaseError> {
        if self.lock.is_some() {
            return Ok(());
        }
        let lock = lock_beside(&self.path, ".lock")?;
        self.lock = Some(lock.ok_or_else(|| DatabaseError::InUse { path: self.path.clone() })?);
        Ok(())
    }
}

/// Takes the lock on a file beside a database; `None` if another process has it.
fn lock_beside(database: &Path, suffix: &str) -> Result<Option<File>, DatabaseError> {
    let path = with_suffix(database, suffix);
    let failed = |source| DatabaseError::File { doing: "lock", path: path.clone(), source };
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(std::fs::TryLockError::WouldBlock) => Ok(None),
        Err(std::fs::TryLockError::Error(source)) => Err(failed(source)),
    }
}

/// Removes a database with its logs.
fn remove_database(path: &Path) {
    for suffix in ["-wal", "-shm", "-journal", ""] {
        let _ = std::fs::remove_file(with_suffix(path, suffix));
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

fn on_read_only_file_system(path: &Path) -> bool {
    rustix::fs::statvfs(path).is_ok_and(|system| system.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY))
}

/// The address by which SQLite opens a file as immutable.
fn immutable_address(path: &Path) -> String {
    let mut address = "file:".to_owned();
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' => address.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => address.push(char::from(byte)),
            _ => address += &format!("%{byte:02X}"),
        }
    }
    address + "?immutable=1"
}

/// Wraps an error of SQLite.
fn engine(doing: &'static str) -> impl Fn(rusqlite::Error) -> DatabaseError {
    move |source| DatabaseError::Engine { doing, source: Box::new(source) }
}

/// SQLite's integers are signed; dates and lengths beyond their range are as good as endless.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

fn decoded_digests(bytes: &[u8]) -> Result<Vec<fulgurite_digest::Digest>, DatabaseError> {
    digests::decode(bytes).ok_or(DatabaseError::Damaged { table: "files", what: "its digests can't be decoded".into() })
}

fn decoded_state(number: u8) -> Result<State, DatabaseError> {
    State::from_number(number).ok_or_else(|| DatabaseError::Damaged { table: "copies", what: format!("no state has the number {number}") })
}

impl AuditDatabase for Sqlite {
    fn nodes(&mut self) -> Result<Vec<Node>, DatabaseError> {
        let damaged = |what: String| DatabaseError::Damaged { table: "nodes", what };
        let read = engine("read the nodes");
        let mut statement = self
            .connection
            .prepare_cached(
                "SELECT node, name, place, options, medium, interval_s, method, workers, bytes_per_second, files_per_second, all_digests, \
                 base_s, ns_per_byte FROM nodes ORDER BY node",
            )
            .map_err(&read)?;
        let mut rows = statement.query([]).map_err(&read)?;
        let mut nodes = Vec::new();
        while let Some(row) = rows.next().map_err(&read)? {
            let node = || -> rusqlite::Result<_> {
                let options: String = row.get(3)?;
                let medium: u8 = row.get(4)?;
                let method: u8 = row.get(6)?;
                let optional = |column| row.get::<_, Option<i64>>(column).map(|number| number.map(unsigned));
                let rules = Rules {
                    interval: Duration::from_secs(unsigned(row.get(5)?)),
                    method: Method::Stream,
                    workers: row.get(7)?,
                    bytes_per_second: optional(8)?,
                    files_per_second: optional(9)?,
                    all_digests: row.get(10)?,
                };
                let times: (Option<f64>, Option<f64>) = (row.get(11)?, row.get(12)?);
                let node = Node {
                    id: NodeId(row.get(0)?),
                    name: row.get(1)?,
                    place: row.get(2)?,
                    options: Vec::new(),
                    medium: Medium::Disk,
                    rules,
                    expected_time: times.0.zip(times.1),
                };
                Ok((node, options, medium, method))
            };
            let (mut node, options, medium, method) = node().map_err(&read)?;
            node.medium = Medium::from_number(medium).ok_or_else(|| damaged(format!("no medium has the number {medium}")))?;
            node.rules.method = Method::from_number(method).ok_or_else(|| damaged(format!("no method has the number {method}")))?;
            let split = |line: &str| line.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
            node.options = options.lines().map(split).collect::<Option<_>>().ok_or_else(|| damaged("an option has no value".to_owned()))?;
            nodes.push(node);
        }
        Ok(nodes)
    }

    fn add_node(&mut self, node: &Node) -> Result<NodeId, DatabaseError> {
        let failed = engine("add a node");
        let transaction = self.connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).map_err(&failed)?;
        let has_name = |sql| transaction.query_row(sql, [&node.name], |_| Ok(())).optional().map_err(&failed);
        if has_name("SELECT 1 FROM nodes WHERE name = ?1")?.is_some() {
            return Err(DatabaseError::NodeExists { name: node.name.clone() });
        }
        if has_name("SELECT 1 FROM removed_nodes WHERE name = ?1")?.is_some() {
            return Err(DatabaseError::NodeRemoved { name: node.name.clone() });
        }
        // Numbers are not used again: the history of a removed node would become the new one's.
        let next: i64 = transaction
            .query_row(
                "SELECT 1 + max((SELECT coalesce(max(node), 0) FROM nodes), (SELECT coalesce(max(node), 0) FROM hours), \
                 (SELECT coalesce(max(node), 0) FROM removed_nodes))",
                [],
                |row| row.get(0),
            )
            .map_err(&failed)?;
        let id = u16::try_from(next).ok().filter(|id| *id <= MOST_NODES).ok_or(DatabaseError::TooManyNodes { most: MOST_NODES })?;
        insert_node(&transaction, NodeId(id), node).map_err(&failed)?;
        transaction.commit().map_err(&failed)?;
        Ok(NodeId(id))
    }

    fn add_node_again(&mut self, node: &Node) -> Result<NodeId, DatabaseError> {
        let failed = engine("add a node");
        let transaction = self.connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).map_err(&failed)?;
        let sql = "DELETE FROM removed_nodes WHERE name = ?1 RETURNING node";
        let id: Option<u16> = transaction.query_row(sql, [&node.name], |row| row.get(0)).optional().map_err(&failed)?;
        let id = NodeId(id.ok_or_else(|| DatabaseError::NotRemoved { name: node.name.clone() })?);
        insert_node(&transaction, id, node).map_err(&failed)?;
        transaction.commit().map_err(&failed)?;
        Ok(id)
    }

    fn removed_nodes(&mut self) -> Result<Vec<RemovedNode>, DatabaseError> {
        removal::removed_nodes(&self.connection)
    }

    fn remove_node(&mut self, node: NodeId, at: u64, reason: &str) -> Result<u64, DatabaseError> {
        removal::node(&mut self.connection, node, at, reason)
    }

    fn remove_copies(&mut self, copies: &[(NodeId, FileId)], at: u64, reason: &str) -> Result<u64, DatabaseError> {
        removal::copies(&mut self.connection, copies, at, reason)
    }

    fn change_node(&mut self, node: &Node) -> Result<(), DatabaseError> {
        let failed = engine("change a node");
        let transaction = self.connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).map_err(&failed)?;
        change_node(&transaction, node)?;
        transaction.commit().map_err(&failed)
    }

    fn move_node(&mut self, node: &Node, at: u64, until_then: &str) -> Result<u64, DatabaseError> {
        // A run reads the places that it knew at its start, and would record what it finds there.
        self.lock()?;
        let failed = engine("change a node");
        let transaction = self.connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).map_err(&failed)?;
        change_node(&transaction, node)?;
        let moved = moving::forget_checks(&transaction, node.id, at, until_then)?;
        transaction.commit().map_err(&failed)?;
        Ok(moved)
    }

    fn import(
        &mut self,
        source: Source<'_>,
        nodes: &[NodeId],
        replace: bool,
        now: u64,
        rows: &mut dyn Iterator<Item = Result<Row, InventoryError>>,
    ) -> Result<Imported, InventoryError> {
        import::import(self, source, nodes, replace, now, rows)
    }

    fn unfinished_imports(&mut self) -> Result<Vec<UnfinishedImport>, DatabaseError> {
        import::unfinished(&self.connection).map_err(engine("read the unfinished imports"))
    }

    fn dismiss_import(&mut self, number: u64) -> Result<bool, DatabaseError> {
        import::dismiss(self, number)
    }

    fn claim(&mut self, node: NodeId, now: u64, limit: usize) -> Result<Vec<Claim>, DatabaseError> {
        self.lock()?;
        let claimed = self.claimed.entry(node).or_default();
        let claims = checks::due(&self.connection, node, now, limit, claimed)?;
        claimed.extend(claims.iter().map(|claim| claim.file));
        Ok(claims)
    }

    fn claim_files(&mut self, node: NodeId, files: &[FileId]) -> Result<Vec<Claim>, DatabaseError> {
        self.lock()?;
        import::refuse_unfinished(&self.connection)?;
        let claimed = self.claimed.entry(node).or_default();
        let mut claims = Vec::new();
        for file in files {
            if !claimed.contains(file)
                && let Some(claim) = checks::copy(&self.connection, node, *file)?
            {
                claimed.insert(*file);
                claims.push(claim);
            }
        }
        Ok(claims)
    }

    fn release(&mut self, claims: &[Claim]) -> Result<(), DatabaseError> {
        for claim in claims {
            if let Some(claimed) = self.claimed.get_mut(&claim.node) {
                claimed.remove(&claim.file);
            }
        }
        Ok(())
    }

    fn record(&mut self, results: &[Checked], detectors: &[DetectorState]) -> Result<(), DatabaseError> {
        checks::record(&mut self.connection, &mut self.witnessed, results, detectors)?;
        for result in results {
            if let Some(claimed) = self.claimed.get_mut(&result.claim.node) {
                claimed.remove(&result.claim.file);
            }
        }
        Ok(())
    }

    fn record_repair(&mut self, node: NodeId, file: FileId, at: u64, detail: &str) -> Result<(), DatabaseError> {
        checks::record_repair(&mut self.connection, node, file, at, detail)
    }

    fn append_event(&mut self, event: &Event) -> Result<(), DatabaseError> {
        checks::append_event(&mut self.connection, event)
    }

    fn record_incidents(&mut self, incidents: &[Incident]) -> Result<(), DatabaseError> {
        checks::record_incidents(&mut self.connection, incidents).map_err(engine("record incidents"))
    }

    fn incidents(&mut self, from: u64) -> Result<Vec<Incident>, DatabaseError> {
        questions::incidents(&self.connection, from)
    }

    fn add_whole_times(&mut self, times: &[(NodeId, Method, u64, State, Duration)]) -> Result<(), DatabaseError> {
        checks::add_whole_times(&mut self.connection, times).map_err(engine("record times"))
    }

    fn make_due(&mut self, node: NodeId, now: u64, after: u64) -> Result<u64, DatabaseError> {
        checks::make_due(&mut self.connection, node, now, after).map_err(engine("make copies due"))
    }

    fn make_copy_due(&mut self, node: NodeId, file: FileId, now: u64) -> Result<(), DatabaseError> {
        let sql = "UPDATE copies SET due_at = ?3 WHERE node = ?1 AND file = ?2 AND due_at > ?3";
        self.connection.execute(sql, params![node.0, signed(file.0), signed(now)]).map(drop).map_err(engine("make a copy due"))
    }

    fn next_due(&mut self, node: NodeId) -> Result<Option<u64>, DatabaseError> {
        questions::next_due(&self.connection, node).map_err(engine("read what is due"))
    }

    fn due_after(&mut self, node: NodeId, after: u64, most: u64) -> Result<u64, DatabaseError> {
        let sql = "SELECT count(*) FROM (SELECT 1 FROM copies INDEXED BY copies_due WHERE node = ?1 AND due_at > ?2 LIMIT ?3)";
        let count = self.connection.query_row(sql, params![node.0, signed(after), signed(most)], |row| row.get(0));
        count.map(unsigned).map_err(engine("count what is due"))
    }

    fn overdue_looks(&mut self, node: NodeId, looked_before: u64, due_before: u64, most: u64) -> Result<Overdue, DatabaseError> {
        questions::overdue_looks(&self.connection, node, looked_before, due_before, most).map_err(engine("count what is overdue"))
    }

    fn witnesses(&mut self, node: NodeId, limit: usize) -> Result<Vec<Witness>, DatabaseError> {
        questions::witnesses(&self.connection, node, limit)
    }

    fn detector(&mut self, node: NodeId, series: Series) -> Result<Option<Vec<u8>>, DatabaseError> {
        self.connection
            .prepare_cached("SELECT state FROM detectors WHERE node = ?1 AND series = ?2")
            .and_then(|mut statement| statement.query_row(params![node.0, series.number()], |row| row.get(0)).optional())
            .map_err(engine("read the state of a detector"))
    }

    fn check_counts(&mut self) -> Result<(), DatabaseError> {
        counts::check(&self.connection)
    }

    fn totals(&mut self) -> Result<Vec<Total>, DatabaseError> {
        questions::totals(&self.connection)
    }

    fn ages(&mut self) -> Result<Vec<Age>, DatabaseError> {
        questions::ages(&self.connection).map_err(engine("read the ages of copies"))
    }

    fn hours(&mut self, from: u64) -> Result<Vec<Hour>, DatabaseError> {
        questions::hours(&self.connection, from)
    }

    fn problems(&mut self, state: State, after: Option<(NodeId, FileId)>, limit: usize) -> Result<Vec<Problem>, DatabaseError> {
        questions::problems(&self.connection, state, after, limit)
    }

    fn history(&mut self, name: &str) -> Result<Option<FileHistory>, DatabaseError> {
        questions::history(&self.connection, name)
    }

    fn events(&mut self, after: u64, limit: usize) -> Result<Vec<(Event, String)>, DatabaseError> {
        questions::events(&self.connection, after, limit)
    }

    fn last_event(&mut self) -> Result<u64, DatabaseError> {
        let last = self.connection.query_row("SELECT coalesce(max(event), 0) FROM events", [], |row| row.get(0));
        last.map(unsigned).map_err(engine("read the history"))
    }

    fn subjects(&mut self, since: u64, after: u64, limit: usize) -> Result<Vec<(u64, Subject)>, DatabaseError> {
        questions::subjects(&self.connection, since, after, limit)
    }
}

fn change_node(transaction: &rusqlite::Transaction<'_>, node: &Node) -> Result<(), DatabaseError> {
    let failed = engine("change a node");
    let interval: Option<i64> =
        transaction.query_row("SELECT interval_s FROM nodes WHERE node = ?1", [node.id.0], |row| row.get(0)).optional().map_err(&failed)?;
    let earlier = interval.ok_or(DatabaseError::NoSuchNode { node: node.id.0 })?;
    write_node(transaction, node.id, node).map_err(&failed)?;
    let interval = signed(node.rules.interval.as_secs());
    if interval != earlier {
        // A copy waits for its regular check if it is due one interval after the last one. The
        // date of a look is only in its event.
        transaction
            .execute(
                "UPDATE copies SET due_at = due_at - ?2 + ?3 WHERE node = ?1 AND (due_at = verified_at + ?2 \
                 OR state IN (?4, ?5) AND due_at = ?2 + (SELECT at FROM events WHERE event = last_event))",
                params![node.id.0, earlier, interval, State::HeaderChecked.number(), State::ProviderAttested.number()],
            )
            .map_err(&failed)?;
    }
    Ok(())
}

fn insert_node(connection: &Connection, id: NodeId, node: &Node) -> rusqlite::Result<()> {
    connection.execute(
        "INSERT INTO nodes (node, name, place, options, medium, interval_s, method, workers, all_digests) \
         VALUES (?1, ?2, '', '', 0, 0, 0, 0, 0)",
        params![id.0, node.name],
    )?;
    write_node(connection, id, node)
}

fn write_node(connection: &Connection, id: NodeId, node: &Node) -> rusqlite::Result<()> {
    let options: String = node.options.iter().map(|(key, value)| format!("{key}={value}\n")).collect();
    let rules = &node.rules;
    connection.execute(
        "UPDATE nodes SET name = ?2, place = ?3, options = ?4, medium = ?5, interval_s = ?6, method = ?7, workers = ?8, bytes_per_second = ?9, \
         files_per_second = ?10, all_digests = ?11, base_s = ?12, ns_per_byte = ?13 WHERE node = ?1",
        params![
            id.0,
            node.name,
            node.place,
            options,
            node.medium.number(),
            signed(rules.interval.as_secs()),
            rules.method.number(),
            rules.workers,
            rules.bytes_per_second.map(signed),
            rules.files_per_second.map(signed),
            rules.all_digests,
            node.expected_time.map(|(base, _)| base),
            node.expected_time.map(|(_, slope)| slope),
        ],
    )?;
    Ok(())
}

#[cfg(test)]
mod tests;
