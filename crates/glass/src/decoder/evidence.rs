//! Checks a payload that another machine decoded against the images of its sector.
//!
//! The sector's checksum doesn't suffice for that: a faulty decoder may compute it anew. So a
//! sample of voxels is looked at once, before the images are given away, and compared with the
//! symbols that the payload would have been written as. That costs a hundredth of decoding them.

use fulgurite_chance::Stream;
use fulgurite_codec::SectorCode;

use crate::GlassMedium;
use crate::emulator::Frames;
use crate::polarization::FRAMES;

/// Voxels of a sample.
const PLACES: usize = 1_024;
/// How many more voxels than by chance must agree. By chance, 64 of 1,024 do with 16 symbols, and
/// 160 are 12 standard deviations off. Of a sector that can be decoded, more than half agree.
const FACTOR: f64 = 2.5;

/// What a sample of a sector's voxels looks like.
#[derive(Debug, Clone)]
pub struct Evidence {
    places: Vec<usize>,
    /// The symbol nearest to each.
    symbols: Vec<u8>,
    alphabet: u8,
}

impl Evidence {
    /// Looks at voxels that the seed chooses.
    ///
    /// # Panics
    /// If the frames aren't those of a sector of this medium.
    pub fn take(medium: &GlassMedium, frames: &Frames, seed: u64) -> Self {
        let voxels = medium.voxels();
        assert_eq!(frames.pixels.len(), FRAMES * voxels, "frames of another medium");
        let mut chance = Stream::new(seed, "evidence");
        let places: Vec<usize> = (0..PLACES).map(|_| (chance.unit() * voxels as f64) as usize % voxels).collect();
        let mut seen: Vec<[f64; 2]> = places
            .iter()
            .map(|&place| {
                let pixels = std::array::from_fn::<f64, FRAMES, _>(|frame| f64::from(frames.pixels[frame * voxels + place]));
                let seen = medium.microscope.birefringence(pixels);
                vector(seen.retardance, seen.azimuth)
            })
            .collect();
        // Scrambled symbols average out, so the mean is the background; their power is known.
        let mean = [0, 1].map(|axis| seen.iter().map(|vector| vector[axis]).sum::<f64>() / PLACES as f64);
        seen.iter_mut().for_each(|vector| *vector = [vector[0] - mean[0], vector[1] - mean[1]]);
        let nominal: Vec<[f64; 2]> = (0..medium.alphabet.symbol_count())
            .map(|symbol| {
                let written = medium.alphabet.birefringence(symbol);
                vector(written.retardance, written.azimuth)
            })
            .collect();
        let gain = (power(&nominal) / power(&seen).max(f64::MIN_POSITIVE)).sqrt();
        let nearest = |seen: &[f64; 2]| {
            let distance = |symbol: &[f64; 2]| (seen[0] * gain - symbol[0]).powi(2) + (seen[1] * gain - symbol[1]).powi(2);
            (0..nominal.len()).min_by(|&a, &b| distance(&nominal[a]).total_cmp(&distance(&nominal[b]))).unwrap_or(0) as u8
        };
        Self { symbols: seen.iter().map(nearest).collect(), alphabet: medium.alphabet.symbol_count(), places }
    }

    /// True if the voxels look like those of this payload at this address.
    pub fn supports(&self, code: &SectorCode, address: &[u8], payload: &[u8]) -> bool {
        if payload.len() != code.payload_bytes() {
            return false;
        }
        let written = code.encode(address, payload);
        let agree = self.places.iter().zip(&self.symbols).filter(|(place, symbol)| written.get(**place) == Some(*symbol)).count();
        agree as f64 >= FACTOR * self.places.len() as f64 / f64::from(self.alphabet)
    }
}

fn vector(retardance: f64, azimuth: f64) -> [f64; 2] {
    let (sine, cosine) = (2.0 * azimuth).sin_cos();
    [retardance * sine, retardance * cosine]
}

fn power(vectors: &[[f64; 2]]) -> f64 {
    vectors.iter().map(|vector| vector[0].powi(2) + vector[1].powi(2)).sum::<f64>() / vectors.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulator::{Neighbors, Preset, SectorSeed, image, write};

    #[test]
    fn only_the_written_payload_is_supported() {
        let medium = GlassMedium::tiny();
        let code = medium.sector_code();
        let payload: Vec<u8> = (0..code.payload_bytes()).map(|i| (i * 31 + i / 256) as u8).collect();
        for preset in Preset::ALL {
            let effects = preset.effects();
            let layer = |sector: u32| {
                let symbols = code.encode(&sector.to_le_bytes(), &payload);
                write(&medium.alphabet, medium.columns, &symbols, &effects.write, SectorSeed { platter: 5, sector })
            };
            let (above, focus, below) = (layer(1), layer(2), layer(3));
            let neighbors = Neighbors { above: Some(&above), below: Some(&below) };
            let seed = SectorSeed { platter: 5, sector: 2 };
            let frames = image(&medium.microscope, medium.pixel_bits, &focus, neighbors, &effects.read, seed, 0);
            for seed in 0..4 {
                let evidence = Evidence::take(&medium, &frames, seed);
                let supports = |sector: u32, payload: &[u8]| evidence.supports(&code, &sector.to_le_bytes(), payload);
                assert!(supports(2, &payload), "{}", preset.name());
                assert!(!supports(1, &payload), "the layer above shines through, but less: {}", preset.name());
                assert!(!supports(2, &vec![0; payload.len()]));
                assert!(!supports(2, &payload[1..]));
            }
        }
    }
}
