//! OCFL objects and storage roots in local folders: reading, validating and writing.
//!
//! ```text
//! StorageRoot -- objects() --> Object -- inventory() --> Inventory -- files() --> ContentFile
//!      |
//!      '-- create_object(), new_version() --> VersionWriter -- commit() --> the next Inventory
//!
//! validate_root(), validate_object() --> reports of Findings, each with a Code of the specification
//! ```
//!
//! A storage root is a folder with objects below it; its [`Layout`] says where. An object has
//! versions, and an [`Inventory`] that connects logical paths, digests and content files. Content
//! that several versions share is stored once.
//!
//! Everything in a storage root is taken for hostile: links aren't followed, content paths stay in
//! their object, and memory depends on the largest inventory and folder only, with a limit for
//! inventories ([`INVENTORY_BYTES_MAX`]). What can't be read is never reported as corrupt.
//!
//! Source: Oxford Common File Layout 1.0 and 1.1, their validation codes, and the community's
//! extensions 0002 to 0004, 0006, 0007 and 0009.
#![forbid(unsafe_code)]

mod findings;
mod folder;
mod inventory;
mod json;
mod layout;
mod moment;
mod object;
mod paths;
mod problem;
mod report;
mod root;
mod spec;
mod validate;
mod walk;
mod write;

pub use findings::{Finding, Findings};
pub use folder::ReadFault;
pub use inventory::{ContentFile, InvalidInventory, Inventory, Scope, User, Version};
pub use layout::{Layout, LayoutError, Tuples};
pub use moment::{MomentFault, check_moment};
pub use object::{Object, ObjectError};
pub use paths::{PathFault, check_path};
pub use problem::{Code, Excerpt, Key, Problem};
pub use report::{INVENTORY_BYTES_MAX, Report, Unreadable, ValidateOptions, Verdict};
pub use root::{RootError, StorageRoot};
pub use spec::{INVENTORY, SpecVersion, VersionName};
pub use validate::{RootReport, validate_object, validate_root};
pub use write::{Added, Committed, LOGICAL_PATH_BYTES_MAX, ObjectOptions, VersionInfo, VersionWriter, WriteError};
