//! Replaces platters: rebuilds one from its set, reads it back, and only then makes it visible on
//! its store.

use std::cmp::Reverse;
use std::sync::Arc;

use fulgurite_domain::{PlatterId, TrackIndex};
use fulgurite_format::{Header, find_header};
use fulgurite_glass::{BlankPlatter, Track, WriteDrive};

use super::misnamed::MisnamedPlatter;
use super::reading::{read_headers, read_platter, read_tracks, record};
use super::{PlatterFinding, PlatterState, set_with};
use crate::archive::{Archive, ArchiveError};
use crate::catalogue::{PlatterPlace, SetDescription};
use crate::set_reader::{OpenSet, SetReader};
use crate::store::{PlatterFile, PlatterSink, PlatterStore, StoreError, check_room, read_exact_at};
use crate::store_snapshot::{FoundPlatter, StoreSnapshot};
use crate::unread::Loaded;
use crate::watch::{Trouble, Unwatched, Watcher};

impl Archive {
    /// Rebuilds a platter from its set and writes it to `store` or, if `None`, to the store that
    /// [`scrub`](Self::scrub) would choose. Returns the store's name.
    ///
    /// # Errors
    /// [`ArchiveError::UnknownPlatter`], [`ArchiveError::UnknownStore`],
    /// [`ArchiveError::SharedStore`], [`ArchiveError::NoStoreFor`], [`ArchiveError::NoHeader`],
    /// [`ArchiveError::NameTaken`], [`ArchiveError::Unread`], [`ArchiveError::NotReplaced`], or an
    /// error of the store or the catalogue.
    pub fn recover(&self, platter: PlatterId, store: Option<&str>, watcher: &dyn Watcher) -> Result<String, ArchiveError> {
        let (set, position) = set_with(self, platter)?;
        let targets = match store {
            Some(name) => {
                let target = self.store(name).ok_or_else(|| ArchiveError::UnknownStore(name.to_owned()))?;
                if let Some(other) = platter_beside(&StoreSnapshot::take(self), &set, position, name) {
                    return Err(ArchiveError::SharedStore { store: name.to_owned(), other });
                }
                check_room(&**target, set.platter_bytes())?;
                Targets { usable: vec![target.clone()], refused: Vec::new() }
            }
            None => Targets::find(self, &set, position),
        };
        let mut reader = SetReader::new(&self.rebuilding, self.threads());
        watcher.stage("rebuilding", Some(set.geometry.content_bytes()));
        let found = self.last_state(&set, position)?;
        replace(self, &set, position, found, targets, &mut reader, watcher)
    }

    /// The state of a platter and its lost sectors, as far as stores and catalogue tell without
    /// reading it.
    fn last_state(&self, set: &SetDescription, position: u16) -> Result<(PlatterState, u64), ArchiveError> {
        let place = &set.platters[usize::from(position)];
        let rows = self.catalogue().platters_of(set.id)?;
        let health = rows.iter().find(|row| row.place.platter == place.platter).map(|row| row.health).unwrap_or_default();
        let state = match StoreSnapshot::take(self).find(place) {
            Err(why) => (&why).into(),
            Ok(_) if health.is_damaged() => PlatterState::Damaged,
            Ok(_) if health.unreadable.is_some() => PlatterState::Unreadable,
            Ok(found) if found.store != place.store => PlatterState::Elsewhere,
            Ok(_) => PlatterState::Sound,
        };
        Ok((state, if state == PlatterState::Damaged { health.lost_sectors } else { 0 }))
    }
}

/// Another platter of the set that is on a store, by the catalogue or actually (I3).
fn platter_beside(snapshot: &StoreSnapshot, set: &SetDescription, position: u16, store: &str) -> Option<PlatterId> {
    let own = set.platters[usize::from(position)].platter;
    let is_there = |place: &PlatterPlace| place.store == store || snapshot.find(place).is_ok_and(|found| found.store == store);
    set.platters.iter().filter(|place| place.platter != own).find(|place| is_there(place)).map(|place| place.platter)
}

/// Stores for a replacement platter.
pub(super) struct Targets {
    /// Those that have room for it, the best first.
    usable: Vec<Arc<dyn PlatterStore>>,
    /// Why others without another platter of the set can't take it.
    refused: Vec<StoreError>,
}

impl Targets {
    /// The platter's own store, then those without a platter of the set, by free space. The damaged
    /// platter stays until the new one has been read back, so each needs room for one more.
    pub(super) fn find(archive: &Archive, set: &SetDescription, position: u16) -> Self {
        let own = &set.platters[usize::from(position)].store;
        let snapshot = StoreSnapshot::take(archive);
        let (mut usable, mut refused) = (Vec::new(), Vec::new());
        for store in archive.stores() {
            let is_own = store.name() == own;
            if !is_own && platter_beside(&snapshot, set, position, store.name()).is_some() {
                continue;
            }
            match check_room(&**store, set.platter_bytes()) {
                Ok(free) => usable.push((!is_own, Reverse(free), store.clone())),
                Err(error) => refused.push(error),
            }
        }
        usable.sort_by_key(|(is_other, free, _)| (*is_other, *free));
        Self { usable: usable.into_iter().map(|(_, _, store)| store).collect(), refused }
    }

    /// Whether there is a store to try.
    pub(super) fn has_one(&self) -> bool {
        !self.usable.is_empty()
    }
}

/// Writes a replacement platter to the first of the stores that takes it, and returns the store's
/// name. `found` is the state in which the platter was found, and its lost sectors.
pub(super) fn replace(
    archive: &Archive,
    set: &SetDescription,
    position: u16,
    found: (PlatterState, u64),
    Targets { usable, mut refused }: Targets,
    reader: &mut SetReader<'_>,
    watcher: &dyn Watcher,
) -> Result<String, ArchiveError> {
    let place = &set.platters[usize::from(position)];
    for target in usable {
        match (Replacing { archive, set, position, found, target: &*target }).run(reader, watcher) {
            Ok(()) => {
                if let Some(why) = refused.iter().find(|error| error.store() == place.store) {
                    let text = format!("platter {} was written to store {}: {why}", place.platter, target.name());
                    watcher.trouble(Trouble::Note(&text));
                }
                return Ok(target.name().to_owned());
            }
            Err(ArchiveError::Store(error)) => refused.push(error),
            Err(error) => return Err(error),
        }
    }
    Err(ArchiveError::NoStoreFor { platter: place.platter, store: place.store.clone(), needed: set.platter_bytes(), refused })
}

struct Replacing<'a> {
    archive: &'a Archive,
    set: &'a SetDescription,
    position: u16,
    found: (PlatterState, u64),
    target: &'a dyn PlatterStore,
}

impl Replacing<'_> {
    /// Rebuilds the platter on its store, reads it back, and records its location.
    fn run(&self, reader: &mut SetReader<'_>, watcher: &dyn Watcher) -> Result<(), ArchiveError> {
        let Self { archive, set, position, found, target } = *self;
        let place = &set.platters[usize::from(position)];
        let misnamed = |store: &dyn PlatterStore| match store.open(place.platter) {
            Ok(Some(file)) => MisnamedPlatter::of(&*file, place.platter, store.name(), archive.id()),
            _ => None,
        };
        if let Some(file) = misnamed(target)
            && (file.is_foreign || !is_whole(archive, file.is)?)
        {
            return Err(ArchiveError::NameTaken { platter: place.platter, store: target.name().to_owned(), what: file.to_string() });
        }
        let mut sink = self.write(reader, watcher)?;
        // Read it back before it replaces the current platter, which may be damaged but still hold
        // what the set's other platters need.
        let finding = self.read_back(sink.finish().map_err(StoreError::io(target))?)?;
        if !finding.is_sound() {
            return Err(ArchiveError::NotReplaced {
                platter: place.platter,
                store: target.name().to_owned(),
                lost_sectors: finding.lost_sectors,
                bad_headers: finding.bad_headers,
                unreadable: finding.unreadable,
            });
        }
        sink.commit().map_err(StoreError::io(target))?;
        if target.name() != place.store {
            archive.catalogue().move_platter(place.platter, target.name())?;
        }
        // With two platters of the same identifier, a rebuild would have to choose. An absent store
        // keeps its copy.
        for other in archive.stores().iter().filter(|store| store.name() != target.name() && store.check().is_ok()) {
            if let Ok(Some(_)) = other.open(place.platter)
                && misnamed(&**other).is_none()
            {
                let _ = other.remove(place.platter);
            }
        }
        record(archive, set, &finding, Some(found))
    }

    /// Writes the platter, without making it visible.
    fn write(&self, reader: &mut SetReader<'_>, watcher: &dyn Watcher) -> Result<Box<dyn PlatterSink>, ArchiveError> {
        let Self { archive, set, position, target, .. } = *self;
        let (geometry, platter) = (set.geometry, set.platters[usize::from(position)].platter);
        let header = find_set_header(archive, set)?.for_position(position);
        let header = header.to_block().map_err(|_| ArchiveError::NoHeader(set.id))?;
        let open = OpenSet::for_verification(archive, set);
        let store_error = StoreError::io(target);
        let sink = target.create(platter, geometry.file_bytes()).map_err(store_error)?;
        let mut drive = WriteDrive::load(BlankPlatter { platter, geometry, header }, sink, archive.threads()).map_err(store_error)?;
        let mut track = Track::new(geometry);
        for index in (0..geometry.information_tracks).map(TrackIndex) {
            reader.track(&open, position, index, &mut track)?;
            drive.write(&mut track).map_err(store_error)?;
            watcher.done(0, geometry.track_bytes());
        }
        Ok(drive.finish().map_err(store_error)?.sink)
    }

    fn read_back(&self, file: Arc<dyn PlatterFile>) -> Result<PlatterFinding, ArchiveError> {
        let Self { set, position, target, .. } = *self;
        let file = file.for_verification().unwrap_or(file);
        let mut finding = PlatterFinding::new(set, position);
        let platter = set.platters[usize::from(position)].platter;
        // A file that isn't visible yet can't be opened again. If it reads wrong, it is not kept.
        read_tracks(&Loaded::new(platter, set.geometry, file.clone(), target.name()), set, &mut finding, &|| None, &Unwatched)?;
        read_headers(&*file, set, &mut finding);
        Ok(finding)
    }
}

/// Whether a platter of this archive is whole under its own name. Then a file of another name that
/// is this platter, too, is only a copy.
fn is_whole(archive: &Archive, platter: PlatterId) -> Result<bool, ArchiveError> {
    let (set, position) = match set_with(archive, platter) {
        Err(ArchiveError::UnknownPlatter(_)) => return Ok(false),
        found => found?,
    };
    let (finding, _) = read_platter(archive, &OpenSet::for_verification(archive, &set), position, &Unwatched)?;
    Ok(matches!(finding.state(), PlatterState::Sound | PlatterState::Elsewhere))
}

/// A good header of a set.
pub(super) fn find_set_header(archive: &Archive, set: &SetDescription) -> Result<Header, ArchiveError> {
    let snapshot = StoreSnapshot::take(archive);
    for FoundPlatter { file, .. } in set.platters.iter().flat_map(|place| snapshot.find_all(place)) {
        let Ok(length) = file.length() else { continue };
        if let Ok(found) = find_header(length, |offset, buffer| read_exact_at(&*file, offset, buffer))
            && found.header.set == set.id
        {
            return Ok(found.header);
        }
    }
    Err(ArchiveError::NoHeader(set.id))
}
