//! A store behind a network: one object for each platter, in any service that opendal has and that can do what is needed.
//!
//! ```text
//! write   --> [piece] [piece] [piece] ...   platters/<identifier>.part
//! finish  --> closed, and read from there
//! commit  --> renamed, or copied by the service and then deleted:   platters/<identifier>.platter
//! ```
//!
//! What a crash leaves is the service's promise: what it has acknowledged is there. So nothing is synced here, and what is written in place of another
//! platter is seen whole or not at all if the service does that with names (rename) or objects (copy), as object stores do.
//!
//! Requests that fail for a while are repeated for some seconds, then it is an error. How long one request may take is for the operator to
//! say (opendal's `TimeoutLayer`): whoever makes it knows its service. Uploads that a dead process left open can't be seen from here; a
//! bucket should have a rule that ends them.
//!
//! opendal is asynchronous and the archive is not. Each store has a runtime of one thread that carries out its requests, and whoever asks
//! waits for the answer. opendal's blocking operator would panic where another runtime is at work, such as in a network service; here such a
//! thread is merely blocked, as by any file.

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
use crate::mark::MARK_BYTES;

/// A store behind a network.
pub struct RemoteStore {
    name: String,
    archive: ArchiveId,
    service: Arc<Service>,
}

impl RemoteStore {
    /// The store called `name` of an archive, in what the operator has as its root.
    ///
    /// # Errors
    /// [`StoreError::Unfit`] if the service can't do all that a store has to, [`StoreError::Io`] if there can be no thread for it.
    pub fn new(name: String, archive: ArchiveId, operator: Operator) -> Result<Self, StoreError> {
        let can = operator.info().capability();
        let needed = [
            (can.stat, "way to ask for the length of an object"),
            (can.read, "reading"),
            (can.write && can.write_can_multi, "writing of an object in pieces"),
            (can.delete, "deleting"),
            (can.list, "listing"),
            (can.rename || can.copy, "renaming and no copying"),
        ];
        if let Some(&(_, lacks)) = needed.iter().find(|(can, _)| !can) {
            return Err(StoreError::Unfit { place: place(&operator), store: name, lacks });
        }
        match Service::new(operator) {
            Ok(service) => Ok(Self { name, archive, service: Arc::new(service) }),
            Err((operator, source)) => Err(StoreError::Io { place: place(&operator), store: name, source }),
        }
    }

    fn io(&self, source: io::Error) -> StoreError {
        StoreError::Io { store: self.name.clone(), place: self.place(), source }
    }

    fn read_mark(&self) -> Result<Option<String>, StoreError> {
        let read = || {
            let Some(bytes) = self.service.length(MARK)? else { return Ok(None) };
            let mut mark = vec![0; MARK_BYTES.min(usize::try_from(bytes).unwrap_or(MARK_BYTES))];
            self.service.read(MARK, 0, &mut mark)?;
            Ok(Some(String::from_utf8_lossy(&mark).into_owned()))
        };
        read().map_err(|error| self.io(error))
    }

    /// Whether there is a mark.
    fn is_marked(&self) -> Result<bool, StoreError> {
        let expected = layout::mark_text(self.archive, &self.name);
        match self.read_mark()? {
            None => Ok(false),
            Some(found) if found == expected => Ok(true),
            Some(found) => Err(layout::foreign(self, &found, &expected)),
        }
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
        if self.is_marked()? {
            return Ok(());
        }
        let write = || {
            let text = layout::mark_text(self.archive, &self.name);
            let (part, bytes) = (format!("{MARK}.part"), text.len() as u64);
            let (operator, name) = (self.service.operator.clone(), part.clone());
            self.service.ask(async move { operator.write(&name, text).await })?;
            // Whole or not at all, so that what was cut short can be tried again.
            self.service.put_in_place(part, MARK.to_owned(), bytes)
        };
        write().map_err(|error| self.io(error))
    }

    fn check(&self) -> Result<(), StoreError> {
        match self.is_marked()? {
            true => Ok(()),
            false => Err(StoreError::Unmarked { store: self.name.clone(), place: self.place() }),
        }
    }

    fn create(&self, platter: PlatterId, bytes: u64) -> io::Result<Box<dyn PlatterSink>> {
        let (operator, part) = (self.service.operator.clone(), part_name(platter));
        let writer = self.service.ask(async move { operator.writer_with(&part).concurrent(PIECES_AT_ONCE).await })?;
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

    /// Nobody knows.
    fn free_bytes(&self) -> Option<u64> {
        None
    }
}

fn place(operator: &Operator) -> String {
    let info = operator.info();
    format!("{}://{}{}", info.scheme(), info.name(), info.root())
}

/// Bytes sent at once. S3 wants at least 5 MiB.
const PIECE_BYTES: u64 = 8 << 20;
/// Pieces that an object can have in S3.
const MOST_PIECES: u64 = 10_000;
/// Pieces under way at the same time, where the service can do that; each is in memory.
const PIECES_AT_ONCE: usize = 2;

/// Bytes of a piece of a platter of so many bytes: large platters need larger ones.
fn piece_bytes(platter_bytes: u64) -> usize {
    let bytes = PIECE_BYTES.max(platter_bytes.div_ceil(MOST_PIECES));
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// The wait before a request is repeated; it doubles each time. Tests know that they needn't wait.
const FIRST_WAIT: Duration = Duration::from_millis(if cfg!(test) { 1 } else { 100 });
/// With the waits above, six seconds and a third.
const REPEATS: usize = 6;

/// An operator, and the thread that works for it.
struct Service {
    operator: Operator,
    renames: bool,
    /// There until it is dropped.
    runtime: Option<Runtime>,
}

impl Drop for Service {
    fn drop(&mut self) {
        // Waiting for the thread would be a panic where another runtime is at work. Nothing is under way any more: whoever asks holds this.
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
        let retry = RetryLayer::new().with_min_delay(FIRST_WAIT).with_max_times(REPEATS).with_jitter();
        Ok(Self { operator: operator.layer(retry), renames, runtime: Some(runtime) })
    }

    /// Has the runtime do it, and waits.
    fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> io::Result<T> {
        let runtime = self.runtime.as_ref().expect("it is there until this is dropped");
        let (answer, answered) = std::sync::mpsc::sync_channel(1);
        runtime.spawn(async move {
            let _ = answer.send(work.await);
        });
        // It ends without an answer by a panic, which has been printed.
        answered.recv().map_err(|_| io::Error::other("the service's library failed"))
    }

    fn ask<T: Send + 'static>(&self, work: impl Future<Output = opendal::Result<T>> + Send + 'static) -> io::Result<T> {
        self.run(work)?.map_err(io_error)
    }

    /// Length of an object; `None` if it isn't there.
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
        // Some services take an empty range for all.
        if buffer.is_empty() {
            return Ok(());
        }
        let (operator, name, range) = (self.operator.clone(), name.to_owned(), offset..offset + buffer.len() as u64);
        let mut read = self.ask(async move { operator.read_with(&name).range(range).await })?;
        read.read_exact(buffer)
    }

    /// Names in the folder of platters; none if there is no such thing.
    fn names(&self) -> io::Result<Vec<String>> {
        let operator = self.operator.clone();
        match self.ask(async move { operator.list(&format!("{PLATTERS}/")).await }) {
            Ok(entries) => Ok(entries.iter().map(|entry| entry.name().to_owned()).collect()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// That it isn't there is no error.
    fn delete(&self, name: String) -> io::Result<()> {
        let operator = self.operator.clone();
        self.ask(async move { operator.delete(&name).await })
    }

    /// Gives an object of so many bytes its name, in place of what had it.
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
                // If it stays, it is swept away some day.
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
        false => Err(io::Error::new(io::ErrorKind::InvalidData, format!("the service has {kept} bytes of {sent} that were sent"))),
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
                // For which `write_all` would try again, and it has been tried often enough.
                None | Some(io::ErrorKind::Interrupted) => io::ErrorKind::Other,
                Some(kind) => kind,
            }
        }
    };
    io::Error::new(kind, error)
}

/// A platter being sent.
struct RemoteSink {
    service: Arc<Service>,
    platter: PlatterId,
    /// There until all is sent, or something failed.
    writer: Option<Writer>,
    piece: Vec<u8>,
    piece_bytes: usize,
    sent: u64,
    complete: bool,
    committed: Arc<AtomicBool>,
}

impl RemoteSink {
    fn send(&mut self) -> io::Result<()> {
        let mut writer = self.writer.take().ok_or_else(|| io::Error::other("the platter is finished, or sending it failed before"))?;
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

    /// Sends what is left, and ends the object.
    fn complete(&mut self) -> io::Result<()> {
        if self.complete {
            return Ok(());
        }
        if !self.piece.is_empty() {
            self.send()?;
        }
        let mut writer = self.writer.take().ok_or_else(|| io::Error::other("sending the platter failed before"))?;
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

/// A platter to be read, range by range. It never changes, so neither does its length.
struct RemotePlatter {
    service: Arc<Service>,
    platter: PlatterId,
    /// Tells which of its names it has.
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
