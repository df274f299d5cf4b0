//! Bulk requests: many small objects at once. Only Fulgurite servers receive them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Method, Request, StatusCode};
use opendal::Buffer;

use super::super::address::{Address, Kind};
use super::super::{Cause, Refusal};
use super::checksums::RequestSigning;
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
/// How long files are handled one by one after a request failed, at least. It doubles with each
/// further failure.
const PAUSE: Duration = Duration::from_secs(10);
/// The longest.
const PAUSE_MAX: Duration = Duration::from_secs(600);
/// Maximum number of doublings.
const DOUBLED_MAX: u32 = 6;

/// A bucket that may be one of a Fulgurite server.
#[derive(Clone)]
pub(super) struct BulkBucket {
    /// Its URL.
    url: String,
    /// Precedes locations in keys: the place's folder and a slash, or nothing.
    prefix: String,
    signs: RequestSigning,
    pub(super) known: Arc<Known>,
}

/// What is known about a server. All connections of a place share it; it holds no file content.
#[derive(Default)]
pub(super) struct Known {
    is_fulgurite: AtomicBool,
    pub(super) gets: Usable,
    pub(super) puts: Usable,
}

impl BulkBucket {
    /// The bucket at an address. `None` if it can't be one of ours, or if requests to it can't be
    /// signed.
    pub(super) fn of(address: &Address, endpoint: Option<&str>, signs: Option<&RequestSigning>, known: &Arc<Known>) -> Option<Self> {
        let endpoint = endpoint.filter(|_| address.kind == Kind::S3 && !address.is_true("enable_virtual_host_style"))?;
        let signs = signs.filter(|signs| matches!(signs, RequestSigning::As(_)) && endpoint.starts_with("http"))?.clone();
        let (bucket, folder) = address.split();
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let url = format!("{}/{bucket}", endpoint.trim_end_matches('/'));
        Some(Self { url, prefix, signs, known: known.clone() })
    }

    /// Notes whether the place has answered as a Fulgurite server.
    pub(super) fn look_at(&self, transport: &Transport) {
        if transport.is_fulgurite() {
            self.known.is_fulgurite.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the place has answered as a Fulgurite server, over any connection.
    pub(super) fn is_ours(&self) -> bool {
        self.known.is_fulgurite.load(Ordering::Relaxed)
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
            return Err(Refusal::new(Cause::Fault, "the request can't be signed"));
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

/// Whether requests of one kind may be sent now.
#[derive(Default)]
pub(super) struct Usable(Mutex<Failures>);

/// Failures of requests of one kind.
#[derive(Debug, Default)]
struct Failures {
    /// The server doesn't have them, or a proxy doesn't pass them on.
    never: bool,
    /// How many failed since the last success. Several at once count as one.
    in_a_row: u32,
    /// When the last one failed.
    last: Option<Instant>,
    /// How long to wait after it.
    pause: Duration,
    /// When the next one may be sent.
    not_before: Option<Instant>,
}

impl Failures {
    fn may_send(&self) -> bool {
        !self.never && self.not_before.is_none_or(|until| Instant::now() >= until)
    }
}

impl Usable {
    fn failures(&self) -> MutexGuard<'_, Failures> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a request may be sent.
    pub(super) fn now(&self) -> bool {
        self.failures().may_send()
    }

    /// Whether a request may be sent, for the caller who then sends it: after a pause, one request
    /// finds out for all connections.
    pub(super) fn begin(&self) -> bool {
        let mut failures = self.failures();
        let may = failures.may_send();
        if may && failures.in_a_row > 0 {
            failures.not_before = Instant::now().checked_add(failures.pause);
        }
        may
    }

    /// A request that began at `began` has ended.
    pub(super) fn ended<T>(&self, began: Instant, result: &Result<T, Refusal>) {
        let mut failures = self.failures();
        // Requests that were under way when one failed tell nothing new.
        let is_later = failures.last.is_none_or(|last| began >= last);
        let Err(refusal) = result else {
            if is_later {
                *failures = Failures::default();
            }
            return;
        };
        let asked = match refusal.cause {
            Cause::Throttled { retry_after } => retry_after.unwrap_or_default().min(PAUSE_MAX),
            _ => Duration::ZERO,
        };
        if is_later {
            // One that took long to fail must not take most of the time.
            let doubled = PAUSE.max(began.elapsed()) * 2_u32.pow(failures.in_a_row.min(DOUBLED_MAX));
            failures.pause = doubled.min(PAUSE_MAX);
            failures.in_a_row += 1;
        }
        let now = Instant::now();
        failures.last = Some(now);
        failures.not_before = failures.not_before.max(now.checked_add(failures.pause + asked));
        failures.never |= matches!(refusal.cause, Cause::Unsupported | Cause::Missing);
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
        let asking = RequestSigning::of(&address, &transport).expect("settings");
        BulkBucket::of(&address, Some("http://127.0.0.1:1/"), asking.as_ref(), &Arc::default())
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

    /// The pause after a request that began at `began` failed.
    fn pause(usable: &Usable, began: Instant, cause: Cause) -> u64 {
        usable.ended(began, &Err::<(), _>(Refusal::new(cause, "")));
        usable.failures().not_before.expect("a pause").saturating_duration_since(Instant::now()).as_secs_f64().round() as u64
    }

    #[test]
    fn each_further_failure_doubles_the_pause() {
        let usable = Usable::default();
        assert!(usable.now() && usable.begin() && usable.now());
        let began = Instant::now();
        for seconds in [10, 20, 40, 80, 160, 320, 600, 600] {
            assert_eq!(pause(&usable, Instant::now(), Cause::TimedOut), seconds);
        }
        // One that was under way already tells nothing new, whatever came of it.
        usable.ended(began, &Ok(()));
        assert_eq!((pause(&usable, began, Cause::TimedOut), usable.failures().in_a_row), (600, 8));
        assert!(!usable.now() && !usable.begin());
        usable.ended(Instant::now(), &Ok(()));
        assert!(usable.now());
        // What took long pauses as long, and the server may ask for more.
        assert_eq!(pause(&usable, Instant::now() - Duration::from_secs(60), Cause::TimedOut), 60);
        usable.ended(Instant::now(), &Ok(()));
        let throttled = |seconds| Cause::Throttled { retry_after: Some(Duration::from_secs(seconds)) };
        assert_eq!(pause(&usable, Instant::now(), throttled(30)), 40);
        assert_eq!(pause(&usable, Instant::now(), throttled(u64::MAX)), 620);
        assert_eq!(pause(&usable, Instant::now(), Cause::Denied), 620);
        assert!(!usable.failures().never);
        pause(&usable, Instant::now(), Cause::Unsupported);
        assert!(usable.failures().never);
    }

    #[test]
    fn after_a_pause_one_request_finds_out() {
        let usable = Usable::default();
        pause(&usable, Instant::now(), Cause::TimedOut);
        usable.failures().not_before = Some(Instant::now());
        assert!(usable.begin() && !usable.begin());
        usable.ended(Instant::now(), &Ok(()));
        assert!(usable.begin() && usable.begin());
    }
}
