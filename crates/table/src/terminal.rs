//! Prints tables on a terminal: one line per row, numbers aligned at their decimal points.

use super::{Column, Kind, Table, Value};
use std::fmt;

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_units = self.columns.iter().any(|column| !column.unit.is_empty());
        let columns: Vec<Printed> = self.columns.iter().enumerate().map(|(at, column)| Printed::new(self, at, column)).collect();
        line(f, &columns, |column| &column.name)?;
        if has_units {
            line(f, &columns, |column| &column.unit)?;
        }
        line(f, &columns, |column| &column.rule)?;
        (0..self.rows.len()).try_for_each(|row| line(f, &columns, |column| &column.cells[row]))
    }
}

struct Printed {
    name: String,
    unit: String,
    rule: String,
    cells: Vec<String>,
    to_the_right: bool,
}

impl Printed {
    fn new(table: &Table, at: usize, column: &Column) -> Self {
        let values = || table.rows.iter().map(|row| &row[at]);
        let mut cells: Vec<String> = if column.kind == Kind::F64 {
            let whole = values().all(|value| !matches!(value, Value::F64(number) if number.is_finite() && *number != number.trunc()));
            values().map(|value| cell(value, whole)).collect()
        } else {
            values().map(|value| cell(value, false)).collect()
        };
        if column.kind == Kind::F64 {
            align_points(&mut cells);
        }
        let (name, unit) = (printable(&column.name), printable(&column.unit));
        let width = cells.iter().chain([&name, &unit]).map(|text| text.chars().count()).max().unwrap_or(0);
        let to_the_right = matches!(column.kind, Kind::F64 | Kind::I64);
        Self { name, unit, rule: "-".repeat(width), cells, to_the_right }
    }
}

fn line<'a>(f: &mut fmt::Formatter<'_>, columns: &'a [Printed], text: impl Fn(&'a Printed) -> &'a String) -> fmt::Result {
    let mut line = String::new();
    for (at, column) in columns.iter().enumerate() {
        let (text, width) = (text(column), column.rule.len());
        let gap = if at > 0 { "  " } else { "" };
        if column.to_the_right {
            line += &format!("{gap}{text:>width$}");
        } else {
            line += &format!("{gap}{text:<width$}");
        }
    }
    writeln!(f, "{}", line.trim_end())
}

fn cell(value: &Value, whole: bool) -> String {
    match value {
        Value::F64(number) => sensible(*number, whole),
        Value::I64(number) => number.to_string(),
        Value::Text(text) => printable(text),
        Value::Bool(yes) => String::from(if *yes { "yes" } else { "no" }),
        Value::Missing => "-".into(),
    }
}

/// Formats with four significant digits, or all digits before the point if there are more; below
/// 1e-5 and from 1e9 on, with an exponent. If `whole`, as in a column of whole numbers, without
/// decimals.
fn sensible(number: f64, whole: bool) -> String {
    let size = number.abs();
    if !number.is_finite() || number == 0.0 && whole {
        return format!("{number}");
    }
    if size >= 1e9 || size < 1e-5 && number != 0.0 {
        return format!("{number:.3e}");
    }
    if whole {
        return format!("{number:.0}");
    }
    let before = (0..9).take_while(|&power| size >= POWERS[power]).count();
    let zeros = if size > 0.0 && size < 1.0 { (1..9).take_while(|&power| size * POWERS[power] < 1.0).count() } else { 0 };
    let decimals = if before > 0 { 4_usize.saturating_sub(before) } else { 4 + zeros };
    format!("{number:.decimals$}")
}

const POWERS: [f64; 9] = [1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8];

/// Pads cells on the right so that decimal points align.
fn align_points(cells: &mut [String]) {
    let after = |cell: &str| cell.find('.').map_or(0, |point| cell.len() - point);
    let most = cells.iter().map(|cell| after(cell)).max().unwrap_or(0);
    for cell in cells {
        let missing = most - after(cell);
        cell.push_str(&" ".repeat(missing));
    }
}

/// Escapes control characters: they could break the line or move the cursor.
fn printable(text: &str) -> String {
    text.chars().flat_map(|c| if c.is_control() { c.escape_default().collect::<Vec<_>>() } else { vec![c] }).collect()
}
