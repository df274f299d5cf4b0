//! Sorts any number of records in bounded memory: sorted runs in a scratch file each, then a merge.
//!
//! ```text
//! push ──> buffer ──full──> sort ──> run 0, run 1, … (unnamed temporary files)
//!                                      │ more than FAN_IN: merged into one
//!                                      v
//!                               k-way merge ──> records in order
//! ```
//!
//! Manifests and the payload folder are matched by sorting both by path: a table of 10^7 paths
//! would need gigabytes.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};

/// Runs that are merged at once, each with a buffer of [`RUN_BUFFER_BYTES`].
const FAN_IN: usize = 64;
const RUN_BUFFER_BYTES: usize = 64 << 10;
/// What a record costs in the buffer besides its bytes.
const ENTRY_BYTES: usize = size_of::<Entry>();

/// A record: sorted by key, and by value among equal keys.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Record {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

struct Entry {
    start: usize,
    key_bytes: u32,
    value_bytes: u32,
}

/// Takes records in any order.
pub(crate) struct Sorter {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    limit_bytes: usize,
    scratch: PathBuf,
    runs: Vec<File>,
}

impl Sorter {
    /// Uses about `limit_bytes` of memory, and temporary files in `scratch` for what doesn't fit.
    pub(crate) fn new(limit_bytes: usize, scratch: &Path) -> Self {
        Self { bytes: Vec::new(), entries: Vec::new(), limit_bytes, scratch: scratch.to_owned(), runs: Vec::new() }
    }

    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        let needed = self.bytes.len() + key.len() + value.len() + (self.entries.len() + 1) * ENTRY_BYTES;
        if needed > self.limit_bytes && !self.entries.is_empty() {
            self.spill()?;
        }
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge));
        self.entries.push(Entry { start: self.bytes.len(), key_bytes: length(key)?, value_bytes: length(value)? });
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        Ok(())
    }

    fn spill(&mut self) -> io::Result<()> {
        let entries = self.sorted();
        let mut run = BufWriter::with_capacity(RUN_BUFFER_BYTES, tempfile::tempfile_in(&self.scratch)?);
        for entry in &entries {
            let (key, value) = entry.parts(&self.bytes);
            write_record(&mut run, key, value)?;
        }
        self.bytes.clear();
        self.entries = entries;
        self.entries.clear();
        self.runs.push(finish_run(run)?);
        if self.runs.len() == FAN_IN {
            let mut merged = BufWriter::with_capacity(RUN_BUFFER_BYTES, tempfile::tempfile_in(&self.scratch)?);
            for record in Merge::new(std::mem::take(&mut self.runs), None)? {
                let record = record?;
                write_record(&mut merged, &record.key, &record.value)?;
            }
            self.runs.push(finish_run(merged)?);
        }
        Ok(())
    }

    fn sorted(&mut self) -> Vec<Entry> {
        let mut entries = std::mem::take(&mut self.entries);
        entries.sort_unstable_by(|a, b| a.parts(&self.bytes).cmp(&b.parts(&self.bytes)));
        entries
    }

    /// All records, in order.
    pub(crate) fn finish(mut self) -> io::Result<Merge> {
        let entries = self.sorted();
        Merge::new(self.runs, Some(Buffered { bytes: self.bytes, entries: entries.into_iter() }))
    }
}

impl Entry {
    fn parts<'a>(&self, bytes: &'a [u8]) -> (&'a [u8], &'a [u8]) {
        let (key_bytes, value_bytes) = (self.key_bytes as usize, self.value_bytes as usize);
        bytes[self.start..self.start + key_bytes + value_bytes].split_at(key_bytes)
    }
}

fn write_record(run: &mut impl Write, key: &[u8], value: &[u8]) -> io::Result<()> {
    // `push` has checked that both lengths fit.
    run.write_all(&(key.len() as u32).to_le_bytes())?;
    run.write_all(&(value.len() as u32).to_le_bytes())?;
    run.write_all(key)?;
    run.write_all(value)
}

fn finish_run(run: BufWriter<File>) -> io::Result<File> {
    let mut file = run.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.rewind()?;
    Ok(file)
}

struct Buffered {
    bytes: Vec<u8>,
    entries: std::vec::IntoIter<Entry>,
}

enum Source {
    Run(BufReader<File>),
    Memory(Buffered),
}

impl Source {
    fn next(&mut self) -> io::Result<Option<Record>> {
        match self {
            Self::Memory(buffered) => Ok(buffered.entries.next().map(|entry| {
                let (key, value) = entry.parts(&buffered.bytes);
                Record { key: key.to_vec(), value: value.to_vec() }
            })),
            Self::Run(run) => {
                let mut lengths = [0; 8];
                match run.read(&mut lengths[..1])? {
                    0 => return Ok(None),
                    _ => run.read_exact(&mut lengths[1..])?,
                }
                let [a, b, c, d, e, f, g, h] = lengths;
                let mut read = |bytes: [u8; 4]| -> io::Result<Vec<u8>> {
                    let mut part = vec![0; u32::from_le_bytes(bytes) as usize];
                    run.read_exact(&mut part)?;
                    Ok(part)
                };
                Ok(Some(Record { key: read([a, b, c, d])?, value: read([e, f, g, h])? }))
            }
        }
    }
}

/// Records of several sorted sources, in order.
pub(crate) struct Merge {
    sources: Vec<Source>,
    heads: BinaryHeap<Head>,
    has_failed: bool,
}

struct Head {
    record: Record,
    source: usize,
}

impl Ord for Head {
    /// The heap returns its greatest element first, and the merge needs the least.
    fn cmp(&self, other: &Self) -> Ordering {
        (&other.record, other.source).cmp(&(&self.record, self.source))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Head {}

impl Merge {
    fn new(runs: Vec<File>, buffered: Option<Buffered>) -> io::Result<Self> {
        let mut sources: Vec<Source> = runs.into_iter().map(|run| Source::Run(BufReader::with_capacity(RUN_BUFFER_BYTES, run))).collect();
        sources.extend(buffered.map(Source::Memory));
        let mut merge = Self { heads: BinaryHeap::with_capacity(sources.len()), sources, has_failed: false };
        for source in 0..merge.sources.len() {
            merge.refill(source)?;
        }
        Ok(merge)
    }

    fn refill(&mut self, source: usize) -> io::Result<()> {
        if let Some(record) = self.sources[source].next()? {
            self.heads.push(Head { record, source });
        }
        Ok(())
    }
}

impl Iterator for Merge {
    type Item = io::Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_failed {
            return None;
        }
        let Head { record, source } = self.heads.pop()?;
        if let Err(error) = self.refill(source) {
            self.has_failed = true;
            return Some(Err(error));
        }
        Some(Ok(record))
    }
}

#[cfg(test)]
mod tests {
    use fulgurite_chance::Xorshift;

    use super::*;

    #[test]
    fn records_come_back_sorted_whatever_the_memory() {
        let seed = 7;
        println!("seed {seed}");
        let scratch = tempfile::tempdir().unwrap();
        let mut chance = Xorshift::new(seed);
        let mut records: Vec<Record> = (0..5000)
            .map(|_| {
                let mut key = vec![0; chance.below(4)];
                chance.fill(&mut key);
                Record { key, value: vec![chance.below(3) as u8; chance.below(20)] }
            })
            .collect();
        for limit_bytes in [0, 300, 20_000, 10 << 20] {
            let mut sorter = Sorter::new(limit_bytes, scratch.path());
            for record in &records {
                sorter.push(&record.key, &record.value).unwrap();
                assert!(sorter.bytes.len() <= limit_bytes.max(24) && sorter.runs.len() < FAN_IN);
            }
            let sorted: Vec<Record> = sorter.finish().unwrap().collect::<io::Result<_>>().unwrap();
            records.sort();
            assert!(sorted == records, "limit {limit_bytes}");
        }
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_scratch_folder_that_is_missing_is_an_error_and_not_needed_for_little() {
        let missing = Path::new("/nonexistent/scratch");
        let mut sorter = Sorter::new(100, missing);
        sorter.push(b"a", b"").unwrap();
        assert_eq!(sorter.finish().unwrap().count(), 1);
        let mut sorter = Sorter::new(0, missing);
        sorter.push(b"a", b"").unwrap();
        assert!(sorter.push(b"b", b"").is_err());
    }
}
