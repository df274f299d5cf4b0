//! Sets that nothing can restore: commands say so, and the user can give them up.

use std::fs;

use crate::support::{Sandbox, noise};

fn first_set(place: &Sandbox) -> String {
    place.good(&["platters", "--json"]).json_lines()[0]["set"].as_str().expect("text").to_owned()
}

#[test]
fn a_lost_set_can_be_given_up_when_no_version_needs_it() {
    let place = Sandbox::new(3, &[]);
    place.write("lost", noise(1, 50_000));
    place.good(&["put", "lost", "--flush"]);
    let platters = place.platters();
    let set = first_set(&place);
    let forget = ["catalogue", "forget", "--set", &set[..8]];
    place.run(&forget).fails_with(1, "`fulgurite scrub` repairs it");
    for platter in &platters[..2] {
        fs::remove_file(&platter.file).expect("removed");
    }
    place.run(&["verify"]).fails_with(1, "lost: lost (version 1)");
    place.run(&forget).fails_with(1, "versions are on it");
    place.good(&["put", "lost", "--name", "again", "--flush"]);
    place.good(&["rm", "lost"]);
    place.good(&["flush"]);
    assert_eq!(place.run(&["verify"]).status, 1, "platters are missing");
    let scrubbed = place.run(&["scrub"]);
    assert!(scrubbed.status == 1 && scrubbed.text().contains("2 platters were not rebuilt, see above"), "{scrubbed:?}");
    assert!(!scrubbed.text().contains("`fulgurite scrub`"), "it would fail again: {scrubbed:?}");
    place.run(&["catalogue", "forget", "--set", "ffffffff"]).fails_with(1, "no set's identifier begins with");
    let wrong = [&forget[..], &["--set", "ffffffff"]].concat();
    place.run(&wrong).fails_with(1, "Nothing was given up");
    let listed = place.run(&["platters", "--json"]).json_lines();
    let other = listed.iter().map(|row| row["set"].as_str().expect("text")).find(|id| *id != set).expect("the set of the copy");
    place.run(&[&forget[..], &["--set", other]].concat()).fails_with(1, "1 set named before it was given up");
    place.run(&forget).fails_with(1, "no set's identifier begins with");
    for _ in 0..2 {
        place.good(&["verify", "--objects"]);
        place.good(&["status"]);
        assert_eq!(place.good(&["get", "again", "-"]).out, noise(1, 50_000));
        place.good(&["catalogue", "rebuild"]);
    }
}

#[test]
fn a_set_damaged_beyond_repair_can_be_given_up_too() {
    let place = Sandbox::new(3, &[]);
    place.write("lost", noise(1, 50_000));
    place.good(&["put", "lost", "--flush"]);
    let set = first_set(&place);
    for platter in &place.platters()[..2] {
        let length = fs::metadata(&platter.file).expect("there").len();
        fs::write(&platter.file, vec![0; length as usize]).expect("written");
    }
    place.good(&["rm", "lost"]);
    assert_eq!(place.run(&["scrub"]).status, 1);
    let twice = place.good(&["catalogue", "forget", "--set", &set, "--set", &set]);
    assert!(twice.text().contains("Gave up 1 set permanently"), "{twice:?}");
    place.good(&["status"]);
    place.good(&["verify"]);
}

#[test]
fn a_set_is_not_given_up_while_it_may_hold_what_cannot_be_listed() {
    let place = Sandbox::new(2, &[]);
    fs::copy(place.path("a/keys.db"), place.path("keys.db")).expect("copied");
    place.write("file", noise(1, 50_000));
    place.good(&["put", "file", "--flush"]);
    fs::rename(place.path("keys.db"), place.path("a/keys.db")).expect("renamed");
    fs::remove_file(place.path("a/catalogue.db")).expect("removed");
    assert_eq!(place.run(&["catalogue", "rebuild"]).status, 1, "no key");
    let set = first_set(&place);
    for platter in place.platters() {
        let length = fs::metadata(&platter.file).expect("there").len();
        fs::write(&platter.file, vec![0; length as usize]).expect("written");
    }
    assert_eq!(place.run(&["verify"]).status, 1);
    place.run(&["catalogue", "forget", "--set", &set]).fails_with(1, "it may hold versions that can't be listed");
}

#[test]
fn a_rebuild_says_that_a_set_is_lost_of_which_nothing_is_left() {
    let place = Sandbox::new(3, &[]);
    place.write("lost", noise(1, 50_000));
    place.good(&["put", "lost", "--flush"]);
    let (set, platters) = (first_set(&place), place.platters());
    place.write("kept", noise(2, 50_000));
    place.good(&["put", "kept", "--flush"]);
    let contents: Vec<Vec<u8>> = platters.iter().map(|platter| fs::read(&platter.file).expect("read")).collect();
    let rebuild = ["catalogue", "rebuild", "--without-unseen"];

    // Whichever way they are gone. The name stays listed.
    for is_there in [false, true] {
        for (platter, content) in platters.iter().zip(&contents) {
            match is_there {
                true => fs::write(&platter.file, vec![0; content.len()]).expect("written"),
                false => fs::remove_file(&platter.file).expect("removed"),
            }
        }
        let rebuilt = place.run(&["catalogue", "rebuild"]);
        rebuilt.fails_with(1, &format!("set {set}: 2 of its 2 platters are missing or have no good header, so what is on it is lost"));
        assert!(rebuilt.text().contains("Lost: what is on 1 set, named above."), "{rebuilt:?}");
        assert_eq!(place.run(&["verify"]).status, 1);
        assert!(place.run(&["ls"]).text().contains("lost"));
        assert_eq!(place.good(&["get", "kept", "-"]).out, noise(2, 50_000));
    }

    // As long as too many may be on a store that is absent, nothing is known to be lost.
    let stores: Vec<_> = platters.iter().map(|platter| place.path(&platter.store)).collect();
    stores.iter().for_each(|store| fs::rename(store, store.with_extension("away")).expect("renamed"));
    let rebuilt = place.run(&rebuild);
    assert!(rebuilt.status == 3 && !rebuilt.text().contains("Lost:"), "{rebuilt:?}");
    stores.iter().for_each(|store| fs::rename(store.with_extension("away"), store).expect("renamed"));
    place.run(&rebuild).fails_with(1, "so what is on it is lost");

    // Nor if they are in files with other names.
    let names = ["0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"];
    let others = platters.iter().zip(names).map(|(platter, name)| place.path(format!("{}/platters/{name}.platter", platter.store)));
    let others: Vec<_> = others.collect();
    for ((platter, content), other) in platters.iter().zip(&contents).zip(&others) {
        fs::remove_file(&platter.file).expect("removed");
        fs::write(other, content).expect("written");
    }
    assert!(!place.run(&rebuild).text().contains("Lost:"));
    others.iter().zip(&platters).for_each(|(other, platter)| fs::rename(other, &platter.file).expect("renamed"));
    place.good(&rebuild);
    place.good(&["verify", "--objects"]);
    assert_eq!(place.good(&["get", "lost", "-"]).out, noise(1, 50_000));

    // Once no object needs it, it can be given up.
    platters.iter().for_each(|platter| fs::remove_file(&platter.file).expect("removed"));
    place.run(&rebuild).fails_with(1, "so what is on it is lost");
    place.good(&["rm", "lost"]);
    place.good(&["catalogue", "forget", "--set", &set]);
    place.good(&["flush"]);
    place.good(&rebuild);
    place.good(&["verify", "--objects"]);
}
