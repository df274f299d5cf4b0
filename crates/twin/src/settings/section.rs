//! A section: one table of a scenario while it is read. A [`Reader`] opens it.

use std::rc::Rc;
use std::sync::Arc;

use super::canonical::{TableId, Tables};
use super::error::Problem;
use super::kind::{Kind, Written};
use super::place::{Origin, SourceSpan};
use super::reader::{Reader, joined};
use super::schema::{Schema, SectionId};
use super::tree::{Table, Value, parse_argument};

/// A table of a scenario while it is read. The methods panic if a default is invalid or a setting
/// is declared twice: programming errors.
#[derive(Debug)]
pub struct Section<'r> {
    reader: &'r mut Reader,
    /// `None` if the scenario has no such table: all settings have their defaults.
    table: Option<Rc<Table>>,
    /// Position at which missing settings are reported.
    place: SourceSpan,
    path: String,
    schema: SectionId,
    /// `None` for the sample element that documents an array of tables.
    written: Option<TableId>,
}

impl Section<'_> {
    /// Declares a setting with a default in the notation of the command line: `60 MB/s`,
    /// `partitioned`, `20`, `[1, 2]`.
    pub fn setting<K: Kind>(&mut self, name: &'static str, kind: K, default: &str, about: &'static str) -> K::Value {
        let value = self.default(name, &kind, default);
        self.setting_or(name, kind, value, about)
    }

    /// Declares a setting whose default is a value of the program.
    pub fn setting_or<K: Kind>(&mut self, name: &'static str, kind: K, default: K::Value, about: &'static str) -> K::Value {
        let default_text = kind.print(&default);
        let _ = self.default(name, &kind, &default_text);
        self.reader.schema.add_setting(self.schema, name, &kind, format!("`{default_text}`"), about);
        match self.read(name, &kind) {
            Some(value) => value,
            None => {
                self.write(name, default_text);
                default
            }
        }
    }

    /// Declares an optional setting without a default.
    pub fn optional<K: Kind>(&mut self, name: &'static str, kind: K, about: &'static str) -> Option<K::Value> {
        self.optional_or(name, kind, None, about)
    }

    /// Declares an optional setting with an optional default.
    pub fn optional_or<K: Kind>(
        &mut self,
        name: &'static str,
        kind: K,
        default: Option<K::Value>,
        about: &'static str,
    ) -> Option<K::Value> {
        let default_text = default.as_ref().map(|value| kind.print(value));
        let shown = default_text.as_ref().map_or_else(|| "none".to_owned(), |text| format!("`{text}`"));
        self.reader.schema.add_setting(self.schema, name, &kind, shown, about);
        let read = self.read(name, &kind);
        if let (None, Some(text)) = (&read, default_text) {
            self.write(name, text);
        }
        read.or(default)
    }

    /// Declares a setting that every scenario must give.
    pub fn required<K: Kind>(&mut self, name: &'static str, kind: K, about: &'static str) -> K::Value {
        self.reader.schema.add_setting(self.schema, name, &kind, "must be given".to_owned(), about);
        if let Some(value) = self.read(name, &kind) {
            return value;
        }
        if self.written.is_some() {
            let problem = Problem::Missing { setting: joined(&self.path, name), expected: kind.expected() };
            self.reader.report(self.place.clone(), problem);
        }
        kind.sample()
    }

    /// Declares a setting that every scenario must give unless the program has a default.
    pub fn required_or<K: Kind>(&mut self, name: &'static str, kind: K, default: Option<K::Value>, about: &'static str) -> K::Value {
        match default {
            Some(value) => self.setting_or(name, kind, value, about),
            None => self.required(name, kind, about),
        }
    }

    /// Opens the table `[name]` inside of this one; without it, all settings have their defaults.
    pub fn section(&mut self, name: &'static str, about: &'static str) -> Section<'_> {
        let (place, table, written, schema) = self.open(name, about);
        Section { path: joined(&self.path, name), reader: self.reader, table, place, schema, written }
    }

    /// Reads the elements of the array of tables `[[name]]` with `read`. `read` is also called once
    /// on an empty section for the reference; that result is dropped.
    pub fn tables<T>(&mut self, name: &'static str, about: &'static str, read: impl Fn(&mut Section<'_>) -> T) -> Vec<T> {
        self.tables_or(name, about, &[], |section, _| read(section))
    }

    /// Like [`Section::tables`], with default elements for scenarios that have none: each is passed
    /// to `read` as the default of its settings. For elements of the scenario, and for the
    /// reference, `read` gets `None`.
    pub fn tables_or<T>(
        &mut self,
        name: &'static str,
        about: &'static str,
        defaults: &[T],
        read: impl Fn(&mut Section<'_>, Option<&T>) -> T,
    ) -> Vec<T> {
        let schema = self.reader.schema.add_section(self.schema, name, about, true);
        let path = joined(&self.path, name);
        let place = self.place.clone();
        read(&mut Section { reader: self.reader, table: None, place: place.clone(), path: path.clone(), schema, written: None }, None);

        let Some(entry) = self.table.as_ref().and_then(|table| table.get(name)) else {
            let element = |(index, default): (usize, &T)| {
                let written = self.written.map(|written| self.reader.written.add(written, name, true));
                let path = joined(&path, &index.to_string());
                let place = place.clone();
                read(&mut Section { reader: self.reader, table: None, place, path, schema, written }, Some(default))
            };
            return defaults.iter().enumerate().map(element).collect();
        };
        let elements = match &entry.value {
            Value::List(list) => list.clone(),
            _ => Vec::new(),
        };
        let all_tables = matches!(&entry.value, Value::List(list) if list.iter().all(|(_, value)| matches!(value, Value::Table(_))));
        if !all_tables {
            let (place, found) = (entry.place.clone(), entry.value.found());
            self.refused(place, &path, format!("tables that each start with `[[{path}]]`"), found, String::new());
        }
        let mut values = Vec::with_capacity(elements.len());
        for (index, (place, value)) in elements.into_iter().enumerate() {
            let Value::Table(table) = value else { continue };
            let written = self.written.map(|written| self.reader.written.add(written, name, true));
            let path = joined(&path, &index.to_string());
            values.push(read(&mut Section { reader: self.reader, table: Some(table), place, path, schema, written }, None));
        }
        values
    }

    fn default<K: Kind>(&self, name: &'static str, kind: &K, text: &str) -> K::Value {
        let origin = Arc::new(Origin { order: 0, name: "default".to_owned(), text: String::new(), is_file: false });
        let place = SourceSpan { origin, offset: None };
        let value = parse_argument(text, &place.origin).ok();
        let value = value.and_then(|value| kind.read(Written { value: &value, place: &place }).ok());
        value.unwrap_or_else(|| panic!("the default {text} of `{}` is not {}", joined(&self.path, name), kind.expected()))
    }

    /// True if the scenario gives this setting or section.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.table.as_ref().is_some_and(|table| table.contains_key(name))
    }

    /// Rejects a valid value of this section that conflicts with other settings; see
    /// [`Reader::refuse`].
    pub fn refuse(&mut self, name: &str, expected: impl Into<String>) {
        if self.written.is_some() {
            self.reader.refuse(&joined(&self.path, name), expected);
        }
    }

    fn refused(&mut self, place: SourceSpan, setting: &str, expected: String, found: String, hint: String) {
        // The sample for the reference belongs to no scenario.
        if self.written.is_some() {
            self.reader.report(place, Problem::Refused { setting: setting.to_owned(), expected, found, hint });
        }
    }

    /// The value of a setting, or a placeholder if it is invalid; `None` if it is missing.
    fn read<K: Kind>(&mut self, name: &'static str, kind: &K) -> Option<K::Value> {
        let entry = self.table.as_ref()?.get(name)?;
        match kind.read(Written { value: &entry.value, place: &entry.place }) {
            Ok(value) => {
                self.write(name, kind.print(&value));
                Some(value)
            }
            Err(refusal) => {
                let (place, problem) = refusal.into_parts(joined(&self.path, name), &entry.place);
                self.reader.report(place, problem);
                Some(kind.sample())
            }
        }
    }

    fn write(&mut self, name: &'static str, value: String) {
        if let Some(written) = self.written {
            self.reader.written.set(written, name, value);
        }
    }

    fn open(&mut self, name: &'static str, about: &'static str) -> (SourceSpan, Option<Rc<Table>>, Option<TableId>, SectionId) {
        let schema = self.reader.schema.add_section(self.schema, name, about, false);
        let written = self.written.map(|written| self.reader.written.add(written, name, false));
        let Some(entry) = self.table.as_ref().and_then(|table| table.get(name)) else {
            return (self.place.clone(), None, written, schema);
        };
        let place = entry.place.clone();
        if let Value::Table(table) = &entry.value {
            return (place, Some(Rc::clone(table)), written, schema);
        }
        let (path, found) = (joined(&self.path, name), entry.value.found());
        self.refused(place.clone(), &path, format!("a table that starts with `[{path}]`"), found, String::new());
        (place, None, written, schema)
    }
}

impl Reader {
    /// The settings before the first section.
    pub fn top(&mut self) -> Section<'_> {
        let table = Some(Rc::clone(&self.document.root));
        let place = self.document.whole.clone();
        Section { reader: self, table, place, path: String::new(), schema: Schema::TOP, written: Some(Tables::TOP) }
    }

    /// The section `[name]` at the top level; see [`Section::section`].
    pub fn section(&mut self, name: &'static str, about: &'static str) -> Section<'_> {
        self.top().into_section(name, about)
    }

    /// The array of tables `[[name]]` at the top level; see [`Section::tables`].
    pub fn tables<T>(&mut self, name: &'static str, about: &'static str, read: impl Fn(&mut Section<'_>) -> T) -> Vec<T> {
        self.top().tables(name, about, read)
    }
}

impl<'r> Section<'r> {
    /// [`Section::section`], but the result outlives this section.
    fn into_section(mut self, name: &'static str, about: &'static str) -> Section<'r> {
        let (place, table, written, schema) = self.open(name, about);
        Section { path: joined(&self.path, name), reader: self.reader, table, place, schema, written }
    }
}
