//! Layered settings: a file, the files it is based on, and settings from the command line.
//!
//! ```text
//!   --set drives.throughput="120 MB/s"      wins
//!   scenarios/slow.toml                     base = "typical.toml"
//!   scenarios/typical.toml
//!   defaults                                in the program
//! ```
//!
//! Tables are merged key by key; lists and arrays of tables are replaced as a whole.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use super::error::{Problem, SettingErrors};
use super::place::{Origin, SourceSpan};
use super::tree::{self, Entry, Table, Value};

/// A file, its bases and overrides, before the settings are read.
#[derive(Debug, Clone)]
pub struct Document {
    pub(super) root: Rc<Table>,
    /// The file as a whole: missing settings are reported here.
    pub(super) whole: SourceSpan,
    origins: usize,
}

/// Maximum length of a chain of bases.
const BASES_MAX: usize = 16;
const BASE: &str = "base";

/// Reads the text of a file. The caller supplies the loader, so documents can come from elsewhere
/// than files.
pub type Loader<'a> = &'a dyn Fn(&str) -> io::Result<String>;

/// Reads a file as text, up to one byte more than the size limit: a device may have no end.
///
/// # Errors
/// If the file can't be read or isn't UTF-8.
pub fn read_file(path: &str) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(tree::BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > tree::BYTES_MAX {
        // Too long to be parsed; the cut may have split a character.
        return Ok(String::from_utf8_lossy(&bytes).into_owned());
    }
    String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.utf8_error()))
}

impl Document {
    /// A document with nothing but defaults. Errors refer to it as `name`.
    #[must_use]
    pub fn empty(name: &str) -> Self {
        let origin = Arc::new(Origin { order: 0, name: name.to_owned(), text: String::new(), is_file: false });
        Self { root: Rc::default(), whole: SourceSpan { origin, offset: None }, origins: 1 }
    }

    /// Parses a text without a base. Errors refer to it as `name`.
    ///
    /// # Errors
    /// All TOML errors of the text, and an error if it has a `base`.
    pub fn parse(name: &str, text: &str) -> Result<Self, SettingErrors> {
        Self::load(name, &|path| match path == name {
            true => Ok(text.to_owned()),
            false => Err(io::Error::new(io::ErrorKind::Unsupported, "settings that are read from a text can't have a base")),
        })
    }

    /// Loads the file at `path` and its bases; the path of a base is relative to the file that
    /// names it.
    ///
    /// # Errors
    /// Files that can't be read or aren't TOML, and files that are based on themselves.
    pub fn load(path: &str, read: Loader<'_>) -> Result<Self, SettingErrors> {
        let mut document = Self::empty(path);
        let (mut layers, mut names, mut seen) = (Vec::new(), Vec::new(), Vec::new());
        let mut next = Some((path.to_owned(), None));
        while let Some((path, asked_at)) = next.take() {
            let order = layers.len();
            names.push(path.clone());
            if let Some(place) = &asked_at {
                let place = SourceSpan::clone(place);
                if seen.contains(&resolved(&path)) {
                    return Err(SettingErrors::one(place, Problem::Circle(names)));
                }
                if order >= BASES_MAX {
                    return Err(SettingErrors::one(place, Problem::TooManyBases(BASES_MAX)));
                }
            }
            seen.push(resolved(&path));
            let text = read(&path).map_err(|error| {
                // The position of an error in the first file is its path.
                let what = asked_at.as_ref().map_or("the file", |_| &path).to_owned();
                let place = asked_at.unwrap_or_else(|| document.whole.clone());
                SettingErrors::one(place, Problem::Unreadable { what, reason: error.to_string() })
            })?;
            let origin = Arc::new(Origin { order, name: path.clone(), text, is_file: true });
            if order == 0 {
                document.whole = SourceSpan { origin: Arc::clone(&origin), offset: None };
            }
            let mut table = tree::parse(&origin)?;
            if let Some(base) = table.remove(BASE) {
                let Value::Text(base_path) = base.value else {
                    let expected = "a quoted path".to_owned();
                    let problem = Problem::Invalid { setting: BASE.to_owned(), expected, found: base.value.found(), hint: String::new() };
                    return Err(SettingErrors::one(base.place, problem));
                };
                next = Some((beside(&path, &base_path), Some(base.place)));
            }
            layers.push(table);
        }
        document.origins = layers.len();
        for layer in layers.into_iter().rev() {
            tree::merge(Rc::make_mut(&mut document.root), layer);
        }
        Ok(document)
    }

    /// Applies a setting from the command line on top of the others.
    pub fn apply(&mut self, setting: &Override) {
        let order = self.origins;
        self.origins += 1;
        let old = &setting.origin;
        let origin = Arc::new(Origin { order, name: old.name.clone(), text: String::new(), is_file: false });
        let place = SourceSpan { origin: Arc::clone(&origin), offset: None };
        set(Rc::make_mut(&mut self.root), &setting.path, setting.value(&origin), &place);
    }
}

/// Sets a value by its path, creating missing tables. A step may be the index of an element of an
/// array of tables.
fn set(table: &mut Table, path: &[String], value: Value, place: &SourceSpan) {
    let (first, rest) = path.split_first().expect("an override has a name");
    let entry = || Entry { key: place.clone(), place: place.clone(), value: Value::Table(Rc::default()) };
    let Some((second, below)) = rest.split_first() else {
        let over = Table::from([(first.clone(), Entry { value, ..entry() })]);
        return tree::merge(table, over);
    };
    let old = table.entry(first.clone()).or_insert_with(entry);
    if let Value::List(list) = &mut old.value {
        let element = second.parse::<usize>().ok().and_then(|index| list.get_mut(index));
        if let (Some((_, Value::Table(element))), false) = (element, below.is_empty()) {
            return set(Rc::make_mut(element), below, value, place);
        }
    }
    if !matches!(old.value, Value::Table(_)) {
        *old = entry();
    }
    if let Value::Table(table) = &mut old.value {
        set(Rc::make_mut(table), rest, value, place);
    }
}

/// One setting from the command line: `drives.throughput=120 MB/s`.
#[derive(Debug, Clone)]
pub struct Override {
    pub(super) path: Vec<String>,
    pub(super) text: String,
    origin: Arc<Origin>,
}

impl Override {
    /// Parses `name=value`. `option`, such as `--set`, appears in errors. The value is TOML, or
    /// else the text itself: quantities and words need no quotes. Elements of arrays of tables are
    /// named by index: `faults.0.at=3 h`.
    ///
    /// # Errors
    /// If the name is invalid, or a value in quotes or brackets isn't valid TOML.
    pub fn parse(option: &str, argument: &str) -> Result<Self, SettingErrors> {
        let (name, value) = split_argument(option, argument)?;
        Self::new(option, name, value)
    }

    pub(super) fn new(option: &str, name: &str, value: &str) -> Result<Self, SettingErrors> {
        let origin = argument_origin(format!("{option} {}={}", name.trim(), value.trim()));
        let fail = |expected: &str, hint: String| Err(argument_error(&origin, expected, hint));
        let Some(path) = parse_path(name) else {
            return fail("the name of a setting before the `=`, such as `drives.throughput`", String::new());
        };
        if let Err(reason) = tree::parse_argument(value, &origin) {
            return fail("a TOML value after the `=`", reason);
        }
        Ok(Self { path, text: value.trim().to_owned(), origin })
    }

    /// The setting's name.
    #[must_use]
    pub fn name(&self) -> String {
        self.path.join(".")
    }

    /// The value as given.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    fn value(&self, origin: &Arc<Origin>) -> Value {
        tree::parse_argument(&self.text, origin).expect("it was parsed when the override was made")
    }
}

pub(super) fn split_argument<'a>(option: &str, argument: &'a str) -> Result<(&'a str, &'a str), SettingErrors> {
    argument.split_once('=').ok_or_else(|| {
        let origin = argument_origin(format!("{option} {argument}"));
        argument_error(&origin, "`name=value`, such as `drives.throughput=60 MB/s`", String::new())
    })
}

pub(super) fn argument_origin(name: String) -> Arc<Origin> {
    Arc::new(Origin { order: 0, name, text: String::new(), is_file: false })
}

pub(super) fn argument_error(origin: &Arc<Origin>, expected: &str, hint: String) -> SettingErrors {
    let place = SourceSpan { origin: Arc::clone(origin), offset: None };
    SettingErrors::one(place, Problem::Argument { expected: expected.to_owned(), hint })
}

/// Splits a dotted name by the rules of TOML.
fn parse_path(name: &str) -> Option<Vec<String>> {
    // A line end would allow the name to be a whole document.
    if name.contains(['\n', '=', '#']) {
        return None;
    }
    let text = format!("{name}=0");
    let mut table = toml::de::DeTable::parse(&text).ok()?.into_inner();
    let mut path = Vec::new();
    loop {
        let (key, value) = table.into_iter().next()?;
        path.push(key.into_inner().into_owned());
        match value.into_inner() {
            toml::de::DeValue::Table(below) => table = below,
            _ => return Some(path),
        }
    }
}

/// Resolves `path` relative to the folder of the file at `from`.
pub(super) fn beside(from: &str, path: &str) -> String {
    Path::new(from).parent().unwrap_or(Path::new("")).join(path).to_string_lossy().into_owned()
}

/// Normalizes `.` and `..`, so that cycles are detected.
fn resolved(path: &str) -> PathBuf {
    let mut parts = PathBuf::new();
    for component in Path::new(path).components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir if parts.file_name().is_some() => {
                parts.pop();
            }
            other => parts.push(other),
        }
    }
    parts
}
