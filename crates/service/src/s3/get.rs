//! Reads objects and their properties.

use std::io;
use std::ops::Range;

use bytes::Bytes;
use fulgurite_archive::object::{ObjectReader, ReadError};
use futures_util::{StreamExt, stream};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use s3s::dto::{self, GetObjectAttributesParts, ObjectAttributes, ObjectPart, StorageClass, StreamingBlob};
use s3s::xml::SerializeContent;
use s3s::{S3Error, S3Request, S3Response, S3Result, s3_error};

use crate::auth::caller::Caller;
use crate::gateway::Gateway;
use crate::memory::MemoryOwner;
use crate::s3::Answer;
use crate::s3::conditions::{ReadConditions, range_holds};
use crate::s3::encryption::{customer_key, encryption_header, refuse_headers_of_writes};
use crate::s3::errors::answers::{StatusOverride, write_xml};
use crate::s3::errors::{catalogue_failed, custom, detailed, read_failed, state_failed, wrong_part_number};
use crate::s3::fixity;
use crate::s3::multipart::PARTS_MAX;
use crate::s3::namespace::Namespace;
use crate::s3::new_object::same_fields;
use crate::s3::normalize::{WantedExpires, original};
use crate::s3::version::{Version, http_date, shown_id, timestamp};
use crate::state::{Bucket, Restore};
use crate::transfer::checksums::{ChecksumElement, Sum, set_sum};
use crate::transfer::download;

/// Objects and ranges up to this size are read at once, on the thread of the request.
const BUFFERED_READ_BYTES_MAX: u64 = 256 << 10;
/// Maximum number of further lookups of an object that is replaced while it is read.
const RETRIES_MAX: u32 = 8;

/// The content that a request gets.
struct Selection {
    version: Version,
    range: Range<u64>,
    /// Whether the request asked for a range or a part.
    is_part: bool,
}

impl Gateway {
    pub(crate) async fn get(&self, request: S3Request<dto::GetObjectInput>) -> Answer<dto::GetObjectOutput> {
        if fixity::is_asked(&request.uri) {
            return self.fixity(&request);
        }
        let bucket = self.namespace.granted(&request.extensions, &request.input.bucket)?;
        check_encryption(&request)?;
        let mut attempts = 0;
        let (selection, restore, body) = loop {
            let found = self.namespace.requested(&bucket, &request);
            // After the lookup: it is by name, and another bucket may have the name now.
            if attempts == 0 {
                bucket.current(&self.namespace)?
            } else {
                bucket.current_for_successor(&self.namespace)?
            };
            let version = found?;
            let restore = self.namespace.readable(&version)?;
            let selection = select(version, &request)?;
            match self.stream(selection.version.clone(), selection.range.clone()).await {
                Ok(body) => break (selection, restore, body),
                // The version was replaced between the lookup and the read: read its successor.
                Err(_) if attempts < RETRIES_MAX && self.namespace.is_gone(&selection.version)? => attempts += 1,
                Err(error) => return Err(read_failed("reading an object", &error)),
            }
        };
        let response = self.namespace.headers_of(&bucket, &request, &selection, restore.as_ref())?;
        let with_body = |head: dto::HeadObjectOutput| dto::GetObjectOutput {
            body: Some(body),
            ..same_fields!(head => GetObjectOutput:
                accept_ranges cache_control checksum_type content_disposition content_encoding content_language content_length
                content_range content_type e_tag last_modified metadata object_lock_legal_hold_status object_lock_mode
                object_lock_retain_until_date parts_count restore server_side_encryption storage_class version_id
                website_redirect_location)
        };
        Ok(response.map_output(with_body))
    }

    /// A range of a version's content, as a stream.
    async fn stream(&self, version: Version, range: Range<u64>) -> Result<StreamingBlob, ReadError> {
        let length = range.end - range.start;
        if length == 0 {
            return Ok(download::blob(stream::empty(), 0));
        }
        // When too many responses wait for slow clients, the object is streamed in pieces like a
        // large one.
        if length <= BUFFERED_READ_BYTES_MAX
            && let Some(reservation) = self.buffered_responses.try_reserve(&MemoryOwner::own(), length as usize)
        {
            let mut reader = ObjectReader::new(&self.archive).sharing_platters();
            let opened = reader.open(&version.row)?;
            // Content that is in memory is read at once: switching threads takes longer than
            // reading it. Staged content most likely is. A platter may be slow.
            let is_in_memory = !version.row.archived || reader.fetch_cached(&opened, &range);
            let read = move || {
                let mut content = Vec::new();
                let result = reader.read_opened(&opened, range, &mut |buffer, pieces| {
                    let buffer = Bytes::from(std::mem::take(buffer));
                    content.extend(pieces.iter().map(|piece| Ok(buffer.slice(piece.clone()))));
                    Ok(())
                });
                result.map(|()| content)
            };
            let content = if is_in_memory { read() } else { tokio::task::block_in_place(read) }?;
            // The reservation is released with the last piece.
            let pieces = stream::iter(content).map(move |piece| {
                let _ = &reservation;
                piece
            });
            return Ok(download::blob(pieces, length));
        }
        // An opened object can be read to its end, even if it is removed meanwhile, unless it is
        // staged in very many segments.
        let opened = ObjectReader::new(&self.archive).open(&version.row)?;
        let mut rest = download::stream(&self.transfers, opened, range).boxed();
        if !version.row.archived {
            return Ok(download::blob(rest, length));
        }
        // Platters may be out of reach. Once the response has begun, an error can no longer be
        // reported.
        let first = match rest.next().await {
            Some(Err(error)) => {
                return Err(error.downcast::<ReadError>().map_or_else(|error| ReadError::Sink(io::Error::other(error)), |error| *error));
            }
            first => first,
        };
        Ok(download::blob(stream::iter(first).chain(rest), length))
    }
}

impl Namespace {
    pub(crate) fn head(&self, request: S3Request<dto::HeadObjectInput>) -> Answer<dto::HeadObjectOutput> {
        let as_get = |head: dto::HeadObjectInput| {
            same_fields!(head => GetObjectInput:
                bucket checksum_mode if_modified_since if_unmodified_since key part_number range response_cache_control
                response_content_disposition response_content_encoding response_content_language response_content_type response_expires
                sse_customer_algorithm sse_customer_key sse_customer_key_md5 version_id)
        };
        let request = request.map_input(as_get);
        let bucket = self.bucket(&request.input.bucket)?;
        check_encryption(&request)?;
        let selection = select(self.requested(&bucket, &request)?, &request)?;
        let restore = self.state.restore(selection.version.row.id).map_err(state_failed)?.filter(|_| selection.version.is_cold());
        let mut response = self.headers_of(&bucket, &request, &selection, restore.as_ref())?;
        // The framework does this only for GET.
        let (input, output) = (request.input, &mut response.output);
        for (header, requested) in [
            (&mut output.cache_control, input.response_cache_control),
            (&mut output.content_disposition, input.response_content_disposition),
            (&mut output.content_encoding, input.response_content_encoding),
            (&mut output.content_language, input.response_content_language),
            (&mut output.content_type, input.response_content_type),
        ] {
            *header = requested.or(header.take());
        }
        output.expires = input.response_expires;
        if let Some(status) = response.status {
            response.extensions.insert(StatusOverride(status));
        }
        Ok(response)
    }

    /// The version that a request names, if its conditions hold.
    fn requested(&self, bucket: &Bucket, request: &S3Request<dto::GetObjectInput>) -> S3Result<Version> {
        let S3Request { input, headers, extensions, .. } = request;
        let found = self.find(&bucket.name, &input.key, input.version_id.as_deref());
        let version = found.map_err(|error| self.hide_missing(extensions.get::<Caller>(), bucket, error))?;
        let (modified_since, unmodified_since) = (input.if_modified_since.clone(), input.if_unmodified_since.clone());
        ReadConditions::of(original(headers, extensions), "", modified_since, unmodified_since).check(&version)?;
        Ok(version)
    }

    /// Status and headers of the response.
    fn headers_of(
        &self,
        bucket: &Bucket,
        request: &S3Request<dto::GetObjectInput>,
        selection: &Selection,
        restore: Option<&Restore>,
    ) -> Answer<dto::HeadObjectOutput> {
        let Selection { version, range, is_part } = selection;
        let input = &request.input;
        let asks_sums = input.checksum_mode.as_ref().is_some_and(|mode| mode.as_str() == "ENABLED");
        let sums = if asks_sums { sums_of(version, !is_part, input.part_number) } else { Vec::new() };
        let mut output = dto::HeadObjectOutput {
            accept_ranges: Some("bytes".into()),
            content_length: Some((range.end - range.start) as i64),
            content_range: is_part.then(|| format!("bytes {}-{}/{}", range.start, range.end.saturating_sub(1), version.size())),
            cache_control: version.text("cache-control"),
            content_disposition: version.text("content-disposition"),
            content_encoding: version.text("content-encoding"),
            content_language: version.text("content-language"),
            content_type: Some(version.text("content-type").unwrap_or_else(|| "binary/octet-stream".to_owned())),
            checksum_type: (!sums.is_empty()).then(|| version.checksum_type()),
            e_tag: Some(version.etag()),
            last_modified: Some(version.modified()),
            metadata: version.metadata(),
            parts_count: input.part_number.and(version.parts()).map(|parts| parts.len() as i32),
            server_side_encryption: encryption_header(version.row.sealed),
            storage_class: version.class_header(),
            restore: restore.map(restore_header),
            version_id: shown_id(bucket, version),
            website_redirect_location: version.text("website-redirect-location"),
            ..Default::default()
        };
        if bucket.object_lock {
            let lock = self.lock_of(&version.row)?;
            output.object_lock_mode = lock.retention.map(|retention| retention.mode.name().to_owned().into());
            output.object_lock_retain_until_date = lock.retention.map(|retention| timestamp(retention.until_ms));
            output.object_lock_legal_hold_status = lock.legal_hold.then(|| "ON".to_owned().into());
        }
        let mut response = S3Response::with_status(output, if *is_part { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK });
        sums.iter().for_each(|sum| sum.put(&mut response.headers));
        let wanted = request.extensions.get::<WantedExpires>().map(|WantedExpires(value)| value.clone());
        if let Some(expires) = wanted.or_else(|| version.expires().filter(|_| input.response_expires.is_none())) {
            response.headers.insert(header::EXPIRES, expires);
        }
        let tags = self.tags_of(version)?.len();
        if tags > 0 {
            response.headers.insert("x-amz-tagging-count", tags.into());
        }
        Ok(response)
    }

    pub(crate) fn attributes(&self, request: S3Request<dto::GetObjectAttributesInput>) -> Answer<dto::GetObjectAttributesOutput> {
        let input = request.input;
        let bucket = self.bucket(&input.bucket)?;
        customer_key!(input).refuse_to_read()?;
        let version = self.find(&bucket.name, &input.key, input.version_id.as_deref())?;
        let wanted = wanted_attributes(&input.object_attributes)?;
        let wants = |name: &str| wanted.contains(&name);
        let mut checksum = s3s::dto::Checksum::default();
        for Sum { algorithm, value } in version.sums() {
            checksum.checksum_type = Some(version.checksum_type());
            set_sum!(checksum, algorithm, value);
        }
        let parts = version.parts().filter(|_| wants(ObjectAttributes::OBJECT_PARTS)).map(|sizes| {
            let after = input.part_number_marker.unwrap_or(0).max(0) as usize;
            let parts_max = input.max_parts.unwrap_or(1_000).clamp(0, 1_000) as usize;
            let listed: Vec<ObjectPart> =
                (1..).zip(&sizes).skip(after).take(parts_max).map(|(number, size)| part_of(&version, number, *size)).collect();
            GetObjectAttributesParts {
                is_truncated: Some(after + listed.len() < sizes.len()),
                max_parts: Some(parts_max as i32),
                part_number_marker: Some(after as i32),
                next_part_number_marker: Some((after + listed.len()) as i32),
                total_parts_count: Some(sizes.len() as i32),
                parts: Some(listed),
            }
        });
        let output = dto::GetObjectAttributesOutput {
            checksum: (wants(ObjectAttributes::CHECKSUM) && checksum.checksum_type.is_some()).then_some(checksum),
            last_modified: Some(version.modified()),
            object_parts: parts,
            object_size: wants(ObjectAttributes::OBJECT_SIZE).then_some(version.size() as i64),
            storage_class: wants(ObjectAttributes::STORAGE_CLASS).then(|| StorageClass::from(version.class().to_owned())),
            version_id: shown_id(&bucket, &version),
            ..Default::default()
        };
        // The ETag is unquoted here, unlike in all other responses.
        let body = write_xml("GetObjectAttributesResponse", |xml| {
            if wants(ObjectAttributes::ETAG) {
                xml.content("ETag", version.etag().value())?;
            }
            output.serialize_content(xml)
        })?;
        let mut response = S3Response::new(output);
        response.extensions.insert(body);
        if let Some(sum) = version.sums().first() {
            ChecksumElement::set(sum.algorithm, &mut response.extensions);
        }
        Ok(response)
    }

    /// Checks that a version can be read now, and returns the restore that allows it.
    pub(crate) fn readable(&self, version: &Version) -> S3Result<Option<Restore>> {
        if !version.is_cold() {
            return Ok(None);
        }
        match self.state.restore(version.row.id).map_err(state_failed)? {
            Some(restore) if restore.done_ms.is_some() => Ok(Some(restore)),
            _ => {
                let error = s3_error!(InvalidObjectState, "The operation is not valid for the object's storage class");
                Err(detailed(error, &[("StorageClass", version.class())]))
            }
        }
    }

    /// Whether a version was removed since it was found.
    pub(super) fn is_gone(&self, version: &Version) -> S3Result<bool> {
        let row = self.archive.reading().version(&version.row.record.name, version.row.id).map_err(catalogue_failed)?;
        Ok(row.is_none())
    }
}

/// The checksums of a response: of the object, or of a part of a multipart upload.
fn sums_of(version: &Version, is_whole: bool, part: Option<i32>) -> Vec<Sum> {
    match part {
        // An object that was put whole has one part.
        Some(_) if version.parts().is_none() => version.sums(),
        Some(number) => version.part_sum(number as usize).into_iter().collect(),
        None if is_whole => version.sums(),
        None => Vec::new(),
    }
}

/// The attributes that a request names, in one or several headers.
fn wanted_attributes(given: &[ObjectAttributes]) -> S3Result<Vec<&str>> {
    const ALL: [&str; 5] = [
        ObjectAttributes::CHECKSUM,
        ObjectAttributes::ETAG,
        ObjectAttributes::OBJECT_PARTS,
        ObjectAttributes::OBJECT_SIZE,
        ObjectAttributes::STORAGE_CLASS,
    ];
    let wanted: Vec<&str> = given.iter().flat_map(|list| list.as_str().split(',')).map(str::trim).collect();
    match wanted.iter().find(|name| !ALL.contains(name)) {
        Some(_) => Err(s3_error!(InvalidArgument, "Invalid attribute name specified.")),
        None => Ok(wanted),
    }
}

/// A part in a GetObjectAttributes response.
fn part_of(version: &Version, number: i32, size: u64) -> ObjectPart {
    let mut part = ObjectPart { part_number: Some(number), size: Some(size as i64), ..Default::default() };
    if let Some(Sum { algorithm, value }) = version.part_sum(number as usize) {
        set_sum!(part, algorithm, value);
    }
    part
}

/// Refuses headers of encryption that don't apply to reads.
fn check_encryption(request: &S3Request<dto::GetObjectInput>) -> S3Result<()> {
    let input = &request.input;
    customer_key!(input).refuse_to_read()?;
    refuse_headers_of_writes(&request.headers)
}

/// The part of a version that a request asks for.
fn select(version: Version, request: &S3Request<dto::GetObjectInput>) -> S3Result<Selection> {
    let original = original(&request.headers, &request.extensions);
    let range = request.input.range.as_ref().filter(|_| range_holds(original, &version));
    let (range, is_part) = range_of(&version, range, original, request.input.part_number)?;
    Ok(Selection { version, range, is_part })
}

/// The requested bytes, and whether the request is for a part. `original` has the range as sent;
/// the framework sees a clamped copy.
pub(crate) fn range_of(
    version: &Version,
    range: Option<&s3s::dto::Range>,
    original: &HeaderMap,
    part: Option<i32>,
) -> S3Result<(Range<u64>, bool)> {
    let size = version.size();
    match (range, part) {
        (Some(_), Some(_)) => Err(s3_error!(InvalidRequest, "Cannot specify both Range header and partNumber query parameter")),
        (None, None) => Ok((0..size, false)),
        (Some(range), None) => match range.check(size).ok().filter(|found| !found.is_empty()) {
            Some(range) => Ok((range, true)),
            None => Err(no_such_range(original, size)),
        },
        (None, Some(number)) => {
            if !(1..=PARTS_MAX as i32).contains(&number) {
                return Err(wrong_part_number());
            }
            let Some(sizes) = version.parts() else {
                // An object that was put whole has one part.
                return if number == 1 { Ok((0..size, size > 0)) } else { Err(no_such_part()) };
            };
            let number = number as usize;
            let length = *sizes.get(number - 1).ok_or_else(no_such_part)?;
            let start: u64 = sizes[..number - 1].iter().sum();
            // An empty part has no range for a partial response: Content-Range can't express it.
            Ok((start..start + length, length > 0))
        }
    }
}

fn no_such_range(original: &HeaderMap, size: u64) -> S3Error {
    let asked = original.get(header::RANGE).and_then(|range| range.to_str().ok()).unwrap_or_default();
    let size = size.to_string();
    let error = s3_error!(InvalidRange, "The requested range is not satisfiable");
    let mut error = detailed(error, &[("RangeRequested", asked), ("ActualObjectSize", &size)]);
    let mut headers = http::HeaderMap::new();
    if let Ok(value) = HeaderValue::try_from(format!("bytes */{size}")) {
        headers.insert("content-range", value);
    }
    error.set_headers(headers);
    error
}

fn no_such_part() -> S3Error {
    custom("InvalidPartNumber", StatusCode::RANGE_NOT_SATISFIABLE, "The requested partnumber is not satisfiable")
}

/// The value of `x-amz-restore`.
fn restore_header(restore: &Restore) -> String {
    match (restore.done_ms, restore.expires_ms) {
        (Some(_), Some(expires_ms)) => {
            let date = http_date(&timestamp(expires_ms));
            let date = date.as_ref().and_then(|date| date.to_str().ok()).unwrap_or_default();
            format!("ongoing-request=\"false\", expiry-date=\"{date}\"")
        }
        _ => "ongoing-request=\"true\"".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use fulgurite_domain::Attributes;

    use super::*;
    use crate::s3::conditions::PutConditions;
    use crate::s3::version::{attribute, encode_sizes};
    use crate::test_gateway::{TestGateway, soon};

    /// The bytes of a part, of an object that claims these sizes of its parts.
    async fn part_range(content: &[u8], sizes: &[u64], number: i32) -> Result<(Range<u64>, bool), String> {
        let test = TestGateway::new();
        let mut attributes = Attributes::default();
        attributes.set(attribute::PARTS, encode_sizes(sizes));
        let upload = test.upload(content).await;
        soon(test.gateway.store(&test.bucket(), "moon", upload, attributes, &PutConditions::default())).await.expect("put");
        let version = test.gateway.namespace.find("photos", "moon", None).expect("found");
        range_of(&version, None, &HeaderMap::new(), Some(number)).map_err(|error| error.code().as_str().to_owned())
    }

    #[tokio::test]
    async fn an_empty_part_is_no_partial_response() {
        assert_eq!(part_range(b"moon", &[4, 0], 1).await, Ok((0..4, true)));
        assert_eq!(part_range(b"moon", &[4, 0], 2).await, Ok((4..4, false)));
        assert_eq!(part_range(b"", &[0], 1).await, Ok((0..0, false)));
    }

    #[tokio::test]
    async fn sizes_of_parts_that_are_not_of_the_object_are_ignored() {
        for sizes in [&[u64::MAX, u64::MAX][..], &[u64::MAX, 5], &[1 << 60, 4], &[3], &[4, 1]] {
            assert_eq!(part_range(b"moon", sizes, 1).await, Ok((0..4, true)), "{sizes:?}");
            assert_eq!(part_range(b"moon", sizes, 2).await, Err("InvalidPartNumber".to_owned()), "{sizes:?}");
        }
    }
}
