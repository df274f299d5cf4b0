//! GF(2^8): bytes as polynomials over GF(2) modulo x^8 + x^4 + x^3 + x^2 + 1 (0x11D).
//!
//! Everything a matrix code does is one operation, [`combine`]: rows of coefficients times a column of sources. It is
//! tiled so that one tile of all sums stays in L1 while the sources stream past once:
//!
//! ```text
//!               tile                                sums (L1)
//! source 0..4  [####]................   4 x 4      [####] sum 0..4
//! source 4..8  [####]................  products -> [####] sum 4..8     then the sums of this tile are written out,
//!   ...                                             ...                and the next tile begins
//! ```

use std::sync::LazyLock;

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

/// Product of two field elements.
pub(crate) fn multiply(a: u8, b: u8) -> u8 {
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

/// `PRODUCTS[c][x]` is `c * x`.
static PRODUCTS: LazyLock<Box<[[u8; 256]; 256]>> = LazyLock::new(|| {
    let mut products = Box::new([[0; 256]; 256]);
    for (c, row) in products.iter_mut().enumerate() {
        for (x, product) in row.iter_mut().enumerate() {
            *product = multiply(c as u8, x as u8);
        }
    }
    products
});

/// A tile of all sums has this many bytes, at most; what remains of a 32 or 48 KiB L1 is for the sources.
const SUMS_BYTES: usize = 32 * 1024;
/// A narrower tile spends its time on setting up, and defeats the hardware's prefetching.
const MIN_TILE: usize = 256;
const MAX_TILE: usize = 4096;

/// `sums[r] = sum over c of coefficients[r * sources.len() + c] * sources[c]`, replacing what `sums` held.
///
/// # Panics
/// If the coefficients aren't `sums.len() * sources.len()`, or the slices aren't all of one length.
pub(crate) fn combine(kernel: Kernel, coefficients: &[u8], sources: &[&[u8]], sums: &mut [&mut [u8]]) {
    assert_eq!(coefficients.len(), sources.len() * sums.len(), "one coefficient per source and sum");
    assert!(kernel.is_available(), "{kernel:?} isn't available on this machine");
    let Some(bytes) = sums.first().map(|sum| sum.len()) else { return };
    assert!(sums.iter().all(|sum| sum.len() == bytes), "sums of unequal lengths");
    assert!(sources.iter().all(|source| source.len() == bytes), "sources of another length than the sums");

    let tile = (SUMS_BYTES / sums.len()).clamp(MIN_TILE, MAX_TILE) & !63;
    let tile = tile.min(bytes.next_multiple_of(64));
    let mut scratch = crate::aligned::AlignedBytes::zeroed(tile * sums.len());
    let mut from = 0;
    while from < bytes {
        let width = tile.min(bytes - from);
        let job = lanes::Tile { coefficients, sources, from, width, sums: &mut scratch, pitch: tile, rows: sums.len() };
        match kernel {
            // SAFETY: the kernel is available (asserted above), so its instructions are; every source has
            // `from + width` bytes, and scratch has a pitch of at least `width` rounded up to 64 for each row.
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            Kernel::Avx512Gfni => unsafe { x86::avx512_gfni(job) },
            // SAFETY: as above.
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            Kernel::Avx2Gfni => unsafe { x86::avx2_gfni(job) },
            // SAFETY: as above.
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            Kernel::Avx2 => unsafe { x86::avx2(job) },
            // SAFETY: as above.
            #[cfg(all(target_arch = "aarch64", not(miri)))]
            Kernel::Neon => unsafe { neon::neon(job) },
            // SAFETY: as above; needs no instructions beyond the target's.
            _ => unsafe { portable::portable(job) },
        }
        for (sum, row) in sums.iter_mut().zip(scratch.chunks_exact(tile)) {
            sum[from..from + width].copy_from_slice(&row[..width]);
        }
        from += width;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_field_is_the_one_of_polynomial_0x11d() {
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
    fn every_kernel_combines_as_the_reference_does_at_any_length_and_alignment() {
        let pool: Vec<u8> = crate::reference::noise(0x51, 64 * 1024);
        for &kernel in Kernel::available() {
            for (case, &(sources, sums, bytes)) in
                [(1, 1, 1), (2, 1, 63), (3, 5, 64), (4, 4, 65), (5, 3, 200), (7, 16, 4097), (9, 17, 2049), (6, 130, 333)].iter().enumerate()
            {
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
