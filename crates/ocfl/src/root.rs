//! Storage roots: their declaration, their layout, and the objects in them.

use std::path::{Path, PathBuf};

use crate::folder::{Kind, ReadFault, declaration_is, list, read};
use crate::json;
use crate::layout::{Layout, LayoutError};
use crate::object::Object;
use crate::problem::Problem;
use crate::spec::{EXTENSIONS, SMALL_FILE_BYTES, SpecVersion};
use crate::walk::{Met, Walk, place_of};

/// The file that names the layout.
pub(crate) const LAYOUT: &str = "ocfl_layout.json";
/// The file with an extension's parameters.
pub(crate) const CONFIGURATION: &str = "config.json";

/// A storage root.
#[derive(Debug, Clone)]
pub struct StorageRoot {
    pub(crate) folder: PathBuf,
    pub(crate) spec: SpecVersion,
    pub(crate) layout: Option<Result<Layout, LayoutError>>,
}

/// Why a storage root can't be opened or walked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RootError {
    /// A file or folder can't be read.
    #[error("{}: {fault}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        fault: ReadFault,
    },
    /// The folder is no storage root.
    #[error("{} is not an OCFL storage root: it has no declaration 0=ocfl_1.0 or 0=ocfl_1.1", folder.display())]
    NotARoot {
        /// The folder.
        folder: PathBuf,
    },
    /// Something between the objects may hide others.
    #[error("{}: {problem}, so objects may be missed", folder.display())]
    Hidden {
        /// The folder that contains it.
        folder: PathBuf,
        /// What it is.
        problem: Problem,
    },
    /// The layout file can't be used.
    #[error("{} is not a JSON object with extension and description", path.display())]
    LayoutFile {
        /// The file.
        path: PathBuf,
    },
}

impl StorageRoot {
    /// Opens an existing storage root. A layout that isn't known here is no error: objects are
    /// found all the same.
    ///
    /// # Errors
    /// If the folder can't be read or isn't a storage root.
    pub fn open(folder: &Path) -> Result<Self, RootError> {
        let fault = |path: &Path| {
            let path = path.to_owned();
            move |fault| RootError::Read { path, fault }
        };
        let entries = list(folder).map_err(|error| fault(folder)(error.into()))?;
        let is_file = |name: &str| entries.iter().any(|entry| entry.kind == Kind::File && entry.name == name);
        let mut declared = None;
        for spec in SpecVersion::ALL {
            let value = format!("ocfl_{spec}");
            let name = format!("0={value}");
            if is_file(&name) && declaration_is(&folder.join(&name), &value).map_err(fault(&folder.join(&name)))? {
                declared = Some(spec);
            }
        }
        let spec = declared.ok_or_else(|| RootError::NotARoot { folder: folder.to_owned() })?;
        let layout = if is_file(LAYOUT) { Some(read_layout(folder)?) } else { None };
        Ok(Self { folder: folder.to_owned(), spec, layout })
    }

    /// Its folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The specification that it declares. Its objects follow this one or an earlier one.
    #[must_use]
    pub fn spec(&self) -> SpecVersion {
        self.spec
    }

    /// Its layout, if it states one that is known here.
    #[must_use]
    pub fn layout(&self) -> Option<&Layout> {
        self.layout.as_ref()?.as_ref().ok()
    }

    /// Why its layout can't be used, if it states one that isn't known here.
    #[must_use]
    pub fn layout_error(&self) -> Option<&LayoutError> {
        self.layout.as_ref()?.as_ref().err()
    }

    /// Finds all objects, in the order of their folders' names. Files and empty folders between
    /// objects are ignored. Symbolic links, which OCFL forbids, are errors, because objects may be
    /// behind them; so are devices and folders that are nested too deeply.
    ///
    /// Memory depends on the largest folders, not on the number of objects. An error concerns one
    /// folder; the iterator goes on with the next.
    pub fn objects(&self) -> impl Iterator<Item = Result<Object, RootError>> + '_ {
        Walk::new(&self.folder).filter_map(|met| match met {
            Met::Object { folder, .. } => Some(Ok(Object::at(self.folder.join(folder)))),
            Met::Problem(_, Problem::FileInHierarchy { .. } | Problem::EmptyFolder) => None,
            Met::Problem(place, problem) => Some(Err(RootError::Hidden { folder: self.at(&place), problem })),
            Met::Unreadable(place, fault) => Some(Err(RootError::Read { path: self.at(&place), fault })),
        })
    }

    fn at(&self, place: &str) -> PathBuf {
        // Joining "" would add a slash.
        if place.is_empty() { self.folder.clone() } else { self.folder.join(place) }
    }

    /// An object's folder relative to the storage root, with `/`, for reports.
    #[must_use]
    pub fn place(&self, object: &Object) -> String {
        place_of(object.folder().strip_prefix(&self.folder).unwrap_or(object.folder()))
    }
}

/// Reads the layout file, and the configuration of the layout that it names.
pub(crate) fn read_layout(folder: &Path) -> Result<Result<Layout, LayoutError>, RootError> {
    let path = folder.join(LAYOUT);
    let text = read_text(&path)?;
    let name = layout_name(text.as_deref().unwrap_or_default()).ok_or(RootError::LayoutFile { path })?;
    // The name becomes a path.
    if name.contains(['/', '\\', '\0']) || matches!(&*name, "" | "." | "..") {
        return Ok(Err(LayoutError::Unknown { name }));
    }
    let configuration = folder.join(EXTENSIONS).join(&name).join(CONFIGURATION);
    match read_text(&configuration) {
        Ok(Some(text)) => Ok(Layout::from_configuration(&name, Some(&text))),
        Ok(None) => Ok(Layout::from_configuration(&name, Some("not UTF-8"))),
        Err(RootError::Read { fault, .. }) if fault.is_missing() => Ok(Layout::from_configuration(&name, None)),
        Err(error) => Err(error),
    }
}

/// The extension that a layout file names. `None` unless it has the two keys that it must have.
pub(crate) fn layout_name(text: &str) -> Option<String> {
    let members = json::members(json::parse(text).ok()?).ok()??;
    let value = |key: &str| {
        let mut values = members.iter().filter(|(name, _)| name == key);
        let value = values.next().and_then(|(_, value)| json::text(value).ok()?);
        value.filter(|_| values.next().is_none())
    };
    value("description")?;
    value("extension").map(std::borrow::Cow::into_owned)
}

/// The text of a small file; `None` if it isn't UTF-8.
pub(crate) fn read_text(path: &Path) -> Result<Option<String>, RootError> {
    let bytes = read(path, SMALL_FILE_BYTES).map_err(|fault| RootError::Read { path: path.to_owned(), fault })?;
    Ok(String::from_utf8(bytes).ok())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_may_hide_objects_is_an_error_and_the_others_follow() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |path: &str| folder.path().join(path);
        let file = |path: &str| {
            fs::create_dir_all(at(path).parent().expect("a folder")).expect("folders");
            fs::write(at(path), "").expect("written");
        };
        fs::write(at("0=ocfl_1.1"), "ocfl_1.1\n").expect("written");
        for path in ["README", "a/0=ocfl_object_1.1", "b/stray", "c/d/0=ocfl_object_1.1", "z/0=ocfl_object_1.1"] {
            file(path);
        }
        fs::create_dir(at("empty")).expect("a folder");
        std::os::unix::fs::symlink(at("a"), at("link")).expect("a link");
        std::os::unix::fs::symlink(at("a"), at("c/link")).expect("a link");
        let _socket = std::os::unix::net::UnixListener::bind(at("c/socket")).expect("a socket");
        file(&format!("{}/x", vec!["deep"; 300].join("/")));
        let root = StorageRoot::open(folder.path()).expect("a storage root");
        let (mut objects, mut errors) = (Vec::new(), Vec::new());
        for met in root.objects() {
            match met {
                Ok(object) => objects.push(root.place(&object)),
                Err(error) => errors.push(error.to_string()),
            }
        }
        assert_eq!(objects, ["a", "c/d", "z"]);
        assert_eq!(errors.len(), 4, "{errors:?}");
        for (error, says) in
            errors.iter().zip([": \"link\" is a symbolic", "c: \"link\" is a symbolic", "c: \"socket\" is neither", "deeper than 256"])
        {
            assert!(error.contains(says), "{error}");
        }
    }
}
