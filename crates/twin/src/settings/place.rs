//! Where a value stands: in a file, with line and column, or in an argument of the command line.

use std::fmt;
use std::sync::Arc;

/// A file or an argument that values came from.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Origin {
    /// Errors are sorted by it: the scenario, what it is based on, then arguments in their order.
    pub(super) order: usize,
    /// As errors call it: a path as it was given, or the argument.
    pub(super) name: String,
    /// Positions are looked up here when an error is shown, and not for each of the many values before.
    pub(super) text: String,
    pub(super) is_file: bool,
}

/// A place in an origin. It is shown as `scenarios/typical.toml:12:14` or `--set drives.throughput=60`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub(super) origin: Arc<Origin>,
    /// In bytes; `None` for the origin as a whole.
    pub(super) offset: Option<usize>,
}

impl Place {
    /// The path or the argument.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.origin.name
    }

    /// Line and column, both from 1; a column is a character, a tab too. `None` in an argument, and for a file as a whole.
    #[must_use]
    pub fn line_and_column(&self) -> Option<(usize, usize)> {
        let before = self.offset.filter(|_| self.origin.is_file).map(|offset| self.origin.text.as_bytes().split_at(offset).0)?;
        let line_start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        // Bytes that go on with a character are none of their own; a byte order mark is no column.
        let column = before[line_start..].iter().filter(|&&byte| byte & 0xc0 != 0x80).count();
        let mark = usize::from(line_start == 0 && before.starts_with("\u{feff}".as_bytes()));
        Some((before.iter().filter(|&&byte| byte == b'\n').count() + 1, column + 1 - mark))
    }

    pub(super) fn sort_key(&self) -> (usize, Option<usize>) {
        (self.origin.order, self.offset)
    }

    /// The line this stands in, without its end, and where in it.
    pub(super) fn line_text(&self) -> (&str, usize) {
        let text = &self.origin.text;
        let offset = self.offset.unwrap_or(0).min(text.len());
        let bytes = text.as_bytes();
        let start = bytes[..offset].iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        let end = bytes[offset..].iter().position(|&byte| byte == b'\n').map_or(text.len(), |length| offset + length);
        (text[start..end].trim_end_matches('\r'), offset - start)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.origin.name)?;
        match self.line_and_column() {
            Some((line, column)) => write!(f, ":{line}:{column}"),
            None => Ok(()),
        }
    }
}
