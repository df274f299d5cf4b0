//! The code of a sector on an analog medium: from payload to symbols and back.
//!
//! ```text
//! payload, checksum ── scramble ──> information | parity    codeword 0
//!                                   information | parity    codeword 1 ...
//!                                        │ interleave
//!                                        v
//! symbols 0 1 2 3 ...   symbol s belongs to codeword s mod N and carries its next m bits
//! ```
//!
//! - The checksum decides: it covers the sector's address and the payload, so a sector from another
//!   place fails as a wrong one does. It is CRC-64/NVME: a payload that the LDPC code got wrong
//!   passes with probability 2^-64.
//! - Scrambling makes all symbols of codewords equally likely, whatever the payload; the key is the
//!   address, so equal payloads give different symbols.
//! - Interleaving spreads a blemish over all codewords. Bits of one symbol are neighbors in a
//!   column of the LDPC code, so no check contains two of them if m divides 512, and hardly any
//!   otherwise.

use crate::checksum::Crc64;
use crate::error::CodeError;
use crate::ldpc::{LdpcCode, LdpcDecoder};

/// Bytes of the checksum after the payload.
const CHECKSUM_BYTES: usize = 8;

/// The code of sectors of one shape.
///
/// ```
/// use fulgurite_codec::SectorCode;
///
/// // 20,480 symbols of 4 bits, at rate 0.8875.
/// let code = SectorCode::new(20_480, 4, 9)?;
/// let payload = vec![7; code.payload_bytes()];
/// let symbols = code.encode(b"platter 1, sector 2", &payload);
/// // The ratios of a reader without noise.
/// let ratios: Vec<i8> = symbols.iter().flat_map(|symbol| (0..4).map(move |bit| if symbol >> bit & 1 == 0 { 40 } else { -40 })).collect();
/// let decoded = code.decoder().decode(b"platter 1, sector 2", &ratios).expect("no noise");
/// assert_eq!(decoded.payload, payload);
/// # Ok::<(), fulgurite_codec::CodeError>(())
/// ```
#[derive(Debug, Clone)]
pub struct SectorCode {
    ldpc: LdpcCode,
    symbols: usize,
    bits_per_symbol: usize,
    codewords: usize,
}

impl SectorCode {
    /// Iterations after which a codeword counts as lost.
    pub const MOST_ITERATIONS: u32 = 30;

    /// The code of sectors of `symbols` symbols with `bits_per_symbol` bits, of which
    /// `parity_columns` in 80 are parity. Symbols that don't fill a codeword stay unused.
    ///
    /// # Errors
    /// [`CodeError::ParityColumns`] if there is no LDPC code of that rate,
    /// [`CodeError::BitsPerSymbol`] outside of 1 to 8, [`CodeError::SectorTooSmall`] if not even
    /// one codeword fits.
    pub fn new(symbols: usize, bits_per_symbol: usize, parity_columns: usize) -> Result<Self, CodeError> {
        let ldpc = LdpcCode::new(parity_columns)?;
        if !(1..=8).contains(&bits_per_symbol) {
            return Err(CodeError::BitsPerSymbol { bits_per_symbol });
        }
        if symbols < LdpcCode::CODEWORD_BITS.div_ceil(bits_per_symbol) {
            return Err(CodeError::SectorTooSmall { symbols, bits_per_symbol, codeword_bits: LdpcCode::CODEWORD_BITS });
        }
        let codewords = symbols / LdpcCode::CODEWORD_BITS.div_ceil(bits_per_symbol);
        Ok(Self { ldpc, symbols, bits_per_symbol, codewords })
    }

    /// Bytes that a sector stores.
    pub fn payload_bytes(&self) -> usize {
        self.codewords * self.ldpc.information_bytes() - CHECKSUM_BYTES
    }

    /// Symbols of a sector.
    pub fn symbols(&self) -> usize {
        self.symbols
    }

    /// Bits of a symbol.
    pub fn bits_per_symbol(&self) -> usize {
        self.bits_per_symbol
    }

    /// LDPC codewords of a sector.
    pub fn codewords(&self) -> usize {
        self.codewords
    }

    /// The LDPC code of each codeword.
    pub fn ldpc(&self) -> &LdpcCode {
        &self.ldpc
    }

    /// The checksum of a sector: of its address and its payload.
    pub fn checksum(address: &[u8], payload: &[u8]) -> u64 {
        checksum(address, payload)
    }

    /// A decoder for sectors of this code.
    pub fn decoder(&self) -> SectorDecoder<'_> {
        SectorDecoder {
            ldpc: LdpcDecoder::new(self.ldpc.matrix()),
            codeword: vec![0; LdpcCode::CODEWORD_BITS],
            decided: vec![0; LdpcCode::CODEWORD_BYTES],
            information: vec![0; self.codewords * self.ldpc.information_bytes()],
            code: self,
        }
    }

    /// The symbols of `payload` at `address`; the bits of a symbol start at the least significant.
    ///
    /// # Panics
    /// If the payload doesn't have [`payload_bytes`](Self::payload_bytes).
    pub fn encode(&self, address: &[u8], payload: &[u8]) -> Vec<u8> {
        assert_eq!(payload.len(), self.payload_bytes(), "a payload of another length");
        let mut information = payload.to_vec();
        information.extend_from_slice(&checksum(address, payload).to_le_bytes());
        scramble(address, &mut information);
        let mut symbols = vec![0; self.symbols];
        let mut codeword = vec![0; LdpcCode::CODEWORD_BYTES];
        for (index, information) in information.chunks_exact(self.ldpc.information_bytes()).enumerate() {
            let (start, parity) = codeword.split_at_mut(information.len());
            start.copy_from_slice(information);
            self.ldpc.encode(information, parity);
            for bit in 0..LdpcCode::CODEWORD_BITS {
                let (symbol, place) = self.place(index, bit);
                symbols[symbol] |= (codeword[bit / 8] >> (bit % 8) & 1) << place;
            }
        }
        symbols
    }

    /// The symbol that carries a bit of a codeword, and which of its bits that is.
    fn place(&self, codeword: usize, bit: usize) -> (usize, usize) {
        (codeword + self.codewords * (bit / self.bits_per_symbol), bit % self.bits_per_symbol)
    }
}

/// Decodes sectors, one after the other. Only payloads are allocated anew.
pub struct SectorDecoder<'a> {
    code: &'a SectorCode,
    ldpc: LdpcDecoder,
    /// Ratios of the codeword being decoded.
    codeword: Vec<i8>,
    /// Its bits.
    decided: Vec<u8>,
    /// Information of all codewords.
    information: Vec<u8>,
}

/// A sector that was read correctly.
#[derive(Debug, Clone, PartialEq)]
pub struct DecodedSector {
    /// The payload; its checksum was right.
    pub payload: Vec<u8>,
    /// Iterations of the codeword that took most.
    pub most_iterations: u32,
    /// Bits that the ratios had wrong, of all codewords. Erased bits don't count.
    pub corrected_bits: u32,
    /// Information that the ratios carried about the written bits if taken at face value, in bits
    /// per bit. With ratios that tell the truth, decoding needs some 0.03 to 0.06 more than the
    /// code's rate; what is beyond that is the sector's margin. Ratios that are surer than they
    /// should be lower this number more than they harm decoding.
    pub information: f64,
}

/// Why a sector couldn't be read. Either way it is an erasure for the codes between sectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SectorLoss {
    /// Too much noise.
    #[error("{codewords} codewords of the sector can't be decoded: too much noise, or nothing is written there")]
    Noise {
        /// Codewords that could not be decoded.
        codewords: usize,
    },
    /// All codewords could be decoded, but not to what was written at this address.
    #[error("the checksum of the sector is wrong: another sector was read, or noise looked like one")]
    Checksum,
}

impl SectorDecoder<'_> {
    /// Decodes a sector from the ratios of its bits, symbol by symbol: as many as symbols times
    /// bits per symbol, in units of [`LdpcDecoder::RATIOS_PER_NAT`].
    ///
    /// # Errors
    /// [`SectorLoss`] if noise exceeds what the code bears, or the checksum is wrong.
    ///
    /// # Panics
    /// If the number of ratios isn't that of a sector's bits.
    pub fn decode(&mut self, address: &[u8], ratios: &[i8]) -> Result<DecodedSector, SectorLoss> {
        let code = self.code;
        assert_eq!(ratios.len(), code.symbols * code.bits_per_symbol, "one ratio per bit is required");
        let (mut lost, mut most_iterations, mut corrected_bits, mut missing) = (0, 0, 0, 0.0);
        for (index, information) in self.information.chunks_exact_mut(code.ldpc.information_bytes()).enumerate() {
            let from = ratios.chunks_exact(code.bits_per_symbol).skip(index).step_by(code.codewords);
            for (to, from) in self.codeword.chunks_mut(code.bits_per_symbol).zip(from) {
                for (to, from) in to.iter_mut().zip(from) {
                    *to = (*from).clamp(-LdpcDecoder::MOST_RATIO, LdpcDecoder::MOST_RATIO);
                }
            }
            let decoded = self.ldpc.decode(&self.codeword, SectorCode::MOST_ITERATIONS);
            most_iterations = most_iterations.max(decoded.iterations);
            if !decoded.is_codeword {
                lost += 1;
                continue;
            }
            self.ldpc.copy_bits(&mut self.decided);
            information.copy_from_slice(&self.decided[..information.len()]);
            let (corrected, uncertain) = compare(&self.codeword, &self.decided);
            corrected_bits += corrected;
            missing += uncertain;
        }
        if lost > 0 {
            return Err(SectorLoss::Noise { codewords: lost });
        }
        scramble(address, &mut self.information);
        let (payload, sum) = self.information.split_at(code.payload_bytes());
        if sum != checksum(address, payload).to_le_bytes() {
            return Err(SectorLoss::Checksum);
        }
        let information = 1.0 - missing / (code.codewords * LdpcCode::CODEWORD_BITS) as f64;
        Ok(DecodedSector { payload: payload.to_vec(), most_iterations, corrected_bits, information })
    }
}

/// How many of the ratios have the wrong sign, and the information that they lack about `bits`, in
/// bits. A ratio of L nats for the written bit lacks `log2(1 + e^-L)`.
fn compare(ratios: &[i8], bits: &[u8]) -> (u32, f64) {
    // Counts by ratio first: the logarithm is then needed for 256 values only.
    let mut counts = [0u32; 256];
    for (ratios, byte) in ratios.chunks_exact(8).zip(bits) {
        for (bit, ratio) in ratios.iter().enumerate() {
            let mask = -(byte >> bit & 1).cast_signed();
            counts[usize::from(((ratio ^ mask).wrapping_sub(mask)).cast_unsigned())] += 1;
        }
    }
    let mut wrong = 0;
    let mut lacking = 0.0;
    for (value, count) in counts.into_iter().enumerate() {
        let ratio = (value as u8).cast_signed();
        if ratio < 0 {
            wrong += count;
        }
        let nats = f64::from(ratio) / f64::from(LdpcDecoder::RATIOS_PER_NAT);
        lacking += f64::from(count) * (-nats).exp().ln_1p() / std::f64::consts::LN_2;
    }
    (wrong, lacking)
}

fn checksum(address: &[u8], payload: &[u8]) -> u64 {
    Crc64::new().update(address).update(payload).value()
}

/// Adds the key stream of an address; the same again removes it. The stream is seeded with the
/// checksum of the address; its words are little-endian.
fn scramble(address: &[u8], bytes: &mut [u8]) {
    for (chunk, word) in bytes.chunks_mut(8).zip(KeyStream::new(checksum(address, &[]))) {
        for (byte, key) in chunk.iter_mut().zip(word.to_le_bytes()) {
            *byte ^= key;
        }
    }
}

/// An endless stream of words that whitens what is added to it: splitmix64. It hides nothing.
#[derive(Debug, Clone)]
pub struct KeyStream(u64);

impl KeyStream {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }
}

impl Iterator for KeyStream {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        Some(z ^ (z >> 31))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::noise;

    fn ratios(symbols: &[u8], bits_per_symbol: usize) -> Vec<i8> {
        symbols.iter().flat_map(|symbol| (0..bits_per_symbol).map(move |bit| if symbol >> bit & 1 == 0 { 40 } else { -40 })).collect()
    }

    #[test]
    #[cfg_attr(miri, ignore = "too much for Miri")]
    fn sectors_of_any_shape_come_back() {
        for (symbols, bits_per_symbol, parity_columns, codewords) in
            [(20_480, 4, 9, 2), (40_960, 1, 5, 1), (40_970, 3, 20, 3), (13_654, 3, 9, 1), (256_000, 4, 12, 25), (5_121, 8, 7, 1)]
        {
            let code = SectorCode::new(symbols, bits_per_symbol, parity_columns).unwrap();
            assert_eq!(code.codewords(), codewords, "{symbols} symbols");
            let payload = noise(1, code.payload_bytes());
            let written = code.encode(b"here", &payload);
            assert!(written.iter().all(|&symbol| u32::from(symbol) < 1 << bits_per_symbol));
            let decoded = code.decoder().decode(b"here", &ratios(&written, bits_per_symbol)).unwrap();
            assert!(decoded.payload == payload, "{symbols} symbols");
            assert_eq!((decoded.most_iterations, decoded.corrected_bits), (0, 0));
            assert!(decoded.information > 0.999);
        }
        assert!(matches!(SectorCode::new(10_239, 4, 9), Err(CodeError::SectorTooSmall { .. })));
        assert!(matches!(SectorCode::new(99_999, 9, 9), Err(CodeError::BitsPerSymbol { .. })));
        assert!(matches!(SectorCode::new(99_999, 0, 9), Err(CodeError::BitsPerSymbol { .. })));
        assert!(matches!(SectorCode::new(99_999, 4, 21), Err(CodeError::ParityColumns { .. })));
    }

    #[test]
    #[cfg_attr(miri, ignore = "too much for Miri")]
    fn ratios_of_any_size_count_alike() {
        let code = SectorCode::new(20_480, 4, 9).unwrap();
        let payload = noise(1, code.payload_bytes());
        let largest: Vec<i8> =
            ratios(&code.encode(b"here", &payload), 4).iter().map(|&ratio| if ratio > 0 { i8::MAX } else { i8::MIN }).collect();
        let decoded = code.decoder().decode(b"here", &largest).unwrap();
        assert!(decoded.payload == payload);
        assert_eq!(decoded.corrected_bits, 0);
        assert!(decoded.information > 0.999);
    }

    #[test]
    #[cfg_attr(miri, ignore = "too much for Miri")]
    fn a_sector_from_another_address_fails_its_checksum() {
        let code = SectorCode::new(20_480, 4, 9).unwrap();
        let symbols = code.encode(b"here", &noise(1, code.payload_bytes()));
        assert_eq!(code.decoder().decode(b"there", &ratios(&symbols, 4)), Err(SectorLoss::Checksum));
        // All bits erased: zeros satisfy every check of the LDPC code, but not the checksum.
        assert_eq!(code.decoder().decode(b"here", &vec![0; 4 * 20_480]), Err(SectorLoss::Checksum));
    }

    #[test]
    #[cfg_attr(miri, ignore = "too much for Miri")]
    fn equal_payloads_give_balanced_symbols_that_differ_by_address() {
        let code = SectorCode::new(20_480, 4, 9).unwrap();
        let payload = vec![0; code.payload_bytes()];
        let (one, other) = (code.encode(b"one", &payload), code.encode(b"other", &payload));
        for value in 0..16 {
            let count = one.iter().filter(|&&symbol| symbol == value).count();
            assert!((1100..1460).contains(&count), "symbol {value} occurs {count} times in {}", one.len());
        }
        let equal = one.iter().zip(&other).filter(|(a, b)| a == b).count();
        assert!(equal < 1460, "{equal} symbols are equal");
    }

    #[test]
    #[cfg_attr(miri, ignore = "too much for Miri")]
    fn noise_is_corrected_measured_and_at_last_reported() {
        let code = SectorCode::new(20_480, 4, 9).unwrap();
        let payload = noise(5, code.payload_bytes());
        let mut read = ratios(&code.encode(b"here", &payload), 4);
        // A blemish: 400 symbols in a row are unreadable. Besides, a bit in 200 is wrong, weakly.
        read[4000..5600].fill(0);
        read.iter_mut().step_by(200).for_each(|ratio| *ratio = -*ratio / 8);
        let decoded = code.decoder().decode(b"here", &read).unwrap();
        assert!(decoded.payload == payload);
        assert_eq!(decoded.corrected_bits, 410 - 8, "eight of the wrong bits are in the blemish");
        // The blemish lacks all of its bits, and each wrong bit log2(1 + e^(5/4)).
        let lacking = (1600.0 + 402.0 * (1.25f64.exp().ln_1p() / std::f64::consts::LN_2)) / 81_920.0;
        assert!((decoded.information - (1.0 - lacking)).abs() < 1e-3, "{}", decoded.information);

        read[..30_000].fill(0);
        assert_eq!(code.decoder().decode(b"here", &read), Err(SectorLoss::Noise { codewords: 2 }));
    }
}
