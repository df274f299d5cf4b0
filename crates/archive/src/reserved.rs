//! Names that an archive keeps for what it needs itself.
//!
//! They are ordinary objects, and go where all objects go. But they are nobody's files: the command line neither puts nor removes them, a listing or
//! a get of everything leaves them out, and no bucket can have the name of their folder.

use fulgurite_domain::ObjectName;

/// The folder of such names.
pub const RESERVED_FOLDER: &str = ".fulgurite";

/// Whether a name is kept: the folder itself, and all below it.
#[must_use]
pub fn is_reserved(name: &ObjectName) -> bool {
    name.0.strip_prefix(RESERVED_FOLDER.as_bytes()).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_and_what_is_in_it_are_kept_and_nothing_else() {
        let kept = |name: &str| is_reserved(&ObjectName(name.into()));
        assert!(kept(".fulgurite") && kept(".fulgurite/") && kept(".fulgurite/a/b"));
        assert!(!kept(".fulgurites") && !kept("a/.fulgurite/b") && !kept("fulgurite/a") && !kept(""));
    }
}
