//! Reads continue while objects are removed, archived and damaged.

use std::ops::Range;
use std::sync::Arc;

use fulgurite_archive::Archive;
use fulgurite_archive::catalogue::VersionRow;
use fulgurite_archive::object::{ObjectReader, Opened, ReadError};
use fulgurite_archive::watch::Unwatched;
use fulgurite_domain::ObjectName;

use crate::support::Home;

const SIZE: usize = 5_000_000;

fn bytes() -> Vec<u8> {
    (0..SIZE).map(|at| (at * 31 + at / 251) as u8).collect()
}

fn staged(home: &Home) -> (Arc<Archive>, VersionRow) {
    let archive = Arc::new(home.open());
    crate::support::put_all(&archive, &[(b"name".to_vec(), bytes())].into());
    let row = archive.reading().newest(&ObjectName(b"name".to_vec())).expect("a catalogue").expect("it was put");
    (archive, row)
}

fn read(archive: &Archive, opened: &Opened, range: Range<u64>) -> Result<Vec<u8>, ReadError> {
    let mut content = Vec::new();
    ObjectReader::new(archive).read_opened(opened, range, &mut |buffer, pieces| {
        pieces.iter().for_each(|piece| content.extend_from_slice(&buffer[piece.clone()]));
        Ok(())
    })?;
    Ok(content)
}

fn read_range(archive: &Archive, version: &VersionRow, range: Range<u64>) -> Result<Vec<u8>, ReadError> {
    let mut content = Vec::new();
    ObjectReader::new(archive).read_range(version, range, &mut |bytes| {
        content.extend_from_slice(bytes);
        Ok(())
    })?;
    Ok(content)
}

#[test]
fn an_opened_object_stays_readable_after_its_removal_and_the_release_of_its_segment() {
    let home = Home::new(2, 1);
    let (archive, row) = staged(&home);
    let opened = ObjectReader::new(&archive).open(&row).expect("opened");
    let before = archive.staging().segments().expect("segments");
    archive.remove(std::slice::from_ref(&row)).expect("removed");
    archive.flush(&Unwatched).expect("a flush");
    let left = archive.staging().segments().expect("segments");
    assert!(!left.contains(&before[0]), "{before:?} {left:?}");
    assert!(read(&archive, &opened, 0..SIZE as u64).expect("read") == bytes());
    let mut whole = Vec::new();
    let mut sink = |bytes: &[u8]| {
        whole.extend_from_slice(bytes);
        Ok(())
    };
    ObjectReader::new(&archive).read_whole(&opened, &mut sink).expect("read, and its digest is right");
    assert!(whole == bytes());
    assert!(matches!(ObjectReader::new(&archive).open(&row), Err(ReadError::Removed)), "a removed object can't be opened again");
}

#[test]
fn an_opened_object_stays_readable_after_it_is_archived() {
    let home = Home::new(2, 1);
    let (archive, row) = staged(&home);
    let opened = ObjectReader::new(&archive).open(&row).expect("opened");
    archive.flush(&Unwatched).expect("a flush");
    assert!(read(&archive, &opened, 70_000..4_000_000).expect("read") == bytes()[70_000..4_000_000]);
}

#[test]
fn ranges_of_staged_and_archived_objects_return_the_requested_bytes() {
    let home = Home::new(2, 1);
    let (archive, staged) = staged(&home);
    let content = bytes();
    let frame = 65_536;
    let edges = [0, 1, frame - 1, frame, frame + 1, 16 * frame - 1, 16 * frame, 16 * frame + 1, 40 * frame, SIZE - 1, SIZE];
    let check = |row: &VersionRow| {
        for from in edges {
            for to in edges {
                let found = read_range(&archive, row, from as u64..to as u64).expect("read");
                assert!(found == content[from.min(to)..to], "{from}..{to}");
            }
        }
        assert!(read_range(&archive, row, 10..u64::MAX).expect("read") == content[10..]);
    };
    check(&staged);
    archive.flush(&Unwatched).expect("a flush");
    let archived = archive.reading().newest(&staged.record.name).expect("a catalogue").expect("it is still there");
    assert!(archived.archived);
    check(&archived);
}

#[test]
fn damage_in_staging_is_reported_and_spares_other_frames() {
    let home = Home::new(2, 1);
    let (archive, row) = staged(&home);
    let (_, data) = archive.reading().staged(row.row_id).expect("a catalogue").expect("it is staged");
    let place = data[1].place;
    let segment = home.path().join(format!("staging/{:016x}.segment", place.segment));
    let mut file = std::fs::read(&segment).expect("a segment");
    // In the third frame of the second record.
    file[place.offset as usize + 2 * 65_552 + 99] ^= 1;
    std::fs::write(&segment, file).expect("written");
    drop(archive);
    let archive = home.open();
    let record = 16 * 65_536;
    let at = |frame: u64| record + frame * 65_536..record + (frame + 1) * 65_536;
    let error = read_range(&archive, &row, at(2)).expect_err("a damaged frame");
    assert!(error.to_string().contains("is damaged at byte"), "{error}");
    for frame in [0, 1, 3] {
        let range = at(frame);
        assert!(read_range(&archive, &row, range.clone()).expect("a frame beside it") == bytes()[range.start as usize..range.end as usize]);
    }
    assert!(read_range(&archive, &row, 0..SIZE as u64).is_err());
}
