//! Recovery of a lost `service.db` from the backup in the archive.
//!
//! Recovery is atomic: the file is created under another name, and renamed when it is on disk.

use std::path::{Path, PathBuf};

use fulgurite_archive::catalogue::VersionRow;
use fulgurite_archive::object::{ObjectReader, ReadError};
use fulgurite_archive::open_file::{INDEX, LOG, RECORD, with_suffix};
use fulgurite_archive::{Archive, CatalogueGaps};
use rusqlite::Connection;

use super::backup::{BackupStatus, Counts, Reader, backup_name};
use super::{FILE, StateError, file};
use crate::transfer::parts;

/// The state that exists before it is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExistingState {
    /// The file.
    File,
    /// No file, or one without tables, but a backup in the archive: this version.
    Backup(Box<VersionRow>),
    /// Neither, but a server has used the archive.
    LostWithoutBackup,
    /// Neither, but the catalogue has these gaps, any of which may be a backup.
    Unlisted(CatalogueGaps),
    /// Nothing: no server has used the archive yet.
    Nothing,
}

/// Result of a recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recovered {
    /// When the backup was put, in milliseconds since 1970. Later changes are missing.
    pub backup_ms: i64,
    /// Number of recovered entries.
    pub counts: Counts,
    /// Number of buckets with lifecycle rules. All of the rules are disabled.
    pub with_disabled_rules: u64,
}

/// Looks for the state of an archive.
///
/// # Errors
/// [`StateError`] if the catalogue can't be read.
pub fn find(archive: &Archive) -> Result<ExistingState, StateError> {
    if file::exists_non_empty(&archive.home().join(FILE), archive.id()) {
        return Ok(ExistingState::File);
    }
    if let Some(newest) = backups(archive)?.into_iter().next() {
        return Ok(ExistingState::Backup(Box::new(newest)));
    }
    // The key of each backup is its own, so an older copy of the keys opens none, and a version
    // without a key has no name.
    let gaps = CatalogueGaps::find(archive, &|name, _| *name == backup_name())?;
    Ok(match gaps.is_empty() {
        false => ExistingState::Unlisted(gaps),
        true if sign_of_server(archive).exists() => ExistingState::LostWithoutBackup,
        true => ExistingState::Nothing,
    })
}

/// A folder that every server creates in the archive's folder, after `service.db`, and nothing
/// removes.
pub(super) fn sign_of_server(archive: &Archive) -> PathBuf {
    archive.home().join(parts::FOLDER)
}

/// The backups in the archive, newest first.
pub(crate) fn backups(archive: &Archive) -> Result<Vec<VersionRow>, StateError> {
    let mut backups = archive.reading().versions_of(&backup_name())?;
    backups.retain(|row| row.record.kind.has_content());
    Ok(backups)
}

/// Recovers the state of an archive from its backup, which contains no keys of accounts.
///
/// # Errors
/// [`StateError::UnusableBackup`] if the backup can't be used, or the error that occurred; no file
/// is created then.
pub fn recover(archive: &Archive, backup: &VersionRow) -> Result<Recovered, StateError> {
    let path = archive.home().join(FILE);
    let wrong = |source| StateError::UnusableBackup { path: path.clone(), source };
    let (counts, with_disabled_rules) = make(archive, |connection| {
        let mut reader = Reader::new(connection, archive.id());
        let mut failure = None;
        let read = ObjectReader::new(archive).read(backup, &mut |bytes| {
            reader.read(bytes).map_err(|error| {
                failure = Some(error);
                std::io::ErrorKind::InvalidData.into()
            })
        });
        match (failure, read) {
            (Some(error), _) => return Err(wrong(error)),
            (None, Err(error)) => return Err(wrong(ReadError::into(error))),
            (None, Ok(())) => {}
        }
        let counts = reader.end().map_err(wrong)?;
        let recorded = connection.execute("UPDATE copy SET copied = changes, version = ?1", [backup.id.0]);
        recorded.map_err(|error| wrong(error.into()))?;
        let with_rules = connection.query_row("SELECT count(*) FROM bucket WHERE lifecycle IS NOT NULL", [], |row| row.get::<_, i64>(0));
        Ok((counts, with_rules.map_err(|error| wrong(error.into()))? as u64))
    })?;
    Ok(Recovered { backup_ms: backup.record.created_ms as i64, counts, with_disabled_rules })
}

/// Creates an empty state though there was another. If the archive has a backup of that, it is
/// never replaced, not even by backups of the new state. If this fails, no file is created.
pub fn begin_without_backup(archive: &Archive) -> Result<(), StateError> {
    let newest = backups(archive)?.into_iter().next();
    make(archive, |connection| match &newest {
        Some(newest) => {
            set_aside(connection, newest).map_err(|source| StateError::of_engine(&archive.home().join(FILE), "make it", source))
        }
        None => Ok(()),
    })
}

/// Fails if the file is older than the newest backup in the archive: an old copy of `service.db`,
/// which may lack changes that were acknowledged.
pub(super) fn refuse_old_copy(connection: &Connection, archive: &Archive) -> Result<(), StateError> {
    let path = archive.home().join(FILE);
    match newer_backup(connection, archive, &path)? {
        Some(newer) => Err(StateError::OldCopy { path, backup_ms: newer.record.created_ms as i64 }),
        None => Ok(()),
    }
}

/// The newest backup in the archive, if it was put by a later state than the file has.
fn newer_backup(connection: &Connection, archive: &Archive, path: &Path) -> Result<Option<VersionRow>, StateError> {
    // The order matters: a running server records each backup before it puts it.
    let Some(newest) = backups(archive)?.into_iter().next() else { return Ok(None) };
    let status = BackupStatus::read(connection).map_err(|source| StateError::of_engine(path, "read the backup status", source))?;
    Ok((status.is_older_than(newest.id) && !status.is_of(&newest.record.attributes)).then_some(newest))
}

/// Uses a file although it is [older](StateError::OldCopy) than the newest backup, which is kept
/// from now on. Returns that backup; `None` if the file isn't older.
///
/// # Errors
/// [`StateError`] if the file or the catalogue can't be used.
pub fn set_newer_backup_aside(archive: &Archive) -> Result<Option<VersionRow>, StateError> {
    let path = archive.home().join(FILE);
    let connection = file::open(&path, archive.id())?;
    let newer = newer_backup(&connection, archive, &path)?;
    if let Some(newer) = &newer {
        set_aside(&connection, newer).map_err(|source| StateError::of_engine(&path, "set a backup aside", source))?;
    }
    Ok(newer)
}

fn set_aside(connection: &Connection, backup: &VersionRow) -> rusqlite::Result<()> {
    connection.execute("UPDATE copy SET set_aside = ?1", [backup.id.0]).map(drop)
}

/// Creates and fills the file, in one transaction.
fn make<T>(archive: &Archive, fill: impl FnOnce(&Connection) -> Result<T, StateError>) -> Result<T, StateError> {
    let path = archive.home().join(FILE);
    let fresh = with_suffix(&path, ".recovering");
    let not_made = |source| StateError::NotRecovered { path: path.clone(), source };
    let engine_error = |source| StateError::of_engine(&fresh, "make it", source);
    remove_database(&fresh).map_err(not_made)?;
    let made = (|| {
        let mut connection = file::open(&fresh, archive.id())?;
        let transaction = connection.transaction().map_err(engine_error)?;
        let made = fill(&transaction)?;
        transaction.commit().map_err(engine_error)?;
        // Moves everything from the write-ahead log into the file.
        connection.close().map_err(|(_, source)| engine_error(source))?;
        // Closing reports nothing if that fails, as on a full disk.
        if std::fs::metadata(with_suffix(&fresh, LOG)).is_ok_and(|log| log.len() > 0) {
            let why = "its log could not be moved into it: is the disk full?";
            return Err(not_made(std::io::Error::new(std::io::ErrorKind::StorageFull, why)));
        }
        Ok(made)
    })();
    let Ok(made) = made else {
        // The next attempt would remove the file too.
        let _ = remove_database(&fresh);
        return made;
    };
    let sync = || std::fs::File::open(archive.home()).and_then(|home| home.sync_all());
    let put = || {
        // SQLite would apply the log of the lost file to this one.
        remove_database(&path)?;
        sync()?;
        std::fs::rename(&fresh, &path)?;
        sync()
    };
    put().map_err(not_made)?;
    Ok(made)
}

fn remove_database(path: &Path) -> std::io::Result<()> {
    ["", LOG, INDEX, RECORD, "-journal"].iter().try_for_each(|suffix| match std::fs::remove_file(with_suffix(path, suffix)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fulgurite_archive::watch::Unwatched;
    use fulgurite_archive::{Access, Source, UnseenStores, rebuild_catalogue};
    use fulgurite_domain::{Attributes, VersionId};

    use super::*;
    use crate::state::backup::Changes;
    use crate::state::{BackupError, State, VersionStates};
    use crate::test_gateway::new_archive;

    fn put(archive: &Archive, text: &str) {
        let source = Source::Stream { reader: Box::new(std::io::Cursor::new(text.to_owned())), name: backup_name() };
        assert_eq!(archive.put(std::iter::once(source), &Unwatched).expect("put").objects, 1);
    }

    fn newest(archive: &Archive) -> VersionRow {
        match find(archive).expect("looked") {
            ExistingState::Backup(copy) => *copy,
            found => panic!("expected a backup: {found:?}"),
        }
    }

    /// A backup of a state with this account, as a service would put it.
    fn copy_of(archive: &Arc<Archive>, account: &str) -> String {
        let state = State::open(archive.clone()).expect("a state");
        state.add_account(account, true).expect("an account");
        let mut text = Vec::new();
        let mut gather = |piece: Vec<u8>| {
            text.extend(piece);
            Ok(())
        };
        state.write_backup(&mut gather).expect("a copy");
        drop(state);
        remove_database(&archive.home().join(FILE)).expect("removed");
        String::from_utf8(text).expect("text")
    }

    #[test]
    fn a_lost_file_is_recovered_from_the_newest_backup() {
        let folder = tempfile::tempdir().expect("a folder");
        let archive = new_archive(folder.path());
        assert_eq!(find(&archive).expect("looked"), ExistingState::Nothing);
        let (first, second) = (copy_of(&archive, "ada"), copy_of(&archive, "bo"));
        put(&archive, &first);
        put(&archive, &second);
        assert!(matches!(State::open(archive.clone()), Err(StateError::LostWithBackup { .. })), "an empty state would hide the loss");
        assert!(!folder.path().join(FILE).exists());
        let copy = newest(&archive);
        let recovered = recover(&archive, &copy).expect("recovered");
        assert_eq!(
            recovered,
            Recovered {
                backup_ms: copy.record.created_ms as i64,
                counts: Counts { accounts: 1, buckets: 0, versions: 0 },
                with_disabled_rules: 0
            }
        );
        assert_eq!(find(&archive).expect("looked"), ExistingState::File);
        let state = State::open(archive.clone()).expect("it opens");
        let accounts = state.accounts().expect("accounts");
        assert_eq!((accounts[0].0.name.as_str(), accounts[0].1.len()), ("bo", 0), "without its key");
        let status = state.backup_status().expect("known");
        assert_eq!((status.is_changed, status.version), (false, Some(copy.id)));
        state.add_account("eve", false).expect("an account");
        assert!(state.backup_status().expect("known").is_changed);
    }

    /// Puts a backup of the state that the file has, as a service does.
    fn back_up(archive: &Arc<Archive>) -> VersionRow {
        let state = State::open(archive.clone()).expect("a state");
        let mut text = Vec::new();
        let mut gather = |piece: Vec<u8>| {
            text.extend(piece);
            Ok(())
        };
        let changes = state.write_backup(&mut gather).expect("a copy");
        put(archive, &String::from_utf8(text).expect("text"));
        let backup = backups(archive).expect("listed").remove(0);
        state.confirm_backup(changes, backup.id).expect("recorded");
        backup
    }

    #[test]
    fn an_old_copy_of_the_file_is_refused_until_the_newer_backup_is_set_aside() {
        let folder = tempfile::tempdir().expect("a folder");
        let archive = new_archive(folder.path());
        let (path, kept) = (folder.path().join(FILE), folder.path().join("kept.db"));
        for has_backup in [false, true] {
            State::open(archive.clone()).expect("a state").add_account(&format!("ada-{has_backup}"), true).expect("an account");
            if has_backup {
                back_up(&archive);
            }
            std::fs::copy(&path, &kept).expect("copied");
            State::open(archive.clone()).expect("a state").add_account(&format!("bo-{has_backup}"), true).expect("an account");
            let newer = back_up(&archive);
            std::fs::rename(&kept, &path).expect("renamed");
            for error in [State::open(archive.clone()).err(), VersionStates::open(&archive).err()] {
                assert!(matches!(error, Some(StateError::OldCopy { .. })), "{has_backup}: {error:?}");
                let text = error.expect("it is old").to_string();
                assert!(text.contains("service.db away") && text.contains("--without-newer-copy"), "{text}");
            }
            assert_eq!(set_newer_backup_aside(&archive).expect("set aside").map(|row| row.id), Some(newer.id));
            assert_eq!(set_newer_backup_aside(&archive).expect("nothing to set aside"), None);
            VersionStates::open(&archive).expect("it opens");
            let accounts = State::open(archive.clone()).expect("it opens").accounts().expect("accounts");
            assert!(!accounts.iter().any(|(account, _)| account.name == format!("bo-{has_backup}")), "{accounts:?}");
        }
    }

    #[test]
    fn backups_that_a_file_put_or_replaced_are_no_newer_than_it() {
        let id = |number: u64| VersionId::new(number, [0; 10]);
        let known = |version, begun| BackupStatus { is_changed: true, version, begun, set_aside: None, changes: Changes(3) };
        // A crash before the backup was recorded.
        assert!(!known(Some(id(2)), Some(id(3))).is_older_than(id(3)));
        assert!(!known(None, Some(id(3))).is_older_than(id(3)));
        // The newest is gone, and a rebuilt catalogue has the one before.
        assert!(!known(Some(id(2)), None).is_older_than(id(1)));
        assert!(!known(Some(id(2)), Some(id(4))).is_older_than(id(3)));
        assert!(known(Some(id(2)), None).is_older_than(id(3)));
        assert!(known(None, None).is_older_than(id(1)));
        // Put by a server whose file had been replaced, and was moved back later.
        let backup = |parent: BackupStatus, is_begun_put, changes| {
            let mut attributes = Attributes::default();
            parent.describe(Changes(changes), is_begun_put, &mut attributes);
            attributes
        };
        let file = known(Some(id(2)), Some(id(3)));
        for is_begun_put in [false, true] {
            assert!(file.is_of(&backup(file, is_begun_put, 3)));
            assert!(!file.is_of(&backup(file, is_begun_put, 4)), "it has a change that the file lacks");
        }
        assert!(!file.is_of(&backup(known(Some(id(4)), None), false, 3)), "of another state");
        let first = backup(known(None, None), false, 3);
        assert!(known(None, None).is_of(&first));
        assert!(!known(Some(id(2)), None).is_of(&first), "of a state that began anew");
        assert!(!file.is_of(&Attributes::default()), "of an earlier release");
    }

    #[test]
    fn a_backup_that_was_put_but_not_confirmed_stays_known() {
        let folder = tempfile::tempdir().expect("a folder");
        let state = State::open(new_archive(folder.path())).expect("a state");
        let id = |number: u64| VersionId::new(number, [0; 10]);
        state.begin_backup(id(1), false).expect("recorded");
        state.begin_backup(id(2), false).expect("recorded");
        state.begin_backup(id(3), true).expect("recorded");
        let status = state.backup_status().expect("known");
        assert_eq!((status.version, status.begun), (Some(id(2)), Some(id(3))));
    }

    #[test]
    fn a_file_of_an_older_schema_is_compared_with_the_newest_backup() {
        let folder = tempfile::tempdir().expect("a folder");
        let archive = new_archive(folder.path());
        State::open(archive.clone()).expect("a state").add_account("ada", true).expect("an account");
        back_up(&archive);
        let undo = |statements: &str, version: i64| {
            let file = Connection::open(folder.path().join(FILE)).expect("a file");
            file.execute_batch(statements).expect("changed");
            file.pragma_update(None, "user_version", version).expect("set");
        };
        undo("ALTER TABLE copy DROP COLUMN set_aside", 7);
        VersionStates::open(&archive).expect("its backup is the newest");
        undo("UPDATE copy SET version = NULL", 7);
        assert!(matches!(VersionStates::open(&archive), Err(StateError::OldCopy { .. })));
        undo("DROP TABLE copy", 1);
        assert!(matches!(VersionStates::open(&archive), Err(StateError::OldCopy { .. })));
    }

    #[test]
    fn a_file_that_stays_in_its_log_is_not_put_in_place() {
        let folder = tempfile::tempdir().expect("a folder");
        let archive = new_archive(folder.path());
        let path = archive.home().join(FILE);
        let mut reader = None;
        let made = make(&archive, |_| {
            // Instead of a full disk: closing can't empty a log that another connection reads.
            let other = Connection::open(with_suffix(&path, ".recovering")).expect("opened");
            other.execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema").expect("reads");
            reader = Some(other);
            Ok(())
        });
        assert!(matches!(made, Err(StateError::NotRecovered { .. })), "{made:?}");
        assert!(reader.take().is_some() && !path.exists());
        make(&archive, |_| Ok(())).expect("made, now that none reads it");
        assert!(path.exists());
    }

    #[test]
    fn a_file_that_was_lost_before_its_first_backup_is_missed() {
        let folder = tempfile::tempdir().expect("a folder");
        let archive = new_archive(folder.path());
        let state = Arc::new(State::open(archive.clone()).expect("nothing used this archive before"));
        drop(crate::test_gateway::new_gateway(state, &crate::settings::Settings::default()));
        remove_database(&archive.home().join(FILE)).expect("removed");
        assert_eq!(find(&archive).expect("looked"), ExistingState::LostWithoutBackup);
        for error in [State::open(archive.clone()).err(), VersionStates::open(&archive).err()] {
            let text = error.expect("it is lost").to_string();
            assert!(text.contains("service.db is missing") && text.contains("--without-copy"), "{text}");
        }
        assert!(!archive.home().join(FILE).exists());
        begin_without_backup(&archive).expect("begun");
        assert!(State::open(archive).expect("it opens").accounts().expect("accounts").is_empty());
    }

    #[test]
    fn a_lost_file_whose_backup_has_no_key_is_not_replaced_by_an_empty_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let archive = new_archive(folder.path());
        put(&archive, &copy_of(&archive, "ada"));
        archive.flush(&Unwatched).expect("flushed");
        let backup = newest(&archive);
        let _ = std::fs::remove_dir_all(sign_of_server(&archive));
        // As in an older copy of the keys, from before this backup.
        archive.keys().destroy(&[backup.id]).expect("destroyed");
        let home = archive.home().to_owned();
        drop(archive);
        std::fs::remove_file(home.join("catalogue.db")).expect("removed");
        rebuild_catalogue(&home, UnseenStores::Refuse, &Unwatched).expect("rebuilt");
        let archive = Arc::new(Archive::open(&home, Access::Write).expect("opened"));
        assert!(matches!(find(&archive), Ok(ExistingState::Unlisted(_))), "{:?}", find(&archive));
        let text = State::open(archive.clone()).err().expect("its backup may be unlisted").to_string();
        assert!(text.contains("keys import") && text.contains("--without-copy"), "{text}");
        assert!(!home.join(FILE).exists());
        // Where no server was, the command line may remove versions: an older program's gaps would
        // otherwise keep all of them.
        VersionStates::open(&archive).expect("no server has set locks here");
        std::fs::create_dir(sign_of_server(&archive)).expect("made");
        assert!(matches!(VersionStates::open(&archive), Err(StateError::MayBeUnlisted { .. })), "its locks are unknown");
        begin_without_backup(&archive).expect("begun");
        State::open(archive).expect("it opens");
    }

    #[test]
    fn a_file_without_tables_counts_as_missing() {
        let folder = tempfile::tempdir().expect("a folder");
        let archive = new_archive(folder.path());
        let path = archive.home().join(FILE);
        let without_tables = || {
            remove_database(&path).expect("removed");
            Connection::open(&path).and_then(|file| file.pragma_update(None, "journal_mode", "wal")).expect("a file");
            assert!(path.metadata().expect("a file").len() > 0);
        };
        without_tables();
        assert_eq!(find(&archive).expect("looked"), ExistingState::Nothing, "a crash during the first start leaves it");
        let state = Arc::new(State::open(archive.clone()).expect("nothing used this archive before"));
        assert_eq!(find(&archive).expect("looked"), ExistingState::File);
        drop(crate::test_gateway::new_gateway(state, &crate::settings::Settings::default()));
        without_tables();
        assert_eq!(find(&archive).expect("looked"), ExistingState::LostWithoutBackup);
        let text = State::open(archive.clone()).err().expect("it is lost").to_string();
        assert!(text.contains("service.db is missing or empty"), "{text}");
        put(&archive, &copy_of(&without_sign(&archive), "ada"));
        without_tables();
        assert!(matches!(State::open(archive.clone()), Err(StateError::LostWithBackup { .. })));
        recover(&archive, &newest(&archive)).expect("recovered");
        assert_eq!(State::open(archive).expect("it opens").accounts().expect("accounts")[0].0.name, "ada");
    }

    /// The archive, as if no server had used it.
    fn without_sign(archive: &Arc<Archive>) -> Arc<Archive> {
        remove_database(&archive.home().join(FILE)).expect("removed");
        std::fs::remove_dir_all(sign_of_server(archive)).expect("removed");
        archive.clone()
    }

    #[test]
    fn a_malformed_backup_leaves_no_file_and_can_be_skipped() {
        let folder = tempfile::tempdir().expect("a folder");
        let archive = new_archive(folder.path());
        let text = copy_of(&archive, "ada");
        put(&archive, &text.replacen("\"format\":2", "\"format\":99", 1));
        let newer = recover(&archive, &newest(&archive)).expect_err("it is newer").to_string();
        assert!(newer.contains("format 99") && newer.contains("--without-copy"), "{newer}");
        put(&archive, &text[..text.len() / 2]);
        let copy = newest(&archive);
        assert!(matches!(recover(&archive, &copy), Err(StateError::UnusableBackup { source: BackupError::Counts { .. }, .. })));
        let left: Vec<_> = std::fs::read_dir(folder.path()).expect("listed").map(|entry| entry.expect("an entry").file_name()).collect();
        assert!(left.iter().all(|name| !name.to_string_lossy().starts_with(FILE)), "{left:?}");
        begin_without_backup(&archive).expect("begun");
        let state = State::open(archive.clone()).expect("it opens");
        assert!(state.accounts().expect("accounts").is_empty());
        assert_eq!(state.backup_status().expect("known").version, None, "no backup belongs to this state");
    }

    #[test]
    fn a_backup_on_an_absent_store_is_not_given_up_too_soon() {
        let folder = tempfile::tempdir().expect("a folder");
        let archive = new_archive(folder.path());
        put(&archive, &copy_of(&archive, "ada"));
        archive.flush(&Unwatched).expect("flushed");
        std::fs::rename(folder.path().join("d1"), folder.path().join("away")).expect("renamed");
        let text = recover(&archive, &newest(&archive)).expect_err("its store is absent").to_string();
        assert!(text.contains(".fulgurite/service.jsonl: it can't be read now: store d1 is absent."), "{text}");
        assert!(
            text.contains("Bring back the stores") && text.contains("If they are gone for good, `fulgurite serve --without-copy`"),
            "{text}"
        );
        assert!(!text.contains("can't read it"), "{text}");
    }

    #[test]
    fn the_log_of_a_lost_file_is_not_applied_to_the_new_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let archive = new_archive(folder.path());
        put(&archive, &copy_of(&archive, "ada"));
        std::fs::write(folder.path().join("service.db-wal"), b"the log of the lost file").expect("written");
        recover(&archive, &newest(&archive)).expect("recovered");
        assert_eq!(State::open(archive.clone()).expect("it opens").accounts().expect("accounts").len(), 1);
    }
}
