//! OCFL objects and storage roots in local folders: reading, validating and writing.
//!
//! An [`Inventory`] says what an object contains.
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
