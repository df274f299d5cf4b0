//! Text for XML, and identifiers as IRIs.
//!
//! XML 1.0 can't contain most control characters, nor U+FFFE and U+FFFF, not even escaped. A text
//! that has one is percent-encoded: those characters and the percent sign become `%` and two
//! hexadecimal digits for each byte of UTF-8. The text is marked, so that it can be decoded. Names
//! that aren't UTF-8 are encoded and marked in the same way, in JSON-LD too.

use std::borrow::Cow;
use std::fmt::Write;

/// Marks a text that is percent-encoded.
const MARK: &str = "percent-encoded";

/// A text that is percent-encoded, with the mark before it.
pub(crate) fn marked(encoded: &str) -> String {
    format!("{MARK}: {encoded}")
}

/// The kind of an identifier whose value is percent-encoded.
pub(crate) fn marked_kind(kind: &str) -> String {
    format!("{kind} ({MARK})")
}

fn is_allowed(character: char) -> bool {
    !matches!(character, '\0'..='\x08' | '\x0b' | '\x0c' | '\x0e'..='\x1f' | '\u{fffe}' | '\u{ffff}')
}

/// Returns a text that XML 1.0 can contain, and whether it is percent-encoded.
pub(crate) fn for_xml(text: &str) -> (Cow<'_, str>, bool) {
    if text.chars().all(is_allowed) {
        return (Cow::Borrowed(text), false);
    }
    (Cow::Owned(percent_encode(text, |character| is_allowed(character) && character != '%')), true)
}

/// Returns the text for a name that may not be UTF-8, and whether it is percent-encoded: then every
/// byte that is part of no character, and what XML 1.0 can't contain, is `%` and two digits.
pub(crate) fn for_name(name: &[u8]) -> (Cow<'_, str>, bool) {
    if let Ok(text) = std::str::from_utf8(name) {
        return (Cow::Borrowed(text), false);
    }
    let mut encoded = String::with_capacity(name.len() + 8);
    for chunk in name.utf8_chunks() {
        encoded += &percent_encode(chunk.valid(), |character| is_allowed(character) && character != '%');
        for byte in chunk.invalid() {
            // Writing to a string can't fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    (Cow::Owned(encoded), true)
}

fn percent_encode(text: &str, keep: impl Fn(char) -> bool) -> String {
    let mut encoded = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        if keep(character) {
            encoded.push(character);
        } else {
            for byte in character.encode_utf8(&mut [0; 4]).bytes() {
                // Writing to a string can't fail.
                let _ = write!(encoded, "%{byte:02X}");
            }
        }
    }
    encoded
}

/// Escapes a text for an element. Carriage returns would otherwise become line feeds.
pub(crate) fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(['&', '<', '>', '"', '\r']) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\r' => escaped.push_str("&#13;"),
            other => escaped.push(other),
        }
    }
    Cow::Owned(escaped)
}

/// The IRI of an identifier: the identifier itself if it is one, and otherwise one below `base`
/// that no other identifier has.
pub(crate) fn iri(base: &str, kind: &str, value: &str) -> String {
    if kind.eq_ignore_ascii_case("uuid") && is_uuid(value) {
        return format!("urn:uuid:{}", value.to_ascii_lowercase());
    }
    if matches!(kind.to_ascii_lowercase().as_str(), "uri" | "url" | "iri" | "urn") && is_iri(value) {
        return value.to_owned();
    }
    // Unreserved characters of RFC 3986, and nothing else.
    let encode = |text| percent_encode(text, |character| character.is_ascii_alphanumeric() || matches!(character, '-' | '.' | '_' | '~'));
    format!("{base}{}/{}", encode(kind), encode(value))
}

fn is_uuid(value: &str) -> bool {
    value.len() == 36
        && value.bytes().enumerate().all(|(index, byte)| match index {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

fn is_iri(value: &str) -> bool {
    let has_scheme = value.split_once(':').is_some_and(|(scheme, rest)| {
        scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
            && !rest.is_empty()
    });
    let is_clean = |character: char| {
        !character.is_control()
            && !character.is_whitespace()
            && !matches!(character, '<' | '>' | '"' | '{' | '}' | '|' | '\\' | '^' | '`' | '\u{fffe}' | '\u{ffff}')
    };
    has_scheme && value.chars().all(is_clean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_texts_that_xml_cannot_contain_are_encoded() {
        assert_eq!(for_xml("100% <é>\t\r\n\u{7f}\u{10000}"), (Cow::Borrowed("100% <é>\t\r\n\u{7f}\u{10000}"), false));
        let (text, is_encoded) = for_xml("100%\u{1}\u{ffff}\0");
        assert_eq!((&*text, is_encoded), ("100%25%01%EF%BF%BF%00", true));
    }

    #[test]
    fn only_names_that_are_not_utf_8_are_encoded_for_every_form() {
        assert_eq!(for_name("100%\u{1}é".as_bytes()), (Cow::Borrowed("100%\u{1}é"), false));
        assert_eq!(for_name(b"caf\xe9 100%\x01\xc3\xa9"), (Cow::Owned("caf%E9 100%25%01é".to_owned()), true));
    }

    #[test]
    fn identifiers_have_iris_of_their_own() {
        let base = "https://example.org/";
        assert_eq!(iri(base, "UUID", "12DE70C6-09AA-43E6-9F75-72D90559E8BA"), "urn:uuid:12de70c6-09aa-43e6-9f75-72d90559e8ba");
        assert_eq!(iri(base, "URI", "https://a/é#b"), "https://a/é#b");
        assert_eq!(iri(base, "URI", "not an iri"), "https://example.org/URI/not%20an%20iri");
        assert_eq!(iri(base, "ARK", "ark:/13030/x|1"), "https://example.org/ARK/ark%3A%2F13030%2Fx%7C1");
        assert_ne!(iri(base, "a/b", "c"), iri(base, "a", "b/c"));
    }
}
