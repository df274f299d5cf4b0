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
    waiting: BTreeMap<(Micros, u64), Waiting>,
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
struct Waiting {
    job: Job,
    /// Worker-microseconds.
    left: u64,
    due: u64,
}

/// Number of hours planned ahead; work due later is planned as if it were due then.
const HORIZON: u64 = 48;

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
        self.waiting.insert((deadline, self.submitted), Waiting { job, left: job.work.0, due });
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
                step = step.min(self.waiting[key].left.div_ceil(*workers));
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
            allowed = allowed.saturating_sub(waiting.left);
        }
    }

    /// Works for `step` microseconds.
    fn work(&mut self, step: u64, done: &mut impl FnMut(Decoded)) {
        let hour = self.hour();
        let mut used = 0;
        for (key, workers) in &self.running {
            let waiting = self.waiting.get_mut(key).expect("running jobs are among the waiting ones");
            let part = waiting.left.min(workers * step);
            waiting.left -= part;
            used += part;
            let due = waiting.due;
            if let Some(work) = self.due.get_mut(&due) {
                *work -= part;
                if *work == 0 {
                    self.due.remove(&due);
                }
            }
            if waiting.left == 0 {
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
        let left_us = (hour + 1) * Micros::HOUR.0 - self.now.0;
        let mut free = [0_u64; HORIZON as usize + 1];
        free[0] = u64::from(self.workers(hour)) * left_us;
        for (ahead, free) in free.iter_mut().enumerate().skip(1) {
            let whole = u64::from(self.workers(hour + ahead as u64)) * Micros::HOUR.0;
            *free = (whole as f64 * (1.0 - self.settings.reserve)) as u64;
        }
        let prices = &self.settings.prices;
        let price = |ahead: u64| prices[((hour + ahead) % 24) as usize];
        self.hours.clear();
        self.hours.extend(0..=HORIZON);
        // Among hours of equal price the earlier comes first: it is safer.
        self.hours.sort_by(|&a, &b| price(a).total_cmp(&price(b)).then(a.cmp(&b)));
        let now_free = free[0];
        for (&due, &work) in &self.due {
            let last = due.saturating_sub(hour).min(HORIZON);
            let mut work = work;
            let cheapest = self.hours.iter().copied().filter(|&ahead| ahead <= last);
            // Work that can't be in time is done as early as possible.
            for ahead in cheapest.chain(last + 1..=HORIZON) {
                let part = work.min(free[ahead as usize]);
                free[ahead as usize] -= part;
                work -= part;
                if work == 0 {
                    break;
                }
            }
        }
        self.allowed = now_free - free[0];
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
mod tests {
    use fulgurite_chance::Stream;

    use super::*;

    const MINUTE: u64 = Micros::HOUR.0 / 60;

    fn job(id: u64, ready: u64, work: u64, deadline: u64) -> Job {
        Job { id, ready: Micros(ready * MINUTE), work: Micros(work * MINUTE), width: 216, deadline: Micros(deadline * MINUTE) }
    }

    /// Submits jobs when they are ready, and lets all of them finish.
    fn run(settings: Settings, jobs: &[Job]) -> (Vec<Decoded>, Totals) {
        let mut service = DecodeService::new(settings);
        let mut decoded = Vec::new();
        for job in jobs {
            service.advance(job.ready, |done| decoded.push(done));
            service.submit(*job).expect("there is room");
        }
        let end = Micros((service.now.0 / Micros::HOUR.0 + 50) * Micros::HOUR.0);
        service.advance(end, |done| decoded.push(done));
        assert_eq!(service.waiting(), 0, "all jobs are done in two days");
        assert_eq!(decoded.len(), jobs.len(), "each job is done once");
        (decoded, service.totals().clone())
    }

    /// A week of jobs, half of them urgent, for 40 % of the workers on average.
    fn week(seed: u64) -> Vec<Job> {
        let mut chance = Stream::new(seed, "jobs");
        let (mut ready, mut jobs) = (0.0, Vec::new());
        while ready < 7.0 * 24.0 * 60.0 {
            let minutes = if chance.happens(0.5) { chance.between(20.0, 60.0) } else { chance.between(60.0, 900.0) };
            let at = Micros((ready * MINUTE as f64) as u64);
            let work = Micros::from_seconds(chance.exponential(12_000.0)).max(Micros(1));
            jobs.push(Job { id: jobs.len() as u64, ready: at, work, width: 216, deadline: at + Micros((minutes * MINUTE as f64) as u64) });
            ready += chance.exponential(5.0);
        }
        jobs
    }

    fn cheapest_alone(job: &Job) -> f64 {
        let Settings { prices, margin, .. } = Settings::default();
        let hours = job.ready.0 / Micros::HOUR.0..=job.deadline.since(margin).0 / Micros::HOUR.0;
        let price = hours.map(|hour| prices[(hour % 24) as usize]).fold(f64::INFINITY, f64::min);
        price * job.work.seconds() / 3600.0
    }

    #[test]
    fn no_deadline_is_missed_and_it_costs_less_than_at_once() {
        for seed in 0..5 {
            let jobs = week(seed);
            let (_, cheapest) = run(Settings::default(), &jobs);
            let (_, at_once) = run(Settings { policy: Policy::AtOnce, ..Settings::default() }, &jobs);
            assert_eq!((cheapest.late, at_once.late), (0, 0), "seed {seed}");
            assert!((cheapest.busy_seconds - at_once.busy_seconds).abs() < 1.0, "seed {seed}: both policies do the same work");
            // No plan is cheaper than running each job alone in its cheapest hour.
            let alone: f64 = jobs.iter().map(cheapest_alone).sum();
            let (saved, most) = (at_once.cost - cheapest.cost, at_once.cost - alone);
            assert!(saved > 0.5 * most, "seed {seed}: {saved} saved, of {most} at most; at once {}", at_once.cost);
            assert!((0.2..0.5).contains(&cheapest.utilization()), "seed {seed}: {}", cheapest.utilization());
        }
    }

    #[test]
    fn work_waits_for_cheap_hours_but_no_longer() {
        // Ready at 8:00, due at 4:00 the next morning; from 23:00 the price is halved. 100 workers
        // do the 6,000 minutes in an hour.
        let settings = Settings { margin: Micros::ZERO, ..Settings::default() };
        let (decoded, totals) = run(settings, &[job(0, 8 * 60, 6_000, 28 * 60)]);
        assert_eq!(decoded[0].at, Micros(24 * Micros::HOUR.0));
        assert!((totals.cost - 50.0).abs() < 1e-6, "{}", totals.cost);
        assert!((totals.workers[23] - 100.0).abs() < 1e-6 && totals.workers[22] == 0.0);
        // With an earlier deadline it runs at the day's price, but no later than needed.
        let (decoded, totals) = run(Settings::default(), &[job(0, 8 * 60, 6_000, 12 * 60)]);
        assert!(decoded[0].at <= Micros(12 * Micros::HOUR.0));
        assert!((totals.cost - 100.0).abs() < 1e-6, "{}", totals.cost);
    }

    #[test]
    fn the_most_expensive_hour_takes_only_work_that_fits_nowhere_else() {
        // From 20:00 to 24:00: three hours by day and one at night, a quarter of which is kept in
        // reserve.
        let settings = Settings { margin: Micros::ZERO, ..Settings::default() };
        let (_, totals) = run(settings, &[job(0, 20 * 60, 12_000, 24 * 60)]);
        // 200 worker hours: 75 can be planned for 23:00, and 125 come from the hours before it, the
        // earliest first.
        assert_eq!(totals.workers[20..24].iter().map(|workers| workers.round()).collect::<Vec<_>>(), [100.0, 25.0, 0.0, 75.0]);
        assert_eq!(totals.late, 0);
    }

    #[test]
    fn the_earliest_deadline_preempts_other_jobs() {
        let settings = Settings { policy: Policy::AtOnce, workers: [1; 24], ..Settings::default() };
        let jobs = [job(0, 0, 60, 600), job(1, 10, 30, 300), job(2, 20, 5, 100), job(3, 20, 5, 100), job(4, 21, 5, 9_000)];
        let (decoded, _) = run(settings, &jobs);
        let order: Vec<(u64, u64)> = decoded.iter().map(|done| (done.job.id, done.at.0 / MINUTE)).collect();
        assert_eq!(order, [(2, 25), (3, 30), (1, 50), (0, 100), (4, 105)]);
    }

    #[test]
    fn a_read_near_its_deadline_overtakes_jobs_that_can_wait() {
        let leisure = Job { deadline: Micros::NEVER, ..job(0, 0, 60_000, 0) };
        let (decoded, totals) = run(Settings::default(), &[leisure, job(1, 30, 100, 40)]);
        assert_eq!((decoded[0].job.id, decoded[0].at), (1, Micros(31 * MINUTE)));
        assert!(decoded[1].at <= Micros(24 * Micros::HOUR.0), "a job without a deadline doesn't starve: {}", decoded[1].at);
        assert_eq!(totals.late, 0);
    }

    #[test]
    fn few_sectors_occupy_few_workers() {
        let settings = Settings { policy: Policy::AtOnce, ..Settings::default() };
        let narrow = Job { width: 2, ..job(0, 0, 60, 600) };
        let (decoded, totals) = run(settings, &[narrow, job(1, 0, 98, 700)]);
        let ends: Vec<u64> = decoded.iter().map(|done| done.at.0 / MINUTE).collect();
        // 98 of 100 workers are left for the second one.
        assert_eq!(ends, [1, 30]);
        assert!((totals.workers[0] - 158.0 / 60.0).abs() < 1e-9);
    }

    #[test]
    fn the_number_of_workers_changes_by_the_hour() {
        let mut workers = [0; 24];
        workers[3] = 10;
        let settings = Settings { workers, ..Settings::default() };
        let (decoded, totals) = run(settings.clone(), &[job(0, 0, 60, 300)]);
        assert_eq!(decoded[0].at, Micros(186 * MINUTE));
        assert_eq!(totals.offered_seconds, 2.0 * 36_000.0, "ten workers, an hour on each of two days");
        let mut service = DecodeService::new(settings);
        service.submit(job(0, 0, 60, 300)).expect("there is room");
        service.set_workers(0, 10);
        let mut ends = Vec::new();
        service.advance(Micros::HOUR, |done| ends.push(done.at));
        assert_eq!(ends, [Micros(6 * MINUTE)], "the earlier of two hours of equal price");
    }

    #[test]
    fn a_full_queue_rejects_further_jobs() {
        let mut service = DecodeService::new(Settings { jobs_max: 1, ..Settings::default() });
        service.submit(job(0, 0, 1, 10)).expect("there is room");
        let full = service.submit(job(1, 0, 1, 10)).expect_err("there is none");
        assert_eq!(full.to_string(), "1 jobs already wait to be decoded: add workers or raise jobs_max");
        service.advance(Micros::HOUR, |_| {});
        service.submit(job(2, 0, 1, 10)).expect("there is room again");
    }
}
