//! What was said of versions after they were put: tags, retention, legal hold.

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use fulgurite_archive::Archive;
use fulgurite_domain::VersionId;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{CopyError, FILE, Found, RetentionMode, State, StateError, file, find};

/// Until when a version is kept, and how firmly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// How firmly.
    pub mode: RetentionMode,
    /// Until when, milliseconds since 1970.
    pub until_ms: i64,
}

/// What was said of a version; what wasn't stands in its attributes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VersionState {
    /// Its tags, URL-encoded; empty if they were removed.
    pub tags: Option<String>,
    /// Its retention; `Some(None)` if it was taken away.
    pub retention: Option<Option<Retention>>,
    /// Whether it is under legal hold.
    pub legal_hold: Option<bool>,
}

const COLUMNS: &str = "id, tags, retention_mode, retention_until, legal_hold";

impl State {
    /// What was said of a version.
    ///
    /// # Errors
    /// What the engine says.
    pub fn version(&self, id: VersionId) -> Result<VersionState, StateError> {
        if !self.says.load(Ordering::Acquire) {
            return Ok(VersionState::default());
        }
        self.look("look a version up", |connection| said(connection, id))
    }

    /// Says something of a version; fields that are `None` stay as they are.
    ///
    /// # Errors
    /// What the engine says.
    pub fn change_version(&self, id: VersionId, said: &VersionState) -> Result<(), StateError> {
        self.says.store(true, Ordering::Release);
        self.change("keep what was said of a version", |connection| say(connection, id, said))
    }

    /// Forgets what was said of versions that are gone.
    ///
    /// # Errors
    /// What the engine says.
    pub fn forget_versions(&self, ids: &[VersionId]) -> Result<(), StateError> {
        if !self.says.load(Ordering::Acquire) {
            return Ok(());
        }
        // Most have nothing, and a transaction costs a sync.
        let has_some = self.look("look versions up", |connection| {
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
        self.change("forget what was said of versions", |connection| {
            for id in ids {
                connection.prepare_cached("DELETE FROM version_state WHERE id = ?1")?.execute([id.0])?;
                connection.prepare_cached("DELETE FROM restore WHERE id = ?1")?.execute([id.0])?;
            }
            Ok(())
        })
    }
}

/// What was said of versions, for who has no service: the file is only read.
#[derive(Debug)]
pub struct Said {
    path: PathBuf,
    /// None if there never was a service.
    connection: Option<Connection>,
}

impl Said {
    /// Opens it for an archive.
    ///
    /// # Errors
    /// [`StateError::Lost`] if the file isn't there and the archive has a copy of it: then nobody knows, until `fulgurite serve` has made it anew. Else
    /// what is wrong with the file.
    pub fn open(archive: &Archive) -> Result<Self, StateError> {
        let path = archive.home().join(FILE);
        let connection = match find(archive)? {
            Found::File => Some(file::open_read_only(&path, archive.id())?),
            Found::Copy(copy) => return Err(StateError::Lost { path, copied_ms: copy.record.created_ms as i64 }),
            Found::Nothing => None,
        };
        Ok(Self { path, connection })
    }

    /// What was said of a version.
    ///
    /// # Errors
    /// What the engine says.
    pub fn of(&self, id: VersionId) -> Result<VersionState, StateError> {
        let Some(connection) = &self.connection else { return Ok(VersionState::default()) };
        said(connection, id).map_err(|source| StateError::of_engine(&self.path, "look a version up", source))
    }
}

fn said(connection: &Connection, id: VersionId) -> rusqlite::Result<VersionState> {
    let statement = format!("SELECT {COLUMNS} FROM version_state WHERE id = ?1");
    let found = connection.prepare_cached(&statement)?.query_row([id.0], read).optional()?;
    Ok(found.map(|(_, said)| said).unwrap_or_default())
}

/// What was said of all versions, one after another.
pub(super) fn each(
    connection: &Connection,
    each: &mut dyn FnMut(VersionId, VersionState) -> Result<(), CopyError>,
) -> Result<(), CopyError> {
    let mut statement = connection.prepare(&format!("SELECT {COLUMNS} FROM version_state ORDER BY id"))?;
    for said in statement.query_map([], read)? {
        let (id, said) = said?;
        each(id, said)?;
    }
    Ok(())
}

/// Says something of a version; fields that are `None` stay as they are.
pub(super) fn say(connection: &Connection, id: VersionId, said: &VersionState) -> rusqlite::Result<()> {
    let VersionState { tags, retention, legal_hold } = said;
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

fn read(row: &Row<'_>) -> rusqlite::Result<(VersionId, VersionState)> {
    let mode: Option<String> = row.get(2)?;
    let until_ms: Option<i64> = row.get(3)?;
    let retention = match (mode.as_deref(), until_ms) {
        (Some(""), _) => Some(None),
        (Some(mode), Some(until_ms)) => RetentionMode::parse(mode).map(|mode| Some(Retention { mode, until_ms })),
        _ => None,
    };
    Ok((VersionId(row.get(0)?), VersionState { tags: row.get(1)?, retention, legal_hold: row.get(4)? }))
}
