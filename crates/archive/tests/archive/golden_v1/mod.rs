//! Reads the golden files of format version 1, intact and damaged, and checks the worked example in
//! `docs/format.md` against them.
//!
//! `tools/test_golden.py` reads the same files with the second reader.

mod making;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use fulgurite_archive::catalogue::{PlatterPlace, SetDescription};
use fulgurite_archive::inspect::inspect;
use fulgurite_archive::keyring::import_keys;
use fulgurite_archive::set_reader::{OpenSet, Repairs, SetReader};
use fulgurite_archive::unread::{Loaded, Presence};
use fulgurite_archive::watch::Unwatched;
use fulgurite_archive::{Access, Archive, rebuild_catalogue};
use fulgurite_domain::{ArchiveId, Kind, ObjectRecord, VersionId};
use fulgurite_format::{
    Entry, FRAME_BYTES, Frames, Header, KeyExport, KeyExportError, MasterKey, STORED_FRAME_BYTES, ScryptCost, SealedExportReader,
    SealedExportWriter, SegmentHead, TableReader, WrappedKey, decode_record, find_header, read_key_export, scan_segment,
};
use fulgurite_glass::PlatterSource;
use serde_json::Value;

const PLATTERS: [&str; 3] = ["information-0.platter", "information-1.platter", "redundancy-0.platter"];
const SEGMENT: &str = "0000000000000007.segment";

fn folder() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "..", "..", "tests", "golden", "v1"].iter().collect()
}

fn golden(name: &str) -> Vec<u8> {
    fs::read(folder().join(name)).expect("a golden file")
}

fn expected() -> Value {
    serde_json::from_slice(&golden("expected.json")).expect("JSON")
}

/// The platters of the set, for tests to damage.
fn platters() -> Vec<Option<Vec<u8>>> {
    PLATTERS.iter().map(|name| Some(golden(name))).collect()
}

struct Image(Vec<u8>);

impl PlatterSource for Image {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = self.0.get(offset as usize..).unwrap_or_default();
        let bytes = rest.len().min(buffer.len());
        buffer[..bytes].copy_from_slice(&rest[..bytes]);
        Ok(bytes)
    }
}

fn header_of(image: &[u8]) -> Option<Header> {
    let read_at = |offset, buffer: &mut [u8]| match Image(image.to_vec()).read_at(offset, buffer)? {
        bytes if bytes == buffer.len() => Ok(()),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    };
    find_header(image.len() as u64, read_at).ok().map(|found| found.header)
}

fn keys() -> (KeyExport, BTreeMap<VersionId, WrappedKey>) {
    let mut wrapped = BTreeMap::new();
    let export = read_key_export(golden("keys.txt").as_slice(), |version, key| {
        wrapped.insert(version, key);
        Ok::<(), KeyExportError>(())
    });
    (export.expect("whole"), wrapped)
}

/// Opens the stored bytes of an object frame by frame.
fn opened(frames: &Frames, mut stored: Vec<u8>) -> Vec<u8> {
    let mut content = Vec::new();
    for (index, frame) in stored.chunks_mut(STORED_FRAME_BYTES).enumerate() {
        content.extend_from_slice(frames.open(index as u64, frame).expect("a good tag"));
    }
    assert!(content.len().div_ceil(FRAME_BYTES) == stored.len().div_ceil(STORED_FRAME_BYTES));
    content
}

fn frames_of(version: VersionId, sealed: bool) -> Frames {
    let (export, wrapped) = keys();
    let key = sealed.then(|| export.master.unwrap(&wrapped[&version]).expect("the right master key"));
    Frames::new(version, key.as_ref())
}

type Objects = BTreeMap<String, (ObjectRecord, bool, Vec<u8>)>;

/// All objects on the platters, by version identifier, and the repairs needed to read them.
fn read_set(images: Vec<Option<Vec<u8>>>) -> (Objects, Repairs) {
    let header = images.iter().flatten().find_map(|image| header_of(image)).expect("a header");
    let place = |member: &fulgurite_format::Member| PlatterPlace { platter: member.platter, store: String::new() };
    let description = SetDescription {
        id: header.set,
        shape: header.shape,
        medium: header.medium,
        geometry: header.geometry,
        written: header.written,
        platters: header.members.iter().map(place).collect(),
    };
    let member = |(image, member): (Option<Vec<u8>>, &fulgurite_format::Member)| match image {
        Some(image) => Presence::Loaded(Loaded::new(member.platter, header.geometry, Arc::new(Image(image)), "")),
        None => Presence::missing(""),
    };
    let members = images.into_iter().zip(&header.members).map(member).collect();
    let rebuilding = Mutex::new(());
    let mut reader = SetReader::new(&rebuilding, 1);
    reader.open(Arc::new(OpenSet { description, members }));

    let mut shards: BTreeMap<VersionId, Vec<(u16, Entry)>> = BTreeMap::new();
    let mut deleted = Vec::new();
    for position in 0..header.shape.information {
        let member = header.members[usize::from(position)];
        let mut bytes = vec![0; member.table_bytes as usize];
        reader.read(member.platter, member.table_offset, &mut bytes).expect("the table");
        let mut table = TableReader::new(bytes.as_slice(), member.table_bytes).expect("a table");
        for entry in &mut table {
            let entry = entry.expect("a good entry");
            if entry.tombstone { deleted.push(entry.version) } else { shards.entry(entry.version).or_default().push((position, entry)) }
        }
        assert_eq!(table.finish().expect("nothing behind it"), member.table_crc64);
    }
    shards.retain(|version, _| !deleted.contains(version));
    let mut objects = Objects::new();
    for (version, shards) in shards {
        let (_, first) = &shards[0];
        let frames = frames_of(version, first.sealed);
        let record = decode_record(&frames.open_record(&first.record).expect("a good tag")).expect("a record");
        let mut stored = vec![0; first.shard.object_bytes as usize];
        for (position, entry) in &shards {
            let at = entry.shard.object_offset as usize;
            let part = &mut stored[at..at + entry.stored_bytes as usize];
            reader.read(header.members[usize::from(*position)].platter, entry.offset, part).expect("its bytes");
        }
        assert_eq!(shards.iter().map(|(_, entry)| entry.stored_bytes).sum::<u64>(), first.shard.object_bytes);
        objects.insert(version.to_string(), (record, first.sealed, opened(&frames, stored)));
    }
    (objects, reader.repairs())
}

fn check_object(expected: &Value, (record, sealed, content): &(ObjectRecord, bool, Vec<u8>)) {
    let kind = match record.kind {
        Kind::File => 0,
        Kind::SymbolicLink => 1,
        Kind::Directory => 2,
        Kind::DeletionMarker => 3,
    };
    let name: String = record.name.0.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(expected["name_hex"], name);
    assert_eq!(expected["kind"], kind, "{:?}", record.name);
    assert_eq!(expected["size"], record.size);
    assert_eq!(expected["size"], content.len());
    assert_eq!(expected["sha256"], record.sha256.to_string());
    assert_eq!(expected["sha256"], sha256(content));
    assert_eq!(expected["version"], record.version);
    assert_eq!(expected["created"], record.created_ms);
    assert_eq!(expected["mode"], record.mode.map_or(Value::Null, Value::from));
    let modified = record.modified.map(|modified| Value::from(vec![modified.seconds, modified.nanoseconds.into()]));
    assert_eq!(expected["mtime"], modified.unwrap_or(Value::Null));
    assert_eq!(expected["sealed"], *sealed);
}

fn check_all(objects: &Objects) {
    let expected = expected();
    let expected = expected["objects"].as_array().expect("a list");
    assert_eq!(objects.len(), expected.len());
    for expected in expected {
        check_object(expected, &objects[expected["version_identifier"].as_str().expect("text")]);
    }
}

fn sha256(bytes: &[u8]) -> String {
    aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Changes a byte in each of these sectors.
fn spoil(image: &mut Option<Vec<u8>>, track: u32, sectors: impl IntoIterator<Item = u64>) {
    let image = image.as_mut().expect("it is there");
    let geometry = header_of(&golden(PLATTERS[0])).expect("a header").geometry;
    let start = geometry.track_offset(fulgurite_domain::PhysicalTrack(track));
    for sector in sectors {
        image[(start + sector * geometry.sector_stride() as u64 + 41 * sector) as usize] ^= 0x10;
    }
}

#[test]
fn the_current_writer_reproduces_the_golden_files() {
    let made = making::golden_files();
    assert_eq!(made.len(), fs::read_dir(folder()).expect("the golden files").count());
    for (name, bytes) in made {
        assert!(bytes == golden(&name), "the current writer produces a different {name}: the format has changed");
    }
}

#[test]
fn the_golden_files_match_their_checksums() {
    for (name, sum) in expected()["files"].as_object().expect("a map") {
        assert_eq!(sum["sha256"], sha256(&golden(name)), "{name}");
    }
}

#[test]
fn all_copies_of_all_headers_agree_on_the_set() {
    let first = header_of(&golden(PLATTERS[0])).expect("a header");
    for (position, name) in PLATTERS.iter().enumerate() {
        let image = golden(name);
        assert_eq!(image.len() as u64, first.geometry.file_bytes());
        for at in first.geometry.header_offsets() {
            let block = &image[at as usize..at as usize + fulgurite_format::HEADER_BYTES];
            assert_eq!(Header::from_block(block).expect("a header"), first.for_position(position as u16));
        }
        assert_eq!(expected()["platters"][position]["platter"], first.members[position].platter.to_string());
    }
    assert_eq!(expected()["archive"], first.archive.to_string());
    assert_eq!(expected()["set"], first.set.to_string());
}

#[test]
fn inspect_finds_nothing_lost_and_all_entries() {
    let entries = PLATTERS.map(|name| {
        let mut versions = Vec::new();
        let found = inspect(&folder().join(name), &mut |entry| versions.push((entry.version, entry.tombstone))).expect("a platter");
        assert_eq!((found.lost_sectors, found.lost_tracks, found.found.copies), (0, 0, [true; 3]));
        assert_eq!(found.entries.map(|count| count.expect("a table")), (name != PLATTERS[2]).then_some(versions.len() as u64));
        versions
    });
    assert_eq!(entries.each_ref().map(Vec::len), [6, 11, 0]);
    let deleted: Vec<String> = entries[0].iter().filter(|(_, tombstone)| *tombstone).map(|(version, _)| version.to_string()).collect();
    assert_eq!(expected()["deleted"], Value::from(deleted));
}

#[test]
fn every_object_is_read_from_intact_platters() {
    let (objects, repairs) = read_set(platters());
    check_all(&objects);
    assert_eq!(repairs, Repairs::default());
}

#[test]
fn every_object_is_restored_with_three_sectors_of_every_track_lost() {
    let mut platters = platters();
    for platter in &mut platters {
        (0..20).for_each(|track| spoil(platter, track, [0, 4, 8].map(|n| (u64::from(track) + n) % 13)));
    }
    let (objects, repairs) = read_set(platters);
    check_all(&objects);
    assert!(repairs.by_track > 0 && repairs.by_group + repairs.by_set == 0, "{repairs:?}");
}

#[test]
fn every_object_is_restored_with_as_many_tracks_lost_as_each_group_has_redundancy() {
    let mut platters = platters();
    for platter in &mut platters {
        [0, 3, 8, 11, 13, 14, 18].iter().for_each(|&track| spoil(platter, track, 0..13));
    }
    let (objects, repairs) = read_set(platters);
    check_all(&objects);
    assert!(repairs.by_group > 0 && repairs.by_set == 0, "{repairs:?}");
}

#[test]
fn every_object_is_restored_without_any_one_platter() {
    for gone in 0..3 {
        let mut platters = platters();
        platters[gone] = None;
        let (objects, repairs) = read_set(platters);
        check_all(&objects);
        assert_eq!(repairs.by_set > 0, gone < 2);
    }
}

#[test]
fn every_object_is_restored_without_a_platter_and_with_damage_on_every_level() {
    let mut platters = platters();
    platters[0] = None;
    for platter in &mut platters[1..] {
        (0..20).for_each(|track| spoil(platter, track, [u64::from(track) % 13, u64::from(track + 5) % 13]));
        spoil(platter, 7, 0..13);
        platter.as_mut().expect("it is there")[..200].fill(0);
    }
    let (objects, repairs) = read_set(platters);
    check_all(&objects);
    assert!(repairs.by_track > 0 && repairs.by_group > 0 && repairs.by_set > 0, "{repairs:?}");
}

#[test]
fn sealed_keys_equal_the_plain_export() {
    let sealed = golden("keys.sealed");
    let passphrase = expected()["passphrase"].as_str().expect("text").to_owned();
    let mut text = Vec::new();
    let mut reader = SealedExportReader::new(io::Cursor::new(&sealed), passphrase.as_bytes()).expect("the right passphrase");
    io::Read::read_to_end(&mut reader, &mut text).expect("whole");
    assert!(text == golden("keys.txt"));
    assert!(SealedExportReader::new(io::Cursor::new(&sealed), b"another").is_err());
    let (export, wrapped) = keys();
    assert_eq!((export.keys, expected()["archive"].as_str()), (wrapped.len() as u64, Some(export.archive.to_string().as_str())));
    assert!(MasterKey::new([0; 32]).unwrap(wrapped.values().next().expect("a key")).is_err());
}

/// `tests/golden/v2/keys.sealed` was created once by `tools/test_read_platter.py`, from the sealed
/// keys of version 1.
#[test]
fn sealed_keys_of_version_2_are_those_of_version_1_in_blocks() {
    let golden_v2 = fs::read(folder().join("../v2/keys.sealed")).expect("a golden file");
    let passphrase = expected()["passphrase"].as_str().expect("text").to_owned();
    let cost = ScryptCost { log2_n: 10, r: 8, p: 1 };
    let mut writer = SealedExportWriter::new(Vec::new(), passphrase.as_bytes(), [0x5a; 16], cost).expect("a small cost");
    io::Write::write_all(&mut writer, &golden("keys.txt")).expect("into memory");
    assert!(writer.finish().expect("into memory") == golden_v2, "both writers produce the same bytes");
    // Damages a few blocks; that is enough.
    let mut damaged = golden_v2;
    damaged[..8 * 1_024 - 100].fill(0xff);
    let mut text = Vec::new();
    let mut reader = SealedExportReader::new(io::Cursor::new(&damaged), passphrase.as_bytes()).expect("the right passphrase");
    io::Read::read_to_end(&mut reader, &mut text).expect("whole");
    assert!(text == golden("keys.txt") && reader.corrected() == 8);
}

#[test]
fn the_segment_contains_the_staged_objects_and_its_torn_record_is_detected() {
    let segment = golden(SEGMENT);
    let archive: ArchiveId = expected()["archive"].as_str().expect("text").parse().expect("an identifier");
    let mut heads = Vec::new();
    let read_at = |at: u64, buffer: &mut [u8]| {
        buffer.copy_from_slice(&segment[at as usize..at as usize + buffer.len()]);
        Ok(())
    };
    let scan =
        scan_segment(SegmentHead { archive, number: 7 }, segment.len() as u64, read_at, true, |head| heads.push(head)).expect("a segment");
    assert_eq!((scan.records, scan.damaged.len(), scan.head_damaged), (6, 1, false));
    let payload = |head: &fulgurite_format::RecordHead| segment[head.payload_position() as usize..][..head.payload_bytes as usize].to_vec();
    for expected in expected()["staged"].as_array().expect("a list") {
        let mine: Vec<_> = heads.iter().filter(|head| expected["version_identifier"] == head.version.to_string()).collect();
        let (object, data) = mine.split_last().expect("a record");
        let frames = frames_of(object.version, object.sealed);
        let stored: Vec<u8> = data.iter().flat_map(|head| payload(head)).collect();
        assert_eq!(stored.len() as u64, object.offset);
        let record = decode_record(&frames.open_record(&payload(object)).expect("a good tag")).expect("a record");
        check_object(expected, &(record, object.sealed, opened(&frames, stored)));
    }
}

/// Rebuilds a complete archive from nothing but the golden platters, segment and sealed keys.
#[test]
fn an_archive_is_rebuilt_from_the_golden_files() {
    let expected = expected();
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let home =
        crate::support::Home::with(2, 1, |settings| settings.archive.id = text(&expected["archive"]).parse().expect("an identifier"));
    fs::remove_file(home.path().join("master.key")).expect("the new master key");
    let passphrases = [text(&expected["passphrase"]).into_bytes()];
    let keys = import_keys(&home.path(), &[folder().join("keys.sealed")], &passphrases, &Unwatched).expect("keys").keys;
    for (store, platter) in expected["platters"].as_array().expect("a list").iter().enumerate() {
        let folder_of_store = home.path().join(format!("stores/d{store}/platters"));
        fs::create_dir_all(&folder_of_store).expect("a folder");
        fs::copy(folder().join(text(&platter["file"])), folder_of_store.join(format!("{}.platter", text(&platter["platter"]))))
            .expect("copied");
    }
    fs::copy(folder().join(SEGMENT), home.path().join("staging").join(SEGMENT)).expect("copied");
    let report = rebuild_catalogue(&home.path(), fulgurite_archive::UnseenStores::Refuse, &Unwatched).expect("rebuilt");
    let objects = [&expected["objects"], &expected["staged"]].map(|list| list.as_array().expect("a list").len() as u64);
    assert_eq!((report.lost_tables, report.incomplete, report.staged), (0, 0, objects[1]), "{report:?}");

    let archive = Archive::open(&home.path(), Access::Write).expect("the archive opens");
    let (report, found) = crate::support::get_all(&archive, &Unwatched);
    assert_eq!(report.failed, 0);
    let mut wanted = BTreeMap::new();
    let all = [&expected["objects"], &expected["staged"]].map(|list| list.as_array().expect("a list").clone()).concat();
    for object in all.iter().filter(|object| object["kind"] == 0) {
        // Versions of a name are in ascending order, so the newest one stays.
        wanted.insert(text(&object["name_hex"]), text(&object["sha256"]));
    }
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let found: BTreeMap<String, String> = found.iter().map(|(name, content)| (hex(name), sha256(content))).collect();
    assert_eq!(found, wanted);
    assert_eq!(keys, all.iter().filter(|object| object["sealed"] == true).count() as u64);
}

/// The hexadecimal lines of `docs/format.md`, section "A worked example", with the file named in
/// the text before them.
fn example() -> Vec<(String, usize, Vec<u8>)> {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "..", "..", "docs", "format.md"].iter().collect();
    let page = fs::read_to_string(path).expect("the specification");
    let (_, section) = page.split_once("## A worked example\n").expect("the section");
    let (section, _) = section.split_once("\n## ").expect("the next section");
    let (mut file, mut lines) = (String::new(), Vec::new());
    for line in section.lines() {
        if let Some(name) = PLATTERS.iter().find(|name| line.contains(*name)) {
            file = (*name).to_owned();
        }
        let Some((offset, rest)) = line.split_at_checked(6).filter(|(_, rest)| rest.starts_with("  ")) else { continue };
        let Ok(offset) = usize::from_str_radix(offset, 16) else { continue };
        let digits = rest[2..].split("  ").next().unwrap_or_default();
        let bytes = digits.split(' ').map(|pair| u8::from_str_radix(pair, 16).expect("two hexadecimal digits")).collect();
        lines.push((file.clone(), offset, bytes));
    }
    lines
}

#[test]
fn the_worked_example_of_the_specification_matches_the_golden_files() {
    let lines = example();
    for (file, offset, bytes) in &lines {
        assert_eq!(golden(file)[*offset..*offset + bytes.len()], **bytes, "{file} at {offset:06x}");
    }
    let shown: usize = lines.iter().map(|(_, _, bytes)| bytes.len()).sum();
    let header = 16 + 399 + 8;
    let (table_head, entry, label) = (24, 163, 64);
    assert_eq!(shown, header + table_head + entry + label, "each structure is shown whole");
}
