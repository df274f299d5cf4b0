//! The framework s3s and the path of a request through it.
//!
//! ```text
//! request -> verifier: signature, chunks -> normalize: headers, URL, body -> operations: access, XML, operation
//!                                    |                                                 ^
//!                                    '--> bulk get or bulk put, which S3 lacks --puts---'
//! ```
//!
//! The framework parses headers right after it checked their signature, and rejects values that S3
//! ignores. Signed headers can't be changed before that check, so it runs in two instances that
//! share its work: the verifier has the keys and hands on every request, the operations have no
//! keys and take the caller from [`Signed`]. A request passes each once, with three exceptions:
//! bulk gets end after the verifier, a bulk put becomes many puts for the operations, and browser
//! forms, which have their signature in a field, go to the operations directly.

use std::sync::Arc;

use async_trait::async_trait;
use http::{Extensions, HeaderMap, Method, Request, Response, StatusCode, Uri, header};
use s3s::auth::{S3Auth, SecretKey};
use s3s::config::{S3Config, StaticConfigProvider};
use s3s::route::S3Route;
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::{Body, HttpError, S3, S3Error, S3Request, S3Response, S3Result, StdError, s3_error};

use crate::auth::access::{Gate, SecretKeys};
use crate::auth::caller::Signed;
use crate::gateway::Gateway;
use crate::http::addressing::{Addresses, Domain};
use crate::s3::Operations;
use crate::s3::bulk_request::{BulkKind, BulkRequests};
use crate::s3::errors::{FirstError, custom, failed};
use crate::s3::normalize::normalize;
use crate::s3::object_names::BucketNames;
use crate::s3::xml_body::XML_BYTES_MAX;
use crate::s3::{bulk_get, bulk_put, query_parameters};
use crate::transfer::checksums::BodyTrailers;
use crate::transfer::upload::incomplete;

/// The framework's two instances.
#[derive(Clone)]
pub(crate) struct Framework {
    verifier: S3Service,
    operations: OperationsService,
}

impl Framework {
    /// `domain` is the domain whose subdomains address buckets.
    pub(crate) fn new(gateway: &Arc<Gateway>, domain: Option<&Domain>, addresses: &Arc<Addresses>) -> Self {
        let mut operations = configured(Operations(gateway.clone()), domain);
        // Without a source of keys the framework skips the gate.
        operations.set_auth(NoKeys);
        operations.set_access(Gate(gateway.namespace.clone()));
        let operations = OperationsService(operations.build());
        let mut verifier = configured(NoOperations, domain);
        verifier.set_auth(SecretKeys(gateway.state.clone()));
        let bulk_requests = BulkRequests { gateway: gateway.clone(), addresses: addresses.clone() };
        verifier.set_route(AfterSignature { bulk_requests, operations: operations.clone() });
        Self { verifier: verifier.build(), operations }
    }

    /// Checks the signature of a request and carries it out.
    ///
    /// # Errors
    /// A failure of the framework. Errors of S3 are responses.
    pub(crate) async fn call(&self, request: Request<Body>) -> Result<Response<Body>, String> {
        self.verifier.call(request).await.map_err(|error| format!("{error:?}"))
    }

    /// The operations, for requests whose caller is known by another signature.
    pub(crate) fn operations(&self) -> &OperationsService {
        &self.operations
    }
}

/// Carries out operations of callers whose signatures were checked.
#[derive(Clone)]
pub(crate) struct OperationsService(S3Service);

impl OperationsService {
    /// Carries out a normalized request of a caller.
    ///
    /// # Errors
    /// An internal error if the framework fails. Errors of S3 are responses.
    pub(crate) async fn call_as(&self, caller: Signed, mut request: Request<Body>) -> S3Result<Response<Body>> {
        request.extensions_mut().insert(caller);
        self.0.call(request).await.map_err(framework_failed)
    }
}

fn configured(operations: impl S3, domain: Option<&Domain>) -> S3ServiceBuilder {
    let mut builder = S3ServiceBuilder::new(operations);
    builder.set_validation(BucketNames);
    let mut config = S3Config::default();
    config.xml_max_body_size = XML_BYTES_MAX as usize;
    builder.set_config(Arc::new(StaticConfigProvider::new(Arc::new(config))));
    if let Some(domain) = domain {
        builder.set_host(domain.clone());
    }
    builder
}

/// The client's view of a failure of the framework, which is logged.
fn framework_failed(error: HttpError) -> S3Error {
    let error: StdError = error.into();
    failed("the framework", &*error)
}

/// The verifier carries out no operation: it hands on every request.
struct NoOperations;

impl S3 for NoOperations {}

/// The operations have no keys: signatures were checked and removed before.
struct NoKeys;

#[async_trait]
impl S3Auth for NoKeys {
    async fn get_secret_key(&self, _: &str) -> S3Result<SecretKey> {
        Err(s3_error!(AccessDenied))
    }
}

/// Hands on requests whose signature was checked: to bulk get, bulk put or the operations.
struct AfterSignature {
    bulk_requests: BulkRequests,
    operations: OperationsService,
}

impl AfterSignature {
    async fn forward(&self, mut request: S3Request<Body>) -> S3Result<S3Response<Body>> {
        let is_bulk = |kind: BulkKind| kind.is_match(&request.method, &request.uri, &request.headers);
        if is_bulk(bulk_get::KIND) {
            query_parameters::check_extension(&request.uri, &bulk_get::PARAMETERS)?;
            return bulk_get::call(&self.bulk_requests, request).await;
        }
        if is_bulk(bulk_put::KIND) {
            query_parameters::check_extension(&request.uri, &bulk_put::PARAMETERS)?;
            return bulk_put::call(&self.bulk_requests, &self.operations, request).await;
        }
        query_parameters::check(&request.method, &request.uri, &request.headers, &self.bulk_requests.addresses)?;
        // The framework drops the trailers when a request is handed on.
        let trailers = BodyTrailers::of(&request);
        request.extensions.insert(trailers);
        normalize(&mut request, &self.bulk_requests.addresses)?;
        request.headers.remove(header::AUTHORIZATION);
        let mut inner = Request::new(request.input);
        *inner.method_mut() = request.method;
        *inner.uri_mut() = request.uri;
        *inner.headers_mut() = request.headers;
        *inner.extensions_mut() = request.extensions;
        let caller = Signed(request.credentials.map(|credentials| credentials.access_key));
        let (head, body) = self.operations.call_as(caller, inner).await?.into_parts();
        let mut response = S3Response::with_status(body, head.status);
        response.headers = head.headers;
        response.extensions = head.extensions;
        Ok(response)
    }
}

#[async_trait]
impl S3Route for AfterSignature {
    fn is_match(&self, _: &Method, _: &Uri, _: &HeaderMap, _: &mut Extensions) -> bool {
        true
    }

    async fn check_access(&self, _: &mut S3Request<Body>) -> S3Result<()> {
        // Bulk gets check access to each object. All other requests, and the puts of a bulk put,
        // pass the gate before the operations.
        Ok(())
    }

    async fn call(&self, request: S3Request<Body>) -> S3Result<S3Response<Body>> {
        let first_error = FirstError::of(&request.extensions);
        self.forward(request).await.map_err(|error| first_error.keep(error))
    }
}

/// The S3 error for a body that can't be read. The framework checks chunk signatures and digests
/// while the body is read. Its error types are private, so their texts are all that tells them
/// apart.
pub(crate) fn stream_error(error: StdError) -> S3Error {
    let error = match error.downcast::<S3Error>() {
        Ok(error) => return *error,
        Err(error) => error.to_string(),
    };
    tracing::debug!(error, "can't read a request body");
    if error.contains("SignatureMismatch") {
        s3_error!(SignatureDoesNotMatch, "The signature of a chunk does not match.")
    } else if error.contains("ChunkTooLarge") {
        custom("InvalidChunkSizeError", StatusCode::BAD_REQUEST, "A signed chunk must not be larger than 4 MiB.")
    } else if error.contains("Sha256Mismatch") {
        let message = "The provided 'x-amz-content-sha256' header does not match what was computed.";
        custom("XAmzContentSHA256Mismatch", StatusCode::BAD_REQUEST, message)
    } else {
        incomplete()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_of_the_framework_gives_clients_no_details() {
        let error = framework_failed(HttpError::new("the secret is at /srv/archive".into()));
        assert_eq!(error.code(), &s3s::S3ErrorCode::InternalError);
        assert!(!format!("{error:?}").contains("secret"), "{error:?}");
    }
}
