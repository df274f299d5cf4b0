//! The checksum of the format: CRC-64/NVME.

use crc_fast::{CrcAlgorithm, Digest};

/// A CRC-64/NVME that grows with the bytes shown to it.
#[derive(Clone, Copy, Debug)]
pub struct Crc64(Digest);

impl Crc64 {
    /// The checksum of no bytes yet.
    #[must_use]
    pub fn new() -> Self {
        Self(Digest::new(CrcAlgorithm::Crc64Nvme))
    }

    /// Continues over `bytes`.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The checksum of all bytes so far.
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

/// The checksum of `bytes`.
#[must_use]
pub fn crc64(bytes: &[u8]) -> u64 {
    let mut crc = Crc64::new();
    crc.update(bytes);
    crc.value()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_of_the_specification_comes_out() {
        assert_eq!(crc64(b"123456789"), 0xAE8B_1486_0A79_9888);
    }

    #[test]
    fn a_continued_checksum_agrees_with_a_plain_one_however_the_bytes_are_cut() {
        let plain = |bytes: &[u8]| {
            let mut crc = u64::MAX;
            for &byte in bytes {
                crc ^= u64::from(byte);
                for _ in 0..8 {
                    // The polynomial 0xAD93D23594C93659 with its bits in reverse order.
                    crc = if crc & 1 == 1 { (crc >> 1) ^ 0x9A6C_9329_AC4B_C9B5 } else { crc >> 1 };
                }
            }
            !crc
        };
        let bytes: Vec<u8> = (0..1_000u32).map(|i| (i * 7 + i / 251) as u8).collect();
        for cut in [0, 1, 15, 16, 17, 127, 128, 500, 999, 1_000] {
            let mut crc = Crc64::new();
            crc.update(&bytes[..cut]);
            crc.update(&bytes[cut..]);
            assert_eq!(crc.value(), plain(&bytes), "cut at {cut}");
        }
    }
}
