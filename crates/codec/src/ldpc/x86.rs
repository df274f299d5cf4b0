//! The decoder's lanes on x86-64.

use std::arch::x86_64::*;

use super::decode::{Schedule, State};
use super::lanes::{ByteLanes, check_with, iterate_with};

struct Avx512;

// In each implementation below, SAFETY of the loads and stores: the caller guarantees `LANES`
// bytes. SAFETY of the instructions: the caller guarantees that the kernel is available.
impl ByteLanes for Avx512 {
    const LANES: usize = 64;
    type Register = __m512i;

    #[inline(always)]
    unsafe fn load(from: *const i8) -> __m512i {
        // SAFETY: see above.
        unsafe { _mm512_loadu_si512(from.cast()) }
    }
    #[inline(always)]
    unsafe fn store(register: __m512i, to: *mut i8) {
        // SAFETY: see above.
        unsafe { _mm512_storeu_si512(to.cast(), register) }
    }
    #[inline(always)]
    unsafe fn splat(value: i8) -> __m512i {
        // SAFETY: see above.
        unsafe { _mm512_set1_epi8(value) }
    }
    #[inline(always)]
    unsafe fn xor(a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: see above.
        unsafe { _mm512_xor_si512(a, b) }
    }
    #[inline(always)]
    unsafe fn subtract(a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: see above.
        unsafe { _mm512_subs_epi8(a, b) }
    }
    #[inline(always)]
    unsafe fn add(a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: see above.
        unsafe { _mm512_adds_epi8(a, b) }
    }
    #[inline(always)]
    unsafe fn magnitude(a: __m512i) -> __m512i {
        // SAFETY: see above.
        unsafe { _mm512_abs_epi8(a) }
    }
    #[inline(always)]
    unsafe fn smaller(a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: see above.
        unsafe { _mm512_min_epu8(a, b) }
    }
    #[inline(always)]
    unsafe fn larger(a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: see above.
        unsafe { _mm512_max_epu8(a, b) }
    }
    #[inline(always)]
    unsafe fn three_quarters(a: __m512i) -> __m512i {
        // SAFETY: see above.
        unsafe {
            let quarter = _mm512_and_si512(_mm512_srli_epi16::<2>(a), _mm512_set1_epi8(63));
            _mm512_sub_epi8(a, quarter)
        }
    }
    #[inline(always)]
    unsafe fn where_equal(a: __m512i, b: __m512i, then: __m512i, or: __m512i) -> __m512i {
        // SAFETY: see above.
        unsafe { _mm512_mask_mov_epi8(or, _mm512_cmpeq_epi8_mask(a, b), then) }
    }
    #[inline(always)]
    unsafe fn with_sign(a: __m512i, sign: __m512i) -> __m512i {
        // SAFETY: see above.
        unsafe { _mm512_mask_sub_epi8(a, _mm512_movepi8_mask(sign), _mm512_setzero_si512(), a) }
    }
    #[inline(always)]
    unsafe fn any_negative(a: __m512i, lanes: usize) -> bool {
        // SAFETY: see above.
        let negative = unsafe { _mm512_movepi8_mask(a) };
        negative << (64 - lanes.min(64)) != 0
    }
}

struct Avx2;

impl ByteLanes for Avx2 {
    const LANES: usize = 32;
    type Register = __m256i;

    #[inline(always)]
    unsafe fn load(from: *const i8) -> __m256i {
        // SAFETY: see above.
        unsafe { _mm256_loadu_si256(from.cast()) }
    }
    #[inline(always)]
    unsafe fn store(register: __m256i, to: *mut i8) {
        // SAFETY: see above.
        unsafe { _mm256_storeu_si256(to.cast(), register) }
    }
    #[inline(always)]
    unsafe fn splat(value: i8) -> __m256i {
        // SAFETY: see above.
        unsafe { _mm256_set1_epi8(value) }
    }
    #[inline(always)]
    unsafe fn xor(a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: see above.
        unsafe { _mm256_xor_si256(a, b) }
    }
    #[inline(always)]
    unsafe fn subtract(a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: see above.
        unsafe { _mm256_subs_epi8(a, b) }
    }
    #[inline(always)]
    unsafe fn add(a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: see above.
        unsafe { _mm256_adds_epi8(a, b) }
    }
    #[inline(always)]
    unsafe fn magnitude(a: __m256i) -> __m256i {
        // SAFETY: see above.
        unsafe { _mm256_abs_epi8(a) }
    }
    #[inline(always)]
    unsafe fn smaller(a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: see above.
        unsafe { _mm256_min_epu8(a, b) }
    }
    #[inline(always)]
    unsafe fn larger(a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: see above.
        unsafe { _mm256_max_epu8(a, b) }
    }
    #[inline(always)]
    unsafe fn three_quarters(a: __m256i) -> __m256i {
        // SAFETY: see above.
        unsafe {
            let quarter = _mm256_and_si256(_mm256_srli_epi16::<2>(a), _mm256_set1_epi8(63));
            _mm256_sub_epi8(a, quarter)
        }
    }
    #[inline(always)]
    unsafe fn where_equal(a: __m256i, b: __m256i, then: __m256i, or: __m256i) -> __m256i {
        // SAFETY: see above.
        unsafe { _mm256_blendv_epi8(or, then, _mm256_cmpeq_epi8(a, b)) }
    }
    #[inline(always)]
    unsafe fn with_sign(a: __m256i, sign: __m256i) -> __m256i {
        // SAFETY: see above. `sign_epi8` would zero lanes whose sign is zero, so a bit is set.
        unsafe { _mm256_sign_epi8(a, _mm256_or_si256(sign, _mm256_set1_epi8(1))) }
    }
    #[inline(always)]
    unsafe fn any_negative(a: __m256i, lanes: usize) -> bool {
        // SAFETY: see above.
        let negative = unsafe { _mm256_movemask_epi8(a) };
        negative << (32 - lanes.min(32)) != 0
    }
}

/// # Safety
/// As [`iterate_with`], on a machine with AVX-512F and AVX-512BW.
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) unsafe fn iterate_avx512(schedule: &Schedule, state: &mut State) {
    // SAFETY: the caller's promise.
    unsafe { iterate_with::<Avx512>(schedule, state) }
}

/// # Safety
/// As [`check_with`], on a machine with AVX-512F and AVX-512BW.
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) unsafe fn check_avx512(schedule: &Schedule, state: &State) -> bool {
    // SAFETY: the caller's promise.
    unsafe { check_with::<Avx512>(schedule, state) }
}

/// # Safety
/// As [`iterate_with`], on a machine with AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn iterate_avx2(schedule: &Schedule, state: &mut State) {
    // SAFETY: the caller's promise.
    unsafe { iterate_with::<Avx2>(schedule, state) }
}

/// # Safety
/// As [`check_with`], on a machine with AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn check_avx2(schedule: &Schedule, state: &State) -> bool {
    // SAFETY: the caller's promise.
    unsafe { check_with::<Avx2>(schedule, state) }
}
