//! The damage check: runs SQLite's own check, compares each row with its checksum, and each count
//! with a fresh one.

use std::collections::BTreeMap;

use rusqlite::Connection;

use super::counters::{self, CountedTable, Counters};
use super::engine_error::EngineError;
use super::row::{VERSION_COLUMNS, read_version};
use super::{extents, put, released, segment_ends, sets, unlisted};
use crate::catalogue::StagedData;
use crate::paging::Pager;

const PAGE: usize = 1_000;

pub(super) fn check(connection: &Connection) -> Result<(), EngineError> {
    let verdict: String = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if verdict != "ok" {
        return Err(EngineError::Damaged(verdict));
    }
    // Every function that reads a row confirms its checksum. Rows that nothing below uses are read
    // here for that alone.
    sets::check(connection)?;
    segment_ends::check(connection)?;
    // Platters that a rebuild left out.
    unlisted::check_left_out(connection)?;
    let mut pages = Pager::default();
    while pages.next(|after| put::archived_tombstones(connection, after.copied(), PAGE))?.is_some() {}
    check_released(connection)?;

    let counters = Counters::read(connection)?;
    // `next_row_id` is a bound, and `rows` are compared below, table by table.
    let mut count = Count {
        counters: Counters { next_row_id: counters.next_row_id, rows: counters.rows, ..Counters::default() },
        live: BTreeMap::new(),
    };
    count.count_versions(connection)?;
    count.count_names_tombstones_and_unlisted(connection)?;
    if count.counters != counters {
        return Err(EngineError::Damaged("the counters are wrong".into()));
    }
    // `None` after a migration: not counted yet.
    for (table, expected) in counters.rows.iter().flat_map(|rows| CountedTable::ALL.into_iter().zip(*rows)) {
        let found = table.count(connection)?;
        if found != expected && !is_hidden(connection, table)? {
            return Err(EngineError::Damaged(format!("{} has {found} rows, but should have {expected}", table.name())));
        }
    }
    if count.live.into_iter().collect::<Vec<_>>() != counters::segments(connection)? {
        return Err(EngineError::Damaged("the row counts of the segments are wrong".into()));
    }
    for (table, what) in [("extent", "extents"), ("staged", "staged rows")] {
        let strays = format!("SELECT 1 FROM {table} WHERE version NOT IN (SELECT version FROM version) LIMIT 1");
        if connection.prepare(&strays)?.exists([])? {
            return Err(EngineError::Damaged(format!("some {what} belong to no version")));
        }
    }
    Ok(())
}

/// Checks that the ranges of released segments neither overlap nor touch, and reads them all.
fn check_released(connection: &Connection) -> Result<(), EngineError> {
    let mut from = 0;
    let mut next_start_min = 0;
    loop {
        let page = released::page(connection, from, PAGE)?;
        for range in &page {
            if range.start() > range.end() || *range.start() < next_start_min {
                return Err(EngineError::Damaged(format!(
                    "the released segments from {} to {} overlap or touch others, or are reversed",
                    range.start(),
                    range.end()
                )));
            }
            // One more than the next segment, because ranges that touch are merged.
            next_start_min = range.end().saturating_add(2);
        }
        let Some(last) = page.last() else { return Ok(()) };
        from = last.end().saturating_add(1);
    }
}

/// Whether a temporary view hides the table from this connection. A reader that opened the file
/// before a writer's migration created the table sees it as empty, for as long as it is open.
fn is_hidden(connection: &Connection, table: CountedTable) -> Result<bool, EngineError> {
    Ok(connection.prepare("SELECT 1 FROM temp.sqlite_schema WHERE name = ?1")?.exists([table.name()])?)
}

/// A fresh count of what the catalogue counts as it goes.
struct Count {
    counters: Counters,
    /// Number of rows that refer to each segment.
    live: BTreeMap<i64, i64>,
}

impl Count {
    fn count_row_in(&mut self, segment: u64) {
        *self.live.entry(segment.cast_signed()).or_default() += 1;
    }

    fn count_versions(&mut self, connection: &Connection) -> Result<(), EngineError> {
        let mut statement = connection.prepare(&format!("SELECT {VERSION_COLUMNS} FROM version ORDER BY version"))?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let row = read_version(row)?;
            if row.row_id.0 >= self.counters.next_row_id {
                return Err(EngineError::Damaged(format!("version {} has a row number that was never assigned", row.id)));
            }
            self.counters.versions += 1;
            self.counters.content_bytes = self.counters.content_bytes.saturating_add_unsigned(row.record.size);
            let extents = extents::of(connection, row.row_id)?;
            match put::staged(connection, row.row_id)? {
                None if row.archived => {
                    // `tile` returns extents unchanged if they cover the version without gaps or
                    // overlaps.
                    if extents::tile(extents.clone(), row.stored_bytes) != Some(extents) {
                        return Err(EngineError::Damaged(format!("the extents of version {} do not add up to it", row.id)));
                    }
                }
                Some((record, data)) if !row.archived => {
                    self.counters.staged_versions += 1;
                    self.counters.staged_stored_bytes = self.counters.staged_stored_bytes.saturating_add_unsigned(row.stored_bytes);
                    if StagedData::end_of(&data) != Some(row.stored_bytes) {
                        return Err(EngineError::Damaged(format!("the staged parts of version {} do not add up to it", row.id)));
                    }
                    data.iter().map(|data| data.place).chain([record]).for_each(|place| self.count_row_in(place.segment));
                }
                _ => {
                    return Err(EngineError::Damaged(format!(
                        "version {} must be either staged or archived, and is neither or both",
                        row.id
                    )));
                }
            }
        }
        Ok(())
    }

    fn count_names_tombstones_and_unlisted(&mut self, connection: &Connection) -> Result<(), EngineError> {
        self.counters.objects = connection.query_row("SELECT count(DISTINCT name) FROM version", [], |row| row.get(0))?;
        for tombstone in put::tombstones(connection)? {
            self.counters.staged_tombstones += 1;
            self.count_row_in(tombstone.segment);
        }
        let mut pages = Pager::default();
        while let Some(page) = pages.next(|after| unlisted::page(connection, after.copied(), PAGE))? {
            page.iter().flat_map(|version| &version.segments).for_each(|&segment| self.count_row_in(segment));
        }
        Ok(())
    }
}
