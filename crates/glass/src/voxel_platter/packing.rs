//! Symbols as bits of a file: symbol `i` of `b` bits is bits `i * b` to `i * b + b` of the sector,
//! counted from the least significant bit of the first byte.

/// Bytes of a sector in the file.
pub(super) fn packed_bytes(voxels: usize, bits: u32) -> usize {
    (voxels * bits as usize).div_ceil(8)
}

pub(super) fn pack(symbols: &[u8], bits: u32) -> Vec<u8> {
    let mut packed = Vec::with_capacity(packed_bytes(symbols.len(), bits));
    let (mut word, mut filled) = (0u32, 0);
    for &symbol in symbols {
        word |= u32::from(symbol) << filled;
        filled += bits;
        while filled >= 8 {
            packed.push(word as u8);
            word >>= 8;
            filled -= 8;
        }
    }
    if filled > 0 {
        packed.push(word as u8);
    }
    packed
}

pub(super) fn unpack(packed: &[u8], voxels: usize, bits: u32) -> Vec<u8> {
    let mut symbols = Vec::with_capacity(voxels);
    let (mut word, mut filled) = (0u32, 0);
    let mut bytes = packed.iter();
    for _ in 0..voxels {
        while filled < bits {
            word |= u32::from(*bytes.next().expect("a sector's bytes")) << filled;
            filled += 8;
        }
        symbols.push((word & ((1 << bits) - 1)) as u8);
        word >>= bits;
        filled -= bits;
    }
    symbols
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_of_any_width_come_back() {
        for bits in 3..=5 {
            for voxels in [1, 7, 8, 160, 163] {
                let symbols: Vec<u8> = (0..voxels).map(|i| (i * 7 + i / 5) as u8 & ((1 << bits) - 1)).collect();
                let packed = pack(&symbols, bits);
                assert_eq!(packed.len(), packed_bytes(voxels, bits));
                assert_eq!(unpack(&packed, voxels, bits), symbols, "{voxels} of {bits} bits");
            }
        }
        assert_eq!(pack(&[0x1, 0xf, 0x3], 4), [0xf1, 0x03], "the first symbol is in the low bits");
    }
}
