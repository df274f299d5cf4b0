//! Uploads: content from the body of a request, in pieces, to staging or to the file of a part. It
//! is never buffered whole.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fulgurite_archive::Upload;
use fulgurite_archive::catalogue::StagedTotals;
use fulgurite_archive::staging::Free;
use fulgurite_format::FRAME_BYTES;
use futures_util::StreamExt;
use s3s::dto::StreamingBlob;
use s3s::{S3Error, S3Result, s3_error};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::memory::{MemoryOwner, MemoryPool};
use crate::s3::errors::{catalogue_failed, slow_down};
use crate::s3::framework::stream_error;
use crate::transfer::Transfers;
use crate::transfer::checksums::{Algorithm, BodyTrailers, Claims, ContentHasher, ContentSums};
use crate::transfer::staging_room::{fits, room};

/// Maximum content of one put or part, the same as AWS.
pub(crate) const PUT_BYTES_MAX: u64 = 5 << 30;
/// Maximum content of a data record in staging.
const RECORD_CONTENT_BYTES: usize = 1 << 20;
/// Timeout for a client that sends nothing.
pub(crate) const CLIENT_TIMEOUT: Duration = Duration::from_secs(60);
/// Time in which a client must send a data record's content (35 KB/s) if others wait for the memory
/// that it occupies.
const SCARCE_MEMORY_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval of the checks for idle clients.
const IDLE_CHECK_PERIOD: Duration = Duration::from_secs(5);

/// The announced length of content: `Content-Length`, or the decoded length if the content is in
/// HTTP or AWS chunks.
pub(crate) fn length_of(content_length: Option<i64>, headers: &http::HeaderMap) -> S3Result<u64> {
    let decoded = || headers.get("x-amz-decoded-content-length")?.to_str().ok()?.parse().ok();
    let length = content_length
        .or_else(decoded)
        .ok_or_else(|| s3_error!(MissingContentLength, "You must provide the Content-Length HTTP header."))?;
    let length = u64::try_from(length).map_err(|_| s3_error!(InvalidArgument, "Content-Length must not be negative."))?;
    if length > PUT_BYTES_MAX {
        return Err(s3_error!(EntityTooLarge, "Your proposed upload exceeds the maximum allowed size"));
    }
    Ok(length)
}

/// The maximum length of content without an announced length, as a request extension.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LengthLimit(pub(crate) u64);

/// The pieces of a body, checked against its announced length.
pub(crate) struct IncomingBody {
    stream: Option<StreamingBlob>,
    expected: u64,
    /// Whether the body may end early.
    may_end_early: bool,
    received: u64,
    /// The memory that all bulk requests share, and the free bytes below which it counts as scarce.
    /// `None` for all other requests.
    memory: Option<(MemoryPool, usize)>,
    /// The owner of the memory that the body takes.
    memory_owner: MemoryOwner,
    /// Time spent waiting for the client since `waited_from` bytes had arrived.
    waited: Duration,
    waited_from: u64,
}

impl IncomingBody {
    /// The body of a request with `expected` bytes of content.
    pub(crate) fn of_request(stream: Option<StreamingBlob>, expected: u64, extensions: &http::Extensions) -> Self {
        Self::new(stream, expected, extensions.get().cloned().unwrap_or_else(MemoryOwner::own))
    }

    fn new(stream: Option<StreamingBlob>, expected: u64, memory_owner: MemoryOwner) -> Self {
        Self { stream, expected, may_end_early: false, received: 0, memory: None, memory_owner, waited: Duration::ZERO, waited_from: 0 }
    }

    /// Applies the shorter timeout when fewer than `scarce_bytes` of this memory are free.
    pub(crate) fn of_memory(self, memory: MemoryPool, scarce_bytes: usize) -> Self {
        Self { memory: Some((memory, scarce_bytes)), ..self }
    }

    /// The owner of the memory that the body takes.
    pub(crate) fn memory_owner(&self) -> &MemoryOwner {
        &self.memory_owner
    }

    /// Allows the body to end early.
    pub(crate) fn may_end_early(self) -> Self {
        Self { may_end_early: true, ..self }
    }

    /// The next piece; `None` at the end. An incomplete body is an error.
    pub(crate) async fn next(&mut self) -> S3Result<Option<Bytes>> {
        let Some(stream) = &mut self.stream else { return self.end() };
        let begun = Instant::now();
        let is_scarce = || self.memory.as_ref().is_some_and(|(memory, scarce_bytes)| memory.room_of(&self.memory_owner) < *scarce_bytes);
        let piece = loop {
            let piece = tokio::time::timeout(IDLE_CHECK_PERIOD, stream.next()).await;
            let waiting = begun.elapsed();
            // When memory is scarce, one piece a minute is not enough: a hundred such clients could
            // hold all of it. A client whose body has ended holds it no longer.
            let has_ended = matches!(piece, Ok(None));
            let is_too_slow = || self.waited + waiting >= SCARCE_MEMORY_TIMEOUT && is_scarce();
            if (piece.is_err() && waiting >= CLIENT_TIMEOUT) || (!has_ended && is_too_slow()) {
                return Err(s3_error!(
                    RequestTimeout,
                    "Your socket connection to the server was not read from or written to within the timeout period."
                ));
            }
            if let Ok(piece) = piece {
                break piece;
            }
        };
        self.waited += begun.elapsed();
        match piece {
            None => self.end(),
            Some(Ok(bytes)) => {
                self.received += bytes.len() as u64;
                if self.received > self.expected {
                    return Err(incomplete());
                }
                if self.received - self.waited_from >= RECORD_CONTENT_BYTES as u64 {
                    (self.waited, self.waited_from) = (Duration::ZERO, self.received);
                }
                Ok(Some(bytes))
            }
            Some(Err(error)) => Err(stream_error(error)),
        }
    }

    fn end(&self) -> S3Result<Option<Bytes>> {
        if self.received == self.expected || self.may_end_early { Ok(None) } else { Err(incomplete()) }
    }
}

pub(crate) fn incomplete() -> S3Error {
    s3_error!(IncompleteBody, "The request body terminated unexpectedly")
}

/// An object on its way to staging, and the owner of its memory.
pub(crate) struct IncomingObject {
    upload: Upload,
    memory_owner: MemoryOwner,
    /// Permit for data records of a single frame, which need no shared memory: one at a time.
    frame_permits: Arc<Semaphore>,
}

impl IncomingObject {
    fn new(upload: Upload, memory_owner: MemoryOwner) -> Self {
        Self { upload, memory_owner, frame_permits: Arc::new(Semaphore::new(1)) }
    }

    /// The upload, when all content has been written.
    pub(crate) fn upload(self) -> Upload {
        self.upload
    }

    /// The upload, when all content of an object that was
    /// [hashed by the caller](Transfers::begin_object_hashed_by_caller) has been written.
    ///
    /// # Panics
    /// If the sums are of other content: those of a part, or of another length.
    pub(crate) fn upload_with_digest(mut self, sums: &ContentSums) -> Upload {
        assert_eq!(sums.bytes, self.upload.size(), "what is stored is what was hashed");
        self.upload.state_sha256(sums.sha256.expect("the sums are those of an object"));
        self.upload
    }
}

impl Transfers {
    /// Refuses content that doesn't fit in staging, and requests a set. Puts in progress aren't
    /// counted, so they can exceed the limit by their size.
    pub(crate) fn check_room(&self, bytes: u64) -> S3Result<()> {
        let staging = self.archive.staging();
        // Unlike the service's limit, the archive's limit also applies to a single object.
        if let Some(limit) = staging.limit_bytes().filter(|limit| bytes > *limit) {
            return Err(s3_error!(EntityTooLarge, "An object must not exceed {limit} bytes, the limit of staging."));
        }
        let free = staging.free();
        // Without a limit the catalogue isn't queried, since this runs in every put.
        let staged = match self.room.limit {
            Some(_) => self.archive.reading().staged_totals().map_err(catalogue_failed)?.stored_bytes,
            None => 0,
        };
        if fits(bytes, self.room.limit, staged, free) {
            return Ok(());
        }
        let waiting = self.archive.reading().staged_totals().map_err(catalogue_failed)?;
        if let Some(refused) = self.room.refuse(bytes, self.would_fit(bytes, &waiting, free)) {
            let limit = self.room.limit;
            tracing::warn!(
                refused,
                ?free,
                staged,
                limit,
                bytes,
                "staging has too little room for puts; writing staged objects to platters"
            );
        }
        Err(slow_down())
    }

    /// Whether content would fit within all limits if what waits were on platters. The service's
    /// own limit is waived for empty staging, but clients rarely leave it empty.
    fn would_fit(&self, bytes: u64, waiting: &StagedTotals, mut free: Free) -> bool {
        for free in [&mut free.on_disk, &mut free.within_limit].into_iter().flatten() {
            *free = free.saturating_add(waiting.stored_bytes);
        }
        room(self.room.limit, 0, free).is_none_or(|room| bytes <= room)
    }

    /// Size of the smallest put that was refused and still doesn't fit, if there is one. It is
    /// forgotten if writing what waits can no longer make it fit.
    pub(crate) fn still_refused(&self, staged: &StagedTotals) -> Option<u64> {
        let free = self.archive.staging().free();
        self.room.still_refused(|bytes| fits(bytes, self.room.limit, staged.stored_bytes, free) || !self.would_fit(bytes, staged, free))
    }

    /// Bytes that can still be staged, if known.
    pub(crate) fn room_left(&self, staged: &StagedTotals) -> Option<u64> {
        room(self.room.limit, staged.stored_bytes, self.archive.staging().free())
    }

    /// Starts to compute the checksums of an object that the client claims, with `default` as the
    /// algorithm if it names none, and the digests for its record.
    pub(crate) fn object_hasher(&self, claims: Claims, default: Algorithm) -> ContentHasher {
        ContentHasher::new(claims.begin(Some(default)), self.digests.begin(true))
    }

    /// Like [`object_hasher`](Self::object_hasher), for a part of an object.
    pub(crate) fn part_hasher(&self, claims: Claims, default: Algorithm) -> ContentHasher {
        ContentHasher::new(claims.begin(Some(default)), self.digests.begin(false))
    }

    /// Begins an object.
    pub(crate) fn begin_object(&self, memory_owner: MemoryOwner) -> IncomingObject {
        IncomingObject::new(self.intake.upload(), memory_owner)
    }

    /// Begins an object whose content goes through an [`object_hasher`](Self::object_hasher) too.
    pub(crate) fn begin_object_hashed_by_caller(&self, memory_owner: MemoryOwner) -> IncomingObject {
        IncomingObject::new(self.intake.upload_hashed_by_caller(), memory_owner)
    }

    /// Writes the content of a body to staging, and compares its checksums with the client's
    /// claims.
    pub(crate) async fn receive(
        &self,
        body: &mut IncomingBody,
        mut hasher: ContentHasher,
        trailers: &BodyTrailers,
    ) -> S3Result<(Upload, ContentSums)> {
        let mut object = self.begin_object_hashed_by_caller(body.memory_owner.clone());
        while let Some(piece) = body.next().await? {
            hasher.update(&piece).await;
            self.write(&mut object, &piece, body.expected).await;
        }
        let sums = hasher.end(trailers).await?;
        Ok((object.upload_with_digest(&sums), sums))
    }

    /// Writes content of an object of about `expected` bytes. It uses data records of 1 MiB if
    /// shared memory is available, and else of single frames, for which each connection has its own
    /// memory. So no upload waits for memory that a slow client holds.
    pub(crate) async fn write(&self, object: &mut IncomingObject, content: &[u8], expected: u64) {
        let IncomingObject { upload, memory_owner, frame_permits } = object;
        let mut rest = content;
        while !rest.is_empty() {
            if upload.room() == 0 {
                let left = expected.saturating_sub(upload.size()).max(rest.len() as u64).min(RECORD_CONTENT_BYTES as u64) as usize;
                // A client gets shared memory only after it has sent something.
                let reservation =
                    if upload.size() > 0 && left > FRAME_BYTES { self.incoming.try_reserve(memory_owner, left) } else { None };
                match reservation {
                    Some(reservation) => upload.begin_record(left, Box::new(reservation)),
                    None => {
                        // The permit becomes free when the previous data record is written.
                        let frame_permit = frame_permits.clone().acquire_owned().await.expect("it is never closed");
                        upload.begin_frame(left, Box::new(frame_permit));
                    }
                }
            }
            let (now, later) = rest.split_at(rest.len().min(upload.room()));
            upload.write(now);
            rest = later;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::stream;

    /// A body of `pieces` bytes, one every `pause`.
    fn trickle(pieces: u64, pause: Duration, memory: &MemoryPool) -> IncomingBody {
        let bytes = stream::unfold((), move |()| async move {
            tokio::time::sleep(pause).await;
            Some((Ok::<_, std::io::Error>(Bytes::from_static(b"x")), ()))
        });
        let stream = StreamingBlob::wrap(Box::pin(bytes.take(pieces as usize)));
        IncomingBody::new(Some(stream), pieces, MemoryOwner::own()).of_memory(memory.clone(), RECORD_CONTENT_BYTES)
    }

    async fn receive(mut body: IncomingBody) -> S3Result<u64> {
        while body.next().await?.is_some() {}
        Ok(body.received)
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_client_times_out_only_when_memory_is_scarce() {
        let memory = MemoryPool::new(4 << 20);
        let body = trickle(40, Duration::from_secs(2), &memory);
        assert_eq!(receive(body).await.expect("all of it"), 40);
        // Memory is scarce for its owner, although others have some left.
        let _taken = memory.try_reserve(&MemoryOwner::own(), 2_600 << 10).expect("memory");
        let error = receive(trickle(40, Duration::from_secs(2), &memory)).await.expect_err("too slow");
        assert_eq!(error.code(), &s3s::S3ErrorCode::RequestTimeout);
        assert_eq!(receive(trickle(10, Duration::from_secs(2), &memory)).await.expect("soon enough"), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_has_ended_is_not_too_slow() {
        let memory = MemoryPool::new(0);
        // 28 s for the content, and 3 s for the end.
        let content = stream::unfold(0, async |sent| {
            let is_end = sent == 14;
            tokio::time::sleep(Duration::from_secs(if is_end { 3 } else { 2 })).await;
            (!is_end).then(|| (Ok::<_, std::io::Error>(Bytes::from_static(b"x")), sent + 1))
        });
        let body = IncomingBody::new(Some(StreamingBlob::wrap(Box::pin(content))), 14, MemoryOwner::own()).of_memory(memory, 1);
        assert_eq!(receive(body).await.expect("all of it"), 14);
    }

    #[tokio::test(start_paused = true)]
    async fn scarcity_is_that_of_the_memory_the_content_uses() {
        let (elsewhere, own) = (MemoryPool::new(4 << 20), MemoryPool::new(150));
        let body = || trickle(40, Duration::from_secs(2), &elsewhere);
        let error = receive(body().of_memory(own.clone(), 101)).await.expect_err("too slow");
        assert_eq!(error.code(), &s3s::S3ErrorCode::RequestTimeout);
        assert_eq!(receive(body().of_memory(own, 100)).await.expect("all of it"), 40);
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_client_times_out_after_a_minute() {
        let memory = MemoryPool::new(4 << 20);
        let begun = Instant::now();
        let error = receive(trickle(1, Duration::from_secs(3_600), &memory)).await.expect_err("nothing came");
        assert_eq!(error.code(), &s3s::S3ErrorCode::RequestTimeout);
        assert_eq!(begun.elapsed(), CLIENT_TIMEOUT);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_at_the_minimum_rate_may_take_long() {
        let memory = MemoryPool::new(0);
        let size = 40 * RECORD_CONTENT_BYTES as u64;
        let records = stream::unfold((), |()| async {
            tokio::time::sleep(Duration::from_secs(20)).await;
            Some((Ok::<_, std::io::Error>(Bytes::from(vec![0; RECORD_CONTENT_BYTES])), ()))
        });
        let body = IncomingBody::new(Some(StreamingBlob::wrap(Box::pin(records.take(40)))), size, MemoryOwner::own()).of_memory(memory, 1);
        assert_eq!(receive(body).await.expect("all of it"), size);
    }
}
