//! Memory in blocks that are used again.
//!
//! The system clears memory before it hands it out, one page at a time as the pages are first used,
//! which takes as long as copying into it. Blocks that were released are written over instead.

use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of a block. A lot takes whole ones.
const BLOCK_BYTES: usize = 64 << 10;

/// Blocks that are free.
#[derive(Debug, Clone, Default)]
pub struct Blocks(Arc<Mutex<Vec<Vec<u8>>>>);

impl Blocks {
    /// An empty block: a free one, or else a new one.
    fn take(&self) -> io::Result<Vec<u8>> {
        let free = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        free.map_or_else(
            || {
                let mut block = Vec::new();
                block.try_reserve_exact(BLOCK_BYTES).map_err(io::Error::other)?;
                Ok(block)
            },
            Ok,
        )
    }

    fn give_back(&self, blocks: impl IntoIterator<Item = Vec<u8>>) {
        let empty = |mut block: Vec<u8>| {
            block.clear();
            block
        };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(blocks.into_iter().map(empty));
    }
}

/// Bytes in blocks, which become free when this is dropped.
#[derive(Debug)]
pub struct InBlocks {
    blocks: Vec<Vec<u8>>,
    of: Blocks,
}

impl InBlocks {
    /// No bytes yet.
    pub(super) fn new(of: &Blocks) -> Self {
        Self { blocks: Vec::new(), of: of.clone() }
    }

    /// Their number.
    pub(super) fn bytes(&self) -> u64 {
        let last = self.blocks.last().map_or(0, Vec::len);
        (self.blocks.len().saturating_sub(1) * BLOCK_BYTES + last) as u64
    }

    /// Appends a piece.
    pub(super) fn write(&mut self, mut piece: &[u8]) -> io::Result<()> {
        while !piece.is_empty() {
            if self.blocks.last().is_none_or(|block| block.len() == BLOCK_BYTES) {
                self.blocks.push(self.of.take()?);
            }
            let block = self.blocks.last_mut().expect("there is one");
            let (now, later) = piece.split_at(piece.len().min(BLOCK_BYTES - block.len()));
            block.extend_from_slice(now);
            piece = later;
        }
        Ok(())
    }

    /// Removes everything after the first `bytes` bytes.
    pub(super) fn cut(&mut self, bytes: u64) {
        let bytes = bytes as usize;
        let blocks = bytes.div_ceil(BLOCK_BYTES).min(self.blocks.len());
        self.of.give_back(self.blocks.drain(blocks..));
        if let Some(last) = self.blocks.last_mut() {
            last.truncate(bytes - (blocks - 1) * BLOCK_BYTES);
        }
    }

    /// Reads a range.
    pub(super) fn reader(&self, offset: u64, bytes: u64) -> impl Read + Send + '_ {
        let (mut at, end) = (offset as usize, (offset + bytes) as usize);
        BlockReader {
            next: move || {
                let block = self.blocks.get(at / BLOCK_BYTES)?;
                let from = at % BLOCK_BYTES;
                let piece = block.get(from..block.len().min(from + end - at))?;
                at += piece.len();
                Some(piece)
            },
            rest: &[],
        }
    }
}

impl Drop for InBlocks {
    fn drop(&mut self) {
        self.of.give_back(self.blocks.drain(..));
    }
}

struct BlockReader<'a, F> {
    next: F,
    rest: &'a [u8],
}

impl<'a, F: FnMut() -> Option<&'a [u8]>> Read for BlockReader<'a, F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.rest.is_empty() {
            self.rest = (self.next)().unwrap_or_default();
        }
        self.rest.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn free(blocks: &Blocks) -> usize {
        blocks.0.lock().expect("no thread panicked").len()
    }

    #[test]
    fn ranges_come_back_as_they_were_written_in_pieces_of_any_size() {
        let blocks = Blocks::default();
        let content: Vec<u8> = (0..3 * BLOCK_BYTES + 77).map(|at| (at * 31 + (at >> 8)) as u8).collect();
        for piece in [1_000, BLOCK_BYTES - 1, BLOCK_BYTES, content.len()] {
            let mut lot = InBlocks::new(&blocks);
            content.chunks(piece).for_each(|piece| lot.write(piece).expect("memory"));
            assert_eq!(lot.bytes(), content.len() as u64, "pieces of {piece}");
            for (offset, bytes) in
                [(0, 0), (0, content.len()), (5, 70_000), (BLOCK_BYTES, BLOCK_BYTES), (2 * BLOCK_BYTES + 1, 10), (content.len(), 0)]
            {
                let mut found = Vec::new();
                lot.reader(offset as u64, bytes as u64).read_to_end(&mut found).expect("read");
                assert!(found == content[offset..offset + bytes], "{bytes} bytes from {offset}");
            }
        }
    }

    #[test]
    fn what_is_cut_off_is_written_anew() {
        let blocks = Blocks::default();
        for keep in [0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 2 * BLOCK_BYTES + 9] {
            let mut lot = InBlocks::new(&blocks);
            lot.write(&vec![1; 2 * BLOCK_BYTES + 9]).expect("memory");
            lot.cut(keep as u64);
            assert_eq!(lot.bytes(), keep as u64);
            lot.write(&[2; 5]).expect("memory");
            let mut found = Vec::new();
            lot.reader(0, keep as u64 + 5).read_to_end(&mut found).expect("read");
            assert!(found[..keep] == vec![1; keep] && found[keep..] == [2; 5], "{keep}");
        }
    }

    #[test]
    fn blocks_of_one_lot_serve_the_next() {
        let blocks = Blocks::default();
        let mut lot = InBlocks::new(&blocks);
        lot.write(&vec![1; 3 * BLOCK_BYTES]).expect("memory");
        lot.cut(BLOCK_BYTES as u64);
        assert_eq!(free(&blocks), 2);
        drop(lot);
        assert_eq!(free(&blocks), 3);
        let mut lot = InBlocks::new(&blocks);
        lot.write(&vec![2; 2 * BLOCK_BYTES]).expect("memory");
        assert_eq!(free(&blocks), 1);
    }
}
