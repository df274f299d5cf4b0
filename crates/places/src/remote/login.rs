//! Signs in to OpenStack, for Swift: gets a token, and the URL of the account.
//!
//! ```text
//! Login --POST /v3/auth/tokens--> token, when it expires, catalogue of URLs    Keystone
//!       --GET  /auth/v1.0-------> token, when it expires, URL of the account   version 1: TempAuth and others
//! ```
//!
//! Each connection signs in by itself, and sends its requests through a [`SignedIn`]. That signs in
//! again shortly before the token expires, and once if a request is answered with 401, because
//! tokens can be revoked.
//!
//! Source: OpenStack Identity API v3, "Authentication and token management"; Swift, "Auth System".

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Request, Response, StatusCode, request};
use opendal::{Buffer, HttpBody, HttpTransport};
use serde_json::{Value, json};
use time::{Date, PrimitiveDateTime, Time};

use super::super::address::{Address, is_endpoint};
use super::super::secret::Secrets;
use super::super::{Cause, Refusal};
use super::transport::{Received, Transport, Upload, answered};

/// Time before its end at which a token is renewed.
const MARGIN: Duration = Duration::from_secs(60);

/// Variables of OpenStack's own programs, by option.
const VARIABLES: [(&str, &[&str]); 14] = [
    ("user", &["ST_USER"]),
    ("key", &["ST_KEY"]),
    ("username", &["OS_USERNAME"]),
    ("password", &["OS_PASSWORD"]),
    ("user_domain_name", &["OS_USER_DOMAIN_NAME"]),
    ("user_domain_id", &["OS_USER_DOMAIN_ID"]),
    ("project_name", &["OS_PROJECT_NAME", "OS_TENANT_NAME"]),
    ("project_id", &["OS_PROJECT_ID", "OS_TENANT_ID"]),
    ("project_domain_name", &["OS_PROJECT_DOMAIN_NAME"]),
    ("project_domain_id", &["OS_PROJECT_DOMAIN_ID"]),
    ("application_credential_id", &["OS_APPLICATION_CREDENTIAL_ID"]),
    ("application_credential_secret", &["OS_APPLICATION_CREDENTIAL_SECRET"]),
    ("region", &["OS_REGION_NAME"]),
    ("interface", &["OS_INTERFACE"]),
];

/// Where and how to sign in.
pub(super) struct Login {
    url: String,
    credentials: Credentials,
    /// Overrides the account's URL that the service states.
    endpoint: Option<String>,
    region: Option<String>,
    interface: Option<String>,
}

enum Credentials {
    Version1 {
        user: String,
        key: String,
    },
    /// The body of the request.
    Version3 {
        request: Value,
        secret: String,
    },
}

/// Options of an address, and what the environment says if the address asks for that.
struct Settings<'a> {
    address: &'a Address,
    from_environment: bool,
}

impl Settings<'_> {
    fn get(&self, option: &str) -> Result<Option<String>, Refusal> {
        if let Some(value) = self.address.resolved(option)? {
            return Ok(Some(value));
        }
        let names = VARIABLES.iter().find(|(known, _)| *known == option).map_or(&[][..], |(_, names)| names);
        Ok(names.iter().find_map(|name| self.variable(name)))
    }

    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok().filter(|value| self.from_environment && !value.is_empty())
    }

    /// A domain, as Keystone expects it. `default` is its identifier in most installations.
    fn domain(&self, of: &str) -> Result<Option<Value>, Refusal> {
        let id = self.get(&format!("{of}_domain_id"))?.map(|id| json!({ "id": id }));
        Ok(id.or(self.get(&format!("{of}_domain_name"))?.map(|name| json!({ "name": name }))))
    }

    fn credentials(&self) -> Result<Option<Credentials>, Refusal> {
        if let (Some(id), Some(secret)) = (self.get("application_credential_id")?, self.get("application_credential_secret")?) {
            let identity = json!({ "methods": ["application_credential"], "application_credential": { "id": id, "secret": secret } });
            // Application credentials belong to a project, and a scope is not permitted.
            return Ok(Some(Credentials::Version3 { request: json!({ "auth": { "identity": identity } }), secret }));
        }
        if let (Some(name), Some(password)) = (self.get("username")?, self.get("password")?) {
            let domain = self.domain("user")?.unwrap_or_else(|| json!({ "id": "default" }));
            let user = json!({ "name": name, "domain": domain, "password": password });
            let mut auth = json!({ "identity": { "methods": ["password"], "password": { "user": user } } });
            let project = match (self.get("project_id")?, self.get("project_name")?) {
                (Some(id), _) => Some(json!({ "id": id })),
                (None, Some(name)) => Some(json!({ "name": name, "domain": self.domain("project")?.unwrap_or(domain) })),
                (None, None) => None,
            };
            if let Some(project) = project {
                auth["scope"] = json!({ "project": project });
            }
            return Ok(Some(Credentials::Version3 { request: json!({ "auth": auth }), secret: password }));
        }
        match (self.get("user")?, self.get("key")?) {
            (Some(user), Some(key)) => Ok(Some(Credentials::Version1 { user, key })),
            _ => Ok(None),
        }
    }
}

impl Login {
    /// `None` if the address has a token of its own.
    pub(super) fn of(address: &Address) -> Result<Option<Self>, Refusal> {
        let settings = Settings { address, from_environment: address.options.contains_key("credentials") };
        if address.options.contains_key("token") {
            return Ok(None);
        }
        let unusable = |problem: &str| Refusal::new(Cause::Unsupported, problem);
        let lacking = "the environment has no OS_APPLICATION_CREDENTIAL_ID and OS_APPLICATION_CREDENTIAL_SECRET, \
                       no OS_USERNAME and OS_PASSWORD, and no ST_USER and ST_KEY";
        let credentials = settings.credentials()?.ok_or_else(|| unusable(lacking))?;
        let variable = match credentials {
            Credentials::Version1 { .. } => "ST_AUTH",
            Credentials::Version3 { .. } => "OS_AUTH_URL",
        };
        let url = match address.resolved("auth_url")? {
            Some(url) => url,
            None => settings.variable(variable).ok_or_else(|| unusable(&format!("the environment has no {variable}")))?,
        };
        if !is_endpoint(&url) {
            return Err(unusable("auth_url must be https://host/path or http://host:port/path, without user, password or query"));
        }
        let endpoint = address.resolved("endpoint")?;
        let (region, interface) = (settings.get("region")?, settings.get("interface")?);
        Ok(Some(Self { url: url.trim_end_matches('/').to_owned(), credentials, endpoint, region, interface }))
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// What must be kept out of messages. Part of it may be from the environment.
    pub(super) fn secret(&self) -> &str {
        match &self.credentials {
            Credentials::Version1 { key, .. } => key,
            Credentials::Version3 { secret, .. } => secret,
        }
    }

    fn request(&self) -> Result<(request::Parts, Buffer), http::Error> {
        let (request, body) = match &self.credentials {
            Credentials::Version1 { user, key } => {
                let mut key = HeaderValue::from_str(key)?;
                key.set_sensitive(true);
                (Request::get(&self.url).header("x-auth-user", user).header("x-auth-key", key), Buffer::new())
            }
            Credentials::Version3 { request, .. } => {
                let base = self.url.strip_suffix("/v3").unwrap_or(&self.url);
                (
                    Request::post(format!("{base}/v3/auth/tokens")).header(CONTENT_TYPE, "application/json"),
                    Buffer::from(request.to_string()),
                )
            }
        };
        request.body(()).map(|request| (request.into_parts().0, body))
    }

    async fn sign_in(&self, transport: &Transport) -> Result<Token, Refusal> {
        let unusable = |error: &dyn std::fmt::Display| Refusal::new(Cause::Unsupported, error.to_string());
        let (parts, body) = self.request().map_err(|error| unusable(&error))?;
        let (head, received) = transport.exchange(parts, Upload::Whole(body)).await?;
        let Received::Content(mut content) = received else {
            let refusal = transport.notes().answer.map(|answer| answer.refusal());
            return Err(refusal.unwrap_or_else(|| Refusal::new(Cause::Fault, "it was refused")));
        };
        let mut body = Vec::new();
        while let Some(piece) = std::future::poll_fn(|cx| content.poll_piece(cx)).await {
            body.extend_from_slice(&piece?);
        }
        let token = match &self.credentials {
            Credentials::Version1 { .. } => Token::of_version_1(&head.headers, self.endpoint.as_deref()),
            Credentials::Version3 { .. } => match &self.endpoint {
                Some(endpoint) => Token::of_version_3(&head.headers, &body, |_| Ok(endpoint.clone())),
                None => Token::of_version_3(&head.headers, &body, |token| self.storage_url(token)),
            },
        }?;
        if self.url.starts_with("https://") && !token.endpoint.starts_with("https://") {
            return Err(unusable(&format!(
                "it names {} as the account's URL, to which the token would go unencrypted; set endpoint",
                super::without_query(&token.endpoint)
            )));
        }
        match is_endpoint(&token.endpoint) {
            true => Ok(token),
            false => Err(unusable(&format!("it names {:?} as the account's URL; set endpoint", super::without_query(&token.endpoint)))),
        }
    }

    /// The URL of the object store in a token's catalogue.
    fn storage_url(&self, token: &Value) -> Result<String, Refusal> {
        let interface = self.interface.as_deref().unwrap_or("public");
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let stores = list(&token["catalog"]).into_iter().filter(|service| service["type"] == "object-store");
        let all: Vec<(String, String)> = stores
            .flat_map(|store| list(&store["endpoints"]))
            .filter(|endpoint| endpoint["interface"] == interface)
            .filter_map(|endpoint| {
                let region = endpoint["region_id"].as_str().or(endpoint["region"].as_str()).unwrap_or_default();
                Some((region.to_owned(), endpoint["url"].as_str()?.to_owned()))
            })
            .collect();
        let wanted = |name: &str| self.region.as_deref().is_none_or(|region| region == name);
        let mut urls: Vec<&String> = all.iter().filter(|(region, _)| wanted(region)).map(|(_, url)| url).collect();
        urls.dedup();
        let regions: Vec<&str> = all.iter().map(|(region, _)| region.as_str()).collect();
        let problem = match (urls.as_slice(), all.is_empty()) {
            ([url], _) => return Ok((*url).clone()),
            (_, true) => format!(
                "the catalogue has no {interface} URL of an object store; set project_name or project_id to a project that has one, or set endpoint"
            ),
            ([], false) => format!("the region has no object store; set region to one of {}", regions.join(", ")),
            _ => format!("the catalogue has several object stores; set region to one of {}, or set endpoint", regions.join(", ")),
        };
        Err(Refusal::new(Cause::Unsupported, problem))
    }
}

struct Token {
    value: HeaderValue,
    /// The URL of the account.
    endpoint: String,
    /// `None` if it isn't known how long it lasts.
    renew_at: Option<Instant>,
}

impl Token {
    fn new(value: &HeaderValue, endpoint: &str, lasts: Option<Duration>) -> Self {
        let mut value = value.clone();
        value.set_sensitive(true);
        // A service may return the same token until it ends, so its last minute must not be spent
        // signing in.
        let wait = lasts.map(|lasts| if lasts > MARGIN { lasts - MARGIN } else { lasts });
        let renew_at = wait.and_then(|wait| Instant::now().checked_add(wait));
        Self { value, endpoint: endpoint.trim_end_matches('/').to_owned(), renew_at }
    }

    fn of_version_1(headers: &HeaderMap, endpoint: Option<&str>) -> Result<Self, Refusal> {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let endpoint = endpoint.or_else(|| text("x-storage-url"));
        let (Some(value), Some(endpoint)) = (headers.get("x-auth-token"), endpoint) else {
            return Err(Refusal::new(Cause::Unsupported, "the answer has no X-Auth-Token or no X-Storage-Url; check auth_url"));
        };
        let lasts = text("x-auth-token-expires").and_then(|seconds| seconds.parse().ok()).map(Duration::from_secs);
        Ok(Self::new(value, endpoint, lasts))
    }

    fn of_version_3(headers: &HeaderMap, body: &[u8], endpoint: impl FnOnce(&Value) -> Result<String, Refusal>) -> Result<Self, Refusal> {
        let invalid = || Refusal::new(Cause::Unsupported, "the answer is not one of Keystone's version 3; check auth_url");
        let body: Value = serde_json::from_slice(body).map_err(|_| invalid())?;
        let token = &body["token"];
        let value = headers.get("x-subject-token").filter(|_| token.is_object()).ok_or_else(invalid)?;
        // Both are of the server's clock, so ours may be wrong.
        let lasts = match (timestamp(&token["issued_at"]), timestamp(&token["expires_at"])) {
            (Some(from), Some(to)) => Some(Duration::from_secs(u64::try_from(to - from).unwrap_or(0))),
            _ => None,
        };
        Ok(Self::new(value, &endpoint(token)?, lasts))
    }

    fn is_due(&self) -> bool {
        self.renew_at.is_some_and(|at| Instant::now() >= at)
    }
}

/// Seconds since 1970 of a time as Keystone writes it, `2026-11-25T08:00:00.000000Z`.
fn timestamp(value: &Value) -> Option<i64> {
    let (date, time) = value.as_str()?.strip_suffix('Z')?.split_once('T')?;
    let numbers = |text: &str, separator| -> Option<Vec<u16>> { text.split(separator).map(|part| part.parse().ok()).collect() };
    let (date, time) = (numbers(date, '-')?, numbers(time.split('.').next()?, ':')?);
    let ([year, month, day], [hour, minute, second]) = (date.try_into().ok()?, time.try_into().ok()?);
    let small = |number: u16| u8::try_from(number).ok();
    let date = Date::from_calendar_date(i32::from(year), small(month)?.try_into().ok()?, small(day)?).ok()?;
    let time = Time::from_hms(small(hour)?, small(minute)?, small(second)?).ok()?;
    Some(PrimitiveDateTime::new(date, time).assume_utc().unix_timestamp())
}

/// Sends requests with a token, and gets a new one when it ends.
pub(super) struct SignedIn {
    transport: Transport,
    login: Login,
    secrets: Arc<Secrets>,
    token: Mutex<Token>,
}

impl SignedIn {
    /// Signs in. Returns the URL of the account, too.
    pub(super) async fn open(transport: Transport, login: Login, secrets: Arc<Secrets>) -> Result<(Self, String), Refusal> {
        let token = sign_in(&transport, &login, &secrets).await?;
        let endpoint = token.endpoint.clone();
        Ok((Self { transport, login, secrets, token: Mutex::new(token) }, endpoint))
    }

    async fn renew(&self) -> Result<(), Refusal> {
        let new = sign_in(&self.transport, &self.login, &self.secrets).await?;
        self.with_token(|token| *token = new);
        Ok(())
    }

    fn with_token<T>(&self, what: impl FnOnce(&mut Token) -> T) -> T {
        what(&mut self.token.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl HttpTransport for SignedIn {
    async fn fetch(&self, request: Request<Buffer>) -> opendal::Result<Response<HttpBody>> {
        let (mut parts, body) = request.into_parts();
        if self.with_token(|token| token.is_due()) && self.renew().await.is_err() {
            // It may last a little longer; the next sign-in follows when it is refused.
            self.with_token(|token| token.renew_at = None);
        }
        let notes = self.transport.notes();
        parts.headers.insert("x-auth-token", self.with_token(|token| token.value.clone()));
        let first = self.transport.exchange(parts.clone(), Upload::Whole(body.clone())).await;
        if !matches!(&first, Ok((head, _)) if head.status == StatusCode::UNAUTHORIZED) {
            return answered(first);
        }
        // As if it had not been sent: the operation must not end with this refusal.
        self.transport.restore(notes);
        self.renew().await.map_err(|refusal| self.transport.0.failed(refusal))?;
        parts.headers.insert("x-auth-token", self.with_token(|token| token.value.clone()));
        answered(self.transport.exchange(parts, Upload::Whole(body)).await)
    }
}

/// Signs in within another operation, whose notes are kept.
async fn sign_in(transport: &Transport, login: &Login, secrets: &Secrets) -> Result<Token, Refusal> {
    let notes = transport.notes();
    transport.begin(false);
    let result = login.sign_in(transport).await;
    transport.restore(notes);
    let token = result.map_err(|refusal| {
        // Nothing is missing but the service.
        let cause = if refusal.cause == Cause::Missing { Cause::Unsupported } else { refusal.cause };
        Refusal::new(cause, format!("signing in at {}: {}", login.url, refusal.detail))
    })?;
    secrets.add_token(token.value.to_str().unwrap_or_default());
    Ok(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_keystone_are_read() {
        let read = |text: &str| timestamp(&Value::from(text));
        assert_eq!(read("2020-02-29T00:00:01.000000Z"), Some(1_582_934_401));
        assert_eq!(read("2026-11-25T08:00:00Z"), Some(1_795_593_600));
        for invalid in ["", "2026-11-25", "2026-13-25T08:00:00Z", "2026-02-29T08:00:00Z", "2026-11-25T08:00:00+01:00", "1-1-1T1:1:1:1Z"] {
            assert_eq!(read(invalid), None, "{invalid}");
        }
    }
}
