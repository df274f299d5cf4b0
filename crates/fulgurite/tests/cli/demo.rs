//! The demonstration.

use crate::support::{Sandbox, noise};

#[test]
fn the_demonstration_exercises_every_level_of_the_codes() {
    let place = Sandbox::empty();
    let account = place.good(&["demo", "--json"]).json();
    assert_eq!(account["comparison"]["same"], true);
    for level in ["by_track", "by_group", "by_set"] {
        assert!(account["restore"]["repairs"][level].as_u64() > Some(0), "{level}: {account}");
        assert!(account["scrub"]["repairs"][level].as_u64() > Some(0), "{level}: {account}");
    }
    assert_eq!(
        (&account["scrub"]["unsound"], &account["scrub"]["rebuilt"], &account["unsound_after_scrub"]),
        (&6.into(), &6.into(), &0.into())
    );
    let parts = ["content", "encryption", "file_tables", "padding", "track_code", "group_code", "set_code", "sector_labels", "headers"];
    let sum: u64 = parts.iter().map(|part| account["overhead"][part].as_u64().expect("a number")).sum();
    let files = place.good(&["-A", "demo-archive", "status", "--json"]).json()["platter_bytes"].as_u64();
    assert_eq!((account["overhead"]["platter_bytes"].as_u64(), files), (Some(sum), files));
    place.run(&["demo"]).fails_with(1, "demo-archive already exists: remove it (rm -r demo-archive), or name another folder with --into");
}

#[test]
fn the_commands_printed_by_the_demonstration_can_be_pasted() {
    let place = Sandbox::empty();
    place.write("my files/notes.txt", b"some text");
    place.write("my files/noise", noise(1, 2_000_000));
    let said = place.good(&["demo", "my files", "--into", "my demo"]).text();
    let lines: Vec<&str> = said.split("To go on:\n").nth(1).expect("it says how").lines().map(str::trim).collect();
    assert!(lines.len() >= 8, "{said}");
    for line in lines {
        let ran = place.shell(line);
        // Verifying finds the platters that the previous command removed.
        assert_eq!(ran.status, i32::from(line.contains("verify")), "{line}: {ran:?}");
    }
    assert!(!place.path("my demo").exists());
}

#[test]
fn the_demonstration_takes_small_and_odd_folders() {
    let place = Sandbox::empty();
    place.write("tiny/file", b"x");
    place.good(&["demo", "tiny"]);
    place.run(&["demo", "missing", "--into", "b"]).fails_with(1, "missing is not a folder");
    std::fs::create_dir(place.path("nothing")).expect("made");
    place.run(&["demo", "nothing", "--into", "b"]).fails_with(1, "nothing contains nothing to archive");
    assert!(!place.path("b").exists());
    // An entry that can't be stored is reported, and the exit status isn't 0.
    assert_eq!(place.shell("mkfifo tiny/fifo").status, 0);
    place.run(&["demo", "tiny", "--into", "tiny/b"]).fails_with(1, "tiny/fifo");
}

#[test]
fn the_demonstration_on_glass_shows_a_sector_and_survives_the_same_losses() {
    let place = Sandbox::empty();
    // Several files, because one that fits on a platter isn't spread over several.
    for file in 0..12 {
        place.write(format!("some/{file}"), noise(file, 10_000));
    }
    place.write("large/file", noise(1, 5 << 20));
    place.run(&["demo", "large", "--medium=glass"]).fails_with(1, "large contains 5.0 MiB, and on glass");
    let account = place.good(&["demo", "some", "--medium=glass", "--json"]).json();
    assert_eq!(account["comparison"]["same"], true);
    for level in ["by_track", "by_group", "by_set"] {
        assert!(account["restore"]["repairs"][level].as_u64() > Some(0), "{level}: {account}");
    }
    let damaged = account["destroyed"].as_array().map(Vec::len).expect("a list");
    assert!(damaged > 4, "{account}");
    assert_eq!((&account["scrub"]["rebuilt"], &account["unsound_after_scrub"]), (&damaged.into(), &0.into()));
    let files = place.good(&["-A", "demo-archive", "status", "--json"]).json()["platter_bytes"].as_u64();
    assert_eq!(account["overhead"]["platter_bytes"].as_u64(), files);
    let glass = &account["glass"];
    assert!(glass["same"] == true && glass["symbol_errors"].as_u64() > Some(0), "{glass}");
    let pictures = glass["pictures"].as_array().expect("a list");
    assert_eq!(pictures.len(), 9);
    for picture in pictures {
        assert!(place.read(picture.as_str().expect("text")).starts_with(b"\x89PNG"), "{picture}");
    }
}
