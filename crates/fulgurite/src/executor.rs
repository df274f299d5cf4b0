//! Runs commands that change an archive: in this process, or in the server that holds the archive's
//! lock.

use std::path::Path;

use anyhow::Result;
use fulgurite_archive::watch::Watcher;
use fulgurite_archive::{Access, Archive, ArchiveError, FlushReport, ObjectsReport, Replace, ScrubReport, is_unwritable};
use fulgurite_domain::PlatterId;
use fulgurite_service::control::{Connection, is_served};

use crate::text::time;
use crate::{Session, diagnostics, owner};

/// Executes commands on an archive: in this process, or in its server. Both do the same and report
/// the same.
pub(crate) enum Executor {
    Local(Box<Archive>),
    Server(Connection),
}

impl Session {
    /// Opens the archive for changes, with `access`. If a server holds the archive's lock, the
    /// server runs `command`. If the archive's folder isn't writable, `verify` gets an archive that
    /// can only be read.
    pub(crate) fn executor(&self, command: &'static str, access: Access) -> Result<Executor> {
        let home = self.home()?;
        match Archive::open(&home, access) {
            Ok(archive) => {
                owner::note_if_root_changes(&home);
                Ok(Executor::Local(Box::new(archive)))
            }
            Err(error @ ArchiveError::InUse { .. }) => match Connection::open(&home, command, time)? {
                Some(connection) => Ok(Executor::Server(connection)),
                None => Err(error.into()),
            },
            // Verifying only reads, so a read-only disk is enough.
            Err(error) if command == "verify" && is_unwritable(&error) => match Archive::open(&home, Access::Read) {
                Ok(archive) if archive.is_read_only() => {
                    diagnostics::note(&format!(
                        "the health of platters is not recorded, because the archive's folder is not writable: {error}"
                    ));
                    Ok(Executor::Local(Box::new(archive)))
                }
                _ => Err(error.into()),
            },
            Err(error) => Err(error.into()),
        }
    }
}

impl Executor {
    pub(crate) fn scrub(&self, repair: Option<Replace>, watcher: &dyn Watcher) -> Result<ScrubReport> {
        Ok(match self {
            Self::Local(archive) => archive.scrub(repair, watcher)?,
            Self::Server(server) => server.scrub(repair, watcher)?,
        })
    }

    pub(crate) fn verify_objects(&self, watcher: &dyn Watcher) -> Result<ObjectsReport> {
        Ok(match self {
            Self::Local(archive) => archive.verify_objects(watcher)?,
            Self::Server(server) => server.verify_objects(watcher)?,
        })
    }

    pub(crate) fn flush(&self, watcher: &dyn Watcher) -> Result<FlushReport> {
        Ok(match self {
            Self::Local(archive) => archive.flush(watcher)?,
            Self::Server(server) => server.flush(watcher)?,
        })
    }

    pub(crate) fn recover(&self, platter: PlatterId, store: Option<&str>, watcher: &dyn Watcher) -> Result<String> {
        Ok(match self {
            Self::Local(archive) => archive.recover(platter, store, watcher)?,
            Self::Server(server) => server.recover(platter, store, watcher)?,
        })
    }
}

/// Advice if the error is that the archive is in use, by a server or by another command.
pub(crate) fn advice(error: &anyhow::Error) -> Option<String> {
    let home: &Path = error.chain().find_map(|cause| match cause.downcast_ref::<ArchiveError>() {
        Some(ArchiveError::InUse(path)) => Some(path.as_path()),
        _ => None,
    })?;
    Some(match is_served(home) {
        true => "`fulgurite serve` is using it: put and delete over S3 while it runs, or stop it for this command. \
                 `verify`, `scrub`, `flush`, `recover` and all commands that only read work while it runs."
            .to_owned(),
        false => "A command is using it, or a server that is still starting: no server answers on the archive's control socket.".to_owned(),
    })
}
