//! What the framework hands over once it has checked a signature: batches, which S3 has no operation for, and requests that [`Between`] mends.

use async_trait::async_trait;
use http::{Extensions, HeaderMap, Method, Uri};
use s3s::route::S3Route;
use s3s::{Body, S3Request, S3Response, S3Result};

use crate::s3::bulk_get::Retrieve;
use crate::s3::normalize::Between;

/// Both, for the framework takes one.
pub(crate) struct Routes {
    pub(crate) retrieve: Retrieve,
    pub(crate) between: Between,
}

#[async_trait]
impl S3Route for Routes {
    fn is_match(&self, method: &Method, uri: &Uri, headers: &HeaderMap, _: &mut Extensions) -> bool {
        self.retrieve.is_match(method, uri, headers) || self.between.is_match(method, uri, headers)
    }

    async fn check_access(&self, _: &mut S3Request<Body>) -> S3Result<()> {
        // Each decides for itself: batches by object, the others by the gate in front of the operations.
        Ok(())
    }

    async fn call(&self, request: S3Request<Body>) -> S3Result<S3Response<Body>> {
        if self.retrieve.is_match(&request.method, &request.uri, &request.headers) {
            self.retrieve.call(request).await
        } else {
            self.between.call(request).await
        }
    }
}
