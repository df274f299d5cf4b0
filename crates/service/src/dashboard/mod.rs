//! The dashboard: pages for people at `/-/dashboard`, and the JSON that they load.
//!
//! The pages are static and contain nothing of the archive. Their script sends the token with each
//! request for JSON, so nothing about the archive leaves without it, and no cookie exists that
//! another site could use. [Decision
//! 0021](../../../../docs/decisions/0021-the-dashboard.md) tells why.

mod assets;
mod cached;
mod objects;
mod overview;
mod platters;

use futures_util::TryStreamExt;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body_util::StreamBody;
use hyper::body::Frame;
use s3s::{S3Error, S3Result};
use serde_json::{Value, json};

use crate::auth::bearer;
use crate::dashboard::cached::Cached;
use crate::dashboard::platters::PlatterHealth;
use crate::gateway::Gateway;
use crate::http::query::parameter;
use crate::library::NoMotions;
use crate::s3::errors::internal;
use crate::settings::{self, DashboardToken};
use crate::state::random;

/// The first page. All others are below it.
pub(crate) const PATH: &str = "/-/dashboard";
/// Open restores as JSON, for programs.
pub(crate) const RESTORES: &str = "/-/restores";
const API: &str = "/api/";

/// Headers of every answer. The pages load nothing from elsewhere, run no inline script, and can't
/// be framed.
const HEADERS: [(header::HeaderName, &str); 4] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    ),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

/// What the server knows of its dashboard.
#[derive(Debug)]
pub(crate) struct Dashboard {
    /// `None` if it is turned off.
    access: Option<Access>,
    overview: Cached<bytes::Bytes>,
    platters: Cached<PlatterHealth>,
}

struct Access {
    token: String,
    /// Whether the token was made at this start.
    is_fresh: bool,
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access").field("is_fresh", &self.is_fresh).finish_non_exhaustive()
    }
}

impl Dashboard {
    pub(crate) fn new(settings: &settings::Dashboard) -> Self {
        let fresh = || Access { token: base64_simd::URL_SAFE_NO_PAD.encode_to_string(random::<24>()), is_fresh: true };
        let known = |token: &DashboardToken| Access { token: token.expose().to_owned(), is_fresh: false };
        let access = settings.enabled.then(|| settings.token.as_ref().map_or_else(fresh, known));
        Self { access, overview: Cached::default(), platters: Cached::default() }
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.access.is_some()
    }

    /// The path to open in a browser; `None` if the dashboard is turned off. It contains the token
    /// if that was made at this start: it is known from nowhere else. Browsers don't send what
    /// follows the `#`.
    pub(crate) fn link(&self) -> Option<String> {
        let access = self.access.as_ref()?;
        Some(if access.is_fresh { format!("{PATH}#token={}", access.token) } else { PATH.to_owned() })
    }

    /// Answers a GET for the dashboard. `path` is [`PATH`] or below it, or [`RESTORES`].
    pub(crate) async fn answer(&self, gateway: &Gateway, path: &str, query: Option<&str>, headers: &HeaderMap) -> Response<s3s::Body> {
        let Some(access) = &self.access else {
            return text(StatusCode::NOT_FOUND, "the dashboard is turned off: see [dashboard] in service.toml\n");
        };
        let below = if path == RESTORES { "/api/restores" } else { path.strip_prefix(PATH).unwrap_or_default() };
        let mut response = match below.strip_prefix(API) {
            None => assets::answer(below, headers),
            Some(_) if !bearer::has_token(headers, &access.token) => {
                let why = "the token is missing or wrong; `fulgurite serve` prints a link with it when it starts";
                let mut refusal = failure(StatusCode::UNAUTHORIZED, why);
                refusal.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
                refusal
            }
            Some("motions") => motions(gateway),
            Some(name) => self.api(gateway, name, query).await,
        };
        for (name, value) in HEADERS {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }

    async fn api(&self, gateway: &Gateway, name: &str, query: Option<&str>) -> Response<s3s::Body> {
        let found = match name {
            "overview" => {
                let body = self.overview.get(|| Ok(to_body(&gateway.fixity_overview()?))).await;
                body.map(|body| Some(bytes::Bytes::clone(&body)))
            }
            "platters" => {
                let health = self.platters.get(|| tokio::task::block_in_place(|| PlatterHealth::read(gateway))).await;
                health.and_then(|health| tokio::task::block_in_place(|| health.map(query))).map(Some)
            }
            "set" => gateway.dashboard_set(query).map(|value| value.as_ref().map(to_body)),
            "buckets" => gateway.dashboard_buckets().map(|value| Some(to_body(&value))),
            "objects" => gateway.dashboard_objects(query).map(|value| Some(to_body(&value))),
            "restores" => blocking("reading restores", || gateway.restores_report()).map(|value| Some(to_body(&value))),
            "activity" => Ok(Some(to_body(&gateway.health.activity.report()))),
            "library" => Ok(tokio::task::block_in_place(|| gateway.library_report()).as_ref().map(to_body)),
            "events" => Ok(Some(to_body(&gateway.health.events.report(parameter(query, "level").as_deref() == Some("warn"))))),
            "object" => gateway.dashboard_object(query).map(|value| Some(to_body(&value))),
            _ => Ok(None),
        };
        match found {
            Ok(Some(body)) => json_response(StatusCode::OK, body),
            Ok(None) => failure(StatusCode::NOT_FOUND, "no such page"),
            Err(error) => {
                let status = error.status_code().unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                failure(status, error.message().unwrap_or("the request failed; the server's log tells why"))
            }
        }
    }
}

/// The library in motion, as server-sent events.
fn motions(gateway: &Gateway) -> Response<s3s::Body> {
    let Some(library) = &gateway.library else {
        return failure(StatusCode::NOT_FOUND, "the server has no library: see [library] in service.toml");
    };
    match tokio::task::block_in_place(|| library.motions()) {
        Ok(events) => {
            let frames = events.map_ok(Frame::data);
            let mut response = Response::new(s3s::Body::http_body(StreamBody::new(frames)));
            response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
            response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
            response
        }
        Err(NoMotions::TooMany) => failure(StatusCode::SERVICE_UNAVAILABLE, "too many pages watch the library"),
        Err(NoMotions::Stopped) => failure(StatusCode::SERVICE_UNAVAILABLE, "the library has stopped"),
    }
}

/// Whether a path is the dashboard's.
pub(crate) fn is_path(path: &str) -> bool {
    path.strip_prefix(PATH).is_some_and(|below| below.is_empty() || below.starts_with('/'))
}

fn to_body(value: &Value) -> bytes::Bytes {
    format!("{value}\n").into()
}

fn json_response(status: StatusCode, body: bytes::Bytes) -> Response<s3s::Body> {
    let mut response = Response::new(s3s::Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn failure(status: StatusCode, message: &str) -> Response<s3s::Body> {
    json_response(status, to_body(&json!({ "error": message })))
}

fn text(status: StatusCode, message: &'static str) -> Response<s3s::Body> {
    let mut response = Response::new(s3s::Body::from(message.to_owned()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

/// Runs what blocks on the catalogue, and logs its error.
fn blocking<T, E: std::error::Error>(what: &'static str, run: impl FnOnce() -> Result<T, E>) -> S3Result<T> {
    tokio::task::block_in_place(run).map_err(|error| -> S3Error {
        tracing::error!(%error, "{what}");
        internal()
    })
}

#[cfg(test)]
mod tests;
