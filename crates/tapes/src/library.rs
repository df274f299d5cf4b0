//! The library as a place: volumes, drives, and what the drives did.
//!
//! A location is `VOLUME/PATH`. A file is read in a drive that has its volume, or else in a free
//! one, which unloads what it has. A drive is taken only while it reads; in between, its tape stays
//! where it was, so that the next file of the volume needs no loading.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use fulgurite_places::{Cause, Connection, Listed, Place, Refusal, VolumePosition};
use fulgurite_settings::SettingErrors;

use crate::index::{Extent, IndexError, Label, Partition, TapeFile, read_index, read_label};
use crate::motion::TapePosition;
use crate::settings::{FILE, TapeSettings};

/// Bytes that are read and passed on at a time. Readers measure rates from the first to the last.
const PIECE_BYTES: usize = 64 << 10;
/// The files of a volume.
const PARTS: [&str; 4] = ["label.xml", "index.xml", "a", "b"];
/// How long a volume that can't be used isn't tried again. An index may take seconds to read.
const UNUSABLE_FOR: Duration = Duration::from_secs(10);
/// Wraps of the partition `a`; those of `b` follow.
const FIRST_PARTITION_WRAPS: u64 = 2;

/// A tape library in a folder.
#[derive(Clone)]
pub struct TapeLibrary(Arc<Library>);

struct Library {
    folder: PathBuf,
    settings: TapeSettings,
    drives: Mutex<Vec<Drive>>,
    freed: Condvar,
    /// Volumes whose indexes were read last, the newest first: one for each drive.
    volumes: Mutex<VecDeque<(String, Arc<Slot>)>>,
}

/// What a drive did, in the library's own time.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct DriveFigures {
    /// Tapes that it loaded.
    pub loads: u64,
    /// Locates that moved the tape.
    pub locates: u64,
    /// Bytes that it read.
    pub bytes: u64,
    /// Seconds in which it loaded, rewound and unloaded.
    pub loading_s: f64,
    /// Seconds in which it located.
    pub locating_s: f64,
    /// Seconds in which it read.
    pub reading_s: f64,
}

impl DriveFigures {
    /// Seconds in which it did any of these.
    #[must_use]
    pub fn busy_s(&self) -> f64 {
        self.loading_s + self.locating_s + self.reading_s
    }
}

#[derive(Debug, Default)]
struct Drive {
    is_taken: bool,
    loaded: Option<String>,
    position: TapePosition,
    /// Rises with each use of any drive.
    used: u64,
    figures: DriveFigures,
}

/// A volume, or why and when it could not be used. Locked while its index is read, so that it is
/// read once and others don't wait for it.
type Slot = Mutex<Option<Result<Arc<Volume>, (Refusal, Instant)>>>;

/// A volume whose index was read.
struct Volume {
    label: Label,
    files: HashMap<String, TapeFile>,
}

impl TapeLibrary {
    /// Opens the library in a folder.
    ///
    /// # Errors
    /// If its settings are wrong or missing.
    pub fn open(folder: &Path) -> Result<Self, SettingErrors> {
        let settings = TapeSettings::read(folder)?;
        Ok(Self(Arc::new(Library {
            folder: folder.to_owned(),
            settings,
            drives: Mutex::new((0..settings.drives).map(|_| Drive::default()).collect()),
            freed: Condvar::new(),
            volumes: Mutex::default(),
        })))
    }

    /// Its settings.
    #[must_use]
    pub fn settings(&self) -> &TapeSettings {
        &self.0.settings
    }

    /// What each drive did so far.
    #[must_use]
    pub fn figures(&self) -> Vec<DriveFigures> {
        lock(&self.0.drives).iter().map(|drive| drive.figures).collect()
    }

    /// The names of all volumes, in order.
    ///
    /// # Errors
    /// If the folder can't be read.
    pub fn volumes(&self) -> Result<Vec<String>, Refusal> {
        self.0.volume_names()
    }

    /// Passes the files of a volume to `each` until it returns false, in the order of its index.
    ///
    /// # Errors
    /// If the volume can't be used. `each` may have received files before.
    pub fn files(&self, volume: &str, each: &mut dyn FnMut(TapeFile) -> bool) -> Result<(), Refusal> {
        self.0.read_volume(volume, each).map(|_| ())
    }
}

impl Place for TapeLibrary {
    fn connect(&self) -> Result<Box<dyn Connection>, Refusal> {
        match std::fs::metadata(self.0.folder.join(FILE)) {
            Ok(_) => Ok(Box::new(TapeConnection { library: self.0.clone(), drive: None })),
            Err(error) => Err(Refusal::new(Cause::Connection, format!("{}: {error}", self.0.folder.join(FILE).display()))),
        }
    }

    fn describe(&self) -> String {
        format!("the tape library in {}", self.0.folder.display())
    }
}

struct TapeConnection {
    library: Arc<Library>,
    /// The drive that it used last.
    drive: Option<usize>,
}

impl Connection for TapeConnection {
    fn length(&mut self, location: &str) -> Result<u64, Refusal> {
        self.library.find(location, |_, file| file.bytes)
    }

    fn read(&mut self, location: &str, sink: &mut dyn FnMut(&[u8]) -> bool) -> Result<u64, Refusal> {
        let (label, file) = self.library.find(location, |volume, file| (volume.label.clone(), file.clone()))?;
        let (volume, _) = split(location)?;
        let mut taken = self.library.take_drive(volume, self.drive);
        self.drive = Some(taken.index);
        taken.load();
        taken.read(volume, &label, &file, sink)
    }

    fn list(&mut self, each: &mut dyn FnMut(Listed) -> bool) -> Result<(), Refusal> {
        for volume in self.library.volume_names()? {
            let mut goes_on = true;
            let uuid = self.library.label(&volume)?.uuid;
            self.library.read_volume(&volume, &mut |file| {
                let (partition, block) = file.first_block();
                let position = VolumePosition::in_partition(volume.clone(), partition == Partition::B, block);
                goes_on = each(Listed {
                    position: Some(VolumePosition { medium: Some(uuid.clone()), ..position }),
                    digest: file.digest,
                    ..Listed::new(format!("{volume}/{}", file.path), Some(file.bytes))
                });
                goes_on
            })?;
            if !goes_on {
                return Ok(());
            }
        }
        Ok(())
    }

    fn write(&mut self, _: &str, _: u64, _: &mut dyn Read) -> Result<(), Refusal> {
        Err(read_only())
    }

    fn remove(&mut self, _: &str) -> Result<(), Refusal> {
        Err(read_only())
    }

    fn presigned_url(&mut self, _: &str, _: Duration) -> Result<Option<String>, Refusal> {
        Ok(None)
    }
}

fn read_only() -> Refusal {
    Refusal::new(Cause::Unsupported, "tapes are only read; a whole tape is released at once, outside of this program")
}

/// Splits a location into the volume and the path on it.
fn split(location: &str) -> Result<(&str, &str), Refusal> {
    // Files are on volumes, and nowhere else.
    let (volume, path) = location.split_once('/').ok_or_else(|| Refusal::new(Cause::Missing, ""))?;
    if volume.is_empty() || volume == "." || volume == ".." || path.is_empty() {
        return Err(Refusal::new(Cause::Unsupported, format!("{location:?} is not VOLUME/PATH")));
    }
    Ok((volume, path))
}

impl Library {
    fn volume_names(&self) -> Result<Vec<String>, Refusal> {
        let here = |error: io::Error| Refusal::new(Cause::Fault, format!("{}: {error}", self.folder.display()));
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.folder).map_err(here)? {
            let entry = entry.map_err(here)?;
            let path = entry.path();
            let failed = |error: io::Error| Refusal::new(Cause::Fault, format!("{}: {error}", path.display()));
            // Of a file system, and no volume.
            if entry.file_name() == "lost+found" || !std::fs::metadata(&path).map_err(failed)?.is_dir() {
                continue;
            }
            let mut is_volume = false;
            for part in std::fs::read_dir(&path).map_err(failed)? {
                // A volume that has lost some of its files is still one.
                is_volume |= PARTS.iter().any(|known| part.as_ref().is_ok_and(|part| part.file_name() == *known));
                part.map_err(failed)?;
            }
            if is_volume {
                let name = entry.file_name().into_string();
                names.push(name.map_err(|name| Refusal::new(Cause::Unsupported, format!("the name of the volume {name:?} isn't UTF-8")))?);
            }
        }
        names.sort();
        Ok(names)
    }

    fn open_part(&self, volume: &str, name: &str) -> Result<BufReader<File>, Refusal> {
        let folder = self.folder.join(volume);
        if !folder.is_dir() {
            return Err(Refusal::new(Cause::Fault, format!("the library has no volume {volume}")));
        }
        let file = File::open(folder.join(name));
        file.map(BufReader::new).map_err(|error| Refusal::new(Cause::Fault, format!("{name} of the volume {volume}: {error}")))
    }

    fn label(&self, volume: &str) -> Result<Label, Refusal> {
        let label = read_label(self.open_part(volume, "label.xml")?);
        label.map_err(|error| Refusal::new(Cause::Fault, format!("label.xml of the volume {volume}: {error}")))
    }

    /// Reads the label and the index of a volume.
    fn read_volume(&self, volume: &str, each: &mut dyn FnMut(TapeFile) -> bool) -> Result<Label, Refusal> {
        let label = self.label(volume)?;
        let damaged = |error: IndexError| Refusal::new(Cause::Fault, format!("index.xml of the volume {volume}: {error}"));
        // Digests of the paths, because an index may have millions of them.
        let (hashers, mut paths) = ([RandomState::new(), RandomState::new()], HashSet::new());
        let mut twice = None;
        let head = read_index(self.open_part(volume, "index.xml")?, &mut |file| {
            if !paths.insert(hashers.each_ref().map(|hasher| hasher.hash_one(&file.path))) {
                twice = Some(file.path);
                return false;
            }
            each(file)
        });
        if let Some(path) = twice {
            return Err(Refusal::new(Cause::Fault, format!("the index of the volume {volume} has {path:?} twice")));
        }
        let head = head.map_err(damaged)?;
        if head.uuid != label.uuid {
            let detail = format!("the index of the volume {volume} is another volume's: {}, not {}", head.uuid, label.uuid);
            return Err(Refusal::new(Cause::Fault, detail));
        }
        Ok(label)
    }

    /// Looks a file up.
    fn find<T>(&self, location: &str, of: impl FnOnce(&Volume, &TapeFile) -> T) -> Result<T, Refusal> {
        let (name, path) = split(location)?;
        let volume = self.volume(name)?;
        volume.files.get(path).map(|file| of(&volume, file)).ok_or_else(|| Refusal::new(Cause::Missing, ""))
    }

    fn volume(&self, name: &str) -> Result<Arc<Volume>, Refusal> {
        let slot = {
            let mut volumes = lock(&self.volumes);
            let known = volumes.iter().position(|(known, _)| known == name).and_then(|at| volumes.remove(at));
            let (name, slot) = known.unwrap_or_else(|| (name.to_owned(), Arc::default()));
            volumes.push_front((name, slot.clone()));
            volumes.truncate(self.settings.drives);
            slot
        };
        let mut slot = lock(&slot);
        match &*slot {
            Some(Ok(volume)) => return Ok(volume.clone()),
            Some(Err((refusal, at))) if at.elapsed() < UNUSABLE_FOR => return Err(refusal.clone()),
            _ => {}
        }
        let mut files = HashMap::new();
        let label = self.read_volume(name, &mut |file| {
            files.insert(file.path.clone(), file);
            true
        });
        let volume = label.map(|label| Arc::new(Volume { label, files }));
        *slot = Some(volume.clone().map_err(|refusal| (refusal, Instant::now())));
        volume
    }

    /// Takes a drive for a volume: the one that has it, or else an empty one, the one that was used
    /// last by the same connection, or the one that has been idle longest.
    fn take_drive(&self, volume: &str, last: Option<usize>) -> Taken<'_> {
        let mut drives = lock(&self.drives);
        loop {
            let has_it = drives.iter().position(|drive| drive.loaded.as_deref() == Some(volume));
            let free = match has_it {
                Some(index) => (!drives[index].is_taken).then_some(index),
                None => (0..drives.len()).filter(|&index| !drives[index].is_taken).min_by_key(|&index| {
                    let drive = &drives[index];
                    (drive.loaded.is_some(), Some(index) != last, drive.used)
                }),
            };
            if let Some(index) = free {
                let used = drives.iter().map(|drive| drive.used).max().unwrap_or(0) + 1;
                let drive = &mut drives[index];
                (drive.is_taken, drive.used) = (true, used);
                // Another connection that wants the volume waits for this drive.
                let before = drive.loaded.replace(volume.to_owned());
                return Taken { library: self, index, before: before.filter(|before| before != volume), needs_load: has_it.is_none() };
            }
            drives = self.freed.wait(drives).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn wait(&self, seconds: f64) {
        if self.settings.speedup > 0.0 {
            thread::sleep(Duration::from_secs_f64(seconds / self.settings.speedup));
        }
    }
}

/// A drive that one connection uses.
struct Taken<'a> {
    library: &'a Library,
    index: usize,
    /// The volume that it has to unload first.
    before: Option<String>,
    needs_load: bool,
}

impl Taken<'_> {
    fn change<T>(&self, change: impl FnOnce(&mut Drive) -> T) -> T {
        change(&mut lock(&self.library.drives)[self.index])
    }

    /// Loads the volume it was taken for, unless the drive has it.
    fn load(&mut self) {
        if !std::mem::take(&mut self.needs_load) {
            return;
        }
        let of = &self.library.settings;
        let seconds = self.change(|drive| {
            let unload_s = if self.before.is_some() { of.motion.rewind(drive.position) + of.unload_s } else { 0.0 };
            drive.position = TapePosition::default();
            drive.figures.loads += 1;
            drive.figures.loading_s += unload_s + of.load_s;
            unload_s + of.load_s
        });
        self.library.wait(seconds);
    }

    fn locate(&self, to: TapePosition) {
        let of = &self.library.settings;
        let seconds = self.change(|drive| {
            let seconds = of.motion.locate(drive.position, to);
            drive.figures.locates += u64::from(drive.position != to);
            drive.figures.locating_s += seconds;
            drive.position = to;
            seconds
        });
        self.library.wait(seconds);
    }

    /// Reads a file's extents, and passes the bytes on at the drive's rate.
    fn read(&self, volume: &str, label: &Label, file: &TapeFile, sink: &mut dyn FnMut(&[u8]) -> bool) -> Result<u64, Refusal> {
        let folder = self.library.folder.join(volume);
        let mut piece = vec![0; PIECE_BYTES.min(usize::try_from(file.bytes).unwrap_or(PIECE_BYTES)).max(1)];
        let mut passed = 0;
        for extent in &file.extents {
            pass_zeros(extent.file_offset, &mut passed, &mut piece, sink)?;
            let cut = |error: io::Error| {
                let detail =
                    format!("the volume {volume} can't be read at block {} of {}: {error}", extent.block, extent.partition.letter());
                Refusal::new(Cause::Fault, detail)
            };
            let at = extent.block.checked_mul(label.block_bytes).and_then(|at| at.checked_add(extent.offset));
            let at = at.ok_or_else(|| cut(io::ErrorKind::InvalidInput.into()))?;
            self.locate(self.position(extent, at));
            let mut blocks = File::open(folder.join(extent.partition.letter())).map_err(cut)?;
            blocks.seek(SeekFrom::Start(at)).map_err(cut)?;
            let (began, mut moved) = (Instant::now(), 0);
            while moved < extent.bytes {
                let bytes = (extent.bytes - moved).min(piece.len() as u64);
                blocks.read_exact(&mut piece[..bytes as usize]).map_err(cut)?;
                moved += bytes;
                self.moved(bytes, began, moved);
                pass(sink, &piece[..bytes as usize])?;
                passed += bytes;
            }
        }
        pass_zeros(file.bytes, &mut passed, &mut piece, sink)?;
        Ok(passed)
    }

    /// Where an extent begins on the tape.
    fn position(&self, extent: &Extent, at: u64) -> TapePosition {
        let first = FIRST_PARTITION_WRAPS * self.library.settings.motion.wrap_bytes();
        TapePosition(if extent.partition == Partition::A { at } else { at.saturating_add(first) })
    }

    /// Bytes were read; waits until a drive would have read all since `began`.
    fn moved(&self, bytes: u64, began: Instant, since: u64) {
        let of = &self.library.settings;
        self.change(|drive| {
            drive.position.0 = drive.position.0.saturating_add(bytes);
            drive.figures.bytes += bytes;
            drive.figures.reading_s += bytes as f64 / of.rate;
        });
        if of.speedup > 0.0 {
            let due = began + Duration::from_secs_f64(since as f64 / of.rate / of.speedup);
            thread::sleep(due.saturating_duration_since(Instant::now()));
        }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.change(|drive| drive.is_taken = false);
        self.library.freed.notify_all();
    }
}

/// Passes zeros until `until` bytes of a file have passed.
fn pass_zeros(until: u64, passed: &mut u64, piece: &mut [u8], sink: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), Refusal> {
    if *passed < until {
        piece.fill(0);
    }
    while *passed < until {
        let bytes = (until - *passed).min(piece.len() as u64);
        pass(sink, &piece[..bytes as usize])?;
        *passed += bytes;
    }
    Ok(())
}

fn pass(sink: &mut dyn FnMut(&[u8]) -> bool, piece: &[u8]) -> Result<(), Refusal> {
    if sink(piece) { Ok(()) } else { Err(Refusal::new(Cause::Abandoned, "")) }
}

/// A panic while a drive is changed leaves nothing half-done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
