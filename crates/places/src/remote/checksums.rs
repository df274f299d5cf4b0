//! Asks S3 for its checksums.
//!
//! S3 states them only if HEAD has the header `x-amz-checksum-mode`, and all headers of this kind
//! must be signed. opendal can't send it. So the transport takes the request that opendal signed,
//! adds the header and signs it again. Requests that opendal doesn't know are signed the same way:
//! bulk gets and bulk puts.

use http::header::{AUTHORIZATION, HOST, HeaderValue};
use http::request;
use opendal::HttpTransporter;
use reqsign_aws_v4::{Credential, DefaultCredentialProvider, RequestSigner, StaticCredentialProvider};
use reqsign_core::{Context, OsEnv, Signer};

use super::super::Refusal;
use super::super::address::{Address, Kind};
use super::transport::Transport;

/// How requests of our own are signed.
#[derive(Debug, Clone)]
pub(super) enum RequestSigning {
    /// Not at all.
    Anonymously,
    As(Signer<Credential>),
}

impl RequestSigning {
    /// `None` if checksums can't be asked for: they are S3's, and a role's temporary keys are known
    /// to opendal only.
    pub(super) fn of(address: &Address, transport: &Transport) -> Result<Option<Self>, Refusal> {
        if address.kind != Kind::S3 || address.options.contains_key("role_arn") {
            return Ok(None);
        }
        if address.is_true("anonymous") {
            return Ok(Some(Self::Anonymously));
        }
        let region = address.resolved("region")?.unwrap_or_else(|| "us-east-1".into());
        let request_signer = RequestSigner::new("s3", &region);
        let context = Context::new()
            .with_file_read(reqsign_file_read_tokio::TokioFileRead)
            .with_http_send(HttpTransporter::new(transport.clone()))
            .with_env(OsEnv);
        let signer = match (address.resolved("access_key_id")?, address.resolved("secret_access_key")?) {
            (Some(key), Some(secret)) => {
                let mut keys = StaticCredentialProvider::new(&key, &secret);
                if let Some(token) = address.resolved("session_token")? {
                    keys = keys.with_session_token(&token);
                }
                Signer::new(context, keys, request_signer)
            }
            _ => {
                let mut keys = DefaultCredentialProvider::builder();
                if let Some(profile) = address.resolved("profile")? {
                    keys = keys.with_profile(profile);
                }
                Signer::new(context, keys.build(), request_signer)
            }
        };
        Ok(Some(Self::As(signer)))
    }

    /// Adds the header to a request, and signs it. If it can't be signed, it stays as it was: the
    /// answer then states no checksums.
    pub(super) async fn ask(&self, parts: &mut request::Parts) {
        let mode = HeaderValue::from_static("ENABLED");
        match self {
            Self::Anonymously => {
                parts.headers.insert("x-amz-checksum-mode", mode);
            }
            Self::As(_) => {
                let mut asking = parts.clone();
                for name in [AUTHORIZATION.as_str(), "x-amz-date", "x-amz-content-sha256", "x-amz-security-token"] {
                    asking.headers.remove(name);
                }
                asking.headers.insert("x-amz-checksum-mode", mode);
                if self.sign(&mut asking).await {
                    *parts = asking;
                }
            }
        }
    }

    /// Signs a request. Returns whether it is signed.
    pub(super) async fn sign(&self, parts: &mut request::Parts) -> bool {
        let Self::As(signer) = self else { return false };
        let is_signed = signer.sign(parts, None).await.is_ok() && parts.headers.contains_key(AUTHORIZATION);
        // The transport sets it as the port requires.
        parts.headers.remove(HOST);
        is_signed
    }
}
