//! The damage check: runs SQLite's own check, and compares each row with its checksum and each
//! counter with a fresh count.

use std::collections::BTreeMap;

use rusqlite::Connection;

use super::counters::{self, Counters};
use super::engine_error::EngineError;
use super::row::{VERSION_COLUMNS, read_version};
use super::{extents, put, sets, unlisted};
use crate::catalogue::StagedData;
use crate::paging::Pager;

pub(super) fn check(connection: &Connection) -> Result<(), EngineError> {
    let verdict: String = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if verdict != "ok" {
        return Err(EngineError::Damaged(verdict));
    }
    sets::check(connection)?;

    let mut count = Count {
        counters: Counters { next_version: Counters::read(connection)?.next_version, ..Counters::default() },
        live: BTreeMap::new(),
    };
    count.versions(connection)?;
    count.others(connection)?;
    if count.counters != Counters::read(connection)? {
        return Err(EngineError::Damaged("the counters are wrong".into()));
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

/// A fresh count of what the catalogue counts as it goes.
struct Count {
    counters: Counters,
    /// Number of rows with content in each segment.
    live: BTreeMap<i64, i64>,
}

impl Count {
    fn row_in(&mut self, segment: u64) {
        *self.live.entry(segment.cast_signed()).or_default() += 1;
    }

    fn versions(&mut self, connection: &Connection) -> Result<(), EngineError> {
        let mut statement = connection.prepare(&format!("SELECT {VERSION_COLUMNS} FROM version ORDER BY version"))?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let row = read_version(row)?;
            if row.row_id.0 >= self.counters.next_version {
                return Err(EngineError::Damaged(format!("version {} has a row number that was never assigned", row.id)));
            }
            self.counters.versions += 1;
            self.counters.content_bytes = self.counters.content_bytes.saturating_add_unsigned(row.record.size);
            let places = extents::of(connection, row.row_id)?;
            match put::staged(connection, row.row_id)? {
                None if row.archived => {
                    if extents::tile(places.clone(), row.stored_bytes) != Some(places) {
                        return Err(EngineError::Damaged(format!("the extents of version {} do not add up to it", row.id)));
                    }
                }
                Some((record, data)) if !row.archived => {
                    self.counters.staged_versions += 1;
                    self.counters.staged_bytes = self.counters.staged_bytes.saturating_add_unsigned(row.stored_bytes);
                    if StagedData::end_of(&data) != Some(row.stored_bytes) {
                        return Err(EngineError::Damaged(format!("the staged parts of version {} do not add up to it", row.id)));
                    }
                    data.iter().map(|data| data.place).chain([record]).for_each(|place| self.row_in(place.segment));
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

    fn others(&mut self, connection: &Connection) -> Result<(), EngineError> {
        self.counters.objects = connection.query_row(
            "SELECT count(*) FROM (SELECT name FROM version WHERE archived = 0 UNION SELECT name FROM version WHERE archived = 1)",
            [],
            |row| row.get(0),
        )?;
        for tombstone in put::tombstones(connection)? {
            self.counters.tombstones += 1;
            self.row_in(tombstone.segment);
        }
        let mut pages = Pager::default();
        while let Some(page) = pages.next(|after| unlisted::page(connection, after.copied(), 1_000))? {
            page.iter().flat_map(|version| &version.segments).for_each(|&segment| self.row_in(segment));
        }
        Ok(())
    }
}
