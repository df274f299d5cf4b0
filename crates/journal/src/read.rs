//! The reader of journals, line by line.

use std::io::{BufRead, Read};

use fulgurite_domain::Micros;

use crate::digest::RunningDigest;
use crate::words::{hexadecimal, parse};
use crate::{Detail, Fact, Header, JournalError, LineContent};

/// Longer lines are rejected. A request for a million shards has a line of 20 MB.
pub(crate) const LINE_BYTES_MAX: usize = 32 << 20;

/// Reads the facts of a journal, with one line in memory at a time.
///
/// An iterator over line numbers and facts, the last of which is [`Fact::End`]. It ends after an
/// error.
#[derive(Debug)]
pub struct JournalReader<R> {
    lines: Lines<R>,
    header: Header,
    inputs: u64,
    now: Micros,
    is_over: bool,
}

impl<R: BufRead> JournalReader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// [`JournalError`] if the header is damaged, or the input is not a journal.
    pub fn new(from: R) -> Result<Self, JournalError> {
        let mut lines = Lines { from, buffer: Vec::new(), end: 0, line: 0, digest: RunningDigest::NEW };
        let header = Header::read(&mut lines)?;
        Ok(Self { lines, header, inputs: 0, now: Micros::ZERO, is_over: false })
    }

    /// The header of the journal.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    fn fact(&mut self) -> Result<Fact, JournalError> {
        let text = self.lines.next_checked("a fact, and at the end a line that begins with `.`")?;
        let fact = parse(text).map_err(|wrong| {
            let found = if wrong.found.is_empty() { LineContent::Nothing } else { LineContent::text(wrong.found) };
            (found, wrong.expected)
        });
        let line = self.lines.line;
        let fact = fact.map_err(|(found, expected)| JournalError::Line { line, found, expected })?;
        if let Some(now) = fact.instant() {
            if now < self.now {
                return Err(JournalError::Backwards { line, found: now, expected: self.now });
            }
            self.now = now;
        }
        self.inputs += u64::from(fact.is_input());
        match fact {
            Fact::End { inputs, .. } => {
                if inputs != self.inputs {
                    return Err(JournalError::Count { line, found: inputs, expected: self.inputs });
                }
                if !self.lines.is_at_end()? {
                    self.lines.next("the end of the journal")?;
                    return Err(self.lines.unexpected("the end of the journal"));
                }
            }
            Fact::Commanded { .. } | Fact::Ended { .. } if self.header.detail != Detail::Commands => {
                return Err(self.lines.unexpected("an input or a digest, since the header says so"));
            }
            Fact::Digest { .. } if self.header.detail == Detail::Commands => {
                return Err(self.lines.unexpected("an input or a command, since the header says so"));
            }
            _ => {}
        }
        Ok(fact)
    }
}

impl<R: BufRead> Iterator for JournalReader<R> {
    type Item = Result<(u64, Fact), JournalError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let fact = self.fact();
        self.is_over = matches!(fact, Err(_) | Ok(Fact::End { .. }));
        Some(fact.map(|fact| (self.lines.line, fact)))
    }
}

#[derive(Debug)]
pub(crate) struct Lines<R> {
    from: R,
    buffer: Vec<u8>,
    /// End of the text in the buffer, without the check and the newline.
    end: usize,
    line: u64,
    digest: RunningDigest,
}

impl<R: BufRead> Lines<R> {
    /// The next line. `expected` describes it in errors.
    pub(crate) fn next(&mut self, expected: &'static str) -> Result<&str, JournalError> {
        self.fill(expected)?;
        let Self { digest, .. } = self;
        let text = std::str::from_utf8(&self.buffer[..self.end]).expect("it was checked");
        digest.add(text);
        Ok(text)
    }

    /// The next line, after its check was verified and removed.
    pub(crate) fn next_checked(&mut self, expected: &'static str) -> Result<&str, JournalError> {
        self.fill(expected)?;
        let line = self.line;
        let checked = self.text().rsplit_once(" ~").and_then(|(text, digits)| Some((text.len(), hexadecimal(digits, 8)? as u32)));
        let Some((end, found)) = checked else {
            return Err(self.unexpected("` ~` and a check of 8 digits at the end of the line"));
        };
        self.end = end;
        let text = std::str::from_utf8(&self.buffer[..end]).expect("it was checked");
        self.digest.add(text);
        let expected = self.digest.checksum();
        if found == expected { Ok(text) } else { Err(JournalError::Damaged { line, found, expected }) }
    }

    fn fill(&mut self, expected: &'static str) -> Result<(), JournalError> {
        self.buffer.clear();
        let line = self.line;
        let mut limited = self.from.by_ref().take(LINE_BYTES_MAX as u64);
        limited.read_until(b'\n', &mut self.buffer).map_err(|source| JournalError::Io { line, source })?;
        if self.buffer.pop() != Some(b'\n') {
            if self.buffer.len() + 1 >= LINE_BYTES_MAX {
                return Err(JournalError::Line { line: line + 1, found: LineContent::TooLong, expected: "the end of the line" });
            }
            // A partial last line is not parsed.
            return Err(JournalError::Truncated { line, expected });
        }
        self.line += 1;
        self.end = self.buffer.len();
        if let Err(wrong) = std::str::from_utf8(&self.buffer) {
            let found = LineContent::NotText { byte: self.buffer[wrong.valid_up_to()], column: wrong.valid_up_to() + 1 };
            return Err(JournalError::Line { line: self.line, found, expected: "text in UTF-8" });
        }
        Ok(())
    }

    fn is_at_end(&mut self) -> Result<bool, JournalError> {
        let line = self.line;
        self.from.fill_buf().map(<[u8]>::is_empty).map_err(|source| JournalError::Io { line, source })
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.buffer[..self.end]).expect("it was checked")
    }

    /// The rest of the next line, which must begin with `word`.
    pub(crate) fn after(&mut self, word: &str, expected: &'static str) -> Result<&str, JournalError> {
        self.next(expected)?;
        if !self.text().starts_with(word) {
            return Err(self.unexpected(expected));
        }
        Ok(&self.text()[word.len()..])
    }

    pub(crate) fn unexpected(&self, expected: &'static str) -> JournalError {
        JournalError::Line { line: self.line, found: LineContent::text(self.text()), expected }
    }
}
