//! Sources that are stored already, and needn't be stored again.
//!
//! A source is compared with the newest version of its name. Size, mode and time of modification
//! are nearly always enough, but not where the file was changed after the version was put, or in
//! the moment in which it was: its `ctime` tells. Then its content is compared.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use fulgurite_domain::{Digest, Kind, ObjectName};

use super::worker::Facts;
use crate::archive::{Archive, ArchiveError};
use crate::catalogue::VersionRow;

/// A file that was changed less than this before its version was put may have been changed again,
/// unseen. More than the resolution of any time stamp.
const RACY_MS: i128 = 2_000;

/// Which sources a put skips because the newest version of their name is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Skip {
    /// None: everything is stored.
    #[default]
    Nothing,
    /// Those with the same size, mode and time of modification. Where the file was changed after
    /// that version was put, its content is compared.
    Unchanged,
    /// Those with the same content and mode, whatever their times say.
    SameContent,
}

/// What the newest version of a name says of a source.
pub(super) enum Known {
    /// It is the same.
    Same,
    /// It is the same if this is the SHA-256 of its content.
    IfContent(Digest),
    /// It isn't the same, or nobody knows.
    Other,
}

impl Skip {
    /// Compares a source with the newest version of its name. `metadata` is that of the file, link
    /// or folder.
    pub(super) fn compare(self, archive: &Archive, facts: &Facts<'_>, metadata: &Metadata) -> Result<Known, ArchiveError> {
        if self == Self::Nothing {
            return Ok(Known::Other);
        }
        match newest(archive, &facts.name)? {
            Some(row) => Ok(self.against(&row, facts, metadata)),
            None => Ok(Known::Other),
        }
    }

    fn against(self, row: &VersionRow, facts: &Facts<'_>, metadata: &Metadata) -> Known {
        let record = &row.record;
        if (record.kind, record.mode) != (facts.kind, facts.mode) || !record.attributes.0.is_empty() {
            return Known::Other;
        }
        let same_time = record.modified == facts.modified;
        match record.kind {
            // What has content is compared by it. (The time of a link isn't restored, and so it
            // doesn't count.)
            Kind::SymbolicLink => Known::IfContent(record.sha256),
            Kind::File if record.size != metadata.len() => Known::Other,
            Kind::File if self == Self::SameContent => Known::IfContent(record.sha256),
            Kind::File if same_time && is_older(metadata, record.created_ms) => Known::Same,
            Kind::File if same_time => Known::IfContent(record.sha256),
            Kind::Directory if same_time || self == Self::SameContent => Known::Same,
            _ => Known::Other,
        }
    }
}

/// The newest version of a name, if it can be read: without its key it is no copy of anything.
fn newest(archive: &Archive, name: &ObjectName) -> Result<Option<VersionRow>, ArchiveError> {
    let row = archive.reading().newest(name)?;
    Ok(row.filter(|row| !row.sealed || archive.reading_keys().get(row.id).is_ok_and(|key| key.is_some())))
}

/// Whether a file was last changed so long before `created_ms` that what was read then is what it
/// holds now.
fn is_older(metadata: &Metadata, created_ms: u64) -> bool {
    let changed_ms = i128::from(metadata.ctime()) * 1_000 + i128::from(metadata.ctime_nsec()) / 1_000_000;
    changed_ms + RACY_MS < i128::from(created_ms)
}

#[cfg(test)]
mod tests {
    use fulgurite_domain::{Attributes, ObjectRecord, VersionId};

    use super::*;
    use crate::catalogue::VersionKey;

    #[test]
    fn times_decide_only_where_the_file_rested_before_its_version_was_put() {
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
            VersionRow { key: VersionKey(1), id: VersionId([1; 16]), record, sealed: false, stored_bytes: 0, archived: true }
        };
        let against = |skip: Skip, row: &VersionRow| match skip.against(row, &facts, &metadata) {
            Known::Same => "same",
            Known::IfContent(_) => "if content",
            Known::Other => "other",
        };
        assert_eq!(against(Skip::Unchanged, &row(changed_ms + 2_001, 7)), "same");
        for created_ms in [changed_ms + 2_000, changed_ms, changed_ms - 1_000_000] {
            assert_eq!(against(Skip::Unchanged, &row(created_ms, 7)), "if content");
        }
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
