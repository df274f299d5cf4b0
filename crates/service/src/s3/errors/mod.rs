//! Maps failures to S3 error codes. Internal errors are logged in full; clients get no details.

pub(crate) mod answers;
mod refusals;

use std::sync::{Arc, Mutex, PoisonError};

use fulgurite_archive::IntakeError;
use fulgurite_archive::catalogue::CatalogueError;
use fulgurite_archive::object::ReadError;
use s3s::{S3Error, S3ErrorCode, s3_error};

pub(crate) use self::refusals::*;
use crate::state::StateError;

/// Request extension: the first error of a request. The framework writes errors as XML and drops
/// what else they hold, so the operations and the gate keep theirs here for the router.
#[derive(Debug, Clone, Default)]
pub(crate) struct FirstError(Arc<Mutex<Option<S3Error>>>);

impl FirstError {
    pub(crate) fn of(extensions: &http::Extensions) -> Self {
        extensions.get().cloned().unwrap_or_default()
    }

    /// Keeps the error if it is the first one. Returns an error for the framework, with the same
    /// code, status and message.
    pub(crate) fn keep(&self, error: S3Error) -> S3Error {
        let mut for_framework = S3Error::with_message(error.code().clone(), error.message().unwrap_or_default().to_owned());
        if let Some(status) = error.status_code() {
            for_framework.set_status_code(status);
        }
        // A poisoned lock is usable: the value is set in one step.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        for_framework
    }

    pub(crate) fn take(&self) -> Option<S3Error> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Further elements in the body of an error, such as the key that doesn't exist. They are the
/// source of the error.
#[derive(Debug, thiserror::Error)]
#[error("{0:?}")]
pub(crate) struct Details(pub(crate) Vec<(&'static str, String)>);

/// Adds elements to the body of an error.
pub(crate) fn detailed(mut error: S3Error, details: &[(&'static str, &str)]) -> S3Error {
    error.set_source(Box::new(Details(details.iter().map(|(name, value)| (*name, (*value).to_owned())).collect())));
    error
}

/// Retry-After for what needs an operator, such as unreadable disks.
const OPERATOR_RETRY_S: u32 = 60;

/// Retry-After while the server shuts down: about as long as a restart takes.
const SHUTTING_DOWN_RETRY_S: u32 = 5;

/// An error code that the framework doesn't define.
pub(crate) fn custom(code: &'static str, status: http::StatusCode, message: &'static str) -> S3Error {
    let mut error = S3Error::with_message(S3ErrorCode::Custom(code.into()), message);
    error.set_status_code(status);
    error
}

/// A setting of a bucket (`what`, such as "CORS configuration") is stored in an unreadable form.
pub(crate) fn unreadable_setting(what: &str) -> S3Error {
    s3_error!(InternalError, "The bucket's {what} is stored in a form that can't be read. Put it again, or delete it.")
}

/// An internal failure: logged in full, and reported to the client without details.
pub(crate) fn failed(what: &str, error: &dyn std::error::Error) -> S3Error {
    tracing::error!(%error, "{what} failed");
    internal()
}

/// For `map_err`: reports an internal failure of `what`.
pub(crate) fn internal_error<E: std::error::Error>(what: &'static str) -> impl FnOnce(E) -> S3Error {
    move |error| failed(what, &error)
}

/// The client's view of an internal failure.
pub(crate) fn internal() -> S3Error {
    s3_error!(InternalError, "Internal error; see the server's log. Try again.")
}

/// An object can't be read. If its disks are only out of reach, the client is asked to retry.
pub(crate) fn read_failed(what: &str, error: &ReadError) -> S3Error {
    let Some(hindrance) = error.hindrance() else { return failed(what, error) };
    tracing::warn!(%error, %hindrance, "{what} failed for now");
    unavailable("The disks of this object can't be read now. No data is known to be lost. Try again later.", OPERATOR_RETRY_S)
}

/// The request can't be served until something has changed.
fn unavailable(message: &'static str, retry_s: u32) -> S3Error {
    let mut answer = S3Error::with_message(S3ErrorCode::ServiceUnavailable, message);
    let mut headers = http::HeaderMap::new();
    headers.insert("retry-after", retry_s.into());
    answer.set_headers(headers);
    answer
}

pub(crate) fn state_failed(error: StateError) -> S3Error {
    if let StateError::Displaced(_) = error {
        tracing::error!(%error, "a change was refused");
        return unavailable("The server's own database can't be changed until the server is restarted. Try again later.", OPERATOR_RETRY_S);
    }
    failed("the service's own database", &error)
}

pub(crate) fn catalogue_failed(error: CatalogueError) -> S3Error {
    failed("the catalogue", &error)
}

/// A put or removal failed. A full disk is reported as `SlowDown`, so that clients wait.
pub(crate) fn not_acknowledged(error: IntakeError) -> S3Error {
    let full = matches!(&error, IntakeError::Archive(cause) if is_full(cause));
    if full {
        tracing::warn!(%error, "staging is full");
        return slow_down();
    }
    if matches!(error, IntakeError::Closed) {
        return shutting_down();
    }
    failed("a commit", &error)
}

/// The intake has ended, so the server is about to. Nothing of the request was carried out.
fn shutting_down() -> S3Error {
    unavailable("The server is shutting down. Try again.", SHUTTING_DOWN_RETRY_S)
}

fn is_full(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::StorageFull) {
            return true;
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_intake_that_has_ended_is_a_server_that_shuts_down() {
        let answer = not_acknowledged(IntakeError::Closed);
        assert_eq!(answer.code(), &S3ErrorCode::ServiceUnavailable);
        assert!(answer.headers().is_some_and(|headers| headers.contains_key("retry-after")));
        assert_eq!(not_acknowledged(IntakeError::GivenUp).code(), &S3ErrorCode::InternalError);
    }
}
