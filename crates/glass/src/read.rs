//! The read drive: fetches sectors and tracks of a written platter, without ever changing it.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use fulgurite_codec::CauchyCode;
use fulgurite_domain::{Geometry, PhysicalTrack, PlatterId, SectorAddress};

use crate::write::track_code;
use crate::{Track, label};

/// Source of a platter's bytes.
pub trait PlatterSource: Send + Sync {
    /// Reads up to `buffer.len()` bytes at `offset` and returns how many; fewer than requested are
    /// allowed, 0 only at the end.
    ///
    /// # Errors
    /// Errors of the medium; the read drive treats them as lost sectors.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Fills the buffer with bytes at `offset` that are in memory. Returns `false`, without having
    /// waited for the medium, if they are not, or if the source can't tell.
    fn read_cached_at(&self, _offset: u64, _buffer: &mut [u8]) -> bool {
        false
    }
}

/// Too many sectors are lost for a code to rebuild them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost {
    /// Lost sectors: of a track, including its redundancy sectors, or information sectors of a
    /// large group.
    pub sectors: usize,
}

/// Reads one platter.
#[derive(Clone)]
pub struct ReadDrive {
    platter: PlatterId,
    geometry: Geometry,
    source: Arc<dyn PlatterSource>,
    code: Arc<CauchyCode>,
}

impl ReadDrive {
    /// Loads a platter.
    ///
    /// # Panics
    /// If the geometry was not [checked](Geometry::check).
    #[must_use]
    pub fn load(platter: PlatterId, geometry: Geometry, source: Arc<dyn PlatterSource>) -> Self {
        Self { platter, geometry, source, code: Arc::new(track_code(geometry)) }
    }

    /// The platter's geometry.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// The platter.
    #[must_use]
    pub fn platter(&self) -> PlatterId {
        self.platter
    }

    /// Reads consecutive sectors of a track, payload plus label, into `buffer`, without reading the
    /// rest of the track. Returns `false` if some are lost; then the whole track has to be read.
    ///
    /// # Panics
    /// If `buffer` doesn't have the length of the sectors.
    pub fn read_sectors(&self, track: PhysicalTrack, sectors: Range<u16>, buffer: &mut [u8]) -> bool {
        let stride = self.geometry.sector_stride();
        assert_eq!(buffer.len(), sectors.len() * stride, "the buffer must have the length of the sectors");
        let offset = self.geometry.sector_offset(SectorAddress { track, sector: sectors.start });
        if !matches!(read_fully(&*self.source, offset, buffer), Ok(read) if read == buffer.len()) {
            return false;
        }
        self.are_good(track, sectors, buffer)
    }

    /// [`read_sectors`](Self::read_sectors) without waiting for the medium. Also returns `false` if
    /// the sectors are not in memory.
    ///
    /// # Panics
    /// If `buffer` doesn't have the length of the sectors.
    pub fn read_cached_sectors(&self, track: PhysicalTrack, sectors: Range<u16>, buffer: &mut [u8]) -> bool {
        assert_eq!(buffer.len(), sectors.len() * self.geometry.sector_stride(), "the buffer must have the length of the sectors");
        let offset = self.geometry.sector_offset(SectorAddress { track, sector: sectors.start });
        self.source.read_cached_at(offset, buffer) && self.are_good(track, sectors, buffer)
    }

    fn are_good(&self, track: PhysicalTrack, sectors: Range<u16>, buffer: &[u8]) -> bool {
        let each = buffer.chunks_exact(self.geometry.sector_stride()).zip(sectors);
        each.into_iter().all(|(bytes, sector)| label::is_good(bytes, self.platter, SectorAddress { track, sector }))
    }

    /// Reads a whole track and marks lost sectors, without repair.
    pub fn scan(&self, physical: PhysicalTrack, track: &mut Track) {
        let offset = self.geometry.track_offset(physical);
        // Read whole blocks, so that a source with direct I/O needs no copy.
        let (first, before, blocks) = track.blocks_mut(offset);
        match read_fully(&*self.source, first, blocks) {
            Ok(read) => blocks[read.max(before)..].fill(0),
            // One unreadable sector must not cost the whole track.
            Err(_) => {
                let bytes = track.bytes_mut();
                let stride = self.geometry.sector_stride();
                for (index, sector) in bytes.chunks_exact_mut(stride).enumerate() {
                    if !matches!(read_fully(&*self.source, offset + (index * stride) as u64, sector), Ok(read) if read == stride) {
                        sector.fill(0);
                    }
                }
            }
        }
        track.check(self.platter, physical);
    }

    /// Reads a whole track and rebuilds lost information sectors with the track's own code. Returns
    /// the number of sectors that were lost, including redundancy sectors.
    ///
    /// # Errors
    /// [`Lost`] if the code can't rebuild them; `track` contains the good sectors nevertheless.
    pub fn read(&self, physical: PhysicalTrack, track: &mut Track) -> Result<usize, Lost> {
        self.scan(physical, track);
        let sectors = track.lost_sectors();
        if track.repair(&self.code) { Ok(sectors) } else { Err(Lost { sectors }) }
    }
}

/// Reads until the buffer is full or the source ends; returns the number of bytes.
fn read_fully(source: &dyn PlatterSource, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let mut read = 0;
    while read < buffer.len() {
        match source.read_at(offset + read as u64, &mut buffer[read..]) {
            Ok(0) => break,
            Ok(bytes) => read += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}
