//! A batch on its way out: versions are found, put into the order in which they lie, and read one after another into a tar archive.
//!
//! Small objects are read and checked in full before anything of them is sent, so what is wrong with them becomes a line of the result. Of a larger one
//! the head has gone by then: if it can't be read on, the answer ends without its end, which HTTP and tar both notice.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use fulgurite_archive::object::{ObjectReader, ReadError};
use fulgurite_archive::place::Place;
use fulgurite_domain::VersionId;
use s3s::{S3Error, S3ErrorCode, S3Result};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::asked::Wanted;
use super::result::{self, entry_name, is_path};
use crate::auth::access::Rights;
use crate::auth::caller::Caller;
use crate::gateway::Gateway;
use crate::s3::bulk_get::tar::{self, Entry};
use crate::s3::errors::{catalogue_failed, failed, not_read};
use crate::s3::key_locks::object_name;
use crate::s3::object_lock::shown_id;
use crate::s3::version::{Version, ms_of};
use crate::state::Bucket;

/// Objects up to this size are read and checked before anything of them is sent.
const SMALL: u64 = 1 << 20;
/// Bytes of a piece of the answer.
const PIECE_BYTES: usize = 64 << 10;
/// Pieces that wait for a slow client.
pub(super) const AHEAD: usize = 4;
/// How long a client may read nothing.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long something that is there to be sent waits for more.
const LINGER: Duration = Duration::from_secs(1);
/// How often an object is looked up again that is replaced while it is read.
const ATTEMPTS: u32 = 8;
/// How often it is looked whether the client is still there, while nothing is sent.
const LOOKS: usize = 256;

/// An object that was asked for, and what is known of it.
pub(super) struct Item {
    pub(super) wanted: Wanted,
    pub(super) outcome: Outcome,
}

/// What became of it.
pub(super) enum Outcome {
    /// It was not looked for yet.
    Open,
    /// It is there and may be read.
    Found { id: VersionId, place: Place },
    /// All of it was sent.
    Given { version_id: Option<Box<str>>, size: u64, etag: Box<str> },
    /// It can't be had.
    Refused { code: S3ErrorCode, message: Box<str> },
}

impl From<S3Error> for Outcome {
    fn from(error: S3Error) -> Self {
        Self::Refused { code: error.code().clone(), message: error.message().unwrap_or_default().into() }
    }
}

/// Why an answer ends before its end.
#[derive(Debug, thiserror::Error)]
enum Stopped {
    /// The client went away, or reads nothing.
    #[error("the client takes no more: {0}")]
    Client(#[from] io::Error),
    /// An object can't be read on.
    #[error("{name} can't be read on: {error}")]
    Midway { name: String, error: ReadError },
}

/// Why an object was not sent.
enum Unsent {
    Stopped(Stopped),
    /// Nothing of it has gone.
    Unread(ReadError),
}

impl From<io::Error> for Unsent {
    fn from(error: io::Error) -> Self {
        Self::Stopped(Stopped::Client(error))
    }
}

/// A batch. It runs on a thread of its own and blocks there.
pub(super) struct Batch {
    pub(super) gateway: Arc<Gateway>,
    pub(super) bucket: Arc<Bucket>,
    pub(super) caller: Caller,
    pub(super) items: Vec<Item>,
    pub(super) out: Out,
}

impl Batch {
    /// Reads and sends everything.
    pub(super) fn run(mut self) {
        let begun = Instant::now();
        let ended = self.find().map_err(Stopped::from).and_then(|order| self.read(&order)).and_then(|()| Ok(self.report()?));
        let (bucket, objects, bytes, ms) = (&self.bucket.name, self.items.len(), self.out.bytes, begun.elapsed().as_millis() as u64);
        match ended {
            Ok(()) => tracing::info!(bucket, objects, bytes, ms, "retrieved"),
            Err(Stopped::Client(error)) => tracing::debug!(bucket, objects, bytes, ms, %error, "retrieving was given up by the client"),
            Err(error) => tracing::error!(bucket, objects, bytes, ms, %error, "retrieving was broken off"),
        }
    }

    /// Looks for all versions, and says in which order those that are there are best read.
    fn find(&mut self) -> io::Result<Vec<usize>> {
        let (gateway, bucket) = (self.gateway.clone(), self.bucket.clone());
        let rights = Rights::new(&gateway, &bucket, &self.caller);
        let find = |wanted: &Wanted| -> S3Result<Outcome> {
            let action = if wanted.version_id.is_some() { "s3:GetObjectVersion" } else { "s3:GetObject" };
            rights.may(action, Some(&wanted.key), wanted.version_id.as_deref())?;
            let found = gateway.find(&bucket.name, &wanted.key, wanted.version_id.as_deref());
            let version = found.map_err(|error| rights.hidden(error))?;
            let place = gateway.archive.place_of(&version.row).map_err(|error| failed("looking for an object", &error))?;
            Ok(Outcome::Found { id: version.row.id, place })
        };
        for (index, item) in self.items.iter_mut().enumerate() {
            if index.is_multiple_of(LOOKS) {
                self.out.check()?;
            }
            item.outcome = find(&item.wanted).unwrap_or_else(Outcome::from);
        }
        let place = |index: usize| match self.items[index].outcome {
            Outcome::Found { place, .. } => Some(place),
            _ => None,
        };
        let mut order: Vec<usize> = (0..self.items.len()).filter(|index| place(*index).is_some()).collect();
        // What is asked for twice is read once, so the same has to stand side by side.
        order.sort_unstable_by(|a, b| (place(*a), &self.items[*a].wanted, a).cmp(&(place(*b), &self.items[*b].wanted, b)));
        Ok(order)
    }

    fn read(&mut self, order: &[usize]) -> Result<(), Stopped> {
        let gateway = self.gateway.clone();
        let mut reader = ObjectReader::new(&gateway.archive);
        let mut content = Vec::new();
        for (at, &index) in order.iter().enumerate() {
            self.out.check()?;
            if let Some(before) = at.checked_sub(1).map(|before| order[before])
                && self.items[before].wanted == self.items[index].wanted
            {
                self.items[index].outcome = match &self.items[before].outcome {
                    Outcome::Given { version_id, size, etag } => {
                        Outcome::Given { version_id: version_id.clone(), size: *size, etag: etag.clone() }
                    }
                    Outcome::Refused { code, message } => Outcome::Refused { code: code.clone(), message: message.clone() },
                    Outcome::Open | Outcome::Found { .. } => unreachable!("what stands before has been read"),
                };
                continue;
            }
            let places = order[at..].iter().map_while(|index| match self.items[*index].outcome {
                Outcome::Found { place, .. } => Some(place),
                _ => None,
            });
            reader.expect(places);
            self.items[index].outcome = self.give(&mut reader, &mut content, index)?;
        }
        Ok(())
    }

    /// Reads and sends one object.
    fn give(&mut self, reader: &mut ObjectReader<'_>, content: &mut Vec<u8>, index: usize) -> Result<Outcome, Stopped> {
        let Item { wanted, outcome: Outcome::Found { id, .. } } = &self.items[index] else { unreachable!("only what was found is read") };
        let (wanted, gateway, bucket) = (wanted.clone(), self.gateway.clone(), self.bucket.clone());
        let caller = self.caller.clone();
        let again = || {
            let found = gateway.find(&bucket.name, &wanted.key, wanted.version_id.as_deref());
            found.map_err(|error| gateway.hidden(Some(&caller), &bucket, error))
        };
        let row = gateway.archive.reading().version(&object_name(&bucket.name, &wanted.key), *id).map_err(catalogue_failed);
        let mut found = row.and_then(|row| row.map_or_else(again, |row| Ok(Version::new(row))));
        let mut attempts = 0;
        loop {
            let version = match found.and_then(|version| gateway.readable(&version).map(|_| version)) {
                Ok(version) => version,
                Err(error) => return Ok(error.into()),
            };
            match self.send(reader, content, &wanted, &version) {
                Ok(()) => {
                    let version_id = shown_id(&bucket, &version).map(Into::into);
                    return Ok(Outcome::Given { version_id, size: version.size(), etag: version.etag().value().into() });
                }
                Err(Unsent::Stopped(stopped)) => return Err(stopped),
                // It was replaced between the look at the catalogue and the read: what has taken its place is read.
                Err(Unsent::Unread(_)) if attempts < ATTEMPTS && gateway.is_gone(&version).unwrap_or(false) => attempts += 1,
                Err(Unsent::Unread(error)) => return Ok(not_read("reading an object", &error).into()),
            }
            found = again();
        }
    }

    fn send(&mut self, reader: &mut ObjectReader<'_>, content: &mut Vec<u8>, wanted: &Wanted, version: &Version) -> Result<(), Unsent> {
        let (name, id, etag) = (entry_name(wanted), version.id(), version.etag());
        let mut records = vec![(tar::ETAG, etag.value()), (tar::VERSION_ID, id.as_str())];
        if !is_path(&wanted.key) {
            records.push((tar::KEY, &wanted.key));
        }
        let modified = (ms_of(&version.modified()) / 1_000).unsigned_abs();
        let entry = Entry { name: &name, size: version.size(), modified, records: &records };
        // One read at a time of those that all clients have; who waits for one comes next.
        let (runtime, gateway) = (self.out.runtime.clone(), self.gateway.clone());
        let turn = || runtime.block_on(gateway.outgoing.acquire()).expect("it is never closed");
        let mut permit = Some(turn());
        if version.size() <= SMALL {
            content.clear();
            let read = reader.read(&version.row, &mut |bytes| {
                content.extend_from_slice(bytes);
                Ok(())
            });
            drop(permit);
            read.map_err(Unsent::Unread)?;
            self.out.begin(&entry)?;
            self.out.write_all(content)?;
        } else {
            let mut has_begun = false;
            let out = &mut self.out;
            let read = reader.read(&version.row, &mut |bytes| {
                // The client may be slow; others read meanwhile.
                permit = None;
                if !std::mem::replace(&mut has_begun, true) {
                    out.begin(&entry)?;
                }
                out.write_all(bytes)?;
                permit = Some(turn());
                Ok(())
            });
            drop(permit);
            match read {
                Ok(()) => {}
                Err(ReadError::Sink(error)) => return Err(error.into()),
                Err(error) if has_begun => {
                    let name = version.row.record.name.display().to_string();
                    return Err(Unsent::Stopped(Stopped::Midway { name, error }));
                }
                Err(error) => return Err(Unsent::Unread(error)),
            }
        }
        self.out.pad(version.size())?;
        Ok(())
    }

    /// Sends what became of each object, and the end.
    fn report(&mut self) -> io::Result<()> {
        let size = result::measure(&self.bucket.name, &self.items)?;
        let modified = (crate::state::now_ms() / 1_000).unsigned_abs();
        self.out.begin(&Entry { name: result::NAME, size, modified, records: &[] })?;
        result::write(&self.bucket.name, &self.items, &mut self.out)?;
        self.out.pad(size)?;
        self.out.write_all(&tar::END)?;
        self.out.flush()?;
        self.out.whole.store(true, Ordering::Release);
        Ok(())
    }
}

/// The answer, in pieces, to a client that may be slow.
pub(super) struct Out {
    pieces: mpsc::Sender<Bytes>,
    runtime: Handle,
    buffer: Vec<u8>,
    flushed: Instant,
    bytes: u64,
    /// Whether all of it was sent; else its end is none.
    whole: Arc<AtomicBool>,
}

impl Out {
    /// Sends to `pieces`, and says in `whole` whether that was all.
    pub(super) fn new(pieces: mpsc::Sender<Bytes>, runtime: Handle, whole: Arc<AtomicBool>) -> Self {
        Self { pieces, runtime, buffer: Vec::new(), flushed: Instant::now(), bytes: 0, whole }
    }

    /// Looks whether the client is still there, and sends what has waited for long.
    fn check(&mut self) -> io::Result<()> {
        if self.pieces.is_closed() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if !self.buffer.is_empty() && self.flushed.elapsed() >= LINGER { self.flush() } else { Ok(()) }
    }

    fn begin(&mut self, entry: &Entry<'_>) -> io::Result<()> {
        let mut head = Vec::new();
        entry.begin(&mut head);
        self.write_all(&head)
    }

    fn pad(&mut self, size: u64) -> io::Result<()> {
        let mut padding = Vec::new();
        tar::pad(&mut padding, size);
        self.write_all(&padding)
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buffer.len() == PIECE_BYTES {
            self.flush()?;
        }
        if self.buffer.capacity() == 0 {
            self.buffer.reserve_exact(PIECE_BYTES);
        }
        let now = bytes.len().min(PIECE_BYTES - self.buffer.len());
        self.buffer.extend_from_slice(&bytes[..now]);
        Ok(now)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.flushed = Instant::now();
        if self.buffer.is_empty() {
            return Ok(());
        }
        self.bytes += self.buffer.len() as u64;
        let piece = Bytes::from(std::mem::take(&mut self.buffer));
        match self.runtime.block_on(async { tokio::time::timeout(PATIENCE, self.pieces.send(piece)).await }) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(io::ErrorKind::BrokenPipe.into()),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}
