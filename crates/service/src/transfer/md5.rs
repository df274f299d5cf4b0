//! Batched MD5 of all content that arrives.
//!
//! An ETag is an MD5, and hashing takes longer than everything else in a put: 24 of some 45 ms of a
//! put of 15 MB. So each upload queues jobs and continues. The first job starts a task, which runs
//! queued jobs until none is left, up to sixteen in parallel on one core ([`fulgurite_digest`]).
//! The busier the server, the more jobs run together.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use fulgurite_digest::{Md5, Update, update_all};
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

/// The next pieces of an upload, and the channel for the result.
struct Job {
    md5: Md5,
    pieces: Vec<Bytes>,
    result_tx: oneshot::Sender<Md5>,
}

#[derive(Default)]
struct Queue {
    jobs: Vec<Job>,
    /// Whether a task is running the jobs.
    is_running: bool,
}

/// The MD5 queue of a server.
#[derive(Clone, Default)]
pub(crate) struct Md5Queue(Arc<Mutex<Queue>>);

impl Md5Queue {
    /// Begins the MD5 of an upload.
    pub(crate) fn begin(&self) -> ContentMd5 {
        ContentMd5 { queue: self.clone(), state: HashState::Idle(Md5::new()), pieces: Vec::new(), bytes: 0 }
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
                tracing::error!("a run of MD5 jobs panicked, so their uploads fail");
            }
        }
    }
}

fn run(mut jobs: Vec<Job>) {
    let mut updates: Vec<_> = jobs.iter_mut().map(|job| Update { md5: &mut job.md5, pieces: &job.pieces }).collect();
    update_all(&mut updates);
    for job in jobs {
        // The upload may have been dropped.
        let _ = job.result_tx.send(job.md5);
    }
}

enum HashState {
    Idle(Md5),
    /// A job is running.
    Running(oneshot::Receiver<Md5>),
}

/// The MD5 of content that is being uploaded.
pub(crate) struct ContentMd5 {
    queue: Md5Queue,
    state: HashState,
    /// Pieces that are not in a job yet.
    pieces: Vec<Bytes>,
    bytes: usize,
}

impl ContentMd5 {
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
        let md5 = std::mem::take(self.wait().await);
        let (result_tx, result_rx) = oneshot::channel();
        let pieces = std::mem::take(&mut self.pieces);
        self.queue.submit(Job { md5, pieces, result_tx });
        (self.state, self.bytes) = (HashState::Running(result_rx), 0);
    }

    /// The digest of all pieces.
    pub(crate) async fn finish(mut self) -> [u8; 16] {
        if self.bytes >= LAST_JOB_BYTES {
            self.submit().await;
        }
        let pieces = std::mem::take(&mut self.pieces);
        let md5 = self.wait().await;
        for piece in &pieces {
            md5.update(piece);
        }
        std::mem::take(md5).finish()
    }

    /// The hash state, after the running job.
    async fn wait(&mut self) -> &mut Md5 {
        if let HashState::Running(result_rx) = &mut self.state {
            let md5 = result_rx.await.expect("every job is answered, unless its run panicked");
            self.state = HashState::Idle(md5);
        }
        match &mut self.state {
            HashState::Idle(md5) => md5,
            HashState::Running(_) => unreachable!("the state was just set"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_gateway::soon;

    fn alone(pieces: &[Bytes]) -> [u8; 16] {
        let mut md5 = Md5::new();
        pieces.iter().for_each(|piece| md5.update(piece));
        md5.finish()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn concurrent_uploads_have_the_same_digests_as_single_ones() {
        let queue = Md5Queue::default();
        let tasks: Vec<_> = (0..40_usize)
            .map(|content| {
                let queue = queue.clone();
                tokio::spawn(async move {
                    let pieces: Vec<Bytes> =
                        (0..content).map(|piece| Bytes::from(vec![(content * piece) as u8; 1 + content * piece * 97])).collect();
                    let mut md5 = queue.begin();
                    for piece in &pieces {
                        md5.update(piece).await;
                    }
                    (md5.finish().await, alone(&pieces))
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
        let queue = Md5Queue::default();
        let piece = Bytes::from(vec![7; JOB_BYTES]);
        let mut gone = queue.begin();
        gone.update(&piece).await;
        drop(gone);
        let mut other = queue.begin();
        other.update(&piece).await;
        assert_eq!(soon(other.finish()).await, alone(std::slice::from_ref(&piece)));
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
        let queue = Md5Queue::default();
        let mut first = queue.begin();
        // The job has the only reference, so the run drops it.
        first.update(&Bytes::from_owner(Defect)).await;
        soon(first.finish()).await;
        let piece = Bytes::from(vec![7; JOB_BYTES]);
        let mut later = queue.begin();
        later.update(&piece).await;
        assert_eq!(soon(later.finish()).await, alone(std::slice::from_ref(&piece)));
    }

    #[tokio::test]
    async fn many_small_pieces_make_a_job() {
        let queue = Md5Queue::default();
        let mut md5 = queue.begin();
        let pieces = vec![Bytes::from_static(b"x"); 1_000];
        for piece in &pieces {
            md5.update(piece).await;
            assert!(md5.pieces.len() < JOB_PIECES);
        }
        assert_eq!(soon(md5.finish()).await, alone(&pieces));
    }
}
