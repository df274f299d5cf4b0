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
    assert!(said.contains("3 files that were migrated wait again: the list has no SHA-256 of them"), "{said}");
    assert_eq!(place.good(&["migrate", "run", "m", "--json"]).json()["migrated"], 3);
    // The same list again changes nothing.
    assert_eq!(place.good(&["migrate", "inventory", "m", "--checksums=md5", "--json"]).json()["again"], 0);
}
