//! What a migration says while commands change it, and of tapes that a run set aside.

use std::fs::File;

use crate::support::Sandbox;

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
