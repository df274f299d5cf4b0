//! Mutable state of versions: tags, retention and legal hold that were changed after the put.

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use fulgurite_archive::Archive;
use fulgurite_domain::VersionId;
use rusqlite::types::Type;
use rusqlite::{Connection, Row, params};
use serde::{Deserialize, Serialize};

use super::{BackupError, ExistingState, FILE, RetentionMode, State, StateError, file, find, query_one, recovery};

/// The retention of a version. Its field names are part of the backup format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retention {
    /// The mode.
    pub mode: RetentionMode,
    /// Its end, in milliseconds since 1970.
    pub until_ms: i64,
}

/// Mutable state of a version. Fields that are `None` were never changed; the version's attributes
/// apply.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VersionState {
    /// Its tags, URL-encoded; empty if they were removed.
    pub tags: Option<String>,
    /// Its retention; `Some(None)` if it was removed.
    pub retention: Option<Option<Retention>>,
    /// Whether it is under legal hold.
    pub legal_hold: Option<bool>,
}

const COLUMNS: &str = "id, tags, retention_mode, retention_until, legal_hold";

impl State {
    pub(crate) fn version(&self, id: VersionId) -> Result<VersionState, StateError> {
        if !self.may_have_version_rows.load(Ordering::Acquire) {
            return Ok(VersionState::default());
        }
        self.query("look up a version", |connection| version_state(connection, id))
    }

    /// Changes the state of a version. Fields that are `None` stay unchanged.
    pub(crate) fn change_version(&self, id: VersionId, state: &VersionState) -> Result<(), StateError> {
        self.note_version_rows();
        self.transact("change a version", |connection| set_version_state(connection, id, state))
    }

    /// Deletes the state and restores of removed versions.
    pub(crate) fn forget_versions(&self, ids: &[VersionId]) -> Result<(), StateError> {
        if !self.may_have_version_rows.load(Ordering::Acquire) {
            return Ok(());
        }
        // Most versions have none, and a transaction costs a sync.
        let has_some = self.query("look up versions", |connection| {
            let mut known =
                connection.prepare_cached("SELECT 1 FROM version_state WHERE id = ?1 UNION ALL SELECT 1 FROM restore WHERE id = ?1")?;
            for id in ids {
                if known.exists([id.0])? {
                    return Ok(true);
                }
            }
            Ok(false)
        })?;
        if !has_some {
            return Ok(());
        }
        self.transact("forget versions", |connection| {
            for id in ids {
                connection.prepare_cached("DELETE FROM version_state WHERE id = ?1")?.execute([id.0])?;
                connection.prepare_cached("DELETE FROM restore WHERE id = ?1")?.execute([id.0])?;
            }
            Ok(())
        })
    }
}

/// Read-only access to the state of versions, for programs without a service.
#[derive(Debug)]
pub struct VersionStates {
    path: PathBuf,
    /// `None` if there never was a service.
    connection: Option<Connection>,
}

impl VersionStates {
    /// Opens the state of an archive.
    ///
    /// # Errors
    /// [`StateError::LostWithBackup`] if the file is missing and the archive has a backup of it:
    /// the state is unknown until `fulgurite serve` has recovered it.
    /// [`StateError::LostWithoutBackup`] if it has none, but a server has used it.
    /// [`StateError::MayBeUnlisted`] if a server has used it, and its backup may not be listed.
    /// [`StateError::OldCopy`] if the file is older than the newest backup. Other errors if the
    /// file can't be used.
    pub fn open(archive: &Archive) -> Result<Self, StateError> {
        let path = archive.home().join(FILE);
        let connection = match find(archive)? {
            ExistingState::File => {
                let connection = file::open_read_only(&path, archive.id())?;
                recovery::refuse_old_copy(&connection, archive)?;
                Some(connection)
            }
            ExistingState::Backup(backup) => return Err(StateError::LostWithBackup { path, backup_ms: backup.record.created_ms as i64 }),
            ExistingState::LostWithoutBackup => return Err(StateError::lost_without_backup(archive)),
            ExistingState::Unlisted(gaps) if recovery::sign_of_server(archive).exists() => {
                return Err(StateError::may_be_unlisted(archive, &gaps));
            }
            // Locks of a state that the archive may never have had must not keep the command line
            // from removing anything.
            ExistingState::Nothing | ExistingState::Unlisted(_) => None,
        };
        Ok(Self { path, connection })
    }

    /// The mutable state of a version.
    pub fn of(&self, id: VersionId) -> Result<VersionState, StateError> {
        let Some(connection) = &self.connection else { return Ok(VersionState::default()) };
        version_state(connection, id).map_err(|source| StateError::of_engine(&self.path, "look up a version", source))
    }
}

fn version_state(connection: &Connection, id: VersionId) -> rusqlite::Result<VersionState> {
    let found = query_one(connection, &format!("SELECT {COLUMNS} FROM version_state WHERE id = ?1"), [id.0], read_row)?;
    Ok(found.map(|(_, state)| state).unwrap_or_default())
}

pub(super) fn for_each_state(
    connection: &Connection,
    on_state: &mut dyn FnMut(VersionId, VersionState) -> Result<(), BackupError>,
) -> Result<(), BackupError> {
    let mut statement = connection.prepare(&format!("SELECT {COLUMNS} FROM version_state ORDER BY id"))?;
    for row in statement.query_map([], read_row)? {
        let (id, state) = row?;
        on_state(id, state)?;
    }
    Ok(())
}

pub(super) fn set_version_state(connection: &Connection, id: VersionId, state: &VersionState) -> rusqlite::Result<()> {
    let VersionState { tags, retention, legal_hold } = state;
    // A removed retention is stored as an empty mode; NULL means never changed.
    let mode = retention.map(|retention| retention.map_or("", |retention| retention.mode.name()));
    let until = retention.map(|retention| retention.map_or(0, |retention| retention.until_ms));
    connection
        .prepare_cached(
            "INSERT INTO version_state (id, tags, retention_mode, retention_until, legal_hold) VALUES (?1, ?2, ?3, ?4, ?5) \
             ON CONFLICT (id) DO UPDATE SET tags = coalesce(?2, tags), retention_mode = coalesce(?3, retention_mode), \
             retention_until = coalesce(?4, retention_until), legal_hold = coalesce(?5, legal_hold)",
        )?
        .execute(params![id.0, tags, mode, until, legal_hold])?;
    Ok(())
}

fn read_row(row: &Row<'_>) -> rusqlite::Result<(VersionId, VersionState)> {
    let mode: Option<String> = row.get(2)?;
    let until_ms: Option<i64> = row.get(3)?;
    let retention = match (mode.as_deref(), until_ms) {
        (None, None) => None,
        (Some(""), _) => Some(None),
        // An unknown mode counts as the strictest: the attributes of the version may hold a weaker
        // one, or none.
        (Some(mode), Some(until_ms)) => Some(Some(Retention { mode: RetentionMode::parse_strictly(mode), until_ms })),
        // Half of a retention: the row is damaged.
        _ => return Err(rusqlite::Error::InvalidColumnType(2, "retention_mode, retention_until".to_owned(), Type::Null)),
    };
    Ok((VersionId(row.get(0)?), VersionState { tags: row.get(1)?, retention, legal_hold: row.get(4)? }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_gateway::new_archive;

    #[test]
    fn unreadable_retention_protects() {
        let home = tempfile::tempdir().expect("a folder");
        let state = State::open(new_archive(home.path())).expect("a state");
        let (id, retention) = (VersionId([7; 16]), Retention { mode: RetentionMode::Governance, until_ms: 9_000 });
        let change = VersionState { retention: Some(Some(retention)), ..VersionState::default() };
        state.change_version(id, &change).expect("changed");
        let set = |values: &str| {
            state.transact("test", |connection| connection.execute(&format!("UPDATE version_state SET {values}"), [])).expect("set");
            state.version(id)
        };
        let firmest = Retention { mode: RetentionMode::Compliance, ..retention };
        assert_eq!(set("retention_mode = 'FIRM'").expect("readable").retention, Some(Some(firmest)));
        assert!(set("retention_until = NULL").is_err(), "the end is unknown");
        assert!(set("retention_mode = NULL, retention_until = 5").is_err(), "the mode is unknown");
        assert_eq!(set("retention_until = NULL").expect("readable").retention, None);
    }
}
