//! A section: one table of a file while it is read. A [`Reader`] opens it.

use std::rc::Rc;
use std::sync::Arc;

use super::canonical::{TableId, Tables};
use super::error::Problem;
use super::place::{Origin, SourceSpan};
use super::reader::{Reader, joined};
use super::schema::{Schema, SectionId};
use super::setting_type::{RawValue, SettingType};
use super::tree::{Table, Value, parse_argument};

/// A table of a file while it is read. The methods panic if a default is invalid or a setting
/// is declared twice: programming errors.
#[derive(Debug)]
pub struct Section<'r> {
    reader: &'r mut Reader,
    /// `None` if the file has no such table: all settings have their defaults.
    table: Option<Rc<Table>>,
    /// Position at which missing settings are reported.
    place: SourceSpan,
    path: String,
    schema: SectionId,
    /// `None` for the sample element that documents an array of tables.
    canonical: Option<TableId>,
}

impl Section<'_> {
    /// Declares a setting with a default in the notation of the command line: `60 MB/s`,
    /// `partitioned`, `20`, `[1, 2]`.
    pub fn setting<K: SettingType>(&mut self, name: &'static str, setting_type: K, default: &str, about: &'static str) -> K::Value {
        let value = self.default(name, &setting_type, default);
        self.setting_or(name, setting_type, value, about)
    }

    /// Declares a setting whose default is a value of the program.
    pub fn setting_or<K: SettingType>(&mut self, name: &'static str, setting_type: K, default: K::Value, about: &'static str) -> K::Value {
        let default_text = setting_type.print(&default);
        let _ = self.default(name, &setting_type, &default_text);
        self.reader.schema.add_setting(self.schema, name, &setting_type, format!("`{default_text}`"), about);
        match self.read(name, &setting_type) {
            Some(value) => value,
            None => {
                self.write(name, default_text);
                default
            }
        }
    }

    /// Declares an optional setting without a default.
    pub fn optional<K: SettingType>(&mut self, name: &'static str, setting_type: K, about: &'static str) -> Option<K::Value> {
        self.optional_or(name, setting_type, None, about)
    }

    /// Declares an optional setting with an optional default.
    pub fn optional_or<K: SettingType>(
        &mut self,
        name: &'static str,
        setting_type: K,
        default: Option<K::Value>,
        about: &'static str,
    ) -> Option<K::Value> {
        let default_text = default.as_ref().map(|value| setting_type.print(value));
        let shown = default_text.as_ref().map_or_else(|| "none".to_owned(), |text| format!("`{text}`"));
        self.reader.schema.add_setting(self.schema, name, &setting_type, shown, about);
        let read = self.read(name, &setting_type);
        if let (None, Some(text)) = (&read, default_text) {
            self.write(name, text);
        }
        read.or(default)
    }

    /// Declares a setting that every file must give.
    pub fn required<K: SettingType>(&mut self, name: &'static str, setting_type: K, about: &'static str) -> K::Value {
        self.reader.schema.add_setting(self.schema, name, &setting_type, "must be given".to_owned(), about);
        if let Some(value) = self.read(name, &setting_type) {
            return value;
        }
        if self.canonical.is_some() {
            let problem = Problem::Missing { setting: joined(&self.path, name), expected: setting_type.expected() };
            self.reader.report(self.place.clone(), problem);
        }
        setting_type.sample()
    }

    /// Declares a setting that every file must give unless the program has a default.
    pub fn required_or<K: SettingType>(
        &mut self,
        name: &'static str,
        setting_type: K,
        default: Option<K::Value>,
        about: &'static str,
    ) -> K::Value {
        match default {
            Some(value) => self.setting_or(name, setting_type, value, about),
            None => self.required(name, setting_type, about),
        }
    }

    /// Opens the table `[name]` inside of this one; without it, all settings have their defaults.
    pub fn section(&mut self, name: &'static str, about: &'static str) -> Section<'_> {
        let (place, table, canonical, schema) = self.open(name, about);
        Section { path: joined(&self.path, name), reader: self.reader, table, place, schema, canonical }
    }

    /// Reads the elements of the array of tables `[[name]]` with `read`. `read` is also called once
    /// on an empty section for the reference; that result is dropped.
    pub fn tables<T>(&mut self, name: &'static str, about: &'static str, read: impl Fn(&mut Section<'_>) -> T) -> Vec<T> {
        self.tables_or(name, about, &[], |section, _| read(section))
    }

    /// Like [`Section::tables`], with default elements for files that have none: each is passed
    /// to `read` as the default of its settings. For elements of the file, and for the
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
        read(&mut Section { reader: self.reader, table: None, place: place.clone(), path: path.clone(), schema, canonical: None }, None);

        let Some(entry) = self.table.as_ref().and_then(|table| table.get(name)) else {
            let element = |(index, default): (usize, &T)| {
                let canonical = self.canonical.map(|canonical| self.reader.canonical.add(canonical, name, true));
                let path = joined(&path, &index.to_string());
                let place = place.clone();
                read(&mut Section { reader: self.reader, table: None, place, path, schema, canonical }, Some(default))
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
            self.report_invalid(place, &path, format!("tables that each start with `[[{path}]]`"), found, String::new());
        }
        let mut values = Vec::with_capacity(elements.len());
        for (index, (place, value)) in elements.into_iter().enumerate() {
            let Value::Table(table) = value else { continue };
            let canonical = self.canonical.map(|canonical| self.reader.canonical.add(canonical, name, true));
            let path = joined(&path, &index.to_string());
            values.push(read(&mut Section { reader: self.reader, table: Some(table), place, path, schema, canonical }, None));
        }
        values
    }

    fn default<K: SettingType>(&self, name: &'static str, setting_type: &K, text: &str) -> K::Value {
        let origin = Arc::new(Origin { order: 0, name: "default".to_owned(), text: String::new(), is_file: false });
        let place = SourceSpan { origin, offset: None };
        let value = parse_argument(text, &place.origin).ok();
        let value = value.and_then(|value| setting_type.read(RawValue { value: &value, place: &place }).ok());
        value.unwrap_or_else(|| panic!("the default {text} of `{}` is not {}", joined(&self.path, name), setting_type.expected()))
    }

    /// True if the file gives this setting or section.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.table.as_ref().is_some_and(|table| table.contains_key(name))
    }

    /// Rejects a valid value of this section that conflicts with other settings; see
    /// [`Reader::reject`].
    pub fn reject(&mut self, name: &str, expected: impl Into<String>) {
        if self.canonical.is_some() {
            self.reader.reject(&joined(&self.path, name), expected);
        }
    }

    fn report_invalid(&mut self, place: SourceSpan, setting: &str, expected: String, found: String, hint: String) {
        // The sample for the reference belongs to no file.
        if self.canonical.is_some() {
            self.reader.report(place, Problem::Invalid { setting: setting.to_owned(), expected, found, hint });
        }
    }

    /// The value of a setting, or a placeholder if it is invalid; `None` if it is missing.
    fn read<K: SettingType>(&mut self, name: &'static str, setting_type: &K) -> Option<K::Value> {
        let entry = self.table.as_ref()?.get(name)?;
        match setting_type.read(RawValue { value: &entry.value, place: &entry.place }) {
            Ok(value) => {
                self.write(name, setting_type.print(&value));
                Some(value)
            }
            Err(invalid) => {
                let (place, problem) = invalid.into_parts(joined(&self.path, name), &entry.place);
                self.reader.report(place, problem);
                Some(setting_type.sample())
            }
        }
    }

    fn write(&mut self, name: &'static str, value: String) {
        if let Some(canonical) = self.canonical {
            self.reader.canonical.set(canonical, name, value);
        }
    }

    fn open(&mut self, name: &'static str, about: &'static str) -> (SourceSpan, Option<Rc<Table>>, Option<TableId>, SectionId) {
        let schema = self.reader.schema.add_section(self.schema, name, about, false);
        let canonical = self.canonical.map(|canonical| self.reader.canonical.add(canonical, name, false));
        let Some(entry) = self.table.as_ref().and_then(|table| table.get(name)) else {
            return (self.place.clone(), None, canonical, schema);
        };
        let place = entry.place.clone();
        if let Value::Table(table) = &entry.value {
            return (place, Some(Rc::clone(table)), canonical, schema);
        }
        let (path, found) = (joined(&self.path, name), entry.value.found());
        self.report_invalid(place.clone(), &path, format!("a table that starts with `[{path}]`"), found, String::new());
        (place, None, canonical, schema)
    }
}

impl Reader {
    /// The settings before the first section.
    pub fn top(&mut self) -> Section<'_> {
        let table = Some(Rc::clone(&self.document.root));
        let place = self.document.whole.clone();
        Section { reader: self, table, place, path: String::new(), schema: Schema::TOP, canonical: Some(Tables::TOP) }
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
        let (place, table, canonical, schema) = self.open(name, about);
        Section { path: joined(&self.path, name), reader: self.reader, table, place, schema, canonical }
    }
}
