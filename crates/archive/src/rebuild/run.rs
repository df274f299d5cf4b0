//! The course of a rebuild.

use std::collections::{BTreeMap, HashMap, HashSet};

use fulgurite_domain::{PlatterId, SetId, VersionId};

use super::earlier::{Earlier, EarlierSets, OldCopies};
use super::platters::{FoundSet, SetlessPlatter};
use super::staging::scan_staging;
use super::unseen::{Unseen, UnseenPlace, note_unseen, surplus_keys, unseen_places, unseen_stores};
use super::{RebuildReport, each_unlisted};
use crate::archive::{Archive, ArchiveError};
use crate::catalogue::{
    ArchivedVersion, Change, FoundVersion, NewVersion, SegmentEnd, StagedTombstone, UNKNOWN_STORE, Unlisted, UnlistedVersion,
};
use crate::remove::restage;
use crate::tables::HeaderTrouble;
use crate::watch::{Trouble, Watcher};

pub(super) struct Rebuild<'a> {
    pub(super) archive: &'a Archive,
    pub(super) watcher: &'a dyn Watcher,
    pub(super) report: RebuildReport,
    /// Segments in staging, except old copies of released ones.
    pub(super) segments: Vec<u64>,
    /// Segments with damaged places, and how many of their bytes are damaged.
    pub(super) damaged_segments: BTreeMap<u64, u64>,
    /// File tables that the earlier catalogue lists as unreadable, and whether it lists nothing
    /// else that it couldn't open, so that it lists all that it knew.
    pub(super) unreadable_tables: HashSet<PlatterId>,
    pub(super) lists_all: bool,
    /// Unreadable file tables of which the earlier catalogue lists the content.
    pub(super) known_tables: Vec<UnlistedVersion>,
    /// Removed versions, with the segment of their tombstone; 0 if it is in no segment.
    pub(super) tombstones: HashMap<VersionId, u64>,
    /// Versions found only in doubtful sets so far.
    pub(super) only_in_doubtful: HashSet<VersionId>,
    /// Doubtful sets that contain versions found nowhere else.
    pub(super) needed_sets: HashSet<SetId>,
    /// Platters of unknown sets that may be good although their header was not read: the system
    /// refused, or they are in a file with another platter's name.
    pub(super) may_be_good: HashSet<PlatterId>,
    /// Versions of which parts were found so far.
    pub(super) partial: HashMap<VersionId, ArchivedVersion>,
    /// Removed versions that staging or file tables still list.
    pub(super) deleted: HashSet<VersionId>,
    /// Removed versions whose tombstone is in no segment and, so far, on no platter.
    pub(super) unlocated: HashSet<VersionId>,
    /// Tombstones on platters, to be handed to the catalogue.
    pub(super) archived_tombstones: Vec<(VersionId, SetId)>,
    pub(super) batch: Vec<FoundVersion>,
    pub(super) unlisted: Vec<UnlistedVersion>,
}

impl<'a> Rebuild<'a> {
    pub(super) fn new(archive: &'a Archive, unseen: Option<Unseen>, watcher: &'a dyn Watcher) -> Self {
        let unseen = unseen_stores(archive).into_iter().map(Unseen::from).chain(unseen).collect();
        Self {
            archive,
            watcher,
            report: RebuildReport { unseen, ..RebuildReport::default() },
            segments: Vec::new(),
            damaged_segments: BTreeMap::new(),
            unreadable_tables: HashSet::new(),
            lists_all: false,
            known_tables: Vec::new(),
            tombstones: HashMap::new(),
            only_in_doubtful: HashSet::new(),
            needed_sets: HashSet::new(),
            may_be_good: HashSet::new(),
            partial: HashMap::new(),
            deleted: HashSet::new(),
            unlocated: HashSet::new(),
            archived_tombstones: Vec::new(),
            batch: Vec::new(),
            unlisted: Vec::new(),
        }
    }

    pub(super) fn run(mut self, earlier: &mut Earlier<'_>) -> Result<RebuildReport, ArchiveError> {
        self.watcher.stage("reading staging", None);
        let (unlisted, spare_copies, known) = self.read_staging(earlier)?;
        self.watcher.stage("reading headers", None);
        let sets = self.look_for_sets(&known, earlier)?;
        let others = earlier.query(unseen_places);
        let had_others = others.map_or(earlier.catalogue.is_some(), |places| places.contains(&UnseenPlace::Others));
        if had_others && sets.iter().any(|found| found.missing > 0) {
            let why = "platters of some sets are on no store, as when the archive was attached".to_owned();
            self.report.add_others(why);
        }
        self.read_platters(&sets, unlisted)?;
        self.adopt_unknown(spare_copies)?;
        self.keep_tombstones()?;
        if earlier.catalogue.is_some() && !earlier.is_damaged {
            self.watcher.stage("comparing with the earlier catalogue", None);
            earlier.read(|earlier| self.carry_over(earlier))?;
        }
        if earlier.catalogue.is_none() || earlier.is_damaged {
            // What it lists was not all carried over.
            self.report.lost_tables += self.known_tables.len() as u64;
            self.archive.catalogue().adopt_unlisted(&self.known_tables)?;
            self.unlist_damaged_segments()?;
        }
        if self.are_explained(&sets, earlier)? {
            // Only incomplete sets can be the reason so far.
            self.report.unseen.retain(|unseen| unseen.place != UnseenPlace::Others);
        }
        self.leave_out(sets.iter().filter(|found| found.is_doubtful() && !self.needed_sets.contains(&found.description.id)))?;
        self.report.deleted = self.deleted.len() as u64;
        self.destroy_keys_of_removed()?;
        // Keys newer than all that the earlier catalogue knew belong to what was put since.
        let knew_all = !had_others && !earlier.is_damaged;
        let newest = if knew_all { earlier.query(|earlier| earlier.newest_id()).flatten() } else { None };
        self.report.surplus_keys = surplus_keys(self.archive, newest, earlier)?;
        if self.report.surplus_keys > 0 {
            self.report.add_others(surplus_text(self.report.surplus_keys));
        }
        note_unseen(self.archive, &self.report)?;
        self.report_unlisted()?;
        self.record_segment_ends()?;
        Ok(self.report)
    }

    /// Reads the segments, and what the earlier catalogue tells about them. Returns the versions
    /// that can't be listed, those in old copies of released segments that count only if they are
    /// on no platter, and the sets that the earlier catalogue knew.
    fn read_staging(&mut self, earlier: &mut Earlier<'_>) -> Result<(Vec<UnlistedVersion>, Vec<NewVersion>, EarlierSets), ArchiveError> {
        let existing = self.archive.staging().segments()?;
        let old = earlier.read(|earlier| self.carry_released(earlier, &existing))?.unwrap_or_default();
        self.segments = existing.into_iter().filter(|segment| old.binary_search(segment).is_err()).collect();
        let (archive, watcher, segments) = (self.archive, self.watcher, self.segments.clone());
        let scanned = scan_staging(archive, &segments, &|_, _| true, watcher, &mut |version| self.adopt_staged(version))?;
        self.tombstones = scanned.tombstones;
        self.damaged_segments = scanned.damaged;
        let mut known = earlier.query(|earlier| self.removals_and_sets(earlier)).unwrap_or_default();
        self.unlocated = std::mem::take(&mut known.unlocated);
        self.unreadable_tables = std::mem::take(&mut known.unreadable_tables);
        self.lists_all = known.lists_all;
        let OldCopies { needed, spare_copies } = earlier.read(|earlier| self.old_copies(earlier, &old))?.unwrap_or_default();
        needed.into_iter().try_for_each(|version| self.adopt_staged(version))?;
        Ok((scanned.unlisted, spare_copies, known))
    }

    /// Finds the sets on the stores. Those that the earlier catalogue ignores count as unfinished.
    /// A platter whose set isn't known may be all that is left of it: unless the earlier catalogue
    /// ignores the platter, or knows its set and is whole, its store counts as unseen.
    fn look_for_sets(&mut self, known: &EarlierSets, earlier: &mut Earlier<'_>) -> Result<Vec<FoundSet>, ArchiveError> {
        let is_whole = earlier.catalogue.is_some() && !earlier.is_damaged;
        let mut is_left_out = |platter| earlier.query(|earlier| earlier.is_left_out(platter)).unwrap_or_default();
        let (mut sets, setless) = self.find_sets(known);
        for found in &mut sets {
            if found.description.platters.iter().any(|place| is_left_out(place.platter)) {
                (found.was_writing, found.was_left_out) = (true, true);
            }
        }
        for SetlessPlatter { platter, store, trouble } in setless {
            match trouble {
                HeaderTrouble::Unreadable(_) => _ = self.may_be_good.insert(platter),
                HeaderTrouble::Misnamed { platter, .. } => _ = self.may_be_good.insert(platter),
                HeaderTrouble::Bad(_) => {}
            }
            match is_left_out(platter) {
                true => self.archive.catalogue().leave_out(&[platter])?,
                // The set is carried over.
                false if is_whole && known.places.contains_key(&platter) => {}
                false => self.report.add_unread_platter(store, format!("platter {platter}: {trouble}")),
            }
        }
        Ok(sets)
    }

    /// True if the missing platters of all sets were never written: the earlier catalogue is whole
    /// and was writing these sets, and everything that it knew was found elsewhere. If it is a copy
    /// that was made before such a set was complete, staging lacks what is on the set. Then the set
    /// is needed, or versions can't be listed.
    fn are_explained(&self, sets: &[FoundSet], earlier: &Earlier<'_>) -> Result<bool, ArchiveError> {
        let was_cut_off = |found: &FoundSet| found.was_staged && found.is_doubtful() && !self.needed_sets.contains(&found.description.id);
        let is_whole = earlier.catalogue.is_some() && !earlier.is_damaged && self.lists_all;
        if !is_whole || !sets.iter().filter(|found| found.missing > 0).all(was_cut_off) {
            return Ok(false);
        }
        let mut has_all = true;
        each_unlisted(self.archive, &mut |version| {
            has_all &= !matches!(version.why, Unlisted::Gone | Unlisted::OutOfSight | Unlisted::Incomplete);
        })?;
        Ok(has_all)
    }

    /// Records the damaged segments: without an earlier catalogue, nothing tells which versions
    /// were in the damaged places. The rows also keep the segments.
    fn unlist_damaged_segments(&self) -> Result<(), ArchiveError> {
        let damaged = self.damaged_segments.iter().map(|(&segment, &stored_bytes)| UnlistedVersion {
            stored_bytes,
            segments: vec![segment],
            ..UnlistedVersion::new(damaged_segment_id(segment), Unlisted::Incomplete)
        });
        let damaged: Vec<_> = damaged.filter(|version| !self.tombstones.contains_key(&version.id)).collect();
        for segment in damaged.iter().flat_map(|version| &version.segments) {
            let text = format!(
                "versions that no catalogue lists may be lost in the damaged places of staging segment {segment:016x}; puts that a crash cut \
                 short leave such places, too. The segment is kept until you run `fulgurite catalogue forget {}`",
                damaged_segment_id(*segment)
            );
            self.watcher.trouble(Trouble::Note(&text));
        }
        Ok(self.archive.catalogue().adopt_unlisted(&damaged)?)
    }

    /// Records the tombstones in staging. Stages those again whose set, or staging folder, is gone
    /// or was not seen.
    fn keep_tombstones(&self) -> Result<(), ArchiveError> {
        let staged = self.tombstones.iter().filter(|(_, segment)| **segment > 0);
        let tombstones = staged.map(|(&id, &segment)| StagedTombstone { id, segment }).collect();
        self.archive.catalogue().commit(&Change { tombstones, ..Change::default() })?;
        let unlocated: Vec<VersionId> = self.unlocated.iter().copied().collect();
        restage(self.archive, &unlocated)
    }

    /// Records the platters of sets that were never finished, unless an unseen store may hold the
    /// missing platters.
    fn leave_out<'f>(&self, sets: impl Iterator<Item = &'f FoundSet>) -> Result<(), ArchiveError> {
        for found in sets {
            let members = found.header.members.len();
            let why = match self.report.unseen.is_empty() {
                true => "it was never finished, or its content was removed",
                false => "the other platters may be on stores that this rebuild could not read, or the set was never finished",
            };
            let text = format!(
                "set {} has {} of its {members} platters, and no version needs it: {why}. The catalogue omits it",
                found.description.id,
                members - found.missing,
            );
            self.watcher.trouble(Trouble::Note(&text));
            if self.report.unseen.is_empty() {
                let found_platters = found.description.platters.iter().filter(|place| place.store != UNKNOWN_STORE);
                let platters: Vec<_> = found_platters.map(|place| place.platter).collect();
                self.archive.catalogue().leave_out(&platters)?;
            }
        }
        Ok(())
    }

    /// Destroys keys that were imported while the tombstones of their versions were unreadable.
    fn destroy_keys_of_removed(&self) -> Result<(), ArchiveError> {
        let mut back = Vec::new();
        for &id in self.tombstones.keys() {
            if self.archive.keys().get(id)?.is_some() {
                back.push(id);
            }
        }
        if !back.is_empty() {
            self.archive.keys().destroy(&back)?;
        }
        Ok(())
    }

    fn report_unlisted(&mut self) -> Result<(), ArchiveError> {
        let Self { archive, watcher, report, .. } = self;
        let sees_all = report.unseen.is_empty();
        each_unlisted(archive, &mut |version| {
            let mut out_of_sight = None;
            match version.why {
                Unlisted::NoKey => {
                    report.no_key += 1;
                    // A tombstone in an unseen place may have removed it.
                    out_of_sight = (!sees_all).then(|| UnlistedVersion { why: Unlisted::OutOfSight, ..version.clone() });
                }
                Unlisted::UnreadableRecord | Unlisted::Incomplete => report.incomplete += 1,
                Unlisted::Gone => report.gone += 1,
                Unlisted::OutOfSight => {}
                Unlisted::UnreadableTable | Unlisted::UnseenStore => return,
            }
            watcher.trouble(Trouble::Unlisted { version: out_of_sight.as_ref().unwrap_or(version), is_back: false });
        })
    }

    fn record_segment_ends(&self) -> Result<(), ArchiveError> {
        let used = self.archive.catalogue().segments_in_use()?;
        let end = |segment: u64| Ok(SegmentEnd { segment, bytes: self.archive.staging().length(segment)? });
        let ends = used.into_iter().map(end).collect::<Result<_, ArchiveError>>()?;
        Ok(self.archive.catalogue().commit(&Change { ends, ..Change::default() })?)
    }
}

/// Identifies a [damaged segment](UnlistedVersion::damaged_segment) among the unlisted versions.
pub(super) fn damaged_segment_id(segment: u64) -> VersionId {
    VersionId::new(segment, [0; 10])
}

fn surplus_text(keys: u64) -> String {
    let keys = match keys {
        1 => "1 key belongs to a version".to_owned(),
        keys => format!("{keys} keys belong to versions"),
    };
    format!(
        "{keys} of which nothing was found. Are there other stores, or a staging folder? Puts that a crash cut short leave such keys, \
         too; if nothing is missing, run `fulgurite catalogue forget --unseen`"
    )
}
