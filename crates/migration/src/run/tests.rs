mod early;
mod folding;
mod outages;
mod spooled;
mod stopping;
mod together;
mod volumes;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::Read;
use std::sync::Mutex;

use fulgurite_chance::Xorshift;
use fulgurite_digest::{Algorithm, Digest, Digester};
use fulgurite_places::{Cause, Connection, Folding, Listed, Refusal};

use super::again::{self, Finding, Shared};
use super::database::{InventoryRow, State};
use super::destination::PlaceDestination;
use super::spool::Blocks;
use super::*;
use crate::journal::{self, JournalWriter, ReplayError, Replayed};
use crate::layout::{Rules, Spool, Station};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Op {
    Read,
    Write,
}

#[derive(Debug, Clone, Copy)]
enum Fault {
    Refuse(Cause),
    Panic,
    /// Other bytes of the same length.
    Flip,
}

/// A store in memory that fails as told.
#[derive(Default)]
struct Store {
    files: Mutex<BTreeMap<String, Vec<u8>>>,
    faults: Mutex<HashMap<(Op, String), VecDeque<Fault>>>,
    /// Why no connection can be opened.
    is_unusable: Mutex<Option<Cause>>,
    reads: Mutex<HashMap<String, u32>>,
    /// True if it states revisions: here, the digests of files.
    has_revisions: Mutex<bool>,
    writes: Mutex<HashMap<String, u32>>,
    /// What it doesn't distinguish in names.
    folding: Mutex<Folding>,
}

impl Store {
    fn with(files: &BTreeMap<String, Vec<u8>>) -> Arc<Self> {
        Arc::new(Self { files: Mutex::new(files.clone()), ..Self::default() })
    }

    fn fail(&self, op: Op, name: &str, faults: &[Fault]) {
        self.faults.lock().expect("locked").entry((op, name.to_owned())).or_default().extend(faults);
    }

    fn fault(&self, op: Op, name: &str) -> Option<Fault> {
        self.faults.lock().expect("locked").get_mut(&(op, name.to_owned()))?.pop_front()
    }

    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        self.files.lock().expect("locked").clone()
    }

    /// The name of the file at a location: that with which it was made.
    fn name_at(&self, location: &str) -> String {
        let folding = *self.folding.lock().expect("locked");
        if !folding.is_any() {
            return location.to_owned();
        }
        let key = folding.key(location);
        let files = self.files();
        files.into_keys().find(|name| folding.key(name) == key).unwrap_or_else(|| location.to_owned())
    }
}

struct At(Arc<Store>);

impl Place for At {
    fn connect(&self) -> Result<Box<dyn Connection>, Refusal> {
        match *self.0.is_unusable.lock().expect("locked") {
            Some(cause) => Err(Refusal::new(cause, "as told")),
            None => Ok(Box::new(At(self.0.clone()))),
        }
    }

    fn describe(&self) -> String {
        "memory".to_owned()
    }
}

impl Connection for At {
    fn length(&mut self, location: &str) -> Result<u64, Refusal> {
        let location = &self.0.name_at(location);
        let files = self.0.files.lock().expect("locked");
        files.get(location).map(|content| content.len() as u64).ok_or_else(|| Refusal::new(Cause::Missing, ""))
    }

    fn read(&mut self, location: &str, sink: &mut dyn FnMut(&[u8]) -> bool) -> Result<u64, Refusal> {
        *self.0.reads.lock().expect("locked").entry(location.to_owned()).or_default() += 1;
        let mut content = self.0.files().get(&self.0.name_at(location)).cloned().ok_or_else(|| Refusal::new(Cause::Missing, ""))?;
        match self.0.fault(Op::Read, location) {
            Some(Fault::Refuse(cause)) => return Err(Refusal::new(cause, "as told")),
            Some(Fault::Panic) => panic!("as told"),
            Some(Fault::Flip) => content[0] ^= 1,
            None => {}
        }
        for piece in content.chunks(1_000) {
            if !sink(piece) {
                return Err(Refusal::new(Cause::Abandoned, ""));
            }
        }
        Ok(content.len() as u64)
    }

    fn list(&mut self, each: &mut dyn FnMut(Listed) -> bool) -> Result<(), Refusal> {
        let _ = self.0.files().into_keys().all(|name| each(Listed::new(name, None)));
        Ok(())
    }

    fn write(&mut self, location: &str, bytes: u64, content: &mut dyn Read) -> Result<(), Refusal> {
        let mut written = Vec::new();
        content.read_to_end(&mut written).expect("spooled content can be read");
        assert_eq!(written.len() as u64, bytes);
        match self.0.fault(Op::Write, location) {
            Some(Fault::Refuse(cause)) => return Err(Refusal::new(cause, "as told")),
            Some(Fault::Panic) => panic!("as told"),
            Some(Fault::Flip) => written[0] ^= 1,
            None => {}
        }
        // A probe isn't a file of the migration.
        if !location.starts_with(".fulgurite-part-") {
            *self.0.writes.lock().expect("locked").entry(location.to_owned()).or_default() += 1;
        }
        let name = self.0.name_at(location);
        self.0.files.lock().expect("locked").insert(name, written);
        Ok(())
    }

    fn revision(&mut self, location: &str) -> Result<Option<String>, Refusal> {
        if !*self.0.has_revisions.lock().expect("locked") {
            return Ok(None);
        }
        let content = self.0.files().get(location).cloned().ok_or_else(|| Refusal::new(Cause::Missing, ""))?;
        Ok(Some(digest(Algorithm::Sha256, &content).hex()))
    }

    fn remove(&mut self, location: &str) -> Result<(), Refusal> {
        let name = self.0.name_at(location);
        self.0.files.lock().expect("locked").remove(&name);
        Ok(())
    }

    fn presigned_url(&mut self, _: &str, _: Duration) -> Result<Option<String>, Refusal> {
        Ok(None)
    }
}

/// Records what a run reports, and can end it after some steps.
#[derive(Default)]
struct Notes {
    steps_left: Option<u32>,
    orders: VecDeque<Order>,
    failed: Vec<(String, Stage, String, bool)>,
    journal: Option<JournalWriter<Vec<u8>>>,
    unreachable: u32,
    set_aside: Vec<(String, u32)>,
    spooled_max: u64,
}

impl Watcher for Notes {
    fn order(&mut self) -> Order {
        if self.orders.len() > 1 { self.orders.pop_front().expect("several") } else { self.orders.front().copied().unwrap_or(Order::Run) }
    }

    fn stepped(&mut self, now: Micros, event: &Event, commands: &[Command], run: &Progress<'_>) -> io::Result<()> {
        if let Event::Offered { stream, lot } = event
            && let Some(volume) = lot.volume
        {
            assert!(run.pipeline.volumes_in_use(*stream).all(|other| other != volume), "two streams have {volume:?}");
        }
        self.journal.as_mut().map_or(Ok(()), |journal| journal.step(now, event, commands))?;
        self.spooled_max = self.spooled_max.max(run.pipeline.spooled_bytes().sum());
        match &mut self.steps_left {
            Some(0) => Err(io::Error::other("killed")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn failed(&mut self, name: &str, stage: Stage, reason: &str, is_final: bool) {
        self.failed.push((name.to_owned(), stage, reason.to_owned(), is_final));
    }

    fn unreachable(&mut self, _: Stage, _: &str) {
        self.unreachable += 1;
    }

    fn set_aside(&mut self, volume: &str, failed: u32, _: &str) {
        self.set_aside.push((volume.to_owned(), failed));
    }
}

struct Case {
    folder: tempfile::TempDir,
    source: Arc<Store>,
    destination: Arc<Store>,
    lot_files: usize,
    spool_bytes: u64,
    on_disk: bool,
    is_exclusive: bool,
}

impl Case {
    fn new(files: &BTreeMap<String, Vec<u8>>) -> Self {
        let case = Self {
            folder: tempfile::tempdir().expect("a folder"),
            source: Store::with(files),
            destination: Arc::default(),
            lot_files: 8,
            spool_bytes: 100_000,
            on_disk: false,
            is_exclusive: false,
        };
        let rows: Vec<InventoryRow> = files.iter().map(|(name, content)| row(name, content.len() as u64)).collect();
        case.add(&rows);
        case
    }

    fn database(&self) -> Database {
        Database::open(&self.folder.path().join("state.db")).expect("a database")
    }

    fn add(&self, rows: &[InventoryRow]) {
        self.database().add(rows, &|name| name.split('/').next().unwrap_or_default().to_owned()).expect("added");
    }

    fn run(&self, notes: &mut Notes) -> Result<(), RunError> {
        super::run(&self.setup(), &mut self.database(), notes).map(drop)
    }

    fn setup(&self) -> Setup {
        let volume = |number: u32| match self.on_disk {
            true => SpoolVolume::Folder(self.folder.path().join(format!("spool{number}"))),
            false => SpoolVolume::Memory(Blocks::default()),
        };
        let spool = Spool { bytes: self.spool_bytes, is_exclusive: self.is_exclusive, is_reserve: false };
        let station = Station { name: "here".into(), inputs: 2, outputs: 2, scans: 2, spools: vec![spool; 2] };
        Setup {
            layout: Layout { stations: vec![station], rules: Rules { families_together: false, ..Rules::default() } },
            volumes: vec![volume(1), volume(2)],
            lot_files: self.lot_files,
            lot_bytes: 50_000,
            tries: 2,
            retry_after: Duration::from_secs(1),
            source: Arc::new(At(self.source.clone())),
            destination: Arc::new(PlaceDestination::new(Arc::new(At(self.destination.clone())))),
        }
    }

    fn all_arrived(&self) {
        let (notes, files) = (&mut Notes::default(), self.source.files());
        self.run(notes).expect("it runs");
        assert_eq!(notes.failed, []);
        assert!(self.destination.files() == files);
        assert_eq!(self.database().totals().expect("totals").of(State::Migrated).0, files.len() as u64);
    }
}

fn row(name: &str, bytes: u64) -> InventoryRow {
    InventoryRow::new(Listed::new(name.to_owned(), None), bytes)
}

fn some_files(count: u64) -> BTreeMap<String, Vec<u8>> {
    let mut noise = Xorshift::new(count);
    let file = |number: u64| (format!("{}/{number:04}", number % 5), fulgurite_chance::noise(number, noise.below(3_000) + 1));
    (0..count).map(file).collect()
}

fn digest(algorithm: Algorithm, content: &[u8]) -> Digest {
    let mut digester = Digester::new(&[algorithm]);
    digester.update(content);
    digester.finish().remove(0)
}

#[test]
fn everything_arrives_through_spools_in_memory_and_on_disk() {
    for on_disk in [false, true] {
        let case = Case { on_disk, is_exclusive: on_disk, ..Case::new(&some_files(500)) };
        case.all_arrived();
        let writes = case.destination.writes.lock().expect("locked");
        assert!(writes.len() == 500 && writes.values().all(|&count| count == 1));
    }
}

#[test]
fn empty_files_arrive_too() {
    let files = BTreeMap::from([("a/empty".to_owned(), Vec::new()), ("a/one".to_owned(), b"1".to_vec())]);
    Case::new(&files).all_arrived();
}

#[test]
fn a_file_that_fails_fails_alone_and_is_named() {
    let case = Case::new(&some_files(60));
    let names: Vec<String> = case.source.files().into_keys().collect();
    case.source.files.lock().expect("locked").remove(&names[3]);
    case.source.fail(Op::Read, &names[10], &[Fault::Refuse(Cause::Fault)]);
    case.destination.fail(Op::Write, &names[20], &[Fault::Refuse(Cause::Denied), Fault::Refuse(Cause::Denied)]);
    let notes = &mut Notes::default();
    case.run(notes).expect("it runs");
    let of = |name: &str| notes.failed.iter().filter(|failed| failed.0 == name).map(|failed| (failed.1, failed.3)).collect::<Vec<_>>();
    // The source says that it isn't there: no other attempt helps.
    assert_eq!(of(&names[3]), [(Stage::Input, true)]);
    assert_eq!(of(&names[10]), [(Stage::Input, false)]);
    assert_eq!(of(&names[20]), [(Stage::Output, false), (Stage::Output, true)]);
    let totals = case.database().totals().expect("totals");
    assert_eq!((totals.of(State::Migrated).0, totals.of(State::Failed).0), (58, 2));
    let failed = case.database().in_state(State::Failed, 0, 10).expect("rows");
    assert!(failed[0].reason.as_deref().is_some_and(|reason| reason.contains("no longer at the source")), "{failed:?}");
    // The operator lets them be tried again.
    case.database().retry_failed().expect("retried");
    case.source.files.lock().expect("locked").insert(names[3].clone(), fulgurite_chance::noise(1, failed[0].bytes as usize));
    case.all_arrived();
}

#[test]
fn files_that_were_removed_from_the_source_fail_at_once_however_many_and_may_return() {
    let files = some_files(100);
    let case = Case::new(&files);
    // More than the failures in a row that stop a run, and the first ones.
    let removed: Vec<&String> = files.keys().take(60).collect();
    let taken: BTreeMap<_, _> = {
        let mut all = case.source.files.lock().expect("locked");
        removed.iter().map(|name| ((*name).clone(), all.remove(*name).expect("a file"))).collect()
    };
    let notes = &mut Notes::default();
    case.run(notes).expect("it runs");
    assert!(notes.failed.len() == 60 && notes.failed.iter().all(|(.., is_final)| *is_final), "{:?}", notes.failed);
    assert_eq!(case.database().totals().expect("totals").of(State::Migrated).0, 40);
    // A later inventory finds some of them.
    case.source.files.lock().expect("locked").extend(taken.clone().into_iter().take(10));
    case.add(&taken.iter().take(10).map(|(name, content)| row(name, content.len() as u64)).collect::<Vec<_>>());
    case.run(&mut Notes::default()).expect("it runs");
    let totals = case.database().totals().expect("totals");
    assert_eq!((totals.of(State::Migrated).0, totals.of(State::Failed).0), (50, 50));
}

#[test]
fn a_source_without_any_known_file_is_absent_and_no_file_is_given_up() {
    let files = some_files(100);
    // As on a server whose disk isn't mounted; another disk has files, too.
    for others in [BTreeMap::new(), BTreeMap::from([("other".to_owned(), vec![1])])] {
        let case = Case::new(&files);
        *case.source.files.lock().expect("locked") = others;
        let notes = &mut Notes::default();
        assert!(matches!(case.run(notes), Err(RunError::AllFail { count: FIRST_FAILURES_MAX, stage: Stage::Input, .. })));
        assert!(notes.failed.iter().all(|(.., is_final)| !is_final), "{:?}", notes.failed);
        assert_eq!(case.database().totals().expect("totals").of(State::Failed).0, 0);
        *case.source.files.lock().expect("locked") = files.clone();
        case.all_arrived();
    }
}

#[test]
fn what_contradicts_the_inventory_is_not_migrated() {
    let files = some_files(20);
    let case = Case::new(&files);
    let names: Vec<&String> = files.keys().collect();
    let expect = |name: &String, content: &[u8]| (name.clone(), digest(Algorithm::Md5, content));
    let digests = [expect(names[0], &files[names[0]]), expect(names[1], b"other"), expect(names[2], &files[names[2]])];
    assert_eq!(case.database().add_digests(&digests, &|_| String::new()).expect("added").known, 3);
    // A fault of a connection isn't taken for a fault of a file.
    case.source.fail(Op::Read, names[2], &[Fault::Flip]);
    case.source.files.lock().expect("locked").get_mut(names[3]).expect("a file").push(1);
    case.source.files.lock().expect("locked").get_mut(names[4]).expect("a file").pop();
    let notes = &mut Notes::default();
    case.run(notes).expect("it runs");
    let mut failed: Vec<_> = notes.failed.iter().map(|(name, stage, reason, is_final)| (name, *stage, reason.clone(), *is_final)).collect();
    failed.sort();
    let expected = [(names[1], "wrong at the source: its md5 is"), (names[3], "more than"), (names[4], "bytes, and the inventory says")];
    assert_eq!(failed.len(), 3, "{failed:?}");
    for ((name, stage, reason, is_final), (expected, says)) in failed.iter().zip(expected) {
        assert!(*name == expected && *stage == Stage::Input && reason.contains(says) && *is_final, "{name} {reason}");
        assert!(!case.destination.files().contains_key(*name));
    }
    assert_eq!(case.database().totals().expect("totals").of(State::Migrated).0, 17);
}

#[test]
fn what_the_destination_returns_is_what_was_read_or_is_written_again() {
    let files = some_files(20);
    let case = Case::new(&files);
    let names: Vec<&String> = files.keys().collect();
    case.destination.fail(Op::Read, names[0], &[Fault::Flip]);
    case.destination.fail(Op::Write, names[1], &[Fault::Flip]);
    case.destination.fail(Op::Write, names[2], &[Fault::Flip, Fault::Flip]);
    let notes = &mut Notes::default();
    case.run(notes).expect("it runs");
    let mut failed: Vec<_> = notes.failed.iter().map(|failed| (&failed.0, failed.1, failed.3)).collect();
    failed.sort();
    assert_eq!(failed, [(names[1], Stage::Scan, false), (names[2], Stage::Scan, false), (names[2], Stage::Scan, true)]);
    let mut arrived = case.destination.files();
    arrived.remove(names[2]);
    assert!(arrived.iter().all(|(name, content)| files[name] == *content));
    assert_eq!(case.database().totals().expect("totals").of(State::Migrated).0, 19);
}

#[test]
fn a_place_that_is_away_costs_no_file_an_attempt() {
    let files = some_files(30);
    let case = Case::new(&files);
    for name in files.keys().take(2) {
        case.source.fail(Op::Read, name, &[Fault::Refuse(Cause::Connection)]);
        case.destination.fail(Op::Write, name, &[Fault::Refuse(Cause::Throttled { retry_after: None })]);
    }
    let notes = &mut Notes::default();
    case.run(notes).expect("it runs");
    assert_eq!(notes.failed, []);
    assert!(notes.unreachable >= 2 && case.destination.files() == files);
}

#[test]
fn files_that_the_migration_did_not_write_are_not_replaced() {
    let files = some_files(20);
    let case = Case::new(&files);
    let names: Vec<&String> = files.keys().collect();
    case.destination.files.lock().expect("locked").insert(names[0].clone(), files[names[0]].clone());
    case.destination.files.lock().expect("locked").insert(names[1].clone(), b"mine".to_vec());
    let notes = &mut Notes::default();
    case.run(notes).expect("it runs");
    assert_eq!(notes.failed.len(), 1);
    assert!(notes.failed[0].0 == *names[1] && notes.failed[0].2.contains("another file of this name") && notes.failed[0].3);
    assert_eq!(case.destination.files()[names[1]], b"mine");
    assert!(!case.destination.writes.lock().expect("locked").contains_key(names[0]), "the same content counts as written");
    assert_eq!(case.database().totals().expect("totals").of(State::Migrated).0, 19);
}

#[test]
fn a_file_larger_than_every_spool_volume_fails_alone_and_spools_are_bounded() {
    let mut files = some_files(200);
    files.insert("0/large".to_owned(), vec![7; 20_001]);
    let case = Case { spool_bytes: 20_000, ..Case::new(&files) };
    let notes = &mut Notes::default();
    case.run(notes).expect("it runs");
    assert!(notes.failed.len() == 1 && notes.failed[0].2.contains("20001 bytes are more than"), "{:?}", notes.failed);
    assert!(notes.spooled_max > 10_000 && notes.spooled_max <= 40_000, "{}", notes.spooled_max);
    assert_eq!(case.database().totals().expect("totals").of(State::Migrated).0, 200);
}

#[test]
fn if_everything_fails_the_run_stops_and_files_wait() {
    let files = some_files(1_000);
    let case = Case::new(&files);
    for name in files.keys() {
        case.source.fail(Op::Read, name, &[Fault::Refuse(Cause::Denied)]);
    }
    let error = case.run(&mut Notes::default()).expect_err("nothing can be read");
    assert!(matches!(&error, RunError::AllFail { stage: Stage::Input, reason, .. } if reason.contains("access denied")), "{error}");
    let totals = case.database().totals().expect("totals");
    assert!(totals.of(State::Waiting).0 == 1_000 && totals.of(State::Failed).0 == 0);
}

#[test]
fn a_stopped_run_lets_lots_arrive_and_another_goes_on() {
    let case = Case { lot_files: 1, ..Case::new(&some_files(300)) };
    let mut orders = VecDeque::from(vec![Order::Run; 20]);
    orders.extend([Order::Pause, Order::Pause, Order::Run, Order::Run, Order::Stop]);
    let notes = &mut Notes { orders, ..Notes::default() };
    case.run(notes).expect("it stops");
    let totals = case.database().totals().expect("totals");
    assert!(totals.of(State::Migrated).0 > 0 && totals.of(State::Written).0 == 0 && totals.of(State::Waiting).0 > 0, "{totals:?}");
    case.all_arrived();
    assert!(case.destination.writes.lock().expect("locked").values().all(|&count| count == 1));
}

#[test]
fn a_run_that_is_killed_at_any_step_loses_nothing_and_counts_nothing_twice() {
    let files = some_files(400);
    let mut noise = Xorshift::new(99);
    let case = Case { lot_files: 2, ..Case::new(&files) };
    let mut kills = 0;
    for _ in 0..100 {
        let notes = &mut Notes { steps_left: Some(noise.below(25) as u32), ..Notes::default() };
        match case.run(notes) {
            Err(RunError::Watcher(_)) => kills += 1,
            other => other.expect("it runs"),
        }
        let totals = case.database().totals().expect("totals");
        assert_eq!(totals.all(), (400, files.values().map(|content| content.len() as u64).sum()));
        // What counts as migrated is there.
        for row in case.database().migrated_by_name("", 1_000).expect("rows") {
            assert!(case.destination.files()[&row.name] == files[&row.name]);
        }
    }
    case.all_arrived();
    assert!(kills > 40, "{kills}");
    // Each kill loses at most the lots that inputs and outputs had.
    let writes: u32 = case.destination.writes.lock().expect("locked").values().sum();
    assert!(writes <= 400 + kills * 2 * 2, "{writes} writes for {kills} kills");
}

#[test]
fn a_scan_finds_what_the_destination_lost_and_a_run_migrates_it_again() {
    let files = some_files(50);
    let case = Case::new(&files);
    case.all_arrived();
    let names: Vec<&String> = files.keys().collect();
    case.destination.files.lock().expect("locked").remove(names[1]);
    case.destination.files.lock().expect("locked").get_mut(names[2]).expect("a file")[0] ^= 1;
    // A connection fault isn't a file fault.
    case.destination.fail(Op::Read, names[3], &[Fault::Flip]);
    case.destination.fail(Op::Read, names[4], &[Fault::Refuse(Cause::Connection), Fault::Refuse(Cause::Connection)]);
    let destination = PlaceDestination::new(Arc::new(At(case.destination.clone())));
    let mut told = Vec::new();
    let mut tell = |row: &FileRow, finding: &Finding| {
        if *finding != Finding::Good {
            told.push((row.name.clone(), finding.clone()));
        }
        true
    };
    let findings = again::scan(&mut case.database(), &destination, 3, 1, &mut tell).expect("scanned");
    assert_eq!((findings.good.0, findings.wrong, findings.unknown, findings.gone), (47, 2, 1, 0), "{told:?}");
    assert!(told.iter().all(|(name, finding)| (name == names[4]) == matches!(finding, Finding::Unknown(_))), "{told:?}");
    case.all_arrived();
    let findings = again::scan(&mut case.database(), &destination, 3, 1, &mut |_, _| true).expect("scanned");
    assert_eq!(findings.good.0, 50);
}

#[test]
fn a_file_that_has_rotted_at_the_source_is_not_migrated_over_the_damaged_copy() {
    let case = Case::new(&some_files(30));
    case.all_arrived();
    let files = case.source.files();
    let names: Vec<&String> = files.keys().collect();
    let flip = |store: &Store, name: &String| store.files.lock().expect("locked").get_mut(name).expect("a file")[0] ^= 1;
    let destination = PlaceDestination::new(Arc::new(At(case.destination.clone())));
    flip(&case.destination, names[1]);
    flip(&case.source, names[1]);
    again::scan(&mut case.database(), &destination, 2, 1, &mut |_, _| true).expect("scanned");
    let notes = &mut Notes::default();
    case.run(notes).expect("it runs");
    let [(name, Stage::Input, reason, true)] = &notes.failed[..] else { panic!("{:?}", notes.failed) };
    let before = digest(Algorithm::Sha256, &files[names[1]]).hex();
    assert!(name == names[1] && reason.starts_with(&format!("wrong at the source: it was read with SHA-256 {before} before")), "{reason}");
    // A list says which content is right.
    let right = digest(Algorithm::Sha256, &case.source.files()[names[1]]);
    assert_eq!(case.database().add_digests(&[(names[1].clone(), right)], &|_| String::new()).expect("added").corrected, 1);
    case.all_arrived();
}

#[test]
fn only_what_is_still_as_it_was_migrated_is_released() {
    let files = some_files(50);
    let case = Case::new(&files);
    case.all_arrived();
    let names: Vec<&String> = files.keys().collect();
    let source = At(case.source.clone());
    let destination = PlaceDestination::new(Arc::new(At(case.destination.clone())));
    let mut database = case.database();
    let migrated = |database: &Database| database.totals().expect("totals").of(State::Migrated).0;
    // The hold time isn't over.
    again::release(&mut database, &source, &destination, 3, 1_000, &mut |_, _| true).expect("released");
    assert!(migrated(&database) == 50 && case.source.files() == files);
    case.source.files.lock().expect("locked").insert(names[1].clone(), b"newer".to_vec());
    case.source.files.lock().expect("locked").remove(names[2]);
    let findings = again::release(&mut database, &source, &destination, 3, u64::MAX >> 1, &mut |_, _| true).expect("released");
    assert_eq!((findings.good.0, findings.gone, findings.wrong, findings.unknown), (48, 1, 1, 0));
    assert_eq!(case.source.files().into_keys().collect::<Vec<_>>(), [names[1].clone()], "what changed stays");
    assert_eq!((migrated(&database), database.totals().expect("totals").of(State::Released).0), (1, 49));
    // A file that the destination has lost stays at the source.
    let case = Case::new(&files);
    case.all_arrived();
    case.destination.files.lock().expect("locked").remove(names[7]);
    let (source, kept) = (At(case.source.clone()), PlaceDestination::new(Arc::new(At(case.destination.clone()))));
    let findings = again::release(&mut case.database(), &source, &kept, 3, u64::MAX >> 1, &mut |_, _| true).expect("released");
    assert_eq!((findings.good.0, findings.wrong), (49, 1));
    assert_eq!(case.source.files().into_keys().collect::<Vec<_>>(), [names[7].clone()]);
    // What was released is still part of the certificate, and is scanned.
    let list = case.folder.path().join("list");
    let certificate = certificate::write_list(&database, &list).expect("written");
    assert_eq!(certificate.files, 50);
    let text = std::fs::read_to_string(&list).expect("a list");
    assert_eq!(digest(Algorithm::Sha256, text.as_bytes()), certificate.list_sha256);
    let expected: String = files.iter().map(|(name, content)| format!("{}  {name}\n", digest(Algorithm::Sha256, content).hex())).collect();
    assert_eq!(text, expected);
    assert_eq!(again::scan(&mut database, &destination, 2, 1, &mut |_, _| true).expect("scanned").good.0, 50);
}

#[test]
fn a_release_of_places_that_are_one_ends_after_the_smallest_file_and_puts_it_back() {
    let files = some_files(50);
    let case = Case::new(&files);
    case.all_arrived();
    let one = case.destination.clone();
    let destination = PlaceDestination::new(Arc::new(At(one.clone())));
    let findings = again::release(&mut case.database(), &At(one.clone()), &destination, 3, u64::MAX >> 1, &mut |_, _| true);
    let smallest = files.iter().min_by_key(|(_, content)| content.len()).expect("a file").0;
    assert_eq!(findings.expect("released").shared, Some(Shared { name: smallest.clone(), is_back: true }));
    assert!(one.files() == files);
    assert_eq!(case.database().totals().expect("totals").of(State::Migrated).0, 50);
}

#[test]
fn a_journal_replays_to_the_same_commands() {
    let files = some_files(300);
    let case = Case::new(&files);
    let names: Vec<&String> = files.keys().collect();
    case.source.fail(Op::Read, names[5], &[Fault::Refuse(Cause::Fault)]);
    case.destination.fail(Op::Write, names[9], &[Fault::Flip]);
    let journal = JournalWriter::begin(Vec::new(), &case.setup().layout).expect("begun");
    let orders = VecDeque::from([Order::Run, Order::Pause, Order::Run]);
    let notes = &mut Notes { journal: Some(journal), orders, ..Notes::default() };
    case.run(notes).expect("it runs");
    let written = notes.journal.take().expect("a journal").into_inner();
    let lines = written.iter().filter(|&&byte| byte == b'\n').count() as u64;
    assert_eq!(journal::replay(&written[..]).expect("replayed"), Replayed { steps: lines - 1, has_ended: true });
    // A kill cuts the last line.
    let cut = journal::replay(&written[..written.len() - 5]).expect("replayed");
    assert_eq!(cut, Replayed { steps: lines - 2, has_ended: false });
    let text = String::from_utf8(written).expect("text");
    let changed = text.replacen("\"Read\":{\"stream\":0", "\"Read\":{\"stream\":1", 1);
    assert!(matches!(journal::replay(changed.as_bytes()), Err(ReplayError::Differs { .. })) && changed != text);
}

#[test]
fn an_absent_destination_is_not_taken_for_lost_files() {
    let files = some_files(30);
    let case = Case::new(&files);
    case.all_arrived();
    let kept = std::mem::take(&mut *case.destination.files.lock().expect("locked"));
    let destination = PlaceDestination::new(Arc::new(At(case.destination.clone())));
    let findings = again::scan(&mut case.database(), &destination, 2, 1, &mut |_, _| true).expect("scanned");
    assert!(findings.is_absent && case.database().totals().expect("totals").of(State::Migrated).0 == 30);
    case.add(&[row("new", 3)]);
    let error = case.run(&mut Notes::default()).expect_err("it is absent");
    assert!(matches!(error, RunError::DestinationAbsent(20)) && case.destination.files().is_empty(), "{error}");
    *case.destination.files.lock().expect("locked") = kept;
    case.source.files.lock().expect("locked").insert("new".into(), b"new".to_vec());
    case.all_arrived();
    // Even if every file has other bytes, the destination is there.
    let changed = Case::new(&BTreeMap::from([("only".to_owned(), b"one".to_vec())]));
    changed.all_arrived();
    changed.destination.files.lock().expect("locked").insert("only".into(), b"two".to_vec());
    let there = PlaceDestination::new(Arc::new(At(changed.destination.clone())));
    let findings = again::scan(&mut changed.database(), &there, 1, 1, &mut |_, _| true).expect("scanned");
    assert!(findings.wrong == 1 && !findings.is_absent);
    // A released file that the destination loses is recorded as lost.
    let source = At(case.source.clone());
    again::release(&mut case.database(), &source, &destination, 2, u64::MAX >> 1, &mut |_, _| true).expect("released");
    case.destination.files.lock().expect("locked").remove("new");
    // Once, though it is among the failed files before the scan has ended.
    let findings = again::scan(&mut case.database(), &destination, 2, 1, &mut |_, _| true).expect("scanned");
    assert_eq!((findings.good.0, findings.wrong), (30, 1));
    let failed = case.database().in_state(State::Failed, 0, 9).expect("rows");
    assert!(
        failed.len() == 1 && failed[0].reason.as_deref().is_some_and(|reason| reason.starts_with("released from the source")),
        "{failed:?}"
    );
}

#[test]
fn many_wrong_files_do_not_stop_the_others() {
    let files = some_files(900);
    let case = Case { lot_files: 300, ..Case::new(&files) };
    let digests: Vec<(String, Digest)> = files.keys().step_by(2).map(|name| (name.clone(), digest(Algorithm::Md5, b"other"))).collect();
    case.database().add_digests(&digests, &|_| String::new()).expect("added");
    case.run(&mut Notes::default()).expect("it runs");
    let totals = case.database().totals().expect("totals");
    assert_eq!((totals.of(State::Migrated).0, totals.of(State::Failed).0), (450, 450));
}

#[test]
fn a_place_that_can_not_be_used_ends_the_run_and_no_file_is_given_up() {
    let files = some_files(100);
    for is_source in [true, false] {
        let case = Case::new(&files);
        let place = if is_source { &case.source } else { &case.destination };
        *place.is_unusable.lock().expect("locked") = Some(Cause::Unsupported);
        let error = case.run(&mut Notes::default()).expect_err("it can't be used");
        assert!(matches!(&error, RunError::Unusable { reason, .. } if reason == "as told"), "{error}");
        assert_eq!(case.database().totals().expect("totals").of(State::Waiting).0, 100);
        *place.is_unusable.lock().expect("locked") = None;
        case.all_arrived();
    }
}

#[test]
fn a_panic_of_a_stream_ends_the_run() {
    let files = some_files(100);
    let case = Case::new(&files);
    let name = files.keys().nth(50).expect("a file");
    case.source.fail(Op::Read, name, &[Fault::Panic]);
    assert!(matches!(case.run(&mut Notes::default()), Err(RunError::Panicked)));
    case.all_arrived();
}

#[test]
fn a_file_whose_connection_always_fails_does_not_hold_its_stream() {
    let files = some_files(40);
    let case = Case { lot_files: 1, ..Case::new(&files) };
    let name = files.keys().next().expect("a file");
    case.source.fail(Op::Read, name, &[Fault::Refuse(Cause::TimedOut); 20]);
    let notes = &mut Notes::default();
    case.run(notes).expect("it runs");
    assert!(!notes.failed.is_empty() && notes.failed.iter().all(|failed| failed.0 == *name), "{:?}", notes.failed);
    assert_eq!(case.database().totals().expect("totals").of(State::Migrated).0, 39);
}

#[test]
fn a_file_that_failed_with_the_clock_ahead_is_tried_again_by_the_next_run() {
    let case = Case::new(&some_files(5));
    let far = Change::Retry { at: u64::MAX / 4, reason: "cut".into() };
    case.database().record(&[(1, far)]).expect("recorded");
    case.all_arrived();
}

#[test]
fn time_goes_on_while_the_clock_is_behind() {
    let instant = |last, passed, clock| next_instant(Micros(last), Micros(passed), Micros(clock)).0;
    assert_eq!((instant(0, 5, 100), instant(100, 5, 106), instant(100, 5, 3), instant(105, 5, 8)), (100, 106, 105, 110));
}
