//! Conditions of statements: each applies an operator to a key. Operators and keys of AWS that are
//! not listed here are rejected.
//!
//! ```text
//! "Condition": { operator: { key: value or values } }
//!     operator     compares the key's value: one of the values must match, or none (Not)
//!     ...IfExists  also holds if the request has no such key
//!     Null         tests whether the request has no such key
//! ```

use std::borrow::Cow;
use std::cmp::Ordering;
use std::net::IpAddr;

use s3s::dto::{CopySource, Timestamp, TimestampFormat};

use super::context::{RequestContext, listed, tag};
use super::patterns::{Network, like};
use crate::http::query::parameter;
use crate::s3::version::ms_of;

#[derive(Debug)]
pub(super) struct Condition {
    key: Key,
    test: Test,
    /// Whether no value may match, in place of at least one.
    negated: bool,
    /// Whether the condition holds if the request lacks the key.
    if_exists: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Key {
    SourceIp,
    SecureTransport,
    Referer,
    UserAgent,
    CurrentTime,
    EpochTime,
    VersionId,
    /// A parameter of list requests.
    Parameter(&'static str),
    /// A header that concerns only its request.
    Header(&'static str),
    /// A header that describes the object to be created.
    ObjectHeader(&'static str),
    CopySource,
    ExistingTag(String),
    NewTag(String),
}

#[derive(Debug)]
enum Test {
    Absent(bool),
    Text { values: Vec<String>, fits: fn(&str, &str) -> bool },
    Truth(Vec<bool>),
    Number { values: Vec<f64>, fits: fn(Ordering) -> bool },
    Date { values: Vec<i64>, fits: fn(Ordering) -> bool },
    Address(Vec<Network>),
}

/// Headers that [`Key::ObjectHeader`] tests, by keys of the form `s3:HEADER`. Requests with grants
/// are refused in any case, but policies written for AWS test for them.
const OBJECT_HEADERS: [&str; 12] = [
    "x-amz-acl",
    "x-amz-grant-full-control",
    "x-amz-grant-read",
    "x-amz-grant-read-acp",
    "x-amz-grant-write",
    "x-amz-grant-write-acp",
    "x-amz-metadata-directive",
    "x-amz-server-side-encryption",
    "x-amz-server-side-encryption-aws-kms-key-id",
    "x-amz-server-side-encryption-customer-algorithm",
    "x-amz-storage-class",
    "x-amz-website-redirect-location",
];

impl Key {
    /// Parses a key. As in AWS, keys are case-insensitive except for the names of tags.
    fn parse(text: &str) -> Option<Self> {
        if let Some((kind, name)) = text.split_once('/') {
            return match kind.to_ascii_lowercase().as_str() {
                "s3:existingobjecttag" if !name.is_empty() => Some(Self::ExistingTag(name.to_owned())),
                "s3:requestobjecttag" if !name.is_empty() => Some(Self::NewTag(name.to_owned())),
                _ => None,
            };
        }
        let name = text.to_ascii_lowercase();
        if let Some(header) = name.strip_prefix("s3:").and_then(|name| OBJECT_HEADERS.into_iter().find(|header| *header == name)) {
            return Some(Self::ObjectHeader(header));
        }
        Some(match name.as_str() {
            "aws:sourceip" => Self::SourceIp,
            "aws:securetransport" => Self::SecureTransport,
            "aws:referer" => Self::Referer,
            "aws:useragent" => Self::UserAgent,
            "aws:currenttime" => Self::CurrentTime,
            "aws:epochtime" => Self::EpochTime,
            "s3:versionid" => Self::VersionId,
            "s3:prefix" => Self::Parameter("prefix"),
            "s3:delimiter" => Self::Parameter("delimiter"),
            "s3:max-keys" => Self::Parameter("max-keys"),
            "s3:if-match" => Self::Header("if-match"),
            "s3:if-none-match" => Self::Header("if-none-match"),
            "s3:x-amz-content-sha256" => Self::Header("x-amz-content-sha256"),
            "s3:x-amz-copy-source" => Self::CopySource,
            _ => return None,
        })
    }

    /// The value of the key in a request.
    fn value<'a>(&self, context: &RequestContext<'a>) -> Option<Cow<'a, str>> {
        let header = |name: &str| listed(context.headers?, name).map(Cow::Owned);
        match self {
            Self::SourceIp => context.origin.peer.map(|peer| peer.to_canonical().to_string().into()),
            Self::SecureTransport => Some(if context.origin.is_tls { "true" } else { "false" }.into()),
            Self::Referer => context.origin.referer(),
            Self::UserAgent => context.origin.user_agent(),
            Self::CurrentTime | Self::EpochTime => Some((context.now_ms / 1_000).to_string().into()),
            Self::VersionId => context.version_id.map(Cow::Borrowed),
            Self::Parameter(name) => parameter(context.query, name).map(Cow::Owned),
            Self::Header(name) | Self::ObjectHeader(name) => header(name),
            // Normalizes to `bucket/key`. The copy operation rejects a source that can't be parsed.
            Self::CopySource => {
                let source: Cow<'_, str> = header("x-amz-copy-source")?;
                match CopySource::parse(&source) {
                    Ok(CopySource::Bucket { bucket, key, .. }) => Some(format!("{bucket}/{key}").into()),
                    _ => Some(source.into_owned().into()),
                }
            }
            Self::ExistingTag(name) => tag(context.tags, name).map(Cow::Owned),
            Self::NewTag(name) => tag(context.new_tags, name).map(Cow::Owned),
        }
    }

    /// Whether the value is sent when a multipart upload is created, and not with its parts.
    fn is_set_at_creation(&self) -> bool {
        matches!(self, Self::ObjectHeader(_) | Self::NewTag(_))
    }
}

impl Condition {
    pub(super) fn parse(operator: &str, key: &str, values: &[&str]) -> Option<Self> {
        let key = Key::parse(key)?;
        let (name, if_exists) = operator.strip_suffix("IfExists").map_or((operator, false), |name| (name, true));
        let negated = name.contains("Not");
        let number = |operator| Some(Test::Number { values: parse_all(values, |value| value.parse().ok())?, fits: comparison(operator)? });
        let date = |operator| Some(Test::Date { values: parse_all(values, date_ms)?, fits: comparison(operator)? });
        // A copy source may start with a slash.
        let plain =
            |value: &str| if key == Key::CopySource { value.strip_prefix('/').unwrap_or(value).to_owned() } else { value.to_owned() };
        let text = |fits| Some(Test::Text { values: parse_all(values, |value| Some(plain(value)))?, fits });
        let test = match (name, &key) {
            ("Null", _) if if_exists => None,
            ("Null", _) => match values {
                [one] => truth(one).map(Test::Absent),
                _ => None,
            },
            ("IpAddress" | "NotIpAddress", Key::SourceIp) => parse_all(values, Network::parse).map(Test::Address),
            // Addresses and times must not be compared as text.
            (_, Key::SourceIp) => None,
            (_, Key::CurrentTime | Key::EpochTime) if name.starts_with("Date") => date(&name["Date".len()..]),
            (_, Key::CurrentTime) => None,
            (_, Key::EpochTime | Key::Parameter("max-keys")) if name.starts_with("Numeric") => number(&name["Numeric".len()..]),
            (_, Key::EpochTime) => None,
            ("Bool", Key::SecureTransport) => parse_all(values, truth).map(Test::Truth),
            ("StringEquals" | "StringNotEquals", _) => text(|actual, expected| actual == expected),
            ("StringEqualsIgnoreCase" | "StringNotEqualsIgnoreCase", _) => {
                text(|actual, expected| actual.to_lowercase() == expected.to_lowercase())
            }
            ("StringLike" | "StringNotLike", _) => text(|actual, expected| like(expected, actual)),
            _ => None,
        }?;
        Some(Self { key, test, negated, if_exists })
    }

    pub(super) fn asks_tags(&self) -> bool {
        matches!(self.key, Key::ExistingTag(_))
    }

    pub(super) fn asks_new_tags(&self) -> bool {
        matches!(self.key, Key::NewTag(_))
    }

    /// Whether AWS counts a statement for everyone as not public because of this condition: it
    /// requires a network that isn't too large.
    pub(super) fn is_narrow(&self) -> bool {
        let Test::Address(networks) = &self.test else { return false };
        !self.negated && !self.if_exists && networks.iter().all(|network| !network.is_broad())
    }

    /// Whether the condition holds, in a statement that allows or denies.
    pub(super) fn holds(&self, context: &RequestContext<'_>, allows: bool) -> bool {
        // Checked when the upload was created: now it neither voids an allowance nor denies.
        if context.continues_upload && self.key.is_set_at_creation() {
            return allows;
        }
        let value = self.key.value(context);
        if let Test::Absent(expected) = self.test {
            return value.is_none() == expected;
        }
        match value {
            // A missing value equals nothing.
            None => self.if_exists || self.negated,
            Some(value) => self.test.fits(&value) != self.negated,
        }
    }
}

impl Test {
    fn fits(&self, value: &str) -> bool {
        match self {
            Self::Absent(_) => false,
            Self::Text { values, fits } => values.iter().any(|expected| fits(value, expected)),
            Self::Truth(values) => truth(value).is_some_and(|value| values.contains(&value)),
            Self::Number { values, fits } => {
                value.parse().is_ok_and(|number: f64| values.iter().any(|expected| number.partial_cmp(expected).is_some_and(fits)))
            }
            Self::Date { values, fits } => date_ms(value).is_some_and(|date| values.iter().any(|expected| fits(date.cmp(expected)))),
            Self::Address(networks) => value.parse().is_ok_and(|peer: IpAddr| networks.iter().any(|network| network.contains(peer))),
        }
    }
}

/// The comparison that an operator names, without its prefix `Numeric` or `Date`. It gets the order
/// of the request's value and the condition's.
fn comparison(operator: &str) -> Option<fn(Ordering) -> bool> {
    Some(match operator {
        "Equals" | "NotEquals" => Ordering::is_eq,
        "LessThan" => Ordering::is_lt,
        "LessThanEquals" => Ordering::is_le,
        "GreaterThan" => Ordering::is_gt,
        "GreaterThanEquals" => Ordering::is_ge,
        _ => return None,
    })
}

fn parse_all<'a, T>(values: &[&'a str], read: impl Fn(&'a str) -> Option<T>) -> Option<Vec<T>> {
    if values.is_empty() {
        return None;
    }
    values.iter().map(|value| read(value)).collect()
}

fn truth(text: &str) -> Option<bool> {
    [true, false].into_iter().find(|truth| text.eq_ignore_ascii_case(if *truth { "true" } else { "false" }))
}

/// Parses an ISO 8601 time, a day, or seconds since 1970; returns milliseconds.
fn date_ms(text: &str) -> Option<i64> {
    if let Ok(seconds) = text.parse::<i64>() {
        return seconds.checked_mul(1_000);
    }
    let text = if text.len() == "2026-01-01".len() { format!("{text}T00:00:00Z") } else { text.to_owned() };
    Timestamp::parse(TimestampFormat::DateTime, &text).ok().map(|time| ms_of(&time))
}
