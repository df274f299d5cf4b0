//! A bag in a local folder: its declaration, its metadata, its manifests.

use std::convert::Infallible;
use std::fs;
use std::io::{self, BufReader};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use fulgurite_digest::Digest;

use crate::declaration::{self, Version};
use crate::encoding::{Content, Encoding, Lines};
use crate::finding::{Finding, Place, Problem, Report};
use crate::folder::{self, Entry, Walk};
use crate::info::BagInfo;
use crate::manifest::{self, Manifest, Scope};
use crate::matching::{Facts, Matched, Matching};
use crate::path::PAYLOAD;
use crate::sort::Sorter;

pub(crate) const FETCH: &str = "fetch.txt";
/// Paths have 4096 bytes at most on Linux, and three times as many when percent-encoded.
const LONGEST_LINE_BYTES: usize = 64 << 10;
/// More manifests than algorithms exist; a hostile folder could contain any number.
const MOST_MANIFESTS: usize = 64;

/// Why a bag can't be opened or its check can't be completed. What is wrong with the bag's content
/// is a [`Finding`] instead.
#[derive(Debug, thiserror::Error)]
pub enum BagError {
    /// bagit.txt is missing or can't be used.
    #[error("{}: {finding}", folder.display())]
    Declaration {
        /// The bag's folder.
        folder: PathBuf,
        /// What is wrong with bagit.txt.
        finding: Box<Finding>,
    },
    /// The bag's folder or one of its tag files can't be read.
    #[error("can't read {}: {source}", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Only a hostile folder has so many.
    #[error("{} has more than {MOST_MANIFESTS} manifests: remove those that don't belong to the bag", folder.display())]
    TooManyManifests {
        /// The bag's folder.
        folder: PathBuf,
    },
    /// Temporary files hold what doesn't fit into the memory that was allowed.
    #[error("can't use temporary files in {}: {source}; free space there, or choose another folder", scratch.display())]
    Scratch {
        /// The folder for temporary files.
        scratch: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// How a bag is checked.
#[derive(Debug, Clone)]
pub struct Options {
    /// Whether content is read.
    pub depth: Depth,
    /// Threads that read content.
    pub threads: NonZeroUsize,
    /// Memory in bytes to match manifests and folder in; what doesn't fit goes to temporary files.
    /// With a few mebibytes, they are few and large.
    pub memory_bytes: usize,
    /// Folder for temporary files. They take about twice the size of all manifests, plus 200 bytes
    /// for each file of the bag.
    pub scratch: PathBuf,
    /// How many findings a report keeps. All are counted.
    pub kept_findings: usize,
}

impl Default for Options {
    /// Reads content in one thread, with 64 MiB of memory, and keeps 1,000 findings.
    fn default() -> Self {
        Self { depth: Depth::Full, threads: NonZeroUsize::MIN, memory_bytes: 64 << 20, scratch: std::env::temp_dir(), kept_findings: 1000 }
    }
}

/// Whether content is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// All content is read, and all digests are compared.
    Full,
    /// Presence and sizes of files only, with Payload-Oxum.
    Quick,
}

/// A bag whose declaration, metadata and list of manifests have been read.
#[derive(Debug, Clone)]
pub struct Bag {
    root: PathBuf,
    version: Version,
    encoding: Encoding,
    info: Option<BagInfo>,
    manifests: Vec<Manifest>,
    findings: Vec<Finding>,
}

impl Bag {
    /// Opens the bag in a folder. No content is read, and manifests aren't either.
    ///
    /// # Errors
    /// If bagit.txt is missing, malformed, or of an unknown version or encoding, or if the folder
    /// can't be read.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self, BagError> {
        let root = root.into();
        let unreadable = |name: &str| {
            let path = root.join(name);
            move |source| BagError::Read { path, source }
        };
        let refuse = |finding| BagError::Declaration { folder: root.clone(), finding: Box::new(finding) };
        let mut findings = Vec::new();
        let Some(file) = folder::open_tag_file(&root, declaration::NAME).map_err(unreadable(declaration::NAME))? else {
            return Err(refuse(Finding::error(Place::file(declaration::NAME), Problem::NoDeclaration)));
        };
        let parsed = declaration::parse(file, &mut findings).map_err(unreadable(declaration::NAME))?;
        let (version, encoding) = parsed.map_err(refuse)?;
        let mut manifests = Vec::new();
        for entry in fs::read_dir(&root).map_err(unreadable(""))? {
            let entry = entry.map_err(unreadable(""))?;
            let name = entry.file_name();
            let Some(manifest) = name.to_str().and_then(Manifest::of_name) else { continue };
            if !entry.file_type().map_err(unreadable(&manifest.name))?.is_file() {
                continue;
            }
            if manifests.len() == MOST_MANIFESTS {
                return Err(BagError::TooManyManifests { folder: root });
            }
            manifests.push(manifest);
        }
        manifests.sort();
        let info_name = version.info_name();
        let info = match folder::open_tag_file(&root, info_name).map_err(unreadable(info_name))? {
            None => None,
            Some(file) => {
                let parsed = BagInfo::parse(BufReader::new(file), info_name, version, encoding, &mut findings);
                Some(parsed.map_err(unreadable(info_name))?)
            }
        };
        Ok(Self { root, version, encoding, info, manifests, findings })
    }

    /// The bag's folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The version in bagit.txt.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// The encoding in bagit.txt.
    #[must_use]
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// The metadata; `None` if the bag has no such file.
    #[must_use]
    pub fn info(&self) -> Option<&BagInfo> {
        self.info.as_ref()
    }

    /// The manifests: those of the payload first, then by name.
    #[must_use]
    pub fn manifests(&self) -> &[Manifest] {
        &self.manifests
    }

    /// What was found when the bag was opened.
    pub(crate) fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// True if fetch.txt exists.
    pub(crate) fn has_fetch(&self) -> bool {
        fs::symlink_metadata(self.root.join(FETCH)).is_ok()
    }

    /// Reads all manifests, fetch.txt and the folder, and matches them by path.
    pub(crate) fn match_files(&self, options: &Options, report: &mut Report) -> Result<Matching, BagError> {
        let scratch = |source| BagError::Scratch { scratch: options.scratch.clone(), source };
        let mut facts = Facts::new(Sorter::new(options.memory_bytes, &options.scratch));
        for entry in Walk::new(&self.root) {
            match entry {
                Entry::Path { path, present } => facts.present(&path, present).map_err(scratch)?,
                Entry::EmptyFolder { path } => {
                    if path.starts_with(PAYLOAD.as_bytes()) {
                        report.add(Finding::warning(Place::file(String::from_utf8_lossy(&path)), Problem::EmptyFolder));
                    }
                }
                Entry::Unreadable { path, error } => {
                    let problem = Problem::Unreadable { reason: error.to_string() };
                    report.add(Finding::error(Place::file(String::from_utf8_lossy(&path)), problem));
                }
            }
        }
        for (index, manifest) in self.manifests.iter().enumerate() {
            self.read_lines(&manifest.name, report, |number, text, report| {
                let place = || Place::line(manifest.name.clone(), number);
                let mut warn = |problem| report.add(Finding::warning(place(), problem));
                match manifest::parse_line(text, manifest.scope, manifest.algorithm, self.version, &mut warn) {
                    Ok(line) => facts.listed(&line.path, line.listed.as_deref(), index, number, line.digest.as_ref()).map_err(scratch),
                    Err(problem) => {
                        report.add(Finding::error(place(), problem));
                        Ok(())
                    }
                }
            })?;
        }
        self.read_lines(FETCH, report, |number, text, report| match manifest::parse_fetch_line(text, self.version) {
            Ok(line) => facts.fetched(&line.path, line.listed.as_deref(), number, line.bytes).map_err(scratch),
            Err(problem) => {
                report.add(Finding::error(Place::line(FETCH, number), problem));
                Ok(())
            }
        })?;
        facts.finish(&self.manifests).map_err(scratch)
    }

    /// Passes the lines of a tag file to `each`; does nothing if there is no such file.
    fn read_lines<E>(
        &self,
        name: &str,
        report: &mut Report,
        mut each: impl FnMut(u64, &str, &mut Report) -> Result<(), E>,
    ) -> Result<(), E> {
        let file = match folder::open_tag_file(&self.root, name) {
            Ok(Some(file)) => file,
            Ok(None) => return Ok(()),
            Err(error) => {
                report.add(Finding::error(Place::file(name), Problem::Unreadable { reason: error.to_string() }));
                return Ok(());
            }
        };
        let mut lines = Lines::new(BufReader::with_capacity(64 << 10, file), self.encoding, LONGEST_LINE_BYTES);
        loop {
            let problem = match lines.next_line() {
                Ok(None) => break,
                Err(error) => {
                    report.add(Finding::error(Place::file(name), Problem::Unreadable { reason: error.to_string() }));
                    break;
                }
                Ok(Some((number, Content::Text(text)))) => {
                    if text.trim().is_empty() {
                        report.add(Finding::warning(Place::line(name, number), Problem::EmptyLine));
                    } else {
                        each(number, text, report)?;
                    }
                    continue;
                }
                Ok(Some((number, Content::TooLong))) => (number, Problem::LongLine { limit_bytes: LONGEST_LINE_BYTES }),
                Ok(Some((number, Content::Undecodable))) => (number, Problem::Undecodable),
            };
            report.add(Finding::error(Place::line(name, problem.0), problem.1));
        }
        if lines.has_mark() {
            report.add(Finding::warning(Place::file(name), Problem::Mark));
        }
        if lines.has_lone_cr() {
            report.add(Finding::warning(Place::file(name), Problem::CarriageReturns));
        }
        Ok(())
    }

    /// Passes the usable lines of fetch.txt to `each`, in their order. The report has what is wrong
    /// with the others.
    pub fn fetch(&self, kept_findings: usize, each: &mut dyn FnMut(FetchEntry)) -> Report {
        let mut report = Report::new(kept_findings);
        let Ok(()) = self.read_lines::<Infallible>(FETCH, &mut report, |number, text, report| {
            match manifest::parse_fetch_line(text, self.version) {
                Ok(line) => each(FetchEntry { url: line.url, bytes: line.bytes, path: line.path }),
                Err(problem) => report.add(Finding::error(Place::line(FETCH, number), problem)),
            }
            Ok(())
        });
        report
    }

    /// Lists the payload with its digests, for an audit, in bounded memory. The folder is looked at
    /// for names and sizes; no content is read.
    ///
    /// # Errors
    /// If the bag's folder or the temporary files can't be used.
    pub fn inventory(&self, options: &Options) -> Result<Inventory, BagError> {
        self.list(options, false)
    }

    /// Lists all files of the bag: the payload as [`Bag::inventory`] does, and the files beside it,
    /// with the digests of the tag manifests. Files that no manifest lists are included.
    ///
    /// # Errors
    /// If the bag's folder or the temporary files can't be used.
    pub fn all_files(&self, options: &Options) -> Result<Inventory, BagError> {
        self.list(options, true)
    }

    fn list(&self, options: &Options, has_tag_files: bool) -> Result<Inventory, BagError> {
        let mut report = Report::new(options.kept_findings);
        self.findings.iter().cloned().for_each(|finding| report.add(finding));
        let matching = self.match_files(options, &mut report)?;
        Ok(Inventory {
            matching,
            scopes: self.manifests.iter().map(|manifest| manifest.scope).collect(),
            has_tag_files,
            report,
            scratch: options.scratch.clone(),
        })
    }
}

/// A line of fetch.txt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchEntry {
    /// Where the file can be downloaded.
    pub url: String,
    /// Its length, if it is stated.
    pub bytes: Option<u64>,
    /// Path relative to the bag's folder; always in `data/`.
    pub path: String,
}

/// A file of a bag as an audit needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InventoryEntry {
    /// Whether it is in the payload folder or beside it.
    pub scope: Scope,
    /// Path relative to the bag's folder: as in the folder, or as listed if the file is missing.
    /// Only files that no manifest lists can have one that isn't UTF-8.
    pub path: Vec<u8>,
    /// Bytes of the file, or as fetch.txt states them.
    pub bytes: Option<u64>,
    /// One for each algorithm, weakest first. A digest is left out if a manifest contradicts
    /// itself.
    pub digests: Vec<Digest>,
    /// True if the folder contains the file.
    pub is_present: bool,
    /// True if a manifest spells the path in another way, and the file has an entry of its own
    /// already.
    pub is_alias: bool,
}

/// Files of a bag, listed by [`Bag::inventory`] or [`Bag::all_files`].
pub struct Inventory {
    matching: Matching,
    /// Of the manifests.
    scopes: Vec<Scope>,
    has_tag_files: bool,
    report: Report,
    scratch: PathBuf,
}

impl Inventory {
    /// What was found in the manifests so far. If it has errors, lines were left out.
    #[must_use]
    pub fn report(&self) -> &Report {
        &self.report
    }

    fn entry_of(&mut self, matched: Matched) -> Option<InventoryEntry> {
        matched.notes.into_iter().for_each(|note| self.report.add(note));
        let is_payload = !self.has_tag_files || matched.path.starts_with(PAYLOAD.as_bytes());
        let scope = if is_payload { Scope::Payload } else { Scope::Tags };
        let listed = matched.listed.into_iter().filter(|listed| self.scopes[listed.manifest] == scope);
        let listed: Vec<_> = listed.collect();
        if listed.is_empty() && (!self.has_tag_files || matched.present.is_none()) {
            return None;
        }
        let mut digests: Vec<Digest> = listed.into_iter().filter_map(|listed| listed.digest).collect();
        digests.sort();
        digests.dedup();
        Some(InventoryEntry {
            path: matched.path,
            bytes: matched.present.map(crate::matching::Present::bytes).or(matched.fetched.and_then(|fetched| fetched.bytes)),
            digests,
            scope,
            is_present: matched.present.is_some(),
            is_alias: matched.is_alias,
        })
    }
}

impl Iterator for Inventory {
    type Item = Result<InventoryEntry, BagError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.matching.next()? {
                Ok(matched) => {
                    if let Some(entry) = self.entry_of(matched) {
                        return Some(Ok(entry));
                    }
                }
                Err(source) => return Some(Err(BagError::Scratch { scratch: self.scratch.clone(), source })),
            }
        }
    }
}
