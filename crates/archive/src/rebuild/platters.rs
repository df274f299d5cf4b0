//! The sets that platters on the stores belong to.

use std::collections::{BTreeMap, HashMap, HashSet};

use fulgurite_domain::{PlatterId, SetId};
use fulgurite_format::Header;

use super::RebuildReport;
use crate::archive::Archive;
use crate::catalogue::{Extent, NOWHERE, PlatterPlace, SetDescription};
use crate::tables::read_header;
use crate::watch::{Trouble, Watcher};

/// A set of which platters were found.
pub(super) struct FoundSet {
    /// Of any of its platters.
    pub(super) header: Header,
    pub(super) description: SetDescription,
    /// How many of its platters were not found.
    pub(super) missing: usize,
    /// Whether an earlier catalogue knew it to be complete.
    was_complete: bool,
}

impl FoundSet {
    /// Whether it misses too many platters. Then it was never finished, most likely, and what is on it was put on another set later.
    pub(super) fn is_doubtful(&self) -> bool {
        !self.was_complete && self.misses_too_many()
    }

    /// Whether more is missing than its redundancy makes good.
    pub(super) fn misses_too_many(&self) -> bool {
        self.missing > usize::from(self.header.shape.redundancy)
    }

    pub(super) fn has_one_of(&self, extents: &[Extent]) -> bool {
        self.description.platters.iter().any(|place| extents.iter().any(|extent| extent.platter == place.platter))
    }
}

impl Archive {
    /// The sets that platters were found of, with a header and the description of each.
    pub(super) fn find_sets(&self, complete: &HashSet<SetId>, report: &mut RebuildReport, watcher: &dyn Watcher) -> Vec<FoundSet> {
        let note = |text: String| watcher.trouble(Trouble::Note { text: &text });
        let mut sets: BTreeMap<SetId, Header> = BTreeMap::new();
        let mut places: HashMap<PlatterId, String> = HashMap::new();
        let disks = self.disks();
        for away in disks.all_away() {
            note(away.why.clone());
        }
        for (name, store) in disks.there() {
            let platters = match store.list() {
                Ok(platters) => platters,
                Err(error) => {
                    note(format!("store {name} ({}) can't be listed: {error}", store.place()));
                    continue;
                }
            };
            for platter in platters {
                let header = read_header(&**store, platter);
                // A platter may have lost its headers and still hold its sectors; its set knows it.
                places.insert(platter, name.to_owned());
                report.platters += 1;
                match header {
                    Ok(found) if found.archive != self.id() => {
                        note(format!("platter {platter} on store {name} is of archive {}", found.archive));
                    }
                    Ok(found) => {
                        sets.entry(found.set).or_insert(found);
                    }
                    Err(why) => note(format!("platter {platter} on store {name}: {why}")),
                }
            }
        }
        let describe = |header: Header| {
            let place = |platter: PlatterId| {
                let store = places.get(&platter).cloned().unwrap_or_else(|| NOWHERE.to_owned());
                PlatterPlace { platter, store }
            };
            let description = SetDescription {
                id: header.set,
                shape: header.shape,
                geometry: header.geometry,
                written: header.written,
                platters: header.members.iter().map(|member| place(member.platter)).collect(),
            };
            let missing = description.platters.iter().filter(|place| place.store == NOWHERE).count();
            FoundSet { was_complete: complete.contains(&header.set), header, description, missing }
        };
        let mut sets: Vec<_> = sets.into_values().map(describe).collect();
        sets.sort_by_key(|found| found.header.written);
        sets
    }
}
