//! Walks the folders of a storage root in sorted order and finds objects, whatever the layout.
//!
//! The walk keeps the remaining names of one folder for each level, so memory depends on the
//! largest folders on one path, not on the number of objects.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::folder::{Entry, Kind, ReadFault, is_object_declaration, list};
use crate::problem::Problem;
use crate::spec::{EXTENSIONS, INVENTORY};

/// Deeper folders aren't part of a storage hierarchy: layouts have 33 levels at most.
const LEVELS_MAX: usize = 256;

/// What a walk meets.
#[derive(Debug)]
pub(crate) enum Met {
    /// A folder with a declaration of an object, or at least with an inventory.
    Object {
        /// Relative to the storage root.
        folder: PathBuf,
        /// 1 for children of the storage root.
        levels: usize,
    },
    /// Something that doesn't belong between objects.
    Problem(String, Problem),
    /// A folder that can't be listed.
    Unreadable(String, ReadFault),
}

pub(crate) struct Walk {
    root: PathBuf,
    levels: Vec<Level>,
    /// Problems of the folder listed last.
    pending: Vec<Met>,
}

struct Level {
    folder: PathBuf,
    /// Remaining subfolders.
    folders: std::vec::IntoIter<Entry>,
}

impl Walk {
    pub(crate) fn new(root: &Path) -> Self {
        let mut walk = Self { root: root.to_owned(), levels: Vec::new(), pending: Vec::new() };
        match list(root) {
            Err(error) => walk.pending.push(Met::Unreadable(String::new(), error.into())),
            Ok(mut entries) => {
                // Other files and the extensions are allowed here.
                entries.retain(|entry| entry.kind != Kind::File && !(entry.kind == Kind::Folder && entry.name == EXTENSIONS));
                walk.enter(PathBuf::new(), entries);
            }
        }
        walk
    }

    fn enter(&mut self, folder: PathBuf, entries: Vec<Entry>) {
        let place = place_of(&folder);
        let mut folders = Vec::new();
        for entry in entries {
            let name = (&*entry.text()).into();
            match entry.kind {
                Kind::Folder => folders.push(entry),
                Kind::File => self.pending.push(Met::Problem(place.clone(), Problem::FileInHierarchy { name })),
                Kind::Link => self.pending.push(Met::Problem(place.clone(), Problem::SymbolicLink { name })),
                Kind::Special => self.pending.push(Met::Problem(place.clone(), Problem::SpecialFile { name })),
            }
        }
        // Popped from the end.
        self.pending.reverse();
        self.levels.push(Level { folder, folders: folders.into_iter() });
    }

    fn visit(&mut self, folder: PathBuf, levels: usize) -> Option<Met> {
        let entries = match list(&self.root.join(&folder)) {
            Ok(entries) => entries,
            Err(error) => return Some(Met::Unreadable(place_of(&folder), error.into())),
        };
        let marks_object =
            |entry: &Entry| entry.kind == Kind::File && (is_object_declaration(&entry.name) || entry.name == OsStr::new(INVENTORY));
        if entries.iter().any(marks_object) {
            return Some(Met::Object { folder, levels });
        }
        if entries.is_empty() {
            return Some(Met::Problem(place_of(&folder), Problem::EmptyFolder));
        }
        if levels >= LEVELS_MAX {
            return Some(Met::Problem(place_of(&folder), Problem::TooDeep { most: LEVELS_MAX }));
        }
        self.enter(folder, entries);
        None
    }
}

impl Iterator for Walk {
    type Item = Met;

    fn next(&mut self) -> Option<Met> {
        loop {
            if let Some(met) = self.pending.pop() {
                return Some(met);
            }
            let levels = self.levels.len();
            let level = self.levels.last_mut()?;
            let Some(entry) = level.folders.next() else {
                self.levels.pop();
                continue;
            };
            let folder = level.folder.join(&entry.name);
            if let Some(met) = self.visit(folder, levels) {
                return Some(met);
            }
        }
    }
}

/// A relative path for people, with `/`.
pub(crate) fn place_of(path: &Path) -> String {
    path.components().map(|part| part.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/")
}
