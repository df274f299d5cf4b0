//! Client side of Signature Version 4, so that generated requests pass the signature check.

use std::fmt::Write;

use aws_lc_rs::{digest, hmac};
use http::{HeaderMap, HeaderValue, Method, Uri, header};

use crate::http::url_encoding::{decode, encode};
use crate::state::{NewKey, hex};

const REGION: &str = "us-east-1";

/// Signs a request with all of its headers, at the current time.
pub(super) fn sign(method: &Method, uri: &Uri, headers: &mut HeaderMap, key: &NewKey) {
    let now = time::OffsetDateTime::now_utc();
    let (date, clock) = (now.date(), now.time());
    let day = format!("{:04}{:02}{:02}", date.year(), u8::from(date.month()), date.day());
    let stamp = format!("{day}T{:02}{:02}{:02}Z", clock.hour(), clock.minute(), clock.second());
    headers.insert("x-amz-date", HeaderValue::try_from(&stamp).expect("a time is a value"));
    headers.entry("x-amz-content-sha256").or_insert(HeaderValue::from_static("UNSIGNED-PAYLOAD"));

    let mut names: Vec<&str> = headers.keys().map(header::HeaderName::as_str).collect();
    names.sort_unstable();
    let signed = names.join(";");
    let mut canonical = format!("{method}\n{}\n{}\n", path(uri.path()), query(uri.query().unwrap_or_default()));
    for name in names {
        let values: Vec<String> = headers.get_all(name).iter().map(|value| plain(value.as_bytes())).collect();
        let _ = writeln!(canonical, "{name}:{}", values.join(","));
    }
    let payload = headers.get("x-amz-content-sha256").map(|value| plain(value.as_bytes())).unwrap_or_default();
    let _ = write!(canonical, "\n{signed}\n{payload}");

    let scope = format!("{day}/{REGION}/s3/aws4_request");
    let canonical = hex(digest::digest(&digest::SHA256, canonical.as_bytes()).as_ref());
    let to_sign = format!("AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{canonical}");
    let mut secret = format!("AWS4{}", key.secret_key).into_bytes();
    for part in [&day, REGION, "s3", "aws4_request", &to_sign] {
        secret = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &secret), part.as_bytes()).as_ref().to_vec();
    }
    let value = format!("AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={signed}, Signature={}", key.access_key, hex(&secret));
    headers.insert(header::AUTHORIZATION, HeaderValue::try_from(value).expect("header names are ASCII"));
}

/// A canonical header value: trimmed, with single spaces inside.
fn plain(value: &[u8]) -> String {
    String::from_utf8_lossy(value).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A canonical path. In paths `+` is not a space.
fn path(path: &str) -> String {
    let decoded = decode(&path.replace('+', "%2B")).unwrap_or_else(|| path.to_owned());
    decoded.split('/').map(encode).collect::<Vec<_>>().join("/")
}

fn query(query: &str) -> String {
    let text = |text: &str| encode(&decode(text).unwrap_or_else(|| text.to_owned()));
    let pairs = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let mut pairs: Vec<(String, String)> = pairs.map(|(name, value)| (text(name), text(value))).collect();
    pairs.sort();
    pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
}
