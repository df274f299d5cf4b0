//! What moved when: the journal of a run, in at most a few hundred intervals.
//!
//! ```text
//! journal --steps--> Timeline: [ bytes of each stage, bytes in each spool volume ] x intervals
//! ```
//!
//! Intervals are equally long. When they become too many, several become one, so a journal of
//! months takes no more memory than one of minutes. A lot's bytes are spread evenly over the time
//! in which its stream handled it: a large lot takes hours, and ends in an instant.
//!
//! The timeline follows the commands in the journal, not a pipeline of its own: the journal may be
//! from another version of the program, whose pipeline commanded otherwise.

mod shown;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::BufRead;

use fulgurite_domain::Micros;

use crate::event::{Command, Done, Event};
use crate::journal::{JournalReader, ReplayError, Step};
use crate::layout::{Layout, SpoolId, Stage, StreamId};
use crate::lot::LotId;
use crate::pipeline::Unfit;

/// Intervals at most.
const INTERVALS_MAX: usize = 300;
/// Lengths of intervals in milliseconds, each a multiple of the one before. Afterwards they double.
const WIDTHS_MS: [u64; 16] =
    [10, 50, 100, 500, 1_000, 5_000, 10_000, 30_000, 60_000, 300_000, 600_000, 1_800_000, 3_600_000, 21_600_000, 43_200_000, 86_400_000];

/// What happened in an interval.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Interval {
    /// Bytes that moved in each of [`Stage::ALL`].
    bytes: [u64; Stage::ALL.len()],
    /// For each spool volume, the integral of its bytes over time, in byte-microseconds.
    filled: Vec<u128>,
    /// For each spool volume, the most bytes at once.
    max_bytes: Vec<u64>,
}

/// A lot on its way.
#[derive(Debug, Clone, Copy)]
struct OnItsWay {
    bytes: u64,
    spool: Option<SpoolId>,
}

/// What moved when.
#[derive(Debug, Clone)]
pub struct Timeline {
    began: Option<Micros>,
    now: Micros,
    width: Micros,
    intervals: Vec<Interval>,
    /// For each stream, the lot that it handles, and since when.
    handles: Vec<Option<(LotId, Micros)>>,
    lots: BTreeMap<LotId, OnItsWay>,
    /// Bytes in each spool volume, now.
    spooled: Vec<u64>,
    /// The capacity of each.
    capacities: Vec<u64>,
}

/// The timeline of a journal.
#[derive(Debug)]
pub struct Recorded {
    /// The timeline, up to the end of the journal or to what can't be read.
    pub timeline: Timeline,
    /// Steps that were read.
    pub steps: u64,
    /// True if the run ended.
    pub has_ended: bool,
    /// Why the rest of the journal is left out.
    pub trouble: Option<ReplayError>,
}

/// Reads the timeline of a run from its journal.
///
/// # Errors
/// If its first line can't be used. What is wrong further down is [`Recorded::trouble`].
pub fn read(journal: impl BufRead) -> Result<Recorded, ReplayError> {
    let mut reader = JournalReader::begin(journal)?;
    let timeline = Timeline::new(reader.layout());
    let mut recorded = Recorded { timeline, steps: 0, has_ended: false, trouble: None };
    loop {
        let step = match reader.next_step() {
            Ok(Some(step)) => step,
            Ok(None) => return Ok(recorded),
            Err(trouble) => return Ok(Recorded { trouble: Some(trouble), ..recorded }),
        };
        if let Err(source) = recorded.timeline.observe(&step) {
            return Ok(Recorded { trouble: Some(ReplayError::Unfit { line: reader.line(), source }), ..recorded });
        }
        recorded.steps += 1;
        recorded.has_ended |= step.commands.contains(&Command::End);
    }
}

impl Timeline {
    /// A timeline of a run that has not begun.
    #[must_use]
    pub fn new(layout: &Layout) -> Self {
        let capacities: Vec<u64> = layout.spools().into_iter().map(|(_, spool)| spool.bytes).collect();
        Self {
            began: None,
            now: Micros::ZERO,
            width: Micros(WIDTHS_MS[0] * 1_000),
            intervals: Vec::new(),
            handles: vec![None; layout.streams().len()],
            lots: BTreeMap::new(),
            spooled: vec![0; capacities.len()],
            capacities,
        }
    }

    /// When the run began; `None` if it didn't.
    #[must_use]
    pub fn began(&self) -> Option<Micros> {
        self.began
    }

    /// From the beginning to the last step.
    #[must_use]
    pub fn elapsed(&self) -> Micros {
        self.began.map_or(Micros::ZERO, |began| self.now.since(began))
    }

    /// Bytes that passed a stage.
    #[must_use]
    pub fn passed(&self, stage: Stage) -> u64 {
        self.intervals.iter().fold(0, |sum, of| sum.saturating_add(of.bytes[stage as usize]))
    }

    /// Adds a step. Instants never decrease.
    ///
    /// # Errors
    /// If the step can't follow the earlier ones.
    pub fn observe(&mut self, step: &Step) -> Result<(), Unfit> {
        self.advance(step.at);
        match step.event {
            Event::Offered { lot, .. } => {
                self.lots.insert(lot.id, OnItsWay { bytes: lot.bytes, spool: None });
            }
            Event::Found { lot, spool } => {
                self.lots.insert(lot.id, OnItsWay { bytes: lot.bytes, spool: Some(spool) });
                let bytes = self.spooled.get_mut(usize::from(spool.0)).ok_or(Unfit::NoSpool(spool))?;
                *bytes = bytes.saturating_add(lot.bytes);
            }
            Event::Read(done) => {
                self.end_stage(done, Stage::Input)?;
                // Room that failed files had reserved is free again.
                let of = self.lots.get_mut(&done.lot).ok_or(Unfit::NotHandled { stream: done.stream, lot: done.lot })?;
                let freed = of.bytes.checked_sub(done.bytes).ok_or(Unfit::Grown(done.lot))?;
                of.bytes = done.bytes;
                if let Some(spool) = of.spool {
                    self.take_out(spool, freed)?;
                }
            }
            Event::Written(done) => self.end_stage(done, Stage::Output)?,
            Event::Scanned(done) => self.end_stage(done, Stage::Scan)?,
            _ => {}
        }
        for command in &step.commands {
            self.follow(command)?;
        }
        // A peak may be shorter than a microsecond.
        let index = self.index(self.elapsed());
        self.intervals[index].max_bytes.iter_mut().zip(&self.spooled).for_each(|(max, bytes)| *max = (*max).max(*bytes));
        Ok(())
    }

    fn follow(&mut self, command: &Command) -> Result<(), Unfit> {
        match *command {
            Command::Read { stream, lot, spool } => {
                let of = self.lots.get_mut(&lot).ok_or(Unfit::NotHandled { stream, lot })?;
                of.spool = Some(spool);
                let bytes = self.spooled.get_mut(usize::from(spool.0)).ok_or(Unfit::NoSpool(spool))?;
                *bytes = bytes.saturating_add(of.bytes);
                self.begin_stage(stream, lot)
            }
            Command::Write { stream, lot, .. } | Command::Scan { stream, lot } => self.begin_stage(stream, lot),
            Command::Release { lot, spool } => {
                let bytes = self.lots.remove(&lot).map_or(0, |of| of.bytes);
                self.take_out(spool, bytes)
            }
            Command::Reject { lot, .. } => {
                self.lots.remove(&lot);
                Ok(())
            }
            Command::Ask { .. } | Command::WakeAt(_) | Command::End => Ok(()),
        }
    }

    fn take_out(&mut self, spool: SpoolId, taken: u64) -> Result<(), Unfit> {
        let bytes = self.spooled.get_mut(usize::from(spool.0)).ok_or(Unfit::NoSpool(spool))?;
        *bytes = bytes.saturating_sub(taken);
        Ok(())
    }

    fn begin_stage(&mut self, stream: StreamId, lot: LotId) -> Result<(), Unfit> {
        let handles = self.handles.get_mut(usize::from(stream.0)).ok_or(Unfit::NoStream(stream))?;
        *handles = Some((lot, self.now));
        Ok(())
    }

    /// Spreads the bytes of a stage evenly over its duration.
    fn end_stage(&mut self, done: Done, stage: Stage) -> Result<(), Unfit> {
        let handles = self.handles.get_mut(usize::from(done.stream.0)).ok_or(Unfit::NoStream(done.stream))?;
        let Some((_, since)) = handles.take().filter(|(lot, _)| *lot == done.lot) else {
            return Err(Unfit::NotHandled { stream: done.stream, lot: done.lot });
        };
        let began = self.began.unwrap_or(since);
        let (from, to) = (since.since(began).0, self.now.since(began).0);
        let (first, last) = (self.index(Micros(from)), self.index(Micros(to.saturating_sub(1))));
        let mut spread = 0;
        for index in first.min(last)..=last {
            let end = self.width.0.saturating_mul(index as u64 + 1).min(to);
            let by_then = match to - from {
                0 => done.bytes,
                whole => (u128::from(done.bytes) * u128::from(end - from) / u128::from(whole)) as u64,
            };
            let bytes = &mut self.intervals[index].bytes[stage as usize];
            *bytes = bytes.saturating_add(by_then - spread);
            spread = by_then;
        }
        Ok(())
    }

    fn index(&self, since_began: Micros) -> usize {
        (since_began.0 / self.width.0) as usize
    }

    /// Moves on to an instant, with the bytes in the spool volumes as they were.
    fn advance(&mut self, at: Micros) {
        let began = *self.began.get_or_insert(at);
        let from = self.elapsed().0;
        self.now = self.now.max(at);
        let to = self.now.since(began).0;
        while to / self.width.0 >= INTERVALS_MAX as u64 {
            self.widen();
        }
        let spools = self.spooled.len();
        let empty = || Interval { bytes: [0; Stage::ALL.len()], filled: vec![0; spools], max_bytes: vec![0; spools] };
        let last = self.index(Micros(to));
        self.intervals.resize_with(self.intervals.len().max(last + 1), empty);
        for index in self.index(Micros(from))..=last {
            let start = self.width.0 * index as u64;
            let time = start.saturating_add(self.width.0).min(to).saturating_sub(start.max(from));
            let of = &mut self.intervals[index];
            for ((filled, max), bytes) in of.filled.iter_mut().zip(&mut of.max_bytes).zip(&self.spooled) {
                *filled += u128::from(*bytes) * u128::from(time);
                *max = (*max).max(*bytes);
            }
        }
    }

    /// Makes several intervals one.
    fn widen(&mut self) {
        let wider = WIDTHS_MS.into_iter().map(|width| width * 1_000).find(|width| *width > self.width.0);
        let wider = wider.unwrap_or(self.width.0.saturating_mul(2));
        let many = (wider / self.width.0).max(2) as usize;
        let joined = self.intervals.chunks(many).map(|several| {
            let mut one = several[0].clone();
            for other in &several[1..] {
                one.bytes.iter_mut().zip(other.bytes).for_each(|(sum, bytes)| *sum = sum.saturating_add(bytes));
                one.filled.iter_mut().zip(&other.filled).for_each(|(sum, filled)| *sum += filled);
                one.max_bytes.iter_mut().zip(&other.max_bytes).for_each(|(max, bytes)| *max = (*max).max(*bytes));
            }
            one
        });
        self.intervals = joined.collect();
        self.width = Micros(wider);
    }
}
