//! Paths in manifests: percent-encoding, what is refused, and when two paths may mean one file.

use unicode_normalization::{UnicodeNormalization, is_nfc};

use crate::declaration::Version;
use crate::finding::PathRefusal;

/// PATH_MAX of Linux. It also limits what a finding about a path takes in memory.
const LONGEST_BYTES: usize = 4096;

/// The payload folder, as paths begin with it.
pub(crate) const PAYLOAD: &str = "data/";

/// Encodes a path for a manifest or fetch.txt: line ends and, from 1.0, percent signs.
///
/// Source: RFC 8493, section 2.1.3. Software for older versions encodes and decodes line ends only.
pub(crate) fn encode(path: &str, version: Version) -> String {
    let mut encoded = String::with_capacity(path.len());
    for character in path.chars() {
        match character {
            '\n' => encoded.push_str("%0A"),
            '\r' => encoded.push_str("%0D"),
            '%' if version.is_final() => encoded.push_str("%25"),
            _ => encoded.push(character),
        }
    }
    encoded
}

/// Reverses [`encode`]. Other percent-encodings are part of the name.
pub(crate) fn decode(listed: &str, version: Version) -> String {
    if !listed.contains('%') {
        return listed.to_owned();
    }
    let mut decoded = String::with_capacity(listed.len());
    let mut rest = listed;
    while let Some(at) = rest.find('%') {
        decoded.push_str(&rest[..at]);
        let code = rest.as_bytes().get(at + 1..at + 3).unwrap_or_default();
        let character = match code {
            b"0A" | b"0a" => Some('\n'),
            b"0D" | b"0d" => Some('\r'),
            b"25" if version.is_final() => Some('%'),
            _ => None,
        };
        decoded.push(character.unwrap_or('%'));
        rest = &rest[at + if character.is_some() { 3 } else { 1 }..];
    }
    decoded + rest
}

/// A key that is equal for all paths that could mean one file: whatever their percent-encoding,
/// Unicode normalization and case. Files with one key are compared exactly.
pub(crate) fn key(path: &[u8]) -> Vec<u8> {
    let Ok(text) = std::str::from_utf8(path) else { return path.to_vec() };
    let mut collapsed = String::with_capacity(text.len());
    for character in text.chars() {
        collapsed.push(character);
        // What was decoded can be part of another code, so that `%2525` and `%` get one key.
        let tail = collapsed.as_bytes();
        let decoded = match &tail[tail.len().saturating_sub(3)..] {
            b"%0A" | b"%0a" => '\n',
            b"%0D" | b"%0d" => '\r',
            b"%25" => '%',
            _ => continue,
        };
        collapsed.truncate(collapsed.len() - 3);
        collapsed.push(decoded);
    }
    if collapsed.is_ascii() {
        collapsed.make_ascii_lowercase();
        return collapsed.into_bytes();
    }
    collapsed.nfc().collect::<String>().to_lowercase().nfc().collect::<String>().into_bytes()
}

/// True if the paths are equal after normalization.
pub(crate) fn is_same_normalized(a: &[u8], b: &[u8]) -> bool {
    match (std::str::from_utf8(a), std::str::from_utf8(b)) {
        (Ok(a), Ok(b)) => a == b || (!(is_nfc(a) && is_nfc(b)) && a.nfc().eq(b.nfc())),
        _ => a == b,
    }
}

/// True if the paths differ in case or normalization only.
pub(crate) fn is_same_but_case(a: &[u8], b: &[u8]) -> bool {
    let fold = |path| std::str::from_utf8(path).map(|path: &str| path.nfc().collect::<String>().to_lowercase().nfc().collect::<String>());
    matches!((fold(a), fold(b)), (Ok(a), Ok(b)) if a == b)
}

/// Refuses paths that could lead out of the bag, and those that no file can have.
pub(crate) fn check(path: &str) -> Result<(), PathRefusal> {
    let has_scheme = path.split_once(':').is_some_and(|(scheme, rest)| {
        // A drive such as C:, or a URL. `ark:/13030/x` has one slash and stays a name.
        (scheme.len() == 1 && rest.starts_with(['/', '\\']) && scheme.bytes().all(|letter| letter.is_ascii_alphabetic()))
            || (rest.starts_with("//") && !scheme.contains('/'))
    });
    if path.is_empty() {
        Err(PathRefusal::Empty)
    } else if path.len() > LONGEST_BYTES {
        Err(PathRefusal::TooLong)
    } else if path.contains('\0') {
        Err(PathRefusal::Nul)
    } else if path.starts_with(['/', '\\']) || has_scheme {
        Err(PathRefusal::Absolute)
    } else if path.ends_with('/') {
        Err(PathRefusal::Folder)
    } else if path.split('/').any(|part| matches!(part, "" | "." | "..")) {
        Err(PathRefusal::Dots)
    } else {
        Ok(())
    }
}

/// Refuses paths that are not those of a payload file.
pub(crate) fn check_payload(path: &str) -> Result<(), PathRefusal> {
    check(path)?;
    if path.starts_with(PAYLOAD) { Ok(()) } else { Err(PathRefusal::OutsideOfPayload) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_path_survives_its_encoding(path in "[a%025AaDd\n\r/é]{0,12}") {
            let encoded = encode(&path, Version::V1_0);
            prop_assert!(!encoded.contains(['\n', '\r']));
            prop_assert_eq!(decode(&encoded, Version::V1_0), path.clone());
            prop_assert_eq!(key(encoded.as_bytes()), key(path.as_bytes()));
        }

        #[test]
        fn spellings_of_one_name_have_one_key(path in "\\PC{0,12}") {
            let (composed, decomposed): (String, String) = (path.nfc().collect(), path.nfd().collect());
            prop_assert_eq!(key(composed.as_bytes()), key(decomposed.as_bytes()));
            prop_assert!(is_same_normalized(composed.as_bytes(), decomposed.as_bytes()));
        }
    }

    #[test]
    fn only_line_ends_and_percent_signs_are_encoded() {
        assert_eq!(encode("data/a b%20c\r\nü", Version::V1_0), "data/a b%2520c%0D%0Aü");
        assert_eq!(encode("data/a b%20c\r\nü", Version::V0_97), "data/a b%20c%0D%0Aü");
        assert_eq!(decode("data/%20%0a%0D%25%%2", Version::V1_0), "data/%20\n\r%%%2");
        assert_eq!(decode("data/%25%0A", Version::V0_97), "data/%25\n");
    }

    #[test]
    fn paths_out_of_the_bag_are_refused() {
        for (path, refusal) in [
            ("", PathRefusal::Empty),
            ("/etc/passwd", PathRefusal::Absolute),
            // No shell expands it, so it is an ordinary name.
            ("~/x", PathRefusal::OutsideOfPayload),
            ("~root/x", PathRefusal::OutsideOfPayload),
            ("\\\\server\\share", PathRefusal::Absolute),
            ("C:\\x", PathRefusal::Absolute),
            ("file:///etc/passwd", PathRefusal::Absolute),
            ("../x", PathRefusal::Dots),
            ("data/../../x", PathRefusal::Dots),
            ("data/..", PathRefusal::Dots),
            ("data//x", PathRefusal::Dots),
            ("data/./x", PathRefusal::Dots),
            ("data/", PathRefusal::Folder),
            ("data/a\0b", PathRefusal::Nul),
            ("data", PathRefusal::OutsideOfPayload),
            ("database/x", PathRefusal::OutsideOfPayload),
            ("$HOME/x", PathRefusal::OutsideOfPayload),
        ] {
            assert_eq!(check_payload(path), Err(refusal), "{path:?}");
        }
        let long = |bytes: usize| format!("data/{}", "x/".repeat(bytes / 2)) + "yy";
        assert_eq!(check_payload(&long(4096)), Err(PathRefusal::TooLong));
        assert_eq!(check_payload(&long(4088)), Ok(()));
        for path in ["data/a", "data/ark:/13030/x|1|producer/f", "data/...", "data/a\\b", "data/ ", "data/~", "data/C:"] {
            assert_eq!(check_payload(path), Ok(()), "{path:?}");
        }
        for path in ["notes.txt", "~notes", "ark:/x"] {
            assert_eq!(check(path), Ok(()), "{path:?}");
        }
    }
}
