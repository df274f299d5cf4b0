//! Bulk puts: a Fulgurite server takes many small objects with one request.

use std::time::Instant;

use fulgurite_client::{BULK_PUT_LINE_BYTES_MAX, BULK_PUT_QUERY, BulkPut, BulkPutLine, ENTRY_BYTES_MAX, parse_bulk_put};
use http::header::IF_NONE_MATCH;

use super::super::{Cause, NewContent, Refusal, fill};
use super::bulk::{BulkBucket, FILE_BYTES_MAX, FILES_MAX, REQUEST_BYTES_MAX, take_all, unusable};
use super::transport::Transport;

/// Puts files that don't exist yet.
pub(super) struct BulkPuts {
    pub(super) bucket: BulkBucket,
}

impl BulkPuts {
    pub(super) fn new(bucket: BulkBucket) -> Self {
        Self { bucket }
    }

    /// Puts the first of these files with one request. Returns a result for each of them; none if
    /// the next file should be put alone.
    pub(super) async fn put(
        &self,
        files: &mut dyn Iterator<Item = NewContent<'_>>,
        transport: &Transport,
        is_possible: impl Fn(&str) -> bool,
    ) -> Vec<Result<(), Refusal>> {
        if !self.bucket.is_ours() || !self.bucket.known.puts.now() {
            return Vec::new();
        }
        let (mut archive, mut left, mut piece) = (None, REQUEST_BYTES_MAX, Vec::new());
        let mut keys = Vec::new();
        for mut file in files.take(FILES_MAX) {
            if file.bytes > FILE_BYTES_MAX.min(left) || !is_possible(file.location) {
                break;
            }
            left = left.saturating_sub(file.bytes + ENTRY_BYTES_MAX as u64);
            // One byte more, to notice content that goes on.
            piece.resize(file.bytes as usize + 1, 0);
            match fill(&mut file.content, &mut piece) {
                Ok(filled) if filled as u64 == file.bytes => {}
                // The put of this file alone reports the error.
                _ => break,
            }
            let key = self.bucket.key(file.location);
            let archive = archive.get_or_insert_with(|| BulkPut::with_capacity(REQUEST_BYTES_MAX as usize));
            archive.push(&key, &[], &piece[..file.bytes as usize]);
            keys.push(key);
        }
        let Some(archive) = archive.filter(|_| keys.len() >= 2 && self.bucket.known.puts.begin()) else { return Vec::new() };
        let began = Instant::now();
        let put = self.try_put(archive, &keys, transport).await;
        self.bucket.known.puts.ended(began, &put);
        match put {
            Ok(results) => results,
            Err(refusal) if refusal.cause.is_out_of_reach() => keys.iter().map(|_| Err(refusal.clone())).collect(),
            Err(_) => Vec::new(),
        }
    }

    async fn try_put(&self, archive: BulkPut, keys: &[String], transport: &Transport) -> Result<Vec<Result<(), Refusal>>, Refusal> {
        let mut content = self.bucket.post(BULK_PUT_QUERY, &[(IF_NONE_MATCH, "*")], archive.finish(), transport).await?;
        let mut answer = Vec::new();
        take_all(&mut content, &mut answer, (keys.len() + 1) * BULK_PUT_LINE_BYTES_MAX).await?;
        let lines = parse_bulk_put(&answer, keys.len()).ok_or_else(|| unusable(&"it has no line for each object"))?;
        if lines.iter().zip(keys).any(|(line, key)| line.key != *key) {
            return Err(unusable(&"it has lines for other objects"));
        }
        let result = |line: BulkPutLine| match line.code {
            None => Ok(()),
            Some(code) if code == "PreconditionFailed" => Err(Refusal::new(Cause::Exists, line.key)),
            Some(code) => Err(Refusal::new(Cause::Fault, format!("{}: {code} {}", line.key, line.message.unwrap_or_default()))),
        };
        Ok(lines.into_iter().map(result).collect())
    }
}
