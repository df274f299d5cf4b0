//! Browser uploads by HTML form (POST Object).
//!
//! The framework buffers the file in memory, treats a form as stale after a quarter of an hour, and
//! doesn't support `${filename}`. So forms are handled before it: this module reads the fields and
//! checks their signature and policy. The rest becomes a put of the same object, which passes the
//! same access checks.
//!
//! ```text
//! POST /bucket: fields, file -> signature -> policy -> PUT /bucket/key: headers, file -> redirect, 200, 201 or 204
//! ```

mod policy;
mod reader;
mod signature;

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use s3s::xml::{Deserialize, Deserializer};
use s3s::{Body, S3Error, S3Result, s3_error};

use self::policy::FormPolicy;
use self::reader::Fields;
use crate::auth::caller::{CALLER_HEADERS, Peer, Signed};
use crate::auth::signatures::is_form;
use crate::http::addressing::{Addresses, url_of};
use crate::http::url_encoding;
use crate::s3::errors::answers::escape;
use crate::s3::errors::malformed_xml;
use crate::s3::framework::Framework;
use crate::s3::new_object::OBJECT_HEADERS;
use crate::s3::normalize::normalize_headers;
use crate::s3::{query_parameters, tags};
use crate::state::{State, now_ms};
use crate::transfer::upload::{LengthLimit, PUT_BYTES_MAX};

/// Handles forms.
pub(crate) struct Forms {
    pub(crate) framework: Framework,
    pub(crate) state: Arc<State>,
    pub(crate) region: String,
    pub(crate) addresses: Arc<Addresses>,
}

impl Forms {
    /// The bucket that a form addresses; `None` if the request isn't a form.
    ///
    /// # Errors
    /// An S3 error if a form addresses anything but a bucket. The framework would buffer the whole
    /// form before it checks for a signature, so no form may reach it.
    pub(crate) fn find(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> S3Result<Option<String>> {
        if !is_form(method, headers) {
            return Ok(None);
        }
        match self.addresses.find(uri, headers) {
            Some((bucket, key)) if key.is_empty() => Ok(Some(bucket)),
            _ => Err(s3_error!(MethodNotAllowed, "The specified method is not allowed against this resource: a form is sent to a bucket.")),
        }
    }

    /// Answers a form that addresses a bucket.
    ///
    /// # Errors
    /// An S3 error if the form is invalid. Errors of the put are in the response.
    pub(crate) async fn call(&self, bucket: &str, request: Request<Body>) -> S3Result<Response<Body>> {
        let (head, body) = request.into_parts();
        query_parameters::check_extension(&head.uri, &[])?;
        let boundary = boundary(&head.headers).ok_or_else(|| s3_error!(MalformedPOSTRequest, "The boundary of the form is missing."))?;
        let reader::Form { fields, mut file } = reader::read(body, &boundary).await?;
        let key = fields.need("key")?.to_owned();
        let now_ms = now_ms();
        let signed = signature::check(&fields, &self.state, &self.region, now_ms)?;
        let (mut min, mut max) = (0, PUT_BYTES_MAX);
        if signed.is_some() {
            let policy = FormPolicy::parse(fields.need("policy")?)?;
            policy.check(&fields, bucket, now_ms)?;
            (min, max) = policy.content_length_range();
            max = max.min(PUT_BYTES_MAX);
        }
        file.limit(min, max);
        let url = url_of(&head.uri, &head.headers, head.extensions.get::<Peer>());
        let announced: u64 = head
            .headers
            .get(header::CONTENT_LENGTH)
            .and_then(|length| length.to_str().ok()?.parse().ok())
            .ok_or_else(|| s3_error!(MissingContentLength, "You must provide the Content-Length HTTP header."))?;
        let mut put = Request::new(Body::http_body_unsync(file));
        *put.method_mut() = Method::PUT;
        *put.uri_mut() = format!("/{}/{}", url_encoding::encode(bucket), url_encoding::encode(&key))
            .parse()
            .map_err(|_| s3_error!(InvalidArgument, "The key in the form is invalid."))?;
        *put.headers_mut() = self.headers(&head.headers, &fields)?;
        *put.extensions_mut() = head.extensions;
        put.extensions_mut().insert(LengthLimit(max.min(announced)));
        let (mut head, file) = put.into_parts();
        normalize_headers(&mut head.headers, &mut head.extensions);
        let put = Request::from_parts(head, file);
        let response = self.framework.operations().call_as(Signed(signed), put).await?;
        if response.status() == StatusCode::OK { form_response(response, &url, bucket, &key, &fields) } else { Ok(response) }
    }

    /// The headers of the put.
    fn headers(&self, given: &HeaderMap, fields: &Fields) -> S3Result<HeaderMap> {
        let mut headers = HeaderMap::new();
        let own = [header::HOST, HeaderName::from_static("x-amz-expected-bucket-owner")];
        for name in own.iter().chain(&CALLER_HEADERS) {
            if let Some(value) = given.get(name) {
                headers.insert(name.clone(), value.clone());
            }
        }
        // The put names the bucket in its path, so Host must not name it again.
        if let Some(host) = self.addresses.domain().and_then(|domain| HeaderValue::from_str(domain).ok()) {
            headers.insert(header::HOST, host);
        }
        for (name, value) in fields.0.iter().filter(|(_, value)| !value.is_empty()) {
            match name.as_str() {
                "acl" => insert(&mut headers, "x-amz-acl", value)?,
                "tagging" => insert(&mut headers, "x-amz-tagging", &tagging(value)?)?,
                name if OBJECT_HEADERS.has(name) => insert(&mut headers, name, value)?,
                _ => {}
            }
        }
        Ok(headers)
    }
}

fn insert(headers: &mut HeaderMap, name: &str, value: &str) -> S3Result<()> {
    let wrong = || s3_error!(InvalidArgument, "The field '{name}' of the form is not a valid header value.");
    let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
    headers.insert(header, HeaderValue::from_bytes(value.as_bytes()).map_err(|_| wrong())?);
    Ok(())
}

/// Converts the tags of a form from XML to the format of the header.
fn tagging(xml: &str) -> S3Result<String> {
    let mut deserializer = Deserializer::new(xml.as_bytes());
    let tagging = s3s::dto::Tagging::deserialize(&mut deserializer).map_err(|_| malformed_xml())?;
    Ok(tags::encode(&tagging.tag_set))
}

fn boundary(headers: &HeaderMap) -> Option<String> {
    let kind = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    let boundary = kind.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("boundary").then(|| value.trim().trim_matches('"').to_owned())
    })?;
    // RFC 2046 allows 70 characters.
    (1..=70).contains(&boundary.len()).then_some(boundary)
}

/// The response that the form's fields ask for (redirect, 200, 201 or 204), after a successful put.
/// `bucket_url` is the URL of the form's request.
fn form_response(put: Response<Body>, bucket_url: &str, bucket: &str, key: &str, fields: &Fields) -> S3Result<Response<Body>> {
    let (mut head, _) = put.into_parts();
    head.headers.remove(header::CONTENT_LENGTH);
    let etag = head.headers.get(header::ETAG).and_then(|etag| etag.to_str().ok()).unwrap_or_default().to_owned();
    let path: Vec<String> = key.split('/').map(url_encoding::encode).collect();
    let location = format!("{}/{}", bucket_url.trim_end_matches('/'), path.join("/"));
    let redirect =
        fields.get("success_action_redirect").or_else(|| fields.get("redirect")).and_then(|url| redirect_url(url, bucket, key, &etag));
    if let Some(url) = redirect {
        head.status = StatusCode::SEE_OTHER;
        head.headers.insert(header::LOCATION, url);
        return Ok(Response::from_parts(head, Body::empty()));
    }
    head.headers.insert(header::LOCATION, HeaderValue::from_str(&location).map_err(|_| no_location())?);
    let body = match fields.get("success_action_status") {
        Some("200") => Body::empty(),
        Some("201") => {
            head.status = StatusCode::CREATED;
            head.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/xml"));
            let [location, bucket, key, etag] = [&location, bucket, key, &etag].map(escape);
            Body::from(Bytes::from(format!(
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<PostResponse><Location>{location}</Location><Bucket>{bucket}</Bucket><Key>{key}</Key><ETag>{etag}</ETag></PostResponse>"
            )))
        }
        _ => {
            head.status = StatusCode::NO_CONTENT;
            Body::empty()
        }
    };
    Ok(Response::from_parts(head, body))
}

fn no_location() -> S3Error {
    s3_error!(InternalError, "The object was stored, but its URL can't be expressed in a header.")
}

/// The URL to which a browser is redirected after the upload, with parameters that describe the
/// object; `None` if it isn't an HTTP URL.
fn redirect_url(url: &str, bucket: &str, key: &str, etag: &str) -> Option<HeaderValue> {
    let uri: Uri = url.parse().ok()?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return None;
    }
    let (before, fragment) = url.split_once('#').map_or((url, None), |(before, fragment)| (before, Some(fragment)));
    let joint = if uri.query().is_some() { '&' } else { '?' };
    let [key, etag] = [key, etag].map(url_encoding::encode);
    let fragment = fragment.map(|fragment| format!("#{fragment}")).unwrap_or_default();
    HeaderValue::from_str(&format!("{before}{joint}bucket={bucket}&key={key}&etag={etag}{fragment}")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_are_redirected_with_the_uploaded_object() {
        let to = |url: &str| redirect_url(url, "b", "a/ b", "\"e\"").map(|value| value.to_str().expect("text").to_owned());
        assert_eq!(to("https://example.org/done").as_deref(), Some("https://example.org/done?bucket=b&key=a%2F%20b&etag=%22e%22"));
        assert_eq!(to("http://example.org/?n=1#top").as_deref(), Some("http://example.org/?n=1&bucket=b&key=a%2F%20b&etag=%22e%22#top"));
        for nowhere in ["/done", "javascript:alert(1)", "ftp://example.org/", "https://example.org/\r\nSet-Cookie: a=b", ""] {
            assert_eq!(to(nowhere), None, "{nowhere}");
        }
    }

    #[test]
    fn the_location_is_below_the_url_of_the_form() {
        let fields = Fields([("success_action_status".to_owned(), "201".to_owned())].into());
        for (sent_to, location) in
            [("http://127.0.0.1:9000/b", "http://127.0.0.1:9000/b/a%20k/x"), ("https://b.example.org/", "https://b.example.org/a%20k/x")]
        {
            let answer = form_response(Response::new(Body::empty()), sent_to, "b", "a k/x", &fields).expect("answered");
            assert_eq!((answer.status(), &answer.headers()[header::LOCATION]), (StatusCode::CREATED, &HeaderValue::from_static(location)));
        }
    }

    #[test]
    fn the_boundary_may_be_quoted() {
        let of = |kind: &str| boundary(&HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_str(kind).expect("a value"))]));
        assert_eq!(of("multipart/form-data; boundary=abc").as_deref(), Some("abc"));
        assert_eq!(of("multipart/form-data; charset=utf-8; Boundary=\"a b\"").as_deref(), Some("a b"));
        assert_eq!(of("multipart/form-data"), None);
        assert_eq!(of(&format!("multipart/form-data; boundary={}", "x".repeat(71))), None);
    }
}
