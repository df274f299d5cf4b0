//! Names of files that aren't UTF-8, as locations.
//!
//! ```text
//! bytes    63 61 66 e9                 "café" in Latin-1
//! location "caf‛E9"                    as rclone writes it: U+201B and two hex digits for each byte
//! ```
//!
//! A file system accepts almost any bytes as a name, and old ones have names in old encodings.
//! Locations are text. Each file has one location, and each location stands for one file: a name
//! that contains U+201B and two such digits itself is written with the bytes of U+201B.

use std::borrow::Cow;

/// Marks a quoted byte.
const QUOTE: char = '\u{201b}';

/// The location of a file with this name or path.
#[must_use]
pub fn location_of(name: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(name) {
        Ok(text) if !text.contains(QUOTE) => return Cow::Borrowed(text),
        _ => {}
    }
    let mut location = String::with_capacity(name.len() + 16);
    for chunk in name.utf8_chunks() {
        let valid = chunk.valid();
        for (index, character) in valid.char_indices() {
            if character == QUOTE && quoted_byte(&valid[index..]).is_some() {
                quote(QUOTE.encode_utf8(&mut [0; 4]).as_bytes(), &mut location);
            } else {
                location.push(character);
            }
        }
        quote(chunk.invalid(), &mut location);
    }
    Cow::Owned(location)
}

/// The name or path of the file at a location.
#[must_use]
pub fn name_at(location: &str) -> Cow<'_, [u8]> {
    if !location.contains(QUOTE) {
        return Cow::Borrowed(location.as_bytes());
    }
    let mut name = Vec::with_capacity(location.len());
    let mut rest = location;
    while let Some(character) = rest.chars().next() {
        match quoted_byte(rest) {
            Some(byte) => {
                name.push(byte);
                rest = &rest[QUOTE.len_utf8() + 2..];
            }
            None => {
                let (one, others) = rest.split_at(character.len_utf8());
                name.extend(one.as_bytes());
                rest = others;
            }
        }
    }
    // A location that no name has is a name itself: "‛2F" must not become a slash.
    if location_of(&name) == location { Cow::Owned(name) } else { Cow::Borrowed(location.as_bytes()) }
}

fn quote(bytes: &[u8], location: &mut String) {
    for byte in bytes {
        location.push(QUOTE);
        location.push_str(&format!("{byte:02X}"));
    }
}

/// The byte that a text begins with, if it is written in this way.
fn quoted_byte(text: &str) -> Option<u8> {
    let digits = text.strip_prefix(QUOTE)?.as_bytes().get(..2)?;
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'A'..=b'F');
    let digits = std::str::from_utf8(digits).ok().filter(|digits| digits.as_bytes().iter().all(is_digit))?;
    u8::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_utf_8_are_locations_and_other_bytes_are_written_as_digits() {
        for text in ["", "a/b", "ü/日本", "a\u{201b}b", "\u{201b}", "\u{201b}e9", "\u{201b}4"] {
            assert_eq!((location_of(text.as_bytes()).as_ref(), name_at(text).as_ref()), (text, text.as_bytes()));
        }
        assert_eq!(location_of(b"caf\xe9/\xff\xfe"), "caf\u{201b}E9/\u{201b}FF\u{201b}FE");
        assert_eq!(name_at("caf\u{201b}E9/x").as_ref(), b"caf\xe9/x");
    }

    #[test]
    fn no_location_becomes_another_path() {
        // Neither a slash nor a dot is ever hidden.
        for text in ["a\u{201b}2Fb", "\u{201b}2E\u{201b}2E", "\u{201b}00", "\u{201b}C3\u{201b}BC"] {
            assert_eq!(name_at(text).as_ref(), text.as_bytes());
        }
    }

    #[test]
    fn each_name_has_one_location_and_each_location_one_name() {
        let pieces: [&[u8]; 9] = [b"a", b"/", b"\xe2\x80\x9b", b"E9", b"\xe9", b"\xe2", b"\x80", b"\x9b", b"\xc3\xbc"];
        // All sequences of five of them.
        for number in 0..9_usize.pow(5) {
            let name: Vec<u8> = (0..5).flat_map(|place| pieces[number / 9_usize.pow(place) % 9].to_vec()).collect();
            let location = location_of(&name).into_owned();
            assert_eq!(name_at(&location).as_ref(), name, "{location}");
        }
    }
}
