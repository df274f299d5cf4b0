//! A segment whose first record head has its checksum made right, so that walks get somewhere.
#![no_main]

use std::io;

use fulgurite_codec::checksum::Crc64;
use fulgurite_domain::ArchiveId;
use fulgurite_format::{HEAD_BYTES, SegmentHead, scan_segment};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let head = SegmentHead { archive: ArchiveId([1; 16]), number: 2 };
    let mut file = head.to_bytes().to_vec();
    file.extend(data);
    if let Some(record) = file.get_mut(HEAD_BYTES..2 * HEAD_BYTES) {
        record[..4].copy_from_slice(b"FREC");
        record[48..56].copy_from_slice(&(HEAD_BYTES as u64).to_le_bytes());
        let mut crc = Crc64::new();
        crc.update(&head.number.to_le_bytes());
        crc.update(&record[..56]);
        record[56..].copy_from_slice(&crc.value().to_le_bytes());
    }
    let read_at = |at: u64, buffer: &mut [u8]| {
        let bytes = file.get(at as usize..at as usize + buffer.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(bytes);
        Ok(())
    };
    let mut end = 0;
    let scan = scan_segment(head, file.len() as u64, read_at, data.len() % 2 == 0, |record| {
        assert!(record.position >= end, "records lie one behind another");
        end = record.position + record.padded_bytes();
    });
    assert!(scan.expect("the head is good").end <= file.len() as u64);
});
