//! Runs the conformance suite on the SQLite catalogue, and tests its file: concurrent processes,
//! damage, and queries that must not scan.

mod upgrading;

use std::path::PathBuf;

use fulgurite_domain::ArchiveId;

use super::*;
use crate::catalogue::conformance::{Commit, Fixture, complete, conformance, extent, marker, only, platter, set, version};
use crate::catalogue::{NULL, Repair, Unlisted};
use crate::scrub::PlatterState;

const ARCHIVE: ArchiveId = ArchiveId([0xa5; 16]);

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("catalogue.db")
    }

    fn log(&self) -> PathBuf {
        self.0.path().join("catalogue.db-wal")
    }

    /// The state after a power failure at this instant: the file and its log, without the memory
    /// that processes share.
    fn copy(&self) -> Self {
        let copy = Self::new();
        std::fs::copy(self.file(), copy.file()).expect("copied");
        std::fs::copy(self.log(), copy.log()).expect("copied");
        copy
    }
}

impl Fixture for Folder {
    fn open(&self) -> Box<dyn Catalogue> {
        let file = self.file();
        let open = if file.exists() { SqliteCatalogue::open } else { SqliteCatalogue::create };
        Box::new(open(&file, ARCHIVE).expect("opened"))
    }
}

conformance!(Folder::new());

fn put(catalogue: &mut dyn Catalogue, names: impl Iterator<Item = String>) {
    let versions: Vec<_> = (1..).zip(names).map(|(seed, name)| version(name, 1, seed, 2_000)).collect();
    catalogue.commit_put(&versions).expect("put");
}

/// A folder with a closed catalogue that has rows in every table.
fn sample() -> Folder {
    let folder = Folder::new();
    let mut catalogue = folder.open();
    put(&mut *catalogue, (0..40).map(|i| format!("odd/{}/{i}", "x".repeat(i * 7 % 31))));
    let rows = catalogue.staged_versions(None, 20).expect("listed");
    let extents: Vec<_> = rows.iter().map(|row| (row.row_id, extent(1, 0, 0, 2_000))).collect();
    complete(&mut *catalogue, 1, &extents);
    catalogue.begin_set(&set(2, 3)).expect("begun");
    let tombstones = [3, 4, 5].map(|index| StagedTombstone { id: rows[index].id, segment: 99 });
    catalogue.commit_delete(&[rows[3].row_id, rows[4].row_id, rows[5].row_id], &tombstones).expect("deleted");
    catalogue.archive_tombstones(&[rows[4].id, rows[5].id], SetId([1; 16])).expect("archived");
    // The second end is that of a segment in which nothing was acknowledged yet.
    let ends = [99, 100].map(|segment| SegmentEnd { segment, bytes: 640 }).to_vec();
    catalogue.commit(&Change { ends, ..Change::default() }).expect("recorded");
    catalogue.note_released(&[50..=60, 70..=70]).expect("noted");
    catalogue.leave_out(&LEFT_OUT).expect("left out");
    let with_segments = UnlistedVersion { segments: vec![101, 102], ..unlisted(9, 1) };
    catalogue.adopt_unlisted(&[with_segments, unlisted(9, 2)]).expect("recorded");
    let checks = [(30, true), (31, false)].map(|(index, is_sound)| {
        let row = catalogue.newest(&ObjectName(format!("odd/{}/{index}", "x".repeat(index * 7 % 31)).into_bytes())).expect("looked up");
        StagedCheck { version: row.expect("a row").row_id, at: 5_000, is_sound }
    });
    catalogue.record_staged(&checks).expect("recorded");
    let repaired = Some(Repair { at: 9, found: PlatterState::Missing, lost_sectors: 3 });
    let health = Health { bad_headers: 1, last_intact: Some(7), unreadable: Some(8), repaired, ..Health::intact_at(6) };
    catalogue.record_health(platter(1, 1), health).expect("recorded");
    catalogue.note_staging_mark().expect("noted");
    for table in tables(&folder) {
        let file = Connection::open(folder.file()).expect("opened");
        let has_rows: bool = file.query_row(&format!("SELECT EXISTS (SELECT 1 FROM {table})"), [], |row| row.get(0)).expect("read");
        assert!(has_rows, "{table}");
    }
    drop(catalogue);
    folder
}

/// Platters that the catalogue of [`sample`] ignores.
const LEFT_OUT: [PlatterId; 2] = [PlatterId([0x77; 16]), PlatterId([0x78; 16])];

/// The tables of a catalogue.
fn tables(folder: &Folder) -> Vec<String> {
    let file = Connection::open(folder.file()).expect("opened");
    let mut names = file.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name").expect("prepared");
    names.query_map([], |row| row.get(0)).and_then(Iterator::collect).expect("read")
}

/// Everything that a catalogue returns.
fn all_of(catalogue: &mut dyn Catalogue) -> Result<String, CatalogueError> {
    use std::fmt::Write;
    let mut told = String::new();
    let rows = catalogue.list(b"", Versions::All, None, 1_000)?;
    for row in &rows {
        let (places, extents) = (catalogue.staged(row.row_id)?, catalogue.extents(row.row_id)?);
        let health = catalogue.staged_health(row.row_id)?;
        let (latest, of_name) = (catalogue.latest_number(&row.record.name)?, catalogue.versions_of(&row.record.name)?);
        writeln!(told, "{row:?} {places:?} {health:?} {extents:?} {latest:?} {of_name:?}").expect("a string takes all");
    }
    let newest = catalogue.list(b"", Versions::Newest, None, 1_000)?;
    let (staged, tombstones) = (catalogue.staged_versions(None, 1_000)?, catalogue.staged_tombstones()?);
    let (totals, segments) = (catalogue.totals()?, catalogue.segments_in_use()?);
    let (sets, platters) = (catalogue.sets()?, catalogue.platters()?);
    writeln!(told, "{newest:?} {staged:?} {tombstones:?} {totals:?} {segments:?} {sets:?} {platters:?}").expect("a string takes all");
    let (archived_tombstones, released) = (catalogue.archived_tombstones(None, 1_000)?, catalogue.released(0, 1_000)?);
    let (unlisted, ends) = (catalogue.unlisted(None, 1_000)?, catalogue.segment_ends()?);
    let left_out = LEFT_OUT.map(|platter| catalogue.is_left_out(platter));
    let left_out = left_out.into_iter().collect::<Result<Vec<_>, _>>()?;
    writeln!(told, "{archived_tombstones:?} {released:?} {unlisted:?} {ends:?} {left_out:?}").expect("a string takes all");
    Ok(told)
}

#[test]
fn a_flipped_bit_never_changes_the_answers_of_a_checked_catalogue() {
    let folder = sample();
    let expected = all_of(&mut *folder.open()).expect("sound");
    let sound = std::fs::read(folder.file()).expect("read");
    let mut found = 0;
    for at in (100..sound.len()).step_by(149) {
        let mut damaged = sound.clone();
        damaged[at] ^= 1 << (at % 8);
        std::fs::write(folder.file(), damaged).expect("written");
        let told = SqliteCatalogue::open(&folder.file(), ARCHIVE).and_then(|mut catalogue| {
            catalogue.check()?;
            all_of(&mut catalogue)
        });
        match told {
            // Flipped bits in free space and column names have no effect.
            Ok(told) => assert_eq!(told, expected, "byte {at}"),
            Err(error) => {
                assert!(matches!(error, CatalogueError::Damaged { .. }), "byte {at}: {error}");
                found += 1;
            }
        }
    }
    assert!(found > 20, "damage was found only {found} times");
}

#[test]
fn a_changed_cell_is_reported_as_damage_when_its_row_is_read() {
    for (table, read) in [
        ("UPDATE version SET stored_bytes = stored_bytes - 1 WHERE archived = 1", 0),
        ("UPDATE version SET archived = 1 WHERE archived = 0", 0),
        ("UPDATE version SET attributes = x'a1616140' WHERE attributes IS NULL", 0),
        ("UPDATE version SET attributes = NULL WHERE attributes IS NOT NULL", 0),
        ("UPDATE staged SET segment_offset = segment_offset + 64", 1),
        ("UPDATE extent SET platter_offset = platter_offset + 4096", 2),
        ("UPDATE segment SET live = 1", 3),
        ("UPDATE counter SET staged_bytes = 5", 4),
        ("UPDATE tombstone SET segment = 7", 5),
        ("UPDATE platter_set SET complete = 1 WHERE complete = 0", 6),
        ("UPDATE platter SET missing = 1", 7),
        ("UPDATE archived_tombstone SET set_id = zeroblob(16)", 8),
        ("UPDATE released SET first_number = first_number - 1", 9),
        ("UPDATE unlisted SET stored_bytes = 7", 10),
        ("UPDATE unlisted_segment SET segment = segment + 50", 10),
        ("UPDATE segment_end SET end_offset = end_offset + 64", 11),
        ("UPDATE left_out SET row_check = row_check + 1", 12),
    ] {
        let folder = sample();
        let mut catalogue = folder.open();
        let rows = catalogue.list(b"", Versions::All, None, 1_000).expect("listed");
        let archived = rows.iter().find(|row| row.archived).expect("there is one").row_id;
        let staged = rows.iter().find(|row| !row.archived).expect("there is one").row_id;
        Connection::open(folder.file()).and_then(|file| file.execute(table, [])).expect("changed");
        let damage = match read {
            0 => catalogue.list(b"", Versions::All, None, 1_000).err(),
            1 => catalogue.staged(staged).err(),
            2 => catalogue.extents(archived).err(),
            3 => catalogue.segments_in_use().err(),
            4 => catalogue.staged_totals().err(),
            5 => catalogue.staged_tombstones().err(),
            6 => catalogue.sets().err(),
            7 => catalogue.platters().err(),
            8 => catalogue.archived_tombstones(None, 1_000).err(),
            9 => catalogue.released(0, 1_000).err(),
            10 => catalogue.unlisted(None, 1_000).err(),
            11 => catalogue.segment_ends().err(),
            _ => catalogue.is_left_out(LEFT_OUT[0]).err(),
        };
        assert!(matches!(damage, Some(CatalogueError::Damaged { .. })), "{table}: {damage:?}");
        assert!(matches!(catalogue.check(), Err(CatalogueError::Damaged { .. })), "{table}");
    }
}

/// Each row is read by the check, not only those that other rows refer to.
#[test]
fn the_check_finds_a_changed_cell_in_any_row() {
    for changed in [
        "UPDATE segment_end SET end_offset = 64 WHERE number = 100",
        "UPDATE archived_tombstone SET set_id = zeroblob(16) WHERE id = (SELECT max(id) FROM archived_tombstone)",
        "UPDATE released SET first_number = 1 WHERE first_number = 70",
        "UPDATE released SET last_number = 71 WHERE last_number = 70",
        "UPDATE left_out SET platter = zeroblob(16) WHERE platter = (SELECT max(platter) FROM left_out)",
        "UPDATE unlisted SET why = 0 WHERE id = (SELECT max(id) FROM unlisted)",
    ] {
        let folder = sample();
        let rows = Connection::open(folder.file()).and_then(|file| file.execute(changed, [])).expect("changed");
        assert_eq!(rows, 1, "{changed}");
        let damage = folder.open().check();
        assert!(matches!(damage, Err(CatalogueError::Damaged { .. })), "{changed}: {damage:?}");
    }
}

#[test]
fn the_check_finds_missing_rows() {
    for loss in [
        "DELETE FROM staged WHERE part = 2",
        "DELETE FROM staged WHERE version = (SELECT max(version) FROM staged)",
        "DELETE FROM extent WHERE version = (SELECT max(version) FROM extent)",
        "DELETE FROM version WHERE version = 30",
        "DELETE FROM segment WHERE number = (SELECT max(number) FROM segment)",
        "DELETE FROM tombstone",
        "DELETE FROM platter_set WHERE complete = 1",
        "DELETE FROM platter WHERE set_number = 1",
        "DELETE FROM platter WHERE number = (SELECT max(number) FROM platter WHERE number NOT IN (SELECT platter FROM extent))",
        "DELETE FROM archived_tombstone WHERE id = (SELECT max(id) FROM archived_tombstone)",
        "DELETE FROM left_out WHERE platter = (SELECT max(platter) FROM left_out)",
        "DELETE FROM released WHERE last_number = 70",
        "DELETE FROM segment_end WHERE number = 99",
        "DELETE FROM segment_end WHERE number = 100",
        "DELETE FROM unlisted WHERE id = (SELECT min(id) FROM unlisted)",
        "DELETE FROM unlisted WHERE id = (SELECT max(id) FROM unlisted)",
        "DELETE FROM unlisted_segment WHERE segment = 102",
        "DELETE FROM counter",
    ] {
        let folder = sample();
        folder.open().check().expect("sound");
        let rows = Connection::open(folder.file()).and_then(|file| file.execute(loss, [])).expect("changed");
        assert!(rows > 0, "{loss}");
        let damage = folder.open().check();
        assert!(matches!(damage, Err(CatalogueError::Damaged { .. })), "{loss}: {damage:?}");
    }
}

#[test]
fn a_file_that_is_not_a_catalogue_is_reported_as_damage() {
    let folder = sample();
    let sound = std::fs::read(folder.file()).expect("read");
    let half = sound[..sound.len() / 2].to_vec();
    for content in [Vec::new(), b"no database at all, but long enough to have a header".repeat(100), half, sound[..50].to_vec()] {
        std::fs::write(folder.file(), content).expect("written");
        for open in [SqliteCatalogue::open, SqliteCatalogue::open_read_only] {
            let damage = open(&folder.file(), ARCHIVE).err();
            assert!(matches!(damage, Some(CatalogueError::Damaged { .. })), "{damage:?}");
        }
    }
    std::fs::remove_file(folder.file()).expect("removed");
    assert!(matches!(SqliteCatalogue::open(&folder.file(), ARCHIVE), Err(CatalogueError::Engine { .. })), "a missing file is not damage");
    Connection::open(folder.file()).and_then(|file| file.execute_batch("CREATE TABLE another (program)")).expect("made");
    let made = std::fs::read(folder.file()).expect("read");
    assert!(matches!(SqliteCatalogue::open(&folder.file(), ARCHIVE), Err(CatalogueError::Damaged { .. })), "made by another program");
    assert!(std::fs::read(folder.file()).expect("read") == made, "the file of another program is left unchanged");
}

#[test]
fn another_archive_and_a_newer_schema_are_rejected() {
    let folder = sample();
    let other = ArchiveId([1; 16]);
    let refused = SqliteCatalogue::open(&folder.file(), other).expect_err("refused");
    assert!(matches!(refused, CatalogueError::OtherArchive { found: ARCHIVE, expected } if expected == other), "{refused}");
    Connection::open(folder.file()).and_then(|file| file.pragma_update(None, "user_version", 99)).expect("changed");
    for open in [SqliteCatalogue::open, SqliteCatalogue::open_read_only] {
        let refused = open(&folder.file(), ARCHIVE).expect_err("refused");
        assert!(matches!(refused, CatalogueError::Newer { found: 99, known: 8 }), "{refused}");
    }
    let exists = SqliteCatalogue::create(&folder.file(), ARCHIVE);
    assert!(matches!(exists, Err(CatalogueError::Engine { .. })), "create never overwrites a file");
}

#[test]
fn readers_work_while_a_writer_commits() {
    let folder = Folder::new();
    let mut writer = folder.open();
    put(&mut *writer, ["a".to_owned()].into_iter());
    let mut reader = SqliteCatalogue::open_read_only(&folder.file(), ARCHIVE).expect("opened");
    writer.begin_set(&set(1, 3)).expect("begun");
    let row_id = only(&mut *writer, "a").row_id;
    let mut extents = std::iter::once(ArchivedExtent { version: row_id, extent: extent(1, 0, 0, 2_000) })
        .inspect(|_| assert!(!only(&mut reader, "a").archived, "readers don't see uncommitted changes"));
    writer.complete_set(SetId([1; 16]), &mut extents, 5).expect("completed");
    drop(extents);
    assert!(only(&mut reader, "a").archived, "readers see committed changes");
    let on = reader.versions_on(&[platter(1, 0)], None, 10).expect("a reader can gather, too");
    assert_eq!(on.len(), 1);
    assert!(matches!(reader.commit_delete(&[row_id], &[]), Err(CatalogueError::Engine { .. })), "a reader can't change anything");
}

#[test]
fn a_crash_within_a_transaction_leaves_nothing_of_it() {
    let folder = Folder::new();
    let mut catalogue = folder.open();
    put(&mut *catalogue, (0..500).map(|i| format!("n/{i}")));
    catalogue.begin_set(&set(1, 3)).expect("begun");
    let before = all_of(&mut *catalogue).expect("sound");
    let rows = catalogue.staged_versions(None, 400).expect("listed");
    let mut extents =
        rows.iter().map(|row| ArchivedExtent { version: row.row_id, extent: extent(1, 0, 0, 2_000) }).chain(std::iter::once_with(|| {
            let crash = folder.copy();
            assert_eq!(all_of(&mut *crash.open()).expect("sound"), before);
            panic!("the program would crash here")
        }));
    let end = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| catalogue.complete_set(SetId([1; 16]), &mut extents, 5)));
    end.expect_err("it panicked");
    assert_eq!(all_of(&mut *catalogue).expect("sound"), before);
    catalogue.check().expect("sound");
}

#[test]
fn a_torn_log_leaves_a_sound_catalogue_with_only_whole_transactions() {
    let folder = Folder::new();
    let mut catalogue = folder.open();
    let mut states = vec![all_of(&mut *catalogue).expect("sound")];
    for i in 0..20 {
        put(&mut *catalogue, (0..5).map(|j| format!("{i}/{j}")));
        states.push(all_of(&mut *catalogue).expect("sound"));
    }
    let crash = folder.copy();
    assert_eq!(all_of(&mut *crash.open()).expect("sound"), states[20], "every committed change survives");
    let log = std::fs::read(folder.log()).expect("the log is there");
    let mut reached = 0;
    for torn in (0..log.len()).step_by(6_029) {
        let crash = folder.copy();
        std::fs::write(crash.log(), &log[..torn]).expect("written");
        // If too little of the log remains, the file is not a catalogue yet.
        let Ok(mut catalogue) = SqliteCatalogue::open(&crash.file(), ARCHIVE) else { continue };
        catalogue.check().expect("sound");
        let now = all_of(&mut catalogue).expect("sound");
        let state = states.iter().position(|state| *state == now).expect("between two transactions");
        assert!(state >= reached, "a longer log never loses a transaction");
        reached = state;
    }
    assert!(reached > 10);
}

#[test]
fn no_file_contains_a_deleted_name() {
    let folder = Folder::new();
    let mut catalogue = folder.open();
    let name = |i: u64| format!("{:016x} and the rest of name {i}", i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    put(&mut *catalogue, (0..3_000).map(name));
    let rows = catalogue.list(b"", Versions::All, None, 3_000).expect("listed");
    let (lost, kept): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.row_id.0 % 3 == 0);
    catalogue.commit_delete(&lost.iter().map(|row| row.row_id).collect::<Vec<_>>(), &[]).expect("deleted");
    let raw: Vec<u8> = [folder.file(), folder.log()].iter().flat_map(|file| std::fs::read(file).expect("read")).collect();
    let there: std::collections::HashSet<&[u8]> = raw.windows(16).filter(|window| window.iter().all(u8::is_ascii_hexdigit)).collect();
    assert!(kept.iter().all(|row| there.contains(&row.record.name.0[..16])), "the search finds existing names");
    assert!(!lost.iter().any(|row| there.contains(&row.record.name.0[..16])));
}

/// Counts steps of SQLite's virtual machine: a measure of work that is the same on every computer.
fn steps(catalogue: &mut SqliteCatalogue, work: impl FnOnce(&mut SqliteCatalogue)) -> usize {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let step = move || {
        counted.fetch_add(1, Ordering::Relaxed);
        false
    };
    catalogue.connection.progress_handler(1, Some(step)).expect("set");
    work(catalogue);
    catalogue.connection.progress_handler(1, None::<fn() -> bool>).expect("reset");
    count.load(Ordering::Relaxed)
}

#[test]
fn skipping_deleted_names_takes_work_proportional_to_their_number() {
    let works: Vec<usize> = [1_000, 2_000, 4_000]
        .into_iter()
        .map(|deleted| {
            let folder = Folder::new();
            let mut catalogue = SqliteCatalogue::create(&folder.file(), ARCHIVE).expect("created");
            let mut put: Vec<_> = (1..=deleted).map(|i| version(format!("m/{i:05}"), 1, i, 10)).collect();
            put.extend((1..=deleted).map(|i| marker(format!("m/{i:05}"), 2, deleted + i)));
            put.extend((1..=20).map(|i| version(format!("n/{i:05}"), 1, 2 * deleted + i, 10)));
            catalogue.commit_put(&put).expect("put");
            steps(&mut catalogue, |catalogue| {
                let page = catalogue.list(b"", Versions::Newest, None, 20).expect("listed");
                assert!(page.len() == 20 && page[0].record.name.0 == b"n/00001");
            })
        })
        .collect();
    assert!(works[1] < works[0] * 5 / 2 && works[2] < works[1] * 5 / 2, "{works:?}");
}

type Work<'a> = &'a dyn Fn(&mut SqliteCatalogue);

fn done<T>(result: Result<T, CatalogueError>) {
    result.expect("done");
}

/// An unlisted version of a name that also has listed ones.
fn unlisted(round: u8, number: u64) -> UnlistedVersion {
    let mut id = [round; 16];
    id[..8].copy_from_slice(&number.to_be_bytes());
    let known_as = Some((ObjectName(format!("{round}/00000").into_bytes()), number));
    UnlistedVersion { id: VersionId(id), why: Unlisted::Gone, stored_bytes: 1, known_as, segments: Vec::new() }
}

#[test]
fn work_does_not_grow_with_the_catalogue() {
    let folder = Folder::new();
    let mut catalogue = SqliteCatalogue::create(&folder.file(), ARCHIVE).expect("created");
    let mut before: Option<Vec<(&str, usize)>> = None;
    for (round, count) in [(1, 500), (2, 5_000)] {
        put(&mut catalogue, (0..count).map(|i| format!("{round}/{i:05}")));
        let many: Vec<_> = (1..=count).map(|number| version(format!("{round}/many"), number, number, 10)).collect();
        catalogue.commit_put(&many).expect("put");
        let rows = catalogue.staged_versions(None, 100_000).expect("listed");
        let (rows, left) = rows.split_at(rows.len() - 100);
        let extents: Vec<_> = rows.iter().map(|row| (row.row_id, extent(round, 0, 0, row.stored_bytes))).collect();
        complete(&mut catalogue, round, &extents);
        let unlisted: Vec<_> = (1..=count).map(|number| unlisted(round, number)).collect();
        catalogue.adopt_unlisted(&unlisted).expect("recorded");
        catalogue.begin_set(&set(round + 10, 3)).expect("begun");

        let (after, staged) = (ListCursor::after_row(&rows[rows.len() / 2]), &left[0]);
        let name = ObjectName(format!("{round}/00000").into_bytes());
        let archived = only(&mut catalogue, &name.0).row_id;
        let prefix = [b'0' + round];
        // Gathers for `versions_on`, so that later pages can continue.
        catalogue.versions_on(&[platter(1, 0)], None, 1).expect("gathered");
        let extent = ArchivedExtent { version: staged.row_id, extent: extent(round + 10, 0, 0, staged.stored_bytes) };
        let works: [(&str, Work<'_>); 16] = [
            ("latest_number", &|c| done(c.latest_number(&name))),
            ("versions_of", &|c| done(c.versions_of(&name))),
            ("newest", &|c| done(c.list(b"", Versions::Newest, Some(&after), 20))),
            ("newest of a prefix", &|c| done(c.list(&prefix, Versions::Newest, None, 20))),
            ("newest of many", &|c| done(c.list(b"1/many", Versions::Newest, None, 20))),
            ("all", &|c| done(c.list(b"", Versions::All, Some(&after), 20))),
            ("staged_versions", &|c| done(c.staged_versions(None, 20))),
            ("staged_versions after", &|c| done(c.staged_versions(Some(&ListCursor::after_row(staged)), 20))),
            ("extents", &|c| done(c.extents(archived))),
            ("staged", &|c| done(c.staged(staged.row_id))),
            ("staged_totals", &|c| done(c.staged_totals())),
            ("totals", &|c| done(c.totals())),
            ("page of versions_on", &|c| done(c.versions_on(&[platter(1, 0)], Some(&after), 20))),
            ("put", &|c| done(c.commit_put(&[version("3/x", 1, round.into(), 10)]))),
            ("complete_set", &|c| done(c.complete_set(SetId([round + 10; 16]), &mut std::iter::once(extent), 5))),
            ("delete", &|c| done(c.commit_delete(&[archived], &[]))),
        ];
        let now: Vec<_> = works.into_iter().map(|(what, work)| (what, steps(&mut catalogue, work))).collect();
        for ((what, before), (_, now)) in before.replace(now.clone()).into_iter().flatten().zip(now) {
            assert!(now <= before * 2 + 100, "{what}: {before} steps became {now}");
        }
    }
}

/// The newest version must be found by one statement: between two, a commit may replace an archived
/// version by a staged one.
#[test]
fn looking_up_the_latest_number_and_the_newest_version_uses_the_indices() {
    let folder = Folder::new();
    drop(folder.open());
    let file = Connection::open(folder.file()).expect("opened");
    for (looks_up, indices) in [(listing::latest_number_statement(), (2, 1)), (listing::newest_statement(), (2, 0))] {
        let mut statement = file.prepare(&format!("EXPLAIN QUERY PLAN {looks_up}")).expect("prepared");
        let plan: Vec<String> = statement.query_map([b"n".as_slice()], |row| row.get(3)).and_then(Iterator::collect).expect("a plan");
        let searches = |index: &str| plan.iter().filter(|step| step.starts_with("SEARCH") && step.contains(index)).count();
        assert_eq!((searches("version_in_order"), searches("unlisted_by_name")), indices, "{plan:?}");
        assert!(!plan.iter().any(|step| step.contains("TEMP B-TREE")), "nothing is sorted: {plan:?}");
    }
}

#[test]
fn the_cost_of_finding_a_version_does_not_grow_with_the_versions_of_its_name() {
    let folder = Folder::new();
    let mut catalogue = SqliteCatalogue::create(&folder.file(), ARCHIVE).expect("created");
    let mut before: Option<Vec<(&str, usize)>> = None;
    for count in [150, 15_000] {
        let many = format!("{count} versions");
        let versions: Vec<_> = (1..=count).map(|number| version(&many, number, number, 10)).collect();
        let (first, last) = (versions[0].id, versions[versions.len() - 1].id);
        catalogue.commit_put(&versions).expect("put");
        let name = ObjectName(many.clone().into_bytes());
        let after = ListCursor::after_row(&catalogue.version(&name, first).expect("looked up").expect("there is one"));
        let mut null = version(&many, count + 1, count + 1, 10);
        null.record.attributes.set(NULL, "");
        let works: [(&str, Work<'_>); 8] = [
            ("newest", &|c| done(c.newest(&name))),
            ("the oldest", &|c| done(c.version(&name, first))),
            ("the newest", &|c| done(c.version(&name, last))),
            ("none of them", &|c| done(c.version(&name, VersionId([9; 16])))),
            ("latest_number", &|c| done(c.latest_number(&name))),
            ("a page after the oldest", &|c| done(c.list(b"", Versions::All, Some(&after), 1))),
            ("no null version", &|c| assert_eq!(c.null_version(&name).expect("looked up"), None)),
            ("put a null version", &|c| done(c.commit_put(std::slice::from_ref(&null)))),
        ];
        let now: Vec<_> = works.into_iter().map(|(what, work)| (what, steps(&mut catalogue, work))).collect();
        assert!(catalogue.null_version(&name).expect("looked up").is_some());
        for ((what, before), (_, now)) in before.replace(now.clone()).into_iter().flatten().zip(now) {
            assert!(now <= before * 2 + 100, "{what}: {before} steps became {now}");
        }
    }
}

#[test]
fn a_page_of_archived_tombstones_starts_at_its_cursor() {
    let folder = Folder::new();
    drop(folder.open());
    let file = Connection::open(folder.file()).expect("opened");
    let statement = format!("EXPLAIN QUERY PLAN {}", put::ARCHIVED_TOMBSTONES);
    let mut statement = file.prepare(&statement).expect("prepared");
    let plan: Vec<String> = statement.query_map((&[7_u8; 16], 20), |row| row.get(3)).and_then(Iterator::collect).expect("a plan");
    assert_eq!(plan, ["SEARCH archived_tombstone USING PRIMARY KEY (id>?)"]);
}

#[test]
fn looking_up_a_null_version_uses_its_index() {
    let folder = Folder::new();
    drop(folder.open());
    let file = Connection::open(folder.file()).expect("opened");
    let statement = format!("EXPLAIN QUERY PLAN SELECT id FROM version WHERE name = ?1 AND {}", schema::is_null_version());
    let plan: String = file.query_row(&statement, [b"n".as_slice()], |row| row.get(3)).expect("a plan");
    assert!(plan.contains("version_null"), "{plan}");
}

#[test]
fn a_log_left_by_a_crash_is_read_without_writing_any_file() {
    let folder = Folder::new();
    let mut catalogue = folder.open();
    put(&mut *catalogue, (0..40).map(|i| format!("name/{i}")));
    let crashed = folder.copy();
    assert!(crashed.log().metadata().expect("a log").len() > 0, "the versions are still in the log");
    let files = || {
        let entries = std::fs::read_dir(crashed.0.path()).expect("a folder").map(|entry| entry.expect("an entry").path());
        entries.map(|path| (path.clone(), std::fs::read(path).expect("readable"))).collect::<std::collections::BTreeMap<_, _>>()
    };
    let before = files();
    let mut still = SqliteCatalogue::open_without_writing(&crashed.file(), ARCHIVE).expect("opened");
    assert_eq!(all_of(&mut still).expect("sound"), all_of(&mut *catalogue).expect("sound"));
    assert!(files() == before, "no file was written");
}
