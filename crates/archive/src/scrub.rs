//! Scrubbing: every platter is read in full, and what is damaged or gone is written anew from what the codes give back.
//!
//! Platters are never patched (I2): a damaged one is replaced by an identical one, under the same identifier, when that is written and
//! read back.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use fulgurite_domain::{Geometry, PlatterId, TrackIndex};
use fulgurite_format::{Header, find_header};
use fulgurite_glass::{BlankPlatter, ReadDrive, Track, WriteDrive};

use crate::archive::{Archive, ArchiveError};
use crate::catalogue::{After, Health, SetDescription, SetState, VersionKey, VersionRow};
use crate::clock::now_s;
use crate::keystore::KeyStoreError;
use crate::object::ObjectReader;
use crate::set_reader::{OpenSet, Repairs, SetReader, Source};
use crate::store::{PlatterFile, PlatterStore, StoreError};
use crate::watch::{Trouble, Watcher};

/// Rows asked of the catalogue at once.
const PAGE: usize = 1_000;

/// What was found on one platter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlatterFinding {
    /// The platter.
    pub platter: PlatterId,
    /// Its position in the set.
    pub position: u16,
    /// The store it should be on.
    pub store: String,
    /// Whether it is not there at all.
    pub missing: bool,
    /// Another store that it is on.
    pub elsewhere: Option<String>,
    /// Lost sectors, group redundancy tracks included.
    pub lost_sectors: u64,
    /// Tracks that their own code can't rebuild, group redundancy tracks included.
    pub lost_tracks: u32,
    /// Copies of the header that are bad.
    pub bad_headers: u32,
    /// Lost information sectors of information tracks that their own code can't rebuild.
    lost: BTreeMap<TrackIndex, Vec<u16>>,
}

impl PlatterFinding {
    /// Of a platter that wasn't looked at yet.
    fn new(set: &SetDescription, position: u16) -> Self {
        let place = &set.platters[usize::from(position)];
        Self {
            platter: place.platter,
            position,
            store: place.store.clone(),
            missing: true,
            elsewhere: None,
            lost_sectors: 0,
            lost_tracks: 0,
            bad_headers: 0,
            lost: BTreeMap::new(),
        }
    }

    /// Whether the platter is whole, and where it should be.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        !self.missing && self.elsewhere.is_none() && self.lost_sectors == 0 && self.bad_headers == 0
    }
}

/// What a scrub found and did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScrubReport {
    /// Platters looked for.
    pub platters: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Platters that are missing or damaged, as they were found.
    pub unsound: Vec<PlatterFinding>,
    /// Platters written anew.
    pub rebuilt: u64,
    /// Versions of which bytes are lost for good; each was reported.
    pub lost_versions: u64,
    /// Staged versions that were read.
    pub staged_versions: u64,
    /// What repair it took.
    pub repairs: Repairs,
    /// Those of the lost versions that are on several sets, each of which may have lost something of them.
    lost_in_several_sets: HashSet<VersionKey>,
}

impl ScrubReport {
    /// Whether no byte is lost.
    #[must_use]
    pub fn nothing_is_lost(&self) -> bool {
        self.lost_versions == 0
    }
}

impl Archive {
    /// Reads all platters and all of staging. With `repair`, platters that aren't sound are written anew, onto their own store or, if
    /// that can't be used, onto one that has none of the set.
    ///
    /// # Errors
    /// [`ArchiveError`] if the catalogue fails. What is wrong with platters is in the report.
    pub fn scrub(&self, repair: bool, watcher: &dyn Watcher) -> Result<ScrubReport, ArchiveError> {
        let mut report = ScrubReport::default();
        let sets = self.catalogue().sets()?;
        let sets: Vec<SetDescription> = sets.into_iter().filter(|set| set.state == SetState::Complete).map(|set| set.description).collect();
        for (index, set) in sets.iter().enumerate() {
            let bytes = set.geometry.file_bytes() * u64::from(set.shape.platters());
            watcher.stage(&format!("reading set {} of {}", index + 1, sets.len()), Some(bytes));
            self.scrub_set(set, repair, &mut report, watcher)?;
        }
        self.scrub_staging(&mut report, watcher)?;
        self.scrub_keys(&mut report, watcher)?;
        self.name_strangers(watcher)?;
        Ok(report)
    }

    /// Opens the key of every encrypted version. Without it, the best of platters is of no use.
    fn scrub_keys(&self, report: &mut ScrubReport, watcher: &dyn Watcher) -> Result<(), ArchiveError> {
        watcher.stage("opening keys", None);
        let mut after = None;
        loop {
            let page = self.catalogue().list(b"", crate::catalogue::Versions::All, after.as_ref(), PAGE)?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(After::row(last));
            for row in page.iter().filter(|row| row.sealed) {
                let why = match self.keys().get(row.id) {
                    Ok(None) => "its key is not there; `fulgurite keys import` brings keys back from a copy".to_owned(),
                    Ok(Some(key)) if self.master_key().unwrap(&key).is_err() => "its key does not open with this master key".to_owned(),
                    Ok(Some(_)) => continue,
                    Err(error @ KeyStoreError::Damaged { .. }) => error.to_string(),
                    Err(error) => return Err(error.into()),
                };
                report_version(row, &why, report, watcher);
            }
        }
    }

    /// Names platters that are on a store and in no set of the catalogue. They are left alone: if the catalogue is an old copy, they hold what
    /// was archived since.
    fn name_strangers(&self, watcher: &dyn Watcher) -> Result<(), ArchiveError> {
        let known: HashSet<PlatterId> = self.catalogue().platters()?.into_iter().map(|row| row.place.platter).collect();
        for store in self.stores().iter().filter(|store| store.check().is_ok()) {
            let listed = store.list().unwrap_or_default();
            for platter in listed.into_iter().filter(|platter| !known.contains(platter)) {
                let text = format!(
                    "platter {platter} on store {} is in no set of the catalogue: it is left of a set that was never finished, or the catalogue is \
                     an old copy; `fulgurite catalogue rebuild` tells",
                    store.name()
                );
                watcher.trouble(Trouble::Note { text: &text });
            }
        }
        Ok(())
    }

    /// Writes a platter anew from its set, onto `store` or, without one, as [`scrub`](Self::scrub) chooses. Returns the store's name.
    ///
    /// # Errors
    /// [`ArchiveError::UnknownPlatter`], [`ArchiveError::BeyondRepair`], or what the store answers.
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

    fn scrub_set(&self, set: &SetDescription, repair: bool, report: &mut ScrubReport, watcher: &dyn Watcher) -> Result<(), ArchiveError> {
        let mut open = self.open_set(set);
        let mut findings = Vec::new();
        for position in 0..set.shape.platters() {
            let finding = self.read_platter(&open, position, report, watcher);
            self.record(&finding)?;
            findings.push(finding);
        }
        note_shared_stores(set, watcher);
        report.platters += findings.len() as u64;
        report.unsound.extend(findings.iter().filter(|finding| !finding.is_sound()).cloned());
        let mut reader = SetReader::new(self.rebuilding(), self.threads());
        if repair {
            if findings.iter().any(|finding| !finding.is_sound()) {
                watcher.stage("writing platters anew", None);
            }
            // One platter repaired may be what another needs; so until nothing changes.
            let mut changed = true;
            while std::mem::take(&mut changed) {
                for position in 0..set.shape.platters() {
                    if findings[usize::from(position)].is_sound() {
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
        let Some(drive) = &set.drives[usize::from(position)] else {
            watcher.done(0, set.description.geometry.file_bytes());
            return finding;
        };
        Self::read_tracks(drive, &mut finding, report, watcher);
        let place = &set.description.platters[usize::from(position)];
        match self.find_platter(place) {
            Some((store, file)) => {
                finding.bad_headers = bad_headers(&*file, &set.description, position);
                finding.elsewhere = (store.name() != place.store).then(|| store.name().to_owned());
            }
            None => finding.bad_headers = 3,
        }
        finding
    }

    /// Reads all tracks of a platter that is there.
    fn read_tracks(drive: &ReadDrive, finding: &mut PlatterFinding, report: &mut ScrubReport, watcher: &dyn Watcher) {
        finding.missing = false;
        let geometry = drive.geometry();
        let mut track = Track::new(geometry);
        for group in (0..geometry.groups()).map(|index| geometry.group(index)) {
            for physical in group.information_tracks().chain(group.redundancy_tracks()) {
                let read = drive.read(physical, &mut track);
                match read {
                    Ok(fulgurite_glass::Rebuilt::Nothing) => {}
                    Ok(fulgurite_glass::Rebuilt::ByTrack { sectors }) => finding.lost_sectors += sectors as u64,
                    Err(lost) => {
                        finding.lost_sectors += lost.sectors as u64;
                        finding.lost_tracks += 1;
                        if physical.0 < group.physical.0 + group.information {
                            let index = TrackIndex(group.first.0 + (physical.0 - group.physical.0));
                            finding.lost.insert(index, (0..geometry.track_information).filter(|&s| track.is_lost(s)).collect());
                        }
                    }
                }
                report.bytes += geometry.track_stride() as u64;
                watcher.done(0, geometry.track_stride() as u64);
            }
        }
    }

    fn record(&self, finding: &PlatterFinding) -> Result<(), ArchiveError> {
        let health = Health {
            verified: Some(now_s()),
            // From its own store it is; nobody should count on another.
            missing: finding.missing || finding.elsewhere.is_some(),
            lost_sectors: finding.lost_sectors,
            lost_tracks: finding.lost_tracks,
        };
        Ok(self.catalogue().record_health(finding.platter, health)?)
    }

    /// Finds out which versions have lost bytes for good, and reports each.
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
        let lost_at = |finding: &PlatterFinding, track: TrackIndex| match finding.missing {
            true => sectors,
            false => finding.lost.get(&track).map_or(0, Vec::len),
        };
        let information = &findings[..usize::from(shape.information)];
        if information.iter().all(|finding| !finding.missing && finding.lost.is_empty()) {
            return Ok(());
        }
        watcher.stage("looking for what is lost", None);
        // Lost sectors of the content, by position and track.
        let mut lost: BTreeMap<(u16, TrackIndex), Vec<u16>> = BTreeMap::new();
        let mut track = Track::new(geometry);
        for index in (0..geometry.information_tracks).map(TrackIndex) {
            let all: usize = findings.iter().map(|finding| lost_at(finding, index)).sum();
            if all == 0 || all <= usize::from(shape.redundancy) * sectors {
                // Any pattern of that size is within what the set's code gives back.
                continue;
            }
            for finding in information.iter().filter(|finding| lost_at(finding, index) > 0) {
                if reader.track(set, finding.position, index, &mut track).is_err() {
                    let gone = (0..geometry.track_information).filter(|&sector| track.is_lost(sector)).collect();
                    lost.insert((finding.position, index), gone);
                }
            }
        }
        let positions: Vec<u16> = lost.keys().map(|(position, _)| *position).collect();
        let platters: Vec<PlatterId> = set.description.platters.iter().map(|place| place.platter).collect();
        let affected: Vec<PlatterId> =
            (0..shape.information).filter(|position| positions.contains(position)).map(|p| platters[usize::from(p)]).collect();
        if affected.is_empty() {
            return Ok(());
        }
        let is_lost = |platter: PlatterId, offset: u64, bytes: u64| {
            let Some(position) = platters.iter().position(|other| *other == platter) else { return false };
            let sector_bytes = u64::from(geometry.sector_bytes);
            bytes > 0
                && (offset / sector_bytes..(offset + bytes).div_ceil(sector_bytes)).any(|sector| {
                    let index = TrackIndex((sector / sectors as u64) as u32);
                    lost.get(&(position as u16, index)).is_some_and(|gone| gone.contains(&((sector % sectors as u64) as u16)))
                })
        };
        let mut after = None;
        loop {
            let page = self.catalogue().versions_on(&affected, after.as_ref(), PAGE)?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(After::row(last));
            for row in page.iter().filter(|row| row.archived) {
                let extents = self.catalogue().extents(row.key)?;
                if !extents.iter().any(|extent| is_lost(extent.platter, extent.offset, extent.bytes)) {
                    continue;
                }
                let only_here = extents.iter().all(|extent| platters.contains(&extent.platter));
                if only_here || report.lost_in_several_sets.insert(row.key) {
                    report_version(row, "its sectors are lost beyond what track, large group and platter-set can rebuild", report, watcher);
                }
            }
        }
    }

    /// Reads everything that is staged.
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
                let Some((record, data)) = self.catalogue().staged(row.key)? else { continue };
                report.staged_versions += 1;
                let places = std::iter::once(record).chain(data.into_iter().map(|data| data.place));
                let read = places.into_iter().try_for_each(|place| {
                    watcher.done(0, place.bytes.into());
                    self.staging().read(place, &mut payload)
                });
                if let Err(error) = read {
                    report_version(&row, &error.to_string(), report, watcher);
                }
            }
        }
    }

    /// Reads every version in full and compares it with its SHA-256. Returns how many were read, and how many are wrong.
    ///
    /// # Errors
    /// [`ArchiveError`] if the catalogue fails. Versions that can't be read are reported and counted.
    pub fn verify_objects(&self, watcher: &dyn Watcher) -> Result<(u64, u64), ArchiveError> {
        let totals = self.catalogue().totals()?;
        watcher.stage("reading objects", Some(totals.content_bytes));
        let mut reader = ObjectReader::new(self);
        let (mut read, mut wrong) = (0, 0);
        let mut after = None;
        loop {
            let page = self.catalogue().list(b"", crate::catalogue::Versions::All, after.as_ref(), PAGE)?;
            let Some(last) = page.last() else { return Ok((read, wrong)) };
            after = Some(After::row(last));
            for row in page {
                read += 1;
                let result = reader.read(&row, &mut |bytes| {
                    watcher.done(0, bytes.len() as u64);
                    Ok(())
                });
                if let Err(error) = result {
                    wrong += 1;
                    watcher.trouble(Trouble::Lost { name: &row.record.name, version: row.record.version, why: &error.to_string() });
                }
            }
        }
    }

    /// The store to write a platter anew on: its own, or else the one with the most room that has none of the set.
    fn store_for(&self, set: &SetDescription, position: u16) -> Result<Arc<dyn PlatterStore>, ArchiveError> {
        let own = &set.platters[usize::from(position)].store;
        if let Some(store) = self.store(own).filter(|store| store.check().is_ok()) {
            return Ok(store.clone());
        }
        let free = |store: &&Arc<dyn PlatterStore>| store.check().is_ok() && set.platters.iter().all(|place| place.store != store.name());
        // As in a flush, a store that doesn't say has room.
        let store = self.stores().iter().filter(free).max_by_key(|store| store.free_bytes().unwrap_or(u64::MAX));
        store.cloned().ok_or_else(|| ArchiveError::NoStoreFor { platter: set.platters[usize::from(position)].platter, store: own.clone() })
    }

    /// Writes a platter anew onto a store, reads it back, and notes where it is.
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
            reader.track(&open, position, index, &mut track).map_err(ArchiveError::BeyondRepair)?;
            drive.write(&mut track).map_err(store_error)?;
            watcher.done(0, geometry.track_bytes());
        }
        let mut sink = drive.finish().map_err(store_error)?.sink;
        // Read back before it takes the place of what is there: that may be damaged, and still be what the set's other platters need.
        let file = sink.finish().map_err(store_error)?;
        let mut finding = PlatterFinding::new(set, position);
        let written = ReadDrive::load(place.platter, geometry, Arc::new(Source(file.clone())));
        Self::read_tracks(&written, &mut finding, &mut ScrubReport::default(), &crate::watch::Unwatched);
        finding.bad_headers = bad_headers(&*file, set, position);
        if !finding.is_sound() {
            return Err(ArchiveError::NotReplaced {
                platter: place.platter,
                store: target.name().to_owned(),
                what: format!("{} bad sectors, {} bad header copies", finding.lost_sectors, finding.bad_headers),
            });
        }
        sink.commit().map_err(store_error)?;
        if target.name() != place.store {
            self.catalogue().move_platter(place.platter, target.name())?;
        }
        // Two platters of one identifier would leave a rebuild to choose. A store that is away keeps its own.
        for other in self.stores().iter().filter(|store| store.name() != target.name() && store.check().is_ok()) {
            if let Ok(Some(_)) = other.open(place.platter) {
                let _ = other.remove(place.platter);
            }
        }
        self.record(&finding)
    }

    /// A good header of any platter of a set.
    fn find_set_header(&self, set: &SetDescription) -> Result<Header, ArchiveError> {
        for place in &set.platters {
            let Some((_, file)) = self.find_platter(place) else { continue };
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

/// Counts copies of the header that don't say what they should.
fn bad_headers(file: &dyn PlatterFile, set: &SetDescription, position: u16) -> u32 {
    let platter = set.platters[usize::from(position)].platter;
    let bad = |offset: &u64| {
        let mut block = vec![0; Geometry::HEADER_BYTES as usize];
        read_exact_at(file, *offset, &mut block).is_err()
            || Header::from_block(&block).map_or(true, |header| header.platter != platter || header.set != set.id)
    };
    let length_is_wrong = file.length().is_ok_and(|length| length != set.geometry.file_bytes());
    (set.geometry.header_offsets().iter().filter(|offset| bad(offset)).count() as u32).max(length_is_wrong.into())
}

/// Says which stores have several platters of a set (I3), as a catalogue may say that was rebuilt after platters were moved.
fn note_shared_stores(set: &SetDescription, watcher: &dyn Watcher) {
    let mut platters: BTreeMap<&str, u64> = BTreeMap::new();
    set.platters.iter().filter(|place| place.store != crate::NOWHERE).for_each(|place| *platters.entry(&place.store).or_default() += 1);
    for (store, count) in platters.into_iter().filter(|(_, count)| *count > 1) {
        let text = format!(
            "store {store} has {count} platters of set {}, which its loss would take together: move all but one to stores without any, then \
             `fulgurite catalogue rebuild`",
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
