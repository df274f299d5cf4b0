//! The head of a glass platter's file: what the emulated glass is, at the start of the file and
//! again at its end.

use std::ops::Range;

use fulgurite_codec::checksum::crc64;
use fulgurite_domain::{Geometry, LABEL_BYTES, PlatterId, SECTOR_BYTES_MAX, SECTOR_BYTES_MIN, SectorAddress};

use super::layout::Layout;
use super::{header_coding, packing};
use crate::GlassMedium;
use crate::emulator::WriteEffects;
use crate::voxel::Alphabet;

const MAGIC: &[u8; 8] = b"FULGGLAS";
const VERSION: u32 = 1;
const CRC_AT: usize = GlassHead::BYTES - 8;
/// The largest sector that is read, in voxels: that of the full-size medium. A forged head must not
/// exhaust memory.
const VOXELS_MAX: u64 = 256_000;
/// Offsets of fields.
const RETARDANCES_AT: usize = 64;
const CODING_AT: usize = 96;
const SEED_AT: usize = 112;
const EFFECTS_AT: usize = 120;

/// What the glass of a platter is, and how its sectors are arranged.
#[derive(Debug, Clone, PartialEq)]
pub struct GlassHead {
    /// The platter.
    pub platter: PlatterId,
    /// Shape, alphabet and code of its sectors. The settings of the microscope and its camera
    /// aren't in the file: they are those of [`GlassMedium::desk`].
    pub medium: GlassMedium,
    /// Payload of a sector of the archive, in bytes.
    pub sector_bytes: u32,
    /// Sectors of a track.
    pub track_sectors: u32,
    /// Tracks, those of group redundancy included.
    pub tracks: u32,
    /// Seed of the permanent deviations of its voxels.
    pub seed: u64,
    /// Strengths of these deviations.
    pub effects: WriteEffects,
}

/// Why a block is not a head that this program can read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GlassHeadError {
    /// No glass is defined for sectors of this payload, in bytes.
    #[error("there is no glass for sectors of {0} bytes: use 4096 or 8192")]
    NoGlass(u32),
    /// The block doesn't start with the magic.
    #[error("this is not the head of a glass platter")]
    NotGlass,
    /// Written by a later version of the format.
    #[error("the glass platter has version {0}, this program reads up to {VERSION}: use a newer program")]
    Newer(u32),
    /// The block has changed since it was written.
    #[error("the head of the glass platter is damaged: its checksum is wrong")]
    Checksum,
    /// The checksum is right, but the head describes no glass that can be read.
    #[error("the head of the glass platter has {0}: it was written by a faulty program")]
    Malformed(&'static str),
}

impl GlassHead {
    /// Bytes of a head.
    pub const BYTES: usize = 4_096;

    /// The head of a platter with this geometry, on glass for sectors of its size.
    ///
    /// # Errors
    /// [`GlassHeadError::NoGlass`] if there is no glass for such sectors,
    /// [`GlassHeadError::Malformed`] if there are too many of them, or an effect is too strong.
    pub fn new(platter: PlatterId, geometry: Geometry, seed: u64, effects: WriteEffects) -> Result<Self, GlassHeadError> {
        let medium = GlassMedium::for_sectors(geometry.sector_bytes).ok_or(GlassHeadError::NoGlass(geometry.sector_bytes))?;
        let (track_sectors, tracks) = (geometry.track_sectors().into(), geometry.physical_tracks());
        let head = Self { platter, medium, sector_bytes: geometry.sector_bytes, track_sectors, tracks, seed, effects };
        head.check()?;
        Ok(head)
    }

    /// Length of a glass platter's file for a geometry; `None` if there is no glass for such
    /// sectors, or there are too many of them.
    pub fn file_bytes_of(geometry: Geometry) -> Option<u64> {
        let head = Self::new(PlatterId([0; 16]), geometry, 0, crate::emulator::Effects::NONE.write).ok()?;
        Some(head.file_bytes())
    }

    /// Length of the file.
    pub fn file_bytes(&self) -> u64 {
        2 * Self::BYTES as u64 + u64::from(self.layout().sectors()) * self.packed_bytes() as u64
    }

    /// Where the file has the symbols of a sector of a track; `None` if the platter has no such
    /// sector.
    pub fn sector_in_file(&self, SectorAddress { track, sector }: SectorAddress) -> Option<Range<u64>> {
        let mut sectors = self.layout().track(track.0)?;
        sectors.nth(sector.into()).map(|number| self.in_file(number..number + 1))
    }

    /// Where the file has the symbols of a copy of the header, 0 to 2.
    ///
    /// # Panics
    /// If there is no such copy.
    pub fn header_in_file(&self, copy: usize) -> Range<u64> {
        self.in_file(self.layout().header(copy))
    }

    fn in_file(&self, sectors: Range<u32>) -> Range<u64> {
        let start = |sector: u32| Self::BYTES as u64 + u64::from(sector) * self.packed_bytes() as u64;
        start(sectors.start)..start(sectors.end)
    }

    /// Bytes that the platter holds for the archive.
    pub fn content_bytes(&self) -> u64 {
        self.layout().bytes()
    }

    /// Bytes of a sector's symbols in the file.
    pub(super) fn packed_bytes(&self) -> usize {
        packing::packed_bytes(self.medium.voxels(), self.medium.alphabet.bits_per_voxel())
    }

    pub(super) fn layout(&self) -> Layout {
        Layout::new(self.sector_bytes, self.medium.voxels(), self.track_sectors, self.tracks).expect("the head was checked")
    }

    /// The address of a sector, for its code.
    pub(super) fn address(&self, sector: u32) -> [u8; 20] {
        let mut address = [0; 20];
        address[..16].copy_from_slice(&self.platter.0);
        address[16..].copy_from_slice(&sector.to_le_bytes());
        address
    }

    /// Encodes the head as a block of [`BYTES`](Self::BYTES).
    pub fn to_block(&self) -> Vec<u8> {
        let GlassMedium { rows, columns, alphabet, parity_columns, .. } = &self.medium;
        let mut block = vec![0; Self::BYTES];
        block[..8].copy_from_slice(MAGIC);
        block[16..32].copy_from_slice(&self.platter.0);
        let levels = alphabet.retardance_levels();
        let numbers = [
            (8, VERSION),
            (32, *rows as u32),
            (36, *columns as u32),
            (40, levels.into()),
            (44, *parity_columns as u32),
            (48, self.sector_bytes),
            (52, self.track_sectors),
            (56, self.tracks),
        ];
        for (at, number) in numbers {
            block[at..at + 4].copy_from_slice(&number.to_le_bytes());
        }
        for (level, at) in (0..levels).zip((RETARDANCES_AT..).step_by(8)) {
            let retardance = alphabet.retardance(level).expect("a level");
            block[at..at + 8].copy_from_slice(&retardance.to_le_bytes());
        }
        block[CODING_AT..CODING_AT + 16].copy_from_slice(header_coding::NAME);
        block[SEED_AT..SEED_AT + 8].copy_from_slice(&self.seed.to_le_bytes());
        let WriteEffects { azimuth_jitter, retardance_jitter, position_jitter, dropouts, particles, particle_radius, energy_drift } =
            self.effects;
        let effects = [azimuth_jitter, retardance_jitter, position_jitter, dropouts, particles, particle_radius, energy_drift];
        for (effect, at) in effects.into_iter().zip((EFFECTS_AT..).step_by(8)) {
            block[at..at + 8].copy_from_slice(&effect.to_le_bytes());
        }
        let checksum = crc64(&block[..CRC_AT]);
        block[CRC_AT..].copy_from_slice(&checksum.to_le_bytes());
        block
    }

    /// Decodes a block.
    ///
    /// # Errors
    /// [`GlassHeadError`] distinguishes other files, later versions, damage and malformed heads.
    pub fn from_block(block: &[u8]) -> Result<Self, GlassHeadError> {
        if block.len() != Self::BYTES || !block.starts_with(MAGIC) {
            return Err(GlassHeadError::NotGlass);
        }
        let number = |at: usize| u32::from_le_bytes(block[at..at + 4].try_into().expect("four bytes"));
        let float = |at: usize| f64::from_le_bytes(block[at..at + 8].try_into().expect("eight bytes"));
        let version = number(8);
        // The checksum has the same place in all versions, so damage is never taken for a version.
        if crc64(&block[..CRC_AT]).to_le_bytes() != block[CRC_AT..] {
            return Err(GlassHeadError::Checksum);
        }
        if version > VERSION {
            return Err(GlassHeadError::Newer(version));
        }
        if &block[CODING_AT..CODING_AT + 16] != header_coding::NAME {
            return Err(GlassHeadError::Malformed("an unknown coding of headers"));
        }
        let levels = number(40);
        if version == 0 || levels > 4 {
            return Err(GlassHeadError::Malformed("version 0, or too many retardances"));
        }
        let retardances = (0..levels as usize).map(|level| float(RETARDANCES_AT + 8 * level)).collect();
        let alphabet = Alphabet::new(retardances).ok_or(GlassHeadError::Malformed("impossible retardances"))?;
        let effect = |index: usize| float(EFFECTS_AT + 8 * index);
        let head = Self {
            platter: PlatterId(block[16..32].try_into().expect("sixteen bytes")),
            medium: GlassMedium {
                rows: number(32) as usize,
                columns: number(36) as usize,
                alphabet,
                parity_columns: number(44) as usize,
                ..GlassMedium::desk()
            },
            sector_bytes: number(48),
            track_sectors: number(52),
            tracks: number(56),
            seed: u64::from_le_bytes(block[SEED_AT..SEED_AT + 8].try_into().expect("eight bytes")),
            effects: WriteEffects {
                azimuth_jitter: effect(0),
                retardance_jitter: effect(1),
                position_jitter: effect(2),
                dropouts: effect(3),
                particles: effect(4),
                particle_radius: effect(5),
                energy_drift: effect(6),
            },
        };
        head.check()?;
        Ok(head)
    }

    fn check(&self) -> Result<(), GlassHeadError> {
        let GlassMedium { rows, columns, .. } = &self.medium;
        if *rows == 0 || *columns == 0 || *rows as u64 * *columns as u64 > VOXELS_MAX {
            return Err(GlassHeadError::Malformed("sectors of an impossible shape"));
        }
        let payload_bytes = self.medium.payload_bytes().ok_or(GlassHeadError::Malformed("a code that doesn't exist"))?;
        if !self.sector_bytes.is_power_of_two()
            || !(SECTOR_BYTES_MIN..=SECTOR_BYTES_MAX).contains(&self.sector_bytes)
            || payload_bytes < self.sector_bytes as usize + LABEL_BYTES
        {
            return Err(GlassHeadError::Malformed("sectors that its glass can't hold"));
        }
        // The code of tracks has at most 255 sectors.
        if self.track_sectors > 255 || Layout::new(self.sector_bytes, self.medium.voxels(), self.track_sectors, self.tracks).is_none() {
            return Err(GlassHeadError::Malformed("an impossible number of sectors"));
        }
        let WriteEffects { azimuth_jitter, retardance_jitter, position_jitter, dropouts, particles, particle_radius, energy_drift } =
            self.effects;
        // Stronger effects would leave nothing to read, and many particles take long to draw.
        let limits = [
            (azimuth_jitter, 1.0),
            (retardance_jitter, 1.0),
            (position_jitter, 1.0),
            (dropouts, 1.0),
            (particles, 20.0),
            (particle_radius, 1_000.0),
            (energy_drift, 1.0),
        ];
        match limits.into_iter().all(|(strength, most)| (0.0..=most).contains(&strength)) {
            true => Ok(()),
            false => Err(GlassHeadError::Malformed("an impossible effect of writing")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulator::Preset;

    fn head() -> GlassHead {
        let geometry = Geometry {
            sector_bytes: 8_192,
            track_information: 40,
            track_redundancy: 8,
            group_information: 20,
            group_redundancy: 2,
            information_tracks: 25,
        };
        GlassHead::new(PlatterId([7; 16]), geometry, 0x1234, Preset::Nominal.effects().write).expect("glass for such sectors")
    }

    #[test]
    fn a_head_reads_back_and_any_changed_byte_is_detected() {
        let head = head();
        let block = head.to_block();
        assert_eq!(GlassHead::from_block(&block), Ok(head.clone()));
        assert_eq!(head.tracks, 25 + 2 + 1);
        assert_eq!(head.file_bytes(), 8_192 + (28 * 48 + 3 * 13) * 10_240);
        for at in 0..block.len() {
            let mut changed = block.clone();
            changed[at] ^= 0x10;
            assert!(GlassHead::from_block(&changed).is_err(), "byte {at}");
        }
        assert_eq!(GlassHead::from_block(&[]), Err(GlassHeadError::NotGlass));
        assert_eq!(GlassHead::from_block(&vec![0; 4_096]), Err(GlassHeadError::NotGlass));
    }

    #[test]
    fn impossible_heads_are_refused() {
        let block = head().to_block();
        let changed = |at: usize, bytes: &[u8]| {
            let mut block = block.clone();
            block[at..at + bytes.len()].copy_from_slice(bytes);
            let checksum = crc64(&block[..CRC_AT]);
            block[CRC_AT..].copy_from_slice(&checksum.to_le_bytes());
            GlassHead::from_block(&block).expect_err("refused").to_string()
        };
        for (at, bytes, says) in [
            (8, &0u32.to_le_bytes()[..], "version 0"),
            (8, &2u32.to_le_bytes(), "version 2"),
            (32, &0u32.to_le_bytes(), "shape"),
            (36, &u32::MAX.to_le_bytes(), "shape"),
            (32, &64u32.to_le_bytes(), "can't hold"),
            (40, &3u32.to_le_bytes(), "retardances"),
            (40, &5u32.to_le_bytes(), "retardances"),
            (44, &99u32.to_le_bytes(), "code"),
            (48, &8_191u32.to_le_bytes(), "can't hold"),
            (52, &0u32.to_le_bytes(), "number of sectors"),
            (56, &u32::MAX.to_le_bytes(), "number of sectors"),
            (64, &f64::NAN.to_le_bytes(), "retardances"),
            (96, b"another coding", "coding of headers"),
            (152, &1e300f64.to_le_bytes(), "effect"),
            (120, &(-1.0f64).to_le_bytes(), "effect"),
        ] {
            let refused = changed(at, bytes);
            assert!(refused.contains(says), "{at}: {refused}");
        }
    }
}
