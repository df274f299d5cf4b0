//! Settings with units, defaults and ranges, read from TOML: libraries, scenarios and
//! plans.
//!
//! A [`Document`] combines a file, the files it is based on, and settings from the command line.
//! The program asks a [`Reader`] for one setting after another, and the reader records each as it
//! is asked for. One line of code per setting therefore reads it, checks it, documents it and
//! prints it with every result; none of the four can be forgotten.
//!
//! ```text
//!  typical.toml  slow.toml  --set ...    drives.setting("throughput", rate(..), "60 MB/s", "...")
//!        |           |         |                          |
//!        +-----------+---------+---> Document ---> Reader +---> the value, or a stand-in and an error
//!                                                         +---> reference()  a page of Markdown
//!                                                         +---> finish()     the complete file, or
//!                                                                            all errors by line
//! ```
//!
//! ```
//! use fulgurite_settings::{Document, Reader, setting_type::{count, duration, rate}};
//!
//! let text = "[drives]\nthroughput = \"120 MB/s\"\n\n[[faults]]\nat = \"3 h\"\n";
//! let mut reader = Reader::new(Document::parse("fast.toml", text)?);
//! let mut drives = reader.section("drives", "The read drives.");
//! let count: u16 = drives.setting("count", count(1..=20), "20", "Number of drives.");
//! let allowed = rate("1 MB/s"..="1 GB/s");
//! let throughput = drives.setting("throughput", allowed, "60 MB/s", "Throughput of a drive.");
//! let faults = reader.tables("faults", "Planned faults.", |fault| {
//!     fault.required("at", duration(..), "Instant, from the start of the run.")
//! });
//! let complete = reader.finish()?;
//!
//! assert_eq!((count, throughput, faults[0].seconds()), (20, 120e6, 10_800.0));
//! let drives = "[drives]\ncount = 20\nthroughput = \"120 MB/s\"\n";
//! assert_eq!(complete, format!("{drives}\n[[faults]]\nat = \"3 h\"\n"));
//! # Ok::<(), fulgurite_settings::SettingErrors>(())
//! ```

#![forbid(unsafe_code)]

mod canonical;
mod decimal;
mod document;
mod error;
mod place;
pub mod quantity;
mod reader;
mod schema;
mod section;
pub mod setting_type;
mod suggest;
mod tree;
mod vary;

#[cfg(test)]
mod tests;

pub use document::{Document, Loader, Override, read_file};
pub use error::{EntryKind, Problem, SettingError, SettingErrors};
pub use place::SourceSpan;
pub use quantity::{Dimension, QuantityError};
pub use reader::Reader;
pub use section::Section;
pub use vary::{Axis, Sweep};
