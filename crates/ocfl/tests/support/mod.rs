//! Objects for tests, and ways to spoil them.

#![allow(dead_code)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use fulgurite_digest::{Algorithm, Digest, Digester};
use fulgurite_ocfl::{
    Layout, Object, ObjectOptions, Report, RootReport, SpecVersion, StorageRoot, User, ValidateOptions, VersionInfo, validate_object,
    validate_root,
};

pub(crate) fn info(message: &str) -> VersionInfo {
    let user = User { name: "Ada".to_owned(), address: Some("mailto:ada@example.org".to_owned()) };
    VersionInfo { created: "2026-11-25T07:26:23Z".to_owned(), message: Some(message.to_owned()), user: Some(user) }
}

pub(crate) fn digest(content: &[u8], algorithm: Algorithm) -> Digest {
    let mut digester = Digester::new(&[algorithm]);
    digester.update(content);
    digester.finish().remove(0)
}

/// A storage root in a temporary folder, with the default layout.
pub(crate) fn root() -> (tempfile::TempDir, StorageRoot) {
    let folder = tempfile::tempdir().unwrap();
    let root = StorageRoot::create(&folder.path().join("root"), SpecVersion::V1_1, Layout::default()).unwrap();
    (folder, root)
}

/// Writes an object with one version.
pub(crate) fn object(root: &StorageRoot, id: &str, files: &[(&str, &str)]) -> Object {
    let mut writer = root.create_object(id, &ObjectOptions::default(), info("first")).unwrap();
    for (path, content) in files {
        writer.add(path, &mut content.as_bytes(), &[]).unwrap();
    }
    writer.commit().unwrap().object
}

pub(crate) fn validate(object: &Object) -> Report {
    validate_object(object.folder(), &ValidateOptions { threads: 3, ..ValidateOptions::default() })
}

pub(crate) fn validate_all(root: &StorageRoot) -> RootReport {
    let options = ValidateOptions { threads: 2, ..ValidateOptions::default() };
    validate_root(root.folder(), &options, &mut |_, _| true)
}

pub(crate) fn codes(report: &Report) -> Vec<String> {
    let mut codes: Vec<String> = report.findings.kept().iter().map(|finding| finding.code().to_string()).collect();
    codes.sort();
    codes.dedup();
    codes
}

pub(crate) fn describe(report: &Report) -> String {
    report.findings.kept().iter().map(|finding| format!("{finding}\n")).collect()
}

/// Changes an inventory's text and its sidecar, so that only the change itself is wrong. `folders`
/// are relative to the object; "" is its own.
pub(crate) fn edit(object: &Object, folders: &[&str], change: impl Fn(&str) -> String) {
    for folder in folders {
        let folder = object.folder().join(folder);
        let text = fs::read_to_string(folder.join("inventory.json")).unwrap();
        let changed = change(&text);
        assert_ne!(text, changed, "the edit must change something");
        fs::write(folder.join("inventory.json"), &changed).unwrap();
        let sidecar = format!("{} inventory.json\n", digest(changed.as_bytes(), Algorithm::Sha512).hex());
        fs::write(folder.join("inventory.json.sha512"), sidecar).unwrap();
    }
}

/// All files below a folder with their content, without the lock files of writers.
pub(crate) fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.insert(path.strip_prefix(folder).unwrap().to_owned(), fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// Writes files below a folder.
pub(crate) fn put_files(folder: &Path, files: &BTreeMap<PathBuf, Vec<u8>>) {
    for (path, content) in files {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
}
