//! Which offsets may be committed: those before which everything is stored.

use std::collections::{BTreeSet, HashMap};

/// The positions of a consumer in its partitions.
#[derive(Debug, Default)]
pub(crate) struct Offsets {
    partitions: HashMap<(String, i32), Partition>,
}

#[derive(Debug, Default)]
struct Partition {
    /// Messages that aren't stored yet.
    unfinished: BTreeSet<i64>,
    /// One past the last message that was received.
    next: i64,
}

impl Offsets {
    /// A message was received. Returns the offset that was expected, if offsets are missing before
    /// it: their messages may have been deleted, compacted, or markers of transactions.
    pub(crate) fn begin(&mut self, topic: &str, partition: i32, offset: i64) -> Option<i64> {
        let partition = self.partitions.entry((topic.to_owned(), partition)).or_default();
        let expected = partition.next;
        partition.unfinished.insert(offset);
        partition.next = expected.max(offset + 1);
        (expected > 0 && offset > expected).then_some(expected)
    }

    /// A message is stored. Returns the offset that may be committed now: the next to be read. It
    /// is `None` if an earlier message isn't stored yet, or the partition was taken away.
    pub(crate) fn end(&mut self, topic: &str, partition: i32, offset: i64) -> Option<i64> {
        let partition = self.partitions.get_mut(&(topic.to_owned(), partition))?;
        let was_first = partition.unfinished.first() == Some(&offset);
        if !partition.unfinished.remove(&offset) || !was_first {
            return None;
        }
        Some(partition.unfinished.first().copied().unwrap_or(partition.next))
    }

    /// A partition was assigned or taken away: what is being stored for it doesn't count anymore.
    pub(crate) fn forget(&mut self, topic: &str, partition: i32) {
        self.partitions.remove(&(topic.to_owned(), partition));
    }

    /// Messages that aren't stored yet.
    #[must_use]
    pub(crate) fn unfinished(&self) -> usize {
        self.partitions.values().map(|partition| partition.unfinished.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_waits_for_all_before_it() {
        let mut offsets = Offsets::default();
        for (offset, gap) in [(5, None), (6, None), (9, Some(7))] {
            assert_eq!(offsets.begin("t", 0, offset), gap);
        }
        assert_eq!(offsets.end("t", 0, 6), None);
        assert_eq!(offsets.end("t", 0, 5), Some(9));
        assert_eq!(offsets.end("t", 0, 9), Some(10));
        assert_eq!(offsets.end("t", 0, 9), None);
        assert_eq!(offsets.unfinished(), 0);
    }

    #[test]
    fn what_was_received_before_a_rebalance_does_not_count_after_it() {
        let mut offsets = Offsets::default();
        for offset in [5, 6, 7] {
            offsets.begin("t", 0, offset);
        }
        offsets.begin("t", 1, 3);
        offsets.forget("t", 0);
        // Delivered again, from the last offset that was committed.
        offsets.begin("t", 0, 5);
        assert_eq!(offsets.end("t", 0, 7), None);
        assert_eq!(offsets.end("t", 0, 6), None);
        assert_eq!(offsets.end("t", 0, 5), Some(6));
        assert_eq!(offsets.end("t", 1, 3), Some(4));
    }
}
