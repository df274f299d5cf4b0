//! Platters that lie on the stores and that the catalogue doesn't know: the sign of a catalogue that is an old copy.

use std::collections::HashSet;

use fulgurite_domain::PlatterId;
use fulgurite_format::Header;
use fulgurite_glass::{ReadDrive, Rebuilt, Track};
use serde::{Deserialize, Serialize};

use super::UnseenPlace;
use crate::archive::{Archive, ArchiveError};
use crate::catalogue::{PlatterPlace, PlatterRow, SetState, Unlisted};
use crate::scrub::ScrubReport;
use crate::tables::read_header;
use crate::watch::{Trouble, Watcher};

/// A platter that lies on a store and that the catalogue doesn't know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnknownPlatter {
    /// The platter.
    #[serde(with = "crate::as_text")]
    pub platter: PlatterId,
    /// The store it is on.
    pub store: String,
    /// Sectors that are lost, group redundancy tracks included.
    pub lost_sectors: u64,
    /// Whether a header says how to read it.
    pub is_readable: bool,
}

/// A platter of this archive that the catalogue doesn't know.
#[derive(Debug, Clone)]
pub(crate) struct Stranger {
    pub(crate) platter: PlatterId,
    pub(crate) store: String,
    /// Its header; none if it can't be read, so that nobody can tell whose platter it is.
    pub(crate) header: Option<Header>,
}

/// How the stores differ from the catalogue.
pub(crate) struct Compared {
    /// Platters that only stores know.
    pub(crate) strangers: Vec<Stranger>,
    /// Platters of complete sets that only the catalogue knows, where all stores they may be on could be listed.
    pub(crate) missing: HashSet<PlatterId>,
}

impl Archive {
    /// Platters on the stores that the catalogue doesn't know, those of other archives and those that a rebuild left out aside. Stores that are
    /// absent or can't be listed are not looked into.
    pub(crate) fn strangers(&self) -> Result<Vec<Stranger>, ArchiveError> {
        Ok(self.compare_stores()?.strangers)
    }

    /// Lists the stores, and compares them with the catalogue.
    pub(crate) fn compare_stores(&self) -> Result<Compared, ArchiveError> {
        let disks = self.disks();
        // In this order: a set that is begun between the two is in the catalogue before its platters are on stores, and one that is complete is on
        // them before the catalogue says so.
        let complete: Vec<PlatterRow> = self.catalogue().platters()?.into_iter().filter(|row| row.state == SetState::Complete).collect();
        let found: Vec<_> = disks.there().map(|(name, store)| (name, store, store.list())).collect();
        let known: HashSet<PlatterId> = self.catalogue().platters()?.into_iter().map(|row| row.place.platter).collect();
        let there: HashSet<PlatterId> = found.iter().flat_map(|(_, _, listed)| listed.iter().flatten().copied()).collect();
        let is_listed = |store: &str| found.iter().any(|(name, _, listed)| *name == store && listed.is_ok());
        let all_listed = disks.all_away().is_empty() && found.iter().all(|(_, _, listed)| listed.is_ok());
        let is_missing = |row: &PlatterRow| {
            !there.contains(&row.place.platter) && known.contains(&row.place.platter) && (all_listed || is_listed(&row.place.store))
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

    /// Refuses to go on with a catalogue that doesn't know all platters: what is put next would take numbers that other versions have.
    pub(crate) fn refuse_strangers(&self) -> Result<(), ArchiveError> {
        let strangers = self.strangers()?;
        let mut ours = strangers.iter().filter(|stranger| stranger.header.is_some());
        let Some(first) = ours.next() else { return Ok(()) };
        Err(ArchiveError::UnknownPlatters { platters: 1 + ours.count() as u64, first: first.platter, store: first.store.clone() })
    }
}

impl Archive {
    /// Reads the platters that the catalogue doesn't know, and adds what was found to `report`. They are left as they are.
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

    /// Adds to `report` what exists and can't be listed.
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
                // It may have been removed, by a tombstone that is where nobody looked.
                version.why = Unlisted::OutOfSight;
            } else {
                report.unlisted += 1;
            }
            watcher.trouble(Trouble::Unlisted { version: &version, key_is_back });
        }
        Ok(())
    }
}

/// Reads all tracks of a platter, and counts the sectors that are lost.
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
