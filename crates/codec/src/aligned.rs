//! Buffers whose first byte lies on a cache line.

use std::ops::{Deref, DerefMut};

/// Vector loads that straddle cache lines cost double, and `Vec<u8>` promises no alignment.
const ALIGN: usize = 64;

/// A fixed-length zeroed byte buffer that starts on a cache line.
pub(crate) struct AlignedBytes {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl AlignedBytes {
    pub(crate) fn zeroed(len: usize) -> Self {
        let bytes = vec![0; len + ALIGN];
        // Misaligned is slow, not wrong, so `align_offset` may decline (under Miri it does).
        let start = bytes.as_ptr().align_offset(ALIGN).min(ALIGN);
        AlignedBytes { bytes, start, len }
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
