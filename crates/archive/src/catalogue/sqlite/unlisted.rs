//! Rows for what the catalogue can't list (versions, unreadable file tables, unseen places), and
//! platters that it ignores.

use fulgurite_domain::{ObjectName, PlatterId, VersionId};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::counters::{CountedTable, Ledger};
use super::engine_error::EngineError;
use super::put;
use super::row::{RowCheck, int, uint};
use crate::catalogue::{StagedTombstone, Unlisted, UnlistedVersion};

const COLUMNS: &str = "id, why, stored_bytes, name, number, row_check";

/// The checksum of a row. A name and number that are NULL don't enter it.
fn row_check(id: VersionId, why: i64, stored_bytes: i64, known_as: Option<(&[u8], i64)>) -> RowCheck {
    let check = RowCheck::of("unlisted").bytes(&id.0).numbers([why, stored_bytes]);
    match known_as {
        Some((name, number)) => check.bytes(name).number(number),
        None => check,
    }
}

fn segment_check(id: VersionId, segment: i64) -> RowCheck {
    RowCheck::of("unlisted_segment").bytes(&id.0).number(segment)
}

fn left_out_check(platter: PlatterId) -> RowCheck {
    RowCheck::of("left_out").bytes(&platter.0)
}

/// The reasons. Indexes are stored in the column `why`: append only.
const REASONS: [Unlisted; 7] = [
    Unlisted::NoKey,
    Unlisted::UnreadableRecord,
    Unlisted::Incomplete,
    Unlisted::Gone,
    Unlisted::UnreadableTable,
    Unlisted::UnseenStore,
    Unlisted::OutOfSight,
];

pub(super) fn code_of_reason(why: Unlisted) -> i64 {
    REASONS.iter().position(|reason| *reason == why).expect("every reason is listed") as i64
}

fn reason_of_code(code: i64) -> Result<Unlisted, EngineError> {
    let reason = usize::try_from(code).ok().and_then(|index| REASONS.get(index).copied());
    reason.ok_or_else(|| EngineError::Damaged(format!("a version is unlisted for reason {code}")))
}

/// Records versions. A version already recorded keeps its first reason, and gains segments, and a
/// name if it had none.
pub(super) fn adopt(connection: &Connection, versions: &[UnlistedVersion]) -> Result<(), EngineError> {
    let mut ledger = Ledger::open(connection)?;
    let mut insert =
        connection.prepare_cached(&format!("INSERT INTO unlisted ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING"))?;
    let mut insert_segment =
        connection.prepare_cached("INSERT INTO unlisted_segment (id, segment, row_check) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING")?;
    for version in versions {
        let (why, bytes) = (code_of_reason(version.why), int(version.stored_bytes)?);
        let known_as =
            version.known_as.as_ref().map(|(name, number)| Ok::<_, EngineError>((name.0.as_slice(), int(*number)?))).transpose()?;
        let check = row_check(version.id, why, bytes, known_as).sum();
        let is_new =
            insert.execute(params![version.id.0, why, bytes, known_as.map(|known| known.0), known_as.map(|known| known.1), check])?;
        ledger.count_rows(CountedTable::Unlisted, is_new as i64);
        if let (0, Some(known_as)) = (is_new, known_as) {
            add_name(connection, version.id, known_as)?;
        }
        for &segment in &version.segments {
            let segment = int(segment)?;
            if insert_segment.execute(params![version.id.0, segment, segment_check(version.id, segment).sum()])? == 1 {
                ledger.count_segment_row(segment, 1);
            }
        }
    }
    ledger.close()
}

fn add_name(connection: &Connection, id: VersionId, known_as: (&[u8], i64)) -> Result<(), EngineError> {
    let mut select = connection.prepare_cached(&format!("SELECT {COLUMNS} FROM unlisted WHERE id = ?1 AND name IS NULL"))?;
    let Some(row) = select.query_row([id.0], |row| Ok(read(connection, row))).optional()?.transpose()? else { return Ok(()) };
    let check = row_check(id, code_of_reason(row.why), int(row.stored_bytes)?, Some(known_as)).sum();
    let mut update = connection.prepare_cached("UPDATE unlisted SET name = ?2, number = ?3, row_check = ?4 WHERE id = ?1")?;
    update.execute(params![id.0, known_as.0, known_as.1, check])?;
    Ok(())
}

pub(super) fn forget(connection: &Connection, ids: &[VersionId], tombstones: &[StagedTombstone]) -> Result<(), EngineError> {
    let mut ledger = Ledger::open(connection)?;
    for id in ids {
        let removed = connection.prepare_cached("DELETE FROM unlisted WHERE id = ?1")?.execute([id.0])?;
        ledger.count_rows(CountedTable::Unlisted, -(removed as i64));
        let mut delete = connection.prepare_cached("DELETE FROM unlisted_segment WHERE id = ?1 RETURNING segment")?;
        let mut rows = delete.query([id.0])?;
        while let Some(gone) = rows.next()? {
            ledger.count_segment_row(gone.get(0)?, -1);
        }
    }
    put::add_tombstones(connection, &mut ledger, tombstones)?;
    ledger.close()
}

pub(super) fn page(connection: &Connection, after: Option<VersionId>, limit: usize) -> Result<Vec<UnlistedVersion>, EngineError> {
    // All identifiers are greater than the empty one.
    let after = after.as_ref().map_or(&[][..], |id| &id.0);
    let mut statement = connection.prepare_cached(&format!("SELECT {COLUMNS} FROM unlisted WHERE id > ?1 ORDER BY id LIMIT ?2"))?;
    statement.query_and_then(params![after, int(limit as u64)?], |row| read(connection, row))?.collect()
}

pub(super) fn count(connection: &Connection) -> Result<u64, EngineError> {
    uint(connection.query_row("SELECT count(*) FROM unlisted", [], |row| row.get(0))?, "the number of unlisted versions")
}

fn read(connection: &Connection, row: &Row<'_>) -> Result<UnlistedVersion, EngineError> {
    let id = VersionId(row.get(0)?);
    let (why, bytes): (i64, i64) = (row.get(1)?, row.get(2)?);
    let (name, number): (Option<Vec<u8>>, Option<i64>) = (row.get(3)?, row.get(4)?);
    let known_as = name.zip(number);
    let known = known_as.as_ref().map(|(name, number)| (name.as_slice(), *number));
    row_check(id, why, bytes, known).confirm(row.get(5)?, || format!("unlisted version {id}"))?;
    let number = |version| uint(version, "the number of an unlisted version");
    Ok(UnlistedVersion {
        id,
        why: reason_of_code(why)?,
        stored_bytes: uint(bytes, "the length of an unlisted version")?,
        known_as: known_as.map(|(name, version)| Ok::<_, EngineError>((ObjectName(name), number(version)?))).transpose()?,
        segments: segments_of(connection, id)?,
    })
}

fn segments_of(connection: &Connection, id: VersionId) -> Result<Vec<u64>, EngineError> {
    let mut statement = connection.prepare_cached("SELECT segment, row_check FROM unlisted_segment WHERE id = ?1 ORDER BY segment")?;
    let read = |row: &Row<'_>| {
        let segment = row.get(0)?;
        segment_check(id, segment).confirm(row.get(1)?, || format!("a segment of unlisted version {id}"))?;
        uint(segment, "a segment of an unlisted version")
    };
    statement.query_and_then([id.0], read)?.collect()
}

/// Records platters that the catalogue ignores. They no longer count as unknown, and a rebuild
/// treats their sets as unfinished.
pub(super) fn leave_out(connection: &Connection, platters: &[PlatterId]) -> Result<(), EngineError> {
    let mut ledger = Ledger::open(connection)?;
    let mut insert = connection.prepare_cached("INSERT INTO left_out (platter, row_check) VALUES (?1, ?2) ON CONFLICT DO NOTHING")?;
    for &platter in platters {
        let added = insert.execute(params![platter.0, left_out_check(platter).sum()])?;
        ledger.count_rows(CountedTable::LeftOut, added as i64);
    }
    ledger.close()
}

/// Compares the rows of all platters that were left out with their checksums.
pub(super) fn check_left_out(connection: &Connection) -> Result<(), EngineError> {
    let mut statement = connection.prepare("SELECT platter, row_check FROM left_out")?;
    let confirm = |row: &Row<'_>| confirm_left_out(PlatterId(row.get(0)?), row.get(1)?);
    statement.query_and_then([], confirm)?.collect()
}

fn confirm_left_out(platter: PlatterId, check: i64) -> Result<(), EngineError> {
    left_out_check(platter).confirm(check, || format!("platter {platter}, which was left out"))
}

pub(super) fn is_left_out(connection: &Connection, platter: PlatterId) -> Result<bool, EngineError> {
    let mut statement = connection.prepare_cached("SELECT row_check FROM left_out WHERE platter = ?1")?;
    let Some(check) = statement.query_row([platter.0], |row| row.get(0)).optional()? else { return Ok(false) };
    confirm_left_out(platter, check)?;
    Ok(true)
}
