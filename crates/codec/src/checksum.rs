//! CRC-64/NVME: detects sectors, headers and records that were misread.
//!
//! The codes only rebuild symbols that are reported as lost; this checksum finds them. Feed it the
//! sector's address besides the payload, and a sector from the wrong place fails too.

use crc_fast::{CrcAlgorithm, Digest};

/// An incremental checksum.
///
/// ```
/// use fulgurite_codec::checksum::{Crc64, crc64};
/// assert_eq!(Crc64::new().update(b"1234").update(b"56789").value(), crc64(b"123456789"));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Crc64(Digest);

impl Crc64 {
    /// Starts a checksum.
    pub fn new() -> Self {
        Crc64(Digest::new(CrcAlgorithm::Crc64Nvme))
    }

    /// Feeds `bytes`. How the input is split makes no difference.
    pub fn update(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.update(bytes);
        self
    }

    /// The checksum of everything fed so far.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.0.finalize()
    }
}

impl Default for Crc64 {
    fn default() -> Self {
        Self::new()
    }
}

/// The CRC-64/NVME of `bytes`.
pub fn crc64(bytes: &[u8]) -> u64 {
    crc_fast::checksum(CrcAlgorithm::Crc64Nvme, bytes)
}

/// The checksum of two concatenated parts, from their checksums and the length of the second.
///
/// As polynomials: the first, shifted by the bits of the second, plus the second. Costs one product
/// per bit set in the length, a microsecond in all; the library's own function, which uses
/// matrices, took a hundred.
#[must_use]
pub fn combine(first: u64, second: u64, second_bytes: u64) -> u64 {
    let moved = (0..u64::BITS).filter(|bit| second_bytes >> bit & 1 == 1).fold(first, |sum, bit| multiply(sum, BYTE_SHIFTS[bit as usize]));
    moved ^ second
}

/// x^64 + ..., reflected: the highest bit is the coefficient of x^0.
const POLYNOMIAL: u64 = 0x9A6C_9329_AC4B_C9B5;

/// x to the power of 8 * 2^k.
const BYTE_SHIFTS: [u64; 64] = {
    let mut shifts = [0; 64];
    shifts[0] = 1 << (63 - 8);
    let mut k = 1;
    while k < 64 {
        shifts[k] = multiply(shifts[k - 1], shifts[k - 1]);
        k += 1;
    }
    shifts
};

/// The product of two polynomials modulo [`POLYNOMIAL`].
const fn multiply(a: u64, mut b: u64) -> u64 {
    let mut product = 0;
    let mut bit = 64;
    while bit > 0 {
        bit -= 1;
        if a >> bit & 1 == 1 {
            product ^= b;
        }
        b = b >> 1 ^ if b & 1 == 1 { POLYNOMIAL } else { 0 };
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_matches_the_published_one() {
        assert_eq!(crc64(b"123456789"), 0xAE8B_1486_0A79_9888);
        assert_eq!(crc64(b""), Crc64::new().value());
    }

    #[test]
    fn it_equals_bitwise_division_however_the_input_is_split() {
        let bytes = crate::reference::noise(7, 1000);
        for cut in [0, 1, 15, 16, 17, 255, 256, 999, 1000] {
            let got = Crc64::new().update(&bytes[..cut]).update(&bytes[cut..]).value();
            assert_eq!(got, by_division(&bytes), "cut at {cut}");
        }
    }

    #[test]
    fn checksums_of_parts_combine_into_that_of_the_whole() {
        let whole = crate::reference::noise(8, 100_000);
        for cut in [0, 1, 63, 65_552, 100_000] {
            let (first, second) = whole.split_at(cut);
            assert_eq!(combine(crc64(first), crc64(second), second.len() as u64), crc64(&whole), "cut at {cut}");
        }
        // Lengths too large to feed, compared with the library's function.
        for bytes in [1 << 20, (5 << 30) + 3, u64::MAX / 8] {
            let expected = crc_fast::checksum_combine(CrcAlgorithm::Crc64Nvme, 0x0123_4567_89ab_cdef, 0xfedc_ba98, bytes);
            assert_eq!(combine(0x0123_4567_89ab_cdef, 0xfedc_ba98, bytes), expected, "{bytes} bytes");
        }
    }

    /// Reflected polynomial 0xAD93D23594C93659, all ones before and after.
    fn by_division(bytes: &[u8]) -> u64 {
        let mut crc = u64::MAX;
        for &byte in bytes {
            crc ^= u64::from(byte);
            for _ in 0..8 {
                crc = if crc & 1 == 1 { crc >> 1 ^ 0x9A6C_9329_AC4B_C9B5 } else { crc >> 1 };
            }
        }
        !crc
    }
}
