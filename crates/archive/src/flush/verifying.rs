//! Reading back what was just written: nothing of it may be lost or differ. The redundancy platters are computed on the way.

use std::io;
use std::sync::mpsc::sync_channel;

use fulgurite_codec::checksum::Crc64;
use fulgurite_codec::{PooledCode, PooledEncoder};
use fulgurite_domain::{PhysicalTrack, TrackIndex};
use fulgurite_format::{Header, Member};
use fulgurite_glass::{Track, WriteDrive};

use super::TRACKS_AHEAD;
use super::writing::SetJob;
use crate::archive::ArchiveError;
use crate::content::OpenSet;
use crate::packing::Placed;
use crate::scrub::read_exact_at;
use crate::store::StoreError;

impl SetJob<'_> {
    /// Reads the information platters back in step, compares them with what was staged, and writes the redundancy platters.
    pub(super) fn verify_and_protect(&self, open: &OpenSet, header: &Header, crcs: &[Vec<u64>]) -> Result<(), ArchiveError> {
        let geometry = self.set.geometry;
        let shape = self.set.shape;
        let sectors = usize::from(geometry.track_information);
        let code = PooledCode::new(usize::from(shape.information) * sectors, usize::from(shape.redundancy) * sectors).ok();
        let mut encoder = code.map(|code| {
            PooledEncoder::new(&code, geometry.sector_bytes as usize)
                .expect("sectors are blocks of 64 bytes")
                .with_threads(self.archive.threads())
        });
        let mut drives = Vec::new();
        for position in shape.information..shape.platters() {
            let store = &self.stores[usize::from(position)];
            let store_error = |source| StoreError::Io { store: store.name().to_owned(), place: store.place(), source };
            let sink = store.create(self.set.platters[usize::from(position)].platter, geometry.file_bytes()).map_err(store_error)?;
            drives.push(WriteDrive::load(self.blank(header, position), sink, self.archive.threads()).map_err(store_error)?);
        }
        std::thread::scope(|scope| {
            let (read_in, read) = sync_channel::<Track>(TRACKS_AHEAD);
            let (empty_in, empty) = sync_channel::<Track>(TRACKS_AHEAD + 2);
            for _ in 0..TRACKS_AHEAD + 1 {
                empty_in.send(Track::new(geometry)).expect("the other end is held here");
            }
            let reader = scope.spawn(move || -> Result<(), ArchiveError> {
                let mut checks: Vec<ContentCheck<'_>> = (0..usize::from(shape.information))
                    .map(|position| ContentCheck::new(&self.plan.platters[position].shards, &crcs[position], header.members[position]))
                    .collect();
                for index in (0..geometry.information_tracks).map(TrackIndex) {
                    for position in 0..shape.information {
                        // Nobody takes tracks any more: writing failed, and says why.
                        let Ok(mut track) = empty.recv() else { return Ok(()) };
                        self.read_back(open, position, geometry.physical(index), &mut track)?;
                        checks[usize::from(position)].feed(&track).map_err(|what| self.wrong(position, what))?;
                        if read_in.send(track).is_err() {
                            return Ok(());
                        }
                    }
                }
                for (position, check) in checks.into_iter().enumerate() {
                    check.finish().map_err(|what| self.wrong(position as u16, what))?;
                }
                Ok(())
            });
            let mut redundancy = Track::new(geometry);
            let mut protect = || {
                for (count, track) in read.iter().enumerate() {
                    if let Some(encoder) = &mut encoder {
                        encoder.push(&track.information().collect::<Vec<_>>());
                    }
                    self.watcher.done(0, geometry.track_bytes());
                    let _ = empty_in.send(track);
                    if (count + 1) % usize::from(shape.information) != 0 {
                        continue;
                    }
                    let Some(encoder) = &mut encoder else { continue };
                    let rows = encoder.finish();
                    for (index, drive) in drives.iter_mut().enumerate() {
                        for sector in 0..geometry.track_information {
                            redundancy.payload_mut(sector).copy_from_slice(rows.row(index * sectors + usize::from(sector)));
                        }
                        let store = &self.stores[usize::from(shape.information) + index];
                        let store_error = |source| StoreError::Io { store: store.name().to_owned(), place: store.place(), source };
                        drive.write(&mut redundancy).map_err(store_error)?;
                    }
                    encoder.reset();
                }
                Ok::<(), ArchiveError>(())
            };
            let protected = protect();
            drop((read, empty_in));
            let verified = reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            protected?;
            verified
        })?;
        for (drive, store) in drives.into_iter().zip(&self.stores[usize::from(shape.information)..]) {
            let store_error = |source| StoreError::Io { store: store.name().to_owned(), place: store.place(), source };
            drive.finish().map_err(store_error)?.sink.commit().map_err(store_error)?;
        }
        Ok(())
    }

    /// Reads what [`verify_and_protect`](Self::verify_and_protect) did not.
    pub(super) fn verify_rest(&self, open: &OpenSet, position: u16, header: &Header) -> Result<(), ArchiveError> {
        let geometry = self.set.geometry;
        let mut track = Track::new(geometry);
        for index in 0..geometry.groups() {
            let group = geometry.group(index);
            if position >= self.set.shape.information {
                for physical in group.information_tracks() {
                    self.read_back(open, position, physical, &mut track)?;
                    self.watcher.done(0, geometry.track_stride() as u64);
                }
            }
            for physical in group.redundancy_tracks() {
                self.read_back(open, position, physical, &mut track)?;
            }
        }
        let place = &self.set.platters[usize::from(position)];
        let store = &self.stores[usize::from(position)];
        let store_error = |source| StoreError::Io { store: store.name().to_owned(), place: store.place(), source };
        let file = store.open(place.platter).map_err(store_error)?.ok_or_else(|| self.wrong(position, "it is gone".into()))?;
        let expected = self.blank(header, position).header;
        for offset in geometry.header_offsets() {
            let mut copy = vec![0; expected.len()];
            let read = read_exact_at(&*file, offset, &mut copy);
            if let Err(error) = read
                && error.kind() != io::ErrorKind::UnexpectedEof
            {
                return Err(store_error(error).into());
            }
            if copy != expected {
                return Err(self.wrong(position, format!("the header at byte {offset} is not what was written")));
            }
        }
        Ok(())
    }

    /// Reads a track of a platter that was just written. Nothing may be lost of it.
    fn read_back(&self, open: &OpenSet, position: u16, physical: PhysicalTrack, track: &mut Track) -> Result<(), ArchiveError> {
        let drive = open.drives[usize::from(position)].as_ref().ok_or_else(|| self.wrong(position, "it is gone".into()))?;
        drive.scan(physical, track);
        match track.lost_sectors() {
            0 => Ok(()),
            lost => Err(self.wrong(position, format!("{lost} sectors of track {} are bad", physical.0))),
        }
    }
}

/// Compares the content that a platter gives back with what was staged, piece by piece: shards and table one after another.
struct ContentCheck<'a> {
    pieces: Box<dyn Iterator<Item = (u64, u64)> + Send + 'a>,
    /// Bytes left of the current piece, and its checksum as expected.
    current: Option<(u64, u64)>,
    crc: Crc64,
}

impl<'a> ContentCheck<'a> {
    fn new(shards: &'a [Placed], crcs: &'a [u64], member: Member) -> Self {
        let shards = shards.iter().zip(crcs).map(|(shard, &crc)| (shard.bytes, crc)).filter(|(bytes, _)| *bytes > 0);
        let mut pieces = Box::new(shards.chain(std::iter::once((member.table_bytes, member.table_crc64))));
        let current = pieces.next();
        Self { pieces, current, crc: Crc64::new() }
    }

    fn feed(&mut self, track: &Track) -> Result<(), String> {
        for sector in track.information() {
            let mut sector = sector;
            while let Some((left, expected)) = &mut self.current {
                let (now, later) = sector.split_at(sector.len().min(usize::try_from(*left).unwrap_or(usize::MAX)));
                self.crc.update(now);
                *left -= now.len() as u64;
                sector = later;
                if *left > 0 {
                    break;
                }
                if std::mem::take(&mut self.crc).value() != *expected {
                    return Err("a file differs from what was staged".into());
                }
                self.current = self.pieces.next();
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<(), String> {
        self.current.map_or(Ok(()), |_| Err("its content ends early".into()))
    }
}
