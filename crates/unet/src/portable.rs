//! The convolutions' lanes for any machine.

use crate::convolution::{Job, Lanes, convolve_with};

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
    unsafe fn splat(from: *const f32) -> [f32; 4] {
        // SAFETY: see above.
        [unsafe { from.read() }; 4]
    }
    #[inline(always)]
    unsafe fn multiply_add(a: [f32; 4], b: [f32; 4], sum: [f32; 4]) -> [f32; 4] {
        // `mul_add` would call a function on machines without the instruction.
        std::array::from_fn(|lane| a[lane] * b[lane] + sum[lane])
    }
    #[inline(always)]
    unsafe fn relu(a: [f32; 4]) -> [f32; 4] {
        a.map(|value| if value < 0.0 { 0.0 } else { value })
    }
}

/// # Safety
/// None to uphold; it is unsafe like its siblings, which need instructions.
pub(crate) unsafe fn convolve_portable(job: &Job<'_>) {
    // SAFETY: needs no special instructions.
    unsafe {
        match job.block_of(&[1, 2, 3]) {
            3 => convolve_with::<Portable, 4, 3>(job),
            2 => convolve_with::<Portable, 4, 2>(job),
            _ => convolve_with::<Portable, 4, 1>(job),
        }
    }
}
