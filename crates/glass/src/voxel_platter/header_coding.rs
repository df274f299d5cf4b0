//! The coding of headers: what a finder can decode with the specification alone.
//!
//! One bit a voxel: 0 is azimuth 0°, 1 is azimuth 90°, both at the largest retardance, which is as
//! far apart as voxels can be. A header block ends with zeros and its checksum; without most of the
//! zeros, it is repeated as often as it fits: 32 times if the set is small, and at least twice. So
//! a bit is lost only if most of its voxels are. A reader doesn't know how long the repeated part
//! is: it tries all lengths, until the checksum is right.
//!
//! A fixed key stream is added, because a decoder expects all symbols to be equally frequent, and
//! because otherwise a bit would have the same neighbors, and so the same blur, in each repetition.

use fulgurite_codec::KeyStream;
use fulgurite_codec::checksum::crc64;
use fulgurite_domain::Geometry;

use crate::GlassMedium;
use crate::decoder::{NearestSymbol, Probabilities};
use crate::voxel::Alphabet;

/// The name of this coding in a platter's head.
pub(super) const NAME: &[u8; 16] = b"two azimuths\0\0\0\0";

const BLOCK_BYTES: usize = Geometry::HEADER_BYTES as usize;
const CHECKSUM_BYTES: usize = 8;
/// Voxels that are read of a copy of the header: as many as two repetitions of a whole block take.
/// The rest of the last sector is written too.
const VOXELS: usize = 2 * 8 * BLOCK_BYTES;
/// The part that is repeated is a multiple of this.
const STEP_BYTES: usize = 1_024;
/// Level of the azimuth of 90°.
const LEVEL_OF_90_DEGREES: u8 = 4;
/// Added to each probability, so that a single voxel can't outvote many: a decoder knows the noise
/// of a sector only on average.
const PROBABILITY_FLOOR: f32 = 1e-4;

/// Sectors of a copy of the header.
pub(super) fn sectors(voxels: usize) -> u32 {
    VOXELS.div_ceil(voxels) as u32
}

/// The symbols of 0 and 1.
fn bit_symbols(alphabet: &Alphabet) -> [u8; 2] {
    [0, LEVEL_OF_90_DEGREES].map(|azimuth| alphabet.symbol(azimuth, alphabet.retardance_levels() - 1))
}

/// The symbols of all sectors of a copy of the header, one after another.
pub(super) fn symbols(block: &[u8], alphabet: &Alphabet, voxels: usize) -> Vec<u8> {
    let part = repeated_part(block);
    let bits = (0..8 * part.len()).map(|bit| part[bit / 8] >> (bit % 8) & 1 == 1).cycle();
    let symbols = bit_symbols(alphabet);
    bits.zip(key_bits()).map(|(bit, key)| symbols[usize::from(bit != key)]).take(sectors(voxels) as usize * voxels).collect()
}

/// The part of a block that is repeated: its start, up to where only zeros follow, and its
/// checksum.
fn repeated_part(block: &[u8]) -> Vec<u8> {
    let (start, checksum) = block.split_at(BLOCK_BYTES - CHECKSUM_BYTES);
    let used = start.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    let bytes = (used + CHECKSUM_BYTES).next_multiple_of(STEP_BYTES).min(BLOCK_BYTES);
    [&start[..bytes - CHECKSUM_BYTES], checksum].concat()
}

/// The block with this repeated part.
fn whole_block(part: &[u8]) -> Vec<u8> {
    let (start, checksum) = part.split_at(part.len() - CHECKSUM_BYTES);
    let mut block = start.to_vec();
    block.resize(BLOCK_BYTES - CHECKSUM_BYTES, 0);
    block.extend_from_slice(checksum);
    block
}

/// The key stream that is added to the bits.
fn key_bits() -> impl Iterator<Item = bool> {
    KeyStream::new(0).flat_map(|word| (0..64).map(move |bit| word >> bit & 1 == 1))
}

/// The decoder of headers, which distinguishes the symbols of 0 and 1.
pub(super) fn decoder(medium: &GlassMedium) -> NearestSymbol {
    NearestSymbol::of_symbols(medium.microscope, &medium.alphabet, bit_symbols(&medium.alphabet), medium.rows, medium.columns)
}

/// Votes of the voxels of a copy of the header on their bits, summed over any number of images.
pub(super) struct Votes {
    /// For each voxel, how much more likely its bit is 0 than 1, in nats.
    voxels: Vec<f32>,
}

impl Votes {
    pub(super) fn new() -> Self {
        Self { voxels: vec![0.0; VOXELS] }
    }

    /// Adds images of the sectors of a copy from its sector `first` on, as the [`decoder`] saw
    /// them; `None` for a sector that it could not decode.
    pub(super) fn add<'a>(&mut self, medium: &GlassMedium, first: u32, sectors: impl Iterator<Item = &'a Option<Probabilities>>) {
        let keys: Vec<bool> = key_bits().take(VOXELS).collect();
        for (index, probabilities) in (first as usize..).zip(sectors) {
            let Some(probabilities) = probabilities else { continue };
            let start = index * medium.voxels();
            for ((vote, key), symbols) in self.voxels[start..].iter_mut().zip(&keys[start..]).zip(probabilities.voxels()) {
                let zero = ((symbols[0] + PROBABILITY_FLOOR) / (symbols[1] + PROBABILITY_FLOOR)).ln();
                *vote += if *key { -zero } else { zero };
            }
        }
    }

    /// The block whose checksum is right, if any length of the repeated part gives one.
    pub(super) fn good_block(&self) -> Option<Vec<u8>> {
        let blocks = (STEP_BYTES..=BLOCK_BYTES).step_by(STEP_BYTES).map(|bytes| self.block(bytes));
        blocks.into_iter().find(|block| {
            let (covered, checksum) = block.split_at(BLOCK_BYTES - CHECKSUM_BYTES);
            crc64(covered).to_le_bytes() == checksum
        })
    }

    /// The block if its repeated part has this length.
    fn block(&self, bytes: usize) -> Vec<u8> {
        let mut sums = vec![0.0; 8 * bytes];
        for repetition in self.voxels.chunks(sums.len()) {
            sums.iter_mut().zip(repetition).for_each(|(sum, vote)| *sum += vote);
        }
        let byte = |sums: &[f32]| (0..8).fold(0, |byte, bit| byte | u8::from(sums[bit] < 0.0) << bit);
        whole_block(&sums.chunks_exact(8).map(byte).collect::<Vec<u8>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(used: usize) -> Vec<u8> {
        let mut block: Vec<u8> = (0..BLOCK_BYTES - 8).map(|i| if i < used { (i * 31 + i / 7) as u8 | 1 } else { 0 }).collect();
        block.extend(crc64(&block).to_le_bytes());
        block
    }

    /// The sectors of a copy as a decoder without doubts sees them.
    fn seen(block: &[u8], medium: &GlassMedium) -> Vec<Option<Probabilities>> {
        let certain = |sector: &[u8]| {
            let values = sector.iter().flat_map(|&symbol| if symbol % 8 == 0 { [1.0, 0.0] } else { [0.0, 1.0] });
            Some(Probabilities::new(2, values.collect()))
        };
        symbols(block, &medium.alphabet, medium.voxels()).chunks(medium.voxels()).map(certain).collect()
    }

    fn decode(sectors: &[Option<Probabilities>], medium: &GlassMedium) -> Option<Vec<u8>> {
        let mut votes = Votes::new();
        votes.add(medium, 0, sectors.iter());
        votes.good_block()
    }

    #[test]
    fn blocks_of_any_length_come_back_from_a_single_repetition() {
        let medium = GlassMedium::tiny();
        for (used, left) in [(0, 1), (1_016, 1), (1_017, 2), (9_000, 8), (16_376, 13)] {
            let block = header(used);
            let mut sectors = seen(&block, &medium);
            assert_eq!(sectors.len(), 26);
            assert!(decode(&sectors, &medium).as_ref() == Some(&block), "{used} bytes");
            sectors[left..].fill(None);
            assert!(decode(&sectors, &medium).as_ref() == Some(&block), "{used} bytes");
            sectors[left - 1] = None;
            assert_eq!(decode(&sectors, &medium), None, "{used} bytes");
        }
    }

    #[test]
    fn both_symbols_are_equally_frequent() {
        let medium = GlassMedium::desk();
        let symbols = symbols(&header(100), &medium.alphabet, medium.voxels());
        assert_eq!(symbols.len(), 13 * medium.voxels());
        let [zero, one] = bit_symbols(&medium.alphabet).map(|symbol| symbols.iter().filter(|&&found| found == symbol).count());
        assert_eq!(zero + one, symbols.len());
        assert!((0.495..0.505).contains(&(one as f64 / symbols.len() as f64)), "{one}");
    }
}
