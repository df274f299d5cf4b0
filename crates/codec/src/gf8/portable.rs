//! GF(2^8) products by table look-up, eight bytes at a time.

use super::PRODUCTS;
use super::lanes::{ByteLanes, Tile, run};

struct Portable;

impl ByteLanes for Portable {
    const BYTES: usize = 8;
    type Source = [u8; 8];
    type Sum = u64;
    type Factor = &'static [u8; 256];

    #[inline(always)]
    unsafe fn source(from: *const u8) -> [u8; 8] {
        // SAFETY: the caller promises 8 bytes.
        unsafe { from.cast::<[u8; 8]>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn zero() -> u64 {
        0
    }
    #[inline(always)]
    unsafe fn load(from: *const u8) -> u64 {
        // SAFETY: the caller promises 8 bytes.
        u64::from_le_bytes(unsafe { from.cast::<[u8; 8]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn store(sum: u64, to: *mut u8) {
        // SAFETY: the caller promises 8 bytes.
        unsafe { to.cast::<[u8; 8]>().write_unaligned(sum.to_le_bytes()) }
    }
    #[inline(always)]
    unsafe fn factor(coefficient: u8) -> &'static [u8; 256] {
        &PRODUCTS[coefficient as usize]
    }
    #[inline(always)]
    unsafe fn add_product(sum: u64, source: [u8; 8], factor: &'static [u8; 256]) -> u64 {
        sum ^ u64::from_le_bytes(source.map(|byte| factor[byte as usize]))
    }
}

/// # Safety
/// As [`run`].
pub(super) unsafe fn portable(tile: Tile<'_>) {
    // SAFETY: the caller's promise.
    unsafe { run::<Portable>(tile) }
}
