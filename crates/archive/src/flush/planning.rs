//! Planning: the limits of a set, the staged versions that go onto it, and the stores of its
//! platters.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;

use fulgurite_codec::PooledCode;
use fulgurite_domain::{Geometry, SetShape};
use fulgurite_format::RECORD_BYTES_MAX;
use fulgurite_glass::{Track, WriteDrive};

use super::{Kept, PAGE, Staged, TRACKS_AHEAD, WrittenPart, verifying};
use crate::archive::{Archive, ArchiveError};
use crate::catalogue::{VersionRow, VersionRowId};
use crate::ingest::RECORD_BYTES;
use crate::packing::{Bounds, Item, Proportions, SetPlan, disk_geometry};
use crate::paging::Pager;
use crate::store::{PlatterStore, StoreError, check_all, check_room, platter_bytes};

/// Memory per staged version while a set is planned and written, without its data records.
const ITEM_MEMORY_BYTES: u64 = 512;

pub(super) fn bounds(archive: &Archive) -> Bounds {
    let settings = archive.settings();
    let (shape, memory_bytes) = (settings.shape(), settings.limits.memory_mib << 20);
    let mut sector_bytes_max = fulgurite_domain::SECTOR_BYTES_MAX;
    // Larger sectors suit disks better, but the codes keep thousands of them in memory. 240 tracks
    // are a full large group. The last quarter of the memory is for the items, see `gather`.
    while sector_bytes_max > 1_024
        && flush_memory_bytes(disk_geometry(sector_bytes_max, 240), shape, archive.threads()) > memory_bytes * 3 / 4
    {
        sector_bytes_max /= 2;
    }
    Bounds { shape, proportions: Proportions::of(settings.medium), platter_bytes: settings.set.platter_mib << 20, sector_bytes_max }
}

/// Peak memory of a flush: the larger of writing one information platter, and encoding the set
/// while writing all redundancy platters; plus reading back the rest of the previous set.
fn flush_memory_bytes(geometry: Geometry, shape: SetShape, threads: usize) -> u64 {
    let track_bytes = Track::memory_bytes(geometry);
    let sectors = usize::from(geometry.track_information);
    let set_code = match PooledCode::new(usize::from(shape.information) * sectors, usize::from(shape.redundancy) * sectors) {
        Ok(code) => code.encoder_bytes(geometry.sector_bytes as usize) as u64,
        // There is no code without redundancy, nor for more than 65,536 sectors.
        Err(_) => 0,
    };
    // The tracks that `write_information` makes, and one to spare.
    let ahead = (TRACKS_AHEAD as u64 + 2) * track_bytes;
    let information = WriteDrive::<io::Sink>::memory_bytes(geometry) + ahead;
    let read = (verifying::readers(threads, shape) * verifying::TRACKS_PER_READER + 1) as u64 * track_bytes;
    let redundancy = set_code + u64::from(shape.redundancy) * WriteDrive::<io::Sink>::memory_bytes(geometry) + read;
    // The previous set may still be read back, with one track per reader.
    information.max(redundancy) + verifying::readers(threads, shape) as u64 * track_bytes
}

/// Limit on the memory of a set's versions. Those of two sets may be in memory, in an eighth of it
/// each; `bounds` gives the codes the other three quarters.
pub(super) fn versions_memory_max(archive: &Archive) -> u64 {
    (archive.settings().limits.memory_mib << 20) / 8
}

impl Staged {
    /// Memory that the version takes while its set is planned and written.
    pub(super) fn memory_bytes(&self) -> u64 {
        ITEM_MEMORY_BYTES + size_of_val(self.data.as_slice()) as u64
    }
}

/// Staged versions for a set.
#[derive(Default)]
pub(super) struct Gathered {
    pub(super) items: Vec<Item>,
    /// Where the bytes of each item are.
    pub(super) staged: Vec<Staged>,
    /// Versions that were skipped because their records are too long, with that length.
    pub(super) too_long: Vec<(VersionRow, u32)>,
}

/// Collects staged versions in the order of their names, until they fill a set.
pub(super) fn gather(
    archive: &Archive,
    capacity: u64,
    up_to: VersionRowId,
    kept: &HashMap<VersionRowId, Kept>,
    written_parts: &HashMap<VersionRowId, WrittenPart>,
) -> Result<Gathered, ArchiveError> {
    let mut gathered = Gathered::default();
    let mut bytes = 0;
    let mut pages = Pager::default();
    let memory_max = versions_memory_max(archive);
    let mut memory = 0;
    while bytes < capacity && memory < memory_max {
        let mut catalogue = archive.catalogue();
        let Some(page) = pages.next(|after| catalogue.staged_versions(after, PAGE))? else { break };
        for row in page.into_iter().filter(|row| row.row_id <= up_to && !kept.contains_key(&row.row_id)) {
            // A part of a large object may be on platters of earlier sets.
            let written = match written_parts.get(&row.row_id) {
                Some(part) if part.end == row.stored_bytes => continue,
                Some(part) => *part,
                None => {
                    let extents = catalogue.extents(row.row_id)?;
                    let end = extents.iter().map(|extent| extent.object_offset + extent.bytes).max().unwrap_or(0);
                    WrittenPart { end, shards: extents.len() as u32 }
                }
            };
            // Removed since it was listed.
            let Some((record, data)) = catalogue.staged(row.row_id)? else { continue };
            if record.bytes as usize > RECORD_BYTES_MAX {
                gathered.too_long.push((row, record.bytes));
                continue;
            }
            gathered.items.push(Item {
                row_id: row.row_id,
                id: row.id,
                object_bytes: row.stored_bytes,
                start: written.end,
                shard: written.shards,
                record_bytes: record.bytes,
                cut_bytes: RECORD_BYTES as u64,
            });
            let version = Staged { sealed: row.sealed, record, data };
            memory += version.memory_bytes();
            gathered.staged.push(version);
            bytes += row.stored_bytes - written.end;
            if bytes >= capacity || memory >= memory_max {
                break;
            }
        }
    }
    Ok(gathered)
}

/// Chooses the stores for the platters of a set: those with the most free space, without those that
/// have `refused` a platter of this set. Stores that are `avoided` come last.
pub(super) fn choose_stores(
    stores: &[Arc<dyn PlatterStore>],
    plan: &SetPlan,
    refused: &mut Vec<StoreError>,
    avoided: &HashSet<String>,
) -> Result<Vec<Arc<dyn PlatterStore>>, ArchiveError> {
    let needed = platter_bytes(plan.medium, plan.geometry);
    let mut others = Vec::new();
    let mut usable = Vec::new();
    for (store, checked) in stores.iter().zip(check_all(stores)) {
        if refused.iter().any(|error| error.store() == store.name()) {
            continue;
        }
        match checked.and_then(|()| check_room(&**store, needed)) {
            Err(error) => others.push(error),
            Ok(free) => usable.push((free, store.clone())),
        }
    }
    if usable.len() < usize::from(plan.shape.platters()) {
        others.append(refused);
        return Err(ArchiveError::TooFewStores { shape: plan.shape, available: usable.len(), others });
    }
    // The sort is stable: stores with equal free space keep the order of the settings.
    usable.sort_by_key(|(free, store)| (avoided.contains(store.name()), std::cmp::Reverse(*free)));
    Ok(usable.into_iter().take(plan.shape.platters().into()).map(|(_, store)| store).collect())
}
