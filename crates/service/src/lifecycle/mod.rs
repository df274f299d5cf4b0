//! Lifecycle rules of buckets: what they say, and which versions they apply to.
//!
//! Nothing here removes anything. [`crate::s3::lifecycle`] sets the rules,
//! [`crate::jobs::lifecycle`] carries them out, and so does a put into a bucket with a rule that
//! limits the number of versions.

mod due;
mod rules;

pub(crate) use self::due::{Due, VersionPlace};
pub(crate) use self::rules::{DAY_MS, Expiration, Filter, Noncurrent, Rule, Rules, due_ms};
