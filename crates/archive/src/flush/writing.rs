//! Writes one set: information platters from staging; then reads these back, verifies them, and
//! writes the redundancy platters computed from what was read.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use fulgurite_codec::checksum::{Crc64, combine};
use fulgurite_domain::{Geometry, VersionId};
use fulgurite_format::{Entry, Header, Member, Shard, TableEnd, TableError, TableWriter};
use fulgurite_glass::{BlankPlatter, Track, WriteDrive};

use super::{Staged, TRACKS_AHEAD};
use crate::archive::{Archive, ArchiveError};
use crate::catalogue::{SetDescription, StagedData};
use crate::error::Misread;
use crate::packing::{Item, PlacedShard, SetPlan};
use crate::set_reader::OpenSet;
use crate::store::{PlatterStore, StoreError};
use crate::watch::Watcher;

pub(super) struct SetJob<'a> {
    pub(super) archive: &'a Archive,
    pub(super) set: SetDescription,
    pub(super) plan: SetPlan,
    pub(super) items: Vec<Item>,
    pub(super) staged: Vec<Staged>,
    pub(super) tombstones: Vec<VersionId>,
    pub(super) stores: Vec<Arc<dyn PlatterStore>>,
}

impl SetJob<'_> {
    /// Writes all platters, and verifies the content of information platters on the way. Returns
    /// the header of the first platter.
    pub(super) fn write(&self, watcher: &dyn Watcher) -> Result<Header, ArchiveError> {
        let crcs = self.shard_crcs()?;
        let header = self.header(&crcs)?;
        let information = u64::from(self.set.shape.information) * self.set.geometry.content_bytes();
        watcher.stage("writing", Some(information));
        for position in 0..self.set.shape.information {
            self.write_information(position, &header, &crcs, watcher)?;
        }
        watcher.stage("verifying, coding", Some(information));
        let open = OpenSet::for_verification(self.archive, &self.set);
        self.verify_and_protect(&open, &header, &crcs, watcher)?;
        Ok(header)
    }

    /// Gives the set up; all of its content is still staged. Platters that can't be removed now are
    /// removed when the archive is opened next.
    pub(super) fn abandon(&self) {
        let left = self.set.platters.iter().zip(&self.stores).filter(|(place, store)| store.remove(place.platter).is_err()).count();
        if left == 0 {
            let _ = self.archive.catalogue().abandon_set(self.set.id);
        }
    }

    /// CRC-64 of every shard, by platter, combined from those of its staged records.
    fn shard_crcs(&self) -> Result<Vec<Vec<u64>>, ArchiveError> {
        let crc = |shard: &PlacedShard| {
            let records = records_of(&self.staged[shard.item].data, shard.object_offset, shard.bytes);
            records.iter().fold(Crc64::new().value(), |crc, data| combine(crc, data.place.crc64, data.place.bytes.into()))
        };
        Ok(self.plan.platters.iter().map(|platter| platter.shards.iter().map(crc).collect()).collect())
    }

    /// The header of the first platter. The headers of the others follow from it.
    fn header(&self, crcs: &[Vec<u64>]) -> Result<Header, ArchiveError> {
        let mut members: Vec<Member> = self
            .set
            .platters
            .iter()
            .map(|place| Member { platter: place.platter, table_offset: 0, table_bytes: 0, table_crc64: 0 })
            .collect();
        for (position, platter) in self.plan.platters.iter().enumerate() {
            let end = self.write_table(position, &crcs[position], &mut io::sink())?;
            members[position].table_offset = platter.table_offset;
            members[position].table_bytes = end.bytes;
            members[position].table_crc64 = end.crc64;
        }
        Ok(Header {
            archive: self.archive.id(),
            platter: self.set.platters[0].platter,
            set: self.set.id,
            medium: self.set.medium,
            geometry: self.set.geometry,
            position: 0,
            shape: self.set.shape,
            members,
            written: self.set.written,
            writer: concat!("fulgurite ", env!("CARGO_PKG_VERSION")).to_owned(),
        })
    }

    /// Writes the file table of an information platter: once to a sink, to learn its length and
    /// CRC-64 for the header, and once to the platter. Tombstones go onto the first platter.
    fn write_table(&self, position: usize, crcs: &[u64], sink: &mut dyn io::Write) -> Result<TableEnd, ArchiveError> {
        let shards = &self.plan.platters[position].shards;
        let tombstones: &[VersionId] = if position == 0 { &self.tombstones } else { &[] };
        let io_error = ArchiveError::io("file table".as_ref());
        let table_error = |version, error| match error {
            TableError::Io(source) => ArchiveError::Io { path: "file table".into(), source },
            error => ArchiveError::Unwritable { version, error },
        };
        let mut table = TableWriter::new(sink, (shards.len() + tombstones.len()) as u64).map_err(io_error)?;
        let mut record = Vec::new();
        for (shard, &crc64) in shards.iter().zip(crcs) {
            let (item, staged) = (&self.items[shard.item], &self.staged[shard.item]);
            self.archive.staging().read(staged.record, &mut record)?;
            let entry = Entry {
                version: item.id,
                sealed: staged.sealed,
                tombstone: false,
                shard: Shard { index: shard.shard, object_bytes: item.object_bytes, object_offset: shard.object_offset },
                offset: shard.offset,
                stored_bytes: shard.bytes,
                crc64,
                record: std::mem::take(&mut record),
            };
            table.push(&entry).map_err(|error| table_error(item.id, error))?;
            record = entry.record;
        }
        for &version in tombstones {
            table.push(&Entry::tombstone(version)).map_err(|error| table_error(version, error))?;
        }
        Ok(table.finish())
    }

    fn write_information(&self, position: u16, header: &Header, crcs: &[Vec<u64>], watcher: &dyn Watcher) -> Result<(), ArchiveError> {
        let geometry = self.set.geometry;
        let store = &self.stores[usize::from(position)];
        let store_error = StoreError::io(&**store);
        let sink = store.create(self.set.platters[usize::from(position)].platter, geometry.file_bytes()).map_err(store_error)?;
        let blank = self.blank(header, position);
        let mut drive = WriteDrive::load(blank, sink, self.archive.threads()).map_err(store_error)?;
        std::thread::scope(|scope| {
            let (filled_tx, filled_rx) = sync_channel::<Track>(TRACKS_AHEAD);
            let (empty_tx, empty_rx) = sync_channel::<Track>(TRACKS_AHEAD + 2);
            for _ in 0..TRACKS_AHEAD + 1 {
                empty_tx.send(Track::new(geometry)).expect("the receiver is still in scope");
            }
            let filler = scope.spawn(move || {
                let mut content = TrackFiller { geometry, filled_tx, empty_rx, track: None, at: 0 };
                let filled = self.write_content(usize::from(position), &crcs[usize::from(position)], &mut content);
                filled.and_then(|()| content.finish().map_err(|error| ArchiveError::Io { path: "track".into(), source: error }))
            });
            let mut written = Ok(());
            for mut track in filled_rx {
                written = drive.write(&mut track).map_err(store_error);
                if written.is_err() {
                    break;
                }
                watcher.done(0, geometry.track_bytes());
                let _ = empty_tx.send(track);
            }
            drop(empty_tx);
            let filled = filler.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            // If writing failed, the filler failed only because nothing received its tracks. The
            // write error is the cause.
            written?;
            filled
        })?;
        let written = drive.finish().map_err(store_error)?;
        written.sink.commit().map_err(store_error)?;
        Ok(())
    }

    /// Writes the shards and the file table of an information platter.
    fn write_content(&self, position: usize, crcs: &[u64], content: &mut TrackFiller) -> Result<(), ArchiveError> {
        let mut payload = Vec::new();
        for shard in &self.plan.platters[position].shards {
            for data in records_of(&self.staged[shard.item].data, shard.object_offset, shard.bytes) {
                self.archive.staging().read(data.place, &mut payload)?;
                io::Write::write_all(content, &payload).map_err(ArchiveError::io("track".as_ref()))?;
            }
        }
        self.write_table(position, crcs, content)?;
        Ok(())
    }

    pub(super) fn blank(&self, header: &Header, position: u16) -> BlankPlatter {
        let header = header.for_position(position);
        let block = header.to_block().expect("a set has at most 160 platters, whose entries fit the header");
        BlankPlatter { platter: header.platter, geometry: header.geometry, header: block }
    }

    pub(super) fn verification_error(&self, position: u16, what: Misread) -> ArchiveError {
        let place = &self.set.platters[usize::from(position)];
        ArchiveError::Verification { platter: place.platter, store: place.store.clone(), what }
    }
}

/// The staged records of a shard. Packing cuts only between records.
fn records_of(data: &[StagedData], object_offset: u64, bytes: u64) -> &[StagedData] {
    let start = data.partition_point(|record| record.stored_offset < object_offset);
    let end = data.partition_point(|record| record.stored_offset < object_offset + bytes);
    &data[start..end]
}

/// Cuts content into tracks for the write drive. The drive returns written tracks as empty ones.
struct TrackFiller {
    geometry: Geometry,
    filled_tx: std::sync::mpsc::SyncSender<Track>,
    empty_rx: std::sync::mpsc::Receiver<Track>,
    track: Option<Track>,
    at: u64,
}

impl TrackFiller {
    fn drive_stopped() -> io::Error {
        io::Error::new(io::ErrorKind::BrokenPipe, "the write drive stopped")
    }

    fn finish(mut self) -> io::Result<()> {
        while self.at < self.geometry.content_bytes() {
            let mut track = match self.track.take() {
                Some(track) => track,
                None => self.empty_rx.recv().map_err(|_| Self::drive_stopped())?,
            };
            track.zero_content_from(self.at % self.geometry.track_bytes());
            self.at += self.geometry.track_bytes() - self.at % self.geometry.track_bytes();
            self.filled_tx.send(track).map_err(|_| Self::drive_stopped())?;
        }
        Ok(())
    }
}

impl io::Write for TrackFiller {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        assert!(self.at < self.geometry.content_bytes(), "the plan fits the platter");
        let track = match &mut self.track {
            Some(track) => track,
            None => self.track.insert(self.empty_rx.recv().map_err(|_| Self::drive_stopped())?),
        };
        let within = self.at % self.geometry.track_bytes();
        let bytes = &bytes[..bytes.len().min((self.geometry.track_bytes() - within) as usize)];
        track.put_content(within, bytes);
        self.at += bytes.len() as u64;
        if self.at.is_multiple_of(self.geometry.track_bytes()) {
            self.filled_tx.send(self.track.take().expect("just used")).map_err(|_| Self::drive_stopped())?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
