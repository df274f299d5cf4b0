//! Retrieving many objects with one request, which S3 has no operation for: `POST /bucket?retrieve` with a list of keys is answered with a tar archive.
//!
//! ```text
//! list -> find: rights, version, place -> in the order of places: read, check -> tar -> client
//!                                  '--- what can't be had ---> result.json, the last entry
//! ```
//!
//! A batch reads one object after another, and takes for each a place among those that all clients read at once. So many short batches go on beside a
//! long one as if it were one client more.

mod asked;
mod batch;
mod result;

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
use s3s::{Body, S3Request, S3Response, S3Result, StdError, s3_error};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

pub(crate) use asked::parse;
use asked::{AskedError, OBJECTS_MAX};
#[cfg(feature = "fuzzing")]
pub(crate) use result::entry_name;

use batch::{AHEAD, Batch, Item, Out, Outcome};

use crate::access::check_owner;
use crate::address::Addresses;
use crate::caller::{Caller, Peer, origin};
use crate::checksums::Claims;
use crate::failures::{busy, custom, state_failed};
use crate::gateway::Gateway;
use crate::names::BucketNames;
use crate::policy::has_parameter;
use crate::receive::length_of;
use crate::signatures::is_form;

/// The longest list: 100,000 keys of 160 bytes.
const LIST_BYTES_MAX: u64 = 16 << 20;
/// What a batch holds beside its list: an object, pieces on their way to the client, and what its reader has read ahead.
const READING_KIB: u64 = 3 << 10;
/// What is held for each object beside its key: where it lies, and what became of it.
const OBJECT_BYTES: u64 = 320;
/// The shortest entry of a list: two quotation marks and a comma.
const ENTRY_BYTES_MIN: u64 = 3;

/// What a batch holds that has a list of so many bytes: the list, its keys, and what is known of each.
fn share_kib(length: u64) -> u32 {
    let objects = (length / ENTRY_BYTES_MIN).min(OBJECTS_MAX as u64);
    (READING_KIB + (2 * length + objects * OBJECT_BYTES).div_ceil(1 << 10)) as u32
}

/// Answers batches.
pub(crate) struct Retrieve {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) addresses: Arc<Addresses>,
}

impl Retrieve {
    pub(crate) fn is_match(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> bool {
        *method == Method::POST && !is_form(method, headers) && has_parameter(uri.query(), "retrieve")
    }

    pub(crate) async fn call(&self, mut request: S3Request<Body>) -> S3Result<S3Response<Body>> {
        let signed = request.credentials.as_ref().ok_or_else(|| s3_error!(AccessDenied, "A batch has to be signed."))?;
        let key = self.gateway.state.key(&signed.access_key).map_err(state_failed)?.ok_or_else(|| s3_error!(InvalidAccessKeyId))?;
        let peer = request.extensions.get::<Peer>().copied();
        let caller = Caller { account: Some(key.account.clone()), origin: origin(peer, &request.headers) };
        let bucket = self.gateway.bucket(&self.bucket_of(&request.uri, &request.headers)?)?;
        check_owner(&self.gateway.state, &bucket, &request.headers)?;
        let announced = request.headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        let length = length_of(announced, &request.headers)?;
        if length > LIST_BYTES_MAX {
            return Err(custom("MaxMessageLengthExceeded", StatusCode::BAD_REQUEST, "Your request was too large."));
        }
        let share = self.gateway.batches.clone().try_acquire_many_owned(share_kib(length));
        // To wait would let a long list hold up the short ones behind it.
        let share = share.map_err(|_| busy("Too many batches are under way. Try again when some of them have ended.", 5))?;
        let (mut sums, mut md5) = (Claims::of(&request.headers)?.begin(None), Md5::new());
        let trailers = request.trailing_headers.take();
        let mut receiving = self.gateway.body(Some(StreamingBlob::from(request.input)), length);
        let mut list = Vec::with_capacity(length as usize);
        while let Some(piece) = receiving.next().await? {
            sums.update(&piece);
            md5.update(&piece);
            list.extend_from_slice(&piece);
        }
        sums.end(md5.finish(), trailers.as_ref())?;
        let wanted = tokio::task::block_in_place(|| parse(&list)).map_err(|error| match error {
            AskedError::TooMany => s3_error!(error, InvalidRequest, "{error}"),
            AskedError::Json(_) => {
                let mut told = custom("MalformedJSON", StatusCode::BAD_REQUEST, "");
                told.set_message(error.to_string());
                told
            }
        })?;
        drop(list);
        let (pieces_in, pieces) = mpsc::channel(AHEAD);
        let whole = Arc::new(AtomicBool::new(false));
        let batch = Batch {
            gateway: self.gateway.clone(),
            bucket,
            caller,
            items: wanted.into_iter().map(|wanted| Item { wanted, outcome: Outcome::Open }).collect(),
            out: Out::new(pieces_in, Handle::current(), whole.clone()),
        };
        tokio::task::spawn_blocking(move || {
            let _share = share;
            batch.run();
        });
        let mut response = S3Response::new(body(pieces, whole));
        response.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-tar"));
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
            _ => Err(s3_error!(MethodNotAllowed, "A batch is asked of a bucket: POST /bucket?retrieve")),
        }
    }
}

/// The pieces as a body. Where they end before all was sent, it ends with an error, and HTTP without its end.
fn body(pieces: mpsc::Receiver<Bytes>, whole: Arc<AtomicBool>) -> Body {
    let frames = stream::unfold(Some(pieces), move |pieces| {
        let whole = whole.clone();
        async move {
            let mut pieces = pieces?;
            match pieces.recv().await {
                Some(piece) => Some((Ok(Frame::data(piece)), Some(pieces))),
                None if whole.load(Ordering::Acquire) => None,
                None => Some((Err(StdError::from("the batch was broken off")), None)),
            }
        }
    });
    Body::http_body_unsync(StreamBody::new(frames))
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;
    use crate::gateway::BATCHES_KIB;

    #[tokio::test]
    async fn an_answer_that_is_not_whole_ends_with_an_error() {
        for is_whole in [true, false] {
            let (pieces_in, pieces) = mpsc::channel(AHEAD);
            let whole = Arc::new(AtomicBool::new(false));
            let body = body(pieces, whole.clone());
            pieces_in.send(Bytes::from_static(b"piece")).await.expect("it is listened to");
            whole.store(is_whole, Ordering::Release);
            drop(pieces_in);
            assert_eq!(body.collect().await.is_ok(), is_whole);
        }
    }

    #[test]
    fn two_of_the_longest_lists_and_many_short_ones_fit_into_the_memory_of_all() {
        assert!(2 * share_kib(LIST_BYTES_MAX) + 30 * share_kib(10 << 10) <= BATCHES_KIB as u32);
    }
}
