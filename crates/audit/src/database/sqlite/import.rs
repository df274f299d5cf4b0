//! Importing inventories.
//!
//! An import has a row in the table `imports` from before its first portion until it is complete.
//!
//! The first inventory is imported without the index of names, which is built afterwards in one
//! sort: keeping it up to date row by row would rewrite most of its pages again and again. Rows of
//! one file that follow each other are recognized at once, others when the index is built. Until
//! then the row says `holds_checks`: if the import is interrupted, the next one starts over and
//! gives other numbers to files, so no event may refer to these. A lock on a file (`.import-lock`)
//! tells whether the first import is still under way.
//!
//! Looking up the copies of one file goes from the few nodes to their copies. `CROSS JOIN` tells
//! SQLite so; by itself it would read all copies.

use std::fs::File;
use std::path::Path;

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};
use twox_hash::XxHash3_64;

use super::checks::{Sums, due_for_length};
use super::moving::make_unverified;
use super::{DatabaseError, Sqlite, decoded_digests, decoded_state, digests, engine, lock_beside, signed, unsigned};
use crate::copy::{Expected, NodeId, State};
use crate::database::portion::{End, Portion, ROWS};
use crate::database::removed::due_again;
use crate::database::{Source, UnfinishedImport, awaits_length};
use crate::inventory::{Conflict, Imported, InventoryError, Row};

/// Conflicts that are reported with their names; all are counted.
const CONFLICTS_NAMED: usize = 1_000;

/// A file that is known already.
struct Known {
    file: i64,
    expected: Expected,
}

/// What a portion needs besides its rows.
struct Importing<'a> {
    nodes: &'a [NodeId],
    replace: bool,
    now: u64,
    /// False while there is no index of names.
    indexed: bool,
    /// The number of the next file, if it isn't that after the last one.
    first_file: Option<i64>,
    /// The nodes of the audit, and whether it has removed copies, as the transaction sees them.
    known_nodes: Vec<NodeId>,
    has_removed: bool,
    /// The file of the row before, so that rows of one file needn't be looked up.
    last: Option<(String, Known)>,
    imported: Imported,
}

pub(super) fn import(
    database: &mut Sqlite,
    source: Source<'_>,
    nodes: &[NodeId],
    replace: bool,
    now: u64,
    rows: &mut dyn Iterator<Item = Result<Row, InventoryError>>,
) -> Result<Imported, InventoryError> {
    let begun = begin(database, source.name, now)?;
    let (known_nodes, has_removed, last, imported) = Default::default();
    let first_file = begun.first.as_ref().map(|first| first.first_file);
    let indexed = begun.first.is_none();
    let mut importing = Importing { nodes, replace, now, indexed, first_file, known_nodes, has_removed, last, imported };
    let ending = Ending { number: begun.number, source };
    let result = importing.run(&mut database.connection, rows, &ending);
    if begun.first.is_some() {
        // Rows that came before a failure stay, as they do with later inventories.
        let merged = finish_first(&mut database.connection, &mut importing, result.is_ok().then_some(&ending))?;
        importing.imported.files -= merged;
    }
    result.map(|()| importing.imported)
}

struct Begun {
    number: i64,
    first: Option<First>,
}

/// What an import without an index needs.
struct First {
    /// The number of its first file.
    first_file: i64,
    _lock: File,
}

/// Notes that an import begins. If there are no files, it is the first one; if an earlier one was
/// interrupted that was, too.
fn begin(database: &mut Sqlite, source: &str, now: u64) -> Result<Begun, DatabaseError> {
    let failed = engine("begin an import");
    let transaction = database.connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&failed)?;
    let interrupted = holds_checks(&transaction)?;
    let is_first =
        interrupted || transaction.query_row("SELECT NOT EXISTS (SELECT 1 FROM files)", [], |row| row.get(0)).map_err(&failed)?;
    let first = if is_first {
        let lock = lock(&database.path)?;
        if interrupted {
            give_up(&transaction).map_err(&failed)?;
        }
        transaction.execute_batch("DROP INDEX files_by_name").map_err(&failed)?;
        // Earlier versions checked copies whose numbers were given up later. Events of such a check
        // must not become those of another file.
        let sql = "SELECT 1 + max((SELECT coalesce(max(file), 0) FROM events), (SELECT coalesce(max(file), 0) FROM benchmark_records))";
        let first_file = transaction.query_row(sql, [], |row| row.get(0)).map_err(&failed)?;
        Some(First { first_file, _lock: lock })
    } else {
        None
    };
    transaction
        .execute("INSERT INTO imports (began_at, source, holds_checks) VALUES (?1, ?2, ?3)", params![signed(now), source, is_first])
        .map_err(&failed)?;
    let number = transaction.last_insert_rowid();
    transaction.commit().map_err(&failed)?;
    Ok(Begun { number, first })
}

/// Takes the lock of the first import.
fn lock(database: &Path) -> Result<File, DatabaseError> {
    lock_beside(database, ".import-lock")?.ok_or(DatabaseError::ImportUnderWay)
}

/// Removes what an interrupted first import left. That it wasn't completed is still known.
fn give_up(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    transaction.execute_batch(
        "DELETE FROM copies; DELETE FROM files; DELETE FROM totals; DELETE FROM ages; DELETE FROM witnesses; DELETE FROM benchmarks; \
         CREATE INDEX IF NOT EXISTS files_by_name ON files (name_hash); UPDATE imports SET holds_checks = 0",
    )
}

/// True while the first import isn't complete.
pub(super) fn holds_checks(connection: &Connection) -> Result<bool, DatabaseError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM imports WHERE holds_checks)";
    let failed = engine("look for an unfinished import");
    connection.prepare_cached(sql).and_then(|mut statement| statement.query_row([], |row| row.get(0))).map_err(failed)
}

/// Refuses what would refer to files whose numbers may be given up.
pub(super) fn refuse_unfinished(connection: &Connection) -> Result<(), DatabaseError> {
    if holds_checks(connection)? { Err(DatabaseError::ImportUnfinished) } else { Ok(()) }
}

pub(super) fn unfinished(connection: &Connection) -> rusqlite::Result<Vec<UnfinishedImport>> {
    let mut statement = connection.prepare_cached("SELECT import, began_at, source, holds_checks FROM imports ORDER BY import")?;
    statement.query_map([], unfinished_import)?.collect()
}

fn unfinished_import(row: &rusqlite::Row<'_>) -> rusqlite::Result<UnfinishedImport> {
    Ok(UnfinishedImport { number: unsigned(row.get(0)?), began_at: unsigned(row.get(1)?), source: row.get(2)?, holds_checks: row.get(3)? })
}

pub(super) fn dismiss(database: &mut Sqlite, number: u64) -> Result<bool, DatabaseError> {
    let failed = engine("dismiss an import");
    let transaction = database.connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&failed)?;
    let sql = "DELETE FROM imports WHERE import = ?1 RETURNING holds_checks";
    let dismissed: Option<bool> = transaction.query_row(sql, [signed(number)], |row| row.get(0)).optional().map_err(&failed)?;
    let _lock = if dismissed == Some(true) {
        let lock = lock(&database.path)?;
        give_up(&transaction).map_err(&failed)?;
        Some(lock)
    } else {
        None
    };
    transaction.commit().map_err(&failed)?;
    Ok(dismissed.is_some())
}

/// Which import is complete at its end.
struct Ending<'a> {
    number: i64,
    source: Source<'a>,
}

impl Ending<'_> {
    /// Notes that an import is complete, in the transaction of its last rows.
    fn note(&self, transaction: &Transaction<'_>, imported: &mut Imported) -> Result<(), DatabaseError> {
        let failed = engine("complete an import");
        transaction.execute("DELETE FROM imports WHERE import = ?1", [self.number]).map_err(&failed)?;
        // A list without rows completes nothing.
        if self.source.is_repeatable && imported.rows > 0 {
            let sql = "DELETE FROM imports WHERE source = ?1 AND import < ?2 RETURNING import, began_at, source, holds_checks";
            let mut statement = transaction.prepare_cached(sql).map_err(&failed)?;
            let rows = statement.query_map(params![self.source.name, self.number], unfinished_import);
            imported.completed = rows.and_then(Iterator::collect).map_err(&failed)?;
        }
        Ok(())
    }
}

/// Builds the index of names after the first import, and merges rows of one file. Returns how many
/// files were merged into others. `ending` is `None` after a failure.
fn finish_first(connection: &mut Connection, importing: &mut Importing<'_>, ending: Option<&Ending<'_>>) -> Result<u64, DatabaseError> {
    let failed = engine("index the names");
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&failed)?;
    transaction.execute_batch("CREATE INDEX files_by_name ON files (name_hash)").map_err(&failed)?;
    importing.indexed = true;
    let merged = merge_duplicates(&transaction, importing)?;
    transaction.execute_batch("UPDATE imports SET holds_checks = 0").map_err(&failed)?;
    if let Some(ending) = ending {
        ending.note(&transaction, &mut importing.imported)?;
    }
    transaction.commit().map_err(&failed)?;
    Ok(merged)
}

/// Merges files that have the same name into the first of them.
fn merge_duplicates(transaction: &Transaction<'_>, importing: &mut Importing<'_>) -> Result<u64, DatabaseError> {
    let failed = engine("merge rows of one file");
    let mut merged = 0;
    let mut hashes = transaction.prepare("SELECT name_hash FROM files GROUP BY name_hash HAVING count(*) > 1").map_err(&failed)?;
    let mut hashes = hashes.query([]).map_err(&failed)?;
    while let Some(row) = hashes.next().map_err(&failed)? {
        let hash: i64 = row.get(0).map_err(&failed)?;
        let mut files: Vec<(String, i64)> = {
            let mut statement =
                transaction.prepare_cached("SELECT name, file FROM files WHERE name_hash = ?1 ORDER BY file").map_err(&failed)?;
            let rows = statement.query_map([hash], |row| Ok((row.get(0)?, row.get(1)?))).map_err(&failed)?;
            rows.collect::<Result<_, _>>().map_err(&failed)?
        };
        files.sort();
        for pair in files.chunk_by(|(a, _), (b, _)| a == b) {
            let [(name, _), duplicates @ ..] = pair else { continue };
            for (_, duplicate) in duplicates {
                let expected = expected_of(transaction, *duplicate)?;
                let mut copies = transaction
                    .prepare_cached("SELECT n.node, c.location FROM nodes n CROSS JOIN copies c ON c.node = n.node AND c.file = ?1")
                    .map_err(&failed)?;
                let copies: Vec<(u16, Option<String>)> =
                    copies.query_map([duplicate], |row| Ok((row.get(0)?, row.get(1)?))).and_then(Iterator::collect).map_err(&failed)?;
                let mut sums = Sums::default();
                for (node, _) in &copies {
                    sums.copy(NodeId(*node), State::Unverified, None, expected.bytes.map(signed), -1);
                    transaction
                        .prepare_cached("DELETE FROM copies WHERE node = ?1 AND file = ?2")
                        .and_then(|mut statement| statement.execute(params![node, duplicate]))
                        .map_err(&failed)?;
                }
                transaction
                    .prepare_cached("DELETE FROM files WHERE file = ?1")
                    .and_then(|mut statement| statement.execute([duplicate]))
                    .map_err(&failed)?;
                importing.imported.copies -= copies.len() as u64;
                sums.apply(transaction).map_err(&failed)?;
                for (node, location) in copies {
                    let row = Row { name: name.clone(), expected: expected.clone(), location, node: Some(NodeId(node)) };
                    importing.last = None;
                    let mut sums = Sums::default();
                    importing.add(transaction, row, &mut sums)?;
                    sums.apply(transaction).map_err(&failed)?;
                }
                merged += 1;
            }
        }
    }
    Ok(merged)
}

fn expected_of(transaction: &Transaction<'_>, file: i64) -> Result<Expected, DatabaseError> {
    let read = engine("read a file");
    let mut statement = transaction.prepare_cached("SELECT bytes, digests FROM files WHERE file = ?1").map_err(&read)?;
    let (bytes, digests): (Option<i64>, Vec<u8>) = statement.query_row([file], |row| Ok((row.get(0)?, row.get(1)?))).map_err(&read)?;
    Ok(Expected { bytes: bytes.map(unsigned), digests: decoded_digests(&digests)? })
}

impl Importing<'_> {
    fn run(
        &mut self,
        connection: &mut Connection,
        rows: &mut dyn Iterator<Item = Result<Row, InventoryError>>,
        ending: &Ending<'_>,
    ) -> Result<(), InventoryError> {
        let failed = engine("add files");
        loop {
            let portion = Portion::collect(rows, ROWS);
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&failed)?;
            self.look(&transaction).map_err(&failed)?;
            let mut sums = Sums::default();
            let mut end = portion.end;
            for row in portion.rows {
                self.imported.rows += 1;
                if let Err(error) = self.add(&transaction, row, &mut sums) {
                    end = End::Failed(error.into());
                    break;
                }
            }
            sums.apply(&transaction).map_err(&failed)?;
            // The first import still has to build its index.
            if matches!(end, End::Complete) && self.indexed {
                ending.note(&transaction, &mut self.imported)?;
            }
            transaction.commit().map_err(&failed)?;
            match end {
                End::Open => {}
                End::Complete => return Ok(()),
                End::Failed(error) => return Err(error),
            }
        }
    }

    /// Reads what another process may have changed since the last portion.
    fn look(&mut self, transaction: &Transaction<'_>) -> rusqlite::Result<()> {
        let mut nodes = transaction.prepare_cached("SELECT node FROM nodes")?;
        self.known_nodes = nodes.query_map([], |row| row.get(0).map(NodeId))?.collect::<Result<_, _>>()?;
        self.has_removed = transaction.query_row("SELECT EXISTS (SELECT 1 FROM removed_copies)", [], |row| row.get(0))?;
        self.last = None;
        Ok(())
    }

    fn add(&mut self, transaction: &Transaction<'_>, row: Row, sums: &mut Sums) -> Result<(), DatabaseError> {
        let own = row.node;
        let nodes = if own.is_some() { own.as_slice() } else { self.nodes };
        if let Some(unknown) = nodes.iter().find(|node| !self.known_nodes.contains(node)) {
            return Err(DatabaseError::NoSuchNode { node: unknown.0 });
        }
        let same = self.last.take().filter(|(name, _)| *name == row.name);
        let known = match same {
            Some((_, known)) => Some(known),
            None => find(transaction, &row.name, self.indexed)?,
        };
        let (known, mut replaced) = match known {
            Some(known) => self.reconcile(transaction, known, &row, sums)?,
            None => (self.insert(transaction, &row)?, false),
        };
        for node in nodes {
            self.add_copy(transaction, *node, &known, &row, sums, &mut replaced)?;
        }
        self.last = Some((row.name, known));
        Ok(())
    }

    fn insert(&mut self, transaction: &Transaction<'_>, row: &Row) -> Result<Known, DatabaseError> {
        let failed = engine("add a file");
        transaction
            .prepare_cached("INSERT INTO files (file, name_hash, name, bytes, digests) VALUES (?5, ?1, ?2, ?3, ?4)")
            .and_then(|mut statement| {
                statement.execute(params![
                    name_hash(&row.name),
                    row.name,
                    row.expected.bytes.map(signed),
                    digests::encode(&row.expected.digests),
                    self.first_file.take(),
                ])
            })
            .map_err(failed)?;
        self.imported.files += 1;
        Ok(Known { file: transaction.last_insert_rowid(), expected: row.expected.clone() })
    }

    /// Compares a row with what is known of its file, and adds what wasn't known. Returns true if
    /// what the file should contain was replaced.
    fn reconcile(
        &mut self,
        transaction: &Transaction<'_>,
        mut known: Known,
        row: &Row,
        sums: &mut Sums,
    ) -> Result<(Known, bool), DatabaseError> {
        let failed = engine("change a file");
        let contradicts = known.expected.contradicts(&row.expected);
        let is_new = contradicts && self.has_removed && !has_copies(transaction, known.file)?;
        let merged = if !contradicts {
            let mut digests = known.expected.digests.clone();
            for new in &row.expected.digests {
                if !digests.contains(new) {
                    digests.push(new.clone());
                }
            }
            digests.sort();
            Expected { bytes: known.expected.bytes.or(row.expected.bytes), digests }
        } else if self.replace || is_new {
            row.expected.clone()
        } else {
            self.imported.conflicts += 1;
            if self.imported.conflicting.len() < CONFLICTS_NAMED {
                self.imported.conflicting.push(Conflict {
                    name: row.name.clone(),
                    known: known.expected.clone(),
                    listed: row.expected.clone(),
                });
            }
            return Ok((known, false));
        };
        if merged == known.expected {
            return Ok((known, false));
        }
        self.imported.changed += 1;
        transaction
            .prepare_cached("UPDATE files SET bytes = ?2, digests = ?3 WHERE file = ?1")
            .and_then(|mut statement| statement.execute(params![known.file, merged.bytes.map(signed), digests::encode(&merged.digests)]))
            .map_err(failed)?;
        self.change_copies(transaction, &known, &merged, contradicts, sums)?;
        known.expected = merged;
        Ok((known, contradicts))
    }

    /// Brings the copies of a file into line with what it should contain now.
    fn change_copies(
        &self,
        transaction: &Transaction<'_>,
        known: &Known,
        merged: &Expected,
        contradicts: bool,
        sums: &mut Sums,
    ) -> Result<(), DatabaseError> {
        let failed = engine("change the copies of a file");
        let mut statement = transaction
            .prepare_cached(
                "SELECT n.node, c.state, c.verified_at, c.last_event FROM nodes n CROSS JOIN copies c ON c.node = n.node AND c.file = ?1",
            )
            .map_err(&failed)?;
        let copies: Vec<(u16, u8, Option<i64>, Option<i64>)> = statement
            .query_map([known.file], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
            .and_then(Iterator::collect)
            .map_err(&failed)?;
        for (node, state, verified_at, last_event) in copies {
            let (node, state) = (NodeId(node), decoded_state(state)?);
            sums.copy(node, state, verified_at, known.expected.bytes.map(signed), -1);
            if !contradicts {
                sums.copy(node, state, verified_at, merged.bytes.map(signed), 1);
                if known.expected.bytes.is_none() && merged.bytes.is_some() && awaits_length(state) {
                    due_for_length(transaction, node, known.file, signed(self.now)).map_err(&failed)?;
                }
                continue;
            }
            sums.copy(node, State::Unverified, None, merged.bytes.map(signed), 1);
            let until_then = format!("until then {}", known.expected);
            self.forget_checks(transaction, node, known.file, last_event, &until_then)?;
        }
        Ok(())
    }

    /// Makes a copy unverified and due whose content or location was replaced.
    fn forget_checks(
        &self,
        transaction: &Transaction<'_>,
        node: NodeId,
        file: i64,
        last_event: Option<i64>,
        until_then: &str,
    ) -> Result<(), DatabaseError> {
        let failed = engine("change a copy");
        make_unverified(transaction, (node, file), last_event, self.now, until_then).map_err(&failed)?;
        // It is no witness any more: it has shown nothing yet.
        transaction
            .prepare_cached("DELETE FROM witnesses WHERE node = ?1 AND file = ?2")
            .and_then(|mut statement| statement.execute(params![node.0, file]))
            .map_err(&failed)?;
        Ok(())
    }

    fn add_copy(
        &mut self,
        transaction: &Transaction<'_>,
        node: NodeId,
        known: &Known,
        row: &Row,
        sums: &mut Sums,
        replaced: &mut bool,
    ) -> Result<(), DatabaseError> {
        let failed = engine("add a copy");
        let location = row.location.as_deref().filter(|location| *location != row.name);
        let (due_at, last_event) = if self.has_removed { taken_back(transaction, node, known.file).map_err(&failed)? } else { (0, None) };
        let added = transaction
            .prepare_cached("INSERT OR IGNORE INTO copies VALUES (?1, ?2, 0, ?4, NULL, ?5, ?3)")
            .and_then(|mut statement| statement.execute(params![node.0, known.file, location, due_at, last_event]))
            .map_err(&failed)?;
        if added == 1 {
            self.imported.copies += 1;
            sums.copy(node, State::Unverified, None, known.expected.bytes.map(signed), 1);
            return Ok(());
        }
        let (earlier, state, verified_at, last_event): (Option<String>, u8, Option<i64>, Option<i64>) = transaction
            .prepare_cached("SELECT location, state, verified_at, last_event FROM copies WHERE node = ?1 AND file = ?2")
            .and_then(|mut statement| {
                statement.query_row(params![node.0, known.file], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
            })
            .map_err(&failed)?;
        if earlier.as_deref() == location {
            return Ok(());
        }
        if !self.replace {
            self.imported.conflicts += u64::from(!*replaced);
            if self.imported.conflicting.len() < CONFLICTS_NAMED {
                self.imported.conflicting.push(Conflict {
                    name: row.name.clone(),
                    known: known.expected.clone(),
                    listed: row.expected.clone(),
                });
            }
            return Ok(());
        }
        self.imported.changed += u64::from(!std::mem::replace(replaced, true));
        transaction
            .prepare_cached("UPDATE copies SET location = ?3 WHERE node = ?1 AND file = ?2")
            .and_then(|mut statement| statement.execute(params![node.0, known.file, location]))
            .map_err(&failed)?;
        let bytes = known.expected.bytes.map(signed);
        sums.copy(node, decoded_state(state)?, verified_at, bytes, -1);
        sums.copy(node, State::Unverified, None, bytes, 1);
        let until_then = format!("until then at {:?}", earlier.as_deref().unwrap_or(&row.name));
        self.forget_checks(transaction, node, known.file, last_event, &until_then)
    }
}

/// True if a file has copies that were not removed.
fn has_copies(transaction: &Transaction<'_>, file: i64) -> Result<bool, DatabaseError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM nodes n CROSS JOIN copies c ON c.node = n.node AND c.file = ?1)";
    let mut statement = transaction.prepare_cached(sql).map_err(engine("look up a file"))?;
    statement.query_row([file], |row| row.get(0)).map_err(engine("look up a file"))
}

/// Ends the removal of a copy that is listed again. Returns when it is due, and its last event.
fn taken_back(transaction: &Transaction<'_>, node: NodeId, file: i64) -> rusqlite::Result<(i64, Option<i64>)> {
    let removed: Option<(i64, i64)> = transaction
        .prepare_cached("DELETE FROM removed_copies WHERE file = ?1 AND node = ?2 RETURNING due_at, last_event")?
        .query_row(params![file, node.0], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    Ok(removed.map_or((0, None), |(due_at, last_event)| (due_again(due_at), Some(last_event))))
}

fn find(transaction: &Transaction<'_>, name: &str, indexed: bool) -> Result<Option<Known>, DatabaseError> {
    if !indexed {
        return Ok(None);
    }
    let read = engine("look up a file");
    let mut statement =
        transaction.prepare_cached("SELECT file, bytes, digests FROM files WHERE name_hash = ?1 AND name = ?2").map_err(&read)?;
    let found: Option<(i64, Option<i64>, Vec<u8>)> =
        statement.query_row(params![name_hash(name), name], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).optional().map_err(&read)?;
    let Some((file, bytes, digests)) = found else { return Ok(None) };
    Ok(Some(Known { file, expected: Expected { bytes: bytes.map(unsigned), digests: decoded_digests(&digests)? } }))
}

pub(super) fn name_hash(name: &str) -> i64 {
    XxHash3_64::oneshot(name.as_bytes()).cast_signed()
}
