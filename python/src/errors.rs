//! Exceptions: the classes of `fulgurite._errors`.

use fulgurite_archive::ArchiveError;
use fulgurite_archive::many::FindError;
use fulgurite_archive::object::ReadError;
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;

/// A class of exceptions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// No such object, or it was deleted.
    NotFound,
    /// The name is that of a folder.
    Folder,
    /// It isn't listed, but the catalogue is incomplete.
    NotListed,
    /// It can't be read now, but isn't known to be lost.
    Unavailable,
    /// It is lost or damaged, or its key is.
    Unreadable,
    /// The server denies access.
    Refused,
    /// The process can't get enough memory.
    Memory,
    /// Anything else.
    Other,
}

/// An error that becomes an exception.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(crate) class: Class,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(class: Class, message: impl ToString) -> Self {
        Self { class, message: message.to_string() }
    }

    /// The failure of an object.
    pub(crate) fn of(self, name: &str) -> Self {
        Self { message: format!("{name}: {}", self.message), ..self }
    }

    pub(crate) fn raise(self, py: Python<'_>) -> PyErr {
        let class = match self.class {
            Class::NotFound => "NotFound",
            Class::Folder => "IsFolder",
            Class::NotListed => "NotListed",
            Class::Unavailable => "Unavailable",
            Class::Unreadable => "Unreadable",
            Class::Refused => "Refused",
            Class::Other => "FulguriteError",
            Class::Memory => return PyMemoryError::new_err(self.message),
        };
        let made = py.import("fulgurite._errors").and_then(|module| module.getattr(class)?.call1((self.message,)));
        made.map_or_else(|error| error, PyErr::from_value)
    }
}

impl From<ArchiveError> for Failure {
    fn from(error: ArchiveError) -> Self {
        let class = if error.hindrance().is_some() { Class::Unavailable } else { Class::Other };
        Self::new(class, error)
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        let class = match error {
            ReadError::Removed => Class::NotFound,
            _ if error.hindrance().is_some() => Class::Unavailable,
            _ => Class::Unreadable,
        };
        Self::new(class, error)
    }
}

impl From<FindError> for Failure {
    fn from(error: FindError) -> Self {
        match error {
            FindError::Archive(error) => error.into(),
            FindError::Folder => Self::new(Class::Folder, error),
            FindError::Unlisted => Self::new(Class::Unreadable, error),
            FindError::NotFound | FindError::NoVersion(_) | FindError::Deleted => Self::new(Class::NotFound, error),
        }
    }
}
