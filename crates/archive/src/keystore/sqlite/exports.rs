//! Which keys no exported copy has.

use rusqlite::{Connection, OptionalExtension, params};

use super::EngineError;
use crate::keystore::{ExportMark, Exported};
use crate::schema;

pub(super) fn mark(connection: &Connection) -> Result<ExportMark, EngineError> {
    Ok(ExportMark(connection.query_row("SELECT inserted FROM counter WHERE one = 1", [], |row| row.get(0))?))
}

pub(super) fn note(connection: &Connection, ExportMark(inserted): ExportMark, at_ms: u64) -> Result<(), EngineError> {
    connection.execute("INSERT OR REPLACE INTO export (one, at, inserted) VALUES (1, ?1, ?2)", params![at_ms as i64, inserted])?;
    Ok(())
}

/// `None` for a file of the first schema, which a read-only disk keeps from being migrated.
pub(super) fn status(connection: &Connection) -> Result<Option<Exported>, EngineError> {
    if schema::version(connection)? < 2 {
        return Ok(None);
    }
    let last = "SELECT at, inserted FROM export WHERE one = 1";
    let last: Option<(i64, i64)> = connection.query_row(last, [], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    let ExportMark(inserted) = mark(connection)?;
    let covered = last.map_or(0, |(_, inserted)| inserted);
    Ok(Some(Exported { last_ms: last.map(|(at, _)| at as u64), keys_since: inserted.saturating_sub(covered).max(0) as u64 }))
}
