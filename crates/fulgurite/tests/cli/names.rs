//! Names from anywhere.

use std::ffi::OsStr;
use std::fs;
use std::io::Cursor;

use fulgurite_archive::watch::Unwatched;
use fulgurite_archive::{Access, Archive, Source};
use fulgurite_domain::ObjectName;

use crate::support::{Place, name};

#[test]
fn names_of_a_hostile_archive_do_not_lead_out_of_the_folder() {
    let place = Place::new(1, &[]);
    let victim = place.path("victim").into_os_string().into_string().expect("text");
    // A command line does not take such names, but an archive made elsewhere may have them.
    let names = ["../evil", "/evil-absolute", "good/../../evil", "a/..", "..", "good/file", &victim, "./dot", "nul\0evil"];
    let archive = Archive::open(&place.path("a"), Access::Write).expect("it opens");
    let source =
        |name: &str| Source::Stream { reader: Box::new(Cursor::new(b"evil".to_vec())), name: ObjectName(name.as_bytes().to_vec()) };
    archive.put(names.map(source).into_iter(), &Unwatched).expect("put");
    drop(archive);
    let ran = place.run(&["get", "--all", "jail/out"]);
    ran.fails_with(1, "its name would lead out of the folder");
    assert_eq!(place.read("jail/out/good/file"), b"evil");
    assert_eq!(place.read("jail/out/dot"), b"evil");
    assert!(place.path("jail/out/evil-absolute").is_file(), "an absolute name is one below the folder");
    assert_eq!(fs::read_dir(place.path("jail")).expect("there").count(), 1, "only the folder asked for");
    assert!(!place.path("victim").exists() && !place.path("evil").exists());
    // One by one, and by their names.
    place.run(&["get", "../evil"]).fails_with(0, "");
    assert!(place.path("evil").is_file(), "the last part of the name, in the current folder");
    place.run(&["get", "a/.."]).fails_with(1, "say where to put it");
}

#[test]
fn a_link_that_was_stored_is_no_way_out() {
    let place = Place::new(1, &[]);
    fs::create_dir(place.path("outside")).expect("made");
    let outside = place.path("outside").into_os_string().into_string().expect("text");
    std::os::unix::fs::symlink(outside, place.path("link")).expect("a link");
    place.good(&["put", "link"]);
    place.write("file", b"evil");
    place.good(&["put", "file", "--name", "link/evil"]);
    // Whichever of the two comes first, the other can't be restored.
    place.run(&["get", "--all", "out"]).fails_with(1, "1 object was not restored");
    assert_eq!(fs::read_dir(place.path("outside")).expect("there").count(), 0);
}

#[test]
fn odd_names_are_listed_harmlessly_and_found_by_their_bytes() {
    let place = Place::new(1, &[]);
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
fn a_name_that_is_not_text_has_its_bytes_in_json_and_any_other_is_as_it_is() {
    use std::os::unix::ffi::OsStringExt;
    let place = Place::new(1, &[]);
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
