//! Reads the golden platter of glass. It was written once, by [`written`], and is never rewritten,
//! because later programs must read it; what the writer makes of the same bytes today must be the
//! same file.
//!
//! `tools/test_golden.py` reads the same file with the second reader.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use fulgurite_archive::inspect::inspect;
use fulgurite_chance::noise;
use fulgurite_codec::checksum::crc64;
use fulgurite_domain::{
    ArchiveId, Attributes, Digest, Geometry, Kind, Medium, ObjectName, ObjectRecord, PlatterId, SetId, SetShape, VersionId,
};
use fulgurite_format::{Entry, Frames, Header, Member, Shard, TAG_BYTES, TableWriter, encode_record};
use fulgurite_glass::decoder::DecoderKind;
use fulgurite_glass::emulator::{Effects, WriteEffects};
use fulgurite_glass::{BlankPlatter, GlassHead, GlassReader, Track, WriteDrive};

const PLATTER: PlatterId = PlatterId([0x61; 16]);
const VERSION: VersionId = VersionId([1; 16]);
const NAME: &str = "golden/glass";
/// A track of information and none of redundancy.
const GEOMETRY: Geometry = Geometry {
    sector_bytes: 4_096,
    track_information: 3,
    track_redundancy: 1,
    group_information: 1,
    group_redundancy: 0,
    information_tracks: 1,
};
const EFFECTS: WriteEffects = WriteEffects { azimuth_jitter: 0.01, dropouts: 0.0005, ..Effects::NONE.write };

fn path() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "..", "..", "tests", "golden", "glass", "information-0.platter"].iter().collect()
}

fn content() -> Vec<u8> {
    noise(7, 10_000)
}

/// The stored bytes of the object, and the table that lists it.
fn stored_and_table() -> (Vec<u8>, Vec<u8>) {
    let mut sha256 = [0; 32];
    sha256.copy_from_slice(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &content()).as_ref());
    let record = ObjectRecord {
        name: ObjectName(NAME.into()),
        version: 1,
        kind: Kind::File,
        size: content().len() as u64,
        sha256: Digest(sha256),
        modified: None,
        mode: None,
        created_ms: 1_700_000_000_000,
        attributes: Attributes::default(),
    };
    let mut stored = content();
    stored.extend([0; TAG_BYTES]);
    Frames::new(VERSION, None).seal(0, &mut stored);
    let bytes = stored.len() as u64;
    let entry = Entry {
        version: VERSION,
        sealed: false,
        tombstone: false,
        shard: Shard { index: 0, object_bytes: bytes, object_offset: 0 },
        offset: 0,
        stored_bytes: bytes,
        crc64: crc64(&stored),
        record: encode_record(&record),
    };
    let mut table = Vec::new();
    let mut writer = TableWriter::new(&mut table, 1).expect("a vector takes everything");
    writer.push(&entry).expect("a vector takes everything");
    writer.finish();
    (stored, table)
}

/// The golden file as this program writes it.
fn written() -> Vec<u8> {
    let (stored, table) = stored_and_table();
    let member =
        Member { platter: PLATTER, table_offset: stored.len() as u64, table_bytes: table.len() as u64, table_crc64: crc64(&table) };
    let header = Header {
        archive: ArchiveId([0xa1; 16]),
        platter: PLATTER,
        set: SetId([0x5e; 16]),
        medium: Medium::Glass,
        geometry: GEOMETRY,
        position: 0,
        shape: SetShape { information: 1, redundancy: 0 },
        members: vec![member],
        written: 1_700_000_000,
        writer: "golden platter of glass".to_owned(),
    };
    let head = GlassHead::new(PLATTER, GEOMETRY, 0x60_1d, EFFECTS).expect("glass for such sectors");
    let reader = GlassReader::new(Effects::NONE.read, DecoderKind::Nearest);
    let mut sink = reader.writer(head, Vec::new()).expect("begun");
    let blank = BlankPlatter { platter: PLATTER, geometry: GEOMETRY, header: header.to_block().expect("a valid header") };
    let mut drive = WriteDrive::load(blank, sink.by_ref(), 1).expect("loaded");
    let mut track = Track::new(GEOMETRY);
    track.put_content(0, &[stored, table].concat());
    drive.write(&mut track).expect("written");
    drive.finish().expect("finished");
    sink.finish().expect("complete")
}

#[test]
fn the_current_writer_reproduces_the_golden_platter() {
    assert!(fs::read(path()).expect("the golden platter") == written(), "the writer of glass writes something else than it did");
}

#[test]
fn inspect_finds_nothing_lost_and_the_object() {
    let mut entries = Vec::new();
    let inspection = inspect(&path(), &mut |entry| entries.push(entry.clone())).expect("a platter");
    assert_eq!((inspection.lost_sectors, inspection.found.copies), (0, [true; 3]));
    assert_eq!(inspection.file_bytes, inspection.expected_file_bytes());
    assert_eq!(inspection.entries, Some(Ok(1)));
    let [entry] = &entries[..] else { panic!("{entries:?}") };
    assert_eq!((entry.version, entry.stored_bytes, entry.crc64), (VERSION, 10_016, crc64(&stored_and_table().0)));
}

#[test]
fn the_example_of_the_specification_is_the_golden_platter() {
    let document: PathBuf = [env!("CARGO_MANIFEST_DIR"), "..", "..", "docs", "format.md"].iter().collect();
    let text = fs::read_to_string(document).expect("the specification");
    let (_, example) = text.split_once("### A platter of glass").expect("the example");
    let (_, example) = example.split_once("```text\n").expect("the bytes");
    let (lines, _) = example.split_once("```").expect("an end");
    let golden = fs::read(path()).expect("the golden platter");
    assert_eq!(lines.lines().count(), 11);
    for line in lines.lines() {
        let offset = usize::from_str_radix(&line[..6], 16).expect("an offset");
        let (bytes, _) = line[8..].split_once("  ").unwrap_or((&line[8..], ""));
        let bytes: Vec<u8> = bytes.split(' ').map(|byte| u8::from_str_radix(byte, 16).expect("a byte")).collect();
        assert_eq!(golden[offset..offset + bytes.len()], bytes, "{line}");
    }
}
