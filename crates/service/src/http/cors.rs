//! CORS: rules of buckets for pages of other sites, preflight requests, and the headers that
//! browsers expect in responses.
//!
//! A rule grants no access. It lets a browser whose user has access pass the response on to a page.
//!
//! ```text
//! OPTIONS, Origin, Access-Control-Request-Method, -Headers -> the first rule that fits -> 200 with its headers, or 403
//! any request with Origin -> its response, with the headers of the first rule that fits
//! ```

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Uri, header};
use s3s::{Body, S3Error, S3Result, s3_error};
use serde::{Deserialize, Serialize};

use crate::http::addressing::Addresses;
use crate::s3::errors::{custom, state_failed};
use crate::state::State;

const METHODS: [&str; 5] = ["GET", "PUT", "HEAD", "POST", "DELETE"];
/// Maximum number of rules of a bucket.
pub(crate) const RULES_MAX: usize = 100;
/// Maximum number of headers that a preflight request names.
const PREFLIGHT_HEADERS_MAX: usize = 128;
/// Maximum length of their list.
const PREFLIGHT_HEADERS_BYTES_MAX: usize = 8 << 10;
/// Maximum size of a bucket's encoded rules, the same as AWS.
pub(crate) const RULES_BYTES_MAX: usize = 64 << 10;

/// A rule as it is stored, also in the state backup: adding a field changes that format
/// (docs/state-backup.md).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Rule {
    pub(crate) id: Option<String>,
    pub(crate) origins: Vec<String>,
    pub(crate) methods: Vec<String>,
    pub(crate) headers: Vec<String>,
    pub(crate) exposed: Vec<String>,
    pub(crate) max_age_s: Option<i32>,
}

impl Rule {
    /// Validates a rule. The error describes the first problem, as AWS does.
    pub(crate) fn check(&self) -> S3Result<()> {
        if self.origins.is_empty() || self.methods.is_empty() {
            return Err(s3_error!(
                MalformedXML,
                "The XML you provided was not well-formed or did not validate against our published schema"
            ));
        }
        if let Some(method) = self.methods.iter().find(|method| !METHODS.contains(&method.as_str())) {
            return Err(s3_error!(InvalidRequest, "Found unsupported HTTP method in CORS config. Unsupported method is {method}"));
        }
        for (what, patterns) in [("AllowedOrigin", &self.origins), ("AllowedHeader", &self.headers)] {
            if let Some(pattern) = patterns.iter().find(|pattern| pattern.matches('*').count() > 1) {
                return Err(s3_error!(InvalidRequest, "{what} \"{pattern}\" can not have more than one wildcard."));
            }
        }
        if let Some(name) = self.exposed.iter().find(|name| name.contains('*')) {
            return Err(s3_error!(
                InvalidRequest,
                "ExposeHeader \"{name}\" contains wildcard. We currently do not support wildcard for ExposeHeader."
            ));
        }
        // These values become response headers.
        let is_plain = |text: &String| text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
        if !self.origins.iter().chain(&self.headers).chain(&self.exposed).all(is_plain) {
            return Err(s3_error!(InvalidRequest, "Names of origins and headers must be ASCII."));
        }
        Ok(())
    }

    fn fits(&self, request: &CrossOriginRequest<'_>) -> bool {
        // The cost is at most one comparison of each requested byte with each pattern, nothing is
        // copied, and both sides are limited.
        let is_allowed = |name: &&str| self.headers.iter().any(|pattern| like_by(pattern, name, <[u8]>::eq_ignore_ascii_case));
        self.methods.iter().any(|method| method == request.method)
            && self.origins.iter().any(|pattern| like(pattern, request.origin))
            && request.headers.iter().all(is_allowed)
    }
}

/// Matches text with a pattern, in which one `*` stands for any text.
fn like(pattern: &str, text: &str) -> bool {
    like_by(pattern, text, |pattern, text| pattern == text)
}

/// [`like`], with another comparison of the text around the asterisk.
fn like_by(pattern: &str, text: &str, equal: fn(&[u8], &[u8]) -> bool) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let Some(star) = pattern.iter().position(|byte| *byte == b'*') else { return equal(pattern, text) };
    let (start, end) = (&pattern[..star], &pattern[star + 1..]);
    text.len() >= start.len() + end.len() && equal(start, &text[..start.len()]) && equal(end, &text[text.len() - end.len()..])
}

/// What rules decide on: a request from a page of another site, or one that a preflight request
/// announces.
struct CrossOriginRequest<'a> {
    origin: &'a str,
    method: &'a str,
    /// The headers that a preflight request announces.
    headers: Vec<&'a str>,
}

pub(crate) struct Cors {
    pub(crate) state: Arc<State>,
    pub(crate) addresses: Arc<Addresses>,
}

impl Cors {
    /// The response to a preflight request; an error if it is incomplete or no rule allows it.
    pub(crate) fn answer_preflight(&self, uri: &Uri, headers: &HeaderMap) -> S3Result<Response<Body>> {
        let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let origin = text(header::ORIGIN).ok_or_else(|| bad_request("Insufficient information. Origin request header needed."))?;
        let method = text(header::ACCESS_CONTROL_REQUEST_METHOD).filter(|method| METHODS.contains(method));
        let method = method.ok_or_else(|| bad_request("Invalid Access-Control-Request-Method."))?;
        let names = text(header::ACCESS_CONTROL_REQUEST_HEADERS).unwrap_or_default();
        if names.len() > PREFLIGHT_HEADERS_BYTES_MAX || names.bytes().filter(|byte| *byte == b',').count() >= PREFLIGHT_HEADERS_MAX {
            return Err(bad_request("Access-Control-Request-Headers names too many headers: up to 128 with 8 KiB are allowed."));
        }
        let names: Vec<&str> = names.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
        let request = CrossOriginRequest { origin, method, headers: names };
        // A missing bucket gives the same response as one without rules, so that strangers can't
        // find out which buckets exist.
        let rules = self.rules(uri, headers)?.ok_or_else(|| forbidden("CORSResponse: CORS is not enabled for this bucket."))?;
        let rule = rules.iter().find(|rule| rule.fits(&request)).ok_or_else(|| {
            forbidden(
                "CORSResponse: This CORS request is not allowed. This is usually because the evalution of Origin, request method / \
                 Access-Control-Request-Method or Access-Control-Request-Headers are not whitelisted by the resource's CORS spec.",
            )
        })?;
        let mut response = Response::new(Body::empty());
        set_headers(rule, &request, response.headers_mut());
        Ok(response)
    }

    /// Adds the headers that let a browser pass a response on, if a rule allows it.
    pub(crate) fn add_headers(&self, method: &Method, uri: &Uri, headers: &HeaderMap, response: &mut Response<Body>) {
        let Some(origin) = headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok()) else { return };
        let request = CrossOriginRequest { origin, method: method.as_str(), headers: Vec::new() };
        // Without the headers the browser refuses access, which is safe.
        let Ok(Some(rules)) = self.rules(uri, headers) else { return };
        match rules.iter().find(|rule| rule.fits(&request)) {
            Some(rule) => set_headers(rule, &request, response.headers_mut()),
            None => vary(response.headers_mut()),
        }
    }

    fn rules(&self, uri: &Uri, headers: &HeaderMap) -> S3Result<Option<Vec<Rule>>> {
        let Some((bucket, _)) = self.addresses.find(uri, headers) else { return Ok(None) };
        let Some(bucket) = self.state.bucket(&bucket).map_err(state_failed)? else { return Ok(None) };
        // Unreadable rules allow nothing.
        Ok(bucket.cors.as_deref().and_then(|text| parse_or_log(&self.state, &bucket.name, text)))
    }
}

/// Parses stored rules. Returns `None` if they are malformed.
pub(crate) fn parse(text: &str) -> Option<Vec<Rule>> {
    serde_json::from_str(text).ok()
}

/// Parses a bucket's stored rules. Logs rules that can't be read.
pub(crate) fn parse_or_log(state: &State, bucket: &str, text: &str) -> Option<Vec<Rule>> {
    let rules = parse(text);
    if rules.is_none() {
        state.note_unreadable(bucket, "CORS configuration", &"the stored rules are malformed");
    }
    rules
}

pub(crate) fn encode(rules: &[Rule]) -> String {
    serde_json::to_string(rules).expect("rules are text and numbers")
}

fn set_headers(rule: &Rule, request: &CrossOriginRequest<'_>, headers: &mut HeaderMap) {
    let mut insert = |name: HeaderName, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    };
    if rule.origins.iter().any(|origin| origin == "*") {
        insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, "*");
    } else {
        insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, request.origin);
        insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, "true");
    }
    insert(header::ACCESS_CONTROL_ALLOW_METHODS, &rule.methods.join(", "));
    if !request.headers.is_empty() {
        insert(header::ACCESS_CONTROL_ALLOW_HEADERS, &request.headers.join(", ").to_ascii_lowercase());
    }
    if !rule.exposed.is_empty() {
        insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, &rule.exposed.join(", "));
    }
    if let Some(seconds) = rule.max_age_s {
        insert(header::ACCESS_CONTROL_MAX_AGE, &seconds.to_string());
    }
    vary(headers);
}

/// Makes caches keep a response per origin.
fn vary(headers: &mut HeaderMap) {
    headers.insert(header::VARY, HeaderValue::from_static("Origin, Access-Control-Request-Headers, Access-Control-Request-Method"));
}

fn bad_request(message: &'static str) -> S3Error {
    custom("BadRequest", StatusCode::BAD_REQUEST, message)
}

fn forbidden(message: &'static str) -> S3Error {
    custom("AccessForbidden", StatusCode::FORBIDDEN, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_star_is_any_text() {
        assert!(like("*", "") && like("http://*.example.org", "http://www.example.org") && like("x-amz-*", "x-amz-date"));
        assert!(!like("http://*.example.org", "http://example.org") && !like("ab*ba", "aba") && !like("a", "ab"));
    }

    fn rule() -> Rule {
        Rule {
            id: None,
            origins: vec!["https://a.example".into()],
            methods: vec!["PUT".into()],
            headers: vec!["X-Amz-*".into()],
            exposed: vec!["ETag".into()],
            max_age_s: Some(60),
        }
    }

    #[test]
    fn a_rule_fits_what_it_allows() {
        let fits =
            |origin: &str, method: &str, headers: &[&str]| rule().fits(&CrossOriginRequest { origin, method, headers: headers.to_vec() });
        assert!(fits("https://a.example", "PUT", &[]) && fits("https://a.example", "PUT", &["x-amz-date", "x-amz-acl"]));
        assert!(!fits("https://b.example", "PUT", &[]) && !fits("https://a.example", "GET", &[]));
        assert!(!fits("https://a.example", "PUT", &["x-amz-date", "content-type"]));
    }

    #[test]
    fn rules_round_trip_and_invalid_ones_are_refused() {
        let rules = vec![rule(), Rule { id: Some("second".into()), max_age_s: None, ..rule() }];
        assert_eq!(parse(&encode(&rules)), Some(rules));
        assert!(rule().check().is_ok());
        for wrong in [
            Rule { origins: vec![], ..rule() },
            Rule { methods: vec!["PATCH".into()], ..rule() },
            Rule { methods: vec!["get".into()], ..rule() },
            Rule { origins: vec!["*.example.*".into()], ..rule() },
            Rule { headers: vec!["*-*".into()], ..rule() },
            Rule { exposed: vec!["*".into()], ..rule() },
            Rule { exposed: vec!["a\r\nb".into()], ..rule() },
        ] {
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
    }
}
