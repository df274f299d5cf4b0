//! Keys that are gone, and come back.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::support::Place;

fn archive() -> Place {
    let place = Place::new(2, &[]);
    place.write("file", b"content");
    place.good(&["put", "file", "--flush"]);
    place.write("passphrase", b"correct horse\n");
    place
}

#[test]
fn exported_keys_bring_an_archive_back() {
    let place = archive();
    place.good(&["keys", "export", "--plain", "plain"]);
    let ran = place.good(&["keys", "export", "sealed", "--passphrase-file", "passphrase"]);
    assert!(ran.text().contains("the master key and 1 object key"), "{ran:?}");
    assert_eq!(fs::metadata(place.path("plain")).expect("there").permissions().mode() & 0o777, 0o600);
    assert!(!String::from_utf8_lossy(&place.read("sealed")).contains(&*String::from_utf8_lossy(&place.read("a/master.key"))));
    place.run(&["keys", "export", "--plain", "plain"]).fails_with(1, "plain");

    for (export, options) in [("plain", &[][..]), ("sealed", &["--passphrase-file", "passphrase"])] {
        for lost in [&["master.key"][..], &["keys.db"], &["master.key", "keys.db"]] {
            for name in lost {
                fs::remove_file(place.path(format!("a/{name}"))).expect("removed");
            }
            place.run(&["get", "file", "-"]).fails_with(1, "fulgurite keys import");
            place.run(&["catalogue", "rebuild"]).fails_with(1, "fulgurite keys import");
            place.good(&[&["keys", "import", export], options].concat());
            assert_eq!(place.good(&["get", "file", "-"]).out, b"content");
            assert_eq!(fs::metadata(place.path("a/master.key")).expect("there").permissions().mode() & 0o777, 0o600);
        }
    }
}

#[test]
fn keys_that_do_not_fit_change_nothing() {
    let place = archive();
    place.init("b", "e", 1, &[]);
    place.good(&["keys", "export", "sealed", "--passphrase-file", "passphrase"]);
    place.good(&["keys", "export", "plain", "--plain"]);
    place.good(&["-A", "b", "keys", "export", "--plain", "other"]);
    place.write("wrong", b"wrong horse");
    place.write("empty", b"");
    place.write("two-lines", b"one\ntwo\n");
    fs::remove_file(place.path("a/master.key")).expect("removed");
    let before = place.fingerprint(&["a"]);
    place.run(&["keys", "import", "sealed"]).fails_with(1, "--passphrase-file");
    place.run(&["keys", "import", "sealed", "--passphrase-file", "wrong"]).fails_with(1, "passphrase");
    place.run(&["keys", "import", "sealed", "--passphrase-file", "empty"]).fails_with(1, "should hold one line");
    place.run(&["keys", "import", "sealed", "--passphrase-file", "two-lines"]).fails_with(1, "should hold one line");
    place.run(&["keys", "import", "sealed", "--passphrase-file", "missing"]).fails_with(1, "the passphrase file missing");
    place.run(&["keys", "import", "other"]).fails_with(1, "nothing was changed");
    place.run(&["keys", "import", "file"]).fails_with(1, "file: ");
    place.run(&["keys", "import", "missing"]).fails_with(1, "missing: No such file");
    let text = String::from_utf8(place.read("plain")).expect("text");
    place.write("cut", &text[..text.len() - 20]);
    place.run(&["keys", "import", "cut"]).fails_with(1, "cut: ");
    let sealed = place.read("sealed");
    place.write("cut-sealed", &sealed[..sealed.len() - 5]);
    place.run(&["keys", "import", "cut-sealed", "--passphrase-file", "passphrase"]).fails_with(1, "cut-sealed: ");
    assert_eq!(place.fingerprint(&["a"]), before);

    // Another archive's master key, under which nothing opens.
    fs::copy(place.path("b/master.key"), place.path("a/master.key")).expect("copied");
    place.run(&["get", "file", "-"]).fails_with(1, "is not wrapped by it");
    place.run(&["keys", "import", "plain"]).fails_with(1, "holds another master key");
    fs::remove_file(place.path("a/master.key")).expect("removed");
    place.good(&["keys", "import", "plain"]);
    assert_eq!(place.good(&["get", "file", "-"]).out, b"content");
    place.write("a/master.key", "no key");
    place.run(&["ls"]).fails_with(1, "the master key");
}

#[test]
fn a_removed_object_does_not_come_back_with_keys_exported_before() {
    let place = archive();
    place.good(&["keys", "export", "--plain", "plain"]);
    place.good(&["rm", "file"]);
    place.good(&["keys", "import", "plain"]);
    place.run(&["get", "file", "-"]).fails_with(1, "nothing is stored as file");
    fs::remove_file(place.path("a/catalogue.db")).expect("removed");
    place.good(&["catalogue", "rebuild"]);
    assert_eq!(place.good(&["ls"]).text(), "");
}
