//! The acknowledged length of each staging segment, in bytes.

use rusqlite::{Connection, Row};

use super::counters::{CountedTable, Ledger};
use super::engine_error::EngineError;
use super::row::{RowCheck, int, uint};
use crate::catalogue::SegmentEnd;

fn row_check(number: i64, end: i64) -> RowCheck {
    RowCheck::of("segment_end").numbers([number, end])
}

/// Records ends, and replaces those recorded before for the same segments.
pub(super) fn record(connection: &Connection, ledger: &mut Ledger<'_>, ends: &[SegmentEnd]) -> Result<(), EngineError> {
    let mut update = connection.prepare_cached("UPDATE segment_end SET end_offset = ?2, row_check = ?3 WHERE number = ?1")?;
    let mut insert = connection.prepare_cached("INSERT INTO segment_end (number, end_offset, row_check) VALUES (?1, ?2, ?3)")?;
    for end in ends {
        let (number, bytes) = (int(end.segment)?, int(end.bytes)?);
        let row = [number, bytes, row_check(number, bytes).sum()];
        if update.execute(row)? == 0 {
            insert.execute(row)?;
            ledger.count_rows(CountedTable::SegmentEnd, 1);
        }
    }
    Ok(())
}

/// The ends of the segments in use. An end can be recorded for a segment that no row refers to, for
/// example one with only pieces of an unfinished object; such ends are left out here.
pub(super) fn list(connection: &Connection) -> Result<Vec<SegmentEnd>, EngineError> {
    select(connection, "WHERE number IN (SELECT number FROM segment)")
}

/// Compares all ends with their checksums, also those of segments that are no longer in use.
pub(super) fn check(connection: &Connection) -> Result<(), EngineError> {
    select(connection, "").map(|_| ())
}

fn select(connection: &Connection, condition: &str) -> Result<Vec<SegmentEnd>, EngineError> {
    let mut statement =
        connection.prepare_cached(&format!("SELECT number, end_offset, row_check FROM segment_end {condition} ORDER BY number"))?;
    let read = |row: &Row<'_>| {
        let (number, end): (i64, i64) = (row.get(0)?, row.get(1)?);
        row_check(number, end).confirm(row.get(2)?, || format!("the end of segment {number:016x}"))?;
        Ok(SegmentEnd { segment: uint(number, "the number of a segment")?, bytes: uint(end, "the end of a segment")? })
    };
    statement.query_and_then([], read)?.collect()
}
