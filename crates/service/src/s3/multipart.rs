//! Multipart uploads: begins and aborts them, and stores their parts, which clients send or copy
//! from objects.

use std::ops::Range;

use bytes::Bytes;
use fulgurite_domain::ObjectName;
use s3s::dto::{self, ChecksumType, CopyPartResult, ETag};
use s3s::{S3Request, S3Response, S3Result, s3_error};

use crate::auth::caller::Caller;
use crate::auth::grant::Grant;
use crate::gateway::Gateway;
use crate::memory::MemoryOwner;
use crate::s3::Answer;
use crate::s3::copy::{check_size, open_source, source_customer_key};
use crate::s3::encryption::customer_key;
use crate::s3::errors::{internal_error, no_such_bucket, state_failed, wrong_part_number};
use crate::s3::key_locks::KeyGuard;
use crate::s3::namespace::Namespace;
use crate::s3::new_object::{as_put, attributes, refuse_acl};
use crate::s3::normalize::original;
use crate::s3::version::timestamp;
use crate::state::{MultipartUpload, Part, hex, now_ms};
use crate::transfer::checksums::{Algorithm, BodyTrailers, ChecksumElement, Claims, ContentHasher, Sum, set_sum};
use crate::transfer::parts::PartWriter;
use crate::transfer::upload::{IncomingBody, length_of};

/// Maximum number of parts.
pub(super) const PARTS_MAX: u32 = 10_000;

/// A part that is being received: its file and its checksums.
struct IncomingPart {
    writer: PartWriter,
    hasher: ContentHasher,
}

impl IncomingPart {
    async fn write(&mut self, piece: &Bytes) -> S3Result<()> {
        self.hasher.update(piece).await;
        self.writer.write(piece).await.map_err(internal_error("writing a part"))
    }
}

impl Namespace {
    pub(crate) fn begin_multipart(&self, request: S3Request<dto::CreateMultipartUploadInput>) -> Answer<dto::CreateMultipartUploadOutput> {
        let account = request.extensions.get::<Caller>().and_then(|caller| caller.account.clone());
        let original = original(&request.headers, &request.extensions);
        let input = request.input;
        let given = as_put!(input);
        let (bucket, encryption) = self.destination(&request.extensions, &given)?;
        refuse_acl(given.acl.as_ref().map(|acl| acl.as_str()))?;
        let attributes = attributes(&given, Some(original), &bucket)?;
        let algorithm = Algorithm::named(input.checksum_algorithm.as_ref())?;
        if algorithm.is_none() && request.headers.contains_key("x-amz-checksum-type") {
            return Err(s3_error!(
                InvalidRequest,
                "The x-amz-checksum-type header can only be used with the x-amz-checksum-algorithm header."
            ));
        }
        let kind = checksum_type(algorithm, input.checksum_type.as_ref().map(ChecksumType::as_str))?;
        let upload = MultipartUpload {
            id: String::new(),
            bucket: bucket.name.clone(),
            key: given.key,
            account: account.map_or_else(|| bucket.owner.clone(), |account| account.name.clone()),
            created_ms: now_ms(),
            checksum_algorithm: algorithm.map(|algorithm| algorithm.name().to_owned()),
            checksum_type: kind.map(str::to_owned),
            attributes,
        };
        let id = self.state.begin_upload(&upload).map_err(state_failed)?.ok_or_else(no_such_bucket)?;
        let output = dto::CreateMultipartUploadOutput {
            bucket: Some(upload.bucket),
            key: Some(upload.key),
            upload_id: Some(id),
            checksum_algorithm: algorithm.map(Algorithm::in_xml),
            checksum_type: upload.checksum_type.map(ChecksumType::from),
            server_side_encryption: encryption,
            ..Default::default()
        };
        Ok(S3Response::new(output))
    }

    /// An upload in progress for this key.
    pub(crate) fn upload_of(&self, bucket: &str, key: &str, id: &str) -> S3Result<MultipartUpload> {
        self.bucket(bucket)?;
        let upload = self.state.upload(id).map_err(state_failed)?;
        upload.filter(|upload| upload.bucket == bucket && upload.key == key).ok_or_else(no_such_upload)
    }
}

impl Gateway {
    pub(crate) async fn put_part(&self, request: S3Request<dto::UploadPartInput>) -> Answer<dto::UploadPartOutput> {
        let trailers = BodyTrailers::of(&request);
        let mut input = request.input;
        let upload = self.namespace.upload_of(&input.bucket, &input.key, &input.upload_id)?;
        customer_key!(input).refuse()?;
        let number = number_of(input.part_number)?;
        let length = length_of(input.content_length, &request.headers)?;
        self.transfers.check_room(length)?;
        let claims = Claims::of(&request.headers)?;
        let wanted = algorithm_of(&upload);
        if let (Some(wanted), Some(given)) = (wanted, claims.algorithm())
            && wanted != given
        {
            return Err(s3_error!(
                InvalidRequest,
                "Checksum Type mismatch occurred, expected checksum Type: {}, actual checksum Type: {}",
                wanted.name(),
                given.name()
            ));
        }
        let mut body = IncomingBody::of_request(input.body.take(), length, &request.extensions);
        let mut part = self.begin_part(length, body.memory_owner(), claims, &upload)?;
        while let Some(piece) = body.next().await? {
            part.write(&piece).await?;
        }
        Grant::of(&request.extensions)?.check(&self.namespace)?;
        let (part, sum) = self.finish_part(&upload, number, part, &trailers).await?;
        let output = dto::UploadPartOutput {
            e_tag: Some(etag_of(&part)),
            server_side_encryption: self.namespace.new_encryption(),
            ..Default::default()
        };
        let mut response = S3Response::new(output);
        if let Some(sum) = sum {
            sum.put(&mut response.headers);
        }
        Ok(response)
    }

    pub(crate) async fn copy_part(&self, request: S3Request<dto::UploadPartCopyInput>) -> Answer<dto::UploadPartCopyOutput> {
        let input = &request.input;
        let upload = self.namespace.upload_of(&input.bucket, &input.key, &input.upload_id)?;
        let number = number_of(input.part_number)?;
        customer_key!(input).refuse()?;
        source_customer_key!(input).refuse_to_read()?;
        let mut source = open_source!(self, request);
        let range = copied_range(input.copy_source_range.as_deref(), source.version.size())?;
        let length = range.end - range.start;
        check_size(length)?;
        self.transfers.check_room(length)?;
        let mut part = self.begin_part(length, &MemoryOwner::own(), Claims::default(), &upload)?;
        let _permit = self.transfers.copy_permits.acquire().await.expect("it is never closed");
        let (mut pieces, reading) = source.read(&self.archive, range);
        while let Some(piece) = pieces.recv().await {
            part.write(&piece).await?;
        }
        self.namespace.finish_reading(&source, reading).await?;
        Grant::of(&request.extensions)?.check(&self.namespace)?;
        let (part, sum) = self.finish_part(&upload, number, part, &BodyTrailers::default()).await?;
        let mut result =
            CopyPartResult { e_tag: Some(etag_of(&part)), last_modified: Some(timestamp(part.modified_ms)), ..Default::default() };
        let mut extensions = http::Extensions::new();
        if let Some(Sum { algorithm, value }) = sum {
            set_sum!(result, algorithm, value);
            ChecksumElement::set(algorithm, &mut extensions);
        }
        let output = dto::UploadPartCopyOutput {
            copy_part_result: Some(result),
            copy_source_version_id: source.id,
            server_side_encryption: self.namespace.new_encryption(),
            ..Default::default()
        };
        Ok(S3Response { extensions, ..S3Response::new(output) })
    }

    /// Begins a part of about `length` bytes.
    fn begin_part(&self, length: u64, memory_owner: &MemoryOwner, claims: Claims, upload: &MultipartUpload) -> S3Result<IncomingPart> {
        let hasher = self.transfers.part_hasher(claims, part_algorithm(upload));
        Ok(IncomingPart { writer: self.transfers.parts.begin(length, memory_owner).map_err(internal_error("beginning a part"))?, hasher })
    }

    /// Finishes and records a part whose content is in its file.
    async fn finish_part(
        &self,
        upload: &MultipartUpload,
        number: u32,
        part: IncomingPart,
        trailers: &BodyTrailers,
    ) -> S3Result<(Part, Option<Sum>)> {
        let sums = part.hasher.end(trailers).await?;
        // The record has no algorithm: a checksum of another one would be taken for the upload's.
        let value = sums.sum.as_ref().filter(|sum| sum.algorithm == part_algorithm(upload)).map(|sum| sum.value.clone());
        let stored = part.writer.finish(number, sums.md5, value).await.map_err(internal_error("storing a part"))?;
        let replaced = self.state.add_part(&upload.id, &stored.part).map_err(state_failed)?.ok_or_else(no_such_upload)?;
        let part = stored.into_part();
        if let Some(replaced) = replaced {
            let (locks, files, lock_name) = (self.key_locks.clone(), self.transfers.parts.clone(), lock_name(&upload.id));
            // A completion may be reading the replaced file. The client doesn't wait for that.
            tokio::spawn(async move {
                let _upload_guard = locks.lock(lock_name).await;
                files.remove(&[replaced]);
            });
        }
        Ok((part, sums.sum))
    }

    pub(crate) async fn abort(&self, request: S3Request<dto::AbortMultipartUploadInput>) -> Answer<dto::AbortMultipartUploadOutput> {
        let input = request.input;
        // Waits for a completion, which reads the parts.
        let _upload_guard = self.lock_upload(&input.upload_id).await;
        Grant::of(&request.extensions)?.check(&self.namespace)?;
        let upload = self.namespace.upload_of(&input.bucket, &input.key, &input.upload_id)?;
        self.end_upload(&upload.id)?;
        Ok(S3Response::with_status(dto::AbortMultipartUploadOutput::default(), http::StatusCode::NO_CONTENT))
    }

    /// Keeps an upload from being completed or aborted, and the files of replaced parts from being
    /// removed, while the guard is held.
    pub(crate) async fn lock_upload(&self, id: &str) -> KeyGuard {
        self.key_locks.lock(lock_name(id)).await
    }

    /// Deletes an upload and its parts.
    pub(crate) fn end_upload(&self, id: &str) -> S3Result<()> {
        let parts = self.state.end_upload(id).map_err(state_failed)?;
        self.transfers.parts.remove(&parts.unwrap_or_default());
        Ok(())
    }
}

/// The name of an upload's lock, which no object has.
fn lock_name(id: &str) -> ObjectName {
    ObjectName(format!("upload {id}").into_bytes())
}

/// The algorithm that an upload was begun with.
pub(super) fn algorithm_of(upload: &MultipartUpload) -> Option<Algorithm> {
    upload.checksum_algorithm.as_deref().and_then(Algorithm::parse)
}

/// The algorithm of the checksums that are kept of an upload's parts.
pub(super) fn part_algorithm(upload: &MultipartUpload) -> Algorithm {
    algorithm_of(upload).unwrap_or(Algorithm::Crc64Nvme)
}

/// Whether the object's checksum covers its bytes or its parts' checksums, with AWS's default for
/// each algorithm.
fn checksum_type(algorithm: Option<Algorithm>, asked: Option<&str>) -> S3Result<Option<&'static str>> {
    let Some(algorithm) = algorithm else { return Ok(None) };
    match (asked, algorithm) {
        (None, Algorithm::Crc64Nvme) => Ok(Some(ChecksumType::FULL_OBJECT)),
        (None, _) => Ok(Some(ChecksumType::COMPOSITE)),
        (Some(ChecksumType::FULL_OBJECT), algorithm) if algorithm.is_linear() => Ok(Some(ChecksumType::FULL_OBJECT)),
        (Some(ChecksumType::COMPOSITE), algorithm) if algorithm != Algorithm::Crc64Nvme => Ok(Some(ChecksumType::COMPOSITE)),
        (Some(asked), _) => {
            Err(s3_error!(InvalidRequest, "The {asked} checksum type cannot be used with the {} checksum algorithm.", algorithm.name()))
        }
    }
}

pub(super) fn no_such_upload() -> s3s::S3Error {
    s3_error!(
        NoSuchUpload,
        "The specified multipart upload does not exist. The upload ID might be invalid, or the multipart upload might have been aborted or completed."
    )
}

pub(super) fn etag_of(part: &Part) -> ETag {
    ETag::Strong(hex(&part.md5))
}

fn number_of(number: i32) -> S3Result<u32> {
    u32::try_from(number).ok().filter(|number| (1..=PARTS_MAX).contains(number)).ok_or_else(wrong_part_number)
}

/// The bytes that are copied from a source of `size` bytes.
fn copied_range(asked: Option<&str>, size: u64) -> S3Result<Range<u64>> {
    let Some(text) = asked else { return Ok(0..size) };
    let range = parse_range(text).ok_or_else(|| {
        s3_error!(InvalidArgument, "The x-amz-copy-source-range value must be of the form bytes=first-last where first and last are the zero-based offsets of the first and last bytes to copy")
    })?;
    if range.end > size {
        return Err(s3_error!(InvalidArgument, "Range specified is not valid for source object of size: {size}"));
    }
    Ok(range)
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
    use futures_util::poll;
    use s3s::S3ErrorCode;
    use s3s::dto::CopySource;

    use super::*;
    use crate::test_gateway::{TestGateway, s3_request, soon};

    #[tokio::test(flavor = "multi_thread")]
    async fn a_copied_part_that_does_not_fit_in_staging_is_refused() {
        let test = TestGateway::with_staging_limit(1);
        test.put("moon", &vec![1; 600 << 10]).await;
        let upload_id = test.begin_upload("sun");
        let copy = |range: &str| {
            let mut input = dto::UploadPartCopyInput::builder();
            input.set_bucket("photos".to_owned());
            input.set_key("sun".to_owned());
            input.set_upload_id(upload_id.clone());
            input.set_part_number(1);
            input.set_copy_source(CopySource::Bucket { bucket: "photos".into(), key: "moon".into(), version_id: None });
            input.set_copy_source_range(Some(range.to_owned()));
            let mut request = s3_request(http::Method::PUT, input.build().expect("complete"));
            let account = test.gateway.state.account("ada").expect("looked up");
            request.extensions.insert(Caller { account, ..Default::default() });
            test.gateway.copy_part(request)
        };
        let refused = soon(copy("bytes=0-614399")).await.expect_err("it doesn't fit");
        assert_eq!(refused.code(), &S3ErrorCode::SlowDown);
        assert!(test.gateway.transfers.room.was_refused(), "a set is written to make room");
        soon(copy("bytes=0-99999")).await.expect("it fits");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_checksum_of_another_algorithm_is_not_taken_for_one_of_the_uploads() {
        let test = TestGateway::new();
        for algorithm in [Algorithm::Xxhash64, Algorithm::Crc32, Algorithm::Crc64Nvme] {
            let upload_id = test.begin_upload("sun");
            let (header, sum) = (algorithm.header(), algorithm.of(b"part"));
            let etag = test.put_part(("sun", &upload_id), 1, b"part", &[(header.as_str(), &sum)]).await;
            soon(test.complete(("sun", &upload_id), &[(1, &etag)], &[])).await.expect("complete");
            let version = test.gateway.namespace.find("photos", "sun", None).expect("it is there");
            let of_part = version.part_sum(1);
            assert_eq!(of_part.is_some(), algorithm == Algorithm::Crc64Nvme, "{of_part:?}");
            let expected = Sum { algorithm: Algorithm::Crc64Nvme, value: Algorithm::Crc64Nvme.of(b"part") };
            assert!(of_part.is_none_or(|sum| sum == expected));
            assert_eq!(version.sums(), [expected]);
        }
    }

    /// Waits until a task waits for the upload's lock.
    async fn contention(test: &TestGateway, upload_id: &str) {
        soon(async {
            while !test.gateway.key_locks.is_contended(&lock_name(upload_id)) {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_replaced_part_stays_until_no_completion_reads_it() {
        let test = TestGateway::new();
        let upload_id = test.begin_upload("sun");
        test.put_part(("sun", &upload_id), 1, b"before", &[]).await;
        // A completion holds this lock while it reads the parts.
        let completing = soon(test.gateway.lock_upload(&upload_id)).await;
        test.put_part(("sun", &upload_id), 1, b"after", &[]).await;
        let files = || std::fs::read_dir(test.gateway.archive.home().join("uploads")).expect("a folder").count();
        assert_eq!(files(), 2);
        contention(&test, &upload_id).await;
        drop(completing);
        soon(async {
            while files() != 1 {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_completion_reads_a_part_that_was_sent_again_since_it_was_checked() {
        let test = std::sync::Arc::new(TestGateway::new());
        let upload_id = test.begin_upload("sun");
        let etag = test.put_part(("sun", &upload_id), 1, b"part", &[]).await;
        let before = test.gateway.state.parts(&upload_id, 0, 1).expect("looked up");
        let guard = soon(test.gateway.lock_upload(&upload_id)).await;
        let (client, client_id, client_etag) = (test.clone(), upload_id.clone(), etag.clone());
        let completing = tokio::spawn(async move { client.complete(("sun", &client_id), &[(1, &client_etag)], &[]).await });
        contention(&test, &upload_id).await;
        test.put_part(("sun", &upload_id), 1, b"part", &[]).await;
        // As if its removal had been the next to get the lock.
        test.gateway.transfers.parts.remove(&before);
        drop(guard);
        soon(completing).await.expect("no panic").expect("complete");
    }

    #[tokio::test]
    async fn an_abort_waits_for_a_completion_in_progress() {
        let test = TestGateway::new();
        let upload_id = test.begin_upload("sun");
        let abort = || {
            let input = dto::AbortMultipartUploadInput {
                bucket: "photos".to_owned(),
                key: "sun".to_owned(),
                upload_id: upload_id.clone(),
                ..Default::default()
            };
            test.gateway.abort(s3_request(http::Method::DELETE, input))
        };
        // The completion holds this lock while it reads the parts.
        let completing = soon(test.gateway.lock_upload(&upload_id)).await;
        let mut waiting = std::pin::pin!(abort());
        assert!(poll!(&mut waiting).is_pending());
        assert!(test.gateway.state.upload(&upload_id).expect("looked up").is_some());
        drop(completing);
        soon(waiting).await.expect("aborted");
        assert_eq!(soon(abort()).await.expect_err("it is gone").code(), &S3ErrorCode::NoSuchUpload);
    }
}
