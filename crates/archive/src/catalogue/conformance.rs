//! What any engine has to do: one function a property, and [`conformance!`] that makes a test of each.
//!
//! A property gets a [`Place`]: somewhere a catalogue can be opened, closed and opened again.

use std::collections::BTreeSet;

use fulgurite_domain::{Digest, Geometry, Kind, Modified, ObjectName, ObjectRecord, PlatterId, SetId, SetShape, VersionId};

use super::*;

/// Where one catalogue is kept.
pub(crate) trait Place {
    /// Opens the catalogue, which is new and empty the first time.
    fn open(&self) -> Box<dyn Catalogue>;
}

/// Makes a test of each property. `$place` makes a new [`Place`].
macro_rules! conformance {
    ($place:expr) => {
        $crate::catalogue::conformance::conformance! { $place;
            a_new_catalogue_is_empty
            what_was_put_is_found_as_it_was
            the_latest_number_is_the_highest_of_the_name
            a_put_of_many_is_there_whole_or_not_at_all
            a_put_whose_places_leave_bytes_out_is_refused
            versions_of_a_name_come_newest_first
            listings_are_in_byte_order_whatever_the_bytes
            a_listing_gives_every_version_once_whatever_the_page
            a_listing_of_newest_gives_every_name_once_whatever_the_page
            a_name_of_ten_thousand_versions_is_one_row_of_newest
            a_listing_goes_on_after_a_row_that_was_deleted
            versions_of_one_number_are_all_listed
            totals_count_what_is_there
            the_oldest_staged_version_gives_the_age
            a_deleted_version_is_gone_and_its_tombstone_waits
            a_deletion_may_be_repeated
            a_key_is_never_used_again
            segments_are_in_use_while_something_is_staged_in_them
            a_set_is_known_while_it_is_written
            an_abandoned_set_leaves_everything_staged
            only_a_set_being_written_is_completed_or_abandoned
            a_complete_set_archives_its_versions
            an_extent_on_a_platter_of_another_set_is_refused
            an_object_without_bytes_is_archived_by_an_extent_of_none
            an_object_in_parts_stays_staged_until_the_last_part
            a_part_that_was_written_twice_counts_once
            a_version_deleted_while_its_set_is_written_is_passed_over
            tombstones_leave_staging_with_the_set
            versions_on_platters_are_those_with_an_extent_there
            platters_remember_their_health_and_store
            sets_are_in_order_of_writing
            adopting_twice_is_adopting_once
            a_version_adopted_from_platters_is_archived
            an_adopted_version_has_each_byte_once
            a_version_adopted_in_part_is_refused
            a_reopened_catalogue_has_all_that_was_committed
            a_failed_change_leaves_nothing
            a_sound_catalogue_passes_its_check
        }
    };
    ($place:expr; $($property:ident)*) => {
        $(
            #[test]
            fn $property() {
                $crate::catalogue::conformance::$property(&$place);
            }
        )*
    };
}
pub(crate) use conformance;

/// The version with this number, all of it made from `seed`, in one segment.
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
        },
        sealed: seed.is_multiple_of(2),
        stored_bytes: bytes,
        record_place: StagedPlace { segment: seed, offset: 64 + bytes, bytes: 100, crc64: seed.wrapping_mul(u64::MAX / 3) },
        data,
    }
}

pub(crate) fn set(seed: u8, platters: u8) -> SetDescription {
    SetDescription {
        id: SetId([seed; 16]),
        shape: SetShape { information: u16::from(platters) - 1, redundancy: 1 },
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

/// Completes a new set that brings these extents.
pub(crate) fn complete(catalogue: &mut dyn Catalogue, seed: u8, extents: &[(VersionKey, Extent)]) {
    catalogue.begin_set(&set(seed, 3)).expect("begun");
    let mut extents = extents.iter().map(|&(version, extent)| ArchivedExtent { version, extent });
    catalogue.complete_set(SetId([seed; 16]), &mut extents, &[], 77).expect("completed");
}

/// All rows of a listing, `page` at a time.
fn listed(catalogue: &mut dyn Catalogue, prefix: &[u8], versions: Versions, page: usize) -> Vec<VersionRow> {
    pages(page, |after| catalogue.list(prefix, versions, after, page).expect("listed"))
}

fn pages(page: usize, mut list: impl FnMut(Option<&After>) -> Vec<VersionRow>) -> Vec<VersionRow> {
    let mut all: Vec<VersionRow> = Vec::new();
    loop {
        let after = all.last().map(After::row);
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

pub(crate) fn a_new_catalogue_is_empty(place: &dyn Place) {
    let mut catalogue = place.open();
    assert_eq!(catalogue.totals().expect("counted"), Totals::default());
    assert_eq!(catalogue.latest_number(&ObjectName(b"x".to_vec())).expect("looked up"), None);
    assert!(catalogue.list(b"", Versions::All, None, 10).expect("listed").is_empty());
    assert!(catalogue.staged_versions(None, 10).expect("listed").is_empty());
    assert!(catalogue.staged_tombstones().expect("listed").is_empty());
    assert!(catalogue.segments_in_use().expect("listed").is_empty());
    assert!(catalogue.sets().expect("listed").is_empty());
    assert!(catalogue.platters().expect("listed").is_empty());
    assert_eq!(catalogue.set_of(platter(1, 1)).expect("looked up"), None);
    assert_eq!(catalogue.staged(VersionKey(1)).expect("looked up"), None);
    assert!(catalogue.extents(VersionKey(1)).expect("looked up").is_empty());
}

pub(crate) fn what_was_put_is_found_as_it_was(place: &dyn Place) {
    let mut catalogue = place.open();
    let mut put: Vec<NewVersion> = (1..=6).map(|seed| version(format!("a/{seed}"), seed, seed, 700 * seed)).collect();
    put.push(version(b"\x00\xff", i64::MAX as u64, 9, 0));
    put.push(version("", 1, 10, 1));
    catalogue.commit_put(&put).expect("put");
    for new in put {
        let row = only(&mut *catalogue, &new.record.name.0);
        let expected = VersionRow {
            key: row.key,
            id: new.id,
            record: new.record,
            sealed: new.sealed,
            stored_bytes: new.stored_bytes,
            archived: false,
        };
        assert_eq!(row, expected);
        assert_eq!(catalogue.staged(row.key).expect("looked up"), Some((new.record_place, new.data)));
        assert!(catalogue.extents(row.key).expect("looked up").is_empty());
    }
}

pub(crate) fn the_latest_number_is_the_highest_of_the_name(place: &dyn Place) {
    let mut catalogue = place.open();
    catalogue.commit_put(&[version("a", 3, 1, 5), version("a", 12, 2, 5), version("a", 7, 3, 5), version("ab", 99, 4, 5)]).expect("put");
    let latest = |catalogue: &mut dyn Catalogue, name: &[u8]| catalogue.latest_number(&ObjectName(name.to_vec())).expect("looked up");
    assert_eq!(latest(&mut *catalogue, b"a"), Some(12));
    assert_eq!(latest(&mut *catalogue, b"a\x00"), None);
    assert_eq!(latest(&mut *catalogue, b""), None);

    let rows = catalogue.versions_of(&ObjectName(b"a".to_vec())).expect("listed");
    complete(&mut *catalogue, 1, &[(rows[0].key, extent(1, 0, 0, 5))]);
    assert_eq!(latest(&mut *catalogue, b"a"), Some(12), "also when the newest is archived");
    catalogue.commit_put(&[version("a", 13, 5, 5)]).expect("put");
    assert_eq!(latest(&mut *catalogue, b"a"), Some(13), "also when the newest is staged");
}

pub(crate) fn a_put_of_many_is_there_whole_or_not_at_all(place: &dyn Place) {
    let mut catalogue = place.open();
    let mut broken = version("b", 1, 2, 5);
    broken.data.clear();
    catalogue.commit_put(&[version("a", 1, 1, 5), broken]).expect_err("not covered");
    assert_eq!(catalogue.totals().expect("counted"), Totals::default());
    assert!(catalogue.segments_in_use().expect("listed").is_empty());
    catalogue.commit_put(&[version("a", 1, 1, 5)]).expect("the same may be tried again");
    catalogue.commit_put(&[]).expect("nothing is fine");
}

pub(crate) fn a_put_whose_places_leave_bytes_out_is_refused(place: &dyn Place) {
    let mut catalogue = place.open();
    let good = version("a", 1, 1, 3_000);
    for broken in 0..4 {
        let mut new = good.clone();
        match broken {
            0 => drop(new.data.pop()),
            1 => drop(new.data.remove(1)),
            2 => new.data.swap(0, 1),
            _ => new.stored_bytes -= 1,
        }
        let refused = catalogue.commit_put(&[new]).expect_err("refused");
        assert!(matches!(refused, CatalogueError::Uncovered { id } if id == good.id), "{refused}");
    }
}

pub(crate) fn versions_of_a_name_come_newest_first(place: &dyn Place) {
    let mut catalogue = place.open();
    catalogue.commit_put(&[version("a", 2, 1, 5), version("a", 9, 2, 5), version("a", 4, 3, 5), version("b", 5, 4, 5)]).expect("put");
    let key = catalogue.versions_of(&ObjectName(b"a".to_vec())).expect("listed")[1].key;
    complete(&mut *catalogue, 1, &[(key, extent(1, 0, 0, 5))]);
    let rows = catalogue.versions_of(&ObjectName(b"a".to_vec())).expect("listed");
    assert_eq!(rows.iter().map(|row| (row.record.version, row.archived)).collect::<Vec<_>>(), [(9, false), (4, true), (2, false)]);
    assert!(catalogue.versions_of(&ObjectName(b"c".to_vec())).expect("listed").is_empty());
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

/// Three versions of each odd name, every third of which is archived.
fn put_odd_names(catalogue: &mut dyn Catalogue) {
    let mut put = Vec::new();
    for (i, name) in ODD_NAMES.iter().rev().enumerate() {
        for number in [2, 1, 3] {
            put.push(version(name, number, (i * 3) as u64 + number, 5));
        }
    }
    catalogue.commit_put(&put).expect("put");
    let rows = catalogue.staged_versions(None, 1_000).expect("listed");
    let some: Vec<_> = rows.iter().skip(1).step_by(3).map(|row| (row.key, extent(1, 1, 0, 5))).collect();
    let others: Vec<_> = rows.iter().step_by(7).map(|row| (row.key, extent(2, 1, 0, 5))).collect();
    complete(catalogue, 1, &some);
    complete(catalogue, 2, &others);
}

pub(crate) fn listings_are_in_byte_order_whatever_the_bytes(place: &dyn Place) {
    let mut catalogue = place.open();
    put_odd_names(&mut *catalogue);
    for prefix in ODD_NAMES.into_iter().chain([b"b".as_slice(), b"\xff\xff\xff", b"a\x00\x00"]) {
        let expected: Vec<Vec<u8>> = ODD_NAMES.iter().filter(|name| name.starts_with(prefix)).map(|name| name.to_vec()).collect();
        let found: Vec<Vec<u8>> = listed(&mut *catalogue, prefix, Versions::Newest, 100).into_iter().map(|row| row.record.name.0).collect();
        assert_eq!(found, expected, "{prefix:?}");
    }
}

pub(crate) fn a_listing_gives_every_version_once_whatever_the_page(place: &dyn Place) {
    let mut catalogue = place.open();
    put_odd_names(&mut *catalogue);
    for prefix in [b"".as_slice(), b"a", b"\x00", b"\xff", b"\xff\xff"] {
        let mut expected = Vec::new();
        for name in ODD_NAMES.iter().filter(|name| name.starts_with(prefix)) {
            expected.extend([3, 2, 1].map(|number| (name.to_vec(), number)));
        }
        for page in [1, 2, 3, 4, 5, 41, 42, 43] {
            assert_eq!(names(&listed(&mut *catalogue, prefix, Versions::All, page)), expected, "{prefix:?}, {page} a page");
        }
    }
    let staged = pages(2, |after| catalogue.staged_versions(after, 2).expect("listed"));
    let expected: Vec<_> = listed(&mut *catalogue, b"", Versions::All, 1_000).into_iter().filter(|row| !row.archived).collect();
    assert_eq!(staged, expected);
    assert!(catalogue.list(b"", Versions::All, None, 0).expect("listed").is_empty());
}

pub(crate) fn a_listing_of_newest_gives_every_name_once_whatever_the_page(place: &dyn Place) {
    let mut catalogue = place.open();
    put_odd_names(&mut *catalogue);
    for prefix in [b"".as_slice(), b"a", b"\x00", b"\xff", b"\xff\xff"] {
        let expected: Vec<_> = ODD_NAMES.iter().filter(|name| name.starts_with(prefix)).map(|name| (name.to_vec(), 3)).collect();
        for page in [1, 2, 3, 13, 14, 15] {
            assert_eq!(names(&listed(&mut *catalogue, prefix, Versions::Newest, page)), expected, "{prefix:?}, {page} a page");
        }
    }
    let before = After { name: ObjectName(b"A".to_vec()), version: 0, id: VersionId([0; 16]) };
    let found = catalogue.list(b"a", Versions::Newest, Some(&before), 1).expect("listed");
    assert_eq!(names(&found), [(b"a".to_vec(), 3)], "a page may go on from before the prefix");
    let behind = After { name: ObjectName(b"b".to_vec()), ..before };
    assert!(catalogue.list(b"a", Versions::Newest, Some(&behind), 1).expect("listed").is_empty());
}

pub(crate) fn a_name_of_ten_thousand_versions_is_one_row_of_newest(place: &dyn Place) {
    let mut catalogue = place.open();
    let mut put: Vec<_> = (1..=10_000).map(|number| version("m", number, number, 1)).collect();
    put.extend([version("a", 1, 1, 1), version("z", 1, 2, 1)]);
    catalogue.commit_put(&put).expect("put");
    let key = catalogue.list(b"m", Versions::Newest, None, 1).expect("listed")[0].key;
    complete(&mut *catalogue, 1, &[(key, extent(1, 0, 0, 1))]);

    let expected = [(b"a".to_vec(), 1), (b"m".to_vec(), 10_000), (b"z".to_vec(), 1)];
    for page in [1, 2, 3, 4] {
        assert_eq!(names(&listed(&mut *catalogue, b"", Versions::Newest, page)), expected);
    }
    let all = listed(&mut *catalogue, b"m", Versions::All, 999);
    assert_eq!(all.iter().map(|row| row.record.version).collect::<Vec<_>>(), (1..=10_000).rev().collect::<Vec<_>>());
}

pub(crate) fn a_listing_goes_on_after_a_row_that_was_deleted(place: &dyn Place) {
    let mut catalogue = place.open();
    catalogue.commit_put(&[version("a", 1, 1, 5), version("b", 1, 2, 5), version("b", 2, 3, 5), version("c", 1, 4, 5)]).expect("put");
    let page = catalogue.list(b"", Versions::All, None, 2).expect("listed");
    catalogue.commit_delete(&[page[1].key], &[]).expect("deleted");
    let rest = catalogue.list(b"", Versions::All, Some(&After::row(&page[1])), 10).expect("listed");
    assert_eq!(names(&rest), [(b"b".to_vec(), 1), (b"c".to_vec(), 1)]);
}

pub(crate) fn versions_of_one_number_are_all_listed(place: &dyn Place) {
    let mut catalogue = place.open();
    catalogue.commit_put(&[version("a", 1, 1, 5), version("a", 1, 2, 5), version("a", 1, 3, 5), version("b", 1, 4, 5)]).expect("put");
    let key = catalogue.versions_of(&ObjectName(b"a".to_vec())).expect("listed")[1].key;
    complete(&mut *catalogue, 1, &[(key, extent(1, 0, 0, 5))]);
    for page in 1..5 {
        let rows = listed(&mut *catalogue, b"", Versions::All, page);
        assert_eq!(rows.iter().map(|row| row.record.created_ms).collect::<Vec<_>>(), [1_003, 1_002, 1_001, 1_004], "{page} a page");
        let newest = listed(&mut *catalogue, b"", Versions::Newest, page);
        assert_eq!(newest.iter().map(|row| row.record.created_ms).collect::<Vec<_>>(), [1_003, 1_004]);
    }
}

pub(crate) fn totals_count_what_is_there(place: &dyn Place) {
    let mut catalogue = place.open();
    catalogue.commit_put(&[version("a", 1, 1, 10), version("a", 2, 2, 20), version("b", 1, 3, 40)]).expect("put");
    let staged = StagedTotals { versions: 3, stored_bytes: 70, tombstones: 0, oldest_ms: Some(1_001) };
    assert_eq!(catalogue.staged_totals().expect("counted"), staged);
    assert_eq!(catalogue.totals().expect("counted"), Totals { objects: 2, versions: 3, content_bytes: 70, staged });

    let first = catalogue.versions_of(&ObjectName(b"a".to_vec())).expect("listed")[1].key;
    complete(&mut *catalogue, 1, &[(first, extent(1, 0, 0, 10))]);
    let staged = StagedTotals { versions: 2, stored_bytes: 60, tombstones: 0, oldest_ms: Some(1_002) };
    assert_eq!(catalogue.totals().expect("counted"), Totals { objects: 2, versions: 3, content_bytes: 70, staged });

    let b = only(&mut *catalogue, "b");
    catalogue.commit_delete(&[b.key, first], &[StagedTombstone { id: b.id, segment: 9 }]).expect("deleted");
    let staged = StagedTotals { versions: 1, stored_bytes: 20, tombstones: 1, oldest_ms: Some(1_002) };
    assert_eq!(catalogue.totals().expect("counted"), Totals { objects: 1, versions: 1, content_bytes: 20, staged });
}

pub(crate) fn the_oldest_staged_version_gives_the_age(place: &dyn Place) {
    let mut catalogue = place.open();
    catalogue.commit_put(&[version("a", 1, 30, 5), version("b", 1, 10, 5), version("c", 1, 20, 5)]).expect("put");
    for (name, oldest) in [("b", Some(1_020)), ("a", Some(1_020)), ("c", None)] {
        let key = only(&mut *catalogue, name).key;
        catalogue.commit_delete(&[key], &[]).expect("deleted");
        assert_eq!(catalogue.staged_totals().expect("counted").oldest_ms, oldest, "without {name}");
    }
}

pub(crate) fn a_deleted_version_is_gone_and_its_tombstone_waits(place: &dyn Place) {
    let mut catalogue = place.open();
    catalogue.commit_put(&[version("a", 1, 1, 2_500), version("a", 2, 2, 5)]).expect("put");
    let rows = catalogue.versions_of(&ObjectName(b"a".to_vec())).expect("listed");
    complete(&mut *catalogue, 1, &[(rows[0].key, extent(1, 0, 0, 5))]);
    let tombstones: Vec<_> = rows.iter().map(|row| StagedTombstone { id: row.id, segment: 40 }).collect();
    catalogue.commit_delete(&[rows[0].key, rows[1].key], &tombstones).expect("deleted");

    assert!(catalogue.versions_of(&ObjectName(b"a".to_vec())).expect("listed").is_empty());
    for row in &rows {
        assert_eq!(catalogue.staged(row.key).expect("looked up"), None);
        assert!(catalogue.extents(row.key).expect("looked up").is_empty());
    }
    let waiting: BTreeSet<_> = catalogue.staged_tombstones().expect("listed").into_iter().map(|t| (t.id, t.segment)).collect();
    assert_eq!(waiting, rows.iter().map(|row| (row.id, 40)).collect());
    assert!(catalogue.versions_on(&[platter(1, 0)], None, 10).expect("listed").is_empty());
    assert_eq!(catalogue.segments_in_use().expect("listed"), [40]);
}

pub(crate) fn a_deletion_may_be_repeated(place: &dyn Place) {
    let mut catalogue = place.open();
    catalogue.commit_put(&[version("a", 1, 1, 5), version("b", 1, 2, 5)]).expect("put");
    let row = only(&mut *catalogue, "a");
    for _ in 0..2 {
        catalogue.commit_delete(&[row.key, VersionKey(999)], &[StagedTombstone { id: row.id, segment: 7 }]).expect("deleted");
    }
    let totals = catalogue.totals().expect("counted");
    assert_eq!((totals.objects, totals.versions, totals.staged.tombstones), (1, 1, 1));
    catalogue.check().expect("sound");
}

pub(crate) fn a_key_is_never_used_again(place: &dyn Place) {
    let mut catalogue = place.open();
    let mut seen = BTreeSet::new();
    for seed in 1..5 {
        catalogue.commit_put(&[version("a", 1, seed, 5)]).expect("put");
        let key = only(&mut *catalogue, "a").key;
        assert!(seen.insert(key), "{key:?} was another version's");
        catalogue.commit_delete(&[key], &[]).expect("deleted");
        drop(catalogue);
        catalogue = place.open();
    }
}

pub(crate) fn segments_are_in_use_while_something_is_staged_in_them(place: &dyn Place) {
    let mut catalogue = place.open();
    let mut spread = version("a", 1, 4, 3_000);
    spread.data[0].place.segment = 2;
    spread.data[1].place.segment = 3;
    catalogue.commit_put(&[spread, version("b", 1, 3, 5)]).expect("put");
    assert_eq!(catalogue.segments_in_use().expect("listed"), [2, 3, 4]);
    let (a, b) = (only(&mut *catalogue, "a"), only(&mut *catalogue, "b"));
    catalogue.commit_delete(&[a.key], &[StagedTombstone { id: a.id, segment: 4 }]).expect("deleted");
    assert_eq!(catalogue.segments_in_use().expect("listed"), [3, 4]);
    complete(&mut *catalogue, 1, &[(b.key, extent(1, 0, 0, 5))]);
    assert_eq!(catalogue.segments_in_use().expect("listed"), [4]);
    catalogue.adopt_tombstones(&[StagedTombstone { id: b.id, segment: i64::MAX as u64 }]).expect("adopted");
    assert_eq!(catalogue.segments_in_use().expect("listed"), [4, i64::MAX as u64]);
}

pub(crate) fn a_set_is_known_while_it_is_written(place: &dyn Place) {
    let mut catalogue = place.open();
    let described = set(1, 4);
    catalogue.begin_set(&described).expect("begun");
    let row = SetRow { description: described.clone(), state: SetState::Writing };
    assert_eq!(catalogue.sets().expect("listed"), std::slice::from_ref(&row));
    assert_eq!(catalogue.set_of(platter(1, 3)).expect("looked up"), Some(row));
    assert_eq!(catalogue.set_of(platter(2, 3)).expect("looked up"), None);
    let expected: Vec<_> = (0..)
        .zip(&described.platters)
        .map(|(position, place)| PlatterRow {
            place: place.clone(),
            set: described.id,
            position,
            state: SetState::Writing,
            health: Health::default(),
        })
        .collect();
    assert_eq!(catalogue.platters().expect("listed"), expected);
    catalogue.begin_set(&described).expect_err("a set is begun once");
}

pub(crate) fn an_abandoned_set_leaves_everything_staged(place: &dyn Place) {
    let mut catalogue = place.open();
    catalogue.commit_put(&[version("a", 1, 1, 5)]).expect("put");
    let before = catalogue.totals().expect("counted");
    catalogue.begin_set(&set(1, 3)).expect("begun");
    catalogue.abandon_set(SetId([1; 16])).expect("abandoned");
    assert!(catalogue.sets().expect("listed").is_empty());
    assert!(catalogue.platters().expect("listed").is_empty());
    assert_eq!(catalogue.totals().expect("counted"), before);
    assert!(!only(&mut *catalogue, "a").archived);
    catalogue.begin_set(&set(1, 3)).expect("the same set may be begun again");
}

pub(crate) fn only_a_set_being_written_is_completed_or_abandoned(place: &dyn Place) {
    let mut catalogue = place.open();
    let id = SetId([1; 16]);
    let not_writing =
        |result: Result<(), CatalogueError>| assert!(matches!(result, Err(CatalogueError::SetNotWriting { set }) if set == id));
    not_writing(catalogue.abandon_set(id));
    not_writing(catalogue.complete_set(id, &mut std::iter::empty(), &[], 5));
    complete(&mut *catalogue, 1, &[]);
    not_writing(catalogue.abandon_set(id));
    not_writing(catalogue.complete_set(id, &mut std::iter::empty(), &[], 5));
    assert_eq!(catalogue.sets().expect("listed")[0].state, SetState::Complete);
}

pub(crate) fn a_complete_set_archives_its_versions(place: &dyn Place) {
    let mut catalogue = place.open();
    catalogue.commit_put(&[version("a", 1, 1, 2_500), version("b", 1, 2, 5), version("c", 1, 3, 5)]).expect("put");
    let (a, b) = (only(&mut *catalogue, "a").key, only(&mut *catalogue, "b").key);
    let parts = [extent(1, 1, 1_000, 1_500), extent(1, 0, 0, 1_000)];
    complete(&mut *catalogue, 1, &[(a, parts[0]), (b, extent(1, 0, 0, 5)), (a, parts[1])]);

    assert!(only(&mut *catalogue, "a").archived && only(&mut *catalogue, "b").archived && !only(&mut *catalogue, "c").archived);
    assert_eq!(catalogue.extents(a).expect("looked up"), [parts[1], parts[0]]);
    assert_eq!(catalogue.staged(a).expect("looked up"), None);
    assert_eq!(names(&catalogue.staged_versions(None, 10).expect("listed")), [(b"c".to_vec(), 1)]);
    assert_eq!(catalogue.segments_in_use().expect("listed"), [3]);
    assert_eq!(catalogue.sets().expect("listed")[0].state, SetState::Complete);
    let health = Health { verified: Some(77), ..Health::default() };
    assert!(catalogue.platters().expect("listed").iter().all(|row| row.health == health && row.state == SetState::Complete));
    catalogue.check().expect("sound");
}

pub(crate) fn an_extent_on_a_platter_of_another_set_is_refused(place: &dyn Place) {
    let mut catalogue = place.open();
    catalogue.commit_put(&[version("a", 1, 1, 5), version("b", 1, 2, 5)]).expect("put");
    catalogue.begin_set(&set(1, 3)).expect("begun");
    catalogue.begin_set(&set(2, 3)).expect("begun");
    let (a, b) = (only(&mut *catalogue, "a").key, only(&mut *catalogue, "b").key);
    let mut extents =
        [(a, extent(1, 0, 0, 5)), (b, extent(2, 0, 0, 5))].into_iter().map(|(version, extent)| ArchivedExtent { version, extent });
    let refused = catalogue.complete_set(SetId([1; 16]), &mut extents, &[], 5).expect_err("refused");
    assert!(matches!(refused, CatalogueError::UnknownPlatter { platter: found } if found == platter(2, 0)), "{refused}");
    assert!(!only(&mut *catalogue, "a").archived, "nothing of it was kept");
    assert!(catalogue.sets().expect("listed").iter().all(|row| row.state == SetState::Writing));
}

pub(crate) fn an_object_without_bytes_is_archived_by_an_extent_of_none(place: &dyn Place) {
    let mut catalogue = place.open();
    catalogue.commit_put(&[version("a", 1, 1, 0), version("b", 1, 2, 0)]).expect("put");
    let key = only(&mut *catalogue, "a").key;
    complete(&mut *catalogue, 1, &[(key, extent(1, 0, 0, 0))]);
    assert!(only(&mut *catalogue, "a").archived && !only(&mut *catalogue, "b").archived);
    assert_eq!(catalogue.extents(key).expect("looked up"), [extent(1, 0, 0, 0)]);
    assert_eq!(names(&catalogue.versions_on(&[platter(1, 0)], None, 10).expect("listed")), [(b"a".to_vec(), 1)]);
    catalogue.check().expect("sound");
}

pub(crate) fn an_object_in_parts_stays_staged_until_the_last_part(place: &dyn Place) {
    let mut catalogue = place.open();
    let new = version("a", 1, 1, 3_000);
    catalogue.commit_put(std::slice::from_ref(&new)).expect("put");
    let key = only(&mut *catalogue, "a").key;
    complete(&mut *catalogue, 1, &[(key, extent(1, 0, 2_000, 1_000))]);
    complete(&mut *catalogue, 2, &[(key, extent(2, 0, 0, 1_000))]);
    catalogue.begin_set(&set(3, 3)).expect("begun");
    catalogue.abandon_set(SetId([3; 16])).expect("abandoned");

    assert!(!only(&mut *catalogue, "a").archived);
    assert_eq!(catalogue.staged(key).expect("looked up"), Some((new.record_place, new.data)), "all of it is still staged");
    assert_eq!(
        catalogue.extents(key).expect("looked up"),
        [extent(2, 0, 0, 1_000), extent(1, 0, 2_000, 1_000)],
        "what has been done is known"
    );
    assert_eq!(catalogue.staged_totals().expect("counted").stored_bytes, 3_000);
    catalogue.check().expect("sound");

    complete(&mut *catalogue, 4, &[(key, extent(4, 1, 1_000, 1_000))]);
    assert!(only(&mut *catalogue, "a").archived);
    let extents = [extent(2, 0, 0, 1_000), extent(4, 1, 1_000, 1_000), extent(1, 0, 2_000, 1_000)];
    assert_eq!(catalogue.extents(key).expect("looked up"), extents);
    assert_eq!(catalogue.staged(key).expect("looked up"), None);
    assert_eq!(catalogue.staged_totals().expect("counted"), StagedTotals::default());
    catalogue.check().expect("sound");
}

pub(crate) fn a_part_that_was_written_twice_counts_once(place: &dyn Place) {
    let mut catalogue = place.open();
    catalogue.commit_put(&[version("a", 1, 1, 3_000), version("b", 1, 2, 3_000)]).expect("put");
    let (a, b) = (only(&mut *catalogue, "a").key, only(&mut *catalogue, "b").key);
    complete(&mut *catalogue, 1, &[(a, extent(1, 0, 0, 2_000)), (b, extent(1, 1, 0, 2_000))]);
    complete(&mut *catalogue, 2, &[(a, extent(2, 0, 0, 1_000))]);
    assert!(!only(&mut *catalogue, "a").archived, "3,000 bytes in all, but not the last 1,000");

    complete(&mut *catalogue, 3, &[(a, extent(3, 0, 1_000, 2_000)), (b, extent(3, 1, 0, 3_000))]);
    assert_eq!(catalogue.extents(b).expect("looked up"), [extent(3, 1, 0, 3_000)], "whole on one platter");
    let mut end = 0;
    for extent in catalogue.extents(a).expect("looked up") {
        assert_eq!(extent.object_offset, end);
        assert_eq!(extent.offset, 50_000 + extent.object_offset, "a part that is cut begins further in");
        end += extent.bytes;
    }
    assert_eq!(end, 3_000);

    complete(&mut *catalogue, 4, &[(b, extent(4, 0, 0, 3_000))]);
    assert_eq!(catalogue.extents(b).expect("looked up"), [extent(3, 1, 0, 3_000)], "what is archived stays where it is");
    catalogue.check().expect("sound");
}

pub(crate) fn a_version_deleted_while_its_set_is_written_is_passed_over(place: &dyn Place) {
    let mut catalogue = place.open();
    catalogue.commit_put(&[version("a", 1, 1, 5), version("b", 1, 2, 5), version("c", 1, 3, 2_000)]).expect("put");
    let keys = ["a", "b", "c"].map(|name| only(&mut *catalogue, name).key);
    catalogue.begin_set(&set(1, 3)).expect("begun");
    catalogue.commit_delete(&[keys[1], keys[2]], &[]).expect("deleted");
    catalogue.commit_put(&[version("d", 1, 4, 5)]).expect("put");
    let extents = [extent(1, 0, 0, 5), extent(1, 1, 0, 5), extent(1, 1, 0, 1_000), extent(1, 0, 1_000, 1_000)];
    let mut extents =
        [keys[0], keys[1], keys[2], keys[2]].into_iter().zip(extents).map(|(version, extent)| ArchivedExtent { version, extent });
    catalogue.complete_set(SetId([1; 16]), &mut extents, &[], 5).expect("completed");
    assert_eq!(names(&listed(&mut *catalogue, b"", Versions::All, 10)), [(b"a".to_vec(), 1), (b"d".to_vec(), 1)]);
    assert!(only(&mut *catalogue, "a").archived && !only(&mut *catalogue, "d").archived);
    assert!(catalogue.extents(keys[1]).expect("looked up").is_empty());
    catalogue.check().expect("sound");
}

pub(crate) fn tombstones_leave_staging_with_the_set(place: &dyn Place) {
    let mut catalogue = place.open();
    let tombstones = [1, 2, 3].map(|seed| StagedTombstone { id: VersionId([seed; 16]), segment: seed.into() });
    catalogue.commit_delete(&[], &tombstones).expect("deleted");
    catalogue.begin_set(&set(1, 3)).expect("begun");
    let written = [tombstones[0].id, tombstones[2].id, VersionId([9; 16])];
    catalogue.complete_set(SetId([1; 16]), &mut std::iter::empty(), &written, 5).expect("completed");
    assert_eq!(catalogue.staged_tombstones().expect("listed"), [tombstones[1]]);
    assert_eq!(catalogue.staged_totals().expect("counted").tombstones, 1);
    assert_eq!(catalogue.segments_in_use().expect("listed"), [2]);
}

pub(crate) fn versions_on_platters_are_those_with_an_extent_there(place: &dyn Place) {
    let mut catalogue = place.open();
    let put: Vec<_> = (0..20).map(|i| version([b"zyxabc"[i as usize % 6]], i + 1, i, 2_000)).collect();
    catalogue.commit_put(&put).expect("put");
    let rows = catalogue.staged_versions(None, 100).expect("listed");
    let mut extents = Vec::new();
    for (i, row) in rows.iter().take(15).enumerate() {
        extents.push((row.key, extent(1, (i % 2) as u8, 0, 1_000)));
        extents.push((row.key, extent(1, u8::from(i % 5 == 0), 1_000, 1_000)));
    }
    complete(&mut *catalogue, 1, &extents);
    let rows = listed(&mut *catalogue, b"", Versions::All, 100);
    for wanted in [&[platter(1, 0)][..], &[platter(1, 1)], &[platter(1, 1), platter(1, 0)], &[platter(1, 2)]] {
        let expected: Vec<_> = rows
            .iter()
            .filter(|row| catalogue.extents(row.key).expect("looked up").iter().any(|extent| wanted.contains(&extent.platter)))
            .cloned()
            .collect();
        for page in [1, 4, 100] {
            let found = pages(page, |after| catalogue.versions_on(wanted, after, page).expect("listed"));
            assert_eq!(found, expected, "{wanted:?}, {page} a page");
        }
    }
    let after = After::row(&rows[0]);
    let wanted = [platter(1, 0), platter(1, 1)];
    let page = catalogue.versions_on(&wanted, Some(&after), 1).expect("listed");
    assert_eq!(page, [rows[1].clone()], "also without a page before");
    catalogue.commit_delete(&[rows[2].key], &[]).expect("deleted");
    let page = catalogue.versions_on(&wanted, Some(&After::row(&rows[1])), 1).expect("listed");
    assert_eq!(page, [rows[3].clone()], "without what was deleted since");
}

pub(crate) fn platters_remember_their_health_and_store(place: &dyn Place) {
    let mut catalogue = place.open();
    complete(&mut *catalogue, 1, &[]);
    let health = Health { verified: Some(99), missing: true, lost_sectors: 1 << 40, lost_tracks: u32::MAX };
    catalogue.record_health(platter(1, 1), health).expect("recorded");
    catalogue.move_platter(platter(1, 1), "attic").expect("recorded");
    let rows = catalogue.platters().expect("listed");
    assert_eq!((rows[1].health, rows[1].place.store.as_str()), (health, "attic"));
    assert_eq!(rows[0].health, Health { verified: Some(77), ..Health::default() });
    assert_eq!(catalogue.sets().expect("listed")[0].description.platters[1].store, "attic");
    let unknown = platter(9, 9);
    for result in [catalogue.record_health(unknown, health), catalogue.move_platter(unknown, "attic")] {
        assert!(matches!(result, Err(CatalogueError::UnknownPlatter { platter }) if platter == unknown));
    }
}

pub(crate) fn sets_are_in_order_of_writing(place: &dyn Place) {
    let mut catalogue = place.open();
    for seed in [5, 2, 9] {
        catalogue.adopt_set(&set(seed, 3)).expect("adopted");
    }
    catalogue.begin_set(&set(1, 3)).expect("begun");
    let order: Vec<_> = catalogue.sets().expect("listed").iter().map(|row| row.description.id.0[0]).collect();
    assert_eq!(order, [1, 2, 5, 9]);
    let order: Vec<_> = catalogue.platters().expect("listed").iter().map(|row| (row.set.0[0], row.position)).collect();
    assert_eq!(order, [1, 2, 5, 9].iter().flat_map(|&set| (0..3).map(move |position| (set, position))).collect::<Vec<_>>());
}

fn found(seed: u64, extents: Vec<Extent>) -> FoundVersion {
    let new = version(format!("found/{seed}"), seed, seed, 3_000);
    FoundVersion::Archived { id: new.id, record: new.record, sealed: new.sealed, stored_bytes: new.stored_bytes, extents }
}

pub(crate) fn adopting_twice_is_adopting_once(place: &dyn Place) {
    let mut catalogue = place.open();
    catalogue.begin_set(&set(2, 3)).expect("begun");
    let versions = [
        found(1, vec![extent(1, 0, 0, 3_000)]),
        FoundVersion::Staged(version("found/1", 1, 1, 3_000)),
        FoundVersion::Staged(version("s", 1, 2, 10)),
        FoundVersion::Archived {
            id: version("s", 1, 2, 10).id,
            record: version("s", 1, 2, 10).record,
            sealed: true,
            stored_bytes: 10,
            extents: vec![extent(1, 0, 0, 10)],
        },
    ];
    let tombstones = [StagedTombstone { id: VersionId([3; 16]), segment: 8 }];
    let mut after_once = None;
    for _ in 0..2 {
        for seed in [1, 2] {
            catalogue.adopt_set(&set(seed, 3)).expect("adopted");
        }
        catalogue.adopt_versions(&versions).expect("adopted");
        catalogue.adopt_tombstones(&tombstones).expect("adopted");
        let now = (
            catalogue.sets().expect("listed"),
            listed(&mut *catalogue, b"", Versions::All, 10),
            catalogue.totals().expect("counted"),
            catalogue.segments_in_use().expect("listed"),
            catalogue.staged_tombstones().expect("listed"),
        );
        assert!(now.0.iter().all(|row| row.state == SetState::Complete) && now.0.len() == 2);
        assert_eq!(now.1.iter().map(|row| row.archived).collect::<Vec<_>>(), [true, false], "the first find counts");
        assert_eq!(*after_once.get_or_insert_with(|| now.clone()), now);
    }
    catalogue.check().expect("sound");
}

pub(crate) fn a_version_adopted_from_platters_is_archived(place: &dyn Place) {
    let mut catalogue = place.open();
    catalogue.adopt_set(&set(1, 3)).expect("adopted");
    catalogue.adopt_versions(&[found(4, vec![extent(1, 1, 1_000, 2_000), extent(1, 0, 0, 1_000)])]).expect("adopted");
    let row = only(&mut *catalogue, "found/4");
    let new = version("found/4", 4, 4, 3_000);
    let expected = VersionRow { key: row.key, id: new.id, record: new.record, sealed: new.sealed, stored_bytes: 3_000, archived: true };
    assert_eq!(row, expected);
    assert_eq!(catalogue.extents(row.key).expect("looked up"), [extent(1, 0, 0, 1_000), extent(1, 1, 1_000, 2_000)]);
    assert_eq!(catalogue.staged_totals().expect("counted"), StagedTotals::default());
    assert_eq!(names(&catalogue.versions_on(&[platter(1, 1)], None, 5).expect("listed")), [(b"found/4".to_vec(), 4)]);
}

pub(crate) fn an_adopted_version_has_each_byte_once(place: &dyn Place) {
    let mut catalogue = place.open();
    catalogue.adopt_set(&set(1, 3)).expect("adopted");
    catalogue.adopt_set(&set(2, 3)).expect("adopted");
    let twice = vec![extent(1, 0, 0, 1_000), extent(2, 0, 0, 3_000), extent(1, 1, 1_000, 2_000)];
    catalogue.adopt_versions(&[found(1, twice)]).expect("adopted");
    let key = only(&mut *catalogue, "found/1").key;
    assert_eq!(catalogue.extents(key).expect("looked up"), [extent(2, 0, 0, 3_000)]);
}

pub(crate) fn a_version_adopted_in_part_is_refused(place: &dyn Place) {
    let mut catalogue = place.open();
    catalogue.adopt_set(&set(1, 3)).expect("adopted");
    for extents in [vec![], vec![extent(1, 0, 0, 2_999)], vec![extent(1, 0, 0, 1_000), extent(1, 0, 1_001, 1_999)]] {
        let refused = catalogue.adopt_versions(&[found(2, vec![extent(1, 0, 0, 3_000)]), found(1, extents)]).expect_err("refused");
        assert!(matches!(refused, CatalogueError::Uncovered { .. }), "{refused}");
    }
    let unknown = catalogue.adopt_versions(&[found(1, vec![extent(7, 0, 0, 3_000)])]).expect_err("refused");
    assert!(matches!(unknown, CatalogueError::UnknownPlatter { .. }), "{unknown}");
    assert_eq!(catalogue.totals().expect("counted"), Totals::default());
}

pub(crate) fn a_reopened_catalogue_has_all_that_was_committed(place: &dyn Place) {
    let mut catalogue = place.open();
    put_odd_names(&mut *catalogue);
    let state = |catalogue: &mut dyn Catalogue| {
        (
            listed(catalogue, b"", Versions::All, 10),
            catalogue.totals().expect("counted"),
            catalogue.sets().expect("listed"),
            catalogue.platters().expect("listed"),
            catalogue.segments_in_use().expect("listed"),
        )
    };
    let before = state(&mut *catalogue);
    drop(catalogue);
    let mut catalogue = place.open();
    assert_eq!(state(&mut *catalogue), before);
    catalogue.check().expect("sound");
}

pub(crate) fn a_failed_change_leaves_nothing(place: &dyn Place) {
    let mut catalogue = place.open();
    catalogue.commit_put(&[version("a", 1, 1, 5)]).expect("put");
    let before = catalogue.totals().expect("counted");
    let mut too_large = version("b", 2, 3, 5);
    too_large.record.version = u64::MAX;
    catalogue.commit_put(&[version("b", 1, 2, 5), too_large]).expect_err("a number too large");
    catalogue.commit_put(&[version("b", 1, 2, 5), version("b", 1, 2, 5)]).expect_err("the same version twice");
    assert_eq!(catalogue.totals().expect("counted"), before);
    assert_eq!(catalogue.segments_in_use().expect("listed"), [1]);
    catalogue.check().expect("sound");
    catalogue.commit_put(&[version("b", 1, 2, 5)]).expect("the catalogue goes on working");
}

pub(crate) fn a_sound_catalogue_passes_its_check(place: &dyn Place) {
    let mut catalogue = place.open();
    catalogue.check().expect("sound when empty");
    put_odd_names(&mut *catalogue);
    catalogue.adopt_tombstones(&[StagedTombstone { id: VersionId([1; 16]), segment: 2 }]).expect("adopted");
    catalogue.check().expect("sound with something in it");
    let keys: Vec<_> = listed(&mut *catalogue, b"", Versions::All, 100).iter().map(|row| row.key).collect();
    catalogue.commit_delete(&keys, &[]).expect("deleted");
    catalogue.check().expect("sound when everything is deleted");
    assert_eq!(catalogue.totals().expect("counted").objects, 0);
}
