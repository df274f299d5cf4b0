//! A store in a network service: one object per platter, in any opendal service with the required
//! features.
//!
//! ```text
//! write   --> [piece] [piece] [piece] ...   platters/<identifier>.part
//! finish  --> closed, and read from there
//! commit  --> renamed, or copied by the service and then deleted:   platters/<identifier>.platter
//! ```
//!
//! A crash leaves what the service guarantees: acknowledged writes are durable. So this store syncs
//! nothing. Replacing a platter is atomic if the service's rename or copy is atomic, as in object
//! stores.
//!
//! After a temporary failure, a request is retried for some seconds before that becomes an error.
//! The operator sets the timeout of a request (opendal's `TimeoutLayer`), because the right value
//! depends on the service. Uploads left open by a dead process are invisible to this store;
//! configure a lifecycle rule on the bucket that aborts them.
//!
//! opendal is asynchronous, but the archive is not. Each store runs its requests on a
//! single-threaded runtime, and callers block until the response arrives. opendal's blocking
//! operator would panic inside another runtime, such as that of a network service; here such a
//! thread only blocks, as it does for a file.

#[cfg(all(test, feature = "remote-tests"))]
mod tests;

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fulgurite_domain::{ArchiveId, PlatterId};
use fulgurite_glass::PlatterSource;
use opendal::layers::RetryLayer;
use opendal::options::CopyOptions;
use opendal::{ErrorKind, Operator, Writer};
use tokio::runtime::{Builder, Runtime};

use super::layout::{self, MARK, PLATTERS, file_name, part_name};
use super::{PlatterFile, PlatterSink, PlatterStore, StoreError};
use crate::folder_mark::MARK_BYTES_MAX;

/// A store in a network service.
pub struct RemoteStore {
    name: String,
    archive: ArchiveId,
    service: Arc<Service>,
}

impl RemoteStore {
    /// Creates the store `name` of an archive, below the operator's root.
    ///
    /// # Errors
    /// [`StoreError::Unfit`] if the service lacks a required feature, [`StoreError::Io`] if its
    /// thread can't be started.
    pub fn new(name: String, archive: ArchiveId, operator: Operator) -> Result<Self, StoreError> {
        let can = operator.info().capability();
        let needed = [
            (can.stat, "querying the length of an object"),
            (can.read, "reading"),
            (can.write && can.write_can_multi, "writing an object in pieces"),
            (can.delete, "deleting"),
            (can.list, "listing"),
            (can.rename || can.copy, "renaming or copying"),
        ];
        if let Some(&(_, lacks)) = needed.iter().find(|(can, _)| !can) {
            return Err(StoreError::Unfit { place: place(&operator), store: name, lacks });
        }
        match Service::new(operator) {
            Ok(service) => Ok(Self { name, archive, service: Arc::new(service) }),
            Err((operator, source)) => Err(StoreError::Io { place: place(&operator), store: name, source }),
        }
    }

    fn read_mark(&self) -> Result<Option<String>, StoreError> {
        let read = || {
            let Some(bytes) = self.service.length(MARK)? else { return Ok(None) };
            let mut mark = vec![0; MARK_BYTES_MAX.min(usize::try_from(bytes).unwrap_or(MARK_BYTES_MAX))];
            self.service.read(MARK, 0, &mut mark)?;
            Ok(Some(String::from_utf8_lossy(&mark).into_owned()))
        };
        read().map_err(StoreError::io(self))
    }

    fn is_marked(&self) -> Result<bool, StoreError> {
        layout::is_marked(self, self.archive, self.read_mark()?.as_deref())
    }

    fn write_mark(&self) -> Result<(), StoreError> {
        let write = || {
            let text = layout::mark_text(self.archive, &self.name);
            let (part, bytes) = (format!("{MARK}.part"), text.len() as u64);
            let (operator, name) = (self.service.operator.clone(), part.clone());
            self.service.ask(async move { operator.write(&name, text).await })?;
            // Published atomically, so that an interrupted write can be retried.
            self.service.put_in_place(part, MARK.to_owned(), bytes)
        };
        write().map_err(StoreError::io(self))
    }
}

impl PlatterStore for RemoteStore {
    fn name(&self) -> &str {
        &self.name
    }

    fn place(&self) -> String {
        place(&self.service.operator)
    }

    fn mark(&self) -> Result<(), StoreError> {
        if self.is_marked()? { Ok(()) } else { self.write_mark() }
    }

    fn restore_mark(&self) -> Result<(), StoreError> {
        if layout::lacks_mark(self.is_marked())? { self.write_mark() } else { Ok(()) }
    }

    fn check(&self) -> Result<(), StoreError> {
        match self.is_marked()? {
            true => Ok(()),
            false => Err(layout::unmarked(self)),
        }
    }

    fn create(&self, platter: PlatterId, bytes: u64) -> io::Result<Box<dyn PlatterSink>> {
        let (operator, part) = (self.service.operator.clone(), part_name(platter));
        let writer = self.service.ask(async move { operator.writer_with(&part).concurrent(PIECES_IN_FLIGHT_MAX).await })?;
        Ok(Box::new(RemoteSink {
            service: self.service.clone(),
            platter,
            writer: Some(writer),
            piece: Vec::new(),
            piece_bytes: piece_bytes(bytes),
            sent: 0,
            complete: false,
            committed: Arc::new(AtomicBool::new(false)),
        }))
    }

    fn open(&self, platter: PlatterId) -> io::Result<Option<Arc<dyn PlatterFile>>> {
        let committed = Arc::new(AtomicBool::new(true));
        let file = |bytes| -> Arc<dyn PlatterFile> { Arc::new(RemotePlatter { service: self.service.clone(), platter, committed, bytes }) };
        Ok(self.service.length(&file_name(platter))?.map(file))
    }

    fn list(&self) -> io::Result<Vec<PlatterId>> {
        Ok(self.service.names()?.iter().filter_map(|name| layout::platter(name)).collect())
    }

    fn remove(&self, platter: PlatterId) -> io::Result<()> {
        self.service.delete(file_name(platter))
    }

    fn sweep(&self) -> io::Result<()> {
        for name in self.service.names()?.into_iter().filter(|name| layout::is_part(name)) {
            self.service.delete(format!("{PLATTERS}/{name}"))?;
        }
        Ok(())
    }

    /// The service doesn't report it.
    fn free_bytes(&self) -> Option<u64> {
        None
    }
}

fn place(operator: &Operator) -> String {
    let info = operator.info();
    format!("{}://{}{}", info.scheme(), info.name(), info.root())
}

/// Bytes per piece. S3 requires at least 5 MiB.
const PIECE_BYTES: u64 = 8 << 20;
/// Maximum number of pieces of an S3 object.
const PIECES_MAX: u64 = 10_000;
/// Pieces sent concurrently, if the service supports that. Each is held in memory.
const PIECES_IN_FLIGHT_MAX: usize = 2;

/// Piece size for a platter of `platter_bytes`. Large platters need larger pieces.
fn piece_bytes(platter_bytes: u64) -> usize {
    let bytes = PIECE_BYTES.max(platter_bytes.div_ceil(PIECES_MAX));
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Delay before the first retry; it doubles with each further one. Tests don't need to wait.
const FIRST_RETRY_DELAY: Duration = Duration::from_millis(if cfg!(test) { 1 } else { 100 });
/// With the delays above, 6.3 seconds in total, and random jitter in addition.
const RETRIES_MAX: usize = 6;

struct Service {
    operator: Operator,
    renames: bool,
    runtime: Option<Runtime>,
}

impl Drop for Service {
    fn drop(&mut self) {
        // Waiting for the thread would panic inside another runtime. No request is in flight,
        // because callers hold a reference to the service.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Service {
    fn new(operator: Operator) -> Result<Self, (Operator, io::Error)> {
        let runtime = match Builder::new_multi_thread().worker_threads(1).thread_name("remote store").enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => return Err((operator, error)),
        };
        let renames = operator.info().capability().rename;
        let retry = RetryLayer::new().with_min_delay(FIRST_RETRY_DELAY).with_max_times(RETRIES_MAX).with_jitter();
        Ok(Self { operator: operator.layer(retry), renames, runtime: Some(runtime) })
    }

    /// Runs `work` on the runtime and waits for its result.
    fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> io::Result<T> {
        let runtime = self.runtime.as_ref().expect("it is there until this is dropped");
        let (answer, answered) = std::sync::mpsc::sync_channel(1);
        runtime.spawn(async move {
            let _ = answer.send(work.await);
        });
        // The channel closes without a result only if `work` panicked. The panic has been printed.
        answered.recv().map_err(|_| io::Error::other("the service's library failed"))
    }

    fn ask<T: Send + 'static>(&self, work: impl Future<Output = opendal::Result<T>> + Send + 'static) -> io::Result<T> {
        self.run(work)?.map_err(io_error)
    }

    /// Length of an object; `None` if it doesn't exist.
    fn length(&self, name: &str) -> io::Result<Option<u64>> {
        let (operator, name) = (self.operator.clone(), name.to_owned());
        match self.ask(async move { operator.stat(&name).await }) {
            Ok(metadata) => Ok(Some(metadata.content_length())),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Fills `buffer` from an object, which must be long enough.
    fn read(&self, name: &str, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        // Some services treat an empty range as the whole object.
        if buffer.is_empty() {
            return Ok(());
        }
        let (operator, name, range) = (self.operator.clone(), name.to_owned(), offset..offset + buffer.len() as u64);
        let mut read = self.ask(async move { operator.read_with(&name).range(range).await })?;
        read.read_exact(buffer)
    }

    /// Names in the folder of platters; empty if it doesn't exist.
    fn names(&self) -> io::Result<Vec<String>> {
        let operator = self.operator.clone();
        match self.ask(async move { operator.list(&format!("{PLATTERS}/")).await }) {
            Ok(entries) => Ok(entries.iter().map(|entry| entry.name().to_owned()).collect()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    fn delete(&self, name: String) -> io::Result<()> {
        let operator = self.operator.clone();
        self.ask(async move { operator.delete(&name).await })
    }

    /// Renames an object of `bytes`, replacing an existing object of that name.
    fn put_in_place(&self, from: String, to: String, bytes: u64) -> io::Result<()> {
        let (operator, renames) = (self.operator.clone(), self.renames);
        let kept = self.ask(async move {
            if renames {
                operator.rename(&from, &to).await?;
            } else {
                let options = CopyOptions { source_content_length_hint: Some(bytes), ..CopyOptions::default() };
                operator.copy_options(&from, &to, options).await?;
            }
            let kept = operator.stat(&to).await?.content_length();
            if kept != bytes {
                let _ = operator.delete(&to).await;
            } else if !renames {
                // If this fails, a later sweep removes the part.
                let _ = operator.delete(&from).await;
            }
            Ok(kept)
        })?;
        same_length(kept, bytes)
    }
}

fn same_length(kept: u64, sent: u64) -> io::Result<()> {
    match kept == sent {
        true => Ok(()),
        false => Err(io::Error::new(io::ErrorKind::InvalidData, format!("the service stored {kept} of {sent} bytes"))),
    }
}

fn io_error(error: opendal::Error) -> io::Error {
    let kind = match error.kind() {
        ErrorKind::NotFound => io::ErrorKind::NotFound,
        ErrorKind::PermissionDenied => io::ErrorKind::PermissionDenied,
        ErrorKind::AlreadyExists => io::ErrorKind::AlreadyExists,
        ErrorKind::IsADirectory => io::ErrorKind::IsADirectory,
        ErrorKind::NotADirectory => io::ErrorKind::NotADirectory,
        ErrorKind::Unsupported => io::ErrorKind::Unsupported,
        _ => {
            let source = std::error::Error::source(&error).and_then(|source| source.downcast_ref::<io::Error>());
            match source.map(io::Error::kind) {
                // `write_all` would retry `Interrupted`, and the request has been retried enough.
                None | Some(io::ErrorKind::Interrupted) => io::ErrorKind::Other,
                Some(kind) => kind,
            }
        }
    };
    io::Error::new(kind, error)
}

struct RemoteSink {
    service: Arc<Service>,
    platter: PlatterId,
    /// Present until everything is sent or a request failed.
    writer: Option<Writer>,
    piece: Vec<u8>,
    piece_bytes: usize,
    sent: u64,
    complete: bool,
    committed: Arc<AtomicBool>,
}

impl RemoteSink {
    fn send(&mut self) -> io::Result<()> {
        let mut writer = self.writer.take().ok_or_else(|| io::Error::other("the upload is finished, or failed earlier"))?;
        let piece = std::mem::take(&mut self.piece);
        self.sent += piece.len() as u64;
        let sent = self.service.ask(async move {
            let sent = writer.write(piece).await;
            if sent.is_err() {
                let _ = writer.abort().await;
            }
            sent.map(|()| writer)
        });
        self.writer = Some(sent?);
        Ok(())
    }

    fn complete(&mut self) -> io::Result<()> {
        if self.complete {
            return Ok(());
        }
        if !self.piece.is_empty() {
            self.send()?;
        }
        let mut writer = self.writer.take().ok_or_else(|| io::Error::other("the upload failed earlier"))?;
        let ended = self.service.ask(async move {
            let ended = writer.close().await;
            if ended.is_err() {
                let _ = writer.abort().await;
            }
            ended
        })?;
        same_length(ended.content_length(), self.sent)?;
        self.complete = true;
        Ok(())
    }
}

impl Write for RemoteSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let now = bytes.len().min(self.piece_bytes - self.piece.len());
        self.piece.reserve_exact(self.piece_bytes - self.piece.len());
        self.piece.extend_from_slice(&bytes[..now]);
        if self.piece.len() == self.piece_bytes {
            self.send()?;
        }
        Ok(now)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl PlatterSink for RemoteSink {
    fn finish(&mut self) -> io::Result<Arc<dyn PlatterFile>> {
        self.complete()?;
        let part = part_name(self.platter);
        let bytes = self.service.length(&part)?.ok_or(io::ErrorKind::NotFound)?;
        same_length(bytes, self.sent)?;
        let (service, committed) = (self.service.clone(), self.committed.clone());
        Ok(Arc::new(RemotePlatter { service, platter: self.platter, committed, bytes }))
    }

    fn commit(mut self: Box<Self>) -> io::Result<()> {
        self.complete()?;
        self.service.put_in_place(part_name(self.platter), file_name(self.platter), self.sent)?;
        self.committed.store(true, Ordering::Release);
        Ok(())
    }
}

impl Drop for RemoteSink {
    fn drop(&mut self) {
        if self.committed.load(Ordering::Acquire) {
            return;
        }
        if let Some(mut writer) = self.writer.take() {
            let _ = self.service.ask(async move { writer.abort().await });
        }
        let _ = self.service.delete(part_name(self.platter));
    }
}

/// A platter read by ranges. Platters are immutable, so the length is constant.
struct RemotePlatter {
    service: Arc<Service>,
    platter: PlatterId,
    /// True once the platter has its final name.
    committed: Arc<AtomicBool>,
    bytes: u64,
}

impl PlatterSource for RemotePlatter {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.bytes.saturating_sub(offset)).unwrap_or(usize::MAX);
        let bytes = buffer.len().min(left);
        let name = if self.committed.load(Ordering::Acquire) { file_name(self.platter) } else { part_name(self.platter) };
        self.service.read(&name, offset, &mut buffer[..bytes])?;
        Ok(bytes)
    }
}

impl PlatterFile for RemotePlatter {
    fn length(&self) -> io::Result<u64> {
        Ok(self.bytes)
    }
}
