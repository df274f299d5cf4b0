//! A published code, to compare with: rate 8/9 of DVB-S2.
//!
//! Source: ETSI EN 302 307-1 V1.4.1, section 5.3.2 and table B.10 (frames of 64,800 bits).
//!
//! The standard gives, for each group of 360 information bits, the checks of its first bit; those
//! of the next bit lie 20 further, and so on. Numbering check c as row c mod 20, lane c / 20 makes
//! each group a column of circulants. Two things don't fit a [`BaseMatrix`] yet:
//!
//! - Some groups have two circulants in one row. Lanes are split by their remainder modulo 60 into
//!   rows and columns of lifting factor 6, in which no such pair remains.
//! - The running sum of the parity begins with check 0, which lacks the previous parity bit. As a
//!   circulant it would use the last one. So that bit is moved to a column of its own, whose other
//!   bits are known to be zero, and its former place is known to be zero, too.

use super::base_matrix::{BaseMatrix, Circulant};

/// Bits of a group.
const GROUP: usize = 360;
/// Rows of the standard's matrix, in circulants.
const ROWS: usize = 20;
const INFORMATION_GROUPS: usize = 160;
/// Checks of the code, as many as parity bits.
const CHECKS: usize = GROUP * ROWS;
/// Parts into which rows and columns are split.
const PARTS: usize = 60;

/// The code of rate 8/9 with 57,600 information bits.
#[derive(Debug, Clone)]
pub struct DvbS2 {
    matrix: BaseMatrix,
}

impl Default for DvbS2 {
    fn default() -> Self {
        Self::new()
    }
}

impl DvbS2 {
    /// Information bits of a codeword.
    pub const INFORMATION_BITS: usize = INFORMATION_GROUPS * GROUP;
    /// Bits of a codeword.
    pub const CODEWORD_BITS: usize = Self::INFORMATION_BITS + CHECKS;

    /// Arranges the standard's tables as a base matrix.
    pub fn new() -> Self {
        let last_sum = INFORMATION_GROUPS + ROWS - 1;
        let mut circulants = Vec::new();
        for (group, checks) in groups() {
            for check in checks {
                circulants.push((check % ROWS, group, (GROUP - check / ROWS) % GROUP));
            }
        }
        for row in 0..ROWS {
            circulants.push((row, INFORMATION_GROUPS + row, 0));
            circulants.push(if row == 0 { (0, last_sum, GROUP - 1) } else { (row, INFORMATION_GROUPS + row - 1, 0) });
        }
        circulants.push((ROWS - 1, last_sum + 1, 0));

        let lifting = GROUP / PARTS;
        let mut rows = vec![Vec::new(); ROWS * PARTS];
        for (row, column, shift) in circulants {
            for part in 0..PARTS {
                let lane = part + shift;
                rows[row * PARTS + part].push(Circulant { column: column * PARTS + lane % PARTS, shift: lane / PARTS % lifting });
            }
        }
        Self { matrix: BaseMatrix::new(lifting, (last_sum + 2) * PARTS, rows) }
    }

    /// The parity-check matrix, whose words have more bits than the standard's.
    pub fn matrix(&self) -> &BaseMatrix {
        &self.matrix
    }

    /// Where the matrix has a bit of the standard's codeword: information, then parity.
    ///
    /// # Panics
    /// If a codeword has no such bit.
    pub fn position(&self, bit: usize) -> usize {
        assert!(bit < Self::CODEWORD_BITS, "a codeword has no bit {bit}");
        let (column, lane) = if bit < Self::INFORMATION_BITS {
            (bit / GROUP, bit % GROUP)
        } else if bit == Self::CODEWORD_BITS - 1 {
            (INFORMATION_GROUPS + ROWS, GROUP - 1)
        } else {
            let check = bit - Self::INFORMATION_BITS;
            (INFORMATION_GROUPS + check % ROWS, check / ROWS)
        };
        (column * PARTS + lane % PARTS) * self.matrix.lifting() + lane / PARTS
    }

    /// The parity of information bits: section 5.3.2.1 of the standard.
    ///
    /// # Panics
    /// If there are not as many bits as [`INFORMATION_BITS`](Self::INFORMATION_BITS).
    pub fn parity(information: &[bool]) -> Vec<bool> {
        assert_eq!(information.len(), Self::INFORMATION_BITS, "information of another code");
        let mut parity = vec![false; CHECKS];
        for (group, checks) in groups() {
            for (lane, bit) in information[group * GROUP..][..GROUP].iter().enumerate() {
                for check in &checks {
                    parity[(check + lane * ROWS) % CHECKS] ^= bit;
                }
            }
        }
        for check in 1..CHECKS {
            parity[check] ^= parity[check - 1];
        }
        parity
    }
}

/// The checks of the first bit of each group.
fn groups() -> impl Iterator<Item = (usize, Vec<usize>)> {
    HEAVY.iter().map(|checks| checks.to_vec()).chain(LIGHT.iter().map(|checks| checks.to_vec())).enumerate()
}

/// The checks of groups with four checks a bit.
#[rustfmt::skip]
const HEAVY: [[usize; 4]; 20] = [
    [0, 6235, 2848, 3222], [1, 5800, 3492, 5348], [2, 2757, 927, 90], [3, 6961, 4516, 4739], [4, 1172, 3237, 6264], [5, 1927, 2425, 3683],
    [6, 3714, 6309, 2495], [7, 3070, 6342, 7154], [8, 2428, 613, 3761], [9, 2906, 264, 5927], [10, 1716, 1950, 4273], [11, 4613, 6179, 3491],
    [12, 4865, 3286, 6005], [13, 1343, 5923, 3529], [14, 4589, 4035, 2132], [15, 1579, 3920, 6737], [16, 1644, 1191, 5998], [17, 1482, 2381, 4620],
    [18, 6791, 6014, 6596], [19, 2738, 5918, 3786],
];

/// The checks of groups with three checks a bit.
#[rustfmt::skip]
const LIGHT: [[usize; 3]; 140] = [
    [0, 5156, 6166], [1, 1504, 4356], [2, 130, 1904], [3, 6027, 3187], [4, 6718, 759], [5, 6240, 2870], [6, 2343, 1311], [7, 1039, 5465],
    [8, 6617, 2513], [9, 1588, 5222], [10, 6561, 535], [11, 4765, 2054], [12, 5966, 6892], [13, 1969, 3869], [14, 3571, 2420], [15, 4632, 981],
    [16, 3215, 4163], [17, 973, 3117], [18, 3802, 6198], [19, 3794, 3948], [0, 3196, 6126], [1, 573, 1909], [2, 850, 4034], [3, 5622, 1601],
    [4, 6005, 524], [5, 5251, 5783], [6, 172, 2032], [7, 1875, 2475], [8, 497, 1291], [9, 2566, 3430], [10, 1249, 740], [11, 2944, 1948],
    [12, 6528, 2899], [13, 2243, 3616], [14, 867, 3733], [15, 1374, 4702], [16, 4698, 2285], [17, 4760, 3917], [18, 1859, 4058], [19, 6141, 3527],
    [0, 2148, 5066], [1, 1306, 145], [2, 2319, 871], [3, 3463, 1061], [4, 5554, 6647], [5, 5837, 339], [6, 5821, 4932], [7, 6356, 4756],
    [8, 3930, 418], [9, 211, 3094], [10, 1007, 4928], [11, 3584, 1235], [12, 6982, 2869], [13, 1612, 1013], [14, 953, 4964], [15, 4555, 4410],
    [16, 4925, 4842], [17, 5778, 600], [18, 6509, 2417], [19, 1260, 4903], [0, 3369, 3031], [1, 3557, 3224], [2, 3028, 583], [3, 3258, 440],
    [4, 6226, 6655], [5, 4895, 1094], [6, 1481, 6847], [7, 4433, 1932], [8, 2107, 1649], [9, 2119, 2065], [10, 4003, 6388], [11, 6720, 3622],
    [12, 3694, 4521], [13, 1164, 7050], [14, 1965, 3613], [15, 4331, 66], [16, 2970, 1796], [17, 4652, 3218], [18, 1762, 4777], [19, 5736, 1399],
    [0, 970, 2572], [1, 2062, 6599], [2, 4597, 4870], [3, 1228, 6913], [4, 4159, 1037], [5, 2916, 2362], [6, 395, 1226], [7, 6911, 4548],
    [8, 4618, 2241], [9, 4120, 4280], [10, 5825, 474], [11, 2154, 5558], [12, 3793, 5471], [13, 5707, 1595], [14, 1403, 325], [15, 6601, 5183],
    [16, 6369, 4569], [17, 4846, 896], [18, 7092, 6184], [19, 6764, 7127], [0, 6358, 1951], [1, 3117, 6960], [2, 2710, 7062], [3, 1133, 3604],
    [4, 3694, 657], [5, 1355, 110], [6, 3329, 6736], [7, 2505, 3407], [8, 2462, 4806], [9, 4216, 214], [10, 5348, 5619], [11, 6627, 6243],
    [12, 2644, 5073], [13, 4212, 5088], [14, 3463, 3889], [15, 5306, 478], [16, 4320, 6121], [17, 3961, 1125], [18, 5699, 1195], [19, 6511, 792],
    [0, 3934, 2778], [1, 3238, 6587], [2, 1111, 6596], [3, 1457, 6226], [4, 1446, 3885], [5, 3907, 4043], [6, 6839, 2873], [7, 1733, 5615],
    [8, 5202, 4269], [9, 3024, 4722], [10, 5445, 6372], [11, 370, 1828], [12, 4695, 1600], [13, 680, 2074], [14, 1801, 6690], [15, 2669, 1377],
    [16, 2463, 1681], [17, 5972, 5171], [18, 5728, 4284], [19, 1696, 1459],
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "too much for Miri")]
    fn what_the_standard_encodes_satisfies_all_checks() {
        let code = DvbS2::new();
        let information: Vec<bool> = crate::reference::noise(1, DvbS2::INFORMATION_BITS).iter().map(|byte| byte % 2 == 1).collect();
        let codeword = [information.clone(), DvbS2::parity(&information)].concat();
        let mut bits = vec![false; code.matrix().codeword_bits()];
        for (bit, &value) in codeword.iter().enumerate() {
            bits[code.position(bit)] = value;
        }
        assert!(code.matrix().is_codeword(&bits));
        bits[code.position(DvbS2::CODEWORD_BITS - 1)] ^= true;
        assert!(!code.matrix().is_codeword(&bits));
    }
}
