//! The conformance suite for catalogues: one function for each property, and [`conformance!`],
//! which turns each into a test.
//!
//! Each property gets a [`Fixture`], where a catalogue can be opened, closed and opened again.

mod adopting;
mod listing;
mod sets;
mod versions;

use fulgurite_domain::{
    Attributes, Digest, Geometry, Kind, Medium, Modified, ObjectName, ObjectRecord, PlatterId, SetId, SetShape, VersionId,
};

use super::*;

pub(crate) use {adopting::*, listing::*, sets::*, versions::*};

/// Where one catalogue is kept, so that tests can open it again.
pub(crate) trait Fixture {
    /// Opens the catalogue. The first call creates it.
    fn open(&self) -> Box<dyn Catalogue>;
}

/// Shorthands for changes of one kind.
pub(crate) trait Commit: Catalogue {
    fn commit_put(&mut self, versions: &[NewVersion]) -> Result<(), CatalogueError> {
        self.commit(&Change { staged: versions.to_vec(), ..Change::default() })
    }

    fn adopt_tombstones(&mut self, tombstones: &[StagedTombstone]) -> Result<(), CatalogueError> {
        self.commit(&Change { tombstones: tombstones.to_vec(), ..Change::default() })
    }
}

impl<C: Catalogue + ?Sized> Commit for C {}

/// Generates a test for each property. `$fixture` creates a new [`Fixture`].
macro_rules! conformance {
    ($fixture:expr) => {
        $crate::catalogue::conformance::conformance! { $fixture;
            a_new_catalogue_is_empty
            what_was_put_is_found_as_it_was
            the_latest_number_is_the_highest_of_the_name
            the_latest_number_counts_unlisted_versions
            a_put_of_many_is_there_whole_or_not_at_all
            a_put_whose_places_leave_bytes_out_is_refused
            versions_of_a_name_come_newest_first
            the_null_version_of_a_name_is_found_wherever_it_is
            listings_are_in_byte_order_whatever_the_bytes
            a_listing_gives_every_version_once_whatever_the_page
            a_listing_of_newest_gives_every_name_once_whatever_the_page
            a_listing_continues_after_a_prefix_whatever_its_bytes
            a_name_of_ten_thousand_versions_is_one_row_of_newest
            a_listing_goes_on_after_a_row_that_was_deleted
            versions_of_one_number_are_all_listed
            a_deleted_name_is_in_no_listing_of_newest_and_keeps_its_versions
            a_page_of_newest_is_full_whatever_is_skipped
            attributes_and_deletion_markers_stay_as_they_were
            totals_count_what_is_there
            the_oldest_staged_version_gives_the_age
            a_deleted_version_is_gone_and_its_tombstone_waits
            a_deletion_may_be_repeated
            a_row_id_is_never_used_again
            segments_are_in_use_while_something_is_staged_in_them
            released_segments_are_remembered_in_ranges
            a_set_is_known_while_it_is_written
            an_abandoned_set_leaves_everything_staged
            a_set_is_forgotten_when_nothing_is_on_it
            only_a_set_being_written_is_completed_or_abandoned
            a_complete_set_archives_its_versions
            a_complete_set_takes_further_versions
            an_extent_on_a_platter_of_another_set_is_refused
            an_object_without_bytes_is_archived_by_an_extent_of_none
            a_sharded_object_stays_staged_until_the_last_shard
            a_shard_that_was_written_twice_counts_once
            a_version_deleted_while_its_set_is_written_is_skipped
            tombstones_stay_staged_until_they_are_archived
            versions_on_platters_are_those_with_an_extent_there
            platters_remember_their_health_and_store
            staged_versions_remember_when_they_were_read
            sets_are_in_order_of_writing
            adopting_twice_is_adopting_once
            a_version_adopted_from_platters_is_archived
            attributes_and_deletion_markers_are_adopted_as_they_were
            an_adopted_version_has_each_byte_once
            a_version_adopted_in_part_is_refused
            a_reopened_catalogue_has_all_that_was_committed
            a_failed_change_leaves_nothing
            a_sound_catalogue_passes_its_check
        }
    };
    ($fixture:expr; $($property:ident)*) => {
        $(
            #[test]
            fn $property() {
                $crate::catalogue::conformance::$property(&$fixture);
            }
        )*
    };
}
pub(crate) use conformance;

/// The version with this number, derived from `seed`, staged in one segment.
pub(crate) fn version(name: impl AsRef<[u8]>, number: u64, seed: u64, bytes: u64) -> NewVersion {
    let mut data = Vec::new();
    let mut at = 0;
    while at < bytes {
        let part = (bytes - at).min(1_000);
        let place = StagedPlace { segment: seed, offset: 64 + at, bytes: part as u32, crc64: u64::MAX - at };
        data.push(StagedData { stored_offset: at, place });
        at += part;
    }
    NewVersion {
        id: VersionId::new(1_000 + seed, [(seed * 7 + number) as u8; 10]),
        record: ObjectRecord {
            name: ObjectName(name.as_ref().to_vec()),
            version: number,
            kind: [Kind::File, Kind::SymbolicLink, Kind::Directory][seed as usize % 3],
            size: bytes,
            sha256: Digest([seed as u8; 32]),
            modified: seed.is_multiple_of(2).then_some(Modified { seconds: -5 - seed as i64, nanoseconds: 999_999_999 }),
            mode: seed.is_multiple_of(2).then_some(0o7777),
            created_ms: 1_000 + seed,
            attributes: attributes(seed),
        },
        sealed: seed.is_multiple_of(2),
        stored_bytes: bytes,
        record_place: StagedPlace { segment: seed, offset: 64 + bytes, bytes: 100, crc64: seed.wrapping_mul(u64::MAX / 3) },
        data,
    }
}

/// The deletion marker with this number, staged.
pub(crate) fn marker(name: impl AsRef<[u8]>, number: u64, seed: u64) -> NewVersion {
    let mut marker = version(name, number, seed, 0);
    marker.record.kind = Kind::DeletionMarker;
    marker
}

/// No attributes, one, or many long ones: two of three versions have some.
fn attributes(seed: u64) -> Attributes {
    let mut attributes = Attributes::default();
    match seed % 3 {
        0 => {}
        1 => attributes.set("content-type", format!("text/{seed}")),
        _ => (0..=seed % 20).for_each(|i| attributes.set("n".repeat(i as usize % 7 * 40 + 1), vec![i as u8 ^ 0x80; i as usize * 90])),
    }
    attributes
}

pub(crate) fn set(seed: u8, platters: u8) -> SetDescription {
    SetDescription {
        id: SetId([seed; 16]),
        shape: SetShape { information: u16::from(platters) - 1, redundancy: 1 },
        medium: if seed.is_multiple_of(2) { Medium::Disk } else { Medium::Glass },
        geometry: Geometry {
            sector_bytes: 4_096,
            track_information: 100,
            track_redundancy: 8,
            group_information: 50,
            group_redundancy: 2,
            information_tracks: 1 << 30,
        },
        written: 10_000 + u64::from(seed),
        platters: (0..platters).map(|i| PlatterPlace { platter: platter(seed, i), store: format!("störe {i}") }).collect(),
    }
}

/// The platter at this position of a set. Identifiers descend as positions ascend, so that a
/// catalogue that orders by one instead of the other fails.
pub(crate) fn platter(set: u8, position: u8) -> PlatterId {
    let mut id = [set; 16];
    id[0] = 255 - position;
    PlatterId(id)
}

pub(crate) fn extent(set: u8, position: u8, object_offset: u64, bytes: u64) -> Extent {
    Extent { shard: (object_offset / 1_000) as u32, object_offset, platter: platter(set, position), offset: 50_000 + object_offset, bytes }
}

pub(crate) fn only(catalogue: &mut dyn Catalogue, name: impl AsRef<[u8]>) -> VersionRow {
    let found = catalogue.versions_of(&ObjectName(name.as_ref().to_vec())).expect("listed");
    let [row] = <[VersionRow; 1]>::try_from(found).expect("one version");
    row
}

/// When [`complete`] verifies its sets, seconds since 1970. An arbitrary time.
const VERIFIED: u64 = 77;

/// Writes a new set with these extents and completes it.
pub(crate) fn complete(catalogue: &mut dyn Catalogue, seed: u8, extents: &[(VersionRowId, Extent)]) {
    catalogue.begin_set(&set(seed, 3)).expect("begun");
    let mut extents = extents.iter().map(|&(version, extent)| ArchivedExtent { version, extent });
    catalogue.complete_set(SetId([seed; 16]), &mut extents, VERIFIED).expect("completed");
}

/// All rows of a listing, read in pages of `page` rows.
fn listed(catalogue: &mut dyn Catalogue, prefix: &[u8], versions: Versions, page: usize) -> Vec<VersionRow> {
    pages(page, |after| catalogue.list(prefix, versions, after, page).expect("listed"))
}

fn pages(page: usize, mut list: impl FnMut(Option<&ListCursor>) -> Vec<VersionRow>) -> Vec<VersionRow> {
    let mut all: Vec<VersionRow> = Vec::new();
    loop {
        let after = all.last().map(ListCursor::after_row);
        let rows = list(after.as_ref());
        assert!(rows.len() <= page);
        if rows.is_empty() {
            return all;
        }
        all.extend(rows);
    }
}

fn names(rows: &[VersionRow]) -> Vec<(Vec<u8>, u64)> {
    rows.iter().map(|row| (row.record.name.0.clone(), row.record.version)).collect()
}

const ODD_NAMES: [&[u8]; 14] = [
    b"",
    b"\x00",
    b"\x00\x00",
    b"\x00\xff",
    b"A",
    b"a",
    b"a\x00",
    b"a\x00b",
    b"a/b",
    b"ab",
    b"\xc3\xa9",
    b"\xff",
    b"\xff\x00",
    b"\xff\xff",
];

/// Puts three versions of each odd name. Archives every third version on one set, then every
/// seventh on another, which skips those that the first set has archived.
fn put_odd_names(catalogue: &mut dyn Catalogue) {
    let mut put = Vec::new();
    for (i, name) in ODD_NAMES.iter().rev().enumerate() {
        for number in [2, 1, 3] {
            put.push(version(name, number, (i * 3) as u64 + number, 5));
        }
    }
    catalogue.commit_put(&put).expect("put");
    let rows = catalogue.staged_versions(None, 1_000).expect("listed");
    let some: Vec<_> = rows.iter().skip(1).step_by(3).map(|row| (row.row_id, extent(1, 1, 0, 5))).collect();
    let others: Vec<_> = rows.iter().step_by(7).map(|row| (row.row_id, extent(2, 1, 0, 5))).collect();
    complete(catalogue, 1, &some);
    complete(catalogue, 2, &others);
}
