//! Positions of values: line and column in a file, or a command-line argument.

use std::fmt;
use std::sync::Arc;

/// A file or argument that supplied values.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Origin {
    /// Sort order of errors: the file, its bases, then arguments in the order given.
    pub(super) order: usize,
    /// Name in errors: the path as given, or the argument.
    pub(super) name: String,
    /// The file's text. Lines and columns are computed only when an error is shown, not for every
    /// value.
    pub(super) text: String,
    /// False for arguments and defaults: they have no lines, and paths in them are not relative to
    /// a file.
    pub(super) is_file: bool,
}

/// A position in an origin, displayed as `scenarios/typical.toml:12:14` or `--set
/// drives.throughput=60`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceSpan {
    pub(super) origin: Arc<Origin>,
    /// Byte offset; `None` for the whole origin.
    pub(super) offset: Option<usize>,
}

impl SourceSpan {
    /// The path or the argument.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.origin.name
    }

    /// Line and column, both counted from 1. A column is one character; a tab counts as one. `None`
    /// for arguments and whole files.
    #[must_use]
    pub fn line_and_column(&self) -> Option<(usize, usize)> {
        let before = self.offset.filter(|_| self.origin.is_file).map(|offset| self.origin.text.as_bytes().split_at(offset).0)?;
        let line_start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        // UTF-8 continuation bytes and a byte order mark don't count as columns.
        let column = before[line_start..].iter().filter(|&&byte| byte & 0xc0 != 0x80).count();
        let mark = usize::from(line_start == 0 && before.starts_with("\u{feff}".as_bytes()));
        Some((before.iter().filter(|&&byte| byte == b'\n').count() + 1, column + 1 - mark))
    }

    pub(super) fn sort_key(&self) -> (usize, Option<usize>) {
        (self.origin.order, self.offset)
    }

    /// The line that contains this position, without its line end, and the offset in it.
    pub(super) fn line_text(&self) -> (&str, usize) {
        let text = &self.origin.text;
        let offset = self.offset.unwrap_or(0).min(text.len());
        let bytes = text.as_bytes();
        let start = bytes[..offset].iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        let end = bytes[offset..].iter().position(|&byte| byte == b'\n').map_or(text.len(), |length| offset + length);
        (text[start..end].trim_end_matches('\r'), offset - start)
    }
}

impl fmt::Display for SourceSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.origin.name)?;
        match self.line_and_column() {
            Some((line, column)) => write!(f, ":{line}:{column}"),
            None => Ok(()),
        }
    }
}
