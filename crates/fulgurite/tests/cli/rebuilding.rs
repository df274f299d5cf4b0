//! Rebuilds with stale or absent parts: nothing is forgotten, and no answer claims more than was
//! checked.

use std::fs;

use crate::support::{Sandbox, noise};

/// An archive with `old` archived, an export of its keys, and `new` archived after the export.
fn with_stale_keys() -> Sandbox {
    let place = Sandbox::new(3, &[]);
    place.write("old", b"the old one");
    place.good(&["put", "old", "--flush"]);
    place.good(&["keys", "export", "--plain", "stale"]);
    place
}

fn lose_keys(place: &Sandbox, export: &str) {
    fs::remove_file(place.path("a/keys.db")).expect("removed");
    // The exit status says whether a version lacks its key.
    place.run(&["keys", "import", export]);
}

#[test]
fn a_staged_object_whose_key_is_missing_is_kept_until_its_is_back() {
    let place = with_stale_keys();
    place.write("c", noise(1, 100_000));
    place.good(&["put", "c"]);
    place.good(&["keys", "export", "--plain", "fresh"]);
    let segments = || place.segments().len();
    let staged = segments();
    lose_keys(&place, "stale");
    fs::remove_file(place.path("a/catalogue.db")).expect("removed");
    let rebuilt = place.run(&["catalogue", "rebuild"]);
    rebuilt.fails_with(1, "no key");
    assert!(rebuilt.text().contains("No key: 1 version"), "{rebuilt:?}");
    for verify in [&["verify"][..], &["verify", "--objects"], &["scrub"], &["verify", "--json"]] {
        let ran = place.run(verify);
        ran.fails_with(1, "no key");
        assert!(!ran.text().contains("Nothing is lost"), "{ran:?}");
    }
    place.write("d", b"put meanwhile");
    place.good(&["put", "d", "--flush"]);
    assert_eq!(segments(), staged, "the segment stays");
    assert_eq!(place.good(&["get", "d", "-"]).out, b"put meanwhile");
    // With the key, the object comes back.
    place.good(&["keys", "import", "fresh"]);
    place.run(&["verify"]).fails_with(1, "its key is back; `fulgurite catalogue rebuild`");
    place.good(&["catalogue", "rebuild"]);
    assert_eq!(place.good(&["get", "c", "-"]).out, noise(1, 100_000));
    let verified = place.good(&["verify", "--objects"]);
    assert!(verified.text().contains("Nothing is lost"), "{verified:?}");
}

#[test]
fn archived_objects_without_keys_are_named_as_far_as_a_catalogue_knows_them() {
    let place = with_stale_keys();
    place.write("tree/a", b"a");
    place.write("tree/b", noise(2, 300_000));
    place.good(&["put", "tree", "--flush"]);
    place.good(&["keys", "export", "--plain", "fresh"]);
    let listed = place.good(&["ls", "--versions", "--json"]).text();
    lose_keys(&place, "stale");
    // The catalogue knows the names, and a rebuild keeps them.
    for _ in 0..2 {
        assert_eq!(place.good(&["ls", "--versions", "--json"]).text(), listed);
        for verify in [&["verify"][..], &["verify", "--objects"]] {
            let ran = place.run(verify);
            ran.fails_with(1, "tree/a (version 1): no key");
            ran.fails_with(1, "tree/b (version 1): no key");
        }
        place.run(&["get", "tree/a", "-"]).fails_with(1, "key");
        assert_eq!(place.good(&["get", "old", "-"]).out, b"the old one");
        place.run(&["catalogue", "rebuild"]);
    }
    // Without a catalogue the names are unknown, but the versions are counted, and no command
    // claims that all is well.
    fs::remove_file(place.path("a/catalogue.db")).expect("removed");
    let rebuilt = place.run(&["catalogue", "rebuild"]);
    rebuilt.fails_with(1, "no key");
    assert!(rebuilt.text().contains("No key: 2 versions"), "{rebuilt:?}");
    let verified = place.run(&["verify", "--objects", "--json"]);
    verified.fails_with(1, "no key");
    assert_eq!(verified.json()["lost"].as_array().expect("a list").len(), 2);
    place.good(&["keys", "import", "fresh"]);
    place.good(&["catalogue", "rebuild"]);
    assert_eq!(place.good(&["ls", "--versions", "--json"]).text(), listed);
    place.good(&["verify", "--objects"]);
}

#[test]
fn removed_versions_stay_removed_and_count_as_no_missing_key() {
    let place = with_stale_keys();
    place.write("c", b"c");
    place.good(&["put", "c"]);
    place.good(&["rm", "old"]);
    place.good(&["rm", "c"]);
    for flushes in [false, true] {
        if flushes {
            place.write("d", b"d");
            place.good(&["put", "d", "--flush"]);
        }
        fs::remove_file(place.path("a/catalogue.db")).expect("removed");
        let rebuilt = place.good(&["catalogue", "rebuild"]);
        assert!(!rebuilt.text().contains("No key"), "{rebuilt:?}");
        place.good(&["verify", "--objects"]);
        // Nor with the existing catalogue.
        place.good(&["catalogue", "rebuild"]);
        place.run(&["get", "old", "-"]).fails_with(1, "nothing is stored as old");
    }
}

#[test]
fn a_rebuild_without_all_disks_fails_and_changes_nothing() {
    let place = Sandbox::new(3, &[]);
    place.write("file", b"content");
    place.good(&["put", "file", "--flush"]);
    let listed = place.good(&["ls", "--versions", "--json"]).text();
    for away in [&["d1"][..], &["d1", "d2", "d3"]] {
        for disk in away {
            fs::rename(place.path(disk), place.path(format!("{disk}.away"))).expect("renamed");
            fs::create_dir(place.path(disk)).expect("an empty mount point");
        }
        let before = place.fingerprint(&["a"]);
        place.run(&["catalogue", "rebuild"]).fails_with(3, "Mount what is absent and try again");
        let after = place.fingerprint(&["a"]);
        assert_eq!(after.get(std::path::Path::new("a/catalogue.db")), before.get(std::path::Path::new("a/catalogue.db")));
        let ran = place.run(&["ls", "--versions", "--json"]);
        // All stores can hide sets that the catalogue doesn't know, one can't.
        assert_eq!((ran.text(), ran.status), (listed.clone(), if away.len() == 1 { 0 } else { 3 }));
        // With --without-unseen, it keeps what the old catalogue knew, and reports what it did not
        // see.
        let rebuilt = place.run(&["catalogue", "rebuild", "--without-unseen"]);
        assert_ne!(rebuilt.status, 0, "{rebuilt:?}");
        let not_read = if away.len() == 1 { "Not read: store d1, see above." } else { "Not read: stores d1, d2, d3, see above." };
        assert!(rebuilt.text().contains(not_read), "{rebuilt:?}");
        let incomplete = place.run(&["ls", "--versions", "--json"]);
        assert_eq!(incomplete.text(), listed);
        incomplete.fails_with(3, "not read when the catalogue was rebuilt: store");
        // A version that is listed can be restored; only a newer one may be unknown.
        if away.len() == 1 {
            assert!(place.good(&["get", "file", "-"]).err.contains("a newer version of file may exist"));
        }
        place.run(&["get", "nothing", "-"]).fails_with(3, "nothing is known to be stored as nothing, but the catalogue is incomplete");
        let verified = place.run(&["verify"]);
        assert_ne!(verified.status, 0, "{verified:?}");
        for disk in away {
            fs::remove_dir(place.path(disk)).expect("empty");
            fs::rename(place.path(format!("{disk}.away")), place.path(disk)).expect("renamed");
        }
        // The disks are back, but the catalogue has not seen them yet.
        assert_ne!(place.run(&["verify"]).status, 0);
        place.good(&["catalogue", "rebuild"]);
        place.good(&["verify", "--objects"]);
        assert_eq!(place.good(&["get", "file", "-"]).out, b"content");
    }
}

#[test]
fn after_a_rebuild_without_stores_each_is_named_once_and_keeps_its_platters() {
    let place = Sandbox::new(6, &["--set", "4+2"]);
    // Four platters of content, so that the set is on all six disks.
    for number in 0..8 {
        place.write(format!("tree/{number}"), noise(number, 400_000));
    }
    place.good(&["put", "tree", "--flush"]);
    place.write("again", noise(9, 400_000));
    place.good(&["put", "again", "--flush"]);
    for disk in ["d1", "d2", "d3"] {
        fs::rename(place.path(disk), place.path(format!("{disk}.away"))).expect("renamed");
    }
    place.run(&["catalogue", "rebuild"]).fails_with(3, "would lack the content of stores d1, d2, d3: store d1 (");
    let stores: Vec<String> = place.platters().into_iter().map(|platter| platter.store).collect();
    let rebuilt = place.run(&["catalogue", "rebuild", "--without-unseen"]);
    assert!(rebuilt.status == 3 && rebuilt.text().contains("Not read: stores d1, d2, d3, see above."), "{rebuilt:?}");
    assert_eq!(rebuilt.err.matches("Is the disk mounted?").count(), 3, "{rebuilt:?}");
    let kept: Vec<String> = place.platters().into_iter().map(|platter| platter.store).collect();
    assert_eq!(kept, stores, "the stores of platters that were not seen are still known");
    let status = place.run(&["status"]);
    assert!(status.text().contains("not read when the catalogue was rebuilt: stores d1, d2, d3; when they can be read"), "{status:?}");
    let verified = place.run(&["verify"]);
    assert!(verified.status == 3 && verified.err.contains("stores d1, d2, d3 are absent. 4 of the 6 platters"), "{verified:?}");
    assert!(verified.text().contains("not read because stores d1, d2, d3 are absent: mount"), "{verified:?}");
    // A new disk in place of one of them gets its platters back as soon as the others are there.
    fs::create_dir(place.path("d1")).expect("a new disk");
    place.good(&["store", "replace", "d1"]);
    for disk in ["d2", "d3"] {
        fs::rename(place.path(format!("{disk}.away")), place.path(disk)).expect("renamed");
    }
    // The set of `again` is smaller, and its disks are those with the most room.
    let lost = stores.iter().filter(|store| *store == "d1").count();
    let scrubbed = place.run(&["scrub"]);
    assert!(lost > 0 && scrubbed.text().contains(&format!("Recovered {lost} platter")), "{lost} of {stores:?}: {scrubbed:?}");
    place.good(&["catalogue", "rebuild"]);
    place.good(&["verify", "--objects"]);
}

#[test]
fn platters_whose_store_is_not_known_are_on_one_of_the_absent_stores() {
    let place = Sandbox::new(4, &["--set", "2+2"]);
    place.write("one", noise(1, 400_000));
    place.write("two", noise(2, 400_000));
    place.good(&["put", "one", "two", "--flush"]);
    for disk in ["d1", "d2", "d3"] {
        fs::rename(place.path(disk), place.path(format!("{disk}.away"))).expect("renamed");
    }
    fs::rename(place.path("d3.away"), place.path("d3")).expect("renamed");
    fs::remove_file(place.path("a/catalogue.db")).expect("removed");
    assert_eq!(place.run(&["catalogue", "rebuild", "--without-unseen"]).status, 3);
    let verified = place.run(&["verify"]);
    assert!(verified.status == 3 && verified.text().contains("2 platters on one of stores d1, d2: absent"), "{verified:?}");
    assert!(verified.text().contains("2 platters were not read because stores d1, d2 are absent: mount"), "{verified:?}");
    let scrubbed = place.run(&["scrub", "--replace-absent"]);
    assert!(scrubbed.err.contains("its store is not known, and every store that can be used holds a platter"), "{scrubbed:?}");
    assert!(!scrubbed.err.contains("store ?") && !scrubbed.err.contains("replace ?"), "{scrubbed:?}");
    let report = place.run(&["verify", "--json"]).json();
    assert!(report["unsound"][0]["why"].as_str().expect("text").contains("it is on one of these stores: store d1 ("), "{report}");
    fs::rename(place.path("d3"), place.path("d3.away")).expect("renamed");
    place.run(&["get", "one", "-"]).fails_with(3, "stores d1, d2, d3 are absent. 2 of the 4 platters");
}

#[test]
fn two_versions_with_one_number_are_removed_one_at_a_time() {
    let place = Sandbox::new(2, &[]);
    place.write("file", b"first");
    place.good(&["put", "file", "--flush"]);
    for disk in ["d1", "d2"] {
        fs::rename(place.path(disk), place.path(format!("{disk}.away"))).expect("renamed");
        fs::create_dir(place.path(disk)).expect("an empty mount point");
    }
    // With disks absent and the catalogue lost, version 1 is unknown.
    fs::remove_file(place.path("a/catalogue.db")).expect("removed");
    assert_ne!(place.run(&["catalogue", "rebuild", "--without-unseen"]).status, 0);
    place.write("file", b"second");
    place.good(&["put", "file"]);
    for disk in ["d1", "d2"] {
        fs::remove_dir(place.path(disk)).expect("empty");
        fs::rename(place.path(format!("{disk}.away")), place.path(disk)).expect("renamed");
    }
    // Before the next put, a rebuild has to read the disks.
    place.run(&["put", "file"]).fails_with(1, "`fulgurite catalogue rebuild` brings it up to date");
    let rebuilt = place.good(&["catalogue", "rebuild"]);
    assert!(rebuilt.text().contains("1 version number is shared"), "{rebuilt:?}");
    assert!(rebuilt.err.contains("file has several versions numbered 1"), "{rebuilt:?}");
    assert_eq!(place.good(&["catalogue", "rebuild", "--json"]).json()["shared_numbers"], 1);
    let verified = place.good(&["verify"]);
    assert!(verified.text().contains("1 version number is shared"), "{verified:?}");
    assert!(verified.err.contains("file has several versions numbered 1"), "{verified:?}");
    assert_eq!(place.good(&["verify", "--json"]).json()["shared_numbers"], 1);
    let versions = place.good(&["ls", "--versions", "--json"]).json_lines();
    assert_eq!(versions.iter().map(|row| row["version"].as_u64()).collect::<Vec<_>>(), [Some(1), Some(1)]);
    let ids: Vec<&str> = versions.iter().map(|row| row["id"].as_str().expect("an identifier")).collect();
    place.run(&["rm", "file", "--version", "1"]).fails_with(1, "several versions numbered 1");
    let listed = place.good(&["ls", "--versions"]).text();
    assert_eq!(listed.lines().count(), 2, "nothing was removed");
    assert!(ids.iter().all(|id| listed.contains(id)), "{listed}");
    // `get` selects a version by its identifier, or the beginning of it.
    let ambiguous = place.run(&["get", "file", "-", "--version", "1"]);
    ambiguous.fails_with(1, "several versions numbered 1");
    assert!(ambiguous.out.is_empty() && ids.iter().all(|id| ambiguous.err.contains(id)), "{ambiguous:?}");
    let content = |id: &str| place.good(&["get", "file", "-", "--id", id]).out;
    let mut contents = [content(ids[0]), content(&ids[1].to_uppercase())];
    contents.sort();
    assert_eq!(contents, [&b"first"[..], b"second"]);
    let common = ids[0].bytes().zip(ids[1].bytes()).take_while(|(a, b)| a == b).count();
    assert_eq!(content(&ids[0][..=common]), content(ids[0]));
    place.run(&["get", "file", "-", "--id", "zz"]).fails_with(1, "file has no version whose identifier begins with zz");
    place.run(&["rm", "file", "--id", "zz"]).fails_with(1, "file has no version whose identifier begins with zz");
    for words in [&["get", "file", "-", "--id", ""], &["rm", "file", "file", "--id", ""]] {
        assert_eq!(place.run(words).status, 2, "an empty identifier would match any version");
    }
    let id = ids[0];
    place.good(&["rm", "file", "--id", id]);
    let left = place.good(&["ls", "--versions", "--json"]).json_lines();
    assert_eq!(left.len(), 1);
    assert_ne!(left[0]["id"], versions[0]["id"]);
}

#[test]
fn a_put_never_takes_the_number_of_a_version_that_cant_be_listed() {
    let place = Sandbox::new(2, &[]);
    place.write("file", b"first");
    place.good(&["put", "file", "--flush"]);
    place.write("file", b"second");
    place.write("alone", b"alone");
    place.good(&["put", "file", "alone"]);
    for segment in place.segments() {
        fs::remove_file(segment).expect("removed");
    }
    place.run(&["catalogue", "rebuild"]).fails_with(1, "file (version 2)");
    // `get` neither returns the older version silently nor claims that nothing is stored.
    let got = place.good(&["get", "file", "-"]);
    assert_eq!(got.out, b"first");
    assert!(got.err.contains("version 1 of file is not the newest: version 2 exists"), "{got:?}");
    for command in [&["get", "alone", "-"][..], &["get", "alone", "-", "--version", "1"], &["ls", "alone"], &["rm", "alone"]] {
        place.run(command).fails_with(1, "alone exists, but no version of it can be listed");
    }
    // The lost versions are missing from the list: it says so.
    let listed = place.run(&["ls"]);
    assert_eq!(listed.text(), "file\n");
    listed.fails_with(1, "so the list may be too: 2 versions can't be listed");
    place.good(&["put", "file", "alone"]);
    let listed = place.run(&["ls", "--versions", "--json"]);
    listed.fails_with(1, "2 versions can't be listed");
    let versions = listed.json_lines();
    let numbers: Vec<_> = versions.iter().map(|row| (row["name"].as_str().expect("a name"), row["version"].as_u64())).collect();
    assert_eq!(numbers, [("alone", Some(2)), ("file", Some(3)), ("file", Some(1))]);
    // Newer versions hide the lost ones.
    assert_eq!(place.good(&["get", "file", "-"]).err, "");
    assert_eq!(place.good(&["ls"]).err, "");
}

#[test]
fn a_removal_of_a_folder_says_that_versions_below_it_can_not_be_listed() {
    let place = Sandbox::new(2, &[]);
    place.write("tree/kept", b"kept");
    place.good(&["put", "tree", "--flush"]);
    place.write("tree/lost", b"lost");
    place.good(&["put", "tree"]);
    for segment in place.segments() {
        fs::remove_file(segment).expect("removed");
    }
    place.run(&["catalogue", "rebuild"]).fails_with(1, "tree/lost (version 1)");
    let removed = place.run(&["rm", "--recursive", "tree"]);
    assert!(removed.text().contains("Removed 1 version"), "{removed:?}");
    removed.fails_with(1, "versions of tree and below it may be left: 1 version can't be listed");
}

#[test]
fn verify_finds_platters_that_an_old_copy_of_the_catalogue_lacks() {
    let place = Sandbox::new(3, &[]);
    place.write("first", b"first");
    place.good(&["put", "first", "--flush"]);
    let old = place.read("a/catalogue.db");
    let first = place.platters().len();
    place.write("second", b"second");
    place.good(&["put", "second", "--flush"]);
    let second: Vec<_> = place.platters().into_iter().skip(first).collect();
    place.write("a/catalogue.db", old);
    let verified = place.run(&["verify"]);
    verified.fails_with(1, "");
    let unknown = format!("Found {} platters that the catalogue doesn't know", second.len());
    assert!(verified.text().contains(&unknown), "{verified:?}");
    assert!(!verified.text().contains("Nothing is lost."), "{verified:?}");
    // They are read and checked, too.
    let mut bytes = fs::read(&second[0].file).expect("read");
    let (third, end) = (bytes.len() / 3, bytes.len() * 2 / 3);
    bytes[third..end].iter_mut().step_by(500).for_each(|byte| *byte ^= 1);
    fs::write(&second[0].file, bytes).expect("written");
    let verified = place.run(&["verify", "--json"]);
    assert_eq!(verified.status, 1);
    let unknown = verified.json()["unknown_platters"].as_array().expect("a list").clone();
    let damaged: Vec<_> = unknown.iter().filter(|row| row["lost_sectors"] != 0).collect();
    assert_eq!(damaged.len(), 1, "{unknown:?}");
    assert_eq!(damaged[0]["platter"], second[0].id.as_str());
    place.run(&["put", "first"]).fails_with(1, "the catalogue is an old copy");
    place.good(&["catalogue", "rebuild"]);
    assert_eq!(place.good(&["get", "second", "-"]).out, b"second");
}

#[test]
fn versions_whose_keys_are_lost_for_good_can_be_given_up() {
    let place = with_stale_keys();
    place.write("staged", b"staged");
    place.write("archived", b"archived");
    place.good(&["put", "archived", "--flush"]);
    place.good(&["put", "staged"]);
    lose_keys(&place, "stale");
    fs::remove_file(place.path("a/catalogue.db")).expect("removed");
    place.run(&["catalogue", "rebuild"]).fails_with(1, "no key");
    let lost = place.run(&["verify", "--json"]).json()["lost"].clone();
    let ids: Vec<&str> = lost.as_array().expect("a list").iter().map(|row| row["id"].as_str().expect("text")).collect();
    assert_eq!(ids.len(), 2);
    place.run(&["catalogue", "forget", ids[0], "00000000000000000000000000000000"]).fails_with(1, "Nothing was given up");
    assert_eq!(place.run(&["verify", "--json"]).json()["lost"].as_array().expect("a list").len(), 2);
    place.good(&[&["catalogue", "forget"], &ids[..]].concat());
    for _ in 0..2 {
        place.good(&["verify", "--objects"]);
        assert_eq!(place.good(&["get", "old", "-"]).out, b"the old one");
        // A rebuild doesn't find them again.
        fs::remove_file(place.path("a/catalogue.db")).expect("removed");
        place.good(&["catalogue", "rebuild"]);
        place.good(&["flush"]);
    }
}

#[test]
fn the_next_rebuild_destroys_keys_that_an_old_key_store_brought_back() {
    let place = Sandbox::new(3, &[]);
    place.write("kept", b"kept");
    place.write("removed", b"removed");
    place.good(&["put", "kept", "removed", "--flush"]);
    let old = place.read("a/keys.db");
    place.good(&["rm", "removed"]);
    place.good(&["flush"]);
    place.write("a/keys.db", &old);
    place.good(&["catalogue", "rebuild"]);
    place.good(&["keys", "export", "--plain", "after"]);
    let imported = place.good(&["keys", "import", "after", "--json"]).json();
    assert_eq!(imported["keys"], 1, "{imported}");
    place.good(&["verify", "--objects"]);
}

#[test]
fn an_import_counts_versions_that_can_not_be_listed_without_a_key() {
    let place = with_stale_keys();
    place.write("c", b"after the export");
    place.good(&["put", "c"]);
    place.good(&["keys", "export", "--plain", "fresh"]);
    lose_keys(&place, "stale");
    fs::remove_file(place.path("a/catalogue.db")).expect("removed");
    place.run(&["catalogue", "rebuild"]).fails_with(1, "no key");
    let status = place.run(&["status"]);
    assert!(status.status == 1 && status.text().contains("1 version that can't be listed"), "{status:?}");
    place.run(&["keys", "import", "stale"]).fails_with(1, "1 version that can't be listed");
    let imported = place.good(&["keys", "import", "fresh"]);
    assert!(imported.err.contains("1 version that could not be listed has its key now"), "{imported:?}");
    place.good(&["catalogue", "rebuild"]);
    place.good(&["status"]);
    assert_eq!(place.good(&["get", "c", "-"]).out, b"after the export");
}

#[test]
fn status_reports_platters_that_the_catalogue_does_not_know() {
    let place = Sandbox::new(2, &[]);
    let files = ["catalogue.db", "catalogue.db-wal", "catalogue.db-shm"];
    let old: Vec<_> = files.iter().map(|file| fs::read(place.path(format!("a/{file}"))).ok()).collect();
    place.write("file", b"content");
    place.good(&["put", "file", "--flush"]);
    for (file, content) in files.iter().zip(old) {
        let _ = fs::remove_file(place.path(format!("a/{file}")));
        if let Some(content) = content {
            place.write(format!("a/{file}"), content);
        }
    }
    let status = place.run(&["status"]);
    assert!(status.status == 1 && status.text().contains("that the catalogue doesn't know"), "{status:?}");
    place.good(&["catalogue", "rebuild"]);
    place.good(&["status"]);
}

#[test]
fn a_rebuild_names_damaged_versions_in_staging() {
    let place = Sandbox::new(2, &[]);
    place.write("damaged", noise(1, 100_000));
    place.write("whole", noise(2, 100_000));
    place.good(&["put", "damaged"]);
    place.good(&["put", "whole"]);
    let segment = place.segments().remove(0);
    fs::OpenOptions::new().write(true).open(segment).and_then(|file| file.set_len(1_000)).expect("truncated");
    for arguments in [&["catalogue", "rebuild"][..], &["verify"], &["catalogue", "rebuild"]] {
        let ran = place.run(arguments);
        ran.fails_with(1, "lost: damaged (version 1)");
        assert!(!ran.err.contains("whole"), "{ran:?}");
    }
    assert_eq!(place.good(&["get", "whole", "-"]).out, noise(2, 100_000));
}

#[test]
fn surplus_keys_reveal_a_set_lost_together_with_the_catalogue() {
    let place = Sandbox::new(2, &[]);
    place.write("kept", b"kept");
    place.good(&["put", "kept", "--flush"]);
    let kept: Vec<_> = place.platters().into_iter().map(|platter| platter.id).collect();
    place.write("gone", b"gone");
    place.good(&["put", "gone", "--flush"]);
    for platter in place.platters().into_iter().filter(|platter| !kept.contains(&platter.id)) {
        std::fs::remove_file(platter.file).expect("removed");
    }
    std::fs::remove_file(place.path("a/catalogue.db")).expect("removed");
    let ran = place.run(&["catalogue", "rebuild"]);
    assert!(ran.status == 3 && ran.text().contains("1 key belongs to a version of which nothing was found"), "{ran:?}");
    assert_eq!(place.run(&["verify"]).status, 3);
    assert_eq!(place.good(&["get", "kept", "-"]).out, b"kept");
}

#[test]
fn status_notices_platters_missing_from_present_stores() {
    let place = Sandbox::new(3, &[]);
    place.write("file", noise(1, 50_000));
    place.good(&["put", "file", "--flush"]);
    place.good(&["status"]);
    fs::remove_file(&place.platters()[0].file).expect("removed");
    let status = place.run(&["status"]);
    assert!(status.status == 1 && status.text().contains("1 damaged or missing"), "{status:?}");
    assert_eq!(place.run(&["status", "--json"]).json()["missing_platters"], 1);
    place.good(&["scrub"]);
    place.good(&["status"]);
}

#[test]
fn commands_that_fail_for_an_absent_store_exit_with_status_3() {
    let place = Sandbox::new(3, &[]);
    place.write("file", noise(1, 50_000));
    place.good(&["put", "file", "--flush"]);
    let set = place.good(&["platters", "--json"]).json_lines()[0]["set"].as_str().expect("text").to_owned();
    fs::rename(place.path("d1"), place.path("away")).expect("renamed");
    place.run(&["catalogue", "rebuild"]).fails_with(3, "Mount what is absent and try again");
    place.run(&["catalogue", "forget", "--set", &set]).fails_with(3, "was not given up");
}

#[test]
fn a_removal_outlives_the_staging_folder_that_had_its_tombstone() {
    for options in [&[][..], &["--clear-text"][..]] {
        let place = Sandbox::new(2, options);
        place.write("secret", b"secret");
        place.good(&["put", "secret", "--flush"]);
        place.good(&["rm", "secret"]);
        fs::remove_dir_all(place.path("a/staging")).expect("removed");
        assert_eq!(place.run(&["catalogue", "rebuild", "--without-unseen"]).status, 3);
        for _ in 0..2 {
            place.good(&["catalogue", "rebuild"]);
            place.run(&["get", "secret", "-"]).fails_with(1, "nothing is stored as secret");
            place.good(&["verify", "--objects"]);
        }
    }
}

#[test]
fn a_removal_outlives_the_set_that_had_its_tombstone() {
    for gives_up in [false, true] {
        let place = Sandbox::new(2, &["--clear-text"]);
        place.write("secret", b"secret");
        place.good(&["put", "secret", "--flush"]);
        let kept: Vec<_> = place.platters().into_iter().map(|platter| platter.id).collect();
        place.good(&["rm", "secret"]);
        place.write("other", b"other");
        place.good(&["put", "other", "--flush"]);
        for platter in place.platters().into_iter().filter(|platter| !kept.contains(&platter.id)) {
            fs::remove_file(platter.file).expect("removed");
        }
        assert_eq!(place.run(&["verify"]).status, 1);
        if gives_up {
            place.good(&["rm", "other"]);
            let row = place.run(&["platters", "--json"]).json_lines().into_iter().find(|row| row["missing"] == true);
            let set = row.expect("one")["set"].as_str().expect("text").to_owned();
            place.good(&["catalogue", "forget", "--set", &set]);
            place.good(&["catalogue", "rebuild"]);
            place.good(&["verify", "--objects"]);
        } else {
            assert_ne!(place.run(&["catalogue", "rebuild"]).status, 2);
        }
        place.run(&["get", "secret", "-"]).fails_with(1, "nothing is stored as secret");
        assert_eq!(place.run(&["status", "--json"]).json()["staged"]["tombstones"], 1 + u64::from(gives_up));
    }
}

#[test]
fn an_old_catalogue_does_not_hide_what_newer_keys_tell_of() {
    let place = Sandbox::new(2, &[]);
    place.write("one", b"one");
    place.good(&["put", "one", "--flush"]);
    fs::copy(place.path("a/catalogue.db"), place.path("old.db")).expect("copied");
    let kept: Vec<_> = place.platters().into_iter().map(|platter| platter.id).collect();
    place.write("two", b"two");
    place.good(&["put", "two", "--flush"]);
    for platter in place.platters().into_iter().filter(|platter| !kept.contains(&platter.id)) {
        fs::remove_file(platter.file).expect("removed");
    }
    fs::rename(place.path("old.db"), place.path("a/catalogue.db")).expect("renamed");
    let ran = place.run(&["catalogue", "rebuild"]);
    assert!(ran.status == 3 && ran.text().contains("1 key belongs to a version"), "{ran:?}");
    for command in ["status", "verify"] {
        assert_eq!(place.run(&[command]).status, 3, "{command}");
    }
}

#[test]
fn an_old_copy_of_staging_replaces_what_a_damaged_set_has_lost() {
    let place = Sandbox::new(2, &[]);
    place.write("big", noise(1, 3_000_000));
    place.good(&["put", "big"]);
    place.shell("cp -r a/staging old");
    place.good(&["flush"]);
    for platter in place.platters() {
        let mut bytes = fs::read(&platter.file).expect("read");
        let length = bytes.len();
        bytes[length / 10..length / 2].fill(0);
        fs::write(&platter.file, bytes).expect("written");
    }
    place.run(&["verify"]).fails_with(1, "lost: big");
    place.shell("cp old/*.segment a/staging");
    place.write("other", b"other");
    place.good(&["put", "other"]);
    let ran = place.good(&["catalogue", "rebuild"]);
    assert!(ran.err.contains("released before"), "{ran:?}");
    assert_eq!(place.good(&["get", "big", "-"]).out, noise(1, 3_000_000));
    place.good(&["flush"]);
    assert_eq!(place.good(&["get", "big", "-"]).out, noise(1, 3_000_000));
}

#[test]
fn a_version_that_a_rebuild_left_out_does_not_come_back_with_the_next_command() {
    for options in [&[][..], &["--clear-text"][..]] {
        let place = Sandbox::new(2, options);
        for name in ["removed", "other"] {
            place.write(name, name);
            place.good(&["put", name]);
        }
        place.shell("cp -r a backup");
        place.good(&["rm", "removed"]);
        place.good(&["flush"]);
        place.shell("rm -r a; mv backup a");
        let ran = place.good(&["catalogue", "rebuild"]);
        assert!(ran.text().contains("1 version removed according to tombstones"), "{ran:?}");
        place.write("next", b"next");
        for command in [&["put", "next"][..], &["flush"], &["catalogue", "rebuild"], &["verify", "--objects"], &["status"]] {
            place.good(command);
            place.run(&["get", "removed", "-"]).fails_with(1, "nothing is stored as removed");
        }
        assert_eq!(place.good(&["get", "other", "-"]).out, b"other");
    }
}

#[test]
fn platters_that_moved_by_hand_are_recovered_onto_other_stores_of_the_set() {
    let place = Sandbox::new(3, &["--set", "1+1"]);
    place.write("file", noise(1, 300_000));
    place.good(&["put", "file", "--flush"]);
    let platters = place.platters();
    let [kept, lost] = &platters[..] else { panic!("a set of 1+1 has two platters: {platters:?}") };
    // One platter replaces the other on its store, and the catalogue's knowledge is out of date.
    fs::remove_file(&lost.file).expect("removed");
    fs::rename(&kept.file, place.path(format!("{}/platters/{}.platter", lost.store, kept.id))).expect("renamed");
    place.run(&["catalogue", "rebuild"]);
    place.good(&["scrub"]);
    let stores: Vec<String> = place.platters().into_iter().map(|platter| platter.store).collect();
    assert_ne!(stores[0], stores[1], "both platters of a set are on one store");
    fs::rename(place.path(&lost.store), place.path("away")).expect("renamed");
    assert_eq!(place.good(&["get", "file", "-"]).out, noise(1, 300_000));
}

#[test]
fn platters_that_tell_no_set_can_be_given_up() {
    let place = Sandbox::new(2, &["--set", "1+1"]);
    place.write("file", noise(1, 300_000));
    place.good(&["put", "file", "--flush"]);
    let platters = place.platters();
    let names = ["0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"];
    let [copy, foreign] = names.map(|name| place.path(format!("{}/platters/{name}.platter", platters[0].store)));
    fs::copy(&platters[0].file, &copy).expect("copied");
    fs::write(&foreign, noise(2, 100_000)).expect("written");
    // They don't keep anybody from storing more, and are named.
    place.write("next", b"next");
    place.good(&["put", "next", "--flush"]);
    let verified = place.run(&["verify"]);
    assert!(verified.status == 1 && verified.text().contains("2 platters named above can't be read"), "{verified:?}");
    for (name, why) in [(names[0], "it is platter "), (names[1], "this is not a Fulgurite platter")] {
        let line = format!("unknown  {name} on store {}: {why}", platters[0].store);
        assert!(verified.text().contains(&line), "{line}: {verified:?}");
    }
    let rebuilt = place.run(&["catalogue", "rebuild"]);
    assert!(rebuilt.err.contains(&format!("it is platter {}: if no other file is, rename this one", platters[0].id)), "{rebuilt:?}");
    for (command, exit) in [("status", 3), ("verify", 1)] {
        let ran = place.run(&[command]);
        assert!(ran.status == exit && ran.text().contains("or give it up with `fulgurite catalogue forget --unseen`"), "{ran:?}");
    }
    let forgot = place.good(&["catalogue", "forget", "--unseen"]);
    assert!(
        forgot.text().contains(&format!("Left out 2 platters, of which too little can be read: {}, {}.", names[0], names[1])),
        "{forgot:?}"
    );
    for command in [&["status"][..], &["verify"], &["catalogue", "rebuild"], &["status"], &["verify", "--objects"]] {
        place.good(command);
    }
    assert_eq!(place.good(&["get", "file", "-"]).out, noise(1, 300_000));
    // Following the advice loses nothing.
    fs::remove_file(&copy).expect("removed");
    fs::rename(&platters[0].file, &copy).expect("renamed");
    place.run(&["verify"]);
    fs::rename(&copy, &platters[0].file).expect("renamed");
    place.good(&["catalogue", "rebuild"]);
    place.good(&["verify", "--objects"]);
}

#[test]
fn a_platter_that_cannot_be_read_keeps_all_from_being_called_well() {
    let place = Sandbox::new(1, &["--set", "1+0"]);
    place.write("file", noise(1, 300_000));
    place.good(&["put", "file", "--flush"]);
    // Reading a folder fails, as that of a damaged disk.
    fs::create_dir(place.path("d1/platters/0123456789abcdef0123456789abcdef.platter")).expect("a folder");
    for command in ["verify", "scrub"] {
        let ran = place.run(&[command]);
        assert!(ran.status == 4 && ran.text().contains("1 platter named above can't be read"), "{ran:?}");
        assert!(ran.text().contains("Nothing is known to be lost.") && !ran.text().contains("Nothing is lost."), "{ran:?}");
    }
    assert_ne!(place.run(&["status"]).status, 0);
    assert_ne!(place.run(&["catalogue", "rebuild"]).status, 0);
    // It may be good, so it is not given up.
    place.good(&["catalogue", "forget", "--unseen"]);
    assert_eq!(place.run(&["verify"]).status, 4);
}

/// Leaves what a flush leaves that was killed when it had written the platters at `positions`, and
/// whose catalogue is lost: they are on their stores, and their content is still staged.
fn after_a_killed_flush(place: &Sandbox, positions: &[u64]) {
    let staged: Vec<_> = place.segments().into_iter().map(|path| (fs::read(&path).expect("a segment"), path)).collect();
    place.good(&["flush"]);
    for platter in place.platters().iter().filter(|platter| !positions.contains(&platter.position)) {
        fs::remove_file(&platter.file).expect("removed");
    }
    staged.into_iter().for_each(|(bytes, path)| fs::write(path, bytes).expect("written"));
    fs::remove_file(place.path("a/catalogue.db")).expect("removed");
}

#[test]
fn what_a_killed_flush_left_can_be_told_to_be_no_loss() {
    let place = Sandbox::new(4, &["--set", "3+1"]);
    place.write("file", noise(1, 5_000_000));
    place.good(&["put", "file"]);
    after_a_killed_flush(&place, &[0]);
    // Without a catalogue, nothing tells this from a set that has lost three platters.
    let rebuilt = place.run(&["catalogue", "rebuild"]);
    rebuilt.fails_with(1, "If a flush was cut short while it wrote set ");
    assert!(rebuilt.text().contains("Found 0 versions on platters and 1 in staging."), "{rebuilt:?}");
    assert_eq!(place.run(&["verify"]).status, 1);
    assert_eq!(place.run(&["catalogue", "rebuild"]).status, 1, "the user has not said anything yet");
    let tables = rebuilt.err.lines().filter_map(|line| line.split("`fulgurite catalogue forget ").nth(1)?.split('`').next());
    let tables: Vec<String> = tables.map(str::to_owned).collect();
    assert_eq!(tables.len(), 2, "{rebuilt:?}");
    // Each answer is remembered for itself.
    place.good(&["catalogue", "forget", &tables[0]]);
    let rebuilt = place.run(&["catalogue", "rebuild"]);
    assert!(
        rebuilt.status == 1 && rebuilt.err.contains(&tables[1]) && !rebuilt.err.contains(&format!("forget {}`", tables[0])),
        "{rebuilt:?}"
    );
    place.good(&["catalogue", "forget", &tables[1]]);
    place.good(&["verify", "--objects"]);
    place.good(&["catalogue", "rebuild"]);
    place.good(&["verify", "--objects"]);
    place.good(&["flush"]);
    assert_eq!(place.good(&["get", "file", "-"]).out, noise(1, 5_000_000));
    place.good(&["verify", "--objects"]);
}

#[test]
fn what_is_staged_and_on_platters_is_counted_once() {
    let place = Sandbox::new(4, &["--set", "3+1"]);
    place.write("file", noise(1, 5_000_000));
    place.good(&["put", "file"]);
    after_a_killed_flush(&place, &[0, 1, 2]);
    let rebuilt = place.run(&["catalogue", "rebuild"]);
    assert!(rebuilt.text().contains("Found 0 versions on platters and 1 in staging."), "{rebuilt:?}");
    assert_eq!(place.good(&["get", "file", "-"]).out, noise(1, 5_000_000));
}
