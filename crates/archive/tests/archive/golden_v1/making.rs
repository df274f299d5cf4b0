//! Creates the golden files of format version 1 from fixed content, keys, identifiers and times,
//! with the writer of the time.
//!
//! The files were written once, by `cargo run -p fulgurite-archive --example make_golden`, and are
//! never rewritten, because later programs must read what that program wrote. This code stays to
//! document their contents, and lets a test detect when the writer starts to write something else.
//!
//! ```text
//! platter 0   sealed/large, first frame | two frames | empty | folder                     | table, with both tombstones
//! platter 1   sealed/large, the rest | notes | odd names | links | sealed | what is gone  | table
//! platter 2   redundancy
//! ```

use std::collections::BTreeMap;
use std::io::Write;

use aws_lc_rs::digest::{SHA256, digest};
use fulgurite_chance::noise;
use fulgurite_codec::checksum::crc64;
use fulgurite_codec::{PooledCode, PooledEncoder};
use fulgurite_domain::{
    ArchiveId, Attributes, Digest, Geometry, Kind, Modified, ObjectName, ObjectRecord, PlatterId, SetId, SetShape, VersionId,
};
use fulgurite_format::{
    Entry, FRAME_BYTES, Frames, Header, KeyExportWriter, MasterKey, Member, ObjectKey, RecordHead, RecordKind, STORED_FRAME_BYTES,
    ScryptCost, SegmentHead, Shard, TAG_BYTES, TableWriter, encode_record, seal_version_1, stored_bytes,
};
use fulgurite_glass::{BlankPlatter, Track, WriteDrive};
use serde_json::{Value, json};

/// Groups of 4+2, 4+2, 4+2 and 1+1 tracks: 20 physical tracks.
const GEOMETRY: Geometry = Geometry {
    sector_bytes: 1_024,
    track_information: 10,
    track_redundancy: 3,
    group_information: 4,
    group_redundancy: 2,
    information_tracks: 13,
};
const SHAPE: SetShape = SetShape { information: 2, redundancy: 1 };
const ARCHIVE: ArchiveId = ArchiveId([0xa1; 16]);
const SET: SetId = SetId([0x5e; 16]);
const PLATTERS: [&str; 3] = ["information-0.platter", "information-1.platter", "redundancy-0.platter"];
const MASTER: [u8; 32] = [0x3a; 32];
const PASSPHRASE: &str = "correct horse battery staple";
const SEGMENT_NUMBER: u64 = 7;
/// 2023-11-14T22:13:20Z
const WRITTEN_S: u64 = 1_700_000_000;

/// Makes all golden files, by name.
pub(crate) fn golden_files() -> BTreeMap<String, Vec<u8>> {
    let things = things();
    let mut files = BTreeMap::new();
    for (name, platter) in PLATTERS.iter().zip(platters(&things)) {
        files.insert((*name).to_owned(), platter);
    }
    files.insert(format!("{SEGMENT_NUMBER:016x}.segment"), segment(&things));
    files.insert("keys.txt".to_owned(), exported_keys(&things, Vec::new()));
    let cost = ScryptCost { log2_n: 10, r: 8, p: 1 };
    let sealed = seal_version_1(&exported_keys(&things, Vec::new()), PASSPHRASE.as_bytes(), [0x5a; 16], cost);
    files.insert("keys.sealed".to_owned(), sealed.expect("a small cost"));
    let expected = serde_json::to_string_pretty(&expected(&things, &files)).expect("plain values");
    files.insert("expected.json".to_owned(), (expected + "\n").into_bytes());
    files
}

/// The location of an object.
#[derive(Clone, Copy, PartialEq)]
enum Location {
    /// Complete, on the information platter at this position.
    On(usize),
    /// The first frame on platter 0, the rest on platter 1.
    OverBoth,
    /// On platter 1, with a tombstone on platter 0 and without a key.
    Deleted,
    /// In the staging segment.
    Staged,
}

/// One version of one object.
struct Thing {
    id: VersionId,
    record: ObjectRecord,
    content: Vec<u8>,
    key: Option<ObjectKey>,
    location: Location,
}

impl Thing {
    fn frames(&self) -> Frames {
        Frames::new(self.id, self.key.as_ref())
    }

    fn stored(&self) -> Vec<u8> {
        let (frames, mut stored) = (self.frames(), Vec::new());
        for (index, content) in self.content.chunks(FRAME_BYTES).enumerate() {
            let mut frame = content.to_vec();
            frame.resize(content.len() + TAG_BYTES, 0);
            frames.seal(index as u64, &mut frame);
            stored.extend(frame);
        }
        stored
    }

    fn stored_record(&self) -> Vec<u8> {
        self.frames().seal_record(&encode_record(&self.record))
    }
}

fn things() -> Vec<Thing> {
    use Kind::{Directory, File, SymbolicLink};
    use Location::{Deleted, On, OverBoth, Staged};
    let mut things = Vec::new();
    let mut add = |name: &[u8], kind: Kind, content: Vec<u8>, sealed: bool, location: Location| {
        let number = things.len() as u8 + 1;
        let created_ms = WRITTEN_S * 1_000 - 60_000 + u64::from(number);
        things.push(Thing {
            id: VersionId::new(created_ms, [number; 10]),
            record: ObjectRecord {
                name: ObjectName(name.to_vec()),
                version: 1,
                kind,
                size: content.len() as u64,
                sha256: sha256(&content),
                modified: Some(Modified { seconds: 1_600_000_000 + i64::from(number), nanoseconds: 123_456_789 }),
                mode: Some(0o640),
                created_ms,
                attributes: Attributes::default(),
            },
            content,
            key: sealed.then(|| ObjectKey::new([number | 0x80; 32])),
            location,
        });
    };
    add(b"sealed/large", File, noise(1, 100_000), true, OverBoth);
    add(b"two frames", File, noise(2, FRAME_BYTES + 64), false, On(0));
    add(b"empty", File, Vec::new(), false, On(0));
    add(b"folder", Directory, Vec::new(), false, On(0));
    add(b"notes/day.txt", File, b"the older text\n".to_vec(), false, On(1));
    add(b"notes/day.txt", File, b"the newer text, a little longer\n".to_vec(), false, On(1));
    add(b"odd \xff\xfe name\n", File, b"a name that is not UTF-8".to_vec(), false, On(1));
    add(b"before 1970", File, b"without a mode, and old".to_vec(), false, On(1));
    add(b"link", SymbolicLink, b"notes/day.txt".to_vec(), false, On(1));
    add(b"sealed/letter", File, noise(3, 20_000), true, On(1));
    add(b"sealed/link", SymbolicLink, b"letter".to_vec(), true, On(1));
    add(b"sealed/empty", File, Vec::new(), true, On(1));
    add(b"gone", File, b"deleted, and never sealed".to_vec(), false, Deleted);
    add(b"sealed/gone", File, b"deleted with its key".to_vec(), true, Deleted);
    add(b"staged/sealed", File, noise(4, FRAME_BYTES + 1_000), true, Staged);
    add(b"staged/clear", File, b"waits in the segment".to_vec(), false, Staged);
    things[3].record.mode = Some(0o750);
    things[5].record.version = 2;
    things[7].record.modified = Some(Modified { seconds: -86_400, nanoseconds: 5 });
    things[7].record.mode = None;
    things
}

fn sha256(bytes: &[u8]) -> Digest {
    let mut sum = Digest([0; 32]);
    sum.0.copy_from_slice(digest(&SHA256, bytes).as_ref());
    sum
}

/// The part of an object on the platter at this position, with its index and start; `None` if the
/// platter has no part of it.
fn shard(thing: &Thing, position: usize) -> Option<(u32, usize, Vec<u8>)> {
    let stored = thing.stored();
    match (thing.location, position) {
        (Location::On(on), _) if on == position => Some((0, 0, stored)),
        (Location::OverBoth, 0) => Some((0, 0, stored[..STORED_FRAME_BYTES].to_vec())),
        (Location::OverBoth, 1) => Some((1, STORED_FRAME_BYTES, stored[STORED_FRAME_BYTES..].to_vec())),
        (Location::Deleted, 1) => Some((0, 0, stored)),
        _ => None,
    }
}

/// The content of an information platter, padded to the platter's size, and its header's member
/// entry with the place of the table.
fn content(things: &[Thing], position: usize) -> (Vec<u8>, Member) {
    let (mut content, mut entries) = (Vec::new(), Vec::new());
    for thing in things {
        let Some((index, start, bytes)) = shard(thing, position) else { continue };
        entries.push(Entry {
            version: thing.id,
            sealed: thing.key.is_some(),
            tombstone: false,
            shard: Shard { index, object_bytes: stored_bytes(thing.record.size), object_offset: start as u64 },
            offset: content.len() as u64,
            stored_bytes: bytes.len() as u64,
            crc64: crc64(&bytes),
            record: thing.stored_record(),
        });
        content.extend(bytes);
    }
    if position == 0 {
        entries.extend(things.iter().filter(|thing| thing.location == Location::Deleted).map(|thing| Entry::tombstone(thing.id)));
    }
    let table_offset = content.len() as u64;
    let mut table = TableWriter::new(&mut content, entries.len() as u64).expect("into memory");
    entries.iter().for_each(|entry| table.push(entry).expect("a good entry"));
    let end = table.finish();
    assert!(content.len() as u64 <= GEOMETRY.content_bytes(), "the platter is too small");
    content.resize(GEOMETRY.content_bytes() as usize, 0);
    (content, Member { platter: platter(position), table_offset, table_bytes: end.bytes, table_crc64: end.crc64 })
}

fn platter(position: usize) -> PlatterId {
    PlatterId([0x90 + position as u8; 16])
}

fn platters(things: &[Thing]) -> Vec<Vec<u8>> {
    let (mut contents, mut members): (Vec<_>, Vec<_>) = (0..2).map(|position| content(things, position)).unzip();
    members.push(Member { platter: platter(2), table_offset: 0, table_bytes: 0, table_crc64: 0 });
    contents.push(set_redundancy(&contents));
    let header = Header {
        archive: ARCHIVE,
        platter: platter(0),
        set: SET,
        medium: fulgurite_domain::Medium::Disk,
        geometry: GEOMETRY.check().expect("in range"),
        position: 0,
        shape: SHAPE,
        members,
        written: WRITTEN_S,
        writer: "golden files of format version 1".to_owned(),
    };
    contents.iter().enumerate().map(|(position, content)| write(&header.for_position(position as u16), content)).collect()
}

/// The content of the redundancy platter.
fn set_redundancy(contents: &[Vec<u8>]) -> Vec<u8> {
    let sectors = usize::from(GEOMETRY.track_information);
    let code = PooledCode::new(usize::from(SHAPE.information) * sectors, usize::from(SHAPE.redundancy) * sectors).expect("a small code");
    let mut encoder = PooledEncoder::new(&code, GEOMETRY.sector_bytes as usize).expect("sectors are blocks of 64 bytes");
    let mut redundancy = Vec::new();
    for track in 0..GEOMETRY.information_tracks as usize {
        for content in contents {
            let track_bytes = GEOMETRY.track_bytes() as usize;
            let content = &content[track * track_bytes..(track + 1) * track_bytes];
            encoder.push(&content.chunks_exact(GEOMETRY.sector_bytes as usize).collect::<Vec<_>>());
        }
        encoder.finish().iter().for_each(|row| redundancy.extend_from_slice(row));
        encoder.reset();
    }
    redundancy
}

fn write(header: &Header, content: &[u8]) -> Vec<u8> {
    let blank = BlankPlatter { platter: header.platter, geometry: GEOMETRY, header: header.to_block().expect("a small set") };
    let mut drive = WriteDrive::load(blank, Vec::new(), 1).expect("into memory");
    let mut track = Track::new(GEOMETRY);
    for bytes in content.chunks_exact(GEOMETRY.track_bytes() as usize) {
        track.put_content(0, bytes);
        drive.write(&mut track).expect("into memory");
    }
    drive.finish().expect("into memory").sink
}

/// A segment with both staged objects, a tombstone of a version that exists nowhere else, a record
/// torn in its payload, and preallocated zeros.
fn segment(things: &[Thing]) -> Vec<u8> {
    let mut segment = SegmentHead { archive: ARCHIVE, number: SEGMENT_NUMBER }.to_bytes().to_vec();
    let mut append = |kind: RecordKind, version: VersionId, offset: u64, sealed: bool, payload: &[u8]| {
        let position = segment.len() as u64;
        let head = RecordHead { kind, version, offset, payload_bytes: payload.len() as u32, sealed, crc64: crc64(payload), position };
        segment.extend(head.to_bytes(SEGMENT_NUMBER));
        segment.extend(payload);
        segment.resize(segment.len().next_multiple_of(64), 0);
    };
    for thing in things.iter().filter(|thing| thing.location == Location::Staged) {
        let (stored, sealed) = (thing.stored(), thing.key.is_some());
        for (index, frame) in stored.chunks(STORED_FRAME_BYTES).enumerate() {
            append(RecordKind::Data, thing.id, (index * STORED_FRAME_BYTES) as u64, sealed, frame);
        }
        append(RecordKind::Object, thing.id, stored.len() as u64, sealed, &thing.stored_record());
    }
    append(RecordKind::Tombstone, VersionId::new(WRITTEN_S * 1_000, [0x77; 10]), 0, false, &[]);
    append(RecordKind::Data, VersionId::new(WRITTEN_S * 1_000, [0x78; 10]), 0, false, &noise(5, 500));
    let torn = segment.len() - 300;
    segment[torn..].fill(0);
    segment.resize(segment.len() + 1_024, 0);
    segment
}

fn exported_keys<W: Write>(things: &[Thing], to: W) -> W {
    let master = MasterKey::new(MASTER);
    let mut export = KeyExportWriter::new(to, ARCHIVE, &master).expect("into memory");
    for thing in things.iter().filter(|thing| thing.location != Location::Deleted) {
        if let Some(key) = &thing.key {
            export.push(thing.id, &master.wrap(key)).expect("into memory");
        }
    }
    export.finish().expect("into memory")
}

fn expected(things: &[Thing], files: &BTreeMap<String, Vec<u8>>) -> Value {
    let describe = |thing: &&Thing| {
        json!({
            "version_identifier": thing.id.to_string(),
            "name_hex": hex(&thing.record.name.0),
            "kind": match thing.record.kind {
                Kind::File => 0,
                Kind::SymbolicLink => 1,
                Kind::Directory => 2,
                Kind::DeletionMarker => 3,
            },
            "size": thing.record.size,
            "sha256": thing.record.sha256.to_string(),
            "version": thing.record.version,
            "created": thing.record.created_ms,
            "mtime": thing.record.modified.map(|modified| json!([modified.seconds, modified.nanoseconds])),
            "mode": thing.record.mode,
            "sealed": thing.key.is_some(),
        })
    };
    let (deleted, kept): (Vec<_>, Vec<_>) = things.iter().partition(|thing| thing.location == Location::Deleted);
    let (staged, archived): (Vec<_>, Vec<_>) = kept.into_iter().partition(|thing| thing.location == Location::Staged);
    let sum = |bytes: &Vec<u8>| json!({ "bytes": bytes.len(), "sha256": sha256(bytes).to_string() });
    json!({
        "archive": ARCHIVE.to_string(),
        "set": SET.to_string(),
        "platters": (0..3).map(|position| json!({ "file": PLATTERS[position], "platter": platter(position).to_string() })).collect::<Vec<_>>(),
        "passphrase": PASSPHRASE,
        "files": files.iter().map(|(name, bytes)| (name.clone(), sum(bytes))).collect::<serde_json::Map<_, _>>(),
        "objects": archived.iter().map(describe).collect::<Vec<_>>(),
        "staged": staged.iter().map(describe).collect::<Vec<_>>(),
        "deleted": deleted.iter().map(|thing| thing.id.to_string()).collect::<Vec<_>>(),
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
