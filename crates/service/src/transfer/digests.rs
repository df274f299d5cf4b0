//! Batched digests of all content that arrives: the MD5, which is the ETag, and the SHA-256 for the
//! object's record.
//!
//! Hashing takes longer than everything else in a put. So each upload queues jobs and continues.
//! The first job starts a task, which runs queued jobs until none is left, up to sixteen in
//! parallel on one core ([`fulgurite_digest`]). The busier the server, the more jobs run together.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use fulgurite_digest::{Md5, Sha256, Update, update_all};
use fulgurite_domain::Digest;
use tokio::sync::oneshot;

/// Bytes in a job. With less, queueing costs more than it saves; with more, it holds too much
/// memory.
const JOB_BYTES: usize = 128 << 10;
/// Fewest bytes in the last job of an upload. Fewer are hashed at once.
const LAST_JOB_BYTES: usize = 4 << 10;
/// Maximum number of pieces in a job, however small: each may hold more memory than its bytes.
const JOB_PIECES: usize = 64;
/// Maximum number of jobs in one run, so that a worker is kept from requests for about a
/// millisecond at most.
const JOBS_PER_RUN_MAX: usize = 32;

/// The digests of a content.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Digests {
    pub(crate) md5: [u8; 16],
    /// `None` if it isn't needed.
    pub(crate) sha256: Option<Digest>,
}

/// Digests that are being computed.
#[derive(Default)]
struct Hashes {
    md5: Md5,
    sha256: Option<Sha256>,
}

impl Hashes {
    fn finish(self) -> Digests {
        Digests { md5: self.md5.finish(), sha256: self.sha256.map(|sha256| Digest(sha256.finish())) }
    }
}

/// The digests of contents that are in memory.
pub(crate) fn digests_of(contents: &[&Bytes]) -> Vec<Digests> {
    let mut hashes: Vec<_> = contents.iter().map(|_| Hashes { md5: Md5::new(), sha256: Some(Sha256::new()) }).collect();
    update(hashes.iter_mut().zip(contents.iter().map(std::slice::from_ref)));
    hashes.into_iter().map(Hashes::finish).collect()
}

/// Updates digests with their next pieces.
fn update<'a, P: AsRef<[u8]> + 'a>(hashes: impl Iterator<Item = (&'a mut Hashes, &'a [P])>) {
    let (mut md5s, mut sha256s) = (Vec::new(), Vec::new());
    for (Hashes { md5, sha256 }, pieces) in hashes {
        md5s.push(Update { digest: md5, pieces });
        sha256s.extend(sha256.as_mut().map(|digest| Update { digest, pieces }));
    }
    update_all(&mut md5s);
    update_all(&mut sha256s);
}

/// The next pieces of an upload, and the channel for the result.
struct Job {
    hashes: Hashes,
    pieces: Vec<Bytes>,
    result_tx: oneshot::Sender<Hashes>,
}

#[derive(Default)]
struct Queue {
    jobs: Vec<Job>,
    /// Whether a task is running the jobs.
    is_running: bool,
}

/// The digest queue of a server.
#[derive(Clone, Default)]
pub(crate) struct DigestQueue(Arc<Mutex<Queue>>);

impl DigestQueue {
    /// Begins the digests of an upload, with the SHA-256 if `with_sha256`.
    pub(crate) fn begin(&self, with_sha256: bool) -> ContentDigests {
        let hashes = Hashes { md5: Md5::new(), sha256: with_sha256.then(Sha256::new) };
        ContentDigests { queue: self.clone(), state: HashState::Idle(hashes), pieces: Vec::new(), bytes: 0 }
    }

    fn submit(&self, job: Job) {
        let mut queue = self.0.lock().expect("nothing panics while it holds this lock");
        queue.jobs.push(job);
        if !std::mem::replace(&mut queue.is_running, true) {
            tokio::spawn(self.clone().run_jobs());
        }
    }

    /// Runs queued jobs until none is left.
    async fn run_jobs(self) {
        loop {
            // Runs ready tasks first: they may queue more jobs.
            tokio::task::yield_now().await;
            let jobs = {
                let mut queue = self.0.lock().expect("nothing panics while it holds this lock");
                let now = queue.jobs.len().min(JOBS_PER_RUN_MAX);
                let later = queue.jobs.split_off(now);
                queue.is_running = now > 0;
                std::mem::replace(&mut queue.jobs, later)
            };
            if jobs.is_empty() {
                return;
            }
            // After a panic these uploads fail, since nothing answers them. Later ones still need a
            // task that runs their jobs.
            if catch_unwind(AssertUnwindSafe(|| run(jobs))).is_err() {
                tracing::error!("a run of digest jobs panicked, so their uploads fail");
            }
        }
    }
}

fn run(mut jobs: Vec<Job>) {
    update(jobs.iter_mut().map(|job| (&mut job.hashes, &job.pieces[..])));
    for job in jobs {
        // The upload may have been dropped.
        let _ = job.result_tx.send(job.hashes);
    }
}

enum HashState {
    Idle(Hashes),
    /// A job is running.
    Running(oneshot::Receiver<Hashes>),
}

/// The digests of content that is being uploaded.
pub(crate) struct ContentDigests {
    queue: DigestQueue,
    state: HashState,
    /// Pieces that are not in a job yet.
    pieces: Vec<Bytes>,
    bytes: usize,
}

impl ContentDigests {
    /// Adds a piece. If it completes a job, waits for the previous job.
    pub(crate) async fn update(&mut self, piece: &Bytes) {
        self.bytes += piece.len();
        self.pieces.push(piece.clone());
        if self.bytes >= JOB_BYTES || self.pieces.len() >= JOB_PIECES {
            self.submit().await;
        }
    }

    /// Queues the pieces as a job, after the running one.
    async fn submit(&mut self) {
        let hashes = std::mem::take(self.wait().await);
        let (result_tx, result_rx) = oneshot::channel();
        let pieces = std::mem::take(&mut self.pieces);
        self.queue.submit(Job { hashes, pieces, result_tx });
        (self.state, self.bytes) = (HashState::Running(result_rx), 0);
    }

    /// The digests of all pieces.
    pub(crate) async fn finish(mut self) -> Digests {
        if self.bytes >= LAST_JOB_BYTES {
            self.submit().await;
        }
        let pieces = std::mem::take(&mut self.pieces);
        let hashes = self.wait().await;
        update([(&mut *hashes, &pieces[..])].into_iter());
        std::mem::take(hashes).finish()
    }

    /// The hash state, after the running job.
    async fn wait(&mut self) -> &mut Hashes {
        if let HashState::Running(result_rx) = &mut self.state {
            let hashes = result_rx.await.expect("every job is answered, unless its run panicked");
            self.state = HashState::Idle(hashes);
        }
        match &mut self.state {
            HashState::Idle(hashes) => hashes,
            HashState::Running(_) => unreachable!("the state was just set"),
        }
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
        let Digests { md5, sha256 } = soon(digests.finish()).await;
        (md5, sha256)
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn concurrent_uploads_have_the_same_digests_as_single_ones() {
        let queue = DigestQueue::default();
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
        let queue = DigestQueue::default();
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
        let queue = DigestQueue::default();
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
        let queue = DigestQueue::default();
        let mut digests = queue.begin(true);
        let pieces = vec![Bytes::from_static(b"x"); 1_000];
        for piece in &pieces {
            digests.update(piece).await;
            assert!(digests.pieces.len() < JOB_PIECES);
        }
        assert_eq!(pair(digests).await, alone(&pieces));
    }
}
