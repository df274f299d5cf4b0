//! Bytes that mean harm: every parser takes anything, without a panic and in bounded memory.
//!
//! Half of the inputs are random; half are valid ones with a few bytes changed, cut, doubled or put elsewhere, and with their checksums made right
//! again, since otherwise hardly any would get past them. The seed is fixed: a failure repeats itself.

use crate::v1::{header, header_search, key_export, record, sealed_export, segment_scan, table};
use crate::{HEADER_BYTES, Header, KeyExportError, TableReader, decode_record, find_header, read_key_export};
use fulgurite_codec::checksum::crc64;

/// xorshift64*, Vigna 2016.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    /// A byte of the kind that parsers stumble over, or any.
    fn byte(&mut self) -> u8 {
        match self.below(3) {
            0 => [0x00, 0x1b, 0x3b, 0x5b, 0x5f, 0x7b, 0x9b, 0x9f, 0xbb, 0xbf, 0xdb, 0xfb, 0xff][self.below(13)],
            _ => self.next() as u8,
        }
    }

    fn mutate(&mut self, valid: &[u8]) -> Vec<u8> {
        let mut bytes = valid.to_vec();
        for _ in 0..=self.below(6) {
            let at = self.below(bytes.len());
            match self.below(8) {
                0 => bytes.truncate(at),
                1 => {
                    let end = at + self.below((bytes.len() - at).min(40));
                    let piece = bytes[at..end].to_vec();
                    let to = self.below(bytes.len());
                    bytes.splice(to..to, piece);
                }
                2 => {
                    let end = at + self.below((bytes.len() - at).min(40));
                    bytes.drain(at..end);
                }
                _ => {
                    let byte = self.byte();
                    if let Some(place) = bytes.get_mut(at) {
                        *place = byte;
                    }
                }
            }
        }
        bytes
    }

    fn input(&mut self, valid: &[u8]) -> Vec<u8> {
        match self.below(4) {
            0 => (0..self.below(2 * valid.len().min(4_096))).map(|_| self.byte()).collect(),
            _ => self.mutate(valid),
        }
    }
}

/// Runs `parse` on inputs made of `valid`; returns how many it accepted.
fn attack(seed: u64, runs: usize, valid: &[u8], mut parse: impl FnMut(Vec<u8>) -> bool) -> usize {
    let mut chance = Chance(seed);
    (0..runs).filter(|_| parse(chance.input(valid))).count()
}

#[test]
fn no_bytes_make_the_record_parser_panic() {
    let valid = record::encode_record(&record::tests::sample());
    let accepted = attack(1, 200_000, &valid, |bytes| match decode_record(&bytes) {
        Ok(record) => record::encode_record(&record).len() <= bytes.len(),
        Err(_) => false,
    });
    assert!(accepted > 1_000, "{accepted} accepted: the changes are too wild to get anywhere");
}

#[test]
fn no_bytes_make_the_header_parser_panic() {
    let valid = header::tests::sample(3).to_block().unwrap();
    let length = u32::from_le_bytes(valid[12..16].try_into().unwrap()) as usize;
    let accepted = attack(2, 20_000, &valid[16..16 + length], |item| {
        let mut block = valid[..12].to_vec();
        block.extend((item.len() as u32).to_le_bytes());
        block.extend(&item[..item.len().min(16_000)]);
        block.resize(HEADER_BYTES - 8, 0);
        let crc = crc64(&block);
        block.extend(crc.to_le_bytes());
        match Header::from_block(&block) {
            Ok(header) => {
                // What was accepted has an arithmetic that holds.
                let geometry = header.geometry;
                assert!(geometry.file_bytes() > geometry.content_bytes());
                header.for_position(0).to_block().is_ok()
            }
            Err(_) => false,
        }
    });
    assert!(accepted > 100, "{accepted} accepted");
    attack(3, 2_000, &valid, |block| Header::from_block(&block).is_ok());
}

#[test]
fn no_bytes_make_the_search_for_a_header_panic() {
    let header = header::tests::sample(2);
    let mut valid = vec![0x11; usize::try_from(header.geometry.file_bytes()).unwrap()];
    for at in header.geometry.header_offsets() {
        valid[at as usize..at as usize + HEADER_BYTES].copy_from_slice(&header.to_block().unwrap());
    }
    attack(4, 300, &valid, |file| {
        let read_at = |at: u64, buffer: &mut [u8]| {
            let bytes = file.get(at as usize..at as usize + buffer.len()).ok_or(std::io::ErrorKind::UnexpectedEof)?;
            buffer.copy_from_slice(bytes);
            Ok(())
        };
        find_header(file.len() as u64, read_at).is_ok()
    });
    // Magics at every place where one may lie.
    let magics: Vec<u8> = b"FULGPLAT\x01\0\0\0\x20\0\0\0".iter().copied().chain([0; 48]).cycle().take(100_000).collect();
    let read_at = |at: u64, buffer: &mut [u8]| {
        buffer.copy_from_slice(&magics[at as usize..at as usize + buffer.len()]);
        Ok(())
    };
    assert!(matches!(find_header(magics.len() as u64, read_at), Err(header_search::FindHeaderError::NoGoodCopy { at: 0, .. })));
}

#[test]
fn no_bytes_make_the_table_parser_panic() {
    let (valid, _) = table::tests::written(&table::tests::sample());
    let accepted = attack(5, 5_000, &valid, |bytes| {
        let Ok(reader) = TableReader::new(&bytes[..], bytes.len() as u64) else { return false };
        reader.finish().is_ok()
    });
    assert!(accepted > 10, "{accepted} accepted");
    // A table that claims to be longer than anything: no memory is taken before the bytes have come.
    let mut endless = valid[..16].to_vec();
    endless.extend([0xff; 8]);
    assert!(TableReader::new(&endless[..], u64::MAX).and_then(TableReader::finish).is_err());
}

#[test]
fn no_bytes_make_the_walk_over_a_segment_panic() {
    let (valid, _) = segment_scan::tests::segment(&[0, 100, 70_000, 64, 1_000]);
    let accepted = attack(6, 2_000, &valid, |bytes| segment_scan::tests::scan(&bytes, true).is_ok_and(|(found, _)| found.records > 0));
    assert!(accepted > 100, "{accepted} accepted");
}

#[test]
fn no_bytes_make_the_key_import_panic() {
    let keys: Vec<_> = (0..9).map(|n| (fulgurite_domain::VersionId([n; 16]), crate::WrappedKey([n; 40]))).collect();
    let valid = key_export::tests::text(&keys);
    attack(7, 20_000, &valid, |bytes| read_key_export(&bytes[..], |_, _| Ok::<_, KeyExportError>(())).is_ok());
    let sealed = sealed_export::tests::sealed(&valid);
    attack(8, 100, &sealed, |mut bytes| {
        // Few parameters are as cheap as those of the original.
        for (byte, cheap) in bytes.iter_mut().zip(&sealed).take(21).skip(12) {
            *byte = *cheap;
        }
        let Ok(reader) = crate::SealedExportReader::new(&bytes[..], b"correct horse") else { return false };
        read_key_export(reader, |_, _| Ok::<_, KeyExportError>(())).is_ok()
    });
}
