//! Inventories: what an object contains, version by version.
//!
//! ```text
//! content path --(manifest: digest)--> content --(state of a version: digest)--> logical paths
//! v1/content/a%3ab                     90af..                                    a:b
//! ```
//!
//! An inventory is in memory as a whole: about two and a half times its file while it is parsed,
//! and as much as its file afterwards. An object with a million files has some 500 MB.

mod parse;
mod text;

use std::collections::HashMap;

use fulgurite_digest::{Algorithm, Digest};

use crate::findings::{Finding, Findings};
use crate::problem::Problem;
use crate::spec::{CONTENT, SpecVersion, VersionName};

pub(crate) use parse::parse;

/// The inventory of an object at one version.
#[derive(Debug, Clone)]
pub struct Inventory {
    pub(crate) id: String,
    pub(crate) spec: SpecVersion,
    pub(crate) algorithm: Algorithm,
    pub(crate) head: VersionName,
    /// `None` for the default.
    pub(crate) content_directory: Option<String>,
    pub(crate) manifest: Vec<Content>,
    /// In the order of their numbers.
    pub(crate) versions: Vec<Version>,
    pub(crate) fixity: Vec<FixityBlock>,
    /// Its file has keys that OCFL doesn't have; they are ignored, and a new version would lose
    /// them.
    pub(crate) has_unknown_keys: bool,
}

/// A content of the manifest.
#[derive(Debug, Clone)]
pub(crate) struct Content {
    /// The digest as the inventory spells it.
    pub(crate) key: Box<str>,
    pub(crate) digest: Digest,
    pub(crate) paths: Vec<Box<str>>,
}

/// A version of an object.
#[derive(Debug, Clone)]
pub struct Version {
    pub(crate) name: VersionName,
    pub(crate) created: String,
    pub(crate) message: Option<String>,
    pub(crate) user: Option<User>,
    pub(crate) state: Vec<StateEntry>,
}

/// Who made a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Any readable name.
    pub name: String,
    /// A URI, such as `mailto:...` or an ORCID iD.
    pub address: Option<String>,
}

/// The logical paths of a content.
#[derive(Debug, Clone)]
pub(crate) struct StateEntry {
    /// Index into the manifest.
    pub(crate) content: usize,
    pub(crate) paths: Vec<Box<str>>,
}

/// Additional digests.
#[derive(Debug, Clone)]
pub(crate) struct FixityBlock {
    pub(crate) name: String,
    pub(crate) kind: FixityKind,
    pub(crate) entries: Vec<FixityEntry>,
}

/// What the values of a fixity block are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FixityKind {
    Digest(Algorithm),
    /// Bytes of the content, in decimal digits (extension 0009).
    Size,
    /// Unknown here, and ignored, as the specification wants.
    Unknown,
}

#[derive(Debug, Clone)]
pub(crate) struct FixityEntry {
    pub(crate) value: Box<str>,
    pub(crate) paths: Vec<Box<str>>,
}

/// What a value of a fixity block says about content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FixityValue {
    Digest(Digest),
    Size(u64),
}

/// Which contents of an object are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Those that the newest version uses.
    Head,
    /// All of them, as an audit wants.
    All,
}

/// A file of an object's content, and everything that the inventory says about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContentFile<'a> {
    /// Its path, relative to the object. Checked: it stays in the object.
    pub path: &'a str,
    /// Its names in the newest version; several, or none for content of earlier versions.
    pub logical_paths: &'a [Box<str>],
    /// Its digests: first that of the manifest, then those of the fixity block.
    pub digests: Vec<Digest>,
    /// Its length, if the fixity block states it.
    pub bytes: Option<u64>,
}

/// An inventory that can't be used.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the inventory is invalid: {first}{}", if *errors > 1 { format!(", and {} more errors", errors - 1) } else { String::new() })]
pub struct InvalidInventory {
    /// The first error.
    pub first: Box<Finding>,
    /// How many errors there are.
    pub errors: u64,
}

impl Inventory {
    /// Parses an inventory. Warnings are ignored, and so are keys that OCFL doesn't have, for
    /// readers lose nothing by them.
    ///
    /// # Errors
    /// If it breaks any other rule of the specification that the file alone can show.
    pub fn parse(bytes: &[u8]) -> Result<Self, InvalidInventory> {
        let mut findings = Findings::default();
        let inventory = parse(bytes, "", &mut findings);
        let mut errors = findings.kept().iter().filter(|finding| finding.code().is_error());
        let is_serious = |finding: &&Finding| !matches!(finding.problem, Problem::UnknownKey { .. });
        let kept = errors.clone().count() as u64;
        let first = errors.clone().find(is_serious);
        // Errors that were only counted may be serious.
        let first = first.or_else(|| errors.next().filter(|_| kept < findings.errors()));
        match (inventory, first) {
            (Some(inventory), None) => Ok(inventory),
            (_, Some(first)) => Err(InvalidInventory { first: Box::new(first.clone()), errors: findings.errors() }),
            (None, None) => unreachable!("an inventory that can't be read has an error"),
        }
    }

    /// The object's identifier.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The specification that it follows.
    #[must_use]
    pub fn spec(&self) -> SpecVersion {
        self.spec
    }

    /// The algorithm of the manifest.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The newest version.
    #[must_use]
    pub fn head(&self) -> VersionName {
        self.head
    }

    /// The name of content folders.
    #[must_use]
    pub fn content_directory(&self) -> &str {
        self.content_directory.as_deref().unwrap_or(CONTENT)
    }

    /// The versions, oldest first.
    #[must_use]
    pub fn versions(&self) -> &[Version] {
        &self.versions
    }

    /// A version by its number.
    #[must_use]
    pub fn version(&self, number: u32) -> Option<&Version> {
        let found = self.versions.binary_search_by_key(&number, |version| version.name.number());
        found.ok().map(|index| &self.versions[index])
    }

    /// The logical paths of a version, each with its digest, in the order of the inventory.
    pub fn logical_paths<'a>(&'a self, version: &'a Version) -> impl Iterator<Item = (&'a str, &'a Digest)> + 'a {
        version.state.iter().flat_map(|entry| {
            let digest = &self.manifest[entry.content].digest;
            entry.paths.iter().map(move |path| (&**path, digest))
        })
    }

    /// The content path of a logical path of a version: the first, if the content is stored twice.
    #[must_use]
    pub fn content_path(&self, version: &Version, logical_path: &str) -> Option<&str> {
        let entry = version.state.iter().find(|entry| entry.paths.iter().any(|path| **path == *logical_path))?;
        self.manifest[entry.content].paths.first().map(|path| &**path)
    }

    /// The files of the object's content, in the order of the manifest.
    pub fn files(&self, scope: Scope) -> impl Iterator<Item = ContentFile<'_>> {
        let mut logical: HashMap<usize, &[Box<str>]> = HashMap::new();
        for entry in self.versions.last().map_or(&[][..], |head| &head.state) {
            logical.insert(entry.content, &entry.paths);
        }
        let fixity = self.fixity_by_path();
        let wanted = self.manifest.iter().enumerate().filter_map(move |(index, content)| {
            let names = logical.get(&index).copied();
            (scope == Scope::All || names.is_some()).then_some((content, names.unwrap_or_default()))
        });
        let files = wanted.flat_map(|(content, names)| content.paths.iter().map(move |path| (content, names, path)));
        files.map(move |(content, logical_paths, path)| {
            let mut file = ContentFile { path, logical_paths, digests: vec![content.digest.clone()], bytes: None };
            for value in fixity.get(&**path).into_iter().flatten() {
                match value {
                    FixityValue::Digest(digest) if *digest != content.digest => file.digests.push(digest.clone()),
                    FixityValue::Digest(_) => {}
                    FixityValue::Size(bytes) => file.bytes = Some(*bytes),
                }
            }
            file
        })
    }

    /// What the fixity block says about each content path.
    pub(crate) fn fixity_by_path(&self) -> HashMap<&str, Vec<FixityValue>> {
        let mut by_path: HashMap<&str, Vec<FixityValue>> = HashMap::new();
        for block in &self.fixity {
            for entry in &block.entries {
                let Some(value) = block.value(entry) else { continue };
                for path in &entry.paths {
                    by_path.entry(path).or_default().push(value.clone());
                }
            }
        }
        by_path
    }

    /// All content paths with the index of their content.
    pub(crate) fn contents_by_path(&self) -> HashMap<&str, usize> {
        let paths = self.manifest.iter().enumerate().flat_map(|(index, content)| content.paths.iter().map(move |path| (&**path, index)));
        paths.collect()
    }
}

impl FixityBlock {
    pub(crate) fn value(&self, entry: &FixityEntry) -> Option<FixityValue> {
        match self.kind {
            FixityKind::Digest(algorithm) => Digest::from_hex(algorithm, &entry.value).map(FixityValue::Digest),
            FixityKind::Size => entry.value.parse().ok().map(FixityValue::Size),
            FixityKind::Unknown => None,
        }
    }
}

impl Version {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> VersionName {
        self.name
    }

    /// When it was made, as in RFC 3339.
    #[must_use]
    pub fn created(&self) -> &str {
        &self.created
    }

    /// Why it was made.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }

    /// Who made it.
    #[must_use]
    pub fn user(&self) -> Option<&User> {
        self.user.as_ref()
    }
}
