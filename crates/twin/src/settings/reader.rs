//! The reader: asks a document for its settings one by one, and so learns what settings there are.
//!
//! Whoever asks gets a value in any case; where it is wrong or missing, a stand-in, and [`Reader::finish`] then gives all errors
//! instead of a scenario. So a scenario is read in one expression, a line for each setting, and its errors come together.

use std::rc::Rc;

use super::document::Document;
use super::error::{Problem, SettingError, SettingErrors};
use super::kind::{Kind, Written};
use super::place::{Origin, Place};
use super::schema::{Schema, SectionId};
use super::tree::{Table, Value, parse_argument};
use super::{canonical, suggest};

/// Reads one document. See the module's page for an example.
#[derive(Debug)]
pub struct Reader {
    document: Document,
    errors: Vec<SettingError>,
    schema: Schema,
    written: canonical::Tables,
}

/// More are not collected: whoever sees so many has given the wrong file.
const ERRORS_MAX: usize = 200;

impl Reader {
    /// A reader that was asked for nothing yet.
    #[must_use]
    pub fn new(document: Document) -> Self {
        Self { document, errors: Vec::new(), schema: Schema::new(), written: canonical::Tables::new() }
    }

    /// The settings in front of the first section.
    pub fn top(&mut self) -> Section<'_> {
        let table = Some(Rc::clone(&self.document.root));
        let place = self.document.whole.clone();
        let (schema, written) = (Schema::TOP, Some(canonical::Tables::TOP));
        Section { reader: self, table, place, path: String::new(), schema, written }
    }

    /// The section `[name]` at the top level; see [`Section::section`].
    pub fn section(&mut self, name: &'static str, about: &'static str) -> Section<'_> {
        self.top().into_section(name, about)
    }

    /// The array of tables `[[name]]` at the top level; see [`Section::tables`].
    pub fn tables<T>(&mut self, name: &'static str, about: &'static str, read: impl Fn(&mut Section<'_>) -> T) -> Vec<T> {
        self.top().tables(name, about, read)
    }

    /// The Markdown page of all settings asked for so far.
    #[must_use]
    pub fn reference(&self) -> String {
        self.schema.reference()
    }

    /// Ends the reading. Gives the complete scenario as TOML, every setting with its value; it reads back as the same.
    ///
    /// # Errors
    /// All that was wrong, and all settings and sections that nobody asked for.
    pub fn finish(mut self) -> Result<String, SettingErrors> {
        let root = Rc::clone(&self.document.root);
        self.find_unknown(&root, Schema::TOP, "");
        if self.errors.is_empty() { Ok(self.written.print()) } else { Err(SettingErrors::new(self.errors)) }
    }

    fn report(&mut self, place: Place, problem: Problem) {
        if self.errors.len() < ERRORS_MAX {
            self.errors.push(SettingError { place, problem });
        }
    }

    fn find_unknown(&mut self, table: &Table, section: SectionId, path: &str) {
        for (key, entry) in table {
            if self.errors.len() >= ERRORS_MAX {
                return;
            }
            let name = joined(path, key);
            if self.schema.has_setting(section, key) {
                continue;
            }
            match (self.schema.child(section, key), &entry.value) {
                (Some(child), Value::Table(below)) => self.find_unknown(below, child, &name),
                (Some(child), Value::List(list)) => {
                    for (index, (_, value)) in list.iter().enumerate() {
                        if let Value::Table(below) = value {
                            self.find_unknown(below, child, &joined(&name, &index.to_string()));
                        }
                    }
                }
                // A value in place of a section was reported when the section was asked for.
                (Some(_), _) => {}
                (None, value) => {
                    let is_section = match value {
                        Value::Table(_) => true,
                        Value::List(list) => list.iter().any(|(_, value)| matches!(value, Value::Table(_))),
                        _ => false,
                    };
                    let what = if is_section { "section" } else { "setting" };
                    let hint = self.hint(section, key, path);
                    self.report(entry.key.clone(), Problem::Unknown { what, name, hint });
                }
            }
        }
    }

    /// A near name here, or the same name elsewhere, or what there is.
    fn hint(&self, section: SectionId, key: &str, path: &str) -> String {
        const NAMES_MAX: usize = 12;
        let names = self.schema.names(section);
        if let Some(near) = suggest::nearest(key, names.iter().copied()) {
            return format!("did you mean `{near}`?");
        }
        if let Some(elsewhere) = self.schema.find_elsewhere(section, key) {
            return format!("there is `{elsewhere}`");
        }
        if names.is_empty() {
            return String::new();
        }
        let shown: Vec<_> = names.iter().take(NAMES_MAX).map(|name| format!("`{name}`")).collect();
        let more = match names.len().saturating_sub(NAMES_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let place = if path.is_empty() { "there are".to_owned() } else { format!("`{path}` has") };
        format!("{place} {}{more}", shown.join(", "))
    }
}

/// A table of the scenario while it is read.
#[derive(Debug)]
pub struct Section<'r> {
    reader: &'r mut Reader,
    /// `None` where the scenario has no such table: all defaults.
    table: Option<Rc<Table>>,
    /// Where a missing setting is reported.
    place: Place,
    path: String,
    schema: SectionId,
    /// `None` for the example that an array of tables is documented by.
    written: Option<canonical::TableId>,
}

impl Section<'_> {
    /// A setting with a default, which is written as on the command line: `60 MB/s`, `partitioned`, `20`, `[1, 2]`.
    ///
    /// # Panics
    /// If the default is not of this kind, or the setting was asked for before: mistakes in the program.
    pub fn setting<K: Kind>(&mut self, name: &'static str, kind: K, default: &str, about: &'static str) -> K::Value {
        let origin = std::sync::Arc::new(Origin { order: 0, name: "default".to_owned(), text: String::new(), is_file: false });
        let place = Place { origin, offset: None };
        let value = parse_argument(default, &place.origin).ok();
        let value = value.and_then(|value| kind.read(Written { value: &value, place: &place }).ok());
        let Some(value) = value else {
            panic!("the default {default:?} of `{}` is not {}", joined(&self.path, name), kind.expected());
        };
        self.setting_or(name, kind, value, about)
    }

    /// A setting with a default that the program has as a value.
    ///
    /// # Panics
    /// If the setting was asked for before: a mistake in the program.
    pub fn setting_or<K: Kind>(&mut self, name: &'static str, kind: K, default: K::Value, about: &'static str) -> K::Value {
        let default_text = kind.print(&default);
        self.reader.schema.add_setting(self.schema, name, &kind, format!("`{default_text}`"), about);
        match self.read(name, &kind) {
            Some(value) => value,
            None => {
                self.write(name, default_text);
                default
            }
        }
    }

    /// A setting that may be left out, and then is nothing.
    ///
    /// # Panics
    /// If the setting was asked for before: a mistake in the program.
    pub fn optional<K: Kind>(&mut self, name: &'static str, kind: K, about: &'static str) -> Option<K::Value> {
        self.reader.schema.add_setting(self.schema, name, &kind, "none".to_owned(), about);
        self.read(name, &kind)
    }

    /// A setting that each scenario has to give.
    ///
    /// # Panics
    /// If the setting was asked for before: a mistake in the program.
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

    /// The table `[name]` inside of this one; all defaults if there is none.
    pub fn section(&mut self, name: &'static str, about: &'static str) -> Section<'_> {
        let (place, table, written, schema) = self.open(name, about);
        Section { path: joined(&self.path, name), reader: self.reader, table, place, schema, written }
    }

    /// The elements of the array of tables `[[name]]`, each read by `read`; it is also called once for the reference, with a section
    /// that has nothing, and what it then gives is dropped.
    pub fn tables<T>(&mut self, name: &'static str, about: &'static str, read: impl Fn(&mut Section<'_>) -> T) -> Vec<T> {
        let schema = self.reader.schema.add_section(self.schema, name, about, true);
        let path = joined(&self.path, name);
        let place = self.place.clone();
        read(&mut Section { reader: self.reader, table: None, place, path: path.clone(), schema, written: None });

        let Some(entry) = self.table.as_ref().and_then(|table| table.get(name)) else {
            return Vec::new();
        };
        let elements = match &entry.value {
            Value::List(list) => list.clone(),
            _ => Vec::new(),
        };
        let all_tables = matches!(&entry.value, Value::List(list) if list.iter().all(|(_, value)| matches!(value, Value::Table(_))));
        if !all_tables {
            let (place, found) = (entry.place.clone(), entry.value.found());
            self.refused(place, &path, format!("tables, each begun by `[[{path}]]`"), found, String::new());
        }
        let mut values = Vec::with_capacity(elements.len());
        for (index, (place, value)) in elements.into_iter().enumerate() {
            let Value::Table(table) = value else { continue };
            let written = self.written.map(|written| self.reader.written.add(written, name, true));
            let path = joined(&path, &index.to_string());
            values.push(read(&mut Section { reader: self.reader, table: Some(table), place, path, schema, written }));
        }
        values
    }

    /// Whether the scenario gives this setting or section.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.table.as_ref().is_some_and(|table| table.contains_key(name))
    }

    /// Reports a value that is of its kind, but does not go with others: `expected` says what would. The place is the setting's, or
    /// that of its section where the default is meant.
    pub fn refuse(&mut self, name: &str, expected: impl Into<String>) {
        let (place, found) = match self.table.as_ref().and_then(|table| table.get(name)) {
            Some(entry) => (entry.place.clone(), entry.value.found()),
            None => (self.place.clone(), "its default".to_owned()),
        };
        self.refused(place, &joined(&self.path, name), expected.into(), found, String::new());
    }

    fn refused(&mut self, place: Place, setting: &str, expected: String, found: String, hint: String) {
        // The example of the reference is nobody's scenario.
        if self.written.is_some() {
            self.reader.report(place, Problem::Refused { setting: setting.to_owned(), expected, found, hint });
        }
    }

    /// The setting's value, or a stand-in for a wrong one; `None` if it is not there.
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

    /// What a section inside of this one begins with.
    fn open(&mut self, name: &'static str, about: &'static str) -> (Place, Option<Rc<Table>>, Option<canonical::TableId>, SectionId) {
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
        self.refused(place.clone(), &path, format!("a table, begun by `[{path}]`"), found, String::new());
        (place, None, written, schema)
    }
}

impl<'r> Section<'r> {
    /// [`Section::section`] that outlives this one.
    fn into_section(mut self, name: &'static str, about: &'static str) -> Section<'r> {
        let (place, table, written, schema) = self.open(name, about);
        Section { path: joined(&self.path, name), reader: self.reader, table, place, schema, written }
    }
}

fn joined(path: &str, name: &str) -> String {
    let name = if super::canonical::is_bare(name) { name.to_owned() } else { super::tree::quoted(name) };
    if path.is_empty() { name } else { format!("{path}.{name}") }
}
