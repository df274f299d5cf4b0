//! Scrubbing: reads every platter in full, and rewrites damaged or missing platters from the
//! erasure codes.
//!
//! Absent and unreadable platters may be intact. They are left alone unless the operator asks to
//! replace them, and nothing on them is reported as lost.
//!
//! Platters are never patched (I2). A damaged platter is replaced by an identical one with the same
//! identifier, after the new one has been written and read back.

mod finding;
mod one;
mod shared;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fulgurite_domain::{Geometry, PlatterId, TrackIndex};
use fulgurite_format::{Header, find_header};
use fulgurite_glass::{BlankPlatter, Track, WriteDrive};
use serde::{Deserialize, Serialize};

use crate::archive::{Archive, ArchiveError};
use crate::catalogue::{After, Extent, NOWHERE, SetDescription, SetState, VersionRow};
use crate::content::FoundPlatter;
use crate::keystore::KeyStoreError;
use crate::object::ObjectReader;
use crate::set_reader::{OpenSet, SetReader};
use crate::store::{PlatterFile, PlatterStore, StoreError};
use crate::unread::{Loaded, NoPlatter, Presence, Unread};
use crate::watch::{OutOfReach, Trouble, Watcher, go_on};

use shared::SharedNumbers;

pub use finding::{PlatterFinding, PlatterState, Replace, ScrubReport};

/// Rows per catalogue query.
const PAGE: usize = 1_000;

impl Archive {
    /// Reads all platters and all of staging. With `repair`, missing or damaged platters are
    /// written anew: to their own store or, if that is unusable, to one without a platter of the
    /// set.
    ///
    /// # Errors
    /// [`ArchiveError`] if the catalogue fails. Problems with platters are in the report.
    pub fn scrub(&self, repair: bool, watcher: &dyn Watcher) -> Result<ScrubReport, ArchiveError> {
        self.scrub_and_replace(repair.then(Replace::default), watcher)
    }

    /// Like [`scrub`](Self::scrub); `repair` selects further platters to replace in addition to
    /// missing and damaged ones.
    ///
    /// # Errors
    /// As [`scrub`](Self::scrub).
    pub fn scrub_and_replace(&self, repair: Option<Replace>, watcher: &dyn Watcher) -> Result<ScrubReport, ArchiveError> {
        let mut report = ScrubReport::default();
        for error in self.stores().iter().filter_map(|store| store.check().err()) {
            watcher.trouble(Trouble::Note { text: &error.to_string() });
        }
        let sets = self.catalogue().sets()?;
        let sets: Vec<SetDescription> = sets.into_iter().filter(|set| set.state == SetState::Complete).map(|set| set.description).collect();
        for (index, set) in sets.iter().enumerate() {
            let bytes = set.geometry.file_bytes() * u64::from(set.shape.platters());
            watcher.stage(&format!("reading set {} of {}", index + 1, sets.len()), Some(bytes));
            self.scrub_set(set, repair, &mut report, watcher)?;
        }
        self.scrub_staging(&mut report, watcher)?;
        self.scrub_keys(&mut report, watcher)?;
        self.read_unlisted(&mut report, watcher)?;
        self.read_strangers(&mut report, watcher)?;
        Ok(report)
    }

    /// Unwraps the key of every encrypted version: without its key a version is lost even if its
    /// platters are intact. Also collects shared version numbers.
    fn scrub_keys(&self, report: &mut ScrubReport, watcher: &dyn Watcher) -> Result<(), ArchiveError> {
        watcher.stage("opening keys", None);
        let mut shared = SharedNumbers::default();
        let mut after = None;
        loop {
            let page = self.catalogue().list(b"", crate::catalogue::Versions::All, after.as_ref(), PAGE)?;
            let Some(last) = page.last() else {
                report.shared_numbers = shared.count();
                return Ok(());
            };
            after = Some(After::row(last));
            page.iter().for_each(|row| shared.take(row, watcher));
            for row in page.iter().filter(|row| row.sealed) {
                let why = match self.keys().get(row.id) {
                    Ok(None) => "no key: it is not in the key store. `fulgurite keys import` brings keys back from a copy".to_owned(),
                    Ok(Some(key)) if self.master_key().unwrap(&key).is_err() => "the master key can't unwrap its key".to_owned(),
                    Ok(Some(_)) => continue,
                    Err(error @ KeyStoreError::Damaged { .. }) => error.to_string(),
                    Err(error) => return Err(error.into()),
                };
                // Keys are destroyed after the catalogue has removed their versions.
                if !self.is_gone(row)? {
                    report_version(row, &why, report, watcher);
                }
            }
        }
    }

    /// Rebuilds a platter from its set and writes it to `store` or, if `None`, to the store that
    /// [`scrub`](Self::scrub) would choose. Returns the store's name.
    ///
    /// # Errors
    /// [`ArchiveError::UnknownPlatter`], [`ArchiveError::BeyondRepair`], or an error of the store.
    pub fn recover(&self, platter: PlatterId, store: Option<&str>, watcher: &dyn Watcher) -> Result<String, ArchiveError> {
        let set = self.catalogue().set_of(platter)?.ok_or(ArchiveError::UnknownPlatter { platter })?.description;
        let position = set.platters.iter().position(|place| place.platter == platter).expect("a set names its platters") as u16;
        let target = match store {
            Some(name) => {
                let target = self.store(name).ok_or_else(|| ArchiveError::UnknownStore { store: name.to_owned() })?;
                if let Some(other) = set.platters.iter().find(|place| place.store == name && place.platter != platter) {
                    return Err(ArchiveError::SharedStore { store: name.to_owned(), other: other.platter });
                }
                target.check()?;
                target.clone()
            }
            None => self.store_for(&set, position)?,
        };
        let mut reader = SetReader::new(self.rebuilding(), self.threads());
        watcher.stage("rebuilding", Some(set.geometry.content_bytes()));
        self.rebuild_platter(&set, position, &*target, &mut reader, watcher)?;
        Ok(target.name().to_owned())
    }

    fn scrub_set(
        &self,
        set: &SetDescription,
        repair: Option<Replace>,
        report: &mut ScrubReport,
        watcher: &dyn Watcher,
    ) -> Result<(), ArchiveError> {
        let mut open = self.open_set(set);
        let mut findings = Vec::new();
        for position in 0..set.shape.platters() {
            let finding = self.read_platter(&open, position, report, watcher);
            // A partial read says nothing about the rest of the platter.
            go_on(watcher)?;
            self.record(&finding)?;
            findings.push(finding);
        }
        note_shared_stores(set, watcher);
        report.platters += findings.len() as u64;
        report.platters_read += findings.iter().filter(|finding| finding.was_read(set.geometry)).count() as u64;
        report.unsound.extend(findings.iter().filter(|finding| !finding.is_sound()).cloned());
        let mut reader = SetReader::new(self.rebuilding(), self.threads());
        if let Some(replace) = repair {
            if findings.iter().any(|finding| replace.includes(finding)) {
                watcher.stage("writing replacement platters", None);
            }
            report.left += findings.iter().filter(|finding| !finding.is_sound() && !replace.includes(finding)).count() as u64;
            // A repaired platter may provide what another one needs, so repeat until nothing
            // changes.
            let mut changed = true;
            while std::mem::take(&mut changed) {
                for position in 0..set.shape.platters() {
                    if !replace.includes(&findings[usize::from(position)]) {
                        continue;
                    }
                    let rebuilt = self
                        .store_for(set, position)
                        .and_then(|store| self.rebuild_platter(set, position, &*store, &mut reader, &crate::watch::Unwatched));
                    match rebuilt {
                        Ok(()) => {
                            report.rebuilt += 1;
                            changed = true;
                            reader.forget_damage();
                            let place = self.catalogue().set_of(set.platters[usize::from(position)].platter)?;
                            open = self.open_set(&place.map_or_else(|| set.clone(), |row| row.description));
                            findings[usize::from(position)] =
                                self.read_platter(&open, position, &mut ScrubReport::default(), &crate::watch::Unwatched);
                            self.record(&findings[usize::from(position)])?;
                        }
                        Err(error) => {
                            let text = format!("platter {} was not rebuilt: {error}", set.platters[usize::from(position)].platter);
                            watcher.trouble(Trouble::Note { text: &text });
                        }
                    }
                }
            }
        }
        self.report_lost(&open, &findings, &mut reader, report, watcher)?;
        report.repairs.add(reader.repairs());
        Ok(())
    }

    /// Reads a platter in full.
    fn read_platter(&self, set: &OpenSet, position: u16, report: &mut ScrubReport, watcher: &dyn Watcher) -> PlatterFinding {
        let mut finding = PlatterFinding::new(&set.description, position);
        let loaded = match &set.members[usize::from(position)] {
            Presence::There(loaded) => loaded,
            Presence::Gone(why) => {
                if let (NOWHERE, NoPlatter::Absent { store, .. } | NoPlatter::Unreadable { store, .. }) = (finding.store.as_str(), why) {
                    // Names the stores that may hold it.
                    finding.store = store.clone();
                }
                finding.gone = Some(why.clone());
                watcher.done(0, set.description.geometry.file_bytes());
                return finding;
            }
        };
        Self::read_tracks(loaded, &mut finding, report, watcher);
        let place = &set.description.platters[usize::from(position)];
        let disks = self.disks();
        match disks.find(place) {
            Ok(found) => {
                read_headers(&*found.file, &set.description, &mut finding);
                if place.store == NOWHERE {
                    finding.turned_up = true;
                    finding.store = found.store;
                } else {
                    finding.elsewhere = (found.store != place.store).then_some(found.store);
                    finding.own_store_is_there = disks.has(&place.store) || self.store(&place.store).is_none();
                }
            }
            // The platter disappeared while it was read.
            Err(why) => finding.gone = Some(why),
        }
        finding
    }

    /// Reads all tracks of a present platter. If the watcher stops the read, the finding is
    /// incomplete and must be discarded.
    fn read_tracks(loaded: &Loaded, finding: &mut PlatterFinding, report: &mut ScrubReport, watcher: &dyn Watcher) {
        let drive = &loaded.drive;
        let geometry = drive.geometry();
        let mut track = Track::new(geometry);
        for group in (0..geometry.groups()).map(|index| geometry.group(index)) {
            for physical in group.information_tracks().chain(group.redundancy_tracks()) {
                let read = drive.read(physical, &mut track);
                let refused = loaded.unreadable_sectors(physical);
                finding.unreadable += refused;
                match read {
                    Ok(fulgurite_glass::Rebuilt::Nothing) => {}
                    Ok(fulgurite_glass::Rebuilt::ByTrack { sectors }) => finding.lost_sectors += (sectors as u64).saturating_sub(refused),
                    Err(lost) => {
                        finding.lost_sectors += (lost.sectors as u64).saturating_sub(refused);
                        finding.lost_tracks += 1;
                        if physical.0 < group.physical.0 + group.information {
                            let index = TrackIndex(group.first.0 + (physical.0 - group.physical.0));
                            finding.lost.insert(index, (0..geometry.track_information).filter(|&s| track.is_lost(s)).collect());
                        }
                    }
                }
                report.bytes += (geometry.track_stride() as u64).saturating_sub(refused * geometry.sector_stride() as u64);
                watcher.done(0, geometry.track_stride() as u64);
                if watcher.is_stopped() {
                    return;
                }
            }
        }
        finding.why_unreadable = loaded.why_unreadable().map(str::to_owned);
    }

    fn record(&self, finding: &PlatterFinding) -> Result<(), ArchiveError> {
        // A read-only archive can't record anything.
        if finding.turned_up && !self.is_still() {
            self.catalogue().move_platter(finding.platter, &finding.store)?;
        }
        match finding.health().filter(|_| !self.is_still()) {
            Some(health) => Ok(self.catalogue().record_health(finding.platter, health)?),
            // Absent and unreadable platters yield no new information.
            None => Ok(()),
        }
    }

    /// Determines which versions have lost bytes for good and which can't be read now, and reports
    /// each.
    fn report_lost(
        &self,
        set: &OpenSet,
        findings: &[PlatterFinding],
        reader: &mut SetReader<'_>,
        report: &mut ScrubReport,
        watcher: &dyn Watcher,
    ) -> Result<(), ArchiveError> {
        let shape = set.description.shape;
        let geometry = set.description.geometry;
        let sectors = usize::from(geometry.track_information);
        let lost_at = |finding: &PlatterFinding, track: TrackIndex| match finding.gone {
            Some(_) => sectors,
            None => finding.lost.get(&track).map_or(0, Vec::len),
        };
        let information = &findings[..usize::from(shape.information)];
        if information.iter().all(|finding| finding.gone.is_none() && finding.lost.is_empty()) {
            return Ok(());
        }
        watcher.stage("checking for lost versions", None);
        // Content sectors that are lost, and those that can't be read now.
        let (mut lost, mut out_of_reach) = (ContentSectors::new(geometry), ContentSectors::new(geometry));
        let mut reason = None;
        let mut track = Track::new(geometry);
        for index in (0..geometry.information_tracks).map(TrackIndex) {
            let all: usize = findings.iter().map(|finding| lost_at(finding, index)).sum();
            if all == 0 || all <= usize::from(shape.redundancy) * sectors {
                // The set's code can rebuild any pattern of that size.
                continue;
            }
            for finding in information.iter().filter(|finding| lost_at(finding, index) > 0) {
                let Err(unread) = reader.track(set, finding.position, index, &mut track) else { continue };
                let member = &set.members[usize::from(finding.position)];
                let not_had = (0..geometry.track_information).filter(|&sector| track.is_lost(sector));
                let may_be_fine = |sector: &u16| match &unread {
                    Unread::Lost(_) => member.may_have(geometry.physical(index), *sector),
                    Unread::Unreachable(_) => true,
                };
                let (fine, gone): (Vec<u16>, Vec<u16>) = not_had.partition(may_be_fine);
                lost.insert(finding.platter, index, gone);
                out_of_reach.insert(finding.platter, index, fine);
                if let Unread::Unreachable(unreachable) = unread {
                    reason.get_or_insert(unreachable);
                }
            }
        }
        let platters: Vec<PlatterId> = set.description.platters.iter().map(|place| place.platter).collect();
        let affected: Vec<PlatterId> = lost.platters().union(&out_of_reach.platters()).copied().collect();
        if affected.is_empty() {
            return Ok(());
        }
        let reason = reason.unwrap_or_else(|| set.unreachable(0));
        let mut after = None;
        loop {
            let page = self.catalogue().versions_on(&affected, after.as_ref(), PAGE)?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(After::row(last));
            for row in page.iter().filter(|row| row.archived) {
                let extents = self.catalogue().extents(row.key)?;
                let only_here = extents.iter().all(|extent| platters.contains(&extent.platter));
                if extents.iter().any(|extent| lost.has_some_of(extent)) {
                    if only_here || report.lost_in_several_sets.insert(row.key) {
                        report_version(
                            row,
                            "its sectors are lost: neither track, large group nor platter-set can rebuild them",
                            report,
                            watcher,
                        );
                    }
                } else if extents.iter().any(|extent| out_of_reach.has_some_of(extent))
                    && (only_here || report.out_of_reach_in_several_sets.insert(row.key))
                {
                    report.out_of_reach.add(reason.hindrance());
                    let (name, version) = (&row.record.name, row.record.version);
                    watcher.trouble(Trouble::unread(name, version, Some(reason.hindrance()), &reason.to_string()));
                }
            }
        }
    }

    /// Reads and verifies all staged records.
    fn scrub_staging(&self, report: &mut ScrubReport, watcher: &dyn Watcher) -> Result<(), ArchiveError> {
        let totals = self.catalogue().staged_totals()?;
        watcher.stage("reading staging", Some(totals.stored_bytes));
        let mut payload = Vec::new();
        let mut after = None;
        loop {
            let page = self.catalogue().staged_versions(after.as_ref(), PAGE)?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(After::row(last));
            for row in page {
                go_on(watcher)?;
                let Some((record, data)) = self.catalogue().staged(row.key)? else { continue };
                report.staged_versions += 1;
                let places = std::iter::once(record).chain(data.into_iter().map(|data| data.place));
                let read = places.into_iter().try_for_each(|place| {
                    watcher.done(0, place.bytes.into());
                    self.staging().read(place, &mut payload)
                });
                if let Err(error) = read {
                    // A server may have archived or removed the version since, and released its
                    // segment.
                    if self.catalogue().staged(row.key)?.is_none() {
                        continue;
                    }
                    match error.hindrance() {
                        None => report_version(&row, &error.to_string(), report, watcher),
                        Some(hindrance) => {
                            report.out_of_reach.add(hindrance);
                            let (name, version) = (&row.record.name, row.record.version);
                            watcher.trouble(Trouble::unread(name, version, Some(hindrance), &error.to_string()));
                        }
                    }
                }
            }
        }
    }

    /// Reads every version in full and compares it with its SHA-256.
    ///
    /// # Errors
    /// [`ArchiveError`] if the catalogue fails. Versions that can't be read are reported and
    /// counted.
    pub fn verify_objects(&self, watcher: &dyn Watcher) -> Result<ObjectsReport, ArchiveError> {
        let totals = self.catalogue().totals()?;
        watcher.stage("reading objects", Some(totals.content_bytes));
        let mut reader = ObjectReader::new(self);
        let mut report = ObjectsReport::default();
        let mut after = None;
        loop {
            let page = self.catalogue().list(b"", crate::catalogue::Versions::All, after.as_ref(), PAGE)?;
            let Some(last) = page.last() else { return Ok(report) };
            after = Some(After::row(last));
            for row in page {
                go_on(watcher)?;
                let result = reader.read(&row, &mut |bytes| {
                    watcher.done(0, bytes.len() as u64);
                    Ok(())
                });
                report.versions += 1;
                if let Err(error) = result {
                    if self.is_gone(&row)? {
                        report.versions -= 1;
                        continue;
                    }
                    match error.hindrance() {
                        Some(hindrance) => report.out_of_reach.add(hindrance),
                        None => report.wrong += 1,
                    }
                    let (name, version) = (&row.record.name, row.record.version);
                    watcher.trouble(Trouble::unread(name, version, error.hindrance(), &error.to_string()));
                }
            }
        }
    }

    /// True if a listed version was removed since, for example by a server.
    fn is_gone(&self, row: &VersionRow) -> Result<bool, ArchiveError> {
        Ok(self.catalogue().version(&row.record.name, row.id)?.is_none())
    }

    /// Chooses the store for a replacement platter: its own, or else the one with the most free
    /// space that has no platter of the set.
    fn store_for(&self, set: &SetDescription, position: u16) -> Result<Arc<dyn PlatterStore>, ArchiveError> {
        let own = &set.platters[usize::from(position)].store;
        if let Some(store) = self.store(own).filter(|store| store.check().is_ok()) {
            return Ok(store.clone());
        }
        let free = |store: &&Arc<dyn PlatterStore>| store.check().is_ok() && set.platters.iter().all(|place| place.store != store.name());
        // As in a flush, a store that doesn't report its free space is assumed to have enough.
        let store = self.stores().iter().filter(free).max_by_key(|store| store.free_bytes().unwrap_or(u64::MAX));
        store.cloned().ok_or_else(|| ArchiveError::NoStoreFor { platter: set.platters[usize::from(position)].platter, store: own.clone() })
    }

    /// Rebuilds a platter on a store, reads it back, and records its location.
    fn rebuild_platter(
        &self,
        set: &SetDescription,
        position: u16,
        target: &dyn PlatterStore,
        reader: &mut SetReader<'_>,
        watcher: &dyn Watcher,
    ) -> Result<(), ArchiveError> {
        let geometry = set.geometry;
        let place = &set.platters[usize::from(position)];
        let store_error = |source| StoreError::Io { store: target.name().to_owned(), place: target.place(), source };
        let header = self.find_set_header(set)?.for_position(position);
        let block = header.to_block().map_err(|_| ArchiveError::NoHeader { set: set.id })?;
        let open = self.open_set(set);
        let blank = BlankPlatter { platter: place.platter, geometry, header: block.clone() };
        let sink = target.create(place.platter, geometry.file_bytes()).map_err(store_error)?;
        let mut drive = WriteDrive::load(blank, sink, self.threads()).map_err(store_error)?;
        let mut track = Track::new(geometry);
        for index in (0..geometry.information_tracks).map(TrackIndex) {
            reader.track(&open, position, index, &mut track)?;
            drive.write(&mut track).map_err(store_error)?;
            watcher.done(0, geometry.track_bytes());
        }
        let mut sink = drive.finish().map_err(store_error)?.sink;
        // Read it back before it replaces the current platter, which may be damaged but still hold
        // what the set's other platters need.
        let file = sink.finish().map_err(store_error)?;
        let mut finding = PlatterFinding::new(set, position);
        let Presence::There(written) = Presence::load(place.platter, geometry, file.clone(), target.name()) else {
            unreachable!("it was just loaded")
        };
        Self::read_tracks(&written, &mut finding, &mut ScrubReport::default(), &crate::watch::Unwatched);
        read_headers(&*file, set, &mut finding);
        if !finding.is_sound() {
            return Err(ArchiveError::NotReplaced {
                platter: place.platter,
                store: target.name().to_owned(),
                what: format!(
                    "{} bad sectors, {} bad header copies, {} unreadable sectors or header copies",
                    finding.lost_sectors, finding.bad_headers, finding.unreadable
                ),
            });
        }
        sink.commit().map_err(store_error)?;
        if target.name() != place.store {
            self.catalogue().move_platter(place.platter, target.name())?;
        }
        // With two platters of the same identifier, a rebuild would have to choose. An absent store
        // keeps its copy.
        for other in self.stores().iter().filter(|store| store.name() != target.name() && store.check().is_ok()) {
            if let Ok(Some(_)) = other.open(place.platter) {
                let _ = other.remove(place.platter);
            }
        }
        self.record(&finding)
    }

    /// Finds a valid header of any platter of a set.
    fn find_set_header(&self, set: &SetDescription) -> Result<Header, ArchiveError> {
        let disks = self.disks();
        for place in &set.platters {
            let Ok(FoundPlatter { file, .. }) = disks.find(place) else { continue };
            let Ok(length) = file.length() else { continue };
            if let Ok(found) = find_header(length, |offset, buffer| read_exact_at(&*file, offset, buffer))
                && found.header.set == set.id
            {
                return Ok(found.header);
            }
        }
        Err(ArchiveError::NoHeader { set: set.id })
    }
}

/// Counts wrong and unreadable copies of the header.
fn read_headers(file: &dyn PlatterFile, set: &SetDescription, finding: &mut PlatterFinding) {
    for offset in set.geometry.header_offsets() {
        let mut block = vec![0; Geometry::HEADER_BYTES as usize];
        let is_good = match read_exact_at(file, offset, &mut block) {
            Ok(()) => Header::from_block(&block).is_ok_and(|header| header.platter == finding.platter && header.set == set.id),
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => false,
            Err(error) => {
                finding.unreadable += 1;
                finding.why_unreadable.get_or_insert_with(|| error.to_string());
                continue;
            }
        };
        finding.bad_headers += u32::from(!is_good);
    }
    // If parts can't be read, the file length is no evidence of damage.
    let length_is_wrong = finding.unreadable == 0 && file.length().is_ok_and(|length| length != set.geometry.file_bytes());
    finding.bad_headers = finding.bad_headers.max(length_is_wrong.into());
}

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

    /// True if any of the sectors belongs to the extent.
    fn has_some_of(&self, extent: &Extent) -> bool {
        let (bytes, in_track) = (u64::from(self.geometry.sector_bytes), u64::from(self.geometry.track_information));
        extent.bytes > 0
            && (extent.offset / bytes..(extent.offset + extent.bytes).div_ceil(bytes)).any(|sector| {
                let track = TrackIndex((sector / in_track) as u32);
                self.sectors.get(&(extent.platter, track)).is_some_and(|sectors| sectors.contains(&((sector % in_track) as u16)))
            })
    }
}

/// Result of reading every version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ObjectsReport {
    /// Versions checked.
    pub versions: u64,
    /// Versions whose content differs from what was put, or is lost.
    pub wrong: u64,
    /// Versions that can't be read now but aren't known to be lost.
    pub out_of_reach: OutOfReach,
}

/// Reports stores with several platters of a set (I3). A catalogue can list such stores if it was
/// rebuilt after platters were moved.
fn note_shared_stores(set: &SetDescription, watcher: &dyn Watcher) {
    let mut platters: BTreeMap<&str, u64> = BTreeMap::new();
    set.platters.iter().filter(|place| place.store != NOWHERE).for_each(|place| *platters.entry(&place.store).or_default() += 1);
    for (store, count) in platters.into_iter().filter(|(_, count)| *count > 1) {
        let text = format!(
            "store {store} has {count} platters of set {}, so losing the store loses all of them: move all but one to stores without any, then \
             run `fulgurite catalogue rebuild`",
            set.id
        );
        watcher.trouble(Trouble::Note { text: &text });
    }
}

fn report_version(row: &VersionRow, why: &str, report: &mut ScrubReport, watcher: &dyn Watcher) {
    report.lost_versions += 1;
    watcher.trouble(Trouble::Lost { name: &row.record.name, version: row.record.version, why });
}

/// Fills `buffer` from a platter file.
pub(crate) fn read_exact_at(file: &dyn PlatterFile, offset: u64, buffer: &mut [u8]) -> std::io::Result<()> {
    let mut read = 0;
    while read < buffer.len() {
        match file.read_at(offset + read as u64, &mut buffer[read..])? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            bytes => read += bytes,
        }
    }
    Ok(())
}
