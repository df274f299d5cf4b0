//! The file table: what lies on an information platter, one entry for each shard and each tombstone.
//!
//! Written and read as a stream, an entry at a time, since a platter may hold millions.
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
const SEALED: u64 = 1;
const TOMBSTONE: u64 = 2;
/// An entry up to its record: array, identifier, seven numbers, head of the record.
const PREFIX_BYTES_MAX: usize = 1 + 17 + 7 * 9 + 9;
const BUFFER_BYTES: usize = 1 << 16;

/// One entry of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The version it speaks of.
    pub version: VersionId,
    /// Whether content and record are encrypted.
    pub sealed: bool,
    /// Whether it says that the version was deleted.
    pub tombstone: bool,
    /// Which part of the object this is.
    pub shard: Shard,
    /// Where the shard starts in the content of the platter.
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
    /// Counts the shards of the object.
    pub index: u32,
    /// Length of the object's stored bytes, of which this is a part; 0 in a tombstone. (Not how many shards there are: the rest of a large object
    /// may go onto sets that nobody has planned yet.)
    pub object_bytes: u64,
    /// Where this one starts in the stored bytes of the object, at a frame.
    pub object_offset: u64,
}

impl Entry {
    /// The entry that says that `version` was deleted.
    #[must_use]
    pub fn tombstone(version: VersionId) -> Self {
        let shard = Shard { index: 0, object_bytes: 0, object_offset: 0 };
        Self { version, sealed: false, tombstone: true, shard, offset: 0, stored_bytes: 0, crc64: 0, record: Vec::new() }
    }

    /// Length of the entry in the table, which depends on its numbers: an `offset` further back takes more bytes.
    #[must_use]
    pub fn encoded_bytes(&self) -> u64 {
        let numbers = self.numbers().map(head_bytes).iter().sum::<u64>();
        18 + numbers + head_bytes(self.record.len() as u64) + self.record.len() as u64
    }

    /// Length that no entry with a record of `record_bytes` exceeds, whatever its numbers: for packing, before they are known.
    #[must_use]
    pub fn encoded_bytes_max(record_bytes: usize) -> u64 {
        (PREFIX_BYTES_MAX + record_bytes) as u64
    }

    fn numbers(&self) -> [u64; 7] {
        let flags = if self.sealed { SEALED } else { 0 } | if self.tombstone { TOMBSTONE } else { 0 };
        let Shard { index, object_bytes, object_offset } = self.shard;
        [flags, index.into(), object_bytes, object_offset, self.offset, self.stored_bytes, self.crc64]
    }

    /// Writes the entry at the end of `buffer`.
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
                false => Err("a tombstone with something in it"),
            };
        }
        if !object_offset.is_multiple_of(STORED_FRAME_BYTES as u64) || (index == 0 && object_offset != 0) {
            return Err("a shard that does not start at a frame of its object");
        }
        if self.offset.checked_add(self.stored_bytes).is_none() {
            return Err("a shard that ends beyond all bounds");
        }
        if object_offset.checked_add(self.stored_bytes).is_none_or(|end| end > object_bytes) {
            return Err("a shard that ends behind its object");
        }
        if self.record.is_empty() {
            return Err("no record in an entry that is no tombstone");
        }
        Ok(())
    }
}

/// A table that can't be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// There is no table here.
    #[error("there is no file table at the place that the header gives: repair the platter from its set")]
    NotATable,
    /// Written by a later version of the format.
    #[error("the file table has format version {found}, this program reads up to {VERSION}: use a newer program")]
    Newer {
        /// The version found.
        found: u32,
    },
    /// The bytes of an entry don't follow the format.
    #[error("entry {entry} of the file table has {what}: the table is damaged, or was written by a program with a fault")]
    Malformed {
        /// Counts entries; equal to the number of entries for what follows the last one.
        entry: u64,
        /// What was found.
        what: &'static str,
    },
    /// A record is longer than any reader takes.
    #[error("entry {entry} of the file table has a record of {found} bytes: at most {RECORD_BYTES_MAX} are allowed")]
    RecordTooLong {
        /// Counts entries.
        entry: u64,
        /// Length of the record.
        found: u64,
    },
    /// The table ends before its last entry.
    #[error("the file table ends in entry {entry}: it is cut short or damaged")]
    Truncated {
        /// Counts entries.
        entry: u64,
    },
    /// Reading or writing failed.
    #[error("the file table could not be read or written")]
    Io(#[from] io::Error),
}

/// What the header says of a table that was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableEnd {
    /// Its length.
    pub bytes: u64,
    /// Its checksum.
    pub crc64: u64,
}

/// Writes a table, an entry at a time.
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
    /// Begins a table of `count` entries.
    ///
    /// # Errors
    /// What writing gives.
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
    /// [`TableError::Malformed`] or [`TableError::RecordTooLong`] for an entry that would not be read back, [`TableError::Io`] when writing fails.
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

    /// Ends the table.
    ///
    /// # Panics
    /// If there were more or fewer entries than announced, since the count stands at the front.
    pub fn finish(self) -> TableEnd {
        assert_eq!(self.pushed, self.count, "entries pushed, entries announced");
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

/// Reads a table, an entry at a time. As an iterator it ends after the last entry or the first error.
#[derive(Debug)]
pub struct TableReader<R> {
    reader: R,
    /// Bytes of the table that have not been read into `buffer`.
    unread: u64,
    buffer: Vec<u8>,
    /// What has been taken out of `buffer`.
    taken: usize,
    crc: Crc64,
    count: u64,
    next: u64,
    failed: bool,
}

impl<R: Read> TableReader<R> {
    /// Begins to read a table of `bytes` bytes. No more than those are read from `reader`.
    ///
    /// # Errors
    /// [`TableError`] if no table that this program reads begins here.
    pub fn new(reader: R, bytes: u64) -> Result<Self, TableError> {
        let mut table = Self { reader, unread: bytes, buffer: Vec::new(), taken: 0, crc: Crc64::new(), count: 0, next: 0, failed: false };
        table.fill(TABLE_HEAD_BYTES as usize)?;
        let head = table.buffer.get(..TABLE_HEAD_BYTES as usize).ok_or(TableError::NotATable)?;
        if !head.starts_with(MAGIC) {
            return Err(TableError::NotATable);
        }
        let version = u32_at(head, 8);
        if version > VERSION {
            return Err(TableError::Newer { found: version });
        }
        if version != VERSION {
            return Err(TableError::NotATable);
        }
        table.count = u64_at(head, 16);
        table.taken = TABLE_HEAD_BYTES as usize;
        Ok(table)
    }

    /// Number of entries that the table claims to have.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Reads what has not been read yet, and returns the checksum of the whole table, to be compared with the header's.
    ///
    /// # Errors
    /// [`TableError`] as for the entries; also if anything follows the last entry.
    pub fn finish(mut self) -> Result<u64, TableError> {
        for entry in self.by_ref() {
            entry?;
        }
        if self.failed {
            return Err(TableError::Truncated { entry: self.next });
        }
        if self.taken < self.buffer.len() || self.unread > 0 {
            return Err(TableError::Malformed { entry: self.count, what: "bytes behind the last entry" });
        }
        Ok(self.crc.value())
    }

    /// Reads on until `wanted` bytes lie ready in the buffer, or the table ends.
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
                io::ErrorKind::UnexpectedEof => TableError::Truncated { entry: self.next },
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
        let record = self.buffer[self.taken..].get(..length).ok_or(TableError::Truncated { entry: number })?;
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

/// An entry without its record, and the length of that.
fn decode_prefix(cbor: &mut Decoder<'_>) -> Result<(Entry, u64), Malformed> {
    cbor.array_of(9)?;
    let version = VersionId(cbor.fixed()?);
    let flags = cbor.uint()?;
    if flags & !(SEALED | TOMBSTONE) != 0 {
        return Err("flags that are not known");
    }
    let shard = Shard { index: cbor.number()?, object_bytes: cbor.uint()?, object_offset: cbor.uint()? };
    let entry = Entry {
        version,
        sealed: flags & SEALED != 0,
        tombstone: flags & TOMBSTONE != 0,
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
    fn an_empty_table_is_one() {
        let (bytes, end) = written(&[]);
        assert_eq!(read(&bytes).unwrap(), (vec![], end.crc64));
    }

    #[test]
    fn the_reader_leaves_what_follows_the_table_alone() {
        let (mut bytes, end) = written(&sample());
        bytes.resize(bytes.len() + 100, 0);
        let mut rest = &bytes[..];
        let table = TableReader::new(&mut rest, end.bytes).unwrap();
        assert_eq!(table.finish().unwrap(), end.crc64);
        assert_eq!(rest.len(), 100);
        assert!(matches!(read(&bytes), Err(TableError::Malformed { entry: 5, what: "bytes behind the last entry" })));
    }

    #[test]
    fn a_table_cut_anywhere_is_refused() {
        let (bytes, end) = written(&sample()[..3]);
        for cut in 0..bytes.len() {
            assert!(read(&bytes[..cut]).is_err(), "told to be {cut} bytes");
            let whole = TableReader::new(&bytes[..cut], end.bytes).and_then(TableReader::finish);
            assert!(matches!(whole, Err(TableError::Truncated { .. })), "cut to {cut} bytes");
        }
    }

    #[test]
    fn a_newer_table_is_told_as_such() {
        let (mut bytes, _) = written(&sample());
        bytes[8] = 2;
        assert!(matches!(read(&bytes), Err(TableError::Newer { found: 2 })));
    }

    #[test]
    fn a_record_longer_than_any_is_neither_written_nor_read() {
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
    fn entries_that_make_no_sense_are_neither_written_nor_read() {
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
        fn entries_read_back_in_order_and_have_the_length_foretold(entries in prop::collection::vec(entries(), 0..30)) {
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
        fn no_changed_byte_goes_unnoticed(at: prop::sample::Index, change in 1u8..) {
            let (mut bytes, end) = written(&sample());
            let at = at.index(bytes.len());
            bytes[at] ^= change;
            if let Ok((_, crc)) = read(&bytes) {
                prop_assert_ne!(crc, end.crc64);
            }
        }
    }
}
