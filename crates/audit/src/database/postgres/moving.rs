//! Nodes that lead to another place.

use super::super::event::EventKind;
use super::session::{Fault, HISTORY_LOCK, Work};
use super::{signed, small, storable};
use crate::copy::{Method, NodeId, State};

/// Makes all copies of a node unverified and due: whatever was found, it was found elsewhere.
/// Returns their number. The transaction holds the import lock and the node's row, so only repairs
/// can change its copies at the same time.
pub(super) async fn forget_checks(work: &Work<'_>, node: NodeId, at: u64, until_then: &str) -> Result<u64, Fault> {
    let id = small(node);
    // In the order of all transactions: copies before the history.
    let sql = "SELECT count(*) FROM (SELECT 1 FROM copies WHERE node = $1 ORDER BY file FOR UPDATE) AS locked";
    let moved = work.number(sql, &[&id]).await?;
    work.lock(HISTORY_LOCK).await?;
    let last = work.number("SELECT coalesce(max(event), 0) FROM events", &[]).await?;
    let (kind, method) = (i16::from(EventKind::ExpectationReplaced.number()), i16::from(Method::Stream.number()));
    let sql = "INSERT INTO events (event, previous, file, at, bytes, stream_us, node, kind, method, detail) \
               SELECT $2::bigint + row_number() OVER (ORDER BY file), last_event, file, $3::bigint, 0, 0, node, $4::smallint, \
               $5::smallint, $6::text FROM copies WHERE node = $1";
    work.execute(sql, &[&id, &last, &signed(at), &kind, &method, &storable(until_then)]).await?;
    let unverified = i16::from(State::Unverified.number());
    // A check that is under way reads the earlier place; a changed date voids it.
    let sql = "UPDATE copies c SET state = $3, verified_at = NULL, due_at = CASE c.due_at WHEN 1 THEN 2 ELSE 1 END, last_event = e.event \
               FROM events e WHERE e.event > $2 AND e.node = $1 AND c.node = $1 AND c.file = e.file";
    work.execute(sql, &[&id, &last, &unverified]).await?;
    let sql = "INSERT INTO totals SELECT node, $2::smallint, sum(copies)::bigint, sum(bytes) FROM totals WHERE node = $1 GROUP BY node \
               ON CONFLICT (node, state) DO UPDATE SET copies = excluded.copies, bytes = excluded.bytes";
    work.execute(sql, &[&id, &unverified]).await?;
    work.execute("DELETE FROM totals WHERE node = $1 AND state <> $2", &[&id, &unverified]).await?;
    let sql = "INSERT INTO ages SELECT node, -1, sum(copies)::bigint, sum(bytes) FROM ages WHERE node = $1 GROUP BY node \
               ON CONFLICT (node, day) DO UPDATE SET copies = excluded.copies, bytes = excluded.bytes";
    work.execute(sql, &[&id]).await?;
    work.execute("DELETE FROM ages WHERE node = $1 AND day <> -1", &[&id]).await?;
    // None is a witness: the place has shown nothing yet.
    work.execute("DELETE FROM witnesses WHERE node = $1", &[&id]).await?;
    Ok(u64::try_from(moved).unwrap_or(0))
}
