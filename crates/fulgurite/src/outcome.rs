//! Outcomes of commands, and their exit statuses.

use std::io;
use std::process::ExitCode;

use fulgurite_archive::ArchiveError;
use fulgurite_archive::catalogue::CatalogueError;
use fulgurite_archive::inspect::InspectError;
use fulgurite_archive::keyring::KeyringError;
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
                return error.hindrance();
            }
            if let Some(error) = cause.downcast_ref::<ArchiveError>() {
                return error.hindrance();
            }
            if let Some(KeyringError::Archive(error)) = cause.downcast_ref() {
                return error.hindrance();
            }
            if let Some(error) = cause.downcast_ref::<CatalogueError>() {
                return error.hindrance();
            }
            if let Some(error) = cause.downcast_ref::<KeyStoreError>() {
                return error.hindrance();
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

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        outcome.status().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
