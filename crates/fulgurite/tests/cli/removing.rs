//! The command `rm`: removed versions never come back.

use std::fs;

use crate::support::Sandbox;

#[test]
fn removed_versions_stay_removed_after_a_rebuild() {
    for options in [&[][..], &["--clear-text"]] {
        let place = Sandbox::new(2, options);
        for name in ["kept", "gone", "folder/one", "folder/two", "other/one"] {
            place.write(format!("tree/{name}"), name);
        }
        place.good(&["put", "tree/."]);
        place.write("tree/kept", b"newer");
        place.good(&["put", "tree/kept", "--name", "tree/kept", "--flush"]);
        assert!(place.good(&["rm", "tree/gone"]).text().contains("Removed 1 version."));
        place.run(&["rm", "tree/folder"]).fails_with(1, "tree/folder is a folder; --recursive removes it");
        place.good(&["rm", "-r", "tree/folder"]);
        place.good(&["rm", "tree/kept", "--version", "2"]);
        place.run(&["rm", "tree/kept", "--version", "2"]).fails_with(1, "tree/kept has no version 2");
        place.run(&["rm", "tree/gone"]).fails_with(1, "nothing is stored as tree/gone");
        place.run(&["rm", "/"]).fails_with(1, "the name is empty");
        let left = "tree/kept\ntree/other/one\n";
        for _ in 0..2 {
            assert_eq!(place.good(&["ls"]).text(), left);
            assert_eq!(place.good(&["get", "tree/kept", "-"]).out, b"kept");
            place.run(&["get", "tree/gone", "-"]).fails_with(1, "nothing is stored");
            fs::remove_file(place.path("a/catalogue.db")).expect("removed");
            let rebuilt = place.good(&["catalogue", "rebuild"]);
            assert!(rebuilt.text().contains("Left out 4 versions removed according to tombstones"), "{rebuilt:?}");
            assert_eq!(place.good(&["ls"]).text(), left);
            // Second, with the tombstones on a platter.
            place.write("more", b"more");
            place.good(&["put", "more", "--name", "tree/other/one", "--flush"]);
        }
        assert_eq!(place.good(&["get", "tree/other/one", "-"]).out, b"more");
    }
}

#[test]
fn versions_removed_before_a_flush_never_reach_a_platter() {
    let place = Sandbox::new(1, &["--clear-text"]);
    place.write("secret", b"the secret that was staged only");
    place.write("other", b"other");
    place.good(&["put", "secret", "other"]);
    place.good(&["rm", "secret"]);
    place.good(&["flush"]);
    let platter = fs::read(&place.platters()[0].file).expect("readable");
    assert!(!platter.windows(10).any(|bytes| bytes == b"the secret"));
    assert!(platter.windows(5).any(|bytes| bytes == b"other"));
}

#[test]
fn removals_alone_are_written_to_platters_and_outlive_the_archive_folder() {
    let place = Sandbox::new(2, &[]);
    for name in ["kept", "gone"] {
        place.write(name, name);
    }
    place.good(&["put", "kept", "gone", "--flush"]);
    place.good(&["keys", "export", "old", "--plain"]);
    assert!(place.good(&["rm", "gone"]).text().contains("known only to this folder"));
    let flushed = place.good(&["flush", "--json"]).json();
    assert_eq!((&flushed["sets"], &flushed["removals"]), (&1.into(), &1.into()), "{flushed}");
    assert!(place.good(&["flush"]).text().contains("Nothing is staged"));
    place.good(&["verify", "--objects"]);
    place.good(&["keys", "export", "new", "--plain"]);
    // The platter with the tombstone has no content that a code could miss.
    let last =
        place.platters().into_iter().max_by_key(|platter| fs::metadata(&platter.file).and_then(|file| file.modified()).expect("a time"));
    fs::remove_file(last.expect("platters").file).expect("removed");
    place.good(&["scrub"]);
    for (folder, keys) in [("a2", "old"), ("a3", "new")] {
        fs::rename(place.path("a"), place.path(format!("{folder}.lost"))).expect("renamed");
        place.good(&["attach", "a", "--store", "d1", "--store", "d2", "--keys", keys]);
        assert_eq!(place.good(&["ls"]).text(), "kept\n", "{keys}");
        place.good(&["verify", "--objects"]);
    }
}

#[test]
fn removals_beside_older_objects_that_stay_staged_are_written_once() {
    let place = Sandbox::new(2, &[]);
    for name in ["archived", "staged"] {
        place.write(name, name);
    }
    place.good(&["put", "archived", "--flush"]);
    place.good(&["put", "staged"]);
    let segment = place.segments().remove(0);
    let whole = fs::read(&segment).expect("readable");
    fs::write(&segment, vec![0; whole.len()]).expect("written");
    place.good(&["rm", "archived"]);
    for sets in [1, 0, 0] {
        let flushed = place.run(&["flush", "--json"]);
        flushed.fails_with(1, "1 staged object was not written to platters");
        assert_eq!((&flushed.json()["sets"], &flushed.json()["removals"]), (&sets.into(), &sets.into()), "{flushed:?}");
    }
    fs::write(&segment, whole).expect("written");
    let report = place.good(&["flush", "--json"]).json();
    assert_eq!((&report["versions"], &report["removals"]), (&1.into(), &0.into()), "{report}");
    assert_eq!(place.good(&["status", "--json"]).json()["staged"]["tombstones"], 0);
}
