//! A simulated world with faulty disks, catalogue and key store, for tests of what an archive
//! survives.
#![allow(unreachable_pub)]

pub mod disk;
pub mod engines;
pub mod expected;
pub mod world;

use std::cell::Cell;
use std::sync::Arc;

use fulgurite_archive::catalogue::SetState;
use fulgurite_archive::watch::Unwatched;
use fulgurite_archive::{Archive, ArchiveError, Source};
use fulgurite_domain::ObjectName;

use expected::{Expected, Put, rows};
use world::World;

/// An archive in a simulated world, with the state that its users expect.
pub struct Scene {
    pub world: Arc<World>,
    pub archive: Archive,
    puts: u64,
    /// True if no removal has failed since the archive was opened.
    fresh: Cell<bool>,
}

impl Scene {
    pub fn open(world: Arc<World>) -> Result<Self, String> {
        let archive = world.open()?;
        Ok(Self { archive, world, puts: 0, fresh: Cell::new(true) })
    }

    /// Reopens the archive, as after the end of its process.
    pub fn reopen(self) -> Result<Self, String> {
        let Self { world, archive, puts, .. } = self;
        drop(archive);
        Ok(Self { puts, ..Self::open(world)? })
    }

    pub fn expected(&self) -> Expected {
        self.world.expected.lock().expect("not poisoned").clone()
    }

    /// Puts objects with these names and lengths in one call.
    pub fn put(&mut self, objects: &[(&str, usize)]) -> Result<(), ArchiveError> {
        let puts: Vec<Put> =
            (self.puts + 1..).zip(objects).map(|(number, &(name, bytes))| Put { name: name.to_owned(), number, bytes }).collect();
        self.puts += puts.len() as u64;
        self.world.expected.lock().expect("not poisoned").begin_put(&puts);
        let sources: Vec<Source> = puts.iter().map(source).collect();
        let report = self.archive.put(sources.into_iter(), &Unwatched)?;
        assert_eq!((report.objects, report.failed), (puts.len() as u64, 0), "a put that succeeds puts everything");
        self.world.expected.lock().expect("not poisoned").put(&puts);
        Ok(())
    }

    /// Sets the counter of puts, so that no two have the same content.
    pub fn count_from(&mut self, puts: u64) {
        self.puts = puts;
    }

    /// Removes the newest version of a name, if any.
    pub fn remove(&self, name: &str) -> Result<(), ArchiveError> {
        let Some(row) = self.archive.catalogue().versions_of(&ObjectName(name.as_bytes().to_vec()))?.into_iter().next() else {
            return Ok(());
        };
        let newest = self.expected().must().iter().filter(|put| put.name == name).max_by_key(|put| put.number).cloned();
        let newest = newest.expect("versions in the catalogue are expected, once the outcome of a failed put was checked");
        self.world.expected.lock().expect("not poisoned").begin_removal(&newest, row.id);
        let fresh = self.fresh.replace(false);
        self.archive.remove(std::slice::from_ref(&row))?;
        self.fresh.set(fresh);
        self.world.expected.lock().expect("not poisoned").removed(&newest, row.id);
        Ok(())
    }

    pub fn flush(&self) -> Result<(), ArchiveError> {
        self.archive.flush(&Unwatched).map(drop)
    }

    /// Checks that everything acknowledged is readable, and that nothing else exists.
    pub fn check(&self) -> Result<(), String> {
        let found = self.expected().check(&self.archive)?;
        // The outcome of unacknowledged changes is known from here on.
        let mut expected = self.world.expected.lock().expect("not poisoned");
        expected.found(&found);
        if self.fresh.get() {
            expected.opened();
        }
        expected.check_keys(&self.archive)
    }

    pub fn check_tidy(&self) -> Result<(), String> {
        let platters = self.archive.catalogue().platters().map_err(|error| error.to_string())?;
        for file in self.world.platter_files() {
            if !platters.iter().any(|row| row.state == SetState::Complete && file.ends_with(&format!("/{}.platter", row.place.platter))) {
                return Err(format!("{file} exists but belongs to no set"));
            }
        }
        if let Some(row) = platters.iter().find(|row| row.state != SetState::Complete) {
            return Err(format!("set {} is still being written", row.set));
        }
        let used = self.archive.catalogue().segments_in_use().map_err(|error| error.to_string())?;
        let existing = self.archive.staging().segments().map_err(|error| error.to_string())?;
        if existing != used {
            return Err(format!("segments {existing:?} exist, but {used:?} are needed"));
        }
        self.archive.catalogue().check().map_err(|error| error.to_string())?;
        self.archive.keys().check().map_err(|error| error.to_string())
    }

    /// Checks that the archive still works.
    pub fn check_usable(&mut self) -> Result<(), String> {
        let says = |what: &str, error: ArchiveError| format!("{what} afterwards: {error}");
        self.put(&[("afterwards", 3_000)]).map_err(|error| says("put", error))?;
        self.flush().map_err(|error| says("flush", error))?;
        let staged: Vec<_> = rows(&self.archive)?.into_iter().filter(|row| !row.archived).collect();
        if !staged.is_empty() {
            return Err(format!("{} versions are still staged after a flush", staged.len()));
        }
        self.check()
    }
}

fn source(put: &Put) -> Source {
    Source::Stream { reader: Box::new(std::io::Cursor::new(put.content())), name: ObjectName(put.name.clone().into_bytes()) }
}
