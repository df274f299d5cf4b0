//! Which locations are accepted: the same rules for every kind of place.

use fulgurite_new_file::part_name;

use super::{Cause, Refusal};

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
    let folder = location.rfind('/').map_or("", |end| &location[..=end]);
    format!("{folder}{}", part_name())
}

#[cfg(test)]
mod tests {
    use fulgurite_new_file::PART_PREFIX;

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
