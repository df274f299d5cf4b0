//! `import ocfl`.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use fulgurite_archive::check_record_length;
use fulgurite_archive::reserved::is_reserved;
use fulgurite_digest::{Algorithm, Digest};
use fulgurite_domain::{Attributes, ObjectName};
use fulgurite_ocfl::{
    ContentFile, INVENTORY, Inventory, Object, RootError, Scope, StorageRoot, ValidateOptions, Verdict, Version, validate_object,
};

use super::{Importer, Listed, folder_name};
use crate::list::trimmed;
use crate::object_id;
use crate::premis::Premis;
use crate::put::storable_name;
use crate::text::{self, count};

/// The folder, below an object's logical paths, for its inventory.
pub(crate) const INVENTORIES: &str = ".ocfl";
/// Files that are stored together.
const BATCH_FILES: usize = 4_096;
/// A sidecar has a digest and a name.
const SIDECAR_BYTES_MAX: u64 = 64 << 10;

#[derive(Debug, Args)]
pub(crate) struct Objects {
    /// Storage roots, all of whose objects are imported, or folders of single objects
    #[arg(required = true, value_name = "ROOT_OR_OBJECT")]
    places: Vec<PathBuf>,
    /// Store the objects below this name. Default: the name of the storage root's folder; single
    /// objects go to the top of the archive
    #[arg(long, value_name = "NAME")]
    to: Option<OsString>,
    /// Store every version, as NAME/ID/v1/x, NAME/ID/v2/x and so on, also where content is the same
    #[arg(long)]
    pub(super) all_versions: bool,
    /// Also write all staged objects to platters, after some thousand files and whenever staging is
    /// full
    #[arg(long)]
    pub(super) flush: bool,
    #[command(flatten)]
    pub(super) premis: Premis,
}

impl Objects {
    /// The places with the name below which their objects go, if one was chosen.
    pub(super) fn places(&self) -> Result<Vec<(PathBuf, Option<Vec<u8>>)>> {
        let to = match self.to.as_deref().map(|name| trimmed(name.as_bytes())) {
            None => None,
            Some(b"") => Some(Vec::new()),
            Some(name) => Some(storable_name(name)?),
        };
        Ok(self.places.iter().map(|place| (place.clone(), to.clone())).collect())
    }
}

/// Validated objects whose files are still to be stored.
#[derive(Default)]
pub(super) struct Batch {
    sources: Vec<Listed>,
    /// Their folders.
    objects: Vec<PathBuf>,
    /// The names in the archive of all objects that this command has accepted, and their folders.
    /// The catalogue doesn't know those whose files aren't stored yet.
    taken: BTreeMap<Vec<u8>, PathBuf>,
}

impl Batch {
    /// An object of this command with the same name in the archive, or with one above or below it.
    /// Storing both would mix them.
    fn clash(&self, name: &[u8]) -> Option<&Path> {
        let slashes = name.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let above = slashes.chain([name.len()]).find_map(|end| self.taken.get(&name[..end]));
        let start = [name, b"/"].concat();
        let below = || self.taken.range(start.clone()..).next().filter(|(other, _)| other.starts_with(&start)).map(|(_, path)| path);
        above.or_else(below).map(PathBuf::as_path)
    }
}

impl Importer<'_> {
    /// Imports the objects of a storage root, or a single object.
    pub(super) fn objects_of(&mut self, path: &Path, name: &Option<Vec<u8>>, all_versions: bool, batch: &mut Batch) -> Result<()> {
        self.begin(path);
        let root = match StorageRoot::open(path) {
            Ok(root) => root,
            Err(RootError::NotARoot { .. }) => {
                let name = name.clone().unwrap_or_default();
                return self.object(&Object::at(path.to_owned()), &name, all_versions, batch);
            }
            Err(error) => return Err(error.into()),
        };
        let name = match name {
            Some(name) => name.clone(),
            None => storable_name(&folder_name(path)?)?,
        };
        for object in root.objects() {
            match object {
                Ok(object) => self.object(&object, &name, all_versions, batch)?,
                Err(error) => self.refuse(path, &format!("objects in it can't be found: {error}")),
            }
        }
        Ok(())
    }

    /// Validates an object, and adds its files to the batch.
    fn object(&mut self, object: &Object, folder: &[u8], all_versions: bool, batch: &mut Batch) -> Result<()> {
        self.go_on()?;
        let path = object.folder();
        let report = validate_object(path, &ValidateOptions { threads: self.threads(), ..ValidateOptions::default() });
        for finding in report.findings.kept() {
            self.say_finding(path, finding.code().is_error(), &finding.to_string());
        }
        for unreadable in &report.unreadable {
            self.say_finding(path, true, &format!("can't be read: {unreadable}"));
        }
        if report.findings.omitted() > 0 {
            self.say_finding(path, report.findings.errors() > 0, &format!("and {}", count(report.findings.omitted(), "other finding")));
        }
        match report.verdict() {
            Verdict::Valid => {}
            Verdict::Invalid => {
                self.refuse(path, &format!("it is not valid: {}", count(report.findings.errors(), "error")));
                return Ok(());
            }
            Verdict::Unknown => {
                self.refuse(path, &format!("{} of it can't be read", count(report.unreadable_count, "file")));
                return Ok(());
            }
        }
        if object.has_mutable_head()? {
            self.say_finding(path, false, "it has a mutable head, whose changes are not a version yet; they are not stored");
        }
        let inventory = object.inventory()?;
        let folder = join(folder, &object_id::encode(inventory.id()));
        if is_reserved(&ObjectName(folder.clone())) {
            self.refuse(path, "its identifier is a name that is reserved for the archive; store it below another with --to");
            return Ok(());
        }
        if let Some(other) = batch.clash(&folder) {
            let name = ObjectName(folder).display();
            let why = format!("{} is imported as {name}, too; give each its own name with --to", text::path(other));
            self.refuse(path, &why);
            return Ok(());
        }
        let sources = match sources(object, &inventory, &folder, all_versions) {
            Ok(sources) => sources,
            Err(error) => {
                self.refuse(path, &error.to_string());
                return Ok(());
            }
        };
        if let Some(error) = sources.iter().find_map(|source| check_record_length(&source.name, &Attributes::default()).err()) {
            self.refuse(path, &format!("a logical path is too long to be stored: {error}"));
            return Ok(());
        }
        let names: HashSet<&[u8]> = sources.iter().filter_map(|source| source.name.0.get(folder.len() + 1..)).collect();
        if let Some(stranger) = self.stranger(&folder, &|below| names.contains(below))? {
            self.refuse_stranger(path, &folder, &stranger);
            return Ok(());
        }
        batch.sources.extend(sources);
        batch.objects.push(path.to_owned());
        batch.taken.insert(folder, path.to_owned());
        if batch.sources.len() >= BATCH_FILES { self.put_batch(batch) } else { Ok(()) }
    }

    /// Stores the files of the objects that were validated.
    pub(super) fn put_batch(&mut self, batch: &mut Batch) -> Result<()> {
        if batch.objects.is_empty() {
            return Ok(());
        }
        let (sources, objects) = (std::mem::take(&mut batch.sources), std::mem::take(&mut batch.objects));
        self.put(sources.into_iter())?;
        let missed = self.progress.take_missed();
        for object in objects {
            if missed.iter().any(|path| path.starts_with(&object)) {
                self.refuse(&object, "not all of its files were stored, see above");
            } else {
                self.imported += 1;
            }
        }
        Ok(())
    }
}

/// A name below a folder, or at the top of the archive.
fn join(folder: &[u8], name: &str) -> Vec<u8> {
    if folder.is_empty() { name.as_bytes().to_vec() } else { [folder, name.as_bytes()].join(&b'/') }
}

/// The files of an object, to be stored.
fn sources(object: &Object, inventory: &Inventory, folder: &[u8], all_versions: bool) -> Result<Vec<Listed>> {
    let mut contents: HashMap<Digest, ContentFile<'_>> = HashMap::new();
    for file in inventory.files(Scope::All) {
        if let Some(digest) = file.digests.first() {
            contents.entry(digest.clone()).or_insert(file);
        }
    }
    let head = inventory.versions().len().saturating_sub(1);
    let mut sources = Vec::new();
    let mut add = |version: &Version, prefix: &str| -> Result<()> {
        for (logical_path, digest) in inventory.logical_paths(version) {
            if prefix.is_empty() && logical_path.split('/').next() == Some(INVENTORIES) {
                bail!("its logical path {logical_path:?} has the name under which an import keeps inventories");
            }
            let file = contents.get(digest).with_context(|| format!("its inventory has no content for {logical_path:?}"))?;
            let name = join(folder, &format!("{prefix}{logical_path}"));
            sources.push(Listed::new(object.folder().join(file.path), name, file.digests.clone()));
        }
        Ok(())
    };
    for version in &inventory.versions()[if all_versions { 0 } else { head }..] {
        let prefix = if all_versions { format!("{}/", version.name()) } else { String::new() };
        add(version, &prefix)?;
    }
    let sidecar = format!("{INVENTORY}.{}", inventory.algorithm());
    let digest = sidecar_digest(&object.folder().join(&sidecar), inventory.algorithm())?;
    for (name, digests) in [(INVENTORY, vec![digest]), (&*sidecar, Vec::new())] {
        sources.push(Listed::new(object.folder().join(name), join(folder, &format!("{INVENTORIES}/{name}")), digests));
    }
    Ok(sources)
}

/// The digest in a sidecar, which the validation has compared with the inventory.
fn sidecar_digest(path: &Path, algorithm: Algorithm) -> Result<Digest> {
    use std::io::Read;
    let mut text = String::new();
    let file = std::fs::File::open(path).with_context(|| text::path(path))?;
    file.take(SIDECAR_BYTES_MAX).read_to_string(&mut text).with_context(|| text::path(path))?;
    let digits = text.split([' ', '\t']).next().unwrap_or_default();
    Digest::from_hex(algorithm, digits).with_context(|| format!("{} has no {algorithm} digest", text::path(path)))
}
