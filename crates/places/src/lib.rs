//! Places where files are: what an audit or a migration needs of a folder, a bucket or a server.
//!
//! A [`Place`] opens [`Connection`]s. Each worker of a node has one of its own, and a reading that
//! found something wrong is repeated by a fresh one, so that a fault of a connection isn't taken
//! for a fault of a copy. All calls block, with deadlines: a worker thread belongs to one node, so
//! a node that never answers holds up no other node.

#![forbid(unsafe_code)]

mod address;
mod byte_names;
#[cfg(test)]
mod conformance;
mod deadlines;
mod folder;
mod folding;
mod left_out;
mod location;
#[cfg(feature = "remote")]
mod remote;
#[cfg(feature = "remote")]
mod secret;
mod sftp;

use std::io;
use std::time::Duration;

use fulgurite_digest::Digest;
use fulgurite_domain::Modified;

pub use address::{Address, AddressError};
pub use byte_names::{location_of, name_at};
pub use deadlines::Deadlines;
pub use folder::Folder;
pub use folding::{Folding, folding_of};
pub use left_out::LeftOut;
pub use sftp::Sftp;

/// Where a node's copies are.
pub trait Place: Send + Sync {
    /// Opens a connection that shares nothing with earlier ones: no socket, no session, no cache.
    ///
    /// # Errors
    /// If the place can't be reached or its settings are unusable.
    fn connect(&self) -> Result<Box<dyn Connection>, Refusal>;

    /// Reads the content at a URL that [`Connection::presigned_url`] returned, with a plain GET
    /// over a new connection, and passes it to `sink`. Returns its length in bytes.
    ///
    /// # Errors
    /// As [`Connection::read`]. Refusals don't repeat the URL's query, which may contain a
    /// signature.
    fn fetch_url(&self, url: &str, sink: &mut dyn FnMut(&[u8]) -> bool) -> Result<u64, Refusal> {
        let _ = (url, sink);
        Err(Refusal::new(Cause::Unsupported, "it has no URLs"))
    }

    /// Describes the place for people, such as `s3://bucket/prefix at https://host`. Never contains
    /// a secret.
    fn describe(&self) -> String;
}

/// A connection to a place, used by one thread at a time.
pub trait Connection: Send {
    /// Returns the length in bytes that the place states for a file, without reading it.
    ///
    /// # Errors
    /// [`Cause::Missing`] only if the place states that the file doesn't exist.
    fn length(&mut self, location: &str) -> Result<u64, Refusal>;

    /// Returns what the place states about a file, without reading it.
    ///
    /// # Errors
    /// As [`length`](Self::length).
    fn stated(&mut self, location: &str) -> Result<Statement, Refusal> {
        Ok(Statement { bytes: self.length(location)?, digests: Vec::new() })
    }

    /// Reads a whole file and passes its bytes to `sink`, in order, until `sink` returns false.
    /// Returns the number of bytes passed.
    ///
    /// # Errors
    /// [`Cause::Abandoned`] if `sink` returned false. [`Cause::Cut`] if the content ended before,
    /// or went on after, the length stated at the beginning of the answer. What `sink` has received
    /// is void if the call fails.
    fn read(&mut self, location: &str, sink: &mut dyn FnMut(&[u8]) -> bool) -> Result<u64, Refusal>;

    /// Gets the first of these files (their locations and expected lengths) into memory, if the
    /// place can send many small files with one answer. The next [`read`](Self::read) of each takes
    /// its content from there. What an earlier call got is discarded. Returns how many files were
    /// asked for; 0 if the next file must be read alone. Files that the place couldn't send, and
    /// all of them if it sent nothing usable, are read as usual, which says why.
    ///
    /// # Errors
    /// If the place doesn't answer or asks for fewer requests. For some time, further calls return
    /// 0.
    fn read_ahead(&mut self, files: &mut dyn Iterator<Item = (&str, u64)>) -> Result<usize, Refusal> {
        let _ = files;
        Ok(0)
    }

    /// Lists all files below the place, in no particular order, until `each` returns false.
    ///
    /// # Errors
    /// If the listing is incomplete.
    fn list(&mut self, each: &mut dyn FnMut(Listed) -> bool) -> Result<(), Refusal>;

    /// What the last [listing](Self::list) left out because it is no file, as far as the place
    /// knows.
    fn left_out(&self) -> LeftOut {
        LeftOut::default()
    }

    /// Writes a file of `bytes` bytes. The file appears whole or not at all, where the place can do
    /// that. It replaces an existing file.
    ///
    /// # Errors
    /// If the place refuses, or `content` fails or has another length.
    fn write(&mut self, location: &str, bytes: u64, content: &mut dyn io::Read) -> Result<(), Refusal>;

    /// Writes a file that doesn't exist, as [`write`](Self::write) does. Folders and Fulgurite
    /// servers never replace a file that appears meanwhile; other places look before they write.
    ///
    /// # Errors
    /// [`Cause::Exists`] if there is something of this name; else as [`write`](Self::write).
    fn write_new(&mut self, location: &str, bytes: u64, content: &mut dyn io::Read) -> Result<(), Refusal> {
        check_missing(self, location)?;
        self.write(location, bytes, content)
    }

    /// Writes the first of these files, which don't exist, with one request, if the place can do
    /// that. A file that exists is never replaced, not even one that appears meanwhile. Returns a
    /// result for each file that was sent; none if the next file must be written alone. If no
    /// usable answer came, the files may have been written nevertheless.
    fn write_new_together(&mut self, files: &mut dyn Iterator<Item = NewContent<'_>>) -> Vec<Result<(), Refusal>> {
        let _ = files;
        Vec::new()
    }

    /// Writes a file with the time at which it was last modified: as [`write`](Self::write) if
    /// `replaces`, else as [`write_new`](Self::write_new). Places without such times leave it out.
    ///
    /// # Errors
    /// As those.
    fn write_modified(
        &mut self,
        location: &str,
        bytes: u64,
        content: &mut dyn io::Read,
        modified: Option<Modified>,
        replaces: bool,
    ) -> Result<(), Refusal> {
        let _ = modified;
        if replaces { self.write(location, bytes, content) } else { self.write_new(location, bytes, content) }
    }

    /// Returns when a file was last modified, if the place keeps such times.
    ///
    /// # Errors
    /// As [`length`](Self::length).
    fn modified(&mut self, location: &str) -> Result<Option<Modified>, Refusal> {
        let _ = location;
        Ok(None)
    }

    /// Checks that the place is still the one that this connection was opened for. Asks no server.
    ///
    /// # Errors
    /// If it isn't, or can't be reached.
    fn check(&mut self) -> Result<(), Refusal> {
        Ok(())
    }

    /// Returns a text that changes whenever the file is written, if the place can tell without
    /// reading it.
    ///
    /// # Errors
    /// As [`length`](Self::length).
    fn revision(&mut self, location: &str) -> Result<Option<String>, Refusal> {
        let _ = location;
        Ok(None)
    }

    /// Returns the device and inode of a file, if the place is on this machine: places that return
    /// the same ones have one file, not two copies.
    ///
    /// # Errors
    /// As [`length`](Self::length).
    fn identity(&mut self, location: &str) -> Result<Option<(u64, u64)>, Refusal> {
        let _ = location;
        Ok(None)
    }

    /// Reads a whole file as [`read`](Self::read) does, and makes sure that it didn't change
    /// meanwhile, as far as the place can tell.
    ///
    /// # Errors
    /// [`Cause::Fault`] if it changed; else as [`read`](Self::read).
    fn read_unchanged(&mut self, location: &str, sink: &mut dyn FnMut(&[u8]) -> bool) -> Result<Unchanged, Refusal> {
        let revision = self.revision(location)?;
        let bytes = self.read(location, sink)?;
        let modified = self.modified(location)?;
        match self.revision(location)? == revision {
            true => Ok(Unchanged { bytes, modified, revision }),
            false => Err(changed()),
        }
    }

    /// Removes a file. A file that doesn't exist is no error.
    ///
    /// # Errors
    /// If the place refuses.
    fn remove(&mut self, location: &str) -> Result<(), Refusal>;

    /// Returns a URL from which anyone can read a file for `valid`, if the place can sign one or
    /// asks for no credentials.
    ///
    /// # Errors
    /// If the place refuses.
    fn presigned_url(&mut self, location: &str, valid: Duration) -> Result<Option<String>, Refusal>;
}

/// A file that doesn't exist yet.
pub struct NewContent<'a> {
    /// Its location, as [`Connection::write`] takes it.
    pub location: &'a str,
    /// Its length.
    pub bytes: u64,
    /// Its content.
    pub content: Box<dyn io::Read + 'a>,
}

/// What a place states about a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// Its length.
    pub bytes: u64,
    /// Digests of its whole content. Empty if the place states none.
    pub digests: Vec<StatedDigest>,
}

/// A digest that a place states.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatedDigest {
    /// The digest.
    pub digest: Digest,
    /// False if it may be something else that only looks like a digest of the content. Then it
    /// proves something if it is the expected digest, and nothing otherwise.
    pub is_certain: bool,
}

/// A file that a place listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its location, as [`Connection::read`] takes it.
    pub location: String,
    /// Its length, if the listing states it.
    pub bytes: Option<u64>,
    /// Where it is on a medium that is read in order, such as a tape.
    pub position: Option<VolumePosition>,
    /// A digest of its content that the place recorded when the file was written.
    pub digest: Option<Digest>,
    /// When it was last modified, if the listing states it. Where [`Connection::modified`] returns
    /// such times, it is the same one.
    pub modified: Option<Modified>,
    /// A text that changes when the file is replaced, such as an ETag, if the listing states one.
    /// Only comparable with those of other listings.
    pub tag: Option<String>,
}

impl Listed {
    /// A file of which the place states only this.
    #[must_use]
    pub fn new(location: String, bytes: Option<u64>) -> Self {
        Self { location, bytes, position: None, digest: None, modified: None, tag: None }
    }
}

/// Where a file is on a medium that is read in order. Only one drive can read a volume at a time,
/// and files are read fastest in the order of their positions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumePosition {
    /// The volume's name.
    pub volume: String,
    /// What tells the medium apart from others of the same name, such as a UUID.
    pub medium: Option<String>,
    /// The file's first block on the volume. At most [`MAX_BLOCK`](Self::MAX_BLOCK).
    pub block: u64,
}

impl VolumePosition {
    /// The largest block number.
    pub const MAX_BLOCK: u64 = i64::MAX as u64;

    /// A block of a volume with two partitions, which follow each other.
    #[must_use]
    pub fn in_partition(volume: String, is_second: bool, block: u64) -> Self {
        let half = Self::MAX_BLOCK / 2;
        Self { volume, medium: None, block: block.min(half) + if is_second { half } else { 0 } }
    }
}

/// A file that didn't change while it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unchanged {
    /// Its length.
    pub bytes: u64,
    /// As [`Connection::modified`].
    pub modified: Option<Modified>,
    /// As [`Connection::revision`].
    pub revision: Option<String>,
}

/// Why a place did not do what was asked. None of these says that a copy is corrupt.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{cause}{}{detail}", if detail.is_empty() { "" } else { ": " })]
pub struct Refusal {
    /// What kind of refusal it is.
    pub cause: Cause,
    /// What the place, or the library that talks to it, said. Never contains a secret.
    pub detail: String,
}

impl Refusal {
    /// A refusal with what the place said.
    pub fn new(cause: Cause, detail: impl Into<String>) -> Self {
        Self { cause, detail: detail.into() }
    }
}

/// Kinds of refusals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    /// The place states that the file does not exist.
    #[error("the file does not exist")]
    Missing,
    /// The place knows the file, and states that its content is lost for good: not merely out of
    /// reach, or unreadable now.
    #[error("the content is lost for good")]
    Lost,
    /// Credentials are wrong, missing or expired, or do not permit this.
    #[error("access denied")]
    Denied,
    /// The place asks for fewer requests.
    #[error("throttled{}", retry_after.map_or_else(String::new, |wait| format!(", asks to wait {} s", wait.as_secs())))]
    Throttled {
        /// How long the place asks to wait.
        retry_after: Option<Duration>,
    },
    /// No answer, or no further byte, within the deadline.
    #[error("no answer within the deadline")]
    TimedOut,
    /// The content ended early or went on too long, measured by the length that the same answer
    /// stated.
    #[error("the answer has {received} of {stated} bytes")]
    Cut {
        /// Bytes that arrived.
        received: u64,
        /// Bytes that the answer stated.
        stated: u64,
    },
    /// The connection was refused, reset or closed, or a name can't be resolved.
    #[error("connection failed")]
    Connection,
    /// A folder that is the whole place is gone, or has been replaced, as when a disk isn't
    /// mounted. Says nothing about any file. Buckets don't come back, so one that is gone is a
    /// [`Fault`](Self::Fault).
    #[error("the place is not there")]
    Absent,
    /// The place reports a fault of its own, such as HTTP 500 or an I/O error of a disk.
    #[error("the place reports a fault")]
    Fault,
    /// There is a file of this name, and it must not be replaced.
    #[error("a file of this name exists")]
    Exists,
    /// The caller ended the reading.
    #[error("the reading was ended early")]
    Abandoned,
    /// The settings of the place are unusable, or it can't do this at all.
    #[error("not possible with this place")]
    Unsupported,
}

impl Cause {
    /// True if the same request may succeed soon, without any change.
    #[must_use]
    pub fn is_temporary(self) -> bool {
        matches!(self, Self::Throttled { .. } | Self::TimedOut | Self::Cut { .. } | Self::Connection | Self::Absent | Self::Fault)
    }

    /// True if the place didn't answer, or asks for fewer requests: no file is to blame.
    #[must_use]
    pub fn is_out_of_reach(self) -> bool {
        matches!(self, Self::TimedOut | Self::Connection | Self::Throttled { .. })
    }

    /// A short name for reports and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Lost => "lost",
            Self::Denied => "denied",
            Self::Throttled { .. } => "throttled",
            Self::TimedOut => "timed-out",
            Self::Cut { .. } => "cut",
            Self::Connection => "connection",
            Self::Absent => "absent",
            Self::Fault => "fault",
            Self::Exists => "exists",
            Self::Abandoned => "abandoned",
            Self::Unsupported => "unsupported",
        }
    }
}

/// Makes sure that a file doesn't exist.
fn check_missing<C: Connection + ?Sized>(connection: &mut C, location: &str) -> Result<(), Refusal> {
    match connection.length(location) {
        Ok(_) => Err(Refusal::new(Cause::Exists, location)),
        Err(Refusal { cause: Cause::Missing, .. }) => Ok(()),
        Err(refusal) => Err(refusal),
    }
}

fn changed() -> Refusal {
    Refusal::new(Cause::Fault, "it changed while it was read")
}

/// Passes a piece of content on.
fn pass(sink: &mut dyn FnMut(&[u8]) -> bool, piece: &[u8]) -> Result<(), Refusal> {
    if sink(piece) { Ok(()) } else { Err(Refusal::new(Cause::Abandoned, "")) }
}

/// Fills `piece` from a reader, as far as it goes. Returns the number of bytes.
fn fill(content: &mut dyn io::Read, piece: &mut [u8]) -> Result<usize, Refusal> {
    let mut filled = 0;
    while filled < piece.len() {
        match content.read(&mut piece[filled..]) {
            Ok(0) => break,
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Refusal::new(Cause::Fault, format!("reading what should be written failed: {error}"))),
        }
    }
    Ok(filled)
}

/// What is written has another length than was announced.
fn wrong_length(received: u64, stated: u64) -> Refusal {
    Refusal::new(Cause::Cut { received, stated }, "what should be written has another length")
}
