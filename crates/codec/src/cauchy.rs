//! The track code: a Cauchy code over GF(2^8).
//!
//! Redundancy symbol r is the sum over information symbols d_c of `d_c / (x_r + y_c)`, with points
//! `x_r = I + r` and `y_c = c`: the matrix of ISA-L's `gf_gen_cauchy1_matrix`. Every square part of
//! a Cauchy matrix can be inverted, and the inverse has a closed form, so a repair costs e products
//! per byte read for e lost symbols and nothing for inverting a matrix as large as the code.
//!
//! Take the lost information symbols L and as many redundancy symbols Q. For a lost l, the
//! combination of the rows Q that is 1 at `y_l` and 0 at the other lost points is, as a function of
//! the column's point,
//!
//! ```text
//!             P(y)       X(y_l)       1          P(y)  = product over l in L of (y + y_l)
//! f_l(y) = ---------- * --------- * ------        P'_l  = P without its factor (y + y_l)
//!          (y + y_l)    P'_l(y_l)    X(y)         X(y)  = product over q in Q of (y + x_q)
//! ```
//!
//! since it has the poles of the rows Q and the right zeros. Its values are the coefficients of the
//! present information symbols, its residues at `x_q` those of the redundancy symbols. A lost
//! redundancy symbol r is the same with a pole at `x_r` of residue 1 and zeros at all of L.
//!
//! Source: S. Schechter, "On the inversion of certain matrices", MTAC 13 (1959), for the inverse.

use crate::error::CodeError;
use crate::gf8::{combine, inverse, multiply};
use crate::kernel::Kernel;

/// Most symbols that a code can have. Each takes a point of GF(2^8), of which there are 256; the
/// format of platters allows one less.
const SYMBOLS_MAX: usize = 255;

/// A systematic code of I information and R redundancy symbols; any I of them restore all the
/// others.
///
/// A symbol is a slice of bytes (a sector). All symbols have the same length of at least 1; bytes k
/// of all symbols form a codeword. The code doesn't detect silent errors: the caller names the lost
/// symbols.
#[derive(Debug, Clone)]
pub struct CauchyCode {
    information: usize,
    redundancy: usize,
    /// `redundancy * information`, row-major.
    matrix: Vec<u8>,
    kernel: Kernel,
}

impl CauchyCode {
    /// Creates a code of `information` + `redundancy` symbols on the fastest available kernel.
    /// `redundancy` may be 0.
    ///
    /// # Errors
    /// [`CodeError::TooLong`] over 255 symbols in all, [`CodeError::Empty`] without information
    /// symbols.
    pub fn new(information: usize, redundancy: usize) -> Result<Self, CodeError> {
        Self::with_kernel(information, redundancy, Kernel::best())
    }

    /// Like [`CauchyCode::new`], on the given kernel.
    ///
    /// # Panics
    /// If this machine can't run the kernel.
    pub fn with_kernel(information: usize, redundancy: usize, kernel: Kernel) -> Result<Self, CodeError> {
        assert!(kernel.is_available(), "{kernel:?} isn't available on this machine");
        if information == 0 {
            return Err(CodeError::Empty { information, redundancy });
        }
        if information.saturating_add(redundancy) > SYMBOLS_MAX {
            return Err(CodeError::TooLong { information, redundancy, limit: SYMBOLS_MAX });
        }
        let matrix = (0..redundancy).flat_map(|r| (0..information).map(move |c| inverse(point(information + r) ^ point(c)))).collect();
        Ok(CauchyCode { information, redundancy, matrix, kernel })
    }

    /// Information symbols, I.
    pub fn information(&self) -> usize {
        self.information
    }

    /// Redundancy symbols, R.
    pub fn redundancy(&self) -> usize {
        self.redundancy
    }

    /// The kernel that the code runs on.
    pub fn kernel(&self) -> Kernel {
        self.kernel
    }

    /// Computes the R redundancy symbols of I information symbols.
    ///
    /// # Panics
    /// Unless there are I and R slices, all of the same length.
    pub fn encode(&self, information: &[&[u8]], redundancy: &mut [&mut [u8]]) {
        assert_eq!(information.len(), self.information, "wrong number of information symbols");
        assert_eq!(redundancy.len(), self.redundancy, "wrong number of redundancy symbols");
        combine(self.kernel, &self.matrix, information, redundancy);
    }

    /// Plans the repair of all lost positions.
    ///
    /// Positions 0..I are information and I..I+R redundancy. An empty list gives a plan that
    /// rebuilds nothing.
    ///
    /// # Errors
    /// [`CodeError::TooManyLost`] if more than R are lost, [`CodeError::Position`] if a position is
    /// outside the code or repeated.
    pub fn plan(&self, lost: &[usize]) -> Result<CauchyRepair, CodeError> {
        self.plan_wanted(lost, lost)
    }

    /// Plans the repair of `wanted` among the `lost` positions; the cost depends on the wanted ones
    /// only.
    ///
    /// # Errors
    /// As [`CauchyCode::plan`]; also [`CodeError::Position`] if a wanted position isn't lost.
    pub fn plan_wanted(&self, lost: &[usize], wanted: &[usize]) -> Result<CauchyRepair, CodeError> {
        let positions = self.information + self.redundancy;
        let mut is_lost = vec![false; positions];
        for &position in lost {
            if position >= positions || is_lost[position] {
                return Err(CodeError::Position { position, positions });
            }
            is_lost[position] = true;
        }
        let mut seen = vec![false; positions];
        for &position in wanted {
            if position >= positions || !is_lost[position] || seen[position] {
                return Err(CodeError::Position { position, positions });
            }
            seen[position] = true;
        }

        let lost_points: Vec<u8> = (0..self.information).filter(|&p| is_lost[p]).map(point).collect();
        let available = (self.information..positions).filter(|&p| !is_lost[p]);
        let rows: Vec<u8> = available.clone().take(lost_points.len()).map(point).collect();
        if rows.len() < lost_points.len() {
            return Err(CodeError::TooManyLost { lost: lost_points.len(), available: rows.len() });
        }

        let sources: Vec<usize> = (0..self.information).filter(|&p| !is_lost[p]).chain(rows.iter().map(|&x| usize::from(x))).collect();
        // Each product skips the point it is evaluated at, where its factor would be zero.
        let product =
            |set: &[u8], at: u8| set.iter().filter(|&&other| other != at).fold(1, |product, &other| multiply(product, at ^ other));
        // The factor of each source's coefficient that doesn't depend on the wanted symbol: P/X at
        // an information symbol, the residue of P/X at a redundancy symbol.
        let source_factors: Vec<u8> =
            sources.iter().map(|&p| multiply(product(&lost_points, point(p)), inverse(product(&rows, point(p))))).collect();
        let mut coefficients = Vec::with_capacity(wanted.len() * sources.len());
        for &position in wanted {
            let at = point(position);
            // X(y_l) / P'_l(y_l) for information, and X(x_r) / P(x_r) for redundancy: the same
            // expression.
            let target_factor = multiply(product(&rows, at), inverse(product(&lost_points, at)));
            for (&source, &source_factor) in sources.iter().zip(&source_factors) {
                let pole = inverse(point(source) ^ at);
                coefficients.push(multiply(multiply(source_factor, target_factor), pole));
            }
        }
        Ok(CauchyRepair { sources, wanted: wanted.to_vec(), coefficients, kernel: self.kernel })
    }
}

fn point(position: usize) -> u8 {
    u8::try_from(position).expect("positions stay below 255")
}

/// Which symbols to read, and how to combine them into lost ones. Reusable for any number of
/// codewords with the same losses.
#[derive(Debug, Clone)]
pub struct CauchyRepair {
    sources: Vec<usize>,
    wanted: Vec<usize>,
    /// `wanted.len() * sources.len()`, row-major.
    coefficients: Vec<u8>,
    kernel: Kernel,
}

impl CauchyRepair {
    /// The I positions to read, ascending. The redundancy among them is the lowest rows present.
    pub fn sources(&self) -> &[usize] {
        &self.sources
    }

    /// The positions to rebuild, in the order requested.
    pub fn wanted(&self) -> &[usize] {
        &self.wanted
    }

    /// Rebuilds the wanted positions into `out`, in one pass over `sources`, which follow the order
    /// of [`CauchyRepair::sources`].
    ///
    /// # Panics
    /// If the number of slices differs from the plan, or they differ in length.
    pub fn run(&self, sources: &[&[u8]], out: &mut [&mut [u8]]) {
        assert_eq!(sources.len(), self.sources.len(), "wrong number of sources for the plan");
        assert_eq!(out.len(), self.wanted.len(), "wrong number of outputs for the plan");
        combine(self.kernel, &self.coefficients, sources, out);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::reference::{cauchy_encode, noise};

    fn symbols(seed: u64, count: usize, bytes: usize) -> Vec<Vec<u8>> {
        noise(seed, count * bytes).chunks_exact(bytes).map(<[u8]>::to_vec).collect()
    }

    fn slices(symbols: &[Vec<u8>]) -> Vec<&[u8]> {
        symbols.iter().map(Vec::as_slice).collect()
    }

    /// All symbols of a codeword, information first.
    fn encode(code: &CauchyCode, information: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let mut redundancy = vec![vec![0xA5; information[0].len()]; code.redundancy()];
        let mut out: Vec<&mut [u8]> = redundancy.iter_mut().map(Vec::as_mut_slice).collect();
        code.encode(&slices(information), &mut out);
        information.iter().cloned().chain(redundancy).collect()
    }

    fn repair(plan: &CauchyRepair, codeword: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let sources: Vec<&[u8]> = plan.sources().iter().map(|&p| codeword[p].as_slice()).collect();
        let mut rebuilt = vec![vec![0xA5; codeword[0].len()]; plan.wanted().len()];
        let mut out: Vec<&mut [u8]> = rebuilt.iter_mut().map(Vec::as_mut_slice).collect();
        plan.run(&sources, &mut out);
        rebuilt
    }

    #[test]
    fn every_kernel_encodes_like_the_reference() {
        for (information, redundancy, bytes) in
            [(1, 1, 1), (16, 3, 100), (20, 4, 64), (10, 0, 9), (200, 16, 65), (100, 8, 2500), (127, 128, 70)]
        {
            if cfg!(miri) && information > 20 {
                continue;
            }
            let information = symbols(information as u64, information, bytes);
            let want = cauchy_encode(&slices(&information), redundancy);
            for &kernel in Kernel::available() {
                let code = CauchyCode::with_kernel(information.len(), redundancy, kernel).unwrap();
                assert!(encode(&code, &information)[information.len()..] == want, "{kernel:?} {}", information.len());
            }
        }
    }

    /// From `gf_gen_cauchy1_matrix` and `ec_encode_data` of ISA-L 2.30; byte x of symbol i is 7 i +
    /// 13 x + 1.
    #[test]
    fn redundancy_matches_isa_l() {
        let information: Vec<Vec<u8>> = (0..10).map(|i| (0..16).map(|x| (7 * i + 13 * x + 1) as u8).collect()).collect();
        let want: [u128; 4] = [
            0x8d9c3d44f074eb4bfebfe0a54496ca5c,
            0x49c0870160c19bb62b7103193adec847,
            0x8dff6d97b8f22b246ebccfb1e5f0b49d,
            0x76791c49bde7f346244a18c06121dd69,
        ];
        let code = CauchyCode::new(10, 4).unwrap();
        for (row, want) in encode(&code, &information)[10..].iter().zip(want) {
            assert_eq!(*row, want.to_be_bytes());
        }
    }

    #[test]
    fn every_pattern_with_enough_symbols_left_is_repaired_in_tiny_codes() {
        for (information, redundancy) in [(1, 1), (4, 2), (2, 4), (3, 3), (6, 3)] {
            if cfg!(miri) && information > 2 {
                continue;
            }
            let code = CauchyCode::new(information, redundancy).unwrap();
            let codeword = encode(&code, &symbols(5, information, 11));
            for pattern in 0u32..1 << (information + redundancy) {
                let lost: Vec<usize> = (0..information + redundancy).filter(|p| pattern >> p & 1 == 1).collect();
                let Ok(plan) = code.plan(&lost) else {
                    assert!(lost.len() > redundancy, "{information}+{redundancy}, pattern {pattern:b}");
                    continue;
                };
                assert!(lost.len() <= redundancy);
                assert_eq!(plan.sources().len(), information);
                for (rebuilt, &position) in repair(&plan, &codeword).iter().zip(&lost) {
                    assert!(*rebuilt == codeword[position], "{information}+{redundancy}, pattern {pattern:b}");
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        #[cfg_attr(miri, ignore = "too much for Miri")]
        fn any_information_many_symbols_restore_the_wanted_ones(
            information in 1usize..200, redundancy in 0usize..55, bytes in 1usize..300, seed: u64,
            lost_part in 0.0..=1.0f64, wanted_part in 0.0..=1.0f64,
        ) {
            let code = CauchyCode::new(information, redundancy).unwrap();
            let codeword = encode(&code, &symbols(seed, information, bytes));
            let words = noise(seed ^ 1, 8 * codeword.len());
            let mut order: Vec<usize> = (0..codeword.len()).collect();
            order.sort_by_key(|&i| u64::from_le_bytes(words[8 * i..8 * i + 8].try_into().expect("8 bytes")));
            let lost = &order[..(redundancy as f64 * lost_part) as usize];
            let wanted = &lost[..(lost.len() as f64 * wanted_part) as usize];
            let plan = code.plan_wanted(lost, wanted).unwrap();
            for (rebuilt, &position) in repair(&plan, &codeword).iter().zip(wanted) {
                prop_assert!(*rebuilt == codeword[position]);
            }
        }
    }

    #[test]
    fn impossible_codes_and_plans_are_errors() {
        assert!(CauchyCode::new(239, 16).is_ok());
        let too_long = CodeError::TooLong { information: 240, redundancy: 16, limit: 255 };
        assert_eq!(CauchyCode::new(240, 16).unwrap_err(), too_long);
        assert_eq!(CauchyCode::new(0, 2).unwrap_err(), CodeError::Empty { information: 0, redundancy: 2 });
        let code = CauchyCode::new(4, 2).unwrap();
        assert_eq!(code.plan(&[6]).unwrap_err(), CodeError::Position { position: 6, positions: 6 });
        assert_eq!(code.plan(&[1, 1]).unwrap_err(), CodeError::Position { position: 1, positions: 6 });
        assert_eq!(code.plan(&[0, 1, 4]).unwrap_err(), CodeError::TooManyLost { lost: 2, available: 1 });
    }
}
