//! Which of the waiting jobs may run in this hour, and whose turn it is.

use std::collections::BTreeMap;

use fulgurite_domain::Micros;

use crate::{Class, Full, Job, Policy, Settings};

/// The order of jobs: by class, then by deadline (of reads: when their images were ready), then by
/// arrival.
pub(crate) type Turn = (Class, Micros, u64);

/// The waiting jobs, and the plan of this hour.
#[derive(Debug, Clone)]
pub(crate) struct Schedule {
    settings: Settings,
    waiting: BTreeMap<Turn, WaitingJob>,
    submitted: u64,
    /// Worker-microseconds that wait, by the hour at whose end they should be done.
    due: BTreeMap<u64, u64>,
    /// Worker-microseconds that may still be used in this hour.
    allowed: u64,
    /// Hours of the plan, cheapest first. Kept to reuse its memory.
    hours: Vec<u64>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitingJob {
    pub(crate) job: Job,
    /// Worker-microseconds.
    pub(crate) remaining_us: u64,
    /// The hour at whose end the job should be done.
    due: u64,
}

/// Number of hours planned ahead; work due later is planned as if it were due then.
const HORIZON_HOURS: u64 = 48;

pub(crate) fn hour(now: Micros) -> u64 {
    now.0 / Micros::HOUR.0
}

impl Schedule {
    /// # Panics
    /// If the reserve is not in 0.0..1.0, a price is not finite, or no hour has workers.
    pub(crate) fn new(settings: Settings) -> Self {
        assert!((0.0..1.0).contains(&settings.reserve), "reserve is {}, expected 0 or more and less than 1", settings.reserve);
        assert!(settings.prices.iter().all(|price| price.is_finite()), "prices are {:?}, expected finite numbers", settings.prices);
        assert!(settings.workers.iter().any(|&workers| workers > 0), "no workers at any hour: nothing would ever be decoded");
        Self { settings, waiting: BTreeMap::new(), submitted: 0, due: BTreeMap::new(), allowed: 0, hours: Vec::new() }
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn submit(&mut self, now: Micros, job: Job) -> Result<(), Full> {
        assert!(job.ready <= now, "job {} is ready at {}, but the time is {}: advance the service first", job.id, job.ready, now);
        assert!(job.width > 0 && job.work > Micros::ZERO, "job {} has no work, or a width of 0", job.id);
        if self.waiting.len() >= self.settings.jobs_max {
            return Err(Full { jobs_max: self.settings.jobs_max });
        }
        let deadline = match job.class {
            Class::Read => job.ready,
            Class::Deferrable => job.deadline.min(job.ready + self.leisure(&job)),
        };
        // If the job can't use all workers, it has to begin earlier, by the time it takes at its
        // width.
        let narrow = self.settings.workers.iter().any(|&workers| job.width < workers);
        let span = if narrow { Micros(job.work.0.div_ceil(job.width.into())) } else { Micros::ZERO };
        let due = hour(deadline.since(self.settings.margin).since(span)).saturating_sub(1);
        self.waiting.insert((job.class, deadline, self.submitted), WaitingJob { job, remaining_us: job.work.0, due });
        self.submitted += 1;
        *self.due.entry(due).or_default() += job.work.0;
        if due <= hour(now) {
            self.allowed += job.work.0
        } else {
            self.plan(now)
        }
        Ok(())
    }

    /// Takes a waiting job back. False if no job with this ID waits.
    pub(crate) fn withdraw(&mut self, now: Micros, id: u64) -> bool {
        let Some(turn) = self.waiting.iter().find_map(|(turn, waiting)| (waiting.job.id == id).then_some(*turn)) else { return false };
        self.work(&turn, u64::MAX);
        self.plan(now);
        true
    }

    fn leisure(&self, job: &Job) -> Micros {
        if job.deadline == Micros::NEVER { self.settings.leisure } else { Micros::NEVER }
    }

    pub(crate) fn set_workers(&mut self, now: Micros, hour_of_day: usize, workers: u32) {
        self.settings.workers[hour_of_day] = workers;
        self.plan(now);
    }

    /// Jobs that may run in this hour, in the order of their turns.
    pub(crate) fn runnable(&self) -> impl Iterator<Item = (Turn, &WaitingJob)> {
        let mut allowed = self.allowed();
        self.waiting.iter().map_while(move |(turn, waiting)| {
            if allowed == 0 && turn.0 == Class::Deferrable {
                return None;
            }
            allowed = allowed.saturating_sub(waiting.remaining_us);
            Some((*turn, waiting))
        })
    }

    /// The first deferrable job, if it may run in this hour and its deadline has come.
    pub(crate) fn overdue(&self, now: Micros) -> Option<(Turn, &WaitingJob)> {
        let (turn, waiting) = self.waiting.range((Class::Deferrable, Micros::ZERO, 0)..).next()?;
        (self.allowed() > 0 && turn.1 <= now).then_some((*turn, waiting))
    }

    /// Worker-microseconds that may still be used in this hour.
    pub(crate) fn allowed(&self) -> u64 {
        if self.settings.policy == Policy::AtOnce { u64::MAX } else { self.allowed }
    }

    pub(crate) fn remaining_us(&self, turn: &Turn) -> u64 {
        self.waiting[turn].remaining_us
    }

    /// Takes up to `work_us` of a job's work from the plan. Returns how much that was, and the job
    /// if nothing remains.
    pub(crate) fn work(&mut self, turn: &Turn, work_us: u64) -> (u64, Option<Job>) {
        let waiting = self.waiting.get_mut(turn).expect("running jobs are among the waiting ones");
        let part = waiting.remaining_us.min(work_us);
        waiting.remaining_us -= part;
        let WaitingJob { job, remaining_us, due } = *waiting;
        if let Some(work) = self.due.get_mut(&due) {
            *work -= part;
            if *work == 0 {
                self.due.remove(&due);
            }
        }
        if remaining_us > 0 {
            return (part, None);
        }
        self.waiting.remove(turn);
        (part, Some(job))
    }

    /// Takes work from what may be used in this hour.
    pub(crate) fn use_up(&mut self, work_us: u64) {
        self.allowed = self.allowed.saturating_sub(work_us);
    }

    /// Plans how much of the waiting work is done in this hour.
    pub(crate) fn plan(&mut self, now: Micros) {
        if self.settings.policy == Policy::AtOnce {
            return;
        }
        let hour = hour(now);
        let hour_remaining_us = (hour + 1) * Micros::HOUR.0 - now.0;
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

    pub(crate) fn workers(&self, hour: u64) -> u32 {
        self.settings.workers[(hour % 24) as usize]
    }

    /// The jobs that wait or run.
    pub(crate) fn jobs(&self) -> impl Iterator<Item = &Job> {
        self.waiting.values().map(|waiting| &waiting.job)
    }

    /// Number of jobs that wait or run.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }
}
