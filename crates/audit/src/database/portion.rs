//! Portions of an import: rows that share a transaction.
//!
//! They are collected before it begins. A list may come from a pipe, and other processes shouldn't
//! wait for its writer.

use crate::inventory::{InventoryError, Row};

/// Rows of a portion.
pub(super) const ROWS: usize = 50_000;
/// Bytes of names and locations of a portion.
const NAME_BYTES: usize = 16 << 20;

pub(super) struct Portion {
    pub(super) rows: Vec<Row>,
    pub(super) end: End,
}

/// What follows a portion.
pub(super) enum End {
    /// There may be more rows.
    Open,
    /// It was the last one.
    Complete,
    /// The next row can't be imported.
    Failed(InventoryError),
}

impl Portion {
    /// Collects up to `most` rows.
    pub(super) fn collect(rows: &mut dyn Iterator<Item = Result<Row, InventoryError>>, most: usize) -> Self {
        let mut portion = Vec::new();
        let mut bytes = 0;
        while portion.len() < most && bytes < NAME_BYTES {
            match rows.next() {
                Some(Ok(row)) => {
                    bytes += row.name.len() + row.location.as_ref().map_or(0, String::len);
                    portion.push(row);
                }
                Some(Err(error)) => return Self { rows: portion, end: End::Failed(error) },
                None => return Self { rows: portion, end: End::Complete },
            }
        }
        Self { rows: portion, end: End::Open }
    }
}
