//! Measures how many symbols and sectors a decoder of images loses, with sectors that the emulator
//! writes and images.
//!
//! ```text
//! random payload -> SectorCode -> write -> image -> VoxelDecoder -> ratios -> SectorDecoder -> compare
//! ```

use std::num::NonZero;
use std::time::{Duration, Instant};

use fulgurite_codec::ldpc::{LdpcCode, LdpcDecoder};
use fulgurite_codec::{SectorCode, SectorDecoder};

use crate::GlassMedium;
use crate::decoder::{FramesError, Probabilities, VoxelDecoder};
use crate::emulator::{Effects, Sample, sample_stack};
use crate::error_rate::ErrorRate;

/// Layers that are written and read together. A stack costs two more layers, which aren't read.
const LAYERS: u32 = 8;
/// Stacks after which the number of failures is checked. Fixed, so that results don't depend on the
/// number of threads.
const ROUND: u32 = 8;

/// How much to measure.
#[derive(Debug, Clone, Copy)]
pub struct SectorEffort {
    /// Sectors at most, rounded up to whole stacks of 8.
    pub sectors: u32,
    /// Stop once so many sectors have failed; checked after every 64 sectors.
    pub failures: u32,
    /// Seed of payloads and noise.
    pub seed: u64,
    /// Threads; the result doesn't depend on them.
    pub threads: NonZero<usize>,
}

/// What was counted.
#[derive(Debug, Clone, Default)]
pub struct SectorErrors {
    /// Sectors read.
    pub sectors: u32,
    /// Sectors that were reported as lost.
    pub failed: u32,
    /// Sectors that came back with another payload than was written.
    pub wrong: u32,
    /// Voxels read.
    pub voxels: u64,
    /// Voxels whose likeliest symbol was wrong.
    pub symbol_errors: u64,
    /// Bits of information that the ratios carried about what was written, if each ratio is taken
    /// as the true likelihood.
    pub information_bits: f64,
    /// For each other code tried: its number of parity columns, and the sectors that it would have
    /// lost.
    pub failed_at: Vec<(usize, u32)>,
    /// Time spent on emulation, of all threads together.
    pub emulating: Duration,
    /// Time spent in the decoder of images, of all threads together.
    pub decoding: Duration,
}

impl SectorErrors {
    /// Share of voxels whose likeliest symbol was wrong.
    pub fn symbol_error_rate(&self) -> f64 {
        self.symbol_errors as f64 / self.voxels as f64
    }

    /// Generalized mutual information, in bits per voxel: the largest rate that a code for single
    /// bits can achieve with these ratios.
    pub fn information_per_voxel(&self) -> f64 {
        self.information_bits / self.voxels as f64
    }

    /// Share of sectors that failed or came back wrong.
    pub fn rate(&self) -> ErrorRate {
        ErrorRate::of(self.failed + self.wrong, self.sectors)
    }

    fn add(&mut self, other: &Self) {
        self.sectors += other.sectors;
        self.failed += other.failed;
        self.wrong += other.wrong;
        self.voxels += other.voxels;
        self.symbol_errors += other.symbol_errors;
        self.information_bits += other.information_bits;
        self.emulating += other.emulating;
        self.decoding += other.decoding;
        if self.failed_at.is_empty() {
            self.failed_at.clone_from(&other.failed_at);
        } else {
            self.failed_at.iter_mut().zip(&other.failed_at).for_each(|(sum, (_, failed))| sum.1 += failed);
        }
    }
}

/// Reads emulated sectors with a decoder that `decoder` creates for each thread. `other_codes` are
/// the parity columns of further codes to try on the same images.
///
/// # Panics
/// If there is no code with so many parity columns, or the decoder isn't one for this medium.
pub fn sector_errors<D: VoxelDecoder>(
    medium: &GlassMedium,
    effects: &Effects,
    decoder: impl Fn() -> D + Sync,
    other_codes: &[usize],
    effort: SectorEffort,
) -> SectorErrors {
    let mut total = SectorErrors::default();
    let mut stacks = 0..effort.sectors.div_ceil(LAYERS);
    while !stacks.is_empty() && total.failed + total.wrong < effort.failures {
        let round: Vec<u32> = stacks.by_ref().take(ROUND as usize).collect();
        let threads = effort.threads.get().min(round.len());
        let measure = &|worker: usize| {
            let mut reader = Reader::new(medium, decoder(), other_codes);
            round.iter().skip(worker).step_by(threads).for_each(|&stack| reader.read(medium, effects, effort.seed, stack));
            reader.counted
        };
        let parts: Vec<SectorErrors> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads).map(|worker| scope.spawn(move || measure(worker))).collect();
            workers.into_iter().map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        });
        parts.iter().for_each(|part| total.add(part));
    }
    total
}

/// Reads stacks on one thread, and counts.
struct Reader<D> {
    code: SectorCode,
    decoder: D,
    other_codes: Vec<(usize, LdpcDecoder)>,
    counted: SectorErrors,
}

impl<D: VoxelDecoder> Reader<D> {
    fn new(medium: &GlassMedium, decoder: D, other_codes: &[usize]) -> Self {
        let ldpc =
            |&columns: &usize| (columns, LdpcDecoder::new(LdpcCode::new(columns).expect("a code with these parity columns").matrix()));
        let counted = SectorErrors { failed_at: other_codes.iter().map(|&columns| (columns, 0)).collect(), ..SectorErrors::default() };
        Self { code: medium.sector_code(), decoder, other_codes: other_codes.iter().map(ldpc).collect(), counted }
    }

    fn read(&mut self, medium: &GlassMedium, effects: &Effects, seed: u64, stack: u32) {
        let started = Instant::now();
        let samples = sample_stack(medium, &self.code, effects, seed, stack, LAYERS);
        self.counted.emulating += started.elapsed();
        let code = self.code.clone();
        let mut sectors = code.decoder();
        let started = Instant::now();
        let decoded = self.decoder.decode_all(&samples.iter().map(|sample| &sample.frames).collect::<Vec<_>>());
        self.counted.decoding += started.elapsed();
        for (sample, decoded) in samples.iter().zip(decoded) {
            self.count(&mut sectors, sample, decoded);
        }
    }

    fn count(&mut self, sectors: &mut SectorDecoder<'_>, sample: &Sample, decoded: Result<Probabilities, FramesError>) {
        let Self { code, other_codes, counted, .. } = self;
        counted.sectors += 1;
        counted.voxels += sample.symbols.len() as u64;
        let Ok(probabilities) = decoded else {
            counted.symbol_errors += sample.symbols.len() as u64;
            counted.failed += 1;
            counted.failed_at.iter_mut().for_each(|(_, failed)| *failed += 1);
            return;
        };
        counted.symbol_errors +=
            probabilities.likeliest().iter().zip(&sample.symbols).filter(|(got, written)| got != written).count() as u64;
        let mut ratios = probabilities.ratios();
        match sectors.decode(&sample.address, &ratios) {
            Ok(sector) if sector.payload == sample.payload => {}
            Ok(_) => counted.wrong += 1,
            Err(_) => counted.failed += 1,
        }
        // From here on a positive ratio means that a bit is right: as if only zeros had been
        // written, which is a codeword of every code.
        let bits = code.bits_per_symbol();
        for (voxel, symbol) in ratios.chunks_exact_mut(bits).zip(&sample.symbols) {
            for (bit, ratio) in voxel.iter_mut().enumerate() {
                if symbol >> bit & 1 == 1 {
                    *ratio = -*ratio;
                }
                counted.information_bits +=
                    1.0 - (f64::from(-*ratio) / f64::from(LdpcDecoder::RATIOS_PER_NAT)).exp().ln_1p() / std::f64::consts::LN_2;
            }
        }
        let per_codeword = LdpcCode::CODEWORD_BITS.div_ceil(bits);
        for ((_, ldpc), (_, failed)) in other_codes.iter_mut().zip(&mut counted.failed_at) {
            let lost = (0..code.codewords()).any(|index| {
                let symbols = ratios.chunks_exact(bits).skip(index).step_by(code.codewords()).take(per_codeword);
                let mut word: Vec<i8> = symbols.flatten().copied().collect();
                word.truncate(LdpcCode::CODEWORD_BITS);
                let ended = ldpc.decode(&word, SectorCode::MOST_ITERATIONS);
                let mut decided = vec![0; LdpcCode::CODEWORD_BYTES];
                ldpc.copy_bits(&mut decided);
                !ended.is_codeword || decided.iter().any(|&byte| byte != 0)
            });
            *failed += u32::from(lost);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decoder::NearestSymbol;
    use crate::emulator::Preset;

    fn errors(strength: f64, other_codes: &[usize], threads: usize) -> SectorErrors {
        let medium = GlassMedium::desk();
        let effort = SectorEffort { sectors: 8, failures: 1_000, seed: 1, threads: NonZero::new(threads).unwrap() };
        let decoder = || NearestSymbol::new(medium.microscope, &medium.alphabet, medium.rows, medium.columns);
        sector_errors(&medium, &Preset::Nominal.effects().scaled(strength), decoder, other_codes, effort)
    }

    #[test]
    fn noise_costs_information_and_then_sectors() {
        let (little, much) = (errors(0.3, &[5, 20], 1), errors(3.0, &[5, 20], 1));
        assert_eq!((little.sectors, little.voxels, much.sectors), (8, 8 * 20_480, 8));
        assert!(little.information_per_voxel() > 3.9 && little.information_per_voxel() <= 4.0);
        assert!(much.symbol_error_rate() > 0.5 && much.information_per_voxel() < 1.0, "{much:?}");
        assert_eq!((little.failed, little.wrong, much.failed, much.wrong), (0, 0, 8, 0));
        assert_eq!(much.failed_at, [(5, 8), (20, 8)]);
        assert_eq!(little.failed_at, [(5, 0), (20, 0)]);
    }

    #[test]
    fn a_code_tried_on_the_same_images_fails_where_the_sector_does() {
        let medium = GlassMedium::desk();
        let some = errors(0.62, &[medium.parity_columns], 2);
        assert_eq!(some.failed_at, [(medium.parity_columns, some.failed)]);
    }
}
