//! Bags that the writer has written are valid, whole, and have the names that were given.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::Path;

use fulgurite_bagit::{Bag, BagInfo, BagWriter, Options, PathRefusal, Scope, Verdict, Version, WriteError, WriteOptions, validate};
use fulgurite_digest::{Algorithm, Digest};

const ODD_NAMES: [&str; 16] = [
    "ark:/13030/x|1|producer/f",
    "a b  c",
    " leading and trailing ",
    "100%.txt",
    "100%25.txt",
    "a%0Ab",
    "line\nend",
    "carriage\r\nreturn",
    "*star",
    "back\\slash",
    "Núñez",
    "Nu\u{301}n\u{303}ez",
    "CASE",
    "case",
    "deep/er/and/deeper",
    "\u{feff}mark",
];

fn options(version: Version) -> WriteOptions {
    let mut info = BagInfo::new();
    info.push("Source-Organization", "Example").unwrap();
    info.push("Contact-Name", "a").unwrap();
    info.push("Contact-Name", "b: c").unwrap();
    WriteOptions {
        algorithms: vec![Algorithm::Sha512, Algorithm::Md5, Algorithm::Blake2b512],
        version,
        info,
        bagging_date: Some("2026-11-25".into()),
    }
}

fn assert_valid(bag: &Path, names: &[&str]) {
    let report = validate(bag, &Options { threads: 2.try_into().unwrap(), ..Options::default() }).unwrap();
    assert_eq!((report.verdict(), report.errors()), (Verdict::Valid, 0), "{:#?}", report.findings());
    assert_eq!(report.payload_files(), names.len() as u64);
    let entries: BTreeMap<String, usize> = Bag::open(bag)
        .unwrap()
        .inventory(&Options::default())
        .unwrap()
        .map(|entry| entry.map(|entry| (String::from_utf8(entry.path).unwrap(), entry.digests.len())).unwrap())
        .collect();
    let expected: BTreeMap<String, usize> = names.iter().map(|name| (format!("data/{name}"), 3)).collect();
    assert_eq!(entries, expected);
}

#[test]
fn odd_names_survive_writing_and_reading() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("bag");
    let mut writer = BagWriter::create(&bag, options(Version::V1_0)).unwrap();
    for name in ODD_NAMES {
        let written = writer.add(name, &mut name.as_bytes(), &[]).unwrap();
        assert_eq!((written.bytes, written.digests.len()), (name.len() as u64, 3));
    }
    writer.add_tag_file("metadata/a 100%.xml", &mut &b"<a/>"[..]).unwrap();
    assert_eq!(writer.finish().unwrap(), bag);
    assert_valid(&bag, &ODD_NAMES);
    for name in ODD_NAMES {
        assert_eq!(fs::read_to_string(bag.join("data").join(name)).unwrap(), name);
    }
    let bytes: usize = ODD_NAMES.iter().map(|name| name.len()).sum();
    assert_eq!(
        fs::read_to_string(bag.join("bag-info.txt")).unwrap(),
        format!(
            "Source-Organization: Example\nContact-Name: a\nContact-Name: b: c\nBagging-Date: 2026-11-25\nPayload-Oxum: {bytes}.{}\n",
            ODD_NAMES.len()
        )
    );
    assert_eq!(fs::read_to_string(bag.join("bagit.txt")).unwrap(), "BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn version_0_97_keeps_percent_signs_and_refuses_what_would_be_decoded() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("bag");
    let mut writer = BagWriter::create(&bag, options(Version::V0_97)).unwrap();
    let mut kept = Vec::new();
    for name in ODD_NAMES {
        match writer.add(name, &mut name.as_bytes(), &[]) {
            Ok(_) => kept.push(name),
            Err(WriteError::Ambiguous { path }) => assert_eq!(path, "a%0Ab"),
            Err(error) => panic!("{name:?}: {error}"),
        }
    }
    assert_eq!(kept.len(), ODD_NAMES.len() - 1);
    writer.finish().unwrap();
    assert_valid(&bag, &kept);
    assert!(fs::read_to_string(bag.join("manifest-md5.txt")).unwrap().contains("data/100%25.txt\n"));
}

#[test]
fn paths_that_a_bag_cannot_keep_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = BagWriter::create(folder.path().join("bag"), options(Version::V1_0)).unwrap();
    for (path, reason) in [
        ("", PathRefusal::Folder),
        ("/etc/passwd", PathRefusal::Absolute),
        ("../x", PathRefusal::Dots),
        ("a/../../../x", PathRefusal::Dots),
        ("a/./b", PathRefusal::Dots),
        ("a//b", PathRefusal::Dots),
        ("a/", PathRefusal::Folder),
        ("a\0b", PathRefusal::Nul),
    ] {
        let refused = writer.add(path, &mut io::empty(), &[]);
        assert!(matches!(&refused, Err(WriteError::Path { reason: found, .. }) if *found == reason), "{path:?}: {refused:?}");
    }
    writer.add("file", &mut io::empty(), &[]).unwrap();
    for path in ["file", "file/inner"] {
        assert!(matches!(writer.add(path, &mut io::empty(), &[]), Err(WriteError::Collision { .. })), "{path}");
    }
    for path in ["bagit.txt", "BagIt.TXT", "bag-info.txt", "data/x", "fetch.txt", "manifest-md5.txt", "tagmanifest-sha512.txt"] {
        assert!(matches!(writer.add_tag_file(path, &mut io::empty()), Err(WriteError::ReservedFile { .. })), "{path}");
    }
    for path in ["../x", "/x"] {
        assert!(matches!(writer.add_tag_file(path, &mut io::empty()), Err(WriteError::Path { .. })), "{path}");
    }
    assert!(writer.add(&"x".repeat(300), &mut io::empty(), &[]).is_err());
    let bag = writer.finish().unwrap();
    assert_valid(&bag, &["file"]);
}

/// Content whose reader fails.
struct Failing(&'static [u8]);

impl Read for Failing {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.0.is_empty() { Err(io::Error::other("gone")) } else { self.0.read(out) }
    }
}

#[test]
fn content_that_fails_or_differs_is_not_part_of_the_bag() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = BagWriter::create(folder.path().join("bag"), options(Version::V1_0)).unwrap();
    let known = |digits: &str| [Digest::from_hex(Algorithm::Sha1, digits).unwrap()];
    let right = known("a9993e364706816aba3e25717850c26c9cd0d89d");
    let wrong = known("00993e364706816aba3e25717850c26c9cd0d89d");
    assert!(matches!(writer.add("a", &mut Failing(b"ab"), &[]), Err(WriteError::Content { .. })));
    let differs = writer.add("a", &mut &b"abc"[..], &wrong).unwrap_err();
    assert!(differs.to_string().contains("a9993e364706816aba3e25717850c26c9cd0d89d was computed"), "{differs}");
    // After either, the same path can be added with good content.
    assert_eq!(writer.add("a", &mut &b"abc"[..], &right).unwrap().digests.len(), 4);
    let bag = writer.finish().unwrap();
    assert_valid(&bag, &["a"]);
}

#[test]
fn a_bag_appears_whole_and_an_interrupted_write_can_be_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("bag");
    let mut writer = BagWriter::create(&bag, options(Version::V1_0)).unwrap();
    writer.add("a", &mut &b"abc"[..], &[]).unwrap();
    assert!(!bag.exists());
    assert!(matches!(BagWriter::create(&bag, options(Version::V1_0)), Err(WriteError::Busy { .. })));
    drop(writer);
    // A process that was killed removes nothing, and leaves any part of a bag.
    let unlocked = folder.path().join(".third.bagging");
    fs::create_dir_all(unlocked.join("data/deep")).unwrap();
    fs::write(unlocked.join("manifest-md5.txt"), "torn").unwrap();
    let third = folder.path().join("third");
    let mut writer = BagWriter::create(&third, options(Version::V1_0)).unwrap();
    writer.add("b", &mut &b"abc"[..], &[]).unwrap();
    writer.finish().unwrap();
    assert_valid(&third, &["b"]);
    assert!(!unlocked.exists());
}

#[test]
fn a_bag_whose_files_were_lost_meanwhile_does_not_appear() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = BagWriter::create(folder.path().join("bag"), options(Version::V1_0)).unwrap();
    writer.add("a", &mut &b"abc"[..], &[]).unwrap();
    writer.add("b", &mut &b"abc"[..], &[]).unwrap();
    fs::rename(folder.path().join(".bag.bagging/data/a"), folder.path().join(".bag.bagging/data/A")).unwrap();
    let error = writer.finish().unwrap_err();
    assert!(matches!(error, WriteError::NameNotKept { .. }), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_writer_that_is_dropped_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = BagWriter::create(folder.path().join("bag"), options(Version::V1_0)).unwrap();
    writer.add("a", &mut &b"abc"[..], &[]).unwrap();
    drop(writer);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn nothing_that_exists_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("bag");
    fs::create_dir(&bag).unwrap();
    assert!(matches!(BagWriter::create(&bag, options(Version::V1_0)), Err(WriteError::Exists { .. })));
    fs::remove_dir(&bag).unwrap();
    let writer = BagWriter::create(&bag, options(Version::V1_0)).unwrap();
    fs::create_dir(&bag).unwrap();
    assert!(matches!(writer.finish(), Err(WriteError::Exists { .. })));
    assert_eq!(fs::read_dir(&bag).unwrap().count(), 0);
    // A link in the place of the folder that is built is neither followed nor removed.
    let elsewhere = tempfile::tempdir().unwrap();
    fs::write(elsewhere.path().join("kept"), "x").unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), folder.path().join(".b.bagging")).unwrap();
    assert!(matches!(BagWriter::create(folder.path().join("b"), options(Version::V1_0)), Err(WriteError::Write { .. })));
    assert!(elsewhere.path().join("kept").exists());
}

#[test]
fn unusable_options_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let create = |change: &dyn Fn(&mut WriteOptions)| {
        let mut options = options(Version::V1_0);
        change(&mut options);
        BagWriter::create(folder.path().join("bag"), options).map(|_| ())
    };
    assert!(matches!(create(&|options| options.algorithms.clear()), Err(WriteError::NoAlgorithm)));
    assert!(matches!(create(&|options| options.version = Version::V0_96), Err(WriteError::Version { .. })));
    for date in ["", "2026-1-1", "2026-13-01", "2026-00-10", "2026-01-32", "26-01-01", "2026-01-01T00:00:00Z", "+026-01-01"] {
        assert!(matches!(create(&|options| options.bagging_date = Some(date.into())), Err(WriteError::Date { .. })), "{date}");
    }
    for label in ["payload-oxum", "Bagging-Date"] {
        assert!(matches!(create(&|options| options.info.push(label, "x").unwrap()), Err(WriteError::Reserved { .. })), "{label}");
    }
    create(&|options| options.algorithms = Algorithm::ALL.to_vec()).unwrap();
}

#[test]
fn a_bag_that_is_not_accepted_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for is_accepted in [false, true] {
        let mut writer = BagWriter::create(folder.path().join("bag"), options(Version::V1_0)).unwrap();
        writer.add("a", &mut &b"abc"[..], &[]).unwrap();
        let finished = writer.finish_if(|bag| {
            // It can be read before it has its name.
            assert_eq!(bag.info().unwrap().values("Payload-Oxum").collect::<Vec<_>>(), ["3.1"]);
            is_accepted
        });
        assert_eq!(finished.unwrap().is_some(), is_accepted);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), usize::from(is_accepted));
    }
}

#[test]
fn all_files_are_listed_with_the_digests_of_their_own_manifests() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("bag");
    let mut writer = BagWriter::create(&bag, options(Version::V1_0)).unwrap();
    writer.add("a", &mut &b"abc"[..], &[]).unwrap();
    writer.add_tag_file("meta/notes", &mut &b"x"[..]).unwrap();
    writer.finish().unwrap();
    fs::write(bag.join("unlisted"), "x").unwrap();
    let files = Bag::open(&bag).unwrap().all_files(&Options::default()).unwrap();
    let found: BTreeMap<String, (Scope, usize)> = files
        .map(|entry| entry.unwrap())
        .map(|entry| (String::from_utf8(entry.path).unwrap(), (entry.scope, entry.digests.len())))
        .collect();
    assert_eq!(found["data/a"], (Scope::Payload, 3));
    for listed in ["bagit.txt", "bag-info.txt", "meta/notes", "manifest-md5.txt"] {
        assert_eq!(found[listed], (Scope::Tags, 3), "{listed}");
    }
    for unlisted in ["unlisted", "tagmanifest-md5.txt"] {
        assert_eq!(found[unlisted], (Scope::Tags, 0), "{unlisted}");
    }
    // A payload file, three tag files, three manifests and tag manifests, and an unlisted file.
    assert_eq!(found.len(), 1 + 3 + 3 + 3 + 1);
}
