//! Multipart uploads.

use fulgurite_domain::{Attributes, ObjectName};
use http::header;
use s3s::dto::{
    AbortMultipartUploadInput, AbortMultipartUploadOutput, ChecksumAlgorithm, ChecksumType, CompleteMultipartUploadInput,
    CompleteMultipartUploadOutput, CreateMultipartUploadInput, CreateMultipartUploadOutput, ETag, UploadPartInput, UploadPartOutput,
};
use s3s::{S3Request, S3Response, S3Result, s3_error};
use tokio::sync::mpsc;

use crate::auth::caller::Peer;
use crate::gateway::Gateway;
use crate::http::addressing::url_of;
use crate::memory::Holder;
use crate::s3::completion::{NamedPart, NamedParts, check_claim, check_named, choose, composite, etag_of_parts, named_etag, part_sums};
use crate::s3::conditions::{ETags, may_replace};
use crate::s3::encryption::{asked, customer_key, said};
use crate::s3::errors::answers::Late;
use crate::s3::errors::{failed, no_such_bucket, state_failed};
use crate::s3::normalize::original;
use crate::s3::put::{Described, RESERVED_BYTES, Stored, check_key, put_sum, refuse_acl};
use crate::s3::version::{attribute, encode_sizes};
use crate::s3::xml_body::Document;
use crate::state::{Bucket, MultipartUpload, Part, Versioning, hex, now_ms};
use crate::transfer::checksums::{Algorithm, Claims, Named, Sum, Summed, Trailing, claimed, set_sum, unsupported};
use crate::transfer::upload::length_of;

/// Maximum number of parts.
const PARTS_MAX: u32 = 10_000;
/// Maximum size of an object.
const OBJECT_BYTES_MAX: u64 = 5 << 40;
/// Maximum size of parts' checksums that are stored with the object: attributes have 64 KiB, and
/// the sizes of 10,000 parts take 40 KiB.
const PART_CHECKSUMS_BYTES_MAX: usize = 16 << 10;
/// From this size on, the response to a completion starts with whitespace to keep the connection
/// alive.
const SLOW: u64 = 64 << 20;

impl Gateway {
    pub(crate) fn begin_multipart(
        &self,
        request: S3Request<CreateMultipartUploadInput>,
    ) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
        let account = request.extensions.get::<crate::auth::caller::Caller>().and_then(|caller| caller.account.clone());
        let original = original(&request.headers, &request.extensions);
        let input = request.input;
        check_key(&input.key)?;
        let bucket = self.bucket(&input.bucket)?;
        let encryption = self.encryption(&asked!(input))?;
        refuse_acl(input.acl.as_ref().map(|acl| acl.as_str()))?;
        let described = Described {
            content_type: input.content_type.as_deref(),
            cache_control: input.cache_control.as_deref(),
            content_disposition: input.content_disposition.as_deref(),
            content_encoding: input.content_encoding.as_deref(),
            content_language: input.content_language.as_deref(),
            website_redirect_location: input.website_redirect_location.as_deref(),
            expires: original.get(header::EXPIRES),
            metadata: input.metadata.as_ref(),
            storage_class: input.storage_class.as_ref(),
            tagging: input.tagging.as_deref(),
            lock_mode: input.object_lock_mode.as_ref(),
            lock_until: input.object_lock_retain_until_date.as_ref(),
            legal_hold: input.object_lock_legal_hold_status.as_ref(),
        };
        let attributes = described.attributes(&bucket)?;
        let algorithm = match &input.checksum_algorithm {
            None => None,
            Some(named) => Some(Algorithm::parse(named.as_str()).ok_or_else(unsupported)?),
        };
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
            key: input.key.clone(),
            account: account.map_or_else(|| bucket.owner.clone(), |account| account.name.clone()),
            created_ms: now_ms(),
            checksum_algorithm: algorithm.map(|algorithm| algorithm.name().to_owned()),
            checksum_type: kind.map(str::to_owned),
            attributes,
        };
        let id = self.state.begin_upload(&upload).map_err(state_failed)?.ok_or_else(no_such_bucket)?;
        let output = CreateMultipartUploadOutput {
            bucket: Some(bucket.name.clone()),
            key: Some(input.key),
            upload_id: Some(id),
            checksum_algorithm: algorithm.map(|algorithm| ChecksumAlgorithm::from(algorithm.name().to_uppercase())),
            checksum_type: kind.map(|kind| ChecksumType::from(kind.to_owned())),
            server_side_encryption: encryption,
            ..Default::default()
        };
        Ok(S3Response::new(output))
    }

    pub(crate) async fn put_part(&self, request: S3Request<UploadPartInput>) -> S3Result<S3Response<UploadPartOutput>> {
        let trailing = Trailing::of(&request);
        let mut input = request.input;
        let upload = self.upload_of(&input.bucket, &input.key, &input.upload_id)?;
        customer_key!(input).refuse()?;
        let number = number_of(input.part_number)?;
        let length = length_of(input.content_length, &request.headers)?;
        self.check_room(length)?;
        let claims = Claims::of(&request.headers)?;
        let wanted = upload.checksum_algorithm.as_deref().and_then(Algorithm::parse);
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
        let mut summing = self.summing(claims, wanted.unwrap_or(Algorithm::Crc64Nvme));
        let mut body = self.body(input.body.take(), length, &request.extensions);
        let mut writer = self.parts.begin(length, body.holder()).map_err(|error| failed("beginning a part", &error))?;
        while let Some(piece) = body.next().await? {
            summing.update(&piece).await;
            writer.write(&piece).await.map_err(|error| failed("writing a part", &error))?;
        }
        let summed = summing.end(&trailing).await?;
        let part = self.keep_part(&upload, number, writer, summed.clone()).await?;
        let output = UploadPartOutput {
            e_tag: Some(ETag::Strong(hex(&part.md5))),
            server_side_encryption: self.new_encryption(),
            ..Default::default()
        };
        let mut response = S3Response::new(output);
        if let Some(sum) = summed.sum {
            sum.put(&mut response.headers);
        }
        Ok(response)
    }

    /// Finishes and records a part whose content is in its file.
    pub(crate) async fn keep_part(
        &self,
        upload: &MultipartUpload,
        number: u32,
        writer: crate::transfer::parts::PartWriter,
        summed: Summed,
    ) -> S3Result<Part> {
        let stored =
            writer.finish(number, summed.md5, summed.sum.map(|sum| sum.value)).await.map_err(|error| failed("storing a part", &error))?;
        let replaced = self.state.add_part(&upload.id, &stored.part).map_err(state_failed)?.ok_or_else(no_such_upload)?;
        let part = stored.keep();
        self.parts.remove(replaced.as_slice());
        Ok(part)
    }

    pub(crate) fn abort(&self, request: S3Request<AbortMultipartUploadInput>) -> S3Result<S3Response<AbortMultipartUploadOutput>> {
        let input = request.input;
        let upload = self.upload_of(&input.bucket, &input.key, &input.upload_id)?;
        self.end_upload(&upload.id)?;
        Ok(S3Response::with_status(AbortMultipartUploadOutput::default(), http::StatusCode::NO_CONTENT))
    }

    /// Deletes an upload and its parts.
    pub(crate) fn end_upload(&self, id: &str) -> S3Result<()> {
        let parts = self.state.end_upload(id).map_err(state_failed)?;
        self.parts.remove(&parts.unwrap_or_default());
        Ok(())
    }

    /// An upload in progress for this key.
    pub(crate) fn upload_of(&self, bucket: &str, key: &str, id: &str) -> S3Result<MultipartUpload> {
        self.bucket(bucket)?;
        let upload = self.state.upload(id).map_err(state_failed)?;
        upload.filter(|upload| upload.bucket == bucket && upload.key == key).ok_or_else(no_such_upload)
    }

    pub(crate) async fn complete(
        self: std::sync::Arc<Self>,
        request: S3Request<CompleteMultipartUploadInput>,
    ) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
        let claim = claimed(&request.headers)?;
        let original = original(&request.headers, &request.extensions);
        let conditions = (ETags::of(original, "if-match"), ETags::of(original, "if-none-match"));
        let NamedParts(given) = Document::read(&request.extensions)?;
        let location = url_of(&request.uri, &request.headers, request.extensions.get::<Peer>());
        let input = request.input;
        let bucket = self.bucket(&input.bucket)?;
        if given.is_empty() {
            return Err(s3_error!(
                MalformedXML,
                "The XML you provided was not well-formed or did not validate against our published schema"
            ));
        }
        let upload = match self.upload_of(&input.bucket, &input.key, &input.upload_id) {
            Ok(upload) => upload,
            Err(error) => return self.completed_before(&bucket, &input, &given, &location)?.ok_or(error),
        };
        let kind = upload.checksum_type.as_deref().unwrap_or(ChecksumType::FULL_OBJECT);
        if input.checksum_type.as_ref().is_some_and(|asked| asked.as_str() != kind) {
            return Err(s3_error!(
                InvalidRequest,
                "The upload was created using the {kind} checksum mode. The complete request must use the same checksum mode."
            ));
        }
        let all = self.state.parts(&upload.id, 0, PARTS_MAX as usize).map_err(state_failed)?;
        let parts = choose(&given, &all)?;
        let algorithm = upload.checksum_algorithm.as_deref().and_then(Algorithm::parse);
        if upload.checksum_type.as_deref() == Some(ChecksumType::COMPOSITE) {
            // An early check, before the parts are read in vain.
            let algorithm = algorithm.unwrap_or(Algorithm::Crc64Nvme);
            check_claim(claim.as_ref(), &composite(algorithm, &part_sums(&parts), parts.len()))?;
        }
        check_named(&given, algorithm)?;
        let size: u64 = parts.iter().map(|part| part.size).sum();
        if size > OBJECT_BYTES_MAX {
            return Err(s3_error!(EntityTooLarge, "Your proposed upload exceeds the maximum allowed object size."));
        }
        if let Some(expected) = input.mpu_object_size
            && expected as u64 != size
        {
            return Err(s3_error!(
                InvalidRequest,
                "The provided 'x-amz-mp-object-size' header value {expected} does not match what was computed: {size}"
            ));
        }
        self.check_room(size)?;
        let current = self.newest(&bucket.name, &input.key)?.filter(|version| !version.is_marker());
        may_replace(conditions.0.as_ref(), conditions.1.as_ref(), current.as_ref())?;
        let wanted = Wanted { given, claim, conditions, location };
        if size < SLOW {
            return self.assemble(bucket, input, wanted, upload, parts).await.map(|output| answered(output, algorithm));
        }
        // Completion takes a while. The framework sends spaces meanwhile, and reports an error in
        // the body.
        let encryption = self.new_encryption();
        let future = async move { self.assemble(bucket, input, wanted, upload, parts).await };
        let output =
            CompleteMultipartUploadOutput { future: Some(Box::pin(future)), server_side_encryption: encryption, ..Default::default() };
        let mut response = answered(output, algorithm);
        response.extensions.insert(Late);
        Ok(response)
    }

    /// Answers a retried completion of an upload that is already complete. If the client lists
    /// other parts, the retry fails.
    fn completed_before(
        &self,
        bucket: &Bucket,
        input: &CompleteMultipartUploadInput,
        given: &[NamedPart],
        location: &str,
    ) -> S3Result<Option<S3Response<CompleteMultipartUploadOutput>>> {
        let Some(version) = self.newest(&bucket.name, &input.key)? else { return Ok(None) };
        let named = named_etag(given);
        let is_of_it = version.attributes().text(attribute::UPLOAD) == Some(input.upload_id.as_str())
            && named.is_some_and(|etag| etag == version.etag().value());
        Ok(is_of_it.then(|| {
            let version_id = (bucket.versioning == Versioning::Enabled).then(|| version.id());
            let stored = Stored { etag: version.etag(), version_id };
            let sum = version.sums().pop();
            let algorithm = sum.as_ref().map(|sum| sum.algorithm);
            let mut output = answer(input, location, stored, sum, Some(version.checksum_type()));
            output.server_side_encryption = said(version.row.sealed);
            answered(output, algorithm)
        }))
    }

    /// Puts the parts as one object.
    async fn assemble(
        &self,
        bucket: std::sync::Arc<Bucket>,
        input: CompleteMultipartUploadInput,
        wanted: Wanted,
        upload: MultipartUpload,
        parts: Vec<Part>,
    ) -> S3Result<CompleteMultipartUploadOutput> {
        let _held = self.names.hold(ObjectName(format!("upload {}", upload.id).into_bytes())).await;
        // Another request may have completed or aborted the upload meanwhile.
        if let Err(error) = self.upload_of(&input.bucket, &input.key, &upload.id) {
            let before = self.completed_before(&bucket, &input, &wanted.given, &wanted.location)?;
            return before.map(|response| response.output).ok_or(error);
        }
        let algorithm = upload.checksum_algorithm.as_deref().and_then(Algorithm::parse).unwrap_or(Algorithm::Crc64Nvme);
        let is_composite = upload.checksum_type.as_deref() == Some(ChecksumType::COMPOSITE);
        let mut hasher = (!is_composite).then(|| algorithm.hasher());
        let size: u64 = parts.iter().map(|part| part.size).sum();
        let mut object = self.receiving(Holder::own());
        let _turn = self.rereads.acquire().await.expect("it is never closed");
        // The reader runs ahead of the writer by a few frames.
        let (pieces_in, mut pieces) = mpsc::channel::<Vec<u8>>(16);
        let (files, all) = (self.parts.clone(), parts.clone());
        let reading = tokio::task::spawn_blocking(move || {
            all.iter().try_for_each(|part| {
                files.read(part, &mut |bytes| pieces_in.blocking_send(bytes.to_vec()).map_err(|_| std::io::ErrorKind::BrokenPipe.into()))
            })
        });
        while let Some(piece) = pieces.recv().await {
            if let Some(hasher) = &mut hasher {
                hasher.update(&piece);
            }
            self.write(&mut object, &piece, size).await;
        }
        reading.await.map_err(|error| failed("reading parts", &error))?.map_err(|error| failed("reading a part", &error))?;

        let mut attributes = upload.attributes.clone();
        attributes.set(attribute::ETAG, etag_of_parts(parts.iter().map(|part| part.md5)));
        attributes.set(attribute::UPLOAD, upload.id.as_str());
        // With long tags, a record may have no room for the properties of 10,000 parts. The object
        // is stored without them; it can still be read whole and by range.
        let has_room = |attributes: &Attributes, bytes: usize| attributes.bytes() + bytes + RESERVED_BYTES <= Attributes::BYTES_MAX;
        let sizes = encode_sizes(&parts.iter().map(|part| part.size).collect::<Vec<_>>());
        if has_room(&attributes, sizes.len()) {
            attributes.set(attribute::PARTS, sizes);
        }
        let part_sums = part_sums(&parts);
        if part_sums.len() == parts.len() * algorithm.bytes()
            && part_sums.len() <= PART_CHECKSUMS_BYTES_MAX
            && has_room(&attributes, part_sums.len())
        {
            attributes.set(attribute::PART_CHECKSUMS, part_sums.as_slice());
        }
        let sum = match hasher {
            Some(hasher) => Sum { algorithm, value: hasher.finish() },
            None => {
                attributes.set(attribute::CHECKSUM_TYPE, ChecksumType::COMPOSITE);
                composite(algorithm, &part_sums, parts.len())
            }
        };
        check_claim(wanted.claim.as_ref(), &sum)?;
        put_sum(Some(&sum), &mut attributes);
        let conditions = (wanted.conditions.0.as_ref(), wanted.conditions.1.as_ref());
        let stored = self.store(&bucket, &input.key, object.upload(), attributes, conditions).await?;
        // A crash before this point leaves an upload that can be completed again or aborted.
        self.end_upload(&upload.id)?;
        let kind = if is_composite { ChecksumType::COMPOSITE } else { ChecksumType::FULL_OBJECT };
        let mut output = answer(&input, &wanted.location, stored, Some(sum), Some(ChecksumType::from_static(kind)));
        output.server_side_encryption = self.new_encryption();
        Ok(output)
    }
}

/// A client's claims about the new object: checksum, conditions, and the requested URL.
struct Wanted {
    given: Vec<NamedPart>,
    claim: Option<Sum>,
    conditions: (Option<ETags>, Option<ETags>),
    location: String,
}

/// A response with checksums of this algorithm.
fn answered(output: CompleteMultipartUploadOutput, algorithm: Option<Algorithm>) -> S3Response<CompleteMultipartUploadOutput> {
    let mut response = S3Response::new(output);
    if let Some(algorithm) = algorithm {
        Named::say(algorithm, &mut response.extensions);
    }
    response
}

fn answer(
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

pub(crate) fn number_of(number: i32) -> S3Result<u32> {
    u32::try_from(number)
        .ok()
        .filter(|number| (1..=PARTS_MAX).contains(number))
        .ok_or_else(|| s3_error!(InvalidArgument, "Part number must be an integer between 1 and 10000, inclusive"))
}

pub(crate) fn no_such_upload() -> s3s::S3Error {
    s3_error!(
        NoSuchUpload,
        "The specified multipart upload does not exist. The upload ID might be invalid, or the multipart upload might have been aborted or completed."
    )
}
