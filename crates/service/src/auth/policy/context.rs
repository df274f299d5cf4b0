//! The context of a request, which conditions of policies test.

use std::borrow::Cow;
use std::net::IpAddr;

use http::{HeaderMap, HeaderValue, header};
use s3s::dto::Tag;

/// Where a request comes from, and how its client describes itself. It applies to everything that
/// the request does.
#[derive(Debug, Clone, Default)]
pub(crate) struct Origin {
    pub(crate) peer: Option<IpAddr>,
    /// Whether the server terminates TLS on the connection.
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

/// The context of one action of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestContext<'a> {
    pub(crate) origin: &'a Origin,
    pub(crate) now_ms: i64,
    pub(crate) query: Option<&'a str>,
    pub(crate) headers: Option<&'a HeaderMap>,
    pub(crate) version_id: Option<&'a str>,
    /// Whether the request continues a multipart upload. Conditions on the new object were checked
    /// when the upload was created.
    pub(crate) continues_upload: bool,
    /// Tags that the object gets.
    pub(crate) new_tags: &'a [Tag],
    /// Tags that the object has.
    pub(crate) tags: &'a [Tag],
}

impl<'a> RequestContext<'a> {
    /// The part of the context that all actions of a request share.
    pub(crate) fn of(origin: &'a Origin, now_ms: i64) -> Self {
        Self { origin, now_ms, query: None, headers: None, version_id: None, continues_upload: false, new_tags: &[], tags: &[] }
    }
}

/// All values of a header as one list; `None` if it is absent. A value that isn't UTF-8 counts too,
/// since a denial may test whether the header is absent.
pub(super) fn listed(headers: &HeaderMap, name: &str) -> Option<String> {
    let values: Vec<_> = headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
    (!values.is_empty()).then(|| values.join(","))
}

pub(super) fn tag(tags: &[Tag], name: &str) -> Option<String> {
    tags.iter().find(|tag| tag.key.as_deref() == Some(name)).map(|tag| tag.value.clone().unwrap_or_default())
}
