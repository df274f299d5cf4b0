//! Tables of results, written as CSV, as Parquet or to the terminal. Parquet files of
//! any program are read row by row, in bounded memory.
//!
//! ```text
//! Table ---- write_csv ------> RFC 4180, for anything
//!   |  \---- write_parquet --> with units, descriptions and notes (scenario, seed, version), for pandas and the like
//!   '------- Display --------> aligned, with sensible digits, for people
//!
//! ParquetRows <--- a file that another program wrote, such as a trace
//! ```
//!
//! The same table gives the same bytes on every machine.

#![forbid(unsafe_code)]

mod columnar;
mod csv;
mod rows;
mod terminal;

use std::io;

pub use rows::{ParquetRows, Row, RowsError, Stored, StoredType, Wanted, stored};

/// The type of a column's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Floating-point numbers.
    F64,
    /// Whole numbers.
    I64,
    /// Text.
    Text,
    /// Yes or no.
    Bool,
}

impl Kind {
    /// The name of the kind in messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::F64 => "number",
            Self::I64 => "whole number",
            Self::Text => "text",
            Self::Bool => "yes or no",
        }
    }
}

/// One value of a table.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A floating-point number.
    F64(f64),
    /// A whole number.
    I64(i64),
    /// Text.
    Text(String),
    /// Yes or no.
    Bool(bool),
    /// A value that wasn't measured, such as a percentile of no samples. Any column may hold it.
    Missing,
}

impl Value {
    /// The kind of column that this value belongs in; `None` for a missing value, which fits any
    /// column.
    #[must_use]
    pub fn kind(&self) -> Option<Kind> {
        match self {
            Self::F64(_) => Some(Kind::F64),
            Self::I64(_) => Some(Kind::I64),
            Self::Text(_) => Some(Kind::Text),
            Self::Bool(_) => Some(Kind::Bool),
            Self::Missing => None,
        }
    }
}

macro_rules! value_from {
    ($($type:ty => $variant:ident),+ $(,)?) => {
        $(impl From<$type> for Value {
            fn from(value: $type) -> Self {
                Self::$variant(value.into())
            }
        })+
    };
}

value_from!(f64 => F64, i64 => I64, i32 => I64, u32 => I64, u16 => I64, u8 => I64, &str => Text, String => Text, bool => Bool);

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Missing, Into::into)
    }
}

/// A column: its name, kind, unit and description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    name: String,
    kind: Kind,
    unit: String,
    description: String,
}

impl Column {
    /// A column. The unit is empty for dimensionless values; the description is one sentence.
    #[must_use]
    pub fn new(name: &str, kind: Kind, unit: &str, description: &str) -> Self {
        Self { name: name.into(), kind, unit: unit.into(), description: description.into() }
    }

    /// A column of floating-point numbers.
    #[must_use]
    pub fn f64(name: &str, unit: &str, description: &str) -> Self {
        Self::new(name, Kind::F64, unit, description)
    }

    /// A column of whole numbers.
    #[must_use]
    pub fn i64(name: &str, unit: &str, description: &str) -> Self {
        Self::new(name, Kind::I64, unit, description)
    }

    /// A column of text.
    #[must_use]
    pub fn text(name: &str, description: &str) -> Self {
        Self::new(name, Kind::Text, "", description)
    }

    /// A column of booleans.
    #[must_use]
    pub fn bool(name: &str, description: &str) -> Self {
        Self::new(name, Kind::Bool, "", description)
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The kind of its values.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The unit of its values; may be empty.
    #[must_use]
    pub fn unit(&self) -> &str {
        &self.unit
    }

    /// The description, one sentence.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }
}

/// A table of named, typed columns, with rows and notes.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Value>>,
    notes: Vec<(String, String)>,
}

impl Table {
    /// A table with these columns and no rows.
    ///
    /// # Panics
    /// If two columns have the same name: readers could not tell them apart.
    #[must_use]
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        let columns: Vec<Column> = columns.into_iter().collect();
        for (at, column) in columns.iter().enumerate() {
            assert!(columns[..at].iter().all(|other| other.name != column.name), "two columns are called `{}`", column.name);
        }
        Self { columns, rows: Vec::new(), notes: Vec::new() }
    }

    /// Adds a note on the whole table, such as its scenario, seed or version. Parquet files store
    /// notes as metadata.
    #[must_use]
    pub fn note(mut self, key: &str, value: impl ToString) -> Self {
        self.notes.push((key.into(), value.to_string()));
        self
    }

    /// Adds a row.
    ///
    /// # Errors
    /// If the number of values differs from the number of columns, or a value has the wrong kind.
    /// The row is then not added.
    pub fn push(&mut self, row: impl IntoIterator<Item = Value>) -> Result<(), TableError> {
        let row: Vec<Value> = row.into_iter().collect();
        if row.len() != self.columns.len() {
            return Err(TableError::Width { row: self.rows.len(), found: row.len(), expected: self.columns.len() });
        }
        for (column, value) in self.columns.iter().zip(&row) {
            if let Some(found) = value.kind().filter(|&kind| kind != column.kind) {
                return Err(TableError::Kind { row: self.rows.len(), column: column.name.clone(), found, expected: column.kind });
            }
        }
        self.rows.push(row);
        Ok(())
    }

    /// The columns.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The rows, in insertion order.
    #[must_use]
    pub fn rows(&self) -> &[Vec<Value>] {
        &self.rows
    }

    /// The notes, in insertion order.
    #[must_use]
    pub fn notes(&self) -> &[(String, String)] {
        &self.notes
    }

    /// The value in this row, counted from 0, and the column of this name.
    #[must_use]
    pub fn value(&self, row: usize, column: &str) -> Option<&Value> {
        let column = self.columns.iter().position(|candidate| candidate.name == column)?;
        self.rows.get(row)?.get(column)
    }

    /// The descriptions of the columns as a table, to accompany a CSV file, which can't hold them.
    #[must_use]
    pub fn dictionary(&self) -> Self {
        let mut dictionary = Self::new([
            Column::text("column", "The name of a column."),
            Column::text("kind", "Kind of its values."),
            Column::text("unit", "Unit of its values; may be empty."),
            Column::text("description", "Description of the column."),
        ]);
        for column in &self.columns {
            dictionary.rows.push(vec![
                column.name.as_str().into(),
                column.kind.name().into(),
                column.unit.as_str().into(),
                column.description.as_str().into(),
            ]);
        }
        dictionary
    }

    /// Writes the table as CSV (RFC 4180): a header line, CR LF line ends, quotes where necessary.
    /// Numbers have the fewest digits that read back as the same value. A missing value is an empty
    /// field, empty text is `""`. In a table of a single column, a missing value is `""` as well,
    /// because many readers skip empty lines.
    ///
    /// # Errors
    /// If writing fails.
    pub fn write_csv(&self, to: &mut impl io::Write) -> io::Result<()> {
        csv::write(self, to)
    }

    /// Writes the table as a Parquet file: all columns optional, compressed with Snappy. The
    /// metadata contains the notes under their keys, and `unit.<column>` and `description.<column>`
    /// unless empty.
    ///
    /// # Errors
    /// If writing fails.
    pub fn write_parquet(&self, to: &mut (impl io::Write + Send)) -> Result<(), TableError> {
        columnar::write(self, to).map_err(TableError::from)
    }
}

/// Why a row or table was rejected.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message says what happened, with its fields")]
pub enum TableError {
    #[error("row {row} has {found} values, but the table has {expected} columns")]
    Width {
        /// The row, counted from 0.
        row: usize,
        found: usize,
        expected: usize,
    },
    #[error("row {row} has a {} in column `{column}`, which holds {}", found.name(), expected.name())]
    Kind {
        /// The row, counted from 0.
        row: usize,
        column: String,
        found: Kind,
        expected: Kind,
    },
    #[error("the table could not be written as Parquet")]
    Parquet(#[from] parquet::errors::ParquetError),
}

#[cfg(test)]
mod tests;
