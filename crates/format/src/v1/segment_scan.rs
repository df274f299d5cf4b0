//! Scans a segment after a restart and finds its good records, whatever happened to it.
//!
//! The scan follows the chain of heads while they are good. After a bad one, it searches for the
//! next at multiples of 64. The payload length in a good head is trusted even if the payload is
//! damaged, so bytes inside objects are searched only when a head is lost.

use std::io;
use std::ops::Range;

use crate::v1::segment::{HEAD_BYTES, RECORD_MAGIC, RecordHead, SegmentError, SegmentHead};
use fulgurite_codec::checksum::Crc64;

/// Bytes per read.
const WINDOW_BYTES: usize = 1 << 16;
/// Granularity in which unreadable bytes are skipped.
const PAGE_BYTES: u64 = 4_096;

/// Result of a scan, besides the records.
#[derive(Debug)]
pub struct SegmentScan {
    /// Number of good records.
    pub records: u64,
    /// End of the last good record, padding included: the length worth keeping.
    pub end: u64,
    /// Ranges without a good record, in order; not the end of the file if it is all zeros, which is
    /// preallocated space. A range that reaches the end of the file may be a record that was being
    /// written when power failed.
    pub damaged: Vec<Range<u64>>,
    /// Whether the segment's own head can't be used, so that only the file name gives its number.
    pub head_damaged: bool,
    /// The first read error after the segment's head; unreadable ranges are part of `damaged`.
    pub unreadable: Option<io::Error>,
}

/// Scans a segment of `len` bytes whose head should be `expected`, and passes each good record to
/// `on_record`, front to back.
///
/// `read_at` fills a buffer from an offset. With `check_payloads`, payloads are read and
/// checksummed, 64 KiB at a time; otherwise only heads are read, and `damaged` covers only those.
///
/// # Errors
/// [`SegmentError::OtherArchive`] or [`SegmentError::OtherNumber`] if the head is that of another
/// segment. If the head is unreadable or of a later version, that is an error only if no record is
/// good either. The same holds for a damaged or foreign head if only zeros follow it, as after a
/// crash that came before the first sync. [`SegmentError::Read`] if no record is good, but part of
/// the file could not be read.
pub fn scan_segment(
    expected: SegmentHead,
    len: u64,
    read_at: impl FnMut(u64, &mut [u8]) -> io::Result<()>,
    check_payloads: bool,
    on_record: impl FnMut(RecordHead),
) -> Result<SegmentScan, SegmentError> {
    let found = SegmentScan { records: 0, end: HEAD_BYTES as u64, damaged: Vec::new(), head_damaged: false, unreadable: None };
    let mut scan = Scan { len, number: expected.number, read_at, on_record, found, unreadable_at: 0, window: vec![0; WINDOW_BYTES] };
    let head_error = scan.check_head(expected)?;
    scan.found.head_damaged = head_error.is_some();
    let mut at = HEAD_BYTES as u64;
    while at < len {
        at = match scan.head_at(at) {
            Some(head) => scan.record(head, check_payloads),
            None => scan.resynchronise(at),
        };
    }
    let mut found = scan.found;
    match head_error {
        Some(SegmentError::NotASegment | SegmentError::Checksum) if found.records == 0 && !found.damaged.is_empty() => {
            // Good records may be in the unreadable part.
            found.unreadable.take().map_or(Ok(found), |source| Err(SegmentError::Read { at: scan.unreadable_at, source }))
        }
        Some(error) if found.records == 0 => Err(error),
        _ => Ok(found),
    }
}

struct Scan<R, F> {
    len: u64,
    number: u64,
    read_at: R,
    on_record: F,
    found: SegmentScan,
    /// Offset of the read that `found.unreadable` is about.
    unreadable_at: u64,
    window: Vec<u8>,
}

impl<R: FnMut(u64, &mut [u8]) -> io::Result<()>, F: FnMut(RecordHead)> Scan<R, F> {
    /// The inner error counts only if no record is good either.
    fn check_head(&mut self, expected: SegmentHead) -> Result<Option<SegmentError>, SegmentError> {
        let mut bytes = [0; HEAD_BYTES];
        if self.len < HEAD_BYTES as u64 {
            return Err(SegmentError::NotASegment);
        }
        if let Err(source) = (self.read_at)(0, &mut bytes) {
            return Ok(Some(SegmentError::Read { at: 0, source }));
        }
        match SegmentHead::from_bytes(&bytes) {
            Ok(head) if head.archive != expected.archive => {
                Err(SegmentError::OtherArchive { found: head.archive, expected: expected.archive })
            }
            Ok(head) if head.number != expected.number => Err(SegmentError::OtherNumber { found: head.number, expected: expected.number }),
            Ok(_) => Ok(None),
            Err(error) => Ok(Some(error)),
        }
    }

    fn read(&mut self, at: u64, bytes: usize) -> bool {
        match (self.read_at)(at, &mut self.window[..bytes]) {
            Ok(()) => true,
            Err(error) => {
                if self.found.unreadable.is_none() {
                    self.unreadable_at = at;
                    self.found.unreadable = Some(error);
                }
                false
            }
        }
    }

    /// The head at `at`, if it is good and its payload is within the file.
    fn head_at(&mut self, at: u64) -> Option<RecordHead> {
        if self.len - at < HEAD_BYTES as u64 || !self.read(at, HEAD_BYTES) {
            return None;
        }
        self.head_in(0, at)
    }

    fn head_in(&self, offset: usize, at: u64) -> Option<RecordHead> {
        let bytes = self.window.get(offset..offset + HEAD_BYTES)?.try_into().expect("a slice of a head's length");
        let head = RecordHead::from_bytes(bytes, self.number, at)?;
        let end = head.payload_position() + u64::from(head.payload_bytes);
        (end <= self.len).then_some(head)
    }

    /// Handles the record of a good head; returns the position of the next one.
    fn record(&mut self, head: RecordHead, check_payload: bool) -> u64 {
        // The padding of the last record may have been cut off.
        let next = (head.position + head.padded_bytes()).min(self.len);
        if check_payload && !self.payload_is_good(head) {
            self.damage(head.position..next);
        } else {
            (self.on_record)(head);
            self.found.records += 1;
            self.found.end = next;
        }
        next
    }

    fn payload_is_good(&mut self, head: RecordHead) -> bool {
        let mut crc = Crc64::new();
        let (mut at, end) = (head.payload_position(), head.payload_position() + u64::from(head.payload_bytes));
        while at < end {
            let bytes = usize::try_from(end - at).unwrap_or(usize::MAX).min(WINDOW_BYTES);
            if !self.read(at, bytes) {
                return false;
            }
            crc.update(&self.window[..bytes]);
            at += bytes as u64;
        }
        crc.value() == head.crc64
    }

    /// Searches for the next good head after `from`; returns its position, or the end of the file.
    fn resynchronise(&mut self, from: u64) -> u64 {
        let mut zeros = true;
        let (mut at, mut page_by_page_until) = (from, 0);
        while at < self.len {
            let most = if at < page_by_page_until { PAGE_BYTES - at % PAGE_BYTES } else { WINDOW_BYTES as u64 };
            let bytes = most.min(self.len - at) as usize;
            if !self.read(at, bytes) {
                zeros = false;
                // Unreadable ranges are usually small, and records without another copy may be
                // close by.
                if bytes as u64 > PAGE_BYTES {
                    page_by_page_until = at + bytes as u64;
                    continue;
                }
                at += bytes as u64;
                continue;
            }
            for offset in (0..bytes).step_by(HEAD_BYTES) {
                let position = at + offset as u64;
                let piece = &self.window[offset..bytes.min(offset + HEAD_BYTES)];
                if position > from
                    && piece.starts_with(RECORD_MAGIC)
                    && piece.len() == HEAD_BYTES
                    && self.head_in(offset, position).is_some()
                {
                    self.damage(from..position);
                    return position;
                }
                zeros &= self.window[offset..bytes.min(offset + HEAD_BYTES)].iter().all(|&byte| byte == 0);
            }
            at += bytes as u64;
        }
        if !zeros {
            self.damage(from..self.len);
        }
        self.len
    }

    fn damage(&mut self, range: Range<u64>) {
        match self.found.damaged.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.found.damaged.push(range),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::v1::segment::RecordKind;
    use fulgurite_codec::checksum::crc64;
    use fulgurite_domain::{ArchiveId, VersionId};
    use proptest::prelude::*;

    pub(crate) const HEAD: SegmentHead = SegmentHead { archive: ArchiveId([10; 16]), number: 7 };

    /// A segment with records of these payload lengths, and their heads.
    pub(crate) fn segment(payloads: &[usize]) -> (Vec<u8>, Vec<RecordHead>) {
        let mut file = HEAD.to_bytes().to_vec();
        let mut heads = Vec::new();
        for (n, &length) in payloads.iter().enumerate() {
            let payload: Vec<u8> = (0..length).map(|i| (i * 31 + n) as u8).collect();
            let head = RecordHead {
                kind: RecordKind::Object,
                version: VersionId([n as u8; 16]),
                offset: 0,
                payload_bytes: length as u32,
                sealed: false,
                crc64: crc64(&payload),
                position: file.len() as u64,
            };
            file.extend(head.to_bytes(HEAD.number));
            file.extend(payload);
            file.resize(file.len().next_multiple_of(64), 0);
            heads.push(head);
        }
        (file, heads)
    }

    pub(crate) fn scan(file: &[u8], check_payloads: bool) -> Result<(SegmentScan, Vec<RecordHead>), SegmentError> {
        let mut heads = Vec::new();
        let read_at = |at: u64, buffer: &mut [u8]| {
            let rest = file.get(at as usize..).unwrap_or(&[]);
            buffer.copy_from_slice(rest.get(..buffer.len()).ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        };
        let scan = scan_segment(HEAD, file.len() as u64, read_at, check_payloads, |head| heads.push(head))?;
        assert_eq!(scan.records, heads.len() as u64);
        Ok((scan, heads))
    }

    #[test]
    fn all_records_of_a_good_segment_are_found_and_preallocated_zeros_are_not_damage() {
        let (mut file, heads) = segment(&[0, 1, 64, 200_000, 63]);
        let end = file.len() as u64;
        for zeros in [0, 1, 64, 100_000] {
            file.resize(end as usize + zeros, 0);
            let (found, seen) = scan(&file, true).unwrap();
            assert_eq!(seen, heads);
            assert_eq!((found.end, found.damaged, found.head_damaged), (end, vec![], false));
        }
    }

    #[test]
    fn a_torn_record_is_dropped_and_earlier_ones_are_kept() {
        let (file, heads) = segment(&[100, 3_000]);
        let last = heads[1].position as usize;
        let payload_end = last + 64 + 3_000;
        for cut in last..file.len() {
            let (found, seen) = scan(&file[..cut], true).unwrap();
            let whole = cut >= payload_end;
            assert_eq!(seen.len(), 1 + usize::from(whole), "cut to {cut}");
            assert_eq!(found.end, if whole { cut as u64 } else { last as u64 });
            assert_eq!(found.damaged.is_empty(), whole || cut == last);
            // Power failed while the payload was being written into preallocated space.
            let mut torn = file[..cut].to_vec();
            torn.resize(file.len() + 1_000, 0);
            assert_eq!(scan(&torn, true).unwrap().1.len(), 1 + usize::from(cut >= payload_end), "torn at {cut}");
        }
    }

    #[test]
    fn a_damaged_head_or_payload_costs_one_record() {
        let (good, heads) = segment(&[100, 150_000, 100, 100]);
        let places = |from: usize, to: usize| heads[from].position..heads[to].position;
        let mut file = good.clone();
        file[heads[1].position as usize + 20] ^= 1;
        let (found, seen) = scan(&file, true).unwrap();
        assert_eq!(seen, [heads[0], heads[2], heads[3]]);
        assert_eq!(found.damaged, [places(1, 2)]);
        let mut file = good.clone();
        file[heads[1].position as usize + 100_000] ^= 1;
        assert_eq!(scan(&file, true).unwrap().0.damaged, [places(1, 2)]);
        assert_eq!(scan(&file, false).unwrap().1, heads);
        file[heads[2].position as usize] ^= 1;
        let (found, seen) = scan(&file, true).unwrap();
        assert_eq!(seen, [heads[0], heads[3]]);
        assert_eq!(found.damaged, [places(1, 3)], "adjacent ranges are merged");
    }

    #[test]
    fn a_segment_inside_an_object_adds_no_records() {
        let (inner, _) = segment(&[10; 50]);
        let head = RecordHead {
            kind: RecordKind::Data,
            version: VersionId([1; 16]),
            offset: 0,
            payload_bytes: inner.len() as u32,
            sealed: false,
            crc64: crc64(&inner),
            position: 64,
        };
        let mut file = [&HEAD.to_bytes()[..], &head.to_bytes(HEAD.number), &inner].concat();
        assert_eq!(scan(&file, true).unwrap().1, [head]);
        file[64] ^= 1;
        assert_eq!(scan(&file, true).unwrap().1, []);
    }

    #[test]
    fn records_survive_a_damaged_segment_head() {
        let (mut file, heads) = segment(&[100, 100]);
        file[20] ^= 1;
        let (found, seen) = scan(&file, true).unwrap();
        assert!(found.head_damaged);
        assert_eq!(seen, heads);
        file[..64].fill(0);
        assert_eq!(scan(&file, true).unwrap().1, heads);
    }

    #[test]
    fn a_segment_without_a_good_head_or_record_is_empty_only_if_zeros_follow_its_head() {
        let (mut file, heads) = segment(&[100, 100]);
        file[20] ^= 1;
        heads.iter().for_each(|head| file[head.position as usize] ^= 1);
        let (found, seen) = scan(&file, true).unwrap();
        let all = 64..file.len() as u64;
        assert!(seen.is_empty() && found.head_damaged && found.damaged == [all], "{found:?}");
        file[64..].fill(0);
        assert!(matches!(scan(&file, true), Err(SegmentError::Checksum)));
        let read_at = |at: u64, buffer: &mut [u8]| {
            if at > 0 {
                return Err(io::Error::other("a bad place"));
            }
            buffer.copy_from_slice(&file[..buffer.len()]);
            Ok(())
        };
        let unread = scan_segment(HEAD, file.len() as u64, read_at, true, |_| ());
        assert!(matches!(unread, Err(SegmentError::Read { at: 64, .. })), "{unread:?}");
    }

    #[test]
    fn foreign_newer_and_mismatched_segments_are_rejected() {
        for file in [&[][..], &[0; 63], &[0; 10_000], &[b'x'; 64]] {
            assert!(matches!(scan(file, true), Err(SegmentError::NotASegment)));
        }
        let head = |head: SegmentHead| scan(&head.to_bytes(), true);
        assert!(matches!(head(SegmentHead { number: 8, ..HEAD }), Err(SegmentError::OtherNumber { found: 8, expected: 7 })));
        let archive = ArchiveId([11; 16]);
        assert!(matches!(head(SegmentHead { archive, ..HEAD }), Err(SegmentError::OtherArchive { found, .. }) if found == archive));
        let mut newer = HEAD.to_bytes();
        newer[8] = 2;
        assert!(matches!(scan(&newer, true), Err(SegmentError::Newer(2))));
    }

    #[test]
    fn unreadable_records_are_damaged_and_the_rest_is_found() {
        let (file, heads) = segment(&[100, 300_000, 100]);
        let bad = heads[1].position + 10;
        let mut seen = Vec::new();
        let read_at = |at: u64, buffer: &mut [u8]| {
            if (at..at + buffer.len() as u64).contains(&bad) {
                return Err(io::Error::other("a bad place"));
            }
            buffer.copy_from_slice(&file[at as usize..at as usize + buffer.len()]);
            Ok(())
        };
        let found = scan_segment(HEAD, file.len() as u64, read_at, true, |head| seen.push(head)).unwrap();
        assert_eq!(seen, [heads[0], heads[2]]);
        let lost = heads[1].position..heads[2].position;
        assert_eq!(found.damaged, [lost]);
        assert!(found.unreadable.is_some());
    }

    #[test]
    fn an_unreadable_range_costs_only_the_records_it_touches() {
        let (file, heads) = segment(&[100; 1_000]);
        for bad in [64..65, 4_096..8_192, 65_536..69_632, 4_000..150_000] {
            let read_at = |at: u64, buffer: &mut [u8]| {
                if at < bad.end && bad.start < at + buffer.len() as u64 {
                    return Err(io::Error::other("a bad place"));
                }
                buffer.copy_from_slice(&file[at as usize..at as usize + buffer.len()]);
                Ok(())
            };
            let mut seen = Vec::new();
            scan_segment(HEAD, file.len() as u64, read_at, true, |head| seen.push(head)).unwrap();
            let page = bad.start / PAGE_BYTES * PAGE_BYTES..bad.end.next_multiple_of(PAGE_BYTES);
            let beside = |head: &&RecordHead| head.position + head.padded_bytes() <= page.start || page.end <= head.position;
            let lost = heads.iter().filter(beside).filter(|head| !seen.contains(head)).count();
            assert_eq!(lost, 0, "records lost outside of the unreadable range {bad:?}");
            assert!(seen.len() < heads.len());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_changed_byte_costs_at_most_the_record_it_is_in(
            payloads in prop::collection::vec(0usize..2_000, 1..20), at: prop::sample::Index, change in 1u8..,
        ) {
            let (mut file, heads) = segment(&payloads);
            let at = at.index(file.len());
            file[at] ^= change;
            let (_, seen) = scan(&file, true).unwrap();
            for head in &heads {
                let hit = (head.position..head.position + head.padded_bytes()).contains(&(at as u64));
                prop_assert!(hit || seen.contains(head));
            }
            prop_assert!(seen.iter().all(|head| heads.contains(head)));
        }
    }
}
