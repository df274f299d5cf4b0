//! Identifiers of OCFL objects as parts of names.
//!
//! An identifier can be any text, such as `ark:/13030/x` or `https://example.org/a`. In the
//! archive it is a single part of a name, so that the objects of a storage root stay apart and
//! restoring makes one folder of each.
//!
//! ```text
//! ark:/13030/x|1   ->  ark:%2F13030%2Fx|1
//! 100%             ->  100%25
//! ..               ->  %2E%2E
//! ```

use std::fmt::Write;

/// The part of a name that stands for an identifier.
pub(crate) fn encode(id: &str) -> String {
    let is_dots = matches!(id, "." | "..");
    let mut encoded = String::with_capacity(id.len());
    for character in id.chars() {
        match character {
            '/' | '%' | '\0' => {
                let _ = write!(encoded, "%{:02X}", u32::from(character));
            }
            '.' if is_dots => encoded.push_str("%2E"),
            _ => encoded.push(character),
        }
    }
    encoded
}

/// Reverses [`encode`]. Other percent signs are part of the identifier.
pub(crate) fn decode(part: &str) -> String {
    let mut decoded = String::with_capacity(part.len());
    let mut rest = part;
    while let Some(at) = rest.find('%') {
        decoded.push_str(&rest[..at]);
        let character = match rest.as_bytes().get(at + 1..at + 3) {
            Some(b"2F") => Some('/'),
            Some(b"25") => Some('%'),
            Some(b"00") => Some('\0'),
            Some(b"2E") => Some('.'),
            _ => None,
        };
        decoded.push(character.unwrap_or('%'));
        rest = &rest[at + if character.is_some() { 3 } else { 1 }..];
    }
    decoded + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_identifier_is_one_part_of_a_name_and_comes_back() {
        for (id, encoded) in [
            ("ark:/13030/x|1|producer", "ark:%2F13030%2Fx|1|producer"),
            ("https://example.org//a", "https:%2F%2Fexample.org%2F%2Fa"),
            ("100%", "100%25"),
            ("%2F", "%252F"),
            (".", "%2E"),
            ("..", "%2E%2E"),
            ("...", "..."),
            ("a\0b", "a%00b"),
            ("ü 日本", "ü 日本"),
        ] {
            assert_eq!(encode(id), encoded);
            assert_eq!(decode(encoded), id);
        }
        assert_eq!(decode("50% of 2%"), "50% of 2%");
    }
}
