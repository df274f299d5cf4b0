//! The convolutions' lanes on aarch64.

use std::arch::aarch64::*;

use crate::direct::{DirectJob, run_direct};
use crate::lanes::{Lanes, with_pixels_at_once};
use crate::winograd::{WinogradJob, run_winograd};

struct Neon;

// SAFETY of the loads and stores below: the caller guarantees `LANES` values. SAFETY of the
// instructions: the caller guarantees that the kernel is available.
impl Lanes for Neon {
    const LANES: usize = 4;
    type Register = float32x4_t;

    #[inline(always)]
    unsafe fn load(from: *const f32) -> float32x4_t {
        // SAFETY: see above.
        unsafe { vld1q_f32(from) }
    }
    #[inline(always)]
    unsafe fn store(register: float32x4_t, to: *mut f32) {
        // SAFETY: see above.
        unsafe { vst1q_f32(to, register) }
    }
    #[inline(always)]
    unsafe fn splat(value: f32) -> float32x4_t {
        // SAFETY: see above.
        unsafe { vdupq_n_f32(value) }
    }
    #[inline(always)]
    unsafe fn add(a: float32x4_t, b: float32x4_t) -> float32x4_t {
        // SAFETY: see above.
        unsafe { vaddq_f32(a, b) }
    }
    #[inline(always)]
    unsafe fn subtract(a: float32x4_t, b: float32x4_t) -> float32x4_t {
        // SAFETY: see above.
        unsafe { vsubq_f32(a, b) }
    }
    #[inline(always)]
    unsafe fn multiply(a: float32x4_t, b: float32x4_t) -> float32x4_t {
        // SAFETY: see above.
        unsafe { vmulq_f32(a, b) }
    }
    #[inline(always)]
    unsafe fn multiply_add(a: float32x4_t, b: float32x4_t, sum: float32x4_t) -> float32x4_t {
        // SAFETY: see above.
        unsafe { vfmaq_f32(sum, a, b) }
    }
    #[inline(always)]
    unsafe fn larger(a: float32x4_t, b: float32x4_t) -> float32x4_t {
        // SAFETY: see above.
        unsafe { vmaxq_f32(a, b) }
    }
    #[inline(always)]
    unsafe fn relu(a: float32x4_t) -> float32x4_t {
        // SAFETY: see above. The larger of NaN and a number is NaN.
        unsafe { vmaxq_f32(a, vdupq_n_f32(0.0)) }
    }
}

/// # Safety
/// The machine supports NEON.
#[target_feature(enable = "neon")]
pub(crate) unsafe fn direct_neon(job: &DirectJob<'_>) {
    // 32 registers: sums of a block, four of weights and some of inputs.
    // SAFETY: the instructions are available here.
    unsafe { with_pixels_at_once!(run_direct, job, Neon, 4, [1, 2, 4, 5, 6]) }
}

/// # Safety
/// The machine supports NEON.
#[target_feature(enable = "neon")]
pub(crate) unsafe fn winograd_neon(job: &WinogradJob<'_>) {
    // 32 registers: sums of a block, four of weights and some of inputs.
    // SAFETY: the instructions are available here.
    unsafe { with_pixels_at_once!(run_winograd, job, Neon, 4, [1, 2, 4, 5, 6]) }
}
