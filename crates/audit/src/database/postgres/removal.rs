//! Removing copies and nodes.
//!
//! A portion is one transaction. It takes the import lock, so no import adds a copy that is being
//! removed, or one at a node that is being removed.

use std::time::Duration;

use super::super::event::EventKind;
use super::super::removed::{PORTION, RemovedCopy, RemovedNode, detail};
use super::history::{Appended, Appending, chain};
use super::session::{ANSWER, Fault, HISTORY_LOCK, IMPORT_LOCK, Session, Work};
use super::sums::Sums;
use super::{DatabaseError, decoded_digests, decoded_node, decoded_state, signed, small, unsigned};
use crate::copy::{Expected, FileId, Method, NodeId};

/// Removes copies, in portions. Returns how many there were.
pub(super) fn copies(session: &mut Session, copies: &[(NodeId, FileId)], at: u64, reason: &str) -> Result<u64, DatabaseError> {
    let mut removed = 0;
    for portion in copies.chunks(PORTION) {
        removed += session.change("remove copies", ANSWER, async |work, _| {
            work.lock(IMPORT_LOCK).await?;
            remove(work, portion, at, reason).await
        })?;
    }
    Ok(removed)
}

/// Removes the copies of a node, in portions, and the node with the last one.
pub(super) fn node(session: &mut Session, node: NodeId, at: u64, reason: &str) -> Result<u64, DatabaseError> {
    let mut removed = 0;
    loop {
        let (count, is_last) = session.change("remove a node", ANSWER, async |work, _| {
            work.lock(IMPORT_LOCK).await?;
            // Results of the node wait, and are dropped afterwards.
            let sql = "SELECT 1 FROM nodes WHERE node = $1 FOR UPDATE";
            work.optional(sql, &[&small(node)]).await?.ok_or(DatabaseError::NoSuchNode { node: node.0 })?;
            let sql = "SELECT file FROM copies WHERE node = $1 ORDER BY file LIMIT $2";
            let rows = work.rows(sql, &[&small(node), &(PORTION as i64)]).await?;
            let key = |row: &tokio_postgres::Row| Ok::<_, Fault>((node, FileId(unsigned(row.try_get(0)?))));
            let copies = rows.iter().map(key).collect::<Result<Vec<_>, _>>()?;
            let count = remove(work, &copies, at, reason).await?;
            let is_last = copies.len() < PORTION;
            if is_last {
                forget_node(work, node, at, reason).await?;
            }
            Ok((count, is_last))
        })?;
        removed += count;
        if is_last {
            return Ok(removed);
        }
    }
}

async fn forget_node(work: &Work<'_>, node: NodeId, at: u64, reason: &str) -> Result<(), Fault> {
    let sql = "INSERT INTO removed_nodes (node, name, place, at, reason) SELECT node, name, place, $2, $3 FROM nodes WHERE node = $1";
    work.execute(sql, &[&small(node), &signed(at), &reason]).await?;
    for sql in [
        "DELETE FROM nodes WHERE node = $1",
        "DELETE FROM leases WHERE node = $1",
        "DELETE FROM detectors WHERE node = $1",
        "DELETE FROM witnesses WHERE node = $1",
        "DELETE FROM benchmarks WHERE node = $1",
        "DELETE FROM benchmark_times WHERE node = $1",
    ] {
        work.execute(sql, &[&small(node)]).await?;
    }
    Ok(())
}

async fn remove(work: &Work<'_>, copies: &[(NodeId, FileId)], at: u64, reason: &str) -> Result<u64, Fault> {
    if copies.is_empty() {
        return work.lock(HISTORY_LOCK).await.map(|()| 0);
    }
    let (nodes, files): (Vec<i16>, Vec<i64>) = copies.iter().map(|(node, file)| (small(*node), signed(file.0))).unzip();
    // A check that learns the length of a file locks the file before its copies, and so does this.
    work.rows("SELECT file FROM files WHERE file = ANY($1) ORDER BY file FOR NO KEY UPDATE", &[&files]).await?;
    let sql = "SELECT c.node, c.file, c.state, c.verified_at, c.last_event, f.bytes, f.digests, c.due_at, c.location \
               FROM (SELECT DISTINCT node, file FROM unnest($1::smallint[], $2::bigint[]) AS u(node, file)) k \
               JOIN copies c ON c.node = k.node AND c.file = k.file JOIN files f ON f.file = c.file \
               ORDER BY c.node, c.file FOR UPDATE OF c";
    let rows = work.rows(sql, &[&nodes, &files]).await?;
    let mut events = Appending::begin(work).await?;
    let mut sums = Sums::default();
    let (mut nodes, mut files, mut due, mut last, mut locations) = (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for row in &rows {
        let (node, file): (i16, i64) = (row.try_get(0)?, row.try_get(1)?);
        let bytes: Option<i64> = row.try_get(5)?;
        let expected = Expected { bytes: bytes.map(unsigned), digests: decoded_digests(row.try_get(6)?)? };
        let id = decoded_node("copies", node)?;
        last.push(events.push(Appended {
            previous: row.try_get(4)?,
            node: id,
            file,
            at,
            kind: EventKind::Removed,
            method: Method::Stream,
            bytes: 0,
            stream: Duration::ZERO,
            detail: Some(detail(reason, &expected)),
        }));
        sums.copy(id, decoded_state("copies", row.try_get(2)?)?, row.try_get(3)?, bytes, -1);
        nodes.push(node);
        files.push(file);
        due.push(row.try_get::<_, i64>(7)?);
        locations.push(row.try_get::<_, Option<&str>>(8)?);
    }
    events.write(work).await?;
    let sql = "INSERT INTO removed_copies (node, file, due_at, last_event, location) \
               SELECT * FROM unnest($1::smallint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[])";
    work.execute(sql, &[&nodes, &files, &due, &last, &locations]).await?;
    for sql in [
        "DELETE FROM copies c USING unnest($1::smallint[], $2::bigint[]) AS k(node, file) WHERE c.node = k.node AND c.file = k.file",
        "DELETE FROM leases c USING unnest($1::smallint[], $2::bigint[]) AS k(node, file) WHERE c.node = k.node AND c.file = k.file",
        "DELETE FROM witnesses c USING unnest($1::smallint[], $2::bigint[]) AS k(node, file) WHERE c.node = k.node AND c.file = k.file",
        "DELETE FROM benchmarks c USING unnest($1::smallint[], $2::bigint[]) AS k(node, file) WHERE c.node = k.node AND c.file = k.file",
    ] {
        work.execute(sql, &[&nodes, &files]).await?;
    }
    sums.apply(work).await?;
    Ok(rows.len() as u64)
}

pub(super) async fn removed_nodes(work: &Work<'_>) -> Result<Vec<RemovedNode>, Fault> {
    let node = |row: &tokio_postgres::Row| {
        Ok(RemovedNode {
            id: decoded_node("removed_nodes", row.try_get(0)?)?,
            name: row.try_get(1)?,
            place: row.try_get(2)?,
            at: unsigned(row.try_get(3)?),
            reason: row.try_get(4)?,
        })
    };
    work.rows("SELECT node, name, place, at, reason FROM removed_nodes ORDER BY node", &[]).await?.iter().map(node).collect()
}

/// The removed copies of a file.
pub(super) async fn copies_of(work: &Work<'_>, file: i64, name: &str) -> Result<Vec<RemovedCopy>, Fault> {
    let sql = "SELECT node, coalesce(location, $2), last_event FROM removed_copies WHERE file = $1 ORDER BY node";
    let mut copies = Vec::new();
    for row in work.rows(sql, &[&file, &name]).await? {
        let node = decoded_node("removed_copies", row.try_get(0)?)?;
        let events = chain(work, node, file, Some(row.try_get(2)?)).await?;
        copies.push(RemovedCopy { node, location: row.try_get(1)?, events });
    }
    Ok(copies)
}
