//! What the catalogue does not list: unlisted versions, unseen places and unknown platters.

use std::convert::Infallible;
use std::sync::Arc;

use fulgurite_domain::PlatterId;
use serde::{Deserialize, Serialize};

use super::reading::read_tracks;
use super::{PlatterFinding, Scrub};
use crate::archive::{Archive, ArchiveError};
use crate::catalogue::{PlatterPlace, SetDescription, UNKNOWN_STORE, Unlisted};
use crate::rebuild::{UnseenPlace, each_unlisted};
use crate::set_reader::{OpenSet, SetReader};
use crate::store_snapshot::StoreSnapshot;
use crate::tables::{HeaderTrouble, read_header, read_table};
use crate::uncatalogued::{UncataloguedPlatter, find_uncatalogued};
use crate::unread::Loaded;
use crate::watch::{Trouble, Unwatched};

/// A platter on a store that the catalogue doesn't know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnknownPlatter {
    /// The platter.
    #[serde(with = "crate::as_text")]
    pub platter: PlatterId,
    /// The store it is on.
    pub store: String,
    /// Lost sectors, including those of group redundancy tracks, but not sectors that the system
    /// refused to read.
    pub lost_sectors: u64,
    /// Sectors that the system refused to read.
    pub unreadable: u64,
    /// Why nothing of it can be read. Without a readable header, it may belong to another archive,
    /// or be no platter at all.
    pub why_unreadable: Option<String>,
    /// True if that is because the system refuses to read it.
    #[serde(default)]
    pub is_refused: bool,
}

impl Scrub<'_> {
    /// Reads the platters that the catalogue doesn't know, without changing them.
    pub(super) fn find_uncatalogued(&mut self) -> Result<(), ArchiveError> {
        let uncatalogued = find_uncatalogued(self.archive)?;
        if !uncatalogued.is_empty() {
            self.watcher.stage("reading platters that the catalogue doesn't know", None);
        }
        let snapshot = StoreSnapshot::take(self.archive);
        for found in uncatalogued {
            let UncataloguedPlatter { platter, store, header } = found;
            let mut unknown =
                UnknownPlatter { platter, store: store.clone(), lost_sectors: 0, unreadable: 0, why_unreadable: None, is_refused: false };
            let found = header.and_then(|header| {
                // It may have disappeared since the stores were listed.
                let found = snapshot.find(&PlatterPlace { platter, store }).map_err(|why| HeaderTrouble::Unreadable(why.to_string()))?;
                Ok((header, found))
            });
            match found {
                Ok((header, found)) => {
                    let set = SetDescription::of(&header, |_| unknown.store.clone());
                    let mut finding = PlatterFinding::new(&set, header.position);
                    let loaded = Loaded::new(platter, header.geometry, found.file, &found.store);
                    let again = || {
                        let found = StoreSnapshot::take(self.archive).find(&set.platters[usize::from(header.position)]).ok()?;
                        Some(Loaded::new(platter, header.geometry, found.file, &found.store))
                    };
                    let bytes = read_tracks(&loaded, &set, &mut finding, &again, self.watcher)?;
                    self.report.bytes += set.stored_bytes(bytes);
                    unknown.lost_sectors = finding.lost_sectors;
                    unknown.unreadable = finding.unreadable;
                }
                Err(why) => {
                    unknown.is_refused = matches!(why, HeaderTrouble::Unreadable(_));
                    unknown.why_unreadable = Some(why.to_string());
                }
            }
            self.report.unknown.push(unknown);
        }
        Ok(())
    }

    pub(super) fn unlisted(&mut self) -> Result<(), ArchiveError> {
        let Self { archive, watcher, report, .. } = self;
        let mut found = Vec::new();
        each_unlisted(archive, &mut |version| match version.why {
            Unlisted::UnseenStore => report.unseen.extend(UnseenPlace::of(version)),
            Unlisted::OutOfSight | Unlisted::NoKey | Unlisted::UnreadableTable => found.push(version.clone()),
            _ => {
                report.unlisted += 1;
                watcher.trouble(Trouble::Unlisted { version, is_back: false });
            }
        })?;
        for mut version in found {
            let is_back = match version.why {
                Unlisted::NoKey => archive.keys().get(version.id)?.is_some(),
                Unlisted::UnreadableTable => table_is_readable(archive, PlatterId(version.id.0)),
                _ => false,
            };
            if !is_back && version.why != Unlisted::UnreadableTable && !report.unseen.is_empty() {
                // A tombstone in an unseen place may have removed it.
                version.why = Unlisted::OutOfSight;
            } else {
                report.unlisted += 1;
            }
            watcher.trouble(Trouble::Unlisted { version: &version, is_back });
        }
        Ok(())
    }
}

/// True if a store has the platter, and its file table can be read, with the help of its set.
fn table_is_readable(archive: &Archive, platter: PlatterId) -> bool {
    let snapshot = StoreSnapshot::take(archive);
    let Some(header) = snapshot.readable().find_map(|(_, store)| read_header(&**store, platter).ok()) else { return false };
    let set = SetDescription::of(&header, |_| UNKNOWN_STORE.to_owned());
    let mut reader = SetReader::new(&archive.rebuilding, archive.threads());
    reader.open(Arc::new(OpenSet::for_verification(archive, &set)));
    read_table(&mut reader, &header, &Unwatched, &mut |_| Ok::<(), Infallible>(())).is_ok()
}
