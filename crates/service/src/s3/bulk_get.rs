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
use futures_util::stream;
use http::{HeaderValue, StatusCode, header};
use http_body_util::StreamBody;
use hyper::body::Frame;
use s3s::{Body, S3Request, S3Response, StdError, s3_error};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

#[cfg(feature = "fuzzing")]
pub(crate) use entry_names::entry_name;
pub(crate) use request::parse;
use request::{Item, ListError, OBJECTS_MAX, Outcome};

use response::{PIECES_AHEAD_MAX, ResponseWriter, TarResponse};

use crate::auth::grant::check_same;
use crate::http::query::has_parameter;
use crate::s3::Answer;
use crate::s3::bulk_request::{BulkKind, BulkRequests};
use crate::s3::errors::custom;

/// KiB that a bulk get holds in addition to its list: an object, pieces on their way to the client,
/// and what its reader has read ahead.
const READER_KIB: u32 = 3 << 10;
/// Bytes that a bulk get holds per object in addition to the key: its place and its outcome.
const OBJECT_BYTES: u64 = 320;
/// Length of the shortest entry of a list: two quotation marks and a comma.
const LIST_ENTRY_BYTES_MIN: u64 = 3;

/// The query parameters of a bulk get.
pub(crate) const PARAMETERS: [&str; 2] = ["retrieve", "order"];

pub(crate) const KIND: BulkKind = BulkKind { name: "bulk get", parameter: "retrieve", body_kib: list_kib, request_kib: READER_KIB };

/// KiB that a list of `length` bytes takes: itself, its keys, and the state of each object.
fn list_kib(length: u64) -> u32 {
    let objects = (length / LIST_ENTRY_BYTES_MIN).min(OBJECTS_MAX as u64);
    (2 * length + objects * OBJECT_BYTES).div_ceil(1 << 10) as u32
}

/// Answers a bulk get.
pub(crate) async fn call(requests: &BulkRequests, mut request: S3Request<Body>) -> Answer<Body> {
    let (_, admitted_to) = requests.admit(KIND, &request)?;
    let (list, reservation) = requests.receive(KIND, &mut request).await?;
    // The list may have taken long.
    let (caller, bucket) = requests.admit(KIND, &request)?;
    check_same(&admitted_to, &bucket)?;
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
        gateway: requests.gateway.clone(),
        bucket,
        caller,
        items: objects.into_iter().map(|object| Item { object, outcome: Outcome::Pending }).collect(),
        out: ResponseWriter::new(pieces_tx, Handle::current(), is_complete.clone()),
    };
    let wants_order = has_parameter(request.uri.query(), "order");
    tokio::task::spawn_blocking(move || {
        let _reservation = reservation;
        if wants_order { tar.run_order() } else { tar.run() }
    });
    let mut response = S3Response::new(body(pieces_rx, is_complete));
    let content_type = if wants_order { "application/json" } else { "application/x-tar" };
    response.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    Ok(response)
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
    use crate::memory::{Budget, MemoryPool};
    use crate::s3::bulk_request::BODY_BYTES_MAX;
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
        let bulk_kib = Budget::new(1_664, 512, 1_024).expect("the defaults").bulk_kib as u32;
        assert!(2 * share(BODY_BYTES_MAX) + 30 * share(10 << 10) <= bulk_kib);
        let max_of_one = MemoryPool::max_of_one_owner(bulk_kib as usize) as u32;
        assert!(2 * share(BODY_BYTES_MAX) <= max_of_one && 40 * share(10 << 10) <= max_of_one);
    }
}
