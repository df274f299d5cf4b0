//! Objects, for readers: the inventory, checked against its sidecar, and content.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use fulgurite_digest::{Algorithm, Digest, Digester};

use crate::folder::{Kind, ReadFault, open, read};
use crate::inventory::{InvalidInventory, Inventory};
use crate::paths::check_path;
use crate::report::INVENTORY_BYTES_MAX;
use crate::spec::{EXTENSIONS, INVENTORY, SMALL_FILE_BYTES, SpecVersion};
use crate::validate::{sidecar_name, stated_digest};

/// An object in a folder.
#[derive(Debug, Clone)]
pub struct Object {
    folder: PathBuf,
}

/// Why an object can't be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectError {
    /// A file can't be read.
    #[error("{}: {fault}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        fault: ReadFault,
    },
    /// The inventory breaks the specification.
    #[error("{}: {invalid}", folder.display())]
    Inventory {
        /// The object's folder.
        folder: PathBuf,
        /// What is wrong.
        invalid: InvalidInventory,
    },
    /// The inventory isn't the one that its sidecar describes.
    #[error("{}: the inventory does not have the digest that its sidecar {name} states", folder.display())]
    Sidecar {
        /// The object's folder.
        folder: PathBuf,
        /// The sidecar.
        name: String,
    },
    /// The object's declaration doesn't match its inventory.
    #[error("{}: the object does not declare OCFL {spec}, which its inventory follows", folder.display())]
    Declaration {
        /// The object's folder.
        folder: PathBuf,
        /// The inventory's specification.
        spec: SpecVersion,
    },
    /// A content path that leads out of the object.
    #[error("{}: the content path {content_path:?} does not lead to a file of the object", folder.display())]
    Path {
        /// The object's folder.
        folder: PathBuf,
        /// The path.
        content_path: String,
    },
}

impl Object {
    /// An object that is expected in `folder`. Nothing is read yet.
    #[must_use]
    pub fn at(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Its folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Reads the inventory of the newest version, and checks it against the sidecar and the
    /// object's declaration.
    ///
    /// # Errors
    /// If it can't be read or isn't valid. Content isn't looked at.
    pub fn inventory(&self) -> Result<Inventory, ObjectError> {
        self.inventory_of_at_most(INVENTORY_BYTES_MAX)
    }

    /// Like [`Object::inventory`], with a limit for its size in bytes. Memory is proportional to
    /// the inventory.
    ///
    /// # Errors
    /// As for [`Object::inventory`], and if the inventory is bigger.
    pub fn inventory_of_at_most(&self, bytes_max: u64) -> Result<Inventory, ObjectError> {
        let bytes = self.read(INVENTORY, bytes_max)?;
        let inventory = Inventory::parse(&bytes).map_err(|invalid| ObjectError::Inventory { folder: self.folder.clone(), invalid })?;
        let name = sidecar_name(inventory.algorithm);
        let sidecar = self.read(&name, SMALL_FILE_BYTES)?;
        let stated = stated_digest(&sidecar).and_then(|digits| Digest::from_hex(inventory.algorithm, digits));
        if stated.as_ref() != Some(&digest(&bytes, inventory.algorithm)) {
            return Err(ObjectError::Sidecar { folder: self.folder.clone(), name });
        }
        let declaration = format!("0=ocfl_object_{}", inventory.spec);
        if !is_kind(&self.folder.join(&declaration), Kind::File) {
            return Err(ObjectError::Declaration { folder: self.folder.clone(), spec: inventory.spec });
        }
        Ok(inventory)
    }

    /// True if a program has changes of the object that aren't a version yet, by the extension
    /// 0005-mutable-head.
    ///
    /// # Errors
    /// If the system doesn't say.
    pub fn has_mutable_head(&self) -> Result<bool, ObjectError> {
        let path = self.folder.join(EXTENSIONS).join("0005-mutable-head");
        match fs::symlink_metadata(&path) {
            Ok(_) => Ok(true),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(false),
            Err(error) => Err(ObjectError::Read { path, fault: error.into() }),
        }
    }

    /// The identifier in the inventory, whatever the sidecar says.
    pub(crate) fn stated_id(&self) -> Result<String, ObjectError> {
        let bytes = self.read(INVENTORY, INVENTORY_BYTES_MAX)?;
        let invalid = |invalid| ObjectError::Inventory { folder: self.folder.clone(), invalid };
        Inventory::parse(&bytes).map(|inventory| inventory.id).map_err(invalid)
    }

    /// Opens a content file. Its bytes are as they are on disk: compare them with the digests of
    /// the inventory.
    ///
    /// # Errors
    /// If the path leads out of the object or through a symbolic link, or the file can't be opened.
    pub fn open(&self, content_path: &str) -> Result<File, ObjectError> {
        let leads_out = || ObjectError::Path { folder: self.folder.clone(), content_path: content_path.to_owned() };
        check_path(content_path).map_err(|_| leads_out())?;
        let mut path = self.folder.clone();
        let mut parts = content_path.split('/').peekable();
        while let Some(part) = parts.next() {
            path.push(part);
            if parts.peek().is_some() && is_kind(&path, Kind::Link) {
                return Err(leads_out());
            }
        }
        open(&path).map_err(|fault| match fault {
            ReadFault::NotAFile => leads_out(),
            fault => ObjectError::Read { path, fault },
        })
    }

    fn read(&self, name: &str, limit: u64) -> Result<Vec<u8>, ObjectError> {
        let path = self.folder.join(name);
        read(&path, limit).map_err(|fault| ObjectError::Read { path, fault })
    }
}

pub(crate) fn digest(bytes: &[u8], algorithm: Algorithm) -> Digest {
    let mut digester = Digester::new(&[algorithm]);
    digester.update(bytes);
    digester.finish().remove(0)
}

fn is_kind(path: &Path, kind: Kind) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| Kind::from(metadata.file_type()) == kind)
}
