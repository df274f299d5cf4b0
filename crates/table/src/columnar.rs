//! Writes tables as Parquet files.

use super::{Kind, Table, Value};
use parquet::basic::{Compression, LogicalType, Repetition, Type as PhysicalType};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::Result;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;
use std::io::Write;
use std::sync::Arc;

/// Not the version of this program, so that a new version writes the same bytes. Callers that want
/// the version in the file add a note.
const CREATED_BY: &str = "fulgurite version 1";
const ROWS_OF_A_GROUP: usize = 1 << 20;

pub(super) fn write(table: &Table, to: &mut (impl Write + Send)) -> Result<()> {
    let properties = WriterProperties::builder()
        .set_created_by(CREATED_BY.into())
        .set_compression(Compression::SNAPPY)
        .set_key_value_metadata(Some(metadata(table)));
    let mut writer = SerializedFileWriter::new(to, Arc::new(schema(table)?), Arc::new(properties.build()))?;
    for rows in table.rows.chunks(ROWS_OF_A_GROUP) {
        let mut group = writer.next_row_group()?;
        for (at, column) in table.columns.iter().enumerate() {
            let mut writer = group.next_column()?.expect("the schema has as many columns as the table");
            let values = rows.iter().map(|row| &row[at]);
            match column.kind {
                Kind::F64 => write_column::<DoubleType>(&mut writer, values, |value| match value {
                    Value::F64(number) => Some(*number),
                    _ => None,
                })?,
                Kind::I64 => write_column::<Int64Type>(&mut writer, values, |value| match value {
                    Value::I64(number) => Some(*number),
                    _ => None,
                })?,
                Kind::Text => write_column::<ByteArrayType>(&mut writer, values, |value| match value {
                    Value::Text(text) => Some(ByteArray::from(text.as_str())),
                    _ => None,
                })?,
                Kind::Bool => write_column::<BoolType>(&mut writer, values, |value| match value {
                    Value::Bool(yes) => Some(*yes),
                    _ => None,
                })?,
            }
            writer.close()?;
        }
        group.close()?;
    }
    writer.close()?;
    Ok(())
}

fn schema(table: &Table) -> Result<Type> {
    let fields = table.columns.iter().map(|column| {
        let (physical, logical) = match column.kind {
            Kind::F64 => (PhysicalType::DOUBLE, None),
            Kind::I64 => (PhysicalType::INT64, None),
            Kind::Text => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
            Kind::Bool => (PhysicalType::BOOLEAN, None),
        };
        let field = Type::primitive_type_builder(&column.name, physical).with_repetition(Repetition::OPTIONAL).with_logical_type(logical);
        field.build().map(Arc::new)
    });
    Type::group_type_builder("schema").with_fields(fields.collect::<Result<_>>()?).build()
}

fn metadata(table: &Table) -> Vec<KeyValue> {
    let mut metadata: Vec<KeyValue> = table.notes.iter().map(|(key, value)| KeyValue::new(key.clone(), value.clone())).collect();
    for column in &table.columns {
        for (what, text) in [("unit", &column.unit), ("description", &column.description)] {
            if !text.is_empty() {
                metadata.push(KeyValue::new(format!("{what}.{}", column.name), text.clone()));
            }
        }
    }
    metadata
}

fn write_column<'a, T: DataType>(
    writer: &mut SerializedColumnWriter<'_>,
    values: impl Iterator<Item = &'a Value>,
    known: impl Fn(&Value) -> Option<T::T>,
) -> Result<()> {
    let (mut present, mut levels) = (Vec::new(), Vec::new());
    for value in values {
        let value = known(value);
        levels.push(i16::from(value.is_some()));
        present.extend(value);
    }
    writer.typed::<T>().write_batch(&present, Some(&levels), None)?;
    Ok(())
}
