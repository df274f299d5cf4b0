//! Hostile and odd names.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::Cursor;
use std::path::PathBuf;

use fulgurite_archive::watch::Unwatched;
use fulgurite_archive::{Access, Archive, Source};
use fulgurite_domain::ObjectName;

use crate::support::{Sandbox, Thing, name, tree};

#[test]
fn names_of_a_hostile_archive_do_not_lead_out_of_the_folder() {
    let place = Sandbox::new(1, &[]);
    let victim = place.path("victim").into_os_string().into_string().expect("text");
    // The command line rejects such names, but an archive made elsewhere may contain them.
    let names = ["../evil", "/evil-absolute", "good/../../evil", "a/..", "..", "good/file", &victim, "./dot", "nul\0evil"];
    let archive = Archive::open(&place.path("a"), Access::Write).expect("it opens");
    let source =
        |name: &str| Source::Stream { reader: Box::new(Cursor::new(b"evil".to_vec())), name: ObjectName(name.as_bytes().to_vec()) };
    archive.put(names.map(source).into_iter(), &Unwatched).expect("put");
    drop(archive);
    let ran = place.good(&["get", "--all", "jail/out", "--json"]);
    assert_eq!(place.read("jail/out/good/file"), b"evil");
    let renamed: BTreeMap<String, PathBuf> = ran.json()["renamed"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|value| (value["name"].as_str().expect("text").to_owned(), place.path(value["path"].as_str().expect("text"))))
        .collect();
    assert_eq!(renamed.len(), names.len() - 1, "{ran:?}");
    for (name, path) in &renamed {
        assert!(path.starts_with(place.path("jail/out")) && fs::read(path).expect("restored") == b"evil", "{name}");
        assert!(ran.err.contains("renamed"), "{ran:?}");
    }
    assert_eq!(tree(&place.path("jail/out")).len(), names.len(), "each has its own file");
    assert_eq!(fs::read_dir(place.path("jail")).expect("there").count(), 1, "only the folder asked for");
    assert!(!place.path("evil").exists());
    assert_eq!(
        fs::read_dir(place.path("")).expect("there").filter(|entry| entry.as_ref().is_ok_and(|e| e.file_name() == "victim")).count(),
        0
    );
    // Also one by one, by name.
    place.run(&["get", "../evil"]).fails_with(0, "");
    assert!(place.path("evil").is_file(), "the last part of the name, in the current folder");
    place.run(&["get", "a/.."]).fails_with(1, "a/.. is not a valid file name: give a destination");
}

/// Puts objects under names that no file can have, as S3 clients may.
fn put_names(place: &Sandbox, objects: &[(&[u8], &[u8])]) {
    let archive = Archive::open(&place.path("a"), Access::Write).expect("it opens");
    let source = |(name, content): &(&[u8], &[u8])| Source::Stream {
        reader: Box::new(Cursor::new(content.to_vec())),
        name: ObjectName(name.to_vec()),
    };
    archive.put(objects.iter().map(source).collect::<Vec<_>>().into_iter(), &Unwatched).expect("put");
}

fn contents(place: &Sandbox, folder: &str) -> BTreeMap<String, Option<Vec<u8>>> {
    tree(&place.path(folder))
        .into_iter()
        .map(|(path, thing)| match thing {
            Thing::File { content, .. } => (path.display().to_string(), Some(content)),
            _ => (path.display().to_string(), None),
        })
        .collect()
}

#[test]
fn a_file_that_became_a_folder_is_restored_beside_it() {
    let place = Sandbox::new(1, &[]);
    place.write("tree/a", b"once a file");
    place.write("tree/a.txt", b"between the two");
    place.write("tree/b", b"other");
    place.good(&["put", "tree"]);
    fs::remove_file(place.path("tree/a")).expect("removed");
    place.write("tree/a/b", b"below");
    place.good(&["put", "tree", "--flush"]);
    let expected = [("a.txt", "between the two"), ("a/b", "below"), ("a~file", "once a file"), ("b", "other")];
    let expected: BTreeMap<_, _> = expected.map(|(name, content)| (name.to_owned(), Some(content.as_bytes().to_vec()))).into();
    for options in [&["get", "tree", "out", "--json"][..], &["get", "tree", "out", "--json", "--force"]] {
        let ran = place.good(options);
        assert_eq!(contents(&place, "out"), expected);
        let renamed = &ran.json()["renamed"];
        assert_eq!(renamed[0]["name"], "tree/a", "{renamed}");
        assert_eq!(renamed[0]["path"], "out/a~file", "{renamed}");
    }
    place
        .good(&["get", "tree", "again"])
        .fails_with(0, "restored under another name: tree/a (version 1) is again/a~file: it is a folder too");
    // The plain name means the file, and with a slash the folder.
    let ran = place.good(&["get", "tree/a", "-"]);
    assert_eq!(ran.out, b"once a file");
    ran.fails_with(0, "tree/a is also a folder; `fulgurite get tree/a/`");
    place.good(&["get", "tree/a/", "below"]);
    assert_eq!(contents(&place, "below"), BTreeMap::from([("b".to_owned(), Some(b"below".to_vec()))]));
}

#[test]
fn a_changed_name_never_takes_the_place_of_another_object() {
    let place = Sandbox::new(1, &[]);
    put_names(&place, &[(b"a", b"1"), (b"a/x", b"2"), (b"a~file", b"3"), (b"a~file~2/y", b"4"), (b"b//c", b"5"), (b"b/c", b"6")]);
    for force in [&["get", "--all", "out"][..], &["get", "--all", "out", "--force"]] {
        place.good(force);
        let found = contents(&place, "out");
        assert_eq!(found.len(), 6, "{found:?}");
        for (name, content) in [("a/x", b"2"), ("a~file", b"3"), ("a~file~2/y", b"4"), ("a~file~3", b"1"), ("b/c", b"6")] {
            assert_eq!(found.get(name), Some(&Some(content.to_vec())), "{name} in {found:?}");
        }
        assert_eq!(found.get("b/~e3b0c44298fc1c149afbf4c8996fb924/c"), Some(&Some(b"5".to_vec())), "{found:?}");
    }
}

#[test]
fn markers_of_s3_clients_are_folders() {
    let place = Sandbox::new(1, &[]);
    put_names(
        &place,
        &[(b"bucket/", b""), (b"bucket/empty/", b""), (b"bucket/full/", b""), (b"bucket/full/x", b"1"), (b"bucket/odd/", b"2")],
    );
    let ran = place.good(&["get", "bucket", "out", "--json"]);
    assert_eq!(ran.json()["objects"], 5, "{ran:?}");
    let found = contents(&place, "out");
    assert_eq!(found.len(), 3, "{found:?}");
    assert_eq!((&found["empty"], &found["full/x"]), (&None, &Some(b"1".to_vec())));
    assert!(found.iter().any(|(name, content)| name.starts_with("odd/~") && *content == Some(b"2".to_vec())), "{found:?}");
    place.good(&["get", "--all", "everything"]);
    assert!(place.path("everything/bucket/empty").is_dir());
}

#[test]
fn a_name_that_is_too_long_for_a_file_is_cut() {
    let place = Sandbox::new(1, &[]);
    let long = |end: &str| ["ü".repeat(200), end.to_owned()].concat();
    let (one, two) = (long("1"), long("2"));
    let nested = format!("{one}/deep/{two}");
    put_names(&place, &[(one.as_bytes(), b"1"), (two.as_bytes(), b"2"), (nested.as_bytes(), b"3")]);
    for _ in 0..2 {
        let ran = place.good(&["get", "--all", "out", "--json", "--force"]);
        assert_eq!(ran.json()["renamed"].as_array().map(Vec::len), Some(3), "{ran:?}");
        let found = contents(&place, "out");
        let mut all: Vec<_> = found.values().flatten().cloned().collect();
        all.sort();
        assert_eq!(all, [b"1", b"2", b"3"], "{found:?}");
    }
    place.good(&["get", &two, "--quiet"]);
    let restored = fs::read_dir(place.path("")).expect("there").filter_map(|entry| entry.expect("there").file_name().into_string().ok());
    assert_eq!(restored.filter(|name| name.starts_with('ü')).count(), 1);
}

#[test]
fn a_stored_link_does_not_lead_out_of_the_destination() {
    let place = Sandbox::new(1, &[]);
    fs::create_dir(place.path("outside")).expect("made");
    let outside = place.path("outside").into_os_string().into_string().expect("text");
    std::os::unix::fs::symlink(outside, place.path("link")).expect("a link");
    place.good(&["put", "link"]);
    place.write("file", b"evil");
    place.good(&["put", "file", "--name", "link/evil"]);
    place
        .good(&["get", "--all", "out"])
        .fails_with(0, "restored under another name: link (version 1) is out/link~link: it is a folder too");
    assert_eq!(fs::read_dir(place.path("outside")).expect("there").count(), 0);
    assert!(place.path("out/link~link").is_symlink() && !place.path("out/link").is_symlink());
    assert_eq!(place.read("out/link/evil"), b"evil");
}

#[test]
fn odd_names_are_escaped_in_listings_and_found_by_their_bytes() {
    let place = Sandbox::new(1, &[]);
    let odd = name(b"odd \xff\x1b[31m\n");
    place.write(odd, b"content");
    place.good(&[name(b"put"), odd]);
    place.good(&["flush"]);
    assert_eq!(place.good(&["ls"]).text(), "odd \\xff\\u{1b}[31m\\n\n");
    let row = place.good(&["ls", "--json"]).json();
    let bytes: Vec<u64> = row["name_bytes"].as_array().expect("bytes").iter().map(|byte| byte.as_u64().expect("a byte")).collect();
    assert_eq!(bytes, b"odd \xff\x1b[31m\n".map(u64::from));
    assert_eq!(place.good(&[name(b"get"), odd, name(b"-")]).out, b"content");
    place.good(&[name(b"rm"), odd]);
    assert_eq!(place.good(&["ls"]).text(), "");
}

#[test]
fn json_contains_the_bytes_of_names_that_are_not_utf_8() {
    use std::os::unix::ffi::OsStringExt;
    let place = Sandbox::new(1, &[]);
    let folder = place.path("in");
    fs::create_dir(&folder).expect("made");
    let names: [&[u8]; 3] = [b"line\nbreak", br"line\nbreak", b"odd\xff"];
    for name in names {
        fs::write(folder.join(std::ffi::OsString::from_vec(name.to_vec())), name).expect("written");
    }
    place.good(&["put", "in"]);
    let mut found: Vec<Vec<u8>> = place
        .good(&["ls", "--json"])
        .json_lines()
        .into_iter()
        .filter(|value| value["kind"] == "file")
        .map(|value| match value.get("name_bytes") {
            Some(bytes) => serde_json::from_value(bytes.clone()).expect("bytes"),
            None => value["name"].as_str().expect("text").as_bytes().to_vec(),
        })
        .collect();
    found.sort();
    let mut expected: Vec<Vec<u8>> = names.iter().map(|name| [b"in/", *name].concat()).collect();
    expected.sort();
    assert_eq!(found, expected);
    let odd = std::ffi::OsString::from_vec(b"in/odd\xff".to_vec());
    assert!(place.good(&[OsStr::new("get"), &odd, OsStr::new("--json")]).json()["path"].is_string());
}

#[test]
fn an_export_names_all_names_that_it_can_not_write_before_it_writes() {
    let place = Sandbox::new(5, &[]);
    let long = format!("b/{}", "x".repeat(256));
    let never = ["b/a//b", "b/../x", "b//x", "b/y/.", "b/file/below"];
    let mut objects: Vec<(&[u8], &[u8])> = vec![(b"b/file", b"1"), (b"b/file-2", b"2"), (b"b/good", b"3")];
    objects.extend(never.iter().chain([&&*long]).map(|name| (name.as_bytes(), &b"x"[..])));
    put_names(&place, &objects);
    for (format, odd) in [("bagit", 6), ("ocfl", 5)] {
        let ran = place.run(&["export", format, "b", "--into", "out"]);
        assert_eq!(ran.status, 1, "{ran:?}");
        for name in never {
            assert!(ran.err.contains(&format!("can't be exported: {name}: ")), "{name}: {ran:?}");
        }
        assert_eq!(ran.err.contains("longer than 255 bytes"), format == "bagit");
        assert!(ran.err.contains(&format!("because {odd} objects below b can't be")), "{ran:?}");
        let mut entries = fs::read_dir(place.path("")).expect("there").map(|entry| entry.expect("an entry").file_name());
        assert!(!entries.any(|name| name.to_string_lossy().contains("out")), "nothing was written");
    }
}
