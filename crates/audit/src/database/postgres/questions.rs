//! What reports ask.

use std::time::Duration;

use super::super::counts;
use super::super::witnesses::{ENOUGH, SLOTS};
use super::super::{Age, CopyHistory, Event, FileHistory, Hour, Incident, IncidentKind, Problem, Subject, Total};
use super::history::{chain, decoded_event};
use super::session::{Fault, Work};
use super::{DatabaseError, decoded_digests, decoded_method, decoded_node, decoded_state, name_hash, signed, small, unsigned};
use crate::check::Witness;
use crate::copy::{Expected, FileId, NodeId, State};
use crate::overdue::Overdue;
use crate::series::Series;

pub(super) async fn next_due(work: &Work<'_>, node: NodeId) -> Result<Option<u64>, Fault> {
    let sql = "SELECT due_at FROM copies WHERE node = $1 ORDER BY due_at, file LIMIT 1";
    let row = work.optional(sql, &[&small(node)]).await?;
    Ok(row.map(|row| row.try_get(0)).transpose()?.map(unsigned))
}

pub(super) async fn overdue_looks(work: &Work<'_>, node: NodeId, looked_before: u64, due_before: u64, most: u64) -> Result<Overdue, Fault> {
    let found = [State::Verified, State::HeaderChecked, State::ProviderAttested].map(|state| i16::from(state.number()));
    // 0 to 3 are no dates: those copies are due at once.
    let sql = "SELECT count(*), count(*) FILTER (WHERE c.state = ANY($5) AND e.at < $2) FROM ( \
                   SELECT state, last_event FROM copies WHERE node = $1 AND due_at > 3 AND due_at < $3 ORDER BY due_at, file LIMIT $4 \
               ) c LEFT JOIN events e ON e.event = c.last_event";
    let limit = signed(most.saturating_add(1));
    let row = work.optional(sql, &[&small(node), &signed(looked_before), &signed(due_before), &limit, &&found[..]]).await?;
    let counts = row.map(|row| Ok::<_, Fault>((unsigned(row.try_get(0)?), unsigned(row.try_get(1)?)))).transpose()?.unwrap_or_default();
    Ok(if counts.0 > most { Overdue::MoreThan(most) } else { Overdue::Copies(counts.1) })
}

pub(super) async fn witnesses(work: &Work<'_>, node: NodeId, limit: usize) -> Result<Vec<Witness>, Fault> {
    let found = [State::Verified, State::HeaderChecked, State::ProviderAttested].map(|state| i16::from(state.number()));
    let id = small(node);
    let sql = "SELECT (SELECT count(DISTINCT file) FROM witnesses WHERE node = $1), greatest( \
               (SELECT coalesce(sum(copies), 0) FROM totals WHERE node = $1 AND state = ANY($2)), \
               (SELECT coalesce(sum(copies), 0) FROM ages WHERE node = $1 AND day >= 0))::bigint";
    let row = work.optional(sql, &[&id, &&found[..]]).await?;
    let (kept, shown): (i64, i64) = row.map(|row| Ok::<_, Fault>((row.try_get(0)?, row.try_get(1)?))).transpose()?.unwrap_or_default();
    // Reads copies until it has found a few, which the sums say exist.
    let more = if unsigned(kept) < ENOUGH && shown > kept { signed(SLOTS) } else { 0 };
    let sql = "SELECT coalesce(c.location, f.name), f.bytes, f.digests, c.state, n.method FROM ( \
                   SELECT file FROM witnesses WHERE node = $1 UNION ( \
                       SELECT file FROM copies WHERE node = $1 AND (state = ANY($2) OR verified_at IS NOT NULL) LIMIT $3) \
               ) w JOIN nodes n ON n.node = $1 JOIN copies c ON c.node = n.node AND c.file = w.file JOIN files f ON f.file = w.file";
    let rows = work.rows(sql, &[&id, &&found[..], &more]).await?;
    let witness = |row: &tokio_postgres::Row| {
        let bytes: Option<i64> = row.try_get(1)?;
        Ok(Witness {
            location: row.try_get(0)?,
            expected: Expected { bytes: bytes.map(unsigned), digests: decoded_digests(row.try_get(2)?)? },
            state: decoded_state("copies", row.try_get(3)?)?,
            method: decoded_method("nodes", row.try_get(4)?)?,
        })
    };
    let mut witnesses = rows.iter().map(witness).collect::<Result<Vec<_>, Fault>>()?;
    Witness::sort(&mut witnesses);
    witnesses.truncate(limit);
    Ok(witnesses)
}

pub(super) async fn detector(work: &Work<'_>, node: NodeId, series: Series) -> Result<Option<Vec<u8>>, Fault> {
    let sql = "SELECT state FROM detectors WHERE node = $1 AND series = $2";
    let row = work.optional(sql, &[&small(node), &i16::from(series.number())]).await?;
    Ok(row.map(|row| row.try_get(0)).transpose()?)
}

pub(super) async fn check_counts(work: &Work<'_>) -> Result<(), Fault> {
    // In one statement, so that all is of one state of the database.
    let sql = "SELECT n.node, coalesce((SELECT sum(copies) FROM totals t WHERE t.node = n.node), 0)::bigint, \
               (SELECT count(*) FROM (SELECT c.state, f.bytes FROM copies c JOIN files f ON f.file = c.file WHERE c.node = n.node \
                   ORDER BY c.file LIMIT $1) AS first), \
               (SELECT count(*) FROM (SELECT c.state, f.bytes FROM copies c JOIN files f ON f.file = c.file WHERE c.node = n.node \
                   ORDER BY c.file DESC LIMIT $1) AS last) FROM nodes n ORDER BY n.node";
    for row in work.rows(sql, &[&signed(counts::ROWS)]).await? {
        let (node, counted) = (decoded_node("nodes", row.try_get(0)?)?, unsigned(row.try_get(1)?));
        for column in [2, 3] {
            counts::compare(node, counted, unsigned(row.try_get(column)?))?;
        }
    }
    Ok(())
}

pub(super) async fn totals(work: &Work<'_>) -> Result<Vec<Total>, Fault> {
    let sql = "SELECT node, state, copies, least(bytes, 9223372036854775807)::bigint FROM totals WHERE copies <> 0 ORDER BY node, state";
    let total = |row: &tokio_postgres::Row| {
        Ok(Total {
            node: decoded_node("totals", row.try_get(0)?)?,
            state: decoded_state("totals", row.try_get(1)?)?,
            copies: unsigned(row.try_get(2)?),
            bytes: unsigned(row.try_get(3)?),
        })
    };
    work.rows(sql, &[]).await?.iter().map(total).collect()
}

pub(super) async fn ages(work: &Work<'_>) -> Result<Vec<Age>, Fault> {
    let sql = "SELECT node, day, copies, least(bytes, 9223372036854775807)::bigint FROM ages WHERE copies <> 0 ORDER BY node, day";
    let age = |row: &tokio_postgres::Row| {
        Ok(Age {
            node: decoded_node("ages", row.try_get(0)?)?,
            day: u64::try_from(row.try_get::<_, i64>(1)?).ok(),
            copies: unsigned(row.try_get(2)?),
            bytes: unsigned(row.try_get(3)?),
        })
    };
    work.rows(sql, &[]).await?.iter().map(age).collect()
}

pub(super) async fn hours(work: &Work<'_>, from: u64) -> Result<Vec<Hour>, Fault> {
    let sql = "SELECT hour, node, method, state, count, least(bytes, 9223372036854775807)::bigint, \
               least(stream_us, 9223372036854775807)::bigint, least(whole_us, 9223372036854775807)::bigint \
               FROM hours WHERE hour >= $1 ORDER BY hour, node, method, state";
    let hour = |row: &tokio_postgres::Row| {
        let number = |column| Ok::<_, Fault>(unsigned(row.try_get(column)?));
        Ok(Hour {
            hour: number(0)?,
            node: decoded_node("hours", row.try_get(1)?)?,
            method: decoded_method("hours", row.try_get(2)?)?,
            state: decoded_state("hours", row.try_get(3)?)?,
            count: number(4)?,
            bytes: number(5)?,
            stream: Duration::from_micros(number(6)?),
            whole: Duration::from_micros(number(7)?),
        })
    };
    work.rows(sql, &[&signed(from)]).await?.iter().map(hour).collect()
}

fn decoded_series(number: i16) -> Result<Series, DatabaseError> {
    let known = u8::try_from(number).ok().and_then(Series::from_number);
    known.ok_or_else(|| DatabaseError::Damaged { table: "incidents", what: format!("no series has the number {number}") })
}

pub(super) async fn incidents(work: &Work<'_>, from: u64) -> Result<Vec<Incident>, Fault> {
    let sql = "SELECT node, series, at, kind, since, factor, checks, unanswered FROM incidents WHERE at >= $1 ORDER BY incident";
    let incident = |row: &tokio_postgres::Row| {
        let number = |column| Ok::<_, Fault>(unsigned(row.try_get(column)?));
        let kind: i16 = row.try_get(3)?;
        let known = u8::try_from(kind).ok().and_then(IncidentKind::from_number);
        Ok(Incident {
            node: decoded_node("incidents", row.try_get(0)?)?,
            series: decoded_series(row.try_get(1)?)?,
            at: number(2)?,
            kind: known.ok_or_else(|| DatabaseError::Damaged { table: "incidents", what: format!("no kind has the number {kind}") })?,
            since: number(4)?,
            factor: row.try_get(5)?,
            checks: number(6)?,
            unanswered: number(7)?,
        })
    };
    work.rows(sql, &[&signed(from)]).await?.iter().map(incident).collect()
}

pub(super) async fn problems(work: &Work<'_>, state: State, after: Option<(NodeId, FileId)>, limit: usize) -> Result<Vec<Problem>, Fault> {
    let (node, file) = after.map_or((-1, -1), |(node, file)| (small(node), signed(file.0)));
    // The first ten columns are the last event.
    let sql = "SELECT e.event, e.previous, e.node, e.file, e.at, e.kind, e.method, e.bytes, e.stream_us, e.detail, \
               c.node, c.file, f.name, c.verified_at, c.last_event FROM copies c JOIN files f ON f.file = c.file \
               LEFT JOIN events e ON e.event = c.last_event \
               WHERE c.state = $1 AND (c.node, c.file) > ($2, $3) ORDER BY c.node, c.file LIMIT $4";
    let rows = work.rows(sql, &[&i16::from(state.number()), &node, &file, &signed(limit as u64)]).await?;
    let problem = |row: &tokio_postgres::Row| {
        let (found, named): (Option<i64>, Option<i64>) = (row.try_get(0)?, row.try_get(14)?);
        let last = match (found, named) {
            (Some(_), _) => Some(decoded_event(row)?.0),
            (None, Some(event)) => return Err(DatabaseError::Damaged { table: "events", what: format!("event {event} is gone") }.into()),
            (None, None) => None,
        };
        Ok(Problem {
            node: decoded_node("copies", row.try_get(10)?)?,
            file: FileId(unsigned(row.try_get(11)?)),
            name: row.try_get(12)?,
            state,
            verified_at: row.try_get::<_, Option<i64>>(13)?.map(unsigned),
            last,
        })
    };
    rows.iter().map(problem).collect()
}

pub(super) async fn history(work: &Work<'_>, name: &str) -> Result<Option<FileHistory>, Fault> {
    if name.contains('\0') {
        // No such name can be stored.
        return Ok(None);
    }
    let sql = "SELECT file, bytes, digests FROM files WHERE name_hash = $1 AND name = $2";
    let Some(row) = work.optional(sql, &[&name_hash(name), &name]).await? else { return Ok(None) };
    let (file, bytes, digests): (i64, Option<i64>, &[u8]) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    let expected = Expected { bytes: bytes.map(unsigned), digests: decoded_digests(digests)? };
    let sql = "SELECT c.node, coalesce(c.location, $2), c.state, c.verified_at, c.due_at, c.last_event \
               FROM nodes n JOIN copies c ON c.node = n.node AND c.file = $1 ORDER BY c.node";
    let mut copies = Vec::new();
    for row in work.rows(sql, &[&file, &name]).await? {
        let node = decoded_node("copies", row.try_get(0)?)?;
        copies.push(CopyHistory {
            node,
            location: row.try_get(1)?,
            state: decoded_state("copies", row.try_get(2)?)?,
            verified_at: row.try_get::<_, Option<i64>>(3)?.map(unsigned),
            due_at: unsigned(row.try_get(4)?),
            events: chain(work, node, file, row.try_get(5)?).await?,
        });
    }
    let removed = super::removal::copies_of(work, file, name).await?;
    Ok(Some(FileHistory { file: FileId(unsigned(file)), expected, copies, removed }))
}

pub(super) async fn subjects(work: &Work<'_>, since: u64, after: u64, limit: usize) -> Result<Vec<(u64, Subject)>, Fault> {
    let sql = "SELECT e.event, e.node, f.name, coalesce(c.location, r.location, f.name), f.bytes, f.digests FROM events e \
               JOIN files f ON f.file = e.file LEFT JOIN copies c ON c.node = e.node AND c.file = e.file \
               LEFT JOIN removed_copies r ON r.file = e.file AND r.node = e.node \
               WHERE e.event > $1 AND coalesce(e.previous, 0) <= $2 ORDER BY e.event LIMIT $3";
    let rows = work.rows(sql, &[&signed(after.max(since)), &signed(since), &signed(limit as u64)]).await?;
    let subject = |row: &tokio_postgres::Row| {
        let bytes: Option<i64> = row.try_get(4)?;
        let expected = Expected { bytes: bytes.map(unsigned), digests: decoded_digests(row.try_get(5)?)? };
        let node = decoded_node("events", row.try_get(1)?)?;
        Ok((unsigned(row.try_get(0)?), Subject { node, name: row.try_get(2)?, location: row.try_get(3)?, expected }))
    };
    rows.iter().map(subject).collect()
}

pub(super) async fn events(work: &Work<'_>, after: u64, limit: usize) -> Result<Vec<(Event, String)>, Fault> {
    let sql = "SELECT e.event, e.previous, e.node, e.file, e.at, e.kind, e.method, e.bytes, e.stream_us, e.detail, f.name \
               FROM events e JOIN files f ON f.file = e.file WHERE e.event > $1 ORDER BY e.event LIMIT $2";
    let rows = work.rows(sql, &[&signed(after), &signed(limit as u64)]).await?;
    rows.iter().map(|row| Ok((decoded_event(row)?.0, row.try_get(10)?))).collect()
}
