//! What platters say of themselves: which sets there are, and what their file tables list.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, Read};

use fulgurite_domain::{PlatterId, SetId};
use fulgurite_format::{Entry, FindHeaderError, Header, TableReader, find_header};

use super::{NOWHERE, RebuildReport};
use crate::archive::{Archive, ArchiveError};
use crate::catalogue::{Extent, PlatterPlace, SetDescription};
use crate::scrub::read_exact_at;
use crate::set_reader::SetReader;
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
    /// Whether more is missing than its redundancy makes good. Then it was never finished, most likely, and what is on it was put on another set later.
    pub(super) fn is_doubtful(&self) -> bool {
        !self.was_complete && self.missing > usize::from(self.header.shape.redundancy)
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
                let header = store.open(platter).map_err(|error| error.to_string()).and_then(|file| {
                    let file = file.ok_or("it is gone")?;
                    let length = file.length().map_err(|error| error.to_string())?;
                    let found = find_header(length, |offset, buffer| read_exact_at(&*file, offset, buffer));
                    found.map_err(|error: FindHeaderError| error.to_string())
                });
                // A platter may have lost its headers and still hold its sectors; its set knows it.
                places.insert(platter, name.to_owned());
                report.platters += 1;
                match header {
                    Ok(found) if found.header.archive != self.id() => {
                        note(format!("platter {platter} on store {name} is of archive {}", found.header.archive));
                    }
                    Ok(found) => {
                        sets.entry(found.header.set).or_insert(found.header);
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

pub(super) enum TableTrouble {
    Archive(ArchiveError),
    Unreadable(String),
}

/// Reads the file table of a platter, entry by entry.
pub(super) fn read_table(
    reader: &mut SetReader<'_>,
    header: &Header,
    watcher: &dyn Watcher,
    on_entry: &mut dyn FnMut(Entry) -> Result<(), ArchiveError>,
) -> Result<(), TableTrouble> {
    let member = header.member();
    let content = TableContent { reader, platter: header.platter, at: member.table_offset, watcher };
    let unreadable = |error: fulgurite_format::TableError| TableTrouble::Unreadable(error.to_string());
    let mut table = TableReader::new(content, member.table_bytes).map_err(unreadable)?;
    for entry in &mut table {
        on_entry(entry.map_err(unreadable)?).map_err(TableTrouble::Archive)?;
    }
    let crc64 = table.finish().map_err(unreadable)?;
    if crc64 != member.table_crc64 {
        return Err(TableTrouble::Unreadable("its checksum is wrong".into()));
    }
    Ok(())
}

/// The content of a platter from some byte on.
struct TableContent<'a, 'r> {
    reader: &'a mut SetReader<'r>,
    platter: PlatterId,
    at: u64,
    watcher: &'a dyn Watcher,
}

impl Read for TableContent<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reader.read(self.platter, self.at, buffer).map_err(|error| io::Error::other(error.to_string()))?;
        self.at += buffer.len() as u64;
        self.watcher.done(0, buffer.len() as u64);
        Ok(buffer.len())
    }
}
