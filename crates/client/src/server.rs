//! An S3 server: its address, and the credentials that sign requests.

use reqsign_aws_v4::{Credential, DefaultCredentialProvider, RequestSigner, StaticCredentialProvider};
use reqsign_core::{Context, OsEnv, ProvideCredential, Signer};
use tokio::runtime::Builder;

use crate::address::Address;

/// Why a server can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Its address is wrong.
    #[error("endpoint `{found}`: expected {expected}")]
    Address {
        /// The address.
        found: String,
        /// What it should be.
        expected: &'static str,
    },
    /// Its address contains a name or a password, which would be sent nowhere.
    #[error("an endpoint can't contain a name and password")]
    UserInfo,
    /// The bucket can't have this name.
    #[error("bucket `{0}`: expected letters, digits, `.`, `_` or `-`")]
    BucketName(String),
    /// No credentials were found.
    #[error("{endpoint}: no credentials: {why}")]
    Credentials {
        /// The server.
        endpoint: String,
        /// Why, and what to do.
        why: String,
    },
    /// A certificate authority can't be read.
    #[error("{0}")]
    Authorities(String),
    /// The runtime can't start, for example for lack of file descriptors.
    #[error("can't prepare for connections: {0}")]
    Runtime(#[source] std::io::Error),
}

/// An S3 server with a bucket, and how requests to it are signed.
#[derive(Debug)]
pub struct Server {
    pub(crate) endpoint: String,
    pub(crate) address: Address,
    pub(crate) bucket: String,
    pub(crate) signer: Signer<Credential>,
}

/// How a server is reached.
#[derive(Debug, Clone, Default)]
pub struct ServerOptions {
    /// The bucket that requests are for.
    pub bucket: String,
    /// The region in signatures.
    pub region: String,
    /// Access key and secret key; `None` takes those of the environment or a profile.
    pub keys: Option<(String, String)>,
    /// A profile in AWS's files.
    pub profile: Option<String>,
    /// A file in PEM form with the certificate authorities to trust, instead of the system's.
    pub authorities: Option<String>,
}

impl Server {
    /// A server at `http://HOST[:PORT]` or `https://HOST[:PORT]`. Nothing is sent yet.
    ///
    /// # Errors
    /// [`ServerError`] if the address is wrong, or there are no credentials or authorities.
    pub fn new(endpoint: &str, options: &ServerOptions) -> Result<Self, ServerError> {
        let address = Address::new(endpoint, options.authorities.as_deref())?;
        let is_plain = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        if !is_plain(&options.bucket) {
            return Err(ServerError::BucketName(options.bucket.clone()));
        }
        let runtime = Builder::new_current_thread().enable_all().build().map_err(ServerError::Runtime)?;
        Ok(Self {
            signer: runtime.block_on(signer(endpoint, options))?,
            endpoint: endpoint.to_owned(),
            address,
            bucket: options.bucket.clone(),
        })
    }

    /// Its address, as it was given.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The bucket that requests are for.
    #[must_use]
    pub fn bucket(&self) -> &str {
        &self.bucket
    }

    /// The port, if the host is `localhost` or a loopback address.
    #[must_use]
    pub fn local_port(&self) -> Option<u16> {
        self.address.local_port()
    }
}

/// The region for signatures: the given one, or that of `AWS_REGION` or `AWS_DEFAULT_REGION`, or
/// `us-east-1`.
#[must_use]
pub fn region(given: Option<&str>) -> String {
    let of_environment = |name| std::env::var(name).ok().filter(|region| !region.is_empty());
    let given = given.map(str::to_owned).or_else(|| of_environment("AWS_REGION"));
    given.or_else(|| of_environment("AWS_DEFAULT_REGION")).unwrap_or_else(|| "us-east-1".to_owned())
}

async fn signer(endpoint: &str, options: &ServerOptions) -> Result<Signer<Credential>, ServerError> {
    let context = Context::new().with_file_read(reqsign_file_read_tokio::TokioFileRead).with_env(OsEnv);
    let request_signer = RequestSigner::new("s3", &options.region);
    if let Some((key, secret)) = &options.keys {
        return Ok(Signer::new(context, StaticCredentialProvider::new(key, secret), request_signer));
    }
    let mut keys = DefaultCredentialProvider::builder();
    if let Some(profile) = &options.profile {
        // A profile that is named goes before the environment.
        keys = keys.no_env().with_profile(profile);
    }
    let keys = keys.build();
    let advice = match &options.profile {
        Some(profile) => format!("the profile `{profile}` has none"),
        None => "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a profile".to_owned(),
    };
    match keys.provide_credential(&context).await {
        Ok(Some(found)) if !found.access_key_id.is_empty() && !found.secret_access_key.is_empty() => {
            Ok(Signer::new(context, keys, request_signer))
        }
        Ok(_) => Err(ServerError::Credentials { endpoint: endpoint.to_owned(), why: advice }),
        Err(error) => Err(ServerError::Credentials { endpoint: endpoint.to_owned(), why: error.to_string() }),
    }
}
