//! What reports ask.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::super::event::EventKind;
use super::super::witnesses::{ENOUGH, SLOTS};
use super::super::{Age, CopyHistory, Event, FileHistory, Hour, Incident, IncidentKind, Problem, Subject, Total};
use super::import::name_hash;
use super::{DatabaseError, decoded_digests, decoded_state, engine, signed, unsigned};
use crate::check::Witness;
use crate::copy::{Expected, FileId, Method, NodeId, State};
use crate::overdue::Overdue;
use crate::series::Series;

pub(super) fn next_due(connection: &Connection, node: NodeId) -> rusqlite::Result<Option<u64>> {
    let due: Option<i64> = connection
        .prepare_cached("SELECT due_at FROM copies WHERE node = ?1 ORDER BY due_at LIMIT 1")?
        .query_row([node.0], |row| row.get(0))
        .optional()?;
    Ok(due.map(unsigned))
}

pub(super) fn overdue_looks(
    connection: &Connection,
    node: NodeId,
    looked_before: u64,
    due_before: u64,
    most: u64,
) -> rusqlite::Result<Overdue> {
    let [verified, looked, attested] = [State::Verified, State::HeaderChecked, State::ProviderAttested].map(State::number);
    // 0 to 3 are no dates: those copies are due at once.
    let counts = connection
        .prepare_cached(
            "SELECT count(*), coalesce(sum(c.state IN (?5, ?6, ?7) AND e.at < ?2), 0) FROM ( \
                 SELECT state, last_event FROM copies INDEXED BY copies_due \
                 WHERE node = ?1 AND due_at > 3 AND due_at < ?3 ORDER BY due_at LIMIT ?4 \
             ) c LEFT JOIN events e ON e.event = c.last_event",
        )?
        .query_row(
            params![node.0, signed(looked_before), signed(due_before), signed(most.saturating_add(1)), verified, looked, attested],
            |row| Ok((unsigned(row.get(0)?), unsigned(row.get(1)?))),
        )?;
    Ok(if counts.0 > most { Overdue::MoreThan(most) } else { Overdue::Copies(counts.1) })
}

pub(super) fn witnesses(connection: &Connection, node: NodeId, limit: usize) -> Result<Vec<Witness>, DatabaseError> {
    let read = engine("read the witnesses of a node");
    let [verified, looked, attested] = [State::Verified, State::HeaderChecked, State::ProviderAttested].map(State::number);
    let (kept, shown): (i64, i64) = connection
        .prepare_cached(
            "SELECT (SELECT count(DISTINCT file) FROM witnesses WHERE node = ?1), max( \
             (SELECT coalesce(sum(copies), 0) FROM totals WHERE node = ?1 AND state IN (?2, ?3, ?4)), \
             (SELECT coalesce(sum(copies), 0) FROM ages WHERE node = ?1 AND day >= 0))",
        )
        .and_then(|mut statement| statement.query_row(params![node.0, verified, looked, attested], |row| Ok((row.get(0)?, row.get(1)?))))
        .map_err(&read)?;
    // Reads copies by number until it has found a few, which the sums say exist.
    let more = if unsigned(kept) < ENOUGH && shown > kept { signed(SLOTS) } else { 0 };
    let mut statement = connection
        .prepare_cached(
            "SELECT coalesce(c.location, f.name), f.bytes, f.digests, c.state, n.method FROM ( \
                 SELECT file FROM witnesses WHERE node = ?1 UNION SELECT file FROM ( \
                     SELECT file FROM copies WHERE node = ?1 AND (state IN (?2, ?3, ?4) OR verified_at IS NOT NULL) LIMIT ?5) \
             ) w JOIN nodes n ON n.node = ?1 JOIN copies c ON c.node = n.node AND c.file = w.file JOIN files f ON f.file = w.file",
        )
        .map_err(&read)?;
    let mut rows = statement.query(params![node.0, verified, looked, attested, more]).map_err(&read)?;
    let mut witnesses = Vec::new();
    while let Some(row) = rows.next().map_err(&read)? {
        let (location, bytes, digests, state, method): (String, Option<i64>, Vec<u8>, u8, u8) =
            (|| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?)))().map_err(&read)?;
        witnesses.push(Witness {
            location,
            expected: Expected { bytes: bytes.map(unsigned), digests: decoded_digests(&digests)? },
            state: decoded_state(state)?,
            method: decoded_method("nodes", method)?,
        });
    }
    Witness::sort(&mut witnesses);
    witnesses.truncate(limit);
    Ok(witnesses)
}

pub(super) fn totals(connection: &Connection) -> Result<Vec<Total>, DatabaseError> {
    let read = engine("read the totals");
    let mut statement =
        connection.prepare_cached("SELECT node, state, copies, bytes FROM totals WHERE copies <> 0 ORDER BY node, state").map_err(&read)?;
    let mut rows = statement.query([]).map_err(&read)?;
    let mut totals = Vec::new();
    while let Some(row) = rows.next().map_err(&read)? {
        let (node, state, copies, bytes) = (|| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))().map_err(&read)?;
        totals.push(Total { node: NodeId(node), state: decoded_state(state)?, copies: unsigned(copies), bytes: unsigned(bytes) });
    }
    Ok(totals)
}

pub(super) fn ages(connection: &Connection) -> rusqlite::Result<Vec<Age>> {
    let mut statement = connection.prepare_cached("SELECT node, day, copies, bytes FROM ages WHERE copies <> 0 ORDER BY node, day")?;
    let rows = statement.query_map([], |row| {
        Ok(Age {
            node: NodeId(row.get(0)?),
            day: u64::try_from(row.get::<_, i64>(1)?).ok(),
            copies: unsigned(row.get(2)?),
            bytes: unsigned(row.get(3)?),
        })
    })?;
    rows.collect()
}

pub(super) fn hours(connection: &Connection, from: u64) -> Result<Vec<Hour>, DatabaseError> {
    let read = engine("read the checks by hour");
    let mut statement = connection
        .prepare_cached(
            "SELECT hour, node, method, state, count, bytes, stream_us, whole_us FROM hours WHERE hour >= ?1 ORDER BY hour, node, method, state",
        )
        .map_err(&read)?;
    let mut rows = statement.query([signed(from)]).map_err(&read)?;
    let mut hours = Vec::new();
    while let Some(row) = rows.next().map_err(&read)? {
        let number = |column| row.get::<_, i64>(column).map(unsigned).map_err(&read);
        hours.push(Hour {
            hour: number(0)?,
            node: NodeId(row.get(1).map_err(&read)?),
            method: decoded_method("hours", row.get(2).map_err(&read)?)?,
            state: decoded_state(row.get(3).map_err(&read)?)?,
            count: number(4)?,
            bytes: number(5)?,
            stream: Duration::from_micros(number(6)?),
            whole: Duration::from_micros(number(7)?),
        });
    }
    Ok(hours)
}

pub(super) fn incidents(connection: &Connection, from: u64) -> Result<Vec<Incident>, DatabaseError> {
    let read = engine("read the incidents");
    let mut statement = connection
        .prepare_cached("SELECT node, series, at, kind, since, factor, checks, unanswered FROM incidents WHERE at >= ?1 ORDER BY incident")
        .map_err(&read)?;
    let mut rows = statement.query([signed(from)]).map_err(&read)?;
    let mut incidents = Vec::new();
    while let Some(row) = rows.next().map_err(&read)? {
        let number = |column| row.get::<_, i64>(column).map(unsigned).map_err(&read);
        let kind: u8 = row.get(3).map_err(&read)?;
        incidents.push(Incident {
            node: NodeId(row.get(0).map_err(&read)?),
            series: decoded_series(row.get(1).map_err(&read)?)?,
            at: number(2)?,
            kind: IncidentKind::from_number(kind)
                .ok_or_else(|| DatabaseError::Damaged { table: "incidents", what: format!("no kind has the number {kind}") })?,
            since: number(4)?,
            factor: row.get(5).map_err(&read)?,
            checks: number(6)?,
            unanswered: number(7)?,
        });
    }
    Ok(incidents)
}

fn decoded_series(number: u8) -> Result<Series, DatabaseError> {
    Series::from_number(number)
        .ok_or_else(|| DatabaseError::Damaged { table: "incidents", what: format!("no series has the number {number}") })
}

fn decoded_method(table: &'static str, number: u8) -> Result<Method, DatabaseError> {
    Method::from_number(number).ok_or_else(|| DatabaseError::Damaged { table, what: format!("no method has the number {number}") })
}

/// The state is written out, or the planner couldn't know that the partial index has its rows.
pub(super) fn problems_query(state: State) -> String {
    format!(
        "SELECT c.node, c.file, f.name, c.verified_at, c.last_event FROM copies c JOIN files f ON f.file = c.file \
         WHERE c.state = {} AND (c.node, c.file) > (?1, ?2) ORDER BY c.node, c.file LIMIT ?3",
        state.number()
    )
}

pub(super) fn problems(
    connection: &Connection,
    state: State,
    after: Option<(NodeId, FileId)>,
    limit: usize,
) -> Result<Vec<Problem>, DatabaseError> {
    let read = engine("list copies by state");
    let (node, file) = after.map_or((-1, -1), |(node, file)| (i64::from(node.0), signed(file.0)));
    let mut statement = connection.prepare_cached(&problems_query(state)).map_err(&read)?;
    let mut rows = statement.query(params![node, file, signed(limit as u64)]).map_err(&read)?;
    let mut problems = Vec::new();
    while let Some(row) = rows.next().map_err(&read)? {
        let (node, file, name, verified_at, last): (u16, i64, String, Option<i64>, Option<i64>) =
            (|| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?)))().map_err(&read)?;
        let last = last.map(|last| event(connection, last)).transpose()?;
        problems.push(Problem {
            node: NodeId(node),
            file: FileId(unsigned(file)),
            name,
            state,
            verified_at: verified_at.map(unsigned),
            last: last.map(|(event, _)| event),
        });
    }
    Ok(problems)
}

pub(super) fn history(connection: &Connection, name: &str) -> Result<Option<FileHistory>, DatabaseError> {
    let read = engine("look up a file");
    let found: Option<(i64, Option<i64>, Vec<u8>)> = connection
        .prepare_cached("SELECT file, bytes, digests FROM files WHERE name_hash = ?1 AND name = ?2")
        .and_then(|mut statement| {
            statement.query_row(params![name_hash(name), name], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).optional()
        })
        .map_err(&read)?;
    let Some((file, bytes, digests)) = found else { return Ok(None) };
    let mut statement = connection
        .prepare_cached(
            "SELECT c.node, coalesce(c.location, ?2), c.state, c.verified_at, c.due_at, c.last_event \
             FROM nodes n CROSS JOIN copies c ON c.node = n.node AND c.file = ?1 ORDER BY n.node",
        )
        .map_err(&read)?;
    let mut rows = statement.query(params![file, name]).map_err(&read)?;
    let mut copies = Vec::new();
    while let Some(row) = rows.next().map_err(&read)? {
        let (node, location, state, verified_at, due_at, last): (u16, String, u8, Option<i64>, i64, Option<i64>) =
            (|| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?)))().map_err(&read)?;
        copies.push(CopyHistory {
            node: NodeId(node),
            location,
            state: decoded_state(state)?,
            verified_at: verified_at.map(unsigned),
            due_at: unsigned(due_at),
            events: chain(connection, last)?,
        });
    }
    let expected = Expected { bytes: bytes.map(unsigned), digests: decoded_digests(&digests)? };
    let removed = super::removal::copies_of(connection, file, name)?;
    Ok(Some(FileHistory { file: FileId(unsigned(file)), expected, copies, removed }))
}

/// Walks from the last event of a copy to its first.
pub(super) fn chain(connection: &Connection, last: Option<i64>) -> Result<Vec<Event>, DatabaseError> {
    let mut events: Vec<Event> = Vec::new();
    let mut next = last;
    while let Some(number) = next {
        let (event, previous) = event(connection, number)?;
        if previous.is_some_and(|previous| previous >= number)
            || events.last().is_some_and(|later| (later.node, later.file) != (event.node, event.file))
        {
            return Err(DatabaseError::Damaged { table: "events", what: format!("event {number} is not in the chain of its copy") });
        }
        events.push(event);
        next = previous;
    }
    Ok(events)
}

const EVENT: &str = "e.event, e.previous, e.node, e.file, e.at, e.kind, e.method, e.bytes, e.stream_us, e.detail";

/// Reads an event, and the number of the one before it of the same copy.
fn event(connection: &Connection, number: i64) -> Result<(Event, Option<i64>), DatabaseError> {
    let read = engine("read the history");
    let mut statement = connection.prepare_cached(&format!("SELECT {EVENT} FROM events e WHERE e.event = ?1")).map_err(&read)?;
    let mut rows = statement.query([number]).map_err(&read)?;
    match rows.next().map_err(&read)? {
        Some(row) => Ok((decoded_event(row)?, row.get(1).map_err(&read)?)),
        None => Err(DatabaseError::Damaged { table: "events", what: format!("event {number} is gone") }),
    }
}

fn decoded_event(row: &Row<'_>) -> Result<Event, DatabaseError> {
    let read = engine("read the history");
    let number = |column| row.get::<_, i64>(column).map(unsigned).map_err(&read);
    let kind: u8 = row.get(5).map_err(&read)?;
    Ok(Event {
        event: number(0)?,
        node: NodeId(row.get(2).map_err(&read)?),
        file: FileId(number(3)?),
        at: number(4)?,
        kind: EventKind::from_number(kind)
            .ok_or_else(|| DatabaseError::Damaged { table: "events", what: format!("no kind has the number {kind}") })?,
        method: decoded_method("events", row.get(6).map_err(&read)?)?,
        bytes: number(7)?,
        stream: Duration::from_micros(number(8)?),
        detail: row.get::<_, Option<String>>(9).map_err(&read)?.unwrap_or_default(),
    })
}

pub(super) fn subjects(connection: &Connection, since: u64, after: u64, limit: usize) -> Result<Vec<(u64, Subject)>, DatabaseError> {
    let read = engine("read the history");
    let mut statement = connection
        .prepare_cached(
            "SELECT e.event, e.node, f.name, coalesce(c.location, r.location, f.name), f.bytes, f.digests FROM events e \
             JOIN files f ON f.file = e.file LEFT JOIN copies c ON c.node = e.node AND c.file = e.file \
             LEFT JOIN removed_copies r ON r.file = e.file AND r.node = e.node WHERE e.event > ?1 AND coalesce(e.previous, 0) <= ?2 \
             ORDER BY e.event LIMIT ?3",
        )
        .map_err(&read)?;
    let mut rows = statement.query(params![signed(after.max(since)), signed(since), signed(limit as u64)]).map_err(&read)?;
    let mut subjects = Vec::new();
    while let Some(row) = rows.next().map_err(&read)? {
        let (event, node, name, location, bytes, digests): (i64, u16, String, String, Option<i64>, Vec<u8>) =
            (|| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?)))().map_err(&read)?;
        let expected = Expected { bytes: bytes.map(unsigned), digests: decoded_digests(&digests)? };
        subjects.push((unsigned(event), Subject { node: NodeId(node), name, location, expected }));
    }
    Ok(subjects)
}

pub(super) fn events(connection: &Connection, after: u64, limit: usize) -> Result<Vec<(Event, String)>, DatabaseError> {
    let read = engine("read the history");
    let mut statement = connection
        .prepare_cached(&format!(
            "SELECT {EVENT}, f.name FROM events e JOIN files f ON f.file = e.file WHERE e.event > ?1 ORDER BY e.event LIMIT ?2"
        ))
        .map_err(&read)?;
    let mut rows = statement.query(params![signed(after), signed(limit as u64)]).map_err(&read)?;
    let mut events = Vec::new();
    while let Some(row) = rows.next().map_err(&read)? {
        events.push((decoded_event(row)?, row.get(10).map_err(&read)?));
    }
    Ok(events)
}
