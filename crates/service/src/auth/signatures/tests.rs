//! Signatures that the strict parser accepts and rejects.

use super::*;

const SCOPE: &str = "KEY/20260101/us-east-1/s3/aws4_request";
const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

fn read(uri: &str, headers: &[(&'static str, &[u8])]) -> Result<Signing, String> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(*name, HeaderValue::from_bytes(value).expect("a value"));
    }
    check(&uri.parse().expect("a URI"), &map, "us-east-1").map_err(|error| error.code().as_str().to_owned())
}

fn refused(uri: &str, headers: &[(&'static str, &str)]) -> Option<String> {
    let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
    read(uri, &headers).err()
}

fn header(scope: &str, signed: &str) -> String {
    format!("AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders={signed}, Signature={}", "0".repeat(64))
}

/// Parses a request with this `Authorization` and the usual headers of a signed request.
fn authorized(authorization: &[u8]) -> Result<Signing, String> {
    let given: [(&'static str, &[u8]); 4] =
        [("host", b"h"), ("x-amz-date", b"20260101T000000Z"), ("x-amz-content-sha256", EMPTY.as_bytes()), ("authorization", authorization)];
    read("/b/k", &given)
}

#[test]
fn signature_version_2_is_refused_in_headers_and_urls() {
    assert_eq!(refused("/b/k", &[("authorization", "AWS KEY:c2ln")]).as_deref(), Some("InvalidRequest"));
    assert_eq!(refused("/b/k?AWSAccessKeyId=KEY&Expires=1&Signature=c2ln", &[]).as_deref(), Some("InvalidRequest"));
    assert_eq!(refused("/b/k?AWSAccessKeyId=KEY&Expires=1&%53ignature=c2ln", &[]).as_deref(), Some("InvalidRequest"));
}

#[test]
fn a_signature_needs_the_right_region_and_service_and_covers_all_aws_headers() {
    let with = |scope: &str, names: &str| authorized(header(scope, names).as_bytes());
    let all = "host;x-amz-content-sha256;x-amz-date";
    assert_eq!(with(SCOPE, all), Ok(Signing::Header));
    let code = |code: &str| Err(code.to_owned());
    assert_eq!(with(&SCOPE.replace("us-", "eu-"), all), code("AuthorizationHeaderMalformed"));
    assert_eq!(with(&SCOPE.replace("/s3/", "/sts/"), all), code("AuthorizationHeaderMalformed"));
    assert_eq!(with(&SCOPE.replace("0101", "0102"), all), code("AuthorizationHeaderMalformed"));
    assert_eq!(with(SCOPE, "host;x-amz-date"), code("AccessDenied"));
    assert_eq!(with(SCOPE, "x-amz-content-sha256;x-amz-date"), code("AccessDenied"));
}

/// The framework accepts each of these, and each bypassed the rules on signed headers, region and
/// service.
#[test]
fn an_authorization_that_does_not_parse_to_its_last_byte_is_refused() {
    let right = header(SCOPE, "host;x-amz-content-sha256;x-amz-date");
    assert_eq!(authorized(right.as_bytes()), Ok(Signing::Header));
    assert_eq!(authorized(right.replace(", ", ",").as_bytes()), Ok(Signing::Header));
    let other = right.replace("us-east-1", "eu-west-7");
    for (from, to) in [
        ("AWS4-HMAC-SHA256", "FOO"),
        ("AWS4-HMAC-SHA256", "AWS4-HMAC-SHA25"),
        ("AWS4-HMAC-SHA256", "AWS4-HMAC-SHA2567"),
        ("AWS4-HMAC-SHA256", "aws4-hmac-sha256"),
        ("AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256"),
        ("AWS4-HMAC-SHA256", " AWS4-HMAC-SHA256"),
        ("AWS4-HMAC-SHA256 ", "AWS4-HMAC-SHA256\t"),
        ("AWS4-HMAC-SHA256 ", "AWS4-HMAC-SHA256  "),
        ("AWS4-HMAC-SHA256 ", "AWS4-HMAC-SHA256\u{a0}"),
        (", SignedHeaders", ",\tSignedHeaders"),
        (", SignedHeaders", ", a=b, SignedHeaders"),
        ("Credential=", "Credential=KEY, Credential="),
        ("Credential=", "credential="),
        ("Credential=KEY", "Credential=A/KEY"),
        ("Credential=KEY", "Credential=K\u{e9}Y"),
        ("Credential=KEY", "Credential="),
        ("SignedHeaders=host", "SignedHeaders=host;host"),
        ("SignedHeaders=host", "SignedHeaders=Host;host"),
        ("SignedHeaders=host", "SignedHeaders=host;\u{e9}"),
        ("SignedHeaders=host", "SignedHeaders=;host"),
        ("000, ", "000"),
        ("0000", "000"),
    ] {
        for text in [&right, &other] {
            let changed = text.replacen(from, to, 1);
            if &changed != text {
                assert!(authorized(changed.as_bytes()).is_err(), "{changed}");
            }
        }
    }
    assert!(authorized(format!("{right} ").as_bytes()).is_err());
    assert!(authorized(format!("{right}, more").as_bytes()).is_err());
    assert!(authorized(&[right.as_bytes(), b"\xff"].concat()).is_err());
    assert!(authorized(b"").is_err());
}

#[test]
fn each_header_of_a_signature_occurs_exactly_once() {
    let right = header(SCOPE, "host;x-amz-content-sha256;x-amz-date");
    let stamp = "20260101T000000Z";
    let given = [("host", "h"), ("x-amz-date", stamp), ("x-amz-content-sha256", EMPTY), ("authorization", right.as_str())];
    assert_eq!(refused("/b/k", &given), None);
    for (name, code) in [("x-amz-date", "AccessDenied"), ("x-amz-content-sha256", "InvalidArgument"), ("authorization", "InvalidArgument")]
    {
        let value = given.iter().find(|(own, _)| *own == name).expect("it is there").1;
        let twice: Vec<_> = given.iter().copied().chain([(name, value)]).collect();
        assert_eq!(refused("/b/k", &twice).as_deref(), Some(code), "{name} twice");
    }
    for (name, code) in [("x-amz-date", "AccessDenied"), ("x-amz-content-sha256", "InvalidRequest")] {
        let without: Vec<_> = given.iter().copied().filter(|(own, _)| *own != name).collect();
        assert_eq!(refused("/b/k", &without).as_deref(), Some(code), "no {name}");
    }
}

#[test]
fn a_header_that_the_framework_omits_from_the_signature_counts_as_unsigned() {
    let authorization = header(SCOPE, "host;x-amz-content-sha256;x-amz-date;x-amz-meta-a");
    let with = |value: &'static [u8]| {
        let given: [(&'static str, &[u8]); 5] = [
            ("host", b"h"),
            ("x-amz-date", b"20260101T000000Z"),
            ("x-amz-content-sha256", EMPTY.as_bytes()),
            ("authorization", authorization.as_bytes()),
            ("x-amz-meta-a", value),
        ];
        read("/b/k", &given)
    };
    assert_eq!(with("é".as_bytes()), Ok(Signing::Header));
    assert_eq!(with(b"\xff"), Err("AccessDenied".to_owned()));
}

#[test]
fn the_time_of_signing_may_be_in_the_date_header() {
    let dated = |fields: &[(&'static str, &str)]| {
        let mut headers: HeaderMap =
            fields.iter().map(|(name, value)| ((*name).parse().expect("a name"), value.parse().expect("a value"))).collect();
        add_signing_time(&mut headers);
        headers.get(DATE).map(|value| value.to_str().expect("text").to_owned())
    };
    let signed = ("authorization", "AWS4-HMAC-SHA256 Credential=");
    assert_eq!(dated(&[signed, ("date", "Thu, 01 Jan 2026 02:03:04 GMT")]).as_deref(), Some("20260101T020304Z"));
    assert_eq!(dated(&[signed, ("date", "Thu, 01 Jan 2026 02:03:04 -0000")]).as_deref(), Some("20260101T020304Z"));
    assert_eq!(dated(&[signed, ("date", "20260101T020304Z")]).as_deref(), Some("20260101T020304Z"));
    assert_eq!(dated(&[signed, ("date", "20260101T020304Z"), ("x-amz-date", "20270101T000000Z")]).as_deref(), Some("20270101T000000Z"));
    assert_eq!(dated(&[signed, ("date", "yesterday")]), None);
    assert_eq!(dated(&[signed, ("date", "20261301T020304Z")]), None);
    assert_eq!(dated(&[("date", "20260101T020304Z")]), None);
}

fn url(expires: &str) -> String {
    format!(
        "/b/k?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={SCOPE}&X-Amz-Date=20260101T000000Z&X-Amz-Expires={expires}&X-Amz-SignedHeaders=host&X-Amz-Signature={}",
        "0".repeat(64)
    )
}

#[test]
fn a_presigned_url_lasts_a_week_at_most() {
    assert_eq!(refused(&url("604800"), &[("host", "h")]), None);
    for expires in ["604801", "99999999999999999999", "-1", "+1", "soon", ""] {
        assert_eq!(refused(&url(expires), &[("host", "h")]).as_deref(), Some("AuthorizationQueryParametersError"), "{expires}");
    }
    assert_eq!(refused(&url("60"), &[("host", "h"), ("x-amz-meta-a", "b")]).as_deref(), Some("AccessDenied"));
    assert_eq!(refused(&url("60"), &[("host", "h"), ("authorization", "AWS KEY:c2ln")]).as_deref(), Some("InvalidArgument"));
}

#[test]
fn a_presigned_url_has_each_parameter_exactly_once() {
    let right = url("60");
    assert_eq!(refused(&right.replace("X-Amz-Credential", "X-Amz%2DCredential"), &[("host", "h")]), None);
    for name in REQUIRED {
        let value = |uri: &str| refused(uri, &[("host", "h")]);
        let wrong = Some("AuthorizationQueryParametersError");
        assert_eq!(value(&right.replace(name, "other")).as_deref(), wrong, "no {name}");
        assert_eq!(value(&format!("{right}&{name}=1")).as_deref(), wrong, "{name} twice");
        assert_eq!(value(&right.replace(name, &name.to_lowercase())).as_deref(), wrong, "{name} in lower case");
        assert_eq!(value(&format!("/b/k?{name}=1")).as_deref(), wrong, "{name} alone");
    }
    let other = right.replace("Algorithm=AWS4-HMAC-SHA256", "Algorithm=FOO");
    assert_eq!(refused(&other, &[("host", "h")]).as_deref(), Some("AuthorizationQueryParametersError"));
}

#[test]
fn an_ambiguous_url_is_refused() {
    for uri in ["/b?prefix=sec%", "/b?prefix=%zz", "/b?prefix=%ff", "/b?%=x", "/b/k%", "/b/%fe"] {
        assert_eq!(refused(uri, &[]).as_deref(), Some("InvalidURI"), "{uri}");
    }
    assert_eq!(refused("/b?prefix=50%25&delimiter=%2f", &[]), None);
}

#[test]
fn unsigned_requests_have_no_signed_chunks_and_signed_ones_no_unannounced_chunks() {
    let unsigned = |payload: &str| refused("/b/k", &[("x-amz-content-sha256", payload)]);
    for payload in [EMPTY, "UNSIGNED-PAYLOAD", UNSIGNED_CHUNKS] {
        assert_eq!(unsigned(payload), None, "{payload}");
    }
    assert_eq!(unsigned("STREAMING-AWS4-HMAC-SHA256-PAYLOAD").as_deref(), Some("InvalidRequest"));
    assert_eq!(unsigned("STREAMING-").as_deref(), Some("InvalidArgument"));
    let authorization = header(SCOPE, "host;x-amz-content-sha256;x-amz-date;x-amz-decoded-content-length");
    let signed = |payload: &str| {
        let given = [
            ("host", "h"),
            ("x-amz-date", "20260101T000000Z"),
            ("x-amz-content-sha256", payload),
            ("x-amz-decoded-content-length", "5"),
            ("authorization", authorization.as_str()),
        ];
        refused("/b/k", &given)
    };
    assert_eq!(signed(UNSIGNED_CHUNKS), None);
    assert_eq!(signed("UNSIGNED-PAYLOAD").as_deref(), Some("InvalidRequest"));
}
