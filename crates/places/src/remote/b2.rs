//! The transport of a B2 node.
//!
//! opendal asks one fixed host for a token and for the URLs of the API and of downloads. Another
//! host can replace it here. Tokens that pass are kept out of messages.

use std::sync::Arc;

use http::header::AUTHORIZATION;
use http::{Request, Response, Uri};
use opendal::{Buffer, HttpBody, HttpTransport};

use super::super::secret::Secrets;
use super::super::{Cause, Refusal};
use super::transport::Transport;

/// The host that opendal asks, `https://api.backblazeb2.com`.
const HOST: &str = "api.backblazeb2.com";

pub(super) struct B2Transport {
    transport: Transport,
    /// Replaces the fixed host.
    endpoint: Option<String>,
    secrets: Arc<Secrets>,
}

impl B2Transport {
    pub(super) fn new(transport: Transport, endpoint: Option<String>, secrets: Arc<Secrets>) -> Self {
        Self { transport, endpoint, secrets }
    }
}

impl HttpTransport for B2Transport {
    async fn fetch(&self, mut request: Request<Buffer>) -> opendal::Result<Response<HttpBody>> {
        if let (Some(endpoint), Some(HOST)) = (&self.endpoint, request.uri().host()) {
            let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
            match format!("{}{target}", endpoint.trim_end_matches('/')).parse::<Uri>() {
                Ok(uri) => *request.uri_mut() = uri,
                Err(error) => {
                    return Err(self.transport.0.failed(Refusal::new(Cause::Unsupported, format!("endpoint={endpoint}: {error}"))));
                }
            }
        }
        let authorization = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        if let Some(token) = authorization.map(|value| value.strip_prefix("Basic ").unwrap_or(value)) {
            self.secrets.add_token(token);
        }
        self.transport.fetch(request).await
    }
}
