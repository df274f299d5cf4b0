//! What goes wrong inside the engine, sorted into what the catalogue tells.

use rusqlite::ErrorCode;

use crate::catalogue::CatalogueError;

/// A failure on its way out, before it is known what was being done.
#[derive(Debug)]
pub(super) enum Fault {
    /// SQLite says so.
    Engine(rusqlite::Error),
    /// A row contradicts its checksum or another row.
    Damaged(String),
    /// What was asked for can't be done.
    Refused(CatalogueError),
    /// A number that the engine can't hold.
    TooLarge(u64),
}

/// A number above 2^63 - 1.
#[derive(Debug, thiserror::Error)]
#[error("{0} is more than the catalogue can hold")]
struct TooLarge(u64);

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Engine(error)
    }
}

impl Fault {
    /// The error for the caller who wanted to `action`.
    pub(super) fn told(self, action: &'static str) -> CatalogueError {
        match self {
            Self::Engine(error) if is_damage(&error) => CatalogueError::Damaged { found: error.to_string() },
            Self::Engine(error) => CatalogueError::Engine { action, source: Box::new(error) },
            Self::Damaged(found) => CatalogueError::Damaged { found },
            Self::Refused(error) => error,
            Self::TooLarge(number) => CatalogueError::Engine { action, source: Box::new(TooLarge(number)) },
        }
    }
}

/// Whether the error says something about the file, and not about the disk, the locks or the program.
///
/// Values of an unexpected type count: all of them were written with the right one. So does a statement that does not compile, for want
/// of a table.
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
