//! GF(2^16) products on x86-64: a 16x16 bit matrix as four 8x8 ones (GFNI), or eight 16-entry
//! tables (shuffles).

use std::arch::x86_64::*;
use std::sync::LazyLock;

use super::columns;
use super::lanes::{Step, SymbolLanes, run};

/// Bit matrices low to low, high to low, low to high, high to high byte, in the layout of
/// `vgf2p8affineqb`.
#[derive(Clone, Copy)]
#[repr(align(32))]
struct Matrices([u64; 4]);

/// Low and high bytes of the products with each value of each nibble, nibble by nibble.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Shuffles([[[u8; 16]; 2]; 4]);

/// Multipliers by t, for each low byte and each high byte of t. They are linear in t, so those of
/// the two bytes of any t add up. Both tables together stay in L1 or L2, where one entry per t
/// would not fit.
struct ByByte<T>([[T; 256]; 2]);

impl<T> ByByte<T> {
    fn new(of: impl Fn(u16) -> T) -> Box<Self> {
        Box::new(ByByte([std::array::from_fn(|t| of(t as u16)), std::array::from_fn(|t| of((t as u16) << 8))]))
    }
}

static MATRICES: LazyLock<Box<ByByte<Matrices>>> = LazyLock::new(|| {
    ByByte::new(|t| {
        let columns = columns(t);
        let matrix = |inputs: usize, outputs: usize| {
            let mut matrix = 0u64;
            for input in 0..8 {
                for output in 0..8 {
                    let bit = columns[inputs + input] >> (outputs + output) & 1;
                    matrix |= u64::from(bit) << ((7 - output) * 8 + input);
                }
            }
            matrix
        };
        Matrices([matrix(0, 0), matrix(8, 0), matrix(0, 8), matrix(8, 8)])
    })
});

static SHUFFLES: LazyLock<Box<ByByte<Shuffles>>> = LazyLock::new(|| {
    ByByte::new(|t| {
        let columns = columns(t);
        Shuffles(std::array::from_fn(|nibble| {
            let product = |value: usize| (0..4).filter(|bit| value >> bit & 1 == 1).fold(0, |sum, bit| sum ^ columns[4 * nibble + bit]);
            [std::array::from_fn(|value| product(value) as u8), std::array::from_fn(|value| (product(value) >> 8) as u8)]
        }))
    })
});

struct Avx512Gfni;

// In each implementation below, SAFETY of the loads and stores: the caller guarantees `BYTES` bytes
// (`bytes` in `read` and `write`). SAFETY of the instructions: the caller guarantees that the
// kernel is available.
impl SymbolLanes for Avx512Gfni {
    /// Two blocks: the low bytes of both in one register, the high bytes in another.
    const BYTES: usize = 128;
    type Pair = (__m512i, __m512i);
    type Factor = [__m512i; 4];

    #[inline(always)]
    unsafe fn factor(t: u16) -> [__m512i; 4] {
        let [low, high] = &MATRICES.0;
        let (low, high) = (&low[usize::from(t & 0xFF)], &high[usize::from(t >> 8)]);
        // SAFETY: see above.
        unsafe {
            let four = _mm256_xor_si256(_mm256_load_si256(low.0.as_ptr().cast()), _mm256_load_si256(high.0.as_ptr().cast()));
            let wide = _mm512_castsi256_si512(four);
            [
                _mm512_permutexvar_epi64(_mm512_set1_epi64(0), wide),
                _mm512_permutexvar_epi64(_mm512_set1_epi64(1), wide),
                _mm512_permutexvar_epi64(_mm512_set1_epi64(2), wide),
                _mm512_permutexvar_epi64(_mm512_set1_epi64(3), wide),
            ]
        }
    }
    #[inline(always)]
    unsafe fn zero() -> Self::Pair {
        // SAFETY: see above.
        unsafe { (_mm512_setzero_si512(), _mm512_setzero_si512()) }
    }
    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self::Pair {
        // SAFETY: see above.
        unsafe { (_mm512_loadu_si512(from.cast()), _mm512_loadu_si512(from.add(64).cast())) }
    }
    #[inline(always)]
    unsafe fn store(pair: Self::Pair, to: *mut u8) {
        // SAFETY: see above.
        unsafe {
            _mm512_storeu_si512(to.cast(), pair.0);
            _mm512_storeu_si512(to.add(64).cast(), pair.1);
        }
    }
    #[inline(always)]
    unsafe fn read(from: *const u8, bytes: usize) -> Self::Pair {
        // SAFETY: see above.
        unsafe {
            let first = _mm512_loadu_si512(from.cast());
            let second = if bytes == 128 { _mm512_loadu_si512(from.add(64).cast()) } else { _mm512_setzero_si512() };
            (_mm512_shuffle_i64x2::<0x44>(first, second), _mm512_shuffle_i64x2::<0xEE>(first, second))
        }
    }
    #[inline(always)]
    unsafe fn write(pair: Self::Pair, to: *mut u8, bytes: usize) {
        // SAFETY: see above.
        unsafe {
            _mm512_storeu_si512(to.cast(), _mm512_shuffle_i64x2::<0x44>(pair.0, pair.1));
            if bytes == 128 {
                _mm512_storeu_si512(to.add(64).cast(), _mm512_shuffle_i64x2::<0xEE>(pair.0, pair.1));
            }
        }
    }
    #[inline(always)]
    unsafe fn add(a: Self::Pair, b: Self::Pair) -> Self::Pair {
        // SAFETY: see above.
        unsafe { (_mm512_xor_si512(a.0, b.0), _mm512_xor_si512(a.1, b.1)) }
    }
    #[inline(always)]
    unsafe fn add_product(sum: Self::Pair, x: Self::Pair, f: [__m512i; 4]) -> Self::Pair {
        // SAFETY: see above.
        unsafe {
            let low = _mm512_gf2p8affine_epi64_epi8::<0>(x.0, f[0]);
            let high = _mm512_gf2p8affine_epi64_epi8::<0>(x.0, f[2]);
            let low_of_high = _mm512_gf2p8affine_epi64_epi8::<0>(x.1, f[1]);
            let high_of_high = _mm512_gf2p8affine_epi64_epi8::<0>(x.1, f[3]);
            // 0x96: exclusive or of all three.
            (_mm512_ternarylogic_epi64::<0x96>(sum.0, low, low_of_high), _mm512_ternarylogic_epi64::<0x96>(sum.1, high, high_of_high))
        }
    }
}

struct Avx2Gfni;

impl SymbolLanes for Avx2Gfni {
    const BYTES: usize = 64;
    type Pair = (__m256i, __m256i);
    type Factor = [__m256i; 4];

    #[inline(always)]
    unsafe fn factor(t: u16) -> [__m256i; 4] {
        let [low, high] = &MATRICES.0;
        let (low, high) = (&low[usize::from(t & 0xFF)], &high[usize::from(t >> 8)]);
        // SAFETY: see above.
        unsafe {
            let four = _mm256_xor_si256(_mm256_load_si256(low.0.as_ptr().cast()), _mm256_load_si256(high.0.as_ptr().cast()));
            [
                _mm256_permute4x64_epi64::<0x00>(four),
                _mm256_permute4x64_epi64::<0x55>(four),
                _mm256_permute4x64_epi64::<0xAA>(four),
                _mm256_permute4x64_epi64::<0xFF>(four),
            ]
        }
    }
    #[inline(always)]
    unsafe fn zero() -> Self::Pair {
        // SAFETY: see above.
        unsafe { zero_pair() }
    }
    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self::Pair {
        // SAFETY: see above.
        unsafe { load_pair(from) }
    }
    #[inline(always)]
    unsafe fn store(pair: Self::Pair, to: *mut u8) {
        // SAFETY: see above.
        unsafe { store_pair(pair, to) }
    }
    #[inline(always)]
    unsafe fn read(from: *const u8, _bytes: usize) -> Self::Pair {
        // SAFETY: see above.
        unsafe { load_pair(from) }
    }
    #[inline(always)]
    unsafe fn write(pair: Self::Pair, to: *mut u8, _bytes: usize) {
        // SAFETY: see above.
        unsafe { store_pair(pair, to) }
    }
    #[inline(always)]
    unsafe fn add(a: Self::Pair, b: Self::Pair) -> Self::Pair {
        // SAFETY: see above.
        unsafe { add_pair(a, b) }
    }
    #[inline(always)]
    unsafe fn add_product(sum: Self::Pair, x: Self::Pair, f: [__m256i; 4]) -> Self::Pair {
        // SAFETY: see above.
        unsafe {
            let low = _mm256_gf2p8affine_epi64_epi8::<0>(x.0, f[0]);
            let high = _mm256_gf2p8affine_epi64_epi8::<0>(x.0, f[2]);
            let low_of_high = _mm256_gf2p8affine_epi64_epi8::<0>(x.1, f[1]);
            let high_of_high = _mm256_gf2p8affine_epi64_epi8::<0>(x.1, f[3]);
            (_mm256_xor_si256(sum.0, _mm256_xor_si256(low, low_of_high)), _mm256_xor_si256(sum.1, _mm256_xor_si256(high, high_of_high)))
        }
    }
}

struct Avx2;

impl SymbolLanes for Avx2 {
    const BYTES: usize = 64;
    type Pair = (__m256i, __m256i);
    /// Tables of low bytes and of high bytes for each nibble.
    type Factor = [[__m256i; 2]; 4];

    #[inline(always)]
    unsafe fn factor(t: u16) -> [[__m256i; 2]; 4] {
        let [low, high] = &SHUFFLES.0;
        let (low, high) = (&low[usize::from(t & 0xFF)].0, &high[usize::from(t >> 8)].0);
        // SAFETY: see above; the tables have 16 bytes and are aligned.
        unsafe {
            let mut tables = [[_mm256_setzero_si256(); 2]; 4];
            for nibble in 0..4 {
                for half in 0..2 {
                    tables[nibble][half] = _mm256_broadcastsi128_si256(_mm_xor_si128(
                        _mm_load_si128(low[nibble][half].as_ptr().cast()),
                        _mm_load_si128(high[nibble][half].as_ptr().cast()),
                    ));
                }
            }
            tables
        }
    }
    #[inline(always)]
    unsafe fn zero() -> Self::Pair {
        // SAFETY: see above.
        unsafe { zero_pair() }
    }
    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self::Pair {
        // SAFETY: see above.
        unsafe { load_pair(from) }
    }
    #[inline(always)]
    unsafe fn store(pair: Self::Pair, to: *mut u8) {
        // SAFETY: see above.
        unsafe { store_pair(pair, to) }
    }
    #[inline(always)]
    unsafe fn read(from: *const u8, _bytes: usize) -> Self::Pair {
        // SAFETY: see above.
        unsafe { load_pair(from) }
    }
    #[inline(always)]
    unsafe fn write(pair: Self::Pair, to: *mut u8, _bytes: usize) {
        // SAFETY: see above.
        unsafe { store_pair(pair, to) }
    }
    #[inline(always)]
    unsafe fn add(a: Self::Pair, b: Self::Pair) -> Self::Pair {
        // SAFETY: see above.
        unsafe { add_pair(a, b) }
    }
    #[inline(always)]
    unsafe fn add_product(mut sum: Self::Pair, x: Self::Pair, f: [[__m256i; 2]; 4]) -> Self::Pair {
        // SAFETY: see above.
        unsafe {
            let mask = _mm256_set1_epi8(15);
            let nibbles = [
                _mm256_and_si256(x.0, mask),
                _mm256_and_si256(_mm256_srli_epi64::<4>(x.0), mask),
                _mm256_and_si256(x.1, mask),
                _mm256_and_si256(_mm256_srli_epi64::<4>(x.1), mask),
            ];
            for i in 0..4 {
                sum.0 = _mm256_xor_si256(sum.0, _mm256_shuffle_epi8(f[i][0], nibbles[i]));
                sum.1 = _mm256_xor_si256(sum.1, _mm256_shuffle_epi8(f[i][1], nibbles[i]));
            }
            sum
        }
    }
}

#[inline(always)]
unsafe fn zero_pair() -> (__m256i, __m256i) {
    // SAFETY: see above.
    unsafe { (_mm256_setzero_si256(), _mm256_setzero_si256()) }
}

#[inline(always)]
unsafe fn load_pair(from: *const u8) -> (__m256i, __m256i) {
    // SAFETY: see above.
    unsafe { (_mm256_loadu_si256(from.cast()), _mm256_loadu_si256(from.add(32).cast())) }
}

#[inline(always)]
unsafe fn store_pair(pair: (__m256i, __m256i), to: *mut u8) {
    // SAFETY: see above.
    unsafe {
        _mm256_storeu_si256(to.cast(), pair.0);
        _mm256_storeu_si256(to.add(32).cast(), pair.1);
    }
}

#[inline(always)]
unsafe fn add_pair(a: (__m256i, __m256i), b: (__m256i, __m256i)) -> (__m256i, __m256i) {
    // SAFETY: see above.
    unsafe { (_mm256_xor_si256(a.0, b.0), _mm256_xor_si256(a.1, b.1)) }
}

/// # Safety
/// As [`run`], on a machine with AVX-512F, AVX-512BW and GFNI.
#[target_feature(enable = "avx512f,avx512bw,gfni")]
pub(super) unsafe fn avx512_gfni(step: Step<'_>, pitch: usize, width: usize) {
    // SAFETY: the caller's promise.
    unsafe { run::<Avx512Gfni>(step, pitch, width) }
}

/// # Safety
/// As [`run`], on a machine with AVX2 and GFNI.
#[target_feature(enable = "avx2,gfni")]
pub(super) unsafe fn avx2_gfni(step: Step<'_>, pitch: usize, width: usize) {
    // SAFETY: the caller's promise.
    unsafe { run::<Avx2Gfni>(step, pitch, width) }
}

/// # Safety
/// As [`run`], on a machine with AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn avx2(step: Step<'_>, pitch: usize, width: usize) {
    // SAFETY: the caller's promise.
    unsafe { run::<Avx2>(step, pitch, width) }
}
