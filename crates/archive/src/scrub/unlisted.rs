//! What the catalogue does not list: unlisted versions, unseen places and unknown platters.

use fulgurite_domain::PlatterId;
use fulgurite_glass::{ReadDrive, Rebuilt, Track};
use serde::{Deserialize, Serialize};

use super::Scrub;
use crate::archive::ArchiveError;
use crate::catalogue::{PlatterPlace, Unlisted};
use crate::content::Disks;
use crate::rebuild::{UnseenPlace, each_unlisted};
use crate::strangers::strangers;
use crate::watch::Trouble;

/// A platter on a store that the catalogue doesn't know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnknownPlatter {
    /// The platter.
    #[serde(with = "crate::as_text")]
    pub platter: PlatterId,
    /// The store it is on.
    pub store: String,
    /// Lost sectors, including those of group redundancy tracks.
    pub lost_sectors: u64,
    /// True if its header can be read, which is required to read the platter.
    pub is_readable: bool,
}

impl Scrub<'_> {
    /// Reads the platters that the catalogue doesn't know, without changing them.
    pub(super) fn strangers(&mut self) -> Result<(), ArchiveError> {
        let strangers = strangers(self.archive)?;
        if !strangers.is_empty() {
            self.watcher.stage("reading platters that the catalogue doesn't know", None);
        }
        let disks = Disks::check(self.archive);
        for stranger in strangers {
            let mut found =
                UnknownPlatter { platter: stranger.platter, store: stranger.store.clone(), lost_sectors: 0, is_readable: false };
            if let Some(header) = stranger.header
                && let Ok(file) = disks.find(&PlatterPlace { platter: stranger.platter, store: stranger.store.clone() })
            {
                let drive = ReadDrive::load(stranger.platter, header.geometry, file.file);
                found.lost_sectors = self.count_lost_sectors(&drive);
                found.is_readable = true;
            }
            self.report.unknown.push(found);
        }
        Ok(())
    }

    /// Reports unlisted versions and unseen places.
    pub(super) fn unlisted(&mut self) -> Result<(), ArchiveError> {
        let Self { archive, watcher, report, .. } = self;
        let mut found = Vec::new();
        each_unlisted(archive, &mut |version| match version.why {
            Unlisted::UnseenStore => report.unseen.extend(UnseenPlace::of(version)),
            Unlisted::OutOfSight | Unlisted::NoKey => found.push(version.clone()),
            _ => {
                report.unlisted += 1;
                watcher.trouble(Trouble::Unlisted { version, key_is_back: false });
            }
        })?;
        for mut version in found {
            let key_is_back = version.why == Unlisted::NoKey && archive.keys().get(version.id)?.is_some();
            if !key_is_back && !report.unseen.is_empty() {
                // A tombstone in an unseen place may have removed it.
                version.why = Unlisted::OutOfSight;
            } else {
                report.unlisted += 1;
            }
            watcher.trouble(Trouble::Unlisted { version: &version, key_is_back });
        }
        Ok(())
    }

    /// Reads all tracks of a platter and counts the lost sectors.
    fn count_lost_sectors(&mut self, drive: &ReadDrive) -> u64 {
        let geometry = drive.geometry();
        let mut track = Track::new(geometry);
        let mut lost = 0;
        for group in (0..geometry.groups()).map(|index| geometry.group(index)) {
            for physical in group.information_tracks().chain(group.redundancy_tracks()) {
                lost += match drive.read(physical, &mut track) {
                    Ok(Rebuilt::Nothing) => 0,
                    Ok(Rebuilt::ByTrack { sectors }) => sectors as u64,
                    Err(lost) => lost.sectors as u64,
                };
                self.report.bytes += geometry.track_stride() as u64;
                self.watcher.done(0, geometry.track_stride() as u64);
            }
        }
        lost
    }
}
