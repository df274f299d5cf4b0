//! Reads: requests to a library, shard by shard.
//!
//! A *request* is for one file. A file larger than a shard is cut into shards of equal length on
//! different platters, so that drives read them in parallel; each shard is a [`Read`]. The reads of
//! a request follow one another and share its number and instant.
//!
//! ```text
//! request 7, 2.5 GB   =   read: shard 0 of 3, platter 812     (its home)
//!                         read: shard 1 of 3, platter 3285    (one fixed step further: about the golden section of 4,000 platters)
//!                         read: shard 2 of 3, platter 1758    (the same step again)
//! ```
//!
//! No state is kept per file: the place of a file follows from its number and the seed, so 10^9
//! files need no more memory than ten.

use fulgurite_domain::Micros;

use crate::SpecError;
use crate::error::{check_count, check_range};

/// A read of one shard of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Read {
    /// When the request arrives.
    pub at: Micros,
    /// Number of the request, counted from 0; shared by the shards of one file.
    pub request: u64,
    /// Number of the arrival, counted from 0; shared by the requests for files of one account that
    /// arrive together.
    pub group: u64,
    /// The file: the same number is the same file, with the same size and place.
    pub object: u64,
    /// Bytes of the whole file.
    pub file_bytes: u64,
    /// Bytes of this shard.
    pub bytes: u64,
    /// The platter, counted over all libraries of the deployment.
    pub platter: u32,
    /// The first track to be read.
    pub first_track: u32,
    /// Number of tracks that contain bytes of the shard; a drive reads whole tracks.
    pub tracks: u32,
    /// Index of the shard, counted from 0.
    pub shard: u32,
    /// Number of shards of the file.
    pub shards: u32,
}

/// The platters that contain the files: those of all libraries together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Platters {
    /// Number of platters.
    pub count: u32,
    /// Information tracks per platter.
    pub tracks: u32,
    /// Content bytes per track.
    pub track_bytes: u64,
}

impl Platters {
    /// This many platters of 2 TB. A sector holds upwards of 100 kB and a track 100 to 200 sectors
    /// (SOSP '23, sections 3 and 5): 20 MB. A platter holds "several TB" (SOSP '23), without
    /// further detail: 100,000 tracks are our proposal.
    #[must_use]
    pub fn new(count: u32) -> Self {
        Self { count, tracks: 100_000, track_bytes: 20_000_000 }
    }

    /// Bytes per platter.
    #[must_use]
    pub fn platter_bytes(&self) -> u64 {
        u64::from(self.tracks).saturating_mul(self.track_bytes)
    }

    /// Bytes of all platters.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.platter_bytes().saturating_mul(u64::from(self.count))
    }
}

/// The default for the largest shard, in bytes: 1 GB. At 60 MB/s it is read in 17 s, so the 2 to 3
/// s of mounting and seeking per visit are a seventh of that; and ten drives read a file of 10 GB
/// in a tenth of the time. No source gives a number.
pub const SHARD_BYTES: u64 = 1_000_000_000;

/// Far beyond any glass, yet sums of a few such lengths fit into 64 bits.
const PLATTER_BYTES_MAX: u64 = 1 << 60;

/// Cuts files into shards and determines the place of each.
#[derive(Debug, Clone)]
pub(crate) struct Sharding {
    platters: Platters,
    shard_bytes: u64,
    /// Distance from the platter of one shard to that of the next. It is coprime to the number of
    /// platters, so no platter repeats before all were used; and it is about their golden section,
    /// so neighbouring shards are far apart.
    step: u32,
    /// Determines the tracks of shards after the first.
    numbers: Numbers,
}

/// A file and the place of its first byte.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlacedFile {
    pub(crate) at: Micros,
    pub(crate) request: u64,
    pub(crate) group: u64,
    pub(crate) object: u64,
    pub(crate) bytes: u64,
    pub(crate) platter: u32,
    pub(crate) track: u32,
    /// Bytes before the file, counted from the start of that track.
    pub(crate) skip: u64,
}

impl Sharding {
    pub(crate) fn new(platters: Platters, shard_bytes: u64, key: u64) -> Result<Self, SpecError> {
        check_count("platters.count", platters.count.into())?;
        check_count("platters.tracks", platters.tracks.into())?;
        check_count("platters.track_bytes", platters.track_bytes)?;
        check_range("bytes of a platter", platters.platter_bytes() as f64, platters.platter_bytes() <= PLATTER_BYTES_MAX, "2^60 at most")?;
        let fits = (1..=platters.platter_bytes()).contains(&shard_bytes);
        check_range("shard_bytes", shard_bytes as f64, fits, "1 to the bytes of a platter")?;
        let golden = (f64::from(platters.count) * 0.618_033_988_749_894_9) as u32;
        let step = (golden.max(1)..).find(|step| common_factor(*step, platters.count) == 1).expect("a coprime step always exists");
        Ok(Self { platters, shard_bytes, step, numbers: Numbers(key) })
    }

    /// The largest file that can be cut: shard indices have 32 bits, and the platters must have
    /// room for all bytes.
    pub(crate) fn largest_file(&self) -> u64 {
        self.platters.capacity().min(self.shard_bytes.saturating_mul(u32::MAX.into()))
    }

    pub(crate) fn tracks(&self) -> u32 {
        self.platters.tracks
    }

    /// Bytes of the first shard of a file.
    #[inline]
    pub(crate) fn first_shard(&self, bytes: u64) -> u64 {
        if bytes <= self.shard_bytes { bytes } else { self.shard_length(bytes, self.shard_count(bytes), 0) }
    }

    fn shard_count(&self, bytes: u64) -> u32 {
        bytes.div_ceil(self.shard_bytes) as u32
    }

    pub(crate) fn shards(&self, file: PlacedFile) -> Shards {
        let count = if file.bytes <= self.shard_bytes { 1 } else { self.shard_count(file.bytes) };
        Shards { file, count, next: 0 }
    }

    #[inline]
    pub(crate) fn next(&self, shards: &mut Shards) -> Option<Read> {
        let Shards { file, count, next: shard } = *shards;
        if shard == count {
            return None;
        }
        shards.next += 1;
        let (bytes, platter, first, tracks);
        if shard == 0 {
            bytes = if count == 1 { file.bytes } else { self.shard_length(file.bytes, count, 0) };
            platter = file.platter;
            let track_bytes = self.platters.track_bytes;
            let (skipped, offset) =
                if file.skip < track_bytes { (0, file.skip) } else { (file.skip / track_bytes, file.skip % track_bytes) };
            tracks = self.track_count(offset + bytes);
            first = u64::from(file.track) + skipped;
        } else {
            bytes = self.shard_length(file.bytes, count, shard);
            let platters = u64::from(self.platters.count);
            platter = ((u64::from(file.platter) + u64::from(shard) * u64::from(self.step)) % platters) as u32;
            tracks = self.track_count(bytes);
            let spare = u64::from(self.platters.tracks - tracks) + 1;
            first = scaled(self.numbers.at(file.object ^ u64::from(shard) << 32), spare);
        }
        // A shard that would extend past the end of the platter is moved down.
        let first_track = first.min(u64::from(self.platters.tracks - tracks)) as u32;
        Some(Read {
            at: file.at,
            request: file.request,
            group: file.group,
            object: file.object,
            file_bytes: file.bytes,
            bytes,
            platter,
            first_track,
            tracks,
            shard,
            shards: count,
        })
    }

    /// Equal shares; if they don't divide evenly, the first ones get one byte more.
    fn shard_length(&self, bytes: u64, count: u32, shard: u32) -> u64 {
        let count = u64::from(count);
        bytes / count + u64::from(u64::from(shard) < bytes % count)
    }

    fn track_count(&self, bytes: u64) -> u32 {
        bytes.div_ceil(self.platters.track_bytes).min(u64::from(self.platters.tracks)) as u32
    }
}

/// The remaining shards of a file, consumed by [`Sharding::next`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shards {
    file: PlacedFile,
    count: u32,
    next: u32,
}

impl Shards {
    pub(crate) fn none() -> Self {
        let file = PlacedFile { at: Micros::ZERO, request: 0, group: 0, object: 0, bytes: 0, platter: 0, track: 0, skip: 0 };
        Self { file, count: 0, next: 0 }
    }

    /// A file in a single shard, whatever its size, because its place is known.
    pub(crate) fn single(file: PlacedFile) -> Self {
        Self { file, count: 1, next: 0 }
    }
}

fn common_factor(mut a: u32, mut b: u32) -> u32 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Random access to random numbers: the values of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014),
/// each computed without those before it. A file's size and place come from here, so they are the
/// same whenever it is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    #[inline]
    pub(crate) fn at(self, number: u64) -> u64 {
        let mut z = self.0.wrapping_add(number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }
}

/// Converts random bits to a number in 0.0..1.0, with 53 bits.
#[inline]
pub(crate) fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
}

/// Converts random bits to a number in `0..count`.
#[inline]
pub(crate) fn scaled(bits: u64, count: u64) -> u64 {
    ((u128::from(bits) * u128::from(count)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn shards_of(sharding: &Sharding, bytes: u64, track: u32, skip: u64) -> Vec<Read> {
        let file = PlacedFile { at: Micros(5), request: 1, group: 1, object: 9, bytes, platter: 3, track, skip };
        let mut shards = sharding.shards(file);
        std::iter::from_fn(|| sharding.next(&mut shards)).collect()
    }

    #[test]
    fn shards_add_up_to_the_file_and_are_on_different_platters() {
        let platters = Platters { count: 10, tracks: 100, track_bytes: 1000 };
        let sharding = Sharding::new(platters, 10_000, 4).unwrap();
        for bytes in [1, 999, 10_000, 10_001, 33_333, 99_999, 100_000] {
            let reads = shards_of(&sharding, bytes, 7, 0);
            assert_eq!(reads.len() as u64, bytes.div_ceil(10_000));
            assert_eq!(reads.iter().map(|read| read.bytes).sum::<u64>(), bytes);
            assert!(reads.iter().all(|read| read.bytes <= 10_000 && read.file_bytes == bytes));
            assert!(reads.iter().all(|read| read.first_track + read.tracks <= 100));
            assert!(reads.iter().all(|read| u64::from(read.tracks) == read.bytes.div_ceil(1000)));
            assert_eq!(reads.iter().map(|read| read.platter).collect::<BTreeSet<_>>().len(), reads.len());
            assert_eq!((reads[0].platter, reads[0].first_track), (3, 7));
        }
    }

    #[test]
    fn a_file_that_begins_inside_a_track_reads_every_track_it_touches() {
        let sharding = Sharding::new(Platters { count: 10, tracks: 100, track_bytes: 1000 }, 10_000, 4).unwrap();
        let tracks =
            |bytes, skip| shards_of(&sharding, bytes, 7, skip).iter().map(|read| (read.first_track, read.tracks)).collect::<Vec<_>>();
        assert_eq!(tracks(100, 900), [(7, 1)]);
        assert_eq!(tracks(101, 900), [(7, 2)]);
        assert_eq!(tracks(1000, 2500), [(9, 2)]);
        assert_eq!(tracks(5000, 91_000), [(95, 5)]);
    }

    #[test]
    fn any_number_of_platters_has_a_step_that_visits_all_of_them() {
        for count in 1..500_u32 {
            let sharding = Sharding::new(Platters { count, tracks: 1, track_bytes: 1 }, 1, 0).unwrap();
            let visited: BTreeSet<u32> =
                (0..count).map(|shard| (u64::from(shard) * u64::from(sharding.step) % u64::from(count)) as u32).collect();
            assert_eq!(visited.len() as u32, count);
        }
    }

    #[test]
    fn numbers_match_splitmix64() {
        // The published test vector: seed 1234567, first outputs.
        let numbers = Numbers(1_234_567);
        assert_eq!([numbers.at(1), numbers.at(2)], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    }
}
