//! The command `rm`: removed versions never come back.

use std::fs;

use crate::support::Sandbox;

#[test]
fn removed_versions_stay_removed_after_a_rebuild() {
    for options in [&[][..], &["--clear-text"]] {
        let place = Sandbox::new(2, options);
        for name in ["kept", "gone", "folder/one", "folder/two", "other/one"] {
            place.write(format!("tree/{name}"), name);
        }
        place.good(&["put", "tree/."]);
        place.write("tree/kept", b"newer");
        place.good(&["put", "tree/kept", "--name", "tree/kept", "--flush"]);
        assert!(place.good(&["rm", "tree/gone"]).text().contains("Removed 1 version."));
        place.run(&["rm", "tree/folder"]).fails_with(1, "tree/folder is a folder; --recursive removes it");
        place.good(&["rm", "-r", "tree/folder"]);
        place.good(&["rm", "tree/kept", "--version", "2"]);
        place.run(&["rm", "tree/kept", "--version", "2"]).fails_with(1, "tree/kept has no version 2");
        place.run(&["rm", "tree/gone"]).fails_with(1, "nothing is stored as tree/gone");
        place.run(&["rm", "/"]).fails_with(1, "the name is empty");
        let left = "tree/kept\ntree/other/one\n";
        for _ in 0..2 {
            assert_eq!(place.good(&["ls"]).text(), left);
            assert_eq!(place.good(&["get", "tree/kept", "-"]).out, b"kept");
            place.run(&["get", "tree/gone", "-"]).fails_with(1, "nothing is stored");
            fs::remove_file(place.path("a/catalogue.db")).expect("removed");
            let rebuilt = place.good(&["catalogue", "rebuild"]);
            assert!(rebuilt.text().contains("Left out 4 versions removed according to tombstones"), "{rebuilt:?}");
            assert_eq!(place.good(&["ls"]).text(), left);
            // Second, with the tombstones on a platter.
            place.write("more", b"more");
            place.good(&["put", "more", "--name", "tree/other/one", "--flush"]);
        }
        assert_eq!(place.good(&["get", "tree/other/one", "-"]).out, b"more");
    }
}

#[test]
fn versions_removed_before_a_flush_never_reach_a_platter() {
    let place = Sandbox::new(1, &["--clear-text"]);
    place.write("secret", b"the secret that was staged only");
    place.write("other", b"other");
    place.good(&["put", "secret", "other"]);
    place.good(&["rm", "secret"]);
    place.good(&["flush"]);
    let platter = fs::read(&place.platters()[0].file).expect("readable");
    assert!(!platter.windows(10).any(|bytes| bytes == b"the secret"));
    assert!(platter.windows(5).any(|bytes| bytes == b"other"));
}
