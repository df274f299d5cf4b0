//! Names that an archive reserves for itself.
//!
//! They are ordinary objects and are stored like all others. But they are not user files: the
//! command line neither puts nor removes them, listings and restores of everything omit them, and
//! no bucket can have the name of their folder.

use fulgurite_domain::ObjectName;

/// Folder of the reserved names.
pub const RESERVED_FOLDER: &str = ".fulgurite";

/// True if a name is reserved: the folder itself and everything below it.
#[must_use]
pub fn is_reserved(name: &ObjectName) -> bool {
    name.0.strip_prefix(RESERVED_FOLDER.as_bytes()).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_folder_and_its_content_are_reserved() {
        let kept = |name: &str| is_reserved(&ObjectName(name.into()));
        assert!(kept(".fulgurite") && kept(".fulgurite/") && kept(".fulgurite/a/b"));
        assert!(!kept(".fulgurites") && !kept("a/.fulgurite/b") && !kept("fulgurite/a") && !kept(""));
    }
}
