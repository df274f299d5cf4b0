//! The numbers of released staging segments, by which old copies of them are recognized. Kept as
//! ranges that neither overlap nor touch.

use std::ops::RangeInclusive;

use rusqlite::{Connection, Row};

use super::counters::{CountedTable, Ledger};
use super::engine_error::EngineError;
use super::row::{RowCheck, int, uint};

fn row_check(first: i64, last: i64) -> RowCheck {
    RowCheck::of("released").numbers([first, last])
}

/// Adds ranges, and merges each with those that it overlaps or touches.
pub(super) fn note(connection: &Connection, ranges: &[RangeInclusive<u64>]) -> Result<(), EngineError> {
    let mut ledger = Ledger::open(connection)?;
    for range in ranges {
        let (mut first, mut last) = (*range.start(), *range.end());
        while let Some(near) = page(connection, first.saturating_sub(1), 1)?.pop()
            && *near.start() <= last.saturating_add(1)
        {
            connection.prepare_cached("DELETE FROM released WHERE last_number = ?1")?.execute([int(*near.end())?])?;
            ledger.count_rows(CountedTable::Released, -1);
            (first, last) = (first.min(*near.start()), last.max(*near.end()));
        }
        let (first, last) = (int(first)?, int(last)?);
        let mut insert = connection.prepare_cached("INSERT INTO released (last_number, first_number, row_check) VALUES (?1, ?2, ?3)")?;
        insert.execute([last, first, row_check(first, last).sum()])?;
        ledger.count_rows(CountedTable::Released, 1);
    }
    ledger.close()
}

/// The ranges that end at segment `from` or later, in order.
pub(super) fn page(connection: &Connection, from: u64, limit: usize) -> Result<Vec<RangeInclusive<u64>>, EngineError> {
    let mut statement = connection.prepare_cached(
        "SELECT first_number, last_number, row_check FROM released WHERE last_number >= ?1 ORDER BY last_number LIMIT ?2",
    )?;
    let read = |row: &Row<'_>| {
        let (first, last) = (row.get(0)?, row.get(1)?);
        row_check(first, last).confirm(row.get(2)?, || format!("released segments from {first} on"))?;
        Ok(uint(first, "a released segment")?..=uint(last, "a released segment")?)
    };
    statement.query_and_then([int(from)?, int(limit as u64)?], read)?.collect()
}

/// The highest number of a released segment.
pub(super) fn last(connection: &Connection) -> Result<Option<u64>, EngineError> {
    let last: Option<i64> = connection.query_row("SELECT max(last_number) FROM released", [], |row| row.get(0))?;
    last.map(|last| uint(last, "the last released segment")).transpose()
}
