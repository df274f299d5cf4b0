//! Reads Parquet files row by row, for traces: named columns of known kinds, in bounded memory.
//!
//! A file may have additional columns, in any order, integers of any width, and floating-point
//! numbers of 32 or 64 bits. Only the requested columns are read, some thousand rows of one row
//! group at a time.

use super::{Kind, Value};
use parquet::basic::{Compression, ConvertedType, LogicalType, TimeUnit, Type as PhysicalType};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, FileReader};
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::schema::types::ColumnDescriptor;

const ROWS_OF_A_BATCH: usize = 4_096;

/// A column requested by a reader of rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    name: String,
    kind: Kind,
    required: bool,
}

impl Wanted {
    /// A column that the file must have.
    #[must_use]
    pub fn required(name: &str, kind: Kind) -> Self {
        Self { name: name.into(), kind, required: true }
    }

    /// A column whose values are all missing if the file lacks it.
    #[must_use]
    pub fn optional(name: &str, kind: Kind) -> Self {
        Self { name: name.into(), kind, required: false }
    }
}

/// A column of a Parquet file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// The name.
    pub name: String,
    /// The kind that its values are read as; `None` if the type is unsupported.
    pub kind: Option<Kind>,
    /// For a column of times: its unit in nanoseconds. Times are counted from 1970.
    pub nanoseconds: Option<i64>,
}

/// The columns of a Parquet file.
///
/// # Errors
/// If the source is not a Parquet file.
pub fn stored<R: ChunkReader + 'static>(source: R) -> Result<Vec<Stored>, RowsError> {
    let file = SerializedFileReader::new(source).map_err(RowsError::NotParquet)?;
    let column = |column: &std::sync::Arc<ColumnDescriptor>| {
        let name = column.path().string();
        let kinds = [Kind::I64, Kind::F64, Kind::Text, Kind::Bool];
        let kind = kinds.into_iter().find(|kind| check(&Wanted::required(&name, *kind), column).is_ok());
        let nanoseconds = match logical_type(column) {
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
    /// Index of the row in the file, from 0.
    pub number: u64,
    /// The values of the requested columns, in the order of the request.
    pub values: Vec<Value>,
}

/// The rows of a Parquet file, one after another. The iterator ends after an error.
pub struct ParquetRows<R: ChunkReader + 'static> {
    file: SerializedFileReader<R>,
    wanted: Vec<Wanted>,
    /// For each requested column, where it is in the file; `None` if the file lacks it.
    places: Vec<Option<ColumnPlace>>,
    group: usize,
    readers: Vec<Option<ColumnReader>>,
    left_in_group: u64,
    next_row: u64,
    batch: Vec<std::vec::IntoIter<Value>>,
    left_in_batch: usize,
    ended: bool,
}

/// Where a column is in the file, and how its integers are stored.
#[derive(Debug, Clone, Copy)]
struct ColumnPlace {
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
    /// If the source is not a Parquet file, or a requested column is missing, has another kind, or
    /// uses a compression other than Snappy.
    pub fn new(source: R, wanted: impl IntoIterator<Item = Wanted>) -> Result<Self, RowsError> {
        let wanted: Vec<Wanted> = wanted.into_iter().collect();
        let file = SerializedFileReader::new(source).map_err(RowsError::NotParquet)?;
        let schema = file.metadata().file_metadata().schema_descr();
        let mut places = Vec::new();
        for column in &wanted {
            let index = schema.columns().iter().position(|candidate| candidate.path().string() == column.name);
            let place = match index {
                Some(index) => Some(ColumnPlace { index, unsigned: check(column, schema.columns()[index].as_ref())? }),
                None if schema.root_schema().get_fields().iter().any(|field| field.name() == column.name) => {
                    return Err(RowsError::Kind { column: column.name.clone(), found: StoredType::Nested, expected: column.kind });
                }
                None if column.required => {
                    let found = schema.columns().iter().map(|candidate| candidate.path().string()).collect();
                    return Err(RowsError::Missing { column: column.name.clone(), found });
                }
                None => None,
            };
            places.push(place);
            if let Some(place) = place {
                for group in file.metadata().row_groups() {
                    let found = group.column(place.index).compression();
                    if !matches!(found, Compression::UNCOMPRESSED | Compression::SNAPPY) {
                        return Err(RowsError::Compressed { column: column.name.clone(), found });
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

    /// Number of rows according to the file.
    #[must_use]
    pub fn row_count(&self) -> u64 {
        u64::try_from(self.file.metadata().file_metadata().num_rows()).unwrap_or(0)
    }

    /// The note under this key in the file's metadata.
    #[must_use]
    pub fn note(&self, key: &str) -> Option<&str> {
        let notes = self.file.metadata().file_metadata().key_value_metadata()?;
        notes.iter().find(|note| note.key == key)?.value.as_deref()
    }

    /// Reads the next batch; returns false at the end of the file.
    fn fill(&mut self) -> Result<bool, RowsError> {
        while self.left_in_group == 0 {
            if self.group == self.file.num_row_groups() {
                return Ok(false);
            }
            let damaged = |cause| RowsError::Damaged { row: self.next_row, cause };
            let group = self.file.get_row_group(self.group).map_err(damaged)?;
            let reader = |place: &Option<ColumnPlace>| place.map(|place| group.get_column_reader(place.index)).transpose();
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
            let filled = self.fill();
            self.ended = !matches!(filled, Ok(true));
            if self.ended {
                return filled.err().map(Err);
            }
        }
        self.left_in_batch -= 1;
        self.next_row += 1;
        let values = self.batch.iter_mut().map(|column| column.next().expect("each column of a batch has as many values as it has rows"));
        Some(Ok(Row { number: self.next_row - 1, values: values.collect() }))
    }
}

/// The interpretation of a column's values. Older writers give only its predecessor, the converted
/// type.
fn logical_type(column: &ColumnDescriptor) -> Option<LogicalType> {
    if let Some(logical) = column.logical_type_ref() {
        return Some(logical.clone());
    }
    Some(match column.converted_type() {
        ConvertedType::NONE => return None,
        ConvertedType::UTF8 => LogicalType::String,
        ConvertedType::ENUM => LogicalType::Enum,
        ConvertedType::JSON => LogicalType::Json,
        ConvertedType::BSON => LogicalType::Bson,
        ConvertedType::DATE => LogicalType::Date,
        ConvertedType::DECIMAL => LogicalType::decimal(column.type_scale(), column.type_precision()),
        ConvertedType::TIME_MILLIS => LogicalType::time(true, TimeUnit::MILLIS),
        ConvertedType::TIME_MICROS => LogicalType::time(true, TimeUnit::MICROS),
        ConvertedType::TIMESTAMP_MILLIS => LogicalType::timestamp(true, TimeUnit::MILLIS),
        ConvertedType::TIMESTAMP_MICROS => LogicalType::timestamp(true, TimeUnit::MICROS),
        ConvertedType::INT_8 => LogicalType::integer(8, true),
        ConvertedType::INT_16 => LogicalType::integer(16, true),
        ConvertedType::INT_32 => LogicalType::integer(32, true),
        ConvertedType::INT_64 => LogicalType::integer(64, true),
        ConvertedType::UINT_8 => LogicalType::integer(8, false),
        ConvertedType::UINT_16 => LogicalType::integer(16, false),
        ConvertedType::UINT_32 => LogicalType::integer(32, false),
        ConvertedType::UINT_64 => LogicalType::integer(64, false),
        ConvertedType::MAP | ConvertedType::MAP_KEY_VALUE => LogicalType::Map,
        ConvertedType::LIST => LogicalType::List,
        // Without a successor, so it can't be what any reader expects.
        ConvertedType::INTERVAL => LogicalType::Unknown,
    })
}

/// Checks that a column of the file can provide the requested kind. Returns true if its numbers are
/// unsigned.
fn check(wanted: &Wanted, column: &ColumnDescriptor) -> Result<bool, RowsError> {
    let physical = column.physical_type();
    let logical = logical_type(column);
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
    let found = logical.map_or(StoredType::Physical(physical), |logical| StoredType::Logical(physical, Box::new(logical)));
    Err(RowsError::Kind { column: wanted.name.clone(), found, expected: wanted.kind })
}

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

/// Reads and converts the next values of a column. The inner error is the index, from 0, of a value
/// that can't be converted.
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
        // A required column has no levels: all its values are present.
        let value = if levels.get(at) == Some(&0) { Some(Value::Missing) } else { present.next().and_then(&convert) };
        match value {
            Some(value) => converted.push(value),
            None => return Ok(Err(at)),
        }
    }
    Ok(Ok(converted))
}

/// The type of a column in a Parquet file.
#[derive(Debug, Clone, PartialEq)]
pub enum StoredType {
    /// Columns of its own.
    Nested,
    /// Values without an interpretation.
    Physical(PhysicalType),
    /// Values and their interpretation.
    Logical(PhysicalType, Box<LogicalType>),
}

impl std::fmt::Display for StoredType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Nested => f.write_str("nested values"),
            Self::Physical(physical) => write!(f, "{physical}"),
            Self::Logical(physical, logical) => write!(f, "{physical} as {logical:?}"),
        }
    }
}

/// Why rows of a Parquet file could not be read.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message says what happened, with its fields")]
pub enum RowsError {
    #[error("this is not a readable Parquet file")]
    NotParquet(#[source] ParquetError),
    #[error("the file has no column `{column}`; its columns are `{}`", found.join("`, `"))]
    Missing { column: String, found: Vec<String> },
    #[error("column `{column}` holds {found}; expected {}", expected.name())]
    Kind { column: String, found: StoredType, expected: Kind },
    /// A value can't be represented: an unsigned number of more than 63 bits, or text that isn't
    /// UTF-8.
    #[error("row {} of column `{column}` is not a valid {}: a number beyond 63 bits, or bytes that are not UTF-8", row + 1, expected.name())]
    Unsuitable {
        /// The row, counted from 0; messages count from 1, as for CSV.
        row: u64,
        column: String,
        expected: Kind,
    },
    #[error("column `{column}` is compressed with {found}; only Snappy and uncompressed columns are supported")]
    Compressed { column: String, found: Compression },
    #[error("the file is damaged and can't be read from row {} on", row + 1)]
    Damaged {
        /// Index of the first row that wasn't read, from 0.
        row: u64,
        #[source]
        cause: ParquetError,
    },
}
