//! A parsed file: tables and values with their positions, so that every value stays traceable
//! after files are merged.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::rc::Rc;
use std::sync::Arc;

use toml::de::{DeTable, DeValue};

use super::decimal::Decimal;
use super::error::{Problem, SettingErrors};
use super::place::{Origin, SourceSpan};

pub(super) type Table = BTreeMap<String, Entry>;

#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// Position of the key, for errors about unknown settings.
    pub(super) key: SourceSpan,
    /// Position of the value, for errors about invalid values.
    pub(super) place: SourceSpan,
    pub(super) value: Value,
}

#[derive(Debug, Clone)]
pub(super) enum Value {
    Text(String),
    /// `None` beyond 128 bits. The string holds the digits as written.
    Whole(Option<i128>, String),
    /// The string holds the digits as written.
    Real(f64, String),
    Flag(bool),
    /// No setting takes a date; it is kept for error messages.
    Date(String),
    List(Vec<(SourceSpan, Value)>),
    Table(Rc<Table>),
}

/// Larger files are rejected without being parsed.
pub(super) const BYTES_MAX: usize = 1 << 20;

/// Parses a text. The parser rejects nesting deeper than 80.
pub(super) fn parse(origin: &Arc<Origin>) -> Result<Table, SettingErrors> {
    let at = |offset| SourceSpan { origin: Arc::clone(origin), offset };
    if origin.text.len() > BYTES_MAX {
        return Err(SettingErrors::one(at(None), Problem::TooLong { allowed: BYTES_MAX }));
    }
    let table = DeTable::parse(&origin.text).map_err(|error| {
        let span = error.span().unwrap_or(origin.text.len()..origin.text.len());
        // Some errors point one byte past the end, or inside of an invalid character.
        let start = origin.text.floor_char_boundary(span.start);
        let place = at(Some(start));
        let part = origin.text.get(start..span.end).unwrap_or("");
        let (line, at) = place.line_text();
        let message = syntax(error.message(), part, line, at);
        SettingErrors::one(place, Problem::Syntax(message))
    })?;
    Ok(convert_table(table.into_inner(), origin))
}

/// Rewords common parser messages. `part` is the text that the message is about, `at` its offset in
/// `line`.
fn syntax(message: &str, part: &str, line: &str, at: usize) -> String {
    if message == "duplicate key" {
        return format!("duplicate key `{}`", shortened(part));
    }
    let value = line.split_once('=').filter(|(key, _)| at > key.len()).map(|(_, value)| value.split('#').next().unwrap_or("").trim());
    match value {
        Some("") => "expected a value after the `=`; found nothing".to_owned(),
        Some(value) if lacks_quotes(value) => format!("expected a value; found {value} without quotes; write \"{value}\""),
        _ => format!("this is not TOML: {}", message.trim_end()),
    }
}

/// True for a quantity or a word.
fn lacks_quotes(value: &str) -> bool {
    const QUANTITY_BYTES_MAX: usize = 40;
    let is_unit = |unit: &str| unit.trim_start().starts_with(|c: char| c.is_alphabetic() || "/%µ".contains(c));
    let is_word = value.starts_with(|c: char| c.is_alphabetic()) && !value.starts_with("true") && !value.starts_with("false");
    value.len() <= QUANTITY_BYTES_MAX
        && !value.contains(['"', '\'', '[', '{', '='])
        && (is_word || Decimal::prefix(value).is_some_and(|(_, unit)| is_unit(unit)))
}

fn convert_table(table: DeTable<'_>, origin: &Arc<Origin>) -> Table {
    let at = |offset| SourceSpan { origin: Arc::clone(origin), offset: Some(offset) };
    let entry = |(key, value): (toml::Spanned<toml::de::DeString<'_>>, toml::Spanned<DeValue<'_>>)| {
        let (key_offset, offset) = (key.span().start, value.span().start);
        let entry = Entry { key: at(key_offset), place: at(offset), value: convert(value.into_inner(), origin) };
        (key.into_inner().into_owned(), entry)
    };
    table.into_iter().map(entry).collect()
}

fn convert(value: DeValue<'_>, origin: &Arc<Origin>) -> Value {
    match value {
        DeValue::String(text) => Value::Text(text.into_owned()),
        DeValue::Integer(number) => Value::Whole(i128::from_str_radix(number.as_str(), number.radix()).ok(), number.to_string()),
        DeValue::Float(number) => Value::Real(number.as_str().parse().unwrap_or(f64::NAN), number.to_string()),
        DeValue::Boolean(flag) => Value::Flag(flag),
        DeValue::Datetime(date) => Value::Date(date.to_string()),
        DeValue::Array(list) => {
            let place = |offset| SourceSpan { origin: Arc::clone(origin), offset: Some(offset) };
            Value::List(list.into_iter().map(|value| (place(value.span().start), convert(value.into_inner(), origin))).collect())
        }
        DeValue::Table(table) => Value::Table(Rc::new(convert_table(table, origin))),
    }
}

/// Parses the value of an argument: as TOML if it is valid, otherwise as the text itself, so that
/// `60 MB/s` and `partitioned` need no quotes.
pub(super) fn parse_argument(text: &str, origin: &Arc<Origin>) -> Result<Value, String> {
    let text = text.trim();
    match DeValue::parse(text) {
        Ok(value) => Ok(locate(convert(value.into_inner(), origin), origin)),
        Err(error) if text.starts_with(['"', '\'', '[', '{']) => Err(error.message().trim_end().to_owned()),
        Err(_) => Ok(Value::Text(text.to_owned())),
    }
}

/// An argument is a single position; offsets inside of it would not help.
fn locate(value: Value, origin: &Arc<Origin>) -> Value {
    let whole = || SourceSpan { origin: Arc::clone(origin), offset: None };
    match value {
        Value::List(list) => Value::List(list.into_iter().map(|(_, value)| (whole(), locate(value, origin))).collect()),
        Value::Table(table) => {
            let entries = Rc::unwrap_or_clone(table).into_iter();
            let entry = |entry: Entry| Entry { key: whole(), place: whole(), value: locate(entry.value, origin) };
            Value::Table(Rc::new(entries.map(|(key, old)| (key, entry(old))).collect()))
        }
        value => value,
    }
}

/// Merges `over` into `under`: tables key by key, everything else as a whole.
pub(super) fn merge(under: &mut Table, over: Table) {
    for (key, entry) in over {
        match under.get_mut(&key) {
            None => {
                under.insert(key, entry);
            }
            Some(old) => match (&mut old.value, entry.value) {
                (Value::Table(below), Value::Table(above)) => {
                    merge(Rc::make_mut(below), Rc::unwrap_or_clone(above));
                    (old.key, old.place) = (entry.key, entry.place);
                }
                (below, above) => {
                    *below = above;
                    (old.key, old.place) = (entry.key, entry.place);
                }
            },
        }
    }
}

/// The position of a setting or of the nearest table around it, and its value if given. Elements
/// are named by index.
pub(super) fn find<'t>(table: &'t Table, name: &str) -> (Option<&'t SourceSpan>, Option<&'t Value>) {
    let (first, rest) = name.split_once('.').map_or((name, None), |(first, rest)| (first, Some(rest)));
    let Some(entry) = table.get(first) else {
        return (None, None);
    };
    let below = match (&entry.value, rest) {
        (value, None) => return (Some(&entry.place), Some(value)),
        (Value::Table(below), Some(rest)) => Some((&entry.place, below, rest)),
        (Value::List(list), Some(rest)) => rest.split_once('.').and_then(|(index, rest)| match list.get(index.parse::<usize>().ok()?)? {
            (place, Value::Table(below)) => Some((place, below, rest)),
            _ => None,
        }),
        _ => None,
    };
    let Some((place, below, rest)) = below else {
        return (Some(&entry.place), None);
    };
    let (nearer, value) = find(below, rest);
    (nearer.or(Some(place)), value)
}

impl Value {
    /// The value as error messages show it.
    pub(super) fn found(&self) -> String {
        match self {
            Self::Text(text) => quoted_short(text),
            Self::Whole(_, digits) | Self::Real(_, digits) => shortened(digits),
            Self::Flag(flag) => flag.to_string(),
            Self::Date(date) => format!("the date {date}"),
            Self::List(list) => format!("a list of {}", list.len()),
            Self::Table(_) => "a table".to_owned(),
        }
    }
}

pub(super) fn shortened(text: &str) -> String {
    const SHOWN_CHARS_MAX: usize = 60;
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

fn quoted_short(text: &str) -> String {
    quoted(&shortened(text))
}

/// Formats a TOML string.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => write!(out, "\\u{:04X}", c as u32).expect("writing to a string"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
