//! Tracks: the smallest unit that a read drive fetches, and the smallest with its own code.
//!
//! ```text
//! [ s0 ][ s1 ] ...  I information sectors  ... [ s199 ][ r0 ] ... R redundancy sectors ... [ r15 ]     each: payload, label
//! ```
//!
//! Most sectors fail independently, so the good sectors of a track are usually enough to rebuild
//! the lost ones.

use fulgurite_codec::{AlignedBytes, CauchyCode};
use fulgurite_domain::{Geometry, PhysicalTrack, PlatterId, SectorAddress};

use crate::label;

/// Alignment of offset and memory for direct reads: the largest logical block in use.
const BLOCK_BYTES: usize = 4_096;

/// The bytes of one track as they are on the platter, and which of its sectors are lost.
pub struct Track {
    geometry: Geometry,
    /// Block-aligned, with room for the parts of the first and last block that belong to
    /// neighboring tracks.
    buffer: AlignedBytes,
    /// Offset of the track in `buffer`.
    start: usize,
    lost: Vec<bool>,
}

impl Track {
    /// Creates a track of zeros without lost sectors, for platters of this geometry.
    #[must_use]
    pub fn new(geometry: Geometry) -> Self {
        let room = geometry.track_stride().next_multiple_of(BLOCK_BYTES) + BLOCK_BYTES;
        let lost = vec![false; usize::from(geometry.track_sectors())];
        Self { geometry, buffer: AlignedBytes::zeroed(room, BLOCK_BYTES), start: 0, lost }
    }

    /// Memory that a track uses, in bytes.
    #[must_use]
    pub fn memory_bytes(geometry: Geometry) -> u64 {
        (geometry.track_stride() + 3 * BLOCK_BYTES) as u64 + u64::from(geometry.track_sectors())
    }

    /// The geometry that the track was created for.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Payload of a sector, information sectors first. Meaningless if [`is_lost`](Self::is_lost).
    #[must_use]
    pub fn payload(&self, sector: u16) -> &[u8] {
        &self.bytes()[usize::from(sector) * self.geometry.sector_stride()..][..self.geometry.sector_bytes as usize]
    }

    /// Payload of a sector, for writing.
    pub fn payload_mut(&mut self, sector: u16) -> &mut [u8] {
        let geometry = self.geometry;
        &mut self.bytes_mut()[usize::from(sector) * geometry.sector_stride()..][..geometry.sector_bytes as usize]
    }

    /// Payloads of the information sectors, in order.
    pub fn information(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.geometry.track_information).map(|sector| self.payload(sector))
    }

    /// Whether a sector is lost.
    #[must_use]
    pub fn is_lost(&self, sector: u16) -> bool {
        self.lost[usize::from(sector)]
    }

    /// Number of lost sectors, including redundancy sectors.
    #[must_use]
    pub fn lost_sectors(&self) -> usize {
        self.lost.iter().filter(|lost| **lost).count()
    }

    /// Whether any information sector is lost.
    #[must_use]
    pub fn misses_information(&self) -> bool {
        self.lost[..usize::from(self.geometry.track_information)].contains(&true)
    }

    /// Puts back a lost sector's payload, which a code has rebuilt. The label stays as it was read.
    pub fn restore(&mut self, sector: u16, payload: &[u8]) {
        self.payload_mut(sector).copy_from_slice(payload);
        self.lost[usize::from(sector)] = false;
    }

    /// Marks all sectors as lost, for a track of a missing platter.
    pub fn mark_all_lost(&mut self) {
        self.lost.fill(true);
    }

    /// Copies `bytes` into the information payloads, starting at byte `at` of the track's content.
    ///
    /// # Panics
    /// If they extend beyond the content: encoding would overwrite what is in redundancy sectors.
    pub fn put_content(&mut self, at: u64, mut bytes: &[u8]) {
        let mut at = at as usize;
        let sector_bytes = self.geometry.sector_bytes as usize;
        let content_bytes = usize::from(self.geometry.track_information) * sector_bytes;
        assert!(at + bytes.len() <= content_bytes, "{} bytes at {at} don't fit into {content_bytes}", bytes.len());
        while !bytes.is_empty() {
            let room = sector_bytes - at % sector_bytes;
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.payload_mut(u16::try_from(at / sector_bytes).expect("within the track"))[at % sector_bytes..][..now.len()]
                .copy_from_slice(now);
            at += now.len();
            bytes = later;
        }
    }

    /// The pieces of the track's content in `range`, in order: one per information sector touched.
    pub fn content(&self, range: std::ops::Range<u64>) -> impl Iterator<Item = &[u8]> {
        let sector_bytes = u64::from(self.geometry.sector_bytes);
        let sectors = range.start / sector_bytes..range.end.div_ceil(sector_bytes);
        sectors.map(move |sector| {
            let start = range.start.max(sector * sector_bytes) - sector * sector_bytes;
            let end = range.end.min((sector + 1) * sector_bytes) - sector * sector_bytes;
            &self.payload(sector as u16)[start as usize..end as usize]
        })
    }

    /// Zeroes the content from byte `at` on.
    pub fn zero_content_from(&mut self, at: u64) {
        let sector_bytes = u64::from(self.geometry.sector_bytes);
        for sector in at / sector_bytes..u64::from(self.geometry.track_information) {
            let start = at.saturating_sub(sector * sector_bytes).min(sector_bytes);
            self.payload_mut(sector as u16)[start as usize..].fill(0);
        }
    }

    /// Computes the redundancy sectors from the information sectors and labels all sectors.
    pub(crate) fn encode(&mut self, code: &CauchyCode, platter: PlatterId, track: PhysicalTrack) {
        let (stride, sector_bytes) = (self.geometry.sector_stride(), self.geometry.sector_bytes as usize);
        let information_bytes = usize::from(self.geometry.track_information) * stride;
        let (information, redundancy) = self.bytes_mut().split_at_mut(information_bytes);
        let information: Vec<&[u8]> = information.chunks_exact(stride).map(|sector| &sector[..sector_bytes]).collect();
        let mut redundancy: Vec<&mut [u8]> = redundancy.chunks_exact_mut(stride).map(|sector| &mut sector[..sector_bytes]).collect();
        if !redundancy.is_empty() {
            code.encode(&information, &mut redundancy);
        }
        for (sector, bytes) in self.bytes_mut().chunks_exact_mut(stride).enumerate() {
            label::seal(bytes, platter, SectorAddress { track, sector: sector as u16 });
        }
        self.lost.fill(false);
    }

    /// The whole track as it is on the platter.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.start + self.geometry.track_stride()]
    }

    /// The whole track, for writing.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        let stride = self.geometry.track_stride();
        &mut self.buffer[self.start..self.start + stride]
    }

    /// The blocks that contain the track if it starts at byte `offset` of a platter, for reading
    /// into. Returns the offset of the first block, the number of bytes in it before the track, and
    /// the blocks.
    pub(crate) fn blocks_mut(&mut self, offset: u64) -> (u64, usize, &mut [u8]) {
        self.start = (offset % BLOCK_BYTES as u64) as usize;
        let end = (self.start + self.geometry.track_stride()).next_multiple_of(BLOCK_BYTES);
        (offset - self.start as u64, self.start, &mut self.buffer[..end])
    }

    /// Checks the labels of a track that was just read and marks lost sectors.
    pub(crate) fn check(&mut self, platter: PlatterId, track: PhysicalTrack) {
        let stride = self.geometry.sector_stride();
        let bytes = &self.buffer[self.start..self.start + self.geometry.track_stride()];
        for (sector, (bytes, lost)) in bytes.chunks_exact(stride).zip(&mut self.lost).enumerate() {
            *lost = !label::is_good(bytes, platter, SectorAddress { track, sector: sector as u16 });
        }
    }

    /// Rebuilds lost information sectors with the track's own code. Returns true if no information
    /// sector is lost afterwards.
    pub(crate) fn repair(&mut self, code: &CauchyCode) -> bool {
        if !self.misses_information() {
            return true;
        }
        let lost: Vec<usize> = (0..self.lost.len()).filter(|&sector| self.lost[sector]).collect();
        let wanted: Vec<usize> = lost.iter().copied().filter(|&sector| sector < usize::from(self.geometry.track_information)).collect();
        let Ok(plan) = code.plan_wanted(&lost, &wanted) else { return false };
        let mut rebuilt = vec![vec![0; self.geometry.sector_bytes as usize]; wanted.len()];
        {
            let sources: Vec<&[u8]> = plan.sources().iter().map(|&sector| self.payload(sector as u16)).collect();
            let mut out: Vec<&mut [u8]> = rebuilt.iter_mut().map(Vec::as_mut_slice).collect();
            plan.run(&sources, &mut out);
        }
        for (sector, payload) in wanted.into_iter().zip(rebuilt) {
            self.restore(sector as u16, &payload);
        }
        true
    }
}
