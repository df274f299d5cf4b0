//! `bagit.txt`: the version of a bag, and the encoding of its tag files.

use std::fmt;
use std::io::{self, Read};

use crate::encoding::{Content, Encoding, Lines};
use crate::finding::{Finding, Place, Problem};

/// Name of the file.
pub(crate) const NAME: &str = "bagit.txt";
const LONGEST_BYTES: u64 = 4096;

/// A version of BagIt that this crate reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// 0.93, with `package-info.txt`.
    V0_93,
    /// 0.94, with `package-info.txt`.
    V0_94,
    /// 0.95, with `package-info.txt`.
    V0_95,
    /// 0.96.
    V0_96,
    /// 0.97.
    V0_97,
    /// 1.0, RFC 8493.
    V1_0,
}

impl Version {
    const ALL: [Self; 6] = [Self::V0_93, Self::V0_94, Self::V0_95, Self::V0_96, Self::V0_97, Self::V1_0];

    /// As in bagit.txt.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::V0_93 => "0.93",
            Self::V0_94 => "0.94",
            Self::V0_95 => "0.95",
            Self::V0_96 => "0.96",
            Self::V0_97 => "0.97",
            Self::V1_0 => "1.0",
        }
    }

    /// True from 1.0, which made several customs into rules.
    pub(crate) fn is_final(self) -> bool {
        self >= Self::V1_0
    }

    /// Name of the file with the bag's metadata.
    pub(crate) fn info_name(self) -> &'static str {
        if self <= Self::V0_95 { "package-info.txt" } else { "bag-info.txt" }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Reads bagit.txt, which is in UTF-8 whatever it declares.
///
/// Source: RFC 8493, section 2.1.1.
pub(crate) fn parse(input: impl Read, warnings: &mut Vec<Finding>) -> io::Result<Result<(Version, Encoding), Finding>> {
    let mut bytes = Vec::new();
    input.take(LONGEST_BYTES + 1).read_to_end(&mut bytes)?;
    let fault = |line, problem| Ok(Err(Finding::error(Place::line(NAME, line), problem)));
    if bytes.starts_with(b"\xef\xbb\xbf") {
        return fault(1, Problem::MarkInDeclaration);
    }
    let too_long = bytes.len() as u64 > LONGEST_BYTES;
    let mut lines = Lines::new(bytes.as_slice(), Encoding::Utf8, bytes.len());
    let mut field = |label: &str, expected| -> Result<String, Finding> {
        let line = lines.next_line().ok().flatten();
        let number = line.as_ref().map_or(1, |line| line.0);
        let value = match line {
            Some((_, Content::Text(text))) => text.strip_prefix(label).filter(|value| !value.is_empty() && value.trim() == *value),
            _ => None,
        };
        value.map(str::to_owned).ok_or_else(|| Finding::error(Place::line(NAME, number), Problem::MalformedDeclaration { expected }))
    };
    let read = field("BagIt-Version: ", "BagIt-Version: M.N")
        .and_then(|version| Ok((version, field("Tag-File-Character-Encoding: ", "Tag-File-Character-Encoding: UTF-8")?)));
    let (version, encoding) = match read {
        Ok(fields) => fields,
        Err(finding) => return Ok(Err(finding)),
    };
    while let Some((number, content)) = lines.next_line()? {
        if content != Content::Text("") || too_long {
            return fault(number, Problem::LongDeclaration);
        }
        warnings.push(Finding::warning(Place::line(NAME, number), Problem::EmptyLine));
    }
    let Some(version) = Version::ALL.into_iter().find(|known| known.name() == version) else {
        return fault(1, Problem::UnsupportedVersion { version });
    };
    match Encoding::of_name(&encoding) {
        Some(encoding) => Ok(Ok((version, encoding))),
        None => fault(2, Problem::UnsupportedEncoding { name: encoding }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(Version, Encoding), Problem> {
        parse(text.as_bytes(), &mut Vec::new()).unwrap().map_err(|finding| finding.problem)
    }

    #[test]
    fn a_declaration_has_two_exact_lines() {
        assert_eq!(read("BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n"), Ok((Version::V1_0, Encoding::Utf8)));
        assert_eq!(read("BagIt-Version: 0.97\r\nTag-File-Character-Encoding: utf-16le"), Ok((Version::V0_97, Encoding::Utf16Le)));
        for malformed in [
            "",
            "BagIt-Version: 1.0\n",
            "BagIt-Version:1.0\nTag-File-Character-Encoding: UTF-8\n",
            "BagIt-Version:  1.0\nTag-File-Character-Encoding: UTF-8\n",
            "BagIt-Version : 1.0\nTag-File-Character-Encoding: UTF-8\n",
            "BagIt-Version: 1.0 \nTag-File-Character-Encoding: UTF-8\n",
            " BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n",
            "Tag-File-Character-Encoding: UTF-8\nBagIt-Version: 1.0\n",
            "BagIt-Version: 1.0\n\nTag-File-Character-Encoding: UTF-8\n",
        ] {
            assert!(matches!(read(malformed), Err(Problem::MalformedDeclaration { .. })), "{malformed:?}");
        }
        assert_eq!(read("BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\nmore\n"), Err(Problem::LongDeclaration));
        assert_eq!(read("\u{feff}BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n"), Err(Problem::MarkInDeclaration));
        let endless = format!("BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n{}", "\n".repeat(5000));
        assert_eq!(read(&endless), Err(Problem::LongDeclaration));
    }

    #[test]
    fn unknown_versions_and_encodings_are_named() {
        for version in ["1.1", "2.0", "0.92", "1.00", "x"] {
            let text = format!("BagIt-Version: {version}\nTag-File-Character-Encoding: UTF-8\n");
            assert_eq!(read(&text), Err(Problem::UnsupportedVersion { version: version.to_owned() }));
        }
        assert_eq!(
            read("BagIt-Version: 1.0\nTag-File-Character-Encoding: EBCDIC\n"),
            Err(Problem::UnsupportedEncoding { name: "EBCDIC".into() })
        );
    }
}
