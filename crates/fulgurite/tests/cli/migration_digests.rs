//! Lists of digests that come after files were migrated, or correct an earlier list.

use crate::support::Sandbox;

/// A sandbox with three files, a migration `m` of them, and lists of their digests: `md5` and
/// `sha256`.
fn with_lists() -> Sandbox {
    let place = Sandbox::empty();
    for number in 0..3 {
        place.write(format!("old/{number}"), format!("content {number}"));
    }
    place.write("new/.keep", b"");
    for algorithm in ["md5", "sha256"] {
        assert_eq!(place.shell(&format!("cd old && {algorithm}sum 0 1 2 > ../{algorithm}")).status, 0);
    }
    place.good(&["migrate", "init", "m", "--from=old", "--to=new"]);
    place
}

#[test]
fn files_that_a_late_list_lets_migrate_again_are_counted() {
    let place = with_lists();
    place.good(&["migrate", "run", "m"]);
    // The migration has computed these itself.
    let same = place.good(&["migrate", "inventory", "m", "--checksums=sha256", "--json"]).json();
    assert_eq!((&same["with_digest"], &same["again"]), (&3.into(), &0.into()));
    let said = place.good(&["migrate", "inventory", "m", "--checksums=md5"]).text();
    assert!(said.contains("3 files that were migrated wait again: the list states a digest of another kind than SHA-256"), "{said}");
    assert_eq!(place.good(&["migrate", "run", "m", "--json"]).json()["migrated"], 3);
    // The same list again changes nothing.
    assert_eq!(place.good(&["migrate", "inventory", "m", "--checksums=md5", "--json"]).json()["again"], 0);
}

#[test]
fn a_file_whose_digest_was_wrong_in_the_list_is_tried_again_once_the_list_is_corrected() {
    let place = with_lists();
    for list in ["md5", "sha256"] {
        let right = String::from_utf8(place.read(list)).expect("text");
        // Another digit at the beginning of the second file's digest.
        let wrong: Vec<String> = right.lines().map(str::to_owned).collect();
        let digit = if wrong[1].starts_with('0') { "1" } else { "0" };
        place.write("wrong", format!("{}\n{digit}{}\n{}\n", wrong[0], &wrong[1][1..], wrong[2]));
        let folder = format!("m-{list}");
        place.write(format!("new-{list}/.keep"), b"");
        place.good(&["migrate", "init", &folder, "--from=old", &format!("--to=new-{list}")]);
        place.good(&["migrate", "inventory", &folder, "--checksums=wrong"]);
        place.run(&["migrate", "run", &folder]).fails_with(1, "wrong at the source");
        // The wrong list again changes nothing.
        let same = place.good(&["migrate", "inventory", &folder, "--checksums=wrong", "--json"]).json();
        assert_eq!(same["corrected"], 0);
        let said = place.good(&["migrate", "inventory", &folder, &format!("--checksums={list}")]).text();
        assert!(said.contains("1 failed file is tried again by the next run: its digest differs"), "{said}");
        let ran = place.good(&["migrate", "run", &folder, "--json"]).json();
        assert_eq!((&ran["migrated"], &ran["totals"]["failed"]["files"]), (&1.into(), &0.into()));
    }
}
