//! Reads headers and file tables from platters.

use std::convert::Infallible;
use std::io::{self, Read};
use std::sync::Arc;

use fulgurite_domain::{ArchiveId, PlatterId};
use fulgurite_format::{Entry, FindHeaderError, Header, TableError, TableReader, find_header};

use crate::archive::Archive;
use crate::catalogue::SetDescription;
use crate::set_reader::{OpenSet, SetReader};
use crate::store::{PlatterFile, PlatterStore, read_exact_at};
use crate::unread::{Loaded, Presence};
use crate::watch::{Unwatched, Watcher};

/// Returns the header of a platter on a store, or the reason why it can't be read.
pub(crate) fn read_header(store: &dyn PlatterStore, platter: PlatterId) -> Result<Header, HeaderTrouble> {
    let unreadable = |error: io::Error| HeaderTrouble::Unreadable(error.to_string());
    let Some(file) = store.open(platter).map_err(unreadable)? else { return Err(HeaderTrouble::Unreadable("it is gone".to_owned())) };
    header_in(&*file, platter)
}

/// The header in a file that should be a platter, or why none can be read.
pub(crate) fn header_in(file: &dyn PlatterFile, platter: PlatterId) -> Result<Header, HeaderTrouble> {
    let unreadable = |error: io::Error| HeaderTrouble::Unreadable(error.to_string());
    let length = file.length().map_err(unreadable)?;
    let mut is_refused = false;
    let found = find_header(length, |offset, buffer| {
        let read = read_exact_at(file, offset, buffer);
        is_refused |= read.as_ref().is_err_and(|error| error.kind() != io::ErrorKind::UnexpectedEof);
        read
    });
    let header = found.map_err(|error| match error {
        FindHeaderError::Newer(_) => HeaderTrouble::Unreadable(error.to_string()),
        error if is_refused => HeaderTrouble::Unreadable(error.to_string()),
        error => HeaderTrouble::Bad(error.to_string()),
    })?;
    if header.header.platter != platter {
        return Err(HeaderTrouble::Misnamed { platter: header.header.platter, archive: header.header.archive });
    }
    Ok(header.header)
}

/// Why the header of a platter is not known.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum HeaderTrouble {
    /// The system refuses to read some of it, or a later program wrote it; it may be good.
    #[error("{0}")]
    Unreadable(String),
    /// The file has no good header: the platter is damaged, or it is no platter.
    #[error("{0}")]
    Bad(String),
    /// The header is that of another platter than the file's name says.
    #[error(
        "it is platter {platter}: if no other file is, rename this one to {platter}.platter without overwriting another; \
         otherwise it is a copy, which can be removed"
    )]
    Misnamed {
        /// Whose header it is.
        platter: PlatterId,
        /// The archive of that platter.
        archive: ArchiveId,
    },
}

/// Why a file table was not read to its end.
pub(crate) enum TableTrouble<E> {
    /// `on_entry` failed.
    Stopped(E),
    /// The table can't be read completely, or its checksum is wrong. Its entries must be discarded.
    Unreadable(String),
}

/// Reads the file table of the platter that `header` describes, and passes each entry to
/// `on_entry`. The table was good only if `Ok` is returned.
pub(crate) fn read_table<E>(
    reader: &mut SetReader<'_>,
    header: &Header,
    watcher: &dyn Watcher,
    on_entry: &mut dyn FnMut(Entry) -> Result<(), E>,
) -> Result<(), TableTrouble<E>> {
    let member = header.member();
    let content = TableContent { reader, platter: header.platter, at: member.table_offset, watcher };
    let unreadable = |error: TableError| TableTrouble::Unreadable(error.to_string());
    let mut table = TableReader::new(content, member.table_bytes).map_err(unreadable)?;
    for entry in &mut table {
        on_entry(entry.map_err(unreadable)?).map_err(TableTrouble::Stopped)?;
    }
    match table.finish().map_err(unreadable)? == member.table_crc64 {
        true => Ok(()),
        false => Err(TableTrouble::Unreadable("its checksum is wrong".into())),
    }
}

/// True if a copy of a platter has its whole file table, without help from the rest of its set. A
/// platter without a table has all of it.
pub(crate) fn has_table(archive: &Archive, store: &dyn PlatterStore, header: &Header) -> bool {
    if header.member().table_bytes == 0 {
        return true;
    }
    let Ok(Some(file)) = store.open(header.platter) else { return false };
    let description = SetDescription::of(header, |_| store.name().to_owned());
    let mut members: Vec<Presence> = header.members.iter().map(|_| Presence::missing(store.name())).collect();
    members[usize::from(header.position)] = Presence::Loaded(Loaded::new(header.platter, header.geometry, file, store.name()));
    let mut reader = SetReader::new(&archive.rebuilding, archive.threads());
    reader.open(Arc::new(OpenSet { description, members }));
    read_table(&mut reader, header, &Unwatched, &mut |_| Ok::<(), Infallible>(())).is_ok()
}

struct TableContent<'a, 'r> {
    reader: &'a mut SetReader<'r>,
    platter: PlatterId,
    at: u64,
    watcher: &'a dyn Watcher,
}

impl Read for TableContent<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reader.read(self.platter, self.at, buffer).map_err(|error| io::Error::other(error.to_string()))?;
        self.at += buffer.len() as u64;
        self.watcher.done(0, buffer.len() as u64);
        Ok(buffer.len())
    }
}
