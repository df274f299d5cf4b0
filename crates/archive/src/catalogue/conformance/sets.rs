//! Properties of sets and platters, and of archiving versions.

use super::*;
use crate::scrub::PlatterState;

pub(crate) fn a_set_is_known_while_it_is_written(fixture: &dyn Fixture) {
    let mut catalogue = fixture.open();
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
    catalogue.begin_set(&described).expect_err("a set can't begin twice");
}

pub(crate) fn an_abandoned_set_leaves_everything_staged(fixture: &dyn Fixture) {
    let mut catalogue = fixture.open();
    catalogue.commit_put(&[version("a", 1, 1, 5)]).expect("put");
    let before = catalogue.totals().expect("counted");
    catalogue.begin_set(&set(1, 3)).expect("begun");
    catalogue.abandon_set(SetId([1; 16])).expect("abandoned");
    assert!(catalogue.sets().expect("listed").is_empty());
    assert!(catalogue.platters().expect("listed").is_empty());
    assert_eq!(catalogue.totals().expect("counted"), before);
    assert!(!only(&mut *catalogue, "a").archived);
    catalogue.begin_set(&set(1, 3)).expect("an abandoned set can begin again");
}

pub(crate) fn only_a_set_being_written_is_completed_or_abandoned(fixture: &dyn Fixture) {
    let mut catalogue = fixture.open();
    let id = SetId([1; 16]);
    let not_writing = |result: Result<(), CatalogueError>| assert!(matches!(result, Err(CatalogueError::SetNotWriting(set)) if set == id));
    not_writing(catalogue.abandon_set(id));
    not_writing(catalogue.complete_set(id, &mut std::iter::empty(), 5));
    complete(&mut *catalogue, 1, &[]);
    not_writing(catalogue.abandon_set(id));
    not_writing(catalogue.complete_set(id, &mut std::iter::empty(), 5));
    assert_eq!(catalogue.sets().expect("listed")[0].state, SetState::Complete);
}

pub(crate) fn a_set_is_forgotten_when_nothing_is_on_it(fixture: &dyn Fixture) {
    let mut catalogue = fixture.open();
    catalogue.commit_put(&[version("a", 1, 1, 5)]).expect("put");
    let row_id = only(&mut *catalogue, "a").row_id;
    complete(&mut *catalogue, 1, &[(row_id, extent(1, 0, 0, 5))]);
    complete(&mut *catalogue, 2, &[]);
    catalogue.begin_set(&set(3, 3)).expect("begun");
    let forget = |catalogue: &mut dyn Catalogue, seed| catalogue.forget_set(SetId([seed; 16])).expect("looked up");
    assert!(!forget(&mut *catalogue, 1), "a version is on it");
    assert!(!forget(&mut *catalogue, 3), "it is being written");
    assert!(!forget(&mut *catalogue, 9), "no set has that identifier");
    assert_eq!(catalogue.sets().expect("listed").len(), 3);
    let platters: Vec<_> = set(2, 3).platters.iter().map(|place| place.platter).collect();
    assert!(forget(&mut *catalogue, 2));
    assert_eq!(catalogue.sets().expect("listed").len(), 2);
    for platter in platters {
        assert!(catalogue.is_left_out(platter).expect("looked up"));
        assert_eq!(catalogue.set_of(platter).expect("looked up"), None);
    }
    catalogue.commit_delete(&[row_id], &[]).expect("removed");
    assert!(forget(&mut *catalogue, 1));
    catalogue.check().expect("sound");
}

pub(crate) fn a_complete_set_archives_its_versions(fixture: &dyn Fixture) {
    let mut catalogue = fixture.open();
    catalogue.commit_put(&[version("a", 1, 1, 2_500), version("b", 1, 2, 5), version("c", 1, 3, 5)]).expect("put");
    let (a, b) = (only(&mut *catalogue, "a").row_id, only(&mut *catalogue, "b").row_id);
    let shards = [extent(1, 1, 1_000, 1_500), extent(1, 0, 0, 1_000)];
    complete(&mut *catalogue, 1, &[(a, shards[0]), (b, extent(1, 0, 0, 5)), (a, shards[1])]);

    assert!(only(&mut *catalogue, "a").archived && only(&mut *catalogue, "b").archived && !only(&mut *catalogue, "c").archived);
    assert_eq!(catalogue.extents(a).expect("looked up"), [shards[1], shards[0]]);
    assert_eq!(catalogue.staged(a).expect("looked up"), None);
    assert_eq!(names(&catalogue.staged_versions(None, 10).expect("listed")), [(b"c".to_vec(), 1)]);
    assert_eq!(catalogue.segments_in_use().expect("listed"), [3]);
    assert_eq!(catalogue.sets().expect("listed")[0].state, SetState::Complete);
    let health = Health::intact_at(VERIFIED);
    assert!(catalogue.platters().expect("listed").iter().all(|row| row.health == health && row.state == SetState::Complete));
    catalogue.check().expect("sound");
}

pub(crate) fn a_complete_set_takes_further_versions(fixture: &dyn Fixture) {
    let mut catalogue = fixture.open();
    catalogue.commit_put(&[version("a", 1, 1, 5), version("b", 1, 2, 5), version("c", 1, 3, 2_000)]).expect("put");
    let [a, b, c] = ["a", "b", "c"].map(|name| only(&mut *catalogue, name).row_id);
    let archive = |catalogue: &mut dyn Catalogue, extents: &[(VersionRowId, Extent)]| {
        let mut extents = extents.iter().map(|&(version, extent)| ArchivedExtent { version, extent });
        catalogue.archive_on_set(SetId([1; 16]), &mut extents)
    };
    catalogue.begin_set(&set(1, 3)).expect("begun");
    let early = archive(&mut *catalogue, &[(a, extent(1, 0, 0, 5))]).expect_err("it is being written");
    assert!(matches!(early, CatalogueError::SetNotComplete(SetId(id)) if id == [1; 16]), "{early}");
    let mut first = std::iter::once(ArchivedExtent { version: a, extent: extent(1, 0, 0, 5) });
    catalogue.complete_set(SetId([1; 16]), &mut first, 5).expect("completed");
    archive(&mut *catalogue, &[(c, extent(1, 0, 0, 1_000))]).expect("archived");
    assert!(only(&mut *catalogue, "a").archived && !only(&mut *catalogue, "b").archived && !only(&mut *catalogue, "c").archived);
    catalogue.check().expect("sound");
    let other = archive(&mut *catalogue, &[(b, extent(2, 0, 0, 5))]).expect_err("another set's platter");
    assert!(matches!(other, CatalogueError::UnknownPlatter(found) if found == platter(2, 0)), "{other}");
    catalogue.commit_delete(&[b], &[]).expect("deleted");
    archive(&mut *catalogue, &[(b, extent(1, 0, 0, 5)), (c, extent(1, 1, 1_000, 1_000))]).expect("archived");
    assert!(only(&mut *catalogue, "c").archived && catalogue.extents(b).expect("looked up").is_empty());
    assert_eq!(catalogue.extents(c).expect("looked up"), [extent(1, 0, 0, 1_000), extent(1, 1, 1_000, 1_000)]);
    assert_eq!(catalogue.staged_totals().expect("counted"), StagedTotals::default());
    catalogue.check().expect("sound");
}

pub(crate) fn an_extent_on_a_platter_of_another_set_is_refused(fixture: &dyn Fixture) {
    let mut catalogue = fixture.open();
    catalogue.commit_put(&[version("a", 1, 1, 5), version("b", 1, 2, 5)]).expect("put");
    catalogue.begin_set(&set(1, 3)).expect("begun");
    catalogue.begin_set(&set(2, 3)).expect("begun");
    let (a, b) = (only(&mut *catalogue, "a").row_id, only(&mut *catalogue, "b").row_id);
    let mut extents =
        [(a, extent(1, 0, 0, 5)), (b, extent(2, 0, 0, 5))].into_iter().map(|(version, extent)| ArchivedExtent { version, extent });
    let refused = catalogue.complete_set(SetId([1; 16]), &mut extents, 5).expect_err("refused");
    assert!(matches!(refused, CatalogueError::UnknownPlatter(found) if found == platter(2, 0)), "{refused}");
    assert!(!only(&mut *catalogue, "a").archived, "the failed change was rolled back");
    assert!(catalogue.sets().expect("listed").iter().all(|row| row.state == SetState::Writing));
}

pub(crate) fn an_object_without_bytes_is_archived_by_an_extent_of_none(fixture: &dyn Fixture) {
    let mut catalogue = fixture.open();
    catalogue.commit_put(&[version("a", 1, 1, 0), version("b", 1, 2, 0)]).expect("put");
    let row_id = only(&mut *catalogue, "a").row_id;
    complete(&mut *catalogue, 1, &[(row_id, extent(1, 0, 0, 0))]);
    assert!(only(&mut *catalogue, "a").archived && !only(&mut *catalogue, "b").archived);
    assert_eq!(catalogue.extents(row_id).expect("looked up"), [extent(1, 0, 0, 0)]);
    assert_eq!(names(&catalogue.versions_on(&[platter(1, 0)], None, 10).expect("listed")), [(b"a".to_vec(), 1)]);
    catalogue.check().expect("sound");
}

pub(crate) fn a_sharded_object_stays_staged_until_the_last_shard(fixture: &dyn Fixture) {
    let mut catalogue = fixture.open();
    let new = version("a", 1, 1, 3_000);
    catalogue.commit_put(std::slice::from_ref(&new)).expect("put");
    let row_id = only(&mut *catalogue, "a").row_id;
    complete(&mut *catalogue, 1, &[(row_id, extent(1, 0, 2_000, 1_000))]);
    complete(&mut *catalogue, 2, &[(row_id, extent(2, 0, 0, 1_000))]);
    catalogue.begin_set(&set(3, 3)).expect("begun");
    catalogue.abandon_set(SetId([3; 16])).expect("abandoned");

    assert!(!only(&mut *catalogue, "a").archived);
    assert_eq!(catalogue.staged(row_id).expect("looked up"), Some((new.record_place, new.data)), "all of it is still staged");
    assert_eq!(
        catalogue.extents(row_id).expect("looked up"),
        [extent(2, 0, 0, 1_000), extent(1, 0, 2_000, 1_000)],
        "the shards already archived are listed"
    );
    assert_eq!(catalogue.staged_totals().expect("counted").stored_bytes, 3_000);
    catalogue.check().expect("sound");

    complete(&mut *catalogue, 4, &[(row_id, extent(4, 1, 1_000, 1_000))]);
    assert!(only(&mut *catalogue, "a").archived);
    let extents = [extent(2, 0, 0, 1_000), extent(4, 1, 1_000, 1_000), extent(1, 0, 2_000, 1_000)];
    assert_eq!(catalogue.extents(row_id).expect("looked up"), extents);
    assert_eq!(catalogue.staged(row_id).expect("looked up"), None);
    assert_eq!(catalogue.staged_totals().expect("counted"), StagedTotals::default());
    catalogue.check().expect("sound");
}

pub(crate) fn a_shard_that_was_written_twice_counts_once(fixture: &dyn Fixture) {
    let mut catalogue = fixture.open();
    catalogue.commit_put(&[version("a", 1, 1, 3_000), version("b", 1, 2, 3_000)]).expect("put");
    let (a, b) = (only(&mut *catalogue, "a").row_id, only(&mut *catalogue, "b").row_id);
    complete(&mut *catalogue, 1, &[(a, extent(1, 0, 0, 2_000)), (b, extent(1, 1, 0, 2_000))]);
    complete(&mut *catalogue, 2, &[(a, extent(2, 0, 0, 1_000))]);
    assert!(!only(&mut *catalogue, "a").archived, "3,000 bytes in total, but the last 1,000 are missing");

    complete(&mut *catalogue, 3, &[(a, extent(3, 0, 1_000, 2_000)), (b, extent(3, 1, 0, 3_000))]);
    assert_eq!(catalogue.extents(b).expect("looked up"), [extent(3, 1, 0, 3_000)], "whole on one platter");
    let mut end = 0;
    for extent in catalogue.extents(a).expect("looked up") {
        assert_eq!(extent.object_offset, end);
        assert_eq!(extent.offset, 50_000 + extent.object_offset, "a trimmed extent starts at a larger offset");
        end += extent.bytes;
    }
    assert_eq!(end, 3_000);

    complete(&mut *catalogue, 4, &[(b, extent(4, 0, 0, 3_000))]);
    assert_eq!(catalogue.extents(b).expect("looked up"), [extent(3, 1, 0, 3_000)], "archived versions keep their extents");
    catalogue.check().expect("sound");
}

pub(crate) fn a_version_deleted_while_its_set_is_written_is_skipped(fixture: &dyn Fixture) {
    let mut catalogue = fixture.open();
    catalogue.commit_put(&[version("a", 1, 1, 5), version("b", 1, 2, 5), version("c", 1, 3, 2_000)]).expect("put");
    let row_ids = ["a", "b", "c"].map(|name| only(&mut *catalogue, name).row_id);
    catalogue.begin_set(&set(1, 3)).expect("begun");
    catalogue.commit_delete(&[row_ids[1], row_ids[2]], &[]).expect("deleted");
    catalogue.commit_put(&[version("d", 1, 4, 5)]).expect("put");
    let extents = [extent(1, 0, 0, 5), extent(1, 1, 0, 5), extent(1, 1, 0, 1_000), extent(1, 0, 1_000, 1_000)];
    let mut extents = [row_ids[0], row_ids[1], row_ids[2], row_ids[2]]
        .into_iter()
        .zip(extents)
        .map(|(version, extent)| ArchivedExtent { version, extent });
    catalogue.complete_set(SetId([1; 16]), &mut extents, 5).expect("completed");
    assert_eq!(names(&listed(&mut *catalogue, b"", Versions::All, 10)), [(b"a".to_vec(), 1), (b"d".to_vec(), 1)]);
    assert!(only(&mut *catalogue, "a").archived && !only(&mut *catalogue, "d").archived);
    assert!(catalogue.extents(row_ids[1]).expect("looked up").is_empty());
    catalogue.check().expect("sound");
}

pub(crate) fn tombstones_stay_staged_until_they_are_archived(fixture: &dyn Fixture) {
    let mut catalogue = fixture.open();
    let tombstones = [1, 2, 3].map(|seed| StagedTombstone { id: VersionId([seed; 16]), segment: seed.into() });
    catalogue.commit_delete(&[], &tombstones).expect("deleted");
    catalogue.begin_set(&set(1, 3)).expect("begun");
    let written = [tombstones[0].id, tombstones[2].id, VersionId([9; 16])];
    catalogue.complete_set(SetId([1; 16]), &mut std::iter::empty(), 5).expect("completed");
    assert_eq!(catalogue.staged_tombstones().expect("listed"), tombstones);
    catalogue.archive_tombstones(&written, SetId([1; 16])).expect("archived");
    let archived = [tombstones[0].id, tombstones[2].id].map(|id| (id, SetId([1; 16])));
    assert_eq!(catalogue.archived_tombstones(None, 10).expect("listed"), archived);
    assert_eq!(catalogue.archived_tombstones(Some(archived[0].0), 10).expect("listed"), archived[1..]);
    assert_eq!(catalogue.staged_tombstones().expect("listed"), [tombstones[1]]);
    assert_eq!(catalogue.unwritten_tombstones().expect("listed"), [tombstones[1].id]);
    // The first set was given up; the second one is there.
    for (set, unwritten) in [(SetId([9; 16]), &[tombstones[1].id][..]), (SetId([1; 16]), &[])] {
        catalogue.adopt_archived_tombstones(&[(tombstones[1].id, set)]).expect("recorded");
        assert_eq!(catalogue.staged_tombstones().expect("listed"), [tombstones[1]]);
        assert_eq!(catalogue.unwritten_tombstones().expect("listed"), unwritten);
    }
    catalogue.check().expect("whole");
    assert_eq!(catalogue.staged_totals().expect("counted").tombstones, 1);
    assert_eq!(catalogue.segments_in_use().expect("listed"), [2]);
}

pub(crate) fn platters_remember_their_health_and_store(fixture: &dyn Fixture) {
    let mut catalogue = fixture.open();
    complete(&mut *catalogue, 1, &[]);
    let health = Health {
        checked: Some(99),
        missing: true,
        lost_sectors: 1 << 40,
        lost_tracks: u32::MAX,
        bad_headers: u32::MAX,
        last_intact: Some(98),
        unreadable: Some(100),
        repaired: Some(Repair { at: 97, found: PlatterState::Damaged, lost_sectors: 1 << 41 }),
    };
    catalogue.record_health(platter(1, 1), health).expect("recorded");
    catalogue.move_platter(platter(1, 1), "attic").expect("recorded");
    let rows = catalogue.platters().expect("listed");
    assert_eq!((rows[1].health, rows[1].place.store.as_str()), (health, "attic"));
    assert_eq!(rows[0].health, Health::intact_at(VERIFIED));
    assert_eq!(catalogue.platters_of(SetId([1; 16])).expect("listed"), rows);
    assert_eq!(catalogue.platters_of(SetId([9; 16])).expect("looked up"), []);
    // Every field alone, and every state.
    let states = [
        PlatterState::Sound,
        PlatterState::Elsewhere,
        PlatterState::Absent,
        PlatterState::Unreadable,
        PlatterState::Missing,
        PlatterState::Damaged,
    ];
    let repaired = |found| Health { repaired: Some(Repair { at: 0, found, lost_sectors: 0 }), ..Health::default() };
    let alone = [
        Health::default(),
        Health { bad_headers: 1, ..Health::default() },
        Health { last_intact: Some(0), ..Health::default() },
        Health { unreadable: Some(0), ..Health::default() },
    ];
    for health in alone.into_iter().chain(states.map(repaired)) {
        catalogue.record_health(platter(1, 2), health).expect("recorded");
        assert_eq!(catalogue.platters().expect("listed")[2].health, health);
        catalogue.check().expect("sound");
    }
    assert_eq!(catalogue.sets().expect("listed")[0].description.platters[1].store, "attic");
    let unknown = platter(9, 9);
    for result in [catalogue.record_health(unknown, health), catalogue.move_platter(unknown, "attic")] {
        assert!(matches!(result, Err(CatalogueError::UnknownPlatter(platter)) if platter == unknown));
    }
}

pub(crate) fn staged_versions_remember_when_they_were_read(fixture: &dyn Fixture) {
    let mut catalogue = fixture.open();
    catalogue.commit_put(&[version("a", 1, 1, 2_500), version("b", 1, 2, 0)]).expect("put");
    let (a, b) = (only(&mut *catalogue, "a").row_id, only(&mut *catalogue, "b").row_id);
    let health = |catalogue: &mut dyn Catalogue, version| catalogue.staged_health(version).expect("looked up");
    let places = catalogue.staged(a).expect("looked up");
    assert_eq!(health(&mut *catalogue, a), Some(StagedHealth::default()), "a put is no evidence");

    let check = |version, at, is_sound| StagedCheck { version, at, is_sound };
    catalogue.record_staged(&[check(a, 10, true), check(b, 11, false), check(VersionRowId(999), 12, true)]).expect("recorded");
    assert_eq!(health(&mut *catalogue, a), Some(StagedHealth { verified: Some(10), damaged: None }));
    assert_eq!(health(&mut *catalogue, b), Some(StagedHealth { verified: None, damaged: Some(11) }));
    assert_eq!(catalogue.count_damaged_staged().expect("counted"), 1);
    catalogue.record_staged(&[check(a, 20, false), check(b, 21, true)]).expect("recorded");
    assert_eq!(health(&mut *catalogue, a), Some(StagedHealth { verified: Some(10), damaged: Some(20) }), "the earlier date stays");
    assert_eq!(health(&mut *catalogue, b), Some(StagedHealth { verified: Some(21), damaged: None }));
    assert_eq!(catalogue.staged(a).expect("looked up"), places);
    assert_eq!(health(&mut *catalogue, VersionRowId(999)), None);
    catalogue.check().expect("sound");

    drop(catalogue);
    let mut catalogue = fixture.open();
    assert_eq!(health(&mut *catalogue, a), Some(StagedHealth { verified: Some(10), damaged: Some(20) }));
    complete(&mut *catalogue, 1, &[(a, extent(1, 0, 0, 2_500))]);
    assert_eq!(health(&mut *catalogue, a), None, "it is on platters now");
    assert_eq!(catalogue.count_damaged_staged().expect("counted"), 0);
    catalogue.record_staged(&[check(a, 30, true)]).expect("skipped");
    catalogue.check().expect("sound");
}

pub(crate) fn sets_are_in_order_of_writing(fixture: &dyn Fixture) {
    let mut catalogue = fixture.open();
    // Identifiers 2 and 9 are in the opposite order of their times.
    for (seed, written) in [(5, 10_005), (2, 10_009), (9, 10_002)] {
        catalogue.adopt_set(&SetDescription { written, ..set(seed, 3) }).expect("adopted");
    }
    catalogue.begin_set(&set(1, 3)).expect("begun");
    let order: Vec<_> = catalogue.sets().expect("listed").iter().map(|row| row.description.id.0[0]).collect();
    assert_eq!(order, [1, 9, 5, 2]);
    let order: Vec<_> = catalogue.platters().expect("listed").iter().map(|row| (row.set.0[0], row.position)).collect();
    assert_eq!(order, [1, 9, 5, 2].iter().flat_map(|&set| (0..3).map(move |position| (set, position))).collect::<Vec<_>>());
}
