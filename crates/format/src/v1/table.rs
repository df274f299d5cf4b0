//! The file table: lists the content of an information platter, one entry per shard and per
//! tombstone.
//!
//! Read and written as a stream, one entry at a time, because a platter may hold millions.
//!
//! ```text
//! FULGTABL | version | reserved | count | entry | entry | ...        entry = CBOR array of nine
//! 0          8         12         16      24
//! ```

use std::io::{self, Read, Write};

use fulgurite_domain::VersionId;

use crate::cbor::{Decoder, Encoder, Malformed, head_bytes};
use crate::v1::frame::STORED_FRAME_BYTES;
use crate::v1::record::RECORD_BYTES_MAX;
use crate::v1::{VERSION, u32_at, u64_at};
use fulgurite_codec::checksum::Crc64;

/// Bytes before the first entry.
pub const TABLE_HEAD_BYTES: u64 = 24;

const MAGIC: &[u8; 8] = b"FULGTABL";
const SEALED_FLAG: u64 = 1;
const TOMBSTONE_FLAG: u64 = 2;
/// The start of an entry: head of the array, and the version identifier with its head.
const ARRAY_AND_VERSION_BYTES: usize = 1 + 17;
/// An entry up to its record: its start, seven numbers, head of the record.
const PREFIX_BYTES_MAX: usize = ARRAY_AND_VERSION_BYTES + 7 * 9 + 9;
const BUFFER_BYTES: usize = 1 << 16;

/// One entry of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The version it belongs to.
    pub version: VersionId,
    /// Whether content and record are encrypted.
    pub sealed: bool,
    /// Whether the version was deleted.
    pub tombstone: bool,
    /// The part of the object.
    pub shard: Shard,
    /// Offset of the shard in the content of the platter.
    pub offset: u64,
    /// Length of the shard.
    pub stored_bytes: u64,
    /// Checksum of the shard's stored bytes.
    pub crc64: u64,
    /// The record, sealed if the entry is; empty in a tombstone.
    pub record: Vec<u8>,
}

/// A part of an object's stored bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// Index of the shard in its object.
    pub index: u32,
    /// Length of the object's stored bytes; 0 in a tombstone. (The number of shards is not stored,
    /// because the rest of a large object may go to sets that are not planned yet.)
    pub object_bytes: u64,
    /// Offset of this shard in the object's stored bytes, at a frame boundary.
    pub object_offset: u64,
}

impl Entry {
    /// A tombstone for `version`.
    #[must_use]
    pub fn tombstone(version: VersionId) -> Self {
        let shard = Shard { index: 0, object_bytes: 0, object_offset: 0 };
        Self { version, sealed: false, tombstone: true, shard, offset: 0, stored_bytes: 0, crc64: 0, record: Vec::new() }
    }

    /// Encoded length of the entry. It depends on the numbers: a larger `offset` takes more bytes.
    #[must_use]
    pub fn encoded_bytes(&self) -> u64 {
        let numbers = self.numbers().map(head_bytes).iter().sum::<u64>();
        ARRAY_AND_VERSION_BYTES as u64 + numbers + head_bytes(self.record.len() as u64) + self.record.len() as u64
    }

    /// Upper bound of the encoded length of an entry with a record of `record_bytes`, for packing
    /// before its numbers are known.
    #[must_use]
    pub fn encoded_bytes_max(record_bytes: usize) -> u64 {
        (PREFIX_BYTES_MAX + record_bytes) as u64
    }

    fn numbers(&self) -> [u64; 7] {
        let flags = if self.sealed { SEALED_FLAG } else { 0 } | if self.tombstone { TOMBSTONE_FLAG } else { 0 };
        let Shard { index, object_bytes, object_offset } = self.shard;
        [flags, index.into(), object_bytes, object_offset, self.offset, self.stored_bytes, self.crc64]
    }

    /// Appends the entry to `buffer`.
    fn encode(&self, buffer: &mut Vec<u8>) {
        let mut cbor = Encoder(buffer);
        cbor.array(9);
        cbor.bytes(&self.version.0);
        for number in self.numbers() {
            cbor.uint(number);
        }
        cbor.bytes(&self.record);
    }

    fn check(&self) -> Result<(), Malformed> {
        let Shard { index, object_bytes, object_offset } = self.shard;
        if self.tombstone {
            let rest = (index, object_bytes, object_offset, self.offset, self.stored_bytes, self.crc64);
            return match rest == (0, 0, 0, 0, 0, 0) && !self.sealed && self.record.is_empty() {
                true => Ok(()),
                false => Err("a tombstone that is not empty"),
            };
        }
        if !object_offset.is_multiple_of(STORED_FRAME_BYTES as u64) || (index == 0 && object_offset != 0) {
            return Err("a shard that does not start at a frame boundary of its object");
        }
        if self.offset.checked_add(self.stored_bytes).is_none() {
            return Err("a shard whose end overflows");
        }
        if object_offset.checked_add(self.stored_bytes).is_none_or(|end| end > object_bytes) {
            return Err("a shard that ends after its object");
        }
        if self.record.is_empty() {
            return Err("no record, though it is not a tombstone");
        }
        Ok(())
    }
}

/// Why a table can't be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// No table where one is expected.
    #[error("no file table at the offset given by the header: repair the platter from its set")]
    NotATable,
    /// Written by a later version of the format.
    #[error("the file table has format version {0}, this program reads up to {VERSION}: use a newer program")]
    Newer(u32),
    /// An entry violates the format.
    #[error("entry {entry} of the file table has {what}: the table is damaged, or was written by a faulty program")]
    Malformed {
        /// Index of the entry; the number of entries for bytes after the last one.
        entry: u64,
        /// What was found.
        what: &'static str,
    },
    /// A record exceeds the length that readers accept.
    #[error("entry {entry} of the file table has a record of {found} bytes: at most {RECORD_BYTES_MAX} are allowed")]
    RecordTooLong {
        /// Index of the entry.
        entry: u64,
        /// Length of the record.
        found: u64,
    },
    /// The table ends before its last entry.
    #[error("the file table ends within entry {0}: it is truncated or damaged")]
    Truncated(u64),
    /// Reading or writing failed.
    #[error("the file table could not be read or written")]
    Io(#[from] io::Error),
}

/// Length and checksum of a written table, for the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableEnd {
    /// Its length.
    pub bytes: u64,
    /// Its checksum.
    pub crc64: u64,
}

/// Writes a table, one entry at a time.
#[derive(Debug)]
pub struct TableWriter<W> {
    writer: W,
    buffer: Vec<u8>,
    crc: Crc64,
    bytes: u64,
    count: u64,
    pushed: u64,
}

impl<W: Write> TableWriter<W> {
    /// Starts a table of `count` entries.
    ///
    /// # Errors
    /// Write errors.
    pub fn new(writer: W, count: u64) -> io::Result<Self> {
        let mut table = Self { writer, buffer: Vec::new(), crc: Crc64::new(), bytes: 0, count, pushed: 0 };
        table.buffer.extend_from_slice(MAGIC);
        table.buffer.extend_from_slice(&VERSION.to_le_bytes());
        table.buffer.extend_from_slice(&[0; 4]);
        table.buffer.extend_from_slice(&count.to_le_bytes());
        table.flush()?;
        Ok(table)
    }

    /// Writes the next entry.
    ///
    /// # Errors
    /// [`TableError::Malformed`] or [`TableError::RecordTooLong`] for an entry that could not be
    /// read back, [`TableError::Io`] if writing fails.
    pub fn push(&mut self, entry: &Entry) -> Result<(), TableError> {
        entry.check().map_err(|what| TableError::Malformed { entry: self.pushed, what })?;
        if entry.record.len() > RECORD_BYTES_MAX {
            return Err(TableError::RecordTooLong { entry: self.pushed, found: entry.record.len() as u64 });
        }
        entry.encode(&mut self.buffer);
        self.flush()?;
        self.pushed += 1;
        Ok(())
    }

    /// Finishes the table.
    ///
    /// # Panics
    /// If the number of entries differs from the announced count, which has already been written.
    pub fn finish(self) -> TableEnd {
        assert_eq!(self.pushed, self.count, "the number of entries differs from the announced count");
        TableEnd { bytes: self.bytes, crc64: self.crc.value() }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.write_all(&self.buffer)?;
        self.crc.update(&self.buffer);
        self.bytes += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

/// Reads a table, one entry at a time. The iterator ends after the last entry or the first error.
#[derive(Debug)]
pub struct TableReader<R> {
    reader: R,
    /// Bytes of the table not read into `buffer` yet.
    unread: u64,
    buffer: Vec<u8>,
    /// Bytes of `buffer` already consumed.
    taken: usize,
    crc: Crc64,
    count: u64,
    next: u64,
    failed: bool,
}

impl<R: Read> TableReader<R> {
    /// Starts reading a table of `bytes` bytes. Never reads more than that from `reader`.
    ///
    /// # Errors
    /// [`TableError`] if no table that this program can read starts here.
    pub fn new(reader: R, bytes: u64) -> Result<Self, TableError> {
        let mut table = Self { reader, unread: bytes, buffer: Vec::new(), taken: 0, crc: Crc64::new(), count: 0, next: 0, failed: false };
        table.fill(TABLE_HEAD_BYTES as usize)?;
        let head = table.buffer.get(..TABLE_HEAD_BYTES as usize).ok_or(TableError::NotATable)?;
        if !head.starts_with(MAGIC) {
            return Err(TableError::NotATable);
        }
        let version = u32_at(head, 8);
        if version > VERSION {
            return Err(TableError::Newer(version));
        }
        if version != VERSION {
            return Err(TableError::NotATable);
        }
        table.count = u64_at(head, 16);
        table.taken = TABLE_HEAD_BYTES as usize;
        Ok(table)
    }

    /// Number of entries according to the table.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Reads the remaining entries and returns the checksum of the whole table, to be compared with
    /// the header's.
    ///
    /// # Errors
    /// [`TableError`] of an entry, or if bytes follow the last one.
    pub fn finish(mut self) -> Result<u64, TableError> {
        for entry in self.by_ref() {
            entry?;
        }
        if self.failed {
            return Err(TableError::Truncated(self.next));
        }
        if self.taken < self.buffer.len() || self.unread > 0 {
            return Err(TableError::Malformed { entry: self.count, what: "bytes after the last entry" });
        }
        Ok(self.crc.value())
    }

    /// Reads until `wanted` bytes are in the buffer, or the table ends.
    fn fill(&mut self, wanted: usize) -> Result<(), TableError> {
        if self.buffer.len() - self.taken >= wanted || self.unread == 0 {
            return Ok(());
        }
        self.buffer.drain(..self.taken);
        self.taken = 0;
        let old = self.buffer.len();
        let more = (BUFFER_BYTES.max(wanted) - old).min(usize::try_from(self.unread).unwrap_or(usize::MAX));
        self.buffer.resize(old + more, 0);
        if let Err(error) = self.reader.read_exact(&mut self.buffer[old..]) {
            return Err(match error.kind() {
                io::ErrorKind::UnexpectedEof => TableError::Truncated(self.next),
                _ => TableError::Io(error),
            });
        }
        self.unread -= more as u64;
        self.crc.update(&self.buffer[old..]);
        Ok(())
    }

    fn read_entry(&mut self) -> Result<Entry, TableError> {
        let number = self.next;
        self.fill(PREFIX_BYTES_MAX)?;
        let ready = &self.buffer[self.taken..];
        let mut cbor = Decoder::new(ready);
        let (mut entry, record_bytes) = decode_prefix(&mut cbor).map_err(|what| TableError::Malformed { entry: number, what })?;
        let prefix = ready.len() - cbor.rest().len();
        let length = usize::try_from(record_bytes).ok().filter(|&length| length <= RECORD_BYTES_MAX);
        let length = length.ok_or(TableError::RecordTooLong { entry: number, found: record_bytes })?;
        self.taken += prefix;
        self.fill(length)?;
        let record = self.buffer[self.taken..].get(..length).ok_or(TableError::Truncated(number))?;
        entry.record = record.to_vec();
        self.taken += length;
        entry.check().map_err(|what| TableError::Malformed { entry: number, what })?;
        Ok(entry)
    }
}

impl<R: Read> Iterator for TableReader<R> {
    type Item = Result<Entry, TableError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed || self.next == self.count {
            return None;
        }
        let entry = self.read_entry();
        match entry {
            Ok(_) => self.next += 1,
            Err(_) => self.failed = true,
        }
        Some(entry)
    }
}

/// Decodes an entry without its record, and the record's length.
fn decode_prefix(cbor: &mut Decoder<'_>) -> Result<(Entry, u64), Malformed> {
    cbor.array_of(9)?;
    let version = VersionId(cbor.fixed()?);
    let flags = cbor.uint()?;
    if flags & !(SEALED_FLAG | TOMBSTONE_FLAG) != 0 {
        return Err("unknown flags");
    }
    let shard = Shard { index: cbor.number()?, object_bytes: cbor.uint()?, object_offset: cbor.uint()? };
    let entry = Entry {
        version,
        sealed: flags & SEALED_FLAG != 0,
        tombstone: flags & TOMBSTONE_FLAG != 0,
        shard,
        offset: cbor.uint()?,
        stored_bytes: cbor.uint()?,
        crc64: cbor.uint()?,
        record: Vec::new(),
    };
    Ok((entry, cbor.bytes_head()?))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use fulgurite_codec::checksum::crc64;
    use proptest::prelude::*;

    pub(crate) fn written(entries: &[Entry]) -> (Vec<u8>, TableEnd) {
        let mut bytes = Vec::new();
        let mut table = TableWriter::new(&mut bytes, entries.len() as u64).unwrap();
        for entry in entries {
            table.push(entry).unwrap();
        }
        let end = table.finish();
        (bytes, end)
    }

    fn read(bytes: &[u8]) -> Result<(Vec<Entry>, u64), TableError> {
        let mut table = TableReader::new(bytes, bytes.len() as u64)?;
        let entries = table.by_ref().collect::<Result<_, _>>()?;
        Ok((entries, table.finish()?))
    }

    pub(crate) fn sample() -> Vec<Entry> {
        let entry = |n: u8, record: usize| Entry {
            version: VersionId([n; 16]),
            sealed: n.is_multiple_of(2),
            tombstone: false,
            shard: Shard { index: 1, object_bytes: 1 << 24, object_offset: 65_552 * u64::from(n) },
            offset: 1_000 * u64::from(n),
            stored_bytes: 77,
            crc64: u64::MAX / u64::from(n),
            record: vec![n; record],
        };
        vec![
            entry(1, 1),
            entry(2, 100),
            Entry::tombstone(VersionId([3; 16])),
            entry(4, 70_000),
            Entry { shard: Shard { index: 0, object_bytes: 77, object_offset: 0 }, ..entry(5, 300) },
        ]
    }

    fn entries() -> impl Strategy<Value = Entry> {
        let record = prop::collection::vec(any::<u8>(), 1..400);
        let numbers = (any::<u64>(), any::<u64>(), any::<u64>(), 0u32..64);
        let entry = (any::<[u8; 16]>(), any::<bool>(), any::<u32>(), any::<u32>(), numbers, record).prop_map(
            |(version, sealed, index, more, (offset, stored, crc64, shift), record)| {
                let object_offset = if index == 0 { 0 } else { (offset >> shift >> 20) * 65_552 };
                let stored_bytes = stored >> shift >> 1;
                let object_bytes = (object_offset + stored_bytes).saturating_add(more.into());
                Entry {
                    version: VersionId(version),
                    sealed,
                    tombstone: false,
                    shard: Shard { index, object_bytes, object_offset },
                    offset: offset >> shift >> 1,
                    stored_bytes,
                    crc64,
                    record,
                }
            },
        );
        prop_oneof![4 => entry, 1 => any::<[u8; 16]>().prop_map(|version| Entry::tombstone(VersionId(version)))]
    }

    #[test]
    fn the_table_is_laid_out_as_specified() {
        let (bytes, end) = written(&[Entry::tombstone(VersionId([7; 16]))]);
        let mut expected = b"FULGTABL\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x89\x50".to_vec();
        expected.extend([7; 16]);
        expected.extend(b"\x02\0\0\0\0\0\0\x40");
        assert_eq!(bytes, expected);
        assert_eq!(end, TableEnd { bytes: bytes.len() as u64, crc64: crc64(&bytes) });
    }

    #[test]
    fn an_empty_table_reads_back() {
        let (bytes, end) = written(&[]);
        assert_eq!(read(&bytes).unwrap(), (vec![], end.crc64));
    }

    #[test]
    fn the_reader_never_reads_past_the_table() {
        let (mut bytes, end) = written(&sample());
        bytes.resize(bytes.len() + 100, 0);
        let mut rest = &bytes[..];
        let table = TableReader::new(&mut rest, end.bytes).unwrap();
        assert_eq!(table.finish().unwrap(), end.crc64);
        assert_eq!(rest.len(), 100);
        assert!(matches!(read(&bytes), Err(TableError::Malformed { entry: 5, what: "bytes after the last entry" })));
    }

    #[test]
    fn a_truncated_table_is_rejected() {
        let (bytes, end) = written(&sample()[..3]);
        for cut in 0..bytes.len() {
            assert!(read(&bytes[..cut]).is_err(), "claimed length of {cut} bytes");
            let whole = TableReader::new(&bytes[..cut], end.bytes).and_then(TableReader::finish);
            assert!(matches!(whole, Err(TableError::Truncated { .. })), "cut to {cut} bytes");
        }
    }

    #[test]
    fn a_newer_table_is_reported_as_such() {
        let (mut bytes, _) = written(&sample());
        bytes[8] = 2;
        assert!(matches!(read(&bytes), Err(TableError::Newer(2))));
    }

    #[test]
    fn an_overlong_record_is_neither_written_nor_read() {
        let entry = Entry { record: vec![0; RECORD_BYTES_MAX + 1], ..sample().remove(0) };
        let mut bytes = Vec::new();
        let mut table = TableWriter::new(&mut bytes, 1).unwrap();
        assert!(matches!(table.push(&entry), Err(TableError::RecordTooLong { entry: 0, .. })));
        entry.encode(&mut bytes);
        assert!(matches!(read(&bytes), Err(TableError::RecordTooLong { entry: 0, .. })));
        let longest = Entry { record: vec![0; RECORD_BYTES_MAX], ..entry };
        assert_eq!(read(&written(std::slice::from_ref(&longest)).0).unwrap().0, [longest]);
    }

    #[test]
    fn invalid_entries_are_neither_written_nor_read() {
        let good = sample().remove(1);
        let shard = good.shard;
        for bad in [
            Entry { shard: Shard { object_bytes: 76, ..shard }, ..good.clone() },
            Entry { shard: Shard { object_offset: 65_536, ..shard }, ..good.clone() },
            Entry { shard: Shard { index: 0, ..shard }, ..good.clone() },
            Entry { offset: u64::MAX, ..good.clone() },
            Entry { record: Vec::new(), ..good.clone() },
            Entry { tombstone: true, ..good.clone() },
            Entry { offset: 1, ..Entry::tombstone(good.version) },
        ] {
            let mut bytes = Vec::new();
            let mut table = TableWriter::new(&mut bytes, 1).unwrap();
            assert!(matches!(table.push(&bad), Err(TableError::Malformed { entry: 0, .. })), "{bad:?}");
            bad.encode(&mut bytes);
            assert!(matches!(read(&bytes), Err(TableError::Malformed { entry: 0, .. })), "{bad:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn entries_read_back_in_order_and_have_the_predicted_length(entries in prop::collection::vec(entries(), 0..30)) {
            let (bytes, end) = written(&entries);
            prop_assert_eq!(TABLE_HEAD_BYTES + entries.iter().map(Entry::encoded_bytes).sum::<u64>(), end.bytes);
            for entry in &entries {
                prop_assert!(entry.encoded_bytes() <= Entry::encoded_bytes_max(entry.record.len()));
            }
            let (again, crc) = read(&bytes).unwrap();
            prop_assert_eq!(crc, end.crc64);
            prop_assert_eq!(&written(&again).0, &bytes);
            prop_assert_eq!(again, entries);
        }

        #[test]
        fn any_changed_byte_is_detected(at: prop::sample::Index, change in 1u8..) {
            let (mut bytes, end) = written(&sample());
            let at = at.index(bytes.len());
            bytes[at] ^= change;
            if let Ok((_, crc)) = read(&bytes) {
                prop_assert_ne!(crc, end.crc64);
            }
        }
    }
}
