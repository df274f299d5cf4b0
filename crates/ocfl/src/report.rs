//! What a validation reports.

use crate::findings::Findings;
use crate::folder::ReadFault;
use crate::spec::{SpecVersion, VersionName};

/// How a validation works.
#[derive(Debug, Clone)]
pub struct ValidateOptions {
    /// Reads all content and compares it with all digests. Otherwise files must only be there.
    pub reads_content: bool,
    /// Threads that read content. 0 counts as 1.
    pub threads: usize,
    /// Bigger inventories are not read. Memory is proportional to the inventory.
    pub inventory_bytes_max: u64,
    /// How many errors, warnings and unreadable files are kept, each; all are counted.
    pub keep: usize,
}

impl Default for ValidateOptions {
    fn default() -> Self {
        Self { reads_content: true, threads: 1, inventory_bytes_max: INVENTORY_BYTES_MAX, keep: Findings::KEPT }
    }
}

/// Most bytes of an inventory unless said otherwise: enough for more than a million files in some
/// versions.
pub const INVENTORY_BYTES_MAX: u64 = 1 << 30;

/// A file or folder that could not be read.
#[derive(Debug, thiserror::Error)]
#[error("{}: {fault}", if place.is_empty() { "the folder".to_owned() } else { place.escape_debug().to_string() })]
pub struct Unreadable {
    /// The file or folder, relative to the object or the storage root.
    pub place: String,
    /// Why.
    pub fault: ReadFault,
}

/// What is known about an object or a storage root after its validation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It has no errors.
    Valid,
    /// It has errors.
    Invalid,
    /// No errors were found, but something could not be read.
    Unknown,
}

/// The result of the validation of an object.
#[derive(Debug)]
pub struct Report {
    /// The object's identifier, if its inventory states one.
    pub id: Option<String>,
    /// The specification that the object declares.
    pub spec: Option<SpecVersion>,
    /// The newest version.
    pub head: Option<VersionName>,
    /// What is wrong.
    pub findings: Findings,
    /// What could not be read.
    pub unreadable: Vec<Unreadable>,
    /// How many files and folders could not be read, kept in the list or not.
    pub unreadable_count: u64,
    /// Files of content in the object's folder.
    pub files: u64,
    /// Files that were read and compared with at least one digest.
    pub files_read: u64,
    /// Bytes of these.
    pub bytes_read: u64,
    keep: usize,
}

impl Report {
    pub(crate) fn new(keep: usize) -> Self {
        Self {
            id: None,
            spec: None,
            head: None,
            findings: Findings::keeping(keep),
            unreadable: Vec::new(),
            unreadable_count: 0,
            files: 0,
            files_read: 0,
            bytes_read: 0,
            keep,
        }
    }

    pub(crate) fn add_unreadable(&mut self, place: &str, fault: impl Into<ReadFault>) {
        self.unreadable_count += 1;
        if self.unreadable.len() < self.keep {
            self.unreadable.push(Unreadable { place: place.to_owned(), fault: fault.into() });
        }
    }

    /// What the findings amount to.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        verdict(&self.findings, self.unreadable_count)
    }
}

pub(crate) fn verdict(findings: &Findings, unreadable: u64) -> Verdict {
    match (findings.errors(), unreadable) {
        (0, 0) => Verdict::Valid,
        (0, _) => Verdict::Unknown,
        _ => Verdict::Invalid,
    }
}
