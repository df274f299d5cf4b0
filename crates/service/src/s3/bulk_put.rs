//! Bulk put: stores many objects with one request, an extension of S3. `POST /bucket?store` with a
//! tar archive puts each of its files, and returns what became of them once all have ended.
//!
//! ```text
//! tar -> receive, check, parse -> for each file: a put, as if it had been sent alone -> result
//!             '--- malformed: an error, and nothing is stored
//! ```
//!
//! The archive is parsed before the first object is stored. So a request with a wrong checksum or a
//! malformed archive stores nothing, and the puts wait for no client. They run next to each other,
//! because each waits for the disk, and one write to the disk serves many.

mod entries;
mod pax;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{FutureExt, stream};
use http::{Extensions, HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::StreamBody;
use hyper::body::Frame;
use s3s::{Body, S3Request, S3Response, S3Result, StdError, s3_error};
use serde::Serialize;
use tokio::task::JoinSet;

use crate::auth::caller::{CALLER_HEADERS, Peer, Signed};
use crate::auth::grant::AdmittedTo;
use crate::gateway::Gateway;
use crate::http::query::parameter;
use crate::http::url_encoding;
use crate::memory::{MemoryOwner, MemoryPool, MemoryReservation};
use crate::s3::Answer;
use crate::s3::bulk_request::{BulkKind, BulkRequests};
use crate::s3::errors::answers::{code_and_message, framework_error};
use crate::s3::errors::{FirstError, custom, internal};
use crate::s3::framework::OperationsService;
use crate::s3::new_object::{HeaderSet, KEY_BYTES_MAX};
use crate::s3::normalize::normalize_headers;
use crate::transfer::checksums::KnownDigests;
use crate::transfer::digests::digests_of;

pub(crate) use entries::{Entry, parse};

/// KiB that a bulk put holds in addition to the archive and its puts.
const REQUEST_KIB: u32 = 64;
/// Puts of a request that run at once.
const AT_ONCE: usize = 256;
/// Files that are hashed together: the SIMD lanes are used well, and a worker is kept from other
/// requests for a few milliseconds at most.
const HASHED_AT_ONCE: usize = 64;
/// Maximum content of such a file. Larger ones are hashed like that of any put, piece by piece.
const HASHED_BYTES_MAX: usize = 64 << 10;
/// KiB of a running put without its content.
const PUT_KIB: u64 = 32;
/// Maximum KiB of a put's content that is on its way to staging without memory of its own.
const PUT_CONTENT_KIB_MAX: u64 = 64;

/// Bytes of a piece of the result.
const RESULT_PIECE_BYTES: usize = 64 << 10;
/// Headers of the request that apply to each of its objects.
const SHARED_HEADERS: HeaderSet = HeaderSet {
    names: &["if-none-match", "x-amz-acl", "x-amz-storage-class", "x-amz-tagging"],
    prefixes: &["x-amz-meta-", "x-amz-object-lock-", "x-amz-server-side-encryption"],
};
/// Headers that change or forbid a put.
const REFUSED_HEADERS: HeaderSet = HeaderSet {
    names: &["if-match", "x-amz-write-offset-bytes", "x-amz-website-redirect-location"],
    prefixes: &["x-amz-copy-source", "x-amz-grant-"],
};

/// The query parameters of a bulk put.
pub(crate) const PARAMETERS: [&str; 2] = ["store", "prefix"];

pub(crate) const KIND: BulkKind = BulkKind { name: "bulk put", parameter: "store", body_kib: archive_kib, request_kib: REQUEST_KIB };

/// KiB that an archive of `length` bytes takes: itself, and for each file, whose header alone has
/// 512 bytes of it, as much again for its key and its outcome. The headers of a put are parsed when
/// it begins.
fn archive_kib(length: u64) -> u32 {
    (2 * length).div_ceil(1 << 10) as u32
}

/// Answers a bulk put.
pub(crate) async fn call(requests: &BulkRequests, operations: &OperationsService, mut request: S3Request<Body>) -> Answer<Body> {
    let (_, bucket) = requests.admit(KIND, &request)?;
    let shared = shared_headers(&request.headers)?;
    let prefix = parameter(request.uri.query(), "prefix").unwrap_or_default();
    if prefix.len() > KEY_BYTES_MAX {
        return Err(s3_error!(KeyTooLongError, "Your key is too long"));
    }
    let (archive, reservation) = requests.receive(KIND, &mut request).await?;
    let entries = tokio::task::block_in_place(|| parse(&Bytes::from(archive))).map_err(|error| {
        let mut malformed = custom("MalformedTar", StatusCode::BAD_REQUEST, "");
        malformed.set_message(format!("{error} Nothing was stored."));
        malformed
    })?;
    let puts = Puts {
        gateway: requests.gateway.clone(),
        operations: operations.clone(),
        host: requests.addresses.domain().and_then(|domain| HeaderValue::from_str(domain).ok()),
        admitted_to: AdmittedTo(bucket),
        prefix,
        shared,
        caller: Signed(request.credentials.take().map(|credentials| credentials.access_key)),
        peer: request.extensions.get::<Peer>().copied(),
        memory_owner: request.extensions.get().cloned().unwrap_or_else(MemoryOwner::own),
    };
    let lines = puts.run(entries).await;
    let result =
        BulkPutResult { bucket: puts.admitted_to.0.name.clone(), prefix: puts.prefix, lines, next: None, _reservation: reservation };
    let mut response = S3Response::new(body(result));
    response.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

/// The headers of the request that apply to each of its puts.
///
/// # Errors
/// An S3 error if one would change or forbid a put, and can't apply to all.
fn shared_headers(request: &HeaderMap) -> S3Result<HeaderMap> {
    let mut shared = HeaderMap::new();
    for (name, value) in request {
        if REFUSED_HEADERS.has(name.as_str()) {
            return Err(s3_error!(InvalidRequest, "The header {name} can't apply to all objects of a bulk put."));
        }
        if CALLER_HEADERS.contains(name) || SHARED_HEADERS.has(name.as_str()) {
            shared.append(name.clone(), value.clone());
        }
    }
    Ok(shared)
}

/// What became of an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Line {
    /// Its key, without the prefix until it is sent.
    key: String,
    #[serde(flatten)]
    outcome: Outcome,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
enum Outcome {
    /// It is stored and survives a crash.
    Stored {
        size: u64,
        etag: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        version_id: Option<String>,
    },
    Failed {
        code: String,
        message: String,
    },
}

impl Outcome {
    fn failed((code, message): (String, String)) -> Self {
        Self::Failed { code, message }
    }
}

/// The puts of a request.
struct Puts {
    gateway: Arc<Gateway>,
    operations: OperationsService,
    /// The host of the puts, if buckets have hosts of their own.
    host: Option<HeaderValue>,
    admitted_to: AdmittedTo,
    /// What all keys begin with.
    prefix: String,
    /// Headers of all puts that have none of their own.
    shared: HeaderMap,
    caller: Signed,
    peer: Option<Peer>,
    memory_owner: MemoryOwner,
}

impl Puts {
    /// Carries out all puts. The lines are in the order of the entries.
    async fn run(&self, entries: Vec<Entry>) -> Vec<Line> {
        let mut lines: Vec<Option<Line>> = vec![None; entries.len()];
        let mut running = JoinSet::new();
        let mut entries = entries.into_iter().enumerate();
        loop {
            let batch: Vec<(usize, Entry)> = entries.by_ref().take(HASHED_AT_ONCE).collect();
            if batch.is_empty() {
                break;
            }
            let digests = small_digests(&batch);
            for ((index, entry), digests) in batch.into_iter().zip(digests) {
                let reservation = self.wait_for_memory(&entry, &mut running, &mut lines).await;
                running.spawn(self.put(index, entry, digests, reservation));
            }
        }
        while let Some(ended) = running.join_next().await {
            record(&mut lines, ended);
        }
        lines.into_iter().map(|line| line.expect("every put has ended")).collect()
    }

    /// Memory for another put. One may run without: like any other put, it needs only its
    /// connection's memory.
    async fn wait_for_memory(
        &self,
        entry: &Entry,
        running: &mut JoinSet<(usize, Line)>,
        lines: &mut [Option<Line>],
    ) -> Option<MemoryReservation> {
        loop {
            if running.len() < AT_ONCE
                && let Some(reservation) = reserve_put(&self.gateway.bulk_memory, &self.memory_owner, entry.content.len() as u64)
            {
                return Some(reservation);
            }
            record(lines, running.join_next().await?);
        }
    }

    /// Puts an object. A panic of the operation fails only this put.
    fn put(
        &self,
        index: usize,
        entry: Entry,
        digests: Option<KnownDigests>,
        reservation: Option<MemoryReservation>,
    ) -> impl Future<Output = (usize, Line)> + use<> {
        let (gateway, operations, caller) = (self.gateway.clone(), self.operations.clone(), self.caller.clone());
        let (key, size, request) = (entry.key.clone(), entry.content.len() as u64, self.request(entry, digests));
        async move {
            let outcome = async {
                let (first_error, request) = request?;
                let response = operations.call_as(caller, request).await?;
                Ok(outcome(size, &first_error, &response))
            };
            let outcome = AssertUnwindSafe(outcome).catch_unwind().await.unwrap_or_else(|panic| {
                gateway.panicked("a put of a bulk put", &*panic);
                Err(internal())
            });
            drop(reservation);
            let outcome = outcome.unwrap_or_else(|error| Outcome::failed(code_and_message(&error)));
            (index, Line { key, outcome })
        }
    }

    /// The request of a put, as the operations expect it.
    fn request(&self, entry: Entry, digests: Option<KnownDigests>) -> S3Result<(FirstError, Request<Body>)> {
        let path = format!("/{}/{}{}", self.admitted_to.0.name, url_encoding::encode(&self.prefix), url_encoding::encode(&entry.key));
        let (mut headers, mut extensions, first_error) = (self.shared.clone(), Extensions::new(), FirstError::default());
        // They were parsed before, or the archive would have been refused.
        headers.extend(entry.headers().map_err(|_| internal())?);
        headers.insert(header::CONTENT_LENGTH, entry.content.len().into());
        headers.extend(self.host.clone().map(|host| (header::HOST, host)));
        normalize_headers(&mut headers, &mut extensions);
        extensions.insert(first_error.clone());
        extensions.insert(self.memory_owner.clone());
        extensions.insert(self.admitted_to.clone());
        self.peer.map(|peer| extensions.insert(peer));
        digests.map(|digests| extensions.insert(digests));
        let mut request = Request::new(Body::from(entry.content));
        *request.method_mut() = Method::PUT;
        *request.uri_mut() = path.parse::<Uri>().map_err(|_| internal())?;
        *request.headers_mut() = headers;
        *request.extensions_mut() = extensions;
        Ok((first_error, request))
    }
}

/// The digests of small contents.
fn small_digests(batch: &[(usize, Entry)]) -> Vec<Option<KnownDigests>> {
    let is_hashed = |entry: &Entry| entry.content.len() <= HASHED_BYTES_MAX;
    let contents: Vec<&Bytes> = batch.iter().filter(|(_, entry)| is_hashed(entry)).map(|(_, entry)| &entry.content).collect();
    let mut digests = digests_of(&contents).into_iter().map(KnownDigests);
    batch.iter().map(|(_, entry)| is_hashed(entry).then(|| digests.next()).flatten()).collect()
}

/// Memory for a put whose content has this many bytes; `None` if it must wait.
fn reserve_put(memory: &MemoryPool, memory_owner: &MemoryOwner, bytes: u64) -> Option<MemoryReservation> {
    let kib = PUT_KIB + bytes.div_ceil(1 << 10).min(PUT_CONTENT_KIB_MAX);
    memory.try_reserve(memory_owner, (kib as usize) << 10)
}

fn record(lines: &mut [Option<Line>], ended: Result<(usize, Line), tokio::task::JoinError>) {
    // Puts catch their panics, and nothing aborts them while the request goes on.
    let (index, line) = ended.expect("a put ends");
    lines[index] = Some(line);
}

/// What the response to a put says.
fn outcome(size: u64, first_error: &FirstError, response: &Response<Body>) -> Outcome {
    if response.status() == StatusCode::OK {
        let text = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let etag = text("etag").unwrap_or_default().trim_matches('"').to_owned();
        return Outcome::Stored { size, etag, version_id: text("x-amz-version-id") };
    }
    // The framework keeps only the code and the message of an error that it didn't find itself.
    Outcome::failed(first_error.take().map_or_else(|| framework_error(response), |error| code_and_message(&error)))
}

/// The result, in JSON. It is written while it is sent, since its keys may be far longer with the
/// prefix.
struct BulkPutResult {
    bucket: String,
    prefix: String,
    lines: Vec<Line>,
    /// The next line to write; `None` at the beginning.
    next: Option<usize>,
    _reservation: MemoryReservation,
}

impl BulkPutResult {
    /// The next piece; `None` at the end.
    fn piece(&mut self) -> Option<Bytes> {
        #[derive(Serialize)]
        struct Totals<'a> {
            bucket: &'a str,
            stored: usize,
            failed: usize,
        }
        let mut json = Vec::new();
        if self.next.is_none() {
            let failed = self.lines.iter().filter(|line| matches!(line.outcome, Outcome::Failed { .. })).count();
            let totals = Totals { bucket: &self.bucket, stored: self.lines.len() - failed, failed };
            serde_json::to_writer(&mut json, &totals).expect("texts are JSON");
            json.pop();
            json.extend_from_slice(b",\"objects\":[");
        }
        let mut next = self.next.unwrap_or(0);
        if next > self.lines.len() {
            return None;
        }
        // A line for each object, which line-oriented tools can read too.
        while json.len() < RESULT_PIECE_BYTES
            && let Some(line) = self.lines.get_mut(next)
        {
            json.extend_from_slice(if next == 0 { b"\n" } else { b",\n" });
            line.key.insert_str(0, &self.prefix);
            serde_json::to_writer(&mut json, line).expect("texts are JSON");
            line.key = String::new();
            next += 1;
        }
        if next == self.lines.len() {
            json.extend_from_slice(b"\n]}\n");
            next += 1;
        }
        self.next = Some(next);
        Some(json.into())
    }
}

fn body(result: BulkPutResult) -> Body {
    let pieces = stream::unfold(result, |mut result| async move {
        let piece = result.piece()?;
        Some((Ok::<_, StdError>(Frame::data(piece)), result))
    });
    Body::http_body_unsync(StreamBody::new(Box::pin(pieces)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A copy of the prefix for each line would take 32 MB of unreserved memory.
    #[test]
    fn a_prefix_is_added_to_a_line_only_while_it_is_sent() {
        let line = |key: String| Line { key, outcome: Outcome::failed(("KeyTooLongError".into(), "Your key is too long".into())) };
        let lines: Vec<Line> = (0..30_000).map(|number| line(number.to_string())).collect();
        let keys_bytes = |result: &BulkPutResult| result.lines.iter().map(|line| line.key.capacity()).sum::<usize>();
        let reservation = MemoryPool::new(0).reservation(&MemoryOwner::own());
        let mut result =
            BulkPutResult { bucket: "survey".into(), prefix: "p".repeat(KEY_BYTES_MAX), lines, next: None, _reservation: reservation };
        let (taken, mut json) = (keys_bytes(&result), Vec::new());
        while let Some(piece) = result.piece() {
            assert!(piece.len() < RESULT_PIECE_BYTES + 2 * KEY_BYTES_MAX && keys_bytes(&result) <= taken);
            json.extend_from_slice(&piece);
        }
        let json: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
        assert_eq!((json["stored"].as_u64(), json["failed"].as_u64()), (Some(0), Some(30_000)));
        for (number, line) in json["objects"].as_array().expect("lines").iter().enumerate() {
            assert_eq!(line["key"], format!("{}{number}", result.prefix));
        }
    }
}
