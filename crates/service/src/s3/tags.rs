//! Tags: up to ten per object and fifty per bucket, stored URL-encoded as in the header.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use s3s::dto::Tag;
use s3s::{S3Result, s3_error};

/// Maximum number of tags of an object.
pub(crate) const OBJECT_TAGS_MAX: usize = 10;
/// Maximum number of tags of a bucket.
pub(crate) const BUCKET_TAGS_MAX: usize = 50;

/// Parses `x-amz-tagging`: `name=value&name=value`, each URL-encoded.
pub(crate) fn parse(text: &str) -> S3Result<Vec<Tag>> {
    let decode = |text: &str| {
        decode(text).ok_or_else(|| {
            s3_error!(
                InvalidArgument,
                "The header 'x-amz-tagging' shall be encoded as UTF-8 then URLEncoded URL query parameters without tag name duplicates."
            )
        })
    };
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    let tags = pairs.map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        Ok(Tag { key: Some(decode(key)?), value: Some(decode(value)?) })
    });
    tags.collect()
}

/// Checks tags against the limits of S3.
pub(crate) fn check(tags: &[Tag], tags_max: usize) -> S3Result<()> {
    if tags.len() > tags_max {
        return Err(s3_error!(
            InvalidTag,
            "{} tags cannot be greater than {tags_max}",
            if tags_max == OBJECT_TAGS_MAX { "Object" } else { "Bucket" }
        ));
    }
    let mut names = std::collections::BTreeSet::new();
    for tag in tags {
        let (key, value) = (tag.key.as_deref().unwrap_or_default(), tag.value.as_deref().unwrap_or_default());
        if key.is_empty() || key.chars().count() > 128 {
            return Err(s3_error!(InvalidTag, "The TagKey you have provided is invalid"));
        }
        if value.chars().count() > 256 {
            return Err(s3_error!(InvalidTag, "The TagValue you have provided is invalid"));
        }
        let is_allowed = |c: char| c.is_alphanumeric() || c == ' ' || "+-=._:/@".contains(c);
        if !key.chars().all(is_allowed) {
            return Err(s3_error!(InvalidTag, "The TagKey you have provided is invalid"));
        }
        if !value.chars().all(is_allowed) {
            return Err(s3_error!(InvalidTag, "The TagValue you have provided is invalid"));
        }
        if key.starts_with("aws:") {
            return Err(s3_error!(InvalidTag, "System tags cannot be added/updated by requester"));
        }
        if !names.insert(key) {
            return Err(s3_error!(InvalidTag, "Cannot provide multiple Tags with the same key"));
        }
    }
    Ok(())
}

/// Encodes tags for storage.
pub(crate) fn encode(tags: &[Tag]) -> String {
    let pair = |tag: &Tag| {
        format!("{}={}", encode_text(tag.key.as_deref().unwrap_or_default()), encode_text(tag.value.as_deref().unwrap_or_default()))
    };
    tags.iter().map(pair).collect::<Vec<_>>().join("&")
}

/// URL-encodes text: everything but letters, digits and `-_.~` becomes `%XX`.
pub(crate) fn encode_text(text: &str) -> String {
    const ENCODED: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
    utf8_percent_encode(text, &ENCODED).to_string()
}

/// Decodes a part of a query. `None` for text that isn't UTF-8, and for a `%` without two digits,
/// which the library would keep as it is.
pub(crate) fn decode(text: &str) -> Option<String> {
    let is_escape = |after: &str| after.as_bytes().get(..2).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
    let text = text.split('%').skip(1).all(is_escape).then(|| text.replace('+', " "))?;
    Some(percent_decode_str(&text).decode_utf8().ok()?.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_round_trip() {
        let tags = vec![
            Tag { key: Some("a b&c=d".into()), value: Some("é+%".into()) },
            Tag { key: Some("empty".into()), value: Some(String::new()) },
        ];
        assert_eq!(parse(&encode(&tags)).expect("tags"), tags);
        assert!(parse("%f").is_err() && parse("%ff=x").is_err());
    }
}
