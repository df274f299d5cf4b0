//! What requests say that conditions ask about.

use std::borrow::Cow;
use std::net::IpAddr;

use http::{HeaderMap, HeaderValue, header};
use s3s::dto::Tag;

/// Where a request comes from, and what it says of its client. It is the same for all that one request does.
#[derive(Debug, Clone, Default)]
pub(crate) struct Origin {
    /// Whoever opened the connection.
    pub(crate) peer: Option<IpAddr>,
    /// Whether the connection is our own TLS.
    pub(crate) is_tls: bool,
    referer: Option<HeaderValue>,
    user_agent: Option<HeaderValue>,
}

impl Origin {
    pub(crate) fn new(peer: Option<IpAddr>, is_tls: bool, headers: &HeaderMap) -> Self {
        Self { peer, is_tls, referer: headers.get(header::REFERER).cloned(), user_agent: headers.get(header::USER_AGENT).cloned() }
    }

    pub(super) fn referer(&self) -> Option<Cow<'_, str>> {
        self.referer.as_ref().map(|value| String::from_utf8_lossy(value.as_bytes()))
    }

    pub(super) fn user_agent(&self) -> Option<Cow<'_, str>> {
        self.user_agent.as_ref().map(|value| String::from_utf8_lossy(value.as_bytes()))
    }
}

/// What a request says of one thing that it does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts<'a> {
    pub(crate) origin: &'a Origin,
    /// Now, in milliseconds since 1970.
    pub(crate) now_ms: i64,
    pub(crate) query: Option<&'a str>,
    pub(crate) headers: Option<&'a HeaderMap>,
    /// The version that it names.
    pub(crate) version_id: Option<&'a str>,
    /// It goes on with an upload in parts. What is said of the object was said, and asked about, when the upload was begun.
    pub(crate) goes_on: bool,
    /// Tags that the object gets.
    pub(crate) new_tags: &'a [Tag],
    /// Tags that the object has.
    pub(crate) tags: &'a [Tag],
}

impl<'a> Facts<'a> {
    /// What is known of all that a request does.
    pub(crate) fn of(origin: &'a Origin, now_ms: i64) -> Self {
        Self { origin, now_ms, query: None, headers: None, version_id: None, goes_on: false, new_tags: &[], tags: &[] }
    }
}

/// A parameter of a query, decoded. Names may be encoded as well as values. One that can't be decoded counts as it stands, and never as absent: a
/// denial may ask about it. (Requests with such a query are refused before.)
pub(crate) fn parameter(query: Option<&str>, name: &str) -> Option<String> {
    let pairs = query?.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let value = pairs.into_iter().find_map(|(key, value)| (crate::s3::tags::decode(key).as_deref() == Some(name)).then_some(value))?;
    Some(crate::s3::tags::decode(value).unwrap_or_else(|| value.to_owned()))
}

/// All values of a header as one list; none where it isn't there. What is no UTF-8 counts too, for a denial may ask whether the header is absent.
pub(super) fn listed(headers: &HeaderMap, name: &str) -> Option<String> {
    let values: Vec<_> = headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
    (!values.is_empty()).then(|| values.join(","))
}

/// Whether a query has a parameter, with a value or none. Its name may be encoded.
pub(crate) fn has_parameter(query: Option<&str>, name: &str) -> bool {
    let mut names = query.unwrap_or_default().split('&').map(|pair| pair.split_once('=').map_or(pair, |(name, _)| name));
    names.any(|found| found == name || (found.contains('%') && crate::s3::tags::decode(found).as_deref() == Some(name)))
}

/// The value of a tag.
pub(super) fn tag(tags: &[Tag], name: &str) -> Option<String> {
    tags.iter().find(|tag| tag.key.as_deref() == Some(name)).map(|tag| tag.value.clone().unwrap_or_default())
}
