//! Checksums of things that are put together from parts whose checksums are known.

use crc_fast::CrcAlgorithm::Crc64Nvme;

/// CRC-64 of nothing.
pub(crate) const EMPTY: u64 = 0;

/// CRC-64 of a part behind another.
pub(crate) fn combine(first: u64, second: u64, second_bytes: u64) -> u64 {
    crc_fast::checksum_combine(Crc64Nvme, first, second, second_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulgurite_codec::checksum::crc64;

    #[test]
    fn parts_give_the_checksum_of_the_whole() {
        let whole: Vec<u8> = (0..100_000_u32).map(|i| (i * i >> 7) as u8).collect();
        for cut in [0, 1, 63, 65_552, 100_000] {
            let (first, second) = whole.split_at(cut);
            assert_eq!(combine(crc64(first), crc64(second), second.len() as u64), crc64(&whole));
        }
        assert_eq!(combine(EMPTY, crc64(&whole), whole.len() as u64), crc64(&whole));
    }
}
