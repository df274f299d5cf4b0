//! The decode service, which follows the drives: drives deliver images, and this service turns them
//! into bytes, when they are needed or when computing is cheap.
//!
//! ```text
//!   price     ____            ____
//!            |    |__        |    |__          a job that is due here ----.
//!          __|       |______|        |______                              v
//!   hour   0  1  2  3  4  5  6  7  8  9 ...    runs in the cheapest hours before, earliest
//!                   ^        ^                 deadline first; the plan is remade each hour,
//!                                              and jobs with no time to lose run at once
//! ```
//!
//! The plan of least cost: for each deadline in order, take the cheapest hours before it that are
//! still free. Jobs are limited by deadlines alone, so each can use all hours that earlier
//! deadlines could use; the best choice for the earlier ones is then part of the best choice for
//! the later ones. Future work is unknown, so the plan leaves a reserve for it in every later hour.
//!
//! Elastic decoding with deadlines and prices comes from Project Silica (Anderson et al., SOSP '23,
//! section 3). The paper doesn't say how it decides; this policy is a proposal.

use std::collections::BTreeMap;

use fulgurite_domain::Micros;

/// When jobs run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// As soon as workers are free, whatever it costs.
    AtOnce,
    /// In the cheapest hours before the deadlines.
    #[default]
    Cheapest,
}

/// Settings of the service.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// When jobs run.
    pub policy: Policy,
    /// Available workers, by hour of the day.
    pub workers: [u32; 24],
    /// Price of a worker for an hour, by hour of the day. Only busy workers are paid for.
    pub prices: [f64; 24],
    /// How long before its deadline a job should be done: a quarter of an hour (proposed).
    pub margin: Micros,
    /// Share of every later hour that the plan leaves free: 0.25 (proposed).
    pub reserve: f64,
    /// Deadline of jobs without one, counted from when they are ready, so that they don't starve: a
    /// day (proposed).
    pub leisure: Micros,
    /// Most jobs that may wait: a million (proposed).
    pub jobs_max: usize,
}

impl Default for Settings {
    /// 100 workers, at half the day's price by night (proposed).
    fn default() -> Self {
        Self {
            policy: Policy::Cheapest,
            workers: [100; 24],
            prices: std::array::from_fn(|hour| if (7..23).contains(&hour) { 1.0 } else { 0.5 }),
            margin: Micros(Micros::HOUR.0 / 4),
            reserve: 0.25,
            leisure: Micros(24 * Micros::HOUR.0),
            jobs_max: 1_000_000,
        }
    }
}

/// Images to be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    /// Identifies the job when it is done.
    pub id: u64,
    /// When the images are available.
    pub ready: Micros,
    /// Time that one worker alone would take; more than 0.
    pub work: Micros,
    /// Most workers that can share it: its number of sectors, which are independent. At least 1.
    pub width: u32,
    /// When it must be done; [`Micros::NEVER`] if it can wait.
    pub deadline: Micros,
}

/// A finished job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decoded {
    /// The job.
    pub job: Job,
    /// When it was done.
    pub at: Micros,
}

/// The queue is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{jobs_max} jobs already wait to be decoded: add workers or raise jobs_max")]
pub struct Full {
    /// The limit.
    pub jobs_max: usize,
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

/// The decode service. The caller submits jobs in time order and advances the time in between.
#[derive(Debug, Clone)]
pub struct DecodeService {
    settings: Settings,
    now: Micros,
    /// By deadline, then by arrival.
    waiting: BTreeMap<(Micros, u64), WaitingJob>,
    submitted: u64,
    /// Worker-microseconds that wait, by the hour at whose end they should be done.
    due: BTreeMap<u64, u64>,
    /// Worker-microseconds that may still be used in this hour.
    allowed: u64,
    /// Hours of the plan, cheapest first. Kept to reuse its memory.
    hours: Vec<u64>,
    /// Jobs and their workers in this step. Kept to reuse its memory.
    running: Vec<((Micros, u64), u64)>,
    totals: Totals,
}

#[derive(Debug, Clone, Copy)]
struct WaitingJob {
    job: Job,
    /// Worker-microseconds.
    remaining_us: u64,
    due: u64,
}

/// Number of hours planned ahead; work due later is planned as if it were due then.
const HORIZON_HOURS: u64 = 48;

impl DecodeService {
    /// An idle service at time 0, which is midnight.
    ///
    /// # Panics
    /// If the reserve is not in 0.0..1.0, a price is not finite, or no hour has workers.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        assert!((0.0..1.0).contains(&settings.reserve), "reserve is {}, expected 0 or more and less than 1", settings.reserve);
        assert!(settings.prices.iter().all(|price| price.is_finite()), "prices are {:?}, expected finite numbers", settings.prices);
        assert!(settings.workers.iter().any(|&workers| workers > 0), "no workers at any hour: nothing would ever be decoded");
        Self {
            settings,
            now: Micros::ZERO,
            waiting: BTreeMap::new(),
            submitted: 0,
            due: BTreeMap::new(),
            allowed: 0,
            hours: Vec::new(),
            running: Vec::new(),
            totals: Totals::default(),
        }
    }

    /// Submits a job, at the current time of the service.
    ///
    /// # Errors
    /// [`Full`] if `jobs_max` jobs already wait.
    ///
    /// # Panics
    /// If the images are not available yet, or the job has no work or a width of 0.
    pub fn submit(&mut self, job: Job) -> Result<(), Full> {
        assert!(job.ready <= self.now, "job {} is ready at {}, but the time is {}: advance the service first", job.id, job.ready, self.now);
        assert!(job.width > 0 && job.work > Micros::ZERO, "job {} has no work, or a width of 0", job.id);
        if self.waiting.len() >= self.settings.jobs_max {
            return Err(Full { jobs_max: self.settings.jobs_max });
        }
        let deadline = job.deadline.min(job.ready + self.leisure(&job));
        // If the job can't use all workers, it has to begin earlier, by the time it takes at its
        // width.
        let narrow = self.settings.workers.iter().any(|&workers| job.width < workers);
        let span = if narrow { Micros(job.work.0.div_ceil(job.width.into())) } else { Micros::ZERO };
        let due = (deadline.since(self.settings.margin).since(span).0 / Micros::HOUR.0).saturating_sub(1);
        self.waiting.insert((deadline, self.submitted), WaitingJob { job, remaining_us: job.work.0, due });
        self.submitted += 1;
        *self.due.entry(due).or_default() += job.work.0;
        if due <= self.hour() {
            self.allowed += job.work.0
        } else {
            self.plan()
        }
        Ok(())
    }

    fn leisure(&self, job: &Job) -> Micros {
        if job.deadline == Micros::NEVER { self.settings.leisure } else { Micros::NEVER }
    }

    /// Changes the number of workers for an hour of the day, from now on.
    ///
    /// # Panics
    /// If `hour_of_day` is not in 0..24.
    pub fn set_workers(&mut self, hour_of_day: usize, workers: u32) {
        self.settings.workers[hour_of_day] = workers;
        self.plan();
    }

    /// Advances the time to `until`, and calls `done` for each finished job.
    pub fn advance(&mut self, until: Micros, mut done: impl FnMut(Decoded)) {
        loop {
            let hour_end = Micros((self.hour() + 1) * Micros::HOUR.0);
            self.assign();
            let rate: u64 = self.running.iter().map(|(_, workers)| workers).sum();
            let mut step = until.min(hour_end).since(self.now).0;
            for (key, workers) in &self.running {
                step = step.min(self.waiting[key].remaining_us.div_ceil(*workers));
            }
            if rate > 0 && self.settings.policy == Policy::Cheapest {
                step = step.min(self.allowed.div_ceil(rate));
            }
            if step == 0 {
                return;
            }
            self.work(step, &mut done);
            self.now += Micros(step);
            if self.now == hour_end {
                self.plan();
            }
        }
    }

    /// Assigns workers to jobs: earliest deadlines first, as many to each as can share it.
    fn assign(&mut self) {
        self.running.clear();
        let mut free = u64::from(self.workers(self.hour()));
        let mut allowed = if self.settings.policy == Policy::AtOnce { u64::MAX } else { self.allowed };
        for (key, waiting) in &self.waiting {
            if free == 0 || allowed == 0 {
                break;
            }
            let workers = free.min(waiting.job.width.into());
            self.running.push((*key, workers));
            free -= workers;
            allowed = allowed.saturating_sub(waiting.remaining_us);
        }
    }

    fn work(&mut self, step: u64, done: &mut impl FnMut(Decoded)) {
        let hour = self.hour();
        let mut used = 0;
        for (key, workers) in &self.running {
            let waiting = self.waiting.get_mut(key).expect("running jobs are among the waiting ones");
            let part = waiting.remaining_us.min(workers * step);
            waiting.remaining_us -= part;
            used += part;
            let due = waiting.due;
            if let Some(work) = self.due.get_mut(&due) {
                *work -= part;
                if *work == 0 {
                    self.due.remove(&due);
                }
            }
            if waiting.remaining_us == 0 {
                let at = self.now + Micros(step);
                let job = waiting.job;
                self.waiting.remove(key);
                let late = at.since(job.deadline);
                self.totals.jobs += 1;
                self.totals.late += u64::from(late > Micros::ZERO);
                self.totals.latest = self.totals.latest.max(late);
                self.totals.late_seconds += late.seconds();
                done(Decoded { job, at });
            }
        }
        self.allowed = self.allowed.saturating_sub(used);
        let seconds = Micros(used).seconds();
        self.totals.busy_seconds += seconds;
        self.totals.offered_seconds += f64::from(self.workers(hour)) * Micros(step).seconds();
        self.totals.cost += seconds / 3600.0 * self.settings.prices[(hour % 24) as usize];
        if self.totals.workers.len() <= hour as usize {
            self.totals.workers.resize(hour as usize + 1, 0.0);
        }
        self.totals.workers[hour as usize] += seconds / 3600.0;
    }

    /// Plans how much of the waiting work is done in this hour.
    fn plan(&mut self) {
        if self.settings.policy == Policy::AtOnce {
            return;
        }
        let hour = self.hour();
        let hour_remaining_us = (hour + 1) * Micros::HOUR.0 - self.now.0;
        let mut free = [0_u64; HORIZON_HOURS as usize + 1];
        free[0] = u64::from(self.workers(hour)) * hour_remaining_us;
        for (ahead, free) in free.iter_mut().enumerate().skip(1) {
            let whole = u64::from(self.workers(hour + ahead as u64)) * Micros::HOUR.0;
            *free = (whole as f64 * (1.0 - self.settings.reserve)) as u64;
        }
        let prices = &self.settings.prices;
        let price = |ahead: u64| prices[((hour + ahead) % 24) as usize];
        self.hours.clear();
        self.hours.extend(0..=HORIZON_HOURS);
        // Among hours of equal price the earlier comes first: it is safer.
        self.hours.sort_by(|&a, &b| price(a).total_cmp(&price(b)).then(a.cmp(&b)));
        let free_now = free[0];
        for (&due, &work) in &self.due {
            let last = due.saturating_sub(hour).min(HORIZON_HOURS);
            let mut work = work;
            let cheapest = self.hours.iter().copied().filter(|&ahead| ahead <= last);
            // Work that can't be in time is done as early as possible.
            for ahead in cheapest.chain(last + 1..=HORIZON_HOURS) {
                let part = work.min(free[ahead as usize]);
                free[ahead as usize] -= part;
                work -= part;
                if work == 0 {
                    break;
                }
            }
        }
        self.allowed = free_now - free[0];
    }

    fn hour(&self) -> u64 {
        self.now.0 / Micros::HOUR.0
    }

    fn workers(&self, hour: u64) -> u32 {
        self.settings.workers[(hour % 24) as usize]
    }

    /// Number of jobs that wait or run.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Totals up to now.
    #[must_use]
    pub fn totals(&self) -> &Totals {
        &self.totals
    }
}

#[cfg(test)]
mod tests;
