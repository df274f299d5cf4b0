//! The command `init`, and settings edited by hand.

use std::fs;

use crate::support::Sandbox;

#[test]
fn errors_for_wrong_settings_name_their_place() {
    let place = Sandbox::new(3, &[]);
    let text = String::from_utf8(place.read("a/fulgurite.toml")).expect("text");
    for (from, to, says) in [
        ("memory_mib = 512", "memory_mib = lots", "line"),
        ("memory_mib = 512", "memory_mib = -1", "memory_mib"),
        ("memory_mib = 512", "memory_mib = 1", "limits.memory_mib is 1; expected: 64 to"),
        ("memory_mib = 512", "memory_mbi = 512", "unknown field `memory_mbi`"),
        ("redundancy = 1", "redundancy = 5", "needs 7 stores, one a platter, and 3 are given"),
        ("information = 2", "information = 0", "set.information is 0"),
        ("[set]", "", "information"),
        ("id = \"", "id = \"zz", "id"),
    ] {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text, "{from}");
        place.write("a/fulgurite.toml", changed);
        for arguments in [&["ls"][..], &["put", "file"], &["catalogue", "rebuild"], &["keys", "import", "k"]] {
            let ran = place.run(arguments);
            ran.fails_with(1, says);
            ran.fails_with(1, "fulgurite.toml");
        }
    }
    place.write("a/fulgurite.toml", b"\xff\xfe");
    place.run(&["ls"]).fails_with(1, "fulgurite.toml");
    place.write("a/fulgurite.toml", text);
    place.good(&["ls"]);
}

#[test]
fn an_init_that_fails_leaves_nothing_in_the_way() {
    let place = Sandbox::new(2, &[]);
    place.write("file", b"1");
    let before = place.fingerprint(&["a", "d1", "d2"]);
    place.run(&["init", "a", "--store=x1"]).fails_with(1, "holds an archive already");
    place.run(&["init", "b", "--store=x1", "--store=d2"]).fails_with(1, "store d2");
    place.run(&["init", "b", "--store=x1", "--store=./y/../x1"]).fails_with(1, "same path");
    place.run(&["init", "b", "--store=x1", "--store=x1"]).fails_with(1, "same path");
    place.run(&["init", "b", "--store=n=x1", "--store=n=x2"]).fails_with(1, "same name");
    place.run(&["init", "b", "--store=x1", "--set=2+1"]).fails_with(1, "needs 3 stores");
    place.run(&["init", "b", "--store=x1", "--set=0+1"]).fails_with(1, "set.information is 0");
    place.run(&["init", "b", "--store=x1", "--platter-mib=1"]).fails_with(2, "1 is not in 8..=1048576");
    place.run(&["init", "b", "--store=x1", "--store="]).fails_with(1, "no folder given");
    place.run(&["init", "b", "--store=file"]).fails_with(1, "file");
    place.run(&["init", "file", "--store=x1"]).fails_with(1, "file");
    place.good(&["init", "b", "--store=x1", "--store=second=x2"]);
    assert_eq!(place.fingerprint(&["a", "d1", "d2"]), before);
    let status = place.good(&["-A", "b", "status"]).text();
    assert!(status.contains("store     second: ") && status.contains("1+1"), "{status}");
}

#[test]
fn a_set_without_redundancy_is_allowed_with_a_note() {
    let place = Sandbox::empty();
    let ran = place.good(&["init", "a", "--store=d1"]);
    assert!(ran.err.contains("does not survive the loss of a store"), "{ran:?}");
    place.write("file", b"1");
    place.good(&["put", "file", "--flush"]);
    fs::remove_file(&place.platters()[0].file).expect("removed");
    place.run(&["verify"]).fails_with(1, "lost: file (version 1)");
}
