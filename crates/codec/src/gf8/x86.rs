//! GF(2^8) products on x86-64: one 8x8 bit matrix per coefficient (GFNI), or two 16-entry tables
//! (shuffles).
//!
//! GFNI's own product uses another polynomial (0x11B); its affine transform takes any matrix, so it
//! can use ours.

use std::arch::x86_64::*;

use super::lanes::{ByteLanes, run};
use super::{NIBBLES, multiply};

/// Multiplication by c as a bit matrix for `vgf2p8affineqb`: byte 7 - i is the row of output bit i.
static MATRICES: [u64; 256] = matrices();

const fn matrices() -> [u64; 256] {
    let mut matrices = [0; 256];
    let mut c = 0;
    while c < 256 {
        let mut bit = 0;
        while bit < 64 {
            let (input, output) = (bit % 8, bit / 8);
            let column = multiply(c as u8, 1 << input);
            matrices[c] |= ((column >> output & 1) as u64) << ((7 - output) * 8 + input);
            bit += 1;
        }
        c += 1;
    }
    matrices
}

struct Avx512Gfni;

// In each implementation below, SAFETY of the loads and stores: the caller guarantees `BYTES`
// bytes. SAFETY of the instructions: the caller guarantees that the kernel is available.
impl ByteLanes for Avx512Gfni {
    const BYTES: usize = 64;
    const SUMS: usize = 16;
    const ROWS: usize = 16;
    type Stored = u64;
    type Source = __m512i;
    type Sum = __m512i;
    type Factor = __m512i;

    fn stored(coefficient: u8) -> u64 {
        MATRICES[coefficient as usize]
    }
    #[inline(always)]
    unsafe fn source(from: *const u8) -> __m512i {
        // SAFETY: see above.
        unsafe { _mm512_loadu_si512(from.cast()) }
    }
    #[inline(always)]
    unsafe fn zero() -> __m512i {
        // SAFETY: see above.
        unsafe { _mm512_setzero_si512() }
    }
    #[inline(always)]
    unsafe fn store(sum: __m512i, to: *mut u8) {
        // SAFETY: see above.
        unsafe { _mm512_storeu_si512(to.cast(), sum) }
    }
    #[inline(always)]
    unsafe fn factor(stored: *const u64) -> __m512i {
        // SAFETY: see above.
        unsafe { _mm512_set1_epi64((*stored).cast_signed()) }
    }
    #[inline(always)]
    unsafe fn add_product(sum: __m512i, source: __m512i, factor: __m512i) -> __m512i {
        // SAFETY: see above.
        unsafe { _mm512_xor_si512(sum, _mm512_gf2p8affine_epi64_epi8::<0>(source, factor)) }
    }
}

struct Avx2Gfni;

impl ByteLanes for Avx2Gfni {
    const BYTES: usize = 32;
    const SUMS: usize = 8;
    const ROWS: usize = 4;
    type Stored = u64;
    type Source = __m256i;
    type Sum = __m256i;
    type Factor = __m256i;

    fn stored(coefficient: u8) -> u64 {
        MATRICES[coefficient as usize]
    }
    #[inline(always)]
    unsafe fn source(from: *const u8) -> __m256i {
        // SAFETY: see above.
        unsafe { _mm256_loadu_si256(from.cast()) }
    }
    #[inline(always)]
    unsafe fn zero() -> __m256i {
        // SAFETY: see above.
        unsafe { _mm256_setzero_si256() }
    }
    #[inline(always)]
    unsafe fn store(sum: __m256i, to: *mut u8) {
        // SAFETY: see above.
        unsafe { _mm256_storeu_si256(to.cast(), sum) }
    }
    #[inline(always)]
    unsafe fn factor(stored: *const u64) -> __m256i {
        // SAFETY: see above.
        unsafe { _mm256_set1_epi64x((*stored).cast_signed()) }
    }
    #[inline(always)]
    unsafe fn add_product(sum: __m256i, source: __m256i, factor: __m256i) -> __m256i {
        // SAFETY: see above.
        unsafe { _mm256_xor_si256(sum, _mm256_gf2p8affine_epi64_epi8::<0>(source, factor)) }
    }
}

struct Avx2;

impl ByteLanes for Avx2 {
    const BYTES: usize = 32;
    const SUMS: usize = 8;
    const ROWS: usize = 4;
    type Stored = &'static [u8; 32];
    /// Low and high nibbles.
    type Source = (__m256i, __m256i);
    type Sum = __m256i;
    type Factor = (__m256i, __m256i);

    fn stored(coefficient: u8) -> &'static [u8; 32] {
        &NIBBLES[coefficient as usize]
    }
    #[inline(always)]
    unsafe fn source(from: *const u8) -> (__m256i, __m256i) {
        // SAFETY: see above.
        unsafe {
            let bytes = _mm256_loadu_si256(from.cast());
            let low = _mm256_set1_epi8(15);
            (_mm256_and_si256(bytes, low), _mm256_and_si256(_mm256_srli_epi64::<4>(bytes), low))
        }
    }
    #[inline(always)]
    unsafe fn zero() -> __m256i {
        // SAFETY: see above.
        unsafe { _mm256_setzero_si256() }
    }
    #[inline(always)]
    unsafe fn store(sum: __m256i, to: *mut u8) {
        // SAFETY: see above.
        unsafe { _mm256_storeu_si256(to.cast(), sum) }
    }
    #[inline(always)]
    unsafe fn factor(stored: *const &'static [u8; 32]) -> (__m256i, __m256i) {
        // SAFETY: see above; the tables have 32 bytes.
        unsafe {
            let tables = (*stored).as_ptr();
            (
                _mm256_broadcastsi128_si256(_mm_loadu_si128(tables.cast())),
                _mm256_broadcastsi128_si256(_mm_loadu_si128(tables.add(16).cast())),
            )
        }
    }
    #[inline(always)]
    unsafe fn add_product(sum: __m256i, source: (__m256i, __m256i), factor: (__m256i, __m256i)) -> __m256i {
        // SAFETY: see above.
        unsafe {
            let low = _mm256_shuffle_epi8(factor.0, source.0);
            let high = _mm256_shuffle_epi8(factor.1, source.1);
            _mm256_xor_si256(sum, _mm256_xor_si256(low, high))
        }
    }
}

/// # Safety
/// As [`run`], on a machine with AVX-512F, AVX-512BW and GFNI.
#[target_feature(enable = "avx512f,avx512bw,gfni")]
pub(super) unsafe fn avx512_gfni(coefficients: &[u8], sources: &[&[u8]], sums: &mut [&mut [u8]], bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { run::<Avx512Gfni>(coefficients, sources, sums, bytes) }
}

/// # Safety
/// As [`run`], on a machine with AVX2 and GFNI.
#[target_feature(enable = "avx2,gfni")]
pub(super) unsafe fn avx2_gfni(coefficients: &[u8], sources: &[&[u8]], sums: &mut [&mut [u8]], bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { run::<Avx2Gfni>(coefficients, sources, sums, bytes) }
}

/// # Safety
/// As [`run`], on a machine with AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn avx2(coefficients: &[u8], sources: &[&[u8]], sums: &mut [&mut [u8]], bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { run::<Avx2>(coefficients, sources, sums, bytes) }
}
