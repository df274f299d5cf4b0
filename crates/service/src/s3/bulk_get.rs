//! Bulk get: reads many objects with one request, an extension of S3. `POST /bucket?retrieve` with
//! a list of keys returns a tar archive, and `POST /bucket?retrieve&order` the order in which the
//! objects would be read. Clients with more keys than one request may have sort them by that.
//!
//! ```text
//! list -> find: rights, version, place -> in the order of places: read, check -> tar -> client
//!                                  '--- objects that can't be sent --> result.json, the last entry
//! ```
//!
//! A bulk get reads one object after another, and takes for each read one of the permits that all
//! clients share. So many short bulk gets proceed next to a long one as if it were just another
//! client.

mod entry_names;
mod request;
mod response;
mod result;
pub(crate) mod tar;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use fulgurite_digest::Md5;
use futures_util::stream;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use http_body_util::StreamBody;
use hyper::body::Frame;
use s3s::dto::StreamingBlob;
use s3s::validation::NameValidation;
use s3s::{Body, S3Error, S3Request, S3Response, S3Result, StdError, s3_error};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

#[cfg(feature = "fuzzing")]
pub(crate) use entry_names::entry_name;
pub(crate) use request::parse;
use request::{Item, ListError, OBJECTS_MAX, Outcome};

use response::{PIECES_AHEAD_MAX, ResponseWriter, TarResponse};

use crate::auth::access::{EXPECTED_OWNER, check_owner};
use crate::auth::caller::{Caller, Peer, origin};
use crate::auth::signatures::is_form;
use crate::gateway::Gateway;
use crate::http::addressing::Addresses;
use crate::http::query::has_parameter;
use crate::s3::Answer;
use crate::s3::errors::{busy, custom, state_failed};
use crate::s3::object_names::BucketNames;
use crate::transfer::checksums::{BodyTrailers, Claims};
use crate::transfer::upload::{IncomingBody, length_of};

/// Maximum length of a list: 100,000 keys of 160 bytes.
const LIST_BYTES_MAX: u64 = 16 << 20;
/// KiB that a bulk get holds in addition to its list: an object, pieces on their way to the client,
/// and what its reader has read ahead.
const READER_KIB: u32 = 3 << 10;
/// Bytes that a bulk get holds per object in addition to the key: its place and its outcome.
const OBJECT_BYTES: u64 = 320;
/// Length of the shortest entry of a list: two quotation marks and a comma.
const LIST_ENTRY_BYTES_MIN: u64 = 3;

/// KiB that a list of `length` bytes takes: itself, its keys, and the state of each object.
fn list_kib(length: u64) -> u32 {
    let objects = (length / LIST_ENTRY_BYTES_MIN).min(OBJECTS_MAX as u64);
    (2 * length + objects * OBJECT_BYTES).div_ceil(1 << 10) as u32
}

/// A list that is being received, with what it has reserved of the memory of all bulk gets. The
/// reservation grows with the bytes received; an announced length reserves nothing.
struct List {
    bytes: Vec<u8>,
    length: usize,
    memory: Arc<Semaphore>,
    memory_permits: OwnedSemaphorePermit,
}

impl List {
    /// An empty list with an announced length.
    fn new(length: u64, memory: Arc<Semaphore>) -> S3Result<Self> {
        let memory_permits = reserve_memory(&memory, 0)?;
        Ok(Self { bytes: Vec::new(), length: length as usize, memory, memory_permits })
    }

    /// Appends a piece. The pieces never exceed the announced length.
    fn push(&mut self, piece: &[u8]) -> S3Result<()> {
        let (had, has) = (self.bytes.len(), self.bytes.len() + piece.len());
        self.memory_permits.merge(reserve_memory(&self.memory, list_kib(has as u64) - list_kib(had as u64))?);
        if self.bytes.capacity() < has {
            // Doubles the capacity, up to the announced length.
            self.bytes.reserve_exact((2 * has).min(self.length).max(has) - had);
        }
        self.bytes.extend_from_slice(piece);
        Ok(())
    }
}

/// Reserves memory of all bulk gets. It never waits: a waiting long list would delay the short ones
/// after it.
fn reserve_memory(memory: &Arc<Semaphore>, kib: u32) -> S3Result<OwnedSemaphorePermit> {
    let permits = memory.clone().try_acquire_many_owned(kib);
    permits.map_err(|_| too_many())
}

fn too_many() -> S3Error {
    busy("Too many bulk gets are running. Try again later.", 5)
}

/// Answers bulk gets.
pub(crate) struct BulkGet {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) addresses: Arc<Addresses>,
}

impl BulkGet {
    pub(crate) fn is_match(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> bool {
        *method == Method::POST && !is_form(method, headers) && has_parameter(uri.query(), "retrieve")
    }

    pub(crate) async fn call(&self, request: S3Request<Body>) -> Answer<Body> {
        let signed = request.credentials.as_ref().ok_or_else(|| s3_error!(AccessDenied, "A bulk get must be signed."))?;
        let key = self.gateway.state.key(&signed.access_key).map_err(state_failed)?.ok_or_else(|| s3_error!(InvalidAccessKeyId))?;
        let peer = request.extensions.get::<Peer>().copied();
        let caller = Caller { account: Some(key.account.clone()), origin: origin(peer, &request.headers) };
        let bucket = self.gateway.namespace.bucket(&self.bucket_of(&request.uri, &request.headers)?)?;
        check_owner(&self.gateway.state, &bucket, &request.headers, EXPECTED_OWNER)?;
        // Callers that no policy can let in are refused before the list is received.
        if bucket.policy.is_none() && !key.account.admin && key.account.name != bucket.owner {
            return Err(s3_error!(AccessDenied, "Access Denied"));
        }
        let announced = request.headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        let length = length_of(announced, &request.headers)?;
        if length > LIST_BYTES_MAX {
            return Err(custom("MaxMessageLengthExceeded", StatusCode::BAD_REQUEST, "Your request was too large."));
        }
        let memory = &self.gateway.bulk_get_kib;
        if memory.available_permits() < READER_KIB as usize + list_kib(length) as usize {
            return Err(too_many());
        }
        let (mut sums, mut md5) = (Claims::of(&request.headers)?.begin(None), Md5::new());
        let trailers = BodyTrailers::of(&request);
        // While too little memory is left for a list of maximum length, slow lists time out sooner.
        let mut receiving = IncomingBody::of_request(Some(StreamingBlob::from(request.input)), length, &request.extensions)
            .of_memory(memory.clone(), READER_KIB as usize + list_kib(LIST_BYTES_MAX) as usize);
        let mut list = List::new(length, memory.clone())?;
        while let Some(piece) = receiving.next().await? {
            sums.update(&piece);
            md5.update(&piece);
            list.push(&piece)?;
        }
        sums.end(md5.finish(), &trailers)?;
        let List { bytes: list, mut memory_permits, .. } = list;
        memory_permits.merge(reserve_memory(memory, READER_KIB)?);
        let objects = tokio::task::block_in_place(|| parse(&list)).map_err(|error| match error {
            ListError::TooMany => s3_error!(error, InvalidRequest, "{error}"),
            ListError::Json(_) => {
                let mut malformed = custom("MalformedJSON", StatusCode::BAD_REQUEST, "");
                malformed.set_message(error.to_string());
                malformed
            }
        })?;
        drop(list);
        let (pieces_tx, pieces_rx) = mpsc::channel(PIECES_AHEAD_MAX);
        let is_complete = Arc::new(AtomicBool::new(false));
        let tar = TarResponse {
            gateway: self.gateway.clone(),
            bucket,
            caller,
            items: objects.into_iter().map(|object| Item { object, outcome: Outcome::Pending }).collect(),
            out: ResponseWriter::new(pieces_tx, Handle::current(), is_complete.clone()),
        };
        let wants_order = has_parameter(request.uri.query(), "order");
        tokio::task::spawn_blocking(move || {
            let _memory_permits = memory_permits;
            if wants_order { tar.run_order() } else { tar.run() }
        });
        let mut response = S3Response::new(body(pieces_rx, is_complete));
        let content_type = if wants_order { "application/json" } else { "application/x-tar" };
        response.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        Ok(response)
    }

    /// The bucket that a request names by its path or host.
    fn bucket_of(&self, uri: &Uri, headers: &HeaderMap) -> S3Result<String> {
        match self.addresses.find(uri, headers) {
            Some((bucket, key)) if key.is_empty() => {
                if BucketNames.validate_bucket_name(&bucket) {
                    return Ok(bucket);
                }
                Err(s3_error!(InvalidBucketName, "The specified bucket is not valid."))
            }
            _ => Err(s3_error!(MethodNotAllowed, "Send a bulk get to a bucket: POST /bucket?retrieve")),
        }
    }
}

/// The pieces as a body. If they end early, the body ends with an error, and the HTTP response is
/// incomplete.
fn body(pieces_rx: mpsc::Receiver<Bytes>, is_complete: Arc<AtomicBool>) -> Body {
    let frames = stream::unfold(Some(pieces_rx), move |pieces_rx| {
        let is_complete = is_complete.clone();
        async move {
            let mut pieces_rx = pieces_rx?;
            match pieces_rx.recv().await {
                Some(piece) => Some((Ok(Frame::data(piece)), Some(pieces_rx))),
                None if is_complete.load(Ordering::Acquire) => None,
                None => Some((Err(StdError::from("the bulk get was aborted")), None)),
            }
        }
    });
    Body::http_body_unsync(StreamBody::new(frames))
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;
    use crate::memory::Budget;
    use crate::test_gateway::soon;

    #[tokio::test]
    async fn an_incomplete_response_ends_with_an_error() {
        for is_whole in [true, false] {
            let (pieces_tx, pieces_rx) = mpsc::channel(PIECES_AHEAD_MAX);
            let is_complete = Arc::new(AtomicBool::new(false));
            let body = body(pieces_rx, is_complete.clone());
            pieces_tx.send(Bytes::from_static(b"piece")).await.expect("the receiver is open");
            is_complete.store(is_whole, Ordering::Release);
            drop(pieces_tx);
            assert_eq!(soon(body.collect()).await.is_ok(), is_whole);
        }
    }

    #[test]
    fn two_of_the_longest_lists_and_many_short_ones_fit_into_memory() {
        let share = |length| READER_KIB + list_kib(length);
        assert!(
            2 * share(LIST_BYTES_MAX) + 30 * share(10 << 10) <= Budget::new(1_664, 512, 1_024).expect("the defaults").bulk_get_kib as u32
        );
    }

    #[test]
    fn a_list_takes_memory_for_received_bytes_only() {
        let memory = Arc::new(Semaphore::new(1 << 10));
        let mut list = List::new(LIST_BYTES_MAX, memory.clone()).expect("it takes nothing yet");
        list.push(b"[").expect("memory");
        assert!(memory.available_permits() > 1_020);
        for _ in 0..1_000 {
            list.push(b"123456789").expect("memory");
        }
        assert_eq!(list.bytes.len(), 9_001);
        assert_eq!((1 << 10) - memory.available_permits(), list_kib(9_001) as usize);
        assert_eq!(list.push(&[b' '; 16 << 10]).expect_err("too much").code(), &s3s::S3ErrorCode::SlowDown);
        drop(list);
        assert_eq!(memory.available_permits(), 1 << 10);
    }
}
