//! SHA-256 (FIPS 180-4) on 64-byte registers: register k contains word k of every content's block.

use std::arch::x86_64::*;

use super::{LANES_MAX, Words};
use crate::Block;

/// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
#[rustfmt::skip]
const ROOTS: [u32; 64] = [
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
];

/// Compresses `count` blocks of each of sixteen contents.
///
/// # Safety
/// The machine supports AVX-512F, and each pointer refers to `count` blocks.
#[target_feature(enable = "avx512f")]
unsafe fn on_avx512(states: &mut [[u32; LANES_MAX]; 8], mut blocks: [*const Block; LANES_MAX], count: usize) {
    type W = __m512i;
    // SAFETY: the caller's guarantee; the pointers advance by `count` blocks in total, so at most
    // to the end of their blocks.
    unsafe {
        let mut state: [W; 8] = std::array::from_fn(|word| W::load(states[word].as_ptr()));
        let bytes_0_and_2 = W::splat(0x00ff_00ff);
        for _ in 0..count {
            // The next sixteen words of the message schedule.
            let mut w = W::columns(&blocks);
            for word in &mut w {
                // Their bytes in reverse order.
                *word = bytes_0_and_2.choose(word.rotate::<8, 24>(), word.rotate::<24, 8>());
            }
            for block in &mut blocks {
                *block = block.add(1);
            }
            let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = state;
            macro_rules! step {
                ($a:ident, $b:ident, $c:ident, $d:ident, $e:ident, $f:ident, $g:ident, $h:ident, $step:expr) => {
                    let step: usize = $step;
                    let at = step % 16;
                    if step >= 16 {
                        let (w1, w14) = (w[(at + 1) % 16], w[(at + 14) % 16]);
                        let early = w1.rotate::<25, 7>().xor3(w1.rotate::<14, 18>(), _mm512_srli_epi32::<3>(w1));
                        let late = w14.rotate::<15, 17>().xor3(w14.rotate::<13, 19>(), _mm512_srli_epi32::<10>(w14));
                        w[at] = w[at].add(early).add(w[(at + 9) % 16]).add(late);
                    }
                    let sum = $e.rotate::<26, 6>().xor3($e.rotate::<21, 11>(), $e.rotate::<7, 25>());
                    let more = $h.add(W::splat(ROOTS[step])).add(w[at]).add($e.choose($f, $g)).add(sum);
                    let sum = $a.rotate::<30, 2>().xor3($a.rotate::<19, 13>(), $a.rotate::<10, 22>());
                    // The majority of the three.
                    let most = _mm512_ternarylogic_epi32::<0xe8>($a, $b, $c);
                    $d = $d.add(more);
                    $h = more.add(sum).add(most);
                };
            }
            for first in (0..64).step_by(8) {
                step!(a, b, c, d, e, f, g, h, first);
                step!(h, a, b, c, d, e, f, g, first + 1);
                step!(g, h, a, b, c, d, e, f, first + 2);
                step!(f, g, h, a, b, c, d, e, first + 3);
                step!(e, f, g, h, a, b, c, d, first + 4);
                step!(d, e, f, g, h, a, b, c, first + 5);
                step!(c, d, e, f, g, h, a, b, first + 6);
                step!(b, c, d, e, f, g, h, a, first + 7);
            }
            for (word, more) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
                *word = word.add(more);
            }
        }
        for (words, word) in states.iter_mut().zip(state) {
            word.store(words.as_mut_ptr());
        }
    }
}

pub(crate) fn compress_avx512(steps: &mut [(&mut [u32; 8], &[Block])]) {
    assert!(is_x86_feature_detected!("avx512f") && steps.len() <= <__m512i as Words>::LANES);
    // SAFETY: checked above; `in_lanes` passes pointers to `count` blocks each.
    super::in_lanes(steps, |states, blocks, count| unsafe { on_avx512(states, blocks, count) });
}
