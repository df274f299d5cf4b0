//! What MD5 and SHA-256 share: content is compressed into a state of a few words, block by block.

/// Bytes of a block.
pub(crate) const BLOCK_BYTES: usize = 64;
/// A block of content.
pub(crate) type Block = [u8; BLOCK_BYTES];

/// A digest of `WORDS` words that is being computed.
#[derive(Debug, Clone)]
pub(crate) struct Blocks<const WORDS: usize> {
    pub(crate) state: [u32; WORDS],
    /// Bytes hashed so far.
    length: u64,
    /// The incomplete last block, in the first `length % 64` bytes.
    tail: Block,
}

impl<const WORDS: usize> Blocks<WORDS> {
    pub(crate) fn new(state: [u32; WORDS]) -> Self {
        Self { state, length: 0, tail: [0; BLOCK_BYTES] }
    }

    pub(crate) fn update(&mut self, piece: &[u8], compress: impl Fn(&mut [u32; WORDS], &[Block])) {
        let blocks = self.take_blocks(piece, &compress);
        compress(&mut self.state, blocks);
    }

    /// Adds a piece: completes and compresses the previous block, buffers the bytes after the last
    /// whole block, and returns the whole blocks, which the caller has to compress.
    pub(crate) fn take_blocks<'a>(&mut self, mut piece: &'a [u8], compress: impl Fn(&mut [u32; WORDS], &[Block])) -> &'a [Block] {
        let buffered = self.tail_bytes();
        self.length = self.length.wrapping_add(piece.len() as u64);
        if buffered > 0 {
            let (now, later) = piece.split_at(piece.len().min(BLOCK_BYTES - buffered));
            self.tail[buffered..][..now.len()].copy_from_slice(now);
            if buffered + now.len() < BLOCK_BYTES {
                return &[];
            }
            compress(&mut self.state, &[self.tail]);
            piece = later;
        }
        let (blocks, rest) = piece.as_chunks();
        self.tail[..rest.len()].copy_from_slice(rest);
        blocks
    }

    /// The state after the last block, which ends with the number of bits as `encode` writes it.
    pub(crate) fn finish(mut self, encode: fn(u64) -> [u8; 8], compress: impl Fn(&mut [u32; WORDS], &[Block])) -> [u32; WORDS] {
        let bits = self.length.wrapping_mul(8);
        // Padding: a one bit, zeros up to 8 bytes before the end of a block, then the length in
        // bits.
        let zeros = (2 * BLOCK_BYTES - 8 - 1 - self.tail_bytes()) % BLOCK_BYTES;
        let mut padding = [0; 2 * BLOCK_BYTES];
        padding[0] = 0x80;
        padding[1 + zeros..][..8].copy_from_slice(&encode(bits));
        self.update(&padding[..1 + zeros + 8], compress);
        self.state
    }

    fn tail_bytes(&self) -> usize {
        (self.length % BLOCK_BYTES as u64) as usize
    }
}
