//! The convolutions' lanes for any machine.

use crate::direct::{DirectJob, run_direct};
use crate::lanes::{Lanes, with_pixels_at_once};
use crate::winograd::{WinogradJob, run_winograd};

struct Portable;

// SAFETY of the loads and stores below: the caller guarantees `LANES` values.
impl Lanes for Portable {
    const LANES: usize = 4;
    type Register = [f32; 4];

    #[inline(always)]
    unsafe fn load(from: *const f32) -> [f32; 4] {
        // SAFETY: see above.
        unsafe { from.cast::<[f32; 4]>().read() }
    }
    #[inline(always)]
    unsafe fn store(register: [f32; 4], to: *mut f32) {
        // SAFETY: see above.
        unsafe { to.cast::<[f32; 4]>().write(register) }
    }
    #[inline(always)]
    unsafe fn splat(value: f32) -> [f32; 4] {
        [value; 4]
    }
    #[inline(always)]
    unsafe fn add(a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        std::array::from_fn(|lane| a[lane] + b[lane])
    }
    #[inline(always)]
    unsafe fn subtract(a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        std::array::from_fn(|lane| a[lane] - b[lane])
    }
    #[inline(always)]
    unsafe fn multiply(a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        std::array::from_fn(|lane| a[lane] * b[lane])
    }
    #[inline(always)]
    unsafe fn multiply_add(a: [f32; 4], b: [f32; 4], sum: [f32; 4]) -> [f32; 4] {
        // `mul_add` would call a function on machines without the instruction.
        std::array::from_fn(|lane| a[lane] * b[lane] + sum[lane])
    }
    #[inline(always)]
    unsafe fn larger(a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        // A comparison is one instruction; `f32::max` has to look for NaN.
        std::array::from_fn(|lane| if a[lane] > b[lane] { a[lane] } else { b[lane] })
    }
    #[inline(always)]
    unsafe fn relu(a: [f32; 4]) -> [f32; 4] {
        a.map(|value| if value < 0.0 { 0.0 } else { value })
    }
}

/// # Safety
/// None to uphold; it is unsafe like its siblings, which need instructions.
pub(crate) unsafe fn direct_portable(job: &DirectJob<'_>) {
    // SSE2 has 16 registers; the sums of 3 pixels take 12.
    // SAFETY: needs no special instructions.
    unsafe { with_pixels_at_once!(run_direct, job, Portable, 4, [1, 2, 3]) }
}

/// # Safety
/// None to uphold; it is unsafe like its siblings, which need instructions.
pub(crate) unsafe fn winograd_portable(job: &WinogradJob<'_>) {
    // SSE2 has 16 registers; the sums of 3 tiles take 12.
    // SAFETY: needs no special instructions.
    unsafe { with_pixels_at_once!(run_winograd, job, Portable, 4, [1, 2, 3]) }
}
