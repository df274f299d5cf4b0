//! GF(2^8): bytes as polynomials over GF(2) modulo x^8 + x^4 + x^3 + x^2 + 1 (0x11D).
//!
//! Matrix codes need only one operation, [`combine`]: rows of coefficients times a vector of
//! sources. It works through the bytes in blocks: the same few bytes of up to 16 sums stay in
//! registers while those bytes of all sources stream past. Each source is prefetched well ahead of
//! its use, because hundreds of streams are more than hardware prefetchers track.
//!
//! ```text
//!               block
//! source 0     [##].......[ahead]...        sums (registers)
//! source 1     [##].......[ahead]...  ----> [##] [##] ... [##]    written once, after the last source
//!   ...
//! ```

use crate::kernel::Kernel;

mod lanes;
#[cfg(all(target_arch = "aarch64", not(miri)))]
mod neon;
mod portable;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod x86;

const POLYNOMIAL: u16 = 0x11D;

struct Field {
    log: [u8; 256],
    exp: [u8; 510],
}

static FIELD: Field = field();

const fn field() -> Field {
    let mut log = [0; 256];
    let mut exp = [0; 510];
    let mut power: u16 = 1;
    let mut i = 0;
    while i < 255 {
        exp[i] = power as u8;
        exp[i + 255] = power as u8;
        log[power as usize] = i as u8;
        power <<= 1;
        if power & 0x100 != 0 {
            power ^= POLYNOMIAL;
        }
        i += 1;
    }
    Field { log, exp }
}

pub(crate) const fn multiply(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 {
        return 0;
    }
    FIELD.exp[FIELD.log[a as usize] as usize + FIELD.log[b as usize] as usize]
}

/// Inverse of a field element.
///
/// # Panics
/// If `a` is zero.
pub(crate) fn inverse(a: u8) -> u8 {
    assert!(a != 0, "zero has no inverse");
    FIELD.exp[255 - FIELD.log[a as usize] as usize]
}

/// `NIBBLES[c]`: products of c with 0..16, then with 0, 16, ..., 240; for kernels that use
/// shuffles.
#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
static NIBBLES: [[u8; 32]; 256] = nibbles();

#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
const fn nibbles() -> [[u8; 32]; 256] {
    let mut nibbles = [[0; 32]; 256];
    let mut c = 0;
    while c < 256 {
        let mut x = 0;
        while x < 16 {
            nibbles[c][x] = multiply(c as u8, x as u8);
            nibbles[c][x + 16] = multiply(c as u8, (x << 4) as u8);
            x += 1;
        }
        c += 1;
    }
    nibbles
}

/// `sums[r] = sum over s of coefficients[r * sources.len() + s] * sources[s]`, replacing the old
/// `sums`.
///
/// # Panics
/// If the number of coefficients isn't `sums.len() * sources.len()`, the slices differ in length,
/// there are sums but no sources, or this machine lacks the kernel.
pub(crate) fn combine(kernel: Kernel, coefficients: &[u8], sources: &[&[u8]], sums: &mut [&mut [u8]]) {
    assert_eq!(coefficients.len(), sources.len() * sums.len(), "one coefficient per source and sum is required");
    assert!(kernel.is_available(), "{kernel:?} isn't available on this machine");
    let Some(bytes) = sums.first().map(|sum| sum.len()) else { return };
    assert!(sums.iter().all(|sum| sum.len() == bytes), "sums differ in length");
    assert!(sources.iter().all(|source| source.len() == bytes), "sources and sums differ in length");
    assert!(!sources.is_empty(), "no sources");

    // SAFETY: the kernel is available, so its instructions are; the counts and lengths were
    // asserted above.
    unsafe {
        match kernel {
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            Kernel::Avx512Gfni => x86::avx512_gfni(coefficients, sources, sums, bytes),
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            Kernel::Avx2Gfni => x86::avx2_gfni(coefficients, sources, sums, bytes),
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            Kernel::Avx2 => x86::avx2(coefficients, sources, sums, bytes),
            #[cfg(all(target_arch = "aarch64", not(miri)))]
            Kernel::Neon => neon::neon(coefficients, sources, sums, bytes),
            _ => portable::portable(coefficients, sources, sums, bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "too much for Miri")]
    fn the_field_uses_polynomial_0x11d() {
        for a in 0..=255u8 {
            for b in 0..=255u8 {
                assert_eq!(multiply(a, b), crate::reference::multiply8(a, b));
            }
            if a != 0 {
                assert_eq!(multiply(a, inverse(a)), 1);
            }
        }
    }

    #[test]
    fn every_kernel_combines_like_the_reference_at_any_length_and_alignment() {
        let pool: Vec<u8> = crate::reference::noise(0x51, 32 * 1024);
        for &kernel in Kernel::available() {
            for (case, &(sources, sums, bytes)) in
                [(1, 1, 1), (2, 1, 63), (3, 5, 64), (4, 4, 65), (5, 3, 200), (7, 16, 4097), (9, 17, 2049), (6, 130, 333)].iter().enumerate()
            {
                if cfg!(miri) && sources * sums > 20 {
                    continue;
                }
                let coefficients = &pool[case..case + sources * sums];
                let rows: Vec<&[u8]> = (0..sources).map(|i| &pool[i * (bytes + 1) + case..][..bytes]).collect();
                let mut got = vec![vec![0xAA; bytes + 3]; sums];
                let mut slices: Vec<&mut [u8]> = got.iter_mut().map(|sum| &mut sum[3..]).collect();
                combine(kernel, coefficients, &rows, &mut slices);
                for (r, sum) in got.iter().enumerate() {
                    for x in 0..bytes {
                        let want =
                            (0..sources).fold(0, |acc, c| acc ^ crate::reference::multiply8(coefficients[r * sources + c], rows[c][x]));
                        assert_eq!(sum[x + 3], want, "{kernel:?}, case {case}, sum {r}, byte {x}");
                    }
                }
            }
        }
    }
}
