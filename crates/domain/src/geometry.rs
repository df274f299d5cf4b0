//! Platter geometry: how sectors form tracks and tracks form large groups, and the offset of each
//! in the platter's bytes. On the disk medium these bytes are the file; on glass they are what
//! reading the symbols gives.
//!
//! ```text
//! header | group 0: I tracks, R tracks | group 1 ... | header | ... | header
//! track  = [ information sectors ][ redundancy sectors ]
//! sector = [ payload ][ label ]
//! ```
//!
//! The arithmetic is specified in `docs/format.md`, "Tracks and groups" and "Where things lie".

use crate::{PhysicalTrack, SectorAddress, TrackIndex};

/// Bytes of the label after each payload.
pub const LABEL_BYTES: usize = 64;
/// The smallest payload.
pub const SECTOR_BYTES_MIN: u32 = 1_024;
/// The largest payload.
pub const SECTOR_BYTES_MAX: u32 = 65_536;

/// Most sectors of a track, which the track code numbers with one byte: see `docs/format.md`.
const TRACK_SECTORS_MAX: u16 = 255;
/// Most symbols of a pooled code, with its redundancy rounded up to a power of two.
const POOLED_SYMBOLS_MAX: u64 = 65_536;
/// Physical tracks of a platter stay below this number.
const PHYSICAL_TRACKS_END: u64 = 1 << 31;

/// Geometry of a platter. All platters of a set share it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Geometry {
    /// Payload of a sector in bytes: a power of two, [`SECTOR_BYTES_MIN`] to [`SECTOR_BYTES_MAX`].
    pub sector_bytes: u32,
    /// Information sectors of a track.
    pub track_information: u16,
    /// Redundancy sectors of a track.
    pub track_redundancy: u16,
    /// Information tracks of a full large group.
    pub group_information: u16,
    /// Redundancy tracks of a full large group.
    pub group_redundancy: u16,
    /// Information tracks of the platter.
    pub information_tracks: u32,
}

/// Why a geometry is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each message says what happened, with its fields")]
pub enum GeometryError {
    #[error("invalid sector size of {found} bytes: must be a power of two from {SECTOR_BYTES_MIN} to {SECTOR_BYTES_MAX}")]
    SectorBytes { found: u32 },
    /// The track code supports at most 255 sectors and needs an information sector.
    #[error("invalid tracks of {information}+{redundancy} sectors: at least 1 information sector and at most 255 sectors in all")]
    Track { information: u16, redundancy: u16 },
    /// The pooled code supports at most 65,536 symbols, where redundancy counts as rounded up to a
    /// power of two.
    #[error("large groups of {information}+{redundancy} tracks of {track_information} sectors exceed the limit of the pooled code")]
    Group { information: u16, redundancy: u16, track_information: u16 },
    #[error("invalid number of {found} information tracks: at least 1, and fewer than 2^31 tracks including redundancy")]
    Tracks { found: u32 },
}

/// One large group of a platter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group {
    /// Its first information track.
    pub first: TrackIndex,
    /// Its information tracks; the last group may have fewer.
    pub information: u32,
    /// Its redundancy tracks.
    pub redundancy: u32,
    /// Physical index of its first information track; its redundancy tracks follow its information
    /// tracks.
    pub physical: PhysicalTrack,
}

impl Group {
    /// The physical indices of its information tracks.
    pub fn information_tracks(self) -> impl ExactSizeIterator<Item = PhysicalTrack> {
        (self.physical.0..self.physical.0 + self.information).map(PhysicalTrack)
    }

    /// The physical indices of its redundancy tracks.
    pub fn redundancy_tracks(self) -> impl ExactSizeIterator<Item = PhysicalTrack> {
        let first = self.physical.0 + self.information;
        (first..first + self.redundancy).map(PhysicalTrack)
    }
}

impl Geometry {
    /// Bytes of one copy of the header.
    pub const HEADER_BYTES: u64 = 16_384;

    /// Checks the numbers, which may come from a file.
    ///
    /// # Errors
    /// [`GeometryError`] names the number that is out of range.
    pub fn check(self) -> Result<Self, GeometryError> {
        if !self.sector_bytes.is_power_of_two() || !(SECTOR_BYTES_MIN..=SECTOR_BYTES_MAX).contains(&self.sector_bytes) {
            return Err(GeometryError::SectorBytes { found: self.sector_bytes });
        }
        let (information, redundancy) = (self.track_information, self.track_redundancy);
        // `min` keeps the sum from overflowing.
        if !(1..=TRACK_SECTORS_MAX).contains(&information) || information + redundancy.min(TRACK_SECTORS_MAX) > TRACK_SECTORS_MAX {
            return Err(GeometryError::Track { information, redundancy });
        }
        let symbols = |tracks: u16| u64::from(tracks) * u64::from(information);
        let pooled_symbols = symbols(self.group_information) + symbols(self.group_redundancy).next_power_of_two();
        if self.group_information == 0 || pooled_symbols > POOLED_SYMBOLS_MAX {
            return Err(GeometryError::Group {
                information: self.group_information,
                redundancy: self.group_redundancy,
                track_information: information,
            });
        }
        let full = u64::from(self.group_information);
        let groups = u64::from(self.information_tracks).div_ceil(full);
        let physical = groups * (full + u64::from(self.group_redundancy));
        if self.information_tracks == 0 || physical >= PHYSICAL_TRACKS_END {
            return Err(GeometryError::Tracks { found: self.information_tracks });
        }
        Ok(self)
    }

    /// Sectors of a track, both information and redundancy.
    #[must_use]
    pub fn track_sectors(self) -> u16 {
        self.track_information + self.track_redundancy
    }

    /// Bytes of a sector: payload plus label.
    #[must_use]
    pub fn sector_stride(self) -> usize {
        self.sector_bytes as usize + LABEL_BYTES
    }

    /// Bytes of a track with its labels.
    #[must_use]
    pub fn track_stride(self) -> usize {
        usize::from(self.track_sectors()) * self.sector_stride()
    }

    /// Information bytes of a track.
    #[must_use]
    pub fn track_bytes(self) -> u64 {
        u64::from(self.track_information) * u64::from(self.sector_bytes)
    }

    /// Information bytes of the platter.
    #[must_use]
    pub fn content_bytes(self) -> u64 {
        u64::from(self.information_tracks) * self.track_bytes()
    }

    /// Number of large groups.
    #[must_use]
    pub fn groups(self) -> u32 {
        self.information_tracks.div_ceil(u32::from(self.group_information))
    }

    /// The large group with this index.
    ///
    /// # Panics
    /// If the platter has no such group.
    #[must_use]
    pub fn group(self, index: u32) -> Group {
        assert!(index < self.groups(), "group {index} is out of range: the platter has {} groups", self.groups());
        let full = u32::from(self.group_information);
        let first = index * full;
        let information = full.min(self.information_tracks - first);
        Group {
            first: TrackIndex(first),
            information,
            redundancy: (information * u32::from(self.group_redundancy)).div_ceil(full),
            physical: PhysicalTrack(index * (full + u32::from(self.group_redundancy))),
        }
    }

    /// The large group of an information track.
    #[must_use]
    pub fn group_of(self, track: TrackIndex) -> Group {
        self.group(track.0 / u32::from(self.group_information))
    }

    /// The physical index of an information track.
    #[must_use]
    pub fn physical(self, track: TrackIndex) -> PhysicalTrack {
        let group = self.group_of(track);
        PhysicalTrack(group.physical.0 + (track.0 - group.first.0))
    }

    /// Tracks of the platter, including group redundancy.
    #[must_use]
    pub fn physical_tracks(self) -> u32 {
        let last = self.group(self.groups() - 1);
        last.physical.0 + last.information + last.redundancy
    }

    /// Offset of a track in the platter's bytes.
    #[must_use]
    pub fn track_offset(self, track: PhysicalTrack) -> u64 {
        let headers = if track.0 < self.middle() { 1 } else { 2 };
        headers * Self::HEADER_BYTES + u64::from(track.0) * self.track_stride() as u64
    }

    /// Offset of a sector in the platter's bytes.
    #[must_use]
    pub fn sector_offset(self, at: SectorAddress) -> u64 {
        self.track_offset(at.track) + u64::from(at.sector) * self.sector_stride() as u64
    }

    /// Offsets of the three header copies in the platter's bytes.
    #[must_use]
    pub fn header_offsets(self) -> [u64; 3] {
        let tracks = |count: u32| u64::from(count) * self.track_stride() as u64;
        [0, Self::HEADER_BYTES + tracks(self.middle()), 2 * Self::HEADER_BYTES + tracks(self.physical_tracks())]
    }

    /// All bytes of the platter: on the disk medium, the length of its file.
    #[must_use]
    pub fn file_bytes(self) -> u64 {
        self.header_offsets()[2] + Self::HEADER_BYTES
    }

    /// The physical track before which the second header copy is stored.
    #[must_use]
    pub fn middle(self) -> u32 {
        self.physical_tracks().div_ceil(2)
    }

    /// The information track of a content byte, its sector in the track, and its offset in the
    /// sector.
    #[must_use]
    pub fn locate(self, content_offset: u64) -> (TrackIndex, u16, u32) {
        let track = content_offset / self.track_bytes();
        let within = content_offset % self.track_bytes();
        let sector_bytes = u64::from(self.sector_bytes);
        (TrackIndex(track as u32), (within / sector_bytes) as u16, (within % sector_bytes) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn desk(information_tracks: u32) -> Geometry {
        Geometry {
            sector_bytes: 1_024,
            track_information: 6,
            track_redundancy: 3,
            group_information: 4,
            group_redundancy: 2,
            information_tracks,
        }
    }

    #[test]
    fn tracks_and_headers_tile_the_file_without_gap_or_overlap() {
        for tracks in 1..=14 {
            let geometry = desk(tracks).check().expect("in range");
            let mut pieces: Vec<(u64, u64)> = geometry.header_offsets().map(|at| (at, Geometry::HEADER_BYTES)).to_vec();
            for track in 0..geometry.physical_tracks() {
                pieces.push((geometry.track_offset(PhysicalTrack(track)), geometry.track_stride() as u64));
            }
            pieces.sort_unstable();
            let mut end = 0;
            for (at, bytes) in pieces {
                assert_eq!(at, end, "{tracks} tracks");
                end = at + bytes;
            }
            assert_eq!(end, geometry.file_bytes());
        }
    }

    #[test]
    fn every_physical_track_belongs_to_exactly_one_group() {
        let geometry = desk(11);
        let mut seen = Vec::new();
        for index in 0..geometry.groups() {
            let group = geometry.group(index);
            for (i, physical) in group.information_tracks().enumerate() {
                assert_eq!(geometry.physical(TrackIndex(group.first.0 + i as u32)), physical);
                seen.push(physical.0);
            }
            seen.extend(group.redundancy_tracks().map(|track| track.0));
        }
        assert_eq!(seen, (0..geometry.physical_tracks()).collect::<Vec<_>>());
    }

    #[test]
    fn a_partial_group_has_its_share_of_redundancy_and_at_least_one_track() {
        let redundancy = |tracks| desk(tracks).group(0).redundancy;
        assert_eq!([redundancy(1), redundancy(2), redundancy(3), redundancy(4)], [1, 1, 2, 2]);
    }

    #[test]
    fn out_of_range_numbers_are_rejected() {
        let good = desk(1);
        assert!(good.check().is_ok());
        for bad in [
            Geometry { sector_bytes: 1_000, ..good },
            Geometry { sector_bytes: 512, ..good },
            Geometry { sector_bytes: 131_072, ..good },
            Geometry { track_information: 0, ..good },
            Geometry { track_redundancy: 250, ..good },
            Geometry { track_redundancy: u16::MAX, ..good },
            Geometry { group_information: 0, ..good },
            Geometry { group_information: 20_000, ..good },
            Geometry { group_redundancy: u16::MAX, ..good },
            Geometry { information_tracks: 0, ..good },
            Geometry { information_tracks: u32::MAX, ..good },
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_content_byte_is_located_in_its_sector() {
        let geometry = desk(3);
        assert_eq!(geometry.locate(0), (TrackIndex(0), 0, 0));
        assert_eq!(geometry.locate(6 * 1_024 + 1_025), (TrackIndex(1), 1, 1));
    }
}
