//! Running counts: of versions and bytes, of the rows that refer to each segment, and of the rows
//! of tables that nothing else counts, so that the damage check finds missing rows.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, Row, params_from_iter};

use super::engine_error::EngineError;
use super::row::{RowCheck, uint};
use crate::catalogue::{StagedTotals, Totals, VersionRow, VersionRowId};

/// A table whose rows are counted for the damage check alone. The order is that of the columns of
/// `counter`, as [`Counters`] selects and updates them: [`Self::ALL`] and indexes into
/// [`Counters::rows`] (`as usize`) depend on it.
#[derive(Debug, Clone, Copy)]
pub(super) enum CountedTable {
    ArchivedTombstone,
    LeftOut,
    Released,
    SegmentEnd,
    Unlisted,
}

impl CountedTable {
    /// All of them, in that order.
    pub(super) const ALL: [Self; 5] = [Self::ArchivedTombstone, Self::LeftOut, Self::Released, Self::SegmentEnd, Self::Unlisted];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::ArchivedTombstone => "archived_tombstone",
            Self::LeftOut => "left_out",
            Self::Released => "released",
            Self::SegmentEnd => "segment_end",
            Self::Unlisted => "unlisted",
        }
    }

    pub(super) fn count(self, connection: &Connection) -> Result<i64, EngineError> {
        let mut statement = connection.prepare_cached(&format!("SELECT count(*) FROM {}", self.name()))?;
        Ok(statement.query_row([], |row| row.get(0))?)
    }
}

/// The only row of the table `counter`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counters {
    /// The row number of the next version. Column `next_version`.
    pub(super) next_row_id: i64,
    /// Number of names that have versions.
    pub(super) objects: i64,
    pub(super) versions: i64,
    /// Bytes of content of all versions.
    pub(super) content_bytes: i64,
    pub(super) staged_versions: i64,
    /// Bytes of the staged versions as stored: sealed, if the archive is encrypted. Column
    /// `staged_bytes`.
    pub(super) staged_stored_bytes: i64,
    /// Number of tombstones that aren't on platters yet. Column `tombstones`.
    pub(super) staged_tombstones: i64,
    /// Number of rows in each of [`CountedTable::ALL`]. `None` (NULL in the file) if the catalogue
    /// was migrated from version 6 or earlier and not changed since: [`Ledger::open`] then counts
    /// them.
    pub(super) rows: Option<[i64; CountedTable::ALL.len()]>,
}

impl Counters {
    /// The numbers in the order of their columns, which is also that of the checksum.
    fn numbers(&self) -> [i64; 7] {
        let Self { next_row_id, objects, versions, content_bytes, staged_versions, staged_stored_bytes, staged_tombstones, rows: _ } =
            *self;
        [next_row_id, objects, versions, content_bytes, staged_versions, staged_stored_bytes, staged_tombstones]
    }

    pub(super) fn check(&self) -> RowCheck {
        let row = RowCheck::of("counter").numbers(self.numbers());
        // Counts that are NULL don't enter the checksum, so that of a row written before these
        // columns existed still matches.
        self.rows.into_iter().fold(row, RowCheck::numbers)
    }

    /// Writes the row of an empty catalogue.
    pub(super) fn create(connection: &Connection) -> Result<(), EngineError> {
        let empty = Self { next_row_id: 1, rows: Some([0; CountedTable::ALL.len()]), ..Self::default() };
        connection.execute(
            "INSERT INTO counter (one, next_version, objects, versions, content_bytes, staged_versions, staged_bytes, tombstones, \
             row_check, archived_tombstones, left_out, released, segment_ends, unlisted) \
             VALUES (1, 1, 0, 0, 0, 0, 0, 0, ?1, 0, 0, 0, 0, 0)",
            [empty.check().sum()],
        )?;
        Ok(())
    }

    pub(super) fn read(connection: &Connection) -> Result<Self, EngineError> {
        let mut statement = connection.prepare_cached(
            "SELECT next_version, objects, versions, content_bytes, staged_versions, staged_bytes, tombstones, row_check, \
             archived_tombstones, left_out, released, segment_ends, unlisted FROM counter WHERE one = 1",
        )?;
        let (counters, check) = statement.query_row([], |row| {
            let mut rows = Some([0; CountedTable::ALL.len()]);
            for index in 0..CountedTable::ALL.len() {
                let count: Option<i64> = row.get(8 + index)?;
                rows = rows.zip(count).map(|(mut rows, count)| {
                    rows[index] = count;
                    rows
                });
            }
            let counters = Self {
                next_row_id: row.get(0)?,
                objects: row.get(1)?,
                versions: row.get(2)?,
                content_bytes: row.get(3)?,
                staged_versions: row.get(4)?,
                staged_stored_bytes: row.get(5)?,
                staged_tombstones: row.get(6)?,
                rows,
            };
            Ok((counters, row.get(7)?))
        })?;
        counters.check().confirm(check, || "the counters".into())?;
        Ok(counters)
    }

    fn write(&self, connection: &Connection) -> Result<(), EngineError> {
        let mut update = connection.prepare_cached(
            "UPDATE counter SET next_version = ?1, objects = ?2, versions = ?3, content_bytes = ?4, staged_versions = ?5, \
             staged_bytes = ?6, tombstones = ?7, row_check = ?8, archived_tombstones = ?9, left_out = ?10, released = ?11, \
             segment_ends = ?12, unlisted = ?13 WHERE one = 1",
        )?;
        let rows = self.rows.into_iter().flatten();
        update.execute(params_from_iter(self.numbers().into_iter().chain([self.check().sum()]).chain(rows)))?;
        Ok(())
    }

    pub(super) fn staged_totals(&self, connection: &Connection) -> Result<StagedTotals, EngineError> {
        // `main.`: a reader of schema 1 has a view of the same name, without an index.
        let oldest: Option<i64> = connection
            .prepare_cached("SELECT created_ms FROM main.version INDEXED BY staged_by_age WHERE archived = 0 ORDER BY created_ms LIMIT 1")?
            .query_row([], |row| row.get(0))
            .optional()?;
        Ok(StagedTotals {
            versions: uint(self.staged_versions, "the number of staged versions")?,
            stored_bytes: uint(self.staged_stored_bytes, "the number of staged bytes")?,
            tombstones: uint(self.staged_tombstones, "the number of tombstones")?,
            oldest_ms: oldest.map(|ms| uint(ms, "the instant of the oldest staged version")).transpose()?,
        })
    }

    pub(super) fn totals(&self, connection: &Connection) -> Result<Totals, EngineError> {
        Ok(Totals {
            objects: uint(self.objects, "the number of objects")?,
            versions: uint(self.versions, "the number of versions")?,
            content_bytes: uint(self.content_bytes, "the number of bytes")?,
            staged: self.staged_totals(connection)?,
        })
    }
}

/// The counts of a transaction, read at its start and written at its end.
pub(super) struct Ledger<'c> {
    connection: &'c Connection,
    counters: Counters,
    /// Change in the number of rows that refer to each segment.
    segments: BTreeMap<i64, i64>,
}

impl<'c> Ledger<'c> {
    pub(super) fn open(connection: &'c Connection) -> Result<Self, EngineError> {
        let mut counters = Counters::read(connection)?;
        if counters.rows.is_none() {
            let mut rows = [0; CountedTable::ALL.len()];
            for table in CountedTable::ALL {
                rows[table as usize] = table.count(connection)?;
            }
            counters.rows = Some(rows);
        }
        Ok(Self { connection, counters, segments: BTreeMap::new() })
    }

    pub(super) fn next_row_id(&mut self) -> VersionRowId {
        let row_id = VersionRowId(self.counters.next_row_id);
        self.counters.next_row_id += 1;
        row_id
    }

    pub(super) fn version_added(&mut self, size: i64, new_name: bool) {
        self.counters.versions += 1;
        self.counters.objects += i64::from(new_name);
        self.counters.content_bytes = self.counters.content_bytes.saturating_add(size);
    }

    pub(super) fn version_removed(&mut self, row: &VersionRow, last_of_name: bool) {
        self.counters.versions -= 1;
        self.counters.objects -= i64::from(last_of_name);
        self.counters.content_bytes -= row.record.size as i64;
    }

    pub(super) fn version_staged(&mut self, stored_bytes: u64) {
        self.counters.staged_versions += 1;
        self.counters.staged_stored_bytes = self.counters.staged_stored_bytes.saturating_add_unsigned(stored_bytes);
    }

    pub(super) fn version_left_staging(&mut self, stored_bytes: u64) {
        self.counters.staged_versions -= 1;
        self.counters.staged_stored_bytes = self.counters.staged_stored_bytes.saturating_sub_unsigned(stored_bytes);
    }

    /// Counts staged tombstones: how many were added, or, if negative, removed.
    pub(super) fn count_tombstones(&mut self, change: i64) {
        self.counters.staged_tombstones += change;
    }

    /// Counts a row that refers to a segment: 1 if added, -1 if removed.
    pub(super) fn count_segment_row(&mut self, number: i64, change: i64) {
        *self.segments.entry(number).or_default() += change;
    }

    /// Counts rows of a table: how many were added, or, if negative, removed.
    pub(super) fn count_rows(&mut self, table: CountedTable, change: i64) {
        self.counters.rows.as_mut().expect("counted when the ledger was opened")[table as usize] += change;
    }

    pub(super) fn close(mut self) -> Result<(), EngineError> {
        self.write_segments()?;
        self.counters.write(self.connection)
    }

    /// Writes the counts of the segments, and removes the ends of those that are no longer in use.
    pub(super) fn write_segments(&mut self) -> Result<(), EngineError> {
        for (number, change) in std::mem::take(&mut self.segments) {
            if change == 0 {
                continue;
            }
            let live = read_segment(self.connection, number)?.unwrap_or(0) + change;
            if live < 0 {
                return Err(EngineError::Damaged(format!("more rows were removed from segment {number:016x} than it has")));
            } else if live == 0 {
                self.connection.prepare_cached("DELETE FROM segment WHERE number = ?1")?.execute([number])?;
                let ends = self.connection.prepare_cached("DELETE FROM segment_end WHERE number = ?1")?.execute([number])?;
                self.count_rows(CountedTable::SegmentEnd, -(ends as i64));
            } else {
                self.connection
                    .prepare_cached(
                        "INSERT INTO segment (number, live, row_check) VALUES (?1, ?2, ?3) \
                         ON CONFLICT (number) DO UPDATE SET live = excluded.live, row_check = excluded.row_check",
                    )?
                    .execute([number, live, segment_check(number, live).sum()])?;
            }
        }
        Ok(())
    }
}

fn segment_check(number: i64, live: i64) -> RowCheck {
    RowCheck::of("segment").numbers([number, live])
}

fn read_segment(connection: &Connection, number: i64) -> Result<Option<i64>, EngineError> {
    let found: Option<(i64, i64)> = connection
        .prepare_cached("SELECT live, row_check FROM segment WHERE number = ?1")?
        .query_row([number], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((live, check)) = found else { return Ok(None) };
    segment_check(number, live).confirm(check, || format!("segment {number:016x}"))?;
    Ok(Some(live))
}

/// The number of each segment in use, and how many rows refer to it.
pub(super) fn segments(connection: &Connection) -> Result<Vec<(i64, i64)>, EngineError> {
    let mut statement = connection.prepare_cached("SELECT number, live, row_check FROM segment ORDER BY number")?;
    let read = |row: &Row<'_>| {
        let (number, live): (i64, i64) = (row.get(0)?, row.get(1)?);
        segment_check(number, live).confirm(row.get(2)?, || format!("segment {number:016x}"))?;
        Ok((number, live))
    };
    statement.query_and_then([], read)?.collect()
}
