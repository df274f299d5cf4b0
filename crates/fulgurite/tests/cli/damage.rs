//! Missing and damaged platters.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;

use crate::support::{Sandbox, noise, tree};

fn fill(place: &Sandbox) {
    for index in 0..12 {
        place.write(format!("tree/{index:02}"), noise(index, 250_000));
    }
    place.good(&["put", "tree", "--flush"]);
}

#[test]
fn fixity_tells_an_object_that_is_lost_from_one_that_can_lose_no_more_platters() {
    let place = Sandbox::new(2, &["--set=1+1"]);
    place.write("moon", noise(1, 1_000));
    place.good(&["put", "moon", "--flush"]);
    let platters = place.platters();
    for (position, line, short) in [(1, "0 of them to spare", 0), (0, "1 TOO FEW", 1)] {
        let platter = platters.iter().find(|platter| platter.position == position).expect("listed");
        fs::remove_file(&platter.file).expect("removed");
        assert_eq!(place.run(&["verify", "-q"]).status, 1);
        let shown = place.run(&["fixity", "moon"]);
        assert!(shown.text().contains(line) && shown.text().contains("can't be read") == (short > 0), "{shown:?}");
        let json = place.run(&["fixity", "moon", "--json"]).json();
        assert_eq!((&json["platters_to_spare"], &json["platters_short"]), (&0.into(), &short.into()), "{json}");
    }
}

#[test]
fn a_set_survives_the_loss_of_as_many_platters_as_its_redundancy() {
    let place = Sandbox::new(6, &[]);
    fill(&place);
    let platters = place.platters();
    let whole = place.fingerprint(&["d1", "d2", "d3", "d4", "d5", "d6"]);
    for platter in [&platters[0], &platters[4]] {
        fs::remove_file(&platter.file).expect("removed");
    }
    let restored = place.good(&["get", "tree", "out"]);
    assert!(restored.text().contains("from their platter-set") && restored.text().contains("fulgurite scrub"), "{restored:?}");
    assert_eq!(tree(&place.path("out")), tree(&place.path("tree")));

    let verified = place.run(&["verify", "--objects"]);
    assert_eq!(verified.status, 1, "{verified:?}");
    for platter in [&platters[0], &platters[4]] {
        assert!(verified.text().contains(&format!("platter {} on store {}: missing", platter.id, platter.store)), "{verified:?}");
    }
    assert!(verified.text().contains("Nothing is lost") && verified.text().contains("each matches what was stored"), "{verified:?}");
    let quiet = place.run(&["verify", "-q"]);
    assert_eq!((&quiet.out[..], quiet.err.lines().count()), (&b""[..], 2), "{quiet:?}");
    let listed = place.run(&["platters"]);
    assert!(listed.status == 1 && listed.text().contains("MISSING"), "{listed:?}");
    let status = place.run(&["status"]);
    assert!(status.status == 1 && status.text().contains("2 damaged or missing"), "{status:?}");

    place.run(&["recover", ""]).fails_with(1, "the identifiers of several platters begin with");
    place.run(&["recover", "zz"]).fails_with(1, "no platter's identifier begins with \"zz\"");
    place.run(&["recover", &platters[0].id, "--store", "nix"]).fails_with(1, "no store is called nix");
    place.run(&["recover", &platters[0].id, "--store", &platters[1].store]).fails_with(1, "losing that store would lose both");
    place.good(&["recover", &platters[0].id[..12].to_uppercase()]);
    let scrubbed = place.good(&["scrub"]);
    assert!(scrubbed.text().contains("Recovered 1 platter"), "{scrubbed:?}");
    let verified = place.good(&["verify"]);
    assert!(verified.text().ends_with("Nothing is lost.\n"), "{verified:?}");
    place.good(&["status"]);
    let contents = |things: std::collections::BTreeMap<_, crate::support::Thing>| -> Vec<_> {
        things
            .into_iter()
            .map(|(path, thing)| match thing {
                crate::support::Thing::File { content, .. } => (path, content),
                other => panic!("{other:?}"),
            })
            .collect()
    };
    assert!(
        contents(place.fingerprint(&["d1", "d2", "d3", "d4", "d5", "d6"])) == contents(whole),
        "recovered platters are identical byte for byte"
    );
}

#[test]
fn platters_of_a_lost_disk_are_recovered_onto_another() {
    let place = Sandbox::new(4, &["--set", "2+1"]);
    fill(&place);
    let platters = place.platters();
    let used: BTreeSet<&str> = platters.iter().map(|platter| &platter.store[..]).collect();
    let spare = ["d1", "d2", "d3", "d4"].into_iter().find(|store| !used.contains(store)).expect("one is free");
    fs::remove_dir_all(place.path(&platters[1].store)).expect("removed");
    place.run(&["verify"]).fails_with(3, "");
    let scrubbed = place.good(&["scrub", "--replace-absent"]);
    assert!(scrubbed.text().contains("Recovered 1 platter"), "{scrubbed:?}");
    assert_eq!(place.platters()[1].store, spare);
    let verified = place.run(&["verify", "--objects"]);
    assert!(verified.status == 3 && verified.text().contains("each matches what was stored"), "{verified:?}");
    // A platter may also be moved back by hand.
    fs::create_dir_all(place.path(&platters[1].store)).expect("made");
    place.run(&["recover", &platters[1].id, "--store", &platters[1].store]).fails_with(1, "Is the disk mounted?");
}

#[test]
fn one_platter_too_many_loses_exactly_the_files_on_it() {
    // Unencrypted, so that a platter shows the names on it.
    let place = Sandbox::new(4, &["--set", "3+1", "--clear-text"]);
    fill(&place);
    let platters = place.platters();
    let lost: BTreeSet<String> = place
        .good(&["inspect", platters[1].file.to_str().expect("text"), "--files", "--json"])
        .json_lines()
        .iter()
        .filter_map(|line| Some(line["name"].as_str()?.to_owned()))
        .collect();
    assert!((2..12).contains(&lost.len()), "{lost:?}");
    fs::remove_file(&platters[1].file).expect("removed");
    fs::remove_file(&platters[3].file).expect("removed");
    let named = |said: &str, how: &str| -> BTreeSet<String> {
        said.lines().filter_map(|line| Some(line.strip_prefix(how)?.split(" (version").next()?.to_owned())).collect()
    };
    let verified = place.run(&["verify"]);
    assert_eq!((verified.status, named(&verified.err, "lost: ")), (1, lost.clone()), "{verified:?}");
    let objects = place.run(&["verify", "--objects", "-q"]);
    assert_eq!((objects.status, named(&objects.err, "lost: ")), (1, lost.clone()));
    for options in [&["verify", "--json"][..], &["verify", "--objects", "--json"]] {
        let said = place.run(options).json();
        let in_json = said["lost"].as_array().expect("a list");
        assert_eq!(in_json.len(), lost.len(), "each once: {said}");
        assert_eq!(in_json.iter().map(|row| row["name"].as_str().expect("text").to_owned()).collect::<BTreeSet<_>>(), lost);
    }
    let restored = place.run(&["get", "tree", "out"]);
    assert_eq!((restored.status, named(&restored.err, "not restored: ")), (1, lost.clone()), "{restored:?}");
    let mut expected = tree(&place.path("tree"));
    expected.retain(|name, _| !lost.contains(&format!("tree/{}", name.display())));
    assert_eq!(tree(&place.path("out")), expected);
    let scrubbed = place.run(&["scrub"]);
    assert_eq!((scrubbed.status, named(&scrubbed.err, "lost: ")), (1, lost), "{scrubbed:?}");
    scrubbed.fails_with(1, &format!("platter {} was not rebuilt", platters[1].id));
    place.run(&["recover", &platters[1].id]).fails_with(1, "and neither track, large group nor platter-set can rebuild them");
    assert!(!platters[1].file.exists(), "no partial platter is left");
}

#[test]
fn scattered_damage_is_found_repaired_and_reported() {
    let place = Sandbox::new(2, &[]);
    fill(&place);
    let platters = place.platters();
    let file = OpenOptions::new().write(true).open(&platters[0].file).expect("opens");
    file.write_all_at(&[0; 100], 0).expect("a header is gone");
    for nth in 0..10_u64 {
        file.write_all_at(b"damaged", 16_384 + 300 + nth * 60_000).expect("written");
    }
    let length = file.metadata().expect("there").len();
    let verified = place.run(&["verify"]);
    assert!(
        verified.status == 1 && verified.text().contains("lost sectors, 0 tracks beyond their own code, 1 bad header copy"),
        "{verified:?}"
    );
    place.good(&["get", "tree", "out"]);
    assert_eq!(tree(&place.path("out")), tree(&place.path("tree")));
    // After the second header, because the first is gone.
    file.set_len(length * 3 / 4).expect("cut");
    let inspected = place.run(&["inspect", platters[0].file.to_str().expect("text")]);
    assert!(inspected.status == 1 && inspected.text().contains("WRONG LENGTH"), "{inspected:?}");
    let scrubbed = place.good(&["scrub"]);
    assert!(scrubbed.text().contains("Recovered 1 platter"), "{scrubbed:?}");
    place.good(&["verify", "--objects"]);
}

#[test]
fn damage_in_staging_is_reported() {
    let place = Sandbox::new(1, &[]);
    place.write("good", noise(1, 100_000));
    place.write("bad", noise(2, 100_000));
    place.good(&["put", "good"]);
    place.good(&["put", "bad"]);
    let segments = place.segments();
    OpenOptions::new().write(true).open(&segments[1]).expect("opens").write_all_at(b"damaged", 50_000).expect("written");
    let verified = place.run(&["verify"]);
    verified.fails_with(1, "lost: bad (version 1)");
    assert!(!verified.err.contains("good"), "{verified:?}");
    place.run(&["get", "bad", "-"]).fails_with(1, "bad");
    place.good(&["get", "good", "-"]);
    // Intact objects are written to platters; damaged ones stay staged and are reported again.
    place.run(&["flush"]).fails_with(1, "lost: bad (version 1): staging");
    assert_eq!(place.platters().len(), 1);
    place.run(&["flush"]).fails_with(1, "lost: bad (version 1): staging");
    place.good(&["rm", "bad"]);
    place.good(&["flush"]);
    place.good(&["verify", "--objects"]);
}

/// A set of 1+1 platters on three stores: both platters, and the store without one.
fn pair(place: &Sandbox) -> (crate::support::Platter, crate::support::Platter, String) {
    place.write("file", noise(1, 300_000));
    place.good(&["put", "file", "--flush"]);
    let [one, other] = <[_; 2]>::try_from(place.platters()).unwrap_or_else(|_| panic!("two platters"));
    let free = ["d1", "d2", "d3"].into_iter().find(|store| *store != one.store && *store != other.store);
    (one, other, free.expect("a third store").to_owned())
}

/// Overwrites all but the first header.
fn spoil(file: &std::path::Path) {
    let mut image = fs::read(file).expect("read");
    let from = image.len() / 50;
    image[from..].fill(7);
    fs::write(file, image).expect("written");
}

#[test]
fn a_copy_of_a_damaged_platter_is_read_before_anything_is_called_lost() {
    for is_first in [true, false] {
        let place = Sandbox::new(3, &["--set", "1+1"]);
        let (one, other, free) = pair(&place);
        let (kept, gone) = if is_first { (one, other) } else { (other, one) };
        let copy = place.path(format!("{free}/platters")).join(kept.file.file_name().expect("a name"));
        fs::copy(&kept.file, &copy).expect("copied");
        spoil(&kept.file);
        fs::remove_file(&gone.file).expect("removed");

        place.good(&["get", "file", "out"]);
        assert_eq!(place.read("out"), place.read("file"));
        let verified = place.run(&["verify", "--objects"]);
        assert!(verified.status == 1 && verified.text().contains("Nothing is lost"), "{verified:?}");
        let noted = format!("platter {} is on store {}, and copies of it are on store {free}", kept.id, kept.store);
        assert!(verified.err.contains(&noted), "{verified:?}");
        // A rebuilt catalogue names the copy whose file table can be read.
        place.good(&["catalogue", "rebuild"]);
        let listed = place.run(&["--json", "platters"]);
        let row = listed.json_lines().into_iter().find(|row| row["platter"] == kept.id.as_str()).expect("listed");
        // A redundancy platter has no file table.
        assert!(kept.position == 1 || row["store"] == free.as_str(), "{row}");
        place.good(&["scrub"]);
        assert_eq!(place.platters().len(), 2);
        place.good(&["verify", "--objects"]);
    }
}

#[test]
fn a_named_pipe_in_the_place_of_a_platter_is_damage_and_hangs_nothing() {
    let place = Sandbox::new(3, &["--set", "2+1"]);
    fill(&place);
    let platter = &place.platters()[0];
    fs::remove_file(&platter.file).expect("removed");
    let unknown = place.path("d1/platters/eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee.platter");
    place.shell(&format!("mkfifo {} {}", platter.file.display(), unknown.display()));
    let quick = |arguments: &str| place.shell(&format!("timeout 60 {} -A a {arguments}", env!("CARGO_BIN_EXE_fulgurite")));
    for command in ["ls", "get tree out", "put tree/00", "status", "store list"] {
        assert_ne!(quick(command).status, 124, "{command}");
    }
    assert_eq!(tree(&place.path("out")), tree(&place.path("tree")));
    let verified = quick("verify");
    let says = format!("{} is a named pipe, not a file", platter.file.display());
    assert!(verified.status == 1 && verified.err.contains(&says), "{verified:?}");
    assert!(verified.text().contains(&format!("platter {} on store {}: damaged", platter.id, platter.store)), "{verified:?}");
    assert_eq!(quick("scrub").status, 0);
    assert!(fs::metadata(&platter.file).expect("rewritten").is_file());
    assert_eq!(quick("verify").status, 0);
}

#[test]
fn a_named_pipe_in_the_place_of_a_mark_makes_only_its_store_unreadable() {
    let place = Sandbox::new(3, &["--set", "2+1"]);
    fill(&place);
    fs::remove_file(place.path("d3/fulgurite-store")).expect("removed");
    let quick = |arguments: &str| place.shell(&format!("timeout 60 {} -A a {arguments}", env!("CARGO_BIN_EXE_fulgurite")));
    place.shell("mkfifo d3/fulgurite-store");
    assert_eq!(quick("get tree out").status, 0);
    assert_eq!(tree(&place.path("out")), tree(&place.path("tree")));
    let verified = quick("verify");
    assert!(verified.status == 4 && verified.err.contains("d3/fulgurite-store is a named pipe, not a file"), "{verified:?}");
}

#[test]
fn a_folder_in_the_place_of_a_platter_is_not_replaced_and_the_scrub_says_what_to_do() {
    let place = Sandbox::new(3, &["--set", "2+1"]);
    fill(&place);
    let platter = &place.platters()[0];
    fs::remove_file(&platter.file).expect("removed");
    fs::create_dir(&platter.file).expect("a folder");
    let scrubbed = place.run(&["scrub", "--replace-unreadable"]);
    let says = format!("platters/{}.platter is a folder. Move it away", platter.id);
    assert!(scrubbed.status != 0 && scrubbed.err.contains(&says), "{scrubbed:?}");
    fs::remove_dir(&platter.file).expect("removed");
    place.good(&["scrub"]);
    place.good(&["verify"]);
}
