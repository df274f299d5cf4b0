//! Catalogues with an older schema: readers see them through views, and writers migrate them.

use super::*;
use crate::catalogue::sqlite::counters::Counters;
use crate::catalogue::sqlite::schema::SCHEMA;
use crate::schema::in_sqlite;

/// A folder with a catalogue of schema 1, closed.
fn of_version_1() -> Folder {
    let folder = Folder::new();
    let file = Connection::open(folder.file()).expect("made");
    file.pragma_update(None, "journal_mode", "wal").expect("set");
    file.execute_batch(&in_sqlite(SCHEMA.migrations[0])).expect("the schema");
    file.execute_batch(include_str!("version_1.sql")).expect("the rows");
    file.pragma_update(None, "application_id", SCHEMA.application).expect("set");
    file.pragma_update(None, "user_version", 1).expect("set");
    drop(file);
    folder
}

fn schema_of(folder: &Folder) -> i64 {
    let file = Connection::open(folder.file()).expect("opened");
    file.pragma_query_value(None, "user_version", |row| row.get(0)).expect("a number")
}

#[test]
fn a_catalogue_of_schema_1_looks_the_same_to_a_reader_and_a_writer() {
    let folder = of_version_1();
    let mut reader = SqliteCatalogue::open_read_only(&folder.file(), ARCHIVE).expect("opened");
    reader.check().expect("sound");
    let before = all_of(&mut reader).expect("sound");
    let rows = reader.list(b"", Versions::All, None, 10).expect("listed");
    let found: Vec<_> = rows.iter().map(|row| (row.record.name.0.as_slice(), row.record.version, row.record.size, row.archived)).collect();
    let (a, b, c) = (&b"a"[..], &b"a/b"[..], &b"c"[..]);
    assert_eq!(found, [(a, 6, 4_200, true), (a, 3, 2_100, true), (b, 4, 2_800, true), (c, 5, 3_500, false), (c, 2, 1_400, false)]);
    assert!(rows.iter().all(|row| row.record.attributes.is_empty()));
    let on = reader.versions_on(&[platter(1, 0)], None, 10).expect("listed");
    assert_eq!(on, rows[..3]);
    drop(reader);
    assert_eq!(schema_of(&folder), 1, "a reader changes nothing");

    let mut writer = SqliteCatalogue::open(&folder.file(), ARCHIVE).expect("opened");
    writer.check().expect("sound");
    assert_eq!(all_of(&mut writer).expect("sound"), before);
    drop(writer);
    assert_eq!(schema_of(&folder), SCHEMA.newest());
    assert_eq!(all_of(&mut SqliteCatalogue::open_read_only(&folder.file(), ARCHIVE).expect("opened")).expect("sound"), before);
}

#[test]
fn a_migrated_catalogue_stores_what_schema_1_could_not() {
    let folder = of_version_1();
    let early = SqliteCatalogue::open_read_only(&folder.file(), ARCHIVE).expect("opened");
    let mut writer = SqliteCatalogue::open(&folder.file(), ARCHIVE).expect("opened");
    let described = version("d", 1, 1, 10);
    assert!(!described.record.attributes.is_empty());
    writer.commit_put(&[described.clone(), marker("a", 7, 20)]).expect("put");
    let staged = writer.staged_versions(None, 10).expect("listed");
    let extents: Vec<_> = staged.iter().map(|row| (row.row_id, extent(3, 0, 0, row.stored_bytes))).collect();
    complete(&mut writer, 3, &extents);
    writer.check().expect("sound");
    let expected = all_of(&mut writer).expect("sound");
    let late = SqliteCatalogue::open_read_only(&folder.file(), ARCHIVE).expect("opened");
    for mut reader in [early, late] {
        assert_eq!(only(&mut reader, "d").record.attributes, described.record.attributes);
        let newest = reader.list(b"", Versions::Newest, None, 10).expect("listed");
        assert_eq!(newest.iter().map(|row| row.record.name.0.as_slice()).collect::<Vec<_>>(), [&b"a/b"[..], b"c", b"d"]);
        assert_eq!(all_of(&mut reader).expect("sound"), expected);
    }
}

#[test]
fn what_earlier_programs_verified_stays_verified() {
    let folder = of_version_1();
    let verified = |catalogue: &mut SqliteCatalogue| {
        let rows = catalogue.platters().expect("listed");
        rows.iter().map(|row| (row.health.checked, row.health.verified())).collect::<Vec<_>>()
    };
    let mut early = SqliteCatalogue::open_read_only(&folder.file(), ARCHIVE).expect("opened");
    let before = verified(&mut early);
    assert!(before.iter().any(|(_, verified)| verified.is_some()), "{before:?}");
    let staged = early.staged_versions(None, 10).expect("listed");
    assert!(!staged.is_empty());
    for row in &staged {
        assert_eq!(early.staged_health(row.row_id).expect("looked up"), Some(StagedHealth::default()));
    }
    let mut writer = SqliteCatalogue::open(&folder.file(), ARCHIVE).expect("opened");
    assert_eq!(verified(&mut writer), before);
    let found = writer.platters().expect("listed").remove(0).place.platter;
    let health = Health { lost_sectors: 4, last_intact: Some(5), ..Health::intact_at(1_000) };
    writer.record_health(found, health).expect("recorded");
    writer.record_staged(&[StagedCheck { version: staged[0].row_id, at: 1_001, is_sound: true }]).expect("recorded");
    for catalogue in [&mut early, &mut writer] {
        assert_eq!(catalogue.platters().expect("listed")[0].health, health);
        let staged = catalogue.staged_health(staged[0].row_id).expect("looked up");
        assert_eq!(staged, Some(StagedHealth { verified: Some(1_001), damaged: None }));
        catalogue.check().expect("sound");
    }
}

#[test]
fn a_failed_migration_leaves_the_catalogue_unchanged() {
    let folder = of_version_1();
    let before = all_of(&mut SqliteCatalogue::open_read_only(&folder.file(), ARCHIVE).expect("opened")).expect("sound");
    // Instead of a full disk: the column already exists, so the migration fails.
    Connection::open(folder.file())
        .and_then(|file| file.execute_batch("ALTER TABLE version ADD COLUMN attributes BYTEA"))
        .expect("changed");
    SqliteCatalogue::open(&folder.file(), ARCHIVE).expect_err("the column already exists");
    assert_eq!(schema_of(&folder), 1);
    Connection::open(folder.file()).and_then(|file| file.execute_batch("ALTER TABLE version DROP COLUMN attributes")).expect("changed");
    assert_eq!(all_of(&mut SqliteCatalogue::open(&folder.file(), ARCHIVE).expect("opened")).expect("sound"), before);
}

#[test]
fn rows_that_were_not_counted_before_a_migration_are_counted_with_the_first_change() {
    let folder = sample();
    let file = Connection::open(folder.file()).expect("opened");
    // What an earlier program left: the same rows, without their counts.
    let counters = Counters::read(&file).expect("read");
    let uncounted = Counters { rows: None, ..counters };
    let columns = "archived_tombstones = NULL, left_out = NULL, released = NULL, segment_ends = NULL, unlisted = NULL";
    file.execute(&format!("UPDATE counter SET {columns}, row_check = ?1"), [uncounted.check().sum()]).expect("changed");
    let mut catalogue = folder.open();
    catalogue.check().expect("sound without counts");
    put(&mut *catalogue, ["new".to_owned()].into_iter());
    catalogue.check().expect("sound with counts");
    assert_eq!(Counters::read(&file).expect("read").rows, counters.rows);
    file.execute("DELETE FROM released WHERE last_number = 70", []).expect("removed");
    assert!(matches!(catalogue.check(), Err(CatalogueError::Damaged { .. })), "a missing row is found from then on");
}

#[test]
fn a_reader_from_before_the_migration_does_not_mistake_hidden_tables_for_lost_rows() {
    let folder = of_version_1();
    let mut early = SqliteCatalogue::open_read_only(&folder.file(), ARCHIVE).expect("opened");
    let mut writer = SqliteCatalogue::open(&folder.file(), ARCHIVE).expect("opened");
    writer.note_released(&[70..=70]).expect("noted");
    early.check().expect("sound");
    writer.check().expect("sound");
}
