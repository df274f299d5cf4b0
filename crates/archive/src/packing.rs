//! Packing: assigns stored bytes to the platters of the next set.
//!
//! Objects are packed in the order of their names, so that objects that are read together are
//! neighbours. They are laid one after another across the information platters, and each platter
//! ends with its file table. All platters of a set have the same number of tracks. The plan takes
//! nearly the smallest number that holds everything, so the set is filled evenly.
//!
//! An object is cut only where that pays: at the end of a platter, if [`SHARD_ROOM_BYTES`] or more
//! would stay empty, or if the object doesn't fit a platter of its own.

use fulgurite_domain::{Geometry, Medium, SetShape, VersionId};
use fulgurite_format::TABLE_HEAD_BYTES;

use crate::catalogue::VersionRowId;
use crate::settings::{GlassPreset, MediumSettings};

/// If less room than this is left at the end of a platter, an object goes to the next platter
/// whole.
const SHARD_ROOM_BYTES: u64 = 4 << 20;
/// The same for glass, whose platters are small, as a share of their content.
const GLASS_SHARD_ROOM_SHARE: u64 = 8;

/// Longest encoding of a table entry without its record, see `docs/format.md`: the array's head,
/// the identifier, flags, and seven integers or heads of at most nine bytes.
const ENTRY_BYTES: u64 = 1 + 17 + 1 + 7 * 9;
/// A tombstone in a table: the array's head, the identifier, and eight numbers or heads of one
/// byte.
const TOMBSTONE_BYTES: u64 = 1 + 17 + 8;

/// An item to pack: a version, or the part of it that is not on platters yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Item {
    pub row_id: VersionRowId,
    pub id: VersionId,
    /// Stored bytes of the whole object.
    pub object_bytes: u64,
    /// Offset in the object's stored bytes at which packing continues.
    pub start: u64,
    /// Index of the next shard.
    pub shard: u32,
    /// Length of its encoded record.
    pub record_bytes: u32,
    /// The object may be cut after each multiple of this many stored bytes.
    pub cut_bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PlacedShard {
    pub item: usize,
    /// Shard index among those of the object.
    pub shard: u32,
    /// Where the shard starts in the stored bytes of the object.
    pub object_offset: u64,
    /// Where it starts in the platter's content.
    pub offset: u64,
    pub bytes: u64,
}

/// The content of one information platter: shards back to back, then the table at
/// [`table_offset`](Self::table_offset).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct PlatterPlan {
    pub shards: Vec<PlacedShard>,
    pub table_offset: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SetPlan {
    pub medium: Medium,
    pub geometry: Geometry,
    pub shape: SetShape,
    /// The content of its information platters, in order of position.
    pub platters: Vec<PlatterPlan>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub shape: SetShape,
    pub proportions: Proportions,
    pub platter_bytes: u64,
    /// The largest sector that fits the memory limit.
    pub sector_bytes_max: u32,
}

impl Bounds {
    pub(crate) fn capacity(self) -> u64 {
        self.platter_bytes * u64::from(self.shape.information)
    }

    /// Limit on the tombstones in the first table of a set: half of a platter stays free for other
    /// content.
    pub(crate) fn tombstones_max(self) -> usize {
        usize::try_from(self.platter_bytes / 2 / TOMBSTONE_BYTES).unwrap_or(usize::MAX)
    }
}

/// Proportions of the `disk` medium.
///
/// 200+16 sectors make a track that fails less than once in 10^24 at a sector failure rate of 10^-3
/// (binomial tail: 5.9e-27). 240+5 tracks make a large group with 2.1 % overhead ("about 2 %",
/// Anderson et al., SOSP '23, section 5); five tracks rather than six because 5 * 200 redundancy
/// symbols just fit a transform of 1,024, which halves the memory of the encoder.
#[must_use]
pub(crate) fn disk_geometry(sector_bytes: u32, information_tracks: u32) -> Geometry {
    Geometry { sector_bytes, track_information: 200, track_redundancy: 16, group_information: 240, group_redundancy: 5, information_tracks }
}

/// How sectors form tracks and tracks form groups, which depends on the medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proportions {
    Disk,
    Glass(GlassPreset),
}

impl Proportions {
    pub(crate) fn of(medium: MediumSettings) -> Self {
        match medium {
            MediumSettings::Disk {} => Self::Disk,
            MediumSettings::Glass(glass) => Self::Glass(glass.preset),
        }
    }

    fn medium(self) -> Medium {
        match self {
            Self::Disk => Medium::Disk,
            Self::Glass(_) => Medium::Glass,
        }
    }

    /// Room at the end of a platter for which an object is cut.
    fn shard_room_bytes(self, platter_bytes: u64) -> u64 {
        match self {
            Self::Disk => SHARD_ROOM_BYTES,
            Self::Glass(_) => SHARD_ROOM_BYTES.min(platter_bytes / GLASS_SHARD_ROOM_SHARE),
        }
    }

    /// The geometry of a platter. Sectors of glass have one size: a layer of voxels.
    fn geometry(self, sector_bytes: u32, information_tracks: u32) -> Geometry {
        match self {
            Self::Disk => disk_geometry(sector_bytes, information_tracks),
            Self::Glass(preset) => glass_geometry(preset, information_tracks),
        }
    }
}

/// Proportions of the `glass` medium. Its platters are small, so tracks and groups are too, and
/// spend a larger share on redundancy.
#[must_use]
pub(crate) fn glass_geometry(preset: GlassPreset, information_tracks: u32) -> Geometry {
    let (sector_bytes, [track_information, track_redundancy, group_information, group_redundancy]) = match preset {
        GlassPreset::Desk => (8_192, [40, 8, 20, 2]),
        GlassPreset::Tiny => (4_096, [6, 2, 3, 1]),
    };
    Geometry { sector_bytes, track_information, track_redundancy, group_information, group_redundancy, information_tracks }
}

/// Sectors grow only once a platter has this many tracks, so that the one redundancy track of a
/// small group costs at most 2.5 %.
const TRACKS_MIN: u64 = 40;
const SECTOR_BYTES_MIN: u32 = 1_024;

/// Packs as many of `items` as fit on the platters of one set, and reserves room for `tombstones`
/// in the first table. The last packed item may be packed only in part.
///
/// # Panics
/// If there is neither an item nor a tombstone.
#[must_use]
pub(crate) fn plan_set(items: &[Item], tombstones: usize, bounds: Bounds) -> SetPlan {
    assert!(!items.is_empty() || tombstones > 0, "a set is never empty");
    let first_table = TABLE_HEAD_BYTES + tombstones as u64 * TOMBSTONE_BYTES;
    let total: u64 = items.iter().map(|item| item.object_bytes - item.start + entry_bytes(item)).sum::<u64>() + first_table;
    // Small sets use small sectors, and fewer platters if most of them would be nearly empty.
    let share = total.div_ceil(bounds.shape.information.into()).min(bounds.platter_bytes);
    let track = |sector_bytes: u32| bounds.proportions.geometry(sector_bytes, 1).track_bytes();
    let mut sector_bytes = SECTOR_BYTES_MIN;
    while bounds.proportions == Proportions::Disk
        && sector_bytes * 2 <= bounds.sector_bytes_max
        && track(sector_bytes * 2) * TRACKS_MIN <= share
    {
        sector_bytes *= 2;
    }
    let information = total.div_ceil(track(sector_bytes)).min(bounds.shape.information.into()) as u16;
    let tracks_max = (bounds.platter_bytes / track(sector_bytes)).max(1);
    let mut tracks = (total.div_ceil(u64::from(information)).div_ceil(track(sector_bytes))).clamp(1, tracks_max);
    loop {
        let geometry = bounds.proportions.geometry(sector_bytes, tracks as u32);
        let shard_room = bounds.proportions.shard_room_bytes(bounds.platter_bytes);
        let (platters, complete) = assign_shards(items, first_table, geometry.content_bytes(), information, shard_room);
        if complete || tracks == tracks_max {
            let medium = bounds.proportions.medium();
            return SetPlan { medium, geometry, shape: SetShape { information: platters.len() as u16, ..bounds.shape }, platters };
        }
        // The rest did not fit because the ends of platters stayed empty. One more track on each is
        // often enough. Adding a hundredth as well limits the number of attempts for a large plan.
        tracks = (tracks + 1 + tracks / 100).min(tracks_max);
    }
}

fn entry_bytes(item: &Item) -> u64 {
    ENTRY_BYTES + u64::from(item.record_bytes)
}

/// Packs items onto `information` platters of `content_bytes`. The first platter's table takes
/// `first_table` bytes before any item. Returns whether everything fit.
fn assign_shards(items: &[Item], first_table: u64, content_bytes: u64, information: u16, shard_room: u64) -> (Vec<PlatterPlan>, bool) {
    if first_table > content_bytes {
        return (Vec::new(), false);
    }
    let mut platters = Vec::new();
    let mut platter = PlatterPlan::default();
    let mut table = first_table;
    for (index, item) in items.iter().enumerate() {
        let (mut start, mut shard) = (item.start, item.shard);
        loop {
            // An empty object needs room for its entry, too.
            let room = content_bytes.checked_sub(platter.table_offset + table + entry_bytes(item));
            let bytes = room.and_then(|room| shard_bytes(item, start, room, platter.shards.is_empty() || room >= shard_room));
            if let Some(bytes) = bytes {
                platter.shards.push(PlacedShard { item: index, shard, object_offset: start, offset: platter.table_offset, bytes });
                platter.table_offset += bytes;
                table += entry_bytes(item);
                start += bytes;
                shard += 1;
                if start == item.object_bytes {
                    break;
                }
            }
            platters.push(std::mem::take(&mut platter));
            table = TABLE_HEAD_BYTES;
            if platters.len() == usize::from(information) {
                return (platters, false);
            }
        }
    }
    platters.push(platter);
    (platters, true)
}

/// How many bytes of an item go into `room`; `None` if nothing does. It is cut only if `may_cut`.
fn shard_bytes(item: &Item, start: u64, room: u64, may_cut: bool) -> Option<u64> {
    let rest = item.object_bytes - start;
    if rest <= room {
        return Some(rest);
    }
    if !may_cut {
        return None;
    }
    let cut = (start + room) / item.cut_bytes * item.cut_bytes;
    (cut > start).then(|| cut - start)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CUT: u64 = 16 * 65_552;

    fn item(row_id: i64, object_bytes: u64) -> Item {
        Item {
            row_id: VersionRowId(row_id),
            id: VersionId([row_id as u8; 16]),
            object_bytes,
            start: 0,
            shard: 0,
            record_bytes: 200,
            cut_bytes: CUT,
        }
    }

    fn bounds(platter_bytes: u64) -> Bounds {
        let shape = SetShape { information: 4, redundancy: 2 };
        Bounds { shape, proportions: Proportions::Disk, platter_bytes, sector_bytes_max: 65_536 }
    }

    /// Checks that each byte of each item is placed once, in order, within the content and without
    /// overlap.
    fn check(items: &[Item], plan: &SetPlan) -> u64 {
        let mut next: Vec<(u64, u32)> = items.iter().map(|item| (item.start, item.shard)).collect();
        let mut placed = 0;
        for platter in &plan.platters {
            let mut end = 0;
            let mut table = TABLE_HEAD_BYTES;
            for shard in &platter.shards {
                assert_eq!(shard.offset, end);
                assert_eq!((shard.object_offset, shard.shard), next[shard.item]);
                next[shard.item] = (shard.object_offset + shard.bytes, shard.shard + 1);
                let to = shard.object_offset + shard.bytes;
                assert!(to == items[shard.item].object_bytes || to.is_multiple_of(CUT));
                end += shard.bytes;
                table += entry_bytes(&items[shard.item]);
                placed += shard.bytes;
            }
            assert_eq!(platter.table_offset, end);
            assert!(end + table <= plan.geometry.content_bytes());
        }
        placed
    }

    #[test]
    fn everything_that_fits_is_placed_once_and_in_order() {
        let mut seed = 1_u64;
        for round in 0..200 {
            let items: Vec<Item> = (0..1 + round % 40)
                .map(|i| {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    item(i, (seed >> 33) % (1 << (8 + seed % 18)))
                })
                .collect();
            let plan = plan_set(&items, 0, bounds(1 << 30));
            assert_eq!(check(&items, &plan), items.iter().map(|item| item.object_bytes).sum::<u64>());
        }
    }

    #[test]
    fn a_file_larger_than_the_set_fills_it_and_continues_in_the_next() {
        let items = [item(1, 10 << 30)];
        let plan = plan_set(&items, 0, bounds(64 << 20));
        let placed = check(&items, &plan);
        assert!(placed > (4 * 60) << 20, "only {placed} of {} bytes are used", (4 * 64) << 20);
        let rest = Item { start: placed, shard: 4, ..items[0].clone() };
        check(std::slice::from_ref(&rest), &plan_set(std::slice::from_ref(&rest), 0, bounds(64 << 20)));
    }

    #[test]
    fn small_files_are_never_cut() {
        let items: Vec<Item> = (0..500).map(|i| item(i, 300_000)).collect();
        let plan = plan_set(&items, 0, bounds(1 << 30));
        assert!(plan.platters.iter().flat_map(|platter| &platter.shards).all(|shard| shard.bytes == 300_000));
        assert_eq!(plan.shape.information, 4);
    }

    #[test]
    fn padding_stays_below_two_tracks_a_platter() {
        for size in [3_000, 50_000, 2_000_000] {
            let items: Vec<Item> = (0..3_000).map(|i| item(i, size)).collect();
            let plan = plan_set(&items, 0, bounds(4 << 30));
            let placed = check(&items, &plan) + 3_000 * entry_bytes(&items[0]);
            let content = plan.geometry.content_bytes() * u64::from(plan.shape.information);
            assert!(content - placed <= 8 * plan.geometry.track_bytes(), "{size}: {placed} of {content}");
        }
    }

    #[test]
    fn platters_of_glass_have_its_proportions_and_are_filled() {
        for preset in GlassPreset::ALL {
            let bounds = Bounds { proportions: Proportions::Glass(preset), ..bounds(10 << 20) };
            let items: Vec<Item> = (0..8).map(|i| item(i, 7 << 20)).collect();
            let plan = plan_set(&items, 0, bounds);
            assert_eq!((plan.medium, plan.geometry), (Medium::Glass, glass_geometry(preset, plan.geometry.information_tracks)));
            assert!(plan.geometry.check().is_ok());
            assert!(plan.geometry.content_bytes() <= 10 << 20);
            let placed = check(&items, &plan);
            assert!(placed > 4 * (85 << 20) / 10, "only {placed} bytes of four platters of 10 MiB are used");
            let small = plan_set(&items[..1], 0, bounds);
            assert!(small.geometry.information_tracks < plan.geometry.information_tracks, "small sets have small platters");
            assert!(crate::store::platter_bytes(Medium::Glass, plan.geometry) > plan.geometry.file_bytes());
        }
    }

    #[test]
    fn an_empty_object_takes_a_table_entry_and_nothing_else() {
        let items = [item(1, 0)];
        let plan = plan_set(&items, 0, bounds(1 << 30));
        assert_eq!(plan.platters[0].shards, [PlacedShard { item: 0, shard: 0, object_offset: 0, offset: 0, bytes: 0 }]);
        assert_eq!((plan.shape.information, plan.geometry.information_tracks), (1, 1));
    }

    #[test]
    fn many_empty_objects_are_spread_by_the_size_of_their_table_entries() {
        for count in [1_000, 5_000, 20_000] {
            let items: Vec<Item> = (0..count).map(|i| item(i, 0)).collect();
            let plan = plan_set(&items, 0, bounds(1 << 30));
            check(&items, &plan);
            assert_eq!(plan.platters.iter().map(|platter| platter.shards.len()).sum::<usize>(), items.len());
        }
        // More than one set can hold: the rest waits for the next set.
        let items: Vec<Item> = (0..200_000).map(|i| item(i, 0)).collect();
        let plan = plan_set(&items, 0, bounds(8 << 20));
        check(&items, &plan);
        assert!(plan.platters.iter().map(|platter| platter.shards.len()).sum::<usize>() < items.len());
    }

    #[test]
    fn the_first_table_has_room_for_the_tombstones() {
        for tombstones in [10_000, 100_000, bounds(8 << 20).tombstones_max()] {
            for items in [vec![item(1, 5)], vec![item(1, 90 << 20)], (0..3_000).map(|i| item(i, 700)).collect()] {
                let plan = plan_set(&items, tombstones, bounds(8 << 20));
                assert!(check(&items, &plan) > 0);
                let first = &plan.platters[0];
                let entries: u64 = first.shards.iter().map(|shard| entry_bytes(&items[shard.item])).sum();
                let table = TABLE_HEAD_BYTES + tombstones as u64 * TOMBSTONE_BYTES + entries;
                assert!(first.table_offset + table <= plan.geometry.content_bytes());
            }
        }
        let tombstone = fulgurite_format::Entry::tombstone(VersionId([0xff; 16]));
        assert_eq!(tombstone.encoded_bytes(), TOMBSTONE_BYTES);
    }
}
