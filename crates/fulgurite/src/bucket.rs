//! Arguments that name a bucket at an S3 server.

use clap::Args;
use fulgurite_client::{Server, ServerOptions, region};

use crate::outcome::Misuse;

#[derive(Debug, Args)]
pub(crate) struct BucketArgs {
    /// The server, as http://HOST:PORT or https://HOST:PORT
    #[arg(long, env = "AWS_ENDPOINT_URL", value_name = "URL")]
    endpoint: String,
    /// The bucket
    #[arg(long, value_name = "NAME")]
    bucket: String,
    /// The region that requests are signed for. Default: AWS_REGION, AWS_DEFAULT_REGION, or
    /// us-east-1
    #[arg(long, value_name = "NAME")]
    region: Option<String>,
    /// A profile in ~/.aws. Default: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the default
    /// profile
    #[arg(long, value_name = "PROFILE")]
    profile: Option<String>,
    /// Certificate authorities to trust, in PEM form. Default: those of the system
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_file: Option<String>,
}

impl BucketArgs {
    /// The server. Nothing is sent yet.
    pub(crate) fn server(&self) -> Result<Server, Misuse> {
        self.server_with(&self.bucket)
    }

    /// The same server with another bucket.
    pub(crate) fn server_with(&self, bucket: &str) -> Result<Server, Misuse> {
        let options = ServerOptions {
            bucket: bucket.to_owned(),
            region: region(self.region.as_deref()),
            keys: None,
            profile: self.profile.clone(),
            authorities: self.ca_file.clone(),
        };
        Server::new(&self.endpoint, &options).map_err(|error| Misuse(error.to_string()))
    }
}
