//! The decoder's lanes for any machine: sixteen bytes at a time.

use super::lanes::ByteLanes;

pub(super) struct Portable;

type Bytes = [i8; 16];

#[inline(always)]
fn pairwise(a: Bytes, b: Bytes, of: impl Fn(i8, i8) -> i8) -> Bytes {
    std::array::from_fn(|l| of(a[l], b[l]))
}

// SAFETY of the loads and stores below: the caller guarantees `LANES` bytes.
impl ByteLanes for Portable {
    const LANES: usize = 16;
    type Register = Bytes;

    #[inline(always)]
    unsafe fn load(from: *const i8) -> Bytes {
        // SAFETY: see above.
        unsafe { from.cast::<Bytes>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store(register: Bytes, to: *mut i8) {
        // SAFETY: see above.
        unsafe { to.cast::<Bytes>().write_unaligned(register) }
    }
    #[inline(always)]
    unsafe fn splat(value: i8) -> Bytes {
        [value; 16]
    }
    #[inline(always)]
    unsafe fn xor(a: Bytes, b: Bytes) -> Bytes {
        pairwise(a, b, |a, b| a ^ b)
    }
    #[inline(always)]
    unsafe fn subtract(a: Bytes, b: Bytes) -> Bytes {
        pairwise(a, b, i8::saturating_sub)
    }
    #[inline(always)]
    unsafe fn add(a: Bytes, b: Bytes) -> Bytes {
        pairwise(a, b, i8::saturating_add)
    }
    #[inline(always)]
    unsafe fn magnitude(a: Bytes) -> Bytes {
        a.map(i8::wrapping_abs)
    }
    #[inline(always)]
    unsafe fn smaller(a: Bytes, b: Bytes) -> Bytes {
        pairwise(a, b, |a, b| a.cast_unsigned().min(b.cast_unsigned()).cast_signed())
    }
    #[inline(always)]
    unsafe fn larger(a: Bytes, b: Bytes) -> Bytes {
        pairwise(a, b, |a, b| a.cast_unsigned().max(b.cast_unsigned()).cast_signed())
    }
    #[inline(always)]
    unsafe fn three_quarters(a: Bytes) -> Bytes {
        a.map(|a| {
            let a = a.cast_unsigned();
            (a - (a >> 2)).cast_signed()
        })
    }
    #[inline(always)]
    unsafe fn where_equal(a: Bytes, b: Bytes, then: Bytes, or: Bytes) -> Bytes {
        std::array::from_fn(|l| {
            let mask = -i8::from(a[l] == b[l]);
            or[l] ^ (mask & (or[l] ^ then[l]))
        })
    }
    #[inline(always)]
    unsafe fn with_sign(a: Bytes, sign: Bytes) -> Bytes {
        pairwise(a, sign, |a, sign| (a ^ (sign >> 7)).wrapping_sub(sign >> 7))
    }
    #[inline(always)]
    unsafe fn any_negative(a: Bytes, lanes: usize) -> bool {
        a.iter().take(lanes).any(|&a| a < 0)
    }
}
