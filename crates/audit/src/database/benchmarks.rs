//! What is kept of the benchmark matrix.

use std::time::Duration;

use super::{DatabaseError, DetectorState};
use crate::copy::{Expected, FileId, NodeId};
use crate::expectation::{Expectation, Verdict};
use crate::series::Probe;

/// A file that is read from a node on schedule, to see how long it takes.
#[derive(Debug, Clone, PartialEq)]
pub struct Benchmark {
    /// The node.
    pub node: NodeId,
    /// The file.
    pub file: FileId,
    /// How it is read.
    pub probe: Probe,
    /// From one reading to the next.
    pub every: Duration,
    /// When the next reading is due, in seconds since 1970.
    pub due_at: u64,
    /// The file's name.
    pub name: String,
    /// Where the file is at the node.
    pub location: String,
    /// What it contains.
    pub expected: Expected,
    /// What the last reading found.
    pub last: Option<BenchmarkRecord>,
}

/// What one reading found.
#[derive(Debug, Clone, PartialEq)]
pub struct BenchmarkRecord {
    /// Its number; later records have greater ones. Ignored when it is stored.
    pub record: u64,
    /// The node.
    pub node: NodeId,
    /// The file.
    pub file: FileId,
    /// How it was read.
    pub probe: Probe,
    /// When the reading ended, in seconds since 1970.
    pub at: u64,
    /// Bytes that arrived.
    pub bytes: u64,
    /// From the beginning of the connection to the last byte.
    pub measured: Duration,
    /// Seconds that it should have taken; `None` while that is being learned.
    pub expected_s: Option<f64>,
    /// The verdict; `None` for the right bytes while the expected time is being learned.
    pub verdict: Option<Verdict>,
    /// What else is to be said, such as why there was no answer.
    pub detail: String,
}

impl Benchmark {
    /// True if a reading is missing: the last one is older than two intervals, or none was ever
    /// made. Claims don't count, since their readings may have been interrupted.
    #[must_use]
    pub fn is_late(&self, now: u64) -> bool {
        let interval = self.every.as_secs();
        self.last.as_ref().is_none_or(|last| last.at.saturating_add(interval.saturating_mul(2)) < now)
    }

    /// True if the last reading got wrong bytes, or none.
    #[must_use]
    pub fn is_wrong(&self) -> bool {
        self.last.as_ref().is_some_and(|last| last.verdict == Some(Verdict::Error))
    }
}

impl BenchmarkRecord {
    /// Measured divided by expected time. `None` unless all of the right bytes came, and a time was
    /// expected.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        let is_right = !matches!(self.verdict, None | Some(Verdict::Error | Verdict::Unanswered));
        self.expected_s.filter(|_| is_right).map(|expected| self.measured.as_secs_f64() / expected)
    }
}

/// How long benchmarks of one kind should take at a node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExpectedTime {
    /// The node.
    pub node: NodeId,
    /// The kind.
    pub probe: Probe,
    /// The time.
    pub expectation: Expectation,
    /// True if it was learned from the first records, and not given by the operator.
    pub is_learned: bool,
}

/// Keeps the benchmark matrix, beside the state of the audit. Each change is one durable
/// transaction.
pub trait BenchmarkDatabase {
    /// Returns all benchmarks, by file, node and kind.
    ///
    /// # Errors
    /// If the database can't be read.
    fn benchmarks(&mut self) -> Result<Vec<Benchmark>, DatabaseError>;

    /// Adds a benchmark, due at `now`, or changes its interval. If the present reading is due
    /// later than the new interval allows, it is due then.
    ///
    /// # Errors
    /// If an unfinished import holds checks, or the database can't be changed.
    fn set_benchmark(&mut self, node: NodeId, file: FileId, probe: Probe, every: Duration, now: u64) -> Result<(), DatabaseError>;

    /// Removes a benchmark; its records stay. Returns false if there was none.
    ///
    /// # Errors
    /// If the database can't be changed.
    fn remove_benchmark(&mut self, node: NodeId, file: FileId, probe: Probe) -> Result<bool, DatabaseError>;

    /// Moves the due time of a benchmark to `next`, unless another process has moved it: then it
    /// returns false, and the caller must not read. A reader that dies leaves out one reading.
    ///
    /// # Errors
    /// If an unfinished import holds checks, or the database can't be changed.
    fn claim_benchmark(&mut self, benchmark: &Benchmark, next: u64) -> Result<bool, DatabaseError>;

    /// Gives back a claim whose reading was interrupted: it is due again as before.
    ///
    /// # Errors
    /// If the database can't be changed.
    fn release_benchmark(&mut self, benchmark: &Benchmark, next: u64) -> Result<(), DatabaseError>;

    /// Appends a record, and stores the detector's state with it. After wrong bytes, the copy is
    /// [due to be read](super::DUE_TO_BE_READ): only a check may call it lost or wrong.
    ///
    /// # Errors
    /// If the database can't be changed.
    fn record_benchmark(&mut self, record: &BenchmarkRecord, detector: Option<&DetectorState>) -> Result<(), DatabaseError>;

    /// Returns up to `limit` records after one, in the order in which they were stored, with the
    /// names of their files.
    ///
    /// # Errors
    /// If the database can't be read.
    fn benchmark_records(&mut self, after: u64, limit: usize) -> Result<Vec<(BenchmarkRecord, String)>, DatabaseError>;

    /// Returns the records from a time on, in the order in which they were stored.
    ///
    /// # Errors
    /// If the database can't be read.
    fn benchmark_records_from(&mut self, at: u64) -> Result<Vec<BenchmarkRecord>, DatabaseError>;

    /// Returns up to `limit` records of one kind at a node after one, in the order in which they
    /// were stored.
    ///
    /// # Errors
    /// If the database can't be read.
    fn benchmark_series(&mut self, node: NodeId, probe: Probe, after: u64, limit: usize) -> Result<Vec<BenchmarkRecord>, DatabaseError>;

    /// Returns the expected times that were given or learned, by node and kind.
    ///
    /// # Errors
    /// If the database can't be read.
    fn expected_times(&mut self) -> Result<Vec<ExpectedTime>, DatabaseError>;

    /// Stores an expected time. A learned one doesn't replace another.
    ///
    /// # Errors
    /// If the database can't be changed.
    fn set_expected_time(&mut self, time: &ExpectedTime) -> Result<(), DatabaseError>;

    /// Forgets an expected time; it is learned from the records that follow. Returns false if there
    /// was none.
    ///
    /// # Errors
    /// If the database can't be changed.
    fn forget_expected_time(&mut self, node: NodeId, probe: Probe) -> Result<bool, DatabaseError>;
}
