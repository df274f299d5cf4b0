//! From a packet, as a survey sends it, to the objects to store.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::avro::{Container, Field, Kind, Schema, Selection};
use crate::pattern::Pattern;
use crate::registry::{Registry, RegistryError};

/// An object to store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Its key.
    pub key: String,
    /// Its content.
    pub content: Bytes,
    /// Metadata: names without `x-amz-meta-`, and values in ASCII.
    pub metadata: Vec<(&'static str, String)>,
}

/// Where the schemas of packets come from.
#[derive(Debug)]
pub enum Schemas {
    /// Each packet is an Avro container file, with its schema.
    Embedded,
    /// A packet begins with a zero byte and the number of its schema in a registry.
    Registry(Registry),
    /// All packets have this schema.
    File {
        /// The schema.
        schema: Schema,
        /// Whether packets begin with five bytes that number their schema.
        has_header: bool,
    },
}

/// What to store of alerts.
#[derive(Debug)]
pub struct Recipe {
    /// Keys of cutouts; `{field}` stands for the name of the field.
    pub key: Pattern,
    /// Fields with cutouts. `None` selects those whose names begin with `cutout`.
    pub fields: Option<Vec<String>>,
    /// Keys of whole packets; `None` doesn't store them.
    pub packet: Option<Pattern>,
}

/// Why a recipe can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecipeError {
    /// Cutouts of an alert would have the same key.
    #[error("without `{{field}}` in the pattern, all cutouts of an alert would have the same key")]
    SameKey,
    /// A packet belongs to no field.
    #[error("`{{field}}` can't be in the pattern for packets")]
    FieldOfPacket,
    /// Nothing would be stored.
    #[error("neither cutouts nor packets would be stored")]
    Nothing,
}

/// Why a packet gives no objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unreadable {
    /// The packet is at fault.
    Packet(String),
    /// Another attempt may succeed.
    Transient(String),
    /// No packet can be read.
    Refused(String),
}

/// The name of a cutout's field, in patterns.
const FIELD: &str = "field";
/// The first byte of packets with the number of their schema.
const MAGIC: u8 = 0;
/// Schemas kept. A topic has a few, over the years.
const PLANS_MAX: usize = 100;
/// How long a schema may be missing in a registry: packets may come before it is in all replicas.
const MISSING: Duration = Duration::from_secs(30);
/// Missing schemas kept.
const MISSING_MAX: usize = 10_000;
/// Maximum number of objects in a packet.
const OBJECTS_MAX: usize = 500_000;
/// Memory for an object, without its content.
const OBJECT_BYTES: usize = 256;
/// Maximum bytes of a packet after decompression.
const EXPANDED_MAX: usize = 256 << 20;
/// KiB that packets may take beyond their own bytes: two that are as large as they may be.
const EXPANDED_KIB: u32 = 512 << 10;

/// Reads packets.
#[derive(Debug)]
pub struct Alerts {
    schemas: Schemas,
    recipe: Recipe,
    /// KiB that packets may take beyond their own bytes. A task holds the lock from decompressing
    /// until it has its permits, so that at most one packet isn't counted.
    expanded: Arc<Semaphore>,
    expanding: tokio::sync::Mutex<()>,
    /// Held while a registry is asked.
    asking: tokio::sync::Mutex<()>,
    plans: Mutex<HashMap<Id, Arc<Result<Plan, String>>>>,
    /// Schemas that the registry didn't have, and when it was first asked.
    missing: Mutex<HashMap<u32, Instant>>,
}

/// What distinguishes schemas.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Id {
    Text(Vec<u8>),
    Number(u32),
    File,
}

/// What is selected of packets with one schema.
#[derive(Debug)]
struct Plan {
    schema: Schema,
    selection: Selection,
    /// Fields that keys need, in the selection's order.
    key_fields: Vec<String>,
    /// Fields with cutouts, which follow.
    cutouts: Vec<String>,
}

/// The objects of a packet.
#[derive(Debug, Default)]
pub struct Contents {
    /// The objects.
    pub objects: Vec<Object>,
    /// Number of alerts.
    pub alerts: u64,
    /// Number of cutouts that are null.
    pub absent: u64,
    /// Counts the memory of decompressed blocks, until all is stored.
    expanded: Option<OwnedSemaphorePermit>,
}

impl Recipe {
    /// Checks the recipe.
    ///
    /// # Errors
    /// [`RecipeError`] if objects would have the same key, or nothing would be stored.
    pub fn check(&self) -> Result<(), RecipeError> {
        let has_field = |pattern: &Pattern| pattern.names().any(|name| name == FIELD);
        let is_single = self.fields.as_ref().is_some_and(|fields| fields.len() <= 1);
        if !is_single && !has_field(&self.key) {
            return Err(RecipeError::SameKey);
        }
        if self.packet.as_ref().is_some_and(has_field) {
            return Err(RecipeError::FieldOfPacket);
        }
        if self.packet.is_none() && self.fields.as_ref().is_some_and(Vec::is_empty) {
            return Err(RecipeError::Nothing);
        }
        Ok(())
    }
}

impl Plan {
    fn new(schema: Schema, recipe: &Recipe) -> Result<Self, String> {
        let cutouts: Vec<String> = match &recipe.fields {
            Some(fields) => fields.clone(),
            // A field with bytes that can't be selected is an error below: a cutout in a new shape
            // must not vanish.
            None => schema.fields().filter(|name| name.starts_with("cutout") && schema.has_bytes(name)).map(str::to_owned).collect(),
        };
        let key = Some(&recipe.key).filter(|_| !cutouts.is_empty());
        let mut key_fields: Vec<String> = Vec::new();
        for name in key.into_iter().chain(&recipe.packet).flat_map(|pattern| pattern.names()) {
            if name != FIELD && !key_fields.iter().any(|known| known == name) {
                key_fields.push(name.to_owned());
            }
        }
        if cutouts.is_empty() && recipe.packet.is_none() {
            return Err("the schema has no field with bytes whose name begins with `cutout`".to_owned());
        }
        let keys = key_fields.iter().map(|name| (name.as_str(), Kind::Key));
        let paths = keys.chain(cutouts.iter().map(|name| (name.as_str(), Kind::Content)));
        let selection = Selection::new(&schema, paths).map_err(|error| error.to_string())?;
        Ok(Self { schema, selection, key_fields, cutouts })
    }

    /// Adds the objects of the alert that `data` begins with. Returns the alert's length.
    fn objects(&self, recipe: &Recipe, data: &[u8], source: &Source<'_>, contents: &mut Contents) -> Result<usize, String> {
        let (fields, length) = self.selection.of(&self.schema, data).map_err(|error| error.to_string())?;
        let mut values = Vec::with_capacity(self.key_fields.len());
        for (name, field) in self.key_fields.iter().zip(&fields) {
            values.push(match field {
                Field::Integer(number) => number.to_string(),
                Field::Text(text) => (*text).to_owned(),
                _ => return Err(format!("`{name}` is null")),
            });
        }
        let value = |name: &str| {
            let index = self.key_fields.iter().position(|known| known == name);
            index.map_or_else(String::new, |index| values[index].clone())
        };
        for (name, field) in self.cutouts.iter().zip(&fields[self.key_fields.len()..]) {
            let Field::Bytes(cutout) = field else {
                contents.absent += 1;
                continue;
            };
            let key = recipe.key.key(|wanted| if wanted == FIELD { name.clone() } else { value(wanted) });
            let key = key.map_err(|error| error.to_string())?;
            contents.objects.push(Object { key, content: source.part(cutout), metadata: Vec::new() });
        }
        if let Some(pattern) = &recipe.packet {
            let key = pattern.key(value).map_err(|error| error.to_string())?;
            let content = source.packet.ok_or("a file with several alerts has no packet for each")?.clone();
            contents.objects.push(Object { key, content, metadata: Vec::new() });
        }
        contents.alerts += 1;
        Ok(length)
    }
}

/// Where the bytes of alerts lie.
struct Source<'a> {
    /// What they are part of.
    bytes: &'a Bytes,
    /// What is stored as the packet.
    packet: Option<&'a Bytes>,
}

impl Source<'_> {
    fn part(&self, part: &[u8]) -> Bytes {
        // Bytes that are part of others share their memory.
        self.bytes.slice_ref(part)
    }
}

impl Alerts {
    /// Reads packets with these schemas by this recipe.
    #[must_use]
    pub fn new(schemas: Schemas, recipe: Recipe) -> Self {
        let expanded = Arc::new(Semaphore::new(EXPANDED_KIB as usize));
        Self {
            schemas,
            recipe,
            expanded,
            expanding: tokio::sync::Mutex::default(),
            asking: tokio::sync::Mutex::default(),
            plans: Mutex::default(),
            missing: Mutex::default(),
        }
    }

    /// The objects of a packet.
    ///
    /// # Errors
    /// [`Unreadable`] if it isn't an alert with the wanted fields, or its schema can't be had.
    pub async fn read(&self, packet: &Bytes) -> Result<Contents, Unreadable> {
        let bad = |why: &str| Unreadable::Packet(why.to_owned());
        let (plan, data) = match &self.schemas {
            Schemas::Embedded => return self.read_container(packet).await.map_err(Unreadable::Packet),
            Schemas::File { schema, has_header } => {
                let plan = self.plan(&Id::File).unwrap_or_else(|| self.learn(Id::File, Ok(schema.clone())));
                (plan, if *has_header { split_header(packet).ok_or_else(|| bad(NO_HEADER))?.1 } else { packet.clone() })
            }
            Schemas::Registry(registry) => {
                let (id, data) = split_header(packet).ok_or_else(|| bad(NO_HEADER))?;
                // Messages that arrive meanwhile wait for the same schema.
                let asking = if self.plan(&Id::Number(id)).is_none() { Some(self.asking.lock().await) } else { None };
                let plan = match self.plan(&Id::Number(id)) {
                    Some(plan) => plan,
                    None => match registry.schema(id).await {
                        Ok(schema) => {
                            self.missing().remove(&id);
                            self.learn(Id::Number(id), Ok(schema))
                        }
                        Err(error @ RegistryError::Missing(_)) if self.is_early(id) => {
                            return Err(Unreadable::Transient(error.to_string()));
                        }
                        Err(error @ RegistryError::Transient(_)) => return Err(Unreadable::Transient(error.to_string())),
                        Err(error @ RegistryError::Refused(_)) => return Err(Unreadable::Refused(error.to_string())),
                        // Not remembered: the registry may have it later.
                        Err(error @ (RegistryError::Missing(_) | RegistryError::Schema(..))) => return Err(bad(&error.to_string())),
                    },
                };
                drop(asking);
                (plan, data)
            }
        };
        let plan = plan.as_ref().as_ref().map_err(|why| bad(why))?;
        let mut contents = Contents::default();
        let source = Source { bytes: &data, packet: Some(packet) };
        let length = plan.objects(&self.recipe, &data, &source, &mut contents).map_err(Unreadable::Packet)?;
        if length != data.len() {
            return Err(bad("the packet has bytes after the end of the alert"));
        }
        Ok(contents)
    }

    /// The objects of all alerts in a container file.
    ///
    /// # Errors
    /// Why it can't be read. Nothing of such a file is stored.
    pub async fn read_container(&self, packet: &Bytes) -> Result<Contents, String> {
        let container = Container::open(packet).map_err(|error| error.to_string())?;
        let id = Id::Text(container.schema().to_owned());
        let plan = self.plan(&id).unwrap_or_else(|| {
            let schema = std::str::from_utf8(container.schema()).map_err(|_| "the schema isn't UTF-8".to_owned());
            self.learn(id, schema.and_then(|schema| Schema::parse(schema).map_err(|error| error.to_string())))
        });
        let plan = plan.as_ref().as_ref().map_err(Clone::clone)?;
        let expanding = if container.is_compressed() { Some(self.expanding.lock().await) } else { None };
        let mut blocks = Vec::new();
        let mut expanded = 0;
        for block in container.blocks() {
            let (count, block) = block.map_err(|error| error.to_string())?;
            if let Cow::Owned(block) = &block {
                expanded += block.len();
                if expanded > EXPANDED_MAX {
                    return Err("its blocks are larger than 256 MiB after decompression".to_owned());
                }
            }
            // Some writers end with a block that has nothing.
            if count > 0 || !block.is_empty() {
                blocks.push((count, block));
            }
        }
        if blocks.is_empty() {
            return Err("it has no alerts".to_owned());
        }
        let is_single = blocks.iter().map(|(count, _)| *count).eq([1]);
        let alerts = blocks.iter().fold(0_u64, |sum, (count, _)| sum.saturating_add(*count));
        let objects = alerts.saturating_mul(plan.cutouts.len() as u64 + 1).min(OBJECTS_MAX as u64) as usize;
        let mut contents = Contents::default();
        if !is_single || expanding.is_some() {
            let kib = ((expanded + objects * OBJECT_BYTES).div_ceil(1 << 10) as u32).min(EXPANDED_KIB);
            let permits = Arc::clone(&self.expanded).acquire_many_owned(kib).await;
            contents.expanded = Some(permits.expect("the semaphore is never closed"));
        }
        drop(expanding);
        for (count, block) in blocks {
            let block = match block {
                Cow::Borrowed(part) => packet.slice_ref(part),
                Cow::Owned(block) => Bytes::from(block),
            };
            let source = Source { bytes: &block, packet: is_single.then_some(packet) };
            let mut rest = &block[..];
            for _ in 0..count {
                let length = plan.objects(&self.recipe, rest, &source, &mut contents)?;
                rest = &rest[length..];
                if contents.objects.len() > OBJECTS_MAX {
                    return Err("it has more than 500,000 objects".to_owned());
                }
            }
            if !rest.is_empty() {
                return Err("a block has bytes after its last alert".to_owned());
            }
        }
        Ok(contents)
    }

    fn missing(&self) -> std::sync::MutexGuard<'_, HashMap<u32, Instant>> {
        self.missing.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Whether a registry that lacks a schema may get it yet.
    fn is_early(&self, id: u32) -> bool {
        let mut missing = self.missing();
        if missing.len() >= MISSING_MAX {
            missing.clear();
        }
        missing.entry(id).or_insert_with(Instant::now).elapsed() < MISSING
    }

    fn plan(&self, id: &Id) -> Option<Arc<Result<Plan, String>>> {
        self.plans.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get(id).cloned()
    }

    fn learn(&self, id: Id, schema: Result<Schema, String>) -> Arc<Result<Plan, String>> {
        let plan = Arc::new(schema.and_then(|schema| Plan::new(schema, &self.recipe)));
        let mut plans = self.plans.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if plans.len() >= PLANS_MAX {
            plans.clear();
        }
        plans.insert(id, Arc::clone(&plan));
        plan
    }
}

const NO_HEADER: &str = "the packet doesn't begin with a zero byte and the number of its schema";

/// The number of a packet's schema, and what follows.
fn split_header(packet: &Bytes) -> Option<(u32, Bytes)> {
    let number = packet.get(..5)?.strip_prefix(&[MAGIC])?;
    Some((u32::from_be_bytes(number.try_into().ok()?), packet.slice(5..)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(fields: &str, recipe: &Recipe) -> Result<Plan, String> {
        let schema = format!(r#"{{"type": "record", "name": "alert", "fields": [{fields}]}}"#);
        Plan::new(Schema::parse(&schema).expect("valid"), recipe)
    }

    fn recipe(fields: Option<Vec<String>>, packet: Option<&str>) -> Recipe {
        let pattern = |text| Pattern::parse(text).expect("a pattern");
        Recipe { key: pattern("{objectId}/{candid}/{field}"), fields, packet: packet.map(pattern) }
    }

    #[test]
    fn packets_alone_need_no_fields_of_the_cutouts_keys() {
        let id = r#"{"name": "diaSourceId", "type": "long"}"#;
        for fields in [None, Some(Vec::new())] {
            let plan = plan(id, &recipe(fields, Some("{diaSourceId}"))).expect("the packet's key has all it needs");
            assert_eq!(plan.key_fields, ["diaSourceId"]);
        }
        let cutout = format!(r#"{id}, {{"name": "cutoutA", "type": "bytes"}}"#);
        assert_eq!(plan(&cutout, &recipe(None, Some("{diaSourceId}"))).err().as_deref(), Some("the schema has no field `objectId`"));
    }

    #[test]
    fn a_cutout_that_can_not_be_selected_is_not_skipped() {
        let ids = r#"{"name": "objectId", "type": "string"}, {"name": "candid", "type": "long"}, {"name": "cutoutCount", "type": "int"}"#;
        let with = |kind: &str| {
            let fields = format!(r#"{ids}, {{"name": "cutoutA", "type": "bytes"}}, {{"name": "cutoutB", "type": {kind}}}"#);
            plan(&fields, &recipe(None, None)).map(|plan| plan.cutouts)
        };
        assert_eq!(with(r#"["null", "bytes"]"#), Ok(vec!["cutoutA".to_owned(), "cutoutB".to_owned()]));
        assert_eq!(with(r#"["null", "string"]"#), Ok(vec!["cutoutA".to_owned()]));
        for (kind, why) in [
            (
                r#"{"type": "record", "name": "C", "fields": [{"name": "d", "type": "bytes"}, {"name": "mask", "type": ["null", "bytes"]}]}"#,
                "the field `cutoutB` is a record with several fields of bytes, expected bytes",
            ),
            (r#"["null", "bytes", "string"]"#, "the field `cutoutB` is a string, expected bytes"),
            (r#"{"type": "array", "items": "bytes"}"#, "the field `cutoutB` is an array, expected bytes"),
        ] {
            assert_eq!(with(kind), Err(why.to_owned()));
        }
    }
}
