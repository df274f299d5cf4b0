//! Errors of databases.

use std::path::PathBuf;

/// The database of an audit can't be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message says what happened, with its fields")]
pub enum DatabaseError {
    #[error("{} does not exist: create it with `fulgurite audit init`", path.display())]
    Absent { path: PathBuf },
    #[error("{} exists already", path.display())]
    Exists { path: PathBuf },
    #[error("{} is not the database of an audit", path.display())]
    Foreign { path: PathBuf },
    #[error("{} has version {found} of its tables, and this program knows versions up to {known}: use a newer one", path.display())]
    Newer { path: PathBuf, found: i64, known: i64 },
    #[error(
        "{} is on a read-only file system, and a crash left changes in the file beside it, {}-wal: copy both files to a folder that can \
         be written, and name the copy with --database", path.display(), path.display()
    )]
    UnmergedLog { path: PathBuf },
    #[error("{} is in use by another process that checks copies", path.display())]
    InUse { path: PathBuf },
    #[error("there is a node {name} already")]
    NodeExists { name: String },
    #[error("a node {name} was removed, and its history has this name: use another name, or add the same node again with --again")]
    NodeRemoved { name: String },
    #[error("no node {name} was removed")]
    NotRemoved { name: String },
    #[error(
        "the first import of an inventory isn't complete: wait for its end or repeat it, as `fulgurite audit status` says; until then, \
         copies are neither checked nor removed"
    )]
    ImportUnfinished,
    #[error("another process is importing the first inventory: repeat this once it has ended")]
    ImportUnderWay,
    #[error("there is no node number {node}")]
    NoSuchNode { node: u16 },
    #[error("the database has more than {most} nodes")]
    TooManyNodes { most: u16 },
    #[error("a row of table {table} is damaged: {what}")]
    Damaged { table: &'static str, what: String },
    #[error(
        "the database is damaged: it counts {counted} copies at node number {node}, and only {found} of the first or last of them can be \
         read: restore a backup"
    )]
    Inconsistent { node: u16, counted: u64, found: u64 },
    #[cfg(feature = "postgres")]
    #[error("the address of the database is unusable: {problem}")]
    Address {
        #[source]
        problem: super::AddressProblem,
    },
    #[error("{database} has no audit: create one with `fulgurite audit init`")]
    NoAudit { database: String },
    #[error("PostgreSQL {found} is too old: use {oldest} or later")]
    OldServer { found: i32, oldest: i32 },
    #[error("the database stores text as {encoding}: create one with the encoding UTF8")]
    Encoding { encoding: String },
    #[error("PostgreSQL can't store the NUL character in the name or location of {name:?}: rename the file, or keep the audit in a file")]
    NulInName { name: String },
    #[error("can't {doing}")]
    Engine {
        doing: &'static str,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("can't {doing} {}", path.display())]
    File {
        doing: &'static str,
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
}
