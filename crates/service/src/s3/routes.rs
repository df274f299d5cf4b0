//! Requests that `s3s` hands over after it has checked the signature: bulk gets, which S3 lacks,
//! and requests that [`Between`] normalizes.

use async_trait::async_trait;
use http::{Extensions, HeaderMap, Method, Uri};
use s3s::route::S3Route;
use s3s::{Body, S3Request, S3Response, S3Result};

use crate::s3::bulk_get::Retrieve;
use crate::s3::normalize::Between;

/// Combines both routes, since the framework takes only one.
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
        // Each route checks access itself: bulk gets per object, the others in the gate before the
        // operations.
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
