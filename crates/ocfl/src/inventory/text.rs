//! Writes inventories as JSON.

use std::collections::BTreeMap;

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::{Content, FixityBlock, Inventory, StateEntry, User, Version};

impl Inventory {
    /// The inventory as JSON, in a fixed order, so that equal inventories have equal bytes.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        let mut json = serde_json::to_vec_pretty(&Whole(self)).expect("texts, maps and lists in memory always become JSON");
        json.push(b'\n');
        json
    }
}

struct Whole<'a>(&'a Inventory);
struct Manifest<'a>(&'a [Content]);
struct Versions<'a>(&'a Inventory);
struct OneVersion<'a>(&'a Inventory, &'a Version);
struct State<'a>(&'a Inventory, &'a [StateEntry]);
struct Fixity<'a>(&'a [FixityBlock]);

impl Serialize for Whole<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let inventory = self.0;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &inventory.id)?;
        map.serialize_entry("type", inventory.spec.inventory_type())?;
        map.serialize_entry("digestAlgorithm", inventory.algorithm.name())?;
        map.serialize_entry("head", &inventory.head.to_string())?;
        if let Some(name) = &inventory.content_directory {
            map.serialize_entry("contentDirectory", name)?;
        }
        map.serialize_entry("manifest", &Manifest(&inventory.manifest))?;
        map.serialize_entry("versions", &Versions(inventory))?;
        if !inventory.fixity.is_empty() {
            map.serialize_entry("fixity", &Fixity(&inventory.fixity))?;
        }
        map.end()
    }
}

impl Serialize for Manifest<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let sorted: BTreeMap<&str, &[Box<str>]> = self.0.iter().map(|content| (&*content.key, &*content.paths)).collect();
        sorted.serialize(serializer)
    }
}

impl Serialize for Versions<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.versions.len()))?;
        for version in &self.0.versions {
            map.serialize_entry(&version.name.to_string(), &OneVersion(self.0, version))?;
        }
        map.end()
    }
}

impl Serialize for OneVersion<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let version = self.1;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("created", &version.created)?;
        if let Some(message) = &version.message {
            map.serialize_entry("message", message)?;
        }
        if let Some(user) = &version.user {
            map.serialize_entry("user", user)?;
        }
        map.serialize_entry("state", &State(self.0, &version.state))?;
        map.end()
    }
}

impl Serialize for User {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", &self.name)?;
        if let Some(address) = &self.address {
            map.serialize_entry("address", address)?;
        }
        map.end()
    }
}

impl Serialize for State<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let entries = self.1.iter().map(|entry| (&*self.0.manifest[entry.content].key, &*entry.paths));
        entries.collect::<BTreeMap<&str, &[Box<str>]>>().serialize(serializer)
    }
}

impl Serialize for Fixity<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut blocks: Vec<&FixityBlock> = self.0.iter().collect();
        blocks.sort_by(|a, b| a.name.cmp(&b.name));
        let mut map = serializer.serialize_map(Some(blocks.len()))?;
        for block in blocks {
            let sorted: BTreeMap<&str, &[Box<str>]> = block.entries.iter().map(|entry| (&*entry.value, &*entry.paths)).collect();
            map.serialize_entry(&block.name, &sorted)?;
        }
        map.end()
    }
}
