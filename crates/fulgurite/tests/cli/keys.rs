//! Lost keys, and their copies.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::support::Sandbox;

fn archive() -> Sandbox {
    let place = Sandbox::new(2, &[]);
    place.write("file", b"content");
    place.good(&["put", "file", "--flush"]);
    place.write("passphrase", b"correct horse\n");
    place
}

#[test]
fn an_archive_is_readable_again_after_importing_exported_keys() {
    let place = archive();
    place.good(&["keys", "export", "--plain", "plain"]);
    let ran = place.good(&["keys", "export", "sealed", "--passphrase-file", "passphrase"]);
    assert!(ran.text().contains("the master key and 1 object key"), "{ran:?}");
    assert_eq!(fs::metadata(place.path("plain")).expect("there").permissions().mode() & 0o777, 0o600);
    assert!(!String::from_utf8_lossy(&place.read("sealed")).contains(&*String::from_utf8_lossy(&place.read("a/master.key"))));
    place.run(&["keys", "export", "--plain", "plain"]).fails_with(1, "plain");

    for (export, options) in [("plain", &[][..]), ("sealed", &["--passphrase-file", "passphrase"])] {
        for lost in [&["master.key"][..], &["keys.db"], &["master.key", "keys.db"]] {
            for name in lost {
                fs::remove_file(place.path(format!("a/{name}"))).expect("removed");
            }
            place.run(&["get", "file", "-"]).fails_with(1, "fulgurite keys import");
            place.run(&["catalogue", "rebuild"]).fails_with(1, "fulgurite keys import");
            place.good(&[&["keys", "import", export], options].concat());
            assert_eq!(place.good(&["get", "file", "-"]).out, b"content");
            assert_eq!(fs::metadata(place.path("a/master.key")).expect("there").permissions().mode() & 0o777, 0o600);
        }
    }
}

#[test]
fn keys_that_do_not_fit_change_nothing() {
    let place = archive();
    place.init("b", "e", 1, &[]);
    place.good(&["keys", "export", "sealed", "--passphrase-file", "passphrase"]);
    place.good(&["keys", "export", "plain", "--plain"]);
    place.good(&["-A", "b", "keys", "export", "--plain", "other"]);
    place.write("wrong", b"wrong horse");
    place.write("empty", b"");
    place.write("two-lines", b"one\ntwo\n");
    fs::remove_file(place.path("a/master.key")).expect("removed");
    let before = place.fingerprint(&["a"]);
    place.run(&["keys", "import", "sealed"]).fails_with(1, "--passphrase-file");
    place.run(&["keys", "import", "sealed", "--passphrase-file", "wrong"]).fails_with(1, "passphrase");
    place.run(&["keys", "import", "sealed", "--passphrase-file", "empty"]).fails_with(1, "must contain exactly one line");
    place.run(&["keys", "import", "sealed", "--passphrase-file", "two-lines"]).fails_with(1, "must contain exactly one line");
    place.run(&["keys", "import", "sealed", "--passphrase-file", "missing"]).fails_with(1, "the passphrase file missing");
    place.run(&["keys", "import", "other"]).fails_with(1, "nothing was changed");
    place.run(&["keys", "import", "file"]).fails_with(1, "first line should be");
    place.run(&["keys", "import", "missing"]).fails_with(1, "missing: No such file");
    let sealed = place.read("sealed");
    place.write("cut-sealed", &sealed[..900]);
    place.run(&["keys", "import", "cut-sealed", "--passphrase-file", "passphrase"]).fails_with(1, "cut-sealed: ");
    place.run(&["keys", "import", "plain", "other"]).fails_with(1, "other has the keys of archive");
    // Whatever the order, the foreign copy is blamed.
    place.run(&["keys", "import", "other", "plain"]).fails_with(1, "other has the keys of archive");
    place.run(&["keys", "repair", "other", "plain"]).fails_with(1, "other has the keys of archive");
    place.run(&["keys", "repair", "other"]).fails_with(1, "nothing was changed");
    assert_eq!(place.fingerprint(&["a"]), before);

    // The master key of another archive, which opens nothing.
    fs::copy(place.path("b/master.key"), place.path("a/master.key")).expect("copied");
    place.run(&["get", "file", "-"]).fails_with(1, "is not wrapped by it");
    place.run(&["get", "file", "-"]).fails_with(1, "move the file away before importing keys");
    place.run(&["keys", "import", "plain"]).fails_with(1, "contains another master key");
    fs::remove_file(place.path("a/master.key")).expect("removed");
    place.good(&["keys", "import", "plain"]);
    assert_eq!(place.good(&["get", "file", "-"]).out, b"content");
    // And its key store.
    fs::rename(place.path("a/keys.db"), place.path("keys.db")).expect("renamed");
    fs::copy(place.path("b/keys.db"), place.path("a/keys.db")).expect("copied");
    for command in [&["get", "file", "-"][..], &["keys", "import", "plain"], &["keys", "repair", "plain"]] {
        place.run(command).fails_with(1, "Move keys.db away");
    }
    fs::remove_file(place.path("a/keys.db")).expect("removed");
    place.good(&["keys", "import", "plain"]);
    assert_eq!(place.good(&["get", "file", "-"]).out, b"content");
    place.write("a/master.key", "no key");
    place.run(&["ls"]).fails_with(1, "the master key");
}

#[test]
fn a_removed_object_does_not_come_back_with_keys_exported_before() {
    let place = archive();
    place.good(&["keys", "export", "--plain", "plain"]);
    place.good(&["rm", "file"]);
    place.good(&["keys", "import", "plain"]);
    place.run(&["get", "file", "-"]).fails_with(1, "nothing is stored as file");
    fs::remove_file(place.path("a/catalogue.db")).expect("removed");
    place.good(&["catalogue", "rebuild"]);
    assert_eq!(place.good(&["ls"]).text(), "");
}

/// The key of the removed version is on the copy, and nothing but staging shows the removal.
#[test]
fn an_import_beside_an_old_catalogue_undoes_no_removal() {
    for (lost, command) in [("", "import"), ("rm a/keys.db", "import"), ("head -c 20000 /dev/zero > a/keys.db", "repair")] {
        for next in [&["verify"][..], &["flush"], &["catalogue", "rebuild"]] {
            let place = archive();
            place.write("kept", b"kept");
            place.good(&["put", "kept", "--flush"]);
            fs::copy(place.path("a/catalogue.db"), place.path("old.db")).expect("copied");
            place.good(&["keys", "export", "--plain", "plain"]);
            place.good(&["rm", "file"]);
            fs::copy(place.path("old.db"), place.path("a/catalogue.db")).expect("copied");
            place.shell(lost);
            let ran = place.run(&["keys", command, "plain"]);
            ran.fails_with(1, "it lists 1 version that was removed; run `fulgurite catalogue rebuild`");
            assert!(ran.text().contains("1 key was left out") && !ran.err.contains("no key"), "{ran:?}");
            place.good(next);
            for _ in 0..2 {
                place.run(&["get", "file", "-"]).fails_with(1, "nothing is stored as file");
                assert_eq!(place.good(&["get", "kept", "-"]).out, b"kept");
                assert!(place.good(&["verify", "--objects"]).text().contains("Nothing is lost"));
                place.good(&["catalogue", "rebuild"]);
            }
        }
    }
}

/// A crash before a removal is acknowledged leaves a tombstone in staging, and the key.
#[test]
fn an_import_completes_no_interrupted_removal() {
    let place = archive();
    place.good(&["keys", "export", "--plain", "plain"]);
    for file in ["catalogue.db", "keys.db"] {
        fs::copy(place.path("a").join(file), place.path(file)).expect("copied");
    }
    place.good(&["rm", "file"]);
    for file in ["catalogue.db", "keys.db"] {
        fs::copy(place.path(file), place.path("a").join(file)).expect("copied");
    }
    for command in ["import", "repair"] {
        let ran = place.good(&["keys", command, "plain"]);
        assert!(!ran.text().contains("left out"), "{ran:?}");
    }
    place.good(&["verify", "--objects"]);
    assert_eq!(place.good(&["get", "file", "-"]).out, b"content");
}

const OBJECTS: u64 = 700;
const PAGE: usize = 4_096;

/// An archive of many objects with its key store, and a copy of the keys, `older`, that lacks the
/// last 100.
fn many() -> (Sandbox, Vec<u8>) {
    let place = Sandbox::new(2, &[]);
    place.write("passphrase", b"correct horse\n");
    for index in 0..OBJECTS - 100 {
        place.write(format!("tree/{index:03}"), format!("content {index}"));
    }
    place.good(&["put", "tree"]);
    place.good(&["keys", "export", "older", "--passphrase-file", "passphrase"]);
    for index in OBJECTS - 100..OBJECTS {
        place.write(format!("later/{index:03}"), format!("content {index}"));
    }
    place.good(&["put", "later", "--to", "tree", "--flush"]);
    let store = place.read("a/keys.db");
    (place, store)
}

fn readable(place: &Sandbox) -> u64 {
    let ran = place.run(&["verify", "--objects", "--json"]);
    let lost = ran.err.lines().filter(|line| line.contains("no key: it is not in the key store")).count() as u64;
    OBJECTS - lost
}

#[test]
fn repair_salvages_every_key_outside_of_the_damage() {
    let (place, sound) = many();
    let pages = sound.len() / PAGE;
    assert!(pages > 20, "{pages} pages");
    let per_page = PAGE as u64 / 64;
    let spoil = |pages: &[usize]| {
        let mut damaged = sound.clone();
        for page in pages {
            damaged[page * PAGE..(page + 1) * PAGE].fill(0x5a);
        }
        damaged
    };
    let half = sound[..sound.len() / 2].to_vec();
    // The damage, and the maximum number of keys it can destroy.
    for (damaged, at_most) in
        [(spoil(&[0]), per_page), (spoil(&[pages / 2]), per_page), (spoil(&[1, pages / 3, pages - 1]), 3 * per_page), (half, 500)]
    {
        for name in fs::read_dir(place.path("a")).expect("a folder").map(|entry| entry.expect("an entry").path()) {
            if name.file_name().is_some_and(|name| name.to_string_lossy().starts_with("keys.db")) {
                fs::remove_file(name).expect("removed");
            }
        }
        place.write("a/keys.db", &damaged);
        // The commands that people try first say what to do, and change nothing.
        place.run(&["keys", "import", "older", "--passphrase-file", "passphrase"]).fails_with(1, "fulgurite keys repair");
        assert!(place.read("a/keys.db") == damaged);
        let ran = place.run(&["keys", "repair", "--json"]);
        let report = ran.json();
        let saved = report["salvaged"]["keys"].as_u64().expect("a number");
        let missing = report["without_key"].as_u64().expect("a number");
        assert_eq!((saved + missing, report["keys"].as_u64()), (OBJECTS, Some(saved)));
        assert_eq!(ran.status, i32::from(missing > 0), "{ran:?}");
        assert!(missing <= at_most, "{missing} of at most {at_most}");
        let named = report["without_key_names"].as_array().expect("a list");
        assert_eq!(named.len() as u64, missing);
        assert_eq!(ran.err.matches("no key: tree/").count() as u64, missing, "{ran:?}");
        assert!(place.read("a/keys.db.damaged") == damaged, "it is kept as it was");
        assert_eq!(readable(&place), saved);
        for version in named {
            let name = version["name"].as_str().expect("text");
            place.run(&["get", name, "-"]).fails_with(1, "key");
        }
        // A copy has the other keys, except those of later versions.
        let ran = place.run(&["keys", "repair", "older", "--passphrase-file", "passphrase"]);
        let later = named.iter().filter(|version| version["name"].as_str() > Some("tree/599")).count();
        assert_eq!(ran.err.matches("no key: ").count(), later, "{ran:?}");
        assert!(ran.text().contains("The key store is sound."), "{ran:?}");
    }
}

#[test]
fn copies_are_merged_and_a_repair_takes_them_too() {
    let place = archive();
    place.good(&["keys", "export", "first", "--plain"]);
    place.write("second", b"more");
    place.good(&["put", "second", "--flush"]);
    place.good(&["keys", "export", "second.sealed", "--passphrase-file", "passphrase"]);
    place.write("a/keys.db", b"nothing of it is left");
    place.run(&["get", "file", "-"]).fails_with(1, "fulgurite keys repair");
    let ran = place.run(&["keys", "repair", "first"]);
    assert!(ran.status == 1 && ran.err.contains("no key: second (version 1)"), "{ran:?}");
    place.run(&["keys", "repair"]).fails_with(1, "no key: second (version 1)");
    fs::remove_file(place.path("a/keys.db")).expect("removed");
    let ran = place.good(&["keys", "import", "first", "second.sealed", "--passphrase-file", "passphrase"]);
    assert!(ran.text().contains("first: 1 key, 1 of them") && ran.text().contains("second.sealed: 2 keys, 1 of them"), "{ran:?}");
    place.good(&["verify", "--objects"]);
}

#[test]
fn keys_of_removed_versions_do_not_come_back() {
    let place = archive();
    place.write("other", b"other");
    place.good(&["put", "other"]);
    place.good(&["keys", "export", "old", "--plain"]);
    let damaged = place.read("a/keys.db");
    place.good(&["rm", "file", "other"]);
    // With tombstones in staging and then on platters, with a catalogue and without.
    for flushed in [false, true] {
        if flushed {
            place.good(&["flush"]);
        }
        for catalogue in [true, false] {
            if !catalogue {
                fs::rename(place.path("a/catalogue.db"), place.path("kept")).expect("renamed");
            }
            let report = place.good(&["keys", "import", "old", "--json"]).json();
            assert_eq!((&report["keys"], &report["removed"]), (&0.into(), &2.into()), "flushed: {flushed}, catalogue: {catalogue}");
            if !catalogue {
                fs::rename(place.path("kept"), place.path("a/catalogue.db")).expect("renamed");
            }
        }
    }
    // Nor from an old, damaged key store.
    let mut damaged = damaged;
    damaged[..PAGE].fill(0);
    place.write("a/keys.db", damaged);
    let report = place.good(&["keys", "repair", "--json"]).json();
    assert_eq!((&report["keys"], &report["removed"]), (&0.into(), &2.into()), "{report}");
}

#[test]
fn every_valid_line_of_a_damaged_unsealed_copy_is_imported() {
    let place = archive();
    place.write("second", b"more");
    place.good(&["put", "second", "--flush"]);
    place.good(&["keys", "export", "plain", "--plain"]);
    let text = String::from_utf8(place.read("plain")).expect("text");
    place.write("cut", &text[..text.len() - 20]);
    let keys: Vec<&str> = text.lines().filter(|line| line.starts_with("key ")).collect();
    place.write("spoiled", text.replacen(&keys[0][60..70], "??????????", 1));
    for (copy, status) in [("cut", 0), ("spoiled", 1)] {
        fs::remove_file(place.path("a/keys.db")).expect("removed");
        fs::remove_file(place.path("a/master.key")).expect("removed");
        let ran = place.run(&["keys", "import", copy]);
        // A damaged copy never exits with 0.
        assert_eq!(ran.status, 1, "{ran:?}");
        assert!(ran.err.contains("is damaged: ") && ran.err.contains("Only lines"), "{ran:?}");
        assert_eq!(ran.err.matches("no key: ").count(), status, "{ran:?}");
    }
    // Without the line that names the archive, nothing tells whose keys they are.
    let archive = text.lines().nth(1).expect("it names the archive");
    let nameless = text.replacen(archive, "archive ?", 1);
    place.write("nameless", &nameless);
    fs::remove_file(place.path("a/keys.db")).expect("removed");
    fs::remove_file(place.path("a/master.key")).expect("removed");
    let ran = place.run(&["keys", "import", "nameless"]);
    ran.fails_with(1, &format!("change its second line to `{archive}`"));
    assert!(!place.path("a/master.key").exists(), "nothing was changed");
    place.write("named", nameless.replacen("archive ?", archive, 1));
    place.good(&["keys", "import", "named"]);
    place.good(&["verify", "--objects"]);
}

#[test]
fn a_damaged_master_key_is_replaced_by_that_of_a_copy() {
    let place = Sandbox::new(1, &[]);
    place.write("file", b"content");
    place.good(&["put", "--flush", "file"]);
    place.good(&["keys", "export", "copy", "--plain"]);
    let key = place.read("a/master.key");
    for (number, damage) in [&key[..30], b"", b"not a key"].into_iter().enumerate() {
        place.write("a/master.key", damage);
        place.run(&["get", "file", "-"]).fails_with(1, "`fulgurite keys import` brings it back");
        place.good(&["keys", "import", "copy"]);
        assert!(place.read("a/master.key") == key);
        assert!(place.read(format!("a/master.key.damaged-{}", number + 1)) == damage);
        assert_eq!(place.good(&["get", "file", "-"]).out, b"content");
    }
    // The key of another archive is no damage.
    let other = Sandbox::new(1, &[]);
    place.write("a/master.key", other.read("a/master.key"));
    let ran = place.run(&["keys", "import", "copy"]);
    assert_eq!(ran.status, 1, "{ran:?}");
}
