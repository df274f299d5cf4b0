//! The byte format of platters, staging segments and exported keys, as specified in
//! `docs/format.md`.
//!
//! A platter's [`Header`] identifies it, and its table of [`Entry`]s lists its content. Each entry
//! carries an object's record and the position of the object's bytes, which are cut into
//! [`Frames`]. Objects wait for their platter in segments of checksummed records ([`RecordHead`],
//! [`scan_segment`]). The keys of sealed objects are stored wrapped by a [`MasterKey`] and leave
//! the archive through [`KeyExportWriter`].
//!
//! This crate only converts values to bytes and back. IO goes through [`std::io::Read`],
//! [`std::io::Write`] and caller-supplied closures; random keys and salts come from the caller too.
//! Parsers accept arbitrary bytes and answer bad ones with an error, in bounded memory.

#![forbid(unsafe_code)]

mod cbor;
mod hex;
mod unreadable;
mod v1;
mod v2;

pub use v1::frame::{FRAME_BYTES, FrameError, Frames, STORED_FRAME_BYTES, TAG_BYTES, content_bytes, frame_count, stored_bytes};
pub use v1::header::{HEADER_BYTES, Header, HeaderError, Member};
pub use v1::header_search::{FindHeaderError, FoundHeader, find_header};
pub use v1::key_export::{DamagedKeyExport, KeyExport, KeyExportError, KeyExportWriter, read_damaged_key_export, read_key_export};
pub use v1::keys::{KeyTextError, MasterKey, ObjectKey, WrappedKey, WrongKey};
pub use v1::record::{
    RECORD_BYTES_MAX, RecordError, decode_attributes, decode_record, encode_attributes, encode_record, record_bytes_at_most,
};
pub use v1::sealed_export::{SALT_BYTES, ScryptCost, SealedExportError, seal_version_1};
pub use v1::segment::{HEAD_BYTES, RecordHead, RecordKind, SegmentError, SegmentHead};
pub use v1::segment_scan::{SegmentScan, scan_segment};
pub use v1::table::{Entry, Shard, TABLE_HEAD_BYTES, TableEnd, TableError, TableReader, TableWriter};
pub use v2::sealed_export::{SealedExportReader, SealedExportWriter, is_sealed_export};

/// The format version that is written, and the highest that is read. Sealed key exports alone have
/// version 2.
pub const FORMAT_VERSION: u32 = 1;
