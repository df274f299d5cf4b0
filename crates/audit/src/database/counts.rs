//! Whether the sums agree with the rows that they count.
//!
//! Reports answer from sums, which say nothing of whether copies and files can still be read. So
//! some rows at both ends of each node are read first.

use super::DatabaseError;
use crate::copy::NodeId;

/// Rows of each node that are read at each end.
pub(super) const ROWS: u64 = 100_000;

/// Compares the number of copies that a node has by its sums with those that were read, with their
/// files, from one end.
pub(super) fn compare(node: NodeId, counted: u64, found: u64) -> Result<(), DatabaseError> {
    if counted.min(ROWS) == found.min(ROWS) { Ok(()) } else { Err(DatabaseError::Inconsistent { node: node.0, counted, found }) }
}
