//! Server-side encryption: what requests ask for, and what responses report.
//!
//! An encrypted archive seals every object with AES-256 under its own key, whatever the client asks
//! for; S3 calls that `AES256`. Customer keys and KMS keys are refused: ignoring them would store
//! an object without the encryption its client asked for.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use base64_simd::STANDARD;
use fulgurite_digest::Md5;
use http::{HeaderMap, StatusCode};
use s3s::dto::{PutObjectInput, ServerSideEncryption};
use s3s::{S3Result, s3_error};

use crate::s3::errors::custom;
use crate::s3::namespace::Namespace;

/// The header with the algorithm, also the prefix of related headers.
const HEADER: &str = "x-amz-server-side-encryption";
/// Length of a customer key in bytes.
const KEY_BYTES: usize = 32;

/// A customer key in a request.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CustomerKey<'a> {
    pub(crate) algorithm: Option<&'a str>,
    pub(crate) key: Option<&'a str>,
    pub(crate) md5: Option<&'a str>,
}

/// The customer key in the input of an operation.
macro_rules! customer_key {
    ($input:expr) => {
        $crate::s3::encryption::CustomerKey {
            algorithm: $input.sse_customer_algorithm.as_deref(),
            key: $input.sse_customer_key.as_deref(),
            md5: $input.sse_customer_key_md5.as_deref(),
        }
    };
}

pub(crate) use customer_key;

impl CustomerKey<'_> {
    fn is_given(&self) -> bool {
        self.algorithm.is_some() || self.key.is_some() || self.md5.is_some()
    }

    /// Refuses a customer key for an object to be written: an invalid key with AWS's error, a valid
    /// one because it isn't supported.
    pub(crate) fn refuse(&self) -> S3Result<()> {
        if !self.is_given() {
            return Ok(());
        }
        let Some(algorithm) = self.algorithm else {
            return Err(wrong("a valid encryption algorithm"));
        };
        if algorithm != ServerSideEncryption::AES256 {
            let message = "The encryption request you specified is not valid. The valid value is AES256.";
            return Err(custom("InvalidEncryptionAlgorithmError", StatusCode::BAD_REQUEST, message));
        }
        let key = self.key.ok_or_else(|| wrong("an appropriate secret key"))?;
        let key = STANDARD.decode_to_vec(key.as_bytes()).ok().filter(|key| key.len() == KEY_BYTES);
        let key = key.ok_or_else(|| s3_error!(InvalidArgument, "The secret key was invalid for the specified algorithm."))?;
        let md5 = self.md5.ok_or_else(|| wrong("the client calculated MD5 of the secret key"))?;
        let sent_md5 = STANDARD.decode_to_vec(md5.as_bytes()).unwrap_or_default();
        if verify_slices_are_equal(&Md5::of(&key), &sent_md5).is_err() {
            return Err(s3_error!(InvalidArgument, "The calculated MD5 hash of the key did not match the hash that was provided."));
        }
        Err(s3_error!(NotImplemented, "Server-side encryption with customer-provided keys is not supported."))
    }

    /// Refuses a customer key for a read: no object is sealed by one.
    pub(crate) fn refuse_to_read(&self) -> S3Result<()> {
        if self.is_given() {
            return Err(s3_error!(InvalidRequest, "The encryption parameters are not applicable to this object."));
        }
        Ok(())
    }
}

fn wrong(missing: &str) -> s3s::S3Error {
    s3_error!(InvalidArgument, "Requests specifying Server Side Encryption with Customer provided keys must provide {missing}.")
}

/// Refuses encryption headers of writes in a read, as AWS does.
pub(crate) fn refuse_headers_of_writes(headers: &HeaderMap) -> S3Result<()> {
    let is_of_writes =
        |name: &str| name == HEADER || name.strip_prefix(HEADER).is_some_and(|rest| rest.starts_with("-aws-kms") || rest == "-context");
    match headers.keys().find(|name| is_of_writes(name.as_str())) {
        Some(name) => Err(s3_error!(InvalidArgument, "{name} header is not supported for this operation.")),
        None => Ok(()),
    }
}

/// The encryption that responses report; `None` for an unencrypted object.
pub(crate) fn encryption_header(sealed: bool) -> Option<ServerSideEncryption> {
    sealed.then(|| ServerSideEncryption::from_static(ServerSideEncryption::AES256))
}

impl Namespace {
    /// The encryption that responses report for new objects. An error if the request asks for
    /// another one.
    pub(crate) fn encryption(&self, put_input: &PutObjectInput) -> S3Result<Option<ServerSideEncryption>> {
        let (algorithm, customer_key) =
            (put_input.server_side_encryption.as_ref().map(ServerSideEncryption::as_str), customer_key!(put_input));
        let names_kms_key = put_input.ssekms_key_id.is_some() || put_input.ssekms_encryption_context.is_some();
        if customer_key.is_given() && (algorithm.is_some() || names_kms_key) {
            return Err(s3_error!(
                InvalidArgument,
                "Server Side Encryption with Customer provided key is incompatible with the encryption method specified"
            ));
        }
        customer_key.refuse()?;
        match algorithm {
            None | Some(ServerSideEncryption::AES256) if names_kms_key => Err(s3_error!(
                InvalidArgument,
                "Server Side Encryption with AWS KMS managed key requires HTTP header x-amz-server-side-encryption : aws:kms"
            )),
            None => Ok(self.new_encryption()),
            Some(ServerSideEncryption::AES256) => match self.new_encryption() {
                None => Err(s3_error!(NotImplemented, "This archive does not encrypt its objects.")),
                encryption => Ok(encryption),
            },
            Some(ServerSideEncryption::AWS_KMS | ServerSideEncryption::AWS_KMS_DSSE) => {
                Err(s3_error!(NotImplemented, "Server-side encryption with AWS KMS keys is not supported."))
            }
            Some(_) => Err(s3_error!(InvalidArgument, "The encryption method specified is not supported")),
        }
    }

    /// The encryption that responses report for new objects.
    pub(crate) fn new_encryption(&self) -> Option<ServerSideEncryption> {
        encryption_header(self.archive.settings().archive.encrypt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RIGHT: CustomerKey<'_> = CustomerKey {
        algorithm: Some("AES256"),
        key: Some("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="),
        md5: Some("cLyPS3KoaSFGi/joRB3OUQ=="),
    };

    #[test]
    fn customer_keys_are_refused_with_the_reason() {
        let code = |key: CustomerKey<'_>| key.refuse().err().map(|error| error.code().as_str().to_owned());
        assert_eq!(code(CustomerKey::default()), None);
        assert_eq!(code(RIGHT).as_deref(), Some("NotImplemented"));
        assert_eq!(code(CustomerKey { algorithm: Some("ROT13"), ..RIGHT }).as_deref(), Some("InvalidEncryptionAlgorithmError"));
        for wrong in [
            CustomerKey { algorithm: None, ..RIGHT },
            CustomerKey { key: None, ..RIGHT },
            CustomerKey { md5: None, ..RIGHT },
            CustomerKey { key: Some("AAAA"), ..RIGHT },
            CustomerKey { md5: Some("AAAAAAAAAAAAAAAAAAAAAA=="), ..RIGHT },
        ] {
            assert_eq!(code(wrong).as_deref(), Some("InvalidArgument"), "{wrong:?}");
        }
    }

    #[test]
    fn reads_must_not_ask_for_encryption() {
        let refused = |name: &'static str| {
            refuse_headers_of_writes(&HeaderMap::from_iter([(http::HeaderName::from_static(name), "x".parse().expect("a value"))])).is_err()
        };
        assert!(refused("x-amz-server-side-encryption") && refused("x-amz-server-side-encryption-aws-kms-key-id"));
        assert!(!refused("x-amz-server-side-encryption-customer-algorithm") && !refused("x-amz-meta-a"));
    }
}
