//! Platter files under wrong names, and sets that can't be repaired: what `verify` and `scrub` say
//! and do.

use std::fs;
use std::path::Path;

use crate::support::{Platter, Sandbox, noise};

/// Two sets of 2+1 on three stores, with four files each in `one` and `two`, and the platters of
/// each set by store.
fn with_two_sets() -> (Sandbox, Vec<Platter>, Vec<Platter>) {
    let place = Sandbox::new(3, &["--set=2+1", "--clear-text"]);
    for name in ["one", "two"] {
        (0..4).for_each(|seed| place.write(format!("{name}/{seed}"), noise(seed, 300_000)));
        place.good(&["put", name, "--flush"]);
    }
    let mut first = place.platters();
    let mut second = first.split_off(3);
    // Which store has which position depends on the free space that each has at the moment.
    [&mut first, &mut second].into_iter().for_each(|set| set.sort_by(|a, b| a.store.cmp(&b.store)));
    (place, first, second)
}

fn exchange(one: &Path, other: &Path) {
    let third = one.with_extension("third");
    for (from, to) in [(one, third.as_path()), (other, one), (&third, other)] {
        fs::rename(from, to).expect("renamed");
    }
}

#[test]
fn files_with_exchanged_names_are_named_and_neither_overwritten_nor_called_lost() {
    let (place, first, second) = with_two_sets();
    exchange(&first[0].file, &second[0].file);
    // What is left of each set doesn't suffice without the exchanged platters.
    fs::rename(place.path("d2/platters"), place.path("platters of d2")).expect("renamed");
    fs::create_dir(place.path("d2/platters")).expect("a folder");
    let before = place.fingerprint(&["d1", "d3"]);
    for command in [&["verify"][..], &["scrub"]] {
        let ran = place.run(command);
        assert_eq!(ran.status, 1, "{ran:?}");
        let said = format!("{}{}", ran.text(), ran.err);
        assert!(said.contains(&format!("platter {} on store d1: it is platter {}", first[0].id, second[0].id)), "{said}");
        assert!(said.contains("8 versions can't be read now") && !said.contains("lost:"), "{said}");
        assert!(!said.contains("redundancy is reduced"), "{said}");
    }
    place.run(&["recover", &first[0].id]).fails_with(1, "is taken by a file on store d1: it is platter");
    assert_eq!(place.fingerprint(&["d1", "d3"]), before);
    exchange(&first[0].file, &second[0].file);
    place.good(&["scrub"]);
    place.good(&["verify", "--objects"]);
}

#[test]
fn a_scrub_does_not_overwrite_a_platter_of_another_archive() {
    let (place, first, _) = with_two_sets();
    place.init("b", "e", 2, &["--set=1+1"]);
    place.good(&["-A", "b", "put", "one", "--flush"]);
    let foreign = fs::read_dir(place.path("e1/platters")).expect("platters").next().expect("one").expect("an entry").path();
    let kept = fs::read(&foreign).expect("readable");
    fs::rename(foreign, &first[1].file).expect("renamed");
    for command in [["verify"], ["scrub"]] {
        let ran = place.run(&command);
        assert!(ran.status == 1 && ran.text().contains("move it to a store of that archive"), "{ran:?}");
    }
    assert!(fs::read(&first[1].file).expect("readable") == kept);
    fs::remove_file(&first[1].file).expect("removed");
    place.good(&["scrub"]);
    place.good(&["verify", "--objects"]);
}

#[test]
fn a_copy_of_a_whole_platter_under_another_name_is_replaced_and_the_only_one_is_not() {
    let (place, first, second) = with_two_sets();
    let original = fs::read(&second[0].file).expect("readable");
    fs::write(&first[1].file, &original).expect("written");
    place.good(&["scrub"]);
    place.good(&["verify", "--objects"]);
    fs::write(&first[1].file, &original).expect("written");
    fs::write(&second[0].file, &original[..original.len() / 2]).expect("written");
    let ran = place.run(&["recover", &first[1].id]);
    ran.fails_with(1, "is taken by a file on store d2");
    assert!(fs::read(&first[1].file).expect("readable") == original);
    // Once the other one is recovered, it is only a copy.
    place.good(&["recover", &second[0].id]);
    place.good(&["recover", &first[1].id]);
    place.good(&["verify", "--objects"]);
}

#[test]
fn a_copy_under_the_name_of_a_removed_platter_is_kept() {
    let (place, first, second) = with_two_sets();
    // On its own store it is damaged, and on another one is something else of the same name.
    fs::write(&first[0].file, b"damaged").expect("written");
    let misnamed = place.path(format!("d2/platters/{}.platter", first[0].id));
    fs::rename(&second[1].file, &misnamed).expect("renamed");
    place.run(&["scrub"]);
    assert!(fs::read(&first[0].file).expect("readable").len() > 7, "it is recovered");
    assert!(misnamed.exists(), "a scrub removes copies of what it wrote, and nothing else");
}

#[test]
fn tables_that_can_be_read_again_are_not_called_lost() {
    let (place, first, second) = with_two_sets();
    let exchange_all = || (0..2).for_each(|index| exchange(&first[index].file, &second[index].file));
    exchange_all();
    fs::remove_file(place.path("a/catalogue.db")).expect("removed");
    place.run(&["catalogue", "rebuild"]).fails_with(1, "can't read the file table");
    assert!(place.run(&["verify"]).err.contains("what is on it is unknown"));
    exchange_all();
    let ran = place.run(&["verify"]);
    ran.fails_with(1, "its file table can be read again; `fulgurite catalogue rebuild` lists what is on it");
    assert!(!ran.err.contains("lost:"), "{ran:?}");
    place.good(&["catalogue", "rebuild"]);
    place.good(&["verify", "--objects"]);
}

/// What `verify` says of a set that a scrub can't repair.
fn assert_irreparable(place: &Sandbox, set: &str, why: &str, platters: u64) {
    let ran = place.run(&["verify"]);
    assert!(ran.status == 1 && ran.text().contains(why), "{ran:?}");
    assert!(ran.text().contains("can't be recovered, see above") && !ran.text().contains("recovers those"), "{ran:?}");
    let report = place.run(&["verify", "--json"]).json();
    assert_eq!((&report["irreparable"][0]["set"], &report["irreparable"][0]["platters"]), (&set.into(), &platters.into()), "{report}");
}

fn set_of(place: &Sandbox, platter: &Platter) -> String {
    let rows = place.run(&["platters", "--json"]).json_lines();
    let row = rows.into_iter().find(|row| row["platter"] == *platter.id).expect("listed");
    row["set"].as_str().expect("text").to_owned()
}

#[test]
fn a_set_without_a_header_is_not_promised_to_be_recovered() {
    let (place, first, _) = with_two_sets();
    for Platter { file, .. } in &first {
        let mut bytes = fs::read(file).expect("readable");
        let magic = bytes[..8].to_vec();
        let copies: Vec<usize> = (0..bytes.len() - 8).filter(|&at| bytes[at..at + 8] == magic).collect();
        copies.into_iter().for_each(|at| bytes[at..at + 64].fill(0));
        fs::write(file, bytes).expect("written");
    }
    let set = set_of(&place, &first[0]);
    assert_irreparable(&place, &set, "none of them has a good header", 3);
    // Its objects can be read and stored again, as the message says.
    place.good(&["get", "one", "copy"]);
    place.good(&["put", "copy", "--name", "one", "--again", "--flush"]);
    place.run(&["catalogue", "forget", "--set", &set]).fails_with(1, "versions are on it");
    (0..4).for_each(|seed| _ = place.good(&["rm", &format!("one/{seed}"), "--version", "1"]));
    place.good(&["catalogue", "forget", "--set", &set]);
    fs::remove_file(place.path("a/catalogue.db")).expect("removed");
    place.run(&["catalogue", "rebuild"]);
    assert_eq!(place.good(&["get", "one/1", "-"]).out, noise(1, 300_000));
}

#[test]
fn a_platter_without_a_store_to_go_to_is_not_promised_to_be_recovered() {
    let (place, first, _) = with_two_sets();
    let settings = String::from_utf8(place.read("a/fulgurite.toml")).expect("text");
    let retired = settings.rfind("[[store]]").expect("stores");
    place.write("a/fulgurite.toml", settings[..retired].replace("information = 2", "information = 1"));
    assert_irreparable(&place, &set_of(&place, &first[0]), "`fulgurite store add` adds a store", 1);
    fs::create_dir(place.path("d4")).expect("a folder");
    place.good(&["store", "add", "d4"]);
    assert!(place.run(&["verify"]).text().contains("`fulgurite scrub` recovers those platters"));
    place.good(&["scrub"]);
    place.good(&["verify"]);
}

#[test]
fn a_lost_set_that_no_object_needs_can_be_given_up_and_its_removals_are_written_again() {
    let (place, first, _) = with_two_sets();
    place.good(&["rm", "-r", "one"]);
    place.good(&["flush"]);
    let known: Vec<String> = first.iter().map(|platter| platter.id.clone()).collect();
    for file in first.iter().map(|platter| &platter.file) {
        fs::remove_file(file).expect("removed");
    }
    let set = set_of(&place, &first[0]);
    assert_irreparable(&place, &set, &format!("`fulgurite catalogue forget --set {set}` gives it up"), 3);
    place.good(&["catalogue", "forget", "--set", &set]);
    place.good(&["verify"]);
    assert!(place.platters().iter().all(|platter| !known.contains(&platter.id)));
    place.run(&["get", "one/1", "-"]).fails_with(1, "nothing is stored");
}
