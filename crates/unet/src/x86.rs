//! The convolutions' lanes on x86-64.

use std::arch::x86_64::*;

use crate::convolution::{Job, Lanes, convolve_with};

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
    unsafe fn splat(from: *const f32) -> __m512 {
        // SAFETY: see above.
        unsafe { _mm512_set1_ps(*from) }
    }
    #[inline(always)]
    unsafe fn multiply_add(a: __m512, b: __m512, sum: __m512) -> __m512 {
        // SAFETY: see above.
        unsafe { _mm512_fmadd_ps(a, b, sum) }
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
    unsafe fn splat(from: *const f32) -> __m256 {
        // SAFETY: see above.
        unsafe { _mm256_set1_ps(*from) }
    }
    #[inline(always)]
    unsafe fn multiply_add(a: __m256, b: __m256, sum: __m256) -> __m256 {
        // SAFETY: see above.
        unsafe { _mm256_fmadd_ps(a, b, sum) }
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
pub(crate) unsafe fn convolve_avx512(job: &Job<'_>) {
    // 32 registers: sums of a block and a weight.
    // SAFETY: the instructions are available here.
    unsafe {
        match job.block_of(&[1, 2, 4, 8, 12, 16, 20, 24, 28]) {
            28 => convolve_with::<Avx512, 1, 28>(job),
            24 => convolve_with::<Avx512, 1, 24>(job),
            20 => convolve_with::<Avx512, 1, 20>(job),
            16 => convolve_with::<Avx512, 1, 16>(job),
            12 => convolve_with::<Avx512, 1, 12>(job),
            8 => convolve_with::<Avx512, 1, 8>(job),
            4 => convolve_with::<Avx512, 1, 4>(job),
            2 => convolve_with::<Avx512, 1, 2>(job),
            _ => convolve_with::<Avx512, 1, 1>(job),
        }
    }
}

/// # Safety
/// The machine supports AVX2 and FMA.
#[target_feature(enable = "avx2,fma")]
pub(crate) unsafe fn convolve_avx2(job: &Job<'_>) {
    // 16 registers: sums of a block, two of weights and one of inputs.
    // SAFETY: the instructions are available here.
    unsafe {
        match job.block_of(&[1, 2, 3, 4, 5, 6]) {
            6 => convolve_with::<Avx2, 2, 6>(job),
            5 => convolve_with::<Avx2, 2, 5>(job),
            4 => convolve_with::<Avx2, 2, 4>(job),
            3 => convolve_with::<Avx2, 2, 3>(job),
            2 => convolve_with::<Avx2, 2, 2>(job),
            _ => convolve_with::<Avx2, 2, 1>(job),
        }
    }
}
