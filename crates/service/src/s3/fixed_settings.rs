//! Fixed settings of every bucket, which clients can read but not change: encryption, requester
//! pays, and the absence of logging, notifications, websites and so on. Tools that manage
//! buckets query all of them; S3's response for "none" keeps them from failing.

use s3s::dto::{
    self, Payer, ServerSideEncryption, ServerSideEncryptionByDefault, ServerSideEncryptionConfiguration, ServerSideEncryptionRule,
};
use s3s::{S3Error, S3Request, S3Response, s3_error};

use crate::s3::Answer;
use crate::s3::errors::{custom, malformed_xml};
use crate::s3::namespace::Namespace;

impl Namespace {
    /// `AES256` is S3's name for AES-256 with server-side keys. An unencrypted archive has no such
    /// configuration.
    pub(crate) fn get_encryption(&self, request: S3Request<dto::GetBucketEncryptionInput>) -> Answer<dto::GetBucketEncryptionOutput> {
        self.bucket(&request.input.bucket)?;
        if !self.archive.settings().archive.encrypt {
            return Err(not_found(
                "ServerSideEncryptionConfigurationNotFoundError",
                "The server side encryption configuration was not found: this archive stores objects unencrypted",
            ));
        }
        let sse_algorithm = ServerSideEncryption::from_static(ServerSideEncryption::AES256);
        let rule = ServerSideEncryptionRule {
            apply_server_side_encryption_by_default: Some(ServerSideEncryptionByDefault { kms_master_key_id: None, sse_algorithm }),
            bucket_key_enabled: Some(false),
        };
        let configuration = ServerSideEncryptionConfiguration { rules: vec![rule] };
        Ok(S3Response::new(dto::GetBucketEncryptionOutput { server_side_encryption_configuration: Some(configuration) }))
    }

    /// Accepts only the encryption that is already in effect.
    pub(crate) fn put_encryption(&self, request: S3Request<dto::PutBucketEncryptionInput>) -> Answer<dto::PutBucketEncryptionOutput> {
        let input = request.input;
        self.bucket(&input.bucket)?;
        let wanted: Vec<_> = input
            .server_side_encryption_configuration
            .rules
            .into_iter()
            .map(|rule| rule.apply_server_side_encryption_by_default.map(|by| (by.sse_algorithm, by.kms_master_key_id)))
            .collect();
        let [Some((algorithm, key))] = wanted.as_slice() else {
            return Err(malformed_xml());
        };
        if algorithm.as_str() != ServerSideEncryption::AES256 || key.is_some() || !self.archive.settings().archive.encrypt {
            return Err(s3_error!(
                NotImplemented,
                "Encryption is a setting of the archive, not of a bucket: each object is encrypted with AES-256 under its own key, or none is."
            ));
        }
        Ok(S3Response::new(dto::PutBucketEncryptionOutput {}))
    }

    /// Resets the encryption to the default, as in AWS. It is always in effect, so nothing changes.
    pub(crate) fn delete_encryption(
        &self,
        request: S3Request<dto::DeleteBucketEncryptionInput>,
    ) -> Answer<dto::DeleteBucketEncryptionOutput> {
        self.bucket(&request.input.bucket)?;
        Ok(S3Response::with_status(dto::DeleteBucketEncryptionOutput {}, http::StatusCode::NO_CONTENT))
    }
}

/// Operations that read a setting which is the same for every bucket.
macro_rules! same_for_all {
    ($($method:ident($input:ident) -> $output:ident: $answer:expr;)*) => {
        impl Namespace {
            $(pub(crate) fn $method(&self, request: S3Request<dto::$input>) -> Answer<dto::$output> {
                self.bucket(&request.input.bucket)?;
                $answer.map(S3Response::new)
            })*
        }
    };
}

same_for_all! {
    payer(GetBucketRequestPaymentInput) -> GetBucketRequestPaymentOutput:
        Ok(dto::GetBucketRequestPaymentOutput { payer: Some(Payer::from_static(Payer::BUCKET_OWNER)) });
    logging(GetBucketLoggingInput) -> GetBucketLoggingOutput: Ok(dto::GetBucketLoggingOutput::default());
    notifications(GetBucketNotificationConfigurationInput) -> GetBucketNotificationConfigurationOutput:
        Ok(dto::GetBucketNotificationConfigurationOutput::default());
    acceleration(GetBucketAccelerateConfigurationInput) -> GetBucketAccelerateConfigurationOutput:
        Ok(dto::GetBucketAccelerateConfigurationOutput::default());
    replication(GetBucketReplicationInput) -> GetBucketReplicationOutput:
        Err(not_found("ReplicationConfigurationNotFoundError", "The replication configuration was not found"));
    website(GetBucketWebsiteInput) -> GetBucketWebsiteOutput:
        Err(not_found("NoSuchWebsiteConfiguration", "The specified bucket does not have a website configuration"));
}

fn not_found(code: &'static str, message: &'static str) -> S3Error {
    custom(code, http::StatusCode::NOT_FOUND, message)
}
