//! Retrieves long lists of objects from a server, in the order in which the archive reads them
//! fastest.
//!
//! ```text
//! list ---> order: the server says where each object is; sorted in runs, runs merged
//!             |
//!           parts: up to so many objects or bytes ---> part: a bulk get -> a tar archive
//!                                                                      '-> a Parquet file
//! ```
//!
//! A [`Retrieval`] keeps its progress in its folder and can be killed at any time: a part has its
//! name only once it is complete and on disk, and the next run goes on with those that are missing.
//! One bulk get of the server takes up to 100,000 objects (docs/s3.md); failed objects are
//! listed in a file beside the part. [`Bulk`] gets shorter lists into memory.

#![forbid(unsafe_code)]

mod bulk;
mod cut_off;
mod exchange;
mod files;
mod job;
mod list;
mod order;
mod part;
mod rows;
mod tar_part;
mod upload;

pub use fulgurite_client::Requested;

pub use bulk::{Arrived, Bulk, OBJECTS_MAX, Position};
pub use exchange::{ExchangeError, OnRetry};
pub use files::FileError;
pub use job::{Format, Progress, Retrieval, RetrievalError, Settings, Summary};
pub use list::ListError;
pub use upload::Destination;
