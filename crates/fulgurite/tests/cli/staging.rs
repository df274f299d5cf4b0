//! Full, absent, lost and outdated staging.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use crate::support::{Sandbox, noise, tree};

/// An archive with a staging limit of 16 MiB.
fn small() -> Sandbox {
    let place = Sandbox::new(2, &[]);
    let settings = String::from_utf8(place.read("a/fulgurite.toml")).expect("text");
    let limited = settings.replace("# limit_mib = 100000", "limit_mib = 16");
    assert_ne!(settings, limited);
    place.write("a/fulgurite.toml", limited);
    place
}

/// Eight files of 5 MiB.
fn make_tree(place: &Sandbox) {
    for index in 0..8 {
        place.write(format!("tree/{index}"), noise(index, 5 << 20));
    }
}

fn names(values: &Value, key: &str) -> BTreeSet<String> {
    values.as_array().expect("a list").iter().map(|value| value[key].as_str().expect("text").to_owned()).collect()
}

#[test]
fn a_tree_larger_than_staging_is_stored_with_flush() {
    let place = small();
    make_tree(&place);
    let put = place.good(&["put", "tree", "--flush", "--json"]).json();
    assert_eq!(put["objects"], 8, "{put}");
    assert!(put["flush"]["sets"].as_u64() >= Some(3), "{put}");
    place.good(&["get", "tree", "out"]);
    assert_eq!(tree(&place.path("out")), tree(&place.path("tree")));
    assert_eq!(place.segments().len(), 0);
}

#[test]
fn a_put_that_fills_staging_lists_what_it_stored_and_continues_after_a_flush() {
    let place = small();
    make_tree(&place);
    let mut left: BTreeSet<String> = (0..8).map(|index| format!("tree/{index}")).collect();
    let mut rounds = 0;
    loop {
        let ran = place.run(&["put", "tree", "--json"]);
        let put = ran.json();
        assert_eq!(put["unchanged"], 8 - left.len(), "{put}");
        if ran.status == 0 {
            break;
        }
        ran.fails_with(1, "is full: ");
        ran.fails_with(1, "`fulgurite flush` writes what is staged to platters");
        assert!(put["error"].as_str().is_some_and(|error| error.contains("staging in ")), "{put}");
        let stored = names(&put["stored"], "name");
        assert_eq!((put["objects"].as_u64(), &put["staged"]["versions"]), (Some(stored.len() as u64), &put["objects"]), "{put}");
        left.retain(|name| !stored.contains(name));
        assert_eq!(names(&put["not_stored"], "name"), left, "{put}");
        let listed = place.good(&["ls"]).text();
        assert_eq!(listed.lines().count(), 8 - left.len(), "{listed}");
        assert!(!stored.is_empty(), "each put stores something");
        place.good(&["flush"]);
        rounds += 1;
    }
    assert!(rounds >= 2, "{rounds} rounds");
    let versions = place.good(&["ls", "--versions", "--json"]).json_lines();
    assert!(versions.len() == 8 && versions.iter().all(|row| row["version"] == 1), "nothing is stored twice");
    place.good(&["get", "tree", "out"]);
    assert_eq!(tree(&place.path("out")), tree(&place.path("tree")));
}

#[test]
fn a_put_that_fills_staging_says_so_without_json_too() {
    let place = small();
    make_tree(&place);
    let ran = place.run(&["put", "tree"]);
    ran.fails_with(1, "not stored: tree/7\n");
    ran.fails_with(1, "with --flush it writes to platters whenever staging is full");
    assert!(ran.text().contains("and then failed") && ran.text().contains("stored: tree/0 (version 1)\n"), "{ran:?}");
}

#[test]
fn a_file_larger_than_staging_is_named_and_the_others_are_stored() {
    let place = small();
    place.write("tree/1", noise(1, 5 << 20));
    place.write("tree/2", noise(2, 17 << 20));
    place.write("tree/3", noise(3, 5 << 20));
    let ran = place.run(&["put", "tree", "--flush"]);
    ran.fails_with(1, "not stored: tree/2: it needs 178");
    assert_eq!(place.good(&["ls"]).text(), "tree/1\ntree/3\n");
    place.run(&["put", "tree"]).fails_with(1, "is full: 178");
}

/// An archive with one object archived and one staged.
fn with_both() -> Sandbox {
    let place = Sandbox::new(2, &[]);
    place.write("archived", b"on platters");
    place.write("staged", b"in staging");
    place.good(&["put", "archived", "--flush"]);
    place.good(&["put", "staged"]);
    place
}

#[test]
fn staging_that_is_not_mounted_is_absent_and_nothing_is_called_lost() {
    let place = with_both();
    for mount_point_is_there in [true, false] {
        std::fs::rename(place.path("a/staging"), place.path("unmounted")).expect("renamed");
        if mount_point_is_there {
            std::fs::create_dir(place.path("a/staging")).expect("a folder");
        }
        let before = place.fingerprint(&["unmounted"]);
        for arguments in [
            &["verify"][..],
            &["scrub"],
            &["flush"],
            &["put", "archived", "--again"],
            &["rm", "archived"],
            &["get", "staged", "-"],
            &["catalogue", "rebuild"],
        ] {
            let ran = place.run(arguments);
            ran.fails_with(3, "is absent: no mark of this archive is in it");
            assert!(!ran.text().contains("lost") && !ran.err.contains("lost:"), "{ran:?}");
        }
        let status = place.run(&["status"]);
        assert!(status.status == 3 && status.text().contains("is absent: no mark"), "{status:?}");
        assert_eq!(place.good(&["get", "archived", "-"]).out, b"on platters");
        place.good(&["fixity", "archived"]);
        let fixity = place.run(&["fixity", "staged"]);
        assert!(fixity.status == 3 && fixity.text().contains("staged: ABSENT"), "{fixity:?}");
        assert_eq!(place.fingerprint(&["unmounted"]), before);
        let _ = std::fs::remove_dir(place.path("a/staging"));
        std::fs::rename(place.path("unmounted"), place.path("a/staging")).expect("renamed");
        place.good(&["verify", "--objects"]);
        assert_eq!(place.good(&["get", "staged", "-"]).out, b"in staging");
    }
}

#[test]
fn lost_staging_is_given_up_only_on_request_and_its_versions_are_named() {
    let place = with_both();
    std::fs::rename(place.path("a/staging"), place.path("gone")).expect("renamed");
    let rebuilt = place.run(&["catalogue", "rebuild", "--without-unseen"]);
    rebuilt.fails_with(3, "absent: staged");
    place.run(&["verify"]).fails_with(3, "absent: staged");
    place.run(&["status"]).fails_with(3, "");
    place.write("next", b"next");
    place.good(&["put", "next", "--flush"]);
    // The staging folder turns up after all.
    std::fs::remove_dir_all(place.path("a/staging")).expect("removed");
    std::fs::rename(place.path("gone"), place.path("a/staging")).expect("renamed");
    for arguments in [&["verify"][..], &["put", "next", "--again"], &["flush"]] {
        place.run(arguments).fails_with(1, "absent when the catalogue was rebuilt. Nothing was changed");
    }
    place.good(&["catalogue", "rebuild"]);
    place.good(&["verify", "--objects"]);
    for (name, content) in [("archived", &b"on platters"[..]), ("staged", b"in staging"), ("next", b"next")] {
        assert_eq!(place.good(&["get", name, "-"]).out, content, "{name}");
    }
}

#[test]
fn a_staging_segment_that_cannot_be_read_is_unreadable_and_not_lost() {
    let place = Sandbox::new(2, &[]);
    place.write("file", noise(1, 100_000));
    place.write("other", noise(2, 1_000));
    place.good(&["put", "other", "--flush"]);
    place.good(&["put", "file"]);
    let segment = place.segments().remove(0);
    let whole = segment.with_extension("whole");
    fs::rename(&segment, &whole).expect("renamed");
    // A folder can be opened, and every read of it fails, even for root.
    fs::create_dir(&segment).expect("a folder");
    for command in [&["flush"][..], &["put", "other", "--flush"]] {
        let ran = place.run(command);
        ran.fails_with(4, "1 staged object was not written to platters");
        let said = format!("{}{}", ran.text(), ran.err);
        assert!(!said.contains("lost") && !said.contains("Nothing is staged"), "{said}");
        assert!(!said.contains("on platters 1") && !said.contains("Wrote and verified"), "{said}");
    }
    // What can be read is written.
    let put = place.run(&["put", "other", "--again", "--flush"]);
    assert!(put.status == 4 && put.text().contains("in 1 set: 1 object"), "{put:?}");
    assert!(!put.text().contains("Stored on platters"), "it can't tell whose object stays staged: {put:?}");
    fs::remove_dir(&segment).expect("removed");
    fs::rename(&whole, &segment).expect("renamed");
    place.good(&["flush"]);
    assert_eq!(place.good(&["get", "file", "-"]).out, noise(1, 100_000));
}

#[test]
fn a_missing_staging_segment_is_lost_and_not_absent() {
    let place = with_both();
    for segment in place.segments() {
        std::fs::remove_file(segment).expect("removed");
    }
    let status = place.run(&["status"]);
    assert!(status.status == 1 && status.text().contains("1 segment is missing"), "{status:?}");
    place.run(&["verify"]).fails_with(1, "needs staging segment");
    let fixity = place.run(&["fixity", "staged"]);
    assert!(fixity.status == 1 && fixity.text().contains("staged: MISSING"), "{fixity:?}");
    place.run(&["get", "staged", "-"]).fails_with(1, "staged");
}

#[cfg(target_os = "linux")]
#[test]
fn platters_of_a_set_that_was_never_finished_are_not_missing() {
    let place = Sandbox::new(2, &[]);
    place.write("file", noise(1, 3_000_000));
    place.good(&["put", "file"]);
    // A file size limit below the size of a platter makes the system kill the flush halfway.
    let ended = place.shell(&format!("ulimit -f 4000; {} -A a flush", env!("CARGO_BIN_EXE_fulgurite")));
    assert_ne!(ended.status, 0, "{ended:?}");
    let rows = place.good(&["platters", "--json"]).json_lines();
    let states: Vec<_> = rows.iter().map(|row| (row["state"].as_str().expect("a word"), row["missing"].as_bool())).collect();
    assert_eq!(states, [("being written", Some(false)); 2]);
    let listed = place.good(&["platters"]).text();
    assert_eq!(listed.lines().filter(|line| line.ends_with("being written")).count(), 2, "{listed}");
    let status = place.good(&["status", "--json"]).json();
    assert_eq!((&status["sets"], &status["sets_being_written"], &status["platters"]), (&0.into(), &1.into(), &0.into()), "{status}");
    assert!(place.good(&["status"]).text().contains("1 set is being written"));
    // The next flush starts over.
    place.good(&["flush"]);
    assert!(place.good(&["platters", "--json"]).json_lines().iter().all(|row| row["state"] == "sound"));
    assert_eq!(place.good(&["status", "--json"]).json()["sets_being_written"], 0);
}

#[test]
fn without_catalogue_and_staging_a_rebuild_does_not_claim_that_all_is_well() {
    let place = Sandbox::new(2, &["--clear-text"]);
    place.write("removed", b"on platters, and removed");
    place.write("staged", b"in staging");
    place.good(&["put", "removed", "--flush"]);
    place.good(&["put", "staged"]);
    place.good(&["rm", "removed"]);
    std::fs::rename(place.path("a/staging"), place.path("unmounted")).expect("renamed");
    std::fs::remove_file(place.path("a/catalogue.db")).expect("removed");
    place.run(&["catalogue", "rebuild"]).fails_with(3, "is absent");
    place.run(&["catalogue", "rebuild", "--without-unseen"]).fails_with(3, "is absent");
    let verified = place.run(&["verify"]);
    assert!(
        verified.status == 3 && verified.text().contains("not read when the catalogue was rebuilt: the staging folder"),
        "{verified:?}"
    );
    assert_eq!(place.run(&["status"]).status, 3);
    std::fs::remove_dir_all(place.path("a/staging")).expect("removed");
    std::fs::rename(place.path("unmounted"), place.path("a/staging")).expect("renamed");
    // The tombstone in staging is read before a sweep removes it.
    place.run(&["verify"]).fails_with(1, "Nothing was changed");
    place.good(&["catalogue", "rebuild"]);
    place.good(&["verify", "--objects"]);
    place.good(&["status"]);
    assert_eq!(place.good(&["get", "staged", "-"]).out, b"in staging");
    place.run(&["get", "removed", "-"]).fails_with(1, "nothing is stored");
}

#[test]
fn an_old_copy_of_staging_brings_back_no_removed_versions() {
    for options in [&[][..], &["--clear-text"][..]] {
        let place = Sandbox::new(2, options);
        for name in ["kept", "removed"] {
            place.write(name, name);
            place.good(&["put", name]);
        }
        place.shell("cp -r a/staging old");
        place.good(&["flush"]);
        place.good(&["rm", "removed"]);
        place.write("later", "later");
        place.good(&["put", "later", "--flush"]);
        let bring_back = || {
            place.shell("cp old/*.segment a/staging");
            assert!(place.segments().len() >= 2);
        };
        let is_as_it_was = || {
            assert_eq!(place.good(&["ls", "--versions"]).text().matches("removed").count(), 0);
            assert_eq!(place.good(&["get", "kept", "-"]).out, b"kept");
            place.good(&["verify", "--objects"]);
            place.good(&["status"]);
        };
        bring_back();
        is_as_it_was();
        place.good(&["flush"]);
        assert_eq!(place.segments().len(), 0, "it was released");
        is_as_it_was();
        bring_back();
        place.good(&["catalogue", "rebuild"]);
        is_as_it_was();
        place.good(&["flush"]);
        bring_back();
        place.good(&["flush"]);
        assert_eq!(place.segments().len(), 0, "the new catalogue remembers it as well");
        is_as_it_was();
        assert!(place.good(&["platters", "--json"]).json_lines().len() <= 4, "nothing was written twice");
    }
}

#[test]
fn an_old_copy_of_staging_brings_back_versions_that_no_platter_has() {
    let place = Sandbox::new(2, &[]);
    for name in ["kept", "removed"] {
        place.write(name, name);
        place.good(&["put", name]);
    }
    place.shell("cp -r a/staging old");
    place.good(&["flush"]);
    place.good(&["rm", "removed"]);
    place.shell("rm d?/platters/*; rm -r a/staging; cp -r old a/staging");
    place.good(&["catalogue", "rebuild"]);
    assert_eq!(place.good(&["ls"]).text(), "kept\n");
    assert_eq!(place.good(&["get", "kept", "-"]).out, b"kept");
    place.good(&["flush"]);
    assert_eq!(place.good(&["get", "kept", "-"]).out, b"kept");
}

#[cfg(unix)]
#[test]
fn a_file_or_dangling_link_in_place_of_staging_is_rejected() {
    let place = with_both();
    std::fs::rename(place.path("a/staging"), place.path("unmounted")).expect("renamed");
    for is_link in [false, true] {
        match is_link {
            true => std::os::unix::fs::symlink("nowhere", place.path("a/staging")).expect("linked"),
            false => place.write("a/staging", b"a file"),
        }
        for command in [&["status"][..], &["verify"], &["get", "staged", "-"], &["put", "staged", "--again"], &["flush"]] {
            place.run(command).fails_with(3, "");
        }
        place.run(&["catalogue", "rebuild"]).fails_with(3, "is absent");
        place.run(&["catalogue", "rebuild", "--without-unseen"]).fails_with(1, "is not a folder");
        std::fs::remove_file(place.path("a/staging")).expect("removed");
    }
    std::fs::rename(place.path("unmounted"), place.path("a/staging")).expect("renamed");
    place.good(&["verify", "--objects"]);
}

#[test]
fn all_commands_tolerate_a_damaged_mark() {
    let place = with_both();
    let mark = place.read("a/staging/fulgurite-staging");
    place.write("a/staging/fulgurite-staging", b"garbage");
    for command in [&["status"][..], &["get", "staged", "-"], &["verify"], &["put", "staged", "--again"]] {
        place.good(command);
    }
    assert_eq!(place.read("a/staging/fulgurite-staging"), mark, "the mark is rewritten");
}
