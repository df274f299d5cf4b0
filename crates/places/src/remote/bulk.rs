//! Requests for many small objects at once, which Fulgurite's servers have. Other servers never see
//! one.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Method, Request, StatusCode};
use opendal::Buffer;

use super::super::address::{Address, Kind};
use super::super::{Cause, Refusal};
use super::checksums::Asking;
use super::incoming::Content;
use super::last_refusal;
use super::transport::{Received, Repeatable, Transport, Upload, drain};

/// Largest file that goes together with others. A request of its own costs little compared with
/// more.
pub(super) const FILE_BYTES_MAX: u64 = 256 << 10;
/// Content of one request, which is held in memory.
pub(super) const REQUEST_BYTES_MAX: u64 = 4 << 20;
/// Files of one request.
pub(super) const FILES_MAX: usize = 1_000;
/// How long files are handled one by one after a request failed, at least. With each failure in a
/// row, it doubles.
const PAUSE: Duration = Duration::from_secs(10);
/// How often it doubles, to 10 minutes.
const DOUBLED_MAX: u32 = 6;

/// A bucket that may be one of a Fulgurite server.
#[derive(Clone)]
pub(super) struct BulkBucket {
    /// Its URL.
    url: String,
    /// Precedes locations in keys: the place's folder and a slash, or nothing.
    prefix: String,
    signs: Asking,
}

impl BulkBucket {
    /// The bucket at an address. `None` if it can't be one of ours, or if requests to it can't be
    /// signed.
    pub(super) fn of(address: &Address, endpoint: Option<&str>, signs: Option<&Asking>) -> Option<Self> {
        let endpoint = endpoint.filter(|_| address.kind == Kind::S3 && !address.is_true("enable_virtual_host_style"))?;
        let signs = signs.filter(|signs| matches!(signs, Asking::As(_)) && endpoint.starts_with("http"))?.clone();
        let (bucket, folder) = address.split();
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let url = format!("{}/{bucket}", endpoint.trim_end_matches('/'));
        Some(Self { url, prefix, signs })
    }

    /// The key of a file.
    pub(super) fn key(&self, location: &str) -> String {
        format!("{}{location}", self.prefix)
    }

    /// Sends a request. Returns the body of the answer.
    pub(super) async fn post(
        &self,
        query: &str,
        headers: &[(HeaderName, &'static str)],
        body: Bytes,
        transport: &Transport,
    ) -> Result<Box<Content>, Refusal> {
        // A bulk put asks for keys that are free, so what it stored before is not stored again.
        let request = Request::builder().method(Method::POST).uri(format!("{}?{query}", self.url)).extension(Repeatable).body(());
        let (mut parts, ()) = request.map_err(|error| Refusal::new(Cause::Unsupported, error.to_string()))?.into_parts();
        for (name, value) in headers {
            parts.headers.insert(name, HeaderValue::from_static(value));
        }
        if !self.signs.sign(&mut parts).await {
            return Err(Refusal::new(Cause::Denied, "the request can't be signed"));
        }
        let (head, received) = transport.exchange(parts, Upload::Whole(Buffer::from(body))).await?;
        match received {
            Received::Content(content) if head.status == StatusCode::OK => Ok(content),
            Received::Content(_) => Err(unusable(&head.status)),
            Received::Reason(_) => Err(last_refusal(transport, Method::POST)),
        }
    }
}

/// The header of a body in JSON.
pub(super) const JSON: (HeaderName, &str) = (CONTENT_TYPE, "application/json");

/// Appends the body of an answer to `answer`.
pub(super) async fn take_all(content: &mut Content, answer: &mut Vec<u8>, limit: usize) -> Result<(), Refusal> {
    let mut take = |piece: &[u8]| {
        answer.extend_from_slice(piece);
        answer.len() <= limit
    };
    match drain(content, &mut take).await {
        Err(Refusal { cause: Cause::Abandoned, .. }) => Err(unusable(&"it is too long")),
        taken => taken.map(drop),
    }
}

pub(super) fn unusable(why: &dyn std::fmt::Display) -> Refusal {
    Refusal::new(Cause::Fault, format!("the answer to a request for many objects is unusable: {why}"))
}

/// Whether a server has requests of one kind.
#[derive(Debug, Default)]
pub(super) struct Usable {
    /// The server answered one in a way that won't change, such as a proxy that doesn't pass it on.
    never: bool,
    /// Failures since the last success.
    failures: u32,
    /// When the next one may be sent, after one failed.
    not_before: Option<Instant>,
}

impl Usable {
    pub(super) fn now(&self, transport: &Transport) -> bool {
        transport.is_fulgurite() && !self.never && self.not_before.is_none_or(|until| Instant::now() >= until)
    }

    /// A request that began at `began` has ended.
    pub(super) fn ended<T>(&mut self, began: Instant, result: &Result<T, Refusal>) {
        let Err(refusal) = result else {
            self.failures = 0;
            return;
        };
        let asked = match refusal.cause {
            Cause::Throttled { retry_after } => retry_after.unwrap_or_default(),
            _ => Duration::ZERO,
        };
        // One that took long to fail must not take most of the time.
        let pause = PAUSE.max(asked).max(began.elapsed()) * 2_u32.pow(self.failures.min(DOUBLED_MAX));
        self.not_before = Instant::now().checked_add(pause);
        self.failures += 1;
        self.never |= !refusal.cause.is_temporary();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::Deadlines;

    fn bucket(url: &str, options: &[(&str, &str)]) -> Option<BulkBucket> {
        let given = [("endpoint", "http://127.0.0.1:1/"), ("access_key_id", "k"), ("secret_access_key", "env:PATH")];
        let mut all: Vec<(&str, &str)> = given.into_iter().filter(|(name, _)| url.starts_with("s3") || *name == "endpoint").collect();
        all.extend(options);
        let address = Address::parse(url, all).unwrap_or_else(|error| panic!("{url} {options:?}: {error}"));
        let transport = Transport::new(Deadlines::default(), None, false, false);
        let asking = Asking::of(&address, &transport).expect("settings");
        BulkBucket::of(&address, Some("http://127.0.0.1:1/"), asking.as_ref())
    }

    #[test]
    fn only_a_bucket_that_may_be_ours_has_them() {
        let found = bucket("s3://b/p/q", &[]).expect("it may be ours");
        assert_eq!((found.url.as_str(), found.key("a").as_str()), ("http://127.0.0.1:1/b", "p/q/a"));
        assert_eq!(bucket("s3://b", &[]).expect("it may be ours").key("a"), "a");
        for option in [("enable_virtual_host_style", "true"), ("role_arn", "arn:aws:iam::1:role/r"), ("anonymous", "true")] {
            assert!(bucket("s3://b", &[option]).is_none(), "{option:?}");
        }
        assert!(bucket("gcs://b", &[("anonymous", "true")]).is_none());
    }

    #[test]
    fn each_failure_in_a_row_doubles_the_pause() {
        let mut usable = Usable::default();
        let pause = |usable: &mut Usable, cause| {
            let began = Instant::now();
            usable.ended(began, &Err::<(), _>(Refusal::new(cause, "")));
            usable.not_before.expect("a pause") - began
        };
        for seconds in [10, 20, 40, 80, 160, 320, 640, 640] {
            assert_eq!(pause(&mut usable, Cause::TimedOut).as_secs(), seconds);
        }
        usable.ended(Instant::now(), &Ok(()));
        let throttled = |seconds| Cause::Throttled { retry_after: Some(Duration::from_secs(seconds)) };
        assert_eq!(pause(&mut usable, throttled(5)).as_secs(), 10);
        assert_eq!(pause(&mut usable, throttled(30)).as_secs(), 60);
        assert!(!usable.never);
        pause(&mut usable, Cause::Denied);
        assert!(usable.never);
    }
}
