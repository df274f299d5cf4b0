//! Finds sources that are already stored and can be skipped.
//!
//! A source is compared with the newest version of its name. Size, mode and modification time
//! usually suffice. They do not if `ctime` shows that the file changed after the version was put,
//! or at about that time, or if the version is dated in the future, because the clock was wrong.
//! Then its content is compared.
//!
//! A lost version is not a copy of anything, so its source is stored again ([`SuspectPlatters`]).

use std::collections::{HashMap, HashSet};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use fulgurite_domain::{Digest, Kind, ObjectName, PlatterId, SetId};

use super::worker::Facts;
use crate::archive::{Archive, ArchiveError};
use crate::catalogue::{SetRow, SetState, VersionRow};
use crate::clock::unix_ms;
use crate::object::ObjectReader;
use crate::store_snapshot::locate_platters;
use crate::unread::NoPlatter;

/// A file whose last change was less than this before its version was put may have changed again
/// unnoticed. The coarsest time stamps in use, those of FAT, have this resolution.
const RACY_MS: i128 = 2_000;

/// Which sources a put skips because the newest version of their name is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Skip {
    /// No sources: everything is stored.
    #[default]
    Nothing,
    /// Sources with the same size, mode and modification time. If the file changed after that
    /// version was put, its content is compared.
    Unchanged,
    /// Sources with the same content and mode, whatever their times.
    SameContent,
}

/// How a source compares with the newest version of its name.
pub(super) enum Known {
    Same,
    /// They are the same if the source's content has this SHA-256.
    IfContent(Digest),
    /// They differ, or the comparison is impossible.
    Other,
}

impl Skip {
    /// Compares a source with the newest version of its name. `metadata` is that of the file, link
    /// or folder.
    pub(super) fn compare(
        self,
        archive: &Archive,
        suspects: &SuspectPlatters,
        facts: &Facts<'_>,
        metadata: &Metadata,
    ) -> Result<Known, ArchiveError> {
        if self == Self::Nothing {
            return Ok(Known::Other);
        }
        let Some(row) = newest(archive, &facts.name)? else { return Ok(Known::Other) };
        Ok(match self.against(&row, facts, metadata, unix_ms()) {
            Known::Same | Known::IfContent(_) if suspects.is_lost(archive, &row)? => Known::Other,
            known => known,
        })
    }

    fn against(self, row: &VersionRow, facts: &Facts<'_>, metadata: &Metadata, now_ms: u64) -> Known {
        let record = &row.record;
        if (record.kind, record.mode) != (facts.kind, facts.mode) || !record.attributes.0.is_empty() {
            return Known::Other;
        }
        let same_time = record.modified == facts.modified;
        match record.kind {
            // Links are compared by content. (The time of a link is not restored, so it does not
            // count.)
            Kind::SymbolicLink => Known::IfContent(record.sha256),
            Kind::File if record.size != metadata.len() => Known::Other,
            Kind::File if self == Self::SameContent => Known::IfContent(record.sha256),
            Kind::File if same_time && is_older(metadata, record.created_ms, now_ms) => Known::Same,
            Kind::File if same_time => Known::IfContent(record.sha256),
            Kind::Directory if same_time || self == Self::SameContent => Known::Same,
            _ => Known::Other,
        }
    }
}

/// The newest version of a name, provided that it is a usable copy: its key exists, and no newer
/// version is unlisted.
fn newest(archive: &Archive, name: &ObjectName) -> Result<Option<VersionRow>, ArchiveError> {
    let Some(row) = archive.reading().newest(name)? else { return Ok(None) };
    if archive.reading().latest_number(name)? != Some(row.record.version) {
        return Ok(None);
    }
    let has_key = !row.sealed || archive.reading_keys().get(row.id).is_ok_and(|key| key.is_some());
    Ok(has_key.then_some(row))
}

/// The platters of sets that may have lost content: those with more platters missing, or with lost
/// tracks at the last read, than their redundancy covers.
///
/// Only versions on these platters are read before they count as copies of their sources. So as
/// long as no set is beyond repair, a put only looks for each platter once.
#[derive(Default)]
pub(super) struct SuspectPlatters(HashSet<PlatterId>);

impl SuspectPlatters {
    pub(super) fn find(archive: &Archive) -> Result<Self, ArchiveError> {
        let platters = archive.reading().platters()?;
        let found = locate_platters(archive, platters.iter().map(|row| &row.place));
        let mut bad: HashMap<SetId, usize> = HashMap::new();
        for (row, found) in platters.iter().zip(found) {
            if matches!(found, Err(NoPlatter::Missing { .. })) || row.health.lost_tracks > 0 {
                *bad.entry(row.set).or_default() += 1;
            }
        }
        if bad.is_empty() {
            return Ok(Self::default());
        }
        let sets = archive.reading().sets()?;
        let is_doubtful = |set: &&SetRow| {
            let bad = bad.get(&set.description.id).copied().unwrap_or(0);
            set.state == SetState::Complete && bad > usize::from(set.description.shape.redundancy)
        };
        Ok(Self(sets.iter().filter(is_doubtful).flat_map(|set| set.description.platters.iter().map(|place| place.platter)).collect()))
    }

    /// True if a version is lost. A version on absent stores is unreadable, but not lost.
    fn is_lost(&self, archive: &Archive, row: &VersionRow) -> Result<bool, ArchiveError> {
        if self.0.is_empty() || !row.archived {
            return Ok(false);
        }
        let extents = archive.reading().extents(row.row_id)?;
        if !extents.iter().any(|extent| self.0.contains(&extent.platter)) {
            return Ok(false);
        }
        let read = ObjectReader::new(archive).read(row, &mut |_| Ok(()));
        Ok(read.is_err_and(|error| error.hindrance().is_none()))
    }
}

/// True if a file's last change was long enough before `created_ms` that the version must have its
/// current content. If `created_ms` is in the future, the clock was wrong, and any change since
/// then seems older than the version.
fn is_older(metadata: &Metadata, created_ms: u64, now_ms: u64) -> bool {
    let changed_ms = i128::from(metadata.ctime()) * 1_000 + i128::from(metadata.ctime_nsec()) / 1_000_000;
    created_ms <= now_ms && changed_ms + RACY_MS < i128::from(created_ms)
}

#[cfg(test)]
mod tests {
    use fulgurite_domain::{Attributes, ObjectRecord, VersionId};

    use super::*;
    use crate::catalogue::VersionRowId;

    #[test]
    fn times_suffice_only_if_the_file_was_at_rest_before_its_version_was_put() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("file");
        std::fs::write(&path, b"content").expect("written");
        let metadata = std::fs::metadata(&path).expect("there");
        let name = ObjectName(b"file".to_vec());
        let facts = Facts::of(&name, Kind::File, &metadata);
        let changed_ms = (metadata.ctime() * 1_000 + metadata.ctime_nsec() / 1_000_000) as u64;
        let row = |created_ms, size| {
            let (modified, mode) = (facts.modified, facts.mode);
            let (sha256, attributes) = (Digest([7; 32]), Attributes::default());
            let record =
                ObjectRecord { name: name.clone(), version: 1, kind: Kind::File, size, sha256, modified, mode, created_ms, attributes };
            VersionRow { row_id: VersionRowId(1), id: VersionId([1; 16]), record, sealed: false, stored_bytes: 0, archived: true }
        };
        let against_at = |skip: Skip, row: &VersionRow, now_ms| match skip.against(row, &facts, &metadata, now_ms) {
            Known::Same => "same",
            Known::IfContent(_) => "if content",
            Known::Other => "other",
        };
        let against = |skip, row: &VersionRow| against_at(skip, row, changed_ms + 10_000);
        assert_eq!(against(Skip::Unchanged, &row(changed_ms + 2_001, 7)), "same");
        for created_ms in [changed_ms + 2_000, changed_ms, changed_ms - 1_000_000] {
            assert_eq!(against(Skip::Unchanged, &row(created_ms, 7)), "if content");
        }
        let ahead = row(changed_ms + 40 * 86_400_000, 7);
        assert_eq!(against(Skip::Unchanged, &ahead), "if content", "put while the clock was ahead");
        assert_eq!(against_at(Skip::Unchanged, &ahead, ahead.record.created_ms), "same");
        assert_eq!(against(Skip::SameContent, &row(changed_ms + 2_001, 7)), "if content");
        assert_eq!(against(Skip::SameContent, &row(changed_ms + 2_001, 8)), "other");
        let mut other = row(changed_ms + 2_001, 7);
        other.record.mode = Some(0o7777);
        assert_eq!(against(Skip::Unchanged, &other), "other");
        let mut other = row(changed_ms + 2_001, 7);
        other.record.attributes.0.insert("s3".to_owned(), b"put by another".to_vec());
        assert_eq!(against(Skip::Unchanged, &other), "other");
        let mut later = row(changed_ms + 2_001, 7);
        later.record.modified = None;
        assert_eq!(against(Skip::Unchanged, &later), "other");
        assert_eq!(against(Skip::SameContent, &later), "if content");
    }
}
