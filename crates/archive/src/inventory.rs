//! Reads stores and staging without a catalogue and without keys.
//!
//! ```text
//! stores -> headers of platters -> sets -> file tables -> versions and tombstones, by identifier
//! staging segments ------------------------------------> the same for staged versions
//! ```
//!
//! A [rebuild](crate::rebuild_catalogue) reads the same data and also opens the records, which
//! requires the keys. The inventory comes first: it shows which keys must not be restored because
//! their versions were removed, and it describes an archive that has lost its settings.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use fulgurite_domain::{ArchiveId, PlatterId, SetId, VersionId};
use fulgurite_format::{Header, RecordKind};

use crate::catalogue::{PlatterPlace, SetDescription, UNKNOWN_STORE};
use crate::set_reader::{OpenSet, SetReader};
use crate::staging::{Staging, StagingError};
use crate::store::{PlatterStore, StoreError};
use crate::tables::{TableTrouble, read_header, read_table};
use crate::unread::{Loaded, Presence};
use crate::watch::Watcher;

/// A version or tombstone, as listed in a file table or segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mention {
    Version { id: VersionId, sealed: bool },
    Tombstone { id: VersionId },
}

/// A set with at least one readable header.
pub(crate) struct InventorySet {
    pub(crate) header: Header,
    /// Index of the store of each platter, by position.
    stores: Vec<Option<usize>>,
}

impl InventorySet {
    pub(crate) fn missing(&self) -> usize {
        self.stores.iter().filter(|store| store.is_none()).count()
    }
}

pub(crate) struct Inventory<'a> {
    stores: &'a [Arc<dyn PlatterStore>],
    /// Sets in the order in which they were written.
    pub(crate) sets: Vec<InventorySet>,
    /// Distinct platters found, including unreadable ones and those of other archives.
    pub(crate) platters: u64,
    /// What could not be read, one message each.
    pub(crate) unread: Vec<String>,
}

impl<'a> Inventory<'a> {
    /// Reads the headers of all platters. Skips stores that can't be used; their errors are in
    /// [`unread`](Self::unread).
    pub(crate) fn new(archive: ArchiveId, stores: &'a [Arc<dyn PlatterStore>], watcher: &dyn Watcher) -> Self {
        Self::find(archive, stores, watcher, |store| store.check())
    }

    /// Like [`new`](Self::new), for stores whose marks were checked before.
    pub(crate) fn of_unchecked(archive: ArchiveId, stores: &'a [Arc<dyn PlatterStore>], watcher: &dyn Watcher) -> Self {
        Self::find(archive, stores, watcher, |_| Ok(()))
    }

    fn find(
        archive: ArchiveId,
        stores: &'a [Arc<dyn PlatterStore>],
        watcher: &dyn Watcher,
        check: impl Fn(&dyn PlatterStore) -> Result<(), StoreError>,
    ) -> Self {
        watcher.stage("reading headers", None);
        let mut unread = Vec::new();
        let mut headers: HashMap<SetId, Header> = HashMap::new();
        let mut places: HashMap<PlatterId, usize> = HashMap::new();
        for (index, store) in stores.iter().enumerate() {
            let platters = check(&**store)
                .map_err(|error| error.to_string())
                .and_then(|()| store.list().map_err(|error| format!("can't list store {} ({}): {error}", store.name(), store.place())));
            for platter in platters.unwrap_or_else(|why| {
                unread.push(why);
                Vec::new()
            }) {
                let header = read_header(&**store, platter);
                // Of several copies, one with a readable header counts.
                match header {
                    Ok(_) => _ = places.insert(platter, index),
                    Err(_) => _ = places.entry(platter).or_insert(index),
                }
                match header {
                    Ok(found) if found.archive == archive => _ = headers.entry(found.set).or_insert(found),
                    Ok(found) => {
                        let other = found.archive;
                        unread.push(format!("platter {platter} on store {} belongs to another archive, {other}", store.name()));
                    }
                    Err(why) => unread.push(format!("platter {platter} on store {}: {why}", store.name())),
                }
            }
        }
        let with_stores = |header: Header| {
            let stores = header.members.iter().map(|member| places.get(&member.platter).copied()).collect();
            InventorySet { header, stores }
        };
        let mut sets: Vec<InventorySet> = headers.into_values().map(with_stores).collect();
        sets.sort_by_key(|set| (set.header.written, set.header.set.0));
        Self { stores, sets, platters: places.len() as u64, unread }
    }

    /// Reads all file tables. A table that can't be read completely is ignored; the returned
    /// messages name it.
    pub(crate) fn read_tables(&self, threads: usize, watcher: &dyn Watcher, on_mention: &mut dyn FnMut(Mention)) -> Vec<String> {
        let tables = self.sets.iter().flat_map(|set| &set.header.members);
        watcher.stage("reading file tables", Some(tables.map(|member| member.table_bytes).sum()));
        let mut unread = Vec::new();
        let rebuilding = Mutex::new(());
        let mut reader = SetReader::new(&rebuilding, threads);
        let mut mentions = Vec::new();
        for set in &self.sets {
            reader.open(Arc::new(self.open(set)));
            for header in (0..set.header.shape.information).map(|position| set.header.for_position(position)) {
                mentions.clear();
                let read = read_table::<Infallible>(&mut reader, &header, watcher, &mut |entry| {
                    mentions.push(match entry.tombstone {
                        true => Mention::Tombstone { id: entry.version },
                        false => Mention::Version { id: entry.version, sealed: entry.sealed },
                    });
                    Ok(())
                });
                match read {
                    Ok(()) => mentions.iter().copied().for_each(&mut *on_mention),
                    Err(TableTrouble::Unreadable(why)) => {
                        unread.push(format!("can't read the file table of platter {}: {why}", header.platter))
                    }
                }
            }
            reader.close(set.header.set);
        }
        unread
    }

    fn open(&self, set: &InventorySet) -> OpenSet {
        let mut description = SetDescription::of(&set.header, |_| UNKNOWN_STORE.to_owned());
        let presence = |(place, store): (&mut PlatterPlace, &Option<usize>)| {
            let Some(store) = store.map(|index| &self.stores[index]) else { return Presence::missing(UNKNOWN_STORE) };
            store.name().clone_into(&mut place.store);
            match store.open(place.platter) {
                Ok(Some(file)) => Presence::Loaded(Loaded::new(place.platter, set.header.geometry, file, store.name())),
                _ => Presence::missing(store.name()),
            }
        };
        let members = description.platters.iter_mut().zip(&set.stores).map(presence).collect();
        OpenSet { members, description }
    }
}

/// Reads the versions and tombstones in staging. The returned messages name segments that can't be
/// read, are damaged, or belong to another archive.
pub(crate) fn inventory_staging(staging: &Staging, on_mention: &mut dyn FnMut(Mention)) -> Result<Vec<String>, StagingError> {
    let mut unread = Vec::new();
    for segment in staging.segments()? {
        // Record heads have their own checksums, so payloads need not be read.
        let scan = staging.scan(segment, false, |record| match record.kind {
            RecordKind::Object => on_mention(Mention::Version { id: record.version, sealed: record.sealed }),
            RecordKind::Tombstone => on_mention(Mention::Tombstone { id: record.version }),
            RecordKind::Data => {}
        });
        let read = match scan.map_err(|error| error.to_string()) {
            Ok(Ok(scan)) if !scan.damaged.is_empty() => Err(format!("it is damaged in {} places", scan.damaged.len())),
            Ok(Ok(scan)) if scan.head_damaged => Err("its head is damaged, so only its file name says which segment it is".to_owned()),
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(why) => Err(why),
        };
        if let Err(why) = read {
            unread.push(format!("staging segment {segment:016x}: {why}"));
        }
    }
    Ok(unread)
}
