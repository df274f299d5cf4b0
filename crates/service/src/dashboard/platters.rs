//! The health of all platters as a map: a column for each set, in order of their writing, and a row
//! for each position. In large archives a column stands for several sets. It takes the catalogue's
//! word and reads no platter.

use std::collections::HashMap;

use bytes::Bytes;
use fulgurite_archive::CopyState;
use fulgurite_archive::catalogue::PlatterRow;
use fulgurite_domain::SetId;
use s3s::{S3Result, s3_error};
use serde_json::{Value, json};

use crate::dashboard::{blocking, to_body};
use crate::fixity::{platter_json, rfc_3339};
use crate::gateway::Gateway;
use crate::health::scrub_progress::believable;
use crate::http::query::parameter;
use crate::state::now_ms;

/// About how many cells a map has.
const CELLS: usize = 4_000;
/// A map has at most this many columns.
const COLUMNS_MAX: usize = 500;
const STATES: [CopyState; 6] =
    [CopyState::Good, CopyState::Unverified, CopyState::Absent, CopyState::Unreadable, CopyState::Missing, CopyState::Damaged];
const DAY_S: u64 = 86_400;

/// What the catalogue knows of the health of all platters.
#[derive(Debug)]
pub(super) struct PlatterHealth {
    now_s: u64,
    /// In how many days each platter should be read, if the scrub runs.
    every_days: Option<u64>,
    sets: Vec<SetHealth>,
    /// The map of all, which most viewers want.
    whole: Bytes,
}

#[derive(Debug)]
struct SetHealth {
    id: SetId,
    information: u16,
    platters: Box<[Cell]>,
}

/// One platter, or the worst of several.
#[derive(Debug, Clone, Copy)]
struct Cell {
    state: CopyState,
    /// Days since the platter was last read and found good, begun ones counted; `None` if that
    /// never was.
    days: Option<u16>,
}

impl Cell {
    fn of(row: &PlatterRow, state: CopyState, now_s: u64) -> Self {
        let days = |at: u64| u16::try_from(now_s.saturating_sub(at).div_ceil(DAY_S)).unwrap_or(u16::MAX);
        Self { state, days: believable(row.health.verified(), now_s).map(days) }
    }

    fn worst(self, other: Self) -> Self {
        let days = self.days.zip(other.days).map(|(one, other)| one.max(other));
        Self { state: self.state.max(other.state), days }
    }
}

impl PlatterHealth {
    pub(super) fn read(gateway: &Gateway) -> S3Result<Self> {
        let what = "reading the catalogue for the dashboard";
        let sets = blocking(what, || gateway.archive.reading().sets())?;
        let platters = blocking(what, || gateway.archive.platter_states(&|store| gateway.store_state(store)))?;
        let information: HashMap<SetId, u16> = sets.iter().map(|set| (set.description.id, set.description.shape.information)).collect();
        let now_s = now_ms().div_euclid(1_000) as u64;
        let every_days = gateway.scrub_status_of(&sets, platters.iter().map(|(row, _)| row)).map(|status| status.every_days);
        let of_set = |set: &[(PlatterRow, CopyState)]| {
            let id = set[0].0.set;
            let platters = set.iter().map(|(row, state)| Cell::of(row, *state, now_s)).collect();
            SetHealth { id, information: information.get(&id).copied().unwrap_or(0), platters }
        };
        let sets = platters.chunk_by(|(one, _), (other, _)| one.set == other.set).map(of_set).collect();
        Ok(Self::new(now_s, every_days, sets))
    }

    fn new(now_s: u64, every_days: Option<u64>, sets: Vec<SetHealth>) -> Self {
        let mut health = Self { now_s, every_days, sets, whole: Bytes::new() };
        health.whole = to_body(&health.part(0, health.sets.len()));
        health
    }

    /// The map of `count` sets from number `from` on, or of all.
    pub(super) fn map(&self, query: Option<&str>) -> S3Result<Bytes> {
        let number = |name| match parameter(query, name).filter(|text| !text.is_empty()) {
            None => Ok(None),
            Some(text) => text.parse::<usize>().map(Some).map_err(|_| s3_error!(InvalidArgument, "{name} is no number.")),
        };
        let from = number("from")?.unwrap_or(0).min(self.sets.len());
        let count = number("count")?.unwrap_or(usize::MAX).min(self.sets.len() - from);
        Ok(if count == self.sets.len() { self.whole.clone() } else { to_body(&self.part(from, count)) })
    }

    fn part(&self, from: usize, count: usize) -> Value {
        let shown = &self.sets[from..from + count];
        let positions = shown.iter().map(|set| set.platters.len()).max().unwrap_or(0);
        let columns_max = (CELLS / positions.max(1)).clamp(1, COLUMNS_MAX);
        let per_column = count.div_ceil(columns_max).max(1);
        json!({
            "now": rfc_3339(self.now_s),
            "every_days": self.every_days,
            "all": self.sets.len(),
            "from": from,
            "count": count,
            "per_column": per_column,
            "states": STATES.map(CopyState::word),
            "columns": shown.chunks(per_column).map(column).collect::<Vec<_>>(),
        })
    }
}

/// The worst of some sets, by position.
fn column(sets: &[SetHealth]) -> Value {
    let positions = sets.iter().map(|set| set.platters.len()).max().unwrap_or(0);
    let mut cells: Vec<Option<Cell>> = vec![None; positions];
    let (mut platters, mut bad, mut out_of_reach) = (0, 0, 0);
    for set in sets {
        for (worst, cell) in cells.iter_mut().zip(&set.platters) {
            *worst = Some(worst.map_or(*cell, |worst| worst.worst(*cell)));
        }
        let usable = set.platters.iter().filter(|cell| cell.state.is_usable()).count();
        platters += set.platters.len();
        bad += set.platters.len() - usable;
        out_of_reach += usize::from(usable < usize::from(set.information));
    }
    let cells: Vec<Cell> = cells.into_iter().flatten().collect();
    let states: String = cells.iter().filter_map(|cell| STATES.iter().position(|state| *state == cell.state)).map(digit).collect();
    json!({
        "set": (sets.len() == 1).then(|| sets[0].id.to_string()),
        "sets": sets.len(),
        "platters": platters,
        // More platters are lost or out of reach than their redundancy replaces.
        "sets_out_of_reach": out_of_reach,
        "bad": bad,
        "states_by_position": states,
        "days": cells.iter().map(|cell| cell.days).collect::<Vec<_>>(),
    })
}

fn digit(index: usize) -> char {
    char::from(b'0' + index as u8)
}

impl Gateway {
    /// The platters of a set; `None` if it doesn't exist.
    pub(super) fn dashboard_set(&self, query: Option<&str>) -> S3Result<Option<Value>> {
        let Some(id) = parameter(query, "id").and_then(|text| text.parse::<SetId>().ok()) else { return Ok(None) };
        let what = "reading a set for the dashboard";
        let platters = blocking(what, || self.archive.set_states(id, &|store| self.store_state(store)))?;
        let Some((first, _)) = platters.first() else { return Ok(None) };
        let set = blocking(what, || self.archive.reading().set_of(first.place.platter))?;
        Ok(set.map(|set| {
            json!({
                "set": id.to_string(),
                "shape": set.description.shape.to_string(),
                "information": set.description.shape.information,
                "written": rfc_3339(set.description.written),
                "platter_bytes": set.description.platter_bytes(),
                "platters": platters.iter().map(|(row, state)| platter_json(row, *state)).collect::<Vec<_>>(),
            })
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(states: &[CopyState], days: Option<u16>) -> SetHealth {
        let platters = states.iter().map(|state| Cell { state: *state, days }).collect();
        SetHealth { id: SetId([7; 16]), information: 2, platters }
    }

    fn all_good(sets: usize) -> PlatterHealth {
        let sets = (0..sets).map(|_| set(&[CopyState::Good; 3], Some(4))).collect();
        PlatterHealth::new(0, Some(30), sets)
    }

    fn map_of(health: &PlatterHealth, query: Option<&str>) -> Value {
        serde_json::from_slice(&health.map(query).expect("a map")).expect("JSON")
    }

    #[test]
    fn a_column_shows_the_worst_of_its_sets() {
        let sets = [
            set(&[CopyState::Good, CopyState::Damaged, CopyState::Good], Some(1)),
            set(&[CopyState::Unverified, CopyState::Absent], None),
            set(&[CopyState::Good, CopyState::Good, CopyState::Good], Some(9)),
        ];
        let column = column(&sets);
        assert_eq!(column["states_by_position"], "150");
        assert_eq!(column["days"], json!([null, null, 9]));
        assert_eq!((&column["bad"], &column["platters"], &column["sets_out_of_reach"]), (&json!(2), &json!(8), &json!(1)));
        assert_eq!(column["set"], Value::Null);
    }

    #[test]
    fn a_map_has_few_columns_however_many_sets_there_are() {
        for sets in [0, 1, 499, 500, 501, 333_334] {
            let health = all_good(sets);
            let map = map_of(&health, None);
            let columns = map["columns"].as_array().expect("columns");
            assert!(columns.len() <= COLUMNS_MAX, "{sets}");
            let shown: u64 = columns.iter().filter_map(|column| column["sets"].as_u64()).sum();
            assert_eq!(shown as usize, sets);
        }
        let part = map_of(&all_good(1_000), Some("from=990&count=50"));
        assert_eq!((&part["from"], &part["count"], &part["per_column"]), (&json!(990), &json!(10), &json!(1)));
        assert!(all_good(3).map(Some("from=x")).is_err());
        assert_eq!(map_of(&all_good(3), Some("from=9"))["count"], 0);
    }
}
