//! Sources that consist of volumes, and files that go before others.

use std::collections::BTreeSet;
use std::path::PathBuf;

use fulgurite_tapes::TapeLibrary;
use fulgurite_tapes::make::{BLOCK_BYTES, VolumeWriter};

use super::*;
use crate::run::inventory;

/// Files of a tape library, in an order unlike that of their names.
fn tapes(folder: &std::path::Path, drives: usize) -> (TapeLibrary, BTreeMap<String, Vec<u8>>) {
    let library = folder.join("tapes");
    std::fs::create_dir(&library).expect("made");
    let mut writer = VolumeWriter::new(library.clone(), 16 * BLOCK_BYTES);
    for number in (0..60).map(|number| number * 37 % 60) {
        let content = fulgurite_chance::noise(number + 1, 1_000 + number as usize);
        let name = format!("{}/{number:02}", number % 4);
        let read = |sink: &mut dyn FnMut(&[u8]) -> bool| {
            assert!(sink(&content));
            Ok(content.len() as u64)
        };
        writer.add(&name, content.len() as u64, read).expect("written");
    }
    assert_eq!(writer.finish().expect("finished"), 4);
    std::fs::write(library.join("library.toml"), format!("[drives]\ncount = {drives}\n[emulation]\nspeedup = 0\n")).expect("written");
    let library = TapeLibrary::open(&library).expect("a library");
    let mut files = BTreeMap::new();
    let mut connection = library.connect().expect("a connection");
    for volume in library.volumes().expect("volumes") {
        let mut names = Vec::new();
        library
            .files(&volume, &mut |file| {
                names.push(format!("{volume}/{}", file.path));
                true
            })
            .expect("an index");
        for name in names {
            let mut content = Vec::new();
            connection
                .read(&name, &mut |piece| {
                    content.extend_from_slice(piece);
                    true
                })
                .expect("read");
            files.insert(name, content);
        }
    }
    (library, files)
}

struct TapeCase {
    case: Case,
    library: TapeLibrary,
    files: BTreeMap<String, Vec<u8>>,
}

impl TapeCase {
    fn new(drives: usize) -> Self {
        let case = Case::new(&BTreeMap::new());
        let (library, files) = tapes(case.folder.path(), drives);
        let listed = inventory::list(&mut case.database(), &library, &|name| name[..1].to_owned(), &mut |_| {}).expect("listed");
        assert_eq!(listed.files, 60);
        // Drives that did nothing yet.
        let library = TapeLibrary::open(&case.folder.path().join("tapes")).expect("a library");
        Self { case, library, files }
    }

    fn run(&self, watcher: &mut dyn Watcher) -> Result<(), RunError> {
        let setup = Setup { source: Arc::new(self.library.clone()), lot_files: 4, ..self.case.setup() };
        super::super::run(&setup, &mut self.case.database(), watcher).map(drop)
    }

    fn volume(&self, number: u32) -> PathBuf {
        self.case.folder.path().join(format!("tapes/T{number:05}"))
    }

    fn loads(&self) -> u64 {
        self.library.figures().iter().map(|drive| drive.loads).sum()
    }
}

#[test]
fn each_tape_is_loaded_once_and_read_from_its_beginning_to_its_end() {
    for drives in [2, 3] {
        let tapes = TapeCase::new(drives);
        let notes = &mut Notes::default();
        tapes.run(notes).expect("it runs");
        assert_eq!(notes.failed, []);
        assert!(tapes.case.destination.files() == tapes.files);
        assert_eq!(tapes.loads(), 4);
        // Files follow each other, with the rest of a block between them.
        let back: f64 = tapes.library.figures().iter().map(|drive| drive.locating_s).sum();
        let most = 60.0 * (4.29 + 16.0 * 120.0 * BLOCK_BYTES as f64 / (200e9 / 64.0)) + 4.0 * (6.69 + 5.22 + 11.32 + 120.0);
        assert!(back < most, "{back} s of locating, not at most {most}");
        for drive in tapes.library.figures() {
            assert!(drive.bytes > 0, "each drive has work: {drive:?}");
        }
    }
}

#[test]
fn a_tape_that_can_not_be_read_fails_its_files_and_no_others() {
    let tapes = TapeCase::new(2);
    std::fs::write(tapes.volume(2).join("b"), b"").expect("cut");
    // Bytes that contradict the index.
    let blocks = std::fs::read(tapes.volume(3).join("b")).expect("blocks");
    let mut changed = blocks.clone();
    changed[0] ^= 1;
    std::fs::write(tapes.volume(3).join("b"), &changed).expect("written");
    let notes = &mut Notes::default();
    tapes.run(notes).expect("it runs");
    let lost = tapes.files.keys().filter(|name| name.starts_with("T00002/")).count() as u64;
    let given_up = |starts: &str| notes.failed.iter().filter(|failed| failed.3 && failed.0.starts_with(starts)).count() as u64;
    assert!(given_up("T00003/") == 1 && given_up("") == given_up("T00002/") + 1, "{:?}", notes.failed);
    assert!(notes.failed.iter().filter(|failed| failed.0.starts_with("T00002/")).count() >= 19);
    assert_eq!(notes.set_aside.first().map(|(volume, _)| volume.as_str()), Some("T00002"));
    let wrong = notes.failed.iter().find(|failed| failed.0.starts_with("T00003/")).expect("one");
    assert!(wrong.2.contains("wrong at the source: its sha256 is"), "{}", wrong.2);
    assert_eq!(tapes.case.destination.files().len() as u64, 60 - lost - 1);
}

#[test]
fn a_tape_on_which_all_fails_is_set_aside_and_the_others_are_migrated() {
    let tapes = TapeCase::new(2);
    // More files of it than a run tries before any has passed.
    let rows: Vec<_> = (0..40).map(|number| at_tape_1(&format!("T00001/none/{number:02}"), number)).collect();
    tapes.case.database().add(&rows, &|_| "none".to_owned()).expect("added");
    std::fs::remove_file(tapes.volume(1).join("b")).expect("removed");
    let lost = tapes.files.keys().filter(|name| name.starts_with("T00001/")).count() as u64;
    let notes = &mut Notes::default();
    tapes.run(notes).expect("it runs");
    assert!(notes.set_aside.len() == 1 && notes.set_aside[0].0 == "T00001" && notes.set_aside[0].1 >= 20, "{:?}", notes.set_aside);
    let totals = tapes.case.database().totals().expect("totals");
    assert_eq!(totals.of(State::Migrated).0, 60 - lost);
    assert!(totals.of(State::Waiting).0 > 20, "the rest waits for another run: {totals:?}");
    assert_eq!(tapes.case.destination.files().len() as u64, 60 - lost);
}

fn at_tape_1(name: &str, block: u64) -> InventoryRow {
    let position = fulgurite_places::VolumePosition { volume: "T00001".to_owned(), medium: None, block };
    InventoryRow { position: Some(position), ..row(name, 1) }
}

#[test]
fn a_recalled_file_that_failed_is_tried_again_before_others() {
    let files = some_files(2_000);
    let case = Case::new(&files);
    let names = ["4/1999".to_owned()];
    let mut database = case.database();
    database.recall(&names).expect("recalled");
    let mut offers = Offers::new(&case.setup(), LotId(0));
    let lot =
        |offers: &mut Offers, database: &mut Database, now| match offers.next(database, now, None, &BTreeSet::new()).expect("an offer") {
            Offer::Lot(lot, rows) => (lot.priority, rows),
            Offer::Later(again) => panic!("something is left: {again:?}"),
        };
    let (priority, rows) = lot(&mut offers, &mut database, 100);
    assert_eq!((priority, rows.len(), rows[0].name.as_str()), (1, 1, "4/1999"));
    offers.left(rows[0].id);
    database.record(&[(rows[0].id, Change::Retry { at: 101, reason: "x".into() })]).expect("recorded");
    assert_eq!(database.recalled_files().expect("a number"), 1);
    let (priority, rows) = lot(&mut offers, &mut database, 100);
    assert_eq!((priority, rows.len()), (0, 8));
    let (priority, rows) = lot(&mut offers, &mut database, 101);
    assert_eq!((priority, rows.len(), rows[0].name.as_str()), (1, 1, "4/1999"));
}

#[test]
fn a_file_that_is_offered_out_of_order_is_not_offered_in_order_too() {
    let case = Case::new(&some_files(40));
    let mut database = case.database();
    // An earlier run left it to be tried again.
    let name = "0/0015".to_owned();
    let id = database.in_state(State::Waiting, 0, 100).expect("rows").into_iter().find(|row| row.name == name).expect("a file").id;
    database.record(&[(id, Change::Retry { at: 1, reason: "x".into() })]).expect("recorded");
    database.recall(std::slice::from_ref(&name)).expect("recalled");
    let mut offers = Offers::new(&case.setup(), LotId(0));
    let mut offered = Vec::new();
    while let Offer::Lot(_, rows) = offers.next(&mut database, 100, None, &BTreeSet::new()).expect("an offer") {
        offered.extend(rows.into_iter().map(|row| row.name));
        // The first has arrived when the page with it is read on.
        if offered.len() > 5 {
            offers.left(id);
        }
    }
    assert_eq!(offered[0], name);
    offered.sort();
    assert!(offered.len() == 40 && offered.is_sorted_by(|before, after| before < after), "{offered:?}");
}

#[test]
fn retries_of_a_volume_that_is_set_aside_hide_no_others() {
    let case = Case::new(&BTreeMap::new());
    let mut database = case.database();
    let at = |name: &str, volume: &str| InventoryRow {
        position: Some(fulgurite_places::VolumePosition { volume: volume.to_owned(), medium: None, block: 1 }),
        ..row(name, 1)
    };
    let bad = (0..300).map(|number| at(&format!("bad/{number:03}"), "bad"));
    let rows: Vec<_> = bad.chain([at("good/1", "good"), at("other/1", "other")]).collect();
    database.add(&rows, &|_| String::new()).expect("added");
    let retries: Vec<_> = (1..=302).map(|id| (id, Change::Retry { at: id as u64, reason: "x".into() })).collect();
    database.record(&retries).expect("recorded");
    let mut offers = Offers::new(&case.setup(), LotId(0));
    assert!(offers.set_aside(1) && !offers.set_aside(1));
    // The tape in the drive comes first, and another that is in use not at all.
    let mut names = Vec::new();
    for in_use in [BTreeSet::from([2]), BTreeSet::new()] {
        while let Offer::Lot(_, rows) = offers.next(&mut database, 1_000, Some(SourceVolume(3)), &in_use).expect("an offer") {
            names.extend(rows.into_iter().map(|row| row.name));
        }
    }
    assert_eq!(names, ["other/1", "good/1"]);
    let nothing = offers.next(&mut database, 1_000, None, &BTreeSet::new()).expect("an offer");
    assert!(matches!(nothing, Offer::Later(None)), "the run can end: {nothing:?}");
}

/// Lets files go first once the run has begun, and notes which lots were offered.
struct Recalls<'a> {
    database: &'a Case,
    names: Vec<String>,
    notes: Notes,
    offered: Vec<(u8, u32)>,
}

impl Watcher for Recalls<'_> {
    fn order(&mut self) -> Order {
        Order::Run
    }

    fn stepped(&mut self, now: Micros, event: &Event, commands: &[Command], run: &Progress<'_>) -> io::Result<()> {
        if let Event::Offered { lot, .. } = event {
            self.offered.push((lot.priority, lot.files));
            let recalled = self.database.database().recall(&std::mem::take(&mut self.names)).expect("recalled");
            assert!(recalled.iter().all(Option::is_some), "{recalled:?}");
        }
        self.notes.stepped(now, event, commands, run)
    }

    fn failed(&mut self, name: &str, stage: Stage, reason: &str, is_final: bool) {
        self.notes.failed(name, stage, reason, is_final);
    }

    fn unreachable(&mut self, stage: Stage, reason: &str) {
        self.notes.unreachable(stage, reason);
    }

    fn set_aside(&mut self, volume: &str, failed: u32, reason: &str) {
        self.notes.set_aside(volume, failed, reason);
    }
}

fn recalls<'a>(case: &'a Case, names: &[&str]) -> Recalls<'a> {
    let names = names.iter().map(|&name| name.to_owned()).collect();
    Recalls { database: case, names, notes: Notes::default(), offered: Vec::new() }
}

#[test]
fn what_users_ask_for_during_a_run_goes_before_the_rest() {
    let files = some_files(500);
    let case = Case::new(&files);
    let mut watcher = recalls(&case, &["4/", "3/0498", "0/0000"]);
    super::super::run(&case.setup(), &mut case.database(), &mut watcher).expect("it runs");
    assert_eq!(watcher.notes.failed, []);
    assert!(case.destination.files() == files);
    assert!(case.destination.writes.lock().expect("locked").values().all(|&count| count == 1), "each file is written once");
    // The first lot was there before, as one for each other input may have been.
    let first = watcher.offered.iter().position(|(priority, _)| *priority == 1).expect("they go first");
    assert!(first <= 2, "{:?}", watcher.offered);
    let before: Vec<_> = watcher.offered[first..].iter().take_while(|(priority, _)| *priority == 1).collect();
    assert_eq!(before.iter().map(|(_, files)| files).sum::<u32>(), 101, "{:?}", watcher.offered);
    assert!(watcher.offered[first + before.len()..].iter().all(|(priority, _)| *priority == 0));
}

#[test]
fn a_recall_from_another_tape_leaves_and_returns() {
    let tapes = TapeCase::new(2);
    // Of a tape that no drive has begun.
    let name = tapes.files.keys().rfind(|name| name.starts_with("T00004/")).expect("a file").clone();
    let mut watcher = recalls(&tapes.case, &[&name]);
    tapes.run(&mut watcher).expect("it runs");
    assert_eq!(watcher.notes.failed, []);
    assert!(tapes.case.destination.files() == tapes.files);
    assert!(tapes.case.destination.writes.lock().expect("locked").values().all(|&count| count == 1));
    assert!(watcher.offered.iter().take(3).any(|(priority, files)| (*priority, *files) == (1, 1)), "{:?}", watcher.offered);
    // The tape that was left is loaded again; the one that was fetched is read while it is there.
    assert!(tapes.loads() <= 5, "{:?}", tapes.library.figures());
}
