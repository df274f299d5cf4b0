//! Content on its way in: from the body of a request, in pieces, to staging or to the file of a part. Nothing is held whole.

use bytes::Bytes;
use fulgurite_archive::Upload;
use futures_util::StreamExt;
use s3s::dto::StreamingBlob;
use s3s::{S3Error, S3Result, s3_error};

use crate::checksums::Summing;
use crate::failures::custom;
use crate::gateway::Gateway;

/// The most content of one put or part, as with AWS.
pub(crate) const PUT_BYTES_MAX: u64 = 5 << 30;
/// Content that a record of staging takes.
const RECORD_CONTENT: usize = 1 << 20;
/// How long a client may send nothing.
pub(crate) const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

/// The length that a client says its content has: that of the body, or what is in it where it is sent in chunks of HTTP and of AWS.
pub(crate) fn length_of(content_length: Option<i64>, headers: &http::HeaderMap) -> S3Result<u64> {
    let decoded = || headers.get("x-amz-decoded-content-length")?.to_str().ok()?.parse().ok();
    let length = content_length
        .or_else(decoded)
        .ok_or_else(|| s3_error!(MissingContentLength, "You must provide the Content-Length HTTP header."))?;
    let length = u64::try_from(length).map_err(|_| s3_error!(InvalidArgument, "Content-Length can't be negative."))?;
    if length > PUT_BYTES_MAX {
        return Err(s3_error!(EntityTooLarge, "Your proposed upload exceeds the maximum allowed size"));
    }
    Ok(length)
}

/// In a request: how long its content may be, where nobody says how long it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UpTo(pub(crate) u64);

/// Pieces of a body, up to the length that was announced.
pub(crate) struct Body {
    stream: Option<StreamingBlob>,
    expected: u64,
    /// It may end before.
    or_less: bool,
    received: u64,
}

impl Body {
    pub(crate) fn new(stream: Option<StreamingBlob>, expected: u64) -> Self {
        Self { stream, expected, or_less: false, received: 0 }
    }

    /// A body that ends by itself.
    pub(crate) fn up_to(stream: Option<StreamingBlob>, most: u64) -> Self {
        Self { stream, expected: most, or_less: true, received: 0 }
    }

    /// The next piece; none at the end, when all of it has come.
    pub(crate) async fn next(&mut self) -> S3Result<Option<Bytes>> {
        let Some(stream) = &mut self.stream else { return self.end() };
        let piece = tokio::time::timeout(PATIENCE, stream.next()).await.map_err(|_| {
            s3_error!(RequestTimeout, "Your socket connection to the server was not read from or written to within the timeout period.")
        })?;
        match piece {
            None => self.end(),
            Some(Ok(bytes)) => {
                self.received += bytes.len() as u64;
                if self.received > self.expected {
                    return Err(incomplete());
                }
                Ok(Some(bytes))
            }
            // The framework checks signatures of chunks and digests of whole bodies on the way, and tells by errors of its own.
            Some(Err(error)) => match error.downcast::<S3Error>() {
                Ok(error) => Err(*error),
                Err(error) => Err(unreadable(&*error)),
            },
        }
    }

    fn end(&self) -> S3Result<Option<Bytes>> {
        if self.received == self.expected || self.or_less { Ok(None) } else { Err(incomplete()) }
    }
}

pub(crate) fn incomplete() -> S3Error {
    s3_error!(IncompleteBody, "The request body terminated unexpectedly")
}

pub(crate) fn unreadable(error: &(dyn std::error::Error + Send + Sync + 'static)) -> S3Error {
    let text = error.to_string();
    tracing::debug!(error = %text, "a body that can't be read");
    if text.contains("SignatureMismatch") {
        return s3_error!(SignatureDoesNotMatch, "The signature of a chunk does not match.");
    }
    if text.contains("Sha256Mismatch") {
        return custom(
            "XAmzContentSHA256Mismatch",
            http::StatusCode::BAD_REQUEST,
            "The provided 'x-amz-content-sha256' header does not match what was computed.",
        );
    }
    incomplete()
}

impl Gateway {
    /// Takes content into staging, in records of 1 MiB; each waits for its share of the memory that all clients have.
    pub(crate) async fn receive(&self, body: &mut Body, summing: &mut Summing) -> S3Result<Upload> {
        let mut upload = self.intake.upload();
        while let Some(piece) = body.next().await? {
            summing.update(&piece);
            self.write(&mut upload, &piece, body.expected).await;
        }
        Ok(upload)
    }

    /// Writes content of an object of about `expected` bytes to an upload.
    pub(crate) async fn write(&self, upload: &mut Upload, content: &[u8], expected: u64) {
        let mut rest = content;
        while !rest.is_empty() {
            if upload.room() == 0 {
                let left = expected.saturating_sub(upload.size()).max(rest.len() as u64).min(RECORD_CONTENT as u64) as usize;
                let kib = left.div_ceil(1 << 10) as u32;
                let share = self.incoming.clone().acquire_many_owned(kib).await.expect("it is never closed");
                upload.begin_record(left, Box::new(share));
            }
            let (now, later) = rest.split_at(rest.len().min(upload.room()));
            upload.write(now);
            rest = later;
        }
    }
}
