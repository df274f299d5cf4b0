//! Parts of multipart uploads. Each is in its own file until the upload ends, encrypted under its
//! own key, even if the archive doesn't encrypt.
//!
//! Parts arrive in any order and can be replaced, so a part can't be appended to its future object.
//! When the upload is completed, its parts are read again and put as one object.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fulgurite_archive::Archive;
use fulgurite_domain::VersionId;
use fulgurite_format::{FRAME_BYTES, Frames, ObjectKey, STORED_FRAME_BYTES, TAG_BYTES, WrappedKey, stored_bytes};

use crate::memory::{MemoryOwner, MemoryPool, MemoryReservation};
use crate::state::{Part, now_ms, random};

/// Number of frames that are written or read at once.
const FRAMES_AT_ONCE: usize = 16;
/// The folder of part files, in the archive's folder.
pub(crate) const FOLDER: &str = "uploads";

/// The folder of part files.
#[derive(Clone)]
pub(crate) struct Parts {
    archive: Arc<Archive>,
    folder: PathBuf,
    /// Memory for incoming content, shared by all requests.
    incoming: MemoryPool,
}

impl Parts {
    /// Opens the folder of part files of an archive; creates it if it is missing.
    pub(crate) fn open(archive: Arc<Archive>, incoming: MemoryPool) -> io::Result<Self> {
        let folder = archive.home().join(FOLDER);
        if !folder.exists() {
            std::fs::create_dir(&folder)?;
            File::open(archive.home())?.sync_all()?;
        }
        Ok(Self { archive, folder, incoming })
    }

    fn path(&self, file: VersionId) -> PathBuf {
        self.folder.join(format!("{file}.part"))
    }

    /// Begins a part of about `expected` bytes, which takes memory in the name of `memory_owner`.
    pub(crate) fn begin(&self, expected: u64, memory_owner: &MemoryOwner) -> io::Result<PartWriter> {
        let id = VersionId::new(now_ms() as u64, random());
        let key = ObjectKey::new(random());
        let path = self.path(id);
        let file = File::options().write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(PartWriter {
            id,
            frames: Frames::new(id, Some(&key)),
            wrapped: self.archive.master_key().wrap(&key),
            file: Arc::new(file),
            path: Some(path),
            folder: self.folder.clone(),
            incoming: self.incoming.clone(),
            memory_owner: memory_owner.clone(),
            reservation: None,
            frames_at_once: 0,
            expected,
            payload: Vec::new(),
            frame_start: 0,
            written: 0,
            size: 0,
        })
    }

    /// Reads the content of a part, in pieces.
    pub(crate) fn read(&self, part: &Part, sink: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let wrapped = part.wrapped.as_ref().ok_or_else(|| io::Error::other("a part without a key"))?;
        let key = self.archive.master_key().unwrap(wrapped).map_err(io::Error::other)?;
        let frames = Frames::new(part.file, Some(&key));
        let file = File::open(self.path(part.file))?;
        let stored = stored_bytes(part.size);
        let mut buffer = vec![0; FRAMES_AT_ONCE * STORED_FRAME_BYTES];
        let (mut at, mut index) = (0, 0);
        while at < stored {
            let now = (buffer.len() as u64).min(stored - at) as usize;
            file.read_exact_at(&mut buffer[..now], at)?;
            for frame in buffer[..now].chunks_mut(STORED_FRAME_BYTES) {
                sink(frames.open(index, frame).map_err(io::Error::other)?)?;
                index += 1;
            }
            at += now as u64;
        }
        Ok(())
    }

    /// Removes the files of parts. If that fails, the next start removes the rest.
    pub(crate) fn remove(&self, parts: &[Part]) {
        for part in parts {
            let _ = std::fs::remove_file(self.path(part.file));
        }
    }

    /// Removes files that belong to no upload, as a crash leaves them.
    pub(crate) fn sweep(&self, knows: impl Fn(VersionId) -> bool) -> io::Result<()> {
        for entry in std::fs::read_dir(&self.folder)? {
            let path = entry?.path();
            let id = path.file_stem().and_then(|name| name.to_str()).and_then(|name| name.parse().ok());
            if id.is_some_and(|id| !knows(id)) {
                std::fs::remove_file(&path)?;
            }
        }
        Ok(())
    }
}

/// A part being written to its file. Dropping it removes the file.
pub(crate) struct PartWriter {
    id: VersionId,
    frames: Frames,
    wrapped: WrappedKey,
    file: Arc<File>,
    /// The file to remove on drop; `None` once the part is finished.
    path: Option<PathBuf>,
    folder: PathBuf,
    incoming: MemoryPool,
    memory_owner: MemoryOwner,
    /// The memory reserved for the payload, if it is larger than a frame.
    reservation: Option<MemoryReservation>,
    /// Maximum number of frames in the payload; 0 before the first one.
    frames_at_once: usize,
    expected: u64,
    /// Sealed frames, then one that is being filled.
    payload: Vec<u8>,
    /// Where that frame starts in the payload.
    frame_start: usize,
    /// Bytes written to the file.
    written: u64,
    /// Bytes of content so far.
    size: u64,
}

impl PartWriter {
    /// Appends content: many frames at once if shared memory is available, and else frame by frame,
    /// which needs none.
    pub(crate) async fn write(&mut self, mut content: &[u8]) -> io::Result<()> {
        while !content.is_empty() {
            if self.frames_at_once == 0 {
                let left = self.expected.saturating_sub(self.size).max(content.len() as u64).min((FRAMES_AT_ONCE * FRAME_BYTES) as u64);
                let stored = stored_bytes(left) as usize;
                // A client gets shared memory only after it has sent something.
                self.reservation =
                    if self.size > 0 && left > FRAME_BYTES as u64 { self.incoming.try_reserve(&self.memory_owner, stored) } else { None };
                self.frames_at_once = if self.reservation.is_some() { FRAMES_AT_ONCE } else { 1 };
                self.payload.reserve_exact(if self.reservation.is_some() { stored } else { stored.min(STORED_FRAME_BYTES) });
            }
            let (now, later) = content.split_at(content.len().min(FRAME_BYTES - (self.payload.len() - self.frame_start)));
            self.payload.extend_from_slice(now);
            self.size += now.len() as u64;
            content = later;
            if self.payload.len() - self.frame_start == FRAME_BYTES {
                self.seal_frame();
                if self.payload.len() == self.frames_at_once * STORED_FRAME_BYTES {
                    self.write_out().await?;
                }
            }
        }
        Ok(())
    }

    fn seal_frame(&mut self) {
        self.payload.resize(self.payload.len() + TAG_BYTES, 0);
        let index = (self.written + self.frame_start as u64) / STORED_FRAME_BYTES as u64;
        self.frames.seal(index, &mut self.payload[self.frame_start..]);
        self.frame_start = self.payload.len();
    }

    async fn write_out(&mut self) -> io::Result<()> {
        let (file, payload, at) = (self.file.clone(), std::mem::take(&mut self.payload), self.written);
        self.written += payload.len() as u64;
        let written = tokio::task::spawn_blocking(move || file.write_all_at(&payload, at));
        written.await.map_err(io::Error::other)??;
        (self.reservation, self.frame_start, self.frames_at_once) = (None, 0, 0);
        Ok(())
    }

    /// Seals the last frame and syncs the file. The part then survives a crash, but isn't recorded
    /// yet.
    pub(crate) async fn finish(mut self, number: u32, md5: [u8; 16], checksum: Option<String>) -> io::Result<UnrecordedPart> {
        if self.payload.len() > self.frame_start {
            self.seal_frame();
        }
        if !self.payload.is_empty() {
            self.write_out().await?;
        }
        let (file, folder) = (self.file.clone(), self.folder.clone());
        let synced = tokio::task::spawn_blocking(move || {
            file.sync_data()?;
            File::open(folder)?.sync_all()
        });
        synced.await.map_err(io::Error::other)??;
        let part = Part { number, file: self.id, wrapped: Some(self.wrapped), size: self.size, md5, checksum, modified_ms: now_ms() };
        Ok(UnrecordedPart { part, path: self.path.take() })
    }
}

impl Drop for PartWriter {
    fn drop(&mut self) {
        remove(self.path.as_deref());
    }
}

/// A part that is stored and not recorded yet. Dropping it removes the file.
pub(crate) struct UnrecordedPart {
    pub(crate) part: Part,
    path: Option<PathBuf>,
}

impl UnrecordedPart {
    /// Keeps the file, once the part is recorded.
    pub(crate) fn into_part(mut self) -> Part {
        self.path = None;
        self.part.clone()
    }
}

impl Drop for UnrecordedPart {
    fn drop(&mut self) {
        remove(self.path.as_deref());
    }
}

fn remove(path: Option<&Path>) {
    if let Some(path) = path {
        let _ = std::fs::remove_file(path);
    }
}
