//! Properties of a rebuild.

use super::*;

fn found(seed: u64, extents: Vec<Extent>) -> FoundVersion {
    let new = version(format!("found/{seed}"), seed, seed, 3_000);
    FoundVersion::Archived(ArchivedVersion { id: new.id, record: new.record, sealed: new.sealed, stored_bytes: new.stored_bytes, extents })
}

pub(crate) fn adopting_twice_is_adopting_once(fixture: &dyn Fixture) {
    let mut catalogue = fixture.open();
    catalogue.begin_set(&set(2, 3)).expect("begun");
    let versions = [
        found(1, vec![extent(1, 0, 0, 3_000)]),
        FoundVersion::Staged(version("found/1", 1, 1, 3_000)),
        FoundVersion::Staged(version("s", 1, 2, 10)),
        FoundVersion::Archived(ArchivedVersion {
            id: version("s", 1, 2, 10).id,
            record: version("s", 1, 2, 10).record,
            sealed: true,
            stored_bytes: 10,
            extents: vec![extent(1, 0, 0, 10)],
        }),
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
        assert_eq!(now.1.iter().map(|row| row.archived).collect::<Vec<_>>(), [true, false], "the first version adopted is kept");
        assert_eq!(*after_once.get_or_insert_with(|| now.clone()), now);
    }
    catalogue.check().expect("sound");
}

pub(crate) fn a_version_adopted_from_platters_is_archived(fixture: &dyn Fixture) {
    let mut catalogue = fixture.open();
    catalogue.adopt_set(&set(1, 3)).expect("adopted");
    catalogue.adopt_versions(&[found(4, vec![extent(1, 1, 1_000, 2_000), extent(1, 0, 0, 1_000)])]).expect("adopted");
    let row = only(&mut *catalogue, "found/4");
    let new = version("found/4", 4, 4, 3_000);
    let expected =
        VersionRow { row_id: row.row_id, id: new.id, record: new.record, sealed: new.sealed, stored_bytes: 3_000, archived: true };
    assert_eq!(row, expected);
    assert_eq!(catalogue.extents(row.row_id).expect("looked up"), [extent(1, 0, 0, 1_000), extent(1, 1, 1_000, 2_000)]);
    assert_eq!(catalogue.staged_totals().expect("counted"), StagedTotals::default());
    assert_eq!(names(&catalogue.versions_on(&[platter(1, 1)], None, 5).expect("listed")), [(b"found/4".to_vec(), 4)]);
}

pub(crate) fn attributes_and_deletion_markers_are_adopted_as_they_were(fixture: &dyn Fixture) {
    let mut catalogue = fixture.open();
    catalogue.adopt_set(&set(1, 3)).expect("adopted");
    let on_platter = |new: NewVersion| {
        let extents = vec![extent(1, 0, 0, new.stored_bytes)];
        FoundVersion::Archived(ArchivedVersion {
            id: new.id,
            record: new.record,
            sealed: new.sealed,
            stored_bytes: new.stored_bytes,
            extents,
        })
    };
    let (first, gone, staged) = (version("a", 1, 8, 5), marker("a", 2, 10), marker("b", 1, 5));
    let records = [gone.record.clone(), first.record.clone(), staged.record.clone()];
    assert!(records.iter().all(|record| !record.attributes.is_empty()));
    catalogue.adopt_versions(&[on_platter(first), on_platter(gone), FoundVersion::Staged(staged)]).expect("adopted");
    let found: Vec<_> = listed(&mut *catalogue, b"", Versions::All, 10).into_iter().map(|row| row.record).collect();
    assert_eq!(found, records);
    assert!(listed(&mut *catalogue, b"", Versions::Newest, 10).is_empty());
    catalogue.check().expect("sound");
}

pub(crate) fn an_adopted_version_has_each_byte_once(fixture: &dyn Fixture) {
    let mut catalogue = fixture.open();
    catalogue.adopt_set(&set(1, 3)).expect("adopted");
    catalogue.adopt_set(&set(2, 3)).expect("adopted");
    let twice = vec![extent(1, 0, 0, 1_000), extent(2, 0, 0, 3_000), extent(1, 1, 1_000, 2_000)];
    catalogue.adopt_versions(&[found(1, twice)]).expect("adopted");
    let row_id = only(&mut *catalogue, "found/1").row_id;
    assert_eq!(catalogue.extents(row_id).expect("looked up"), [extent(2, 0, 0, 3_000)]);
}

pub(crate) fn a_version_adopted_in_part_is_refused(fixture: &dyn Fixture) {
    let mut catalogue = fixture.open();
    catalogue.adopt_set(&set(1, 3)).expect("adopted");
    for extents in [vec![], vec![extent(1, 0, 0, 2_999)], vec![extent(1, 0, 0, 1_000), extent(1, 0, 1_001, 1_999)]] {
        let refused = catalogue.adopt_versions(&[found(2, vec![extent(1, 0, 0, 3_000)]), found(1, extents)]).expect_err("refused");
        assert!(matches!(refused, CatalogueError::Uncovered { .. }), "{refused}");
    }
    let unknown = catalogue.adopt_versions(&[found(1, vec![extent(7, 0, 0, 3_000)])]).expect_err("refused");
    assert!(matches!(unknown, CatalogueError::UnknownPlatter { .. }), "{unknown}");
    assert_eq!(catalogue.totals().expect("counted"), Totals::default());
}
