//! Finds the bucket that a request addresses, by its path (path style) or its host (virtual-hosted
//! style): for code that runs before the framework, and by its host for the framework too.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use http::{HeaderMap, Uri, header};
use s3s::host::{S3Host, SingleDomain, VirtualHost};
use s3s::{S3Result, s3_error};

use crate::auth::caller::Peer;
use crate::http::url_encoding;

/// A domain whose subdomains address buckets. Host names are compared without case and without
/// port.
#[derive(Debug, Clone)]
pub(crate) struct Domain(String);

impl Domain {
    /// Parses a domain, with or without a port. `None` if it is invalid.
    pub(crate) fn new(name: &str) -> Option<Self> {
        SingleDomain::new(name).ok().map(|_| Self(without_port(name).to_ascii_lowercase()))
    }
}

impl S3Host for Domain {
    fn parse_host_header<'a>(&'a self, host: &'a str) -> S3Result<VirtualHost<'a>> {
        let known = VirtualHost::new(self.0.as_str());
        let host = without_port(host).to_ascii_lowercase();
        // The framework itself recognizes IP addresses in all other forms.
        if is_ipv6_in_brackets(&host) {
            return Ok(known);
        }
        if host == self.0 {
            return Ok(known);
        }
        if let Some(bucket) = host.strip_suffix(&self.0).and_then(|rest| rest.strip_suffix('.')) {
            return Ok(known.with_bucket(bucket.to_owned()));
        }
        // Any other host name is itself the name of a bucket.
        SingleDomain::new(&host).map_err(|_| s3_error!(InvalidRequest, "Invalid host header"))?;
        Ok(VirtualHost::new(host.clone()).with_bucket(host))
    }
}

fn host_of(headers: &HeaderMap) -> &str {
    headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default()
}

/// The URL of a request as the client addressed it, with the bucket in the path or in the host,
/// without the query.
pub(crate) fn url_of(uri: &Uri, headers: &HeaderMap, peer: Option<&Peer>) -> String {
    let host = host_of(headers);
    let scheme = if peer.is_some_and(|peer| peer.is_tls) { "https" } else { "http" };
    if host.is_empty() { uri.path().to_owned() } else { format!("{scheme}://{host}{}", uri.path()) }
}

/// Whether a request was sent to `localhost` or a loopback address, without headers that proxies
/// add. A proxy that replaces `Host` and adds no such header is not detected, but it can't serve S3
/// either: signatures cover `Host`.
pub(crate) fn is_local(headers: &HeaderMap) -> bool {
    let host = host_of(headers);
    let name = without_port(host);
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    let is_loopback = name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.to_canonical().is_loopback());
    is_loopback && !PROXY_HEADERS.iter().any(|name| headers.contains_key(*name))
}

/// Headers that proxies add.
const PROXY_HEADERS: [&str; 5] = ["forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip"];

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

fn is_ipv6_in_brackets(host: &str) -> bool {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).is_some_and(|address| address.parse::<Ipv6Addr>().is_ok())
}

/// Maps hosts and paths to buckets.
#[derive(Debug)]
pub(crate) struct Addresses {
    /// The domain whose subdomains address buckets.
    domain: Option<Domain>,
}

impl Addresses {
    pub(crate) fn new(domain: Option<Domain>) -> Self {
        Self { domain }
    }

    pub(crate) fn domain(&self) -> Option<&str> {
        self.domain.as_ref().map(|Domain(name)| name.as_str())
    }

    /// The bucket that the host of a request names: `Some(None)` if it names none, `None` if the
    /// host is invalid.
    fn of_host(&self, headers: &HeaderMap) -> Option<Option<String>> {
        let host = host_of(headers);
        let is_address = host.parse::<SocketAddr>().is_ok() || host.parse::<IpAddr>().is_ok();
        match &self.domain {
            Some(domain) if !is_address => Some(domain.parse_host_header(host).ok()?.bucket().map(str::to_owned)),
            _ => Some(None),
        }
    }

    /// Whether a path such as `/-/health` means the server's own page and not an object: true if
    /// the host names no bucket. A subdomain always names one. Any other host does only if that
    /// bucket exists, since health checks use many names.
    pub(crate) fn is_server_page(&self, headers: &HeaderMap, is_bucket: impl FnOnce(&str) -> bool) -> bool {
        let Some(Some(named)) = self.of_host(headers) else { return true };
        let is_below = self.domain.as_ref().is_some_and(|Domain(domain)| {
            let host = without_port(host_of(headers)).to_ascii_lowercase();
            host.strip_suffix(domain.as_str()).is_some_and(|rest| rest.ends_with('.'))
        });
        !is_below && !is_bucket(&named)
    }

    /// Whether no bucket can ever have the host of a request as its name: without a domain in the
    /// settings any host, else only the domain itself and IP addresses.
    pub(crate) fn is_bucketless(&self, headers: &HeaderMap) -> bool {
        matches!(self.of_host(headers), Some(None))
    }

    /// The bucket and key of a request. The key is empty if the request addresses the bucket
    /// itself. `None` if it addresses no bucket, or its host or path is invalid.
    pub(crate) fn find(&self, uri: &Uri, headers: &HeaderMap) -> Option<(String, String)> {
        // A plus sign in a path is itself; `decode` would make it a space, as in a query.
        let path = url_encoding::decode(&uri.path().replace('+', "%2B"))?;
        let path = path.strip_prefix('/')?;
        match self.of_host(headers)? {
            Some(bucket) => Some((bucket, path.to_owned())),
            None => {
                let (bucket, key) = path.split_once('/').unwrap_or((path, ""));
                (!bucket.is_empty()).then(|| (bucket.to_owned(), key.to_owned()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_bucket_is_in_the_path_or_a_subdomain() {
        let find = |domain: Option<&str>, host: &str, path: &str| {
            let headers = HeaderMap::from_iter([(header::HOST, HeaderValue::from_str(host).expect("a host"))]);
            Addresses::new(domain.map(|name| Domain::new(name).expect("a domain"))).find(&path.parse().expect("a URI"), &headers)
        };
        let pair = |bucket: &str, key: &str| Some((bucket.to_owned(), key.to_owned()));
        for domain in [None, Some("example.org")] {
            assert_eq!(find(domain, "example.org", "/b/a%20k+/x?list-type=2"), pair("b", "a k+/x"));
            for address in ["127.0.0.1", "127.0.0.1:8333", "[::1]", "[::1]:8333"] {
                assert_eq!(find(domain, address, "/b"), pair("b", ""), "{address}");
            }
            assert_eq!(find(domain, "example.org", "/"), None);
        }
        assert_eq!(find(Some("example.org"), "b.example.org", "/k/x"), pair("b", "k/x"));
        for domain in ["example.org", "example.org:8333", "Example.ORG"] {
            for host in ["b.example.org", "b.example.org:80", "b.example.org:8333", "B.EXAMPLE.org"] {
                assert_eq!(find(Some(domain), host, "/k"), pair("b", "k"), "{domain} {host}");
            }
            assert_eq!(find(Some(domain), "EXAMPLE.org:80", "/b/k"), pair("b", "k"));
            assert_eq!(find(Some(domain), "photos.elsewhere:80", "/k"), pair("photos.elsewhere", "k"));
        }
        assert!(["", "a..b", "a b", "a:b"].iter().all(|wrong| Domain::new(wrong).is_none()));
        assert_eq!(find(None, "b.example.org", "/k/x"), pair("k", "x"));
    }

    #[test]
    fn own_paths_are_served_on_hosts_that_name_no_bucket() {
        let is_server_page = |domain: Option<&str>, host: &str| {
            let headers = HeaderMap::from_iter([(header::HOST, HeaderValue::from_str(host).expect("a host"))]);
            Addresses::new(domain.map(|name| Domain::new(name).expect("a domain")))
                .is_server_page(&headers, |name| name == "photos.elsewhere")
        };
        for host in ["example.org", "EXAMPLE.org:80", "127.0.0.1:8333", "[::1]", "[::1]:8333", "localhost", "other.elsewhere"] {
            assert!(is_server_page(Some("example.org"), host), "{host}");
        }
        for host in ["b.example.org", "B.example.ORG:80", "photos.elsewhere", "photos.elsewhere:80"] {
            assert!(!is_server_page(Some("example.org"), host), "{host}");
            assert!(is_server_page(None, host), "{host}");
        }
    }

    #[test]
    fn with_a_domain_only_that_and_addresses_never_name_a_bucket() {
        let is_bucketless = |domain: Option<&str>, host: &str| {
            let headers = HeaderMap::from_iter([(header::HOST, HeaderValue::from_str(host).expect("a host"))]);
            Addresses::new(domain.map(|name| Domain::new(name).expect("a domain"))).is_bucketless(&headers)
        };
        for host in ["example.org", "EXAMPLE.org:80", "127.0.0.1:8333", "[::1]", "[::1]:8333"] {
            assert!(is_bucketless(Some("example.org"), host) && is_bucketless(None, host), "{host}");
        }
        for host in ["b.example.org", "localhost", "localhost:9000", "archive.internal", "", "a..b"] {
            assert!(!is_bucketless(Some("example.org"), host) && is_bucketless(None, host), "{host}");
        }
    }

    #[test]
    fn a_request_through_a_proxy_is_not_local() {
        let local = |fields: &[(&'static str, &str)]| {
            let headers: HeaderMap = fields
                .iter()
                .map(|(name, value)| ((*name).parse::<http::HeaderName>().expect("a name"), value.parse().expect("a value")))
                .collect();
            is_local(&headers)
        };
        for host in ["localhost", "LOCALHOST:8333", "127.0.0.1:8333", "127.1.2.3", "[::1]", "[::1]:8333", "[::ffff:127.0.0.1]:80"] {
            assert!(local(&[("host", host)]), "{host}");
            assert!(!local(&[("host", host), ("x-forwarded-for", "10.0.0.1")]), "{host}");
        }
        for host in ["s3.example.org", "10.0.0.1:8333", "localhost.example.org", "127.0.0.1.example.org", ""] {
            assert!(!local(&[("host", host)]), "{host}");
        }
    }
}
