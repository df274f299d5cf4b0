//! The decode service of an archive: real workers ask for the next job.

use fulgurite_domain::Micros;

use crate::schedule::{Schedule, hour};
use crate::{Class, Full, Job, Settings};

/// Reads that are handed out in a row while a deferrable job is overdue. Without a limit, a load of
/// reads that keeps all workers busy would stop verification, and staging would fill up.
const READS_IN_A_ROW_MAX: u32 = 8;

/// Jobs that wait for workers.
///
/// A job that is handed out counts as done. If its worker fails, the caller submits it again.
#[derive(Debug, Clone)]
pub struct DecodeQueue {
    schedule: Schedule,
    planned_hour: Option<u64>,
    /// Reads handed out since the last deferrable job.
    reads_in_a_row: u32,
}

impl DecodeQueue {
    /// An empty queue. Hours of the day count from time 0, which is midnight.
    ///
    /// # Panics
    /// If the reserve is not in 0.0..1.0, a price is not finite, or no hour has workers.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { schedule: Schedule::new(settings), planned_hour: None, reads_in_a_row: 0 }
    }

    /// Submits a job. The time may also go backwards, as that of a clock which is set.
    ///
    /// # Errors
    /// [`Full`] if `jobs_max` jobs already wait.
    ///
    /// # Panics
    /// If the images are not available yet, or the job has no work or a width of 0.
    pub fn submit(&mut self, now: Micros, job: Job) -> Result<(), Full> {
        self.plan_new_hour(now);
        self.schedule.submit(now, job)
    }

    /// Hands out the job whose turn it is: reads first, but one in nine jobs may be a deferrable
    /// one that is overdue. `None` if no job waits, or those that do have time until computing is
    /// cheaper.
    pub fn next(&mut self, now: Micros) -> Option<Job> {
        self.plan_new_hour(now);
        let overdue = self.schedule.overdue(now).filter(|_| self.reads_in_a_row >= READS_IN_A_ROW_MAX);
        let (turn, waiting) = overdue.or_else(|| self.schedule.runnable().next())?;
        self.reads_in_a_row = if turn.0 == Class::Read { self.reads_in_a_row + 1 } else { 0 };
        let work = waiting.remaining_us;
        self.schedule.use_up(work);
        self.schedule.work(&turn, work).1
    }

    /// Takes a job back that was submitted and not handed out yet. Returns false if no such job
    /// waits. Takes time proportional to the number of jobs.
    pub fn withdraw(&mut self, now: Micros, id: u64) -> bool {
        self.plan_new_hour(now);
        self.schedule.withdraw(now, id)
    }

    fn plan_new_hour(&mut self, now: Micros) {
        if self.planned_hour != Some(hour(now)) {
            self.planned_hour = Some(hour(now));
            self.schedule.plan(now);
        }
    }

    /// Number of jobs that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.schedule.waiting()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;

    const HOUR: u64 = Micros::HOUR.0;

    fn job(id: u64, class: Class, ready_h: u64, deadline_h: u64) -> Job {
        Job { id, class, ready: Micros(ready_h * HOUR), work: Micros::SECOND, width: 4, deadline: Micros(deadline_h * HOUR) }
    }

    /// Everything that may run at this time.
    fn all(queue: &mut DecodeQueue, now: Micros) -> Vec<u64> {
        std::iter::from_fn(|| queue.next(now)).map(|job| job.id).collect()
    }

    #[test]
    fn reads_go_first_and_the_others_by_deadline() {
        let mut queue = DecodeQueue::new(Settings { policy: Policy::AtOnce, ..Settings::default() });
        let now = Micros(8 * HOUR);
        for (id, class, deadline_h) in
            [(0, Class::Deferrable, 30), (1, Class::Deferrable, 9), (2, Class::Read, 99), (3, Class::Deferrable, 9), (4, Class::Read, 0)]
        {
            queue.submit(now, job(id, class, 8, deadline_h)).expect("there is room");
        }
        assert_eq!(all(&mut queue, now), [2, 4, 1, 3, 0]);
        assert_eq!(queue.waiting(), 0);
    }

    #[test]
    fn many_reads_slow_overdue_verification_down_but_do_not_stop_it() {
        let mut queue = DecodeQueue::new(Settings { policy: Policy::AtOnce, ..Settings::default() });
        let now = Micros(8 * HOUR);
        for id in 0..20 {
            queue.submit(now, job(id, Class::Read, 8, 9)).expect("there is room");
        }
        for (id, deadline_h) in [(100, 8), (101, 8), (102, 9)] {
            queue.submit(now, job(id, Class::Deferrable, 8, deadline_h)).expect("there is room");
        }
        let order = all(&mut queue, now);
        let places = [100, 101, 102].map(|id| order.iter().position(|found| *found == id));
        assert_eq!(places, [Some(8), Some(17), Some(22)], "the last one has time: {order:?}");
    }

    #[test]
    fn deferrable_jobs_wait_for_cheap_hours_and_reads_do_not() {
        // Computing is cheap from 23:00.
        let mut queue = DecodeQueue::new(Settings::default());
        let morning = Micros(8 * HOUR);
        queue.submit(morning, job(0, Class::Deferrable, 8, 30)).expect("there is room");
        queue.submit(morning, job(1, Class::Read, 8, 30)).expect("there is room");
        queue.submit(morning, job(2, Class::Deferrable, 8, 9)).expect("there is room");
        assert_eq!(all(&mut queue, morning), [1, 2], "a read, and a job with no time to lose");
        assert_eq!(all(&mut queue, Micros(22 * HOUR)), [0; 0]);
        assert_eq!(all(&mut queue, Micros(23 * HOUR)), [0]);
    }

    #[test]
    fn a_deferred_job_runs_before_its_deadline_even_if_no_hour_is_cheap() {
        let mut queue = DecodeQueue::new(Settings { prices: std::array::from_fn(|hour| hour as f64), ..Settings::default() });
        queue.submit(Micros(HOUR), job(0, Class::Deferrable, 1, 4)).expect("there is room");
        assert_eq!(all(&mut queue, Micros(HOUR)), [0], "the first hour is the cheapest");
        let dear_first = std::array::from_fn(|hour| -(hour as f64));
        let mut queue = DecodeQueue::new(Settings { prices: dear_first, ..Settings::default() });
        queue.submit(Micros(HOUR), job(0, Class::Deferrable, 1, 4)).expect("there is room");
        assert_eq!(all(&mut queue, Micros(HOUR)), [0; 0]);
        assert_eq!(all(&mut queue, Micros(2 * HOUR)), [0], "the last whole hour before the deadline, less a margin");
    }

    #[test]
    fn no_hour_is_planned_for_a_job_that_was_withdrawn() {
        // Each of these jobs takes all workers for most of an hour.
        let workers = Settings::default().workers[0];
        let long = |id, deadline_h| Job {
            work: Micros(HOUR * u64::from(workers) * 3 / 4),
            width: workers,
            ..job(id, Class::Deferrable, 8, deadline_h)
        };
        let prices = std::array::from_fn(|hour| if hour == 10 { 1.0 } else { 2.0 });
        let mut queue = DecodeQueue::new(Settings { prices, ..Settings::default() });
        let (morning, cheap) = (Micros(8 * HOUR), Micros(10 * HOUR));
        queue.submit(morning, long(0, 12)).expect("there is room");
        queue.submit(morning, long(1, 13)).expect("there is room");
        assert_eq!(all(&mut queue.clone(), morning), [0], "not both fit into the cheap hour");
        assert!(queue.withdraw(morning, 0) && !queue.withdraw(morning, 0));
        assert_eq!((queue.waiting(), all(&mut queue, morning)), (1, vec![]));
        assert_eq!(all(&mut queue, cheap), [1]);
    }

    #[test]
    fn a_clock_that_is_set_back_loses_nothing() {
        let mut queue = DecodeQueue::new(Settings::default());
        queue.submit(Micros(33 * HOUR), job(0, Class::Deferrable, 33, 60)).expect("there is room");
        assert_eq!(all(&mut queue, Micros(32 * HOUR)), [0; 0]);
        assert_eq!(all(&mut queue, Micros(24 * HOUR)), [0], "an hour of the night");
        assert_eq!(queue.waiting(), 0);
    }
}
