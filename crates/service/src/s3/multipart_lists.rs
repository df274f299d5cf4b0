//! Listings of multipart uploads in progress, and of their parts.

use s3s::dto::{self, ChecksumAlgorithm, ChecksumType, Initiator, MultipartUpload as ListedUpload, Part as ListedPart, StorageClass};
use s3s::{S3Request, S3Response, S3Result, s3_error};

use crate::s3::Answer;
use crate::s3::errors::state_failed;
use crate::s3::multipart::{algorithm_of, etag_of};
use crate::s3::namespace::Namespace;
use crate::s3::pages::{Entry, Last, Parameters, Rows, listing, page};
use crate::s3::version::{attribute, timestamp};
use crate::state::{MultipartUpload, Part};
use crate::transfer::checksums::{Algorithm, ChecksumElement, set_sum};

impl Namespace {
    pub(crate) fn list_parts(&self, request: S3Request<dto::ListPartsInput>) -> Answer<dto::ListPartsOutput> {
        let input = request.input;
        let upload = self.upload_of(&input.bucket, &input.key, &input.upload_id)?;
        let most = input.max_parts.unwrap_or(1_000);
        let most = usize::try_from(most).map_err(|_| s3_error!(InvalidArgument, "max-parts must not be negative"))?.min(1_000);
        let after = u32::try_from(input.part_number_marker.unwrap_or(0));
        let after = after.map_err(|_| s3_error!(InvalidArgument, "part-number-marker must not be negative"))?;
        let mut parts = self.state.parts(&upload.id, after, most + 1).map_err(state_failed)?;
        let truncated = parts.len() > most;
        parts.truncate(most);
        let algorithm = algorithm_of(&upload);
        let listed = |part: &Part| {
            let mut listed = ListedPart {
                e_tag: Some(etag_of(part)),
                last_modified: Some(timestamp(part.modified_ms)),
                part_number: Some(part.number as i32),
                size: Some(part.size as i64),
                ..Default::default()
            };
            if let (Some(algorithm), Some(sum)) = (algorithm, part.checksum.clone()) {
                set_sum!(listed, algorithm, sum);
            }
            listed
        };
        let owner = self.owner(&*self.bucket(&upload.bucket)?)?;
        let output = dto::ListPartsOutput {
            bucket: Some(upload.bucket.clone()),
            key: Some(upload.key.clone()),
            upload_id: Some(upload.id.clone()),
            checksum_algorithm: algorithm.map(Algorithm::in_xml),
            checksum_type: upload.checksum_type.clone().map(ChecksumType::from),
            initiator: Some(self.initiator(&upload)?),
            owner: Some(owner),
            is_truncated: Some(truncated),
            max_parts: Some(most as i32),
            part_number_marker: Some(after as i32),
            next_part_number_marker: Some(parts.last().map_or(after, |part| part.number) as i32),
            parts: Some(parts.iter().map(listed).collect()),
            storage_class: Some(class_of(&upload)),
            ..Default::default()
        };
        let mut response = S3Response::new(output);
        if let Some(algorithm) = algorithm {
            ChecksumElement::set(algorithm, &mut response.extensions);
        }
        Ok(response)
    }

    pub(crate) fn list_uploads(&self, request: S3Request<dto::ListMultipartUploadsInput>) -> Answer<dto::ListMultipartUploadsOutput> {
        let input = request.input;
        let bucket = self.bucket(&input.bucket)?;
        let parameters = Parameters::read(input.prefix, input.delimiter, input.max_uploads, input.encoding_type)?;
        let rows = UploadRows { namespace: self, bucket: &bucket.name, prefix: &parameters.prefix };
        let (key_marker, id_marker) = (input.key_marker.unwrap_or_default(), input.upload_id_marker.unwrap_or_default());
        let after = match (key_marker.as_str(), id_marker.as_str()) {
            ("", _) => None,
            (key, "") => parameters.after_key(&rows, key),
            (key, id) => Some((key.to_owned(), id.to_owned())),
        };
        let page = page(&rows, &parameters, usize::MAX, after)?;
        let truncated = page.truncated;
        let next = page.last().map(|entry| match entry {
            Entry::Row(key, upload) => (parameters.encode(key), upload.id.clone()),
            Entry::Prefix(prefix) => (parameters.encode(prefix), String::new()),
        });
        let (next_key, next_id) = next.unzip();
        let owner = self.owner(&bucket)?;
        let (uploads, prefixes) = page.split(&parameters, |key, upload| {
            let initiator = self.initiator(&upload)?;
            Ok(ListedUpload {
                checksum_algorithm: upload.checksum_algorithm.as_deref().map(|name| ChecksumAlgorithm::from(name.to_uppercase())),
                storage_class: Some(class_of(&upload)),
                checksum_type: upload.checksum_type.map(ChecksumType::from),
                initiated: Some(timestamp(upload.created_ms)),
                initiator: Some(initiator),
                key: Some(parameters.encode(&key)),
                owner: Some(owner.clone()),
                upload_id: Some(upload.id),
            })
        })?;
        let output = listing!(ListMultipartUploadsOutput of parameters, prefixes, truncated;
            bucket: Some(bucket.name.clone()),
            key_marker: Some(parameters.encode(&key_marker)),
            upload_id_marker: Some(id_marker),
            max_uploads: Some(parameters.limit as i32),
            next_key_marker: next_key,
            next_upload_id_marker: next_id,
            uploads: Some(uploads),
        );
        Ok(S3Response::new(output))
    }

    fn initiator(&self, upload: &MultipartUpload) -> S3Result<Initiator> {
        Ok(Initiator { display_name: Some(upload.account.clone()), id: self.account_id(&upload.account)? })
    }
}

fn class_of(upload: &MultipartUpload) -> StorageClass {
    StorageClass::from(upload.attributes.text(attribute::CLASS).unwrap_or(StorageClass::STANDARD).to_owned())
}

/// The uploads to a bucket.
struct UploadRows<'a> {
    namespace: &'a Namespace,
    bucket: &'a str,
    prefix: &'a str,
}

impl Rows for UploadRows<'_> {
    type Row = MultipartUpload;
    /// A key and the ID of an upload.
    type Position = (String, String);
    const ROWS_PER_QUERY_MAX: usize = 100;

    fn read(&self, after: Option<&Self::Position>, limit: usize) -> S3Result<Vec<MultipartUpload>> {
        let after = after.map_or(("", ""), |(key, id)| (key.as_str(), id.as_str()));
        let mut uploads = self.namespace.state.uploads(self.bucket, self.prefix, after, limit).map_err(state_failed)?;
        // A page may have 1,000 uploads, each with 64 KiB of attributes, of which it shows one.
        uploads.iter_mut().for_each(|upload| upload.attributes.0.retain(|name, _| name == attribute::CLASS));
        Ok(uploads)
    }

    fn key<'r>(&self, upload: &'r MultipartUpload) -> Result<&'r str, Vec<u8>> {
        Ok(&upload.key)
    }

    fn after(&self, last: Last<'_, MultipartUpload>) -> Option<Self::Position> {
        Some(match last {
            Last::Row(upload) => (upload.key.clone(), upload.id.clone()),
            // After all IDs, which are hexadecimal.
            Last::Key(key) => (key.to_owned(), "~".to_owned()),
            Last::Prefix(prefix) => (string_after(&String::from_utf8_lossy(prefix)), String::new()),
        })
    }
}

/// A string that sorts after all keys with this prefix: its last character is incremented.
fn string_after(prefix: &str) -> String {
    let mut text = prefix.to_owned();
    while let Some(last) = text.pop() {
        // No character lies between D7FF and E000.
        let next = if last == '\u{d7ff}' { Some('\u{e000}') } else { char::from_u32(u32::from(last) + 1) };
        if let Some(next) = next {
            text.push(next);
            return text;
        }
    }
    // All characters are the last one, so any later string is longer and has this prefix. Keys are
    // shorter than this one.
    format!("{prefix}{}", "\u{10ffff}".repeat(1_024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_string_after_a_prefix_follows_all_strings_with_it() {
        for (prefix, next) in [("b/", "b0"), ("b\u{d7ff}", "b\u{e000}"), ("b\u{10ffff}", "c")] {
            assert_eq!(string_after(prefix), next);
            assert!(string_after(prefix) > format!("{prefix}\u{10ffff}\u{10ffff}"));
        }
        assert!(string_after("\u{10ffff}") > "\u{10ffff}".repeat(256));
    }
}
