//! Builds a version of an object.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::ops::Bound;
use std::path::{Path, PathBuf};

use fulgurite_digest::{Algorithm, Digest, Digester};

use super::durable::{at, create_folders, exists, rename, sync_folder, sync_folders, write_file};
use super::existing::check_content;
use super::names::ContentNames;
use super::staging::Staging;
use super::{LOGICAL_PATH_BYTES_MAX, ObjectOptions, VersionInfo, WriteError};
use crate::folder::read;
use crate::inventory::{Content, FixityBlock, FixityEntry, FixityKind, Inventory, StateEntry, Version};
use crate::object::{Object, digest};
use crate::paths::check_path;
use crate::report::INVENTORY_BYTES_MAX;
use crate::spec::{INVENTORY, SpecVersion, VersionName};
use crate::validate::sidecar_name;

const BUFFER_BYTES: usize = 256 << 10;

/// A version that is being built. Nothing of it is visible in the object before
/// [`VersionWriter::commit`]; dropping it gives it up.
#[derive(Debug)]
pub struct VersionWriter {
    staging: Staging,
    object: Object,
    place: String,
    is_first: bool,
    /// With all contents; the new version is added at the end.
    inventory: Inventory,
    /// The version being built.
    name: VersionName,
    info: VersionInfo,
    fixity: Vec<Algorithm>,
    /// Contents before this index belong to earlier versions.
    first_new: usize,
    by_digest: HashMap<Digest, usize>,
    /// Contents of earlier versions that were read and found right.
    checked: HashSet<usize>,
    fixity_index: HashMap<(Algorithm, Box<str>), usize>,
    state: BTreeMap<Box<str>, Named>,
    names: ContentNames,
}

/// What a logical path stands for.
#[derive(Debug, Clone, Copy)]
struct Named {
    content: usize,
    is_new: bool,
}

/// Content that was added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Added {
    /// Its length.
    pub bytes: u64,
    /// Its digests: of the manifest's algorithm, the fixity block's, and those that were expected.
    pub digests: Vec<Digest>,
    /// False if the object had this content already, so that it isn't stored again.
    pub is_stored: bool,
}

/// A version that has been published.
#[derive(Debug, Clone)]
pub struct Committed {
    /// The object.
    pub object: Object,
    /// The version.
    pub version: VersionName,
    /// Content files that it stores.
    pub files: u64,
}

impl VersionWriter {
    pub(super) fn first(
        staging: Staging,
        object: Object,
        place: String,
        id: &str,
        spec: SpecVersion,
        options: &ObjectOptions,
        info: VersionInfo,
    ) -> Result<Self, WriteError> {
        let inventory = Inventory {
            id: id.to_owned(),
            spec,
            algorithm: options.algorithm,
            head: VersionName::FIRST,
            content_directory: None,
            manifest: Vec::new(),
            versions: Vec::new(),
            fixity: Vec::new(),
            has_unknown_keys: false,
        };
        Self::start(staging, object, place, inventory, VersionName::FIRST, &options.fixity, info)
    }

    pub(super) fn next(
        staging: Staging,
        object: Object,
        place: String,
        fixity: &[Algorithm],
        info: VersionInfo,
    ) -> Result<Self, WriteError> {
        let inventory = object.inventory()?;
        let folder = object.folder();
        if object.has_mutable_head()? {
            return Err(WriteError::MutableHead { object: folder.to_owned() });
        }
        let damaged = |what| WriteError::Damaged { object: folder.to_owned(), what };
        if inventory.has_unknown_keys {
            return Err(damaged("its inventory has keys that OCFL does not have, which a new version would lose"));
        }
        for version in inventory.versions() {
            if !exists(&folder.join(version.name.to_string()))? {
                return Err(damaged("the folder of a version is missing"));
            }
        }
        let of_head = folder.join(inventory.head.to_string()).join(INVENTORY);
        if exists(&of_head)? {
            let content = |path: PathBuf| read(&path, INVENTORY_BYTES_MAX).map_err(|fault| WriteError::Read { path, fault });
            if content(of_head)? != content(folder.join(INVENTORY))? {
                return Err(damaged("its inventory differs from that of the newest version"));
            }
        }
        let number = inventory.head.number().checked_add(1);
        let name = number.and_then(|number| inventory.head.with_number(number));
        let name = name.ok_or_else(|| WriteError::NoVersionName { object: folder.to_owned(), head: inventory.head })?;
        if exists(&folder.join(name.to_string()))? {
            return Err(damaged("it has a version that its inventory does not know"));
        }
        Self::start(staging, object, place, inventory, name, fixity, info)
    }

    fn start(
        staging: Staging,
        object: Object,
        place: String,
        inventory: Inventory,
        name: VersionName,
        fixity: &[Algorithm],
        info: VersionInfo,
    ) -> Result<Self, WriteError> {
        create_folders(&staging.folder.join("next").join(name.to_string()))?;
        let by_digest = inventory.manifest.iter().enumerate().map(|(index, content)| (content.digest.clone(), index)).collect();
        let mut state = BTreeMap::new();
        for entry in inventory.versions.last().map_or(&[][..], |head| &head.state) {
            for path in &entry.paths {
                state.insert(path.clone(), Named { content: entry.content, is_new: false });
            }
        }
        let mut fixity_index = HashMap::new();
        for block in &inventory.fixity {
            if let FixityKind::Digest(algorithm) = block.kind {
                let entries = block.entries.iter().enumerate();
                fixity_index.extend(entries.map(|(index, entry)| ((algorithm, entry.value.to_ascii_lowercase().into()), index)));
            }
        }
        let mut fixity = fixity.to_vec();
        fixity.sort_unstable();
        fixity.dedup();
        // The manifest has this one.
        fixity.retain(|algorithm| *algorithm != inventory.algorithm);
        Ok(Self {
            staging,
            object,
            place,
            is_first: inventory.versions.is_empty(),
            first_new: inventory.manifest.len(),
            inventory,
            name,
            info,
            fixity,
            by_digest,
            checked: HashSet::new(),
            fixity_index,
            state,
            names: ContentNames::default(),
        })
    }

    /// The object's identifier.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.inventory.id
    }

    /// The name of the version being built.
    #[must_use]
    pub fn name(&self) -> VersionName {
        self.name
    }

    /// The logical paths that the version has so far, sorted, each with its digest.
    pub fn logical_paths(&self) -> impl Iterator<Item = (&str, &Digest)> {
        self.state.iter().map(|(path, named)| (&**path, &self.inventory.manifest[named.content].digest))
    }

    /// Adds content under a logical path, or replaces what an earlier version has there. Content
    /// is read once, to its end, and compared with the digests that are known of it. If an earlier
    /// version has this content, it isn't stored again; its file is read first, to be sure.
    ///
    /// # Errors
    /// If the path can't be used, content can't be read or stored, or doesn't have a known digest,
    /// or if the earlier version's file of it is damaged. The version stays as it was, and more
    /// content can be added.
    pub fn add(&mut self, logical_path: &str, content: &mut dyn Read, known: &[Digest]) -> Result<Added, WriteError> {
        self.check_logical_path(logical_path)?;
        let mut algorithms = vec![self.inventory.algorithm];
        algorithms.extend(&self.fixity);
        algorithms.extend(known.iter().map(Digest::algorithm));
        // Content that seems to be there already is only read, to be sure.
        let seems_known = known.iter().any(|digest| self.by_digest.contains_key(digest));
        let incoming = self.staging.folder.join("incoming");
        let file = if seems_known { None } else { Some(File::create(&incoming).map_err(at(&incoming))?) };
        let (digests, bytes) = copy(logical_path, content, file, &algorithms, &incoming)?;
        let of = |algorithm| digests.iter().find(|digest| digest.algorithm() == algorithm).expect("every algorithm was asked for");
        for stated in known {
            let computed = of(stated.algorithm());
            if computed != stated {
                return Err(WriteError::Digest {
                    path: logical_path.to_owned(),
                    algorithm: stated.algorithm(),
                    computed: computed.hex(),
                    stated: stated.hex(),
                });
            }
        }
        let main = of(self.inventory.algorithm).clone();
        let existing = self.by_digest.get(&main).copied();
        let index = match existing {
            Some(index) => {
                if index < self.first_new && !self.checked.contains(&index) {
                    check_content(&self.object, &self.inventory.manifest[index], self.inventory.algorithm)?;
                    self.checked.insert(index);
                }
                index
            }
            None => self.store(logical_path, main, &digests, &incoming)?,
        };
        self.state.insert(logical_path.into(), Named { content: index, is_new: true });
        Ok(Added { bytes, digests, is_stored: existing.is_none() })
    }

    /// Removes a logical path from the version. Its content stays in earlier versions. Returns
    /// false if it isn't there.
    pub fn remove(&mut self, logical_path: &str) -> bool {
        self.state.remove(logical_path).is_some()
    }

    /// Removes all logical paths, to begin with an empty version.
    pub fn clear(&mut self) {
        self.state.clear();
    }

    /// Publishes the version durably: afterwards it survives any crash.
    ///
    /// # Errors
    /// If it can't be written. The object stays as it was before; if even taking back fails, the
    /// next writer of the object does it.
    pub fn commit(mut self) -> Result<Committed, WriteError> {
        self.drop_unused()?;
        self.add_version();
        let bytes = self.inventory.to_json();
        // An inventory that readers would refuse must not be published.
        Inventory::parse(&bytes).map_err(WriteError::Invalid)?;
        let sidecar = sidecar_name(self.inventory.algorithm);
        let sidecar_text = format!("{} {INVENTORY}\n", digest(&bytes, self.inventory.algorithm).hex());
        let next = self.staging.folder.join("next");
        let files = (self.inventory.manifest.len() - self.first_new) as u64;
        for folder in [next.join(self.name.to_string()), next.clone()] {
            write_file(&folder.join(INVENTORY), &bytes)?;
            write_file(&folder.join(&sidecar), sidecar_text.as_bytes())?;
        }
        if self.is_first {
            let value = format!("ocfl_object_{}", self.inventory.spec);
            write_file(&next.join(format!("0={value}")), format!("{value}\n").as_bytes())?;
        }
        sync_folders(&next)?;
        sync_folder(&self.staging.folder)?;
        if self.is_first {
            self.staging.publish_object(&self.place)?;
        } else {
            self.staging.publish_version(&self.place, self.name, &sidecar)?;
        }
        Ok(Committed { object: self.object.clone(), version: self.name, files })
    }

    fn check_logical_path(&self, path: &str) -> Result<(), WriteError> {
        if path.len() > LOGICAL_PATH_BYTES_MAX {
            return Err(WriteError::LongPath { bytes: path.len() });
        }
        check_path(path).map_err(|fault| WriteError::LogicalPath { path: path.to_owned(), fault })?;
        if self.state.get(path).is_some_and(|named| named.is_new) {
            return Err(WriteError::Repeated { path: path.to_owned() });
        }
        let conflict = |other: &str| Err(WriteError::Conflict { path: path.to_owned(), other: other.to_owned() });
        for (slash, _) in path.match_indices('/') {
            if self.state.contains_key(&path[..slash]) {
                return conflict(&path[..slash]);
            }
        }
        let below = format!("{path}/");
        match self.state.range::<str, _>((Bound::Included(&*below), Bound::Unbounded)).next() {
            Some((other, _)) if other.starts_with(&below) => conflict(other),
            _ => Ok(()),
        }
    }

    /// Moves new content to its place, and adds it to the manifest and the fixity block.
    fn store(&mut self, logical_path: &str, main: Digest, digests: &[Digest], incoming: &Path) -> Result<usize, WriteError> {
        let name = self.names.assign(logical_path);
        let path = format!("{}/{}/{name}", self.name, self.inventory.content_directory());
        let target = self.staging.folder.join("next").join(&path);
        if let Some(folder) = target.parent() {
            create_folders(folder)?;
        }
        rename(incoming, &target)?;
        let path: Box<str> = path.into();
        for algorithm in &self.fixity {
            let Some(digest) = digests.iter().find(|digest| digest.algorithm() == *algorithm) else { continue };
            let value: Box<str> = digest.hex().into();
            let entries = fixity_entries(&mut self.inventory.fixity, *algorithm);
            let index = *self.fixity_index.entry((*algorithm, value.clone())).or_insert_with(|| {
                entries.push(FixityEntry { value, paths: Vec::new() });
                entries.len() - 1
            });
            entries[index].paths.push(path.clone());
        }
        let index = self.inventory.manifest.len();
        self.inventory.manifest.push(Content { key: main.hex().into(), digest: main.clone(), paths: vec![path] });
        self.by_digest.insert(main, index);
        Ok(index)
    }

    /// Removes new content that was added, and whose logical paths were all removed again.
    fn drop_unused(&mut self) -> Result<(), WriteError> {
        let mut is_used = vec![false; self.inventory.manifest.len()];
        is_used[..self.first_new].fill(true);
        for named in self.state.values() {
            is_used[named.content] = true;
        }
        if is_used.iter().all(|used| *used) {
            return Ok(());
        }
        let next = self.staging.folder.join("next");
        let content_folder = next.join(self.name.to_string()).join(self.inventory.content_directory());
        let mut moved = Vec::with_capacity(is_used.len());
        let mut kept = Vec::new();
        for (content, is_used) in std::mem::take(&mut self.inventory.manifest).into_iter().zip(is_used) {
            moved.push(kept.len());
            if is_used {
                kept.push(content);
                continue;
            }
            for path in &content.paths {
                let file = next.join(&**path);
                fs::remove_file(&file).map_err(at(&file))?;
                // Folders that are empty now; the removal of others fails.
                let folders = file.ancestors().skip(1).take_while(|folder| folder.starts_with(&content_folder));
                let _ = folders.map(fs::remove_dir).find(Result::is_err);
                for block in &mut self.inventory.fixity {
                    block.entries.iter_mut().for_each(|entry| entry.paths.retain(|other| other != path));
                }
            }
        }
        for block in &mut self.inventory.fixity {
            block.entries.retain(|entry| !entry.paths.is_empty());
        }
        self.inventory.fixity.retain(|block| !block.entries.is_empty());
        self.inventory.manifest = kept;
        // Contents of earlier versions keep their indices, so only the new state changes.
        self.state.values_mut().for_each(|named| named.content = moved[named.content]);
        Ok(())
    }

    fn add_version(&mut self) {
        let mut paths: BTreeMap<usize, Vec<Box<str>>> = BTreeMap::new();
        for (path, named) in std::mem::take(&mut self.state) {
            paths.entry(named.content).or_default().push(path);
        }
        self.inventory.head = self.name;
        self.inventory.versions.push(Version {
            name: self.name,
            created: self.info.created.clone(),
            message: self.info.message.clone(),
            user: self.info.user.clone(),
            state: paths.into_iter().map(|(content, paths)| StateEntry { content, paths }).collect(),
        });
    }
}

fn fixity_entries(blocks: &mut Vec<FixityBlock>, algorithm: Algorithm) -> &mut Vec<FixityEntry> {
    let kind = FixityKind::Digest(algorithm);
    let index = blocks.iter().position(|block| block.kind == kind).unwrap_or_else(|| {
        blocks.push(FixityBlock { name: algorithm.name().to_owned(), kind, entries: Vec::new() });
        blocks.len() - 1
    });
    &mut blocks[index].entries
}

/// Reads content to its end, computes its digests, and writes it to a file, which is synced.
pub(super) fn copy(
    logical_path: &str,
    content: &mut dyn Read,
    mut file: Option<File>,
    algorithms: &[Algorithm],
    path: &Path,
) -> Result<(Vec<Digest>, u64), WriteError> {
    let mut digester = Digester::new(algorithms);
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let read = match content.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(WriteError::Content { path: logical_path.to_owned(), error }),
        };
        digester.update(&buffer[..read]);
        if let Some(file) = &mut file {
            file.write_all(&buffer[..read]).map_err(at(path))?;
        }
    }
    if let Some(file) = file {
        file.sync_all().map_err(at(path))?;
    }
    let bytes = digester.bytes();
    Ok((digester.finish(), bytes))
}
