//! A simulated world: the disk of staging, the disk of each store, the folder of the catalogue and
//! the key store, and a counter of all steps that change any of them.
//!
//! A test can photograph the world before each step. A photograph is the state after a power
//! failure at that instant, except for the fate of unsynced changes, which is simulated too; see
//! [`Survival`]. A single run of a workload thus covers every possible crash in it. A step
//! interrupted by the crash needs no case of its own: a write is one of the unsynced changes in the
//! next photograph, and an unfinished sync equals the state before it.
//!
//! A world can also fail with a full disk or an I/O error, at one step or from there on.

use std::io;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use fulgurite_archive::catalogue::{Catalogue, SqliteCatalogue};
use fulgurite_archive::keystore::SqliteKeyStore;
use fulgurite_archive::settings::Settings;
use fulgurite_archive::store::{FolderStore, PlatterStore};
use fulgurite_archive::volume::{Volume, VolumeFile};
use fulgurite_archive::{Archive, Parts, Readers};
use fulgurite_format::MasterKey;

use super::disk::{Disk, Survival};
use super::engines::{FaultyCatalogue, FaultyKeys};
use super::expected::Expected;
use crate::support::settings;

/// An injected fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Power failure: a photograph is taken, and every later step fails.
    Crash,
    /// One step finds the disk full.
    NoSpaceOnce,
    /// Disks and catalogue are full until the fault is cleared.
    NoSpace,
    /// One change fails. A write survives in part, a sync loses what it could not write, and a name
    /// may or may not have changed.
    Io,
    /// One read fails.
    ReadIo,
    /// One read returns fewer bytes than requested, which is not an error.
    ShortRead,
}

pub struct World {
    gate: Mutex<()>,
    state: Mutex<State>,
    settings: Settings,
    home: tempfile::TempDir,
    pub expected: Mutex<Expected>,
}

struct State {
    disks: Vec<Disk>,
    steps: u64,
    reads: u64,
    fault: Option<(u64, Fault)>,
    /// What the fault struck, if it has.
    struck: Option<String>,
    crashed: Option<Photograph>,
    photographer: Option<SyncSender<Photograph>>,
}

/// The state of a world after a power failure.
#[derive(Clone)]
pub struct Photograph {
    pub step: u64,
    /// The step that was about to run.
    pub what: String,
    settings: Settings,
    disks: Vec<Disk>,
    engines: Vec<(&'static str, Vec<u8>)>,
    expected: Expected,
}

const CATALOGUE: &str = "catalogue.db";
const KEYS: &str = "keys.db";
/// The databases and their logs. The third file, `-shm`, is recreated when a database is opened.
const ENGINE_FILES: [&str; 4] = [CATALOGUE, "catalogue.db-wal", KEYS, "keys.db-wal"];

impl World {
    /// A new archive with 2+1 sets on three stores.
    pub fn new(encrypt: bool) -> Arc<Self> {
        Self::with(encrypt, |_| {})
    }

    pub fn with(encrypt: bool, change: impl FnOnce(&mut Settings)) -> Arc<Self> {
        let mut settings = settings(2, 1);
        settings.archive.encrypt = encrypt;
        settings.staging.segment_mib = 1;
        change(&mut settings);
        let home = tempfile::tempdir().expect("a temporary folder");
        for (name, bytes) in new_engines(&settings) {
            std::fs::write(home.path().join(name), bytes).expect("written");
        }
        let disks = (0..=settings.stores.len()).map(|_| Disk::new()).collect();
        let world = Self::build(settings, home, disks, Expected::default());
        for store in world.stores() {
            store.mark().expect("a new store");
        }
        world.state().steps = 0;
        world
    }

    fn build(settings: Settings, home: tempfile::TempDir, disks: Vec<Disk>, expected: Expected) -> Arc<Self> {
        let state = State { disks, steps: 0, reads: 0, fault: None, struck: None, crashed: None, photographer: None };
        Arc::new(Self { gate: Mutex::new(()), state: Mutex::new(state), settings, home, expected: Mutex::new(expected) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("not poisoned")
    }

    /// Held while the engines change their files, so that no photograph is taken meanwhile.
    pub fn gate(&self) -> MutexGuard<'_, ()> {
        self.gate.lock().expect("not poisoned")
    }

    /// A store by its index in the settings.
    pub fn store(self: &Arc<Self>, index: usize) -> Arc<dyn PlatterStore> {
        self.stores().swap_remove(index)
    }

    fn stores(self: &Arc<Self>) -> Vec<Arc<dyn PlatterStore>> {
        let store = |(disk, store): (usize, &fulgurite_archive::settings::StoreSettings)| -> Arc<dyn PlatterStore> {
            let volume = Arc::new(SimVolume { world: self.clone(), disk });
            Arc::new(FolderStore::new(store.name.clone(), self.settings.archive.id, volume))
        };
        (1..).zip(&self.settings.stores).map(store).collect()
    }

    /// Assembles the archive without reconciling it.
    pub fn assemble(self: &Arc<Self>) -> Result<Archive, String> {
        self.assemble_with(CATALOGUE)
    }

    fn assemble_with(self: &Arc<Self>, catalogue: &str) -> Result<Archive, String> {
        let catalogue = SqliteCatalogue::open(&self.path(catalogue), self.settings.archive.id).map_err(|error| error.to_string())?;
        let keys = SqliteKeyStore::open(&self.path(KEYS), self.settings.archive.id).map_err(|error| error.to_string())?;
        let parts = Parts {
            settings: self.settings.clone(),
            catalogue: Box::new(FaultyCatalogue { world: self.clone(), engine: catalogue }),
            keys: Box::new(FaultyKeys { world: self.clone(), engine: keys }),
            readers: Readers::default(),
            master_key: MasterKey::new([0x3c; 32]),
            staging: Arc::new(SimVolume { world: self.clone(), disk: 0 }),
            stores: self.stores(),
        };
        Ok(Archive::assemble(self.home.path(), parts))
    }

    /// Opens the archive as `Archive::open` does.
    pub fn open(self: &Arc<Self>) -> Result<Archive, String> {
        let archive = self.assemble()?;
        archive.reconcile().map_err(|error| format!("reconciling: {error}"))?;
        Ok(archive)
    }

    /// Rebuilds the catalogue from stores and staging, and opens the archive with it, without
    /// reconciling.
    pub fn rebuild(self: &Arc<Self>) -> Result<Archive, String> {
        self.rebuild_from(None)
    }

    /// Rebuilds the catalogue with the help of the existing one, as `catalogue rebuild` does.
    pub fn rebuild_with_earlier(self: &Arc<Self>) -> Result<Archive, String> {
        let earlier = self.path("earlier.db");
        // Opening it brings everything from its log into the file.
        drop(self.assemble()?);
        std::fs::copy(self.path(CATALOGUE), &earlier).map_err(|error| error.to_string())?;
        let mut earlier = SqliteCatalogue::open_read_only(&earlier, self.settings.archive.id).map_err(|error| error.to_string())?;
        self.rebuild_from(Some(&mut earlier))
    }

    fn rebuild_from(self: &Arc<Self>, earlier: Option<&mut dyn Catalogue>) -> Result<Archive, String> {
        let fresh = new_engines(&self.settings).into_iter().find(|(name, _)| *name == CATALOGUE).expect("made with the others").1;
        for suffix in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(self.path(&format!("{CATALOGUE}{suffix}")));
        }
        std::fs::write(self.path(CATALOGUE), fresh).map_err(|error| error.to_string())?;
        let archive = self.assemble()?;
        archive.rebuild_from(earlier, None, &fulgurite_archive::watch::Unwatched).map_err(|error| format!("rebuild: {error}"))?;
        Ok(archive)
    }

    pub fn path(&self, name: &str) -> std::path::PathBuf {
        self.home.path().join(name)
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Sends a photograph before each step from now on.
    pub fn photograph_to(&self, photographer: Option<SyncSender<Photograph>>) {
        self.state().photographer = photographer;
    }

    pub fn photograph(&self, what: &str) -> Photograph {
        let _gate = self.gate();
        self.expose(&self.state(), what)
    }

    /// Injects a fault at step `at` from now.
    pub fn strike(&self, at: u64, fault: Fault) {
        let mut state = self.state();
        let from = if matches!(fault, Fault::ReadIo | Fault::ShortRead) { state.reads } else { state.steps };
        state.fault = Some((from + at, fault));
        state.struck = None;
    }

    /// Clears the fault, and returns what it struck, if anything.
    pub fn calm(&self) -> Option<String> {
        let mut state = self.state();
        state.fault = None;
        state.struck.take()
    }

    pub fn has_struck(&self) -> bool {
        self.state().struck.is_some()
    }

    /// The photograph taken when [`Fault::Crash`] struck.
    pub fn crash(&self) -> Option<Photograph> {
        self.state().crashed.clone()
    }

    pub fn steps(&self) -> u64 {
        self.state().steps
    }

    /// Names of all platter files, complete or not, with their stores.
    pub fn platter_files(&self) -> Vec<String> {
        let state = self.state();
        let mut names = Vec::new();
        for (disk, store) in state.disks[1..].iter().zip(&self.settings.stores) {
            names.extend(disk.names().iter().filter_map(|name| Some(format!("{}/{}", store.name, name.strip_prefix("platters/")?))));
        }
        names.sort();
        names
    }

    /// The disk of staging (0) or of a store (from 1).
    pub fn disk<T>(&self, disk: usize, work: impl FnOnce(&mut Disk) -> T) -> T {
        work(&mut self.state().disks[disk])
    }

    pub fn disks(&self) -> usize {
        self.state().disks.len()
    }

    fn expose(&self, state: &State, what: &str) -> Photograph {
        // Read the log after the database: a checkpoint moves content from the log to the database,
        // never back.
        let read = |name: &'static str| Some((name, std::fs::read(self.path(name)).ok()?));
        Photograph {
            step: state.steps,
            what: what.to_owned(),
            settings: self.settings.clone(),
            disks: state.disks.clone(),
            engines: ENGINE_FILES.into_iter().filter_map(read).collect(),
            expected: self.expected.lock().expect("not poisoned").clone(),
        }
    }

    /// A step of an engine that holds the gate.
    pub fn step_in_gate(&self, what: &str) -> io::Result<()> {
        let mut state = self.state();
        let photograph = state.photographer.clone().map(|photographer| (photographer, self.expose(&state, what)));
        let struck = self.strikes(&mut state, what, !what.starts_with("learn"));
        drop(state);
        if let Some((photographer, photograph)) = photograph {
            let _ = photographer.send(photograph);
        }
        struck
    }

    /// Counts a step, and returns the injected error if it fails.
    fn strikes(&self, state: &mut State, what: &str, takes_space: bool) -> io::Result<()> {
        if state.crashed.is_some() {
            return Err(io::Error::other("there is no power"));
        }
        let step = state.steps;
        let Some((at, fault)) = state.fault else {
            state.steps += 1;
            return Ok(());
        };
        let failure = match fault {
            Fault::Crash if step == at => {
                state.crashed = Some(self.expose(state, what));
                Some(io::Error::other("there is no power"))
            }
            Fault::NoSpaceOnce if step >= at && takes_space && state.struck.is_none() => Some(io::ErrorKind::StorageFull.into()),
            Fault::NoSpace if step >= at && takes_space => Some(io::ErrorKind::StorageFull.into()),
            Fault::Io if step == at => Some(io::Error::from_raw_os_error(5)),
            _ => None,
        };
        state.steps += 1;
        match failure {
            Some(error) => {
                state.struck.get_or_insert_with(|| format!("step {step}, {what}"));
                Err(error)
            }
            None => Ok(()),
        }
    }
}

impl Photograph {
    /// Builds the world after the power is back.
    pub fn reboot(&self, survival: Survival) -> Arc<World> {
        let home = tempfile::tempdir().expect("a temporary folder");
        for (name, bytes) in &self.engines {
            std::fs::write(home.path().join(name), bytes).expect("written");
        }
        let disk = |(index, disk): (u64, &Disk)| {
            disk.crashed(match survival {
                Survival::Some(seed) => Survival::Some(seed.wrapping_mul(31).wrapping_add(index)),
                other => other,
            })
        };
        let disks = (0..).zip(&self.disks).map(disk).collect();
        World::build(self.settings.clone(), home, disks, self.expected.clone())
    }
}

/// The files of an empty catalogue and an empty key store, made once.
fn new_engines(settings: &Settings) -> Vec<(&'static str, Vec<u8>)> {
    static FILES: OnceLock<Vec<(&str, Vec<u8>)>> = OnceLock::new();
    let make = || {
        let folder = tempfile::tempdir().expect("a temporary folder");
        drop(SqliteCatalogue::create(&folder.path().join(CATALOGUE), settings.archive.id).expect("a catalogue"));
        drop(SqliteKeyStore::create(&folder.path().join(KEYS), settings.archive.id).expect("a key store"));
        [CATALOGUE, KEYS].map(|name| (name, std::fs::read(folder.path().join(name)).expect("closed"))).to_vec()
    };
    FILES.get_or_init(make).clone()
}

struct SimVolume {
    world: Arc<World>,
    disk: usize,
}

impl SimVolume {
    /// Runs a step, or makes it fail. `change` receives how much of the step to apply.
    fn step<T>(&self, what: &str, takes_space: bool, change: impl FnOnce(&mut Disk, Doing) -> io::Result<T>) -> io::Result<T> {
        let world = &self.world;
        let _gate = world.gate();
        let mut state = world.state();
        let what = || format!("{what} on disk {}", self.disk);
        let photograph = state.photographer.clone().map(|photographer| (photographer, world.expose(&state, &what())));
        let struck = world.strikes(&mut state, &what(), takes_space);
        let doing = match &struck {
            Ok(()) => Doing::All,
            Err(_) if state.crashed.is_some() || state.steps.is_multiple_of(2) => Doing::Nothing,
            Err(error) if error.kind() == io::ErrorKind::StorageFull => Doing::Nothing,
            Err(_) => Doing::Badly,
        };
        let disk = &mut state.disks[self.disk];
        let result = if doing == Doing::Nothing { Err(io::ErrorKind::Other.into()) } else { change(disk, doing) };
        drop(state);
        if let Some((photographer, photograph)) = photograph {
            let _ = photographer.send(photograph);
        }
        struck.and(result)
    }

    fn look<T>(&self, look: impl FnOnce(&Disk) -> io::Result<T>) -> io::Result<T> {
        let state = self.world.state();
        if state.crashed.is_some() {
            return Err(io::Error::other("there is no power"));
        }
        look(&state.disks[self.disk])
    }

    fn file(&self, file: u64) -> Box<dyn VolumeFile> {
        Box::new(SimFile { volume: Self { world: self.world.clone(), disk: self.disk }, file })
    }
}

/// How much of a step is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    All,
    Badly,
    Nothing,
}

impl Volume for SimVolume {
    fn create(&self, name: &str) -> io::Result<Box<dyn VolumeFile>> {
        let file = self.step(&format!("create {name}"), true, |disk, _| disk.create(name))?;
        Ok(self.file(file))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn VolumeFile>> {
        let file = self.look(|disk| disk.find(name))?;
        Ok(self.file(file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.step(&format!("rename {from} to {to}"), true, |disk, _| disk.rename(from, to))
    }

    fn cut(&self, name: &str, bytes: u64) -> io::Result<()> {
        let file = self.open(name)?;
        file.set_length(bytes)?;
        file.sync()
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.step(&format!("remove {name}"), false, |disk, _| disk.remove(name))
    }

    fn list(&self, directory: &str) -> io::Result<Vec<String>> {
        self.look(|disk| disk.list(directory))
    }

    fn sync_directory(&self, directory: &str) -> io::Result<()> {
        self.step(&format!("sync directory {directory:?}"), false, |disk, doing| match doing {
            Doing::All => disk.sync_directory(directory),
            _ => Ok(()),
        })
    }

    fn create_directory(&self, directory: &str) -> io::Result<()> {
        self.step(&format!("create directory {directory:?}"), true, |disk, _| {
            disk.create_directory(directory);
            Ok(())
        })
    }

    fn free_bytes(&self) -> Option<u64> {
        None
    }

    fn describe(&self) -> String {
        format!("disk {}", self.disk)
    }
}

struct SimFile {
    volume: SimVolume,
    file: u64,
}

impl VolumeFile for SimFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.volume.step(&format!("write {} bytes at {offset}", bytes.len()), true, |disk, doing| {
            let bytes = if doing == Doing::All { bytes } else { &bytes[..bytes.len() / 2] };
            disk.write(self.file, offset, bytes);
            Ok(())
        })
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut state = self.volume.world.state();
        if state.crashed.is_some() {
            return Err(io::Error::other("there is no power"));
        }
        let read = state.reads;
        state.reads += 1;
        let mut end = buffer.len();
        match state.fault {
            Some((at, fault @ (Fault::ReadIo | Fault::ShortRead))) if at == read => {
                state.struck = Some(format!("reading {read}"));
                if fault == Fault::ReadIo {
                    return Err(io::Error::from_raw_os_error(5));
                }
                end = end.min(1 + end / 3);
            }
            _ => {}
        }
        let content = state.disks[self.volume.disk].content(self.file);
        let content = content.get(offset as usize..).unwrap_or(&[]);
        let bytes = end.min(content.len());
        buffer[..bytes].copy_from_slice(&content[..bytes]);
        Ok(bytes)
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        self.volume.step(&format!("allocate {bytes} bytes"), true, |disk, _| {
            disk.set_length(self.file, bytes, true);
            Ok(())
        })
    }

    fn set_length(&self, bytes: u64) -> io::Result<()> {
        self.volume.step(&format!("set length to {bytes}"), false, |disk, _| {
            disk.set_length(self.file, bytes, false);
            Ok(())
        })
    }

    fn length(&self) -> io::Result<u64> {
        self.volume.look(|disk| Ok(disk.content(self.file).len() as u64))
    }

    fn sync(&self) -> io::Result<()> {
        self.volume.step("sync a file", true, |disk, doing| {
            match doing {
                Doing::All => disk.sync(self.file),
                _ => disk.lose_unsynced(self.file),
            }
            Ok(())
        })
    }

    fn forget_cached(&self) {}
}
