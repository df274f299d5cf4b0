//! Simulated disks that give the guarantees of [`Volume`](fulgurite_archive::volume::Volume), and
//! no others.
//!
//! The fault model of a crash:
//! - An unsynced write may survive, be lost, or survive in part: cut at any byte, or with only some
//!   of its sectors of 512 bytes. Writes survive independently and in any order, so a later one may
//!   survive without an earlier one, and either may win where they overlap.
//! - The same holds for changes of a file's length.
//! - A name that was created, moved or removed without a sync of its directory may or may not
//!   survive, independently of others. A rename counts as two changes.
//!
//! ```text
//! durable --(changes since the last sync: each kept, dropped or torn, by a seed)--> what a reboot finds
//! ```

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use fulgurite_chance::Xorshift;

/// Random numbers from a seed.
#[derive(Clone)]
pub struct Chance(Xorshift);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(Xorshift::star_seeded(seed.wrapping_add(1)))
    }

    pub fn next(&mut self) -> u64 {
        self.0.bits() >> 11
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// Which unsynced changes survive a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Survival {
    /// None of them.
    Nothing,
    /// All of them.
    Everything,
    /// Some of them, possibly in part and reordered.
    Some(u64),
}

/// A simulated disk. Clones are cheap, so that a crash can be tried at every step.
#[derive(Clone, Default)]
pub struct Disk {
    directories: BTreeMap<String, Directory>,
    files: BTreeMap<u64, File>,
    next_file: u64,
}

#[derive(Clone, Default)]
struct Directory {
    durable: BTreeMap<String, u64>,
    current: BTreeMap<String, u64>,
    unsynced: Vec<NameChange>,
}

#[derive(Clone)]
enum NameChange {
    Is(String, u64),
    IsGone(String),
}

#[derive(Clone, Default)]
struct File {
    durable: Arc<Vec<u8>>,
    current: Arc<Vec<u8>>,
    unsynced: Vec<Change>,
}

#[derive(Clone)]
enum Change {
    Write {
        offset: usize,
        bytes: Arc<Vec<u8>>,
    },
    /// A new length. If `grows`, the file is never shortened.
    Length {
        bytes: usize,
        grows: bool,
    },
}

impl Change {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::Write { offset, bytes } => put(content, *offset, bytes),
            Self::Length { bytes, grows } => {
                if content.len() < *bytes {
                    lengthen(content, *bytes);
                } else if !grows {
                    content.truncate(*bytes);
                }
            }
        }
    }

    /// Applies part of a write, like a disk that loses power.
    fn apply_torn(&self, content: &mut Vec<u8>, chance: &mut Chance) {
        let Self::Write { offset, bytes } = self else { return self.apply(content) };
        if chance.one_in(2) {
            let cut = chance.below(bytes.len() as u64 + 1) as usize;
            return put(content, *offset, &bytes[..cut]);
        }
        for (index, sector) in bytes.chunks(512).enumerate() {
            if chance.one_in(2) {
                put(content, offset + index * 512, sector);
            }
        }
    }
}

fn put(content: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    if content.len() < offset + bytes.len() {
        lengthen(content, offset + bytes.len());
    }
    content[offset..offset + bytes.len()].copy_from_slice(bytes);
}

/// Like `resize`, which is slow in unoptimized builds because it makes a call per byte.
fn lengthen(content: &mut Vec<u8>, bytes: usize) {
    content.extend_from_slice(&vec![0; bytes - content.len()]);
}

fn split(name: &str) -> (&str, &str) {
    name.rsplit_once('/').unwrap_or(("", name))
}

fn not_found(name: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("no file {name}"))
}

impl Disk {
    pub fn new() -> Self {
        let mut disk = Self::default();
        disk.create_directory("");
        disk
    }

    fn directory(&mut self, name: &str) -> io::Result<&mut Directory> {
        self.directories.get_mut(name).ok_or_else(|| not_found(name))
    }

    pub fn find(&self, name: &str) -> io::Result<u64> {
        let (directory, file) = split(name);
        let found = self.directories.get(directory).and_then(|directory| directory.current.get(file));
        found.copied().ok_or_else(|| not_found(name))
    }

    pub fn create(&mut self, name: &str) -> io::Result<u64> {
        let number = self.next_file;
        let (directory, file) = split(name);
        let directory = self.directory(directory)?;
        if directory.current.contains_key(file) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        directory.current.insert(file.to_owned(), number);
        directory.unsynced.push(NameChange::Is(file.to_owned(), number));
        self.files.insert(number, File::default());
        self.next_file += 1;
        Ok(number)
    }

    pub fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let number = self.find(from)?;
        let (directory, file) = split(to);
        let directory = self.directory(directory)?;
        directory.current.insert(file.to_owned(), number);
        directory.unsynced.push(NameChange::Is(file.to_owned(), number));
        self.remove(from)
    }

    pub fn remove(&mut self, name: &str) -> io::Result<()> {
        let (directory, file) = split(name);
        let directory = self.directory(directory)?;
        directory.current.remove(file).ok_or_else(|| not_found(name))?;
        directory.unsynced.push(NameChange::IsGone(file.to_owned()));
        Ok(())
    }

    pub fn list(&self, directory: &str) -> io::Result<Vec<String>> {
        let directory = self.directories.get(directory).ok_or_else(|| not_found(directory))?;
        Ok(directory.current.keys().cloned().collect())
    }

    pub fn sync_directory(&mut self, directory: &str) -> io::Result<()> {
        let directory = self.directory(directory)?;
        directory.durable = directory.current.clone();
        directory.unsynced.clear();
        Ok(())
    }

    pub fn create_directory(&mut self, directory: &str) {
        self.directories.entry(directory.to_owned()).or_default();
    }

    pub fn write(&mut self, file: u64, offset: u64, bytes: &[u8]) {
        let change = Change::Write { offset: offset as usize, bytes: Arc::new(bytes.to_vec()) };
        self.change(file, change);
    }

    pub fn set_length(&mut self, file: u64, bytes: u64, grows: bool) {
        self.change(file, Change::Length { bytes: bytes as usize, grows });
    }

    fn change(&mut self, file: u64, change: Change) {
        let file = self.files.get_mut(&file).expect("files with handles stay");
        change.apply(Arc::make_mut(&mut file.current));
        file.unsynced.push(change);
    }

    pub fn sync(&mut self, file: u64) {
        let file = self.files.get_mut(&file).expect("files with handles stay");
        file.unsynced.clear();
        file.durable = file.current.clone();
    }

    /// Simulates a failed sync: the system drops what it could not write.
    pub fn lose_unsynced(&mut self, file: u64) {
        let file = self.files.get_mut(&file).expect("files with handles stay");
        file.unsynced.clear();
        file.current = file.durable.clone();
    }

    pub fn content(&self, file: u64) -> &[u8] {
        &self.files[&file].current
    }

    /// All names in all directories.
    pub fn names(&self) -> Vec<String> {
        let full = |directory: &str, file: &str| if directory.is_empty() { file.to_owned() } else { format!("{directory}/{file}") };
        self.directories.iter().flat_map(|(name, directory)| directory.current.keys().map(move |file| full(name, file))).collect()
    }

    /// Changes the content of a file permanently and unnoticed.
    pub fn damage(&mut self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let number = self.find(name).expect("a file to be damaged is there");
        let file = self.files.get_mut(&number).expect("a name has its file");
        change(Arc::make_mut(&mut file.current));
        file.unsynced.clear();
        file.durable = file.current.clone();
    }

    /// Removes a file permanently.
    pub fn lose(&mut self, name: &str) {
        self.remove(name).expect("a file to be lost is there");
        self.sync_directory(split(name).0).expect("its directory is there");
    }

    /// The state of the disk after a crash.
    pub fn crashed(&self, survival: Survival) -> Self {
        let mut after = Self { next_file: self.next_file, ..Self::default() };
        let mut chance = match survival {
            Survival::Nothing | Survival::Everything => Chance::new(0),
            Survival::Some(seed) => Chance::new(seed),
        };
        for (name, directory) in &self.directories {
            let mut names = directory.durable.clone();
            for change in &directory.unsynced {
                let survives = match survival {
                    Survival::Nothing => false,
                    Survival::Everything => true,
                    Survival::Some(_) => chance.one_in(2),
                };
                match change {
                    NameChange::Is(file, number) if survives => drop(names.insert(file.clone(), *number)),
                    NameChange::IsGone(file) if survives => drop(names.remove(file)),
                    _ => {}
                }
            }
            for number in names.values() {
                after.files.entry(*number).or_insert_with(|| self.files[number].crashed(survival, &mut chance));
            }
            after.directories.insert(name.clone(), Directory { current: names.clone(), durable: names, unsynced: Vec::new() });
        }
        after
    }
}

impl File {
    fn crashed(&self, survival: Survival, chance: &mut Chance) -> Self {
        let content = match survival {
            _ if self.unsynced.is_empty() => self.durable.clone(),
            Survival::Nothing => self.durable.clone(),
            Survival::Everything => self.current.clone(),
            Survival::Some(_) => {
                let mut content = self.durable.to_vec();
                let mut changes: Vec<&Change> = self.unsynced.iter().collect();
                for index in (1..changes.len()).rev() {
                    changes.swap(index, chance.below(index as u64 + 1) as usize);
                }
                for change in changes {
                    match chance.below(3) {
                        0 => {}
                        1 => change.apply(&mut content),
                        _ => change.apply_torn(&mut content, chance),
                    }
                }
                Arc::new(content)
            }
        };
        Self { durable: content.clone(), current: content, unsynced: Vec::new() }
    }
}
