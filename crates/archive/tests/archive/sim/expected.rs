//! The state that an archive guarantees: the model for all fault tests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fulgurite_archive::Archive;
use fulgurite_archive::catalogue::{ListCursor, Unlisted, UnlistedVersion, VersionRow, Versions};
use fulgurite_archive::object::ObjectReader;
use fulgurite_domain::VersionId;

use crate::support::noise;

/// One put of one object. Its content is derived from its number, so every version is unique.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Put {
    pub name: String,
    /// Number of the put within the test.
    pub number: u64,
    pub bytes: usize,
}

impl Put {
    pub fn content(&self) -> Vec<u8> {
        noise(self.number, self.bytes)
    }
}

/// Result of reading everything.
#[derive(Default)]
pub struct Seen {
    /// Puts that were read back with the right bytes.
    pub found: BTreeSet<Put>,
    /// Errors reported by the archive.
    pub told: Vec<String>,
    /// Violations that no archive may commit, damaged or not: silent loss or wrong content.
    pub wrong: Vec<String>,
}

/// Objects that must exist, that may exist, and versions that must not.
#[derive(Clone, Default)]
pub struct Expected {
    /// Acknowledged and not removed.
    must: BTreeSet<Put>,
    /// Being put or removed when a fault struck: complete or absent.
    may: BTreeSet<Put>,
    /// Every object ever put, with its content.
    all: BTreeMap<Put, Arc<Vec<u8>>>,
    /// Versions whose removal was begun but not acknowledged.
    removing: BTreeMap<Put, VersionId>,
    /// Versions that are gone although their removal was not acknowledged. Their keys may exist
    /// until the archive is reopened.
    gone: BTreeSet<VersionId>,
    /// Versions whose removal was acknowledged, or completed when the archive was opened. Their
    /// keys must be gone.
    removed: BTreeSet<VersionId>,
}

impl Expected {
    pub fn begin_put(&mut self, puts: &[Put]) {
        for put in puts {
            self.may.insert(put.clone());
            self.all.insert(put.clone(), Arc::new(put.content()));
        }
    }

    pub fn put(&mut self, puts: &[Put]) {
        for put in puts {
            self.may.remove(put);
            self.must.insert(put.clone());
        }
    }

    /// Marks a version as being removed; from here on it may be gone.
    pub fn begin_removal(&mut self, put: &Put, id: VersionId) {
        self.must.remove(put);
        self.may.insert(put.clone());
        self.removing.insert(put.clone(), id);
    }

    pub fn removed(&mut self, put: &Put, id: VersionId) {
        self.may.remove(put);
        self.removing.remove(put);
        self.removed.insert(id);
    }

    /// Records the outcome of unacknowledged changes, after a fault.
    pub fn found(&mut self, found: &BTreeSet<Put>) {
        self.must.extend(self.may.intersection(found).cloned());
        self.may.clear();
        let gone = std::mem::take(&mut self.removing).into_iter().filter(|(put, _)| !found.contains(put));
        self.gone.extend(gone.map(|(_, id)| id));
    }

    /// The archive was reopened after failed removals, and has completed those that had taken
    /// effect.
    pub fn opened(&mut self) {
        self.removed.append(&mut self.gone);
    }

    pub fn must(&self) -> &BTreeSet<Put> {
        &self.must
    }

    /// Reads everything, compares it with the model, and returns the objects found.
    pub fn check(&self, archive: &Archive) -> Result<BTreeSet<Put>, String> {
        let seen = self.look(archive);
        if let Some(wrong) = seen.wrong.into_iter().chain(seen.told).next() {
            return Err(wrong);
        }
        self.check_keys(archive)?;
        // No key was ever lost, so none may be reported as missing. A rebuild can't tell a put torn
        // by a crash from one that was damaged later.
        let unlisted = archive.catalogue().unlisted(None, 1_000).map_err(|error| error.to_string())?;
        let is_wrong = |version: &&UnlistedVersion| match version.why {
            Unlisted::Incomplete | Unlisted::OutOfSight | Unlisted::UnreadableTable => is_listed(archive, version),
            // An interrupted put leaves keys, and a rebuild can't tell whose they are.
            Unlisted::UnseenStore => false,
            Unlisted::NoKey | Unlisted::UnreadableRecord | Unlisted::Gone => true,
        };
        if let Some(wrong) = unlisted.iter().find(is_wrong) {
            return Err(format!("{wrong:?} is wrongly reported as unlisted"));
        }
        Ok(seen.found)
    }

    /// Reads everything and compares it with the model.
    pub fn look(&self, archive: &Archive) -> Seen {
        let mut seen = Seen::default();
        let mut newest: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
        let mut unreadable = BTreeSet::new();
        let mut numbers = BTreeSet::new();
        let rows = match rows(archive) {
            Ok(rows) => rows,
            Err(error) => {
                seen.told.push(error);
                return seen;
            }
        };
        for row in rows {
            let name = row.record.name.display().to_string();
            if !numbers.insert((row.record.name.0.clone(), row.record.version)) {
                seen.wrong.push(format!("{name} has two versions numbered {}", row.record.version));
            }
            let content = match read(archive, &row) {
                Ok(content) => content,
                Err(error) => {
                    seen.told.push(error);
                    unreadable.insert(name);
                    continue;
                }
            };
            let Some(put) = self.all.iter().find(|(put, expected)| put.name == name && ***expected == content).map(|(put, _)| put) else {
                seen.wrong.push(format!("{name} version {} has {} bytes that were never put", row.record.version, content.len()));
                continue;
            };
            if !self.must.contains(put) && !self.may.contains(put) {
                seen.wrong.push(format!("{name} (put {}, id {}) exists but must not", put.number, row.id));
            }
            // Newest first.
            if newest.insert(row.record.name.0.clone(), put.number).is_some_and(|last| last < put.number) {
                seen.wrong.push(format!("the versions of {name} are not in the order of their puts"));
            }
            if !seen.found.insert(put.clone()) {
                seen.wrong.push(format!("{name} (put {}) exists twice", put.number));
            }
        }
        for lost in self.must.difference(&seen.found).filter(|lost| !unreadable.contains(&lost.name)) {
            seen.wrong.push(format!("{} (put {}) was acknowledged and is lost", lost.name, lost.number));
        }
        seen
    }

    /// Checks that the keys of removed versions are gone.
    pub fn check_keys(&self, archive: &Archive) -> Result<(), String> {
        for &id in &self.removed {
            if archive.keys().get(id).map_err(|error| error.to_string())?.is_some() {
                return Err(format!("the key of the removed version {id} still exists"));
            }
        }
        Ok(())
    }
}

/// True if an allegedly unlisted version is listed.
fn is_listed(archive: &Archive, version: &UnlistedVersion) -> bool {
    rows(archive).is_ok_and(|rows| rows.iter().any(|row| row.id == version.id))
}

/// All versions in the catalogue.
pub fn rows(archive: &Archive) -> Result<Vec<VersionRow>, String> {
    let mut rows: Vec<VersionRow> = Vec::new();
    loop {
        let after = rows.last().map(ListCursor::after_row);
        let page = archive.catalogue().list(b"", Versions::All, after.as_ref(), 100).map_err(|error| error.to_string())?;
        if page.is_empty() {
            return Ok(rows);
        }
        rows.extend(page);
    }
}

pub fn read(archive: &Archive, row: &VersionRow) -> Result<Vec<u8>, String> {
    let mut content = Vec::new();
    let read = ObjectReader::new(archive).read(row, &mut |bytes| {
        content.extend_from_slice(bytes);
        Ok(())
    });
    read.map_err(|error| format!("{} version {} can't be read: {error}", row.record.name.display(), row.record.version))?;
    Ok(content)
}
