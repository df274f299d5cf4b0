//! Figures of a run: what each stream did with its time, and what it waited for.

use fulgurite_domain::Micros;

use crate::event::{Done, Event};
use crate::layout::{Stage, StreamPlace};
use crate::pipeline::{Activity, Pipeline, Wait};

/// What a stream did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamFigures {
    /// Which stream.
    pub place: StreamPlace,
    /// Time in which it handled lots.
    pub busy: Micros,
    /// The part of it in which bytes moved.
    pub moving: Micros,
    /// Time for each of [`Wait::ALL`].
    pub waits: [Micros; Wait::ALL.len()],
    /// Files that passed.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// How full a spool volume was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SpoolFigures {
    /// The integral of bytes over time, in byte-microseconds.
    filled: u128,
    /// Most bytes at once.
    pub max_bytes: u64,
}

/// The figures of a run so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Figures {
    began: Option<Micros>,
    now: Micros,
    /// When a stage last ended.
    last_end: Micros,
    activities: Vec<Activity>,
    spooled: Vec<u64>,
    /// The streams, in the order of their identifiers.
    pub streams: Vec<StreamFigures>,
    /// The spool volumes, in the order of their identifiers.
    pub spools: Vec<SpoolFigures>,
}

impl Figures {
    /// Figures of a pipeline that has not begun.
    #[must_use]
    pub fn new(pipeline: &Pipeline) -> Self {
        let stream = |(place, _)| StreamFigures {
            place,
            busy: Micros::ZERO,
            moving: Micros::ZERO,
            waits: [Micros::ZERO; Wait::ALL.len()],
            files: 0,
            bytes: 0,
        };
        Self {
            began: None,
            now: Micros::ZERO,
            last_end: Micros::ZERO,
            activities: pipeline.streams().map(|(_, activity)| activity).collect(),
            spooled: pipeline.spooled_bytes().collect(),
            streams: pipeline.streams().map(stream).collect(),
            spools: pipeline.spooled_bytes().map(|_| SpoolFigures::default()).collect(),
        }
    }

    /// Updates the figures after the pipeline has handled an event.
    pub fn observe(&mut self, now: Micros, event: &Event, pipeline: &Pipeline) {
        if self.began.is_none() {
            (self.began, self.now) = (Some(now), now);
        }
        let passed = now.since(self.now);
        self.now = now;
        for (figures, activity) in self.streams.iter_mut().zip(&mut self.activities) {
            let time = match activity {
                Activity::Busy(_) => &mut figures.busy,
                Activity::Waits(wait) => &mut figures.waits[*wait as usize],
            };
            time.0 += passed.0;
        }
        for (figures, bytes) in self.spools.iter_mut().zip(&self.spooled) {
            figures.filled += u128::from(*bytes) * u128::from(passed.0);
            figures.max_bytes = figures.max_bytes.max(*bytes);
        }
        if let Event::Read(Done { stream, files, bytes, moving, .. })
        | Event::Written(Done { stream, files, bytes, moving, .. })
        | Event::Scanned(Done { stream, files, bytes, moving, .. }) = *event
        {
            self.last_end = now;
            let figures = &mut self.streams[usize::from(stream.0)];
            figures.files += u64::from(files);
            figures.bytes += bytes;
            figures.moving.0 += moving.0;
        }
        self.activities.clear();
        self.activities.extend(pipeline.streams().map(|(_, activity)| activity));
        self.spooled.clear();
        self.spooled.extend(pipeline.spooled_bytes());
    }

    /// Time since the run began.
    #[must_use]
    pub fn elapsed(&self) -> Micros {
        self.began.map_or(Micros::ZERO, |began| self.now.since(began))
    }

    /// Time from the beginning to the last end of a stage: afterwards nothing moved.
    #[must_use]
    pub fn worked(&self) -> Micros {
        self.began.map_or(Micros::ZERO, |began| self.last_end.since(began))
    }

    /// The share of the time in which a stream moved bytes: its duty factor.
    #[must_use]
    pub fn duty(&self, stream: &StreamFigures) -> f64 {
        ratio(stream.moving.seconds(), self.elapsed().seconds())
    }

    /// Mean bytes in a spool volume.
    #[must_use]
    pub fn mean_bytes(&self, spool: &SpoolFigures) -> f64 {
        ratio(spool.filled as f64 / 1e6, self.elapsed().seconds())
    }

    /// Files and bytes that passed a stage in all.
    #[must_use]
    pub fn passed(&self, stage: Stage) -> (u64, u64) {
        let of_stage = self.streams.iter().filter(|stream| stream.place.stage == stage);
        of_stage.fold((0, 0), |(files, bytes), stream| (files + stream.files, bytes + stream.bytes))
    }
}

fn ratio(of: f64, to: f64) -> f64 {
    if to > 0.0 { of / to } else { 0.0 }
}
