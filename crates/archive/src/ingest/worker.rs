//! Workers: each reads sources one by one, hashes and seals them, and passes them to the writer.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fs::Metadata;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use aws_lc_rs::digest;
use fulgurite_domain::{Attributes, Digest, Kind, Modified, ObjectName};
use fulgurite_format::{FRAME_BYTES, STORED_FRAME_BYTES, TAG_BYTES, stored_bytes};

use super::files::{ContentCheck, PutReport, Source};
use super::known::{Known, Skip, SuspectPlatters};
use super::room::{NoRoom, Reservation, Room};
use super::stable_file::StableFile;
use super::{Buffers, Draft, NewObject, Piece, RECORD_BYTES, Sealing, check_record_length, digest_of};
use crate::archive::{Archive, ArchiveError};
use crate::watch::{Trouble, Watcher};

/// A file that changes while it is read is skipped after this many attempts.
pub(super) const ATTEMPTS_MAX: u32 = 3;
const RETRY_PAUSE: Duration = Duration::from_millis(100);

pub(super) enum WriterMessage<'a> {
    /// A piece, with its own reservation if the object's reservation does not cover it.
    Piece(Piece, Option<Reservation<'a>>),
    /// A complete object, with its reservation.
    Object(Box<Draft>, Reservation<'a>),
    /// Commit all complete objects sent before this, and close their segments, so that a flush can
    /// release them. Answered after the commit.
    Checkpoint(SyncSender<()>),
}

pub(super) struct Worker<'a> {
    pub(super) archive: &'a Archive,
    pub(super) writer_tx: SyncSender<WriterMessage<'a>>,
    pub(super) watcher: &'a dyn Watcher,
    pub(super) report: &'a Mutex<PutReport>,
    pub(super) stop: &'a AtomicBool,
    pub(super) buffers: &'a Buffers,
    pub(super) skip: Skip,
    pub(super) suspects: &'a SuspectPlatters,
    pub(super) room: &'a Room<'a>,
    /// If the put flushes: writes everything staged to platters, and returns `false` on failure.
    pub(super) flush: Option<&'a (dyn Fn() -> bool + Sync)>,
    /// Names of the sources that workers took and that aren't settled: acknowledged, unchanged, or
    /// reported as not put. After a failure they are reported as not stored.
    pub(super) pending: &'a Mutex<HashSet<ObjectName>>,
    /// The first error of a worker that ended the put.
    pub(super) failure: &'a Mutex<Option<ArchiveError>>,
}

/// Fails if the source changed since reading began.
type Check<'a> = &'a dyn Fn() -> Result<(), NotPut>;

/// What is known about a source before it is read.
pub(super) struct Facts<'a> {
    pub(super) name: Cow<'a, ObjectName>,
    pub(super) kind: Kind,
    pub(super) modified: Option<Modified>,
    pub(super) mode: Option<u32>,
    /// Upper bound on the bytes read from a file. `None` if its length is unknown (a stream, or a
    /// file that claims to be empty), and for links and folders.
    size: Option<u64>,
}

impl<'a> Facts<'a> {
    fn unknown(name: ObjectName) -> Self {
        Self { name: Cow::Owned(name), kind: Kind::File, modified: None, mode: None, size: None }
    }

    pub(super) fn of(name: &'a ObjectName, kind: Kind, metadata: &Metadata) -> Self {
        let modified = Modified { seconds: metadata.mtime(), nanoseconds: metadata.mtime_nsec().clamp(0, 999_999_999) as u32 };
        let mode = Some(metadata.mode() & 0o7777);
        Self { name: Cow::Borrowed(name), kind, modified: Some(modified), mode, size: None }
    }
}

/// What was done with a source.
enum Handled {
    /// Its object was sent to the writer.
    Sent,
    /// It is the same as the newest version of its name.
    Unchanged,
}

/// Why a source was not put.
enum NotPut {
    /// Reading it failed, or it is too large for staging.
    Source(io::Error),
    /// It changed while it was read.
    Changed,
    /// The writer stopped. The writer or the committer reports why.
    Writer,
    Archive(ArchiveError),
}

impl From<ArchiveError> for NotPut {
    fn from(error: ArchiveError) -> Self {
        Self::Archive(error)
    }
}

impl From<io::Error> for NotPut {
    fn from(error: io::Error) -> Self {
        Self::Source(error)
    }
}

impl<'a> Worker<'a> {
    pub(super) fn run<I: Iterator<Item = Source>>(self, sources: &Mutex<I>) {
        while !self.stop.load(Ordering::Relaxed) {
            let Some(source) = sources.lock().expect("nothing panics while it holds this lock").next() else { return };
            let name = source.name().clone();
            self.pending.lock().expect("nothing panics while it holds this lock").insert(name.clone());
            let (result, path) = match source {
                Source::Path { path, name } => (self.put_path(&path, &name, None), path),
                Source::Checked { path, name, mut check } => (self.put_path(&path, &name, Some(&mut *check)), path),
                Source::Stream { mut reader, name } => (self.put_stream(&mut *reader, name), PathBuf::from("standard input")),
            };
            let trouble = match &result {
                // The committer reports it once it is acknowledged.
                Ok(Handled::Sent) => continue,
                Ok(Handled::Unchanged) => None,
                Err(NotPut::Changed) => Some(Trouble::Changed { path: &path, attempts: ATTEMPTS_MAX }),
                Err(NotPut::Source(error)) => Some(Trouble::Unreadable { path: &path, why: &error.to_string() }),
                Err(NotPut::Writer | NotPut::Archive(_)) => {
                    // The name stays pending, so it is reported as not stored.
                    self.stop.store(true, Ordering::Relaxed);
                    if let Err(NotPut::Archive(error)) = result {
                        self.failure.lock().expect("nothing panics while it holds this lock").get_or_insert(error);
                    }
                    return;
                }
            };
            self.pending.lock().expect("nothing panics while it holds this lock").remove(&name);
            let mut report = self.report.lock().expect("nothing panics while it holds this lock");
            match &result {
                Ok(_) => report.unchanged += 1,
                Err(NotPut::Changed) => report.unstable += 1,
                Err(_) => report.failed += 1,
            }
            drop(report);
            if let Some(trouble) = trouble {
                self.watcher.trouble(trouble);
            }
        }
    }

    fn put_stream(&self, reader: &mut dyn Read, name: ObjectName) -> Result<Handled, NotPut> {
        check_name(&name)?;
        let room = self.reserve(0)?;
        self.put_content(reader, &Facts::unknown(name), room, &|| Ok(()))
    }

    /// Puts a file, link or folder. Torn content is never stored: a file that changes while it is
    /// read is discarded and read again.
    fn put_path(&self, path: &Path, name: &ObjectName, mut known: Option<&mut dyn ContentCheck>) -> Result<Handled, NotPut> {
        check_name(name)?;
        for _ in 1..ATTEMPTS_MAX {
            match self.put_path_once(path, name, &mut known) {
                Err(NotPut::Changed) => std::thread::sleep(RETRY_PAUSE),
                result => return result,
            }
        }
        self.put_path_once(path, name, &mut known)
    }

    fn put_path_once(&self, path: &Path, name: &ObjectName, known: &mut Option<&mut dyn ContentCheck>) -> Result<Handled, NotPut> {
        let metadata = std::fs::symlink_metadata(path)?;
        let kind = metadata.file_type();
        if kind.is_file() {
            return self.put_file(path, name, &metadata, known);
        }
        if known.is_some() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no longer a regular file").into());
        }
        let (facts, content) = if kind.is_symlink() {
            use std::os::unix::ffi::OsStringExt;
            let mut facts = Facts::of(name, Kind::SymbolicLink, &metadata);
            facts.mode = None;
            (facts, std::fs::read_link(path)?.into_os_string().into_vec())
        } else if kind.is_dir() {
            (Facts::of(name, Kind::Directory, &metadata), Vec::new())
        } else {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "not a file, a folder or a symbolic link").into());
        };
        match self.skip.compare(self.archive, self.suspects, &facts, &metadata)? {
            Known::Same => return Ok(Handled::Unchanged),
            Known::IfContent(digest) if digest == digest_of(digest::digest(&digest::SHA256, &content)) => return Ok(Handled::Unchanged),
            _ => {}
        }
        let room = self.reserve(content.len() as u64)?;
        self.put_content(&mut &content[..], &facts, room, &|| Ok(()))
    }

    fn put_file(
        &self,
        path: &Path,
        name: &ObjectName,
        metadata: &Metadata,
        known: &mut Option<&mut dyn ContentCheck>,
    ) -> Result<Handled, NotPut> {
        match self.skip.compare(self.archive, self.suspects, &Facts::of(name, Kind::File, metadata), metadata)? {
            // Times alone don't show that content is what is known of it.
            Known::Same if known.is_none() => {
                self.watcher.done(1, metadata.len());
                return Ok(Handled::Unchanged);
            }
            Known::IfContent(digest) => {
                let file = StableFile::open(path)?.ok_or(NotPut::Changed)?;
                // If the content differs, it is read again below to be stored.
                if digest == self.read_digest(&file, known)? {
                    self.watcher.done(1, 0);
                    return Ok(Handled::Unchanged);
                }
            }
            Known::Same | Known::Other => {}
        }
        // Waiting for room can take long, so open the file only after that.
        let room = self.reserve(metadata.len())?;
        let file = StableFile::open(path)?.ok_or(NotPut::Changed)?;
        let bytes = file.before.len();
        // Only `metadata.len()` bytes are reserved.
        if bytes > metadata.len() {
            return Err(NotPut::Changed);
        }
        let mut facts = Facts::of(name, Kind::File, &file.before);
        // Some files claim size 0 but have content, for example in /proc.
        facts.size = (bytes > 0).then_some(bytes);
        let check = || if file.is_unchanged()? { Ok(()) } else { Err(NotPut::Changed) };
        let mut content = (&file.file).take(facts.size.unwrap_or(u64::MAX));
        let Some(known) = known else { return self.put_content(&mut content, &facts, room, &check) };
        known.restart();
        self.put_content(&mut Checking { content, known: &mut **known }, &facts, room, &check)
    }

    /// The SHA-256 of a file, which is also compared with what is known of its content.
    fn read_digest(&self, file: &StableFile, known: &mut Option<&mut dyn ContentCheck>) -> Result<Digest, NotPut> {
        let mut hash = digest::Context::new(&digest::SHA256);
        let mut buffer = self.buffers.take(RECORD_BYTES);
        let mut reader = (&file.file).take(file.before.len());
        if let Some(known) = known {
            known.restart();
        }
        loop {
            let read = read_full(&mut reader, &mut buffer)?;
            if !file.is_unchanged()? {
                return Err(NotPut::Changed);
            }
            hash.update(&buffer[..read]);
            if let Some(known) = known {
                known.update(&buffer[..read]);
            }
            self.watcher.done(0, read as u64);
            if read < buffer.len() {
                if let Some(known) = known {
                    known.finish().map_err(io::Error::other)?;
                }
                self.buffers.give_back(buffer);
                return Ok(digest_of(hash.finish()));
            }
        }
    }

    fn reserve(&self, content: u64) -> Result<Reservation<'a>, NotPut> {
        let mut made = false;
        let reserved = self.room.reserve(content, &mut || {
            made = self.make_room();
            made
        });
        reserved.map_err(|none| self.no_room(none, made))
    }

    fn reserve_piece(&self, bytes: u64) -> Result<Reservation<'a>, NotPut> {
        self.room.reserve_piece(bytes).or_else(|none| match self.make_room() {
            true => self.room.reserve_piece(bytes).map_err(|none| self.no_room(none, true)),
            false => Err(self.no_room(none, false)),
        })
    }

    /// The error for an object without room. `made` is true if room was made for it, but not
    /// enough.
    fn no_room(&self, NoRoom { needed, reserved }: NoRoom, made: bool) -> NotPut {
        let full = self.archive.staging().full(needed, reserved);
        if made {
            // Other objects may be smaller, so the put continues.
            let free = self.archive.staging().room();
            let why = format!("it needs {needed} bytes of staging, but only {free} are free even with everything else written to platters");
            return io::Error::new(io::ErrorKind::StorageFull, why).into();
        }
        ArchiveError::from(full).into()
    }

    fn make_room(&self) -> bool {
        let Some(flush) = self.flush else { return false };
        let (reply_tx, reply_rx) = sync_channel(1);
        self.writer_tx.send(WriterMessage::Checkpoint(reply_tx)).is_ok() && reply_rx.recv().is_ok() && flush()
    }

    /// Puts the content of `reader`. Calls `check` after each piece is read, and so also before the
    /// object is sent to the writer.
    fn put_content(&self, reader: &mut dyn Read, facts: &Facts<'_>, room: Reservation<'a>, check: Check<'_>) -> Result<Handled, NotPut> {
        let mut sealing = Sealing::new(self.archive);
        if let Err(error) = self.send_content(&mut sealing, reader, facts, check) {
            if sealing.stored > 0 {
                let _ = self.writer_tx.send(WriterMessage::Piece(Piece::Abandoned(sealing.id), None));
            }
            return Err(error);
        }
        let (name, kind, modified, mode) = (facts.name.as_ref().clone(), facts.kind, facts.modified, facts.mode);
        let object = NewObject { name, kind, modified, mode, attributes: Attributes::default() };
        self.send(WriterMessage::Object(Box::new(sealing.draft(self.archive, object)), room))?;
        self.watcher.done(1, 0);
        Ok(Handled::Sent)
    }

    fn send_content(&self, sealing: &mut Sealing, reader: &mut dyn Read, facts: &Facts<'_>, check: Check<'_>) -> Result<(), NotPut> {
        // Without a known size, each piece needs room of its own.
        let is_unbounded = facts.kind == Kind::File && facts.size.is_none();
        loop {
            // At the end, the buffer has room for one byte more than is left. The source can't fill
            // that, so a buffer that isn't full marks the end.
            let expected = facts.size.map_or(RECORD_BYTES as u64, |size| stored_bytes(size + 1 - sealing.size.min(size)));
            let mut payload = self.buffers.take(expected.min(RECORD_BYTES as u64) as usize);
            let mut filled = 0;
            while filled < payload.len() {
                let frame_bytes = (payload.len() - filled).min(STORED_FRAME_BYTES);
                let frame = &mut payload[filled..filled + frame_bytes];
                let read = read_full(reader, &mut frame[..frame_bytes - TAG_BYTES])?;
                if read == 0 {
                    break;
                }
                sealing.hash.update(&frame[..read]);
                sealing.frames.seal(sealing.size / FRAME_BYTES as u64, &mut frame[..read + TAG_BYTES]);
                sealing.size += read as u64;
                filled += read + TAG_BYTES;
                self.watcher.done(0, read as u64);
                if read + TAG_BYTES < frame_bytes {
                    break;
                }
            }
            check()?;
            let ended = filled < payload.len();
            if filled > 0 {
                assert!(ended || sealing.size.is_multiple_of(FRAME_BYTES as u64), "no source yields more than `facts.size` bytes");
                payload.truncate(filled);
                let room = is_unbounded.then(|| self.reserve_piece(filled as u64)).transpose()?;
                self.send(WriterMessage::Piece(sealing.piece(payload), room))?;
            }
            if ended {
                return Ok(());
            }
        }
    }

    fn send(&self, message: WriterMessage<'a>) -> Result<(), NotPut> {
        self.writer_tx.send(message).map_err(|_| NotPut::Writer)
    }
}

/// Fails, before anything is read, if a name is too long for a record.
fn check_name(name: &ObjectName) -> Result<(), io::Error> {
    check_record_length(name, &Attributes::default()).map_err(io::Error::other)
}

/// Content that is compared with what is known of it. The last read fails if it differs, so that
/// the object is given up.
struct Checking<'a, R> {
    content: R,
    known: &'a mut dyn ContentCheck,
}

impl<R: Read> Read for Checking<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.content.read(buffer)?;
        match read {
            0 if !buffer.is_empty() => self.known.finish().map_err(io::Error::other)?,
            _ => self.known.update(&buffer[..read]),
        }
        Ok(read)
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
