//! Migrations from emulated tapes, and files that users wait for.

use std::collections::BTreeMap;
use std::fs;

use crate::support::{Sandbox, noise};

/// A sandbox with a tape library of several tapes, and the contents of its files by name and tape.
fn with_tapes() -> (Sandbox, BTreeMap<String, Vec<u8>>) {
    let place = Sandbox::empty();
    let mut contents = BTreeMap::new();
    for number in 0..30 {
        let (name, content) = (format!("{}/{number:02}", number % 3), noise(number + 1, 300_000 + number as usize));
        let path = place.path(format!("old/{name}"));
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, &content).expect("written");
        contents.insert(name, content);
    }
    fs::create_dir(place.path("new")).expect("made");
    place.good(&["migrate", "tapes", "make", "tapes", "--from=old", "--capacity=6 MB", "--drives=2", "--speedup=0"]);
    (place, contents)
}

#[test]
fn tapes_are_made_listed_and_migrated() {
    let (place, contents) = with_tapes();
    let listed = place.good(&["migrate", "tapes", "list", "tapes", "--json"]).json();
    let volumes = listed["volumes"].as_array().expect("volumes");
    // Eleven blocks fit on a tape, and each file takes one.
    assert_eq!((volumes.len(), &volumes[0]["files"], &volumes[2]["files"]), (3, &11.into(), &8.into()), "{listed}");
    place.good(&["migrate", "init", "move", "--from=tapes:tapes", "--to=new"]);
    let recalled = place.run(&["migrate", "recall", "move", "T00003/", "T00001/nothing"]);
    assert!(recalled.status == 1 && recalled.err.contains("no inventory was taken yet"), "{recalled:?}");
    place.good(&["migrate", "inventory", "move"]);
    fs::write(place.path("list"), "T00003/0/27\n\nT00001/0/00\n").expect("written");
    let recalled = place.run(&["migrate", "recall", "move", "T00003/", "--list=list", "--json"]);
    assert_eq!((&recalled.json()["waiting"], &recalled.json()["unknown"]), (&9.into(), &0.into()), "{recalled:?}");
    assert_eq!(place.good(&["migrate", "status", "move", "--json"]).json()["recalled"], 9);
    let ran = place.good(&["migrate", "run", "move", "--json"]).json();
    assert_eq!(place.good(&["migrate", "status", "move", "--json"]).json()["recalled"], 0);
    assert_eq!((&ran["migrated"], &ran["certificate"]["migrated"]["files"]), (&30.into(), &30.into()));
    // Files that users wait for were read first from each tape, and the journal replays.
    let journal = fs::read_to_string(place.path("move/journal")).expect("a journal");
    let mut offered: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for line in journal.lines() {
        let lot = &serde_json::from_str::<serde_json::Value>(line).expect("a line of JSON")["event"]["Offered"]["lot"];
        if let Some(volume) = lot["volume"].as_u64() {
            offered.entry(volume).or_default().extend(lot["priority"].as_u64());
        }
    }
    let firsts: Vec<u64> = offered.values().map(|priorities| priorities[0]).collect();
    assert!(firsts == [1, 0, 1] && offered.values().all(|of| of.is_sorted_by(|before, after| before >= after)), "{offered:?}");
    place.good(&["migrate", "replay", "move"]);
    for (name, content) in &contents {
        let found = (1..=3).filter_map(|volume| fs::read(place.path(format!("new/T{volume:05}/{name}"))).ok());
        assert!(found.collect::<Vec<_>>() == std::slice::from_ref(content), "{name}");
    }
    let again = place.good(&["migrate", "recall", "move", "T00003/", "--json"]).json();
    assert_eq!((&again["waiting"], &again["migrated"]), (&0.into(), &8.into()));
    place.good(&["migrate", "scan", "move"]);
    let kept = place.run(&["migrate", "forget", "move", "--yes"]);
    assert!(kept.status == 1 && kept.err.contains("withdraw its tapes"), "{kept:?}");
}

#[test]
fn tapes_that_can_not_be_used_are_named() {
    let (place, _) = with_tapes();
    let init = |arguments: &[&str]| place.run(&[&["migrate", "init", "m"], arguments].concat());
    for (arguments, status, says) in [
        (&["--from=tapes:", "--to=new"][..], 2, "needs the library's folder"),
        (&["--from=tapes:nowhere", "--to=new"], 1, "it has no library.toml"),
        (&["--from=tapes:tapes", "--to=new", "--from-option=region=x"], 2, "no option \"region\""),
        (&["--from=old", "--to=tapes:tapes"], 2, "only read"),
        (&["--from=tapes:tapes", "--to=tapes"], 2, "same place"),
    ] {
        let ran = init(arguments);
        assert!(ran.status == status && ran.err.contains(says), "{arguments:?}: {ran:?}");
    }
    let ran = place.run(&["migrate", "tapes", "make", "tapes", "--from=old"]);
    assert!(ran.status == 2 && ran.err.contains("not empty"), "{ran:?}");
    let ran = place.run(&["migrate", "tapes", "make", "small", "--from=old", "--capacity=500 kB"]);
    assert!(ran.status == 1 && ran.err.contains("room for 500000") && !place.path("small").exists(), "{ran:?}");
    for (option, says) in [("--speedup=-1", "speedup"), ("--speedup=1e-30", "0.001"), ("--capacity=2 PB", "capacity")] {
        let ran = place.run(&["migrate", "tapes", "make", "small", "--from=old", option]);
        assert!(ran.status == 2 && ran.err.contains(says) && !place.path("small").exists(), "{ran:?}");
    }
    let ran = place.run(&["migrate", "tapes", "make", "old/tapes", "--from=old"]);
    assert!(ran.status == 2 && ran.err.contains("inside") && !place.path("old/tapes").exists(), "{ran:?}");
    assert_eq!(init(&["--from=tapes:tapes", "--to=new"]).status, 0);
    let settings = fs::read_to_string(place.path("m/migration.toml")).expect("settings");
    fs::write(place.path("m/migration.toml"), settings.replace("inputs = 2", "inputs = 3")).expect("written");
    let ran = place.run(&["migrate", "run", "m"]);
    assert!(ran.status == 2 && ran.err.contains("but the tape library has 2 drives"), "{ran:?}");
    fs::write(place.path("m/migration.toml"), settings).expect("written");
    // A damaged tape: the inventory would be incomplete.
    let index = fs::read(place.path("tapes/T00002/index.xml")).expect("an index");
    fs::write(place.path("tapes/T00002/index.xml"), &index[..index.len() / 2]).expect("cut");
    let ran = place.run(&["migrate", "run", "m"]);
    assert!(ran.status == 1 && ran.err.contains("index.xml of the volume T00002"), "{ran:?}");
    let ran = place.run(&["migrate", "tapes", "list", "tapes"]);
    assert!(ran.status == 1 && String::from_utf8_lossy(&ran.out).contains("index.xml of the volume T00002"), "{ran:?}");
    fs::write(place.path("tapes/T00002/index.xml"), index).expect("mended");
    place.good(&["migrate", "run", "m"]);
}

#[test]
fn lists_of_recalled_names_may_end_them_with_nul_bytes() {
    let place = Sandbox::empty();
    for name in ["a\nb", "c", "d"] {
        place.write(format!("old/{name}"), name);
    }
    fs::create_dir(place.path("new")).expect("made");
    place.good(&["migrate", "init", "m", "--from=old", "--to=new"]);
    place.good(&["migrate", "inventory", "m"]);
    place.write("lines", "a\nb\nc\nb\nc\n");
    let recalled = place.run(&["migrate", "recall", "m", "--list=lines", "--json"]);
    assert_eq!((recalled.status, &recalled.json()["waiting"], &recalled.json()["unknown"]), (1, &1.into(), &2.into()), "{recalled:?}");
    assert_eq!(recalled.err.matches("\"unknown\"").count(), 2, "{}", recalled.err);
    assert!(place.shell("cd old && find . -type f -print0 > ../nuls").status == 0);
    let recalled = place.good(&["migrate", "recall", "m", "c", "--list=nuls", "-0", "--json"]).json();
    assert_eq!((&recalled["waiting"], &recalled["unknown"]), (&3.into(), &0.into()), "{recalled}");
    assert_eq!(place.good(&["migrate", "status", "m", "--json"]).json()["recalled"], 3);
    place.write("nuls", b"c\0\0d");
    assert_eq!(place.good(&["migrate", "recall", "m", "--list=nuls", "--null", "--json"]).json()["waiting"], 2);
    place.write("nuls", b"c\0\xff\0");
    place.run(&["migrate", "recall", "m", "--list=nuls", "--null"]).fails_with(1, "\u{201b}FF: not in the inventory");
    place.run(&["migrate", "recall", "m", "c", "--null"]).fails_with(2, "--list");
}
