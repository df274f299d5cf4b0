//! Which damage a sealed export survives, and how the rest is reported.

use std::io::Cursor;

use fulgurite_chance::Xorshift;
use proptest::prelude::*;

use super::super::blocks::{BLOCK_BYTES, PAYLOAD_BYTES, Shape};
use super::*;
use crate::unreadable::tests::Worn;
use crate::v1::frame::FRAME_BYTES;

const CHEAP: ScryptCost = ScryptCost { log2_n: 10, r: 1, p: 1 };
const SALT: [u8; 16] = [0x51; 16];

pub(crate) fn sealed(content: &[u8]) -> Vec<u8> {
    sealed_with(content, SALT)
}

fn sealed_with(content: &[u8], salt: [u8; 16]) -> Vec<u8> {
    let mut writer = SealedExportWriter::new(Vec::new(), b"correct horse", salt, CHEAP).unwrap();
    writer.write_all(content).unwrap();
    writer.finish().unwrap()
}

/// The content, and the number of restored blocks.
fn open(bytes: &[u8]) -> Result<(Vec<u8>, u64), SealedExportError> {
    let mut reader = SealedExportReader::new(Cursor::new(bytes), b"correct horse")?;
    let mut content = Vec::new();
    match reader.read_to_end(&mut content) {
        Ok(_) => Ok((content, reader.corrected())),
        Err(error) => Err(error.downcast().expect("an error of our own")),
    }
}

fn content(length: usize) -> Vec<u8> {
    (0..length as u64).map(|i| ((i * i) >> 3) as u8 ^ (i >> 11) as u8).collect()
}

fn shape_of(length: usize) -> Shape {
    let stored = length + 16 * length.div_ceil(FRAME_BYTES);
    Shape::new(stored.div_ceil(PAYLOAD_BYTES) as u32)
}

#[test]
fn content_of_any_length_comes_back() {
    let section = 10_240 * PAYLOAD_BYTES;
    for length in [1, 943, 944, 945, 30_000, FRAME_BYTES, 2 * FRAME_BYTES + 5, section - 16 * 150, section + 1] {
        let content = content(length);
        let bytes = sealed(&content);
        assert!(bytes.len().is_multiple_of(BLOCK_BYTES));
        assert!(open(&bytes).unwrap() == (content, 0), "{length} bytes");
    }
    let empty = SealedExportWriter::new(Vec::new(), b"", SALT, CHEAP).unwrap().finish();
    assert_eq!(empty.unwrap_err().kind(), io::ErrorKind::InvalidInput);
}

#[test]
fn redundancy_is_about_half_of_what_it_protects() {
    assert!(sealed(&content(100_000)).len() <= 155_000);
    assert!(sealed(&content(1_000_000)).len() <= 1_510_000);
    // A file with few keys stays small.
    assert!(sealed(&content(500)).len() <= 10 << 10);
}

#[test]
fn any_single_byte_may_change() {
    let content = content(2_000);
    let good = sealed(&content);
    for at in 0..good.len() {
        let mut damaged = good.clone();
        damaged[at] ^= 1 << (at % 8);
        assert!(is_sealed_export(&mut Cursor::new(&damaged)).unwrap());
        assert!(open(&damaged).unwrap() == (content.clone(), 1), "byte {at}");
    }
}

#[test]
fn any_burst_within_the_redundancy_is_restored_and_none_beyond_it_yields_wrong_bytes() {
    for length in [60_000, 400_000] {
        let content = content(length);
        let good = sealed(&content);
        let shape = shape_of(length);
        let burst = (shape.groups * shape.group_redundancy - 1) as usize * BLOCK_BYTES + 1;
        for at in (0..good.len()).step_by(good.len() / 50 + 1) {
            let end = (at + burst).min(good.len());
            let mut overwritten = good.clone();
            overwritten[at..end].fill(0xc3);
            assert!(open(&overwritten).unwrap().0 == content, "{burst} bytes overwritten at {at}");
            let mut removed = good.clone();
            removed.drain(at..end);
            assert!(open(&removed).unwrap().0 == content, "{burst} bytes removed at {at}");
            let mut beyond = good.clone();
            beyond[at..(at + burst + 2 * BLOCK_BYTES).min(good.len())].fill(0);
            match open(&beyond) {
                Ok((found, _)) => assert!(found == content, "at {at}"),
                Err(error) => assert!(matches!(error, SealedExportError::Uncorrectable { .. }), "at {at}: {error}"),
            }
        }
        for cut in [good.len() - 1, good.len() - burst] {
            let (found, corrected) = open(&good[..cut]).unwrap();
            assert!(found == content && corrected > 0, "cut to {cut}");
        }
        let error = open(&good[..good.len() - burst - BLOCK_BYTES]).unwrap_err();
        assert!(matches!(error, SealedExportError::Uncorrectable { section: 0, .. }), "{error}");
        assert!(error.to_string().contains("use another copy"));
    }
}

#[test]
fn foreign_bytes_before_after_and_between_blocks_do_no_harm() {
    let content = content(50_000);
    let good = sealed(&content);
    let mut mixed = b"From: the safe\n".to_vec();
    // A few blocks of another export, and some duplicates.
    mixed.extend_from_slice(&sealed_with(b"other keys", [7; 16])[..3 * BLOCK_BYTES]);
    mixed.extend_from_slice(&good[..20 * BLOCK_BYTES]);
    mixed.extend_from_slice(b"FULGKEYS\x02\0\0\0 and no block");
    mixed.extend_from_slice(&good[10 * BLOCK_BYTES..]);
    assert!(is_sealed_export(&mut Cursor::new(&mixed)).unwrap());
    assert!(open(&mixed).unwrap() == (content, 1));
}

#[test]
fn the_order_of_blocks_does_not_matter() {
    let content = content(300_000);
    let good = sealed(&content);
    let turned: Vec<u8> = good.chunks(BLOCK_BYTES).rev().flatten().copied().collect();
    assert!(open(&turned).unwrap() == (content, 0));
}

#[test]
fn errors_are_reported_precisely() {
    let good = sealed(&content(5_000));
    let wrong = SealedExportReader::new(Cursor::new(&good), b"incorrect horse");
    assert!(matches!(wrong, Err(SealedExportError::WrongPassphrase)));
    assert!(matches!(open(b"hello"), Err(SealedExportError::NotAnExport)));
    assert!(!is_sealed_export(&mut Cursor::new(b"fulgurite-keys 1\n")).unwrap());
    let mut gone = good.clone();
    gone[12..].fill(0);
    assert!(matches!(open(&gone), Err(SealedExportError::SectionLost(0))));
    let mut newer = gone;
    newer[8] = 3;
    assert!(matches!(open(&newer), Err(SealedExportError::Newer(3))));
    // A whole section is missing.
    let long = sealed(&content(10_240 * PAYLOAD_BYTES + 50_000));
    let first = Shape::new(10_240).blocks() as usize * BLOCK_BYTES;
    assert!(matches!(open(&long[first..]), Err(SealedExportError::SectionLost(0))));
    assert!(matches!(open(&long[..first]), Err(SealedExportError::Truncated { .. } | SealedExportError::Damaged { .. })));
}

#[test]
fn the_layout_matches_the_specification() {
    let good = sealed(b"Project Silica");
    assert_eq!(good.len(), 10 * BLOCK_BYTES);
    let block = &good[..BLOCK_BYTES];
    assert_eq!(block[..12], *b"FULGKEYS\x02\0\0\0");
    assert_eq!(block[12..37], [&[10, 1, 0, 0, 0, 1, 0, 0, 0][..], &SALT].concat());
    let numbers: Vec<u32> = (40..56).step_by(4).map(|at| u32_at(block, at)).collect();
    assert_eq!((block[37..40].to_vec(), numbers), (vec![0; 3], vec![0, 0, 1, 30]));
    assert_eq!(u32_at(&good[7 * BLOCK_BYTES..], 44), 7);
    // The frames equal those that follow the head in version 1.
    let first = v1::sealed_export::seal_version_1(b"Project Silica", b"correct horse", SALT, CHEAP).unwrap();
    assert_eq!(block[56..86], first[37..]);
    assert!(block[86..1_016].iter().all(|&byte| byte == 0));
    assert_eq!(block[1_016..], fulgurite_codec::checksum::crc64(&block[..1_016]).to_le_bytes());
    // With one information symbol, redundancy symbol r is that symbol times the inverse of r + 1.
    assert_eq!(good[BLOCK_BYTES + 56..BLOCK_BYTES + 86], block[56..86]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn scattered_losses_within_each_groups_redundancy_are_restored(
        length in 1usize..250_000, seed: u64, beyond in prop::bool::weighted(0.3),
    ) {
        let content = content(length);
        let mut bytes = sealed(&content);
        let shape = shape_of(length);
        let mut random = Xorshift::new(seed | 1);
        let mut below = |bound: u32| (random.bits() >> 33) as u32 % bound;
        let mut lost = 0;
        for group in 0..shape.groups {
            let mut members: Vec<u32> =
                (0..shape.group_information + shape.group_redundancy).filter_map(|position| shape.block(group, position)).collect();
            for _ in 0..shape.group_redundancy + u32::from(beyond) {
                let member = members.swap_remove(below(members.len() as u32) as usize);
                let at = member as usize * BLOCK_BYTES + below(BLOCK_BYTES as u32) as usize;
                bytes[at] ^= 1 << below(8);
                lost += 1;
            }
        }
        match open(&bytes) {
            Ok((found, corrected)) => {
                prop_assert!(found == content);
                prop_assert_eq!(corrected, lost);
            }
            Err(error) => prop_assert!(beyond && matches!(error, SealedExportError::Uncorrectable { .. } | SealedExportError::SectionLost { .. }), "{}", error),
        }
    }
}

#[test]
fn an_export_whose_first_sector_is_unreadable_is_still_recognized_and_restored() {
    let content = content(60_000);
    let bytes = sealed(&content);
    let worn = || Worn { bytes: Cursor::new(&bytes), unreadable: &[0] };
    assert!(is_sealed_export(&mut worn()).unwrap());
    let mut reader = SealedExportReader::new(worn(), b"correct horse").unwrap();
    let mut restored = Vec::new();
    reader.read_to_end(&mut restored).unwrap();
    assert!(restored == content && reader.corrected() > 0);
}
