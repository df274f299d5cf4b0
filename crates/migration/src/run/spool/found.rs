//! Lots that an earlier run left in a folder, with lists of their complete files.
//!
//! ```text
//! .fulgurite-spool-7.lot      the files' content, one after another
//! .fulgurite-spool-7.files    {"migration":"…","boot":"…"}
//!                             {"id":12,"name":"a/b","offset":0,"bytes":5,"sha256":"…"}
//! ```
//!
//! A file gets its line when all of it is in the lot. Nothing is synced, so after a power failure a
//! lot may be damaged. If the machine was restarted, digests are compared before files are written
//! to the destination. A disk that loses writes otherwise costs attempts of files: what was written
//! is always read back.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fulgurite_digest::{Algorithm, Digest};
use fulgurite_domain::Modified;
use serde::{Deserialize, Serialize};

use super::Spooled;
use crate::lot::LotId;
use crate::run::database::{FileId, as_text, from_text};

/// How the names of all files of a spool folder begin.
const PREFIX: &str = ".fulgurite-spool-";
/// How the name of a lot's content ends.
const CONTENT: &str = ".lot";
/// How the name of a lot's list ends.
const LIST: &str = ".files";

/// No run has as many lots. Higher numbers are not those of lots.
const NUMBER_MAX: u64 = 1 << 62;

/// The first line of a list.
#[derive(Serialize, Deserialize)]
struct Header {
    /// Identifies the migration: another may have files of the same names.
    migration: String,
    /// Identifies the time since the machine was started, if the system can say.
    boot: Option<String>,
}

/// A line for a file.
#[derive(Serialize, Deserialize)]
struct Line {
    id: FileId,
    name: String,
    offset: u64,
    bytes: u64,
    sha256: String,
    /// The digest that the inventory stated of it, as ALGORITHM:HEX.
    expected: Option<String>,
    /// When it was last modified: seconds since 1970 and nanoseconds.
    modified: Option<(i64, u32)>,
    /// What the source states of it until it changes.
    revision: Option<String>,
    /// What the inventory stated of it until it is replaced.
    #[serde(default)]
    listed: Option<String>,
}

/// A file of a lot that is complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpooledFile {
    /// Its identifier in the migration's database.
    pub id: FileId,
    /// Its name.
    pub name: String,
    /// Where it begins in the lot.
    pub offset: u64,
    /// Its length.
    pub bytes: u64,
    /// The SHA-256 with which it was read.
    pub sha256: Digest,
    /// The digest that the inventory stated of it, and that it has.
    pub expected: Option<Digest>,
    /// When it was last modified, if the source says so.
    pub modified: Option<Modified>,
    /// What the source stated of it, until it changes.
    pub revision: Option<String>,
    /// What the inventory stated of it, until it is replaced.
    pub listed: Option<String>,
}

/// A lot that an earlier run left.
#[derive(Debug)]
pub struct FoundLot {
    /// Its number in that run, or an earlier one.
    pub id: LotId,
    /// Its complete files, at least one.
    pub files: Vec<SpooledFile>,
    /// Its content.
    pub spooled: Arc<Spooled>,
    /// True unless the machine is known not to have been restarted since: the content may be
    /// damaged.
    pub is_doubtful: bool,
}

/// The files of a lot in a folder. Once they are released, they are removed when this is dropped.
#[derive(Debug)]
pub struct LotFiles {
    content: PathBuf,
    list: PathBuf,
    is_released: AtomicBool,
}

impl LotFiles {
    pub(super) fn new(folder: &Path, lot: LotId) -> Self {
        let path = |ending| folder.join(format!("{PREFIX}{}{ending}", lot.0));
        Self { content: path(CONTENT), list: path(LIST), is_released: AtomicBool::new(false) }
    }

    pub(super) fn content(&self) -> &Path {
        &self.content
    }

    pub(super) fn release(&self) {
        self.is_released.store(true, Ordering::Relaxed);
    }

    /// Begins both files.
    pub(super) fn create(&self, migration: &str) -> io::Result<(File, File)> {
        // Other users must not read what is spooled.
        let mut options = OpenOptions::new();
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        // A run has no number twice, so something else with this name isn't its own.
        options.write(true).create_new(true);
        let content = options.open(&self.content)?;
        let mut list = options.open(&self.list)?;
        write_line(&mut list, &Header { migration: migration.to_owned(), boot: boot() })?;
        Ok((content, list))
    }

    /// The complete files of a lot that a run of this migration left, as many as both the list and
    /// the content have, and whether they may be damaged.
    fn complete(&self, migration: &str) -> io::Result<(Vec<SpooledFile>, bool)> {
        let length = fs::metadata(&self.content)?.len();
        // After a crash, any part of the list may be missing or damaged.
        let mut lines = BufReader::new(File::open(&self.list)?).split(b'\n').map_while(Result::ok);
        let header: Option<Header> = lines.next().and_then(|line| serde_json::from_slice(&line).ok());
        let Some(header) = header.filter(|header| header.migration == migration) else { return Ok((Vec::new(), true)) };
        let mut files: Vec<SpooledFile> = Vec::new();
        let mut end = 0;
        for line in lines {
            let Ok(Line { id, name, offset, bytes, sha256, expected, modified, revision, listed }) = serde_json::from_slice(&line) else {
                break;
            };
            let (Some(after), Some(sha256)) = (offset.checked_add(bytes), Digest::from_hex(Algorithm::Sha256, &sha256)) else { break };
            let expected = expected.and_then(|text| from_text(&text));
            if offset < end || after > length {
                break;
            }
            end = after;
            let modified = modified.map(|(seconds, nanoseconds)| Modified { seconds, nanoseconds });
            files.push(SpooledFile { id, name, offset, bytes, sha256, expected, modified, revision, listed });
        }
        if end < length {
            // A part of a file, which is read again.
            OpenOptions::new().write(true).open(&self.content)?.set_len(end)?;
        }
        Ok((files, header.boot.is_none() || header.boot != boot()))
    }
}

impl Drop for LotFiles {
    fn drop(&mut self) {
        if self.is_released.load(Ordering::Relaxed) {
            // The next run removes what is left. A lot without a list is never used again.
            let _ = fs::remove_file(&self.list);
            let _ = fs::remove_file(&self.content);
        }
    }
}

/// Notes in a lot's list that a file is complete.
pub(super) fn note(list: &mut File, file: &SpooledFile) -> io::Result<()> {
    let SpooledFile { id, name, offset, bytes, sha256, expected, modified, revision, listed } = file;
    let expected = expected.as_ref().map(as_text);
    let modified = modified.map(|of| (of.seconds, of.nanoseconds));
    let (name, sha256, revision, listed) = (name.clone(), sha256.hex(), revision.clone(), listed.clone());
    write_line(list, &Line { id: *id, name, offset: *offset, bytes: *bytes, sha256, expected, modified, revision, listed })
}

/// Identifies the time since the machine was started, on Linux.
fn boot() -> Option<String> {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").ok().map(|text| text.trim().to_owned())
}

fn write_line(list: &mut File, line: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    list.write_all(&text)
}

/// The lots that runs of this migration left in a folder. All others are removed.
pub(super) fn lots(folder: &Path, migration: &str) -> io::Result<Vec<FoundLot>> {
    let mut numbers: BTreeMap<u64, LotFiles> = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if !entry.file_type()?.is_file() {
            continue;
        }
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| {
            let name = name.strip_prefix(PREFIX)?;
            let number = name.strip_suffix(CONTENT).or_else(|| name.strip_suffix(LIST))?;
            // Nothing else that begins alike is taken for a lot.
            number.parse::<u64>().ok().filter(|parsed| parsed.to_string() == number && *parsed < NUMBER_MAX)
        });
        if let Some(number) = number {
            numbers.entry(number).or_insert_with(|| LotFiles::new(folder, LotId(number)));
        }
    }
    let mut found = Vec::new();
    for (number, lot) in numbers {
        // What can't be read is read from the source again.
        let (files, is_doubtful) = lot.complete(migration).unwrap_or_default();
        if files.is_empty() {
            lot.release();
        } else {
            found.push(FoundLot { id: LotId(number), files, spooled: Arc::new(Spooled::File(lot)), is_doubtful });
        }
    }
    Ok(found)
}
