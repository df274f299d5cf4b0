//! Serves an archive over S3, with the framework `s3s`.
//!
//! ```text
//! client -> server -> http::router -> auth::signatures -> s3s (signatures, XML) -> s3::normalize
//!                                                               |
//!        s3::* (an operation each) <---- auth::access <---------'
//!          |
//!          |--> s3::namespace: buckets and versions, from the catalogue and State (service.db)
//!          '--> Gateway --> transfer::upload   --> Intake (staging, catalogue)
//!                       --> transfer::download <-- ObjectReader (staging or platters)
//!
//! browser forms: server -> http::router -> s3::post_object -> auth::access -> s3::put
//! bulk get:      s3::framework -> s3::bulk_get
//! bulk put:      s3::framework -> s3::bulk_put -> auth::access -> s3::put, many at once
//! dashboard:     http::router -> dashboard
//! background:    jobs: restores, expiry, lifecycle rules, sweeping, scrubbing, flushing, backups of State
//! library:       restores by shuttles and drives
//! health:        probes, metrics, what clients did lately, the last events of the log
//! traces:        restores, as OpenTelemetry has them
//! ```

#![forbid(unsafe_code)]

mod auth;
mod command_lock;
pub mod control;
mod dashboard;
pub mod fixity;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod gateway;
mod health;
mod http;
mod jobs;
pub mod library;
mod lifecycle;
pub mod memory;
pub mod object_lock;
mod s3;
pub mod server;
pub mod settings;
pub mod state;
#[cfg(test)]
mod test_gateway;
mod traces;
mod transfer;
mod turns;
pub mod unclaimed_folders;

pub use health::events::{EventLog, LoggedEvent};
