//! The record: what the archive knows of one version of one object, as it stands in table entries and segments.
//!
//! A CBOR map. Keys are written in order of length, then of the alphabet; keys that are not known are passed over.

use fulgurite_domain::{Digest, Kind, Modified, ObjectName, ObjectRecord};

use crate::cbor::{Decoder, Encoder, Malformed};

/// The longest record that a reader takes, sealed or not. Names are the only part that varies much.
pub const RECORD_BYTES_MAX: usize = 1 << 20;

/// Bytes that are no record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The bytes don't follow the format.
    #[error("the record of an object has {what}: it is damaged, or was written by a program with a fault")]
    Malformed {
        /// What was found.
        what: &'static str,
    },
}

impl From<Malformed> for RecordError {
    fn from(what: Malformed) -> Self {
        Self::Malformed { what }
    }
}

/// The bytes of a record.
///
/// # Panics
/// If the record could not be read back: an empty name, version 0, a mode above `0o7777`, nanoseconds of a second or more, or a directory
/// with content.
#[must_use]
pub fn encode_record(record: &ObjectRecord) -> Vec<u8> {
    if let Err(what) = check(record) {
        panic!("a record to be written has {what}: {record:?}");
    }
    let mut bytes = Vec::with_capacity(128 + record.name.0.len());
    let mut cbor = Encoder(&mut bytes);
    cbor.map(6 + u64::from(record.mode.is_some()) + u64::from(record.modified.is_some()));
    cbor.text("kind");
    cbor.uint(match record.kind {
        Kind::File => 0,
        Kind::SymbolicLink => 1,
        Kind::Directory => 2,
    });
    if let Some(mode) = record.mode {
        cbor.text("mode");
        cbor.uint(mode.into());
    }
    cbor.text("name");
    cbor.bytes(&record.name.0);
    cbor.text("size");
    cbor.uint(record.size);
    if let Some(modified) = record.modified {
        cbor.text("mtime");
        cbor.array(2);
        cbor.int(modified.seconds);
        cbor.uint(modified.nanoseconds.into());
    }
    cbor.text("sha256");
    cbor.bytes(&record.sha256.0);
    cbor.text("created");
    cbor.uint(record.created_ms);
    cbor.text("version");
    cbor.uint(record.version);
    bytes
}

/// Reads a record that is not sealed, or has been opened.
///
/// # Errors
/// [`RecordError::Malformed`] says what is wrong.
pub fn decode_record(bytes: &[u8]) -> Result<ObjectRecord, RecordError> {
    let (mut kind, mut mode, mut name, mut size) = (None, None, None, None);
    let (mut modified, mut sha256, mut created_ms, mut version) = (None, None, None, None);
    let mut cbor = Decoder::new(bytes);
    cbor.map(|key, value| {
        match key {
            "kind" => {
                kind = Some(match value.uint()? {
                    0 => Kind::File,
                    1 => Kind::SymbolicLink,
                    2 => Kind::Directory,
                    _ => return Err("a kind that is not known"),
                });
            }
            "mode" => mode = Some(value.number()?),
            "name" => name = Some(ObjectName(value.bytes()?.to_vec())),
            "size" => size = Some(value.uint()?),
            "mtime" => {
                value.array_of(2)?;
                modified = Some(Modified { seconds: value.int()?, nanoseconds: value.number()? });
            }
            "sha256" => sha256 = Some(Digest(value.fixed()?)),
            "created" => created_ms = Some(value.uint()?),
            "version" => version = Some(value.uint()?),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    cbor.end()?;
    let record = ObjectRecord {
        name: name.ok_or("no name")?,
        version: version.ok_or("no version")?,
        kind: kind.ok_or("no kind")?,
        size: size.ok_or("no size")?,
        sha256: sha256.ok_or("no digest")?,
        modified,
        mode,
        created_ms: created_ms.ok_or("no time of creation")?,
    };
    check(&record)?;
    Ok(record)
}

fn check(record: &ObjectRecord) -> Result<(), Malformed> {
    if record.name.0.is_empty() {
        return Err("an empty name");
    }
    if record.version == 0 {
        return Err("version number 0");
    }
    if record.mode.is_some_and(|mode| mode > 0o7777) {
        return Err("a mode with more than permission bits");
    }
    if record.modified.is_some_and(|modified| modified.nanoseconds >= 1_000_000_000) {
        return Err("nanoseconds of a second or more");
    }
    if record.kind == Kind::Directory && record.size != 0 {
        return Err("a directory with content");
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn sample() -> ObjectRecord {
        ObjectRecord {
            name: ObjectName(b"photos/1969/moon.tif".to_vec()),
            version: 3,
            kind: Kind::File,
            size: 100_000,
            sha256: Digest([0x5a; 32]),
            modified: Some(Modified { seconds: -14_182_940, nanoseconds: 999_999_999 }),
            mode: Some(0o644),
            created_ms: 1_700_000_000_000,
        }
    }

    fn records() -> impl Strategy<Value = ObjectRecord> {
        let kind = prop_oneof![Just(Kind::File), Just(Kind::SymbolicLink), Just(Kind::Directory)];
        let name = prop::collection::vec(any::<u8>(), 1..300);
        let modified = prop::option::of((any::<i64>(), 0u32..1_000_000_000));
        let numbers = (any::<u64>(), 1u64.., any::<u64>(), 0u32..64);
        (kind, name, modified, prop::option::of(0u32..=0o7777), any::<[u8; 32]>(), numbers).prop_map(
            |(kind, name, modified, mode, sha256, (size, version, created, shift))| ObjectRecord {
                name: ObjectName(name),
                version: (version >> shift).max(1),
                kind,
                size: if kind == Kind::Directory { 0 } else { size >> shift },
                sha256: Digest(sha256),
                modified: modified.map(|(seconds, nanoseconds)| Modified { seconds, nanoseconds }),
                mode,
                created_ms: created >> shift,
            },
        )
    }

    #[test]
    fn the_record_is_laid_out_as_specified() {
        let record = ObjectRecord { name: ObjectName(b"a".to_vec()), size: 1, version: 1, created_ms: 2, ..sample() };
        let mut expected = b"\xa8\x64kind\x00\x64mode\x19\x01\xa4\x64name\x41a\x64size\x01\x65mtime\x82".to_vec();
        expected.extend(b"\x3a\x00\xd8\x6a\x1b\x1a\x3b\x9a\xc9\xff\x66sha256\x58\x20");
        expected.extend([0x5a; 32]);
        expected.extend(b"\x67created\x02\x67version\x01");
        assert_eq!(encode_record(&record), expected);
        let bare = encode_record(&ObjectRecord { modified: None, mode: None, ..record });
        assert!(bare.starts_with(b"\xa6\x64kind\x00\x64name\x41a\x64size\x01\x66sha256"));
    }

    #[test]
    fn keys_of_a_later_writer_are_passed_over() {
        let mut bytes = encode_record(&sample());
        bytes[0] += 1;
        bytes.extend(b"\x69xattributes"[..10].iter());
        bytes.extend(b"\x82\x01\xa1\x61k\xf6");
        assert_eq!(decode_record(&bytes), Ok(sample()));
    }

    #[test]
    fn records_that_make_no_sense_are_refused() {
        let good = encode_record(&sample());
        let swap = |from: &[u8], to: &[u8]| {
            let at = good.windows(from.len()).position(|window| window == from).unwrap();
            [&good[..at], to, &good[at + from.len()..]].concat()
        };
        for (bad, what) in [
            (swap(b"name\x54photos/1969/moon.tif", b"name\x40"), "an empty name"),
            (swap(b"version\x03", b"version\x00"), "version number 0"),
            (swap(b"kind\x00", b"kind\x03"), "a kind that is not known"),
            (swap(b"kind\x00", b"kind\x02"), "a directory with content"),
            (swap(b"mode\x19\x01\xa4", b"mode\x19\x10\x00"), "a mode with more than permission bits"),
            (swap(b"\x1a\x3b\x9a\xc9\xff", b"\x1a\x3b\x9a\xca\x00"), "nanoseconds of a second or more"),
            (swap(b"sha256\x58\x20\x5a", b"sha256\x58\x1f"), "a byte string of the wrong length"),
            (swap(b"version\x03", b"version\x18\x03"), "a number that is longer than it needs to be"),
            (swap(b"\x64mode\x19\x01\xa4", b"\x64moon\x19\x01\xa4")[..].to_vec(), ""),
            (
                swap(b"\x64kind\x00\x64mode\x19\x01\xa4", b"\x64mode\x19\x01\xa4\x64kind\x00"),
                "map keys that are out of order or there twice",
            ),
            ([&good[..], b"\x00"].concat(), "bytes behind the last item"),
        ] {
            match what {
                // A key that is not known, in the place of one that may be absent.
                "" => assert_eq!(decode_record(&bad), Ok(ObjectRecord { mode: None, ..sample() })),
                what => assert_eq!(decode_record(&bad), Err(RecordError::Malformed { what })),
            }
        }
    }

    #[test]
    #[should_panic(expected = "an empty name")]
    fn a_record_that_would_not_be_read_back_is_not_written() {
        let _ = encode_record(&ObjectRecord { name: ObjectName(Vec::new()), ..sample() });
    }

    proptest! {
        #[test]
        fn every_record_reads_back_and_nothing_shorter_does(record in records(), cut: prop::sample::Index) {
            let bytes = encode_record(&record);
            prop_assert!(decode_record(&bytes[..cut.index(bytes.len())]).is_err());
            prop_assert_eq!(decode_record(&bytes), Ok(record));
        }

        #[test]
        fn a_changed_record_that_still_reads_has_one_encoding(at: prop::sample::Index, change in 1u8..) {
            let mut bytes = encode_record(&sample());
            let at = at.index(bytes.len());
            bytes[at] ^= change;
            // Where a key was changed into one that is not known, its value is gone; the rest is as it was.
            if let Ok(record) = decode_record(&bytes)
                && record.mode.is_some()
                && record.modified.is_some()
            {
                prop_assert_eq!(encode_record(&record), bytes);
            }
        }
    }
}
