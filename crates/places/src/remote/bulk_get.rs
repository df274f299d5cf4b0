//! Bulk gets: a Fulgurite server sends many small objects with one answer, in the order in which
//! its archive reads them fastest.

use std::collections::HashMap;
use std::ops::Range;
use std::time::Instant;

use fulgurite_client::{BULK_GET_QUERY, Requested, bulk_get_body, read_bulk_get};

use super::super::Refusal;
use super::bulk::{BulkBucket, FILE_BYTES_MAX, FILES_MAX, JSON, REQUEST_BYTES_MAX, take_all, unusable};
use super::transport::Transport;

/// The most that an answer has for each file besides its content, without the key: headers of the
/// archive, padding, and a line of the result.
const FILE_OVERHEAD_MAX: usize = 8 << 10;
/// The most that an answer has for each byte of a key: in a record of the archive, and twice, six
/// bytes each, in the result.
const KEY_OVERHEAD_MAX: usize = 16;

/// Files that arrived before they were asked for.
pub(super) struct BulkGets {
    bucket: BulkBucket,
    /// The last answer.
    answer: Vec<u8>,
    /// Files in it that weren't read yet.
    files: HashMap<String, Range<usize>>,
}

impl BulkGets {
    pub(super) fn new(bucket: BulkBucket) -> Self {
        Self { bucket, answer: Vec::new(), files: HashMap::new() }
    }

    /// The content of a file that arrived, once.
    pub(super) fn take(&mut self, location: &str) -> Option<&[u8]> {
        self.files.remove(location).map(|range| &self.answer[range])
    }

    /// The first files that one request should ask for.
    pub(super) fn first<'f>(&mut self, files: &mut dyn Iterator<Item = (&'f str, u64)>) -> Vec<&'f str> {
        self.files.clear();
        let (mut first, mut left) = (Vec::new(), REQUEST_BYTES_MAX);
        if self.bucket.is_ours() && self.bucket.known.gets.now() {
            for (location, bytes) in files.take(FILES_MAX) {
                if bytes > FILE_BYTES_MAX.min(left) {
                    break;
                }
                left -= bytes;
                first.push(location);
            }
        }
        // A single one is read alone.
        if first.len() < 2 || !self.bucket.known.gets.begin() {
            first.clear();
        }
        first
    }

    /// Gets files. Those that the server couldn't send stay missing from `files`.
    pub(super) async fn get(&mut self, locations: &[&str], transport: &Transport) -> Result<(), Refusal> {
        let began = Instant::now();
        let got = self.try_get(locations, transport).await;
        if got.is_err() {
            (self.files, self.answer) = Default::default();
        }
        self.bucket.known.gets.ended(began, &got);
        got
    }

    async fn try_get(&mut self, locations: &[&str], transport: &Transport) -> Result<(), Refusal> {
        let objects: Vec<Requested> = locations.iter().map(|location| Requested::new(&self.bucket.key(location))).collect();
        let mut content = self.bucket.post(BULK_GET_QUERY, &[JSON], bulk_get_body(&objects), transport).await?;
        let overhead = |object: &Requested| FILE_OVERHEAD_MAX + KEY_OVERHEAD_MAX * object.key.len();
        // Some files may have grown since they were listed.
        let limit = 2 * REQUEST_BYTES_MAX as usize + objects.iter().map(overhead).sum::<usize>();
        self.answer.clear();
        take_all(&mut content, &mut self.answer, limit).await?;
        let mut entries = HashMap::new();
        let report = read_bulk_get(&self.answer[..], |entry, name| {
            let begin = usize::try_from(entry.raw_file_position()).unwrap_or(usize::MAX);
            let end = begin.saturating_add(usize::try_from(entry.size()).unwrap_or(usize::MAX));
            entries.insert(name, begin..end);
            Ok(())
        });
        let report = report.map_err(|error| unusable(&error))?;
        let lengths = entries.iter().map(|(name, range): (&String, &Range<usize>)| (name.clone(), range.len() as u64)).collect();
        report.check(&objects, &lengths).map_err(|error| unusable(&error))?;
        for (line, location) in report.objects.into_iter().zip(locations) {
            // The others are read one by one, and the answer says why they can't be.
            if let Some(entry) = line.entry.filter(|_| line.code.is_none()) {
                let range = entries.remove(&entry).filter(|range| range.end <= self.answer.len());
                let range = range.ok_or_else(|| unusable(&"an object is missing"))?;
                self.files.insert((*location).to_owned(), range);
            }
        }
        Ok(())
    }
}
