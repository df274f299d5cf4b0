//! Large objects on their way out, to clients of any speed.
//!
//! ```text
//! thread: reads a record, or a frame where memory is scarce --> channel of one --> stream --> client
//!    ^--- ends when the client keeps it waiting; another goes on where the stream is ---'
//! ```
//!
//! A slow client holds no thread and no turn to read, and no more memory than a record; where many do, a frame.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fulgurite_archive::Archive;
use fulgurite_archive::object::{ObjectReader, Opened, ReadError};
use futures_util::{Stream, stream};
use s3s::StdError;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc};

use crate::gateway::Gateway;
use crate::transfer::buffers::Buffers;

/// Content of a staged record, which is read at once.
const RECORD: u64 = 1 << 20;
/// Content of a frame, the least that can be read.
const FRAME: u64 = 64 << 10;
/// How long a reader waits for its client before it gives up its turn.
const WAIT: Duration = Duration::from_secs(1);

/// What it takes to read an object.
#[derive(Clone)]
struct Source {
    archive: Arc<Archive>,
    opened: Arc<Opened>,
    buffers: Buffers,
    /// Records that all clients may hold.
    records: Arc<Semaphore>,
}

/// An object that is being sent.
struct Sending {
    source: Source,
    /// Readers at once.
    turns: Arc<Semaphore>,
    /// What was not handed on yet, of the object and of what was read.
    left: Range<u64>,
    pieces: VecDeque<Bytes>,
    /// A reader that is under way.
    reader: Option<mpsc::Receiver<Result<VecDeque<Bytes>, StdError>>>,
}

/// A part of the content of an object, as a stream. What can't be read ends it with an error.
pub(crate) fn stream(gateway: &Gateway, opened: Opened, range: Range<u64>) -> impl Stream<Item = Result<Bytes, StdError>> + Send + use<> {
    let source = Source {
        archive: gateway.archive.clone(),
        opened: Arc::new(opened),
        buffers: gateway.buffers.clone(),
        records: gateway.outgoing_records.clone(),
    };
    let sending = Sending { source, turns: gateway.outgoing.clone(), left: range, pieces: VecDeque::new(), reader: None };
    stream::unfold(Some(sending), |sending| async {
        let mut sending = sending?;
        let next = sending.next().await?;
        let goes_on = next.is_ok();
        Some((next, goes_on.then_some(sending)))
    })
}

impl Sending {
    async fn next(&mut self) -> Option<Result<Bytes, StdError>> {
        loop {
            if let Some(piece) = self.pieces.pop_front() {
                self.left.start += piece.len() as u64;
                return Some(Ok(piece));
            }
            if self.left.is_empty() {
                return None;
            }
            let reader = match &mut self.reader {
                Some(reader) => reader,
                None => {
                    let turn = self.turns.clone().acquire_owned().await.expect("it is never closed");
                    let (read, reader) = mpsc::channel(1);
                    let (source, range, runtime) = (self.source.clone(), self.left.clone(), Handle::current());
                    tokio::task::spawn_blocking(move || {
                        let _turn = turn;
                        source.read(range, &read, &runtime);
                    });
                    self.reader.insert(reader)
                }
            };
            match reader.recv().await {
                Some(Ok(pieces)) => self.pieces = pieces,
                Some(Err(error)) => return Some(Err(error)),
                // It had waited for the client for too long. What it had read last is read again.
                None => self.reader = None,
            }
        }
    }
}

impl Source {
    /// Reads on for as long as the client keeps up.
    fn read(&self, mut range: Range<u64>, read: &mpsc::Sender<Result<VecDeque<Bytes>, StdError>>, runtime: &Handle) {
        let mut reader = ObjectReader::new(&self.archive);
        while !range.is_empty() {
            let found = self.read_some(&mut reader, &mut range).map_err(|error| {
                tracing::error!(%error, name = %self.opened.version().record.name.display(), "an object can't be read");
                StdError::from(error)
            });
            let is_wrong = found.is_err();
            let sent = runtime.block_on(async { tokio::time::timeout(WAIT, read.send(found)).await });
            if is_wrong || !matches!(sent, Ok(Ok(()))) {
                return;
            }
        }
    }

    /// Reads a record, or a frame where all memory for records is taken.
    fn read_some(&self, reader: &mut ObjectReader<'_>, range: &mut Range<u64>) -> Result<VecDeque<Bytes>, ReadError> {
        let mut share = self.records.clone().try_acquire_owned().ok();
        let unit = if share.is_some() { RECORD } else { FRAME };
        let now = range.start..((range.start / unit + 1) * unit).min(range.end);
        range.start = now.end;
        let mut found = VecDeque::new();
        reader.read_opened(&self.opened, now, &mut |buffer, pieces| {
            match share.take() {
                Some(share) => {
                    let shared = self.buffers.share(std::mem::replace(buffer, self.buffers.take()), share);
                    found.extend(pieces.iter().map(|piece| shared.slice(piece.clone())));
                }
                None => found.extend(pieces.iter().map(|piece| Bytes::copy_from_slice(&buffer[piece.clone()]))),
            }
            Ok::<_, io::Error>(())
        })?;
        Ok(found)
    }
}
