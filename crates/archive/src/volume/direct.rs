//! Files whose large pieces bypass the page cache (`O_DIRECT`).
//!
//! Platters are written once and read back for verification. In the page cache they would only
//! evict useful pages, and a verification that reads from memory proves nothing about the disk.
//! Direct I/O is also faster, because nothing is copied into pages and written from there later.
//! Direct pieces must be aligned. Unaligned bytes go through the page cache, and so does everything
//! on file systems without direct I/O.

use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Mutex;

use fulgurite_codec::AlignedBytes;

/// Alignment of direct pieces: the largest logical block size in use.
pub(super) const ALIGNMENT: usize = 4_096;
/// Bytes per transfer: enough to keep a disk busy.
pub(crate) const PIECE_BYTES: usize = 4 << 20;
/// Shorter unaligned reads go through the page cache, because their neighbours are likely to be
/// read next.
const DIRECT_READ_BYTES: usize = 1 << 20;

/// A second, direct path to the bytes of a file.
pub(super) struct DirectFile {
    direct: File,
    buffered: Mutex<WriteBuffer>,
}

/// Bytes to write, collected to a whole piece.
#[derive(Default)]
struct WriteBuffer {
    /// Where they belong in the file.
    offset: u64,
    piece: Option<AlignedBytes>,
    bytes: usize,
}

impl DirectFile {
    pub(super) fn new(direct: File) -> Self {
        Self { direct, buffered: Mutex::default() }
    }

    /// Writes whole blocks directly, and the rest through the page cache.
    fn write_now(&self, ordinary: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut whole = bytes.len() - bytes.len() % ALIGNMENT;
        if whole > 0 && is_aligned(offset, bytes.as_ptr()) {
            match self.direct.write_all_at(&bytes[..whole], offset) {
                Ok(()) => {}
                Err(error) if is_refusal(&error) => whole = 0,
                Err(error) => return Err(error),
            }
        } else {
            whole = 0;
        }
        ordinary.write_all_at(&bytes[whole..], offset + whole as u64)
    }

    fn write_out(&self, ordinary: &File, buffered: &mut WriteBuffer) -> io::Result<()> {
        if let Some(piece) = &buffered.piece {
            self.write_now(ordinary, buffered.offset, &piece[..buffered.bytes])?;
        }
        buffered.offset += buffered.bytes as u64;
        buffered.bytes = 0;
        Ok(())
    }

    pub(super) fn finish_writing(&self, ordinary: &File) -> io::Result<()> {
        self.write_out(ordinary, &mut self.buffered.lock().expect("nothing panics while it holds this lock"))
    }

    /// Reads directly: into `buffer` if it and `offset` are aligned, else into an aligned piece to
    /// copy from. Reads one piece at most. `None` if direct I/O is unavailable or the read is too
    /// short for it.
    pub(super) fn read_directly(&self, offset: u64, buffer: &mut [u8]) -> Option<io::Result<usize>> {
        thread_local! {
            static PIECE: RefCell<Option<AlignedBytes>> = const { RefCell::new(None) };
        }
        let read = if is_aligned(offset, buffer.as_ptr()) && buffer.len() >= ALIGNMENT {
            // A disk transfers the last block whole, which would overwrite memory past the bytes
            // that are read. The file's last, partial block is left to the page cache.
            let left = match self.direct.metadata() {
                Ok(metadata) => metadata.len().saturating_sub(offset),
                Err(error) => return Some(Err(error)),
            };
            let within = buffer.len().min(PIECE_BYTES).min(usize::try_from(left).unwrap_or(PIECE_BYTES));
            let whole = within - within % ALIGNMENT;
            if whole == 0 {
                return None;
            }
            self.direct.read_at(&mut buffer[..whole], offset)
        } else if buffer.len() >= DIRECT_READ_BYTES {
            let start = offset - offset % ALIGNMENT as u64;
            let skip = (offset - start) as usize;
            PIECE.with_borrow_mut(|piece| {
                let piece = piece.get_or_insert_with(new_piece);
                let wanted = (skip + buffer.len()).next_multiple_of(ALIGNMENT).min(PIECE_BYTES);
                let read = self.direct.read_at(&mut piece[..wanted], start)?;
                let bytes = read.saturating_sub(skip).min(buffer.len());
                buffer[..bytes].copy_from_slice(&piece[skip..skip + bytes]);
                Ok(bytes)
            })
        } else {
            return None;
        };
        match read {
            Err(error) if is_refusal(&error) => None,
            read => Some(read),
        }
    }

    /// Collects consecutive bytes into whole pieces and writes those. The rest stays buffered until
    /// [`finish_writing`](Self::finish_writing).
    pub(super) fn write_at(&self, ordinary: &File, offset: u64, mut bytes: &[u8]) -> io::Result<()> {
        let mut buffered = self.buffered.lock().expect("nothing panics while it holds this lock");
        if buffered.bytes > 0 && offset != buffered.offset + buffered.bytes as u64 {
            self.write_out(ordinary, &mut buffered)?;
        }
        if buffered.bytes == 0 {
            // Whole aligned pieces need no buffering.
            if bytes.len() >= PIECE_BYTES && is_aligned(offset, bytes.as_ptr()) {
                return self.write_now(ordinary, offset, bytes);
            }
            buffered.offset = offset;
        }
        while !bytes.is_empty() {
            let at = buffered.bytes;
            let (now, later) = bytes.split_at(bytes.len().min(PIECE_BYTES - at));
            buffered.piece.get_or_insert_with(new_piece)[at..at + now.len()].copy_from_slice(now);
            buffered.bytes += now.len();
            if buffered.bytes == PIECE_BYTES {
                self.write_out(ordinary, &mut buffered)?;
            }
            bytes = later;
        }
        Ok(())
    }
}

#[cfg(target_os = "linux")]
pub(super) fn open_with_flag(options: &mut OpenOptions, path: &Path) -> Option<File> {
    use std::os::unix::fs::OpenOptionsExt;
    options.custom_flags(rustix::fs::OFlags::DIRECT.bits() as i32).open(path).ok()
}

#[cfg(not(target_os = "linux"))]
pub(super) fn open_with_flag(_options: &mut OpenOptions, _path: &Path) -> Option<File> {
    None
}

/// True if direct I/O isn't supported for the request, as opposed to a failure.
pub(super) fn is_refusal(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported)
}

pub(crate) fn new_piece() -> AlignedBytes {
    AlignedBytes::zeroed(PIECE_BYTES, ALIGNMENT)
}

/// True if bytes at `offset` can be transferred directly between the disk and this memory.
fn is_aligned(offset: u64, memory: *const u8) -> bool {
    offset.is_multiple_of(ALIGNMENT as u64) && memory.addr().is_multiple_of(ALIGNMENT)
}

#[cfg(test)]
mod tests {
    use fulgurite_codec::AlignedBytes;

    use super::{ALIGNMENT, PIECE_BYTES};
    use crate::volume::{FolderVolume, Volume};

    fn noise(bytes: usize) -> Vec<u8> {
        let mut state = 1_u64;
        let step = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        (0..bytes).map(step).collect()
    }

    #[test]
    fn pieces_of_any_length_round_trip() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let volume = FolderVolume::new(folder.path());
        let content = noise(9_000_123);
        for piece in [1_000_003, 4_096 * 5, 9_000_123, 6 << 20] {
            let name = piece.to_string();
            let file = volume.create_direct(&name).expect("created");
            file.allocate(content.len() as u64).expect("room");
            let mut at = 0;
            for bytes in content.chunks(piece) {
                file.write_at(at, bytes).expect("written");
                at += bytes.len() as u64;
            }
            file.sync().expect("synced");
            assert_eq!(std::fs::read(folder.path().join(&name)).expect("read"), content, "pieces of {piece}");
            let file = volume.open_direct(&name).expect("opened");
            for (from, bytes) in [(0, 9_000_123), (1, 5_000_000), (70_001, 100), (8_000_000, 1_000_123), (8_999_999, 2_000_000)] {
                let mut buffer = vec![0; bytes];
                let mut read = 0;
                loop {
                    match file.read_at((from + read) as u64, &mut buffer[read..]).expect("read") {
                        0 => break,
                        more => read += more,
                    }
                    if read == bytes {
                        break;
                    }
                }
                let end = (from + bytes).min(content.len());
                assert_eq!((read, &buffer[..read]), (end - from, &content[from..end]), "{bytes} bytes from {from}");
            }
        }
    }

    #[test]
    fn aligned_memory_round_trips() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let volume = FolderVolume::new(folder.path());
        let content = noise(PIECE_BYTES + 3 * ALIGNMENT + 77);
        let mut memory = AlignedBytes::zeroed(content.len().next_multiple_of(ALIGNMENT), ALIGNMENT);
        memory[..content.len()].copy_from_slice(&content);
        let file = volume.create_direct("x").expect("created");
        file.write_at(0, &memory[..PIECE_BYTES]).expect("written");
        file.write_at(PIECE_BYTES as u64, &memory[PIECE_BYTES..content.len()]).expect("written");
        file.sync().expect("synced");
        assert_eq!(std::fs::read(folder.path().join("x")).expect("read"), content);
        let file = volume.open_direct("x").expect("opened");
        for start in [0, ALIGNMENT, PIECE_BYTES] {
            memory.fill(0);
            let mut read = 0;
            while read < content.len() - start {
                let bytes = file.read_at((start + read) as u64, &mut memory[read..]).expect("read");
                assert!(bytes > 0, "the file ends at {read} from {start}");
                read += bytes;
            }
            assert_eq!(&memory[..read], &content[start..], "from {start}");
        }
    }

    #[test]
    fn bytes_written_out_of_order_round_trip() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let volume = FolderVolume::new(folder.path());
        let content = noise(300_000);
        let file = volume.create_direct("x").expect("created");
        for from in [200_000, 0, 100_000] {
            file.write_at(from as u64, &content[from..from + 100_000]).expect("written");
        }
        file.sync().expect("synced");
        assert_eq!(std::fs::read(folder.path().join("x")).expect("read"), content);
    }
}
