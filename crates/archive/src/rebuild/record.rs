//! Opens the records of versions found on platters and in staging.

use fulgurite_domain::{ObjectRecord, VersionId};
use fulgurite_format::{Frames, decode_record};

use crate::archive::{Archive, ArchiveError};
use crate::watch::{Trouble, Watcher};

/// Result of opening a record.
pub(super) enum OpenedRecord {
    Record(ObjectRecord),
    /// The key is not in the key store.
    NoKey,
    /// The record is damaged.
    Unreadable,
}

/// Decodes the record of a version, and reports records that can't be read.
pub(super) fn open_record(
    archive: &Archive,
    id: VersionId,
    sealed: bool,
    record: &[u8],
    watcher: &dyn Watcher,
) -> Result<OpenedRecord, ArchiveError> {
    let frames = if sealed {
        let Some(wrapped) = archive.keys().get(id)? else { return Ok(OpenedRecord::NoKey) };
        let Ok(key) = archive.master_key().unwrap(&wrapped) else {
            let text = format!(
                "the master key can't unwrap the key of version {id}: the version was put under another master key, or its key is damaged"
            );
            watcher.trouble(Trouble::Note { text: &text });
            return Ok(OpenedRecord::Unreadable);
        };
        Frames::new(id, Some(&key))
    } else {
        Frames::new(id, None)
    };
    let opened = frames.open_record(record).map_err(|error| error.to_string());
    match opened.and_then(|record| decode_record(&record).map_err(|error| error.to_string())) {
        Ok(record) => Ok(OpenedRecord::Record(record)),
        Err(why) => {
            watcher.trouble(Trouble::Note { text: &format!("can't read the record of version {id}: {why}") });
            Ok(OpenedRecord::Unreadable)
        }
    }
}
