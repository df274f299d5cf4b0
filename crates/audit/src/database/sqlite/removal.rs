//! Removing copies and nodes.

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::super::removed::{PORTION, RemovedCopy, RemovedNode, detail};
use super::checks::{Appended, Sums, append};
use super::import::refuse_unfinished;
use super::questions::chain;
use super::{DatabaseError, EventKind, decoded_digests, decoded_state, engine, signed, unsigned};
use crate::copy::{Expected, FileId, Method, NodeId};

/// Removes copies, in portions. Returns how many there were.
pub(super) fn copies(connection: &mut Connection, copies: &[(NodeId, FileId)], at: u64, reason: &str) -> Result<u64, DatabaseError> {
    let failed = engine("remove copies");
    let mut removed = 0;
    for portion in copies.chunks(PORTION) {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&failed)?;
        refuse_unfinished(&transaction)?;
        removed += remove(&transaction, portion, at, reason)?;
        transaction.commit().map_err(&failed)?;
    }
    Ok(removed)
}

/// Removes the copies of a node, in portions, and the node with the last one.
pub(super) fn node(connection: &mut Connection, node: NodeId, at: u64, reason: &str) -> Result<u64, DatabaseError> {
    let failed = engine("remove a node");
    let mut removed = 0;
    loop {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&failed)?;
        refuse_unfinished(&transaction)?;
        let copies: Vec<(NodeId, FileId)> = transaction
            .prepare_cached("SELECT file FROM copies WHERE node = ?1 LIMIT ?2")
            .and_then(|mut statement| {
                let rows = statement.query_map(params![node.0, PORTION as i64], |row| Ok((node, FileId(unsigned(row.get(0)?)))))?;
                rows.collect()
            })
            .map_err(&failed)?;
        removed += remove(&transaction, &copies, at, reason)?;
        let is_last = copies.len() < PORTION;
        if is_last {
            forget_node(&transaction, node, at, reason)?;
        }
        transaction.commit().map_err(&failed)?;
        if is_last {
            return Ok(removed);
        }
    }
}

fn forget_node(transaction: &Transaction<'_>, node: NodeId, at: u64, reason: &str) -> Result<(), DatabaseError> {
    let failed = engine("remove a node");
    let moved = transaction
        .execute(
            "INSERT INTO removed_nodes SELECT node, name, place, ?2, ?3 FROM nodes WHERE node = ?1",
            params![node.0, signed(at), reason],
        )
        .map_err(&failed)?;
    if moved == 0 {
        return Err(DatabaseError::NoSuchNode { node: node.0 });
    }
    for table in ["nodes", "detectors", "benchmarks", "benchmark_times", "witnesses"] {
        transaction.execute(&format!("DELETE FROM {table} WHERE node = ?1"), [node.0]).map_err(&failed)?;
    }
    Ok(())
}

fn remove(transaction: &Transaction<'_>, copies: &[(NodeId, FileId)], at: u64, reason: &str) -> Result<u64, DatabaseError> {
    let failed = engine("remove a copy");
    let mut sums = Sums::default();
    let mut removed = 0;
    for (node, file) in copies {
        let (id, number) = (node.0, signed(file.0));
        let found = transaction
            .prepare_cached(
                "SELECT c.state, c.verified_at, c.last_event, f.bytes, f.digests FROM copies c JOIN files f ON f.file = c.file \
                 WHERE c.node = ?1 AND c.file = ?2",
            )
            .and_then(|mut statement| {
                let columns = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?));
                statement.query_row(params![id, number], columns).optional()
            })
            .map_err(&failed)?;
        let Some((state, verified_at, previous, bytes, digests)): Option<(u8, _, _, Option<i64>, Vec<u8>)> = found else { continue };
        let expected = Expected { bytes: bytes.map(unsigned), digests: decoded_digests(&digests)? };
        let event = append(
            transaction,
            &Appended {
                previous,
                node: *node,
                file: number,
                at: signed(at),
                kind: EventKind::Removed,
                method: Method::Stream,
                bytes: 0,
                stream: 0,
                detail: Some(&detail(reason, &expected)),
            },
        )
        .map_err(&failed)?;
        transaction
            .prepare_cached("INSERT INTO removed_copies SELECT file, node, due_at, ?3, location FROM copies WHERE node = ?1 AND file = ?2")
            .and_then(|mut statement| statement.execute(params![id, number, event]))
            .map_err(&failed)?;
        for sql in [
            "DELETE FROM copies WHERE node = ?1 AND file = ?2",
            "DELETE FROM witnesses WHERE node = ?1 AND file = ?2",
            "DELETE FROM benchmarks WHERE node = ?1 AND file = ?2",
        ] {
            transaction.prepare_cached(sql).and_then(|mut statement| statement.execute(params![id, number])).map_err(&failed)?;
        }
        sums.copy(*node, decoded_state(state)?, verified_at, bytes, -1);
        removed += 1;
    }
    sums.apply(transaction).map_err(&failed)?;
    Ok(removed)
}

pub(super) fn removed_nodes(connection: &Connection) -> Result<Vec<RemovedNode>, DatabaseError> {
    let read = engine("read the removed nodes");
    let mut statement =
        connection.prepare_cached("SELECT node, name, place, at, reason FROM removed_nodes ORDER BY node").map_err(&read)?;
    let node = |row: &rusqlite::Row<'_>| {
        Ok(RemovedNode { id: NodeId(row.get(0)?), name: row.get(1)?, place: row.get(2)?, at: unsigned(row.get(3)?), reason: row.get(4)? })
    };
    statement.query_map([], node).and_then(Iterator::collect).map_err(&read)
}

/// The removed copies of a file.
pub(super) fn copies_of(connection: &Connection, file: i64, name: &str) -> Result<Vec<RemovedCopy>, DatabaseError> {
    let read = engine("look up a file");
    let mut statement = connection
        .prepare_cached("SELECT node, coalesce(location, ?2), last_event FROM removed_copies WHERE file = ?1 ORDER BY node")
        .map_err(&read)?;
    let rows = statement.query_map(params![file, name], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
    let copies: Vec<(u16, String, i64)> = rows.and_then(Iterator::collect).map_err(&read)?;
    let copy = |(node, location, last)| Ok(RemovedCopy { node: NodeId(node), location, events: chain(connection, Some(last))? });
    copies.into_iter().map(copy).collect()
}
