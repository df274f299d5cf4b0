//! `audit matrix`: known files, read on schedule.

use std::fs;

use serde_json::Value;

use crate::support::{Ran, Sandbox};

/// Two nodes with a file, which is a benchmark at both, with a time that no reading exceeds.
fn matrix() -> Sandbox {
    let place = Sandbox::empty();
    for node in ["n1", "n2"] {
        place.write(format!("{node}/it's a file"), b"known content");
    }
    let digest = place.shell("sha256sum < \"n1/it's a file\"").text();
    place.write("list.csv", format!("path,bytes,sha256\nit's a file,13,{}\nlater,,\n", &digest[..64]));
    place.good(&["audit", "init"]);
    place.good(&["audit", "node", "add", "n1", "n1"]);
    place.good(&["audit", "node", "add", "n2", "n2"]);
    place.good(&["audit", "inventory", "csv", "list.csv"]);
    place.good(&["audit", "matrix", "add", "it's a file"]);
    for node in ["n1", "n2"] {
        place.good(&["audit", "matrix", "expect", node, "audit", "60+0"]);
    }
    place
}

fn records(place: &Sandbox) -> Vec<Value> {
    place.good(&["audit", "matrix", "records", "--json"]).json_lines()
}

fn verdicts(ran: &Ran) -> Vec<(String, Value)> {
    let lines = ran.json_lines().into_iter().filter(|line| line.get("measured_s").is_some());
    let mut found: Vec<(String, Value)> =
        lines.map(|line| (line["node"].as_str().expect("a name").to_owned(), line["verdict"].clone())).collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

#[test]
fn readings_are_judged_recorded_and_shown() {
    let place = matrix();
    let shown = place.run(&["audit", "matrix", "show"]);
    assert!(shown.status == 3 && shown.text().matches("not read yet").count() == 2, "{shown:?}");

    let ran = place.good(&["audit", "matrix", "run", "--json"]);
    assert_eq!(verdicts(&ran), [("n1".to_owned(), "PASS".into()), ("n2".to_owned(), "PASS".into())]);
    place.good(&["audit", "matrix", "show"]);
    assert!(place.good(&["audit", "matrix", "run"]).text().contains("Nothing was due"));

    // Anybody can repeat a reading by its command.
    for record in records(&place) {
        assert_eq!((&record["expected_s"], &record["bytes"], &record["detail"]), (&60.0.into(), &13.into(), &"".into()));
        let command = record["command"].as_str().expect("text");
        let repeated = place.shell(&format!("bash -c {}", shell_word(command)));
        let digest = place.shell("sha256sum < \"n1/it's a file\"").text();
        assert!(repeated.status == 0 && repeated.text().starts_with(&digest[..64]), "{command}: {repeated:?}");
    }
    assert_eq!(place.good(&["audit", "read", "n2", "it's a file"]).out, b"known content");

    // Wrong bytes, and none.
    place.write("n1/it's a file", b"Known content");
    fs::remove_file(place.path("n2/it's a file")).expect("it was there");
    let wrong = place.run(&["audit", "matrix", "run", "--all", "--json"]);
    assert_eq!(wrong.status, 1, "{wrong:?}");
    assert_eq!(verdicts(&wrong), [("n1".to_owned(), "ERROR".into()), ("n2".to_owned(), "ERROR".into())]);
    assert_eq!(place.run(&["audit", "matrix", "show"]).status, 1);
    let csv = place.good(&["audit", "matrix", "records", "--after", "2"]).text();
    assert!(csv.lines().count() == 3 && csv.contains(",ERROR,\"other bytes, with sha256:"), "{csv}");
    let report = place.run(&["audit", "report"]);
    assert!(report.status != 0 && report.text().contains("n1  audit  ERROR  it's a file"), "{report:?}");

    // A time that every reading exceeds.
    place.write("n1/it's a file", b"known content");
    place.good(&["audit", "matrix", "expect", "n1", "audit", "0.000001+0"]);
    let slow = place.run(&["audit", "matrix", "run", "--all", "--node", "n1", "--json"]);
    assert_eq!((slow.status, verdicts(&slow)), (3, vec![("n1".to_owned(), "FAIL".into())]));

    place.good(&["audit", "matrix", "remove", "it's a file", "--node", "n2"]);
    assert_eq!(place.run(&["audit", "matrix", "show", "--json"]).json_lines().iter().filter(|line| line.get("file").is_some()).count(), 1);
    assert_eq!(records(&place).len(), 5);
}

#[test]
fn wrong_commands_say_what_to_do() {
    let place = matrix();
    for (words, says) in [
        (&["matrix", "add", "other"][..], "no inventory has listed other"),
        (&["matrix", "add", "later"], "its length or digest is unknown"),
        (&["matrix", "add", "it's a file", "--node", "n3"], "there is no node \"n3\"; nodes are n1, n2"),
        (&["matrix", "add", "it's a file", "--by", "access"], "node n1 signs no URLs"),
        (&["matrix", "add", "it's a file", "--every", "often"], "such as 20h"),
        (&["matrix", "remove", "other"], "no such benchmark"),
        (&["matrix", "expect", "n1", "audit", "0+24"], "the base must be at least 0.000001 s"),
        (&["url", "n1", "it's a file"], "node n1 signs no URLs"),
        (&["read", "n1", "other"], "node n1 has no copy of other"),
    ] {
        let ran = place.run(&[&["audit"], words].concat());
        assert!(ran.status == 2 && ran.err.contains(says), "{words:?}: {ran:?}");
    }
    fs::remove_file(place.path("n1/it's a file")).expect("it was there");
    place.run(&["audit", "read", "n1", "it's a file"]).fails_with(1, "the file does not exist");
}

/// A word for a POSIX shell.
fn shell_word(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}
