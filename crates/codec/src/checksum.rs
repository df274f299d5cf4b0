//! CRC-64/NVME, which tells a sector that was read from one that was misread.
//!
//! The codes rebuild what they are told is lost; this is what tells. Feed the sector's address before its payload, and a
//! sector from the wrong place fails as well.

use crc_fast::{CrcAlgorithm, Digest};

/// A checksum under way, fed in pieces.
///
/// ```
/// use fulgurite_codec::checksum::{Crc64, crc64};
/// assert_eq!(Crc64::new().update(b"1234").update(b"56789").finish(), crc64(b"123456789"));
/// ```
#[derive(Clone, Debug)]
pub struct Crc64(Digest);

impl Crc64 {
    /// A checksum of nothing yet.
    pub fn new() -> Self {
        Crc64(Digest::new(CrcAlgorithm::Crc64Nvme))
    }

    /// Continues over `bytes`. How the bytes are cut into pieces makes no difference.
    #[must_use]
    pub fn update(mut self, bytes: &[u8]) -> Self {
        self.0.update(bytes);
        self
    }

    /// The checksum of everything fed.
    pub fn finish(self) -> u64 {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_is_the_published_one() {
        assert_eq!(crc64(b"123456789"), 0xAE8B_1486_0A79_9888);
        assert_eq!(crc64(b""), Crc64::new().finish());
    }

    #[test]
    fn it_equals_division_bit_by_bit_however_the_bytes_are_cut() {
        let bytes = crate::reference::noise(7, 1000);
        for cut in [0, 1, 15, 16, 17, 255, 256, 999, 1000] {
            let got = Crc64::new().update(&bytes[..cut]).update(&bytes[cut..]).finish();
            assert_eq!(got, by_division(&bytes), "cut at {cut}");
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
