//! MD5 on plain registers, of one content or of a few in turn.
//!
//! Each step of MD5 waits for the one before, for about four cycles, and uses a fraction of what
//! the CPU can do in them. So the steps of a few contents alternate.

use std::array;

use crate::Block;
use crate::rounds::rounds;
#[cfg(all(target_arch = "x86_64", not(miri)))]
use crate::x86::in_order;

/// Maximum number of contents in turn. With more, their states don't fit into the registers.
pub(crate) const LANES_MAX: usize = 4;

/// Compresses the blocks of up to [`LANES_MAX`] contents, all with the same number of blocks.
pub(crate) fn compress(steps: &mut [(&mut [u32; 4], &[Block])]) {
    match steps {
        [] => {}
        [a] => compress_lanes([a]),
        [a, b] => compress_lanes([a, b]),
        [a, b, c] => compress_lanes([a, b, c]),
        [a, b, c, d] => compress_lanes([a, b, c, d]),
        more => panic!("{} contents in turn", more.len()),
    }
}

fn compress_lanes<const LANES: usize>(lanes: [&mut (&mut [u32; 4], &[Block]); LANES]) {
    let count = lanes[0].1.len();
    // Lanes of different lengths would be a defect of the caller.
    assert!(lanes.iter().all(|(_, blocks)| blocks.len() == count), "contents hashed in turn must have the same number of blocks");
    let blocks: [&[Block]; LANES] = array::from_fn(|lane| &lanes[lane].1[..count]);
    let mut state: [[u32; LANES]; 4] = array::from_fn(|word| array::from_fn(|lane| lanes[lane].0[word]));
    for at in 0..count {
        let block: [&Block; LANES] = blocks.map(|blocks| &blocks[at]);
        let mut s = state;
        // Each returns two terms to add. Those of `g` have no bits in common, so their sum is their
        // OR, and only the second one waits for the newest word, `b`.
        let f = |b: u32, c: u32, d: u32| (0, d ^ (b & (c ^ d)));
        let g = |b: u32, c: u32, d: u32| (c & !d, b & d);
        let h = |b: u32, c: u32, d: u32| (0, b ^ (c ^ d));
        let i = |b: u32, c: u32, d: u32| (0, c ^ (b | !d));
        macro_rules! step {
            ($function:ident, $word:literal, $sine:literal, $left:literal, $right:literal) => {
                let [a, b, c, d] = s;
                let next = array::from_fn(|lane| {
                    let word = u32::from_le_bytes(array::from_fn(|byte| block[lane][4 * $word + byte]));
                    let (early, late) = $function(b[lane], c[lane], d[lane]);
                    let sum = a[lane].wrapping_add(word).wrapping_add($sine).wrapping_add(early).wrapping_add(late);
                    in_order(sum.rotate_left($left).wrapping_add(b[lane]))
                });
                s = [d, next, b, c];
            };
        }
        rounds!(step, f, g, h, i);
        for (words, more) in state.iter_mut().zip(s) {
            for (word, more) in words.iter_mut().zip(more) {
                *word = word.wrapping_add(more);
            }
        }
    }
    for (lane, (found, _)) in lanes.into_iter().enumerate() {
        **found = array::from_fn(|word| state[word][lane]);
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn in_order(word: u32) -> u32 {
    word
}
