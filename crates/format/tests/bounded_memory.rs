//! Reading a file takes little memory, however long the file is and whatever lengths it claims
//! inside.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::{self, Read};

use fulgurite_domain::{ArchiveId, VersionId};
use fulgurite_format::{
    Entry, FindHeaderError, KeyExportError, RECORD_BYTES_MAX, RecordHead, RecordKind, SegmentHead, SegmentScan, Shard, TableError,
    TableReader, TableWriter, find_header, read_key_export, scan_segment,
};

struct Counting;

thread_local! {
    static HELD: Cell<usize> = const { Cell::new(0) };
    static MOST: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is forwarded unchanged to the system's allocator; the cells have no destructor
// and allocate nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.set(HELD.get().wrapping_add(layout.size()));
        MOST.set(MOST.get().max(HELD.get()));
        // SAFETY: the caller upholds the system allocator's contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.set(HELD.get().saturating_sub(layout.size()));
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most bytes held at once while `work` runs.
fn peak(work: impl FnOnce()) -> usize {
    HELD.set(0);
    MOST.set(0);
    work();
    MOST.get()
}

const GIB: u64 = 1 << 30;

#[test]
fn searching_a_gibibyte_for_a_header_takes_two_mebibytes() {
    let most = peak(|| {
        let found = find_header(GIB, |_, buffer| {
            buffer.fill(b'F');
            Ok(())
        });
        assert!(matches!(found, Err(FindHeaderError::NotAPlatter { .. })));
    });
    assert!(most < 2 << 20, "{most} bytes");
}

#[test]
fn a_table_with_a_record_of_any_claimed_length_takes_less_than_three_records() {
    let record = vec![1; RECORD_BYTES_MAX];
    let entry = Entry {
        version: VersionId([1; 16]),
        sealed: false,
        tombstone: false,
        shard: Shard { index: 0, object_bytes: 1, object_offset: 0 },
        offset: 0,
        stored_bytes: 1,
        crc64: 0,
        record,
    };
    let mut bytes = Vec::new();
    let mut table = TableWriter::new(&mut bytes, u64::MAX).unwrap();
    table.push(&entry).unwrap();
    let most = peak(|| {
        // The same maximal entry, repeated.
        let head = &bytes[..24];
        let mut reader = head.chain(Endless { piece: &bytes[24..], at: 0 });
        let table = TableReader::new(&mut reader, 50 << 20).unwrap();
        assert!(matches!(table.finish(), Err(TableError::Malformed { .. } | TableError::Truncated { .. })));
    });
    assert!(most < 3 * RECORD_BYTES_MAX + (1 << 18), "{most} bytes");
    let mut claimed = bytes[..24 + 18 + 7].to_vec();
    claimed.extend([0x5b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
    let most = peak(|| {
        let table = TableReader::new(&claimed[..], claimed.len() as u64).unwrap();
        assert!(matches!(table.finish(), Err(TableError::RecordTooLong { found: u64::MAX, .. })));
    });
    assert!(most < 1 << 18, "{most} bytes");
}

struct Endless<'a> {
    piece: &'a [u8],
    at: usize,
}

impl Read for Endless<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = &self.piece[self.at..];
        let bytes = rest.len().min(buffer.len());
        buffer[..bytes].copy_from_slice(&rest[..bytes]);
        self.at = (self.at + bytes) % self.piece.len();
        Ok(bytes)
    }
}

#[test]
fn a_segment_with_a_payload_of_half_a_gibibyte_takes_a_mebibyte() {
    let expected = SegmentHead { archive: ArchiveId([1; 16]), number: 2 };
    let record = RecordHead {
        kind: RecordKind::Data,
        version: VersionId([3; 16]),
        offset: 0,
        payload_bytes: 1 << 29,
        sealed: false,
        crc64: 4,
        position: 64,
    };
    let front = [expected.to_bytes(), record.to_bytes(2)].concat();
    let most = peak(|| {
        let read_at = |at: u64, buffer: &mut [u8]| {
            for (i, byte) in buffer.iter_mut().enumerate().take(if at < 128 { usize::MAX } else { 1 }) {
                *byte = *front.get(at as usize + i).unwrap_or(&7);
            }
            Ok(())
        };
        let scan = scan_segment(expected, GIB, read_at, true, |_| panic!("no record is good"));
        assert!(matches!(scan, Ok(SegmentScan { records: 0, .. })));
    });
    assert!(most < 1 << 20, "{most} bytes");
}

#[test]
fn a_key_export_of_one_endless_line_takes_a_few_kibibytes() {
    let most = peak(|| {
        let text = io::repeat(b'f');
        let read = read_key_export(text, |_, _| Ok::<_, KeyExportError>(()));
        assert!(matches!(read, Err(KeyExportError::NotAnExport)));
    });
    assert!(most < 64 << 10, "{most} bytes");
}
