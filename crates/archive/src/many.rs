//! Reads many objects at once, each into memory of its own: several threads, in the order of the
//! medium.
//!
//! ```text
//! names -> find_many: versions -> place_many: positions -> read_many: content, in read order
//! ```

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use fulgurite_domain::{Kind, ObjectName, VersionId};

use crate::archive::{Archive, ArchiveError};
use crate::catalogue::VersionRow;
use crate::object::{ObjectReader, ReadError};
use crate::read_order::MediumPosition;
use crate::set_reader::Repairs;

/// Number of objects that a thread takes at a time. Neighbours on a platter share a read.
const RUN_OBJECTS: usize = 64;
/// Number of names or versions that a thread looks up at a time.
const LOOKUPS: usize = 256;

/// A version to be read, and where its content goes.
pub struct ReadInto<'a> {
    /// The version.
    pub version: &'a VersionRow,
    /// Its place in the read order.
    pub position: MediumPosition,
    /// The part of its content; within its size.
    pub range: Range<u64>,
    /// Memory as long as the range. After an error, it is filled with zeros.
    pub out: &'a mut [u8],
}

/// Why a name can't be read.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// The catalogue lists no version of the name.
    #[error("nothing is stored under this name")]
    NotFound,
    /// The catalogue lists no version of the name with this identifier.
    #[error("it has no version {0}")]
    NoVersion(VersionId),
    /// Versions of the name exist that can't be listed, because their keys are missing or a
    /// rebuild of the catalogue could not read everything.
    #[error("it exists, but no version of it can be listed; `fulgurite verify` says why")]
    Unlisted,
    /// The newest version is a deletion marker.
    #[error("it was deleted; earlier versions remain")]
    Deleted,
    /// A directory has no content.
    #[error("it is a folder")]
    Folder,
    /// The catalogue failed.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
}

impl Archive {
    /// Looks up names: the version with the given identifier, or the newest. The results are in the
    /// order of the names.
    pub fn find_many(&self, wanted: &[(ObjectName, Option<VersionId>)]) -> Vec<Result<VersionRow, FindError>> {
        self.look_up(wanted, |(name, id)| {
            let mut catalogue = self.reading();
            let row = match id {
                Some(id) => catalogue.version(name, *id).map_err(ArchiveError::from)?,
                None => catalogue.newest(name).map_err(ArchiveError::from)?,
            };
            match row {
                Some(row) if row.record.kind.has_content() => Ok(row),
                Some(row) if row.record.kind == Kind::DeletionMarker => Err(FindError::Deleted),
                Some(_) => Err(FindError::Folder),
                None => match (catalogue.latest_number(name).map_err(ArchiveError::from)?, id) {
                    (None, _) => Err(FindError::NotFound),
                    (Some(_), Some(id)) => Err(FindError::NoVersion(*id)),
                    (Some(_), None) => Err(FindError::Unlisted),
                },
            }
        })
    }

    /// The places of versions in the read order. The results are in the order of the versions.
    pub fn place_many(&self, versions: &[&VersionRow]) -> Vec<Result<MediumPosition, ArchiveError>> {
        self.look_up(versions, |version| MediumPosition::of(self, version))
    }

    /// Reads content into memory, on as many threads as the settings allow. A whole version is
    /// checked against its SHA-256, a part of one by the tags of its frames. Returns a result for
    /// each read in the given order, and the repairs.
    pub fn read_many(&self, reads: Vec<ReadInto<'_>>) -> (Vec<Result<(), ReadError>>, Repairs) {
        let count = reads.len();
        let mut numbered: Vec<(usize, ReadInto<'_>)> = reads.into_iter().enumerate().collect();
        numbered.sort_by_key(|(number, read)| (read.position, *number));
        let mut runs = Vec::with_capacity(count.div_ceil(RUN_OBJECTS));
        while !numbered.is_empty() {
            runs.push(numbered.split_off(numbered.len().saturating_sub(RUN_OBJECTS)));
        }
        // Runs are taken from the end, so the first one is last.
        let threads = self.threads().clamp(1, runs.len().max(1));
        let runs = Mutex::new(runs);
        let work = || {
            let mut reader = ObjectReader::new(self).sharing_platters();
            let mut done = Vec::new();
            loop {
                let next = runs.lock().expect("nothing panics while it holds this lock").pop();
                let Some(run) = next else { break };
                let positions: Vec<MediumPosition> = run.iter().map(|(_, read)| read.position).collect();
                for (at, (number, read)) in run.into_iter().enumerate() {
                    reader.expect(positions[at..].iter().copied());
                    done.push((number, read_into(&mut reader, read)));
                }
            }
            (done, reader.repairs())
        };
        let ends: Vec<_> = std::thread::scope(|scope| {
            let workers: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            let own = work();
            let joined = workers.into_iter().map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            joined.chain([own]).collect()
        });
        let mut results: Vec<Option<Result<(), ReadError>>> = (0..count).map(|_| None).collect();
        let mut repairs = Repairs::default();
        for (done, of_thread) in ends {
            repairs.add(of_thread);
            done.into_iter().for_each(|(number, result)| results[number] = Some(result));
        }
        (results.into_iter().map(|result| result.expect("each is read once")).collect(), repairs)
    }

    /// Calls `find` for each of `what` on several threads, and returns the results in order.
    fn look_up<T: Sync, R: Send>(&self, what: &[T], find: impl Fn(&T) -> R + Sync) -> Vec<R> {
        let pieces: Vec<&[T]> = what.chunks(LOOKUPS).collect();
        let threads = self.threads().clamp(1, pieces.len().max(1));
        let next = AtomicUsize::new(0);
        let work = || {
            let mut found: Vec<(usize, Vec<R>)> = Vec::new();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(piece) = pieces.get(index) else { return found };
                found.push((index, piece.iter().map(&find).collect()));
            }
        };
        let mut found: Vec<(usize, Vec<R>)> = std::thread::scope(|scope| {
            let workers: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            let own = work();
            let joined = workers.into_iter().flat_map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            joined.chain(own).collect()
        });
        found.sort_by_key(|(index, _)| *index);
        found.into_iter().flat_map(|(_, piece)| piece).collect()
    }
}

fn read_into(reader: &mut ObjectReader<'_>, read: ReadInto<'_>) -> Result<(), ReadError> {
    let ReadInto { version, range, out, .. } = read;
    assert_eq!(range.end.saturating_sub(range.start), out.len() as u64, "the memory is as long as the range");
    let mut filled = 0;
    let mut sink = |bytes: &[u8]| {
        out[filled..][..bytes.len()].copy_from_slice(bytes);
        filled += bytes.len();
        Ok(())
    };
    let done = match range == (0..version.record.size) {
        true => reader.read(version, &mut sink),
        false => reader.read_range(version, range, &mut sink),
    };
    match &done {
        Ok(()) => assert_eq!(filled, out.len(), "a successful read is complete"),
        Err(_) => out.fill(0),
    }
    done
}
