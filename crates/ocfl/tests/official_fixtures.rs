//! The official test objects: valid ones are accepted, invalid ones are rejected for the reason in
//! their names.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use fulgurite_digest::{Algorithm, Digester};
use fulgurite_ocfl::{Report, ValidateOptions, Verdict, validate_object};

/// Codes in names of objects that the validator doesn't report: object, code, the code that it
/// reports instead. E023 is about files that the manifest lacks, and a missing file is E092.
const OTHERWISE: [(&str, &str, &str); 1] = [("E023_missing_file", "E023", "E092")];
/// The same for OCFL 1.1, which has a code of its own for unused content.
const OTHERWISE_IN_1_1: [(&str, &str, &str); 2] =
    [("E023_missing_file", "E023", "E092"), ("E050_file_in_manifest_not_used", "E050", "E107")];
/// Objects that mix 1.0 and 1.1, so that they lose their fault when all of them becomes 1.1.
const MIXED: [&str; 2] = ["E003_multiple_decl", "E103_inconsistent_ocfl_versions"];

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/ocfl-fixtures")
}

/// A copy of the official objects, with empty files for those that are left out.
struct Objects {
    folder: tempfile::TempDir,
    /// Objects whose content can't be compared.
    incomplete: BTreeSet<PathBuf>,
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to)
        } else {
            let _ = fs::copy(entry.path(), to).unwrap();
        }
    }
}

fn objects() -> Objects {
    let folder = tempfile::tempdir().unwrap();
    if let Some(whole) = std::env::var_os("OCFL_FIXTURES") {
        for (from, to) in [("valid", "good-objects"), ("warn", "warn-objects"), ("error", "bad-objects")] {
            copy(&Path::new(&whole).join(from), &folder.path().join(to));
        }
        return Objects { folder, incomplete: BTreeSet::new() };
    }
    copy(&fixtures().join("1.0"), folder.path());
    let mut incomplete = BTreeSet::new();
    for path in fs::read_to_string(fixtures().join("left-out.txt")).unwrap().lines() {
        let path = Path::new(path);
        fs::create_dir_all(folder.path().join(path).parent().unwrap()).unwrap();
        fs::write(folder.path().join(path), "").unwrap();
        incomplete.insert(folder.path().join(path.iter().take(2).collect::<PathBuf>()));
    }
    Objects { folder, incomplete }
}

impl Objects {
    fn each(&self, kind: &str) -> Vec<(String, PathBuf)> {
        let mut found: Vec<_> = fs::read_dir(self.folder.path().join(kind))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), path))
            .collect();
        found.sort();
        found
    }

    fn validate(&self, object: &Path) -> Report {
        let options = ValidateOptions { reads_content: !self.incomplete.contains(object), threads: 2, ..ValidateOptions::default() };
        validate_object(object, &options)
    }
}

/// The codes at the beginning of an object's name.
fn codes_in(name: &str) -> Vec<&str> {
    name.split('_').take_while(|part| part.len() == 4 && part[1..].bytes().all(|digit| digit.is_ascii_digit())).collect()
}

fn codes_of(report: &Report) -> BTreeSet<String> {
    report.findings.kept().iter().map(|finding| finding.code().to_string()).collect()
}

fn describe(report: &Report) -> String {
    report.findings.kept().iter().map(|finding| format!("    {finding}\n")).collect()
}

/// Turns an object into one of OCFL 1.1: declaration, types, and sidecars whose inventory had the
/// right digest before.
fn upgrade(folder: &Path) {
    let old = folder.join("0=ocfl_object_1.0");
    if old.exists() {
        let text = fs::read_to_string(&old).unwrap().replace("1.0", "1.1");
        fs::remove_file(old).unwrap();
        fs::write(folder.join("0=ocfl_object_1.1"), text).unwrap();
    }
    let mut folders = vec![folder.to_owned()];
    folders.extend(fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()));
    for folder in folders {
        let path = folder.join("inventory.json");
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let new = text.replace("https://ocfl.io/1.0/", "https://ocfl.io/1.1/");
        for algorithm in [Algorithm::Sha512, Algorithm::Sha256, Algorithm::Md5] {
            let hex = |text: &str| {
                let mut digester = Digester::new(&[algorithm]);
                digester.update(text.as_bytes());
                digester.finish().remove(0).hex()
            };
            let sidecar = folder.join(format!("inventory.json.{algorithm}"));
            if let Ok(stated) = fs::read_to_string(&sidecar)
                && stated.starts_with(&hex(&text))
            {
                fs::write(sidecar, stated.replace(&hex(&text), &hex(&new))).unwrap();
            }
        }
        fs::write(path, new).unwrap();
    }
}

#[test]
fn every_good_object_is_valid_without_a_warning() {
    let objects = objects();
    for (name, path) in objects.each("good-objects") {
        let report = objects.validate(&path);
        assert_eq!(report.verdict(), Verdict::Valid, "{name}\n{}", describe(&report));
        assert!(report.files_read > 0 || report.files == 0 || objects.incomplete.contains(&path), "{name}");
    }
}

#[test]
fn every_warning_in_an_objects_name_is_given_and_no_error() {
    let objects = objects();
    for (name, path) in objects.each("warn-objects") {
        let report = objects.validate(&path);
        assert_eq!(report.verdict(), Verdict::Valid, "{name}\n{}", describe(&report));
        assert_eq!(codes_of(&report), codes_in(&name).into_iter().map(str::to_owned).collect(), "{name}\n{}", describe(&report));
    }
}

#[test]
fn every_bad_object_is_invalid_for_the_reason_in_its_name() {
    check_bad_objects(&objects(), &OTHERWISE, &[]);
}

#[test]
fn the_objects_mean_the_same_in_ocfl_1_1() {
    let objects = objects();
    for kind in ["good-objects", "warn-objects"] {
        for (name, path) in objects.each(kind) {
            upgrade(&path);
            let report = objects.validate(&path);
            assert_eq!(report.verdict(), Verdict::Valid, "{name}\n{}", describe(&report));
        }
    }
    for (_, path) in objects.each("bad-objects") {
        upgrade(&path);
    }
    check_bad_objects(&objects, &OTHERWISE_IN_1_1, &MIXED);
}

fn check_bad_objects(objects: &Objects, otherwise: &[(&str, &str, &str)], skipped: &[&str]) {
    let mut failures = String::new();
    let bad = objects.each("bad-objects");
    assert!(bad.len() > 50);
    for (name, path) in bad.into_iter().filter(|(name, _)| !skipped.contains(&&**name)) {
        let report = objects.validate(&path);
        let codes = codes_of(&report);
        let expected = codes_in(&name).into_iter().map(|code| {
            let instead = otherwise.iter().find(|(object, other, _)| *object == name && *other == code);
            instead.map_or(code, |(_, _, instead)| instead)
        });
        let missed: Vec<&str> = expected.filter(|code| !codes.contains(*code)).collect();
        if report.verdict() != Verdict::Invalid || !missed.is_empty() {
            failures += &format!("{name}: {:?}, without {missed:?}\n{}", report.verdict(), describe(&report));
        }
    }
    assert!(failures.is_empty(), "{failures}");
}
