//! Names deleted by a deletion marker. Only the service creates deletion markers; these commands
//! don't.

use fulgurite_archive::catalogue::{ArchivedVersion, Extent, FoundVersion};
use fulgurite_archive::{Access, Archive};
use fulgurite_domain::{Attributes, Digest, Kind, ObjectName, ObjectRecord, VersionId};

use crate::support::Sandbox;

/// Adds a deletion marker to the catalogue, as an archived version.
fn mark(place: &Sandbox, name: &str, version: u64) {
    let archive = Archive::open(&place.path("a"), Access::Write).expect("opened");
    let platter = archive.catalogue().platters().expect("listed")[0].place.platter;
    let marker = FoundVersion::Archived(ArchivedVersion {
        id: VersionId::new(version, [version as u8; 10]),
        record: ObjectRecord {
            name: ObjectName(name.into()),
            version,
            kind: Kind::DeletionMarker,
            size: 0,
            sha256: Digest([0; 32]),
            modified: None,
            mode: None,
            created_ms: version,
            attributes: Attributes([("owner".to_owned(), b"someone".to_vec()), ("raw".to_owned(), vec![0xff])].into()),
        },
        sealed: false,
        stored_bytes: 0,
        extents: vec![Extent { shard: 0, object_offset: 0, platter, offset: 0, bytes: 0 }],
    });
    archive.catalogue().adopt_versions(&[marker]).expect("adopted");
}

fn with_deleted_names() -> Sandbox {
    let place = Sandbox::new(1, &[]);
    for name in ["notes", "folder", "tree/gone", "tree/kept"] {
        place.write(name, name);
        place.good(&["put", name, "--name", name]);
    }
    place.good(&["flush"]);
    for name in ["notes", "folder", "tree/gone"] {
        mark(&place, name, 2);
    }
    place.write("below", b"below");
    place.good(&["put", "below", "--name", "folder/below"]);
    place
}

#[test]
fn a_deleted_name_is_listed_with_all_versions_only() {
    let place = with_deleted_names();
    assert_eq!(place.good(&["ls"]).text(), "folder/below\ntree/kept\n");
    assert_eq!(place.good(&["ls", "tree"]).text(), "tree/kept\n");
    assert_eq!(place.good(&["ls", "folder"]).text(), "folder/below\n");
    place.run(&["ls", "notes"]).fails_with(1, "notes was deleted; `fulgurite ls --versions` shows its earlier versions");
    place.run(&["ls", "nothing"]).fails_with(1, "nothing is stored as nothing");
    assert_eq!(place.good(&["ls", "--versions", "notes"]).text(), "    2  notes  (deletion marker)\n    1  notes\n");
    let long = place.good(&["ls", "--versions", "--long", "tree/gone"]).text();
    assert!(long.starts_with("x ") && long.lines().next().is_some_and(|line| line.ends_with("tree/gone  (deletion marker)")), "{long}");
    let rows = place.good(&["ls", "--versions", "--json", "notes"]).json_lines();
    assert_eq!((&rows[0]["kind"], &rows[1]["kind"]), (&"deletion-marker".into(), &"file".into()));
    assert_eq!(rows[0]["attributes"], serde_json::json!({ "owner": "someone", "raw": [255] }));
    assert_eq!(rows[1].get("attributes"), None);
}

#[test]
fn a_deleted_name_is_not_restored_and_its_earlier_versions_are() {
    let place = with_deleted_names();
    place.run(&["get", "notes", "out"]).fails_with(1, "notes was deleted; `fulgurite ls --versions` shows its earlier versions");
    place.run(&["get", "notes", "-", "--version", "2"]).fails_with(1, "version 2 of notes is a deletion marker");
    assert!(!place.path("out").exists());
    assert_eq!(place.good(&["get", "notes", "-", "--version", "1"]).out, b"notes");
    place.good(&["get", "tree", "out"]);
    assert!(place.read("out/kept") == b"tree/kept" && !place.path("out/gone").exists());
    place.good(&["get", "folder", "also"]);
    assert_eq!(place.read("also/below"), b"below", "objects below a deleted name exist");
    place.good(&["get", "--all", "everything"]);
    assert!(!place.path("everything/notes").exists());
}

#[test]
fn removing_a_deletion_marker_brings_the_name_back_and_removing_the_name_takes_all() {
    let place = with_deleted_names();
    place.good(&["rm", "notes", "--version", "2"]);
    assert_eq!(place.good(&["get", "notes", "-"]).out, b"notes");
    assert!(place.good(&["rm", "tree/gone"]).text().contains("Removed 2 versions."));
    place.run(&["ls", "--versions", "tree/gone"]).fails_with(1, "nothing is stored as tree/gone");
    place.run(&["get", "tree/gone"]).fails_with(1, "nothing is stored as tree/gone");
}
