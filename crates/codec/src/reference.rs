//! Reference implementations of the codes, in as few lines as possible, that the fast ones must
//! match.
//!
//! They cost a product per pair of information and redundancy symbols. They serve as documentation
//! and as oracles in tests.

/// Product in GF(2^8) modulo 0x11D, bit by bit.
pub fn multiply8(a: u8, b: u8) -> u8 {
    let (mut a, mut product) = (u16::from(a), 0);
    for bit in 0..8 {
        if b >> bit & 1 == 1 {
            product ^= a;
        }
        a <<= 1;
        if a & 0x100 != 0 {
            a ^= 0x11D;
        }
    }
    product as u8
}

/// Redundancy of the [Cauchy code](crate::CauchyCode) of `redundancy` rows over `information`,
/// symbol by symbol.
pub fn cauchy_encode(information: &[&[u8]], redundancy: usize) -> Vec<Vec<u8>> {
    let bytes = information.first().map_or(0, |symbol| symbol.len());
    (0..redundancy)
        .map(|row| {
            let mut sum = vec![0; bytes];
            for (column, symbol) in information.iter().enumerate() {
                let point = ((information.len() + row) ^ column) as u8;
                let coefficient = (1..=255).find(|&c| multiply8(c, point) == 1).expect("the points of a code are distinct");
                for (sum, &byte) in sum.iter_mut().zip(*symbol) {
                    *sum ^= multiply8(coefficient, byte);
                }
            }
            sum
        })
        .collect()
}

/// The Cantor basis of GF(2^16) modulo 0x1002D in which Leopard writes symbols: bit i of a symbol
/// is the coefficient of `BASIS[i]`.
pub const BASIS: [u16; 16] =
    [0x0001, 0xACCA, 0x3C0E, 0x163E, 0xC582, 0xED2E, 0x914C, 0x4012, 0x6C98, 0x10D8, 0x6A72, 0xB900, 0xFDB8, 0xFB34, 0xFF38, 0x991E];

/// Product in GF(2^16) modulo 0x1002D of two elements as polynomials, bit by bit.
pub fn multiply_polynomials(a: u16, b: u16) -> u16 {
    let (mut a, mut product) = (u32::from(a), 0);
    for bit in 0..16 {
        if b >> bit & 1 == 1 {
            product ^= a;
        }
        a <<= 1;
        if a & 0x10000 != 0 {
            a ^= 0x1002D;
        }
    }
    product as u16
}

/// The polynomial that a symbol represents.
pub fn polynomial(symbol: u16) -> u16 {
    (0..16).filter(|bit| symbol >> bit & 1 == 1).fold(0, |sum, bit| sum ^ BASIS[bit])
}

/// Redundancy of the [pooled code](crate::PooledCode) of `redundancy` rows over `information`, by
/// Lagrange interpolation.
///
/// Each chunk of m = `redundancy.next_power_of_two()` information symbols at points m(i+1).. gives
/// the values of a polynomial of degree below m; redundancy row r is the sum of all those
/// polynomials at point r. With s the polynomial that vanishes on points 0..m, the Lagrange basis
/// polynomial of point w is `(s(x) + s(w)) / ((x + w) s')`, which at x = r < m is `s(w) / ((r + w)
/// s')`.
pub fn pooled_encode(information: &[&[u8]], redundancy: usize) -> Vec<Vec<u8>> {
    let bytes = information.first().map_or(0, |shard| shard.len());
    let m = redundancy.next_power_of_two();
    let inverse = |a: u16| power(a, 65534);
    let slope = (1..m).fold(1, |product, w| multiply_polynomials(product, polynomial(w as u16)));
    let mut rows = vec![vec![0; bytes]; redundancy];
    for (j, shard) in information.iter().enumerate() {
        let w = polynomial((m + j) as u16);
        let vanishing = (0..m).fold(1, |product, x| multiply_polynomials(product, w ^ polynomial(x as u16)));
        for (r, row) in rows.iter_mut().enumerate() {
            let denominator = multiply_polynomials(slope, w ^ polynomial(r as u16));
            let coefficient = multiply_polynomials(vanishing, inverse(denominator));
            // Products with one coefficient of all symbols of a shard, bit by bit of the symbol.
            let products: [u16; 16] = std::array::from_fn(|bit| symbol(multiply_polynomials(coefficient, BASIS[bit])));
            for (sum, block) in row.chunks_exact_mut(64).zip(shard.chunks_exact(64)) {
                for i in 0..32 {
                    let value = u16::from_le_bytes([block[i], block[i + 32]]);
                    let product = (0..16).filter(|bit| value >> bit & 1 == 1).fold(0, |product, bit| product ^ products[bit]);
                    sum[i] ^= product as u8;
                    sum[i + 32] ^= (product >> 8) as u8;
                }
            }
        }
    }
    rows
}

fn power(a: u16, exponent: u32) -> u16 {
    (0..32).rev().fold(1, |mut product, bit| {
        product = multiply_polynomials(product, product);
        if exponent >> bit & 1 == 1 { multiply_polynomials(product, a) } else { product }
    })
}

/// The symbol that represents a polynomial: the inverse of [`polynomial`], by elimination.
fn symbol(polynomial_bits: u16) -> u16 {
    let mut basis: Vec<(u16, u16)> = BASIS.iter().enumerate().map(|(bit, &value)| (value, 1 << bit)).collect();
    let (mut rest, mut coordinates) = (polynomial_bits, 0);
    for bit in (0..16).rev() {
        let Some(pivot) = basis.iter().position(|(value, _)| value >> bit & 1 == 1) else { continue };
        let (value, name) = basis.swap_remove(pivot);
        for (other, other_name) in &mut basis {
            if *other >> bit & 1 == 1 {
                *other ^= value;
                *other_name ^= name;
            }
        }
        if rest >> bit & 1 == 1 {
            rest ^= value;
            coordinates ^= name;
        }
    }
    assert_eq!(rest, 0, "the basis spans the field");
    coordinates
}

/// Deterministic pseudo-random bytes (splitmix64), for tests and benchmarks.
pub fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed;
    let mut out = Vec::with_capacity(bytes + 8);
    while out.len() < bytes {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        out.extend_from_slice(&(z ^ (z >> 31)).to_le_bytes());
    }
    out.truncate(bytes);
    out
}
