//! Opens the records of versions found on platters and in staging.

use fulgurite_domain::{ObjectRecord, VersionId};
use fulgurite_format::{Frames, decode_record};

use crate::archive::{Archive, ArchiveError};
use crate::catalogue::Unlisted;
use crate::watch::{Trouble, Watcher};

/// Decodes the record of a version, and reports records that can't be read. The inner error says
/// why the version can't be listed.
pub(super) fn open_record(
    archive: &Archive,
    id: VersionId,
    sealed: bool,
    record: &[u8],
    watcher: &dyn Watcher,
) -> Result<Result<ObjectRecord, Unlisted>, ArchiveError> {
    let frames = if sealed {
        let Some(wrapped) = archive.keys().get(id)? else { return Ok(Err(Unlisted::NoKey)) };
        let Ok(key) = archive.master_key().unwrap(&wrapped) else {
            let text = format!(
                "the master key can't unwrap the key of version {id}: the version was put under another master key, or its key is damaged"
            );
            watcher.trouble(Trouble::Note(&text));
            return Ok(Err(Unlisted::UnreadableRecord));
        };
        Frames::new(id, Some(&key))
    } else {
        Frames::new(id, None)
    };
    let opened = frames.open_record(record).map_err(|error| error.to_string());
    let record = opened.and_then(|record| decode_record(&record).map_err(|error| error.to_string()));
    Ok(record.map_err(|why| {
        watcher.trouble(Trouble::Note(&format!("can't read the record of version {id}: {why}")));
        Unlisted::UnreadableRecord
    }))
}
