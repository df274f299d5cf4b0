//! Attaching: the archive's folder is lost, but its stores and a copy of the keys exist.

use std::fs;

use crate::support::{Sandbox, noise, tree};

const COPY: [&str; 4] = ["--keys", "keys", "--passphrase-file", "passphrase"];

/// Content on three stores (2+1) and a copy of the keys, but no archive folder.
fn lost() -> Sandbox {
    let place = Sandbox::new(3, &["--platter-mib=64"]);
    place.write("tree/large", noise(1, 3_000_000));
    place.write("tree/small", b"content");
    place.write("gone", b"removed later");
    place.write("passphrase", b"correct horse\n");
    place.good(&["put", "tree", "gone", "--flush"]);
    place.good(&["keys", "export", "keys", "--passphrase-file", "passphrase"]);
    place.good(&["rm", "gone"]);
    place.write("tree/later", noise(2, 2_000_000));
    place.good(&["put", "tree/later", "--name", "tree/later", "--flush"]);
    place.good(&["keys", "export", "keys-2", "--passphrase-file", "passphrase"]);
    fs::rename(place.path("a"), place.path("was")).expect("renamed");
    place
}

fn attach(stores: &[&str], options: &[&str]) -> Vec<String> {
    let mut arguments = vec!["attach".to_owned(), "b".into()];
    arguments.extend(stores.iter().map(|store| format!("--store={store}")));
    arguments.extend(options.iter().map(|option| (*option).to_owned()));
    arguments
}

#[track_caller]
fn all_is_back(place: &Sandbox) {
    tree_is_back(place, 0);
    place.run(&["-A", "b", "get", "gone", "-"]).fails_with(1, "nothing is stored as gone");
}

#[track_caller]
fn tree_is_back(place: &Sandbox, status: i32) {
    fs::create_dir_all(place.path("back")).expect("a folder");
    let ran = place.run(&["-A", "b", "get", "tree", "back/tree"]);
    assert_eq!(ran.status, status, "{ran:?}");
    assert!(tree(&place.path("back/tree")) == tree(&place.path("tree")));
    fs::remove_dir_all(place.path("back")).expect("removed");
}

#[test]
fn attach_recreates_a_lost_folder_from_moved_stores_and_a_copy_of_the_keys() {
    let place = lost();
    for (from, to) in [("d1", "x"), ("d2", "d1"), ("d3", "moved/z")] {
        fs::create_dir_all(place.path("moved")).expect("a folder");
        fs::rename(place.path(from), place.path(to)).expect("renamed");
    }
    let before = place.fingerprint(&["x", "d1", "moved"]);
    let ran = place.good(&attach(&["d1", "moved/z", "x"], &["--keys=keys-2", "--passphrase-file=passphrase"]));
    assert!(ran.text().contains("Attached archive") && ran.text().contains("2+1 platters, as in the newest set"), "{ran:?}");
    assert_eq!(place.fingerprint(&["x", "d1", "moved"]), before, "the stores are unchanged");
    all_is_back(&place);
    place.good(&["-A", "b", "verify", "--objects"]);
    let settings = String::from_utf8(place.read("b/fulgurite.toml")).expect("text");
    let old = String::from_utf8(place.read("was/fulgurite.toml")).expect("text");
    for line in ["id = ", "encrypt = ", "information = ", "redundancy = "] {
        let of = |text: &str| text.lines().find(|found| found.starts_with(line)).map(str::to_owned);
        assert!(of(&settings).is_some() && of(&settings) == of(&old), "{line}");
    }
    // The result is an archive like any other.
    place.write("new", b"new");
    place.good(&["-A", "b", "put", "new", "--flush"]);
    assert_eq!(place.good(&["-A", "b", "get", "new", "-"]).out, b"new");
    place.run(&attach(&["d1", "moved/z", "x"], &COPY)).fails_with(1, "holds an archive already");
    all_is_back(&place);
}

#[test]
fn a_removed_version_gets_no_key_and_one_put_after_the_copy_is_reported() {
    let place = lost();
    // The older copy has the key of the removed version, but not that of the later one.
    let ran = place.run(&attach(&["d1", "d2", "d3"], &COPY));
    assert_eq!(ran.status, 1, "{ran:?}");
    assert!(ran.err.contains("1 version has no key, so its name is not known. An older or newer copy"), "{ran:?}");
    assert!(ran.text().contains("1 key was left out, because its version was removed"), "{ran:?}");
    assert_eq!(place.good(&["-A", "b", "get", "tree/small", "-"]).out, b"content");
    // Its name is in its record, which can't be opened: no name is known to be free.
    place.run(&["-A", "b", "get", "tree/later", "-"]).fails_with(1, "nothing is known to be stored as tree/later, but the catalogue");
    place.run(&["-A", "b", "ls"]).fails_with(1, "1 version can't be listed, and `fulgurite verify` says why");
    let ran = place.good(&["-A", "b", "keys", "import", "keys-2", "--passphrase-file", "passphrase"]);
    assert!(ran.text().contains("1 of them new"), "{ran:?}");
    place.good(&["-A", "b", "catalogue", "rebuild"]);
    all_is_back(&place);
}

#[test]
fn attach_works_without_one_store_and_the_store_can_join_later() {
    let place = lost();
    let ran = place.run(&attach(&["d1", "d3"], &["--keys=keys-2", "--passphrase-file=passphrase"]));
    assert_eq!(ran.status, 3, "{ran:?}");
    assert!(ran.err.contains("absent: 1 of the 3 platters of set") && ran.err.contains("the settings call it absent-1"), "{ran:?}");
    // The store that was not seen may have more, for all that the catalogue knows.
    tree_is_back(&place, 3);
    place.run(&["-A", "b", "get", "gone", "-"]).fails_with(3, "nothing is known to be stored as gone, but the catalogue is incomplete");
    place.run(&["-A", "b", "ls"]).fails_with(3, "the catalogue is incomplete, so the list may be too");
    assert_ne!(place.run(&["-A", "b", "status"]).status, 0);
    let verified = place.run(&["-A", "b", "verify", "--objects"]);
    assert!(verified.status == 3 && verified.text().contains("absent-1"), "{verified:?}");
    assert!(!verified.text().contains("store ?"), "{verified:?}");
    place.write("moved/fulgurite-store", place.read("d3/fulgurite-store"));
    // Put two objects, so that the set has all three platters.
    place.write("new/1", noise(3, 1_000_000));
    place.write("new/2", noise(4, 1_000_000));
    place.run(&["-A", "b", "put", "new", "--flush"]).fails_with(1, "absent-1");
    place.run(&["-A", "b", "store", "add", "d1"]).fails_with(1, "is store d1 already");
    place.run(&["-A", "b", "store", "add", "moved"]).fails_with(1, "change its path in the settings");
    let ran = place.good(&["-A", "b", "store", "add", "d2"]);
    assert!(ran.text().contains("store d2"), "{ran:?}");
    assert!(!String::from_utf8(place.read("b/fulgurite.toml")).expect("text").contains("absent-1"));
    place.good(&["-A", "b", "flush"]);
    place.good(&["-A", "b", "catalogue", "rebuild"]);
    place.good(&["-A", "b", "verify", "--objects"]);
    all_is_back(&place);
}

#[test]
fn with_too_many_stores_absent_nothing_is_called_lost() {
    let place = lost();
    let ran = place.run(&attach(&["d2"], &["--keys=keys-2", "--passphrase-file=passphrase"]));
    assert_eq!(ran.status, 3, "{ran:?}");
    assert!(ran.err.contains("absent: 2 of the 3 platters of set") && ran.err.contains("until their stores are back"), "{ran:?}");
    for command in ["status", "verify"] {
        let ran = place.run(&["-A", "b", command]);
        assert!(ran.status == 3 && !ran.err.contains("lost: "), "{ran:?}");
    }
    place.run(&["-A", "b", "ls"]).fails_with(3, "stores absent-1, absent-2 and unknown places; when they can be read");
    place.run(&["-A", "b", "get", "tree/nothing", "-"]).fails_with(3, "nothing is known to be stored as tree/nothing");
    for store in ["d1", "d3"] {
        place.good(&["-A", "b", "store", "add", store]);
    }
    place.good(&["-A", "b", "catalogue", "rebuild"]);
    all_is_back(&place);
}

#[test]
fn a_store_that_joins_later_needs_no_scrub() {
    let place = lost();
    let ran = place.run(&attach(&["d1", "d3"], &["--keys=keys-2", "--passphrase-file=passphrase"]));
    assert_eq!(ran.status, 3, "{ran:?}");
    place.good(&["-A", "b", "store", "add", "d2"]);
    let platters = place.run(&["-A", "b", "platters"]);
    assert!(!platters.text().contains("ELSEWHERE") && !platters.text().contains("MISSING"), "{platters:?}");
    place.run(&["-A", "b", "verify"]);
    place.good(&["-A", "b", "catalogue", "rebuild"]);
    place.good(&["-A", "b", "verify", "--objects"]);
    place.good(&["-A", "b", "status"]);
}

#[test]
fn an_archive_from_stores_without_platters_is_reported_incomplete() {
    let place = Sandbox::new(2, &["--clear-text"]);
    place.write("file", b"staged only");
    place.good(&["put", "file"]);
    fs::rename(place.path("a"), place.path("was")).expect("renamed");
    let ran = place.run(&attach(&["d1"], &[]));
    assert!(ran.status == 3 && ran.err.contains("absent: all platters"), "{ran:?}");
}

#[test]
fn a_damaged_copy_of_the_keys_suffices_and_a_wrong_one_changes_nothing() {
    let place = lost();
    place.init("other", "e", 1, &[]);
    place.good(&["-A", "other", "keys", "export", "--plain", "of-other"]);
    place.write("wrong", b"incorrect horse");
    let stores = ["d1", "d2", "d3"];
    let before = place.fingerprint(&["d1", "d2", "d3", "e1", "other"]);
    let refused = |stores: &[&str], options: &[&str], says: &str| {
        place.run(&attach(stores, options)).fails_with(1, says);
        assert!(!place.path("b").exists(), "{says}");
    };
    refused(&stores, &["--keys=of-other"], "has the keys of archive");
    refused(&stores, &["--keys=keys", "--passphrase-file=wrong"], "passphrase");
    refused(&stores, &["--keys=keys"], "--passphrase-file");
    refused(&stores, &["--keys=missing"], "missing");
    refused(&stores, &[], "give a copy of the keys with --keys");
    refused(&["d1", "e1"], &COPY, "stores of different archives");
    fs::create_dir(place.path("empty")).expect("a folder");
    refused(&["d1", "empty"], &COPY, "Is the disk mounted?");
    refused(&["d1", "nowhere"], &COPY, "Is the disk mounted?");
    refused(&["d1", "empty"], &COPY, "attach the archive without it");
    refused(&["d1", "d1"], &COPY, "d1 is given twice");
    refused(&["d1", "d2/../d1"], &COPY, "d2/../d1 is given twice");
    for file in ["fulgurite-store", "platters/x"] {
        place.write(format!("copied/{file}"), if file == "platters/x" { Vec::new() } else { place.read("d1/fulgurite-store") });
    }
    refused(&["d1", "copied"], &COPY, "are both store d1");
    refused(&stores, &["--keys=of-other", "--keys=keys-2", "--passphrase-file=passphrase"], "of-other has the keys of archive");
    refused(&stores, &["--keys=keys-2", "--keys=of-other", "--passphrase-file=passphrase"], "of-other has the keys of archive");
    assert_eq!(place.fingerprint(&["d1", "d2", "d3", "e1", "other"]), before);

    // Any burst of damage, even at the start, and a truncated end.
    let mut copy = place.read("keys-2");
    let length = copy.len();
    copy[..1_500].fill(0xff);
    copy.truncate(length - 2_000);
    place.write("damaged", &copy);
    let ran = place.good(&attach(&stores, &["--keys=damaged", "--passphrase-file=passphrase"]));
    assert!(ran.err.contains("blocks had to be corrected") && ran.err.contains("make a new copy"), "{ran:?}");
    all_is_back(&place);
}

#[test]
fn an_unencrypted_archive_needs_no_keys() {
    let place = Sandbox::new(3, &["--clear-text"]);
    place.write("file", noise(5, 1_000_000));
    place.good(&["put", "file", "--flush"]);
    fs::remove_dir_all(place.path("a")).expect("removed");
    let ran = place.good(&attach(&["d1", "d2", "d3"], &["--set=2+1"]));
    assert!(ran.text().contains("as given by --set"), "{ran:?}");
    assert!(String::from_utf8(place.read("b/fulgurite.toml")).expect("text").contains("encrypt = false"));
    assert_eq!(place.good(&["-A", "b", "get", "file", "-"]).out, noise(5, 1_000_000));
}

#[test]
fn files_still_in_the_folder_are_used_and_not_overwritten() {
    let place = lost();
    // Only the settings are lost: keys, catalogue and staged objects exist.
    fs::rename(place.path("was"), place.path("b")).expect("renamed");
    fs::write(place.path("extra"), b"staged only").expect("written");
    place.good(&["-A", "b", "put", "extra"]);
    fs::remove_file(place.path("b/fulgurite.toml")).expect("removed");
    place.run(&["-A", "b", "keys", "import", "keys"]).fails_with(1, "fulgurite attach");
    place.run(&["-A", "b", "ls"]).fails_with(1, "fulgurite attach");
    place.run(&["init", "b", "--store=d1"]).fails_with(1, "fulgurite attach");
    place.run(&["init", "c", "--store=d1"]).fails_with(1, "fulgurite attach");
    let ran = place.good(&attach(&["d1", "d2", "d3"], &[]));
    assert!(ran.text().contains("The catalogue in that folder is kept"), "{ran:?}");
    assert_eq!(place.good(&["-A", "b", "get", "extra", "-"]).out, b"staged only");
    all_is_back(&place);
    // Without the catalogue, staged objects come back too.
    for name in ["fulgurite.toml", "catalogue.db"] {
        fs::remove_file(place.path(format!("b/{name}"))).expect("removed");
    }
    place.good(&attach(&["d1", "d2", "d3"], &[]));
    assert_eq!(place.good(&["-A", "b", "get", "extra", "-"]).out, b"staged only");
    all_is_back(&place);
}

#[test]
fn a_store_without_its_mark_is_identified_by_its_platters() {
    let place = lost();
    fs::remove_file(place.path("d2/fulgurite-store")).expect("removed");
    place.good(&attach(&["d1", "second=d2", "d3"], &["--keys=keys-2", "--passphrase-file=passphrase"]));
    all_is_back(&place);
    place.good(&["-A", "b", "verify"]);
    let mark = String::from_utf8(place.read("d2/fulgurite-store")).expect("text");
    assert!(mark.ends_with("name second\n"), "{mark}");
    // A mark with other content stays, and is reported.
    fs::remove_dir_all(place.path("b")).expect("removed");
    place.write("d2/fulgurite-store", b"fulgurite stor");
    let refused = place.run(&attach(&["d1", "d2", "d3"], &COPY));
    refused.fails_with(1, "its mark, the file fulgurite-store, is damaged: it says \"fulgurite stor\"");
    refused.fails_with(1, "remove the mark; attach then identifies it by its platters");
    assert_eq!(place.read("d2/fulgurite-store"), b"fulgurite stor");
}

#[test]
fn a_failed_attempt_leaves_stores_and_folder_as_they_were() {
    let place = lost();
    fs::remove_file(place.path("d2/fulgurite-store")).expect("removed");
    place.write("b/catalogue.db", b"not a catalogue");
    place.run(&attach(&["d1", "d2", "d3"], &COPY)).fails_with(1, "can't use the existing");
    assert!(!place.path("d2/fulgurite-store").exists(), "the store was marked");
    let left: Vec<_> = fs::read_dir(place.path("b")).expect("a folder").map(|entry| entry.expect("an entry").file_name()).collect();
    assert_eq!(left, ["catalogue.db"]);
    // A key copy of another archive is noticed only when the stores are already marked.
    fs::remove_file(place.path("b/catalogue.db")).expect("removed");
    place.write("b/master.key", b"0000000000000000000000000000000000000000000000000000000000000000\n");
    place.run(&attach(&["d1", "d2", "d3"], &COPY)).fails_with(1, "another master key");
    assert!(!place.path("d2/fulgurite-store").exists(), "the store was marked");
}

/// Two sets, each on its own two stores, and a copy of the keys.
fn on_two_pairs() -> Sandbox {
    let place = Sandbox::new(2, &["--set=1+1"]);
    place.write("passphrase", b"correct horse\n");
    place.write("one", b"one");
    place.write("two", b"two");
    place.good(&["put", "one", "--flush"]);
    place.good(&["store", "add", "d3"]);
    place.good(&["store", "add", "d4"]);
    for store in ["d1", "d2"] {
        fs::rename(place.path(store), place.path(format!("away-{store}"))).expect("renamed");
    }
    place.good(&["put", "two", "--flush"]);
    place.good(&["keys", "export", "keys", "--passphrase-file", "passphrase"]);
    place
}

#[test]
fn surplus_keys_reveal_stores_that_were_not_given() {
    let place = on_two_pairs();
    let ran = place.run(&attach(&["d3", "d4"], &COPY));
    ran.fails_with(3, "absent: 1 key belongs to a version of which nothing was found");
    for command in [&["status"][..], &["verify"], &["catalogue", "rebuild"], &["status"]] {
        assert_eq!(place.run(&[&["-A", "b"], command].concat()).status, 3, "{command:?}");
    }
    for store in ["away-d1", "away-d2"] {
        place.good(&["-A", "b", "store", "add", store]);
    }
    place.good(&["-A", "b", "catalogue", "rebuild"]);
    for command in ["status", "verify"] {
        place.good(&["-A", "b", command]);
    }
    assert_eq!(place.good(&["-A", "b", "get", "one", "-"]).out, b"one");
}

#[test]
fn versions_known_only_by_keys_can_be_given_up() {
    let place = on_two_pairs();
    assert_eq!(place.run(&attach(&["d3", "d4"], &COPY)).status, 3);
    let ran = place.good(&["-A", "b", "catalogue", "forget", "--unseen"]);
    assert!(ran.text().contains("Gave up"), "{ran:?}");
    for command in [&["status"][..], &["verify"], &["catalogue", "rebuild"], &["catalogue", "forget", "--unseen"], &["status"]] {
        place.good(&[&["-A", "b"], command].concat());
    }
}

#[test]
fn stores_without_a_platter_are_unseen_until_a_rebuild() {
    let place = Sandbox::new(2, &["--clear-text"]);
    let ran = place.run(&attach(&["d1", "d2"], &[]));
    ran.fails_with(3, "absent: all platters");
    for command in ["status", "verify"] {
        assert_eq!(place.run(&["-A", "b", command]).status, 3, "{command}");
    }
    place.good(&["-A", "b", "catalogue", "rebuild"]);
    place.good(&["-A", "b", "status"]);
}

#[test]
fn a_platter_whose_store_was_not_given_is_absent_and_not_missing() {
    let place = Sandbox::new(3, &["--set=1+1", "--clear-text"]);
    place.write("one", b"one");
    place.good(&["put", "one", "--flush"]);
    let away = place.platters()[0].store.clone();
    let given: Vec<&str> = ["d1", "d2", "d3"].into_iter().filter(|store| *store != away).collect();
    fs::rename(place.path("a"), place.path("was")).expect("renamed");
    assert_eq!(place.run(&attach(&given, &[])).status, 3);
    for command in ["status", "verify", "scrub"] {
        let ran = place.run(&["-A", "b", command]);
        assert!(ran.status == 3 && !ran.err.contains("missing"), "{command}: {ran:?}");
    }
    assert_eq!(place.run(&["-A", "b", "catalogue", "rebuild"]).status, 3, "the platter is still nowhere");
    place.good(&["-A", "b", "store", "add", &away]);
    place.good(&["-A", "b", "catalogue", "rebuild"]);
    place.good(&["-A", "b", "status"]);
    place.good(&["-A", "b", "verify", "--objects"]);
}

#[test]
fn stores_that_join_one_by_one_never_make_a_version_lost() {
    let place = Sandbox::new(2, &["--set=1+1"]);
    place.write("passphrase", b"correct horse\n");
    place.write("one", b"one");
    place.good(&["put", "one", "--flush"]);
    for store in ["d3", "d4"] {
        place.good(&["store", "add", store]);
    }
    let settings = String::from_utf8(place.read("a/fulgurite.toml")).expect("text");
    place.write("a/fulgurite.toml", settings.replace("information = 1", "information = 2"));
    fs::rename(place.path("d1"), place.path("away")).expect("renamed");
    place.write("two", noise(2, 3_000_000));
    place.good(&["put", "two", "--flush"]);
    fs::rename(place.path("away"), place.path("d1")).expect("renamed");
    place.good(&["keys", "export", "keys", "--passphrase-file", "passphrase"]);
    assert_eq!(place.run(&attach(&["d1"], &COPY)).status, 3);
    for store in ["d2", "d3", "d4"] {
        for command in [&["status"][..], &["verify"], &["catalogue", "rebuild"], &["status"], &["verify"]] {
            let ran = place.run(&[&["-A", "b"], command].concat());
            assert!(ran.status == 3 && !ran.err.contains("lost: "), "before {store}: {command:?}: {ran:?}");
        }
        place.good(&["-A", "b", "store", "add", store]);
    }
    place.good(&["-A", "b", "catalogue", "rebuild"]);
    place.good(&["-A", "b", "status"]);
    place.good(&["-A", "b", "verify", "--objects"]);
    assert_eq!(place.good(&["-A", "b", "get", "two", "-"]).out, noise(2, 3_000_000));
}

#[test]
fn unseen_stores_can_be_given_up_though_a_platter_is_there_twice() {
    let place = Sandbox::new(4, &["--set=2+2"]);
    place.write("passphrase", b"correct horse\n");
    place.write("file", noise(1, 3_000_000));
    place.good(&["put", "file", "--flush"]);
    place.good(&["keys", "export", "keys", "--passphrase-file", "passphrase"]);
    fs::rename(place.path("a"), place.path("was")).expect("renamed");
    place.shell("cp -r d1 copy && rm copy/fulgurite-store");
    let ran = place.run(&attach(&["d1", "copy=copy"], &COPY));
    assert_eq!(ran.status, 3, "{ran:?}");
    // Two files of one platter are less than the two platters that the set needs.
    place.good(&["-A", "b", "catalogue", "forget", "--unseen"]);
    place.good(&["-A", "b", "put", "file", "--name", "new"]);
}

#[test]
fn unseen_stores_can_be_given_up_though_parts_of_their_sets_are_there() {
    let place = Sandbox::new(4, &["--set=2+2"]);
    place.write("passphrase", b"correct horse\n");
    // It is cut into two shards, so no store has all of it.
    place.write("file", noise(1, 3_000_000));
    place.good(&["put", "file", "--flush"]);
    place.good(&["keys", "export", "keys", "--passphrase-file", "passphrase"]);
    fs::rename(place.path("a"), place.path("was")).expect("renamed");
    let ran = place.run(&attach(&["d1"], &COPY));
    assert!(ran.status == 3 && !ran.err.contains("it was never finished, or its content was removed"), "{ran:?}");
    let refused = place.run(&["-A", "b", "put", "file"]);
    refused.fails_with(1, "the rest of their sets was not seen when the catalogue was rebuilt");
    refused.fails_with(1, "`fulgurite catalogue forget --unseen`");
    // The advice can be followed, and puts go on.
    let ran = place.good(&["-A", "b", "catalogue", "forget", "--unseen"]);
    assert!(ran.text().contains("did not see: stores absent-1, absent-2, absent-3 and unknown places."), "{ran:?}");
    place.good(&["-A", "b", "put", "file", "--name", "new"]);
    // What was given up too early is found again.
    for store in ["d2", "d3", "d4"] {
        place.good(&["-A", "b", "store", "add", store]);
    }
    place.good(&["-A", "b", "catalogue", "rebuild"]);
    place.good(&["-A", "b", "verify", "--objects"]);
    assert_eq!(place.good(&["-A", "b", "get", "file", "-"]).out, noise(1, 3_000_000));
}

#[test]
fn a_version_whose_tombstone_is_on_absent_platters_is_not_called_lost() {
    let place = Sandbox::new(3, &["--set=1+1"]);
    for name in ["kept", "gone"] {
        place.write(name, name);
    }
    place.good(&["put", "kept", "gone", "--flush"]);
    place.good(&["rm", "gone"]);
    place.good(&["keys", "export", "keys", "--plain"]);
    let written: Vec<String> = place.platters().into_iter().map(|platter| platter.id).collect();
    place.good(&["flush"]);
    // The set with the tombstone is on the other stores.
    let at_first = place.platters().into_iter().find(|platter| platter.store == "d1" && !written.contains(&platter.id));
    if let Some(platter) = at_first {
        let target = place.path(format!("d3/platters/{}.platter", platter.id));
        fs::create_dir_all(target.parent().expect("a folder")).expect("folders");
        fs::rename(platter.file, target).expect("renamed");
    }
    let ran = place.run(&["attach", "b", "--store=d1", "--keys=keys"]);
    assert!(ran.status == 3 && !ran.err.contains("lost:") && ran.err.contains("may have been removed"), "{ran:?}");
    assert_eq!(place.run(&["-A", "b", "verify"]).status, 3);
    for folder in ["d2", "d3"] {
        place.run(&["-A", "b", "store", "add", folder]);
    }
    place.good(&["-A", "b", "catalogue", "rebuild"]);
    place.good(&["-A", "b", "verify", "--objects"]);
    assert_eq!(place.good(&["-A", "b", "ls"]).text(), "kept\n");
}
