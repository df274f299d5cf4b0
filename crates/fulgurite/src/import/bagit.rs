//! `import bagit`.

use std::ffi::{OsStr, OsString};
use std::num::NonZeroUsize;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use fulgurite_bagit::{Bag, BagError, Inventory, InventoryEntry, Options, Profile, Report, Scope, Severity, Verdict};

use super::{Importer, Listed, folder_name};
use crate::outcome::Misuse;
use crate::premis::Premis;
use crate::put::storable_name;
use crate::text::count;

/// The folder, below that of a bag's payload, for the files beside the payload.
pub(crate) const TAG_FILES: &str = ".bag";
/// Where a bag has its payload.
const PAYLOAD: &str = "data/";

#[derive(Debug, Args)]
pub(crate) struct Bags {
    /// Folders of bags
    #[arg(required = true, value_name = "BAG")]
    bags: Vec<PathBuf>,
    /// Name in the archive, for a single bag. Default: the name of the bag's folder
    #[arg(long, value_name = "NAME")]
    to: Option<OsString>,
    /// A BagIt profile (JSON) that the bags must conform to
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Also write all staged objects to platters, after each bag and whenever staging is full
    #[arg(long)]
    pub(super) flush: bool,
    #[command(flatten)]
    pub(super) premis: Premis,
}

impl Bags {
    /// The bags with their names in the archive.
    pub(super) fn names(&self) -> Result<Vec<(PathBuf, Vec<u8>)>> {
        if self.to.is_some() && self.bags.len() > 1 {
            return Err(Misuse(format!("--to names a single bag, but {} were given", self.bags.len())).into());
        }
        let mut names: Vec<(PathBuf, Vec<u8>)> = Vec::new();
        for path in &self.bags {
            let name = match &self.to {
                Some(name) => name.as_bytes().to_vec(),
                None => folder_name(path)?,
            };
            let name = storable_name(&name)?;
            if let Some((other, _)) = names.iter().find(|(_, other)| *other == name) {
                let (other, path) = (crate::text::path(other), crate::text::path(path));
                return Err(Misuse(format!("{other} and {path} would get the same name: import each with its own --to")).into());
            }
            names.push((path.clone(), name));
        }
        Ok(names)
    }

    pub(super) fn read_profile(&self) -> Result<Option<Profile>> {
        self.profile.as_deref().map(read_profile).transpose()
    }
}

/// Reads a profile that was named on the command line.
pub(crate) fn read_profile(path: &Path) -> Result<Profile> {
    let text = std::fs::read(path).map_err(|error| Misuse(format!("can't read the profile {}: {error}", crate::text::path(path))))?;
    Profile::parse(&text).map_err(|error| Misuse(format!("{}: {error}", crate::text::path(path))).into())
}

impl Importer<'_> {
    /// Imports the bag in a folder.
    pub(super) fn bag(&mut self, path: &Path, name: &[u8], profile: Option<&Profile>) -> Result<()> {
        self.go_on()?;
        let threads = NonZeroUsize::new(self.threads()).unwrap_or(NonZeroUsize::MIN);
        let options = Options { threads, ..Options::default() };
        let bag = match Bag::open(path) {
            Err(BagError::Declaration { finding, .. }) => {
                self.say_finding(path, true, &finding.text());
                self.refuse(path, "it is not a bag");
                return Ok(());
            }
            bag => bag?,
        };
        let report = bag.validate(&options)?;
        self.say_report(path, &report);
        match report.verdict() {
            Verdict::Valid => {}
            Verdict::ToFetch => {
                self.refuse(path, &format!("{} still to be fetched", crate::text::phrase(report.to_fetch(), "file is", "files are")));
                return Ok(());
            }
            _ => {
                self.refuse(path, &format!("it is not valid: {}", count(report.errors(), "error")));
                return Ok(());
            }
        }
        if let Some(profile) = profile {
            let report = profile.check(&bag, options.kept_findings);
            self.say_report(path, &report);
            if report.errors() > 0 {
                self.refuse(
                    path,
                    &format!("it does not conform to the profile {}: {}", profile.identifier(), count(report.errors(), "error")),
                );
                return Ok(());
            }
        }
        if path.join(PAYLOAD).join(TAG_FILES).symlink_metadata().is_ok() {
            self.refuse(path, &format!("its payload has a file or folder {TAG_FILES}, the name under which an import keeps tag files"));
            return Ok(());
        }
        if let Some(stranger) = self.stranger(name, &|below| place_of(path, below).is_some_and(|place| is_file(&place)))? {
            self.refuse_stranger(path, name, &stranger);
            return Ok(());
        }
        self.store(path, name, &bag, &options)
    }

    fn store(&mut self, path: &Path, name: &[u8], bag: &Bag, options: &Options) -> Result<()> {
        let mut files = bag.all_files(options)?;
        let mut failure = None;
        let mut unknown = 0_u64;
        let sources = sources(path, name, &mut files, &mut failure, &mut unknown);
        let report = self.put(sources)?;
        if let Some(error) = failure {
            return Err(error).with_context(|| format!("{} was stored in part", crate::text::path(path)));
        }
        // Manifests that were changed after the validation, and files that came or went.
        let changed = files.report().errors() + unknown;
        match report.failed + report.unstable + changed {
            0 => self.imported += 1,
            _ if changed > 0 => self.refuse(path, "it was changed after the validation, and is stored in part; import it again"),
            missed => self.refuse(path, &format!("{} could not be stored; import it again", count(missed, "file"))),
        }
        Ok(())
    }

    fn say_report(&self, path: &Path, report: &Report) {
        for finding in report.findings() {
            self.say_finding(path, finding.severity == Severity::Error, &finding.text());
        }
        let left = (report.errors() + report.warnings()).saturating_sub(report.findings().len() as u64);
        if left > 0 {
            self.say_finding(path, report.errors() > 0, &format!("and {}", count(left, "other finding")));
        }
    }
}

/// The files of a bag, to be stored. `unknown` counts files that aren't as the validation left
/// them.
fn sources<'a>(
    path: &'a Path,
    name: &'a [u8],
    files: &'a mut Inventory,
    failure: &'a mut Option<BagError>,
    unknown: &'a mut u64,
) -> impl Iterator<Item = Listed> + Send + 'a {
    std::iter::from_fn(move || {
        loop {
            let entry = match files.next()? {
                Ok(entry) => entry,
                Err(error) => {
                    *failure = Some(error);
                    return None;
                }
            };
            // A payload file without a digest was added since.
            let is_expected = entry.is_present && !(entry.scope == Scope::Payload && entry.digests.is_empty());
            if entry.is_alias {
                continue;
            }
            if is_expected {
                return Some(source(path, name, entry));
            }
            *unknown += 1;
        }
    })
}

fn source(path: &Path, name: &[u8], entry: InventoryEntry) -> Listed {
    let object = match entry.scope {
        Scope::Payload => [name, entry.path.strip_prefix(PAYLOAD.as_bytes()).unwrap_or(&entry.path)].join(&b'/'),
        Scope::Tags => [name, TAG_FILES.as_bytes(), &entry.path].join(&b'/'),
    };
    Listed::new(path.join(OsStr::from_bytes(&entry.path)), object, entry.digests)
}

/// Where a bag has the file of an object, given the object's name below the bag's.
fn place_of(bag: &Path, below: &[u8]) -> Option<PathBuf> {
    if below.split(|byte| *byte == b'/').any(|part| matches!(part, b"" | b"." | b"..")) {
        return None;
    }
    let tag_file = below.strip_prefix(TAG_FILES.as_bytes()).and_then(|rest| rest.strip_prefix(b"/"));
    let relative = |bytes: &[u8]| PathBuf::from(OsString::from_vec(bytes.to_vec()));
    Some(match tag_file {
        Some(tag_file) => bag.join(relative(tag_file)),
        None => bag.join(PAYLOAD).join(relative(below)),
    })
}

fn is_file(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|metadata| metadata.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_found_in_the_bag_that_they_came_from() {
        let place = |below: &[u8]| place_of(Path::new("bag"), below);
        assert_eq!(place(b"a/b"), Some("bag/data/a/b".into()));
        assert_eq!(place(b".bag/bag-info.txt"), Some("bag/bag-info.txt".into()));
        assert_eq!(place(b".bagged"), Some("bag/data/.bagged".into()));
        for outside in [&b"../x"[..], b"a//b", b".bag/../../x", b"", b".bag/"] {
            assert_eq!(place(outside), None);
        }
    }
}
