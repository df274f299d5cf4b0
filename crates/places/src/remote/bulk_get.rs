//! Bulk gets: a Fulgurite server sends many small objects with one answer, in the order in which
//! its archive reads them fastest. Other servers never see such a request.

use std::collections::HashMap;
use std::ops::Range;
use std::time::{Duration, Instant};

use fulgurite_client::{BULK_GET_QUERY, Requested, bulk_get_body, read_bulk_get};
use http::header::{CONTENT_TYPE, HeaderValue, SERVER};
use http::{Method, Request, StatusCode};
use opendal::Buffer;

use super::super::address::{Address, Kind};
use super::super::{Cause, Refusal};
use super::checksums::Asking;
use super::last_refusal;
use super::transport::{Received, Transport, Upload, drain};

/// Largest file that is got with others. A request of its own costs little compared with more.
const FILE_BYTES_MAX: u64 = 256 << 10;
/// Content of one answer, which is held in memory.
const ANSWER_BYTES_MAX: u64 = 4 << 20;
/// Files of one answer.
const FILES_MAX: usize = 1_000;
/// What an answer may have for each file besides its content: headers of the archive, and a line of
/// the result, with keys of up to 1,024 bytes.
const FILE_OVERHEAD_MAX: u64 = 16 << 10;
/// How long files are got one by one after a bulk get failed.
const PAUSE: Duration = Duration::from_secs(10);

/// Files that arrived before they were asked for.
pub(super) struct BulkGets {
    /// The bucket's URL.
    url: String,
    /// Precedes locations in keys: the place's folder and a slash, or nothing.
    prefix: String,
    server: Known,
    /// When the next request may be sent, after one failed.
    not_before: Option<Instant>,
    /// The last answer.
    answer: Vec<u8>,
    /// Files in it that weren't read yet.
    files: HashMap<String, Range<usize>>,
}

/// What is known of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    Nothing,
    HasBulkGets,
    HasNone,
}

impl BulkGets {
    /// Of the bucket at an address. `None` if the server would not be a Fulgurite server, or not
    /// answer such a request.
    pub(super) fn of(address: &Address, endpoint: Option<&str>) -> Option<Self> {
        let endpoint = endpoint.filter(|_| address.kind == Kind::S3 && !address.is_true("enable_virtual_host_style"))?;
        // They must be signed.
        if address.is_true("anonymous") || !endpoint.starts_with("http") {
            return None;
        }
        let (bucket, folder) = address.split();
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let url = format!("{}/{bucket}", endpoint.trim_end_matches('/'));
        Some(Self { url, prefix, server: Known::Nothing, not_before: None, answer: Vec::new(), files: HashMap::new() })
    }

    /// Looks at a successful answer of the server.
    pub(super) fn note(&mut self, transport: &Transport) {
        if self.server == Known::Nothing {
            let is_ours = transport.notes().headers.get(SERVER).is_some_and(|name| name == "fulgurite");
            self.server = if is_ours { Known::HasBulkGets } else { Known::HasNone };
        }
    }

    /// The content of a file that arrived, once.
    pub(super) fn take(&mut self, location: &str) -> Option<&[u8]> {
        self.files.remove(location).map(|range| &self.answer[range])
    }

    /// The first files that one request should ask for.
    pub(super) fn first<'f>(&mut self, files: &mut dyn Iterator<Item = (&'f str, u64)>) -> Vec<&'f str> {
        self.files.clear();
        let pauses = self.not_before.is_some_and(|until| Instant::now() < until);
        let (mut first, mut left) = (Vec::new(), ANSWER_BYTES_MAX);
        if self.server == Known::HasBulkGets && !pauses {
            for (location, bytes) in files.take(FILES_MAX) {
                if bytes > FILE_BYTES_MAX.min(left) {
                    break;
                }
                left -= bytes;
                first.push(location);
            }
        }
        first
    }

    /// Gets files. Those that the server can't send are not there afterwards.
    pub(super) async fn get(&mut self, locations: &[&str], transport: &Transport, signs: &Asking) -> Result<(), Refusal> {
        let got = self.try_get(locations, transport, signs).await;
        if let Err(refusal) = &got {
            self.files.clear();
            self.not_before = Some(Instant::now() + PAUSE);
            // Such as a proxy that doesn't pass such requests on.
            if !refusal.cause.is_temporary() {
                self.server = Known::HasNone;
            }
        }
        got
    }

    async fn try_get(&mut self, locations: &[&str], transport: &Transport, signs: &Asking) -> Result<(), Refusal> {
        let fault = |why: &dyn std::fmt::Display| Refusal::new(Cause::Fault, format!("the answer to a bulk get is unusable: {why}"));
        let objects: Vec<Requested> = locations.iter().map(|location| Requested::new(&format!("{}{location}", self.prefix))).collect();
        let request = Request::builder().method(Method::POST).uri(format!("{}?{BULK_GET_QUERY}", self.url));
        let request = request.header(CONTENT_TYPE, HeaderValue::from_static("application/json")).body(());
        let (mut parts, ()) = request.map_err(|error| Refusal::new(Cause::Unsupported, error.to_string()))?.into_parts();
        if !signs.sign(&mut parts).await {
            return Err(Refusal::new(Cause::Denied, "the request can't be signed"));
        }
        let body = Upload::Whole(Buffer::from(bulk_get_body(&objects)));
        let (head, received) = transport.exchange(parts, body).await?;
        let Received::Content(mut content) = received else { return Err(last_refusal(transport, Method::POST)) };
        if head.status != StatusCode::OK {
            return Err(fault(&head.status));
        }
        let limit = 2 * ANSWER_BYTES_MAX + locations.len() as u64 * FILE_OVERHEAD_MAX;
        self.answer.clear();
        let answer = &mut self.answer;
        let mut take = |piece: &[u8]| {
            answer.extend_from_slice(piece);
            answer.len() as u64 <= limit
        };
        drain(&mut content, &mut take).await?;
        let mut entries = HashMap::new();
        let report = read_bulk_get(&self.answer[..], |entry, name| {
            let begin = usize::try_from(entry.raw_file_position()).unwrap_or(usize::MAX);
            let end = begin.saturating_add(usize::try_from(entry.size()).unwrap_or(usize::MAX));
            entries.insert(name, begin..end);
            Ok(())
        });
        let report = report.map_err(|error| fault(&error))?;
        report.check(&objects, entries.len() as u64).map_err(|error| fault(&error))?;
        for (line, location) in report.objects.into_iter().zip(locations) {
            // The others are read one by one, and the answer says why they can't be.
            if let Some(entry) = line.entry.filter(|_| line.code.is_none()) {
                let range = entries.remove(&entry).filter(|range| range.end <= self.answer.len() && Some(range.len() as u64) == line.size);
                let range = range.ok_or_else(|| fault(&"an object is missing"))?;
                self.files.insert((*location).to_owned(), range);
            }
        }
        Ok(())
    }
}
