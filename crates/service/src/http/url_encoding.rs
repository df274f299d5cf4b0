//! Percent encoding, as in URLs: of query parameters, of keys in responses, and of tags.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// URL-encodes text: everything but letters, digits and `-_.~` becomes `%XX`.
pub(crate) fn encode(text: &str) -> String {
    const ENCODED: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
    utf8_percent_encode(text, &ENCODED).to_string()
}

/// Decodes a name or value of a query, in which `+` is a space. `None` for text that isn't UTF-8,
/// and for a `%` without two digits, which the library would keep as it is.
pub(crate) fn decode(text: &str) -> Option<String> {
    let is_escape = |after: &str| after.as_bytes().get(..2).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
    let text = text.split('%').skip(1).all(is_escape).then(|| text.replace('+', " "))?;
    Some(percent_decode_str(&text).decode_utf8().ok()?.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips_and_malformed_escapes_are_refused() {
        for text in ["", "a b&c=d", "é+%/~"] {
            assert_eq!(decode(&encode(text)).as_deref(), Some(text));
        }
        assert_eq!(decode("a+b%2bc").as_deref(), Some("a b+c"));
        assert!(["%", "%f", "%zz", "%ff"].into_iter().all(|malformed| decode(malformed).is_none()));
    }
}
