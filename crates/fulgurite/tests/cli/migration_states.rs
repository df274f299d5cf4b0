//! What a migration says while commands change it, and of tapes that a run set aside.

use std::fs::{self, File};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, SystemTime};

use crate::serving::Server;
use crate::support::{Sandbox, noise};

/// A sandbox with a migration `m` of a few files.
fn with_migration() -> Sandbox {
    let place = Sandbox::empty();
    for number in 0..5 {
        place.write(format!("old/{number}"), vec![number; 1_000]);
    }
    place.write("new/.keep", b"");
    place.good(&["migrate", "init", "m", "--from=old", "--to=new"]);
    place
}

#[test]
fn status_names_the_command_that_changes_the_migration() {
    let place = with_migration();
    let held = |content: &str| {
        place.write("m/lock", content);
        let lock = File::open(place.path("m/lock")).expect("a lock");
        lock.try_lock().expect("it is free");
        lock
    };
    let status = || (place.good(&["migrate", "status", "m"]).text(), place.good(&["migrate", "status", "m", "--json"]).json());
    for (content, is_run, command, says) in [
        ("run\n", true, "run", "A run is going on."),
        // Earlier versions wrote no name.
        ("", true, "run", "A run is going on."),
        ("scan\n", false, "scan", "A scan is going on."),
        ("inventory\n", false, "inventory", "An inventory is being taken."),
        ("forget\n", false, "forget", "Migrated files are being removed from the source."),
    ] {
        let lock = held(content);
        let (text, json) = status();
        assert!(text.ends_with(&format!("{says}\n")), "{content:?}: {text}");
        assert_eq!((&json["running"], &json["command"]), (&is_run.into(), &command.into()), "{content:?}");
        let report = place.good(&["migrate", "report", "m", "--out=out", "--json"]).json();
        assert_eq!((&report["running"], &report["command"]), (&is_run.into(), &command.into()), "{content:?}");
        assert!(String::from_utf8(place.read("out/report.html")).expect("text").contains(says), "{content:?}");
        drop(lock);
    }
    let lock = held("scan\n");
    let paused = place.good(&["migrate", "pause", "m", "--json"]).json();
    assert_eq!((&paused["running"], &paused["command"]), (&false.into(), &"scan".into()));
    assert!(status().0.ends_with("A scan is going on; the migration is paused.\n"));
    drop(lock);
    let (text, json) = status();
    assert!(text.ends_with("No run is going on; the migration is paused.\n"), "{text}");
    assert_eq!((&json["running"], &json["command"]), (&false.into(), &serde_json::Value::Null));
}

#[test]
fn a_file_that_was_removed_from_the_source_fails_at_once_and_waits_again_when_it_is_back() {
    let place = with_migration();
    // Another attempt would come after the longest time that settings allow.
    let settings = String::from_utf8(place.read("m/migration.toml")).expect("text");
    place.write("m/migration.toml", settings + "[rules]\nretry_after = \"7 d\"\n");
    place.good(&["migrate", "inventory", "m"]);
    fs::rename(place.path("old/3"), place.path("away")).expect("renamed");
    place.run(&["migrate", "run", "m"]).fails_with(1, "it is in the inventory, and no longer at the source (given up)");
    fs::rename(place.path("away"), place.path("old/3")).expect("renamed");
    place.good(&["migrate", "inventory", "m"]);
    assert_eq!(place.good(&["migrate", "run", "m", "--json"]).json()["migrated"], 1);
}

#[test]
fn an_archive_in_use_is_named_when_a_migration_to_it_is_set_up() {
    let place = Sandbox::new(3, &["--set=2+1"]);
    place.write("old/1", b"content");
    let init = |folder: &str| place.good(&["migrate", "init", folder, "--from=old", "--to=archive:a"]).text();
    assert!(!init("m").contains("Note:"));
    let server = Server::start(&place);
    let said = init("m2");
    assert!(said.contains("Note: `fulgurite serve` is using the destination now: stop the server before a run"), "{said}");
    let json = place.good(&["migrate", "init", "m3", "--from=old", "--to=archive:a", "--json"]).json();
    assert_eq!(json["destination_in_use"], true);
    // It is true, and a run says the same.
    place.run(&["migrate", "run", "m2"]).fails_with(1, "`fulgurite serve` is using it");
    server.stop();
    let lock = File::options().write(true).open(place.path("a/lock")).expect("a lock");
    lock.try_lock().expect("it is free");
    assert!(init("m4").contains("Note: another command is using the destination now"));
    drop(lock);
    place.good(&["migrate", "run", "m2"]);
}

#[test]
fn commands_that_change_a_migration_write_their_names_into_its_lock() {
    let place = with_migration();
    for command in [&["inventory", "m"][..], &["run", "m"], &["scan", "m"], &["forget", "m", "--yes"]] {
        place.good(&[&["migrate"], command].concat());
        assert_eq!(String::from_utf8(place.read("m/lock")).expect("text"), format!("{}\n", command[0]));
    }
    // Counting changes nothing, so it needs no lock.
    let lock = File::open(place.path("m/lock")).expect("a lock");
    lock.try_lock().expect("it is free");
    place.good(&["migrate", "forget", "m"]);
    place.run(&["migrate", "forget", "m", "--yes"]).fails_with(1, "another command is changing the migration");
    assert_eq!(place.read("m/lock"), b"forget\n");
}

#[test]
fn a_migration_that_never_ran_does_not_look_complete() {
    let place = with_migration();
    let all = || {
        let scan = place.run(&["migrate", "scan", "m"]);
        assert_eq!(scan.status, 1, "a scan that compared nothing is no success: {scan:?}");
        let page = place.good(&["migrate", "report", "m", "--out=out"]);
        assert!(!page.text().contains("No file failed"), "{page:?}");
        let html = String::from_utf8(place.read("out/report.html")).expect("text");
        assert!(html.contains("Nothing has run yet") && !html.contains("No file failed"), "{html}");
        [place.good(&["migrate", "status", "m"]).text(), page.text(), scan.text()]
    };
    let json = |command: &str| place.run(&["migrate", command, "m", "--json"]).json();
    for said in &all()[..2] {
        assert!(
            said.contains(
                "Nothing has run yet: no inventory was taken, and no file is migrated. `fulgurite migrate run` lists the source and \
                 migrates its files."
            ),
            "{said}"
        );
    }
    assert_eq!(
        all()[2],
        "Nothing was compared, because no file is migrated yet. `fulgurite migrate run` lists the source and migrates its files.\n"
    );
    assert_eq!((&json("status")["has_inventory"], &json("report")["has_run"]), (&false.into(), &false.into()));
    place.good(&["migrate", "inventory", "m"]);
    for said in &all()[..2] {
        assert!(said.contains("Nothing has run yet: 5 files wait, and none is migrated. `fulgurite migrate run` migrates them."), "{said}");
    }
    assert_eq!(all()[2], "Nothing was compared, because no file is migrated yet. 5 files wait; `fulgurite migrate run` migrates them.\n");
    let scan = place.run(&["migrate", "scan", "m", "--json"]);
    assert_eq!((scan.status, &scan.json()["compared"]), (1, &0.into()));
    assert_eq!((&json("status")["has_inventory"], &json("status")["has_run"]), (&true.into(), &false.into()));
    place.good(&["migrate", "run", "m"]);
    place.write("old/later", b"new");
    place.good(&["migrate", "inventory", "m"]);
    assert_eq!(
        (&json("status")["has_run"], &json("report")["has_run"], &json("scan")["compared"]),
        (&true.into(), &true.into(), &5.into())
    );
    let report = place.good(&["migrate", "report", "m"]).text();
    assert!(report.ends_with("No file has failed so far; 1 file is left.\n") && !report.contains("Nothing has run"), "{report}");
    assert!(!place.good(&["migrate", "status", "m"]).text().contains("Nothing has run"));
    let scan = place.good(&["migrate", "scan", "m"]).text();
    assert!(scan.contains("5 files, 4.9 KiB, are at the") && scan.contains("1 file is not migrated yet, and not compared."), "{scan}");
}

/// The value of a metric without labels of its own, as the last run wrote it.
fn metric(place: &Sandbox, name: &str) -> Option<String> {
    let text = fs::read_to_string(place.path("m/metrics.prom")).ok()?;
    let line = text.lines().find(|line| line.starts_with(&format!("fulgurite_migration_{name}{{")))?;
    line.rsplit_once(' ').map(|(_, value)| value.to_owned())
}

#[test]
fn tapes_that_a_run_sets_aside_are_named_until_the_next_run() {
    let place = Sandbox::empty();
    for number in 0..50 {
        place.write(format!("old/{number:02}"), noise(number + 1, 1_000));
    }
    fs::create_dir(place.path("new")).expect("made");
    // 38 blocks fit on a tape, and each file takes one.
    place.good(&["migrate", "tapes", "make", "tapes", "--from=old", "--capacity=20 MB", "--speedup=0"]);
    place.good(&["migrate", "init", "m", "--from=tapes:tapes", "--to=new"]);
    let settings = String::from_utf8(place.read("m/migration.toml")).expect("text");
    place.write("m/migration.toml", settings + "[rules]\nretry_after = \"1 s\"\n");
    let damaged = |tape: &str| {
        let path = place.path(format!("tapes/{tape}/b"));
        fs::rename(&path, place.path("away")).expect("moved");
        path
    };
    let back = |path| fs::rename(place.path("away"), path).expect("moved back");
    let status =
        || (place.good(&["migrate", "status", "m"]).text(), place.good(&["migrate", "status", "m", "--json"]).json()["set_aside"].clone());
    let path = damaged("T00001");
    let ran = place.run(&["migrate", "run", "m"]);
    ran.fails_with(1, "tape T00001 is set aside");
    let (text, tapes) = status();
    assert!(
        text.contains("The last run set aside 1 tape; the next tries again:\n  T00001: 20 files in a row failed; the last: "),
        "{text}"
    );
    assert_eq!((&tapes[0]["volume"], &tapes[0]["failed"], tapes.as_array().map(Vec::len)), (&"T00001".into(), &20.into(), Some(1)));
    assert_eq!(metric(&place, "set_aside_volumes").as_deref(), Some("1"));
    let report = place.run(&["migrate", "report", "m", "--out=out"]);
    assert!(report.text().contains("  T00001: 20 files in a row failed"), "{report:?}");
    let page = String::from_utf8(place.read("out/report.html")).expect("text");
    assert!(page.contains("<h2>Tapes set aside</h2>") && page.contains("<td>T00001</td><td class=\"number\">20</td>"), "{page}");
    assert_eq!(place.run(&["migrate", "report", "m", "--json"]).json()["set_aside"], tapes);
    // The same while a run goes on.
    let lock = File::create(place.path("m/lock")).expect("a lock");
    lock.try_lock().expect("it is free");
    assert!(status().0.contains("1 tape is set aside until the next run:\n  T00001: "), "{}", status().0);
    drop(lock);
    // The next run moves nothing, so the figures of the earlier one stay.
    place.run(&["migrate", "run", "m"]).fails_with(1, "tape T00001 is set aside");
    let report = place.run(&["migrate", "report", "m", "--json"]).json();
    assert_eq!((&report["set_aside"][0]["volume"], &report["stages"][0]["files"]), (&"T00001".into(), &12.into()), "{report}");
    // What an earlier version wrote has no such field.
    let noted = place.read("m/progress.json");
    let mut progress: serde_json::Value = serde_json::from_slice(&noted).expect("JSON");
    progress.as_object_mut().expect("an object").remove("set_aside").expect("tapes");
    place.write("m/progress.json", progress.to_string());
    assert_eq!(
        (status().1, place.run(&["migrate", "report", "m", "--json"]).json()["stages"][0]["files"].as_u64()),
        (serde_json::json!([]), Some(12))
    );
    place.write("m/progress.json", noted);
    back(path);
    place.good(&["migrate", "run", "m"]);
    assert_eq!((status().1, metric(&place, "set_aside_volumes").as_deref()), (serde_json::json!([]), Some("0")));
    assert!(!place.good(&["migrate", "report", "m"]).text().contains("T00001"));
}

#[test]
fn a_run_is_going_on_until_an_archive_has_written_its_platters() {
    let place = Sandbox::new(3, &["--set=2+1"]);
    for number in 0..300 {
        place.write(format!("old/{number}"), noise(number + 1, 20_000));
    }
    place.good(&["migrate", "init", "m", "--from=old", "--to=archive:a"]);
    let mut run = place.command();
    let mut run = run.args(["migrate", "run", "m"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    while metric(&place, "running").is_none_or(|running| running == "1") {
        thread::yield_now();
    }
    // Flushing removes what is staged.
    let staged: u64 = place.segments().iter().filter_map(|path| fs::metadata(path).ok()).map(|of| of.len()).sum();
    assert!(run.wait().expect("it ended").success());
    assert!(staged < 1_000_000, "{staged} bytes are staged after the run's end");
}

#[test]
fn a_run_that_migrates_nothing_leaves_the_certificate_and_its_date() {
    let place = with_migration();
    place.good(&["migrate", "run", "m"]);
    let mut certificate: serde_json::Value = serde_json::from_slice(&place.read("m/certificate.json")).expect("JSON");
    certificate["made_at"] = "2026-01-02 03:04:05 UTC".into();
    let dated = certificate.to_string().into_bytes();
    place.write("m/certificate.json", &dated);
    let said = place.good(&["migrate", "run", "m"]).text();
    assert!(said.contains("certificate.json of 2026-01-02 03:04:05 UTC still applies"), "{said}");
    assert_eq!(place.read("m/certificate.json"), dated);
    // One that doesn't state what the database has is written again, and so is one of new files.
    place.write("m/certificate.json", certificate.to_string().replace("\"files\":5", "\"files\":6"));
    assert!(place.good(&["migrate", "run", "m"]).text().contains("certifies 5 of 5 files"));
    place.write("m/certificate.json", &dated);
    place.write("old/new", b"new");
    place.good(&["migrate", "inventory", "m"]);
    assert!(place.good(&["migrate", "run", "m"]).text().contains("certifies 6 of 6 files"));
    assert_ne!(place.read("m/certificate.json"), dated);
}

#[test]
fn an_edit_that_keeps_the_length_is_noticed_by_a_repeated_inventory() {
    let place = Sandbox::new(1, &[]);
    for name in ["edited", "touched", "same"] {
        place.write(format!("source/{name}"), b"before");
    }
    for folder in ["destination", "archived"] {
        fs::create_dir(place.path(folder)).expect("made");
    }
    place.good(&["put", "source", "--to", "photos"]);
    place.good(&["migrate", "init", "m", "--from=source", "--to=destination"]);
    place.good(&["migrate", "init", "b", "--from=archive:a", "--from-option=prefix=photos/source", "--to=archived"]);
    for migration in ["m", "b"] {
        place.good(&["migrate", "run", migration]);
        assert_eq!(place.good(&["migrate", "inventory", migration, "--json"]).json()["changed"], 0);
    }
    place.write("source/edited", b"after!");
    let later = SystemTime::now() + Duration::from_secs(60);
    for name in ["edited", "touched"] {
        let file = fs::File::options().write(true).open(place.path(format!("source/{name}")));
        file.and_then(|file| file.set_modified(later)).expect("set");
    }
    place.good(&["put", "source", "--to", "photos"]);
    for (migration, destination, changed) in [("m", "destination", 2), ("b", "archived", 1)] {
        assert_eq!(place.good(&["migrate", "inventory", migration, "--json"]).json()["changed"], changed);
        assert!(!place.path(format!("{migration}/certificate.json")).exists(), "it doesn't cover what waits");
        let ran = place.good(&["migrate", "run", migration, "--json"]).json();
        assert_eq!((&ran["migrated"], &ran["totals"]["migrated"]["files"]), (&changed.into(), &3.into()), "{ran}");
        assert_eq!(place.read(format!("{destination}/edited")), b"after!");
        assert_eq!(place.good(&["migrate", "inventory", migration, "--json"]).json()["changed"], 0);
    }
}
