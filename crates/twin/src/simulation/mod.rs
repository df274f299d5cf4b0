//! A run: the controllers of a scenario's libraries drive the emulated mechanics under its
//! workload.
//!
//! ```text
//!   Requests --- arrivals ---.                         .--- commands ---> Mechanics of the library
//!                            v                         |                        |
//!              earliest of both ---> due? ---> Region (Controllers)             | answers, each with its instant
//!                            ^                         |                        |
//!   Queue ------- events ----'                         '--- ends ---> Run       |
//!     ^---------------------------------------------------------------------'
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
use fulgurite_library::{
    Command, Controller, Event, Layout, Library, Platter, Policy, Region, RegionOutcome, RequestId, Shuttle, Whereabouts,
};
use fulgurite_mechanics::{Mechanics, MotionLog};

pub use decoding::DecodeFigures;
pub use error::{RunError, StopReason, Unfinished};
pub use figures::{DriveFigures, Outcomes, Run, ShuttleFigures, SystemFigures};
pub use observer::{Activity, Ended, Observer, Request, Sample};
pub use repeated::Repeated;

use crate::kernel::Queue;
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

#[derive(Debug, Clone, Copy)]
struct ScheduledEvent {
    library: Library,
    event: Event,
}

struct Simulation<'s, O, L> {
    scenario: &'s Scenario,
    stock: &'s Stock,
    seed: u64,
    region: Region,
    mechanics: Vec<Mechanics<L>>,
    queue: Queue<ScheduledEvent>,
    requests: Requests,
    open: OpenRequests,
    ingesting: Option<Ingesting>,
    /// When each library's controller will be woken; [`Micros::NEVER`] if it won't.
    wakeups: Vec<Micros>,
    observer: O,
    measuring: Measuring,
    now: Micros,
    events: u64,
    // Emptied in each step; kept to reuse their memory.
    commands: Vec<(Library, Command)>,
    ended: Vec<(RequestId, RegionOutcome)>,
    answers: Vec<(Micros, Event)>,
}

impl<'s, O: Observer, L: MotionLog> Simulation<'s, O, L> {
    fn new(
        scenario: &'s Scenario,
        stock: &'s Stock,
        seed: u64,
        region: Region,
        observer: O,
        mut log: impl FnMut(&Layout) -> L,
    ) -> Result<Self, RunError> {
        let mechanics = region.controllers().iter().enumerate().map(|(index, controller)| {
            let library = Library(index as u16);
            let settings = scenario.mechanics_of(library);
            // Libraries are identical, but their machines draw different times. The factor, 2^64
            // divided by the golden ratio, keeps the seeds of libraries far apart.
            let seed = seed.wrapping_add((index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15));
            let mut machines = Mechanics::with_log(scenario.layout.clone(), settings, seed, log(&scenario.layout));
            let panel = controller.panel();
            for platter in (0..panel.platter_count()).map(Platter) {
                if let Whereabouts::Berth(berth) = panel.whereabouts(platter) {
                    machines.put(platter, berth);
                }
            }
            for shuttle in (0..scenario.layout.shuttles).map(Shuttle) {
                machines.set_start_position(shuttle, panel.position(shuttle));
            }
            machines
        });
        Ok(Self {
            mechanics: mechanics.collect(),
            queue: Queue::new(),
            requests: Requests::new(scenario, stock, seed)?,
            open: OpenRequests::default(),
            ingesting: Ingesting::new(scenario, stock, seed)?,
            wakeups: vec![Micros::NEVER; scenario.libraries.into()],
            observer,
            measuring: Measuring::new(&scenario.run, scenario.libraries),
            now: Micros::ZERO,
            events: 0,
            commands: Vec::new(),
            ended: Vec::new(),
            answers: Vec::new(),
            region,
            scenario,
            stock,
            seed,
        })
    }

    fn run(mut self) -> Result<Finished<L>, RunError> {
        self.begin();
        let measured_until = self.scenario.run.measured_until();
        let latest = measured_until + self.scenario.run.cool_down;
        let stop_reason = loop {
            let arrival = self.requests.next_at();
            // At the same instant, arrivals precede events (but not at 0).
            let next = self.queue.pop_until(Micros(arrival.0.saturating_sub(1)));
            let at = match &next {
                Some((at, _)) => *at,
                None if arrival < Micros::NEVER => arrival,
                None => break StopReason::Idle,
            };
            if at >= self.measuring.next_measurement {
                self.measuring.measure(at, &self.region, &self.mechanics);
            }
            if at >= measured_until && self.open.measured_open == 0 || at > latest {
                break StopReason::Over;
            }
            if at >= self.observer.next_sample() {
                self.sample_until(at);
            }
            self.now = at;
            self.events += 1;
            match next {
                Some((_, scheduled)) => self.handle_due_event(scheduled),
                None => self.handle_arrival()?,
            }
        };
        let end = self.now.max(measured_until);
        self.measuring.measure(end, &self.region, &self.mechanics);
        self.sample_until(end);
        self.observer.end(&Sample::of(end, &self.region, &self.mechanics));
        self.requests.read_to_end()?;
        if let Some(path) = self.scenario.workload.trace.clone().filter(|_| self.measuring.requests() == 0) {
            return Err(RunError::NothingMeasured { path, from: self.scenario.run.warm_up, until: measured_until });
        }
        Ok(self.finish(stop_reason))
    }

    /// Gives the observer the samples that it wants, up to this instant.
    fn sample_until(&mut self, at: Micros) {
        loop {
            let next = self.observer.next_sample();
            if next > at {
                break;
            }
            self.observer.sample(&Sample::of(next, &self.region, &self.mechanics));
            assert!(self.observer.next_sample() > next, "an observer wants its next sample after the one it has just received");
        }
    }

    fn begin(&mut self) {
        self.observer.begin(&self.region);
        for index in 0..self.mechanics.len() {
            let library = Library(index as u16);
            self.mechanics[index].start(&mut self.answers);
            self.schedule_answers(library);
        }
        for index in 0..self.stock.unavailable.len() {
            let (library, platter) = self.stock.sets.places[self.stock.unavailable[index].0 as usize];
            self.deliver_event(library, Event::PlatterUnavailable { platter });
        }
        for index in 0..self.mechanics.len() {
            self.deliver_event(Library(index as u16), Event::Woken);
        }
        self.schedule_ingest();
    }

    fn handle_arrival(&mut self) -> Result<(), RunError> {
        let at = self.now;
        let Some(bytes) = self.requests.take(self.stock)? else { return Ok(()) };
        let deadline = self.scenario.workload.deadline.map_or(Micros::NEVER, |within| at + within);
        let is_measured = at >= self.scenario.run.warm_up && at < self.scenario.run.measured_until();
        let id = self.open.insert(OpenRequest { arrived: at, bytes, deadline, is_measured });
        let shards = &self.requests.shards;
        self.measuring.arrived(at, is_measured, id, shards);
        self.observer.request(&Request { id, at, shards, bytes, deadline, is_measured });
        self.region.request(at, id, shards, deadline, &mut self.commands, &mut self.ended);
        self.dispatch_commands();
        self.schedule_changed_wakeups();
        Ok(())
    }

    /// Handles a due event, unless it has become void.
    fn handle_due_event(&mut self, ScheduledEvent { library, event }: ScheduledEvent) {
        let index = usize::from(library.0);
        match event {
            Event::Woken => {
                // This wake-up was superseded by an earlier one.
                if self.wakeups[index] != self.now {
                    return;
                }
                self.wakeups[index] = Micros::NEVER;
                if self.region.controllers()[index].deadline().is_some_and(|deadline| deadline <= self.now) {
                    self.deliver_event(library, event);
                } else {
                    self.schedule_wakeup(library);
                }
            }
            Event::PlatterWritten { platter } => {
                self.mechanics[index].put(platter, fulgurite_library::Berth::Port);
                self.deliver_event(library, event);
                self.schedule_ingest();
            }
            _ => {
                let concerns_controller = self.mechanics[index].due(self.now, &event, &mut self.answers);
                self.schedule_answers(library);
                if concerns_controller {
                    self.deliver_event(library, event);
                }
            }
        }
    }

    /// Passes an event to a controller and handles the consequences.
    fn deliver_event(&mut self, library: Library, event: Event) {
        self.observer.event(self.now, library, &event);
        self.region.step(self.now, library, event, &mut self.commands, &mut self.ended);
        self.measuring.stepped(self.now, library, self.region.controllers()[usize::from(library.0)].panel().congestion());
        self.dispatch_commands();
        self.schedule_changed_wakeups();
    }

    /// Passes commands to the machines and releases requests that have ended.
    fn dispatch_commands(&mut self) {
        for index in 0..self.commands.len() {
            let (library, command) = self.commands[index];
            self.observer.command(self.now, library, &command);
            if let Command::Do { id, action } = command {
                self.mechanics[usize::from(library.0)].begin(self.now, id, action, &mut self.answers);
                self.schedule_answers(library);
            }
        }
        self.commands.clear();
        for index in 0..self.ended.len() {
            let (id, outcome) = self.ended[index];
            let OpenRequest { arrived, bytes, deadline, is_measured } = self.open.remove(id);
            let ended = Ended { id, arrived, at: self.now, bytes, deadline, outcome, is_measured };
            self.measuring.ended(&ended);
            self.observer.ended(&ended);
        }
        self.ended.clear();
        self.observer.settled(self.now, &self.region);
    }

    fn schedule_answers(&mut self, library: Library) {
        for (at, event) in self.answers.drain(..) {
            self.queue.push(at, ScheduledEvent { library, event });
        }
    }

    /// Schedules a wake-up if the controller needs one earlier than planned.
    fn schedule_wakeup(&mut self, library: Library) {
        let index = usize::from(library.0);
        if let Some(deadline) = self.region.controllers()[index].deadline() {
            let deadline = deadline.max(self.now + Micros(1));
            if deadline < self.wakeups[index] {
                self.wakeups[index] = deadline;
                self.queue.push(deadline, ScheduledEvent { library, event: Event::Woken });
            }
        }
    }

    /// A request with several shards, or a recovered read, may have changed several libraries.
    fn schedule_changed_wakeups(&mut self) {
        for index in 0..self.region.changed().len() {
            let library = self.region.changed()[index];
            self.schedule_wakeup(library);
        }
    }

    fn schedule_ingest(&mut self) {
        if let Some((at, library, platter)) = self.ingesting.as_mut().and_then(|ingesting| ingesting.next(self.stock)) {
            self.queue.push(at.max(self.now), ScheduledEvent { library, event: Event::PlatterWritten { platter } });
        }
    }

    fn finish(mut self, reason: StopReason) -> Finished<L> {
        let (requests, at) = (self.open.measured_open, self.now);
        let unfinished = self.open.unfinished().next();
        let unfinished = unfinished.map(|(first, open)| Unfinished { requests, first, arrived: open.arrived, at, reason });
        self.open.unfinished().for_each(|(_, open)| self.measuring.censored(at, &open));
        let unfinished_us: u64 = self.open.in_progress().map(|open| self.now.since(open.arrived).0).sum();
        let mut run = self.measuring.into_run(self.now, unfinished_us, self.scenario, self.stock);
        run.seed = self.seed;
        run.unfinished = unfinished;
        run.events = self.events;
        run.recoveries = self.region.recovered();
        Finished { run, region: self.region, mechanics: self.mechanics, at: self.now }
    }
}
