//! Journals of the twin: recording, replaying, and detecting changes.

use crate::support::Sandbox;

const SCENARIO: &str = "[library]\nplatters = 190\n\n[workload]\nrate = \"0.05 /s\"\n\n[workload.bursts]\ncount = 0\n\n\
                        [run]\nwarm_up = \"0 s\"\nmeasured = \"10 min\"\n";

#[test]
fn a_recorded_run_replays_identically_and_a_changed_journal_is_rejected() {
    let place = Sandbox::empty();
    place.write("small.toml", SCENARIO);
    place.good(&["twin", "record", "small.toml", "run.journal", "--seed", "7"]);
    place.good(&["twin", "record", "small.toml", "short.journal", "--seed", "7", "--digests", "100"]);
    let report = place.good(&["--json", "twin", "replay", "run.journal"]).json();
    assert_eq!(report["same"], true);
    assert!(report["commands"].as_u64().is_some_and(|commands| commands > 100), "{report}");
    assert_eq!(place.good(&["--json", "twin", "replay", "short.journal"]).json(), report);
    assert!(place.read("short.journal").len() < place.read("run.journal").len());

    assert!(report["laws"].is_null());
    for journal in ["run.journal", "short.journal"] {
        assert_eq!(place.good(&["--json", "twin", "replay", journal, "--check"]).json()["laws"], "hold");
    }

    let text = String::from_utf8(place.read("run.journal")).expect("text");
    place.write("changed.journal", text.replacen(" switch 1 ", " switch 0 ", 1));
    place.run(&["twin", "replay", "changed.journal"]).fails_with(2, "the line was changed, or lines before it are missing");
    place.write("cut.journal", &text[..text.len() / 2]);
    place.run(&["twin", "replay", "cut.journal"]).fails_with(2, "the file was truncated, or the run was cut off");
    place.run(&["twin", "replay", "small.toml"]).fails_with(2, "`fulgurite journal 1` is expected");
    // A run that fails leaves nothing in the way of the next one.
    place.write("traced.toml", "[workload]\npreset = 'trace'\ntrace = 'nowhere.csv'\n");
    place.run(&["twin", "record", "traced.toml", "traced.journal"]).fails_with(1, "nowhere.csv can't be opened");
    assert!(!place.path("traced.journal").exists());
    // Existing files are not overwritten.
    place.run(&["twin", "record", "small.toml", "run.journal"]).fails_with(1, "can't create the journal");
    assert_eq!(place.read("run.journal"), text.as_bytes());
}

#[test]
fn a_journal_becomes_a_page_that_shows_it_and_a_damaged_one_does_not() {
    let place = Sandbox::empty();
    place.write("small.toml", SCENARIO);
    let recorded = place.good(&["--json", "twin", "record", "small.toml", "run.journal", "--html", "run.html"]).json();
    assert_eq!(recorded["page"], "run.html");
    place.good(&["twin", "record", "small.toml", "short.journal", "--digests", "100"]);
    let run = place.good(&["--json", "twin", "run", "small.toml", "--watch", "watched.html"]).json();
    assert_eq!(run["page"], "watched.html");
    // The replay of digests shows as much as a journal of all commands, and as the run itself.
    let data = |page: &str| {
        let text = String::from_utf8(place.read(page)).expect("text");
        let (_, rest) = text.split_once("type=\"application/octet-stream\">").expect("it has a recording");
        rest.split_once('<').expect("it ends").0.len()
    };
    place.good(&["twin", "watch", "short.journal", "short.html"]);
    assert!(data("run.html") > 1_000 && data("run.html").abs_diff(data("short.html")) < 100);
    assert!(data("watched.html").abs_diff(data("short.html")) < 100);
    place.run(&["twin", "watch", "run.journal", "run.html"]).fails_with(1, "can't create the page run.html");
    place.run(&["twin", "watch", "run.journal", "other.html", "--library", "1"]).fails_with(2, "the region has no library 1");
    let text = String::from_utf8(place.read("run.journal")).expect("text");
    place.write("cut.journal", &text[..text.len() / 2]);
    place.run(&["twin", "watch", "cut.journal", "cut.html"]).fails_with(2, "the file was truncated");
    assert!(!place.path("cut.html").exists(), "nothing that was not replayed in full is shown");
}
