//! Disks that are unmounted, swapped or unreadable: each case has its own word and exit status, and
//! no platter is rewritten because of it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use crate::support::{Sandbox, noise};

const DISKS: [&str; 4] = ["d1", "d2", "d3", "d4"];

/// An archive with a set of 2+2 platters, each on its own disk.
fn archive() -> Sandbox {
    let place = Sandbox::new(4, &["--set", "2+2"]);
    for index in 0..6 {
        place.write(format!("tree/{index}"), noise(index, 200_000));
    }
    place.good(&["put", "tree", "--flush"]);
    place
}

/// Takes disks away, and leaves their mount points.
fn unmount(place: &Sandbox, disks: &[&str]) {
    for disk in disks {
        fs::rename(place.path(disk), place.path(format!("{disk}-away"))).expect("renamed");
        fs::create_dir(place.path(disk)).expect("a mount point");
    }
}

fn mount(place: &Sandbox, disks: &[&str]) {
    for disk in disks {
        fs::remove_dir(place.path(disk)).expect("nothing was written into the mount point");
        fs::rename(place.path(format!("{disk}-away")), place.path(disk)).expect("renamed");
    }
}

/// Replaces a file so that opening it fails, even for root.
fn make_unreadable(file: &PathBuf) {
    fs::rename(file, file.with_extension("whole")).expect("renamed");
    symlink(file, file).expect("a link to itself");
}

fn make_readable(file: &PathBuf) {
    fs::rename(file.with_extension("whole"), file).expect("renamed");
}

#[test]
fn everything_is_readable_while_absent_disks_are_within_the_redundancy() {
    let place = archive();
    unmount(&place, &["d2"]);
    let before = place.fingerprint(&["d1", "d3", "d4"]);
    place.good(&["get", "tree/0", "-"]);
    for options in [&["verify"][..], &["verify", "--objects"], &["scrub"]] {
        let ran = place.run(options);
        let said = format!("{}{}", ran.text(), ran.err);
        assert_eq!(ran.status, 3, "{ran:?}");
        assert!(said.contains("on store d2: absent") && said.contains("Nothing is known to be lost"), "{said}");
        assert!(!said.contains("missing") && !said.contains("lost:"), "{said}");
        assert!(said.contains("Read 3 of 4 platters") && said.contains("1 platter was not read because store d2 is absent"), "{said}");
        assert_eq!(said.matches("Is the disk mounted?").count(), 1, "one note says what is in a store's place: {said}");
    }
    let told = place.run(&["verify", "--objects", "--json"]);
    let value = told.json();
    assert_eq!((&value["platters"], &value["platters_expected"]), (&3.into(), &4.into()), "{value}");
    assert_eq!((told.status, &value["unsound"][0]["state"], &value["unsound"][0]["missing"]), (3, &"absent".into(), &false.into()));
    assert_eq!((&value["objects"]["wrong"], &value["objects"]["read"]), (&0.into(), &6.into()), "{value}");
    let listed = place.run(&["platters", "--json"]);
    let states: Vec<_> = listed.json_lines().iter().map(|row| row["state"].as_str().expect("a word").to_owned()).collect();
    assert_eq!((listed.status, states.iter().filter(|state| *state == "absent").count()), (3, 1), "{states:?}");
    let status = place.run(&["status", "--json"]).json();
    assert_eq!((&status["stores"][1]["state"], &status["unsound_platters"]), (&"absent".into(), &0.into()), "{status}");
    let free = |store: usize| status["stores"][store]["free_bytes"].as_u64();
    assert!(free(0).is_some() && free(1).is_none(), "the mount point's free space is another disk's: {status}");
    assert_eq!(place.fingerprint(&["d1", "d3", "d4"]), before, "no platter was rewritten");
    mount(&place, &["d2"]);
    // And its absence left no wrong state.
    place.good(&["status"]);
    place.good(&["platters"]);
    place.good(&["verify", "--objects"]);
}

#[test]
fn objects_that_need_absent_disks_are_out_of_reach_and_not_lost() {
    let place = archive();
    unmount(&place, &["d1", "d2", "d4"]);
    let said = "stores d1, d2, d4 are absent. 2 of the 4 platters of its set are needed, and 1 can be read";
    place.run(&["get", "tree/0", "-"]).fails_with(3, said);
    place.run(&["get", "tree/0", "-", "--range", "5-9"]).fails_with(3, said);
    let told = place.run(&["get", "tree/0", "-", "--json"]).err;
    let told: serde_json::Value = serde_json::from_str(told.lines().last().expect("the error")).expect("JSON");
    assert!(told["status"] == 3 && told["error"].as_str().is_some_and(|error| error.contains(said)), "{told}");
    let folder = place.run(&["get", "tree", "out"]);
    folder.fails_with(3, "absent: tree/0 (version 1)");
    assert_eq!(place.run(&["get", "tree", "out-2", "--json"]).json()["absent"], 6);
    for options in [&["verify"][..], &["verify", "--objects"], &["scrub"]] {
        let ran = place.run(options);
        ran.fails_with(3, "absent: tree/5 (version 1)");
        let said = format!("{}{}", ran.text(), ran.err);
        assert!(said.contains("6 versions can't be read now") && !said.contains("lost:") && !said.contains("Nothing is lost"), "{said}");
    }
    let platter = &place.run(&["platters", "--json"]).json_lines()[0]["platter"].as_str().expect("text").to_owned();
    place.run(&["recover", platter, "--store", "d3"]).fails_with(1, "would lose both");
    mount(&place, &["d1", "d2", "d4"]);
    place.good(&["verify", "--objects"]);
    place.good(&["get", "tree", "out", "--force"]);
}

#[test]
fn objects_beyond_repair_are_lost_even_while_a_disk_is_absent() {
    let place = archive();
    let platters = place.platters();
    // One of the two platters needed is there; with the absent one they would suffice.
    for platter in platters.iter().filter(|platter| platter.store != "d4").take(2) {
        fs::rename(&platter.file, platter.file.with_extension("away")).expect("renamed");
    }
    unmount(&place, &["d4"]);
    let reached = place.run(&["get", "tree", "out"]);
    reached.fails_with(3, "store d4 is absent");
    let verified = place.run(&["verify"]);
    assert!(verified.status == 1 && verified.text().contains("missing") && !verified.err.contains("lost:"), "{verified:?}");
    // With three of four gone for good the fourth can't restore the set, only the objects that it
    // contains itself.
    let third = platters.iter().find(|platter| platter.store != "d4" && platter.file.exists()).expect("one is left");
    fs::rename(&third.file, third.file.with_extension("away")).expect("renamed");
    let verified = place.run(&["verify"]);
    assert!(verified.status == 1 && verified.err.contains("lost:"), "{verified:?}");
    mount(&place, &["d4"]);
    for platter in platters.iter().filter(|platter| platter.store != "d4") {
        fs::rename(platter.file.with_extension("away"), &platter.file).expect("renamed");
    }
    place.good(&["verify", "--objects"]);
}

#[test]
fn platters_that_the_system_refuses_to_read_are_unreadable() {
    let place = archive();
    let platters = place.platters();
    make_unreadable(&platters[0].file);
    let before = place.fingerprint(&["d1", "d2", "d3", "d4"]);
    place.good(&["get", "tree/0", "-"]);
    for options in [&["verify"][..], &["verify", "--objects"], &["scrub"]] {
        let ran = place.run(options);
        let said = format!("{}{}", ran.text(), ran.err);
        assert_eq!(ran.status, 4, "{ran:?}");
        assert!(said.contains(&format!("on store {}: unreadable: Too many levels", platters[0].store)), "{said}");
        assert!(!said.contains("missing") && !said.contains("lost:"), "{said}");
    }
    assert!(place.fingerprint(&["d1", "d2", "d3", "d4"]) == before, "no platter was rewritten");
    assert_eq!(place.run(&["platters", "--json"]).json_lines()[0]["state"], "unreadable");
    place.run(&["inspect", platters[0].file.to_str().expect("text")]).fails_with(4, "Too many levels");
    place.good(&["status"]);
    for platter in &platters[1..3] {
        make_unreadable(&platter.file);
    }
    place.run(&["get", "tree/0", "-"]).fails_with(4, "is unreadable (Too many levels");
    // Unreadable is worse than absent.
    unmount(&place, &[&platters[3].store]);
    place.run(&["get", "tree/0", "-"]).fails_with(4, &format!("store {} is absent; store", platters[3].store));
    mount(&place, &[&platters[3].store]);
    for platter in &platters[1..3] {
        make_readable(&platter.file);
    }
    // A mark that can't be read makes a store unreadable, not absent.
    let mark = place.path(format!("{}/fulgurite-store", platters[1].store));
    make_unreadable(&mark);
    let status = place.run(&["status"]);
    assert!(status.status == 4 && status.text().contains("UNREADABLE"), "{status:?}");
    assert_eq!(place.run(&["verify"]).status, 4);
    make_readable(&mark);
    let replaced = place.run(&["scrub", "--replace-unreadable"]);
    assert!(replaced.status == 0 && replaced.text().contains("Recovered 1 platter"), "{replaced:?}");
    place.good(&["verify", "--objects"]);
}

#[test]
fn sectors_that_the_system_refuses_to_read_are_not_damage() {
    let place = archive();
    let platters = place.platters();
    // A folder can be opened, but every read of it fails.
    let whole: Vec<_> = platters.iter().take(3).map(|platter| (platter.file.clone(), platter.file.with_extension("whole"))).collect();
    for (file, away) in &whole {
        fs::rename(file, away).expect("renamed");
        fs::create_dir(file).expect("a folder");
    }
    place.run(&["get", "tree/0", "-"]).fails_with(4, "is unreadable (Is a directory");
    let verified = place.run(&["verify"]);
    assert_eq!(verified.status, 4, "{verified:?}");
    assert!(!verified.err.contains("lost:") && verified.text().contains("unreadable: "), "{verified:?}");
    for (file, away) in &whole {
        fs::remove_dir(file).expect("empty");
        fs::rename(away, file).expect("renamed");
    }
    place.good(&["status"]);
    place.good(&["verify", "--objects"]);
}

#[test]
fn a_scrub_that_replaces_some_platters_speaks_only_of_the_others() {
    let place = Sandbox::new(4, &["--set", "1+2"]);
    place.write("file", noise(1, 300_000));
    place.good(&["put", "file", "--flush"]);
    let platters = place.platters();
    unmount(&place, &[&platters[0].store]);
    make_unreadable(&platters[1].file);
    let scrubbed = place.run(&["scrub", "--replace-absent"]);
    assert_eq!(scrubbed.status, 4, "{scrubbed:?}");
    let text = scrubbed.text();
    assert!(text.contains("Recovered 1 platter") && text.contains("known to be lost. 1 platter is unreadable"), "{text}");
    assert!(!text.contains("mount what is absent"), "{text}");
    fs::remove_file(&platters[1].file).expect("the link");
    let scrubbed = place.run(&["scrub"]);
    assert!(scrubbed.status == 3 && scrubbed.text().contains(&format!("store {}: absent", platters[0].store)), "{scrubbed:?}");
    assert_eq!(scrubbed.text().lines().last(), Some("Nothing is known to be lost."));
}

#[test]
fn a_platter_that_is_elsewhere_while_its_own_store_is_absent_is_no_damage() {
    let place = Sandbox::new(4, &["--set", "2+1"]);
    place.write("file", noise(1, 300_000));
    place.good(&["put", "file", "--flush"]);
    let platter = place.platters().remove(0);
    let free =
        DISKS.iter().find(|disk| place.platters().iter().all(|platter| platter.store != **disk)).expect("four stores, three platters");
    let name = platter.file.file_name().expect("a name").to_owned();
    fs::copy(&platter.file, place.path(free).join("platters").join(name)).expect("copied");
    unmount(&place, &[&platter.store]);
    for command in [&["verify"][..], &["verify", "--objects"], &["scrub"], &["platters"], &["store", "list"], &["status"]] {
        let ran = place.run(command);
        assert_eq!(ran.status, 3, "{command:?}: {ran:?}");
    }
    let text = place.run(&["verify"]).text();
    assert!(text.contains(&format!("it is on store {free}, and whole; its own store is absent")), "{text}");
    assert!(text.contains("1 platter is on another store, and its own can't be used: mount it"), "{text}");
    // Moved for good, it is where the catalogue says. The store is still absent.
    assert!(place.good(&["scrub", "--replace-absent"]).text().contains("Recovered 1 platter"));
    place.good(&["platters"]);
    for command in [&["verify", "--objects"][..], &["status"]] {
        assert_eq!(place.run(command).status, 3, "{command:?}");
    }
    place.good(&["store", "replace", &platter.store]);
    place.good(&["verify", "--objects"]);
}

#[test]
fn replace_absent_recovers_platters_and_the_old_disk_does_no_harm() {
    let place = Sandbox::new(4, &["--set", "2+1"]);
    place.write("file", noise(1, 300_000));
    place.good(&["put", "file", "--flush"]);
    let store = place.platters()[0].store.clone();
    unmount(&place, &[&store]);
    let before = place.fingerprint(&DISKS);
    assert_eq!(place.run(&["scrub"]).status, 3);
    assert_eq!(place.fingerprint(&DISKS), before);
    let replaced = place.good(&["scrub", "--replace-absent"]);
    assert!(replaced.text().contains("Recovered 1 platter"), "{replaced:?}");
    // The set is whole without that disk, which may have others that the catalogue doesn't know.
    let verified = place.run(&["verify", "--objects"]);
    let absent = format!("store {store}: absent; platters that the catalogue doesn't know may be on it");
    assert!(verified.status == 3 && verified.text().contains(&absent), "{verified:?}");
    assert!(verified.text().contains("Nothing is known to be lost."), "{verified:?}");
    assert_eq!(place.run(&["status"]).status, 3);
    assert!(place.good(&["scrub", "--replace-absent"]).text().contains("Nothing is known to be lost."));
    mount(&place, &[&store]);
    place.good(&["verify", "--objects"]);
    place.good(&["status"]);
}

#[test]
fn an_absent_store_without_platters_is_no_reason_to_say_that_all_is_well() {
    let place = Sandbox::new(4, &["--set", "2+1"]);
    place.write("file", b"content");
    place.good(&["put", "file", "--flush"]);
    let free = DISKS.iter().find(|disk| place.platters().iter().all(|platter| platter.store != **disk)).expect("more stores than platters");
    fs::remove_dir_all(place.path(free)).expect("removed");
    for command in ["verify", "scrub"] {
        let ran = place.run(&[command]);
        assert!(ran.status == 3 && ran.text().contains(&format!("store {free}: absent")), "{ran:?}");
        assert!(!ran.text().contains("Nothing is lost"), "{ran:?}");
    }
    assert_eq!(place.run(&["verify", "--json"]).json()["unavailable_stores"][0]["store"], *free);
    // One store can't hide a set with redundancy, so answers from the catalogue are complete.
    place.good(&["ls"]);
    fs::create_dir(place.path(free)).expect("made");
    place.good(&["store", "replace", free]);
    place.good(&["verify"]);
}
