//! GF(2^16) products on aarch64: eight 16-entry tables per symbol.

use std::arch::aarch64::*;

use super::columns;
use super::lanes::{Step, SymbolLanes, run};

struct Neon;

// SAFETY of the loads and stores below: the caller guarantees 64 bytes. SAFETY of the instructions:
// the caller guarantees that the kernel is available.
impl SymbolLanes for Neon {
    const BYTES: usize = 64;
    /// Two registers of low bytes and two of high bytes.
    type Pair = [uint8x16_t; 4];
    /// Tables of low bytes and of high bytes for each nibble.
    type Factor = [[uint8x16_t; 2]; 4];

    #[inline(always)]
    unsafe fn factor(t: u16) -> [[uint8x16_t; 2]; 4] {
        let columns = columns(t);
        std::array::from_fn(|nibble| {
            let mut products = [0u16; 16];
            for value in 1..16usize {
                let lowest = value.trailing_zeros() as usize;
                products[value] = products[value & (value - 1)] ^ columns[4 * nibble + lowest];
            }
            // SAFETY: see above; the arrays have 16 bytes.
            unsafe { [vld1q_u8(products.map(|p| p as u8).as_ptr()), vld1q_u8(products.map(|p| (p >> 8) as u8).as_ptr())] }
        })
    }
    #[inline(always)]
    unsafe fn zero() -> Self::Pair {
        // SAFETY: see above.
        unsafe { [vdupq_n_u8(0); 4] }
    }
    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self::Pair {
        // SAFETY: see above.
        unsafe { std::array::from_fn(|i| vld1q_u8(from.add(16 * i))) }
    }
    #[inline(always)]
    unsafe fn store(pair: Self::Pair, to: *mut u8) {
        for (i, register) in pair.into_iter().enumerate() {
            // SAFETY: see above.
            unsafe { vst1q_u8(to.add(16 * i), register) }
        }
    }
    #[inline(always)]
    unsafe fn read(from: *const u8, _bytes: usize) -> Self::Pair {
        // SAFETY: see above.
        unsafe { Self::load(from) }
    }
    #[inline(always)]
    unsafe fn write(pair: Self::Pair, to: *mut u8, _bytes: usize) {
        // SAFETY: see above.
        unsafe { Self::store(pair, to) }
    }
    #[inline(always)]
    unsafe fn add(a: Self::Pair, b: Self::Pair) -> Self::Pair {
        // SAFETY: see above.
        std::array::from_fn(|i| unsafe { veorq_u8(a[i], b[i]) })
    }
    #[inline(always)]
    unsafe fn add_product(mut sum: Self::Pair, x: Self::Pair, f: [[uint8x16_t; 2]; 4]) -> Self::Pair {
        // SAFETY: see above.
        unsafe {
            let mask = vdupq_n_u8(15);
            for half in 0..2 {
                let (low, high) = (x[half], x[half + 2]);
                let nibbles = [vandq_u8(low, mask), vshrq_n_u8::<4>(low), vandq_u8(high, mask), vshrq_n_u8::<4>(high)];
                for (nibble, tables) in nibbles.into_iter().zip(f) {
                    sum[half] = veorq_u8(sum[half], vqtbl1q_u8(tables[0], nibble));
                    sum[half + 2] = veorq_u8(sum[half + 2], vqtbl1q_u8(tables[1], nibble));
                }
            }
            sum
        }
    }
}

/// # Safety
/// As [`run`], on a machine with NEON.
#[target_feature(enable = "neon")]
pub(super) unsafe fn neon(step: Step<'_>, pitch: usize, width: usize) {
    // SAFETY: the caller's promise.
    unsafe { run::<Neon>(step, pitch, width) }
}
