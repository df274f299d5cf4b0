//! The fixity of all platters at a glance: how many were read and found good, how long ago, which
//! are not good, and when the scrub's cycle ends. It takes the catalogue's word and reads no
//! platter.

use std::collections::BTreeMap;

use fulgurite_archive::catalogue::PlatterRow;
use fulgurite_archive::{CatalogueGaps, CopyState};
use s3s::S3Result;
use serde_json::{Value, json};

use crate::dashboard::blocking;
use crate::fixity::{platter_json, rfc_3339};
use crate::gateway::Gateway;
use crate::health::scrub_progress::believable;
use crate::health::set_states::SetStates;
use crate::state::now_ms;

/// Upper bounds of the ages of verifications that are counted together, in days.
const AGES_DAYS: [u64; 8] = [1, 7, 14, 30, 60, 90, 180, 365];
const DAY_S: u64 = 86_400;
/// Maximum number of platters that are listed because they aren't good.
const LISTED_MAX: usize = 100;

impl Gateway {
    pub(super) fn fixity_overview(&self) -> S3Result<Value> {
        let what = "reading the catalogue for the dashboard";
        let sets = blocking(what, || self.archive.reading().sets())?;
        let platters = blocking(what, || self.archive.platter_states(&|store| self.store_state(store)))?;
        let totals = blocking(what, || self.archive.reading().totals())?;
        let damaged_staged = blocking(what, || self.archive.reading().count_damaged_staged())?;
        let gaps = blocking(what, || CatalogueGaps::find(&self.archive, &|_, _| true))?;
        let now_s = now_ms().div_euclid(1_000) as u64;
        let cycle = self.scrub_status_of(&sets, platters.iter().map(|(row, _)| row)).map(|status| {
            json!({
                "every_days": status.every_days,
                "bytes_per_s_max": status.bytes_per_s_max,
                "bytes_per_s": status.bytes_per_s,
                "verified": status.verified,
                "due": status.due,
                "due_bytes": status.due_bytes,
                "out_of_reach": status.out_of_reach,
                "due_end": rfc_3339(status.due_end),
                "cycle_s": status.cycle_s,
                "is_too_slow": status.is_too_slow(),
            })
        });
        let stores = self.health.stores.last_result();
        let not_ready: Vec<String> = self.health.liveness.reason().into_iter().chain(self.health.readiness.reasons()).collect();
        Ok(json!({
            "now": rfc_3339(now_s),
            "not_ready": not_ready,
            "cycle": cycle,
            "platters": count_states(platters.iter().map(|(_, state)| *state)),
            "ages": ages(now_s, &platters),
            "sets": sets_json(SetStates::count(&sets, &platters)),
            "listed": listed(&platters),
            "unlisted": gaps.unlisted + gaps.out_of_sight,
            "unseen": gaps.unseen.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "stores": by_store(&stores.usable, &stores.absent, &stores.unreadable, &platters),
            "objects": totals.objects,
            "versions": totals.versions,
            "content_bytes": totals.content_bytes,
            "staged": {
                "versions": totals.staged.versions,
                "stored_bytes": totals.staged.stored_bytes,
                "damaged": damaged_staged,
                "oldest": totals.staged.oldest_ms.and_then(|ms| rfc_3339(ms / 1_000)),
            },
        }))
    }
}

/// Number of platters in each state, and of all.
fn count_states(states: impl Iterator<Item = CopyState>) -> Value {
    let words = [CopyState::Good, CopyState::Unverified, CopyState::Absent, CopyState::Unreadable, CopyState::Missing, CopyState::Damaged]
        .map(CopyState::word);
    let mut counts: BTreeMap<&str, u64> = words.into_iter().map(|word| (word, 0)).collect();
    let mut all = 0;
    for state in states {
        *counts.entry(state.word()).or_default() += 1;
        all += 1;
    }
    counts.insert("all", all);
    json!(counts)
}

/// Number of platters by the age of their last verification: up to `days_max`, above the bound
/// before it; `null` for older ones. `never` counts those without one, `future` those dated by a
/// wrong clock.
fn ages(now_s: u64, platters: &[(PlatterRow, CopyState)]) -> Value {
    let mut counts = [0_u64; AGES_DAYS.len() + 1];
    let (mut never, mut future) = (0_u64, 0_u64);
    for (row, _) in platters {
        match believable(row.health.verified(), now_s) {
            None if row.health.verified().is_some() => future += 1,
            None => never += 1,
            Some(verified) => {
                let age_s = now_s.saturating_sub(verified);
                counts[AGES_DAYS.iter().position(|days| age_s <= days * DAY_S).unwrap_or(AGES_DAYS.len())] += 1;
            }
        }
    }
    let bounds = AGES_DAYS.iter().copied().map(Some).chain([None]);
    let counted: Vec<Value> = bounds.zip(counts).map(|(days_max, count)| json!({ "days_max": days_max, "platters": count })).collect();
    json!({ "verified": counted, "never": never, "future": future })
}

/// Sets by how many platters they can still lose. `out_of_reach`: more are lost or out of reach
/// than their redundancy replaces.
fn sets_json(states: SetStates) -> Value {
    json!({
        "all": states.all(),
        "whole": states.whole,
        "reduced": states.reduced,
        "out_of_reach": states.out_of_reach + states.beyond_redundancy,
    })
}

/// The platters that are neither good nor unverified, worst first; up to [`LISTED_MAX`].
fn listed(platters: &[(PlatterRow, CopyState)]) -> Vec<Value> {
    let mut troubled: Vec<&(PlatterRow, CopyState)> = platters.iter().filter(|(_, state)| !state.is_usable()).collect();
    troubled.sort_by_key(|(_, state)| std::cmp::Reverse(*state));
    troubled.truncate(LISTED_MAX);
    troubled.into_iter().map(|(row, state)| platter_json(row, *state)).collect()
}

/// Each store with its own state and those of its platters. Platters whose store the catalogue
/// doesn't know are in the list under its name for them.
fn by_store(usable: &[String], absent: &[String], unreadable: &[String], platters: &[(PlatterRow, CopyState)]) -> Vec<Value> {
    let mut states: BTreeMap<&str, Vec<CopyState>> = BTreeMap::new();
    for (row, state) in platters {
        states.entry(&row.place.store).or_default().push(*state);
    }
    let mut known: BTreeMap<&str, &str> = states.keys().map(|name| (*name, "unknown")).collect();
    for (word, names) in [("usable", usable), ("absent", absent), ("unreadable", unreadable)] {
        known.extend(names.iter().map(|name| (name.as_str(), word)));
    }
    let store = |(name, word): (&str, &str)| {
        let states = states.get(name).map(Vec::as_slice).unwrap_or_default();
        json!({ "store": name, "state": word, "platters": count_states(states.iter().copied()) })
    };
    known.into_iter().map(store).collect()
}
