//! Puts alerts from Kafka, and files from folders, into a bucket.
//!
//! ```text
//! kafka ---.              alert: packet -> objects            sink: one put each, or small ones in
//!           >-- pipeline --> avro, pattern, registry --------->  batches; compared with what is there
//! folder --'                   '-- unreadable -> dead letter
//! ```
//!
//! A packet counts as stored once all its objects are acknowledged, or its dead letter is. Keys
//! come from the alerts themselves, and a put never replaces an object: an alert that is delivered
//! several times is stored once.

#![forbid(unsafe_code)]

mod alert;
pub mod avro;
mod batches;
mod folder;
#[cfg(feature = "kafka")]
mod kafka;
#[cfg(feature = "kafka")]
mod offsets;
mod pattern;
mod pipeline;
mod registry;
mod sink;

pub use alert::{Alerts, Contents, Object, Recipe, RecipeError, Schemas, Unreadable};
pub use folder::{FolderSettings, FolderSource};
#[cfg(feature = "kafka")]
pub use kafka::{KafkaSettings, KafkaSource};
pub use pattern::{KeyError, Pattern, PatternError, check_prefix};
pub use pipeline::{Counts, Events, IngestError, Pipeline};
pub use registry::{Registry, RegistryError};
pub use sink::{Sink, SinkError, Stored};
