//! Which copies are kept as witnesses.
//!
//! Each node has a few slots. A commit fills the free ones with the smallest copies that it found
//! right, since reading those again costs least; once all are taken, its smallest replaces one, in
//! turn. Nothing else empties a slot but a new expectation or location of its copy: copies that
//! can't be read, or are found lost or wrong, still prove that the node has shown something.

use std::collections::BTreeMap;

use super::Checked;
use crate::copy::{FileId, NodeId, State};

/// Slots of each node.
pub(super) const SLOTS: u64 = 8;
/// If a node has fewer witnesses than this, other copies that it has shown are looked for.
pub(super) const ENOUGH: u64 = 3;

/// Copies of a commit that were found right.
#[derive(Default)]
pub(super) struct Shown(BTreeMap<NodeId, Vec<(u64, FileId)>>);

impl Shown {
    /// Notes a result that was recorded with this state.
    pub(super) fn note(&mut self, result: &Checked, state: State) {
        if !state.is_shown() {
            return;
        }
        let bytes = result.claim.expected.bytes.unwrap_or(result.bytes);
        let copies = self.0.entry(result.claim.node).or_default();
        // An empty copy proves little.
        copies.push((if bytes == 0 { u64::MAX } else { bytes }, result.claim.file));
        copies.sort_unstable();
        copies.truncate(SLOTS as usize);
    }

    /// The nodes of these copies.
    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.0.keys().copied()
    }

    /// What to write for a node whose slots contain these files. `turn` chooses the slot that is
    /// replaced if all are taken.
    pub(super) fn placed(&self, node: NodeId, taken: &[(u64, FileId)], turn: u64) -> Vec<(u64, FileId)> {
        let is_taken = |slot: &u64| taken.iter().any(|(known, _)| known == slot);
        let mut free: Vec<u64> = (0..SLOTS).filter(|slot| !is_taken(slot)).collect();
        if free.is_empty() {
            free.push(turn % SLOTS);
        }
        let shown = self.0.get(&node).map_or(&[][..], Vec::as_slice);
        let is_new = |file: &FileId| taken.iter().all(|(_, known)| known != file);
        free.into_iter().zip(shown.iter().map(|(_, file)| *file).filter(is_new)).collect()
    }
}
