//! Writes the bodies of errors, and completes responses that the framework would write differently
//! than S3.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::BodyExt;
use s3s::xml::{DeResult, Deserialize, Deserializer, SerResult, Serializer};
use s3s::{S3Error, S3Result};

use crate::s3::errors::{Details, failed};
use crate::s3::xml_body::Skipped;
use crate::transfer::checksums::ChecksumElement;

/// Response extension: overrides the framework's status.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StatusOverride(pub(crate) StatusCode);

/// Response extension: overrides the framework's body.
#[derive(Debug, Clone)]
pub(crate) struct BodyOverride(pub(crate) Bytes);

/// Writes an XML response: an element whose content `write` adds.
pub(crate) fn write_xml(name: &str, write: impl FnOnce(&mut Serializer<&mut Vec<u8>>) -> SerResult) -> S3Result<BodyOverride> {
    let mut bytes = Vec::new();
    let mut xml = Serializer::new(&mut bytes);
    let result = xml.decl().and_then(|()| xml.element_with_ns(name, "http://s3.amazonaws.com/doc/2006-03-01/", write));
    result.map_err(|error| failed("writing an answer", &error))?;
    Ok(BodyOverride(bytes.into()))
}

/// The facts about a request that errors mention.
pub(crate) struct RequestFacts<'a> {
    pub(crate) path: &'a str,
    pub(crate) id: &'a str,
}

/// The response for an error.
pub(crate) fn error_response(error: S3Error, facts: &RequestFacts<'_>) -> Response<s3s::Body> {
    let status = error.status_code().unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = Response::new(s3s::Body::empty());
    *response.status_mut() = status;
    if let Some(headers) = error.headers() {
        *response.headers_mut() = headers.clone();
    }
    // Not Modified is an error of the framework, and has no body.
    if is_error(status) {
        let details = error.source().and_then(|source| source.downcast_ref::<Details>());
        write_error(&mut response, error.code().as_str(), error.message(), details, facts);
    }
    response
}

fn is_error(status: StatusCode) -> bool {
    status.is_client_error() || status.is_server_error()
}

fn write_error(response: &mut Response<s3s::Body>, code: &str, message: Option<&str>, details: Option<&Details>, facts: &RequestFacts<'_>) {
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error>");
    let mut element = |name: &str, value: &str| text.push_str(&format!("<{name}>{}</{name}>", escape(value)));
    element("Code", code);
    element("Message", message.unwrap_or_else(|| default_message(code, response.status())));
    for (name, value) in details.into_iter().flat_map(|Details(details)| details) {
        element(name, value);
    }
    element("Resource", facts.path);
    element("RequestId", facts.id);
    text.push_str("</Error>");
    *response.body_mut() = s3s::Body::from(Bytes::from(text));
    let headers = response.headers_mut();
    headers.remove(header::CONTENT_LENGTH);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/xml"));
}

/// An error that the framework found and wrote itself.
struct FrameworkError {
    code: String,
    message: Option<String>,
}

impl<'xml> Deserialize<'xml> for FrameworkError {
    fn deserialize(xml: &mut Deserializer<'xml>) -> DeResult<Self> {
        let (mut code, mut message) = (String::new(), None);
        xml.named_element("Error", |xml| {
            xml.for_each_element(|xml, name| {
                match name {
                    b"Code" => code = xml.content()?,
                    b"Message" => message = Some(xml.content()?),
                    _ => {
                        let Skipped = xml.content()?;
                    }
                }
                Ok(())
            })
        })?;
        Ok(Self { code, message })
    }
}

/// Code and message of an error response that the framework wrote.
pub(crate) fn framework_error(response: &Response<s3s::Body>) -> (String, String) {
    let body = response.body().bytes().unwrap_or_default();
    let FrameworkError { code, message } = FrameworkError::deserialize(&mut Deserializer::new(&body))
        .unwrap_or_else(|_| FrameworkError { code: "InternalError".to_owned(), message: None });
    let message = message.unwrap_or_else(|| default_message(&code, response.status()).to_owned());
    (code, message)
}

/// Code and message of an error.
pub(crate) fn code_and_message(error: &S3Error) -> (String, String) {
    let code = error.code().as_str();
    let status = error.status_code().unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (code.to_owned(), error.message().unwrap_or_else(|| default_message(code, status)).to_owned())
}

/// Replaces status and body of a framework response where S3 differs, and completes its errors.
pub(crate) fn finish_response(response: &mut Response<s3s::Body>, facts: &RequestFacts<'_>) {
    if let Some(StatusOverride(status)) = response.extensions().get::<StatusOverride>() {
        *response.status_mut() = *status;
    }
    if let Some(BodyOverride(body)) = response.extensions_mut().remove::<BodyOverride>() {
        *response.body_mut() = s3s::Body::from(body);
        response.headers_mut().remove(header::CONTENT_LENGTH);
    }
    if !is_error(response.status()) {
        finish_xml(response);
        return;
    }
    let Some(body) = response.body().bytes() else { return };
    if let Ok(error) = FrameworkError::deserialize(&mut Deserializer::new(&body)) {
        write_error(response, &error.code, error.message.as_deref(), None, facts);
    }
}

/// Response extension: the XML comes late, in one piece after whitespace, as in long completions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LateXml;

/// Corrects the framework's XML: names of checksums, and control characters in keys.
fn finish_xml(response: &mut Response<s3s::Body>) {
    let checksum_element = response.extensions_mut().remove::<ChecksumElement>();
    let is_late = response.extensions_mut().remove::<LateXml>().is_some();
    let kind = response.headers().get(header::CONTENT_TYPE);
    // The content of an object is never buffered, whatever its content type.
    let is_xml = is_late || (kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/xml")) && response.body().bytes().is_some());
    if !is_xml {
        return;
    }
    let finish = move |xml: Bytes| {
        let xml = checksum_element.map_or(xml.clone(), |checksum_element| checksum_element.rename(&xml));
        escape_controls(&xml).map_or(xml, Bytes::from)
    };
    let body = std::mem::take(response.body_mut());
    *response.body_mut() = match body.bytes() {
        Some(bytes) => {
            response.headers_mut().remove(header::CONTENT_LENGTH);
            s3s::Body::from(finish(bytes))
        }
        None => s3s::Body::http_body_unsync(body.map_frame(move |frame| frame.map_data(finish))),
    };
}

/// Replaces control characters, which XML can't contain, with numeric references, as AWS does. Few
/// parsers accept those, so SDKs request lists with encoded keys. `None` if the XML has none.
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

/// AWS's message for an error code.
fn default_message(code: &str, status: StatusCode) -> &'static str {
    match code {
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
    }
}

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

    async fn finished_body(response: Response<s3s::Body>) -> String {
        let mut response = response;
        finish_response(&mut response, &RequestFacts { path: "/b/k", id: "1" });
        let bytes = std::mem::take(response.body_mut()).collect().await.expect("a body").to_bytes();
        String::from_utf8(bytes.to_vec()).expect("text")
    }

    fn answer(status: StatusCode, kind: &str, body: s3s::Body) -> Response<s3s::Body> {
        let response = Response::builder().status(status).header(header::CONTENT_TYPE, kind);
        response.body(body).expect("an answer")
    }

    #[tokio::test]
    async fn errors_have_messages() {
        for (code, said) in
            [("SignatureDoesNotMatch", "we calculated"), ("InvalidURI", "parse the specified"), ("SomethingElse", "Forbidden")]
        {
            let body = format!("<Error><Code>{code}</Code></Error>");
            let text = finished_body(answer(StatusCode::FORBIDDEN, "application/xml", body.into())).await;
            let (_, message) = text.split_once("</Code><Message>").expect("a message");
            assert!(message.split_once("</Message>").expect("its end").0.contains(said), "{text}");
        }
        let body = "<Error><Code>NoSuchKey</Code><Message>Own</Message></Error>".to_owned();
        assert_eq!(finished_body(answer(StatusCode::NOT_FOUND, "application/xml", body.into())).await.matches("<Message>").count(), 1);
    }

    #[tokio::test]
    async fn control_characters_in_keys_are_escaped_and_content_is_unchanged() {
        let xml = "<?xml version=\"1.0\"?>\n<Key>a\u{1}\r\tb</Key>";
        let escaped = xml.replace('\u{1}', "&#x1;").replace('\r', "&#xd;");
        assert_eq!(finished_body(answer(StatusCode::OK, "application/xml", xml.to_owned().into())).await, escaped);
        let content = || s3s::Body::http_body(http_body_util::StreamBody::new(pieces(xml)));
        assert_eq!(finished_body(answer(StatusCode::OK, "application/xml", content())).await.trim_start(), xml);
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
            ChecksumElement::set(crate::transfer::checksums::Algorithm::Xxhash128, response.extensions_mut());
            if is_late {
                response.extensions_mut().insert(LateXml);
            }
            assert_eq!(finished_body(response).await.trim(), outside);
        }
    }
}
