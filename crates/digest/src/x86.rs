//! MD5 (RFC 1321) on x86-64 vector registers: register k contains word k of every content's block.

use std::arch::x86_64::*;

use crate::{BLOCK_BYTES, Block};

/// Most lanes of a register.
const LANES_MAX: usize = 16;
/// Words of a block.
const WORDS: usize = BLOCK_BYTES / 4;

/// Sines of RFC 1321, 3.4: the integer part of 2^32 |sin(i + 1)|.
#[rustfmt::skip]
const SINES: [u32; 64] = [
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391,
];

/// A register of 32-bit words, one per content.
///
/// Safety of all functions: the machine supports the instructions. [`Words::load`] and
/// [`Words::store`] access `LANES` words; [`Words::columns`] reads 64 bytes from each of the first
/// `LANES` pointers.
trait Words: Copy {
    const LANES: usize;
    unsafe fn splat(word: u32) -> Self;
    unsafe fn add(self, other: Self) -> Self;
    /// Rotates left by LEFT; RIGHT is 32 - LEFT.
    unsafe fn rotate<const LEFT: i32, const RIGHT: i32>(self) -> Self;
    /// Takes the bits of `one` where those of `self` are set, of `other` elsewhere.
    unsafe fn choose(self, one: Self, other: Self) -> Self;
    unsafe fn xor3(self, c: Self, d: Self) -> Self;
    /// The RFC's function I: c xor (b or not d).
    unsafe fn odd(b: Self, c: Self, d: Self) -> Self;
    unsafe fn load(from: *const u32) -> Self;
    unsafe fn store(self, to: *mut u32);
    /// Word k of each block, for every k.
    unsafe fn columns(blocks: &[*const Block; LANES_MAX]) -> [Self; WORDS];
}

// SAFETY in both implementations: the caller guarantees the instructions and the pointers.
impl Words for __m512i {
    const LANES: usize = 16;

    #[inline(always)]
    unsafe fn splat(word: u32) -> Self {
        // SAFETY: see above.
        unsafe { _mm512_set1_epi32(word.cast_signed()) }
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: see above.
        unsafe { _mm512_add_epi32(self, other) }
    }
    #[inline(always)]
    unsafe fn rotate<const LEFT: i32, const RIGHT: i32>(self) -> Self {
        // SAFETY: see above.
        unsafe { _mm512_rol_epi32::<LEFT>(self) }
    }
    // The constants below are truth tables: bit 4x + 2y + z is the result for bits x, y, z.
    #[inline(always)]
    unsafe fn choose(self, one: Self, other: Self) -> Self {
        // SAFETY: see above.
        unsafe { _mm512_ternarylogic_epi32::<0xca>(self, one, other) }
    }
    #[inline(always)]
    unsafe fn xor3(self, c: Self, d: Self) -> Self {
        // SAFETY: see above.
        unsafe { _mm512_ternarylogic_epi32::<0x96>(self, c, d) }
    }
    #[inline(always)]
    unsafe fn odd(b: Self, c: Self, d: Self) -> Self {
        // SAFETY: see above.
        unsafe { _mm512_ternarylogic_epi32::<0x39>(b, c, d) }
    }
    #[inline(always)]
    unsafe fn load(from: *const u32) -> Self {
        // SAFETY: see above.
        unsafe { _mm512_loadu_si512(from.cast()) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut u32) {
        // SAFETY: see above.
        unsafe { _mm512_storeu_si512(to.cast(), self) }
    }
    #[inline(always)]
    unsafe fn columns(blocks: &[*const Block; LANES_MAX]) -> [Self; WORDS] {
        // SAFETY: see above.
        unsafe {
            let row = |lane: usize| _mm512_loadu_si512(blocks[lane].cast());
            let none = _mm512_setzero_si512();
            // In quarter q of part[4g + j]: word 4q + j of the blocks 4g to 4g + 3.
            let mut part = [none; 16];
            for g in 0..4 {
                let (a, b, c, d) = (row(4 * g), row(4 * g + 1), row(4 * g + 2), row(4 * g + 3));
                let (ab, cd) = (_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d));
                part[4 * g] = _mm512_unpacklo_epi64(ab, cd);
                part[4 * g + 1] = _mm512_unpackhi_epi64(ab, cd);
                let (ab, cd) = (_mm512_unpackhi_epi32(a, b), _mm512_unpackhi_epi32(c, d));
                part[4 * g + 2] = _mm512_unpacklo_epi64(ab, cd);
                part[4 * g + 3] = _mm512_unpackhi_epi64(ab, cd);
            }
            let mut columns = [none; WORDS];
            for j in 0..4 {
                let low = _mm512_shuffle_i32x4::<0x44>(part[j], part[4 + j]);
                let high = _mm512_shuffle_i32x4::<0x44>(part[8 + j], part[12 + j]);
                columns[j] = _mm512_shuffle_i32x4::<0x88>(low, high);
                columns[4 + j] = _mm512_shuffle_i32x4::<0xdd>(low, high);
                let low = _mm512_shuffle_i32x4::<0xee>(part[j], part[4 + j]);
                let high = _mm512_shuffle_i32x4::<0xee>(part[8 + j], part[12 + j]);
                columns[8 + j] = _mm512_shuffle_i32x4::<0x88>(low, high);
                columns[12 + j] = _mm512_shuffle_i32x4::<0xdd>(low, high);
            }
            columns
        }
    }
}

impl Words for __m256i {
    const LANES: usize = 8;

    #[inline(always)]
    unsafe fn splat(word: u32) -> Self {
        // SAFETY: see above.
        unsafe { _mm256_set1_epi32(word.cast_signed()) }
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: see above.
        unsafe { _mm256_add_epi32(self, other) }
    }
    #[inline(always)]
    unsafe fn rotate<const LEFT: i32, const RIGHT: i32>(self) -> Self {
        // SAFETY: see above.
        unsafe { _mm256_or_si256(_mm256_slli_epi32::<LEFT>(self), _mm256_srli_epi32::<RIGHT>(self)) }
    }
    #[inline(always)]
    unsafe fn choose(self, one: Self, other: Self) -> Self {
        // SAFETY: see above.
        unsafe { _mm256_xor_si256(other, _mm256_and_si256(self, _mm256_xor_si256(one, other))) }
    }
    #[inline(always)]
    unsafe fn xor3(self, c: Self, d: Self) -> Self {
        // SAFETY: see above.
        unsafe { _mm256_xor_si256(self, _mm256_xor_si256(c, d)) }
    }
    #[inline(always)]
    unsafe fn odd(b: Self, c: Self, d: Self) -> Self {
        // SAFETY: see above.
        unsafe { _mm256_xor_si256(c, _mm256_or_si256(b, _mm256_xor_si256(d, _mm256_set1_epi32(-1)))) }
    }
    #[inline(always)]
    unsafe fn load(from: *const u32) -> Self {
        // SAFETY: see above.
        unsafe { _mm256_loadu_si256(from.cast()) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut u32) {
        // SAFETY: see above.
        unsafe { _mm256_storeu_si256(to.cast(), self) }
    }
    #[inline(always)]
    unsafe fn columns(blocks: &[*const Block; LANES_MAX]) -> [Self; WORDS] {
        // SAFETY: see above; a block is two registers.
        unsafe {
            let none = _mm256_setzero_si256();
            let mut columns = [none; WORDS];
            for half in 0..2 {
                let row = |lane: usize| _mm256_loadu_si256(blocks[lane].cast::<__m256i>().add(half));
                // In half q of part[4g + j]: word 4q + j of the blocks 4g to 4g + 3.
                let mut part = [none; 8];
                for g in 0..2 {
                    let (a, b, c, d) = (row(4 * g), row(4 * g + 1), row(4 * g + 2), row(4 * g + 3));
                    let (ab, cd) = (_mm256_unpacklo_epi32(a, b), _mm256_unpacklo_epi32(c, d));
                    part[4 * g] = _mm256_unpacklo_epi64(ab, cd);
                    part[4 * g + 1] = _mm256_unpackhi_epi64(ab, cd);
                    let (ab, cd) = (_mm256_unpackhi_epi32(a, b), _mm256_unpackhi_epi32(c, d));
                    part[4 * g + 2] = _mm256_unpacklo_epi64(ab, cd);
                    part[4 * g + 3] = _mm256_unpackhi_epi64(ab, cd);
                }
                for j in 0..4 {
                    columns[8 * half + j] = _mm256_permute2x128_si256::<0x20>(part[j], part[4 + j]);
                    columns[8 * half + 4 + j] = _mm256_permute2x128_si256::<0x31>(part[j], part[4 + j]);
                }
            }
            columns
        }
    }
}

/// Four steps of a round, starting at step `first`; afterwards the registers are back in their
/// places. `f` is the round's function, `s` the state and `x` the block; each step takes a word of
/// the block and a rotation.
macro_rules! four {
    ($f:expr, $s:expr, $x:expr, $first:expr, [$($word:expr),+], [$(($left:literal, $right:literal)),+]) => {{
        let mut step = $first;
        $({
            let [a, b, c, d] = $s;
            let sum = a.add($x[$word].add(W::splat(SINES[step]))).add($f(b, c, d));
            $s = [d, sum.rotate::<$left, $right>().add(b), b, c];
            step += 1;
        })+
        let _ = step;
    }};
}

/// Compresses `count` blocks of each content.
///
/// # Safety
/// The machine supports the instructions of `W`, and each of the first `W::LANES` pointers refers
/// to `count` blocks.
#[inline(always)]
unsafe fn compress<W: Words>(states: &mut [[u32; LANES_MAX]; 4], mut blocks: [*const Block; LANES_MAX], count: usize) {
    // SAFETY: the caller's guarantee; the pointers advance by `count` blocks in total, so at most
    // to the end of their blocks.
    unsafe {
        let mut state: [W; 4] = [0, 1, 2, 3].map(|i| W::load(states[i].as_ptr()));
        for _ in 0..count {
            let x = W::columns(&blocks);
            for block in &mut blocks[..W::LANES] {
                *block = block.add(1);
            }
            let mut s = state;
            let f = |b: W, c: W, d: W| b.choose(c, d);
            four!(f, s, x, 0, [0, 1, 2, 3], [(7, 25), (12, 20), (17, 15), (22, 10)]);
            four!(f, s, x, 4, [4, 5, 6, 7], [(7, 25), (12, 20), (17, 15), (22, 10)]);
            four!(f, s, x, 8, [8, 9, 10, 11], [(7, 25), (12, 20), (17, 15), (22, 10)]);
            four!(f, s, x, 12, [12, 13, 14, 15], [(7, 25), (12, 20), (17, 15), (22, 10)]);
            let g = |b: W, c: W, d: W| d.choose(b, c);
            four!(g, s, x, 16, [1, 6, 11, 0], [(5, 27), (9, 23), (14, 18), (20, 12)]);
            four!(g, s, x, 20, [5, 10, 15, 4], [(5, 27), (9, 23), (14, 18), (20, 12)]);
            four!(g, s, x, 24, [9, 14, 3, 8], [(5, 27), (9, 23), (14, 18), (20, 12)]);
            four!(g, s, x, 28, [13, 2, 7, 12], [(5, 27), (9, 23), (14, 18), (20, 12)]);
            let h = |b: W, c: W, d: W| b.xor3(c, d);
            four!(h, s, x, 32, [5, 8, 11, 14], [(4, 28), (11, 21), (16, 16), (23, 9)]);
            four!(h, s, x, 36, [1, 4, 7, 10], [(4, 28), (11, 21), (16, 16), (23, 9)]);
            four!(h, s, x, 40, [13, 0, 3, 6], [(4, 28), (11, 21), (16, 16), (23, 9)]);
            four!(h, s, x, 44, [9, 12, 15, 2], [(4, 28), (11, 21), (16, 16), (23, 9)]);
            let i = |b: W, c: W, d: W| W::odd(b, c, d);
            four!(i, s, x, 48, [0, 7, 14, 5], [(6, 26), (10, 22), (15, 17), (21, 11)]);
            four!(i, s, x, 52, [12, 3, 10, 1], [(6, 26), (10, 22), (15, 17), (21, 11)]);
            four!(i, s, x, 56, [8, 15, 6, 13], [(6, 26), (10, 22), (15, 17), (21, 11)]);
            four!(i, s, x, 60, [4, 11, 2, 9], [(6, 26), (10, 22), (15, 17), (21, 11)]);
            for (word, more) in state.iter_mut().zip(s) {
                *word = word.add(more);
            }
        }
        for (words, word) in states.iter_mut().zip(state) {
            word.store(words.as_mut_ptr());
        }
    }
}

/// # Safety
/// As of [`compress`].
#[target_feature(enable = "avx512f")]
unsafe fn on_avx512(states: &mut [[u32; LANES_MAX]; 4], blocks: [*const Block; LANES_MAX], count: usize) {
    // SAFETY: the caller's promise.
    unsafe { compress::<__m512i>(states, blocks, count) }
}

/// # Safety
/// As of [`compress`].
#[target_feature(enable = "avx2")]
unsafe fn on_avx2(states: &mut [[u32; LANES_MAX]; 4], blocks: [*const Block; LANES_MAX], count: usize) {
    // SAFETY: the caller's promise.
    unsafe { compress::<__m256i>(states, blocks, count) }
}

pub(crate) fn compress_avx512(steps: &mut [(&mut [u32; 4], &[Block])]) {
    assert!(is_x86_feature_detected!("avx512f") && steps.len() <= <__m512i as Words>::LANES);
    // SAFETY: checked above; `in_lanes` passes pointers to `count` blocks each.
    in_lanes(steps, |states, blocks, count| unsafe { on_avx512(states, blocks, count) });
}

pub(crate) fn compress_avx2(steps: &mut [(&mut [u32; 4], &[Block])]) {
    assert!(is_x86_feature_detected!("avx2") && steps.len() <= <__m256i as Words>::LANES);
    // SAFETY: as above.
    in_lanes(steps, |states, blocks, count| unsafe { on_avx2(states, blocks, count) });
}

/// Passes states and blocks lane by lane and collects the states. Unused lanes process the first
/// content's blocks.
fn in_lanes(steps: &mut [(&mut [u32; 4], &[Block])], run: impl FnOnce(&mut [[u32; LANES_MAX]; 4], [*const Block; LANES_MAX], usize)) {
    let Some((_, first)) = steps.first() else { return };
    let count = first.len();
    let mut blocks = [first.as_ptr(); LANES_MAX];
    let mut states = [[0; LANES_MAX]; 4];
    for (lane, (state, content)) in steps.iter().enumerate() {
        assert_eq!(content.len(), count, "contents hashed in parallel must have the same number of blocks");
        blocks[lane] = content.as_ptr();
        for (words, &word) in states.iter_mut().zip(state.iter()) {
            words[lane] = word;
        }
    }
    run(&mut states, blocks, count);
    for (lane, (state, _)) in steps.iter_mut().enumerate() {
        for (words, word) in states.iter().zip(state.iter_mut()) {
            *word = words[lane];
        }
    }
}
