//! Tables of results, as files and as JSON.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result};
use fulgurite_table::{Table, Value};

/// Writes a table to a folder as CSV and as Parquet.
pub(crate) fn write_table(folder: &Path, name: &str, table: &Table) -> Result<()> {
    write_csv(&folder.join(format!("{name}.csv")), table)?;
    let path = folder.join(format!("{name}.parquet"));
    let write = || -> Result<()> {
        let mut file = BufWriter::new(File::create(&path)?);
        table.write_parquet(&mut file)?;
        Ok(file.flush()?)
    };
    write().with_context(|| path.display().to_string())
}

/// A table as CSV.
pub(crate) fn csv(table: &Table) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    table.write_csv(&mut bytes)?;
    Ok(bytes)
}

/// A table as Parquet.
pub(crate) fn parquet(table: &Table) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    table.write_parquet(&mut bytes)?;
    Ok(bytes)
}

/// Writes a table to a file as CSV.
pub(crate) fn write_csv(path: &Path, table: &Table) -> Result<()> {
    let write = || {
        let mut file = BufWriter::new(File::create(path)?);
        table.write_csv(&mut file)?;
        file.flush()
    };
    write().with_context(|| path.display().to_string())
}

/// Each row as an object, with column names as keys.
pub(crate) fn rows_json(table: &Table) -> serde_json::Value {
    let object = |row: &Vec<Value>| {
        let entries = table.columns().iter().zip(row).map(|(column, value)| (column.name().to_owned(), json_value(value)));
        serde_json::Value::Object(entries.collect())
    };
    table.rows().iter().map(object).collect()
}

/// A figure as JSON. Values without a JSON number, such as infinity, become null.
pub(crate) fn json_value(value: &Value) -> serde_json::Value {
    match value {
        Value::F64(value) => serde_json::Number::from_f64(*value).map_or(serde_json::Value::Null, serde_json::Value::Number),
        Value::I64(value) => (*value).into(),
        Value::Text(value) => value.as_str().into(),
        Value::Bool(value) => (*value).into(),
        Value::Missing => serde_json::Value::Null,
    }
}
