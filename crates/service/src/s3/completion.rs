//! Completes multipart uploads: puts their parts as one object.

use std::panic::resume_unwind;
use std::sync::Arc;

use fulgurite_domain::Attributes;
use s3s::dto::{ChecksumType, CompleteMultipartUploadInput, CompleteMultipartUploadOutput};
use s3s::{S3Request, S3Response, S3Result, s3_error};
use tokio::sync::mpsc;

use crate::auth::caller::Peer;
use crate::auth::grant::GrantedBucket;
use crate::gateway::Gateway;
use crate::http::addressing::url_of;
use crate::memory::MemoryOwner;
use crate::s3::Answer;
use crate::s3::completed_parts::{
    NamedPart, NamedParts, check_claim, check_part_checksums, composite, etag_of_parts, part_sums, select_parts,
};
use crate::s3::conditions::PutConditions;
use crate::s3::errors::answers::LateXml;
use crate::s3::errors::{internal_error, malformed_xml, state_failed};
use crate::s3::multipart::{PARTS_MAX, algorithm_of, part_algorithm};
use crate::s3::new_object::RESERVED_BYTES;
use crate::s3::normalize::original;
use crate::s3::put::{Stored, put_sum};
use crate::s3::version::{attribute, encode_sizes};
use crate::s3::xml_body::SentBody;
use crate::state::{Bucket, MultipartUpload, Part};
use crate::transfer::Transfers;
use crate::transfer::checksums::{Algorithm, ChecksumElement, Hasher, Sum, find_claimed_sum, set_sum};
use crate::transfer::upload::IncomingObject;

/// Maximum size of an object.
const OBJECT_BYTES_MAX: u64 = 5 << 40;
/// Limit on parts' checksums stored with the object. All attributes share 64 KiB, of which the
/// sizes of 10,000 parts take 39 KiB: 4 bytes each, for parts below 256 MiB.
const PART_CHECKSUMS_BYTES_MAX: usize = 16 << 10;
/// From this size on, the response to a completion starts with whitespace to keep the connection
/// alive.
const KEEP_ALIVE_BYTES_MIN: u64 = 64 << 20;

/// What the client asks of the new object: parts, checksum, conditions, and the requested URL.
pub(super) struct CompletionRequest {
    pub(super) requested_parts: Vec<NamedPart>,
    claimed_sum: Option<Sum>,
    conditions: PutConditions,
    pub(super) location: String,
}

impl Gateway {
    pub(crate) async fn complete(
        self: Arc<Self>,
        request: S3Request<CompleteMultipartUploadInput>,
    ) -> Answer<CompleteMultipartUploadOutput> {
        let NamedParts(requested_parts) = SentBody::read(&request.extensions)?;
        let completion = CompletionRequest {
            requested_parts,
            claimed_sum: find_claimed_sum(&request.headers)?,
            conditions: PutConditions::of(original(&request.headers, &request.extensions), ""),
            location: url_of(&request.uri, &request.headers, request.extensions.get::<Peer>()),
        };
        let input = request.input;
        let bucket = self.namespace.granted(&request.extensions, &input.bucket)?;
        if completion.requested_parts.is_empty() {
            return Err(malformed_xml());
        }
        let checked = self.check_completion(&bucket, &input, &completion);
        // After the checks: one of them may have failed because a completion ended meanwhile.
        let completed = || self.namespace.completed_version(&bucket.name, &input.key, &input.upload_id);
        // A name may have very many versions.
        if let Some(version) = tokio::task::block_in_place(completed)? {
            return self.repeat_completion(&bucket, &input, &completion, &version);
        }
        let (upload, size) = checked?;
        let algorithm = algorithm_of(&upload);
        if size < KEEP_ALIVE_BYTES_MIN {
            return self.assemble(bucket, input, completion, upload).await.map(|output| with_checksums(output, algorithm));
        }
        // Completion takes a while. The framework sends spaces meanwhile, and reports an error in
        // the body.
        let encryption = self.namespace.new_encryption();
        let future = async move { self.assemble(bucket, input, completion, upload).await };
        let output =
            CompleteMultipartUploadOutput { future: Some(Box::pin(future)), server_side_encryption: encryption, ..Default::default() };
        let mut response = with_checksums(output, algorithm);
        response.extensions.insert(LateXml);
        Ok(response)
    }

    /// The upload and the size of its listed parts, checked as far as is possible without reading
    /// the parts.
    fn check_completion(
        &self,
        bucket: &Bucket,
        input: &CompleteMultipartUploadInput,
        completion: &CompletionRequest,
    ) -> S3Result<(MultipartUpload, u64)> {
        let upload = self.namespace.upload_of(&input.bucket, &input.key, &input.upload_id)?;
        check_checksum_type(&upload, input)?;
        let parts = self.listed_parts(&upload, completion)?;
        let algorithm = algorithm_of(&upload);
        if is_composite(&upload) {
            // Checked early, to avoid reading the parts in vain; `assemble` checks again.
            let algorithm = part_algorithm(&upload);
            check_claim(completion.claimed_sum.as_ref(), &composite(algorithm, &part_sums(algorithm, &parts), parts.len()))?;
        }
        check_part_checksums(&completion.requested_parts, algorithm)?;
        let size = bytes_of(&parts);
        check_size(size, input.mpu_object_size)?;
        self.transfers.check_room(size)?;
        self.namespace.check_replaceable(&bucket.name, &input.key, &completion.conditions)?;
        Ok((upload, size))
    }

    fn listed_parts(&self, upload: &MultipartUpload, completion: &CompletionRequest) -> S3Result<Vec<Part>> {
        let all = self.state.parts(&upload.id, 0, PARTS_MAX as usize).map_err(state_failed)?;
        select_parts(&completion.requested_parts, &all)
    }

    /// Puts the parts as one object.
    async fn assemble(
        self: Arc<Self>,
        bucket: GrantedBucket,
        input: CompleteMultipartUploadInput,
        completion: CompletionRequest,
        upload: MultipartUpload,
    ) -> S3Result<CompleteMultipartUploadOutput> {
        let upload_guard = self.lock_upload(&upload.id).await;
        // Another request may have completed or aborted the upload meanwhile.
        let completed = || self.namespace.completed_version(&bucket.name, &input.key, &upload.id);
        if let Some(version) = tokio::task::block_in_place(completed)? {
            return self.repeat_completion(&bucket, &input, &completion, &version).map(|response| response.output);
        }
        self.namespace.upload_of(&input.bucket, &input.key, &upload.id)?;
        // Only now: the file of a part that was sent again before this lock was taken may be gone.
        let parts = self.listed_parts(&upload, &completion)?;
        let algorithm = part_algorithm(&upload);
        let mut hasher = (!is_composite(&upload)).then(|| algorithm.hasher());
        let object = self.transfers.copy_parts(&parts, hasher.as_mut()).await?;
        let part_sums = part_sums(algorithm, &parts);
        let mut attributes = attributes_of(&upload, &parts, algorithm, &part_sums);
        let (sum, kind) = match hasher {
            Some(hasher) => (Sum { algorithm, value: hasher.finish() }, ChecksumType::FULL_OBJECT),
            None => {
                attributes.set(attribute::CHECKSUM_TYPE, ChecksumType::COMPOSITE);
                (composite(algorithm, &part_sums, parts.len()), ChecksumType::COMPOSITE)
            }
        };
        check_claim(completion.claimed_sum.as_ref(), &sum)?;
        put_sum(Some(&sum), &mut attributes);
        let CompletionRequest { conditions, location, .. } = completion;
        let (gateway, key) = (self.clone(), input.key.clone());
        // In a task of its own, since the client may disconnect between the two steps. If the
        // upload remained, a retry could replace a newer object.
        let storing = tokio::spawn(async move {
            let _upload_guard = upload_guard;
            let stored = gateway.store(&bucket, &key, object.upload(), attributes, &conditions).await?;
            gateway.end_upload(&upload.id)?;
            Ok(stored)
        });
        let stored: S3Result<Stored> = match storing.await {
            Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
            stored => stored.map_err(internal_error("completing an upload"))?,
        };
        let mut output = output_of(&input, &location, stored?, Some(sum), Some(ChecksumType::from_static(kind)));
        output.server_side_encryption = self.namespace.new_encryption();
        Ok(output)
    }
}

impl Transfers {
    /// Copies the content of parts to staging, and into a checksum.
    async fn copy_parts(&self, parts: &[Part], mut hasher: Option<&mut Hasher>) -> S3Result<IncomingObject> {
        let size = bytes_of(parts);
        let mut object = self.begin_object(MemoryOwner::own());
        let _permit = self.copy_permits.acquire().await.expect("it is never closed");
        // The reader runs ahead of the writer by up to 16 frames.
        let (pieces_tx, mut pieces_rx) = mpsc::channel::<Vec<u8>>(16);
        let (files, all) = (self.parts.clone(), parts.to_vec());
        let reading = tokio::task::spawn_blocking(move || {
            all.iter().try_for_each(|part| {
                files.read(part, &mut |bytes| pieces_tx.blocking_send(bytes.to_vec()).map_err(|_| std::io::ErrorKind::BrokenPipe.into()))
            })
        });
        while let Some(piece) = pieces_rx.recv().await {
            if let Some(hasher) = &mut hasher {
                hasher.update(&piece);
            }
            // An error of the writer surfaces at the commit.
            self.write(&mut object, &piece, size).await;
        }
        reading.await.map_err(internal_error("reading parts"))?.map_err(internal_error("reading a part"))?;
        Ok(object)
    }
}

fn bytes_of(parts: &[Part]) -> u64 {
    parts.iter().map(|part| part.size).sum()
}

fn is_composite(upload: &MultipartUpload) -> bool {
    upload.checksum_type.as_deref() == Some(ChecksumType::COMPOSITE)
}

fn check_checksum_type(upload: &MultipartUpload, input: &CompleteMultipartUploadInput) -> S3Result<()> {
    let kind = upload.checksum_type.as_deref().unwrap_or(ChecksumType::FULL_OBJECT);
    if input.checksum_type.as_ref().is_some_and(|asked| asked.as_str() != kind) {
        return Err(s3_error!(
            InvalidRequest,
            "The upload was created using the {kind} checksum mode. The complete request must use the same checksum mode."
        ));
    }
    Ok(())
}

/// Checks the size of an object against the limit and against what the client expects.
fn check_size(size: u64, expected: Option<i64>) -> S3Result<()> {
    if size > OBJECT_BYTES_MAX {
        return Err(s3_error!(EntityTooLarge, "Your proposed upload exceeds the maximum allowed object size."));
    }
    match expected {
        Some(expected) if expected as u64 != size => Err(s3_error!(
            InvalidRequest,
            "The provided 'x-amz-mp-object-size' header value {expected} does not match what was computed: {size}"
        )),
        _ => Ok(()),
    }
}

/// The attributes of an object with these parts, without its checksum.
fn attributes_of(upload: &MultipartUpload, parts: &[Part], algorithm: Algorithm, part_sums: &[u8]) -> Attributes {
    let mut attributes = upload.attributes.clone();
    attributes.set(attribute::ETAG, etag_of_parts(parts.iter().map(|part| part.md5)));
    attributes.set(attribute::UPLOAD, upload.id.as_str());
    // With long tags, a record may have no room for the properties of 10,000 parts. The object is
    // stored without them; it can still be read whole and by range.
    let has_room = |attributes: &Attributes, bytes: usize| attributes.bytes() + bytes + RESERVED_BYTES <= Attributes::BYTES_MAX;
    let sizes = encode_sizes(&parts.iter().map(|part| part.size).collect::<Vec<_>>());
    if has_room(&attributes, sizes.len()) {
        attributes.set(attribute::PARTS, sizes);
    }
    let is_complete = part_sums.len() == parts.len() * algorithm.bytes();
    if is_complete && part_sums.len() <= PART_CHECKSUMS_BYTES_MAX && has_room(&attributes, part_sums.len()) {
        attributes.set(attribute::PART_CHECKSUMS, part_sums);
    }
    attributes
}

/// A response with checksums of this algorithm.
pub(super) fn with_checksums(
    output: CompleteMultipartUploadOutput,
    algorithm: Option<Algorithm>,
) -> S3Response<CompleteMultipartUploadOutput> {
    let mut response = S3Response::new(output);
    if let Some(algorithm) = algorithm {
        ChecksumElement::set(algorithm, &mut response.extensions);
    }
    response
}

pub(super) fn output_of(
    input: &CompleteMultipartUploadInput,
    location: &str,
    stored: Stored,
    sum: Option<Sum>,
    kind: Option<ChecksumType>,
) -> CompleteMultipartUploadOutput {
    let mut output = CompleteMultipartUploadOutput {
        bucket: Some(input.bucket.clone()),
        key: Some(input.key.clone()),
        e_tag: Some(stored.etag),
        version_id: stored.version_id,
        location: Some(location.to_owned()),
        checksum_type: kind,
        ..Default::default()
    };
    if let Some(Sum { algorithm, value }) = sum {
        set_sum!(output, algorithm, value);
    }
    output
}
