//! The archive over S3: what today's clients speak, on the framework `s3s`.
//!
//! ```text
//! client -> server -> signatures -> s3s: signatures, XML -> between -> access -> s3::* -> Gateway --> Intake (staging, catalogue)
//!                                    '-> routes: s3::retrieve ---------------------------^  |  |
//!                                                                                           |  '--> State: buckets, accounts, uploads in parts, restores
//!                                                                                           '-----> ObjectReader (staging or platters)
//! background: restores, expiry, sweeping, flushing to platters
//! ```

mod access;
mod background;
mod between;
mod checksums;
mod conditions;
mod errors;
mod failures;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod gateway;
mod metrics;
mod names;
mod parts;
mod policy;
mod receive;
mod routes;
mod s3;
pub mod server;
pub mod settings;
mod signatures;
pub mod state;
mod tags;
mod tar;
pub mod tls;
mod version;
mod watched;

pub use gateway::Gateway;
