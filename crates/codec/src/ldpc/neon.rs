//! The decoder's lanes on aarch64.

use std::arch::aarch64::*;

use super::decode::{Schedule, State};
use super::lanes::{ByteLanes, check_with, iterate_with};

struct Neon;

// SAFETY of the loads and stores below: the caller guarantees `LANES` bytes. SAFETY of the
// instructions: the caller guarantees that the kernel is available.
impl ByteLanes for Neon {
    const LANES: usize = 16;
    type Register = int8x16_t;

    #[inline(always)]
    unsafe fn load(from: *const i8) -> int8x16_t {
        // SAFETY: see above.
        unsafe { vld1q_s8(from) }
    }
    #[inline(always)]
    unsafe fn store(register: int8x16_t, to: *mut i8) {
        // SAFETY: see above.
        unsafe { vst1q_s8(to, register) }
    }
    #[inline(always)]
    unsafe fn splat(value: i8) -> int8x16_t {
        // SAFETY: see above.
        unsafe { vdupq_n_s8(value) }
    }
    #[inline(always)]
    unsafe fn xor(a: int8x16_t, b: int8x16_t) -> int8x16_t {
        // SAFETY: see above.
        unsafe { veorq_s8(a, b) }
    }
    #[inline(always)]
    unsafe fn subtract(a: int8x16_t, b: int8x16_t) -> int8x16_t {
        // SAFETY: see above.
        unsafe { vqsubq_s8(a, b) }
    }
    #[inline(always)]
    unsafe fn add(a: int8x16_t, b: int8x16_t) -> int8x16_t {
        // SAFETY: see above.
        unsafe { vqaddq_s8(a, b) }
    }
    #[inline(always)]
    unsafe fn magnitude(a: int8x16_t) -> int8x16_t {
        // SAFETY: see above.
        unsafe { vabsq_s8(a) }
    }
    #[inline(always)]
    unsafe fn smaller(a: int8x16_t, b: int8x16_t) -> int8x16_t {
        // SAFETY: see above.
        unsafe { vreinterpretq_s8_u8(vminq_u8(vreinterpretq_u8_s8(a), vreinterpretq_u8_s8(b))) }
    }
    #[inline(always)]
    unsafe fn larger(a: int8x16_t, b: int8x16_t) -> int8x16_t {
        // SAFETY: see above.
        unsafe { vreinterpretq_s8_u8(vmaxq_u8(vreinterpretq_u8_s8(a), vreinterpretq_u8_s8(b))) }
    }
    #[inline(always)]
    unsafe fn three_quarters(a: int8x16_t) -> int8x16_t {
        // SAFETY: see above.
        unsafe {
            let a = vreinterpretq_u8_s8(a);
            vreinterpretq_s8_u8(vsubq_u8(a, vshrq_n_u8::<2>(a)))
        }
    }
    #[inline(always)]
    unsafe fn where_equal(a: int8x16_t, b: int8x16_t, then: int8x16_t, or: int8x16_t) -> int8x16_t {
        // SAFETY: see above.
        unsafe { vbslq_s8(vceqq_s8(a, b), then, or) }
    }
    #[inline(always)]
    unsafe fn with_sign(a: int8x16_t, sign: int8x16_t) -> int8x16_t {
        // SAFETY: see above.
        unsafe { vbslq_s8(vcltzq_s8(sign), vnegq_s8(a), a) }
    }
    #[inline(always)]
    unsafe fn any_negative(a: int8x16_t, lanes: usize) -> bool {
        let mut values = [0i8; 16];
        // SAFETY: see above; `values` has 16 bytes.
        unsafe { vst1q_s8(values.as_mut_ptr(), a) };
        values.iter().take(lanes).any(|&value| value < 0)
    }
}

/// # Safety
/// As [`iterate_with`], on a machine with NEON.
#[target_feature(enable = "neon")]
pub(super) unsafe fn iterate_neon(schedule: &Schedule, state: &mut State) {
    // SAFETY: the caller's promise.
    unsafe { iterate_with::<Neon>(schedule, state) }
}

/// # Safety
/// As [`check_with`], on a machine with NEON.
#[target_feature(enable = "neon")]
pub(super) unsafe fn check_neon(schedule: &Schedule, state: &State) -> bool {
    // SAFETY: the caller's promise.
    unsafe { check_with::<Neon>(schedule, state) }
}
