//! Nodes that lead to another place.

use rusqlite::{Transaction, params};

use super::checks::{Appended, append};
use super::import::holds_checks;
use super::{DatabaseError, EventKind, engine, signed};
use crate::copy::{Method, NodeId, State};

/// Copies that are read at once.
const PAGE: i64 = 10_000;

/// Makes all copies of a node unverified and due: whatever was found, it was found elsewhere.
/// Returns their number.
pub(super) fn forget_checks(transaction: &Transaction<'_>, node: NodeId, at: u64, until_then: &str) -> Result<u64, DatabaseError> {
    let failed = engine("change the copies of a node");
    // Nothing was checked yet, and no event may refer to these files.
    if holds_checks(transaction)? {
        return Ok(0);
    }
    let (mut moved, mut last) = (0, -1);
    loop {
        let page: Vec<(i64, Option<i64>)> = transaction
            .prepare_cached("SELECT file, last_event FROM copies WHERE node = ?1 AND file > ?2 ORDER BY file LIMIT ?3")
            .and_then(|mut statement| statement.query_map(params![node.0, last, PAGE], |row| Ok((row.get(0)?, row.get(1)?)))?.collect())
            .map_err(&failed)?;
        for (file, previous) in &page {
            make_unverified(transaction, (node, *file), *previous, at, until_then).map_err(&failed)?;
        }
        moved += page.len() as u64;
        match page.last() {
            Some((file, _)) => last = *file,
            None => break,
        }
    }
    sums(transaction, node).map_err(&failed)?;
    Ok(moved)
}

/// Makes a copy unverified and due because its content, location or node was replaced.
pub(super) fn make_unverified(
    transaction: &Transaction<'_>,
    (node, file): (NodeId, i64),
    previous: Option<i64>,
    at: u64,
    until_then: &str,
) -> rusqlite::Result<()> {
    let event = append(
        transaction,
        &Appended {
            previous,
            node,
            file,
            at: signed(at),
            kind: EventKind::ExpectationReplaced,
            method: Method::Stream,
            bytes: 0,
            stream: 0,
            detail: Some(until_then),
        },
    )?;
    // A check that is under way reads or compares what was replaced; a changed date voids it.
    let mut statement = transaction.prepare_cached(
        "UPDATE copies SET state = ?3, verified_at = NULL, due_at = CASE due_at WHEN 1 THEN 2 ELSE 1 END, last_event = ?4 \
         WHERE node = ?1 AND file = ?2",
    )?;
    statement.execute(params![node.0, file, State::Unverified.number(), event]).map(drop)
}

/// Counts all copies of a node as unverified, and makes none a witness: the place has shown nothing
/// yet.
fn sums(transaction: &Transaction<'_>, node: NodeId) -> rusqlite::Result<()> {
    let unverified = State::Unverified.number();
    transaction.execute(
        "INSERT INTO totals SELECT node, ?2, sum(copies), sum(bytes) FROM totals WHERE node = ?1 GROUP BY node \
         ON CONFLICT DO UPDATE SET copies = excluded.copies, bytes = excluded.bytes",
        params![node.0, unverified],
    )?;
    transaction.execute("DELETE FROM totals WHERE node = ?1 AND state <> ?2", params![node.0, unverified])?;
    transaction.execute(
        "INSERT INTO ages SELECT node, -1, sum(copies), sum(bytes) FROM ages WHERE node = ?1 GROUP BY node \
         ON CONFLICT DO UPDATE SET copies = excluded.copies, bytes = excluded.bytes",
        [node.0],
    )?;
    transaction.execute("DELETE FROM ages WHERE node = ?1 AND day <> -1", [node.0])?;
    transaction.execute("DELETE FROM witnesses WHERE node = ?1", [node.0])?;
    Ok(())
}
