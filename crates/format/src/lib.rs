//! The bytes of platters, staging segments and exported keys, as `docs/format.md` lays them down.
//!
//! A platter tells what it is in its [`Header`] and what it holds in its table of [`Entry`]s; each entry carries the record of an object and
//! says where the object's bytes lie, which are cut into [`Frames`]. Objects wait for their platter in segments of checked
//! records ([`RecordHead`], [`scan_segment`]). The keys of sealed objects are kept wrapped by a [`MasterKey`] and leave the archive through
//! [`KeyExportWriter`].
//!
//! Everything here turns values into bytes and back. Reading and writing goes through [`std::io::Read`], [`std::io::Write`] and closures
//! handed in; chance (keys, salts) is handed in too. Parsers take any bytes whatsoever: they answer with an error, in bounded memory.

mod cbor;
mod hex;
mod v1;
mod v2;

pub use v1::frame::{FRAME_BYTES, FrameError, Frames, STORED_FRAME_BYTES, TAG_BYTES, content_bytes, frame_count, stored_bytes};
pub use v1::header::{HEADER_BYTES, Header, HeaderError, Member};
pub use v1::header_search::{FindHeaderError, FoundHeader, find_header};
pub use v1::key_export::{KeyExport, KeyExportError, KeyExportWriter, read_damaged_key_export, read_key_export};
pub use v1::keys::{KeyTextError, MasterKey, ObjectKey, WrappedKey, WrongKey};
pub use v1::record::{RECORD_BYTES_MAX, RecordError, decode_attributes, decode_record, encode_attributes, encode_record};
pub use v1::sealed_export::{SALT_BYTES, ScryptCost, SealedExportError, seal_version_1};
pub use v1::segment::{HEAD_BYTES, RecordHead, RecordKind, SegmentError, SegmentHead};
pub use v1::segment_scan::{SegmentScan, scan_segment};
pub use v1::table::{Entry, Shard, TABLE_HEAD_BYTES, TableEnd, TableError, TableReader, TableWriter};
pub use v2::sealed_export::{SealedExportReader, SealedExportWriter, is_sealed_export};

/// The version of the format that is written, and the highest that is read; but for sealed key exports, which have version 2.
pub const FORMAT_VERSION: u32 = 1;
