//! The commands of `audit`: folders as nodes, damage, repair, and kills.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Stdio;

use serde_json::Value;

use crate::support::{Ran, Sandbox, noise};

const NODES: [&str; 3] = ["n1", "n2", "n3"];

fn name(index: usize) -> String {
    match index {
        0 => "ark:/13030/x|1|producer/f 1.txt".to_owned(),
        1 => "sp ace/ü%41.dat".to_owned(),
        2 => "q\"uote,comma".to_owned(),
        index => format!("folder {}/file {index}", index % 7),
    }
}

fn content(index: usize) -> Vec<u8> {
    noise(index as u64, [0, 1, 5_000, 70_000][index % 4])
}

/// Three nodes with the same files, and their inventory. Nothing was checked yet.
fn audit(files: usize) -> Sandbox {
    let place = Sandbox::empty();
    let mut list = String::from("bytes,path,sha256\n");
    for index in 0..files {
        for node in NODES {
            place.write(format!("{node}/{}", name(index)), content(index));
        }
        let digest = place.shell(&format!("sha256sum < '{}/{}'", NODES[0], name(index))).text();
        let quoted = name(index).replace('"', "\"\"");
        list += &format!("{},\"{quoted}\",{}\n", content(index).len(), &digest[..64]);
    }
    place.write("list.csv", list);
    place.good(&["audit", "init"]);
    for node in NODES {
        place.good(&["audit", "node", "add", node, node]);
    }
    place.good(&["audit", "inventory", "csv", "list.csv"]);
    place
}

/// Copies by node and state, as `audit status` counts them.
fn states(place: &Sandbox) -> BTreeMap<(String, String), u64> {
    let mut states = BTreeMap::new();
    for line in place.run(&["audit", "status", "--json"]).json_lines() {
        for (state, sums) in line["states"].as_object().expect("states") {
            states.insert((line["node"].as_str().expect("a name").to_owned(), state.clone()), sums["copies"].as_u64().expect("a count"));
        }
    }
    states
}

fn expected_states(counts: &[(&str, &str, u64)]) -> BTreeMap<(String, String), u64> {
    counts.iter().map(|(node, state, count)| (((*node).to_owned(), (*state).to_owned()), *count)).collect()
}

fn says(ran: &Ran, line: &str) {
    assert!(ran.text().lines().any(|found| found.contains(line)), "expected {line:?}: {ran:?}");
}

#[test]
fn an_audit_says_only_what_was_checked() {
    let place = audit(20);
    let before = place.run(&["audit", "status"]);
    assert_eq!(before.status, 3, "{before:?}");
    says(&before, "n1: 20 copies");
    says(&before, "none was ever verified");
    // In the units of the report.
    says(&before, "(375.0 kB)");
    says(&place.run(&["audit", "report"]), "375.0 kB");
    place.good(&["audit", "run"]);
    let after = place.good(&["audit", "status"]);
    says(&after, "20 verified; oldest verification on 2");
    says(&place.good(&["audit", "run"]), "n2: nothing was due");
    place.good(&["audit", "problems"]);
    let history = place.good(&["audit", "history", &name(0)]);
    says(&history, "n3: verified, last verified 2");
    place.run(&["audit", "history", "never listed"]).fails_with(1, "no inventory has listed never listed");
}

#[test]
fn every_damaged_copy_is_found_and_repaired_and_no_good_one_is_touched() {
    let place = audit(24);
    place.good(&["audit", "run"]);
    let mut flipped = content(7);
    flipped[33_333] ^= 8;
    place.write(format!("n1/{}", name(7)), flipped);
    fs::remove_file(place.path(format!("n2/{}", name(0)))).expect("removed");
    place.write(format!("n2/{}", name(11)), &content(11)[1..]);
    place.write(format!("n3/{}", name(4)), b"it was empty");
    for node in NODES {
        place.write(format!("{node}/{}", name(3)), b"wrong everywhere");
    }
    let found = place.run(&["audit", "run", "--all"]);
    assert_eq!(found.status, 1, "{found:?}");
    let expected = [
        ("n1", "digest-mismatch", 1),
        ("n1", "size-mismatch", 1),
        ("n1", "verified", 22),
        ("n2", "missing", 1),
        ("n2", "size-mismatch", 2),
        ("n2", "verified", 21),
        ("n3", "size-mismatch", 2),
        ("n3", "verified", 22),
    ];
    assert_eq!(states(&place), expected_states(&expected));
    let problems = place.run(&["audit", "problems", "--json"]);
    assert_eq!((problems.status, problems.json_lines().len()), (1, 7), "{problems:?}");
    let before = place.fingerprint(&NODES);
    let planned = place.run(&["audit", "repair"]);
    assert_eq!(planned.status, 1, "{planned:?}");
    says(&planned, "Nothing was written.");
    assert_eq!(place.fingerprint(&NODES), before);
    let repaired = place.run(&["audit", "repair", "--apply", "--spool", "."]);
    assert_eq!(repaired.status, 1, "{repaired:?}");
    says(&repaired, "no other copy verifies");
    for index in (0..24).filter(|index| *index != 3) {
        for node in NODES {
            assert_eq!(place.read(format!("{node}/{}", name(index))), content(index), "{node}: {}", name(index));
        }
    }
    assert_eq!(place.read(format!("n1/{}", name(3))), b"wrong everywhere");
    let left = [
        ("n1", "size-mismatch", 1),
        ("n1", "verified", 23),
        ("n2", "size-mismatch", 1),
        ("n2", "verified", 23),
        ("n3", "size-mismatch", 1),
        ("n3", "verified", 23),
    ];
    assert_eq!(states(&place), expected_states(&left));
    let history = place.run(&["audit", "history", "--json", &name(7)]).json();
    let kinds: Vec<&str> =
        history["copies"][0]["events"].as_array().expect("events").iter().filter_map(|event| event["kind"].as_str()).collect();
    assert_eq!(kinds[..3], ["verified", "repaired", "digest-mismatch"]);
}

#[test]
fn an_unmounted_disk_makes_copies_unavailable_and_loses_none() {
    let place = audit(12);
    place.good(&["audit", "run"]);
    fs::rename(place.path("n2"), place.path("elsewhere")).expect("renamed");
    let absent = place.run(&["audit", "run", "--all"]);
    assert!(absent.status == 4 && absent.err.contains("node n2 is given up for this run"), "{absent:?}");
    fs::create_dir(place.path("n2")).expect("an empty mount point");
    place.run(&["audit", "repair", "--apply"]);
    assert_eq!(fs::read_dir(place.path("n2")).expect("readable").count(), 0, "something was written to an empty mount point");
    assert!(!states(&place).keys().any(|(_, state)| state == "missing"));
    place.good(&["audit", "node", "set", "n2", "--place", "elsewhere"]);
    place.good(&["audit", "run", "--all"]);
    let all = [("n1", "verified", 12), ("n2", "verified", 12), ("n3", "verified", 12)];
    assert_eq!(states(&place), expected_states(&all));
}

#[test]
fn another_disk_in_its_place_loses_no_copy_and_gets_none() {
    let place = audit(12);
    place.good(&["audit", "run"]);
    fs::rename(place.path("n2"), place.path("elsewhere")).expect("renamed");
    place.write("n2/holiday.jpg", b"a beach");
    let ran = place.run(&["audit", "run", "--all"]);
    assert_eq!(ran.status, 4, "{ran:?}");
    place.run(&["audit", "repair", "--apply"]);
    assert_eq!(fs::read_dir(place.path("n2")).expect("readable").count(), 1, "something was written to another disk");
    assert!(!states(&place).keys().any(|(_, state)| state == "missing"));
}

#[test]
fn a_repair_keeps_what_is_known_and_tells_what_is_not() {
    let place = audit(3);
    place.good(&["audit", "run"]);
    place.write(format!("n2/{}", name(2)), b"wrong");
    let found = place.run(&["audit", "run", "--all"]);
    assert_eq!(found.status, 1, "{found:?}");
    // A copy that became wrong in another way is named once.
    place.write(format!("n2/{}", name(2)), noise(99, content(2).len()));
    let planned = place.run(&["audit", "repair"]);
    assert_eq!(planned.text().matches("repairable from").count(), 1, "{planned:?}");
    fs::rename(place.path("n2"), place.path("elsewhere")).expect("renamed");
    for _ in 0..2 {
        let failed = place.run(&["audit", "repair", "--apply"]);
        assert_eq!(failed.status, 1, "{failed:?}");
        says(&failed, "its node can't be used now");
    }
    // A run that can't read it doesn't forget either.
    assert_eq!(place.run(&["audit", "run", "--all"]).status, 1);
    says(&place.run(&["audit", "status"]), "1 digest-mismatch, 2 unavailable");
    let failed = place.run(&["audit", "repair", "--apply"]);
    assert_eq!(failed.status, 1, "{failed:?}");
    says(&failed, "2 copies could not be read");
    place.good(&["audit", "repair", "--node", "n1"]);
}

#[test]
fn paths_of_keys_and_secrets_are_stored_absolute() {
    let place = audit(1);
    let s3 = ["s3://b", "--option", "access_key_id=a", "--option", "secret_access_key=file:secret", "--option", "region=r"];
    place.good(&[&["audit", "node", "add", "s", "--unreached"][..], &s3].concat());
    place.good(&["audit", "node", "add", "h", "sftp://h/p", "--unreached", "--option", "key=ssh/key", "--option", "marker=m"]);
    place.good(&["audit", "node", "set", "h", "--option", "known_hosts=ssh/known"]);
    let nodes = place.good(&["audit", "node", "list", "--json"]).json_lines();
    let option = |node: usize, key: &str| nodes[node]["options"][key].as_str().expect("an option").to_owned();
    let full = |path: &str| fs::canonicalize(place.path("")).expect("a folder").join(path).to_str().expect("UTF-8").to_owned();
    assert_eq!(option(3, "secret_access_key"), format!("file:{}", full("secret")));
    assert_eq!((option(4, "key"), option(4, "known_hosts")), (full("ssh/key"), full("ssh/known")));
    assert_eq!(option(4, "marker"), "m");
}

#[test]
fn a_change_of_a_node_is_checked_as_a_new_node_is() {
    let place = audit(1);
    let list = || place.good(&["audit", "node", "list"]).text();
    let before = list();
    place.run(&["audit", "node", "set", "n1"]).fails_with(2, "nothing to change");
    place.run(&["audit", "node", "set", "n1", "--unreached"]).fails_with(2, "--place");
    place.run(&["audit", "node", "set", "n1", "--place", "nowhere"]).fails_with(1, "node n1 was not changed; --unreached changes it");
    assert_eq!(list(), before);
    place.good(&["audit", "node", "set", "n1", "--place", "nowhere", "--unreached"]);
    assert!(list().contains("/nowhere,"), "{}", list());
    fs::create_dir(place.path("empty")).expect("created");
    place.good(&["audit", "node", "set", "n1", "--place", "empty"]).fails_with(0, "lists no files: is the name right?");
    // Other settings need no connection.
    fs::remove_dir(place.path("empty")).expect("removed");
    place.good(&["audit", "node", "set", "n1", "--workers", "2"]);
    assert!(list().contains("2 workers"), "{}", list());
}

#[test]
fn nothing_to_repair_or_list_is_said_of_the_chosen_copies_only() {
    let place = audit(3);
    place.good(&["audit", "run"]);
    fs::remove_file(place.path(format!("n2/{}", name(2)))).expect("removed");
    place.run(&["audit", "run", "--all"]).fails_with(1, "");
    says(&place.good(&["audit", "problems", "--state", "digest-mismatch"]), "No copy is in state digest-mismatch.");
    let at_one = place.good(&["audit", "repair", "--apply", "--node", "n1"]);
    says(&at_one, "no copy at n1 is known to be lost or wrong");
    let of_one = place.good(&["audit", "repair", "--file", &name(1)]);
    says(&of_one, &format!("no copy of {} is known to be lost or wrong", name(1)));
    let of_some = place.good(&["audit", "repair", "--file", &name(1), "--file", &name(0), "--node", "n2", "--node", "n3"]);
    says(&of_some, "no copy of these files at these nodes is known");
    place.run(&["audit", "repair", "--apply", "--file", "never listed"]).fails_with(1, "no inventory has listed never listed");
    place.good(&["audit", "inventory", "remove", &name(1), "--node", "n1", "--apply", "--reason", "r"]);
    place.run(&["audit", "repair", "--file", &name(1), "--node", "n1"]).fails_with(1, "is at these nodes");
    place.good(&["audit", "repair", "--apply"]);
    says(&place.good(&["audit", "repair"]), "Nothing to repair: no copy is known to be lost or wrong.");
}

#[test]
fn a_repair_tells_what_it_could_not_look_at() {
    let place = audit(3);
    place.good(&["audit", "run"]);
    fs::rename(place.path("n2"), place.path("elsewhere")).expect("renamed");
    assert_eq!(place.run(&["audit", "run", "--all"]).status, 4);
    let unknown = place.run(&["audit", "repair", "--apply"]);
    assert_eq!(unknown.status, 4, "{unknown:?}");
    says(&unknown, "3 copies could not be read");
    assert!(!unknown.text().contains("Nothing to repair"), "{unknown:?}");
}

#[test]
fn a_digest_that_one_copy_gave_condemns_no_others() {
    let place = Sandbox::empty();
    place.good(&["audit", "init"]);
    for (node, content) in [("a", "wrong"), ("b", "right"), ("c", "right")] {
        place.write(format!("{node}/x"), content);
        place.good(&["audit", "node", "add", node, node]);
    }
    place.write("list.csv", "path\nx\n");
    place.good(&["audit", "inventory", "csv", "list.csv"]);
    // The first reading records a digest, here that of the damaged copy, and the others differ.
    place.good(&["audit", "node", "set", "a", "--workers", "1"]);
    assert_eq!(place.run(&["audit", "run", "--node", "a"]).status, 3);
    assert_eq!(place.run(&["audit", "run"]).status, 1);
    let refused = place.run(&["audit", "repair", "--apply"]);
    assert_eq!(refused.status, 1, "{refused:?}");
    says(&refused, "known only from a reading of the copy at a, which may be the wrong one");
    for node in ["b", "c"] {
        assert_eq!(fs::read(place.path(format!("{node}/x"))).expect("read"), b"right");
    }

    // A list decides.
    place.write("list.sha256", "27042f4e6eca7d0b2a7ee4026df2ecfa51d3339e6d122aa099118ecd8563bad9  x\n");
    assert_eq!(place.run(&["audit", "inventory", "checksums", "list.sha256"]).status, 1, "it contradicts what was recorded");
    place.good(&["audit", "inventory", "checksums", "list.sha256", "--replace"]);
    assert_eq!(place.run(&["audit", "run", "--all"]).status, 1);
    says(&place.good(&["audit", "repair", "--apply"]), "a: x: repaired from the copy at");
    assert_eq!(fs::read(place.path("a/x")).expect("read"), b"right");
    place.good(&["audit", "status"]);
}

#[test]
fn a_digest_that_two_copies_have_repairs_a_third() {
    let place = Sandbox::empty();
    place.good(&["audit", "init"]);
    for (node, content) in [("a", "right"), ("b", "right"), ("c", "wrong")] {
        place.write(format!("{node}/x"), content);
        place.good(&["audit", "node", "add", node, node]);
    }
    place.write("list.csv", "path\nx\n");
    place.good(&["audit", "inventory", "csv", "list.csv"]);
    place.run(&["audit", "run", "--node", "a"]);
    assert_eq!(place.run(&["audit", "run"]).status, 1);
    says(&place.good(&["audit", "repair", "--apply"]), "c: x: repaired from the copy at b");

    // With two copies only, a person decides.
    place.write("list.csv", "path\ny\n");
    place.write("a/y", "right");
    place.write("b/y", "wrong");
    place.good(&["audit", "inventory", "csv", "list.csv", "--node", "a", "--node", "b"]);
    place.run(&["audit", "run", "--node", "a"]);
    assert_eq!(place.run(&["audit", "run"]).status, 1);
    assert_eq!(place.run(&["audit", "repair", "--apply"]).status, 1);
    says(&place.good(&["audit", "repair", "--apply", "--trust-recorded"]), "b: y: repaired from the copy at a");
}

/// A web server that has no files. Returns its address.
fn empty_web_server(status: &'static str) -> String {
    use std::io::{BufRead, BufReader, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = format!("http://{}/files", listener.local_addr().expect("it is bound"));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
            if lines.any(|line| line.is_empty()) {
                let _ = write!(&stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            }
        }
    });
    address
}

#[test]
fn places_that_list_nothing_are_added_with_a_word() {
    let place = Sandbox::empty();
    place.good(&["audit", "init"]);
    fs::create_dir(place.path("empty")).expect("a folder");
    let empty = place.good(&["audit", "node", "add", "empty", "empty"]);
    assert!(empty.err.contains("lists no files: is the name right?"), "{empty:?}");
    place.write("full/file", b"x");
    let full = place.good(&["audit", "node", "add", "full", "full"]);
    assert!(full.err.is_empty(), "{full:?}");
    says(&place.good(&["audit", "node", "add", "web", &empty_web_server("404 Not Found")]), "The server answers.");
    let login = place.good(&["audit", "node", "add", "login", &empty_web_server("200 OK")]);
    assert!(login.err.contains("is it a login page?"), "{login:?}");
    place.run(&["audit", "node", "add", "denied", &empty_web_server("403 Forbidden")]).fails_with(1, "access denied");
    // What a 404 means there.
    place.write("list.csv", "path,sha256\na,e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n");
    place.good(&["audit", "inventory", "csv", "list.csv", "--node", "web"]);
    assert_eq!(place.run(&["audit", "run", "--node", "web"]).status, 4);
    let problems = place.run(&["audit", "problems"]);
    says(&problems, "the copy looks missing, but the node has shown no other copy yet");
    assert!(!problems.text().contains("read only"), "{problems:?}");
}

#[test]
fn chosen_files_are_checked_now_and_alone() {
    let place = audit(12);
    place.good(&["audit", "run"]);
    place.write(format!("n1/{}", name(7)), b"wrong");
    place.write(format!("n1/{}", name(8)), b"wrong");
    let events_before = events(&place).len();
    says(&place.good(&["audit", "run", "--file", &name(5)]), "n3: 1 verified");
    let found = place.run(&["audit", "run", "--file", &name(7), "--file", &name(9), "--file", &name(7)]);
    assert_eq!(found.status, 1, "{found:?}");
    says(&found, "n1: 1 verified, 1 size-mismatch");
    assert_eq!(events(&place).len(), events_before + 9, "other copies were checked");
    // The exit status tells of these copies only.
    place.good(&["audit", "run", "--node", "n2", "--file", &name(7)]);
    place.write("names", format!("{}\n{}\n", name(8), name(9)));
    let listed = place.run(&["audit", "run", "--node", "n1", "--files-from", "names", "--json"]);
    assert_eq!((listed.status, &listed.json_lines()[0]["found"]["size-mismatch"]), (1, &1.into()), "{listed:?}");
    // Nothing is checked if a name is wrong.
    let events_before = events(&place).len();
    let unknown = place.run(&["audit", "run", "--file", &name(9), "--file", "absent"]);
    unknown.fails_with(1, "nothing was checked: no inventory has listed absent");
    place.run(&["audit", "run", "--file", &name(9), "--all"]).fails_with(2, "--all");
    place.run(&["audit", "run", "--files-from", "names", "--forever"]).fails_with(2, "--forever");
    place.run(&["audit", "run", "--files-from", "no-such-list"]).fails_with(2, "can't open no-such-list");
    place.write("empty", "\n");
    place.run(&["audit", "run", "--files-from", "empty"]).fails_with(1, "nothing was checked: the list contains no names");
    place.good(&["audit", "inventory", "remove", &name(9), "--node", "n2", "--apply", "--reason", "test"]);
    let removed = place.run(&["audit", "run", "--node", "n2", "--file", &name(9)]);
    removed.fails_with(1, "by the inventory, no copy of folder 2/file 9 is at these nodes");
    assert_eq!(events(&place).len(), events_before + 1);
    fs::rename(place.path("n3"), place.path("elsewhere")).expect("renamed");
    let absent = place.run(&["audit", "run", "--node", "n3", "--file", &name(9)]);
    assert_eq!(absent.status, 4, "{absent:?}");
    says(&absent, "n3: folder 2/file 9: unavailable: ");
}

#[test]
fn absent_credentials_are_told_with_the_places_that_were_searched() {
    let place = Sandbox::empty();
    place.good(&["audit", "init"]);
    let endpoint = "endpoint=http://127.0.0.1:9";
    let mut command = place.command();
    command.args(["audit", "node", "add", "n", "s3://bucket", "--option", endpoint, "--option", "credentials=environment"]);
    for variable in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE"] {
        command.env_remove(variable);
    }
    let ran = command.env("HOME", place.path(".")).env("AWS_EC2_METADATA_DISABLED", "true").output().expect("the program starts");
    let error = String::from_utf8_lossy(&ran.stderr);
    assert!(error.contains("no credentials were found in AWS_ACCESS_KEY_ID") && !ran.status.success(), "{error}");
}

#[test]
fn contradicting_inventories_are_reported_and_replace_only_if_told_to() {
    let place = audit(6);
    place.good(&["audit", "run"]);
    place.write("other.csv", format!("path,bytes\n\"{}\",9\n", name(5)));
    let refused = place.run(&["audit", "inventory", "csv", "other.csv"]);
    refused.fails_with(1, "contradicts what is known");
    refused.fails_with(1, "left as it is: 1 byte, sha256:");
    refused.fails_with(1, "are known, and the list has 9 bytes, no digest");
    place.write("moved.csv", format!("path,location\n\"{}\",elsewhere\n", name(5)));
    place.run(&["audit", "inventory", "csv", "moved.csv"]).fails_with(1, "the list has another location");
    place.good(&["audit", "status"]);
    place.good(&["audit", "inventory", "csv", "other.csv", "--replace"]);
    assert_eq!(place.run(&["audit", "status"]).status, 3);
    let found = place.run(&["audit", "run"]);
    assert_eq!(found.status, 1, "{found:?}");
    says(&found, "1 size-mismatch");
}

#[test]
fn a_listing_is_a_beginning_that_verifies_nothing() {
    let place = Sandbox::empty();
    for index in 0..9 {
        place.write(format!("n1/{}", name(index)), content(index));
    }
    place.good(&["audit", "init"]);
    place.good(&["audit", "node", "add", "n1", "n1"]);
    place.good(&["audit", "inventory", "listing", "n1"]);
    let first = place.run(&["audit", "run"]);
    assert_eq!(first.status, 3, "{first:?}");
    says(&first, "9 unverified");
    place.write(format!("n1/{}", name(7)), noise(99, 70_000));
    let second = place.run(&["audit", "run", "--all"]);
    assert_eq!(second.status, 1, "{second:?}");
    says(&second, "8 verified, 1 digest-mismatch");
}

#[test]
fn wrong_commands_say_what_to_do() {
    let place = Sandbox::empty();
    place.run(&["audit", "status"]).fails_with(1, "create it with `fulgurite audit init`");
    place.good(&["audit", "init"]);
    place.run(&["audit", "init"]).fails_with(1, "exists already");
    place.run(&["audit", "run"]).fails_with(2, "add one with `fulgurite audit node add`");
    place.run(&["audit", "node", "add", "a/b", "x"]).fails_with(2, "use 1 to 64 letters");
    place.run(&["audit", "node", "add", "n", "no-such-folder"]).fails_with(1, "was not added");
    place
        .run(&["audit", "node", "add", "n", "s3://bucket", "--option", "secret_access_key=abc"])
        .fails_with(2, "secret_access_key=env:NAME");
    place.run(&["audit", "node", "add", "n", "nfs://x/y"]).fails_with(2, "unknown kind of place");
    place.run(&["audit", "history", "x", "--database", "other.db"]).fails_with(1, "other.db does not exist");
    fs::create_dir(place.path("n")).expect("created");
    place.good(&["audit", "node", "add", "n", "n"]);
    place.run(&["audit", "node", "add", "n", "n"]).fails_with(1, "there is a node n already");
    let unlisted = place.run(&["audit", "status"]);
    assert_eq!(unlisted.status, 3, "{unlisted:?}");
    says(&unlisted, "no copies are known; import an inventory");
    place.write("list.csv", "size\n1\n");
    place.run(&["audit", "inventory", "csv", "list.csv"]).fails_with(1, "no column is the file's name");
    place.run(&["audit", "inventory", "csv", "list.csv", "--node", "m"]).fails_with(2, "there is no node \"m\"; nodes are n");
}

/// Kills runs at many moments. Evidence must be whole: each event belongs to a copy that says so,
/// sums fit the events, and the run goes on where it was.
#[test]
fn a_killed_run_loses_and_invents_no_evidence() {
    let files = 300;
    let place = audit(files);
    let mut kills = 0;
    for round in 0..6_u64 {
        let mut child = place
            .command()
            .args(["audit", "run", "--log-json"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        // Wait until some more events are there, a different number each time.
        let wanted = (round + 1) * 100;
        let ended = loop {
            if child.try_wait().expect("it runs").is_some() {
                break true;
            }
            if events(&place).len() as u64 >= wanted {
                break false;
            }
        };
        if ended {
            break;
        }
        child.kill().expect("killed");
        child.wait().expect("it ended");
        kills += 1;
        check_evidence(&place, files);
    }
    assert!(kills > 0, "no run was killed");
    place.good(&["audit", "run"]);
    let events = check_evidence(&place, files);
    // Each copy was verified exactly once: what was recorded before a kill wasn't checked again.
    assert_eq!(events, 3 * files);
    let all = NODES.map(|node| (node, "verified", files as u64));
    assert_eq!(states(&place), expected_states(&all));
}

fn events(place: &Sandbox) -> Vec<Value> {
    place.good(&["audit", "export", "--json"]).json_lines()
}

/// Compares states with events, and returns the number of events.
fn check_evidence(place: &Sandbox, files: usize) -> usize {
    let events = events(place);
    let verified: BTreeSet<(&str, &str)> = events
        .iter()
        .filter(|event| event["kind"] == "verified")
        .map(|event| (event["node"].as_str().expect("a node"), event["name"].as_str().expect("a name")))
        .collect();
    assert_eq!(verified.len(), events.len(), "a copy was verified twice");
    let states = states(place);
    for node in NODES {
        let count = |state: &str| states.get(&(node.to_owned(), state.to_owned())).copied().unwrap_or(0);
        let evidence = verified.iter().filter(|(at, _)| *at == node).count() as u64;
        assert_eq!((count("verified"), count("unverified")), (evidence, files as u64 - evidence), "{node}");
    }
    events.len()
}

/// States of all copies, by name.
fn problems(place: &Sandbox) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    place.run(&["audit", "problems", "--json"]).json_lines().iter().map(|line| (text(&line["name"]), text(&line["state"]))).collect()
}

#[test]
fn an_archive_tells_lost_objects_from_absent_stores() {
    // Unencrypted, so that a platter shows the names on it.
    let place = Sandbox::new(4, &["--set", "3+1", "--clear-text"]);
    for index in 0..12 {
        place.write(format!("tree/{index:02}"), noise(index, 250_000));
    }
    place.good(&["put", "tree", "--flush"]);
    let platters = place.platters();
    let on_platter: BTreeSet<String> = place
        .good(&["inspect", platters[1].file.to_str().expect("text"), "--files", "--json"])
        .json_lines()
        .iter()
        .filter_map(|line| Some(line["name"].as_str()?.to_owned()))
        .collect();
    assert!((2..12).contains(&on_platter.len()), "{on_platter:?}");
    place.good(&["audit", "init"]);
    place.good(&["audit", "node", "add", "archive", "archive:a"]);
    place.good(&["audit", "inventory", "archive"]);
    place.good(&["audit", "run"]);
    // Absent stores come back, so nothing is known to be lost.
    let away = |platter: usize| platters[platter].file.with_extension("away");
    let disks = ["d2", "d4"];
    for disk in disks {
        fs::rename(place.path(disk), place.path(format!("{disk}-away"))).expect("renamed");
    }
    assert_eq!(place.run(&["audit", "run", "--all"]).status, 4);
    assert!(problems(&place).values().all(|state| state == "unavailable"), "{:?}", problems(&place));
    for disk in disks {
        fs::rename(place.path(format!("{disk}-away")), place.path(disk)).expect("renamed");
    }
    place.good(&["audit", "run", "--all"]);
    // All stores are there, and one platter too many is on none of them.
    for platter in [1, 3] {
        fs::rename(&platters[platter].file, away(platter)).expect("renamed");
    }
    assert_eq!(place.run(&["audit", "run", "--all"]).status, 1);
    let found = problems(&place);
    assert_eq!(found.keys().cloned().collect::<BTreeSet<_>>(), on_platter);
    assert!(found.values().all(|state| state == "missing"), "{found:?}");
    let name = on_platter.first().expect("there are some");
    let history = place.run(&["audit", "history", name]).text();
    assert!(history.contains("the content is lost for good: platter"), "{history}");
    for platter in [1, 3] {
        fs::rename(away(platter), &platters[platter].file).expect("renamed");
    }
    place.good(&["audit", "run", "--all"]);
}

/// As a proxy does whose database is down. The error is that of a pipe without a reader, which must
/// not be taken for standard output.
#[cfg(unix)]
#[test]
fn a_database_that_closes_the_connection_is_a_failure() {
    let place = Sandbox::empty();
    let socket = std::os::unix::net::UnixListener::bind(place.path(".s.PGSQL.5432")).expect("a socket");
    std::thread::spawn(move || socket.incoming().for_each(drop));
    let url = format!("postgres://postgres@/audit?host={}", place.path("").display());
    for words in [&["init"][..], &["status"], &["run"], &["report"], &["export"], &["problems"], &["repair", "--apply"]] {
        let ran = place.run(&[&["audit", "--database", &url], words].concat());
        assert!(ran.status == 1 && !ran.err.is_empty(), "{words:?}: {ran:?}");
    }
}

#[test]
fn an_init_that_fails_leaves_nothing() {
    let place = Sandbox::empty();
    let init = format!("{} audit --database x.db init", env!("CARGO_BIN_EXE_fulgurite"));
    // A limit on the size of files, of 4 KiB, stands in for a full disk.
    let failed = place.shell(&format!("trap '' XFSZ; ulimit -f 8; {init}"));
    assert_eq!(failed.status, 1, "{failed:?}");
    assert_eq!(fs::read_dir(place.path("")).expect("a folder").count(), 0);
    assert_eq!(place.shell(&init).status, 0);
    let made = place.read("x.db");
    assert_eq!(place.shell(&init).status, 1);
    assert!(place.read("x.db") == made, "only what this init created is removed");
}
