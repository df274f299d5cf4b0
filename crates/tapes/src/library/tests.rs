use std::collections::BTreeMap;
use std::sync::mpsc::channel;

use fulgurite_chance::{Xorshift, noise};

use super::*;
use crate::make::{BLOCK_BYTES, MakeError, VolumeWriter};

struct Made {
    folder: tempfile::TempDir,
    library: TapeLibrary,
    files: BTreeMap<String, Vec<u8>>,
}

/// Volumes of ten blocks, with files of up to three.
fn made(settings: &str) -> Made {
    let folder = tempfile::tempdir().expect("a folder");
    let mut writer = VolumeWriter::new(folder.path().to_owned(), 10 * BLOCK_BYTES);
    let mut files = BTreeMap::new();
    let (mut volume, mut room) = (1, 10);
    for number in 0..30_u64 {
        let size = [0, 1, BLOCK_BYTES, BLOCK_BYTES + 1, 3 * BLOCK_BYTES - 1][number as usize % 5] as usize;
        let content: Vec<u8> = noise(number + 1, size);
        let path = format!("night {}/{number}", number % 3);
        writer
            .add(&path, size as u64, |sink| {
                for piece in content.chunks(100_000) {
                    assert!(sink(piece));
                }
                Ok(size as u64)
            })
            .expect("written");
        let blocks = (size as u64).div_ceil(BLOCK_BYTES);
        if blocks > room {
            (volume, room) = (volume + 1, 10);
        }
        room -= blocks;
        files.insert(format!("T{volume:05}/{path}"), content);
    }
    assert_eq!(writer.finish().expect("finished"), volume);
    std::fs::write(folder.path().join(FILE), settings).expect("written");
    let library = TapeLibrary::open(folder.path()).expect("a library");
    Made { folder, library, files }
}

const INSTANT: &str = "[emulation]\nspeedup = 0\n[volumes]\ncapacity = \"5 MB\"\nwraps = 4\n";

fn content(connection: &mut dyn Connection, location: &str) -> Result<Vec<u8>, Refusal> {
    let mut content = Vec::new();
    let passed = connection.read(location, &mut |piece| {
        content.extend_from_slice(piece);
        true
    })?;
    assert_eq!(passed, content.len() as u64);
    Ok(content)
}

fn listed(library: &TapeLibrary) -> Vec<Listed> {
    let mut listed = Vec::new();
    let mut connection = library.connect().expect("a connection");
    connection
        .list(&mut |file| {
            listed.push(file);
            true
        })
        .expect("listed");
    listed
}

fn sum(library: &TapeLibrary, of: fn(&DriveFigures) -> f64) -> f64 {
    library.figures().iter().map(of).sum()
}

#[test]
fn what_was_written_is_listed_with_positions_and_read_back() {
    let Made { folder: _folder, library, files } = made(INSTANT);
    let mut connection = library.connect().expect("a connection");
    let all = listed(&library);
    assert_eq!(all.len(), files.len());
    for file in &all {
        let expected = &files[&file.location];
        assert_eq!(file.bytes, Some(expected.len() as u64));
        assert_eq!(connection.length(&file.location), Ok(expected.len() as u64));
        assert!(content(&mut *connection, &file.location) == Ok(expected.clone()), "{}", file.location);
        let mut digester = fulgurite_digest::Digester::new(&[fulgurite_digest::Algorithm::Sha256]);
        digester.update(expected);
        assert_eq!(file.digest, digester.finish().pop());
    }
    for (location, cause) in
        [("T00001/nothing", Cause::Missing), ("T00099/a", Cause::Fault), ("../x", Cause::Unsupported), ("T00001", Cause::Missing)]
    {
        assert_eq!(connection.length(location).map_err(|refusal| refusal.cause), Err(cause), "{location}");
    }
    assert_eq!(connection.remove(&all[0].location).map_err(|refusal| refusal.cause), Err(Cause::Unsupported));
}

#[test]
fn reading_in_the_order_of_positions_loads_each_tape_once_and_winds_least() {
    let read = |library: &TapeLibrary, order: &[Listed]| {
        let mut connection = library.connect().expect("a connection");
        for file in order {
            content(&mut *connection, &file.location).expect("read");
        }
    };
    let in_order = made(INSTANT);
    let mut order = listed(&in_order.library);
    order.sort_by_key(|file| file.position.as_ref().map(|position| (position.volume.clone(), position.block)));
    read(&in_order.library, &order);
    let volumes = in_order.library.volumes().expect("volumes").len() as u64;
    assert!((sum(&in_order.library, |of| of.loads as f64) - volumes as f64).abs() < 0.5, "{:?}", in_order.library.figures());
    let shuffled = made(INSTANT);
    let mut chance = Xorshift::new(3);
    let mut order = listed(&shuffled.library);
    for last in (1..order.len()).rev() {
        order.swap(last, chance.below(last + 1));
    }
    read(&shuffled.library, &order);
    assert!(sum(&shuffled.library, DriveFigures::busy_s) > 2.0 * sum(&in_order.library, DriveFigures::busy_s));
    assert!((sum(&shuffled.library, |of| of.reading_s) - sum(&in_order.library, |of| of.reading_s)).abs() < 1e-6);
}

#[test]
fn a_volume_is_in_one_drive_at_a_time_and_connections_wait_for_it() {
    let Made { folder: _folder, library, files } = made(&format!("{INSTANT}[drives]\ncount = 2\n"));
    let location = files.iter().find(|(_, content)| content.len() > 2 * BLOCK_BYTES as usize).map(|(location, _)| location.clone());
    let location = location.expect("a large file");
    let (begun, has_begun) = channel();
    let (go_on, goes_on) = channel::<()>();
    thread::scope(|scope| {
        let (library, location) = (&library, &location);
        scope.spawn(move || {
            let mut connection = library.connect().expect("a connection");
            let mut is_first = true;
            connection
                .read(location, &mut |_| {
                    if std::mem::take(&mut is_first) {
                        begun.send(()).expect("the test listens");
                        goes_on.recv().expect("the test says so");
                    }
                    true
                })
                .expect("read");
        });
        has_begun.recv().expect("it reads");
        let other = scope.spawn(move || {
            let mut connection = library.connect().expect("a connection");
            content(&mut *connection, location)
        });
        // A third connection finds the other drive free.
        let elsewhere = files.keys().find(|other| other[..6] != location[..6]).expect("a file of another volume");
        let mut connection = library.connect().expect("a connection");
        assert!(content(&mut *connection, elsewhere).is_ok());
        go_on.send(()).expect("it waits");
        assert!(other.join().expect("it ends") == Ok(files[location].clone()));
    });
    assert!((sum(&library, |of| of.loads as f64) - 2.0).abs() < 0.5, "{:?}", library.figures());
}

#[test]
fn drives_take_their_time_divided_by_the_speedup() {
    let settings = "[emulation]\nspeedup = 1000\n[drives]\nload = \"20 s\"\nlocate = \"0 s\"\nwind = \"0 s\"\nwrap = \"0 s\"\n\
                    turn = \"0 s\"\nback = \"0 s\"\nrate = \"1 MB/s\"\n";
    let Made { folder: _folder, library, files } = made(settings);
    let (location, expected) = files.iter().max_by_key(|(_, content)| content.len()).expect("a file");
    let mut connection = library.connect().expect("a connection");
    let began = Instant::now();
    content(&mut *connection, location).expect("read");
    let least = (20.0 + expected.len() as f64 / 1e6) / 1000.0;
    assert!(began.elapsed().as_secs_f64() >= least, "{:?}, not {least}", began.elapsed());
    assert!((sum(&library, DriveFigures::busy_s) - least * 1000.0).abs() < 1e-3);
}

#[test]
fn damaged_volumes_and_absent_libraries_are_named() {
    let made = made(INSTANT);
    let folder = made.folder.path();
    let list = |library: &TapeLibrary| {
        library.connect().and_then(|mut connection| connection.list(&mut |_| true)).map_err(|refusal| refusal.to_string())
    };
    let mut connection = made.library.connect().expect("a connection");
    // Content that the index has and the tape hasn't.
    let last = made.files.iter().filter(|(location, content)| location.starts_with("T00001") && !content.is_empty());
    let last = last.max_by_key(|(location, _)| location[15..].parse::<u32>().ok()).expect("a file").0;
    let blocks = File::options().write(true).open(folder.join("T00001/b")).expect("blocks");
    blocks.set_len(1).expect("cut");
    let refused = content(&mut *connection, last).expect_err("it is cut");
    assert!(refused.cause == Cause::Fault && refused.detail.contains("T00001"), "{refused}");
    // Another volume's index.
    std::fs::copy(folder.join("T00002/index.xml"), folder.join("T00001/index.xml")).expect("copied");
    assert!(list(&made.library).is_err_and(|refused| refused.contains("another volume's")));
    // A path that an index has twice.
    let index = std::fs::read_to_string(folder.join("T00002/index.xml")).expect("an index");
    let file = index.lines().find(|line| line.starts_with("<file>")).expect("a file");
    std::fs::write(folder.join("T00002/index.xml"), index.replace(file, &format!("{file}\n{file}"))).expect("written");
    std::fs::remove_file(folder.join("T00001/index.xml")).expect("removed");
    std::fs::remove_file(folder.join("T00001/label.xml")).expect("removed");
    assert!(list(&made.library).is_err_and(|refused| refused.contains("label.xml of the volume T00001")));
    std::fs::remove_dir_all(folder.join("T00001")).expect("removed");
    assert!(list(&made.library).is_err_and(|refused| refused.contains("twice")));
    std::fs::write(folder.join("T00002/index.xml"), index).expect("written");
    assert_eq!(list(&made.library), Ok(()));
    // An entry that leads nowhere may have been a volume.
    std::os::unix::fs::symlink("nowhere", folder.join("T00009")).expect("made");
    assert!(list(&made.library).is_err_and(|refused| refused.contains("T00009")));
    std::fs::remove_file(folder.join("T00009")).expect("removed");
    std::fs::create_dir(folder.join("lost+found")).expect("made");
    assert_eq!(list(&made.library), Ok(()));
    std::fs::remove_file(folder.join(FILE)).expect("removed");
    assert_eq!(made.library.connect().err().map(|refusal| refusal.cause), Some(Cause::Connection));
}

#[test]
fn sparse_files_and_several_extents_are_put_together() {
    let Made { folder, library, .. } = made(INSTANT);
    let label = read_label(BufReader::new(File::open(folder.path().join("T00001/label.xml")).expect("a label"))).expect("a label");
    std::fs::write(folder.path().join("T00001/a"), b"0123456789").expect("written");
    let extent = |partition, offset, bytes, file_offset| Extent { partition, block: 0, offset, bytes, file_offset };
    let extents = vec![extent(Partition::A, 2, 3, 1), extent(Partition::A, 7, 2, 6)];
    let file = TapeFile { path: "x".to_owned(), bytes: 10, extents, digest: None };
    let mut index = Vec::new();
    crate::index::write_index(&mut index, &crate::index::IndexHead { uuid: label.uuid, generation: 2 }, "T00001", &[file])
        .expect("written");
    std::fs::write(folder.path().join("T00001/index.xml"), index).expect("written");
    let mut connection = library.connect().expect("a connection");
    assert_eq!(content(&mut *connection, "T00001/x"), Ok(b"\x00234\0\x0078\0\0".to_vec()));
}

#[test]
fn a_file_larger_than_a_volume_and_one_that_changes_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut writer = VolumeWriter::new(folder.path().to_owned(), 2 * BLOCK_BYTES);
    let refused = writer.add("a", 2 * BLOCK_BYTES + 1, |_| Ok(0));
    assert!(matches!(refused, Err(MakeError::TooLarge { .. })), "{refused:?}");
    let refused = writer.add("b", 3, |sink| if sink(b"1234") { Ok(4) } else { Err(Refusal::new(Cause::Abandoned, "")) });
    assert!(matches!(refused, Err(MakeError::Changed { .. })), "{refused:?}");
}
