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

impl StreamFigures {
    /// Bytes per second while bytes moved; 0 if none did.
    #[must_use]
    pub fn rate(&self) -> f64 {
        ratio(self.bytes as f64, self.moving.seconds())
    }

    /// Seconds from the end of one file to the beginning of the next, while it handled lots.
    #[must_use]
    pub fn gap_s(&self) -> f64 {
        ratio(self.busy.since(self.moving).seconds(), self.files as f64)
    }

    /// What it waited for longest, and how long.
    #[must_use]
    pub fn longest_wait(&self) -> Option<(Wait, Micros)> {
        Wait::ALL.into_iter().zip(self.waits).filter(|(_, time)| *time > Micros::ZERO).max_by_key(|&(_, time)| time)
    }
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
            activities: pipeline.streams().map(|(_, activity)| activity).collect(),
            spooled: pipeline.spooled_bytes().collect(),
            streams: pipeline.streams().map(stream).collect(),
            spools: pipeline.spooled_bytes().map(|_| SpoolFigures::default()).collect(),
        }
    }

    /// Takes note of an event that the pipeline has just handled.
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

    /// What limited a station: the stage that waited least for others. `None` if it did nothing.
    #[must_use]
    pub fn limiting_stage(&self, station: u16) -> Option<Stage> {
        let busy_share = |stage: Stage| {
            let streams: Vec<_> = self.streams.iter().filter(|of| of.place.station == station && of.place.stage == stage).collect();
            let busy: f64 = streams.iter().map(|stream| stream.busy.seconds()).sum();
            (ratio(busy, streams.len() as f64), stage)
        };
        Stage::ALL.into_iter().map(busy_share).filter(|(busy, _)| *busy > 0.0).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, stage)| stage)
    }
}

fn ratio(of: f64, to: f64) -> f64 {
    if to > 0.0 { of / to } else { 0.0 }
}
