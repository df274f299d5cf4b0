//! Objects as rows of Parquet files.

use std::fs::File;
use std::io;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as PhysicalType};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{ColumnPath, Type};

/// Bytes of content after which a row group ends. A reader holds a group in memory.
const GROUP_BYTES: usize = 64 << 20;
/// Rows after which a row group ends.
const GROUP_ROWS: usize = 100_000;
/// Content above this is refused: Parquet's limit is 2 GiB, and a row is held in memory.
pub(crate) const CONTENT_BYTES_MAX: u64 = 1 << 30;

/// An object.
pub(crate) struct Row {
    pub(crate) key: String,
    pub(crate) version_id: Option<String>,
    pub(crate) etag: Option<String>,
    /// The part of the content, as in the header `Content-Range`.
    pub(crate) range: Option<String>,
    /// In seconds since 1970.
    pub(crate) modified_s: i64,
    pub(crate) content: Vec<u8>,
}

/// Writes rows to a Parquet file.
pub(crate) struct RowWriter {
    writer: SerializedFileWriter<File>,
    rows: Vec<Row>,
    content_bytes: usize,
}

fn io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(error) => match error.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(error) => io::Error::other(error),
        },
        error => io::Error::other(error),
    }
}

impl RowWriter {
    pub(crate) fn new(file: File) -> io::Result<Self> {
        let content = ColumnPath::from("content");
        let properties = WriterProperties::builder()
            .set_created_by("fulgurite version 1".into())
            .set_compression(Compression::SNAPPY)
            // Content is usually compressed already, and its minimum and maximum mean nothing.
            .set_column_compression(content.clone(), Compression::UNCOMPRESSED)
            .set_column_dictionary_enabled(content.clone(), false)
            .set_column_statistics_enabled(content, EnabledStatistics::None)
            .build();
        let schema = schema().map_err(io_error)?;
        let writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties)).map_err(io_error)?;
        Ok(Self { writer, rows: Vec::new(), content_bytes: 0 })
    }

    pub(crate) fn push(&mut self, row: Row) -> io::Result<()> {
        self.content_bytes += row.content.len();
        self.rows.push(row);
        if self.content_bytes >= GROUP_BYTES || self.rows.len() >= GROUP_ROWS { self.end_group() } else { Ok(()) }
    }

    fn end_group(&mut self) -> io::Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        self.content_bytes = 0;
        let rows = std::mem::take(&mut self.rows);
        self.write(rows).map_err(io_error)
    }

    fn write(&mut self, mut rows: Vec<Row>) -> Result<()> {
        let mut group = self.writer.next_row_group()?;
        texts(&mut group, rows.iter().map(|row| Some(row.key.as_str())), false)?;
        texts(&mut group, rows.iter().map(|row| row.version_id.as_deref()), true)?;
        texts(&mut group, rows.iter().map(|row| row.etag.as_deref()), true)?;
        texts(&mut group, rows.iter().map(|row| row.range.as_deref()), true)?;
        let modified: Vec<i64> = rows.iter().map(|row| row.modified_s.saturating_mul(1_000)).collect();
        let mut column = group.next_column()?.expect("the schema has this column");
        column.typed::<Int64Type>().write_batch(&modified, None, None)?;
        column.close()?;
        let content: Vec<ByteArray> = rows.iter_mut().map(|row| ByteArray::from(std::mem::take(&mut row.content))).collect();
        let mut column = group.next_column()?.expect("the schema has this column");
        column.typed::<ByteArrayType>().write_batch(&content, None, None)?;
        column.close()?;
        group.close()?;
        Ok(())
    }

    /// Writes the rest, and syncs the file.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.end_group()?;
        self.writer.into_inner().map_err(io_error)?.sync_all()
    }
}

fn texts<'r>(
    group: &mut SerializedRowGroupWriter<'_, File>,
    values: impl Iterator<Item = Option<&'r str>>,
    is_optional: bool,
) -> Result<()> {
    let (mut present, mut levels) = (Vec::new(), Vec::new());
    for value in values {
        levels.push(i16::from(value.is_some()));
        present.extend(value.map(ByteArray::from));
    }
    let mut column = group.next_column()?.expect("the schema has this column");
    column.typed::<ByteArrayType>().write_batch(&present, is_optional.then_some(&levels), None)?;
    column.close()?;
    Ok(())
}

fn schema() -> Result<Type> {
    let field = |name: &str, physical, repetition, logical: Option<LogicalType>| {
        Type::primitive_type_builder(name, physical).with_repetition(repetition).with_logical_type(logical).build().map(Arc::new)
    };
    let text = |name, repetition| field(name, PhysicalType::BYTE_ARRAY, repetition, Some(LogicalType::String));
    let time = LogicalType::timestamp(true, TimeUnit::MILLIS);
    let fields = vec![
        text("key", Repetition::REQUIRED)?,
        text("version_id", Repetition::OPTIONAL)?,
        text("etag", Repetition::OPTIONAL)?,
        text("range", Repetition::OPTIONAL)?,
        field("modified", PhysicalType::INT64, Repetition::REQUIRED, Some(time))?,
        field("content", PhysicalType::BYTE_ARRAY, Repetition::REQUIRED, None)?,
    ];
    Type::group_type_builder("schema").with_fields(fields).build()
}
