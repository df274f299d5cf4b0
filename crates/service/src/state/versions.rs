//! What was said of versions after they were put: tags, retention, legal hold.

use std::sync::atomic::Ordering;

use fulgurite_domain::VersionId;
use rusqlite::{OptionalExtension, params};

use super::{RetentionMode, State, StateError};

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

impl State {
    /// What was said of a version.
    ///
    /// # Errors
    /// What the engine says.
    pub fn version(&self, id: VersionId) -> Result<VersionState, StateError> {
        if !self.says.load(Ordering::Acquire) {
            return Ok(VersionState::default());
        }
        self.look("look a version up", |connection| {
            let statement = "SELECT tags, retention_mode, retention_until, legal_hold FROM version_state WHERE id = ?1";
            let read = |row: &rusqlite::Row<'_>| {
                let mode: Option<String> = row.get(1)?;
                let until_ms: Option<i64> = row.get(2)?;
                let retention = match (mode.as_deref(), until_ms) {
                    (Some(""), _) => Some(None),
                    (Some(mode), Some(until_ms)) => RetentionMode::parse(mode).map(|mode| Some(Retention { mode, until_ms })),
                    _ => None,
                };
                Ok(VersionState { tags: row.get(0)?, retention, legal_hold: row.get(3)? })
            };
            Ok(connection.prepare_cached(statement)?.query_row([id.0], read).optional()?.unwrap_or_default())
        })
    }

    /// Says something of a version; fields that are `None` stay as they are.
    ///
    /// # Errors
    /// What the engine says.
    pub fn change_version(&self, id: VersionId, said: &VersionState) -> Result<(), StateError> {
        self.says.store(true, Ordering::Release);
        let mode = said.retention.map(|retention| retention.map_or("", |retention| retention.mode.name()));
        let until = said.retention.map(|retention| retention.map_or(0, |retention| retention.until_ms));
        self.change("keep what was said of a version", |connection| {
            connection.execute(
                "INSERT INTO version_state (id, tags, retention_mode, retention_until, legal_hold) VALUES (?1, ?2, ?3, ?4, ?5) \
                 ON CONFLICT (id) DO UPDATE SET tags = coalesce(?2, tags), retention_mode = coalesce(?3, retention_mode), \
                 retention_until = coalesce(?4, retention_until), legal_hold = coalesce(?5, legal_hold)",
                params![id.0, said.tags, mode, until, said.legal_hold],
            )?;
            Ok(())
        })
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
