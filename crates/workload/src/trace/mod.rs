//! Traces: reads from a CSV log, in place of a preset.
//!
//! ```text
//! arrival,file,account,bytes,platter,track        the first line names the columns, in any order
//! 0.25,17,alice,1048576,812,4000                  seconds from the start, or RFC 3339 times in all rows
//! 0.75,18,alice,2500000000,,                      unknown place: drawn by the account's name
//! ```
//!
//! | column | | |
//! | --- | --- | --- |
//! | `arrival` | required | seconds, or RFC 3339 in all rows; never earlier than in the row before |
//! | `bytes` | required | of the file, 1 or more |
//! | `file`, `account` | at least one | any name; the same name is the same file or account. Files of one account are on one platter |
//! | `platter`, `track` | optional | counted from 0; a file with a known platter is one shard |
//!
//! A study depends on its trace, so the reader neither guesses nor repairs: any invalid value ends
//! reading, with an error that names the line, the column, the value found and the value expected.
//! Rows from other sources, such as Parquet, go through the same [`TraceRows`].

mod rows;
mod time;

use std::io::{self, BufRead};
use std::str;

use csv_core::{ReadRecordResult, Reader};

pub use rows::{Cell, Column, Expected, Header, TraceRows, TraceSettings};

use crate::{Read, SpecError};

/// The longest line with its end, in bytes. Rows are read one by one into buffers of this size, so
/// traces of any length need the same memory.
const LINE_BYTES_MAX: usize = 64 * 1024;
/// Most fields that are separated; more than the number of columns, so that excess fields can be
/// counted.
const FIELDS_MAX: usize = 64;

/// Why a trace can't be read further. Lines count from 1, the header.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message says what happened, with its fields")]
pub enum TraceError {
    #[error("the trace is empty: a line with the names of the columns is expected, such as arrival,file,bytes")]
    Empty,
    #[error("the trace has a header and no rows: one or more are expected")]
    NoRows,
    #[error("line 1: the required column {} is missing", column.name())]
    MissingColumn { column: Column },
    #[error("line 1: neither a file nor an account column: one of them is required")]
    NoFile,
    #[error("line 1: column {column} is unknown: arrival, file, account, bytes, platter and track are expected")]
    UnknownColumn { column: Box<str> },
    #[error("line 1: column {} appears twice", column.name())]
    ColumnTwice { column: Column },
    #[error("line {line}: found {found} fields, expected {expected} as in the header")]
    FieldCount { line: u64, found: usize, expected: usize },
    #[error("line {line}, column {}: found {found:?}, expected {expected}", column.name())]
    Value { line: u64, column: Column, found: Box<str>, expected: Expected },
    #[error("line {line}, column arrival: found {found:?}, {earlier_s} s before the row above: rows in order of time are expected")]
    Order {
        line: u64,
        found: Box<str>,
        /// How much earlier, in seconds.
        earlier_s: f64,
    },
    /// A line that is not UTF-8.
    #[error("line {line}: invalid UTF-8: text is expected")]
    NotText { line: u64 },
    #[error("line {line}: it is longer than {LINE_BYTES_MAX} bytes")]
    LongLine { line: u64 },
    #[error("line {line}: a quoted field does not end on its line")]
    OpenQuote { line: u64 },
    #[error("line {line}: found more than {} fields, expected at most {}", FIELDS_MAX - 1, Column::ALL.len())]
    ManyFields { line: u64 },
    #[error("line {line}: a carriage return inside the line")]
    LineEnd { line: u64 },
    /// Invalid settings.
    #[error(transparent)]
    Settings(#[from] SpecError),
    #[error("line {line} can't be read: {source}")]
    Input { line: u64, source: io::Error },
}

/// Yields the reads of a CSV trace, up to the first error.
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
    /// [`TraceError`] if the header is missing or invalid, or the settings are.
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
            let mut cells = [Cell::Missing; FIELDS_MAX];
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

/// Splits CSV line by line into buffers of a fixed size. It uses the parser below the `csv` crate,
/// because that crate's reader lets records grow without bound and skips blank lines.
#[derive(Debug)]
struct Lines<R> {
    input: R,
    reader: Reader,
    line: u64,
    bytes: Vec<u8>,
    text: Vec<u8>,
    ends: [usize; FIELDS_MAX],
}

/// The fields of one line, unquoted.
#[derive(Debug, Clone, Copy)]
struct Fields<'a> {
    line: u64,
    text: &'a str,
    ends: &'a [usize; FIELDS_MAX],
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
        let (bytes, text) = (Vec::with_capacity(LINE_BYTES_MAX + 1), vec![0; LINE_BYTES_MAX + 1]);
        Self { input, reader: Reader::new(), line: 0, bytes, text, ends: [0; FIELDS_MAX] }
    }

    /// The next line; `None` at the end. An empty line has no fields.
    fn next(&mut self) -> Result<Option<Fields<'_>>, TraceError> {
        self.line += 1;
        let line = self.line;
        self.bytes.clear();
        let mut limited = io::Read::take(&mut self.input, LINE_BYTES_MAX as u64 + 1);
        let length = limited.read_until(b'\n', &mut self.bytes).map_err(|source| TraceError::Input { line, source })?;
        if length == 0 {
            return Ok(None);
        }
        if self.bytes.len() > LINE_BYTES_MAX {
            return Err(TraceError::LongLine { line });
        }
        let mut content: &[u8] = self.bytes.strip_suffix(b"\n").unwrap_or(&self.bytes);
        content = content.strip_suffix(b"\r").unwrap_or(content);
        if line == 1 {
            // Spreadsheets write a byte order mark.
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
