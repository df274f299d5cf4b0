//! Outcomes of commands, and their exit statuses.

use std::io;
use std::process::ExitCode;

use fulgurite_archive::ArchiveError;
use fulgurite_archive::archive::MasterKeyTrouble;
use fulgurite_archive::catalogue::CatalogueError;
use fulgurite_archive::inspect::InspectError;
use fulgurite_archive::keystore::KeyStoreError;
use fulgurite_archive::object::ReadError;
use fulgurite_archive::unread::Hindrance;
use fulgurite_settings::SettingErrors;

/// How a command ended. If several outcomes apply, the greatest one wins: see
/// [`worst`](Self::worst).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    /// Done, and everything claimed was checked.
    Good,
    /// Nothing is known to be lost, but the answer is incomplete: stores are absent, or checks of
    /// an audit are missing.
    Absent,
    /// Nothing is known to be lost, but something present could not be read.
    Unreadable,
    /// Something is lost, damaged or missing, or the command failed.
    Troubled,
    /// The command line or a scenario is wrong.
    Misused,
}

/// An error of the command line, or of a scenario or journal that it names.
#[derive(Debug)]
pub(crate) struct Misuse(pub(crate) String);

impl std::fmt::Display for Misuse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Misuse {}

/// An error that may be due to gaps in the catalogue. The outcome depends on the kind of gap.
#[derive(Debug)]
pub(crate) struct Incomplete {
    pub(crate) text: String,
    pub(crate) outcome: Outcome,
}

impl std::fmt::Display for Incomplete {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Incomplete {}

impl Outcome {
    pub(crate) fn troubled_if(troubled: bool) -> Self {
        if troubled { Self::Troubled } else { Self::Good }
    }

    /// The outcome of a command whose answer is incomplete only because of `hindrance`.
    pub(crate) fn hindered(hindrance: Option<Hindrance>) -> Self {
        match hindrance {
            None => Self::Good,
            Some(Hindrance::Absent) => Self::Absent,
            Some(Hindrance::Unreadable) => Self::Unreadable,
        }
    }

    pub(crate) fn of_error(error: &anyhow::Error) -> Self {
        if error.is::<Misuse>() || error.is::<SettingErrors>() {
            return Self::Misused;
        }
        if let Some(incomplete) = error.downcast_ref::<Incomplete>() {
            return incomplete.outcome;
        }
        let hindrance = error.chain().find_map(|cause| {
            if let Some(error) = cause.downcast_ref::<ReadError>() {
                let of_database = || if let ReadError::Archive(error) = error { unreadable_database_or_key(error) } else { None };
                return error.hindrance().or_else(of_database);
            }
            if let Some(error) = cause.downcast_ref::<ArchiveError>() {
                return error.hindrance().or_else(|| unreadable_database_or_key(error));
            }
            match cause.downcast_ref::<InspectError>()? {
                InspectError::Io { source, .. } if !matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidInput) => {
                    Some(Hindrance::Unreadable)
                }
                _ => None,
            }
        });
        hindrance.map_or(Self::Troubled, |hindrance| Self::hindered(Some(hindrance)))
    }

    /// The worse of two outcomes.
    pub(crate) fn worst(self, other: Self) -> Self {
        self.max(other)
    }

    /// Why the outcome isn't good, for commands whose answer contains the details.
    pub(crate) fn reason(self) -> Option<&'static str> {
        match self {
            Self::Good => None,
            Self::Absent => Some("nothing is known to be lost, but the answer is incomplete: stores are absent, or checks are missing"),
            Self::Unreadable => Some("nothing is known to be lost, but something present could not be read"),
            Self::Troubled => Some("something is lost, damaged, missing or was not done; see the answer and the lines before this one"),
            Self::Misused => Some("the command line or a scenario is wrong"),
        }
    }

    pub(crate) fn status(self) -> u8 {
        match self {
            Self::Good => 0,
            Self::Troubled => 1,
            Self::Misused => 2,
            Self::Absent => 3,
            Self::Unreadable => 4,
        }
    }
}

/// [`Hindrance::Unreadable`] if the catalogue, the key store or the master key exists but can't be
/// read.
fn unreadable_database_or_key(error: &ArchiveError) -> Option<Hindrance> {
    let is_unreadable = match error {
        ArchiveError::Catalogue(CatalogueError::Engine { source, .. }) | ArchiveError::Keys(KeyStoreError::Engine { source, .. }) => {
            source.downcast_ref::<rusqlite::Error>().and_then(rusqlite::Error::sqlite_error).is_some_and(|failure| {
                failure.code == rusqlite::ErrorCode::CannotOpen || failure.extended_code == rusqlite::ffi::SQLITE_IOERR_READ
            })
        }
        ArchiveError::MasterKey { why: MasterKeyTrouble::Unreadable(error), .. } => error.kind() != io::ErrorKind::NotFound,
        _ => false,
    };
    is_unreadable.then_some(Hindrance::Unreadable)
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        outcome.status().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unreadable_database_or_key_is_not_a_loss() {
        let sqlite = |code| Box::new(rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None));
        let keys = |code| ArchiveError::Keys(KeyStoreError::Engine { action: "open", source: sqlite(code) });
        let catalogue = |code| ArchiveError::Catalogue(CatalogueError::Engine { action: "open", source: sqlite(code) });
        let master_key = |kind: io::ErrorKind| ArchiveError::MasterKey { path: "master.key".into(), why: io::Error::from(kind).into() };
        let outcome = |error: ArchiveError| Outcome::of_error(&anyhow::Error::from(error).context("while opening"));
        for code in [rusqlite::ffi::SQLITE_CANTOPEN, rusqlite::ffi::SQLITE_IOERR_READ] {
            assert_eq!([outcome(keys(code)), outcome(catalogue(code))], [Outcome::Unreadable; 2]);
        }
        for code in [rusqlite::ffi::SQLITE_FULL, rusqlite::ffi::SQLITE_IOERR_WRITE] {
            assert_eq!([outcome(keys(code)), outcome(catalogue(code))], [Outcome::Troubled; 2]);
        }
        assert_eq!(outcome(master_key(io::ErrorKind::PermissionDenied)), Outcome::Unreadable);
        assert_eq!(outcome(master_key(io::ErrorKind::NotFound)), Outcome::Troubled);
        let read = anyhow::Error::from(ReadError::Archive(keys(rusqlite::ffi::SQLITE_CANTOPEN)));
        assert_eq!(Outcome::of_error(&read), Outcome::Unreadable);
    }

    #[test]
    fn the_worst_outcome_wins() {
        let all = [Outcome::Misused, Outcome::Troubled, Outcome::Unreadable, Outcome::Absent, Outcome::Good];
        assert_eq!(all.map(Outcome::status), [2, 1, 4, 3, 0]);
        for (rank, worse) in all.into_iter().enumerate() {
            for better in all.into_iter().skip(rank) {
                assert_eq!((worse.worst(better), better.worst(worse)), (worse, worse));
            }
        }
    }
}
