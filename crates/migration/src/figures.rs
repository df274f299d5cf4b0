//! Figures of a run: what each stream did with its time, and what it waited for.

mod lot_times;

use std::collections::BTreeMap;

use fulgurite_domain::Micros;
use serde::{Deserialize, Serialize};

pub use self::lot_times::{Cost, LotTimes};
use crate::event::{Done, Event};
use crate::layout::{Stage, StreamPlace};
use crate::pipeline::{Activity, Pipeline, Wait};

/// What a stream did. In JSON, times are seconds, and waits have their names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "StreamRecord", into = "StreamRecord")]
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
    /// Times of lots.
    pub lot_times: LotTimes,
}

/// What the streams of a stage did, added up.
#[derive(Debug, Clone, PartialEq)]
pub struct StageFigures {
    /// The stage.
    pub stage: Stage,
    /// The time that each stream had.
    pub elapsed: Micros,
    /// Number of streams.
    pub streams: usize,
    /// Files that passed.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Time in which streams handled lots.
    pub busy: Micros,
    /// The part of it in which bytes moved.
    pub moving: Micros,
    /// Time for each of [`Wait::ALL`].
    pub waits: [Micros; Wait::ALL.len()],
    /// Times of lots.
    pub lot_times: LotTimes,
}

impl StageFigures {
    /// Adds up those of the streams that belong to a stage.
    #[must_use]
    pub fn sum<'a>(stage: Stage, streams: impl IntoIterator<Item = &'a StreamFigures>, elapsed: Micros) -> Self {
        let waits = [Micros::ZERO; Wait::ALL.len()];
        let lot_times = LotTimes::default();
        let mut sum = Self { stage, elapsed, streams: 0, files: 0, bytes: 0, busy: Micros::ZERO, moving: Micros::ZERO, waits, lot_times };
        for stream in streams.into_iter().filter(|stream| stream.place.stage == stage) {
            sum.streams += 1;
            sum.files = sum.files.saturating_add(stream.files);
            sum.bytes = sum.bytes.saturating_add(stream.bytes);
            sum.busy += stream.busy;
            sum.moving += stream.moving;
            sum.waits.iter_mut().zip(stream.waits).for_each(|(sum, wait)| *sum += wait);
            sum.lot_times = sum.lot_times.sum(stream.lot_times);
        }
        sum
    }

    /// Bytes per second of a stream while bytes moved; 0 if none did.
    #[must_use]
    pub fn rate(&self) -> f64 {
        ratio(self.bytes as f64, self.moving.seconds())
    }

    /// What moving a file and moving its bytes cost, as far as lots of different sizes have shown
    /// it. `None` if no byte moved.
    #[must_use]
    pub fn cost(&self) -> Option<Cost> {
        let has_moved = self.bytes > 0 && self.moving > Micros::ZERO;
        has_moved.then(|| self.lot_times.cost(self.files as f64, self.bytes as f64, self.moving.seconds()))
    }

    /// The mean gap between files in seconds, with changes of volumes.
    #[must_use]
    pub fn gap_s(&self) -> f64 {
        ratio(self.busy.since(self.moving).seconds(), self.files as f64)
    }

    /// The sum of the streams' duty factors: of the shares of the time in which bytes moved.
    #[must_use]
    pub fn duty(&self) -> f64 {
        ratio(self.moving.seconds(), self.elapsed.seconds())
    }

    /// The mean share of the time in which a stream handled lots.
    #[must_use]
    pub fn busy_share(&self) -> f64 {
        self.share(self.busy)
    }

    /// The mean share of the time that a stream spent with each wait; the longest first, and none
    /// that didn't occur.
    #[must_use]
    pub fn wait_shares(&self) -> Vec<(Wait, f64)> {
        let waits = Wait::ALL.into_iter().zip(self.waits).filter(|(_, time)| *time > Micros::ZERO);
        let mut shares: Vec<(Wait, f64)> = waits.map(|(wait, time)| (wait, self.share(time))).collect();
        shares.sort_by(|a, b| b.1.total_cmp(&a.1));
        shares
    }

    fn share(&self, time: Micros) -> f64 {
        ratio(time.seconds(), self.elapsed.seconds() * self.streams as f64)
    }
}

/// A stream's figures, as they are written.
#[derive(Serialize, Deserialize)]
struct StreamRecord {
    /// The station's number, from 1. Earlier versions didn't write it, and runs had one station.
    #[serde(default = "first")]
    station: u16,
    stage: Stage,
    number: u16,
    files: u64,
    bytes: u64,
    busy_s: f64,
    moving_s: f64,
    waits_s: BTreeMap<Wait, f64>,
    /// Earlier versions didn't write them.
    #[serde(default)]
    lot_times: LotTimes,
}

fn first() -> u16 {
    1
}

impl From<StreamFigures> for StreamRecord {
    fn from(of: StreamFigures) -> Self {
        let waits = Wait::ALL.into_iter().zip(of.waits).filter(|(_, time)| *time > Micros::ZERO);
        Self {
            station: of.place.station.saturating_add(1),
            stage: of.place.stage,
            number: of.place.number,
            files: of.files,
            bytes: of.bytes,
            busy_s: of.busy.seconds(),
            moving_s: of.moving.seconds(),
            waits_s: waits.map(|(wait, time)| (wait, time.seconds())).collect(),
            lot_times: of.lot_times,
        }
    }
}

impl From<StreamRecord> for StreamFigures {
    fn from(of: StreamRecord) -> Self {
        let wait = |wait: Wait| Micros::from_seconds(of.waits_s.get(&wait).copied().unwrap_or(0.0));
        Self {
            place: StreamPlace { station: of.station.saturating_sub(1), stage: of.stage, number: of.number },
            busy: Micros::from_seconds(of.busy_s),
            moving: Micros::from_seconds(of.moving_s),
            waits: Wait::ALL.map(wait),
            files: of.files,
            bytes: of.bytes,
            lot_times: of.lot_times,
        }
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
#[derive(Debug, Clone, PartialEq)]
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
            lot_times: LotTimes::default(),
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
            figures.lot_times.add(files, bytes, moving);
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

    /// Mean bytes in a spool volume.
    #[must_use]
    pub fn mean_bytes(&self, spool: &SpoolFigures) -> f64 {
        ratio(spool.filled as f64 / 1e6, self.elapsed().seconds())
    }

    /// What the streams of a stage did in a time such as [`elapsed`](Self::elapsed).
    #[must_use]
    pub fn stage(&self, stage: Stage, elapsed: Micros) -> StageFigures {
        StageFigures::sum(stage, &self.streams, elapsed)
    }
}

fn ratio(of: f64, to: f64) -> f64 {
    if to > 0.0 { of / to } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(stage: Stage, number: u16, moving_s: f64) -> StreamFigures {
        let mut waits = [Micros::ZERO; Wait::ALL.len()];
        waits[Wait::Room as usize] = Micros::from_seconds(30.0);
        waits[Wait::Files as usize] = Micros::from_seconds(10.0 * f64::from(number));
        StreamFigures {
            place: StreamPlace { station: 0, stage, number },
            busy: Micros::from_seconds(50.0),
            moving: Micros::from_seconds(moving_s),
            waits,
            files: 10,
            bytes: 1_000,
            lot_times: LotTimes::default(),
        }
    }

    #[test]
    fn a_stage_adds_up_its_streams() {
        let streams = [stream(Stage::Input, 1, 40.0), stream(Stage::Input, 2, 10.0), stream(Stage::Output, 1, 50.0)];
        let of = StageFigures::sum(Stage::Input, &streams, Micros::from_seconds(100.0));
        assert_eq!((of.streams, of.files, of.bytes), (2, 20, 2_000));
        assert_eq!((of.rate(), of.gap_s(), of.duty(), of.busy_share()), (40.0, 2.5, 0.5, 0.5));
        assert_eq!(of.wait_shares(), [(Wait::Room, 0.3), (Wait::Files, 0.15)]);
    }

    #[test]
    fn a_stage_without_streams_or_time_has_zeros() {
        let none = StageFigures::sum(Stage::Scan, &[stream(Stage::Input, 1, 40.0)], Micros::ZERO);
        assert_eq!((none.streams, none.rate(), none.gap_s(), none.duty(), none.busy_share()), (0, 0.0, 0.0, 0.0, 0.0));
        let no_time = StageFigures::sum(Stage::Input, &[stream(Stage::Input, 1, 60.0)], Micros::ZERO);
        // Two clocks measure busy and moving time, so moving may be longer.
        assert_eq!((no_time.gap_s(), no_time.duty(), no_time.busy_share()), (0.0, 0.0, 0.0));
    }

    #[test]
    fn streams_have_seconds_and_names_in_json() {
        let of = stream(Stage::Output, 2, 40.5);
        let json = serde_json::to_value(&of).expect("JSON");
        let expected = serde_json::json!({
            "station": 1, "stage": "output", "number": 2, "files": 10, "bytes": 1_000,
            "busy_s": 50.0, "moving_s": 40.5, "waits_s": { "room": 30.0, "files": 20.0 },
            "lot_times": { "files2": 0.0, "files_bytes": 0.0, "bytes2": 0.0, "files_s": 0.0, "bytes_s": 0.0, "fastest": 0.0 },
        });
        assert_eq!(json, expected);
        assert_eq!(serde_json::from_value::<StreamFigures>(json).expect("a stream"), of);
    }
}
