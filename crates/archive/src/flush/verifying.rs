//! Verification: reads back what was just written. It accepts no changed bytes, and no more lost
//! sectors than are normal for the medium. Computes the redundancy platters on the way.

use std::io;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use fulgurite_codec::checksum::Crc64;
use fulgurite_codec::{PooledCode, PooledEncoder};
use fulgurite_domain::{PhysicalTrack, SetShape, TrackIndex};
use fulgurite_format::{Header, Member};
use fulgurite_glass::{Lost, Track, WriteDrive};

use super::writing::SetJob;
use crate::archive::ArchiveError;
use crate::error::Misread;
use crate::packing::PlacedShard;
use crate::set_reader::OpenSet;
use crate::store::{PlatterSink, StoreError, read_exact_at};
use crate::unread::Presence;
use crate::watch::Watcher;

/// Tracks of each reader: one is read while the other is checked and coded.
pub(super) const TRACKS_PER_READER: usize = 2;

/// Number of reading threads, each with its own platters. One thread's disk is busy while another
/// thread checks its tracks, and several disks work at once.
pub(super) fn readers(threads: usize, shape: SetShape) -> usize {
    threads.max(2).min(shape.information.into())
}

impl SetJob<'_> {
    /// Reads the information platters in step, compares them with what was staged, and writes the
    /// redundancy platters.
    pub(super) fn verify_and_protect(
        &self,
        open: &OpenSet,
        header: &Header,
        crcs: &[Vec<u64>],
        watcher: &dyn Watcher,
    ) -> Result<(), ArchiveError> {
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
            let store_error = StoreError::io(&**store);
            let sink = store.create(self.set.platters[usize::from(position)].platter, geometry.file_bytes()).map_err(store_error)?;
            drives.push(WriteDrive::load(self.blank(header, position), sink, self.archive.threads()).map_err(store_error)?);
        }
        let readers = readers(self.archive.threads(), shape);
        std::thread::scope(|scope| {
            let mut reading = Vec::new();
            let mut lanes = Vec::new();
            for reader in 0..readers {
                let (read_tx, read_rx) = sync_channel::<Track>(TRACKS_PER_READER);
                let (empty_tx, empty_rx) = sync_channel::<Track>(TRACKS_PER_READER);
                for _ in 0..TRACKS_PER_READER {
                    empty_tx.send(Track::new(geometry)).expect("the receiver is still in scope");
                }
                let positions = move || (reader as u16..shape.information).step_by(readers);
                reading.push(scope.spawn(move || self.read_information(open, positions, header, crcs, &empty_rx, &read_tx)));
                lanes.push((read_rx, empty_tx));
            }
            let protected = self.protect(&lanes, &mut encoder, &mut drives, watcher);
            drop(lanes);
            let read: Vec<Result<(), ArchiveError>> =
                reading.into_iter().map(|reader| reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect();
            protected?;
            read.into_iter().collect::<Result<(), ArchiveError>>()
        })?;
        for (drive, store) in drives.into_iter().zip(&self.stores[usize::from(shape.information)..]) {
            let store_error = StoreError::io(&**store);
            drive.finish().map_err(store_error)?.sink.commit().map_err(store_error)?;
        }
        Ok(())
    }

    /// Reads the information tracks of some platters in step, compares them with what was staged,
    /// and passes them on. A checksum covers a whole shard, so a mismatch may come to light only
    /// after some of the shard's tracks were passed on; it fails the set all the same.
    fn read_information<P: Iterator<Item = u16>>(
        &self,
        open: &OpenSet,
        positions: impl Fn() -> P,
        header: &Header,
        crcs: &[Vec<u64>],
        empty_rx: &Receiver<Track>,
        read_tx: &SyncSender<Track>,
    ) -> Result<(), ArchiveError> {
        let geometry = self.set.geometry;
        let check = |position: u16| {
            let at = usize::from(position);
            (position, ContentCheck::new(&self.plan.platters[at].shards, &crcs[at], header.members[at]))
        };
        let mut checks: Vec<(u16, ContentCheck<'_>)> = positions().map(check).collect();
        for index in (0..geometry.information_tracks).map(TrackIndex) {
            for (position, check) in &mut checks {
                // `protect` has ended: another platter is bad or writing failed, and that error is
                // reported.
                let Ok(mut track) = empty_rx.recv() else { return Ok(()) };
                self.read_back(open, *position, geometry.physical(index), &mut track)?;
                check.feed(&track).map_err(|what| self.verification_error(*position, what))?;
                if read_tx.send(track).is_err() {
                    return Ok(());
                }
            }
        }
        for (position, check) in checks {
            check.finish().map_err(|what| self.verification_error(position, what))?;
        }
        Ok(())
    }

    /// Computes the redundancy platters from the readers' tracks, and writes them. Ends early
    /// without an error if a reader does.
    fn protect(
        &self,
        lanes: &[(Receiver<Track>, SyncSender<Track>)],
        encoder: &mut Option<PooledEncoder>,
        drives: &mut [WriteDrive<Box<dyn PlatterSink>>],
        watcher: &dyn Watcher,
    ) -> Result<(), ArchiveError> {
        let geometry = self.set.geometry;
        let shape = self.set.shape;
        let sectors = usize::from(geometry.track_information);
        let mut redundancy = Track::new(geometry);
        for _ in 0..geometry.information_tracks {
            for position in 0..usize::from(shape.information) {
                let (read_rx, empty_tx) = &lanes[position % lanes.len()];
                let Ok(track) = read_rx.recv() else { return Ok(()) };
                if let Some(encoder) = encoder {
                    encoder.push(&track.information().collect::<Vec<_>>());
                }
                watcher.done(0, geometry.track_bytes());
                let _ = empty_tx.send(track);
            }
            let Some(encoder) = encoder else { continue };
            let rows = encoder.finish();
            for (index, drive) in drives.iter_mut().enumerate() {
                for sector in 0..geometry.track_information {
                    redundancy.payload_mut(sector).copy_from_slice(rows.row(index * sectors + usize::from(sector)));
                }
                let store = &self.stores[usize::from(shape.information) + index];
                let store_error = StoreError::io(&**store);
                drive.write(&mut redundancy).map_err(store_error)?;
            }
            encoder.reset();
        }
        Ok(())
    }

    /// Reads the parts of all platters that [`verify_and_protect`](Self::verify_and_protect) did
    /// not read.
    pub(super) fn verify_rest(&self, open: &OpenSet, header: &Header, watcher: &dyn Watcher) -> Result<(), ArchiveError> {
        let platters = self.set.shape.platters();
        // Redundancy platters have the most left to read. They come first, so that none is read
        // alone at the end.
        let positions = Mutex::new((0..platters).rev());
        let read = || {
            loop {
                let Some(position) = positions.lock().expect("nothing panics while it holds this lock").next() else { return Ok(()) };
                if let Err(error) = self.verify_rest_of(open, position, header, watcher) {
                    // The set is given up, so the other readers can stop.
                    positions.lock().expect("nothing panics while it holds this lock").by_ref().for_each(drop);
                    return Err(error);
                }
            }
        };
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..readers(self.archive.threads(), self.set.shape)).map(|_| scope.spawn(read)).collect();
            let read: Vec<Result<(), ArchiveError>> =
                readers.into_iter().map(|reader| reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect();
            read.into_iter().collect()
        })
    }

    fn verify_rest_of(&self, open: &OpenSet, position: u16, header: &Header, watcher: &dyn Watcher) -> Result<(), ArchiveError> {
        let geometry = self.set.geometry;
        let mut track = Track::new(geometry);
        for index in 0..geometry.groups() {
            let group = geometry.group(index);
            if position >= self.set.shape.information {
                for physical in group.information_tracks() {
                    self.read_back(open, position, physical, &mut track)?;
                    watcher.done(0, geometry.track_stride() as u64);
                }
            }
            for physical in group.redundancy_tracks() {
                self.read_back(open, position, physical, &mut track)?;
            }
        }
        let place = &self.set.platters[usize::from(position)];
        let store = &self.stores[usize::from(position)];
        let store_error = StoreError::io(&**store);
        let file = store.open(place.platter).map_err(store_error)?.ok_or_else(|| self.verification_error(position, Misread::Missing))?;
        let file = file.for_verification().unwrap_or(file);
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
                return Err(self.verification_error(position, Misread::Header(offset)));
            }
        }
        Ok(())
    }

    /// Reads a track of a platter that was just written. No more sectors may be lost than are
    /// normal for the medium.
    fn read_back(&self, open: &OpenSet, position: u16, physical: PhysicalTrack, track: &mut Track) -> Result<(), ArchiveError> {
        let drive = match &open.members[usize::from(position)] {
            Presence::Loaded(loaded) => &loaded.drive,
            Presence::Unavailable(why) => return Err(self.verification_error(position, Misread::Gone(Box::new(why.clone())))),
        };
        match drive.read(physical, track) {
            Ok(sectors) if sectors <= self.set.bearable_losses() => Ok(()),
            Ok(sectors) | Err(Lost { sectors }) => {
                let medium = self.set.medium;
                Err(self.verification_error(position, Misread::Sectors { track: physical, sectors, medium }))
            }
        }
    }
}

/// Compares the content read from a platter with what was staged, piece by piece: the shards, then
/// the table.
struct ContentCheck<'a> {
    pieces: Box<dyn Iterator<Item = (u64, u64)> + Send + 'a>,
    /// Bytes left of the current piece, and its expected checksum.
    current: Option<(u64, u64)>,
    crc: Crc64,
}

impl<'a> ContentCheck<'a> {
    fn new(shards: &'a [PlacedShard], crcs: &'a [u64], member: Member) -> Self {
        let shards = shards.iter().zip(crcs).map(|(shard, &crc)| (shard.bytes, crc)).filter(|(bytes, _)| *bytes > 0);
        let mut pieces = Box::new(shards.chain(std::iter::once((member.table_bytes, member.table_crc64))));
        let current = pieces.next();
        Self { pieces, current, crc: Crc64::new() }
    }

    fn feed(&mut self, track: &Track) -> Result<(), Misread> {
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
                    return Err(Misread::Content);
                }
                self.current = self.pieces.next();
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<(), Misread> {
        self.current.map_or(Ok(()), |_| Err(Misread::Short))
    }
}
