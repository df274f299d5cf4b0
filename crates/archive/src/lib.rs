//! The archive: stages objects, packs and writes them to platters, verifies, releases, reads and
//! removes them.
//!
//! An [`Archive`] combines a [`Staging`](staging::Staging) area, a
//! [`Catalogue`](catalogue::Catalogue), a [`KeyStore`](keystore::KeyStore) and several
//! [`PlatterStore`](store::PlatterStore)s. A put writes to staging, and is acknowledged once the
//! catalogue has committed it. A flush writes platter-sets across the stores and, once they are
//! verified, releases the staged copies. A get reads from either.

#![forbid(unsafe_code)]

mod as_text;
mod attach;
mod clock;
mod database;
mod decoding;
mod entropy;
mod error;
mod fixity;
mod flush;
mod folder_mark;
mod ingest;
pub mod inspect;
mod inventory;
mod lock;
mod packing;
mod pool;
mod rebuild;
mod reconcile;
mod remove;
mod restore;
mod scrub;
mod segments;
mod status;
mod tables;
mod uncatalogued;

pub mod archive;
pub mod catalogue;
pub mod keyring;
pub mod keystore;
pub mod many;
pub mod object;
pub mod open_file;
mod open_sets;
pub mod paging;
pub mod read_order;
pub mod reserved;
pub mod schema;
pub mod set_reader;
pub mod settings;
pub mod staging;
pub mod store;
mod store_changes;
pub mod store_snapshot;
pub mod unread;
mod unwritable;
pub mod volume;
pub mod watch;

pub use archive::{Access, Archive, ArchiveError, Parts, Readers, databases_kib};
pub use attach::{AttachError, AttachReport, IncompleteSet, Remains, ShapeFrom, attach};
pub use catalogue::UNKNOWN_STORE;
pub use decoding::{DecodeFolderError, DecodeTotals, DecodeWorker, WorkerTotals, check_decode_device, check_decode_folder};
pub use fixity::{CopyState, ObjectFixity, SetFixity, ShardCopy, StagedCopy};
pub use flush::FlushReport;
pub use ingest::{
    Acknowledge, ContentCheck, Intake, IntakeError, NewObject, PutOutcome, PutReport, RecordTooLong, Skip, Source, Ticket, Upload,
    check_record_length,
};
pub use lock::is_in_use;
pub use pool::{Cache, Open, Reading};
pub use rebuild::{GivenUp, RebuildReport, Unseen, UnseenPlace, UnseenStores, rebuild_catalogue};
pub use restore::{Existing, GetReport, file_name};
pub use scrub::{
    Irreparable, IrreparableSet, MisnamedPlatter, ObjectsReport, PlatterFinding, PlatterState, Replace, ScrubReport, StagedReport,
    UnknownPlatter, count_shared_numbers,
};
pub use status::{ArchiveStatus, CatalogueGaps};
pub use store_changes::{ReplaceReport, Replaced, add_store, replace_store};
pub use uncatalogued::{count_unknown_staged, hiding_stores};
pub use unwritable::is_unwritable;

/// A random identifier for a new archive.
#[must_use]
pub fn new_archive_id() -> fulgurite_domain::ArchiveId {
    fulgurite_domain::ArchiveId(entropy::random())
}
