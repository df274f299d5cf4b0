//! Logical paths and content paths: parts joined by `/`, safe to join to a folder.

use std::cmp::Ordering;

/// What makes a path unusable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathFault {
    /// It is empty, or begins or ends with `/`.
    Slash,
    /// A part is `.`, `..` or empty.
    Part,
}

/// Checks the rules that logical paths and content paths share.
///
/// # Errors
/// What is wrong with the path. A path that passes stays in the folder that it is joined to, on
/// systems where `/` is the only separator.
///
/// Source: OCFL 1.1, 3.5.2 and 3.5.3.1.
pub fn check_path(path: &str) -> Result<(), PathFault> {
    if path.is_empty() || path.starts_with('/') || path.ends_with('/') {
        return Err(PathFault::Slash);
    }
    if path.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err(PathFault::Part);
    }
    Ok(())
}

/// Two paths of one list that exclude each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Conflict<'a> {
    /// The path occurs more than once.
    Repeated(&'a str),
    /// The path of a file is also the folder of another.
    Folder {
        /// The path of the file.
        file: &'a str,
        /// A path below it.
        below: &'a str,
    },
}

/// Reports repeated paths, and files that are folders of other files: each file once.
///
/// With `/` before all other bytes, a path sorts directly before those below it, so neighbours
/// reveal every conflict, in a time that no choice of paths makes quadratic.
pub(crate) fn find_conflicts<'a>(paths: impl Iterator<Item = &'a str>, mut report: impl FnMut(Conflict<'a>)) {
    let mut sorted: Vec<&str> = paths.collect();
    sorted.sort_unstable_by(|a, b| by_parts(a, b));
    for pair in sorted.windows(2) {
        match pair[1].strip_prefix(pair[0]) {
            Some("") => report(Conflict::Repeated(pair[0])),
            Some(rest) if rest.starts_with('/') => report(Conflict::Folder { file: pair[0], below: pair[1] }),
            _ => {}
        }
    }
}

fn by_parts(a: &str, b: &str) -> Ordering {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let rank = |byte: u8| if byte == b'/' { 0 } else { u16::from(byte) + 1 };
    match a.iter().zip(b).position(|(a, b)| a != b) {
        Some(at) => rank(a[at]).cmp(&rank(b[at])),
        None => a.len().cmp(&b.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsafe_paths_are_told_from_odd_ones() {
        for path in ["a", "a/b", ".a", "a..b/...", " ", "ark:/13030/x|1|producer/f", "a\\..\\b", "%2e%2e/a"] {
            assert_eq!(check_path(path), Ok(()), "{path}");
        }
        for path in ["", "/", "/a", "a/", "//"] {
            assert_eq!(check_path(path), Err(PathFault::Slash), "{path}");
        }
        for path in [".", "..", "a/../b", "a/./b", "a//b", "../a", "a/.."] {
            assert_eq!(check_path(path), Err(PathFault::Part), "{path}");
        }
    }

    #[test]
    fn repeated_paths_and_files_that_are_folders_are_found() {
        let mut found = Vec::new();
        find_conflicts(["a/b/c", "a/b", "a/b-c", "a/b!/c", "x", "x", "ab/c", "a\0/b"].into_iter(), |conflict| found.push(conflict));
        assert_eq!(found, [Conflict::Folder { file: "a/b", below: "a/b/c" }, Conflict::Repeated("x")]);
    }
}
