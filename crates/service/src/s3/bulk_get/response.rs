//! The response of a bulk get: looks up the versions, sorts them by their place in the archive, and
//! reads one after another into a tar archive. Or it only says where each object is in that order.
//!
//! Small objects are read and checked in full before they are sent, so their errors become lines of
//! the result. The first part of a larger object may already be sent when an error occurs; the
//! response then ends early, which HTTP and tar both detect.

use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use fulgurite_archive::object::{ObjectReader, ReadError};
use fulgurite_archive::read_order::MediumPosition;
use s3s::{S3Result, s3_error};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::entry_names::{entry_name, is_path};
use super::request::{Item, Outcome, RequestedObject};
use super::result;
use crate::auth::access::Rights;
use crate::auth::caller::Caller;
use crate::auth::grant::check_same;
use crate::gateway::Gateway;
use crate::s3::bulk_get::tar::{self, Entry};
use crate::s3::errors::{catalogue_failed, internal_error, read_failed};
use crate::s3::object_names::object_name;
use crate::s3::version::{Version, ms_of, shown_id};
use crate::state::Bucket;

/// Objects up to this size are read and checked before they are sent.
const BUFFERED_OBJECT_BYTES_MAX: u64 = 1 << 20;
/// Size of a piece of the response.
const PIECE_BYTES: usize = 64 << 10;
/// Maximum number of pieces that wait for a slow client.
pub(super) const PIECES_AHEAD_MAX: usize = 4;
/// Timeout for a client that reads nothing.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(60);
/// How long buffered bytes wait for more before they are sent.
const FLUSH_AFTER: Duration = Duration::from_secs(1);
/// Maximum number of further lookups of an object that is replaced while it is read.
const RETRIES_MAX: u32 = 8;
/// While nothing is sent, the connection of the client is checked once per this many objects.
const OBJECTS_PER_CONNECTION_CHECK: usize = 256;

/// Why a response ends early.
#[derive(Debug, thiserror::Error)]
enum Abort {
    /// The client disconnected, or reads nothing.
    #[error("the client stopped reading: {0}")]
    Client(#[from] io::Error),
    /// The rest of an object can't be read.
    #[error("can't read the rest of {name}: {error}")]
    PartiallySent { name: String, error: ReadError },
}

/// Why an object was not sent in full.
enum SendError {
    Abort(Abort),
    /// An error before any of it was sent.
    Read(ReadError),
}

impl From<io::Error> for SendError {
    fn from(error: io::Error) -> Self {
        Self::Abort(Abort::Client(error))
    }
}

/// Makes the tar archive of a bulk get. It runs on a thread that may block.
pub(super) struct TarResponse {
    pub(super) gateway: Arc<Gateway>,
    pub(super) bucket: Arc<Bucket>,
    pub(super) caller: Caller,
    pub(super) items: Vec<Item>,
    pub(super) out: ResponseWriter,
}

impl TarResponse {
    /// Sends the position of each object in the order in which a bulk get reads them, and its size.
    pub(super) fn run_order(mut self) {
        if let Err(error) = self.find().and_then(|()| self.send_order()) {
            tracing::debug!(bucket = self.bucket.name, %error, "the client stopped reading the order of a bulk get");
        }
    }

    fn send_order(&mut self) -> io::Result<()> {
        write!(self.out, "{{\"order\": [")?;
        for (index, item) in self.items.iter().enumerate() {
            self.out.write_all(if index == 0 { b"\n" } else { b",\n" })?;
            match &item.outcome {
                Outcome::Found { place, bytes, .. } => write!(self.out, "[\"{}\", {bytes}]", position(place))?,
                _ => write!(self.out, "null")?,
            }
        }
        write!(self.out, "\n]}}\n")?;
        self.out.flush()?;
        self.out.is_complete.store(true, Ordering::Release);
        Ok(())
    }

    /// Reads and sends everything.
    pub(super) fn run(mut self) {
        let started = Instant::now();
        let found = self.find().map(|()| self.reading_order()).map_err(Abort::from);
        let result = found.and_then(|order| self.read(&order)).and_then(|()| Ok(self.report()?));
        let (bucket, objects, bytes, ms) = (&self.bucket.name, self.items.len(), self.out.bytes, started.elapsed().as_millis() as u64);
        match result {
            Ok(()) => tracing::info!(bucket, objects, bytes, ms, "completed a bulk get"),
            Err(Abort::Client(error)) => tracing::debug!(bucket, objects, bytes, ms, %error, "the client aborted a bulk get"),
            Err(error) => tracing::error!(bucket, objects, bytes, ms, %error, "a bulk get ended early"),
        }
    }

    /// Looks up all versions.
    fn find(&mut self) -> io::Result<()> {
        let (gateway, caller) = (self.gateway.clone(), self.caller.clone());
        let mut index = 0;
        while index < self.items.len() {
            let bucket = match self.current_bucket() {
                Ok(bucket) => bucket,
                Err(error) => {
                    self.items[index].outcome = error.into();
                    index += 1;
                    continue;
                }
            };
            let rights = Rights::new(&gateway.namespace, &bucket, &caller);
            while index < self.items.len() {
                if index.is_multiple_of(OBJECTS_PER_CONNECTION_CHECK) {
                    self.out.check()?;
                }
                let outcome = find(&gateway, &bucket, &rights, &self.items[index].object);
                // If the bucket changed, another one may have the name, or the caller other rights.
                if !self.current_bucket().is_ok_and(|current| Arc::ptr_eq(&current, &bucket) || current == bucket) {
                    break;
                }
                self.items[index].outcome = outcome.unwrap_or_else(Outcome::from);
                index += 1;
            }
        }
        self.unify();
        Ok(())
    }

    /// Gives equal requests one outcome. Otherwise an object that is replaced between their lookups
    /// would be sent twice, as two entries of one name.
    fn unify(&mut self) {
        let mut order: Vec<usize> = (0..self.items.len()).collect();
        order.sort_unstable_by_key(|&index| (&self.items[index].object, index));
        for pair in order.windows(2) {
            if self.items[pair[0]].object == self.items[pair[1]].object {
                self.items[pair[1]].outcome = self.items[pair[0]].outcome.clone();
            }
        }
    }

    /// The bucket as it is now, or an S3 error if it is gone or has another owner.
    fn current_bucket(&self) -> S3Result<Arc<Bucket>> {
        let current = self.gateway.namespace.bucket(&self.bucket.name)?;
        check_same(&self.bucket, &current)?;
        Ok(current)
    }

    /// The version that now has the name of an object whose version is gone, if the caller may read
    /// it.
    fn find_successor(&self, object: &RequestedObject) -> S3Result<Version> {
        let found = self.gateway.namespace.find(&self.bucket.name, &object.key, object.version_id.as_deref());
        // After the lookup: it is by name, and another bucket may have the name now.
        let bucket = self.current_bucket()?;
        let rights = Rights::new(&self.gateway.namespace, &bucket, &self.caller);
        rights.may(read_action(object), Some(&object.key), object.version_id.as_deref())?;
        found.map_err(|error| rights.hide_missing(error))
    }

    /// The best order in which to read what was found.
    fn reading_order(&self) -> Vec<usize> {
        let place = |index: usize| match self.items[index].outcome {
            Outcome::Found { place, .. } => Some(place),
            _ => None,
        };
        let mut order: Vec<usize> = (0..self.items.len()).filter(|index| place(*index).is_some()).collect();
        // Duplicates are read once, so equal entries must be adjacent.
        order.sort_unstable_by(|a, b| (place(*a), &self.items[*a].object, a).cmp(&(place(*b), &self.items[*b].object, b)));
        order
    }

    fn read(&mut self, order: &[usize]) -> Result<(), Abort> {
        let gateway = self.gateway.clone();
        let mut reader = ObjectReader::new(&gateway.archive).sharing_platters();
        let mut content = Vec::new();
        for (at, &index) in order.iter().enumerate() {
            self.out.check()?;
            if let Some(before) = at.checked_sub(1).map(|before| order[before])
                && self.items[before].object == self.items[index].object
            {
                self.items[index].outcome = self.items[before].outcome.clone();
                continue;
            }
            let places = order[at..].iter().map_while(|index| match self.items[*index].outcome {
                Outcome::Found { place, .. } => Some(place),
                _ => None,
            });
            reader.expect(places);
            self.items[index].outcome = self.read_and_send(&mut reader, &mut content, index)?;
        }
        Ok(())
    }

    /// Reads and sends one object.
    fn read_and_send(&mut self, reader: &mut ObjectReader<'_>, content: &mut Vec<u8>, index: usize) -> Result<Outcome, Abort> {
        let Item { object, outcome: Outcome::Found { id, .. } } = &self.items[index] else { unreachable!("only found objects are read") };
        let (object, gateway, bucket) = (object.clone(), self.gateway.clone(), self.bucket.clone());
        let row = gateway.archive.reading().version(&object_name(&bucket.name, &object.key), *id).map_err(catalogue_failed);
        let mut found = row.and_then(|row| row.map_or_else(|| self.find_successor(&object), |row| Ok(Version::new(row))));
        let mut attempts = 0;
        loop {
            let version = match found.and_then(|version| gateway.namespace.readable(&version).map(|_| version)) {
                Ok(version) => version,
                Err(error) => return Ok(error.into()),
            };
            let range = match bytes_of(&object, &version) {
                Ok(range) => range,
                Err(error) => return Ok(error.into()),
            };
            match self.send(reader, content, &object, &version, range.clone()) {
                Ok(()) => {
                    let (version_id, size) = (shown_id(&bucket, &version).map(Into::into), range.end - range.start);
                    let range = object.range.map(|_| range);
                    return Ok(Outcome::Sent { version_id, size, etag: version.etag().value().into(), range });
                }
                Err(SendError::Abort(abort)) => return Err(abort),
                // The version was replaced between the lookup and the read: read its successor.
                Err(SendError::Read(_)) if attempts < RETRIES_MAX && gateway.namespace.is_gone(&version).unwrap_or(false) => attempts += 1,
                Err(SendError::Read(error)) => return Ok(read_failed("reading an object", &error).into()),
            }
            found = self.find_successor(&object);
        }
    }

    fn send(
        &mut self,
        reader: &mut ObjectReader<'_>,
        content: &mut Vec<u8>,
        object: &RequestedObject,
        version: &Version,
        range: Range<u64>,
    ) -> Result<(), SendError> {
        let size = range.end - range.start;
        let sent_range = format!("bytes {}-{}/{}", range.start, range.end.saturating_sub(1), version.size());
        let (name, id, etag) = (entry_name(object), version.id(), version.etag());
        let mut records = vec![(tar::ETAG, etag.value()), (tar::VERSION_ID, id.as_str())];
        if object.range.is_some() {
            records.push((tar::RANGE, &sent_range));
        }
        // The last, because some programs take a newline in it for the end of the record.
        if !is_path(&object.key) {
            records.push((tar::KEY, &object.key));
        }
        let modified = (ms_of(&version.modified()) / 1_000).unsigned_abs();
        let entry = Entry { name: &name, size, modified, records: &records };
        // Takes one of the read permits of all clients, for one read at a time. Permits are granted
        // in order of request.
        let (runtime, gateway) = (self.out.runtime.clone(), self.gateway.clone());
        let acquire_permit = || runtime.block_on(gateway.transfers.download_permits.acquire()).expect("it is never closed");
        let mut permit = Some(acquire_permit());
        if size <= BUFFERED_OBJECT_BYTES_MAX {
            content.clear();
            let mut take = |bytes: &[u8]| {
                content.extend_from_slice(bytes);
                Ok(())
            };
            // Without a range, the digest of the object is checked too.
            let read = match object.range {
                None => reader.read(&version.row, &mut take),
                Some(_) => reader.read_range(&version.row, range, &mut take),
            };
            drop(permit);
            read.map_err(SendError::Read)?;
            self.out.begin(&entry)?;
            self.out.write_all(content)?;
        } else {
            let mut has_begun = false;
            let out = &mut self.out;
            let mut send = |bytes: &[u8]| {
                // The client may be slow; others read meanwhile.
                permit = None;
                if !std::mem::replace(&mut has_begun, true) {
                    out.begin(&entry)?;
                }
                out.write_all(bytes)?;
                permit = Some(acquire_permit());
                Ok(())
            };
            let read = match object.range {
                None => reader.read(&version.row, &mut send),
                Some(_) => reader.read_range(&version.row, range, &mut send),
            };
            drop(permit);
            match read {
                Ok(()) => {}
                Err(ReadError::Sink(error)) => return Err(error.into()),
                Err(error) if has_begun => {
                    let name = version.row.record.name.display().to_string();
                    return Err(SendError::Abort(Abort::PartiallySent { name, error }));
                }
                Err(error) => return Err(SendError::Read(error)),
            }
        }
        self.out.pad(size)?;
        Ok(())
    }

    /// Sends the outcome of each object, and the end of the archive.
    fn report(&mut self) -> io::Result<()> {
        let size = result::measure(&self.bucket.name, &self.items)?;
        let modified = (crate::state::now_ms() / 1_000).unsigned_abs();
        self.out.begin(&Entry { name: result::NAME, size, modified, records: &[] })?;
        result::write(&self.bucket.name, &self.items, &mut self.out)?;
        self.out.pad(size)?;
        self.out.write_all(&tar::END)?;
        self.out.flush()?;
        self.out.is_complete.store(true, Ordering::Release);
        Ok(())
    }
}

/// Looks up a requested object, if the caller may read it.
fn find(gateway: &Gateway, bucket: &Bucket, rights: &Rights<'_>, object: &RequestedObject) -> S3Result<Outcome> {
    rights.may(read_action(object), Some(&object.key), object.version_id.as_deref())?;
    let found = gateway.namespace.find(&bucket.name, &object.key, object.version_id.as_deref());
    let version = found.map_err(|error| rights.hide_missing(error))?;
    let place = MediumPosition::of(&gateway.archive, &version.row).map_err(internal_error("looking for an object"))?;
    let range = bytes_of(object, &version)?;
    Ok(Outcome::Found { id: version.row.id, place, bytes: range.end - range.start })
}

/// The policy action of reading an object.
fn read_action(object: &RequestedObject) -> &'static str {
    if object.version_id.is_some() { "s3:GetObjectVersion" } else { "s3:GetObject" }
}

/// The bytes of an object that are requested; an S3 error if it has none of them.
fn bytes_of(object: &RequestedObject, version: &Version) -> S3Result<Range<u64>> {
    let Some(range) = object.range else { return Ok(0..version.size()) };
    range.of(version.size()).ok_or_else(|| s3_error!(InvalidRange, "The requested range is not satisfiable"))
}

/// A text for a place, so that texts sort as places do.
fn position(place: &MediumPosition) -> String {
    match place {
        MediumPosition::Staged { segment, offset } => format!("a{segment:016x}{offset:016x}"),
        MediumPosition::Archived { platter, offset, .. } => format!("b{platter}{offset:016x}"),
        MediumPosition::Unknown => "c".to_owned(),
    }
}

/// The response, in pieces, to a client that may be slow.
pub(super) struct ResponseWriter {
    pieces_tx: mpsc::Sender<Bytes>,
    runtime: Handle,
    buffer: Vec<u8>,
    flushed: Instant,
    bytes: u64,
    /// Set when everything was sent; otherwise the body ends with an error.
    is_complete: Arc<AtomicBool>,
}

impl ResponseWriter {
    /// Sends to `pieces_tx`, and sets `is_complete` when everything was sent.
    pub(super) fn new(pieces_tx: mpsc::Sender<Bytes>, runtime: Handle, is_complete: Arc<AtomicBool>) -> Self {
        Self { pieces_tx, runtime, buffer: Vec::new(), flushed: Instant::now(), bytes: 0, is_complete }
    }

    /// Checks that the client is still connected, and sends bytes that have waited too long.
    fn check(&mut self) -> io::Result<()> {
        if self.pieces_tx.is_closed() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if !self.buffer.is_empty() && self.flushed.elapsed() >= FLUSH_AFTER { self.flush() } else { Ok(()) }
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

impl Write for ResponseWriter {
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
        match self.runtime.block_on(async { tokio::time::timeout(CLIENT_TIMEOUT, self.pieces_tx.send(piece)).await }) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(io::ErrorKind::BrokenPipe.into()),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use fulgurite_domain::Attributes;
    use http::Method;

    use super::*;
    use crate::s3::conditions::PutConditions;
    use crate::test_gateway::{TestGateway, s3_request, soon};

    async fn put(test: &TestGateway, content: &[u8]) {
        let upload = test.upload(content).await;
        let bucket = test.gateway.namespace.granted(&s3_request(Method::GET, ()).extensions, "alices").expect("a bucket");
        soon(test.gateway.store(&bucket, "k", upload, Attributes::default(), &PutConditions::default())).await.expect("put");
    }

    /// Replaces an object after a bulk get has found it and before it reads it. Returns the outcome
    /// of the object for the given account.
    async fn outcome_of_replaced(account: &str, meanwhile: impl FnOnce(&TestGateway)) -> Outcome {
        let test = TestGateway::new();
        let state = &test.gateway.state;
        for name in ["alice", "bob"] {
            state.add_account(name, false).expect("an account");
        }
        assert!(state.add_bucket("alices", "alice", false, None).expect("added"));
        let allow =
            r#"{"Statement": {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::alices/*"}}"#;
        state.change_bucket("alices", |bucket| bucket.policy = Some(allow.to_owned())).expect("changed");
        put(&test, b"found").await;
        let (pieces_tx, _pieces_rx) = mpsc::channel(PIECES_AHEAD_MAX);
        let object = RequestedObject { key: "k".into(), version_id: None, range: None };
        let mut tar = TarResponse {
            gateway: test.gateway.clone(),
            bucket: test.gateway.namespace.bucket("alices").expect("a bucket"),
            caller: Caller { account: state.account(account).expect("looked up"), ..Caller::default() },
            items: vec![Item { object, outcome: Outcome::Pending }],
            out: ResponseWriter::new(pieces_tx, Handle::current(), Arc::default()),
        };
        tokio::task::block_in_place(|| tar.find()).expect("found");
        meanwhile(&test);
        put(&test, b"its successor").await;
        let order = tar.reading_order();
        assert_eq!(order, [0]);
        tokio::task::block_in_place(|| tar.read(&order)).expect("read");
        tar.items.remove(0).outcome
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_object_that_is_replaced_while_it_is_looked_up_twice_is_sent_once() {
        let test = TestGateway::new();
        let allow = r#"{"Statement": {"Effect": "Allow", "Principal": "*", "Action": "s3:*", "Resource": "arn:aws:s3:::photos/*"}}"#;
        test.gateway.state.change_bucket("photos", |bucket| bucket.policy = Some(allow.to_owned())).expect("changed");
        let object = RequestedObject { key: "k".into(), version_id: None, range: None };
        let (pieces_tx, _pieces_rx) = mpsc::channel(PIECES_AHEAD_MAX);
        let item = || Item { object: object.clone(), outcome: Outcome::Pending };
        let mut tar = TarResponse {
            gateway: test.gateway.clone(),
            bucket: test.gateway.namespace.bucket("photos").expect("a bucket"),
            caller: Caller::default(),
            items: vec![item(), item()],
            out: ResponseWriter::new(pieces_tx, Handle::current(), Arc::default()),
        };
        test.put("k", b"first").await;
        tokio::task::block_in_place(|| tar.find()).expect("found");
        // The second lookup finds another version.
        test.put("k", b"second").await;
        let rights = Rights::new(&test.gateway.namespace, &tar.bucket, &tar.caller);
        tar.items[1].outcome = find(&test.gateway, &tar.bucket, &rights, &object).unwrap_or_else(Outcome::from);
        let ids = |tar: &TarResponse| {
            let id = |item: &Item| if let Outcome::Found { id, .. } = item.outcome { id } else { panic!("it is there") };
            [id(&tar.items[0]), id(&tar.items[1])]
        };
        assert_ne!(ids(&tar)[0], ids(&tar)[1]);
        tar.unify();
        assert_eq!(ids(&tar)[0], ids(&tar)[1]);
        let order = tar.reading_order();
        tokio::task::block_in_place(|| tar.read(&order)).expect("read");
        assert!(tar.items.iter().all(|item| matches!(item.outcome, Outcome::Sent { size: 6, .. })));
        assert!(tar.out.bytes < 2 * 1_536, "{} bytes are more than one entry", tar.out.bytes);
    }

    fn assert_failed(outcome: &Outcome, codes: &[&str]) {
        assert!(matches!(outcome, Outcome::Failed { code, .. } if codes.contains(&code.as_str())), "it was sent, or failed otherwise");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_successor_of_an_object_is_sent_only_to_callers_who_may_read_it() {
        let unchanged = outcome_of_replaced("bob", |_| ()).await;
        assert!(matches!(unchanged, Outcome::Sent { size: 13, .. }));
        let forbidden = outcome_of_replaced("bob", |test| {
            test.gateway.state.change_bucket("alices", |bucket| bucket.policy = None).expect("changed");
        });
        assert_failed(&forbidden.await, &["AccessDenied"]);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_successor_in_a_later_bucket_of_the_name_is_not_sent() {
        let replaced = outcome_of_replaced("alice", |test| {
            assert!(test.gateway.state.remove_bucket("alices").expect("removed"));
            assert!(test.gateway.state.add_bucket("alices", "bob", false, None).expect("added"));
        });
        // The clock may show the same millisecond for both buckets.
        assert_failed(&replaced.await, &["NoSuchBucket", "AccessDenied"]);
    }
}
