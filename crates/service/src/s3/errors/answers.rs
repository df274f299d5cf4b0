//! Completes responses that the framework would write differently than S3. Errors get the resource
//! and the request ID; some responses get another status or body.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body_util::BodyExt;
use s3s::S3Result;
use s3s::xml::{SerResult, Serializer};

use crate::s3::errors::failed;
use crate::transfer::checksums::Named;

/// Response extension: overrides the framework's status.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Status(pub(crate) StatusCode);

/// Response extension: overrides the framework's body.
#[derive(Debug, Clone)]
pub(crate) struct Written(pub(crate) Bytes);

/// Writes an XML response: an element whose content `write` adds.
pub(crate) fn written(name: &str, write: impl FnOnce(&mut Serializer<&mut Vec<u8>>) -> SerResult) -> S3Result<Written> {
    let mut bytes = Vec::new();
    let mut xml = Serializer::new(&mut bytes);
    let result = xml.decl().and_then(|()| xml.element_with_ns(name, "http://s3.amazonaws.com/doc/2006-03-01/", write));
    result.map_err(|error| failed("writing an answer", &error))?;
    Ok(Written(bytes.into()))
}

/// Internal header, never sent, with additional elements for the body of an error.
const MORE: &str = "x-fulgurite-more";

/// Headers that add elements to the body of an error.
pub(crate) fn more(elements: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let elements: String = elements.iter().map(|(name, value)| format!("<{name}>{}</{name}>", escape(value))).collect();
    if let Ok(elements) = HeaderValue::try_from(elements) {
        headers.insert(MORE, elements);
    }
    headers
}

/// The facts about a request that errors mention.
pub(crate) struct RequestFacts<'a> {
    pub(crate) path: &'a str,
    pub(crate) query: Option<&'a str>,
    /// Announced length of its body, in bytes.
    pub(crate) length: Option<u64>,
    pub(crate) id: &'a str,
}

/// Completes a response.
pub(crate) fn complete(response: &mut Response<s3s::Body>, asked: &RequestFacts<'_>) {
    if let Some(Status(status)) = response.extensions().get::<Status>() {
        *response.status_mut() = *status;
    }
    if let Some(Written(body)) = response.extensions_mut().remove::<Written>() {
        *response.body_mut() = s3s::Body::from(body);
        response.headers_mut().remove(http::header::CONTENT_LENGTH);
    }
    finish_xml(response);
    let more = response.headers_mut().remove(MORE);
    if !(response.status().is_client_error() || response.status().is_server_error()) {
        return;
    }
    let Some(body) = response.body().bytes() else { return };
    let Some(text) = std::str::from_utf8(&body).ok().filter(|text| text.ends_with("</Error>")) else { return };
    let mut text = text[..text.len() - "</Error>".len()].to_owned();
    mend(&mut text, response.status_mut(), asked);
    explain(&mut text, response.status());
    let more = more.as_ref().and_then(|more| more.to_str().ok()).unwrap_or_default();
    text.push_str(&format!("{more}<Resource>{}</Resource><RequestId>{}</RequestId></Error>", escape(asked.path), asked.id));
    *response.body_mut() = s3s::Body::from(Bytes::from(text));
    // The length of the original body.
    response.headers_mut().remove(http::header::CONTENT_LENGTH);
    // The framework omits the header if the error has headers of its own.
    response.headers_mut().insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/xml"));
}

/// Response extension: the XML comes late, in one piece after whitespace, as in long completions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Late;

/// Corrects the framework's XML: names of checksums, and control characters in keys.
fn finish_xml(response: &mut Response<s3s::Body>) {
    let named = response.extensions_mut().remove::<Named>();
    let is_late = response.extensions_mut().remove::<Late>().is_some();
    let kind = response.headers().get(http::header::CONTENT_TYPE);
    // The content of an object is never buffered, whatever its content type.
    let is_xml = is_late || (kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/xml")) && response.body().bytes().is_some());
    if !is_xml {
        return;
    }
    let finish = move |xml: Bytes| {
        let xml = named.map_or(xml.clone(), |named| named.rename(&xml));
        escape_controls(&xml).map_or(xml, Bytes::from)
    };
    let body = std::mem::take(response.body_mut());
    *response.body_mut() = match body.bytes() {
        Some(bytes) => {
            response.headers_mut().remove(http::header::CONTENT_LENGTH);
            s3s::Body::from(finish(bytes))
        }
        None => s3s::Body::http_body_unsync(body.map_frame(move |frame| frame.map_data(finish))),
    };
}

/// Replaces control characters, which XML can't contain, with numeric references, as AWS does. Few
/// parsers accept those, so SDKs request lists with encoded keys. `None` if there are none.
fn escape_controls(xml: &[u8]) -> Option<Vec<u8>> {
    let is_control = |byte: &u8| *byte < 0x20 && !matches!(byte, b'\t' | b'\n');
    if !xml.iter().any(is_control) {
        return None;
    }
    let mut escaped = Vec::with_capacity(xml.len() + 64);
    for byte in xml {
        if is_control(byte) {
            escaped.extend_from_slice(format!("&#x{byte:x};").as_bytes());
        } else {
            escaped.push(*byte);
        }
    }
    Some(escaped)
}

/// Adds AWS's message for the code to an error without one.
fn explain(text: &mut String, status: StatusCode) {
    if text.contains("<Message>") {
        return;
    }
    let Some((code, rest)) = text.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>")) else { return };
    let message = match code {
        "AccessDenied" => "Access Denied",
        "AccessForbidden" => "CORSResponse: This CORS request is not allowed.",
        "AuthorizationHeaderMalformed" => "The authorization header is malformed",
        "BucketNotEmpty" => "The bucket you tried to delete is not empty",
        "EntityTooLarge" => "Your proposed upload exceeds the maximum allowed size",
        "IncompleteBody" => "You did not provide the number of bytes specified by the Content-Length HTTP header",
        "InternalError" => "We encountered an internal error. Please try again.",
        "InvalidAccessKeyId" => "The AWS Access Key Id you provided does not exist in our records.",
        "InvalidArgument" => "Invalid Argument",
        "InvalidBucketName" => "The specified bucket is not valid.",
        "InvalidRange" => "The requested range is not satisfiable",
        "InvalidRequest" => "Invalid Request",
        "InvalidURI" => "Couldn't parse the specified URI.",
        "KeyTooLongError" => "Your key is too long",
        "MalformedXML" => "The XML you provided was not well-formed or did not validate against our published schema",
        "MaxMessageLengthExceeded" => "Your request was too large.",
        "MethodNotAllowed" => "The specified method is not allowed against this resource.",
        "MissingContentLength" => "You must provide the Content-Length HTTP header.",
        "MissingRequestBodyError" => "Request body is empty.",
        "NoSuchBucket" => "The specified bucket does not exist",
        "NoSuchKey" => "The specified key does not exist.",
        "NotImplemented" => "A header you provided implies functionality that is not implemented",
        "PreconditionFailed" => "At least one of the pre-conditions you specified did not hold",
        "RequestTimeTooSkewed" => "The difference between the request time and the current time is too large.",
        "SignatureDoesNotMatch" => {
            "The request signature we calculated does not match the signature you provided. Check your key and signing method."
        }
        _ => status.canonical_reason().unwrap_or("The request failed."),
    };
    let at = text.len() - rest.len();
    text.insert_str(at, &format!("<Message>{message}</Message>"));
}

/// Corrects error codes for which the framework uses another name than S3.
fn mend(text: &mut String, status: &mut StatusCode, asked: &RequestFacts<'_>) {
    let is_presigned = asked.query.is_some_and(|query| query.contains("X-Amz-"));
    if is_presigned && text.contains("<Code>InvalidRequest</Code>") && text.contains("presigned") {
        *text = text.replace("<Code>InvalidRequest</Code>", "<Code>AuthorizationQueryParametersError</Code>");
    }
    // The body exceeds the framework's limit for buffered bodies.
    if *status == StatusCode::INTERNAL_SERVER_ERROR
        && !text.contains("<Message>")
        && asked.length.is_some_and(|length| length > XML_BYTES_MAX)
    {
        *status = StatusCode::BAD_REQUEST;
        *text = text
            .replace("<Code>InternalError</Code>", "<Code>MaxMessageLengthExceeded</Code><Message>Your request was too large.</Message>");
    }
}

/// Maximum size of XML bodies: enough for 1,000 keys of 1,024 bytes, or for 10,000 parts.
pub(crate) const XML_BYTES_MAX: u64 = 4 << 20;

/// Escapes text for XML, as ASCII. Control characters are replaced, since XML can't contain them.
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

#[cfg(test)]
mod tests {
    use super::*;

    async fn completed(response: Response<s3s::Body>) -> String {
        let mut response = response;
        complete(&mut response, &RequestFacts { path: "/b/k", query: None, length: None, id: "1" });
        let bytes = std::mem::take(response.body_mut()).collect().await.expect("a body").to_bytes();
        String::from_utf8(bytes.to_vec()).expect("text")
    }

    fn answer(status: StatusCode, kind: &str, body: s3s::Body) -> Response<s3s::Body> {
        let response = Response::builder().status(status).header(http::header::CONTENT_TYPE, kind);
        response.body(body).expect("an answer")
    }

    #[tokio::test]
    async fn errors_have_messages() {
        for (code, said) in
            [("SignatureDoesNotMatch", "we calculated"), ("InvalidURI", "parse the specified"), ("SomethingElse", "Forbidden")]
        {
            let body = format!("<Error><Code>{code}</Code></Error>");
            let text = completed(answer(StatusCode::FORBIDDEN, "application/xml", body.into())).await;
            let (_, message) = text.split_once("</Code><Message>").expect("a message");
            assert!(message.split_once("</Message>").expect("its end").0.contains(said), "{text}");
        }
        let body = "<Error><Code>NoSuchKey</Code><Message>Own</Message></Error>".to_owned();
        assert_eq!(completed(answer(StatusCode::NOT_FOUND, "application/xml", body.into())).await.matches("<Message>").count(), 1);
    }

    #[tokio::test]
    async fn control_characters_in_keys_are_escaped_and_content_is_unchanged() {
        let xml = "<?xml version=\"1.0\"?>\n<Key>a\u{1}\r\tb</Key>";
        let escaped = xml.replace('\u{1}', "&#x1;").replace('\r', "&#xd;");
        assert_eq!(completed(answer(StatusCode::OK, "application/xml", xml.to_owned().into())).await, escaped);
        let content = || s3s::Body::http_body(http_body_util::StreamBody::new(pieces(xml)));
        assert_eq!(completed(answer(StatusCode::OK, "application/xml", content())).await.trim_start(), xml);
    }

    fn pieces(text: &str) -> impl futures_util::Stream<Item = Result<hyper::body::Frame<Bytes>, s3s::StdError>> + use<> {
        let pieces: Vec<_> = [" ", " "]
            .into_iter()
            .chain([text])
            .map(|piece| Ok(hyper::body::Frame::data(Bytes::copy_from_slice(piece.as_bytes()))))
            .collect();
        futures_util::stream::iter(pieces)
    }

    #[tokio::test]
    async fn checksums_are_renamed_in_immediate_and_late_responses() {
        let (inside, outside) = ("<R><ChecksumSHA256>x</ChecksumSHA256></R>", "<R><ChecksumXXHASH128>x</ChecksumXXHASH128></R>");
        for is_late in [false, true] {
            let body =
                if is_late { s3s::Body::http_body(http_body_util::StreamBody::new(pieces(inside))) } else { inside.to_owned().into() };
            let mut response = answer(StatusCode::OK, "application/xml", body);
            Named::say(crate::transfer::checksums::Algorithm::Xxhash128, response.extensions_mut());
            if is_late {
                response.extensions_mut().insert(Late);
            }
            assert_eq!(completed(response).await.trim(), outside);
        }
    }
}
