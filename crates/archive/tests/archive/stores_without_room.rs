//! Stores that have no room, or refuse what is written to them, while others take it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use crate::support::different_store::{Difference, open_on};
use crate::support::{Home, Troubles, get_all, noise, put_all};
use fulgurite_archive::archive::CATALOGUE_FILE;
use fulgurite_archive::settings::StoreSettings;
use fulgurite_archive::store::{PlatterFile, PlatterSink, PlatterStore};
use fulgurite_archive::watch::Unwatched;
use fulgurite_archive::{Archive, ArchiveError};
use fulgurite_domain::PlatterId;

/// What a store does when platters are written to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mood {
    /// Says that it has so many bytes free, and has them.
    Free(u64),
    /// Says that it has all the room in the world, and refuses to make a file.
    Refuses(io::ErrorKind),
    /// The same, but refuses only at the end of a platter.
    RefusesLate(io::ErrorKind),
}

const PLENTY: Mood = Mood::Free(1 << 40);

/// The moods of stores by their names.
#[derive(Clone, Default)]
struct Moods(Arc<Mutex<BTreeMap<String, Mood>>>);

impl Moods {
    fn of(&self, store: &dyn PlatterStore) -> Mood {
        self.0.lock().expect("no panic").get(store.name()).copied().unwrap_or(PLENTY)
    }

    fn set(&self, store: &str, mood: Mood) {
        self.0.lock().expect("no panic").insert(store.to_owned(), mood);
    }
}

struct Sink(Box<dyn PlatterSink>, Option<io::ErrorKind>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl PlatterSink for Sink {
    fn finish(&mut self) -> io::Result<Arc<dyn PlatterFile>> {
        match self.1 {
            Some(kind) => Err(kind.into()),
            None => self.0.finish(),
        }
    }

    fn commit(self: Box<Self>) -> io::Result<()> {
        match self.1 {
            Some(kind) => Err(kind.into()),
            None => self.0.commit(),
        }
    }
}

impl Difference for Moods {
    fn create(&self, inner: &dyn PlatterStore, platter: PlatterId, bytes: u64) -> io::Result<Box<dyn PlatterSink>> {
        match self.of(inner) {
            Mood::Free(free) if free < bytes => Err(io::ErrorKind::StorageFull.into()),
            Mood::Refuses(kind) => Err(kind.into()),
            Mood::Free(_) => inner.create(platter, bytes),
            Mood::RefusesLate(kind) => Ok(Box::new(Sink(inner.create(platter, bytes)?, Some(kind)))),
        }
    }

    fn free_bytes(&self, inner: &dyn PlatterStore) -> Option<u64> {
        match self.of(inner) {
            Mood::Free(free) => Some(free),
            Mood::Refuses(_) | Mood::RefusesLate(_) => Some(u64::MAX),
        }
    }
}

/// An archive with sets of 2+1 platters on five stores, d0 to d4. The first three have the most
/// free space.
struct Scene {
    home: Home,
    moods: Moods,
    archive: Archive,
    files: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Scene {
    fn new() -> Self {
        let store = |number| StoreSettings { name: format!("d{number}"), path: format!("stores/d{number}").into() };
        let home = Home::with(2, 1, |settings| settings.stores = (0..5).map(store).collect());
        let moods = Moods::default();
        for store in ["d3", "d4"] {
            moods.set(store, Mood::Free(1 << 30));
        }
        let archive = open_on(&home, CATALOGUE_FILE, || moods.clone());
        let files: BTreeMap<_, _> = (0..4).map(|i| (vec![b'a' + i], noise(i.into(), 200_000))).collect();
        put_all(&archive, &files);
        Self { home, moods, archive, files }
    }

    fn flushed() -> Self {
        let scene = Self::new();
        scene.archive.flush(&Unwatched).expect("flushed");
        assert_eq!(scene.stores(), ["d0", "d1", "d2"]);
        scene
    }

    fn set(&self, store: &str, mood: Mood) {
        self.moods.set(store, mood);
    }

    /// The stores that the catalogue names, in the order of their names; each has its one platter.
    fn stores(&self) -> Vec<String> {
        let places = self.archive.catalogue().platters().expect("platters");
        let mut stores: Vec<String> = places.into_iter().map(|row| row.place.store).collect();
        stores.sort();
        let on_disk: Vec<PathBuf> = self.home.platter_files();
        let on_disk: Vec<&str> =
            on_disk.iter().map(|file| file.iter().rev().nth(2).and_then(|name| name.to_str()).expect("a store")).collect();
        assert_eq!(stores, on_disk);
        stores
    }

    fn damage(&self, store: usize) {
        let file = &self.home.platter_files()[store];
        let mut image = fs::read(file).expect("readable");
        image.truncate(image.len() / 2);
        fs::write(file, image).expect("written");
    }

    fn assert_whole(&self) {
        assert!(self.archive.scrub(None, &Unwatched).expect("scrubbed").unsound.is_empty());
        assert_eq!(get_all(&self.archive, &Unwatched).1, self.files);
    }
}

#[test]
fn a_platter_whose_store_is_full_is_rebuilt_on_another_one() {
    for mood in [Mood::Free(1_000), Mood::Refuses(io::ErrorKind::QuotaExceeded), Mood::RefusesLate(io::ErrorKind::StorageFull)] {
        let scene = Scene::flushed();
        scene.set("d1", mood);
        // The store with the most free space can't take it either.
        scene.set("d3", Mood::Refuses(io::ErrorKind::StorageFull));
        scene.damage(1);
        let troubles = Troubles::default();
        let report = scene.archive.scrub(Some(Default::default()), &troubles).expect("scrubbed");
        let notes = troubles.take();
        assert_eq!((report.unsound.len(), report.rebuilt), (1, 1), "{notes:?}");
        assert!(notes.iter().any(|note| note.contains("was written to store d4: ") && note.contains("store d1")), "{notes:?}");
        assert_eq!(scene.stores(), ["d0", "d2", "d4"]);
        scene.assert_whole();
    }
}

#[test]
fn a_missing_platter_is_rebuilt_on_a_store_with_room() {
    let scene = Scene::flushed();
    scene.set("d0", Mood::Free(500_000));
    let platter = scene.archive.catalogue().platters().expect("platters").into_iter().find(|row| row.place.store == "d0");
    fs::remove_file(&scene.home.platter_files()[0]).expect("removed");
    let store = scene.archive.recover(platter.expect("one").place.platter, None, &Unwatched).expect("recovered");
    assert!(store == "d3" || store == "d4", "{store}");
    assert_eq!(scene.stores(), ["d1", "d2", &store]);
    scene.assert_whole();
}

#[test]
fn a_platter_that_fits_no_store_stays_and_the_error_says_what_to_do() {
    let scene = Scene::flushed();
    for store in ["d1", "d3", "d4"] {
        scene.set(store, Mood::Free(1_000));
    }
    scene.damage(1);
    let troubles = Troubles::default();
    let report = scene.archive.scrub(Some(Default::default()), &troubles).expect("scrubbed");
    assert_eq!((report.unsound.len(), report.rebuilt), (1, 0));
    let notes = troubles.take().join("\n");
    for text in ["store d1 (", "store d3 (", "has 1000 bytes free, a platter needs", "`fulgurite store add FOLDER`", "--store NAME`"] {
        assert!(notes.contains(text), "{text}: {notes}");
    }
    let platter = report.unsound[0].platter;
    let error = scene.archive.recover(platter, Some("d3"), &Unwatched).expect_err("it is full").to_string();
    assert!(error.contains("store d3") && error.contains("has 1000 bytes free"), "{error}");
    assert_eq!(scene.stores(), ["d0", "d1", "d2"]);
    assert_eq!(get_all(&scene.archive, &Unwatched).1, scene.files);
}

#[test]
fn a_replacement_never_joins_a_platter_of_its_set_that_was_moved() {
    let scene = Scene::flushed();
    // By the catalogue, d3 has no platter of the set.
    let moved = scene.home.platter_files()[2].clone();
    let folder = scene.home.path().join("stores/d3/platters");
    fs::rename(&moved, folder.join(moved.file_name().expect("a name"))).expect("moved");
    scene.set("d1", Mood::Free(1_000));
    scene.set("d2", Mood::Free(1_000));
    scene.set("d3", PLENTY);
    scene.damage(1);
    scene.archive.scrub(Some(Default::default()), &Unwatched).expect("scrubbed");
    assert_eq!(scene.stores(), ["d0", "d3", "d4"]);
    scene.assert_whole();
}

#[test]
fn a_store_that_refuses_a_platter_is_left_out_of_the_set() {
    for mood in [Mood::Refuses(io::ErrorKind::StorageFull), Mood::RefusesLate(io::ErrorKind::QuotaExceeded)] {
        let scene = Scene::new();
        scene.set("d0", mood);
        scene.set("d2", Mood::Refuses(io::ErrorKind::Other));
        let troubles = Troubles::default();
        let report = scene.archive.flush(&troubles).expect("flushed");
        assert_eq!((report.sets, report.platters, report.versions), (1, 3, 4));
        let notes = troubles.take().join("\n");
        assert!(notes.contains("store d0 (") && notes.contains("The set was written to other stores"), "{notes}");
        assert_eq!(scene.stores(), ["d1", "d3", "d4"]);
        scene.assert_whole();
    }
}

#[test]
fn a_set_without_enough_stores_stays_staged_and_the_error_names_those_that_refused() {
    let scene = Scene::new();
    for store in ["d0", "d1", "d4"] {
        scene.set(store, Mood::Refuses(io::ErrorKind::QuotaExceeded));
    }
    let error = scene.archive.flush(&Unwatched).expect_err("two stores are left");
    let text = error.to_string();
    assert!(matches!(error, ArchiveError::TooFewStores { available: 2, .. }), "{text}");
    assert!(["store d0 (", "store d1 (", "store d4 ("].iter().all(|store| text.contains(store)), "{text}");
    assert!(scene.stores().is_empty());
    // The reason has passed.
    scene.set("d0", PLENTY);
    assert_eq!(scene.archive.flush(&Unwatched).expect("flushed").versions, 4);
    scene.assert_whole();
}
