//! Which offsets may be committed: those before which everything is stored.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};

/// The positions of a consumer in its partitions.
#[derive(Debug, Default)]
pub(crate) struct Offsets {
    partitions: HashMap<(String, i32), Partition>,
    /// The last generation that began.
    generation: u64,
}

#[derive(Debug)]
struct Partition {
    /// Messages that aren't stored yet.
    unfinished: BTreeSet<i64>,
    /// The offset that is expected next: mostly one past the last message that was received.
    next: i64,
    /// Whether a message was received.
    has_begun: bool,
    /// Differs for each assignment and each topic of one name. A message counts only in its own.
    generation: u64,
}

/// What is known of a message when it is received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Begun {
    /// To be handed back when it is stored.
    pub(crate) generation: u64,
    /// The offset that was expected, if offsets are missing before it: their messages may have been
    /// deleted, compacted, or markers of transactions.
    pub(crate) expected: Option<i64>,
    /// Whether offsets went backwards: the topic was deleted and created again.
    pub(crate) is_restart: bool,
}

impl Offsets {
    /// A message was received. Within a generation, offsets only increase.
    pub(crate) fn begin(&mut self, topic: &str, partition: i32, offset: i64) -> Begun {
        let place = (topic.to_owned(), partition);
        let is_backwards = self.partitions.get(&place).is_some_and(|known| offset < known.next);
        let mut is_restart = false;
        if is_backwards {
            is_restart = self.partitions.remove(&place).is_some_and(|known| known.has_begun);
        }
        let generation = &mut self.generation;
        let mut expected = None;
        let partition = self.partitions.entry(place).and_modify(|known| expected = Some(known.next)).or_insert_with(|| {
            *generation += 1;
            Partition { unfinished: BTreeSet::new(), next: offset, has_begun: true, generation: *generation }
        });
        partition.has_begun = true;
        partition.unfinished.insert(offset);
        partition.next = offset + 1;
        Begun { generation: partition.generation, expected: expected.filter(|&expected| offset > expected), is_restart }
    }

    /// A message is stored. Returns the offset that may be committed now: the next to be read. It
    /// is `None` if an earlier message isn't stored yet, or the message's generation has ended.
    pub(crate) fn end(&mut self, topic: &str, partition: i32, offset: i64, generation: u64) -> Option<i64> {
        let partition = self.partitions.get_mut(&(topic.to_owned(), partition)).filter(|known| known.generation == generation)?;
        let was_first = partition.unfinished.first() == Some(&offset);
        if !partition.unfinished.remove(&offset) || !was_first {
            return None;
        }
        Some(partition.unfinished.first().copied().unwrap_or(partition.next))
    }

    /// A message with this offset is expected, unless something is known already. Returns whether
    /// that is so.
    pub(crate) fn expect(&mut self, topic: &str, partition: i32, next: i64) -> bool {
        let Entry::Vacant(entry) = self.partitions.entry((topic.to_owned(), partition)) else { return false };
        self.generation += 1;
        entry.insert(Partition { unfinished: BTreeSet::new(), next, has_begun: false, generation: self.generation });
        true
    }

    /// No message before an offset is yet to come. Returns whether it may be committed: all
    /// messages before it are stored.
    pub(crate) fn pass(&mut self, topic: &str, partition: i32, next: i64) -> bool {
        if self.expect(topic, partition, next) {
            return true;
        }
        let known = self.partitions.get_mut(&(topic.to_owned(), partition));
        known.filter(|known| known.unfinished.is_empty()).map(|known| known.next = known.next.max(next)).is_some()
    }

    /// The offset that is expected next.
    pub(crate) fn next(&self, topic: &str, partition: i32) -> Option<i64> {
        self.partitions.get(&(topic.to_owned(), partition)).map(|known| known.next)
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
            assert_eq!(offsets.begin("t", 0, offset), Begun { generation: 1, expected: gap, is_restart: false });
        }
        assert_eq!(offsets.end("t", 0, 6, 1), None);
        assert_eq!(offsets.end("t", 0, 5, 1), Some(9));
        assert_eq!(offsets.end("t", 0, 9, 1), Some(10));
        assert_eq!(offsets.end("t", 0, 9, 1), None);
        assert_eq!(offsets.unfinished(), 0);
    }

    #[test]
    fn markers_at_the_end_are_passed_once_all_before_them_is_stored() {
        let mut offsets = Offsets::default();
        assert!(offsets.expect("t", 0, 3));
        assert!(!offsets.expect("t", 0, 0));
        // Another consumer had committed later offsets meanwhile.
        assert!(offsets.expect("t", 2, 7));
        assert!(!offsets.begin("t", 2, 6).is_restart && offsets.begin("t", 2, 5).is_restart);
        offsets.forget("t", 2);
        assert_eq!(offsets.begin("t", 0, 5).expected, Some(3));
        assert!(!offsets.pass("t", 0, 8));
        assert_eq!(offsets.end("t", 0, 5, 1), Some(6));
        assert!(offsets.pass("t", 0, 8));
        assert_eq!(offsets.begin("t", 0, 8), Begun { generation: 1, expected: None, is_restart: false });
        assert_eq!(offsets.end("t", 0, 8, 1), Some(9));
        // Nothing is known of the other one.
        assert!(offsets.pass("t", 1, 4) && offsets.next("t", 1) == Some(4));
    }

    #[test]
    fn what_was_received_before_a_rebalance_does_not_count_after_it() {
        let mut offsets = Offsets::default();
        for offset in [5, 6, 7] {
            offsets.begin("t", 0, offset);
        }
        let other = offsets.begin("t", 1, 3).generation;
        offsets.forget("t", 0);
        // Delivered again, from the last offset that was committed.
        let again = offsets.begin("t", 0, 5).generation;
        for offset in [5, 6, 7] {
            assert_eq!(offsets.end("t", 0, offset, 1), None);
        }
        assert_eq!(offsets.end("t", 0, 5, again), Some(6));
        assert_eq!(offsets.end("t", 1, 3, other), Some(4));
    }

    #[test]
    fn a_topic_that_is_created_again_counts_from_its_beginning() {
        let mut offsets = Offsets::default();
        for offset in 0..40 {
            offsets.begin("t", 0, offset);
        }
        let begun = offsets.begin("t", 0, 0);
        assert_eq!(begun, Begun { generation: 2, expected: None, is_restart: true });
        // A message of the earlier topic, with the same offset.
        assert_eq!(offsets.end("t", 0, 0, 1), None);
        assert_eq!(offsets.end("t", 0, 0, 2), Some(1));
    }
}
