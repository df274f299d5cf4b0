//! GF(2^8) products by table lookup, eight bytes at a time.

use super::lanes::{ByteLanes, run};
use super::multiply;

/// `PRODUCTS[c][x]` is `c * x`.
static PRODUCTS: [[u8; 256]; 256] = products();

const fn products() -> [[u8; 256]; 256] {
    let mut products = [[0; 256]; 256];
    let mut c = 1;
    while c < 256 {
        // The product is linear in x: a power of two's product, then sums of those.
        let mut x = 1usize;
        while x < 256 {
            let lowest = x & x.wrapping_neg();
            products[c][x] = if x == lowest { multiply(c as u8, x as u8) } else { products[c][x ^ lowest] ^ products[c][lowest] };
            x += 1;
        }
        c += 1;
    }
    products
}

struct Portable;

impl ByteLanes for Portable {
    const BYTES: usize = 8;
    const SUMS: usize = 4;
    const ROWS: usize = 4;
    type Stored = &'static [u8; 256];
    type Source = [u8; 8];
    type Sum = u64;
    type Factor = &'static [u8; 256];

    fn stored(coefficient: u8) -> &'static [u8; 256] {
        &PRODUCTS[coefficient as usize]
    }
    #[inline(always)]
    unsafe fn source(from: *const u8) -> [u8; 8] {
        // SAFETY: the caller guarantees 8 bytes.
        unsafe { from.cast::<[u8; 8]>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn zero() -> u64 {
        0
    }
    #[inline(always)]
    unsafe fn store(sum: u64, to: *mut u8) {
        // SAFETY: the caller guarantees 8 bytes.
        unsafe { to.cast::<[u8; 8]>().write_unaligned(sum.to_le_bytes()) }
    }
    #[inline(always)]
    unsafe fn factor(stored: *const &'static [u8; 256]) -> &'static [u8; 256] {
        // SAFETY: the caller guarantees a coefficient.
        unsafe { *stored }
    }
    #[inline(always)]
    unsafe fn add_product(sum: u64, source: [u8; 8], factor: &'static [u8; 256]) -> u64 {
        sum ^ u64::from_le_bytes(source.map(|byte| factor[byte as usize]))
    }
}

/// # Safety
/// As [`run`].
pub(super) unsafe fn portable(coefficients: &[u8], sources: &[&[u8]], sums: &mut [&mut [u8]], bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { run::<Portable>(coefficients, sources, sums, bytes) }
}
