//! What a page can play, and its form as JSON.
//!
//! Lists are flat arrays of whole numbers, a fixed number for each entry, in order of time. Times
//! are milliseconds since the start, places millimetres from the left end of the panel. Shelves are
//! doubled, so that a shuttle stuck between shelves 3 and 4 is at 7. In the JSON, an entry's start
//! counts from the entry before, and its end from its start: the numbers are short and repeat, and
//! compress well.

use fulgurite_domain::Micros;
use fulgurite_library::{Drive, Layout, Position};
use serde_json::{Value, json};

/// A library over some time.
#[derive(Debug, Clone, PartialEq)]
pub struct Recording {
    /// What the page calls it.
    pub title: String,
    pub(crate) layout: Layout,
    pub(crate) until: Micros,
    pub(crate) shuttles: Vec<ShuttleTrack>,
    pub(crate) drives: Vec<Vec<i64>>,
    /// Time, lane, platters that wait there from then on.
    pub(crate) waiting: Vec<i64>,
    /// Time, and the unreachable cells from then on as racks and shelves.
    pub(crate) blocked: Vec<(i64, Vec<i64>)>,
    /// Arrival, end (-1 if it had not ended), outcome: 0 read, 1 recovered, 2 unavailable or
    /// refused.
    pub(crate) requests: Vec<i64>,
}

/// What a shuttle did.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct ShuttleTrack {
    /// Doubled shelf and place at the start.
    pub(crate) start: [i64; 2],
    /// Start, end (-1 if it had not ended), doubled shelf and place of the end of each leg.
    pub(crate) legs: Vec<i64>,
    /// Start, end (-1 if it had not ended), kind (0 pick, 1 place, 2 charge), platter, and drive
    /// (-1 for a slot or none, -2 for the port) of each.
    pub(crate) work: Vec<i64>,
    /// Start and end of each time in which it was lost; -1 if it had not been repaired.
    pub(crate) lost: Vec<i64>,
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

/// A list with its times as differences, for entries of this length; with `has_end`, their second
/// number is an end, or -1 for what had not ended.
fn in_differences(list: &[i64], length: usize, has_end: bool) -> Vec<i64> {
    let mut before = 0;
    let mut all = Vec::with_capacity(list.len());
    for entry in list.chunks_exact(length) {
        all.push(entry[0] - before);
        before = entry[0];
        let rest = if has_end {
            all.push(if entry[1] < 0 { entry[1] } else { entry[1] - entry[0] });
            &entry[2..]
        } else {
            &entry[1..]
        };
        all.extend_from_slice(rest);
    }
    all
}

impl Recording {
    /// The recording for the page's script.
    #[must_use]
    pub fn json(&self) -> Value {
        let layout = &self.layout;
        let drives = (0..layout.drive_count()).map(|drive| place(layout.drive_position(Drive(drive))));
        let shuttles = self.shuttles.iter().map(|shuttle| {
            let ShuttleTrack { start, legs, work, lost } = shuttle;
            let (legs, work, lost) = (in_differences(legs, 4, true), in_differences(work, 5, true), in_differences(lost, 2, true));
            json!({ "start": start, "legs": legs, "work": work, "lost": lost })
        });
        json!({
            "title": self.title,
            "until": milliseconds(self.until),
            "layout": {
                "shelves": layout.shelves,
                "racks": layout.racks(),
                "storageRacks": layout.storage_racks,
                "width": millimetres(layout.width_um()),
                "port": place(layout.port_position()),
                "drives": drives.collect::<Vec<_>>(),
            },
            "shuttles": shuttles.collect::<Vec<_>>(),
            "drives": self.drives.iter().map(|states| in_differences(states, 3, false)).collect::<Vec<_>>(),
            "waiting": in_differences(&self.waiting, 3, false),
            "blocked": self.blocked,
            "requests": in_differences(&self.requests, 3, true),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_count_from_the_entry_before_and_ends_from_their_start() {
        assert_eq!(in_differences(&[100, 130, 7, 110, -1, 8], 3, true), [100, 30, 7, 10, -1, 8]);
        assert_eq!(in_differences(&[100, 7, 130, 8], 2, false), [100, 7, 30, 8]);
        assert!(in_differences(&[], 3, true).is_empty());
    }
}
