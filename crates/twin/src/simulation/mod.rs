//! A run: the controllers of a scenario's libraries drive the emulated mechanics under its
//! workload.
//!
//! ```text
//!   Requests --- arrivals ---.
//!                            v                         .---> Watch: measurements, observer
//!              earliest of both ---> due? ---> Libraries: controllers and mechanics
//!                            ^                         |
//!                            '------- events ----------'
//! ```
//!
//! All libraries share one queue, so that a request with shards in several of them is tracked as
//! one. Arrivals are drawn one at a time, and a request's state is dropped when it ends; memory is
//! therefore bounded by the platters and the requests in progress. The same scenario and seed give
//! the same run on any machine.

mod decoding;
mod error;
mod figures;
mod ingest;
mod measuring;
mod observer;
mod repeated;
mod requests;
mod traced;

use fulgurite_domain::Micros;
use fulgurite_library::{Command, Controller, Event, Layout, Library, Policy, Region, RegionOutcome, RequestId};
use fulgurite_mechanics::{Libraries, Mechanics, MotionLog, Witness};

pub use decoding::DecodeFigures;
pub use error::{RunError, StopReason, Unfinished};
pub use figures::{DriveFigures, Outcomes, Run, ShuttleFigures, SystemFigures};
pub use observer::{Activity, Ended, Observer, Request, Sample};
pub use repeated::Repeated;

use crate::scenario::{Scenario, Stock};
use decoding::Decoding;
use ingest::Ingesting;
use measuring::Measuring;
pub use requests::workload_statistics;
use requests::{OpenRequest, OpenRequests, Requests};

/// A completed run with its final state, for inspection.
pub struct Finished<L = ()> {
    /// The results.
    pub run: Run,
    /// The controllers.
    pub region: Region,
    /// The machines of each library, with their motion logs.
    pub mechanics: Vec<Mechanics<L>>,
    /// When it ended.
    pub at: Micros,
}

/// Runs a scenario.
///
/// # Errors
/// [`RunError`] if the scenario can't be run. Measured requests that don't end are no error:
/// [`Run::unfinished`] reports them.
pub fn run(scenario: &Scenario, seed: u64) -> Result<Run, RunError> {
    Ok(run_with(scenario, seed, (), |_| ())?.run)
}

/// Runs a scenario with an observer, and a motion log for each library.
pub fn run_with<O: Observer, L: MotionLog>(
    scenario: &Scenario,
    seed: u64,
    observer: O,
    log: impl FnMut(&Layout) -> L,
) -> Result<Finished<L>, RunError> {
    scenario.check()?;
    run_on(scenario, &scenario.stock(seed)?, seed, observer, log)
}

/// Like [`run_with`], for a [checked](Scenario::check) scenario whose platters are already placed
/// for this seed.
pub fn run_on<O: Observer, L: MotionLog>(
    scenario: &Scenario,
    stock: &Stock,
    seed: u64,
    observer: O,
    log: impl FnMut(&Layout) -> L,
) -> Result<Finished<L>, RunError> {
    run_region(scenario, stock, seed, scenario.region(stock), observer, log)
}

/// Runs a scenario with a custom policy in each library. Platters, requests and random draws are
/// the same as with the scenario's own policy, so runs with the same seed differ only in the
/// policy. The policy must use shuttles.
pub fn run_with_policy(scenario: &Scenario, seed: u64, policy: impl Fn(&Layout) -> Box<dyn Policy>) -> Result<Run, RunError> {
    scenario.check()?;
    let stock = scenario.stock(seed)?;
    let region = scenario.region_with(&stock, policy);
    Ok(run_region(scenario, &stock, seed, region, (), |_| ())?.run)
}

fn run_region<O: Observer, L: MotionLog>(
    scenario: &Scenario,
    stock: &Stock,
    seed: u64,
    region: Region,
    observer: O,
    log: impl FnMut(&Layout) -> L,
) -> Result<Finished<L>, RunError> {
    let mut decoding = scenario.decode.as_ref().map(Decoding::new);
    let mut finished = Simulation::new(scenario, stock, seed, region, (observer, &mut decoding), log)?.run()?;
    finished.run.decode = decoding.map(|decoding| decoding.figures(finished.at));
    Ok(finished)
}

impl Scenario {
    /// The controllers at the start of a run, before any event.
    #[must_use]
    pub fn region(&self, stock: &Stock) -> Region {
        self.region_with(stock, |layout| self.policy.build(layout, &self.pace(), self.mechanics.drive.track_bytes))
    }

    /// [`Scenario::region`] with another policy.
    #[must_use]
    pub fn region_with(&self, stock: &Stock, policy: impl Fn(&Layout) -> Box<dyn Policy>) -> Region {
        let controller = |inventory| Controller::new(self.layout.clone(), self.pace(), inventory, policy(&self.layout));
        Region::new(stock.inventories.iter().map(controller).collect(), stock.sets.clone())
    }
}

struct Simulation<'s, O, L> {
    scenario: &'s Scenario,
    stock: &'s Stock,
    seed: u64,
    libraries: Libraries<L>,
    requests: Requests,
    ingesting: Option<Ingesting>,
    watch: Watch<O>,
    now: Micros,
    events: u64,
}

/// What a run keeps of the inputs and outputs of its libraries.
struct Watch<O> {
    open: OpenRequests,
    observer: O,
    measuring: Measuring,
}

impl<O: Observer> Witness for Watch<O> {
    fn event(&mut self, now: Micros, library: Library, event: &Event) {
        self.observer.event(now, library, event);
    }

    fn handled(&mut self, now: Micros, library: Library, region: &Region) {
        self.measuring.stepped(now, library, region.controllers()[usize::from(library.0)].panel().congestion());
    }

    fn command(&mut self, now: Micros, library: Library, command: &Command) {
        self.observer.command(now, library, command);
    }

    fn ended(&mut self, now: Micros, id: RequestId, outcome: RegionOutcome) {
        let OpenRequest { arrived, bytes, deadline, is_measured } = self.open.remove(id);
        let ended = Ended { id, arrived, at: now, bytes, deadline, outcome, is_measured };
        self.measuring.ended(&ended);
        self.observer.ended(&ended);
    }

    fn settled(&mut self, now: Micros, region: &Region) {
        self.observer.settled(now, region);
    }
}

impl<'s, O: Observer, L: MotionLog> Simulation<'s, O, L> {
    fn new(
        scenario: &'s Scenario,
        stock: &'s Stock,
        seed: u64,
        region: Region,
        observer: O,
        log: impl FnMut(&Layout) -> L,
    ) -> Result<Self, RunError> {
        Ok(Self {
            libraries: Libraries::new(region, |library| scenario.mechanics_of(library), seed, log),
            requests: Requests::new(scenario, stock, seed)?,
            ingesting: Ingesting::new(scenario, stock, seed)?,
            watch: Watch { open: OpenRequests::default(), observer, measuring: Measuring::new(&scenario.run, scenario.libraries) },
            now: Micros::ZERO,
            events: 0,
            scenario,
            stock,
            seed,
        })
    }

    fn run(mut self) -> Result<Finished<L>, RunError> {
        self.begin();
        let measured_until = self.scenario.run.measured_until();
        let latest = self.scenario.run.latest();
        let stop_reason = loop {
            let arrival = self.requests.next_at();
            // At the same instant, arrivals precede events (but not at 0).
            let next = self.libraries.pop_until(Micros(arrival.0.saturating_sub(1)));
            let at = match &next {
                Some((at, _)) => *at,
                None if arrival < Micros::NEVER => arrival,
                None => break StopReason::Idle,
            };
            if at >= self.watch.measuring.next_measurement {
                self.measure(at);
            }
            if at >= measured_until && self.watch.open.measured_open == 0 || at > latest {
                break StopReason::Over;
            }
            if at >= self.watch.observer.next_sample() {
                self.sample_until(at);
                if self.watch.observer.is_stopped() {
                    break StopReason::Stopped;
                }
            }
            self.now = at;
            self.events += 1;
            match next {
                Some((_, due)) => {
                    self.libraries.handle(at, due, &mut self.watch);
                    if let Event::PlatterWritten { .. } = due.event {
                        self.schedule_ingest();
                    }
                }
                None => self.handle_arrival()?,
            }
        };
        let end = self.now.max(measured_until);
        self.measure(end);
        self.sample_until(end);
        self.watch.observer.end(&Sample::of(end, self.libraries.region(), self.libraries.mechanics()));
        self.requests.read_to_end()?;
        if let Some(path) = self.scenario.workload.trace.clone().filter(|_| self.watch.measuring.requests() == 0) {
            return Err(RunError::NothingMeasured { path, from: self.scenario.run.warm_up, until: measured_until });
        }
        Ok(self.finish(stop_reason))
    }

    fn measure(&mut self, at: Micros) {
        self.watch.measuring.measure(at, self.libraries.region(), self.libraries.mechanics());
    }

    /// Gives the observer the samples that it wants, up to this instant.
    fn sample_until(&mut self, at: Micros) {
        loop {
            let next = self.watch.observer.next_sample();
            if next > at {
                break;
            }
            self.watch.observer.sample(&Sample::of(next, self.libraries.region(), self.libraries.mechanics()));
            assert!(self.watch.observer.next_sample() > next, "an observer wants its next sample after the one it has just received");
        }
    }

    fn begin(&mut self) {
        self.watch.observer.begin(self.libraries.region());
        self.libraries.start_machines();
        for unavailable in &self.stock.unavailable {
            let (library, platter) = self.stock.sets.places[unavailable.0 as usize];
            self.libraries.deliver(self.now, library, Event::PlatterUnavailable { platter }, &mut self.watch);
        }
        for library in (0..self.scenario.libraries).map(Library) {
            self.libraries.deliver(self.now, library, Event::Woken, &mut self.watch);
        }
        self.schedule_ingest();
    }

    fn handle_arrival(&mut self) -> Result<(), RunError> {
        let at = self.now;
        let Some(bytes) = self.requests.take(self.stock)? else { return Ok(()) };
        let deadline = self.scenario.workload.deadline.map_or(Micros::NEVER, |within| at + within);
        let is_measured = at >= self.scenario.run.warm_up && at < self.scenario.run.measured_until();
        let id = self.watch.open.insert(OpenRequest { arrived: at, bytes, deadline, is_measured });
        let shards = &self.requests.shards;
        self.watch.measuring.arrived(at, is_measured, id, shards);
        self.watch.observer.request(&Request { id, at, shards, bytes, deadline, is_measured });
        self.libraries.request(at, id, shards, deadline, &mut self.watch);
        Ok(())
    }

    fn schedule_ingest(&mut self) {
        if let Some((at, library, platter)) = self.ingesting.as_mut().and_then(|ingesting| ingesting.next(self.stock)) {
            self.libraries.schedule(at.max(self.now), library, Event::PlatterWritten { platter });
        }
    }

    fn finish(self, reason: StopReason) -> Finished<L> {
        let Watch { open, mut measuring, .. } = self.watch;
        let (region, mechanics) = self.libraries.into_parts();
        let (requests, at) = (open.measured_open, self.now);
        let unfinished = open.unfinished().next();
        let unfinished = unfinished.map(|(first, open)| Unfinished { requests, first, arrived: open.arrived, at, reason });
        open.unfinished().for_each(|(_, open)| measuring.censored(at, &open));
        let unfinished_us: u64 = open.in_progress().map(|open| at.since(open.arrived).0).sum();
        let mut run = measuring.into_run(at, unfinished_us, self.scenario, self.stock);
        run.seed = self.seed;
        run.unfinished = unfinished;
        run.events = self.events;
        run.recoveries = region.recovered();
        Finished { run, region, mechanics, at }
    }
}
