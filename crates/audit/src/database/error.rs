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
    #[error("{} is in use by another process that checks copies", path.display())]
    InUse { path: PathBuf },
    #[error("there is a node {name} already")]
    NodeExists { name: String },
    #[error("there is no node number {node}")]
    NoSuchNode { node: u16 },
    #[error("the database has more than {most} nodes")]
    TooManyNodes { most: u16 },
    #[error("a row of table {table} is damaged: {what}")]
    Damaged { table: &'static str, what: String },
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
