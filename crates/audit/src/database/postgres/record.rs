//! Results, and what else changes copies.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::super::event::{self, EventKind};
use super::super::witnesses::Shown;
use super::super::{Checked, DetectorState, Event, Incident, awaits_length, digests};
use super::history::{Appended, Appending};
use super::session::{Fault, HISTORY_LOCK, Work};
use super::sums::Sums;
use super::{claims, decoded_state, signed, small, unsigned};
use crate::copy::{FileId, Finding, Method, NodeId, State};

/// A copy as it is now.
struct Copy {
    state: State,
    due_at: i64,
    verified_at: Option<i64>,
    last_event: Option<i64>,
    changed: bool,
}

/// A file as it is now.
struct File {
    bytes: Option<i64>,
    digests: Vec<u8>,
    changed: bool,
}

/// By file and node.
type Copies = BTreeMap<(i64, NodeId), Copy>;
type Files = BTreeMap<i64, File>;

/// Records results in one transaction.
pub(super) async fn record(
    work: &Work<'_>,
    worker: i64,
    witnessed: u64,
    results: &[Checked],
    detectors: &[DetectorState],
) -> Result<(), Fault> {
    let intervals = intervals(work, results).await?;
    let (mut files, mut copies) = locked(work, results, &intervals).await?;
    let mut events = Appending::begin(work).await?;
    let mut sums = Sums::default();
    let mut shown = Shown::default();
    for result in results {
        let Some(interval) = intervals.get(&result.claim.node) else { continue };
        if let Some(state) = apply(result, *interval, &mut files, &mut copies, &mut events, &mut sums) {
            shown.note(result, state);
        }
    }
    events.write(work).await?;
    write_files(work, &files).await?;
    write_copies(work, &copies).await?;
    sums.apply(work).await?;
    for node in shown.nodes() {
        keep_witnesses(work, &shown, node, witnessed.wrapping_add(worker.cast_unsigned())).await?;
    }
    for detector in detectors {
        let sql = "INSERT INTO detectors SELECT $1, $2, $3 WHERE EXISTS (SELECT FROM nodes WHERE node = $1) ON CONFLICT (node, series) DO UPDATE SET state = excluded.state";
        work.execute(sql, &[&small(detector.node), &i16::from(detector.series.number()), &detector.state]).await?;
    }
    let keys: Vec<(NodeId, FileId)> = results.iter().map(|result| (result.claim.node, result.claim.file)).collect();
    claims::release(work, worker, &keys).await
}

async fn keep_witnesses(work: &Work<'_>, shown: &Shown, node: NodeId, turn: u64) -> Result<(), Fault> {
    let mut taken = Vec::new();
    for row in work.rows("SELECT slot, file FROM witnesses WHERE node = $1", &[&small(node)]).await? {
        taken.push((unsigned(row.try_get::<_, i16>(0)?.into()), FileId(unsigned(row.try_get(1)?))));
    }
    for (slot, file) in shown.placed(node, &taken, turn) {
        let sql = "INSERT INTO witnesses VALUES ($1, $2, $3) ON CONFLICT (node, slot) DO UPDATE SET file = excluded.file";
        work.execute(sql, &[&small(node), &i16::try_from(slot).unwrap_or(0), &signed(file.0)]).await?;
    }
    Ok(())
}

/// True if the file's length or digest may become known by this result.
fn learns(result: &Checked) -> bool {
    result.learned_bytes().is_some()
}

/// Reads the intervals of the results' nodes, or of all if something is learned about files. They
/// can't change until the transaction ends.
async fn intervals(work: &Work<'_>, results: &[Checked]) -> Result<BTreeMap<NodeId, Duration>, Fault> {
    let nodes: BTreeSet<NodeId> = results.iter().map(|result| result.claim.node).collect();
    let nodes: Vec<i16> = nodes.into_iter().map(small).collect();
    let all = results.iter().any(learns);
    let sql = "SELECT node, interval_s FROM nodes WHERE $2 OR node = ANY($1) ORDER BY node FOR SHARE";
    let rows = work.rows(sql, &[&nodes, &all]).await?;
    let interval =
        |row: &tokio_postgres::Row| Ok((super::decoded_node("nodes", row.try_get(0)?)?, Duration::from_secs(unsigned(row.try_get(1)?))));
    rows.iter().map(interval).collect()
}

/// Locks the files of which something may be learned and then the copies that may change, and reads
/// them.
async fn locked(work: &Work<'_>, results: &[Checked], nodes: &BTreeMap<NodeId, Duration>) -> Result<(Files, Copies), Fault> {
    let recorded: BTreeSet<i64> = results.iter().filter(|result| learns(result)).map(|result| signed(result.claim.file.0)).collect();
    let mut files = Files::new();
    if !recorded.is_empty() {
        let recorded: Vec<i64> = recorded.into_iter().collect();
        let sql = "SELECT file, bytes, digests FROM files WHERE file = ANY($1) ORDER BY file FOR NO KEY UPDATE";
        read_files(work.rows(sql, &[&recorded]).await?, &mut files)?;
    }
    let mut keys: BTreeSet<(NodeId, i64)> = results.iter().map(|result| (result.claim.node, signed(result.claim.file.0))).collect();
    for (file, _) in files.iter().filter(|(_, known)| known.bytes.is_none()) {
        keys.extend(nodes.keys().map(|node| (*node, *file)));
    }
    let (key_nodes, key_files): (Vec<i16>, Vec<i64>) = keys.into_iter().map(|(node, file)| (small(node), file)).unzip();
    let sql = "SELECT c.node, c.file, c.state, c.due_at, c.verified_at, c.last_event \
               FROM unnest($1::smallint[], $2::bigint[]) AS k(node, file) JOIN copies c ON c.node = k.node AND c.file = k.file \
               ORDER BY c.node, c.file FOR NO KEY UPDATE OF c";
    let mut copies = Copies::new();
    for row in work.rows(sql, &[&key_nodes, &key_files]).await? {
        let key = (row.try_get(1)?, super::decoded_node("copies", row.try_get(0)?)?);
        let copy = Copy {
            state: decoded_state("copies", row.try_get(2)?)?,
            due_at: row.try_get(3)?,
            verified_at: row.try_get(4)?,
            last_event: row.try_get(5)?,
            changed: false,
        };
        copies.insert(key, copy);
    }
    // Read after the copies were locked: a transaction that changes a file's length locks them too.
    let others: BTreeSet<i64> = copies.keys().map(|(file, _)| *file).filter(|file| !files.contains_key(file)).collect();
    let others: Vec<i64> = others.into_iter().collect();
    read_files(work.rows("SELECT file, bytes, digests FROM files WHERE file = ANY($1)", &[&others]).await?, &mut files)?;
    Ok((files, copies))
}

fn read_files(rows: Vec<tokio_postgres::Row>, files: &mut Files) -> Result<(), Fault> {
    for row in rows {
        files.insert(row.try_get(0)?, File { bytes: row.try_get(1)?, digests: row.try_get(2)?, changed: false });
    }
    Ok(())
}

/// Applies one result. Returns the state that the copy has now; `None` if the result was dropped,
/// because the copy is gone or was changed since it was claimed.
fn apply(
    result: &Checked,
    interval: Duration,
    files: &mut Files,
    copies: &mut Copies,
    events: &mut Appending,
    sums: &mut Sums,
) -> Option<State> {
    let (node, file) = (result.claim.node, signed(result.claim.file.0));
    let before = copies.get(&(file, node)).filter(|copy| copy.due_at == result.claim.due_at)?;
    let (state_before, verified_before, last_event) = (before.state, before.verified_at, before.last_event);
    let known = files.get_mut(&file)?;
    let bytes_before = known.bytes;
    let mut due_at_once = false;
    if let Finding::Recorded { bytes, digest } = &result.finding {
        if known.digests.is_empty() {
            known.bytes = Some(signed(*bytes));
            known.digests = digests::encode(std::slice::from_ref(digest));
            known.changed = true;
        } else {
            // A copy at another node was read first, so this one is checked against that.
            due_at_once = true;
        }
    } else if let (Some(bytes), None) = (result.learned_bytes(), known.bytes) {
        known.bytes = Some(signed(bytes));
        known.changed = true;
    }
    if bytes_before.is_none() && known.bytes.is_some() {
        // Sums of the file's other copies counted no bytes for them so far.
        let all = (file, NodeId(0))..=(file, NodeId(u16::MAX));
        for ((_, other), copy) in copies.range_mut(all).filter(|((_, other), _)| *other != node) {
            sums.copy(*other, copy.state, copy.verified_at, None, -1);
            sums.copy(*other, copy.state, copy.verified_at, known.bytes, 1);
            // If it is due already, its check may be under way, and stays valid.
            if awaits_length(copy.state) && copy.due_at > signed(result.at) {
                (copy.due_at, copy.changed) = (signed(result.at), true);
            }
        }
    }
    if matches!(result.finding, Finding::LengthUnknown { .. }) && known.bytes.is_some() {
        // The length became known meanwhile.
        due_at_once = true;
    }
    let state = result.state_after(state_before);
    let verified_at = if state == State::Verified { Some(signed(result.at)) } else { verified_before };
    let next_due = result.next_due(interval, state, state_before, verified_before.is_some());
    let due_at = if due_at_once { result.at } else { next_due };
    let detail = event::detail(result.method, &result.finding);
    let event = events.push(Appended {
        previous: last_event,
        node,
        file,
        at: result.at,
        kind: EventKind::of(&result.finding),
        method: result.method,
        bytes: result.bytes,
        stream: result.stream,
        detail: (!detail.is_empty()).then_some(detail),
    });
    sums.copy(node, state_before, verified_before, bytes_before, -1);
    sums.copy(node, state, verified_at, known.bytes, 1);
    sums.check(result);
    copies.insert((file, node), Copy { state, due_at: signed(due_at), verified_at, last_event: Some(event), changed: true });
    Some(state)
}

async fn write_files(work: &Work<'_>, files: &Files) -> Result<(), Fault> {
    for (file, known) in files.iter().filter(|(_, known)| known.changed) {
        work.execute("UPDATE files SET bytes = $2, digests = $3 WHERE file = $1", &[file, &known.bytes, &known.digests]).await?;
    }
    Ok(())
}

async fn write_copies(work: &Work<'_>, copies: &Copies) -> Result<(), Fault> {
    let changed: Vec<_> = copies.iter().filter(|(_, copy)| copy.changed).collect();
    let nodes: Vec<i16> = changed.iter().map(|((_, node), _)| small(*node)).collect();
    let files: Vec<i64> = changed.iter().map(|((file, _), _)| *file).collect();
    let states: Vec<i16> = changed.iter().map(|(_, copy)| i16::from(copy.state.number())).collect();
    let due: Vec<i64> = changed.iter().map(|(_, copy)| copy.due_at).collect();
    let verified: Vec<Option<i64>> = changed.iter().map(|(_, copy)| copy.verified_at).collect();
    let events: Vec<Option<i64>> = changed.iter().map(|(_, copy)| copy.last_event).collect();
    let sql = "UPDATE copies c SET state = u.state, due_at = u.due_at, verified_at = u.verified_at, last_event = u.last_event \
               FROM unnest($1::smallint[], $2::bigint[], $3::smallint[], $4::bigint[], $5::bigint[], $6::bigint[]) \
               AS u(node, file, state, due_at, verified_at, last_event) WHERE c.node = u.node AND c.file = u.file";
    work.execute(sql, &[&nodes, &files, &states, &due, &verified, &events]).await?;
    Ok(())
}

pub(super) async fn repair(work: &Work<'_>, node: NodeId, file: FileId, at: u64, detail: &str) -> Result<(), Fault> {
    let (id, number) = (small(node), signed(file.0));
    let sql = "SELECT last_event FROM copies WHERE node = $1 AND file = $2 FOR NO KEY UPDATE";
    let Some(row) = work.optional(sql, &[&id, &number]).await? else { return Ok(()) };
    let mut events = Appending::begin(work).await?;
    let event = events.push(Appended {
        previous: row.try_get(0)?,
        node,
        file: number,
        at,
        kind: EventKind::Repaired,
        method: Method::Stream,
        bytes: 0,
        stream: Duration::ZERO,
        detail: Some(detail.to_owned()),
    });
    events.write(work).await?;
    work.execute("UPDATE copies SET due_at = $3, last_event = $4 WHERE node = $1 AND file = $2", &[&id, &number, &signed(at), &event])
        .await?;
    Ok(())
}

pub(super) async fn event(work: &Work<'_>, event: &Event) -> Result<(), Fault> {
    let (node, file) = (small(event.node), signed(event.file.0));
    let sql = "SELECT last_event FROM copies WHERE node = $1 AND file = $2 FOR NO KEY UPDATE";
    let Some(row) = work.optional(sql, &[&node, &file]).await? else { return Ok(()) };
    let mut events = Appending::begin(work).await?;
    let number = events.push(Appended {
        previous: row.try_get(0)?,
        node: event.node,
        file,
        at: event.at,
        kind: event.kind,
        method: event.method,
        bytes: event.bytes,
        stream: event.stream,
        detail: (!event.detail.is_empty()).then(|| event.detail.clone()),
    });
    events.write(work).await?;
    work.execute("UPDATE copies SET last_event = $3 WHERE node = $1 AND file = $2", &[&node, &file, &number]).await?;
    Ok(())
}

pub(super) async fn incidents(work: &Work<'_>, incidents: &[Incident]) -> Result<(), Fault> {
    work.lock(HISTORY_LOCK).await?;
    for incident in incidents {
        let (node, series, kind) = (small(incident.node), i16::from(incident.series.number()), i16::from(incident.kind.number()));
        let (at, since) = (signed(incident.at), signed(incident.since));
        let (checks, unanswered) = (signed(incident.checks), signed(incident.unanswered));
        let sql =
            "INSERT INTO incidents (node, series, at, kind, since, factor, checks, unanswered) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
        work.execute(sql, &[&node, &series, &at, &kind, &since, &incident.factor, &checks, &unanswered]).await?;
    }
    Ok(())
}

pub(super) async fn whole_times(work: &Work<'_>, times: &[(NodeId, Method, u64, State, Duration)]) -> Result<(), Fault> {
    work.lock(HISTORY_LOCK).await?;
    let mut sums = Sums::default();
    for (node, method, hour, state, whole) in times {
        sums.whole_time(*node, *method, *hour, *state, *whole);
    }
    sums.apply(work).await
}

pub(super) async fn make_due(work: &Work<'_>, node: NodeId, now: u64, after: u64) -> Result<u64, Fault> {
    let sql = "WITH later AS (SELECT file FROM copies WHERE node = $1 AND due_at > $3::bigint ORDER BY file FOR NO KEY UPDATE) \
               UPDATE copies c SET due_at = $2::bigint FROM later l WHERE c.node = $1 AND c.file = l.file";
    work.execute(sql, &[&small(node), &signed(now), &signed(after.max(now))]).await
}
