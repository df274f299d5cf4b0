//! Kinds of glass: shape of sectors, alphabet of voxels, settings of the microscope, and rate of
//! the sectors' code.

use std::f64::consts::PI;

use fulgurite_codec::SectorCode;
use fulgurite_codec::ldpc::LdpcCode;

use crate::polarization::Microscope;
use crate::voxel::Alphabet;

/// A kind of glass: how sectors are written to it and read from it.
#[derive(Debug, Clone, PartialEq)]
pub struct GlassMedium {
    /// Rows of voxels in a sector.
    pub rows: usize,
    /// Columns of voxels in a sector.
    pub columns: usize,
    /// Symbols that voxels can carry.
    pub alphabet: Alphabet,
    /// Settings of the read drive's microscope.
    pub microscope: Microscope,
    /// Bits of a pixel of the camera.
    pub pixel_bits: u32,
    /// Parity columns, of 80, in the LDPC code of a sector.
    pub parity_columns: usize,
}

impl GlassMedium {
    /// Sectors small enough for a laptop: 128 x 160 voxels of 4 bits, of which a code of rate
    /// 0.8125 leaves 8,312 bytes.
    pub fn desk() -> Self {
        Self {
            rows: 128,
            columns: 160,
            alphabet: Alphabet::new(vec![0.25, 0.5]).expect("these retardances are valid"),
            microscope: Microscope { swing: 0.2 * PI, bright: 0.9, dark: 0.02 },
            pixel_bits: 8,
            parity_columns: 15,
        }
    }

    /// The smallest sectors that hold a sector of 4,096 bytes of the archive and its label: 64 x
    /// 160 voxels. For tests, and for archives of a few files.
    pub fn tiny() -> Self {
        Self { rows: 64, parity_columns: 14, ..Self::desk() }
    }

    /// The glass for sectors with a payload of this size; `None` for other sizes than those of the
    /// presets.
    pub fn for_sectors(sector_bytes: u32) -> Option<Self> {
        match sector_bytes {
            4_096 => Some(Self::tiny()),
            8_192 => Some(Self::desk()),
            _ => None,
        }
    }

    /// Voxels of a sector.
    pub fn voxels(&self) -> usize {
        self.rows * self.columns
    }

    /// Bytes of payload that the sector code holds, computed without constructing it; `None` if
    /// there is no such code.
    pub fn payload_bytes(&self) -> Option<usize> {
        const CHECKSUM_BYTES: usize = 8;
        let codewords = self.voxels() / LdpcCode::CODEWORD_BITS.div_ceil(self.alphabet.bits_per_voxel() as usize);
        let exists = LdpcCode::PARITY_COLUMNS.contains(&self.parity_columns) && codewords > 0;
        exists.then(|| codewords * (LdpcCode::CODEWORD_BYTES / 80) * (80 - self.parity_columns) - CHECKSUM_BYTES)
    }

    /// Information that ratios must carry for the code of a sector to decode, in bits per bit: the
    /// rate, and 0.03 (at rate 0.8875) to 0.06 (at 0.75) more. Information beyond that is the
    /// sector's margin. The bound isn't sharp: near it, some sectors are lost and others aren't.
    pub fn needed_information(&self) -> f64 {
        let rate = 1.0 - self.parity_columns as f64 / LdpcCode::COLUMNS as f64;
        rate + 0.03 + (0.8875 - rate) * (0.06 - 0.03) / (0.8875 - 0.75)
    }

    /// The code of a sector.
    ///
    /// # Panics
    /// If the sector is smaller than a codeword, or there is no code of this rate.
    pub fn sector_code(&self) -> SectorCode {
        SectorCode::new(self.voxels(), self.alphabet.bits_per_voxel() as usize, self.parity_columns).expect("a sector holds a codeword")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_desk_sector_holds_a_sector_of_the_archive_and_its_label() {
        let medium = GlassMedium::desk();
        assert_eq!((medium.voxels(), medium.sector_code().codewords()), (20_480, 2));
        assert_eq!(medium.sector_code().payload_bytes(), 8_312);
    }

    #[test]
    fn there_is_glass_for_sectors_of_some_sizes() {
        for sector_bytes in [4_096, 8_192] {
            let medium = GlassMedium::for_sectors(sector_bytes).expect("glass");
            let payload = medium.sector_code().payload_bytes();
            assert_eq!(medium.payload_bytes(), Some(payload));
            assert!(payload >= sector_bytes as usize + 64);
        }
        assert_eq!(GlassMedium::for_sectors(65_536), None);
        assert_eq!(GlassMedium { parity_columns: 4, ..GlassMedium::desk() }.payload_bytes(), None);
        assert_eq!(GlassMedium { rows: 10, ..GlassMedium::desk() }.payload_bytes(), None);
    }
}
