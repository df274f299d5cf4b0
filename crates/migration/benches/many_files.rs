//! What a run costs for each file, and how much memory it takes, with many small files.
//!
//! ```sh
//! cargo bench -p fulgurite-migration --bench many_files -- 10000000
//! ```
//!
//! The source makes its files up, and the destination keeps none: it compares what is written with
//! what the source made. So the rest is the database, the pipeline, the spool and the digests. The
//! database is in the target folder, on a disk. Prints files per second and the peak of the
//! process's memory after each step.

#![forbid(unsafe_code)]

use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fulgurite_domain::Micros;
use fulgurite_migration::layout::{Layout, Rules, Spool, Stage, Station};
use fulgurite_migration::run::database::{Database, State};
use fulgurite_migration::run::destination::PlaceDestination;
use fulgurite_migration::run::inventory::{self, family_of};
use fulgurite_migration::run::spool::{Blocks, SpoolVolume};
use fulgurite_migration::run::{self, Order, Progress, Setup, Watcher};
use fulgurite_migration::{Command, Event};
use fulgurite_places::{Cause, Connection, Listed, Place, Refusal};

/// Files of a family.
const FAMILY_FILES: u64 = 10_000;
/// Bytes of a file.
const FILE_BYTES: usize = 100;

fn name(number: u64) -> String {
    format!("{:06}/{number:09}", number / FAMILY_FILES)
}

fn number(location: &str) -> Option<u64> {
    location.rsplit('/').next()?.parse().ok()
}

fn content(number: u64) -> [u8; FILE_BYTES] {
    let mut content = [0; FILE_BYTES];
    content[..8].copy_from_slice(&number.to_le_bytes());
    content
}

/// A source of made-up files.
struct Source(u64);

/// A destination that remembers which files were written, a bit for each.
#[derive(Clone)]
struct Sink(Arc<Vec<AtomicU64>>);

impl Sink {
    fn bit(&self, location: &str) -> Result<(&AtomicU64, u64), Refusal> {
        let missing = || Refusal::new(Cause::Missing, "");
        let number = number(location).ok_or_else(missing)?;
        self.0.get((number / 64) as usize).map(|word| (word, 1 << (number % 64))).ok_or_else(missing)
    }

    fn has(&self, location: &str) -> Result<u64, Refusal> {
        let (word, bit) = self.bit(location)?;
        let is_set = word.load(Ordering::Relaxed) & bit != 0;
        number(location).filter(|_| is_set).ok_or_else(|| Refusal::new(Cause::Missing, ""))
    }
}

impl Place for Source {
    fn connect(&self) -> Result<Box<dyn Connection>, Refusal> {
        Ok(Box::new(Source(self.0)))
    }

    fn describe(&self) -> String {
        "made-up files".to_owned()
    }
}

impl Place for Sink {
    fn connect(&self) -> Result<Box<dyn Connection>, Refusal> {
        Ok(Box::new(self.clone()))
    }

    fn describe(&self) -> String {
        "nowhere".to_owned()
    }
}

impl Connection for Source {
    fn length(&mut self, _: &str) -> Result<u64, Refusal> {
        Ok(FILE_BYTES as u64)
    }

    fn read(&mut self, location: &str, sink: &mut dyn FnMut(&[u8]) -> bool) -> Result<u64, Refusal> {
        sink(&content(number(location).expect("a listed name")));
        Ok(FILE_BYTES as u64)
    }

    fn list(&mut self, each: &mut dyn FnMut(Listed) -> bool) -> Result<(), Refusal> {
        (0..self.0).all(|number| each(Listed::new(name(number), Some(FILE_BYTES as u64))));
        Ok(())
    }

    fn write(&mut self, _: &str, _: u64, _: &mut dyn Read) -> Result<(), Refusal> {
        unreachable!("it is only read")
    }

    fn remove(&mut self, _: &str) -> Result<(), Refusal> {
        unreachable!("it is only read")
    }

    fn presigned_url(&mut self, _: &str, _: Duration) -> Result<Option<String>, Refusal> {
        Ok(None)
    }
}

impl Connection for Sink {
    fn length(&mut self, location: &str) -> Result<u64, Refusal> {
        self.has(location).map(|_| FILE_BYTES as u64)
    }

    fn read(&mut self, location: &str, sink: &mut dyn FnMut(&[u8]) -> bool) -> Result<u64, Refusal> {
        sink(&content(self.has(location)?));
        Ok(FILE_BYTES as u64)
    }

    fn list(&mut self, _: &mut dyn FnMut(Listed) -> bool) -> Result<(), Refusal> {
        Ok(())
    }

    fn write(&mut self, location: &str, _: u64, content_read: &mut dyn Read) -> Result<(), Refusal> {
        let mut written = Vec::with_capacity(FILE_BYTES);
        content_read.read_to_end(&mut written).expect("spooled content can be read");
        assert!(written == content(number(location).expect("a listed name")), "{location} arrived as it was read");
        let (word, bit) = self.bit(location)?;
        assert!(word.fetch_or(bit, Ordering::Relaxed) & bit == 0, "{location} is written once");
        Ok(())
    }

    fn remove(&mut self, _: &str) -> Result<(), Refusal> {
        Ok(())
    }

    fn presigned_url(&mut self, _: &str, _: Duration) -> Result<Option<String>, Refusal> {
        Ok(None)
    }
}

struct Quiet;

impl Watcher for Quiet {
    fn order(&mut self) -> Order {
        Order::Run
    }

    fn stepped(&mut self, _: Micros, _: &Event, _: &[Command], _: &Progress<'_>) -> io::Result<()> {
        Ok(())
    }

    fn failed(&mut self, name: &str, stage: Stage, reason: &str, _: bool) {
        panic!("{name}: {}: {reason}", stage.name());
    }

    fn unreachable(&mut self, _: Stage, reason: &str) {
        panic!("{reason}");
    }

    fn set_aside(&mut self, _: &str, _: u32, reason: &str) {
        panic!("{reason}");
    }
}

/// The peak of the process's memory in MB, as Linux counts it.
fn peak_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) / 1_000
}

fn main() {
    let files: u64 = std::env::args().filter_map(|argument| argument.parse().ok()).next().unwrap_or(100_000);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("many_files");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    let mut database = Database::open(&folder.join("state.db")).expect("a database");
    let say = |what: &str, began: Instant| {
        let seconds = began.elapsed().as_secs_f64();
        println!("{what}: {files} files, {seconds:.1} s, {:.0} files/s, peak {} MB", files as f64 / seconds, peak_mb());
    };
    let began = Instant::now();
    inventory::list(&mut database, &Source(files), &|name| family_of(name, 1), &mut |_| {}).expect("listed");
    say("inventory", began);
    let spool = Spool { bytes: 256_000_000, is_exclusive: false, is_reserve: false };
    let station = Station { name: "here".to_owned(), inputs: 4, outputs: 4, scans: 2, spools: vec![spool] };
    let sink = Sink(Arc::new((0..files.div_ceil(64)).map(|_| AtomicU64::new(0)).collect()));
    let setup = Setup {
        layout: Layout { stations: vec![station], rules: Rules { families_together: false, ..Rules::default() } },
        volumes: vec![SpoolVolume::Memory(Blocks::default())],
        lot_files: 64,
        lot_bytes: 16_000_000,
        tries: 3,
        retry_after: Duration::from_secs(60),
        source: Arc::new(Source(files)),
        destination: Arc::new(PlaceDestination::new(Arc::new(sink))),
    };
    let began = Instant::now();
    run::run(&setup, &mut database, &mut Quiet).expect("it runs");
    say("run", began);
    assert_eq!(database.totals().expect("totals").of(State::Migrated).0, files);
    let bytes = std::fs::metadata(folder.join("state.db")).map_or(0, |metadata| metadata.len());
    println!("database: {:.0} bytes a file", bytes as f64 / files as f64);
    let _ = std::fs::remove_dir_all(&folder);
}
