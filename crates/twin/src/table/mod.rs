//! Tables: what experiments give out, as CSV, as Parquet and on the terminal; and Parquet back in, row by row, for traces.
//!
//! ```text
//! Table ---- write_csv ------> RFC 4180, for anything
//!   |  \---- write_parquet --> with units, descriptions and notes (scenario, seed, version), for pandas and the like
//!   '------- Display --------> aligned, with sensible digits, for people
//!
//! ParquetRows <--- a trace that someone else wrote
//! ```
//!
//! The same table gives the same bytes on every machine.

mod columnar;
mod csv;
mod rows;
mod terminal;

use std::io;

pub use rows::{ParquetRows, Row, RowsError, Stored, Wanted, stored};

/// What a column holds.
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
    /// The kind as messages name it.
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
    /// Nothing: what wasn't measured, such as a percentile of no samples. Any column may hold it.
    Missing,
}

impl Value {
    /// The kind of column that this value belongs in; none for a missing one, which fits in all.
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

/// A column: what it is called, what it holds, in which unit, and what that means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    name: String,
    kind: Kind,
    unit: String,
    description: String,
}

impl Column {
    /// A column; the unit is empty for what has none, the description one sentence.
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

    /// A column of yes or no.
    #[must_use]
    pub fn bool(name: &str, description: &str) -> Self {
        Self::new(name, Kind::Bool, "", description)
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it holds.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The unit of its values, or nothing.
    #[must_use]
    pub fn unit(&self) -> &str {
        &self.unit
    }

    /// What it means, in a sentence.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }
}

/// Named, typed columns, rows, and notes on the whole.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Value>>,
    notes: Vec<(String, String)>,
}

impl Table {
    /// A table of these columns, without rows.
    ///
    /// # Panics
    /// If two columns have one name: readers could not tell them apart.
    #[must_use]
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        let columns: Vec<Column> = columns.into_iter().collect();
        for (at, column) in columns.iter().enumerate() {
            assert!(columns[..at].iter().all(|other| other.name != column.name), "two columns are called `{}`", column.name);
        }
        Self { columns, rows: Vec::new(), notes: Vec::new() }
    }

    /// Notes something on the whole table, such as its scenario, seed or version. It goes into Parquet files as metadata.
    #[must_use]
    pub fn note(mut self, key: &str, value: impl ToString) -> Self {
        self.notes.push((key.into(), value.to_string()));
        self
    }

    /// Adds a row.
    ///
    /// # Errors
    /// If it has another number of values than there are columns, or one of another kind than its column; the row isn't added then.
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

    /// The rows, in the order they were added.
    #[must_use]
    pub fn rows(&self) -> &[Vec<Value>] {
        &self.rows
    }

    /// The notes, in the order they were made.
    #[must_use]
    pub fn notes(&self) -> &[(String, String)] {
        &self.notes
    }

    /// The value of this row, counted from 0, in the column of this name.
    #[must_use]
    pub fn value(&self, row: usize, column: &str) -> Option<&Value> {
        let column = self.columns.iter().position(|candidate| candidate.name == column)?;
        self.rows.get(row)?.get(column)
    }

    /// What the columns mean, as a table itself: to lie beside a CSV file, which has no place for it.
    #[must_use]
    pub fn dictionary(&self) -> Self {
        let mut dictionary = Self::new([
            Column::text("column", "The name of a column."),
            Column::text("kind", "What it holds."),
            Column::text("unit", "The unit of its values, or nothing."),
            Column::text("description", "What it means."),
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

    /// Writes the table as CSV by RFC 4180: a line of column names, lines ended by CR LF, quotes where they are needed. Numbers are the
    /// shortest that read back as the same value. What is missing is an empty field, empty text is `""`.
    ///
    /// # Errors
    /// If the writer refuses.
    pub fn write_csv(&self, to: &mut impl io::Write) -> io::Result<()> {
        csv::write(self, to)
    }

    /// Writes the table as a Parquet file: every column optional, compressed with Snappy. Its metadata holds the notes under their keys,
    /// and `unit.<column>` and `description.<column>` where there are some.
    ///
    /// # Errors
    /// If the writer refuses.
    pub fn write_parquet(&self, to: &mut (impl io::Write + Send)) -> Result<(), TableError> {
        columnar::write(self, to).map_err(TableError::from)
    }
}

/// Why a row or a table was refused.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// A row has too many values, or too few.
    #[error("row {row} has {found} values, and the table {expected} columns")]
    Width {
        /// The row, counted from 0.
        row: usize,
        /// How many values it has.
        found: usize,
        /// How many columns there are.
        expected: usize,
    },
    /// A value is of another kind than its column.
    #[error("row {row} has a {} in column `{column}`, which holds: {}", found.name(), expected.name())]
    Kind {
        /// The row, counted from 0.
        row: usize,
        /// The column's name.
        column: String,
        /// The kind of the value.
        found: Kind,
        /// The kind of the column.
        expected: Kind,
    },
    /// The Parquet file couldn't be written.
    #[error("the table could not be written as Parquet")]
    Parquet(#[from] parquet::errors::ParquetError),
}

#[cfg(test)]
mod tests;
