//! Rebuilding the catalogue from platters and staging alone, with the key store for what is sealed (I4).
//!
//! ```text
//! headers of all platters -> sets         tables of all information platters -> versions, tombstones
//! staging segments        -> staged versions, tombstones
//! ```
//!
//! A platter that is gone has its table rebuilt like any content. Where a version is both staged and on platters, the staged one counts: that is
//! how it is right after a crash, when nobody has said yet that the platters were verified.

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
use self::platters::FoundSet;
pub(crate) use self::strangers::Compared;
pub use self::strangers::UnknownPlatter;
pub use self::unseen::{Unseen, UnseenPlace};
use crate::archive::{Archive, ArchiveError, CATALOGUE_FILE, Parts, Readers, folder_stores, open_keys, read_master_key, read_settings};
use crate::catalogue::{Catalogue, CatalogueError, SqliteCatalogue, Unlisted, UnlistedVersion};
use crate::clock::now_s;
use crate::lock::Lock;
use crate::volume::FolderVolume;
use crate::watch::{Trouble, Watcher};

/// Versions handed to the catalogue in one transaction.
const BATCH: usize = 1_000;

/// What a rebuild found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RebuildReport {
    /// Platters found.
    pub platters: u64,
    /// Sets they belong to.
    pub sets: u64,
    /// Platters of those sets that were not found.
    pub missing: u64,
    /// Versions on platters.
    pub archived: u64,
    /// Versions in staging.
    pub staged: u64,
    /// Versions that were removed, as their tombstones say.
    pub deleted: u64,
    /// Tables that could not be read; the versions on those platters are unknown.
    pub lost_tables: u64,
    /// Versions of which only a part was found, or whose record can't be read.
    pub incomplete: u64,
    /// Versions whose key is not in the key store, and that no tombstone says were removed.
    pub no_key: u64,
    /// Versions that only the earlier catalogue knew and that were taken from it.
    pub carried_over: u64,
    /// Versions that only the earlier catalogue knew and of which nothing was found.
    pub gone: u64,
    /// What could not be looked into.
    pub unseen: Vec<Unseen>,
    /// Keys of versions of which nothing was found. Only counted where no earlier catalogue tells what there is.
    pub surplus_keys: u64,
    /// Where the earlier catalogue is kept, because it could not be read to its end.
    pub kept: Option<PathBuf>,
}

impl RebuildReport {
    /// Whether something is lost, or can't be read with the keys that are there. A version without a key may have been removed, if not
    /// everything was seen.
    #[must_use]
    pub fn has_losses(&self) -> bool {
        self.lost_tables + self.incomplete + self.gone > 0 || (self.no_key > 0 && self.unseen.is_empty())
    }
}

/// What a rebuild does when a store of the settings can't be looked into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnseenStores {
    /// It refuses, and the catalogue stays as it is.
    Refuse,
    /// It goes on with the others. What is on the store is known as far as the earlier catalogue knew it.
    GoOn,
}

/// Makes the catalogue of the archive in `home` anew. The old one is replaced when the new one is complete. What only the old one knew is
/// carried over, as long as no tombstone says that it was removed.
///
/// # Errors
/// [`ArchiveError`]; the old catalogue is as it was then.
pub fn rebuild_catalogue(home: &Path, unseen: UnseenStores, watcher: &dyn Watcher) -> Result<RebuildReport, ArchiveError> {
    let settings = read_settings(home)?;
    let _lock = Lock::take(home)?;
    let catalogue = home.join(CATALOGUE_FILE);
    let fresh = home.join(format!("{CATALOGUE_FILE}.rebuilding"));
    remove_database(&fresh)?;
    let id = settings.archive.id;
    let staging = home.join(&settings.staging.path);
    // The fresh catalogue last: without keys there is nothing to begin.
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
        // A rebuild that was cut short while it replaced the catalogue left the earlier one under this name.
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
    // Closing the last connection brings everything from the write-ahead log into the file.
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
    let text = format!("the earlier catalogue can't be read to its end, so what only it knows is not carried over: {error}");
    watcher.trouble(Trouble::Note { text: &text });
}

/// What came of opening a record.
enum OpenedRecord {
    Record(ObjectRecord),
    /// Its key was destroyed.
    NoKey,
    /// It isn't what was written.
    Unreadable,
}

impl Archive {
    /// Fills an empty catalogue from stores and staging.
    ///
    /// # Errors
    /// [`ArchiveError`] if catalogue, keys or staging fail. What is wrong with platters is reported to `watcher`.
    pub fn rebuild(&self, watcher: &dyn Watcher) -> Result<RebuildReport, ArchiveError> {
        Ok(self.rebuild_from(None, None, watcher)?.0)
    }

    /// Records that the file table of a platter can't be read. Even a set that looks as if it was never finished may have lost its platters.
    /// Nothing is lost for what may lie on something that was not looked into.
    fn note_lost_table(
        &self,
        found: &FoundSet,
        header: &Header,
        why: &str,
        report: &mut RebuildReport,
        watcher: &dyn Watcher,
    ) -> Result<(), ArchiveError> {
        if found.misses_too_many() && !report.unseen.is_empty() {
            let text = format!("what is on platter {} is not known: {} platters of its set were not found", header.platter, found.missing);
            watcher.trouble(Trouble::Note { text: &text });
            return Ok(());
        }
        let text = format!("the file table of platter {} can't be read, and nothing on it is known: {why}", header.platter);
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

    /// Records the platters of sets that were never finished, unless they may only look so because a store could not be looked into.
    fn leave_out<'f>(
        &self,
        sets: impl Iterator<Item = &'f FoundSet>,
        report: &RebuildReport,
        watcher: &dyn Watcher,
    ) -> Result<(), ArchiveError> {
        for found in sets {
            let members = found.header.members.len();
            let text = format!(
                "set {} has {} of its {members} platters, and nothing needs it: it was never finished, or all on it was removed. It is left out of the catalogue",
                found.description.id,
                members - found.missing,
            );
            watcher.trouble(Trouble::Note { text: &text });
            if report.unseen.is_empty() {
                let platters: Vec<_> = found.description.platters.iter().map(|place| place.platter).collect();
                self.catalogue().leave_out(&platters)?;
            }
        }
        Ok(())
    }

    /// Counts and reports what can't be listed.
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

    /// Hands over every unlisted version.
    pub(crate) fn each_unlisted(&self, on_version: &mut dyn FnMut(&UnlistedVersion)) -> Result<(), ArchiveError> {
        let mut after = None;
        loop {
            let page = self.catalogue().unlisted(after, BATCH)?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(last.id);
            page.iter().for_each(&mut *on_version);
        }
    }

    /// Opens the record of a version. What can't be read of it is reported.
    fn open_record(&self, id: VersionId, sealed: bool, record: &[u8], watcher: &dyn Watcher) -> Result<OpenedRecord, ArchiveError> {
        let frames = if sealed {
            let Some(wrapped) = self.keys().get(id)? else { return Ok(OpenedRecord::NoKey) };
            let Ok(key) = self.master_key().unwrap(&wrapped) else {
                let text = format!("the key of version {id} is not wrapped by the master key: it was put under another, or is damaged");
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
                watcher.trouble(Trouble::Note { text: &format!("the record of version {id} can't be read: {why}") });
                Ok(OpenedRecord::Unreadable)
            }
        }
    }
}
