//! What the service knows beside the catalogue: accounts and their keys, buckets, uploads in parts, restores, and what was said of versions
//! after they were put. One SQLite file, `service.db`, in the archive's folder.
//!
//! Buckets and keys are looked up with every request, so they are kept in memory. Another process may change them (`fulgurite accounts`); the
//! engine's data version tells, and is asked at most once a second.

mod accounts;
mod buckets;
mod quotas;
mod restores;
mod uploads;
mod versions;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fulgurite_archive::Archive;
use fulgurite_domain::ArchiveId;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OptionalExtension};

pub use accounts::{Account, AccountKey, NewKey};
pub use buckets::{Bucket, DefaultRetention, PublicAccess, RetentionMode, Versioning};
pub use quotas::{Begun, OwnQuota, Quota};
pub use restores::Restore;
pub use uploads::{MultipartUpload, NewPart, Part};
pub use versions::{Retention, VersionState};

/// Its file in an archive's folder.
pub const FILE: &str = "service.db";

/// Stands in the header of the file: "FuSe".
const APPLICATION: i32 = 0x4675_5365;
/// Each brings the schema from the version of its index to the next. Never changed once released, only added to.
const MIGRATIONS: &[&str] = &[include_str!("schema.sql"), include_str!("quotas.sql")];
/// The schema that this program makes and knows.
const SCHEMA: i64 = MIGRATIONS.len() as i64;
/// How long to wait for another process that is writing.
const PATIENCE: Duration = Duration::from_secs(30);
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
    #[error("{path} is damaged ({found}); bring it back from a copy, or move it away to begin with new accounts and buckets")]
    Damaged {
        /// Its file.
        path: PathBuf,
        /// What was found.
        found: String,
    },
    /// Made by a newer program.
    #[error("{path} has schema {found}, this program knows up to {SCHEMA}; use a newer fulgurite")]
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
}

impl State {
    /// Opens the state of an archive, and makes it if there is none.
    ///
    /// # Errors
    /// [`StateError`] says what is wrong with the file.
    pub fn open(archive: Arc<Archive>) -> Result<Self, StateError> {
        let path = archive.home().join(FILE);
        let connection = open(&path, archive.id())?;
        let state = Self { path, archive, connection: Mutex::new(connection), kept: RwLock::default(), says: AtomicBool::new(false) };
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

    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().expect("no panic holds this lock")
    }

    /// Runs one transaction.
    fn change<T>(&self, action: &'static str, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StateError> {
        let mut connection = self.connection();
        let run = || {
            let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
            let result = work(&transaction)?;
            transaction.commit()?;
            Ok(result)
        };
        run().map_err(self.told(action))
    }

    /// Reads.
    fn look<T>(&self, action: &'static str, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StateError> {
        work(&self.connection()).map_err(self.told(action))
    }

    fn told(&self, action: &'static str) -> impl Fn(rusqlite::Error) -> StateError {
        let path = self.path.clone();
        move |source| StateError::Engine { path: path.clone(), action, source }
    }

    /// Looks something up in memory, and in the file where it isn't there.
    fn kept<T>(
        &self,
        find: impl Fn(&Kept) -> Option<Arc<T>>,
        load: impl FnOnce(&Connection) -> rusqlite::Result<Option<T>>,
        keep: impl FnOnce(&mut Kept, Arc<T>),
    ) -> Result<Option<Arc<T>>, StateError> {
        {
            let kept = self.kept.read().expect("no panic holds this lock");
            if kept.looked.is_some_and(|looked| looked.elapsed() < FRESH)
                && let Some(found) = find(&kept)
            {
                return Ok(Some(found));
            }
        }
        let connection = self.connection();
        let version: i64 = connection.query_row("PRAGMA data_version", [], |row| row.get(0)).map_err(self.told("ask for changes"))?;
        let mut kept = self.kept.write().expect("no panic holds this lock");
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

    /// From now on something was said of versions.
    fn says_of_versions(&self) {
        self.says.store(true, Ordering::Release);
    }

    /// Forgets what is kept in memory, after this process has changed it.
    fn forget(&self, which: impl FnOnce(&mut Kept)) {
        which(&mut self.kept.write().expect("no panic holds this lock"));
    }
}

fn open(path: &Path, archive: ArchiveId) -> Result<Connection, StateError> {
    let told = |action| move |source| StateError::Engine { path: path.to_owned(), action, source };
    if !path.exists() {
        use std::os::unix::fs::OpenOptionsExt;
        // Wrapped secrets and names stand in it.
        let made = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        if let Err(error) = made
            && error.kind() != std::io::ErrorKind::AlreadyExists
        {
            return Err(StateError::Damaged { path: path.to_owned(), found: format!("it can't be made: {error}") });
        }
    }
    let mut connection = Connection::open(path).map_err(told("open it"))?;
    let prepare = |connection: &Connection| {
        connection.busy_timeout(PATIENCE)?;
        connection.pragma_update(None, "trusted_schema", false)?;
        connection.pragma_update(None, "foreign_keys", true)?;
        connection.pragma_update(None, "secure_delete", true)?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        // A commit is on stable storage when it returns.
        connection.pragma_update(None, "synchronous", "full")?;
        connection.set_prepared_statement_cache_capacity(64);
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        connection.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0))
    };
    let found = prepare(&connection).map_err(told("prepare it"))?;
    if (1..=SCHEMA).contains(&found) {
        // Before anything is changed in it.
        check_owner(&connection, path, archive)?;
    }
    if (0..SCHEMA).contains(&found) {
        bring_up_to_date(&mut connection, archive).map_err(told("bring it up to date"))?;
    }
    match found {
        0..=SCHEMA => {}
        found if found > SCHEMA => return Err(StateError::Newer { path: path.to_owned(), found }),
        found => return Err(StateError::Damaged { path: path.to_owned(), found: format!("a schema of version {found}") }),
    }
    check_owner(&connection, path, archive)?;
    Ok(connection)
}

fn bring_up_to_date(connection: &mut Connection, archive: ArchiveId) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    // Read again: another process may have been first.
    let found: i64 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    for migration in MIGRATIONS.get(found as usize..).unwrap_or_default() {
        transaction.execute_batch(migration)?;
    }
    if found == 0 {
        transaction.execute("INSERT INTO archive (one, id) VALUES (1, ?1)", [archive.0])?;
        transaction.pragma_update(None, "application_id", APPLICATION)?;
    }
    transaction.pragma_update(None, "user_version", SCHEMA.max(found))?;
    transaction.commit()
}

/// Makes sure that the file is of this program, and of this archive.
fn check_owner(connection: &Connection, path: &Path, archive: ArchiveId) -> Result<(), StateError> {
    let told = |action| move |source| StateError::Engine { path: path.to_owned(), action, source };
    let application: i32 = connection.pragma_query_value(None, "application_id", |row| row.get(0)).map_err(told("read it"))?;
    if application != APPLICATION {
        return Err(StateError::Damaged { path: path.to_owned(), found: "it is another program's".into() });
    }
    let id: Option<[u8; 16]> =
        connection.query_row("SELECT id FROM archive WHERE one = 1", [], |row| row.get(0)).optional().map_err(told("read it"))?;
    match id.map(ArchiveId) {
        Some(found) if found == archive => Ok(()),
        Some(found) => Err(StateError::OtherArchive { path: path.to_owned(), found, expected: archive }),
        None => Err(StateError::Damaged { path: path.to_owned(), found: "it does not say of which archive it is".into() }),
    }
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
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

    #[test]
    fn a_file_of_the_first_schema_is_brought_up_to_date_and_keeps_what_it_has() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, archive) = (folder.path().join(FILE), ArchiveId([7; 16]));
        let old = Connection::open(&path).expect("a file");
        old.execute_batch(MIGRATIONS[0]).expect("tables");
        old.execute("INSERT INTO archive (one, id) VALUES (1, ?1)", [archive.0]).expect("a row");
        old.execute("INSERT INTO account (name, id, admin, created) VALUES ('ada', 'x', 1, 5)", []).expect("a row");
        old.pragma_update(None, "application_id", APPLICATION).expect("set");
        old.pragma_update(None, "user_version", 1).expect("set");
        drop(old);
        assert!(matches!(open(&path, ArchiveId([8; 16])), Err(StateError::OtherArchive { .. })));
        let connection = open(&path, archive).expect("brought up to date");
        let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0)).expect("a number");
        let name: String = connection.query_row("SELECT name FROM account", [], |row| row.get(0)).expect("a row");
        assert_eq!((version, name.as_str()), (SCHEMA, "ada"));
        assert!(!connection.prepare("SELECT 1 FROM quota").expect("a table").exists([]).expect("a look"));
        connection.pragma_update(None, "user_version", SCHEMA + 1).expect("set");
        drop(connection);
        assert!(matches!(open(&path, archive), Err(StateError::Newer { found, .. }) if found == SCHEMA + 1));
    }
}
