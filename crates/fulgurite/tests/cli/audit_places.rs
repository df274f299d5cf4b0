//! Nodes of an audit that lead to another place.

use std::fs;

use crate::support::{Ran, Sandbox};

/// A node with two verified files.
fn audit() -> Sandbox {
    let place = Sandbox::empty();
    for name in ["a", "b"] {
        place.write(format!("one/{name}"), name);
        place.write(format!("two/{name}"), name);
    }
    place.shell("cd one && sha256sum * > ../SUMS");
    place.good(&["audit", "init"]);
    place.good(&["audit", "node", "add", "n", "one"]);
    place.good(&["audit", "inventory", "checksums", "SUMS"]);
    place.good(&["audit", "run"]);
    place.good(&["audit", "report"]);
    place
}

#[track_caller]
fn says(ran: &Ran, words: &str) {
    assert!(ran.text().contains(words), "expected {words:?}: {ran:?}");
}

fn set(place: &Sandbox, settings: &[&str]) -> Ran {
    place.good(&[&["audit", "node", "set", "n"], settings].concat())
}

#[test]
fn copies_of_a_node_that_leads_elsewhere_are_unverified() {
    let place = audit();
    says(&set(&place, &["--place", "absent", "--unreached"]), "It leads to another place now: 2 copies are unverified");
    assert_eq!(place.run(&["audit", "report"]).status, 3);
    says(&place.run(&["audit", "status"]), "n: 2 copies (2 B): 2 unverified");
    assert_eq!(place.run(&["audit", "run"]).status, 4, "nothing can be read there");
    // A wrong copy isn't cleared by a look elsewhere.
    place.write("one/a", "x");
    set(&place, &["--place", "two"]);
    place.good(&["audit", "run"]);
    set(&place, &["--place", "one"]);
    assert_eq!(place.run(&["audit", "report"]).status, 3);
    assert_eq!(place.run(&["audit", "run"]).status, 1);
    let history = place.run(&["audit", "history", "--json", "a"]).json();
    let events = history["copies"][0]["events"].as_array().expect("events");
    let replaced: Vec<&str> =
        events.iter().filter(|event| event["kind"] == "expectation-replaced").filter_map(|event| event["detail"].as_str()).collect();
    let until_then = |name: &str| format!("until then at folder:{}", place.path(name).display());
    assert_eq!(replaced, [until_then("two"), until_then("absent"), until_then("one")]);
}

#[test]
fn another_name_of_the_same_folder_changes_no_copy() {
    let place = audit();
    std::os::unix::fs::symlink(place.path("one"), place.path("link")).expect("a link");
    for settings in [&["--place", "two/../one"][..], &["--place", "link"], &["--option", "marker=a"], &["--workers", "2"]] {
        let ran = set(&place, settings);
        assert!(!ran.text().contains("another place"), "{ran:?}");
        place.good(&["audit", "report"]);
    }
    fs::remove_file(place.path("link")).expect("removed");
    says(&set(&place, &["--place", "one"]), "2 copies are unverified");
}

#[test]
fn two_nodes_at_one_place_are_refused() {
    let place = audit();
    std::os::unix::fs::symlink(place.path("one"), place.path("link")).expect("a link");
    let add = |name: &str, more: &[&str]| place.run(&[&["audit", "node", "add", name], more].concat());
    for same in ["one", "two/../one", "link", "link/"] {
        add("m", &[same]).fails_with(2, "node m would be at the place of node n, so each copy there would count as two");
    }
    add("m", &["one", "--option", "marker=a", "--unreached"]).fails_with(2, "at the place of node n");
    let bucket = ["s3://b/p", "--unreached", "--option", "anonymous=true", "--option", "region=r"];
    assert_eq!(add("s", &bucket).status, 0);
    add("t", &bucket).fails_with(2, "at the place of node s");
    assert_eq!(add("t", &[&bucket[..], &["--option", "endpoint=https://s3.example"]].concat()).status, 0);
    assert_eq!(add("m", &["two"]).status, 0);
    place.run(&["audit", "node", "set", "m", "--place", "link"]).fails_with(2, "at the place of node n");
    set(&place, &["--place", "link"]);
}

#[test]
fn an_archive_is_one_place_by_whatever_name() {
    let place = Sandbox::new(1, &[]);
    place.shell("ln -s a alias");
    place.good(&["audit", "init"]);
    place.good(&["audit", "node", "add", "a", "archive:a"]);
    place.run(&["audit", "node", "add", "b", "archive:alias"]).fails_with(2, "at the place of node a");
    place.good(&["audit", "node", "add", "b", "archive:alias", "--option", "prefix=photos"]);
}

#[test]
fn an_archive_that_lost_everything_lost_its_objects() {
    let place = Sandbox::new(4, &["--set", "3+1"]);
    place.write("photos/1", crate::support::noise(1, 5_000));
    place.good(&["put", "photos", "--flush"]);
    place.good(&["audit", "init"]);
    place.good(&["audit", "node", "add", "archive", "archive:a"]);
    place.good(&["audit", "inventory", "archive"]);
    place.good(&["audit", "run"]);
    for platter in place.platters() {
        fs::remove_file(platter.file).expect("removed");
    }
    // A store that is absent may have it still.
    fs::rename(place.path("d1"), place.path("away")).expect("renamed");
    assert_eq!(place.run(&["audit", "run", "--all"]).status, 4);
    says(&place.run(&["audit", "status"]), "1 unavailable");
    fs::rename(place.path("away"), place.path("d1")).expect("renamed");
    let ran = place.run(&["audit", "run", "--all"]);
    assert_eq!(ran.status, 1, "{ran:?}");
    says(&place.run(&["audit", "status"]), "1 missing");
}
