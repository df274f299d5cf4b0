//! Measures the frame error rate of LDPC codes: sends random codewords over a Gaussian channel,
//! decodes them and counts the failures.
//!
//! ```text
//! random information -> codeword -> ±1 plus Gaussian noise -> 8-bit ratios -> LdpcDecoder -> compare
//! ```
//!
//! The channel is named by its raw bit error rate, p: the share of symbols that arrive with the
//! wrong sign. For symbols of ±1 and noise of standard deviation s, p = Q(1/s), and a received
//! value y has a log-likelihood ratio of 2y/s^2 nats.

use std::num::NonZero;

use fulgurite_chance::Stream;
use fulgurite_codec::ldpc::{BaseMatrix, DvbS2, LdpcCode, LdpcDecoder};

use crate::error_rate::ErrorRate;

/// Frames after which the number of failures is checked. Fixed, so that results don't depend on the
/// number of threads.
const ROUND: u32 = 256;

/// A code under test.
#[derive(Debug, Clone)]
pub enum TestedCode {
    /// One of the codes that sectors use.
    Sector(LdpcCode),
    /// DVB-S2, rate 8/9: published and widely measured. A frame fails if its information has more
    /// wrong bits than the 8 that the outer BCH code corrects.
    DvbS2(DvbS2),
}

impl TestedCode {
    fn matrix(&self) -> &BaseMatrix {
        match self {
            TestedCode::Sector(code) => code.matrix(),
            TestedCode::DvbS2(code) => code.matrix(),
        }
    }

    /// Information bits of a codeword.
    pub fn information_bits(&self) -> usize {
        match self {
            TestedCode::Sector(code) => 8 * code.information_bytes(),
            TestedCode::DvbS2(_) => DvbS2::INFORMATION_BITS,
        }
    }

    /// Bits of a codeword.
    pub fn codeword_bits(&self) -> usize {
        match self {
            TestedCode::Sector(_) => LdpcCode::CODEWORD_BITS,
            TestedCode::DvbS2(_) => DvbS2::CODEWORD_BITS,
        }
    }

    /// The code rate: information bits per bit of a codeword.
    pub fn rate(&self) -> f64 {
        self.information_bits() as f64 / self.codeword_bits() as f64
    }

    /// Wrong information bits that an outer code would correct, so that the frame doesn't fail.
    fn corrected_afterwards(&self) -> usize {
        match self {
            TestedCode::Sector(_) => 0,
            TestedCode::DvbS2(_) => 8,
        }
    }

    /// Positions of the information bits in the matrix's order.
    fn information_positions(&self) -> Vec<usize> {
        match self {
            TestedCode::Sector(_) => (0..self.information_bits()).collect(),
            TestedCode::DvbS2(code) => (0..self.information_bits()).map(|bit| code.position(bit)).collect(),
        }
    }

    /// A random codeword, in the matrix's order; `None` for bits that aren't sent, because they are
    /// known to be zero.
    fn codeword(&self, random: &mut Stream) -> Vec<Option<bool>> {
        let mut information = vec![0; self.information_bits() / 8];
        for chunk in information.chunks_mut(8) {
            chunk.copy_from_slice(&random.bits().to_le_bytes()[..chunk.len()]);
        }
        let bit = |bytes: &[u8], bit: usize| bytes[bit / 8] >> (bit % 8) & 1 == 1;
        match self {
            TestedCode::Sector(code) => {
                let mut parity = vec![0; LdpcCode::CODEWORD_BYTES - information.len()];
                code.encode(&information, &mut parity);
                information.extend(parity);
                (0..LdpcCode::CODEWORD_BITS).map(|b| Some(bit(&information, b))).collect()
            }
            TestedCode::DvbS2(code) => {
                let mut bits: Vec<bool> = (0..DvbS2::INFORMATION_BITS).map(|b| bit(&information, b)).collect();
                bits.extend(DvbS2::parity(&bits));
                let mut placed = vec![None; code.matrix().codeword_bits()];
                for (b, &value) in bits.iter().enumerate() {
                    placed[code.position(b)] = Some(value);
                }
                placed
            }
        }
    }
}

/// A binary channel with Gaussian noise, and ratios of 8 bits as its output.
#[derive(Debug, Clone)]
pub struct GaussianChannel {
    bit_error_rate: f64,
    /// Table of Walker's alias method: for each of 256 ratios, drawn with equal probability, how
    /// likely it is to be kept, in units of 2^-24, and the ratio that replaces it otherwise.
    alias_table: Vec<(u32, i8)>,
}

impl GaussianChannel {
    /// The channel with a raw bit error rate between 0 and 0.5, both exclusive; `None` for others.
    pub fn new(bit_error_rate: f64) -> Option<Self> {
        let valid = bit_error_rate > 0.0 && bit_error_rate < 0.5;
        valid.then(|| Self { bit_error_rate, alias_table: alias_table(&ratio_probabilities(bit_error_rate)) })
    }

    /// The raw bit error rate.
    pub fn bit_error_rate(&self) -> f64 {
        self.bit_error_rate
    }

    /// Energy per information bit over noise density, in decibels, for a code of this rate.
    pub fn eb_n0_db(&self, rate: f64) -> f64 {
        let deviation = deviation(self.bit_error_rate);
        10.0 * (1.0 / (2.0 * rate * deviation * deviation)).log10()
    }

    /// The receiver's ratio for a bit: 8 of the `random` bits draw it from the table, the others
    /// decide whether it is kept.
    fn ratio(&self, bit: bool, random: u32) -> i8 {
        let drawn = (random & 0xFF) as usize;
        let (kept, otherwise) = self.alias_table[drawn];
        let ratio = if random >> 8 < kept { (drawn as u8).cast_signed() } else { otherwise };
        if bit { -ratio } else { ratio }
    }
}

/// Probability that a standard normal value exceeds `x`.
fn q(x: f64) -> f64 {
    libm::erfc(x / std::f64::consts::SQRT_2) / 2.0
}

/// Standard deviation of the noise of a channel with this raw bit error rate: inverts `q` by
/// bisection.
fn deviation(bit_error_rate: f64) -> f64 {
    let (mut low, mut high) = (0.0, 40.0);
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if q(middle) > bit_error_rate { low = middle } else { high = middle }
    }
    1.0 / low
}

/// Probability of each ratio if a 0 is sent, indexed by the ratio's bits as an unsigned byte.
fn ratio_probabilities(bit_error_rate: f64) -> [f64; 256] {
    let deviation = deviation(bit_error_rate);
    let per_unit = f64::from(LdpcDecoder::RATIOS_PER_NAT) * 2.0 / (deviation * deviation);
    let above = |ratio: f64| q((ratio / per_unit - 1.0) / deviation);
    let mut probabilities = [0.0; 256];
    for ratio in -LdpcDecoder::MOST_RATIO..=LdpcDecoder::MOST_RATIO {
        let from = if ratio == -LdpcDecoder::MOST_RATIO { 1.0 } else { above(f64::from(ratio) - 0.5) };
        let to = if ratio == LdpcDecoder::MOST_RATIO { 0.0 } else { above(f64::from(ratio) + 0.5) };
        probabilities[usize::from(ratio.cast_unsigned())] = from - to;
    }
    probabilities
}

fn alias_table(probabilities: &[f64; 256]) -> Vec<(u32, i8)> {
    const WHOLE: f64 = (1 << 24) as f64;
    let mut weights: Vec<f64> = probabilities.iter().map(|probability| probability * 256.0).collect();
    let mut table: Vec<(u32, i8)> = (0..=255u8).map(|value| (1 << 24, value.cast_signed())).collect();
    let (mut light, mut heavy): (Vec<usize>, Vec<usize>) = (0..256).partition(|&value| weights[value] < 1.0);
    while let (Some(poor), Some(&rich)) = (light.pop(), heavy.last()) {
        table[poor] = ((weights[poor] * WHOLE) as u32, (rich as u8).cast_signed());
        weights[rich] -= 1.0 - weights[poor];
        if weights[rich] < 1.0 {
            heavy.pop();
            light.push(rich);
        }
    }
    table
}

/// How much to simulate.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// Frames at most.
    pub frames: u32,
    /// Stop once so many frames have failed; checked after every 256 frames.
    pub failures: u32,
    /// Iterations of the decoder at most.
    pub iterations: u32,
    /// Seed of information and noise.
    pub seed: u64,
    /// Threads; the result doesn't depend on them.
    pub threads: NonZero<usize>,
}

/// What was counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FrameErrors {
    /// Frames sent.
    pub frames: u32,
    /// Frames whose information stayed wrong and for which the decoder found no codeword.
    pub failed: u32,
    /// Frames decoded to another codeword than was sent, which only a checksum would detect.
    pub wrong: u32,
    /// Bits that were wrong before decoding.
    pub raw_errors: u64,
    /// Iterations, of all frames together.
    pub iterations: u64,
}

impl FrameErrors {
    /// The frame error rate: the share of frames that failed or were decoded wrong.
    pub fn rate(&self) -> ErrorRate {
        ErrorRate::of(self.failed + self.wrong, self.frames)
    }

    fn add(&mut self, other: &Self) {
        self.frames += other.frames;
        self.failed += other.failed;
        self.wrong += other.wrong;
        self.raw_errors += other.raw_errors;
        self.iterations += other.iterations;
    }
}

/// Sends frames of random information, and counts those that the decoder doesn't restore.
pub fn frame_errors(code: &TestedCode, channel: &GaussianChannel, effort: Effort) -> FrameErrors {
    let mut total = FrameErrors::default();
    while total.frames < effort.frames && total.failed + total.wrong < effort.failures {
        let from = total.frames;
        let count = ROUND.min(effort.frames - from);
        let threads = u32::try_from(effort.threads.get()).unwrap_or(u32::MAX).min(count);
        let parts: Vec<FrameErrors> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads)
                .map(|worker| {
                    let frames = from..from + count;
                    scope.spawn(move || send(code, channel, effort, frames.skip(worker as usize).step_by(threads as usize)))
                })
                .collect();
            workers.into_iter().map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        });
        for part in &parts {
            total.add(part);
        }
    }
    total
}

fn send(code: &TestedCode, channel: &GaussianChannel, effort: Effort, frames: impl Iterator<Item = u32>) -> FrameErrors {
    let mut decoder = LdpcDecoder::new(code.matrix());
    let mut counted = FrameErrors::default();
    let mut after = vec![0; code.matrix().codeword_bits()];
    let information = code.information_positions();
    for frame in frames {
        let mut random = Stream::numbered(effort.seed, "frame", frame);
        let codeword = code.codeword(&mut random);
        let mut spare = None;
        let mut draw = || match spare.take() {
            Some(bits) => bits,
            None => {
                let bits = random.bits();
                spare = Some((bits >> 32) as u32);
                bits as u32
            }
        };
        let ratios: Vec<i8> = codeword.iter().map(|bit| bit.map_or(i8::MAX, |bit| channel.ratio(bit, draw()))).collect();
        let is_wrong = |ratio: i8, bit: Option<bool>| bit.is_some_and(|bit| (ratio < 0) != bit);
        let decoded = decoder.decode(&ratios, effort.iterations);
        decoder.copy_ratios(&mut after);
        counted.frames += 1;
        counted.raw_errors += ratios.iter().zip(&codeword).filter(|&(&ratio, &bit)| is_wrong(ratio, bit)).count() as u64;
        counted.iterations += u64::from(decoded.iterations);
        let wrong_information = information.iter().filter(|&&bit| is_wrong(after[bit], codeword[bit])).count();
        if wrong_information > code.corrected_afterwards() {
            if decoded.is_codeword { counted.wrong += 1 } else { counted.failed += 1 }
        }
    }
    counted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effort(frames: u32, threads: usize) -> Effort {
        Effort { frames, failures: 1000, iterations: 20, seed: 1, threads: NonZero::new(threads).unwrap() }
    }

    #[test]
    fn the_channel_has_the_bit_error_rate_that_it_is_named_by() {
        for p in [0.005, 0.02, 0.1, 0.3] {
            let probabilities = ratio_probabilities(p);
            assert!((probabilities.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            // Half of the smallest ratios, which round to zero, are wrong.
            let wrong: f64 = probabilities[129..].iter().sum();
            assert!(wrong < p && wrong + probabilities[0] > p, "{p}: {wrong}");
            // The alias table gives the same probabilities.
            let channel = GaussianChannel::new(p).unwrap();
            let mut drawn = [0.0; 256];
            for (value, &(stays, otherwise)) in channel.alias_table.iter().enumerate() {
                let stays = f64::from(stays) / f64::from(1 << 24);
                drawn[value] += stays / 256.0;
                drawn[usize::from(otherwise.cast_unsigned())] += (1.0 - stays) / 256.0;
            }
            for (value, (drawn, wanted)) in drawn.iter().zip(probabilities).enumerate() {
                assert!((drawn - wanted).abs() < 1e-7, "{p}, ratio {value}: {drawn} instead of {wanted}");
            }
        }
        assert!([0.0, 0.5, -1.0, f64::NAN].into_iter().all(|p| GaussianChannel::new(p).is_none()));
        // Q(1.2816) = 0.1; uncoded BPSK has p = Q(sqrt(2 Eb/N0)).
        assert!((deviation(0.1) - 1.0 / 1.281_551_565).abs() < 1e-8);
        assert!((GaussianChannel::new(0.1).unwrap().eb_n0_db(1.0) - 10.0 * (1.281_551_565f64.powi(2) / 2.0).log10()).abs() < 1e-6);
    }

    #[test]
    fn results_depend_on_the_seed_but_not_on_the_threads() {
        let code = TestedCode::Sector(LdpcCode::new(9).unwrap());
        let channel = GaussianChannel::new(0.022).unwrap();
        let one = frame_errors(&code, &channel, effort(60, 1));
        assert_eq!(one, frame_errors(&code, &channel, effort(60, 3)));
        assert_ne!(one, frame_errors(&code, &channel, Effort { seed: 2, ..effort(60, 3) }));
        let raw = one.raw_errors as f64 / (60 * LdpcCode::CODEWORD_BITS) as f64;
        assert!((raw - 0.022).abs() < 0.001, "{raw}");
    }

    #[test]
    fn below_its_limit_a_code_decodes_and_above_it_fails() {
        for (code, good, bad) in [
            (TestedCode::Sector(LdpcCode::new(9).unwrap()), 0.018, 0.03),
            (TestedCode::Sector(LdpcCode::new(20).unwrap()), 0.045, 0.07),
            (TestedCode::DvbS2(DvbS2::new()), 0.016, 0.03),
        ] {
            let good = frame_errors(&code, &GaussianChannel::new(good).unwrap(), effort(12, 2));
            assert_eq!((good.failed, good.wrong), (0, 0), "rate {}", code.rate());
            let bad = frame_errors(&code, &GaussianChannel::new(bad).unwrap(), effort(6, 2));
            assert_eq!((bad.failed, bad.wrong), (6, 0), "rate {}", code.rate());
        }
    }
}
