//! Where the bytes of a platter are in its glass: which sectors hold the headers, which the tracks.
//!
//! ```text
//! bytes     H | sectors of tracks 0..M         | H | sectors of tracks M..P         | H
//! sectors   h | M times the sectors of a track | h | P - M times ...                | h
//! ```
//!
//! `H` is a copy of the header, which takes `h` sectors, `P` the number of physical tracks, and `M`
//! half of it, rounded up.

use std::ops::Range;

use fulgurite_domain::{Geometry, LABEL_BYTES};

use super::header_coding;

/// How the sectors of a platter are arranged. Sectors are numbered front to back, those of headers
/// included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    /// Bytes that a sector holds for the archive: payload and label.
    pub(super) stride: u64,
    pub(super) header_sectors: u32,
    pub(super) track_sectors: u32,
    pub(super) tracks: u32,
}

/// A unit of the platter's bytes: one copy of the header, or one sector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unit {
    pub(super) kind: UnitKind,
    /// Where its bytes begin.
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnitKind {
    /// A copy of the header, 0 to 2.
    Header(usize),
    /// The sector with this number.
    Sector(u32),
}

const HEADER_BYTES: u64 = Geometry::HEADER_BYTES;

impl Layout {
    /// `None` if there are more sectors than numbers for them, or no tracks.
    pub(super) fn new(sector_bytes: u32, voxels: usize, track_sectors: u32, tracks: u32) -> Option<Self> {
        let layout = Self {
            stride: u64::from(sector_bytes) + LABEL_BYTES as u64,
            header_sectors: header_coding::sectors(voxels),
            track_sectors,
            tracks,
        };
        let sectors = 3 * u64::from(layout.header_sectors) + u64::from(tracks) * u64::from(track_sectors);
        (track_sectors > 0 && tracks > 0 && sectors <= u64::from(u32::MAX)).then_some(layout)
    }

    fn middle(&self) -> u32 {
        self.tracks.div_ceil(2)
    }

    /// Sectors of the tracks before the middle copy of the header.
    fn first_half(&self) -> u64 {
        u64::from(self.middle()) * u64::from(self.track_sectors)
    }

    fn all_sectors_of_tracks(&self) -> u64 {
        u64::from(self.tracks) * u64::from(self.track_sectors)
    }

    /// Sectors of the platter, those of headers included.
    pub(super) fn sectors(&self) -> u32 {
        (3 * u64::from(self.header_sectors) + self.all_sectors_of_tracks()) as u32
    }

    /// Bytes that the platter holds for the archive.
    pub(super) fn bytes(&self) -> u64 {
        3 * HEADER_BYTES + self.all_sectors_of_tracks() * self.stride
    }

    /// The unit that contains a byte; `None` past the end.
    pub(super) fn unit_at(&self, offset: u64) -> Option<Unit> {
        let half = self.first_half();
        let middle = HEADER_BYTES + half * self.stride;
        let last = 2 * HEADER_BYTES + self.all_sectors_of_tracks() * self.stride;
        let sector = |offset: u64, headers: u64| {
            let index = (offset - headers * HEADER_BYTES) / self.stride;
            let number = headers * u64::from(self.header_sectors) + index;
            Unit { kind: UnitKind::Sector(number as u32), offset: headers * HEADER_BYTES + index * self.stride, bytes: self.stride }
        };
        let header = |copy, offset| Unit { kind: UnitKind::Header(copy), offset, bytes: HEADER_BYTES };
        Some(match offset {
            _ if offset < HEADER_BYTES => header(0, 0),
            _ if offset < middle => sector(offset, 1),
            _ if offset < middle + HEADER_BYTES => header(1, middle),
            _ if offset < last => sector(offset, 2),
            _ if offset < last + HEADER_BYTES => header(2, last),
            _ => return None,
        })
    }

    /// The sectors of a track; `None` if the platter has no such track.
    pub(super) fn track(&self, track: u32) -> Option<Range<u32>> {
        let headers = if track < self.middle() { 1 } else { 2 };
        let first = headers * self.header_sectors + track.checked_mul(self.track_sectors)?;
        (track < self.tracks).then(|| first..first + self.track_sectors)
    }

    /// The sectors of a copy of the header.
    pub(super) fn header(&self, copy: usize) -> Range<u32> {
        let tracks = [0, self.first_half(), self.all_sectors_of_tracks()][copy];
        let first = (copy as u64 * u64::from(self.header_sectors) + tracks) as u32;
        first..first + self.header_sectors
    }

    /// The stack of layers that contains `sector`: its track, or its copy of the header.
    pub(super) fn stack(&self, sector: u32) -> Range<u32> {
        for copy in 0..3 {
            let header = self.header(copy);
            if header.contains(&sector) {
                return header;
            }
            if sector < header.start {
                let first = header.start - (header.start - sector).div_ceil(self.track_sectors) * self.track_sectors;
                return first..first + self.track_sectors;
            }
        }
        sector..sector + 1
    }

    /// Bytes that can be read from the first `sectors` sectors: up to the first unit that isn't
    /// completely within them.
    pub(super) fn bytes_of_first(&self, sectors: u32) -> u64 {
        let mut bytes = 0;
        for copy in 0..3 {
            let header = self.header(copy);
            if sectors < header.end {
                let before = if copy == 0 { 0 } else { self.header(copy - 1).end };
                return bytes + u64::from(sectors.min(header.start) - before) * self.stride;
            }
            let before = if copy == 0 { 0 } else { self.header(copy - 1).end };
            bytes += u64::from(header.start - before) * self.stride + HEADER_BYTES;
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A platter as the archive lays it out, of `tracks` information tracks.
    fn geometry(tracks: u32) -> Geometry {
        Geometry {
            sector_bytes: 1_024,
            track_information: 3,
            track_redundancy: 2,
            group_information: 4,
            group_redundancy: 1,
            information_tracks: tracks,
        }
    }

    #[test]
    fn units_are_where_the_archive_puts_headers_and_sectors() {
        for tracks in 1..12 {
            let geometry = geometry(tracks);
            let layout = Layout::new(1_024, 10_240, 5, geometry.physical_tracks()).expect("few sectors");
            assert_eq!(layout.bytes(), geometry.file_bytes());
            for (copy, offset) in geometry.header_offsets().into_iter().enumerate() {
                let header = Unit { kind: UnitKind::Header(copy), offset, bytes: HEADER_BYTES };
                assert_eq!(layout.unit_at(offset), Some(header));
                assert_eq!(layout.unit_at(offset + HEADER_BYTES - 1), Some(header));
            }
            for track in 0..geometry.physical_tracks() {
                for sector in 0..5 {
                    let at = fulgurite_domain::SectorAddress { track: fulgurite_domain::PhysicalTrack(track), sector };
                    let offset = geometry.sector_offset(at);
                    let unit = layout.unit_at(offset + 500).expect("within");
                    assert_eq!((unit.offset, unit.bytes), (offset, layout.stride));
                    let UnitKind::Sector(number) = unit.kind else { panic!("{unit:?}") };
                    let stack = layout.stack(number);
                    assert_eq!((stack.len(), number - stack.start), (5, sector.into()));
                    assert_eq!(layout.track(track), Some(stack));
                    assert_eq!(layout.bytes_of_first(number), offset);
                }
            }
            assert_eq!(layout.unit_at(layout.bytes()), None);
            assert_eq!((layout.track(layout.tracks), layout.track(u32::MAX)), (None, None));
        }
    }

    #[test]
    fn all_sectors_have_a_number_and_a_stack() {
        let layout = Layout::new(1_024, 10_240, 5, 7).expect("few sectors");
        let mut stacks: Vec<Range<u32>> = (0..layout.sectors()).map(|sector| layout.stack(sector)).collect();
        assert!((0..layout.sectors()).all(|sector| stacks[sector as usize].contains(&sector)));
        stacks.dedup();
        assert_eq!(stacks.len(), 3 + 7);
        assert!(stacks.windows(2).all(|pair| pair[0].end == pair[1].start));
        assert_eq!(stacks.last().expect("some").end, layout.sectors());
        assert_eq!(layout.bytes_of_first(layout.sectors()), layout.bytes());
        assert_eq!(layout.bytes_of_first(layout.sectors() - 1), layout.bytes() - HEADER_BYTES);
        assert_eq!(layout.bytes_of_first(0), 0);
        assert_eq!(Layout::new(1_024, 10_240, 255, u32::MAX), None);
    }
}
