//! Writes storage roots, objects and versions.
//!
//! A version is built in a staging folder of the storage root and published by renames, so readers
//! see it whole or not at all. Content that the object has already is not stored again.

mod durable;
mod existing;
mod names;
mod staging;
mod version;

use std::io;
use std::path::{Path, PathBuf};

use fulgurite_digest::Algorithm;

use crate::folder::{Kind, ReadFault, list};
use crate::inventory::{InvalidInventory, User};
use crate::layout::{Layout, LayoutError};
use crate::moment::{MomentFault, check_moment};
use crate::object::{Object, ObjectError};
use crate::paths::PathFault;
use crate::root::{CONFIGURATION, LAYOUT, RootError, StorageRoot};
use crate::spec::{EXTENSIONS, SpecVersion, VersionName};

use durable::{create_folders, sync_folder, write_file};
use staging::{Staging, recover_all};
pub use version::{Added, Committed, VersionWriter};

/// Longest logical path, in bytes.
pub const LOGICAL_PATH_BYTES_MAX: usize = 32 << 10;

/// Who makes a version, when and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionInfo {
    /// When, as in RFC 3339.
    pub created: String,
    /// Why.
    pub message: Option<String>,
    /// Who.
    pub user: Option<User>,
}

/// How a new object is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectOptions {
    /// The algorithm of the manifest: SHA-512 or SHA-256.
    pub algorithm: Algorithm,
    /// Algorithms of the fixity block, for every content that is added.
    pub fixity: Vec<Algorithm>,
}

impl Default for ObjectOptions {
    fn default() -> Self {
        Self { algorithm: Algorithm::Sha512, fixity: Vec::new() }
    }
}

/// Why something could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The system refused.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// A file of an object can't be read.
    #[error("{}: {fault}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        fault: ReadFault,
    },
    /// The storage root can't be opened.
    #[error(transparent)]
    Root(#[from] RootError),
    /// The object can't be read.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// The layout can't place the object, or its parameters are wrong.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The storage root states no layout.
    #[error("the storage root {} states no layout that is known here, so it is unclear where a new object belongs", folder.display())]
    NoLayout {
        /// The storage root.
        folder: PathBuf,
    },
    /// A new storage root must be empty.
    #[error("{} contains {name:?}; a new storage root needs an empty folder", folder.display())]
    NotEmpty {
        /// The folder.
        folder: PathBuf,
        /// What is in it.
        name: String,
    },
    /// The object, or a version of it, is there already.
    #[error("{place:?} exists already in the storage root")]
    Exists {
        /// Its place.
        place: String,
    },
    /// Another writer works on the object.
    #[error("another process is writing the object {id:?}; try again when it has finished")]
    Busy {
        /// The object.
        id: String,
    },
    /// The object isn't in this storage root.
    #[error("the object {} is not in the storage root {}", object.display(), root.display())]
    OtherRoot {
        /// The object's folder.
        object: PathBuf,
        /// The storage root.
        root: PathBuf,
    },
    /// The object has changes that another program hasn't made a version of.
    #[error("the object {} has a mutable head; let its program commit or purge it first", object.display())]
    MutableHead {
        /// The object's folder.
        object: PathBuf,
    },
    /// The object's folder doesn't match its inventory.
    #[error("the object {} is incomplete or has been changed: {what}; validate it", object.display())]
    Damaged {
        /// The object's folder.
        object: PathBuf,
        /// What was noticed.
        what: &'static str,
    },
    /// A file of an earlier version, which the new version would rely on, isn't what the inventory
    /// says.
    #[error("the object {} is damaged: its content file {path:?} {what}; validate it", object.display())]
    DamagedContent {
        /// The object's folder.
        object: PathBuf,
        /// The content path.
        path: String,
        /// What was noticed.
        what: &'static str,
    },
    /// The padded names of versions are used up.
    #[error("the object {} has no name for the version after {head}", object.display())]
    NoVersionName {
        /// The object's folder.
        object: PathBuf,
        /// The newest version.
        head: VersionName,
    },
    /// The identifier is empty.
    #[error("an object needs an identifier")]
    NoId,
    /// An algorithm that OCFL doesn't allow for content.
    #[error("OCFL requires sha512 or sha256 for content, not {algorithm}")]
    Algorithm {
        /// The algorithm.
        algorithm: Algorithm,
    },
    /// The creation time is no time.
    #[error("the creation time {created:?} cannot be used: {fault}")]
    Created {
        /// The time.
        created: String,
        /// What is wrong with it.
        fault: MomentFault,
    },
    /// The user has no name.
    #[error("the user of a version needs a name")]
    NoUserName,
    /// A logical path that can't be used.
    #[error("the logical path {path:?} cannot be used: {}", match fault {
        PathFault::Slash => "it is empty, or begins or ends with a slash",
        PathFault::Part => "a part is empty, . or ..",
    })]
    LogicalPath {
        /// The path.
        path: String,
        /// What is wrong.
        fault: PathFault,
    },
    /// A logical path that is too long.
    #[error("a logical path has {bytes} bytes; at most {LOGICAL_PATH_BYTES_MAX} are allowed")]
    LongPath {
        /// Its bytes.
        bytes: usize,
    },
    /// A logical path that was added already.
    #[error("the logical path {path:?} was added to this version already")]
    Repeated {
        /// The path.
        path: String,
    },
    /// A logical path that is also a folder, or whose folder is also a file.
    #[error("the logical path {path:?} excludes {other:?}: one is a folder of the other")]
    Conflict {
        /// The path.
        path: String,
        /// The path that is there already.
        other: String,
    },
    /// Content can't be read.
    #[error("the content of {path:?} cannot be read: {error}")]
    Content {
        /// The logical path.
        path: String,
        /// Why.
        error: io::Error,
    },
    /// Content doesn't have the digest that it should have. It was not added.
    #[error("the content of {path:?} has the {algorithm} digest {computed}, but {stated} was expected")]
    Digest {
        /// The logical path.
        path: String,
        /// The algorithm.
        algorithm: Algorithm,
        /// The content's digest.
        computed: String,
        /// The expected digest.
        stated: String,
    },
    /// The new inventory would be invalid.
    #[error("the version would be invalid: {0}")]
    Invalid(InvalidInventory),
    /// A publication was interrupted, and the object has changed since.
    #[error("{} describes an interrupted version, but the object has been changed since; compare them, then remove the folder", folder.display())]
    Unclear {
        /// The staging folder.
        folder: PathBuf,
    },
}

impl StorageRoot {
    /// Makes a storage root in a folder that is empty or doesn't exist. It can be repeated after an
    /// interruption.
    ///
    /// # Errors
    /// If the folder contains something, or can't be written.
    pub fn create(folder: &Path, spec: SpecVersion, layout: Layout) -> Result<Self, WriteError> {
        layout.check()?;
        create_folders(folder)?;
        for entry in list(folder).map_err(durable::at(folder))? {
            // What an interrupted attempt has left.
            let is_own = entry.kind == Kind::File && entry.name == LAYOUT || entry.kind == Kind::Folder && entry.name == EXTENSIONS;
            if !is_own {
                return Err(WriteError::NotEmpty { folder: folder.to_owned(), name: entry.text().into_owned() });
            }
        }
        // A layout without parameters needs no file, and some programs stumble over one.
        if layout != Layout::FlatDirect {
            let extension = folder.join(EXTENSIONS).join(layout.name());
            create_folders(&extension)?;
            write_file(&extension.join(CONFIGURATION), &json_text(&layout.configuration()))?;
            sync_folder(&extension)?;
            sync_folder(&folder.join(EXTENSIONS))?;
        }
        let file = serde_json::json!({ "extension": layout.name(), "description": layout.description() });
        write_file(&folder.join(LAYOUT), &json_text(&file))?;
        sync_folder(folder)?;
        // Last, because it makes the folder a storage root.
        write_file(&folder.join(format!("0=ocfl_{spec}")), format!("ocfl_{spec}\n").as_bytes())?;
        sync_folder(folder)?;
        if let Some(parent) = folder.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            sync_folder(parent)?;
        }
        Ok(Self { folder: folder.to_owned(), spec, layout: Some(Ok(layout)) })
    }

    /// The object with an identifier, at the place that the layout gives it. Nothing is read yet.
    ///
    /// # Errors
    /// If the storage root states no layout that is known here, or the layout can't place it.
    pub fn object(&self, id: &str) -> Result<Object, WriteError> {
        let layout = self.layout().ok_or_else(|| WriteError::NoLayout { folder: self.folder.clone() })?;
        Ok(Object::at(self.folder.join(layout.place(id)?)))
    }

    /// Begins a new object with its first version.
    ///
    /// # Errors
    /// If it exists, another process is writing it, or the storage root can't be written.
    pub fn create_object(&self, id: &str, options: &ObjectOptions, info: VersionInfo) -> Result<VersionWriter, WriteError> {
        if id.is_empty() {
            return Err(WriteError::NoId);
        }
        if !matches!(options.algorithm, Algorithm::Sha512 | Algorithm::Sha256) {
            return Err(WriteError::Algorithm { algorithm: options.algorithm });
        }
        check_info(&info)?;
        let object = self.object(id)?;
        let place = self.place(&object);
        let staging = Staging::lock(self, id)?;
        if durable::exists(object.folder())? {
            return Err(WriteError::Exists { place });
        }
        VersionWriter::first(staging, object, place, id, self.spec, options, info)
    }

    /// Begins a new version of an object. It starts with the logical paths of the newest version.
    ///
    /// `fixity` names the algorithms of the fixity block for content that is added.
    ///
    /// # Errors
    /// If the object can't be read, isn't valid, has a mutable head, or another process is writing
    /// it.
    pub fn new_version(&self, object: &Object, fixity: &[Algorithm], info: VersionInfo) -> Result<VersionWriter, WriteError> {
        check_info(&info)?;
        if object.folder().strip_prefix(&self.folder).is_err() {
            return Err(WriteError::OtherRoot { object: object.folder().to_owned(), root: self.folder.clone() });
        }
        let place = self.place(object);
        // A first look, for the identifier. An interrupted version may have left the inventory
        // without its sidecar, and taking that back needs the lock.
        let id = object.stated_id()?;
        let staging = Staging::lock(self, &id)?;
        VersionWriter::next(staging, object.clone(), place, fixity, info)
    }

    /// Takes back everything that interrupted writers have left. Returns how many objects were
    /// concerned. Writers do it themselves for their object, so it is only needed before a
    /// validation.
    ///
    /// # Errors
    /// If a folder can't be written, or an object has been changed by something else since.
    pub fn recover(&self) -> Result<u64, WriteError> {
        recover_all(self)
    }
}

fn check_info(info: &VersionInfo) -> Result<(), WriteError> {
    check_moment(&info.created).map_err(|fault| WriteError::Created { created: info.created.clone(), fault })?;
    match &info.user {
        Some(user) if user.name.is_empty() => Err(WriteError::NoUserName),
        _ => Ok(()),
    }
}

fn json_text(value: &serde_json::Value) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(value).expect("a value in memory always becomes JSON");
    text.push(b'\n');
    text
}
