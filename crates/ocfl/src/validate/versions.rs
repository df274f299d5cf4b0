//! Version folders, and their inventories against the object's inventory.

use std::collections::{HashMap, HashSet};

use fulgurite_digest::Digest;

use super::content::{Expectations, Expected};
use super::{ContentFile, InventoryFile, InventoryFiles, ObjectCheck};
use crate::folder::{Kind, below};
use crate::inventory::{FixityKind, Inventory, Version};
use crate::problem::Problem;
use crate::spec::{INVENTORY, SpecVersion, VersionName};

/// The object's inventory, with what makes it quick to compare with others.
pub(super) struct Root<'a> {
    pub(super) inventory: &'a Inventory,
    /// Index of the content of each content path.
    pub(super) by_path: HashMap<&'a str, usize>,
    /// Index of the content of each digest.
    by_digest: HashMap<&'a Digest, usize>,
}

impl ObjectCheck<'_> {
    pub(super) fn versions(&mut self, root_file: &InventoryFile, inventory: &Inventory, folders: &[VersionName]) {
        let by_digest = inventory.manifest.iter().enumerate().map(|(index, content)| (&content.digest, index)).collect();
        let root = Root { inventory, by_path: inventory.contents_by_path(), by_digest };

        let mut files: Vec<ContentFile> = Vec::new();
        let mut inventory_files = Vec::new();
        for &folder in folders {
            inventory_files.push((folder, self.version_folder(folder, inventory, &mut files)));
        }
        self.report.files = files.len() as u64;
        for file in files.iter().filter(|file| !file.is_utf8 || !root.by_path.contains_key(&*file.path)) {
            self.add(INVENTORY, Problem::NotInManifest { path: file.path.as_str().into() });
        }
        let on_disk: HashSet<&str> = files.iter().filter(|file| file.is_utf8).map(|file| &*file.path).collect();
        self.missing_content(inventory, &on_disk);

        let mut expectations = Expectations::new(inventory);
        let mut newest_spec: Option<SpecVersion> = None;
        for (folder, version_files) in inventory_files {
            let place = folder.to_string();
            if !version_files.has_inventory {
                self.add(&place, Problem::NoVersionInventory);
                for name in &version_files.sidecars {
                    self.add(&place, Problem::UnexpectedInVersion { name: name.as_str().into() });
                }
                continue;
            }
            let Some(file) = self.inventory_file(&place, &version_files, Some(root_file)) else { continue };
            if file.identity == root_file.identity {
                if folder != inventory.head {
                    self.add(&below(&place, INVENTORY), Problem::HeadOfOtherVersion { head: inventory.head, folder });
                }
                continue;
            }
            if folder == inventory.head {
                self.add(&below(&place, INVENTORY), Problem::InventoryDiffers { head: folder });
            }
            let Some(other) = file.inventory else { continue };
            self.version_inventory(&root, folder, &other, &mut newest_spec);
            self.version_manifest(&root, folder, &other, &files, &on_disk, &mut expectations);
        }
        if let Some(earlier) = newest_spec.filter(|earlier| *earlier > inventory.spec) {
            self.add(INVENTORY, Problem::OlderSpec { here: inventory.spec, earlier });
        }
        if self.options.reads_content {
            self.content(&files, &expectations);
        }
    }

    /// Lists a version's folder and collects its content files.
    fn version_folder(&mut self, folder: VersionName, inventory: &Inventory, files: &mut Vec<ContentFile>) -> InventoryFiles {
        let place = folder.to_string();
        let mut found = InventoryFiles::default();
        for entry in self.list(&place) {
            let name = entry.text();
            match entry.kind {
                Kind::Link | Kind::Special => self.add_odd(&place, &entry),
                Kind::File if found.takes(&name) => {}
                Kind::File => self.add(&place, Problem::UnexpectedInVersion { name: (&*name).into() }),
                Kind::Folder if name == inventory.content_directory() => self.content_folder(folder, &below(&place, &name), files),
                Kind::Folder => {
                    self.add(&place, Problem::FolderInVersion { name: (&*name).into() });
                    if entry.utf8().is_some() {
                        self.find_links(&below(&place, &name));
                    }
                }
            }
        }
        found
    }

    fn content_folder(&mut self, version: VersionName, content: &str, files: &mut Vec<ContentFile>) {
        let mut folders = vec![content.to_owned()];
        while let Some(place) = folders.pop() {
            let unreadable = self.report.unreadable_count;
            let entries = self.list(&place);
            if entries.is_empty() && self.report.unreadable_count == unreadable {
                self.add(&place, if place == content { Problem::EmptyContent } else { Problem::EmptyContentFolder });
            }
            for entry in entries {
                let path = below(&place, &entry.text());
                match entry.kind {
                    Kind::File => files.push(ContentFile { path, version: version.number(), is_utf8: entry.utf8().is_some() }),
                    Kind::Folder if entry.utf8().is_some() => folders.push(path),
                    // What is below can't be in a manifest, which is UTF-8, and one finding tells.
                    Kind::Folder => files.push(ContentFile { path, version: version.number(), is_utf8: false }),
                    Kind::Link | Kind::Special => self.add_odd(&place, &entry),
                }
            }
        }
    }

    fn missing_content(&mut self, inventory: &Inventory, on_disk: &HashSet<&str>) {
        for path in inventory.manifest.iter().flat_map(|content| &content.paths) {
            if !on_disk.contains(&**path) {
                self.add(INVENTORY, Problem::ContentMissing { path: (&**path).into() });
            }
        }
        for block in &inventory.fixity {
            for path in block.entries.iter().flat_map(|entry| &entry.paths) {
                if !on_disk.contains(&**path) {
                    let algorithm = block.name.as_str().into();
                    self.add(INVENTORY, Problem::FixityContentMissing { algorithm, path: (&**path).into() });
                }
            }
        }
    }

    /// Compares what a version's inventory says about the object and its versions with the object's
    /// inventory.
    fn version_inventory(&mut self, root: &Root<'_>, folder: VersionName, other: &Inventory, newest_spec: &mut Option<SpecVersion>) {
        let place = below(&folder.to_string(), INVENTORY);
        let inventory = root.inventory;
        if other.id != inventory.id {
            let (here, root) = (other.id.as_str().into(), inventory.id.as_str().into());
            self.add(&place, Problem::IdDiffers { here, root });
            if inventory.spec >= SpecVersion::V1_1 {
                let (here, root) = (other.id.as_str().into(), inventory.id.as_str().into());
                self.add(&place, Problem::IdChanged { here, root });
            }
        }
        if other.head != folder {
            self.add(&place, Problem::HeadOfOtherVersion { head: other.head, folder });
        }
        match *newest_spec {
            Some(earlier) if earlier > other.spec => self.add(&place, Problem::OlderSpec { here: other.spec, earlier }),
            _ => *newest_spec = Some(other.spec),
        }
        if other.content_directory != inventory.content_directory {
            let (value, root) = (other.content_directory().into(), inventory.content_directory().into());
            // The first version decides, if it has an inventory.
            if folder.number() == 1 && inventory.content_directory.is_some() {
                self.add(INVENTORY, Problem::ContentDirectoryLate { value: inventory.content_directory().into() });
            }
            if folder.number() > 1 || other.content_directory.is_some() {
                self.add(&place, Problem::ContentDirectoryChanged { value, root });
            }
        }
        let translation = translate(root, other);
        for number in 1..=folder.number().min(inventory.head.number()) {
            let Some(here) = inventory.version(number) else { continue };
            match other.version(number) {
                // Gaps in the sequence have a finding of their own.
                None if other.head.number() < number => {
                    self.add(&place, Problem::VersionMissing { version: here.name });
                    break;
                }
                None => {}
                Some(there) => {
                    self.state(&place, root, here, other, there, &translation);
                    self.metadata(&place, here, there);
                }
            }
        }
    }

    fn metadata(&mut self, place: &str, root: &Version, other: &Version) {
        let differences =
            [("created", root.created != other.created), ("message", root.message != other.message), ("user", root.user != other.user)];
        for (key, _) in differences.into_iter().filter(|(_, differs)| *differs) {
            self.add(place, Problem::MetadataDiffers { version: root.name, key });
        }
    }

    /// Compares a version's state in two inventories.
    fn state(
        &mut self,
        place: &str,
        root: &Root<'_>,
        root_version: &Version,
        other: &Inventory,
        other_version: &Version,
        translation: &[Option<usize>],
    ) {
        // Nearly always both list the same paths in the same order.
        let mut here: Vec<(Option<usize>, &[Box<str>])> =
            other_version.state.iter().map(|entry| (translation[entry.content], &*entry.paths)).collect();
        let mut there: Vec<(Option<usize>, &[Box<str>])> =
            root_version.state.iter().map(|entry| (Some(entry.content), &*entry.paths)).collect();
        here.sort_unstable();
        there.sort_unstable();
        if here == there {
            return;
        }
        let version = root_version.name;
        let by_path: HashMap<&str, Option<usize>> =
            here.iter().flat_map(|(content, paths)| paths.iter().map(|path| (&**path, *content))).collect();
        for (path, digest) in root.inventory.logical_paths(root_version) {
            match by_path.get(path) {
                None => self.add(place, Problem::StatePathAdded { version, path: path.into() }),
                Some(content) if *content != root.by_digest.get(digest).copied() => {
                    self.add(place, Problem::StateDiffers { version, path: path.into() });
                }
                Some(_) => {}
            }
        }
        let in_root: HashSet<&str> = root.inventory.logical_paths(root_version).map(|(path, _)| path).collect();
        for (path, _) in other.logical_paths(other_version).filter(|(path, _)| !in_root.contains(path)) {
            self.add(place, Problem::StatePathGone { version, path: path.into() });
        }
    }

    /// Compares the manifest of a version's inventory with the content files, and keeps the digests
    /// that differ from those of the object's inventory.
    fn version_manifest(
        &mut self,
        root: &Root<'_>,
        folder: VersionName,
        other: &Inventory,
        files: &[ContentFile],
        on_disk: &HashSet<&str>,
        expectations: &mut Expectations<'_>,
    ) {
        let place = below(&folder.to_string(), INVENTORY);
        let by_path = other.contents_by_path();
        for file in files.iter().filter(|file| file.is_utf8 && file.version <= folder.number()) {
            if !by_path.contains_key(&*file.path) && root.by_path.contains_key(&*file.path) {
                self.add(&place, Problem::NotInManifest { path: file.path.as_str().into() });
            }
        }
        for content in &other.manifest {
            for path in &content.paths {
                match root.by_path.get(&**path) {
                    Some(&index) if root.inventory.manifest[index].digest == content.digest => {}
                    Some(_) => expectations.add(path, Expected::Manifest(content.digest.clone()), folder),
                    None if on_disk.contains(&**path) => expectations.add(path, Expected::Manifest(content.digest.clone()), folder),
                    None => self.add(&place, Problem::ContentMissing { path: (&**path).into() }),
                }
            }
        }
        for block in other.fixity.iter().filter(|block| block.kind != FixityKind::Unknown) {
            for entry in &block.entries {
                let Some(value) = block.value(entry) else { continue };
                for path in &entry.paths {
                    if on_disk.contains(&**path) {
                        expectations.add(path, Expected::Fixity(value.clone()), folder);
                    } else if !root.by_path.contains_key(&**path) {
                        let algorithm = block.name.as_str().into();
                        self.add(&place, Problem::FixityContentMissing { algorithm, path: (&**path).into() });
                    }
                }
            }
        }
    }
}

/// For each content of an inventory, the index of the same content in the object's inventory.
fn translate(root: &Root<'_>, other: &Inventory) -> Vec<Option<usize>> {
    let translated = other.manifest.iter().map(|content| {
        if other.algorithm == root.inventory.algorithm {
            return root.by_digest.get(&content.digest).copied();
        }
        // Digests of different algorithms can't be compared, but both belong to the same files.
        let mut indices = content.paths.iter().map(|path| root.by_path.get(&**path).copied());
        let first = indices.next().flatten();
        indices.all(|index| index == first).then_some(first).flatten()
    });
    translated.collect()
}
