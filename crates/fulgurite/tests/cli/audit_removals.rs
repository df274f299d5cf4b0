//! Copies and nodes that are removed from an audit, and come back.

use std::fs;

use crate::support::{Ran, Sandbox};

/// Two nodes with three files, verified once. Then `n1` loses one of them.
fn audit() -> Sandbox {
    let place = Sandbox::empty();
    for node in ["n1", "n2"] {
        for name in ["kept", "gone", "other"] {
            place.write(format!("{node}/{name}"), name);
        }
    }
    place.shell("cd n1 && sha256sum * > ../SUMS");
    place.good(&["audit", "init"]);
    for node in ["n1", "n2"] {
        place.good(&["audit", "node", "add", node, node]);
    }
    place.good(&["audit", "inventory", "checksums", "SUMS"]);
    place.good(&["audit", "run"]);
    fs::remove_file(place.path("n1/gone")).expect("removed");
    assert_eq!(place.run(&["audit", "run", "--all"]).status, 1);
    place
}

#[track_caller]
fn says(ran: &Ran, words: &str) {
    assert!(ran.text().contains(words), "expected {words:?}: {ran:?}");
}

fn kinds(place: &Sandbox) -> Vec<String> {
    let events = place.good(&["audit", "export", "--json"]).json_lines();
    events.iter().map(|event| format!("{}/{} {}", event["node"], event["name"], event["kind"]).replace('"', "")).collect()
}

#[test]
fn a_copy_that_is_gone_on_purpose_is_removed_with_a_reason_and_keeps_its_history() {
    let place = audit();
    let remove = |more: &[&str]| place.run(&[&["audit", "inventory", "remove", "--node", "n1"], more].concat());
    let before = kinds(&place);
    let planned = remove(&["gone"]);
    assert_eq!(planned.status, 0, "{planned:?}");
    says(&planned, "gone: n1 (missing); left: n2 (verified)");
    says(&planned, "Nothing was removed.");
    remove(&["gone", "--apply"]).fails_with(2, "--reason");
    remove(&["gone", "--apply", "--reason", " "]).fails_with(2, "reason");
    remove(&["gone", "absent", "--apply", "--reason", "x"]).fails_with(1, "nothing was removed: no inventory has listed absent");
    remove(&[]).fails_with(2, "--help");
    assert_eq!((kinds(&place), place.run(&["audit", "status"]).status), (before, 1));

    let removed = remove(&["gone", "gone", "--apply", "--reason", "accession 7 was withdrawn"]);
    assert_eq!(removed.status, 0, "{removed:?}");
    says(&removed, "Removed 1 copy (4 B) of 1 file from the audit.");
    says(&place.good(&["audit", "status"]), "n1: 2 copies (9 B): 2 verified");
    place.good(&["audit", "run", "--all"]);
    place.good(&["audit", "problems"]);
    says(&place.good(&["audit", "repair"]), "Nothing to repair");
    let history = place.good(&["audit", "history", "gone"]);
    says(&history, "n1: removed 2");
    says(&history, "removed: accession 7 was withdrawn; until then 4 bytes, sha256:");
    says(&history, "missing");
    let json = place.good(&["audit", "history", "gone", "--json"]).json();
    assert_eq!((&json["copies"][0]["node"], &json["removed"][0]["events"][1]["kind"]), (&"n2".into(), &"missing".into()));
    assert_eq!(kinds(&place).iter().filter(|line| line.ends_with("/gone removed")).count(), 1);
    let premis = place.good(&["audit", "export", "--format", "premis-xml"]).text();
    assert!(premis.contains("eventType/dea") && premis.contains("n1/gone"), "{premis}");
    says(&remove(&["gone", "--apply", "--reason", "again"]), "None of these files has a copy there.");

    // A list that contains it adds it again.
    says(&place.good(&["audit", "inventory", "checksums", "SUMS"]), "0 files and 1 copy are new");
    assert_eq!(place.run(&["audit", "status"]).status, 3);
    assert_eq!(place.run(&["audit", "run"]).status, 1);
    let back = place.run(&["audit", "history", "gone", "--json"]).json();
    let events = back["copies"][0]["events"].as_array().expect("events");
    assert_eq!(
        events.iter().map(|event| event["kind"].as_str().expect("a kind")).collect::<Vec<_>>(),
        ["missing", "removed", "missing", "verified"]
    );
}

#[test]
fn lists_of_names_are_removed_from_all_nodes() {
    let place = audit();
    place.write("names", "gone\r\n\nother\n");
    let planned = place.good(&["audit", "inventory", "remove", "--files-from", "names"]);
    says(&planned, "Would remove 4 copies (18 B) of 2 files from the audit. No copy is left of 2 files.");
    place.write("names", "gone\nodd\nodder\n");
    place.run(&["audit", "inventory", "remove", "--files-from", "names"]).fails_with(1, "no inventory has listed odd, nor 1 more");
    place.write("names", b"\xff\n");
    place.run(&["audit", "inventory", "remove", "--files-from", "names"]).fails_with(1, "names, line 1: it isn't UTF-8");
    place.write("names", [b"odd\n".as_slice(), &[b'x'; 70_000]].concat());
    place.run(&["audit", "inventory", "remove", "--files-from", "names"]).fails_with(1, "names, line 2: it is longer than any name");
    let removed = place.run_with_input(
        &["audit", "inventory", "remove", "--files-from", "-", "--apply", "--reason", "withdrawn", "--json"],
        b"gone\nother\n",
    );
    assert_eq!((removed.status, &removed.json()["copies"], &removed.json()["without_copies"]), (0, &4.into(), &2.into()));
    says(&place.good(&["audit", "status"]), "n2: 1 copy (4 B): 1 verified");
    // With other content, it is another file of the same name.
    place.write("n1/gone", "new");
    place.shell("cd n1 && sha256sum gone > ../NEW");
    place.good(&["audit", "inventory", "checksums", "NEW", "--node", "n1"]);
    place.good(&["audit", "run"]);
}

#[test]
fn a_node_that_is_left_is_removed_and_keeps_its_name() {
    let place = audit();
    let export = ["audit", "export", "--format", "premis-json-ld"];
    let before = place.good(&export).json();
    says(&place.good(&["audit", "node", "remove", "n1"]), "Would remove node n1 and its 3 copies");
    says(&place.run(&["audit", "status"]), "n1: 3 copies");
    place.run(&["audit", "node", "remove", "n3"]).fails_with(2, "there is no node");
    says(&place.good(&["audit", "node", "remove", "n1", "--apply", "--reason", "contract ended"]), "Removed node n1 and its 3 copies");
    let status = place.good(&["audit", "status"]);
    assert!(!status.text().contains("n1"), "{status:?}");
    let report = place.good(&["audit", "report"]);
    assert!(!report.text().contains("n1"), "{report:?}");
    place.good(&["audit", "run", "--all"]);
    for command in [["audit", "run", "--node", "n1"], ["audit", "inventory", "listing", "n1"]] {
        place.run(&command[..]).fails_with(2, "");
    }
    place.run(&["audit", "run", "--node", "n1"]).fails_with(2, "node n1 was removed on");
    place.run(&["audit", "node", "remove", "n1", "--apply", "--reason", "x"]).fails_with(2, "node n1 was removed on");
    says(&place.good(&["audit", "node", "list", "--removed"]), ": contract ended");
    says(&place.good(&["audit", "history", "kept"]), "n1: removed 2");
    // What was exported before is still the same.
    let (before, after) = (before["@graph"].to_string(), place.good(&export).json()["@graph"].to_string());
    let ids: Vec<&str> = before.split("urn:uuid:").skip(1).map(|rest| &rest[..36]).collect();
    assert!(ids.len() >= 12 && ids.iter().all(|id| after.contains(id)), "{ids:?}");

    place.write("n1/gone", "gone");
    place.run(&["audit", "node", "add", "n1", "n1"]).fails_with(1, "a node n1 was removed, and its history has this name");
    place.run(&["audit", "node", "add", "n3", "n1", "--again"]).fails_with(1, "no node n3 was removed");
    place.good(&["audit", "node", "add", "n1", "n1", "--again"]);
    assert_eq!(place.run(&["audit", "status"]).status, 3, "it has no copies yet");
    place.good(&["audit", "inventory", "checksums", "SUMS"]);
    place.good(&["audit", "run"]);
    says(&place.good(&["audit", "history", "gone"]), "removed: contract ended");
    says(&place.good(&["audit", "node", "list", "--removed"]), "No node was removed.");
}
