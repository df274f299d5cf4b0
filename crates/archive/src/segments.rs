//! Staging segments as the catalogue sees them: which must stay, and how far they are acknowledged.

use std::ops::Range;

use crate::archive::{Archive, ArchiveError};
use crate::rebuild::lost_platters;

/// Removes segments that hold nothing staged, if the catalogue that says so, and the keys of what
/// was written to platters, will still be there when this process ends.
pub(crate) fn release_segments(archive: &Archive) -> Result<(), ArchiveError> {
    archive.check_in_place()?;
    let note = |released: &[u64]| {
        let released: Vec<_> = released.iter().map(|&segment| segment..=segment).collect();
        Ok(archive.catalogue().note_released(&released)?)
    };
    archive.staging().release(|| segments_to_keep(archive), note)
}

/// Segments that must stay: those in use, and old copies of released ones while a set is damaged
/// beyond repair. A rebuild takes from them what the set has lost.
fn segments_to_keep(archive: &Archive) -> Result<Vec<u64>, ArchiveError> {
    let mut keep = archive.catalogue().segments_in_use()?;
    let existing = archive.staging().segments()?;
    let old = archive.catalogue().old_segments(&existing, &keep)?;
    if !old.is_empty() && !lost_platters(&mut **archive.catalogue())?.is_empty() {
        keep.extend(old);
        keep.sort_unstable();
    }
    Ok(keep)
}

/// Truncates unacknowledged records from these segments after a failed commit. Otherwise a version
/// whose put returned an error could reappear under a number that another version has taken since.
/// The segments must have no writer.
pub(crate) fn cut_unacknowledged(archive: &Archive, segments: Range<u64>) -> Result<(), ArchiveError> {
    let ends = archive.catalogue().segment_ends()?;
    for end in ends.into_iter().filter(|end| segments.contains(&end.segment)) {
        if archive.staging().length(end.segment)? > end.bytes {
            archive.staging().cut(end)?;
        }
    }
    Ok(())
}
