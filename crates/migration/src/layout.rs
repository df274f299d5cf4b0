//! What a pipeline consists of: stations, their streams, their spool volumes, and the rules.

use fulgurite_domain::Micros;
use serde::{Deserialize, Serialize};

/// Identifies a stream: its index among all streams of the layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StreamId(pub u16);

/// Identifies a spool volume: its index among all spool volumes of the layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SpoolId(pub u16);

/// What a stream does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Reads from the source into a spool volume.
    Input,
    /// Writes from a spool volume to the destination.
    Output,
    /// Reads back from the destination and compares.
    Scan,
}

impl Stage {
    /// All stages, in the order that a lot passes them.
    pub const ALL: [Self; 3] = [Self::Input, Self::Output, Self::Scan];

    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Output => "output",
            Self::Scan => "scan",
        }
    }
}

/// Lots that memory must have room for at a time, so that inputs and outputs don't wait for each
/// other. Larger lots use a reserve when memory is full.
pub const LOTS_AT_ONCE: u64 = 4;

/// A place for bytes between input and output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spool {
    /// Its capacity.
    pub bytes: u64,
    /// True if only one stream uses it at a time. On a disk, a reader beside a writer starves; in
    /// memory they don't.
    pub is_exclusive: bool,
    /// True if it is a reserve: when the other volumes are full, it takes large lots, and others
    /// only while outputs stall. Otherwise the extra write and read gain nothing.
    #[serde(default)]
    pub is_reserve: bool,
}

/// A machine with streams and spool volumes of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Station {
    /// Its name in reports.
    pub name: String,
    /// Number of input streams, at least 1.
    pub inputs: u16,
    /// Number of output streams, at least 1.
    pub outputs: u16,
    /// Number of scan streams. Without any, lots count as migrated once they are written; only
    /// plans may do that.
    pub scans: u16,
    /// Its spool volumes, at least one.
    pub spools: Vec<Spool>,
}

/// Rules for all stations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rules {
    /// True if at most one output stream writes lots of a family at a time, so that its files stay
    /// together on the destination.
    pub families_together: bool,
    /// Bytes that may be read in a second, by hour of the day, UTC. `None` is unlimited; with 0,
    /// nothing is read in that hour.
    pub limits: [Option<u64>; 24],
    /// Lots of a station in its spool volumes, at most. Small files take little room there, but
    /// memory for what is known of them.
    pub spooled_max: u16,
    /// Lots of a station that are written and not scanned, at most. Outputs wait for scans then.
    pub unscanned_max: u16,
}

impl Default for Rules {
    fn default() -> Self {
        Self { families_together: true, limits: [None; 24], spooled_max: 256, unscanned_max: 16 }
    }
}

/// What a pipeline consists of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Layout {
    /// The stations, at least one.
    pub stations: Vec<Station>,
    /// Rules for all of them.
    pub rules: Rules,
}

/// A stream of a layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamPlace {
    /// The index of its station.
    pub station: u16,
    /// What it does.
    pub stage: Stage,
    /// Its number within the station and stage, from 1.
    pub number: u16,
}

impl Layout {
    /// True if lots can pass each station, and the streams and spool volumes can be numbered.
    #[must_use]
    pub fn is_possible(&self) -> bool {
        let passes = |of: &Station| of.inputs > 0 && of.outputs > 0 && !of.spools.is_empty();
        let streams = self.stations.iter().map(|of| usize::from(of.inputs) + usize::from(of.outputs) + usize::from(of.scans));
        let spools = self.stations.iter().map(|of| of.spools.len());
        let most = usize::from(u16::MAX);
        self.stations.iter().all(passes) && streams.sum::<usize>() <= most && spools.sum::<usize>() <= most
    }

    /// All streams, in the order of their identifiers.
    #[must_use]
    pub fn streams(&self) -> Vec<StreamPlace> {
        let mut streams = Vec::new();
        for (station, of) in (0..).zip(&self.stations) {
            for (stage, count) in [(Stage::Input, of.inputs), (Stage::Output, of.outputs), (Stage::Scan, of.scans)] {
                streams.extend((1..=count).map(|number| StreamPlace { station, stage, number }));
            }
        }
        streams
    }

    /// All spool volumes with the indices of their stations, in the order of their identifiers.
    #[must_use]
    pub fn spools(&self) -> Vec<(u16, Spool)> {
        (0..).zip(&self.stations).flat_map(|(station, of)| of.spools.iter().map(move |spool| (station, *spool))).collect()
    }
}

impl Rules {
    /// The limit at an instant, counted from the beginning of a day, UTC.
    #[must_use]
    pub fn limit_at(&self, now: Micros) -> Option<u64> {
        self.limits[(now.0 / Micros::HOUR.0 % 24) as usize]
    }

    /// The end of the hour that contains an instant.
    #[must_use]
    pub fn hour_after(now: Micros) -> Micros {
        Micros((now.0 / Micros::HOUR.0 + 1).saturating_mul(Micros::HOUR.0))
    }
}
