//! Rebuilds the catalogue from platters and staging alone, with the key store for sealed versions
//! (I4).
//!
//! ```text
//! headers of all platters -> sets         tables of all information platters -> versions, tombstones
//! staging segments        -> staged versions, tombstones
//! ```
//!
//! The file table of a missing platter is recovered like any other content. If a version is both
//! staged and on platters, the staged one counts: a crash leaves that state when the platters are
//! written but not yet marked as verified.

mod database;
mod earlier;
mod filling;
mod platters;
mod staging;
mod strangers;
mod unseen;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fulgurite_domain::{ObjectRecord, VersionId};
use fulgurite_format::{Frames, Header, decode_record};

use self::database::{copy_database, remove_database, replace_database, with_suffix};
pub(crate) use self::filling::lost_platters;
use self::platters::FoundSet;
pub(crate) use self::strangers::Compared;
pub use self::strangers::UnknownPlatter;
pub use self::unseen::{Unseen, UnseenPlace};
use crate::archive::{Archive, ArchiveError, CATALOGUE_FILE, Parts, Readers, folder_stores, open_keys, read_master_key, read_settings};
use crate::catalogue::{Catalogue, CatalogueError, NOWHERE, SqliteCatalogue, Unlisted, UnlistedVersion};
use crate::clock::now_s;
use crate::lock::Lock;
use crate::volume::FolderVolume;
use crate::watch::{Trouble, Watcher};

/// Versions per catalogue transaction.
const BATCH: usize = 1_000;

/// Result of a rebuild.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RebuildReport {
    /// Platters found.
    pub platters: u64,
    /// Sets that they belong to.
    pub sets: u64,
    /// Platters of those sets that were not found.
    pub missing: u64,
    /// Versions on platters.
    pub archived: u64,
    /// Versions in staging.
    pub staged: u64,
    /// Removed versions, according to their tombstones.
    pub deleted: u64,
    /// File tables that could not be read. The versions on those platters are unknown.
    pub lost_tables: u64,
    /// Versions that were only partly found, or whose record can't be read.
    pub incomplete: u64,
    /// Versions whose key is not in the key store and that have no tombstone.
    pub no_key: u64,
    /// Versions that only the earlier catalogue knew and that were carried over from it.
    pub carried_over: u64,
    /// Versions that only the earlier catalogue knew and of which nothing was found.
    pub gone: u64,
    /// Places that could not be read.
    pub unseen: Vec<Unseen>,
    /// Keys of versions of which nothing was found. Only counted if no earlier catalogue lists all
    /// versions.
    pub surplus_keys: u64,
    /// Path of the earlier catalogue if it was kept because it could not be read completely.
    pub kept: Option<PathBuf>,
}

impl RebuildReport {
    /// True if the staging folder was not seen.
    pub(crate) fn misses_staging(&self) -> bool {
        self.unseen.iter().any(|unseen| unseen.place == UnseenPlace::Staging)
    }

    /// True if something is lost, or can't be read with the existing keys. While places remain
    /// unseen, a version without a key doesn't count, because it may have been removed.
    #[must_use]
    pub fn has_losses(&self) -> bool {
        self.lost_tables + self.incomplete + self.gone > 0 || (self.no_key > 0 && self.unseen.is_empty())
    }
}

/// What a rebuild does if a configured store can't be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnseenStores {
    /// The rebuild fails, and the catalogue stays as it is.
    Refuse,
    /// The rebuild continues with the other stores, and takes the content of the unseen store from
    /// the earlier catalogue.
    GoOn,
}

/// Rebuilds the catalogue of the archive in `home`, and replaces the old catalogue when the new one
/// is complete. Versions that only the old catalogue knows are carried over unless a tombstone says
/// that they were removed.
///
/// # Errors
/// [`ArchiveError`]; the old catalogue is unchanged then.
pub fn rebuild_catalogue(home: &Path, unseen: UnseenStores, watcher: &dyn Watcher) -> Result<RebuildReport, ArchiveError> {
    let settings = read_settings(home)?;
    let _lock = Lock::take(home)?;
    let catalogue = home.join(CATALOGUE_FILE);
    let fresh = home.join(format!("{CATALOGUE_FILE}.rebuilding"));
    remove_database(&fresh)?;
    let id = settings.archive.id;
    let staging = home.join(&settings.staging.path);
    // The fresh catalogue comes last: without keys the rebuild can't start.
    let parts = Parts {
        keys: Box::new(open_keys(home, id)?),
        readers: Readers::default(),
        master_key: read_master_key(&home.join(&settings.archive.master_key))?,
        catalogue: Box::new(SqliteCatalogue::create(&fresh, id)?),
        staging: Arc::new(FolderVolume::new(&staging)),
        stores: folder_stores(home, &settings),
        settings,
    };
    let archive = Archive::assemble(home, parts);
    let rebuild = || {
        archive.check_master_key()?;
        if unseen == UnseenStores::Refuse {
            archive.refuse_unseen_stores()?;
        }
        // A rebuild that was interrupted while replacing the catalogue left the earlier one under
        // this name.
        let aside = with_suffix(&catalogue, ".old");
        let known = [&catalogue, &aside].into_iter().find(|path| path.exists());
        let mut is_damaged = false;
        let mut earlier = match known.map(|path| SqliteCatalogue::open_read_only(path, id)).transpose() {
            Ok(earlier) => earlier,
            Err(error @ CatalogueError::Damaged { .. }) => {
                note_unreadable(&error, watcher);
                is_damaged = true;
                None
            }
            Err(error) => return Err(error.into()),
        };
        let away = archive.find_staging(earlier.as_mut(), unseen, &staging, watcher)?;
        let earlier = earlier.as_mut().map(|earlier| earlier as &mut dyn Catalogue);
        let (report, keeps_old) = archive.rebuild_from(earlier, away, watcher)?;
        archive.mark_staging()?;
        Ok((report, keeps_old || is_damaged))
    };
    let (mut report, keeps_old) = match rebuild() {
        Ok(done) => done,
        Err(error) => {
            drop(archive);
            // The next attempt would remove it too.
            let _ = remove_database(&fresh);
            return Err(error);
        }
    };
    // Closing the last connection checkpoints the write-ahead log into the file.
    drop(archive);
    if keeps_old {
        let kept = with_suffix(&catalogue, &format!(".damaged-{}", now_s()));
        copy_database(&catalogue, &kept)?;
        report.kept = Some(kept);
    }
    replace_database(home, &fresh, &catalogue)?;
    Ok(report)
}

fn note_unreadable(error: &CatalogueError, watcher: &dyn Watcher) {
    let text = format!("can't read all of the earlier catalogue; entries found only there are not carried over: {error}");
    watcher.trouble(Trouble::Note { text: &text });
}

/// Result of opening a record.
enum OpenedRecord {
    Record(ObjectRecord),
    /// The key is not in the key store.
    NoKey,
    /// The record is damaged.
    Unreadable,
}

impl Archive {
    /// Fills an empty catalogue from stores and staging.
    ///
    /// # Errors
    /// [`ArchiveError`] if the catalogue, the key store or staging fails. Damage on platters is
    /// reported to `watcher`.
    pub fn rebuild(&self, watcher: &dyn Watcher) -> Result<RebuildReport, ArchiveError> {
        Ok(self.rebuild_from(None, None, watcher)?.0)
    }

    /// Records that the file table of a platter can't be read, even if the set looks unfinished,
    /// since it may have lost its platters. While places remain unseen, the table of such a set
    /// doesn't count as lost.
    fn note_lost_table(
        &self,
        found: &FoundSet,
        header: &Header,
        why: &str,
        report: &mut RebuildReport,
        watcher: &dyn Watcher,
    ) -> Result<(), ArchiveError> {
        if found.misses_too_many() && !report.unseen.is_empty() {
            let text =
                format!("the contents of platter {} are unknown: {} platters of its set were not found", header.platter, found.missing);
            watcher.trouble(Trouble::Note { text: &text });
            return Ok(());
        }
        let text = format!("can't read the file table of platter {}, so its contents are unknown: {why}", header.platter);
        watcher.trouble(Trouble::Note { text: &text });
        report.lost_tables += 1;
        let table = UnlistedVersion {
            id: VersionId(header.platter.0),
            why: Unlisted::UnreadableTable,
            stored_bytes: 0,
            known_as: None,
            segments: Vec::new(),
        };
        Ok(self.catalogue().adopt_unlisted(&[table])?)
    }

    /// Records the platters of sets that were never finished, unless an unseen store may hold the
    /// missing platters.
    fn leave_out<'f>(
        &self,
        sets: impl Iterator<Item = &'f FoundSet>,
        report: &RebuildReport,
        watcher: &dyn Watcher,
    ) -> Result<(), ArchiveError> {
        for found in sets {
            let members = found.header.members.len();
            let text = format!(
                "set {} has {} of its {members} platters, and no version needs it: it was never finished, or its content was removed. The catalogue omits it",
                found.description.id,
                members - found.missing,
            );
            watcher.trouble(Trouble::Note { text: &text });
            if report.unseen.is_empty() {
                let there = found.description.platters.iter().filter(|place| place.store != NOWHERE);
                let platters: Vec<_> = there.map(|place| place.platter).collect();
                self.catalogue().leave_out(&platters)?;
            }
        }
        Ok(())
    }

    /// Counts and reports unlisted versions.
    fn report_unlisted(&self, report: &mut RebuildReport, watcher: &dyn Watcher) -> Result<(), ArchiveError> {
        self.each_unlisted(&mut |version| {
            match version.why {
                Unlisted::NoKey => report.no_key += 1,
                Unlisted::UnreadableRecord | Unlisted::Incomplete => report.incomplete += 1,
                Unlisted::Gone => report.gone += 1,
                Unlisted::OutOfSight => {}
                Unlisted::UnreadableTable | Unlisted::UnseenStore => return,
            }
            watcher.trouble(Trouble::Unlisted { version, key_is_back: false });
        })
    }

    /// Calls `on_version` with every unlisted version.
    pub(crate) fn each_unlisted(&self, on_version: &mut dyn FnMut(&UnlistedVersion)) -> Result<(), ArchiveError> {
        let mut after = None;
        loop {
            let page = self.catalogue().unlisted(after, BATCH)?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(last.id);
            page.iter().for_each(&mut *on_version);
        }
    }

    /// Decodes the record of a version, and reports records that can't be read.
    fn open_record(&self, id: VersionId, sealed: bool, record: &[u8], watcher: &dyn Watcher) -> Result<OpenedRecord, ArchiveError> {
        let frames = if sealed {
            let Some(wrapped) = self.keys().get(id)? else { return Ok(OpenedRecord::NoKey) };
            let Ok(key) = self.master_key().unwrap(&wrapped) else {
                let text = format!(
                    "the master key can't unwrap the key of version {id}: the version was put under another master key, or its key is damaged"
                );
                watcher.trouble(Trouble::Note { text: &text });
                return Ok(OpenedRecord::Unreadable);
            };
            Frames::new(id, Some(&key))
        } else {
            Frames::new(id, None)
        };
        let opened = frames.open_record(record).map_err(|error| error.to_string());
        match opened.and_then(|record| decode_record(&record).map_err(|error| error.to_string())) {
            Ok(record) => Ok(OpenedRecord::Record(record)),
            Err(why) => {
                watcher.trouble(Trouble::Note { text: &format!("can't read the record of version {id}: {why}") });
                Ok(OpenedRecord::Unreadable)
            }
        }
    }
}
