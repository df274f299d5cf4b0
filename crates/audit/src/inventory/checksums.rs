//! Lists of checksums as inventories: what `sha256sum`, `md5sum`, `b2sum`, `rclone hashsum` and
//! their kin print.
//!
//! ```text
//! DIGEST  name          GNU; * instead of the second space is the same; BSD's -r has one space
//! \DIGEST  a\nb         GNU, if the name contains a line break or a backslash
//! SHA256 (name) = DIGEST    --tag, BSD, openssl
//! # comment
//! ```
//!
//! A list has no lengths. A line without a tag doesn't say its algorithm: it is the one that the
//! caller names, or else the usual one for so many digits, if only one is usual.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use fulgurite_digest::{Algorithm, Digest};
use fulgurite_places::location_of;

use super::{InventoryError, LineProblem, Row, check_name};
use crate::copy::Expected;

/// Bytes of the longest line: each byte of the longest name may be escaped.
const LONGEST_LINE: usize = 64 << 10;

/// Reads the rows of a list. After a line that can't be used, the others follow.
pub struct Checksums<'a> {
    path: PathBuf,
    source: BufReader<Box<dyn Read + 'a>>,
    algorithm: Option<Algorithm>,
    line: u64,
    buffer: Vec<u8>,
    ended: bool,
}

impl<'a> Checksums<'a> {
    /// Reads a list. `algorithm` is that of lines that don't name one.
    #[must_use]
    pub fn new(path: &Path, source: Box<dyn Read + 'a>, algorithm: Option<Algorithm>) -> Self {
        let source = BufReader::with_capacity(LONGEST_LINE, source);
        Self { path: path.into(), source, algorithm, line: 0, buffer: Vec::new(), ended: false }
    }

    /// Reads the next line into the buffer, without its end. Returns false at the end of the list.
    fn read_line(&mut self) -> Result<bool, InventoryError> {
        let failed = |source| InventoryError::Read { path: self.path.clone(), source };
        self.buffer.clear();
        self.line += 1;
        let most = LONGEST_LINE as u64;
        (&mut self.source).take(most).read_until(b'\n', &mut self.buffer).map_err(failed)?;
        if self.buffer.is_empty() {
            return Ok(false);
        }
        if self.buffer.last() == Some(&b'\n') {
            self.buffer.pop();
        } else if self.buffer.len() == LONGEST_LINE {
            self.source.skip_until(b'\n').map_err(failed)?;
            return Err(self.problem(LineProblem::LongField { most: LONGEST_LINE }));
        }
        if self.buffer.last() == Some(&b'\r') {
            self.buffer.pop();
        }
        if self.line == 1 && self.buffer.starts_with(b"\xef\xbb\xbf") {
            self.buffer.drain(..3);
        }
        Ok(true)
    }

    fn problem(&self, problem: LineProblem) -> InventoryError {
        InventoryError::Line { path: self.path.clone(), line: self.line, problem }
    }

    /// The algorithm of a digest of so many digits.
    fn algorithm_of(&self, digits: usize) -> Result<Algorithm, InventoryError> {
        if let Some(algorithm) = self.algorithm {
            return Ok(algorithm);
        }
        match digits {
            32 => Ok(Algorithm::Md5),
            40 => Ok(Algorithm::Sha1),
            56 => Ok(Algorithm::Sha224),
            64 => Ok(Algorithm::Sha256),
            96 => Ok(Algorithm::Sha384),
            // A wrong guess would declare all copies wrong.
            128 => Err(InventoryError::UnclearAlgorithm { path: self.path.clone(), line: self.line }),
            _ => Err(self.problem(LineProblem::UnknownLength { digits })),
        }
    }

    fn row(&self) -> Result<Row, InventoryError> {
        // A name may be in another encoding than UTF-8; folders list it in this way, too.
        let text = &*location_of(&self.buffer);
        // Otherwise a list made with --zero would be one file of a strange name.
        if text.contains('\0') {
            return Err(self.problem(LineProblem::Nul));
        }
        let (text, is_escaped) = text.strip_prefix('\\').map_or((text, false), |rest| (rest, true));
        let (digest, name) = match tagged(text) {
            Some((tag, name, digits)) => {
                let unknown = || self.problem(LineProblem::UnknownAlgorithm { name: tag.into() });
                let algorithm = tag.replace("SHA2-", "SHA-").parse().map_err(|_| unknown())?;
                (self.digest(algorithm, digits)?, name)
            }
            None => {
                let (digits, rest) = text.split_once(' ').ok_or_else(|| self.problem(LineProblem::NoDigest))?;
                if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                    return Err(self.problem(LineProblem::NoDigest));
                }
                let digest = self.digest(self.algorithm_of(digits.len())?, digits)?;
                (digest, rest.strip_prefix([' ', '*']).unwrap_or(rest))
            }
        };
        let name = if is_escaped { unescaped(name).ok_or_else(|| self.problem(LineProblem::Escape))? } else { name.to_owned() };
        if name == "-" {
            return Err(self.problem(LineProblem::StandardInput));
        }
        let name = below(&name);
        check_name(name).map_err(|problem| self.problem(problem))?;
        // Places refuse such locations, so these copies could never be checked.
        if name.starts_with('/') || name.split('/').any(|part| part == "..") {
            return Err(self.problem(LineProblem::OutsideName { name: name.to_owned() }));
        }
        Ok(Row { name: name.to_owned(), expected: Expected { bytes: None, digests: vec![digest] }, location: None, node: None })
    }

    fn digest(&self, algorithm: Algorithm, digits: &str) -> Result<Digest, InventoryError> {
        let wrong = || self.problem(LineProblem::Digest { text: digits.into(), algorithm: algorithm.name().into() });
        Digest::from_hex(algorithm, digits).ok_or_else(wrong)
    }
}

impl Iterator for Checksums<'_> {
    type Item = Result<Row, InventoryError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.ended {
            match self.read_line() {
                Ok(true) if self.buffer.is_empty() || self.buffer[0] == b'#' => {}
                Ok(true) => {
                    let row = self.row();
                    self.ended = matches!(row, Err(InventoryError::UnclearAlgorithm { .. }));
                    return Some(row);
                }
                Ok(false) => self.ended = true,
                Err(error) => {
                    self.ended = matches!(error, InventoryError::Read { .. });
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

/// The tag, name and digest of a line in BSD's format.
fn tagged(line: &str) -> Option<(&str, &str, &str)> {
    let (tag, rest) = line.split_once('(')?;
    let (name, digits) = rest.rsplit_once('=')?;
    let tag = tag.strip_suffix(' ').unwrap_or(tag);
    let is_tag = !tag.is_empty() && tag.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-/_".contains(&byte));
    let name = name.strip_suffix(' ').unwrap_or(name).strip_suffix(')')?;
    is_tag.then(|| (tag, name, digits.trim()))
}

/// A name as it was before GNU's tools escaped it; `None` if they wouldn't have written that.
fn unescaped(name: &str) -> Option<String> {
    let mut plain = String::with_capacity(name.len());
    let mut letters = name.chars();
    while let Some(letter) = letters.next() {
        plain.push(match letter {
            '\\' => match letters.next()? {
                '\\' => '\\',
                'n' => '\n',
                'r' => '\r',
                _ => return None,
            },
            other => other,
        });
    }
    Some(plain)
}

/// A name without `./` at its beginning, which `find .` writes.
fn below(mut name: &str) -> &str {
    while let Some(rest) = name.strip_prefix("./") {
        name = rest.trim_start_matches('/');
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    const MD5: &str = "900150983cd24fb0d6963f7d28e17f72";
    const SHA256: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    fn rows(list: &[u8], algorithm: Option<Algorithm>) -> Vec<Result<Row, InventoryError>> {
        Checksums::new(Path::new("SUMS"), Box::new(list), algorithm).collect()
    }

    /// Names and algorithms of a list without problems.
    fn listed(list: &str) -> Vec<(String, Algorithm)> {
        let row = |row: Result<Row, InventoryError>| {
            let row = row.expect("each line can be used");
            assert_eq!((row.expected.bytes, row.expected.digests.len(), row.location, row.node), (None, 1, None, None));
            (row.name, row.expected.digests[0].algorithm())
        };
        rows(list.as_bytes(), None).into_iter().map(row).collect()
    }

    fn problem(line: &str) -> LineProblem {
        match rows(format!("# first\n{line}\n{MD5}  good\n").as_bytes(), None).as_slice() {
            [Err(InventoryError::Line { line: 2, problem, .. }), Ok(row)] if row.name == "good" => problem.clone(),
            other => panic!("expected a problem with a line, and a row: {other:?}"),
        }
    }

    #[test]
    fn all_formats_of_the_usual_tools_are_read() {
        let list = format!(
            "\u{feff}# made by hand\r\n{SHA256}  a b\r\n{SHA256} *b\n\n{} c\n\\{MD5}  d\\\\e\\nf\\r\nSHA256 (g (1) = 2) = {SHA256}\n\
             MD5(h)= {MD5}\n\\SHA2-256 (i\\n) = {SHA256}\nBLAKE2b-256 (j) = {SHA256}\n{MD5}   two spaces at the start\n{MD5}  last",
            MD5.to_uppercase()
        );
        let names = [
            ("a b", Algorithm::Sha256),
            ("b", Algorithm::Sha256),
            ("c", Algorithm::Md5),
            ("d\\e\nf\r", Algorithm::Md5),
            ("g (1) = 2", Algorithm::Sha256),
            ("h", Algorithm::Md5),
            ("i\n", Algorithm::Sha256),
            ("j", Algorithm::Blake2b256),
            (" two spaces at the start", Algorithm::Md5),
            ("last", Algorithm::Md5),
        ];
        assert_eq!(listed(&list), names.map(|(name, algorithm)| (name.to_owned(), algorithm)));
        assert!(listed("").is_empty());
    }

    #[test]
    fn names_are_relative_to_the_folder() {
        let list = ["./a/b", "././a", ".//a", "a/./b", "..a/b..", ".a", "./-"].map(|name| format!("{MD5}  {name}\n")).concat();
        let names: Vec<String> = listed(&list).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["a/b", "a", "a", "a/./b", "..a/b..", ".a", "-"]);
    }

    #[test]
    fn lines_that_cannot_be_used_are_named_and_the_others_follow() {
        for line in ["nonsense", "zz  name", "                                  rclone knows none", "UNSUPPORTED  x"] {
            assert_eq!(problem(line), LineProblem::NoDigest, "{line}");
        }
        assert_eq!(problem("44bc2cf5ad770999  name"), LineProblem::UnknownLength { digits: 16 });
        assert_eq!(problem(&format!("{MD5}  a\0{MD5}  b\0")), LineProblem::Nul);
        assert_eq!(problem(&format!("{MD5}  -")), LineProblem::StandardInput);
        assert_eq!(problem(&format!("{MD5}  ./")), LineProblem::EmptyName);
        for name in ["/srv/a", "../a", "./../a", "a/../b", "a/.."] {
            assert_eq!(problem(&format!("{MD5}  {name}")), LineProblem::OutsideName { name: name.trim_start_matches("./").into() });
        }
        assert_eq!(problem(&format!("\\{MD5}  a\\tb")), LineProblem::Escape);
        assert_eq!(problem(&format!("SM3 (a) = {SHA256}")), LineProblem::UnknownAlgorithm { name: "SM3".into() });
        assert_eq!(problem(&format!("MD5 (a) = {SHA256}")), LineProblem::Digest { text: SHA256.into(), algorithm: "md5".into() });
        assert_eq!(problem(&format!("{MD5}  {}", "x".repeat(LONGEST_LINE))), LineProblem::LongField { most: LONGEST_LINE });
        let list = [MD5.as_bytes(), b"  \xff\n", MD5.as_bytes(), b"  a\n"].concat();
        let names: Vec<String> = rows(&list, None).into_iter().map(|row| row.expect("a row").name).collect();
        assert_eq!(names, ["\u{201b}FF", "a"], "names in other encodings are those that folders list");
    }

    #[test]
    fn an_algorithm_is_never_guessed_where_two_are_usual() {
        let list = format!("{SHA256}{SHA256}  a\n{MD5}  b\n");
        assert!(matches!(&rows(list.as_bytes(), None)[..], [Err(InventoryError::UnclearAlgorithm { line: 1, .. })]));
        let named = rows(format!("{SHA256}{SHA256}  a\nMD5 (b) = {MD5}\n{MD5}  c\n").as_bytes(), Some(Algorithm::Blake2b512));
        let found: Vec<_> = named.iter().map(|row| row.as_ref().ok().map(|row| row.expected.digests[0].algorithm())).collect();
        assert_eq!(found, [Some(Algorithm::Blake2b512), Some(Algorithm::Md5), None]);
    }
}
