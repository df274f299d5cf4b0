//! MD5 of all content that is on its way in, in step.
//!
//! An ETag is an MD5, and the MD5 of one content takes longer than all else that is done with it: 24 of some 45 ms of a put of 15 MB. So contents
//! hand over what came of them in jobs, go on meanwhile, and whoever comes first sees to all jobs that wait: in step, sixteen at a time
//! ([`fulgurite_digest`]). The more the server has to do, the more of them wait when it gets there.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use fulgurite_digest::{Kernel, Md5, Update, update_all};
use tokio::sync::oneshot;

/// Content that makes a job. Below, handing it over costs more than it saves; beyond, it holds memory.
const JOB_BYTES: usize = 128 << 10;
/// Pieces that make a job, however small they are: each may hold more memory than its bytes.
const JOB_PIECES: usize = 64;
/// Jobs that are seen to at once, so that no worker is kept from requests for more than about a millisecond.
const AT_ONCE: usize = 32;

/// Pieces that come next in a content, and who waits for what it is then.
struct Job {
    md5: Md5,
    pieces: Vec<Bytes>,
    done: oneshot::Sender<Md5>,
}

#[derive(Default)]
struct Waiting {
    jobs: Vec<Job>,
    /// Somebody sees to them.
    attended: bool,
}

/// All contents of a server that are being hashed.
#[derive(Clone, Default)]
pub(crate) struct Md5s(Arc<Mutex<Waiting>>);

impl Md5s {
    /// Begins a content.
    pub(crate) fn begin(&self) -> ContentMd5 {
        ContentMd5 { all: self.clone(), state: State::Here(Md5::new()), pieces: Vec::new(), bytes: 0 }
    }

    fn submit(&self, job: Job) {
        let mut waiting = self.0.lock().expect("no panic holds this lock");
        waiting.jobs.push(job);
        if !std::mem::replace(&mut waiting.attended, true) {
            tokio::spawn(self.clone().attend());
        }
    }

    /// Sees to what waits until nothing does.
    async fn attend(self) {
        loop {
            // Tasks that are ready come first: they may have more of the same.
            tokio::task::yield_now().await;
            let mut jobs = {
                let mut waiting = self.0.lock().expect("no panic holds this lock");
                let now = waiting.jobs.len().min(AT_ONCE);
                let later = waiting.jobs.split_off(now);
                waiting.attended = now > 0;
                std::mem::replace(&mut waiting.jobs, later)
            };
            if jobs.is_empty() {
                return;
            }
            let mut updates: Vec<_> = jobs.iter_mut().map(|job| Update { md5: &mut job.md5, pieces: &job.pieces }).collect();
            update_all(&mut updates);
            for job in jobs {
                // Who waited may have gone away.
                let _ = job.done.send(job.md5);
            }
        }
    }
}

enum State {
    Here(Md5),
    /// A job is under way.
    Away(oneshot::Receiver<Md5>),
}

/// The MD5 of a content on its way in.
pub(crate) struct ContentMd5 {
    all: Md5s,
    state: State,
    /// What no job has yet.
    pieces: Vec<Bytes>,
    bytes: usize,
}

impl ContentMd5 {
    /// Takes the next piece. Waits if the job before the one that this makes isn't done yet.
    pub(crate) async fn update(&mut self, piece: &Bytes) {
        if Kernel::best().lanes() == 1 {
            self.here().await.update(piece);
            return;
        }
        self.bytes += piece.len();
        self.pieces.push(piece.clone());
        if self.bytes >= JOB_BYTES || self.pieces.len() >= JOB_PIECES {
            let md5 = std::mem::take(self.here().await);
            let (done, told) = oneshot::channel();
            let pieces = std::mem::take(&mut self.pieces);
            self.all.submit(Job { md5, pieces, done });
            (self.state, self.bytes) = (State::Away(told), 0);
        }
    }

    /// The digest of all that came.
    pub(crate) async fn finish(mut self) -> [u8; 16] {
        let pieces = std::mem::take(&mut self.pieces);
        let md5 = self.here().await;
        for piece in &pieces {
            md5.update(piece);
        }
        std::mem::take(md5).finish()
    }

    /// What it is so far, once no job is under way.
    async fn here(&mut self) -> &mut Md5 {
        if let State::Away(told) = &mut self.state {
            let md5 = told.await.expect("jobs are seen to, and end");
            self.state = State::Here(md5);
        }
        match &mut self.state {
            State::Here(md5) => md5,
            State::Away(_) => unreachable!("it has just come back"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::soon;

    fn alone(pieces: &[Bytes]) -> [u8; 16] {
        let mut md5 = Md5::new();
        pieces.iter().for_each(|piece| md5.update(piece));
        md5.finish()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn contents_that_come_together_have_the_digests_that_each_has_alone() {
        let all = Md5s::default();
        let tasks: Vec<_> = (0..40_usize)
            .map(|content| {
                let all = all.clone();
                tokio::spawn(async move {
                    let pieces: Vec<Bytes> =
                        (0..content).map(|piece| Bytes::from(vec![(content * piece) as u8; 1 + content * piece * 97])).collect();
                    let mut md5 = all.begin();
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
    async fn a_content_that_is_given_up_with_a_job_under_way_holds_nobody_up() {
        let all = Md5s::default();
        let piece = Bytes::from(vec![7; JOB_BYTES]);
        let mut gone = all.begin();
        gone.update(&piece).await;
        drop(gone);
        let mut other = all.begin();
        other.update(&piece).await;
        assert_eq!(soon(other.finish()).await, alone(std::slice::from_ref(&piece)));
    }

    #[tokio::test]
    async fn small_pieces_are_handed_over_before_they_are_many() {
        let all = Md5s::default();
        let mut md5 = all.begin();
        let pieces = vec![Bytes::from_static(b"x"); 1_000];
        for piece in &pieces {
            md5.update(piece).await;
            assert!(md5.pieces.len() < JOB_PIECES);
        }
        assert_eq!(soon(md5.finish()).await, alone(&pieces));
    }
}
