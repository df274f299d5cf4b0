//! Old copies of the catalogue, and what puts that were cut short leave: neither is taken for the
//! other, nor for all that was ever put.

use std::fs;
use std::os::unix::fs::symlink;

use crate::support::{Sandbox, noise};

/// Runs `after` and then puts the catalogue back as it was before.
fn with_old_catalogue(place: &Sandbox, after: impl FnOnce()) {
    let file = place.path("a/catalogue.db");
    let old = fs::read(&file).expect("read");
    after();
    for log in ["a/catalogue.db-wal", "a/catalogue.db-shm"] {
        let _ = fs::remove_file(place.path(log));
    }
    fs::write(&file, old).expect("written");
}

#[test]
fn an_old_catalogue_beside_absent_stores_of_newer_sets_is_not_taken_for_current() {
    let place = Sandbox::new(4, &["--set", "1+1"]);
    let moves = |disks: [&str; 2], from: &str, to: &str| {
        for disk in disks {
            fs::rename(place.path(from).join(disk), place.path(to).join(disk)).expect("renamed");
        }
    };
    fs::create_dir(place.path("away")).expect("made");
    place.write("x", b"1");
    moves(["d3", "d4"], "", "away");
    place.good(&["put", "x", "--flush"]);
    moves(["d3", "d4"], "away", "");
    with_old_catalogue(&place, || {
        moves(["d1", "d2"], "", "away");
        place.write("x", b"22");
        place.write("y", b"3");
        place.good(&["put", "x", "y", "--flush"]);
    });
    moves(["d1", "d2"], "away", "");
    moves(["d3", "d4"], "", "away");
    for command in ["verify", "scrub"] {
        let ran = place.run(&[command]);
        let text = ran.text();
        assert!(ran.status == 3 && text.contains("2 keys are newer than all versions that the catalogue knows"), "{ran:?}");
        assert!(text.contains("store d3: absent") && !text.contains("Nothing is lost"), "{ran:?}");
    }
    let got = place.good(&["get", "x", "-"]);
    assert!(got.out == b"1" && got.err.contains("a newer version of x may exist: stores d3, d4 can't be read"), "{got:?}");
    for command in [&["ls"][..], &["fixity", "x"], &["get", "y", "-"], &["ls", "y"]] {
        place.run(command).fails_with(3, "stores d3, d4 can't be read");
    }
    moves(["d3", "d4"], "away", "");
    place.good(&["catalogue", "rebuild"]);
    place.good(&["verify", "--objects"]);
    assert_eq!(place.good(&["get", "x", "-"]).out, b"22");
}

/// Replaces a store's folder of platters so that listing it fails, even for root.
fn make_unlistable(place: &Sandbox, store: &str) {
    let platters = place.path(store).join("platters");
    fs::rename(&platters, platters.with_extension("whole")).expect("renamed");
    symlink(&platters, &platters).expect("a link to itself");
}

fn make_listable(place: &Sandbox, store: &str) {
    let platters = place.path(store).join("platters");
    fs::remove_file(&platters).expect("the link to itself");
    fs::rename(platters.with_extension("whole"), &platters).expect("renamed");
}

#[test]
fn stores_that_cannot_be_listed_are_unreadable_and_may_hide_what_an_old_catalogue_lacks() {
    let place = Sandbox::new(3, &["--set", "1+1"]);
    place.write("x", b"one");
    place.good(&["put", "x", "--flush"]);
    with_old_catalogue(&place, || {
        place.write("x", b"two-two");
        place.good(&["put", "x", "--flush"]);
    });
    ["d1", "d2", "d3"].iter().for_each(|store| make_unlistable(&place, store));
    for command in [&["ls"][..], &["fixity", "x"]] {
        place.run(command).fails_with(4, "stores d1, d2, d3 can't be read, and may hold sets that it doesn't know");
    }
    assert!(place.run(&["fixity", "x"]).text().contains("UNREADABLE"));
    let status = place.run(&["status"]);
    assert!(status.status == 4 && status.text().contains("store     d3: UNREADABLE"), "{status:?}");
    let listed = place.run(&["store", "list"]);
    assert!(listed.status == 4 && listed.text().contains("d1         unreadable"), "{listed:?}");
    ["d1", "d2", "d3"].iter().for_each(|store| make_listable(&place, store));
    place.run(&["ls"]).fails_with(1, "it is an old copy and doesn't know 2 platters");
    place.good(&["catalogue", "rebuild"]);

    // A single store can't hide a set with redundancy. It is unreadable all the same.
    make_unlistable(&place, "d3");
    place.good(&["ls"]);
    for command in [&["status"][..], &["store", "list"], &["verify"]] {
        assert_eq!(place.run(command).status, 4, "{command:?}");
    }
    make_listable(&place, "d3");
    for command in [&["status"][..], &["store", "list"], &["verify"]] {
        place.good(command);
    }
}

#[test]
fn an_old_catalogue_is_noticed_by_what_was_staged_since() {
    for options in [&[][..], &["--clear-text"][..]] {
        let place = Sandbox::new(3, options);
        place.write("file", b"one");
        place.good(&["put", "file", "--flush"]);
        // It also knows a segment that is staged.
        place.write("staged", b"staged");
        place.good(&["put", "staged"]);
        let check_current = || {
            for command in [&["get", "file", "-"][..], &["ls"], &["status"], &["fixity", "file"]] {
                let ran = place.good(command);
                assert!(!ran.err.contains("catalogue") && !ran.text().contains("unknown"), "{ran:?}");
            }
        };
        check_current();
        with_old_catalogue(&place, || {
            place.write("file", b"two-two");
            place.write("new", b"three");
            place.good(&["put", "file", "new"]);
            check_current();
        });
        let got = place.good(&["get", "file", "-"]);
        assert!(got.out == b"one" && got.err.contains("it doesn't know 2 versions or removals in staging"), "{got:?}");
        for command in [&["ls"][..], &["fixity", "file"], &["get", "new", "-"]] {
            place.run(command).fails_with(1, "in staging: the catalogue is an old copy");
        }
        let status = place.run(&["status"]);
        assert!(status.status == 1 && status.text().contains("2 versions or removals in staging"), "{status:?}");
        assert_eq!(place.run(&["status", "--json"]).json()["unknown_staged"], 2);
        // Nothing was changed. Any command that changes the archive reads them.
        place.good(&["verify"]);
        check_current();
        assert_eq!(place.good(&["get", "file", "-"]).out, b"two-two");
    }
}

#[test]
fn what_a_cut_off_put_leaves_in_staging_is_no_sign_of_an_old_catalogue() {
    let place = Sandbox::new(3, &[]);
    place.write("file", noise(1, 100_000));
    place.good(&["put", "file"]);
    let segment = place.segments().remove(0);
    let bytes = fs::read(&segment).expect("read");
    // The end of the file that was reserved, and never written.
    fs::write(&segment, [&bytes[..], &[0; 100_000]].concat()).expect("written");
    place.good(&["ls"]);
    place.good(&["status"]);
    // A new segment with data, and without the record that ends a version.
    let number = u64::from_str_radix(segment.file_stem().expect("a name").to_str().expect("text"), 16).expect("a number") + 1;
    fs::write(segment.with_file_name(format!("{number:016x}.segment")), [0; 100_000]).expect("written");
    place.good(&["ls"]);
    place.good(&["status"]);
    place.good(&["verify"]);
}

#[test]
fn keys_that_were_given_up_stay_given_up() {
    let place = Sandbox::new(2, &[]);
    place.write("kept", b"kept");
    place.good(&["put", "kept", "--flush"]);
    // As a put that was cut short.
    let leaves_only_its_key = |name: &str| {
        with_old_catalogue(&place, || {
            place.write(name, name.as_bytes());
            place.good(&["put", name]);
            place.segments().iter().for_each(|segment| fs::remove_file(segment).expect("removed"));
        });
    };
    leaves_only_its_key("gone");
    assert!(place.good(&["verify"]).text().contains("1 key is newer"));
    let rebuilt = place.run(&["catalogue", "rebuild"]);
    assert!(rebuilt.status == 3 && rebuilt.text().contains("1 key belongs to a version"), "{rebuilt:?}");
    assert_eq!(place.run(&["verify"]).status, 3);
    place.good(&["catalogue", "forget", "--unseen"]);
    for _ in 0..2 {
        let verified = place.good(&["verify"]).text();
        assert!(verified.contains("Nothing is lost.") && !verified.contains("newer"), "{verified}");
        place.good(&["status"]);
        place.good(&["catalogue", "rebuild"]);
    }
    // Other keys count as before.
    leaves_only_its_key("later");
    assert!(place.good(&["verify"]).text().contains("1 key is newer"));
    let rebuilt = place.run(&["catalogue", "rebuild"]);
    assert!(rebuilt.status == 3 && rebuilt.text().contains("1 key belongs to a version"), "{rebuilt:?}");
}

#[test]
fn a_damaged_segment_is_named_with_its_remedy_as_long_as_it_is_kept() {
    let place = Sandbox::new(2, &[]);
    place.write("cut", noise(1, 100_000));
    place.good(&["put", "cut"]);
    let segment = place.segments().remove(0);
    let length = fs::metadata(&segment).expect("there").len();
    fs::OpenOptions::new().write(true).open(&segment).and_then(|file| file.set_len(length - 100)).expect("truncated");
    fs::remove_file(place.path("a/catalogue.db")).expect("removed");
    place.run(&["catalogue", "rebuild"]);
    let verified = place.run(&["verify"]);
    verified.fails_with(1, "lost: staging segment ");
    let id = verified.err.split("`fulgurite catalogue forget ").nth(1).expect("the remedy").split('`').next().expect("the id").to_owned();
    place.run(&["scrub"]).fails_with(1, &format!("`fulgurite catalogue forget {id}`"));
    place.good(&["catalogue", "forget", &id]);
    place.run(&["verify"]);
}
