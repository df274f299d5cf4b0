//! Listings of multipart uploads in progress, and of their parts.

use s3s::dto::{
    ChecksumAlgorithm, ChecksumType, CommonPrefix, ETag, Initiator, ListMultipartUploadsInput, ListMultipartUploadsOutput, ListPartsInput,
    ListPartsOutput, MultipartUpload as ListedUpload, Owner, Part as ListedPart, StorageClass,
};
use s3s::{S3Request, S3Response, S3Result, s3_error};

use crate::gateway::Gateway;
use crate::s3::errors::state_failed;
use crate::s3::list::Encoding;
use crate::s3::version::{attribute, timestamp};
use crate::state::{Bucket, MultipartUpload, Part, hex};
use crate::transfer::checksums::{Algorithm, Named, set_sum};

impl Gateway {
    pub(crate) fn list_parts(&self, request: S3Request<ListPartsInput>) -> S3Result<S3Response<ListPartsOutput>> {
        let input = request.input;
        let upload = self.upload_of(&input.bucket, &input.key, &input.upload_id)?;
        let most = input.max_parts.unwrap_or(1_000);
        let most = usize::try_from(most).map_err(|_| s3_error!(InvalidArgument, "max-parts must not be negative"))?.min(1_000);
        let after = u32::try_from(input.part_number_marker.unwrap_or(0));
        let after = after.map_err(|_| s3_error!(InvalidArgument, "part-number-marker must not be negative"))?;
        let mut parts = self.state.parts(&upload.id, after, most + 1).map_err(state_failed)?;
        let truncated = parts.len() > most;
        parts.truncate(most);
        let algorithm = upload.checksum_algorithm.as_deref().and_then(Algorithm::parse);
        let listed = |part: &Part| {
            let mut listed = ListedPart {
                e_tag: Some(ETag::Strong(hex(&part.md5))),
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
        let (owner, initiator) = self.persons(&*self.bucket(&upload.bucket)?, &upload)?;
        let output = ListPartsOutput {
            bucket: Some(upload.bucket.clone()),
            key: Some(upload.key.clone()),
            upload_id: Some(upload.id.clone()),
            checksum_algorithm: algorithm.map(|algorithm| ChecksumAlgorithm::from(algorithm.name().to_uppercase())),
            checksum_type: upload.checksum_type.clone().map(ChecksumType::from),
            initiator: Some(initiator),
            owner: Some(owner),
            is_truncated: Some(truncated),
            max_parts: Some(most as i32),
            part_number_marker: Some(after as i32),
            next_part_number_marker: Some(parts.last().map_or(after, |part| part.number) as i32),
            parts: Some(parts.iter().map(listed).collect()),
            storage_class: Some(StorageClass::from(upload.attributes.text(attribute::CLASS).unwrap_or(StorageClass::STANDARD).to_owned())),
            ..Default::default()
        };
        let mut response = S3Response::new(output);
        if let Some(algorithm) = algorithm {
            Named::say(algorithm, &mut response.extensions);
        }
        Ok(response)
    }

    pub(crate) fn list_uploads(&self, request: S3Request<ListMultipartUploadsInput>) -> S3Result<S3Response<ListMultipartUploadsOutput>> {
        let input = request.input;
        let bucket = self.bucket(&input.bucket)?;
        let encoding = Encoding::parse(input.encoding_type.as_ref())?;
        let most = crate::s3::list::limit_of(input.max_uploads)?.min(1_000);
        let prefix = input.prefix.clone().unwrap_or_default();
        let delimiter = input.delimiter.clone().filter(|delimiter| !delimiter.is_empty());
        let (key_marker, id_marker) = (input.key_marker.clone().unwrap_or_default(), input.upload_id_marker.clone().unwrap_or_default());
        let under_of = |key: &str| {
            let delimiter = delimiter.as_deref()?;
            let at = key.strip_prefix(prefix.as_str())?.find(delimiter)?;
            Some(key[..prefix.len() + at + delimiter.len()].to_owned())
        };
        let mut after = match (key_marker.as_str(), id_marker.as_str()) {
            ("", _) => (String::new(), String::new()),
            // The previous page ended with a common prefix.
            (key, "") if under_of(key).as_deref() == Some(key) => (behind(key), String::new()),
            // Without an upload ID, the page resumes after all uploads of the key.
            (key, "") => (key.to_owned(), "~".to_owned()),
            (key, id) => (key.to_owned(), id.to_owned()),
        };
        let (mut uploads, mut prefixes): (Vec<ListedUpload>, Vec<CommonPrefix>) = (Vec::new(), Vec::new());
        let mut last = None;
        let mut truncated = false;
        'pages: loop {
            let page = self.state.uploads(&bucket.name, &prefix, (&after.0, &after.1), 100).map_err(state_failed)?;
            let is_last = page.len() < 100;
            for upload in page {
                if uploads.len() + prefixes.len() >= most {
                    truncated = most > 0;
                    break 'pages;
                }
                if let Some(under) = under_of(&upload.key) {
                    after = (behind(&under), String::new());
                    last = Some((under.clone(), String::new()));
                    prefixes.push(CommonPrefix { prefix: Some(encoding.of(&under)) });
                    continue 'pages;
                }
                let (owner, initiator) = self.persons(&bucket, &upload)?;
                after = (upload.key.clone(), upload.id.clone());
                last = Some(after.clone());
                uploads.push(ListedUpload {
                    checksum_algorithm: upload.checksum_algorithm.as_deref().map(|name| ChecksumAlgorithm::from(name.to_uppercase())),
                    checksum_type: upload.checksum_type.clone().map(ChecksumType::from),
                    initiated: Some(timestamp(upload.created_ms)),
                    initiator: Some(initiator),
                    key: Some(encoding.of(&upload.key)),
                    owner: Some(owner),
                    storage_class: Some(StorageClass::from(
                        upload.attributes.text(attribute::CLASS).unwrap_or(StorageClass::STANDARD).to_owned(),
                    )),
                    upload_id: Some(upload.id),
                });
            }
            if is_last {
                break;
            }
        }
        let (next_key, next_id) = last.filter(|_| truncated).unzip();
        let output = ListMultipartUploadsOutput {
            bucket: Some(bucket.name.clone()),
            common_prefixes: Some(prefixes),
            delimiter: delimiter.map(|delimiter| encoding.of(&delimiter)),
            encoding_type: input.encoding_type,
            is_truncated: Some(truncated),
            key_marker: Some(encoding.of(&key_marker)),
            upload_id_marker: Some(id_marker),
            max_uploads: Some(most as i32),
            next_key_marker: next_key.map(|key| encoding.of(&key)),
            next_upload_id_marker: next_id,
            prefix: Some(encoding.of(&prefix)),
            uploads: Some(uploads),
            ..Default::default()
        };
        Ok(S3Response::new(output))
    }

    /// The owner of the future object, who is the owner of the bucket, and the uploader.
    fn persons(&self, bucket: &Bucket, upload: &MultipartUpload) -> S3Result<(Owner, Initiator)> {
        let id = |name: &str| self.state.account(name).map(|found| found.map(|account| account.id.clone())).map_err(state_failed);
        let owner = Owner { display_name: Some(bucket.owner.clone()), id: id(&bucket.owner)? };
        Ok((owner, Initiator { display_name: Some(upload.account.clone()), id: id(&upload.account)? }))
    }
}

/// The first string after all strings with this prefix: its last character is incremented.
fn behind(prefix: &str) -> String {
    let mut text = prefix.to_owned();
    while let Some(last) = text.pop() {
        // No character lies between D7FF and E000.
        let next = if last == '\u{d7ff}' { Some('\u{e000}') } else { char::from_u32(u32::from(last) + 1) };
        if let Some(next) = next {
            text.push(next);
            return text;
        }
    }
    // All characters are the last one, so any later string is longer and has this prefix.
    format!("{prefix}{}", "\u{10ffff}".repeat(1_024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_string_after_a_prefix_follows_all_strings_with_it() {
        for (prefix, next) in [("b/", "b0"), ("b\u{d7ff}", "b\u{e000}"), ("b\u{10ffff}", "c")] {
            assert_eq!(behind(prefix), next);
            assert!(behind(prefix) > format!("{prefix}\u{10ffff}\u{10ffff}"));
        }
        assert!(behind("\u{10ffff}") > "\u{10ffff}".repeat(256));
    }
}
