//! Carries over what only the earlier catalogue knows, so that a rebuild never makes an archive
//! forget.

use std::collections::{HashMap, HashSet};

use fulgurite_domain::{PlatterId, SetId, VersionId};

use super::run::{Rebuild, damaged_segment_id};
use super::staging::scan_staging;
use super::{BATCH, UnseenPlace, lost_platters};
use crate::archive::ArchiveError;
use crate::catalogue::{
    ArchivedVersion, Catalogue, CatalogueError, FoundVersion, NewVersion, PlatterPlace, SetDescription, SetState, Unlisted,
    UnlistedVersion, VersionRow, Versions,
};
use crate::paging::Pager;
use crate::watch::{Trouble, Watcher};

/// The catalogue that the rebuild replaces, if there is one. Where it can't be read, the rebuild
/// goes on without.
pub(super) struct Earlier<'a> {
    pub(super) catalogue: Option<&'a mut dyn Catalogue>,
    watcher: &'a dyn Watcher,
    pub(super) is_damaged: bool,
}

impl<'a> Earlier<'a> {
    pub(super) fn new(catalogue: Option<&'a mut dyn Catalogue>, watcher: &'a dyn Watcher) -> Self {
        Self { catalogue, watcher, is_damaged: false }
    }

    /// Reads from the catalogue. `None` if that fails, or without an earlier catalogue.
    pub(super) fn query<T>(&mut self, query: impl FnOnce(&mut dyn Catalogue) -> Result<T, CatalogueError>) -> Option<T> {
        self.read(|earlier| query(earlier).map_err(Stopped::Earlier)).expect("only the earlier catalogue can fail")
    }

    /// Like [`query`](Self::query), with something else that can fail.
    pub(super) fn read<T>(&mut self, read: impl FnOnce(&mut dyn Catalogue) -> Result<T, Stopped>) -> Result<Option<T>, ArchiveError> {
        let Some(catalogue) = &mut self.catalogue else { return Ok(None) };
        match read(*catalogue) {
            Ok(read) => Ok(Some(read)),
            Err(Stopped::Archive(error)) => Err(error),
            Err(Stopped::Earlier(error)) => {
                note_unreadable(&error, self.watcher);
                self.is_damaged = true;
                Ok(None)
            }
        }
    }
}

pub(super) fn note_unreadable(error: &CatalogueError, watcher: &dyn Watcher) {
    let text = format!("can't read all of the earlier catalogue; entries found only there are not carried over: {error}");
    watcher.trouble(Trouble::Note(&text));
}

/// Why reading the earlier catalogue stopped: the new catalogue failed, or the earlier one did. The
/// latter doesn't end the rebuild.
pub(super) enum Stopped {
    Archive(ArchiveError),
    Earlier(CatalogueError),
}

impl From<ArchiveError> for Stopped {
    fn from(error: ArchiveError) -> Self {
        Self::Archive(error)
    }
}

/// What is read from an earlier catalogue before the platters.
#[derive(Default)]
pub(super) struct EarlierSets {
    pub(super) complete: HashSet<SetId>,
    /// The stores of the platters of these sets, if they are in the settings.
    pub(super) places: HashMap<PlatterId, String>,
    pub(super) writing: HashSet<SetId>,
    /// Platters whose file tables it lists as unreadable.
    pub(super) unreadable_tables: HashSet<PlatterId>,
    /// True if it lists all versions that it knew: none lacked its key, or couldn't be opened.
    pub(super) lists_all: bool,
    /// Versions whose tombstones are not in staging, and were not found on platters so far.
    pub(super) unlocated: HashSet<VersionId>,
}

/// Versions in old copies of released segments that the earlier catalogue lists.
#[derive(Default)]
pub(super) struct OldCopies {
    /// Versions on platters of sets that were damaged beyond repair.
    pub(super) needed: Vec<NewVersion>,
    /// The others, which count only if they are on no platter.
    pub(super) spare_copies: Vec<NewVersion>,
}

impl Rebuild<'_> {
    /// Records the earlier catalogue's list of released segments in the new one. Returns the
    /// released segments that exist again.
    pub(super) fn carry_released(&self, earlier: &mut dyn Catalogue, existing: &[u64]) -> Result<Vec<u64>, Stopped> {
        let mut from = 0;
        loop {
            let page = earlier.released(from, BATCH).map_err(Stopped::Earlier)?;
            let Some(last) = page.last() else { break };
            from = last.end() + 1;
            self.archive.catalogue().note_released(&page).map_err(ArchiveError::from)?;
        }
        earlier.segments_in_use().and_then(|used| earlier.old_segments(existing, &used)).map_err(Stopped::Earlier)
    }

    pub(super) fn old_copies(&self, earlier: &mut dyn Catalogue, segments: &[u64]) -> Result<OldCopies, Stopped> {
        let mut copies = OldCopies::default();
        if segments.is_empty() {
            return Ok(copies);
        }
        let text = format!("{} in staging were released before: only what is on no platter is taken from them", count_of(segments.len()));
        self.watcher.trouble(Trouble::Note(&text));
        let lost = lost_platters(earlier).map_err(Stopped::Earlier)?;
        let mut found = Vec::new();
        let scanned = scan_staging(self.archive, segments, &|_, _| true, self.watcher, &mut |version| {
            found.push(version);
            Ok(())
        })?;
        for version in found {
            if self.tombstones.contains_key(&version.id) || scanned.tombstones.contains_key(&version.id) {
                continue;
            }
            let Some(row) = earlier.version(&version.record.name, version.id).map_err(Stopped::Earlier)? else { continue };
            let extents = earlier.extents(row.row_id).map_err(Stopped::Earlier)?;
            match extents.iter().any(|extent| lost.contains(&extent.platter)) {
                true => copies.needed.push(version),
                false => copies.spare_copies.push(version),
            }
        }
        Ok(copies)
    }

    /// Adds the removals that the earlier catalogue knew to the tombstones, and returns what else
    /// is needed from it before platters are read.
    pub(super) fn removals_and_sets(&mut self, earlier: &mut dyn Catalogue) -> Result<EarlierSets, CatalogueError> {
        let mut known = EarlierSets::default();
        for tombstone in earlier.staged_tombstones()? {
            let is_there = self.segments.binary_search(&tombstone.segment).is_ok();
            self.tombstones.entry(tombstone.id).or_insert(if is_there { tombstone.segment } else { 0 });
            if !is_there {
                known.unlocated.insert(tombstone.id);
            }
        }
        let mut pages = Pager::default();
        while let Some(page) = pages.next(|after| earlier.archived_tombstones(after.copied(), BATCH))? {
            for (id, _) in page {
                if *self.tombstones.entry(id).or_insert(0) == 0 {
                    known.unlocated.insert(id);
                }
            }
        }
        known.lists_all = true;
        let mut pages = Pager::default();
        while let Some(page) = pages.next(|after| earlier.unlisted(after.copied(), BATCH))? {
            known.lists_all &= page.iter().all(|version| !matches!(version.why, Unlisted::NoKey | Unlisted::UnreadableRecord));
            let tables = page.iter().filter(|version| version.why == Unlisted::UnreadableTable);
            known.unreadable_tables.extend(tables.map(|table| PlatterId(table.id.0)));
        }
        for set in earlier.sets()? {
            let SetDescription { id, platters, .. } = set.description;
            match set.state {
                SetState::Complete => {
                    known.complete.insert(id);
                    let configured = platters.into_iter().filter(|place| self.archive.store(&place.store).is_some());
                    known.places.extend(configured.map(|place| (place.platter, place.store)));
                }
                SetState::Writing => _ = known.writing.insert(id),
            }
        }
        Ok(known)
    }

    /// Carries over what only the earlier catalogue knows: sets without any platter found, the
    /// versions on them, and versions whose record can't be opened now. Entries carried over before
    /// the earlier catalogue fails stay.
    pub(super) fn carry_over(&mut self, earlier: &mut dyn Catalogue) -> Result<(), Stopped> {
        let known: HashSet<SetId> =
            self.archive.catalogue().sets().map_err(ArchiveError::from)?.into_iter().map(|set| set.description.id).collect();
        let mut lost = Vec::new();
        for set in earlier.sets().map_err(Stopped::Earlier)? {
            if set.state == SetState::Complete && !known.contains(&set.description.id) {
                self.report.sets += 1;
                self.report.missing += set.description.platters.len() as u64;
                self.archive.catalogue().adopt_set(&set.description).map_err(ArchiveError::from)?;
                if let Some(gone) = self.count_gone(&set.description) {
                    lost.push((set.description, gone));
                }
            }
        }
        let mut needed = vec![false; lost.len()];
        let lost_platters: HashMap<PlatterId, usize> =
            lost.iter().enumerate().flat_map(|(index, (set, _))| set.platters.iter().map(move |place| (place.platter, index))).collect();
        // What was staged in a folder that is absent comes back with it.
        let misses_staging = self.report.unseen.iter().any(|unseen| unseen.place == UnseenPlace::Staging);
        let missed = if misses_staging { Unlisted::OutOfSight } else { Unlisted::Gone };
        let mut pages = Pager::default();
        while let Some(page) = pages.next(|after| earlier.list(b"", Versions::All, after, BATCH)).map_err(Stopped::Earlier)? {
            let (mut found, mut gone, mut listed) = (Vec::new(), Vec::new(), Vec::new());
            for row in page {
                let is_known = self.archive.catalogue().version(&row.record.name, row.id).map_err(ArchiveError::from)?.is_some();
                if is_known || self.tombstones.contains_key(&row.id) {
                    continue;
                }
                let id = row.id;
                let has_no_key = row.sealed && self.archive.keys().get(id).is_ok_and(|key| key.is_none());
                if has_no_key {
                    self.report.no_key += 1;
                    let why = "no key: it is not in the key store. `fulgurite keys import` brings keys back from a copy";
                    self.watcher.trouble(Trouble::unread(&row, None, why));
                }
                match found_version(earlier, row, &self.segments).map_err(Stopped::Earlier)? {
                    Ok(version) => {
                        match &version {
                            FoundVersion::Staged(staged) if !has_no_key => self.note_damaged(staged),
                            FoundVersion::Staged(_) => {}
                            FoundVersion::Archived(archived) => {
                                let on_lost = archived.extents.iter().filter_map(|extent| lost_platters.get(&extent.platter));
                                on_lost.for_each(|&index| needed[index] = true);
                            }
                        }
                        found.push(version);
                        listed.push(id);
                    }
                    Err(version) => gone.push(UnlistedVersion { why: missed, ..version }),
                }
            }
            self.report.carried_over += found.len() as u64;
            self.archive.catalogue().adopt_versions(&found).map_err(ArchiveError::from)?;
            self.archive.catalogue().forget_unlisted(&listed, &[]).map_err(ArchiveError::from)?;
            self.archive.catalogue().adopt_unlisted(&gone).map_err(ArchiveError::from)?;
        }
        // Old copies of staging may have brought back what was on the others.
        let lost = lost.iter().zip(needed).filter(|(_, is_needed)| *is_needed);
        lost.for_each(|((set, gone), _)| self.report_lost(set, *gone));
        self.carry_unlisted(earlier, missed)
    }

    /// How many platters of a set are gone, if that is too many to restore it. Platters that may be
    /// where this rebuild did not look, or be good all the same, are not gone.
    fn count_gone(&self, set: &SetDescription) -> Option<usize> {
        let sees_all = self.report.unseen.is_empty();
        let unseen =
            |store: &str| self.report.unseen.iter().any(|unseen| matches!(&unseen.place, UnseenPlace::Store(name) if name == store));
        let was_read = |store: &str| sees_all || (self.archive.store(store).is_some() && !unseen(store));
        let is_gone = |place: &&PlatterPlace| was_read(&place.store) && !self.may_be_good.contains(&place.platter);
        let gone = set.platters.iter().filter(is_gone).count();
        (gone > usize::from(set.shape.redundancy)).then_some(gone)
    }

    /// Reports a set with versions that is carried over although too many of its platters are gone.
    fn report_lost(&mut self, set: &SetDescription, gone: usize) {
        let text = format!(
            "set {0}: {gone} of its {1} platters are missing or have no good header, so what is on it is lost. The earlier catalogue's list \
             of its versions is kept. `fulgurite catalogue forget --set {0}` gives the set up once no object needs it",
            set.id,
            set.platters.len(),
        );
        self.watcher.trouble(Trouble::Note(&text));
        self.report.lost_sets += 1;
    }

    /// Reports a staged version that scanning the segments should have found but didn't: part of it
    /// is damaged.
    fn note_damaged(&mut self, version: &NewVersion) {
        let mut payload = Vec::new();
        let mut places = version.data.iter().map(|data| data.place).chain([version.record_place]);
        if let Err(error) = places.try_for_each(|place| self.archive.staging().read(place, &mut payload)) {
            self.report.incomplete += 1;
            let (name, version) = (&version.record.name, version.record.version);
            self.watcher.trouble(Trouble::Lost { name, version, why: &error.to_string() });
        }
    }

    fn is_damaged_segment(&self, version: &UnlistedVersion) -> bool {
        self.damaged_segments.keys().any(|&segment| version.id == damaged_segment_id(segment))
    }

    /// Carries over versions that were already gone in the earlier catalogue and still aren't
    /// found.
    fn carry_unlisted(&self, earlier: &mut dyn Catalogue, missed: Unlisted) -> Result<(), Stopped> {
        let mut pages = Pager::default();
        while let Some(mut page) = pages.next(|after| earlier.unlisted(after.copied(), BATCH)).map_err(Stopped::Earlier)? {
            // Reading platters and staging finds versions of the other kinds again if they still
            // exist. Damaged segments are listed only by a rebuild without an earlier catalogue.
            page.retain(|version| {
                let is_missed = matches!(version.why, Unlisted::Gone | Unlisted::OutOfSight) || self.is_damaged_segment(version);
                is_missed && !self.tombstones.contains_key(&version.id)
            });
            for version in &mut page {
                if version.why != Unlisted::Incomplete {
                    version.why = missed;
                }
                version.segments.retain(|segment| self.segments.binary_search(segment).is_ok());
            }
            let mut still = Vec::new();
            for version in page {
                let listed = match &version.known_as {
                    Some((name, _)) => self.archive.catalogue().version(name, version.id).map_err(ArchiveError::from)?.is_some(),
                    None => false,
                };
                if !listed {
                    still.push(version);
                }
            }
            self.archive.catalogue().adopt_unlisted(&still).map_err(ArchiveError::from)?;
        }
        Ok(())
    }
}

fn count_of(segments: usize) -> String {
    if segments == 1 { "1 segment".to_owned() } else { format!("{segments} segments") }
}

/// Builds a version from its row in the earlier catalogue. The inner error means that its staging
/// segments are gone.
fn found_version(
    earlier: &mut dyn Catalogue,
    row: VersionRow,
    segments: &[u64],
) -> Result<Result<FoundVersion, UnlistedVersion>, CatalogueError> {
    let VersionRow { row_id, id, record, sealed, stored_bytes, archived } = row;
    if archived {
        let extents = earlier.extents(row_id)?;
        return Ok(Ok(FoundVersion::Archived(ArchivedVersion { id, record, sealed, stored_bytes, extents })));
    }
    if let Some((record_place, data)) = earlier.staged(row_id)? {
        let mut places = data.iter().map(|data| data.place).chain([record_place]);
        if places.all(|place| segments.binary_search(&place.segment).is_ok()) {
            return Ok(Ok(FoundVersion::Staged(NewVersion { id, record, sealed, stored_bytes, record_place, data })));
        }
    }
    let known_as = Some((record.name, record.version));
    Ok(Err(UnlistedVersion { stored_bytes, known_as, ..UnlistedVersion::new(id, Unlisted::Gone) }))
}
