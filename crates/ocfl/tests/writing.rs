//! What is written is valid, complete, and the same after a crash.

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use fulgurite_digest::Algorithm;
use fulgurite_ocfl::{Layout, ObjectOptions, Scope, SpecVersion, StorageRoot, Tuples, Verdict, WriteError};
use support::{codes, describe, digest, files, info, object, put_files, root, validate, validate_all};

const ODD_PATHS: [&str; 12] = [
    "ark:/13030/x|1|producer/f",
    "with space/100%/a+b.txt",
    "caf\u{e9}",
    "cafe\u{301}",
    "CON/aux.txt",
    "ends with. /dot.",
    "A.txt",
    "a.txt",
    "%2e%2e/escaped",
    "back\\slash/..\\..\\x",
    "newline\nand\ttab",
    "日本語/☃",
];

#[test]
fn odd_logical_paths_come_back_as_they_were() {
    let (_folder, root) = root();
    let long = "y".repeat(3_000);
    let mut writer = root.create_object("ark:/13030/x", &ObjectOptions::default(), info("odd")).unwrap();
    for path in ODD_PATHS.into_iter().chain([&*long]) {
        writer.add(path, &mut path.as_bytes(), &[]).unwrap();
    }
    let object = writer.commit().unwrap().object;
    let report = validate(&object);
    assert_eq!((report.verdict(), codes(&report)), (Verdict::Valid, vec![]), "{}", describe(&report));
    assert_eq!(report.files_read, 13);

    let inventory = object.inventory().unwrap();
    let head = inventory.versions().last().unwrap();
    for path in ODD_PATHS.into_iter().chain([&*long]) {
        let mut content = String::new();
        object.open(inventory.content_path(head, path).unwrap()).unwrap().read_to_string(&mut content).unwrap();
        assert_eq!(content, path);
    }
    for path in files(object.folder()).keys() {
        let path = path.to_str().unwrap();
        assert!(path.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ') && !path.contains(['\\', ':', '|']), "{path}");
    }
    assert_eq!(validate_all(&root).verdict(), Verdict::Valid);
}

#[test]
fn a_new_version_stores_only_new_content() {
    let (_folder, root) = root();
    let object = object(&root, "urn:x", &[("a", "one"), ("b", "two"), ("c/d", "one")]);
    let mut writer = root.new_version(&object, &[Algorithm::Md5, Algorithm::Sha256], info("second")).unwrap();
    assert!(!writer.add("again", &mut &b"two"[..], &[]).unwrap().is_stored);
    assert!(!writer.add("known", &mut &b"one"[..], &[digest(b"one", Algorithm::Sha512)]).unwrap().is_stored);
    assert!(writer.add("b", &mut &b"three"[..], &[]).unwrap().is_stored);
    assert!(writer.remove("c/d") && !writer.remove("c/d"));
    let committed = writer.commit().unwrap();
    assert_eq!((committed.version.to_string().as_str(), committed.files), ("v2", 1));

    let report = validate(&object);
    assert_eq!((report.verdict(), codes(&report)), (Verdict::Valid, vec![]), "{}", describe(&report));
    let inventory = object.inventory().unwrap();
    let paths = |number| {
        let version = inventory.version(number).unwrap();
        inventory.logical_paths(version).map(|(path, digest)| (path.to_owned(), digest.clone())).collect::<BTreeMap<_, _>>()
    };
    let of = |content: &str| digest(content.as_bytes(), Algorithm::Sha512);
    let expected =
        |pairs: &[(&str, &str)]| pairs.iter().map(|(path, content)| ((*path).to_owned(), of(content))).collect::<BTreeMap<_, _>>();
    assert_eq!(paths(1), expected(&[("a", "one"), ("b", "two"), ("c/d", "one")]));
    assert_eq!(paths(2), expected(&[("a", "one"), ("again", "two"), ("b", "three"), ("known", "one")]));

    let head: Vec<_> = inventory.files(Scope::Head).collect();
    let all: Vec<_> = inventory.files(Scope::All).collect();
    assert_eq!((head.len(), all.len()), (3, 3));
    let three = all.iter().find(|file| file.path == "v2/content/b").unwrap();
    assert_eq!(three.digests, [of("three"), digest(b"three", Algorithm::Md5), digest(b"three", Algorithm::Sha256)]);
    assert_eq!(three.logical_paths, [Box::from("b")]);

    let mut writer = root.new_version(&object, &[], info("third")).unwrap();
    writer.clear();
    assert_eq!(writer.commit().unwrap().files, 0);
    assert_eq!(codes(&validate(&object)), [""; 0]);
    let inventory = object.inventory().unwrap();
    assert_eq!((inventory.files(Scope::Head).count(), inventory.files(Scope::All).count()), (0, 3));
}

#[test]
fn a_version_relies_on_content_of_earlier_versions_only_if_it_is_whole() {
    let (_folder, root) = root();
    let object = object(&root, "urn:x", &[("a", "one"), ("b", "two")]);
    let path = object.folder().join("v1/content/a");
    let known = [digest(b"one", Algorithm::Sha512)];
    let says = |expected: &str| {
        let mut writer = root.new_version(&object, &[], info("second")).unwrap();
        for known in [&known[..], &[]] {
            match writer.add("again", &mut &b"one"[..], known) {
                Err(WriteError::DamagedContent { path, what, .. }) => assert_eq!((&*path, what), ("v1/content/a", expected)),
                other => panic!("{other:?}"),
            }
        }
        // Other content can be added.
        writer.add("b", &mut &b"two"[..], &[]).unwrap();
    };
    fs::write(&path, "One").unwrap();
    says("does not have the digest that the inventory states");
    fs::remove_file(&path).unwrap();
    says("is missing");
    std::os::unix::fs::symlink("b", &path).unwrap();
    let mut writer = root.new_version(&object, &[], info("second")).unwrap();
    assert!(matches!(writer.add("again", &mut &b"one"[..], &[]), Err(WriteError::Object(_))));
}

#[test]
fn content_added_and_removed_again_leaves_nothing_behind() {
    let (_folder, root) = root();
    let options = ObjectOptions { algorithm: Algorithm::Sha256, fixity: vec![Algorithm::Md5] };
    let mut writer = root.create_object("urn:x", &options, info("first")).unwrap();
    writer.add("gone/deep/a", &mut &b"gone"[..], &[]).unwrap();
    writer.add("kept", &mut &b"kept"[..], &[]).unwrap();
    writer.add("gone/b", &mut &b"gone too"[..], &[]).unwrap();
    assert!(writer.remove("gone/deep/a") && writer.remove("gone/b"));
    let object = writer.commit().unwrap().object;
    let report = validate(&object);
    assert_eq!((report.verdict(), codes(&report)), (Verdict::Valid, vec!["W004".to_owned()]), "{}", describe(&report));
    assert_eq!(report.files, 1);
    assert!(!object.folder().join("v1/content/gone").exists());
}

#[test]
fn unusable_content_and_paths_are_refused_one_by_one() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the source is gone"))
        }
    }
    let (_folder, root) = root();
    let mut writer = root.create_object("urn:x", &ObjectOptions::default(), info("first")).unwrap();
    writer.add("a/b", &mut &b"x"[..], &[]).unwrap();
    let mut add = |path: &str, content: &mut dyn Read, known: &[_]| writer.add(path, content, known).unwrap_err();
    for path in ["", "/a", "a/", "a//b", "./a", "a/../b", ".."] {
        assert!(matches!(add(path, &mut io::empty(), &[]), WriteError::LogicalPath { .. }), "{path}");
    }
    assert!(matches!(add("a", &mut io::empty(), &[]), WriteError::Conflict { other, .. } if other == "a/b"));
    assert!(matches!(add("a/b/c", &mut io::empty(), &[]), WriteError::Conflict { other, .. } if other == "a/b"));
    assert!(matches!(add("a/b", &mut io::empty(), &[]), WriteError::Repeated { .. }));
    assert!(matches!(add(&"x/".repeat(20_000), &mut io::empty(), &[]), WriteError::LongPath { bytes: 40_000 }));
    assert!(matches!(add("c", &mut Broken, &[]), WriteError::Content { .. }));
    let wrong = [digest(b"y", Algorithm::Md5), digest(b"x", Algorithm::Sha512)];
    assert!(matches!(add("c", &mut &b"x"[..], &wrong), WriteError::Digest { algorithm: Algorithm::Md5, .. }));
    assert!(matches!(add("d", &mut &b"z"[..], &wrong[..1]), WriteError::Digest { .. }));
    let object = writer.commit().unwrap().object;
    assert_eq!(codes(&validate(&object)), [""; 0]);
    assert_eq!(object.inventory().unwrap().files(Scope::All).count(), 1);
}

#[test]
fn impossible_versions_are_refused() {
    let (_folder, root) = root();
    let create = |id: &str, options: &ObjectOptions, info| root.create_object(id, options, info).map(drop).unwrap_err();
    let good = ObjectOptions::default();
    assert!(matches!(create("", &good, info("x")), WriteError::NoId));
    let md5 = ObjectOptions { algorithm: Algorithm::Md5, fixity: vec![] };
    assert!(matches!(create("a", &md5, info("x")), WriteError::Algorithm { .. }));
    let mut wrong = info("x");
    wrong.created = "today".to_owned();
    assert!(matches!(create("a", &good, wrong), WriteError::Created { .. }));
    let mut wrong = info("x");
    wrong.user.as_mut().unwrap().name.clear();
    assert!(matches!(create("a", &good, wrong), WriteError::NoUserName));

    let object = object(&root, "a", &[("x", "y")]);
    assert!(matches!(create("a", &good, info("x")), WriteError::Exists { .. }));
    let other = support::root();
    assert!(matches!(other.1.new_version(&object, &[], info("x")), Err(WriteError::OtherRoot { .. })));
    let writer = root.new_version(&object, &[], info("x")).unwrap();
    assert!(matches!(root.new_version(&object, &[], info("x")), Err(WriteError::Busy { .. })));
    drop(writer);
    root.new_version(&object, &[], info("x")).unwrap().commit().unwrap();
    fs::create_dir_all(object.folder().join("extensions/0005-mutable-head")).unwrap();
    assert!(matches!(root.new_version(&object, &[], info("x")), Err(WriteError::MutableHead { .. })));
    fs::remove_dir_all(object.folder().join("extensions")).unwrap();
    fs::create_dir(object.folder().join("v3")).unwrap();
    assert!(matches!(root.new_version(&object, &[], info("x")), Err(WriteError::Damaged { .. })));
}

#[test]
fn a_version_that_is_given_up_leaves_no_trace() {
    let (_folder, root) = root();
    let object = object(&root, "a", &[("x", "y")]);
    let before = files(root.folder());
    let mut writer = root.new_version(&object, &[], info("x")).unwrap();
    writer.add("new", &mut &b"new"[..], &[]).unwrap();
    drop(writer);
    let mut writer = root.create_object("b", &ObjectOptions::default(), info("x")).unwrap();
    writer.add("new", &mut &b"new"[..], &[]).unwrap();
    drop(writer);
    assert_eq!(files(root.folder()), before);
    assert!(!root.folder().join("extensions/fulgurite-staging").exists());
    assert_eq!(validate_all(&root).findings.kept(), []);
}

type Files = BTreeMap<PathBuf, Vec<u8>>;

/// The states of a storage root that crashes leave while version 2 is published, with the journal
/// as the writer makes it, and whether the version is complete.
fn crashes(before: &Files, after: &Files, place: &str) -> Vec<(Files, bool)> {
    let place = Path::new(place);
    let staging = Path::new("extensions/fulgurite-staging").join(digest(b"ark:/1/x", Algorithm::Sha256).hex());
    let mut state = before.clone();
    for file in ["inventory.json", "inventory.json.sha512"] {
        state.insert(staging.join("before").join(file), before[&place.join(file)].clone());
    }
    state.insert(staging.join("next/v2/inventory.json"), b"whatever".to_vec());
    let mut states = vec![(state.clone(), false)];
    let journal = format!("{}\nv2\ninventory.json.sha512\n", place.display());
    state.insert(staging.join("journal"), journal.into_bytes());
    states.push((state.clone(), false));
    for (path, content) in after.iter().filter(|(path, _)| path.starts_with(place.join("v2"))) {
        state.insert(path.clone(), content.clone());
    }
    states.push((state.clone(), false));
    state.insert(place.join("inventory.json"), after[&place.join("inventory.json")].clone());
    states.push((state.clone(), false));
    state.insert(place.join("inventory.json.sha512"), after[&place.join("inventory.json.sha512")].clone());
    states.push((state, true));
    states
}

#[test]
fn a_crash_while_a_version_is_published_leaves_the_old_object_or_the_new_one() {
    let (folder, root) = root();
    let object = object(&root, "ark:/1/x", &[("a", "one")]);
    let place = root.place(&object);
    let before = files(root.folder());
    let write = |root: &StorageRoot| {
        let object = root.object("ark:/1/x").unwrap();
        let mut writer = root.new_version(&object, &[], info("second"))?;
        writer.add("b", &mut &b"two"[..], &[]).unwrap();
        writer.commit()
    };
    write(&root).unwrap();
    let after = files(root.folder());

    for (number, (state, is_complete)) in crashes(&before, &after, &place).into_iter().enumerate() {
        let again = folder.path().join(format!("crash {number}"));
        put_files(&again, &state);
        let root = StorageRoot::open(&again).unwrap();
        let object = root.object("ark:/1/x").unwrap();
        // Only a whole version is valid.
        let v2_is_there = state.keys().any(|path| path.starts_with(Path::new(&place).join("v2")));
        let expected = if v2_is_there && !is_complete { Verdict::Invalid } else { Verdict::Valid };
        assert_eq!(validate(&object).verdict(), expected, "state {number}");

        assert_eq!(root.recover().unwrap(), 1, "state {number}");
        assert_eq!(files(&again), if is_complete { after.clone() } else { before.clone() }, "state {number}");
        assert_eq!(validate_all(&root).verdict(), Verdict::Valid);

        // A writer does the same before its own work.
        fs::remove_dir_all(&again).unwrap();
        put_files(&again, &state);
        let committed = write(&root).unwrap();
        assert_eq!(committed.version.number(), if is_complete { 3 } else { 2 }, "state {number}");
        assert_eq!(validate_all(&root).verdict(), Verdict::Valid, "state {number}");
    }
}

#[test]
fn an_object_that_was_changed_after_a_crash_is_not_touched() {
    let (folder, root) = root();
    let object = object(&root, "ark:/1/x", &[("a", "one")]);
    let place = root.place(&object);
    let before = files(root.folder());
    root.new_version(&object, &[], info("second")).unwrap().commit().unwrap();
    let after = files(root.folder());
    let (mut state, _) = crashes(&before, &after, &place).remove(2);
    state.insert(Path::new(&place).join("inventory.json"), b"changed elsewhere".to_vec());
    let again = folder.path().join("again");
    put_files(&again, &state);
    let root = StorageRoot::open(&again).unwrap();
    assert!(matches!(root.recover(), Err(WriteError::Unclear { .. })));
    assert_eq!(files(&again), state);
}

#[test]
fn an_interrupted_object_is_no_object_and_can_be_written_again() {
    let (_folder, root) = root();
    let staging = root.folder().join("extensions/fulgurite-staging").join(digest(b"urn:new", Algorithm::Sha256).hex());
    fs::create_dir_all(staging.join("next/v1/content")).unwrap();
    fs::write(staging.join("next/v1/content/x"), "half").unwrap();
    fs::write(staging.join("next/0=ocfl_object_1.1"), "ocfl_object_1.1\n").unwrap();
    assert_eq!(root.objects().count(), 0);
    assert_eq!(validate_all(&root).verdict(), Verdict::Valid);
    let object = object(&root, "urn:new", &[("x", "whole")]);
    assert_eq!(codes(&validate(&object)), [""; 0]);
    assert!(!staging.exists());
}

#[test]
fn objects_with_common_folders_can_be_written_at_once() {
    let folder = tempfile::tempdir().unwrap();
    // One digit, so that many objects share their folders.
    let layout = Layout::HashAndId(Tuples { algorithm: Algorithm::Sha256, size: 1, number: 2 });
    let root = StorageRoot::create(folder.path(), SpecVersion::V1_1, layout).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let root = &root;
            scope.spawn(move || {
                for number in 0..20 {
                    object(root, &format!("urn:{thread}:{number}"), &[("x", "y")]);
                }
            });
        }
    });
    let report = validate_all(&root);
    assert_eq!((report.verdict(), report.valid), (Verdict::Valid, 80));
    assert_eq!(report.findings.kept(), []);
    assert!(!folder.path().join("extensions/fulgurite-staging").exists());
}

#[test]
fn one_object_has_one_writer_at_a_time() {
    let (_folder, root) = root();
    let object = object(&root, "urn:x", &[("x", "0")]);
    let versions = std::sync::atomic::AtomicU32::new(1);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (root, object, versions) = (&root, &object, &versions);
            scope.spawn(move || {
                for number in 0..10 {
                    let mut writer = match root.new_version(object, &[], info("more")) {
                        Err(WriteError::Busy { .. }) => continue,
                        result => result.unwrap(),
                    };
                    writer.add(&format!("{thread}/{number}"), &mut format!("{thread} {number}").as_bytes(), &[]).unwrap();
                    writer.commit().unwrap();
                    versions.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                }
            });
        }
    });
    let inventory = object.inventory().unwrap();
    assert_eq!(inventory.head().number(), versions.into_inner());
    assert_eq!(inventory.files(Scope::Head).count(), inventory.head().number() as usize);
    assert_eq!(codes(&validate(&object)), [""; 0]);
}

#[test]
fn every_layout_and_both_specifications_give_valid_roots() {
    let folder = tempfile::tempdir().unwrap();
    let layouts = [
        Layout::FlatDirect,
        Layout::default(),
        Layout::Hashed { tuples: Tuples::default(), short_object_root: true },
        Layout::FlatOmitPrefix { delimiter: ":".to_owned() },
        Layout::TuplesOmitPrefix { delimiter: ":".to_owned(), tuple_size: 3, number_of_tuples: 2, pads_left: false, reverses: true },
    ];
    for (number, layout) in layouts.into_iter().enumerate() {
        for spec in SpecVersion::ALL {
            let folder = folder.path().join(format!("{number} {spec}"));
            let written = StorageRoot::create(&folder, spec, layout.clone()).unwrap();
            object(&written, "urn:12345", &[("a", "b")]);
            object(&written, "urn:67890", &[]);
            let root = StorageRoot::open(&folder).unwrap();
            assert_eq!((root.layout(), root.spec()), (Some(&layout), spec));
            let ids: Vec<String> = root.objects().map(|object| object.unwrap().inventory().unwrap().id().to_owned()).collect();
            assert_eq!(ids.len(), 2);
            let report = validate_all(&root);
            assert_eq!((report.verdict(), report.valid, report.object_warnings), (Verdict::Valid, 2, 0), "{layout:?}");
            assert_eq!(report.findings.kept(), [], "{layout:?}");
        }
    }
}

#[test]
fn a_storage_root_begins_in_an_empty_folder_and_can_be_repeated() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("extensions")).unwrap();
    fs::write(folder.path().join("ocfl_layout.json"), "{").unwrap();
    StorageRoot::create(folder.path(), SpecVersion::V1_1, Layout::default()).unwrap();
    let again = StorageRoot::create(folder.path(), SpecVersion::V1_1, Layout::default());
    assert!(matches!(again, Err(WriteError::NotEmpty { name, .. }) if name == "0=ocfl_1.1"));
    assert!(StorageRoot::open(&folder.path().join("extensions")).is_err());
}
