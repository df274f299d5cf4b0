//! Which locations are accepted: the same rules for every kind of place.

use super::{Cause, Refusal};

/// Parts of file names of writes under way. Listings leave them out, because such a file isn't
/// complete; a crash may leave some.
pub(super) const PART_PREFIX: &str = ".fulgurite-part-";

/// Accepts relative locations of named components. Whatever else a location contains is passed on
/// as it is: nothing is trimmed, folded or decoded.
///
/// # Errors
/// [`Cause::Unsupported`] for locations that could lead out of the place, or that places would
/// read in different ways.
pub(super) fn check(location: &str) -> Result<(), Refusal> {
    let problem = if location.is_empty() {
        "it is empty"
    } else if location.contains('\0') {
        "it contains a NUL character"
    } else if location.starts_with('/') {
        "it starts with a slash; locations are relative to the place"
    } else if location.ends_with('/') {
        "it ends with a slash, as folders do"
    } else if location.split('/').any(str::is_empty) {
        "it contains two slashes in a row"
    } else if location.split('/').any(|part| part == "." || part == "..") {
        "it contains \".\" or \"..\" as a folder"
    } else {
        return Ok(());
    };
    Err(Refusal::new(Cause::Unsupported, format!("invalid location {location:?}: {problem}")))
}

/// A new temporary name beside `location`, different from all others of this process.
pub(super) fn part_beside(location: &str) -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let folder = location.rfind('/').map_or("", |end| &location[..=end]);
    // Two processes, perhaps on two machines, may write to one place.
    let nanos = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |now| now.as_nanos());
    let (process, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    format!("{folder}{PART_PREFIX}{nanos:x}-{process:x}-{number:x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_that_could_lead_out_of_a_place_are_refused() {
        for bad in ["", "/", "/etc/passwd", "..", "../x", "a/../../x", "a/./b", ".", "a//b", "a/", "a\0b"] {
            assert_eq!(check(bad).map_err(|refusal| refusal.cause), Err(Cause::Unsupported), "{bad:?}");
        }
        for good in ["a", "a/b.c", "...", "a..b/..c", " a ", "%2e%2e/x", "ü/日本", "a\\b", "a\nb"] {
            assert!(check(good).is_ok(), "{good:?}");
        }
    }

    #[test]
    fn temporary_names_are_in_the_same_folder_and_never_repeat() {
        let (first, second) = (part_beside("a/b/c"), part_beside("a/b/c"));
        assert!(first.starts_with(&format!("a/b/{PART_PREFIX}")) && first != second);
        assert!(part_beside("c").starts_with(PART_PREFIX));
    }
}
