//! Trees larger than staging, and puts that end before everything is stored.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::support::{Place, noise, tree};

/// An archive whose staging takes 16 MiB.
fn small() -> Place {
    let place = Place::new(2, &[]);
    let settings = String::from_utf8(place.read("a/fulgurite.toml")).expect("text");
    let limited = settings.replace("# limit_mib = 100000", "limit_mib = 16");
    assert_ne!(settings, limited);
    place.write("a/fulgurite.toml", limited);
    place
}

/// Eight files of 5 MiB.
fn make_tree(place: &Place) {
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
    assert_eq!(std::fs::read_dir(place.path("a/staging")).expect("staging").count(), 0);
}

#[test]
fn a_put_that_fills_staging_says_what_it_stored_and_goes_on_after_a_flush() {
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
        ran.fails_with(1, "`fulgurite flush` writes them to platters");
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
fn a_put_that_fills_staging_tells_people_too() {
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
