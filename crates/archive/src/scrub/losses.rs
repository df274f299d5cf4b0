//! Finds the versions that lost bytes of a set belong to.

use std::collections::{BTreeMap, BTreeSet};

use fulgurite_domain::{Geometry, PlatterId, TrackIndex};
use fulgurite_glass::Track;

use super::misnamed::has_one_of;
use super::{PAGE, PlatterFinding, Scrub};
use crate::archive::ArchiveError;
use crate::catalogue::Extent;
use crate::paging::Pager;
use crate::set_reader::{OpenSet, SetReader};
use crate::unread::{Hindrance, Unreachable, Unread};

/// Content sectors of a set, by platter and track.
struct ContentSectors {
    geometry: Geometry,
    sectors: BTreeMap<(PlatterId, TrackIndex), Vec<u16>>,
}

impl ContentSectors {
    fn new(geometry: Geometry) -> Self {
        Self { geometry, sectors: BTreeMap::new() }
    }

    fn insert(&mut self, platter: PlatterId, track: TrackIndex, sectors: Vec<u16>) {
        if !sectors.is_empty() {
            self.sectors.insert((platter, track), sectors);
        }
    }

    fn platters(&self) -> BTreeSet<PlatterId> {
        self.sectors.keys().map(|(platter, _)| *platter).collect()
    }

    fn has_some_of(&self, extent: &Extent) -> bool {
        let (bytes, in_track) = (u64::from(self.geometry.sector_bytes), u64::from(self.geometry.track_information));
        extent.bytes > 0
            && (extent.offset / bytes..(extent.offset + extent.bytes).div_ceil(bytes)).any(|sector| {
                let track = TrackIndex((sector / in_track) as u32);
                self.sectors.get(&(extent.platter, track)).is_some_and(|sectors| sectors.contains(&((sector % in_track) as u16)))
            })
    }
}

struct Losses {
    lost: ContentSectors,
    out_of_reach: ContentSectors,
    reason: Option<Unreachable>,
}

impl Losses {
    /// Reads, with all codes, the tracks whose content the findings leave in doubt. `findings` are
    /// those of all platters of the set; `some_misnamed` says that one of them is under a wrong
    /// name.
    fn find(set: &OpenSet, findings: &[PlatterFinding], some_misnamed: bool, reader: &mut SetReader<'_>) -> Self {
        let (shape, geometry) = (set.description.shape, set.description.geometry);
        let sectors = usize::from(geometry.track_information);
        let lost_at = |finding: &PlatterFinding, track: TrackIndex| match finding.unavailable {
            Some(_) => sectors,
            None => finding.lost.get(&track).map_or(0, Vec::len),
        };
        let mut losses = Self { lost: ContentSectors::new(geometry), out_of_reach: ContentSectors::new(geometry), reason: None };
        let mut track = Track::new(geometry);
        for index in (0..geometry.information_tracks).map(TrackIndex) {
            let all: usize = findings.iter().map(|finding| lost_at(finding, index)).sum();
            if all == 0 || all <= usize::from(shape.redundancy) * sectors {
                // The set's code can rebuild any pattern of that size.
                continue;
            }
            let information = &findings[..usize::from(shape.information)];
            for finding in information.iter().filter(|finding| lost_at(finding, index) > 0) {
                let Err(unread) = reader.track(set, finding.position, index, &mut track) else { continue };
                let member = &set.members[usize::from(finding.position)];
                let missing_sectors = (0..geometry.track_information).filter(|&sector| track.is_lost(sector));
                let can_come_back = |sector: &u16| match &unread {
                    Unread::Lost(_) => some_misnamed || member.may_have(geometry.physical(index), *sector),
                    Unread::Unreachable(_) => true,
                };
                let (may_be_fine, lost): (Vec<u16>, Vec<u16>) = missing_sectors.partition(can_come_back);
                losses.lost.insert(finding.platter, index, lost);
                losses.out_of_reach.insert(finding.platter, index, may_be_fine);
                if let Unread::Unreachable(unreachable) = unread {
                    losses.reason.get_or_insert(unreachable);
                }
            }
        }
        losses
    }
}

impl Scrub<'_> {
    /// Determines which versions have lost bytes for good and which can't be read now, and reports
    /// each. Returns whether content of the set is lost, of versions or not.
    pub(super) fn report_lost(
        &mut self,
        set: &OpenSet,
        findings: &[PlatterFinding],
        reader: &mut SetReader<'_>,
    ) -> Result<bool, ArchiveError> {
        let information = &findings[..usize::from(set.description.shape.information)];
        if information.iter().all(|finding| finding.unavailable.is_none() && finding.lost.is_empty()) {
            return Ok(false);
        }
        self.watcher.stage("checking for lost versions", None);
        let some_misnamed = has_one_of(&self.report.misnamed, &set.description);
        let Losses { lost, out_of_reach, reason } = Losses::find(set, findings, some_misnamed, reader);
        let platters: Vec<PlatterId> = set.description.platters.iter().map(|place| place.platter).collect();
        let affected: Vec<PlatterId> = lost.platters().union(&out_of_reach.platters()).copied().collect();
        if affected.is_empty() {
            return Ok(false);
        }
        let reason = reason.unwrap_or_else(|| set.unreachable(0));
        let (hindrance, why) = match some_misnamed {
            true => (Hindrance::Unreadable, "a platter that it needs is under a wrong name".to_owned()),
            false => (reason.hindrance(), reason.to_string()),
        };
        let mut pages = Pager::default();
        while let Some(page) = pages.next(|after| self.archive.catalogue().versions_on(&affected, after, PAGE))? {
            for row in page.iter().filter(|row| row.archived) {
                let extents = self.archive.catalogue().extents(row.row_id)?;
                let only_here = extents.iter().all(|extent| platters.contains(&extent.platter));
                if extents.iter().any(|extent| lost.has_some_of(extent)) {
                    if only_here || self.report.lost_in_several_sets.insert(row.row_id) {
                        let why = "its sectors are lost: neither track, large group nor platter-set can rebuild them";
                        self.report_version(row, None, why);
                    }
                } else if extents.iter().any(|extent| out_of_reach.has_some_of(extent))
                    && (only_here || self.report.out_of_reach_in_several_sets.insert(row.row_id))
                {
                    self.report_version(row, Some(hindrance), &why);
                }
            }
        }
        Ok(!lost.platters().is_empty())
    }
}
