//! Future events, of a simulation or of emulated machines in real time. Events come out in time
//! order; events due at the same instant come out in the order in which they were pushed.
//!
//! ```text
//!                  [ due now ]                     pop leaves a gap here, which the next push
//!              /     |    |     \                  fills: one way down the heap, not two
//!           [  ]   [  ]  [  ]   [  ]               four children each: half the levels of a
//!         [ ][ ][ ][ ]  ...                        binary heap, siblings adjacent in memory
//! ```
//!
//! Handling an event usually schedules another, so a push follows nearly every pop. A key is a
//! single 128-bit number, time above sequence, so one comparison decides. The bench
//! `event_queue` of the twin compares it with the standard library's heap.

use fulgurite_domain::Micros;

/// Pending events. The heap moves `E` by value, so keep it to a few words.
#[derive(Debug, Clone)]
pub struct EventQueue<E> {
    /// A heap in which no key is less than its parent's. While `gap` is set, the root is an event
    /// that was already popped.
    heap: Vec<(u128, E)>,
    gap: bool,
    pushed: u64,
}

const CHILDREN: usize = 4;

impl<E: Copy> Default for EventQueue<E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<E: Copy> EventQueue<E> {
    /// An empty queue.
    #[must_use]
    pub fn new() -> Self {
        Self { heap: Vec::new(), gap: false, pushed: 0 }
    }

    /// Number of pending events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.heap.len() - usize::from(self.gap)
    }

    /// True if no event is pending.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds an event, after all others due at the same instant.
    #[inline]
    pub fn push(&mut self, at: Micros, event: E) {
        let key = u128::from(at.0) << 64 | u128::from(self.pushed);
        self.pushed += 1;
        if self.gap {
            self.gap = false;
            self.sink((key, event));
        } else {
            self.rise((key, event));
        }
    }

    /// Pops the next event, with its instant.
    #[inline]
    pub fn pop(&mut self) -> Option<(Micros, E)> {
        self.close();
        let &(key, event) = self.heap.first()?;
        self.gap = true;
        Some((instant(key), event))
    }

    /// When the next event is due.
    #[inline]
    pub fn next_at(&mut self) -> Option<Micros> {
        self.close();
        self.heap.first().map(|&(key, _)| instant(key))
    }

    /// Pops the next event if it is due by `until`.
    #[inline]
    pub fn pop_until(&mut self, until: Micros) -> Option<(Micros, E)> {
        if self.next_at()? <= until { self.pop() } else { None }
    }

    /// Moves the last event into the gap at the root.
    #[inline]
    fn close(&mut self) {
        if self.gap {
            self.gap = false;
            if let Some(last) = self.heap.pop()
                && !self.heap.is_empty()
            {
                self.sink(last);
            }
        }
    }

    /// Sinks `item` from the root until no child is less. Overwrites the root.
    #[inline]
    fn sink(&mut self, item: (u128, E)) {
        let heap = &mut self.heap[..];
        let mut at = 0;
        loop {
            let first = at * CHILDREN + 1;
            let least = if let Some(children) = heap.get(first..first + CHILDREN) {
                // Compared in two pairs and without branches: the least child is unpredictable.
                let left = usize::from(children[1].0 < children[0].0);
                let right = 2 + usize::from(children[3].0 < children[2].0);
                first + if children[right].0 < children[left].0 { right } else { left }
            } else {
                match (first..heap.len()).min_by_key(|&child| heap[child].0) {
                    Some(child) => child,
                    None => break,
                }
            };
            if heap[least].0 >= item.0 {
                break;
            }
            heap[at] = heap[least];
            at = least;
        }
        heap[at] = item;
    }

    /// Appends `item` and lets it rise until its parent is not greater.
    #[inline]
    fn rise(&mut self, item: (u128, E)) {
        self.heap.push(item);
        let heap = &mut self.heap[..];
        let mut at = heap.len() - 1;
        while at > 0 {
            let parent = (at - 1) / CHILDREN;
            if heap[parent].0 <= item.0 {
                break;
            }
            heap[at] = heap[parent];
            at = parent;
        }
        heap[at] = item;
    }
}

fn instant(key: u128) -> Micros {
    Micros((key >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    use fulgurite_chance::Stream;

    use super::*;

    #[test]
    fn events_due_at_the_same_instant_pop_in_push_order() {
        let mut queue = EventQueue::new();
        for number in 0..100 {
            queue.push(Micros(7 + number % 2), number);
        }
        let order: Vec<u64> = std::iter::from_fn(|| queue.pop()).map(|(_, number)| number).collect();
        let expected: Vec<u64> = (0..100).step_by(2).chain((1..100).step_by(2)).collect();
        assert_eq!(order, expected);
    }

    #[test]
    fn it_pops_in_the_order_of_a_binary_heap_on_time_and_sequence() {
        for seed in 0..200 {
            let mut chance = Stream::new(seed, "operations");
            let (mut queue, mut reference) = (EventQueue::new(), BinaryHeap::new());
            for number in 0..400_u64 {
                if chance.below(5) < 3 {
                    // Few instants, so that many events share one.
                    let at = Micros(chance.below(50));
                    queue.push(at, number);
                    reference.push(Reverse((at, number)));
                }
                if chance.below(5) < 2 {
                    assert_eq!(queue.next_at(), reference.peek().map(|Reverse((at, _))| *at), "seed {seed}");
                }
                if chance.below(2) == 0 {
                    assert_eq!(queue.pop(), reference.pop().map(|Reverse(event)| event), "seed {seed}");
                }
                assert_eq!(queue.len(), reference.len(), "seed {seed}");
            }
            while let Some(Reverse(event)) = reference.pop() {
                assert_eq!(queue.pop_until(Micros(50)), Some(event), "seed {seed}");
            }
            assert!(queue.is_empty() && queue.pop().is_none(), "seed {seed}");
        }
    }

    #[test]
    fn no_event_pops_before_it_is_due() {
        let mut queue = EventQueue::new();
        queue.push(Micros(10), 'a');
        assert_eq!(queue.pop_until(Micros(9)), None);
        assert_eq!(queue.pop_until(Micros(10)), Some((Micros(10), 'a')));
        assert_eq!(queue.pop_until(Micros::NEVER), None);
    }
}
