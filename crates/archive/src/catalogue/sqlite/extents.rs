//! Extents: which bytes of a version are on which platter, and whether they cover it.

use fulgurite_domain::PlatterId;
use rusqlite::{Connection, Row, params};

use super::engine_error::EngineError;
use super::row::{RowCheck, int, narrow, uint};
use crate::catalogue::{Extent, VersionRowId};

/// The extents of a version, in the order of its bytes.
pub(super) fn of(connection: &Connection, row_id: VersionRowId) -> Result<Vec<Extent>, EngineError> {
    let mut statement = connection.prepare_cached(
        "SELECT object_offset, platter, shard, platter_offset, bytes, extent.row_check, platter.id \
         FROM extent LEFT JOIN platter ON platter.number = extent.platter WHERE version = ?1 ORDER BY object_offset, platter",
    )?;
    let read = |row: &Row<'_>| {
        let cells: [i64; 5] = [row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?];
        let [object_offset, platter, shard, offset, bytes] = cells;
        check(row_id, cells).confirm(row.get(5)?, || format!("an extent on platter {platter} of the catalogue"))?;
        let Some(id) = row.get(6)? else { return Err(EngineError::Damaged(format!("platter {platter} of an extent is missing"))) };
        Ok(Extent {
            shard: narrow(shard, "the shard of an extent")?,
            object_offset: uint(object_offset, "the place of an extent")?,
            platter: PlatterId(id),
            offset: uint(offset, "the place of an extent on its platter")?,
            bytes: uint(bytes, "the length of an extent")?,
        })
    };
    statement.query_and_then([row_id.0], read)?.collect()
}

/// The checksum of a row; `cells` are the offset in the version, the number of the platter, the
/// shard, the offset on the platter, and the bytes.
fn check(row_id: VersionRowId, cells: [i64; 5]) -> RowCheck {
    RowCheck::of("extent").number(row_id.0).numbers(cells)
}

/// Records an extent; `platter` is the catalogue's number of its platter.
pub(super) fn insert(connection: &Connection, row_id: VersionRowId, platter: i64, extent: &Extent) -> Result<(), EngineError> {
    let cells = [int(extent.object_offset)?, platter, extent.shard.into(), int(extent.offset)?, int(extent.bytes)?];
    let [object_offset, platter, shard, offset, bytes] = cells;
    connection
        .prepare_cached(
            "INSERT INTO extent (version, object_offset, platter, shard, platter_offset, bytes, row_check) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT DO NOTHING",
        )?
        .execute(params![row_id.0, object_offset, platter, shard, offset, bytes, check(row_id, cells).sum()])?;
    Ok(())
}

pub(super) fn remove(connection: &Connection, row_id: VersionRowId) -> Result<(), EngineError> {
    connection.prepare_cached("DELETE FROM extent WHERE version = ?1")?.execute([row_id.0])?;
    Ok(())
}

/// Selects from extents that may overlap (if a part was written twice) so that each stored byte
/// appears once, and trims duplicates. `None` if a byte is missing, or if they reach beyond the
/// object. An object without bytes needs one empty extent, which names the platter of its record.
pub(super) fn tile(mut extents: Vec<Extent>, stored_bytes: u64) -> Option<Vec<Extent>> {
    extents.sort_by_key(|extent| extent.object_offset);
    if stored_bytes == 0 {
        return extents.first().map(|&extent| vec![extent]);
    }
    let mut tiles = Vec::new();
    let mut end = 0;
    let mut rest = extents.as_slice();
    while end < stored_bytes {
        // Of the extents that continue here without a gap, take the one that reaches furthest.
        let reachable = rest.iter().take_while(|extent| extent.object_offset <= end).count();
        let furthest = rest[..reachable].iter().max_by_key(|extent| extent.object_offset.saturating_add(extent.bytes))?;
        let cut = end - furthest.object_offset;
        let bytes = furthest.bytes.checked_sub(cut).filter(|&bytes| bytes > 0)?;
        tiles.push(Extent { object_offset: end, offset: furthest.offset.checked_add(cut)?, bytes, ..*furthest });
        end = end.checked_add(bytes)?;
        rest = &rest[reachable..];
    }
    (end == stored_bytes).then_some(tiles)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(object_offset: u64, bytes: u64) -> Extent {
        Extent { shard: 0, object_offset, platter: PlatterId([object_offset as u8; 16]), offset: 1_000 + object_offset, bytes }
    }

    #[test]
    fn extents_without_gaps_or_overlaps_are_unchanged() {
        let extents = vec![extent(0, 10), extent(10, 5), extent(15, 1)];
        let mut shuffled = extents.clone();
        shuffled.rotate_left(1);
        assert_eq!(tile(shuffled, 16), Some(extents));
    }

    #[test]
    fn a_missing_byte_anywhere_means_that_the_object_is_not_covered() {
        assert_eq!(tile(vec![], 1), None);
        assert_eq!(tile(vec![], 0), None);
        assert_eq!(tile(vec![extent(1, 15)], 16), None);
        assert_eq!(tile(vec![extent(0, 15)], 16), None);
        assert_eq!(tile(vec![extent(0, 7), extent(8, 8)], 16), None);
        assert_eq!(tile(vec![extent(0, 0)], 16), None);
    }

    #[test]
    fn extents_longer_than_the_object_are_rejected() {
        assert_eq!(tile(vec![extent(0, 17)], 16), None);
    }

    #[test]
    fn duplicate_bytes_are_used_once() {
        assert_eq!(tile(vec![extent(0, 6), extent(0, 16), extent(6, 10)], 16), Some(vec![extent(0, 16)]));
        let cut = Extent { object_offset: 9, offset: 1_009, bytes: 7, ..extent(4, 12) };
        assert_eq!(tile(vec![extent(0, 9), extent(2, 3), extent(4, 12)], 16), Some(vec![extent(0, 9), cut]));
    }

    #[test]
    fn an_empty_object_keeps_its_empty_extent() {
        assert_eq!(tile(vec![extent(0, 0)], 0), Some(vec![extent(0, 0)]));
    }
}
