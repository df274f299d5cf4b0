//! The record: metadata of one version of one object, as stored in table entries and segments.
//!
//! A CBOR map. Keys are sorted by length, then alphabetically; unknown keys are skipped.

use fulgurite_domain::{Attributes, AttributesError, Digest, Kind, Modified, ObjectName, ObjectRecord};

use crate::cbor::{Decoder, Encoder, Malformed};

/// The longest record that a reader accepts, sealed or not.
pub const RECORD_BYTES_MAX: usize = 1 << 20;

/// The fields of a record except name and attributes, the heads of these, and the tag, at most.
const FIXED_BYTES_MAX: usize = 256;

/// An upper bound on the length of a record with this name and these attributes, sealed or not. It
/// is less than 300 bytes too high, plus six for each attribute.
#[must_use]
pub fn record_bytes_at_most(name: &ObjectName, attributes: &Attributes) -> usize {
    FIXED_BYTES_MAX + name.0.len() + attributes.bytes() + 6 * attributes.0.len()
}

/// Bytes that are not a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The bytes don't follow the format.
    #[error("the record of an object has {0}: it is damaged, or was written by a faulty program")]
    Malformed(&'static str),
}

impl From<Malformed> for RecordError {
    fn from(what: Malformed) -> Self {
        Self::Malformed(what)
    }
}

/// Encodes a record.
///
/// # Panics
/// If the record could not be read back: an empty name, version 0, a mode above `0o7777`,
/// nanoseconds of a second or more, a directory or deletion marker with content, or attributes
/// beyond their limits ([`Attributes::check`]).
#[must_use]
pub fn encode_record(record: &ObjectRecord) -> Vec<u8> {
    if let Err(what) = check(record) {
        panic!("can't write the record of {:?}: it has {what}", record.name);
    }
    let mut bytes = Vec::with_capacity(128 + record.name.0.len() + record.attributes.bytes() + 4 * record.attributes.0.len());
    let mut cbor = Encoder(&mut bytes);
    let optional = [record.mode.is_some(), record.modified.is_some(), !record.attributes.is_empty()];
    cbor.map(6 + optional.into_iter().map(u64::from).sum::<u64>());
    cbor.text("kind");
    cbor.uint(match record.kind {
        Kind::File => 0,
        Kind::SymbolicLink => 1,
        Kind::Directory => 2,
        Kind::DeletionMarker => 3,
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
    if !record.attributes.is_empty() {
        cbor.text("attributes");
        write_attributes(&mut cbor, &record.attributes);
    }
    bytes
}

/// Encodes attributes alone, in the form that a record contains.
///
/// # Panics
/// If they exceed the limits of [`Attributes::check`]. There should be at least one:
/// [`decode_attributes`] rejects an empty map.
#[must_use]
pub fn encode_attributes(attributes: &Attributes) -> Vec<u8> {
    if let Err(what) = check_attributes(attributes) {
        panic!("can't write attributes: {what}");
    }
    let mut bytes = Vec::with_capacity(3 + attributes.bytes() + 4 * attributes.0.len());
    write_attributes(&mut Encoder(&mut bytes), attributes);
    bytes
}

/// Decodes the output of [`encode_attributes`].
///
/// # Errors
/// [`RecordError::Malformed`] says what is wrong.
pub fn decode_attributes(bytes: &[u8]) -> Result<Attributes, RecordError> {
    let mut cbor = Decoder::new(bytes);
    let attributes = read_attributes(&mut cbor)?;
    cbor.end()?;
    check_attributes(&attributes)?;
    Ok(attributes)
}

fn write_attributes(cbor: &mut Encoder<'_>, attributes: &Attributes) {
    let mut pairs: Vec<_> = attributes.0.iter().collect();
    // The map is in alphabetical order, and the sort is stable. A shorter key has the smaller head,
    // so this is the order of the encoded keys.
    pairs.sort_by_key(|(name, _)| name.len());
    cbor.map(pairs.len() as u64);
    for (name, value) in pairs {
        cbor.text(name);
        cbor.bytes(value);
    }
}

fn read_attributes(cbor: &mut Decoder<'_>) -> Result<Attributes, Malformed> {
    let mut attributes = Attributes::default();
    cbor.map_of_any(|name, value| {
        if attributes.0.len() == Attributes::COUNT_MAX {
            return Err("too many attributes");
        }
        attributes.set(name, value.bytes()?);
        Ok(())
    })?;
    if attributes.is_empty() { Err("an empty map of attributes") } else { Ok(attributes) }
}

/// Decodes a record that is not sealed, or has been opened.
///
/// # Errors
/// [`RecordError::Malformed`] says what is wrong.
pub fn decode_record(bytes: &[u8]) -> Result<ObjectRecord, RecordError> {
    let (mut kind, mut mode, mut name, mut size) = (None, None, None, None);
    let (mut modified, mut sha256, mut created_ms, mut version, mut attributes) = (None, None, None, None, None);
    let mut cbor = Decoder::new(bytes);
    cbor.map(|key, value| {
        match key {
            "kind" => {
                kind = Some(match value.uint()? {
                    0 => Kind::File,
                    1 => Kind::SymbolicLink,
                    2 => Kind::Directory,
                    3 => Kind::DeletionMarker,
                    _ => return Err("an unknown kind"),
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
            "attributes" => attributes = Some(read_attributes(value)?),
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
        attributes: attributes.unwrap_or_default(),
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
        return Err("a mode with bits other than permissions");
    }
    if record.modified.is_some_and(|modified| modified.nanoseconds >= 1_000_000_000) {
        return Err("nanoseconds of a second or more");
    }
    if !record.kind.has_content() && record.size != 0 {
        return Err("a directory or deletion marker with content");
    }
    check_attributes(&record.attributes)
}

fn check_attributes(attributes: &Attributes) -> Result<(), Malformed> {
    attributes.check().map_err(|error| match error {
        AttributesError::TooMany { .. } => "too many attributes",
        AttributesError::NameLength { .. } => "an attribute whose name is empty or too long",
        AttributesError::TooLong { .. } => "attributes that are too long in total",
    })
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
            attributes: Attributes::default(),
        }
    }

    /// The sample with attributes whose encoded order is not alphabetical.
    pub(crate) fn described() -> ObjectRecord {
        let mut record = sample();
        record.attributes.set("content-type", "image/tiff");
        record.attributes.set("etag", [0xd4, 0x1d]);
        record.attributes.set("x-amz-meta-a-name-that-is-longer-than-most", "");
        record
    }

    fn records() -> impl Strategy<Value = ObjectRecord> {
        let kind = prop_oneof![Just(Kind::File), Just(Kind::SymbolicLink), Just(Kind::Directory), Just(Kind::DeletionMarker)];
        let attributes = prop::collection::btree_map("\\PC{1,60}", prop::collection::vec(any::<u8>(), 0..80), 0..20).prop_map(Attributes);
        let name = prop::collection::vec(any::<u8>(), 1..300);
        let modified = prop::option::of((any::<i64>(), 0u32..1_000_000_000));
        let numbers = (any::<u64>(), 1u64.., any::<u64>(), 0u32..64);
        (kind, name, modified, prop::option::of(0u32..=0o7777), any::<[u8; 32]>(), attributes, numbers).prop_map(
            |(kind, name, modified, mode, sha256, attributes, (size, version, created, shift))| ObjectRecord {
                name: ObjectName(name),
                version: (version >> shift).max(1),
                kind,
                size: if kind.has_content() { size >> shift } else { 0 },
                sha256: Digest(sha256),
                modified: modified.map(|(seconds, nanoseconds)| Modified { seconds, nanoseconds }),
                mode,
                created_ms: created >> shift,
                attributes,
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
    fn attributes_are_laid_out_as_specified_after_the_version() {
        let record = described();
        let plain = encode_record(&sample());
        let mut expected = plain.clone();
        expected[0] += 1;
        expected.extend(b"\x6aattributes\xa3\x64etag\x42\xd4\x1d\x6ccontent-type\x4aimage/tiff");
        expected.extend(b"\x78\x2ax-amz-meta-a-name-that-is-longer-than-most\x40");
        assert_eq!(encode_record(&record), expected);
        assert_eq!(decode_record(&expected), Ok(record.clone()));
        let map = encode_attributes(&record.attributes);
        assert_eq!(map, expected[plain.len() + 11..]);
        assert_eq!(decode_attributes(&map), Ok(record.attributes));
        assert_eq!(decode_record(&plain).unwrap().attributes, Attributes::default());
    }

    #[test]
    fn invalid_attributes_are_rejected() {
        let many = |count: u16| {
            let mut map = [&b"\xb9"[..], &count.to_be_bytes()].concat();
            (0..count).for_each(|i| map.extend([&b"\x63"[..], format!("{i:03x}").as_bytes(), b"\x40"].concat()));
            map
        };
        // Two attributes with one-byte names; the value of the second has this many bytes.
        let long = |bytes: u16| [&b"\xa2\x61a\x40\x61b\x59"[..], &bytes.to_be_bytes(), &vec![7; bytes.into()]].concat();
        let named = |bytes: usize| [&b"\xa1\x79"[..], &(bytes as u16).to_be_bytes(), &vec![b'n'; bytes], b"\x40"].concat();
        for (map, what) in [
            (b"\xa0".to_vec(), "an empty map of attributes"),
            (b"\x80".to_vec(), "a value that is not a map"),
            (b"\xa1\x41a\x40".to_vec(), "a value that is not a text string"),
            (b"\xa1\x61\xff\x40".to_vec(), "a text string that is not UTF-8"),
            (b"\xa1\x61a\x61b".to_vec(), "a value that is not a byte string"),
            (b"\xa2\x61b\x40\x61a\x40".to_vec(), "unsorted or duplicate map keys"),
            (b"\xa2\x61a\x40\x61a\x40".to_vec(), "unsorted or duplicate map keys"),
            (b"\xa2\x62aa\x40\x61b\x40".to_vec(), "unsorted or duplicate map keys"),
            (b"\xa1\x60\x40".to_vec(), "an attribute whose name is empty or too long"),
            (named(256), "an attribute whose name is empty or too long"),
            (many(257), "too many attributes"),
            (long(65_535), "attributes that are too long in total"),
            (b"\xa1\x61a".to_vec(), "a truncated item"),
            (b"\xa1\x61a\x40\x00".to_vec(), "bytes after the last item"),
        ] {
            let malformed = RecordError::Malformed(what);
            assert_eq!(decode_attributes(&map), Err(malformed), "{:x?}", &map[..map.len().min(20)]);
            let mut record = encode_record(&sample());
            record[0] += 1;
            record.extend([&b"\x6aattributes"[..], &map].concat());
            assert_eq!(decode_record(&record), Err(malformed), "{:x?}", &map[..map.len().min(20)]);
        }
        let most = Attributes((0..256).map(|i| (format!("{i:03}"), vec![7; 253])).collect());
        for most in [most, Attributes([("n".repeat(255), vec![7; 65_536 - 255])].into())] {
            let record = ObjectRecord { attributes: most, ..sample() };
            assert_eq!(decode_record(&encode_record(&record)), Ok(record));
        }
    }

    #[test]
    #[should_panic(expected = "attributes that are too long in total")]
    fn attributes_that_could_not_be_read_back_are_not_written() {
        let _ = encode_record(&ObjectRecord { attributes: Attributes([("a".to_owned(), vec![0; 65_536])].into()), ..sample() });
    }

    #[test]
    fn unknown_keys_of_a_later_writer_are_skipped() {
        let mut bytes = encode_record(&sample());
        bytes[0] += 1;
        bytes.extend(b"\x69xattribut");
        bytes.extend(b"\x82\x01\xa1\x61k\xf6");
        assert_eq!(decode_record(&bytes), Ok(sample()));
    }

    #[test]
    fn invalid_records_are_rejected() {
        let good = encode_record(&sample());
        let swap = |from: &[u8], to: &[u8]| {
            let at = good.windows(from.len()).position(|window| window == from).unwrap();
            [&good[..at], to, &good[at + from.len()..]].concat()
        };
        for (bad, what) in [
            (swap(b"name\x54photos/1969/moon.tif", b"name\x40"), "an empty name"),
            (swap(b"version\x03", b"version\x00"), "version number 0"),
            (swap(b"kind\x00", b"kind\x04"), "an unknown kind"),
            (swap(b"kind\x00", b"kind\x02"), "a directory or deletion marker with content"),
            (swap(b"kind\x00", b"kind\x03"), "a directory or deletion marker with content"),
            (swap(b"mode\x19\x01\xa4", b"mode\x19\x10\x00"), "a mode with bits other than permissions"),
            (swap(b"\x1a\x3b\x9a\xc9\xff", b"\x1a\x3b\x9a\xca\x00"), "nanoseconds of a second or more"),
            (swap(b"sha256\x58\x20\x5a", b"sha256\x58\x1f"), "a byte string of the wrong length"),
            (swap(b"version\x03", b"version\x18\x03"), "a number that is not in its shortest form"),
            (swap(b"\x64mode\x19\x01\xa4", b"\x64moon\x19\x01\xa4")[..].to_vec(), ""),
            (swap(b"\x64kind\x00\x64mode\x19\x01\xa4", b"\x64mode\x19\x01\xa4\x64kind\x00"), "unsorted or duplicate map keys"),
            ([&good[..], b"\x00"].concat(), "bytes after the last item"),
        ] {
            match what {
                // An unknown key in place of an optional one.
                "" => assert_eq!(decode_record(&bad), Ok(ObjectRecord { mode: None, ..sample() })),
                what => assert_eq!(decode_record(&bad), Err(RecordError::Malformed(what))),
            }
        }
    }

    #[test]
    #[should_panic(expected = "an empty name")]
    fn a_record_that_could_not_be_read_back_is_not_written() {
        let _ = encode_record(&ObjectRecord { name: ObjectName(Vec::new()), ..sample() });
    }

    #[test]
    fn the_bound_holds_for_the_longest_record() {
        let attributes = Attributes((0..256).map(|i| (format!("{i:03}"), vec![7; 253])).collect());
        let modified = Some(Modified { seconds: i64::MIN, nanoseconds: 999_999_999 });
        let name = ObjectName(vec![b'n'; 1 << 20]);
        let longest = ObjectRecord {
            name,
            version: u64::MAX,
            size: u64::MAX,
            modified,
            mode: Some(0o7777),
            created_ms: u64::MAX,
            attributes,
            ..sample()
        };
        let most = record_bytes_at_most(&longest.name, &longest.attributes);
        let found = encode_record(&longest).len() + crate::TAG_BYTES;
        assert!((found..found + 300 + 6 * 256).contains(&most), "{found} of {most}");
    }

    proptest! {
        #[test]
        fn every_record_reads_back_and_no_prefix_of_it_does(record in records(), cut: prop::sample::Index) {
            let bytes = encode_record(&record);
            prop_assert!(decode_record(&bytes[..cut.index(bytes.len())]).is_err());
            prop_assert!(bytes.len() + crate::TAG_BYTES <= record_bytes_at_most(&record.name, &record.attributes));
            prop_assert_eq!(decode_record(&bytes), Ok(record));
        }

        #[test]
        fn a_changed_record_that_still_reads_has_one_encoding(at: prop::sample::Index, change in 1u8..) {
            let mut bytes = encode_record(&described());
            let at = at.index(bytes.len());
            bytes[at] ^= change;
            // If a key was changed into an unknown one, its value is gone; the rest is unchanged.
            if let Ok(record) = decode_record(&bytes)
                && record.mode.is_some()
                && record.modified.is_some()
                && !record.attributes.is_empty()
            {
                prop_assert_eq!(encode_record(&record), bytes);
            }
        }
    }
}
