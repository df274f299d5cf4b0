//! Imports that are killed before their last row.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Ran, Sandbox};

/// Rows that are certainly committed before the list ends.
const ROWS: usize = 50_000;

/// A node with two files, and their list.
fn audit() -> Sandbox {
    let place = Sandbox::empty();
    place.write("n/a", "one");
    place.write("n/b", "three");
    place.shell("(echo name,sha256; cd n && sha256sum a b | sed -E 's/(.*)  (.*)/\\2,\\1/') > LIST");
    place.good(&["audit", "init"]);
    place.good(&["audit", "node", "add", "n", "n"]);
    place
}

/// Waits until `status --json` has a line for which `is_there` holds.
fn wait_for(place: &Sandbox, is_there: impl Fn(&serde_json::Value) -> bool) {
    let until = Instant::now() + Duration::from_secs(120);
    while !place.run(&["audit", "status", "--json"]).json_lines().iter().any(&is_there) {
        assert!(Instant::now() < until, "the import doesn't get on");
    }
}

/// Kills an import of `list.csv` that has committed a portion and waits for more rows.
fn killed_import(place: &Sandbox) {
    place.shell("rm -f list.csv && mkfifo list.csv");
    let mut import = place.command();
    import.args(["audit", "inventory", "csv", "list.csv"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut import = import.spawn().expect("the program starts");
    // The reader opens it too.
    let mut list = File::options().write(true).open(place.path("list.csv")).expect("a pipe");
    let before = copies(place);
    let rows: String = (0..=ROWS).map(|index| format!("file {index},7,{index:064}\n")).collect();
    list.write_all(format!("name,bytes,sha256\n{rows}").as_bytes()).expect("the import reads");
    list.flush().expect("written");
    wait_for(place, |line| line["copies"].as_u64() == Some(before + ROWS as u64));
    import.kill().expect("it is running");
    import.wait().expect("it ends");
    drop(list);
    fs::remove_file(place.path("list.csv")).expect("removed");
}

fn copies(place: &Sandbox) -> u64 {
    place.run(&["audit", "status", "--json"]).json_lines()[0]["copies"].as_u64().expect("a number")
}

#[track_caller]
fn says(ran: &Ran, status: i32, words: &str) {
    assert_eq!(ran.status, status, "{ran:?}");
    assert!(ran.text().contains(words), "expected {words:?}: {ran:?}");
}

fn events(place: &Sandbox) -> usize {
    place.good(&["audit", "export", "--json"]).json_lines().len()
}

/// Starts a run that goes on, and waits for its first line on standard error.
fn forever(place: &Sandbox) -> (Child, String) {
    let mut run = place.command();
    run.args(["audit", "run", "--forever"]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut run = run.spawn().expect("the program starts");
    let mut first = String::new();
    BufReader::new(run.stderr.as_mut().expect("piped")).read_line(&mut first).expect("a line");
    (run, first)
}

#[test]
fn a_killed_first_import_holds_all_checks_until_it_is_repeated() {
    let place = audit();
    killed_import(&place);
    let unfinished = "csv ";
    says(&place.run(&["audit", "status"]), 3, unfinished);
    says(&place.run(&["audit", "status"]), 3, "list.csv that began");
    let repair = place.run(&["audit", "repair"]);
    says(&repair, 3, unfinished);
    assert!(!repair.text().contains("Nothing to repair"), "{repair:?}");
    says(&place.run(&["audit", "report"]), 3, "Not well: an inventory isn't imported completely; see n.");
    for run in [&["audit", "run"][..], &["audit", "run", "--all"], &["audit", "run", "--file", "file 1"]] {
        place.run(run).fails_with(1, "the first import of an inventory isn't complete");
    }
    place.run(&["audit", "matrix", "add", "file 1"]).fails_with(1, "the first import of an inventory isn't complete");
    says(&place.run(&["audit", "run", "--for", "1s"]), 3, "Until an import is complete, no copy is checked");
    let (run, first) = forever(&place);
    assert!(first.contains("isn't complete"), "{first}");
    let stopped = place.shell(&format!("kill {}", run.id()));
    assert_eq!(stopped.status, 0, "{stopped:?}");
    let run = run.wait_with_output().expect("it ends");
    assert_eq!(run.status.code(), Some(3), "{run:?}");
    assert_eq!(events(&place), 0);

    fs::rename(place.path("LIST"), place.path("list.csv")).expect("renamed");
    says(&place.good(&["audit", "inventory", "csv", "list.csv"]), 0, "wasn't completed; this one replaces it.");
    says(&place.run(&["audit", "status"]), 3, "2 unverified");
    place.good(&["audit", "run"]);
    assert_eq!((copies(&place), events(&place)), (2, 2));
    assert!(!place.good(&["audit", "status"]).text().contains("isn't complete"));
}

#[test]
fn a_killed_later_import_is_reported_until_it_is_repeated_or_dismissed() {
    let place = audit();
    place.good(&["audit", "inventory", "csv", "LIST"]);
    place.good(&["audit", "run"]);
    killed_import(&place);
    // The other copies are missing, as nothing is in the folder.
    assert_eq!(place.run(&["audit", "status", "--json"]).json_lines()[1]["unfinished_import"], 2);
    let names: Vec<String> = (0..ROWS).map(|index| format!("file {index}\n")).collect();
    place.write("names", names.concat());
    place.good(&["audit", "inventory", "remove", "--files-from", "names", "--apply", "--reason", "not there"]);
    // All copies are verified, and the rest of the list is unknown.
    says(&place.run(&["audit", "status"]), 3, "dismiss 2");
    says(&place.run(&["audit", "run"]), 3, "list.csv that began");
    says(&place.run(&["audit", "report"]), 3, "Not well: an inventory isn't imported completely.");
    let other = place.run_with_input(&["audit", "inventory", "csv", "-"], b"name,bytes\na,3\n");
    assert_eq!(other.status, 0, "{other:?}");
    assert_eq!(place.run(&["audit", "status"]).status, 3, "another list completes nothing");
    place.run(&["audit", "inventory", "dismiss", "7"]).fails_with(2, "no import 7 is unfinished");
    place.good(&["audit", "inventory", "dismiss", "2"]);
    place.good(&["audit", "status"]);
    place.good(&["audit", "report"]);
    // A line that can't be used ends an import as well.
    place.write("list.csv", "name,bytes\na,3\nb,x\n");
    place.run(&["audit", "inventory", "csv", "list.csv"]).fails_with(1, "the rows before this one were imported");
    says(&place.run(&["audit", "status"]), 3, "list.csv that began");
    place.write("list.csv", "name,bytes\na,3\nb,6\n");
    place.run(&["audit", "inventory", "csv", "list.csv"]).fails_with(1, "b contradicts what is known");
    place.good(&["audit", "status"]);
}
