//! Stores for platters of any medium. A store itself holds files; here they become platters.
//!
//! ```text
//! disk    the platter's bytes are the file's
//! glass   bytes -> symbols of voxels -> file;   file -> laser, camera, decoder -> bytes
//! ```
//!
//! A platter is written to the medium that its header names, and read according to what its file
//! contains. So the settings decide only about new sets, and platters of several media can be on
//! one store.

#[cfg(test)]
mod tests;

use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use fulgurite_decode::Class;
use fulgurite_domain::{Geometry, Medium, Micros, PlatterId};
use fulgurite_format::{HEADER_BYTES, Header};
use fulgurite_glass::emulator::WriteEffects;
use fulgurite_glass::{GlassHead, GlassReader, PlatterSource, VoxelPlatter, VoxelWriter};

use super::{PlatterFile, PlatterSink, PlatterStore, StoreError};
use crate::decoding::{DecodePool, DecodeTotals, SystemClock};
use crate::entropy::random;
use crate::settings::{DecodeSettings, GlassSettings};

/// Bytes that a store needs for a platter.
pub(crate) fn platter_bytes(medium: Medium, geometry: Geometry) -> u64 {
    let glass = (medium == Medium::Glass).then(|| GlassHead::file_bytes_of(geometry)).flatten();
    // No glass has sectors of this size, so no program wrote such a platter to glass.
    glass.unwrap_or_else(|| geometry.file_bytes())
}

/// The drives for glass: one for all stores of an archive, because they share its decode service.
#[derive(Clone)]
pub(crate) struct GlassDrives {
    /// Its images are decoded before those of `for_verification`.
    for_reads: Arc<GlassReader>,
    for_verification: Arc<GlassReader>,
    decoding: Arc<DecodePool>,
    effects: WriteEffects,
}

impl GlassDrives {
    /// Drives that decode on up to `threads` threads of this process, at once.
    pub(crate) fn new(settings: GlassSettings, threads: usize) -> Self {
        let decoding = DecodePool::new(Path::new("."), &DecodeSettings::default(), threads, Arc::new(SystemClock));
        Self::with_service(settings, Arc::new(decoding))
    }

    /// Drives whose images this service decodes.
    pub(crate) fn with_service(settings: GlassSettings, decoding: Arc<DecodePool>) -> Self {
        let effects = settings.noise.effects();
        let reader = GlassReader::new(effects.read, settings.decoder);
        let for_class = |class| Arc::new(reader.with_service(decoding.for_class(class)));
        Self { for_reads: for_class(Class::Read), for_verification: for_class(Class::Deferrable), effects: effects.write, decoding }
    }

    /// A file as the platter that it contains.
    pub(crate) fn load(&self, file: Arc<dyn PlatterFile>) -> LoadedFile {
        LoadedFile { file, drives: self.clone(), verification_deadline: None, glass: OnceLock::new() }
    }
}

/// A store with the drives for all media.
pub(crate) struct MediumStore {
    files: Arc<dyn PlatterStore>,
    drives: GlassDrives,
}

impl MediumStore {
    pub(crate) fn new(files: Arc<dyn PlatterStore>, drives: GlassDrives) -> Self {
        Self { files, drives }
    }
}

impl PlatterStore for MediumStore {
    fn decode_totals(&self) -> Option<DecodeTotals> {
        Some(self.drives.decoding.totals())
    }

    fn name(&self) -> &str {
        self.files.name()
    }

    fn place(&self) -> String {
        self.files.place()
    }

    fn mark(&self) -> Result<(), StoreError> {
        self.files.mark()
    }

    fn restore_mark(&self) -> Result<(), StoreError> {
        self.files.restore_mark()
    }

    fn check(&self) -> Result<(), StoreError> {
        self.files.check()
    }

    fn check_writable(&self) -> Result<(), StoreError> {
        self.files.check_writable()
    }

    fn create(&self, platter: PlatterId, bytes: u64) -> io::Result<Box<dyn PlatterSink>> {
        let begin = Begin { files: self.files.clone(), platter, bytes, start: Vec::new() };
        Ok(Box::new(MediumSink { drives: self.drives.clone(), state: State::Begin(begin) }))
    }

    fn open(&self, platter: PlatterId) -> io::Result<Option<Arc<dyn PlatterFile>>> {
        Ok(self.files.open(platter)?.map(|file| -> Arc<dyn PlatterFile> { Arc::new(self.drives.load(file)) }))
    }

    fn list(&self) -> io::Result<Vec<PlatterId>> {
        self.files.list()
    }

    fn remove(&self, platter: PlatterId) -> io::Result<()> {
        self.files.remove(platter)
    }

    fn sweep(&self) -> io::Result<()> {
        self.files.sweep()
    }

    fn free_bytes(&self) -> Option<u64> {
        self.files.free_bytes()
    }
}

/// A platter being written. Its header, which comes first, names its medium.
struct MediumSink {
    drives: GlassDrives,
    state: State,
}

enum State {
    Begin(Begin),
    Disk(Box<dyn PlatterSink>),
    Glass(Box<VoxelWriter<Box<dyn PlatterSink>>>),
    Failed,
}

/// A platter whose header isn't complete, and for which the store has no file yet.
struct Begin {
    files: Arc<dyn PlatterStore>,
    platter: PlatterId,
    bytes: u64,
    start: Vec<u8>,
}

impl Begin {
    /// Creates the file. A platter without a header, which only tests write, is stored as it is.
    fn create(self, drives: &GlassDrives) -> io::Result<State> {
        let glass = Header::from_block(&self.start).ok().filter(|header| header.medium == Medium::Glass);
        let Some(header) = glass else {
            let mut sink = self.files.create(self.platter, self.bytes)?;
            sink.write_all(&self.start)?;
            return Ok(State::Disk(sink));
        };
        let seed = u64::from_le_bytes(random());
        let head = GlassHead::new(self.platter, header.geometry, seed, drives.effects);
        let head = head.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let sink = self.files.create(self.platter, head.file_bytes())?;
        let mut writer = drives.for_reads.writer(head, sink)?;
        writer.write_all(&self.start)?;
        Ok(State::Glass(Box::new(writer)))
    }
}

fn failed() -> io::Error {
    io::Error::other("an earlier write of the platter failed")
}

impl MediumSink {
    /// Completes the file.
    fn complete(&mut self) -> io::Result<&mut Box<dyn PlatterSink>> {
        self.state = match std::mem::replace(&mut self.state, State::Failed) {
            State::Begin(begin) => begin.create(&self.drives)?,
            State::Glass(writer) => State::Disk(writer.finish()?),
            state => state,
        };
        match &mut self.state {
            State::Disk(sink) => Ok(sink),
            State::Glass(_) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the platter ends after its header")),
            State::Begin(_) | State::Failed => Err(failed()),
        }
    }
}

impl Write for MediumSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match &mut self.state {
            State::Disk(sink) => return sink.write(bytes),
            State::Failed => return Err(failed()),
            State::Glass(writer) => writer.write(bytes),
            State::Begin(begin) => {
                let now = bytes.len().min(HEADER_BYTES - begin.start.len());
                begin.start.extend_from_slice(&bytes[..now]);
                let is_complete = begin.start.len() == HEADER_BYTES;
                if is_complete && let State::Begin(begin) = std::mem::replace(&mut self.state, State::Failed) {
                    self.state = begin.create(&self.drives)?;
                }
                return Ok(now);
            }
        };
        if written.is_err() {
            self.state = State::Failed;
        }
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.state {
            State::Begin(_) => Ok(()),
            State::Disk(sink) => sink.flush(),
            State::Glass(writer) => writer.flush(),
            State::Failed => Err(failed()),
        }
    }
}

impl PlatterSink for MediumSink {
    fn finish(&mut self) -> io::Result<Arc<dyn PlatterFile>> {
        let file = self.complete()?.finish()?;
        Ok(Arc::new(self.drives.load(file)))
    }

    fn commit(mut self: Box<Self>) -> io::Result<()> {
        self.complete()?;
        match self.state {
            State::Disk(sink) => sink.commit(),
            _ => Err(failed()),
        }
    }
}

/// A platter's file, whose medium is found out when it is first read: opening must stay cheap.
pub(crate) struct LoadedFile {
    file: Arc<dyn PlatterFile>,
    drives: GlassDrives,
    /// Set if the platter is read to verify it.
    verification_deadline: Option<Micros>,
    /// `None` for the bytes of a disk.
    glass: OnceLock<Option<VoxelPlatter>>,
}

impl LoadedFile {
    /// The platter of glass in the file; `None` if it is not of glass.
    pub(crate) fn glass(&self) -> io::Result<Option<&VoxelPlatter>> {
        if let Some(glass) = self.glass.get() {
            return Ok(glass.as_ref());
        }
        let reader = if self.verification_deadline.is_some() { &self.drives.for_verification } else { &self.drives.for_reads };
        let found = VoxelPlatter::open(self.file.clone(), self.file.length()?, reader)?;
        Ok(self.glass.get_or_init(|| found).as_ref())
    }
}

impl PlatterSource for LoadedFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        match self.glass()? {
            None => self.file.read_at(offset, buffer),
            Some(glass) => glass.read_at(offset, buffer),
        }
    }

    fn read_cached_at(&self, offset: u64, buffer: &mut [u8]) -> bool {
        // Glass is never in memory, and to find out what the file is may take a read.
        matches!(self.glass.get(), Some(None)) && self.file.read_cached_at(offset, buffer)
    }
}

impl PlatterFile for LoadedFile {
    fn length(&self) -> io::Result<u64> {
        match self.glass()? {
            None => self.file.length(),
            Some(glass) => Ok(glass.bytes()),
        }
    }

    fn stored_bytes(&self) -> io::Result<u64> {
        self.file.stored_bytes()
    }

    fn not_a_file(&self) -> Option<&str> {
        self.file.not_a_file()
    }

    fn bad_heads(&self) -> io::Result<u32> {
        self.glass()?.map_or(Ok(0), VoxelPlatter::bad_heads)
    }

    fn for_verification(&self) -> Option<Arc<dyn PlatterFile>> {
        let verification_deadline = Some(self.drives.decoding.verification_deadline());
        let (file, drives) = (self.file.clone(), self.drives.clone());
        Some(Arc::new(Self { file, drives, verification_deadline, glass: OnceLock::new() }))
    }

    fn wait_until_cheap(&self, sectors: u32, goes_on: &dyn Fn() -> bool) {
        // An error comes again when the sectors are read.
        if let (Some(deadline), Ok(Some(_))) = (self.verification_deadline, self.glass()) {
            self.drives.decoding.wait_until_cheap(sectors, deadline, goes_on);
        }
    }
}
