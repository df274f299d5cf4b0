//! Parquet files row by row, for traces: named columns of known kinds, in bounded memory.
//!
//! A file may have more columns than are wanted, in any order, and whole numbers or floating-point ones of any width. Only the wanted
//! columns are read, some thousand rows of one row group at a time.

use super::{Kind, Value};
use parquet::basic::{Compression, LogicalType, TimeUnit, Type as PhysicalType};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, FileReader};
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::schema::types::ColumnDescriptor;

const ROWS_OF_A_BATCH: usize = 4_096;

/// A column that a reader of rows asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    name: String,
    kind: Kind,
    required: bool,
}

impl Wanted {
    /// A column that the file has to have.
    #[must_use]
    pub fn required(name: &str, kind: Kind) -> Self {
        Self { name: name.into(), kind, required: true }
    }

    /// A column whose values are all missing if the file doesn't have it.
    #[must_use]
    pub fn optional(name: &str, kind: Kind) -> Self {
        Self { name: name.into(), kind, required: false }
    }
}

/// A column of a Parquet file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Its name.
    pub name: String,
    /// What its values are read as; nothing if they are of none of these kinds.
    pub kind: Option<Kind>,
    /// Of a column of times: how many nanoseconds one of its whole numbers is, counted from 1970.
    pub nanoseconds: Option<i64>,
}

/// The columns of a Parquet file.
///
/// # Errors
/// If it is none.
pub fn stored<R: ChunkReader + 'static>(source: R) -> Result<Vec<Stored>, RowsError> {
    let file = SerializedFileReader::new(source).map_err(RowsError::NotParquet)?;
    let column = |column: &std::sync::Arc<ColumnDescriptor>| {
        let name = column.path().string();
        let kinds = [Kind::I64, Kind::F64, Kind::Text, Kind::Bool];
        let kind = kinds.into_iter().find(|kind| check(&Wanted::required(&name, *kind), column).is_ok());
        let nanoseconds = match column.logical_type_ref() {
            Some(LogicalType::Timestamp(time)) => Some(match time.unit {
                TimeUnit::MILLIS => 1_000_000,
                TimeUnit::MICROS => 1_000,
                TimeUnit::NANOS => 1,
            }),
            _ => None,
        };
        Stored { name, kind, nanoseconds }
    };
    Ok(file.metadata().file_metadata().schema_descr().columns().iter().map(column).collect())
}

/// One row of a Parquet file.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Which row of the file it is, counted from 0.
    pub number: u64,
    /// The values of the wanted columns, in the order they were asked for.
    pub values: Vec<Value>,
}

/// The rows of a Parquet file, one after another. After an error there are no more.
pub struct ParquetRows<R: ChunkReader + 'static> {
    file: SerializedFileReader<R>,
    wanted: Vec<Wanted>,
    /// For each wanted column the file's column, or none where it has none.
    places: Vec<Option<Place>>,
    group: usize,
    readers: Vec<Option<ColumnReader>>,
    left_in_group: u64,
    next_row: u64,
    batch: Vec<std::vec::IntoIter<Value>>,
    left_in_batch: usize,
    ended: bool,
}

/// A column of the file, by its index.
#[derive(Debug, Clone, Copy)]
struct Place {
    index: usize,
    unsigned: bool,
}

impl<R: ChunkReader + 'static> std::fmt::Debug for ParquetRows<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ParquetRows").field("wanted", &self.wanted).field("next_row", &self.next_row).finish_non_exhaustive()
    }
}

impl<R: ChunkReader + 'static> ParquetRows<R> {
    /// Opens a file, or bytes, for these columns.
    ///
    /// # Errors
    /// If it is no Parquet file, lacks a required column, or has a wanted one of another kind or compressed with something else than Snappy.
    pub fn new(source: R, wanted: impl IntoIterator<Item = Wanted>) -> Result<Self, RowsError> {
        let wanted: Vec<Wanted> = wanted.into_iter().collect();
        let file = SerializedFileReader::new(source).map_err(RowsError::NotParquet)?;
        let schema = file.metadata().file_metadata().schema_descr();
        let mut places = Vec::new();
        for column in &wanted {
            let index = schema.columns().iter().position(|candidate| candidate.path().string() == column.name);
            let place = match index {
                Some(index) => Some(Place { index, unsigned: check(column, schema.columns()[index].as_ref())? }),
                None if schema.root_schema().get_fields().iter().any(|field| field.name() == column.name) => {
                    return Err(RowsError::Kind { column: column.name.clone(), found: "nested values".into(), expected: column.kind });
                }
                None if column.required => {
                    let found = schema.columns().iter().map(|candidate| candidate.path().string()).collect::<Vec<_>>().join("`, `");
                    return Err(RowsError::Missing { column: column.name.clone(), found });
                }
                None => None,
            };
            places.push(place);
            if let Some(place) = place {
                for group in file.metadata().row_groups() {
                    let found = group.column(place.index).compression();
                    if !matches!(found, Compression::UNCOMPRESSED | Compression::SNAPPY) {
                        return Err(RowsError::Compressed { column: column.name.clone(), found: found.to_string() });
                    }
                }
            }
        }
        Ok(Self {
            file,
            wanted,
            places,
            group: 0,
            readers: Vec::new(),
            left_in_group: 0,
            next_row: 0,
            batch: Vec::new(),
            left_in_batch: 0,
            ended: false,
        })
    }

    /// How many rows the file says it has.
    #[must_use]
    pub fn row_count(&self) -> u64 {
        u64::try_from(self.file.metadata().file_metadata().num_rows()).unwrap_or(0)
    }

    /// What the file's metadata notes under this key.
    #[must_use]
    pub fn note(&self, key: &str) -> Option<&str> {
        let notes = self.file.metadata().file_metadata().key_value_metadata()?;
        notes.iter().find(|note| note.key == key)?.value.as_deref()
    }

    /// Reads on until there is a row; false at the end.
    fn fill(&mut self) -> Result<bool, RowsError> {
        while self.left_in_group == 0 {
            if self.group == self.file.num_row_groups() {
                return Ok(false);
            }
            let damaged = |cause| RowsError::Damaged { row: self.next_row, cause };
            let group = self.file.get_row_group(self.group).map_err(damaged)?;
            let reader = |place: &Option<Place>| place.map(|place| group.get_column_reader(place.index)).transpose();
            let readers = self.places.iter().map(reader).collect::<Result<_, _>>().map_err(damaged)?;
            let rows = u64::try_from(group.metadata().num_rows()).unwrap_or(0);
            drop(group);
            (self.readers, self.left_in_group) = (readers, rows);
            self.group += 1;
        }
        let rows = self.left_in_group.min(ROWS_OF_A_BATCH as u64) as usize;
        self.batch.clear();
        for ((wanted, place), reader) in self.wanted.iter().zip(&self.places).zip(&mut self.readers) {
            let values = match (reader, place) {
                (Some(reader), Some(place)) => read(reader, wanted, place.unsigned, rows, self.next_row)?,
                _ => vec![Value::Missing; rows],
            };
            self.batch.push(values.into_iter());
        }
        self.left_in_group -= rows as u64;
        self.left_in_batch = rows;
        Ok(true)
    }
}

impl<R: ChunkReader + 'static> Iterator for ParquetRows<R> {
    type Item = Result<Row, RowsError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        if self.left_in_batch == 0 {
            match self.fill() {
                Ok(true) => {}
                Ok(false) => {
                    self.ended = true;
                    return None;
                }
                Err(error) => {
                    self.ended = true;
                    return Some(Err(error));
                }
            }
        }
        self.left_in_batch -= 1;
        self.next_row += 1;
        let values = self.batch.iter_mut().map(|column| column.next().expect("each column of a batch has as many values as it has rows"));
        Some(Ok(Row { number: self.next_row - 1, values: values.collect() }))
    }
}

/// Whether a column of the file can give values of the wanted kind; and if so, whether its numbers have no sign.
fn check(wanted: &Wanted, column: &ColumnDescriptor) -> Result<bool, RowsError> {
    let physical = column.physical_type();
    let logical = column.logical_type_ref();
    let plain = matches!(logical, None | Some(LogicalType::Integer(_) | LogicalType::String | LogicalType::Enum | LogicalType::Json));
    let fits = match wanted.kind {
        // Times are whole numbers of their unit.
        Kind::I64 if matches!(logical, Some(LogicalType::Timestamp(_))) => physical == PhysicalType::INT64,
        Kind::I64 => matches!(physical, PhysicalType::INT32 | PhysicalType::INT64),
        Kind::F64 => matches!(physical, PhysicalType::DOUBLE | PhysicalType::FLOAT | PhysicalType::INT32 | PhysicalType::INT64),
        Kind::Text => physical == PhysicalType::BYTE_ARRAY,
        Kind::Bool => physical == PhysicalType::BOOLEAN,
    };
    let is_time = wanted.kind == Kind::I64 && matches!(logical, Some(LogicalType::Timestamp(_)));
    if fits && (plain || is_time) && column.max_rep_level() == 0 && column.path().parts().len() == 1 {
        return Ok(matches!(logical, Some(LogicalType::Integer(integer)) if !integer.is_signed));
    }
    let found = logical.map_or_else(|| physical.to_string(), |logical| format!("{physical} as {logical:?}"));
    Err(RowsError::Kind { column: wanted.name.clone(), found, expected: wanted.kind })
}

/// The next `rows` values of a column.
fn read(reader: &mut ColumnReader, wanted: &Wanted, unsigned: bool, rows: usize, first_row: u64) -> Result<Vec<Value>, RowsError> {
    let float = wanted.kind == Kind::F64;
    let whole = |number: i64| if float { Value::F64(number as f64) } else { Value::I64(number) };
    let damaged = |cause| RowsError::Damaged { row: first_row, cause };
    let unsuitable = |row| RowsError::Unsuitable { row, column: wanted.name.clone(), expected: wanted.kind };
    match reader {
        ColumnReader::BoolColumnReader(reader) => values(reader, rows, |yes| Some(Value::Bool(yes)), damaged)?,
        ColumnReader::Int32ColumnReader(reader) => {
            let read = |number: i32| Some(whole(if unsigned { i64::from(number as u32) } else { i64::from(number) }));
            values(reader, rows, read, damaged)?
        }
        ColumnReader::Int64ColumnReader(reader) => {
            values(reader, rows, |number| (!unsigned || number >= 0).then(|| whole(number)), damaged)?
        }
        ColumnReader::FloatColumnReader(reader) => values(reader, rows, |number| Some(Value::F64(number.into())), damaged)?,
        ColumnReader::DoubleColumnReader(reader) => values(reader, rows, |number| Some(Value::F64(number)), damaged)?,
        ColumnReader::ByteArrayColumnReader(reader) => {
            let text = |bytes: ByteArray| String::from_utf8(bytes.data().to_vec()).ok().map(Value::Text);
            values(reader, rows, text, damaged)?
        }
        ColumnReader::Int96ColumnReader(_) | ColumnReader::FixedLenByteArrayColumnReader(_) => {
            unreachable!("columns of these types were refused when the file was opened")
        }
    }
    .map_err(|at| unsuitable(first_row + at as u64))
}

/// The next values of a column, converted; or which of them, counted from 0, can't be.
fn values<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    rows: usize,
    convert: impl Fn(T::T) -> Option<Value>,
    damaged: impl Fn(ParquetError) -> RowsError,
) -> Result<Result<Vec<Value>, usize>, RowsError> {
    let (mut levels, mut present) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
    let (records, _, _) = reader.read_records(rows, Some(&mut levels), None, &mut present).map_err(&damaged)?;
    if records != rows {
        return Err(damaged(ParquetError::EOF(format!("a column has {records} values where its row group says {rows}"))));
    }
    let mut converted = Vec::with_capacity(rows);
    let mut present = present.into_iter();
    for at in 0..rows {
        // A required column has no levels: all of its values are there.
        let value = if levels.get(at) == Some(&0) { Some(Value::Missing) } else { present.next().and_then(&convert) };
        match value {
            Some(value) => converted.push(value),
            None => return Ok(Err(at)),
        }
    }
    Ok(Ok(converted))
}

/// Why rows of a Parquet file couldn't be read.
#[derive(Debug, thiserror::Error)]
pub enum RowsError {
    /// The file isn't one.
    #[error("this is no Parquet file that can be read")]
    NotParquet(#[source] ParquetError),
    /// A required column isn't there.
    #[error("the file has no column `{column}`; its columns are `{found}`")]
    Missing {
        /// The column's name.
        column: String,
        /// The names of the columns that are there.
        found: String,
    },
    /// A column holds something else than was asked for.
    #[error("column `{column}` holds {found}, not: {}", expected.name())]
    Kind {
        /// The column's name.
        column: String,
        /// What it holds, as Parquet names it.
        found: String,
        /// What was asked for.
        expected: Kind,
    },
    /// A value can't be represented: an unsigned number of more than 63 bits, or text that isn't UTF-8.
    #[error("row {row} of column `{column}` holds what is no {}: a number beyond 63 bits, or bytes that are not UTF-8", expected.name())]
    Unsuitable {
        /// The row, counted from 0.
        row: u64,
        /// The column's name.
        column: String,
        /// What was asked for.
        expected: Kind,
    },
    /// A column is compressed in a way that isn't built in.
    #[error("column `{column}` is compressed with {found}; only Snappy and no compression can be read")]
    Compressed {
        /// The column's name.
        column: String,
        /// The compression, as Parquet names it.
        found: String,
    },
    /// The file is damaged.
    #[error("the file is damaged, and can't be read from row {row} on")]
    Damaged {
        /// The first row that wasn't read, counted from 0.
        row: u64,
        /// What the Parquet library says.
        #[source]
        cause: ParquetError,
    },
}
