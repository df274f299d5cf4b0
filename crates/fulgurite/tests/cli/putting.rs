//! What goes in.

use std::fs::{self, File, FileTimes, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::time::{Duration, UNIX_EPOCH};

use crate::support::{Place, name, noise, tree};

/// A tree with everything that a file system has to offer.
fn make_tree(place: &Place) {
    for (index, bytes) in [0, 1, 65_535, 65_536, 65_537, 1_048_575, 1_048_576, 1_048_577].into_iter().enumerate() {
        place.write(format!("tree/sizes/{bytes}"), noise(index as u64, bytes));
    }
    place.write(std::path::Path::new("tree").join(name(b"not UTF-8 \xff\xfe")), b"bytes");
    place.write("tree/line\nbreak \u{1b}[31m", b"control");
    place.write("tree/ü/日本語", b"letters");
    fs::create_dir_all(place.path("tree/empty/deep")).expect("folders");
    symlink("sizes/1", place.path("tree/link")).expect("a link");
    symlink("nowhere", place.path("tree/dangling")).expect("a link");
    symlink("sizes", place.path("tree/link to folder")).expect("a link");
    for (name, mode, modified) in
        [("tree/sizes/1", 0o400, Duration::new(1, 1)), ("tree/empty/deep", 0o750, Duration::new(1_700_000_000, 999_999_999))]
    {
        File::open(place.path(name)).and_then(|file| file.set_times(FileTimes::new().set_modified(UNIX_EPOCH + modified))).expect("times");
        fs::set_permissions(place.path(name), Permissions::from_mode(mode)).expect("mode");
    }
}

#[test]
fn a_tree_comes_back_as_it_was_from_staging_and_from_platters() {
    let place = Place::new(3, &[]);
    make_tree(&place);
    place.good(&["put", "tree"]);
    let put = tree(&place.path("tree"));
    place.good(&["get", "tree", "from-staging"]);
    assert_eq!(tree(&place.path("from-staging")), put);
    assert!(place.good(&["flush"]).text().starts_with("Wrote and verified "));
    assert_eq!(fs::read_dir(place.path("a/staging")).expect("staging").count(), 0, "staging is released");
    let written = place.platters().len();
    place.good(&["get", "--all", "from-platters"]);
    assert_eq!(tree(&place.path("from-platters/tree")), put);
    assert!(place.good(&["flush"]).text().contains("Nothing is staged"));
    assert_eq!(place.platters().len(), written);
}

#[test]
fn an_archive_in_the_clear_gives_back_the_same() {
    let place = Place::new(2, &["--clear-text"]);
    make_tree(&place);
    place.good(&["put", "tree", "--flush"]);
    place.good(&["get", "tree", "out"]);
    assert_eq!(tree(&place.path("out")), tree(&place.path("tree")));
    let rows = place.good(&["ls", "--json"]).json_lines();
    assert!(rows.iter().all(|row| row["encrypted"] == false && row["state"] == "archived"));
}

#[test]
fn what_can_not_be_stored_is_named_and_the_rest_is_stored() {
    let place = Place::new(1, &[]);
    place.write("tree/good", b"good");
    let _socket = UnixListener::bind(place.path("tree/socket")).expect("a socket");
    assert_eq!(place.shell("mkfifo tree/fifo").status, 0);
    let ran = place.run(&["put", "tree", "missing", "tree/good/x"]);
    ran.fails_with(1, "not stored: tree/fifo: not a file, a folder or a symbolic link");
    ran.fails_with(1, "not stored: tree/socket: ");
    ran.fails_with(1, "not stored: missing: No such file");
    ran.fails_with(1, "4 things were not stored");
    assert!(ran.text().contains("Stored 1 object"), "{ran:?}");
    assert_eq!(place.good(&["ls"]).text(), "tree/good\n");
}

#[test]
fn names_in_messages_can_not_command_the_terminal() {
    let place = Place::new(1, &[]);
    let ran = place.run(&["put", "missing \u{1b}[31m\n"]);
    ran.fails_with(1, "missing \\u{1b}[31m\\n");
    place.run(&["get", "x\u{1b}"]).fails_with(1, "x\\u{1b}");
    place.run(&["-A", "x\u{1b}", "ls"]).fails_with(1, "x\\u{1b}");
}

#[test]
fn standard_input_is_stored_under_the_name_given() {
    let place = Place::new(1, &[]);
    let content = noise(3, 3_000_000);
    let ran = place.run_with_input(&["put", "-", "--name", "from/input"], &content);
    assert_eq!(ran.status, 0, "{ran:?}");
    assert_eq!(place.good(&["get", "from/input", "-"]).out, content);
    place.run_with_input(&["put", "-"], b"x").fails_with(1, "--name");
    place.run_with_input(&["put", "-", "--name", "../x"], b"x").fails_with(1, "can't be a name");
    assert_eq!(place.run_with_input(&["put", "-", "--name", "nothing"], b"").status, 0);
    assert_eq!(place.good(&["get", "nothing", "-"]).out, b"");
}

#[test]
fn names_are_chosen_by_to_and_name_and_must_be_such_that_files_can_have_them() {
    let place = Place::new(1, &[]);
    place.write("tree/x/file", b"1");
    place.good(&["put", "tree/x/file"]);
    place.good(&["put", "tree/x/", "--to", "/deep/down/"]);
    place.good(&["put", "tree/x", "--name", "renamed"]);
    place.good(&["put", "tree/.", "--to", "dot"]);
    assert_eq!(place.good(&["ls"]).text(), "deep/down/x/file\ndot/tree/x/file\nfile\nrenamed/file\n");
    for option in ["--to=..", "--to=a//b", "--to=a/./b", "--name=../x", "--name=", "--name=/"] {
        place.run(&["put", "tree/x/file", option]).fails_with(1, "can't be a name");
    }
    place.run(&["put", "tree", "tree/x", "--name=one"]).fails_with(1, "--name names one thing");
    assert_eq!(place.good(&["ls", "deep"]).text(), "deep/down/x/file\n");
}

#[test]
fn an_archive_does_not_store_itself() {
    let place = Place::new(2, &[]);
    place.write("file", b"1");
    let ran = place.good(&["put", "."]);
    assert!(ran.err.contains("a belongs to this archive"), "{ran:?}");
    assert_eq!(place.good(&["ls"]).text(), "file\n");
}

#[test]
fn a_sparse_file_stays_sparse() {
    let place = Place::new(1, &[]);
    let file = File::create(place.path("sparse")).expect("made");
    file.set_len(300_000_000).expect("long");
    std::os::unix::fs::FileExt::write_all_at(&file, b"here", 123_456_789).expect("written");
    place.good(&["put", "sparse", "--flush"]);
    place.good(&["get", "sparse", "out"]);
    let metadata = fs::metadata(place.path("out")).expect("restored");
    assert_eq!(metadata.len(), 300_000_000);
    assert!(metadata.blocks() * 512 < 1 << 20, "{} blocks", metadata.blocks());
    assert_eq!(place.good(&["get", "sparse", "-", "--range", "123456785-123456796"]).out, b"\0\0\0\0here\0\0\0\0");
}

#[test]
fn objects_larger_than_a_set_are_spread_over_several() {
    let place = Place::new(3, &["--platter-mib", "8"]);
    let large = noise(1, 40 << 20);
    place.write("tree/large", &large);
    for index in 0..20 {
        place.write(format!("tree/small/{index}"), noise(100 + index, 300_000));
    }
    let put = place.good(&["put", "tree", "--flush", "--json"]).json();
    assert!(put["flush"]["sets"].as_u64() >= Some(3), "{put}");
    let lost = &place.platters()[0].store;
    for platter in place.platters().iter().filter(|platter| platter.store == *lost) {
        fs::remove_file(&platter.file).expect("removed");
    }
    fs::remove_file(place.path("a/catalogue.db")).expect("removed");
    let rebuilt = place.good(&["catalogue", "rebuild"]);
    assert!(rebuilt.text().contains("Found 21 versions"), "{rebuilt:?}");
    place.good(&["get", "tree", "out"]);
    assert_eq!(tree(&place.path("out")), tree(&place.path("tree")));
}

#[test]
fn a_put_after_a_flush_makes_new_sets_and_versions() {
    let place = Place::new(2, &[]);
    for round in 1..=3_u8 {
        place.write("file", [round; 10]);
        place.good(&["put", "file", "--flush"]);
    }
    assert_eq!(place.platters().len(), 6);
    let versions = place.good(&["ls", "--versions", "--json"]).json_lines();
    let numbers: Vec<u64> = versions.iter().map(|row| row["version"].as_u64().expect("a number")).collect();
    assert_eq!(numbers, [3, 2, 1]);
}
