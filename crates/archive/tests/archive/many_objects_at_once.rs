//! Many objects are looked up and read at once, each as if it were the only one.

use std::collections::BTreeMap;

use crate::support::{Home, noise, put_all, record, stage};
use fulgurite_archive::catalogue::VersionRow;
use fulgurite_archive::many::{FindError, ReadInto};
use fulgurite_archive::read_order::MediumPosition;
use fulgurite_archive::watch::Unwatched;
use fulgurite_archive::{Archive, object::ReadError};
use fulgurite_domain::{Kind, ObjectName};

fn found(archive: &Archive, names: &[Vec<u8>]) -> Vec<VersionRow> {
    let wanted: Vec<_> = names.iter().map(|name| (ObjectName(name.clone()), None)).collect();
    archive.find_many(&wanted).into_iter().map(|row| row.expect("stored")).collect()
}

/// Reads a part of each version: all but `less` bytes at either end.
fn read(archive: &Archive, rows: &[VersionRow], less: u64) -> Vec<Result<Vec<u8>, ReadError>> {
    let positions = archive.place_many(&rows.iter().collect::<Vec<_>>());
    let ranges: Vec<_> =
        rows.iter().map(|row| less.min(row.record.size)..row.record.size.saturating_sub(less).max(less.min(row.record.size))).collect();
    let mut content: Vec<Vec<u8>> = ranges.iter().map(|range| vec![0; (range.end - range.start) as usize]).collect();
    let reads = rows.iter().zip(positions).zip(ranges).zip(&mut content);
    let reads = reads.map(|(((version, position), range), out)| ReadInto { version, position: position.expect("placed"), range, out });
    let (results, _) = archive.read_many(reads.collect());
    results.into_iter().zip(content).map(|(result, content)| result.map(|()| content)).collect()
}

#[test]
fn every_object_is_read_whole_and_in_part_from_platters_and_staging() {
    let home = Home::new(2, 1);
    let archive = home.open();
    // Enough for several runs and lookups on each thread, with a few of many frames.
    let size = |i: u64| if i.is_multiple_of(97) { 300_000 } else { i % 700 };
    let file = |i: u64| (format!("f/{:05}", (i * 7919) % 3000).into_bytes(), noise(i, size(i) as usize));
    let archived: BTreeMap<Vec<u8>, Vec<u8>> = (0..1_500).map(file).collect();
    put_all(&archive, &archived);
    archive.flush(&Unwatched).expect("flushed");
    let staged: BTreeMap<Vec<u8>, Vec<u8>> = (1_500..2_000).map(file).collect();
    put_all(&archive, &staged);
    let all: BTreeMap<Vec<u8>, Vec<u8>> = archived.into_iter().chain(staged).collect();
    let mut names: Vec<Vec<u8>> = all.keys().cloned().collect();
    names.sort_by_key(|name| (name.last().copied(), name.clone()));
    // A name may be wanted twice.
    names.push(names[3].clone());
    let rows = found(&archive, &names);
    for less in [0, 1, 350] {
        for (name, content) in names.iter().zip(read(&archive, &rows, less)) {
            let (content, whole, less) = (content.expect("read"), &all[name], less as usize);
            let expected = if whole.len() <= 2 * less { &[][..] } else { &whole[less..whole.len() - less] };
            assert!(content == expected, "{}", String::from_utf8_lossy(name));
        }
    }
    assert!(read(&archive, &[], 0).is_empty());
}

#[test]
fn a_damaged_object_fails_alone() {
    let home = Home::new(1, 0);
    let archive = home.open();
    let files: BTreeMap<Vec<u8>, Vec<u8>> = (0..300_u64).map(|i| (format!("{i:03}").into_bytes(), noise(i, 2_000))).collect();
    put_all(&archive, &files);
    let names: Vec<Vec<u8>> = files.keys().cloned().collect();
    let mut rows = found(&archive, &names);
    // As if the catalogue and the content disagreed.
    rows[150].record.sha256.0[0] ^= 1;
    for (number, (name, content)) in names.iter().zip(read(&archive, &rows, 0)).enumerate() {
        match content {
            Ok(content) => assert!(content == files[name] && number != 150),
            Err(ReadError::Digest { .. }) => assert_eq!(number, 150),
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_name_without_content_says_why() {
    let home = Home::new(1, 0);
    let object = |name, kind, content: &'static [u8]| (record(name, 1, kind, content, &[]), content);
    stage(&home, 1, &[object("file", Kind::File, b"x"), object("folder", Kind::Directory, b""), object("gone", Kind::DeletionMarker, b"")]);
    let archive = home.open();
    let id = found(&archive, &[b"file".to_vec()])[0].id;
    let wanted = [("file", None), ("file", Some(id)), ("folder", None), ("gone", None), ("absent", None), ("gone", Some(id))];
    let wanted = wanted.map(|(name, id)| (ObjectName(name.into()), id));
    let results = archive.find_many(&wanted);
    assert!(matches!(
        &results[..],
        [Ok(_), Ok(_), Err(FindError::Folder), Err(FindError::Deleted), Err(FindError::NotFound), Err(FindError::NoVersion(_))]
    ));
    assert!(matches!(archive.place_many(&[results[0].as_ref().expect("found")])[..], [Ok(MediumPosition::Staged { .. })]));
}
