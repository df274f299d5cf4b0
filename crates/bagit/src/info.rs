//! `bag-info.txt`: labels and values that describe a bag.

use std::io::{self, BufRead};

use crate::declaration::Version;
use crate::encoding::{Content, Encoding, Lines};
use crate::finding::{Finding, Place, Problem};

/// Values are kept in memory, so that a larger file is cut.
const LONGEST_BYTES: u64 = 16 << 20;
const LONGEST_LINE_BYTES: usize = 1 << 20;

/// The fields of a bag's metadata, in their order. Labels may be repeated.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BagInfo {
    fields: Vec<(String, String)>,
}

/// Why a field can't be written so that it would be read again unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    /// RFC 8493, section 2.2.2.
    #[error(
        "{label:?} can't be a label in bag-info.txt: a label has no colon, no line end, and no white space or byte order mark at its beginning or end"
    )]
    Label {
        /// The label.
        label: String,
    },
    /// Line ends would become white space, and white space at the ends would be lost.
    #[error("the value of {label:?} can't be kept in bag-info.txt: it has a line end, or white space at its beginning or end")]
    Value {
        /// The label.
        label: String,
    },
}

impl BagInfo {
    /// No fields.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a field after the others.
    ///
    /// # Errors
    /// If the field would not be read again as it is.
    pub fn push(&mut self, label: impl Into<String>, value: impl Into<String>) -> Result<(), FieldError> {
        let (label, value) = (label.into(), value.into());
        // A mark at the beginning of the file would be taken for one of its encoding.
        if label.is_empty() || label.trim() != label || label.contains([':', '\n', '\r']) || label.starts_with('\u{feff}') {
            return Err(FieldError::Label { label });
        }
        if value.trim() != value || value.contains(['\n', '\r']) {
            return Err(FieldError::Value { label });
        }
        self.fields.push((label, value));
        Ok(())
    }

    /// All fields.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        self.fields.iter().map(|(label, value)| (label.as_str(), value.as_str()))
    }

    /// Values of a label, in their order. Labels are compared without case, as RFC 8493 requires
    /// for the reserved ones.
    pub fn values<'a>(&'a self, label: &'a str) -> impl Iterator<Item = &'a str> {
        self.fields().filter(move |(other, _)| other.eq_ignore_ascii_case(label)).map(|(_, value)| value)
    }

    /// The text of the file.
    pub(crate) fn text(&self) -> String {
        self.fields().fold(String::new(), |text, (label, value)| text + label + ": " + value + "\n")
    }

    /// Reads the file. Lines that begin with white space continue the value before them, after one
    /// space.
    ///
    /// Source: RFC 8493, section 2.2.2.
    pub(crate) fn parse(
        input: impl BufRead,
        name: &str,
        version: Version,
        encoding: Encoding,
        findings: &mut Vec<Finding>,
    ) -> io::Result<Self> {
        let mut info = Self::default();
        let mut lines = Lines::new(input, encoding, LONGEST_LINE_BYTES);
        let mut kept_bytes = 0;
        let mut reported = 0;
        while let Some((number, content)) = lines.next_line()? {
            let place = || Place::line(name, number);
            let mut report = |finding| {
                // A file of nothing but faults must not fill the memory with findings.
                reported += 1;
                if reported <= 1000 {
                    findings.push(finding);
                }
            };
            let text = match content {
                Content::Text(text) => text,
                Content::TooLong => {
                    report(Finding::error(place(), Problem::LongLine { limit_bytes: LONGEST_LINE_BYTES }));
                    continue;
                }
                Content::Undecodable => {
                    report(Finding::error(place(), Problem::Undecodable));
                    continue;
                }
            };
            // Each field costs some memory besides its text.
            kept_bytes += text.len() as u64 + 64;
            if kept_bytes > LONGEST_BYTES {
                report(Finding::error(place(), Problem::LongFile { limit_bytes: LONGEST_BYTES }));
                break;
            }
            if text.trim().is_empty() {
                report(Finding::warning(place(), Problem::EmptyLine));
                continue;
            }
            if text.starts_with([' ', '\t']) {
                match info.fields.last_mut() {
                    Some((_, value)) => {
                        if !value.is_empty() {
                            value.push(' ');
                        }
                        value.push_str(text.trim());
                    }
                    None => report(Finding::error(place(), Problem::MalformedInfoLine)),
                }
                continue;
            }
            let Some((label, value)) = text.split_once(':') else {
                report(Finding::error(place(), Problem::MalformedInfoLine));
                continue;
            };
            if label.trim().is_empty() {
                report(Finding::error(place(), Problem::MalformedInfoLine));
                continue;
            }
            if version.is_final() {
                if label.trim() != label {
                    report(Finding::error(place(), Problem::SpaceInLabel { label: label.to_owned() }));
                }
                if value.is_empty() {
                    report(Finding::warning(place(), Problem::NoSpaceAfterColon));
                } else if !value.starts_with([' ', '\t']) {
                    report(Finding::error(place(), Problem::NoSpaceAfterColon));
                }
            }
            info.fields.push((label.trim().to_owned(), value.trim().to_owned()));
        }
        if lines.has_mark() {
            findings.push(Finding::warning(Place::file(name), Problem::Mark));
        }
        if lines.has_lone_cr() {
            findings.push(Finding::warning(Place::file(name), Problem::CarriageReturns));
        }
        Ok(info)
    }
}

/// Reads a Payload-Oxum: bytes and files.
pub(crate) fn parse_oxum(value: &str) -> Option<(u64, u64)> {
    let number = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_digit()).then(|| digits.parse().ok())?;
    let (bytes, files) = value.split_once('.')?;
    Some((number(bytes)?, number(files)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, version: Version) -> (Vec<(String, String)>, Vec<Problem>) {
        let mut findings = Vec::new();
        let info = BagInfo::parse(text.as_bytes(), "bag-info.txt", version, Encoding::Utf8, &mut findings).unwrap();
        (info.fields, findings.into_iter().map(|finding| finding.problem).collect())
    }

    #[test]
    fn repeated_labels_folded_values_and_their_order_are_kept() {
        let (fields, problems) = read("B: 1\nA: x: y\n  folded\n\ttwice\r\nB: 2\nC:  \n", Version::V1_0);
        let expected = [("B", "1"), ("A", "x: y folded twice"), ("B", "2"), ("C", "")];
        assert_eq!(fields, expected.map(|(label, value)| (label.to_owned(), value.to_owned())));
        assert_eq!(problems, []);
    }

    #[test]
    fn separators_that_were_common_before_1_0_are_errors_since() {
        let text = "A : 1\nB:2\nC\t:\t3\n";
        let (fields, problems) = read(text, Version::V0_97);
        assert_eq!(fields.len(), 3);
        assert_eq!(problems, []);
        assert_eq!(
            read(text, Version::V1_0).1,
            [Problem::SpaceInLabel { label: "A ".into() }, Problem::NoSpaceAfterColon, Problem::SpaceInLabel { label: "C\t".into() }]
        );
    }

    #[test]
    fn malformed_lines_are_errors_and_empty_lines_warnings() {
        assert_eq!(
            read(" folded\nnone\n: x\n\n", Version::V0_97).1,
            [Problem::MalformedInfoLine, Problem::MalformedInfoLine, Problem::MalformedInfoLine, Problem::EmptyLine]
        );
    }

    #[test]
    fn a_file_of_faults_gives_a_bounded_number_of_findings() {
        assert_eq!(read(&"x\n".repeat(100_000), Version::V1_0).1.len(), 1000);
    }

    #[test]
    fn fields_that_would_change_are_refused() {
        let mut info = BagInfo::new();
        for label in ["", " A", "A ", "A\t", "A:B", "A\nB", "A\rB", "\u{feff}A"] {
            assert!(matches!(info.push(label, "x"), Err(FieldError::Label { .. })), "{label:?}");
        }
        for value in [" x", "x ", "a\nb", "a\rb"] {
            assert!(matches!(info.push("A", value), Err(FieldError::Value { .. })), "{value:?}");
        }
        info.push("A", "").unwrap();
        info.push("A", "é: ü").unwrap();
        // RFC 8493 allows white space within labels; what was read can be written again.
        info.push("A\tB \u{1}C", "x\ty").unwrap();
        let (fields, problems) = read(&info.text(), Version::V1_0);
        assert_eq!((fields, problems), (info.fields, Vec::new()));
    }

    #[test]
    fn an_oxum_is_two_plain_numbers() {
        assert_eq!(parse_oxum("279164409832.1198"), Some((279_164_409_832, 1198)));
        for malformed in ["", "1", "1.", ".1", "1.2.3", "+1.2", "1.-2", "1 .2", "99999999999999999999.1"] {
            assert_eq!(parse_oxum(malformed), None, "{malformed}");
        }
    }
}
