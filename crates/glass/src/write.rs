//! The write drive: writes a blank platter front to back.

use std::io::{self, Write};

use fulgurite_codec::{CauchyCode, CodeError, PooledCode, PooledEncoder};
use fulgurite_domain::{Geometry, Group, PhysicalTrack, PlatterId, TrackIndex};

use crate::Track;

/// A platter that has not been written.
pub struct BlankPlatter {
    /// Its identifier.
    pub platter: PlatterId,
    /// Its geometry.
    pub geometry: Geometry,
    /// Its header, [`Geometry::HEADER_BYTES`] long. The medium doesn't interpret it.
    pub header: Vec<u8>,
}

/// A written platter, which never changes again.
pub struct WrittenPlatter<W> {
    /// Its identifier.
    pub platter: PlatterId,
    /// The sink it was written to, neither synced nor closed.
    pub sink: W,
    /// Bytes written.
    pub bytes: u64,
}

/// Writes one platter. The caller gives the content of information tracks; the drive adds their
/// redundancy, the redundancy tracks of each large group, and the three copies of the header.
pub struct WriteDrive<W> {
    blank: BlankPlatter,
    sink: W,
    track_code: CauchyCode,
    /// The large group that is being written.
    group: Group,
    /// Computes its redundancy tracks; `None` if it has none.
    encoder: Option<PooledEncoder>,
    threads: usize,
    /// The next information track.
    next: TrackIndex,
    /// The next track to be written, information or redundancy.
    physical: PhysicalTrack,
    /// Bytes written so far.
    bytes: u64,
}

impl<W: Write> WriteDrive<W> {
    /// Loads a blank and writes the first copy of its header to `sink`, which must be at its start.
    /// Codes of large groups may use `threads` threads.
    ///
    /// # Errors
    /// Errors of the sink.
    ///
    /// # Panics
    /// If the geometry was not [checked](Geometry::check) or the header has the wrong length.
    pub fn load(blank: BlankPlatter, sink: W, threads: usize) -> io::Result<Self> {
        let geometry = blank.geometry;
        assert_eq!(blank.header.len() as u64, Geometry::HEADER_BYTES, "the header has the wrong length");
        let track_code = track_code(geometry);
        let group = geometry.group(0);
        let encoder = group_encoder(geometry, group, threads);
        let mut drive =
            Self { blank, sink, track_code, group, encoder, threads, next: TrackIndex(0), physical: PhysicalTrack(0), bytes: 0 };
        drive.write_header()?;
        Ok(drive)
    }

    /// Memory that a write drive needs for a platter of this geometry, in bytes, without the work
    /// space of its threads, which [`PooledCode::encoder_bytes`] describes.
    #[must_use]
    pub fn memory_bytes(geometry: Geometry) -> u64 {
        let group = geometry.group(0);
        group_code(geometry, group).map_or(0, |code| code.encoder_bytes(geometry.sector_bytes as usize) as u64)
            + Track::memory_bytes(geometry)
    }

    /// Writes the next information track. The caller fills in the information payloads; this
    /// computes redundancy and labels.
    ///
    /// # Errors
    /// Errors of the sink. The platter is unusable then.
    ///
    /// # Panics
    /// If the platter is full.
    pub fn write(&mut self, track: &mut Track) -> io::Result<()> {
        let geometry = self.blank.geometry;
        assert!(self.next.0 < geometry.information_tracks, "the platter is full");
        self.write_track(track)?;
        if let Some(encoder) = &mut self.encoder {
            let information: Vec<&[u8]> = track.information().collect();
            encoder.push(&information);
        }
        self.next.0 += 1;
        if self.next.0 == self.group.first.0 + self.group.information {
            self.finish_group()?;
        }
        Ok(())
    }

    /// Finishes the platter: writes the last copy of the header.
    ///
    /// # Errors
    /// Errors of the sink.
    ///
    /// # Panics
    /// If information tracks are missing.
    pub fn finish(mut self) -> io::Result<WrittenPlatter<W>> {
        assert_eq!(self.next.0, self.blank.geometry.information_tracks, "information tracks are missing");
        self.write_header()?;
        debug_assert_eq!(self.bytes, self.blank.geometry.file_bytes());
        Ok(WrittenPlatter { platter: self.blank.platter, sink: self.sink, bytes: self.bytes })
    }

    fn finish_group(&mut self) -> io::Result<()> {
        let geometry = self.blank.geometry;
        if let Some(mut encoder) = self.encoder.take() {
            let mut track = Track::new(geometry);
            let redundancy = encoder.finish();
            for index in 0..self.group.redundancy as usize {
                for sector in 0..geometry.track_information {
                    let row = index * usize::from(geometry.track_information) + usize::from(sector);
                    track.payload_mut(sector).copy_from_slice(redundancy.row(row));
                }
                self.write_track(&mut track)?;
            }
            self.encoder = Some(encoder);
        }
        if self.next.0 < geometry.information_tracks {
            let group = geometry.group_of(self.next);
            // The last group may be smaller and then has its own code.
            match &mut self.encoder {
                Some(encoder) if (group.information, group.redundancy) == (self.group.information, self.group.redundancy) => {
                    encoder.reset()
                }
                encoder => *encoder = group_encoder(geometry, group, self.threads),
            }
            self.group = group;
        }
        Ok(())
    }

    fn write_track(&mut self, track: &mut Track) -> io::Result<()> {
        if self.physical.0 == self.blank.geometry.middle() {
            self.write_header()?;
        }
        debug_assert_eq!(self.bytes, self.blank.geometry.track_offset(self.physical));
        track.encode(&self.track_code, self.blank.platter, self.physical);
        self.sink.write_all(track.bytes())?;
        self.bytes += track.bytes().len() as u64;
        self.physical.0 += 1;
        if self.physical.0 == self.blank.geometry.physical_tracks() && self.physical.0 == self.blank.geometry.middle() {
            // A platter of one track has its second header after it, where no further track
            // triggers writing it.
            self.write_header()?;
        }
        Ok(())
    }

    fn write_header(&mut self) -> io::Result<()> {
        self.sink.write_all(&self.blank.header)?;
        self.bytes += self.blank.header.len() as u64;
        Ok(())
    }
}

/// The code within tracks of this geometry.
pub(crate) fn track_code(geometry: Geometry) -> CauchyCode {
    CauchyCode::new(usize::from(geometry.track_information), usize::from(geometry.track_redundancy)).expect("the geometry was checked")
}

/// The code of a large group, if it has redundancy.
pub(crate) fn group_code(geometry: Geometry, group: Group) -> Option<PooledCode> {
    if group.redundancy == 0 {
        return None;
    }
    let symbols = |tracks: u32| tracks as usize * usize::from(geometry.track_information);
    let code: Result<PooledCode, CodeError> = PooledCode::new(symbols(group.information), symbols(group.redundancy));
    Some(code.expect("the geometry was checked"))
}

fn group_encoder(geometry: Geometry, group: Group, threads: usize) -> Option<PooledEncoder> {
    let encoder =
        |code| PooledEncoder::new(&code, geometry.sector_bytes as usize).expect("sectors are multiples of 64 bytes").with_threads(threads);
    group_code(geometry, group).map(encoder)
}
