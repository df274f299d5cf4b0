//! Platters on the stores that the catalogue doesn't know: a sign that the catalogue is an old
//! copy.

use std::collections::HashSet;

use fulgurite_domain::PlatterId;
use fulgurite_format::Header;
use fulgurite_glass::{ReadDrive, Rebuilt, Track};
use serde::{Deserialize, Serialize};

use super::UnseenPlace;
use crate::archive::{Archive, ArchiveError};
use crate::catalogue::{NOWHERE, PlatterPlace, PlatterRow, SetState, Unlisted};
use crate::scrub::ScrubReport;
use crate::tables::read_header;
use crate::watch::{Trouble, Watcher};

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

/// A platter of this archive that the catalogue doesn't know.
#[derive(Debug, Clone)]
pub(crate) struct Stranger {
    pub(crate) platter: PlatterId,
    pub(crate) store: String,
    /// `None` if no header can be read; the platter's archive is unknown then.
    pub(crate) header: Option<Header>,
}

/// Differences between the stores and the catalogue.
pub(crate) struct Compared {
    /// Platters found on stores but not in the catalogue.
    pub(crate) strangers: Vec<Stranger>,
    /// Platters of complete sets found only in the catalogue, if all stores that may hold them
    /// could be listed.
    pub(crate) missing: HashSet<PlatterId>,
}

impl Archive {
    /// Platters on the stores that the catalogue doesn't know, except those of other archives and
    /// those omitted by a rebuild. Skips stores that are absent or can't be listed.
    pub(crate) fn strangers(&self) -> Result<Vec<Stranger>, ArchiveError> {
        Ok(self.compare_stores()?.strangers)
    }

    /// Lists the stores and compares them with the catalogue.
    pub(crate) fn compare_stores(&self) -> Result<Compared, ArchiveError> {
        let disks = self.disks();
        // The order matters. A set begun in between is in the catalogue before its platters are on
        // stores; a complete set is on the stores before the catalogue lists it as complete.
        let complete: Vec<PlatterRow> = self.catalogue().platters()?.into_iter().filter(|row| row.state == SetState::Complete).collect();
        let found: Vec<_> = disks.there().map(|(name, store)| (name, store, store.list())).collect();
        let known: HashSet<PlatterId> = self.catalogue().platters()?.into_iter().map(|row| row.place.platter).collect();
        let there: HashSet<PlatterId> = found.iter().flat_map(|(_, _, listed)| listed.iter().flatten().copied()).collect();
        let is_listed = |store: &str| found.iter().any(|(name, _, listed)| *name == store && listed.is_ok());
        let all_listed = disks.all_away().is_empty() && found.iter().all(|(_, _, listed)| listed.is_ok());
        let is_missing = |row: &PlatterRow| {
            let may_be_elsewhere = row.place.store == NOWHERE && disks.has_unknown();
            !may_be_elsewhere
                && !there.contains(&row.place.platter)
                && known.contains(&row.place.platter)
                && (all_listed || is_listed(&row.place.store))
        };
        let missing = complete.iter().filter(|row| is_missing(row)).map(|row| row.place.platter).collect();
        let mut strangers = Vec::new();
        for (name, store, listed) in found {
            let listed = listed.unwrap_or_default();
            for platter in listed {
                if known.contains(&platter) || self.catalogue().is_left_out(platter)? {
                    continue;
                }
                let header = read_header(&**store, platter).ok();
                if header.as_ref().is_none_or(|header| header.archive == self.id()) {
                    strangers.push(Stranger { platter, store: name.to_owned(), header });
                }
            }
        }
        Ok(Compared { strangers, missing })
    }

    /// Fails if the stores have platters that the catalogue doesn't know. New versions would get
    /// numbers that unknown versions already have.
    pub(crate) fn refuse_strangers(&self) -> Result<(), ArchiveError> {
        let strangers = self.strangers()?;
        let mut ours = strangers.iter().filter(|stranger| stranger.header.is_some());
        let Some(first) = ours.next() else { return Ok(()) };
        Err(ArchiveError::UnknownPlatters { platters: 1 + ours.count() as u64, first: first.platter, store: first.store.clone() })
    }
}

impl Archive {
    /// Reads the platters that the catalogue doesn't know, without changing them, and adds the
    /// results to `report`.
    pub(crate) fn read_strangers(&self, report: &mut ScrubReport, watcher: &dyn Watcher) -> Result<(), ArchiveError> {
        let strangers = self.strangers()?;
        if !strangers.is_empty() {
            watcher.stage("reading platters that the catalogue doesn't know", None);
        }
        let disks = self.disks();
        for stranger in strangers {
            let mut found =
                UnknownPlatter { platter: stranger.platter, store: stranger.store.clone(), lost_sectors: 0, is_readable: false };
            if let Some(header) = stranger.header
                && let Ok(file) = disks.find(&PlatterPlace { platter: stranger.platter, store: stranger.store.clone() })
            {
                let drive = ReadDrive::load(stranger.platter, header.geometry, file.file);
                found.lost_sectors = lost_sectors(&drive, report, watcher);
                found.is_readable = true;
            }
            report.unknown.push(found);
        }
        Ok(())
    }

    /// Adds unlisted versions and unseen places to `report`.
    pub(crate) fn read_unlisted(&self, report: &mut ScrubReport, watcher: &dyn Watcher) -> Result<(), ArchiveError> {
        let mut found = Vec::new();
        self.each_unlisted(&mut |version| match version.why {
            Unlisted::UnseenStore => report.unseen.extend(UnseenPlace::of(version)),
            Unlisted::OutOfSight | Unlisted::NoKey => found.push(version.clone()),
            _ => {
                report.unlisted += 1;
                watcher.trouble(Trouble::Unlisted { version, key_is_back: false });
            }
        })?;
        for mut version in found {
            let key_is_back = version.why == Unlisted::NoKey && self.keys().get(version.id)?.is_some();
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
}

/// Reads all tracks of a platter and counts the lost sectors.
fn lost_sectors(drive: &ReadDrive, report: &mut ScrubReport, watcher: &dyn Watcher) -> u64 {
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
            report.bytes += geometry.track_stride() as u64;
            watcher.done(0, geometry.track_stride() as u64);
        }
    }
    lost
}
