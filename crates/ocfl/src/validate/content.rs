//! Reads content and compares it with all digests that the inventories state, in one read.

use std::collections::HashMap;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use fulgurite_digest::{Algorithm, Digest, Digester};

use super::{ContentFile, ObjectCheck};
use crate::folder::{ReadFault, open};
use crate::inventory::{FixityValue, Inventory};
use crate::problem::Problem;
use crate::spec::{INVENTORY, VersionName};

const BUFFER_BYTES: usize = 256 << 10;

/// What an inventory says about a content file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Expected {
    Manifest(Digest),
    Fixity(FixityValue),
}

/// What all inventories say about the content files.
pub(super) struct Expectations<'a> {
    inventory: &'a Inventory,
    by_path: HashMap<&'a str, usize>,
    fixity: HashMap<&'a str, Vec<FixityValue>>,
    /// What inventories of versions say beyond the object's inventory. Few, as a rule.
    further: HashMap<Box<str>, Vec<(Expected, VersionName)>>,
}

impl<'a> Expectations<'a> {
    pub(super) fn new(inventory: &'a Inventory) -> Self {
        Self { inventory, by_path: inventory.contents_by_path(), fixity: inventory.fixity_by_path(), further: HashMap::new() }
    }

    pub(super) fn add(&mut self, path: &str, expected: Expected, version: VersionName) {
        if let Expected::Fixity(value) = &expected
            && self.fixity.get(path).is_some_and(|values| values.contains(value))
        {
            return;
        }
        let known = self.further.entry(path.into()).or_default();
        if known.iter().all(|(other, _)| *other != expected) {
            known.push((expected, version));
        }
    }

    /// Everything that is expected of a file, with the inventory that says so.
    fn of(&self, path: &str) -> Vec<(Expected, Option<VersionName>)> {
        let manifest = self.by_path.get(path).map(|index| Expected::Manifest(self.inventory.manifest[*index].digest.clone()));
        let fixity = self.fixity.get(path).into_iter().flatten().map(|value| Expected::Fixity(value.clone()));
        let further = self.further.get(path).into_iter().flatten().map(|(expected, version)| (expected.clone(), Some(*version)));
        manifest.into_iter().chain(fixity).map(|expected| (expected, None)).chain(further).collect()
    }
}

/// The result of reading one file.
struct Reading {
    index: usize,
    problems: Vec<Problem>,
    fault: Option<ReadFault>,
    bytes: u64,
    /// Identifies the file among others, if it has several names.
    link: Option<(u64, u64)>,
}

impl ObjectCheck<'_> {
    /// Reads all content files, in several threads.
    pub(super) fn content(&mut self, files: &[ContentFile], expectations: &Expectations<'_>) {
        let next = AtomicUsize::new(0);
        let readings: Mutex<Vec<Reading>> = Mutex::new(Vec::new());
        let threads = self.options.threads.clamp(1, files.len().max(1));
        let (mut files_read, mut bytes_read) = (0, 0);
        std::thread::scope(|scope| {
            let work = || {
                let mut buffer = vec![0; BUFFER_BYTES];
                let (mut files_read, mut bytes_read) = (0_u64, 0_u64);
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(file) = files.get(index) else { return (files_read, bytes_read) };
                    let expected = if file.is_utf8 { expectations.of(&file.path) } else { Vec::new() };
                    if expected.is_empty() {
                        continue;
                    }
                    let reading = check_file(index, &self.folder.join(&file.path), &expected, &mut buffer);
                    files_read += u64::from(reading.fault.is_none());
                    bytes_read += reading.bytes;
                    if !reading.problems.is_empty() || reading.fault.is_some() || reading.link.is_some() {
                        readings.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(reading);
                    }
                }
            };
            let workers: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            let own = work();
            let others = workers.into_iter().map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            for (files, bytes) in others.chain([own]) {
                files_read += files;
                bytes_read += bytes;
            }
        });
        self.report.files_read = files_read;
        self.report.bytes_read = bytes_read;

        // The order of the files, whichever thread read them.
        let mut readings = readings.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        readings.sort_unstable_by_key(|reading| reading.index);
        let mut links: HashMap<(u64, u64), usize> = HashMap::new();
        for reading in readings {
            let path = &files[reading.index].path;
            for problem in reading.problems {
                self.add(path, problem);
            }
            if let Some(fault) = reading.fault {
                self.report.add_unreadable(path, fault);
            }
            if let Some(link) = reading.link {
                let first = *links.entry(link).or_insert(reading.index);
                if first != reading.index {
                    self.add(path, Problem::HardLink { other: files[first].path.as_str().into() });
                }
            }
        }
    }
}

fn check_file(index: usize, path: &Path, expected: &[(Expected, Option<VersionName>)], buffer: &mut [u8]) -> Reading {
    let mut reading = Reading { index, problems: Vec::new(), fault: None, bytes: 0, link: None };
    let algorithms: Vec<Algorithm> = expected
        .iter()
        .filter_map(|(expected, _)| match expected {
            Expected::Manifest(digest) | Expected::Fixity(FixityValue::Digest(digest)) => Some(digest.algorithm()),
            Expected::Fixity(FixityValue::Size(_)) => None,
        })
        .collect();
    let result = open(path).and_then(|file| {
        reading.link = link_of(&file)?;
        digest_file(file, &algorithms, buffer)
    });
    let (digests, bytes) = match result {
        Ok(read) => read,
        Err(fault) => {
            reading.fault = Some(fault);
            return reading;
        }
    };
    reading.bytes = bytes;
    let computed = |stated: &Digest| digests.iter().find(|digest| digest.algorithm() == stated.algorithm() && *digest != stated);
    for (expected, version) in expected {
        let inventory = version.map_or(INVENTORY.to_owned(), |version| format!("{version}/{INVENTORY}"));
        let problem = match expected {
            Expected::Manifest(stated) => computed(stated).map(|computed| Problem::ContentDigest {
                algorithm: stated.algorithm(),
                computed: computed.hex(),
                stated: stated.hex(),
                inventory,
            }),
            Expected::Fixity(FixityValue::Digest(stated)) => computed(stated).map(|computed| Problem::FixityDigest {
                algorithm: stated.algorithm(),
                computed: computed.hex(),
                stated: stated.hex(),
                inventory,
            }),
            Expected::Fixity(FixityValue::Size(stated)) => {
                (*stated != bytes).then_some(Problem::FixityLength { bytes, stated: *stated, inventory })
            }
        };
        reading.problems.extend(problem);
    }
    reading
}

/// Reads a file to its end. Returns its digests and its length.
fn digest_file(mut file: File, algorithms: &[Algorithm], buffer: &mut [u8]) -> Result<(Vec<Digest>, u64), ReadFault> {
    let mut digester = Digester::new(algorithms);
    loop {
        match file.read(buffer) {
            Ok(0) => break,
            Ok(read) => digester.update(&buffer[..read]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    let bytes = digester.bytes();
    Ok((digester.finish(), bytes))
}

/// Device and number of a file that has several names.
#[cfg(unix)]
fn link_of(file: &File) -> Result<Option<(u64, u64)>, ReadFault> {
    use std::os::unix::fs::MetadataExt;
    let metadata = file.metadata()?;
    Ok((metadata.nlink() > 1).then(|| (metadata.dev(), metadata.ino())))
}

#[cfg(not(unix))]
#[allow(clippy::unnecessary_wraps)]
fn link_of(_: &File) -> Result<Option<(u64, u64)>, ReadFault> {
    Ok(None)
}
