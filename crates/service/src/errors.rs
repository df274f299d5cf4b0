//! Answers that the framework would give otherwise than S3. Errors say what was asked for and the number of the request; some answers have another
//! status, or are written here.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use s3s::S3Result;
use s3s::xml::{SerResult, Serializer};

use crate::failures::failed;

/// The status of an answer, where the framework would take another.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Status(pub(crate) StatusCode);

/// The body of an answer, where the framework would write another.
#[derive(Debug, Clone)]
pub(crate) struct Written(pub(crate) Bytes);

/// An answer as XML that is written here: an element with what `write` puts into it.
pub(crate) fn written(name: &str, write: impl FnOnce(&mut Serializer<&mut Vec<u8>>) -> SerResult) -> S3Result<Written> {
    let mut bytes = Vec::new();
    let mut xml = Serializer::new(&mut bytes);
    let result = xml.decl().and_then(|()| xml.element_with_ns(name, "http://s3.amazonaws.com/doc/2006-03-01/", write));
    result.map_err(|error| failed("writing an answer", &error))?;
    Ok(Written(bytes.into()))
}

/// A header that never leaves the service: elements for the body of an error.
const MORE: &str = "x-fulgurite-more";

/// Headers that bring more elements into the body of an error.
pub(crate) fn more(elements: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let elements: String = elements.iter().map(|(name, value)| format!("<{name}>{}</{name}>", escape(value))).collect();
    if let Ok(elements) = HeaderValue::try_from(elements) {
        headers.insert(MORE, elements);
    }
    headers
}

/// What was asked, as far as errors speak of it.
pub(crate) struct Asked<'a> {
    pub(crate) path: &'a str,
    pub(crate) query: Option<&'a str>,
    /// Bytes of its body, as announced.
    pub(crate) length: Option<u64>,
    pub(crate) id: &'a str,
}

/// Completes an answer.
pub(crate) fn complete(response: &mut Response<s3s::Body>, asked: &Asked<'_>) {
    if let Some(Status(status)) = response.extensions().get::<Status>() {
        *response.status_mut() = *status;
    }
    if let Some(Written(body)) = response.extensions_mut().remove::<Written>() {
        *response.body_mut() = s3s::Body::from(body);
        response.headers_mut().remove(http::header::CONTENT_LENGTH);
    }
    let more = response.headers_mut().remove(MORE);
    if !(response.status().is_client_error() || response.status().is_server_error()) {
        return;
    }
    let Some(body) = response.body().bytes() else { return };
    let Some(text) = std::str::from_utf8(&body).ok().filter(|text| text.ends_with("</Error>")) else { return };
    let mut text = text[..text.len() - "</Error>".len()].to_owned();
    mend(&mut text, response.status_mut(), asked);
    let more = more.as_ref().and_then(|more| more.to_str().ok()).unwrap_or_default();
    text.push_str(&format!("{more}<Resource>{}</Resource><RequestId>{}</RequestId></Error>", escape(asked.path), asked.id));
    *response.body_mut() = s3s::Body::from(Bytes::from(text));
    // It was of the shorter body.
    response.headers_mut().remove(http::header::CONTENT_LENGTH);
    // Where an error brings headers of its own, the framework leaves this one out.
    response.headers_mut().insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/xml"));
}

/// What the framework calls by another name than S3.
fn mend(text: &mut String, status: &mut StatusCode, asked: &Asked<'_>) {
    let is_presigned = asked.query.is_some_and(|query| query.contains("X-Amz-"));
    if is_presigned && text.contains("<Code>InvalidRequest</Code>") && text.contains("presigned") {
        *text = text.replace("<Code>InvalidRequest</Code>", "<Code>AuthorizationQueryParametersError</Code>");
    }
    // A body that is longer than any that it gathers.
    if *status == StatusCode::INTERNAL_SERVER_ERROR
        && !text.contains("<Message>")
        && asked.length.is_some_and(|length| length > XML_BYTES_MAX)
    {
        *status = StatusCode::BAD_REQUEST;
        *text = text
            .replace("<Code>InternalError</Code>", "<Code>MaxMessageLengthExceeded</Code><Message>Your request was too large.</Message>");
    }
}

/// XML of requests: a batch of 1,000 keys of 1,024 bytes, or 10,000 parts, fits.
pub(crate) const XML_BYTES_MAX: u64 = 4 << 20;

/// Text as it stands in XML, in ASCII. Control characters can't stand there and are replaced.
pub(crate) fn escape(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut escaped, c| {
        match c {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            c if c.is_ascii_graphic() || c == ' ' => escaped.push(c),
            '\t' | '\n' | '\r' | '\u{80}'.. => escaped.push_str(&format!("&#{};", u32::from(c))),
            _ => escaped.push_str("&#65533;"),
        }
        escaped
    })
}
