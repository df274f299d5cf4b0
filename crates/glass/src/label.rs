//! The label after each payload: it says where the sector belongs and whether it is intact.
//!
//! A disk may return the bytes of another place without an error. So the label names platter, track
//! and sector, and the checksum covers label and payload: a good sector in the wrong place counts
//! as lost.

use fulgurite_codec::checksum::crc64;
use fulgurite_domain::{LABEL_BYTES, PlatterId, SectorAddress};

const MAGIC: &[u8; 8] = b"FULGSECT";
const VERSION: u32 = 1;
/// Length of the fields, magic to version. The bytes between them and the checksum are reserved:
/// zeros, whose values a reader ignores.
const FIELDS_BYTES: usize = 40;
/// Offset of the checksum in the label.
const CHECKSUM_AT: usize = 56;

/// Writes a sector's label after its payload. `sector` is payload plus label.
pub(crate) fn seal(sector: &mut [u8], platter: PlatterId, at: SectorAddress) {
    let payload_bytes = sector.len() - LABEL_BYTES;
    let label = &mut sector[payload_bytes..];
    label.fill(0);
    label[..CHECKSUM_AT].copy_from_slice(&fields(payload_bytes, platter, at));
    let checksum = crc64(&sector[..payload_bytes + CHECKSUM_AT]);
    sector[payload_bytes + CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
}

/// True if `sector`, payload plus label, is what was written at `at` of `platter`.
pub(crate) fn is_good(sector: &[u8], platter: PlatterId, at: SectorAddress) -> bool {
    let payload_bytes = sector.len() - LABEL_BYTES;
    let (covered, checksum) = sector.split_at(payload_bytes + CHECKSUM_AT);
    covered[payload_bytes..][..FIELDS_BYTES] == fields(payload_bytes, platter, at)[..FIELDS_BYTES]
        && crc64(covered).to_le_bytes() == checksum
}

/// A label without its checksum: the fields, then zeros.
fn fields(payload_bytes: usize, platter: PlatterId, at: SectorAddress) -> [u8; CHECKSUM_AT] {
    let mut fields = [0; CHECKSUM_AT];
    fields[..8].copy_from_slice(MAGIC);
    fields[8..24].copy_from_slice(&platter.0);
    fields[24..28].copy_from_slice(&at.track.0.to_le_bytes());
    fields[28..32].copy_from_slice(&u32::from(at.sector).to_le_bytes());
    fields[32..36].copy_from_slice(&(payload_bytes as u32).to_le_bytes());
    fields[36..40].copy_from_slice(&VERSION.to_le_bytes());
    fields
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulgurite_domain::PhysicalTrack;

    const PLATTER: PlatterId = PlatterId([7; 16]);
    const AT: SectorAddress = SectorAddress { track: PhysicalTrack(3), sector: 5 };

    fn sector() -> Vec<u8> {
        let mut sector: Vec<u8> = (0..1_024 + LABEL_BYTES).map(|i| i as u8).collect();
        seal(&mut sector, PLATTER, AT);
        sector
    }

    #[test]
    fn a_sector_is_good_only_where_it_was_written() {
        let sector = sector();
        assert!(is_good(&sector, PLATTER, AT));
        assert!(!is_good(&sector, PlatterId([8; 16]), AT));
        assert!(!is_good(&sector, PLATTER, SectorAddress { sector: 6, ..AT }));
        assert!(!is_good(&sector, PLATTER, SectorAddress { track: PhysicalTrack(4), ..AT }));
    }

    #[test]
    fn any_single_changed_byte_is_detected() {
        let good = sector();
        for i in 0..good.len() {
            let mut sector = good.clone();
            sector[i] ^= 0x40;
            assert!(!is_good(&sector, PLATTER, AT), "byte {i}");
        }
    }

    #[test]
    fn zeros_are_not_a_sector() {
        assert!(!is_good(&[0; 1_024 + LABEL_BYTES], PLATTER, AT));
    }
}
