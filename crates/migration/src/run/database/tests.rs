use fulgurite_places::{Listed, VolumePosition};

use super::*;

fn row(name: &str, bytes: u64) -> InventoryRow {
    InventoryRow::new(Listed::new(name.to_owned(), None), bytes)
}

fn digest_of(algorithm: Algorithm, byte: u8) -> Digest {
    Digest::new(algorithm, &vec![byte; algorithm.bytes()]).expect("a digest")
}

fn recall(database: &mut Database, name: &str) -> Option<Recalled> {
    database.recall(&[name.to_owned()]).expect("recalled").remove(0)
}

fn sha256(byte: u8) -> Digest {
    Digest::new(Algorithm::Sha256, &[byte; 32]).expect("a digest")
}

fn opened() -> (tempfile::TempDir, Database) {
    let folder = tempfile::tempdir().expect("a folder");
    let database = Database::open(&folder.path().join("state.db")).expect("a database");
    (folder, database)
}

fn by_letter(name: &str) -> String {
    name[..1].to_owned()
}

#[test]
fn files_are_offered_by_family_and_counted_by_state() {
    let (folder, mut database) = opened();
    database.add(&[row("b/1", 10), row("a/1", 20), row("b/2", 30)], &by_letter).expect("added");
    let names = |database: &Database| -> Vec<String> {
        database.waiting(NO_VOLUME, ReadingOrder::default(), 10).expect("rows").into_iter().map(|row| row.name).collect()
    };
    assert_eq!(names(&database), ["b/1", "b/2", "a/1"]);
    assert_eq!(database.waiting(NO_VOLUME, ReadingOrder { block: 0, family: 1, id: 3 }, 10).expect("rows").len(), 1);
    let sizes = |database: &Database, only_waiting| {
        let mut sizes = Vec::new();
        database.sizes_in_order(only_waiting, &mut |bytes| sizes.push(bytes)).expect("sizes");
        sizes
    };
    assert_eq!(sizes(&database, true), [10, 30, 20]);
    let changes = [
        (1, Change::Written { sha256: sha256(1), modified: None, stored: Stored::Written }),
        (2, Change::Retry { at: 100, reason: "cut".into() }),
        (3, Change::Failed { reason: "gone".into() }),
    ];
    database.record(&changes).expect("recorded");
    drop(database);
    let mut database = Database::open(&folder.path().join("state.db")).expect("a database");
    let totals = database.totals().expect("totals");
    let of = |state| totals.of(state);
    assert_eq!((of(State::Waiting), of(State::Written), of(State::Failed), totals.all()), ((1, 20), (1, 10), (1, 30), (3, 60)));
    assert_eq!((sizes(&database, true), sizes(&database, false)), (vec![], vec![10, 30, 20]));
    assert!(names(&database).is_empty() && database.next_retry(&BTreeSet::new()).expect("a time") == Some(100));
    assert_eq!(database.take_retry(99, false, None, &BTreeSet::new()).expect("none"), None);
    assert_eq!(database.take_retry(100, false, None, &BTreeSet::from([NO_VOLUME])).expect("none"), None);
    let again = database.take_retry(100, false, None, &BTreeSet::new()).expect("a row").expect("a row");
    assert_eq!((again.attempts, again.reason.as_deref()), (1, Some("cut")));
    let written = database.in_state(State::Written, 0, 10).expect("rows");
    assert_eq!(written[0].sha256, Some(sha256(1)));
    database.record(&[(1, Change::Migrated { at: 50 })]).expect("recorded");
    assert_eq!(database.migrated_until(49, 0, 10).expect("rows").len(), 0);
    assert_eq!(database.migrated_until(50, 0, 10).expect("rows").len(), 1);
    assert_eq!(database.retry_failed().expect("retried"), 1);
    assert_eq!(database.totals().expect("totals").of(State::Waiting), (2, 50));
}

#[test]
fn a_file_that_is_tried_again_keeps_the_digest_and_the_time_with_which_it_was_read() {
    let (_folder, mut database) = opened();
    database.add(&[row("a", 1)], &by_letter).expect("added");
    let modified = Some(Modified { seconds: -5, nanoseconds: 7 });
    let written = Change::Written { sha256: sha256(1), modified, stored: Stored::Written };
    database
        .record(&[(1, written), (1, Change::Migrated { at: 1 }), (1, Change::Retry { at: 1, reason: "lost".into() })])
        .expect("recorded");
    let row = database.take_retry(1, false, None, &BTreeSet::new()).expect("a row").expect("a row");
    assert_eq!((row.sha256, row.modified), (Some(sha256(1)), modified));
}

#[test]
fn a_database_of_an_earlier_version_is_brought_up_to_date() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("state.db");
    let old = Connection::open(&path).expect("a database");
    old.execute_batch(SCHEMA).expect("a schema");
    old.execute_batch(
        "INSERT INTO family VALUES (1, 'a'); INSERT INTO file (name, bytes, family) VALUES ('a/1', 5, 1); PRAGMA user_version = 1",
    )
    .expect("a row");
    drop(old);
    for _ in 0..2 {
        let mut database = Database::open(&path).expect("a database");
        assert_eq!(recall(&mut database, "a/1"), Some(Recalled { files: 1, ..Recalled::default() }));
        assert_eq!(database.recalled_files().expect("a number"), 1);
        let rows = database.recalled(NO_VOLUME, 10).expect("rows");
        assert_eq!((rows.len(), rows[0].volume, rows[0].is_recalled), (1, NO_VOLUME, true));
    }
    Connection::open(&path).and_then(|newer| newer.pragma_update(None, "user_version", VERSION + 1)).expect("changed");
    assert!(matches!(Database::open(&path), Err(DatabaseError::Newer { found, .. }) if found == VERSION + 1));
}

#[test]
fn files_of_a_volume_come_by_block_and_recalls_name_files_or_folders() {
    let (_folder, mut database) = opened();
    let at = |name: &str, volume: &str, block| InventoryRow {
        position: Some(VolumePosition { volume: volume.to_owned(), medium: Some(format!("medium {volume}")), block }),
        digest: Some(sha256(1)),
        ..row(name, 1)
    };
    let rows = [at("T2/b/x", "T2", 9), at("T1/a/x", "T1", 7), at("T1/b/y", "T1", 3), at("T2/a/z", "T2", 1), row("b/none", 1)];
    let family = |name: &str| name.split('/').next().unwrap_or_default().to_owned();
    database.add(&rows, &family).expect("added");
    let names = |rows: Vec<FileRow>| rows.into_iter().map(|row| row.name).collect::<Vec<_>>();
    let of = |database: &Database, volume| names(database.waiting(volume, ReadingOrder::default(), 9).expect("rows"));
    assert_eq!(
        (of(&database, NO_VOLUME), of(&database, 1), of(&database, 2)),
        (vec!["b/none".into()], vec!["T2/a/z".into(), "T2/b/x".into()], vec!["T1/b/y".into(), "T1/a/x".into()])
    );
    let rows = database.waiting(1, ReadingOrder::default(), 9).expect("rows");
    assert_eq!(names(database.waiting(1, ReadingOrder::of(&rows[0]), 9).expect("rows")), ["T2/b/x"]);
    // Families are the same on all volumes.
    assert_eq!(rows[1].family, database.waiting(2, ReadingOrder::default(), 1).expect("rows")[0].family);
    assert_eq!(rows[0].expected, Some(sha256(1)));
    assert_eq!(
        (database.next_volume(None).ok(), database.next_volume(Some(1)).ok(), database.next_volume(Some(2)).ok()),
        (Some(Some(0)), Some(Some(2)), Some(None))
    );
    // A file that was moved to another place of the tape.
    database.add(&[at("T1/a/x", "T1", 1)], &family).expect("added");
    assert_eq!(of(&database, 2), ["T1/a/x", "T1/b/y"]);
    assert_eq!(recall(&mut database, "T1/a"), None);
    assert_eq!(recall(&mut database, "T1/"), Some(Recalled { files: 2, ..Recalled::default() }));
    database.record(&[(1, Change::Failed { reason: "x".into() })]).expect("recorded");
    assert_eq!(recall(&mut database, "T2/"), Some(Recalled { files: 1, failed: 1, ..Recalled::default() }));
    assert_eq!(recall(&mut database, "b/none"), Some(Recalled { files: 1, ..Recalled::default() }));
    assert_eq!((database.next_recalled_volume(None).ok(), database.next_recalled_volume(Some(0)).ok()), (Some(Some(0)), Some(Some(1))));
    assert_eq!(names(database.recalled(2, 9).expect("rows")), ["T1/a/x", "T1/b/y"]);
    // What the source states of a migrated file has changed.
    database
        .record(&[(2, Change::Written { sha256: sha256(1), modified: None, stored: Stored::Written }), (2, Change::Migrated { at: 1 })])
        .expect("recorded");
    assert_eq!(recall(&mut database, "T1/a/x"), Some(Recalled { migrated: 1, ..Recalled::default() }));
    assert_eq!(database.add(&[at("T1/a/x", "T1", 1)], &family).expect("added"), Added::default());
    let changed = InventoryRow { digest: Some(sha256(2)), ..at("T1/a/x", "T1", 1) };
    assert_eq!(database.add(&[changed], &family).expect("added").changed, 1);
}

#[test]
fn a_file_that_several_names_select_is_recalled_and_counted_once() {
    let (_folder, mut database) = opened();
    database.add(&[row("a/1", 1), row("a/2", 1), row("b/1", 1), row("c", 1)], &by_letter).expect("added");
    let written = Change::Written { sha256: sha256(1), modified: None, stored: Stored::Written };
    database.record(&[(3, written.clone()), (4, written), (4, Change::Migrated { at: 1 })]).expect("recorded");
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let counts = |recalled: Vec<Option<Recalled>>| -> Vec<Option<(u64, u64, u64)>> {
        recalled.into_iter().map(|of| of.map(|of| (of.files, of.written, of.migrated))).collect()
    };
    let recalled = database.recall(&names(&["a/1", "a/", "a/1", "a/3", "b/"])).expect("recalled");
    assert_eq!(counts(recalled), [Some((1, 0, 0)), Some((1, 0, 0)), Some((0, 0, 0)), None, Some((0, 1, 0))]);
    let more = database.recall_more(&names(&["a/2", "b/1", "c"])).expect("recalled");
    assert_eq!(counts(more), [Some((0, 0, 0)), Some((0, 0, 0)), Some((0, 0, 1))]);
    assert_eq!(database.recalled_files().expect("a number"), 2);
    // Another user asks.
    let again = database.recall(&names(&["a/", "b/1"])).expect("recalled");
    assert_eq!(counts(again), [Some((2, 0, 0)), Some((0, 1, 0))]);
}

#[test]
fn digests_agree_and_changed_files_wait() {
    let (_folder, mut database) = opened();
    let added = |new, changed, reappeared| Added { new, changed, reappeared };
    assert_eq!(database.add(&[row("a", 5), row("b", 6)], &by_letter).expect("added"), added(2, 0, 0));
    let md5 = |byte: u8| Digest::new(Algorithm::Md5, &[byte; 16]).expect("a digest");
    let digests = |database: &mut Database, name: &str, digest: Digest| {
        let added = database.add_digests(&[(name.into(), digest)], &by_letter).expect("added");
        (added.known, added.missing, added.wrong)
    };
    assert_eq!(digests(&mut database, "a", md5(1)), (1, 0, 0));
    assert_eq!(digests(&mut database, "a", sha256(1)), (1, 0, 0));
    assert_eq!(database.waiting(NO_VOLUME, ReadingOrder::default(), 1).expect("a row")[0].expected, Some(sha256(1)));
    // Only the list has it, until the source has it too, even if it is empty.
    assert_eq!(digests(&mut database, "c", sha256(7)), (0, 1, 0));
    assert_eq!(digests(&mut database, "c", sha256(8)), (0, 1, 0));
    assert_eq!(database.totals().expect("totals").of(State::Failed), (1, 0));
    assert_eq!(database.add(&[row("c", 0), row("a", 5)], &by_letter).expect("added"), added(0, 1, 0));
    assert_eq!(database.totals().expect("totals").of(State::Failed), (0, 0));
    database.add(&[row("c", 9)], &by_letter).expect("it has grown");
    // A file that was migrated and changes is migrated again.
    database
        .record(&[(2, Change::Written { sha256: sha256(2), modified: None, stored: Stored::Written }), (2, Change::Migrated { at: 1 })])
        .expect("recorded");
    assert_eq!(database.add(&[row("b", 8)], &by_letter).expect("added"), added(0, 1, 0));
    assert_eq!(database.totals().expect("totals").of(State::Waiting), (3, 22));
    assert!(
        database
            .waiting(NO_VOLUME, ReadingOrder::default(), 9)
            .expect("rows")
            .iter()
            .any(|row| row.name == "b" && row.was_written && row.sha256.is_none())
    );
    // A digest that comes late is compared with what was migrated.
    let migrate = |database: &mut Database| {
        let written = Change::Written { sha256: sha256(2), modified: None, stored: Stored::Found };
        database.record(&[(2, written), (2, Change::Migrated { at: 1 })]).expect("recorded");
    };
    migrate(&mut database);
    assert_eq!(digests(&mut database, "b", sha256(2)), (1, 0, 0));
    let again = database.add_digests(&[("b".into(), md5(2))], &by_letter).expect("added");
    assert_eq!(again, AddedDigests { known: 1, again: 1, ..AddedDigests::default() });
    assert_eq!(database.totals().expect("totals").of(State::Waiting).0, 3, "it is read again");
    migrate(&mut database);
    assert_eq!(digests(&mut database, "b", sha256(3)), (1, 0, 1));
    assert_eq!(database.totals().expect("totals").of(State::Failed).0, 1);
    // The list was corrected, once; the same digest again changes nothing.
    let corrected = database.add_digests(&[("b".into(), sha256(2))], &by_letter).expect("added");
    assert_eq!(corrected, AddedDigests { known: 1, corrected: 1, ..AddedDigests::default() });
    let totals = database.totals().expect("totals");
    assert_eq!((totals.of(State::Failed), totals.of(State::Waiting)), ((0, 0), (3, 22)));
    database.record(&[(2, Change::Failed { reason: "unreadable".into() })]).expect("recorded");
    assert_eq!(database.add_digests(&[("b".into(), sha256(2))], &by_letter).expect("added").corrected, 0);
    assert_eq!(database.totals().expect("totals").of(State::Failed).0, 1);
    // What was released stays so.
    migrate(&mut database);
    database.record(&[(2, Change::Released)]).expect("recorded");
    let unchecked = database.add_digests(&[("b".into(), md5(4))], &by_letter).expect("added");
    assert_eq!(unchecked, AddedDigests { known: 1, unchecked: 1, ..AddedDigests::default() });
    assert_eq!(database.add(&[row("b", 99)], &by_letter).expect("added"), added(0, 0, 1));
    assert_eq!(database.totals().expect("totals").of(State::Released), (1, 8));
}

#[test]
fn what_a_list_and_what_the_source_states_are_kept_apart() {
    let (_folder, mut database) = opened();
    let family = |_: &str| String::new();
    let at = |name: &str, volume: &str, block| InventoryRow {
        position: Some(VolumePosition { volume: volume.to_owned(), medium: Some(format!("medium {volume}")), block }),
        digest: Some(sha256(1)),
        ..row(name, 1)
    };
    database.add(&[at("T2/a/z", "T2", 1)], &family).expect("added");
    // A digest of a list decides, whatever the source states.
    let list = [("T2/a/z".to_owned(), digest_of(Algorithm::Md5, 3))];
    database.add_digests(&list, &family).expect("added");
    let stated = |database: &mut Database, digest| {
        database.add(&[InventoryRow { digest: Some(digest), ..at("T2/a/z", "T2", 1) }], &family).expect("added").changed
    };
    let expected = |database: &Database| database.waiting(1, ReadingOrder::default(), 1).expect("a row")[0].expected.clone();
    assert_eq!((stated(&mut database, sha256(9)), expected(&database)), (0, Some(list[0].1.clone())));
    database
        .record(&[(1, Change::Written { sha256: sha256(9), modified: None, stored: Stored::Written }), (1, Change::Migrated { at: 1 })])
        .expect("recorded");
    // The same list, and further inventories, don't make it wait again, unless the source has
    // changed.
    assert_eq!(database.add_digests(&list, &family).expect("added").known, 1);
    assert_eq!((stated(&mut database, sha256(9)), stated(&mut database, sha256(9)), stated(&mut database, sha256(8))), (0, 0, 1));
    // A corrected index lets a file be tried again that contradicted the earlier one.
    database.record(&[(1, Change::Retry { at: 1, reason: "x".into() }), (1, Change::Failed { reason: "wrong".into() })]).expect("recorded");
    assert_eq!(stated(&mut database, sha256(7)), 1);
    // The file is on another tape, or on none: names of a mounted tape don't tell.
    let elsewhere = InventoryRow { name: "T2/a/z".to_owned(), ..at("x", "T9", 1) };
    for moved in [elsewhere, row("T2/a/z", 1)] {
        let refused = database.add(&[moved], &family);
        assert!(matches!(&refused, Err(DatabaseError::Moved { known, .. }) if known == "T2"), "{refused:?}");
    }
    // Another tape under a known name.
    let other = VolumePosition { volume: "T2".to_owned(), medium: Some("another".to_owned()), block: 1 };
    let refused = database.add(&[InventoryRow { position: Some(other), ..row("T2/a/z", 1) }], &family);
    assert!(matches!(&refused, Err(DatabaseError::OtherVolume { name, .. }) if name == "T2"), "{refused:?}");
}

#[test]
fn a_file_that_was_replaced_by_one_of_the_same_length_waits_again() {
    let time = |seconds| Some(Modified { seconds, nanoseconds: 0 });
    let of_time = |seconds| InventoryRow { modified: time(seconds), ..row("a", 1) };
    // A tag decides, whatever the time.
    let tagged = |tag: &str| InventoryRow { tag: Some(tag.to_owned()), modified: time(1), ..row("a", 1) };
    for (before, after) in [(of_time(1), of_time(2)), (tagged("1"), tagged("2"))] {
        let (_folder, mut database) = opened();
        let changed =
            |database: &mut Database, of: &InventoryRow| database.add(std::slice::from_ref(of), &by_letter).expect("added").changed;
        let migrate = |database: &mut Database, modified| {
            let written = Change::Written { sha256: sha256(1), modified, stored: Stored::Written };
            database.record(&[(1, written), (1, Change::Migrated { at: 1 })]).expect("recorded");
        };
        assert_eq!((changed(&mut database, &before), changed(&mut database, &before)), (0, 0));
        migrate(&mut database, None);
        assert_eq!((changed(&mut database, &before), changed(&mut database, &after), changed(&mut database, &after)), (0, 1, 0));
        let waiting = database.waiting_file(1).expect("a row").expect("it waits");
        // Nothing is compared with what it contained before, and the migration may replace it.
        assert!(waiting.sha256.is_none() && waiting.modified.is_none() && waiting.was_written, "{waiting:?}");
        // A failed file is tried again.
        database.record(&[(1, Change::Failed { reason: "x".into() })]).expect("recorded");
        assert_eq!((changed(&mut database, &after), changed(&mut database, &before)), (0, 1));
        assert_eq!(database.totals().expect("totals").of(State::Waiting), (1, 1));
        // A released file stays released.
        migrate(&mut database, None);
        database.record(&[(1, Change::Released)]).expect("recorded");
        assert_eq!(database.add(&[after], &by_letter).expect("added"), Added { reappeared: 1, ..Added::default() });
        assert_eq!(database.totals().expect("totals").of(State::Released), (1, 1));
    }
}

#[test]
fn a_file_that_was_edited_before_it_was_read_is_not_read_again() {
    let (_folder, mut database) = opened();
    let of_time = |seconds| [InventoryRow { modified: Some(Modified { seconds, nanoseconds: 0 }), ..row("a", 1) }];
    database.add(&of_time(1), &by_letter).expect("added");
    let modified = Some(Modified { seconds: 2, nanoseconds: 0 });
    database.record(&[(1, Change::Written { sha256: sha256(1), modified, stored: Stored::Written })]).expect("recorded");
    assert_eq!(database.add(&of_time(2), &by_letter).expect("added"), Added::default());
    // Nor does a database whose earlier inventory stated nothing lose sight of it.
    database.connection.execute("UPDATE file SET listed = NULL", []).expect("as before");
    assert_eq!(database.add(&of_time(3), &by_letter).expect("added").changed, 1);
}

#[test]
fn a_file_that_failed_with_the_clock_ahead_does_not_wait_until_then() {
    let (_folder, mut database) = opened();
    database.add(&[row("a", 1), row("b", 1), row("c", 1)], &by_letter).expect("added");
    let fail = |database: &mut Database| {
        let retry = |at| Change::Retry { at, reason: "cut".into() };
        database.record(&[(1, retry(50)), (2, retry(1_000_000)), (3, retry(2_000_000))]).expect("recorded");
    };
    let next = |database: &mut Database, now| database.take_retry(now, false, None, &BTreeSet::new()).expect("a row").map(|row| row.name);
    fail(&mut database);
    assert_eq!(database.retries_after(100).expect("a number"), Some(Retries { files: 2, first: 1_000_000, last: 2_000_000 }));
    database.limit_retries(160).expect("limited");
    assert_eq!(database.retries_after(100).expect("a number"), Some(Retries { files: 2, first: 160, last: 160 }));
    assert_eq!((database.retries_after(160).expect("none"), next(&mut database, 159)), (None, Some("a".into())));
    assert_eq!([(); 2].map(|()| next(&mut database, 160)), [Some("b".into()), Some("c".into())]);
    // A user wants one now. It stays among those that failed, where a run looks for it.
    for _ in 0..2 {
        fail(&mut database);
        recall(&mut database, "c");
        let row = database.take_retry(1, true, None, &BTreeSet::new()).expect("a row").expect("a row");
        assert_eq!((&*row.name, next(&mut database, 49)), ("c", None));
    }
    fail(&mut database);
    database.retry_failed().expect("retried");
    assert_eq!([(); 3].map(|()| next(&mut database, 1)), [Some("a".into()), Some("b".into()), Some("c".into())]);
}
