//! Readiness: whether the server can do its work, as `/-/ready` reports it.
//!
//! Each part of the server reports its own condition under a topic. The endpoint only reads what
//! was reported, so a probe costs nothing and can't hang on a disk. Reasons are shown to any client
//! that can reach the server: they name stores and counts, never paths or objects.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use http::{Response, StatusCode};

/// The reasons why the server is not ready, by topic.
#[derive(Debug, Default)]
pub(crate) struct Readiness(Mutex<BTreeMap<&'static str, String>>);

impl Readiness {
    /// Sets the reason of `topic`, or clears it with `None`. A change is logged.
    pub(crate) fn report(&self, topic: &'static str, reason: Option<String>) {
        let mut reasons = self.lock();
        match reason {
            Some(reason) => {
                let before = reasons.insert(topic, reason.clone());
                if before.as_ref() != Some(&reason) {
                    drop(reasons);
                    tracing::warn!(topic, reason, "not ready");
                }
            }
            None => {
                if reasons.remove(topic).is_some() {
                    drop(reasons);
                    tracing::info!(topic, "ready again");
                }
            }
        }
    }

    /// All reasons, ordered by topic. The server is ready if there is none.
    pub(crate) fn reasons(&self) -> Vec<String> {
        self.lock().values().cloned().collect()
    }

    /// Answers a probe of a live server: 200, or 503 with one reason per line.
    pub(crate) fn response(&self) -> Response<s3s::Body> {
        let reasons = self.reasons();
        if reasons.is_empty() {
            return Response::new(s3s::Body::from("ok\n".to_owned()));
        }
        let mut response = Response::new(s3s::Body::from(format!("not ready\n{}\n", reasons.join("\n"))));
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        response
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, String>> {
        // Each change is a single insertion or removal, so a panic elsewhere leaves the map whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_is_ready_only_when_every_topic_is() {
        let readiness = Readiness::default();
        assert_eq!(readiness.response().status(), StatusCode::OK);
        readiness.report("staging", Some("staging is full".to_owned()));
        readiness.report("stores", Some("1 of 3 stores is usable".to_owned()));
        assert_eq!(readiness.response().status(), StatusCode::SERVICE_UNAVAILABLE);
        readiness.report("stores", None);
        assert_eq!(readiness.reasons(), ["staging is full"]);
        readiness.report("staging", None);
        assert_eq!(readiness.response().status(), StatusCode::OK);
    }
}
