//! PREMIS 3: what happened to objects, in the standard vocabulary of digital preservation.
//!
//! An [`Event`] is something that was done to *objects* by *agents*: a fixity check, a replication,
//! a recovery. A [`FileObject`] describes a file, with its digests and who computed them first.
//! [`XmlWriter`] and [`JsonLdWriter`] write any number of both as they come; neither holds more
//! than one of them in memory.
//!
//! ```text
//! objects ──> events ──> agents ──> finish   XML: a <premis> document, in the order of the schema
//! objects, events and agents ──> finish      JSON-LD: a graph of nodes, one a line
//! ```
//!
//! Sources: PREMIS Data Dictionary 3.0; the order of elements in its XML schema, premis.xsd 3.0;
//! the PREMIS 3 ontology, <http://www.loc.gov/premis/rdf/v3/>; the vocabularies at id.loc.gov.
#![forbid(unsafe_code)]

mod json_ld;
mod record;
mod text;
mod xml;

pub use json_ld::JsonLdWriter;
pub use record::{Agent, Event, EventType, FileObject, Fixity, Identifier, Link, ObjectRole, Outcome, Timestamp, original_name};
pub use xml::XmlWriter;

/// Why a document can't be written.
#[derive(Debug, thiserror::Error)]
pub enum PremisError {
    /// The schema requires at least one object.
    #[error("a PREMIS document needs at least one object before its events: describe the object that the events are about")]
    NoObject,
    /// The schema has all objects before all events.
    #[error("objects must come before events in a PREMIS document: {identifier:?} came later")]
    ObjectAfterEvent {
        /// Value of the object's identifier.
        identifier: String,
    },
    /// The schema has all events before all agents.
    #[error("events must come before agents in a PREMIS document: {identifier:?} came later")]
    EventAfterAgent {
        /// Value of the event's identifier.
        identifier: String,
    },
    /// The schema has sizes as signed numbers of 64 bits.
    #[error("{bytes} bytes are more than a PREMIS document can state: the limit is 2^63 - 1")]
    Size {
        /// Bytes of the object.
        bytes: u64,
    },
    /// Times have years from 0000 to 9999 here.
    #[error("{seconds} s and {nanos} ns since 1970 are not a time between the years 0 and 9999")]
    Time {
        /// Seconds since 1970.
        seconds: i64,
        /// Nanoseconds after that.
        nanos: u32,
    },
    /// The output failed.
    #[error("can't write the PREMIS document: {0}")]
    Write(#[from] std::io::Error),
}
