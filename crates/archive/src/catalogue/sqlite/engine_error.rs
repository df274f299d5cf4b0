//! Failures inside the SQLite engine.

use rusqlite::ErrorCode;

use crate::catalogue::CatalogueError;
use crate::unwritable::explained;

/// A failure, to which [`EngineError::into_catalogue_error`] adds what was being done.
#[derive(Debug)]
pub(super) enum EngineError {
    Sqlite(rusqlite::Error),
    /// The file contradicts itself: rows, checksums, counts, or by SQLite's own check.
    Damaged(String),
    /// An error that is complete already; it is passed on unchanged.
    Refused(CatalogueError),
    /// A number too large for the engine.
    TooLarge(u64),
}

/// A number above 2^63 - 1.
#[derive(Debug, thiserror::Error)]
#[error("{0} is more than the catalogue can hold")]
struct NumberTooLarge(u64);

impl From<rusqlite::Error> for EngineError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl EngineError {
    pub(super) fn into_catalogue_error(self, action: &'static str) -> CatalogueError {
        match self {
            Self::Sqlite(error) if is_damage(&error) => CatalogueError::Damaged(error.to_string()),
            Self::Sqlite(error) => CatalogueError::Engine { action, source: explained(error) },
            Self::Damaged(found) => CatalogueError::Damaged(found),
            Self::Refused(error) => error,
            Self::TooLarge(number) => CatalogueError::Engine { action, source: Box::new(NumberTooLarge(number)) },
        }
    }
}

/// True if the error shows damage of the file, as opposed to trouble with the disk, locks or the
/// program. Also used for the key store.
///
/// Values of an unexpected type count as damage, since all were written with the right one. So does
/// a missing row where there must be one, and SQLite's generic error (`Unknown`, or `SqlInputError`
/// if SQLite names the place): our statements are fixed and tested, so it means that a table or
/// column is missing.
pub(crate) fn is_damage(error: &rusqlite::Error) -> bool {
    match error {
        rusqlite::Error::SqliteFailure(failure, _) => {
            matches!(failure.code, ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::Unknown)
        }
        rusqlite::Error::SqlInputError { .. }
        | rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::Utf8Error(..)
        | rusqlite::Error::QueryReturnedNoRows => true,
        _ => false,
    }
}

/// True if the engine couldn't open or read a file that may be sound. Also used for the key store.
pub(crate) fn is_unreadable(source: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    source
        .downcast_ref::<rusqlite::Error>()
        .and_then(rusqlite::Error::sqlite_error)
        .is_some_and(|failure| failure.code == ErrorCode::CannotOpen || failure.extended_code == rusqlite::ffi::SQLITE_IOERR_READ)
}
