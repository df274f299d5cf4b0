//! Finds the sets that the platters on the stores belong to.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use fulgurite_domain::{PlatterId, SetId};
use fulgurite_format::Header;

use super::earlier::EarlierSets;
use super::run::Rebuild;
use crate::catalogue::{Extent, SetDescription, UNKNOWN_STORE};
use crate::store::PlatterStore;
use crate::store_snapshot::StoreSnapshot;
use crate::tables::{HeaderTrouble, has_table, read_header};
use crate::watch::Trouble;

/// A set of which at least one platter was found.
pub(super) struct FoundSet {
    pub(super) header: Header,
    pub(super) description: SetDescription,
    pub(super) missing: usize,
    /// True if an earlier catalogue listed the set as complete.
    was_complete: bool,
    /// True if an earlier catalogue listed the set as being written, or left it out.
    pub(super) was_writing: bool,
    /// True if the earlier catalogue listed the set as being written: then it lists all that was
    /// staged for it.
    pub(super) was_staged: bool,
    /// True if the earlier catalogue left the set out: then it lists those of its file tables that
    /// couldn't be read, unless they were given up.
    pub(super) was_left_out: bool,
}

/// A store with a copy of a platter, and the store's name.
type StoredCopy<'a> = (&'a str, &'a Arc<dyn PlatterStore>);

/// A platter without a readable header that no other platter's header lists.
pub(super) struct SetlessPlatter {
    pub(super) platter: PlatterId,
    pub(super) store: String,
    /// Why its header can't be read.
    pub(super) trouble: HeaderTrouble,
}

impl FoundSet {
    /// The set that a header describes. `places` are the stores of the platters found. Any other
    /// platter keeps the store that the earlier catalogue names, if that store could not be read
    /// now. A store that was read doesn't have it, and may have another platter of the set by now
    /// (I3).
    fn new(header: Header, places: &HashMap<PlatterId, String>, known: &EarlierSets, unread: &HashSet<String>) -> Self {
        let earlier = |platter: &PlatterId| known.places.get(platter).filter(|store| unread.contains(*store));
        let place = |platter: &PlatterId| places.get(platter).or_else(|| earlier(platter));
        let description = SetDescription::of(&header, |platter| place(&platter).cloned().unwrap_or_else(|| UNKNOWN_STORE.to_owned()));
        let missing = description.platters.iter().filter(|place| !places.contains_key(&place.platter)).count();
        let (was_complete, was_writing) = (known.complete.contains(&header.set), known.writing.contains(&header.set));
        Self { was_complete, was_writing, was_staged: was_writing, was_left_out: false, header, description, missing }
    }

    /// True if the set was probably never finished, and its content was written to another set
    /// later: no earlier catalogue listed it as complete, and too many platters are missing, or any
    /// platter of a set that was being written.
    pub(super) fn is_doubtful(&self) -> bool {
        !self.was_complete && (self.misses_too_many() || (self.was_writing && self.missing > 0))
    }

    /// True if more platters are missing than the set's redundancy can replace.
    pub(super) fn misses_too_many(&self) -> bool {
        self.missing > usize::from(self.header.shape.redundancy)
    }

    pub(super) fn has_one_of(&self, extents: &[Extent]) -> bool {
        self.description.platters.iter().any(|place| extents.iter().any(|extent| extent.platter == place.platter))
    }
}

impl Rebuild<'_> {
    /// The store of the best copy of a platter: one whose file table can be read, and of these the
    /// one that the earlier catalogue names.
    fn best_copy<'s>(&self, copies: &[StoredCopy<'s>], header: &Header, known: &EarlierSets) -> &'s str {
        // Reading tables takes long, and almost every platter has one copy.
        if let [(only, _)] = copies {
            return only;
        }
        let is_known = |name: &str| known.places.get(&header.platter).is_some_and(|store| store == name);
        let rank = |(name, store): &&StoredCopy<'s>| (has_table(self.archive, &***store, header), is_known(name));
        copies.iter().rev().max_by_key(rank).expect("at least one copy was found").0
    }

    /// Finds the sets on the stores, and the platters of which no set is known.
    pub(super) fn find_sets(&mut self, known: &EarlierSets) -> (Vec<FoundSet>, Vec<SetlessPlatter>) {
        let watcher = self.watcher;
        let note = |text: String| watcher.trouble(Trouble::Note(&text));
        let mut sets: BTreeMap<SetId, Header> = BTreeMap::new();
        let mut places: HashMap<PlatterId, String> = HashMap::new();
        let snapshot = StoreSnapshot::take(self.archive);
        let mut unread: HashSet<String> = HashSet::new();
        let mut readable: HashMap<PlatterId, Vec<StoredCopy<'_>>> = HashMap::new();
        let mut headless = Vec::new();
        for store in &snapshot.unavailable {
            note(store.to_string());
            unread.insert(store.store.clone());
        }
        for (name, store) in snapshot.readable() {
            let platters = match store.list() {
                Ok(platters) => platters,
                Err(error) => {
                    note(format!("store {name} ({}) can't be listed: {error}", store.place()));
                    unread.insert(name.to_owned());
                    continue;
                }
            };
            for platter in platters {
                let header = read_header(&**store, platter);
                // The platter may have lost its headers but still hold its sectors. The headers of
                // its set list it. Of several copies, one with a readable header counts.
                match &header {
                    Ok(header) => {
                        let copies = readable.entry(platter).or_default();
                        copies.push((name, store));
                        _ = places.insert(platter, self.best_copy(copies, header, known).to_owned());
                    }
                    Err(_) => _ = places.entry(platter).or_insert_with(|| name.to_owned()),
                }
                self.report.platters += 1;
                match header {
                    Ok(found) if found.archive != self.archive.id() => {
                        note(format!("platter {platter} on store {name} is of archive {}, and is ignored", found.archive));
                    }
                    Ok(found) => {
                        sets.entry(found.set).or_insert(found);
                    }
                    Err(HeaderTrouble::Misnamed { platter: copied, archive }) if archive != self.archive.id() => {
                        note(format!("platter {platter} on store {name} is platter {copied} of archive {archive}, and is ignored"));
                    }
                    Err(why) => {
                        note(format!("platter {platter} on store {name}: {why}"));
                        headless.push(SetlessPlatter { platter, store: name.to_owned(), trouble: why });
                    }
                }
            }
        }
        let mut sets: Vec<_> = sets.into_values().map(|header| FoundSet::new(header, &places, known, &unread)).collect();
        sets.sort_by_key(|found| found.header.written);
        // A platter that no header lists may be all that is left of a set.
        let listed: HashSet<PlatterId> =
            sets.iter().flat_map(|found| found.description.platters.iter().map(|place| place.platter)).collect();
        headless.retain(|found| !listed.contains(&found.platter));
        (sets, headless)
    }
}
