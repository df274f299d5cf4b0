//! An archive as the destination of a migration: files are staged, acknowledged in groups, and
//! written to platters at the end of the run or when staging is full.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex};

use anyhow::{Context, Result};
use fulgurite_archive::reserved::is_reserved;
use fulgurite_archive::staging::StagingError;
use fulgurite_archive::watch::Unwatched;
use fulgurite_archive::{Access, Archive, ArchiveError, check_record_length};
use fulgurite_archive::{Intake, IntakeError, NewObject, Upload};
use fulgurite_digest::Digest;
use fulgurite_domain::{Attributes, Digest as Sha256, Kind, ObjectName};
use fulgurite_migration::run::destination::{BackReader, Destination, LotWriter, Outgoing, Stored, other_file};
use fulgurite_places::{Cause, Connection, Refusal};

use crate::archive_place::{ArchiveConnection, ArchiveFolder, ArchivePlace};
use crate::put::storable_name;

/// Data records, of up to 1 MiB each, that wait to be staged.
const RECORDS_MAX: usize = 64;
/// Bytes that are read from a spool at a time.
const PIECE_BYTES: usize = 256 << 10;

/// An archive that takes a migration's files.
pub(super) struct ArchiveDestination {
    place: ArchivePlace,
    taking: Arc<Taking>,
}

/// What output streams share.
struct Taking {
    archive: Arc<Archive>,
    intake: Intake,
    /// The folder of the archive that takes the files.
    folder: ArchiveFolder,
    records: Arc<Records>,
    /// The number of times that everything staged was written to platters to make room; held
    /// meanwhile.
    flushes: Mutex<u64>,
}

/// Counts the data records that wait to be staged, so that their memory is bounded.
#[derive(Default)]
struct Records {
    waiting: Mutex<usize>,
    fewer: Condvar,
}

/// A data record that waits.
struct Record(Arc<Records>);

impl Record {
    fn begin(records: &Arc<Records>) -> Self {
        let waiting = records.waiting.lock().expect("no thread panics with it");
        let mut waiting = records.fewer.wait_while(waiting, |waiting| *waiting >= RECORDS_MAX).expect("no thread panics with it");
        *waiting += 1;
        Self(records.clone())
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        *self.0.waiting.lock().expect("no thread panics with it") -= 1;
        self.0.fewer.notify_one();
    }
}

impl ArchiveDestination {
    pub(super) fn open(home: &Path, folder: ArchiveFolder) -> Result<Self> {
        let archive = Arc::new(Archive::open(home, Access::Write).context("the destination")?);
        let intake = Intake::open(archive.clone())?;
        let taking = Taking { archive, intake, folder: folder.clone(), records: Arc::default(), flushes: Mutex::new(0) };
        Ok(Self { place: ArchivePlace::new(PathBuf::from(home), folder), taking: Arc::new(taking) })
    }

    /// The archive, to write what is staged to platters.
    pub(super) fn archive(&self) -> Arc<Archive> {
        self.taking.archive.clone()
    }
}

impl Destination for ArchiveDestination {
    fn writer(&self) -> Result<Box<dyn LotWriter>, Refusal> {
        Ok(Box::new(ArchiveWriter(self.taking.clone())))
    }

    fn back_reader(&self) -> Result<Box<dyn BackReader>, Refusal> {
        Ok(Box::new(ArchiveReader(self.place.open()?)))
    }
}

/// An archive from which a migration's files are read back, and to which none is written.
pub(super) struct ReadOnlyArchive(pub(super) ArchivePlace);

impl Destination for ReadOnlyArchive {
    fn writer(&self) -> Result<Box<dyn LotWriter>, Refusal> {
        Err(Refusal::new(Cause::Unsupported, "the archive is open for reading only"))
    }

    fn back_reader(&self) -> Result<Box<dyn BackReader>, Refusal> {
        Ok(Box::new(ArchiveReader(self.0.open()?)))
    }
}

struct ArchiveReader(ArchiveConnection);

impl BackReader for ArchiveReader {
    fn sha256(&mut self, location: &str) -> Result<(u64, Digest), Refusal> {
        self.0.sha256(location)
    }

    fn length(&mut self, location: &str) -> Result<u64, Refusal> {
        self.0.length(location)
    }

    fn is_buffered(&mut self, location: &str) -> Result<bool, Refusal> {
        self.0.is_staged(location)
    }
}

struct ArchiveWriter(Arc<Taking>);

impl LotWriter for ArchiveWriter {
    fn write(&mut self, files: &[Outgoing<'_>], arrived: &mut dyn FnMut(usize, Stored)) -> Vec<Result<Stored, Refusal>> {
        let flushes = *self.0.flushes.lock().expect("no thread panics with it");
        let (tell, told) = channel();
        let mut results: Vec<Option<Result<Stored, Refusal>>> = vec![None; files.len()];
        let mut full = Vec::new();
        for (index, file) in files.iter().enumerate() {
            match self.0.begin(file) {
                Ok(None) => {
                    arrived(index, Stored::Found);
                    results[index] = Some(Ok(Stored::Found));
                }
                Err(refusal) => results[index] = Some(Err(refusal)),
                Ok(Some((upload, object))) => {
                    let tell = tell.clone();
                    // Without a receiver, the result is no longer wanted.
                    upload.finish(object, Vec::new(), Box::new(move |result| drop(tell.send((index, result)))));
                }
            }
        }
        drop(tell);
        // Files of a lot share commits, so all are sent before the first result is awaited.
        for (index, result) in told {
            match result {
                Err(IntakeError::Archive(error)) if is_full(&error) => full.push(index),
                result => {
                    let stored = result.map(|()| Stored::Written).inspect(|&stored| arrived(index, stored));
                    results[index] = Some(stored.map_err(|error| Refusal::new(Cause::Fault, error.to_string())));
                }
            }
        }
        if !full.is_empty() {
            match self.0.make_room(flushes) {
                Ok(()) => {
                    let again: Vec<Outgoing<'_>> = full.iter().map(|&index| files[index]).collect();
                    let results_again = self.write(&again, &mut |at, stored| arrived(full[at], stored));
                    for (index, result) in full.into_iter().zip(results_again) {
                        results[index] = Some(result);
                    }
                }
                Err(refusal) => full.into_iter().for_each(|index| results[index] = Some(Err(refusal.clone()))),
            }
        }
        let unknown = || Err(Refusal::new(Cause::Fault, "the archive ended before it acknowledged the file"));
        results.into_iter().map(|result| result.unwrap_or_else(unknown)).collect()
    }
}

impl Taking {
    /// Sends a file's content. `None` if the archive has it already.
    fn begin(&self, file: &Outgoing<'_>) -> Result<Option<(Upload, NewObject)>, Refusal> {
        let unsuitable = |problem: String| Refusal::new(Cause::Unsupported, problem);
        let name = storable_name(&self.folder.name_of(file.location).0).map_err(|error| unsuitable(format!("{error:#}")))?;
        let name = ObjectName(name);
        if is_reserved(&name) {
            return Err(unsuitable("the name is reserved for the archive".to_owned()));
        }
        check_record_length(&name, &Attributes::default()).map_err(|error| unsuitable(error.to_string()))?;
        let sha256 = Sha256(file.sha256.value().try_into().expect("a SHA-256 has 32 bytes"));
        let newest = self.archive.reading().newest(&name).map_err(|error| Refusal::new(Cause::Fault, error.to_string()))?;
        if let Some(newest) = newest.filter(|newest| newest.record.kind != Kind::DeletionMarker) {
            // What this migration has written, and is to write again, wasn't read back, or a scan
            // found it lost.
            if !file.was_written {
                let is_same = newest.record.kind == Kind::File && newest.record.size == file.bytes && newest.record.sha256 == sha256;
                return if is_same { Ok(None) } else { Err(other_file()) };
            }
        }
        // Hashing again what is in the memory in which it was hashed takes 8 % of the CPU of a
        // migration of small files. If memory corrupts it, reads of the object fail, and the
        // scan reports it.
        let mut upload = if file.is_in_memory() {
            let mut upload = self.intake.upload_hashed_by_caller();
            upload.state_sha256(sha256);
            upload
        } else {
            self.intake.upload()
        };
        let mut reader = file.reader();
        let mut piece = vec![0; PIECE_BYTES.min(file.bytes.max(1) as usize)];
        loop {
            let read = match reader.read(&mut piece) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Refusal::new(Cause::Fault, format!("the spool volume failed: {error}"))),
            };
            let mut rest = &piece[..read];
            while !rest.is_empty() {
                if upload.room() == 0 {
                    let expected = usize::try_from(file.bytes - upload.size()).unwrap_or(usize::MAX);
                    upload.begin_record(expected, Box::new(Record::begin(&self.records)));
                }
                let (now, later) = rest.split_at(rest.len().min(upload.room()));
                upload.write(now);
                rest = later;
            }
        }
        if upload.size() != file.bytes || upload.sha256() != sha256 {
            return Err(Refusal::new(Cause::Fault, "the spool volume returned other bytes than it was given"));
        }
        let object = NewObject { name, kind: Kind::File, modified: file.modified, mode: None, attributes: Attributes::default() };
        Ok(Some((upload, object)))
    }

    /// Writes everything that is staged to platters, unless that was done since there had been so
    /// many flushes.
    fn make_room(&self, flushes_before: u64) -> Result<(), Refusal> {
        let mut flushes = self.flushes.lock().expect("no thread panics with it");
        if *flushes > flushes_before {
            return Ok(());
        }
        match self.archive.flush(&Unwatched) {
            Ok(report) if report.sets == 0 && report.unreadable > 0 => {
                Err(Refusal::new(Cause::Fault, "staging is full of versions that can't be read; `fulgurite verify` names them"))
            }
            Ok(report) if report.sets == 0 && report.too_long > 0 => Err(Refusal::new(
                Cause::Fault,
                "staging is full of versions whose names and attributes are too long for platters; `fulgurite flush` names them",
            )),
            Ok(report) if report.sets == 0 => {
                Err(Refusal::new(Cause::Unsupported, "the file is larger than staging, even if that is empty"))
            }
            Ok(_) => {
                *flushes += 1;
                Ok(())
            }
            Err(error) => Err(Refusal::new(Cause::Fault, error.to_string())),
        }
    }
}

fn is_full(error: &ArchiveError) -> bool {
    matches!(error, ArchiveError::Staging(StagingError::Full { .. }))
}
