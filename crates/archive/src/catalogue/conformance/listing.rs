//! Properties of listings: order, pages, and the versions they contain.

use super::*;

pub(crate) fn versions_of_a_name_come_newest_first(fixture: &dyn Fixture) {
    let mut catalogue = fixture.open();
    catalogue.commit_put(&[version("a", 2, 1, 5), version("a", 9, 2, 5), version("a", 4, 3, 5), version("b", 5, 4, 5)]).expect("put");
    let row_id = catalogue.versions_of(&ObjectName(b"a".to_vec())).expect("listed")[1].row_id;
    complete(&mut *catalogue, 1, &[(row_id, extent(1, 0, 0, 5))]);
    let rows = catalogue.versions_of(&ObjectName(b"a".to_vec())).expect("listed");
    assert_eq!(rows.iter().map(|row| (row.record.version, row.archived)).collect::<Vec<_>>(), [(9, false), (4, true), (2, false)]);
    assert!(catalogue.versions_of(&ObjectName(b"c".to_vec())).expect("listed").is_empty());
}

pub(crate) fn listings_are_in_byte_order_whatever_the_bytes(fixture: &dyn Fixture) {
    let mut catalogue = fixture.open();
    put_odd_names(&mut *catalogue);
    for prefix in ODD_NAMES.into_iter().chain([b"b".as_slice(), b"\xff\xff\xff", b"a\x00\x00"]) {
        let expected: Vec<Vec<u8>> = ODD_NAMES.iter().filter(|name| name.starts_with(prefix)).map(|name| name.to_vec()).collect();
        let found: Vec<Vec<u8>> = listed(&mut *catalogue, prefix, Versions::Newest, 100).into_iter().map(|row| row.record.name.0).collect();
        assert_eq!(found, expected, "{prefix:?}");
    }
}

pub(crate) fn a_listing_gives_every_version_once_whatever_the_page(fixture: &dyn Fixture) {
    let mut catalogue = fixture.open();
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

pub(crate) fn a_listing_of_newest_gives_every_name_once_whatever_the_page(fixture: &dyn Fixture) {
    let mut catalogue = fixture.open();
    put_odd_names(&mut *catalogue);
    for prefix in [b"".as_slice(), b"a", b"\x00", b"\xff", b"\xff\xff"] {
        let expected: Vec<_> = ODD_NAMES.iter().filter(|name| name.starts_with(prefix)).map(|name| (name.to_vec(), 3)).collect();
        for page in [1, 2, 3, 13, 14, 15] {
            assert_eq!(names(&listed(&mut *catalogue, prefix, Versions::Newest, page)), expected, "{prefix:?}, {page} a page");
        }
    }
    let before = ListCursor { name: ObjectName(b"A".to_vec()), version: 0, id: VersionId([0; 16]) };
    let found = catalogue.list(b"a", Versions::Newest, Some(&before), 1).expect("listed");
    assert_eq!(names(&found), [(b"a".to_vec(), 3)], "a cursor before the prefix is accepted");
    let after = ListCursor { name: ObjectName(b"b".to_vec()), ..before };
    assert!(catalogue.list(b"a", Versions::Newest, Some(&after), 1).expect("listed").is_empty());
}

pub(crate) fn a_listing_continues_after_a_prefix_whatever_its_bytes(fixture: &dyn Fixture) {
    let mut catalogue = fixture.open();
    put_odd_names(&mut *catalogue);
    for passed in ODD_NAMES.into_iter().chain([b"b".as_slice(), b"\xff\xff\xff", b"`", b"@"]) {
        let following: Vec<&[u8]> = ODD_NAMES.into_iter().filter(|name| *name > passed && !name.starts_with(passed)).collect();
        let Some(after) = ListCursor::after_prefix(passed) else {
            assert!(following.is_empty(), "{passed:?}");
            continue;
        };
        for page in [1, 3, 100] {
            let newest = catalogue.list(b"", Versions::Newest, Some(&after), page).expect("listed");
            let expected: Vec<_> = following.iter().map(|name| (name.to_vec(), 3)).take(page).collect();
            assert_eq!(names(&newest), expected, "after {passed:?}, {page} a page");
            let all = catalogue.list(b"", Versions::All, Some(&after), page).expect("listed");
            let expected: Vec<_> = following.iter().flat_map(|name| [3, 2, 1].map(|number| (name.to_vec(), number))).take(page).collect();
            assert_eq!(names(&all), expected, "after {passed:?}, {page} a page");
        }
    }
}

pub(crate) fn a_name_of_ten_thousand_versions_is_one_row_of_newest(fixture: &dyn Fixture) {
    let mut catalogue = fixture.open();
    let mut put: Vec<_> = (1..=10_000).map(|number| version("m", number, number, 1)).collect();
    put.extend([version("a", 1, 1, 1), version("z", 1, 2, 1)]);
    catalogue.commit_put(&put).expect("put");
    let row_id = catalogue.list(b"m", Versions::Newest, None, 1).expect("listed")[0].row_id;
    complete(&mut *catalogue, 1, &[(row_id, extent(1, 0, 0, 1))]);

    let expected = [(b"a".to_vec(), 1), (b"m".to_vec(), 10_000), (b"z".to_vec(), 1)];
    for page in [1, 2, 3, 4] {
        assert_eq!(names(&listed(&mut *catalogue, b"", Versions::Newest, page)), expected);
    }
    let all = listed(&mut *catalogue, b"m", Versions::All, 999);
    assert_eq!(all.iter().map(|row| row.record.version).collect::<Vec<_>>(), (1..=10_000).rev().collect::<Vec<_>>());
}

pub(crate) fn a_listing_goes_on_after_a_row_that_was_deleted(fixture: &dyn Fixture) {
    let mut catalogue = fixture.open();
    catalogue.commit_put(&[version("a", 1, 1, 5), version("b", 1, 2, 5), version("b", 2, 3, 5), version("c", 1, 4, 5)]).expect("put");
    let page = catalogue.list(b"", Versions::All, None, 2).expect("listed");
    catalogue.commit_delete(&[page[1].row_id], &[]).expect("deleted");
    let rest = catalogue.list(b"", Versions::All, Some(&ListCursor::after_row(&page[1])), 10).expect("listed");
    assert_eq!(names(&rest), [(b"b".to_vec(), 1), (b"c".to_vec(), 1)]);
}

pub(crate) fn versions_of_one_number_are_all_listed(fixture: &dyn Fixture) {
    let mut catalogue = fixture.open();
    catalogue.commit_put(&[version("a", 1, 1, 5), version("a", 1, 2, 5), version("a", 1, 3, 5), version("b", 1, 4, 5)]).expect("put");
    let row_id = catalogue.versions_of(&ObjectName(b"a".to_vec())).expect("listed")[1].row_id;
    complete(&mut *catalogue, 1, &[(row_id, extent(1, 0, 0, 5))]);
    for page in 1..5 {
        let rows = listed(&mut *catalogue, b"", Versions::All, page);
        assert_eq!(rows.iter().map(|row| row.record.created_ms).collect::<Vec<_>>(), [1_003, 1_002, 1_001, 1_004], "{page} a page");
        let newest = listed(&mut *catalogue, b"", Versions::Newest, page);
        assert_eq!(newest.iter().map(|row| row.record.created_ms).collect::<Vec<_>>(), [1_003, 1_004]);
    }
}

pub(crate) fn a_deleted_name_is_in_no_listing_of_newest_and_keeps_its_versions(fixture: &dyn Fixture) {
    let mut catalogue = fixture.open();
    let put = [
        version("archived, then deleted", 1, 1, 5),
        version("back again", 1, 2, 5),
        marker("back again", 2, 3),
        version("deleted on platters", 1, 4, 5),
        marker("deleted on platters", 2, 5),
        version("deleted on platters before", 1, 6, 5),
        marker("deleted on platters before", 2, 7),
        version("never deleted", 1, 8, 5),
        marker("only a marker", 1, 9),
    ];
    catalogue.commit_put(&put).expect("put");
    let archived = ["archived, then deleted", "back again", "deleted on platters", "only a marker"];
    let rows = catalogue.staged_versions(None, 100).expect("listed");
    assert_eq!(rows.len(), put.len(), "staged versions include markers");
    let is_archived = |row: &&VersionRow| {
        let name = std::str::from_utf8(&row.record.name.0).expect("text");
        // Only the marker of this name.
        archived.contains(&name) || (name == "deleted on platters before" && row.record.kind == Kind::DeletionMarker)
    };
    let extents: Vec<_> = rows.iter().filter(is_archived).map(|row| (row.row_id, extent(1, 0, 0, row.stored_bytes))).collect();
    complete(&mut *catalogue, 1, &extents);
    catalogue.commit_put(&[marker("archived, then deleted", 2, 10), version("back again", 3, 11, 5)]).expect("put");

    for page in 1..12 {
        let newest = names(&listed(&mut *catalogue, b"", Versions::Newest, page));
        assert_eq!(newest, [(b"back again".to_vec(), 3), (b"never deleted".to_vec(), 1)], "{page} a page");
        assert_eq!(listed(&mut *catalogue, b"", Versions::All, page).len(), put.len() + 2);
    }
    for (name, latest) in
        [("archived, then deleted", 2), ("deleted on platters", 2), ("deleted on platters before", 2), ("only a marker", 1)]
    {
        assert!(listed(&mut *catalogue, name.as_bytes(), Versions::Newest, 10).is_empty(), "{name}");
        let name = ObjectName(name.into());
        assert_eq!(catalogue.latest_number(&name).expect("looked up"), Some(latest), "{name:?}");
        let versions = catalogue.versions_of(&name).expect("listed");
        assert_eq!((versions[0].record.kind, versions.len() as u64), (Kind::DeletionMarker, latest), "{name:?}");
    }
    let totals = catalogue.totals().expect("counted");
    assert_eq!((totals.objects, totals.versions), (6, 11), "deleted names are counted");

    // Without its marker, the name is listed again.
    let deleted = catalogue.versions_of(&ObjectName(b"deleted on platters".to_vec())).expect("listed");
    catalogue.commit_delete(&[deleted[0].row_id], &[]).expect("deleted");
    assert_eq!(names(&listed(&mut *catalogue, b"d", Versions::Newest, 10)), [(b"deleted on platters".to_vec(), 1)]);
}

pub(crate) fn a_page_of_newest_is_full_whatever_is_skipped(fixture: &dyn Fixture) {
    let mut catalogue = fixture.open();
    // Runs of 0 to 39 deleted names, each followed by one existing name; then many deleted names.
    let mut put = Vec::new();
    let mut expected = Vec::new();
    for run in 0..40 {
        put.extend((0..run).map(|i| marker(format!("{run:02}/a{i:02}"), 1, run * 40 + i)));
        put.push(version(format!("{run:02}/b"), 1, 5_000 + run, 5));
        expected.push((format!("{run:02}/b").into_bytes(), 1));
    }
    put.extend((0..700).map(|i| marker(format!("x/{i:03}"), 1, 6_000 + i)));
    put.push(version("y", 1, 9_000, 5));
    expected.push((b"y".to_vec(), 1));
    catalogue.commit_put(&put).expect("put");
    let some: Vec<_> = catalogue.staged_versions(None, 10_000).expect("listed");
    let some: Vec<_> = some.iter().step_by(3).map(|row| (row.row_id, extent(1, 0, 0, row.stored_bytes))).collect();
    complete(&mut *catalogue, 1, &some);
    for page in [1, 2, 7, 39, 40, 41, 1_000] {
        let mut after = None;
        let mut found = Vec::new();
        while found.len() < expected.len() {
            let rows = catalogue.list(b"", Versions::Newest, after.as_ref(), page).expect("listed");
            assert_eq!(rows.len(), page.min(expected.len() - found.len()), "{page} a page, {} found", found.len());
            after = rows.last().map(ListCursor::after_row);
            found.extend(names(&rows));
        }
        assert_eq!(found, expected);
        assert!(catalogue.list(b"", Versions::Newest, after.as_ref(), page).expect("listed").is_empty());
    }
    assert!(catalogue.list(b"x", Versions::Newest, None, 5).expect("listed").is_empty());
}

pub(crate) fn versions_on_platters_are_those_with_an_extent_there(fixture: &dyn Fixture) {
    let mut catalogue = fixture.open();
    let put: Vec<_> = (0..20).map(|i| version([b"zyxabc"[i as usize % 6]], i + 1, i, 2_000)).collect();
    catalogue.commit_put(&put).expect("put");
    let rows = catalogue.staged_versions(None, 100).expect("listed");
    let mut extents = Vec::new();
    for (i, row) in rows.iter().take(15).enumerate() {
        extents.push((row.row_id, extent(1, (i % 2) as u8, 0, 1_000)));
        extents.push((row.row_id, extent(1, u8::from(i % 5 == 0), 1_000, 1_000)));
    }
    complete(&mut *catalogue, 1, &extents);
    let rows = listed(&mut *catalogue, b"", Versions::All, 100);
    for wanted in [&[platter(1, 0)][..], &[platter(1, 1)], &[platter(1, 1), platter(1, 0)], &[platter(1, 2)]] {
        let expected: Vec<_> = rows
            .iter()
            .filter(|row| catalogue.extents(row.row_id).expect("looked up").iter().any(|extent| wanted.contains(&extent.platter)))
            .cloned()
            .collect();
        for page in [1, 4, 100] {
            let found = pages(page, |after| catalogue.versions_on(wanted, after, page).expect("listed"));
            assert_eq!(found, expected, "{wanted:?}, {page} a page");
        }
    }
    let after = ListCursor::after_row(&rows[0]);
    let wanted = [platter(1, 0), platter(1, 1)];
    let page = catalogue.versions_on(&wanted, Some(&after), 1).expect("listed");
    assert_eq!(page, [rows[1].clone()], "also without a previous page");
    catalogue.commit_delete(&[rows[2].row_id], &[]).expect("deleted");
    let page = catalogue.versions_on(&wanted, Some(&ListCursor::after_row(&rows[1])), 1).expect("listed");
    assert_eq!(page, [rows[3].clone()], "versions deleted since are skipped");
}
