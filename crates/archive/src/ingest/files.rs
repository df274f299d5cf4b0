//! Putting files: workers read them, one writer stages them, and the whole put reports what came of it.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use aws_lc_rs::digest;
use fulgurite_codec::checksum::crc64;
use fulgurite_domain::{Attributes, Digest, Kind, Modified, ObjectName, ObjectRecord, VersionId};
use fulgurite_format::{FRAME_BYTES, Frames, ObjectKey, STORED_FRAME_BYTES, TAG_BYTES, stored_bytes};

use super::writer::{Batch, PieceWriter};
use super::{Buffers, Draft, Piece, RECORD_BYTES};
use crate::archive::{Archive, ArchiveError};
use crate::chance::random;
use crate::clock::now_ms;
use crate::staging::{Unsynced, Writing};
use crate::watch::{Trouble, Watcher};

/// Pieces waiting for the writer. The large ones among them are a record each, so this bounds memory (I9).
const QUEUE: usize = 64;

/// Something to be put.
pub enum Source {
    /// A file, symbolic link or directory of the file system.
    Path {
        /// Where it is.
        path: PathBuf,
        /// The name it gets.
        name: ObjectName,
    },
    /// A stream.
    Stream {
        /// Its bytes.
        reader: Box<dyn Read + Send>,
        /// The name it gets.
        name: ObjectName,
    },
}

/// What came of a put.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PutReport {
    /// Versions that are acknowledged.
    pub objects: u64,
    /// Their content.
    pub bytes: u64,
    /// Sources that could not be read.
    pub failed: u64,
    /// Files that changed while they were read.
    pub changed: u64,
}

impl Archive {
    /// Puts everything in `sources`. What can't be read is reported to `watcher` and counted, and the rest goes on.
    ///
    /// # Errors
    /// [`ArchiveError`] if staging, keys or catalogue fail. What was acknowledged before then is safe.
    pub fn put(&self, sources: impl Iterator<Item = Source> + Send, watcher: &dyn Watcher) -> Result<PutReport, ArchiveError> {
        self.put_telling(sources, watcher, &|| {})
    }

    /// [`put`](Self::put) that tells of every commit.
    pub(crate) fn put_telling(
        &self,
        sources: impl Iterator<Item = Source> + Send,
        watcher: &dyn Watcher,
        committed: &(dyn Fn() + Sync),
    ) -> Result<PutReport, ArchiveError> {
        let sources = Mutex::new(sources);
        let stop = AtomicBool::new(false);
        let buffers = Buffers::default();
        let report = Mutex::new(PutReport::default());
        let writing = self.staging().begin()?;
        let result = std::thread::scope(|scope| {
            let (pieces_in, pieces) = sync_channel(QUEUE);
            let (batches_in, batches) = sync_channel(1);
            for _ in 0..self.threads() {
                let worker = Worker { archive: self, pieces: pieces_in.clone(), watcher, report: &report, stop: &stop, buffers: &buffers };
                let sources = &sources;
                scope.spawn(move || worker.run(sources));
            }
            drop(pieces_in);
            let committer = scope.spawn(|| {
                let result = self.commit_batches(batches, &writing, &report, committed);
                stop.store(result.is_err(), Ordering::Relaxed);
                result
            });
            let written = self.write_pieces(PieceWriter::new(self, &writing, &buffers), pieces, batches_in);
            stop.store(true, Ordering::Relaxed);
            let committed = committer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            committed.and(written)
        });
        drop(writing);
        if let Err(error) = result {
            // What was not acknowledged must not come back one day. If it can't go now, the next opening decides.
            let _ = self.release_segments();
            return Err(error);
        }
        Ok(report.into_inner().expect("no panic holds this lock"))
    }

    /// Appends pieces to staging, and hands on what can be acknowledged. Consumes `pieces`, so that workers stop when it fails.
    fn write_pieces(&self, mut writer: PieceWriter<'_>, pieces: Receiver<Handed>, batches: SyncSender<Batch>) -> Result<(), ArchiveError> {
        let mut failure = None;
        for handed in pieces {
            let appended = match handed {
                Handed::Piece(piece) => writer.append(piece),
                Handed::Object(draft) => {
                    writer.object(*draft, &[]).map(|whole| assert!(whole, "a worker hands over all of an object before its end"))
                }
            };
            if let Err(error) = appended {
                failure = Some(error);
                break;
            }
            if writer.is_full() && batches.send(writer.take_batch()?).is_err() {
                // The committer failed, and says why.
                return Ok(());
            }
        }
        // What is complete is acknowledged even where the next append failed: a full disk takes nothing back.
        if !writer.is_empty() {
            let _ = batches.send(writer.take_batch()?);
        }
        failure.map_or(Ok(()), Err)
    }

    fn commit_batches(
        &self,
        batches: Receiver<Batch>,
        writing: &Writing<'_>,
        report: &Mutex<PutReport>,
        committed: &(dyn Fn() + Sync),
    ) -> Result<(), ArchiveError> {
        for mut batch in batches {
            let unsynced = batch.unsynced.take();
            self.commit_batch(&batch, writing, || unsynced.map_or(Ok(()), Unsynced::sync))?;
            let versions = &batch.change.staged;
            let mut report = report.lock().expect("no panic holds this lock");
            report.objects += versions.len() as u64;
            report.bytes += versions.iter().map(|version| version.record.size).sum::<u64>();
            drop(report);
            committed();
        }
        Ok(())
    }
}

/// What workers hand to the writer.
enum Handed {
    Piece(Piece),
    Object(Box<Draft>),
}

/// Reads, hashes and seals sources one after another.
struct Worker<'a> {
    archive: &'a Archive,
    pieces: SyncSender<Handed>,
    watcher: &'a dyn Watcher,
    report: &'a Mutex<PutReport>,
    stop: &'a AtomicBool,
    buffers: &'a Buffers,
}

/// Why a worker gives up an object.
enum Interrupted {
    /// The source failed; others may go on.
    Source(io::Error),
    /// The writer is gone.
    Writer,
}

impl From<io::Error> for Interrupted {
    fn from(error: io::Error) -> Self {
        Self::Source(error)
    }
}

impl Worker<'_> {
    fn run<I: Iterator<Item = Source>>(self, sources: &Mutex<I>) {
        while !self.stop.load(Ordering::Relaxed) {
            let Some(source) = sources.lock().expect("no panic holds this lock").next() else { return };
            let (result, path) = match source {
                Source::Path { path, name } => (self.put_path(&path, name), path),
                Source::Stream { mut reader, name } => {
                    (self.put_content(&mut *reader, name, Kind::File, None, None, None), PathBuf::from("standard input"))
                }
            };
            match result {
                Ok(()) => {}
                Err(Interrupted::Writer) => return,
                Err(Interrupted::Source(error)) => {
                    self.report.lock().expect("no panic holds this lock").failed += 1;
                    self.watcher.trouble(Trouble::Unreadable { path: &path, why: &error.to_string() });
                }
            }
        }
    }

    fn put_path(&self, path: &Path, name: ObjectName) -> Result<(), Interrupted> {
        use std::os::unix::fs::MetadataExt;
        let metadata = std::fs::symlink_metadata(path)?;
        let modified = Some(Modified { seconds: metadata.mtime(), nanoseconds: metadata.mtime_nsec().clamp(0, 999_999_999) as u32 });
        let mode = Some(metadata.mode() & 0o7777);
        let kind = metadata.file_type();
        if kind.is_symlink() {
            use std::os::unix::ffi::OsStringExt;
            let target = std::fs::read_link(path)?.into_os_string().into_vec();
            self.put_content(&mut &target[..], name, Kind::SymbolicLink, modified, None, None)
        } else if kind.is_dir() {
            self.put_content(&mut io::empty(), name, Kind::Directory, modified, mode, None)
        } else if kind.is_file() {
            let mut file = std::fs::File::open(path)?;
            // What was opened counts, whatever the name meant a moment ago.
            let before = file.metadata()?;
            // Files that say 0 may still have something to say, under /proc for example. The others are taken as long as they are now, even if
            // they grow meanwhile.
            if before.len() == 0 {
                self.put_content(&mut file, name, Kind::File, modified, mode, None)?;
            } else {
                self.put_content(&mut (&mut file).take(before.len()), name, Kind::File, modified, mode, Some(before.len()))?;
            }
            let after = file.metadata()?;
            if (after.len(), after.mtime(), after.mtime_nsec()) != (before.len(), before.mtime(), before.mtime_nsec()) {
                self.report.lock().expect("no panic holds this lock").changed += 1;
                self.watcher.trouble(Trouble::Changed { path });
            }
            Ok(())
        } else {
            Err(io::Error::new(io::ErrorKind::Unsupported, "not a file, a folder or a symbolic link").into())
        }
    }

    fn put_content(
        &self,
        reader: &mut dyn Read,
        name: ObjectName,
        kind: Kind,
        modified: Option<Modified>,
        mode: Option<u32>,
        size_hint: Option<u64>,
    ) -> Result<(), Interrupted> {
        let created_ms = now_ms();
        let id = VersionId::new(created_ms, random());
        let key = self.archive.encrypts().then(|| ObjectKey::new(random()));
        let frames = Frames::new(id, key.as_ref());
        let mut content = SealedContent {
            id,
            frames: &frames,
            sealed: key.is_some(),
            hash: digest::Context::new(&digest::SHA256),
            size: 0,
            stored: 0,
            sent: false,
        };
        if let Err(error) = content.send_all(reader, size_hint, self) {
            if content.sent {
                let _ = self.pieces.send(Handed::Piece(Piece::Abandoned(id)));
            }
            return Err(error);
        }
        let SealedContent { hash, size, stored, .. } = content;
        let mut sha256 = [0; 32];
        sha256.copy_from_slice(hash.finish().as_ref());
        let attributes = Attributes::default();
        let record = ObjectRecord { name, version: 0, kind, size, sha256: Digest(sha256), modified, mode, created_ms, attributes };
        let wrapped = key.as_ref().map(|key| self.archive.master_key().wrap(key));
        self.send(Handed::Object(Box::new(Draft { id, frames, wrapped, record, stored_bytes: stored })))?;
        self.watcher.done(1, 0);
        Ok(())
    }

    fn send(&self, piece: Handed) -> Result<(), Interrupted> {
        self.pieces.send(piece).map_err(|_| Interrupted::Writer)
    }
}

/// The content of one object on its way through hash and seal.
struct SealedContent<'a> {
    id: VersionId,
    frames: &'a Frames,
    sealed: bool,
    hash: digest::Context,
    size: u64,
    stored: u64,
    /// Whether the writer knows of the object already.
    sent: bool,
}

impl SealedContent<'_> {
    fn send_all(&mut self, reader: &mut dyn Read, size_hint: Option<u64>, worker: &Worker<'_>) -> Result<(), Interrupted> {
        loop {
            // Room for what is left and one byte more, so that a buffer that isn't full tells of the end.
            let expected = size_hint.map_or(RECORD_BYTES as u64, |size| stored_bytes(size + 1 - self.size.min(size)));
            let mut payload = worker.buffers.take(expected.min(RECORD_BYTES as u64) as usize);
            let mut filled = 0;
            while filled < payload.len() {
                let frame_bytes = (payload.len() - filled).min(STORED_FRAME_BYTES);
                let frame = &mut payload[filled..filled + frame_bytes];
                let read = read_full(reader, &mut frame[..frame_bytes - TAG_BYTES])?;
                if read == 0 {
                    break;
                }
                self.hash.update(&frame[..read]);
                self.frames.seal(self.size / FRAME_BYTES as u64, &mut frame[..read + TAG_BYTES]);
                self.size += read as u64;
                filled += read + TAG_BYTES;
                worker.watcher.done(0, read as u64);
                if read + TAG_BYTES < frame_bytes {
                    break;
                }
            }
            let ended = filled < payload.len();
            if filled > 0 {
                assert!(ended || self.size.is_multiple_of(FRAME_BYTES as u64), "a source ends at or before the size it was limited to");
                payload.truncate(filled);
                let crc64 = crc64(&payload);
                let piece = Piece::Data { id: self.id, stored_offset: self.stored, sealed: self.sealed, payload, crc64 };
                worker.send(Handed::Piece(piece))?;
                self.sent = true;
                self.stored += filled as u64;
            }
            if ended {
                return Ok(());
            }
        }
    }
}

/// Reads until the buffer is full or the source ends.
fn read_full(reader: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut read = 0;
    while read < buffer.len() {
        match reader.read(&mut buffer[read..]) {
            Ok(0) => break,
            Ok(bytes) => read += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}
