use fulgurite_digest::{Algorithm, Digest, Digester};
use fulgurite_domain::Modified;

use super::*;

fn read(spooled: &Spooled, offset: u64, bytes: u64) -> Vec<u8> {
    let mut content = Vec::new();
    spooled.reader(offset, bytes).read_to_end(&mut content).expect("it can be read");
    content
}

fn sha256(content: &[u8]) -> Digest {
    let mut digester = Digester::new(&[Algorithm::Sha256]);
    digester.update(content);
    digester.finish().remove(0)
}

/// Appends a file, and notes that it is complete.
fn append(writer: &mut SpoolWriter, id: i64, content: &[u8]) -> SpooledFile {
    let offset = writer.bytes();
    writer.write(content).expect("written");
    let file = SpooledFile {
        id,
        name: format!("a/{id}\n"),
        offset,
        bytes: content.len() as u64,
        sha256: sha256(content),
        expected: Some(sha256(b"stated")),
        modified: Some(Modified { seconds: -5, nanoseconds: 7 }),
        revision: Some("1".to_owned()),
        listed: Some("an ETag".to_owned()),
    };
    writer.complete(&file).expect("noted");
    file
}

fn folder() -> (tempfile::TempDir, SpoolVolume, impl Fn() -> usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let spool = folder.path().join("spool");
    let volume = SpoolVolume::Folder(spool.clone());
    (folder, volume, move || fs::read_dir(&spool).expect("a folder").count())
}

#[test]
fn both_kinds_give_back_what_was_spooled_and_leave_nothing() {
    let (_folder, in_folder, entries) = folder();
    for volume in [SpoolVolume::Memory(Blocks::default()), in_folder] {
        let _prepared = volume.prepare("m").expect("prepared");
        let mut writer = volume.begin("m", LotId(3)).expect("begun");
        writer.write(b"first").expect("written");
        writer.write(b"half a sec").expect("written");
        writer.cut(5).expect("cut");
        writer.write(b"third").expect("written");
        assert_eq!(writer.bytes(), 10);
        let spooled = writer.finish();
        assert_eq!((read(&spooled, 0, 5), read(&spooled, 5, 5), read(&spooled, 5, 0)), (b"first".to_vec(), b"third".to_vec(), vec![]));
        spooled.release();
    }
    assert_eq!(entries(), 1, "released lots are removed, and the lock stays");
}

#[test]
fn complete_files_of_a_killed_run_are_found_and_nothing_else() {
    let (folder, volume, entries) = folder();
    let prepared = volume.prepare("m").expect("prepared");
    // The second lot has no complete file.
    let mut writer = volume.begin("m", LotId(4)).expect("begun");
    let first = append(&mut writer, 7, b"first");
    let second = append(&mut writer, 9, b"");
    writer.write(b"half a thi").expect("written");
    drop(writer);
    let mut writer = volume.begin("m", LotId(5)).expect("begun");
    writer.write(b"half").expect("written");
    drop(writer);
    fs::write(folder.path().join("spool/.fulgurite-spool-parking.lot"), "not a lot").expect("written");
    assert_eq!(entries(), 6);
    assert!(volume.prepare("m").is_err(), "one run at a time uses a folder");
    drop(prepared);
    let mut prepared = volume.prepare("m").expect("prepared");
    assert_eq!(entries(), 4, "the lot without complete files is removed");
    let found = prepared.found.remove(0);
    assert!(prepared.found.is_empty());
    assert_eq!((found.id, &found.files), (LotId(4), &vec![first, second]));
    let list = folder.path().join("spool/.fulgurite-spool-4.files");
    let text = fs::read_to_string(&list).expect("a list");
    assert_eq!(found.is_doubtful, !text.lines().next().is_some_and(|header| header.contains("-")), "unless the system can't say");
    assert_eq!(read(&found.spooled, 0, 5), b"first");
    let content = folder.path().join("spool/.fulgurite-spool-4.lot");
    assert_eq!(fs::metadata(&content).expect("a file").len(), 5, "the part of a file is cut off");
    // A run that ends early leaves what it found; another migration removes it.
    drop((found, prepared));
    // After a restart, what isn't synced is doubtful.
    fs::write(&list, text.replacen("\"boot\":\"", "\"boot\":\"0", 1).replacen("\"boot\":null", "\"boot\":\"0\"", 1)).expect("written");
    let found = volume.prepare("m").expect("prepared").found;
    assert!(found.len() == 1 && found[0].is_doubtful);
    assert!(volume.prepare("another").expect("prepared").found.is_empty());
    assert_eq!(entries(), 2);
}

#[test]
fn of_damaged_lists_only_what_is_sound_is_used() {
    let (folder, volume, _) = folder();
    let list = folder.path().join("spool/.fulgurite-spool-1.files");
    let content = folder.path().join("spool/.fulgurite-spool-1.lot");
    let lines = |change: &dyn Fn(Vec<String>) -> String| {
        // What is left of the case before is another migration's.
        drop(volume.prepare("another").expect("prepared"));
        let mut writer = volume.begin("m", LotId(1)).expect("begun");
        for id in 1..=3 {
            append(&mut writer, id, b"12345");
        }
        drop(writer);
        let text = fs::read_to_string(&list).expect("a list");
        fs::write(&list, change(text.lines().map(str::to_owned).collect())).expect("written");
        volume.prepare("m").expect("prepared").found.first().map_or(0, |lot| lot.files.len())
    };
    assert_eq!(lines(&|lines| lines.join("\n") + "\n"), 3);
    assert_eq!(lines(&|lines| lines[..3].join("\n") + "\n{\"id\":3,\"na"), 2);
    assert_eq!(lines(&|lines| [&lines[0], &lines[1], "\0\0\0\0", &lines[3]].join("\n")), 1);
    assert_eq!(lines(&|lines| [&*lines[0], &lines[1], &lines[1]].join("\n")), 1, "two files don't overlap");
    assert_eq!(lines(&|lines| lines.join("\n").replace("\"bytes\":5", "\"bytes\":18446744073709551615")), 0);
    assert_eq!(lines(&|lines| lines[1..].join("\n")), 0);
    assert_eq!(lines(&|_| String::new()), 0);
    let cut = |_: Vec<String>| {
        fs::OpenOptions::new().write(true).open(&content).and_then(|file| file.set_len(12)).expect("cut");
        fs::read_to_string(&list).expect("a list")
    };
    assert_eq!(lines(&cut), 2);
}
