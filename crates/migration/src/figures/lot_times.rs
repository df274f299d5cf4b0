//! What a file costs, and what its bytes cost: both from the times of lots.

use fulgurite_domain::Micros;
use serde::{Deserialize, Serialize};

/// Lots whose mean sizes differ less than this can't tell what files cost and what bytes cost. It
/// is the share of `files2 * bytes2` that is left after `files_bytes` squared: 0 if all mean sizes
/// are the same, nearly 1 if some lots have almost all files and others almost all bytes. Noise in
/// the times of lots that are nearly alike would become a cost of hours for a file, or none for a
/// terabyte.
const LEAST_DIFFERENCE: f64 = 0.3;

/// Sums over lots, for a fit by least squares of `moving = files * per_file + bytes / rate`.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LotTimes {
    files2: f64,
    files_bytes: f64,
    bytes2: f64,
    files_s: f64,
    bytes_s: f64,
    /// Bytes per second of the fastest lot.
    fastest: f64,
}

/// What moving a file costs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// Seconds that each file takes besides its bytes.
    pub per_file_s: f64,
    /// Bytes per second beyond that.
    pub rate: f64,
}

impl LotTimes {
    /// Adds a lot, which moved for a while.
    pub(super) fn add(&mut self, files: u32, bytes: u64, moving: Micros) {
        let (files, bytes, moving_s) = (f64::from(files), bytes as f64, moving.seconds());
        *self = self.sum(Self {
            files2: files * files,
            files_bytes: files * bytes,
            bytes2: bytes * bytes,
            files_s: files * moving_s,
            bytes_s: bytes * moving_s,
            fastest: if moving_s > 0.0 { bytes / moving_s } else { 0.0 },
        });
    }

    /// The sums over the lots of both.
    #[must_use]
    pub(super) fn sum(self, other: Self) -> Self {
        Self {
            files2: self.files2 + other.files2,
            files_bytes: self.files_bytes + other.files_bytes,
            bytes2: self.bytes2 + other.bytes2,
            files_s: self.files_s + other.files_s,
            bytes_s: self.bytes_s + other.bytes_s,
            fastest: self.fastest.max(other.fastest),
        }
    }

    /// The cost that fits best, scaled so that `files` and `bytes` take `moving_s` seconds in all.
    /// If lots are too much alike to tell, bytes have all of it.
    pub(super) fn cost(&self, files: f64, bytes: f64, moving_s: f64) -> Cost {
        let (files2, bytes2) = (self.files2, self.bytes2);
        let determinant = files2 * bytes2 - self.files_bytes * self.files_bytes;
        let per_file = self.files_s * bytes2 - self.bytes_s * self.files_bytes;
        let per_byte = self.bytes_s * files2 - self.files_s * self.files_bytes;
        if determinant <= LEAST_DIFFERENCE * files2 * bytes2 || per_file <= 0.0 {
            return Cost { per_file_s: 0.0, rate: bytes / moving_s };
        }
        if per_byte <= 0.0 {
            // No lot shows that bytes cost anything. They can't be faster than in the fastest.
            return Cost { per_file_s: (moving_s - bytes / self.fastest).max(0.0) / files, rate: self.fastest };
        }
        let (per_file, per_byte) = (per_file / determinant, per_byte / determinant);
        let scale = moving_s / (files * per_file + bytes * per_byte);
        Cost { per_file_s: per_file * scale, rate: 1.0 / (per_byte * scale) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cost that is found from lots of files, bytes and seconds.
    fn found(lots: &[(u32, u64, f64)]) -> Cost {
        let (mut times, mut all_files, mut all_bytes, mut all_s) = (LotTimes::default(), 0.0, 0.0, 0.0);
        for &(files, bytes, moving_s) in lots {
            times.add(files, bytes, Micros::from_seconds(moving_s));
            (all_files, all_bytes, all_s) = (all_files + f64::from(files), all_bytes + bytes as f64, all_s + moving_s);
        }
        times.cost(all_files, all_bytes, all_s)
    }

    fn assert_near(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 1e-3, "{found}, expected {expected}");
    }

    #[test]
    fn lots_of_small_and_of_large_files_tell_what_files_and_bytes_cost() {
        // 1 ms for a file, and 200 MB/s.
        let cost = found(&[(256, 4_000_000, 0.276), (256, 3_000_000, 0.271), (1, 63_000_000, 0.316), (1, 60_000_000, 0.301)]);
        assert_near(cost.per_file_s, 0.001);
        assert_near(cost.rate, 200e6);
    }

    #[test]
    fn lots_that_are_nearly_alike_do_not() {
        for lots in [
            [(256, 4_000_000, 0.276), (100, 1_600_000, 0.108)],
            // What the times say here is noise: no cost of bytes, or 7.7 s for a file.
            [(256, 3_000_000, 0.31), (256, 5_000_000, 0.30)],
            [(1, 1_000_000_000, 11.0), (1, 1_300_000_000, 12.0)],
        ] {
            let cost = found(&lots);
            assert_eq!(cost.per_file_s, 0.0, "{lots:?}");
            assert_near(cost.rate, (lots[0].1 + lots[1].1) as f64 / (lots[0].2 + lots[1].2));
        }
    }

    #[test]
    fn costs_are_never_negative() {
        // A lot of many files was faster than its bytes alone.
        let cost = found(&[(100, 1_000_000, 0.001), (1, 1_000_000, 1.0)]);
        assert_eq!(cost, Cost { per_file_s: 0.0, rate: 2e6 / 1.001 });
        // A lot of many bytes was faster than a single small file.
        let cost = found(&[(100, 1_000, 1.0), (1, 1_000_000, 0.001)]);
        assert_near(cost.rate, 1e9);
        assert_near(cost.per_file_s, (1.001 - 1_001_000.0 / 1e9) / 101.0);
    }
}
