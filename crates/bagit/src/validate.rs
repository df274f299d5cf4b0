//! Checks a bag: is it complete, and is it valid?
//!
//! ```text
//! folder ────┐
//! manifests ─┼─> matching by path ─> presence ─> queue ─> threads: read once, all digests
//! fetch.txt ─┘                          │                    │
//!                                       └──── report <───────┘
//! ```
//!
//! Source: RFC 8493, section 3.

use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;

use fulgurite_digest::{Algorithm, Digest, Digester};

use crate::bag::{Bag, BagError, Depth, Options};
use crate::finding::{Finding, Place, Problem, Report};
use crate::folder;
use crate::info::parse_oxum;
use crate::manifest::Scope;
use crate::matching::{Matched, Present};
use crate::path::PAYLOAD;

const BUFFER_BYTES: usize = 256 << 10;
/// Files that wait for each thread.
const QUEUED_FILES: usize = 16;

/// Opens and checks the bag in a folder.
///
/// # Errors
/// If the folder or a tag file can't be read, or temporary files can't be used. A folder that is no
/// bag, or whose bagit.txt can't be used, gives a report with that finding.
pub fn validate(root: impl Into<PathBuf>, options: &Options) -> Result<Report, BagError> {
    match Bag::open(root) {
        Ok(bag) => bag.validate(options),
        Err(BagError::Declaration { finding, .. }) => {
            let mut report = Report::new(options.kept_findings);
            report.add(*finding);
            Ok(report)
        }
        Err(error) => Err(error),
    }
}

/// A file to be read, and the digests that it must have.
struct Job {
    path: Vec<u8>,
    expected: Vec<(usize, Digest)>,
}

/// Sizes of the payload, with what is still to be fetched.
#[derive(Default)]
struct Payload {
    files: u64,
    bytes: u64,
    has_unknown: bool,
}

impl Bag {
    /// Checks that the bag is complete and, with [`Depth::Full`], valid.
    ///
    /// # Errors
    /// If the bag's folder or temporary files can't be used. What is wrong with the bag is in the
    /// report.
    pub fn validate(&self, options: &Options) -> Result<Report, BagError> {
        let mut report = Report::new(options.kept_findings);
        report.has_read_content = options.depth == Depth::Full;
        self.findings().iter().cloned().for_each(|finding| report.add(finding));
        self.check_structure(&mut report);
        let matching = self.match_files(options, &mut report)?;
        let report = Mutex::new(report);
        let add = |finding| lock(&report).add(finding);
        let mut payload = Payload::default();
        let (sender, receiver) = mpsc::sync_channel::<Job>(options.threads.get() * QUEUED_FILES);
        let receiver = Mutex::new(receiver);
        let outcome = thread::scope(|scope| {
            if options.depth == Depth::Full {
                for _ in 0..options.threads.get() {
                    scope.spawn(|| self.work(&receiver, &report));
                }
            }
            let outcome = (|| -> Result<(), BagError> {
                for matched in matching {
                    let matched = matched.map_err(|source| BagError::Scratch { scratch: options.scratch.clone(), source })?;
                    let expected = self.check_file(&matched, &mut payload, &add);
                    if options.depth == Depth::Full && !expected.is_empty() {
                        // The threads stop only when the sender is gone.
                        let _ = sender.send(Job { path: matched.path, expected });
                    }
                }
                Ok(())
            })();
            drop(sender);
            outcome
        });
        outcome?;
        let mut report = report.into_inner().unwrap_or_else(PoisonError::into_inner);
        self.check_oxum(&payload, options.depth, &mut report);
        report.sort();
        Ok(report)
    }

    fn check_structure(&self, report: &mut Report) {
        if !folder::is_folder(&self.root().join("data")) {
            report.add(Finding::error(Place::file("data"), Problem::NoPayloadFolder));
        }
        if !self.manifests().iter().any(|manifest| manifest.scope == Scope::Payload) {
            report.add(Finding::error(Place::file("manifest-*.txt"), Problem::NoPayloadManifest));
        }
        for manifest in self.manifests().iter().filter(|manifest| manifest.algorithm.is_none()) {
            let problem = Problem::UnsupportedAlgorithm { name: manifest.algorithm_name.clone() };
            report.add(Finding::error(Place::file(manifest.name.clone()), problem));
        }
    }

    /// Checks everything about a file but its content. Returns the digests that it must have.
    fn check_file(&self, matched: &Matched, payload: &mut Payload, add: &dyn Fn(Finding)) -> Vec<(usize, Digest)> {
        matched.notes.iter().cloned().for_each(add);
        let in_payload = matched.path.starts_with(PAYLOAD.as_bytes());
        if let Some(kind) = not_a_file(matched.present) {
            add(Finding::error(matched.place(), Problem::NotAFile { kind }));
            return Vec::new();
        }
        if in_payload {
            self.check_payload_file(matched, payload, add);
        } else {
            self.check_tag_file(matched, add);
        }
        match (matched.present, matched.fetched, matched.listed.first()) {
            (Some(present), Some(fetched), _) => {
                let (found, stated) = (present.bytes(), fetched.bytes.unwrap_or(present.bytes()));
                if found != stated {
                    add(Finding::warning(matched.place(), Problem::OtherLength { found, stated }));
                }
            }
            (None, Some(fetched), _) => add(Finding::error(matched.place(), Problem::ToFetch { line: fetched.line })),
            (None, None, Some(listed)) => {
                let manifest = self.manifests()[listed.manifest].name.clone();
                add(Finding::error(matched.place(), Problem::Missing { manifest, line: listed.line }));
            }
            _ => {}
        }
        if matched.present.is_none() {
            return Vec::new();
        }
        matched.listed.iter().filter_map(|listed| Some((listed.manifest, listed.digest.clone()?))).collect()
    }

    fn check_payload_file(&self, matched: &Matched, payload: &mut Payload, add: &dyn Fn(Finding)) {
        let is_pending = matched.present.is_none() && matched.fetched.is_some();
        if !matched.is_alias && (matched.present.is_some() || is_pending) {
            payload.files += 1;
            match matched.present.map(Present::bytes).or(matched.fetched.and_then(|fetched| fetched.bytes)) {
                Some(bytes) => payload.bytes = payload.bytes.saturating_add(bytes),
                None => payload.has_unknown = true,
            }
        }
        let mut in_any = false;
        let mut lacking = Vec::new();
        for (index, manifest) in self.manifests().iter().enumerate() {
            let is_listed = matched.listed.iter().any(|listed| listed.manifest == index);
            match manifest.scope {
                Scope::Payload if is_listed => in_any = true,
                Scope::Payload => lacking.push(&manifest.name),
                Scope::Tags if is_listed => {
                    let path = String::from_utf8_lossy(&matched.path).into_owned();
                    let problem = Problem::NotForTagManifests { path, kind: "payload file" };
                    add(self.rule_since_1_0(Place::file(manifest.name.clone()), problem));
                }
                Scope::Tags => {}
            }
        }
        if matched.is_alias {
            return;
        }
        if !in_any {
            if matched.fetched.is_some() {
                add(Finding::error(matched.place(), Problem::FetchNotListed { manifest: None }));
            } else if matched.present.is_some() {
                add(Finding::error(matched.place(), Problem::Unlisted));
            }
            return;
        }
        for manifest in lacking {
            add(self.rule_since_1_0(matched.place(), Problem::NotInEvery { manifest: manifest.clone() }));
        }
    }

    fn check_tag_file(&self, matched: &Matched, add: &dyn Fn(Finding)) {
        let path = matched.path.as_slice();
        let described = self.manifests().iter().find(|manifest| manifest.name.as_bytes() == path).map(|manifest| manifest.scope);
        let mut has_tag_manifests = false;
        for (index, manifest) in self.manifests().iter().enumerate().filter(|(_, manifest)| manifest.scope == Scope::Tags) {
            has_tag_manifests = true;
            let is_listed = matched.listed.iter().any(|listed| listed.manifest == index);
            if is_listed && described == Some(Scope::Tags) {
                let problem = Problem::NotForTagManifests { path: String::from_utf8_lossy(path).into_owned(), kind: "tag manifest" };
                add(self.rule_since_1_0(Place::file(manifest.name.clone()), problem));
            }
            if !is_listed && described == Some(Scope::Payload) && !matched.is_alias {
                let problem = Problem::ManifestNotListed { manifest: manifest.name.clone() };
                add(self.rule_since_1_0(matched.place(), problem));
            }
        }
        if has_tag_manifests && described.is_none() && matched.listed.is_empty() {
            add(Finding::warning(matched.place(), Problem::UnlistedTagFile));
        }
    }

    /// What RFC 8493 made a rule was a recommendation before.
    fn rule_since_1_0(&self, place: Place, problem: Problem) -> Finding {
        if self.version().is_final() { Finding::error(place, problem) } else { Finding::warning(place, problem) }
    }

    fn check_oxum(&self, payload: &Payload, depth: Depth, report: &mut Report) {
        (report.payload_files, report.payload_bytes) = (payload.files, payload.bytes);
        let name = self.version().info_name();
        let values: Vec<&str> = self.info().map(|info| info.values("Payload-Oxum").collect()).unwrap_or_default();
        if values.is_empty() && depth == Depth::Quick {
            report.add(Finding::warning(Place::file(name), Problem::NoOxum));
        }
        if values.len() > 1 {
            report.add(self.rule_since_1_0(Place::file(name), Problem::RepeatedOxum));
        }
        for value in values {
            let Some((stated_bytes, stated_files)) = parse_oxum(value) else {
                report.add(Finding::error(Place::file(name), Problem::MalformedOxum { value: value.chars().take(100).collect() }));
                continue;
            };
            let (files, bytes) = (payload.files, payload.bytes);
            // Lengths that fetch.txt leaves open can only add to the sum.
            let has_right_bytes = if payload.has_unknown { bytes <= stated_bytes } else { bytes == stated_bytes };
            if files != stated_files || !has_right_bytes {
                report.add(Finding::error(Place::file(name), Problem::OtherOxum { stated_bytes, stated_files, bytes, files }));
            }
        }
    }

    /// Reads files until the queue has ended.
    fn work(&self, receiver: &Mutex<mpsc::Receiver<Job>>, report: &Mutex<Report>) {
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            // The lock is held while this thread waits, so that one thread takes each file.
            let job = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(job) = job else { return };
            let algorithms: Vec<Algorithm> = job.expected.iter().map(|(_, digest)| digest.algorithm()).collect();
            let path = self.root().join(Path::new(std::ffi::OsStr::from_bytes(&job.path)));
            let place = || Place::file(String::from_utf8_lossy(&job.path));
            let found = match read(&path, &algorithms, &mut buffer) {
                Ok(found) => found,
                Err(error) => {
                    lock(report).add(Finding::error(place(), Problem::Unreadable { reason: error.to_string() }));
                    continue;
                }
            };
            let mut report = lock(report);
            for (manifest, listed) in job.expected {
                report.digests_checked += 1;
                let Some(found) = found.iter().find(|found| found.algorithm() == listed.algorithm()) else { continue };
                if *found != listed {
                    let manifest = self.manifests()[manifest].name.clone();
                    report.add(Finding::error(
                        place(),
                        Problem::OtherDigest { manifest, listed: Box::new(listed), found: Box::new(found.clone()) },
                    ));
                }
            }
        }
    }
}

fn lock(report: &Mutex<Report>) -> std::sync::MutexGuard<'_, Report> {
    report.lock().unwrap_or_else(PoisonError::into_inner)
}

fn not_a_file(present: Option<Present>) -> Option<&'static str> {
    match present? {
        Present::File { .. } => None,
        Present::Link => Some("symbolic link"),
        Present::Other => Some("device, pipe or socket"),
    }
}

pub(crate) fn read(path: &Path, algorithms: &[Algorithm], buffer: &mut [u8]) -> io::Result<Vec<Digest>> {
    let mut file = folder::open_file(path)?;
    let mut digester = Digester::new(algorithms);
    loop {
        match file.read(buffer) {
            Ok(0) => return Ok(digester.finish()),
            Ok(bytes) => digester.update(&buffer[..bytes]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
