//! Writes journals: records the inputs and outputs of a run as they occur.

use std::fmt::Write as _;
use std::io::{self, BufWriter, Write};
use std::num::NonZeroU64;

use fulgurite_domain::Micros;

use crate::digest::{OutputDigest, RunningDigest};
use crate::{Fact, Header};

/// The check at the end of a line, and the newline.
const LINE_END_BYTES: u64 = 11;

/// How a journal records outputs. Inputs are always complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Detail {
    /// Every command and the end of every request, so that a replay can show the first difference.
    #[default]
    Commands,
    /// Only a digest of the outputs, added each time at least this many more have occurred, so that
    /// a replay can show between which lines a difference is.
    Digests(NonZeroU64),
}

/// Writes facts as they occur. Memory is bounded by the longest line.
///
/// After a failed write the writer drops all further facts, and [`JournalWriter::finish`] returns
/// the error. Readers reject an unfinished journal as truncated.
#[derive(Debug)]
pub struct JournalWriter<W: Write> {
    out: BufWriter<W>,
    detail: Detail,
    line: String,
    /// Digest of all lines, for the check at the end of each.
    lines: RunningDigest,
    /// Digest of all outputs, if they aren't recorded themselves.
    digest: OutputDigest,
    /// Number of outputs when the last digest was written.
    digested: u64,
    inputs: u64,
    now: Micros,
    bytes: u64,
    failed: Option<io::Error>,
}

impl<W: Write> JournalWriter<W> {
    /// Starts a journal.
    ///
    /// # Errors
    /// If the header can't be written.
    pub fn new(out: W, header: &Header) -> io::Result<Self> {
        let (mut out, mut lines) = (BufWriter::new(out), RunningDigest::NEW);
        header.write(&mut out, &mut lines)?;
        Ok(Self {
            out,
            detail: header.detail,
            line: String::new(),
            lines,
            digest: OutputDigest::NEW,
            digested: 0,
            inputs: 0,
            now: Micros::ZERO,
            bytes: 0,
            failed: None,
        })
    }

    /// Adds a fact. Outputs follow their input: commands in their order, and ends of requests in
    /// theirs. The writer ignores [`Fact::Digest`] and [`Fact::End`]; it adds its own.
    pub fn add(&mut self, fact: &Fact) {
        match (fact, self.detail) {
            (Fact::Commanded { .. } | Fact::Ended { .. }, Detail::Commands) => self.print(fact),
            (Fact::Commanded { .. } | Fact::Ended { .. }, Detail::Digests(_)) => self.digest.add(fact),
            (Fact::Digest { .. } | Fact::End { .. }, _) => {}
            (input, detail) => {
                if let Detail::Digests(every) = detail
                    && self.digest.count() - self.digested >= every.get()
                {
                    self.print_digest();
                }
                self.inputs += 1;
                self.now = input.instant().unwrap_or(self.now);
                self.print(fact);
            }
        }
    }

    /// Bytes of the lines so far, without the header.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Hands everything written so far to the system.
    ///
    /// # Errors
    /// The first write error since the beginning.
    pub fn flush(&mut self) -> io::Result<()> {
        if let Some(error) = &self.failed {
            return Err(io::Error::new(error.kind(), error.to_string()));
        }
        self.out.flush()
    }

    /// Finishes the journal of a run that ended at `now`, or at the last input if that is later.
    ///
    /// # Errors
    /// The first write error since the beginning.
    pub fn finish(mut self, now: Micros) -> io::Result<W> {
        if self.detail != Detail::Commands {
            self.print_digest();
        }
        self.print(&Fact::End { inputs: self.inputs, now: now.max(self.now) });
        match self.failed {
            Some(error) => Err(error),
            None => self.out.into_inner().map_err(io::IntoInnerError::into_error),
        }
    }

    fn print_digest(&mut self) {
        self.digested = self.digest.count();
        self.print(&Fact::Digest { count: self.digested, digest: self.digest.digest() });
    }

    fn print(&mut self, fact: &Fact) {
        if self.failed.is_some() {
            return;
        }
        self.line.clear();
        write!(self.line, "{fact}").expect("a String takes everything");
        self.lines.add(&self.line);
        self.bytes += self.line.len() as u64 + LINE_END_BYTES;
        writeln!(self.line, " ~{:08x}", self.lines.checksum()).expect("a String takes everything");
        self.failed = self.out.write_all(self.line.as_bytes()).err();
    }
}
