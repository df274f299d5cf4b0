//! MD5 (RFC 1321) on x86-64 vector registers: register k contains word k of every content's block.

pub(crate) mod sha256;

use std::arch::asm;
use std::arch::x86_64::*;

use crate::blocks::{BLOCK_BYTES, Block};
use crate::rounds::rounds;

/// Most lanes of a register.
const LANES_MAX: usize = 16;
/// Words of a block.
const WORDS: usize = BLOCK_BYTES / 4;

/// Returns the word, computed after those of earlier calls.
///
/// The compiler would otherwise put all steps of one content before those of the next, to need
/// fewer registers, and so far apart that the CPU can't overlap them.
#[inline(always)]
pub(crate) fn in_order(mut word: u32) -> u32 {
    // SAFETY: there are no instructions. Without the option `pure`, it stays where it is.
    unsafe { asm!("/* {0:e} */", inout(reg) word, options(nomem, nostack, preserves_flags)) };
    word
}

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
            let g = |b: W, c: W, d: W| d.choose(b, c);
            let h = |b: W, c: W, d: W| b.xor3(c, d);
            let i = |b: W, c: W, d: W| W::odd(b, c, d);
            macro_rules! step {
                ($function:ident, $word:literal, $sine:literal, $left:literal, $right:literal) => {
                    let [a, b, c, d] = s;
                    let sum = a.add(x[$word].add(W::splat($sine))).add($function(b, c, d));
                    s = [d, sum.rotate::<$left, $right>().add(b), b, c];
                };
            }
            rounds!(step, f, g, h, i);
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
fn in_lanes<const STATE: usize>(
    steps: &mut [(&mut [u32; STATE], &[Block])],
    run: impl FnOnce(&mut [[u32; LANES_MAX]; STATE], [*const Block; LANES_MAX], usize),
) {
    let Some((_, first)) = steps.first() else { return };
    let count = first.len();
    let mut blocks = [first.as_ptr(); LANES_MAX];
    let mut states = [[0; LANES_MAX]; STATE];
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
