//! Writes tables as CSV.

use super::{Table, Value};
use std::io::{self, Write};

pub(super) fn write(table: &Table, to: &mut impl Write) -> io::Result<()> {
    line(to, table.columns.iter().map(|column| quoted(&column.name)))?;
    for row in &table.rows {
        // A lone missing value would be written as an empty line, which many readers skip.
        if let [Value::Missing] = row.as_slice() {
            to.write_all(b"\"\"\r\n")?;
            continue;
        }
        line(to, row.iter().map(field))?;
    }
    Ok(())
}

fn line(to: &mut impl Write, fields: impl Iterator<Item = String>) -> io::Result<()> {
    for (at, field) in fields.enumerate() {
        if at > 0 {
            to.write_all(b",")?;
        }
        to.write_all(field.as_bytes())?;
    }
    to.write_all(b"\r\n")
}

fn field(value: &Value) -> String {
    match value {
        // Debug prints the fewest digits that read back, with an exponent for very large and very
        // small numbers; Display would write 1e300 in full.
        Value::F64(number) => format!("{number:?}"),
        Value::I64(number) => number.to_string(),
        Value::Text(text) => quoted(text),
        Value::Bool(yes) => yes.to_string(),
        Value::Missing => String::new(),
    }
}

/// Quotes text if necessary.
fn quoted(text: &str) -> String {
    // Leading and trailing blanks are part of a field, but some readers strip them.
    let plain = !text.is_empty() && text.trim() == text && !text.contains([',', '"', '\r', '\n']);
    if plain { text.into() } else { format!("\"{}\"", text.replace('"', "\"\"")) }
}
