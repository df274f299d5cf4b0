//! A store in a local folder, with one file per platter.

#[cfg(test)]
mod tests;

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use fulgurite_codec::AlignedBytes;
use fulgurite_domain::{ArchiveId, PlatterId};
use fulgurite_glass::PlatterSource;

use super::layout::{self, MARK, PLATTERS, file_name, part_name};
use super::{PlatterFile, PlatterSink, PlatterStore, StoreError};
use crate::folder_mark::{read_mark, write_mark};
use crate::volume::{NotAFile, PIECE_BYTES, Volume, VolumeFile, new_piece};

/// A store in a folder.
pub struct FolderStore {
    name: String,
    archive: ArchiveId,
    volume: Arc<dyn Volume>,
}

impl FolderStore {
    /// Creates the store `name` of an archive, in a volume.
    #[must_use]
    pub fn new(name: String, archive: ArchiveId, volume: Arc<dyn Volume>) -> Self {
        Self { name, archive, volume }
    }

    /// Returns the text of the mark in a volume, valid or not; `None` if there is no mark.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the mark can't be read.
    pub fn mark_in(volume: Arc<dyn Volume>) -> Result<Option<String>, StoreError> {
        Self::new(volume.describe(), ArchiveId([0; 16]), volume).read_mark()
    }

    fn read_mark(&self) -> Result<Option<String>, StoreError> {
        read_mark(&*self.volume, MARK).map_err(StoreError::io(self))
    }

    fn is_marked(&self) -> Result<bool, StoreError> {
        layout::is_marked(self, self.archive, self.read_mark()?.as_deref())
    }

    fn write_mark(&self) -> Result<(), StoreError> {
        let write = || {
            self.volume.create_directory(PLATTERS)?;
            write_mark(&*self.volume, MARK, &layout::mark_text(self.archive, &self.name))
        };
        write().map_err(StoreError::io(self))
    }
}

impl PlatterStore for FolderStore {
    fn name(&self) -> &str {
        &self.name
    }

    fn place(&self) -> String {
        self.volume.describe()
    }

    fn mark(&self) -> Result<(), StoreError> {
        if self.is_marked()? { Ok(()) } else { self.write_mark() }
    }

    fn restore_mark(&self) -> Result<(), StoreError> {
        if layout::lacks_mark(self.is_marked())? { self.write_mark() } else { Ok(()) }
    }

    fn check(&self) -> Result<(), StoreError> {
        match self.is_marked()? {
            true => Ok(()),
            false => Err(layout::unmarked(self)),
        }
    }

    fn check_writable(&self) -> Result<(), StoreError> {
        self.check()?;
        let checked = match self.volume.check_writable(PLATTERS) {
            // `create` makes the folder of platters again.
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.volume.check_writable(""),
            checked => checked,
        };
        checked.map_err(|source| StoreError::ReadOnly { store: self.name.clone(), place: self.place(), source })?;
        match self.volume.has_free_files() {
            true => Ok(()),
            false => Err(StoreError::NoFreeFiles { store: self.name.clone(), place: self.place() }),
        }
    }

    fn create(&self, platter: PlatterId, bytes: u64) -> io::Result<Box<dyn PlatterSink>> {
        let (part, name) = (part_name(platter), file_name(platter));
        // The platter could not get its name, which would be noticed only after all of it is
        // written.
        if self.volume.is_folder(&name) {
            let text = format!("{}/{name} is a folder. Move it away, because a platter should have this name", self.place());
            return Err(io::Error::new(io::ErrorKind::IsADirectory, text));
        }
        // The folder of platters may have been lost; this platter may replace one that was in it.
        if matches!(self.volume.list(PLATTERS), Err(error) if error.kind() == io::ErrorKind::NotFound) {
            self.volume.create_directory(PLATTERS)?;
            // Otherwise a crash could lose the folder with every platter in it.
            self.volume.sync_directory("")?;
        }
        match self.volume.remove(&part) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = self.volume.create_direct(&part)?;
        if let Err(error) = file.allocate(bytes) {
            let _ = self.volume.remove(&part);
            return Err(error);
        }
        Ok(Box::new(FolderSink::new(self.volume.clone(), platter, file)))
    }

    fn open(&self, platter: PlatterId) -> io::Result<Option<Arc<dyn PlatterFile>>> {
        match self.volume.open_direct(&file_name(platter)) {
            Ok(file) => Ok(Some(Arc::new(FolderPlatter(file)))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => match NotAFile::in_error(&error) {
                Some(found) => Ok(Some(Arc::new(Obstacle(found.to_string())))),
                None => Err(error),
            },
        }
    }

    fn list(&self) -> io::Result<Vec<PlatterId>> {
        let names = self.names()?;
        Ok(names.iter().filter_map(|name| layout::platter(name)).collect())
    }

    fn remove(&self, platter: PlatterId) -> io::Result<()> {
        match self.volume.remove(&file_name(platter)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        match self.volume.sync_directory(PLATTERS) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            synced => synced,
        }
    }

    fn sweep(&self) -> io::Result<()> {
        for name in self.names()? {
            if layout::is_part(&name) {
                self.volume.remove(&format!("{PLATTERS}/{name}"))?;
            }
        }
        Ok(())
    }

    fn free_bytes(&self) -> Option<u64> {
        self.volume.free_bytes()
    }
}

impl FolderStore {
    /// Names in the folder of platters; empty if the folder is lost. The mark doesn't depend on it.
    fn names(&self) -> io::Result<Vec<String>> {
        match self.volume.list(PLATTERS) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            names => names,
        }
    }
}

/// A platter being written. A separate thread writes the bytes, so that encoding continues
/// meanwhile.
struct FolderSink {
    volume: Arc<dyn Volume>,
    platter: PlatterId,
    pieces_tx: Option<SyncSender<(AlignedBytes, usize)>>,
    empty_rx: Receiver<AlignedBytes>,
    writer: Option<JoinHandle<io::Result<Box<dyn VolumeFile>>>>,
    piece: Option<AlignedBytes>,
    buffered: usize,
    complete: bool,
    committed: bool,
}

/// Pieces that may be queued for the disk.
const PIECES_QUEUED_MAX: usize = 2;

impl FolderSink {
    fn new(volume: Arc<dyn Volume>, platter: PlatterId, file: Box<dyn VolumeFile>) -> Self {
        let (pieces_tx, pieces_rx) = sync_channel::<(AlignedBytes, usize)>(PIECES_QUEUED_MAX);
        let (empty_tx, empty_rx) = channel();
        let writer = std::thread::spawn(move || {
            let mut written = 0;
            for (piece, bytes) in pieces_rx {
                file.write_at(written, &piece[..bytes])?;
                written += bytes as u64;
                let _ = empty_tx.send(piece);
            }
            Ok(file)
        });
        Self {
            volume,
            platter,
            pieces_tx: Some(pieces_tx),
            empty_rx,
            writer: Some(writer),
            piece: None,
            buffered: 0,
            complete: false,
            committed: false,
        }
    }

    fn send_piece(&mut self) -> io::Result<()> {
        let Some(piece) = self.piece.take() else { return Ok(()) };
        let bytes = std::mem::take(&mut self.buffered);
        match self.pieces_tx.as_ref().map(|pieces_tx| pieces_tx.send((piece, bytes))) {
            Some(Ok(())) => Ok(()),
            // The thread stopped early; its error says why.
            _ => Err(self.finish_writing().err().unwrap_or_else(|| io::Error::other("the platter is finished"))),
        }
    }

    fn finish_writing(&mut self) -> io::Result<Box<dyn VolumeFile>> {
        self.pieces_tx = None;
        let writer = self.writer.take().ok_or_else(|| io::Error::other("an earlier write failed"))?;
        writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    fn complete(&mut self) -> io::Result<()> {
        if self.complete {
            return Ok(());
        }
        self.send_piece()?;
        let file = self.finish_writing()?;
        file.sync()?;
        file.forget_cached();
        self.complete = true;
        Ok(())
    }
}

impl Write for FolderSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let now = bytes.len().min(PIECE_BYTES - self.buffered);
        let piece = self.piece.get_or_insert_with(|| self.empty_rx.try_recv().unwrap_or_else(|_| new_piece()));
        piece[self.buffered..self.buffered + now].copy_from_slice(&bytes[..now]);
        self.buffered += now;
        if self.buffered == PIECE_BYTES {
            self.send_piece()?;
        }
        Ok(now)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl PlatterSink for FolderSink {
    fn finish(&mut self) -> io::Result<Arc<dyn PlatterFile>> {
        self.complete()?;
        Ok(Arc::new(FolderPlatter(self.volume.open_direct(&part_name(self.platter))?)))
    }

    fn commit(mut self: Box<Self>) -> io::Result<()> {
        // Sync before the rename, so that a named platter is complete whatever happens.
        self.complete()?;
        self.volume.rename(&part_name(self.platter), &file_name(self.platter))?;
        self.volume.sync_directory(PLATTERS)?;
        self.committed = true;
        Ok(())
    }
}

impl Drop for FolderSink {
    fn drop(&mut self) {
        if !self.committed {
            let _ = self.finish_writing();
            let _ = self.volume.remove(&part_name(self.platter));
        }
    }
}

/// What is in the place of a platter and isn't a file.
struct Obstacle(String);

impl PlatterSource for Obstacle {
    fn read_at(&self, _offset: u64, _buffer: &mut [u8]) -> io::Result<usize> {
        Ok(0)
    }
}

impl PlatterFile for Obstacle {
    fn length(&self) -> io::Result<u64> {
        Ok(0)
    }

    fn not_a_file(&self) -> Option<&str> {
        Some(&self.0)
    }
}

struct FolderPlatter(Box<dyn VolumeFile>);

impl PlatterSource for FolderPlatter {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(offset, buffer)
    }

    fn read_cached_at(&self, offset: u64, buffer: &mut [u8]) -> bool {
        self.0.read_cached_at(offset, buffer)
    }
}

impl PlatterFile for FolderPlatter {
    fn length(&self) -> io::Result<u64> {
        self.0.length()
    }
}
