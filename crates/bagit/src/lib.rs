//! BagIt bags in local folders: reading, validating, writing.
//!
//! A [`Bag`] is a folder with a payload, `data/`, and *manifests* that list the digest of every
//! file in it. [`validate()`] matches manifests and folder and reads each file once, however many
//! manifests list it. The result is a [`Report`] of *findings*: errors, and warnings about what
//! other software could read differently. [`Profile`] checks a bag against an agreement between
//! sender and receiver, and [`BagWriter`] writes bags.
//!
//! ```text
//! bag/
//!   bagit.txt                 version, encoding of the tag files
//!   bag-info.txt              metadata: labels and values
//!   manifest-sha512.txt       digest and path of every file in data/
//!   tagmanifest-sha512.txt    the same for the files beside data/
//!   fetch.txt                 payload files that are still to be downloaded
//!   data/…                    the payload
//! ```
//!
//! Memory doesn't grow with the number of files: paths are sorted in a buffer of a chosen size, and
//! in temporary files beyond it. Links are never followed, and no path of a manifest is opened
//! unless a walk through the folder has found a regular file there.
//!
//! Source: RFC 8493 (BagIt 1.0); draft-kunze-bagit-02 to -14 for 0.93 to 0.97.
#![forbid(unsafe_code)]

mod bag;
mod declaration;
mod encoding;
mod finding;
mod folder;
mod info;
mod manifest;
mod matching;
mod path;
pub mod profile;
mod sort;
mod validate;
mod write;

pub use bag::{Bag, BagError, Depth, FetchEntry, Inventory, InventoryEntry, Options};
pub use declaration::Version;
pub use encoding::Encoding;
pub use finding::{Finding, PathRefusal, Place, Problem, Report, Severity, Verdict};
pub use info::{BagInfo, FieldError};
pub use manifest::{Manifest, Scope};
pub use profile::Profile;
pub use validate::validate;
pub use write::{BagWriter, WriteError, WriteOptions, Written, check_payload_path, check_tag_path};
