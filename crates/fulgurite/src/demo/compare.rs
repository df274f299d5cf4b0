//! Compares what was restored with what was put, byte for byte.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::SystemTime;

use fulgurite_archive::watch::Watcher;
use fulgurite_domain::ObjectName;
use serde_json::json;
use walkdir::WalkDir;

use super::input::Input;
use crate::Session;
use crate::diagnostics;
use crate::put::is_leaf;
use crate::text::{bytes, count, phrase};

const BLOCK_BYTES: usize = 1 << 20;

#[derive(Debug, Default)]
pub(crate) struct Comparison {
    files: u64,
    links: u64,
    folders: u64,
    pub(crate) bytes: u64,
    /// One message per difference, starting with the name.
    differences: Vec<String>,
    /// Files changed by others while the demonstration ran.
    changed: u64,
}

impl Comparison {
    pub(crate) fn is_same(&self) -> bool {
        self.differences.is_empty()
    }

    pub(crate) fn say(&self, session: &Session, shown: usize) {
        session.say(&format!(
            "\nCompared {}, {} and {}, {}: {}",
            count(self.files, "file"),
            count(self.links, "symbolic link"),
            count(self.folders, "empty folder"),
            bytes(self.bytes),
            if self.is_same() { "content, names, modes, times and targets are all the same" } else { "NOT THE SAME" }
        ));
        for difference in self.differences.iter().take(shown) {
            diagnostics::trouble(&format!("differs: {difference}"));
        }
        if self.differences.len() > shown {
            diagnostics::trouble(&format!("and {} more.", self.differences.len() - shown));
        }
        if self.changed > 0 {
            session.say(&format!("  {} left out: changed since the demonstration began", phrase(self.changed, "file was", "files were")));
        }
    }

    pub(crate) fn to_json(&self) -> serde_json::Value {
        json!({
            "same": self.is_same(), "files": self.files, "links": self.links, "empty_folders": self.folders, "bytes": self.bytes,
            "differences": self.differences, "changed_meanwhile": self.changed,
        })
    }
}

/// Compares the input with the content of `restored`. Inputs changed since `started` are counted
/// but not compared.
pub(crate) fn compare(input: &Input, restored: &Path, started: SystemTime, watcher: &dyn Watcher) -> Comparison {
    let mut comparison = Comparison::default();
    for entry in input.entries() {
        let copy = restored.join(std::ffi::OsStr::from_bytes(&entry.name.0));
        let difference = comparison.entry(&entry.path, &copy, started, watcher);
        if let Err(why) = difference {
            comparison.differences.push(format!("{}: {why}", entry.name.display()));
        }
    }
    for entry in WalkDir::new(restored).into_iter().flatten().filter(|entry| entry.depth() > 0 && is_leaf(entry)) {
        let name = entry.path().strip_prefix(restored).expect("below its root").as_os_str().as_bytes();
        if input.path_of(name).is_none_or(|path| path.symlink_metadata().is_err()) {
            comparison.differences.push(format!("{}: was never put", ObjectName(name.to_vec()).display()));
        }
    }
    comparison
}

impl Comparison {
    /// Compares one entry. The error says what differs.
    fn entry(&mut self, path: &Path, copy: &Path, started: SystemTime, watcher: &dyn Watcher) -> Result<(), String> {
        let metadata = fs::symlink_metadata(path).map_err(|error| error.to_string())?;
        if metadata.modified().is_ok_and(|modified| modified > started) {
            self.changed += 1;
            return Ok(());
        }
        let found = fs::symlink_metadata(copy).map_err(|error| format!("not restored: {error}"))?;
        if metadata.file_type() != found.file_type() {
            return Err("is of another kind".to_owned());
        }
        if metadata.is_symlink() {
            self.links += 1;
            let target = |path| fs::read_link(path).map_err(|error| error.to_string());
            return if target(path)? == target(copy)? { Ok(()) } else { Err("points elsewhere".to_owned()) };
        }
        // Set-user and set-group bits are deliberately not restored.
        let mode = |metadata: &Metadata| metadata.mode() & 0o1777;
        if mode(&metadata) != mode(&found) {
            return Err(format!("has mode {:o} instead of {:o}", mode(&found), mode(&metadata)));
        }
        if (metadata.mtime(), metadata.mtime_nsec()) != (found.mtime(), found.mtime_nsec()) {
            return Err("was modified at another time".to_owned());
        }
        if metadata.is_dir() {
            self.folders += 1;
            return Ok(());
        }
        self.files += 1;
        self.bytes += metadata.len();
        if metadata.len() != found.len() {
            return Err(format!("is {} bytes long instead of {}", found.len(), metadata.len()));
        }
        match first_difference(path, copy, watcher) {
            Ok(None) => Ok(()),
            Ok(Some(at)) => Err(format!("differs within 1 MiB from byte {at}")),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// The offset of the first block in which two files of the same length differ.
fn first_difference(one: &Path, other: &Path, watcher: &dyn Watcher) -> io::Result<Option<u64>> {
    let (mut one, mut other) = (File::open(one)?, File::open(other)?);
    let (mut block, mut found) = (Vec::new(), Vec::new());
    let mut at = 0;
    loop {
        block.clear();
        found.clear();
        (&mut one).take(BLOCK_BYTES as u64).read_to_end(&mut block)?;
        (&mut other).take(BLOCK_BYTES as u64).read_to_end(&mut found)?;
        if block != found {
            return Ok(Some(at));
        }
        if block.is_empty() {
            return Ok(None);
        }
        at += block.len() as u64;
        watcher.done(1, block.len() as u64);
    }
}
