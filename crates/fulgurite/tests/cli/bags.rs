//! Bags that come in, go out, and are listed for an audit.

use std::fs;

use crate::support::Sandbox;

fn bag(place: &Sandbox, folder: &str, content: &str) {
    place.write(format!("{folder}/data/file"), content.as_bytes());
    place.write(format!("{folder}/bagit.txt"), b"BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n");
    place.shell(&format!("cd {folder} && sha256sum data/* > manifest-sha256.txt"));
}

#[test]
fn every_field_of_a_valid_bag_that_is_imported_is_exported() {
    let place = Sandbox::new(5, &[]);
    bag(&place, "bag", "content");
    let fields = "Contact\tName: a\tb\nOdd\u{1}Label: c\nContact\tName: d\n";
    place.write("bag/bag-info.txt", fields.as_bytes());
    place.good(&["import", "bagit", "bag"]);
    place.good(&["export", "bagit", "bag", "--into", "out"]);
    let written = fs::read_to_string(place.path("out/bag-info.txt")).expect("text");
    assert!(written.starts_with(fields), "{written:?}");
}

#[test]
fn two_bags_with_one_folder_name_are_not_one_inventory() {
    let place = Sandbox::empty();
    bag(&place, "one/bag", "a");
    bag(&place, "two/bag", "b");
    bag(&place, "two/other", "b");
    place.good(&["audit", "init"]);
    place.good(&["audit", "node", "add", "node", "one"]);
    let ran = place.run(&["audit", "inventory", "bagit", "one/bag", "two/bag"]);
    ran.fails_with(2, "the files of one/bag and two/bag would get the same names");
    place.good(&["audit", "inventory", "bagit", "one/bag", "two/other"]);
}
