//! What a migration needs of its destination.

use std::io::Read;
use std::sync::Arc;

use fulgurite_digest::{Algorithm, Digest, Digester};
use fulgurite_domain::Modified;
use fulgurite_places::{Cause, Connection, Folding, NewContent, Place, Refusal, folding_of};

use super::same_place::SamePlace;
use super::spool::Spooled;

/// Where a migration's files go.
pub trait Destination: Send + Sync {
    /// Opens a connection for an output stream.
    ///
    /// # Errors
    /// If the destination can't be reached or used.
    fn writer(&self) -> Result<Box<dyn LotWriter>, Refusal>;

    /// Opens a connection that shares no socket and no content with earlier ones, to read back what
    /// was written.
    ///
    /// # Errors
    /// If the destination can't be reached or used.
    fn back_reader(&self) -> Result<Box<dyn BackReader>, Refusal>;

    /// What the destination doesn't distinguish in names. May write an empty file for a moment.
    ///
    /// # Errors
    /// If that can't be found out.
    fn folding(&self) -> Result<Folding, Refusal> {
        Ok(Folding::default())
    }
}

/// A connection that reads back what was written.
pub trait BackReader {
    /// Reads all bytes of a file. Returns its length and SHA-256.
    ///
    /// # Errors
    /// As [`Connection::read`].
    fn sha256(&mut self, location: &str) -> Result<(u64, Digest), Refusal>;

    /// Gets the first of these files into memory: as [`Connection::read_ahead`].
    ///
    /// # Errors
    /// As that.
    fn read_ahead(&mut self, files: &mut dyn Iterator<Item = (&str, u64)>) -> Result<usize, Refusal> {
        let _ = files;
        Ok(0)
    }

    /// The length that the destination states.
    ///
    /// # Errors
    /// As [`Connection::length`].
    fn length(&mut self, location: &str) -> Result<u64, Refusal>;

    /// Identifies the file on this machine: as [`Connection::identity`].
    ///
    /// # Errors
    /// As that.
    fn identity(&mut self, location: &str) -> Result<Option<(u64, u64)>, Refusal> {
        let _ = location;
        Ok(None)
    }

    /// True if the file is still in a buffer, such as an archive's staging, and would be lost with
    /// the disk that has it.
    ///
    /// # Errors
    /// As [`Connection::length`].
    fn is_buffered(&mut self, location: &str) -> Result<bool, Refusal> {
        let _ = location;
        Ok(false)
    }
}

/// A connection of an output stream.
pub trait LotWriter: Send {
    /// Writes files. Those whose result is `Ok` survive a crash of the destination as far as it
    /// promises that with its acknowledgement. The results are in the order of the files. Files of
    /// the same names that the migration didn't write are never replaced. Calls
    /// `arrived` with the index of each file as soon as its result is `Ok`.
    fn write(&mut self, files: &[Outgoing<'_>], arrived: &mut dyn FnMut(usize, Stored)) -> Vec<Result<Stored, Refusal>>;
}

/// How a file got to the destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    /// It was written.
    Written,
    /// A file with the same name and content was there.
    Found,
}

/// A file on its way out of a spool volume.
#[derive(Debug, Clone, Copy)]
pub struct Outgoing<'a> {
    /// Its location at the destination.
    pub location: &'a str,
    /// Its length.
    pub bytes: u64,
    /// The SHA-256 with which it was read.
    pub sha256: &'a Digest,
    /// When it was last modified, if the source says so.
    pub modified: Option<Modified>,
    /// True if the migration wrote it before, and may replace what it wrote.
    pub was_written: bool,
    /// Its lot, spooled.
    pub(super) spooled: &'a Spooled,
    /// Where it begins there.
    pub(super) offset: u64,
}

impl Outgoing<'_> {
    /// Reads its content.
    #[must_use]
    pub fn reader(&self) -> Box<dyn Read + Send + '_> {
        self.spooled.reader(self.offset, self.bytes)
    }

    /// True if its content is still in the memory in which it was hashed, and on no disk.
    #[must_use]
    pub fn is_in_memory(&self) -> bool {
        matches!(self.spooled, Spooled::Memory(_))
    }
}

/// A folder, a bucket or a server as a destination.
pub struct PlaceDestination(SamePlace);

impl PlaceDestination {
    /// A place as a destination.
    #[must_use]
    pub fn new(place: Arc<dyn Place>) -> Self {
        Self(SamePlace::new(place))
    }
}

impl Destination for PlaceDestination {
    fn writer(&self) -> Result<Box<dyn LotWriter>, Refusal> {
        Ok(Box::new(PlaceWriter(self.0.connect()?)))
    }

    fn back_reader(&self) -> Result<Box<dyn BackReader>, Refusal> {
        Ok(Box::new(PlaceReader(self.0.connect()?)))
    }

    fn folding(&self) -> Result<Folding, Refusal> {
        folding_of(&mut *self.0.connect()?)
    }
}

struct PlaceReader(Box<dyn Connection>);

impl BackReader for PlaceReader {
    fn sha256(&mut self, location: &str) -> Result<(u64, Digest), Refusal> {
        read_sha256(&mut *self.0, location)
    }

    fn read_ahead(&mut self, files: &mut dyn Iterator<Item = (&str, u64)>) -> Result<usize, Refusal> {
        self.0.read_ahead(files)
    }

    fn length(&mut self, location: &str) -> Result<u64, Refusal> {
        self.0.length(location)
    }

    fn identity(&mut self, location: &str) -> Result<Option<(u64, u64)>, Refusal> {
        self.0.identity(location)
    }
}

struct PlaceWriter(Box<dyn Connection>);

impl LotWriter for PlaceWriter {
    fn write(&mut self, files: &[Outgoing<'_>], arrived: &mut dyn FnMut(usize, Stored)) -> Vec<Result<Stored, Refusal>> {
        let mut results = Vec::with_capacity(files.len());
        while let Some(next) = files.get(results.len()..).filter(|rest| !rest.is_empty()) {
            let new = next.iter().take_while(|file| !file.was_written);
            let mut new = new.map(|file| NewContent { location: file.location, bytes: file.bytes, content: file.reader() });
            let together = self.0.write_new_together(&mut new);
            if let Some(Err(refusal)) = together.first()
                && refusal.cause.is_out_of_reach()
            {
                // The place is to blame. Written one by one, the other files would wait as long.
                results.resize(files.len(), Err(refusal.clone()));
                break;
            }
            let count = together.len().max(1);
            let mut together = together.into_iter();
            for _ in 0..count {
                let index = results.len();
                let stored = match together.next() {
                    Some(Ok(())) => Ok(Stored::Written),
                    // Writing it alone succeeds, or says why not.
                    _ => self.write_one(&files[index]),
                };
                results.push(stored.inspect(|&stored| arrived(index, stored)));
            }
        }
        results
    }
}

impl PlaceWriter {
    fn write_one(&mut self, file: &Outgoing<'_>) -> Result<Stored, Refusal> {
        let connection = &mut *self.0;
        if file.was_written {
            return write(connection, file, true).map(|()| Stored::Written);
        }
        // Looked up first, so that content isn't sent in vain.
        let bytes = match connection.length(file.location) {
            Ok(bytes) => bytes,
            Err(Refusal { cause: Cause::Missing, .. }) => match write(connection, file, false) {
                // Another writer was faster.
                Err(Refusal { cause: Cause::Exists, .. }) => match connection.length(file.location) {
                    // Such as a symbolic link that leads nowhere.
                    Err(Refusal { cause: Cause::Missing, .. }) => return Err(other_file()),
                    length => length?,
                },
                written => return written.map(|()| Stored::Written),
            },
            Err(refusal) => return Err(refusal),
        };
        if bytes == file.bytes && read_sha256(connection, file.location)?.1 == *file.sha256 {
            return Ok(Stored::Found);
        }
        Err(other_file())
    }
}

fn write(connection: &mut dyn Connection, file: &Outgoing<'_>, replaces: bool) -> Result<(), Refusal> {
    connection.write_modified(file.location, file.bytes, &mut file.reader(), file.modified, replaces)
}

/// The destination has another file of the same name.
#[must_use]
pub fn other_file() -> Refusal {
    Refusal::new(Cause::Unsupported, "the destination has another file of this name, which the migration didn't write and doesn't replace")
}

/// Reads a file. Returns its length and SHA-256.
///
/// # Errors
/// As [`Connection::read`].
pub fn read_sha256(connection: &mut dyn Connection, location: &str) -> Result<(u64, Digest), Refusal> {
    let mut digester = Digester::new(&[Algorithm::Sha256]);
    let mut sink = |piece: &[u8]| {
        digester.update(piece);
        true
    };
    let bytes = connection.read(location, &mut sink)?;
    let digest = digester.finish().pop().expect("one digest for one algorithm");
    Ok((bytes, digest))
}
