//! Lines of tag files, in the encoding that bagit.txt declares.

use std::io::{self, BufRead};

/// Encodings of tag files.
///
/// RFC 8493 recommends UTF-8, and this crate writes nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// UTF-8, or US-ASCII, which is a part of it.
    Utf8,
    /// ISO-8859-1: each byte is the code point of a character.
    Latin1,
    /// UTF-16 with the byte order of its mark; without a mark, big-endian.
    Utf16,
    /// UTF-16, big-endian.
    Utf16Be,
    /// UTF-16, little-endian.
    Utf16Le,
}

impl Encoding {
    /// By its name in the IANA registry, in any case.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "utf-8" | "utf8" | "us-ascii" | "ascii" => Some(Self::Utf8),
            "iso-8859-1" | "iso_8859-1" | "iso8859-1" | "latin1" | "latin-1" => Some(Self::Latin1),
            "utf-16" | "utf16" => Some(Self::Utf16),
            "utf-16be" | "utf16be" => Some(Self::Utf16Be),
            "utf-16le" | "utf16le" => Some(Self::Utf16Le),
            _ => None,
        }
    }
}

/// What a line contains.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Content<'a> {
    Text(&'a str),
    TooLong,
    Undecodable,
}

/// Reads lines that end with LF, CR or CRLF, and holds one at a time.
pub(crate) struct Lines<R> {
    input: R,
    encoding: Encoding,
    limit_bytes: usize,
    number: u64,
    text: String,
    line: Vec<u8>,
    /// The last line ended with a CR; a LF that follows belongs to it.
    ended_with_cr: bool,
    /// A line that ended with a CR without LF.
    has_lone_cr: bool,
    has_mark: bool,
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(input: R, encoding: Encoding, limit_bytes: usize) -> Self {
        Self {
            input,
            encoding,
            limit_bytes,
            number: 0,
            text: String::new(),
            line: Vec::new(),
            ended_with_cr: false,
            has_lone_cr: false,
            has_mark: false,
        }
    }

    /// True if a line so far ended with CR alone.
    pub(crate) fn has_lone_cr(&self) -> bool {
        self.has_lone_cr
    }

    /// True if the content began with a byte-order mark in UTF-8.
    pub(crate) fn has_mark(&self) -> bool {
        self.has_mark
    }

    /// Returns the next line and its number, from 1.
    pub(crate) fn next_line(&mut self) -> io::Result<Option<(u64, Content<'_>)>> {
        let is_wide = !matches!(self.encoding, Encoding::Utf8 | Encoding::Latin1);
        self.line.clear();
        let found = if is_wide { self.read_wide()? } else { self.read_bytes()? };
        let Some(fits) = found else { return Ok(None) };
        self.number += 1;
        if !fits {
            return Ok(Some((self.number, Content::TooLong)));
        }
        let is_first = self.number == 1;
        self.text.clear();
        let is_text = match self.encoding {
            Encoding::Utf8 => std::str::from_utf8(&self.line).map(|line| self.text.push_str(line)).is_ok(),
            Encoding::Latin1 => {
                self.text.extend(self.line.iter().map(|byte| char::from(*byte)));
                true
            }
            _ => {
                let is_little = self.encoding == Encoding::Utf16Le;
                let units = self.line.chunks_exact(2).map(|pair| match is_little {
                    true => u16::from_le_bytes([pair[0], pair[1]]),
                    false => u16::from_be_bytes([pair[0], pair[1]]),
                });
                let text: Result<String, _> = char::decode_utf16(units).collect();
                let is_whole = self.line.len().is_multiple_of(2);
                text.map(|text| self.text = text).is_ok() && is_whole
            }
        };
        if !is_text {
            return Ok(Some((self.number, Content::Undecodable)));
        }
        let text = match self.text.strip_prefix('\u{feff}') {
            Some(rest) if is_first => {
                self.has_mark = self.encoding == Encoding::Utf8;
                rest
            }
            _ => self.text.as_str(),
        };
        Ok(Some((self.number, Content::Text(text))))
    }

    /// Reads a line of single bytes. Returns whether it fits, and `None` at the end.
    fn read_bytes(&mut self) -> io::Result<Option<bool>> {
        let mut has_any = false;
        let mut fits = true;
        loop {
            let buffer = match self.input.fill_buf() {
                Ok(buffer) => buffer,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if buffer.is_empty() {
                self.has_lone_cr |= std::mem::take(&mut self.ended_with_cr);
                return Ok(has_any.then_some(fits));
            }
            if std::mem::take(&mut self.ended_with_cr) {
                if buffer[0] == b'\n' {
                    self.input.consume(1);
                    continue;
                }
                self.has_lone_cr = true;
            }
            has_any = true;
            let end = buffer.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let part = &buffer[..end.unwrap_or(buffer.len())];
            if self.line.len() + part.len() <= self.limit_bytes {
                self.line.extend_from_slice(part);
            } else {
                fits = false;
            }
            let consumed = part.len() + usize::from(end.is_some());
            self.ended_with_cr = end.is_some_and(|end| buffer[end] == b'\r');
            self.input.consume(consumed);
            if end.is_some() {
                return Ok(Some(fits));
            }
        }
    }

    /// Reads a line of UTF-16.
    fn read_wide(&mut self) -> io::Result<Option<bool>> {
        let mut has_any = false;
        let mut fits = true;
        loop {
            let mut pair = [0; 2];
            let got = read_up_to(&mut self.input, &mut pair)?;
            if got == 0 {
                self.has_lone_cr |= std::mem::take(&mut self.ended_with_cr);
                return Ok(has_any.then_some(fits));
            }
            if self.number == 0 && !has_any && self.encoding == Encoding::Utf16 {
                self.encoding = if pair == [0xff, 0xfe] { Encoding::Utf16Le } else { Encoding::Utf16Be };
            }
            let unit = if self.encoding == Encoding::Utf16Le { u16::from_le_bytes(pair) } else { u16::from_be_bytes(pair) };
            let is_whole = got == 2;
            if std::mem::take(&mut self.ended_with_cr) {
                if is_whole && unit == u16::from(b'\n') {
                    continue;
                }
                self.has_lone_cr = true;
            }
            has_any = true;
            if is_whole && (unit == u16::from(b'\n') || unit == u16::from(b'\r')) {
                self.ended_with_cr = unit == u16::from(b'\r');
                return Ok(Some(fits));
            }
            if self.line.len() + got <= self.limit_bytes {
                self.line.extend_from_slice(&pair[..got]);
            } else {
                fits = false;
            }
        }
    }
}

fn read_up_to(input: &mut impl BufRead, out: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < out.len() {
        match input.read(&mut out[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &[u8], encoding: Encoding, buffer_bytes: usize) -> Vec<Option<String>> {
        let mut lines = Lines::new(io::BufReader::with_capacity(buffer_bytes, bytes), encoding, 20);
        let mut all = Vec::new();
        while let Some((number, content)) = lines.next_line().unwrap() {
            assert_eq!(number as usize, all.len() + 1);
            all.push(match content {
                Content::Text(text) => Some(text.to_owned()),
                _ => None,
            });
        }
        all
    }

    fn texts(texts: &[&str]) -> Vec<Option<String>> {
        texts.iter().map(|text| Some((*text).to_owned())).collect()
    }

    #[test]
    fn lines_end_with_any_of_three_line_ends_wherever_buffers_end() {
        for buffer_bytes in 1..9 {
            let found = lines(b"a\nb\r\nc\rd\r\r\n\ne", Encoding::Utf8, buffer_bytes);
            assert_eq!(found, texts(&["a", "b", "c", "d", "", "", "e"]), "{buffer_bytes}");
            assert_eq!(lines(b"", Encoding::Utf8, buffer_bytes), texts(&[]));
            assert_eq!(lines(b"a\r\n", Encoding::Utf8, buffer_bytes), texts(&["a"]));
        }
    }

    #[test]
    fn lines_of_utf_16_are_those_of_utf_8() {
        let text = "a: é\r\nb: 𝄞\rc\n";
        let be: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
        let le: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let marked: Vec<u8> = [0xff, 0xfe].into_iter().chain(le.iter().copied()).collect();
        for (bytes, encoding) in [(&be, Encoding::Utf16Be), (&be, Encoding::Utf16), (&le, Encoding::Utf16Le), (&marked, Encoding::Utf16)] {
            assert_eq!(lines(bytes, encoding, 3), texts(&["a: é", "b: 𝄞", "c"]), "{encoding:?}");
        }
        assert_eq!(lines(&be[..be.len() - 1], Encoding::Utf16Be, 3)[2], None);
    }

    #[test]
    fn long_and_undecodable_lines_are_reported_and_the_next_is_read() {
        assert_eq!(lines(b"xxxxxxxxxxxxxxxxxxxxx\nb\n\xff\nc", Encoding::Utf8, 4), [None, Some("b".into()), None, Some("c".into())]);
        assert_eq!(lines(b"\xe9\n", Encoding::Latin1, 4), texts(&["é"]));
    }

    #[test]
    fn a_mark_and_lone_carriage_returns_are_noticed() {
        let mut marked = Lines::new(&b"\xef\xbb\xbfa\r\nb\n"[..], Encoding::Utf8, 20);
        assert_eq!(marked.next_line().unwrap(), Some((1, Content::Text("a"))));
        marked.next_line().unwrap();
        assert!(marked.has_mark() && !marked.has_lone_cr());
        let mut lone = Lines::new(&b"a\rb"[..], Encoding::Utf8, 20);
        while lone.next_line().unwrap().is_some() {}
        assert!(lone.has_lone_cr() && !lone.has_mark());
    }
}
