//! Properties of puts, lookups of versions, deletions, counts, segments, and reopening.

use std::collections::BTreeSet;

use super::*;

pub(crate) fn a_new_catalogue_is_empty(fixture: &dyn Fixture) {
    let mut catalogue = fixture.open();
    assert_eq!(catalogue.totals().expect("counted"), Totals::default());
    assert_eq!(catalogue.latest_number(&ObjectName(b"x".to_vec())).expect("looked up"), None);
    assert!(catalogue.list(b"", Versions::All, None, 10).expect("listed").is_empty());
    assert!(catalogue.staged_versions(None, 10).expect("listed").is_empty());
    assert!(catalogue.staged_tombstones().expect("listed").is_empty());
    assert!(catalogue.segments_in_use().expect("listed").is_empty());
    assert!(catalogue.sets().expect("listed").is_empty());
    assert!(catalogue.platters().expect("listed").is_empty());
    assert_eq!(catalogue.set_of(platter(1, 1)).expect("looked up"), None);
    assert_eq!(catalogue.staged(VersionRowId(1)).expect("looked up"), None);
    assert!(catalogue.extents(VersionRowId(1)).expect("looked up").is_empty());
}

pub(crate) fn what_was_put_is_found_as_it_was(fixture: &dyn Fixture) {
    let mut catalogue = fixture.open();
    let mut put: Vec<NewVersion> = (1..=6).map(|seed| version(format!("a/{seed}"), seed, seed, 700 * seed)).collect();
    put.push(version(b"\x00\xff", i64::MAX as u64, 9, 0));
    put.push(version("", 1, 10, 1));
    catalogue.commit_put(&put).expect("put");
    for new in put {
        let row = only(&mut *catalogue, &new.record.name.0);
        let expected = VersionRow {
            row_id: row.row_id,
            id: new.id,
            record: new.record,
            sealed: new.sealed,
            stored_bytes: new.stored_bytes,
            archived: false,
        };
        assert_eq!(row, expected);
        assert_eq!(catalogue.staged(row.row_id).expect("looked up"), Some((new.record_place, new.data)));
        assert!(catalogue.extents(row.row_id).expect("looked up").is_empty());
    }
}

pub(crate) fn attributes_and_deletion_markers_stay_as_they_were(fixture: &dyn Fixture) {
    let mut catalogue = fixture.open();
    let mut put: Vec<NewVersion> = (1..=40).map(|seed| version(format!("{seed:02}"), 1, seed, 5)).collect();
    put.extend((1..=10).map(|seed| marker(format!("{seed:02}"), 2, 40 + seed)));
    put.sort_by(|a, b| (&a.record.name, b.record.version).cmp(&(&b.record.name, a.record.version)));
    catalogue.commit_put(&put).expect("put");
    let records: Vec<_> = put.iter().map(|new| new.record.clone()).collect();
    let of = |rows: Vec<VersionRow>| rows.into_iter().map(|row| row.record).collect::<Vec<_>>();
    assert_eq!(of(catalogue.staged_versions(None, 100).expect("listed")), records);

    let rows = catalogue.staged_versions(None, 100).expect("listed");
    let extents: Vec<_> = rows.iter().map(|row| (row.row_id, extent(1, 0, 0, row.stored_bytes))).collect();
    complete(&mut *catalogue, 1, &extents[..30]);
    drop(catalogue);
    let mut catalogue = fixture.open();
    assert_eq!(of(listed(&mut *catalogue, b"", Versions::All, 7)), records);
    assert_eq!(of(catalogue.versions_on(&[platter(1, 0)], None, 100).expect("listed")), records[..30]);
    for record in &records {
        assert!(of(catalogue.versions_of(&record.name).expect("listed")).contains(record));
    }
    assert!(catalogue.extents(rows[0].row_id).expect("looked up").len() == 1, "a marker on a platter has one empty extent");
    catalogue.check().expect("sound");
}

pub(crate) fn the_null_version_of_a_name_is_found_wherever_it_is(fixture: &dyn Fixture) {
    // A record encodes the attribute that marks a null version as these bytes. As the value of
    // another attribute they mean nothing: an index that searched for them anywhere would find the
    // wrong versions.
    const DECOY: &str = "dnull@";
    // Further attributes beside "etag" and "null". An index has to skip the head of the encoded
    // map, which has one byte for up to 23 attributes, two for up to 255, and three for 256.
    const MORE: [usize; 3] = [0, 30, Attributes::COUNT_MAX - 2];
    let mut catalogue = fixture.open();
    let name = |name: &str| ObjectName(name.as_bytes().to_vec());
    let put = |name: &str, number: u64, etag: Option<&str>, is_null: bool, more: usize| {
        let mut new = version(name, number, number, 0);
        new.record.attributes = Attributes::default();
        if let Some(etag) = etag {
            new.record.attributes.set("etag", etag);
        }
        if is_null {
            new.record.attributes.set(NULL, "");
        }
        (0..more).for_each(|index| new.record.attributes.set(format!("meta-{index}"), DECOY));
        new
    };
    let etag = "a".repeat(32);
    let etags = [None, Some(etag.clone()), Some(format!("{etag}-1")), Some(format!("{etag}-10000"))];
    let mut named = 0;
    for at in [1, 2, 7, 12] {
        for (more, etag) in MORE.into_iter().flat_map(|more| etags.iter().map(move |etag| (more, etag.as_deref()))) {
            named += 1;
            let one = format!("n{named}");
            let versions: Vec<_> = (1..=12).map(|number| put(&one, number, etag, number == at, more)).collect();
            catalogue.commit_put(&versions).expect("put");
            let found = catalogue.null_version(&name(&one)).expect("looked up").expect("there is one");
            assert_eq!((found.record.version, &found.record), (at, &versions[at as usize - 1].record), "{one}: {more} more, {etag:?}");
        }
    }
    catalogue.commit_put(&(1..=5).map(|number| put("none", number, Some(&etag), false, 2)).collect::<Vec<_>>()).expect("put");
    assert_eq!(catalogue.null_version(&name("none")).expect("looked up"), None);
    assert_eq!(catalogue.null_version(&name("n")).expect("looked up"), None);
    let rows = catalogue.versions_of(&name("n1")).expect("listed");
    complete(&mut *catalogue, 1, &rows.iter().map(|row| (row.row_id, extent(1, 0, 0, 0))).collect::<Vec<_>>());
    let archived = catalogue.null_version(&name("n1")).expect("looked up").expect("there is one");
    assert!(archived.archived && archived.record.version == 1);
}

pub(crate) fn the_latest_number_is_the_highest_of_the_name(fixture: &dyn Fixture) {
    let mut catalogue = fixture.open();
    catalogue.commit_put(&[version("a", 3, 1, 5), version("a", 12, 2, 5), version("a", 7, 3, 5), version("ab", 99, 4, 5)]).expect("put");
    let latest = |catalogue: &mut dyn Catalogue, name: &[u8]| catalogue.latest_number(&ObjectName(name.to_vec())).expect("looked up");
    assert_eq!(latest(&mut *catalogue, b"a"), Some(12));
    assert_eq!(latest(&mut *catalogue, b"a\x00"), None);
    assert_eq!(latest(&mut *catalogue, b""), None);

    let rows = catalogue.versions_of(&ObjectName(b"a".to_vec())).expect("listed");
    complete(&mut *catalogue, 1, &[(rows[0].row_id, extent(1, 0, 0, 5))]);
    assert_eq!(latest(&mut *catalogue, b"a"), Some(12), "counts an archived version");
    catalogue.commit_put(&[version("a", 13, 5, 5)]).expect("put");
    assert_eq!(latest(&mut *catalogue, b"a"), Some(13), "counts a staged version");
}

pub(crate) fn the_latest_number_counts_unlisted_versions(fixture: &dyn Fixture) {
    let mut catalogue = fixture.open();
    let name = |name: &str| ObjectName(name.as_bytes().to_vec());
    let unlisted = |seed: u8, why, known_as| {
        let id = VersionId([seed; 16]);
        UnlistedVersion { id, why, stored_bytes: 5, known_as, segments: Vec::new() }
    };
    catalogue.commit_put(&[version("a", 2, 1, 5), version("b", 9, 2, 5)]).expect("put");
    let reasons = [Unlisted::NoKey, Unlisted::UnreadableRecord, Unlisted::Incomplete, Unlisted::Gone];
    for (why, number) in reasons.into_iter().zip(3..) {
        catalogue.adopt_unlisted(&[unlisted(number as u8, why, Some((name("a"), number)))]).expect("recorded");
        assert_eq!(catalogue.latest_number(&name("a")).expect("looked up"), Some(number), "{why:?}");
    }
    let more = [
        unlisted(20, Unlisted::NoKey, Some((name("a"), 1))),
        unlisted(21, Unlisted::Gone, Some((name("b"), 4))),
        unlisted(22, Unlisted::Gone, Some((name("only"), 7))),
        unlisted(23, Unlisted::NoKey, None),
        unlisted(24, Unlisted::UnseenStore, Some((name("disk"), 0))),
    ];
    catalogue.adopt_unlisted(&more).expect("recorded");
    let mut latest = |of: &str| catalogue.latest_number(&name(of)).expect("looked up");
    assert_eq!((latest("a"), latest("b"), latest("only")), (Some(6), Some(9), Some(7)));
    assert_eq!((latest("disk"), latest("onl"), latest("")), (None, None, None), "store names are not object names");
    // A name added later counts, too.
    catalogue.adopt_unlisted(&[unlisted(23, Unlisted::Gone, Some((name("later"), 3)))]).expect("recorded");
    assert_eq!(catalogue.latest_number(&name("later")).expect("looked up"), Some(3));
    catalogue.check().expect("sound");
    catalogue.forget_unlisted(&[VersionId([6; 16])], &[]).expect("forgotten");
    assert_eq!(catalogue.latest_number(&name("a")).expect("looked up"), Some(5));
}

pub(crate) fn a_put_of_many_is_there_whole_or_not_at_all(fixture: &dyn Fixture) {
    let mut catalogue = fixture.open();
    let mut broken = version("b", 1, 2, 5);
    broken.data.clear();
    catalogue.commit_put(&[version("a", 1, 1, 5), broken]).expect_err("not covered");
    assert_eq!(catalogue.totals().expect("counted"), Totals::default());
    assert!(catalogue.segments_in_use().expect("listed").is_empty());
    catalogue.commit_put(&[version("a", 1, 1, 5)]).expect("the same put can be repeated");
    catalogue.commit_put(&[]).expect("an empty put succeeds");
}

pub(crate) fn a_put_whose_places_leave_bytes_out_is_refused(fixture: &dyn Fixture) {
    let mut catalogue = fixture.open();
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
        assert!(matches!(refused, CatalogueError::Uncovered(id) if id == good.id), "{refused}");
    }
}

pub(crate) fn totals_count_what_is_there(fixture: &dyn Fixture) {
    let mut catalogue = fixture.open();
    catalogue.commit_put(&[version("a", 1, 1, 10), version("a", 2, 2, 20), version("b", 1, 3, 40)]).expect("put");
    let staged = StagedTotals { versions: 3, stored_bytes: 70, tombstones: 0, oldest_ms: Some(1_001) };
    assert_eq!(catalogue.staged_totals().expect("counted"), staged);
    assert_eq!(catalogue.totals().expect("counted"), Totals { objects: 2, versions: 3, content_bytes: 70, staged });

    let first = catalogue.versions_of(&ObjectName(b"a".to_vec())).expect("listed")[1].row_id;
    complete(&mut *catalogue, 1, &[(first, extent(1, 0, 0, 10))]);
    let staged = StagedTotals { versions: 2, stored_bytes: 60, tombstones: 0, oldest_ms: Some(1_002) };
    assert_eq!(catalogue.totals().expect("counted"), Totals { objects: 2, versions: 3, content_bytes: 70, staged });

    let b = only(&mut *catalogue, "b");
    catalogue.commit_delete(&[b.row_id, first], &[StagedTombstone { id: b.id, segment: 9 }]).expect("deleted");
    let staged = StagedTotals { versions: 1, stored_bytes: 20, tombstones: 1, oldest_ms: Some(1_002) };
    assert_eq!(catalogue.totals().expect("counted"), Totals { objects: 1, versions: 1, content_bytes: 20, staged });
}

pub(crate) fn the_oldest_staged_version_gives_the_age(fixture: &dyn Fixture) {
    let mut catalogue = fixture.open();
    catalogue.commit_put(&[version("a", 1, 30, 5), version("b", 1, 10, 5), version("c", 1, 20, 5)]).expect("put");
    for (name, oldest) in [("b", Some(1_020)), ("a", Some(1_020)), ("c", None)] {
        let row_id = only(&mut *catalogue, name).row_id;
        catalogue.commit_delete(&[row_id], &[]).expect("deleted");
        assert_eq!(catalogue.staged_totals().expect("counted").oldest_ms, oldest, "without {name}");
    }
}

pub(crate) fn a_deleted_version_is_gone_and_its_tombstone_waits(fixture: &dyn Fixture) {
    let mut catalogue = fixture.open();
    catalogue.commit_put(&[version("a", 1, 1, 2_500), version("a", 2, 2, 5)]).expect("put");
    let rows = catalogue.versions_of(&ObjectName(b"a".to_vec())).expect("listed");
    complete(&mut *catalogue, 1, &[(rows[0].row_id, extent(1, 0, 0, 5))]);
    let tombstones: Vec<_> = rows.iter().map(|row| StagedTombstone { id: row.id, segment: 40 }).collect();
    catalogue.commit_delete(&[rows[0].row_id, rows[1].row_id], &tombstones).expect("deleted");

    assert!(catalogue.versions_of(&ObjectName(b"a".to_vec())).expect("listed").is_empty());
    for row in &rows {
        assert_eq!(catalogue.staged(row.row_id).expect("looked up"), None);
        assert!(catalogue.extents(row.row_id).expect("looked up").is_empty());
    }
    let waiting: BTreeSet<_> = catalogue.staged_tombstones().expect("listed").into_iter().map(|t| (t.id, t.segment)).collect();
    assert_eq!(waiting, rows.iter().map(|row| (row.id, 40)).collect());
    assert!(catalogue.versions_on(&[platter(1, 0)], None, 10).expect("listed").is_empty());
    assert_eq!(catalogue.segments_in_use().expect("listed"), [40]);
}

pub(crate) fn a_deletion_may_be_repeated(fixture: &dyn Fixture) {
    let mut catalogue = fixture.open();
    catalogue.commit_put(&[version("a", 1, 1, 5), version("b", 1, 2, 5)]).expect("put");
    let row = only(&mut *catalogue, "a");
    for _ in 0..2 {
        catalogue.commit_delete(&[row.row_id, VersionRowId(999)], &[StagedTombstone { id: row.id, segment: 7 }]).expect("deleted");
    }
    let totals = catalogue.totals().expect("counted");
    assert_eq!((totals.objects, totals.versions, totals.staged.tombstones), (1, 1, 1));
    catalogue.check().expect("sound");
}

pub(crate) fn a_row_id_is_never_used_again(fixture: &dyn Fixture) {
    let mut catalogue = fixture.open();
    let mut seen = BTreeSet::new();
    for seed in 1..5 {
        catalogue.commit_put(&[version("a", 1, seed, 5)]).expect("put");
        let row_id = only(&mut *catalogue, "a").row_id;
        assert!(seen.insert(row_id), "{row_id:?} was reused");
        catalogue.commit_delete(&[row_id], &[]).expect("deleted");
        drop(catalogue);
        catalogue = fixture.open();
    }
}

pub(crate) fn segments_are_in_use_while_something_is_staged_in_them(fixture: &dyn Fixture) {
    let mut catalogue = fixture.open();
    let mut spread = version("a", 1, 4, 3_000);
    spread.data[0].place.segment = 2;
    spread.data[1].place.segment = 3;
    catalogue.commit_put(&[spread, version("b", 1, 3, 5)]).expect("put");
    assert_eq!(catalogue.segments_in_use().expect("listed"), [2, 3, 4]);
    let (a, b) = (only(&mut *catalogue, "a"), only(&mut *catalogue, "b"));
    catalogue.commit_delete(&[a.row_id], &[StagedTombstone { id: a.id, segment: 4 }]).expect("deleted");
    assert_eq!(catalogue.segments_in_use().expect("listed"), [3, 4]);
    complete(&mut *catalogue, 1, &[(b.row_id, extent(1, 0, 0, 5))]);
    assert_eq!(catalogue.segments_in_use().expect("listed"), [4]);
    catalogue.adopt_tombstones(&[StagedTombstone { id: b.id, segment: i64::MAX as u64 }]).expect("adopted");
    assert_eq!(catalogue.segments_in_use().expect("listed"), [4, i64::MAX as u64]);
}

pub(crate) fn a_reopened_catalogue_has_all_that_was_committed(fixture: &dyn Fixture) {
    let mut catalogue = fixture.open();
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
    let mut catalogue = fixture.open();
    assert_eq!(state(&mut *catalogue), before);
    catalogue.check().expect("sound");
}

pub(crate) fn a_failed_change_leaves_nothing(fixture: &dyn Fixture) {
    let mut catalogue = fixture.open();
    catalogue.commit_put(&[version("a", 1, 1, 5)]).expect("put");
    let before = catalogue.totals().expect("counted");
    let mut too_large = version("b", 2, 3, 5);
    too_large.record.version = u64::MAX;
    catalogue.commit_put(&[version("b", 1, 2, 5), too_large]).expect_err("a number too large");
    catalogue.commit_put(&[version("b", 1, 2, 5), version("b", 1, 2, 5)]).expect_err("the same version twice");
    assert_eq!(catalogue.totals().expect("counted"), before);
    assert_eq!(catalogue.segments_in_use().expect("listed"), [1]);
    catalogue.check().expect("sound");
    catalogue.commit_put(&[version("b", 1, 2, 5)]).expect("the catalogue still works");
}

pub(crate) fn a_sound_catalogue_passes_its_check(fixture: &dyn Fixture) {
    let mut catalogue = fixture.open();
    catalogue.check().expect("sound when empty");
    put_odd_names(&mut *catalogue);
    catalogue.adopt_tombstones(&[StagedTombstone { id: VersionId([1; 16]), segment: 2 }]).expect("adopted");
    catalogue.check().expect("sound when not empty");
    let row_ids: Vec<_> = listed(&mut *catalogue, b"", Versions::All, 100).iter().map(|row| row.row_id).collect();
    catalogue.commit_delete(&row_ids, &[]).expect("deleted");
    catalogue.check().expect("sound when everything is deleted");
    assert_eq!(catalogue.totals().expect("counted").objects, 0);
}

pub(crate) fn released_segments_are_remembered_in_ranges(fixture: &dyn Fixture) {
    let mut catalogue = fixture.open();
    assert_eq!(catalogue.last_released().expect("looked up"), None);
    let one = |segment: u64| segment..=segment;
    catalogue.note_released(&[one(5), one(0), one(7), 20..=24]).expect("noted");
    assert_eq!(catalogue.released(0, 10).expect("listed"), [0..=0, 5..=5, 7..=7, 20..=24]);
    catalogue.note_released(&[one(6), one(7), 23..=30, one(1)]).expect("noted");
    assert_eq!(catalogue.released(0, 10).expect("listed"), [0..=1, 5..=7, 20..=30]);
    assert_eq!(catalogue.released(2, 1).expect("listed"), [5..=7]);
    assert_eq!(catalogue.released(31, 10).expect("listed"), []);
    assert_eq!(catalogue.last_released().expect("looked up"), Some(30));
    assert_eq!(catalogue.old_segments(&[1, 3, 5, 6, 8, 24], &[6]).expect("looked up"), [1, 5, 24]);
    catalogue.check().expect("sound");
}
