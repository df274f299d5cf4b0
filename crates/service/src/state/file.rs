//! The file `service.db`: creates, migrates, opens or rejects it.

use std::path::Path;
use std::time::Duration;

use fulgurite_archive::open_file::refuse_log_of_another;
use fulgurite_archive::schema::{FileOwner, Schema, archive_of, begin_writing};
use fulgurite_domain::ArchiveId;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::StateError;

/// The schema. The application ID is "FuSe".
const FILE: Schema = Schema { application: 0x4675_5365, migrations: MIGRATIONS };
const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_service.sql"),
    include_str!("migrations/0002_copies.sql"),
    include_str!("migrations/0003_quotas.sql"),
    include_str!("migrations/0004_ages.sql"),
    include_str!("migrations/0005_others.sql"),
    include_str!("migrations/0006_library.sql"),
    include_str!("migrations/0007_lifecycle.sql"),
    include_str!("migrations/0008_set_aside.sql"),
];
/// The schema version that this program creates and supports.
pub(super) const SCHEMA: i64 = FILE.newest();
/// How long to wait for another process that is writing.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);

/// What is wrong with a file.
#[derive(Debug, thiserror::Error)]
pub enum Damage {
    #[error("could not {action}: {source}")]
    Engine { action: &'static str, source: rusqlite::Error },
    #[error("can't create it: {0}")]
    NotCreated(#[source] std::io::Error),
    /// No program ever wrote such a schema.
    #[error("a schema of version {0}")]
    Schema(i64),
    #[error("it belongs to another program")]
    OtherProgram,
    #[error("it doesn't name its archive")]
    Nameless,
    #[error("it has no tables")]
    Empty,
}

/// Whether the file exists and has tables, or is damaged. A crash during its creation can leave a
/// file without tables, and so can another program.
pub(super) fn exists_non_empty(path: &Path, archive: ArchiveId) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.len() > 0)
        && !matches!(open_read_only(path, archive), Err(StateError::Damaged { found: Damage::Empty, .. }))
}

/// Opens the file of an archive; creates it if it is missing.
pub(super) fn open(path: &Path, archive: ArchiveId) -> Result<Connection, StateError> {
    let engine_error = |action| move |source| StateError::of_engine(path, action, source);
    if !path.exists() {
        use std::os::unix::fs::OpenOptionsExt;
        // The file contains wrapped secrets and names.
        let made = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        if let Err(error) = made
            && error.kind() != std::io::ErrorKind::AlreadyExists
        {
            return Err(StateError::Damaged { path: path.to_owned(), found: Damage::NotCreated(error) });
        }
    }
    let mut connection = Connection::open(path).map_err(engine_error("open it"))?;
    refuse_log_of_another(path)?;
    prepare(&connection).map_err(engine_error("prepare it"))?;
    // Nothing is changed in a file whose owner isn't known.
    let found = check(&connection, path, archive)?;
    let prepare_writing = |connection: &Connection| {
        connection.pragma_update(None, "foreign_keys", true)?;
        connection.pragma_update(None, "secure_delete", true)?;
        begin_writing(connection)
    };
    prepare_writing(&connection).map_err(engine_error("prepare it"))?;
    if found.is_none_or(|found| found < SCHEMA) {
        FILE.bring_up_to_date(&mut connection, archive, |_| Ok(())).map_err(engine_error("make it"))?;
        // Another process may have created or migrated it first.
        check(&connection, path, archive)?;
    }
    Ok(connection)
}

/// Opens the file of an archive for reading, possibly with an older schema.
pub(super) fn open_read_only(path: &Path, archive: ArchiveId) -> Result<Connection, StateError> {
    let engine_error = |action| move |source| StateError::of_engine(path, action, source);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(engine_error("open it"))?;
    refuse_log_of_another(path)?;
    prepare(&connection).map_err(engine_error("prepare it"))?;
    match check(&connection, path, archive)? {
        Some(_) => Ok(connection),
        None => Err(StateError::Damaged { path: path.to_owned(), found: Damage::Empty }),
    }
}

fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.set_prepared_statement_cache_capacity(64);
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

/// Checks that the file belongs to the archive and has a supported schema, and returns its version;
/// `None` if the file is empty.
fn check(connection: &Connection, path: &Path, archive: ArchiveId) -> Result<Option<i64>, StateError> {
    let engine_error = |source| StateError::of_engine(path, "read it", source);
    let damaged = |found| StateError::Damaged { path: path.to_owned(), found };
    let found = match FILE.identify(connection).map_err(engine_error)? {
        FileOwner::This(found @ 1..=SCHEMA) => found,
        FileOwner::This(found) if found > SCHEMA => return Err(StateError::Newer { path: path.to_owned(), found }),
        FileOwner::This(found) => return Err(damaged(Damage::Schema(found))),
        FileOwner::Unowned => return Ok(None),
        FileOwner::OtherProgram => return Err(damaged(Damage::OtherProgram)),
    };
    match archive_of(connection).map_err(engine_error)? {
        Some(owner) if owner == archive => Ok(Some(found)),
        Some(owner) => Err(StateError::OtherArchive { path: path.to_owned(), found: owner, expected: archive }),
        None => Err(damaged(Damage::Nameless)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use fulgurite_archive::open_file::{INDEX, LOG, OpenFile, RECORD, with_suffix};
    use fulgurite_archive::schema::version;

    use super::*;

    #[test]
    fn the_file_of_another_program_is_refused_and_left_unchanged() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, archive) = (folder.path().join("service.db"), ArchiveId([7; 16]));
        for version in [0, SCHEMA, SCHEMA + 1] {
            let theirs = Connection::open(&path).expect("a file");
            theirs.execute_batch("CREATE TABLE archive (one, id)").expect("a table");
            theirs.pragma_update(None, "user_version", version).expect("set");
            theirs.close().expect("closed");
            let before = std::fs::read(&path).expect("read");
            for error in [open(&path, archive).err(), open_read_only(&path, archive).err()] {
                assert!(matches!(error, Some(StateError::Damaged { found: Damage::OtherProgram, .. })), "version {version}: {error:?}");
            }
            assert!(std::fs::read(&path).expect("read") == before, "version {version}");
            std::fs::remove_file(&path).expect("removed");
        }
        // A crash during creation leaves a file without tables.
        Connection::open(&path).and_then(|file| file.pragma_update(None, "journal_mode", "wal")).expect("a file");
        assert!(open(&path, archive).is_ok());
    }

    #[test]
    fn a_truncated_file_is_damaged_and_the_error_says_what_to_do() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, archive) = (folder.path().join("service.db"), ArchiveId([7; 16]));
        drop(open(&path, archive).expect("made"));
        let whole = std::fs::read(&path).expect("read");
        for length in [100, 4_096, whole.len() / 2, whole.len() - 4_096] {
            std::fs::write(&path, &whole[..length]).expect("written");
            let error = open(&path, archive).expect_err("it is truncated");
            assert!(matches!(error, StateError::Damaged { .. }), "{length} bytes: {error}");
            assert!(error.to_string().contains("move it away"), "{error}");
        }
        std::fs::write(&path, b"no database at all, and longer than a header of one would be, so that it is read: 100 bytes.........")
            .expect("written");
        assert!(matches!(open(&path, archive), Err(StateError::Damaged { .. })));
    }

    #[test]
    fn a_file_of_the_first_schema_is_migrated_and_keeps_its_rows() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, archive) = (folder.path().join("service.db"), ArchiveId([7; 16]));
        let old = Connection::open(&path).expect("a file");
        old.execute_batch(MIGRATIONS[0]).expect("tables");
        old.execute("INSERT INTO archive (one, id) VALUES (1, ?1)", [archive.0]).expect("a row");
        old.execute("INSERT INTO account (name, id, admin, created) VALUES ('ada', 'x', 1, 5)", []).expect("a row");
        old.pragma_update(None, "application_id", FILE.application).expect("set");
        old.pragma_update(None, "user_version", 1).expect("set");
        drop(old);
        assert!(matches!(open(&path, ArchiveId([8; 16])), Err(StateError::OtherArchive { .. })));
        assert_eq!(version(&open_read_only(&path, archive).expect("an older schema is readable")).expect("a number"), 1);
        let connection = open(&path, archive).expect("migrated");
        assert_eq!(version(&connection).expect("a number"), SCHEMA);
        let name: String = connection.query_row("SELECT name FROM account", [], |row| row.get(0)).expect("a row");
        let is_changed: bool = connection.query_row("SELECT changes > copied FROM copy", [], |row| row.get(0)).expect("a row");
        assert_eq!((name.as_str(), is_changed), ("ada", true));
        connection.pragma_update(None, "user_version", SCHEMA + 1).expect("set");
        drop(connection);
        assert!(matches!(open(&path, archive), Err(StateError::Newer { found, .. }) if found == SCHEMA + 1));
    }

    const ARCHIVE: ArchiveId = ArchiveId([7; 16]);

    fn add(connection: &Connection, account: &str) {
        connection.execute("INSERT INTO account (name, id, admin, created) VALUES (?1, ?1, 1, 5)", [account]).expect("a row");
    }

    fn accounts(connection: &Connection) -> Vec<String> {
        let mut statement = connection.prepare("SELECT name FROM account ORDER BY name").expect("a query");
        statement.query_map([], |row| row.get(0)).expect("rows").collect::<Result<_, _>>().expect("names")
    }

    /// A file with an account in its log, as a killed process leaves it.
    fn killed(path: &Path, account: &str) {
        let connection = open(path, ARCHIVE).expect("made");
        add(&connection, account);
        OpenFile::of(path).record_log().expect("recorded");
        std::mem::forget(connection);
    }

    #[test]
    fn the_log_of_a_replaced_file_is_not_applied_to_the_new_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, other) = (folder.path().join("service.db"), folder.path().join("other.db"));
        killed(&path, "ada");
        let new = open(&other, ARCHIVE).expect("made");
        add(&new, "bo");
        new.close().expect("closed");
        std::fs::rename(&path, folder.path().join("away.db")).expect("renamed");
        std::fs::rename(&other, &path).expect("renamed");
        let bytes = || ["", LOG].map(|suffix| std::fs::read(with_suffix(&path, suffix)).expect("read"));
        let before = bytes();
        for refused in [open(&path, ARCHIVE), open_read_only(&path, ARCHIVE)] {
            let error = refused.expect_err("the log belongs to another file");
            assert!(matches!(error, StateError::LogOfAnother(_)), "{error}");
            let text = error.to_string();
            assert!(text.contains("service.db-wal and") && text.contains("away"), "{text}");
        }
        assert!(bytes() == before, "nothing was changed");
        for suffix in [LOG, INDEX] {
            std::fs::remove_file(with_suffix(&path, suffix)).expect("removed");
        }
        let connection = open(&path, ARCHIVE).expect("it is a file of its own");
        assert_eq!(accounts(&connection), ["bo"]);
        assert!(!with_suffix(&path, RECORD).exists(), "the record was of the removed log");
    }

    #[test]
    fn the_log_of_a_killed_process_is_used_also_after_both_were_copied() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("service.db");
        killed(&path, "ada");
        let copies = tempfile::tempdir().expect("a folder");
        let copy = copies.path().join("service.db");
        let mode = std::fs::metadata(with_suffix(&path, RECORD)).expect("recorded").permissions().mode();
        assert_eq!(mode & 0o077, 0, "the record is its owner's alone");
        for suffix in ["", LOG, RECORD] {
            std::fs::copy(with_suffix(&path, suffix), with_suffix(&copy, suffix)).expect("copied");
        }
        for path in [path, copy] {
            assert_eq!(accounts(&open(&path, ARCHIVE).expect("opened")), ["ada"]);
        }
    }
}
