//! The reader: asks a document for its settings one by one, and thereby records which settings
//! exist.
//!
//! Each request returns a value. If the value in the file is invalid or missing, it is a
//! placeholder, and [`Reader::finish`] returns all errors instead of the settings. A file is
//! therefore read in one expression, one line per setting, and all its errors are reported
//! together.

use std::rc::Rc;

use super::document::Document;
use super::error::{EntryKind, Problem, SettingError, SettingErrors};
use super::place::SourceSpan;
use super::schema::{Schema, SectionId};
use super::tree::{self, Table, Value, quoted, shortened};
use super::{canonical, suggest};

/// Reads one document. See the module documentation for an example.
#[derive(Debug)]
pub struct Reader {
    pub(super) document: Document,
    errors: Vec<SettingError>,
    pub(super) schema: Schema,
    pub(super) canonical: canonical::Tables,
}

/// Maximum number of errors collected: a longer list means the wrong file was given.
const ERRORS_MAX: usize = 200;

impl Reader {
    /// A reader without any declared settings.
    #[must_use]
    pub fn new(document: Document) -> Self {
        Self { document, errors: Vec::new(), schema: Schema::new(), canonical: canonical::Tables::new() }
    }

    /// The Markdown reference: the introduction, all settings declared so far, and the units.
    #[must_use]
    pub fn reference(&self, introduction: &str) -> String {
        self.schema.reference(introduction)
    }

    /// A file with a line for each setting declared so far: those in `given`, by full names such as
    /// `drives.count` and with values as TOML, take effect. The others are commented out, with
    /// their defaults (`#count = 20`), below what they mean (`# The number of …`). Arrays of
    /// tables, and settings without a default that are not given, are left out.
    #[must_use]
    pub fn commented(&self, given: &[(&str, String)]) -> String {
        self.schema.commented(given)
    }

    /// Finishes reading. Returns the complete file as TOML with every setting; it reads back as the
    /// same values.
    ///
    /// # Errors
    /// All errors found, including settings and sections that were never declared.
    pub fn finish(mut self) -> Result<String, SettingErrors> {
        let root = Rc::clone(&self.document.root);
        self.find_unknown(&root, Schema::TOP, "");
        if self.errors.is_empty() { Ok(self.canonical.print()) } else { Err(SettingErrors::new(self.errors)) }
    }

    /// True if no error has been found so far. Otherwise some values are placeholders and may
    /// conflict.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.errors.is_empty()
    }

    /// Rejects a valid value that conflicts with other settings. `name` is the full name, such as
    /// `drives.count`; `expected` says what would be accepted. The error's position is that of the
    /// setting or, for a default, of its section. A setting that already has an error is not
    /// reported again.
    pub fn reject(&mut self, name: &str, expected: impl Into<String>) {
        let (place, value) = tree::find(&self.document.root, name);
        let place = place.unwrap_or(&self.document.whole).clone();
        let default = || self.canonical.find(name).map(|value| format!("{value}, the default"));
        let found = value.map(Value::found).or_else(default).unwrap_or_else(|| "nothing".to_owned());
        let is_known = |error: &SettingError| matches!(&error.problem, Problem::Invalid { setting, .. } if setting == name);
        if !self.errors.iter().any(is_known) {
            let problem = Problem::Invalid { setting: name.to_owned(), expected: expected.into(), found, hint: String::new() };
            self.report(place, problem);
        }
    }

    pub(super) fn report(&mut self, place: SourceSpan, problem: Problem) {
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
                // The value in place of a section was already reported when the section was read.
                (Some(_), _) => {}
                (None, value) => {
                    let is_section = match value {
                        Value::Table(_) => true,
                        Value::List(list) => list.iter().any(|(_, value)| matches!(value, Value::Table(_))),
                        _ => false,
                    };
                    let what = if is_section { EntryKind::Section } else { EntryKind::Setting };
                    let hint = self.hint(section, key, path);
                    self.report(entry.key.clone(), Problem::Unknown { what, name, hint });
                }
            }
        }
    }

    /// Suggests a similar name, the same name in another section, or the valid names.
    fn hint(&self, section: SectionId, key: &str, path: &str) -> String {
        const NAMES_MAX: usize = 12;
        let names = self.schema.names(section);
        if let Some(near) = suggest::nearest(key, names.iter().copied()) {
            return format!("did you mean `{near}`?");
        }
        if let Some(elsewhere) = self.schema.find_elsewhere(section, key) {
            return format!("did you mean `{elsewhere}`?");
        }
        if names.is_empty() {
            return String::new();
        }
        let shown: Vec<_> = names.iter().take(NAMES_MAX).map(|name| format!("`{name}`")).collect();
        let more = match names.len().saturating_sub(NAMES_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let place = if path.is_empty() { "valid names are".to_owned() } else { format!("`{path}` has") };
        format!("{place} {}{more}", shown.join(", "))
    }
}

/// The full name of a setting, as used in errors.
pub(super) fn joined(path: &str, name: &str) -> String {
    let name = shortened(name);
    let name = if canonical::is_bare(&name) { name } else { quoted(&name) };
    if path.is_empty() { name } else { format!("{path}.{name}") }
}
