//! Sectors with random payloads, to train and measure decoders with.

use fulgurite_chance::Stream;
use fulgurite_codec::SectorCode;

use super::{Effects, Frames, Neighbors, SectorSeed, WrittenLayer, image, write};
use crate::GlassMedium;

/// A sector that was written and read.
#[derive(Debug, Clone)]
pub struct Sample {
    /// Its address, which the sector code needs.
    pub address: [u8; 16],
    /// The payload that was stored.
    pub payload: Vec<u8>,
    /// The symbols that were written.
    pub symbols: Vec<u8>,
    /// The images that the camera took.
    pub frames: Frames,
}

/// Writes `layers` sectors with random payloads on top of each other and takes the images of each
/// once. One more layer above them and one below serve as neighbors only. The same arguments give
/// the same samples, and another `stack` gives independent ones.
pub fn sample_stack(medium: &GlassMedium, code: &SectorCode, effects: &Effects, seed: u64, stack: u32, layers: u32) -> Vec<Sample> {
    let platter = Stream::numbered(seed, "samples", stack).bits();
    let at = |layer| SectorSeed { platter, sector: layer };
    let encoded: Vec<([u8; 16], Vec<u8>, Vec<u8>)> = (0..layers + 2)
        .map(|layer| {
            let mut address = [0; 16];
            address[..8].copy_from_slice(&platter.to_le_bytes());
            address[8..12].copy_from_slice(&layer.to_le_bytes());
            let mut random = Stream::numbered(platter, "payload", layer);
            let mut payload = vec![0; code.payload_bytes()];
            payload.chunks_mut(8).for_each(|bytes| bytes.copy_from_slice(&random.bits().to_le_bytes()[..bytes.len()]));
            let symbols = code.encode(&address, &payload);
            (address, payload, symbols)
        })
        .collect();
    let written: Vec<WrittenLayer> = (0..)
        .zip(&encoded)
        .map(|(layer, (_, _, symbols))| write(&medium.alphabet, medium.columns, symbols, &effects.write, at(layer)))
        .collect();
    let mut samples = Vec::new();
    for (layer, (address, payload, symbols)) in (0..).zip(encoded).skip(1).take(layers as usize) {
        let place = layer as usize;
        let neighbors = Neighbors { above: Some(&written[place - 1]), below: Some(&written[place + 1]) };
        let frames = image(&medium.microscope, medium.pixel_bits, &written[place], neighbors, &effects.read, at(layer), 0);
        samples.push(Sample { address, payload, symbols, frames });
    }
    samples
}
