//! Importing inventories.
//!
//! ```text
//!  rows --> portion --> what is known of its files --> in memory, row by row --> COPY, sums
//!                       locked where it may change
//! ```
//!
//! A portion is one transaction. Portions of several imports take turns, so none adds a file that
//! another one is adding. Checks go on meanwhile: only the files and copies that change are locked.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::pin::pin;
use std::time::Duration;

use tokio_postgres::types::Type;

use super::super::digests;
use super::super::event::EventKind;
use super::super::portion::{End, Portion, ROWS};
use super::super::removed::due_again;
use super::super::{Source, UnfinishedImport, awaits_length};
use super::history::{Appended, Appending};
use super::session::{ANSWER, Fault, HISTORY_LOCK, IMPORT_LOCK, Session, Work};
use super::sums::Sums;
use super::{DatabaseError, decoded_digests, decoded_node, decoded_state, name_hash, signed, small, storable, unsigned};
use crate::copy::{Expected, Method, NodeId, State};
use crate::inventory::{Conflict, Imported, InventoryError, Row};

/// Copies of a portion; a row may stand for a copy at each of many nodes.
const COPIES: usize = 200_000;
/// Conflicts that are reported with their names; all are counted.
const CONFLICTS_NAMED: usize = 1_000;

struct Import<'a> {
    nodes: &'a [NodeId],
    replace: bool,
    now: u64,
}

pub(super) fn import(
    session: &mut Session,
    source: Source<'_>,
    nodes: &[NodeId],
    replace: bool,
    now: u64,
    rows: &mut dyn Iterator<Item = Result<Row, InventoryError>>,
) -> Result<Imported, InventoryError> {
    let nodes: Vec<NodeId> = nodes.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
    let import = Import { nodes: &nodes, replace, now };
    let known_nodes = session.read("count the nodes", async |work| work.number("SELECT count(*) FROM nodes", &[]).await)?;
    // A changed file concerns its copies at all nodes.
    let most_rows = ROWS.min(COPIES / usize::try_from(known_nodes).unwrap_or(COPIES).max(1)).max(1);
    let number = session.change("begin an import", ANSWER, async |work, _| {
        let sql = "INSERT INTO imports (began_at, source) VALUES ($1, $2) RETURNING import";
        work.number(sql, &[&signed(now), &storable(source.name)]).await
    })?;
    let mut imported = Imported::default();
    let mut rows = rows.map(|row| row.and_then(without_nul));
    loop {
        let Portion { rows: portion, end } = Portion::collect(&mut rows, most_rows);
        let is_last = matches!(end, End::Complete);
        if !portion.is_empty() || is_last {
            let (named, rows_before) = (imported.conflicting.len(), imported.rows);
            let done = session.change("add files", ANSWER, async |work, _| {
                let mut done = import.add(work, &portion, CONFLICTS_NAMED - named).await?;
                if is_last {
                    // A list without rows completes nothing.
                    let has_rows = rows_before + done.rows > 0;
                    done.completed = complete(work, number, source, has_rows).await?;
                }
                Ok(done)
            })?;
            imported.rows += done.rows;
            imported.files += done.files;
            imported.copies += done.copies;
            imported.changed += done.changed;
            imported.conflicts += done.conflicts;
            imported.conflicting.extend(done.conflicting);
            imported.completed = done.completed;
        }
        match end {
            End::Open => {}
            End::Complete => return Ok(imported),
            End::Failed(error) => return Err(error),
        }
    }
}

/// Notes that an import is complete. Returns earlier ones of the same list, which are complete with
/// it.
async fn complete(work: &Work<'_>, number: i64, source: Source<'_>, has_rows: bool) -> Result<Vec<UnfinishedImport>, Fault> {
    work.execute("DELETE FROM imports WHERE import = $1", &[&number]).await?;
    if !source.is_repeatable || !has_rows {
        return Ok(Vec::new());
    }
    let sql = "DELETE FROM imports WHERE source = $1 AND import < $2 RETURNING import, began_at, source";
    work.rows(sql, &[&storable(source.name), &number]).await?.iter().map(unfinished_import).collect()
}

pub(super) async fn unfinished(work: &Work<'_>) -> Result<Vec<UnfinishedImport>, Fault> {
    work.rows("SELECT import, began_at, source FROM imports ORDER BY import", &[]).await?.iter().map(unfinished_import).collect()
}

fn unfinished_import(row: &tokio_postgres::Row) -> Result<UnfinishedImport, Fault> {
    Ok(UnfinishedImport {
        number: unsigned(row.try_get(0)?),
        began_at: unsigned(row.try_get(1)?),
        source: row.try_get(2)?,
        holds_checks: false,
    })
}

/// PostgreSQL can't store the character NUL.
fn without_nul(row: Row) -> Result<Row, InventoryError> {
    if row.name.contains('\0') || row.location.as_ref().is_some_and(|location| location.contains('\0')) {
        return Err(DatabaseError::NulInName { name: row.name }.into());
    }
    Ok(row)
}

/// A file of the portion's rows.
struct File {
    number: i64,
    expected: Expected,
    added: bool,
    changed: bool,
    copies: BTreeMap<NodeId, Copy>,
}

struct Copy {
    location: Option<String>,
    state: State,
    due_at: i64,
    verified_at: Option<i64>,
    last_event: Option<i64>,
    added: bool,
    changed: bool,
}

/// What a row says of a file, compared with what is known.
enum Comparison {
    Known,
    Adds(Expected),
    Contradicts,
}

fn compare(known: &Expected, listed: &Expected) -> Comparison {
    if known.contradicts(listed) {
        return Comparison::Contradicts;
    }
    let mut digests = known.digests.clone();
    for new in &listed.digests {
        if !digests.contains(new) {
            digests.push(new.clone());
        }
    }
    digests.sort();
    let merged = Expected { bytes: known.bytes.or(listed.bytes), digests };
    if merged == *known { Comparison::Known } else { Comparison::Adds(merged) }
}

fn location(row: &Row) -> Option<&str> {
    row.location.as_deref().filter(|location| *location != row.name)
}

type Files<'a> = HashMap<&'a str, File>;

impl Import<'_> {
    fn nodes_of<'r>(&'r self, row: &'r Row) -> &'r [NodeId] {
        if row.node.is_some() { row.node.as_slice() } else { self.nodes }
    }

    /// Adds a portion.
    async fn add(&self, work: &Work<'_>, rows: &[Row], named: usize) -> Result<Imported, Fault> {
        work.lock(IMPORT_LOCK).await?;
        self.check_nodes(work, rows).await?;
        let removed = removed(work, rows).await?;
        let mut files = find(work, rows).await?;
        self.read_copies(work, rows, &mut files).await?;
        self.lock_changing(work, rows, &mut files).await?;
        let mut sums = Sums::default();
        // Only a replacement leaves events.
        let mut events = if self.replace { Some(Appending::begin(work).await?) } else { None };
        let mut imported = Imported { rows: rows.len() as u64, ..Imported::default() };
        let mut next = 1 + work.number("SELECT coalesce(max(file), 0) FROM files", &[]).await?;
        for row in rows {
            let file = files.entry(&row.name).or_insert_with(|| {
                imported.files += 1;
                next += 1;
                File { number: next - 1, expected: row.expected.clone(), added: true, changed: false, copies: BTreeMap::new() }
            });
            self.add_row(row, file, &removed, &mut sums, &mut events, &mut imported, named);
        }
        write_files(work, &files).await?;
        write_copies(work, &files).await?;
        take_back(work, &files, &removed).await?;
        match events {
            Some(events) => events.write(work).await?,
            None => work.lock(HISTORY_LOCK).await?,
        }
        sums.apply(work).await?;
        Ok(imported)
    }

    /// Makes sure that no node was removed meanwhile.
    async fn check_nodes(&self, work: &Work<'_>, rows: &[Row]) -> Result<(), Fault> {
        let known: Vec<i16> = work.rows("SELECT node FROM nodes", &[]).await?.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
        let unknown = rows.iter().flat_map(|row| self.nodes_of(row)).find(|node| !known.contains(&small(**node)));
        unknown.map_or(Ok(()), |node| Err(DatabaseError::NoSuchNode { node: node.0 }.into()))
    }

    /// Reads the copies of known files at the rows' nodes. Only imports add copies or move them.
    async fn read_copies(&self, work: &Work<'_>, rows: &[Row], files: &mut Files<'_>) -> Result<(), Fault> {
        let of = |row: &Row| files.get(row.name.as_str()).map(|file| file.number);
        let keys = rows.iter().filter_map(|row| Some((of(row)?, self.nodes_of(row))));
        let keys: BTreeSet<(NodeId, i64)> = keys.flat_map(|(file, nodes)| nodes.iter().map(move |node| (*node, file))).collect();
        let (nodes, numbers): (Vec<i16>, Vec<i64>) = keys.into_iter().map(|(node, file)| (small(node), file)).unzip();
        let sql = "SELECT c.file, c.node, c.location, c.state, c.due_at, c.verified_at, c.last_event \
                   FROM unnest($1::smallint[], $2::bigint[]) AS k(node, file) JOIN copies c ON c.node = k.node AND c.file = k.file";
        attach(work.rows(sql, &[&nodes, &numbers]).await?, files)
    }

    /// Locks the files that this portion may change, or of which a check may learn the length
    /// meanwhile, and all of their copies, and reads them again.
    async fn lock_changing(&self, work: &Work<'_>, rows: &[Row], files: &mut Files<'_>) -> Result<(), Fault> {
        let mut changing = BTreeSet::new();
        for row in rows {
            let Some(file) = files.get(row.name.as_str()) else { continue };
            let moves = |node: &NodeId| file.copies.get(node).is_some_and(|copy| copy.location.as_deref() != location(row));
            let changes = match compare(&file.expected, &row.expected) {
                Comparison::Known => self.replace && self.nodes_of(row).iter().any(moves),
                Comparison::Adds(_) => true,
                // The row is right if the file has no copies any more.
                Comparison::Contradicts => true,
            };
            if changes || file.expected.bytes.is_none() {
                changing.insert(file.number);
            }
        }
        if changing.is_empty() {
            return Ok(());
        }
        let changing: Vec<i64> = changing.into_iter().collect();
        let sql = "SELECT file, name, bytes, digests FROM files WHERE file = ANY($1) ORDER BY file FOR NO KEY UPDATE";
        for row in work.rows(sql, &[&changing]).await? {
            if let Some(file) = files.get_mut(row.try_get::<_, &str>(1)?) {
                file.expected = expected(&row)?;
            }
        }
        let sql = "SELECT c.file, c.node, c.location, c.state, c.due_at, c.verified_at, c.last_event \
                   FROM unnest($1::bigint[]) AS k(file) CROSS JOIN nodes n JOIN copies c ON c.node = n.node AND c.file = k.file \
                   ORDER BY c.node, c.file FOR NO KEY UPDATE OF c";
        attach(work.rows(sql, &[&changing]).await?, files)
    }

    #[allow(clippy::too_many_arguments, reason = "what a portion collects")]
    fn add_row(
        &self,
        row: &Row,
        file: &mut File,
        removed: &Removed,
        sums: &mut Sums,
        events: &mut Option<Appending>,
        imported: &mut Imported,
        named: usize,
    ) {
        let known = file.expected.clone();
        let conflict = |imported: &mut Imported, count: u64, known: &Expected| {
            imported.conflicts += count;
            if imported.conflicting.len() < named {
                imported.conflicting.push(Conflict { name: row.name.clone(), known: known.clone(), listed: row.expected.clone() });
            }
        };
        let mut replaced = false;
        match compare(&known, &row.expected) {
            Comparison::Known => {}
            Comparison::Adds(merged) => self.change(file, merged, false, sums, events, imported),
            Comparison::Contradicts if self.replace || file.copies.is_empty() => {
                self.change(file, row.expected.clone(), true, sums, events, imported);
                replaced = true;
            }
            Comparison::Contradicts => conflict(imported, 1, &known),
        }
        let bytes = file.expected.bytes.map(signed);
        for node in self.nodes_of(row) {
            let Some(copy) = file.copies.get_mut(node) else {
                let location = location(row).map(str::to_owned);
                let state = State::Unverified;
                let (due_at, last_event) =
                    removed.get(&(*node, file.number)).map_or((0, None), |(due, last)| (due_again(*due), Some(*last)));
                let copy = Copy { location, state, due_at, verified_at: None, last_event, added: true, changed: false };
                file.copies.insert(*node, copy);
                imported.copies += 1;
                sums.copy(*node, State::Unverified, None, bytes, 1);
                continue;
            };
            if copy.location.as_deref() == location(row) {
                continue;
            }
            if !self.replace {
                conflict(imported, u64::from(!replaced), &file.expected);
                continue;
            }
            imported.changed += u64::from(!std::mem::replace(&mut replaced, true));
            sums.copy(*node, copy.state, copy.verified_at, bytes, -1);
            sums.copy(*node, State::Unverified, None, bytes, 1);
            let earlier = std::mem::replace(&mut copy.location, location(row).map(str::to_owned));
            let until_then = format!("until then at {:?}", earlier.as_deref().unwrap_or(&row.name));
            self.forget_checks(copy, *node, file.number, until_then, events);
        }
    }

    /// Changes what a file should contain, and brings its copies into line with that.
    fn change(
        &self,
        file: &mut File,
        merged: Expected,
        contradicts: bool,
        sums: &mut Sums,
        events: &mut Option<Appending>,
        imported: &mut Imported,
    ) {
        if merged == file.expected {
            return;
        }
        imported.changed += 1;
        let (before, after) = (file.expected.bytes.map(signed), merged.bytes.map(signed));
        for (node, copy) in &mut file.copies {
            sums.copy(*node, copy.state, copy.verified_at, before, -1);
            // If it is due already, its check may be under way, and stays valid.
            if before.is_none() && after.is_some() && awaits_length(copy.state) && copy.due_at > signed(self.now) {
                (copy.due_at, copy.changed) = (signed(self.now), true);
            }
            if contradicts {
                let until_then = format!("until then {}", file.expected);
                self.forget_checks(copy, *node, file.number, until_then, events);
            }
            sums.copy(*node, copy.state, copy.verified_at, after, 1);
        }
        file.expected = merged;
        file.changed = true;
    }

    /// Makes a copy unverified and due whose content or location was replaced.
    fn forget_checks(&self, copy: &mut Copy, node: NodeId, file: i64, until_then: String, events: &mut Option<Appending>) {
        // Only a replacement does this, and its events have begun.
        if let Some(events) = events {
            copy.last_event = Some(events.push(Appended {
                previous: copy.last_event,
                node,
                file,
                at: self.now,
                kind: EventKind::ExpectationReplaced,
                method: Method::Stream,
                bytes: 0,
                stream: Duration::ZERO,
                detail: Some(until_then),
            }));
        }
        copy.state = State::Unverified;
        copy.verified_at = None;
        // A check that is under way compares with the earlier content; a changed date voids it.
        copy.due_at = due_again(copy.due_at);
        copy.changed = true;
    }
}

/// When removed copies were due, and their last events.
type Removed = HashMap<(NodeId, i64), (i64, i64)>;

/// Reads the removed copies of the rows' files.
async fn removed(work: &Work<'_>, rows: &[Row]) -> Result<Removed, Fault> {
    if work.optional("SELECT 1 FROM removed_copies LIMIT 1", &[]).await?.is_none() {
        return Ok(Removed::new());
    }
    let hashes: BTreeSet<i64> = rows.iter().map(|row| name_hash(&row.name)).collect();
    let hashes: Vec<i64> = hashes.into_iter().collect();
    let sql = "SELECT r.node, r.file, r.due_at, r.last_event FROM unnest($1::bigint[]) AS k(hash) \
               JOIN files f ON f.name_hash = k.hash JOIN removed_copies r ON r.file = f.file";
    let copy = |row: &tokio_postgres::Row| {
        Ok(((decoded_node("removed_copies", row.try_get(0)?)?, row.try_get(1)?), (row.try_get(2)?, row.try_get(3)?)))
    };
    work.rows(sql, &[&hashes]).await?.iter().map(copy).collect()
}

/// Ends the removal of copies that are listed again.
async fn take_back(work: &Work<'_>, files: &Files<'_>, removed: &Removed) -> Result<(), Fault> {
    if removed.is_empty() {
        return Ok(());
    }
    let added = files.values().flat_map(|file| file.copies.iter().filter(|(_, copy)| copy.added).map(|(node, _)| (*node, file.number)));
    let (nodes, numbers): (Vec<i16>, Vec<i64>) =
        added.filter(|key| removed.contains_key(key)).map(|(node, file)| (small(node), file)).unzip();
    let sql = "DELETE FROM removed_copies r USING unnest($1::smallint[], $2::bigint[]) AS k(node, file) \
               WHERE r.file = k.file AND r.node = k.node";
    work.execute(sql, &[&nodes, &numbers]).await?;
    Ok(())
}

/// Reads what is known of the rows' files.
async fn find<'a>(work: &Work<'_>, rows: &'a [Row]) -> Result<Files<'a>, Fault> {
    let wanted: HashMap<&'a str, i64> = rows.iter().map(|row| (row.name.as_str(), name_hash(&row.name))).collect();
    let hashes: BTreeSet<i64> = wanted.values().copied().collect();
    let hashes: Vec<i64> = hashes.into_iter().collect();
    let sql = "SELECT f.file, f.name, f.bytes, f.digests FROM unnest($1::bigint[]) AS k(hash) JOIN files f ON f.name_hash = k.hash";
    let mut files = Files::new();
    for row in work.rows(sql, &[&hashes]).await? {
        // Another name may have the same hash.
        let Some((name, _)) = wanted.get_key_value(row.try_get::<_, &str>(1)?) else { continue };
        let file = File { number: row.try_get(0)?, expected: expected(&row)?, added: false, changed: false, copies: BTreeMap::new() };
        files.insert(name, file);
    }
    Ok(files)
}

fn expected(row: &tokio_postgres::Row) -> Result<Expected, Fault> {
    let bytes: Option<i64> = row.try_get(2)?;
    Ok(Expected { bytes: bytes.map(unsigned), digests: decoded_digests(row.try_get(3)?)? })
}

/// Adds copies to their files, or replaces them.
fn attach(rows: Vec<tokio_postgres::Row>, files: &mut Files<'_>) -> Result<(), Fault> {
    let mut by_number: HashMap<i64, &mut File> = files.values_mut().map(|file| (file.number, file)).collect();
    for row in rows {
        let Some(file) = by_number.get_mut(&row.try_get(0)?) else { continue };
        let copy = Copy {
            location: row.try_get(2)?,
            state: decoded_state("copies", row.try_get(3)?)?,
            due_at: row.try_get(4)?,
            verified_at: row.try_get(5)?,
            last_event: row.try_get(6)?,
            added: false,
            changed: false,
        };
        file.copies.insert(decoded_node("copies", row.try_get(1)?)?, copy);
    }
    Ok(())
}

async fn write_files(work: &Work<'_>, files: &Files<'_>) -> Result<(), Fault> {
    let mut added: Vec<(&&str, &File)> = files.iter().filter(|(_, file)| file.added).collect();
    added.sort_by_key(|(_, file)| file.number);
    if !added.is_empty() {
        let sql = "COPY files (file, name_hash, bytes, name, digests) FROM STDIN BINARY";
        let types = [Type::INT8, Type::INT8, Type::INT8, Type::TEXT, Type::BYTEA];
        let mut writer = pin!(work.writer(sql, &types).await?);
        for (name, file) in added {
            let (bytes, digests) = (file.expected.bytes.map(signed), digests::encode(&file.expected.digests));
            writer.as_mut().write(&[&file.number, &name_hash(name), &bytes, name, &digests]).await?;
        }
        writer.finish().await?;
    }
    let changed: Vec<&File> = files.values().filter(|file| file.changed && !file.added).collect();
    if !changed.is_empty() {
        let numbers: Vec<i64> = changed.iter().map(|file| file.number).collect();
        let bytes: Vec<Option<i64>> = changed.iter().map(|file| file.expected.bytes.map(signed)).collect();
        let digests: Vec<Vec<u8>> = changed.iter().map(|file| digests::encode(&file.expected.digests)).collect();
        let sql = "UPDATE files f SET bytes = u.bytes, digests = u.digests \
                   FROM unnest($1::bigint[], $2::bigint[], $3::bytea[]) AS u(file, bytes, digests) WHERE f.file = u.file";
        work.execute(sql, &[&numbers, &bytes, &digests]).await?;
    }
    Ok(())
}

async fn write_copies(work: &Work<'_>, files: &Files<'_>) -> Result<(), Fault> {
    let copies = files.values().flat_map(|file| file.copies.iter().map(|(node, copy)| (*node, file.number, copy)));
    let (mut added, mut changed): (Vec<_>, Vec<_>) =
        copies.filter(|(_, _, copy)| copy.added || copy.changed).partition(|(_, _, copy)| copy.added);
    added.sort_by_key(|(node, file, _)| (*node, *file));
    changed.sort_by_key(|(node, file, _)| (*node, *file));
    if !added.is_empty() {
        let sql = "COPY copies (file, due_at, verified_at, last_event, node, state, location) FROM STDIN BINARY";
        let types = [Type::INT8, Type::INT8, Type::INT8, Type::INT8, Type::INT2, Type::INT2, Type::TEXT];
        let mut writer = pin!(work.writer(sql, &types).await?);
        for (node, file, copy) in added {
            let (node, state) = (small(node), i16::from(copy.state.number()));
            writer.as_mut().write(&[&file, &copy.due_at, &copy.verified_at, &copy.last_event, &node, &state, &copy.location]).await?;
        }
        writer.finish().await?;
    }
    if !changed.is_empty() {
        let nodes: Vec<i16> = changed.iter().map(|(node, _, _)| small(*node)).collect();
        let numbers: Vec<i64> = changed.iter().map(|(_, file, _)| *file).collect();
        let due: Vec<i64> = changed.iter().map(|(_, _, copy)| copy.due_at).collect();
        let verified: Vec<Option<i64>> = changed.iter().map(|(_, _, copy)| copy.verified_at).collect();
        let events: Vec<Option<i64>> = changed.iter().map(|(_, _, copy)| copy.last_event).collect();
        let states: Vec<i16> = changed.iter().map(|(_, _, copy)| i16::from(copy.state.number())).collect();
        let locations: Vec<Option<&str>> = changed.iter().map(|(_, _, copy)| copy.location.as_deref()).collect();
        let sql = "UPDATE copies c SET due_at = u.due_at, verified_at = u.verified_at, last_event = u.last_event, state = u.state, \
                   location = u.location FROM unnest($1::smallint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], \
                   $6::smallint[], $7::text[]) AS u(node, file, due_at, verified_at, last_event, state, location) \
                   WHERE c.node = u.node AND c.file = u.file";
        work.execute(sql, &[&nodes, &numbers, &due, &verified, &events, &states, &locations]).await?;
        // A copy with another content or location has shown nothing yet.
        let sql =
            "DELETE FROM witnesses w USING unnest($1::smallint[], $2::bigint[]) AS k(node, file) WHERE w.node = k.node AND w.file = k.file";
        work.execute(sql, &[&nodes, &numbers]).await?;
    }
    Ok(())
}
