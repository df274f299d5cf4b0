//! A missing, damaged or outdated catalogue.

use std::fs;

use crate::support::{Sandbox, noise, tree};

#[test]
fn a_lost_catalogue_is_rebuilt_from_platters_and_staging() {
    let place = Sandbox::new(3, &[]);
    for index in 0..10 {
        place.write(format!("tree/{index}"), noise(index, 100_000));
    }
    place.good(&["put", "tree", "--flush"]);
    place.write("tree/staged", b"staged");
    place.write("tree/1", b"newer");
    place.good(&["put", "tree/staged", "tree/1", "--to", "tree"]);
    let listed = place.good(&["ls", "--versions", "--json"]).text();

    for lost in [None, Some(0), Some(2)] {
        if let Some(position) = lost {
            let platters = place.platters();
            assert_eq!(platters[position].position, position as u64);
            fs::remove_file(&platters[position].file).expect("removed");
        }
        fs::remove_file(place.path("a/catalogue.db")).expect("removed");
        place.run(&["ls"]).fails_with(1, "`fulgurite catalogue rebuild` recreates it");
        let rebuilt = place.good(&["catalogue", "rebuild"]);
        assert!(rebuilt.text().contains("Found 10 versions on platters and 2 in staging"), "{rebuilt:?}");
        assert_eq!(place.good(&["ls", "--versions", "--json"]).text(), listed);
        place.good(&["get", "tree", "out", "--force"]);
        assert_eq!(tree(&place.path("out")), tree(&place.path("tree")));
        place.good(&["scrub"]);
        place.good(&["verify", "--objects"]);
    }
    place.good(&["catalogue", "check"]);
}

#[test]
fn the_error_for_a_damaged_catalogue_says_how_to_rebuild_it() {
    let place = Sandbox::new(1, &[]);
    place.write("file", b"content");
    place.good(&["put", "file"]);
    for damaged in [&b"garbage"[..], &[0; 8_192], b""] {
        place.write("a/catalogue.db", damaged);
        for arguments in [&["ls"][..], &["status"], &["flush"], &["get", "file", "-"], &["catalogue", "check"]] {
            place.run(arguments).fails_with(1, "fulgurite catalogue rebuild");
        }
        place.good(&["catalogue", "rebuild"]);
        assert_eq!(place.good(&["get", "file", "-"]).out, b"content");
    }
    // Damage in the middle is found by checking.
    for index in 0..300 {
        place.write(format!("many/{index:03}"), b"x");
    }
    place.good(&["put", "many"]);
    let mut bytes = place.read("a/catalogue.db");
    let middle = bytes.len() / 2;
    bytes[middle..].fill(0xff);
    place.write("a/catalogue.db", bytes);
    place.run(&["catalogue", "check"]).fails_with(1, "fulgurite catalogue rebuild");
    place.good(&["catalogue", "rebuild"]);
    assert_eq!(place.good(&["ls"]).text().lines().count(), 301);
}

#[test]
fn an_old_copy_of_the_catalogue_is_noticed() {
    let place = Sandbox::new(1, &[]);
    place.write("file", b"content");
    place.good(&["put", "file"]);
    let old = place.read("a/catalogue.db");
    place.good(&["flush"]);
    place.write("a/catalogue.db", old);
    place.run(&["put", "file"]).fails_with(1, "the catalogue is an old copy");
    place.run(&["flush"]).fails_with(1, "fulgurite catalogue rebuild");
    for command in [&["ls"][..], &["fixity", "file"], &["get", "nothing"], &["get", "--all", "out"]] {
        place.run(command).fails_with(1, "it is an old copy and doesn't know 1 platter on the stores");
    }
    place.good(&["catalogue", "rebuild"]);
    assert_eq!(place.good(&["get", "file", "-"]).out, b"content");
}

#[test]
fn a_newer_version_that_an_old_copy_of_the_catalogue_lacks_is_noted() {
    let place = Sandbox::new(1, &[]);
    place.write("file", b"first");
    place.good(&["put", "file", "--flush"]);
    let old = place.read("a/catalogue.db");
    place.write("file", b"second");
    place.good(&["put", "file", "--flush"]);
    place.write("a/catalogue.db", old);
    let got = place.good(&["get", "file", "-"]);
    assert_eq!(got.out, b"first");
    assert!(got.err.contains("a newer version of file may exist: it is an old copy and doesn't know 1 platter"), "{got:?}");
    place.good(&["catalogue", "rebuild"]);
    let got = place.good(&["get", "file", "-"]);
    assert!(got.out == b"second" && got.err.is_empty(), "{got:?}");
}
