//! Runs listings on threads of their own. A page reads up to thousands of rows, and some clients
//! list all day: on the threads that serve requests, one with a hundred connections that list would
//! delay every other request, and the probes.
//!
//! Operations that look up single rows run where they are: handing them over costs more than they
//! do.

use std::sync::Arc;

use s3s::dto;
use s3s::{S3Request, S3Result};

use crate::auth::grant::Grant;
use crate::gateway::Gateway;
use crate::memory::MemoryOwner;
use crate::s3::Answer;
use crate::s3::errors::internal;
use crate::s3::namespace::Namespace;

/// How many listings run at once: more would not be faster, since they read what is in memory.
pub(crate) fn listings_at_once() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

impl Gateway {
    /// Runs a listing when it is the client's turn.
    async fn list_in_turn<I: Send + 'static, O: Send + 'static>(
        self: Arc<Self>,
        request: S3Request<I>,
        list: fn(&Namespace, S3Request<I>) -> S3Result<O>,
    ) -> S3Result<O> {
        let client = request.extensions.get().cloned().unwrap_or_else(MemoryOwner::own);
        let turn = self.listing_turns.take(&client).await;
        let gateway = self.clone();
        let listing = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            // It may have been withdrawn while the request waited.
            Grant::of(&request.extensions).and_then(|grant| grant.check(&gateway.namespace))?;
            list(&gateway.namespace, request)
        });
        listing.await.map_err(|error| {
            self.log_panic("a listing", error);
            internal()
        })?
    }

    pub(crate) async fn list(self: Arc<Self>, request: S3Request<dto::ListObjectsInput>) -> Answer<dto::ListObjectsOutput> {
        self.list_in_turn(request, Namespace::list).await
    }

    pub(crate) async fn list_v2(self: Arc<Self>, request: S3Request<dto::ListObjectsV2Input>) -> Answer<dto::ListObjectsV2Output> {
        self.list_in_turn(request, Namespace::list_v2).await
    }

    pub(crate) async fn list_versions(
        self: Arc<Self>,
        request: S3Request<dto::ListObjectVersionsInput>,
    ) -> Answer<dto::ListObjectVersionsOutput> {
        self.list_in_turn(request, Namespace::list_versions).await
    }

    pub(crate) async fn list_parts(self: Arc<Self>, request: S3Request<dto::ListPartsInput>) -> Answer<dto::ListPartsOutput> {
        self.list_in_turn(request, Namespace::list_parts).await
    }

    pub(crate) async fn list_uploads(
        self: Arc<Self>,
        request: S3Request<dto::ListMultipartUploadsInput>,
    ) -> Answer<dto::ListMultipartUploadsOutput> {
        self.list_in_turn(request, Namespace::list_uploads).await
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::test_gateway::{TestGateway, s3_request, soon};

    #[tokio::test]
    async fn a_listing_leaves_the_threads_that_serve_requests_to_others() {
        let test = TestGateway::new();
        test.put("sun", b"sun").await;
        // Holds up every listing, as a long one would.
        let mut turns = Vec::new();
        for _ in 0..listings_at_once() {
            turns.push(test.gateway.listing_turns.take(&MemoryOwner::own()).await);
        }
        let input = || dto::ListObjectsV2Input { bucket: "photos".to_owned(), ..Default::default() };
        let listing = tokio::spawn(test.gateway.clone().list_v2(s3_request(Method::GET, input())));
        // The only thread of this runtime goes on.
        test.put("moon", b"moon").await;
        assert!(!listing.is_finished());
        drop(turns);
        let listed = soon(listing).await.expect("no panic").expect("listed");
        assert_eq!(listed.output.key_count, Some(2));
        let thread = |_: &Namespace, _| Ok(std::thread::current().id());
        let listing = soon(test.gateway.clone().list_in_turn(s3_request(Method::GET, ()), thread)).await;
        assert_ne!(listing.expect("listed"), std::thread::current().id());
    }
}
