//! What the service knows beside the catalogue: accounts and their keys, buckets, uploads in parts, restores, and what was said of versions
//! after they were put. One SQLite file, `service.db`, in the archive's folder.
//!
//! Most of it can't be made anew from anything else, so a [copy](COPY_NAME) lies in the archive itself, as an object: without the keys of accounts, which
//! must not stand where nothing can be erased, and without what is under way.
//!
//! Buckets and keys are looked up with every request, so they are kept in memory. Another process may change them (`fulgurite accounts`); the
//! engine's data version tells, and is asked at most once a second.

mod accounts;
mod backup;
mod buckets;
mod file;
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

use fulgurite_archive::Archive;
use fulgurite_archive::catalogue::CatalogueError;
use fulgurite_domain::ArchiveId;
use rusqlite::{Connection, ErrorCode};

pub use accounts::{Account, AccountKey, NewKey};
pub(crate) use backup::copy_name;
pub use backup::{COPY_NAME, CopyError, Counts};
pub use buckets::{Bucket, DefaultRetention, PublicAccess, RetentionMode, Unreadable, Versioning};
pub use quotas::{Begun, OwnQuota, Quota};
pub(crate) use recovery::copies;
pub use recovery::{Found, Recovered, begin_without_copy, find, recover};
pub use restores::Restore;
pub use uploads::{MultipartUpload, NewPart, Part};
pub use versions::{Retention, Said, VersionState};

/// Its file in an archive's folder.
pub const FILE: &str = "service.db";

/// How old what is kept in memory may be when another process has changed it.
const FRESH: Duration = Duration::from_secs(1);

/// What can go wrong with it.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The engine failed.
    #[error("{path}: could not {action}: {source}")]
    Engine {
        /// Its file.
        path: PathBuf,
        /// What was to be done.
        action: &'static str,
        /// What the engine says.
        source: rusqlite::Error,
    },
    /// Not what it should be.
    #[error(
        "{path} is damaged ({found}); bring it back from a copy, or move it away: `fulgurite serve` makes it anew from the archive's own copy"
    )]
    Damaged {
        /// Its file.
        path: PathBuf,
        /// What was found.
        found: String,
    },
    /// Made by a newer program.
    #[error("{path} has schema {found}, this program knows up to {}; use a newer fulgurite", file::SCHEMA)]
    Newer {
        /// Its file.
        path: PathBuf,
        /// Its schema.
        found: i64,
    },
    /// Of another archive.
    #[error("{path} belongs to archive {found}, the settings to archive {expected}")]
    OtherArchive {
        /// Its file.
        path: PathBuf,
        /// The archive it belongs to.
        found: ArchiveId,
        /// The archive of the settings.
        expected: ArchiveId,
    },
    /// There is none, and the archive has a copy of it.
    #[error("{path} is not there, and the archive has a copy of {}: `fulgurite serve` makes it anew from that", date(*.copied_ms))]
    Lost {
        /// Where it should be.
        path: PathBuf,
        /// When the copy was put, milliseconds since 1970.
        copied_ms: i64,
    },
    /// It can't be put in its place.
    #[error("{path} can't be made anew: {source}")]
    NotMade {
        /// Where it should be.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The copy in the archive can't be used.
    #[error(
        "{path} is not there, and can't be made anew from its copy in the archive, {COPY_NAME}: {source}. \
         `fulgurite serve --without-copy` begins without, with new accounts and no buckets, and leaves the copy as it is"
    )]
    Copy {
        /// Where it should be.
        path: PathBuf,
        /// What is wrong with the copy.
        source: CopyError,
    },
    /// A panic left it in an unknown state.
    #[error("{path} can't be used any more: a panic left its connection in an unknown state; the server has to be started again")]
    Poisoned {
        /// Its file.
        path: PathBuf,
    },
    /// The catalogue failed.
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
    /// There is an account of that name.
    #[error("there is an account called {name} already")]
    AccountExists {
        /// Its name.
        name: String,
    },
    /// There is none.
    #[error("there is no account called {name}; `fulgurite accounts list` shows those that are")]
    NoAccount {
        /// The name.
        name: String,
    },
    /// There is no such bucket.
    #[error("there is no bucket called {name}")]
    NoBucket {
        /// The name.
        name: String,
    },
    /// There is no such key.
    #[error("there is no access key {id} that works; `fulgurite accounts list` shows those that are")]
    NoKey {
        /// Its identifier.
        id: String,
    },
    /// A name that can't be one.
    #[error("{name:?} can't be the name of an account: 1 to 64 letters, digits, - and _ are")]
    BadName {
        /// The name.
        name: String,
    },
}

impl StateError {
    /// What the engine says of a file: that it is damaged, or what failed.
    fn of_engine(path: &Path, action: &'static str, source: rusqlite::Error) -> Self {
        match source.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Self::Damaged { path: path.to_owned(), found: format!("could not {action}: {source}") }
            }
            _ => Self::Engine { path: path.to_owned(), action, source },
        }
    }
}

/// What is kept in memory.
#[derive(Default)]
struct Kept {
    buckets: HashMap<String, Arc<Bucket>>,
    keys: HashMap<String, Arc<AccountKey>>,
    accounts: HashMap<String, Arc<Account>>,
    data_version: i64,
    looked: Option<Instant>,
}

/// The service's own knowledge.
pub struct State {
    path: PathBuf,
    archive: Arc<Archive>,
    connection: Mutex<Connection>,
    kept: RwLock<Kept>,
    /// Whether anything was ever said of versions: where nothing was, nothing has to be looked up for each that is read.
    says: AtomicBool,
    /// Settings of buckets that were used and can't be read, by bucket and setting.
    unreadable: Mutex<BTreeSet<(String, &'static str)>>,
}

impl State {
    /// Opens the state of an archive, and makes it if there never was one.
    ///
    /// # Errors
    /// [`StateError::Lost`] if it isn't there and the archive has a copy of it; else [`StateError`] says what is wrong with the file.
    pub fn open(archive: Arc<Archive>) -> Result<Self, StateError> {
        let path = archive.home().join(FILE);
        if let Found::Copy(copy) = find(&archive)? {
            return Err(StateError::Lost { path, copied_ms: copy.record.created_ms as i64 });
        }
        let connection = file::open(&path, archive.id())?;
        let state = Self {
            path,
            archive,
            connection: Mutex::new(connection),
            kept: RwLock::default(),
            says: AtomicBool::new(false),
            unreadable: Mutex::default(),
        };
        let says = state.look("look for versions", |connection| {
            connection.query_row("SELECT EXISTS (SELECT 1 FROM version_state) OR EXISTS (SELECT 1 FROM restore)", [], |row| row.get(0))
        })?;
        state.says.store(says, Ordering::Release);
        Ok(state)
    }

    /// The archive that it is the state of.
    #[must_use]
    pub fn archive(&self) -> &Arc<Archive> {
        &self.archive
    }

    fn connection(&self) -> Result<MutexGuard<'_, Connection>, StateError> {
        self.connection.lock().map_err(|_| self.poisoned())
    }

    fn poisoned(&self) -> StateError {
        StateError::Poisoned { path: self.path.clone() }
    }

    /// Whether a panic has left it in an unknown state, after which nothing can be looked up any more.
    pub(crate) fn is_poisoned(&self) -> bool {
        self.connection.is_poisoned() || self.kept.is_poisoned()
    }

    /// Leaves it as a panic would that nothing catches.
    #[cfg(test)]
    pub(crate) fn poison(&self) {
        let held = AssertUnwindSafe(|| {
            let _guard = self.connection();
            panic!("for a test");
        });
        std::panic::catch_unwind(held).expect_err("it panics");
    }

    /// Runs one transaction. One that panics is rolled back, and the panic goes on without the lock: the next caller finds all in order.
    fn change<T>(&self, action: &'static str, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StateError> {
        self.alone(action, |connection| {
            let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
            let result = work(&transaction)?;
            transaction.commit()?;
            Ok(result)
        })
    }

    /// Reads.
    fn look<T>(&self, action: &'static str, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StateError> {
        self.alone(action, |connection| work(connection))
    }

    /// Has the connection for `work` alone. A panic in it poisons the lock only if it leaves a transaction open.
    fn alone<T>(&self, action: &'static str, work: impl FnOnce(&mut Connection) -> rusqlite::Result<T>) -> Result<T, StateError> {
        let mut connection = self.connection()?;
        match std::panic::catch_unwind(AssertUnwindSafe(|| work(&mut connection))) {
            Ok(result) => result.map_err(self.told(action)),
            Err(panic) => {
                if connection.is_autocommit() {
                    drop(connection);
                }
                std::panic::resume_unwind(panic)
            }
        }
    }

    fn told(&self, action: &'static str) -> impl Fn(rusqlite::Error) -> StateError {
        let path = self.path.clone();
        move |source| StateError::of_engine(&path, action, source)
    }

    /// Looks something up in memory, and in the file where it isn't there.
    fn kept<T>(
        &self,
        find: impl Fn(&Kept) -> Option<Arc<T>>,
        load: impl FnOnce(&Connection) -> rusqlite::Result<Option<T>>,
        keep: impl FnOnce(&mut Kept, Arc<T>),
    ) -> Result<Option<Arc<T>>, StateError> {
        {
            let kept = self.kept.read().map_err(|_| self.poisoned())?;
            if kept.looked.is_some_and(|looked| looked.elapsed() < FRESH)
                && let Some(found) = find(&kept)
            {
                return Ok(Some(found));
            }
        }
        let connection = self.connection()?;
        let version: i64 = connection.query_row("PRAGMA data_version", [], |row| row.get(0)).map_err(self.told("ask for changes"))?;
        let mut kept = self.kept.write().map_err(|_| self.poisoned())?;
        if kept.data_version != version {
            *kept = Kept { data_version: version, ..Kept::default() };
        }
        kept.looked = Some(Instant::now());
        if let Some(found) = find(&kept) {
            return Ok(Some(found));
        }
        let loaded = load(&connection).map_err(self.told("look something up"))?.map(Arc::new);
        if let Some(loaded) = &loaded {
            keep(&mut kept, loaded.clone());
        }
        Ok(loaded)
    }

    /// Notes that a setting of a bucket can't be read, and logs it the first time.
    pub(crate) fn note_unreadable(&self, bucket: &str, what: &'static str, why: &dyn fmt::Display) {
        let is_new = self.unreadable_settings().insert((bucket.to_owned(), what));
        if is_new {
            tracing::error!(bucket, setting = what, %why, "a stored setting can't be read, so the strictest takes its place until it is put again or deleted");
        }
    }

    /// How many settings of buckets were used and can't be read.
    pub(crate) fn unreadable(&self) -> usize {
        self.unreadable_settings().len()
    }

    /// Forgets what was noted of a bucket whose settings were changed.
    fn readable_again(&self, bucket: &str) {
        self.unreadable_settings().retain(|(of, _)| of != bucket);
    }

    fn unreadable_settings(&self) -> MutexGuard<'_, BTreeSet<(String, &'static str)>> {
        // Each change is one call, so a panic elsewhere leaves it whole.
        self.unreadable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on something was said of versions.
    fn says_of_versions(&self) {
        self.says.store(true, Ordering::Release);
    }

    /// Forgets what is kept in memory, after this process has changed it.
    fn forget(&self, which: impl FnOnce(&mut Kept)) {
        // Where it is poisoned, nothing is looked up in it any more.
        if let Ok(mut kept) = self.kept.write() {
            which(&mut kept);
        }
    }
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

/// A time as people read it, to the second.
pub(crate) fn date(ms: i64) -> String {
    match time::OffsetDateTime::from_unix_timestamp(ms.div_euclid(1_000)) {
        Ok(time) => {
            let (date, clock) = (time.date(), time.time());
            format!("{date} {:02}:{:02}:{:02} UTC", clock.hour(), clock.minute(), clock.second())
        }
        Err(_) => format!("{ms} ms since 1970"),
    }
}

/// `N` random bytes of the operating system.
///
/// # Panics
/// If it gives none: nothing safe could be done then.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    bytes
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::archive;

    fn panics(work: impl FnOnce()) {
        std::panic::catch_unwind(AssertUnwindSafe(work)).expect_err("it panics");
    }

    #[test]
    fn a_transaction_that_panics_is_rolled_back_and_leaves_the_lock_free() {
        let home = tempfile::tempdir().expect("a folder");
        let state = State::open(archive(home.path())).expect("a state");
        panics(|| {
            let _ = state.change("panic", |connection| -> rusqlite::Result<()> {
                connection.execute("INSERT INTO account (name, id, admin, created) VALUES ('a', 'a', 0, 0)", [])?;
                panic!("in the middle")
            });
        });
        panics(|| drop(state.look("panic", |_| -> rusqlite::Result<()> { panic!("while reading") })));
        assert!(!state.is_poisoned());
        assert!(state.accounts().expect("it can be used").is_empty());
        state.add_account("a", false).expect("it can be changed");
    }

    #[test]
    fn a_state_that_is_poisoned_says_so() {
        let home = tempfile::tempdir().expect("a folder");
        let state = State::open(archive(home.path())).expect("a state");
        state.poison();
        assert!(state.is_poisoned());
        assert!(matches!(state.accounts(), Err(StateError::Poisoned { .. })));
        assert!(matches!(state.bucket("b"), Err(StateError::Poisoned { .. })));
    }
}
