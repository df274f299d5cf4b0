//! The command `get`.

use std::fs;
use std::os::unix::fs::symlink;

use crate::support::{Sandbox, noise};

#[test]
fn versions_are_told_apart() {
    let place = Sandbox::new(1, &[]);
    place.write("file", b"first");
    place.good(&["put", "file", "--flush"]);
    place.write("file", b"second");
    place.good(&["put", "file"]);
    assert_eq!(place.good(&["get", "file", "-"]).out, b"second");
    assert_eq!(place.good(&["get", "file", "-", "--version", "1"]).out, b"first");
    assert_eq!(place.good(&["get", "file", "-", "--version=2"]).out, b"second");
    place.run(&["get", "file", "-", "--version=3"]).fails_with(1, "file has no version 3");
    place.run(&["get", "other", "-", "--version=1"]).fails_with(1, "nothing is stored as other");
    let listed = place.good(&["ls", "--versions", "--long"]).text();
    assert!(listed.lines().count() == 2 && listed.contains("archived") && listed.contains("staged"), "{listed}");
    assert_eq!(place.good(&["ls"]).text(), "file\n");
}

#[test]
fn ranges_are_exact_in_staging_and_on_platters() {
    let place = Sandbox::new(2, &[]);
    let content = noise(5, 200_000);
    place.write("file", &content);
    place.good(&["put", "file"]);
    for _ in 0..2 {
        for (range, expected) in [
            ("0-0", 0..1),
            ("65535-65536", 65_535..65_537),
            ("100-199999", 100..200_000),
            ("131072-", 131_072..200_000),
            ("-7", 199_993..200_000),
            ("199999-500000", 199_999..200_000),
        ] {
            assert_eq!(place.good(&["get", "file", "-", "--range", range]).out, &content[expected], "{range}");
        }
        for range in ["200000-", "300000-300001", "-0"] {
            let refused = place.run(&["get", "file", "-", "--range", range]);
            refused.fails_with(1, "file has 200000 bytes, and none of them is in the range");
            assert_eq!(refused.out, b"", "{range}");
        }
        place.good(&["flush"]);
    }
    place.good(&["get", "file", "part", "--range", "10-19"]);
    assert_eq!(place.read("part"), &content[10..20]);
    place.run(&["get", "file", "part", "--range", "10-29"]).fails_with(1, "part is there already");
    place.good(&["get", "file", "part", "--range", "10-29", "--force"]);
    assert_eq!(place.read("part"), &content[10..30]);
    place.run(&["get", "file", "no/folder", "--range", "10-29"]).fails_with(1, "No such file or directory");
    place.write("empty", b"");
    place.good(&["put", "empty"]);
    place.run(&["get", "empty", "new", "--range", "0-0"]).fails_with(1, "empty has 0 bytes");
    assert!(!place.path("new").exists());
    place.write("tree/x", b"1");
    place.good(&["put", "tree"]);
    place.run(&["get", "tree", "--range", "0-1"]).fails_with(1, "tree is a folder");
}

#[test]
fn a_version_that_was_an_empty_folder_is_restored_empty() {
    let place = Sandbox::new(1, &[]);
    fs::create_dir(place.path("tree")).expect("made");
    place.good(&["put", "tree"]);
    for _ in 0..2 {
        assert!(place.good(&["get", "tree", "empty", "--version=1"]).text().contains("tree (version 1), an empty folder"));
        assert_eq!(fs::read_dir(place.path("empty")).expect("a folder").count(), 0);
        fs::remove_dir(place.path("empty")).expect("empty");
        place.write("tree/later", b"later");
        place.good(&["put", "tree"]);
    }
    place.good(&["get", "tree", "newest"]);
    assert_eq!(place.read("newest/later"), b"later");
    place.write("file", b"a file");
    place.run(&["get", "tree", "file", "--version=1"]).fails_with(1, "file: File exists");
}

#[test]
fn existing_files_are_kept_unless_forced() {
    let place = Sandbox::new(1, &[]);
    place.write("tree/one", b"stored");
    place.write("tree/two", b"stored");
    place.good(&["put", "tree"]);
    place.write("out/one", b"mine");
    let ran = place.run(&["get", "tree", "out"]);
    ran.fails_with(1, "not restored: tree/one (version 1): out/one is there already (--force replaces it)");
    ran.fails_with(1, "1 object was not restored");
    assert!(!ran.err.contains("lost"), "{ran:?}");
    assert_eq!((place.read("out/one"), place.read("out/two")), (b"mine".to_vec(), b"stored".to_vec()));
    place.run(&["get", "tree/one", "out/one"]).fails_with(1, "is there already (--force replaces it)");
    place.run(&["get", "tree/one", "out"]).fails_with(1, "is there already");
    assert_eq!(place.read("out/one"), b"mine");
    place.good(&["get", "tree", "out", "--force"]);
    assert_eq!(place.read("out/one"), b"stored");
    let left: Vec<_> = fs::read_dir(place.path("out")).expect("there").map(|entry| entry.expect("there").file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn a_restore_that_was_interrupted_can_be_repeated() {
    let place = Sandbox::new(1, &[]);
    place.write("tree/one", b"stored");
    place.write("tree/sub/two", vec![7; 600_000]);
    place.write("tree/empty", b"");
    std::os::unix::fs::symlink("sub/two", place.path("tree/link")).expect("a link");
    place.good(&["put", "tree"]);
    place.good(&["get", "tree", "out"]);
    fs::remove_file(place.path("out/one")).expect("removed");
    let ran = place.good(&["get", "tree", "out"]);
    assert!(
        ran.text().contains("Restored 1 object, 6 B") && ran.text().contains("3 files were there already, with the same content"),
        "{ran:?}"
    );
    let again = place.good(&["get", "tree", "out", "--json"]).json();
    assert_eq!((&again["objects"], &again["same"], &again["failed"]), (&0.into(), &4.into(), &0.into()));
    let one = place.good(&["get", "tree/one", "out/one", "--json"]).json();
    assert_eq!(one["same"], true);
    // What differs in a byte, in length or in kind is kept and reported.
    let mut changed = vec![7; 600_000];
    changed[599_999] = 8;
    place.write("out/sub/two", &changed);
    place.write("out/one", b"store");
    fs::remove_file(place.path("out/link")).expect("removed");
    place.write("out/link", b"sub/two");
    let ran = place.run(&["get", "tree", "out"]);
    for name in ["out/sub/two", "out/one", "out/link"] {
        ran.fails_with(1, &format!("{name} is there already (--force replaces it)"));
    }
    assert!(place.read("out/sub/two") == changed);
}

#[test]
fn a_destination_is_the_last_part_of_the_name_a_folder_or_standard_output() {
    let place = Sandbox::new(1, &[]);
    place.write("tree/deep/file", b"content");
    place.good(&["put", "tree"]);
    fs::remove_dir_all(place.path("tree")).expect("removed");
    place.good(&["get", "tree/deep/file"]);
    assert_eq!(place.read("file"), b"content");
    place.good(&["get", "/tree/deep/"]);
    assert_eq!(place.read("deep/file"), b"content");
    fs::create_dir(place.path("into")).expect("made");
    place.good(&["get", "tree/deep/file", "into"]);
    assert_eq!(place.read("into/file"), b"content");
    place.run(&["get", "tree", "-"]).fails_with(1, "can't be written to standard output");
    place.run(&["get", "tree/deep/file/x"]).fails_with(1, "nothing is stored as tree/deep/file/x");
    place.run(&["get", "tre"]).fails_with(1, "nothing is stored as tre");
    place.run(&["get", "tree/deep/file", "no/such/folder/x"]).fails_with(1, "tree/deep/file");
    place.run(&["ls", "tre"]).fails_with(1, "nothing is stored as tre");
}

#[test]
fn nothing_is_written_through_a_link() {
    let place = Sandbox::new(1, &[]);
    place.write("tree/folder/file", b"stored");
    place.good(&["put", "tree"]);
    fs::create_dir_all(place.path("out")).expect("made");
    fs::create_dir_all(place.path("elsewhere")).expect("made");
    symlink("../elsewhere", place.path("out/folder")).expect("a link");
    place.run(&["get", "tree", "out", "--force"]).fails_with(1, "restores don't follow links");
    assert_eq!(fs::read_dir(place.path("elsewhere")).expect("there").count(), 0);
}

#[test]
fn force_replaces_files_by_folders_but_never_a_folder_by_a_file() {
    let place = Sandbox::new(1, &[]);
    place.write("tree/folder/file", b"stored");
    place.write("tree/plain", b"stored");
    place.good(&["put", "tree"]);
    place.write("out/folder", b"in the way");
    fs::create_dir_all(place.path("out/plain")).expect("made");
    let ran = place.run(&["get", "tree", "out"]);
    ran.fails_with(1, "out/folder is there already (--force replaces it)");
    ran.fails_with(1, "out/plain is a folder, and a file can't replace it");
    assert_eq!(place.read("out/folder"), b"in the way");
    place.run(&["get", "tree", "out", "--force"]).fails_with(1, "out/plain is a folder, and a file can't replace it");
    assert_eq!(place.read("out/folder/file"), b"stored");
}
