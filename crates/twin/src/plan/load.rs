//! The load of each year: arithmetic on ingest and reads, and the share of the workload that a few
//! of many libraries see.

use fulgurite_domain::Micros;
use fulgurite_workload::IngestSpec;

use super::Plan;
use crate::scenario::{Workload, WorkloadKind};

/// The load of a year, at its end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Year {
    /// Number of the year, from 1.
    pub number: u32,
    /// Bytes of content ingested during the year.
    pub ingest_bytes: f64,
    /// Bytes of content stored at its end.
    pub stored_bytes: f64,
    /// Sets that hold them.
    pub sets: u64,
    /// Platters of these sets.
    pub platters: u64,
    /// Bytes written per second, including redundancy platters, but not the redundancy inside a
    /// platter; all of them must be verified.
    pub written_bytes_s: f64,
    /// Requests per second; 0 for a trace, which is replayed at its own rate.
    pub reads_per_second: f64,
}

pub(super) const YEAR_H: f64 = 365.25 * 24.0;
const YEAR_S: f64 = 365.25 * 86_400.0;

impl Plan {
    /// The workload that provides sizes and bursts.
    pub(super) fn reads_like(&self) -> Workload {
        Workload { trace: self.reads.trace.clone(), deadline: Some(self.service.within), ..Workload::preset(self.reads.kind) }
    }

    /// Bytes of content on a platter.
    #[must_use]
    pub fn platter_bytes(&self) -> f64 {
        f64::from(self.template.tracks) * self.template.mechanics.drive.track_bytes as f64
    }

    /// Bytes written per byte of content, including redundancy platters, but not the redundancy
    /// inside a platter.
    pub(super) fn written_per_byte(&self) -> f64 {
        let shape = self.template.sets.shape;
        f64::from(shape.platters()) / f64::from(shape.information)
    }

    /// The load of a year. Years count from 1; years beyond the horizon continue like those within.
    ///
    /// # Panics
    /// If `number` is 0.
    #[must_use]
    pub fn year(&self, number: u32) -> Year {
        assert!(number >= 1, "years are counted from 1");
        let mut ingest_bytes = self.ingest.bytes_per_month as f64 * 12.0;
        let first_stored = self.ingest.stored_bytes as f64 + ingest_bytes;
        let mut stored_bytes = first_stored;
        for _ in 1..number {
            ingest_bytes *= 1.0 + self.ingest.growth;
            stored_bytes += ingest_bytes;
        }
        let like = self.reads_like();
        let first_ingest_s = self.ingest.bytes_per_month as f64 * 12.0 / YEAR_S;
        let published = first_ingest_s / IngestSpec::BYTES_PER_BYTE_READ / like.steady.mean_bytes as f64;
        let growth = 1.0 + self.reads.growth * (stored_bytes / first_stored - 1.0);
        let reads_per_second = match self.reads.kind {
            // Replayed, not scaled.
            WorkloadKind::Trace => 0.0,
            _ => self.reads.per_second.unwrap_or(published) * growth,
        };
        let shape = self.template.sets.shape;
        let sets = (stored_bytes / (self.platter_bytes() * f64::from(shape.information))).ceil().max(1.0) as u64;
        Year {
            number,
            ingest_bytes,
            stored_bytes,
            sets,
            platters: sets * u64::from(shape.platters()),
            written_bytes_s: ingest_bytes / YEAR_S * self.written_per_byte(),
            reads_per_second,
        }
    }

    /// Years from the beginning until `stored_bytes` of content are stored; infinite if more than a
    /// thousand.
    #[must_use]
    pub fn years_until(&self, stored_bytes: f64) -> f64 {
        const YEARS_MAX: u32 = 1_000;
        let mut stored_before = self.ingest.stored_bytes as f64;
        let mut ingest_bytes = self.ingest.bytes_per_month as f64 * 12.0;
        for year in 0..YEARS_MAX {
            if stored_before >= stored_bytes {
                return f64::from(year);
            }
            if stored_before + ingest_bytes >= stored_bytes {
                return f64::from(year) + ((stored_bytes - stored_before) / ingest_bytes).max(0.0);
            }
            stored_before += ingest_bytes;
            ingest_bytes *= 1.0 + self.ingest.growth;
        }
        f64::INFINITY
    }
}

/// The same kind of load at another rate. Scales arrivals outside bursts and the size of bursts.
/// Below one arrival per burst, accounts shrink instead; bursts disappear when an account would
/// have no file. If the rounded bursts alone exceed `rate`, theirs applies. Traces don't change.
pub(super) fn at_rate(like: &Workload, rate: f64) -> Workload {
    let mut workload = like.clone();
    if like.kind == WorkloadKind::Trace {
        return workload;
    }
    let factor = rate / like.rate;
    workload.rate = rate;
    workload.steady.most *= factor;
    let arrivals = f64::from(like.bursts.arrivals) * factor;
    if arrivals >= 1.0 {
        workload.bursts.arrivals = round(arrivals);
    } else {
        // A small archive has small accounts.
        let files = round(f64::from(like.bursts.account_files) * arrivals);
        workload.bursts.arrivals = 1;
        workload.bursts.account_files = files.max(1);
        if files == 0 {
            workload.bursts.count = 0;
        }
    }
    workload.rate = workload.rate.max(workload.rate_in_bursts());
    workload
}

/// The load that the share `part` of all libraries sees. Divides each burst while a share gets at
/// least one arrival; below that, each share gets fewer bursts of one arrival, but at least one per
/// period.
pub(super) fn share_of(workload: &Workload, part: f64) -> Workload {
    let mut shared = workload.clone();
    if workload.kind == WorkloadKind::Trace || part >= 1.0 {
        return shared;
    }
    let outside = (workload.rate - workload.rate_in_bursts()).max(0.0);
    shared.steady.most *= part;
    let arrivals = f64::from(workload.bursts.arrivals) * part;
    if arrivals >= 1.0 {
        shared.bursts.arrivals = round(arrivals);
    } else if workload.bursts.count > 0 {
        shared.bursts.arrivals = 1;
        shared.bursts.count = round(f64::from(workload.bursts.count) * arrivals).max(1);
    }
    shared.rate = outside * part + shared.rate_in_bursts();
    shared
}

/// Mean tracks' worth of data that a drive reads per request; at least 1.
pub(super) fn tracks_per_request(workload: &Workload, track_bytes: u64) -> f64 {
    (workload.steady.mean_bytes as f64 / track_bytes as f64).max(1.0)
}

/// At least an hour, so that a trace or a quiet archive has time to finish.
pub(super) fn cool_down(within: Micros) -> Micros {
    within.max(Micros::HOUR)
}

fn round(value: f64) -> u32 {
    (value + 0.5) as u32
}
