//! What was removed from an audit: copies and nodes that are no longer checked, with their history.

use super::Event;
use crate::copy::{Expected, NodeId};

/// A node that was removed. If a node of its name is added again, it is the same node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovedNode {
    /// Its number.
    pub id: NodeId,
    /// Its name.
    pub name: String,
    /// Its place, as a URL without secrets.
    pub place: String,
    /// When it was removed, in seconds since 1970.
    pub at: u64,
    /// Why.
    pub reason: String,
}

/// A copy that was removed. If an inventory lists it again, its history goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovedCopy {
    /// The node.
    pub node: NodeId,
    /// Where it was at the node.
    pub location: String,
    /// What happened to it, newest first. The first one is the removal.
    pub events: Vec<Event>,
}

/// Copies that are removed in one transaction.
pub(super) const PORTION: usize = 10_000;

/// The detail of the event: what was expected may be replaced later.
pub(super) fn detail(reason: &str, expected: &Expected) -> String {
    format!("{reason}; until then {expected}")
}

/// When a copy that comes back is due. No check that began before its removal counts.
pub(super) fn due_again(due_at: i64) -> i64 {
    if due_at == 1 { 2 } else { 1 }
}
