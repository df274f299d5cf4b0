//! The reader: asks a document for its settings one by one, and so learns what settings there are.
//!
//! Whoever asks gets a value in any case; where it is wrong or missing, a stand-in, and [`Reader::finish`] then gives all errors
//! instead of a scenario. So a scenario is read in one expression, a line for each setting, and its errors come together.

use std::rc::Rc;

use super::document::Document;
use super::error::{Problem, SettingError, SettingErrors};
use super::place::Place;
use super::schema::{Schema, SectionId};
use super::section::Section;
use super::tree::{self, Table, Value, quoted, shortened};
use super::{canonical, suggest};

/// Reads one document. See the module's page for an example.
#[derive(Debug)]
pub struct Reader {
    pub(super) document: Document,
    errors: Vec<SettingError>,
    pub(super) schema: Schema,
    pub(super) written: canonical::Tables,
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
        Section::top(self)
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

    /// Whether nothing was wrong so far. Where it is not, some values are stand-ins, and need not go together.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.errors.is_empty()
    }

    /// Reports a setting that is of its kind, but does not go with others. `name` is the whole one, such as `drives.count`, and
    /// `expected` says what would go. The place is the setting's, or where its default is meant, that of its section. Nothing is
    /// reported of a setting that is known to be wrong.
    pub fn refuse(&mut self, name: &str, expected: impl Into<String>) {
        let (place, value) = tree::find(&self.document.root, name);
        let place = place.unwrap_or(&self.document.whole).clone();
        let default = || self.written.find(name).map(|value| format!("{value}, the default"));
        let found = value.map(Value::found).or_else(default).unwrap_or_else(|| "nothing".to_owned());
        let is_known = |error: &SettingError| matches!(&error.problem, Problem::Refused { setting, .. } if setting == name);
        if !self.errors.iter().any(is_known) {
            let problem = Problem::Refused { setting: name.to_owned(), expected: expected.into(), found, hint: String::new() };
            self.report(place, problem);
        }
    }

    pub(super) fn report(&mut self, place: Place, problem: Problem) {
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
                (Some(child), Value::Table(below)) if !self.schema.is_repeated(child) => self.find_unknown(below, child, &name),
                (Some(child), Value::List(list)) if self.schema.is_repeated(child) => {
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

/// A setting's whole name, as errors call it.
pub(super) fn joined(path: &str, name: &str) -> String {
    let name = shortened(name);
    let name = if canonical::is_bare(&name) { name } else { quoted(&name) };
    if path.is_empty() { name } else { format!("{path}.{name}") }
}
