//! Which bucket a request is sent to, for those that look at it before the framework does: by its path, or by its host where a domain is set.

use std::net::{IpAddr, SocketAddr};

use http::{HeaderMap, Uri, header};
use s3s::host::{S3Host, SingleDomain};

use crate::tags;

/// Where buckets are addressed.
#[derive(Debug)]
pub(crate) struct Addresses {
    /// The domain whose names below are buckets.
    domain: Option<(String, SingleDomain)>,
}

impl Addresses {
    /// Addresses below a domain, if there is one, and by paths.
    pub(crate) fn new(domain: Option<(String, SingleDomain)>) -> Self {
        Self { domain }
    }

    /// The domain of the settings.
    pub(crate) fn domain(&self) -> Option<&str> {
        self.domain.as_ref().map(|(domain, _)| domain.as_str())
    }

    /// The bucket of a request, and its key, which is empty where it is to the bucket itself.
    pub(crate) fn find(&self, uri: &Uri, headers: &HeaderMap) -> Option<(String, String)> {
        let path = tags::decode(&uri.path().replace('+', "%2B"))?;
        let path = path.strip_prefix('/')?;
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let is_address = host.parse::<SocketAddr>().is_ok() || host.parse::<IpAddr>().is_ok();
        let of_host = match &self.domain {
            Some((_, domain)) if !is_address => domain.parse_host_header(host).ok()?.bucket().map(str::to_owned),
            _ => None,
        };
        match of_host {
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
    fn a_bucket_stands_in_the_path_or_before_the_domain() {
        let find = |domain: Option<&str>, host: &str, path: &str| {
            let headers = HeaderMap::from_iter([(header::HOST, HeaderValue::from_str(host).expect("a host"))]);
            Addresses::new(domain.map(|name| (name.to_owned(), SingleDomain::new(name).expect("a domain"))))
                .find(&path.parse().expect("a URI"), &headers)
        };
        let pair = |bucket: &str, key: &str| Some((bucket.to_owned(), key.to_owned()));
        for domain in [None, Some("example.org")] {
            assert_eq!(find(domain, "example.org", "/b/a%20k+/x?list-type=2"), pair("b", "a k+/x"));
            assert_eq!(find(domain, "127.0.0.1:8333", "/b"), pair("b", ""));
            assert_eq!(find(domain, "example.org", "/"), None);
        }
        assert_eq!(find(Some("example.org"), "b.example.org", "/k/x"), pair("b", "k/x"));
        assert_eq!(find(None, "b.example.org", "/k/x"), pair("k", "x"));
    }
}
