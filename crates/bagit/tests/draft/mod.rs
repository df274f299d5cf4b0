//! A bag in a temporary folder, changed file by file.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use fulgurite_bagit::{Bag, Options, Report, validate};
use fulgurite_digest::Md5;
use tempfile::TempDir;

pub(crate) const MD5_OF_ABC: &str = "900150983cd24fb0d6963f7d28e17f72";

pub(crate) struct Draft {
    folder: TempDir,
}

#[allow(dead_code)] // Each test file uses a part.
impl Draft {
    /// A valid bag with `data/a.txt` and an MD5 manifest.
    pub(crate) fn new(version: &str) -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
            .put("bagit.txt", &format!("BagIt-Version: {version}\nTag-File-Character-Encoding: UTF-8\n"))
            .put("bag-info.txt", "Source-Organization: x\n")
            .abc("data/a.txt")
    }

    pub(crate) fn root(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn put_bytes(self, path: &str, content: Vec<u8>) -> Self {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    pub(crate) fn put(self, path: &str, content: &str) -> Self {
        self.put_bytes(path, content.as_bytes().to_vec())
    }

    pub(crate) fn append(self, path: &str, text: &str) -> Self {
        let before = fs::read_to_string(self.root().join(path)).unwrap_or_default();
        self.put(path, &(before + text))
    }

    /// Adds a payload file with the content `abc` and its line.
    pub(crate) fn abc(self, path: &str) -> Self {
        self.put(path, "abc").append("manifest-md5.txt", &format!("{MD5_OF_ABC}  {path}\n"))
    }

    pub(crate) fn folder(self, path: &str) -> Self {
        fs::create_dir_all(self.root().join(path)).unwrap();
        self
    }

    pub(crate) fn remove(self, path: &str) -> Self {
        fs::remove_file(self.root().join(path)).unwrap();
        self
    }

    pub(crate) fn remove_folder(self, path: &str) -> Self {
        fs::remove_dir(self.root().join(path)).unwrap();
        self
    }

    pub(crate) fn link(self, target: &str, path: &str) -> Self {
        symlink(target, self.root().join(path)).unwrap();
        self
    }

    pub(crate) fn pipe(self, path: &str) -> Self {
        assert!(Command::new("mkfifo").arg(self.root().join(path)).status().unwrap().success());
        self
    }

    /// Writes `tagmanifest-md5.txt` for all tag files that exist.
    pub(crate) fn tag_manifest(self) -> Self {
        let mut lines = String::new();
        for entry in fs::read_dir(self.root()).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            if entry.file_type().unwrap().is_file() && !name.starts_with("tagmanifest-") {
                let digest = Md5::of(&fs::read(entry.path()).unwrap());
                let digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
                lines += &format!("{digits}  {name}\n");
            }
        }
        self.append("tagmanifest-md5.txt", &lines)
    }

    pub(crate) fn validate(&self, options: &Options) -> Report {
        validate(self.root(), options).unwrap()
    }

    pub(crate) fn bag(&self) -> Bag {
        Bag::open(self.root()).unwrap()
    }
}
