//! Places that send and take several files with one request.

use std::sync::atomic::{AtomicUsize, Ordering};

use fulgurite_places::NewContent;

use super::*;

/// Files of one request.
const FILES: usize = 3;

/// Requests for several files, and the files in them.
#[derive(Default)]
struct Requests {
    reads: AtomicUsize,
    read: AtomicUsize,
    writes: AtomicUsize,
    written: AtomicUsize,
    /// Requests that get no answer.
    silent: AtomicUsize,
}

impl Requests {
    fn answer(&self) -> Result<(), Refusal> {
        let is_silent = self.silent.try_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok();
        if is_silent { Err(Refusal::new(Cause::TimedOut, "as told")) } else { Ok(()) }
    }
}

/// A store that also sends and takes files together. A file that can't be read is left out, and one
/// that can't be written is refused.
struct Together {
    store: Arc<Store>,
    requests: Arc<Requests>,
    alone: At,
    ahead: HashMap<String, Vec<u8>>,
}

impl Together {
    fn new(store: &Arc<Store>, requests: &Arc<Requests>) -> Self {
        Self { store: store.clone(), requests: requests.clone(), alone: At(store.clone()), ahead: HashMap::new() }
    }
}

impl Place for Together {
    fn connect(&self) -> Result<Box<dyn Connection>, Refusal> {
        self.alone.connect()?;
        Ok(Box::new(Self::new(&self.store, &self.requests)))
    }

    fn describe(&self) -> String {
        "memory".to_owned()
    }
}

impl Connection for Together {
    fn length(&mut self, location: &str) -> Result<u64, Refusal> {
        self.alone.length(location)
    }

    fn read(&mut self, location: &str, sink: &mut dyn FnMut(&[u8]) -> bool) -> Result<u64, Refusal> {
        match self.ahead.remove(location) {
            Some(content) if sink(&content) => Ok(content.len() as u64),
            Some(_) => Err(Refusal::new(Cause::Abandoned, "")),
            None => self.alone.read(location, sink),
        }
    }

    fn read_ahead(&mut self, files: &mut dyn Iterator<Item = (&str, u64)>) -> Result<usize, Refusal> {
        self.ahead.clear();
        self.requests.reads.fetch_add(1, Ordering::Relaxed);
        self.requests.answer()?;
        let mut count = 0;
        for (location, _) in files.take(FILES) {
            let mut content = Vec::new();
            let read = self.alone.read(location, &mut |piece| {
                content.extend_from_slice(piece);
                true
            });
            if read.is_ok() {
                self.requests.read.fetch_add(1, Ordering::Relaxed);
                self.ahead.insert(location.to_owned(), content);
            }
            count += 1;
        }
        Ok(count)
    }

    fn list(&mut self, each: &mut dyn FnMut(Listed) -> bool) -> Result<(), Refusal> {
        self.alone.list(each)
    }

    fn write(&mut self, location: &str, bytes: u64, content: &mut dyn Read) -> Result<(), Refusal> {
        self.alone.write(location, bytes, content)
    }

    fn write_new_together(&mut self, files: &mut dyn Iterator<Item = NewContent<'_>>) -> Vec<Result<(), Refusal>> {
        self.requests.writes.fetch_add(1, Ordering::Relaxed);
        let answer = self.requests.answer();
        let write = |mut file: NewContent<'_>| match self.alone.length(file.location) {
            Ok(_) => Err(Refusal::new(Cause::Exists, file.location)),
            Err(_) => {
                let written = self.alone.write(file.location, file.bytes, &mut file.content);
                self.requests.written.fetch_add(usize::from(written.is_ok()), Ordering::Relaxed);
                written
            }
        };
        // Without an answer, the files are written nevertheless.
        files.take(FILES).map(write).map(|written| answer.clone().and(written)).collect()
    }

    fn remove(&mut self, location: &str) -> Result<(), Refusal> {
        self.alone.remove(location)
    }

    fn presigned_url(&mut self, location: &str, valid: Duration) -> Result<Option<String>, Refusal> {
        self.alone.presigned_url(location, valid)
    }
}

fn run_together(case: &Case, notes: &mut Notes) -> (Arc<Requests>, Arc<Requests>) {
    run_silent(case, notes, 0)
}

/// The first `silent` requests to each place get no answer.
fn run_silent(case: &Case, notes: &mut Notes, silent: usize) -> (Arc<Requests>, Arc<Requests>) {
    let requests = || Arc::new(Requests { silent: silent.into(), ..Requests::default() });
    let (source, destination) = (requests(), requests());
    let setup = Setup {
        source: Arc::new(Together::new(&case.source, &source)),
        destination: Arc::new(PlaceDestination::new(Arc::new(Together::new(&case.destination, &destination)))),
        ..case.setup()
    };
    super::super::run(&setup, &mut case.database(), notes).expect("it runs");
    (source, destination)
}

fn of(count: &AtomicUsize) -> usize {
    count.load(Ordering::Relaxed)
}

#[test]
fn files_go_together_and_each_arrives() {
    let files = some_files(80);
    let case = Case::new(&files);
    let notes = &mut Notes::default();
    let (source, destination) = run_together(&case, notes);
    assert_eq!(notes.failed, []);
    assert!(case.destination.files() == files);
    // Lots have up to eight files: two requests for three, and one for two.
    for requests in [of(&source.reads), of(&destination.writes), of(&destination.reads)] {
        assert!((80 / 3..=40).contains(&requests), "{requests}");
    }
    assert_eq!((of(&source.read), of(&destination.written), of(&destination.read)), (80, 80, 80));
    // None was read or written a second time, alone.
    let once = |counts: &Mutex<HashMap<String, u32>>| counts.lock().expect("locked").values().all(|count| *count == 1);
    assert!(once(&case.source.reads) && once(&case.destination.reads) && once(&case.destination.writes));
}

#[test]
fn a_file_that_fails_among_others_is_tried_alone() {
    let files = some_files(40);
    let case = Case::new(&files);
    let names: Vec<&String> = files.keys().collect();
    let rows: Vec<InventoryRow> = files
        .iter()
        .map(|(name, content)| InventoryRow { digest: Some(digest(Algorithm::Md5, content)), ..row(name, content.len() as u64) })
        .collect();
    case.add(&rows);
    // Left out, wrong once, and so for the destination.
    case.source.fail(Op::Read, names[3], &[Fault::Refuse(Cause::Fault)]);
    case.source.fail(Op::Read, names[10], &[Fault::Flip]);
    case.destination.fail(Op::Write, names[5], &[Fault::Refuse(Cause::Fault)]);
    case.destination.fail(Op::Read, names[7], &[Fault::Refuse(Cause::Fault)]);
    case.destination.fail(Op::Read, names[20], &[Fault::Flip]);
    let notes = &mut Notes::default();
    run_together(&case, notes);
    assert_eq!(notes.failed, []);
    assert!(case.destination.files() == files);
    // A copy that was wrong in memory was read again from the store.
    assert!(case.source.reads.lock().expect("locked")[names[10]] >= 2);
    assert!(case.destination.reads.lock().expect("locked")[names[20]] >= 2);
}

#[test]
fn files_that_are_there_are_neither_replaced_nor_written_again() {
    let files = some_files(20);
    let case = Case::new(&files);
    let names: Vec<&String> = files.keys().collect();
    case.destination.files.lock().expect("locked").insert(names[1].clone(), files[names[1]].clone());
    case.destination.files.lock().expect("locked").insert(names[2].clone(), b"mine".to_vec());
    let notes = &mut Notes::default();
    run_together(&case, notes);
    assert!(matches!(&notes.failed[..], [(name, _, reason, true)] if name == names[2] && reason.contains("another file of this name")));
    assert_eq!(case.destination.files()[names[2]], b"mine");
    assert!(!case.destination.writes.lock().expect("locked").contains_key(names[1]));
    assert_eq!(case.database().totals().expect("totals").of(State::Migrated).0, 19);
}

#[test]
fn without_an_answer_the_place_is_waited_for_and_no_file_is_to_blame() {
    let files = some_files(24);
    let case = Case::new(&files);
    let notes = &mut Notes::default();
    run_silent(&case, notes, 2);
    assert_eq!(notes.failed, []);
    assert!(case.destination.files() == files);
    // Two for the source, two for outputs and scans of the destination.
    assert_eq!(notes.unreachable, 4);
    assert!(case.destination.writes.lock().expect("locked").values().all(|count| *count == 1), "a file was written twice");
}

#[test]
fn a_wrong_file_does_not_cost_the_others_of_its_request() {
    let files = some_files(80);
    let case = Case::new(&files);
    let names: Vec<&String> = files.keys().collect();
    for name in names.iter().step_by(8) {
        case.source.files.lock().expect("locked").get_mut(*name).expect("it is there").push(0);
    }
    let notes = &mut Notes::default();
    let (source, _) = run_together(&case, notes);
    assert_eq!(notes.failed.len(), 10);
    assert_eq!(of(&source.read), 80);
    // Each wrong one was read once more, by itself, over another connection.
    let reads: u32 = case.source.reads.lock().expect("locked").values().sum();
    assert_eq!(reads, 80 + 10);
}
