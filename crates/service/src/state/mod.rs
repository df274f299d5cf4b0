//! State of the service besides the catalogue: accounts and their keys, buckets, multipart uploads,
//! restores, and mutable state of versions. It is one SQLite file, `service.db`, in the archive's
//! folder.
//!
//! Most of it can't be recreated from other data, so the archive contains a [backup](BACKUP_NAME) of
//! it, as an object. The backup omits keys of accounts, which must not be stored where nothing can
//! be erased, and work in progress.
//!
//! Every request looks up buckets and keys, so they are cached in memory. Another process may
//! change them (`fulgurite accounts`), so an entry is used for up to a second; then SQLite's data
//! version tells whether the file was changed.

mod accounts;
mod backup;
mod buckets;
mod displacement;
mod file;
mod library;
mod quotas;
mod recovery;
mod restores;
mod uploads;
mod versions;

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fulgurite_archive::catalogue::CatalogueError;
use fulgurite_archive::open_file::{LogOfAnother, OpenFile};
use fulgurite_archive::{Archive, ArchiveError, CatalogueGaps};
use fulgurite_domain::ArchiveId;
use rusqlite::{Connection, ErrorCode, OptionalExtension, Params, Row};

pub use accounts::NewKey;
pub(crate) use accounts::{Account, AccountKey};
pub use backup::BACKUP_NAME;
pub(crate) use backup::{BackupError, BackupStatus, backup_name};
pub use buckets::RetentionMode;
pub(crate) use buckets::{Bucket, DefaultRetention, PublicAccess, Versioning};
use file::Damage;
pub(crate) use library::KeptLibrary;
pub use quotas::OwnQuota;
pub(crate) use quotas::{Quota, RestoreAdmission};
pub(crate) use recovery::backups;
pub use recovery::{ExistingState, Recovered, begin_without_backup, find, recover, set_newer_backup_aside};
pub(crate) use restores::Restore;
pub(crate) use uploads::{MultipartUpload, Part, begun_ms};
pub(crate) use versions::VersionState;
pub use versions::{Retention, VersionStates};

/// The file's name in the archive's folder.
pub const FILE: &str = "service.db";

/// How long cached entries are used before the file is checked for changes by another process.
const CACHE_TTL: Duration = Duration::from_secs(1);

/// Errors of the state.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The database failed.
    #[error("{path}: could not {action}: {source}")]
    Engine {
        /// The file.
        path: PathBuf,
        /// The operation that failed.
        action: &'static str,
        /// The error of SQLite.
        source: rusqlite::Error,
    },
    /// The file is damaged.
    #[error(
        "{path} is damaged ({found}); restore it from a copy, or move it away: `fulgurite serve` then recovers it from the backup in the archive"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found.
        found: Damage,
    },
    /// The file was written by a newer program.
    #[error("{path} has schema {found}, but this program supports schemas up to {}; use a newer fulgurite", file::SCHEMA)]
    Newer {
        /// The file.
        path: PathBuf,
        /// Schema of the file.
        found: i64,
    },
    /// The file belongs to another archive.
    #[error("{path} belongs to archive {found}, but the settings to archive {expected}")]
    OtherArchive {
        /// The file.
        path: PathBuf,
        /// The archive it belongs to.
        found: ArchiveId,
        /// The archive of the settings.
        expected: ArchiveId,
    },
    /// The file is missing, and the archive has a backup of it.
    #[error("{path} is missing or empty, but the archive has a backup from {}: `fulgurite serve` recovers it from that", date(*.backup_ms))]
    LostWithBackup {
        /// Path of the missing file.
        path: PathBuf,
        /// When the backup was put, in milliseconds since 1970.
        backup_ms: i64,
    },
    /// The file is missing, the archive has no backup of it, and a server has used it.
    #[error(
        "{path} is missing or empty, and the archive has no backup of it, but a server has used this archive: {sign} exists. Restore the \
         file from a copy. Without one, `fulgurite serve --without-copy` starts with a new account and no buckets: all objects stay, but \
         tags and locks that were set after an object was put are lost"
    )]
    LostWithoutBackup {
        /// Path of the missing file.
        path: PathBuf,
        /// What only a server creates.
        sign: PathBuf,
    },
    /// The file is missing, and the archive may have a backup of it that can't be listed.
    #[error(
        "{path} is missing or empty, and the catalogue lists no backup of it. But it lacks versions that exist ({versions}), or places that \
         could not be read ({places}), and the backup may be among them: each backup has a key of its own, so an older copy of the keys \
         opens none. Import the newest copy of the keys (`fulgurite keys import FILE`), bring back absent stores, run `fulgurite catalogue \
         rebuild`, and start again. If that is impossible, `fulgurite serve --without-copy` starts with a new account and no buckets: all \
         objects stay, but tags and locks that were set after an object was put are lost"
    )]
    MayBeUnlisted {
        /// Path of the missing file.
        path: PathBuf,
        /// Versions that can't be listed.
        versions: u64,
        /// Places that the last rebuild could not read.
        places: usize,
    },
    /// The file is older than the newest backup in the archive.
    #[error(
        "{path} is an old copy: the archive has a newer state backup, from {}, so the file may lack changes: accounts, buckets and their \
         settings, tags, retention, legal holds. To use the backup, move {path} away and run `fulgurite serve`: it recovers the state, and \
         accounts get new keys. To use the file without these changes, run `fulgurite serve --without-newer-copy` once; the backup is kept",
        date(*.backup_ms)
    )]
    OldCopy {
        /// The file.
        path: PathBuf,
        /// When the newer backup was put, in milliseconds since 1970.
        backup_ms: i64,
    },
    /// The recovered file can't be put in its place.
    #[error("can't recover {path}: {source}")]
    NotRecovered {
        /// Path of the file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The backup in the archive can't be used.
    #[error(
        "{path} is missing or empty and can't be recovered from its backup in the archive, {BACKUP_NAME}: {source}. {}\
         `fulgurite serve --without-copy` starts with a new account and no buckets, and leaves the backup unchanged",
        if .source.is_out_of_reach() { "Bring back the stores that are needed, and start again. If they are gone for good, " } else { "" }
    )]
    UnusableBackup {
        /// Path of the missing file.
        path: PathBuf,
        /// What is wrong with the backup.
        source: BackupError,
    },
    /// The file was removed or replaced while it is open.
    #[error("{0} was removed or replaced under the running server, so it can't be changed; restart the server")]
    Displaced(PathBuf),
    /// The file was replaced while it was open, and the log of the replaced file is still there.
    #[error(transparent)]
    LogOfAnother(#[from] LogOfAnother),
    /// A panic left the connection in an unknown state.
    #[error("{0} can't be used: a panic left its connection in an unknown state; restart the server")]
    Poisoned(PathBuf),
    /// The catalogue failed.
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
    /// The archive failed.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The account exists already.
    #[error("an account called {0} already exists")]
    AccountExists(String),
    /// The account doesn't exist.
    #[error("no account called {0}; `fulgurite accounts list` lists all accounts")]
    NoAccount(String),
    /// The bucket doesn't exist.
    #[error("no bucket called {0}")]
    NoBucket(String),
    /// No active key has this ID.
    #[error("no active access key {0}; `fulgurite accounts list` lists active keys")]
    NoKey(String),
    /// The account name is invalid.
    #[error("invalid account name {0:?}: use 1-64 letters, digits, \"-\" or \"_\"")]
    InvalidName(String),
}

impl StateError {
    /// The error of an archive whose file is
    /// [lost without a backup](ExistingState::LostWithoutBackup).
    #[must_use]
    pub fn lost_without_backup(archive: &Archive) -> Self {
        Self::LostWithoutBackup { path: archive.home().join(FILE), sign: recovery::sign_of_server(archive) }
    }

    /// The error of an archive whose state backup [may be unlisted](ExistingState::Unlisted).
    #[must_use]
    pub fn may_be_unlisted(archive: &Archive, gaps: &CatalogueGaps) -> Self {
        Self::MayBeUnlisted { path: archive.home().join(FILE), versions: gaps.unlisted + gaps.out_of_sight, places: gaps.unseen.len() }
    }

    /// Converts an error of SQLite: the file is damaged, or an operation failed.
    fn of_engine(path: &Path, action: &'static str, source: rusqlite::Error) -> Self {
        match source.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Self::Damaged { path: path.to_owned(), found: Damage::Engine { action, source } }
            }
            _ => Self::Engine { path: path.to_owned(), action, source },
        }
    }
}

#[derive(Default)]
struct Cache {
    buckets: HashMap<String, Arc<Bucket>>,
    keys: HashMap<String, Arc<AccountKey>>,
    accounts: HashMap<String, Arc<Account>>,
    data_version: i64,
    checked_at: Option<Instant>,
}

/// The state of a service.
pub struct State {
    path: PathBuf,
    archive: Arc<Archive>,
    connection: Mutex<Connection>,
    cache: RwLock<Cache>,
    file: OpenFile,
    /// Result of the last [check](Self::check_file).
    displaced: AtomicBool,
    /// True once any version has mutable state or a restore; otherwise reads skip the lookup.
    may_have_version_rows: AtomicBool,
    /// Unreadable settings that requests needed, by bucket and setting.
    unreadable: Mutex<BTreeSet<(String, &'static str)>>,
}

impl State {
    /// Opens the state of an archive; creates it if there never was one.
    ///
    /// # Errors
    /// [`StateError::LostWithBackup`] if the file is missing and the archive has a backup of it,
    /// [`StateError::LostWithoutBackup`] if it has none but a server has used it,
    /// [`StateError::MayBeUnlisted`] if it may have one that can't be listed,
    /// [`StateError::OldCopy`] if the file is older than the newest backup; other errors if the
    /// file can't be used.
    pub fn open(archive: Arc<Archive>) -> Result<Self, StateError> {
        let path = archive.home().join(FILE);
        match find(&archive)? {
            ExistingState::Backup(backup) => return Err(StateError::LostWithBackup { path, backup_ms: backup.record.created_ms as i64 }),
            ExistingState::LostWithoutBackup => return Err(StateError::lost_without_backup(&archive)),
            ExistingState::Unlisted(gaps) => return Err(StateError::may_be_unlisted(&archive, &gaps)),
            ExistingState::File | ExistingState::Nothing => {}
        }
        let connection = file::open(&path, archive.id())?;
        recovery::refuse_old_copy(&connection, &archive)?;
        let open_file = OpenFile::of(&path);
        if let Err(error) = open_file.record_log() {
            tracing::warn!(path = %path.display(), %error, "can't record which file the log of service.db belongs to");
        }
        let state = Self {
            file: open_file,
            displaced: AtomicBool::new(false),
            path,
            archive,
            connection: Mutex::new(connection),
            cache: RwLock::default(),
            may_have_version_rows: AtomicBool::new(false),
            unreadable: Mutex::default(),
        };
        let may_have_version_rows = state.query("look for version state", |connection| {
            connection.query_row("SELECT EXISTS (SELECT 1 FROM version_state) OR EXISTS (SELECT 1 FROM restore)", [], |row| row.get(0))
        })?;
        state.may_have_version_rows.store(may_have_version_rows, Ordering::Release);
        Ok(state)
    }

    /// The archive of this state.
    #[must_use]
    pub fn archive(&self) -> &Arc<Archive> {
        &self.archive
    }

    fn connection(&self) -> Result<MutexGuard<'_, Connection>, StateError> {
        self.connection.lock().map_err(|_| self.poisoned())
    }

    fn poisoned(&self) -> StateError {
        StateError::Poisoned(self.path.clone())
    }

    /// Whether a panic left the state unusable.
    pub(crate) fn is_poisoned(&self) -> bool {
        self.connection.is_poisoned() || self.cache.is_poisoned()
    }

    /// Poisons the lock, as an uncaught panic would.
    #[cfg(test)]
    pub(crate) fn poison(&self) {
        let held = AssertUnwindSafe(|| {
            let _guard = self.connection();
            panic!("for a test");
        });
        std::panic::catch_unwind(held).expect_err("it panics");
    }

    /// Runs a transaction, unless the file is displaced: the change would be lost with the process.
    /// A panic rolls it back and is passed on without poisoning the lock, so the next caller finds
    /// the state intact.
    fn transact<T>(&self, action: &'static str, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StateError> {
        self.refuse_if_displaced()?;
        self.transact_even_if_displaced(action, work)
    }

    fn transact_even_if_displaced<T>(
        &self,
        action: &'static str,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StateError> {
        self.with_connection(action, |connection| {
            let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
            let result = work(&transaction)?;
            transaction.commit()?;
            Ok(result)
        })
    }

    /// Runs a transaction that requires an account.
    fn transact_with_account<T>(
        &self,
        action: &'static str,
        name: &str,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StateError> {
        let changed = self.transact(action, |connection| match accounts::account(connection, name)? {
            Some(_) => work(connection).map(Some),
            None => Ok(None),
        });
        changed?.ok_or_else(|| StateError::NoAccount(name.to_owned()))
    }

    fn query<T>(&self, action: &'static str, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StateError> {
        self.with_connection(action, |connection| work(connection))
    }

    /// Locks the connection for `work`. A panic poisons the lock only if it leaves a transaction
    /// open.
    fn with_connection<T>(&self, action: &'static str, work: impl FnOnce(&mut Connection) -> rusqlite::Result<T>) -> Result<T, StateError> {
        let mut connection = self.connection()?;
        match std::panic::catch_unwind(AssertUnwindSafe(|| work(&mut connection))) {
            Ok(result) => result.map_err(self.engine_error(action)),
            Err(panic) => {
                if connection.is_autocommit() {
                    drop(connection);
                }
                std::panic::resume_unwind(panic)
            }
        }
    }

    fn engine_error(&self, action: &'static str) -> impl Fn(rusqlite::Error) -> StateError {
        let path = self.path.clone();
        move |source| StateError::of_engine(&path, action, source)
    }

    /// Looks up an entry in the cache, then in the file.
    fn cached<T>(
        &self,
        find: impl Fn(&Cache) -> Option<Arc<T>>,
        load: impl FnOnce(&Connection) -> rusqlite::Result<Option<T>>,
        keep: impl FnOnce(&mut Cache, Arc<T>),
    ) -> Result<Option<Arc<T>>, StateError> {
        {
            let cache = self.cache.read().map_err(|_| self.poisoned())?;
            if cache.checked_at.is_some_and(|checked| checked.elapsed() < CACHE_TTL)
                && let Some(found) = find(&cache)
            {
                return Ok(Some(found));
            }
        }
        let connection = self.connection()?;
        let version: i64 =
            connection.query_row("PRAGMA data_version", [], |row| row.get(0)).map_err(self.engine_error("check for changes"))?;
        let mut cache = self.cache.write().map_err(|_| self.poisoned())?;
        if cache.data_version != version {
            *cache = Cache { data_version: version, ..Cache::default() };
        }
        cache.checked_at = Some(Instant::now());
        if let Some(found) = find(&cache) {
            return Ok(Some(found));
        }
        let loaded = load(&connection).map_err(self.engine_error("look up an entry"))?.map(Arc::new);
        if let Some(loaded) = &loaded {
            keep(&mut cache, loaded.clone());
        }
        Ok(loaded)
    }

    /// Records that a setting of a bucket can't be read, and logs it the first time.
    pub(crate) fn note_unreadable(&self, bucket: &str, what: &'static str, why: &dyn fmt::Display) {
        let is_new = self.unreadable_settings().insert((bucket.to_owned(), what));
        if is_new {
            tracing::error!(bucket, setting = what, %why, "can't read a stored setting; the strictest value applies until it is put again or deleted");
        }
    }

    /// Number of unreadable settings that requests needed.
    pub(crate) fn count_unreadable(&self) -> usize {
        self.unreadable_settings().len()
    }

    fn clear_unreadable(&self, bucket: &str) {
        self.unreadable_settings().retain(|(of, _)| of != bucket);
    }

    fn unreadable_settings(&self) -> MutexGuard<'_, BTreeSet<(String, &'static str)>> {
        // A poisoned lock is usable: each change is a single call.
        self.unreadable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_version_rows(&self) {
        self.may_have_version_rows.store(true, Ordering::Release);
    }

    /// Removes entries from the cache after this process has changed them.
    fn invalidate(&self, remove: impl FnOnce(&mut Cache)) {
        // A poisoned cache is never read again.
        if let Ok(mut cache) = self.cache.write() {
            remove(&mut cache);
        }
    }
}

fn query_one<T>(
    connection: &Connection,
    query: &str,
    values: impl Params,
    read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Option<T>> {
    connection.prepare_cached(query)?.query_row(values, read).optional()
}

fn query_all<T>(
    connection: &Connection,
    query: &str,
    values: impl Params,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    connection.prepare_cached(query)?.query_map(values, read)?.collect()
}

/// The current time, in milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

/// A time for people, to the second.
pub(crate) fn date(ms: i64) -> String {
    match time::OffsetDateTime::from_unix_timestamp(ms.div_euclid(1_000)) {
        Ok(time) => {
            let (date, clock) = (time.date(), time.time());
            format!("{date} {:02}:{:02}:{:02} UTC", clock.hour(), clock.minute(), clock.second())
        }
        Err(_) => format!("{ms} ms since 1970"),
    }
}

/// `N` random bytes from the operating system.
///
/// # Panics
/// If the operating system provides none: continuing would be unsafe.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    bytes
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    hex_simd::encode_to_string(bytes, hex_simd::AsciiCase::Lower)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_gateway::new_archive;

    fn panics(work: impl FnOnce()) {
        std::panic::catch_unwind(AssertUnwindSafe(work)).expect_err("it panics");
    }

    #[test]
    fn a_panicking_transaction_is_rolled_back_and_leaves_the_lock_usable() {
        let home = tempfile::tempdir().expect("a folder");
        let state = State::open(new_archive(home.path())).expect("a state");
        panics(|| {
            let _ = state.transact("panic", |connection| -> rusqlite::Result<()> {
                connection.execute("INSERT INTO account (name, id, admin, created) VALUES ('a', 'a', 0, 0)", [])?;
                panic!("in the middle")
            });
        });
        panics(|| drop(state.query("panic", |_| -> rusqlite::Result<()> { panic!("while reading") })));
        assert!(!state.is_poisoned());
        assert!(state.accounts().expect("it can be used").is_empty());
        state.add_account("a", false).expect("it can be changed");
    }

    #[test]
    fn a_poisoned_state_reports_it() {
        let home = tempfile::tempdir().expect("a folder");
        let state = State::open(new_archive(home.path())).expect("a state");
        state.poison();
        assert!(state.is_poisoned());
        assert!(matches!(state.accounts(), Err(StateError::Poisoned { .. })));
        assert!(matches!(state.bucket("b"), Err(StateError::Poisoned { .. })));
    }
}
