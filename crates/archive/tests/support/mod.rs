//! Archives and trees for tests.
// Each test file uses its own part of it.
#![allow(dead_code, unreachable_pub)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use fulgurite_archive::settings::{ArchiveSettings, Limits, SetSettings, Settings, StagingSettings, StoreSettings};
use fulgurite_archive::watch::{Trouble, Unwatched, Watcher};
use fulgurite_archive::{Access, Archive, Existing, GetReport, PutReport, Source};
use fulgurite_domain::{ArchiveId, ObjectName};
use std::sync::Mutex;

/// A folder with an archive in it, gone in the end.
pub struct Home {
    pub folder: tempfile::TempDir,
}

impl Home {
    /// A new archive with sets of this shape, on as many stores.
    pub fn new(information: u16, redundancy: u16) -> Self {
        Self::with(information, redundancy, |_| {})
    }

    /// The same with other settings.
    pub fn with(information: u16, redundancy: u16, change: impl FnOnce(&mut Settings)) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut settings = settings(information, redundancy);
        change(&mut settings);
        Archive::init(&folder.path().join("archive"), &settings).expect("a new archive");
        Self { folder }
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("archive")
    }

    pub fn open(&self) -> Archive {
        Archive::open(&self.path(), Access::Write).expect("the archive opens")
    }

    /// The platter files that are there, by store.
    pub fn platter_files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        for store in fs::read_dir(self.path().join("stores")).expect("stores") {
            let platters = store.expect("store").path().join("platters");
            files.extend(fs::read_dir(platters).expect("platters").map(|file| file.expect("file").path()));
        }
        files.sort();
        files
    }
}

pub fn settings(information: u16, redundancy: u16) -> Settings {
    Settings {
        archive: ArchiveSettings { id: ArchiveId([0x5a; 16]), encrypt: true, master_key: "master.key".into() },
        limits: Limits { memory_mib: 512, threads: 2 },
        staging: StagingSettings { path: "staging".into(), segment_mib: 16 },
        set: SetSettings { information, redundancy, platter_mib: 4_096 },
        stores: (0..information + redundancy)
            .map(|i| StoreSettings { name: format!("d{i}"), path: format!("stores/d{i}").into() })
            .collect(),
    }
}

/// Deterministic bytes that don't repeat.
pub fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut out = Vec::with_capacity(bytes + 8);
    while out.len() < bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        out.extend_from_slice(&state.to_le_bytes());
    }
    out.truncate(bytes);
    out
}

/// Puts files given by name and content.
pub fn put_all(archive: &Archive, files: &BTreeMap<Vec<u8>, Vec<u8>>) -> PutReport {
    let sources = files
        .iter()
        .map(|(name, content)| Source::Stream { reader: Box::new(std::io::Cursor::new(content.clone())), name: ObjectName(name.clone()) });
    archive.put(sources.collect::<Vec<_>>().into_iter(), &Unwatched).expect("put")
}

/// Restores everything into a new folder and reads it back by name.
pub fn get_all(archive: &Archive, watcher: &dyn Watcher) -> (GetReport, BTreeMap<Vec<u8>, Vec<u8>>) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let report = archive.get_all(b"", 0, folder.path(), Existing::Keep, watcher).expect("get");
    let mut found = BTreeMap::new();
    read_tree(folder.path(), folder.path(), &mut found);
    (report, found)
}

pub fn read_tree(root: &Path, folder: &Path, found: &mut BTreeMap<Vec<u8>, Vec<u8>>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let metadata = fs::symlink_metadata(&path).expect("metadata");
        if metadata.is_dir() {
            read_tree(root, &path, found);
        } else if metadata.is_file() {
            let name = path.strip_prefix(root).expect("below the root").as_os_str().as_bytes().to_vec();
            found.insert(name, fs::read(&path).expect("readable"));
        }
    }
}

/// Collects what is reported.
#[derive(Default)]
pub struct Troubles(pub Mutex<Vec<String>>);

impl Troubles {
    pub fn take(&self) -> Vec<String> {
        let mut troubles = std::mem::take(&mut *self.0.lock().expect("not poisoned"));
        troubles.sort();
        troubles
    }
}

impl Watcher for Troubles {
    fn trouble(&self, trouble: Trouble<'_>) {
        let text = match trouble {
            Trouble::Unreadable { path, .. } => format!("unreadable {}", path.display()),
            Trouble::Changed { path } => format!("changed {}", path.display()),
            Trouble::Lost { name, .. } => format!("lost {}", name.display()),
            Trouble::Note { text } => format!("note {text}"),
        };
        self.0.lock().expect("not poisoned").push(text);
    }
}
