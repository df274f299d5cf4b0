//! Misplaced disks, and two processes that use the same archive.

use std::fs::{self, File};

use crate::support::{Sandbox, noise};

const DISKS: [&str; 4] = ["d1", "d2", "d3", "d4"];

fn archive() -> Sandbox {
    let place = Sandbox::new(4, &["--set", "2+2"]);
    place.write("file", noise(1, 500_000));
    place.write("other", noise(2, 500_000));
    place.good(&["put", "file", "other", "--flush"]);
    // Put two objects, so that the next set has all four platters too.
    place.write("more", noise(3, 300_000));
    place.write("staged", noise(4, 300_000));
    place.good(&["put", "more", "staged"]);
    place
}

#[test]
fn swapped_disks_are_noticed_and_left_alone() {
    let place = archive();
    let exchange = || {
        fs::rename(place.path("d1"), place.path("d0")).expect("renamed");
        fs::rename(place.path("d2"), place.path("d1")).expect("renamed");
        fs::rename(place.path("d0"), place.path("d2")).expect("renamed");
    };
    let before = place.fingerprint(&DISKS);
    exchange();
    let exchanged = place.fingerprint(&DISKS);
    let status = place.run(&["status"]);
    assert!(status.status == 3 && status.text().contains("two disks changed places"), "{status:?}");
    place.run(&["flush"]).fails_with(1, "two disks changed places");
    place.run(&["flush"]).fails_with(1, "everything stays staged");
    // Platters are found by the marks of the disks, so each is on its own store.
    let verified = place.good(&["verify", "--objects"]);
    assert!(verified.err.contains("two disks changed places") && verified.text().contains("Nothing is lost."), "{verified:?}");
    assert!(place.good(&["scrub"]).err.contains("two disks changed places"));
    place.good(&["platters"]);
    assert_eq!(place.good(&["get", "file", "-"]).out, noise(1, 500_000));
    assert_eq!(place.fingerprint(&DISKS), exchanged, "nothing was written to them");
    exchange();
    assert_eq!(place.fingerprint(&DISKS), before);
    place.good(&["flush"]);
    place.good(&["verify", "--objects"]);
    place.good(&["status"]);
}

#[test]
fn a_store_inside_another_is_refused() {
    let place = Sandbox::new(2, &["--set", "1+1"]);
    fs::create_dir_all(place.path("elsewhere")).expect("created");
    std::os::unix::fs::symlink(place.path("d1"), place.path("elsewhere/link")).expect("a link");
    let settings = place.read("a/fulgurite.toml");
    for folder in ["n=d1/platters", "n=d1/new", "d2/a/b", "elsewhere/link/new", "."] {
        place.run(&["store", "add", folder]).fails_with(2, "would be inside store");
    }
    assert!(place.read("a/fulgurite.toml") == settings && !place.path("d1/new").exists());
    place.run(&["init", "b", "--store=e1/sub", "--store=e1"]).fails_with(2, "would be inside store d2");
    let serve = ["-A", "b", "serve", "--listen", "127.0.0.1:0", "--store=e1", "--store=e1/sub"];
    place.run(&serve).fails_with(2, "would be inside store d1");
    let keys = ["attach", "b", "--store=d1", "--store=d2", "--store=d2/sub"];
    place.run(&keys).fails_with(2, "would be inside store");
    assert!(!place.path("b").exists() && !place.path("e1").exists());
    // A folder whose name begins like another's isn't inside it. It is on the same disk.
    let added = place.good(&["store", "add", "d11"]);
    assert!(added.err.contains("stores d1, d2, d3 are on one file system"), "{added:?}");
}

#[test]
fn an_unmounted_disk_is_not_taken_for_an_empty_one() {
    let place = archive();
    fs::rename(place.path("d3"), place.path("away")).expect("renamed");
    for there in [false, true] {
        if there {
            fs::create_dir(place.path("d3")).expect("an empty mount point");
        }
        let status = place.run(&["status"]);
        assert!(status.status == 3 && status.text().contains("Is the disk mounted?"), "{status:?}");
        place.run(&["flush"]).fails_with(1, "Is the disk mounted?");
        assert_eq!(place.good(&["get", "file", "-"]).out, noise(1, 500_000));
        assert_eq!(place.run(&["verify"]).status, 3);
        assert_eq!(place.run(&["scrub"]).status, 3);
        place.run(&["scrub", "--replace-absent"]).fails_with(3, "was not rebuilt");
        place.good(&["put", "more", "--name", "put-goes-on"]);
    }
    assert_eq!(fs::read_dir(place.path("d3")).expect("there").count(), 0, "nothing was written into the mount point");
    fs::remove_dir(place.path("d3")).expect("empty");
    fs::rename(place.path("away"), place.path("d3")).expect("renamed");
    place.good(&["scrub"]);
    place.good(&["flush"]);
    assert_eq!(place.good(&["get", "put-goes-on", "-"]).out, noise(3, 300_000));
}

#[test]
fn a_new_disk_replaces_a_lost_one() {
    let place = archive();
    fs::remove_dir_all(place.path("d2")).expect("removed");
    place.run(&["scrub", "--replace-absent"]).fails_with(3, "store replace d2");
    place.run(&["store", "replace", "d2"]).fails_with(1, "can't set up store d2: its folder");
    place.run(&["store", "replace", "d2"]).fails_with(1, "d2 does not exist. Mount its disk there, or create the folder");
    place.write("d2/something", b"of somebody");
    place.run(&["store", "replace", "d2"]).fails_with(1, "is not empty");
    fs::remove_file(place.path("d2/something")).expect("removed");
    fs::create_dir(place.path("d2/lost+found")).expect("made");
    place.run(&["store", "replace", "nix"]).fails_with(1, "no store is called nix");
    let ran = place.good(&["store", "replace", "d2"]);
    assert!(ran.text().contains("Store d2 is set up"), "{ran:?}");
    // Again, it changes nothing, and doesn't claim to.
    let again = place.good(&["store", "replace", "d2"]).text();
    assert!(
        again.contains("is in place and has its mark, so nothing was changed") && again.contains("1 platter that belongs on it"),
        "{again}"
    );
    assert!(place.good(&["scrub"]).text().contains("Recovered 1 platter"));
    let healthy = place.good(&["store", "replace", "d2", "--json"]).json();
    assert_eq!((&healthy["done"], &healthy["platters"], &healthy["missing"]), (&"nothing".into(), &1.into(), &0.into()));
    assert!(!place.good(&["store", "replace", "d2"]).text().contains("scrub"));
    place.good(&["verify", "--objects"]);
    // The disk of another store is not overwritten.
    fs::remove_dir_all(place.path("d1")).expect("removed");
    fs::rename(place.path("d3"), place.path("d1")).expect("renamed");
    place.run(&["store", "replace", "d1"]).fails_with(1, "store d1 (");
    place.run(&["store", "replace", "d1"]).fails_with(1, "its folder has the disk of store d3");
    // The disk of d3 is present, in the wrong folder; that of d1 is gone.
    let status = place.run(&["status"]);
    assert!(status.status == 3 && status.text().contains("d3: MISPLACED") && status.text().contains("d1: ABSENT"), "{status:?}");
    assert!(status.text().contains("store d3 is in the wrong folder: its disk is in"), "{status:?}");
}

#[test]
fn a_lost_or_damaged_mark_is_written_again_where_the_platters_prove_the_store() {
    let place = archive();
    let mark = place.read("d2/fulgurite-store");
    let platters = place.fingerprint(&["d2/platters"]);
    for (found, says) in [
        (None, "its folder has 1 platter, but no mark (the file fulgurite-store)"),
        (Some(&b""[..]), "its mark, the file fulgurite-store, is empty"),
        (Some(b"fulgurite stor"), "its mark, the file fulgurite-store, is damaged: it says \"fulgurite stor\""),
    ] {
        match found {
            None => fs::remove_file(place.path("d2/fulgurite-store")).expect("removed"),
            Some(text) => place.write("d2/fulgurite-store", text),
        }
        let status = place.run(&["status"]);
        assert!(status.status == 3 && status.text().contains(says), "{status:?}");
        assert!(status.text().contains("`fulgurite store replace d2`") && !status.text().contains("another archive"), "{status:?}");
        let added = place.run(&["store", "add", "d2"]);
        added.fails_with(1, "is store d2 already, as the settings say");
        added.fails_with(1, says);
        let ran = place.good(&["store", "replace", "d2"]);
        assert!(ran.text().contains("Wrote the mark of store d2 again, and kept the 1 platter in its folder"), "{ran:?}");
        assert_eq!(place.read("d2/fulgurite-store"), mark);
        assert_eq!(place.fingerprint(&["d2/platters"]), platters);
        place.good(&["status"]);
        place.good(&["verify"]);
    }
    // A mark of a newer program is left alone.
    place.write("d2/fulgurite-store", b"fulgurite store 2\nsomething\n");
    place.run(&["store", "replace", "d2"]).fails_with(1, "of a newer version");
}

#[test]
fn store_list_counts_missing_platters_of_no_store() {
    let place = archive();
    let lost = place.platters().swap_remove(0);
    fs::remove_file(&lost.file).expect("removed");
    fs::remove_file(place.path("a/catalogue.db")).expect("removed");
    place.good(&["catalogue", "rebuild"]);
    place.run(&["store", "list"]).fails_with(1, "1 platter is missing, and its store is not in the settings");
    place.good(&["scrub"]);
    place.good(&["store", "list"]);
}

#[test]
fn an_interrupted_mark_is_written_again() {
    let place = archive();
    fs::remove_dir_all(place.path("d2")).expect("removed");
    place.write("d2/fulgurite-store.part", b"fulg");
    assert!(place.good(&["store", "replace", "d2"]).text().contains("Store d2 is set up"));
    place.good(&["scrub"]);
    place.good(&["status"]);
}

#[test]
fn copies_of_platters_of_a_present_store_prove_nothing() {
    let place = Sandbox::new(4, &["--set", "2+2"]);
    place.write("file", noise(1, 3_000_000));
    place.good(&["put", "file", "--flush"]);
    for disk in ["d1", "d3"] {
        fs::rename(place.path(disk), place.path(format!("{disk}.away"))).expect("renamed");
    }
    fs::remove_file(place.path("a/catalogue.db")).expect("removed");
    place.run(&["catalogue", "rebuild", "--without-unseen"]);
    fs::rename(place.path("d1.away"), place.path("d1")).expect("renamed");
    // The catalogue doesn't know where the platters of d1 and d3 belong.
    fs::create_dir(place.path("d3")).expect("made");
    place.shell("cp -r d1/platters d3/");
    place.run(&["store", "replace", "d3"]).fails_with(1, "the catalogue expects none of the 1 platters in its folder there");
    fs::remove_dir_all(place.path("d3")).expect("removed");
    fs::rename(place.path("d3.away"), place.path("d3")).expect("renamed");
    place.good(&["catalogue", "rebuild"]);
    place.good(&["verify", "--objects"]);
    place.good(&["status"]);
}

#[test]
fn no_mark_is_written_where_the_platters_may_be_those_of_another_store() {
    let place = archive();
    // The disks of d1 and d2 changed places, and both lost their marks.
    for disk in ["d1", "d2"] {
        fs::remove_file(place.path(disk).join("fulgurite-store")).expect("removed");
    }
    let exchange = || {
        fs::rename(place.path("d1"), place.path("d0")).expect("renamed");
        fs::rename(place.path("d2"), place.path("d1")).expect("renamed");
        fs::rename(place.path("d0"), place.path("d2")).expect("renamed");
    };
    exchange();
    let before = place.fingerprint(&DISKS);
    place.run(&["store", "replace", "d1"]).fails_with(1, "its folder has 1 of the platters of store d2");
    // Nor without the catalogue, nor for platters of another archive.
    fs::rename(place.path("a/catalogue.db"), place.path("kept")).expect("renamed");
    place.run(&["store", "replace", "d1"]).fails_with(1, "catalogue.db does not exist");
    fs::rename(place.path("kept"), place.path("a/catalogue.db")).expect("renamed");
    assert_eq!(place.fingerprint(&DISKS), before);
    exchange();
    place.good(&["store", "replace", "d1"]);
    place.good(&["store", "replace", "d2"]);
    place.good(&["verify", "--objects"]);
    place.init("b", "e", 4, &["--set", "2+2"]);
    place.good(&["-A", "b", "put", "file", "other", "--flush"]);
    fs::rename(place.path("d3"), place.path("away")).expect("renamed");
    fs::rename(place.path("e1"), place.path("d3")).expect("renamed");
    fs::remove_file(place.path("d3/fulgurite-store")).expect("removed");
    place.run(&["store", "replace", "d3"]).fails_with(1, "in its folder is of archive");
    place.run(&["init", "c", "--store", "d3"]).fails_with(1, "the folder has platters already");
    place.run(&["store", "add", "d3"]).fails_with(1, "is store d3 already");
    fs::rename(place.path("d3"), place.path("e1")).expect("renamed");
    place.run(&["store", "add", "e1"]).fails_with(1, "platters of another archive");
    for platter in fs::read_dir(place.path("e1/platters")).expect("listed") {
        fs::write(platter.expect("listed").path(), b"").expect("written");
    }
    place.run(&["store", "add", "e1"]).fails_with(1, "none of the platters in the folder has a readable header");
    // The platters of a store that moved and lost its mark.
    fs::remove_file(place.path("away/fulgurite-store")).expect("removed");
    place.run(&["store", "add", "away"]).fails_with(1, "has no mark but holds platters of store d3");
    assert!(!place.path("away/fulgurite-store").exists());
}

#[test]
fn an_added_store_takes_the_platters_of_a_lost_one() {
    let place = archive();
    fs::remove_dir_all(place.path("d2")).expect("removed");
    let settings = place.read("a/fulgurite.toml");
    place.run(&["store", "add", "d1"]).fails_with(1, "is store d1 already");
    place.run(&["store", "add", "./d3/../d1"]).fails_with(1, "is store d1 already");
    place.run(&["store", "add", "./x/../d1"]).fails_with(1, "same path");
    place.run(&["store", "add", "d1=new"]).fails_with(1, "same name");
    place.init("b", "e", 1, &[]);
    place.run(&["store", "add", "e1"]).fails_with(1, "can't be set up");
    assert_eq!(place.read("a/fulgurite.toml"), settings);
    place.good(&["store", "add", "spare=d5", "--json"]).json();
    assert!(place.read("a/fulgurite.toml").starts_with(settings.trim_ascii_end()), "comments stay");
    assert_eq!(place.run(&["scrub"]).status, 3, "absent platters are not recovered without --replace-absent");
    assert!(place.good(&["scrub", "--replace-absent"]).text().contains("Recovered 1 platter"));
    assert!(place.platters().iter().any(|platter| platter.store == "spare"));
    assert_eq!(place.good(&["get", "file", "-"]).out, noise(1, 500_000));
    let verified = place.run(&["verify", "--objects"]);
    assert!(verified.status == 3 && verified.text().contains("or remove the store from fulgurite.toml"), "{verified:?}");
    let settings = String::from_utf8(place.read("a/fulgurite.toml")).expect("text");
    let (before, rest) = settings.split_once("[[store]]\nname = \"d2\"").expect("the lost store");
    let after = rest.find("[[store]]").map_or("", |next| &rest[next..]);
    place.write("a/fulgurite.toml", format!("{before}{after}"));
    place.good(&["verify", "--objects"]);
    assert!(place.good(&["store", "add", "sixth=d6"]).text().contains("Added store sixth"));
}

#[test]
fn a_disk_of_another_archive_is_rejected() {
    let place = archive();
    place.init("b", "e", 4, &["--set", "2+2"]);
    fs::rename(place.path("d1"), place.path("away")).expect("renamed");
    fs::rename(place.path("e1"), place.path("d1")).expect("renamed");
    let before = place.fingerprint(&["d1"]);
    place.run(&["flush"]).fails_with(1, "belongs to another archive");
    place.run(&["scrub"]).fails_with(3, "belongs to another archive");
    place.run(&["scrub", "--replace-absent"]).fails_with(3, "was not rebuilt");
    assert_eq!(place.fingerprint(&["d1"]), before);
}

#[test]
fn a_lost_platter_folder_is_created_again() {
    let place = archive();
    fs::remove_dir_all(place.path("d1/platters")).expect("removed");
    place.good(&["flush"]);
    place.good(&["scrub"]);
    place.good(&["verify", "--objects"]);
}

#[test]
fn others_may_read_the_archive_while_one_process_changes_it() {
    let place = archive();
    let lock = File::options().write(true).open(place.path("a/lock")).expect("the lock is there");
    lock.lock().expect("locked");
    for arguments in [
        &["put", "more"][..],
        &["flush"],
        &["rm", "file"],
        &["verify"],
        &["scrub"],
        &["recover", "0"],
        &["catalogue", "rebuild"],
        &["keys", "import", "k"],
    ] {
        place.run(arguments).fails_with(1, "in use by another fulgurite");
    }
    place.good(&["ls"]);
    place.good(&["status"]);
    place.good(&["platters"]);
    place.good(&["keys", "export", "--plain", "keys"]);
    assert_eq!(place.good(&["get", "file", "-"]).out, noise(1, 500_000));
    drop(lock);
    place.good(&["flush"]);
}

#[test]
fn stores_are_listed_with_what_is_wrong_with_them() {
    let place = archive();
    let listed = place.good(&["store", "list"]);
    assert_eq!(listed.text().lines().count(), 5, "{listed:?}");
    assert!(listed.text().contains("d1         present") && listed.err.is_empty(), "{listed:?}");
    let rows = place.good(&["store", "list", "--json"]).json_lines();
    let file = fs::metadata(&place.platters()[0].file).expect("a platter").len();
    for (row, disk) in rows.iter().zip(DISKS) {
        assert_eq!((&row["store"], &row["state"], &row["platters"]), (&disk.into(), &"present".into(), &1.into()), "{row}");
        assert_eq!((&row["bytes"], &row["expected"], &row["trouble"]), (&file.into(), &1.into(), &serde_json::json!([])), "{row}");
        assert!(row["folder"].as_str().is_some_and(|folder| folder.ends_with(disk)) && row["free_bytes"].is_u64(), "{row}");
    }
    // An absent store, a missing platter, and two disks that changed places.
    fs::rename(place.path("d4"), place.path("away")).expect("renamed");
    let absent = place.run(&["store", "list"]);
    absent.fails_with(3, "Is the disk mounted?");
    assert!(absent.text().contains("d4         absent        ? of 1"), "{absent:?}");
    fs::rename(place.path("away"), place.path("d4")).expect("renamed");
    let platter = place.platters().into_iter().find(|platter| platter.store == "d3").expect("one on each");
    fs::remove_file(&platter.file).expect("removed");
    let missing = place.run(&["store", "list"]);
    missing.fails_with(1, "store d3: 1 platter is missing");
    assert!(missing.text().contains("d3         present       0 of 1         0 B"), "{missing:?}");
    place.good(&["scrub"]);
    for (from, to) in [("d1", "d0"), ("d2", "d1"), ("d0", "d2")] {
        fs::rename(place.path(from), place.path(to)).expect("renamed");
    }
    let exchanged = place.run(&["store", "list"]);
    exchanged.fails_with(3, "two disks changed places: the disk of store d1 is in");
    assert_eq!(exchanged.err.matches("changed places").count(), 1, "{exchanged:?}");
    assert!(exchanged.text().contains("d1         misplaced          1"), "{exchanged:?}");
}
