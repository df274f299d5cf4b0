//! Batched digests of all content that arrives: the MD5, which is the ETag, and the SHA-256 for the
//! object's record.
//!
//! Hashing takes longer than everything else in a large put. So each upload queues jobs and
//! continues. The first job starts a task, which runs queued jobs until none is left, up to sixteen
//! in parallel on one core ([`fulgurite_digest`]). The busier the server, the more jobs run
//! together. Each digest has its own queue, so a single upload can use two cores. If more jobs wait
//! than the running tasks can take, another task starts.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use fulgurite_digest::{Md5, Parallel, Sha256, Update, update_all};
use fulgurite_domain::Digest;
use tokio::sync::oneshot;

/// Bytes in a job, while more content follows. With less, queueing costs more than it saves; with
/// more, it holds too much memory.
const JOB_BYTES: usize = 128 << 10;
/// Minimum bytes of the last job of an upload. Less is hashed by the upload itself.
const LAST_JOB_BYTES: usize = 4 << 10;
/// Maximum number of pieces in a job, however small: each may hold more memory than its bytes.
const JOB_PIECES: usize = 64;
/// Jobs in one run: as many as are hashed in parallel. With full jobs a run keeps a worker from
/// requests for one or two milliseconds.
const JOBS_PER_RUN_MAX: usize = 16;

/// The digests of a content.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Digests {
    pub(crate) md5: [u8; 16],
    /// `None` if it isn't needed.
    pub(crate) sha256: Option<Digest>,
    /// Bytes of the content.
    pub(crate) bytes: u64,
}

/// The digests of contents that are in memory.
pub(crate) fn digests_of(contents: &[&Bytes]) -> Vec<Digests> {
    let (md5s, sha256s) = (hash_all::<Md5>(contents), hash_all::<Sha256>(contents));
    let digests = contents.iter().zip(md5s).zip(sha256s).map(|((content, md5), sha256)| Digests {
        md5: md5.finish(),
        sha256: Some(Digest(sha256.finish())),
        bytes: content.len() as u64,
    });
    digests.collect()
}

fn hash_all<D: Parallel + Default>(contents: &[&Bytes]) -> Vec<D> {
    let mut digests: Vec<D> = contents.iter().map(|_| D::default()).collect();
    let pieces = contents.iter().map(std::slice::from_ref);
    update_all(&mut digests.iter_mut().zip(pieces).map(|(digest, pieces)| Update { digest, pieces }).collect::<Vec<_>>());
    digests
}

/// The next pieces of an upload, and the channel for the result.
struct Job<D> {
    digest: D,
    pieces: Vec<Bytes>,
    result_tx: oneshot::Sender<D>,
}

struct Jobs<D> {
    waiting: Vec<Job<D>>,
    /// Number of tasks that run them.
    runners: usize,
}

/// The jobs of one digest.
struct Queue<D>(Arc<Mutex<Jobs<D>>>);

impl<D> Clone for Queue<D> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<D> Default for Queue<D> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Jobs { waiting: Vec::new(), runners: 0 })))
    }
}

impl<D: Parallel + Send + 'static> Queue<D> {
    fn submit(&self, job: Job<D>) {
        let mut jobs = self.0.lock().expect("nothing panics while it holds this lock");
        jobs.waiting.push(job);
        // The tasks can't take more than that in their next runs.
        if jobs.runners == 0 || jobs.waiting.len() > jobs.runners * JOBS_PER_RUN_MAX {
            jobs.runners += 1;
            tokio::spawn(self.clone().run_jobs());
        }
    }

    /// Runs queued jobs until none is left.
    async fn run_jobs(self) {
        loop {
            // Runs ready tasks first: they may queue more jobs.
            tokio::task::yield_now().await;
            let run = {
                let mut jobs = self.0.lock().expect("nothing panics while it holds this lock");
                let now = jobs.waiting.len().min(JOBS_PER_RUN_MAX);
                let later = jobs.waiting.split_off(now);
                if now == 0 {
                    jobs.runners -= 1;
                }
                std::mem::replace(&mut jobs.waiting, later)
            };
            if run.is_empty() {
                return;
            }
            // After a panic these uploads fail, since nothing answers them. Later ones still need a
            // task that runs their jobs.
            if catch_unwind(AssertUnwindSafe(|| Self::run(run))).is_err() {
                tracing::error!("a run of digest jobs panicked, so their uploads fail");
            }
        }
    }

    fn run(mut jobs: Vec<Job<D>>) {
        update_all(&mut jobs.iter_mut().map(|job| Update { digest: &mut job.digest, pieces: &job.pieces }).collect::<Vec<_>>());
        for job in jobs {
            // The upload may have been dropped.
            let _ = job.result_tx.send(job.digest);
        }
    }
}

/// The digest queues of a server.
#[derive(Clone, Default)]
pub(crate) struct DigestQueues {
    md5: Queue<Md5>,
    sha256: Queue<Sha256>,
}

impl DigestQueues {
    /// Begins the digests of an upload, with the SHA-256 if `with_sha256`.
    pub(crate) fn begin(&self, with_sha256: bool) -> ContentDigests {
        ContentDigests {
            md5: ContentDigest::new(&self.md5),
            sha256: with_sha256.then(|| ContentDigest::new(&self.sha256)),
            pieces: Vec::new(),
            pieces_bytes: 0,
            bytes: 0,
        }
    }
}

/// A digest of content that is being uploaded.
struct ContentDigest<D> {
    queue: Queue<D>,
    state: HashState<D>,
}

enum HashState<D> {
    Idle(D),
    /// A job is running.
    Running(oneshot::Receiver<D>),
}

impl<D: Parallel + Default + Send + 'static> ContentDigest<D> {
    fn new(queue: &Queue<D>) -> Self {
        Self { queue: queue.clone(), state: HashState::Idle(D::default()) }
    }

    /// Queues the pieces as a job, after the running one.
    async fn submit(&mut self, pieces: Vec<Bytes>) {
        let digest = std::mem::take(self.wait().await);
        let (result_tx, result_rx) = oneshot::channel();
        self.queue.submit(Job { digest, pieces, result_tx });
        self.state = HashState::Running(result_rx);
    }

    /// Hashes the last pieces itself, and returns the digest.
    async fn finish(mut self, pieces: &[Bytes]) -> D {
        let digest = self.wait().await;
        update_all(&mut [Update { digest: &mut *digest, pieces }]);
        std::mem::take(digest)
    }

    /// The digest, after the running job.
    async fn wait(&mut self) -> &mut D {
        if let HashState::Running(result_rx) = &mut self.state {
            let digest = result_rx.await.expect("every job is answered, unless its run panicked");
            self.state = HashState::Idle(digest);
        }
        match &mut self.state {
            HashState::Idle(digest) => digest,
            HashState::Running(_) => unreachable!("the state was just set"),
        }
    }
}

/// The digests of content that is being uploaded.
pub(crate) struct ContentDigests {
    md5: ContentDigest<Md5>,
    sha256: Option<ContentDigest<Sha256>>,
    /// Pieces that are not in a job yet.
    pieces: Vec<Bytes>,
    pieces_bytes: usize,
    /// Bytes of all pieces so far.
    bytes: u64,
}

impl ContentDigests {
    /// Adds a piece. If it completes a job, waits for the previous job.
    pub(crate) async fn update(&mut self, piece: &Bytes) {
        self.bytes += piece.len() as u64;
        self.pieces_bytes += piece.len();
        self.pieces.push(piece.clone());
        if self.pieces_bytes >= JOB_BYTES || self.pieces.len() >= JOB_PIECES {
            self.submit().await;
        }
    }

    async fn submit(&mut self) {
        let pieces = std::mem::take(&mut self.pieces);
        self.pieces_bytes = 0;
        if let Some(sha256) = &mut self.sha256 {
            sha256.submit(pieces.clone()).await;
        }
        self.md5.submit(pieces).await;
    }

    /// The digests of all pieces.
    pub(crate) async fn finish(mut self) -> Digests {
        if self.pieces_bytes >= LAST_JOB_BYTES {
            self.submit().await;
        }
        let md5 = self.md5.finish(&self.pieces).await.finish();
        let sha256 = match self.sha256 {
            Some(sha256) => Some(Digest(sha256.finish(&self.pieces).await.finish())),
            None => None,
        };
        Digests { md5, sha256, bytes: self.bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_gateway::soon;

    type Pair = ([u8; 16], Option<Digest>);

    fn alone(pieces: &[Bytes]) -> Pair {
        let (mut md5, mut sha256) = (Md5::new(), Sha256::new());
        pieces.iter().for_each(|piece| {
            md5.update(piece);
            sha256.update(piece);
        });
        (md5.finish(), Some(Digest(sha256.finish())))
    }

    async fn pair(digests: ContentDigests) -> Pair {
        let Digests { md5, sha256, .. } = soon(digests.finish()).await;
        (md5, sha256)
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn concurrent_uploads_have_the_same_digests_as_single_ones() {
        let queue = DigestQueues::default();
        let tasks: Vec<_> = (0..40_usize)
            .map(|content| {
                let queue = queue.clone();
                tokio::spawn(async move {
                    let pieces: Vec<Bytes> =
                        (0..content).map(|piece| Bytes::from(vec![(content * piece) as u8; 1 + content * piece * 97])).collect();
                    let mut digests = queue.begin(true);
                    for piece in &pieces {
                        digests.update(piece).await;
                    }
                    (pair(digests).await, alone(&pieces))
                })
            })
            .collect();
        for task in tasks {
            let (found, expected) = soon(task).await.expect("no panic");
            assert_eq!(found, expected);
        }
    }

    #[tokio::test]
    async fn an_upload_dropped_during_its_job_blocks_no_other() {
        let queue = DigestQueues::default();
        let piece = Bytes::from(vec![7; JOB_BYTES]);
        let mut gone = queue.begin(true);
        gone.update(&piece).await;
        drop(gone);
        let mut other = queue.begin(true);
        other.update(&piece).await;
        assert_eq!(pair(other).await, alone(std::slice::from_ref(&piece)));
    }

    #[tokio::test]
    async fn a_run_of_jobs_that_panics_blocks_no_later_upload() {
        struct Defect;
        impl AsRef<[u8]> for Defect {
            fn as_ref(&self) -> &[u8] {
                &[7; JOB_BYTES]
            }
        }
        impl Drop for Defect {
            fn drop(&mut self) {
                panic!("a defect");
            }
        }
        let queue = DigestQueues::default();
        let mut first = queue.begin(true);
        // The job has the only reference, so the run drops it.
        first.update(&Bytes::from_owner(Defect)).await;
        pair(first).await;
        let piece = Bytes::from(vec![7; JOB_BYTES]);
        let mut later = queue.begin(true);
        later.update(&piece).await;
        assert_eq!(pair(later).await, alone(std::slice::from_ref(&piece)));
    }

    #[tokio::test]
    async fn many_small_pieces_make_a_job() {
        let queue = DigestQueues::default();
        let mut digests = queue.begin(true);
        let pieces = vec![Bytes::from_static(b"x"); 1_000];
        for piece in &pieces {
            digests.update(piece).await;
            assert!(digests.pieces.len() < JOB_PIECES);
        }
        assert_eq!(pair(digests).await, alone(&pieces));
    }
}
