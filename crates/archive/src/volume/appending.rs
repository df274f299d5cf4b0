//! Files that are appended to in pieces of all sizes, and synced often.
//!
//! Small pieces go through the page cache, and a sync writes them to disk. Large ones go directly
//! to the disk (`O_DIRECT`): copying them into the page cache would take longer than the disk does,
//! and would evict pages that are read. The two paths never share a block: the bytes before the
//! first whole block of a large piece, and after the last one, go through the page cache.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use fulgurite_codec::AlignedBytes;

use super::VolumeFile;
use super::direct::{ALIGNMENT, is_refusal};

/// Maximum number of buffered bytes.
const BUFFER_BYTES: usize = 2 << 20;
/// Minimum size of a direct write. Smaller pieces go to the disk when they are synced, while the
/// next one is buffered.
const DIRECT_WRITE_BYTES: usize = 1 << 20;

/// Writes to a file. Large pieces whose memory is aligned like their place in the file, as those
/// of [`Appending`] are, go through the `direct` path.
pub(super) fn write_at(ordinary: &File, direct: &File, mut offset: u64, mut bytes: &[u8]) -> io::Result<()> {
    let before = (offset.next_multiple_of(ALIGNMENT as u64) - offset) as usize;
    let whole = bytes.len().saturating_sub(before) / ALIGNMENT * ALIGNMENT;
    if whole >= DIRECT_WRITE_BYTES && bytes[before..].as_ptr().addr().is_multiple_of(ALIGNMENT) {
        ordinary.write_all_at(&bytes[..before], offset)?;
        (offset, bytes) = (offset + before as u64, &bytes[before..]);
        match direct.write_all_at(&bytes[..whole], offset) {
            Ok(()) => (offset, bytes) = (offset + whole as u64, &bytes[whole..]),
            Err(error) if is_refusal(&error) => {}
            Err(error) => return Err(error),
        }
    }
    ordinary.write_all_at(bytes, offset)
}

/// Appends to a file through a buffer whose alignment matches the file's.
pub(crate) struct Appending {
    /// The file. It doesn't contain the buffered bytes yet.
    pub(crate) file: Arc<dyn VolumeFile>,
    pub(crate) written: u64,
    memory: AlignedBytes,
    buffered: usize,
}

impl Appending {
    pub(crate) fn new(file: Arc<dyn VolumeFile>) -> Self {
        Self { file, written: 0, memory: AlignedBytes::zeroed(BUFFER_BYTES + ALIGNMENT, ALIGNMENT), buffered: 0 }
    }

    /// Length of the file after all buffered bytes are written.
    pub(crate) fn length(&self) -> u64 {
        self.written + self.buffered as u64
    }

    pub(crate) fn is_written(&self) -> bool {
        self.buffered == 0
    }

    /// Appends bytes. They may still be buffered afterwards.
    pub(crate) fn append(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            // The buffer ends at a block boundary, so that the next piece starts at one.
            let room = self.memory.len() - self.start() - self.buffered;
            let (now, later) = bytes.split_at(bytes.len().min(room));
            let at = self.start() + self.buffered;
            self.memory[at..at + now.len()].copy_from_slice(now);
            self.buffered += now.len();
            if now.len() == room {
                self.write_out()?;
            }
            bytes = later;
        }
        Ok(())
    }

    pub(crate) fn write_out(&mut self) -> io::Result<()> {
        let start = self.start();
        self.file.write_at(self.written, &self.memory[start..start + self.buffered])?;
        self.written += self.buffered as u64;
        self.buffered = 0;
        Ok(())
    }

    /// Start of the buffered bytes in memory: the same offset within a block as in the file.
    fn start(&self) -> usize {
        (self.written % ALIGNMENT as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::{FolderVolume, Volume};

    #[test]
    fn pieces_of_all_sizes_are_written_in_order() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let volume = FolderVolume::new(folder.path());
        let file: Arc<dyn VolumeFile> = Arc::from(volume.create_appended("x").expect("created"));
        file.allocate(16 << 20).expect("room");
        let mut appending = Appending::new(file.clone());
        let mut expected = Vec::new();
        let sizes = [5, 4_091, 1 << 20, 3 << 20, 0, 4_096, 64, (2 << 20) + 1, 77, 1_500_000, 2];
        for (index, &size) in sizes.iter().enumerate() {
            let piece: Vec<u8> = (0..size).map(|byte: usize| (byte * 31 + index * 7 + (byte >> 8)) as u8).collect();
            appending.append(&piece).expect("appended");
            expected.extend_from_slice(&piece);
            assert_eq!(appending.length(), expected.len() as u64);
            if index % 3 == 0 {
                appending.write_out().expect("written");
                file.sync().expect("synced");
                let found = std::fs::read(folder.path().join("x")).expect("read");
                assert!(found[..expected.len()] == expected, "after piece {index}");
            }
        }
        appending.write_out().expect("written");
        assert!(appending.is_written());
        file.set_length(appending.length()).expect("cut");
        assert!(std::fs::read(folder.path().join("x")).expect("read") == expected);
    }
}
