//! Inventories: lists of the files that should be at nodes.
//!
//! An inventory streams in, row by row; nothing of it is kept in memory. A row says what a file
//! should contain, as far as the inventory knows.

use std::path::PathBuf;

use fulgurite_bagit::{BagError, Finding};
use fulgurite_ocfl::{ObjectError, RootError};
use fulgurite_places::Refusal;

use crate::copy::{Expected, NodeId};
use crate::database::{DatabaseError, UnfinishedImport};

mod bagit;
mod checksums;
mod csv;
mod listing;
mod ocfl;

pub use bagit::BagRows;
pub use checksums::Checksums;
pub use csv::{Columns, Csv, Unread};
pub use listing::listing;
pub use ocfl::OcflRows;

/// Bytes of the longest name.
pub const LONGEST_NAME: usize = 16 << 10;

/// A file of an inventory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Its name, unique in an audit.
    pub name: String,
    /// What it should contain.
    pub expected: Expected,
    /// Where it is at its nodes, if not under its name.
    pub location: Option<String>,
    /// The node that has it; `None` if all nodes of the import do.
    pub node: Option<NodeId>,
}

/// A row that contradicts what is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The file's name.
    pub name: String,
    /// What was known.
    pub known: Expected,
    /// What the inventory says.
    pub listed: Expected,
}

/// What an import did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Imported {
    /// Rows read.
    pub rows: u64,
    /// Files added.
    pub files: u64,
    /// Copies added.
    pub copies: u64,
    /// Files of which something became known, or was replaced.
    pub changed: u64,
    /// Rows that contradict what is known; nothing was changed for them.
    pub conflicts: u64,
    /// The first of those.
    pub conflicting: Vec<Conflict>,
    /// Earlier imports of the same list, unfinished until now.
    pub completed: Vec<UnfinishedImport>,
}

/// An inventory can't be imported. Rows before the error were imported.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message says what happened, with its fields")]
pub enum InventoryError {
    #[error("can't read {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{}, line {line}: {problem}", path.display())]
    Line { path: PathBuf, line: u64, problem: LineProblem },
    #[error("{}, line {line}: a digest of 128 digits is SHA-512 or BLAKE2b-512: say which, with --algorithm", path.display())]
    UnclearAlgorithm { path: PathBuf, line: u64 },
    #[error(transparent)]
    Bag(#[from] BagError),
    #[error("{}: {finding}", folder.display())]
    BagFinding { folder: PathBuf, finding: Box<Finding> },
    #[error("{}: the payload file {path:?} is in no manifest; validate the bag", folder.display())]
    UnlistedPayload { folder: PathBuf, path: String },
    #[error(transparent)]
    OcflRoot(#[from] RootError),
    #[error(transparent)]
    OcflObject(#[from] ObjectError),
    #[error("can't read the list")]
    List(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("can't list the node's files")]
    Listing(#[from] Refusal),
    #[error(transparent)]
    Database(#[from] DatabaseError),
}

/// What is wrong with a line of an inventory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each message says what happened, with its fields")]
pub enum LineProblem {
    #[error("it has no column {column:?}; the columns are {present}")]
    NoColumn { column: String, present: String },
    #[error("no column is the file's name: call one of them \"name\", \"path\", \"key\" or \"file\", or say which one it is")]
    NoNameColumn,
    #[error("{found} fields, but the first line has {expected}")]
    Fields { found: usize, expected: usize },
    #[error("it isn't UTF-8")]
    NotUtf8,
    #[error("the name is empty")]
    EmptyName,
    #[error("the name has more than {LONGEST_NAME} bytes")]
    LongName,
    #[error("a field or line has more than {most} bytes")]
    LongField { most: usize },
    #[error("{text:?} is no number of bytes")]
    Bytes { text: String },
    #[error("{text:?} is no {algorithm} digest in hexadecimal")]
    Digest { text: String, algorithm: String },
    #[error("it doesn't begin with a digest")]
    NoDigest,
    #[error("a digest of {digits} digits is of no known algorithm")]
    UnknownLength { digits: usize },
    #[error("it contains the NUL character; lists made with --zero can't be read")]
    Nul,
    #[error("unknown digest algorithm {name:?}")]
    UnknownAlgorithm { name: String },
    #[error("its name is escaped in an unknown way")]
    Escape,
    #[error("the digest of standard input belongs to no file")]
    StandardInput,
    #[error("the name {name:?} is not relative to the node's folder: make the list inside that folder")]
    OutsideName { name: String },
    #[error("there is no node {name:?}")]
    NoSuchNode { name: String },
}

/// Checks a name.
pub(crate) fn check_name(name: &str) -> Result<(), LineProblem> {
    match name.len() {
        0 => Err(LineProblem::EmptyName),
        length if length > LONGEST_NAME => Err(LineProblem::LongName),
        _ => Ok(()),
    }
}
