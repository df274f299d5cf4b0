//! Leases on copies that are due.

use std::time::Duration;

use super::super::Claim;
use super::session::{Fault, Work};
use super::{decoded_digests, decoded_state, signed, small, unsigned};
use crate::copy::{Expected, FileId, NodeId};

/// Leases copies of a node that are due and that no worker has leased, longest due first.
///
/// One transaction at a time does this at a node. Each statement sees what was committed before it
/// began, so the second one sees all leases. It is quick, so that costs less than workers which
/// compete for the same rows.
pub(super) async fn claim(
    work: &Work<'_>,
    worker: i64,
    lease: Duration,
    node: NodeId,
    now: u64,
    limit: usize,
) -> Result<Vec<Claim>, Fault> {
    work.needs_no_sync().await?;
    work.lock(i32::from(small(node))).await?;
    let sql = "WITH due AS ( \
                   SELECT c.file, c.due_at, c.location, c.state FROM copies c WHERE c.node = $1 AND c.due_at <= $2 \
                   AND NOT EXISTS (SELECT FROM leases l WHERE l.node = c.node AND l.file = c.file AND l.until > statement_timestamp()) \
                   ORDER BY c.due_at, c.file LIMIT $3 \
               ), leased AS ( \
                   INSERT INTO leases AS l SELECT $1, file, $4, statement_timestamp() + make_interval(secs => $5) FROM due ORDER BY file \
                   ON CONFLICT (node, file) DO UPDATE SET worker = excluded.worker, until = excluded.until \
                   WHERE l.until <= statement_timestamp() RETURNING l.file \
               ) \
               SELECT d.file, d.due_at, coalesce(d.location, f.name), f.bytes, f.digests, d.state FROM leased \
               JOIN due d ON d.file = leased.file JOIN files f ON f.file = leased.file ORDER BY d.due_at, d.file";
    let rows = work.rows(sql, &[&small(node), &signed(now), &signed(limit as u64), &worker, &lease.as_secs_f64()]).await?;
    rows.iter().map(|row| decoded(node, row)).collect()
}

/// Leases copies of these files that no worker has leased, due or not.
pub(super) async fn claim_files(
    work: &Work<'_>,
    worker: i64,
    lease: Duration,
    node: NodeId,
    files: &[FileId],
) -> Result<Vec<Claim>, Fault> {
    work.needs_no_sync().await?;
    work.lock(i32::from(small(node))).await?;
    let sql = "WITH named AS ( \
                   SELECT c.file, c.due_at, c.location, c.state FROM (SELECT DISTINCT file FROM unnest($2::bigint[]) AS u(file)) k \
                   JOIN copies c ON c.node = $1 AND c.file = k.file \
               ), leased AS ( \
                   INSERT INTO leases AS l SELECT $1, file, $3, statement_timestamp() + make_interval(secs => $4) FROM named ORDER BY file \
                   ON CONFLICT (node, file) DO UPDATE SET worker = excluded.worker, until = excluded.until \
                   WHERE l.until <= statement_timestamp() RETURNING l.file \
               ) \
               SELECT d.file, d.due_at, coalesce(d.location, f.name), f.bytes, f.digests, d.state FROM leased \
               JOIN named d ON d.file = leased.file JOIN files f ON f.file = leased.file ORDER BY d.file";
    let files: Vec<i64> = files.iter().map(|file| signed(file.0)).collect();
    let rows = work.rows(sql, &[&small(node), &files, &worker, &lease.as_secs_f64()]).await?;
    rows.iter().map(|row| decoded(node, row)).collect()
}

fn decoded(node: NodeId, row: &tokio_postgres::Row) -> Result<Claim, Fault> {
    let bytes: Option<i64> = row.try_get(3)?;
    let expected = Expected { bytes: bytes.map(unsigned), digests: decoded_digests(row.try_get(4)?)? };
    let state = decoded_state("copies", row.try_get(5)?)?;
    Ok(Claim { node, file: FileId(unsigned(row.try_get(0)?)), location: row.try_get(2)?, expected, state, due_at: row.try_get(1)? })
}

/// Ends leases, unless another worker has them by now.
pub(super) async fn release(work: &Work<'_>, worker: i64, keys: &[(NodeId, FileId)]) -> Result<(), Fault> {
    let (nodes, files): (Vec<i16>, Vec<i64>) = keys.iter().map(|(node, file)| (small(*node), signed(file.0))).unzip();
    let sql = "DELETE FROM leases l USING unnest($1::smallint[], $2::bigint[]) AS k(node, file) \
               WHERE l.node = k.node AND l.file = k.file AND l.worker = $3";
    work.execute(sql, &[&nodes, &files, &worker]).await?;
    Ok(())
}

/// Extends the leases of a worker, but not those that another one has taken over.
pub(super) async fn renew(work: &Work<'_>, worker: i64, lease: Duration) -> Result<(), Fault> {
    work.needs_no_sync().await?;
    let sql = "UPDATE leases SET until = statement_timestamp() + make_interval(secs => $2) WHERE worker = $1";
    work.execute(sql, &[&worker, &lease.as_secs_f64()]).await?;
    Ok(())
}
