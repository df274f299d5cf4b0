//! The public access block of a bucket. ACLs never grant public access here, so only policies are
//! affected.

use s3s::dto::{self, PublicAccessBlockConfiguration};
use s3s::{S3Request, S3Response};

use crate::s3::Answer;
use crate::s3::errors::custom;
use crate::s3::namespace::Namespace;
use crate::state::PublicAccess;

impl Namespace {
    pub(crate) fn get_public_access(&self, request: S3Request<dto::GetPublicAccessBlockInput>) -> Answer<dto::GetPublicAccessBlockOutput> {
        let Some(access) = self.bucket(&request.input.bucket)?.public_access else {
            let message = "The public access block configuration was not found";
            return Err(custom("NoSuchPublicAccessBlockConfiguration", http::StatusCode::NOT_FOUND, message));
        };
        let configuration = PublicAccessBlockConfiguration {
            block_public_acls: Some(access.block_acls),
            ignore_public_acls: Some(access.ignore_acls),
            block_public_policy: Some(access.block_policy),
            restrict_public_buckets: Some(access.restrict_buckets),
        };
        Ok(S3Response::new(dto::GetPublicAccessBlockOutput { public_access_block_configuration: Some(configuration) }))
    }

    pub(crate) fn put_public_access(&self, request: S3Request<dto::PutPublicAccessBlockInput>) -> Answer<dto::PutPublicAccessBlockOutput> {
        let input = request.input;
        let given = input.public_access_block_configuration;
        let access = PublicAccess {
            block_acls: given.block_public_acls.unwrap_or(false),
            ignore_acls: given.ignore_public_acls.unwrap_or(false),
            block_policy: given.block_public_policy.unwrap_or(false),
            restrict_buckets: given.restrict_public_buckets.unwrap_or(false),
        };
        self.change(&request.extensions, &input.bucket, |bucket| {
            bucket.public_access = Some(access);
            Ok(())
        })?;
        Ok(S3Response::new(dto::PutPublicAccessBlockOutput {}))
    }

    pub(crate) fn delete_public_access(
        &self,
        request: S3Request<dto::DeletePublicAccessBlockInput>,
    ) -> Answer<dto::DeletePublicAccessBlockOutput> {
        self.change(&request.extensions, &request.input.bucket, |bucket| {
            bucket.public_access = None;
            Ok(())
        })?;
        Ok(S3Response::with_status(dto::DeletePublicAccessBlockOutput {}, http::StatusCode::NO_CONTENT))
    }
}
