//! A pool of a few threads for many jobs.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// A job with its estimated cost. The estimates set the order of the jobs and the progress shown,
/// not the results.
pub(crate) struct Job<'a, T> {
    pub(crate) cost: f64,
    pub(crate) work: Box<dyn Fn() -> T + Send + Sync + 'a>,
}

/// Runs all jobs, the most expensive first, so that no long one is left at the end. The results are
/// in the order of the jobs, whatever the number of threads; 0 means one per core. `progress` gets
/// the completed share.
pub(crate) fn run_all<T: Send>(jobs: &[Job<'_, T>], threads: usize, progress: &(dyn Fn(f64) + Sync)) -> Vec<T> {
    let threads = if threads == 0 { thread::available_parallelism().map_or(1, usize::from) } else { threads };
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by(|&a, &b| jobs[b].cost.total_cmp(&jobs[a].cost).then(a.cmp(&b)));
    let all: f64 = jobs.iter().map(|job| job.cost).sum();
    let next = AtomicUsize::new(0);
    let done: Mutex<(Vec<Option<T>>, f64)> = Mutex::new((jobs.iter().map(|_| None).collect(), 0.0));
    let work = || {
        while let Some(&index) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            let answer = (jobs[index].work)();
            let mut done = done.lock().expect("no job panics while it holds this lock");
            done.0[index] = Some(answer);
            done.1 += jobs[index].cost;
            progress(done.1 / all.max(f64::MIN_POSITIVE));
        }
    };
    thread::scope(|scope| {
        for _ in 0..threads.min(jobs.len()) {
            scope.spawn(work);
        }
    });
    let (answers, _) = done.into_inner().expect("no job panics while it holds this lock");
    answers.into_iter().map(|answer| answer.expect("every job is done")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_job_order_for_any_number_of_threads() {
        for threads in [1, 2, 7] {
            let jobs: Vec<Job<'_, usize>> =
                (0..50).map(|index| Job { cost: ((index * 7) % 13) as f64, work: Box::new(move || index * index) }).collect();
            let expected: Vec<usize> = (0..50).map(|index| index * index).collect();
            assert_eq!(run_all(&jobs, threads, &|_| ()), expected);
        }
        assert_eq!(run_all::<u8>(&[], 2, &|_| ()), []);
    }

    #[test]
    fn the_most_expensive_job_starts_first() {
        let begun = Mutex::new(Vec::new());
        let job = |cost: f64| Job { cost, work: Box::new(|| ()) };
        let mut jobs = vec![job(1.0), job(3.0), job(2.0)];
        for (index, job) in jobs.iter_mut().enumerate() {
            let begun = &begun;
            job.work = Box::new(move || begun.lock().unwrap().push(index));
        }
        run_all(&jobs, 1, &|_| ());
        drop(jobs);
        assert_eq!(begun.into_inner().unwrap(), [1, 2, 0]);
    }
}
