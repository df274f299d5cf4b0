//! Byte buffers with a chosen alignment.

use std::ops::{Deref, DerefMut};

/// Vector loads that straddle cache lines cost double, and `Vec<u8>` promises no alignment.
pub(crate) const CACHE_LINE: usize = 64;

/// A fixed-length zeroed byte buffer that starts at a multiple of a power of two: a cache line for
/// vector loads, or a page for reads that bypass the system's page cache.
pub struct AlignedBytes {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl AlignedBytes {
    /// Creates `len` zeros, starting at a multiple of `alignment`.
    ///
    /// # Panics
    /// If `alignment` isn't a power of two.
    #[must_use]
    pub fn zeroed(len: usize, alignment: usize) -> Self {
        let bytes = vec![0; len + alignment];
        // `align_offset` may decline (under Miri it does). A misaligned buffer is slower, not
        // wrong: users that need the alignment check it.
        let start = bytes.as_ptr().align_offset(alignment).min(alignment);
        Self { bytes, start, len }
    }
}

impl Deref for AlignedBytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }
}

impl DerefMut for AlignedBytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }
}
