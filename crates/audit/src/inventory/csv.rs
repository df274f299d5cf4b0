//! Inventories as CSV or TSV files.
//!
//! The first line names the columns. A file's name is in `name`, `path`, `key` or `file`; its
//! length in `bytes`, `size` or `length`; a digest in a column called after its algorithm, or in
//! `digest` or `checksum` beside `algorithm`; where it is at the node in `location` or `url`; the
//! node in `node`. Other columns are ignored, and those that look like digests are remembered.
//! Fields may be empty where something isn't known.

use std::io::Read;
use std::path::{Path, PathBuf};

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};
use fulgurite_digest::{Algorithm, Digest};

use super::{InventoryError, LineProblem, Row, check_name};
use crate::copy::{Expected, NodeId};

/// Bytes of the longest line, quotes included.
const LONGEST_LINE: usize = 256 << 10;
const INPUT_BYTES: usize = 64 << 10;
const MOST_FIELDS: usize = 256;

/// Names of columns that differ from the usual ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Columns {
    /// The column of the file's name.
    pub name: Option<String>,
    /// The column of its length.
    pub bytes: Option<String>,
    /// The column of its digest, and the algorithm.
    pub digest: Option<(String, Algorithm)>,
    /// The column of its location.
    pub location: Option<String>,
    /// The column of its node.
    pub node: Option<String>,
}

/// Reads the rows of a CSV file.
pub struct Csv<'a> {
    path: PathBuf,
    source: Box<dyn Read + 'a>,
    reader: Reader,
    input: Vec<u8>,
    /// The part of `input` that hasn't been parsed.
    unread: std::ops::Range<usize>,
    at_end: bool,
    /// Set after an error: what follows can't be told apart from fields of the broken line.
    failed: bool,
    fields: Vec<u8>,
    ends: Vec<usize>,
    line: u64,
    layout: Layout,
    nodes: &'a dyn Fn(&str) -> Option<NodeId>,
}

/// Digests that a file may have and the import leaves out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unread {
    /// Columns that look like digests and are ignored.
    pub columns: Vec<String>,
    /// True if no column with digests is read.
    pub no_digests: bool,
}

/// Which column contains what.
#[derive(Debug, Default)]
struct Layout {
    count: usize,
    name: usize,
    bytes: Option<usize>,
    digests: Vec<(usize, Algorithm)>,
    /// A digest and its algorithm, in columns of their own.
    named_digest: Option<(usize, usize)>,
    location: Option<usize>,
    node: Option<usize>,
    unread: Unread,
}

impl<'a> Csv<'a> {
    /// Reads the first line. A file whose first line contains a tab and no comma is read as TSV.
    /// `nodes` finds the node of a name.
    ///
    /// # Errors
    /// If the file can't be read, or its first line doesn't name the columns needed.
    pub fn new(
        path: &Path,
        source: Box<dyn Read + 'a>,
        columns: &Columns,
        nodes: &'a dyn Fn(&str) -> Option<NodeId>,
    ) -> Result<Self, InventoryError> {
        let mut csv = Self {
            path: path.into(),
            source,
            reader: Reader::new(),
            input: vec![0; INPUT_BYTES],
            unread: 0..0,
            at_end: false,
            failed: false,
            fields: vec![0; LONGEST_LINE],
            ends: vec![0; MOST_FIELDS],
            line: 1,
            layout: Layout::default(),
            nodes,
        };
        csv.fill()?;
        if csv.input[csv.unread.clone()].starts_with(b"\xef\xbb\xbf") {
            csv.unread.start += 3;
        }
        let first = csv.input[csv.unread.clone()].split(|byte| *byte == b'\n').next().unwrap_or_default();
        if first.contains(&b'\t') && !first.contains(&b',') {
            csv.reader = ReaderBuilder::new().delimiter(b'\t').build();
        }
        let count = csv.record()?.unwrap_or(0);
        let header: Vec<String> = (0..count).map(|index| csv.field(index).map(str::to_owned)).collect::<Result<_, _>>()?;
        csv.layout = layout(&header, columns).map_err(|problem| csv.problem(problem))?;
        Ok(csv)
    }

    /// What the first line lets expect and the import leaves out.
    #[must_use]
    pub fn unread_digests(&self) -> &Unread {
        &self.layout.unread
    }

    fn problem(&self, problem: LineProblem) -> InventoryError {
        InventoryError::Line { path: self.path.clone(), line: self.line, problem }
    }

    fn fill(&mut self) -> Result<(), InventoryError> {
        if self.unread.is_empty() && !self.at_end {
            let read = loop {
                match self.source.read(&mut self.input) {
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    other => break other,
                }
            };
            let count = read.map_err(|source| InventoryError::Read { path: self.path.clone(), source })?;
            self.unread = 0..count;
            self.at_end = count == 0;
        }
        Ok(())
    }

    /// Reads the next line, and returns its number of fields; `None` at the end.
    fn record(&mut self) -> Result<Option<usize>, InventoryError> {
        let (mut written, mut ended) = (0, 0);
        self.line = self.reader.line();
        loop {
            self.fill()?;
            let (result, read, more_bytes, more_ends) =
                self.reader.read_record(&self.input[self.unread.clone()], &mut self.fields[written..], &mut self.ends[ended..]);
            self.unread.start += read;
            written += more_bytes;
            ended += more_ends;
            match result {
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull | ReadRecordResult::OutputEndsFull => {
                    return Err(self.problem(LineProblem::LongField { most: LONGEST_LINE }));
                }
                ReadRecordResult::Record => return Ok(Some(ended)),
                ReadRecordResult::End => return Ok(None),
            }
        }
    }

    fn field(&self, index: usize) -> Result<&str, InventoryError> {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        std::str::from_utf8(&self.fields[start..self.ends[index]]).map_err(|_| self.problem(LineProblem::NotUtf8))
    }

    fn row(&self, count: usize) -> Result<Row, InventoryError> {
        let layout = &self.layout;
        if count != layout.count {
            return Err(self.problem(LineProblem::Fields { found: count, expected: layout.count }));
        }
        let name = self.field(layout.name)?.to_owned();
        check_name(&name).map_err(|problem| self.problem(problem))?;
        let given =
            |index: Option<usize>| index.map(|index| self.field(index)).transpose().map(|field| field.filter(|text| !text.is_empty()));
        let bytes = given(layout.bytes)?
            .map(|text| text.parse().map_err(|_| self.problem(LineProblem::Bytes { text: text.into() })))
            .transpose()?;
        let mut digests = Vec::new();
        let mut add = |algorithm: Algorithm, text: &str| {
            let wrong = || self.problem(LineProblem::Digest { text: text.into(), algorithm: algorithm.name().into() });
            digests.push(Digest::from_hex(algorithm, text.trim()).ok_or_else(wrong)?);
            Ok::<_, InventoryError>(())
        };
        for (index, algorithm) in &layout.digests {
            if let Some(text) = given(Some(*index))? {
                add(*algorithm, text)?;
            }
        }
        if let Some((digest, algorithm)) = layout.named_digest
            && let Some(text) = given(Some(digest))?
        {
            let name = self.field(algorithm)?;
            let unknown = || self.problem(LineProblem::Digest { text: text.into(), algorithm: name.into() });
            add(name.parse().map_err(|_| unknown())?, text)?;
        }
        digests.sort();
        digests.dedup();
        let location = given(layout.location)?.map(str::to_owned);
        let node = given(layout.node)?
            .map(|name| (self.nodes)(name).ok_or_else(|| self.problem(LineProblem::NoSuchNode { name: name.into() })))
            .transpose()?;
        Ok(Row { name, expected: Expected { bytes, digests }, location, node })
    }
}

impl Iterator for Csv<'_> {
    type Item = Result<Row, InventoryError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let row = self.record().transpose()?.and_then(|count| self.row(count));
        self.failed = row.is_err();
        Some(row)
    }
}

fn layout(header: &[String], columns: &Columns) -> Result<Layout, LineProblem> {
    let position = |wanted: &str| header.iter().position(|column| column.trim().eq_ignore_ascii_case(wanted));
    let given =
        |wanted: &str| position(wanted).ok_or_else(|| LineProblem::NoColumn { column: wanted.to_owned(), present: header.join(", ") });
    let chosen = |wanted: Option<&str>, usual: &[&str]| match wanted {
        Some(wanted) => given(wanted).map(Some),
        None => Ok(usual.iter().find_map(|column| position(column))),
    };
    let mut digests: Vec<(usize, Algorithm)> = Vec::new();
    let mut named_digest = None;
    match &columns.digest {
        Some((column, algorithm)) => digests.push((given(column)?, *algorithm)),
        None => {
            let algorithms = header.iter().enumerate().filter_map(|(index, column)| Some((index, column.trim().parse().ok()?)));
            digests.extend(algorithms);
            let digest = chosen(None, &["digest", "checksum"])?;
            named_digest = digest.zip(chosen(None, &["algorithm", "digest_algorithm", "checksum_algorithm"])?);
        }
    }
    let is_read = |index: usize| digests.iter().any(|(read, _)| *read == index) || named_digest.is_some_and(|(digest, _)| digest == index);
    let is_unread = |(index, column): &(usize, &String)| looks_like_digest(column) && !is_read(*index);
    let unread = Unread {
        columns: header.iter().enumerate().filter(is_unread).map(|(_, column)| column.trim().to_owned()).collect(),
        no_digests: digests.is_empty() && named_digest.is_none(),
    };
    Ok(Layout {
        unread,
        count: header.len(),
        name: chosen(columns.name.as_deref(), &["name", "path", "key", "file"])?.ok_or(LineProblem::NoNameColumn)?,
        bytes: chosen(columns.bytes.as_deref(), &["bytes", "size", "length"])?,
        digests,
        named_digest,
        location: chosen(columns.location.as_deref(), &["location", "url"])?,
        node: chosen(columns.node.as_deref(), &["node"])?,
    })
}

/// True if a column of this name probably contains digests or other checksums.
fn looks_like_digest(column: &str) -> bool {
    const BEGINNINGS: [&str; 9] = ["crc", "xxh", "blake", "etag", "adler", "ripemd", "whirlpool", "tiger", "quickxor"];
    let plain: String = column.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    let is_numbered = |family: &str| plain.strip_prefix(family).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let is_about_digests = ["algorithm", "type", "date", "time"].iter().any(|end| plain.ends_with(end));
    let is_digest = ["checksum", "digest", "hash"].iter().any(|word| plain.contains(word))
        || ["sha", "md", "sm"].into_iter().any(is_numbered)
        || BEGINNINGS.iter().any(|beginning| plain.starts_with(beginning));
    is_digest && !is_about_digests
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str, columns: &Columns) -> Result<Vec<Row>, InventoryError> {
        let nodes = |name: &str| (name == "n1").then_some(NodeId(1));
        Csv::new(Path::new("list.csv"), Box::new(text.as_bytes()), columns, &nodes)?.collect()
    }

    fn problem(text: &str) -> (u64, LineProblem) {
        match rows(text, &Columns::default()) {
            Err(InventoryError::Line { line, problem, .. }) => (line, problem),
            other => panic!("expected a problem with a line: {other:?}"),
        }
    }

    #[test]
    fn columns_are_found_by_their_names() {
        let text = "\u{feff}Size,SHA-256,md5,path,node,remark\r\n3,ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad,\
                    900150983CD24FB0D6963F7D28E17F72,\"ark:/13030/x|1|producer/a, \"\"b\"\"\nc\",n1,x\r\n,,,plain,,\r\n";
        let found = rows(text, &Columns::default()).expect("the file is right");
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].name, "ark:/13030/x|1|producer/a, \"b\"\nc");
        assert_eq!((found[0].expected.bytes, found[0].node), (Some(3), Some(NodeId(1))));
        assert_eq!(found[0].expected.digests.iter().map(Digest::algorithm).collect::<Vec<_>>(), [Algorithm::Md5, Algorithm::Sha256]);
        assert_eq!(found[1], Row { name: "plain".into(), expected: Expected::default(), location: None, node: None });
    }

    #[test]
    fn tabs_named_columns_and_algorithms_in_columns_are_understood() {
        let text = "Object\tdigest\talgorithm\turl\na\t900150983cd24fb0d6963f7d28e17f72\tMD5\tdeep/a\n";
        let columns = Columns { name: Some("object".into()), ..Columns::default() };
        let found = rows(text, &columns).expect("the file is right");
        assert_eq!((found[0].name.as_str(), found[0].location.as_deref()), ("a", Some("deep/a")));
        assert_eq!(found[0].expected.digests[0].algorithm(), Algorithm::Md5);
    }

    #[test]
    fn a_wrong_line_is_named_with_its_number() {
        assert_eq!(problem("name,size\na,1\nb,x\n"), (3, LineProblem::Bytes { text: "x".into() }));
        assert_eq!(problem("name,size\na\n"), (2, LineProblem::Fields { found: 1, expected: 2 }));
        assert_eq!(problem("size\n1\n").1, LineProblem::NoNameColumn);
        assert_eq!(problem("name,node\na,n9\n"), (2, LineProblem::NoSuchNode { name: "n9".into() }));
        assert_eq!(problem("name,md5\na,12\n"), (2, LineProblem::Digest { text: "12".into(), algorithm: "md5".into() }));
        assert_eq!(problem("name,x\n,1\n"), (2, LineProblem::EmptyName));
        let long = format!("name\n{}\n", "x".repeat(LONGEST_LINE + 1));
        assert_eq!(problem(&long).1, LineProblem::LongField { most: LONGEST_LINE });
    }

    #[test]
    fn digests_that_are_not_read_are_named() {
        let unread = |header: &str, columns: &Columns| {
            let text = format!("{header}\n");
            let csv = Csv::new(Path::new("list.csv"), Box::new(text.as_bytes()), columns, &|_| None).expect("it has a name column");
            csv.unread_digests().clone()
        };
        let named = |columns: &[&str], no_digests| Unread { columns: columns.iter().map(|name| (*name).to_owned()).collect(), no_digests };
        let usual = Columns::default();
        assert_eq!(unread("path,size,shape,shared,hashtype,md5,SHA-512", &usual), named(&[], false));
        assert_eq!(unread("path,digest,digest_algorithm", &usual), named(&[], false));
        assert_eq!(unread("path,size", &usual), named(&[], true));
        assert_eq!(
            unread("path,sha3-256, CRC32C ,xxh64,sha256,Hash,ETag", &usual),
            named(&["sha3-256", "CRC32C", "xxh64", "Hash", "ETag"], false)
        );
        assert_eq!(unread("path,checksum", &usual), named(&["checksum"], true));
        let chosen = Columns { digest: Some(("checksum".into(), Algorithm::Md5)), ..Columns::default() };
        assert_eq!(unread("path,checksum,sha256", &chosen), named(&["sha256"], false));
    }

    #[test]
    fn after_an_unreadable_line_nothing_more_is_returned() {
        let nodes = |_: &str| None;
        let text = format!("name\n{}\nb\n", "x".repeat(LONGEST_LINE + 1));
        let csv = Csv::new(Path::new("list.csv"), Box::new(text.as_bytes()), &Columns::default(), &nodes).expect("the header is right");
        assert_eq!(csv.map(|row| row.is_ok()).collect::<Vec<_>>(), [false]);
    }
}
