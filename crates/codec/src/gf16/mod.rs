//! GF(2^16): symbols modulo x^16 + x^5 + x^3 + x^2 + 1 (0x1002D), in Leopard's Cantor basis.
//!
//! A symbol is 16 bits; bit i is the coefficient of basis element b_i, where b_0 = 1 and b_i^2 +
//! b_i = b_(i-1). In this basis the polynomial s_k that vanishes on symbols 0..2^k is a shift:
//! `s_k(x) = x >> k`. So a transform needs no table of twiddle factors: the factor of level k for
//! the block at position p is `p >> k`.
//!
//! A shard is a row of 64-byte blocks of 32 symbols each: first their low bytes, then their high
//! bytes.
//!
//! Source: S.-J. Lin, W.-H. Chung, Y. S. Han, "Novel polynomial basis and its application to
//! Reed-Solomon erasure codes", FOCS 2014; D. G. Cantor, "On arithmetical algorithms over finite
//! fields", JCTA 50 (1989); Leopard (C. A. Taylor) for this basis and the order of bytes.

use std::sync::LazyLock;

mod lanes;
#[cfg(all(target_arch = "aarch64", not(miri)))]
mod neon;
mod portable;
mod transform;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod x86;

pub(crate) use transform::Transform;

/// Bytes of one block of 32 symbols.
pub(crate) const BLOCK_BYTES: usize = 64;

/// Number of nonzero symbols. Discrete logarithms count modulo this.
pub(crate) const MODULUS: u32 = 65535;

struct Field {
    /// Discrete logarithms of symbols; 0 for symbol 0.
    log: Box<[u16]>,
    exp: Box<[u16]>,
}

static FIELD: LazyLock<Field> = LazyLock::new(|| {
    let mut log_of_polynomial = vec![0; 65536];
    let mut polynomial: u32 = 1;
    for i in 0..MODULUS {
        log_of_polynomial[polynomial as usize] = i as u16;
        polynomial <<= 1;
        if polynomial & 0x10000 != 0 {
            polynomial ^= 0x1002D;
        }
    }
    let mut log = vec![0; 65536];
    let mut exp = vec![0; 65536];
    for symbol in 1..=65535u16 {
        let i = log_of_polynomial[crate::reference::polynomial(symbol) as usize];
        log[symbol as usize] = i;
        exp[i as usize] = symbol;
    }
    Field { log: log.into(), exp: exp.into() }
});

pub(crate) fn multiply(a: u16, b: u16) -> u16 {
    if a == 0 || b == 0 { 0 } else { power(log(a) + log(b)) }
}

/// Discrete logarithm of a symbol, below 65,535; 0 for symbol 0.
pub(crate) fn log(a: u16) -> u32 {
    u32::from(FIELD.log[a as usize])
}

/// The symbol whose discrete logarithm is `exponent`, modulo 65,535.
pub(crate) fn power(exponent: u32) -> u16 {
    FIELD.exp[(exponent % MODULUS) as usize]
}

/// Products of `t` with each basis element. Multiplication is linear, so they define it.
fn columns(t: u16) -> [u16; 16] {
    std::array::from_fn(|bit| multiply(t, 1 << bit))
}

/// For each x in 0..65,536, the sum of the logarithms of `x + p` over all points p other than x,
/// modulo 65,535.
///
/// This is a convolution over XOR: the Walsh-Hadamard transform turns it into products, whatever
/// the number of points.
pub(crate) fn sums_of_logs(points: impl Iterator<Item = u16>) -> Vec<u32> {
    let mut at = vec![0i64; 65536];
    for point in points {
        at[point as usize] += 1;
    }
    let mut logs: Vec<i64> = (0..=65535u16).map(|x| i64::from(log(x))).collect();
    walsh_hadamard(&mut at);
    walsh_hadamard(&mut logs);
    for (a, b) in at.iter_mut().zip(&logs) {
        *a = a.wrapping_mul(*b);
    }
    walsh_hadamard(&mut at);
    // The true sums times 65,536 are below 2^48, so they are exact even if intermediate values
    // wrapped.
    at.into_iter().map(|sum| ((sum >> 16) % i64::from(MODULUS)) as u32).collect()
}

fn walsh_hadamard(values: &mut [i64]) {
    let mut distance = 1;
    while distance < values.len() {
        for pair in values.chunks_exact_mut(2 * distance) {
            let (low, high) = pair.split_at_mut(distance);
            for (a, b) in low.iter_mut().zip(high) {
                (*a, *b) = (a.wrapping_add(*b), a.wrapping_sub(*b));
            }
        }
        distance *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::{BASIS, multiply_polynomials, polynomial};

    #[test]
    fn the_basis_is_a_cantor_basis() {
        assert_eq!(BASIS[0], 1);
        for i in 1..16 {
            assert_eq!(multiply_polynomials(BASIS[i], BASIS[i]) ^ BASIS[i], BASIS[i - 1]);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "too much for Miri")]
    fn symbols_multiply_like_the_polynomials_they_represent() {
        for (a, b) in (0..=65535u16).step_by(97).flat_map(|a| (0..=65535u16).step_by(1013).map(move |b| (a, b))) {
            assert_eq!(polynomial(multiply(a, b)), multiply_polynomials(polynomial(a), polynomial(b)));
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "too much for Miri")]
    fn the_vanishing_polynomial_of_the_first_points_is_a_shift() {
        for level in 0..6 {
            for x in (0..=65535u16).step_by(41) {
                let product = (0..1u16 << level).fold(1, |product, point| multiply(product, x ^ point));
                assert_eq!(product, x >> level);
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "too much for Miri")]
    fn sums_of_logs_are_the_logs_of_products() {
        let points: Vec<u16> = (0..300).map(|i: u16| i.wrapping_mul(7919)).collect();
        let sums = sums_of_logs(points.iter().copied());
        for x in (0..=65535u16).step_by(509).chain(points.iter().copied()) {
            let product = points.iter().filter(|&&p| p != x).fold(1, |product, &p| multiply(product, x ^ p));
            assert_eq!(power(sums[x as usize]), product);
        }
    }
}
