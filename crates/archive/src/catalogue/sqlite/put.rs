//! Adds and removes versions and tombstones, and looks up what is staged.

use fulgurite_domain::{ObjectName, ObjectRecord, SetId, VersionId};
use rusqlite::{CachedStatement, Connection, OptionalExtension, Row, params};

use super::counters::{CountedTable, Ledger};
use super::engine_error::EngineError;
use super::row::{RowCheck, VERSION_COLUMNS, VersionCells, int, narrow, read_version, uint};
use super::{extents, segment_ends, sets};
use crate::catalogue::{
    CatalogueError, Change, FoundVersion, NewVersion, StagedCheck, StagedData, StagedHealth, StagedPlace, StagedTombstone, VersionRow,
    VersionRowId,
};

/// The number of a version's record in the table `staged`. Content has numbers from 1 on.
const RECORD_PART: i64 = 0;

/// The prepared statements of a put. They are kept because looking them up again costs more than
/// running them.
pub(super) struct Insertion<'c> {
    name_known: CachedStatement<'c>,
    version: CachedStatement<'c>,
    staged: CachedStatement<'c>,
}

impl<'c> Insertion<'c> {
    pub(super) fn prepare(connection: &'c Connection) -> Result<Self, EngineError> {
        Ok(Self {
            name_known: connection.prepare_cached(NAME_KNOWN)?,
            version: connection.prepare_cached(&format!(
                "INSERT INTO version ({VERSION_COLUMNS}) \
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)"
            ))?,
            staged: connection.prepare_cached(
                "INSERT INTO staged (version, part, stored_offset, segment, segment_offset, bytes, crc64, row_check) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            )?,
        })
    }

    pub(super) fn staged(&mut self, ledger: &mut Ledger<'_>, new: &NewVersion) -> Result<(), EngineError> {
        if StagedData::end_of(&new.data) != Some(new.stored_bytes) {
            return Err(EngineError::Refused(CatalogueError::Uncovered(new.id)));
        }
        let row_id = self.version(ledger, new.id, &new.record, new.sealed, new.stored_bytes, false)?;
        self.part(ledger, row_id, RECORD_PART, &StagedData { stored_offset: 0, place: new.record_place })?;
        for (part, data) in (1..).zip(&new.data) {
            self.part(ledger, row_id, part, data)?;
        }
        ledger.version_staged(new.stored_bytes);
        Ok(())
    }

    /// Adds the row of a version and returns its number.
    pub(super) fn version(
        &mut self,
        ledger: &mut Ledger<'_>,
        id: VersionId,
        record: &ObjectRecord,
        sealed: bool,
        stored_bytes: u64,
        archived: bool,
    ) -> Result<VersionRowId, EngineError> {
        let name = record.name.0.as_slice();
        let known = self.name_known.exists([name])?;
        let row_id = ledger.next_row_id();
        let cells = VersionCells::new(row_id, archived, record, sealed, stored_bytes)?;
        self.version.execute(params![
            cells.version,
            cells.archived,
            name,
            cells.number,
            id.0,
            cells.kind,
            cells.sealed,
            cells.size,
            record.sha256.0,
            cells.modified_seconds,
            cells.modified_nanoseconds,
            cells.mode,
            cells.created_ms,
            cells.stored_bytes,
            cells.attributes,
            cells.check(name, &id.0, &record.sha256.0).sum(),
        ])?;
        ledger.version_added(cells.size, !known);
        Ok(row_id)
    }

    fn part(&mut self, ledger: &mut Ledger<'_>, row_id: VersionRowId, part: i64, data: &StagedData) -> Result<(), EngineError> {
        let cells = [
            row_id.0,
            part,
            int(data.stored_offset)?,
            int(data.place.segment)?,
            int(data.place.offset)?,
            data.place.bytes.into(),
            data.place.crc64.cast_signed(),
        ];
        let [version, part, stored_offset, segment, segment_offset, bytes, crc64] = cells;
        let check = staged_check(cells, [None, None]).sum();
        self.staged.execute([version, part, stored_offset, segment, segment_offset, bytes, crc64, check])?;
        ledger.count_segment_row(segment, 1);
        Ok(())
    }
}

/// `archived IN (0, 1)` is always true; it lets SQLite use the index `version_in_order`, which
/// begins with `archived`.
const NAME_KNOWN: &str = "SELECT 1 FROM version WHERE archived IN (0, 1) AND name = ?1";

pub(super) fn commit(connection: &Connection, change: &Change) -> Result<(), EngineError> {
    let mut ledger = Ledger::open(connection)?;
    let mut insertion = Insertion::prepare(connection)?;
    change.staged.iter().try_for_each(|version| insertion.staged(&mut ledger, version))?;
    forget(connection, &mut ledger, &change.forgotten)?;
    add_tombstones(connection, &mut ledger, &change.tombstones)?;
    // First, because it removes ends: one recorded by this change must stay.
    ledger.write_segments()?;
    segment_ends::record(connection, &mut ledger, &change.ends)?;
    ledger.close()
}

/// Adds versions found on platters and in staging, except those already known.
pub(super) fn adopt(connection: &Connection, found: &[FoundVersion]) -> Result<(), EngineError> {
    let mut ledger = Ledger::open(connection)?;
    let mut insertion = Insertion::prepare(connection)?;
    for version in found {
        match version {
            FoundVersion::Staged(new) => {
                if !known(connection, &new.record.name, new.record.version, new.id)? {
                    insertion.staged(&mut ledger, new)?;
                }
            }
            FoundVersion::Archived(found) => {
                if known(connection, &found.record.name, found.record.version, found.id)? {
                    continue;
                }
                let tiles = extents::tile(found.extents.clone(), found.stored_bytes);
                let tiles = tiles.ok_or(EngineError::Refused(CatalogueError::Uncovered(found.id)))?;
                let row_id = insertion.version(&mut ledger, found.id, &found.record, found.sealed, found.stored_bytes, true)?;
                for tile in tiles {
                    extents::insert(connection, row_id, sets::number_of(connection, tile.platter)?, &tile)?;
                }
            }
        }
    }
    ledger.close()
}

fn known(connection: &Connection, name: &ObjectName, number: u64, id: VersionId) -> Result<bool, EngineError> {
    let mut statement =
        connection.prepare_cached("SELECT 1 FROM version WHERE archived IN (0, 1) AND name = ?1 AND number = ?2 AND id = ?3")?;
    Ok(statement.exists(params![name.0, int(number)?, id.0])?)
}

fn forget(connection: &Connection, ledger: &mut Ledger<'_>, versions: &[VersionRowId]) -> Result<(), EngineError> {
    for &row_id in versions {
        let Some(row) = version(connection, row_id)? else { continue };
        connection.prepare_cached("DELETE FROM version WHERE version = ?1")?.execute([row_id.0])?;
        if !row.archived {
            leave_staging(connection, ledger, &row)?;
        }
        // Staged versions can have extents, too.
        extents::remove(connection, row_id)?;
        let others = connection.prepare_cached(NAME_KNOWN)?.exists([row.record.name.0.as_slice()])?;
        ledger.version_removed(&row, !others);
    }
    Ok(())
}

pub(super) fn version(connection: &Connection, row_id: VersionRowId) -> Result<Option<VersionRow>, EngineError> {
    let mut statement = connection.prepare_cached(&format!("SELECT {VERSION_COLUMNS} FROM version WHERE version = ?1"))?;
    statement.query_and_then([row_id.0], read_version)?.next().transpose()
}

/// Removes a version's rows from staging. The caller keeps or removes the version itself.
pub(super) fn leave_staging(connection: &Connection, ledger: &mut Ledger<'_>, row: &VersionRow) -> Result<(), EngineError> {
    let mut statement = connection.prepare_cached("DELETE FROM staged WHERE version = ?1 RETURNING segment")?;
    let mut rows = statement.query([row.row_id.0])?;
    while let Some(gone) = rows.next()? {
        ledger.count_segment_row(gone.get(0)?, -1);
    }
    ledger.version_left_staging(row.stored_bytes);
    Ok(())
}

pub(super) fn add_tombstones(connection: &Connection, ledger: &mut Ledger<'_>, tombstones: &[StagedTombstone]) -> Result<(), EngineError> {
    let mut insert =
        connection.prepare_cached("INSERT INTO tombstone (id, segment, row_check) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING")?;
    for tombstone in tombstones {
        let segment = int(tombstone.segment)?;
        let check = tombstone_check(tombstone.id, segment).sum();
        if insert.execute(params![tombstone.id.0, segment, check])? == 1 {
            ledger.count_tombstones(1);
            ledger.count_segment_row(segment, 1);
        }
    }
    Ok(())
}

pub(super) fn archive_tombstones(connection: &Connection, ids: &[VersionId], set: SetId) -> Result<(), EngineError> {
    let mut ledger = Ledger::open(connection)?;
    let mut archived = Vec::new();
    let mut delete = connection.prepare_cached("DELETE FROM tombstone WHERE id = ?1 RETURNING segment")?;
    for &id in ids {
        if let Some(segment) = delete.query_row([id.0], |row| row.get(0)).optional()? {
            ledger.count_tombstones(-1);
            ledger.count_segment_row(segment, -1);
            archived.push((id, set));
        }
    }
    add_archived_tombstones(connection, &mut ledger, &archived)?;
    ledger.close()
}

pub(super) fn adopt_archived_tombstones(connection: &Connection, tombstones: &[(VersionId, SetId)]) -> Result<(), EngineError> {
    let mut ledger = Ledger::open(connection)?;
    add_archived_tombstones(connection, &mut ledger, tombstones)?;
    ledger.close()
}

fn add_archived_tombstones(connection: &Connection, ledger: &mut Ledger<'_>, tombstones: &[(VersionId, SetId)]) -> Result<(), EngineError> {
    let mut insert =
        connection.prepare_cached("INSERT INTO archived_tombstone (id, set_id, row_check) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING")?;
    let mut update = connection.prepare_cached("UPDATE archived_tombstone SET set_id = ?2, row_check = ?3 WHERE id = ?1")?;
    for (id, set) in tombstones {
        let cells = params![id.0, set.0, archived_check(*id, *set).sum()];
        if insert.execute(cells)? == 1 {
            ledger.count_rows(CountedTable::ArchivedTombstone, 1);
        } else {
            update.execute(cells)?;
        }
    }
    Ok(())
}

/// Looks up a page of archived tombstones.
pub(super) const ARCHIVED_TOMBSTONES: &str = "SELECT id, set_id, row_check FROM archived_tombstone WHERE id > ?1 ORDER BY id LIMIT ?2";

pub(super) fn archived_tombstones(
    connection: &Connection,
    after: Option<VersionId>,
    limit: usize,
) -> Result<Vec<(VersionId, SetId)>, EngineError> {
    // All identifiers are greater than the empty one. An "IS NULL OR" would scan the table from its
    // start for every page.
    let after = after.as_ref().map_or(&[][..], |id| &id.0);
    let mut statement = connection.prepare_cached(ARCHIVED_TOMBSTONES)?;
    let read = |row: &Row<'_>| {
        let (id, set) = (VersionId(row.get(0)?), SetId(row.get(1)?));
        archived_check(id, set).confirm(row.get(2)?, || format!("the archived tombstone of version {id}"))?;
        Ok((id, set))
    };
    statement.query_and_then(params![after, int(limit as u64)?], read)?.collect()
}

pub(super) fn is_removed(connection: &Connection, id: VersionId) -> Result<bool, EngineError> {
    let mut select = connection.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM tombstone WHERE id = ?1) OR EXISTS (SELECT 1 FROM archived_tombstone WHERE id = ?1)",
    )?;
    Ok(select.query_row([id.0], |row| row.get(0))?)
}

fn archived_check(id: VersionId, set: SetId) -> RowCheck {
    RowCheck::of("archived_tombstone").bytes(&id.0).bytes(&set.0)
}

pub(super) fn tombstones(connection: &Connection) -> Result<Vec<StagedTombstone>, EngineError> {
    let mut statement = connection.prepare_cached("SELECT id, segment, row_check FROM tombstone ORDER BY id")?;
    let read = |row: &Row<'_>| {
        let (id, segment) = (VersionId(row.get(0)?), row.get(1)?);
        tombstone_check(id, segment).confirm(row.get(2)?, || format!("the tombstone of version {id}"))?;
        Ok(StagedTombstone { id, segment: uint(segment, "the segment of a tombstone")? })
    };
    statement.query_and_then([], read)?.collect()
}

pub(super) fn unwritten_tombstones(connection: &Connection) -> Result<Vec<VersionId>, EngineError> {
    let mut statement = connection.prepare_cached(
        "SELECT staged.id, archived.set_id, archived.row_check FROM tombstone staged \
         LEFT JOIN archived_tombstone archived ON archived.id = staged.id \
         AND EXISTS (SELECT 1 FROM platter_set WHERE platter_set.id = archived.set_id AND complete = 1) ORDER BY staged.id",
    )?;
    let mut rows = statement.query([])?;
    let mut unwritten = Vec::new();
    while let Some(row) = rows.next()? {
        let id = VersionId(row.get(0)?);
        match row.get::<_, Option<[u8; 16]>>(1)? {
            None => unwritten.push(id),
            Some(set) => archived_check(id, SetId(set)).confirm(row.get(2)?, || format!("the archived tombstone of version {id}"))?,
        }
    }
    Ok(unwritten)
}

fn tombstone_check(id: VersionId, segment: i64) -> RowCheck {
    RowCheck::of("tombstone").bytes(&id.0).number(segment)
}

/// The columns of a row of `staged` except its checksum: first those of version 1 in order, then
/// those that say what reading has shown.
type StagedCells = ([i64; 7], [Option<i64>; 2]);

/// The checksum of a row. Where the columns that say what reading has shown are NULL, they don't
/// enter it, so that of a row written before these columns existed still matches.
fn staged_check(cells: [i64; 7], health: [Option<i64>; 2]) -> RowCheck {
    let row = RowCheck::of("staged").numbers(cells);
    if health == [None, None] { row } else { health.into_iter().fold(row, RowCheck::optional) }
}

/// The columns of `staged` except the version, in the order in which [`read_staged`] reads them.
const STAGED_COLUMNS: &str = "part, stored_offset, segment, segment_offset, bytes, crc64, row_check, verified, damaged";

/// Reads a row of [`STAGED_COLUMNS`].
fn read_staged(row_id: VersionRowId, row: &Row<'_>) -> Result<StagedCells, EngineError> {
    let cells = [row_id.0, row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?];
    let health = [row.get(7)?, row.get(8)?];
    staged_check(cells, health).confirm(row.get(6)?, || format!("part {} of a staged version", cells[1]))?;
    Ok((cells, health))
}

/// The row of a version's record.
fn staged_record(connection: &Connection, row_id: VersionRowId) -> Result<Option<StagedCells>, EngineError> {
    let mut statement = connection.prepare_cached(&format!("SELECT {STAGED_COLUMNS} FROM staged WHERE version = ?1 AND part = ?2"))?;
    statement.query_and_then([row_id.0, RECORD_PART], |row| read_staged(row_id, row))?.next().transpose()
}

pub(super) fn staged_health(connection: &Connection, row_id: VersionRowId) -> Result<Option<StagedHealth>, EngineError> {
    let Some((_, [verified, damaged])) = staged_record(connection, row_id)? else { return Ok(None) };
    let time = |cell: Option<i64>| cell.map(|cell| uint(cell, "the time at which a staged version was read")).transpose();
    Ok(Some(StagedHealth { verified: time(verified)?, damaged: time(damaged)? }))
}

pub(super) fn count_damaged_staged(connection: &Connection) -> Result<u64, EngineError> {
    let mut statement = connection.prepare_cached("SELECT count(*) FROM staged WHERE part = ?1 AND damaged IS NOT NULL")?;
    uint(statement.query_row([RECORD_PART], |row| row.get(0))?, "the number of damaged staged versions")
}

pub(super) fn record_staged(connection: &Connection, checks: &[StagedCheck]) -> Result<(), EngineError> {
    let mut update =
        connection.prepare_cached("UPDATE staged SET verified = ?3, damaged = ?4, row_check = ?5 WHERE version = ?1 AND part = ?2")?;
    for check in checks {
        let Some((cells, [verified, _])) = staged_record(connection, check.version)? else { continue };
        let at = Some(int(check.at)?);
        let health = if check.is_sound { [at, None] } else { [verified, at] };
        update.execute(params![check.version.0, RECORD_PART, health[0], health[1], staged_check(cells, health).sum()])?;
    }
    Ok(())
}

/// Where the record of a staged version is, and its content in order; `None` if it isn't staged.
pub(super) fn staged(connection: &Connection, row_id: VersionRowId) -> Result<Option<(StagedPlace, Vec<StagedData>)>, EngineError> {
    let mut statement = connection.prepare_cached(&format!("SELECT {STAGED_COLUMNS} FROM staged WHERE version = ?1 ORDER BY part"))?;
    let mut rows = statement.query([row_id.0])?;
    let mut record = None;
    let mut data = Vec::new();
    while let Some(row) = rows.next()? {
        let ([_, part, stored_offset, segment, segment_offset, bytes, crc64], _) = read_staged(row_id, row)?;
        let place = StagedPlace {
            segment: uint(segment, "the segment of a staged version")?,
            offset: uint(segment_offset, "the place of a staged version")?,
            bytes: narrow(bytes, "the length of a staged payload")?,
            crc64: crc64.cast_unsigned(),
        };
        if part == RECORD_PART {
            record = Some(place);
        } else {
            data.push(StagedData { stored_offset: uint(stored_offset, "the place of staged bytes")?, place });
        }
    }
    match record {
        Some(record) => Ok(Some((record, data))),
        None if data.is_empty() => Ok(None),
        None => Err(EngineError::Damaged("a staged version has no record".into())),
    }
}
