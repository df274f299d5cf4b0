//! Content paths for logical paths: names that any file system can keep.
//!
//! A logical path can be anything: an ARK with colons and bars, text that a file system would
//! normalize, or a name that Windows reserves. The inventory keeps the logical path; the content
//! path is made of printable ASCII, with `%` and two hexadecimal digits for everything else.
//!
//! ```text
//! ark:/13030/x|1|producer/f   ->  ark%3a/13030/x%7c1%7cproducer/f
//! caf\u{e9}                   ->  caf%c3%a9
//! 300 times "x"               ->  150 times "x", then %-<SHA-256 of the part>
//! A.txt beside a.txt          ->  %hashed/<SHA-256 of the logical path>
//! ```
//!
//! `%-` and `%hashed` can't come from encoding, so no name is made twice.

use std::collections::HashSet;
use std::fmt::Write;

use fulgurite_digest::Algorithm;

use crate::object::digest;

/// Longest encoded part that is kept as it is. File systems keep 255 bytes.
const PART_BYTES_MAX: usize = 200;
/// Bytes that are kept of a longer part.
const PART_BYTES_KEPT: usize = 150;
/// Longest content path below the content folder, so that the object's own folder has room below
/// the limit of 4,096 bytes.
const PATH_BYTES_MAX: usize = 1_024;

/// Content paths given out in one version, relative to its content folder.
#[derive(Debug, Default)]
pub(super) struct ContentNames {
    /// In lower case, for file systems that ignore case.
    files: HashSet<String>,
    folders: HashSet<String>,
}

impl ContentNames {
    /// A content path for a logical path, different from all earlier ones whatever the file system.
    pub(super) fn assign(&mut self, logical_path: &str) -> String {
        let encoded = logical_path.split('/').map(encode_part).collect::<Vec<_>>().join("/");
        if encoded.len() <= PATH_BYTES_MAX && self.take(&encoded) {
            return encoded;
        }
        let hashed = format!("%hashed/{}", digest(logical_path.as_bytes(), Algorithm::Sha256).hex());
        self.take(&hashed);
        hashed
    }

    fn take(&mut self, path: &str) -> bool {
        let path = path.to_ascii_lowercase();
        let folders = || path.match_indices('/').map(|(at, _)| &path[..at]);
        if self.files.contains(&path) || self.folders.contains(&path) || folders().any(|folder| self.files.contains(folder)) {
            return false;
        }
        for folder in folders() {
            if !self.folders.contains(folder) {
                self.folders.insert(folder.to_owned());
            }
        }
        self.files.insert(path)
    }
}

fn encode_part(part: &str) -> String {
    let mut encoded = String::with_capacity(part.len());
    let is_device = is_device_name(part);
    for (index, byte) in part.bytes().enumerate() {
        let is_kept = (byte.is_ascii_graphic() || byte == b' ') && !br#"<>:"\|?*%"#.contains(&byte);
        // Windows drops dots and spaces at the end of a name.
        let is_dropped = index + 1 == part.len() && matches!(byte, b'.' | b' ');
        if is_kept && !is_dropped && !(is_device && index == 0) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02x}");
        }
    }
    if encoded.len() > PART_BYTES_MAX {
        // Not within an encoded byte.
        let end = (PART_BYTES_KEPT - 2..PART_BYTES_KEPT).find(|at| encoded.as_bytes()[*at] == b'%').unwrap_or(PART_BYTES_KEPT);
        encoded.truncate(end);
        let _ = write!(encoded, "%-{}", digest(part.as_bytes(), Algorithm::Sha256).hex());
    }
    encoded
}

/// True for names that Windows takes for devices, whatever extension they have.
fn is_device_name(part: &str) -> bool {
    let stem = part.split('.').next().unwrap_or_default().trim_end_matches(' ').to_ascii_uppercase();
    match stem.as_str() {
        "CON" | "PRN" | "AUX" | "NUL" | "CONIN$" | "CONOUT$" => true,
        stem => matches!(stem.as_bytes(), [b'C', b'O', b'M', digit] | [b'L', b'P', b'T', digit] if digit.is_ascii_digit()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_names_become_portable_ones() {
        for (logical, content) in [
            ("ark:/13030/x|1|producer/f", "ark%3a/13030/x%7c1%7cproducer/f"),
            ("with space/100%/a+b.txt", "with space/100%25/a+b.txt"),
            ("caf\u{e9}", "caf%c3%a9"),
            ("cafe\u{301}", "cafe%cc%81"),
            ("dot./end ", "dot%2e/end%20"),
            ("con/Nul.txt/com1/LPT9.tar.gz/com/console", "%63on/%4eul.txt/%63om1/%4cPT9.tar.gz/com/console"),
            ("back\\slash\tand\u{7f}", "back%5cslash%09and%7f"),
            (".hidden/...", ".hidden/..%2e"),
        ] {
            assert_eq!(ContentNames::default().assign(logical), content);
        }
    }

    #[test]
    fn long_names_are_cut_between_characters_and_stay_different() {
        let mut names = ContentNames::default();
        let mut assigned = HashSet::new();
        for length in 60..90 {
            for end in ["a", "b"] {
                let part = format!("x{}{end}", "é".repeat(length));
                let name = names.assign(&format!("folder/{part}"));
                let part = name.strip_prefix("folder/").unwrap();
                assert!(part.len() <= 255, "{part}");
                assert!(part.split_once("%-").is_none_or(|(kept, _)| (kept.len() - 1).is_multiple_of(3)), "{part}");
                assert!(assigned.insert(name));
            }
        }
        let deep = vec!["part"; 1_000].join("/");
        assert!(names.assign(&deep).starts_with("%hashed/"));
    }

    #[test]
    fn names_that_a_file_system_may_confuse_are_kept_apart() {
        let mut names = ContentNames::default();
        assert_eq!(names.assign("A.txt"), "A.txt");
        assert!(names.assign("a.txt").starts_with("%hashed/"));
        assert_eq!(names.assign("folder/x"), "folder/x");
        assert!(names.assign("Folder").starts_with("%hashed/"));
        assert!(names.assign("a.TXT/below").starts_with("%hashed/"));
        assert_eq!(names.assign("FOLDER/y"), "FOLDER/y");
    }
}
