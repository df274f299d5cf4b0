//! The simulation: instants, gaps and transfers, instead of drives and stores.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use fulgurite_chance::Stream;
use fulgurite_domain::Micros;

use super::outcome::Outcome;
use super::scenario::{Scenario, Speed};
use super::sharing::{self, Demand};
use crate::event::{Command, Done, Event};
use crate::figures::Figures;
use crate::layout::{Stage, StreamId, StreamPlace};
use crate::lot::{FamilyId, Lot, LotId, SourceVolume};
use crate::pipeline::Pipeline;

/// Files whose gaps are drawn one by one; more have the mean.
const DRAWN_GAPS: u32 = 32;

/// Simulates a migration from its beginning to its end. The same scenario gives the same outcome on
/// every machine.
#[must_use]
pub fn simulate(scenario: &Scenario) -> Outcome {
    let mut simulation = Simulation::new(scenario);
    simulation.run();
    let Simulation { figures, hours, .. } = simulation;
    Outcome::new(scenario.clone(), figures, hours)
}

/// What a stream does at the moment.
#[derive(Debug, Clone, Copy)]
struct Work {
    lot: Lot,
    began: Micros,
    began_moving: Micros,
}

/// A transfer under way.
#[derive(Debug, Clone, Copy)]
struct Transfer {
    stream: StreamId,
    left: f64,
}

struct Simulation<'a> {
    scenario: &'a Scenario,
    pipeline: Pipeline,
    figures: Figures,
    places: Vec<StreamPlace>,
    inventory: Inventory<'a>,
    gaps: Stream,
    now: Micros,
    events: VecDeque<Event>,
    /// Gaps that end, by stream, and wake-ups.
    waiting: BinaryHeap<Reverse<(Micros, u64, Option<StreamId>)>>,
    sequence: u64,
    works: Vec<Option<Work>>,
    transfers: Vec<Transfer>,
    demands: Vec<Demand>,
    rates: Vec<f64>,
    capacities: Vec<f64>,
    /// For each hour, the bytes that passed each stage.
    hours: Vec<[u64; 3]>,
}

impl<'a> Simulation<'a> {
    fn new(scenario: &'a Scenario) -> Self {
        let layout = scenario.layout();
        let pipeline = Pipeline::new(&layout);
        let (places, of) = (layout.streams(), &scenario.stations);
        let mut capacities = vec![of.link; 2 * usize::from(of.count)];
        capacities.extend([of.source, of.destination]);
        Self {
            scenario,
            figures: Figures::new(&pipeline),
            pipeline,
            inventory: Inventory::new(scenario, places.len()),
            works: vec![None; places.len()],
            places,
            gaps: Stream::new(u64::from(scenario.seed), "gaps"),
            now: scenario.begins,
            events: VecDeque::from([Event::Begun]),
            waiting: BinaryHeap::new(),
            sequence: 0,
            transfers: Vec::new(),
            demands: Vec::new(),
            rates: Vec::new(),
            capacities,
            hours: Vec::new(),
        }
    }

    fn run(&mut self) {
        let mut commands = Vec::new();
        loop {
            while let Some(event) = self.events.pop_front() {
                self.pipeline.step(self.now, event, &mut commands);
                self.figures.observe(self.now, &event, &self.pipeline);
                for command in commands.drain(..) {
                    self.carry_out(command);
                }
            }
            if self.pipeline.has_ended() {
                return;
            }
            self.advance();
        }
    }

    fn carry_out(&mut self, command: Command) {
        match command {
            Command::Ask { stream, mounted } => {
                let station = self.places[usize::from(stream.0)].station;
                let event = match self.inventory.next(stream, mounted.is_some(), station, self.now) {
                    Ok(lot) => Event::Offered { stream, lot },
                    Err(again_at) => Event::NothingOffered { stream, again_at },
                };
                self.events.push_back(event);
            }
            Command::Read { stream, lot, .. } => {
                let change = if self.inventory.is_first_of_volume(stream) { self.scenario.files.change_s } else { 0.0 };
                self.begin(stream, lot, self.scenario.input, change);
            }
            Command::Write { stream, lot, .. } => self.begin(stream, lot, self.scenario.output, 0.0),
            Command::Scan { stream, lot } => self.begin(stream, lot, self.scenario.scan, 0.0),
            Command::WakeAt(at) => self.wait(at, None),
            Command::Release { .. } | Command::End => {}
            Command::Reject { .. } => unreachable!("lots are no larger than spool volumes"),
        }
    }

    /// Begins a stage with the gaps before its files.
    fn begin(&mut self, stream: StreamId, lot: LotId, speed: Speed, change_s: f64) {
        let lot = *self.pipeline.lot(lot).expect("it is on its way");
        let gaps_s = match lot.files {
            files if files <= DRAWN_GAPS => (0..files).map(|_| self.gaps.between(speed.gap_s, speed.gap_max_s)).sum(),
            files => f64::from(files) * (speed.gap_s + speed.gap_max_s) / 2.0,
        };
        let began_moving = Micros(self.now.0 + Micros::from_seconds(change_s + gaps_s).0);
        self.works[usize::from(stream.0)] = Some(Work { lot, began: self.now, began_moving });
        // What each file takes besides its bytes is spent first, all at once.
        let files_s = f64::from(lot.files) * speed.file_s;
        self.wait(Micros(began_moving.0 + Micros::from_seconds(files_s).0), Some(stream));
    }

    fn wait(&mut self, at: Micros, stream: Option<StreamId>) {
        self.sequence += 1;
        self.waiting.push(Reverse((at, self.sequence, stream)));
    }

    /// Advances to the next instant at which something happens.
    fn advance(&mut self) {
        let ends = self.transfers.iter().zip(&self.rates).map(|(transfer, rate)| transfer.left / rate);
        let ends = ends.fold(f64::INFINITY, f64::min);
        let ends_at = if ends.is_finite() { Micros(self.now.0 + (ends * 1e6).ceil() as u64) } else { Micros::NEVER };
        let waits_until = self.waiting.peek().map_or(Micros::NEVER, |Reverse((at, ..))| *at);
        let next = ends_at.min(waits_until);
        assert!(next < Micros::NEVER, "nothing can happen any more, and the run has not ended");
        let passed = next.since(self.now).seconds();
        self.now = next;
        let mut is_changed = false;
        for (transfer, rate) in self.transfers.iter_mut().zip(&self.rates) {
            transfer.left -= rate * passed;
        }
        // Instants are whole microseconds, so a transfer may be over by less than one of them.
        let rest = |rate: &f64| rate * 1e-6;
        for index in (0..self.transfers.len()).rev() {
            if self.transfers[index].left <= rest(&self.rates[index]) {
                let stream = self.transfers.remove(index).stream;
                self.rates.remove(index);
                self.demands.remove(index);
                self.end(stream);
                is_changed = true;
            }
        }
        while let Some(Reverse((at, _, stream))) = self.waiting.peek().copied()
            && at <= self.now
        {
            self.waiting.pop();
            match stream {
                None => self.events.push_back(Event::Woken),
                Some(stream) => {
                    let lot = self.works[usize::from(stream.0)].expect("it handles a lot").lot;
                    if lot.bytes == 0 {
                        self.end(stream);
                    } else {
                        self.transfers.push(Transfer { stream, left: lot.bytes as f64 });
                        self.demands.push(self.demand(stream));
                        is_changed = true;
                    }
                }
            }
        }
        if is_changed {
            self.rates = sharing::rates(&self.demands, &self.capacities);
        }
    }

    fn demand(&self, stream: StreamId) -> Demand {
        let StreamPlace { station, stage, .. } = self.places[usize::from(stream.0)];
        let (of, incoming) = (&self.scenario.stations, 2 * usize::from(station));
        let (source, destination) = (self.capacities.len() - 2, self.capacities.len() - 1);
        match stage {
            Stage::Input => Demand { rate: self.scenario.input.rate.min(of.spool_write), links: [incoming, source] },
            Stage::Output => Demand { rate: self.scenario.output.rate.min(of.spool_read), links: [incoming + 1, destination] },
            Stage::Scan => Demand { rate: self.scenario.scan.rate, links: [incoming, destination] },
        }
    }

    fn end(&mut self, stream: StreamId) {
        let Work { lot, began, began_moving } = self.works[usize::from(stream.0)].take().expect("it handles a lot");
        let StreamPlace { station, stage, .. } = self.places[usize::from(stream.0)];
        if stage == Stage::Input {
            self.inventory.take_time(stream, station, began, self.now);
        }
        let hour = (self.now.since(self.scenario.begins).0 / Micros::HOUR.0) as usize;
        self.hours.resize(self.hours.len().max(hour + 1), [0; 3]);
        self.hours[hour][stage as usize] += lot.bytes;
        let done = Done { stream, lot: lot.id, files: lot.files, bytes: lot.bytes, moving: self.now.since(began_moving) };
        self.events.push_back(match stage {
            Stage::Input => Event::Read(done),
            Stage::Output => Event::Written(done),
            Stage::Scan => Event::Scanned(done),
        });
    }
}

/// The files that are left, made up as they are asked for.
struct Inventory<'a> {
    scenario: &'a Scenario,
    sizes: Stream,
    /// The parts that are left: bytes, and the mean size of a file.
    parts: VecDeque<(u64, u64)>,
    /// The next file, drawn and not yet in a lot, and true if it is the last of its part.
    next_file: Option<(u64, bool)>,
    lots: u64,
    volumes: u32,
    /// For each stream, the bytes left on its volume, and true if its last lot is the first of one.
    on_volume: Vec<(u64, bool)>,
    /// For each stream, how much work its station must have been given before its next lot.
    taken: Vec<Micros>,
}

impl<'a> Inventory<'a> {
    fn new(scenario: &'a Scenario, streams: usize) -> Self {
        Self {
            scenario,
            sizes: Stream::new(u64::from(scenario.seed), "sizes"),
            parts: scenario.files.bytes_of_parts().into(),
            next_file: None,
            lots: 0,
            volumes: 0,
            on_volume: vec![(0, false); streams],
            taken: vec![Micros(0); streams],
        }
    }

    /// The next lot for a stream, or when to ask again.
    fn next(&mut self, stream: StreamId, is_mounted: bool, station: u16, now: Micros) -> Result<Lot, Option<Micros>> {
        if self.parts.is_empty() && self.next_file.is_none() {
            return Err(None);
        }
        self.check_fed(stream, station, now)?;
        let (files, bytes) = self.take();
        let lot = Lot {
            id: LotId(self.lots),
            files,
            bytes,
            family: FamilyId((self.lots % u64::from(self.scenario.files.families)) as u32),
            volume: self.volume(stream, is_mounted, bytes),
            priority: 0,
        };
        self.lots += 1;
        Ok(lot)
    }

    /// A station gets work for a share of each hour. Stations begin it at different minutes. A lot
    /// that outlasts its share takes its time from the next hours, before another lot begins.
    fn check_fed(&self, stream: StreamId, station: u16, now: Micros) -> Result<(), Option<Micros>> {
        let fed = self.fed(station).ok_or(None)?;
        let again_at = fed.first_at(self.taken[usize::from(stream.0)]).max(fed.next_work(now));
        if again_at <= now { Ok(()) } else { Err(Some(again_at)) }
    }

    /// Counts the time that a lot took against the work that its station is given.
    fn take_time(&mut self, stream: StreamId, station: u16, began: Micros, ended: Micros) {
        if let Some(fed) = self.fed(station) {
            self.taken[usize::from(stream.0)] = Micros(fed.given_until(began).0 + ended.since(began).0);
        }
    }

    /// When a station gets work; `None` if never.
    fn fed(&self, station: u16) -> Option<Fed> {
        let of = &self.scenario.stations;
        let share = of.fed[usize::from(station) % of.fed.len()];
        let of_hour = (share * Micros::HOUR.0 as f64).round() as u64;
        (of_hour > 0).then_some(Fed { of_hour, offset: Micros::HOUR.0 * u64::from(station) / u64::from(of.count) })
    }

    /// Files and bytes of the next lot. It has files of one part.
    fn take(&mut self) -> (u32, u64) {
        let of = &self.scenario.files;
        let (mut files, mut bytes) = (0, 0);
        while files < of.lot_files
            && let Some((size, is_last)) = self.next_file.take().or_else(|| self.file())
        {
            if files > 0 && bytes + size > of.lot_bytes.min(self.scenario.stations.spool_bytes) {
                self.next_file = Some((size, is_last));
                break;
            }
            (files, bytes) = (files + 1, bytes + size);
            if is_last {
                break;
            }
        }
        (files, bytes)
    }

    /// Draws a file; true if it is the last of its part.
    fn file(&mut self) -> Option<(u64, bool)> {
        let (left, mean) = self.parts.front_mut()?;
        let size = if self.scenario.files.varies { (self.sizes.exponential(*mean as f64) as u64).max(1) } else { *mean };
        let size = size.min(self.scenario.stations.spool_bytes).min(*left);
        *left -= size;
        let is_last = *left == 0;
        if is_last {
            self.parts.pop_front();
        }
        Some((size, is_last))
    }

    fn volume(&mut self, stream: StreamId, is_mounted: bool, bytes: u64) -> Option<SourceVolume> {
        let of = &self.scenario.files;
        if of.volume_bytes == 0 {
            return None;
        }
        let (left, is_first) = &mut self.on_volume[usize::from(stream.0)];
        *is_first = !is_mounted || *left == 0;
        if *is_first {
            *left = of.volume_bytes;
            self.volumes += 1;
        }
        *left = left.saturating_sub(bytes);
        Some(SourceVolume(self.volumes))
    }

    fn is_first_of_volume(&self, stream: StreamId) -> bool {
        self.on_volume[usize::from(stream.0)].1
    }
}

/// The part of each hour in which a station gets work: its first microseconds.
struct Fed {
    of_hour: u64,
    /// By how much its hours begin earlier than those of the clock.
    offset: u64,
}

impl Fed {
    /// For how long it has got work.
    fn given_until(&self, at: Micros) -> Micros {
        let at = at.0 + self.offset;
        Micros(at / Micros::HOUR.0 * self.of_hour + (at % Micros::HOUR.0).min(self.of_hour))
    }

    /// The first moment at which it gets work after it got it for so long.
    fn first_at(&self, given: Micros) -> Micros {
        Micros((given.0 / self.of_hour * Micros::HOUR.0 + given.0 % self.of_hour).saturating_sub(self.offset))
    }

    /// The first moment from `now` at which it gets work.
    fn next_work(&self, now: Micros) -> Micros {
        self.first_at(self.given_until(now)).max(now)
    }
}
