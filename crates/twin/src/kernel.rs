//! tmp
use fulgurite_domain::Micros;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
/// q
pub struct Queue<E> {
    heap: BinaryHeap<Reverse<(Micros, u64, Wrap<E>)>>,
    n: u64,
}
struct Wrap<E>(E);
impl<E> PartialEq for Wrap<E> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
impl<E> Eq for Wrap<E> {}
impl<E> PartialOrd for Wrap<E> {
    fn partial_cmp(&self, o: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(o))
    }
}
impl<E> Ord for Wrap<E> {
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}
impl<E> Queue<E> {
    /// n
    pub fn new() -> Self {
        Self { heap: BinaryHeap::new(), n: 0 }
    }
    /// p
    pub fn push(&mut self, at: Micros, e: E) {
        self.n += 1;
        self.heap.push(Reverse((at, self.n, Wrap(e))));
    }
    /// pf
    pub fn push_front(&mut self, at: Micros, e: E) {
        self.heap.push(Reverse((at, 0, Wrap(e))));
    }
    /// p
    pub fn pop(&mut self) -> Option<(Micros, E)> {
        self.heap.pop().map(|Reverse((t, _, e))| (t, e.0))
    }
}
