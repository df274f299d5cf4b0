//! An archive as a place of files, for audits and migrations: reading a file restores an object's
//! bytes.
//!
//! Locations are names of objects, below a folder of the archive if the option `prefix` names one,
//! and only files count: symbolic links and empty folders don't. The place is read-only.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use fulgurite_archive::catalogue::{VersionRow, Versions};
use fulgurite_archive::object::{ObjectReader, Opened, ReadError, SUCCESSORS_MAX};
use fulgurite_archive::paging::Pager;
use fulgurite_archive::reserved::{RESERVED_FOLDER, is_reserved};
use fulgurite_archive::staging::StagingError;
use fulgurite_archive::unread::{Hindrance, Unread};
use fulgurite_archive::{Access, Archive, ArchiveError};
use fulgurite_digest::{Algorithm, Digest};
use fulgurite_domain::{Kind, Modified, ObjectName};
use fulgurite_places::{Cause, Connection, LeftOut, Listed, Place, Refusal, location_of, name_at};

use crate::outcome::Misuse;
use crate::text;

/// What the address of such a place begins with; the archive's folder follows.
const SCHEME: &str = "archive:";
/// The option that names a folder of the archive.
const PREFIX: &str = "prefix";
/// Rows of the catalogue that are read at a time.
const PAGE: usize = 1_000;

/// An archive in a folder.
pub(crate) struct ArchivePlace {
    home: PathBuf,
    folder: ArchiveFolder,
    compares_later: bool,
}

/// A folder in an archive, or all of the archive.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ArchiveFolder {
    /// What the names below it begin with: its name and a slash. Empty for all of the archive.
    prefix: Vec<u8>,
}

impl ArchiveFolder {
    /// The folder that the options of a place name.
    ///
    /// # Errors
    /// [`Misuse`] for an option that archives don't have, for one given twice, and for a value that
    /// can't name a folder.
    pub(crate) fn of(options: &[(String, String)]) -> Result<Self> {
        if let Some((key, _)) = options.iter().find(|(key, _)| key != PREFIX) {
            let text = format!("archives have no option {key:?}, only {PREFIX:?}; their own settings say where their stores are");
            return Err(Misuse(text).into());
        }
        let value = match options {
            [] => return Ok(Self::default()),
            [(_, value)] => value,
            _ => return Err(Misuse(format!("the option {PREFIX:?} is given twice")).into()),
        };
        let prefix = [&name_at(value), &b"/"[..]].concat();
        let is_folder =
            prefix[..prefix.len() - 1].split(|&byte| byte == b'/').all(|part| !part.is_empty() && part != b"." && part != b"..");
        if !is_folder || is_reserved(&ObjectName(prefix.clone())) {
            return Err(Misuse(format!("{PREFIX}={value:?} is not the name of a folder in an archive, as in {PREFIX}=photos/2026")).into());
        }
        Ok(Self { prefix })
    }

    /// The folder as in an address of a web page, for those who read it; empty for all of the
    /// archive.
    pub(crate) fn suffix(&self) -> String {
        match self.prefix.split_last() {
            None => String::new(),
            Some((_, folder)) => format!("?{PREFIX}={}", location_of(folder)),
        }
    }

    /// The name of the object at a location.
    pub(crate) fn name_of(&self, location: &str) -> ObjectName {
        ObjectName([&self.prefix[..], &name_at(location)].concat())
    }
}

impl ArchivePlace {
    /// The place that an address stands for, if it is an archive's.
    ///
    /// # Errors
    /// Those of [`ArchiveFolder::of`].
    pub(crate) fn of(address: &str, options: &[(String, String)]) -> Result<Option<Self>> {
        let Some(home) = Self::home_of(address) else { return Ok(None) };
        Ok(Some(Self::new(home.into(), ArchiveFolder::of(options)?)))
    }
}

/// The address of an archive as it is stored: with its full path. `None` if it is another place's.
///
/// # Errors
/// As for [`ArchiveFolder::of`]; also [`Misuse`] if the address names no folder.
pub(crate) fn stored(address: &str, options: &[(String, String)]) -> Result<Option<String>> {
    let Some(folder) = address.strip_prefix(SCHEME) else { return Ok(None) };
    if folder.is_empty() {
        return Err(Misuse(format!("{SCHEME} needs the archive's folder, as in {SCHEME}/srv/archive")).into());
    }
    ArchiveFolder::of(options)?;
    let full = std::path::absolute(folder).with_context(|| format!("can't make {folder:?} an absolute path"))?;
    let full = full.to_str().context("the folder's path isn't UTF-8")?;
    Ok(Some(format!("{SCHEME}{full}")))
}

impl ArchivePlace {
    /// A folder of the archive in `home`.
    pub(crate) fn new(home: PathBuf, folder: ArchiveFolder) -> Self {
        Self { home, folder, compares_later: false }
    }

    /// For readers that compare each content with a digest: content that contradicts the archive's
    /// own digest is passed on, so that they say so.
    pub(crate) fn comparing_later(self) -> Self {
        Self { compares_later: true, ..self }
    }

    /// Opens the archive for reading. Fails if its catalogue is an old copy: files that it lacks,
    /// or has other versions of, aren't lost.
    pub(crate) fn open(&self) -> Result<ArchiveConnection, Refusal> {
        let archive = Archive::open(&self.home, Access::Read).map_err(|error| Refusal::new(Cause::Connection, error.to_string()))?;
        archive.check_catalogue_is_current().map_err(|error| Refusal::new(Cause::Fault, error.to_string()))?;
        Ok(ArchiveConnection {
            archive: archive.reading_directly(),
            folder: self.folder.clone(),
            compares_later: self.compares_later,
            left_out: LeftOut::default(),
        })
    }

    /// Number of versions in the archive's staging that are not on platters yet.
    pub(crate) fn staged_versions(home: &Path) -> Result<u64, ArchiveError> {
        Ok(Archive::open(home, Access::Read)?.catalogue().staged_totals()?.versions)
    }

    /// Where the archive is that an address stands for, if it is an archive's.
    pub(crate) fn home_of(address: &str) -> Option<&Path> {
        address.strip_prefix(SCHEME).map(Path::new)
    }
}

impl Place for ArchivePlace {
    fn connect(&self) -> Result<Box<dyn Connection>, Refusal> {
        Ok(Box::new(self.open()?))
    }

    fn describe(&self) -> String {
        let home = text::path(&self.home);
        match self.folder.prefix.split_last() {
            None => format!("the archive in {home}"),
            Some((_, folder)) => format!("the folder {} of the archive in {home}", ObjectName(folder.to_vec()).display()),
        }
    }
}

/// An archive that is open for reading.
pub(crate) struct ArchiveConnection {
    archive: Archive,
    folder: ArchiveFolder,
    compares_later: bool,
    left_out: LeftOut,
}

impl ArchiveConnection {
    /// Reads all bytes of a file. Returns its length and their SHA-256, which may differ from the
    /// one that the archive has recorded.
    pub(crate) fn sha256(&mut self, location: &str) -> Result<(u64, Digest), Refusal> {
        let mut reader = ObjectReader::new(&self.archive);
        let opened = self.open_newest(&reader, location)?;
        let row = opened.version();
        let found = match reader.read_whole(&opened, &mut |_| Ok(())) {
            Ok(()) => row.record.sha256,
            Err(ReadError::Digest { found, .. }) => found,
            Err(error) => return Err(refusal(&error)),
        };
        let sha256 = Digest::new(Algorithm::Sha256, &found.0).expect("it has the length of a SHA-256");
        Ok((row.record.size, sha256))
    }

    /// True if a file is not on platters yet, but only in staging.
    pub(crate) fn is_staged(&mut self, location: &str) -> Result<bool, Refusal> {
        self.newest(location).map(|row| !row.archived)
    }

    /// Opens the newest version of a file. A server may replace it at any time.
    fn open_newest(&self, reader: &ObjectReader<'_>, location: &str) -> Result<Opened, Refusal> {
        let mut attempts = 0;
        loop {
            match reader.open(&self.newest(location)?) {
                Err(ReadError::Removed) if attempts < SUCCESSORS_MAX => attempts += 1,
                opened => return opened.map_err(|error| refusal(&error)),
            }
        }
    }

    /// The newest version of a file.
    fn newest(&self, location: &str) -> Result<VersionRow, Refusal> {
        let name = self.folder.name_of(location);
        let fault = |error: ArchiveError| Refusal::new(Cause::Fault, error.to_string());
        let found = self.archive.catalogue().newest(&name).map_err(|error| fault(error.into()))?;
        match found {
            Some(row) if row.record.kind == Kind::File => Ok(row),
            Some(row) if row.record.kind != Kind::DeletionMarker => {
                Err(Refusal::new(Cause::Unsupported, "the object is a symbolic link or a folder"))
            }
            _ => {
                // Versions that can't be listed may have any name, so it isn't known to be missing.
                let unlisted = self.archive.catalogue().unlisted_count().map_err(|error| fault(error.into()))?;
                match unlisted {
                    0 => Err(Refusal::new(Cause::Missing, "")),
                    _ => Err(Refusal::new(Cause::Fault, "the catalogue has versions that can't be listed; `fulgurite verify` says why")),
                }
            }
        }
    }
}

impl Connection for ArchiveConnection {
    fn length(&mut self, location: &str) -> Result<u64, Refusal> {
        self.newest(location).map(|row| row.record.size)
    }

    fn read(&mut self, location: &str, sink: &mut dyn FnMut(&[u8]) -> bool) -> Result<u64, Refusal> {
        let mut reader = ObjectReader::new(&self.archive);
        let opened = self.open_newest(&reader, location)?;
        let mut passed = 0;
        let mut is_abandoned = false;
        let read = reader.read_whole(&opened, &mut |bytes| {
            passed += bytes.len() as u64;
            if sink(bytes) {
                return Ok(());
            }
            is_abandoned = true;
            Err(io::Error::other("the reading was ended early"))
        });
        match read {
            Ok(()) => Ok(passed),
            Err(_) if is_abandoned => Err(Refusal::new(Cause::Abandoned, "")),
            // An audit compares digests itself, and finds the same.
            Err(ReadError::Digest { .. }) if self.compares_later => Ok(passed),
            Err(error) => Err(refusal(&error)),
        }
    }

    fn modified(&mut self, location: &str) -> Result<Option<Modified>, Refusal> {
        self.newest(location).map(|row| row.record.modified)
    }

    fn list(&mut self, each: &mut dyn FnMut(Listed) -> bool) -> Result<(), Refusal> {
        let fault = |error: ArchiveError| Refusal::new(Cause::Fault, error.to_string());
        let mut left_out = LeftOut::default();
        let prefix = self.folder.prefix.clone();
        for row in newest(&self.archive, &prefix) {
            let row = row.map_err(fault)?;
            match row.record.kind {
                Kind::File => {}
                Kind::SymbolicLink => left_out.links += 1,
                _ => left_out.empty_folders += 1,
            }
            if row.record.kind != Kind::File {
                continue;
            }
            let location = location_of(&row.record.name.0[prefix.len()..]).into_owned();
            let (modified, tag) = (row.record.modified, Some(row.record.sha256.to_string()));
            if !each(Listed { modified, tag, ..Listed::new(location, Some(row.record.size)) }) {
                return Ok(());
            }
        }
        left_out.older_versions = older_versions(&self.archive, &prefix).map_err(fault)?;
        self.left_out = left_out;
        match self.archive.catalogue().unlisted_count().map_err(|error| Refusal::new(Cause::Fault, error.to_string()))? {
            0 => Ok(()),
            unlisted => {
                let detail = format!("the catalogue has versions that can't be listed ({unlisted}); `fulgurite verify` says why");
                Err(Refusal::new(Cause::Fault, detail))
            }
        }
    }

    fn left_out(&self) -> LeftOut {
        self.left_out
    }

    fn write(&mut self, _: &str, _: u64, _: &mut dyn io::Read) -> Result<(), Refusal> {
        Err(read_only())
    }

    fn remove(&mut self, _: &str) -> Result<(), Refusal> {
        Err(read_only())
    }

    fn presigned_url(&mut self, _: &str, _: Duration) -> Result<Option<String>, Refusal> {
        Ok(None)
    }
}

/// What a failed read means to those who wanted a file.
fn refusal(error: &ReadError) -> Refusal {
    let cause = match (error, error.hindrance()) {
        // The archive says so only if all stores that could have the bytes were read. Keys and the
        // catalogue can come back from copies, so without them nothing is lost for good.
        (ReadError::Archive(ArchiveError::Unread(Unread::Lost(_))), _) => Cause::Lost,
        // Staging has the only copy of what it contains, and was read twice.
        (ReadError::Archive(ArchiveError::Staging(StagingError::Damaged { .. })), _) => Cause::Lost,
        (_, Some(Hindrance::Absent)) => Cause::Connection,
        _ => Cause::Fault,
    };
    Refusal::new(cause, error.to_string())
}

fn read_only() -> Refusal {
    Refusal::new(Cause::Unsupported, "an archive repairs itself: `fulgurite scrub` recovers its platters")
}

/// The newest versions of files whose names begin with `prefix`, without names reserved for the
/// archive.
pub(crate) fn files<'a>(archive: &'a Archive, prefix: &'a [u8]) -> impl Iterator<Item = Result<VersionRow, ArchiveError>> + 'a {
    newest(archive, prefix).filter(|row| row.as_ref().map_or(true, |row| row.record.kind == Kind::File))
}

/// Versions of names with a prefix that are not the newest of their names, but for names reserved
/// for the archive.
fn older_versions(archive: &Archive, prefix: &[u8]) -> Result<u64, ArchiveError> {
    if !prefix.is_empty() {
        return count_older(archive, prefix, &|name| !is_reserved(name));
    }
    let totals = archive.catalogue().totals()?;
    let reserved = count_older(archive, RESERVED_FOLDER.as_bytes(), &is_reserved)?;
    Ok(totals.versions.saturating_sub(totals.objects).saturating_sub(reserved))
}

/// Versions that are not the newest of their names, of the names with a prefix that count.
fn count_older(archive: &Archive, prefix: &[u8], counts: &dyn Fn(&ObjectName) -> bool) -> Result<u64, ArchiveError> {
    let (mut pages, mut older) = (Pager::default(), 0);
    let mut last: Option<ObjectName> = None;
    while let Some(page) = pages.next(|after| archive.catalogue().list(prefix, Versions::All, after, PAGE))? {
        // Versions of one name follow each other.
        for row in page.into_iter().filter(|row| counts(&row.record.name)) {
            older += u64::from(last.as_ref() == Some(&row.record.name));
            last = Some(row.record.name);
        }
    }
    Ok(older)
}

/// The newest versions of all names that are not deleted or reserved for the archive.
fn newest<'a>(archive: &'a Archive, prefix: &'a [u8]) -> impl Iterator<Item = Result<VersionRow, ArchiveError>> + 'a {
    let mut pages = Pager::default();
    let mut rows = Vec::new().into_iter();
    std::iter::from_fn(move || {
        loop {
            if let Some(row) = rows.find(|row: &VersionRow| !is_reserved(&row.record.name)) {
                return Some(Ok(row));
            }
            match pages.next(|after| archive.catalogue().list(prefix, Versions::Newest, after, PAGE)) {
                Ok(Some(page)) => rows = page.into_iter(),
                Ok(None) => return None,
                Err(error) => return Some(Err(error.into())),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_with_the_scheme_are_archives() {
        let home = |address| ArchivePlace::of(address, &[]).expect("no options").map(|place| place.home);
        assert!(home("/srv/archive").is_none() && home("s3://archive:x").is_none());
        assert_eq!(home("archive:/srv/a"), Some("/srv/a".into()));
        assert_eq!(stored("archive:/srv/a", &[]).ok(), Some(Some("archive:/srv/a".to_owned())));
        assert_eq!(stored("/srv/a", &[]).ok(), Some(None));
        assert!(stored("archive:", &[]).is_err());
        assert!(stored("archive:/srv/a", &[("region".into(), "x".into())]).is_err());
        for (prefix, is_valid) in
            [("a", true), ("a/b c", true), ("", false), ("/a", false), ("a/", false), ("a//b", false), ("a/../b", false)]
        {
            assert_eq!(stored("archive:/srv/a", &[("prefix".into(), prefix.into())]).is_ok(), is_valid, "{prefix:?}");
        }
        let twice = [("prefix".to_owned(), "a".to_owned()), ("prefix".to_owned(), "b".to_owned())];
        assert!(stored("archive:/srv/a", &twice).is_err());
        assert!(stored("archive:/srv/a", &[("prefix".into(), RESERVED_FOLDER.trim_end_matches('/').into())]).is_err());
        let relative = stored("archive:a", &[]).expect("it becomes absolute").expect("it is an archive");
        assert!(std::path::Path::new(&relative[SCHEME.len()..]).is_absolute());
    }
}
