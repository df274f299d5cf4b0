//! The command `put`.

use std::fs::{self, File, FileTimes, Permissions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, UNIX_EPOCH};

use fulgurite_archive::{Access, Archive};
use fulgurite_domain::ObjectName;
use serde_json::json;

use crate::support::{Sandbox, name, noise, tree};

/// A tree with every kind of entry that a file system offers.
fn make_tree(place: &Sandbox) {
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
    let place = Sandbox::new(3, &[]);
    make_tree(&place);
    place.good(&["put", "tree"]);
    let put = tree(&place.path("tree"));
    place.good(&["get", "tree", "from-staging"]);
    assert_eq!(tree(&place.path("from-staging")), put);
    assert!(place.good(&["flush"]).text().starts_with("Wrote and verified "));
    assert_eq!(place.segments().len(), 0, "staging is released");
    let written = place.platters().len();
    place.good(&["get", "--all", "from-platters"]);
    assert_eq!(tree(&place.path("from-platters/tree")), put);
    assert!(place.good(&["flush"]).text().contains("Nothing is staged"));
    assert_eq!(place.platters().len(), written);
}

#[test]
fn an_unencrypted_archive_restores_the_same_tree() {
    let place = Sandbox::new(2, &["--clear-text"]);
    make_tree(&place);
    place.good(&["put", "tree", "--flush"]);
    place.good(&["get", "tree", "out"]);
    assert_eq!(tree(&place.path("out")), tree(&place.path("tree")));
    let rows = place.good(&["ls", "--json"]).json_lines();
    assert!(rows.iter().all(|row| row["encrypted"] == false && row["state"] == "archived"));
}

#[test]
fn entries_that_can_not_be_stored_are_named_and_the_rest_is_stored() {
    let place = Sandbox::new(1, &[]);
    place.write("tree/good", b"good");
    let _socket = UnixListener::bind(place.path("tree/socket")).expect("a socket");
    assert_eq!(place.shell("mkfifo tree/fifo").status, 0);
    let ran = place.run(&["put", "tree", "missing", "tree/good/x"]);
    ran.fails_with(1, "not stored: tree/fifo: not a file, a folder or a symbolic link");
    ran.fails_with(1, "not stored: tree/socket: ");
    ran.fails_with(1, "not stored: missing: No such file");
    ran.fails_with(1, "4 paths were not stored");
    assert!(ran.text().contains("Stored 1 object"), "{ran:?}");
    assert_eq!(place.good(&["ls"]).text(), "tree/good\n");
}

#[test]
fn a_file_that_keeps_changing_is_skipped_and_named() {
    let place = Sandbox::new(1, &[]);
    place.write("tree/calm", b"calm");
    // Large enough that reading takes longer than the writer may wait for its turn.
    place.write("tree/log", noise(1, 40_000_000));
    let stop = AtomicBool::new(false);
    let (began, begin) = channel();
    let ran = std::thread::scope(|scope| {
        scope.spawn(|| {
            let began = began;
            let log = File::options().write(true).open(place.path("tree/log")).expect("opened");
            for at in (0..200_000).cycle() {
                log.write_all_at(b"x", at).expect("written");
                if at == 0 {
                    let _ = began.send(());
                }
                if stop.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        begin.recv().expect("the writer writes");
        let ran = place.run(&["put", "tree", "--json"]);
        stop.store(true, Ordering::Relaxed);
        ran
    });
    let why = "it changed each of the 3 times it was read";
    ran.fails_with(1, why);
    assert_eq!(ran.json()["not_stored"], json!([{ "path": "tree/log", "why": why }]), "{ran:?}");
    ran.fails_with(1, "1 path was not stored");
    assert_eq!((&ran.json()["objects"], &ran.json()["changed"]), (&json!(1), &json!(1)), "{ran:?}");
    assert_eq!(place.good(&["ls"]).text(), "tree/calm\n");
    place.good(&["put", "tree"]);
    place.good(&["get", "tree", "out"]);
    assert_eq!(tree(&place.path("out")), tree(&place.path("tree")));
}

#[test]
fn control_characters_of_names_in_messages_are_escaped() {
    let place = Sandbox::new(1, &[]);
    let ran = place.run(&["put", "missing \u{1b}[31m\n"]);
    ran.fails_with(1, "missing \\u{1b}[31m\\n");
    place.run(&["get", "x\u{1b}"]).fails_with(1, "x\\u{1b}");
    place.run(&["-A", "x\u{1b}", "ls"]).fails_with(1, "x\\u{1b}");
}

#[test]
fn standard_input_is_stored_under_the_name_given() {
    let place = Sandbox::new(1, &[]);
    let content = noise(3, 3_000_000);
    let ran = place.run_with_input(&["put", "-", "--name", "from/input"], &content);
    assert_eq!(ran.status, 0, "{ran:?}");
    assert_eq!(place.good(&["get", "from/input", "-"]).out, content);
    place.run_with_input(&["put", "-"], b"x").fails_with(1, "--name");
    place.run_with_input(&["put", "-", "--name", "../x"], b"x").fails_with(1, "invalid name");
    assert_eq!(place.run_with_input(&["put", "-", "--name", "nothing"], b"").status, 0);
    assert_eq!(place.good(&["get", "nothing", "-"]).out, b"");
}

#[test]
fn to_and_name_choose_names_that_must_be_valid_for_files() {
    let place = Sandbox::new(1, &[]);
    place.write("tree/x/file", b"1");
    place.good(&["put", "tree/x/file"]);
    place.good(&["put", "tree/x/", "--to", "/deep/down/"]);
    place.good(&["put", "tree/x", "--name", "renamed"]);
    place.good(&["put", "tree/.", "--to", "dot"]);
    assert_eq!(place.good(&["ls"]).text(), "deep/down/x/file\ndot/tree/x/file\nfile\nrenamed/file\n");
    for option in ["--to=..", "--to=a//b", "--to=a/./b", "--name=../x", "--name=", "--name=/"] {
        place.run(&["put", "tree/x/file", option]).fails_with(1, "invalid name");
    }
    place.run(&["put", "tree", "tree/x", "--name=one"]).fails_with(1, "--name accepts one path");
    assert_eq!(place.good(&["ls", "deep"]).text(), "deep/down/x/file\n");
}

#[test]
fn an_archive_does_not_store_itself() {
    let place = Sandbox::new(2, &[]);
    place.write("file", b"1");
    let ran = place.good(&["put", "."]);
    assert!(ran.err.contains("a belongs to this archive"), "{ran:?}");
    assert_eq!(place.good(&["ls"]).text(), "file\n");
    // Nor those of its folders that the settings place elsewhere.
    fs::rename(place.path("a/staging"), place.path("staged")).expect("moved");
    place.write("jobs/job", b"a job");
    let settings = String::from_utf8(place.read("a/fulgurite.toml")).expect("text");
    let settings = settings.replace("path = \"staging\"", "path = \"../staged\"");
    place.write("a/fulgurite.toml", settings + "\n[decode]\nfolder = \"../jobs\"\n");
    let ran = place.good(&["put", "."]);
    assert!(ran.err.contains("staged belongs to this archive") && ran.err.contains("jobs belongs to this archive"), "{ran:?}");
    assert_eq!(place.good(&["ls"]).text(), "file\n");
}

#[test]
fn a_sparse_file_stays_sparse() {
    let place = Sandbox::new(1, &[]);
    let file = File::create(place.path("sparse")).expect("made");
    file.set_len(300_000_000).expect("long");
    file.write_all_at(b"here", 123_456_789).expect("written");
    place.good(&["put", "sparse", "--flush"]);
    place.good(&["get", "sparse", "out"]);
    let metadata = fs::metadata(place.path("out")).expect("restored");
    assert_eq!(metadata.len(), 300_000_000);
    assert!(metadata.blocks() * 512 < 1 << 20, "{} blocks", metadata.blocks());
    assert_eq!(place.good(&["get", "sparse", "-", "--range", "123456785-123456796"]).out, b"\0\0\0\0here\0\0\0\0");
}

#[test]
fn objects_larger_than_a_set_are_spread_over_several() {
    let place = Sandbox::new(3, &["--platter-mib", "8"]);
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
    let place = Sandbox::new(2, &[]);
    for round in 1..=3_u8 {
        place.write("file", [round; 10]);
        place.good(&["put", "file", "--flush"]);
    }
    assert_eq!(place.platters().len(), 6);
    let versions = place.good(&["ls", "--versions", "--json"]).json_lines();
    let numbers: Vec<u64> = versions.iter().map(|row| row["version"].as_u64().expect("a number")).collect();
    assert_eq!(numbers, [3, 2, 1]);
}

fn versions(place: &Sandbox) -> Vec<(String, u64)> {
    let rows = place.good(&["ls", "--versions", "--json"]).json_lines();
    rows.iter().map(|row| (row["name"].as_str().expect("text").to_owned(), row["version"].as_u64().expect("a number"))).collect()
}

#[test]
fn unchanged_files_are_not_stored_again() {
    let place = Sandbox::new(1, &[]);
    make_tree(&place);
    let first = place.good(&["put", "tree", "--json"]).json();
    let stored = first["objects"].as_u64().expect("a number");
    for options in [&["put", "tree", "--json"][..], &["put", "tree", "--json", "--flush"], &["put", "tree", "--json", "--checksum"]] {
        let put = place.good(options).json();
        assert_eq!((&put["objects"], &put["unchanged"]), (&json!(0), &json!(stored)), "{options:?}: {put}");
    }
    assert!(place.good(&["put", "tree"]).text().contains(&format!("{stored} objects are unchanged, not stored again.")));
    let put = place.good(&["put", "tree", "--again", "--json"]).json();
    assert_eq!((&put["objects"], &put["unchanged"]), (&json!(stored), &json!(0)), "{put}");
    assert!(versions(&place).iter().filter(|(_, version)| *version == 2).count() as u64 == stored);
    place.run(&["put", "tree", "--again", "--checksum"]).fails_with(2, "--checksum");
}

#[test]
fn every_change_makes_a_version() {
    let place = Sandbox::new(1, &[]);
    place.write("file", b"1234567");
    std::os::unix::fs::symlink("one", place.path("link")).expect("a link");
    fs::create_dir_all(place.path("folder")).expect("made");
    place.good(&["put", "file", "link", "folder"]);
    let modified = fs::metadata(place.path("file")).and_then(|metadata| metadata.modified()).expect("a time");
    let set_modified = |time| File::open(place.path("file")).and_then(|file| file.set_modified(time)).expect("time set");
    let mut latest = 1;
    let mut check = |what: &str, options: &[&str], new: u64| {
        place.good(&[&["put", "file"], options].concat());
        latest += new;
        assert_eq!(versions(&place).iter().filter(|(name, _)| name == "file").count(), latest as usize, "{what}");
    };
    check("nothing", &[], 0);
    place.write("file", b"7654321");
    set_modified(modified);
    check("content, with the time set back", &[], 1);
    place.write("file", b"1234567");
    set_modified(modified);
    check("content, with the time set back, by checksum", &["--checksum"], 1);
    fs::set_permissions(place.path("file"), Permissions::from_mode(0o600)).expect("mode");
    check("mode", &[], 1);
    set_modified(modified + Duration::from_nanos(1));
    check("time, by checksum", &["--checksum"], 0);
    check("time", &[], 1);
    place.write("file", b"12345678");
    set_modified(modified + Duration::from_nanos(1));
    check("length", &[], 1);
    fs::remove_file(place.path("link")).expect("removed");
    std::os::unix::fs::symlink("two", place.path("link")).expect("a link");
    fs::set_permissions(place.path("folder"), Permissions::from_mode(0o500)).expect("mode");
    assert_eq!(place.good(&["put", "link", "folder", "--json"]).json()["objects"], 2);
    // A file differs from a link or folder of the same name, too.
    fs::remove_file(place.path("link")).expect("removed");
    place.write("link", b"two");
    assert_eq!(place.good(&["put", "link", "--json"]).json()["objects"], 1);
}

#[test]
fn a_file_whose_stored_version_is_unreadable_is_stored_again() {
    let place = Sandbox::new(1, &[]);
    place.write("file", b"content");
    place.good(&["put", "file"]);
    let archive = Archive::open(&place.path("a"), Access::Write).expect("it opens");
    let row = archive.catalogue().newest(&ObjectName(b"file".to_vec())).expect("a catalogue").expect("a version");
    archive.keys().destroy(&[row.id]).expect("destroyed");
    drop(archive);
    let put = place.good(&["put", "file", "--json"]).json();
    assert_eq!((&put["objects"], &put["unchanged"]), (&json!(1), &json!(0)), "{put}");
    assert_eq!(place.good(&["get", "file", "-"]).out, b"content");
}

#[test]
fn paths_that_share_a_name_are_rejected() {
    let place = Sandbox::new(1, &[]);
    place.write("a1/photos/1", b"1");
    place.write("b1/photos/1", b"2");
    place.run(&["put", "a1/photos", "b1/photos"]).fails_with(1, "a1/photos and b1/photos would both be stored as photos");
    place.run(&["put", "a1/photos/1", "b1/photos/1"]).fails_with(1, "would both be stored as 1");
    place.write("photos/2", b"3");
    place.run(&["put", ".", "a1/photos"]).fails_with(1, "./photos and a1/photos would both be stored as photos");
    assert_eq!(place.good(&["ls"]).text(), "");
    place.good(&["put", "a1/photos", "--to", "a"]);
    place.good(&["put", "b1/photos", "--to", "b"]);
    assert_eq!(place.good(&["ls"]).text(), "a/photos/1\nb/photos/1\n");
    // Put one after the other they become versions, as always.
    place.good(&["put", "a1/photos"]);
    place.good(&["put", "b1/photos"]);
    assert_eq!(place.good(&["get", "photos/1", "-"]).out, b"2");
    assert_eq!(place.good(&["get", "photos/1", "-", "--version=1"]).out, b"1");
}

#[test]
fn a_file_whose_stored_version_is_lost_is_stored_again() {
    let place = Sandbox::new(3, &["--set", "2+1"]);
    let tree = |numbers: std::ops::Range<u64>| {
        for number in numbers {
            place.write(format!("tree/{number:02}"), noise(number, 30_000));
        }
    };
    tree(0..20);
    place.good(&["put", "tree", "--flush"]);
    tree(20..25);
    place.good(&["put", "tree", "--flush"]);
    let unchanged = |ran: crate::support::Ran| {
        assert_eq!(ran.status, 0, "{ran:?}");
        let told = ran.json();
        (told["objects"].as_u64().expect("a number"), told["unchanged"].as_u64().expect("a number"))
    };
    assert_eq!(unchanged(place.run(&["put", "tree", "--json"])), (0, 25));
    let platters = place.platters();
    let aside = |platter: &crate::support::Platter| platter.file.with_extension("aside");
    // One of three platters may be lost: the set restores everything.
    fs::rename(&platters[0].file, aside(&platters[0])).expect("renamed");
    assert_eq!(unchanged(place.run(&["put", "tree", "--json"])), (0, 25));
    // An absent platter may come back.
    fs::rename(place.path("d2"), place.path("away")).expect("renamed");
    assert_eq!(unchanged(place.run(&["put", "tree", "--json"])), (0, 25));
    fs::rename(place.path("away"), place.path("d2")).expect("renamed");
    // Two lost platters are too many. Files on the third can still be read, and the other set is
    // whole.
    fs::rename(&platters[2].file, aside(&platters[2])).expect("renamed");
    let readable = (0..20).filter(|number| place.run(&["get", &format!("tree/{number:02}"), "-"]).status == 0).count() as u64;
    assert!((1..20).contains(&readable), "{readable} of 20 files are on the remaining platter");
    let lost = 20 - readable;
    assert_eq!(unchanged(place.run(&["put", "tree", "--json"])), (lost, 25 - lost));
    // Storing them once is enough.
    assert_eq!(unchanged(place.run(&["put", "tree", "--json"])), (0, 25));
    assert_eq!(unchanged(place.run(&["put", "tree", "--json", "--checksum"])), (0, 25));
    place.good(&["get", "tree", "restored"]);
    assert_eq!(crate::support::tree(&place.path("restored")), crate::support::tree(&place.path("tree")));
}
