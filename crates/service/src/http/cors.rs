//! What pages of other sites may do (CORS): the rules of a bucket, the question that a browser asks before, and the headers it wants to see after.
//!
//! A rule gives nobody rights. It lets the browser of somebody who has them pass an answer on to a page.
//!
//! ```text
//! OPTIONS, Origin, Access-Control-Request-Method, -Headers -> the first rule that fits -> 200 with its headers, or 403
//! any request with Origin -> its answer, with the headers of the first rule that fits, if there is one
//! ```

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Uri, header};
use s3s::{Body, S3Error, S3Result, s3_error};
use serde::{Deserialize, Serialize};

use crate::http::addressing::Addresses;
use crate::s3::errors::{custom, state_failed};
use crate::state::State;

/// Methods that a rule may allow.
const METHODS: [&str; 5] = ["GET", "PUT", "HEAD", "POST", "DELETE"];
/// The most rules of a bucket.
pub(crate) const RULES_MAX: usize = 100;
/// The most headers that a browser may ask for, and their bytes.
const ASKED_MAX: usize = 128;
const ASKED_BYTES_MAX: usize = 8 << 10;
/// The most that they may be together as they are kept, as with AWS.
pub(crate) const RULES_BYTES_MAX: usize = 64 << 10;

/// A rule, as it is kept, also in the copy that lies in the archive: what is added here makes another format of it (docs/service-copy.md).
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
    /// Whether a rule can be one.
    ///
    /// # Errors
    /// What is wrong with it.
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
        // They become headers of answers.
        let is_plain = |text: &String| text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
        if !self.origins.iter().chain(&self.headers).chain(&self.exposed).all(is_plain) {
            return Err(s3_error!(InvalidRequest, "Names of origins and headers are ASCII."));
        }
        Ok(())
    }

    fn fits(&self, asked: &Asked<'_>) -> bool {
        // At most every byte asked for is compared with every pattern: both are bounded, and nothing is copied.
        let is_allowed = |name: &&str| self.headers.iter().any(|pattern| like_header(pattern, name));
        self.methods.iter().any(|method| method == asked.method)
            && self.origins.iter().any(|pattern| like(pattern, asked.origin))
            && asked.headers.iter().all(is_allowed)
    }
}

/// Whether text is like a pattern, where one `*` is any text.
fn like(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, end)) => text.len() >= start.len() + end.len() && text.starts_with(start) && text.ends_with(end),
    }
}

/// The same for names of headers, which have no case.
fn like_header(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let Some(star) = pattern.iter().position(|byte| *byte == b'*') else { return pattern.eq_ignore_ascii_case(name) };
    let (start, end) = (&pattern[..star], &pattern[star + 1..]);
    name.len() >= start.len() + end.len()
        && name[..start.len()].eq_ignore_ascii_case(start)
        && name[name.len() - end.len()..].eq_ignore_ascii_case(end)
}

/// What a browser asks.
struct Asked<'a> {
    origin: &'a str,
    method: &'a str,
    headers: Vec<&'a str>,
}

/// Answers browsers.
pub(crate) struct Cors {
    pub(crate) state: Arc<State>,
    pub(crate) addresses: Arc<Addresses>,
}

impl Cors {
    /// The answer to what a browser asks before a request.
    ///
    /// # Errors
    /// That it asks for nothing, or for what no rule allows.
    pub(crate) fn before(&self, uri: &Uri, headers: &HeaderMap) -> S3Result<Response<Body>> {
        let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let Some(origin) = text(header::ORIGIN) else {
            return Err(bad("Insufficient information. Origin request header needed."));
        };
        let Some(method) = text(header::ACCESS_CONTROL_REQUEST_METHOD).filter(|method| METHODS.contains(method)) else {
            return Err(bad("Invalid Access-Control-Request-Method."));
        };
        let names = text(header::ACCESS_CONTROL_REQUEST_HEADERS).unwrap_or_default();
        if names.len() > ASKED_BYTES_MAX || names.bytes().filter(|byte| *byte == b',').count() >= ASKED_MAX {
            return Err(bad("Access-Control-Request-Headers names too many headers: up to 128 with 8 KiB are allowed."));
        }
        let names: Vec<&str> = names.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
        let asked = Asked { origin, method, headers: names };
        // A bucket that isn't there has no rules either: strangers are not told what there is.
        let rules = self.rules(uri, headers)?.ok_or_else(|| forbidden("CORSResponse: CORS is not enabled for this bucket."))?;
        let Some(rule) = rules.iter().find(|rule| rule.fits(&asked)) else {
            return Err(forbidden(
                "CORSResponse: This CORS request is not allowed. This is usually because the evalution of Origin, request method / \
                 Access-Control-Request-Method or Access-Control-Request-Headers are not whitelisted by the resource's CORS spec.",
            ));
        };
        let mut response = Response::new(Body::empty());
        tell(rule, &asked, response.headers_mut());
        Ok(response)
    }

    /// Adds to an answer what its browser has to know.
    pub(crate) fn after(&self, method: &Method, uri: &Uri, headers: &HeaderMap, answer: &mut Response<Body>) {
        let Some(origin) = headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok()) else { return };
        let asked = Asked { origin, method: method.as_str(), headers: Vec::new() };
        // Without it the browser says no, which is the safe side.
        let Ok(Some(rules)) = self.rules(uri, headers) else { return };
        match rules.iter().find(|rule| rule.fits(&asked)) {
            Some(rule) => tell(rule, &asked, answer.headers_mut()),
            None => vary(answer.headers_mut()),
        }
    }

    fn rules(&self, uri: &Uri, headers: &HeaderMap) -> S3Result<Option<Vec<Rule>>> {
        let Some((bucket, _)) = self.addresses.find(uri, headers) else { return Ok(None) };
        let Some(bucket) = self.state.bucket(&bucket).map_err(state_failed)? else { return Ok(None) };
        // Rules that can't be read let no page in.
        Ok(bucket.cors.as_deref().and_then(|text| parse_noting(&self.state, &bucket.name, text)))
    }
}

/// Rules as they are kept.
pub(crate) fn parse(text: &str) -> Option<Vec<Rule>> {
    serde_json::from_str(text).ok()
}

/// Rules as they are kept by a bucket. That they can't be read is noted.
pub(crate) fn parse_noting(state: &State, bucket: &str, text: &str) -> Option<Vec<Rule>> {
    let rules = parse(text);
    if rules.is_none() {
        state.note_unreadable(bucket, "CORS configuration", &"it is not as it was stored");
    }
    rules
}

/// Rules for keeping.
pub(crate) fn encode(rules: &[Rule]) -> String {
    serde_json::to_string(rules).expect("rules are text and numbers")
}

fn tell(rule: &Rule, asked: &Asked<'_>, headers: &mut HeaderMap) {
    let mut insert = |name: HeaderName, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    };
    if rule.origins.iter().any(|origin| origin == "*") {
        insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, "*");
    } else {
        insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, asked.origin);
        insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, "true");
    }
    insert(header::ACCESS_CONTROL_ALLOW_METHODS, &rule.methods.join(", "));
    if !asked.headers.is_empty() {
        insert(header::ACCESS_CONTROL_ALLOW_HEADERS, &asked.headers.join(", ").to_ascii_lowercase());
    }
    if !rule.exposed.is_empty() {
        insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, &rule.exposed.join(", "));
    }
    if let Some(seconds) = rule.max_age_s {
        insert(header::ACCESS_CONTROL_MAX_AGE, &seconds.to_string());
    }
    vary(headers);
}

/// Whoever keeps answers has to ask again for another site.
fn vary(headers: &mut HeaderMap) {
    headers.insert(header::VARY, HeaderValue::from_static("Origin, Access-Control-Request-Headers, Access-Control-Request-Method"));
}

fn bad(message: &'static str) -> S3Error {
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
        let fits = |origin: &str, method: &str, headers: &[&str]| rule().fits(&Asked { origin, method, headers: headers.to_vec() });
        assert!(fits("https://a.example", "PUT", &[]) && fits("https://a.example", "PUT", &["x-amz-date", "x-amz-acl"]));
        assert!(!fits("https://b.example", "PUT", &[]) && !fits("https://a.example", "GET", &[]));
        assert!(!fits("https://a.example", "PUT", &["x-amz-date", "content-type"]));
    }

    #[test]
    fn rules_come_back_as_they_were_and_wrong_ones_are_refused() {
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
