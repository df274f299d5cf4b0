//! What bulk gets and bulk puts have in common: a signed `POST` to a bucket, whose body is received
//! whole. The bodies, and what is made of them, take memory that all bulk requests share.

use std::sync::Arc;

use fulgurite_digest::Md5;
use http::{HeaderMap, Method, StatusCode, Uri, header};
use s3s::dto::StreamingBlob;
use s3s::validation::NameValidation;
use s3s::{Body, S3Error, S3Request, S3Result, s3_error};

use crate::auth::access::{EXPECTED_OWNER, check_owner};
use crate::auth::caller::{Caller, Peer, origin};
use crate::auth::signatures::is_form;
use crate::gateway::Gateway;
use crate::http::addressing::Addresses;
use crate::http::query::has_parameter;
use crate::memory::{MemoryOwner, MemoryReservation};
use crate::s3::errors::{busy, custom, state_failed};
use crate::s3::object_names::BucketNames;
use crate::state::Bucket;
use crate::transfer::checksums::{BodyTrailers, Claims};
use crate::transfer::upload::{IncomingBody, length_of};

/// Maximum length of the body of a bulk request.
pub(crate) const BODY_BYTES_MAX: u64 = 16 << 20;

/// Room for the beginning of a body.
const BEGIN_BYTES: usize = 256 << 10;

/// A kind of bulk request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BulkKind {
    /// What errors call it.
    pub(crate) name: &'static str,
    /// The query parameter that asks for it.
    pub(crate) parameter: &'static str,
    /// KiB that a body of this length takes, with what is made of it.
    pub(crate) body_kib: fn(u64) -> u32,
    /// KiB that a request takes in addition to its body.
    pub(crate) request_kib: u32,
}

impl BulkKind {
    pub(crate) fn is_match(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> bool {
        *method == Method::POST && !is_form(method, headers) && has_parameter(uri.query(), self.parameter)
    }

    fn busy(&self) -> S3Error {
        let mut error = busy("", 5);
        error.set_message(format!("Too many {}s are running. Try again later.", self.name));
        error
    }

    /// Reserves more of the memory of all bulk requests. It never waits: a waiting long body would
    /// delay the short ones after it.
    fn reserve(&self, reservation: &mut MemoryReservation, kib: u32) -> S3Result<()> {
        let bytes = reservation.bytes() + ((kib as usize) << 10);
        if reservation.try_resize(bytes) { Ok(()) } else { Err(self.busy()) }
    }
}

/// A body that is being received, with what it has reserved. The reservation grows with the bytes
/// received; an announced length reserves nothing.
struct BulkBody {
    kind: BulkKind,
    bytes: Vec<u8>,
    length: usize,
    reservation: MemoryReservation,
}

impl BulkBody {
    /// An empty body with an announced length and an empty reservation.
    fn new(kind: BulkKind, length: u64, reservation: MemoryReservation) -> Self {
        Self { kind, bytes: Vec::new(), length: length as usize, reservation }
    }

    /// Appends a piece. The pieces never exceed the announced length.
    fn push(&mut self, piece: &[u8]) -> S3Result<()> {
        let (had, has) = (self.bytes.len(), self.bytes.len() + piece.len());
        let body_kib = |length: usize| (self.kind.body_kib)(length as u64);
        self.kind.reserve(&mut self.reservation, body_kib(has) - body_kib(had))?;
        if self.bytes.capacity() < has {
            // Memory that nothing was written to isn't taken yet, so a body that has begun gets
            // room for all of it at once: growing would copy it.
            let room = if had == 0 { BEGIN_BYTES.min(self.length) } else { self.length };
            self.bytes.reserve_exact(room.max(has) - had);
        }
        self.bytes.extend_from_slice(piece);
        Ok(())
    }
}

/// Admits bulk requests and receives their bodies.
pub(crate) struct BulkRequests {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) addresses: Arc<Addresses>,
}

impl BulkRequests {
    /// The caller and the bucket of a request. Refuses callers that no policy can let in, before
    /// the body is received; access to each object is still to be checked.
    pub(crate) fn admit(&self, kind: BulkKind, request: &S3Request<Body>) -> S3Result<(Caller, Arc<Bucket>)> {
        let signed = request.credentials.as_ref().ok_or_else(|| s3_error!(AccessDenied, "A {} must be signed.", kind.name))?;
        let key = self.gateway.state.key(&signed.access_key).map_err(state_failed)?.ok_or_else(|| s3_error!(InvalidAccessKeyId))?;
        let peer = request.extensions.get::<Peer>().copied();
        let caller = Caller { account: Some(key.account.clone()), origin: origin(peer, &request.headers) };
        let bucket = self.gateway.namespace.bucket(&self.bucket_of(kind, &request.uri, &request.headers)?)?;
        check_owner(&self.gateway.state, &bucket, &request.headers, EXPECTED_OWNER)?;
        if bucket.policy.is_none() && !key.account.admin && key.account.name != bucket.owner {
            return Err(s3_error!(AccessDenied, "Access Denied"));
        }
        Ok((caller, bucket))
    }

    /// Receives the body of a request and checks its checksums. Its memory is taken as long as the
    /// reservation is held.
    pub(crate) async fn receive(&self, kind: BulkKind, request: &mut S3Request<Body>) -> S3Result<(Vec<u8>, MemoryReservation)> {
        let announced = request.headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        let length = length_of(announced, &request.headers)?;
        if length > BODY_BYTES_MAX {
            let mut too_large = custom("MaxMessageLengthExceeded", StatusCode::BAD_REQUEST, "");
            too_large.set_message(format!("Your request was too large: the body of a {} has at most {BODY_BYTES_MAX} bytes.", kind.name));
            return Err(too_large);
        }
        let memory = &self.gateway.bulk_memory;
        let needed_bytes = ((kind.request_kib + (kind.body_kib)(length)) as usize) << 10;
        if needed_bytes > self.gateway.bulk_bytes_max {
            return Err(custom(
                "MaxMessageLengthExceeded",
                StatusCode::BAD_REQUEST,
                "Your request was too large for the memory of the server (memory_mib).",
            ));
        }
        let memory_owner: MemoryOwner = request.extensions.get().cloned().unwrap_or_else(MemoryOwner::own);
        if memory.try_reserve(&memory_owner, needed_bytes).is_none() {
            return Err(kind.busy());
        }
        let claims = Claims::of(&request.headers)?;
        let mut md5 = claims.need_md5().then(Md5::new);
        let mut sums = claims.begin(None);
        let trailers = BodyTrailers::of(request);
        // While too little memory is left for the longest body, slow ones time out sooner.
        let scarce_kib = kind.request_kib + (kind.body_kib)(BODY_BYTES_MAX);
        let input = std::mem::take(&mut request.input);
        let mut receiving = IncomingBody::of_request(Some(StreamingBlob::from(input)), length, &request.extensions)
            .of_memory(memory.clone(), (scarce_kib as usize) << 10);
        let mut body = BulkBody::new(kind, length, memory.reservation(&memory_owner));
        while let Some(piece) = receiving.next().await? {
            sums.update(&piece);
            md5.iter_mut().for_each(|md5| md5.update(&piece));
            body.push(&piece)?;
        }
        sums.end(md5.unwrap_or_default().finish(), &trailers)?;
        let BulkBody { bytes, mut reservation, .. } = body;
        kind.reserve(&mut reservation, kind.request_kib)?;
        Ok((bytes, reservation))
    }

    /// The bucket that a request names by its path or host.
    fn bucket_of(&self, kind: BulkKind, uri: &Uri, headers: &HeaderMap) -> S3Result<String> {
        match self.addresses.find(uri, headers) {
            Some((bucket, key)) if key.is_empty() => {
                if BucketNames.validate_bucket_name(&bucket) {
                    return Ok(bucket);
                }
                Err(s3_error!(InvalidBucketName, "The specified bucket is not valid."))
            }
            _ => Err(s3_error!(MethodNotAllowed, "Send a {} to a bucket: POST /bucket?{}", kind.name, kind.parameter)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::memory::MemoryPool;

    const TEST_KIND: BulkKind =
        BulkKind { name: "test", parameter: "test", body_kib: |length| (3 * length).div_ceil(1 << 10) as u32, request_kib: 1 };

    #[test]
    fn one_account_leaves_memory_for_the_bulk_requests_of_others() {
        let memory = MemoryPool::new(64 << 10);
        let body = |owner: u8| {
            let memory_owner = MemoryOwner::of(&Method::POST, &HeaderMap::new(), IpAddr::from([127, 0, 0, owner]));
            BulkBody::new(TEST_KIND, BODY_BYTES_MAX, memory.reservation(&memory_owner))
        };
        let mut all: Vec<BulkBody> = (0..64).map(|_| body(1)).collect();
        let taken = all.iter_mut().filter_map(|body| body.push(b"[").ok()).count();
        assert_eq!(taken, 42, "one alone has two thirds");
        body(2).push(b"[").expect("memory for another account");
    }

    #[test]
    fn a_body_takes_memory_for_received_bytes_only() {
        let kind = TEST_KIND;
        let memory = MemoryPool::new(64 << 10);
        let mut body = BulkBody::new(kind, BODY_BYTES_MAX, memory.reservation(&MemoryOwner::own()));
        body.push(b"[").expect("memory");
        assert_eq!(memory.free() >> 10, 63);
        for _ in 0..1_000 {
            body.push(b"123456789").expect("memory");
        }
        assert_eq!(body.bytes.len(), 9_001);
        assert_eq!(64 - (memory.free() >> 10), (kind.body_kib)(9_001) as usize);
        assert_eq!(body.push(&[b' '; 16 << 10]).expect_err("too much").code(), &s3s::S3ErrorCode::SlowDown);
        drop(body);
        assert_eq!(memory.free() >> 10, 64);
    }
}
