//! Damaged and hostile tag files: a report or an error, never a panic, and never a valid bag whose
//! payload was changed.

mod draft;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use draft::{Draft, MD5_OF_ABC};
use fulgurite_bagit::{Options, Verdict, validate};
use fulgurite_chance::Xorshift;

const ROUNDS: usize = 400;

#[test]
fn damaged_tag_files_never_panic() {
    let seed = std::env::var("SEED").map_or(1, |seed| seed.parse().unwrap());
    println!("seed {seed}: repeat with SEED={seed}");
    let mut chance = Xorshift::seeded(seed);
    let pieces: [&[u8]; 12] =
        [b"\n", b"\r", b"\0", b"\xff", b"%25", b"%0A", b"../", b"data/", b" ", b":", b"\xef\xbb\xbf", b"Payload-Oxum: 9.9\n"];
    for _ in 0..ROUNDS {
        let draft = Draft::new("1.0")
            .put("bag-info.txt", "Payload-Oxum: 3.1\nA: b\n")
            .put("fetch.txt", "https://a/b 3 data/a.txt\n")
            .tag_manifest();
        let names = ["bagit.txt", "bag-info.txt", "fetch.txt", "manifest-md5.txt", "tagmanifest-md5.txt"];
        let name = names[chance.below(names.len())];
        let path = draft.root().join(name);
        let mut bytes = std::fs::read(&path).unwrap();
        for _ in 0..=chance.below(3) {
            let at = chance.below(bytes.len() + 1);
            match chance.below(3) {
                0 => bytes.truncate(at),
                1 if at < bytes.len() => bytes[at] ^= 1 << chance.below(8),
                _ => drop(bytes.splice(at..at, pieces[chance.below(pieces.len())].iter().copied())),
            }
        }
        std::fs::write(&path, &bytes).unwrap();
        if let Ok(report) = validate(draft.root(), &Options { memory_bytes: chance.below(2) * 1000, ..Options::default() }) {
            report.findings().iter().for_each(|finding| drop(finding.to_string()));
        }
    }
}

#[test]
fn a_changed_payload_is_never_valid_and_an_unchanged_one_always_is() {
    let draft = Draft::new("1.0").abc("data/b").abc("data/c/d").put("bag-info.txt", "A: b\n").tag_manifest();
    assert_eq!(draft.validate(&Options::default()).verdict(), Verdict::Valid);
    for path in ["data/a.txt", "data/b", "data/c/d", "bag-info.txt", "manifest-md5.txt"] {
        let path = draft.root().join(path);
        let good = std::fs::read(&path).unwrap();
        for (bit, _) in good.iter().enumerate().flat_map(|(index, _)| (0..8).map(move |bit| (index * 8 + bit, ()))) {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&path, &bad).unwrap();
            assert_eq!(draft.validate(&Options::default()).verdict(), Verdict::Invalid, "{} bit {bit}", path.display());
        }
        std::fs::write(&path, &good).unwrap();
    }
    assert_eq!(draft.validate(&Options::default()).verdict(), Verdict::Valid);
}

#[test]
fn endless_lines_and_files_are_cut() {
    let long = "x".repeat(3 << 20);
    for name in ["bagit.txt", "bag-info.txt", "fetch.txt", "manifest-md5.txt"] {
        let report = Draft::new("1.0").put(name, &long).validate(&Options::default());
        assert_eq!(report.verdict(), Verdict::Invalid, "{name}");
        assert!(report.findings().iter().all(|finding| finding.to_string().len() < 1000), "{name}");
    }
}

#[test]
fn findings_about_long_paths_are_short() {
    let lines = format!("{MD5_OF_ABC}  data/{}\n", "%25".repeat(20_000)).repeat(50);
    let report = Draft::new("1.0").append("manifest-md5.txt", &lines).validate(&Options::default());
    assert_eq!(report.errors(), 50);
    assert!(report.findings().iter().all(|finding| finding.to_string().len() < 1000));
}

#[test]
fn a_name_that_is_not_utf_8_is_an_unlisted_file() {
    let draft = Draft::new("1.0");
    std::fs::write(draft.root().join(OsStr::from_bytes(b"data/\xff")), "x").unwrap();
    let report = draft.validate(&Options::default());
    assert_eq!(report.findings()[0].to_string(), "error: data/\u{fffd}: the file is not listed in any payload manifest");
    assert_eq!(report.errors(), 1);
}

#[test]
fn too_many_manifests_are_an_error() {
    let draft = (0..65).fold(Draft::new("1.0"), |draft, index| draft.put(&format!("manifest-x{index}.txt"), ""));
    assert!(validate(draft.root(), &Options::default()).is_err());
}
