//! Health of the server: liveness, readiness, usable stores, and metrics for Prometheus.

pub(crate) mod liveness;
pub(crate) mod metrics;
pub(crate) mod readiness;
pub(crate) mod scrubbed;
pub(crate) mod stores;
