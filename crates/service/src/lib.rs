//! The archive over S3: what today's clients speak, on the framework `s3s`.
//!
//! ```text
//! client -> server -> signatures -> s3s: signatures, XML -> between -> access -> s3::* -> Gateway --> Intake (staging, catalogue)
//!                                    '-> routes: s3::retrieve ---------------------------^  |  |
//!                                                                                           |  '--> State: buckets, accounts, uploads in parts, restores
//!                                                                                           '-----> ObjectReader (staging or platters)
//! a browser's form: server -> signatures -> forms: fields, signature, policy -> access -> s3::put
//! background: restores, expiry, sweeping, copies of State into the archive, flushing to platters
//! ```

mod access;
mod address;
mod background;
mod between;
mod buffers;
mod caller;
mod checksums;
mod chunks;
mod conditions;
mod connections;
pub mod control;
mod copying;
mod cors;
mod encryption;
mod errors;
mod failures;
mod flushing;
pub mod folders;
mod forms;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod gateway;
mod hashing;
mod lingering;
mod liveness;
pub mod locks;
pub mod memory;
mod metrics;
mod names;
mod outgoing;
mod parts;
mod patience;
mod policy;
mod readiness;
mod receive;
mod room;
mod router;
mod routes;
mod s3;
#[cfg(test)]
mod sample;
mod scrubbing;
pub mod server;
pub mod settings;
mod signatures;
pub mod state;
mod stores;
mod tags;
mod tar;
pub mod tls;
mod unsigned;
mod version;
mod watched;

pub use gateway::Gateway;
