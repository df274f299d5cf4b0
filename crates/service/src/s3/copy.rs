//! Copies inside the archive: the content is read, verified and put again, as a new version with an
//! encryption key of its own.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use fulgurite_archive::Archive;
use fulgurite_archive::object::{ObjectReader, Opened, ReadError};
use fulgurite_domain::Attributes;
use http::HeaderMap;
use s3s::dto::{
    ChecksumType, CopyObjectInput, CopyObjectOutput, CopyObjectResult, CopySource, MetadataDirective, PutObjectInput, TaggingDirective,
};
use s3s::{S3Request, S3Response, S3Result, s3_error};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::auth::access::{EXPECTED_SOURCE_OWNER, check_owner};
use crate::auth::caller::Caller;
use crate::auth::grant::check_same;
use crate::gateway::Gateway;
use crate::memory::MemoryOwner;
use crate::s3::Answer;
use crate::s3::conditions::{PutConditions, ReadConditions};
use crate::s3::errors::{internal_error, read_failed, too_long_for_a_copy};
use crate::s3::namespace::Namespace;
use crate::s3::new_object::{as_put, attributes, put_headers, refuse_acl};
use crate::s3::normalize::original;
use crate::s3::put::set_checksums;
use crate::s3::tags;
use crate::s3::version::{Version, attribute, shown_id, timestamp};
use crate::state::Bucket;
use crate::transfer::checksums::{Algorithm, BodyTrailers, ChecksumElement, Claims, Sum, set_sum};
use crate::transfer::upload::PUT_BYTES_MAX;

/// The customer key of the source, from the input of either copy operation.
macro_rules! source_customer_key {
    ($input:expr) => {
        $crate::s3::encryption::CustomerKey {
            algorithm: $input.copy_source_sse_customer_algorithm.as_deref(),
            key: $input.copy_source_sse_customer_key.as_deref(),
            md5: $input.copy_source_sse_customer_key_md5.as_deref(),
        }
    };
}

/// Opens the source that the input of either copy operation names, if the caller may read it and
/// its conditions hold. A macro, since the inputs have the same fields but no common trait.
macro_rules! open_source {
    ($gateway:ident, $request:ident) => {{
        let S3Request { input, headers, extensions, .. } = &$request;
        let (modified_since, unmodified_since) = (&input.copy_source_if_modified_since, &input.copy_source_if_unmodified_since);
        let original = $crate::s3::normalize::original(headers, extensions);
        let conditions = $crate::s3::conditions::ReadConditions::of(
            original,
            $crate::s3::conditions::OF_SOURCE,
            modified_since.clone(),
            unmodified_since.clone(),
        );
        $gateway.namespace.open_source(extensions.get::<Caller>(), &input.copy_source, headers, &conditions)?
    }};
}

pub(super) use {open_source, source_customer_key};

/// Attributes that a copy takes from its source, together with user metadata.
const COPIED_ATTRIBUTES: [&str; 7] = [
    "content-type",
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    attribute::EXPIRES,
    attribute::EXPIRES_SECONDS,
];

/// Maximum number of further lookups of a source that is replaced before it is opened.
const RETRIES_MAX: u32 = 8;

/// The source of a copy.
pub(super) struct Source {
    pub(super) version: Version,
    /// Kept open, so that the source can be read to its end even if it is replaced meanwhile
    /// (unless it is staged in very many segments); `None` without content.
    opened: Option<Opened>,
    /// The version ID of the source, if its bucket is versioned.
    pub(super) id: Option<String>,
    pub(super) bucket: String,
    pub(super) key: String,
    /// Whether the request named the version.
    pub(super) names_version: bool,
}

/// What a copy takes from its request, in place of its source.
#[derive(Clone, Copy)]
struct Directives {
    replace_headers: bool,
    replace_tags: bool,
}

impl Source {
    /// The content, in pieces. It can be read once.
    pub(super) fn read(&mut self, archive: &Arc<Archive>, range: Range<u64>) -> (mpsc::Receiver<Bytes>, JoinHandle<Result<(), ReadError>>) {
        let (pieces_tx, pieces_rx) = mpsc::channel::<Bytes>(16);
        let archive = archive.clone();
        let is_whole = range == (0..self.version.size());
        let opened = self.opened.take();
        assert!(opened.is_some() || self.version.size() == 0, "a source is read once");
        let reading = tokio::task::spawn_blocking(move || {
            let Some(opened) = opened else { return Ok(()) };
            let mut reader = ObjectReader::new(&archive);
            let mut sink =
                |bytes: &[u8]| pieces_tx.blocking_send(Bytes::copy_from_slice(bytes)).map_err(|_| std::io::ErrorKind::BrokenPipe.into());
            if is_whole {
                return reader.read_whole(&opened, &mut sink);
            }
            reader.read_opened(&opened, range, &mut |buffer, pieces| pieces.iter().try_for_each(|piece| sink(&buffer[piece.clone()])))
        });
        (pieces_rx, reading)
    }
}

impl Namespace {
    pub(super) fn open_source(
        &self,
        caller: Option<&Caller>,
        source: &CopySource,
        headers: &HeaderMap,
        conditions: &ReadConditions,
    ) -> S3Result<Source> {
        let CopySource::Bucket { bucket, key, version_id } = source else {
            return Err(s3_error!(NotImplemented, "The source of a copy must be in a bucket of this archive."));
        };
        if key.is_empty() {
            return Err(s3_error!(InvalidArgument, "Copy Source must mention the source bucket and key: sourcebucket/sourcekey"));
        }
        let source_bucket = self.bucket(bucket)?;
        check_owner(&self.state, &source_bucket, headers, EXPECTED_SOURCE_OWNER)?;
        let find = || {
            let found = self.find(bucket, key, version_id.as_deref());
            // After each lookup: it is by name, another bucket may have the name now, and the
            // rights may depend on the tags of the object that was found.
            let current = self.bucket(bucket)?;
            check_same(&source_bucket, &current)?;
            self.may_read(caller, &current, key, version_id.as_deref())?;
            let version = found.map_err(|error| match error.code() {
                s3s::S3ErrorCode::MethodNotAllowed => {
                    s3_error!(InvalidRequest, "The source of a copy request may not specifically refer to a delete marker by version id.")
                }
                _ => error,
            })?;
            conditions.check_source(&version)?;
            self.readable(&version)?;
            Ok(version)
        };
        let (version, opened) = self.open_current(find)?;
        Ok(Source {
            id: shown_id(&source_bucket, &version),
            version,
            opened,
            bucket: bucket.to_string(),
            key: key.to_string(),
            names_version: version_id.is_some(),
        })
    }

    /// Opens the version that `find` returns; looks again if that version was replaced meanwhile.
    fn open_current(&self, mut find: impl FnMut() -> S3Result<Version>) -> S3Result<(Version, Option<Opened>)> {
        let mut attempts = 0;
        loop {
            let version = find()?;
            if version.size() == 0 {
                return Ok((version, None));
            }
            match ObjectReader::new(&self.archive).open(&version.row) {
                Ok(opened) => return Ok((version, Some(opened))),
                Err(_) if attempts < RETRIES_MAX && self.is_gone(&version)? => attempts += 1,
                Err(error) => return Err(read_failed("reading the source of a copy", &error)),
            }
        }
    }

    /// Checks that the whole source was read.
    pub(super) async fn finish_reading(&self, source: &Source, reading: JoinHandle<Result<(), ReadError>>) -> S3Result<()> {
        match reading.await.map_err(internal_error("reading the source of a copy"))? {
            Ok(()) => Ok(()),
            // A very long staged source can't be kept open in full.
            Err(_) if self.is_gone(&source.version)? => {
                Err(s3_error!(OperationAborted, "The source of the copy was removed or replaced while it was read. Try again."))
            }
            Err(error) => Err(read_failed("reading the source of a copy", &error)),
        }
    }

    /// The attributes of a copy, without checksums.
    fn copied_attributes(
        &self,
        request: &S3Request<CopyObjectInput>,
        put_input: &mut PutObjectInput,
        bucket: &Bucket,
        source: &Source,
        directives: Directives,
    ) -> S3Result<Attributes> {
        let kept_tags = tags::encode(&self.tags_of(&source.version)?);
        if !directives.replace_tags && !kept_tags.is_empty() {
            // The copy takes tags along, so it needs the rights to read and put them.
            let caller = request.extensions.get::<Caller>();
            let read = if source.names_version { "s3:GetObjectVersionTagging" } else { "s3:GetObjectTagging" };
            let from = self.bucket(&source.bucket)?;
            self.may(&from, caller, read, Some(&source.key), source.id.as_deref().filter(|_| source.names_version))?;
            self.may_copy_tags(bucket, caller, &request.headers, &put_input.key)?;
        }
        if !directives.replace_tags {
            put_input.tagging = Some(kept_tags);
        }
        let mut attributes = attributes(put_input, None, bucket)?;
        if directives.replace_headers {
            put_headers(put_input, original(&request.headers, &request.extensions), &mut attributes)?;
        } else {
            copy_headers(&source.version, &mut attributes);
        }
        Ok(attributes)
    }
}

impl Gateway {
    pub(crate) async fn copy(&self, request: S3Request<CopyObjectInput>) -> Answer<CopyObjectOutput> {
        let original = original(&request.headers, &request.extensions);
        let input = request.input.clone();
        let mut put_input = as_put!(input);
        let (bucket, encryption) = self.namespace.destination(&request.extensions, &put_input)?;
        source_customer_key!(input).refuse_to_read()?;
        refuse_acl(put_input.acl.as_ref().map(|acl| acl.as_str()))?;
        let mut source = open_source!(self, request);
        let directives = Directives {
            replace_headers: is_replace("x-amz-metadata-directive", input.metadata_directive.as_ref().map(MetadataDirective::as_str))?,
            replace_tags: is_replace("x-amz-tagging-directive", input.tagging_directive.as_ref().map(TaggingDirective::as_str))?,
        };
        let is_itself = source.bucket == bucket.name && source.key == put_input.key && !source.names_version;
        if is_itself && !directives.replace_headers && put_input.storage_class.is_none() && put_input.website_redirect_location.is_none() {
            return Err(s3_error!(
                InvalidRequest,
                "This copy request is illegal because it is trying to copy an object to itself without changing the object's metadata, storage class, website redirect location or encryption attributes."
            ));
        }
        let size = source.version.size();
        check_size(size)?;
        self.transfers.check_room(size)?;
        let mut attributes = self.namespace.copied_attributes(&request, &mut put_input, &bucket, &source, directives)?;
        let asked = Algorithm::named(input.checksum_algorithm.as_ref())?;
        let algorithm = asked.or_else(|| source.version.sums().first().map(|sum| sum.algorithm)).unwrap_or(Algorithm::Crc64Nvme);
        let mut hasher = self.transfers.object_hasher(Claims::default(), algorithm);
        let mut upload = self.transfers.begin_object_hashed_by_caller(MemoryOwner::own());
        let _permit = self.transfers.copy_permits.acquire().await.expect("it is never closed");
        let (mut pieces, reading) = source.read(&self.archive, 0..size);
        while let Some(piece) = pieces.recv().await {
            hasher.update(&piece).await;
            self.transfers.write(&mut upload, &piece, size).await;
        }
        self.namespace.finish_reading(&source, reading).await?;
        let sums = hasher.end(&BodyTrailers::default()).await?;
        set_checksums(&sums, &mut attributes);
        let upload = upload.upload_with_digest(&sums);
        let stored = self.store(&bucket, &put_input.key, upload, attributes, &PutConditions::of(original, "")).await?;
        let mut result = CopyObjectResult {
            e_tag: Some(stored.etag),
            last_modified: Some(timestamp(stored.created_ms as i64)),
            checksum_type: Some(ChecksumType::from_static(ChecksumType::FULL_OBJECT)),
            ..Default::default()
        };
        let mut extensions = http::Extensions::new();
        if let Some(Sum { algorithm, value }) = sums.sum {
            set_sum!(result, algorithm, value);
            ChecksumElement::set(algorithm, &mut extensions);
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
}

/// Copies the headers and metadata of the source.
fn copy_headers(version: &Version, attributes: &mut Attributes) {
    for (name, value) in &version.attributes().0 {
        if COPIED_ATTRIBUTES.contains(&name.as_str()) || name.starts_with(attribute::META) || name == attribute::MORE_META {
            attributes.set(name.as_str(), value.as_slice());
        }
    }
}

/// Whether the directive in this header is `REPLACE`.
fn is_replace(header: &str, text: Option<&str>) -> S3Result<bool> {
    match text {
        None | Some("COPY") => Ok(false),
        Some("REPLACE") => Ok(true),
        Some(_) => Err(s3_error!(InvalidArgument, "Unknown {header}: use COPY or REPLACE.")),
    }
}

/// Refuses sources that are larger than the limit of a single put.
pub(super) fn check_size(bytes: u64) -> S3Result<()> {
    if bytes > PUT_BYTES_MAX { Err(too_long_for_a_copy(PUT_BYTES_MAX)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_gateway::{TestGateway, soon};

    async fn content(test: &TestGateway, mut source: Source) -> Vec<u8> {
        let size = source.version.size();
        let (mut pieces, reading) = source.read(&test.gateway.archive, 0..size);
        let mut content = Vec::new();
        while let Some(piece) = pieces.recv().await {
            content.extend_from_slice(&piece);
        }
        test.gateway.namespace.finish_reading(&source, reading).await.expect("all of it");
        content
    }

    fn sample_source((version, opened): (Version, Option<Opened>)) -> Source {
        Source { version, opened, id: None, bucket: "photos".into(), key: "moon".into(), names_version: false }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_source_replaced_during_the_read_is_read_to_its_end() {
        let test = TestGateway::new();
        let before = vec![1; 3 << 20];
        test.put("moon", &before).await;
        let find = || test.gateway.namespace.find("photos", "moon", None);
        let opened_source = sample_source(test.gateway.namespace.open_current(find).expect("opened"));
        test.put("moon", b"another").await;
        test.gateway.archive.sweep().expect("the key is destroyed");
        assert!(soon(content(&test, opened_source)).await == before);
        assert_eq!(soon(content(&test, sample_source(test.gateway.namespace.open_current(find).expect("opened")))).await, b"another");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_source_replaced_before_the_read_is_looked_up_again() {
        let test = TestGateway::new();
        test.put("moon", b"first").await;
        let stale = test.gateway.namespace.find("photos", "moon", None).expect("found");
        test.put("moon", b"second").await;
        test.gateway.archive.sweep().expect("the key is destroyed");
        let mut found = [stale.clone(), stale.clone()].into_iter();
        let opened_source =
            test.gateway.namespace.open_current(|| found.next().map_or_else(|| test.gateway.namespace.find("photos", "moon", None), Ok));
        assert_eq!(soon(content(&test, sample_source(opened_source.expect("opened")))).await, b"second");
        // A source that exists and can't be read is an error, and isn't retried forever.
        test.gateway
            .archive
            .keys()
            .destroy(&[test.gateway.namespace.find("photos", "moon", None).expect("found").row.id])
            .expect("destroyed");
        let lost = test.gateway.namespace.open_current(|| test.gateway.namespace.find("photos", "moon", None));
        assert_eq!(lost.err().expect("it can't be opened").code().as_str(), "InternalError");
    }
}
