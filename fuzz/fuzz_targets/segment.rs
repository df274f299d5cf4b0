//! Scans a segment that is partly unreadable. Most of its record heads get valid positions and
//! checksums, so that scans don't end at the first record.
#![no_main]

use std::io;

use fulgurite_codec::checksum::{Crc64, crc64};
use fulgurite_domain::ArchiveId;
use fulgurite_format::{HEAD_BYTES, SegmentHead, scan_segment};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    // How the head is damaged, whether payloads are checked, and which pages are unreadable.
    let Some((&[head_change, flags, bad_page, bad_pages], records)) = data.split_first_chunk() else { return };
    let head = SegmentHead { archive: ArchiveId([1; 16]), number: 2 };
    let mut file = head.to_bytes().to_vec();
    if flags & 6 == 6 {
        file[usize::from(head_change) % 48] ^= head_change;
    }
    file.extend(records);
    for at in (HEAD_BYTES..file.len()).step_by(HEAD_BYTES) {
        mend(&mut file, at, head.number);
    }
    let bad = u64::from(bad_page) * 512..u64::from(bad_page) * 512 + u64::from(bad_pages % 16) * 512;
    let read = |at: u64, buffer: &mut [u8]| {
        let end = at + buffer.len() as u64;
        if at < bad.end && bad.start < end {
            return Err(io::Error::other("an unreadable page"));
        }
        buffer.copy_from_slice(file.get(at as usize..end as usize).ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    };

    // Records, damage and zeros cover the file, in order and without overlap.
    let mut found = Vec::new();
    let Ok(scan) = scan_segment(head, file.len() as u64, read, flags & 1 != 0, |record| found.push(record)) else { return };
    assert_eq!(scan.records, found.len() as u64);
    let records = found.iter().map(|record| record.position..(record.position + record.padded_bytes()).min(file.len() as u64));
    assert_eq!(scan.end, records.clone().next_back().map_or(HEAD_BYTES as u64, |record| record.end));
    let mut parts: Vec<_> = records.chain(scan.damaged).collect();
    parts.sort_by_key(|part| part.start);
    let mut at = HEAD_BYTES as u64;
    for part in parts {
        assert_eq!(part.start, at, "a gap or an overlap");
        at = part.end;
    }
    let mut rest = vec![1; file.len() - at as usize];
    assert!(rest.is_empty() || read(at, &mut rest).is_ok_and(|()| rest.iter().all(|&byte| byte == 0)), "what is left is zeros");
});

/// Corrects position and checksums of the record at `at`, if there is one. The low bits of its
/// checksum choose what stays wrong.
fn mend(file: &mut [u8], at: usize, segment_number: u64) {
    let end = file.len().min(at + HEAD_BYTES);
    let (record, rest) = file[at..].split_at_mut(end - at);
    if record.len() < HEAD_BYTES || !record.starts_with(b"FREC") {
        return;
    }
    let wanted = record[56];
    if wanted & 1 == 0 {
        let length = u32::from_le_bytes([record[32], record[33], record[34], record[35]]) as usize;
        let crc = crc64(rest.get(..length).unwrap_or_default());
        record[40..48].copy_from_slice(&crc.to_le_bytes());
    }
    if wanted & 2 == 0 {
        record[48..56].copy_from_slice(&(at as u64).to_le_bytes());
    }
    if wanted & 4 == 0 {
        let mut crc = Crc64::new();
        crc.update(&segment_number.to_le_bytes());
        crc.update(&record[..56]);
        record[56..].copy_from_slice(&crc.value().to_le_bytes());
    }
}
