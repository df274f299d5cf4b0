//! Reads an inventory and names everything that is wrong with it.
//!
//! The parser goes on after an error, as far as what follows still has a meaning, so that a
//! validator can report all errors of an object.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use fulgurite_digest::{Algorithm, Digest};

use super::{Content, FixityBlock, FixityEntry, FixityKind, Inventory, StateEntry, User, Version};
use crate::findings::Findings;
use crate::json::{self, Member, Slice};
use crate::moment::check_moment;
use crate::paths::{Conflict, PathFault, check_path, find_conflicts};
use crate::problem::{Key, Problem};
use crate::spec::{CONTENT, SpecVersion, VersionName, is_uri};

/// Parses an inventory that is at `place`. Returns `None` if too little of it can be used to look
/// at the rest of the object; there is an error among the findings then.
pub(crate) fn parse(bytes: &[u8], place: &str, findings: &mut Findings) -> Option<Inventory> {
    let parsed = std::str::from_utf8(bytes).map_err(|error| error.to_string());
    let parsed = parsed.and_then(|text| json::parse(text).map_err(|error| error.to_string()));
    let mut parser = Parser { place, findings, spec: SpecVersion::V1_1, has_unknown_keys: false };
    match parsed {
        Ok(slice) => parser.inventory(slice),
        Err(reason) => {
            parser.add(Problem::NotJson { reason });
            None
        }
    }
}

struct Parser<'p> {
    place: &'p str,
    findings: &'p mut Findings,
    /// Decides about a few codes.
    spec: SpecVersion,
    has_unknown_keys: bool,
}

/// Members of an object whose keys are fixed.
struct Known<'a, const N: usize> {
    values: [Option<Slice<'a>>; N],
}

impl Parser<'_> {
    fn add(&mut self, problem: Problem) {
        self.findings.add(self.place, problem);
    }

    /// Passes on a value, or reports that its text has escapes that stand for no character.
    fn readable<T>(&mut self, result: Result<Option<T>, serde_json::Error>) -> Option<T> {
        result.unwrap_or_else(|error| {
            self.add(Problem::NotJson { reason: error.to_string() });
            None
        })
    }

    fn members<'a>(&mut self, slice: Slice<'a>) -> Option<Vec<Member<'a>>> {
        self.readable(json::members(slice))
    }

    fn text<'a>(&mut self, slice: Slice<'a>) -> Option<Cow<'a, str>> {
        self.readable(json::text(slice))
    }

    /// A list of texts.
    fn texts(&mut self, slice: Slice<'_>) -> Option<Vec<Box<str>>> {
        let items = self.readable(json::items(slice))?;
        let mut texts = Vec::with_capacity(items.len());
        for item in items {
            texts.push(Box::from(&*self.text(item)?));
        }
        Some(texts)
    }

    fn known<'a, const N: usize>(&mut self, members: Vec<Member<'a>>, keys: [&str; N]) -> Known<'a, N> {
        let mut values = [None; N];
        for (key, value) in members {
            match keys.iter().position(|known| *known == key) {
                None => {
                    self.has_unknown_keys = true;
                    self.add(Problem::UnknownKey { key: (&*key).into() });
                }
                Some(index) if values[index].is_some() => self.add(Problem::RepeatedKey { key: (&*key).into() }),
                Some(index) => values[index] = Some(value),
            }
        }
        Known { values }
    }

    fn inventory(&mut self, slice: Slice<'_>) -> Option<Inventory> {
        let Some(members) = self.members(slice) else {
            self.add(Problem::NotAnObject);
            return None;
        };
        let keys = ["id", "type", "digestAlgorithm", "head", "contentDirectory", "manifest", "versions", "fixity"];
        let [id, type_, algorithm, head, content_directory, manifest, versions, fixity] = self.known(members, keys).values;

        let spec = self.spec_version(type_);
        self.spec = spec;
        let id = self.id(id);
        let algorithm = self.algorithm(algorithm);
        let content_directory = content_directory.and_then(|value| self.content_directory(value));
        let head = self.head(head);

        let manifest = self.required(Key::Manifest, manifest).map(|slice| self.manifest(slice, algorithm));
        let contents = manifest.as_deref().unwrap_or_default();
        let versions = self.required(Key::Versions, versions).map(|slice| self.versions(slice, contents));
        if let Some(slice) = fixity {
            self.fixity_is_object(slice);
        }
        let fixity = fixity.map(|slice| self.fixity(slice)).unwrap_or_default();

        let (manifest, versions) = (manifest?, versions?);
        let newest = versions.last().map(|version| version.name);
        match (&head, newest) {
            (Some(head), Some(newest)) if VersionName::parse(head) != Some(newest) => {
                self.add(Problem::HeadNotNewest { head: (&**head).into(), newest });
            }
            _ => {}
        }
        let inventory = Inventory {
            id,
            spec,
            algorithm,
            // Everything else is checked against the newest version, whatever the head says.
            head: newest?,
            content_directory,
            manifest,
            versions,
            fixity,
            has_unknown_keys: self.has_unknown_keys,
        };
        self.uses(&inventory);
        self.content_paths(&inventory);
        Some(inventory)
    }

    fn required<'a>(&mut self, key: Key, value: Option<Slice<'a>>) -> Option<Slice<'a>> {
        if value.is_none() {
            self.add(Problem::MissingKey { key });
        }
        value
    }

    fn id(&mut self, value: Option<Slice<'_>>) -> String {
        let Some(value) = self.required(Key::Id, value) else { return String::new() };
        let id = self.text(value).unwrap_or_default().into_owned();
        if id.is_empty() {
            self.add(Problem::IdForm);
        } else if !is_uri(&id) {
            self.add(Problem::IdNotUri { id: id.as_str().into() });
        }
        id
    }

    fn spec_version(&mut self, value: Option<Slice<'_>>) -> SpecVersion {
        let Some(value) = self.required(Key::Type, value) else { return SpecVersion::V1_1 };
        let text = self.text(value);
        text.as_deref().and_then(SpecVersion::of_inventory_type).unwrap_or_else(|| {
            self.add(Problem::TypeValue { value: text.as_deref().unwrap_or(value.get()).into() });
            SpecVersion::V1_1
        })
    }

    fn algorithm(&mut self, value: Option<Slice<'_>>) -> Algorithm {
        let Some(value) = self.required(Key::DigestAlgorithm, value) else { return Algorithm::Sha512 };
        let text = self.text(value);
        match text.as_deref().and_then(algorithm_named) {
            Some(Algorithm::Sha512) => Algorithm::Sha512,
            Some(Algorithm::Sha256) => {
                self.add(Problem::NotSha512 { algorithm: Algorithm::Sha256 });
                Algorithm::Sha256
            }
            other => {
                self.add(Problem::DigestAlgorithm { value: text.as_deref().unwrap_or(value.get()).into() });
                other.unwrap_or(Algorithm::Sha512)
            }
        }
    }

    fn content_directory(&mut self, value: Slice<'_>) -> Option<String> {
        let text = self.text(value);
        let problem = match text.as_deref() {
            None | Some("") => Problem::ContentDirectoryForm { value: value.get().into() },
            Some(name) if name.contains('/') => Problem::ContentDirectorySlash { value: name.into() },
            Some(name @ ("." | "..")) => Problem::ContentDirectoryDots { value: name.into() },
            Some(name) => return Some(name.to_owned()),
        };
        self.add(problem);
        None
    }

    fn head(&mut self, value: Option<Slice<'_>>) -> Option<String> {
        let value = self.required(Key::Head, value)?;
        let text = self.text(value);
        if text.as_deref().and_then(VersionName::parse).is_none() {
            self.add(Problem::HeadForm);
            return None;
        }
        text.map(Cow::into_owned)
    }

    fn manifest(&mut self, slice: Slice<'_>, algorithm: Algorithm) -> Vec<Content> {
        let Some(members) = self.members(slice) else {
            self.add(Problem::ManifestForm { spec: self.spec });
            return Vec::new();
        };
        let mut seen = HashSet::with_capacity(members.len());
        let mut contents = Vec::with_capacity(members.len());
        for (key, paths) in members {
            let Some(digest) = Digest::from_hex(algorithm, &key) else {
                self.add(Problem::DigestForm { algorithm, value: (&*key).into() });
                continue;
            };
            if !seen.insert(digest.clone()) {
                self.add(Problem::ManifestDigestRepeated { digest: (&*key).into() });
                continue;
            }
            let Some(paths) = self.texts(paths).filter(|paths| !paths.is_empty()) else {
                self.add(Problem::ContentPathsForm { digest: (&*key).into() });
                continue;
            };
            contents.push(Content { key: Box::from(&*key), digest, paths });
        }
        contents
    }

    fn versions(&mut self, slice: Slice<'_>, contents: &[Content]) -> Vec<Version> {
        let Some(members) = self.members(slice) else {
            self.add(Problem::VersionsForm);
            return Vec::new();
        };
        let by_key: HashMap<&str, usize> = contents.iter().enumerate().map(|(index, content)| (&*content.key, index)).collect();
        let mut versions = Vec::with_capacity(members.len());
        let mut seen = HashSet::new();
        for (key, value) in members {
            let Some(name) = VersionName::parse(&key) else {
                self.add(version_name_problem(&key));
                continue;
            };
            if !seen.insert(name.number()) {
                self.add(Problem::RepeatedKey { key: (&*key).into() });
                continue;
            }
            versions.push(self.version(name, value, &by_key));
        }
        versions.sort_by_key(|version| version.name.number());
        self.version_names(&versions);
        versions
    }

    fn version_names(&mut self, versions: &[Version]) {
        let Some(first) = versions.first().map(|version| version.name) else {
            self.add(Problem::NoVersions);
            return;
        };
        if first.number() != 1 {
            self.add(Problem::FirstVersion { first });
        }
        for pair in versions.windows(2) {
            // One gap may be as wide as a `u32`, so only its first number is named.
            if pair[1].name.number() - pair[0].name.number() > 1 {
                self.add(Problem::VersionGap { number: pair[0].name.number() + 1 });
            }
        }
        if first.is_padded() {
            self.add(Problem::Padded { name: first });
        }
        for name in versions.iter().map(|version| version.name).filter(|name| !name.has_convention_of(first)) {
            if first.is_padded() && name.to_string().len() == first.to_string().len() {
                self.add(Problem::PaddingFull { name, first });
            }
            self.add(Problem::VersionConvention { name, first });
        }
    }

    fn version(&mut self, name: VersionName, slice: Slice<'_>, by_key: &HashMap<&str, usize>) -> Version {
        let mut version = Version { name, created: String::new(), message: None, user: None, state: Vec::new() };
        let Some(members) = self.members(slice) else {
            self.add(Problem::VersionForm { version: name });
            return version;
        };
        let [created, state, message, user] = self.known(members, ["created", "state", "message", "user"]).values;
        match created {
            None => self.add(Problem::NoCreated { version: name }),
            Some(value) => version.created = self.created(name, value),
        }
        match state {
            None => self.add(Problem::NoState { version: name }),
            Some(value) => version.state = self.state(name, value, by_key),
        }
        match message {
            None => self.add(Problem::NoMessage { version: name }),
            Some(value) => match self.text(value) {
                None => self.add(Problem::MessageForm { version: name }),
                Some(text) => version.message = Some(text.into_owned()),
            },
        }
        match user {
            None => self.add(Problem::NoUser { version: name }),
            Some(value) => version.user = self.user(name, value),
        }
        version
    }

    fn created(&mut self, version: VersionName, value: Slice<'_>) -> String {
        let Some(text) = self.text(value) else {
            self.add(Problem::CreatedForm { version });
            return String::new();
        };
        if let Err(fault) = check_moment(&text) {
            self.add(Problem::Created { version, value: (&*text).into(), fault });
        }
        text.into_owned()
    }

    fn user(&mut self, version: VersionName, value: Slice<'_>) -> Option<User> {
        let Some(members) = self.members(value) else {
            self.add(Problem::UserForm { version });
            return None;
        };
        let [name, address] = self.known(members, ["name", "address"]).values;
        let name = name.and_then(|name| self.text(name)).filter(|name| !name.is_empty());
        if name.is_none() {
            self.add(Problem::UserName { version });
        }
        let address = match address {
            None => {
                self.add(Problem::NoAddress { version });
                None
            }
            Some(value) => {
                let text = self.text(value);
                match text.as_deref() {
                    None => self.add(Problem::UserAddressForm { version }),
                    Some(text) if !is_uri(text) => self.add(Problem::AddressNotUri { version, address: text.into() }),
                    Some(_) => {}
                }
                text.map(Cow::into_owned)
            }
        };
        Some(User { name: name?.into_owned(), address })
    }

    fn state(&mut self, version: VersionName, slice: Slice<'_>, by_key: &HashMap<&str, usize>) -> Vec<StateEntry> {
        let Some(members) = self.members(slice) else {
            self.add(Problem::StateForm { version });
            return Vec::new();
        };
        let mut state: Vec<StateEntry> = Vec::with_capacity(members.len());
        let mut seen = HashSet::with_capacity(members.len());
        for (key, paths) in members {
            let Some(&content) = by_key.get(&*key) else {
                self.add(Problem::StateDigest { version, digest: (&*key).into() });
                continue;
            };
            if !seen.insert(content) {
                self.add(Problem::StateDigestRepeated { version, digest: (&*key).into() });
                continue;
            }
            match self.texts(paths) {
                None => self.add(Problem::LogicalPathsForm { version, digest: (&*key).into() }),
                Some(paths) => state.push(StateEntry { content, paths }),
            }
        }
        let paths = || state.iter().flat_map(|entry| entry.paths.iter().map(|path| &**path));
        for path in paths() {
            match check_path(path) {
                Ok(()) => {}
                Err(PathFault::Slash) => self.add(Problem::LogicalPathSlash { version, path: path.into() }),
                Err(PathFault::Part) => self.add(Problem::LogicalPathPart { version, path: path.into() }),
            }
        }
        find_conflicts(paths(), |conflict| {
            self.add(match conflict {
                Conflict::Repeated(path) => Problem::LogicalPathRepeated { version, path: path.into() },
                Conflict::Folder { file, below } => Problem::LogicalPathFolder { version, path: file.into(), below: below.into() },
            });
        });
        state
    }

    fn fixity_is_object(&mut self, slice: Slice<'_>) {
        if json::form(slice) != json::Form::Object {
            self.add(Problem::FixityForm { spec: self.spec });
        }
    }

    fn fixity(&mut self, slice: Slice<'_>) -> Vec<FixityBlock> {
        let mut blocks: Vec<FixityBlock> = Vec::new();
        for (name, value) in self.members(slice).unwrap_or_default() {
            if blocks.iter().any(|block| block.name == *name) {
                self.add(Problem::RepeatedKey { key: (&*name).into() });
                continue;
            }
            let kind = match &*name {
                "size" => FixityKind::Size,
                name => algorithm_named(name).map_or(FixityKind::Unknown, FixityKind::Digest),
            };
            let Some(members) = self.members(value) else {
                self.add(Problem::FixityBlockForm { algorithm: (&*name).into() });
                continue;
            };
            let entries = self.fixity_entries(&name, kind, members);
            blocks.push(FixityBlock { name: name.into_owned(), kind, entries });
        }
        blocks
    }

    fn fixity_entries(&mut self, name: &str, kind: FixityKind, members: Vec<Member<'_>>) -> Vec<FixityEntry> {
        let mut seen = HashSet::with_capacity(members.len());
        let mut entries = Vec::with_capacity(members.len());
        for (key, paths) in members {
            let is_good = match kind {
                FixityKind::Digest(algorithm) => {
                    let is_good = Digest::from_hex(algorithm, &key).is_some();
                    if !is_good {
                        self.add(Problem::DigestForm { algorithm, value: (&*key).into() });
                    }
                    is_good
                }
                FixityKind::Size => {
                    let is_good = key.bytes().all(|digit| digit.is_ascii_digit()) && key.parse::<u64>().is_ok();
                    if !is_good {
                        self.add(Problem::FixitySize { value: (&*key).into() });
                    }
                    is_good
                }
                FixityKind::Unknown => true,
            };
            // Values of unknown algorithms may depend on case.
            let unified = if kind == FixityKind::Unknown { key.to_string() } else { key.to_ascii_lowercase() };
            if !seen.insert(unified) {
                self.add(Problem::FixityDigestRepeated { algorithm: name.into(), digest: (&*key).into() });
                continue;
            }
            match self.texts(paths) {
                None => self.add(Problem::FixityPathsForm { algorithm: name.into(), digest: (&*key).into() }),
                Some(paths) if is_good => entries.push(FixityEntry { value: Box::from(&*key), paths }),
                Some(_) => {}
            }
        }
        entries
    }

    /// Reports contents that no version uses.
    fn uses(&mut self, inventory: &Inventory) {
        let mut is_used = vec![false; inventory.manifest.len()];
        for entry in inventory.versions.iter().flat_map(|version| &version.state) {
            is_used[entry.content] = true;
        }
        for (content, _) in inventory.manifest.iter().zip(is_used).filter(|(_, is_used)| !is_used) {
            self.add(Problem::ManifestUnused { spec: self.spec, digest: (&*content.key).into() });
        }
    }

    fn content_paths(&mut self, inventory: &Inventory) {
        let all = || inventory.manifest.iter().flat_map(|content| content.paths.iter().map(|path| &**path));
        for path in all() {
            if self.content_path(path) && !is_in_content_folder(inventory, path) {
                self.add(Problem::ContentPathPlace { path: path.into() });
            }
        }
        find_conflicts(all(), |conflict| {
            self.add(match conflict {
                Conflict::Repeated(path) => Problem::ContentPathRepeated { path: path.into() },
                Conflict::Folder { file, below } => Problem::ContentPathFolder { path: file.into(), below: below.into() },
            });
        });
        if inventory.fixity.is_empty() {
            return;
        }
        let manifest: HashSet<&str> = all().collect();
        for block in &inventory.fixity {
            for path in block.entries.iter().flat_map(|entry| &entry.paths) {
                if !manifest.contains(&**path) {
                    self.content_path(path);
                    self.add(Problem::FixityPathUnknown { algorithm: block.name.as_str().into(), path: (&**path).into() });
                }
            }
        }
    }

    /// Returns true if the path is safe; reports it otherwise.
    fn content_path(&mut self, path: &str) -> bool {
        match check_path(path) {
            Ok(()) => return true,
            Err(PathFault::Slash) => self.add(Problem::ContentPathSlash { path: path.into() }),
            Err(PathFault::Part) => self.add(Problem::ContentPathPart { path: path.into() }),
        }
        false
    }
}

/// True for `v1/content/...` with a version of the inventory, in its spelling.
fn is_in_content_folder(inventory: &Inventory, path: &str) -> bool {
    let mut parts = path.splitn(3, '/');
    let version = parts.next().and_then(VersionName::parse);
    let is_version = version.is_some_and(|name| inventory.version(name.number()).is_some_and(|version| version.name == name));
    is_version && parts.next() == Some(inventory.content_directory.as_deref().unwrap_or(CONTENT)) && parts.next().is_some()
}

/// An algorithm in the spelling of OCFL.
fn algorithm_named(name: &str) -> Option<Algorithm> {
    Algorithm::ALL.into_iter().find(|algorithm| algorithm.name() == name)
}

fn version_name_problem(name: &str) -> Problem {
    match name.strip_prefix('v') {
        None if !name.is_empty() && name.bytes().all(|digit| digit.is_ascii_digit()) => Problem::VersionNameTag { name: name.into() },
        Some(digits) if !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit() || digit == b'-') => {
            Problem::VersionNameNumber { name: name.into() }
        }
        _ => Problem::VersionNameForm { name: name.into() },
    }
}
