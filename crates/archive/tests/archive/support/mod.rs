//! Archives and file trees for tests.
#![allow(unreachable_pub)]

pub mod different_store;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use fulgurite_archive::settings::{ArchiveSettings, Limits, SetSettings, Settings, StagingSettings, StoreSettings};
use fulgurite_archive::watch::{Trouble, Unwatched, Watcher};
use fulgurite_archive::{Access, Archive, Existing, GetReport, PutReport, Source};
pub use fulgurite_chance::noise;
use fulgurite_codec::checksum::crc64;
use fulgurite_domain::{ArchiveId, Attributes, Digest, Kind, ObjectName, ObjectRecord, VersionId};
use fulgurite_format::{Frames, RecordHead, RecordKind, SegmentHead, TAG_BYTES, encode_record};
use std::sync::Mutex;

/// A temporary folder with an archive.
pub struct Home {
    pub folder: tempfile::TempDir,
}

impl Home {
    /// Creates an archive with sets of this shape, on as many stores.
    pub fn new(information: u16, redundancy: u16) -> Self {
        Self::with(information, redundancy, |_| {})
    }

    /// Like [`new`](Self::new), with changed settings.
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

    /// All existing platter files, by store.
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
        staging: StagingSettings { segment_mib: 16, ..StagingSettings::default() },
        set: SetSettings { information, redundancy, platter_mib: 4_096 },
        medium: fulgurite_archive::settings::MediumSettings::default(),
        decode: fulgurite_archive::settings::DecodeSettings::default(),
        stores: (0..information + redundancy)
            .map(|i| StoreSettings { name: format!("d{i}"), path: format!("stores/d{i}").into() })
            .collect(),
    }
}

/// A record that doesn't come from a file system. The object's size is the length of `content`.
pub fn record(name: &str, version: u64, kind: Kind, content: &[u8], attributes: &[(&str, &[u8])]) -> ObjectRecord {
    let mut sha256 = [0; 32];
    sha256.copy_from_slice(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, content).as_ref());
    ObjectRecord {
        name: ObjectName(name.into()),
        version,
        kind,
        size: content.len() as u64,
        sha256: Digest(sha256),
        modified: None,
        mode: None,
        created_ms: 1_700_000_000_000,
        attributes: Attributes(attributes.iter().map(|(name, value)| ((*name).to_owned(), value.to_vec())).collect()),
    }
}

/// Writes a segment to staging as an interrupted put leaves it after its last sync. The next
/// opening acknowledges its content. Objects are unencrypted, with at most one frame.
pub fn stage(home: &Home, segment: u64, objects: &[(ObjectRecord, &[u8])]) {
    let mut bytes = SegmentHead { archive: ArchiveId([0x5a; 16]), number: segment }.to_bytes().to_vec();
    let mut add = |kind, version, offset, payload: &[u8]| {
        let head = RecordHead {
            kind,
            version,
            offset,
            payload_bytes: payload.len() as u32,
            sealed: false,
            crc64: crc64(payload),
            position: bytes.len() as u64,
        };
        bytes.extend(head.to_bytes(segment));
        bytes.extend(payload);
        bytes.resize(bytes.len().next_multiple_of(64), 0);
    };
    for (number, (record, content)) in (1..).zip(objects) {
        let id = VersionId::new(record.created_ms, [number; 10]);
        let mut stored = content.to_vec();
        if !stored.is_empty() {
            stored.extend([0; TAG_BYTES]);
            Frames::new(id, None).seal(0, &mut stored);
            add(RecordKind::Data, id, 0, &stored);
        }
        add(RecordKind::Object, id, stored.len() as u64, &encode_record(record));
    }
    fs::write(home.path().join(format!("staging/{segment:016x}.segment")), bytes).expect("written");
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

/// Collects reported troubles.
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
            Trouble::Changed { path, .. } => format!("changed {}", path.display()),
            Trouble::Lost { name, .. } => format!("lost {}", name.display()),
            Trouble::Unreachable { name, .. } => format!("unreachable {}", name.display()),
            Trouble::Renamed { name, path, .. } => format!("renamed {} {}", name.display(), path.display()),
            Trouble::Unlisted { version, .. } => format!("unlisted {} {:?}", version.id, version.why),
            Trouble::Note(text) => format!("note {text}"),
        };
        self.0.lock().expect("not poisoned").push(text);
    }
}
