//! Copies inside the archive: the content is read, verified and put again, under a new key.

use std::ops::Range;

use bytes::Bytes;
use fulgurite_archive::object::{ObjectReader, Opened, ReadError};
use http::HeaderMap;
use s3s::dto::{
    ChecksumType, CopyObjectInput, CopyObjectOutput, CopyObjectResult, CopyPartResult, CopySource, ETag, MetadataDirective,
    TaggingDirective, UploadPartCopyInput, UploadPartCopyOutput,
};
use s3s::{S3Request, S3Response, S3Result, s3_error};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::auth::access::{EXPECTED_SOURCE_OWNER, check_owner};
use crate::auth::caller::Caller;
use crate::gateway::Gateway;
use crate::memory::Holder;
use crate::s3::conditions::{Conditions, ETags};
use crate::s3::encryption::{CustomerKey, asked, customer_key};
use crate::s3::errors::{failed, not_read};
use crate::s3::multipart::number_of;
use crate::s3::normalize::original;
use crate::s3::object_lock::shown_id;
use crate::s3::put::{Described, check_key, put_sum, refuse_acl};
use crate::s3::tags;
use crate::s3::version::{Version, attribute, timestamp};
use crate::state::hex;
use crate::transfer::checksums::{Algorithm, Claims, Named, Sum, Trailing, set_sum, unsupported};
use crate::transfer::upload::PUT_BYTES_MAX;

/// The customer key of the source.
macro_rules! source_key {
    ($input:expr) => {
        CustomerKey {
            algorithm: $input.copy_source_sse_customer_algorithm.as_deref(),
            key: $input.copy_source_sse_customer_key.as_deref(),
            md5: $input.copy_source_sse_customer_key_md5.as_deref(),
        }
    };
}

/// Maximum number of lookups of a source that is being replaced before it is opened.
const ATTEMPTS: u32 = 8;

/// The source of a copy.
struct Source {
    version: Version,
    /// Kept open, so that the source can be read to its end even if it is replaced meanwhile;
    /// `None` without content.
    opened: Option<Opened>,
    /// The version ID of the source, if its bucket is versioned.
    id: Option<String>,
    bucket: String,
    key: String,
    /// Whether the request named the version.
    named: bool,
}

impl Gateway {
    fn source(&self, caller: Option<&Caller>, source: &CopySource, headers: &HeaderMap, conditions: &Conditions) -> S3Result<Source> {
        let CopySource::Bucket { bucket, key, version_id } = source else {
            return Err(s3_error!(NotImplemented, "The source of a copy must be in a bucket of this archive."));
        };
        if key.is_empty() {
            return Err(s3_error!(InvalidArgument, "Copy Source must mention the source bucket and key: sourcebucket/sourcekey"));
        }
        let from = self.bucket(bucket)?;
        check_owner(&self.state, &from, headers, EXPECTED_SOURCE_OWNER)?;
        self.may_read(caller, &from, key, version_id.as_deref())?;
        let find = || {
            let version = self.find(bucket, key, version_id.as_deref()).map_err(|error| match error.code() {
                s3s::S3ErrorCode::MethodNotAllowed => {
                    s3_error!(InvalidRequest, "The source of a copy request may not specifically refer to a delete marker by version id.")
                }
                _ => error,
            })?;
            conditions.check_source(&version)?;
            self.readable(&version)?;
            Ok(version)
        };
        let (version, opened) = self.hold(find)?;
        Ok(Source {
            id: shown_id(&from, &version),
            version,
            opened,
            bucket: bucket.to_string(),
            key: key.to_string(),
            named: version_id.is_some(),
        })
    }

    /// Opens the version that `find` returns; looks it up again if it was replaced in between.
    fn hold(&self, mut find: impl FnMut() -> S3Result<Version>) -> S3Result<(Version, Option<Opened>)> {
        let mut attempts = 0;
        loop {
            let version = find()?;
            if version.size() == 0 {
                return Ok((version, None));
            }
            match ObjectReader::new(&self.archive).open(&version.row) {
                Ok(opened) => return Ok((version, Some(opened))),
                Err(_) if attempts < ATTEMPTS && self.is_gone(&version)? => attempts += 1,
                Err(error) => return Err(not_read("reading the source of a copy", &error)),
            }
        }
    }

    /// The content of a source, in pieces.
    fn read_for_copy(&self, source: &mut Source, range: Range<u64>) -> (mpsc::Receiver<Bytes>, JoinHandle<Result<(), ReadError>>) {
        let (pieces_in, pieces) = mpsc::channel::<Bytes>(16);
        let archive = self.archive.clone();
        let is_whole = range == (0..source.version.size());
        let opened = source.opened.take();
        let reading = tokio::task::spawn_blocking(move || {
            let Some(opened) = opened else { return Ok(()) };
            let mut reader = ObjectReader::new(&archive);
            let mut sink =
                |bytes: &[u8]| pieces_in.blocking_send(Bytes::copy_from_slice(bytes)).map_err(|_| std::io::ErrorKind::BrokenPipe.into());
            if is_whole {
                return reader.read_whole(&opened, &mut sink);
            }
            reader.read_opened(&opened, range, &mut |buffer, pieces| pieces.iter().try_for_each(|piece| sink(&buffer[piece.clone()])))
        });
        (pieces, reading)
    }

    /// Checks that the whole source was read.
    async fn end_of_copy(&self, source: &Source, reading: JoinHandle<Result<(), ReadError>>) -> S3Result<()> {
        match reading.await.map_err(|error| failed("reading the source of a copy", &error))? {
            Ok(()) => Ok(()),
            // A very long staged source can't be kept open in full.
            Err(_) if self.is_gone(&source.version)? => {
                Err(s3_error!(OperationAborted, "The source of the copy was removed or replaced while it was read. Try again."))
            }
            Err(error) => Err(not_read("reading the source of a copy", &error)),
        }
    }

    pub(crate) async fn copy(&self, request: S3Request<CopyObjectInput>) -> S3Result<S3Response<CopyObjectOutput>> {
        let caller = request.extensions.get::<Caller>().cloned();
        let input = request.input;
        check_key(&input.key)?;
        let bucket = self.bucket(&input.bucket)?;
        let encryption = self.encryption(&asked!(input))?;
        source_key!(input).refuse_to_read()?;
        refuse_acl(input.acl.as_ref().map(|acl| acl.as_str()))?;
        let original = original(&request.headers, &request.extensions);
        let conditions = Conditions {
            matches: ETags::of(original, "x-amz-copy-source-if-match"),
            none_match: ETags::of(original, "x-amz-copy-source-if-none-match"),
            modified_since: input.copy_source_if_modified_since.clone(),
            unmodified_since: input.copy_source_if_unmodified_since.clone(),
        };
        let mut source = self.source(caller.as_ref(), &input.copy_source, &request.headers, &conditions)?;
        let (matches, none_match) = (ETags::of(original, "if-match"), ETags::of(original, "if-none-match"));
        let replaces = directive(input.metadata_directive.as_ref().map(MetadataDirective::as_str))?;
        let replaces_tags = directive(input.tagging_directive.as_ref().map(TaggingDirective::as_str))?;
        let is_itself = source.bucket == bucket.name && source.key == input.key && !source.named;
        if is_itself && !replaces && input.storage_class.is_none() && input.website_redirect_location.is_none() {
            return Err(s3_error!(
                InvalidRequest,
                "This copy request is illegal because it is trying to copy an object to itself without changing the object's metadata, storage class, website redirect location or encryption attributes."
            ));
        }
        if source.version.size() > PUT_BYTES_MAX {
            return Err(s3_error!(
                InvalidRequest,
                "The specified copy source is larger than the maximum allowable size for a copy source: {PUT_BYTES_MAX}"
            ));
        }
        self.check_room(source.version.size())?;
        let kept_tags = tags::encode(&self.tags_of(&source.version)?);
        if !replaces_tags && !kept_tags.is_empty() {
            // The copy takes tags along, so it needs the rights to read and put them.
            let read = if source.named { "s3:GetObjectVersionTagging" } else { "s3:GetObjectTagging" };
            let from = self.bucket(&source.bucket)?;
            self.may(&from, caller.as_ref(), read, Some(&source.key), source.id.as_deref().filter(|_| source.named))?;
            self.may_copy_tags(&bucket, caller.as_ref(), &request.headers, &input.key)?;
        }
        let described = Described {
            tagging: if replaces_tags { input.tagging.as_deref() } else { Some(kept_tags.as_str()) },
            storage_class: input.storage_class.as_ref(),
            lock_mode: input.object_lock_mode.as_ref(),
            lock_until: input.object_lock_retain_until_date.as_ref(),
            legal_hold: input.object_lock_legal_hold_status.as_ref(),
            website_redirect_location: input.website_redirect_location.as_deref(),
            ..Described::default()
        };
        let mut attributes = described.attributes(&bucket)?;
        if replaces {
            let headers = Described {
                content_type: input.content_type.as_deref(),
                cache_control: input.cache_control.as_deref(),
                content_disposition: input.content_disposition.as_deref(),
                content_encoding: input.content_encoding.as_deref(),
                content_language: input.content_language.as_deref(),
                expires: original.get(http::header::EXPIRES),
                metadata: input.metadata.as_ref(),
                ..Described::default()
            };
            headers.put_headers(&mut attributes)?;
        } else {
            let kept = [
                "content-type",
                "cache-control",
                "content-disposition",
                "content-encoding",
                "content-language",
                attribute::EXPIRES,
                attribute::EXPIRES_SECONDS,
            ];
            for (name, value) in &source.version.attributes().0 {
                if kept.contains(&name.as_str()) || name.starts_with(attribute::META) || name == attribute::MORE_META {
                    attributes.set(name.as_str(), value.as_slice());
                }
            }
        }
        let asked = match &input.checksum_algorithm {
            None => None,
            Some(named) => Some(Algorithm::parse(named.as_str()).ok_or_else(unsupported)?),
        };
        let algorithm = asked.or_else(|| source.version.sums().first().map(|sum| sum.algorithm)).unwrap_or(Algorithm::Crc64Nvme);
        let mut summing = self.summing(Claims::default(), algorithm);
        let size = source.version.size();
        let mut upload = self.receiving(Holder::own());
        let _turn = self.rereads.acquire().await.expect("it is never closed");
        let (mut pieces, reading) = self.read_for_copy(&mut source, 0..size);
        while let Some(piece) = pieces.recv().await {
            summing.update(&piece).await;
            self.write(&mut upload, &piece, size).await;
        }
        self.end_of_copy(&source, reading).await?;
        let summed = summing.end(&Trailing::default()).await?;
        put_sum(summed.sum.as_ref(), &mut attributes);
        attributes.set(attribute::ETAG, hex(&summed.md5));
        let modified = timestamp(upload.created_ms() as i64);
        let stored = self.store(&bucket, &input.key, upload.upload(), attributes, (matches.as_ref(), none_match.as_ref())).await?;
        let mut extensions = http::Extensions::new();
        let kind = ChecksumType::from_static(ChecksumType::FULL_OBJECT);
        let mut result =
            CopyObjectResult { e_tag: Some(stored.etag), last_modified: Some(modified), checksum_type: Some(kind), ..Default::default() };
        if let Some(Sum { algorithm, value }) = summed.sum {
            set_sum!(result, algorithm, value);
            Named::say(algorithm, &mut extensions);
        }
        let output = CopyObjectOutput {
            copy_object_result: Some(result),
            copy_source_version_id: source.id,
            server_side_encryption: encryption,
            version_id: stored.version_id,
            ..Default::default()
        };
        Ok(S3Response { extensions, ..S3Response::new(output) })
    }

    pub(crate) async fn copy_part(&self, request: S3Request<UploadPartCopyInput>) -> S3Result<S3Response<UploadPartCopyOutput>> {
        let caller = request.extensions.get::<Caller>().cloned();
        let input = request.input;
        let upload = self.upload_of(&input.bucket, &input.key, &input.upload_id)?;
        let number = number_of(input.part_number)?;
        customer_key!(input).refuse()?;
        source_key!(input).refuse_to_read()?;
        let original = original(&request.headers, &request.extensions);
        let conditions = Conditions {
            matches: ETags::of(original, "x-amz-copy-source-if-match"),
            none_match: ETags::of(original, "x-amz-copy-source-if-none-match"),
            modified_since: input.copy_source_if_modified_since.clone(),
            unmodified_since: input.copy_source_if_unmodified_since.clone(),
        };
        let mut source = self.source(caller.as_ref(), &input.copy_source, &request.headers, &conditions)?;
        let size = source.version.size();
        let range = match &input.copy_source_range {
            None => 0..size,
            Some(text) => {
                let range = parse_range(text).ok_or_else(|| {
                    s3_error!(InvalidArgument, "The x-amz-copy-source-range value must be of the form bytes=first-last where first and last are the zero-based offsets of the first and last bytes to copy")
                })?;
                if range.end > size {
                    return Err(s3_error!(InvalidArgument, "Range specified is not valid for source object of size: {size}"));
                }
                range
            }
        };
        if range.end - range.start > PUT_BYTES_MAX {
            return Err(s3_error!(
                InvalidRequest,
                "The specified copy source is larger than the maximum allowable size for a copy source: {PUT_BYTES_MAX}"
            ));
        }
        let algorithm = upload.checksum_algorithm.as_deref().and_then(Algorithm::parse).unwrap_or(Algorithm::Crc64Nvme);
        let mut summing = self.summing(Claims::default(), algorithm);
        let mut writer = self.parts.begin(range.end - range.start, &Holder::own()).map_err(|error| failed("beginning a part", &error))?;
        let _turn = self.rereads.acquire().await.expect("it is never closed");
        let (mut pieces, reading) = self.read_for_copy(&mut source, range);
        while let Some(piece) = pieces.recv().await {
            summing.update(&piece).await;
            writer.write(&piece).await.map_err(|error| failed("writing a part", &error))?;
        }
        self.end_of_copy(&source, reading).await?;
        let summed = summing.end(&Trailing::default()).await?;
        let part = self.keep_part(&upload, number, writer, summed.clone()).await?;
        let mut extensions = http::Extensions::new();
        let mut result = CopyPartResult {
            e_tag: Some(ETag::Strong(hex(&part.md5))),
            last_modified: Some(timestamp(part.modified_ms)),
            ..Default::default()
        };
        if let Some(Sum { algorithm, value }) = summed.sum {
            set_sum!(result, algorithm, value);
            Named::say(algorithm, &mut extensions);
        }
        let output = UploadPartCopyOutput {
            copy_part_result: Some(result),
            copy_source_version_id: source.id,
            server_side_encryption: self.new_encryption(),
            ..Default::default()
        };
        Ok(S3Response { extensions, ..S3Response::new(output) })
    }
}

/// Whether a directive is `REPLACE`.
fn directive(text: Option<&str>) -> S3Result<bool> {
    match text {
        None | Some("COPY") => Ok(false),
        Some("REPLACE") => Ok(true),
        Some(_) => Err(s3_error!(InvalidArgument, "Unknown metadata directive.")),
    }
}

pub(crate) fn parse_range(text: &str) -> Option<Range<u64>> {
    let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    // `parse` accepts a sign, which ranges don't have.
    let number = |text: &str| text.parse::<u64>().ok().filter(|_| !text.starts_with('+'));
    let (first, last) = (number(first)?, number(last)?);
    if first <= last { Some(first..last.checked_add(1)?) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{Sample, soon};

    async fn content(sample: &Sample, mut source: Source) -> Vec<u8> {
        let size = source.version.size();
        let (mut pieces, reading) = sample.gateway.read_for_copy(&mut source, 0..size);
        let mut content = Vec::new();
        while let Some(piece) = pieces.recv().await {
            content.extend_from_slice(&piece);
        }
        sample.gateway.end_of_copy(&source, reading).await.expect("all of it");
        content
    }

    fn source((version, opened): (Version, Option<Opened>)) -> Source {
        Source { version, opened, id: None, bucket: "photos".into(), key: "moon".into(), named: false }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_source_replaced_during_the_read_is_read_to_its_end() {
        let sample = Sample::new();
        let before = vec![1; 3 << 20];
        sample.put("moon", &before).await;
        let find = || sample.gateway.find("photos", "moon", None);
        let held = source(sample.gateway.hold(find).expect("held"));
        sample.put("moon", b"another").await;
        sample.gateway.archive.sweep().expect("the key is destroyed");
        assert!(soon(content(&sample, held)).await == before);
        assert_eq!(soon(content(&sample, source(sample.gateway.hold(find).expect("held")))).await, b"another");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_source_replaced_before_the_read_is_looked_up_again() {
        let sample = Sample::new();
        sample.put("moon", b"first").await;
        let stale = sample.gateway.find("photos", "moon", None).expect("found");
        sample.put("moon", b"second").await;
        sample.gateway.archive.sweep().expect("the key is destroyed");
        let mut found = [stale.clone(), stale.clone()].into_iter();
        let held = sample.gateway.hold(|| found.next().map_or_else(|| sample.gateway.find("photos", "moon", None), Ok));
        assert_eq!(soon(content(&sample, source(held.expect("held")))).await, b"second");
        // A source that exists and can't be read is an error, and isn't retried forever.
        sample.gateway.archive.keys().destroy(&[sample.gateway.find("photos", "moon", None).expect("found").row.id]).expect("destroyed");
        let lost = sample.gateway.hold(|| sample.gateway.find("photos", "moon", None));
        assert_eq!(lost.err().expect("it can't be opened").code().as_str(), "InternalError");
    }
}
