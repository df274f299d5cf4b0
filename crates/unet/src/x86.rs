//! The convolutions' lanes on x86-64.

use std::arch::x86_64::*;

use crate::direct::{DirectJob, run_direct};
use crate::lanes::{Lanes, with_pixels_at_once};
use crate::winograd::{WinogradJob, run_winograd};

struct Avx512;

// In each implementation below, SAFETY of the loads and stores: the caller guarantees `LANES`
// values. SAFETY of the instructions: the caller guarantees that the kernel is available.
impl Lanes for Avx512 {
    const LANES: usize = 16;
    type Register = __m512;

    #[inline(always)]
    unsafe fn load(from: *const f32) -> __m512 {
        // SAFETY: see above.
        unsafe { _mm512_loadu_ps(from) }
    }
    #[inline(always)]
    unsafe fn store(register: __m512, to: *mut f32) {
        // SAFETY: see above.
        unsafe { _mm512_storeu_ps(to, register) }
    }
    #[inline(always)]
    unsafe fn splat(value: f32) -> __m512 {
        // SAFETY: see above.
        unsafe { _mm512_set1_ps(value) }
    }
    #[inline(always)]
    unsafe fn add(a: __m512, b: __m512) -> __m512 {
        // SAFETY: see above.
        unsafe { _mm512_add_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn subtract(a: __m512, b: __m512) -> __m512 {
        // SAFETY: see above.
        unsafe { _mm512_sub_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn multiply(a: __m512, b: __m512) -> __m512 {
        // SAFETY: see above.
        unsafe { _mm512_mul_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn multiply_add(a: __m512, b: __m512, sum: __m512) -> __m512 {
        // SAFETY: see above.
        unsafe { _mm512_fmadd_ps(a, b, sum) }
    }
    #[inline(always)]
    unsafe fn larger(a: __m512, b: __m512) -> __m512 {
        // SAFETY: see above.
        unsafe { _mm512_max_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn relu(a: __m512) -> __m512 {
        // SAFETY: see above. If one operand is NaN, the result is the second.
        unsafe { _mm512_max_ps(_mm512_setzero_ps(), a) }
    }
}

struct Avx2;

impl Lanes for Avx2 {
    const LANES: usize = 8;
    type Register = __m256;

    #[inline(always)]
    unsafe fn load(from: *const f32) -> __m256 {
        // SAFETY: see above.
        unsafe { _mm256_loadu_ps(from) }
    }
    #[inline(always)]
    unsafe fn store(register: __m256, to: *mut f32) {
        // SAFETY: see above.
        unsafe { _mm256_storeu_ps(to, register) }
    }
    #[inline(always)]
    unsafe fn splat(value: f32) -> __m256 {
        // SAFETY: see above.
        unsafe { _mm256_set1_ps(value) }
    }
    #[inline(always)]
    unsafe fn add(a: __m256, b: __m256) -> __m256 {
        // SAFETY: see above.
        unsafe { _mm256_add_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn subtract(a: __m256, b: __m256) -> __m256 {
        // SAFETY: see above.
        unsafe { _mm256_sub_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn multiply(a: __m256, b: __m256) -> __m256 {
        // SAFETY: see above.
        unsafe { _mm256_mul_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn multiply_add(a: __m256, b: __m256, sum: __m256) -> __m256 {
        // SAFETY: see above.
        unsafe { _mm256_fmadd_ps(a, b, sum) }
    }
    #[inline(always)]
    unsafe fn larger(a: __m256, b: __m256) -> __m256 {
        // SAFETY: see above.
        unsafe { _mm256_max_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn relu(a: __m256) -> __m256 {
        // SAFETY: see above. If one operand is NaN, the result is the second.
        unsafe { _mm256_max_ps(_mm256_setzero_ps(), a) }
    }
}

/// # Safety
/// The machine supports AVX-512F.
#[target_feature(enable = "avx512f")]
pub(crate) unsafe fn direct_avx512(job: &DirectJob<'_>) {
    // 32 registers: sums of a block and a weight.
    // SAFETY: the instructions are available here.
    unsafe { with_pixels_at_once!(run_direct, job, Avx512, 1, [1, 2, 4, 8, 12, 16, 20, 24, 28]) }
}

/// # Safety
/// The machine supports AVX-512F.
#[target_feature(enable = "avx512f")]
pub(crate) unsafe fn winograd_avx512(job: &WinogradJob<'_>) {
    // 32 registers: sums of a block and a weight.
    // SAFETY: the instructions are available here.
    unsafe { with_pixels_at_once!(run_winograd, job, Avx512, 1, [1, 2, 4, 8, 12, 16, 20, 24, 28]) }
}

/// # Safety
/// The machine supports AVX2 and FMA.
#[target_feature(enable = "avx2,fma")]
pub(crate) unsafe fn direct_avx2(job: &DirectJob<'_>) {
    // 16 registers: sums of a block, two of weights and one of inputs.
    // SAFETY: the instructions are available here.
    unsafe { with_pixels_at_once!(run_direct, job, Avx2, 2, [1, 2, 3, 4, 5, 6]) }
}

/// # Safety
/// The machine supports AVX2 and FMA.
#[target_feature(enable = "avx2,fma")]
pub(crate) unsafe fn winograd_avx2(job: &WinogradJob<'_>) {
    // 16 registers: sums of a block, two of weights and one of inputs.
    // SAFETY: the instructions are available here.
    unsafe { with_pixels_at_once!(run_winograd, job, Avx2, 2, [1, 2, 3, 4, 5, 6]) }
}
