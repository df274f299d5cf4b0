//! Schema registries with Confluent's interface.

use std::time::Duration;

use base64_simd::STANDARD;
use bytes::Bytes;
use fulgurite_client::{Address, ServerError, failure_of, next_frame};
use http::header::{ACCEPT, AUTHORIZATION, HOST};
use http::{Request, StatusCode};
use http_body_util::Empty;
use serde_json::Value;
use tokio::time::timeout;

use crate::avro::Schema;

/// Maximum size of a response.
const RESPONSE_MAX: usize = 16 << 20;
/// Timeout of a request.
const SILENCE: Duration = Duration::from_secs(20);
/// The interface's code for a schema that doesn't exist.
const NO_SCHEMA: u64 = 40403;

/// A registry.
pub struct Registry {
    address: Address,
    /// What comes before `/schemas/ids/1`.
    path: String,
    authorization: Option<String>,
}

/// Why a schema wasn't received.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// Another attempt may succeed.
    #[error("schema registry: {0}")]
    Transient(String),
    /// The registry has no such schema. A replica may get it a little later.
    #[error("schema {0}: the registry doesn't have it")]
    Missing(u32),
    /// The schema can't be used.
    #[error("schema {0}: {1}")]
    Schema(u32, String),
    /// The registry refuses everything, or the address isn't that of a registry.
    #[error("schema registry: {0}")]
    Refused(String),
}

impl std::fmt::Debug for Registry {
    /// Without the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registry").field("address", &self.address).field("path", &self.path).finish_non_exhaustive()
    }
}

impl Registry {
    /// A registry at `http://HOST[:PORT][/PATH]`. `user` is `NAME:PASSWORD`.
    ///
    /// # Errors
    /// [`ServerError`] if the address is wrong, or the authorities can't be read.
    pub fn new(url: &str, user: Option<&str>, authorities: Option<&str>) -> Result<Self, ServerError> {
        let begin = url.find("://").map_or(0, |at| at + 3);
        let (origin, path) = match url[begin..].find('/') {
            Some(at) => url.split_at(begin + at),
            None => (url, ""),
        };
        Ok(Self {
            address: Address::new(origin, authorities)?,
            path: path.trim_end_matches('/').to_owned(),
            authorization: user.map(|user| format!("Basic {}", STANDARD.encode_to_string(user))),
        })
    }

    /// The schema with a number.
    ///
    /// # Errors
    /// [`RegistryError`] if it wasn't received.
    pub async fn schema(&self, id: u32) -> Result<Schema, RegistryError> {
        let asked = timeout(SILENCE, self.ask(id)).await;
        asked.unwrap_or_else(|_| Err(RegistryError::Transient("no response".to_owned())))
    }

    async fn ask(&self, id: u32) -> Result<Schema, RegistryError> {
        let transient = RegistryError::Transient;
        let wrong = |why: String| RegistryError::Schema(id, why);
        let strange = |why: &str| RegistryError::Refused(format!("the response {why}; is the address that of a registry?"));
        let mut request = Request::get(format!("{}/schemas/ids/{id}", self.path))
            .header(HOST, self.address.authority())
            .header(ACCEPT, "application/vnd.schemaregistry.v1+json, application/json");
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let request = request.body(Empty::<Bytes>::new()).map_err(|error| transient(error.to_string()))?;
        let (mut sender, connection) = self.address.connect().await.map_err(transient)?;
        tokio::spawn(connection);
        let response = sender.send_request(request).await.map_err(|error| transient(failure_of(&error)))?;
        let status = response.status();
        match status {
            StatusCode::OK | StatusCode::NOT_FOUND => {}
            StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT => return Err(transient(status.to_string())),
            status if status.is_server_error() => return Err(transient(status.to_string())),
            status => return Err(RegistryError::Refused(status.to_string())),
        }
        let mut body = response.into_body();
        let mut text = Vec::new();
        while let Some(frame) = next_frame(&mut body).await {
            text.extend_from_slice(frame.map_err(transient)?.data_ref().map_or(&[], |data| data));
            if text.len() > RESPONSE_MAX {
                return Err(strange("is too long"));
            }
        }
        let json = serde_json::from_slice::<Value>(&text);
        if status == StatusCode::NOT_FOUND {
            // Any other answer means that the address is not that of a registry.
            let is_known = json.is_ok_and(|json| json.get("error_code").and_then(Value::as_u64) == Some(NO_SCHEMA));
            return Err(if is_known { RegistryError::Missing(id) } else { RegistryError::Refused(status.to_string()) });
        }
        let json = json.map_err(|_| strange("isn't JSON"))?;
        let schema = json.get("schema").and_then(Value::as_str).ok_or_else(|| strange("has no schema"))?;
        if let Some(other) = json.get("schemaType").and_then(Value::as_str).filter(|kind| *kind != "AVRO") {
            return Err(wrong(format!("it is of type {other}, expected AVRO")));
        }
        if json.get("references").and_then(Value::as_array).is_some_and(|all| !all.is_empty()) {
            return Err(wrong("it refers to other schemas, which is not supported".to_owned()));
        }
        Schema::parse(schema).map_err(|error| wrong(error.to_string()))
    }
}
