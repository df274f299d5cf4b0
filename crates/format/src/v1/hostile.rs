//! Hostile input: every parser accepts arbitrary bytes without panicking and in bounded memory.
//!
//! A quarter of the inputs are random; the others are valid ones with a few bytes changed, inserted
//! or removed. Some attacks recompute the checksums, because otherwise hardly any input would get
//! past the checks. The seeds are fixed, so failures are reproducible.

use std::io;
use std::ops::Range;

use aws_lc_rs::digest::{SHA256, digest};
use fulgurite_chance::Xorshift;
use fulgurite_codec::checksum::{Crc64, crc64};

use crate::hex::push_hex;
use crate::v1::{header, header_search, key_export, record, sealed_export, segment_scan, table};
use crate::{HEAD_BYTES, HEADER_BYTES, Header, KeyExportError, TableReader, decode_record, find_header, read_key_export, scan_segment};

struct Chance(Xorshift);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0.below(bound)
    }

    /// A byte that parsers tend to stumble over, or any byte.
    fn byte(&mut self) -> u8 {
        match self.below(3) {
            0 => [0x00, 0x1b, 0x3b, 0x5b, 0x5f, 0x7b, 0x9b, 0x9f, 0xbb, 0xbf, 0xdb, 0xfb, 0xff][self.below(13)],
            _ => self.0.bits() as u8,
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

/// Reads from `file`, failing for any read that touches the bad range.
fn readable(file: &[u8], bad: &Range<usize>, at: u64, buffer: &mut [u8]) -> io::Result<()> {
    let range = at as usize..at as usize + buffer.len();
    if range.start < bad.end && bad.start < range.end {
        return Err(io::Error::other("a bad place"));
    }
    buffer.copy_from_slice(file.get(range).ok_or(io::ErrorKind::UnexpectedEof)?);
    Ok(())
}

/// Runs `parse` on inputs derived from `valid`; returns how many it accepted.
fn attack(seed: u64, runs: usize, valid: &[u8], mut parse: impl FnMut(Vec<u8>) -> bool) -> usize {
    let mut chance = Chance(Xorshift::star(seed));
    (0..runs).filter(|_| parse(chance.input(valid))).count()
}

#[test]
fn no_bytes_make_the_record_parser_panic() {
    let valid = record::encode_record(&record::tests::described());
    let accepted = attack(1, 200_000, &valid, |bytes| match decode_record(&bytes) {
        Ok(record) => record::encode_record(&record).len() <= bytes.len(),
        Err(_) => false,
    });
    assert!(accepted > 1_000, "{accepted} accepted: the mutations are too wild to be useful");
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
                assert_eq!(Header::from_block(&header.to_block().unwrap()).as_ref(), Ok(&header));
                // Arithmetic on an accepted header must not overflow.
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
    // With lost copies and unreadable ranges, a good readable copy is found.
    let mut chance = Chance(Xorshift::star(9));
    for _ in 0..300 {
        let mut file = valid.clone();
        let lost = chance.below(8);
        let offsets = header.geometry.header_offsets();
        for (_, &at) in offsets.iter().enumerate().filter(|(copy, _)| lost >> copy & 1 != 0) {
            file[at as usize + chance.below(HEADER_BYTES)] ^= 1;
        }
        let start = chance.below(file.len());
        let bad = start & !4_095..(start + chance.below(40_000)).next_multiple_of(4_096);
        let read_at = |at: u64, buffer: &mut [u8]| readable(&file, &bad, at, buffer);
        let left =
            offsets.iter().enumerate().filter(|&(copy, &at)| lost >> copy & 1 == 0 && read_at(at, &mut [0; HEADER_BYTES]).is_ok()).count();
        let found = find_header(file.len() as u64, read_at);
        assert_eq!(found.map_or(0, |found| found.copies.iter().filter(|good| **good).count()), left, "copies {lost:03b} lost, {bad:?} bad");
    }
    // The magic at every place where a header may start.
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
        let Ok(mut reader) = TableReader::new(&bytes[..], bytes.len() as u64) else { return false };
        let Ok(entries) = reader.by_ref().collect::<Result<Vec<_>, _>>() else { return false };
        let whole = reader.finish().is_ok();
        // The four reserved bytes of the head may differ.
        assert!(!whole || table::tests::written(&entries).0[16..] == bytes[16..]);
        whole
    });
    assert!(accepted > 10, "{accepted} accepted");
    // A table that claims to be enormous: memory is only allocated for bytes that arrive.
    let mut endless = valid[..16].to_vec();
    endless.extend([0xff; 8]);
    assert!(TableReader::new(&endless[..], u64::MAX).and_then(TableReader::finish).is_err());
}

#[test]
fn no_bytes_make_the_segment_scan_panic() {
    let (valid, _) = segment_scan::tests::segment(&[0, 100, 70_000, 64, 1_000]);
    let accepted = attack(6, 2_000, &valid, |bytes| segment_scan::tests::scan(&bytes, true).is_ok_and(|(found, _)| found.records > 0));
    assert!(accepted > 100, "{accepted} accepted");
    // With corrected head checksums, and an unreadable range.
    let mut chance = Chance(Xorshift::star(10));
    attack(11, 2_000, &valid[..2_048], |mut bytes| {
        for at in (HEAD_BYTES..bytes.len().saturating_sub(HEAD_BYTES)).step_by(HEAD_BYTES) {
            let head = &mut bytes[at..at + HEAD_BYTES];
            if head.starts_with(b"FREC") {
                head[48..56].copy_from_slice(&(at as u64).to_le_bytes());
                let mut crc = Crc64::new();
                crc.update(&segment_scan::tests::HEAD.number.to_le_bytes());
                crc.update(&head[..56]);
                head[56..].copy_from_slice(&crc.value().to_le_bytes());
            }
        }
        let start = chance.below(4_000);
        let bad = start..start + chance.below(200);
        let read_at = |at: u64, buffer: &mut [u8]| readable(&bytes, &bad, at, buffer);
        let mut parts = Vec::new();
        let scan = scan_segment(segment_scan::tests::HEAD, bytes.len() as u64, read_at, chance.below(2) == 0, |head| {
            parts.push(head.position..(head.position + head.padded_bytes()).min(bytes.len() as u64));
        });
        let Ok(scan) = scan else { return false };
        // Records, damage and zeros together cover the file, in order and without overlap.
        assert_eq!(scan.records, parts.len() as u64);
        parts.extend(scan.damaged);
        parts.sort_by_key(|part| part.start);
        let end = parts.iter().fold(HEAD_BYTES as u64, |end, part| if part.start == end { part.end } else { panic!("{parts:?}") });
        assert!(bytes[end as usize..].iter().all(|&byte| byte == 0), "bytes after {end} are not reported");
        true
    });
}

#[test]
fn no_bytes_make_the_key_import_panic() {
    let keys: Vec<_> = (0..9).map(|n| (fulgurite_domain::VersionId([n; 16]), crate::WrappedKey([n; 40]))).collect();
    let valid = key_export::tests::text(&keys);
    attack(7, 20_000, &valid, |bytes| read_key_export(&bytes[..], |_, _| Ok::<_, KeyExportError>(())).is_ok());
    // With a correct last line.
    let end = valid.len() - valid.rsplit(|&byte| byte == b'\n').nth(1).unwrap().len() - 1;
    let accepted = attack(12, 5_000, &valid[..end], |mut bytes| {
        let keys = bytes.split(|&byte| byte == b'\n').filter(|line| line.starts_with(b"key ")).count();
        let mut last = format!("end {keys} ");
        push_hex(&mut last, digest(&SHA256, &bytes).as_ref());
        bytes.extend(last.into_bytes());
        bytes.push(b'\n');
        read_key_export(&bytes[..], |_, _| Ok::<_, KeyExportError>(())).is_ok()
    });
    assert!(accepted > 10, "{accepted} accepted");
    let sealed = sealed_export::tests::sealed(&valid);
    attack(8, 100, &sealed, |mut bytes| {
        // Keeps scrypt's parameters: others could take seconds.
        for (byte, cheap) in bytes.iter_mut().zip(&sealed).take(21).skip(12) {
            *byte = *cheap;
        }
        let Ok(reader) = crate::SealedExportReader::new(io::Cursor::new(&bytes), b"correct horse") else { return false };
        read_key_export(reader, |_, _| Ok::<_, KeyExportError>(())).is_ok()
    });
}

#[test]
fn no_bytes_make_frames_or_key_text_panic() {
    let version = fulgurite_domain::VersionId([1; 16]);
    for key in [None, Some(&crate::ObjectKey::new([2; 32]))] {
        let frames = crate::Frames::new(version, key);
        let mut valid = vec![0; 300];
        frames.seal(0, &mut valid);
        attack(13, 2_000, &valid, |mut bytes| {
            let _ = frames.open_record(&bytes);
            assert_eq!(crate::content_bytes(bytes.len() as u64).is_some(), bytes.is_empty() || bytes.len() > crate::TAG_BYTES);
            // A change that a CRC-64 is not guaranteed to detect passes with a probability of
            // 2^-64.
            let same = bytes == valid;
            frames.open(0, &mut bytes).is_ok() == same || panic!("a changed frame opened, or an unchanged one did not")
        });
    }
    let master = crate::MasterKey::new([3; 32]).to_hex();
    attack(14, 5_000, master.as_bytes(), |bytes| String::from_utf8_lossy(&bytes).parse::<crate::MasterKey>().is_ok());
}
