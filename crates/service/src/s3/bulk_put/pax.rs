//! The records of a pax header: `LENGTH NAME=VALUE\n`, where the length is that of the whole
//! record.
//!
//! Source: POSIX.1-2017, "pax Interchange Format". The crate `tar` takes a newline for the end of a
//! record, although values may contain some, and ignores what it can't parse.

use std::collections::HashSet;

/// A record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record<'a> {
    pub(super) name: &'a str,
    pub(super) value: &'a [u8],
}

/// All records of a header. `None` if one is malformed, or a name occurs twice.
pub(super) fn records(mut content: &[u8]) -> Option<Vec<Record<'_>>> {
    let (mut records, mut names) = (Vec::new(), HashSet::new());
    while !content.is_empty() {
        let space = content.iter().take(20).position(|byte| *byte == b' ')?;
        let digits = &content[..space];
        let is_number = !digits.is_empty() && digits[0] != b'0' && digits.iter().all(u8::is_ascii_digit);
        let length: usize = str::from_utf8(digits).ok().filter(|_| is_number)?.parse().ok()?;
        let (record, rest) = content.split_at_checked(length)?;
        let (last, pair) = record.get(space + 1..)?.split_last()?;
        let equals = pair.iter().position(|byte| *byte == b'=')?;
        let name = str::from_utf8(&pair[..equals]).ok()?;
        if *last != b'\n' || name.is_empty() || !names.insert(name) {
            return None;
        }
        records.push(Record { name, value: &pair[equals + 1..] });
        content = rest;
    }
    Some(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_may_contain_anything() {
        let record = |name, value: &'static [u8]| Record { name, value };
        assert_eq!(records(b""), Some(Vec::new()));
        assert_eq!(records(b"6 a=b\n8 c=\n\0=\n"), Some(vec![record("a", b"b"), record("c", b"\n\0=")]));
        assert_eq!(records(b"5 a=\n"), Some(vec![record("a", b"")]));
    }

    #[test]
    fn what_is_malformed_is_no_record() {
        for content in [
            &b"6 a=b"[..],
            b"6 a=bx",
            b"+6 a=b\n",
            b"06 a=b\n",
            b"5 a=b\n",
            b"7 a=b\n",
            b" a=b\n",
            b"4 =\n",
            b"5 =a\n",
            b"5 abc\n",
            b"2 ",
            b"1",
            b"\n6 a=b\n",
            b"6 a=b\n\n",
            b"6 a=b\n6 a=c\n",
            b"6 \xff=b\n",
            b"99999999999999999999 a=b\n",
            b"18446744073709551615 a=b\n",
        ] {
            assert_eq!(records(content), None, "{:?}", String::from_utf8_lossy(content));
        }
    }
}
