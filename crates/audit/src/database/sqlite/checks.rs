//! Claims and results.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Row, Transaction, TransactionBehavior, params};

use super::super::awaits_length;
use super::super::event::{self, EventKind};
use super::super::witnesses::Shown;
use super::import::refuse_unfinished;
use super::{
    Checked, Claim, DatabaseError, DetectorState, Event, Incident, decoded_digests, decoded_state, digests, engine, signed, unsigned,
};
use crate::copy::{Expected, FileId, Finding, Method, NodeId, State};
use crate::node::DAY_S;

/// Reads the copies of a node that are due, without those that are claimed. Returns none while the
/// first import is unfinished.
pub(super) fn due(
    connection: &Connection,
    node: NodeId,
    now: u64,
    limit: usize,
    claimed: &HashSet<FileId>,
) -> Result<Vec<Claim>, DatabaseError> {
    let read = engine("read what is due");
    let mut statement = connection
        .prepare_cached(
            "SELECT c.file, c.due_at, c.location, f.name, f.bytes, f.digests, c.state FROM copies c JOIN files f ON f.file = c.file \
             WHERE c.node = ?1 AND c.due_at <= ?2 AND NOT EXISTS (SELECT 1 FROM imports WHERE holds_checks) ORDER BY c.due_at, c.file",
        )
        .map_err(&read)?;
    let mut rows = statement.query(params![node.0, signed(now)]).map_err(&read)?;
    let mut claims = Vec::new();
    while claims.len() < limit {
        let Some(row) = rows.next().map_err(&read)? else { break };
        let file = FileId(unsigned(row.get(0).map_err(&read)?));
        if !claimed.contains(&file) {
            claims.push(claim(node, file, row)?);
        }
    }
    Ok(claims)
}

/// Reads one copy, due or not.
pub(super) fn copy(connection: &Connection, node: NodeId, file: FileId) -> Result<Option<Claim>, DatabaseError> {
    let read = engine("read a copy");
    let mut statement = connection
        .prepare_cached(
            "SELECT c.file, c.due_at, c.location, f.name, f.bytes, f.digests, c.state FROM copies c JOIN files f ON f.file = c.file \
             WHERE c.node = ?1 AND c.file = ?2",
        )
        .map_err(&read)?;
    let mut rows = statement.query(params![node.0, signed(file.0)]).map_err(&read)?;
    rows.next().map_err(&read)?.map(|row| claim(node, file, row)).transpose()
}

fn claim(node: NodeId, file: FileId, row: &Row<'_>) -> Result<Claim, DatabaseError> {
    let read = engine("read a copy");
    let due_at = row.get(1).map_err(&read)?;
    let location: Option<String> = row.get(2).map_err(&read)?;
    let location = match location {
        Some(location) => location,
        None => row.get(3).map_err(&read)?,
    };
    let bytes: Option<i64> = row.get(4).map_err(&read)?;
    let digests = decoded_digests(row.get_ref(5).and_then(|value| Ok(value.as_blob()?)).map_err(&read)?)?;
    let state = decoded_state(row.get(6).map_err(&read)?)?;
    Ok(Claim { node, file, location, expected: Expected { bytes: bytes.map(unsigned), digests }, state, due_at })
}

/// Changes of sums that a commit makes at once.
#[derive(Default)]
pub(super) struct Sums {
    /// Copies and bytes, by node and state.
    totals: BTreeMap<(u16, u8), (i64, i64)>,
    /// Copies and bytes, by node and day.
    ages: BTreeMap<(u16, i64), (i64, i64)>,
    /// By hour, node, method and state.
    hours: BTreeMap<(i64, u16, u8, u8), HourSums>,
}

#[derive(Default)]
struct HourSums {
    count: i64,
    bytes: i64,
    stream_us: i64,
}

impl Sums {
    /// Adds or takes away a copy.
    pub(super) fn copy(&mut self, node: NodeId, state: State, verified_at: Option<i64>, bytes: Option<i64>, sign: i64) {
        let bytes = bytes.unwrap_or(0).saturating_mul(sign);
        let total = self.totals.entry((node.0, state.number())).or_default();
        *total = (total.0 + sign, total.1.saturating_add(bytes));
        let day = verified_at.map_or(-1, |at| at.div_euclid(DAY_S as i64));
        let age = self.ages.entry((node.0, day)).or_default();
        *age = (age.0 + sign, age.1.saturating_add(bytes));
    }

    fn check(&mut self, result: &Checked) {
        let hour = signed(result.at / 3_600);
        let sums = self.hours.entry((hour, result.claim.node.0, result.method.number(), result.finding.state().number())).or_default();
        sums.count += 1;
        sums.bytes = sums.bytes.saturating_add(signed(result.bytes));
        sums.stream_us = sums.stream_us.saturating_add(micros(result.stream));
    }

    /// Writes all changes.
    pub(super) fn apply(&self, transaction: &Transaction<'_>) -> rusqlite::Result<()> {
        let mut total = transaction.prepare_cached(
            "INSERT INTO totals VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO UPDATE SET copies = copies + excluded.copies, bytes = bytes + excluded.bytes",
        )?;
        for ((node, state), (copies, bytes)) in &self.totals {
            total.execute(params![node, state, copies, bytes])?;
        }
        let mut age = transaction.prepare_cached(
            "INSERT INTO ages VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO UPDATE SET copies = copies + excluded.copies, bytes = bytes + excluded.bytes",
        )?;
        for ((node, day), (copies, bytes)) in &self.ages {
            age.execute(params![node, day, copies, bytes])?;
        }
        transaction.prepare_cached("DELETE FROM ages WHERE copies = 0")?.execute([])?;
        let mut hour = transaction.prepare_cached(
            "INSERT INTO hours VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0) ON CONFLICT DO UPDATE SET count = count + excluded.count, \
             bytes = bytes + excluded.bytes, stream_us = stream_us + excluded.stream_us",
        )?;
        for ((at, node, method, state), sums) in &self.hours {
            hour.execute(params![at, node, method, state, sums.count, sums.bytes, sums.stream_us])?;
        }
        Ok(())
    }
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

/// A copy as it is before its result is recorded.
struct Before {
    state: State,
    verified_at: Option<i64>,
    last_event: Option<i64>,
    bytes: Option<i64>,
    digests: Vec<u8>,
}

/// Records results in one transaction.
pub(super) fn record(
    connection: &mut Connection,
    witnessed: &mut u64,
    results: &[Checked],
    detectors: &[DetectorState],
) -> Result<(), DatabaseError> {
    let failed = engine("record results");
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&failed)?;
    if !results.is_empty() {
        refuse_unfinished(&transaction)?;
    }
    let mut intervals = BTreeMap::new();
    let mut sums = Sums::default();
    let mut shown = Shown::default();
    for result in results {
        let node = result.claim.node;
        if let std::collections::btree_map::Entry::Vacant(entry) = intervals.entry(node) {
            let interval: Option<i64> = transaction
                .prepare_cached("SELECT interval_s FROM nodes WHERE node = ?1")
                .and_then(|mut statement| statement.query_row([node.0], |row| row.get(0)).optional())
                .map_err(&failed)?;
            entry.insert(interval.map(|interval| Duration::from_secs(unsigned(interval))));
        }
        let Some(interval) = intervals[&node] else { continue };
        let Some(before) = before(&transaction, result)? else { continue };
        shown.note(result, apply(&transaction, result, &before, interval, &mut sums)?);
    }
    for node in shown.nodes() {
        *witnessed += 1;
        keep_witnesses(&transaction, &shown, node, *witnessed).map_err(&failed)?;
    }
    for detector in detectors {
        transaction
            .prepare_cached("INSERT OR REPLACE INTO detectors SELECT ?1, ?2, ?3 WHERE EXISTS (SELECT 1 FROM nodes WHERE node = ?1)")
            .and_then(|mut statement| statement.execute(params![detector.node.0, detector.series.number(), detector.state]))
            .map_err(&failed)?;
    }
    sums.apply(&transaction).map_err(&failed)?;
    transaction.commit().map_err(&failed)
}

fn keep_witnesses(transaction: &Transaction<'_>, shown: &Shown, node: NodeId, turn: u64) -> rusqlite::Result<()> {
    let taken: Vec<(u64, FileId)> = transaction
        .prepare_cached("SELECT slot, file FROM witnesses WHERE node = ?1")?
        .query_map([node.0], |row| Ok((unsigned(row.get(0)?), FileId(unsigned(row.get(1)?)))))?
        .collect::<Result<_, _>>()?;
    let mut write = transaction.prepare_cached("INSERT OR REPLACE INTO witnesses VALUES (?1, ?2, ?3)")?;
    for (slot, file) in shown.placed(node, &taken, turn) {
        write.execute(params![node.0, signed(slot), signed(file.0)])?;
    }
    Ok(())
}

/// Reads the copy of a result, unless it is gone or was changed since it was claimed.
fn before(transaction: &Transaction<'_>, result: &Checked) -> Result<Option<Before>, DatabaseError> {
    let read = engine("read a copy");
    let mut statement = transaction
        .prepare_cached(
            "SELECT c.state, c.verified_at, c.last_event, f.bytes, f.digests FROM copies c JOIN files f ON f.file = c.file \
             WHERE c.node = ?1 AND c.file = ?2 AND c.due_at = ?3",
        )
        .map_err(&read)?;
    let row = statement
        .query_row(params![result.claim.node.0, signed(result.claim.file.0), result.claim.due_at], |row| {
            Ok((row.get::<_, u8>(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
        })
        .optional()
        .map_err(&read)?;
    let Some((state, verified_at, last_event, bytes, digests)) = row else { return Ok(None) };
    Ok(Some(Before { state: decoded_state(state)?, verified_at, last_event, bytes, digests }))
}

/// Records one result. Returns the state that the copy has now.
fn apply(
    transaction: &Transaction<'_>,
    result: &Checked,
    before: &Before,
    interval: Duration,
    sums: &mut Sums,
) -> Result<State, DatabaseError> {
    let failed = engine("record a result");
    let (node, file) = (result.claim.node, signed(result.claim.file.0));
    let mut bytes_now = before.bytes;
    let mut due_at_once = false;
    if let Finding::Recorded { bytes, digest } = &result.finding {
        if before.digests.is_empty() {
            bytes_now = Some(signed(*bytes));
            transaction
                .prepare_cached("UPDATE files SET bytes = ?2, digests = ?3 WHERE file = ?1")
                .and_then(|mut statement| statement.execute(params![file, bytes_now, digests::encode(std::slice::from_ref(digest))]))
                .map_err(&failed)?;
            if before.bytes.is_none() {
                // Sums of the file's other copies counted no bytes for them so far.
                recount_bytes(transaction, file, node, signed(*bytes), result.at, sums)?;
            }
        } else {
            // A copy at another node was read first, so this one is checked against that.
            due_at_once = true;
        }
    } else if let (Some(bytes), None) = (result.learned_bytes(), before.bytes) {
        bytes_now = Some(signed(bytes));
        transaction
            .prepare_cached("UPDATE files SET bytes = ?2 WHERE file = ?1")
            .and_then(|mut statement| statement.execute(params![file, bytes_now]))
            .map_err(&failed)?;
        recount_bytes(transaction, file, node, signed(bytes), result.at, sums)?;
    } else if matches!(result.finding, Finding::LengthUnknown { .. }) && before.bytes.is_some() {
        // The length became known meanwhile.
        due_at_once = true;
    }
    let state = result.state_after(before.state);
    let verified_at = if state == State::Verified { Some(signed(result.at)) } else { before.verified_at };
    let next_due = result.next_due(interval, state, before.state, before.verified_at.is_some());
    let due_at = if due_at_once { result.at } else { next_due };
    let detail = event::detail(result.method, &result.finding);
    let event = append(
        transaction,
        &Appended {
            previous: before.last_event,
            node,
            file,
            at: signed(result.at),
            kind: EventKind::of(&result.finding),
            method: result.method,
            bytes: signed(result.bytes),
            stream: micros(result.stream),
            detail: (!detail.is_empty()).then_some(detail.as_str()),
        },
    )
    .map_err(&failed)?;
    transaction
        .prepare_cached("UPDATE copies SET state = ?3, due_at = ?4, verified_at = ?5, last_event = ?6 WHERE node = ?1 AND file = ?2")
        .and_then(|mut statement| statement.execute(params![node.0, file, state.number(), signed(due_at), verified_at, event]))
        .map_err(&failed)?;
    sums.copy(node, before.state, before.verified_at, before.bytes, -1);
    sums.copy(node, state, verified_at, bytes_now, 1);
    sums.check(result);
    Ok(state)
}

/// Counts the bytes of a file's copies at other nodes, now that its length is known, and makes
/// copies due that were looked at without it.
fn recount_bytes(
    transaction: &Transaction<'_>,
    file: i64,
    except: NodeId,
    bytes: i64,
    now: u64,
    sums: &mut Sums,
) -> Result<(), DatabaseError> {
    let read = engine("read the copies of a file");
    let mut statement = transaction
        .prepare_cached(
            "SELECT n.node, c.state, c.verified_at FROM nodes n CROSS JOIN copies c ON c.node = n.node AND c.file = ?1 WHERE n.node <> ?2",
        )
        .map_err(&read)?;
    let mut rows = statement.query(params![file, except.0]).map_err(&read)?;
    while let Some(row) = rows.next().map_err(&read)? {
        let (node, state, verified_at) = (|| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))().map_err(&read)?;
        let state = decoded_state(state)?;
        sums.copy(NodeId(node), state, verified_at, None, -1);
        sums.copy(NodeId(node), state, verified_at, Some(bytes), 1);
        if awaits_length(state) {
            due_for_length(transaction, NodeId(node), file, signed(now)).map_err(&read)?;
        }
    }
    Ok(())
}

/// Makes a copy due whose length has become known. If it is due already, its check may be under
/// way, and stays valid.
pub(super) fn due_for_length(transaction: &Transaction<'_>, node: NodeId, file: i64, now: i64) -> rusqlite::Result<()> {
    let sql = "UPDATE copies SET due_at = ?3 WHERE node = ?1 AND file = ?2 AND due_at > ?3";
    transaction.prepare_cached(sql)?.execute(params![node.0, file, now]).map(drop)
}

/// A row of the history.
pub(super) struct Appended<'a> {
    pub(super) previous: Option<i64>,
    pub(super) node: NodeId,
    pub(super) file: i64,
    pub(super) at: i64,
    pub(super) kind: EventKind,
    pub(super) method: Method,
    pub(super) bytes: i64,
    pub(super) stream: i64,
    pub(super) detail: Option<&'a str>,
}

/// Appends to the history, and returns the number of the event.
pub(super) fn append(transaction: &Transaction<'_>, event: &Appended<'_>) -> rusqlite::Result<i64> {
    transaction
        .prepare_cached(
            "INSERT INTO events (previous, node, file, at, kind, method, bytes, stream_us, detail) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?
        .execute(params![
            event.previous,
            event.node.0,
            event.file,
            event.at,
            event.kind.number(),
            event.method.number(),
            event.bytes,
            event.stream,
            event.detail
        ])?;
    Ok(transaction.last_insert_rowid())
}

pub(super) fn record_repair(connection: &mut Connection, node: NodeId, file: FileId, at: u64, detail: &str) -> Result<(), DatabaseError> {
    let failed = engine("record a repair");
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&failed)?;
    refuse_unfinished(&transaction)?;
    let copy = params![node.0, signed(file.0)];
    let previous = transaction
        .query_row("SELECT last_event FROM copies WHERE node = ?1 AND file = ?2", copy, |row| row.get(0))
        .optional()
        .map_err(&failed)?;
    if let Some(previous) = previous {
        let event = append(
            &transaction,
            &Appended {
                previous,
                node,
                file: signed(file.0),
                at: signed(at),
                kind: EventKind::Repaired,
                method: Method::Stream,
                bytes: 0,
                stream: 0,
                detail: Some(detail),
            },
        )
        .map_err(&failed)?;
        transaction
            .execute(
                "UPDATE copies SET due_at = ?3, last_event = ?4 WHERE node = ?1 AND file = ?2",
                params![node.0, signed(file.0), signed(at), event],
            )
            .map_err(&failed)?;
    }
    transaction.commit().map_err(&failed)
}

pub(super) fn append_event(connection: &mut Connection, event: &Event) -> Result<(), DatabaseError> {
    let failed = engine("append an event");
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&failed)?;
    refuse_unfinished(&transaction)?;
    let (node, file) = (event.node, signed(event.file.0));
    let sql = "SELECT last_event FROM copies WHERE node = ?1 AND file = ?2";
    let Some(previous) = transaction.query_row(sql, params![node.0, file], |row| row.get(0)).optional().map_err(&failed)? else {
        return Ok(());
    };
    let number = append(
        &transaction,
        &Appended {
            previous,
            node,
            file,
            at: signed(event.at),
            kind: event.kind,
            method: event.method,
            bytes: signed(event.bytes),
            stream: micros(event.stream),
            detail: (!event.detail.is_empty()).then_some(&event.detail),
        },
    )
    .map_err(&failed)?;
    transaction
        .execute("UPDATE copies SET last_event = ?3 WHERE node = ?1 AND file = ?2", params![node.0, file, number])
        .map_err(&failed)?;
    transaction.commit().map_err(&failed)
}

pub(super) fn record_incidents(connection: &mut Connection, incidents: &[Incident]) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for incident in incidents {
        transaction.execute(
            "INSERT INTO incidents (node, series, at, kind, since, factor, checks, unanswered) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            params![
                incident.node.0,
                incident.series.number(),
                signed(incident.at),
                incident.kind.number(),
                signed(incident.since),
                incident.factor,
                signed(incident.checks),
                signed(incident.unanswered),
            ],
        )?;
    }
    transaction.commit()
}

pub(super) fn add_whole_times(connection: &mut Connection, times: &[(NodeId, Method, u64, State, Duration)]) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    {
        let mut statement = transaction
            .prepare_cached("UPDATE hours SET whole_us = whole_us + ?5 WHERE hour = ?1 AND node = ?2 AND method = ?3 AND state = ?4")?;
        for (node, method, hour, state, whole) in times {
            statement.execute(params![signed(*hour), node.0, method.number(), state.number(), micros(*whole)])?;
        }
    }
    transaction.commit()
}

pub(super) fn make_due(connection: &mut Connection, node: NodeId, now: u64, after: u64) -> rusqlite::Result<u64> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let changed = transaction
        .execute("UPDATE copies SET due_at = ?2 WHERE node = ?1 AND due_at > ?3", params![node.0, signed(now), signed(after.max(now))])?;
    transaction.commit()?;
    Ok(changed as u64)
}
