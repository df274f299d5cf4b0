//! What can be seen, as lists of whole numbers for a page, and their form as JSON.
//!
//! A list has entries of a fixed length, in order of time. Times are milliseconds since the start
//! of the library or of the recorded run, places millimetres from the left end of the panel.
//! Shelves are doubled, so that a shuttle stuck between shelves 3 and 4 is at 7. In the JSON, an
//! entry's start counts from the entry before, and its end from its start: the numbers are short
//! and repeat, and compress well.

use fulgurite_domain::Micros;
use fulgurite_library::Position;
use serde_json::{Value, json};

/// Entries of one kind, in order of time.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct List {
    /// Numbers in an entry.
    length: usize,
    /// Whether the second number is an end, or -1 for what has not ended.
    has_end: bool,
    numbers: Vec<i64>,
    /// Where the entries begin that are new or changed since [`List::take_new`].
    new_from: usize,
}

impl List {
    pub(crate) fn new(length: usize) -> Self {
        Self { length, has_end: false, numbers: Vec::new(), new_from: 0 }
    }

    pub(crate) fn with_ends(length: usize) -> Self {
        Self { has_end: true, ..Self::new(length) }
    }

    pub(crate) fn push(&mut self, entry: &[i64]) {
        debug_assert_eq!(entry.len(), self.length);
        self.numbers.extend_from_slice(entry);
    }

    /// Adds an entry, in place of the last one if that has the same start.
    pub(crate) fn push_or_replace(&mut self, entry: &[i64]) {
        let has_same_start = self.numbers.chunks_exact(self.length).next_back().is_some_and(|last| last[0] == entry[0]);
        if has_same_start && let Some(last) = self.last_mut() {
            last.copy_from_slice(entry);
        } else {
            self.push(entry);
        }
    }

    /// The last entry. It counts as changed.
    pub(crate) fn last_mut(&mut self) -> Option<&mut [i64]> {
        let at = self.numbers.len().checked_sub(self.length)?;
        self.new_from = self.new_from.min(at);
        self.numbers.get_mut(at..)
    }

    /// Ends the last entry, which must have an end.
    pub(crate) fn end_last(&mut self, at: i64) {
        debug_assert!(self.has_end);
        if let Some(last) = self.last_mut() {
            last[1] = at;
        }
    }

    /// The entries that are new or have changed since the last call.
    fn take_new(&mut self) -> Self {
        let numbers = self.numbers.split_off(self.new_from);
        let new = Self { numbers, new_from: 0, ..*self };
        self.numbers.extend_from_slice(&new.numbers);
        self.new_from = self.numbers.len();
        new
    }

    /// Forgets all entries but the last ones, and returns the one before them.
    fn keep_last(&mut self, entries: usize) -> Option<Vec<i64>> {
        let over = self.numbers.len().saturating_sub(entries * self.length);
        let forgotten = self.numbers[..over].chunks_exact(self.length).next_back().map(<[i64]>::to_vec);
        self.numbers.drain(..over);
        self.new_from = self.new_from.saturating_sub(over);
        forgotten
    }

    fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// The numbers, with times as differences.
    fn json(&self) -> Value {
        let mut before = 0;
        let mut all = Vec::with_capacity(self.numbers.len());
        for entry in self.numbers.chunks_exact(self.length) {
            all.push(entry[0] - before);
            before = entry[0];
            let rest = if self.has_end {
                all.push(if entry[1] < 0 { entry[1] } else { entry[1] - entry[0] });
                &entry[2..]
            } else {
                &entry[1..]
            };
            all.extend_from_slice(rest);
        }
        all.into()
    }
}

/// What a shuttle did.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ShuttleEntries {
    /// Start, end (-1 if it has not ended), doubled shelf and place of the end of each leg.
    pub(crate) legs: List,
    /// Start, end (-1 if it has not ended), kind (0 pick, 1 place, 2 charge), platter, and drive
    /// (-1 for a slot or none, -2 for the port) of each.
    pub(crate) work: List,
    /// Start and end of each time in which it was lost; -1 if it has not been repaired.
    pub(crate) lost: List,
}

impl Default for ShuttleEntries {
    fn default() -> Self {
        Self { legs: List::with_ends(4), work: List::with_ends(5), lost: List::with_ends(2) }
    }
}

/// What could be seen of a library over some time.
///
/// If two entries of a shuttle or a drive have the same start, the later one counts.
#[derive(Debug, Clone, PartialEq)]
pub struct Entries {
    pub(crate) shuttles: Vec<ShuttleEntries>,
    /// Time, what the drive does from then on, and the platter, or -1.
    pub(crate) drives: Vec<List>,
    /// Time, lane, platters that wait there from then on.
    pub(crate) waiting: List,
    /// Time, and the unreachable cells from then on as racks and shelves.
    pub(crate) blocked: Vec<(i64, Vec<i64>)>,
    /// Arrival of each request.
    pub(crate) arrivals: List,
    /// End of each request, its arrival, outcome: 0 read, 1 recovered, 2 unavailable or refused.
    pub(crate) ends: List,
}

impl Entries {
    pub(crate) fn new(shuttles: usize, drives: usize) -> Self {
        Self {
            shuttles: vec![ShuttleEntries::default(); shuttles],
            drives: vec![List::new(3); drives],
            waiting: List::new(3),
            blocked: Vec::new(),
            arrivals: List::new(1),
            ends: List::new(3),
        }
    }

    /// Whether nothing could be seen.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let has_none = |shuttle: &ShuttleEntries| [&shuttle.legs, &shuttle.work, &shuttle.lost].into_iter().all(List::is_empty);
        let lists = [&self.waiting, &self.arrivals, &self.ends];
        self.blocked.is_empty() && self.shuttles.iter().all(has_none) && self.drives.iter().chain(lists).all(List::is_empty)
    }

    /// The entries that are new or have changed since the last call. Only what is needed to know
    /// the library's present state is kept; `starts` become the places before the legs that are.
    pub(crate) fn take_new(&mut self, starts: &mut [[i64; 2]]) -> Self {
        let shuttles = self.shuttles.iter_mut().zip(starts).map(|(shuttle, start)| {
            let new = ShuttleEntries { legs: shuttle.legs.take_new(), work: shuttle.work.take_new(), lost: shuttle.lost.take_new() };
            if let Some(leg) = shuttle.legs.keep_last(1) {
                *start = [leg[2], leg[3]];
            }
            shuttle.work.keep_last(1);
            shuttle.lost.keep_last(1);
            new
        });
        let shuttles = shuttles.collect();
        let drives = self.drives.iter_mut().map(|drive| {
            let new = drive.take_new();
            drive.keep_last(1);
            new
        });
        let drives = drives.collect();
        let take_all = |list: &mut List| {
            let new = list.take_new();
            list.keep_last(0);
            new
        };
        Self {
            shuttles,
            drives,
            waiting: take_all(&mut self.waiting),
            blocked: std::mem::take(&mut self.blocked),
            arrivals: take_all(&mut self.arrivals),
            ends: take_all(&mut self.ends),
        }
    }

    /// The entries for a page's script. Machines without entries are left out.
    #[must_use]
    pub fn json(&self) -> Value {
        let shuttles = self.shuttles.iter().enumerate().filter_map(|(number, ShuttleEntries { legs, work, lost })| {
            let has_some = [legs, work, lost].into_iter().any(|list| !list.is_empty());
            has_some.then(|| json!([number, legs.json(), work.json(), lost.json()]))
        });
        let drives = self.drives.iter().enumerate().filter(|(_, list)| !list.is_empty());
        json!({
            "shuttles": shuttles.collect::<Vec<_>>(),
            "drives": drives.map(|(number, list)| json!([number, list.json()])).collect::<Vec<_>>(),
            "waiting": self.waiting.json(),
            "blocked": self.blocked,
            "arrivals": self.arrivals.json(),
            "ends": self.ends.json(),
        })
    }
}

pub(crate) fn milliseconds(at: Micros) -> i64 {
    (at.0 / 1_000) as i64
}

pub(crate) fn millimetres(um: i64) -> i64 {
    um / 1_000
}

pub(crate) fn place(at: Position) -> [i64; 2] {
    [2 * i64::from(at.shelf), millimetres(at.x_um)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_count_from_the_entry_before_and_ends_from_their_start() {
        let list = List { numbers: vec![100, 130, 7, 110, -1, 8], ..List::with_ends(3) };
        assert_eq!(list.json(), json!([100, 30, 7, 10, -1, 8]));
        let list = List { numbers: vec![100, 7, 130, 8], ..List::new(2) };
        assert_eq!(list.json(), json!([100, 7, 30, 8]));
        assert_eq!(List::new(2).json(), json!([]));
    }

    #[test]
    fn new_and_changed_entries_are_taken_once() {
        let mut list = List::with_ends(2);
        list.push(&[1, 2]);
        list.push(&[5, -1]);
        assert_eq!(list.take_new().numbers, [1, 2, 5, -1]);
        assert!(list.take_new().is_empty());
        assert_eq!(list.keep_last(1), Some(vec![1, 2]));
        list.push_or_replace(&[5, 9]);
        list.push_or_replace(&[9, 10]);
        assert_eq!(list.take_new().numbers, [5, 9, 9, 10]);
        assert_eq!(list.keep_last(1), Some(vec![5, 9]));
        assert_eq!((list.keep_last(1), list.numbers.as_slice()), (None, [9, 10].as_slice()));
        list.push_or_replace(&[20, 21]);
        assert_eq!(list.take_new().numbers, [20, 21], "the entry before has not changed");
    }
}
