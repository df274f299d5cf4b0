//! Traces: reads from a log of one's own, as CSV, in a preset's place.
//!
//! ```text
//! arrival,file,account,bytes,platter,track        the first line names the columns, in any order
//! 0.25,17,alice,1048576,812,4000                  seconds from the start, or RFC 3339 from the first row on
//! 0.75,18,alice,2500000000,,                      no place known: drawn by the account's name
//! ```
//!
//! | column | | |
//! | --- | --- | --- |
//! | `arrival` | needed | seconds, or RFC 3339 in all rows; never earlier than in the row before |
//! | `bytes` | needed | of the file, 1 or more |
//! | `file`, `account` | one of them | any name; the same name is the same file or account. Files of one account lie on one platter |
//! | `platter`, `track` | if known | counted from 0; a file with a known platter is one shard |
//!
//! A trace decides what a study says, so nothing in it is guessed or mended: whatever is not as it should be ends the reading, with the
//! line, the column, what was found and what was expected. Rows from elsewhere, such as Parquet, go through the same [`TraceRows`].

mod rows;
mod time;

use std::io::{self, BufRead};
use std::str;

use csv_core::{ReadRecordResult, Reader};

pub use rows::{Cell, Column, Expected, Header, TraceRows, TraceSettings};

use crate::{Read, SpecError};

/// The longest line, in bytes. Rows are read one at a time into buffers of this size, so any length of trace takes the same memory.
const LINE_BYTES: usize = 64 * 1024;
/// Fields that are told apart; more than columns there are, so that a line with too many can be counted.
const FIELDS: usize = 64;

/// Why a trace can't be read further. Lines count from 1; the header is the first one.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// Nothing at all is there.
    #[error("the trace is empty: a line with the names of the columns is expected, such as arrival,file,bytes")]
    Empty,
    /// Only the header is there.
    #[error("the trace has a header and no rows: one or more are expected")]
    NoRows,
    /// A column that has to be there is not.
    #[error("line 1: no column is named {}: it is expected", column.name())]
    MissingColumn {
        /// Which.
        column: Column,
    },
    /// Neither a file nor an account is named.
    #[error("line 1: no column is named file, and none account: one of them is expected")]
    NoFile,
    /// A name that no column has.
    #[error("line 1: column {column} is unknown: arrival, file, account, bytes, platter and track are expected")]
    UnknownColumn {
        /// As it stands there.
        column: Box<str>,
    },
    /// Two columns of one name.
    #[error("line 1: column {} is there twice", column.name())]
    ColumnTwice {
        /// Which.
        column: Column,
    },
    /// More or fewer fields than the header has.
    #[error("line {line}: found {found} fields, expected {expected} as in the header")]
    FieldCount {
        /// Line.
        line: u64,
        /// Fields of this line.
        found: usize,
        /// Fields of the header.
        expected: usize,
    },
    /// A field that is not what it should be.
    #[error("line {line}, column {}: found {found:?}, expected {expected}", column.name())]
    Value {
        /// Line.
        line: u64,
        /// Column.
        column: Column,
        /// As it stands there, cut off if it is long.
        found: Box<str>,
        /// What should stand there.
        expected: Expected,
    },
    /// A row that is earlier than the one before.
    #[error("line {line}, column arrival: found {found:?}, {earlier_s} s before the row above: rows in order of time are expected")]
    Order {
        /// Line.
        line: u64,
        /// As it stands there.
        found: Box<str>,
        /// By how many seconds.
        earlier_s: f64,
    },
    /// A line that is not text.
    #[error("line {line}: found bytes that are no UTF-8: text is expected")]
    NotText {
        /// Line.
        line: u64,
    },
    /// A line beyond the limit.
    #[error("line {line}: it is longer than {LINE_BYTES} bytes")]
    LongLine {
        /// Line.
        line: u64,
    },
    /// A quoted field that doesn't end on its line.
    #[error("line {line}: a quoted field does not end on its line")]
    OpenQuote {
        /// Line.
        line: u64,
    },
    /// More fields than can be told apart.
    #[error("line {line}: found more than {} fields, expected a column for each of 6 names at most", FIELDS - 1)]
    ManyFields {
        /// Line.
        line: u64,
    },
    /// A carriage return that no line feed follows.
    #[error("line {line}: a line end inside the line")]
    LineEnd {
        /// Line.
        line: u64,
    },
    /// The settings make no sense.
    #[error(transparent)]
    Settings(#[from] SpecError),
    /// The trace can't be read.
    #[error("line {line} can't be read: {source}")]
    Input {
        /// Line.
        line: u64,
        /// Why.
        source: io::Error,
    },
}

/// Yields the reads of a CSV trace; after an error nothing more.
#[derive(Debug)]
pub struct Trace<R> {
    lines: Lines<R>,
    rows: TraceRows,
    columns: usize,
    ended: bool,
}

impl<R: BufRead> Trace<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// [`TraceError`] if there is none, its columns are not those expected, or the settings make no sense.
    pub fn new(input: R, settings: &TraceSettings) -> Result<Self, TraceError> {
        let mut lines = Lines::new(input);
        let Some(names) = lines.next()? else { return Err(TraceError::Empty) };
        let header = Header::new(names.iter())?;
        let columns = names.count;
        Ok(Self { lines, rows: TraceRows::new(header, settings)?, columns, ended: false })
    }

    fn advance(&mut self) -> Result<Option<Read>, TraceError> {
        loop {
            if let Some(read) = self.rows.next_read() {
                return Ok(Some(read));
            }
            let Some(fields) = self.lines.next()? else {
                return if self.rows.is_empty() { Err(TraceError::NoRows) } else { Ok(None) };
            };
            if fields.count != self.columns {
                return Err(TraceError::FieldCount { line: fields.line, found: fields.count, expected: self.columns });
            }
            let mut cells = [Cell::Missing; FIELDS];
            for (cell, field) in cells.iter_mut().zip(fields.iter()) {
                *cell = Cell::Text(field);
            }
            self.rows.take(fields.line, &cells[..fields.count])?;
        }
    }
}

impl<R: BufRead> Iterator for Trace<R> {
    type Item = Result<Read, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let read = self.advance().transpose();
        self.ended = !matches!(read, Some(Ok(_)));
        read
    }
}

/// Takes CSV apart line by line. The engine of the `csv` crate does it, on our buffers: its own reader lets a record grow without bounds, and
/// passes over blank lines.
#[derive(Debug)]
struct Lines<R> {
    input: R,
    reader: Reader,
    line: u64,
    bytes: Vec<u8>,
    text: Vec<u8>,
    ends: [usize; FIELDS],
}

/// The fields of one line, without their quotes.
#[derive(Debug, Clone, Copy)]
struct Fields<'a> {
    line: u64,
    text: &'a str,
    ends: &'a [usize; FIELDS],
    count: usize,
}

impl<'a> Fields<'a> {
    fn iter(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let (text, ends) = (self.text, &self.ends[..self.count]);
        let mut begin = 0;
        ends.iter().map(move |end| {
            let field = &text[begin..*end];
            begin = *end;
            field
        })
    }
}

impl<R: BufRead> Lines<R> {
    fn new(input: R) -> Self {
        let (bytes, text) = (Vec::with_capacity(LINE_BYTES + 1), vec![0; LINE_BYTES + 1]);
        Self { input, reader: Reader::new(), line: 0, bytes, text, ends: [0; FIELDS] }
    }

    /// The next line; none at the end. A line that is empty has no fields.
    fn next(&mut self) -> Result<Option<Fields<'_>>, TraceError> {
        self.line += 1;
        let line = self.line;
        self.bytes.clear();
        let mut limited = io::Read::take(&mut self.input, LINE_BYTES as u64 + 1);
        let length = limited.read_until(b'\n', &mut self.bytes).map_err(|source| TraceError::Input { line, source })?;
        if length == 0 {
            return Ok(None);
        }
        if self.bytes.len() > LINE_BYTES {
            return Err(TraceError::LongLine { line });
        }
        let mut content: &[u8] = self.bytes.strip_suffix(b"\n").unwrap_or(&self.bytes);
        content = content.strip_suffix(b"\r").unwrap_or(content);
        if line == 1 {
            // Spreadsheets mark UTF-8 this way.
            content = content.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(content);
        }
        if content.is_empty() {
            return Ok(Some(Fields { line, text: "", ends: &self.ends, count: 0 }));
        }
        if content.contains(&b'\r') {
            return Err(TraceError::LineEnd { line });
        }
        self.reader.reset();
        let (mut state, _, mut written, mut count) = self.reader.read_record(content, &mut self.text, &mut self.ends);
        if state == ReadRecordResult::InputEmpty {
            let (next, _, more_text, more_ends) = self.reader.read_record(b"\n", &mut self.text[written..], &mut self.ends[count..]);
            state = next;
            written += more_text;
            count += more_ends;
        }
        match state {
            ReadRecordResult::Record => {}
            ReadRecordResult::OutputEndsFull => return Err(TraceError::ManyFields { line }),
            _ => return Err(TraceError::OpenQuote { line }),
        }
        let text = str::from_utf8(&self.text[..written]).map_err(|_| TraceError::NotText { line })?;
        if self.ends[..count].iter().any(|end| !text.is_char_boundary(*end)) {
            return Err(TraceError::NotText { line });
        }
        Ok(Some(Fields { line, text, ends: &self.ends, count }))
    }
}
