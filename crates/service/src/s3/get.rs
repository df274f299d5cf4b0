//! Reads objects and their properties.

use std::io;
use std::ops::Range;

use bytes::Bytes;
use fulgurite_archive::object::{ObjectReader, ReadError};
use futures_util::{Stream, StreamExt, stream};
use http::header;
use s3s::dto::{
    ArchiveStatus, GetObjectAttributesInput, GetObjectAttributesOutput, GetObjectAttributesParts, GetObjectInput, GetObjectOutput,
    HeadObjectInput, HeadObjectOutput, ObjectAttributes, ObjectPart, StorageClass, StreamingBlob,
};
use s3s::stream::{ByteStream, RemainingLength};
use s3s::xml::SerializeContent;
use s3s::{S3Request, S3Response, S3Result, StdError, s3_error};

use crate::auth::caller::Caller;
use crate::gateway::Gateway;
use crate::memory::Holder;
use crate::s3::conditions::{Conditions, ETags, range_holds};
use crate::s3::encryption::{customer_key, refuse_headers_of_writes, said};
use crate::s3::errors::answers::{Status, written};
use crate::s3::errors::{catalogue_failed, custom, detailed, not_read, state_failed};
use crate::s3::normalize::{WantedExpires, original};
use crate::s3::version::{Version, timestamp};
use crate::state::{Restore, Retention, Versioning};
use crate::transfer::checksums::{Named, Sum, set_sum};
use crate::transfer::download;

/// Objects and parts up to this size are read at once, on the thread of the request.
const SMALL: u64 = 256 << 10;
/// Maximum number of lookups of an object that is being replaced while it is read.
const ATTEMPTS: u32 = 8;

impl Gateway {
    pub(crate) async fn get(&self, request: S3Request<GetObjectInput>) -> S3Result<S3Response<GetObjectOutput>> {
        let caller = request.extensions.get::<Caller>().cloned();
        let original = original(&request.headers, &request.extensions);
        let wanted_expires = request.extensions.get::<WantedExpires>().map(|WantedExpires(value)| value.clone());
        let input = request.input;
        let bucket = self.bucket(&input.bucket)?;
        customer_key!(input).refuse_to_read()?;
        refuse_headers_of_writes(&request.headers)?;
        let conditions = Conditions {
            matches: ETags::of(original, "if-match"),
            none_match: ETags::of(original, "if-none-match"),
            modified_since: input.if_modified_since,
            unmodified_since: input.if_unmodified_since,
        };
        let mut attempts = 0;
        let (version, restore, range, is_part, body) = loop {
            let found = self.find(&bucket.name, &input.key, input.version_id.as_deref());
            let version = found.map_err(|error| self.hidden(caller.as_ref(), &bucket, error))?;
            conditions.check(&version)?;
            let restore = self.readable(&version)?;
            let range = input.range.as_ref().filter(|_| range_holds(original, &version));
            let (range, is_part) = range_of(&version, range, input.part_number)?;
            match self.stream(version.clone(), range.clone()).await {
                Ok(body) => break (version, restore, range, is_part, body),
                // The version was replaced between the lookup and the read: read its successor.
                Err(_) if attempts < ATTEMPTS && self.is_gone(&version)? => attempts += 1,
                Err(error) => return Err(not_read("reading an object", &error)),
            }
        };
        let whole = range == (0..version.size()) && !is_part;
        let length = range.end - range.start;
        let asks_sums = input.checksum_mode.as_ref().is_some_and(|mode| mode.as_str() == "ENABLED");
        let mut output = GetObjectOutput {
            accept_ranges: Some("bytes".into()),
            body: Some(body),
            content_length: Some(length as i64),
            content_range: is_part.then(|| format!("bytes {}-{}/{}", range.start, range.end.saturating_sub(1), version.size())),
            cache_control: version.text("cache-control"),
            content_disposition: version.text("content-disposition"),
            content_encoding: version.text("content-encoding"),
            content_language: version.text("content-language"),
            content_type: Some(version.text("content-type").unwrap_or_else(|| "binary/octet-stream".to_owned())),
            e_tag: Some(version.etag()),
            last_modified: Some(version.modified()),
            metadata: version.metadata(),
            parts_count: input.part_number.and(version.parts()).map(|parts| parts.len() as i32),
            server_side_encryption: said(version.row.sealed),
            storage_class: version.class_header(),
            restore: restore.as_ref().map(restore_header),
            tag_count: Some(self.tags_of(&version)?.len() as i32).filter(|count| *count > 0),
            version_id: (bucket.versioning != Versioning::Never).then(|| version.id()),
            website_redirect_location: version.text("website-redirect-location"),
            ..Default::default()
        };
        if bucket.object_lock {
            let lock = self.lock_of(&version.row)?;
            output.object_lock_mode = lock.retention.map(|retention| retention.mode.name().to_owned().into());
            output.object_lock_retain_until_date = lock.retention.map(|Retention { until_ms, .. }| timestamp(until_ms));
            output.object_lock_legal_hold_status = lock.legal_hold.then(|| "ON".to_owned().into());
        }
        let sums = if asks_sums { sums_of(&version, whole, input.part_number) } else { Vec::new() };
        output.checksum_type = (!sums.is_empty()).then(|| version.checksum_type());
        let status = if is_part { http::StatusCode::PARTIAL_CONTENT } else { http::StatusCode::OK };
        let mut response = S3Response::with_status(output, status);
        sums.iter().for_each(|sum| sum.put(&mut response.headers));
        if let Some(expires) = wanted_expires.or_else(|| version.expires()) {
            response.headers.insert(header::EXPIRES, expires);
        }
        Ok(response)
    }

    pub(crate) fn head(&self, request: S3Request<HeadObjectInput>) -> S3Result<S3Response<HeadObjectOutput>> {
        let caller = request.extensions.get::<Caller>().cloned();
        let original = original(&request.headers, &request.extensions);
        let wanted_expires = request.extensions.get::<WantedExpires>().map(|WantedExpires(value)| value.clone());
        let input = request.input;
        let bucket = self.bucket(&input.bucket)?;
        customer_key!(input).refuse_to_read()?;
        refuse_headers_of_writes(&request.headers)?;
        let found = self.find(&bucket.name, &input.key, input.version_id.as_deref());
        let version = found.map_err(|error| self.hidden(caller.as_ref(), &bucket, error))?;
        let conditions = Conditions {
            matches: ETags::of(original, "if-match"),
            none_match: ETags::of(original, "if-none-match"),
            modified_since: input.if_modified_since,
            unmodified_since: input.if_unmodified_since,
        };
        conditions.check(&version)?;
        let range = input.range.as_ref().filter(|_| range_holds(original, &version));
        let (range, is_part) = range_of(&version, range, input.part_number)?;
        let restore = self.state.restore(version.row.id).map_err(state_failed)?.filter(|_| version.is_cold());
        let asks_sums = input.checksum_mode.as_ref().is_some_and(|mode| mode.as_str() == "ENABLED");
        let mut output = HeadObjectOutput {
            accept_ranges: Some("bytes".into()),
            content_length: Some((range.end - range.start) as i64),
            content_range: is_part.then(|| format!("bytes {}-{}/{}", range.start, range.end.saturating_sub(1), version.size())),
            cache_control: version.text("cache-control"),
            content_disposition: version.text("content-disposition"),
            content_encoding: version.text("content-encoding"),
            content_language: version.text("content-language"),
            content_type: Some(version.text("content-type").unwrap_or_else(|| "binary/octet-stream".to_owned())),
            e_tag: Some(version.etag()),
            last_modified: Some(version.modified()),
            metadata: version.metadata(),
            parts_count: input.part_number.and(version.parts()).map(|parts| parts.len() as i32),
            server_side_encryption: said(version.row.sealed),
            storage_class: version.class_header(),
            archive_status: None::<ArchiveStatus>,
            restore: restore.as_ref().map(restore_header),
            version_id: (bucket.versioning != Versioning::Never).then(|| version.id()),
            website_redirect_location: version.text("website-redirect-location"),
            ..Default::default()
        };
        if bucket.object_lock {
            let lock = self.lock_of(&version.row)?;
            output.object_lock_mode = lock.retention.map(|retention| retention.mode.name().to_owned().into());
            output.object_lock_retain_until_date = lock.retention.map(|Retention { until_ms, .. }| timestamp(until_ms));
            output.object_lock_legal_hold_status = lock.legal_hold.then(|| "ON".to_owned().into());
        }
        let sums = if asks_sums { sums_of(&version, !is_part, input.part_number) } else { Vec::new() };
        output.checksum_type = (!sums.is_empty()).then(|| version.checksum_type());
        for (own, asked) in [
            (&mut output.cache_control, input.response_cache_control),
            (&mut output.content_disposition, input.response_content_disposition),
            (&mut output.content_encoding, input.response_content_encoding),
            (&mut output.content_language, input.response_content_language),
            (&mut output.content_type, input.response_content_type),
        ] {
            *own = asked.or(own.take());
        }
        output.expires = input.response_expires;
        let status = if is_part { http::StatusCode::PARTIAL_CONTENT } else { http::StatusCode::OK };
        let expires = wanted_expires.or_else(|| version.expires().filter(|_| output.expires.is_none()));
        let mut response = S3Response::with_status(output, status);
        if let Some(expires) = expires {
            response.headers.insert(header::EXPIRES, expires);
        }
        response.extensions.insert(Status(status));
        sums.iter().for_each(|sum| sum.put(&mut response.headers));
        let tags = self.tags_of(&version)?.len();
        if tags > 0 {
            response.headers.insert("x-amz-tagging-count", tags.into());
        }
        Ok(response)
    }

    pub(crate) fn attributes(&self, request: S3Request<GetObjectAttributesInput>) -> S3Result<S3Response<GetObjectAttributesOutput>> {
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
            let most = input.max_parts.unwrap_or(1_000).clamp(0, 1_000) as usize;
            let listed: Vec<ObjectPart> =
                (1..).zip(&sizes).skip(after).take(most).map(|(number, size)| part_of(&version, number, *size)).collect();
            GetObjectAttributesParts {
                is_truncated: Some(after + listed.len() < sizes.len()),
                max_parts: Some(most as i32),
                part_number_marker: Some(after as i32),
                next_part_number_marker: Some((after + listed.len()) as i32),
                total_parts_count: Some(sizes.len() as i32),
                parts: Some(listed),
            }
        });
        let output = GetObjectAttributesOutput {
            checksum: (wants(ObjectAttributes::CHECKSUM) && checksum.checksum_type.is_some()).then_some(checksum),
            last_modified: Some(version.modified()),
            object_parts: parts,
            object_size: wants(ObjectAttributes::OBJECT_SIZE).then_some(version.size() as i64),
            storage_class: wants(ObjectAttributes::STORAGE_CLASS).then(|| StorageClass::from(version.class().to_owned())),
            version_id: (bucket.versioning != Versioning::Never).then(|| version.id()),
            ..Default::default()
        };
        // The ETag is unquoted here, unlike in all other responses.
        let bare = written("GetObjectAttributesResponse", |xml| {
            if wants(ObjectAttributes::ETAG) {
                xml.content("ETag", version.etag().value())?;
            }
            output.serialize_content(xml)
        })?;
        let mut response = S3Response::new(output);
        response.extensions.insert(bare);
        if let Some(sum) = version.sums().first() {
            Named::say(sum.algorithm, &mut response.extensions);
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

    /// A range of a version's content, as a stream.
    async fn stream(&self, version: Version, range: Range<u64>) -> Result<StreamingBlob, ReadError> {
        let length = range.end - range.start;
        if length == 0 {
            return Ok(Sized::blob(stream::empty(), 0));
        }
        // When too many responses wait for slow clients, the object is streamed in pieces like a
        // large one.
        if length <= SMALL
            && let Some(share) = self.answers.take(&Holder::own(), length as usize)
        {
            let (archive, is_staged) = (self.archive.clone(), !version.row.archived);
            let read = move || {
                let mut content = Vec::new();
                let result = ObjectReader::new(&archive).read_buffers(&version.row, range, &mut |buffer, pieces| {
                    let buffer = Bytes::from(std::mem::take(buffer));
                    content.extend(pieces.iter().map(|piece| Ok(buffer.slice(piece.clone()))));
                    Ok(())
                });
                result.map(|()| content)
            };
            // Staged content is most likely in the page cache, and switching threads takes longer
            // than reading it. A platter may be slow.
            let content = if is_staged { read() } else { tokio::task::block_in_place(read) }?;
            // The share is released with the last piece.
            let pieces = stream::iter(content).map(move |piece| {
                let _ = &share;
                piece
            });
            return Ok(Sized::blob(pieces, length));
        }
        // An opened object can be read to its end, even if it is removed meanwhile.
        let opened = ObjectReader::new(&self.archive).open(&version.row)?;
        let mut rest = download::stream(self, opened, range).boxed();
        if !version.row.archived {
            return Ok(Sized::blob(rest, length));
        }
        // Platters may be out of reach. Once the response has begun, an error can no longer be
        // reported.
        let first = match rest.next().await {
            Some(Err(error)) => {
                return Err(error.downcast::<ReadError>().map_or_else(|error| ReadError::Sink(io::Error::other(error)), |error| *error));
            }
            first => first,
        };
        Ok(Sized::blob(stream::iter(first).chain(rest), length))
    }
}

impl Gateway {
    /// Whether a version was removed since it was found.
    pub(super) fn is_gone(&self, version: &Version) -> S3Result<bool> {
        let row = self.archive.reading().version(&version.row.record.name, version.row.id).map_err(catalogue_failed)?;
        Ok(row.is_none())
    }
}

/// A stream of known length, so that the response has a Content-Length and an incomplete one breaks
/// the connection.
struct Sized<S> {
    stream: S,
    left: u64,
}

impl<S: Stream<Item = Result<Bytes, StdError>> + Send + Unpin + 'static> Sized<S> {
    fn blob(stream: S, length: u64) -> StreamingBlob {
        StreamingBlob::new(Sized { stream: SyncStream(std::sync::Mutex::new(stream)), left: length })
    }
}

/// Makes a stream `Sync`, as the framework requires. Only one task ever polls it.
struct SyncStream<S>(std::sync::Mutex<S>);

impl<S: Stream + Unpin> Stream for SyncStream<S> {
    type Item = S::Item;

    fn poll_next(mut self: std::pin::Pin<&mut Self>, context: &mut std::task::Context<'_>) -> std::task::Poll<Option<S::Item>> {
        self.0.get_mut().expect("no panic holds this lock").poll_next_unpin(context)
    }
}

impl<S: Stream<Item = Result<Bytes, StdError>> + Unpin> Stream for Sized<S> {
    type Item = Result<Bytes, StdError>;

    fn poll_next(mut self: std::pin::Pin<&mut Self>, context: &mut std::task::Context<'_>) -> std::task::Poll<Option<Self::Item>> {
        let next = self.stream.poll_next_unpin(context);
        if let std::task::Poll::Ready(Some(Ok(bytes))) = &next {
            self.left = self.left.saturating_sub(bytes.len() as u64);
        }
        next
    }
}

impl<S: Stream<Item = Result<Bytes, StdError>> + Unpin> ByteStream for Sized<S> {
    fn remaining_length(&self) -> RemainingLength {
        RemainingLength::new_exact(self.left as usize)
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

/// The requested bytes, and whether the request is for a part.
pub(crate) fn range_of(version: &Version, range: Option<&s3s::dto::Range>, part: Option<i32>) -> S3Result<(Range<u64>, bool)> {
    let size = version.size();
    match (range, part) {
        (Some(_), Some(_)) => Err(s3_error!(InvalidRequest, "Cannot specify both Range header and partNumber query parameter")),
        (None, None) => Ok((0..size, false)),
        (Some(range), None) => match range.check(size).ok().filter(|found| !found.is_empty()) {
            Some(range) => Ok((range, true)),
            None => {
                let (asked, size) = (range.to_header_string(), size.to_string());
                let error = s3_error!(InvalidRange, "The requested range is not satisfiable");
                let mut error = detailed(error, &[("RangeRequested", &asked), ("ActualObjectSize", &size)]);
                let mut headers = http::HeaderMap::new();
                if let Ok(value) = http::HeaderValue::try_from(format!("bytes */{size}")) {
                    headers.insert("content-range", value);
                }
                error.set_headers(headers);
                Err(error)
            }
        },
        (None, Some(number)) => {
            if !(1..=10_000).contains(&number) {
                return Err(s3_error!(InvalidArgument, "Part number must be an integer between 1 and 10000, inclusive"));
            }
            let Some(sizes) = version.parts() else {
                // An object that was put whole has one part. An empty object has no range for a
                // partial response.
                return if number == 1 { Ok((0..size, size > 0)) } else { Err(no_such_part()) };
            };
            let number = number as usize;
            let length = *sizes.get(number - 1).ok_or_else(no_such_part)?;
            let start: u64 = sizes[..number - 1].iter().sum();
            Ok((start..start + length, true))
        }
    }
}

fn no_such_part() -> s3s::S3Error {
    custom("InvalidPartNumber", http::StatusCode::RANGE_NOT_SATISFIABLE, "The requested partnumber is not satisfiable")
}

/// The value of `x-amz-restore`.
pub(crate) fn restore_header(restore: &Restore) -> String {
    match (restore.done_ms, restore.expires_ms) {
        (Some(_), Some(expires_ms)) => {
            let mut date = Vec::new();
            let formatted = timestamp(expires_ms).format(s3s::dto::TimestampFormat::HttpDate, &mut date);
            let date = formatted.ok().and_then(|()| String::from_utf8(date).ok()).unwrap_or_default();
            format!("ongoing-request=\"false\", expiry-date=\"{date}\"")
        }
        _ => "ongoing-request=\"true\"".to_owned(),
    }
}
