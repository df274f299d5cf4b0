//! Validates objects: structure, inventories, and content.
//!
//! ```text
//! object's folder ---- declaration, inventory, sidecar
//!   version folders -- what they may contain, which content files there are
//!     inventories ---- against the object's inventory, and against the content files
//!       content ------ read once, against the digests of all inventories
//! ```

mod content;
mod root;
mod versions;

use std::path::{Path, PathBuf};

use fulgurite_digest::{Algorithm, Digest, Digester};

use crate::folder::{Entry, Kind, ReadFault, below, declaration_is, is_object_declaration, list, read};
use crate::inventory::{Inventory, parse};
use crate::problem::Problem;
use crate::report::{Report, ValidateOptions};
use crate::spec::{EXTENSIONS, INVENTORY, LOGS, SMALL_FILE_BYTES, SpecVersion, VersionName, is_registered_extension};

pub use root::{RootReport, validate_root};

/// Validates the object in a folder.
///
/// All findings are in the report; the function itself can't fail. Symbolic links aren't followed,
/// except in the way to the folder itself.
#[must_use]
pub fn validate_object(folder: &Path, options: &ValidateOptions) -> Report {
    let mut check = ObjectCheck { folder, options, report: Report::new(options.keep) };
    check.run();
    check.report
}

struct ObjectCheck<'a> {
    folder: &'a Path,
    options: &'a ValidateOptions,
    report: Report,
}

/// What an object's folder, or a version's, contains besides folders.
#[derive(Default)]
struct InventoryFiles {
    has_inventory: bool,
    /// Names of files such as `inventory.json.sha512`.
    sidecars: Vec<String>,
}

/// An inventory's file.
struct InventoryFile {
    /// `None` if it can't be used, or wasn't parsed.
    inventory: Option<Inventory>,
    /// The algorithm of its sidecar.
    algorithm: Algorithm,
    /// SHA-512 of its bytes.
    identity: Digest,
}

/// A content file in a version's folder.
struct ContentFile {
    /// Relative to the object; with replaced bytes if the name isn't UTF-8.
    path: String,
    version: u32,
    is_utf8: bool,
}

impl ObjectCheck<'_> {
    fn run(&mut self) {
        let entries = match list(self.folder) {
            Ok(entries) => entries,
            Err(error) => return self.report.add_unreadable("", error),
        };
        let mut declarations = Vec::new();
        let mut folders = Vec::new();
        let mut files = InventoryFiles::default();
        for entry in &entries {
            let name = entry.text();
            match entry.kind {
                Kind::Link | Kind::Special => self.add_odd("", entry),
                Kind::File if files.takes(&name) => {}
                Kind::File if is_declaration(&name) => declarations.push(name.into_owned()),
                Kind::Folder if VersionName::parse(&name).is_some() => folders.extend(VersionName::parse(&name)),
                Kind::Folder if name == EXTENSIONS => self.extensions(),
                Kind::Folder if name == LOGS => self.find_links(LOGS),
                _ => self.add("", Problem::UnexpectedInObject { name: (&*name).into() }),
            }
        }
        self.declarations(&declarations);
        folders.sort_by_key(|folder: &VersionName| folder.number());

        let root = files.has_inventory.then(|| self.inventory_file("", &files, None)).flatten();
        if !files.has_inventory {
            self.add("", Problem::NoInventory);
        }
        let inventory = root.as_ref().and_then(|root| root.inventory.as_ref());
        self.sequence(&folders, inventory);
        let Some((root, inventory)) = root.as_ref().zip(inventory) else { return };
        self.report.id = Some(inventory.id.clone());
        self.report.head = Some(inventory.head);
        if let Some(declared) = self.report.spec
            && declared != inventory.spec
        {
            self.add(INVENTORY, Problem::TypeDiffers { inventory: inventory.spec, declared });
        }
        self.versions(root, inventory, &folders);
    }

    fn add(&mut self, place: &str, problem: Problem) {
        self.report.findings.add(place, problem);
    }

    /// Reports a link or something that is neither a file nor a folder.
    fn add_odd(&mut self, place: &str, entry: &Entry) {
        let name = (&*entry.text()).into();
        self.add(place, if entry.kind == Kind::Link { Problem::SymbolicLink { name } } else { Problem::SpecialFile { name } });
    }

    fn path(&self, place: &str) -> PathBuf {
        if place.is_empty() { self.folder.to_owned() } else { self.folder.join(place) }
    }

    fn list(&mut self, place: &str) -> Vec<Entry> {
        list(&self.path(place)).unwrap_or_else(|error| {
            self.report.add_unreadable(place, error);
            Vec::new()
        })
    }

    fn declarations(&mut self, names: &[String]) {
        let mut count = 0;
        for name in names {
            let value = name.split_once('=').map_or("", |(_, value)| value);
            let Some(number) = value.strip_prefix("ocfl_object_") else {
                self.add("", Problem::DeclarationValue { name: name.as_str().into() });
                continue;
            };
            if !name.starts_with("0=") {
                self.add("", Problem::DeclarationTag { name: name.as_str().into() });
                continue;
            }
            count += 1;
            match SpecVersion::of_number(number) {
                None => self.add("", Problem::UnknownDeclaration { name: name.as_str().into() }),
                Some(spec) => self.report.spec = self.report.spec.max(Some(spec)),
            }
            match declaration_is(&self.path(name), value) {
                Ok(true) => {}
                Ok(false) => self.add(name, Problem::DeclarationText { expected: value.to_owned() }),
                Err(fault) => self.report.add_unreadable(name, fault),
            }
        }
        match count {
            0 => self.add("", Problem::NoDeclaration),
            1 => {}
            count => self.add("", Problem::SeveralDeclarations { count }),
        }
    }

    fn extensions(&mut self) {
        for entry in self.list(EXTENSIONS) {
            let name = entry.text();
            match entry.kind {
                Kind::Folder => {
                    if !is_registered_extension(&name) {
                        self.add(EXTENSIONS, Problem::UnregisteredExtension { name: (&*name).into() });
                    }
                    if entry.utf8().is_some() {
                        self.find_links(&below(EXTENSIONS, &name));
                    }
                }
                Kind::File => self.add(EXTENSIONS, Problem::FileInExtensions { name: (&*name).into() }),
                Kind::Link | Kind::Special => self.add_odd(EXTENSIONS, &entry),
            }
        }
    }

    /// Looks for links below a folder whose content OCFL doesn't describe.
    fn find_links(&mut self, place: &str) {
        let mut folders = vec![place.to_owned()];
        while let Some(place) = folders.pop() {
            for entry in self.list(&place) {
                match (entry.kind, entry.utf8()) {
                    (Kind::Folder, Some(name)) => folders.push(below(&place, name)),
                    (Kind::Link | Kind::Special, _) => self.add_odd(&place, &entry),
                    _ => {}
                }
            }
        }
    }

    /// Reads and parses an inventory, and compares it with its sidecar. `place` is the folder. An
    /// inventory with the bytes of `root` isn't parsed again.
    fn inventory_file(&mut self, place: &str, files: &InventoryFiles, root: Option<&InventoryFile>) -> Option<InventoryFile> {
        let inventory_place = below(place, INVENTORY);
        let bytes = match read(&self.path(&inventory_place), self.options.inventory_bytes_max) {
            Ok(bytes) => bytes,
            Err(fault) => {
                self.report.add_unreadable(&inventory_place, fault);
                return None;
            }
        };
        let identity = digest_of(&bytes, Algorithm::Sha512);
        let (inventory, algorithm) = match root {
            Some(root) if root.identity == identity => (None, root.algorithm),
            _ => {
                let inventory = parse(&bytes, &inventory_place, &mut self.report.findings);
                // Without an algorithm from the inventory, the sidecar's name still tells which
                // digest it has.
                let named = || Algorithm::ALL.into_iter().find(|algorithm| files.sidecars.contains(&sidecar_name(*algorithm)));
                let algorithm = inventory.as_ref().map(|inventory| inventory.algorithm).or_else(named);
                (inventory, algorithm.unwrap_or(Algorithm::Sha512))
            }
        };
        let digest = if algorithm == Algorithm::Sha512 { identity.clone() } else { digest_of(&bytes, algorithm) };
        self.sidecar(place, &digest, files);
        Some(InventoryFile { inventory, algorithm, identity })
    }

    /// Compares a sidecar with the digest of its inventory.
    fn sidecar(&mut self, place: &str, digest: &Digest, files: &InventoryFiles) {
        let expected = sidecar_name(digest.algorithm());
        let mut others = files.sidecars.iter().filter(|name| *name != &sidecar_name(digest.algorithm()));
        if !files.sidecars.contains(&expected) {
            self.add(
                place,
                match others.next() {
                    None => Problem::NoSidecar { name: expected },
                    Some(found) => Problem::SidecarAlgorithm { found: found.as_str().into(), expected },
                },
            );
        } else {
            let sidecar_place = below(place, &expected);
            match read(&self.path(&sidecar_place), SMALL_FILE_BYTES) {
                Ok(text) => match stated_digest(&text) {
                    None => self.add(place, Problem::SidecarForm { name: expected }),
                    Some(stated) if Digest::from_hex(digest.algorithm(), stated).as_ref() != Some(digest) => {
                        let problem = Problem::InventoryDigest { computed: digest.hex(), stated: stated.into() };
                        self.add(&below(place, INVENTORY), problem);
                    }
                    Some(_) => {}
                },
                Err(ReadFault::TooLarge { .. }) => self.add(place, Problem::SidecarForm { name: expected }),
                Err(fault) => self.report.add_unreadable(&sidecar_place, fault),
            }
        }
        for name in others {
            let name = name.as_str().into();
            self.add(place, if place.is_empty() { Problem::UnexpectedInObject { name } } else { Problem::UnexpectedInVersion { name } });
        }
    }

    /// Compares the version folders with each other and with the inventory's versions.
    fn sequence(&mut self, folders: &[VersionName], inventory: Option<&Inventory>) {
        let Some(&first) = folders.first() else {
            if inventory.is_none() {
                self.add("", Problem::NoVersions);
            }
            for version in inventory.map_or(&[][..], |inventory| &inventory.versions) {
                self.add("", Problem::VersionWithoutFolder { name: version.name });
            }
            return;
        };
        if first.number() != 1 {
            self.add("", Problem::FirstVersion { first });
        }
        for pair in folders.windows(2) {
            if pair[1].number() - pair[0].number() > 1 {
                self.add("", Problem::VersionGap { number: pair[0].number() + 1 });
            }
            if !pair[1].has_convention_of(first) {
                self.add("", Problem::FolderConvention { name: pair[1], first });
            }
        }
        let Some(inventory) = inventory else { return };
        for &name in folders {
            if inventory.version(name.number()).is_none_or(|version| version.name != name) {
                self.add("", Problem::FolderWithoutVersion { name });
            }
        }
        for version in &inventory.versions {
            if !folders.contains(&version.name) {
                self.add("", Problem::VersionWithoutFolder { name: version.name });
            }
        }
    }
}

impl InventoryFiles {
    /// Takes an inventory or a sidecar; returns false for other files.
    fn takes(&mut self, name: &str) -> bool {
        match name.strip_prefix(INVENTORY) {
            Some("") => self.has_inventory = true,
            Some(suffix) if suffix.starts_with('.') => self.sidecars.push(name.to_owned()),
            _ => return false,
        }
        true
    }
}

/// The name of an inventory's sidecar.
pub(crate) fn sidecar_name(algorithm: Algorithm) -> String {
    format!("{INVENTORY}.{algorithm}")
}

/// The digest in a sidecar: digits, space, `inventory.json` and perhaps a line end.
pub(crate) fn stated_digest(sidecar: &[u8]) -> Option<&str> {
    let line = std::str::from_utf8(sidecar).ok()?;
    let line = line.strip_suffix('\n').map_or(line, |line| line.strip_suffix('\r').unwrap_or(line));
    let (digest, rest) = line.split_once([' ', '\t'])?;
    let is_hex = !digest.is_empty() && digest.bytes().all(|digit| digit.is_ascii_hexdigit());
    (is_hex && rest.trim_start_matches([' ', '\t']) == INVENTORY).then_some(digest)
}

fn digest_of(bytes: &[u8], algorithm: Algorithm) -> Digest {
    let mut digester = Digester::new(&[algorithm]);
    digester.update(bytes);
    digester.finish().remove(0)
}

/// True for the name of a file that declares an object, even wrongly.
fn is_declaration(name: &str) -> bool {
    let is_tagged = name.split_once('=').is_some_and(|(tag, value)| tag == "0" || (tag.len() == 1 && value.starts_with("ocfl_object")));
    is_tagged || is_object_declaration(name.as_ref())
}
