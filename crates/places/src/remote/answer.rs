//! What an HTTP answer other than success means.
//!
//! Providers put the reason in different places: S3 in an XML body, Azure in a header, Google in
//! JSON. The code found there decides, if it is known; the status decides otherwise.

use std::time::{Duration, SystemTime};

use http::header::{CONTENT_LENGTH, DATE, HeaderMap, LOCATION, RETRY_AFTER};
use http::{Method, StatusCode};

use super::super::{Cause, Refusal};

/// Longest part of a provider's message that a refusal repeats, in characters.
const MESSAGE_CHARS: usize = 300;

/// The parts of an answer that tell why something was refused.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    pub(super) method: Method,
    pub(super) status: StatusCode,
    /// The length that the answer states.
    pub(super) bytes: Option<u64>,
    retry_after: Option<Duration>,
    /// The server's clock minus ours, in seconds.
    clock_skew_s: Option<i64>,
    /// The provider's error code, such as `NoSuchKey`.
    code: Option<String>,
    message: Option<String>,
    location: Option<String>,
}

impl Answer {
    /// `now` is this machine's time.
    pub(super) fn new(method: Method, status: StatusCode, headers: &HeaderMap, body: &[u8], now: SystemTime) -> Self {
        let text = |name| headers.get(name).and_then(|value: &http::HeaderValue| value.to_str().ok());
        let server_time = text(DATE).and_then(|date| httpdate::parse_http_date(date).ok());
        let (code, message) = if status.is_success() { (None, None) } else { reason(headers, body) };
        Self {
            method,
            status,
            bytes: text(CONTENT_LENGTH).and_then(|bytes| bytes.parse().ok()),
            // A date is compared with the server's own clock: a wrong one here does no harm.
            retry_after: text(RETRY_AFTER).and_then(|value| wait(value, server_time.unwrap_or(now))),
            clock_skew_s: server_time.map(|server| seconds_between(now, server)),
            code,
            message,
            location: text(LOCATION).map(without_query),
        }
    }

    /// True if the provider itself says that the key does not exist, in a place that does.
    pub(super) fn names_the_key(&self) -> bool {
        match self.code.as_deref() {
            Some("NoSuchKey" | "BlobNotFound") => true,
            // Google states it in words only.
            _ => self.message.as_deref().is_some_and(|message| message.starts_with("No such object")),
        }
    }

    /// True for a refusal of HEAD without a code: its answer has no body that could say more.
    pub(super) fn lacks_reason(&self) -> bool {
        self.method == Method::HEAD && self.code.is_none() && (self.status.is_client_error() || self.status.is_redirection())
    }

    pub(super) fn refusal(&self) -> Refusal {
        let (cause, hint) = self.cause();
        let mut detail = format!("{} was answered with {}", self.method, self.status.as_u16());
        if let Some(code) = &self.code {
            detail.push_str(&format!(" {code}"));
        }
        if let Some(location) = self.location.as_ref().filter(|_| self.status.is_redirection()) {
            detail.push_str(&format!(", a redirect to {location}"));
        }
        if let Some(message) = &self.message {
            detail.push_str(&format!(": {message}"));
        }
        if !hint.is_empty() {
            detail.push_str(&format!("; {hint}"));
        }
        if self.code.as_deref() == Some("RequestTimeTooSkewed")
            && let Some(skew) = self.clock_skew_s
        {
            detail.push_str(&format!(" (they differ by {} s)", skew.unsigned_abs()));
        }
        Refusal::new(cause, detail)
    }

    /// The cause, and what an operator should know or do.
    fn cause(&self) -> (Cause, &'static str) {
        let throttled = Cause::Throttled { retry_after: self.retry_after };
        match self.code.as_deref().unwrap_or_default() {
            "NoSuchKey" | "BlobNotFound" => (Cause::Missing, ""),
            "NoSuchBucket" | "ContainerNotFound" | "ContainerBeingDeleted" | "ContainerDisabled" | "NoSuchContainer" => {
                (Cause::Fault, "the bucket or container does not exist; check its name and the endpoint")
            }
            "ExpiredToken" | "TokenRefreshRequired" | "RequestExpired" | "ExpiredTokenException" | "expired_auth_token" => {
                (Cause::Denied, "the credentials have expired; renew them")
            }
            "RequestTimeTooSkewed" => (Cause::Denied, "the clocks of this machine and of the place differ; set the wrong one"),
            "InvalidAccessKeyId" | "SignatureDoesNotMatch" | "InvalidToken" | "AuthenticationFailed" | "bad_auth_token" => {
                (Cause::Denied, "check the credentials")
            }
            "InvalidObjectState" | "BlobArchived" => (Cause::Unsupported, "the file is in a cold storage class; restore it first"),
            "AccessDenied" if self.status == StatusCode::FORBIDDEN => {
                (Cause::Denied, "S3 answers this for missing files too, unless listing the bucket is permitted")
            }
            "AccessDenied" | "AccountProblem" | "AllAccessDisabled" | "NotSignedUp" | "InvalidSecurity" => (Cause::Denied, ""),
            "SlowDown"
            | "Throttling"
            | "ThrottlingException"
            | "RequestLimitExceeded"
            | "TooManyRequests"
            | "ServerBusy"
            | "BandwidthLimitExceeded"
            | "RequestThrottled" => (throttled, ""),
            "RequestTimeout" | "OperationTimedOut" => (Cause::TimedOut, ""),
            "PermanentRedirect" | "TemporaryRedirect" | "AuthorizationHeaderMalformed" | "InvalidRegion" => {
                (Cause::Unsupported, "check the endpoint and the region")
            }
            _ => match self.status.as_u16() {
                300..=399 => (Cause::Unsupported, "check the endpoint and the region"),
                401 | 403 | 407 | 511 => (Cause::Denied, ""),
                404 | 410 => (Cause::Missing, ""),
                408 => (Cause::TimedOut, ""),
                409 | 423 | 425 => (Cause::Fault, ""),
                429 | 503 => (throttled, ""),
                500..=599 => (Cause::Fault, ""),
                200..=299 => (Cause::Fault, "the answer is not what was asked for"),
                _ => (Cause::Unsupported, ""),
            },
        }
    }
}

/// `later - earlier` in seconds, of either sign.
fn seconds_between(earlier: SystemTime, later: SystemTime) -> i64 {
    let seconds = |duration: Duration| i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    later.duration_since(earlier).map_or_else(|error| -seconds(error.duration()), seconds)
}

/// The longest wait that a server may ask for.
const WAIT_MAX: Duration = Duration::from_secs(86_400);

/// Reads Retry-After, which is a number of seconds or a date.
fn wait(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds).min(WAIT_MAX));
    }
    let until = httpdate::parse_http_date(value).ok()?;
    // A date in the past permits a retry at once.
    Some(until.duration_since(now).unwrap_or_default().min(WAIT_MAX))
}

/// Error code and message of the provider.
fn reason(headers: &HeaderMap, body: &[u8]) -> (Option<String>, Option<String>) {
    let header = ["x-ms-error-code", "x-amz-error-code"].iter().find_map(|name| headers.get(*name)?.to_str().ok());
    let text = String::from_utf8_lossy(body);
    let (code, message) = if text.trim_start().starts_with('<') {
        (between(&text, "<Code>", "</Code>"), between(&text, "<Message>", "</Message>"))
    } else if text.trim_start().starts_with('{') {
        (json_string(&text, "code"), json_string(&text, "message"))
    } else {
        (None, Some(text.trim()))
    };
    let code = header.or(code).filter(|code| code.len() <= 64 && code.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c)));
    (code.map(str::to_owned), message.map(printable).filter(|message| !message.is_empty()))
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<&'a str> {
    let from = text.find(start)? + start.len();
    let length = text[from..].find(end)?;
    Some(text[from..from + length].trim())
}

/// The value of the first string member `name`. Enough for error answers, whose strings need no
/// unescaping to be understood.
fn json_string<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let member = format!("\"{name}\"");
    text.match_indices(&member).find_map(|(at, _)| {
        let value = text[at + member.len()..].trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
        Some(&value[..value.find('"')?])
    })
}

/// The beginning of a message, on one line.
fn printable(message: &str) -> String {
    let clean = |c: char| if c.is_control() { ' ' } else { c };
    let mut text: String = message.chars().take(MESSAGE_CHARS).map(clean).collect();
    if message.chars().nth(MESSAGE_CHARS).is_some() {
        text.push('…');
    }
    text.trim().to_owned()
}

/// A URL without its query, which may contain a signature, and without user information.
pub(super) fn without_query(url: &str) -> String {
    let plain = url.split(['?', '#']).next().unwrap_or_default();
    let plain = match plain.split_once("://") {
        Some((scheme, rest)) => {
            let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
            let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
            format!("{scheme}://{host}{path}")
        }
        None => plain.to_owned(),
    };
    printable(&plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(http::HeaderName::try_from(*name).expect("a name of this test"), value.parse().expect("a value of this test"));
        }
        let now = httpdate::parse_http_date("Wed, 25 Nov 2026 08:00:00 GMT").expect("a date of this test");
        Answer::new(Method::GET, StatusCode::from_u16(status).expect("a status of this test"), &map, body.as_bytes(), now)
    }

    fn xml(code: &str) -> String {
        format!("<?xml version=\"1.0\"?>\n<Error><Code>{code}</Code><Message>why</Message></Error>")
    }

    #[test]
    fn codes_of_providers_override_the_status() {
        let throttled = Cause::Throttled { retry_after: None };
        for (status, code, cause) in [
            (404, "NoSuchKey", Cause::Missing),
            (404, "NoSuchBucket", Cause::Fault),
            (400, "ExpiredToken", Cause::Denied),
            (403, "RequestTimeTooSkewed", Cause::Denied),
            (403, "InvalidAccessKeyId", Cause::Denied),
            (403, "SignatureDoesNotMatch", Cause::Denied),
            (403, "InvalidObjectState", Cause::Unsupported),
            (403, "AccessDenied", Cause::Denied),
            (400, "AuthorizationHeaderMalformed", Cause::Unsupported),
            (400, "RequestTimeout", Cause::TimedOut),
            (503, "SlowDown", throttled),
            (500, "InternalError", Cause::Fault),
            (418, "Unheard", Cause::Unsupported),
        ] {
            let refusal = answer(status, &[], &xml(code)).refusal();
            assert_eq!(refusal.cause, cause, "{code}");
            assert!(refusal.detail.contains(code) && refusal.detail.contains("why"), "{}", refusal.detail);
        }
        assert_eq!(answer(404, &[("x-ms-error-code", "ContainerNotFound")], "").refusal().cause, Cause::Fault);
        assert_eq!(answer(404, &[("x-ms-error-code", "BlobNotFound")], "").refusal().cause, Cause::Missing);
    }

    #[test]
    fn a_status_without_a_code_decides() {
        for (status, cause) in [
            (301, Cause::Unsupported),
            (401, Cause::Denied),
            (403, Cause::Denied),
            (404, Cause::Missing),
            (408, Cause::TimedOut),
            (429, Cause::Throttled { retry_after: None }),
            (500, Cause::Fault),
            (502, Cause::Fault),
            (503, Cause::Throttled { retry_after: None }),
            (507, Cause::Fault),
        ] {
            assert_eq!(answer(status, &[], "").refusal().cause, cause, "{status}");
        }
    }

    #[test]
    fn retry_after_is_read_as_seconds_and_as_a_date() {
        let wait = |headers: &[(&str, &str)]| match answer(429, headers, "").refusal().cause {
            Cause::Throttled { retry_after } => retry_after.map(|wait| wait.as_secs()),
            other => panic!("{other}"),
        };
        assert_eq!(wait(&[("retry-after", "17")]), Some(17));
        assert_eq!(wait(&[("retry-after", "Wed, 25 Nov 2026 08:01:30 GMT")]), Some(90));
        // The server's clock is 60 s ahead of ours.
        let date = ("date", "Wed, 25 Nov 2026 08:01:00 GMT");
        assert_eq!(wait(&[("retry-after", "Wed, 25 Nov 2026 08:01:30 GMT"), date]), Some(30));
        assert_eq!(wait(&[("retry-after", "Wed, 25 Nov 2020 08:01:30 GMT")]), Some(0));
        assert_eq!(wait(&[("retry-after", "-1")]), None);
        assert_eq!(wait(&[("retry-after", "99999999999999999999999")]), None);
        assert_eq!(wait(&[("retry-after", "soon")]), None);
    }

    #[test]
    fn a_clock_that_is_wrong_is_named() {
        let detail = answer(403, &[("date", "Wed, 25 Nov 2026 09:00:00 GMT")], &xml("RequestTimeTooSkewed")).refusal().detail;
        assert!(detail.contains("clocks") && detail.contains("3600 s"), "{detail}");
    }

    #[test]
    fn messages_of_google_and_b2_are_read() {
        let google = answer(404, &[], "No such object: bucket/key");
        assert!(google.names_the_key());
        let google = answer(404, &[], r#"{"error": {"code": 404, "message": "The specified bucket does not exist."}}"#);
        assert!(!google.names_the_key() && google.refusal().detail.contains("specified bucket"), "{google:?}");
        let b2 = answer(401, &[], r#"{"code": "expired_auth_token", "message": "m", "status": 401}"#);
        assert!(b2.refusal().detail.contains("expired"), "{b2:?}");
    }

    #[test]
    fn hostile_messages_are_shortened_and_stay_on_one_line() {
        let detail = answer(500, &[], &format!("a\u{1b}[2J\r\n{}", "ü".repeat(10_000))).refusal().detail;
        assert!(detail.chars().count() < 400 && !detail.contains(char::is_control), "{detail}");
        assert!(answer(500, &[], "<Code>").refusal().detail.ends_with("500"));
        assert!(answer(500, &[], "{\"code\":\"").refusal().detail.ends_with("500"));
    }

    #[test]
    fn queries_and_user_information_never_show() {
        assert_eq!(without_query("https://u:secret@host/p/a?X-Amz-Signature=secret#f"), "https://host/p/a");
        assert_eq!(without_query("/p?token=secret"), "/p");
        assert_eq!(without_query("https://u:secret@host"), "https://host");
    }
}
