//! Imports and exports of OCFL objects that are damaged, interrupted, doubled or hidden.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use crate::support::Sandbox;

/// An archive with the folder `k`, exported as the object `k` into the storage root `root`.
fn exported() -> Sandbox {
    let place = Sandbox::new(5, &[]);
    place.write("k/a", "one");
    place.write("k/b", "two");
    place.good(&["put", "k"]);
    place.good(&["export", "ocfl", "k", "--into", "root"]);
    place
}

/// The folder of the only object in `root`.
fn object(place: &Sandbox) -> PathBuf {
    let found = place.shell("find root -name '0=ocfl_object_*'").text();
    let found: Vec<&str> = found.lines().collect();
    assert_eq!(found.len(), 1, "{found:?}");
    place.path(found[0]).parent().expect("a folder").to_owned()
}

#[test]
fn an_export_claims_nothing_of_damaged_content_in_the_object() {
    let place = exported();
    let object = object(&place);
    let content = object.join("v1/content/a");
    let export = |says: &str| {
        place.run(&["export", "ocfl", "k", "--into", "root", "--premis", "out.xml"]).fails_with(1, says);
        assert!(!place.path("out.xml").exists() && !object.join("v2").exists());
    };
    fs::write(&content, "One").expect("written");
    // Nothing has changed in the archive.
    export("v1/content/a\" does not have the digest");
    // A new version would rely on the old file.
    place.write("k/c", "three");
    place.good(&["put", "k"]);
    export("v1/content/a\" does not have the digest");
    fs::remove_file(&content).expect("removed");
    export("v1/content/a\" is missing");
    fs::write(&content, "one").expect("written");
    let exported = place.good(&["export", "ocfl", "k", "--into", "root"]);
    assert!(exported.text().contains("as v2"), "{exported:?}");
}

#[test]
fn an_export_goes_on_after_a_crash_between_any_two_renames() {
    let place = exported();
    let object = object(&place);
    let relative = object.strip_prefix(place.path("root")).expect("below the root").to_str().expect("UTF-8").to_owned();
    place.shell("cp -r root before");
    place.write("k/c", "three");
    place.good(&["put", "k"]);
    place.good(&["export", "ocfl", "k", "--into", "root"]);
    place.shell("mv root after");
    let key = place.shell("printf k | sha256sum").text()[..64].to_owned();
    // The order in which a version is published.
    let renamed = ["v2", "inventory.json", "inventory.json.sha512"];
    for done in 0..=renamed.len() {
        place.shell("rm -rf root && cp -r before root");
        let staging = place.path("root/extensions/fulgurite-staging").join(&key);
        fs::create_dir_all(staging.join("before")).expect("a folder");
        fs::create_dir_all(staging.join("next")).expect("a folder");
        fs::write(staging.join("journal"), format!("{relative}\nv2\ninventory.json.sha512\n")).expect("written");
        for file in &renamed[1..] {
            fs::copy(object.join(file), staging.join("before").join(file)).expect("copied");
        }
        for (number, name) in renamed.iter().enumerate() {
            let to = if number < done { object.join(name) } else { staging.join("next").join(name) };
            let copied = place.shell(&format!("cp -rT after/'{relative}/{name}' '{}'", to.display()));
            assert_eq!(copied.status, 0, "{copied:?}");
        }
        let again = place.good(&["export", "ocfl", "k", "--into", "root"]).text();
        let expected = if done == renamed.len() { "is unchanged" } else { "as v2" };
        assert!(again.contains(expected), "after {done} renames: {again}");
        assert!(!place.path("root/extensions/fulgurite-staging").exists());
        let imported = place.good(&["import", "ocfl", "root", "--to", &format!("again{done}")]);
        assert!(imported.text().contains("Imported 1 object"), "{imported:?}");
    }
}

#[test]
fn two_objects_with_one_identifier_are_not_mixed() {
    let place = exported();
    let object = object(&place);
    let object = object.strip_prefix(place.path("")).expect("below the folder").to_str().expect("UTF-8").to_owned();
    place.shell("mkdir p q && cp -r root p/root && cp -r root q/root");
    let twice = place.run(&["import", "ocfl", "p/root", "q/root", "--json"]);
    assert_eq!((twice.status, &twice.json()["imported"], &twice.json()["refused"]), (1, &1.into(), &1.into()), "{twice:?}");
    let why = twice.json()["refusals"][0].to_string();
    let (first, second) = (object.replacen("root", "p/root", 1), object.replacen("root", "q/root", 1));
    assert!(why.contains(&first) && why.contains(&second) && why.contains("imported as root/k, too"), "{why}");
    // In one storage root.
    place.shell(&format!("mkdir p/root/zz && cp -r '{object}' p/root/zz/copy"));
    place.run(&["import", "ocfl", "p/root", "--to", "x"]).fails_with(1, "p/root/zz/copy");
    assert_eq!(place.run(&["ls", "x/k"]).text().lines().count(), place.run(&["ls", "root/k"]).text().lines().count());
    // One below the name of another.
    place.write("other/a", "other");
    place.good(&["put", "other"]);
    place.good(&["export", "ocfl", "other", "--into", "single", "--object", "root"]);
    let single = place.shell("dirname $(find single -name '0=ocfl_object_*')").text();
    place.good(&["rm", "-r", "root"]);
    place.run(&["import", "ocfl", single.trim(), "q/root"]).fails_with(1, "imported as root/k, too");
    place.good(&["rm", "-r", "root"]);
    place.run(&["import", "ocfl", "q/root", single.trim()]).fails_with(1, "imported as root, too");
    // Each with a name of its own.
    place.good(&["import", "ocfl", "q/root", "--to", "y"]);
}

#[test]
fn a_symbolic_link_in_a_storage_root_is_named() {
    let place = exported();
    place.good(&["audit", "init"]);
    place.good(&["audit", "node", "add", "n", "root"]);
    place.shell("mkdir elsewhere && cp -r root/[0-9a-f][0-9a-f]* elsewhere");
    symlink(place.path("elsewhere"), place.path("root/zz")).expect("a link");
    place.run(&["import", "ocfl", "root", "--to", "x"]).fails_with(1, "root: \"zz\" is a symbolic link, so objects may be missed");
    place
        .run(&["audit", "inventory", "ocfl", "root", "--node", "n"])
        .fails_with(1, "root: \"zz\" is a symbolic link, so objects may be missed");
    fs::remove_file(place.path("root/zz")).expect("removed");
    place.good(&["import", "ocfl", "root", "--to", "x"]);
}

#[test]
fn an_object_with_too_long_a_logical_path_is_refused_as_a_whole() {
    let place = exported();
    let object = object(&place);
    let text = fs::read_to_string(object.join("inventory.json")).expect("an inventory");
    let changed = text.replace("\"a\"", &format!("\"{}\"", "n".repeat(1_100_000)));
    assert_ne!(text, changed);
    for folder in [object.clone(), object.join("v1")] {
        fs::write(folder.join("inventory.json"), &changed).expect("written");
        let folder = folder.display();
        place.shell(&format!("cd '{folder}' && sha512sum inventory.json | sed 's/  / /' > inventory.json.sha512"));
    }
    place.run(&["import", "ocfl", "root", "--to", "x"]).fails_with(1, "a logical path is too long to be stored: the name has 11000");
    place.run(&["ls", "x"]).fails_with(1, "");
    place.good(&["flush"]);
}

#[test]
fn what_an_import_or_export_leaves_undone_is_said() {
    let place = exported();
    let unchanged = place.good(&["export", "ocfl", "k", "--into", "root", "--fixity", "md5"]);
    assert!(unchanged.text().contains("--fixity had no effect"), "{unchanged:?}");
    let head = object(&place).join("extensions/0005-mutable-head/head/content/r1");
    fs::create_dir_all(&head).expect("folders");
    fs::write(head.join("draft"), "draft").expect("written");
    let imported = place.good(&["import", "ocfl", "root", "--to", "x"]);
    assert!(imported.err.contains("it has a mutable head"), "{imported:?}");
}

#[test]
fn an_object_is_refused_once_however_many_of_its_files_could_not_be_stored() {
    let place = Sandbox::new(5, &[]);
    let settings = String::from_utf8(place.read("a/fulgurite.toml")).expect("text");
    for id in ["large", "small"] {
        let bytes = if id == "large" { 20 << 20 } else { 1 };
        for name in ["a", "b"] {
            place.write(format!("{id}/{name}"), vec![name.as_bytes()[0]; bytes]);
        }
    }
    place.good(&["put", "large", "small"]);
    for id in ["large", "small"] {
        place.good(&["export", "ocfl", id, "--into", "root"]);
    }
    place.good(&["flush"]);
    let limited = settings.replace("# limit_mib = 100000", "limit_mib = 16");
    assert_ne!(settings, limited);
    place.write("a/fulgurite.toml", limited);
    let imported = place.run(&["import", "ocfl", "root", "--to", "x", "--flush", "--json"]);
    let report = imported.json();
    assert_eq!((&report["failed"], &report["imported"], &report["refused"]), (&2.into(), &1.into(), &1.into()), "{imported:?}");
}
