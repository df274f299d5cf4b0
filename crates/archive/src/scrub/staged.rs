//! Reads staged versions, and records when each was found good or damaged.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::PAGE;
use crate::archive::{Archive, ArchiveError};
use crate::catalogue::{StagedCheck, StagedHealth, VersionRow};
use crate::clock::unix_s;
use crate::paging::Pager;
use crate::staging::StagingError;
use crate::watch::{OutOfReach, Trouble, Watcher};

/// After reading this many bytes, results are recorded: a crash loses no more of them.
const RECORD_AFTER_BYTES: u64 = 256 << 20;

/// Result of reading staged versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StagedReport {
    /// Versions read.
    pub versions: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Versions whose staged bytes are damaged or missing; each was reported as lost.
    pub damaged: u64,
    /// Versions that can't be read now but aren't known to be lost; each was reported.
    pub out_of_reach: OutOfReach,
}

impl Archive {
    /// Reads the staged versions whose health `is_due` selects, compares all of their bytes with
    /// their checksums, and records the results. Bytes that don't match are read again before they
    /// count as damaged.
    ///
    /// # Errors
    /// [`ArchiveError`] if the catalogue fails, or if the watcher stops the reading; the results of
    /// the versions read until then are recorded.
    pub fn verify_staged(&self, is_due: &dyn Fn(&StagedHealth) -> bool, watcher: &dyn Watcher) -> Result<StagedReport, ArchiveError> {
        let mut verification =
            Verification { archive: self, watcher, report: StagedReport::default(), checks: Vec::new(), unrecorded_bytes: 0 };
        let read = verification.read_all(is_due);
        // Also after an error: what was read until then is known.
        let recorded = verification.record();
        read.and(recorded)?;
        Ok(verification.report)
    }
}

struct Verification<'a> {
    archive: &'a Archive,
    watcher: &'a dyn Watcher,
    report: StagedReport,
    /// Results that are not recorded yet.
    checks: Vec<StagedCheck>,
    /// The bytes that they took to read.
    unrecorded_bytes: u64,
}

impl Verification<'_> {
    fn read_all(&mut self, is_due: &dyn Fn(&StagedHealth) -> bool) -> Result<(), ArchiveError> {
        let archive = self.archive;
        let mut payload = Vec::new();
        // An open file can still be read when its name or its disk is gone, and its pages may be
        // cached: neither would be evidence.
        let mut forgotten = BTreeSet::new();
        let mut pages = Pager::default();
        while let Some(page) = pages.next(|after| archive.reading().staged_versions(after, PAGE))? {
            for row in &page {
                if self.watcher.is_stopped() {
                    return Err(ArchiveError::Stopped);
                }
                // Either lookup finds nothing if the version was archived or removed meanwhile.
                let Some(health) = archive.reading().staged_health(row.row_id)? else { continue };
                if !is_due(&health) {
                    continue;
                }
                let Some((record, data)) = archive.reading().staged(row.row_id)? else { continue };
                for place in std::iter::once(record).chain(data.iter().map(|data| data.place)) {
                    if forgotten.insert(place.segment) {
                        archive.staging().forget(place.segment);
                    }
                }
                self.report.versions += 1;
                let mut places = std::iter::once(record).chain(data.into_iter().map(|data| data.place));
                let read = places.try_for_each(|place| {
                    archive.staging().read(place, &mut payload)?;
                    self.report.bytes += u64::from(place.bytes);
                    self.unrecorded_bytes += u64::from(place.bytes);
                    self.watcher.done(0, place.bytes.into());
                    // A version of terabytes takes hours at a limited rate.
                    if self.watcher.is_stopped() { Err(Ended::Stopped) } else { Ok(()) }
                });
                self.take(row, read)?;
            }
            if self.unrecorded_bytes > 0 {
                self.record()?;
            }
            forgotten.clear();
        }
        Ok(())
    }

    /// Takes the result of reading a version.
    fn take(&mut self, row: &VersionRow, read: Result<(), Ended>) -> Result<(), ArchiveError> {
        let error = match read {
            Ok(()) => {
                self.checks.push(StagedCheck { version: row.row_id, at: unix_s(), is_sound: true });
                return if self.unrecorded_bytes >= RECORD_AFTER_BYTES { self.record() } else { Ok(()) };
            }
            Err(Ended::Stopped) => {
                self.report.versions -= 1;
                return Err(ArchiveError::Stopped);
            }
            Err(Ended::Staging(error)) => error,
        };
        // A server may have archived or removed the version since, and released its segment.
        if self.archive.catalogue().staged(row.row_id)?.is_none() {
            self.report.versions -= 1;
            return Ok(());
        }
        match error.hindrance() {
            Some(hindrance) => self.report.out_of_reach.add(hindrance),
            None => {
                self.report.damaged += 1;
                self.checks.push(StagedCheck { version: row.row_id, at: unix_s(), is_sound: false });
            }
        }
        self.watcher.trouble(Trouble::unread(row, error.hindrance(), &error.to_string()));
        Ok(())
    }

    fn record(&mut self) -> Result<(), ArchiveError> {
        self.unrecorded_bytes = 0;
        let checks = std::mem::take(&mut self.checks);
        if checks.is_empty() || self.archive.is_read_only() {
            return Ok(());
        }
        Ok(self.archive.catalogue().record_staged(&checks)?)
    }
}

/// Why reading a version ended early.
enum Ended {
    Stopped,
    Staging(StagingError),
}

impl From<StagingError> for Ended {
    fn from(error: StagingError) -> Self {
        Self::Staging(error)
    }
}
