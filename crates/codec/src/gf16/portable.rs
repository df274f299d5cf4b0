//! GF(2^16) products by table lookup, one nibble at a time.

use super::columns;
use super::lanes::{Step, SymbolLanes, run};

struct Portable;

impl SymbolLanes for Portable {
    const BYTES: usize = 64;
    type Pair = [u16; 32];
    /// Products with each value of each nibble.
    type Factor = [[u16; 16]; 4];

    #[inline(always)]
    unsafe fn factor(t: u16) -> [[u16; 16]; 4] {
        let columns = columns(t);
        std::array::from_fn(|nibble| {
            let mut products = [0; 16];
            for value in 1..16usize {
                let lowest = value.trailing_zeros() as usize;
                products[value] = products[value & (value - 1)] ^ columns[4 * nibble + lowest];
            }
            products
        })
    }
    #[inline(always)]
    unsafe fn zero() -> [u16; 32] {
        [0; 32]
    }
    #[inline(always)]
    unsafe fn load(from: *const u8) -> [u16; 32] {
        // SAFETY: the caller guarantees 64 bytes.
        let block = unsafe { from.cast::<[u8; 64]>().read_unaligned() };
        std::array::from_fn(|i| u16::from_le_bytes([block[i], block[i + 32]]))
    }
    #[inline(always)]
    unsafe fn store(pair: [u16; 32], to: *mut u8) {
        let mut block = [0; 64];
        for (i, symbol) in pair.into_iter().enumerate() {
            [block[i], block[i + 32]] = symbol.to_le_bytes();
        }
        // SAFETY: the caller guarantees 64 bytes.
        unsafe { to.cast::<[u8; 64]>().write_unaligned(block) }
    }
    #[inline(always)]
    unsafe fn read(from: *const u8, _bytes: usize) -> [u16; 32] {
        // SAFETY: the caller guarantees 64 bytes.
        unsafe { Self::load(from) }
    }
    #[inline(always)]
    unsafe fn write(pair: [u16; 32], to: *mut u8, _bytes: usize) {
        // SAFETY: the caller guarantees 64 bytes.
        unsafe { Self::store(pair, to) }
    }
    #[inline(always)]
    unsafe fn add(a: [u16; 32], b: [u16; 32]) -> [u16; 32] {
        std::array::from_fn(|i| a[i] ^ b[i])
    }
    #[inline(always)]
    unsafe fn add_product(sum: [u16; 32], x: [u16; 32], f: [[u16; 16]; 4]) -> [u16; 32] {
        std::array::from_fn(|i| {
            let nibble = |n: usize| f[n][usize::from(x[i] >> (4 * n) & 15)];
            sum[i] ^ nibble(0) ^ nibble(1) ^ nibble(2) ^ nibble(3)
        })
    }
}

/// # Safety
/// As [`run`].
pub(super) unsafe fn portable(step: Step<'_>, pitch: usize, width: usize) {
    // SAFETY: the caller's promise.
    unsafe { run::<Portable>(step, pitch, width) }
}
