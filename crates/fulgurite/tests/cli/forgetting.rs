//! What `migrate forget` must not remove.

use std::fs;
use std::os::unix::fs::symlink;

use crate::support::Sandbox;

/// Lets files be removed, and tried again, at once.
fn without_hold(place: &Sandbox) {
    let settings = String::from_utf8(place.read("m/migration.toml")).expect("text");
    place.write("m/migration.toml", settings + "[rules]\nhold = \"0 s\"\nretry_after = \"1 s\"\n");
}

#[test]
fn a_source_that_leads_to_the_destination_by_now_is_refused_and_nothing_is_removed() {
    let place = Sandbox::empty();
    place.write("old/f1", b"a");
    place.write("new/.keep", b"");
    place.good(&["migrate", "init", "m", "--from=old", "--to=new"]);
    without_hold(&place);
    place.good(&["migrate", "run", "m"]);
    fs::remove_dir_all(place.path("old")).expect("removed");
    for (target, why) in [("new", "are the same place"), ("new/sub", "is inside the other"), (".", "is inside the other")] {
        fs::create_dir_all(place.path(target)).expect("made");
        symlink(target, place.path("old")).expect("a link");
        place.run(&["migrate", "forget", "m", "--yes"]).fails_with(1, "no file was removed");
        for command in [&["forget", "m", "--yes"][..], &["run", "m"], &["scan", "m"]] {
            place.run(&[&["migrate"], command].concat()).fails_with(1, why);
        }
        assert_eq!(place.read("new/f1"), b"a");
        fs::remove_file(place.path("old")).expect("removed");
    }
}

#[test]
fn a_file_that_both_places_share_stays() {
    let place = Sandbox::empty();
    place.write("old/1", b"1");
    place.write("old/2", b"2");
    place.write("new/.keep", b"");
    // As below a folder that is mounted at both places.
    fs::hard_link(place.path("old/1"), place.path("new/1")).expect("linked");
    place.good(&["migrate", "init", "m", "--from=old", "--to=new"]);
    without_hold(&place);
    place.good(&["migrate", "run", "m"]);
    place.run(&["migrate", "forget", "m", "--yes"]).fails_with(1, "have the same file, not two copies");
    assert!(place.path("old/1").exists() && !place.path("old/2").exists());
}

#[test]
fn files_that_an_archive_has_only_staged_stay_at_the_source() {
    let place = Sandbox::new(3, &["--set=2+1"]);
    for name in ["1", "2", "3"] {
        place.write(format!("source/{name}"), name);
    }
    place.good(&["migrate", "init", "m", "--from=source", "--to=archive:a"]);
    without_hold(&place);
    place.good(&["migrate", "run", "m", "--no-flush"]);
    let status = place.good(&["migrate", "status", "m"]).text();
    assert!(status.contains("3 versions are only in the staging"), "{status}");
    assert_eq!(place.good(&["migrate", "status", "m", "--json"]).json()["staged_versions"], 3);
    let forgotten = place.run(&["migrate", "forget", "m", "--yes"]);
    assert!(forgotten.status == 1 && forgotten.text().contains("3 files stay: the archive has only staged"), "{forgotten:?}");
    let forgotten = place.run(&["migrate", "forget", "m", "--yes", "--json"]);
    assert_eq!((forgotten.status, &forgotten.json()["good"], &forgotten.json()["staged"]), (1, &0.into(), &3.into()));
    assert_eq!(fs::read_dir(place.path("source")).expect("a folder").count(), 3);
    place.good(&["flush"]);
    assert!(!place.good(&["migrate", "status", "m"]).text().contains("staging"));
    assert_eq!(place.good(&["migrate", "forget", "m", "--yes", "--json"]).json()["good"], 3);
    assert_eq!(fs::read_dir(place.path("source")).expect("a folder").count(), 0);
}
