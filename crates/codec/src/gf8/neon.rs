//! GF(2^8) products on aarch64: two 16-entry tables per coefficient.

use std::arch::aarch64::*;

use super::NIBBLES;
use super::lanes::{ByteLanes, run};

struct Neon;

// SAFETY of the loads and stores below: the caller guarantees `BYTES` bytes. SAFETY of the
// instructions: the caller guarantees that the kernel is available.
impl ByteLanes for Neon {
    const BYTES: usize = 16;
    const SUMS: usize = 16;
    const ROWS: usize = 4;
    type Stored = &'static [u8; 32];
    /// Low and high nibbles.
    type Source = (uint8x16_t, uint8x16_t);
    type Sum = uint8x16_t;
    type Factor = (uint8x16_t, uint8x16_t);

    fn stored(coefficient: u8) -> &'static [u8; 32] {
        &NIBBLES[coefficient as usize]
    }
    #[inline(always)]
    unsafe fn source(from: *const u8) -> (uint8x16_t, uint8x16_t) {
        // SAFETY: see above.
        unsafe {
            let bytes = vld1q_u8(from);
            (vandq_u8(bytes, vdupq_n_u8(15)), vshrq_n_u8::<4>(bytes))
        }
    }
    #[inline(always)]
    unsafe fn zero() -> uint8x16_t {
        // SAFETY: see above.
        unsafe { vdupq_n_u8(0) }
    }
    #[inline(always)]
    unsafe fn store(sum: uint8x16_t, to: *mut u8) {
        // SAFETY: see above.
        unsafe { vst1q_u8(to, sum) }
    }
    #[inline(always)]
    unsafe fn factor(stored: *const &'static [u8; 32]) -> (uint8x16_t, uint8x16_t) {
        // SAFETY: see above; the tables have 32 bytes.
        unsafe {
            let tables = (*stored).as_ptr();
            (vld1q_u8(tables), vld1q_u8(tables.add(16)))
        }
    }
    #[inline(always)]
    unsafe fn add_product(sum: uint8x16_t, source: (uint8x16_t, uint8x16_t), factor: (uint8x16_t, uint8x16_t)) -> uint8x16_t {
        // SAFETY: see above.
        unsafe { veorq_u8(sum, veorq_u8(vqtbl1q_u8(factor.0, source.0), vqtbl1q_u8(factor.1, source.1))) }
    }
}

/// # Safety
/// As [`run`], on a machine with NEON.
#[target_feature(enable = "neon")]
pub(super) unsafe fn neon(coefficients: &[u8], sources: &[&[u8]], sums: &mut [&mut [u8]], bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { run::<Neon>(coefficients, sources, sums, bytes) }
}
