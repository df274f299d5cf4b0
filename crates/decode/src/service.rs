//! The decode service of the digital twin: simulated workers, and work that flows like a fluid.

use fulgurite_domain::Micros;

use crate::schedule::{Schedule, Turn, hour};
use crate::{Full, Job, Policy, Settings};

/// A finished job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decoded {
    /// The job.
    pub job: Job,
    /// When it was done.
    pub at: Micros,
}

/// Totals of a run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Totals {
    /// Jobs done.
    pub jobs: u64,
    /// Jobs done after their deadline.
    pub late: u64,
    /// The longest delay past a deadline.
    pub latest: Micros,
    /// Sum of all delays past deadlines, in seconds.
    pub late_seconds: f64,
    /// Cost of the workers.
    pub cost: f64,
    /// Seconds of work done.
    pub busy_seconds: f64,
    /// Seconds of work that the available workers could have done.
    pub offered_seconds: f64,
    /// Workers busy on average, by hour since the start. The only field that grows, by 8 bytes an
    /// hour.
    pub workers: Vec<f64>,
}

impl Totals {
    /// Busy share of the available workers; 0 if none were available.
    #[must_use]
    pub fn utilization(&self) -> f64 {
        if self.offered_seconds > 0.0 { self.busy_seconds / self.offered_seconds } else { 0.0 }
    }
}

/// A simulated decode service. The caller submits jobs in time order and advances the time in
/// between.
#[derive(Debug, Clone)]
pub struct DecodeService {
    schedule: Schedule,
    now: Micros,
    /// Jobs and their workers in this step. Kept to reuse its memory.
    running: Vec<(Turn, u64)>,
    totals: Totals,
}

impl DecodeService {
    /// An idle service at time 0, which is midnight.
    ///
    /// # Panics
    /// If the reserve is not in 0.0..1.0, a price is not finite, or no hour has workers.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { schedule: Schedule::new(settings), now: Micros::ZERO, running: Vec::new(), totals: Totals::default() }
    }

    /// Submits a job, at the current time of the service.
    ///
    /// # Errors
    /// [`Full`] if `jobs_max` jobs already wait.
    ///
    /// # Panics
    /// If the images are not available yet, or the job has no work or a width of 0.
    pub fn submit(&mut self, job: Job) -> Result<(), Full> {
        self.schedule.submit(self.now, job)
    }

    /// Changes the number of workers for an hour of the day, from now on.
    ///
    /// # Panics
    /// If `hour_of_day` is not in 0..24.
    pub fn set_workers(&mut self, hour_of_day: usize, workers: u32) {
        self.schedule.set_workers(self.now, hour_of_day, workers);
    }

    /// Advances the time to `until`, and calls `done` for each finished job.
    pub fn advance(&mut self, until: Micros, mut done: impl FnMut(Decoded)) {
        loop {
            let hour_end = Micros((hour(self.now) + 1) * Micros::HOUR.0);
            self.assign();
            let rate: u64 = self.running.iter().map(|(_, workers)| workers).sum();
            let mut step = until.min(hour_end).since(self.now).0;
            for (turn, workers) in &self.running {
                step = step.min(self.schedule.remaining_us(turn).div_ceil(*workers));
            }
            if rate > 0 && self.schedule.settings().policy == Policy::Cheapest {
                // Jobs that run although nothing is allowed are reads, which need no limit.
                let allowed = self.schedule.allowed();
                step = if allowed > 0 { step.min(allowed.div_ceil(rate)) } else { step };
            }
            if step == 0 {
                return;
            }
            self.work(step, &mut done);
            self.now += Micros(step);
            if self.now == hour_end {
                self.schedule.plan(self.now);
            }
        }
    }

    /// Assigns workers to jobs in the order of their turns, as many to each as can share it.
    fn assign(&mut self) {
        self.running.clear();
        let mut free = u64::from(self.schedule.workers(hour(self.now)));
        for (turn, waiting) in self.schedule.runnable() {
            if free == 0 {
                break;
            }
            let workers = free.min(waiting.job.width.into());
            self.running.push((turn, workers));
            free -= workers;
        }
    }

    fn work(&mut self, step: u64, done: &mut impl FnMut(Decoded)) {
        let hour = hour(self.now);
        let mut used = 0;
        for (turn, workers) in &self.running {
            let (part, finished) = self.schedule.work(turn, workers * step);
            used += part;
            if let Some(job) = finished {
                let at = self.now + Micros(step);
                let late = at.since(job.deadline);
                self.totals.jobs += 1;
                self.totals.late += u64::from(late > Micros::ZERO);
                self.totals.latest = self.totals.latest.max(late);
                self.totals.late_seconds += late.seconds();
                done(Decoded { job, at });
            }
        }
        self.schedule.use_up(used);
        let seconds = Micros(used).seconds();
        self.totals.busy_seconds += seconds;
        self.totals.offered_seconds += f64::from(self.schedule.workers(hour)) * Micros(step).seconds();
        self.totals.cost += seconds / 3600.0 * self.schedule.settings().prices[(hour % 24) as usize];
        if self.totals.workers.len() <= hour as usize {
            self.totals.workers.resize(hour as usize + 1, 0.0);
        }
        self.totals.workers[hour as usize] += seconds / 3600.0;
    }

    /// The current time.
    #[must_use]
    pub fn now(&self) -> Micros {
        self.now
    }

    /// Number of jobs that wait or run.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.schedule.waiting()
    }

    /// Number of waiting or running jobs whose deadline has passed.
    #[must_use]
    pub fn overdue(&self) -> u64 {
        self.schedule.jobs().filter(|job| job.deadline < self.now).count() as u64
    }

    /// Totals up to now.
    #[must_use]
    pub fn totals(&self) -> &Totals {
        &self.totals
    }
}
