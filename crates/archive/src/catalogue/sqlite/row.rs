//! Table rows and their checksums.
//!
//! SQLite accepts every cell that it can parse. So each row carries a CRC-32 over its other
//! columns, and a reader with a mismatch reports damage instead of a wrong location or digest.

use fulgurite_domain::{Attributes, Digest, Kind, Modified, ObjectName, ObjectRecord, VersionId};
use fulgurite_format::{decode_attributes, encode_attributes};
use rusqlite::Row;

use super::engine_error::EngineError;
use crate::catalogue::{VersionRow, VersionRowId};

/// Collects the columns of a row to compute its checksum.
pub(super) struct RowCheck {
    bytes: Vec<u8>,
}

impl RowCheck {
    /// Starts a row of a table. The checksum includes the table's name, so a row can't pass for one
    /// of another table.
    pub(super) fn of(table: &str) -> Self {
        let mut bytes = Vec::with_capacity(256);
        bytes.extend_from_slice(table.as_bytes());
        Self { bytes }
    }

    pub(super) fn number(mut self, value: i64) -> Self {
        self.bytes.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(super) fn numbers<const N: usize>(self, values: [i64; N]) -> Self {
        values.into_iter().fold(self, Self::number)
    }

    /// A column that can be NULL: first whether it has a value, then the value or 0.
    pub(super) fn optional(self, value: Option<i64>) -> Self {
        self.number(value.is_some().into()).number(value.unwrap_or(0))
    }

    /// The length of the bytes, then the bytes.
    pub(super) fn bytes(self, value: &[u8]) -> Self {
        let mut row = self.number(value.len() as i64);
        row.bytes.extend_from_slice(value);
        row
    }

    pub(super) fn sum(self) -> i64 {
        crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32IsoHdlc, &self.bytes) as i64
    }

    /// Compares the checksum with the stored one; `what` names the row in the error.
    pub(super) fn confirm(self, stored: i64, what: impl FnOnce() -> String) -> Result<(), EngineError> {
        if self.sum() == stored { Ok(()) } else { Err(EngineError::Damaged(format!("the checksum of {} is wrong", what()))) }
    }
}

/// A number to be stored.
pub(super) fn int(number: u64) -> Result<i64, EngineError> {
    i64::try_from(number).map_err(|_| EngineError::TooLarge(number))
}

/// A stored number that must not be negative; `what` names it in the error.
pub(super) fn uint(number: i64, what: &str) -> Result<u64, EngineError> {
    u64::try_from(number).map_err(|_| EngineError::Damaged(format!("{what} is {number}")))
}

/// A stored number of a smaller type; `what` names it in the error.
pub(super) fn narrow<T: TryFrom<i64>>(number: i64, what: &str) -> Result<T, EngineError> {
    T::try_from(number).map_err(|_| EngineError::Damaged(format!("{what} is {number}")))
}

/// The columns of `version`, in the order in which [`read_version`] reads and a put binds them.
pub(super) const VERSION_COLUMNS: &str = "version, archived, name, number, id, kind, sealed, size, sha256, \
     modified_seconds, modified_nanoseconds, mode, created_ms, stored_bytes, attributes, row_check";

/// The index of `name` in [`VERSION_COLUMNS`].
pub(super) const NAME_COLUMN: usize = 2;

/// The columns of `version` derived from a record, ready to be bound.
pub(super) struct VersionCells {
    pub(super) version: i64,
    pub(super) archived: i64,
    pub(super) number: i64,
    pub(super) kind: i64,
    pub(super) sealed: i64,
    pub(super) size: i64,
    pub(super) modified_seconds: Option<i64>,
    pub(super) modified_nanoseconds: Option<i64>,
    pub(super) mode: Option<i64>,
    pub(super) created_ms: i64,
    pub(super) stored_bytes: i64,
    pub(super) attributes: Option<Vec<u8>>,
}

impl VersionCells {
    pub(super) fn new(
        row_id: VersionRowId,
        archived: bool,
        record: &ObjectRecord,
        sealed: bool,
        stored_bytes: u64,
    ) -> Result<Self, EngineError> {
        Ok(Self {
            version: row_id.0,
            archived: archived.into(),
            number: int(record.version)?,
            kind: match record.kind {
                Kind::File => 0,
                Kind::SymbolicLink => 1,
                Kind::Directory => 2,
                Kind::DeletionMarker => 3,
            },
            sealed: sealed.into(),
            size: int(record.size)?,
            modified_seconds: record.modified.map(|modified| modified.seconds),
            modified_nanoseconds: record.modified.map(|modified| modified.nanoseconds.into()),
            mode: record.mode.map(i64::from),
            created_ms: int(record.created_ms)?,
            stored_bytes: int(stored_bytes)?,
            attributes: (!record.attributes.is_empty()).then(|| encode_attributes(&record.attributes)),
        })
    }

    pub(super) fn of(row: &VersionRow) -> Result<Self, EngineError> {
        Self::new(row.row_id, row.archived, &row.record, row.sealed, row.stored_bytes)
    }

    /// The checksum of the row. Its order, which differs from that of the columns, must not change:
    /// rows already written depend on it.
    pub(super) fn check(&self, name: &[u8], id: &[u8], sha256: &[u8]) -> RowCheck {
        let row = RowCheck::of("version")
            .numbers([self.version, self.archived, self.number, self.kind, self.sealed, self.size, self.created_ms, self.stored_bytes])
            .optional(self.modified_seconds)
            .optional(self.modified_nanoseconds)
            .optional(self.mode)
            .bytes(name)
            .bytes(id)
            .bytes(sha256);
        // Empty attributes (NULL) don't enter the checksum, so that of a row written before there
        // were attributes still matches.
        self.attributes.iter().fold(row, |row, attributes| row.bytes(attributes))
    }
}

pub(super) fn read_version(row: &Row<'_>) -> Result<VersionRow, EngineError> {
    let cells = VersionCells {
        version: row.get(0)?,
        archived: row.get(1)?,
        number: row.get(3)?,
        kind: row.get(5)?,
        sealed: row.get(6)?,
        size: row.get(7)?,
        modified_seconds: row.get(9)?,
        modified_nanoseconds: row.get(10)?,
        mode: row.get(11)?,
        created_ms: row.get(12)?,
        stored_bytes: row.get(13)?,
        attributes: row.get(14)?,
    };
    let name: Vec<u8> = row.get(NAME_COLUMN)?;
    let id: [u8; 16] = row.get(4)?;
    let sha256: [u8; 32] = row.get(8)?;
    cells.check(&name, &id, &sha256).confirm(row.get(15)?, || format!("version {}", VersionId(id)))?;

    let modified = match (cells.modified_seconds, cells.modified_nanoseconds) {
        (Some(seconds), Some(nanoseconds)) => Some(Modified { seconds, nanoseconds: narrow(nanoseconds, "the nanoseconds of a version")? }),
        _ => None,
    };
    let attributes = match &cells.attributes {
        Some(bytes) => decode_attributes(bytes)
            .map_err(|error| EngineError::Damaged(format!("the attributes of version {}: {error}", VersionId(id))))?,
        None => Attributes::default(),
    };
    Ok(VersionRow {
        row_id: VersionRowId(cells.version),
        id: VersionId(id),
        record: ObjectRecord {
            name: ObjectName(name),
            version: uint(cells.number, "the number of a version")?,
            kind: match cells.kind {
                0 => Kind::File,
                1 => Kind::SymbolicLink,
                2 => Kind::Directory,
                3 => Kind::DeletionMarker,
                other => return Err(EngineError::Damaged(format!("version {} is of kind {other}", VersionId(id)))),
            },
            size: uint(cells.size, "the size of a version")?,
            sha256: Digest(sha256),
            modified,
            mode: cells.mode.map(|mode| narrow(mode, "the mode of a version")).transpose()?,
            created_ms: uint(cells.created_ms, "the instant of a version")?,
            attributes,
        },
        sealed: cells.sealed != 0,
        stored_bytes: uint(cells.stored_bytes, "the length of a version")?,
        archived: cells.archived != 0,
    })
}
