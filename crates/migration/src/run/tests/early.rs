//! Files are recorded while others of their lot are still being handled.

use std::path::PathBuf;
use std::thread;
use std::time::Instant;

use super::super::destination::{BackReader, Destination, LotWriter, Outgoing, Stored};
use super::super::stages::TOLD_EARLY_AFTER;
use super::*;

/// A destination with slow files, which handles the last of a lot only once earlier ones are
/// recorded.
struct Waits {
    inner: Arc<dyn Destination>,
    database: PathBuf,
    files: usize,
}

impl Waits {
    fn until_recorded(&self, state: State) {
        let (database, begun) = (Database::open(&self.database).expect("a database"), Instant::now());
        while database.totals().expect("totals").of(state).0 == 0 {
            assert!(begun.elapsed() < Duration::from_secs(60), "no file was recorded within a minute");
            thread::yield_now();
        }
    }

    fn again(&self) -> Self {
        Self { inner: self.inner.clone(), database: self.database.clone(), files: self.files }
    }
}

impl Destination for Waits {
    fn writer(&self) -> Result<Box<dyn LotWriter>, Refusal> {
        Ok(Box::new(WaitingWriter(self.again(), self.inner.writer()?)))
    }

    fn back_reader(&self) -> Result<Box<dyn BackReader>, Refusal> {
        Ok(Box::new(WaitingReader(self.again(), self.inner.back_reader()?, 0)))
    }
}

struct WaitingWriter(Waits, Box<dyn LotWriter>);

impl LotWriter for WaitingWriter {
    fn write(&mut self, files: &[Outgoing<'_>], arrived: &mut dyn FnMut(usize, Stored)) -> Vec<Result<Stored, Refusal>> {
        let mut results = Vec::new();
        for index in 0..files.len() {
            match index + 1 == files.len() {
                true => self.0.until_recorded(State::Written),
                false => thread::sleep(TOLD_EARLY_AFTER),
            }
            results.extend(self.1.write(&files[index..=index], &mut |_, stored| arrived(index, stored)));
        }
        results
    }
}

struct WaitingReader(Waits, Box<dyn BackReader>, usize);

impl BackReader for WaitingReader {
    fn sha256(&mut self, location: &str) -> Result<(u64, Digest), Refusal> {
        self.2 += 1;
        match self.2 == self.0.files {
            true => self.0.until_recorded(State::Migrated),
            false => thread::sleep(TOLD_EARLY_AFTER),
        }
        self.1.sha256(location)
    }

    fn length(&mut self, location: &str) -> Result<u64, Refusal> {
        self.1.length(location)
    }
}

#[test]
fn files_are_recorded_before_their_lot_is_through() {
    let files: BTreeMap<String, Vec<u8>> = (0..2_u8).map(|number| (format!("a/{number}"), vec![number; 100])).collect();
    let case = Case::new(&files);
    let mut setup = case.setup();
    let database = case.folder.path().join("state.db");
    setup.destination = Arc::new(Waits { inner: setup.destination, database, files: files.len() });
    super::super::run(&setup, &mut case.database(), &mut Notes::default()).expect("it runs");
    assert_eq!(case.database().totals().expect("totals").of(State::Migrated), (2, 200));
    assert!(case.destination.files() == files);
}
