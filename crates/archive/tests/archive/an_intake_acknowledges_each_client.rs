//! Tests the intake of a server: concurrent uploads, each acknowledged once it is durable, and none
//! mixed with another.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use fulgurite_archive::catalogue::VersionRow;
use fulgurite_archive::object::{ObjectReader, ReadError};
use fulgurite_archive::watch::Unwatched;
use fulgurite_archive::{Archive, Intake, IntakeError, NewObject, Upload};
use fulgurite_domain::{Attributes, Kind, ObjectName};

use crate::support::Home;

fn object(name: &str) -> NewObject {
    NewObject { name: ObjectName(name.into()), kind: Kind::File, modified: None, mode: None, attributes: Attributes::default() }
}

/// Writes content in pieces of `step` bytes.
fn write(upload: &mut Upload, content: &[u8], step: usize) {
    for mut piece in content.chunks(step) {
        while !piece.is_empty() {
            if upload.room() == 0 {
                upload.begin_record(content.len(), Box::new(()));
            }
            let (now, later) = piece.split_at(piece.len().min(upload.room()));
            upload.write(now);
            piece = later;
        }
    }
}

fn finish(upload: Upload, name: &str, replaced: Vec<VersionRow>) -> Receiver<Result<(), IntakeError>> {
    let (tell, told) = channel();
    upload.finish(object(name), replaced, Box::new(move |result| tell.send(result).expect("the receiver is alive")));
    told
}

fn put(intake: &Intake, name: &str, content: &[u8]) -> Result<(), IntakeError> {
    let mut upload = intake.upload();
    write(&mut upload, content, 10_000);
    finish(upload, name, Vec::new()).recv().expect("an acknowledgement")
}

fn newest(archive: &Archive, name: &str) -> Option<VersionRow> {
    archive.reading().newest(&ObjectName(name.into())).expect("a catalogue")
}

fn content(archive: &Archive, version: &VersionRow) -> Vec<u8> {
    let mut content = Vec::new();
    let read = ObjectReader::new(archive).read(version, &mut |bytes| {
        content.extend_from_slice(bytes);
        Ok(())
    });
    read.expect("an acknowledged object");
    content
}

/// Bytes that differ between objects.
fn bytes(seed: usize, length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 31 + at / 251 + seed * 17) as u8).collect()
}

#[test]
fn sizes_around_frames_and_records_round_trip_through_staging_and_platters() {
    let home = Home::new(2, 1);
    let frame = 65_536;
    let sizes = [0, 1, frame - 1, frame, frame + 1, 16 * frame - 1, 16 * frame, 16 * frame + 1, 40 * frame + 7];
    {
        let archive = Arc::new(home.open());
        let intake = Intake::open(archive.clone()).expect("an intake");
        for (seed, size) in sizes.into_iter().enumerate() {
            put(&intake, &format!("{size}"), &bytes(seed, size)).expect("acknowledged");
            let row = newest(&archive, &format!("{size}")).expect("what was acknowledged is there");
            assert!(content(&archive, &row) == bytes(seed, size), "{size} bytes from staging");
        }
        archive.flush(&Unwatched).expect("a flush while an intake is open");
        for (seed, size) in sizes.into_iter().enumerate() {
            let row = newest(&archive, &format!("{size}")).expect("it is still there");
            assert!(row.archived && content(&archive, &row) == bytes(seed, size), "{size} bytes from platters");
        }
        intake.close();
    }
    let archive = home.open();
    assert_eq!(archive.catalogue().totals().expect("totals").versions, sizes.len() as u64);
}

#[test]
fn an_object_with_records_of_one_and_many_frames_is_split_between_records() {
    // Which records have a single frame, repeated cyclically.
    for pattern in [&[true, false][..], &[true, true, false], &[false, true], &[true]] {
        let home = Home::new(3, 1);
        let archive = Arc::new(home.open());
        let intake = Intake::open(archive.clone()).expect("an intake");
        let content_of = bytes(pattern.len(), 9_000_000);
        let mut upload = intake.upload();
        let mut rest = &content_of[..];
        let mut is_frame = pattern.iter().cycle();
        while !rest.is_empty() {
            if upload.room() == 0 {
                match is_frame.next() {
                    Some(true) => upload.begin_frame(rest.len(), Box::new(())),
                    _ => upload.begin_record(rest.len(), Box::new(())),
                }
            }
            let (now, later) = rest.split_at(rest.len().min(upload.room()));
            upload.write(now);
            rest = later;
        }
        finish(upload, "cut", Vec::new()).recv().expect("an acknowledgement").expect("put");
        archive.flush(&Unwatched).expect("flushed");
        let row = newest(&archive, "cut").expect("it is there");
        assert!(row.archived && content(&archive, &row) == content_of, "{pattern:?}");
        assert!(archive.catalogue().extents(row.row_id).expect("extents").len() > 1, "it is on several platters");
        intake.close();
    }
}

#[test]
fn concurrent_clients_get_their_own_objects() {
    let home = Home::new(2, 1);
    let archive = Arc::new(home.open());
    let intake = Intake::open(archive.clone()).expect("an intake");
    std::thread::scope(|scope| {
        for client in 0..16 {
            let intake = &intake;
            scope.spawn(move || {
                for round in 0..20 {
                    let size = (client * 7_919 + round * 104_729) % 300_000;
                    put(intake, &format!("{client}/{round}"), &bytes(client + round, size)).expect("acknowledged");
                }
            });
        }
    });
    for client in 0..16 {
        for round in 0..20 {
            let size = (client * 7_919 + round * 104_729) % 300_000;
            let row = newest(&archive, &format!("{client}/{round}")).expect("what was acknowledged is there");
            assert!(content(&archive, &row) == bytes(client + round, size), "{client}/{round}");
        }
    }
}

#[test]
fn content_of_another_digest_than_was_stated_is_never_returned() {
    let home = Home::new(1, 0);
    let archive = Arc::new(home.open());
    let intake = Intake::open(archive.clone()).expect("an intake");
    let (right, wrong) = (bytes(1, 100_000), bytes(2, 100_000));
    put(&intake, "computed", &right).expect("put");
    let sha256 = newest(&archive, "computed").expect("it is there").record.sha256;
    for (name, content) in [("right", &right), ("wrong", &wrong)] {
        let mut upload = intake.upload_hashed_by_caller();
        write(&mut upload, content, 50_000);
        upload.state_sha256(sha256);
        assert_eq!(upload.sha256(), sha256);
        finish(upload, name, Vec::new()).recv().expect("an answer").expect("put");
    }
    intake.close();
    let read = |name: &str| {
        let version = newest(&archive, name).expect("it is there");
        assert_eq!(version.record.sha256, sha256);
        ObjectReader::new(&archive).read(&version, &mut |_| Ok(()))
    };
    for is_archived in [false, true] {
        read("right").expect("it is what was stated");
        let error = read("wrong").expect_err("it isn't");
        assert!(matches!(error, ReadError::Digest { found, expected } if found != sha256 && expected == sha256), "{is_archived}: {error}");
        archive.flush(&Unwatched).expect("flushed");
    }
}

#[test]
fn concurrent_puts_of_one_name_get_consecutive_versions() {
    let home = Home::new(2, 1);
    let archive = Arc::new(home.open());
    let intake = Intake::open(archive.clone()).expect("an intake");
    std::thread::scope(|scope| {
        for client in 0..8 {
            let intake = &intake;
            scope.spawn(move || (0..25).for_each(|round| put(intake, "one", &bytes(client, round)).expect("acknowledged")));
        }
    });
    let versions = archive.catalogue().versions_of(&ObjectName(b"one".to_vec())).expect("versions");
    let numbers: Vec<u64> = versions.iter().map(|row| row.record.version).collect();
    assert_eq!(numbers, (1..=200).rev().collect::<Vec<u64>>());
}

#[test]
fn a_dropped_upload_leaves_nothing() {
    let home = Home::new(2, 1);
    let archive = Arc::new(home.open());
    let intake = Intake::open(archive.clone()).expect("an intake");
    let mut upload = intake.upload();
    write(&mut upload, &bytes(1, 3_000_000), 65_000);
    drop(upload);
    put(&intake, "other", b"content").expect("acknowledged");
    intake.close();
    archive.flush(&Unwatched).expect("a flush");
    assert_eq!(archive.catalogue().totals().expect("totals").versions, 1);
    assert_eq!(archive.staging().segments().expect("segments"), [0u64; 0], "no segment is kept");
}

#[test]
fn a_replaced_version_goes_with_the_commit_and_its_key_with_the_next_sweep() {
    let home = Home::new(2, 1);
    let archive = Arc::new(home.open());
    let intake = Intake::open(archive.clone()).expect("an intake");
    put(&intake, "name", b"first").expect("acknowledged");
    let first = newest(&archive, "name").expect("the first");
    let mut upload = intake.upload();
    write(&mut upload, b"second", 6);
    finish(upload, "name", vec![first.clone()]).recv().expect("an answer").expect("acknowledged");
    let versions = archive.catalogue().versions_of(&first.record.name).expect("versions");
    assert_eq!(versions.len(), 1);
    assert_eq!(content(&archive, &versions[0]), b"second");
    archive.sweep().expect("a sweep");
    assert_eq!(archive.keys().get(first.id).expect("a key store"), None);

    let (tell, told) = channel();
    intake.remove(versions.clone(), Box::new(move |result| tell.send(result).expect("the receiver is alive")));
    told.recv().expect("an answer").expect("acknowledged");
    assert_eq!(newest(&archive, "name"), None);
    // Tombstones have segments of their own, so that the segment with the removed object can be
    // released.
    let segments = archive.staging().segments().expect("segments").len();
    intake.close();
    drop(archive);
    let archive = home.open();
    assert_eq!(archive.keys().len().expect("a key store"), 0, "opening the archive completes what no sweep did");
    assert!(archive.staging().segments().expect("segments").len() < segments);
    // Tombstones are written with the next set.
    let mut another = BTreeMap::new();
    another.insert(b"another".to_vec(), b"content".to_vec());
    crate::support::put_all(&archive, &another);
    archive.flush(&Unwatched).expect("a flush");
    assert_eq!(archive.catalogue().staged_tombstones().expect("tombstones"), []);
    assert_eq!(archive.staging().segments().expect("segments"), [0u64; 0]);
}

#[test]
fn uploads_to_a_closed_intake_fail() {
    let home = Home::new(2, 1);
    let archive = Arc::new(home.open());
    let intake = Intake::open(archive).expect("an intake");
    let (before, late) = (intake.upload(), intake.upload());
    let acknowledged = finish(before, "before", Vec::new());
    intake.close();
    acknowledged.recv().expect("an answer").expect("an upload that was complete is acknowledged");
    assert!(matches!(finish(late, "late", Vec::new()).recv(), Ok(Err(IntakeError::Closed))));
}
