//! Rebuilding: adds versions and tombstones found on platters and in staging.

use fulgurite_domain::{ObjectName, VersionId};
use rusqlite::{Connection, params};

use super::counters::Ledger;
use super::fault::Fault;
use super::row::int;
use super::{extents, put, sets};
use crate::catalogue::{CatalogueError, FoundVersion, StagedTombstone};

pub(super) fn versions(connection: &Connection, found: &[FoundVersion]) -> Result<(), Fault> {
    let mut ledger = Ledger::open(connection)?;
    let mut insertion = put::Insertion::prepare(connection)?;
    for version in found {
        match version {
            FoundVersion::Staged(new) => {
                if !known(connection, &new.record.name, new.record.version, new.id)? {
                    insertion.staged(&mut ledger, new)?;
                }
            }
            FoundVersion::Archived { id, record, sealed, stored_bytes, extents: found } => {
                if known(connection, &record.name, record.version, *id)? {
                    continue;
                }
                let tiles = extents::tile(found.clone(), *stored_bytes);
                let tiles = tiles.ok_or(Fault::Refused(CatalogueError::Uncovered { id: *id }))?;
                let key = insertion.version(&mut ledger, *id, record, *sealed, *stored_bytes, true)?;
                for tile in tiles {
                    extents::insert(connection, key, sets::number_of(connection, tile.platter)?, &tile)?;
                }
            }
        }
    }
    ledger.close()
}

fn known(connection: &Connection, name: &ObjectName, number: u64, id: VersionId) -> Result<bool, Fault> {
    let mut statement =
        connection.prepare_cached("SELECT 1 FROM version WHERE archived IN (0, 1) AND name = ?1 AND number = ?2 AND id = ?3")?;
    Ok(statement.exists(params![name.0, int(number)?, id.0])?)
}

pub(super) fn tombstones(connection: &Connection, tombstones: &[StagedTombstone]) -> Result<(), Fault> {
    let mut ledger = Ledger::open(connection)?;
    put::add_tombstones(connection, &mut ledger, tombstones)?;
    ledger.close()
}
