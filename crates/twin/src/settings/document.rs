//! Scenarios on top of each other: a file, the files it is based on, and settings from the command line.
//!
//! ```text
//!   --set drives.throughput="120 MB/s"      wins
//!   scenarios/slow.toml                     base = "typical.toml"
//!   scenarios/typical.toml
//!   defaults                                in the program
//! ```
//!
//! Tables are merged key by key; lists, and arrays of tables, replace each other as a whole.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use super::error::{Problem, SettingErrors};
use super::place::{Origin, Place};
use super::tree::{self, Entry, Table, Value};

/// What is known about a scenario before anyone asks for its settings.
#[derive(Debug, Clone)]
pub struct Document {
    pub(super) root: Rc<Table>,
    /// The scenario itself: here a missing setting is reported.
    pub(super) whole: Place,
    origins: usize,
}

/// Files in a row, each based on the next.
const BASES_MAX: usize = 16;
const BASE: &str = "base";

/// Reads a file; a loader is handed in, so that this module touches no disk.
pub type Loader<'a> = &'a dyn Fn(&str) -> io::Result<String>;

/// The text of a file, or a little more of it than is read anyway: what is a device and no file may have no end.
///
/// # Errors
/// If it can't be read, or is no text.
pub fn read_file(path: &str) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(tree::BYTES_MAX as u64 + 1).read_to_string(&mut text)?;
    Ok(text)
}

impl Document {
    /// Nothing but defaults. `name` is what errors call it.
    #[must_use]
    pub fn empty(name: &str) -> Self {
        let origin = Arc::new(Origin { order: 0, name: name.to_owned(), text: String::new(), is_file: false });
        Self { root: Rc::default(), whole: Place { origin, offset: None }, origins: 1 }
    }

    /// A text that is based on no other; `name` is what errors call it.
    ///
    /// # Errors
    /// All that is wrong with it as TOML, and a `base`.
    pub fn parse(name: &str, text: &str) -> Result<Self, SettingErrors> {
        Self::load(name, &|path| match path == name {
            true => Ok(text.to_owned()),
            false => Err(io::Error::new(io::ErrorKind::Unsupported, "this scenario is not read from a folder")),
        })
    }

    /// The file at `path` and those it is based on, by a path from the folder it is in.
    ///
    /// # Errors
    /// Files that can't be read or are no TOML, and files based on themselves.
    pub fn load(path: &str, read: Loader<'_>) -> Result<Self, SettingErrors> {
        let mut document = Self::empty(path);
        let (mut layers, mut names, mut seen) = (Vec::new(), Vec::new(), Vec::new());
        let mut next = Some((path.to_owned(), None));
        while let Some((path, asked_at)) = next.take() {
            let order = layers.len();
            names.push(path.clone());
            if let Some(place) = &asked_at {
                let place = Place::clone(place);
                if seen.contains(&resolved(&path)) {
                    return Err(SettingErrors::one(place, Problem::Circle(names)));
                }
                if order >= BASES_MAX {
                    return Err(SettingErrors::one(place, Problem::TooManyBases(BASES_MAX)));
                }
            }
            seen.push(resolved(&path));
            let text = read(&path).map_err(|error| {
                let place = asked_at.unwrap_or_else(|| document.whole.clone());
                SettingErrors::one(place, Problem::Unreadable { path: path.clone(), reason: error.to_string() })
            })?;
            let origin = Arc::new(Origin { order, name: path.clone(), text, is_file: true });
            if order == 0 {
                document.whole = Place { origin: Arc::clone(&origin), offset: None };
            }
            let mut table = tree::parse(&origin)?;
            if let Some(base) = table.remove(BASE) {
                let Value::Text(base_path) = base.value else {
                    let expected = "the path of a scenario in quotes".to_owned();
                    let problem = Problem::Refused { setting: BASE.to_owned(), expected, found: base.value.found(), hint: String::new() };
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

    /// Puts a setting from the command line on top.
    pub fn apply(&mut self, setting: &Override) {
        let order = self.origins;
        self.origins += 1;
        let old = &setting.origin;
        let origin = Arc::new(Origin { order, name: old.name.clone(), text: String::new(), is_file: false });
        let place = Place { origin: Arc::clone(&origin), offset: None };
        set(Rc::make_mut(&mut self.root), &setting.path, setting.value(&origin), &place);
    }
}

/// Walks down `path`, making the tables that are not there; the index of an array of tables is a step too.
fn set(table: &mut Table, path: &[String], value: Value, place: &Place) {
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
    /// Reads `name=value`. `option` is how the user gave it, such as `--set`, for errors. The value is TOML, or the text itself where
    /// it is none: a quantity or a word needs no quotes. An element of an array of tables is named by its index: `faults.0.at=3 h`.
    ///
    /// # Errors
    /// If the name or a value in quotes or brackets can't be read.
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
            return fail("a value that is TOML after the `=`", reason);
        }
        Ok(Self { path, text: value.trim().to_owned(), origin })
    }

    /// The setting's name.
    #[must_use]
    pub fn name(&self) -> String {
        self.path.join(".")
    }

    /// Its value as it was given.
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
    let place = Place { origin: Arc::clone(origin), offset: None };
    SettingErrors::one(place, Problem::Argument { expected: expected.to_owned(), hint })
}

/// The parts of a dotted name, by the rules of TOML.
fn parse_path(name: &str) -> Option<Vec<String>> {
    // With a line end it could be a whole document.
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

/// `path` as seen from the folder of the file at `from`.
pub(super) fn beside(from: &str, path: &str) -> String {
    Path::new(from).parent().unwrap_or(Path::new("")).join(path).to_string_lossy().into_owned()
}

/// Two paths that differ only in `.` and `..` are one file, as far as circles go.
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
