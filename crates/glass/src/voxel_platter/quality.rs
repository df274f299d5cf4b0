//! How well sectors can be read, compared with the symbols that the file holds.

use std::io;
use std::ops::Range;

use fulgurite_codec::ldpc::LdpcDecoder;
use fulgurite_codec::{SectorDecoder, SectorLoss};
use fulgurite_domain::{PhysicalTrack, SectorAddress};

use super::batch::{ATTEMPTS, Symbols};
use super::reading::VoxelPlatter;
use crate::decoder::{Device, FramesError, Probabilities, VoxelDecoder};
use crate::emulator::Frames;

/// What came of reading a sector.
#[derive(Debug, Clone, PartialEq)]
pub struct SectorQuality {
    /// How often its images were taken: until it could be decoded, and three times at most. All
    /// other values are those of the last images.
    pub attempts: u32,
    /// Voxels whose likeliest symbol isn't the one in the file.
    pub symbol_errors: usize,
    /// Bits whose ratio has the wrong sign.
    pub bit_errors: usize,
    /// Information that the ratios carried about the symbols in the file if taken at face value, in
    /// bits per bit. If the symbols were changed after the platter was written, a sector can be
    /// lost in spite of much information.
    pub information: f64,
    /// What the code made of the ratios.
    pub decoded: Result<Correction, SectorTrouble>,
}

/// What it took to decode a sector whose checksum is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Correction {
    /// Iterations of the codeword that took most.
    pub iterations: u32,
    /// Bits that were corrected.
    pub bits: u32,
}

/// Why a sector is lost.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SectorTrouble {
    /// The images show nothing to decode.
    #[error(transparent)]
    Frames(#[from] FramesError),
    /// The code can't recover the sector.
    #[error(transparent)]
    Code(#[from] SectorLoss),
}

/// A sector on its way from symbols to bytes.
#[derive(Debug, Clone)]
pub struct SectorView {
    /// The symbols in the file, row by row.
    pub symbols: Vec<u8>,
    /// The last images.
    pub frames: Frames,
    /// What the decoder made of them; `None` if they show nothing.
    pub probabilities: Option<Probabilities>,
    /// What the sector holds for the archive, payload and label; `None` if it is lost.
    pub payload: Option<Vec<u8>>,
    /// How well it could be read.
    pub quality: SectorQuality,
}

impl VoxelPlatter {
    /// Reads all sectors of a track, one after another, on the caller's thread. The images are
    /// those of the first reads of a platter, so the same file gives the same result.
    ///
    /// A sector that can't be read from the file has the error of the source;
    /// [`io::ErrorKind::UnexpectedEof`] means that the file ends before it.
    ///
    /// # Panics
    /// If the platter has no such track.
    pub fn track_quality(&self, track: PhysicalTrack) -> Vec<io::Result<SectorQuality>> {
        let sectors = self.layout.track(track.0).expect("a track of the platter");
        let in_file = sectors.start..sectors.end.min(self.sectors_in_file()).max(sectors.start);
        let missing = (in_file.end..sectors.end).map(|_| Err(io::ErrorKind::UnexpectedEof.into()));
        let views = |symbols, sectors| self.views(sectors, symbols, |view| Ok(view.quality));
        if let Ok(symbols) = self.symbols(in_file.clone(), sectors.clone()) {
            return views(symbols, in_file).into_iter().chain(missing).collect();
        }
        // One unreadable sector must not hide the others.
        let read = |sector| match self.symbols(sector..sector + 1, sectors.clone()) {
            Ok(symbols) => views(symbols, sector..sector + 1).remove(0),
            Err(error) => Err(error),
        };
        in_file.map(read).chain(missing).collect()
    }

    /// Reads a sector, and keeps everything that was seen of it. The images are those of the first
    /// reads of a platter, so the same file gives the same result.
    ///
    /// # Errors
    /// Errors of the source; [`io::ErrorKind::UnexpectedEof`] if the file ends before the sector.
    ///
    /// # Panics
    /// If the platter has no such sector.
    pub fn sector_view(&self, SectorAddress { track, sector }: SectorAddress) -> io::Result<SectorView> {
        let stack = self.layout.track(track.0).expect("a track of the platter");
        let sector = stack.clone().nth(sector.into()).expect("a sector of the track");
        if sector >= self.sectors_in_file() {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file ends before it"));
        }
        let symbols = self.symbols(sector..sector + 1, stack)?;
        Ok(self.views(sector..sector + 1, symbols, |view| view).remove(0))
    }

    fn views<T>(&self, sectors: Range<u32>, symbols: Symbols, mut keep: impl FnMut(SectorView) -> T) -> Vec<T> {
        let scene = self.scene(0, symbols);
        let mut decoder = scene.decoder.load(&self.head.medium, &Device::Cpu);
        let mut code = self.code.decoder();
        let view = |sector, imaging: &dyn Fn(u32) -> Frames| {
            let written = scene.symbols.of(sector, &self.head.medium).expect("the symbols of all requested sectors were read");
            let address = self.head.address(sector);
            let mut read = |attempt| view(&written, imaging(attempt), attempt + 1, &mut decoder, &mut code, &address);
            let mut seen = read(0);
            for attempt in 1..ATTEMPTS {
                if seen.payload.is_some() {
                    break;
                }
                seen = read(attempt);
            }
            keep(seen)
        };
        scene.scan(&sectors.collect::<Vec<_>>(), view)
    }
}

/// Decodes the images of a sector, and compares the result with the written symbols.
fn view(
    written: &[u8],
    frames: Frames,
    attempts: u32,
    decoder: &mut dyn VoxelDecoder,
    code: &mut SectorDecoder<'_>,
    address: &[u8],
) -> SectorView {
    let symbols = written.to_vec();
    let probabilities = match decoder.decode(&frames) {
        Ok(probabilities) => probabilities,
        Err(error) => {
            let (symbol_errors, decoded) = (written.len(), Err(error.into()));
            let quality = SectorQuality { attempts, symbol_errors, bit_errors: 0, information: 0.0, decoded };
            return SectorView { symbols, frames, probabilities: None, payload: None, quality };
        }
    };
    let ratios = probabilities.ratios();
    let (bit_errors, information) = compare(&ratios, written);
    let (payload, decoded) = match code.decode(address, &ratios) {
        Ok(sector) => (Some(sector.payload), Ok(Correction { iterations: sector.most_iterations, bits: sector.corrected_bits })),
        Err(loss) => (None, Err(loss.into())),
    };
    let symbol_errors = probabilities.likeliest().iter().zip(written).filter(|(likeliest, written)| likeliest != written).count();
    let quality = SectorQuality { attempts, symbol_errors, bit_errors, information, decoded };
    SectorView { symbols, frames, probabilities: Some(probabilities), payload, quality }
}

/// How many ratios have the wrong sign, and the information that they carry, in bits per bit. A
/// ratio of L nats for the written bit lacks `log2(1 + e^-L)`.
fn compare(ratios: &[i8], written: &[u8]) -> (usize, f64) {
    let (mut wrong, mut lacking) = (0, 0.0);
    let bits = ratios.len() / written.len();
    for (ratios, symbol) in ratios.chunks_exact(bits).zip(written) {
        for (bit, ratio) in ratios.iter().enumerate() {
            let right = if symbol >> bit & 1 == 0 { *ratio } else { -*ratio };
            wrong += usize::from(right < 0);
            lacking += (f64::from(-right) / f64::from(LdpcDecoder::RATIOS_PER_NAT)).exp().ln_1p() / std::f64::consts::LN_2;
        }
    }
    (wrong, 1.0 - lacking / ratios.len() as f64)
}
