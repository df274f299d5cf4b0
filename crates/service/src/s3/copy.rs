//! Copies inside the archive: the content is read, checked and put anew, under a key of its own.

use std::ops::Range;

use fulgurite_archive::object::ObjectReader;
use s3s::dto::{
    CopyObjectInput, CopyObjectOutput, CopyObjectResult, CopyPartResult, CopySource, ETag, ETagCondition, MetadataDirective,
    TaggingDirective, UploadPartCopyInput, UploadPartCopyOutput,
};
use s3s::{S3Request, S3Response, S3Result, s3_error};
use tokio::sync::mpsc;

use crate::access::Caller;
use crate::checksums::{Algorithm, Claims, Sum, set_sum};
use crate::conditions::Conditions;
use crate::failures::failed;
use crate::gateway::Gateway;
use crate::receive::PUT_BYTES_MAX;
use crate::s3::locks::shown_id;
use crate::s3::multipart::number_of;
use crate::s3::put::{Described, check_key, put_sum, refuse_acl, refuse_customer_keys};
use crate::state::hex;
use crate::tags;
use crate::version::{Version, attribute, timestamp};

/// What is copied from.
struct Source {
    version: Version,
    /// Its version, where its bucket keeps them.
    id: Option<String>,
    bucket: String,
    key: String,
    /// Whether the version was named.
    named: bool,
}

impl Gateway {
    fn source(&self, caller: Option<&Caller>, source: &CopySource, conditions: &Conditions) -> S3Result<Source> {
        let CopySource::Bucket { bucket, key, version_id } = source else {
            return Err(s3_error!(NotImplemented, "Copies are from buckets of this archive."));
        };
        if key.is_empty() {
            return Err(s3_error!(InvalidArgument, "Copy Source must mention the source bucket and key: sourcebucket/sourcekey"));
        }
        let from = self.bucket(bucket)?;
        self.may_read(caller, &from, key, version_id.is_some())?;
        let version = self.find(bucket, key, version_id.as_deref()).map_err(|error| match error.code() {
            s3s::S3ErrorCode::MethodNotAllowed => {
                s3_error!(InvalidRequest, "The source of a copy request may not specifically refer to a delete marker by version id.")
            }
            _ => error,
        })?;
        conditions.check_source(&version)?;
        self.readable(&version)?;
        Ok(Source { id: shown_id(&from, &version), version, bucket: bucket.to_string(), key: key.to_string(), named: version_id.is_some() })
    }

    /// The content of a version, in pieces.
    fn read_for_copy(&self, version: Version, range: Range<u64>) -> (mpsc::Receiver<Vec<u8>>, tokio::task::JoinHandle<S3Result<()>>) {
        let (pieces_in, pieces) = mpsc::channel::<Vec<u8>>(16);
        let archive = self.archive.clone();
        let reading = tokio::task::spawn_blocking(move || {
            let whole = range == (0..version.size());
            let mut reader = ObjectReader::new(&archive);
            let mut sink = |bytes: &[u8]| pieces_in.blocking_send(bytes.to_vec()).map_err(|_| std::io::ErrorKind::BrokenPipe.into());
            let result = if whole { reader.read(&version.row, &mut sink) } else { reader.read_range(&version.row, range, &mut sink) };
            result.map_err(|error| failed("reading what is copied", &error))
        });
        (pieces, reading)
    }

    pub(crate) async fn copy(&self, request: S3Request<CopyObjectInput>) -> S3Result<S3Response<CopyObjectOutput>> {
        let caller = request.extensions.get::<Caller>().cloned();
        let input = request.input;
        check_key(&input.key)?;
        let bucket = self.bucket(&input.bucket)?;
        refuse_customer_keys(input.sse_customer_algorithm.is_some() || input.copy_source_sse_customer_algorithm.is_some())?;
        refuse_acl(input.acl.as_ref().map(|acl| acl.as_str()))?;
        let conditions = Conditions {
            matches: input.copy_source_if_match.clone(),
            none_match: input.copy_source_if_none_match.clone(),
            modified_since: input.copy_source_if_modified_since.clone(),
            unmodified_since: input.copy_source_if_unmodified_since.clone(),
        };
        let source = self.source(caller.as_ref(), &input.copy_source, &conditions)?;
        // The framework doesn't know these of copies yet.
        let condition = |name| {
            let value = request.headers.get(name)?;
            Some(
                ETagCondition::parse_http_header(value.as_bytes()).map_err(|_| s3_error!(InvalidArgument, "The header {name} is no ETag.")),
            )
        };
        let (matches, none_match) = (condition("if-match").transpose()?, condition("if-none-match").transpose()?);
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
                expires: input.expires.as_ref(),
                metadata: input.metadata.as_ref(),
                ..Described::default()
            };
            headers.put_headers(&mut attributes)?;
        } else {
            let kept = ["content-type", "cache-control", "content-disposition", "content-encoding", "content-language", attribute::EXPIRES];
            for (name, value) in &source.version.attributes().0 {
                if kept.contains(&name.as_str()) || name.starts_with(attribute::META) {
                    attributes.set(name.as_str(), value.as_slice());
                }
            }
        }
        let asked = input.checksum_algorithm.as_ref().and_then(|algorithm| Algorithm::parse(algorithm.as_str()));
        let algorithm = asked.or_else(|| source.version.sums().first().map(|sum| sum.algorithm)).unwrap_or(Algorithm::Crc64Nvme);
        let mut summing = Claims::default().begin(Some(algorithm));
        let size = source.version.size();
        let mut upload = self.intake.upload();
        let (mut pieces, reading) = self.read_for_copy(source.version.clone(), 0..size);
        while let Some(piece) = pieces.recv().await {
            summing.update(&piece);
            self.write(&mut upload, &piece, size).await;
        }
        reading.await.map_err(|error| failed("reading what is copied", &error))??;
        let summed = summing.end(None)?;
        put_sum(summed.sum.as_ref(), &mut attributes);
        attributes.set(attribute::ETAG, hex(&summed.md5));
        let modified = timestamp(upload.created_ms() as i64);
        let stored = self.store(&bucket, &input.key, upload, attributes, (matches.as_ref(), none_match.as_ref())).await?;
        let mut result = CopyObjectResult { e_tag: Some(stored.etag), last_modified: Some(modified), ..Default::default() };
        if let Some(Sum { algorithm, value }) = summed.sum {
            set_sum!(result, algorithm, value);
        }
        let output = CopyObjectOutput {
            copy_object_result: Some(result),
            copy_source_version_id: source.id,
            version_id: stored.version_id,
            ..Default::default()
        };
        Ok(S3Response::new(output))
    }

    pub(crate) async fn copy_part(&self, request: S3Request<UploadPartCopyInput>) -> S3Result<S3Response<UploadPartCopyOutput>> {
        let caller = request.extensions.get::<Caller>().cloned();
        let input = request.input;
        let upload = self.upload_of(&input.bucket, &input.key, &input.upload_id)?;
        let number = number_of(input.part_number)?;
        let conditions = Conditions {
            matches: input.copy_source_if_match.clone(),
            none_match: input.copy_source_if_none_match.clone(),
            modified_since: input.copy_source_if_modified_since.clone(),
            unmodified_since: input.copy_source_if_unmodified_since.clone(),
        };
        let source = self.source(caller.as_ref(), &input.copy_source, &conditions)?;
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
        let mut summing = Claims::default().begin(Some(algorithm));
        let mut writer = self.parts.begin().map_err(|error| failed("beginning a part", &error))?;
        let (mut pieces, reading) = self.read_for_copy(source.version.clone(), range);
        while let Some(piece) = pieces.recv().await {
            summing.update(&piece);
            writer.write(&piece).await.map_err(|error| failed("writing a part", &error))?;
        }
        reading.await.map_err(|error| failed("reading what is copied", &error))??;
        let part = self.keep_part(&upload, number, writer, summing.end(None)?).await?;
        let result = CopyPartResult {
            e_tag: Some(ETag::Strong(hex(&part.md5))),
            last_modified: Some(timestamp(part.modified_ms)),
            ..Default::default()
        };
        let output = UploadPartCopyOutput { copy_part_result: Some(result), copy_source_version_id: source.id, ..Default::default() };
        Ok(S3Response::new(output))
    }
}

/// Whether a directive says REPLACE.
fn directive(text: Option<&str>) -> S3Result<bool> {
    match text {
        None | Some("COPY") => Ok(false),
        Some("REPLACE") => Ok(true),
        Some(_) => Err(s3_error!(InvalidArgument, "Unknown metadata directive.")),
    }
}

pub(crate) fn parse_range(text: &str) -> Option<Range<u64>> {
    let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    // A number may have a sign, which a range has not.
    let number = |text: &str| text.parse::<u64>().ok().filter(|_| !text.starts_with('+'));
    let (first, last) = (number(first)?, number(last)?);
    if first <= last { Some(first..last.checked_add(1)?) } else { None }
}
